"""Ways to keep machines over days: when how many run, what that costs, and how many requests are in time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from planner.catalog import Offer
from planner.horizons.answer import Band, Promise, Strategy, Way
from planner.horizons.demand import MINUTE_S, MINUTES_PER_HOUR, Levels, frames
from planner.horizons.machines import Group
from planner.units import HOURS_PER_MONTH
from simulator.autoscaling import Autoscaling, Interruptions, Timeline, constant, follow
from simulator.deployment import Drop
from simulator.metrics import confidence_interval
from simulator.workload import Floats

HOUR_S = 3600.0


@dataclass(frozen=True)
class Course:
    """Load over the whole calendar, and what is known of serving it."""

    group: Group
    factors: Floats
    """Of each minute."""
    levels: Levels
    needed: NDArray[np.intp]
    """Fewest machines for each level."""

    @property
    def duration_s(self) -> float:
        """The whole calendar."""
        return len(self.factors) * MINUTE_S

    def load_erlangs(self) -> Floats:
        """Machines that each minute's load keeps busy in the best of its batches."""
        return self.factors * (self.group.erlangs / self.group.offer.gpu_count)


@dataclass(frozen=True)
class Stretches:
    """Stretches of time in which neither the minute's load nor the machines change."""

    at_s: Floats
    lengths_s: Floats
    minute: NDArray[np.intp]
    paid: Floats
    ready: NDArray[np.intp]

    @property
    def hour(self) -> NDArray[np.intp]:
        """Which hour each lies in."""
        return self.minute // MINUTES_PER_HOUR


