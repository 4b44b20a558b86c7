"""The SimPy processes: a GPU that runs batches, its copy engine, and what happens when its host fails."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, repeat
from math import inf

import numpy as np
import simpy

from simulator.deployment import Scheduling, SwapPolicy
from simulator.hardware import Device
from simulator.link import Link
from simulator.memory import Residency, eviction_order
from simulator.model import Layer
from simulator.queues import FormedQueue, Outage, Queue, Router, Stage
from simulator.records import Load, Stall
from simulator.scheduling import Agenda, EarliestFirst, RoundRobin, SwapAware

Process = simpy.events.ProcessGenerator


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
        self.device = device
        self.queues = queues
        self.routers: list[Router] = []
        self.swap = swap
        self.link = link
        self.outages = list(outages)
        self.horizon_s = horizon_s
        self.memory = Residency(device.memory_bytes, device.context_bytes)
        self.swaps = self._too_much()
        self.agenda = self._agenda(scheduling)
        self.by_deadline = scheduling in (Scheduling.EDF, Scheduling.SWAP_AWARE)
        self.noise = [
            _noise(queue.stage.cv, child) for queue, child in zip(queues, rng.spawn(len(queues)), strict=True)
        ]
        self.users: dict[str, list[Queue]] = {}
        self.served = [0] * len(queues)
        self.last = len(queues) - 1
        self.loading: tuple[frozenset[str], simpy.Event] | None = None
        self.bell: simpy.Event | None = None
        self.leaving: list[str] = []
        self.loads: list[Load] = []
        self.stalls: list[Stall] = []
        self.stalled_s = inf
        """Since when it stands still for weights."""
        self.memory_at_s: list[float] = []
        self.memory_used: list[int] = []
        for number, queue in enumerate(queues):
            queue.number = number
            for layer in queue.stage.layers:
                self.users.setdefault(layer.key, []).append(queue)
            if isinstance(queue, FormedQueue):
                queue.wake = partial(self.expect, queue)
        if not self.swaps:
            self._fill()
        self._note()

    def _too_much(self) -> bool:
        weights = {layer.key: layer.weight_bytes for queue in self.queues for layer in queue.stage.layers}
        workspace = max((queue.stage.workspace_bytes for queue in self.queues), default=0)
        return self.device.context_bytes + sum(weights.values()) + workspace > self.device.memory_bytes

    def _fill(self) -> None:
        for queue in self.queues:
            self.memory.add(self.memory.missing(queue.stage.layers))
        self.memory.workspace_bytes = max((queue.stage.workspace_bytes for queue in self.queues), default=0)

    def _agenda(self, scheduling: Scheduling) -> Agenda:
        match scheduling:
            case Scheduling.ROUND_ROBIN:
                return RoundRobin(len(self.queues))
            case Scheduling.FCFS | Scheduling.EDF:
                return EarliestFirst()
            case Scheduling.SWAP_AWARE:
                return SwapAware(self._missing_s, self._service_s)

    def _missing_s(self, number: int) -> float:
        stage = self.queues[number].stage
        return stage.load_s(sum(layer.weight_bytes for layer in self.memory.missing(stage.layers)))

    def _service_s(self, number: int) -> float:
        queue = self.queues[number]
        return queue.stage.service_s[max(1, queue.batch_size(self.env.now))]

    def run(self) -> Process:
        """Serve until the horizon: pick a model, bring its weights in, run a batch, again."""
        for queue in self.queues:
            self.book(queue)
        env, queues, agenda, swaps, clocked = self.env, self.queues, self.agenda, self.swaps, self.clocked
        noise, outage_s = self.noise, self.next_outage_s()
        now = 0.0
        while now < self.horizon_s:
            if now >= outage_s:
                now = yield from self.recover()
                outage_s = self.next_outage_s()
                continue
            if self.routers:
                self.route(now)
            number = agenda.take(now)
            if number < 0:
                now = (yield from self.idle()) if clocked else min(agenda.next_ready_s(), self.horizon_s)
                continue
            queue = queues[number]
            if clocked and not self.due(queue, now):
                continue
            queue.booked_s = -inf
            if swaps:
                now = yield from self.bring_in(queue)
                if queue.ready_at() > now:  # its requests were dropped, or taken by another replica
                    self.book(queue)
                    continue
            if queue.drop is not None:
                queue.discard(now, now)
            count = queue.batch_size(now)
            if not count or now >= outage_s:
                self.book(queue)
                continue
            service_s = queue.service_s[count] * next(noise[number])
            finish = now + service_s
            if finish > outage_s:
                queue.log.aborted.append((now, outage_s, count))
                self.book(queue)
                if clocked:
                    yield env.timeout(outage_s - now)
                now = outage_s
                continue
            queue.begin(now, finish, count)
            self.book(queue)
            if swaps:
                self.occupy(queue, finish)
            if clocked:
                yield env.timeout(service_s)
            now = finish
            if swaps:
                self.vacate()

    @property
    def clocked(self) -> bool:
        """Whether others can change what this GPU will find. Where nobody can, it runs ahead of the clock."""
        known = all(type(queue) is Queue for queue in self.queues)
        return self.swaps or bool(self.routers) or bool(self.outages) or not known

    def next_outage_s(self) -> float:
        """When its host fails next."""
        return self.outages[0].start_s if self.outages else inf

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
        self.bell = self.env.event()
        yield self.bell | self.env.timeout(max(0.0, next_s - self.env.now))
        self.bell = None
        return self.env.now

    def recover(self) -> Process:
        """The host failed: memory is lost. Wait until it is back; what was resident for good is loaded again."""
        outage = self.outages.pop(0)
        if self.loading is not None:
            yield self.loading[1]
        self._evict(list(self.memory.resident))
        yield self.env.timeout(max(0.0, outage.finish_s - self.env.now))
        if not self.swaps:
            self.stalled_s = self.env.now
            for queue in self.queues:
                if missing := self.memory.missing(queue.stage.layers):
                    yield from self._load(queue.stage, missing, ahead=False)
            self.end_stall()
        return self.env.now

    def bring_in(self, queue: Queue) -> Process:
        """Wait for or load what `queue` lacks, and make room for its workspace. Returns the time."""
        env, stage = self.env, queue.stage
        needed = frozenset(layer.key for layer in stage.layers)
        self.stalled_s = env.now
        while True:
            missing = self.memory.missing(stage.layers)
            arriving = self.loading[0] if self.loading else frozenset()
            if self.loading and (missing or arriving & needed):
                yield self.loading[1]
                continue
            size_bytes = sum(layer.weight_bytes for layer in missing)
            queue.discard(env.now, env.now + stage.load_s(size_bytes))
            if not queue.batch_size(env.now):
                break
            victims = self.memory.victims(size_bytes, stage.workspace_bytes, needed | arriving, self._order())
            if victims is None and self.loading:
                yield self.loading[1]
                continue
            self._evict(victims or [])
            self.memory.touch(layer for layer in stage.layers if layer.key in self.memory.resident)
            if missing:
                yield from self._load(stage, missing, ahead=False)
            break
        if self.routers:
            self.route(env.now)
        self.end_stall()
        return env.now

    def end_stall(self) -> None:
        """Note for how long it stood still, if it did."""
        if self.env.now > self.stalled_s:
            self.stalls.append(Stall(self.device.id, self.stalled_s, self.env.now))
        self.stalled_s = inf

    def occupy(self, queue: Queue, finish_s: float) -> None:
        """A batch begins: its workspace is taken; meanwhile the next model may be loaded."""
        self.memory.workspace_bytes = queue.stage.workspace_bytes
        self.served[queue.number] += 1
        self.last = queue.number
        self._note()
        if self.swap.prefetch and self.loading is None:
            self.env.process(self.load_ahead(queue, finish_s))

    def vacate(self) -> None:
        """The batch is done: its workspace is free."""
        self.memory.workspace_bytes = 0
        self._evict(self.leaving)
        self.leaving = []
        self._note()

    def load_ahead(self, running: Queue, finish_s: float) -> Process:
        """Load what will run next while `running` runs, as soon as it is known and if both fit.

        Victims are chosen as they would be after the batch: should `running` be among them, it leaves when it is done.
        """
        number = self.agenda.peek(self.env.now, finish_s)
        if number < 0:
            return
        stage = self.queues[number].stage
        yield self.env.timeout(max(0.0, self.queues[number].booked_s - self.env.now))
        missing = self.memory.missing(stage.layers)
        if self.env.now >= finish_s or self.loading is not None or not missing:
            return
        size_bytes = sum(layer.weight_bytes for layer in missing)
        needed = frozenset(layer.key for layer in stage.layers)
        victims = self.memory.victims(size_bytes, stage.workspace_bytes, needed, self._order())
        if victims is None:
            return
        busy = {layer.key for layer in running.stage.layers}
        self._evict([key for key in victims if key not in busy])
        if self.memory.used_bytes + size_bytes <= self.memory.limit_bytes:
            self.leaving = [key for key in victims if key in busy]
            yield from self._load(stage, missing, ahead=True)

    def _load(self, stage: Stage, missing: list[Layer], *, ahead: bool) -> Process:
        done = self.env.event()
        self.loading = frozenset(layer.key for layer in missing), done
        self.memory.add(missing)
        self._note()
        start_s = self.env.now
        size_bytes = sum(layer.weight_bytes for layer in missing)
        yield self.env.timeout(stage.load_t0_s)
        yield self.link.transfer(size_bytes, stage.load_bytes_per_s)
        self.loads.append(Load(stage.model, self.device.id, start_s, self.env.now, size_bytes, ahead))
        self.loading = None
        done.succeed()

    def _evict(self, keys: Sequence[str]) -> None:
        self.memory.evict(keys)
        self._note()

    def _order(self) -> list[str]:
        return eviction_order(list(self.memory.resident), self.swap.eviction, self._next_use, self._worth)

    def _next_use(self, key: str) -> tuple[float, int]:
        count = len(self.queues)
        return min(
            (max(queue.ready_at(), self.env.now), (queue.number - self.last - 1) % count) for queue in self.users[key]
        )

    def _worth(self, key: str) -> float:
        size_bytes = self.memory.resident[key]
        return sum(self.served[q.number] * q.stage.load_s(size_bytes) for q in self.users[key]) / size_bytes

    def _note(self) -> None:
        self.memory_at_s.append(self.env.now)
        self.memory_used.append(self.memory.used_bytes)


def _noise(cv: float, rng: np.random.Generator) -> Iterator[float]:
    """Factors of mean 1 and the given coefficient of variation, Gamma: near normal when small, exponential at cv 1."""
    if not cv:
        return repeat(1.0)
    return chain.from_iterable(rng.gamma(cv**-2, cv * cv, 1024).tolist() for _ in repeat(None))
