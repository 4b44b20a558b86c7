"""All ways to keep machines for a calendar, and the cheapest of each family that keeps every SLO.

A way is a number of machines that follows the load, or a timetable, or never changes, and beside them a base that never
changes; either of any type on offer, at any kind of price. What a way costs is known before anything is replayed, so
that ways are replayed from the cheapest on, and the first that keeps its word is the cheapest of all that were weighed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heappush
from itertools import count
from math import ceil, floor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.answer import seed_of
from planner.catalog import Offer
from planner.horizons.answer import Band, Mode, Part, Strategy, Way
from planner.horizons.demand import MINUTE_S, MINUTES_PER_DAY, MINUTES_PER_HOUR, Levels, frames
from planner.horizons.judging import Course, Stretches, hopeless, keeps, kept, promises, stretches
from planner.horizons.machines import Group, Market, Paid, hardware
from planner.horizons.sections import CalendarSpec, Keep, Term
from planner.search import Progress
from planner.units import HOURS_PER_MONTH
from simulator.autoscaling import (
    HOUR_S,
    Autoscaling,
    Counts,
    Interruptions,
    Timeline,
    Wishes,
    constant,
    followed,
    timeline,
)
from simulator.metrics import confidence_interval
from simulator.workload import Floats

STAGE = 4
"""Seeds of interruptions are no others'."""
TARGETS = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)
"""Of an autoscaler, where the scenario leaves it open, and of a timetable."""
SPARE = 1.5
"""No more than so many times the machines of the peak are weighed."""
TERM_HOURS: Mapping[Term, float] = {Term.ONE_YEAR: 8760.0, Term.THREE_YEARS: 3 * 8760.0}

PAID_WORDS = {"on-demand": "on demand", "own": "of one's own", "spot": "at spot price"}

Kind = tuple[Paid | None, Paid, Mode]
"""How the base is paid for, if there is one, and the rest; and how the number of the rest goes."""
CONSTANT, SCHEDULED, AUTOSCALED = Mode.CONSTANT, Mode.SCHEDULED, Mode.AUTOSCALED
KINDS: Mapping[Way, Sequence[Kind]] = {
    Way.FIXED: [(None, Paid.ON_DEMAND, CONSTANT), (Paid.ON_DEMAND, Paid.ON_DEMAND, CONSTANT)],
    Way.SCHEDULED: [(None, Paid.ON_DEMAND, SCHEDULED), (Paid.ON_DEMAND, Paid.ON_DEMAND, SCHEDULED)],
    Way.AUTOSCALED: [(None, Paid.ON_DEMAND, AUTOSCALED), (Paid.ON_DEMAND, Paid.ON_DEMAND, AUTOSCALED)],
    Way.RESERVED: [
        (None, Paid.RESERVED, CONSTANT),
        (Paid.RESERVED, Paid.RESERVED, CONSTANT),
        (Paid.RESERVED, Paid.ON_DEMAND, CONSTANT),
        (Paid.RESERVED, Paid.ON_DEMAND, SCHEDULED),
        (Paid.RESERVED, Paid.ON_DEMAND, AUTOSCALED),
    ],
    Way.SPOT: [
        (None, Paid.SPOT, CONSTANT),
        (None, Paid.SPOT, AUTOSCALED),
        (Paid.RESERVED, Paid.SPOT, AUTOSCALED),
        (Paid.ON_DEMAND, Paid.SPOT, AUTOSCALED),
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
                (Paid.SPOT, AUTOSCALED),
            )
        ),
    ],
}


@dataclass(frozen=True)
class Candidate:
    """One way to the last number."""

    way: Way
    base: tuple[Offer, Group, int] | None
    """Machines that are always there."""
    rest: Offer
    group: Group
    """Of the rest, without the base."""
    mode: Mode
    target: float | None
    wishes: Wishes
    """Machines of the rest."""
    usd: float
    """Of the whole calendar, were every wish fulfilled at once and no machine taken."""


