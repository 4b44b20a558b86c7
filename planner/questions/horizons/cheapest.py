"""The cheapest way of a family that meets every SLO, with its cost and its attainment."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.catalog.offers import Offer
from planner.model.calendar import Term
from planner.model.choices import HorizonWay, PriceKind
from planner.model.ranges import ranged
from planner.questions.horizons.answer import Mode, Strategy, StrategyPart
from planner.questions.horizons.demand import MINUTES_PER_HOUR, request_count
from planner.questions.horizons.judging import (
    TINY,
    Course,
    Stretches,
    all_met,
    busiest,
    hopeless,
    leaves_headroom,
    meets_slos,
    missed_in,
    model_slos,
    stretches,
)
from planner.questions.horizons.machines import Sureness
from planner.questions.horizons.market import Paid
from planner.questions.horizons.question import HorizonQuestion
from planner.questions.horizons.ways import OfferPair, WayCandidate, candidates, pairs
from planner.units.reading import HOURS_PER_MONTH
from planner.units.writing import exact, share
from simulator.clock.autoscaling import HOUR_S, FleetTimeline, summed, timeline
from simulator.clock.metrics import confidence_interval
from simulator.world.workload import Floats

DIGITS = 6
"""Digits of dollars to which ways cost the same. Of equals the simpler wins, which was listed first."""
TERM_HOURS: Mapping[Term, float] = {Term.ONE_YEAR: 8760.0, Term.THREE_YEARS: 3 * 8760.0}
PAID_WORDS = {"on-demand": "on demand", "own": "of one's own", "spot": "at spot price"}


@dataclass(frozen=True)
class Cheapest:
    """The best of a family of ways."""

    strategy: Strategy
    candidate: WayCandidate
    timelines: Sequence[FleetTimeline]


def cheapest(question: HorizonQuestion, way: HorizonWay) -> Cheapest | None:
    """The cheapest that meets every SLO, within `buy.max_cost` if any is; where none does, the dearest that was tried;
    None where there is none."""
    nearest: WayCandidate | None = None
    too_dear: WayCandidate | None = None
    for one in by_cost(question, way):
        if too_dear and not question.buy.affords(dearest_hour_usd(question, one)):
            continue
        if not meets_all(question, one):
            nearest = one
        elif question.buy.affords(dearest_hour_usd(question, one)):
            return answered(question, one)
        else:
            too_dear = one
    if too_dear:
        return answered(question, too_dear)
    return answered(question, nearest, missed=True) if nearest else None


def by_cost(question: HorizonQuestion, way: HorizonWay) -> Iterator[WayCandidate]:
    """All candidates of a family, the cheapest first.

    The heap holds pairs of types, and their candidates, at what they cost at least. The entry that comes out is the
    cheapest of all that are left.
    """
    order = count()
    heap: list[tuple[float, int, OfferPair | WayCandidate]] = [
        (question.at_least_usd(pair.base, pair.rest), next(order), pair) for pair in pairs(question.market, way)
    ]
    heapify(heap)

    def push(candidate: WayCandidate) -> None:
        heappush(heap, (round(candidate.usd, DIGITS), next(order), candidate))

    while heap:
        _, _, entry = heappop(heap)
        match entry:
            case OfferPair():
                for candidate in candidates(question, entry):
                    push(candidate)
            case WayCandidate(exact=False):
                push(replace(entry, usd=total_usd(parts_of(question, entry, timelines(question, entry))), exact=True))
            case WayCandidate():
                yield entry


def least_dear_usd(question: HorizonQuestion) -> float | None:
    """Least that the dearest hour of a way that meets every SLO costs; None where none meets them."""
    found = [one for way in HorizonWay for pair in pairs(question.market, way) for one in candidates(question, pair)]
    priced = sorted((dearest_hour_usd(question, one), i) for i, one in enumerate(found))
    return next((usd for usd, i in priced if meets_all(question, found[i])), None)


def dearest_hour_usd(question: HorizonQuestion, candidate: WayCandidate) -> float:
    """What the hour costs that costs most, with whichever interruptions."""
    return dearest_usd(candidate, [stretches(line, len(question.factors)) for line in timelines(question, candidate)])


def dearest_usd(candidate: WayCandidate, cuts: Sequence[Stretches]) -> float:
    """The same, of its stretches."""
    base = candidate.base
    base_usd = base.machines * base.offer.usd_per_hour if base else 0.0
    return base_usd + candidate.rest.usd_per_hour * max(float(by_hour(cut).max()) for cut in cuts)


def total_usd(parts: Sequence[StrategyPart]) -> float:
    """Cost of all parts."""
    return sum(part.usd_per_hour * part.machine_hours for part in parts)


def meets_all(question: HorizonQuestion, candidate: WayCandidate) -> bool:
    """The candidate meets every SLO."""
    course = question.course(candidate.beside_base)
    lines = timelines(question, candidate)
    if len(lines) == 1 and hopeless(course, lines[0]):
        return False
    if not leaves_headroom(course, candidate.wishes()):
        return False
    cuts = [stretches(line, len(course.factors)) for line in lines]
    return meets_slos(course, cuts) and sureness(course, candidate).met


def sureness(course: Course, candidate: WayCandidate) -> Sureness:
    """What a plan says of the busiest minute in which the headroom is left, on the machines that are wanted then.

    Minutes in which some boot or were taken away are few: whether SLOs forgive them is judged by the hour or day.
    """
    minute = busiest(course, stretches(timeline(candidate.wishes(), 0.0), len(course.factors)))
    return course.group.sureness(*minute) if minute else Sureness(met=False)


def timelines(question: HorizonQuestion, candidate: WayCandidate) -> list[FleetTimeline]:
    """Machines of the rest over time: one timeline, or one for each replication of interruptions."""
    start_s = question.start_s(candidate.group)
    ahead = candidate.mode is Mode.SCHEDULED
    wishes = candidate.wishes()
    if candidate.rest.price_kind is not PriceKind.SPOT:
        return [timeline(wishes, start_s, ahead=ahead)]
    rule = question.interruptions
    return [timeline(wishes, start_s, ahead=ahead, interruptions=rule, seed=seed) for seed in question.seeds]


def answered(question: HorizonQuestion, candidate: WayCandidate, *, missed: bool = False) -> Cheapest:
    """The candidate's cost and attainment, on average over its timelines."""
    lines = timelines(question, candidate)
    course = question.course(candidate.beside_base)
    cuts = [stretches(line, len(course.factors)) for line in lines]
    slos = model_slos(course, cuts)
    parts = parts_of(question, candidate, lines)
    usd = total_usd(parts)
    usd_per_hour_max = dearest_usd(candidate, cuts)
    over_max_cost = not question.buy.affords(usd_per_hour_max)
    requests = request_count(course.group.demand, question.factors)
    sure = sureness(course, candidate)
    *base, rest = parts
    base_usd = total_usd(base)
    hours = ranged(*one_more([line.machine_hours() for line in lines]))
    strategy = Strategy(
        way=candidate.way,
        label=" + ".join(map(part_text, parts)),
        met=not missed and not over_max_cost and all_met(course, slos),
        over_max_cost=over_max_cost,
        parts=parts,
        cost_usd=usd,
        cost_usd_range=rest.usd_per_hour_range * hours + base_usd,
        cost_usd_per_month=usd / question.hours * HOURS_PER_MONTH,
        usd_per_million_requests=usd / requests * 1e6,
        usd_per_hour_max=usd_per_hour_max,
        slos=slos,
        gpu_hours=sum(part.machine_hours * part.gpus_per_machine for part in parts),
        **gpu_use(question, candidate, course, cuts),
        draws_kept=sure.draws_kept,
        draws=sure.draws,
        reason=why_missed(question, candidate, course, cuts) if missed else "",
        orders=mean([line.orders for line in lines]),
        interruptions=mean([line.interruptions for line in lines]),
    )
    return Cheapest(strategy, candidate, lines)


