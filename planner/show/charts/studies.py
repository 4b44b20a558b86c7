"""Charts of a study: what matters most, lines, heat maps, what no point beats."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from math import isfinite, nan
from operator import not_

from planner.questions.studies.results import AxisAnswer, OutputAnswer, PointAnswer, StudyAnswer, Swing, figure_of
from planner.questions.studies.scenario import Design, Label
from planner.show.charts.kit.axes import ChartAxis, axis_around
from planner.show.charts.kit.blocks import (
    PALETTE,
    Bar,
    Bars,
    Box,
    Chart,
    Dot,
    FigureGrid,
    Graph,
    Heat,
    Heats,
    Legend,
    Line,
    Look,
    Mark,
    Point,
    colour,
    upright,
)
from planner.show.charts.plan import WIDE, letter
from planner.show.document import PAGE, Block, Text, Tone
from planner.show.text.studies import MONEY, SHOWN_LONG_S, name_of, number, numeric, title
from simulator.errors import InputError

BOUND = "lower_bound_usd_per_hour"
"""A figure that nobody can choose."""
DOTS_NAMED = 12
"""Points of a Pareto chart that carry a name; more would cover each other."""
DARKEST = 70
"""Per cent of the fill colour: words stay readable on it."""
TICKS_MAX = 6
"""Values of an axis that are all labelled; of more, round numbers."""
WIDE_RANGE = 8
"""How many times the least value the greatest must be for an axis in equal ratios."""
HOUR_S = 3600.0
FIGURES_MAX = 4
"""Of a picture: those named first."""

Row = Sequence[tuple[float, PointAnswer]]
"""Points that have a figure, each with its place."""


def picture(answer: StudyAnswer) -> list[list[Chart]]:
    """A row for each figure, and the Pareto chart; InputError where there is nothing to draw."""
    charts = Charts(answer)
    rows = [charts.of(output) for output in charts.outputs[:FIGURES_MAX]]
    rows.append([*charts.unbeaten()])
    found = [row for row in rows if row]
    if not found:
        raise InputError(f"{answer.name}: no figure that can be drawn. Keep a number among `outputs`.")
    return found


class Charts:
    """A study and what its charts look up in it again and again."""

    def __init__(self, answer: StudyAnswer) -> None:
        self.answer = answer
        self.points = {tuple(point.axes.values()): point for point in answer.points}
        self.base = tuple(axis.values[axis.reference] for axis in answer.axes)
        self.outputs = numeric(answer)
        self.along, self.by = crossing(answer.axes)
        self.crossed = longest_two(answer)
        self.values: Sequence[Label] = [""] if self.by is None else answer.axes[self.by].values

    def point(self, changes: Mapping[int, Label]) -> PointAnswer | None:
        """The point with the reference values but for some axes, by their numbers."""
        return self.points.get(tuple(changes.get(i, value) for i, value in enumerate(self.base)))

    def of(self, output: OutputAnswer) -> list[Chart]:
        """All charts of one figure."""
        return [*self.heat(output), *self.line_chart(output), *self.swings(output)]

    def tornado(self) -> Iterator[Bars]:
        """For each figure a bar for each axis, the longest first."""
        for output in self.outputs:
            yield from self.swings(output)

    def swings(self, output: OutputAnswer) -> list[Bars]:
        """How far each axis moves one figure."""
        moved = [s for s in self.answer.sensitivity if s.output == output.name and s.low_figure != s.high_figure]
        if not moved:
            return []
        moved.sort(key=lambda s: s.low_figure - s.high_figure)
        x = axis_for(output, [figure for s in moved for figure in (s.low_figure, s.high_figure)], 3)
        bars = [swing_bar(s, output) for s in moved]
        return [Bars(f"What moves {title(self.answer, output.name)}", bars, x, "The red line is the reference point.")]

    def lines(self) -> Iterator[Block]:
        """A chart for each figure along one axis, a line for each value of another."""
        if self.along is None:
            return
        axes = self.answer.axes
        each = "" if self.by is None else f", a line for each {axes[self.by].name}"
        held = [f"{axis.name} = {self.base[i]}" for i, axis in enumerate(axes) if i not in (self.along, self.by)]
        rest = f"; {', '.join(held)}" if held else ""
        lines_note = f"Along {axes[self.along].name}{each}{rest}. Hollow: not feasible. Bands: intervals."
        yield Text(lines_note, Tone.NOTE, views=PAGE)
        if self.by is not None:
            yield Legend([(colour(i), str(value)) for i, value in enumerate(self.values)])
        yield FigureGrid([graph for output in self.outputs for graph in self.line_chart(output)])

    def line_chart(self, output: OutputAnswer) -> list[Graph]:
        """One figure along an axis; none where nothing is known of it there."""
        rows = [self.row(output, value) for value in self.values]
        ys = [y for row in rows for _, point in row for y in heights(point, output)]
        if self.along is None or not ys:
            return []
        axis = self.answer.axes[self.along]
        marks = [mark for i, row in enumerate(rows) for mark in self.series(row, output, i)]
        about = f"{title(self.answer, output.name)} along {axis.name}"
        return [Graph(title(self.answer, output.name), axis_of(axis), axis_for(output, ys), marks, about=about)]

    def row(self, output: OutputAnswer, value: Label) -> Row:
        """Points along the axis that have a figure, at one value of the other axis."""
        if self.along is None:
            return []
        axis = self.answer.axes[self.along]
        changes = {} if self.by is None else {self.by: value}
        points = [self.point({self.along: at, **changes}) for at in axis.values]
        return [(x, point) for x, point in zip(axis.numbers or (), points, strict=True) if point and has(point, output)]

    def series(self, row: Row, output: OutputAnswer, i: int) -> Iterator[Mark]:
        """A line through points, its intervals behind it."""
        reach = [(x, *ends(point, output)) for x, point in row]
        whole = [(x, low, high) for x, low, high in reach if isfinite(high - low)]
        lower = [(x, low) for x, low, _ in whole]
        upper = [(x, high) for x, _, high in reversed(whole)]
        yield Line([*lower, *upper] if len(whole) > 1 else [], colour(i), Look.RIBBON)
        yield Line([(x, value_of(point, output)) for x, point in row], colour(i), name=str(self.values[i]))
        for x, point in row:
            y = value_of(point, output)
            title = f"{name_of(point)}: {number(y, output)}"
            yield Dot(x, y, colour(i) if point.feasible else "off", title=title)

    def heats(self) -> Iterator[Heats]:
        """For each figure a table of two axes crossed, the others at their reference."""
        yield Heats([heat for output in self.outputs for heat in self.heat(output)])

    def heat(self, output: OutputAnswer) -> list[Heat]:
        """One figure; none where no two axes are crossed."""
        if self.crossed is None:
            return []
        down, across = self.crossed
        points = self.fields(down, across)
        known = [value_of(point, output) for row in points for point in row if point and has(point, output)]
        span = min(known, default=0.0), max(known, default=1.0)
        columns, names = (list(map(str, self.answer.axes[i].values)) for i in (across, down))
        rows = [(name, [field(point, output, span) for point in row]) for name, row in zip(names, points, strict=True)]
        axes = self.answer.axes
        return [Heat(title(self.answer, output.name), axes[down].name, axes[across].name, columns, rows)]

    def fields(self, down: int, across: int) -> list[list[PointAnswer | None]]:
        """Points of two axes."""
        axes = self.answer.axes
        return [[self.point({down: r, across: c}) for c in axes[across].values] for r in axes[down].values]

    def pareto(self) -> Iterator[FigureGrid]:
        """What no point beats, on a page."""
        yield FigureGrid(self.unbeaten())

    def unbeaten(self) -> list[Graph]:
        """The first two figures of which less or more is better, against each other."""
        wanted = [output for output in self.outputs if output.better and output.name != BOUND]
        wanted.sort(key=lambda output: (output.unit not in MONEY, output.name == "gpu_count"))
        if len(wanted) < 2:
            return []
        x, y = wanted[:2]
        points = [p for p in self.answer.points if p.feasible and has(p, x) and has(p, y)]
        graph = against(self.answer, points, x, y)
        return [graph] if graph else []


def swing_bar(s: Swing, output: OutputAnswer) -> Bar:
    """One axis: from the least figure to the greatest, and a line at the reference."""
    marks: list[Mark] = [Box(s.low_figure, s.high_figure, *WIDE, "fill")]
    if s.reference_figure is not None and isfinite(s.reference_figure):
        marks.append(upright(s.reference_figure))
    low, high = number(s.low_figure, output), number(s.high_figure, output)
    return Bar(s.axis, marks, f"{low} at {s.low} to {high} at {s.high}")


def field(point: PointAnswer | None, output: OutputAnswer, span: tuple[float, float]) -> tuple[str, int]:
    """A field of a heat map and its shade; in brackets where it is not feasible, `~` where it is predicted."""
    if point is None or not has(point, output):
        return "-", -1
    low, high = span
    y = value_of(point, output)
    words = f"{'~' * point.predicted}{number(y, output)}"
    shade = round(DARKEST * (y - low) / (high - low)) if high > low else 0
    return words if point.feasible else f"({words})", shade


def against(answer: StudyAnswer, points: Sequence[PointAnswer], x: OutputAnswer, y: OutputAnswer) -> Graph | None:
    """Points by two figures, letters where no other beats them in both; None where too few differ."""
    places = [(value_of(p, x), value_of(p, y)) for p in points]
    if len(points) < 3 or not varied(places):
        return None
    kept = unbeaten([(badness(p, x), badness(p, y)) for p in points])
    dots = [Dot(*place, "off", title=name_of(p)) for p, place in zip(points, places, strict=True)]
    best, listed = lettered([replace(dot, colour="best") for dot in at_one_place(compress(dots, kept))])
    return Graph(
        f"{title(answer, y.name)} against {title(answer, x.name)}",
        axis_for(x, [at for at, _ in places], 3, title(answer, x.name)),
        axis_for(y, [at for _, at in places], 4, title(answer, y.name)),
        [*compress(dots, map(not_, kept)), *best],
        f"Filled: no other point beats them in both. {listed}",
    )


def varied(places: Sequence[Point]) -> bool:
    """True where neither figure is the same everywhere."""
    return all(len(set(values)) > 1 for values in zip(*places, strict=True))


def at_one_place(dots: Iterable[Dot]) -> list[Dot]:
    """Those at one place as one, with the names of all."""
    places: dict[tuple[float, float], list[Dot]] = {}
    for dot in dots:
        places.setdefault((dot.x, dot.y), []).append(dot)
    return [replace(those[0], title=" and ".join(dot.title for dot in those)) for those in places.values()]


def lettered(dots: Sequence[Dot]) -> tuple[Sequence[Dot], str]:
    """With a letter each, and whom it stands for; without, where there are too many."""
    if len(dots) > DOTS_NAMED:
        return dots, ""
    named = [replace(dot, label=letter(i)) for i, dot in enumerate(dots)]
    return named, "; ".join(f"{dot.label}: {dot.title}" for dot in named)


def unbeaten(costs: Sequence[tuple[float, float]]) -> list[bool]:
    """Which pairs no other is at most as large as in both."""
    return [not any(o[0] <= c[0] and o[1] <= c[1] and o != c for o in costs) for c in costs]


def badness(point: PointAnswer, output: OutputAnswer) -> float:
    """A figure of which less is better."""
    return value_of(point, output) * (1 if output.better == "low" else -1)


def value_of(point: PointAnswer, output: OutputAnswer) -> float:
    """A point's figure, good or bad; NaN where it has none."""
    return nan if point.failed else figure_of(point, output.name)