def stretches(timeline: Timeline, minutes: int) -> Stretches:
    """A timeline cut at every minute."""
    at_s = np.union1d(np.arange(minutes) * MINUTE_S, timeline.at_s)
    row = np.searchsorted(timeline.at_s, at_s, side="right") - 1
    lengths_s = np.diff(at_s, append=minutes * MINUTE_S)
    minute = (at_s // MINUTE_S).astype(np.intp)
    return Stretches(at_s, lengths_s, minute, timeline.paid[row], timeline.ready[row].astype(np.intp))


def fixed(course: Course) -> Timeline:
    """What the busiest minute needs, all the time."""
    return constant(course.group.machines_peak, course.duration_s)


def autoscaled(course: Course, policy: Autoscaling) -> Timeline:
    """As the load wants, on demand."""
    return follow(policy, course.load_erlangs(), MINUTE_S)


def base(timeline: Timeline, on_demand_usd_per_hour: float, reserved_usd_per_hour: float) -> int:
    """Machines to reserve: each that is used for a larger share of the time than reserved over on-demand price.

    The newsvendor's critical ratio (Edgeworth 1888; Arrow, Harris and Marschak 1951). At $0.60 of $1.00, with 4
    machines half of the time and 2 the other half: 2, for the third is used half of the time only.
    """
    used = timeline.paid.astype(np.intp)
    share = np.bincount(used, weights=timeline.lengths_s) / timeline.duration_s
    at_least = np.cumsum(share[::-1])[::-1]
    worth = at_least[1:] * on_demand_usd_per_hour > reserved_usd_per_hour
    return int(np.count_nonzero(worth))


def with_base(course: Course, policy: Autoscaling, machines: int) -> Timeline:
    """As the load wants, but never fewer than the base."""
    most = max(machines, policy.machines_max)
    return autoscaled(course, replace(policy, machines_min=max(machines, policy.machines_min), machines_max=most))


def spot(course: Course, policy: Autoscaling, interruptions: Interruptions, seeds: Sequence[int]) -> list[Timeline]:
    """As the load wants, of machines that are taken: one timeline for each seed."""
    load = course.load_erlangs()
    return [follow(policy, load, MINUTE_S, interruptions=interruptions, seed=seed) for seed in seeds]


def attainment(course: Course, cut: Stretches) -> dict[str, Floats]:
    """Share of requests in time in each stretch, by model."""
    group, level = course.group, course.levels.of_minute[cut.minute]
    width = int(cut.ready.max()) + 1
    pairs, which = np.unique(level * width + cut.ready, return_inverse=True)
    factor = course.levels.factor
    seen = [group.behaviour(float(factor[p // width]), int(p % width)).attainment for p in pairs]
    shares = {model: np.array([one[model] for one in seen])[which] for model in group.targets}
    if group.loaded.scenario.drop is not Drop.NEVER:
        return shares
    waiting = backlogged(course, cut)
    return {model: share * (1 - waiting) for model, share in shares.items()}


def backlogged(course: Course, cut: Stretches) -> Floats:
    """Share of each stretch in which requests wait behind a backlog, and are late.

    Where nothing is dropped, what cannot be served waits, and must be served before anything is in time again. It
    grows by load less capacity (full batches) and is worked off by capacity less load, as a fluid.
    """
    load = course.load_erlangs()[cut.minute]
    rate = load - cut.ready
    waiting, late = 0.0, np.zeros(len(rate))
    for i, (grows, length_s) in enumerate(zip(rate.tolist(), cut.lengths_s.tolist(), strict=True)):
        after = waiting + grows * length_s
        late[i] = 1.0 if after > 0 else min(1.0, waiting / -grows / length_s) if waiting else 0.0
        waiting = max(0.0, after)
    return late


def busy_gpu_s(course: Course, cut: Stretches) -> Floats:
    """GPU-seconds in which a batch runs, in each stretch."""
    factor = course.levels.factor
    pairs = zip(course.levels.of_minute[cut.minute].tolist(), cut.ready.tolist(), strict=True)
    busy = [course.group.behaviour(float(factor[level]), ready).busy_gpus for level, ready in pairs]
    return np.array(busy) * cut.lengths_s


def promises(course: Course, cuts: Sequence[Stretches]) -> tuple[Promise, ...]:
    """Each model over the whole calendar, over all timelines of a way."""
    parts = [(attainment(course, cut), course.factors[cut.minute] * cut.lengths_s, cut.hour) for cut in cuts]
    asked = sum(np.bincount(hour, weight) for _, weight, hour in parts)
    found = []
    for model, target in course.group.targets.items():
        timely = sum(np.bincount(hour, weight * share[model]) for share, weight, hour in parts)
        assert isinstance(timely, np.ndarray)
        assert isinstance(asked, np.ndarray)
        busy = asked > 0
        found.append(
            Promise(
                model=model,
                slo_attainment=float(timely.sum() / asked.sum()),
                slo_attainment_target=target,
                worst_hour=float(np.min(timely[busy] / asked[busy])),
            )
        )
    return tuple(found)


@dataclass(frozen=True)
class Prices:
    """What an hour of one machine costs, by kind."""

    on_demand: float
    reserved: float | None = None
    spot: Band | None = None


def cost(way: Way, timelines: Sequence[Timeline], reserved: int, prices: Prices) -> Band:
    """Dollars of the whole calendar; by the second, from the order of a machine until it is given back."""
    hours = np.array([timeline.machine_hours() for timeline in timelines])
    match way:
        case Way.SPOT:
            assert prices.spot is not None
            least, mean, most = one_more(hours.tolist())
            return Band(low=prices.spot.low * least, mid=prices.spot.mid * mean, high=prices.spot.high * most)
        case Way.RESERVED:
            assert prices.reserved is not None
            base_hours = reserved * timelines[0].duration_s / HOUR_S
            usd = base_hours * prices.reserved + (float(hours[0]) - base_hours) * prices.on_demand
        case _:
            usd = float(hours[0]) * prices.on_demand
    return Band(low=usd, mid=usd, high=usd)


def one_more(values: Sequence[float]) -> tuple[float, float, float]:
    """Where one more value of the same kind lies with 95 %, around the mean; by Student's t with root(1 + 1/n).

    9, 10 and 11: mean 10, and 4.303 x 1 x root(4/3) = 4.97 to either side. One value: no width can be known.
    """
    mean, low, high = confidence_interval(values)
    if len(values) < 2:
        return mean, mean, mean
    wider = (1 + len(values)) ** 0.5
    return max(0.0, mean - (mean - low) * wider), mean, mean + (high - mean) * wider


def strategy(course: Course, way: Way, timelines: Sequence[Timeline], reserved: int, prices: Prices) -> Strategy:
    """What one way costs and does, on average over its timelines."""
    offer, count = course.group.offer, course.group.offer.gpu_count
    cuts = [stretches(timeline, len(course.factors)) for timeline in timelines]
    kept = promises(course, cuts)
    usd = cost(way, timelines, reserved, prices)
    hours = course.duration_s / HOUR_S
    return Strategy(
        way=way,
        label=label(way, offer, reserved, course.group.machines_peak),
        met=all(p.slo_attainment >= p.slo_attainment_target for p in kept),
        cost_usd=usd,
        cost_usd_per_month=usd.mid / hours * HOURS_PER_MONTH,
        usd_per_million_requests=usd.mid / frames(course.group.demand, course.factors) * 1e6,
        promises=kept,
        gpu_hours=_mean([t.machine_hours() for t in timelines]) * count,
        wasted_gpu_hours=_mean([_hours(cut, cut.paid - _needed(course, cut)) for cut in cuts]) * count,
        short_gpu_hours=_mean([_hours(cut, _needed(course, cut) - cut.ready) for cut in cuts]) * count,
        gpus_max=int(max(t.paid.max() for t in timelines)) * count,
        base_gpus=reserved * count,
        orders=_mean([t.orders for t in timelines]),
        interruptions=_mean([t.interruptions for t in timelines]),
        gpus_by_hour=tuple((np.mean([_by_hour(cut, cut.paid) for cut in cuts], axis=0) * count).tolist()),
    )


def needed_by_hour(course: Course) -> tuple[float, ...]:
    """GPUs that the load needs, the mean of each hour."""
    needed = course.needed[course.levels.of_minute] * course.group.offer.gpu_count
    return tuple(needed.reshape(-1, MINUTES_PER_HOUR).mean(axis=1).tolist())


def label(way: Way, offer: Offer, reserved: int, peak: int) -> str:
    """What a way is called before people."""
    labels: Mapping[Way, str] = {
        Way.FIXED: f"{peak} x {offer.instance}, on demand, all the time",
        Way.AUTOSCALED: f"{offer.instance} on demand, as the load wants",
        Way.RESERVED: f"{reserved} x {offer.instance} reserved, the rest on demand as the load wants",
        Way.SPOT: f"{offer.instance} at spot price, as the load wants",
    }
    return labels[way]


def _needed(course: Course, cut: Stretches) -> NDArray[np.intp]:
    return course.needed[course.levels.of_minute[cut.minute]]


def _hours(cut: Stretches, machines: Floats | NDArray[np.intp]) -> float:
    """Machine-hours, where they are above 0."""
    return float(np.maximum(machines, 0) @ cut.lengths_s) / HOUR_S


def _by_hour(cut: Stretches, machines: Floats) -> Floats:
    return np.bincount(cut.hour, machines * cut.lengths_s) / HOUR_S


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))
