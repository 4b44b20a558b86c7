"""Which replica of a service a request goes to: dealt in turn, chosen as it comes, or taken by whoever is free.

A new rule that chooses is a function of what each replica has outstanding, and a row in `CHOICES`.
"""

from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from math import inf
from types import MappingProxyType
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from simulator.rules.queues import Front, Outage, Queue, SharedQueue, Stage
from simulator.world.deployment import BatchingPolicy, Drop, Routing, Service
from simulator.world.workload import Floats

Places = NDArray[np.int64]

Choice = Callable[[Sequence[float], Sequence[bool]], int]
"""The replica that a request goes to, by what each has outstanding and whether its host is up."""

AnyQueue = TypeVar("AnyQueue", bound=Queue)


def split(count: int, shares: Sequence[float]) -> list[Places]:
    """Weighted round robin: which of `count` requests in turn go to each replica, by `shares`.

    Six requests at equal shares for two replicas: 0, 2, 4 and 1, 3, 5. At 2:1 the first gets four of them.
    """
    if len(set(shares)) == 1:
        return [np.arange(r, count, len(shares)) for r in range(len(shares))]
    rest = np.arange(count)
    parts = []
    for r, share in enumerate(shares):
        turns = np.floor(np.arange(1, len(rest) + 1) * share / sum(shares[r:]) + 1e-9)
        mine = np.diff(turns, prepend=0.0) > 0
        parts.append(rest[mine])
        rest = rest[~mine]
    return parts


def least_outstanding(outstanding: Sequence[float], up: Sequence[bool]) -> int:
    """The replica with the fewest requests waiting or running among those that are up (among all, if none is)."""
    candidates = [r for r, ok in enumerate(up) if ok] or range(len(outstanding))
    return min(candidates, key=lambda r: outstanding[r])


CHOICES: Mapping[Routing, Choice] = MappingProxyType({Routing.LEAST_OUTSTANDING: least_outstanding})
"""Rules that choose for each request as it comes."""


class Router:
    """Sends each request of one model to the replica that a rule chooses, as it arrives."""

    def __init__(
        self, times: Sequence[float], queues: Sequence[Queue], outages: Sequence[Sequence[Outage]], choice: Choice
    ) -> None:
        self._times = times
        self._queues = queues
        self._known: list[list[float]] = [[] for _ in queues]
        self._outages = outages
        """Of each queue's host."""
        self._choice = choice
        self._next = 0
        self.sent: list[array[int]] = [array("q") for _ in queues]
        """Places in `times` that went to each queue."""
        for queue, known in zip(queues, self._known, strict=True):
            queue.times = known

    def next_s(self) -> float:
        """When the next request arrives that has not been sent."""
        return self._times[self._next] if self._next < len(self._times) else inf

    def route(self, now_s: float) -> None:
        """Send all that has arrived by now."""
        while (at_s := self.next_s()) <= now_s:
            up = [not any(o.start_s <= at_s < o.finish_s for o in away) for away in self._outages]
            r = self._choice([queue.outstanding(at_s) for queue in self._queues], up)
            self._known[r].append(at_s)
            self.sent[r].append(self._next)
            self._next += 1


class Entrance(ABC, Generic[AnyQueue]):
    """Where the requests of one service come in, and the queues of its replicas, in their order."""

    came_s: Sequence[float]
    """When each request came, as far as that is known."""
    queues: list[AnyQueue]
    router: Router | None = None

    def open(self, service: Service, outages: Sequence[Sequence[Outage]]) -> None:
        """Let requests in by the service's rule. `outages`: of each replica's host."""
        if len(self.queues) == 1:
            self.open_alone()
        elif service.routing is Routing.ROUND_ROBIN:
            self.open_in_turn([replica.share for replica in service.replicas])
        elif service.routing is Routing.SHARED:
            self.open_shared()
        else:
            self.router = Router(self.came_s, self.queues, outages, CHOICES[service.routing])
            self.open_routed(self.router)

    @cached_property
    def front(self) -> Front:
        """The one queue from which all replicas draw, where they share it."""
        return Front(np.array(self.came_s))

    @abstractmethod
    def add_queue(self, stage: Stage, policy: BatchingPolicy, drop: Drop, *, shared: bool) -> AnyQueue:
        """A queue for one more replica. `shared`: what it shows is the one in front of all."""

    @abstractmethod
    def open_alone(self) -> None:
        """One queue holds all."""

    @abstractmethod
    def open_in_turn(self, shares: Sequence[float]) -> None:
        """Queues get requests in turn, by shares."""

    @abstractmethod
    def open_shared(self) -> None:
        """Queues show what is in front of all."""

    @abstractmethod
    def open_routed(self, router: Router) -> None:
        """A router fills the queues."""

    @property
    @abstractmethod
    def dealt_places(self) -> list[Places]:
        """By queue: the requests that are its own, where they are dealt in turn or one queue holds all."""

    def settle(self, now_s: float) -> list[Places]:
        """By queue: the requests it got, all that have come by now."""
        if self.router:
            self.router.route(now_s)
            return [np.frombuffer(sent, dtype=np.int64) for sent in self.router.sent]
        taken = [queue.taken for queue in self.queues if isinstance(queue, SharedQueue)]
        return [np.frombuffer(places, dtype=np.int64) for places in taken] or self.dealt_places


class StreamEntrance(Entrance[Queue]):
    """That of requests which were drawn before the clock starts."""

    def __init__(self, arrival_s: Floats, slo_s: float) -> None:
        self.arrival_s = arrival_s
        self.came_s = arrival_s.data
        self.slo_s = slo_s
        self.queues = []
        self.parts: list[Places] = [np.arange(len(arrival_s))]

    def add_queue(self, stage: Stage, policy: BatchingPolicy, drop: Drop, *, shared: bool) -> Queue:
        rules = policy, self.slo_s, drop
        queue = SharedQueue(stage, self.front, *rules) if shared else Queue(stage, (), *rules)
        self.queues.append(queue)
        return queue

    def open_alone(self) -> None:
        self.queues[0].times = self.came_s

    def open_in_turn(self, shares: Sequence[float]) -> None:
        self.parts = split(len(self.arrival_s), shares)
        for queue, places in zip(self.queues, self.parts, strict=True):
            queue.times = self.arrival_s[places].data

    def open_shared(self) -> None:
        """Views of the front show its times already."""

    def open_routed(self, router: Router) -> None:
        """The router has given each queue its own times already."""

    @property
    def dealt_places(self) -> list[Places]:
        return self.parts
