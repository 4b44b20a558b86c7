"""Executor: one process that serves models on one real device - its clock, its queues, its weights, its memory.

The rules are the simulator's own pure functions; what takes time here takes real time. Needs torch.
"""

import gc
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf, nan
from threading import Condition, Thread, current_thread, main_thread
from time import perf_counter, sleep

from calibrate.resident import Weights
from calibrate.served import ASKED, Notes, ServeError
from simulator.batching import arrived, close_at, first_kept
from simulator.curves import LoadTime
from simulator.deployment import BatchingPolicy, Deployment, Drop, Scheduling, Service
from simulator.hardware import Device as Card
from simulator.memory import Residency, eviction_order
from simulator.model import Layer
from simulator.records import Load, Stall
from simulator.scheduling import Agenda, EarliestFirst, RoundRobin, SwapAware

SPIN_S = 1e-3
"""The last of a wait is spent looking at the clock: a sleep ends late by up to this."""
NAP_S = 0.1
"""Longest sleep before it is asked whether to stop."""


@dataclass(slots=True)
class Line:
    """A model with the requests that wait for it, and what became of those that no longer do."""

    service: Service
    times: Sequence[float]
    """Arrivals, sorted."""
    run: Callable[[int], None]
    """Run a batch of so many for real; it returns when the outputs are there."""
    layers: tuple[Layer, ...]
    """With the bytes they really have."""
    service_s: tuple[float, ...]
    """Expected time of a batch of n, at index n."""
    load_time: LoadTime
    workspace_bytes: int
    """Kept free for a batch: as planned, or as measured if that is more."""
    measured_bytes: int
    """Workspace of the largest batch as measured."""
    number: int
    """Its place on the device."""
    head: int = 0
    booked_s: float = inf
    """When the agenda was told it will be ready."""
    rest: tuple[int, float] = (-1, inf)
    """Where the requests begin that a drop left of a batch which was ready, and since when they may run."""
    rows: list[tuple[float, float, int]] = field(default_factory=list)
    """Start, end and size of each batch; dropped requests end at NaN, a batch that never ended at infinity."""
    served: int = 0
    """Batches that it ran."""

    @property
    def model(self) -> str:
        """Its name."""
        return self.service.model

    @property
    def policy(self) -> BatchingPolicy:
        """How its batches form."""
        return self.service.replicas[0].batching

    def ready_at(self) -> float:
        """When the next batch may run; infinity when nothing more will come. What a drop left of one is ready."""
        rest, rest_s = self.rest
        if self.head == rest:
            return rest_s
        return close_at(self.times, self.head, len(self.times), self.policy)

    def batch_size(self, now_s: float) -> int:
        """Requests in a batch that starts now."""
        return arrived(self.times, self.head, len(self.times), now_s, self.policy.max_batch_size)

    def discard(self, now_s: float, start_s: float) -> None:
        """Apply the drop rule to what has arrived by `now_s`, for a batch that could start at `start_s`."""
        drop, slo_s = self.service.drop, self.service.slo.latency_s
        if drop is Drop.NEVER:
            return
        head = first_kept(self.times, self.head, len(self.times), now_s, start_s, drop, slo_s, self.service_s)
        if head == self.head:
            return
        ready_s = self.ready_at()
        self.leave(now_s, nan, head - self.head)
        if ready_s <= now_s and self.batch_size(now_s):
            self.rest = head, max(ready_s, self.times[head])

    def leave(self, start_s: float, finish_s: float, count: int) -> None:
        """The next `count` requests wait no longer."""
        self.rows.append((start_s, finish_s, count))
        self.head += count

    def finish(self, start_s: float, finish_s: float) -> None:
        """The batch that left last ran from `start_s` to `finish_s`."""
        self.rows[-1] = (start_s, finish_s, self.rows[-1][2])

    def load_s(self, layers: Iterable[Layer]) -> float:
        """Expected time to bring `layers` in."""
        return self.load_time(size_bytes(layers))


@dataclass(slots=True)
class Errand:
    """A load to be begun while a batch runs; it ends with the batch."""

    line: Line
    at_s: float
    """When it is known that the model will be next."""
    beside: Line
    """The model that runs."""


