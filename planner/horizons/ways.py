"""All ways to keep machines for a calendar, and the cheapest of each family that keeps every SLO.

A way is a number of machines that follows the load, or a timetable, or never changes, and beside them a base that never
changes; either of any type on offer, at any kind of price. What a way costs is known before anything is replayed, so
that ways are replayed from the cheapest on, and the first that keeps its word is the cheapest of all that were weighed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import ceil

import numpy as np

from planner.answer import seed_of
from planner.catalog import Offer
from planner.horizons.answer import Mode, Way
from planner.horizons.demand import MINUTE_S, MINUTES_PER_DAY, MINUTES_PER_HOUR, Levels
from planner.horizons.judging import SIGMAS, Course
from planner.horizons.machines import Behaviour, Group, Hardware, Market, Paid, hardware
from planner.horizons.sections import CalendarSpec, Keep
from planner.scenario import PriceKind
from planner.search import Progress
from simulator.autoscaling import (
    HOUR_S,
    ROUNDING,
    Autoscaling,
    Counts,
    Interruptions,
    Wishes,
    constant,
    followed,
    strikes,
)
from simulator.workload import Floats

STAGE = 4
"""Seeds of interruptions are no others'."""
TARGETS = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)
"""Of an autoscaler, where the scenario leaves it open, and of a timetable."""
SPARE = 1.5
"""No more than so many times the machines of the peak are weighed."""

Pattern = tuple[Paid | None, Paid, Mode]
"""How the base is paid for, if there is one, and the rest; and how the number of the rest goes."""
CONSTANT, SCHEDULED, AUTOSCALED = Mode.CONSTANT, Mode.SCHEDULED, Mode.AUTOSCALED
PATTERNS: Mapping[Way, Sequence[Pattern]] = {
    Way.FIXED: [(None, Paid.ON_DEMAND, CONSTANT), (Paid.ON_DEMAND, Paid.ON_DEMAND, CONSTANT)],
    Way.SCHEDULED: [  # a timetable may never change
        (None, Paid.ON_DEMAND, SCHEDULED),
        (Paid.ON_DEMAND, Paid.ON_DEMAND, SCHEDULED),
        (None, Paid.ON_DEMAND, CONSTANT),
        (Paid.ON_DEMAND, Paid.ON_DEMAND, CONSTANT),
    ],
    Way.AUTOSCALED: [(None, Paid.ON_DEMAND, AUTOSCALED), (Paid.ON_DEMAND, Paid.ON_DEMAND, AUTOSCALED)],
    Way.RESERVED: [
        (None, Paid.RESERVED, CONSTANT),
        (Paid.RESERVED, Paid.RESERVED, CONSTANT),
        (Paid.RESERVED, Paid.ON_DEMAND, CONSTANT),
        (Paid.RESERVED, Paid.ON_DEMAND, SCHEDULED),
        (Paid.RESERVED, Paid.ON_DEMAND, AUTOSCALED),
    ],
    Way.SPOT: [
        (base, Paid.SPOT, mode)
        for base in (None, Paid.RESERVED, Paid.ON_DEMAND)
        for mode in (CONSTANT, SCHEDULED, AUTOSCALED)
    ],
    Way.OWN: [
        (None, Paid.OWN, CONSTANT),
        *(
            (Paid.OWN, paid, mode)
            for paid, mode in (
                (Paid.OWN, CONSTANT),
                (Paid.RESERVED, CONSTANT),
                (Paid.ON_DEMAND, CONSTANT),
                (Paid.ON_DEMAND, SCHEDULED),
                (Paid.ON_DEMAND, AUTOSCALED),
                (Paid.SPOT, CONSTANT),
                (Paid.SPOT, SCHEDULED),
                (Paid.SPOT, AUTOSCALED),
            )
        ),
    ],
}


@dataclass(frozen=True)
class Candidate:
    """One way with all its numbers."""

    way: Way
    base: tuple[Offer, Group, int] | None
    """Machines that are always there."""
    rest: Offer
    group: Group
    """Of the rest, without the base."""
    mode: Mode
    target: float | None
    wishes: Callable[[], Wishes]
    """Machines of the rest."""
    usd: float
    """Of the whole calendar, or less: a timetable orders ahead, and spot machines pay nothing while none can be had."""
    exact: bool = True
    """Whether it is what the timelines cost."""


