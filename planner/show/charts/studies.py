"""Charts of a study: what matters most, lines, heat maps, what no point beats."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import isfinite, nan

from markupsafe import Markup

from planner.questions.studies.results import AxisAnswer, OutputAnswer, PointAnswer, StudyAnswer, Swing, figure_of
from planner.questions.studies.scenario import Label
from planner.show.charts import kit
from planner.show.charts.blocks import Bar, Bars, Figure, FigureGrid, Heat, Heats, Legend
from planner.show.document import PAGE, Block, Text, Tone
from planner.show.text.studies import MONEY, name_of, number, numeric

BAR = 14
BOUND = "lower_bound_usd_per_hour"
"""A figure that nobody can choose."""
SPOTS_NAMED = 12
"""Points of a Pareto chart that carry a name; more would cover each other."""
DARKEST = 70
"""Per cent of the fill colour: words stay readable on it."""
TICKS_MAX = 6
"""Values of an axis that are all labelled; of more, round numbers."""


class Charts:
    """A study and what its charts look up in it again and again."""

    def __init__(self, answer: StudyAnswer) -> None:
        self.answer = answer
        self.points = {tuple(point.axes.values()): point for point in answer.points}
        self.base = tuple(axis.values[axis.reference] for axis in answer.axes)
        self.outputs = numeric(answer)

    def point(self, changes: Mapping[int, Label]) -> PointAnswer | None:
        """The point with the base's values but for some axes, by their numbers."""
        return self.points.get(tuple(changes.get(i, value) for i, value in enumerate(self.base)))

    def tornado(self) -> Iterator[Bars]:
        """For each figure a bar for each axis, the longest first."""
        for output in self.outputs:
            moved = [s for s in self.answer.sensitivity if s.output == output.name and s.low_figure != s.high_figure]
            if moved:
                yield swings(output, moved)

    def lines(self) -> Iterator[Block]:
        """A chart for each figure along one axis, a line for each value of another."""
        along, by = crossing(self.answer.axes)
        if along is None:
            return
        yield Text(self.lines_note(along, by), Tone.NOTE, views=PAGE)
        values: Sequence[Label] = [""]
        if by is not None:
            values = self.answer.axes[by].values
            yield Legend([(kit.colour(i), str(value)) for i, value in enumerate(values)])
        charts = (self.line_chart(output, along, by, values) for output in self.outputs)
        yield FigureGrid([chart for chart in charts if chart])

    def lines_note(self, along: int, by: int | None) -> str:
        """Which axes are drawn, and at which values the others are held."""
        axes = self.answer.axes
        each = "" if by is None else f", a line for each {axes[by].name}"
        held = [f"{axis.name} = {self.base[i]}" for i, axis in enumerate(axes) if i not in (along, by)]
        rest = f"; {', '.join(held)}" if held else ""
        return f"Along {axes[along].name}{each}{rest}. Hollow: not feasible. Bands: intervals."

    def line_chart(self, output: OutputAnswer, along: int, by: int | None, values: Sequence[Label]) -> Figure | None:
        """One figure; None where nothing is known of it along this axis."""
        axis = self.answer.axes[along]
        rows = [self.row(along, {} if by is None else {by: value}) for value in values]
        ys = [y for row in rows for point in row if point for y in heights(point, output)]
        if not ys or axis.numbers is None:
            return None
        reach = (min(axis.numbers), max(axis.numbers)), (min(ys), max(ys))
        across, up = kit.plot_area(*reach, lambda y: tick(y, output), axis.log)
        x_ticks = axis.numbers if len(axis.numbers) <= TICKS_MAX else across.steps(4)
        y_texts = [(y, tick(y, output)) for y in up.steps(4)]
        parts = kit.grid(across, up, [(x, tick_of(x, axis)) for x in x_ticks], y_texts)
        for i, row in enumerate(rows):
            pairs = zip(axis.numbers, row, strict=True)
            seen = [(x, point) for x, point in pairs if point and has(point, output)]
            parts += band(seen, output, across, up, kit.colour(i))
            parts += series(seen, output, across, up, kit.colour(i))
        return Figure(kit.svg(parts, f"{output.name} along {axis.name}"), output.name)

    def row(self, along: int, changes: Mapping[int, Label]) -> list[PointAnswer | None]:
        """Points along one axis."""
        return [self.point({along: x, **changes}) for x in self.answer.axes[along].values]

    def heats(self) -> Iterator[Heats]:
        """For each figure a table of two axes crossed, the others as in the base."""
        axes = [i for i, a in enumerate(self.answer.axes) if len(a.values) > 1]
        if len(axes) < 2 or self.answer.design != "grid":
            return
        down, across = sorted(sorted(axes, key=lambda i: -len(self.answer.axes[i].values))[:2])
        yield Heats([self.heat(output, down, across) for output in self.outputs])

    def heat(self, output: OutputAnswer, down: int, across: int) -> Heat:
        """One figure."""
        rows, columns = self.answer.axes[down], self.answer.axes[across]
        fields = [[self.point({down: r, across: c}) for c in columns.values] for r in rows.values]
        values = [value_of(point, output) for row in fields for point in row if has(point, output)]
        low, high = min(values, default=0.0), max(values, default=1.0)

        def field(point: PointAnswer | None) -> tuple[str, int]:
            y = value_of(point, output)
            if point is None or not isfinite(y):
                return "-", -1
            words = number(y, output)
            shade = round(DARKEST * (y - low) / (high - low)) if high > low else 0
            return words if point.feasible else f"({words})", shade

        named = [(str(value), [field(point) for point in row]) for value, row in zip(rows.values, fields, strict=True)]
        return Heat(output.name, f"{rows.name} / {columns.name}", [str(value) for value in columns.values], named)

    def pareto(self) -> Iterator[FigureGrid]:
        """The first two figures of which less or more is better, against each other."""
        wanted = [o for o in self.outputs if o.better and o.name != BOUND]
        wanted.sort(key=lambda o: (o.unit not in MONEY, o.name == "gpu_count"))
        if len(wanted) < 2:
            return
        x, y = wanted[:2]
        points = [p for p in self.answer.points if p.feasible and has(p, x) and has(p, y)]
        varied = all(len({value_of(p, output) for p in points}) > 1 for output in (x, y))
        if len(points) >= 3 and varied:
            yield FigureGrid([against(points, x, y)])


