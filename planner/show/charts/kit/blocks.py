"""Charts as data, in the figures' own units: a page draws them by `svg`, `--plot` by `png`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import accumulate
from typing import ClassVar

from planner.show.charts.kit.axes import ChartAxis
from planner.show.document import Block, OnPage

PALETTE = (
    *("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#d4a72c"),
    *("#b07aa1", "#ff9da7", "#9c755f", "#8d99a6", "#2f8f8f", "#8a6fdf"),
)
"""Colours of things side by side; of more, some share one."""
Point = tuple[float, float]


def colour(number: int) -> str:
    """Name of a colour of the palette."""
    return f"c{number % len(PALETTE)}"


class Look(StrEnum):
    """How a line is drawn."""

    PLAIN = "line"
    DASHED = "dashed"
    THICK = "thick"
    FAINT = "faint"
    DOTS = "dots"
    """Its points alone."""
    AREA = "area"
    """The area within."""
    RIBBON = "ribbon"
    """The same, paler: intervals behind a line."""


AREAS = frozenset({Look.AREA, Look.RIBBON})


@dataclass(frozen=True, slots=True)
class Line:
    """A line through points."""

    points: Sequence[Point]
    colour: str = "fg"
    look: Look = Look.PLAIN
    name: str = ""
    """In the legend."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A line from one side of a chart to the other."""

    at: float
    colour: str = "limit"
    name: str = ""
    dashed: bool = False
    level: bool = False
    """From left to right, at a value of the vertical axis."""


@dataclass(frozen=True, slots=True)
class Box:
    """From one value to another on both axes."""

    left: float
    right: float
    low: float
    high: float
    colour: str
    title: str = ""
    """Shown to whoever points at it."""
    name: str = ""
    pale: bool = False


@dataclass(frozen=True, slots=True)
class Dot:
    """A point, and its name beside it."""

    x: float
    y: float
    colour: str
    label: str = ""
    title: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Label:
    """Words at a point."""

    x: float
    y: float
    text: str
    strong: bool = False
    colour: str = "fg"
    name: str = ""


Mark = Line | Rule | Box | Dot | Label


def upright(at: float, low: float = 0, high: float = 1, colour: str = "limit", look: Look = Look.PLAIN) -> Line:
    """A line from bottom to top, of a row where nothing else is said."""
    return Line([(at, low), (at, high)], colour, look)


def stairs(times: Sequence[float], values: Sequence[float], end: float) -> list[Point]:
    """Corners of a step function from its first time stamp to the end."""
    points: list[Point] = []
    for at, value in zip(times, values, strict=True):
        if points:
            points.append((at, points[-1][1]))
        points.append((at, value))
    return [*points, (end, points[-1][1])] if points else []


def area(points: Sequence[Point], colour: str = "fg") -> Line:
    """The area from a line through points down to nothing."""
    ends = [(points[0][0], 0.0), *points, (points[-1][0], 0.0)] if points else []
    return Line(ends, colour, Look.AREA)


def stacked(bars: Sequence[Mapping[str, float]]) -> Iterator[Box]:
    """Bars of parts on top of one another: of each bar the heights of its parts by name."""
    for i, parts in enumerate(bars):
        tops = list(accumulate(parts.values(), initial=0.0))
        for number, name in enumerate(parts):
            yield Box(i - 0.4, i + 0.4, tops[number], tops[number + 1], colour(number), name=name)


@dataclass(frozen=True, slots=True)
class Graph:
    """Marks in the plane of two axes."""

    title: str
    x: ChartAxis
    y: ChartAxis
    marks: Sequence[Mark]
    note: str = ""
    about: str = ""
    """What a screen reader says of it."""

    @property
    def seen(self) -> list[Mark]:
        """All marks but for lines beyond an end of their axis."""
        return [mark for mark in self.marks if not isinstance(mark, Rule) or self.holds(mark)]

    def holds(self, rule: Rule) -> bool:
        """True where a line crosses the plane."""
        axis = self.y if rule.level else self.x
        return axis.low <= rule.at <= axis.high


@dataclass(frozen=True, slots=True)
class FigureGrid(OnPage):
    """Graphs side by side."""

    holds: ClassVar[str] = "graphs"
    graphs: Sequence[Graph]


@dataclass(frozen=True, slots=True)
class Bar:
    """A row of a bar chart, from 0 to 1 high, and its figure in words."""

    label: str
    marks: Sequence[Mark]
    text: str
    bad: bool = False


@dataclass(frozen=True, slots=True)
class Bars(OnPage):
    """Rows on one axis."""

    holds: ClassVar[str] = "rows"
    title: str
    rows: Sequence[Bar]
    x: ChartAxis
    note: str = ""


@dataclass(frozen=True, slots=True)
class GpuGroup:
    """GPUs that are alike: what each holds, and how full and busy it is."""

    title: str
    """Their number and kind."""
    note: str
    models: Sequence[tuple[str, str]]
    """Colour and name of each."""
    meters: Sequence[Bar]
    """On an axis from 0 to 1."""


@dataclass(frozen=True, slots=True)
class GpuGroups(OnPage):
    """All GPUs of an answer, those that are alike drawn once."""

    holds: ClassVar[str] = "groups"
    x: ClassVar[ChartAxis] = ChartAxis(0, 1)
    groups: Sequence[GpuGroup]


@dataclass(frozen=True, slots=True)
class Strip:
    """Marks over a shared axis, without labels of their own."""

    style: str
    """`work`, `memory` or `queue`: how high it is."""
    marks: Sequence[Mark]
    high: float
    """Value at its upper edge."""
    about: str


@dataclass(frozen=True, slots=True)
class Lane:
    """Strips under one name."""

    name: str
    note: str
    right: str
    """Stands at the right of the name."""
    strips: Sequence[Strip]


@dataclass(frozen=True, slots=True)
class Lanes(OnPage):
    """Lanes on one axis."""

    holds: ClassVar[str] = "rows"
    rows: Sequence[Lane]
    x: ChartAxis


@dataclass(frozen=True, slots=True)
class Legend(OnPage):
    """Colours and whom they stand for."""

    holds: ClassVar[str] = "names"
    names: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Heat:
    """Two axes crossed: one figure in each field."""

    title: str
    down: str
    across: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[tuple[str, int]]]]
    """Each with its name; each field with its shade in per cent, -1 where it has no figure."""


@dataclass(frozen=True, slots=True)
class Heats(OnPage):
    """Heat maps side by side."""

    holds: ClassVar[str] = "heats"
    heats: Sequence[Heat]


Chart = Graph | Bars | Lanes | Heat


def charts_of(blocks: Iterable[Block]) -> Iterator[Chart]:
    """The charts in blocks, one by one."""
    for block in blocks:
        match block:
            case FigureGrid(graphs=graphs):
                yield from graphs
            case Heats(heats=heats):
                yield from heats
            case Bars() | Lanes():
                yield block


def moved(mark: Mark, up: float) -> Mark:
    """The same mark higher."""
    match mark:
        case Line():
            return replace(mark, points=[(x, y + up) for x, y in mark.points])
        case Box():
            return replace(mark, low=mark.low + up, high=mark.high + up)
        case Dot() | Label():
            return replace(mark, y=mark.y + up)
    return mark
