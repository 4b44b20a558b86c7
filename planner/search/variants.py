"""Variants: which of the precisions and runtimes that a scenario lists each model runs in."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

from calibrate.library.reading import PRECISIONS
from planner.model.parts.models import ModelSpec
from planner.model.scenario import Objective, Scenario
from planner.placing.fleets import cost_usd_per_hour, gpu_count
from planner.placing.sizing import Kind
from planner.search.question import Question

DIGITS = 6
"""Digits to which two fleets cost the same."""

Goal = tuple[float, ...]
"""What the objective wants little of, and of equal ones the cost."""


def on_best_evidence(
    scenario: Scenario, asked: Callable[[Scenario], Question], replayed: Callable[[Scenario], Goal | None]
) -> Scenario:
    """The scenario with each model in the variant whose fleet has least of the objective once replayed; of equal ones
    the one with better evidence, then the more precise one.

    Sizing alone would take what needs least of a GPU, even where no GPU is saved. `replayed`: None where no fleet meets
    every SLO.
    """
    for model in scenario.models:
        if len(model.variants) == 1:
            continue
        ways = [scenario, *(_with(scenario, model, *variant) for variant in model.variants)]
        served = [_SearchedVariant(question, model.name) for question in map(asked, ways) if question.served]
        if served:
            scenario = _least(sorted(served, key=lambda way: way.standing), replayed).question.scenario
    return scenario


def _with(scenario: Scenario, model: ModelSpec, precision: str | None, runtime: str | None) -> Scenario:
    models = (
        replace(one, precision=precision, runtime=runtime) if one.name == model.name else one for one in scenario.models
    )
    return replace(scenario, models=tuple(models))


@dataclass(frozen=True)
class _SearchedVariant:
    """A scenario with a model in one variant."""

    question: Question
    model: str

    @cached_property
    def standing(self) -> tuple[Goal, int, int]:
        """The goal of the best fleet that is sized for the work, the model's weakest evidence and precision on it."""
        question = self.question
        solution = question.program().propose(question.scenario.objective, design=1.0)
        if solution is None or solution.fleet is None:
            return (inf,), 0, 0
        bought = {Kind.of(offer) for offer, n in zip(question.offers, solution.fleet, strict=True) if n}
        sized = question.sized.items()
        profiles = [one.profile for (name, kind), one in sized if name == self.model and kind in bought]
        cost = round(cost_usd_per_hour(question.offers, solution.fleet), DIGITS)
        goals: dict[Objective, Goal] = {
            Objective.COST: (cost,),
            Objective.GPUS: (gpu_count(question.offers, solution.fleet), cost),
            Objective.ENERGY: (round(solution.bound, DIGITS), cost),
        }
        return (
            goals[question.scenario.objective],
            max((profile.latency_evidence.rank for profile in profiles), default=0),
            max((PRECISIONS.index(profile.precision) for profile in profiles), default=0),
        )

    def may_beat(self, goal: Goal) -> bool:
        """Whether some fleet might have less."""
        program = self.question.program()
        cost = program.lower_bound_usd_per_hour()
        if cost is None:
            return False
        match self.question.scenario.objective:
            case Objective.COST:
                least: Goal = (cost,)
            case Objective.GPUS:
                least = program.least_gpus() or 0, cost
            case Objective.ENERGY:
                least = 0.0, cost
        return tuple(round(one, DIGITS) for one in least) < goal


def _least(best_first: Iterable[_SearchedVariant], replayed: Callable[[Scenario], Goal | None]) -> _SearchedVariant:
    """The first of the ways with the least once replayed; the very first where none meets every SLO."""
    first, *others = best_first
    best, least = first, replayed(first.question.scenario) or (inf,)
    for way in others:
        if not way.may_beat(least):
            continue
        goal = replayed(way.question.scenario)
        if goal is not None and goal < least:
            best, least = way, goal
    return best
