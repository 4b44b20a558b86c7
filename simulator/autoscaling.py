"""Autoscaling: how many machines are wanted (pure), and the SimPy processes that boot, serve, are taken and leave."""

from array import array
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, floor

import numpy as np
import simpy

from simulator.workload import Floats

Process = simpy.events.ProcessGenerator
ROUNDING = 1e-9
"""Share of a machine that is no reason for one more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Autoscaling:
    """How the number of machines follows the load."""

    target_utilization: float
    """Load wanted of each machine, erlangs."""
    boot_s: float
    """From the order of a machine until it runs."""
    load_s: float
    """From then until it answers."""
    scale_down_delay_s: float
    """For so long fewer must have been enough before any is given back."""
    interval_s: float
    """Between two looks at the load."""
    machines_min: int
    machines_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Interruptions:
    """Spot machines are taken away."""

    rate_per_s: float
    """Of each machine that answers; times between are exponential."""
    notice_s: float
    """From the warning until it is gone."""


def wanted(load_erlangs: float, policy: Autoscaling) -> int:
    """Machines at which each has at most the target: ceil(load / target). 5.6 erlangs at 70 %: 8; 5.7: 9."""
    needed = ceil(load_erlangs / policy.target_utilization - ROUNDING)
    return min(max(needed, policy.machines_min), policy.machines_max)


def keep(wishes: Sequence[tuple[float, int]], now_s: float, delay_s: float) -> int:
    """Machines to keep: the most that was wanted within the delay, as Kubernetes' stabilization window does.

    8 wanted until 60 s, 4 from 75 s on, delay 300 s: 8 until 360 s, then 4.
    """
    return max(count for at_s, count in wishes if at_s > now_s - delay_s or at_s == wishes[-1][0])


@dataclass(frozen=True, slots=True)
class Timeline:
    """Machines over time: each row holds from its time to the next row's."""

    at_s: Floats
    paid: Floats
    """Machines that cost money: booting, answering, or warned."""
    ready: Floats
    """Machines that answer."""
    duration_s: float
    interruptions: int = 0
    """Machines that were taken."""
    orders: int = 0
    """Machines that were booted."""

    @property
    def lengths_s(self) -> Floats:
        """For how long each row holds."""
        return np.diff(self.at_s, append=self.duration_s)

    def machine_hours(self) -> float:
        """Paid machine-hours."""
        return float(self.paid @ self.lengths_s) / 3600


def constant(machines: int, duration_s: float) -> Timeline:
    """Always the same machines."""
    one = np.array([float(machines)])
    return Timeline(np.zeros(1), one, one, duration_s)


@dataclass(slots=True, eq=False)
class Machine:
    """One machine from its order to its end."""

    stop: simpy.Event
    """It is given back."""
    answers: bool = False


@dataclass(slots=True)
class Log:
    """Rows of a timeline as they happen."""

    at_s: array = field(default_factory=lambda: array("d"))  # type: ignore[type-arg]
    paid: array = field(default_factory=lambda: array("d"))  # type: ignore[type-arg]
    ready: array = field(default_factory=lambda: array("d"))  # type: ignore[type-arg]


