"""One GPU that serves: whose turn it is, what is loaded and evicted, which batch runs, what a failure does.

It is written once. What waiting means is a driver's: an event, a number that grows, or real time.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import inf
from typing import Any, Protocol, TypeVar

from simulator.clock.records import Load, Stall
from simulator.rules.memory import Residency, eviction_order
from simulator.rules.overlap import Overlap
from simulator.rules.queues import FormedQueue, Outage, Queue, SharedQueue, Stage
from simulator.rules.routing import Router
from simulator.rules.scheduling import Agenda, EarliestFirst, RoundRobin, SwapAware
from simulator.world.deployment import Scheduling, SwapPolicy
from simulator.world.hardware import Device
from simulator.world.model import Layer

ROUNDING = 1e-9
"""What sums of a few times are off by at most, as a share."""
T = TypeVar("T")
Wait = Any
"""What a driver takes for a wait: an event, or the time at which it is over."""
Steps = Generator[Wait, None, T]


class Clock(Protocol):
    """Tells the time."""

    @property
    def now(self) -> float:
        """Seconds since arrival time 0."""


@dataclass(slots=True)
class Number:
    """The time of a GPU whose clock is moved by hand."""

    now: float = 0.0


class Driver(ABC):
    """The clock, the link and the device of one GPU. A wait that it returns is yielded to whoever runs the loop."""

    clock: Clock

    @abstractmethod
    def idle(self, until_s: float) -> Wait:
        """Nothing to run: wait until then. It may end earlier."""

    @abstractmethod
    def delay(self, delay_s: float) -> Wait:
        """Wait for so long."""

    @abstractmethod
    def run(self, queue: Queue, count: int, service_s: float) -> Wait:
        """Run a batch of `count` that is expected to take `service_s`."""

    @abstractmethod
    def transfer(self, stage: Stage, layers: Sequence[Layer]) -> Steps[bool]:
        """Bring `layers` in. Returns whether they are here: a failure breaks it off."""

    @abstractmethod
    def transferred(self) -> Wait:
        """Wait for the transfer under way."""

    @abstractmethod
    def beside(self, steps: Steps[None]) -> None:
        """Let `steps` go on beside the batch that runs."""

    def away(self, until_s: float) -> Steps[None]:
        """The host failed: wait until it is back."""
        yield self.delay(until_s - self.clock.now)

    def answer(self, queue: Queue) -> Steps[None]:
        """A batch is done, and what follows from it comes."""
        queue.answered(self.clock.now)
        yield from ()

    def others_draw(self, _place: int) -> Steps[None]:
        """Let replicas that are listed before this one draw first from a shared queue; here nobody shares one."""
        yield from ()


def _nobody() -> None:
    """No GPU sleeps."""


class ServingGpu:
    """One GPU: the queues it serves, what is in its memory, and the loop that decides what runs."""

    driver: Driver

    def __init__(
        self,
        device: Device,
        queues: Sequence[Queue],
        noise: Sequence[Iterator[float]],
        *,
        scheduling: Scheduling,
        swap: SwapPolicy,
        outages: Sequence[Outage],
        horizon_s: float,
    ) -> None:
        self.clock: Clock = Number()
        self.device = device
        self.queues = queues
        self.noise = noise
        """By queue: factors on the expected times of its batches."""
        self.routers: list[Router] = []
        self.swap = swap
        self.on_link: Sequence[ServingGpu] = [self]
        """GPUs of its host that load too, and itself."""
        self.outages = list(outages)
        self.horizon_s = horizon_s
        self.ring: Callable[[], None] = _nobody
        """Ends its wait: something comes earlier than was known."""
        self.memory = Residency(device.memory_bytes, device.context_bytes)
        self.swaps = self._too_much()
        self.missing_bytes = [queue.stage.weight_bytes for queue in queues]
        """By queue: what it lacks of its layers now; kept up to date, because the agenda asks at every turn."""
        self.agenda = self._agenda(scheduling)
        self.ordered = scheduling is not Scheduling.ROUND_ROBIN
        self.by_deadline = scheduling in (Scheduling.EDF, Scheduling.SWAP_AWARE)
        self.served = [0] * len(queues)
        """Batches that each queue ran."""
        self.last = len(queues) - 1
        """Number of the queue that ran last."""
        self.loading: frozenset[str] | None = None
        """Layers under way."""
        self.leaving: list[str] = []
        """Layers that go when the running batch is done."""
        self.loads: list[Load] = []
        self.stalls: list[Stall] = []
        self.stalled_s = inf
        """Since when it stands still for weights."""
        self.fresh: set[str] = set()
        """Models whose weights came after their last batch."""
        self.overlap = Overlap()
        self.memory_at_s: list[float] = []
        self.memory_used: list[int] = []
        self._adopt(queues)
        if not self.swaps:
            self._fill()
        self.note()

    def _adopt(self, queues: Sequence[Queue]) -> None:
        for number, queue in enumerate(queues):
            queue.number = number
            queue.wake = partial(self.expect, queue)

    @cached_property
    def users(self) -> dict[str, list[Queue]]:
        """By layer: the queues that need it."""
        found: dict[str, list[Queue]] = {}
        for queue in self.queues:
            for layer in queue.stage.layers:
                found.setdefault(layer.key, []).append(queue)
        return found

    @cached_property
    def keys(self) -> list[frozenset[str]]:
        """By queue: its layers."""
        return [frozenset(layer.key for layer in queue.stage.layers) for queue in self.queues]

    def _too_much(self) -> bool:
        weights = {layer.key: layer.weight_bytes for queue in self.queues for layer in queue.stage.layers}
        workspace = max((queue.stage.workspace_bytes for queue in self.queues), default=0)
        return self.device.context_bytes + sum(weights.values()) + workspace > self.device.memory_bytes

    def _fill(self) -> None:
        for queue in self.queues:
            self.memory.add(self.memory.missing(queue.stage.layers))
        self.missing_bytes[:] = [0] * len(self.queues)
        self.memory.workspace_bytes = max((queue.stage.workspace_bytes for queue in self.queues), default=0)

    def _agenda(self, scheduling: Scheduling) -> Agenda:
        match scheduling:
            case Scheduling.ROUND_ROBIN:
                return RoundRobin(len(self.queues))
            case Scheduling.FCFS | Scheduling.EDF:
                return EarliestFirst()
            case Scheduling.SWAP_AWARE:
                return SwapAware(
                    self._missing_s,
                    self._service_s,
                    lambda number: self.queues[number].longest_s,
                    most_s=self.most_s(),
                    lacks=self.missing_bytes.__getitem__,
                )

    def most_s(self) -> float:
        """What loading and running never exceed together for any queue."""
        each_s = (queue.stage.load_s(queue.stage.weight_bytes) + queue.longest_s for queue in self.queues)
        return (1 + ROUNDING) * max(each_s, default=0.0)

    def _missing_s(self, number: int) -> float:
        missing_bytes = self.missing_bytes[number]
        return self.queues[number].stage.load_s(missing_bytes) if missing_bytes else 0.0

    def _service_s(self, number: int) -> float:
        queue = self.queues[number]
        return queue.service_s[max(1, queue.batch_size(self.clock.now))]

    # The loop

    def serve(self, driver: Driver) -> Steps[None]:
        """Pick a model, bring its weights in, run a batch, again, until the horizon."""
        self.driver, self.clock = driver, driver.clock
        self.failure_s = self.next_outage_s()
        for queue in self.queues:
            self.expect(queue)
        return self._loop()

    def _loop(self) -> Steps[None]:  # noqa: C901
        # Names of its own and no calls that can be spared: most GPUs run ahead of the clock, a batch in 2 microseconds.
        clock, driver, swaps, book = self.clock, self.driver, self.swaps, self.book
        take, queues, noise = self.agenda.take, self.queues, self.noise
        known = self.arrivals_known
        at_once = known and not swaps
        while (now := clock.now) < self.horizon_s:
            if now >= self.failure_s:
                yield from self.recover()
                continue
            if self.routers:
                self.route(now)
            number = take(now)
            if number < 0:
                yield driver.idle(self.next_event_s())
                continue
            queue = queues[number]
            if not at_once:
                if not known and not self.due(queue, now):
                    continue
                queue.booked_s = -inf
                if (swaps or isinstance(queue, SharedQueue)) and not (yield from self.prepare(queue)):
                    continue
                now = clock.now
            queue.discard(now, now)
            count = queue.batch_size(now)
            if not count:
                book(queue)
                continue
            service_s = queue.service_s[count] * next(noise[number])
            if swaps and queue.stage.model in self.fresh:
                self.fresh.remove(queue.stage.model)
                service_s *= queue.stage.after_load
            finish_s = now + service_s
            if finish_s > self.failure_s:
                yield from self.run_until_failure(queue, count)
                continue
            if queue.next_stage is not None:
                queue.hand_on(queue.next_stage, finish_s, count)
            queue.leave(now, finish_s, count)
            book(queue)
            if swaps:
                self.occupy(queue, finish_s)
            yield driver.run(queue, count, service_s)
            if swaps:
                yield from self.end_batch(queue, finish_s)
            if not known:
                yield from driver.answer(queue)

    def prepare(self, queue: Queue) -> Steps[bool]:
        """Let others draw first, bring in what `queue` lacks. Returns whether its batch may run."""
        if isinstance(queue, SharedQueue):
            yield from self.driver.others_draw(queue.place)
            if not self.due(queue, self.clock.now):
                return False
        return not self.swaps or (yield from self.bring_in(queue))

    def run_until_failure(self, queue: Queue, count: int) -> Steps[None]:
        """Run a batch that a failure cuts short."""
        now = self.clock.now
        queue.cut_short(now, self.failure_s, count)
        self.book(queue)
        yield self.driver.delay(self.failure_s - now)
        queue.give_back()

    # What others change

    @cached_property
    def arrivals_known(self) -> bool:
        """Whether it was known from the start when requests come to its queues: nobody ever rings."""
        return not self.routers and all(type(queue) is Queue for queue in self.queues)

    @property
    def clocked(self) -> bool:
        """Whether others can change what this GPU will find. Where nobody can, it runs ahead of the clock."""
        return len(self.on_link) > 1 or bool(self.outages) or not self.arrivals_known

    @property
    def steady(self) -> bool:
        """Whether nobody disturbs it but those that share its link or hand it batches."""
        own = all(type(queue) in (Queue, FormedQueue) for queue in self.queues)
        return bool(self.queues) and own and not (self.outages or self.routers)

    @property
    def self_contained(self) -> bool:
        """The same where nobody hands it any, nor it to others."""
        return self.steady and self.arrivals_known and all(queue.next_stage is None for queue in self.queues)

    def next_outage_s(self) -> float:
        """When its host fails next."""
        return self.outages[0].start_s if self.outages else inf

    def next_event_s(self) -> float:
        """When something will be ready, or could be."""
        next_s = min(self.agenda.next_ready_s(), self.failure_s)
        for router in self.routers:
            next_s = min(next_s, router.next_s())
        return next_s

    def book(self, queue: Queue) -> None:
        """Tell the agenda when `queue` will be ready."""
        queue.booked_s = ready_s = queue.ready_at()
        if ready_s < inf:
            self.agenda.put(queue.number, ready_s, self._priority(queue) if self.ordered else 0.0)

    def _priority(self, queue: Queue) -> float:
        return queue.oldest_s() + (queue.slo_s if self.by_deadline else 0.0)

    def expect(self, queue: Queue) -> None:
        """Book `queue` where it will be ready earlier than the agenda knows, and wake the GPU."""
        if queue.ready_at() < queue.booked_s:
            self.book(queue)
            self.ring()

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

    # Failures

    def recover(self) -> Steps[None]:
        """The host failed: memory is lost. Wait until it is back; what was resident for good is loaded again."""
        if self.loading is not None:
            yield self.driver.transferred()
        outage = self.outages.pop(0)
        self.failure_s = self.next_outage_s()
        self.evict(list(self.memory.resident))
        yield from self.driver.away(outage.finish_s)
        if not self.swaps:
            yield from self.reload()

    def reload(self) -> Steps[None]:
        """Bring in what all models need; another failure ends it."""
        self.begin_stall()
        for queue in self.queues:
            missing = self.memory.missing(queue.stage.layers)
            if missing and self.clock.now < self.failure_s:
                yield from self.load(queue.stage, missing, ahead=False)
        self.end_stall()

    # Memory

    def bring_in(self, queue: Queue) -> Steps[bool]:
        """Wait for or load what `queue` lacks, and make room for its workspace. Returns whether its batch may run."""
        while (wanted := self.wanted(queue)) and self.in_the_way(queue):
            self.begin_stall()
            yield self.driver.transferred()
        if wanted and (missing := self._room_made(queue)):
            self.begin_stall()
            yield from self.load(queue.stage, missing, ahead=False)
        if self.routers:
            self.route(self.clock.now)
        if isinstance(queue, SharedQueue):
            yield from self.driver.others_draw(queue.place)
        self.end_stall()
        may_run = queue.ready_at() <= self.clock.now < min(self.horizon_s, self.failure_s)
        if not may_run:  # its requests were dropped, or taken by another replica, or the host failed
            self.book(queue)
        return may_run

    def begin_stall(self) -> None:
        """Stand still for weights from now on, if not for longer."""
        self.stalled_s = min(self.stalled_s, self.clock.now)

    def end_stall(self) -> None:
        """Note for how long it stood still, if it did."""
        if self.clock.now > self.stalled_s:
            self.stalls.append(Stall(self.device.id, self.stalled_s, self.clock.now))
        self.stalled_s = inf

    def wanted(self, queue: Queue) -> bool:
        """Whether requests are left that a load begun now would serve."""
        now = self.clock.now
        if now >= self.horizon_s:
            return False
        queue.discard(now, now + self._missing_s(queue.number))
        return bool(queue.batch_size(now)) and now < self.failure_s

    def in_the_way(self, queue: Queue) -> bool:
        """Whether a load is under way and `queue` needs its layers, the copy engine or more room than it leaves."""
        if self.loading is None:
            return False
        needs = self.missing_bytes[queue.number] or not self.loading.isdisjoint(self.keys[queue.number])
        return bool(needs) or self._victims(queue) is None

    def _room_made(self, queue: Queue) -> list[Layer]:
        """Evict what is in the way of `queue`, note that its layers are used; those that must be loaded."""
        self.evict(self._victims(queue) or [])
        layers, memory = queue.stage.layers, self.memory
        if not self.missing_bytes[queue.number]:
            memory.touch(layers)
            return []
        memory.touch(layer for layer in layers if layer.key in memory.resident)
        return memory.missing(layers)

    def _victims(self, queue: Queue) -> list[str] | None:
        """Layers that must go so that `queue` can run; None where it cannot be while a load is under way."""
        coming_bytes, workspace_bytes = self.missing_bytes[queue.number], queue.stage.workspace_bytes
        memory, keep = self.memory, self.keys[queue.number]
        if memory.fits(coming_bytes, workspace_bytes):
            return []
        if self.loading:
            keep |= self.loading
        return memory.victims(coming_bytes, workspace_bytes, keep, self._order())

    def load(self, stage: Stage, missing: list[Layer], *, ahead: bool) -> Steps[None]:
        """Take the room at once and bring the bytes in; a failure breaks it off, and recovery clears the memory."""
        start_s = self.clock.now
        self.loading = frozenset(layer.key for layer in missing)
        self.overlap.begin_load(start_s, stage.beside_load)
        self._add(missing)
        self.note()
        if (yield from self.driver.transfer(stage, missing)):
            load = Load(stage.model, self.device.id, start_s, self.clock.now, size_bytes(missing), ahead)
            self.loads.append(load)
            self.fresh.add(stage.model)
        self.loading = None

    def occupy(self, queue: Queue, finish_s: float) -> None:
        """A batch begins: its workspace is taken; meanwhile the next model may be loaded."""
        self.memory.workspace_bytes = queue.stage.workspace_bytes
        self.served[queue.number] += 1
        self.last = queue.number
        self.overlap.begin_batch(self.clock.now, queue.stage.beside_load)
        self.note()
        if not self.swap.prefetch or self.loading is not None:
            return
        number = self.agenda.peek(self.clock.now, finish_s)
        if number >= 0 and self.missing_bytes[number]:
            self.driver.beside(self.load_ahead(self.queues[number], queue, finish_s))

    def end_batch(self, queue: Queue, finish_s: float) -> Steps[None]:
        """A batch is done, or goes on for as long as a load beside it held it up."""
        if longer_s := self.overlap.end_batch(finish_s):
            queue.log.finish_s[-1] += longer_s
            yield self.driver.delay(longer_s)
        self.vacate()

    def vacate(self) -> None:
        """The batch is done: its workspace is free."""
        self.memory.workspace_bytes = 0
        self.evict(self.leaving)
        self.leaving = []
        self.note()

    def load_ahead(self, coming: Queue, running: Queue, finish_s: float) -> Steps[None]:
        """Load what `coming` lacks while `running` runs, as soon as something waits for it and if both fit."""
        if coming.booked_s > self.clock.now:
            yield self.driver.delay(coming.booked_s - self.clock.now)
        if self.clock.now < finish_s and self.loading is None and (missing := self._room_beside(coming, running)):
            yield from self.load(coming.stage, missing, ahead=True)

    def _room_beside(self, coming: Queue, running: Queue) -> list[Layer]:
        """Evict what is in the way of `coming` while `running` runs; what to load, nothing where both do not fit.

        Victims are chosen as they would be after the batch: should `running` be among them, it leaves when it is done.
        """
        missing, busy = self.memory.missing(coming.stage.layers), self.keys[running.number]
        victims = self._victims(coming) or []
        going = [key for key in victims if key not in busy]
        freed_bytes = sum(self.memory.resident[key] for key in going)
        if self.memory.used_bytes - freed_bytes + size_bytes(missing) > self.memory.limit_bytes:
            return []
        self.evict(going)
        self.leaving = [key for key in victims if key in busy]
        return missing

    def _add(self, layers: Sequence[Layer]) -> None:
        self.memory.add(layers)
        for layer in layers:
            for queue in self.users[layer.key]:
                self.missing_bytes[queue.number] -= layer.weight_bytes

    def evict(self, keys: Sequence[str]) -> None:
        """Free layers at once."""
        if not keys:
            return
        for key in keys:
            for queue in self.users[key]:
                self.missing_bytes[queue.number] += self.memory.resident[key]
        self.memory.evict(keys)
        self.note()

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

    def note(self) -> None:
        """Count the bytes in use from now on."""
        self.memory_at_s.append(self.clock.now)
        self.memory_used.append(self.memory.used_bytes)


def size_bytes(layers: Iterable[Layer]) -> int:
    """Bytes of `layers` together."""
    return sum(layer.weight_bytes for layer in layers)
