"""Differences and other prices as documents: `+ ~ -`, figures side by side, what is only noise."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite, nan

from planner.compare.answers import FIGURES
from planner.compare.diff import Diff, Difference, FigureChange, FigureVerdict, Sign
from planner.compare.reprice import FleetChange, Repriced, relative
from planner.model.plan import Interval
from planner.show.document import Block, Changes, Document, Rows, Section, Table, Text
from planner.show.forms import written
from planner.units.writing import (
    Format,
    Screen,
    begin,
    counted,
    decimals,
    dollars,
    names,
    percent,
    rate_decimals,
    signed_share,
)
from planner.words.statements import note, warning_line
from simulator.grouping import grouped

SHOWN = 24
"""Rows of a table; `--format json` has all."""
TITLES = {
    "inputs": "Inputs",
    "scenario": "Scenario",
    "machines": "Machines",
    "GPUs": "GPUs",
    "SLOs": "Demand and SLOs",
    "models": "Models",
    "memory": "Memory used at most",
    "choice": "Choice",
    "options": "Options",
    "points": "Points",
}
ATTRIBUTES = {
    "offered_rps": "asked",
    "slo_s": "latency SLO",
    "slo_attainment_target": "SLO",
    "max_queue_delay_s": "longest wait",
    "usd_per_hour": "price",
    "price_as_of": "price of",
    "batch_size": "batch",
    "gpus": "GPUs",
    "peak_memory_bytes": "",
}
"""Attributes that are not called by their names."""
UNITS = {
    "offered_rps": "/s",
    "slo_s": "s",
    "slo_attainment_target": "fraction",
    "max_queue_delay_s": "s",
    "usd_per_hour": "USD/h",
    "peak_memory_bytes": "bytes",
    "deadline_s": "s",
    "budget_usd": "USD",
    "policies.half_life_s": "s",
    "policies.horizon_s": "s",
    "policies.warmup_s": "s",
    "mean_time_between_s": "s",
    "recovery_s": "s",
}
"""Units of attributes and inputs; those that are not here are words, or numbers without a unit."""
WHOLE = ("cost_usd_per_hour", "cost_usd", "gpu_count")
COUNTED = (*WHOLE, "p99_s", "attainment")
"""Figures of models or points that the headline counts."""
DIFFER = "Figures that differ"
NOISE = "Within noise: the 95 % interval of the difference holds zero"


# Figures


def fixed(places: int, factor: float = 1.0) -> Callable[[float], str]:
    """Numbers with so many digits after the point."""
    return lambda number: f"{factor * number:,.{places}f}"


WRITTEN: Mapping[str, tuple[Callable[[float], str], str]] = {
    "USD": (dollars, ""),
    "USD/h": (dollars, "/h"),
    "bytes": (fixed(2, 1e-9), " GB"),
    "fraction": (percent, " %"),
    "points": (fixed(2, 100), ""),
    "W": (fixed(0), " W"),
}
"""By unit: how figures are written, and what stands behind them."""


def scale(unit: str, size: float) -> tuple[Callable[[float], str], str]:
    """The same of any unit, for figures of about this size."""
    if unit in WRITTEN:
        return WRITTEN[unit]
    if unit == "/s":
        return fixed(rate_decimals(size)), "/s"
    if unit != "s":
        return "{:.6g}".format, f" {unit}" if unit else ""
    factor, name = (1.0, " s") if abs(size) >= 1 else (1e3, " ms")
    return fixed(decimals(size * factor), factor), name


def figure_text(unit: str, middle: float, low: float = nan, high: float = nan, *, signed: bool = False) -> str:
    """`81.2 ms [80.8, 81.6]`, the ends in the unit of the middle; without them where there is no chance, or none is
    known. A difference has its sign."""
    if not isfinite(middle):
        return "-"
    write, name = scale(unit, middle)
    texts = [f"{'-' if one < 0 else '+'}{write(abs(one))}" if signed else write(one) for one in (middle, low, high)]
    ends = f" [{texts[1]}, {texts[2]}]" if isfinite(low) and isfinite(high) and low != high else ""
    return f"{texts[0]}{name}{ends}"


def interval_text(unit: str, figure: Interval | None) -> str:
    """A figure of one answer."""
    return "-" if figure is None else figure_text(unit, figure.mean, figure.low, figure.high)


def difference_text(figure: FigureChange) -> str:
    """`-2.1 ms [-2.9, -1.3]`; of a share in points, which are hundredths."""
    if (apart := figure.difference) is None:
        return ""
    unit = "points" if figure.unit == "fraction" else figure.unit
    return figure_text(unit, apart.mean, apart.low, apart.high, signed=True)


def relative_text(figure: FigureChange) -> str:
    """`+16.7 %`; a share's difference is given in points alone."""
    return "" if figure.relative is None or figure.unit == "fraction" else signed_share(figure.relative)


def label(name: str) -> str:
    """`p99` for `p99_s`."""
    return FIGURES[name].label if name in FIGURES else name


