"""The cheapest way of a family that keeps every SLO, and what it costs and does."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.catalog import Offer
from planner.horizons.answer import Band, Mode, Part, Strategy, Way
from planner.horizons.demand import frames
from planner.horizons.judging import Stretches, hopeless, keeps, kept, promises, stretches
from planner.horizons.machines import Group, Paid
from planner.horizons.sections import Term
from planner.horizons.ways import Candidate, Pair, Question, candidates, mean, pairs
from planner.scenario import PriceKind
from planner.units import HOURS_PER_MONTH
from simulator.autoscaling import HOUR_S, Timeline, timeline
from simulator.metrics import confidence_interval
from simulator.workload import Floats

CENTS = 6
"""Digits of dollars to which ways cost the same; then the simpler, which was listed first, comes first."""
TERM_HOURS: Mapping[Term, float] = {Term.ONE_YEAR: 8760.0, Term.THREE_YEARS: 3 * 8760.0}
PAID_WORDS = {"on-demand": "on demand", "own": "of one's own", "spot": "at spot price"}


@dataclass(frozen=True)
class Found:
    """The best of a family of ways."""

    strategy: Strategy
    candidate: Candidate
    timelines: Sequence[Timeline]


def cheapest(question: Question, way: Way) -> Found | None:
    """The cheapest that keeps every SLO; where none does, the dearest that was tried; None where there is none.

    The heap holds pairs of types, and their ways, at what they cost at least. What comes out of it is the cheapest of
    all that are left, so that the first that keeps every SLO is the answer.
    """
    order = count()
    heap: list[tuple[float, int, Pair | Candidate]] = [
        (question.at_least(pair.base, pair.rest), next(order), pair) for pair in pairs(question.market, way)
    ]
    heapify(heap)
    dearest: Candidate | None = None
    while heap:
        _, _, entry = heappop(heap)
        if isinstance(entry, Pair):
            for one in candidates(question, entry):
                heappush(heap, (round(one.usd, CENTS), next(order), one))
        elif not entry.exact:
            one = replace(entry, usd=paid_usd(question, entry), exact=True)
            heappush(heap, (round(one.usd, CENTS), next(order), one))
        elif keeps_all(question, entry):
            return answered(question, entry)
        else:
            dearest = entry
    return answered(question, dearest, missed=True) if dearest else None


def paid_usd(question: Question, one: Candidate) -> float:
    """Dollars of a way's timelines, on average."""
    return sum(part.usd_per_hour * part.machine_hours for part in parts_of(question, one, timelines(question, one)))


def keeps_all(question: Question, one: Candidate) -> bool:
    """Whether a way keeps every SLO."""
    calendar, course = question.calendar, question.course(beside(one))
    lines = timelines(question, one)
    if len(lines) == 1 and hopeless(course, lines[0], calendar.keep, calendar.keep_share):
        return False
    cuts = [stretches(line, len(course.factors)) for line in lines]
    return keeps(course, cuts, calendar.keep, calendar.keep_share)


def beside(one: Candidate) -> Group:
    """The rest's machines beside the base."""
    return one.group.beside(one.base[1], one.base[2]) if one.base else one.group


def start_s(question: Question, group: Group, one: Candidate) -> float:
    """From the order of a machine until it answers."""
    return question.policy(group, one.target or 1.0).start_s


def timelines(question: Question, one: Candidate) -> list[Timeline]:
    """Machines of the rest over time: one line, or one for each drawing of interruptions."""
    boot_s, ahead, wishes = start_s(question, beside(one), one), one.mode is Mode.SCHEDULED, one.wishes()
    if one.rest.price_kind is not PriceKind.SPOT:
        return [timeline(wishes, boot_s, ahead=ahead)]
    rule = question.interruptions
    return [timeline(wishes, boot_s, ahead=ahead, interruptions=rule, seed=seed) for seed in question.seeds]


def answered(question: Question, one: Candidate, *, missed: bool = False) -> Found:
    """What a way costs and does, on average over its timelines."""
    lines, group = timelines(question, one), beside(one)
    course, needs = question.course(group), question.needed(one.group)
    cuts = [stretches(line, len(course.factors)) for line in lines]
    calendar = question.calendar
    found = promises(course, cuts, calendar.keep)
    parts = parts_of(question, one, lines)
    usd = sum(part.usd_per_hour * part.machine_hours for part in parts)
    each, there = one.rest.gpu_count, group.beside_erlangs
    base_gpus = one.base[2] * one.base[0].gpu_count if one.base else 0
    gpus = [base_gpus + line.paid * each for line in lines]
    needed = [needs[course.levels.of_minute[cut.minute]] for cut in cuts]
    strategy = Strategy(
        way=one.way,
        label=label(parts),
        met=not missed and kept(found, calendar.keep_share),
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
    base = part(question, offer, Mode.CONSTANT, None, (machines, machines), machines * question.hours, 0.0)
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
