"""Answers of every kind in one form, so that two can be compared: inputs, parts, and figures with their intervals."""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from math import isfinite, nan
from pathlib import Path
from typing import NamedTuple

from planner.model.plan import SCHEMA, Interval, ModelAnswer, Plan, Recommendation
from planner.model.ranges import Range
from planner.model.simulation import SCHEMA as SIMULATION
from planner.model.simulation import Simulation
from planner.questions.studies.results import SCHEMA as STUDY
from planner.questions.studies.results import PointAnswer, StudyAnswer
from planner.questions.studies.scenario import output_of
from planner.questions.training.answer.option import SCHEMA as TRAINING
from planner.questions.training.answer.option import TrainingOption, TrainingPlan
from planner.show.kept import read_kept
from planner.show.text.plan import headline
from planner.show.text.plan import machine as machine_name
from planner.show.text.plan import simulated as replay_line
from planner.show.text.studies import name_of
from planner.units.writing import counted
from simulator.errors import InputError

SERVING = (SCHEMA, SIMULATION)
KNOWN = (*SERVING, TRAINING, STUDY)


class FigureKind(NamedTuple):
    """What a figure of an answer is."""

    label: str
    unit: str = ""
    """Empty for counts."""
    metric: str = ""
    """Of a condition; empty: none is about it."""


FIGURES = {
    "cost_usd_per_hour": FigureKind("cost", "USD/h", "cost"),
    "cost_usd": FigureKind("cost", "USD", "cost"),
    "lower_bound_usd_per_hour": FigureKind("lower bound", "USD/h"),
    "gpu_count": FigureKind("GPUs", metric="gpus"),
    "p99_s": FigureKind("p99", "s", "p99"),
    "attainment": FigureKind("on time", "fraction", "attainment"),
    "time_s": FigureKind("time", "s"),
}
"""Those of studies that are not here have the names and units that the study gives them."""
EXACT = frozenset({"cost_usd_per_hour", "lower_bound_usd_per_hour", "gpu_count", "energy_j", "co2_kg", "step_s"})
"""Figures of a study without chance; any other without an interval was simulated, and has one that nobody knows."""
BANDS = frozenset({"cost_usd", "time_s", "memory_bytes", "threshold"})
"""Figures whose ends are the band of a prediction: no chance moves them, so two differ as their middles do."""
MACHINE_ATTRIBUTES = ("count", "spares", "usd_per_hour", "price_as_of")
DEMAND_ATTRIBUTES = ("slo_s", "slo_attainment_target", "max_queue_delay_s", "offered_rps")
OPTION_ATTRIBUTES = ("fits", "within_deadline", "within_budget", "bottleneck", "evidence")
STUDY_ATTRIBUTES = ("name", "ask", "base", "on", "seed", "fingerprint", "prices_as_of", "design")
"""Which attributes of machines, of models, of options to train and of studies are compared."""
Attributes = Mapping[str, object]
Parts = Mapping[str, Mapping[str, Attributes]]
"""By section (`machines`, `models`, ...) and name."""


@dataclass(frozen=True, slots=True)
class Key:
    """Which figure of what; of the whole answer where `of` is empty."""

    name: str
    of: str = ""
    unit: str = ""
    """As in `study.json`: `s`, `USD/h`, `fraction`, ...; empty for counts."""


@dataclass(frozen=True, slots=True)
class ArrivalsDrawn:
    """What decides which requests arrive, as far as an answer says it."""

    seed: int
    horizon_s: float | None
    source: str
    """Digest of the scenario's text; the base of a study."""
    rates: tuple[tuple[str, float], ...] = ()
    """By model, to the last digit: they tell the same from another text that asks for the same."""

    def same_as(self, other: "ArrivalsDrawn") -> bool:
        """Whether the same requests arrive."""
        same_demand = self.source == other.source or (self.rates and self.rates == other.rates)
        return (self.seed, self.horizon_s) == (other.seed, other.horizon_s) and bool(same_demand)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of two answers."""

    path: str
    schema: str
    created_at: str = ""
    """Empty where the answer does not say."""
    answer: str
    """In one line."""
    feasible: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What an answer says, whatever command gave it."""

    side: Side
    inputs: Attributes
    parts: Parts
    figures: Mapping[Key, Interval]
    """A figure that is exact has no width; one whose width nobody knows has ends of NaN."""
    arrivals: ArrivalsDrawn | None = None
    """None where nothing arrived."""
    source: Plan | None = None
    """The plan, where it is one."""
    p99_of_draws: Set[str] = frozenset()
    """Models whose p99 is what draws of their speeds keep; of others it is a mean."""


def key(name: str, of: str = "") -> Key:
    """The figure of that name, in its unit."""
    return Key(name, of, FIGURES[name].unit)


