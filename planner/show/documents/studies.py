"""Studies as documents: all points, what matters most, charts."""

from collections.abc import Iterator, Sequence
from math import isfinite

from planner.model.scenario import SEED_MAX
from planner.questions.studies.engine import Ask
from planner.questions.studies.results import (
    AxisAnswer,
    OutputAnswer,
    PointAnswer,
    StudyAnswer,
    Swing,
    axis_columns,
    figure_of,
)
from planner.show.charts.studies import Charts
from planner.show.document import (
    PAGE,
    TEXT,
    Block,
    Cell,
    Column,
    Document,
    DrawnCharts,
    FactList,
    Items,
    Rows,
    Section,
    Slider,
    Sliders,
    Stat,
    Stats,
    Table,
    Text,
    Tone,
)
from planner.show.text import studies as prose
from planner.units.writing import counted

ROWS_SHOWN = 60
"""Of a table on a terminal that one still reads; the rest is in the files."""
REST = "... and {} more: results.csv of the study's folder and `planner report` have all."
PAGE_ROWS = 2000
"""Of a page's table: a page stays below 1 MB, and the CSV has them all."""


def document(answer: StudyAnswer) -> Document:
    """A study."""
    charts = Charts(answer)
    alone = Text(prose.reference(answer), Tone.NOTE, views=PAGE)
    shades = Text("The stronger the colour, the larger. In brackets: not feasible.", Tone.NOTE, views=PAGE)
    swings_title = prose.swings_title(answer)
    return Document(
        name=answer.name,
        headline=prose.headline(answer),
        lead=[Items(list(prose.findings(answer)), views=PAGE), stats(answer)],
        sections=[
            Section("Move along the axes", [sliders(answer)], id="move", link="Sliders"),
            Section("All points", [*point_blocks(answer)], id="points", titled=PAGE),
            Section("Not feasible", [Items(prose.refusals(answer), bullets=False)], id="refused"),
            Section(swings_title, [*swing_blocks(answer)], views=TEXT),
            Section(swings_title, [alone, DrawnCharts(charts.tornado)], id="depends", views=PAGE),
            Section("Lines", [DrawnCharts(charts.lines)], id="lines"),
            Section("Heat maps", [shades, DrawnCharts(charts.heats)], id="heat"),
            Section("Unbeaten points", [DrawnCharts(charts.pareto)], id="pareto", link="Unbeaten"),
            Section("How it was made", [FactList(list(prose.provenance(answer)), views=PAGE)], id="made", link="Made"),
        ],
    )


def stats(answer: StudyAnswer) -> Stats:
    """How large it is and what came of it."""
    points, axes = answer.points, answer.axes
    feasible, failed = sum(p.feasible for p in points), sum(p.failed for p in points)
    tone = Tone.GOOD if feasible else Tone.BAD
    all_stats = [
        Stat("points", Cell(f"{len(points):,}", len(points)), counted(sum(p.tried for p in points), "answer")),
        Stat("feasible", Cell(f"{feasible:,}", feasible), tone=tone),
        Stat("axes", Cell(str(len(axes)), len(axes)), answer.design),
    ]
    if failed:
        all_stats.append(Stat("failed", Cell(f"{failed:,}", failed), tone=Tone.BAD))
    if answer.seed is not None and answer.seed <= SEED_MAX:
        all_stats.append(Stat("seed", Cell(str(answer.seed)), "the same for all points"))
    return Stats(all_stats)


def sliders(answer: StudyAnswer) -> Sliders:
    """A slider for each axis, over the points that were worked out; none where the page has not all of them."""
    titles = axis_columns(answer.axes, [prose.title(answer, output.name) for output in answer.outputs])
    named = zip(titles, answer.axes, strict=True)
    moved = [Slider(title, [*map(str, axis.values)], axis.reference) for title, axis in named if len(axis.values) > 1]
    return Sliders("points", moved if len(answer.points) <= PAGE_ROWS else [], prose.NOT_ASKED)


def point_blocks(answer: StudyAnswer) -> Iterator[Block]:
    """The table of points and what one must know to read it."""
    points = answer.points[:PAGE_ROWS]
    bad = frozenset(i for i, p in enumerate(points) if not p.feasible)
    yield Table([*point_columns(answer, points)], bad, ROWS_SHOWN, REST, stacked=True)
    if len(answer.points) > PAGE_ROWS:
        yield Text(f"The first {PAGE_ROWS:,}; results.csv has them all.", Tone.NOTE, views=PAGE)
    if any(point.predicted for point in answer.points):
        yield Text(prose.PREDICTED, Tone.NOTE, indent=2)
    yield from (Text(line, Tone.NOTE, indent=2) for line in prose.not_measured(answer.points))
    if answer.ask is Ask.PLAN and bad:
        yield Text(prose.CLOSEST, Tone.NOTE, indent=2)


