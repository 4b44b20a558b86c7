"""Variants: which of the precisions and runtimes that a scenario lists each model runs in."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from calibrate.library.lookup import PRECISIONS
from planner.model.scenario import ModelSpec, Objective, Scenario
from planner.placing.fleets import cost_usd_per_hour
from planner.placing.sizing import Kind
from planner.search.question import Question

CENTS = 6
"""Digits to which two fleets cost the same."""


def on_best_evidence(scenario: Scenario, asked: Callable[[Scenario], Question]) -> Scenario:
    """The scenario with each model in the variant that costs least; of equal costs the one with better evidence, then
    the more precise one. Sizing alone would take what needs least of a GPU, even where no GPU is saved."""
    for model in scenario.models:
        if len(model.variants) == 1:
            continue
        ways = [scenario, *(_with(scenario, model, *variant) for variant in model.variants)]
        served = [question for question in map(asked, ways) if question.served]
        if served:
            scenario = min(served, key=partial(_standing, model=model.name)).scenario
    return scenario


def _with(scenario: Scenario, model: ModelSpec, precision: str | None, runtime: str | None) -> Scenario:
    models = (
        replace(one, precision=precision, runtime=runtime) if one.name == model.name else one for one in scenario.models
    )
    return replace(scenario, models=tuple(models))


def _standing(question: Question, model: str) -> tuple[float, int, int]:
    """Cost of the cheapest fleet that carries the work, and on it the model's weakest evidence and precision."""
    solution = question.program().propose(Objective.COST, design=1.0)
    if solution is None or solution.fleet is None:
        return float("inf"), 0, 0
    bought = {Kind.of(offer) for offer, n in zip(question.offers, solution.fleet, strict=True) if n}
    profiles = [one.profile for (name, kind), one in question.sized.items() if name == model and kind in bought]
    return (
        round(cost_usd_per_hour(question.offers, solution.fleet), CENTS),
        max((profile.latency_evidence.rank for profile in profiles), default=0),
        max((PRECISIONS.index(profile.precision) for profile in profiles), default=0),
    )
