"""Takes: a long run is served in parts, with a rehearsal between, so that the drift of the device is followed."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import accumulate
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from calibrate.serving.served import Actions, HeldMemory, Served, in_a_row
from simulator.clock.records import SimulationResult
from simulator.grouping import grouped
from simulator.world.workload import Demand, Floats

T = TypeVar("T")
TAKE_S = 60.0
"""Length of a take: the speed of a shared processor changes within minutes."""


def lengths(duration_s: float) -> tuple[float, ...]:
    """Lengths of the takes of a run, all the same and about a minute: 240 s are four, 80 s are one."""
    count = max(1, round(duration_s / TAKE_S))
    return (duration_s / count,) * count


def starts(lasts_s: Sequence[float]) -> list[float]:
    """When each take begins, on a clock that stands still between them: (60, 60) is 0, 60."""
    return [0.0, *accumulate(lasts_s)][: len(lasts_s)]


def take_of(times_s: Floats, lasts_s: Sequence[float]) -> NDArray[np.int64]:
    """Number of the take that each time lies in."""
    return np.searchsorted(starts(lasts_s), times_s, side="right") - 1


def cut(demand: Mapping[str, Demand], lasts_s: Sequence[float]) -> Iterator[dict[str, Demand]]:
    """The requests of each take, counted from its beginning."""
    for number, start_s in enumerate(starts(lasts_s)):
        asked = {}
        for model, requests in demand.items():
            mine = take_of(requests.arrival_s, lasts_s) == number
            asked[model] = Demand(requests.arrival_s[mine] - start_s, requests.source[mine])
        yield asked


# Results one after another


STAMPS = ("arrival_s", "start_s", "finish_s", "at_s")
"""Columns on the clock of a take; all others in seconds are lengths of time."""


def later(record: T, by_s: float) -> T:
    """The record, so much later."""
    stamps = {name: getattr(record, name) + by_s for name in STAMPS if hasattr(record, name)}
    return replace(record, **stamps)  # type: ignore[type-var]


def joined(parts: Sequence[T]) -> T:
    """Records of the same thing as one: their columns one after another."""
    first = parts[0]
    names = [one.name for one in fields(first) if isinstance(getattr(first, one.name), np.ndarray)]  # type: ignore[arg-type]
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    return replace(first, **columns)  # type: ignore[type-var]


def by_name(takes: Sequence[SimulationResult], field: str) -> dict[str, Any]:
    """A field that has a record for each name, those of all takes as one."""
    return {name: joined([getattr(take, field)[name] for take in takes]) for name in getattr(takes[0], field)}


def in_sequence(takes: Sequence[SimulationResult]) -> SimulationResult:
    """The columns of all takes as one: each begins where the one before ended."""
    if len(takes) == 1:
        return takes[0]
    shifted = [moved(take, at_s) for take, at_s in zip(takes, starts([t.duration_s for t in takes]), strict=True)]
    first = takes[0]
    return replace(
        first,
        duration_s=sum(take.duration_s for take in takes),
        requests=by_name(shifted, "requests"),
        batches=tuple(map(joined, alike(in_a_row(shifted, "batches"), attrgetter("model", "device")))),
        loads=in_a_row(shifted, "loads"),
        stalls=in_a_row(shifted, "stalls"),
        memory=by_name(shifted, "memory"),
        frames={name: frames_joined(takes, name) for name in first.frames},
        stations=by_name(shifted, "stations"),
        wall_s=sum(take.wall_s for take in takes),
    )


def moved(take: SimulationResult, by_s: float) -> SimulationResult:
    """The same, so much later."""
    changes: dict[str, Any] = {
        name: tuple(later(one, by_s) for one in getattr(take, name)) for name in ("batches", "loads", "stalls")
    }
    changes |= {
        name: {key: later(one, by_s) for key, one in getattr(take, name).items()}
        for name in ("requests", "memory", "stations")
    }
    return replace(take, **changes)


def frames_joined(takes: Sequence[SimulationResult], stage: str) -> NDArray[np.int64]:
    """The frame of each item of a stage: those of a take are counted on from the takes before."""
    before = [0, *accumulate(frame_count(take, stage) for take in takes)]
    return np.concatenate([take.frames[stage] + first for take, first in zip(takes, before, strict=False)])


def frame_count(take: SimulationResult, stage: str) -> int:
    """Frames of the pipeline that a stage belongs to."""
    return next(
        len(take.requests[one.name].arrival_s)
        for one in take.deployment.pipelines
        if stage in map(one.name_of, one.stages)
    )


def actions_joined(parts: Iterable[Actions]) -> tuple[Actions, ...]:
    """Actions, one record for each kind, model and device."""
    return tuple(map(joined, alike(parts, attrgetter("kind", "model", "device"))))


def alike(parts: Iterable[T], key: Callable[[T], object]) -> list[list[T]]:
    """Those with the same key, in their order."""
    return list(grouped((key(part), part) for part in parts).values())


def served_in_sequence(takes: Sequence[Served]) -> Served:
    """All takes as one run; it stopped for the reason that the last one did."""
    begin_s = starts([take.result.duration_s for take in takes])
    actions = [later(one, at_s) for take, at_s in zip(takes, begin_s, strict=True) for one in take.actions]
    return Served(
        result=in_sequence([take.result for take in takes]),
        actions=actions_joined(actions),
        held={name: most_held([take.held[name] for take in takes]) for name in takes[0].held},
        stopped=takes[-1].stopped,
    )


def most_held(takes: Sequence[HeldMemory]) -> HeldMemory:
    """The most that a process was seen to hold in any take."""
    most = max(takes, key=lambda held: held.counted_peak_bytes)
    given = [held.allocated_peak_bytes for held in takes if held.allocated_peak_bytes is not None]
    held = [held.process_peak_bytes for held in takes if held.process_peak_bytes is not None]
    return replace(most, allocated_peak_bytes=max(given, default=None), process_peak_bytes=max(held, default=None))
