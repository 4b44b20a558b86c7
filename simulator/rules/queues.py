"""Queues in front of GPUs: requests as columns, a head that moves, and a log of the batches that left."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from math import inf, nan

from simulator.rules.batching import arrived, close_at, first_kept
from simulator.world.deployment import BatchingPolicy, Drop
from simulator.world.model import Layer
from simulator.world.workload import Floats


@dataclass(frozen=True, slots=True)
class Delays:
    """Times (s) that whoever serves takes between batches, or items of a station, one after another. Plans leave them
    out."""

    wake: Iterator[float]
    """From the moment a batch could run on an idle GPU until it is started."""
    follow: Iterator[float]
    """From the end of a batch until the next could be started."""
    slowdown: float = 1.0
    """A batch takes so many times as long while a station of pipelines works: they share caches and memory."""
    usual_share: float = 0.0
    """Share of a batch's time in which one works, where it takes as long as its profile says."""

    def beside(self, share: float) -> float:
        """Time of a batch beside which stations work for a share of it. 1.2 times, usually 50 %: 1 x 1.2 / 1.1."""
        return (1 + (self.slowdown - 1) * share) / (1 + (self.slowdown - 1) * self.usual_share)


DELAYS = 1024
"""So many are drawn at once."""
AT_ONCE = Delays(repeat(0.0), repeat(0.0))
"""Nobody takes time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """A host is away in [start_s, finish_s)."""

    start_s: float
    finish_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What one replica, or one pipeline stage of it, needs and takes on its GPU."""

    model: str
    layers: tuple[Layer, ...]
    service_s: tuple[float, ...]
    """Expected time of a batch of n, at index n; as long as the largest batch plus one."""
    cv: float
    """Spread of that time."""
    factors: tuple[float, ...] = ()
    """Equally likely factors on that time; empty: Gamma-distributed."""
    workspace_bytes: int
    load_t0_s: float
    load_bytes_per_s: float
    transfer_s_per_sample: float = 0.0
    """Time to hand one sample's activations to the next stage."""
    after_load: float = 1.0
    """Factor on the time of a batch right after its weights came."""
    beside_load: float = 1.0
    """Factor on batches and loads while both run."""

    @property
    def weight_bytes(self) -> int:
        """Bytes of its layers."""
        return sum(layer.weight_bytes for layer in self.layers)

    def load_s(self, size_bytes: float) -> float:
        """Time to bring `size_bytes` of it in over an idle link."""
        return self.load_t0_s + size_bytes / self.load_bytes_per_s if size_bytes else 0.0


@dataclass(slots=True)
class Log:
    """The batches of one queue in order. A run of dropped requests is a row that finishes at NaN."""

    start_s: array[float] = field(default_factory=lambda: array("d"))
    finish_s: array[float] = field(default_factory=lambda: array("d"))
    count: array[int] = field(default_factory=lambda: array("i"))
    aborted: list[tuple[float, float, int]] = field(default_factory=list)
    """Start, end and size of batches that a failure cut short."""


def _nobody() -> None:
    """No GPU waits for the queue yet."""


def _nothing(_now_s: float) -> None:
    """Nothing follows from a batch."""


class Queue:
    """Requests that wait for one replica."""

    def __init__(self, stage: Stage, times: Sequence[float], policy: BatchingPolicy, slo_s: float, drop: Drop) -> None:
        self.stage = stage
        self.service_s = stage.service_s
        self.answer_after(stage.service_s)
        self.times = times
        self.policy = policy
        self.slo_s = slo_s
        self.drop = None if drop is Drop.NEVER else drop
        self.cap = policy.max_batch_size
        self.head = 0
        self.log = Log()
        self.number = -1
        """Its place on its GPU."""
        self.booked_s = inf
        """When the agenda was told it will be ready."""
        self.rest = (-1, inf)
        """Where the queue begins that a drop left of a batch which was ready, and since when it may run."""
        self.next_stage: FormedQueue | None = None
        self.link_free_s = 0.0
        """When the link to the next stage has carried all that was handed over."""
        self.wake: Callable[[], None] = _nobody
        """Tells the GPU that something is coming."""
        self.answered: Callable[[float], None] = _nothing
        """Tells that the batch which began first is done."""

    def answer_after(self, answer_s: Sequence[float]) -> None:
        """Times from the start of a batch to its answer, by its size: those of a pipeline's later stages included."""
        self.answer_s, self.longest_s = answer_s, max(answer_s)

    def ready_at(self) -> float:
        """When the next batch may run; infinity while nothing is known to come.

        What a drop leaves of a batch that was ready is ready: it does not wait for `max_queue_delay_s` anew.
        """
        if not self.policy.max_queue_delay_s:
            return self.times[self.head] if self.head < len(self.times) else inf
        rest, rest_s = self.rest
        if self.head == rest:
            return rest_s
        return close_at(self.times, self.head, len(self.times), self.policy)

    @property
    def room(self) -> int:
        """Most entries that `times` will have."""
        return len(self.times)

    def oldest_s(self) -> float:
        """Arrival of the oldest request that is left."""
        return self.times[self.head]

    def discard(self, now_s: float, start_s: float) -> None:
        """Apply the drop rule to what has arrived by `now_s`, for a batch that could start at `start_s`."""
        if self.drop is None:
            return
        head = self.first_kept(now_s, start_s, self.drop)
        if head == self.head:
            return
        ready_s = self.ready_at() if self.policy.max_queue_delay_s else inf
        self.leave(now_s, nan, head - self.head)
        if ready_s <= now_s and self.batch_size(now_s):
            self.rest = head, max(ready_s, self.times[head])

    def first_kept(self, now_s: float, start_s: float, drop: Drop) -> int:
        """Where the queue begins once the drop rule has been applied."""
        met_from_s = start_s + self.longest_s - self.slo_s
        if drop is Drop.LATE and self.head < len(self.times) and self.times[self.head] >= met_from_s:
            return self.head  # the usual case, seen at a glance: the oldest would be in time even in the longest batch
        return first_kept(self.times, self.head, len(self.times), now_s, start_s, drop, self.slo_s, self.answer_s)

    def batch_size(self, now_s: float) -> int:
        """Requests in a batch that starts now."""
        return arrived(self.times, self.head, len(self.times), now_s, self.cap)

    def leave(self, start_s: float, finish_s: float, count: int) -> None:
        """Record that the first `count` requests wait no longer: they run, or are given up where `finish_s` is NaN."""
        log = self.log
        log.start_s.append(start_s)
        log.finish_s.append(finish_s)
        log.count.append(count)
        self.head += count

    def hand_on(self, stage: FormedQueue, finish_s: float, count: int) -> None:
        """Send the first `count` requests to the next stage, which gets them some time after `finish_s`."""
        self.link_free_s = max(finish_s, self.link_free_s) + count * self.stage.transfer_s_per_sample
        stage.hand_over(self.link_free_s, count, self.oldest_s())

    def cut_short(self, start_s: float, failure_s: float, count: int) -> None:
        """Record a batch that a failure will cut short. Its requests run again."""
        self.log.aborted.append((start_s, failure_s, count))

    def give_back(self) -> None:
        """The failure has come."""

    def outstanding(self, now_s: float) -> int:
        """Requests that wait here or run."""
        log = self.log
        running = log.count[-1] if log.count and log.finish_s[-1] > now_s else 0
        return len(self.times) - self.head + running


