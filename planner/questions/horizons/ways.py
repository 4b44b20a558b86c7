"""All ways to keep machines for a calendar: each a base that never changes, and a rest.

The rest follows the load, or a timetable, or never changes either. Both are of any type on offer in one region of one
provider, at any kind of price.
The cost of a way is known before anything is replayed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np

from planner.catalog.offers import Offer
from planner.model.calendar import Keep
from planner.model.choices import HorizonWay, PriceKind
from planner.questions.horizons.answer import Mode
from planner.questions.horizons.demand import MINUTE_S, MINUTES_PER_HOUR
from planner.questions.horizons.judging import SIGMAS, Course
from planner.questions.horizons.machines import Behaviour, MachineBase, MachineGroup, hardware
from planner.questions.horizons.market import Market, Paid, side_by_side
from planner.questions.horizons.question import HorizonQuestion
from simulator.clock.autoscaling import HOUR_S, ROUNDING, Counts, Wishes, constant, followed
from simulator.world.workload import Floats

MakeWishes = Callable[[], Wishes]
"""Wishes are made when somebody looks at them: of most candidates nobody does twice."""


class Pattern(NamedTuple):
    """How base and rest are paid for, and how the number of the rest changes."""

    base: Paid | None
    """None: there is no base."""
    rest: Paid
    mode: Mode


def patterns(bases: Sequence[Paid | None], rest: Paid, *modes: Mode) -> tuple[Pattern, ...]:
    """Each base beside a rest in each mode; in all modes where none is named."""
    return tuple(Pattern(base, rest, mode) for base in bases for mode in modes or Mode)


ALWAYS = patterns((None, Paid.ON_DEMAND), Paid.ON_DEMAND, Mode.CONSTANT)
PATTERNS: Mapping[HorizonWay, Sequence[Pattern]] = {
    HorizonWay.FIXED: ALWAYS,
    HorizonWay.SCHEDULED: (
        *patterns((None, Paid.ON_DEMAND), Paid.ON_DEMAND, Mode.SCHEDULED),
        *ALWAYS,  # a timetable may never change
    ),
    HorizonWay.AUTOSCALED: patterns((None, Paid.ON_DEMAND), Paid.ON_DEMAND, Mode.AUTOSCALED),
    HorizonWay.RESERVED: (
        *patterns((None, Paid.RESERVED), Paid.RESERVED, Mode.CONSTANT),
        *patterns((Paid.RESERVED,), Paid.ON_DEMAND),
    ),
    HorizonWay.SPOT: patterns((None, Paid.RESERVED, Paid.ON_DEMAND), Paid.SPOT),
    HorizonWay.OWN: (
        *patterns((None, Paid.OWN), Paid.OWN, Mode.CONSTANT),
        *patterns((Paid.OWN,), Paid.RESERVED, Mode.CONSTANT),
        *patterns((Paid.OWN,), Paid.ON_DEMAND),
        *patterns((Paid.OWN,), Paid.SPOT),
    ),
}


@dataclass(frozen=True)
class OfferPair:
    """Types of machines for base and rest, at their kinds of price."""

    way: HorizonWay
    mode: Mode
    base: Offer | None
    rest: Offer


@dataclass(frozen=True)
class WayCandidate:
    """One way with all its numbers."""

    way: HorizonWay
    base: MachineBase | None
    group: MachineGroup
    """Machines of the rest, without the base."""
    mode: Mode
    target: float | None
    """Target utilization of the rest; None where it has none."""
    wishes: MakeWishes
    """Machines of the rest that are wanted over time."""
    usd: float
    """Cost of the whole calendar, or less: a timetable orders ahead, and spot machines cost nothing in a shortage."""
    exact: bool = True
    """`usd` is what the timelines cost."""

    @property
    def rest(self) -> Offer:
        """Type and price of the rest."""
        return self.group.offer

    @property
    def beside_base(self) -> MachineGroup:
        """Machines of the rest beside the base."""
        return self.group.beside(self.base)


def pairs(market: Market, way: HorizonWay) -> Iterator[OfferPair]:
    """All types of machines for base and rest that may make sense."""
    for pattern in PATTERNS[way]:
        bases = market.offers.get(pattern.base, ()) if pattern.base else (None,)
        for rest, base in product(market.offers.get(pattern.rest, ()), bases):
            if base is None or (side_by_side(base, rest) and sensible(pattern, base, rest)):
                yield OfferPair(way, pattern.mode, base, rest)


def sensible(pattern: Pattern, base: Offer, rest: Offer) -> bool:
    """A base may be cheaper than more of the rest."""
    if hardware(base) != hardware(rest):
        return True
    if pattern.base is Paid.OWN:
        return pattern.rest is not Paid.OWN
    if pattern.base is pattern.rest:
        return pattern.mode is Mode.AUTOSCALED  # the base is a floor
    if pattern.rest is Paid.SPOT:
        return True
    return pattern.mode is not Mode.CONSTANT and base.usd_per_hour < rest.usd_per_hour


def candidates(question: HorizonQuestion, pair: OfferPair) -> Iterator[WayCandidate]:
    """Every size of the base, and every number or target of the rest."""
    group = question.market.group(pair.rest)
    base_group = question.market.group(pair.base) if pair.base else None
    if group is None or (pair.base and base_group is None):
        return
    is_spot = pair.rest.price_kind is PriceKind.SPOT
    plans = RestPlans(question, group, pair.mode)
    for base in bases(question, base_group):
        for plan in plans.beside(base):
            wishes = plan.wishes()
            if base is not None and not wishes.count.any():
                continue  # the base alone is a way of its own
            hours = wishes.machine_hours()
            if is_spot:
                hours = max(0.0, hours - question.hours_in_shortage(int(wishes.count.max())))
            base_usd = base.machines * base.offer.usd_per_hour * question.hours if base else 0.0
            yield WayCandidate(
                way=pair.way,
                base=base,
                group=group,
                mode=pair.mode,
                target=plan.target,
                wishes=plan.wishes,
                usd=base_usd + hours * pair.rest.usd_per_hour,
                exact=not is_spot and pair.mode is not Mode.SCHEDULED,
            )


def bases(question: HorizonQuestion, group: MachineGroup | None) -> Iterator[MachineBase | None]:
    """Every size of the base; None where there is none."""
    if group is None:
        yield None
        return
    for machines in range(1, question.most_machines(group) + 1):
        yield MachineBase(group, machines)


# Machines of the rest that are wanted over time


@dataclass(frozen=True)
class RestPlan:
    """A number, a timetable or an autoscaler of the rest."""

    target: float | None
    """Target utilization; None where there is none."""
    wishes: MakeWishes


@dataclass(frozen=True)
class RestPlans:
    """All plans of the rest in one mode, beside bases of every size.

    Beside a base of the same type, the rest is what is wanted without a base, less the base. Beside a base of another
    type, two plans are made: the base does its part of every model, or it does what it is best at.
    """

    question: HorizonQuestion
    group: MachineGroup
    """Machines of the rest, without a base."""
    mode: Mode
    without_base: dict[float | None, Wishes] = field(default_factory=dict)
    """Wishes without a base, by target: they serve all sizes of the base."""

    def beside(self, base: MachineBase | None) -> Iterator[RestPlan]:
        """Each plan beside a base."""
        group = self.group.beside(base)
        same_type = base is None or group.of_one_type(1) is not None
        match self.mode:
            case Mode.CONSTANT:
                for machines in range(1, self.question.most_machines(group) + 1):
                    yield RestPlan(None, partial(constant, machines, self.question.duration_s))
            case Mode.SCHEDULED if same_type:
                yield from self._less_base(base, self.question.grid, timetable)
                yield from self._limited(base, None, partial(fewest, self.question, self.group))
            case Mode.SCHEDULED:
                yield from self._beside_other_type(group, self.question.grid, timetable)
            case Mode.AUTOSCALED if same_type:
                yield from self._less_base(base, self.question.targets, following)
            case Mode.AUTOSCALED:
                yield from self._beside_other_type(group, self.question.targets, following)

    def _less_base(self, base: MachineBase | None, targets: Sequence[float], make: "ByTarget") -> Iterator[RestPlan]:
        for target in targets:
            yield from self._limited(base, target, partial(make, self.question, self.group, target, 0.0))

    def _beside_other_type(self, group: MachineGroup, targets: Sequence[float], make: "ByTarget") -> Iterator[RestPlan]:
        base_erlangs = dict.fromkeys((group.base_erlangs, group.base_erlangs_most))
        for target in targets:
            for erlangs in base_erlangs:
                yield RestPlan(target, partial(make, self.question, group, target, erlangs))

    def _limited(self, base: MachineBase | None, target: float | None, make: MakeWishes) -> Iterator[RestPlan]:
        """One plan without a limit of machines, and one with each limit that may be cheaper."""
        in_base = base.machines if base else 0
        unlimited = partial(self._beyond, in_base, target, make)
        yield RestPlan(target, unlimited)
        needed, calendar = int(self.question.needed(self.group)[-1]), self.question.calendar
        may_miss = calendar.keep is not Keep.HOUR or calendar.keep_share < 1
        limits = range(1, needed + 1) if may_miss else (needed,)
        for most in limits:
            yield RestPlan(target, partial(at_most, most - in_base, unlimited))

    def _beyond(self, in_base: int, target: float | None, make: MakeWishes) -> Wishes:
        if target not in self.without_base:
            self.without_base[target] = make()
        return self.without_base[target].beyond(in_base)


ByTarget = Callable[[HorizonQuestion, MachineGroup, float, float], Wishes]
"""Wishes by target utilization, beside a base that does so many erlangs."""


def at_most(most: int, make: MakeWishes) -> Wishes:
    """The same wishes, cut off at so many machines."""
    wishes = make()
    return replace(wishes, count=np.clip(wishes.count, 0, max(0, most)))


def following(question: HorizonQuestion, group: MachineGroup, target: float, base_erlangs: float) -> Wishes:
    """Machines that the autoscaler wants for the load beyond that of the base."""
    load = np.maximum(question.course(group).load_erlangs - target * base_erlangs, 0)
    return followed(question.policy(group, target), load, MINUTE_S)


def timetable(question: HorizonQuestion, group: MachineGroup, target: float, base_erlangs: float) -> Wishes:
    """Machines of each hour, so many that none has more than the target in its busiest minute, beside the base."""
    by_hour = question.course(group).load_erlangs.reshape(-1, MINUTES_PER_HOUR)
    machines = np.ceil(by_hour.max(axis=1) / target - base_erlangs - ROUNDING).astype(np.intp)
    return hourly(question, np.clip(machines, 0, group.machines_max))


def fewest(question: HorizonQuestion, group: MachineGroup) -> Wishes:
    """The fewest machines of each hour that meet every SLO in it."""
    course = question.course(group)
    levels = course.levels.of_minute.reshape(-1, MINUTES_PER_HOUR)
    factors = course.factors.reshape(-1, MINUTES_PER_HOUR)
    machines = [fewest_of_hour(course, *hour) for hour in zip(levels, factors, strict=True)]
    return hourly(question, np.array(machines, dtype=np.intp))


def hourly(question: HorizonQuestion, machines: Counts) -> Wishes:
    """Wishes that change at the hour."""
    hours_s = np.arange(len(machines), dtype=float) * HOUR_S
    return Wishes(hours_s, machines, question.duration_s)


def fewest_of_hour(course: Course, levels: Counts, factors: Floats) -> int:
    """The fewest machines for an hour whose minutes have these levels, and these factors; with the headroom left to as
    many requests as the strictest SLO asks for."""
    group, targets = course.group, course.group.targets
    least = min(targets.values())
    load = float(factors.sum())
    weight: Floats = np.bincount(levels, factors).astype(float)
    for machines in range(group.machines_max):
        done_erlangs = float(np.minimum(factors * group.load_erlangs, machines).sum())
        if done_erlangs < least * load * group.load_erlangs:
            continue  # never idle, they would still leave too much undone
        with_headroom = float(factors[factors <= group.factor_max(machines)].sum())
        if group.loaded.scenario.headroom and with_headroom < max(targets.values()) * load:
            continue
        seen = {
            level: group.behaviour(float(course.levels.factor[level]), machines)
            for level in np.flatnonzero(weight).tolist()
        }
        if all(surely_in_time(seen, weight, model) >= target * load for model, target in targets.items()):
            return machines
    return group.machines_max


def surely_in_time(seen: Mapping[int, Behaviour], weight: Floats, model: str) -> float:
    """Load of one model that is in time at the low end of the 95 % interval, where each level has its weight."""
    mean = sum(some.attainment[model] * weight[level] for level, some in seen.items())
    variance = sum((some.error.get(model, 0.0) * weight[level]) ** 2 for level, some in seen.items())
    return float(mean - SIGMAS * variance**0.5)
