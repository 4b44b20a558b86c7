"""The walk of `planner horizon`: load by the minute, levels, what machines do at each, and the ways side by side."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from time import perf_counter

import numpy as np

from planner.answer import assumptions as of_trial
from planner.answer import cautions, seed_of
from planner.catalog import Catalog, Instance, stale
from planner.catalog import Price as CatalogPrice
from planner.horizons.answer import Band, Horizon, Level, Strategy, Way
from planner.horizons.day import check_day
from planner.horizons.demand import MINUTE_S, MINUTES_PER_HOUR, calendar_of, frames, levels, minute_factors, refuse
from planner.horizons.machines import REPLAYS, Group, group
from planner.horizons.sections import AutoscalingSpec, CalendarSpec
from planner.horizons.strategies import (
    Course,
    Prices,
    autoscaled,
    cost,
    hopeless,
    needed_by_hour,
    spot,
    strategy,
    with_base,
)
from planner.load import Loaded
from planner.names import with_known_names
from planner.scenario import PriceKind
from planner.search import NothingToPlanError, Progress, silent
from planner.sizing import Profiles
from planner.units import written_duration
from simulator.autoscaling import Autoscaling, Interruptions, Timeline, constant
from simulator.deployment import Drop

STAGE = 4
"""Seeds of interruptions are no others'."""
Line = tuple[list[Timeline], int]
"""Timelines of one way, one for each seed of what is random, and the machines of them that are reserved."""


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
    factors = minute_factors(loaded, calendar)
    if not factors.any():
        raise NothingToPlanError("calendar: has no load at all. Write some factors above 0.")
    machines = group(loaded, catalog, library, float(factors.max()), progress)
    policy = policy_of(machines, calendar.autoscaling)
    course = course_of(machines, factors, calendar.representatives, progress)
    prices, left_out = prices_of(machines, catalog, calendar)
    lines = candidates(course, policy, prices, calendar)
    if check is not None and check not in lines:
        known = ", ".join(lines)
        raise NothingToPlanError(f"--check-day {check}: is not among the ways that are compared. Known: {known}.")
    weighed: dict[Way, tuple[Strategy, Line]] = {}
    for i, (way, some) in enumerate(lines.items()):
        progress(f"replaying {way}", i / len(lines))
        weighed[way] = chosen(course, way, some, prices)
    found = tuple(one for one, _ in weighed.values())
    day = check_day(course, check, weighed[check][1][0][0], progress) if check else None
    scenario = loaded.scenario
    rate_rps = sum(machines.demand.rates_rps().values())
    today = date.fromisoformat(created_at[:10])
    return Horizon(
        scenario=scenario.name or loaded.path.stem,
        scenario_sha256=loaded.sha256,
        seed=scenario.seed,
        created_at=created_at,
        days=calendar.days,
        keep=calendar.keep,
        keep_share=calendar.keep_share,
        requests=frames(machines.demand, factors),
        requests_by_hour=tuple((factors.reshape(-1, MINUTES_PER_HOUR).sum(axis=1) * rate_rps * MINUTE_S).tolist()),
        peak_factor=float(factors.max() / factors.mean()),
        instance=machines.offer.instance,
        gpu=machines.offer.gpu.name,
        gpus_per_machine=machines.offer.gpu_count,
        price_usd_per_hour=machines.offer.usd_per_hour,
        price_as_of=machines.offer.as_of,
        start_s=policy.boot_s + policy.load_s,
        target_utilization=policy.target_utilization,
        levels=shown_levels(course, rate_rps),
        gpus_needed_by_hour=needed_by_hour(course),
        strategies=found,
        best=best(found),
        not_compared=tuple(left_out),
        check=day,
        requests_replayed=machines.requests + machines.trial.replay.requests,
        wall_s=perf_counter() - began_s,
        assumptions=assumed(course, calendar, lines, catalog),
        warnings=warned(course, catalog, lines, today),
    )


def course_of(machines: Group, factors: np.ndarray, representatives: int, progress: Progress) -> Course:
    """Levels of load, and the fewest machines that keep every promise at each."""
    found = levels(factors, representatives)
    needed = [1]
    for i, factor in enumerate(found.factor.tolist()):
        progress("machines needed at each level of load", i / len(found.factor))
        needed.append(machines.needed(factor, needed[-1]))
    return Course(machines, factors, found, np.array(needed[1:], dtype=np.intp))