class FormedQueue(Queue):
    """Batches that come formed from the stage before: `times` holds one entry for each batch."""

    def __init__(self, stage: Stage, policy: BatchingPolicy, first: Queue) -> None:
        self._times: list[float] = []
        self._first = first
        """Of its replica."""
        super().__init__(stage, self._times, policy, first.slo_s, Drop.NEVER)
        self._sizes: list[int] = []
        self._oldest_s: list[float] = []

    def hand_over(self, arrives_s: float, count: int, oldest_s: float) -> None:
        """A batch of `count` will be here at `arrives_s`."""
        self._times.append(arrives_s)
        self._sizes.append(count)
        self._oldest_s.append(oldest_s)
        self.wake()

    @property
    def room(self) -> int:
        return self._first.room

    def ready_at(self) -> float:
        return self._times[self.head] if self.head < len(self._times) else inf

    def oldest_s(self) -> float:
        return self._oldest_s[self.head]

    def batch_size(self, now_s: float) -> int:
        return self._sizes[self.head] if self.ready_at() <= now_s else 0

    def leave(self, start_s: float, finish_s: float, count: int) -> None:
        super().leave(start_s, finish_s, count)
        self.head += 1 - count


class Front:
    """A queue from which several replicas draw. What is before `head` has been drawn."""

    def __init__(self, arrival_s: Floats) -> None:
        self._arrival_s = array("d", arrival_s.tobytes())
        self.times = array("d", arrival_s.tobytes())
        self.places = array("q", range(len(arrival_s)))
        """Which request each of `times` belongs to."""
        self.head = 0
        self.rest = (-1, inf)
        """As of any queue, for all replicas."""
        self.views: list[SharedQueue] = []

    def draw(self, count: int) -> array[int]:
        """Take the next `count` requests."""
        drawn = self.places[self.head : self.head + count]
        self.head += count
        return drawn

    def add(self, times_s: Sequence[float]) -> None:
        """More requests come, later than all others."""
        self.places.extend(range(len(self.places), len(self.places) + len(times_s)))
        self.times.extend(times_s)
        self._arrival_s.extend(times_s)

    def put_back(self, places: array[int]) -> None:
        """Let requests that were drawn wait again, in order of arrival, and tell all replicas."""
        older = bisect_left(self.places, places[-1], self.head)
        waiting = array("q", sorted([*places, *self.places[self.head : older]]))
        self.head -= len(places)
        self.places[self.head : older] = waiting
        self.times[self.head : older] = array("d", [self._arrival_s[place] for place in waiting])
        for view in self.views:
            view.wake()


class SharedQueue(Queue):
    """One replica's view of a queue from which several draw. A batch that a failure cuts short goes back to all."""

    def __init__(self, stage: Stage, front: Front, policy: BatchingPolicy, slo_s: float, drop: Drop) -> None:
        self._front = front
        self.taken: array[int] = array("q")
        """Requests that this replica ran or gave up, by their place in order of arrival."""
        self._doomed: array[int] = array("q")
        """Those in a batch that a failure will cut short."""
        super().__init__(stage, front.times, policy, slo_s, drop)
        self.place = len(front.views)
        """Its replica's place in the service: of those that could draw at the same moment, the first does."""
        front.views.append(self)

    @property
    def head(self) -> int:
        return self._front.head

    @head.setter
    def head(self, place: int) -> None:
        self._front.head = place

    @property
    def rest(self) -> tuple[int, float]:
        return self._front.rest

    @rest.setter
    def rest(self, place: tuple[int, float]) -> None:
        self._front.rest = place

    def leave(self, start_s: float, finish_s: float, count: int) -> None:
        self.taken.extend(self._front.places[self.head : self.head + count])
        super().leave(start_s, finish_s, count)

    def cut_short(self, start_s: float, failure_s: float, count: int) -> None:
        super().cut_short(start_s, failure_s, count)
        self._doomed = self._front.draw(count)

    def give_back(self) -> None:
        self._front.put_back(self._doomed)
