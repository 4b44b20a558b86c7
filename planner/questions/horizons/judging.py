"""SLO attainment of machines over time under a load that changes, hour by hour, by replays of its levels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from planner.model.calendar import Keep
from planner.model.replications import longest_slo_s
from planner.questions.horizons.answer import ModelSlo
from planner.questions.horizons.demand import MINUTE_S, MINUTES_PER_HOUR, PERIODS, WHOLE, Levels
from planner.questions.horizons.machines import Behaviour, MachineGroup
from simulator.clock.autoscaling import FleetTimeline, Wishes, timeline
from simulator.world.deployment import Drop
from simulator.world.workload import Floats

TINY = 1e-12
"""Share that rounding may cost."""
SIGMAS = 1.96
"""Half the width, in standard deviations, of a 95 % interval."""


@dataclass(frozen=True)
class Course:
    """Load over the whole calendar, and the machines that serve it."""

    group: MachineGroup
    factors: Floats
    """Factor of each minute."""
    levels: Levels
    keep: Keep
    """Periods in each of which SLOs must be met."""
    keep_share: float
    """Share of these periods that is enough."""

    @cached_property
    def load_erlangs(self) -> Floats:
        """Machines that each minute's load keeps busy in the best of its batches."""
        return self.factors * self.group.load_erlangs

    @cached_property
    def needed(self) -> NDArray[np.intp]:
        """Fewest machines that meet every SLO on average at each level."""
        counts: list[int] = []
        least = 0
        for factor in self.levels.factor.tolist():
            least = self.group.needed(factor, least)
            counts.append(least)
        return np.array(counts, dtype=np.intp)


@dataclass(frozen=True)
class Stretches:
    """Stretches of time in which neither the minute's load nor the machines change."""

    at_s: Floats
    lengths_s: Floats
    minute: NDArray[np.intp]
    paid: Floats
    ready: NDArray[np.intp]

    def periods(self, minutes: int) -> NDArray[np.intp]:
        """The period of so many minutes in which each lies."""
        return self.minute // minutes


