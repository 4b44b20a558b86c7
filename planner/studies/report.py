"""A study for people: a table of its points, and what matters most."""

import math
from collections.abc import Sequence

from planner.layout import Column, Screen, counted, decimals, dollars, gigabytes, percent, seconds, table
from planner.studies.engine import Ask
from planner.studies.figures import Figure, middle
from planner.studies.results import JSON, OutputAnswer, PointAnswer, StudyAnswer, Swing, axis_columns

ROWS_SHOWN = 60
"""Of a table that one still reads; the rest is in the files."""
REASONS_SHOWN = 5
FORETOLD = "~: foretold, nobody measured some model on that GPU; made at the bad end of its 80 % band."
CLOSEST = "A row that is not feasible shows the fleet that came closest; it is no answer."
SHOWN_LONG_S = 600.0
"""Times from here on are shown in hours."""


def report(answer: StudyAnswer, screen: Screen) -> str:
    """The whole answer."""
    lines = [screen.bold(line) for line in screen.wrap(headline(answer), hang=2)]
    lines += ["", *point_table(answer, screen)]
    if len(answer.points) > ROWS_SHOWN:
        lines += screen.wrap(f"... and {len(answer.points) - ROWS_SHOWN} more: all are in the files.", indent=2)
    if any(point.foretold for point in answer.points):
        lines += screen.wrap(FORETOLD, indent=2, hang=2)
    if answer.ask is Ask.PLAN and not all(point.feasible for point in answer.points):
        lines += screen.wrap(CLOSEST, indent=2)
    lines += notes("Not feasible", refusals(answer), screen)
    if answer.sensitivity:
        where = "the others as in the base" if len(answer.axes) > 1 else "alone"
        lines += ["", screen.bold(f"What matters most (each axis varied, {where})"), *swing_table(answer, screen)]
    return "\n".join(lines) + "\n"


def notes(title: str, texts: Sequence[str], screen: Screen) -> list[str]:
    """A heading and sentences under it; nothing where there are none."""
    if not texts:
        return []
    return ["", screen.bold(title), *(line for text in texts for line in screen.wrap(text, indent=2, hang=2))]


def headline(answer: StudyAnswer) -> str:
    """How many points there are, and what came of them."""
    feasible = sum(point.feasible for point in answer.points)
    failed = sum(point.failed for point in answer.points)
    shape = " x ".join(f"{axis.name} ({len(axis.values)})" for axis in answer.axes)
    what = f"{answer.name}: {counted(len(answer.points), 'point')}" + (f", {shape}" if shape else "")
    seed = f"; one seed for all, {answer.seed}" if answer.seed is not None else ""
    lost = f", {failed} failed" if failed else ""
    if answer.search:
        return f"{what}; searched for the {answer.search.find} {answer.search.path}, found {feasible}{lost}{seed}"
    return f"{what}; {feasible} feasible{lost}{seed}"


def point_table(answer: StudyAnswer, screen: Screen) -> list[str]:
    """A row for each point; those that are not feasible stand out."""
    points = answer.points[:ROWS_SHOWN]
    columns = [Column("#", [f"{'~' * p.foretold}{i}" for i, p in enumerate(points, start=1)], right=True)]
    titles = axis_columns(answer.axes, [output.name for output in answer.outputs])
    columns += [
        Column(title, [str(p.axes[axis.name]) for p in points], right=axis.numbers is not None)
        for title, axis in zip(titles, answer.axes, strict=True)
    ]
    if search := answer.search:
        title = f"{search.find} {search.path}"
        columns.append(Column(title, [bracketed(p.threshold, search.unit) for p in points], right=True))
    columns += [
        Column(output.name, [shown(p.values.get(output.name), output) for p in points], right=is_number(output, points))
        for output in answer.outputs
    ]
    if not all(p.feasible for p in points):
        columns.append(Column("feasible", ["failed" if p.failed else "yes" if p.feasible else "no" for p in points]))
    return table(columns, screen, bad=frozenset(i for i, p in enumerate(points) if not p.feasible))


