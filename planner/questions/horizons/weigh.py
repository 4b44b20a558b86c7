"""The walk of `planner horizon`: load by the minute, levels, what is on offer, and the ways side by side."""

from collections.abc import Iterator, Mapping
from datetime import date
from itertools import chain, product, starmap
from math import ceil
from time import perf_counter

from planner.catalog.catalog import Catalog
from planner.catalog.sold import stale, usual_days
from planner.io.load import Loaded
from planner.model.calendar import CalendarSpec, Keep, SpotSpec
from planner.model.choices import HorizonWay, PriceKind
from planner.model.progress import Progress, silent
from planner.model.ranges import ranged
from planner.placing.sizing import Profiles
from planner.questions.horizons.answer import Horizon, LoadLevel, Strategy
from planner.questions.horizons.cheapest import Cheapest, cheapest, least_dear_usd
from planner.questions.horizons.day import check_day
from planner.questions.horizons.demand import (
    MINUTE_S,
    MINUTES_PER_HOUR,
    calendar_of,
    levels,
    refuse,
    request_count,
    shape_of,
)
from planner.questions.horizons.judging import Course
from planner.questions.horizons.machines import REPLAYS
from planner.questions.horizons.market import Market, Paid, market, side_by_side
from planner.questions.horizons.question import HorizonQuestion
from planner.questions.horizons.recording import CROWD_MIN, Shape
from planner.replay.warnings import assumptions as assumptions_of
from planner.replay.warnings import warnings_of
from planner.search.names import with_known_names
from planner.search.question import NothingToPlanError
from planner.units.reading import written_duration
from planner.units.writing import dollars, exact, share
from planner.words.statements import assumption_line, warning_line
from simulator.world.deployment import Drop
from simulator.world.profile import Profile, speed_evidence_of

HIDDEN = 1.5
"""Times the mean load up to which a hidden crowd does not matter."""
Ways = Mapping[HorizonWay, Cheapest]
"""The best of each family."""


def horizon(
    loaded: Loaded,
    catalog: Catalog,
    library: Profiles,
    *,
    created_at: str,
    check: HorizonWay | None = None,
    progress: Progress = silent,
) -> Horizon:
    """Ways to keep machines for the scenario's calendar. The same inputs give the same answer but for times.

    `created_at`: an ISO time stamp. `check`: also replay this way's busiest day request by request.
    """
    began_s = perf_counter()
    loaded = with_known_names(loaded, catalog, library)
    calendar = calendar_of(loaded)
    shape = shape_of(loaded, calendar)
    factors = shape.factors
    if not factors.any():
        raise NothingToPlanError("calendar: has no load at all. Write some factors above 0.")
    on_offer = market(loaded, catalog, library, float(factors.max()), progress)
    check_least(on_offer, calendar)
    question = HorizonQuestion(on_offer, calendar, factors, levels(factors, calendar.representatives), progress)
    steps = len(HorizonWay) + bool(check)
    ways = weigh(question, steps)
    if check is not None and check not in ways:
        known = ", ".join(ways)
        raise NothingToPlanError(f"--check-day {check}: is not among the ways that are compared. Known: {known}.")

    def last_step(text: str, part: float) -> None:
        progress(text, (steps - 1 + part) / steps)

    shown = best_or_nearest(ways)
    course = question.course(shown.candidate.group)
    scenario, demand = loaded.scenario, course.group.demand
    rate_rps = sum(demand.rates_rps().values())
    by_hour, peak = factors.reshape(-1, MINUTES_PER_HOUR).sum(axis=1), float(factors.max() / factors.mean())
    gpus_needed = course.needed[course.levels.of_minute] * course.group.offer.gpu_count
    today, of_recording = date.fromisoformat(created_at[:10]), recording_warnings(shape, course)
    return Horizon(
        scenario=scenario.name or loaded.path.stem,
        scenario_sha256=loaded.sha256,
        seed=scenario.seed,
        created_at=created_at,
        days=calendar.days,
        keep=calendar.keep,
        keep_share=calendar.keep_share,
        requests=request_count(demand, factors),
        requests_by_hour=tuple((by_hour * rate_rps * MINUTE_S).tolist()),
        peak_factor=peak,
        peak_factor_range=ranged(peak * shape.peak_low, peak, peak * shape.peak_high),
        bound_usd=question.bound_usd,
        instance=course.group.offer.instance,
        levels=shown_levels(course, rate_rps),
        gpus_needed_by_hour=tuple(gpus_needed.reshape(-1, MINUTES_PER_HOUR).mean(axis=1).tolist()),
        strategies=tuple(way.strategy for way in ways.values()),
        best=shown.strategy.way if shown.strategy.met else "",
        not_compared=tuple(dict.fromkeys(not_compared(on_offer, calendar))),
        check=check_day(question, ways[check], last_step) if check else None,
        requests_replayed=on_offer.requests,
        wall_s=perf_counter() - began_s,
        speed_evidence=speed_evidence_of(profile.speed_evidence for profile in profiles_in(ways)),
        speed_confidence=scenario.confidence if uncertain_in(ways) else None,
        assumptions=(
            *assumptions(question, course, ways),
            *map(assumption_line, assumptions_of(scenario, course.group.trial, catalog.assumptions)),
        ),
        warnings=tuple(dict.fromkeys(chain(too_dear(question, ways), of_recording, warnings(course, ways, today)))),
    )


