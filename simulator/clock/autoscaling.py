"""Machines over time: how many an autoscaler or a timetable wants, when they boot and answer, and when they are taken.

Machines come and go as on a stack, the newest first, so that each place in the stack can be followed by itself.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import maximum_filter1d

from simulator.world.workload import Floats

Counts = NDArray[np.intp]
HOUR_S = 3600.0
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
    """Spot machines are taken away, one by one or all of a zone at once."""

    rate_per_s: float
    """Of each machine that answers; times between are exponential."""
    notice_s: float
    """From the warning until it is gone."""
    together: float = 0.0
    """Share of them in which all machines of a zone are taken."""
    zones: int = 1
    """Over which machines are spread in turn."""
    shortage_s: float = 0.0
    """After a zone was taken: for so long none can be had there."""


@dataclass(frozen=True, slots=True)
class FleetTimeline:
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
        return summed(self.paid, self.lengths_s) / HOUR_S


@dataclass(frozen=True, slots=True)
class Wishes:
    """Machines that are wanted over time: each row holds from its time to the next row's."""

    at_s: Floats
    count: Counts
    duration_s: float

    def beyond(self, machines: int) -> "Wishes":
        """What is wanted beside so many that are there anyway."""
        return Wishes(self.at_s, np.maximum(self.count - machines, 0), self.duration_s)

    def machine_hours(self) -> float:
        """Machine-hours, were every wish fulfilled at once."""
        return summed(self.count, np.diff(self.at_s, append=self.duration_s)) / HOUR_S


def summed(machines: NDArray[Any], lengths_s: Floats) -> float:
    """Machine-seconds of stretches. `@` would wake threads for so short a sum, and wait for them."""
    return float(np.sum(machines * lengths_s))


def wanted(load_erlangs: Floats, policy: Autoscaling) -> Counts:
    """Machines at which each has at most the target: ceil(load / target). 5.6 erlangs at 70 %: 8; 5.7: 9."""
    needed = np.ceil(np.asarray(load_erlangs) / policy.target_utilization - ROUNDING).astype(np.intp)
    return np.clip(needed, policy.machines_min, policy.machines_max)


