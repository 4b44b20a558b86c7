"""Items: what follows from each frame at each stage, drawn before the clock: every deployment meets the same."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from simulator.world.pipelines import Edge, FanOut, FanOutKind, Pipeline, PipelineStage, StationWork, in_order
from simulator.world.workload import Demand, Floats, Sources

Counts = NDArray[np.int64]
FAN_OUTS, TIMES = 2, 3
"""Streams of random numbers, beside those of arrivals and of GPUs."""


@dataclass(frozen=True, slots=True)
class StageItems:
    """All items of one stage, were no frame lost, numbered in the order of their frames."""

    frame: Counts
    """Of each item."""
    begins: Counts | None = None
    """Of a stage after one other: what follows from item i there begins at `begins[i]`, and ends before the next."""
    joined: Counts | None = None
    """Of a join, by frame: its item, -1 where it does not run."""


def item_counts(stages: Iterable[StageItems], frame_count: int) -> Counts:
    """By frame: its items at all of these stages."""
    counts = np.zeros(frame_count, dtype=np.int64)
    for items in stages:
        counts += np.bincount(items.frame, minlength=frame_count)
    return counts


def draw_items(pipeline: Pipeline, demand: Demand, seed: int) -> dict[str, StageItems]:
    """By stage. What an edge draws depends on the seed, the two names and what came before alone."""
    drawn: dict[str, StageItems] = {}
    for stage in in_order(pipeline.stages):
        before = [drawn[edge.source] for edge in stage.after]
        counts = [
            _follow(edge, demand.source[items.frame], _rng(seed, FAN_OUTS, pipeline.name_of(stage), edge.source))
            for edge, items in zip(stage.after, before, strict=True)
        ]
        drawn[stage.name] = _items(counts, before, len(demand.arrival_s))
    return drawn


def draw_work_s(pipeline: Pipeline, stage: PipelineStage, work: StationWork, count: int, seed: int) -> Floats:
    """Times of so many items at a station of speed 1."""
    if not work.varies:
        return np.full(count, work.service_s)
    rng = _rng(seed, TIMES, pipeline.name_of(stage))
    if work.factors:
        return work.service_s * rng.choice(work.factors, count)
    return rng.gamma(work.cv**-2, work.service_s * work.cv**2, count)


def _rng(seed: int, stream: int, *names: str) -> np.random.Generator:
    return np.random.default_rng([seed, stream, crc32("\n".join(names).encode())])


def _items(counts: Sequence[Counts], before: Sequence[StageItems], frame_count: int) -> StageItems:
    """The items of a stage, of those before it and the numbers that follow from each."""
    if not before:
        return StageItems(np.arange(frame_count))
    if len(before) == 1:
        return StageItems(np.repeat(before[0].frame, counts[0]), begins=np.concatenate([[0], np.cumsum(counts[0])]))
    came = np.zeros(frame_count)
    for items, of_item in zip(before, counts, strict=True):
        came += np.bincount(items.frame, weights=of_item, minlength=frame_count)
    frame = np.flatnonzero(came)
    joined = np.full(frame_count, -1)
    joined[frame] = np.arange(len(frame))
    return StageItems(frame, joined=joined)


def _follow(edge: Edge, source: Sources, rng: np.random.Generator) -> Counts:
    """How many items follow from each of those that have these sources."""
    counts = fan_outs(edge.fan_out, source, rng)
    if edge.share < 1:
        counts = np.where(rng.random(len(source)) < edge.share, counts, 0)
    return counts if edge.every == 1 else np.where(_in_turn(source, edge.every, rng), counts, 0)


def _in_turn(source: Sources, every: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Which of these are the turn of their source, one in `every`."""
    group, number, counts = _by_source(source)
    first = np.array([rng.integers(every) for _ in counts], dtype=np.int64)
    goes: NDArray[np.bool_] = number % every == first[group]
    return goes


def _by_source(source: Sources) -> tuple[Counts, Counts, Counts]:
    """Of each item, which source it is of and how many of that came before it; and how many each source has."""
    _, group, counts = np.unique(source, return_inverse=True, return_counts=True)
    order = np.argsort(group, kind="stable")
    number = np.empty(len(source), dtype=np.int64)
    number[order] = np.arange(len(source)) - np.repeat(np.cumsum(counts) - counts, counts)
    return group, number, counts


def _recorded(table: Counts, source: Sources, rng: np.random.Generator) -> Counts:
    """Counts in their order for each source. Where each begins is random, but of one that goes through all of them the
    first begins at the first, as recorded arrivals do."""
    group, number, counts = _by_source(source)
    first = rng.integers(len(table), size=len(counts))
    if len(counts) and counts[0] >= len(table):
        first[0] = 0
    return np.take(table, number + first[group], mode="wrap")


def fan_outs(fan_out: FanOut, source: Sources, rng: np.random.Generator) -> Counts:
    """A draw for each item of these sources. Of a fixed 2.5 half are 2 and half 3, at random."""
    count = len(source)
    match fan_out.kind:
        case FanOutKind.FIXED:
            whole = int(fan_out.mean)
            return whole + (rng.random(count) < fan_out.mean - whole).astype(np.int64)
        case FanOutKind.POISSON:
            return rng.poisson(fan_out.mean, count)
        case FanOutKind.GEOMETRIC:
            return rng.geometric(1 / (1 + fan_out.mean), count) - 1
        case FanOutKind.TABLE:
            return np.resize(np.array(fan_out.counts, dtype=np.int64), count)
        case FanOutKind.RECORDED:
            return _recorded(np.array(fan_out.counts, dtype=np.int64), source, rng)
