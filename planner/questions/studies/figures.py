"""Figures of an answer that a study can keep: their names, units, and how each is had of a plan, replay or training."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from planner.model.plan import GpuAnswer, Interval, ModelAnswer, Plan, Policies
from planner.model.scenario import Scenario
from planner.model.simulation import Simulation
from planner.questions.training.answer.option import TrainingOption, TrainingPlan
from planner.units.writing import dollars
from planner.words.candidates import candidate_name, subject_name, way_name
from planner.words.statements import rejection_reason
from simulator.world.profile import speed_evidence_of, weakest


class Better(StrEnum):
    """Which end of a figure one wants."""

    LOW = "low"
    HIGH = "high"
    NEITHER = ""


@dataclass(frozen=True, slots=True)
class Output:
    """A figure that a study can keep."""

    unit: str
    """`s`, `USD/h`, ...; empty for words and pure numbers."""
    better: Better
    interval: bool = False
    """It has a `low` and a `high` besides its `mid`."""
    each: bool = False
    """It can be had for one model: `p99_s[yolov3]`."""
    number: bool = True
    """Else it is in words."""


@dataclass(frozen=True, slots=True)
class AskedFigure:
    """A figure that a study keeps: of one model, or of all together."""

    figure: str
    model: str
    """Empty: all together."""
    about: Output

    @property
    def name(self) -> str:
        """`p99_s[yolov3]`, as studies and their files name it."""
        return figure_name(self.figure, self.model)


def figure_name(figure: str, model: str) -> str:
    """`p99_s[yolov3]`, or `p99_s` of all models together."""
    return f"{figure}[{model}]" if model else figure


WORDS = Output("", Better.NEITHER, number=False)
SERVING = {
    "fleet": WORDS,
    "gpus": WORDS,
    "gpu_count": Output("", Better.LOW),
    "cost_usd_per_hour": Output("USD/h", Better.LOW),
    "lower_bound_usd_per_hour": Output("USD/h", Better.LOW),
    "attainment": Output("fraction", Better.HIGH, interval=True, each=True),
    "p99_s": Output("s", Better.LOW, interval=True, each=True),
    "p99_over_slo": Output("", Better.LOW, interval=True, each=True),
    "mean_s": Output("s", Better.LOW, each=True),
    "processed_fraction": Output("fraction", Better.HIGH, each=True),
    "accuracy": Output("fraction", Better.HIGH, each=True),
    "goodput_rps": Output("/s", Better.HIGH, each=True),
    "offered_rps": Output("/s", Better.NEITHER, each=True),
    "power_w": Output("W", Better.LOW),
    "utilization": Output("fraction", Better.NEITHER),
    "load_share": Output("fraction", Better.LOW),
    "swaps_per_s": Output("/s", Better.LOW),
    "peak_memory_bytes": Output("bytes", Better.LOW),
    "merging": WORDS,
}
"""Figures of a plan or a simulation; of several models the worst, of rates the sum."""
TRAINING = {
    "option": WORDS,
    "gpus": WORDS,
    "gpu_count": Output("", Better.LOW),
    "price_kind": WORDS,
    "time_s": Output("s", Better.LOW, interval=True),
    "cost_usd": Output("USD", Better.LOW, interval=True),
    "energy_j": Output("J", Better.LOW),
    "co2_kg": Output("kg", Better.LOW),
    "memory_bytes": Output("bytes", Better.LOW, interval=True),
    "step_s": Output("s", Better.LOW),
    "bottleneck": WORDS,
}
"""Figures of the cheapest option within deadline and budget."""

Figure = Any
"""A number, a text, None, or `{low, mid, high}`."""


def of_plan(plan: Plan, scenario: Scenario) -> dict[str, Any]:
    """A plan's figures; those of the closest where none is feasible."""
    best = plan.recommendation
    reason = "" if best.feasible else why_not(plan)
    chosen = next((way_name(way) for way in plan.merging if way.chosen), str(scenario.merging))
    values = {
        "fleet": candidate_name(best.candidate) or None,
        "gpu_count": best.gpu_count if best.models else None,
        "cost_usd_per_hour": best.cost_usd_per_hour,
        "lower_bound_usd_per_hour": best.lower_bound_usd_per_hour,
        "power_w": best.power_w,
        "merging": chosen,
        **served(best.models, best.gpus, plan.policies),
    }
    return outcome(values, best.feasible, best.models, reason)


def why_not(plan: Plan) -> str:
    """Why no fleet is feasible: what was refused about the closest, else about the first."""
    closest = [no for no in plan.rejections if no.subject == plan.recommendation.candidate]
    return next(
        (f"{subject_name(no.subject)}: {rejection_reason(no)}" for no in (*closest, *plan.rejections)),
        "no fleet meets every SLO",
    )


def of_simulation(seen: Simulation) -> dict[str, Any]:
    """The figures of a simulation on named GPUs."""
    missed = [m.name for m in seen.models if not m.slo_met] or ["all together"]
    kinds = sorted({gpu.kind for gpu in seen.gpus})
    values = {
        "fleet": f"{len(seen.gpus)} x {', '.join(kinds)}",
        "gpu_count": len(seen.gpus),
        "cost_usd_per_hour": seen.cost_usd_per_hour,
        "lower_bound_usd_per_hour": None,
        "power_w": sum(gpu.mean_power_w for gpu in seen.gpus),
        "merging": str(seen.merging),
        **served(seen.models, seen.gpus, seen.policies),
    }
    reason = "" if seen.feasible else f"SLOs are not surely met: {', '.join(missed)}"
    return outcome(values, seen.feasible, seen.models, reason)