def kept(wishes: Counts, looks: int) -> Counts:
    """Machines to keep at each look: the most wanted at the last so many, as Kubernetes' stabilization window does.

    8, 8, 4, 4, 4 with three looks: 8, 8, 8, 8, 4.
    """
    found: Counts = maximum_filter1d(wishes, looks, origin=(looks - 1) // 2, mode="constant", cval=0)
    return found


def followed(policy: Autoscaling, load_erlangs: Floats, slot_s: float) -> Wishes:
    """What an autoscaler wants under a load that is given slot by slot; it begins with what the first slot wants.

    Each look sees the mean load since the last. More are ordered at once, fewer are kept only after the delay.
    """
    duration_s = len(load_erlangs) * slot_s
    looks_s: Floats = np.arange(ceil(duration_s / policy.interval_s), dtype=float) * policy.interval_s
    edges_s = np.arange(len(load_erlangs) + 1) * slot_s
    passed = np.interp(looks_s, edges_s, np.append(0.0, np.cumsum(load_erlangs) * slot_s))
    wishes = wanted(np.diff(passed) / policy.interval_s, policy)
    looks = max(1, ceil(policy.scale_down_delay_s / policy.interval_s))
    return Wishes(looks_s, np.append(wanted(load_erlangs[:1], policy), kept(wishes, looks)), duration_s)


def constant(machines: int, duration_s: float) -> Wishes:
    """Always the same number."""
    return Wishes(np.zeros(1), np.array([machines], dtype=np.intp), duration_s)


def timeline(
    wishes: Wishes, start_s: float, *, ahead: bool = False, interruptions: Interruptions | None = None, seed: int = 1
) -> FleetTimeline:
    """Machines over time as they are wanted; those wanted from the beginning answer from the beginning.

    `start_s`: from the order of a machine until it answers. `ahead`: wishes are a timetable, machines are ordered so
    early that they answer in time. `interruptions`: they are taken, at random by `seed`, and ordered anew.
    """
    machines: list[tuple[float, float, float]] = []
    orders = 0
    struck = _Struck(interruptions, wishes.duration_s, seed) if interruptions else None
    for place in range(int(wishes.count.max(initial=0))):
        for since_s, until_s in _stays(wishes, place):
            ordered_s = max(0.0, since_s - start_s) if ahead else since_s
            answers_s = since_s if ahead or not since_s else since_s + start_s
            mine = [(ordered_s, answers_s, until_s)]
            if struck:
                mine = list(struck.machines(place, *mine[0], start_s))
            orders += sum(one[0] > 0 for one in mine)
            machines += mine
    return _counted(machines, wishes.duration_s, struck.taken if struck else 0, orders)


def _stays(wishes: Wishes, place: int) -> Iterator[tuple[float, float]]:
    """From when to when a place in the stack is wanted, each time."""
    there = np.concatenate([[False], wishes.count > place, [False]])
    turns = np.flatnonzero(there[1:] != there[:-1])
    ends_s = np.append(wishes.at_s, wishes.duration_s)
    yield from zip(ends_s[turns[::2]].tolist(), ends_s[turns[1::2]].tolist(), strict=True)


def strikes(rule: Interruptions, duration_s: float, seed: int) -> list[Floats]:
    """When all machines of each zone are taken."""
    rng = np.random.default_rng(seed)
    expected = rule.rate_per_s * rule.together * duration_s
    return [np.sort(rng.uniform(0, duration_s, rng.poisson(expected))) for _ in range(rule.zones)]


class _Struck:
    """Machines that are taken, and ordered anew."""

    def __init__(self, rule: Interruptions, duration_s: float, seed: int) -> None:
        self.rule = rule
        self.of_zone = strikes(rule, duration_s, seed)
        self.rng = np.random.default_rng([seed, 1])
        self.alone_per_s = rule.rate_per_s * (1 - rule.together)
        self.taken = 0

    def machines(
        self, place: int, ordered_s: float, answers_s: float, until_s: float, start_s: float
    ) -> Iterator[tuple[float, float, float]]:
        """Order, first answer and end of each machine that holds one place in turn."""
        zone = self.of_zone[place % self.rule.zones]
        while True:
            before = int(np.searchsorted(zone, ordered_s, side="right"))
            if before and ordered_s < (had_s := float(zone[before - 1]) + self.rule.shortage_s):
                ordered_s, answers_s = had_s, had_s + start_s
                continue
            if ordered_s >= until_s:
                return
            alone_s = answers_s + self.rng.exponential(1 / self.alone_per_s) if self.alone_per_s else np.inf
            warned_s = float(min(alone_s, zone[before] if before < len(zone) else np.inf))
            if warned_s >= until_s:
                yield ordered_s, answers_s, until_s
                return
            self.taken += 1
            yield ordered_s, answers_s, min(warned_s + self.rule.notice_s, until_s)
            ordered_s, answers_s = warned_s, warned_s + start_s


def _counted(
    machines: Sequence[tuple[float, float, float]], duration_s: float, taken: int, orders: int
) -> FleetTimeline:
    """How many are paid, and how many answer, at every moment."""
    ordered_s, answers_s, ends_s = np.array(machines).reshape(-1, 3).clip(0, duration_s).T
    answers_s = np.minimum(answers_s, ends_s)
    turns_s = np.concatenate([[0.0], ordered_s, answers_s, ends_s])
    ones = np.ones(len(machines))
    none = 0 * ones
    at_s, row = np.unique(turns_s, return_inverse=True)
    paid = np.cumsum(np.bincount(row, np.concatenate([[0.0], ones, none, -ones]))).astype(float)
    ready = np.cumsum(np.bincount(row, np.concatenate([[0.0], none, ones, -ones]))).astype(float)
    before_end = at_s < duration_s
    changed = np.append(True, (np.diff(paid) != 0) | (np.diff(ready) != 0)) & before_end
    return FleetTimeline(at_s[changed], paid[changed], ready[changed], duration_s, taken, orders)