def policy_of(machines: Group, spec: AutoscalingSpec) -> Autoscaling:
    """The autoscaler as the simulator takes it; ScenarioError where it shall keep more machines than may be had."""
    if spec.min > machines.machines_max:
        most = f"{machines.machines_max} x {machines.offer.instance}, the most that may be had"
        path, buy = ("calendar", "autoscaling", "min"), machines.loaded.scenario.buy
        rule = f"must be at most {most} (`buy.max_gpus` is {buy.max_gpus}), got {spec.min}."
        raise refuse(machines.loaded, path, f"{rule} Write less, or raise `buy.max_gpus`.")
    return Autoscaling(
        target_utilization=spec.target_utilization,
        boot_s=spec.boot,
        load_s=loading_s(machines) if spec.load is None else spec.load,
        scale_down_delay_s=spec.scale_down_delay,
        interval_s=spec.interval,
        machines_min=spec.min,
        machines_max=min(spec.max or machines.machines_max, machines.machines_max),
    )


def loading_s(machines: Group) -> float:
    """Time to bring the weights of all models into a GPU's memory one after the other, as their profiles say."""
    profiles = {p.portion.sized.model: p.portion.sized.profile for p in machines.trial.packing.placed}
    return sum(profile.load(profile.weight_bytes) for profile in profiles.values())


def candidates(course: Course, policy: Autoscaling, prices: Prices, calendar: CalendarSpec) -> dict[Way, list[Line]]:
    """By way that has a price: machines over time, and how many of them are reserved, cheapest first.

    A base of any size, alone or below machines that follow the load. More than the busiest level needs are never
    cheaper.
    """
    most = max(int(course.needed[-1]), course.group.machines_peak)
    following = autoscaled(course, policy)
    constants = {n: constant(n, course.duration_s) for n in range(1, most + 1)}
    floors = {n: with_base(following, n) for n in range(policy.machines_min, min(most, policy.machines_max) + 1)}
    found: dict[Way, list[Line]] = {
        Way.FIXED: [([line], 0) for line in constants.values()],
        Way.AUTOSCALED: [([line], 0) for line in floors.values()],
    }
    if prices.reserved is not None:
        found[Way.RESERVED] = [([line], n) for lines in (constants, floors) for n, line in lines.items()]
    if prices.spot is not None and calendar.spot is not None:
        interruptions = Interruptions(rate_per_s=calendar.spot.interruptions, notice_s=calendar.spot.notice)
        scenario = course.group.loaded.scenario
        seeds = [seed_of(scenario.seed, STAGE, i) for i in range(scenario.replications)]
        found[Way.SPOT] = [(spot(course, policy, interruptions, seeds), 0)]
    return {way: sorted(lines, key=partial(usd_of, way, prices)) for way, lines in found.items()}


def usd_of(way: Way, prices: Prices, line: Line) -> float:
    """Dollars of one line."""
    timelines, reserved = line
    return cost(way, timelines, reserved, prices).mid


def chosen(course: Course, way: Way, lines: Sequence[Line], prices: Prices) -> tuple[Strategy, Line]:
    """The cheapest that keeps every SLO; where none does, that which comes nearest."""
    calendar = calendar_of(course.group.loaded)
    missed: list[tuple[Strategy, Line]] = []
    for line in lines:
        if len(lines) > 1 and any(hopeless(course, one, calendar.keep, calendar.keep_share) for one in line[0]):
            continue
        found = strategy(course, way, *line, prices)
        if found.met:
            return found, line
        missed.append((found, line))
    if not missed:
        missed = [(strategy(course, way, *lines[-1], prices), lines[-1])]
    return max(missed, key=lambda one: nearness(one[0]))


def nearness(found: Strategy) -> tuple[float, float]:
    """How nearly a way keeps the SLO that it keeps least."""
    return (
        min(p.kept_share for p in found.promises),
        min(p.slo_attainment - p.slo_attainment_target for p in found.promises),
    )


def best(found: Sequence[Strategy]) -> str:
    """The way that keeps every promise at least cost."""
    met = [s for s in found if s.met]
    return min(met, key=lambda s: s.cost_usd.mid).way if met else ""


