"""Executor: serves models on one real device in real time, by the simulator's own loop. Needs torch."""

import gc
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import repeat
from math import inf
from threading import Condition, Thread, current_thread, main_thread
from time import perf_counter, sleep

from calibrate.serving.resident import Weights
from calibrate.serving.served import ASKED, FOLLOW, WAKE, Actions, Notes, ServeError
from simulator.clock.serving import Clock, Driver, ServingGpu, Steps, size_bytes
from simulator.grouping import grouped
from simulator.rules.queues import Queue, Stage
from simulator.world.deployment import Deployment, Service
from simulator.world.model import Layer

SPIN_S = 1e-3
"""The last of a wait is spent looking at the clock: a sleep ends late by up to this."""
NAP_S = 0.1
"""Longest sleep before it is asked whether to stop."""


class WaitingLine(Queue):
    """Requests that wait for one real model."""

    def __init__(self, service: Service, stage: Stage, times: Sequence[float], forward: Callable[[int], None]) -> None:
        super().__init__(stage, times, service.replicas[0].batching, service.slo.latency_s, service.drop)
        self.forward = forward
        """Runs a batch of so many for real; it returns when the outputs are there."""
        self.measured_bytes = 0
        """Workspace of the largest batch as measured; its stage keeps no less free."""
        self.ready_s = inf
        """Since when the batch that left last could run."""

    def leave(self, start_s: float, finish_s: float, count: int) -> None:
        self.ready_s = self.ready_at()
        super().leave(start_s, finish_s, count)

    def run(self, count: int, clock: Clock) -> tuple[float, float]:
        """Run the batch that left last. It counts as never ended until it has; returns when it began and ended."""
        log = self.log
        log.finish_s[-1] = inf
        start_s = clock.now
        self.forward(self.cap if self.policy.padded else count)
        log.start_s[-1], log.finish_s[-1] = start_s, clock.now
        return start_s, log.finish_s[-1]


class RealGpu(ServingGpu):
    """A GPU whose weights are really there: an eviction frees them, and its memory counts measured workspace."""

    def __init__(self, deployment: Deployment, lines: Sequence[WaitingLine], weights: Weights) -> None:
        (device,) = deployment.devices
        self.lines = lines
        self.weights = weights
        self.notes = Notes(device.id)
        super().__init__(
            device,
            lines,
            [repeat(1.0) for _ in lines],
            scheduling=deployment.scheduling,
            swap=deployment.swap,
            outages=(),
            horizon_s=inf,
        )

    def evict(self, keys: Sequence[str]) -> None:
        """Free layers at once; an action for each model that is the first to use some of them."""
        by_model = grouped((self.users[key][0].stage.model, key) for key in keys)
        for model, mine in by_model.items():
            start_s = self.clock.now
            super().evict(mine)
            self.weights.evict(mine)
            self.notes.add("evict", model, start_s, 0, 0.0, self.clock.now - start_s)

    def note(self) -> None:
        """Count the bytes in use from now on; refuse to pass the limit."""
        memory = self.memory
        if memory.used_bytes > memory.limit_bytes:
            raise ServeError(
                f"{self.device.id}: {memory.used_bytes:,} bytes would be in use, the limit is "
                f"{memory.limit_bytes:,}. Allow more memory or smaller batches"
            )
        self.memory_at_s.append(self.clock.now)
        self.memory_used.append(memory.used_bytes - memory.workspace_bytes + self._measured_bytes())

    def _measured_bytes(self) -> int:
        if not self.swaps:
            return max(line.measured_bytes for line in self.lines)
        return self.lines[self.last].measured_bytes if self.memory.workspace_bytes else 0


class Stopwatch:
    """Real time."""

    def __init__(self) -> None:
        self.origin_s = 0.0
        """Arrival time 0 on the monotonic clock."""

    @property
    def now(self) -> float:
        """Seconds since arrival time 0."""
        return perf_counter() - self.origin_s


