"""OpenMetrics: what a plan promises as gauges, to be drawn and alarmed on beside what is measured."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite

from planner.plans import ModelAnswer, Plan

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
    """Of the fleet as a whole."""
    best = plan.recommendation
    about = {
        "scenario": plan.scenario,
        "scenario_sha256": plan.scenario_sha256,
        "fleet": best.label,
        "created_at": plan.created_at,
        "prices_as_of": plan.prices_as_of,
    }
    yield Gauge("planner_plan_info", "", "Which plan these figures are of.", ((about, 1.0),))
    yield Gauge("planner_feasible", "", "1 where every promise is surely kept.", one(best.feasible))
    yield Gauge("planner_gpus", "", "GPUs of the fleet.", one(best.gpu_count))
    yield Gauge("planner_cost_per_hour_usd", "usd", "Price of an hour of all machines.", one(best.cost_usd_per_hour))
    yield Gauge(
        "planner_cost_lower_bound_per_hour_usd",
        "usd",
        "Price that no fleet can beat.",
        one(best.lower_bound_usd_per_hour),
    )
    yield Gauge("planner_power_watts", "watts", "Mean power of all GPUs.", one(best.energy_w))
    machines = tuple(
        ({"provider": i.provider, "region": i.region, "instance": i.instance, "gpu": i.gpu}, float(i.count))
        for i in best.instances
    )
    yield Gauge("planner_machines", "", "Machines of each type.", machines)


def of_models(models: tuple[ModelAnswer, ...]) -> Iterator[Gauge]:
    """What each model is asked, is promised, and gives."""
    yield Gauge(
        "planner_model_slo_seconds",
        "seconds",
        "Longest time to an answer that counts as on time.",
        tuple(({"model": m.name}, m.slo_s) for m in models),
    )
    yield Gauge(
        "planner_model_slo_attainment_target_ratio",
        "ratio",
        "Share of requests that must be on time.",
        tuple(({"model": m.name}, m.slo_attainment_target) for m in models),
    )
    yield Gauge(
        "planner_model_slo_attainment_ratio",
        "ratio",
        "Share of requests on time in replays: mean, and the ends of its 95 % interval.",
        tuple(
            ({"model": m.name, "estimate": end}, getattr(m.slo_attainment, end))
            for m in models
            for end in ("mean", "low", "high")
        ),
    )
    yield Gauge(
        "planner_model_latency_seconds",
        "seconds",
        "Quantiles of the time from a request to its answer.",
        tuple(
            ({"model": m.name, "quantile": quantile}, value)
            for m in models
            for quantile, value in (("0.5", m.p50_s), ("0.9", m.p90_s), ("0.95", m.p95_s), ("0.99", m.p99_s))
        ),
    )
    for name, what, figure in (
        ("offered", "Requests a second that arrive.", "offered_rps"),
        ("throughput", "Requests a second that are answered.", "throughput_rps"),
        ("goodput", "Requests a second that are answered on time.", "goodput_rps"),
    ):
        samples = tuple(({"model": m.name}, getattr(m, figure)) for m in models)
        yield Gauge(f"planner_model_{name}_requests_per_second", "", what, samples)
    yield Gauge(
        "planner_model_batch_size_max",
        "",
        "Most requests in one batch.",
        tuple(({"model": m.name}, float(m.batch_size)) for m in models),
    )
    yield Gauge(
        "planner_model_replicas",
        "",
        "Loaded copies.",
        tuple(({"model": m.name}, float(len(m.replicas))) for m in models),
    )


def of_gpus(plan: Plan) -> Iterator[Gauge]:
    """What each card does."""
    cards = [({"gpu": g.id, "kind": g.kind, "machine": g.host}, g) for g in plan.recommendation.gpus]
    for name, unit, what, figure in (
        ("planner_gpu_utilization_ratio", "ratio", "Share of time that a batch runs.", "utilization"),
        ("planner_gpu_load_ratio", "ratio", "Share of time that full batches would take.", "offered_load"),
        ("planner_gpu_peak_memory_bytes", "bytes", "Memory in use at most.", "peak_memory_bytes"),
        ("planner_gpu_memory_bytes", "bytes", "Memory that may be used.", "memory_bytes"),
        ("planner_gpu_power_watts", "watts", "Mean power.", "mean_power_w"),
        ("planner_gpu_swaps_per_second", "", "Loads of weights a second.", "swaps_per_s"),
    ):
        yield Gauge(name, unit, what, tuple((labels, float(getattr(g, figure))) for labels, g in cards))


def one(value: float) -> tuple[Sample, ...]:
    """A metric without labels."""
    return (({}, float(value)),)


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
