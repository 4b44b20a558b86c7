"""Training scenarios read from YAML: what is wrong between their parts, and what is odd about them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planner.io.load import ScenarioReader, listed, parsed, refusal, text_of
from planner.questions.training.memory import OPTIMIZERS
from planner.questions.training.scenario import (
    RECOMPUTE,
    SHOWN_COUNTS,
    ParallelSpec,
    TrainedModel,
    TrainingScenario,
    TrainSpec,
    Transformer,
    batch_of,
    has_a_step,
    step_samples,
)
from planner.units.errors import Steps, Wrong, shown
from planner.units.reading import did_you_mean
from planner.units.writing import gpus

SPEEDS = ("achieved", "rate", "step", "run")
MIXTURE = 4
"""Parameters over or below those of the shape from which they are doubted: over, it may be a mixture of experts."""


@dataclass(frozen=True, slots=True)
class LoadedTraining:
    """A training scenario, and what is odd about it."""

    scenario: TrainingScenario
    path: Path
    warnings: tuple[str, ...] = ()
    text: str = ""
    """The file as it was."""
    overrides: tuple[str, ...] = ()


COUNTS_LOOKED_AT = 10_000
"""Most GPUs that an error tells to try."""


def load_training(path: Path, overrides: Sequence[str] = ()) -> LoadedTraining:
    """The training scenario in a YAML file after `key=value` overrides; ScenarioError lists all that is wrong."""
    return load_training_text(text_of(path), path, overrides)


def load_training_text(text: str, path: Path, overrides: Sequence[str] = ()) -> LoadedTraining:
    """The same of a text. Files that it names lie in the folder of `path`."""
    reader = ScenarioReader(parsed(text, path))
    for override in overrides:
        reader.override(override)
    scenario = training_of(reader)
    if scenario is None or reader.problems:
        raise refusal(path, reader.problems)
    return LoadedTraining(scenario, path, tuple(odd(scenario)), text, tuple(overrides))


def training_of(reader: ScenarioReader) -> TrainingScenario | None:
    """The training scenario in a document; None, or problems, where it holds none."""
    scenario = reader.validated(TrainingScenario, ("model", "data", "train"))
    if scenario and not reader.problems:
        for path, text, *keys in wrong(scenario):
            reader.report(path, text, keys)
    return scenario


def wrong(scenario: TrainingScenario) -> Iterator[Wrong]:
    """All that is wrong between the parts of a training scenario."""
    yield from _wrong_model(scenario.model)
    yield from _wrong_data(scenario)
    yield from _wrong_training(scenario)
    yield from _wrong_copies(scenario.parallel)
    yield from _wrong_parts(scenario)
    yield from _wrong_words(scenario.train)
    yield from _wrong_length(scenario)
    for i, speed in enumerate(scenario.speed):
        yield from _one_of(("speed", i), speed, SPEEDS)


def _wrong_model(model: TrainedModel) -> Iterator[Wrong]:
    yield from _one_of(("model",), model, ("zoo", "factory", "transformer"))
    if model.factory and not model.input:
        text = "needs `input`, the shape of one sample, with `factory`. Write e.g. `input: [3, 224, 224]`."
        yield ("model",), text, "input", "factory"
    if model.transformer is None:
        return
    if model.pixels or model.channels:
        text = "has `pixels` or `channels`, which a transformer by shape does not. Leave them out."
        yield ("model",), text, "pixels", "channels"
    yield from _wrong_shape(model.transformer)


def _wrong_shape(shape: Transformer) -> Iterator[Wrong]:
    path = ("model", "transformer")
    if shape.active_params and shape.active_params > (shape.params or shape.active_params):
        yield (*path, "active_params"), "must be at most `params`. Exchange them."
    if shape.hidden % shape.heads:
        yield (*path, "heads"), f"must divide `hidden`, {shape.hidden}, got {shape.heads}."


def _wrong_data(scenario: TrainingScenario) -> Iterator[Wrong]:
    data = scenario.data
    yield from _one_of(("data",), data, ("samples", "tokens"))
    if data.tokens is not None and scenario.model.transformer is None:
        remedy = "Give `model.transformer` with its shape or `params`, or count `samples`."
        yield ("data", "tokens"), f"tokens without parameters: the model has no tokens. {remedy}"
    if (data.storage is None) != (data.bytes is None):
        text = "needs `storage` and `bytes` together: what a machine reads, and what a sample has."
        yield ("data",), text, "storage", "bytes"


def _wrong_training(scenario: TrainingScenario) -> Iterator[Wrong]:
    train = scenario.train
    if train.epochs or train.epochs_to_target or scenario.data.tokens is None:  # tokens are passed over once
        yield from _one_of(("train",), train, ("epochs", "epochs_to_target"), "Write e.g. `epochs: 90`.")
    yield from _one_of(("train",), train, ("global_batch", "micro_batch"), "Write e.g. `global_batch: 256`.")
    if train.recompute == "selective" and scenario.model.transformer is None:
        text = "selective drops attention's part of a `transformer` by shape. Write full."
        yield ("train", "recompute"), text
    if train.global_batch is not None:
        yield from _wrong_batch(scenario, train.global_batch)


def _wrong_batch(scenario: TrainingScenario, batch: int) -> Iterator[Wrong]:
    if not scenario.gpu_counts or any(batch_of(scenario, count) for count in scenario.gpu_counts):
        return
    parts, passes = scenario.parallel.parts, scenario.train.passes
    divided = f"{batch} is divided by none of {_counts(scenario.gpu_counts)}"
    if parts > 1:
        divided += f" as copies of the model on {parts} each"
    if passes > 1:
        divided += f" with {passes} passes a step"
    most = min(max(scenario.gpu_counts), batch * parts, COUNTS_LOOKED_AT)
    fitting = [count for count in range(1, most + 1) if batch_of(scenario, count)]
    listed = f", such as {', '.join(map(str, fitting[-SHOWN_COUNTS:]))}" if fitting else ""
    yield ("train", "global_batch"), f"{divided}. Write a batch that one of them divides, or other `counts`{listed}."


def _wrong_copies(parallel: ParallelSpec) -> Iterator[Wrong]:
    if parallel.synchronous:
        if parallel.epochs_per_staleness:
            text = "needs `synchronous: false`: gradients are never late otherwise."
            yield ("parallel", "epochs_per_staleness"), text
        return
    if parallel.parts > 1:
        yield ("parallel", "synchronous"), "must be true where a model is divided. Leave out `tensor` and `pipeline`."
    if parallel.zero:
        yield ("parallel", "zero"), "must be 0 where copies do not wait for each other. Leave it out."


def _wrong_parts(scenario: TrainingScenario) -> Iterator[Wrong]:
    parallel, shape = scenario.parallel, scenario.model.transformer
    if parallel.zero == 3 and parallel.pipeline > 1:
        yield ("parallel", "zero"), "must be below 3 with a pipeline, whose stages need their weights. Write 1 or 2."
    if parallel.sequence_parallel and parallel.tensor == 1:
        yield ("parallel", "sequence_parallel"), "needs `tensor` above 1: it divides the rest of a divided layer."
    if shape and shape.heads % parallel.tensor:
        yield ("parallel", "tensor"), f"must divide `heads`, {shape.heads}, got {parallel.tensor}."
    counts = scenario.counts or scenario.usual_counts
    if parallel.parts > 1 and all(count % parallel.parts for count in counts):
        divided = f"tensor {parallel.tensor} x pipeline {parallel.pipeline}"
        remedy = "Write other parts, or other `counts`."
        yield ("parallel",), f"{divided} divide none of {_counts(counts)}. {remedy}", "tensor", "pipeline"


def _wrong_words(train: TrainSpec) -> Iterator[Wrong]:
    known: dict[str, Sequence[str]] = {"optimizer": OPTIMIZERS, "recompute": RECOMPUTE}
    for key, words in known.items():
        word = getattr(train, key)
        if word not in words:
            hint = did_you_mean(word, list(words))
            yield ("train", key), f"must be one of {', '.join(words)}, got {shown(word)}.{hint}"


def _wrong_length(scenario: TrainingScenario) -> Iterator[Wrong]:
    """A training that ends before its first step."""
    shape, data, counts = scenario.model.transformer, scenario.data, scenario.gpu_counts
    key = "samples" if data.tokens is None else "tokens"
    if (data.samples is None) == (data.tokens is None) or (key == "tokens" and shape is None):
        return
    if not counts or any(has_a_step(scenario, count) for count in counts):
        return
    step = min(step_samples(scenario, count) for count in counts)
    epochs = scenario.epochs_most
    samples = epochs * scenario.epoch_samples
    number = f"{samples:,.0f}" if samples >= 10 else f"{samples:.2g}"
    of_tokens = f" of {shape.sequence:,} tokens" if shape else ""
    given = f"{number} samples{of_tokens} in {epochs:g} epoch{'' if epochs == 1 else 's'}"
    text = f"{given} are less than one step of {step:,.15g}. Write more of them, more epochs, or a smaller batch."
    yield ("data", key), text


def _one_of(path: Steps, spec: Any, keys: Sequence[str], remedy: str = "Keep one.") -> Iterator[Wrong]:
    """A mapping that has none of some keys, or several."""
    given = [key for key in keys if getattr(spec, key)]
    if len(given) != 1:
        got = listed(given) if given else "none"
        yield path, f"must have one of {listed(keys)}, got {got}. {remedy}", *keys


def _counts(counts: Sequence[int]) -> str:
    return gpus(counts[:SHOWN_COUNTS])


def odd(scenario: TrainingScenario) -> Iterator[str]:
    """Warnings of what is allowed and probably not meant."""
    if shape := scenario.model.transformer:
        yield from _odd_shape(shape)
    if not scenario.parallel.synchronous and not scenario.parallel.epochs_per_staleness:
        yield "parallel.synchronous: late gradients usually take more epochs; `epochs_per_staleness` says how many."


def _odd_shape(shape: Transformer) -> Iterator[str]:
    if shape.experts > 1 and shape.active_params is None:
        total = f", {shape.params / 1e9:g}B" if shape.params else ""
        yield (
            f"model.transformer: a mixture of {shape.experts} experts is computed with all its parameters"
            f"{total}, though a token uses few of them. Give `active_params`."
        )
    if shape.experts == 1 and shape.params:
        yield from _odd_params(shape.params, shape.shape_params)


def _odd_params(params: float, of_shape: float) -> Iterator[str]:
    times = params / of_shape
    if 1 / MIXTURE <= times <= MIXTURE:
        return
    beside = f"{counted_params(params)} beside a shape that has about {counted_params(of_shape)}"
    experts = " If it is a mixture of experts, give `experts` and `active_params`." if times > 1 else ""
    mantissa, exponent = f"{of_shape:.2e}".split("e")
    over = int(exponent) % 3
    in_thousands = f"{float(mantissa) * 10**over:g}e{int(exponent) - over}"
    yield f"model.transformer.params: {beside}. Leave it out, or write e.g. `{in_thousands}`.{experts}"


def counted_params(params: float) -> str:
    """`335`, `335M`, `6.7B`."""
    size, unit = next(((size, unit) for size, unit in ((1e9, "B"), (1e6, "M")) if params >= size), (1, ""))
    return f"{params / size:,.4g}{unit}"