@dataclass(frozen=True)
class Question:
    """What all ways have in common."""

    market: Market
    calendar: CalendarSpec
    factors: Floats
    """Of each minute."""
    levels: Levels
    progress: Progress

    @property
    def duration_s(self) -> float:
        """The whole calendar."""
        return len(self.factors) * MINUTE_S

    @property
    def hours(self) -> float:
        """The same."""
        return self.duration_s / HOUR_S

    def course(self, group: Group) -> Course:
        """This load on such machines."""
        return Course(group, self.factors, self.levels)

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
        """Of the autoscaler."""
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

    @cached_property
    def may_be_lost(self) -> float:
        """Load, in minutes at factor 1, that may go unserved with every SLO kept."""
        targets = [spec.slo.attainment for spec in self.market.loaded.scenario.models]
        lost = (1 - min(targets)) * float(self.factors.sum())
        minutes = {Keep.HOUR: MINUTES_PER_HOUR, Keep.DAY: MINUTES_PER_DAY, Keep.WHOLE: len(self.factors)}
        periods = np.sort(self.factors.reshape(-1, minutes[self.calendar.keep]).sum(axis=1))[::-1]
        return lost + float(periods[: floor(len(periods) * (1 - self.calendar.keep_share) + 1e-9)].sum())

    def at_least(self, base: Offer | None, rest: Offer) -> float:
        """Dollars that no way with such machines costs less than, whatever their number: no machine is ever idle."""
        mine = self.market.erlangs(rest)
        load = self.factors * sum(mine.values()) / rest.gpu_count
        spare = self.may_be_lost * sum(mine.values()) / rest.gpu_count
        alone = max(0.0, float(load.sum()) - spare) / MINUTES_PER_HOUR * rest.usd_per_hour
        if base is None:
            return alone
        theirs = self.market.erlangs(base)
        each = max(mine[m] / theirs[m] for m in mine if theirs[m]) * base.gpu_count / rest.gpu_count
        return min(
            alone,
            *(
                n * base.usd_per_hour * self.hours
                + max(0.0, float(np.maximum(load - n * each, 0).sum()) - spare) / MINUTES_PER_HOUR * rest.usd_per_hour
                for n in range(1, ceil(float(load.max()) / each) + 1)
            ),
        )

    @cached_property
    def bound_usd(self) -> float:
        """Dollars that no way costs less than."""
        return min(self.at_least(None, offer) for some in self.market.offers.values() for offer in some)


def loading_s(group: Group) -> float:
    """Time to bring the weights of all models into a GPU's memory one after the other, as their profiles say."""
    profiles = {p.portion.sized.model: p.portion.sized.profile for p in group.trial.packing.placed}
    return sum(profile.load(profile.weight_bytes) for profile in profiles.values())


# All ways, cheapest first


@dataclass(frozen=True)
class Pair:
    """Types of machines for base and rest, at their kinds of price."""

    way: Way
    kind: Kind
    base: Offer | None
    rest: Offer


def pairs(market: Market, way: Way) -> Iterator[Pair]:
    """All that may make sense."""
    for kind in KINDS[way]:
        base_paid, paid, _ = kind
        for rest in market.offers.get(paid, ()):
            for base in market.offers.get(base_paid, ()) if base_paid else (None,):
                if base is None or sensible(kind, base, rest):
                    yield Pair(way, kind, base, rest)


def sensible(kind: Kind, base: Offer, rest: Offer) -> bool:
    """Whether a base may be cheaper than more of the rest."""
    base_paid, paid, mode = kind
    if hardware(base) != hardware(rest):
        return True
    if base_paid is Paid.OWN:
        return paid is not Paid.OWN
    if base_paid is paid or mode is CONSTANT:
        return mode is AUTOSCALED  # a floor
    return base.usd_per_hour < rest.usd_per_hour or paid is Paid.SPOT


def candidates(question: Question, pair: Pair) -> Iterator[Candidate]:
    """Every size of the base, and every number or target of the rest."""
    base, rest, mode = pair.base, pair.rest, pair.kind[2]
    group = question.market.group(rest)
    other = question.market.group(base) if base else None
    if group is None or (base and other is None):
        return
    bases: Sequence[tuple[Offer, Group, int] | None] = [None]
    if base and other:
        bases = [(base, other, n) for n in range(1, most_machines(question, other) + 1)]
    memory: dict[object, Wishes] = {}
    for one in bases:
        there = group.beside(one[1], one[2]) if one else group
        fixed_usd = one[2] * one[0].usd_per_hour * question.hours if one else 0.0
        for target, wishes in all_wishes(question, mode, group, there, memory):
            hours = wishes.machine_hours()
            if one is None or hours > 0:
                usd = fixed_usd + hours * rest.usd_per_hour
                yield Candidate(pair.way, one, rest, group, mode, target, wishes, usd)


