"""Machines of the rest that are wanted over time: a constant number, by a timetable, or as the load wants."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from planner.model.calendar import Keep
from planner.questions.horizons.answer import Mode
from planner.questions.horizons.demand import MINUTE_S, MINUTES_PER_HOUR
from planner.questions.horizons.judging import SIGMAS, Course
from planner.questions.horizons.machines import Behaviour, MachineBase, MachineGroup
from planner.questions.horizons.question import HorizonQuestion
from simulator.clock.autoscaling import HOUR_S, ROUNDING, Counts, Wishes, constant, followed
from simulator.world.workload import Floats

MakeWishes = Callable[[], Wishes]
"""Wishes are made when somebody looks at them: of most candidates nobody does twice."""


@dataclass(frozen=True)
class RestPlan:
    """A number, a timetable or an autoscaler of the rest."""

    target: float | None
    """Target utilization; None where there is none."""
    wishes: MakeWishes


@dataclass(frozen=True)
class RestPlans:
    """All plans of the rest in one mode, beside bases of every size.

    Beside a base of the same type, the rest is what is wanted without a base, less the base. Beside a base of another
    type, two plans are made: the base does its part of every model, or it does what it is best at.
    """

    question: HorizonQuestion
    group: MachineGroup
    """Machines of the rest, without a base."""
    mode: Mode
    without_base: dict[float | None, Wishes] = field(default_factory=dict)
    """Wishes without a base, by target: they serve all sizes of the base."""

    def beside(self, base: MachineBase | None) -> Iterator[RestPlan]:
        """Each plan beside a base."""
        group = self.group.beside(base)
        same_type = base is None or group.of_one_type(1) is not None
        match self.mode:
            case Mode.CONSTANT:
                for machines in range(1, self.question.most_machines(group) + 1):
                    yield RestPlan(None, partial(constant, machines, self.question.duration_s))
            case Mode.SCHEDULED if same_type:
                yield from self._less_base(base, self.question.grid, timetable)
                yield from self._limited(base, None, partial(fewest, self.question, self.group))
            case Mode.SCHEDULED:
                yield from self._beside_other_type(group, self.question.grid, timetable)
            case Mode.AUTOSCALED if same_type:
                yield from self._less_base(base, self.question.targets, following)
            case Mode.AUTOSCALED:
                yield from self._beside_other_type(group, self.question.targets, following)

    def _less_base(self, base: MachineBase | None, targets: Sequence[float], make: "ByTarget") -> Iterator[RestPlan]:
        for target in targets:
            yield from self._limited(base, target, partial(make, self.question, self.group, target, 0.0))

    def _beside_other_type(self, group: MachineGroup, targets: Sequence[float], make: "ByTarget") -> Iterator[RestPlan]:
        base_erlangs = dict.fromkeys((group.base_erlangs, group.base_erlangs_most))
        for target in targets:
            for erlangs in base_erlangs:
                yield RestPlan(target, partial(make, self.question, group, target, erlangs))

    def _limited(self, base: MachineBase | None, target: float | None, make: MakeWishes) -> Iterator[RestPlan]:
        """One plan without a limit of machines, and one with each limit that may be cheaper."""
        in_base = base.machines if base else 0
        unlimited = partial(self._beyond, in_base, target, make)
        yield RestPlan(target, unlimited)
        needed, calendar = int(self.question.needed(self.group)[-1]), self.question.calendar
        may_miss = calendar.keep is not Keep.HOUR or calendar.keep_share < 1
        limits = range(1, needed + 1) if may_miss else (needed,)
        for most in limits:
            yield RestPlan(target, partial(at_most, most - in_base, unlimited))

    def _beyond(self, in_base: int, target: float | None, make: MakeWishes) -> Wishes:
        if target not in self.without_base:
            self.without_base[target] = make()
        return self.without_base[target].beyond(in_base)


ByTarget = Callable[[HorizonQuestion, MachineGroup, float, float], Wishes]
"""Wishes by target utilization, beside a base that does so many erlangs."""


def at_most(most: int, make: MakeWishes) -> Wishes:
    """The same wishes, cut off at so many machines."""
    wishes = make()
    return replace(wishes, count=np.clip(wishes.count, 0, max(0, most)))


def following(question: HorizonQuestion, group: MachineGroup, target: float, base_erlangs: float) -> Wishes:
    """Machines that the autoscaler wants for the load beyond that of the base."""
    load = np.maximum(question.course(group).load_erlangs - target * base_erlangs, 0)
    return followed(question.policy(group, target), load, MINUTE_S)


def timetable(question: HorizonQuestion, group: MachineGroup, target: float, base_erlangs: float) -> Wishes:
    """Machines of each hour, so many that none has more than the target in its busiest minute, beside the base."""
    by_hour = question.course(group).load_erlangs.reshape(-1, MINUTES_PER_HOUR)
    machines = np.ceil(by_hour.max(axis=1) / target - base_erlangs - ROUNDING).astype(np.intp)
    return hourly(question, np.clip(machines, 0, group.machines_max))


def fewest(question: HorizonQuestion, group: MachineGroup) -> Wishes:
    """The fewest machines of each hour that meet every SLO in it."""
    course = question.course(group)
    levels = course.levels.of_minute.reshape(-1, MINUTES_PER_HOUR)
    factors = course.factors.reshape(-1, MINUTES_PER_HOUR)
    machines = [fewest_of_hour(course, *hour) for hour in zip(levels, factors, strict=True)]
    return hourly(question, np.array(machines, dtype=np.intp))


def hourly(question: HorizonQuestion, machines: Counts) -> Wishes:
    """Wishes that change at the hour."""
    hours_s = np.arange(len(machines), dtype=float) * HOUR_S
    return Wishes(hours_s, machines, question.duration_s)


def fewest_of_hour(course: Course, levels: Counts, factors: Floats) -> int:
    """The fewest machines for an hour whose minutes have these levels, and these factors; with the headroom left to as
    many requests as the strictest SLO asks for."""
    group, targets = course.group, course.group.targets
    least = min(targets.values())
    load = float(factors.sum())
    weight: Floats = np.bincount(levels, factors).astype(float)
    for machines in range(group.machines_max):
        done_erlangs = float(np.minimum(factors * group.load_erlangs, machines).sum())
        if done_erlangs < least * load * group.load_erlangs:
            continue  # never idle, they would still leave too much undone
        with_headroom = float(factors[factors <= group.factor_max(machines)].sum())
        if group.loaded.scenario.headroom and with_headroom < max(targets.values()) * load:
            continue
        seen = {
            level: group.behaviour(float(course.levels.factor[level]), machines)
            for level in np.flatnonzero(weight).tolist()
        }
        if all(surely_in_time(seen, weight, model) >= target * load for model, target in targets.items()):
            return machines
    return group.machines_max


def surely_in_time(seen: Mapping[int, Behaviour], weight: Floats, model: str) -> float:
    """Load of one model that is in time at the low end of the 95 % interval, where each level has its weight."""
    mean = sum(some.attainment[model] * weight[level] for level, some in seen.items())
    variance = sum((some.error.get(model, 0.0) * weight[level]) ** 2 for level, some in seen.items())
    return float(mean - SIGMAS * variance**0.5)
