"""OpenMetrics: the figures of a plan as gauges, to be drawn and alarmed on beside what is measured."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from operator import attrgetter

from planner.model.plan import Plan
from planner.words.candidates import candidate_name

Labels = Mapping[str, str]
Sample = tuple[Labels, float]


@dataclass(frozen=True, slots=True)
class Gauge:
    """A metric, and the figures of a plan's part that it shows."""

    name: str
    """Where it has a unit, it ends in it."""
    unit: str
    help: str
    figure: str = ""
    """Name of the only figure; a tuple counts as its length."""
    label: str = ""
    """Tells several figures apart."""
    figures: Mapping[str, str] = field(default_factory=dict)
    """Name of each by the value of that label."""

    def samples(self, labels: Labels, part: object) -> Iterator[Sample]:
        """The figures of a part that exist."""
        for value, name in (self.figures or {"": self.figure}).items():
            found = attrgetter(name)(part)
            number = float(len(found) if isinstance(found, tuple) else found)
            if isfinite(number):
                yield {**labels, **({self.label: value} if self.label else {})}, number


INFO = Gauge("planner_plan_info", "", "Which plan these figures are of.")
OF_PLAN = (
    Gauge("planner_feasible", "", "1 where every SLO is surely met.", "feasible"),
    Gauge("planner_gpus", "", "GPUs of the fleet.", "gpu_count"),
    Gauge("planner_cost_per_hour_usd", "usd", "Price of an hour of all machines.", "cost_usd_per_hour"),
    Gauge("planner_cost_lower_bound_per_hour_usd", "usd", "Price that no fleet can beat.", "lower_bound_usd_per_hour"),
    Gauge("planner_power_watts", "watts", "Mean power of all GPUs.", "energy_w"),
)
OF_MACHINES = (Gauge("planner_machines", "", "Machines of each type.", "count"),)
OF_MODELS = (
    Gauge("planner_model_slo_seconds", "seconds", "Longest time to an answer that counts as on time.", "slo_s"),
    Gauge(
        "planner_model_slo_attainment_target_ratio",
        "ratio",
        "Share of requests that must be on time.",
        "slo_attainment_target",
    ),
    Gauge(
        "planner_model_slo_attainment_ratio",
        "ratio",
        "Share of requests on time in replays: mean, and the ends of its 95 % interval.",
        label="estimate",
        figures={end: f"slo_attainment.{end}" for end in ("mean", "low", "high")},
    ),
    Gauge(
        "planner_model_latency_seconds",
        "seconds",
        "Quantiles of the time from a request to its answer.",
        label="quantile",
        figures={"0.5": "p50_s", "0.9": "p90_s", "0.95": "p95_s", "0.99": "p99_s"},
    ),
    Gauge("planner_model_offered_requests_per_second", "", "Requests a second that arrive.", "offered_rps"),
    Gauge("planner_model_throughput_requests_per_second", "", "Requests a second that are answered.", "throughput_rps"),
    Gauge(
        "planner_model_goodput_requests_per_second",
        "",
        "Requests a second that are answered on time.",
        "goodput_rps",
    ),
    Gauge("planner_model_batch_size_max", "", "Most requests in one batch.", "batch_size"),
    Gauge("planner_model_replicas", "", "Loaded copies.", "replicas"),
)
OF_GPUS = (
    Gauge("planner_gpu_utilization_ratio", "ratio", "Share of time that a batch runs.", "utilization"),
    Gauge("planner_gpu_load_ratio", "ratio", "Share of time that full batches would take.", "offered_load"),
    Gauge("planner_gpu_peak_memory_bytes", "bytes", "Memory in use at most.", "peak_memory_bytes"),
    Gauge("planner_gpu_memory_bytes", "bytes", "Memory that may be used.", "memory_bytes"),
    Gauge("planner_gpu_power_watts", "watts", "Mean power.", "mean_power_w"),
    Gauge("planner_gpu_swaps_per_second", "", "Loads of weights a second.", "swaps_per_s"),
)


def metrics(plan: Plan) -> str:
    """The whole text."""
    best = plan.recommendation
    about = {
        "scenario": plan.scenario,
        "scenario_sha256": plan.scenario_sha256,
        "fleet": candidate_name(best.candidate),
        "created_at": plan.created_at,
        "prices_as_of": plan.prices_as_of,
    }
    machines = [
        ({"provider": one.provider, "region": one.region, "instance": one.instance, "gpu": one.gpu}, one)
        for one in best.instances
    ]
    models = [({"model": model.name}, model) for model in best.models]
    gpus = [({"gpu": gpu.id, "kind": gpu.kind, "machine": gpu.host}, gpu) for gpu in best.gpus]
    lines = [
        *lines_of(INFO, [(about, 1.0)]),
        *group(OF_PLAN, [({}, best)]),
        *group(OF_MACHINES, machines),
        *group(OF_MODELS, models),
        *group(OF_GPUS, gpus),
    ]
    return "\n".join([*lines, "# EOF", ""])


def group(gauges: Sequence[Gauge], parts: Sequence[tuple[Labels, object]]) -> Iterator[str]:
    """Metrics of parts that are alike."""
    for gauge in gauges:
        yield from lines_of(gauge, [sample for labels, part in parts for sample in gauge.samples(labels, part)])


def lines_of(gauge: Gauge, samples: Sequence[Sample]) -> Iterator[str]:
    """A metric as text; nothing where it has no samples."""
    if not samples:
        return
    yield f"# TYPE {gauge.name} gauge"
    if gauge.unit:
        yield f"# UNIT {gauge.name} {gauge.unit}"
    yield f"# HELP {gauge.name} {gauge.help}"
    for labels, value in samples:
        inside = ",".join(f'{key}="{escaped(text)}"' for key, text in labels.items())
        yield f"{gauge.name}{{{inside}}} {value:.9g}" if inside else f"{gauge.name} {value:.9g}"


def escaped(text: str) -> str:
    """A label's value."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
