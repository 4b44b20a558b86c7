"""Two clocks that drive a serving GPU: SimPy's events, and a number that runs ahead of them."""

from collections.abc import Mapping, Sequence
from functools import partial
from math import inf, nextafter

import simpy
from simpy.events import NORMAL, EventPriority

from simulator.clock.link import Link
from simulator.clock.serving import Driver, Number, ServingGpu, Steps, size_bytes
from simulator.flow.stations import OpenStation
from simulator.rules.queues import AT_ONCE, Delays, Queue, Stage
from simulator.world.model import Layer


def _wake(asleep: simpy.Event, _: simpy.Event) -> None:
    """As SimPy's own condition of either, which takes three times as long to make."""
    if not asleep.triggered:
        asleep.succeed()


class Turn(simpy.Event):
    """Comes at this very instant, once all else has happened in it; of several, the one with the lowest place first."""

    def __init__(self, env: simpy.Environment, place: int) -> None:
        super().__init__(env)
        self._ok, self._value = True, None
        env.schedule(self, EventPriority(NORMAL + 1 + place))


class Clocked(Driver):
    """Waits are SimPy's events: for a GPU that others can disturb."""

    def __init__(self, env: simpy.Environment, gpu: ServingGpu, link: Link) -> None:
        self.clock = self.env = env
        self.gpu = gpu
        self.link = link
        self.failure = env.event()
        """When its host fails next; never, without outages."""
        self.done = env.event()
        """When the transfer under way is over."""
        self.bell = env.event()
        """Wakes it from idleness."""
        self.asleep: simpy.Event | None = None
        """Its last sleep."""
        gpu.ring = self.ring

    def start(self) -> None:
        """Serve as the environment's clock goes on."""
        steps = self.gpu.serve(self)
        self._watch_host()
        self.env.process(steps)

    def _watch_host(self) -> None:
        away_s = self.gpu.next_outage_s() - self.env.now
        self.failure = self.env.timeout(max(0.0, away_s)) if self.gpu.outages else self.env.event()

    def idle(self, until_s: float) -> simpy.Event:
        """Sleep until then, or until it rings."""
        timeout = self.env.timeout(time_until(self.env.now, until_s))
        if self.gpu.arrivals_known:
            return timeout
        self.bell, self.asleep = self.env.event(), self.env.event()
        for event in (self.bell, timeout):
            event.callbacks.append(partial(_wake, self.asleep))
        return self.asleep

    def ring(self) -> None:
        """Wake the GPU if it sleeps."""
        if self.asleep is not None and not self.asleep.triggered and not self.bell.triggered:
            self.bell.succeed()

    def delay(self, delay_s: float) -> simpy.Event:
        """A timeout."""
        return self.env.timeout(delay_s)

    def run(self, queue: Queue, count: int, service_s: float) -> simpy.Event:
        """A timeout."""
        return self.env.timeout(service_s)

    def transfer(self, stage: Stage, layers: Sequence[Layer]) -> Steps[bool]:
        """Bring `layers` in over the link that all GPUs of the host share."""
        self.done = self.env.event()
        yield self._or_failure(self.env.timeout(stage.load_t0_s))
        transfer = self.link.transfer(size_bytes(layers), stage.load_bytes_per_s)
        yield self._or_failure(transfer)
        arrived = transfer.triggered
        if not arrived:
            self.link.stop(transfer)
        elif longer_s := self.gpu.overlap.end_load(self.env.now):
            rest = self.env.timeout(longer_s)
            yield self._or_failure(rest)
            arrived = rest.processed
        self.done.succeed()
        return arrived

    def _or_failure(self, event: simpy.Event) -> simpy.Event:
        return event | self.failure if self.gpu.outages else event

    def transferred(self) -> simpy.Event:
        """The end of the transfer under way."""
        return self.done

    def beside(self, steps: Steps[None]) -> None:
        """Another process."""
        self.env.process(steps)

    def away(self, until_s: float) -> Steps[None]:
        """Wait until the host is back, and know when it fails next."""
        yield self.env.timeout(max(0.0, until_s - self.env.now))
        self._watch_host()

    def others_draw(self, place: int) -> Steps[None]:
        """Wait for all else that is to happen now, if anything is."""
        if self.env.peek() <= self.env.now:
            yield Turn(self.env, place)