def exactly(value: float) -> Interval:
    """A figure without chance."""
    return Interval(value, value, value)


def read_answer(path: Path) -> Answer:
    """The answer in a file; StoreError, in one line, where it is none that can be compared."""
    return answer_of(read_kept(path, KNOWN), str(path))


def answer_of(answer: object, name: str) -> Answer:
    """An answer under a name; InputError where it is none that can be compared."""
    match answer:
        case Plan():
            return of_plan(answer, name)
        case Simulation():
            return simulated(answer, name)
        case TrainingPlan():
            return trained(answer, name)
        case StudyAnswer():
            return studied(answer, name)
    kind = type(answer).__name__
    raise InputError(f"{name}: must be a plan, a simulation, a training or a study, or the file of one, got {kind}.")


# Serving


def of_plan(plan: Plan, path: str) -> Answer:
    """A plan: its recommendation, or the closest where none is feasible."""
    best = plan.recommendation
    machines = {machine_name(one): attributes_of(one, MACHINE_ATTRIBUTES) for one in best.instances}
    gpu_count = float(best.gpu_count) if best.models else nan
    side = Side(
        path=path, schema=plan.schema, created_at=plan.created_at, answer=headline(plan), feasible=best.feasible
    )
    return Answer(
        side=side,
        inputs={**asked(plan), "prices_as_of": plan.prices_as_of},
        parts={"machines": machines, **placed(best)},
        figures=figures_of(best, lower_bound_usd_per_hour=best.lower_bound_usd_per_hour, gpu_count=gpu_count),
        arrivals=arrivals_of(plan, best.models),
        source=plan,
        p99_of_draws=drawn_in(best.models),
    )


def simulated(run: Simulation, path: str) -> Answer:
    """GPUs that one named oneself."""
    return Answer(
        side=Side(path=path, schema=run.schema, answer=replay_line(run), feasible=run.feasible),
        inputs={**asked(run), "merging": run.merging},
        parts=placed(run),
        figures=figures_of(run, gpu_count=float(len(run.gpus))),
        arrivals=arrivals_of(run, run.models),
        p99_of_draws=drawn_in(run.models),
    )


def asked(answer: Plan | Simulation) -> Attributes:
    """What was replayed, and by which rules; whether machines fail is one, and how is the same one."""
    known = answer.versions if isinstance(answer, Plan) else {}
    versions = {f"versions.{name}": version for name, version in known.items()}
    policies = {f"policies.{name}": value for name, value in asdict(answer.policies).items()}
    return {**attributes_of(answer, ("scenario", "scenario_sha256", "seed")), **versions, **policies}


def arrivals_of(answer: Plan | Simulation, models: tuple[ModelAnswer, ...]) -> ArrivalsDrawn:
    """What the arrivals of a replay depend on."""
    rates = tuple(sorted((model.name, model.offered_rps) for model in models))
    return ArrivalsDrawn(answer.seed, answer.policies.horizon_s, answer.scenario_sha256, rates)


def placed(fleet: Recommendation | Simulation) -> Parts:
    """How many GPUs of each kind, what each model is asked and its SLO, where it runs and how; what each GPU has in
    memory."""
    kinds = Counter(gpu.kind for gpu in fleet.gpus)
    return {
        "GPUs": {kind: {"count": count} for kind, count in kinds.items()},
        "SLOs": {m.name: attributes_of(m, DEMAND_ATTRIBUTES) for m in fleet.models},
        "models": {m.name: placement(m) for m in fleet.models},
        "memory": {g.id: {"peak_memory_bytes": g.peak_memory_bytes} for g in fleet.gpus},
    }


def placement(model: ModelAnswer) -> Attributes:
    """How one model is placed."""
    return {
        "gpus": ", ".join(sorted(model.gpus)),
        "replicas": len(model.replicas),
        "batch_size": model.batch_size,
        "mode": model.mode,
        "precision": model.precision,
        "runtime": model.runtime,
        "evidence": str(model.evidence),
    }


def figures_of(fleet: Recommendation | Simulation, **whole: float) -> dict[Key, Interval]:
    """Exact figures of the whole answer, those that exist; tail latency and share on time of each model."""
    cost = nan if fleet.cost_usd_per_hour is None else fleet.cost_usd_per_hour
    exact = {"cost_usd_per_hour": cost, **whole}
    figures = {key(name): exactly(value) for name, value in exact.items() if isfinite(value)}
    figures |= {key("p99_s", model.name): p99_of(model) for model in fleet.models}
    return figures | {key("attainment", model.name): model.slo_attainment for model in fleet.models}


