"""Charts of merging: what is equal in several models, and which way of serving costs least."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from math import isfinite

from planner.placing.merging.analysis import TOP_TENTH, Analysis, HeavyHitters
from planner.questions.merging.breakeven import Breakeven, BreakevenRow
from planner.show.charts.kit.axes import axis_around, axis_to, plain
from planner.show.charts.kit.blocks import Bar, Bars, Box, Chart, Dot, Graph, Line, Look, Mark, Rule, colour
from planner.show.charts.plan import WIDE, round_dollars
from planner.show.text.merging import axes
from planner.units.writing import share

MODELS_MAX = 60
"""Models up to which each has a bar."""
SERIES = 5
"""Models side by side."""
STRIP = 0.035
"""Height of the strip below, as a share of the picture's."""
MEGABYTE = 1e6
NOTE = "Strip: what is cheapest."


def analysis(seen: Analysis) -> list[list[Chart]]:
    """How much of each model others have too, how the saving grows group by group, and how memory lies in layers."""
    largest = sorted(seen.heavy_hitters, key=lambda x: -x.bytes)[:SERIES]
    return [[models(seen), groups(seen)], [ranks(largest), cumulative(largest)]]


def breakeven(seen: Breakeven) -> list[list[Chart]]:
    """Dollars a month of each way, against load and against the number of models."""
    return [[ways(title, axis, rows) for title, axis, rows in axes(seen)]]


def models(seen: Analysis) -> Bars:
    """What others have too, and what is a model's own."""
    shown = seen.heavy_hitters[:MODELS_MAX]
    rows = [model_bar(x, seen.shared_by.get(x.model, 0)) for x in shown]
    x = axis_to(max(x.bytes for x in shown) / MEGABYTE * 1.05, plain, title="MB")
    return Bars("Layers of each model, MB", rows, x)


def model_bar(x: HeavyHitters, shared_bytes: int) -> Bar:
    """One model."""
    whole, common = x.bytes / MEGABYTE, shared_bytes / MEGABYTE
    shared = Box(0, common, *WIDE, colour(0), name="others have it too")
    own = Box(common, whole, *WIDE, colour(9), name="its own")
    return Bar(x.model, [shared, own], f"{whole:,.0f}")


def groups(seen: Analysis) -> Graph:
    """The saving, largest groups first, beside what stems save."""
    saved = [size / MEGABYTE for size in accumulate((g.saved_bytes for g in seen.groups), initial=0)]
    marks: list[Mark] = [
        Line(list(enumerate(saved)), colour(0), name="all equal layers"),
        Rule(seen.branching_stem_bytes / MEGABYTE, colour(6), "stems", dashed=True, level=True),
        Rule(seen.total_bytes / MEGABYTE, colour(2), "all weights", level=True),
    ]
    x = axis_to(max(1, len(seen.groups)), plain, title="groups of equal layers shared")
    return Graph("Saved by sharing", x, axis_to(seen.total_bytes / MEGABYTE * 1.05, plain, title="MB"), marks)


def ranks(largest: Sequence[HeavyHitters]) -> Graph:
    """Layers by rank, the largest first, and the power law through them."""
    sizes = [size / MEGABYTE for x in largest for size in x.layer_bytes if size > 0]
    marks = [mark for i, x in enumerate(largest) for mark in ranked(x, colour(i))]
    most = max(len(x.layer_bytes) for x in largest)
    x = axis_around([1, most], plain, title="rank", log=True)
    return Graph("Memory of layers by rank", x, axis_around(sizes, plain, title="MB", log=True), marks)


def ranked(x: HeavyHitters, tint: str) -> Iterator[Mark]:
    """One model."""
    yield Line([(rank, size / MEGABYTE) for rank, size in enumerate(x.layer_bytes, start=1)], tint, Look.DOTS, x.model)
    if law := x.power_law:
        points = [(rank, law(rank) / MEGABYTE) for rank in range(1, len(x.layer_bytes) + 1)]
        yield Line(points, tint, name=f"rank ^ -{law.exponent:.1f}")


def cumulative(largest: Sequence[HeavyHitters]) -> Graph:
    """Share of the memory in the largest layers."""
    lines = []
    for i, x in enumerate(largest):
        held = accumulate((size / x.bytes for size in x.layer_bytes), initial=0.0)
        points = [(rank / len(x.layer_bytes), part) for rank, part in enumerate(held)]
        lines.append(Line(points, colour(i), name=x.model))
    tenth = Rule(TOP_TENTH, colour(9), "largest tenth", dashed=True)
    across, up = axis_to(1, share, title="share of the layers"), axis_to(1.02, share, title="share of the memory")
    return Graph("Memory in the largest layers", across, up, [*lines, tenth])


def ways(title: str, axis: str, rows: Sequence[BreakevenRow]) -> Graph:
    """A line for each way. Below, the colour of what is cheapest."""
    names = [cell.way for cell in rows[0].cells]
    lines = [way(rows, i) for i in range(len(names))]
    most = max((cost for line in lines for _, cost in line.points), default=1.0) * 1.1
    dots = [Dot(x, cost, line.colour) for line in lines for x, cost in line.points]
    label = "rates over those of the scenario" if axis == "load" else "models"
    around = axis_around([row.at for row in rows], plain, title=label)
    x = replace(around, ticks=[(row.at, plain(row.at)) for row in rows])
    y = axis_to(most, round_dollars, title="US dollars a month")
    return Graph(title, x, y, [*lines, *dots, *winners(rows, names, STRIP * most)], NOTE)


def winners(rows: Sequence[BreakevenRow], names: Sequence[str], high: float) -> Iterator[Box]:
    """The colour of what is cheapest, halfway to what was tried beside it."""
    edges = [rows[0].at, *((a.at + b.at) / 2 for a, b in pairwise(rows)), rows[-1].at]
    for row, (left, right) in zip(rows, pairwise(edges), strict=True):
        if row.wins in names:
            yield Box(left, right, 0, high, colour(names.index(row.wins)))


def way(rows: Sequence[BreakevenRow], number: int) -> Line:
    """One way, as far as it serves. Equal lines lie on each other: dashes let the one below be seen."""
    cells = [(row.at, row.cells[number].usd_per_month) for row in rows]
    look = Look.DASHED if number % 2 else Look.THICK
    return Line([cell for cell in cells if isfinite(cell[1])], colour(number), look, rows[0].cells[number].way)