def most_machines(question: Question, group: Group) -> int:
    """Most machines that are worth a look."""
    peak = max(group.machines_peak, ceil(group.load_erlangs * float(question.factors.max())))
    return min(group.machines_max, ceil(SPARE * peak))


def all_wishes(
    question: Question, mode: Mode, alone: Group, group: Group, memory: dict[object, Wishes]
) -> Iterator[tuple[float | None, Wishes]]:
    """Each target of one mode and the machines wanted then, beside the base of `group`.

    Beside a base of the same type it is what is wanted without it, less the base.
    """
    there, same = 0, not group.base
    if group.base and hardware(group.base[0].offer) == hardware(group.offer):
        there, same = group.base[1], True
    match mode:
        case Mode.CONSTANT:
            for n in range(1, most_machines(question, group) + 1):
                yield None, constant(n, question.duration_s)
        case Mode.SCHEDULED:
            for target in TARGETS:
                yield target, timetable(question, group, target)
            if same:
                if None not in memory:
                    memory[None] = fewest(question, alone)
                yield None, memory[None].beyond(there)
        case Mode.AUTOSCALED:
            for target in question.targets:
                if not same:
                    policy = question.policy(group, target)
                    load = np.maximum(question.course(group).load_erlangs - target * group.beside_erlangs, 0)
                    yield target, followed(policy, load, MINUTE_S)
                    continue
                if target not in memory:
                    policy = question.policy(alone, target)
                    memory[target] = followed(policy, question.course(alone).load_erlangs, MINUTE_S)
                yield target, memory[target].beyond(there)


def timetable(question: Question, group: Group, target: float) -> Wishes:
    """Each hour so many machines that none has more than the target in its busiest minute."""
    load = question.course(group).load_erlangs.reshape(-1, MINUTES_PER_HOUR).max(axis=1)
    wanted = np.ceil(load / target - group.beside_erlangs - 1e-9).astype(np.intp)
    hours_s = np.arange(len(load), dtype=float) * HOUR_S
    return Wishes(hours_s, np.clip(wanted, 0, group.machines_max), question.duration_s)


def fewest(question: Question, group: Group) -> Wishes:
    """Each hour the fewest machines that keep every SLO in it."""
    course = question.course(group)
    hours = course.levels.of_minute.reshape(-1, MINUTES_PER_HOUR)
    found = [fewest_of_hour(course, np.bincount(levels, minlength=len(course.levels.factor))) for levels in hours]
    return Wishes(np.arange(len(hours), dtype=float) * HOUR_S, np.array(found, dtype=np.intp), question.duration_s)


def fewest_of_hour(course: Course, minutes: Counts) -> int:
    """Fewest machines for an hour that has so many minutes of each level."""
    group, factor = course.group, course.levels.factor
    weight = minutes * factor
    targets = group.targets
    machines = max(0, floor(float(weight.sum()) / float(minutes.sum()) * group.load_erlangs * min(targets.values())))
    while machines < group.machines_max:
        seen = {level: group.behaviour(float(factor[level]), machines) for level in np.flatnonzero(weight)}
        low = {
            m: sum((s.attainment[m] - 1.96 * s.error.get(m, 0.0)) * weight[level] for level, s in seen.items())
            for m in targets
        }
        if all(low[m] >= target * weight.sum() for m, target in targets.items()):
            break
        machines += 1
    return machines


# The cheapest that is kept


@dataclass(frozen=True)
class Found:
    """The best of a family of ways."""

    strategy: Strategy
    candidate: Candidate
    timelines: Sequence[Timeline]