def intervals_text(figure: FigureChange) -> str:
    """Whether the two overlap; two that do may differ all the same."""
    if figure.verdict is FigureVerdict.UNSURE:
        return "unknown"
    return {None: "", True: "overlap", False: "apart"}[figure.overlap]


def sign(figure: FigureChange) -> Sign:
    """How a figure changed."""
    return {FigureVerdict.ADDED: Sign.ADDED, FigureVerdict.REMOVED: Sign.REMOVED}.get(figure.verdict, Sign.CHANGED)


# Changes


def as_text(name: str, value: object) -> str:
    """A value of an input or of a part."""
    match value:
        case None | "":
            return "nothing"
        case bool():
            return "yes" if value else "no"
        case int() | float() if name in UNITS:
            return figure_text(UNITS[name], value)
        case float():
            return figure_text("", value)
        case dict():
            return ", ".join(f"{attribute(key)} {as_text(key, part)}".strip() for key, part in value.items())
    return str(value)


def attribute(name: str) -> str:
    """`batch` for `batch_size`, `latency SLO` for `slo_s`."""
    return ATTRIBUTES.get(name, name.replace("_", " "))


def tail(sign: Sign, group: Sequence[Difference]) -> str:
    """What follows the name of a changed thing."""
    if sign is Sign.CHANGED:
        return f": {'; '.join(map(step, group))}"
    value = group[0].new if sign is Sign.ADDED else group[0].old
    return f": {as_text(group[0].what, value)}" if value else ""


def step(change: Difference) -> str:
    """`batch 4 -> 8`."""
    name = change.attribute or change.what
    before = attribute(name) if change.attribute else ""
    return f"{before} {as_text(name, change.old)} -> {as_text(name, change.new)}".strip()


# The difference


def render(diff: Diff, form: Format, screen: Screen) -> str:
    """A difference in one of the formats."""
    return written(diff, document, form, screen)


def document(diff: Diff) -> Document:
    """The outcome in a line, both answers, what changed, and which figures by more than chance."""
    sides = [(Sign.REMOVED, f"{diff.old.path}: {diff.old.answer}"), (Sign.ADDED, f"{diff.new.path}: {diff.new.answer}")]
    same = sum(not moved(figure) for figure in diff.figures)
    rest = "" if diff.nothing or not same else f"{counted(same, 'figure')} the same."
    sections = []
    for name, title in TITLES.items():
        alike = grouped(((change.what, change.sign), change) for change in diff.section(name))
        lines = [(sign, what + tail(sign, group)) for (what, sign), group in alike.items()]
        sections.append(Section(title, [Changes(lines[:SHOWN], indent=2), more(lines)]))
    noise = [f for f in diff.figures if f.verdict is FigureVerdict.NOISE]
    differ = [f for f in diff.figures if moved(f) and f.verdict is not FigureVerdict.NOISE]
    return Document(
        name=f"{diff.old.path} and {diff.new.path}",
        headline="No difference." if diff.nothing else summary(diff),
        lead=[Changes(sides), *(Text(note(one.what, one.rejection)) for one in diff.notes)],
        sections=[
            *sections,
            Section(DIFFER, [figure_table(differ[:SHOWN], noise=False), more(differ)]),
            Section(NOISE, [figure_table(noise[:SHOWN], noise=True), more(noise)]),
            Section("", [Text(rest)]),
        ],
    )


def more(things: Sequence[object]) -> Block:
    """A line for what is left out."""
    left = len(things) - SHOWN
    return Text(f"... and {left} more in the JSON." if left > 0 else "", indent=2)


def figure_table(figures: Sequence[FigureChange], *, noise: bool) -> Table:
    """Figures side by side."""
    rows = Rows(figures)
    columns = [
        rows.words("of", lambda f: f.of or "all"),
        rows.words("figure", lambda f: label(f.name)),
        rows.figures("old", lambda f: interval_text(f.unit, f.old)),
        rows.figures("new", lambda f: interval_text(f.unit, f.new)),
        rows.figures("difference", difference_text),
        rows.figures("", relative_text),
    ]
    if not noise:
        columns = [rows.words("", sign), *columns, rows.words("intervals", intervals_text)]
    return Table([column for column in columns if any(column.texts) or column.title == "difference"])


def moved(figure: FigureChange) -> bool:
    """Whether a figure is not the same."""
    return figure.verdict is not FigureVerdict.SAME


def summary(diff: Diff) -> str:
    """The difference in one line: the whole answer's figures, and how many others differ by more than chance."""
    whole = [f for f in diff.figures if f.of in ("", "cheapest") and f.name in WHOLE and f.difference]
    parts = [change_text(figure) for figure in sorted(whole, key=moved, reverse=True)]
    line = "; ".join(filter(None, [*parts, *(counts(diff, name) for name in COUNTED)]))
    return f"{begin(line)}." if line else "What differs stands below."


