"""Plans and rejections: the answer as data. Reports and explanations read only this."""

from dataclasses import dataclass, field
from enum import StrEnum

from simulator.profile import Evidence


class Bottleneck(StrEnum):
    """What stands in the way, or what gives way first when load grows."""

    LATENCY = "latency"
    MEMORY = "memory"
    COMPUTE = "compute"
    LOADING = "loading"
    HOST_MEMORY = "host-memory"
    GPU_COUNT = "gpu-count"
    COST = "cost"
    PRICE = "price"
    PROFILE = "profile"
    RETIRED = "retired"


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with the two ends of its 95 % confidence interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """A candidate that was refused, why, and the smallest change that would help."""

    candidate: str
    """What was tried, e.g. `2 x NC6s_v3 (V100), resident`."""
    bottleneck: Bottleneck
    observed: float
    """What came out, in the unit that `limit` has (seconds, bytes, fraction of GPUs, dollars an hour)."""
    limit: float
    """What it had to stay within."""
    unit: str
    """`s`, `bytes`, `fraction`, `GPUs`, `USD/h` or empty."""
    reason: str
    """One sentence a person can read."""
    way_out: str
    """The smallest change that would make it feasible."""
    cost_usd_per_hour: float | None = None
    """What it would have cost; None where it has no price."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instances:
    """So many machines of one type."""

    provider: str
    region: str
    instance: str
    gpu: str
    gpu_count: int
    """GPUs in one machine."""
    count: int
    usd_per_hour: float
    """One machine."""
    price_as_of: str
    """ISO date; empty for machines of one's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAnswer:
    """What one model gets and gives."""

    name: str
    batch_size: int
    max_queue_delay_s: float
    gpus: tuple[str, ...]
    mode: str
    """`resident` or `swapped`."""
    slo_s: float
    slo_attainment_target: float
    slo_attainment: Interval
    slo_met: bool | None
    """True or False once the interval decides; None where it does not."""
    p50_s: float
    p99_s: float
    p99: Interval
    throughput_rps: float
    offered_rps: float
    goodput_rps: float
    dropped_fraction: float
    processed_fraction: float
    mean_batch_size: float
    accuracy: float
    joules_per_inference: float
    verdict: str
    """`stable`, `backlogged` or `overloaded`."""
    bottleneck: Bottleneck
    evidence: Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuAnswer:
    """What one card does."""

    id: str
    kind: str
    host: str
    models: tuple[str, ...]
    utilization: float
    """Share of time that a batch runs. Batches run part-filled sooner than wait, so this exceeds `offered_load`."""
    offered_load: float
    """Share of its time that all requests sent here would take in full batches; headroom is kept from this."""
    load_share: float
    """Share of time it waits for weights."""
    swaps_per_s: float
    peak_memory_bytes: int
    memory_bytes: int
    mean_power_w: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """One way to serve the scenario, replayed and priced."""

    feasible: bool
    label: str
    """Short name, e.g. `2 x NC6s_v3 (V100), resident`."""
    instances: tuple[Instances, ...]
    gpu_count: int
    cost_usd_per_hour: float
    cost_usd_per_month: float
    """730 hours."""
    lower_bound_usd_per_hour: float
    energy_w: float
    """Mean power of all cards."""
    replications: int
    requests: int = 0
    """Replayed, all replications together."""
    models: tuple[ModelAnswer, ...]
    gpus: tuple[GpuAnswer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Caution:
    """Something that weakens the answer, and what to do about it."""

    what: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The answer to one scenario."""

    scenario: str
    scenario_sha256: str
    seed: int
    versions: dict[str, str]
    created_at: str
    """ISO time stamp; the only value that differs between two equal runs."""
    recommendation: Recommendation | None
    """None where nothing could even be tried."""
    alternatives: tuple[Recommendation, ...] = ()
    """Other feasible ways, best first."""
    pareto: tuple[str, ...] = ()
    """Labels of those no other beats in both cost and worst latency relative to its SLO."""
    rejections: tuple[Rejection, ...] = ()
    prices_as_of: str = ""
    """Oldest price date used; empty where nothing is rented."""
    assumptions: tuple[str, ...] = ()
    warnings: tuple[Caution, ...] = ()
    schema: str = field(default="planner.plan/v1")