class Executor(Driver):
    """Drives a GPU in real time: a wait is the time at which it is over, a batch and a load are done on the spot.

    The GPU's state belongs to the thread that holds `turn`: the loop's own, which lends it while a batch runs or while
    it waits, or the loader's, which brings weights in beside a batch.
    """

    clock: Stopwatch

    def __init__(self, gpu: RealGpu) -> None:
        self.gpu = gpu
        self.clock = Stopwatch()
        self.turn = Condition()
        self.ended_s = 0.0
        """When the run was over."""
        self.free_s = 0.0
        """Since when no batch runs."""
        self.errand: Steps[None] | None = None
        """What the loader does while a batch runs; it ends with the batch."""
        self.closing = False
        self.failure: Exception | None = None
        """What the loader raised."""

    def serve(self, at_s: Callable[[], float], duration_s: float, stop: Callable[[], bool]) -> str | None:
        """Serve until the horizon. Why it stopped before, if it did; what was measured until then is kept."""
        gpu = self.gpu
        gpu.horizon_s = duration_s
        helpers = self.helpers()
        with self.turn, collector_at_rest():  # a collection takes tens of milliseconds: it is over before arrival 0
            gpu.weights.load(gpu.memory.resident)
            self.clock.origin_s = at_s()
            for helper in helpers:
                helper.start()
            stopped = self._until_stopped(stop)
            self.ended_s = self.clock.now if stopped else duration_s
            self.errand = None
            self.closing = True
            self.turn.notify_all()
        for helper in helpers:
            helper.join()
        return stopped

    def helpers(self) -> list[Thread]:
        """What runs beside the loop: the loader, where it is needed."""
        loads = self.gpu.swaps and self.gpu.swap.prefetch
        return [Thread(target=self._loader, name="loader", daemon=True)] if loads else []

    def actions(self) -> tuple[Actions, ...]:
        """What it has done."""
        return self.gpu.notes.columns()

    def _until_stopped(self, stop: Callable[[], bool]) -> str | None:
        try:
            with interrupts_noted() as interrupts:
                return self._loop(stop, interrupts)
        except KeyboardInterrupt:
            return "interrupted"
        except Exception as error:
            return self._reason(error)

    def _reason(self, error: Exception) -> str:
        text = " ".join(str(error).split())[:300]
        if self.gpu.weights.device.is_out_of_memory(error):
            return f"out of memory: {text}"
        return text if isinstance(error, ServeError) else f"{type(error).__name__}: {text}"

    def _loop(self, stop: Callable[[], bool], interrupts: Sequence[int]) -> str | None:
        stopped = None
        for until_s in self.gpu.serve(self):
            while stopped is None:
                self._raise_failure()
                if interrupts or stop():
                    stopped = "interrupted" if interrupts else ASKED
                    self.gpu.horizon_s = -inf  # the loop ends as it does when time is up
                elif not self._rest(min(until_s, self.gpu.horizon_s)):
                    break
        return stopped

    def _rest(self, until_s: float) -> bool:
        """Sleep until then, but not for long; watch the clock for the last of it. Returns whether it was too early."""
        left_s = until_s - self.clock.now
        if left_s > SPIN_S:
            self.turn.wait(min(left_s - SPIN_S, NAP_S))
            return True
        while self.clock.now < until_s:
            sleep(0)  # lets the loader go on
        return False

    def _raise_failure(self) -> None:
        if self.failure is not None:
            raise self.failure

    # What the loop asks for

    def idle(self, until_s: float) -> float:
        return until_s

    def delay(self, delay_s: float) -> float:
        return self.clock.now + delay_s

    def run(self, queue: Queue, count: int, service_s: float) -> float:
        """Run a batch for real; meanwhile the loader may have its turn."""
        line = self.gpu.lines[queue.number]
        could_s = max(self.free_s, line.ready_s)
        with lent(self.turn):
            start_s, finish_s = line.run(count, self.clock)
        self.errand = None
        self.turn.notify_all()
        waited_s = max(0.0, start_s - could_s - self._stalled_s(could_s))
        kind = WAKE if line.ready_s > self.free_s else FOLLOW
        self.free_s = finish_s
        self.gpu.notes.add(kind, line.stage.model, could_s, count, 0.0, waited_s)
        self.gpu.notes.add("run", line.stage.model, start_s, count, service_s, finish_s - start_s)
        return finish_s

    def _stalled_s(self, since_s: float) -> float:
        """How long the GPU last stood still for weights, if that was since then."""
        stalls = self.gpu.stalls
        if not stalls or stalls[-1].start_s < since_s:
            return 0.0
        return stalls[-1].finish_s - stalls[-1].start_s

    def transfer(self, stage: Stage, layers: Sequence[Layer]) -> Steps[bool]:
        """Bring `layers` in for real; the turn is lent meanwhile."""
        start_s = self.clock.now
        with lent(self.turn):
            self.gpu.weights.load([layer.key for layer in layers])
            finish_s = self.clock.now
        self.turn.notify_all()
        self.gpu.notes.add("load", stage.model, start_s, 0, stage.load_s(size_bytes(layers)), finish_s - start_s)
        yield finish_s
        return True

    def transferred(self) -> float:
        """Wait here for the loader."""
        while self.gpu.loading is not None and self.failure is None:
            self.turn.wait(NAP_S)
        return self.clock.now

    def beside(self, steps: Steps[None]) -> None:
        """Give it to the loader."""
        self.errand = steps
        self.turn.notify_all()

    # The loader

    def _loader(self) -> None:
        with self.turn:
            while not self.closing:
                if self.errand is None:
                    self.turn.wait()
                else:
                    self._follow(self.errand)

    def _follow(self, errand: Steps[None]) -> None:
        try:
            for until_s in errand:
                while (left_s := until_s - self.clock.now) > 0:
                    if self.errand is not errand:  # the batch is over
                        return
                    self.turn.wait(left_s)
        except Exception as error:
            self.failure = error
        if self.errand is errand:
            self.errand = None


@contextmanager
def lent(turn: Condition) -> Iterator[None]:
    """Let another thread have the turn."""
    turn.release()
    try:
        yield
    finally:
        turn.acquire()


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