class Fleet:
    """The machines, and the process that decides how many there are."""

    def __init__(
        self,
        env: simpy.Environment,
        policy: Autoscaling,
        load_erlangs: Floats,
        slot_s: float,
        interruptions: Interruptions | None,
        rng: np.random.Generator,
    ) -> None:
        self.env = env
        self.policy = policy
        self.seen = np.concatenate([[0.0], np.cumsum(load_erlangs) * slot_s]).tolist()
        """Load since the start, erlang-seconds, at the end of each slot."""
        self.slot_s = slot_s
        self.interruptions = interruptions
        self.rng = rng
        self.staying: list[Machine] = []
        """All but those that were warned; oldest first."""
        self.paid = self.ready = self.taken = self.orders = 0
        self.log = Log()

    def start(self, machines: int) -> None:
        """Begin with so many that answer already."""
        for _ in range(machines):
            self.add(answers=True)
        self.env.process(self.scale())

    def add(self, *, answers: bool = False) -> None:
        """Order one machine."""
        machine = Machine(self.env.event())
        self.staying.append(machine)
        self.orders += not answers
        self.change(paid=1)
        self.env.process(self.serve(machine, answers))

    def change(self, paid: int = 0, ready: int = 0) -> None:
        """Count, and write it down."""
        self.paid += paid
        self.ready += ready
        self.log.at_s.append(self.env.now)
        self.log.paid.append(self.paid)
        self.log.ready.append(self.ready)

    def serve(self, machine: Machine, answers: bool) -> Process:
        """Boot, load, answer, until it is given back or taken."""
        if not answers:
            yield self.env.timeout(self.policy.boot_s + self.policy.load_s) | machine.stop
        if machine.stop.triggered:
            self.change(paid=-1)
            return
        machine.answers = True
        self.change(ready=1)
        yield self.warning() | machine.stop
        if not machine.stop.triggered:
            yield from self.be_taken(machine)
        self.change(paid=-1, ready=-1)

    def warning(self) -> simpy.Event:
        """When a machine is warned; never, where none is taken."""
        if self.interruptions is None:
            return self.env.event()
        return self.env.timeout(self.rng.exponential(1 / self.interruptions.rate_per_s))

    def be_taken(self, machine: Machine) -> Process:
        """Serve until the notice is over; another is ordered at once."""
        assert self.interruptions is not None
        self.taken += 1
        self.staying.remove(machine)
        self.add()
        yield self.env.timeout(self.interruptions.notice_s)

    def scale(self) -> Process:
        """Look at the load again and again: more machines at once, fewer after the delay."""
        policy = self.policy
        wishes: deque[tuple[float, int]] = deque()
        while True:
            yield self.env.timeout(policy.interval_s)
            now = self.env.now
            wishes.append((now, wanted(self.load_since(now - policy.interval_s), policy)))
            while wishes[0][0] <= now - policy.scale_down_delay_s and len(wishes) > 1:
                wishes.popleft()
            self.have(wishes[-1][1], keep(wishes, now, policy.scale_down_delay_s))

    def load_since(self, since_s: float) -> float:
        """Mean load since then, erlangs."""
        return (self.seen_by(self.env.now) - self.seen_by(since_s)) / (self.env.now - since_s)

    def seen_by(self, at_s: float) -> float:
        """Load from the start until then, erlang-seconds."""
        slot = min(floor(at_s / self.slot_s), len(self.seen) - 2)
        return float(self.seen[slot] + (self.seen[slot + 1] - self.seen[slot]) * (at_s / self.slot_s - slot))

    def have(self, least: int, most: int) -> None:
        """Order what is missing of `least`; give back what is beyond `most`, the newest first."""
        for _ in range(least - len(self.staying)):
            self.add()
        for _ in range(len(self.staying) - most):
            self.staying.pop().stop.succeed()


def follow(
    policy: Autoscaling,
    load_erlangs: Floats,
    slot_s: float,
    *,
    interruptions: Interruptions | None = None,
    seed: int = 1,
) -> Timeline:
    """Machines over time under a load that is given slot by slot. It begins with those that the first slot wants."""
    duration_s = len(load_erlangs) * slot_s
    env = simpy.Environment()
    fleet = Fleet(env, policy, load_erlangs, slot_s, interruptions, np.random.default_rng(seed))
    fleet.start(wanted(float(load_erlangs[0]), policy))
    env.run(until=duration_s)
    log = fleet.log
    columns = (np.array(log.at_s), np.array(log.paid), np.array(log.ready))
    last = np.append(np.diff(columns[0]) > 0, [True])  # of rows at one moment, the last holds
    at_s, paid, ready = (column[last] for column in columns)
    return Timeline(at_s, paid, ready, duration_s, fleet.taken, fleet.orders)
