"""Ways to keep machines over days: when how many run, what that costs, and how many requests are in time."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from planner.catalog import Offer
from planner.horizons.answer import Band, Promise, Strategy, Way
from planner.horizons.demand import MINUTE_S, MINUTES_PER_DAY, MINUTES_PER_HOUR, Levels, calendar_of, frames
from planner.horizons.machines import Behaviour, Group
from planner.horizons.sections import Keep
from planner.units import HOURS_PER_MONTH
from simulator.autoscaling import Autoscaling, Interruptions, Timeline, follow
from simulator.deployment import Drop
from simulator.metrics import confidence_interval
from simulator.workload import Floats

HOUR_S = 3600.0
SIGMAS = 1.96
"""Half the width, in standard deviations, of an interval that holds with 95 %."""
PERIODS: Mapping[Keep, Callable[["Stretches"], NDArray[np.intp]]] = {
    Keep.HOUR: lambda cut: cut.hour,
    Keep.DAY: lambda cut: cut.minute // MINUTES_PER_DAY,
    Keep.WHOLE: lambda cut: cut.minute * 0,
}
"""Which hour or day each stretch lies in."""


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


def autoscaled(course: Course, policy: Autoscaling) -> Timeline:
    """As the load wants, on demand."""
    return follow(policy, course.load_erlangs(), MINUTE_S)


def with_base(timeline: Timeline, machines: int) -> Timeline:
    """The same, but never fewer than a base.

    Machines come and go as on a stack, the newest first, so that those above the base do what they would without it.
    """
    paid, ready = np.maximum(timeline.paid, machines), np.maximum(timeline.ready, machines)
    orders = int(np.maximum(np.diff(paid), 0).sum())
    return replace(timeline, paid=paid, ready=ready, orders=orders)


def spot(course: Course, policy: Autoscaling, interruptions: Interruptions, seeds: Sequence[int]) -> list[Timeline]:
    """As the load wants, of machines that are taken: one timeline for each seed."""
    load = course.load_erlangs()
    return [follow(policy, load, MINUTE_S, interruptions=interruptions, seed=seed) for seed in seeds]


@dataclass(frozen=True)
class Judged:
    """What is in time in each stretch, by model, and how sure that is."""

    share: Mapping[str, Floats]
    behaviour: NDArray[np.intp]
    """Which of `seen` it was told by."""
    seen: tuple[Behaviour, ...]


def judged(course: Course, cut: Stretches) -> Judged:
    """Shares of requests in time, as replays of each level of load on each number of machines tell them."""
    group, level = course.group, course.levels.of_minute[cut.minute]
    width = int(cut.ready.max()) + 1
    pairs, which = np.unique(level * width + cut.ready, return_inverse=True)
    factor = course.levels.factor
    seen = tuple(group.behaviour(float(factor[p // width]), int(p % width)) for p in pairs)
    shares = {model: np.array([one.attainment[model] for one in seen])[which] for model in group.targets}
    if group.loaded.scenario.drop is Drop.NEVER:
        waiting = backlogged(course, cut)
        shares = {model: share * (1 - waiting) for model, share in shares.items()}
    return Judged(shares, which, seen)


def attainment(course: Course, cut: Stretches) -> Mapping[str, Floats]:
    """Share of requests in time in each stretch, by model."""
    return judged(course, cut).share


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


def promises(course: Course, cuts: Sequence[Stretches], keep: Keep) -> tuple[Promise, ...]:
    """Each model over the whole calendar, over all timelines of a way."""
    parts = [(judged(course, cut), course.factors[cut.minute] * cut.lengths_s, cut) for cut in cuts]
    return tuple(_promise(model, target, parts, keep) for model, target in course.group.targets.items())


def _promise(model: str, target: float, parts: Sequence[tuple[Judged, Floats, Stretches]], keep: Keep) -> Promise:
    whole, low, _ = _shares(model, parts, lambda cut: cut.minute * 0)
    kept = _shares(model, parts, PERIODS[keep])[1]
    return Promise(
        model=model,
        slo_attainment=float(whole[0]),
        slo_attainment_low=float(low[0]),
        slo_attainment_target=target,
        kept_share=float(np.mean(kept >= target)),
        worst_hour=float(_shares(model, parts, PERIODS[Keep.HOUR])[0].min()),
        worst_minute=float(_shares(model, parts, lambda cut: cut.minute)[0].min()),
    )


def _shares(
    model: str, parts: Sequence[tuple[Judged, Floats, Stretches]], period: Callable[[Stretches], NDArray[np.intp]]
) -> tuple[Floats, Floats, Floats]:
    """In each period with requests: the share in time, the low end of its interval, and its weight.

    A level is told by the same replays wherever it comes, so that within a period its errors add up.
    """
    count = int(max(period(cut)[-1] for _, _, cut in parts)) + 1
    asked, timely, variance = np.zeros(count), np.zeros(count), np.zeros(count)
    for found, weight, cut in parts:
        at = period(cut)
        asked += np.bincount(at, weight, minlength=count)
        timely += np.bincount(at, weight * found.share[model], minlength=count)
        errors = np.array([one.error.get(model, 0.0) for one in found.seen])
        unsure = np.flatnonzero(errors)
        for one in unsure:
            mine = found.behaviour == one
            variance += (np.bincount(at[mine], weight[mine], minlength=count) * errors[one]) ** 2
    busy = asked > 0
    share = timely[busy] / asked[busy]
    return share, share - SIGMAS * np.sqrt(variance[busy]) / asked[busy], asked[busy]


def kept(found: Sequence[Promise], keep_share: float) -> bool:
    """Whether every model keeps its SLO in so large a share of the hours, days or calendars."""
    return all(promise.kept_share >= keep_share - 1e-12 for promise in found)


def hopeless(course: Course, timeline: Timeline, keep: Keep, keep_share: float) -> bool:
    """Whether even machines that are never idle leave too much undone: seen without a replay.

    Of the work that comes in a period, no more is done than the machines that answer have time for; so that some model
    has less of its requests in time than that, whatever goes before what.
    """
    if course.group.loaded.scenario.drop is Drop.NEVER:
        return False  # what waits may be done in the next period
    cut = stretches(timeline, len(course.factors))
    load = course.load_erlangs()[cut.minute]
    done = np.minimum(load, cut.ready) * cut.lengths_s
    at = PERIODS[keep](cut)
    asked = np.bincount(at, load * cut.lengths_s)
    busy = asked > 0
    most = np.bincount(at, done)[busy] / asked[busy]
    return float(np.mean(most >= min(course.group.targets.values()))) < keep_share - 1e-12


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
    calendar = calendar_of(course.group.loaded)
    found = promises(course, cuts, calendar.keep)
    usd = cost(way, timelines, reserved, prices)
    hours = course.duration_s / HOUR_S
    return Strategy(
        way=way,
        label=label(way, offer, reserved, timelines[0]),
        met=kept(found, calendar.keep_share),
        cost_usd=usd,
        cost_usd_per_month=usd.mid / hours * HOURS_PER_MONTH,
        usd_per_million_requests=usd.mid / frames(course.group.demand, course.factors) * 1e6,
        promises=found,
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


def label(way: Way, offer: Offer, reserved: int, timeline: Timeline) -> str:
    """What a way is called before people."""
    least, most = (int(end(timeline.paid)) for end in (np.min, np.max))
    floor = f", never fewer than {least}" if least > 1 else ""
    rest = "" if most <= reserved else ", the rest on demand as the load wants"
    labels: Mapping[Way, str] = {
        Way.FIXED: f"{most} x {offer.instance}, on demand, all the time",
        Way.AUTOSCALED: f"{offer.instance} on demand, as the load wants{floor}",
        Way.RESERVED: f"{reserved} x {offer.instance} reserved{rest}",
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
