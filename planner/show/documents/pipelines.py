"""Pipelines of a replay: a drawing with a box for each stage, a table by stage, and how full resources are."""

from collections.abc import Iterator, Sequence
from functools import partial

from planner.model.plan import ModelAnswer, Recommendation, StageAnswer
from planner.model.simulation import Simulation
from planner.show.charts.kit.axes import ChartAxis
from planner.show.charts.kit.blocks import Box, FigureGrid, Graph, Label, Line, Mark
from planner.show.document import DrawnCharts, Items, Rows, Section, Table
from planner.show.text import resources as prose
from planner.units.writing import per_second, percent, seconds, share
from simulator.grouping import grouped

WIDE, HIGH = 0.42, 0.46
"""Half of a box; its place is one unit wide and high."""
BAR = 0.09
"""Height of the bar at its foot."""
LETTERS = 56
"""Letters that fit beside one another into all boxes of a row."""
NOTE = (
    "Frames go from left to right. In each box: the stage, the median of waiting and service, the share of time that "
    "it works, which the bar draws, and the share of its items that is lost, as far as there is any and room for it."
)


def sections(answer: Recommendation | Simulation, at: str) -> Iterator[Section]:
    """The stages of each pipeline, and the resources of all; `at` is where the answer stands in the JSON."""
    for i, model in enumerate(answer.models):
        if model.stages:
            rows = Rows.at(f"{at}models.{i}.stages", model.stages)
            stage_columns = [
                rows.words("stage", "name"),
                rows.words("does", does),
                rows.shown("budget", "budget_s", seconds),
                rows.figures("batch", lambda one: str(one.batch_size or "-"), "batch_size"),
                rows.shown("a frame", "items_per_frame", lambda items: f"{items:.2f}"),
                rows.shown("items", "items_per_s", per_second),
                rows.shown("waits p50", "waiting_p50_s", seconds),
                rows.shown("p99", "waiting_p99_s", seconds),
                rows.shown("runs p50", "service_p50_s", seconds),
                rows.shown("p99", "service_p99_s", seconds),
                rows.figures("lost", lambda one: f"{percent(one.lost_fraction, up=True)} %", "lost_fraction"),
                rows.shown("busy", "utilization", share),
            ]
            table = Table(stage_columns, stacked=True)
            drawn = DrawnCharts(partial(drawings, model))
            yield Section(f"Stages of {model.name}", [drawn, table], id=f"stages-{i}", link=model.name)
    yield Section(prose.FULLEST, [Items(prose.resource_lines(answer))], id="resources")


def does(stage: StageAnswer) -> str:
    """`model fp16`, `decoding`."""
    return " ".join(filter(None, (prose.WORK[stage.kind], stage.precision)))


def drawings(pipeline: ModelAnswer) -> Iterator[FigureGrid]:
    """The drawing of a pipeline."""
    yield FigureGrid([drawing(pipeline)])


def drawing(pipeline: ModelAnswer) -> Graph:
    """Stages as boxes, in columns by how many come before them."""
    places = places_of(pipeline.stages)
    columns = max(x for x, _ in places.values())
    rows = max(y for _, y in places.values())
    marks: list[Mark] = [*ways(pipeline.stages, places)]
    for stage in pipeline.stages:
        marks += box(stage, *places[stage.name], LETTERS / (columns + 1))
    about = f"Stages of {pipeline.name}: {', '.join(map(about_stage, pipeline.stages))}"
    x, y = ChartAxis(-0.5, columns + 0.5), ChartAxis(-0.5, rows + 0.5)
    return Graph(pipeline.name, x, y, marks, NOTE, about)


def places_of(stages: Sequence[StageAnswer]) -> dict[str, tuple[float, float]]:
    """Column and row of each stage; a column's stages are spread over the height of the fullest."""
    depth: dict[str, int] = {}
    by_name = {stage.name: stage for stage in stages}

    def column(name: str) -> int:
        if name not in depth:
            depth[name] = 1 + max(map(column, by_name[name].after), default=-1)
        return depth[name]

    columns = grouped((column(stage.name), stage.name) for stage in stages)
    most = max(map(len, columns.values()))
    return {
        name: (float(number), most - 1 - (row + (most - len(names)) / 2))
        for number, names in columns.items()
        for row, name in enumerate(names)
    }


def ways(stages: Sequence[StageAnswer], places: dict[str, tuple[float, float]]) -> Iterator[Line]:
    """A line from each stage to those after it."""
    for stage in stages:
        x, y = places[stage.name]
        for earlier in stage.after:
            from_x, from_y = places[earlier]
            yield Line([(from_x + WIDE, from_y), (x - WIDE, y)], "off")


def box(stage: StageAnswer, x: float, y: float, letters: float) -> Iterator[Mark]:
    """One stage: its name, its time and its loss, over the share of time that it works."""
    busy = min(1.0, stage.utilization) if stage.utilization == stage.utilization else 0.0
    top, floor = y + HIGH, y - HIGH
    title = about_stage(stage)
    yield Box(x - WIDE, x + WIDE, floor, top, "band", title)
    yield Box(x - WIDE, x - WIDE + 2 * WIDE * busy, floor, floor + BAR, "fill", title)
    yield Label(x, y + 0.2, stage.name, strong=True)
    yield Label(x, y - 0.03, seconds(stage.waiting_p50_s + stage.service_p50_s))
    lost = f"{percent(stage.lost_fraction, up=True)} % lost"
    ways = [f"{share(busy)}, {lost}", lost] if stage.lost_fraction > 0 else [f"{share(busy)} busy"]
    yield Label(x, y - 0.26, next((way for way in ways if len(way) <= letters), share(busy)))


def about_stage(stage: StageAnswer) -> str:
    """What a screen reader, or whoever points at it, is told."""
    took = f"median {seconds(stage.waiting_p50_s)} waiting and {seconds(stage.service_p50_s)} service"
    return f"{stage.name} works {share(stage.utilization)} of the time, {took}, {percent(stage.lost_fraction)} % lost"