def is_number(output: OutputAnswer, points: Sequence[PointAnswer]) -> bool:
    """Whether a column's figures are numbers."""
    return not any(isinstance(point.values.get(output.name), str) for point in points)


def bracketed(threshold: Figure, unit: str) -> str:
    """`1.78 [to 1.83]`: what held, and the nearest that did not."""
    if threshold is None:
        return "-"
    low, mid, high = (threshold[end] for end in ("low", "mid", "high"))
    other = high if low == mid else low
    return f"{mid:.3g}{unit and ' '}{unit} [{'not tried' if other is None else f'{other:.3g}'}]"


def shown(figure: Figure, output: OutputAnswer) -> str:
    """A figure with its interval; `-` where there is none."""
    match figure:
        case None:
            return "-"
        case str():
            return figure
        case {"low": low, "mid": mid, "high": high} if low is not None and high is not None and low != high:
            return f"{number(mid, output)} [{number(low, output)}, {number(high, output, up=True)}]"
    return number(middle(figure), output)


def number(value: float | None, output: OutputAnswer, *, up: bool = False) -> str:
    """A number in its unit, as people read it."""
    if value is None or not math.isfinite(value):
        return "-"
    match output.unit:
        case "s":
            return f"{value / 3600:.{decimals(value / 3600)}f} h" if value >= SHOWN_LONG_S else seconds(value)
        case "USD" | "USD/h":
            return dollars(value)
        case "fraction":
            return f"{percent(value, up=up)} %"
        case "bytes":
            return gigabytes(value)
        case "J":
            return f"{value / 3.6e6:.{decimals(value / 3.6e6)}f} kWh"
        case "W" | "kg" | "/s":
            return f"{value:,.{decimals(value)}f}{'' if output.unit == '/s' else ' '}{output.unit}"
    return f"{value:.4g}"


def refusals(answer: StudyAnswer) -> list[str]:
    """Why points are not feasible, each reason once."""
    why: dict[str, list[str]] = {}
    for i, point in enumerate(answer.points, start=1):
        if not point.feasible:
            why.setdefault(point.reason, []).append(str(i))
    texts = [f"{joined(whom)}: {reason}" for reason, whom in why.items()]
    more = len(texts) - REASONS_SHOWN
    return texts if more <= 0 else [*texts[:REASONS_SHOWN], f"... and {more} more reasons, in {JSON}"]


def joined(whom: Sequence[str]) -> str:
    """`3, 4, 7`; of many the first."""
    return ", ".join(whom) if len(whom) <= 6 else f"{', '.join(whom[:5])} and {len(whom) - 5} more"


def swing_table(answer: StudyAnswer, screen: Screen) -> list[str]:
    """A row for each output and axis; figures that did not move are left out."""
    outputs = {output.name: output for output in answer.outputs}
    if answer.search:
        unit = answer.search.unit
        outputs["threshold"] = OutputAnswer(name="threshold", unit=unit, better="", interval=True)
    moved = [swing for swing in answer.sensitivity if swing.low_figure != swing.high_figure]
    if not moved:
        return screen.wrap("No axis changes any figure.", indent=2)
    return table(
        [
            Column("output", [s.output for s in moved]),
            Column("axis", [s.axis for s in moved]),
            Column("least", [number(s.low_figure, outputs[s.output]) for s in moved], right=True),
            Column("at", [str(s.low) for s in moved]),
            Column("most", [number(s.high_figure, outputs[s.output]) for s in moved], right=True),
            Column("at", [str(s.high) for s in moved]),
            Column("left out", [left_out(s, answer.ask) for s in moved]),
        ],
        screen,
    )


def left_out(swing: Swing, ask: Ask) -> str:
    """Values that have no figure."""
    why = "failed" if ask is Ask.SIMULATE else "not feasible"
    return f"{joined([str(value) for value in swing.left_out])} ({why})" if swing.left_out else ""