# Misses


def why_missed(question: HorizonQuestion, candidate: WayCandidate, course: Course, cuts: Sequence[Stretches]) -> str:
    """Why a way misses where more than its machines are to blame; empty elsewhere."""
    scenario = course.group.loaded.scenario
    if candidate.mode is Mode.AUTOSCALED and (limit := why_not_scaled(question, candidate, course, cuts)):
        return limit
    if not leaves_headroom(course, candidate.wishes()):
        return f"in busy minutes its load leaves less than {exact(scenario.headroom)} of the GPUs free (`headroom`)"
    sure = sureness(course, candidate)
    if sure.draws_kept is None or not meets_slos(course, cuts):
        return ""
    held = f"its busiest minute holds in {share(sure.draws_kept)} of {sure.draws} draws of uncertain speeds"
    return f"{held}, which is too few for {exact(scenario.confidence)} (`confidence`)"


def why_not_scaled(
    question: HorizonQuestion, candidate: WayCandidate, course: Course, cuts: Sequence[Stretches]
) -> str:
    """What keeps the autoscaler from as many machines as the busiest level needs; empty where nothing does."""
    most = max(int(cut.paid.max()) for cut in cuts)
    base = candidate.base.machines if candidate.base else 0
    needed = int(question.needed(candidate.group)[-1])
    if most + course.group.base_erlangs >= needed:
        return ""
    at_most = f"at most {most + base} machines, of {needed} that the busiest load needs"
    if most >= question.policy(course.group, 1.0).machines_max:
        limit = "calendar.autoscaling.max" if question.calendar.autoscaling.max is not None else "buy.max_gpus"
        return f"`{limit}` allows {at_most}"
    stated = question.calendar.autoscaling.target_utilization
    return f"`calendar.autoscaling.target_utilization: {share(stated)}` asks for {at_most}" if stated else ""


# GPUs