def outcome(values: dict[str, Figure], feasible: bool, models: Sequence[ModelAnswer], reason: str) -> dict[str, Any]:
    """An outcome as a worker hands it back."""
    speeds = speed_evidence_of(model.speed_evidence for model in models if model.speed_evidence)
    return {
        "values": values,
        "feasible": feasible,
        "evidence": str(weakest(*(model.evidence for model in models))) if models else None,
        "predicted": any(model.predicted for model in models),
        "speed_evidence": str(speeds) if speeds else None,
        "uncertain": any(model.uncertain for model in models),
        "reason": reason,
        "failed": False,
    }


def served(models: Sequence[ModelAnswer], gpus: Sequence[GpuAnswer], policies: Policies) -> dict[str, Figure]:
    """Figures that a plan and a simulation share; None where nothing was replayed."""
    if not models:
        return {name: None for name, about in SERVING.items() if about.each} | dict.fromkeys(BY_GPU)
    demanded = [model for model in models if model.offered_rps]
    figures: dict[str, Figure] = {}
    for name in EACH:
        figures[name] = overall(name, [of_model(name, model, policies) for model in demanded])
    for model in models:
        figures |= {figure_name(name, model.name): of_model(name, model, policies) for name in EACH}
    return figures | dict(by_gpu(gpus))


EACH = tuple(name for name, about in SERVING.items() if about.each)
SUMS = ("goodput_rps", "offered_rps")
BY_GPU = ("gpus", "utilization", "load_share", "swaps_per_s", "peak_memory_bytes")


def of_model(name: str, model: ModelAnswer, policies: Policies) -> Figure:
    """One model's figure."""
    match name:
        case "attainment":
            return interval(model.slo_attainment)
        case "p99_s":
            return interval(model.p99)
        case "p99_over_slo":
            return interval(model.p99, 1 / model.slo_s)
        case "accuracy":
            return model.accuracy.under(policies)
    return getattr(model, name)


def overall(name: str, figures: Sequence[Figure]) -> Figure:
    """The figure of all models that are asked: the sum of rates, else the worst; None where one has no figure.

    A model that answered nothing has no p99_s, and is not better for it than one that answered late.
    """
    if name in SUMS:
        return sum(figures)
    worst = min if SERVING[name].better is Better.HIGH else max
    known = all(math.isfinite(middle(figure)) for figure in figures)
    return worst(figures, key=middle) if figures and known else None


def by_gpu(gpus: Sequence[GpuAnswer]) -> Iterator[tuple[str, Figure]]:
    """Figures of the GPUs: means of shares, sums of the rest."""
    yield "gpus", ", ".join(sorted({gpu.kind for gpu in gpus}))
    yield "utilization", sum(gpu.utilization for gpu in gpus) / len(gpus)
    yield "load_share", sum(gpu.load_share for gpu in gpus) / len(gpus)
    yield "swaps_per_s", sum(gpu.swaps_per_s for gpu in gpus)
    yield "peak_memory_bytes", sum(gpu.peak_memory_bytes for gpu in gpus)


def interval(figure: Interval, scale: float = 1.0) -> Figure:
    """An interval as a study keeps it."""
    return {"low": figure.low * scale, "mid": figure.mean * scale, "high": figure.high * scale}


def middle(figure: Figure) -> float:
    """The number of a figure; NaN where it has none."""
    match figure:
        case {"mid": mid}:
            return middle(mid)
        case bool() | None | str():
            return math.nan
    return float(figure)


def of_training(plan: TrainingPlan) -> dict[str, Any]:
    """A training's figures; none where no option is allowed."""
    if plan.cheapest is None:
        fitting = [option for option in plan.options if option.may_fit]
        reason = beyond(plan, fitting) if fitting else "the training fits in the memory of no GPU on offer"
        return outcome(dict.fromkeys(TRAINING), False, (), reason)
    return outcome(trained(plan.cheapest), True, (), "") | {"evidence": str(plan.cheapest.evidence)}


def beyond(plan: TrainingPlan, fitting: Sequence[TrainingOption]) -> str:
    """Why no option that fits is allowed."""
    fastest_s = min(option.time_s.high for option in fitting)
    cheapest_usd = min(option.cost_usd.high for option in fitting)
    if plan.deadline_s is not None and fastest_s > plan.deadline_s:
        return f"the fastest that fits in memory may take {fastest_s / 3600:.3g} h of {plan.deadline_s / 3600:.3g} h"
    if plan.budget_usd is not None and cheapest_usd > plan.budget_usd:
        return f"the cheapest that fits in memory may cost {dollars(cheapest_usd)} of {dollars(plan.budget_usd)}"
    return "no option that fits in memory keeps both deadline and budget at its bad end"


def trained(option: TrainingOption) -> dict[str, Figure]:
    """Figures of one option."""
    return {
        "option": f"{option.name}, {option.priced}",
        "gpus": option.gpu,
        "gpu_count": option.gpu_count,
        "price_kind": option.price_kind,
        "time_s": asdict(option.time_s),
        "cost_usd": asdict(option.cost_usd),
        "energy_j": option.energy_j,
        "co2_kg": option.co2_kg,
        "memory_bytes": asdict(option.memory_range_bytes),
        "step_s": option.step_s,
        "bottleneck": str(option.bottleneck),
    }


def is_figure(value: Any, *, number: bool) -> bool:
    """True where a point can have it: a text, or a number, alone or between its ends."""
    match value:
        case {"low": low, "mid": mid, "high": high} if len(value) == 3:
            return number and all(end is None or is_figure(end, number=True) for end in (low, mid, high))
        case bool():
            return False
        case int() | float():
            return number and math.isfinite(value)
    return isinstance(value, str) and value.isprintable() and not number