def cheapest(question: Question, way: Way) -> Found | None:
    """The cheapest that keeps every SLO; where none does, the dearest that was tried; None where there is none.

    The heap holds pairs of types at what they cost at least, their ways at what these cost at least, and what was
    judged at its cost.
    """
    order = count()
    heap: list[tuple[float, int, Pair | Candidate | Found]] = [
        (question.at_least(pair.base, pair.rest), next(order), pair) for pair in pairs(question.market, way)
    ]
    heapify(heap)
    dearest: Candidate | None = None
    while heap:
        usd, _, entry = heappop(heap)
        if isinstance(entry, Pair):
            for one in candidates(question, entry):
                heappush(heap, (round(one.usd, 6), next(order), one))
        elif isinstance(entry, Found):
            return entry
        elif (found := tried(question, entry)) is None:
            dearest = entry
        elif found.strategy.cost_usd <= usd + 1e-6:
            return found
        else:
            heappush(heap, (found.strategy.cost_usd, next(order), found))
    return judged(question, dearest) if dearest else None


def tried(question: Question, one: Candidate) -> Found | None:
    """What a way does; None where it misses an SLO."""
    calendar, group = question.calendar, beside(one)
    course = question.course(group)
    calm = [timeline(one.wishes, start_s(question, group, one), ahead=one.mode is SCHEDULED)]
    if hopeless(course, calm[0], calendar.keep, calendar.keep_share):
        return None
    for lines in (calm, timelines(question, one)):
        cuts = [stretches(line, len(course.factors)) for line in lines]
        if not keeps(course, cuts, calendar.keep, calendar.keep_share):
            return None
    return judged(question, one)


def beside(one: Candidate) -> Group:
    """The rest's machines beside the base."""
    return one.group.beside(one.base[1], one.base[2]) if one.base else one.group


def start_s(question: Question, group: Group, one: Candidate) -> float:
    """From the order of a machine until it answers."""
    return question.policy(group, one.target or 1.0).start_s


def timelines(question: Question, one: Candidate) -> list[Timeline]:
    """Machines of the rest over time: one line, or one for each drawing of interruptions."""
    scenario = question.market.loaded.scenario
    boot_s, ahead = start_s(question, beside(one), one), one.mode is SCHEDULED
    if one.rest.price_kind != "spot":
        return [timeline(one.wishes, boot_s, ahead=ahead)]
    seeds = [seed_of(scenario.seed, STAGE, i) for i in range(scenario.replications)]
    return [timeline(one.wishes, boot_s, interruptions=question.interruptions, seed=seed) for seed in seeds]


def judged(question: Question, one: Candidate) -> Found:
    """What a way costs and does, on average over its timelines."""
    lines, group = timelines(question, one), beside(one)
    course, alone = question.course(group), question.course(one.group)
    cuts = [stretches(line, len(course.factors)) for line in lines]
    calendar = question.calendar
    found = promises(course, cuts, calendar.keep)
    parts = parts_of(question, one, lines)
    usd = sum(part.usd_per_hour * part.machine_hours for part in parts)
    each, there = one.rest.gpu_count, group.beside_erlangs
    base_gpus = one.base[2] * one.base[0].gpu_count if one.base else 0
    gpus = [base_gpus + line.paid * each for line in lines]
    needed = [alone.needed[course.levels.of_minute[cut.minute]] for cut in cuts]
    strategy = Strategy(
        way=one.way,
        label=label(parts),
        met=kept(found, calendar.keep_share),
        parts=parts,
        cost_usd=usd,
        cost_usd_range=cost_range(parts, lines),
        cost_usd_per_month=usd / question.hours * HOURS_PER_MONTH,
        usd_per_million_requests=usd / frames(group.demand, question.factors) * 1e6,
        promises=found,
        gpu_hours=sum(part.machine_hours * part.gpus_per_machine for part in parts),
        wasted_gpu_hours=mean([above(cut, cut.paid + there - n) for cut, n in zip(cuts, needed, strict=True)]) * each,
        short_gpu_hours=mean([above(cut, n - there - cut.ready) for cut, n in zip(cuts, needed, strict=True)]) * each,
        gpus_max=int(max(some.max() for some in gpus)),
        base_gpus=base_gpus,
        orders=mean([line.orders for line in lines]),
        interruptions=mean([line.interruptions for line in lines]),
        gpus_by_hour=tuple((base_gpus + np.mean([by_hour(cut) for cut in cuts], axis=0) * each).tolist()),
    )
    return Found(strategy, one, lines)


