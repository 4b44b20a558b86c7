"""Calls about models: where time and memory go, times of batches, layers that they could share."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

from planner.api.asking import (
    File,
    Question,
    Shape,
    Texts,
    integer,
    load,
    maybe,
    parts,
    path_of,
    quantity,
    shape_text,
    whole,
    word,
)
from planner.catalog.knowledge import Files, knowledge, paths
from planner.console.shipped import shipped
from planner.model.progress import Progress, silent
from simulator.errors import InputError

if TYPE_CHECKING:
    from planner.placing.merging.analysis import Analysis
    from planner.prediction.queries import QueryAnswer
    from planner.questions.merging.breakeven import Breakeven
    from planner.questions.profiling.anatomy import Anatomy


def profile(
    model: str,
    gpu: str | None = None,
    *,
    batch: int = 1,
    precision: str = "fp32",
    resolution: int | None = None,
    input_shape: Shape | None = None,
    device: str | None = None,
    dataflow: str | None = None,
    measure: bool = False,
    catalog: Files = (),
    profiles: Files = (),
) -> "Anatomy":
    """Where one model's time and memory go, layer by layer. `input_shape` is one sample's. **Runs one's own code.**"""
    from planner.questions.profiling.anatomy import look
    from planner.questions.profiling.wish import BATCH_MAX, SIDE_MAX, SIDE_MIN, wished

    size = whole("batch", batch, 1, BATCH_MAX)
    side = resolution if resolution is None else whole("resolution", resolution, SIDE_MIN, SIDE_MAX)
    kind = maybe("gpu", gpu)
    named = word("model", model), word("precision", precision)
    known, library = knowledge(catalog, profiles)
    wish = wished(known, named[0], shape_text(input_shape), side, size, named[1], kind, device, dataflow, measure)
    return look(wish, library, known.gpus, paths(profiles))


def predict(
    file: File, *, catalog: Files = (), profiles: Files = (), progress: Progress = silent
) -> "list[QueryAnswer]":
    """Times of batches that nobody may have measured, a row for each of a CSV file: gpu, model, input, precision,
    runtime, batch; an empty cell means the usual."""
    from planner.prediction.queries import answers

    known, library = knowledge(catalog, profiles)
    return list(answers(shipped(path_of("file", file)), known.gpus, progress, library))


def merge_analyze(*models: str, input_shape: Shape | None = None, profiles: Files = ()) -> "Analysis":
    """Layers that models could share: names of any models or of measured profiles.

    `input_shape` is that of one sample of those that are named by where they come from. **Their code is run.**
    """
    from planner.placing.merging.analysis import analyze
    from planner.placing.merging.layers import layers_of, named
    from planner.questions.profiling.wish import sizes

    library = knowledge((), profiles)[1] if profiles else None
    text = shape_text(input_shape)
    shape = sizes(text) if text else None
    texts = [word("models", model) for model in models]
    return analyze(named(texts, lambda model: layers_of(model, library, shape if ":" in model else None)))


def merge_breakeven(
    scenario: Question,
    *,
    loads: Sequence[float] = (),
    counts: Sequence[int] = (),
    overrides: Texts = (),
    catalog: Files = (),
    profiles: Files = (),
    progress: Progress = silent,
) -> "Breakeven":
    """Which way of serving costs least, at `loads` times the scenario's and with the first `counts` of its models."""
    from planner.questions.merging.breakeven import breakeven
    from planner.units.reading import load_factor

    of_load = replace(load_factor, zero=True, most=inf)
    factors = [quantity("loads", of_load, one) for one in parts("loads", loads)]
    models = [integer("counts", count) for count in parts("counts", counts)]
    loaded = load(scenario, overrides)
    return breakeven(loaded, *knowledge(catalog, profiles), factors, models, progress)


def merge_train(spec: File, out: File, device: str = "cuda:0", *, resume: bool = False) -> dict[str, Any]:
    """Models trained to share layers: accuracy against memory, as in `curve.json`. **Runs the tasks' code.**

    InputError where it did not end well; standard error has the reason.
    """
    import json

    from calibrate.joint.spec import CURVE

    if code := run_joint(spec, out, device, resume, quiet=True):
        raise InputError(f"{spec}: the training ended with exit code {code}.")
    return dict(json.loads((path_of("out", out) / CURVE).read_text(encoding="utf-8")))


def run_joint(spec: File, out: File, device: str, resume: bool, quiet: bool) -> int:
    """The exit code of a training of models that share layers; below 0 the signal that ended it."""
    import json

    from planner.questions.merging.joint import read_joint_spec, run

    options = ["--out", str(out), "--device", device]
    if resume:
        options.append("--resume")
    if quiet:
        options.append("--quiet")
    return run(json.dumps(read_joint_spec(path_of("spec", spec)).to_json()), options)
