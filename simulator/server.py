"""The SimPy processes: a GPU that runs batches, its copy engine, and what happens when its host fails."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, repeat
from math import inf, nextafter
from typing import TypeGuard

import numpy as np
import simpy
from simpy.events import NORMAL, EventPriority

from simulator.deployment import Scheduling, SwapPolicy
from simulator.hardware import Device
from simulator.link import Link
from simulator.memory import Residency, eviction_order
from simulator.model import Layer
from simulator.queues import Outage, Queue, Router, SharedQueue, Stage
from simulator.records import Load, Stall
from simulator.scheduling import Agenda, EarliestFirst, RoundRobin, SwapAware

Process = simpy.events.ProcessGenerator


@dataclass(slots=True)
class Clock:
    """The time of a card that runs ahead of all others."""

    now: float = 0.0


class Turn(simpy.Event):
    """Comes at this very instant, once all else has happened in it; of several, the one with the lowest place first."""

    def __init__(self, env: simpy.Environment, place: int) -> None:
        super().__init__(env)
        self._ok, self._value = True, None
        env.schedule(self, EventPriority(NORMAL + 1 + place))


class Card:
    """One GPU: the queues it serves, what is in its memory, and the process that decides what runs."""

    def __init__(
        self,
        env: simpy.Environment,
        device: Device,
        queues: Sequence[Queue],
        *,
        scheduling: Scheduling,
        swap: SwapPolicy,
        link: Link,
        outages: Sequence[Outage],
        horizon_s: float,
        rng: np.random.Generator,
    ) -> None:
        self.env = env
        self.clock: simpy.Environment | Clock = env
        self.device = device
        self.queues = queues
        self.routers: list[Router] = []
        self.swap = swap
        self.link = link
        self.shares_link = False
        """Whether other cards of its host load too."""
        self.outages = list(outages)
        self.failure = env.event()
        """When its host fails next; never, without outages."""
        self.horizon_s = horizon_s
        self.memory = Residency(device.memory_bytes, device.context_bytes)
        self.swaps = self._too_much()
        self.agenda = self._agenda(scheduling)
        self.by_deadline = scheduling in (Scheduling.EDF, Scheduling.SWAP_AWARE)
        self.noise = [
            _noise(queue.stage.cv, child) for queue, child in zip(queues, rng.spawn(len(queues)), strict=True)
        ]
        self.users: dict[str, list[Queue]] = {}
        """By layer: the queues that need it."""
        self.missing_bytes = [queue.stage.weight_bytes for queue in queues]
        """By queue: what it lacks of its layers now; kept up to date, because the agenda asks at every turn."""
        self.keys = [frozenset(layer.key for layer in queue.stage.layers) for queue in queues]
        """By queue: its layers."""
        self.served = [0] * len(queues)
        """Batches that each queue ran."""
        self.last = len(queues) - 1
        """Number of the queue that ran last."""
        self.loading: tuple[frozenset[str], simpy.Event] | None = None
        """Layers under way, and when they are here."""
        self.arrives_s = inf
        """When those are here, where it runs ahead of the clock."""
        self.bell: simpy.Event | None = None
        """Wakes it from idleness."""
        self.leaving: list[str] = []
        """Layers that go when the running batch is done."""
        self.loads: list[Load] = []
        self.stalls: list[Stall] = []
        self.stalled_s = inf
        """Since when it stands still for weights."""
        self.memory_at_s: list[float] = []
        self.memory_used: list[int] = []
        self._adopt(queues)
        if not self.swaps:
            self._fill()
        self._note()

    def _adopt(self, queues: Sequence[Queue]) -> None:
        for number, queue in enumerate(queues):
            queue.number = number
            queue.wake = partial(self.expect, queue)
            for layer in queue.stage.layers:
                self.users.setdefault(layer.key, []).append(queue)

    def _too_much(self) -> bool:
        weights = {layer.key: layer.weight_bytes for queue in self.queues for layer in queue.stage.layers}
        workspace = max((queue.stage.workspace_bytes for queue in self.queues), default=0)
        return self.device.context_bytes + sum(weights.values()) + workspace > self.device.memory_bytes

    def _fill(self) -> None:
        for queue in self.queues:
            self._add(self.memory.missing(queue.stage.layers))
        self.memory.workspace_bytes = max((queue.stage.workspace_bytes for queue in self.queues), default=0)

    def _agenda(self, scheduling: Scheduling) -> Agenda:
        match scheduling:
            case Scheduling.ROUND_ROBIN:
                return RoundRobin(len(self.queues))
            case Scheduling.FCFS | Scheduling.EDF:
                return EarliestFirst()
            case Scheduling.SWAP_AWARE:
                return SwapAware(self._missing_s, self._service_s, lambda number: self.queues[number].longest_s)

    def _missing_s(self, number: int) -> float:
        missing_bytes = self.missing_bytes[number]
        return self.queues[number].stage.load_s(missing_bytes) if missing_bytes else 0.0

    def _service_s(self, number: int) -> float:
        queue = self.queues[number]
        return queue.stage.service_s[max(1, queue.batch_size(self.clock.now))]

    def start(self) -> None:
        """Serve until the horizon; at once, where nobody can change what this GPU will find."""
        for queue in self.queues:
            self.expect(queue)
        if self.clocked:
            self.watch_host()
            self.env.process(self.run())
        elif self.swaps:
            self.swap_ahead()
        else:
            self.run_ahead()

    def run_ahead(self) -> None:
        """Pick a model, run a batch, again, without waiting for the clock."""
        queues, agenda, noise, horizon_s = self.queues, self.agenda, self.noise, self.horizon_s
        now = 0.0
        while now < horizon_s:
            number = agenda.take(now)
            if number < 0:
                now = agenda.next_ready_s()
                continue
            queue = queues[number]
            queue.discard(now, now)
            if count := queue.batch_size(now):
                finish_s = now + queue.service_s[count] * next(noise[number])
                queue.begin(now, finish_s, count)
                now = finish_s
            self.book(queue)

    def swap_ahead(self) -> None:
        """As `run`, without waiting for the clock: who has the link alone knows at once when a load will end."""
        clock = self.clock = Clock()
        while clock.now < self.horizon_s:
            queue = self.pick()
            if queue is None:
                clock.now += min(self.horizon_s, self.agenda.next_ready_s()) - clock.now
            elif self._brought_in(queue, clock):
                self._run_batch_ahead(queue, clock)
        clock.now = self.horizon_s

    def _brought_in(self, queue: Queue, clock: Clock) -> bool:
        """As `bring_in`: whether the batch may run, at the time that it then is."""
        self.stalled_s = clock.now
        self._end_load(clock.now)
        while (wanted := self.wanted(queue)) and self.in_the_way(queue):
            clock.now = self.arrives_s
            if clock.now >= self.horizon_s:
                return False
            self._end_load(clock.now)
        if wanted and (missing := self._room_made(queue)):
            clock.now = self._load_from(clock.now, queue.stage, missing, ahead=False)
            if clock.now >= self.horizon_s:
                return False
            self._end_load(clock.now)
        return self._may_run(queue)

    def _run_batch_ahead(self, queue: Queue, clock: Clock) -> None:
        """As `run_batch`, with what is loaded meanwhile."""
        now = clock.now
        queue.discard(now, now)
        count = queue.batch_size(now)
        if not count:
            self.book(queue)
            return
        finish_s = now + queue.service_s[count] * next(self.noise[queue.number])
        queue.begin(now, finish_s, count)
        self.book(queue)
        coming = self.occupy(queue, finish_s)
        if coming is not None:
            clock.now = max(now, now + (coming.booked_s - now))
            if clock.now < self.horizon_s and (missing := self._room_beside(coming, queue, finish_s)):
                self._load_from(clock.now, coming.stage, missing, ahead=True)
        clock.now = finish_s
        if finish_s < self.horizon_s:
            self.vacate()

    def _load_from(self, start_s: float, stage: Stage, missing: list[Layer], *, ahead: bool) -> float:
        """Take the room at once; when the bytes will be in."""
        moved_bytes = self._begin_load(missing)
        self.arrives_s = start_s + stage.load_t0_s + self.link.alone_s(moved_bytes, stage.load_bytes_per_s)
        if self.arrives_s < self.horizon_s:
            self.loads.append(Load(stage.model, self.device.id, start_s, self.arrives_s, moved_bytes, ahead))
        return self.arrives_s

    def _end_load(self, now: float) -> None:
        if self.arrives_s <= now:
            self.loading, self.arrives_s = None, inf

    def run(self) -> Process:
        """Pick a model, bring its weights in, run a batch, again, until the clock stops."""
        while True:
            if self.clock.now >= self.next_outage_s():
                yield from self.recover()
            elif (queue := self.pick()) is None:
                yield from self.idle()
            elif (yield from self.has_turn(queue)) and (not self.swaps or (yield from self.bring_in(queue))):
                yield from self.run_batch(queue)

    def pick(self) -> Queue | None:
        """The queue whose turn it is; None where nothing may run."""
        now = self.clock.now
        if self.routers:
            self.route(now)
        while (number := self.agenda.take(now)) >= 0:
            queue = self.queues[number]
            if self.due(queue, now):
                queue.booked_s = -inf
                return queue
        return None

    def has_turn(self, queue: Queue) -> Process:
        """Let replicas that are listed before draw first from a shared queue. Returns whether a batch is left."""
        if not self.others_may_draw(queue):
            return True
        yield Turn(self.env, queue.place)
        return self.due(queue, self.clock.now)

    def others_may_draw(self, queue: Queue) -> TypeGuard[SharedQueue]:
        """Whether others may draw from `queue` at this very moment: it is shared, and more is to happen now."""
        return isinstance(queue, SharedQueue) and self.env.peek() <= self.env.now

    def run_batch(self, queue: Queue) -> Process:
        """Run what waits in `queue`, unless the drop rule leaves nothing, or as far as a failure lets it."""
        now = self.clock.now
        queue.discard(now, now)
        count = queue.batch_size(now)
        if not count:
            self.book(queue)
            return
        service_s = queue.service_s[count] * next(self.noise[queue.number])
        finish_s, outage_s = now + service_s, self.next_outage_s()
        if finish_s > outage_s:
            queue.cut_short(now, outage_s, count)
            self.book(queue)
            yield self.env.timeout(outage_s - now)
            queue.give_back()
            return
        queue.begin(now, finish_s, count)
        self.book(queue)
        if self.swaps and (coming := self.occupy(queue, finish_s)):
            self.env.process(self.load_ahead(coming, queue, finish_s))
        yield self.env.timeout(service_s)
        if self.swaps:
            self.vacate()

    @cached_property
    def known(self) -> bool:
        """Whether it was known from the start when requests come to its queues: nobody ever rings the bell."""
        return not self.routers and all(type(queue) is Queue for queue in self.queues)

    @property
    def clocked(self) -> bool:
        """Whether others can change what this GPU will find. Where nobody can, it runs ahead of the clock."""
        return (self.swaps and self.shares_link) or bool(self.outages) or not self.known

    def next_outage_s(self) -> float:
        """When its host fails next."""
        return self.outages[0].start_s if self.outages else inf

    def watch_host(self) -> None:
        """Know when its host fails next."""
        away_s = self.next_outage_s() - self.clock.now
        self.failure = self.env.timeout(max(0.0, away_s)) if self.outages else self.env.event()

    def book(self, queue: Queue) -> None:
        """Tell the agenda when `queue` will be ready."""
        queue.booked_s = ready_s = queue.ready_at()
        if ready_s < inf:
            self.agenda.put(queue.number, ready_s, queue.oldest_s() + (queue.slo_s if self.by_deadline else 0.0))

    def expect(self, queue: Queue) -> None:
        """Book `queue` where it will be ready earlier than the agenda knows, and wake the GPU."""
        if queue.ready_at() < queue.booked_s:
            self.book(queue)
            if self.bell is not None and not self.bell.triggered:
                self.bell.succeed()

    def due(self, queue: Queue, now: float) -> bool:
        """Whether what the agenda says still holds: others may have filled or emptied `queue` since."""
        if queue.booked_s > now:
            return False
        if queue.ready_at() > now:
            self.book(queue)
            return False
        return True

    def route(self, now: float) -> None:
        """Let the routers send what has arrived, and look at the queues again."""
        for router in self.routers:
            router.route(now)
        for queue in self.queues:
            self.expect(queue)

    def idle(self) -> Process:
        """Nothing to run: sleep until something will be ready, or could be."""
        arrivals_s = (router.next_s() for router in self.routers)
        next_s = min([self.horizon_s, self.agenda.next_ready_s(), self.next_outage_s(), *arrivals_s])
        asleep = self.env.timeout(time_until(self.clock.now, next_s))
        if self.known:
            yield asleep
            return
        self.bell = self.env.event()
        yield self.bell | asleep
        self.bell = None

    def recover(self) -> Process:
        """The host failed: memory is lost. Wait until it is back; what was resident for good is loaded again."""
        if self.loading is not None:
            yield self.loading[1]
        outage = self.outages.pop(0)
        self._evict(list(self.memory.resident))
        yield self.env.timeout(max(0.0, outage.finish_s - self.clock.now))
        self.watch_host()
        if not self.swaps:
            yield from self.reload()

    def reload(self) -> Process:
        """Bring in what all models need; another failure ends it."""
        self.stalled_s = self.clock.now
        for queue in self.queues:
            missing = self.memory.missing(queue.stage.layers)
            if missing and self.clock.now < self.next_outage_s():
                yield from self._load(queue.stage, missing, ahead=False)
        self.end_stall()

    def bring_in(self, queue: Queue) -> Process:
        """Wait for or load what `queue` lacks, and make room for its workspace. Returns whether its batch may run."""
        stage = queue.stage
        self.stalled_s = self.clock.now
        while (wanted := self.wanted(queue)) and (under_way := self.in_the_way(queue)):
            yield under_way
        if wanted and (missing := self._room_made(queue)):
            yield from self._load(stage, missing, ahead=False)
        if self.routers:
            self.route(self.clock.now)
        if self.others_may_draw(queue):
            yield Turn(self.env, queue.place)
        return self._may_run(queue)

    def _room_made(self, queue: Queue) -> list[Layer]:
        """Evict what is in the way of `queue`, note that its layers are used; those that must be loaded."""
        self._evict(self._victims(queue) or [])
        self.memory.touch(layer for layer in queue.stage.layers if layer.key in self.memory.resident)
        return self.memory.missing(queue.stage.layers)

    def _may_run(self, queue: Queue) -> bool:
        """Whether the batch may run, now that its layers are here."""
        self.end_stall()
        may_run = queue.ready_at() <= self.clock.now < self.next_outage_s()
        if not may_run:  # its requests were dropped, or taken by another replica, or the host failed
            self.book(queue)
        return may_run

    def wanted(self, queue: Queue) -> bool:
        """Whether requests are left that a load begun now would serve."""
        now = self.clock.now
        queue.discard(now, now + self._missing_s(queue.number))
        return bool(queue.batch_size(now)) and now < self.next_outage_s()

    def in_the_way(self, queue: Queue) -> simpy.Event | None:
        """The end of the load under way, if `queue` needs its layers, the copy engine or more room than it leaves."""
        if self.loading is None:
            return None
        arriving, done = self.loading
        needs = self.missing_bytes[queue.number] or not arriving.isdisjoint(self.keys[queue.number])
        return done if needs or self._victims(queue) is None else None

    def _victims(self, queue: Queue) -> list[str] | None:
        """Layers that must go so that `queue` can run; None where it cannot be while a load is under way."""
        coming_bytes, workspace_bytes = self.missing_bytes[queue.number], queue.stage.workspace_bytes
        memory, keep = self.memory, self.keys[queue.number]
        if memory.fits(coming_bytes, workspace_bytes):
            return []
        if self.loading:
            keep |= self.loading[0]
        return memory.victims(coming_bytes, workspace_bytes, keep, self._order())

    def end_stall(self) -> None:
        """Note for how long it stood still, if it did."""
        if self.clock.now > self.stalled_s:
            self.stalls.append(Stall(self.device.id, self.stalled_s, self.clock.now))
        self.stalled_s = inf

    def occupy(self, queue: Queue, finish_s: float) -> Queue | None:
        """A batch begins: its workspace is taken. What may be loaded meanwhile; None where nothing is to be."""
        self.memory.workspace_bytes = queue.stage.workspace_bytes
        self.served[queue.number] += 1
        self.last = queue.number
        self._note()
        if not self.swap.prefetch or self.loading is not None:
            return None
        number = self.agenda.peek(self.clock.now, finish_s)
        return self.queues[number] if number >= 0 and self.missing_bytes[number] else None

    def vacate(self) -> None:
        """The batch is done: its workspace is free."""
        self.memory.workspace_bytes = 0
        self._evict(self.leaving)
        self.leaving = []
        self._note()

    def load_ahead(self, coming: Queue, running: Queue, finish_s: float) -> Process:
        """Load what `coming` lacks while `running` runs, as soon as something waits for it and if both fit."""
        if coming.booked_s > self.clock.now:
            yield self.env.timeout(coming.booked_s - self.clock.now)
        if missing := self._room_beside(coming, running, finish_s):
            yield from self._load(coming.stage, missing, ahead=True)

    def _room_beside(self, coming: Queue, running: Queue, finish_s: float) -> list[Layer]:
        """Evict what is in the way of `coming` while `running` runs; what to load, nothing where both do not fit.

        Victims are chosen as they would be after the batch: should `running` be among them, it leaves when it is done.
        """
        if self.clock.now >= finish_s or self.loading is not None:
            return []
        missing, busy = self.memory.missing(coming.stage.layers), self.keys[running.number]
        victims = self._victims(coming) or []
        going = [key for key in victims if key not in busy]
        freed_bytes = sum(self.memory.resident[key] for key in going)
        if self.memory.used_bytes - freed_bytes + size_bytes(missing) > self.memory.limit_bytes:
            return []
        self._evict(going)
        self.leaving = [key for key in victims if key in busy]
        return missing

    def _begin_load(self, missing: list[Layer]) -> int:
        """Take the room for `missing`, which are under way from now on; their bytes."""
        self.loading = frozenset(layer.key for layer in missing), self.env.event()
        self._add(missing)
        self._note()
        return size_bytes(missing)

    def _load(self, stage: Stage, missing: list[Layer], *, ahead: bool) -> Process:
        """Take the room at once and bring the bytes in; a failure breaks it off, and recovery clears the memory."""
        start_s, moved_bytes = self.clock.now, self._begin_load(missing)
        assert self.loading is not None
        done = self.loading[1]
        yield self._or_failure(self.env.timeout(stage.load_t0_s))
        transfer = self.link.transfer(moved_bytes, stage.load_bytes_per_s)
        yield self._or_failure(transfer)
        if transfer.triggered:
            self.loads.append(Load(stage.model, self.device.id, start_s, self.clock.now, moved_bytes, ahead))
        else:
            self.link.stop(transfer)
        self.loading = None
        done.succeed()

    def _or_failure(self, event: simpy.Event) -> simpy.Event:
        return event | self.failure if self.outages else event

    def _add(self, layers: Sequence[Layer]) -> None:
        self.memory.add(layers)
        for layer in layers:
            for queue in self.users[layer.key]:
                self.missing_bytes[queue.number] -= layer.weight_bytes

    def _evict(self, keys: Sequence[str]) -> None:
        for key in keys:
            for queue in self.users[key]:
                self.missing_bytes[queue.number] += self.memory.resident[key]
        self.memory.evict(keys)
        self._note()

    def _order(self) -> list[str]:
        return eviction_order(list(self.memory.resident), self.swap.eviction, self._next_use, self._worth)

    def _next_use(self, key: str) -> tuple[float, int]:
        count = len(self.queues)
        return min(
            (max(queue.ready_at(), self.clock.now), (queue.number - self.last - 1) % count) for queue in self.users[key]
        )

    def _worth(self, key: str) -> float:
        layer_bytes = self.memory.resident[key]
        return sum(self.served[q.number] * q.stage.load_s(layer_bytes) for q in self.users[key]) / layer_bytes

    def _note(self) -> None:
        self.memory_at_s.append(self.clock.now)
        self.memory_used.append(self.memory.used_bytes)


def time_until(now_s: float, at_s: float) -> float:
    """How long to sleep from `now_s` until `at_s`, never too long: all who wait for one moment are to meet in it.

    From 0.04 until 0.11 s are 0.07 s, yet 0.04 + 0.07 is 0.11000000000000001. One bit less ends one bit early, and from
    there the rest is exact.
    """
    left_s = max(0.0, at_s - now_s)
    return nextafter(left_s, 0.0) if now_s + left_s > at_s else left_s


def size_bytes(layers: Iterable[Layer]) -> int:
    """Bytes of `layers` together."""
    return sum(layer.weight_bytes for layer in layers)


def _noise(cv: float, rng: np.random.Generator) -> Iterator[float]:
    """Factors of mean 1 and the given coefficient of variation, Gamma: near normal when small, exponential at cv 1."""
    if not cv:
        return repeat(1.0)
    return chain.from_iterable(rng.gamma(cv**-2, cv * cv, 1024).tolist() for _ in repeat(None))
