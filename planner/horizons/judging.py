"""What machines over time do for a load that changes: who is in time, hour by hour, as replays of its levels tell."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from planner.horizons.answer import Promise
from planner.horizons.demand import MINUTE_S, MINUTES_PER_DAY, MINUTES_PER_HOUR, Levels
from planner.horizons.machines import Behaviour, Group
from planner.horizons.sections import Keep
from planner.replications import longest_slo_s
from simulator.autoscaling import Timeline
from simulator.deployment import Drop
from simulator.workload import Floats

TINY = 1e-12
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

    @cached_property
    def load_erlangs(self) -> Floats:
        """Machines that each minute's load keeps busy in the best of its batches."""
        return self.factors * self.group.load_erlangs

    @cached_property
    def needed(self) -> NDArray[np.intp]:
        """Fewest machines that keep every promise on average at each level."""
        found = [0]
        for factor in self.levels.factor.tolist():
            found.append(self.group.needed(factor, found[-1]))
        return np.array(found[1:], dtype=np.intp)


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


@dataclass(frozen=True)
class Judged:
    """What is in time in each stretch, by model, and how sure that is."""

    share: Mapping[str, Floats]
    behaviour: NDArray[np.intp]
    """Which of `seen` it was told by."""
    seen: tuple[Behaviour, ...]


Weighed = tuple[Judged, Floats, Stretches]
UNKNOWN = Behaviour({}, 0.0)
"""Taken to have all requests in time, for sure."""


def judged(course: Course, cut: Stretches, *, only_known: bool = False) -> Judged:
    """Shares of requests in time, as replays of each level of load on each number of machines tell them.

    `only_known`: at best, nothing is replayed anew.
    """
    group, level = course.group, course.levels.of_minute[cut.minute]
    width = int(cut.ready.max()) + 1
    pairs, which = np.unique(level * width + cut.ready, return_inverse=True)
    factor = course.levels.factor
    look = group.known if only_known else group.behaviour
    seen = tuple(look(float(factor[p // width]), int(p % width)) or UNKNOWN for p in pairs)
    shares = {model: np.array([one.attainment.get(model, 1.0) for one in seen])[which] for model in group.targets}
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
    load = course.load_erlangs[cut.minute]
    rate = load - cut.ready - course.group.beside_erlangs_most
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
    parts = weighed(course, cuts)
    return tuple(_promise(model, target, parts, keep) for model, target in course.group.targets.items())


def weighed(course: Course, cuts: Sequence[Stretches], *, only_known: bool = False) -> "list[Weighed]":
    """What each timeline does, and how much load each of its stretches has."""
    return [
        (judged(course, cut, only_known=only_known), course.factors[cut.minute] * cut.lengths_s, cut) for cut in cuts
    ]


def keeps(course: Course, cuts: Sequence[Stretches], keep: Keep, keep_share: float) -> bool:
    """Whether every model keeps its SLO; replays begin where machines are scarcest, and end where it cannot be."""
    group, factor = course.group, course.levels.factor

    def may() -> bool:
        parts = weighed(course, cuts, only_known=True)
        return all(
            float(np.mean(_shares(model, parts, PERIODS[keep])[1] >= target)) >= keep_share - TINY
            for model, target in group.targets.items()
        )

    if not may():
        return False
    met = {
        (int(level), int(n))
        for cut in cuts
        for level, n in zip(course.levels.of_minute[cut.minute], cut.ready, strict=True)
    }
    capacity = {n: n + group.beside_erlangs for _, n in met}
    for level, n in sorted(met, key=lambda pair: (capacity[pair[1]] / max(factor[pair[0]], TINY), pair)):
        if group.known(float(factor[level]), n) is None:
            seen = group.behaviour(float(factor[level]), n)
            if any(seen.attainment[m] < target for m, target in group.targets.items()) and not may():
                return False
    return may()


def _promise(model: str, target: float, parts: Sequence[Weighed], keep: Keep) -> Promise:
    whole, low = _shares(model, parts, lambda cut: cut.minute * 0, apart=False)
    return Promise(
        model=model,
        slo_attainment=float(whole[0]),
        slo_attainment_low=float(low[0]),
        slo_attainment_target=target,
        kept_share=float(np.mean(_shares(model, parts, PERIODS[keep])[1] >= target)),
        worst_hour=float(_shares(model, parts, PERIODS[Keep.HOUR])[0].min()),
        worst_minute=float(_shares(model, parts, lambda cut: cut.minute)[0].min()),
    )


def _shares(
    model: str, parts: Sequence[Weighed], period: Callable[[Stretches], NDArray[np.intp]], *, apart: bool = True
) -> tuple[Floats, Floats]:
    """In each period with requests: the share in time, and the low end of its interval.

    `apart`: the periods of each timeline count by themselves. A level is told by the same replays wherever it comes, so
    that within a period its errors add up.
    """
    each = int(max(period(cut)[-1] for _, _, cut in parts)) + 1
    count = each * (len(parts) if apart else 1)
    asked, timely = np.zeros(count), np.zeros(count)
    unsure: dict[int, tuple[float, Floats]] = {}
    for i, (found, weight, cut) in enumerate(parts):
        at = period(cut) + (i * each if apart else 0)
        asked += np.bincount(at, weight, minlength=count)
        timely += np.bincount(at, weight * found.share[model], minlength=count)
        for number, one in enumerate(found.seen):
            if error := one.error.get(model, 0.0):
                mine = found.behaviour == number
                before = unsure.get(id(one), (error, np.zeros(count)))[1]
                unsure[id(one)] = error, before + np.bincount(at[mine], weight[mine], minlength=count)
    variance = sum(((error * load) ** 2 for error, load in unsure.values()), np.zeros(count))
    busy = asked > 0
    share = timely[busy] / asked[busy]
    return share, share - SIGMAS * np.sqrt(variance[busy]) / asked[busy]


def kept(found: Sequence[Promise], keep_share: float) -> bool:
    """Whether every model keeps its SLO in so large a share of the hours, days or calendars."""
    return all(promise.kept_share >= keep_share - TINY for promise in found)


def hopeless(course: Course, timeline: Timeline, keep: Keep, keep_share: float) -> bool:
    """Whether even machines that are never idle leave too much undone: seen without a replay.

    Of the work that comes in a period, no more is done than the machines that answer have time for; so that some model
    has less of its requests in time than that, whatever goes before what.
    """
    scenario, targets = course.group.loaded.scenario, course.group.targets.values()
    if scenario.drop is Drop.NEVER or longest_slo_s(scenario) > MINUTE_S:
        return False  # what waits may be done later
    cut = stretches(timeline, len(course.factors))
    load = course.load_erlangs[cut.minute]
    done = np.minimum(load, cut.ready + course.group.beside_erlangs_most) * cut.lengths_s
    at = PERIODS[keep](cut)
    asked = np.bincount(at, load * cut.lengths_s)
    busy = asked > 0
    most = np.bincount(at, done)[busy] / asked[busy]
    surely_kept = 1 - len(targets) * (1 - keep_share)  # each model may miss periods of its own
    return float(np.mean(most >= min(targets))) < surely_kept - TINY