@dataclass(frozen=True)
class Question:
    """What all ways have in common."""

    market: Market
    calendar: CalendarSpec
    factors: Floats
    """Of each minute."""
    levels: Levels
    progress: Progress
    needs: dict[Hardware, Counts] = field(default_factory=dict)

    @property
    def duration_s(self) -> float:
        """Of the whole calendar."""
        return len(self.factors) * MINUTE_S

    @property
    def hours(self) -> float:
        """Of the whole calendar."""
        return self.duration_s / HOUR_S

    def course(self, group: Group) -> Course:
        """This load on such machines."""
        return Course(group, self.factors, self.levels)

    def needed(self, group: Group) -> Counts:
        """Fewest machines that keep every SLO on average at each level; remembered."""
        key = hardware(group.offer)
        if key not in self.needs:
            self.needs[key] = self.course(group).needed
        return self.needs[key]

    def policy(self, group: Group, target: float) -> Autoscaling:
        """The autoscaler as the simulator takes it, beside the group's base."""
        spec = self.calendar.autoscaling
        there = group.base[1] if group.base else 0
        most = group.machines_max if spec.max is None else min(group.machines_max, max(0, spec.max - there))
        return Autoscaling(
            target_utilization=target,
            boot_s=spec.boot,
            load_s=loading_s(group) if spec.load is None else spec.load,
            scale_down_delay_s=spec.scale_down_delay,
            interval_s=spec.interval,
            machines_min=min(most, max(0, spec.min - there)),
            machines_max=most,
        )

    @cached_property
    def targets(self) -> Sequence[float]:
        """Utilizations that the autoscaler may aim at."""
        given = self.calendar.autoscaling.target_utilization
        return TARGETS if given is None else (given,)

    @cached_property
    def interruptions(self) -> Interruptions | None:
        """As the simulator takes them."""
        spot = self.calendar.spot
        if spot is None:
            return None
        return Interruptions(
            rate_per_s=spot.interruptions,
            notice_s=spot.notice,
            together=spot.together,
            zones=spot.zones,
            shortage_s=spot.shortage,
        )

    def not_in_shortage(self, offer: Offer) -> float:
        """Share of the time in which spot machines can surely be had and are paid; 1 of others."""
        return 1 - self.hours_in_shortage(1) / self.hours if offer.price_kind is PriceKind.SPOT else 1.0

    def hours_in_shortage(self, machines: int) -> float:
        """Hours, at most, in which so many spot machines are not to be had, on average over the drawings."""
        rule = self.interruptions
        if rule is None:
            return 0.0
        struck = mean([len(zone) for seed in self.seeds for zone in strikes(rule, self.duration_s, seed)])
        return min(self.hours * machines, struck * rule.zones * rule.shortage_s / HOUR_S * ceil(machines / rule.zones))

    @cached_property
    def seeds(self) -> Sequence[int]:
        """Of the drawings of interruptions."""
        scenario = self.market.loaded.scenario
        return [seed_of(scenario.seed, STAGE, i) for i in range(scenario.replications)]

    @cached_property
    def may_be_lost(self) -> float:
        """Load, in minutes at factor 1, that may go unserved with every SLO kept."""
        targets = [spec.slo.attainment for spec in self.market.loaded.scenario.models]
        lost = (1 - min(targets)) * float(self.factors.sum())
        minutes = {Keep.HOUR: MINUTES_PER_HOUR, Keep.DAY: MINUTES_PER_DAY, Keep.WHOLE: len(self.factors)}
        periods = np.sort(self.factors.reshape(-1, minutes[self.calendar.keep]).sum(axis=1))[::-1]
        missed = len(periods) * (1 - self.calendar.keep_share)  # of several drawings together: a part of a period too
        whole = np.interp(missed, np.arange(len(periods) + 1), np.append(0.0, np.cumsum(periods)))
        return lost + float(whole)

    def at_least(self, base: Offer | None, rest: Offer) -> float:
        """Dollars that no way with such machines costs less than, whatever their number: no machine is ever idle."""
        mine = self.market.erlangs(rest)
        load = self.factors * sum(mine.values()) / rest.gpu_count
        spare = self.may_be_lost * sum(mine.values()) / rest.gpu_count
        usd_per_hour = rest.usd_per_hour * self.not_in_shortage(rest)
        alone = max(0.0, float(load.sum()) - spare) / MINUTES_PER_HOUR * usd_per_hour
        if base is None:
            return alone
        theirs = self.market.erlangs(base)
        each = max(mine[m] / theirs[m] for m in mine if theirs[m]) * base.gpu_count / rest.gpu_count
        return min(
            alone,
            *(
                n * base.usd_per_hour * self.hours
                + max(0.0, float(np.maximum(load - n * each, 0).sum()) - spare) / MINUTES_PER_HOUR * usd_per_hour
                for n in range(1, ceil(float(load.max()) / each) + 1)
            ),
        )

    @cached_property
    def bound_usd(self) -> float:
        """Dollars that no way costs less than: each model on the machine that does its work cheapest, never idle."""
        offers = [offer for some in self.market.offers.values() for offer in some]
        each = [(self.market.erlangs(o), o.usd_per_hour / o.gpu_count * self.not_in_shortage(o)) for o in offers]
        usd_per_hour = sum(min(load[m] * usd for load, usd in each) for m in each[0][0])
        return max(0.0, float(self.factors.sum()) - self.may_be_lost) / MINUTES_PER_HOUR * usd_per_hour


