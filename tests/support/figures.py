"""Figures in the running text of README and documents, and what holds each of them."""

import re

import yaml

from .paths import ROOT

BLOCKS = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
PYTHON = re.compile(r"^```python.*?^```", re.MULTILINE | re.DOTALL)
TABLES = re.compile(r"^(?:\||- (?:p\d\d|within|Intervals|Mean error|Within the|The last|Spread)\b).*$", re.MULTILINE)
"""Rows of tables, and the lines that `make validation` and `python -m benchmarks fits` write."""
CODE = re.compile(r"`[^`\n]*`")
NUMBER = r"\d[\d,]*(?:\.\d+)?"
UNIT = r"figures|networks|throughputs|measurements|providers|%|ms|us|s|kB|MB|GB|points?|times|TFLOP/s|TB/s|GB/s|W"
END = r"(?![\w/-])"
FIGURE = re.compile(
    rf"(?<![\w.,$/-])(?P<number>{NUMBER})"
    rf"(?: ?(?P<unit>{UNIT}){END}|,? (?:and|or|to|of) (?=\$?{NUMBER} ?(?P<next>{UNIT}){END}))|(?P<usd>\$){NUMBER}"
)
STEP = re.compile(rf"(?P<number>{NUMBER})(?: ?(?P<unit>{UNIT}){END})?")
BARE = {"points", "point", "times", "figures", "networks", "throughputs", "measurements", "providers"}
"""Units that a table has in its head."""
LEDGER = yaml.safe_load((ROOT / "tests" / "data" / "figures.yaml").read_text(encoding="utf-8"))


def amount(number):
    return float(number.replace(",", ""))


def figures_of(text):
    """Figures with a unit, as (number, unit)."""
    for found in FIGURE.finditer(text):
        if found["usd"]:
            yield found[0][1:], "$"
        else:
            yield found["number"], found["unit"] or found["next"]


def prose(page):
    """Without blocks, tables and code."""
    return CODE.sub("``", TABLES.sub("", BLOCKS.sub("", page)))


def shown(page):
    """Blocks and tables."""
    return "\n".join([*BLOCKS.findall(page), *TABLES.findall(BLOCKS.sub("", page))])


def rounds_to(number, held):
    """True where a held amount, rounded as finely as the number is written, is the number."""
    half = 0.5 * 10.0 ** -len(number.partition(".")[2])
    return any(abs(amount(number) - one) <= half * (1 + 1e-9) for one in held)


def amounts(text):
    """All numbers of a text by their unit; of tables many have none."""
    held = {"$": {amount(number) for number, unit in figures_of(text) if unit == "$"}}
    for found in STEP.finditer(text):
        held.setdefault(found["unit"], set()).add(amount(found["number"]))
    return held


def rounded_in(number, unit, held):
    bare = held.get(None, set()) if unit in BARE else set()
    return rounds_to(number, held.get(unit, set()) | bare)


def not_shown(page, printed=""):
    """Figures of the running text that neither blocks and tables of the page nor what its commands print give."""
    held = amounts(f"{shown(page)}\n{printed}")
    worked = {one for one in digits_of("".join(PYTHON.findall(page))) if len(one) > 1}
    for number, unit in figures_of(prose(page)):
        if digits(number) not in worked and not rounded_in(number, unit, held):
            yield f"${number}" if unit == "$" else f"{number} {unit}"


def not_printed(figures, printed):
    """Of figures of the ledger."""
    held = amounts(printed)
    return [
        f"{number} {unit}"
        for figure in figures
        for number, unit in figures_of(figure)
        if not rounded_in(number, unit, held)
    ]


def held_elsewhere(name):
    """By page: what holds figures, and which."""
    for place, figures in LEDGER.get(name, {}).items():
        yield place, figures.split(", ")


def digits_of(text):
    return {digits(number) for number in re.findall(r"\d[\d_,]*(?:\.\d+)?", text)}


def digits(figure):
    """Significant digits of a figure, whatever its unit: 12.7 ms and 0.0127 are one."""
    return re.sub(r"\D", "", figure).strip("0")
