"""Differences for people: `+ ~ -`, figures side by side, what is only noise; and what other prices change."""

from collections.abc import Callable, Sequence
from math import isfinite

from planner.compare.diff import Change, Diff, FigureChange, FigureVerdict, Sign
from planner.compare.reprice import Repriced, relative
from planner.io.store import to_json
from planner.model.plan import Interval
from planner.units.writing import (
    Format,
    Screen,
    TextColumn,
    counted,
    dollars,
    gigabytes,
    markdown,
    per_second,
    percent,
    seconds,
    share,
    table,
)

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
LABELS = {
    "cost_usd_per_hour": "cost",
    "cost_usd": "cost",
    "lower_bound_usd_per_hour": "lower bound",
    "gpu_count": "GPUs",
    "p99_s": "p99",
    "attainment": "on time, %",
    "time_s": "time",
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
"""What attributes are called, where not by their names."""
SIGNS = {FigureVerdict.ADDED: Sign.ADDED, FigureVerdict.REMOVED: Sign.REMOVED}
COUNTED = ("cost_usd_per_hour", "cost_usd", "gpu_count", "p99_s", "attainment")
"""Figures of models or points that the first lines count."""
SHARES = ("attainment", "_fraction", "accuracy")
"""Figures whose differences are given in points, which are hundredths."""


def value(name: str, number: float) -> str:
    """A figure in people's units, by the unit in its name."""
    if not isfinite(number):
        return "-"
    shows: tuple[tuple[str, Callable[[float], str]], ...] = (
        ("usd_per_hour", lambda usd: f"{dollars(usd)}/h"),
        ("_usd", dollars),
        ("_bytes", gigabytes),
        ("_rps", per_second),
        ("_w", lambda watts: f"{watts:,.0f} W"),
        ("_count", lambda count: f"{count:.0f}"),
        ("attainment", lambda part: f"{percent(part)} %"),
        ("attainment_target", lambda part: f"{percent(part)} %"),
        ("_fraction", lambda part: f"{percent(part)} %"),
        ("p99_over_slo", lambda part: f"{part:.3f}"),
        ("_s", seconds),
    )
    plain = name.partition("[")[0]
    return next((show(number) for end, show in shows if plain.endswith(end)), f"{number:.6g}")


def stem(name: str) -> str:
    """`p99_s[yolov3]` is `p99_s`."""
    return name.partition("[")[0]


def change_of(name: str, number: float) -> str:
    """A difference with its sign: `+$3.06/h`, `-2.1 ms`; of a share in points, `+0.09`."""
    if stem(name).endswith(SHARES):
        return f"{number * 100:+.2f}"
    return f"{'-' if number < 0 else '+'}{value(name, abs(number))}"


def with_interval(name: str, figure: Interval | None) -> str:
    """`81.2 ms [80.8, 81.6]`; without an interval where there is no chance, or none is known."""
    if figure is None:
        return "-"
    middle = bare(value(name, figure.mean)) if stem(name) == "attainment" else value(name, figure.mean)
    if figure.low == figure.high or not (isfinite(figure.low) and isfinite(figure.high)):
        return middle
    return f"{middle} [{bare(value(name, figure.low))}, {bare(value(name, figure.high))}]"


def bare(text: str) -> str:
    """A figure whose unit stands already beside it: `80.8 ms` is 80.8."""
    return text.partition(" ")[0].removesuffix("/h")


def difference_of(figure: FigureChange) -> str:
    """`-2.1 ms [-2.9, -1.3]`."""
    if (apart := figure.difference) is None:
        return ""
    middle = change_of(figure.name, apart.mean)
    if apart.low == apart.high or not isfinite(apart.low):
        return middle
    return f"{middle} [{bare(change_of(figure.name, apart.low))}, {bare(change_of(figure.name, apart.high))}]"


def relative_of(figure: FigureChange) -> str:
    """`+16.7 %`; a share's difference is given in points alone."""
    if figure.relative is None or stem(figure.name).endswith(SHARES):
        return ""
    return f"{'+' if figure.relative >= 0 else ''}{share(figure.relative, 1)}"


def as_text(name: str, got: object) -> str:
    """A value of an input or of a part; hashes shortened."""
    match got:
        case None | "":
            return "nothing"
        case bool():
            return "yes" if got else "no"
        case float():
            return value(name, got)
        case int() if name.endswith("_bytes"):
            return gigabytes(got)
        case str() if name.endswith("sha256"):
            return got[:12]
        case dict():
            return ", ".join(
                f"{ATTRIBUTES.get(k, k.replace('_', ' '))} {as_text(k, v)}".strip() for k, v in got.items()
            )
    return str(got)


def attribute(name: str) -> str:
    """`batch` for `batch_size`, `latency SLO` for `slo_s`."""
    return ATTRIBUTES.get(name, name.replace("_", " "))


def lines_of(changes: Sequence[Change]) -> list[tuple[Sign, str]]:
    """One line for each thing that changed, all that changed of it in one."""
    grouped: dict[tuple[str, Sign], list[Change]] = {}
    for change in changes:
        grouped.setdefault((change.what, change.sign), []).append(change)
    return [(sign, f"{what}{tail(sign, group)}") for (what, sign), group in grouped.items()]


def tail(sign: Sign, group: Sequence[Change]) -> str:
    """What follows the name of a changed thing."""
    if sign is not Sign.CHANGED:
        got = group[0].new if sign is Sign.ADDED else group[0].old
        return f": {as_text(group[0].what, got)}" if got else ""
    return f": {'; '.join(map(step, group))}"


def step(change: Change) -> str:
    """`batch 4 -> 8`."""
    name = change.attribute or change.what
    label = attribute(name) if change.attribute else ""
    return f"{label} {as_text(name, change.old)} -> {as_text(name, change.new)}".strip()


def head(diff: Diff) -> tuple[str, str, str]:
    """Both answers in a line each, and what it comes to."""
    outcome = "No difference." if diff.nothing else summary(diff)
    return f"- {diff.old.path}: {diff.old.answer}", f"+ {diff.new.path}: {diff.new.answer}", outcome


def summary(diff: Diff) -> str:
    """The difference in one line: the whole answer's figures, and how many others differ by more than chance."""
    whole = whole_figures(diff)
    parts = [f"{LABELS[f.name]} {difference_of(f)} ({relative_of(f)})".replace(" ()", "") for f in whole if moved(f)]
    parts += [f"{LABELS[f.name]} as before" for f in whole if not moved(f)]
    parts += [counts(diff, name).replace(", % differs", " differs") for name in COUNTED]
    line = "; ".join(filter(None, parts))
    return f"{line[:1].upper()}{line[1:]}." if line else "What differs stands below."


def whole_figures(diff: Diff) -> list[FigureChange]:
    """Cost and GPUs of the whole answer."""
    names = ("cost_usd_per_hour", "cost_usd", "gpu_count")
    return [f for f in diff.figures if f.of in ("", "cheapest") and f.name in names and f.difference]


def moved(figure: FigureChange) -> bool:
    """Whether a figure is not the same."""
    return figure.verdict is not FigureVerdict.SAME


def counts(diff: Diff, name: str) -> str:
    """`p99 differs for 3 of 8, 2 within noise`."""
    mine = [f for f in diff.figures if f.name == name and f.of not in ("", "cheapest", "fastest") and f.difference]
    if not mine:
        return ""
    differ, noise = (sum(f.verdict is v for f in mine) for v in (FigureVerdict.DIFFERS, FigureVerdict.NOISE))
    more = f", {noise} within noise" if noise else ""
    return f"{LABELS[name]} differs for {differ or 'none'} of {len(mine)}{more}"


def columns(figures: Sequence[FigureChange]) -> list[TextColumn]:
    """Figures side by side."""
    noise = all(f.verdict is FigureVerdict.NOISE for f in figures)
    columns = [
        TextColumn("", ["" if noise else SIGNS.get(f.verdict, Sign.CHANGED) for f in figures]),
        TextColumn("of", [f.of or "all" for f in figures]),
        TextColumn("figure", [label(f.name) for f in figures]),
        TextColumn("old", [with_interval(f.name, f.old) for f in figures], right=True),
        TextColumn("new", [with_interval(f.name, f.new) for f in figures], right=True),
        TextColumn("difference", [difference_of(f) for f in figures], right=True),
        TextColumn("", [relative_of(f) for f in figures], right=True),
        TextColumn("intervals", ["" if noise else intervals(f) for f in figures]),
    ]
    return [column for column in columns if any(column.cells) or column.title == "difference"]


def label(name: str) -> str:
    """`p99`, `mean s[yolov3]`."""
    known = stem(name)
    return LABELS.get(known, known.replace("_", " ")) + name.removeprefix(known)


def intervals(figure: FigureChange) -> str:
    """Whether the two overlap; two that do may differ all the same."""
    if figure.verdict is FigureVerdict.UNSURE:
        return "unknown"
    return {None: "", True: "overlap", False: "apart"}[figure.overlap]


DIFFER = "Figures that differ"
NOISE = "Within noise: the 95 % interval of the difference holds zero"


def figure_tables(diff: Diff) -> list[tuple[str, list[FigureChange]]]:
    """What differs, and what may be chance."""
    noise = [f for f in diff.figures if f.verdict is FigureVerdict.NOISE]
    differ = [f for f in diff.figures if moved(f) and f.verdict is not FigureVerdict.NOISE]
    return [(title, figures) for title, figures in ((DIFFER, differ), (NOISE, noise)) if figures]


def more_line(count: int) -> list[str]:
    """What was left out."""
    return [f"... and {count - SHOWN} more in the JSON."] if count > SHOWN else []


def same_line(diff: Diff) -> list[str]:
    """How many figures did not move."""
    same = sum(not moved(f) for f in diff.figures)
    return [f"{counted(same, 'figure')} the same."] if same and not diff.nothing else []


def diff_table(diff: Diff, screen: Screen) -> str:
    """The difference for a terminal."""
    paint = {Sign.ADDED: screen.good, Sign.REMOVED: screen.bad, Sign.CHANGED: screen.warn}
    old, new, outcome = head(diff)
    lines = [*map(screen.bad, screen.wrap(old, hang=2)), *map(screen.good, screen.wrap(new, hang=2))]
    lines += [screen.bold(line) for line in screen.wrap(outcome, hang=2)]
    lines += [line for text in diff.notes for line in screen.wrap(text, hang=2)]
    for title, found in sections(diff):
        lines += ["", screen.bold(title)]
        for sign, text in found[:SHOWN]:
            lines += [paint[sign](line) for line in screen.wrap(f"{sign} {text}", 2, 2)]
        lines += [f"  {line}" for line in more_line(len(found))]
    for title, figures in figure_tables(diff):
        lines += ["", screen.bold(title), *table(columns(figures[:SHOWN]), screen)]
        lines += [f"  {line}" for line in more_line(len(figures))]
    return "\n".join([*lines, *same_line(diff)]) + "\n"


def sections(diff: Diff) -> list[tuple[str, list[tuple[Sign, str]]]]:
    """What came, went and changed, by title."""
    changes = [(title, lines_of(diff.section(section))) for section, title in TITLES.items()]
    return [(title, lines) for title, lines in changes if lines]


def diff_markdown(diff: Diff) -> str:
    """The difference to paste into an issue: the same words, in blocks that are coloured there."""
    old, new, outcome = head(diff)
    lines = ["```diff", old, new, "```", "", f"**{outcome}**", "", *(f"- {text}" for text in diff.notes)]
    for title, found in sections(diff):
        block = [f"{'!' if sign is Sign.CHANGED else sign} {text}" for sign, text in found[:SHOWN]]
        lines += ["", f"#### {title}", "", "```diff", *block, *more_line(len(found)), "```"]
    for title, figures in figure_tables(diff):
        lines += ["", f"#### {title}", "", *markdown(columns(figures[:SHOWN])), "", *more_line(len(figures))]
    return "\n".join([*lines, *same_line(diff)]).replace("\n\n\n", "\n\n").rstrip() + "\n"


def render(diff: Diff, form: Format, screen: Screen) -> str:
    """A difference in one of the formats."""
    match form:
        case Format.JSON:
            return to_json(diff)
        case Format.MD:
            return diff_markdown(diff)
    return diff_table(diff, screen)


# Other prices


def part(old: float, new: float) -> str:
    """`+16.7 %`."""
    return f"{'+' if new >= old else ''}{share(relative(old, new), 1)}"


def reprice_headline(repriced: Repriced) -> str:
    """What the plan costs now, in one line."""
    old, new = repriced.old_usd_per_hour, repriced.new_usd_per_hour
    monthly = f"{dollars(repriced.old_usd_per_month)} -> {dollars(repriced.new_usd_per_month)}/month"
    line = f"{repriced.fleets[0].label}: {dollars(old)}/h -> {dollars(new)}/h ({part(old, new)}), {monthly}"
    return line if repriced.feasible else f"No feasible plan. The closest: {line}"


def machine_columns(repriced: Repriced) -> list[TextColumn]:
    """What an hour of each machine costs."""
    m = repriced.machines
    return [
        TextColumn("machine", [x.machine for x in m]),
        TextColumn("price", [str(x.price_kind or "your own") for x in m]),
        TextColumn("old", [f"{dollars(x.old_usd_per_hour)}/h" for x in m], right=True),
        TextColumn("of", [x.old_as_of or "-" for x in m]),
        TextColumn("new", [f"{dollars(x.new_usd_per_hour)}/h" for x in m], right=True),
        TextColumn("of", [x.new_as_of or "-" for x in m]),
        TextColumn("", [part(x.old_usd_per_hour, x.new_usd_per_hour) for x in m], right=True),
    ]


def fleet_columns(repriced: Repriced) -> list[TextColumn]:
    """What each fleet costs."""
    f = repriced.fleets[:SHOWN]
    return [
        TextColumn("fleet", [x.label for x in f]),
        TextColumn("", [x.role for x in f]),
        TextColumn("old", [f"{dollars(x.old_usd_per_hour)}/h" for x in f], right=True),
        TextColumn("new", [f"{dollars(x.new_usd_per_hour)}/h" for x in f], right=True),
        TextColumn("", [part(x.old_usd_per_hour, x.new_usd_per_hour) for x in f], right=True),
    ]


def render_reprice(repriced: Repriced, form: Format, screen: Screen) -> str:
    """What other prices change, in one of the formats."""
    tables = (("Machines", machine_columns(repriced)), ("Fleets", fleet_columns(repriced)))
    more = more_line(len(repriced.fleets))
    if form is Format.JSON:
        return to_json(repriced)
    if form is Format.MD:
        lines = [f"**{reprice_headline(repriced)}**", "", *(f"- {text}" for text in repriced.notes)]
        for title, shown in tables:
            lines += ["", f"#### {title}", "", *markdown(shown)]
        return "\n".join([*lines, *more]) + "\n"
    lines = [screen.bold(line) for line in screen.wrap(reprice_headline(repriced), hang=2)]
    lines += [line for text in repriced.notes for line in screen.wrap(text, hang=2)]
    for title, shown in tables:
        lines += ["", screen.bold(title), *table(shown, screen)]
    return "\n".join([*lines, *(f"  {line}" for line in more)]) + "\n"