def loading_s(group: Group) -> float:
    """Time to bring the weights of all models into a GPU's memory one after the other, as their profiles say."""
    profiles = {p.portion.sized.model: p.portion.sized.profile for p in group.trial.packing.placed}
    return sum(profile.load(profile.weight_bytes) for profile in profiles.values())


# All ways, cheapest first


@dataclass(frozen=True)
class Pair:
    """Types of machines for base and rest, at their kinds of price."""

    way: Way
    pattern: Pattern
    base: Offer | None
    rest: Offer


def pairs(market: Market, way: Way) -> Iterator[Pair]:
    """All that may make sense."""
    for pattern in PATTERNS[way]:
        base_paid, paid, _ = pattern
        for rest in market.offers.get(paid, ()):
            for base in market.offers.get(base_paid, ()) if base_paid else (None,):
                if base is None or sensible(pattern, base, rest):
                    yield Pair(way, pattern, base, rest)


def sensible(pattern: Pattern, base: Offer, rest: Offer) -> bool:
    """Whether a base may be cheaper than more of the rest."""
    base_paid, paid, mode = pattern
    if hardware(base) != hardware(rest):
        return True
    if base_paid is Paid.OWN:
        return paid is not Paid.OWN
    if base_paid is paid:
        return mode is AUTOSCALED  # a floor
    return paid is Paid.SPOT or (mode is not CONSTANT and base.usd_per_hour < rest.usd_per_hour)


def candidates(question: Question, pair: Pair) -> Iterator[Candidate]:
    """Every size of the base, and every number or target of the rest."""
    base, rest, mode = pair.base, pair.rest, pair.pattern[2]
    group = question.market.group(rest)
    other = question.market.group(base) if base else None
    if group is None or (base and other is None):
        return
    bases: Sequence[tuple[Offer, Group, int] | None] = [None]
    if base and other:
        bases = [(base, other, n) for n in range(1, most_machines(question, other) + 1)]
    memory: dict[str, Wishes] = {}
    is_spot = rest.price_kind is PriceKind.SPOT
    exact = not is_spot and mode is not SCHEDULED
    for one in bases:
        there = group.beside(one[1], one[2]) if one else group
        fixed_usd = one[2] * one[0].usd_per_hour * question.hours if one else 0.0
        for target, make in all_wishes(question, mode, group, there, memory):
            wishes = make()
            hours = wishes.machine_hours()
            if is_spot:
                hours = max(0.0, hours - question.hours_in_shortage(int(wishes.count.max())))
            if one is None or wishes.count.any():
                usd = fixed_usd + hours * rest.usd_per_hour
                yield Candidate(pair.way, one, rest, group, mode, target, make, usd, exact)


def most_machines(question: Question, group: Group) -> int:
    """Most machines that are worth a look."""
    peak = max(group.machines_peak, ceil(group.load_erlangs * float(question.factors.max())))
    return min(group.machines_max, ceil(SPARE * peak))


