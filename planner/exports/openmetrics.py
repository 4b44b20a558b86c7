"""OpenMetrics: the figures of a plan as gauges, to be drawn and alarmed on beside what is measured."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite

from planner.model.plan import ModelAnswer, Plan
from planner.words.candidates import candidate_name

Sample = tuple[Mapping[str, str], float]


@dataclass(frozen=True, slots=True)
class Gauge:
    """One metric with all its samples. Where it has a unit, its name ends in it."""

    name: str
    unit: str
    help: str
    samples: tuple[Sample, ...]


def metrics(plan: Plan) -> str:
    """The whole text. Figures that do not exist are left out."""
    families = [list(lines(gauge)) for gauge in gauges(plan)]
    told = [family for family in families if not family[-1].startswith("#")]
    return "\n".join([*(line for family in told for line in family), "# EOF", ""])


def gauges(plan: Plan) -> Iterator[Gauge]:
    """All metrics of a plan."""
    yield from of_plan(plan)
    yield from of_models(plan.recommendation.models)
    yield from of_gpus(plan)


def of_plan(plan: Plan) -> Iterator[Gauge]:
    """Figures of the fleet as a whole."""
    best = plan.recommendation
    about = {
        "scenario": plan.scenario,
        "scenario_sha256": plan.scenario_sha256,
        "fleet": candidate_name(best.candidate),
        "created_at": plan.created_at,
        "prices_as_of": plan.prices_as_of,
    }
    yield Gauge("planner_plan_info", "", "Which plan these figures are of.", ((about, 1.0),))
    yield Gauge("planner_feasible", "", "1 where every SLO is surely met.", only(best.feasible))
    yield Gauge("planner_gpus", "", "GPUs of the fleet.", only(best.gpu_count))
    yield Gauge("planner_cost_per_hour_usd", "usd", "Price of an hour of all machines.", only(best.cost_usd_per_hour))
    yield Gauge(
        "planner_cost_lower_bound_per_hour_usd",
        "usd",
        "Price that no fleet can beat.",
        only(best.lower_bound_usd_per_hour),
    )
    yield Gauge("planner_power_watts", "watts", "Mean power of all GPUs.", only(best.energy_w))
    machines = tuple(
        ({"provider": i.provider, "region": i.region, "instance": i.instance, "gpu": i.gpu}, float(i.count))
        for i in best.instances
    )
    yield Gauge("planner_machines", "", "Machines of each type.", machines)


def of_models(models: tuple[ModelAnswer, ...]) -> Iterator[Gauge]:
    """Load, SLO and figures of each model."""
    for name, unit, text, samples_of in MODEL_GAUGES:
        samples = [({"model": model.name, **labels}, value) for model in models for labels, value in samples_of(model)]
        yield Gauge(f"planner_model_{name}", unit, text, tuple(samples))


def only(value: float) -> tuple[Sample, ...]:
    """A single figure, which needs no labels of its own."""
    return (({}, float(value)),)


def attainments(model: ModelAnswer) -> tuple[Sample, ...]:
    """The mean and the ends of its interval."""
    seen = model.slo_attainment
    return ({"estimate": "mean"}, seen.mean), ({"estimate": "low"}, seen.low), ({"estimate": "high"}, seen.high)


def quantiles(model: ModelAnswer) -> tuple[Sample, ...]:
    """Latency by quantile."""
    latency_s = {"0.5": model.p50_s, "0.9": model.p90_s, "0.95": model.p95_s, "0.99": model.p99_s}
    return tuple(({"quantile": quantile}, value_s) for quantile, value_s in latency_s.items())


MODEL_GAUGES: tuple[tuple[str, str, str, Callable[[ModelAnswer], tuple[Sample, ...]]], ...] = (
    ("slo_seconds", "seconds", "Longest time to an answer that counts as on time.", lambda m: only(m.slo_s)),
    (
        "slo_attainment_target_ratio",
        "ratio",
        "Share of requests that must be on time.",
        lambda m: only(m.slo_attainment_target),
    ),
    (
        "slo_attainment_ratio",
        "ratio",
        "Share of requests on time in replays: mean, and the ends of its 95 % interval.",
        attainments,
    ),
    ("latency_seconds", "seconds", "Quantiles of the time from a request to its answer.", quantiles),
    ("offered_requests_per_second", "", "Requests a second that arrive.", lambda m: only(m.offered_rps)),
    ("throughput_requests_per_second", "", "Requests a second that are answered.", lambda m: only(m.throughput_rps)),
    ("goodput_requests_per_second", "", "Requests a second that are answered on time.", lambda m: only(m.goodput_rps)),
    ("batch_size_max", "", "Most requests in one batch.", lambda m: only(m.batch_size)),
    ("replicas", "", "Loaded copies.", lambda m: only(len(m.replicas))),
)
"""Name, unit, help and samples of each metric of a model."""


def of_gpus(plan: Plan) -> Iterator[Gauge]:
    """Figures of each GPU."""
    devices = [({"gpu": g.id, "kind": g.kind, "machine": g.host}, g) for g in plan.recommendation.gpus]
    for name, unit, what, figure in (
        ("planner_gpu_utilization_ratio", "ratio", "Share of time that a batch runs.", "utilization"),
        ("planner_gpu_load_ratio", "ratio", "Share of time that full batches would take.", "offered_load"),
        ("planner_gpu_peak_memory_bytes", "bytes", "Memory in use at most.", "peak_memory_bytes"),
        ("planner_gpu_memory_bytes", "bytes", "Memory that may be used.", "memory_bytes"),
        ("planner_gpu_power_watts", "watts", "Mean power.", "mean_power_w"),
        ("planner_gpu_swaps_per_second", "", "Loads of weights a second.", "swaps_per_s"),
    ):
        yield Gauge(name, unit, what, tuple((labels, float(getattr(g, figure))) for labels, g in devices))


def lines(gauge: Gauge) -> Iterator[str]:
    """A metric as text."""
    yield f"# TYPE {gauge.name} gauge"
    if gauge.unit:
        yield f"# UNIT {gauge.name} {gauge.unit}"
    yield f"# HELP {gauge.name} {gauge.help}"
    for labels, value in gauge.samples:
        if isfinite(value):
            inside = ",".join(f'{key}="{escaped(text)}"' for key, text in labels.items())
            yield f"{gauge.name}{{{inside}}} {value:.9g}" if inside else f"{gauge.name} {value:.9g}"


def escaped(text: str) -> str:
    """A label's value."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
