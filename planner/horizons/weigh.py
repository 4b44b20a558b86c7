"""The walk of `planner horizon`: load by the minute, levels, what may be had, and the ways side by side."""

from collections.abc import Sequence
from datetime import date
from time import perf_counter

from planner.answer import assumptions as of_trial
from planner.answer import cautions
from planner.catalog import Catalog, stale
from planner.horizons.answer import Band, Horizon, Level, Strategy, Way
from planner.horizons.cheapest import Found, cheapest
from planner.horizons.day import check_day
from planner.horizons.demand import MINUTE_S, MINUTES_PER_HOUR, calendar_of, frames, levels, refuse, shape_of
from planner.horizons.judging import Course
from planner.horizons.machines import REPLAYS, Market, Paid, market
from planner.horizons.recording import CROWD_MIN, Shape
from planner.horizons.sections import CalendarSpec
from planner.horizons.ways import Question
from planner.load import Loaded
from planner.names import with_known_names
from planner.scenario import PriceKind
from planner.search import NothingToPlanError, Progress, silent
from planner.sizing import Profiles
from planner.units import written_duration
from simulator.deployment import Drop

HIDDEN = 1.5
"""Times the mean load up to which a hidden crowd is no matter."""


def horizon(
    loaded: Loaded,
    catalog: Catalog,
    library: Profiles,
    *,
    created_at: str,
    check: Way | None = None,
    progress: Progress = silent,
) -> Horizon:
    """Ways to keep machines for the scenario's calendar. The same inputs give the same answer but for times.

    `created_at`: an ISO time stamp. `check`: also replay this way's busiest day frame by frame.
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
    question = Question(on_offer, calendar, factors, levels(factors, calendar.representatives), progress)
    ways = found_ways(question)
    if check is not None and check not in ways:
        known = ", ".join(ways)
        raise NothingToPlanError(f"--check-day {check}: is not among the ways that are compared. Known: {known}.")
    strategies = tuple(one.strategy for one in ways.values())
    best = best_of(strategies)
    told = ways[Way(best)] if best else max(ways.values(), key=lambda one: nearness(one.strategy))
    course = question.course(told.candidate.group)
    demand, scenario = course.group.demand, loaded.scenario
    peak = float(factors.max() / factors.mean())
    rate_rps = sum(demand.rates_rps().values())
    return Horizon(
        scenario=scenario.name or loaded.path.stem,
        scenario_sha256=loaded.sha256,
        seed=scenario.seed,
        created_at=created_at,
        days=calendar.days,
        keep=calendar.keep,
        keep_share=calendar.keep_share,
        requests=frames(demand, factors),
        requests_by_hour=tuple((factors.reshape(-1, MINUTES_PER_HOUR).sum(axis=1) * rate_rps * MINUTE_S).tolist()),
        peak_factor=peak,
        peak_factor_range=Band(low=peak * shape.peak_low, mid=peak, high=peak * shape.peak_high),
        bound_usd=question.bound_usd,
        instance=course.group.offer.instance,
        levels=shown_levels(course, rate_rps),
        gpus_needed_by_hour=needed_by_hour(course),
        strategies=strategies,
        best=best,
        not_compared=left_out(on_offer, calendar, ways),
        check=check_day(question, ways[check], progress) if check else None,
        requests_replayed=on_offer.requests,
        wall_s=perf_counter() - began_s,
        assumptions=assumed(question, course, ways, catalog),
        warnings=(*doubts(shape, course), *warned(course, ways, date.fromisoformat(created_at[:10]))),
    )


def found_ways(question: Question) -> dict[Way, Found]:
    """The best of each family; NothingToPlanError, with the reasons, where there is none at all."""
    ways: dict[Way, Found] = {}
    for i, way in enumerate(Way):
        question.progress(f"weighing {way}", i / len(Way))
        if found := cheapest(question, way):
            ways[way] = found
    if not ways:
        reasons = "\n".join(question.market.refusals)
        raise NothingToPlanError(f"no number of machines of one type serves the busiest minute.\n{reasons}")
    return ways


def check_least(on_offer: Market, calendar: CalendarSpec) -> None:
    """ScenarioError where the autoscaler shall keep more machines than may be had."""
    buy, least = on_offer.loaded.scenario.buy, calendar.autoscaling.min
    offers = [offer for some in on_offer.offers.values() for offer in some]
    most, instance = max((buy.max_gpus // offer.gpu_count, offer.instance) for offer in offers)
    if least > most:
        rule = f"must be at most {most} x {instance}, the most that may be had (`buy.max_gpus` is {buy.max_gpus})"
        path, way_out = ("calendar", "autoscaling", "min"), "Write less, or raise `buy.max_gpus`."
        raise refuse(on_offer.loaded, path, f"{rule}, got {least}. {way_out}")


def nearness(found: Strategy) -> tuple[float, float]:
    """How nearly a way keeps the SLO that it keeps least."""
    return (
        min(p.kept_share for p in found.promises),
        min(p.slo_attainment - p.slo_attainment_target for p in found.promises),
    )


def best_of(found: Sequence[Strategy]) -> str:
    """The way that keeps every promise at least cost."""
    met = [s for s in found if s.met]
    return min(met, key=lambda s: s.cost_usd).way if met else ""


def left_out(on_offer: Market, calendar: CalendarSpec, ways: dict[Way, Found]) -> tuple[str, ...]:
    """Ways that are not compared, and why."""
    said = [f"{reason}" for reason in on_offer.refusals]
    if not on_offer.offers[Paid.RESERVED]:
        said.append(f"reserved: no {calendar.reserved.term} price is known. Give `calendar.reserved.price`.")
    if calendar.spot is None:
        said.append("spot: give `calendar.spot.interruptions` to have it compared.")
    elif not on_offer.offers[Paid.SPOT]:
        said.append("spot: no spot price is known. Give `calendar.spot.price`.")
    return tuple(said)


def needed_by_hour(course: Course) -> tuple[float, ...]:
    """GPUs that the load needs, the mean of each hour."""
    needed = course.needed[course.levels.of_minute] * course.group.offer.gpu_count
    return tuple(needed.reshape(-1, MINUTES_PER_HOUR).mean(axis=1).tolist())


def shown_levels(course: Course, rate_rps: float) -> tuple[Level, ...]:
    """Levels as a person reads them."""
    rows = zip(course.levels.factor.tolist(), course.levels.minutes.tolist(), course.needed.tolist(), strict=True)
    return tuple(
        Level(
            factor=factor,
            rate_rps=factor * rate_rps,
            minutes=minutes,
            gpus_needed=needed * course.group.offer.gpu_count,
        )
        for factor, minutes, needed in rows
    )


def assumed(question: Question, course: Course, ways: dict[Way, Found], catalog: Catalog) -> tuple[str, ...]:
    """What the answer takes for granted."""
    machines, calendar = course.group, question.calendar
    each_s = machines.judged_s(float(course.factors.max()))
    said = [
        f"{len(course.factors):,} minutes are taken for {len(course.levels.factor)} levels of load; each is replayed "
        f"{REPLAYS} times for {each_s:.0f} s or more on every number of machines that meets it",
        "load changes by the minute; within it, requests come as the streams say",
        "machines are paid by the second, from their order until they are given back",
    ]
    kinds = {part.price_kind for found in ways.values() for part in found.strategy.parts}
    if machines.loaded.scenario.drop is Drop.NEVER:
        said.append("nothing is dropped: behind a backlog all requests are late, and it is worked off in full batches")
    if Way.SCHEDULED in ways:
        said.append("a timetable knows the calendar in advance: machines are ordered so early that they answer in time")
    if calendar.reserved.term in kinds:
        said.append(f"a {calendar.reserved.term} reservation is paid for its whole term, all of it like this calendar")
    if "own" in kinds:
        said.append("machines of one's own are paid for all the time: switched off, they would save electricity only")
    if (spot := calendar.spot) and "spot" in kinds:
        often = written_duration(1 / spot.interruptions)
        where = f"of {spot.zones} zones" if spot.zones > 1 else "of the zone"
        said.append(f"each spot machine is taken once in {often} on average, warned {spot.notice:g} s before; "
                    f"{spot.together:.0%} of the time with all machines {where}, and then none can be had there for "
                    f"{written_duration(spot.shortage)} (`calendar.spot.together`, `.zones`, `.shortage`)")  # fmt: skip
    return (*said, *of_trial(machines.loaded.scenario, machines.trial, catalog.assumptions))


def doubts(shape: Shape, course: Course) -> list[str]:
    """What a recording leaves open."""
    said = []
    if shape.peak_high > 1:
        peak, name = float(course.factors.max()), course.group.offer.instance
        now, then = (course.group.needed(peak * times) for times in (1.0, shape.peak_high))
        sure = f"the recording's peak is known to {shape.peak_low - 1:+.0%} and {shape.peak_high - 1:+.0%}"
        more = f"at its upper end {then} x {name} are needed instead of {now}"
        said.append(f"{sure}: {more if then > now else f'{now} x {name} serve it either way'}")
    if shape.hidden > HIDDEN:
        said.append(
            f"a crowd of {CROWD_MIN} minutes with up to {shape.hidden:.1f} times the mean load would not show in so "
            "sparse a recording: record more of the requests, or keep room for it"
        )
    return said


def warned(course: Course, ways: dict[Way, Found], today: date) -> tuple[str, ...]:
    """What weakens the answer."""
    machines = course.group
    of_peak = cautions(machines.loaded.scenario, machines.demand, machines.trial, today)
    said = [f"{c.what}: {c.remedy}" if c.remedy else c.what for c in of_peak]
    parts = {part for found in ways.values() for part in found.strategy.parts}
    told = (PriceKind.ON_DEMAND, machines.offer.instance)
    old = {(p.price_kind, p.instance, p.price_as_of) for p in parts if stale(p.price_as_of, today)}
    old = {one for one in old if one[:2] != told}
    said += [f"the {kind} price of {name} is of {as_of}: look it up" for kind, name, as_of in sorted(old)]
    most = machines.machines_max
    if course.needed[-1] >= most and machines.misses(float(course.levels.factor[-1]), most):
        said.append("even all machines that may be had miss a promise at the busiest level: raise `buy.max_gpus`")
    return tuple(dict.fromkeys(said))