def weigh(question: HorizonQuestion, steps: int) -> dict[HorizonWay, Cheapest]:
    """The best of each family; NothingToPlanError, with the reasons, where there is none at all.

    `steps`: of all progress, one for each family.
    """
    ways: dict[HorizonWay, Cheapest] = {}
    for i, way in enumerate(HorizonWay):
        question.progress(f"weighing {way}", i / steps)
        if best := cheapest(question, way):
            ways[way] = best
    if not ways:
        reasons = ["no number of machines of one type serves the busiest minute.", *question.market.rejections]
        raise NothingToPlanError("\n".join(reasons))
    return ways


def check_least(on_offer: Market, calendar: CalendarSpec) -> None:
    """ScenarioError where the autoscaler shall keep more machines than may be had."""
    gpus, least = on_offer.loaded.scenario.buy.max_gpus, calendar.autoscaling.min
    offers = [offer for some in on_offer.offers.values() for offer in some]
    most, instance = max((gpus // offer.gpu_count, offer.instance) for offer in offers)
    if least > most:
        rule = f"must be at most {most} x {instance}, the most that may be had (`buy.max_gpus` is {gpus})"
        remedy = "Write less, or raise `buy.max_gpus`."
        raise refuse(on_offer.loaded, ("calendar", "autoscaling", "min"), f"{rule}, got {least}. {remedy}")


def best_or_nearest(ways: Ways) -> Cheapest:
    """The cheapest way that meets every SLO; where none does, the one that comes nearest to it."""
    met = [way for way in ways.values() if way.strategy.met]
    if met:
        return min(met, key=lambda way: way.strategy.cost_usd)
    return max(ways.values(), key=lambda way: nearness(way.strategy))


def nearness(strategy: Strategy) -> tuple[float, float]:
    """Distance from the SLO that is met least, below zero where it is missed."""
    return (
        min(slo.met_share for slo in strategy.slos),
        min(slo.slo_attainment - slo.slo_attainment_target for slo in strategy.slos),
    )


# Load


def shown_levels(course: Course, rate_rps: float) -> tuple[LoadLevel, ...]:
    """Levels as the answer lists them."""
    levels = course.levels
    rows = zip(levels.factor.tolist(), levels.minutes.tolist(), course.needed.tolist(), strict=True)
    return tuple(
        LoadLevel(
            factor=factor,
            rate_rps=factor * rate_rps,
            minutes=minutes,
            gpus_needed=needed * course.group.offer.gpu_count,
        )
        for factor, minutes, needed in rows
    )


# Sentences beside the answer


def not_compared(on_offer: Market, calendar: CalendarSpec) -> Iterator[str]:
    """Ways that are not compared, and why."""
    yield from on_offer.rejections
    if not on_offer.offers[Paid.RESERVED]:
        yield f"reserved: no {calendar.reserved.term} price is known. Give `calendar.reserved.price`."
    if calendar.spot is None:
        yield "spot: give `calendar.spot.interruptions` to have it compared."
    elif not on_offer.offers[Paid.SPOT]:
        yield "spot: no spot price is known. Give `calendar.spot.price`."
    for base, rest in ((Paid.RESERVED, Paid.ON_DEMAND), (Paid.RESERVED, Paid.SPOT), (Paid.ON_DEMAND, Paid.SPOT)):
        bases, rests = (on_offer.offers.get(paid, ()) for paid in (base, rest))
        if bases and rests and not any(starmap(side_by_side, product(bases, rests))):
            stated = Paid.SPOT if rest is Paid.SPOT else Paid.RESERVED
            yield f"{rest} beside {base}: no region of one provider has both prices. Give `calendar.{stated}.price`."


def too_dear(question: HorizonQuestion, ways: Ways) -> Iterator[str]:
    """What `buy.max_cost` must allow where no way within it meets every SLO."""
    strategies = [way.strategy for way in ways.values()]
    allowed = question.buy.max_cost
    if allowed is None or any(one.met for one in strategies) or not any(one.over_max_cost for one in strategies):
        return
    least = least_dear_usd(question)
    if least is None:
        yield f"No way meets every SLO, not even with more than {dollars(allowed)}/h, `buy.max_cost`"
        return
    usd = f"${ceil(least * 100 - 1e-6) / 100:.2f}/h"
    yield (
        f"`buy.max_cost` allows {dollars(allowed)}/h, and each way that meets every SLO has an hour that costs more. "
        f"Remedy: write {usd} or more"
    )


def uncertain_in(ways: Ways) -> bool:
    """Whether any speed of the machines that are compared is drawn, for the user did not measure it."""
    return any(profile.doubt for profile in profiles_in(ways))


def profiles_in(ways: Ways) -> Iterator[Profile]:
    """Of all models on the machines that are compared."""
    for way in ways.values():
        yield from (placed.portion.sized.profile for placed in way.candidate.group.trial.packing.placed)


def assumptions(question: HorizonQuestion, course: Course, ways: Ways) -> Iterator[str]:
    """Assumptions of the calendar, and of the kinds of machines that are compared."""
    group, calendar = course.group, question.calendar
    each_s = group.judged_s(float(course.factors.max()))
    yield (
        f"{len(course.factors):,} minutes are taken for {len(course.levels.factor)} levels of load; each is replayed "
        f"{REPLAYS} times for {each_s:.0f} s or more on every number of machines that meets it"
    )
    if uncertain_in(ways):
        slow = f"Uncertain speeds are at the slow {exact(group.loaded.scenario.confidence)} end of their bands"
        draws = "the busiest minute is also replayed in draws of them, as by `planner plan` (`confidence`)"
        yield f"{slow} at every level; {draws}"
    yield "Load changes by the minute; within it, requests come as the streams say"
    if headroom := group.loaded.scenario.headroom:
        each = "over the whole" if question.calendar.keep is Keep.WHOLE else f"in every {question.calendar.keep}"
        left = f"{exact(headroom)} of the GPUs stay free for as many requests {each} as the SLO asks for (`headroom`)"
        yield f"{left}; machines that boot or were taken away count"
    yield "Machines are paid by the second, from their order until they are given back"
    if question.buy.max_cost is not None:
        yield f"No way is taken that has an hour of more than {dollars(question.buy.max_cost)} (`buy.max_cost`)"
    if group.loaded.scenario.drop is Drop.NEVER:
        yield "Nothing is dropped: behind a backlog all requests are late, and it is worked off in full batches"
    if HorizonWay.SCHEDULED in ways:
        yield "A timetable knows the calendar in advance: machines are ordered so early that they answer in time"
    kinds = {part.price_kind for way in ways.values() for part in way.strategy.parts}
    if calendar.reserved.term in kinds:
        yield f"A {calendar.reserved.term} reservation is paid for its whole term, all of it like this calendar"
    if Paid.OWN in kinds:
        yield "Machines of one's own are paid for all the time: switched off, they would save electricity only"
    if calendar.spot and Paid.SPOT in kinds:
        yield spot_assumption(calendar.spot)


def spot_assumption(spot: SpotSpec) -> str:
    """How spot machines are taken away."""
    often = written_duration(1 / spot.interruptions)
    zones = f"of {spot.zones} zones" if spot.zones > 1 else "of the zone"
    return (
        f"Each spot machine is taken once in {often} on average, warned {spot.notice:g} s before; "
        f"{share(spot.together)} of the time with all machines {zones}, and then none can be had there for "
        f"{written_duration(spot.shortage)} (`calendar.spot.together`, `.zones`, `.shortage`)"
    )


def recording_warnings(shape: Shape, course: Course) -> Iterator[str]:
    """Facts of the load that a recording leaves open."""
    if shape.peak_high > 1:
        peak, instance = float(course.factors.max()), course.group.offer.instance
        now = course.group.needed(peak)
        at_upper_end = course.group.needed(peak * shape.peak_high)
        down, up = 100 * (shape.peak_low - 1), 100 * (shape.peak_high - 1)
        known = f"The recording's peak is known to {down:+.0f} % and {up:+.0f} %"
        if at_upper_end > now:
            yield f"{known}: at its upper end {at_upper_end} x {instance} are needed instead of {now}"
        else:
            yield f"{known}: {now} x {instance} serve it either way"
    if shape.hidden > HIDDEN:
        yield (
            f"A crowd of {CROWD_MIN} minutes with up to {shape.hidden:.1f} times the mean load would not show in so "
            "sparse a recording: record more of the requests, or keep room for it"
        )


def warnings(course: Course, ways: Ways, today: date) -> Iterator[str]:
    """Facts that weaken the answer: those of the busiest minute, old prices, and too few machines."""
    group = course.group
    for warning in warnings_of(group.loaded.scenario, group.demand, group.trial, today):
        yield warning_line(warning)
    named = (PriceKind.ON_DEMAND, course.group.offer.instance)
    parts = {part for way in ways.values() for part in way.strategy.parts}
    late = [part for part in parts if stale(part.price_as_of, today, usual_days(part.provider))]
    old = {(part.price_kind, part.instance, part.price_as_of) for part in late}
    for kind, instance, as_of in sorted(old):
        if (kind, instance) != named:
            yield f"The {kind} price of {instance} is from {as_of}. Remedy: look it up"
    most = group.machines_max
    if course.needed[-1] >= most and group.misses(float(course.levels.factor[-1]), most):
        yield "Even all machines that may be had miss an SLO at the busiest level. Remedy: raise `buy.max_gpus`"
