"""What a step of a scenario holds on one GPU: measured where a profile says so, else by layers or shape."""

from calibrate.library import Library
from planner.training.closed_forms import Range, exactly
from planner.training.memory import (
    Memory,
    Split,
    largest_batch,
    memory,
    states,
    vision_activation_bytes,
)
from planner.training.scenario import TrainingScenario
from planner.training.speed import MEASURED_OPTIMIZER, Subject
from simulator.hardware import GPU
from simulator.precision import VALUE_BYTES


def activations(s: TrainingScenario, what: Subject, split: Split, gpu: GPU, library: Library) -> Range:
    """Bytes that one sample keeps on one GPU between the passes: the measured slope, else from layers or shape.

    A pipeline's first stage has as many micro-batches under way as there are stages, or as there are at all (1F1B).
    """
    under_way = min(split.pipeline, s.train.accumulation) / split.pipeline
    if (slope := measured_activations(s, what, gpu, library)) is not None:
        return exactly(slope / split.tensor * under_way)
    if what.shape:
        size = VALUE_BYTES[s.train.precision] / 2
        return exactly(what.shape.activation_bytes(1, split, s.train.recompute) * size * under_way)
    assert what.facts
    return vision_activation_bytes(what.facts, s.train.precision, s.train.recompute) * (under_way / split.tensor)


def measured_activations(s: TrainingScenario, what: Subject, gpu: GPU, library: Library) -> float | None:
    """Of one more sample, between the smallest and the largest batch of a profile; None where that was not measured."""
    changed = s.model.pixels or s.model.channels or s.train.recompute != "none"
    profile = library.get(what.profile, gpu.name, s.train.precision) if what.profile and not changed else None
    if profile is None:
        return None
    optimizer = MEASURED_OPTIMIZER.get(s.train.optimizer)
    points = library.measured(profile).get("points", {}).get(f"memory.{optimizer}", {})
    held = {int(batch): p.get("values", {}).get("activations_bytes") for batch, p in points.items()}
    known = sorted((batch, size) for batch, size in held.items() if size)
    if len(known) < 2:
        return None
    (least, few), (most, many) = known[0], known[-1]
    return max(0.0, float(many - few)) / (most - least) or None


def peak(s: TrainingScenario, what: Subject, micro: float, split: Split, each: Range) -> Memory:
    """Of a step on one GPU, with `each` bytes of activations of a sample."""
    fixed = states(what.params, s.train.precision, s.train.optimizer, split, what.buffer_bytes)
    return memory(fixed, each * micro, s.context)


def largest(s: TrainingScenario, what: Subject, memory_bytes: float, split: Split, each: Range) -> int:
    """Most samples of one pass that fit."""
    fixed = states(what.params, s.train.precision, s.train.optimizer, split, what.buffer_bytes)
    return largest_batch(fixed, each, s.context, memory_bytes)