def instance_of(machines: Group, catalog: Catalog) -> Instance | None:
    """The machine in the catalog; None for one's own."""
    offer = machines.offer
    wanted = (offer.provider, offer.region, offer.instance)
    return next((i for i in catalog.instances if (i.provider, i.region, i.name) == wanted), None)


def listed(machines: Group, catalog: Catalog, kind: PriceKind) -> CatalogPrice | None:
    """The catalog's price of that kind."""
    instance = instance_of(machines, catalog)
    return instance.prices.get(kind) if instance else None


def prices_of(machines: Group, catalog: Catalog, calendar: CalendarSpec) -> tuple[Prices, list[str]]:
    """What an hour of one machine costs by kind, and which ways are left out for want of a price."""
    found, left_out, name = Prices(machines.offer.usd_per_hour), [], machines.offer.instance
    term = PriceKind(calendar.reserved.term)
    reserved = listed(machines, catalog, term)
    if usd := calendar.reserved.price or (reserved and reserved.usd_per_hour):
        found = replace(found, reserved=usd)
    else:
        left_out.append(f"a reserved base: no {term} price of {name} is known. Give `calendar.reserved.price`.")
    if calendar.spot is None:
        left_out.append("spot: give `calendar.spot.interruptions` to have it compared.")
        return found, left_out
    price = listed(machines, catalog, PriceKind.SPOT)
    if usd := calendar.spot.price:
        found = replace(found, spot=Band(low=usd, mid=usd, high=usd))
    elif price:
        low, high = price.usd_per_hour_range or (price.usd_per_hour, price.usd_per_hour)
        found = replace(found, spot=Band(low=low, mid=(low + high) / 2, high=high))
    else:
        left_out.append(f"spot: no spot price of {name} is known. Give `calendar.spot.price`.")
    return found, left_out


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


def assumed(course: Course, calendar: CalendarSpec, lines: Collection[Way], catalog: Catalog) -> tuple[str, ...]:
    """What the answer takes for granted."""
    machines, count = course.group, len(course.levels.factor)
    each_s = machines.judged_s(float(course.factors.max()))
    said = [
        f"{len(course.factors):,} minutes are taken for {count} levels of load; each is replayed {REPLAYS} times for "
        f"{each_s:.0f} s or more on every number of machines that meets it",
        "load changes by the minute; within it, requests come as the streams say",
        "machines are paid by the second, from their order until they are given back",
    ]
    if machines.loaded.scenario.drop is Drop.NEVER:
        said.append("nothing is dropped: behind a backlog all requests are late, and it is worked off in full batches")
    if Way.RESERVED in lines:
        said.append(f"a {calendar.reserved.term} reservation is paid for its whole term, all of it like this calendar")
    if calendar.spot and Way.SPOT in lines:
        often = written_duration(1 / calendar.spot.interruptions)
        said.append(f"each spot machine is taken once in {often} on average, at random, warned "
                    f"{calendar.spot.notice:g} s before; another can always be had at the same price")  # fmt: skip
    return (*said, *of_trial(machines.loaded.scenario, machines.trial, catalog.assumptions))


def warned(course: Course, catalog: Catalog, lines: Collection[Way], today: date) -> tuple[str, ...]:
    """What weakens the answer."""
    machines = course.group
    of_peak = cautions(machines.loaded.scenario, machines.demand, machines.trial, today)
    said = [f"{c.what}: {c.remedy}" if c.remedy else c.what for c in of_peak]
    calendar = calendar_of(machines.loaded)
    kinds = {Way.RESERVED: PriceKind(calendar.reserved.term), Way.SPOT: PriceKind.SPOT}
    for way, kind in kinds.items():
        price = listed(machines, catalog, kind)
        if way in lines and price and stale(price.as_of, today):
            said.append(f"the {kind} price of {machines.offer.instance} is of {price.as_of}: look it up")
    if (course.needed[-1] >= machines.machines_max) and machines.misses(
        float(course.levels.factor[-1]), machines.machines_max
    ):
        said.append("even all machines that may be had miss a promise at the busiest level: raise `buy.max_gpus`")
    return tuple(said)
