"""Memory of a training's step on one GPU: measured where a profile has it, else by layers or shape."""

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache

import numpy as np

from calibrate.io.points import OPTIMIZERS
from calibrate.layers.work import Facts
from calibrate.library.lookup import Library
from calibrate.published import names
from planner.model.ranges import Range, exactly, ranged
from planner.prediction.predict import Predictor
from planner.prediction.trainings import PLAIN, PublishedStep, published_steps
from planner.questions.training.layout import TrainingLayout
from planner.questions.training.memory import (
    ALLOCATOR,
    CONTEXT_BYTES,
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
from simulator.world.profile import Profile

ELSEWHERE = ranged(0.9, 1.0, 1.3)
"""What a step keeps over what was measured on another kind of GPU, whose libraries choose other kernels. 1.3 is the
margin of inference; between an H100 and an H200 nothing differs."""

PAST = ranged(0.9, 1.0, 1.1)
"""Growth past the last measured batch over that of the line: from 128 samples to 256 an H100 allocated 0.997 of what
its line from 32 to 128 says."""
MEASURED_AS = {"sgd": "momentum", "adam": "adam"}
"""The optimizer of a plan that keeps as much as each that calibration measures."""
BATCH_MAX = 1_000_000


def peak(layout: TrainingLayout, predictor: Predictor) -> TrainingMemory:
    """Memory of a step on one GPU: as steps were measured, else from layers or shape."""
    return _memory_by_batch(layout, predictor).of(layout.micro_batch)


def largest(layout: TrainingLayout, predictor: Predictor) -> int:
    """Most samples of one pass that surely fit: at the upper end of the band."""
    return _largest(_memory_by_batch(layout, predictor), layout.source.memory_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBySample:
    """Memory of a step on one GPU, each of whose samples needs as much."""

    fixed: States
    sample_bytes: Range
    context_bytes: float

    def of(self, batch: float) -> TrainingMemory:
        """Of a step of so many samples."""
        return memory(self.fixed, self.sample_bytes * batch, self.context_bytes)

    def largest(self, limit_bytes: float) -> int:
        """Most samples that surely fit."""
        return largest_batch(self.fixed, self.sample_bytes.high, self.context_bytes, limit_bytes, ALLOCATOR.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryAsMeasured:
    """Memory of a step on one GPU, as steps of some batches were measured."""

    fixed: States
    measured: "MeasuredMemory"
    states_bytes: float
    """Those that the measured steps had."""
    share: float
    """Share of the activations that one GPU keeps."""
    sample_bytes: Range
    """What each sample keeps, by layers."""
    sample_most_bytes: float
    context_bytes: float

    def of(self, batch: float) -> TrainingMemory:
        """Of a step of so many samples."""
        kept = self.measured.kept(batch, self.states_bytes, self.sample_bytes)
        most = max(kept.mid, self.sample_most_bytes * batch)
        held = kept.each(lambda end: min(end, most)) * self.share
        return memory(self.fixed, held, self.context_bytes, self.measured.allocator(batch))

    def largest(self, limit_bytes: float) -> int:
        """Most samples that surely fit."""
        above = bisect_right(range(BATCH_MAX), limit_bytes, key=lambda batch: self.of(batch).total.high)
        return max(0, above - 1)


@lru_cache(maxsize=256)
def _largest(by_batch: MemoryBySample | MemoryAsMeasured, limit_bytes: float) -> int:
    return by_batch.largest(limit_bytes)


def _memory_by_batch(layout: TrainingLayout, predictor: Predictor) -> MemoryBySample | MemoryAsMeasured:
    scenario, subject, precision = layout.scenario, layout.subject, layout.scenario.train.precision
    measured = measured_memory(layout, predictor)
    if measured is None:
        return MemoryBySample(
            fixed=fixed(layout),
            sample_bytes=activations(layout, predictor),
            context_bytes=scenario.context or CONTEXT_BYTES,
        )
    assert subject.facts
    return MemoryAsMeasured(
        fixed=fixed(layout),
        measured=measured,
        states_bytes=states(subject.params, precision, measured.optimizer, buffer_bytes=subject.buffer_bytes).total,
        share=_under_way(layout) / layout.split.tensor,
        sample_bytes=vision_activation_bytes(subject.facts, precision),
        sample_most_bytes=trained_bytes(subject.facts, precision, predictor.gpus),
        context_bytes=scenario.context or measured.context_bytes,
    )


def activations(layout: TrainingLayout, predictor: Predictor) -> Range:
    """Bytes that one sample keeps on one GPU between the passes, from layers or shape."""
    train, subject, split = layout.scenario.train, layout.subject, layout.split
    under_way = _under_way(layout)
    if subject.shape:
        over_two_bytes = VALUE_BYTES[train.precision] / 2
        return exactly(subject.shape.activation_bytes(1, split, train.recompute) * over_two_bytes * under_way)
    assert subject.facts
    kept = vision_activation_bytes(subject.facts, train.precision, train.recompute)
    most = trained_bytes(subject.facts, train.precision, predictor.gpus)
    return kept.each(lambda end: min(end, most)) * (under_way / split.tensor)


def _under_way(layout: TrainingLayout) -> float:
    """Share of a micro-batch's activations that a GPU holds: the first stage of a pipeline, whose share is least, has
    as many micro-batches under way as there are stages, or as there are at all (1F1B)."""
    pipeline = layout.split.pipeline
    return min(pipeline, layout.scenario.train.passes) / pipeline


def trained_bytes(facts: Facts, precision: str, gpus: Mapping[str, GPU]) -> float:
    """Most bytes that a sample may keep, by published trainings: each fitted into its GPU. Infinite where none was."""
    asked = names.architecture(facts.model), str(facts.input_shape[-1]), precision
    alike = (step for step in _steps_by_network().get(asked, ()) if step.gpu in gpus)
    always = states(facts.params, precision, "sgd").total
    return min(((gpus[step.gpu].memory_bytes - always) / step.batch for step in alike), default=math.inf)


@cache
def _steps_by_network() -> dict[tuple[str, str, str], list[PublishedStep]]:
    """Published steps by architecture, input and precision."""
    found: dict[tuple[str, str, str], list[PublishedStep]] = {}
    for step in published_steps():
        if step.software == PLAIN:
            found.setdefault((names.architecture(step.model), step.input, step.precision), []).append(step)
    return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeasuredMemory:
    """Memory of measured steps by batch. A larger one never needs less."""

    batches: np.ndarray
    allocated_bytes: np.ndarray
    reserved_bytes: np.ndarray
    context_bytes: float
    optimizer: str
    """Whose states are among what was allocated."""
    elsewhere: Range
    """Of another kind of GPU: over what was measured."""
    longer: "MeasuredMemory | None" = None
    """Steps of larger batches on another kind, which tell how memory grows from the last batch on."""

    def kept(self, batch: float, states_bytes: float, sample_bytes: Range) -> Range:
        """Activations: all but the states, and past the last batch what they grow by."""
        return self.elsewhere * self._within(batch, states_bytes) + self._past(batch, states_bytes, sample_bytes)

    def _within(self, batch: float, states_bytes: float) -> float:
        """Activations on a line between two batches, the first from none; of a larger batch those of the last."""
        sizes = np.maximum(0.0, self.allocated_bytes - states_bytes)
        return float(np.interp(batch, np.append(0, self.batches), np.append(0.0, sizes)))

    def _past(self, batch: float, states_bytes: float, sample_bytes: Range) -> Range:
        """Growth past the last batch: as longer steps grew, else on a line; by layers where one batch tells of none."""
        last = float(self.batches[-1])
        if self.longer:
            grown = self.longer._within(max(batch, last), states_bytes) - self.longer._within(last, states_bytes)
            return self.longer.elsewhere * grown + self.longer._past(batch, states_bytes, sample_bytes)
        more = max(0.0, batch - last)
        slopes = np.diff(self.allocated_bytes) / np.diff(self.batches)
        slope = float(slopes[-1]) if slopes.size else 0.0
        return self.elsewhere * PAST * (slope * more) if slope else sample_bytes * more

    def allocator(self, batch: float) -> Range:
        """Reserved over allocated, at most as much as of any batch."""
        reserved = np.interp(batch, self.batches, self.reserved_bytes)
        share = float(reserved / np.interp(batch, self.batches, self.allocated_bytes))
        return ranged(share, share, float(np.max(self.reserved_bytes / self.allocated_bytes)))


def measured_memory(layout: TrainingLayout, predictor: Predictor) -> MeasuredMemory | None:
    """Memory of the model's steps on this kind of GPU, else on another; None where nobody measured such a step."""
    subject, train = layout.subject, layout.scenario.train
    if subject.facts is None or subject.own is None or train.recompute != "none":
        return None
    if subject.facts.input_shape != subject.own.input_shape:
        return None
    return _measured_on(predictor.library, subject.profile, layout.gpu.name, train.precision, train.optimizer)


@lru_cache(maxsize=64)
def _measured_on(library: Library, model: str, gpu: str, precision: str, optimizer: str) -> MeasuredMemory | None:
    """Steps on that kind of GPU, past which longer ones on another tell more; else the longest on any."""
    alike = [profile for profile in library.for_model(model) if profile.precision == precision]
    found = [(profile.gpu, steps) for profile in alike if (steps := _steps(library, profile, optimizer))]
    own = next((steps for kind, steps in found if kind == gpu), None)
    others = [replace(steps, elsewhere=ELSEWHERE) for kind, steps in found if kind != gpu]
    longest = max(others, key=lambda steps: steps.batches[-1], default=None)
    if own is None or longest is None:
        return own or longest
    return replace(own, longer=longest) if longest.batches[-1] > own.batches[-1] else own


def _steps(library: Library, profile: Profile, optimizer: str) -> MeasuredMemory | None:
    """A profile's steps with that optimizer, else with another: what it keeps is counted apart."""
    points = library.measured(profile).get("points", {})
    for measured in dict.fromkeys((MEASURED_OPTIMIZER.get(optimizer, "sgd"), *OPTIMIZERS)):
        of_optimizer = points.get(f"memory.{measured}", {})
        sizes = {int(batch): point.get("values", {}) for batch, point in of_optimizer.items()}
        if steps := {batch: sizes[batch] for batch in sorted(sizes) if "reserved_bytes" in sizes[batch]}:
            allocated, on_device = (
                np.maximum.accumulate([step[key] for step in steps.values()])
                for key in ("allocated_bytes", "device_bytes")
            )
            context_bytes = min(step["device_bytes"] - step["reserved_bytes"] for step in steps.values())
            return MeasuredMemory(
                batches=np.array([*steps]),
                allocated_bytes=allocated,
                reserved_bytes=on_device - context_bytes,
                context_bytes=context_bytes,
                optimizer=MEASURED_AS[measured],
                elsewhere=exactly(1.0),
            )
    return None


def fixed(layout: TrainingLayout) -> States:
    """Bytes on one GPU that do not grow with the batch."""
    train, subject = layout.scenario.train, layout.subject
    return states(subject.params, train.precision, train.optimizer, layout.split, subject.buffer_bytes)


def accumulation_enough(layout: TrainingLayout, predictor: Predictor) -> int | None:
    """Fewest passes a step, of as many samples in all, with which it surely fits; None where no number does."""
    if layout.scenario.train.global_batch is None:
        return None
    return next((tried for tried in _more_passes(layout) if _surely_fits(layout, tried, predictor)), None)


def in_room(layout: TrainingLayout, predictor: Predictor) -> TrainingLayout:
    """The layout with as many passes a step as memory needs, where the scenario leaves them open.

    Only of a network whose result they do not change: without batch norms, which see the samples of one pass.
    """
    if layout.scenario.train.accumulation is not None or not layout.subject.is_same_in_passes:
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
    return Fits.of(peak(tried, predictor).total, layout.source.memory_bytes) is Fits.YES


def _with_passes(layout: TrainingLayout, passes: int) -> TrainingLayout:
    """The layout with so many passes a step, of as many samples in all."""
    scenario = layout.scenario
    return replace(
        layout,
        scenario=replace(scenario, train=replace(scenario.train, accumulation=passes)),
        micro_batch=layout.micro_batch * scenario.train.passes / passes,
    )
