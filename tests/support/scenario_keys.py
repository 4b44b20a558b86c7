"""The page of all keys of a scenario, made of the schema that scenarios are read by."""

import json
import re
from functools import cache
from typing import Any

from planner.io.load import schema
from planner.model.scenario import Scenario
from planner.questions.training.scenario import TrainingScenario, byte_rate, dollars, flop_rate
from planner.units import reading

QUANTITIES = (
    reading.duration,
    reading.long_duration,
    reading.rate,
    reading.seldom,
    reading.memory,
    reading.machines,
    reading.fraction,
    reading.price,
    byte_rate,
    flop_rate,
    dollars,
)
SI = {quantity.examples: next(iter(quantity.si), "") for quantity in QUANTITIES}
"""The unit of a bare number, by the examples of its quantity."""
HEAD = """\
# Every key of a scenario

Made from the schema by which scenarios are read; a test holds this page to it. `planner init` writes a scenario with
the usual keys, `planner schema` the schema, by which an editor completes and checks. An unknown key is refused, with
its line and what may have been meant. Names such as `ModelSpec` are those of [Python](python.md).

Numbers may have a unit, as in the examples. **A bare number is in SI**: seconds, bytes, requests a second, dollars an
hour, a share of 1. A number above 9 is refused as a latency, a delay or the time of a step, and one below 600 as a
deadline, a whole run or the time between failures: many would mean milliseconds, or hours. A dash as default: nothing,
or what the meaning says.
"""


@cache
def schema_of(kind: type = Scenario) -> dict[str, Any]:
    return schema(kind)


def page() -> str:
    """The whole page in Markdown."""
    serving = part("Serving", schema_of(), "For `planner plan`, `simulate`, `horizon`, `validate`.")
    training = part("Training", schema_of(TrainingScenario), "For `planner train`.")
    return "\n".join((HEAD, serving, training))


def part(title: str, known: dict[str, Any], purpose: str) -> str:
    """All keys of one kind of scenario: those at the top, then those inside them."""
    top = f"## {title}\n\n{purpose}\n\n{table(known, known)}"
    below = (section(name, known) for name in met(known) if known is home(name, known))
    return "\n".join((top, *below))


def met(known: dict[str, Any]) -> list[str]:
    """Names of the kinds that have keys, in the order in which a reader meets them."""
    names: list[str] = []
    kinds = [known]
    for kind in kinds:  # grows meanwhile
        for name in re.findall(r"#/\$defs/(\w+)", json.dumps(kind.get("properties", {}))):
            if name not in names:
                names.append(name)
                kinds.append(known["$defs"][name])
    return [name for name in names if "properties" in known["$defs"][name]]


def home(name: str, known: dict[str, Any]) -> dict[str, Any]:
    """The schema under which a kind is told, once."""
    serving = schema_of()
    return serving if known["$defs"][name] == serving["$defs"].get(name) else known


def section(name: str, known: dict[str, Any]) -> str:
    """One kind and its keys."""
    kind = known["$defs"][name]
    return f"### {name}\n\n{plain(kind['description'])}\n\n{table(kind, known)}"


def table(kind: dict[str, Any], known: dict[str, Any]) -> str:
    """A row for each key."""
    rows = "".join(
        f"| `{key}` | {form(field, known)} | {default(key, field, kind)} | {meaning(field, known)} |\n"
        for key, field in kind["properties"].items()
    )
    return f"| key | what is written | default | meaning |\n|---|---|---|---|\n{rows}"


def form(field: dict[str, Any], known: dict[str, Any]) -> str:
    """The value that is written: an example with its unit, one of some words, or keys of its own."""
    match field:
        case {"$ref": reference}:
            return named(reference.rpartition("/")[2], known)
        case {"enum": words}:
            return ", ".join(f"`{word}`" for word in words)
        case {"anyOf": [{"type": "number"}, {"examples": examples}, *_]}:
            return ", ".join(f"`{example}`" for example in examples)
        case {"anyOf": kinds}:
            forms = [form(one, known) for one in kinds if one != {"type": "null"}]
            return " or ".join(dict.fromkeys(forms))
        case {"type": "array", "items": item}:
            return f"list of {form(item, known)}".replace("number", "numbers").replace("text", "texts")
        case {"type": list(types)}:
            return " or ".join(WORDS[one] for one in types)
        case {"type": one}:
            return WORDS[one]
    raise AssertionError(field)


WORDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "`true`, `false`",
    "object": "mapping",
}


def named(name: str, known: dict[str, Any]) -> str:
    """The words to choose from, or a link to the keys."""
    kind = known["$defs"][name]
    if "enum" in kind:
        return form(kind, known)
    return f"[{name}](#{name.lower()})"


def default(key: str, field: dict[str, Any], kind: dict[str, Any]) -> str:
    """What holds where the key is not given."""
    if key in kind.get("required", ()):
        return "must be given"
    match field.get("default", {}):
        case None | "" | []:
            return "-"
        case dict():
            return "its own"
        case bool(value):
            return f"`{str(value).lower()}`"
        case list(values):
            return "x".join(map(str, values))
        case int(value) | float(value):
            return f"{value:,.10g} {unit(field)}".rstrip()
        case value:
            return f"`{value}`"


def unit(field: dict[str, Any]) -> str:
    """The unit of a bare number."""
    kinds = field.get("anyOf", [])
    examples = [tuple(one["examples"]) for one in kinds if "examples" in one]
    return SI[examples[0]] if examples else ""


def meaning(field: dict[str, Any], known: dict[str, Any]) -> str:
    """The key's docstring, or that of its choices."""
    said = field.get("description") or known["$defs"][field["$ref"].rpartition("/")[2]]["description"]
    return plain(said)


def plain(text: str) -> str:
    """In one line, for a table."""
    return re.sub(r"\s+", " ", text).replace("|", r"\|")