def against(points: Sequence[PointAnswer], x: OutputAnswer, y: OutputAnswer) -> Figure:
    """Points by two figures; those that no other beats in both have letters."""
    kept = unbeaten([(badness(p, x), badness(p, y)) for p in points])
    letters = iter("ABCDEFGHIJKL" if sum(kept) <= SPOTS_NAMED else "")
    spots = []
    for point, best_of_all in zip(points, kept, strict=True):
        letter = next(letters, "") if best_of_all else ""
        style = "best" if best_of_all else "off"
        spots.append(kit.Spot(value_of(point, x), value_of(point, y), letter, name_of(point), style))
    xs, ys = [spot.x for spot in spots], [spot.y for spot in spots]
    across, up = kit.plot_area((min(xs), max(xs)), (min(ys), max(ys)), lambda value: tick(value, y))
    ticks = [(v, tick(v, x)) for v in across.steps(3)], [(v, tick(v, y)) for v in up.steps(4)]
    spots.sort(key=lambda spot: spot.style == "best")  # those that matter above the others
    chart = kit.scatter(spots, x.name, y.name, ticks, (across, up))
    listed = "; ".join(f"{spot.name}: {spot.title}" for spot in spots if spot.name)
    return Figure(chart, f"{y.name} against {x.name}", f"Filled: no other point beats them in both. {listed}")


def unbeaten(costs: Sequence[tuple[float, float]]) -> list[bool]:
    """Which pairs no other is at most as large as in both."""
    return [not any(o[0] <= c[0] and o[1] <= c[1] and o != c for o in costs) for c in costs]