def has(point: PointAnswer, output: OutputAnswer) -> bool:
    """True where a point has a figure."""
    return isfinite(value_of(point, output))


def heights(point: PointAnswer, output: OutputAnswer) -> list[float]:
    """A point's figure and the ends of its interval, as far as they exist."""
    return [y for y in (value_of(point, output), *ends(point, output)) if isfinite(y)]


def ends(point: PointAnswer, output: OutputAnswer) -> tuple[float, float]:
    """Ends of its interval; NaN where it has none."""
    match point.threshold if output.name == "threshold" else point.values.get(output.name):
        case {"low": float() | int() as low, "high": float() | int() as high}:
            return low, high
    return nan, nan


def crossing(axes: Sequence[AxisAnswer]) -> tuple[int | None, int | None]:
    """Number of the axis that lines run along, the numeric one with most values, and of the one that parts them."""
    numbered = [i for i, axis in enumerate(axes) if axis.numbers and len(axis.values) > 2]
    along = max(numbered, key=lambda i: len(axes[i].values), default=None)
    others = (i for i, axis in enumerate(axes) if i != along and 1 < len(axis.values) <= len(PALETTE))
    return along, next(others, None)


def longest_two(answer: StudyAnswer) -> tuple[int, int] | None:
    """Numbers of the two axes of a grid with most values; None where there are no two."""
    varied = [i for i, axis in enumerate(answer.axes) if len(axis.values) > 1]
    if len(varied) < 2 or answer.design != Design.GRID:
        return None
    longest = sorted(varied, key=lambda i: -len(answer.axes[i].values))
    return min(longest[:2]), max(longest[:2])


def axis_of(axis: AxisAnswer) -> ChartAxis:
    """An axis of the study, its values as the study wrote them, or round ones where there are many."""
    numbers = axis.numbers or ()
    log = axis.log or 0 < WIDE_RANGE * min(numbers) <= max(numbers)
    around = axis_around(numbers, lambda x: f"{x:g}", 4, axis.name, log)
    if len(numbers) > TICKS_MAX:
        return around
    return replace(around, ticks=list(zip(numbers, map(str, axis.values), strict=True)))


def axis_for(output: OutputAnswer, values: Sequence[float], count: int = 4, title: str = "") -> ChartAxis:
    """An axis for a figure; long times are labelled in hours."""
    if output.unit == "s" and max(values) >= SHOWN_LONG_S:
        return axis_around(values, lambda time_s: f"{time_s / HOUR_S:g} h", count, title, unit=HOUR_S)
    return axis_around(
        values, lambda value: f"${value:g}" if output.unit in MONEY else number(value, output), count, title
    )
