"""Memory of a training's step on one GPU: measured where a profile has it, else by layers or shape."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import inf

from calibrate.layers.work import Facts
from calibrate.published import names
from planner.model.ranges import Range, exactly
from planner.prediction.predict import Predictor
from planner.prediction.trainings import PLAIN, published_steps
from planner.questions.training.layout import TrainingLayout
from planner.questions.training.memory import (
    Fits,
    States,
    TrainingMemory,
    largest_batch,
    memory,
    states,
    vision_activation_bytes,
)
from planner.questions.training.speed import MEASURED_OPTIMIZER
from simulator.world.hardware import GPU
from simulator.world.precision import VALUE_BYTES


def activations(layout: TrainingLayout, predictor: Predictor) -> Range:
    """Bytes that one sample keeps on one GPU between the passes: the measured slope, else from layers or shape.

    A pipeline's first stage has as many micro-batches under way as there are stages, or as there are at all (1F1B).
    """
    train, subject, split = layout.scenario.train, layout.subject, layout.split
    under_way = min(split.pipeline, train.passes) / split.pipeline
    slope = measured_activations(layout, predictor)
    if slope is not None:
        return exactly(slope / split.tensor * under_way)
    if subject.shape:
        over_two_bytes = VALUE_BYTES[train.precision] / 2
        return exactly(subject.shape.activation_bytes(1, split, train.recompute) * over_two_bytes * under_way)
    assert subject.facts
    kept = vision_activation_bytes(subject.facts, train.precision, train.recompute)
    most = trained_bytes(subject.facts, train.precision, predictor.gpus)
    return kept.each(lambda end: min(end, most)) * (under_way / split.tensor)


def trained_bytes(facts: Facts, precision: str, gpus: Mapping[str, GPU]) -> float:
    """Most bytes that a sample may keep, by published trainings: each fitted into its GPU. Infinite where none was."""
    model, side = names.architecture(facts.model), str(facts.input_shape[-1])
    alike = (
        step
        for step in published_steps()
        if (names.architecture(step.model), step.input, step.precision) == (model, side, precision)
        if step.software == PLAIN and step.gpu in gpus
    )
    always = states(facts.params, precision, "sgd").total
    return min(((gpus[step.gpu].memory_bytes - always) / step.batch for step in alike), default=inf)


def measured_activations(layout: TrainingLayout, predictor: Predictor) -> float | None:
    """Bytes of one more sample, between a profile's smallest and largest batch; None where they were not measured."""
    model, train = layout.scenario.model, layout.scenario.train
    if model.pixels or model.channels or train.recompute != "none":
        return None
    sizes = sorted(_activations_by_batch(layout, predictor))
    if len(sizes) < 2:
        return None
    (least, least_bytes), (most, most_bytes) = sizes[0], sizes[-1]
    return max(0.0, float(most_bytes - least_bytes)) / (most - least) or None


def _activations_by_batch(layout: TrainingLayout, predictor: Predictor) -> Iterator[tuple[int, float]]:
    """Batches of the model's profile on this kind of GPU, and the bytes of their activations."""
    name, train = layout.subject.profile, layout.scenario.train
    profile = predictor.library.get(name, layout.gpu.name, train.precision) if name else None
    if profile is None:
        return
    optimizer = MEASURED_OPTIMIZER.get(train.optimizer)
    points = predictor.library.measured(profile).get("points", {}).get(f"memory.{optimizer}", {})
    for batch, point in points.items():
        if size_bytes := point.get("values", {}).get("activations_bytes"):
            yield int(batch), size_bytes


def fixed(layout: TrainingLayout) -> States:
    """Bytes on one GPU that do not grow with the batch."""
    train, subject = layout.scenario.train, layout.subject
    return states(subject.params, train.precision, train.optimizer, layout.split, subject.buffer_bytes)


def peak(layout: TrainingLayout, per_sample: Range) -> TrainingMemory:
    """Memory of a step on one GPU, with so many bytes of activations a sample."""
    return memory(fixed(layout), per_sample * layout.micro_batch, layout.scenario.context)


def accumulation_enough(layout: TrainingLayout, predictor: Predictor) -> int | None:
    """Fewest passes a step, of as many samples in all, with which it surely fits; None where no number does."""
    if layout.scenario.train.global_batch is None:
        return None
    return next((tried for tried in _more_passes(layout) if _surely_fits(layout, tried, predictor)), None)


def in_room(layout: TrainingLayout, predictor: Predictor) -> TrainingLayout:
    """The layout with as many passes a step as memory needs, where the scenario leaves them open.

    Only of a transformer, whose result they do not change: batch norms see the samples of one pass.
    """
    if layout.scenario.train.accumulation is not None or layout.subject.shape is None:
        return layout
    if _surely_fits(layout, 1, predictor):
        return layout
    passes = accumulation_enough(layout, predictor)
    return layout if passes is None else _with_passes(layout, passes)


def _more_passes(layout: TrainingLayout) -> Iterator[int]:
    """Passes a step into which a copy's samples can be divided, more than there are."""
    passes = layout.scenario.train.passes
    samples = round(layout.micro_batch * passes)
    return (n for n in range(passes + 1, samples + 1) if not samples % n)


def _surely_fits(layout: TrainingLayout, passes: int, predictor: Predictor) -> bool:
    tried = _with_passes(layout, passes)
    memory = peak(tried, activations(tried, predictor))
    return Fits.of(memory.total, layout.source.memory_bytes) is Fits.YES


def _with_passes(layout: TrainingLayout, passes: int) -> TrainingLayout:
    """The layout with so many passes a step, of as many samples in all."""
    scenario = layout.scenario
    return replace(
        layout,
        scenario=replace(scenario, train=replace(scenario.train, accumulation=passes)),
        micro_batch=layout.micro_batch * scenario.train.passes / passes,
    )


def largest(layout: TrainingLayout, per_sample: Range) -> int:
    """Most samples of one pass that fit."""
    return largest_batch(fixed(layout), per_sample, layout.scenario.context, layout.source.memory_bytes)