def change_text(figure: FigureChange) -> str:
    """`cost +$3.06/h (+50.0 %)`, `GPUs as before`."""
    if not moved(figure):
        return f"{label(figure.name)} as before"
    part = relative_text(figure)
    return f"{label(figure.name)} {difference_text(figure)}{part and f' ({part})'}"


def counts(diff: Diff, name: str) -> str:
    """`p99 differs for 3 of 8, 2 within noise`."""
    mine = [f for f in diff.figures if f.name == name and f.of not in ("", "cheapest", "fastest") and f.difference]
    if not mine:
        return ""
    verdicts = [figure.verdict for figure in mine]
    differ, noise = verdicts.count(FigureVerdict.DIFFERS), verdicts.count(FigureVerdict.NOISE)
    beside = f", {noise} within noise" if noise else ""
    return f"{label(name)} differs for {differ or 'none'} of {len(mine)}{beside}"


# Other prices


def reprice_document(repriced: Repriced) -> Document:
    """What the plan costs now, each machine and each fleet."""
    machines, fleets = Rows(repriced.machines), Rows(repriced.fleets[:SHOWN])
    by_machine = [
        machines.words("machine", "machine"),
        machines.words("price", lambda m: str(m.price_kind or "your own")),
        machines.figures("old", lambda m: hourly(m.old_usd_per_hour)),
        machines.words("of", lambda m: m.old_as_of or "-"),
        machines.figures("new", lambda m: hourly(m.new_usd_per_hour)),
        machines.words("of", lambda m: m.new_as_of or "-"),
        machines.figures("", lambda m: signed_share(relative(m.old_usd_per_hour, m.new_usd_per_hour))),
    ]
    by_fleet = [
        fleets.words("fleet", "label"),
        fleets.words("", "role"),
        fleets.figures("old", lambda f: hourly(f.old_usd_per_hour)),
        fleets.figures("new", lambda f: hourly(f.new_usd_per_hour)),
        fleets.figures("", lambda f: signed_share(relative(f.old_usd_per_hour, f.new_usd_per_hour))),
        fleets.words("oldest price", price_age),
    ]
    old, new = repriced.old_usd_per_hour, repriced.new_usd_per_hour
    monthly = f"{dollars(repriced.old_usd_per_month)} -> {dollars(repriced.new_usd_per_month)}/month"
    change = signed_share(relative(old, new))
    closest = "" if repriced.feasible else "No feasible plan. The closest is "
    reprice_headline = f"{closest}{repriced.fleets[0].label}: {hourly(old)} -> {hourly(new)} ({change}), {monthly}"
    return Document(
        name=repriced.plan,
        headline=reprice_headline,
        lead=list(map(Text, reprice_notes(repriced))),
        sections=[
            Section("Machines", [Table(by_machine)]),
            Section("Fleets", [Table(by_fleet), more(repriced.fleets)]),
        ],
    )


def reprice_notes(repriced: Repriced) -> Iterator[str]:
    """What one should know before believing the new costs."""
    if repriced.cheaper:
        yield f"Cheaper now, and meets every SLO too: {fleet_cost(repriced, repriced.cheaper)}."
    if repriced.cheaper_ranked:
        cost = fleet_cost(repriced, repriced.cheaper_ranked)
        yield f"Cheaper, but less sure than what is recommended, so that it may miss an SLO: {cost}."
    if repriced.feasible and repriced.rivals and not (repriced.cheaper or repriced.cheaper_ranked):
        yield f"None of the {repriced.rivals} other fleets that were replayed is cheaper at these prices."
    if repriced.unpriced:
        yield f"Left out, for want of a price in {repriced.prices}: {names(repriced.unpriced)}."
    for warning in repriced.warnings:
        yield f"{warning_line(warning)}."
    yield from (f"Source: {source}." for source in repriced.sources)
    lost = repriced.never_replayed
    never = f" {lost} candidates were rejected for their old price and never replayed." if lost else ""
    yield (
        "Only what was replayed is compared: another fleet may be cheaper at these prices, and what nothing can"
        f" beat is not known.{never} To search anew: planner plan SCENARIO --catalog DIR, with a prices.yaml in"
        " DIR."
    )


def fleet_cost(repriced: Repriced, label: str) -> str:
    """`2 x n1-v100 (V100), resident at $3.00/h (oldest price of 2026-11-01, 21 days old)`."""
    fleet = next(one for one in repriced.fleets if one.label == label)
    age = "your own prices" if fleet.days_old is None else f"oldest price of {price_age(fleet)} old"
    return f"{label} at {dollars(fleet.new_usd_per_hour)}/h ({age})"


def price_age(fleet: FleetChange) -> str:
    """`2026-11-01, 21 days`; `-` where no price has a date."""
    if fleet.days_old is None:
        return "-"
    return f"{fleet.prices_as_of}, {counted(fleet.days_old, 'day')}"


def hourly(usd_per_hour: float) -> str:
    """`$2.50/h`."""
    return figure_text("USD/h", usd_per_hour)
