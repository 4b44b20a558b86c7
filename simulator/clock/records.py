"""What happened, as columns. Time stamps and counts only; `simulator.clock.metrics` derives everything else."""

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from simulator.world.deployment import Deployment
from simulator.world.workload import Demand, Floats, Sources


class Outcome(IntEnum):
    """What became of a request by the end of the simulation."""

    FINISHED = 0
    DROPPED = 1
    WAITING = 2
    RUNNING = 3


@dataclass(frozen=True, slots=True)
class Requests:
    """The requests of one model, in order of arrival."""

    arrival_s: Floats
    source: Sources
    start_s: Floats
    """When its batch began to run, or when it was dropped; NaN while waiting."""
    finish_s: Floats
    """NaN unless finished."""
    outcome: NDArray[np.int8]
    due: NDArray[np.bool_] | None = None
    """Of the frames of a pipeline: whether something of each reaches a last stage. None: an answer is due to all."""

    def to_answer(self) -> "Requests":
        """Those to which an answer is due."""
        return self if self.due is None else self._cut(self.due)

    def since(self, first: int) -> "Requests":
        """Those from a place on."""
        return self._cut(slice(first, None))

    def until(self, first: int) -> "Requests":
        """Those before a place."""
        return self._cut(slice(first))

    def _cut(self, part: slice | NDArray[np.bool_]) -> "Requests":
        return Requests(
            self.arrival_s[part],
            self.source[part],
            self.start_s[part],
            self.finish_s[part],
            self.outcome[part],
            None if self.due is None else self.due[part],
        )


def settled(demand: Demand, start_s: Floats, finish_s: Floats, end_s: float, lost_s: Floats | None = None) -> Requests:
    """Requests of which it is known when each began, will be done or was given up; NaN: not yet."""
    begun, done = start_s <= end_s, finish_s <= end_s
    outcome = np.full(len(start_s), Outcome.WAITING, dtype=np.int8)
    outcome[begun] = Outcome.RUNNING
    outcome[done] = Outcome.FINISHED
    start_s, finish_s = np.where(begun, start_s, np.nan), np.where(done, finish_s, np.nan)
    if lost_s is not None:
        lost = ~np.isnan(lost_s)
        outcome[lost] = Outcome.DROPPED
        start_s[lost], finish_s[lost] = lost_s[lost], np.nan
    return Requests(demand.arrival_s, demand.source, start_s, finish_s, outcome)


@dataclass(frozen=True, slots=True)
class StationUse:
    """Items that a station took, in their order; some may end past the end of the simulation."""

    start_s: Floats
    finish_s: Floats


@dataclass(frozen=True, slots=True)
class Batches:
    """The batches of one replica on one device, in order of time; failed attempts are marked."""

    model: str
    device: str
    start_s: Floats
    finish_s: Floats
    """May lie past the end of the simulation for the last one."""
    count: NDArray[np.int32]
    """Requests in the batch."""
    aborted: NDArray[np.bool_]
    """The device failed before it was done; its requests ran again."""


@dataclass(frozen=True, slots=True)
class Load:
    """One load of weights onto a device that was complete before the end, and that no failure broke off."""

    model: str
    device: str
    start_s: float
    finish_s: float
    size_bytes: int
    ahead: bool
    """Begun while another batch ran."""


@dataclass(frozen=True, slots=True)
class Stall:
    """A device stood still, waiting for weights."""

    device: str
    start_s: float
    finish_s: float


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Bytes in use on one device from each time stamp on."""

    at_s: Floats
    used_bytes: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationResult:
    """One replication."""

    deployment: Deployment
    duration_s: float
    seed: int
    requests: dict[str, Requests]
    """By model."""
    batches: tuple[Batches, ...]
    loads: tuple[Load, ...]
    stalls: tuple[Stall, ...]
    memory: dict[str, MemoryUse]
    """By device."""
    wall_s: float
    """Real time the simulation took."""
    frames: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    """By stage of a pipeline, as `requests` name it: the frame that each of its items is of."""
    stations: dict[str, StationUse] = field(default_factory=dict)
    """By station."""

    @property
    def request_count(self) -> int:
        """Requests that arrived; of a pipeline, frames."""
        return sum(len(r.arrival_s) for name, r in self.requests.items() if name not in self.frames)