def stretches(line: FleetTimeline, minutes: int) -> Stretches:
    """A timeline cut at every minute."""
    at_s = np.union1d(np.arange(minutes) * MINUTE_S, line.at_s)
    row = np.searchsorted(line.at_s, at_s, side="right") - 1
    return Stretches(
        at_s=at_s,
        lengths_s=np.diff(at_s, append=minutes * MINUTE_S),
        minute=(at_s // MINUTE_S).astype(np.intp),
        paid=line.paid[row],
        ready=line.ready[row].astype(np.intp),
    )


@dataclass(frozen=True)
class Judged:
    """Share of requests in time in each stretch of a timeline, and the replays that it rests on."""

    cut: Stretches
    weight: Floats
    """Load of each stretch: factor x seconds."""
    share: Mapping[str, Floats]
    """Share in time, by model."""
    replay: NDArray[np.intp]
    """Number of the stretch's replay in `replays`."""
    replays: tuple[Behaviour, ...]


NOT_REPLAYED = Behaviour({}, 0.0)
"""Stands in for a level that nobody replayed: all requests are in time, for sure."""


def judged(course: Course, cut: Stretches, *, replay: bool = True) -> Judged:
    """Shares of requests in time, by replays of each level of load on each number of machines.

    Without `replay`, what was not replayed before counts as in time: the result is an upper bound.
    """
    group = course.group
    look_up = group.behaviour if replay else group.replayed
    width = int(cut.ready.max()) + 1  # so that level x width + machines names a pair
    level = course.levels.of_minute[cut.minute]
    pairs, which = np.unique(level * width + cut.ready, return_inverse=True)
    replays = [
        look_up(float(course.levels.factor[pair // width]), pair % width) or NOT_REPLAYED for pair in pairs.tolist()
    ]
    shares: dict[str, Floats] = {
        model: np.array([seen.attainment.get(model, 1.0) for seen in replays])[which] for model in group.targets
    }
    if group.loaded.scenario.drop is Drop.NEVER:
        waiting = backlogged(course, cut)
        shares = {model: share * (1 - waiting) for model, share in shares.items()}
    weight = course.factors[cut.minute] * cut.lengths_s
    return Judged(cut, weight, shares, which, tuple(replays))


def missed_in(course: Course, cut: Stretches) -> NDArray[np.bool_]:
    """Stretches in which some SLO is missed."""
    seen = judged(course, cut).share
    short = [seen[model] < target for model, target in course.group.targets.items()]
    return np.array(np.logical_or.reduce(short))


def backlogged(course: Course, cut: Stretches) -> Floats:
    """Share of each stretch in which requests wait behind a backlog, and are late.

    Where nothing is dropped, a request that cannot be served waits, and must be served before any other is in time. The
    backlog grows by load less capacity (full batches) and is worked off by capacity less load, as a fluid.
    """
    load = course.load_erlangs[cut.minute]
    growth = load - cut.ready - course.group.base_erlangs_most
    late = np.zeros(len(growth))
    backlog = 0.0
    for i, (rate, length_s) in enumerate(zip(growth.tolist(), cut.lengths_s.tolist(), strict=True)):
        after = backlog + rate * length_s
        if after > 0:
            late[i] = 1.0
        elif backlog:
            late[i] = min(1.0, backlog / -rate / length_s)
        backlog = max(0.0, after)
    return late


def busy_gpu_s(course: Course, cut: Stretches) -> Floats:
    """GPU-seconds in which a batch runs, in each stretch."""
    factors = course.levels.factor[course.levels.of_minute[cut.minute]]
    pairs = zip(factors.tolist(), cut.ready.tolist(), strict=True)
    busy_gpus = [course.group.behaviour(factor, machines).busy_gpus for factor, machines in pairs]
    return np.array(busy_gpus) * cut.lengths_s


# Headroom


def leaves_headroom(course: Course, wishes: Wishes) -> bool:
    """In each period the machines that are wanted leave the headroom to as many requests as the strictest SLO asks for.

    Seen without a replay. Machines count as if they answered once they are wanted, and nobody took them away. Where no
    headroom is asked, SLOs alone decide.
    """
    scenario, target = course.group.loaded.scenario, max(course.group.targets.values())
    if not scenario.headroom:
        return True
    cut = stretches(timeline(wishes, 0.0), len(course.factors))
    weight = course.factors[cut.minute] * cut.lengths_s
    periods = cut.periods(PERIODS[course.keep])
    load = np.bincount(periods, weight)
    left = np.bincount(periods, weight * with_headroom(course, cut))
    busy = load > 0
    return float(np.mean(left[busy] / load[busy] >= target - TINY)) >= course.keep_share - TINY


def with_headroom(course: Course, cut: Stretches) -> NDArray[np.bool_]:
    """Stretches in which the machines that answer leave the headroom."""
    counts, which = np.unique(cut.ready, return_inverse=True)
    factor_max = np.array([course.group.factor_max(count) for count in counts.tolist()])
    return np.array(course.factors[cut.minute] <= factor_max[which])


def busiest(course: Course, cut: Stretches) -> tuple[float, int] | None:
    """The factor of the minute with most load on the machines that answer, and their number, of those minutes in which
    the headroom is left; None where it never is."""
    factors, base = course.factors[cut.minute], course.group.base_erlangs
    left = (factors > 0) & with_headroom(course, cut)
    if not left.any():
        return None
    at = np.argmax(np.where(left, factors / np.maximum(cut.ready + base, TINY), -1.0))
    return float(factors[at]), int(cut.ready[at])


# SLOs


def model_slos(course: Course, cuts: Sequence[Stretches]) -> tuple[ModelSlo, ...]:
    """Each model over the whole calendar, over all timelines of a way."""
    parts = [judged(course, cut) for cut in cuts]
    return tuple(_model_slo(model, target, parts, course.keep) for model, target in course.group.targets.items())


def _model_slo(model: str, target: float, parts: Sequence[Judged], keep: Keep) -> ModelSlo:
    whole, low = _shares(model, parts, WHOLE, apart=False)
    by_hour, _ = _shares(model, parts, MINUTES_PER_HOUR)
    by_minute, _ = _shares(model, parts, 1)
    return ModelSlo(
        model=model,
        slo_attainment=float(whole[0]),
        slo_attainment_low=float(low[0]),
        slo_attainment_target=target,
        met_share=_met_share(model, target, parts, keep),
        worst_hour=float(by_hour.min()),
        worst_minute=float(by_minute.min()),
    )


def all_met(course: Course, slos: Sequence[ModelSlo]) -> bool:
    """Every model meets its SLO in so large a share of the hours, days or calendars."""
    return all(slo.met_share >= course.keep_share - TINY for slo in slos)


def meets_slos(course: Course, cuts: Sequence[Stretches]) -> bool:
    """Every model meets its SLO. Replays begin where machines are scarcest, and end where some SLO must be missed."""
    if not _may_meet(course, cuts):
        return False
    group = course.group
    for factor, machines in _scarcest_first(course, cuts):
        if group.replayed(factor, machines) is not None:
            continue
        if group.misses_target(factor, machines) and not _may_meet(course, cuts):
            return False
    return _may_meet(course, cuts)


def _may_meet(course: Course, cuts: Sequence[Stretches]) -> bool:
    """Every model may meet its SLO, by the replays made so far."""
    parts = [judged(course, cut, replay=False) for cut in cuts]
    targets = course.group.targets.items()
    return all(_met_share(model, target, parts, course.keep) >= course.keep_share - TINY for model, target in targets)


def _scarcest_first(course: Course, cuts: Sequence[Stretches]) -> list[tuple[float, int]]:
    """Factors of levels, and the machines that meet them, by machines for each unit of load."""
    pairs = set()
    for cut in cuts:
        levels = course.levels.of_minute[cut.minute]
        pairs |= set(zip(levels.tolist(), cut.ready.tolist(), strict=True))
    factors = course.levels.factor.tolist()
    base = course.group.base_erlangs

    def scarcity(pair: tuple[int, int]) -> tuple[float, tuple[int, int]]:
        level, machines = pair
        return (machines + base) / max(factors[level], TINY), pair

    return [(factors[level], machines) for level, machines in sorted(pairs, key=scarcity)]


def _met_share(model: str, target: float, parts: Sequence[Judged], keep: Keep) -> float:
    """Share of the periods in which even the low end of the interval reaches the target."""
    _, low = _shares(model, parts, PERIODS[keep])
    return float(np.mean(low >= target))


def _shares(model: str, parts: Sequence[Judged], minutes: int, *, apart: bool = True) -> tuple[Floats, Floats]:
    """In each period of so many minutes with requests: the share in time, and the low end of its interval.

    `apart`: the periods of each timeline count by themselves. A level rests on the same replays wherever it comes, so
    that within a period its errors add up.
    """
    periods = int(max(part.cut.periods(minutes)[-1] for part in parts)) + 1
    count = periods * len(parts) if apart else periods
    load, in_time = np.zeros(count), np.zeros(count)
    by_replay: dict[int, tuple[float, Floats]] = {}  # by identity, for a replay has no name: its error, and its load
    for number, part in enumerate(parts):
        at = part.cut.periods(minutes) + (number * periods if apart else 0)
        load += np.bincount(at, part.weight, minlength=count)
        in_time += np.bincount(at, part.weight * part.share[model], minlength=count)
        for i, replay in enumerate(part.replays):
            error = replay.error.get(model, 0.0)
            if not error:
                continue
            mine = part.replay == i
            _, before = by_replay.get(id(replay), (error, np.zeros(count)))
            by_replay[id(replay)] = error, before + np.bincount(at[mine], part.weight[mine], minlength=count)
    variance = sum(((error * weight) ** 2 for error, weight in by_replay.values()), np.zeros(count))
    busy = load > 0
    share = in_time[busy] / load[busy]
    return share, share - SIGMAS * np.sqrt(variance[busy]) / load[busy]


def hopeless(course: Course, line: FleetTimeline) -> bool:
    """Even machines that are never idle leave too much undone: seen without a replay.

    Of the work that comes in a period, no more is done than the machines that answer have time for. So some model has
    no larger share of its requests in time, in whatever order they are served.
    """
    scenario, targets = course.group.loaded.scenario, course.group.targets.values()
    if scenario.drop is Drop.NEVER or longest_slo_s(scenario) > MINUTE_S:
        return False  # a request that waits may still be served in time, in a later minute
    cut = stretches(line, len(course.factors))
    load = course.load_erlangs[cut.minute]
    done = np.minimum(load, cut.ready + course.group.base_erlangs_most) * cut.lengths_s
    periods = cut.periods(PERIODS[course.keep])
    load_by_period = np.bincount(periods, load * cut.lengths_s)
    done_by_period = np.bincount(periods, done)
    busy = load_by_period > 0
    most = done_by_period[busy] / load_by_period[busy]
    surely_met = 1 - len(targets) * (1 - course.keep_share)  # each model may miss periods of its own
    return float(np.mean(most >= min(targets))) < surely_met - TINY