def p99_of(model: ModelAnswer) -> Interval:
    """What as many draws keep as are asked, where speeds are uncertain: no interval of it is kept. Else its mean, with
    the interval."""
    drawn_s = drawn_p99_s(model)
    return model.p99 if drawn_s is None else Interval(drawn_s, nan, nan)


def drawn_in(models: Sequence[ModelAnswer]) -> Set[str]:
    """Models whose p99 is what draws keep."""
    return {model.name for model in models if drawn_p99_s(model) is not None}


def drawn_p99_s(model: ModelAnswer) -> float | None:
    """None where its speeds are not drawn."""
    return model.p99_in_draws_s if model.uncertain else None


# Training


def trained(plan: TrainingPlan, path: str) -> Answer:
    """Ways to train: the cheapest and the fastest, and every option."""
    options = {option_name(o): o for o in plan.options}
    ends = {end: option for end in ("cheapest", "fastest") if (option := getattr(plan, end))}
    choice = {end: option_name(option) for end, option in ends.items()}
    line = "; ".join(f"{end}: {name}" for end, name in choice.items()) or "No option keeps the limits"
    return Answer(
        side=Side(path=path, schema=TRAINING, answer=line, feasible="cheapest" in ends),
        inputs=attributes_of(plan, ("name", "deadline_s", "budget_usd", "prices_as_of")),
        parts={
            "choice": {end: {"option": name} for end, name in choice.items()},
            "options": {name: attributes_of(option, OPTION_ATTRIBUTES) for name, option in options.items()},
        },
        figures=training_figures(ends, options),
    )


def training_figures(ends: Mapping[str, TrainingOption], options: Mapping[str, TrainingOption]) -> dict[Key, Interval]:
    """Cost and time of every option, and GPUs of the cheapest and the fastest."""
    figures: dict[Key, Interval] = {}
    for of, option in {**ends, **options}.items():
        figures[key("cost_usd", of)] = band(option.cost_usd)
        figures[key("time_s", of)] = band(option.time_s)
    return figures | {key("gpu_count", end): exactly(float(option.gpu_count)) for end, option in ends.items()}


def attributes_of(thing: object, names: Sequence[str]) -> Attributes:
    """Some attributes of a thing, by name."""
    return {name: getattr(thing, name) for name in names}


def option_name(option: TrainingOption) -> str:
    """`4 x p3.16xlarge (32 V100), spot, batch 8192, data 32`."""
    who = f"{option.machines} x {option.instance} ({option.gpu_count} {option.gpu}), {option.price_kind}"
    return f"{who}, batch {option.global_batch}, {option.parallel}"


def band(predicted: Range) -> Interval:
    """Ends and middle of what is predicted."""
    return Interval(predicted.mid, predicted.low, predicted.high)


# Studies


def studied(answer: StudyAnswer, path: str) -> Answer:
    """Every point of a study, each by the values of its axes."""
    points = {name_of(point): point for point in answer.points}
    figures: dict[Key, Interval] = {}
    for what, point in points.items():
        for name, value in {"threshold": point.threshold, **point.values}.items():
            if (figure := study_figure(name, value)) is not None:
                figures[Key(name, what, study_unit(name, answer))] = figure
    feasible = sum(point.feasible for point in points.values())
    line = f"{answer.name}: {counted(len(points), 'point')}, {feasible} of them feasible"
    return Answer(
        side=Side(path=path, schema=STUDY, answer=line, feasible=feasible > 0),
        inputs={
            **attributes_of(answer, STUDY_ATTRIBUTES),
            "changes": ", ".join(answer.changes),
            **{f"versions.{name}": version for name, version in answer.versions.items()},
        },
        parts={"points": {what: words_of(point) for what, point in points.items()}},
        figures=figures,
        arrivals=None if answer.seed is None else ArrivalsDrawn(answer.seed, None, answer.base),
    )


def study_unit(name: str, answer: StudyAnswer) -> str:
    """Unit of a figure of a study."""
    if name == "threshold":
        return answer.search.unit if answer.search else ""
    return output_of(name, answer.ask).about.unit


def words_of(point: PointAnswer) -> Attributes:
    """What a point has besides numbers."""
    words = {name: value for name, value in point.values.items() if isinstance(value, str)}
    return {"feasible": point.feasible, "reason": point.reason, **words}


def study_figure(name: str, value: object) -> Interval | None:
    """A point's figure, or None where it is a word or nothing."""
    match value:
        case {"mid": mid, "low": low, "high": high}:
            return Interval(*(nan if end is None else float(end) for end in (mid, low, high)))
        case bool():
            return None
        case int() | float() if isfinite(value):
            return exactly(float(value)) if name in EXACT else Interval(float(value), nan, nan)
    return None