def point_columns(answer: StudyAnswer, points: Sequence[PointAnswer]) -> Iterator[Column]:
    """A row for each point."""
    rows = Rows.at("points", points)
    numbers = [Cell(f"{'~' * p.predicted}{i}", i) for i, p in enumerate(points, start=1)]
    yield Column("#", numbers, right=True)
    titles = axis_columns(answer.axes, [prose.title(answer, output.name) for output in answer.outputs])
    for title, axis in zip(titles, answer.axes, strict=True):
        yield Column(title, [axis_cell(axis, p) for p in points], right=axis.numbers is not None)
    if search := answer.search:
        cells = [threshold_cell(i, p, search.unit) for i, p in enumerate(points)]
        yield Column(prose.title(answer, "threshold"), cells, right=True)
    yield from (output_column(answer, output, points) for output in answer.outputs)
    if not all(p.feasible for p in points):
        yield rows.words("feasible", prose.state)
    yield Column("evidence", [p.evidence or "-" for p in points], page_only=True)


def output_column(answer: StudyAnswer, output: OutputAnswer, points: Sequence[PointAnswer]) -> Column:
    """A figure that was kept, or a text."""
    cells = [output_cell(i, p, output) for i, p in enumerate(points)]
    words = any(isinstance(p.values.get(output.name), str) for p in points)
    return Column(prose.title(answer, output.name), cells, right=not words, wide=words)


def axis_cell(axis: AxisAnswer, point: PointAnswer) -> Cell:
    """Where a point lies on an axis: its number, or which of its values it has."""
    value = point.axes[axis.name]
    i = axis.values.index(value)
    return Cell(str(value), axis.numbers[i] if axis.numbers else float(i))


def threshold_cell(number_of: int, point: PointAnswer, unit: str) -> Cell:
    """The value that still held."""
    key = f"points.{number_of}.threshold.mid" if point.threshold else ""
    return Cell(prose.bracketed(point.threshold, unit), finite(figure_of(point, "threshold")), key)


def output_cell(number_of: int, point: PointAnswer, output: OutputAnswer) -> Cell:
    """A figure that was kept."""
    figure = point.values.get(output.name)
    value = finite(figure_of(point, output.name))
    inner = ".mid" if isinstance(figure, dict) else ""
    key = "" if value is None else f"points.{number_of}.values.{output.name}{inner}"
    return Cell(prose.shown(figure, output), value, key)


def finite(value: float) -> float | None:
    """A figure to sort by; None where there is none."""
    return value if isfinite(value) else None


def swing_blocks(answer: StudyAnswer) -> Iterator[Block]:
    """A row for each output and axis; figures that did not move are left out."""
    moved = [swing for swing in answer.sensitivity if swing.low_figure != swing.high_figure]
    if answer.sensitivity and not moved:
        yield Text("No axis changes any figure.", indent=2)
    if moved:
        yield Text(prose.reference(answer), Tone.NOTE, indent=2)
    outputs = {output.name: output for output in prose.outputs_of(answer)}
    rows: Rows[Swing] = Rows(moved)
    yield Table(
        [
            rows.words("output", lambda s: prose.title(answer, s.output)),
            rows.words("axis", "axis"),
            rows.figures("least", lambda s: prose.number(s.low_figure, outputs[s.output])),
            rows.words("at", "low"),
            rows.figures("most", lambda s: prose.number(s.high_figure, outputs[s.output])),
            rows.words("at", "high"),
            rows.words("left out", lambda s: prose.left_out(s, answer.ask)),
        ]
    )
    yield Items(list(unmoved(answer)), bullets=False)


def unmoved(answer: StudyAnswer) -> Iterator[str]:
    """Axes that the table lacks, for they move no figure, though they decide which points are feasible."""
    asked = {swing.axis for swing in answer.sensitivity} - prose.moving(answer)
    for axis, counts in prose.feasible_by(answer).items():
        if axis in asked:
            yield f"{axis} moves no figure, but feasible are {prose.least_and_most(counts)}."
