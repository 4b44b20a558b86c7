"""Gates: conditions under which an answer fails a build, whatever else it says."""

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from planner.layout import dollars, percent, seconds
from planner.plans import Plan, Recommendation
from planner.terminal import stale_prices
from planner.units import did_you_mean, duration, fraction, price
from simulator.errors import InputError
from simulator.profile import Evidence

OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


def count(text: object) -> float:
    """A number of GPUs."""
    if not re.fullmatch(r"\d{1,6}", str(text)):
        raise ValueError(f"must be a whole number, got `{text}`. Write e.g. `4`.")
    return float(str(text))


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure of an answer that a condition may name."""

    of: Callable[[Recommendation], float]
    read: Callable[[object], float]
    """What a person writes, as a number in the figure's unit."""
    show: Callable[[float], str]


METRICS = {
    "cost": Metric(lambda best: best.cost_usd_per_hour, price, lambda usd: f"{dollars(usd)}/h"),
    "gpus": Metric(lambda best: best.gpu_count, count, lambda number: f"{number:.0f}"),
    "p99": Metric(lambda best: max(m.p99_s for m in best.models), duration, seconds),
    "attainment": Metric(
        lambda best: min(m.slo_attainment.mean for m in best.models), fraction, lambda share: f"{percent(share)} %"
    ),
}
"""Dollars an hour, GPUs, and of the worst model the 99th percentile and the share on time."""


class ConditionError(InputError):
    """A condition nobody can check, in one line."""


@dataclass(frozen=True, slots=True)
class Condition:
    """`cost>5`: what must not hold."""

    text: str
    metric: Metric
    holds: Callable[[float, float], bool]
    limit: float


def parse_conditions(texts: Sequence[str]) -> list[Condition]:
    """Conditions as they stand on the command line; ConditionError names the first that is none."""
    return [parse_condition(text) for text in texts]


def parse_condition(text: str) -> Condition:
    """`cost>5`, `gpus>=3`, `p99>80 ms`, `attainment<99 %`."""
    match = re.fullmatch(r"\s*(\w+)\s*(>=|<=|>|<)\s*(.+?)\s*", text)
    if match is None:
        raise ConditionError(f"--fail-on {text}: is no condition. Write e.g. `cost>5` or `attainment<0.99`.")
    name, sign, limit = match.groups()
    if name not in METRICS:
        hint = did_you_mean(name, list(METRICS))
        raise ConditionError(f"--fail-on {text}: unknown metric `{name}`.{hint} Known: {', '.join(METRICS)}.")
    try:
        return Condition(text, METRICS[name], OPERATORS[sign], METRICS[name].read(limit))
    except ValueError as error:
        raise ConditionError(f"--fail-on {text}: {error}") from None


def crossed(plan: Plan, conditions: Sequence[Condition]) -> list[str]:
    """One line for each condition that holds."""
    best = plan.recommendation
    if not best.models:
        return []
    return [
        f"--fail-on {c.text}: it is {c.metric.show(c.metric.of(best))}."
        for c in conditions
        if c.holds(c.metric.of(best), c.limit)
    ]


def weak(plan: Plan) -> list[str]:
    """One line for each model whose evidence is weaker than fitted, and one for stale prices."""
    models = plan.recommendation.models
    lines = [
        f"--strict: {m.name}: evidence is {m.evidence}{', foretold' * m.foretold}, weaker than fitted."
        " Give a measured one with --profiles."
        for m in models
        if m.evidence.rank > Evidence.FITTED.rank
    ]
    if stale_prices(plan):
        lines.append(f"--strict: prices of {plan.prices_as_of} are stale. Give newer ones with --catalog.")
    return lines
