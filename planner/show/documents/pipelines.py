"""Pipelines of a replay: a drawing, a table by stage, and how full resources are."""

from collections.abc import Iterator
from functools import partial

from planner.model.plan import ModelAnswer, Recommendation, StageAnswer
from planner.model.simulation import Simulation
from planner.show.document import Column, DrawnCharts, Items, Rows, Section, Table
from planner.show.drawing import drawings
from planner.show.text import resources as prose
from planner.units.writing import per_second, percent, seconds, share


def sections(answer: Recommendation | Simulation, at: str) -> Iterator[Section]:
    """The stages of each pipeline, and the resources of all; `at` is where the answer stands in the JSON."""
    for i, model in enumerate(answer.models):
        if model.stages:
            table = Table(stage_columns(model, f"{at}models.{i}.stages"), stacked=True)
            drawn = DrawnCharts(partial(drawings, [model]))
            yield Section(f"Stages of {model.name}", [drawn, table], id=f"stages-{i}", link=model.name)
    yield Section(prose.FULLEST, [Items(prose.resource_lines(answer))], id="resources")


def stage_columns(model: ModelAnswer, at: str) -> list[Column]:
    """The part of the SLO, the batches, the time and the loss of each stage."""
    rows = Rows.at(at, model.stages)
    return [
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


def does(stage: StageAnswer) -> str:
    """`model fp16`, `decoding`."""
    return " ".join(filter(None, (prose.WORK[stage.kind], stage.precision)))