def badness(point: PointAnswer, output: OutputAnswer) -> float:
    """A figure of which less is better."""
    return value_of(point, output) * (1 if output.better == "low" else -1)


def value_of(point: PointAnswer | None, output: OutputAnswer) -> float:
    """A point's figure, good or bad; NaN where it has none."""
    return nan if point is None or point.failed else figure_of(point, output.name)


def has(point: PointAnswer | None, output: OutputAnswer) -> bool:
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


def swings(output: OutputAnswer, moved: Sequence[Swing]) -> Bars:
    """How far each axis moves one figure."""
    low, high = min(s.low_figure for s in moved), max(s.high_figure for s in moved)
    room = (high - low) / 20
    across = kit.Scale(low - room, high + room, 0, kit.STRIP)

    def bar(s: Swing) -> Bar:
        parts = [kit.rect(across(s.low_figure), 2, across(s.high_figure) - across(s.low_figure), BAR - 4, "fill")]
        if s.reference_figure is not None and isfinite(s.reference_figure):
            parts.append(kit.line(across(s.reference_figure), 0, across(s.reference_figure), BAR, "limit"))
        words = f"{number(s.low_figure, output)} at {s.low} to {number(s.high_figure, output)} at {s.high}"
        return Bar(s.axis, kit.strip(parts, BAR, f"{output.name} by {s.axis}: {words}"), words)

    unit = kit.Scale(across.low, across.high, 0, 1)
    ticks = unit.ticks((x, tick(x, output)) for x in unit.steps(3))
    ordered = sorted(moved, key=lambda s: s.low_figure - s.high_figure)
    return Bars(f"What moves {output.name}", [bar(s) for s in ordered], ticks)


def crossing(axes: Sequence[AxisAnswer]) -> tuple[int | None, int | None]:
    """Number of the axis that lines run along, the numeric one with most values, and of the one that parts them."""
    numbered = [i for i, axis in enumerate(axes) if axis.numbers and len(axis.values) > 2]
    along = max(numbered, key=lambda i: len(axes[i].values), default=None)
    others = (i for i, axis in enumerate(axes) if i != along and 1 < len(axis.values) <= kit.COLOURS)
    return along, next(others, None)


def band(
    seen: Iterable[tuple[float, PointAnswer]], output: OutputAnswer, across: kit.Scale, up: kit.Scale, style: str
) -> Iterator[Markup]:
    """Intervals of the points of a line."""
    reach = [(across(x), *ends(point, output)) for x, point in seen]
    whole = [(x, up(low), up(high)) for x, low, high in reach if isfinite(low) and isfinite(high)]
    if len(whole) > 1:
        lower = [(x, low) for x, low, _ in whole]
        upper = [(x, high) for x, _, high in reversed(whole)]
        yield kit.path([*lower, *upper], f"{style} ribbon", closed=True)


def series(
    seen: Iterable[tuple[float, PointAnswer]], output: OutputAnswer, across: kit.Scale, up: kit.Scale, style: str
) -> Iterator[Markup]:
    """A line through points."""
    places = [(across(x), up(value_of(point, output)), point) for x, point in seen]
    for (x1, y1, _), (x2, y2, _) in pairwise(places):
        yield kit.path([(x1, y1), (x2, y2)], f"{style} series")
    for x, y, point in places:
        title = f"{name_of(point)}: {number(value_of(point, output), output)}"
        yield kit.dot(x, y, style if point.feasible else "off", title, 3.5)


def tick_of(x: float, axis: AxisAnswer) -> str:
    """As the study wrote it, where it did."""
    if axis.numbers and x in axis.numbers:
        return str(axis.values[axis.numbers.index(x)])
    return f"{x:g}"


def tick(value: float, output: OutputAnswer) -> str:
    """A figure on an axis: round, so that `$20` will do."""
    return f"${value:g}" if output.unit in MONEY else number(value, output)