def parts_of(question: Question, one: Candidate, lines: Sequence[Timeline]) -> tuple[Part, ...]:
    """The base, and the rest."""
    starts = start_s(question, beside(one), one)
    paid = np.concatenate([line.paid for line in lines])
    rest = part(
        question, one.rest, one.mode, one.target, (int(paid.min()), int(paid.max())),
        mean([line.machine_hours() for line in lines]), starts,
    )  # fmt: skip
    if one.base is None:
        return (rest,)
    offer, _, machines = one.base
    base = part(question, offer, CONSTANT, None, (machines, machines), machines * question.hours, 0.0)
    return base, rest


def part(
    question: Question,
    offer: Offer,
    mode: Mode,
    target: float | None,
    machines: tuple[int, int],
    hours: float,
    starts_s: float,
) -> Part:
    """Machines that are alike."""
    low, high = offer.spot_range or (offer.usd_per_hour, offer.usd_per_hour)
    term = question.calendar.reserved.term
    commitment = machines[1] * offer.usd_per_hour * TERM_HOURS[term] if str(offer.price_kind) == term else 0.0
    return Part(
        instance=offer.instance,
        provider=offer.provider,
        region=offer.region,
        gpu=offer.gpu.name,
        gpus_per_machine=offer.gpu_count,
        price_kind=offer.price_kind or Paid.OWN,
        mode=mode,
        target_utilization=target,
        machines_min=machines[0],
        machines_max=machines[1],
        machine_hours=hours,
        usd_per_hour=offer.usd_per_hour,
        usd_per_hour_range=Band(low=low, mid=(low + high) / 2, high=high),
        price_as_of=offer.as_of,
        start_s=starts_s,
        commitment_usd=commitment,
    )


def cost_range(parts: Sequence[Part], lines: Sequence[Timeline]) -> Band:
    """Dollars at the ends and the middle of what prices and interruptions may be."""
    *base, rest = parts
    fixed = sum(p.usd_per_hour * p.machine_hours for p in base)
    least, middle, most = one_more([line.machine_hours() for line in lines])
    price = rest.usd_per_hour_range
    return Band(low=fixed + price.low * least, mid=fixed + price.mid * middle, high=fixed + price.high * most)


def one_more(values: Sequence[float]) -> tuple[float, float, float]:
    """Where one more value of the same kind lies with 95 %, around the mean; by Student's t with root(1 + 1/n).

    9, 10 and 11: mean 10, and 4.303 x 1 x root(4/3) = 4.97 to either side. One value: no width can be known.
    """
    middle, low, high = confidence_interval(values)
    if len(values) < 2:
        return middle, middle, middle
    wider = (1 + len(values)) ** 0.5
    return max(0.0, middle - (middle - low) * wider), middle, middle + (high - middle) * wider


def label(parts: Sequence[Part]) -> str:
    """`6 x g4dn.xlarge reserved-1y + up to 4 x g4dn.xlarge on-demand as the load wants (target 70 %)`."""
    return " + ".join(map(told, parts))


def told(one: Part) -> str:
    """One part of a way before people."""
    kind = PAID_WORDS.get(one.price_kind, one.price_kind)
    least, most = one.machines_min, one.machines_max
    number = f"{least} to {most}" if least < most else f"{most}"
    target = "" if one.target_utilization is None else f" at {one.target_utilization:.0%} load"
    how = {
        Mode.CONSTANT: " all the time",
        Mode.SCHEDULED: f" by the hour{target}",
        Mode.AUTOSCALED: f" as the load wants{target}",
    }
    return f"{number} x {one.instance} {kind}{how[one.mode]}"


def above(cut: Stretches, machines: NDArray[Any]) -> float:
    """Machine-hours, where they are above 0."""
    return float(np.maximum(machines, 0) @ cut.lengths_s) / HOUR_S


def by_hour(cut: Stretches) -> Floats:
    """Paid machines, the mean of each hour."""
    return np.bincount(cut.hour, cut.paid * cut.lengths_s) / HOUR_S


def mean(values: Sequence[float]) -> float:
    """Their mean."""
    return float(np.mean(values))
