"""Gates: conditions under which an answer, or what changed since an older one, fails a build, whatever else it says."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, isfinite, nan

from planner.model.plan import ModelAnswer, Plan, Recommendation
from planner.model.ranges import compared
from planner.model.statement import Code
from planner.show.text.reasons import warnings_of
from planner.units.reading import NUMBER, delay, did_you_mean, fraction, price
from planner.units.writing import dollars, percent, seconds, share
from planner.words.statements import warning
from simulator.errors import InputError
from simulator.world.profile import Evidence


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
    "cost": Metric(lambda best: best.cost_usd_per_hour, price, dollars),
    "gpus": Metric(lambda best: best.gpu_count, count, lambda number: f"{number:.0f}"),
    "p99": Metric(lambda best: max(m.p99_shown_s for m in best.models), delay, seconds),
    "attainment": Metric(
        lambda best: min(m.slo_attainment.mean for m in best.models), fraction, lambda share: f"{percent(share)} %"
    ),
}
"""Dollars an hour, GPUs, and of the worst model the 99th percentile and the share on time."""


INFEASIBLE = "infeasible"
"""The condition that an answer which was feasible no longer is."""


@dataclass(frozen=True, slots=True)
class GateCondition:
    """`cost>5`, what must not hold of an answer; or `cost>+5%`, of what changed since an older one."""

    text: str
    name: str
    """A metric, or `infeasible`."""
    sign: str = ">"
    limit: float = 0.0
    signed: bool = False
    """Whether the limit is one of the change; else it is one of the newer figure."""
    relative: bool = False
    """Whether the change is a share of the older figure."""

    def measured(self, old: float, new: float) -> float:
        """What is compared with the limit. From nothing to something is an endless rise."""
        if not self.signed or old == new:
            return 0.0 if self.signed else new
        change = new - old
        return change / old if self.relative and old else change * inf if self.relative else change

    def crossed(self, old: float, new: float) -> bool:
        """Whether it holds; a rise from $5.00 to $5.25 is 5 %, not a hair more."""
        got = self.measured(old, new)
        return isfinite(new) and compared(round(got, 12) if isfinite(got) else got, self.sign, self.limit)

    def shown(self, value: float) -> str:
        """A figure as people write it; dollars for as long as the condition asks: `$292.00/month` of $0.40/h."""
        if self.name != "cost":
            return METRICS[self.name].show(value)
        match = re.search(r"/(\w+)\s*$", self.text)
        period = match[1].lower() if match else "h"
        return f"{dollars(value / float(price.size(f'/{period}') or 1))}/{period}"

    def found(self, old: float, new: float, show: Callable[[float], str] | None = None) -> str:
        """`it is $5.25/h`, `it went from $5.00/h to $5.50/h (+10.0 %)`; `show` where the figure has another unit."""
        show = show or self.shown
        if not self.signed:
            return f"it is {show(new)}"
        part = f" ({'+' if new > old else ''}{share((new - old) / old, 1)})" if self.relative and old else ""
        return f"it went from {show(old)} to {show(new)}{part}"


def parts(text: str, examples: str) -> tuple[str, str, str]:
    """Metric, comparison and limit of a condition."""
    match = re.fullmatch(r"\s*(\w+)\s*(>=|<=|>|<)\s*(.+?)\s*", text)
    if match is None:
        raise InputError(f"--fail-on {text}: is no condition. Write e.g. {examples}.")
    name, sign, limit = match.groups()
    if name not in METRICS:
        hint = did_you_mean(name, list(METRICS))
        raise InputError(f"--fail-on {text}: unknown metric `{name}`.{hint} Known: {', '.join(METRICS)}.")
    return name, sign, limit


def parse_condition(text: str) -> GateCondition:
    """`cost>5`, `gpus>=3`, `p99>80 ms`, `attainment<99 %`."""
    name, sign, limit = parts(text, "`cost>5` or `attainment<0.99`")
    if re.fullmatch(r"[+-].*%", limit):
        raise InputError(f"--fail-on {text}: a change needs an older answer. `planner diff` takes such conditions.")
    try:
        return GateCondition(text, name, sign, METRICS[name].read(limit))
    except ValueError as error:
        raise InputError(f"--fail-on {text}: {error}") from None


def parse_change(text: str) -> GateCondition:
    """`cost>+5%`, `p99>+10 ms`, `attainment<-0.1%`, `infeasible`; and without a sign as for one answer.

    A sign makes the limit one of the change: with `%` as a share of the older figure, but for attainment, whose own
    unit that is: there `-0.1%` are a tenth of a point less.
    """
    if text.strip() == INFEASIBLE:
        return GateCondition(text, INFEASIBLE)
    name, comparison, limit = parts(text, f"`cost>+5%`, `attainment<-0.1%`, `gpus>4` or `{INFEASIBLE}`")
    signed = limit[0] in "+-"
    relative = signed and limit.endswith("%") and name != "attainment"
    try:
        size = magnitude(name, limit[signed:].strip(), relative)
    except ValueError as error:
        raise InputError(f"--fail-on {text}: {error}") from None
    return GateCondition(text, name, comparison, -size if limit[0] == "-" else size, signed, relative)


def magnitude(name: str, text: str, relative: bool) -> float:
    """Size of a limit in the unit of its figure, or as a share; none at all is a size too."""
    if text[:1] in ("+", "-"):
        raise ValueError(f"must have one sign, got a second before `{text[1:40]}`. Write e.g. `+5%`.")
    if relative:
        number = re.fullmatch(rf"({NUMBER})\s*%", text)
        if number is None:
            raise ValueError(f"must be a share, got `{text[:40]}`. Write e.g. `+5%`.")
        return float(number[1]) / 100
    return 0.0 if re.fullmatch(r"0(\.0*)?", text) else METRICS[name].read(text)


def crossed(plan: Plan, conditions: Sequence[GateCondition]) -> list[str]:
    """One line for each condition that holds."""
    if not plan.recommendation.models:
        return []
    figures = [(one, METRICS[one.name].of(plan.recommendation)) for one in conditions]
    held = [(one, got) for one, got in figures if compared(got, one.sign, one.limit)]
    return [f"--fail-on {one.text}: {one.found(nan, got)}." for one, got in held]


def _also_predicted(model: ModelAnswer) -> str:
    return ", predicted" if model.predicted and model.evidence is not Evidence.PREDICTED else ""


def weak(plan: Plan) -> list[str]:
    """A line for each model whose evidence is weaker than fitted, and one for each price that the answer calls old."""
    models = plan.recommendation.models
    lines = [
        f"--strict: {m.name}: evidence is {m.evidence}{_also_predicted(m)}, weaker than fitted."
        " Give a measured one with --profiles."
        for m in models
        if m.evidence.rank > Evidence.FITTED.rank
    ]
    old = [one for one in warnings_of(plan) if one.what.code in (Code.STALE_PRICE, Code.STALE_PRICES)]
    return [*lines, *(f"--strict: {warning(one)[0]}. Give a newer one with --catalog." for one in old)]