class Executor:
    """Serves lines on one device. Its state belongs to the thread that holds `turn`: the loop's own, which lends it
    while a batch runs or while it waits, or the loader's, which brings weights in beside a batch.
    """

    def __init__(self, deployment: Deployment, card: Card, lines: Sequence[Line], weights: Weights) -> None:
        self.card = card
        self.lines = lines
        self.swap = deployment.swap
        self.weights = weights
        self.memory = Residency(card.memory_bytes, card.context_bytes)
        self.swaps = self._too_much()
        self.by_deadline = deployment.scheduling in (Scheduling.EDF, Scheduling.SWAP_AWARE)
        self.agenda = self._agenda(deployment.scheduling)
        self.users: dict[str, list[Line]] = {}
        """By layer: the lines that need it."""
        for line in lines:
            for layer in line.layers:
                self.users.setdefault(layer.key, []).append(line)
        self.turn = Condition()
        self.origin_s = 0.0
        """Arrival time 0 on the monotonic clock."""
        self.duration_s = 0.0
        self.ended_s = 0.0
        """When the run was over."""
        self.free_s = 0.0
        """Since when no batch runs."""
        self.last = len(lines) - 1
        """Number of the line that ran last."""
        self.loading: frozenset[str] | None = None
        """Layers under way."""
        self.leaving: list[str] = []
        """Layers that go when the running batch is done."""
        self.errand: Errand | None = None
        self.closing = False
        self.failure: Exception | None = None
        """What the loader raised."""
        self.notes = Notes(card.id)
        self.launch_s: list[float] = []
        self.loads: list[Load] = []
        self.stalls: list[Stall] = []
        self.memory_at_s: list[float] = []
        self.memory_used: list[int] = []
        self.counted_bytes = 0
        """Workspace of what runs, as measured."""

    def _too_much(self) -> bool:
        weights = {layer.key: layer.weight_bytes for line in self.lines for layer in line.layers}
        workspace = max(line.workspace_bytes for line in self.lines)
        return self.card.context_bytes + sum(weights.values()) + workspace > self.card.memory_bytes

    def _agenda(self, scheduling: Scheduling) -> Agenda:
        match scheduling:
            case Scheduling.ROUND_ROBIN:
                return RoundRobin(len(self.lines))
            case Scheduling.FCFS | Scheduling.EDF:
                return EarliestFirst()
            case Scheduling.SWAP_AWARE:
                return SwapAware(self._missing_s, self._service_s)

    def _missing_s(self, number: int) -> float:
        line = self.lines[number]
        return line.load_s(self.memory.missing(line.layers))

    def _service_s(self, number: int) -> float:
        line = self.lines[number]
        return line.service_s[max(1, line.batch_size(self.now()))]

    def now(self) -> float:
        """Seconds since arrival time 0."""
        return perf_counter() - self.origin_s

    # The loop

    def serve(self, at_s: Callable[[], float], duration_s: float, stop: Callable[[], bool]) -> str | None:
        """Serve until the horizon. Why it stopped before, if it did; what was measured until then is kept."""
        self.duration_s = duration_s
        loader = Thread(target=self._loader, name="loader", daemon=True)
        with self.turn:
            self._begin()
            self.origin_s = at_s()
            if self.swaps and self.swap.prefetch:
                loader.start()
            stopped = self._until_stopped(stop)
            self.ended_s = self.now() if stopped else duration_s
            self.closing = True
            self.turn.notify_all()
        if loader.ident is not None:
            loader.join()
        return stopped

    def _begin(self) -> None:
        if not self.swaps:
            for line in self.lines:
                missing = self.memory.missing(line.layers)
                self.memory.add(missing)
                self.weights.load(layer.key for layer in missing)
            self._occupy(max(self.lines, key=lambda line: line.workspace_bytes))
            self.counted_bytes = max(line.measured_bytes for line in self.lines)
        self._note(0.0)
        for line in self.lines:
            self.book(line)

    def _until_stopped(self, stop: Callable[[], bool]) -> str | None:
        try:
            with collector_at_rest(), interrupts_noted() as interrupts:
                return self._loop(stop, interrupts)
        except KeyboardInterrupt:
            return "interrupted"
        except Exception as error:
            return self._reason(error)

    def _reason(self, error: Exception) -> str:
        text = " ".join(str(error).split())[:300]
        if self.weights.device.is_out_of_memory(error):
            return f"out of memory: {text}"
        return text if isinstance(error, ServeError) else f"{type(error).__name__}: {text}"

    def _loop(self, stop: Callable[[], bool], interrupts: Sequence[int]) -> str | None:
        while (now := self.now()) < self.duration_s:
            if self.failure is not None:
                raise self.failure
            if interrupts or stop():
                return "interrupted" if interrupts else ASKED
            number = self.agenda.take(now)
            if number < 0:
                self.idle()
                continue
            line = self.lines[number]
            if not self.swaps:
                self.run_batch(line)
            elif (stalled_s := self.bring_in(line)) is not None:
                self.run_batch(line, stalled_s)
        return None

    def idle(self) -> None:
        """Nothing to run: sleep until something will be ready, and watch the clock for the last of it."""
        next_s = min(self.duration_s, self.agenda.next_ready_s())
        left_s = next_s - self.now()
        if left_s > SPIN_S:
            self.turn.wait(min(left_s - SPIN_S, NAP_S))
            return
        while self.now() < next_s:
            sleep(0)  # lets the loader go on

    def book(self, line: Line) -> None:
        """Tell the agenda when `line` will be ready."""
        line.booked_s = ready_s = line.ready_at()
        if ready_s < inf:
            slo_s = line.service.slo.latency_s if self.by_deadline else 0.0
            self.agenda.put(line.number, ready_s, line.times[line.head] + slo_s)

    def run_batch(self, line: Line, stalled_s: float = 0.0) -> None:
        """Run what waits in `line`, unless the drop rule leaves nothing. `stalled_s`: it waited so long for weights."""
        now = self.now()
        line.discard(now, now)
        count = line.batch_size(now)
        if not count:
            self.book(line)
            return
        could_s = max(self.free_s, line.ready_at())
        line.leave(now, inf, count)
        self.book(line)
        if self.swaps:
            self.occupy(line, count)
        start_s, finish_s = self.run(line, count)
        self.free_s = finish_s
        line.finish(start_s, finish_s)
        self.launch_s.append(max(0.0, start_s - could_s - stalled_s))
        self.notes.add("run", line.model, start_s, count, line.service_s[count], finish_s - start_s)
        if self.swaps:
            self.vacate()

    def run(self, line: Line, count: int) -> tuple[float, float]:
        """When a batch began and ended; meanwhile the loader may have its turn."""
        size = line.policy.max_batch_size if line.policy.padded else count
        if not self.swaps:
            start_s = self.now()
            line.run(size)
            return start_s, self.now()
        self.turn.release()
        try:
            start_s = self.now()
            line.run(size)
            finish_s = self.now()
        finally:
            self.turn.acquire()
        return start_s, finish_s

    # Memory

    def occupy(self, line: Line, count: int) -> None:
        """A batch begins: its workspace is taken; meanwhile the next model may be loaded."""
        self._occupy(line)
        line.served += 1
        self.last = line.number
        now = self._note()
        if not self.swap.prefetch or self.loading is not None:
            return
        number = self.agenda.peek(now, now + line.service_s[count])
        if number >= 0:
            following = self.lines[number]
            self.errand = Errand(following, following.booked_s, line)
            self.turn.notify_all()

    def _occupy(self, line: Line) -> None:
        self.memory.workspace_bytes = line.workspace_bytes
        self.counted_bytes = line.measured_bytes

    def vacate(self) -> None:
        """The batch is done: its workspace is free."""
        self.errand = None
        self.memory.workspace_bytes = self.counted_bytes = 0
        self.evict(self.leaving)
        self.leaving = []
        self._note()
        self.turn.notify_all()

    def bring_in(self, line: Line) -> float | None:
        """Wait for or load what `line` lacks and make room for its workspace. Seconds of it; None: no batch may run."""
        began_s, stalled = self.now(), False
        while (wanted := self.wanted(line)) and self.in_the_way(line):
            stalled = True
            self._await_load()
        if wanted:
            self.evict(self._victims(line) or [])
            self.memory.touch(layer for layer in line.layers if layer.key in self.memory.resident)
            if missing := self.memory.missing(line.layers):
                stalled = True
                self.load(line, missing, ahead=False)
        now = self.now()
        if stalled:
            self.stalls.append(Stall(self.card.id, began_s, min(now, self.duration_s)))
        if line.ready_at() <= now < self.duration_s:
            return now - began_s if stalled else 0.0
        self.book(line)  # its requests were dropped, or time is up
        return None

    def wanted(self, line: Line) -> bool:
        """Whether requests are left that a load begun now would serve."""
        if (now := self.now()) >= self.duration_s:
            return False
        line.discard(now, now + self._missing_s(line.number))
        return bool(line.batch_size(now))

    def in_the_way(self, line: Line) -> bool:
        """Whether a load is under way and `line` needs its layers, the copy engine or more room than it leaves."""
        if self.loading is None:
            return False
        needs = self.memory.missing(line.layers) or not self.loading.isdisjoint(layer.key for layer in line.layers)
        return bool(needs) or self._victims(line) is None

    def _await_load(self) -> None:
        while self.loading is not None:
            self.turn.wait(NAP_S)
        if self.failure is not None:
            raise self.failure

    def _victims(self, line: Line) -> list[str] | None:
        """Layers that must go so that `line` can run; None where it cannot be while a load is under way."""
        keep = (self.loading or frozenset()).union(layer.key for layer in line.layers)
        coming_bytes = size_bytes(self.memory.missing(line.layers))
        order = eviction_order(list(self.memory.resident), self.swap.eviction, self._next_use, self._worth)
        return self.memory.victims(coming_bytes, line.workspace_bytes, keep, order)

    def _next_use(self, key: str) -> tuple[float, int]:
        now, count = self.now(), len(self.lines)
        return min((max(line.ready_at(), now), (line.number - self.last - 1) % count) for line in self.users[key])

    def _worth(self, key: str) -> float:
        layer_bytes = self.memory.resident[key]
        return sum(line.served * line.load_time(layer_bytes) for line in self.users[key]) / layer_bytes

    def load(self, line: Line, missing: Sequence[Layer], *, ahead: bool) -> None:
        """Take the room at once and bring the bytes in; the turn is lent meanwhile."""
        keys, moved_bytes = [layer.key for layer in missing], size_bytes(missing)
        self.loading = frozenset(keys)
        self.memory.add(missing)
        start_s = self._note()
        self.turn.release()
        try:
            self.weights.load(keys)
            finish_s = self.now()
        finally:
            self.turn.acquire()
            self.loading = None
            self.turn.notify_all()
        self.notes.add("load", line.model, start_s, 0, line.load_time(moved_bytes), finish_s - start_s)
        if finish_s <= self.duration_s:
            self.loads.append(Load(line.model, self.card.id, start_s, finish_s, moved_bytes, ahead))

    def evict(self, keys: Sequence[str]) -> None:
        """Free layers at once; an action for each model that is the first to use them."""
        for key in keys:
            start_s = self.now()
            self.memory.evict([key])
            self.weights.evict([key])
            self.notes.add("evict", self.users[key][0].model, start_s, 0, 0.0, self.now() - start_s)
        if keys:
            self._note()

    def _note(self, at_s: float | None = None) -> float:
        """Count the bytes in use from now on; refuse to pass the limit."""
        now = self.now() if at_s is None else at_s
        if self.memory.used_bytes > self.memory.limit_bytes:
            raise ServeError(
                f"{self.card.id}: {self.memory.used_bytes:,} bytes would be in use, the limit is "
                f"{self.memory.limit_bytes:,}. Allow more memory or smaller batches"
            )
        self.memory_at_s.append(now)
        self.memory_used.append(self.memory.used_bytes - self.memory.workspace_bytes + self.counted_bytes)
        return now

    # The loader

    def _loader(self) -> None:
        with self.turn:
            while not self.closing:
                if (errand := self.errand) is None:
                    self.turn.wait()
                elif (left_s := errand.at_s - self.now()) > 0:
                    self.turn.wait(left_s)
                else:
                    self.errand = None
                    self._load_ahead(errand)

    def _load_ahead(self, errand: Errand) -> None:
        """Load what will run next while a batch runs, if both fit. Victims in use leave when the batch is done."""
        line = errand.line
        missing = self.memory.missing(line.layers)
        if self.loading is not None or not missing:
            return
        victims = self._victims(line) or []
        busy = {layer.key for layer in errand.beside.layers}
        going = [key for key in victims if key not in busy]
        freed_bytes = sum(self.memory.resident[key] for key in going)
        if self.memory.used_bytes - freed_bytes + size_bytes(missing) > self.memory.limit_bytes:
            return
        try:
            self.evict(going)
            self.leaving = [key for key in victims if key in busy]
            self.load(line, missing, ahead=True)
        except Exception as error:
            self.failure = error


def size_bytes(layers: Iterable[Layer]) -> int:
    """Bytes of `layers` together."""
    return sum(layer.weight_bytes for layer in layers)


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """Without pauses for collecting garbage."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def interrupts_noted() -> Iterator[list[int]]:
    """Ctrl-C, first, is a note to read between batches: raised just anywhere it would leave threads and locks torn.

    A second one is raised. Where it is ignored, or not this thread's to answer, it stays so.
    """
    seen: list[int] = []
    if current_thread() is not main_thread() or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield seen
        return

    def note(number: int, _: object) -> None:
        if seen:
            raise KeyboardInterrupt
        seen.append(number)

    signal.signal(signal.SIGINT, note)
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
