"""Calls that make a scenario, or what one is made of."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from planner.api.asking import File, path_of, quantity
from planner.catalog.knowledge import Files, knowledge
from simulator.errors import InputError

if TYPE_CHECKING:
    from planner.io.traces.summary import TraceSummary
    from planner.io.traces.table import TraceTable


def init(source: File | None = None, *, training: bool = False, profiles: Files = ()) -> str:
    """The text of a commented scenario to start from; with `source`, of what another tool serves by that file."""
    from planner.io.starter import starter

    if source is None:
        return starter(training=training)
    from planner.imports.serving.formats import read
    from planner.imports.serving.scenario_text import Import

    return Import(read(path_of("source", source)), knowledge((), profiles)[1]).text()


def from_triton(repository: File, *, rates: Sequence[str] = (), slos: Sequence[str] = (), profiles: Files = ()) -> str:
    """The text of a scenario made of a Triton model repository: `rates=["10 rps", "resnet50=20 rps"]`."""
    from planner.imports.serving.from_triton import read

    return read(path_of("repository", repository), rates, slos, knowledge((), profiles)[1]).text()


def schema(*, training: bool = False) -> dict[str, Any]:
    """The JSON Schema of scenarios."""
    from planner.io.load import schema as schema_of
    from planner.model.scenario import Scenario
    from planner.questions.training.scenario import TrainingScenario

    return schema_of(TrainingScenario if training else Scenario)


def trace_describe(file: File, column: str | None = None, function: str | int = 1) -> "TraceSummary":
    """Count, rate and burstiness of a recording."""
    from planner.io.traces.reading import read_trace
    from planner.io.traces.summary import describe

    return describe(read_trace(path_of("file", file), column, function))


def trace_import(
    file: File,
    out: File,
    rate_rps: float | str | None = None,
    duration_s: float | str | None = None,
    function: str | int = 1,
    column: str | None = None,
) -> "TraceTable":
    """A recording turned into a CSV that a scenario can name."""
    from planner.io.store import demand_place
    from planner.io.traces.writing import import_trace
    from planner.units.reading import duration, rate

    path = path_of("out", out)
    if path.suffix.lower() != ".csv":
        raise InputError(f"out: must end in .csv, got {out}.")
    scaled_rps = None if rate_rps is None else quantity("rate_rps", rate, rate_rps)
    lasts_s = None if duration_s is None else quantity("duration_s", duration, duration_s)
    demand_place(path)
    return import_trace(path_of("file", file), path, scaled_rps, lasts_s, function, column)