def gpu_use(
    question: HorizonQuestion, candidate: WayCandidate, course: Course, cuts: Sequence[Stretches]
) -> dict[str, Any]:
    """GPUs that are paid, wasted and short beside those that the load needs, the mean of the timelines."""
    each = candidate.rest.gpu_count
    base_gpus = candidate.base.gpus if candidate.base else 0
    base_erlangs = course.group.base_erlangs
    needed_at = question.needed(candidate.group)
    wasted, short = [], []
    for cut in cuts:
        needed = needed_at[course.levels.of_minute[cut.minute]]
        there = np.maximum(cut.paid + base_erlangs, TINY)
        wasted.append(hours_above_zero(cut, (base_gpus + cut.paid * each) * (1 - needed / there)))
        short.append(hours_above_zero(cut, (needed - base_erlangs - cut.ready) * missed_in(course, cut)))
    paid_by_hour = np.mean([by_hour(cut) for cut in cuts], axis=0)
    return {
        "wasted_gpu_hours": mean(wasted),
        "short_gpu_hours": mean(short) * each,
        "gpus_max": int(max((base_gpus + cut.paid * each).max() for cut in cuts)),
        "base_gpus": base_gpus,
        "gpus_by_hour": tuple((base_gpus + paid_by_hour * each).tolist()),
    }


def hours_above_zero(cut: Stretches, counts: NDArray[Any]) -> float:
    """Machine-hours, or GPU-hours, of those stretches that have more than 0."""
    return summed(np.maximum(counts, 0), cut.lengths_s) / HOUR_S


def by_hour(cut: Stretches) -> Floats:
    """Paid machines, the mean of each hour."""
    return np.bincount(cut.periods(MINUTES_PER_HOUR), cut.paid * cut.lengths_s) / HOUR_S


def mean(values: Sequence[float]) -> float:
    """The mean of the timelines."""
    return float(np.mean(values))


# Parts and cost


def parts_of(
    question: HorizonQuestion, candidate: WayCandidate, lines: Sequence[FleetTimeline]
) -> tuple[StrategyPart, ...]:
    """The base, and the rest."""
    paid = np.concatenate([line.paid for line in lines])
    rest = replace(
        part_of(question, candidate.rest, int(paid.max())),
        mode=candidate.mode,
        target_utilization=candidate.target,
        machines_min=int(paid.min()),
        machine_hours=mean([line.machine_hours() for line in lines]),
        start_s=question.start_s(candidate.group),
    )
    base = candidate.base
    return (part_of(question, base.offer, base.machines), rest) if base else (rest,)


def part_of(question: HorizonQuestion, offer: Offer, machines: int) -> StrategyPart:
    """Machines that are alike, with their price: there all the time."""
    low, high = offer.spot_range or (offer.usd_per_hour, offer.usd_per_hour)
    term = question.calendar.reserved.term
    is_reserved = str(offer.price_kind) == term
    return StrategyPart(
        instance=offer.instance,
        provider=offer.provider,
        region=offer.region,
        gpu=offer.gpu.name,
        gpus_per_machine=offer.gpu_count,
        price_kind=offer.price_kind or Paid.OWN,
        mode=Mode.CONSTANT,
        target_utilization=None,
        machines_min=machines,
        machines_max=machines,
        machine_hours=machines * question.hours,
        usd_per_hour=offer.usd_per_hour,
        usd_per_hour_range=ranged(low, (low + high) / 2, high),
        price_as_of=offer.as_of,
        start_s=0.0,
        commitment_usd=machines * offer.usd_per_hour * TERM_HOURS[term] if is_reserved else 0.0,
    )


def one_more(values: Sequence[float]) -> tuple[float, float, float]:
    """Interval of one more value of the same kind with 95 %, around the mean; by Student's t with root(1 + 1/n).

    9, 10 and 11: mean 10, and 4.303 x 1 x root(4/3) = 4.97 to either side. One value has no width that can be known.
    """
    middle, low, high = confidence_interval(values)
    if len(values) < 2:
        return middle, middle, middle
    wider = (1 + len(values)) ** 0.5
    return max(0.0, middle - (middle - low) * wider), middle, middle + (high - middle) * wider


def part_text(part: StrategyPart) -> str:
    """`6 x g4dn.xlarge reserved-1y all the time`, `0 to 4 x g4dn.xlarge on demand as the load wants at 70 % load`."""
    kind = PAID_WORDS.get(part.price_kind, part.price_kind)
    number = f"{part.machines_max}"
    if part.machines_min < part.machines_max:
        number = f"{part.machines_min} to {part.machines_max}"
    words = [f"{number} x {part.instance} {kind}"]
    match part.mode:
        case Mode.CONSTANT:
            words.append("all the time")
        case Mode.SCHEDULED:
            words.append("by the hour")
        case Mode.AUTOSCALED:
            words.append("as the load wants")
    if part.target_utilization is not None:
        words.append(f"at {share(part.target_utilization)} load")
    return " ".join(words)