class Ahead(Driver):
    """Waits are times, and over at once: for a GPU that nobody can disturb."""

    def __init__(self, gpu: ServingGpu, link: Link) -> None:
        self.clock = self.number = Number()
        self.gpu = gpu
        self.link = link
        self.steps: Steps[None]
        """Loads weights beside the batch."""
        self.step_s = inf
        """When it goes on."""

    def start(self) -> None:
        """Serve until the horizon."""
        clock, horizon_s = self.number, self.gpu.horizon_s
        for at_s in self.gpu.serve(self):
            if self.step_s <= at_s:
                self._go_on(at_s)
            if at_s >= horizon_s:
                break
            clock.now = at_s
        clock.now = horizon_s

    def _go_on(self, until_s: float) -> None:
        """Let what goes on beside the batch come as far as it will by then."""
        while self.step_s <= until_s and self.step_s < self.gpu.horizon_s:
            self.number.now = self.step_s
            self.step_s = next(self.steps, inf)

    def idle(self, until_s: float) -> float:
        """Until then; where models take turns, as an event after a delay would come."""
        # SimPy adds delays to its clock, so from 0.04 until 0.11 s it comes to 0.11000000000000001. Results of GPUs
        # whose models take turns were always rounded so, those of others never: the same seed gives the same bytes.
        now = self.number.now
        return now + (until_s - now) if self.gpu.swaps else until_s

    def delay(self, delay_s: float) -> float:
        return self.number.now + delay_s

    def run(self, queue: Queue, count: int, service_s: float) -> float:
        return self.number.now + service_s

    def transfer(self, stage: Stage, layers: Sequence[Layer]) -> Steps[bool]:
        """Who has the link alone knows at once when a load will end."""
        yield self.number.now + stage.load_t0_s + self.link.alone_s(size_bytes(layers), stage.load_bytes_per_s)
        if longer_s := self.gpu.overlap.end_load(self.number.now):
            yield self.number.now + longer_s
        return True

    def transferred(self) -> float:
        return self.step_s

    def beside(self, steps: Steps[None]) -> None:
        self.steps, self.step_s = steps, self.number.now


# Whoever serves takes time too


class DelayedAhead(Ahead):
    """The same, and whoever serves takes time."""

    def __init__(self, gpu: ServingGpu, link: Link, delays: Delays) -> None:
        super().__init__(gpu, link)
        self.delays = delays

    def idle(self, until_s: float) -> float:
        return super().idle(until_s + next(self.delays.wake))

    def run(self, queue: Queue, count: int, service_s: float) -> float:
        return super().run(queue, count, service_s + next(self.delays.follow))


class DelayedClocked(Clocked):
    """The same, and whoever serves takes time."""

    def __init__(
        self,
        env: simpy.Environment,
        gpu: ServingGpu,
        link: Link,
        delays: Mapping[str, Delays],
        stations: Sequence[OpenStation],
    ) -> None:
        super().__init__(env, gpu, link)
        self.of_device = delays.get(gpu.device.id, AT_ONCE)
        self.delays = [delays.get(queue.stage.model, self.of_device) for queue in gpu.queues]
        """By queue."""
        self.stations = stations
        self.waking = False

    def idle(self, until_s: float) -> simpy.Event:
        first = min(self.gpu.queues, key=Queue.ready_at).number
        return super().idle(until_s + next(self.delays[first].wake))

    def ring(self) -> None:
        """Wake the GPU if it sleeps, which takes a while: what comes meanwhile finds it awake."""
        if self.waking or self.asleep is None or self.asleep.triggered:
            return
        ready = next((queue.number for queue in self.gpu.queues if queue.ready_at() <= self.env.now), 0)
        self.waking = True
        self.env.timeout(next(self.delays[ready].wake)).callbacks.append(self._awake)

    def _awake(self, _: simpy.Event) -> None:
        self.waking = False
        super().ring()

    def run(self, queue: Queue, count: int, service_s: float) -> simpy.Event:
        now_s = self.env.now
        work_s = max((one.free_s[0] for one in self.stations), default=0.0) - now_s
        service_s *= self.of_device.beside(min(max(work_s / service_s, 0.0), 1.0))
        queue.log.finish_s[-1] = now_s + service_s
        return super().run(queue, count, service_s)

    def answer(self, queue: Queue) -> Steps[None]:
        """What waits for a GPU that is awake is not started at once either."""
        yield from super().answer(queue)
        waiting = [one for one in self.gpu.queues if one.ready_at() <= self.env.now]
        if waiting:
            following = min(waiting, key=Queue.oldest_s).number
            yield self.env.timeout(next(self.delays[following].follow))


def time_until(now_s: float, at_s: float) -> float:
    """How long to sleep from `now_s` until `at_s`, never too long: all who wait for one moment are to meet in it.

    From 0.04 until 0.11 s are 0.07 s, yet 0.04 + 0.07 is 0.11000000000000001. One bit less ends one bit early, and from
    there the rest is exact.
    """
    left_s = max(0.0, at_s - now_s)
    return nextafter(left_s, 0.0) if now_s + left_s > at_s else left_s