def all_wishes(
    question: Question, mode: Mode, alone: Group, group: Group, memory: dict[str, Wishes]
) -> Iterator[tuple[float | None, Callable[[], Wishes]]]:
    """Each target of one mode and the machines wanted then, beside the base of `group`.

    Beside a base of the same type it is what is wanted without it, less the base. Of another type, the base is taken
    to do its part of every model, and then to do what it is best at.
    """
    there = group.base[1] if group.base else 0
    same = not group.base or group.of_one_type(1) is not None
    does = (0.0,) if same else dict.fromkeys((group.beside_erlangs, group.beside_erlangs_most))

    def of_same(key: str, make: Callable[[], Wishes]) -> Wishes:
        if key not in memory:
            memory[key] = make()
        return memory[key].beyond(there)

    def limited(key: str, make: Callable[[], Wishes]) -> Iterator[Callable[[], Wishes]]:
        whole = partial(of_same, key, make)
        yield whole
        for most in limits(question, alone):
            yield partial(at_most, most - there, whole)

    match mode:
        case Mode.CONSTANT:
            for n in range(1, most_machines(question, group) + 1):
                yield None, partial(constant, n, question.duration_s)
        case Mode.SCHEDULED:
            for target in TARGETS:
                if same:
                    make = partial(timetable, question, alone, target, 0.0)
                    yield from ((target, one) for one in limited(f"{target}", make))
                else:
                    yield from ((target, partial(timetable, question, group, target, done)) for done in does)
            if same:
                yield from ((None, one) for one in limited("fewest", partial(fewest, question, alone)))
        case Mode.AUTOSCALED:
            for target in question.targets:
                if same:
                    make = partial(following, question, alone, target, 0.0)
                    yield from ((target, one) for one in limited(f"{target}", make))
                else:
                    yield from ((target, partial(following, question, group, target, done)) for done in does)


def limits(question: Question, group: Group) -> Sequence[int]:
    """Machines above which more are not always wanted: what the busiest level needs, and less where hours may miss."""
    needed, calendar = int(question.needed(group)[-1]), question.calendar
    may_miss = calendar.keep is not Keep.HOUR or calendar.keep_share < 1
    return range(1, needed + 1) if may_miss else (needed,)


def at_most(most: int, make: Callable[[], Wishes]) -> Wishes:
    """The same, and never more than so many."""
    wishes = make()
    return replace(wishes, count=np.clip(wishes.count, 0, max(0, most)))


def following(question: Question, group: Group, target: float, done: float) -> Wishes:
    """What the autoscaler wants of the load beyond what the base has done, machines of the rest."""
    load = np.maximum(question.course(group).load_erlangs - target * done, 0)
    return followed(question.policy(group, target), load, MINUTE_S)


def timetable(question: Question, group: Group, target: float, done: float) -> Wishes:
    """Each hour so many machines that none has more than the target in its busiest minute, beside what is done."""
    load = question.course(group).load_erlangs.reshape(-1, MINUTES_PER_HOUR).max(axis=1)
    wanted = np.ceil(load / target - done - ROUNDING).astype(np.intp)
    hours_s = np.arange(len(load), dtype=float) * HOUR_S
    return Wishes(hours_s, np.clip(wanted, 0, group.machines_max), question.duration_s)


def fewest(question: Question, group: Group) -> Wishes:
    """Each hour the fewest machines that keep every SLO in it."""
    course = question.course(group)
    hours = zip(
        course.levels.of_minute.reshape(-1, MINUTES_PER_HOUR),
        course.factors.reshape(-1, MINUTES_PER_HOUR),
        strict=True,
    )
    found = [fewest_of_hour(course, levels, factors) for levels, factors in hours]
    hours_s = np.arange(len(found), dtype=float) * HOUR_S
    return Wishes(hours_s, np.array(found, dtype=np.intp), question.duration_s)


def fewest_of_hour(course: Course, levels: Counts, factors: Floats) -> int:
    """Fewest machines for an hour whose minutes have these levels, and these factors."""
    group, targets, total = course.group, course.group.targets, float(factors.sum())
    weight: Floats = np.bincount(levels, factors).astype(float)
    machines = 0
    while machines < group.machines_max:
        done = float(np.minimum(factors * group.load_erlangs, machines).sum())
        if done >= min(targets.values()) * total * group.load_erlangs:
            seen = {
                at: group.behaviour(float(course.levels.factor[at]), machines) for at in np.flatnonzero(weight).tolist()
            }
            if all(low_end(seen, weight, m) >= target * total for m, target in targets.items()):
                break
        machines += 1
    return machines


def low_end(seen: Mapping[int, Behaviour], weight: Floats, model: str) -> float:
    """Load of one model that is surely in time, where each level comes with so much of it."""
    mean = sum(one.attainment[model] * weight[at] for at, one in seen.items())
    error = sum((one.error.get(model, 0.0) * weight[at]) ** 2 for at, one in seen.items()) ** 0.5
    return float(mean - SIGMAS * error)


def mean(values: Sequence[float]) -> float:
    """On average."""
    return float(np.mean(values))
