"""Plans and rejections: the answer as data. Reports and explanations read only this."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf, nan

from planner.model.candidate import Candidate, Machines, MachineType, Memory, OnGpu
from planner.model.choices import PriceKind
from planner.model.parts.merging import Merging
from planner.model.parts.rules import AccuracyRule
from planner.model.scenario import MemoryPolicy, Objective
from planner.model.statement import Code, Statement, whole
from planner.model.timeline import LatencyHistogram, Timeline
from simulator.world.deployment import Drop, Eviction, Failures, Routing, Scheduling, SwapPolicy
from simulator.world.profile import Evidence

SCHEMA = "planner.plan/v3"
MOST_DRAWS = 0.8
"""From this share of draws on, a fleet that was refused by draws is told to who would be content with less."""
MUCH_CHEAPER = 0.8
"""Of the cost of the answer, at most."""


class Bottleneck(StrEnum):
    """What stands in the way, or what gives way first when load grows."""

    LATENCY = "latency"
    MEMORY = "memory"
    COMPUTE = "compute"
    BATCH_RANGE = "batch-range"
    """Compute, in the largest batches that were measured; larger ones would carry more."""
    SLO_BATCH = "slo-batch"
    """Compute, in batches as small as SLOs leave time for; larger ones would carry more."""
    LOADING = "loading"
    HOST_MEMORY = "host-memory"
    GPU_COUNT = "gpu-count"
    COST = "cost"
    PRICE = "price"
    PROFILE = "profile"
    DECODE = "decode"
    """Engines that decode video."""
    ENCODE = "encode"
    """Engines that encode video."""
    HOST_CORES = "host-cores"
    """Cores of the machines' processors."""
    COPY = "copy"
    """Links from processors to GPUs."""
    RETIRED = "retired"
    EVIDENCE = "evidence"
    """Nothing gave way, but too few requests were replayed to prove it."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with the two ends of its 95 % confidence interval.

    Intervals of an attainment hold with 95 % over all looks together, so each is wider than a single look asks for.
    """

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A figure that was predicted, with the two ends of its 80 % band."""

    value: float
    low: float
    high: float


class PredictionRule(StrEnum):
    """How a figure was predicted, the most trusted first."""

    PROFILE = "profile"
    """Between, or past, the batch sizes that were measured."""
    LEARNT = "learnt"
    """From all published points of its architecture, on any GPU."""
    MEASURED_RATIO = "measured-ratio"
    """From another GPU, by models measured on both."""
    LAYER_MODEL = "layer-model"
    """From the model's layers, by other models measured on the GPU."""
    DATA_SHEETS = "data-sheets"
    """From another GPU, by what vendors say of both."""
    ROOFLINE = "roofline"
    """From the model's layers, by what the vendor says of the GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What a model would cost on a GPU where nobody measured it."""

    model: str
    gpu: str
    precision: str
    rule: PredictionRule
    source: str
    """GPU whose profile was carried over; empty where none was."""
    probes: tuple[str, ...]
    """Models that the rule rests on."""
    evidence: Evidence
    batch_size: int
    latency_s: Estimate
    """Of a batch of that size."""
    memory_bytes: int
    """The most that is allocated: weights, which are exact, and the tensors of a batch."""
    reserved_bytes: int
    """What a plan keeps free: the same with libraries' own workspace and the allocator's slack. A process's context
    comes on top."""
    load_s: Estimate
    """Of all weights."""
    memory_evidence: Evidence = Evidence.PREDICTED
    """Of the workspace; `evidence` is that of the time."""
    runtime: str = "pytorch"
    """What it runs in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """A kind of GPU without profiles that might serve the scenario alone."""

    gpu: str
    candidate: Candidate
    """A fleet that carries the work at the predicted times, not replayed."""
    cost_usd_per_hour: Estimate
    """Of such fleets at both ends of the band; NaN where none is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionOutlook:
    """What the same models would cost at another precision or in another runtime, where the scenario leaves it open."""

    precision: str
    """Empty, as `runtime`: the plan's own."""
    runtime: str = ""
    evidence: Evidence = Evidence.ASSUMED
    """The weakest that it rests on."""
    candidate: Candidate
    """A fleet that carries the work, not replayed."""
    cost_usd_per_hour: Estimate
    """Of such fleets at both ends of the band of what is predicted; NaN where none is allowed."""
    instead_of: tuple[str, ...]
    """Precisions that the plan runs these models at."""
    accuracy: tuple[Statement, ...] = ()
    """What models lose at it: as published, or that nobody says."""
    some_keep: bool = False
    """Some models state another precision or runtime, and keep it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One measurement that would narrow the answer."""

    model: str
    gpu: str
    why: Statement
    command: str
    """To be run on a machine with that GPU."""
    minutes: float = nan
    """That it takes, a machine that starts included; NaN in plans that do not say."""
    usd: float = nan
    """What the cheapest machine with that GPU costs for so long; 0 for one's own, NaN where none is on offer."""
    by_own_tool: bool = False
    """Whether it must be timed by a tool of its runtime, of which `command` only takes the file."""
    by_own_code: bool = False
    """Whether nothing that can be built is known by the model's name: `command` leaves open what makes it."""
    worth_usd_per_month: float = nan
    """To be saved: 730 hours of what is paid now, less the mean of what will be once it is known; NaN where nobody
    says how far its time may be off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """A candidate that was rejected, why, and the smallest change that would help."""

    subject: Candidate | MachineType | OnGpu
    """A fleet that was tried, a type of machine on offer, or models on a kind of GPU."""
    bottleneck: Bottleneck
    observed: float
    """What came out, in the unit that `limit` has (seconds, bytes, fraction of GPUs, dollars an hour)."""
    limit: float
    """What it had to stay within."""
    unit: str
    """`s`, `bytes`, `fraction`, `GPUs`, `USD/h` or empty."""
    why: Statement
    beside: tuple[Statement, ...] = ()
    """What belongs to the reason."""
    remedies: tuple[Statement, ...]
    """Changes any of which would make it feasible."""
    but: tuple[Statement, ...] = ()
    """What the remedies leave open."""
    cost_usd_per_hour: float | None = None
    """What it would have cost; None where it has no price."""
    replayed: bool = False
    """Whether each of its remedies was replayed and then met what it names; else they are estimates."""

    def __post_init__(self) -> None:
        for name in ("observed", "limit"):
            object.__setattr__(self, name, whole(getattr(self, name)))


def less_sure(rejections: Iterable[Rejection], usd_per_hour: float) -> Rejection | None:
    """The cheapest fleet that is much cheaper, and keeps every SLO in most draws, though not in enough."""
    by_draws = [no for no in rejections if no.why.code is Code.DRAWS_BREAK and no.observed >= MOST_DRAWS]
    priced = [(no.cost_usd_per_hour, no) for no in by_draws if no.cost_usd_per_hour is not None]
    cheap = [(cost, no) for cost, no in priced if cost <= MUCH_CHEAPER * usd_per_hour]
    return min(cheap, key=lambda one: one[0])[1] if cheap else None


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
    price_kind: PriceKind | None = None
    """None for machines of one's own."""
    ambiguous: bool = False
    """Whether the type is on offer at several places, so that its name alone does not tell which."""
    spares: int = 0
    """Machines beside those, which stand ready and are paid."""

    @property
    def paid(self) -> int:
        """Machines that are paid, spares included."""
        return self.count + self.spares

    @property
    def machines(self) -> Machines:
        """The same without prices."""
        return Machines(
            provider=self.provider,
            region=self.region,
            instance=self.instance,
            gpu=self.gpu,
            gpu_count=self.gpu_count,
            count=self.count,
            ambiguous=self.ambiguous,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """The rules that were replayed, as the scenario and its defaults set them."""

    objective: Objective = Objective.COST
    """What the plan has least of."""
    memory: MemoryPolicy
    scheduling: Scheduling
    routing: Routing
    drop: Drop
    accuracy: AccuracyRule
    half_life_s: float | None
    """Time after which a reused result is right half as often; None: a lost frame is wrong."""
    eviction: Eviction
    prefetch: bool
    pinned: bool
    disk: bool = False
    """Weights of swapped models come from disk."""
    padded: bool
    headroom: float
    """Share of every GPU kept free on purpose."""
    survive: int = 0
    """Machines that may be away while every SLO is met."""
    horizon_s: float
    """Simulated time of one replication."""
    warmup_s: float
    """Start of each that is not judged."""
    failures: Failures | None
    """None: nothing fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """Share of frames with a right answer, under both rules for lost ones."""

    lost_is_wrong: float
    reuse_last: float | None
    """None where the scenario names no half-life."""

    def under(self, policies: Policies) -> float:
        """Under the rule of the scenario."""
        if policies.accuracy is AccuracyRule.REUSE_LAST and self.reuse_last is not None:
            return self.reuse_last
        return self.lost_is_wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaAnswer:
    """One loaded copy of a model."""

    gpus: tuple[str, ...]
    """Ids of its GPUs; more than one: pipeline stages, in that order."""
    batch_size: int
    share: float
    """Of the model's requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageAnswer:
    """What one stage of a pipeline gets and gives."""

    name: str
    """In its pipeline."""
    kind: str
    """`model`, `decode`, `encode`, `host` or `copy`."""
    after: tuple[str, ...]
    """Stages right before it."""
    budget_s: float | None = None
    """Of a model: the part of the pipeline's SLO that its place and its batches were planned with."""
    replicas: tuple[ReplicaAnswer, ...] = ()
    """Of a model."""
    batch_size: int = 0
    """Of a model, the largest."""
    mean_batch_size: float = nan
    items_per_frame: float
    """On average."""
    items_per_s: float
    waiting_p50_s: float
    """From an item's arrival at the stage until its service starts."""
    waiting_p99_s: float
    service_p50_s: float
    service_p99_s: float
    lost_fraction: float
    """Of its items: given up here, or because their frame was lost elsewhere."""
    utilization: float
    """Share of time that its stations work, or that the GPUs of its replicas run batches of it."""
    mode: str = ""
    """Of a model: `resident` or `swapped`."""
    precision: str = ""
    runtime: str = ""
    evidence: Evidence
    predicted: bool = False
    speed_evidence: Evidence | None = None
    """Of a stage that is a model, where its speeds come from, by `speed_evidence_of`; else None."""
    uncertain: bool = False
    """Whether each replication draws its speeds from a band."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceAnswer:
    """How much of one kind of resource pipelines take: of GPUs, engines for video, cores of hosts, or links to GPUs."""

    kind: Bottleneck
    """`compute`, `memory`, `decode`, `encode`, `host-cores` or `copy`."""
    gpu: str
    """Kind of GPU that it belongs to, or that is in its machine."""
    codecs: tuple[str, ...] = ()
    """Of engines for video."""
    servers: int
    """How many there are: GPUs, engines, cores, links."""
    load: float
    """Share of its time that it works at what must be answered; of memory, how full the fullest is."""
    limit: float
    """Load that the headroom leaves; of memory 1."""
    streams: int = 0
    """Of engines for video and of memory: cameras that come here."""
    streams_max: int = 0
    """Most that could come here within the limit."""

    @property
    def used(self) -> float:
        """Share of what may come that does come: what has most of it binds first as load grows."""
        return self.streams / self.streams_max if self.streams_max else self.load / self.limit


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAnswer:
    """What one model gets and gives."""

    name: str
    replicas: tuple[ReplicaAnswer, ...]
    batch_size: int
    max_queue_delay_s: float
    gpus: tuple[str, ...]
    mode: str
    """`resident` or `swapped`."""
    slo_s: float
    slo_attainment_target: float
    slo_attainment: Interval
    slo_met: bool | None
    """True or False once the interval decides; None where it does not. False where failing machines alone break it."""
    attainment_max: float | None = None
    """Share of requests that failing machines let be in time in the long run at most; None where that is enough."""
    draws_kept: Interval | None = None
    """Share of the draws of the cameras' phases in which the SLO is met in the long run; None where none are drawn."""
    mean_s: float
    """Mean latency of those that were answered."""
    p50_s: float
    p90_s: float
    p95_s: float
    p99_s: float
    p99: Interval
    p99_in_draws_s: float | None = None
    """The least that p99 does not pass in as many draws of phases and speeds as are asked; None where none
    are drawn, or a site meets many."""
    throughput_rps: float
    offered_rps: float
    due_fraction: float = 1.0
    """Share of what is offered to which an answer is due: of a pipeline, frames that reach a last stage."""
    goodput_rps: float
    dropped_fraction: float
    processed_fraction: float
    mean_batch_size: float
    accuracy: Accuracy
    joules_per_inference: float
    verdict: str
    """`stable`, `backlogged` or `overloaded`."""
    bottleneck: Bottleneck
    demand_factor_max: float = nan
    """Times the demand at which that gives way, by the duty cycle or by how full resources are, and in a recommendation
    no more than replays bear; not known of a plan's placement that is replayed as it is, nor where much more does not
    suffice."""
    evidence: Evidence
    predicted: bool = False
    """Whether nobody measured the model on such a GPU, so that all these figures rest on a prediction's bad end."""
    speed_evidence: Evidence | None = None
    """Where its speeds on all its GPUs come from, by `speed_evidence_of`; None in plans that do not say."""
    uncertain: bool = False
    """Whether each replication draws its speeds from a band, for the user did not measure them."""
    precision: str = ""
    """That it runs at, e.g. `fp32`; empty in plans that do not say."""
    runtime: str = ""
    """That runs it, e.g. `pytorch`; empty in plans that do not say."""
    stages: tuple[StageAnswer, ...] = ()
    """Of a pipeline; none of a model."""

    def __post_init__(self) -> None:
        """See `said_by_older`."""
        said_by_older(self)

    @property
    def p99_shown_s(self) -> float:
        """p99 as tables show it: as sure as draws are asked to be, where phases or speeds are drawn, else the mean."""
        return self.p99_s if self.p99_in_draws_s is None else self.p99_in_draws_s

    @property
    def p99_high_s(self) -> float:
        """Its bad end: the same in draws, else that of its interval."""
        return self.p99.high if self.p99_in_draws_s is None else self.p99_in_draws_s


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuAnswer:
    """What one GPU does."""

    id: str
    kind: str
    host: str
    machines: int = 0
    """Place of its machine's type in `instances`."""
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
    predicted: bool = False
    """Whether some model on it is."""
    speed_evidence: Evidence | None = None
    """Where the speeds of its models come from, by `speed_evidence_of`; None where no model is on it."""
    uncertain: bool = False
    """Whether each replication draws the speed of some model on it."""

    def __post_init__(self) -> None:
        """See `said_by_older`."""
        said_by_older(self)


def said_by_older(one: ModelAnswer | GpuAnswer) -> None:
    """Fill in what an answer does not say that was kept when it said `predicted` alone: predicted speeds are drawn."""
    if one.predicted and one.speed_evidence is None:
        object.__setattr__(one, "speed_evidence", Evidence.PREDICTED)
        object.__setattr__(one, "uncertain", True)


class Searched(StrEnum):
    """How far a fleet was looked at."""

    CONFIRMED = "confirmed"
    """By replays that had no part in choosing it."""
    RANKED = "ranked"
    """By the first look at draws of speeds, of which as many must keep every SLO as are asked: enough to set fleets
    side by side. To be as sure as an answer it may need more GPUs."""
    SCREENED = "screened"
    """By a few replays: enough to set kinds of GPU side by side, not to buy."""


class Drawn(StrEnum):
    """What is drawn once for a site, for good."""

    PHASES = "phases"
    """How cameras stand to each other in time."""
    SPEEDS = "speeds"
    """How fast models are that the user did not measure, or whose speed differs between sessions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """How long was replayed, and why that suffices."""

    horizon_s: float
    """Of each replication."""
    warmup_s: float
    """Start of each that is not judged."""
    settling_s: float
    """Time in which queues that grew by chance are worked off: 0 where only cameras ask."""
    repeat_s: float | None
    """Time after which all cameras come round; None where that takes long, or other traffic is random."""
    draws_asked: float | None
    """Share of the draws that must meet every SLO; None where nothing is drawn."""
    drawn: tuple[Drawn, ...] = ()
    """What a draw is of."""
    draws_mixed: int
    """Draws that come by in the time over which an SLO counts; 1: phases stay."""
    draws: int | None = None
    """Draws of which shares are told; None where nothing is drawn."""
    draws_clear: int = 0
    """Draws of which a replay of some seconds left no doubt, and which were not replayed to the horizon."""
    draws_inferred: int = 0
    """Draws that were not replayed, for others that are slower in everything, or quicker, told what they would show."""
    draws_kept: Interval | None
    """Share of the draws in which every SLO is met in the long run."""
    swap: SwapPolicy | None
    """How swapping goes; None where all models stay in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitCosts:
    """What one pays for, in dollars."""

    per_million_requests: float
    per_million_right: float
    """Of requests answered in time and rightly; those that are lost are wrong. Accuracies are the scenario's."""
    per_stream_month: float | None
    """730 hours of what one camera sends to one model; None where not all that is sent comes from cameras."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """One way to serve the scenario, replayed and priced."""

    feasible: bool
    unready: bool = False
    """Whether the spares that the scenario asks for may not be bought."""
    searched: Searched = Searched.CONFIRMED
    """How far it was looked at: only `screened` where the search was interrupted before that."""
    instances: tuple[Instances, ...]
    memory: Memory | None
    """How models share the memory of their GPUs; None where nothing was placed."""
    merging: Merging = Merging.NONE
    """Which layers are stored once."""
    gpu_count: int
    cost_usd_per_hour: float
    """Of all machines, spares included."""
    cost_usd_per_month: float
    """730 hours."""
    unit_costs: UnitCosts | None = None
    """None in plans of older versions, and where nothing was replayed."""
    lower_bound_usd_per_hour: float
    """What no plan can beat that keeps its headroom, in batches that were profiled, one at a time on a GPU."""
    lower_bound_full_usd_per_hour: float = nan
    """The same without headroom."""
    power_w: float
    """Mean power of all GPUs."""
    demand_factor_max: float = nan
    """Times the demand up to which every queue drains, batches as large as are allowed and weights loaded; not known of
    alternatives."""
    replications: int
    requests: int = 0
    """Replayed, all replications together."""
    replayed: Replayed | None = None
    """None in plans of older versions, and where nothing was replayed."""
    models: tuple[ModelAnswer, ...]
    """Pipelines among them. Empty where nothing could even be tried."""
    gpus: tuple[GpuAnswer, ...]
    resources: tuple[ResourceAnswer, ...] = ()
    """What pipelines take of each resource; empty without pipelines."""

    @property
    def candidate(self) -> Candidate:
        """What is bought, without its prices."""
        return Candidate(
            machines=tuple(one.machines for one in self.instances), memory=self.memory, merging=self.merging
        )

    @property
    def predicted(self) -> bool:
        """Whether some figure rests on a prediction."""
        return any(model.predicted for model in self.models)

    @property
    def uncertain(self) -> bool:
        """Whether some speed is drawn, for the user did not measure it."""
        return any(model.uncertain for model in self.models)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfOneKind:
    """The cheapest fleet that was found of one kind of GPU alone."""

    gpu: str
    candidate: Candidate
    gpu_count: int
    cost_usd_per_hour: float
    """At the price that the scenario asks for."""
    usd_per_hour_by_price: dict[str, float]
    """The same instances at every kind of price that all of them are sold at; empty for machines of one's own."""
    prices_as_of: str = ""
    """ISO date of the oldest price in it; empty for machines of one's own."""
    prices_as_of_by_price: dict[str, str] = field(default_factory=dict)
    """The same at every kind of price."""
    utilization: float
    """Mean over GPUs of the share of time in which a batch runs."""
    power_w: float
    slo_held: Interval | None
    """Share of the draws - of phases, of speeds - in which every SLO is met; None where nothing is drawn."""
    undecided: bool = False
    """Whether that is less than is asked, of replications too few to tell."""
    evidence: Evidence
    predicted: bool
    speed_evidence: Evidence | None = None
    """Where speeds come from, by `speed_evidence_of`; None in plans that do not say."""
    precision: str = ""
    """That its models run at, e.g. `amp and fp32`; empty in plans that do not say."""
    runtime: str = ""
    """That runs them; empty in plans that do not say."""
    searched: Searched = Searched.CONFIRMED
    """How far it was looked at; of one that was only screened the figures are rough."""
    replications: int = 0
    """From which these figures are; 0 in plans that do not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindLeftOut:
    """A kind of GPU on offer of which no fleet stands beside the others."""

    gpu: str
    why: Statement
    usd_per_hour_at_least: float | None = None
    """Price that no fleet of it alone can beat, with spares; None where it cannot carry the work, or is not sold so."""
    gpus_at_least: int | None = None
    """GPUs that no fleet of it alone can do with fewer of, limits on buying aside; None where that was not asked."""
    gpus_tried: tuple[int, ...] = ()
    """GPUs of each fleet of it that was tried and missed an SLO."""
    precision: str = ""
    """That its models would run at; empty where they cannot, and in plans that do not say."""


def is_as_sure(found: Recommendation | OfOneKind, best: Recommendation) -> bool:
    """Whether a fleet is as sure to meet every SLO as the answer: confirmed, or ranked by as many draws, of which as
    many keep every SLO."""
    is_ranked = found.searched is Searched.RANKED
    as_many = found.replications >= best.replications and share_kept(found) >= share_kept(best)
    return found.searched is Searched.CONFIRMED or (is_ranked and as_many)


def share_kept(found: Recommendation | OfOneKind) -> float:
    """Share of its draws that keep every SLO; 1 where nothing is drawn."""
    kept = found.slo_held if isinstance(found, OfOneKind) else found.replayed and found.replayed.draws_kept
    return kept.mean if kept else 1.0


NOTHING_TRIED = Recommendation(
    feasible=False,
    instances=(),
    memory=None,
    gpu_count=0,
    cost_usd_per_hour=nan,
    cost_usd_per_month=nan,
    lower_bound_usd_per_hour=nan,
    power_w=nan,
    replications=0,
    models=(),
    gpus=(),
)
"""The answer where no fleet could even be replayed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanWarning:
    """Something that weakens the answer, and what to do about it."""

    what: Statement
    remedies: tuple[Statement, ...] = ()
    """What helps in this case; empty where the same helps in every such case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """So much is saved from then on: partial successes count at once."""

    after_s: float
    """Training time since the search for what to share began."""
    saved_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WayOfServing:
    """One of the ways that were weighed: all on its own, merged by a rule, or with one more GPU."""

    merging: Merging
    """`none`, `stem` or `layers`."""
    candidate: Candidate
    gpus_added: int = 0
    """GPUs more than the cheapest fleet of any way has."""
    chosen: bool
    feasible: bool
    """Whether every SLO was surely kept in the replays."""
    gpu_count: int
    weights_bytes: int
    """All models' weights, shared layers once."""
    saved_bytes: int
    """What sharing saves of them."""
    peak_memory_bytes: int
    """Of all GPUs together."""
    processed_fraction: float
    """Of the model that has least."""
    merged_accuracy: float
    """Over that alone, of the model that has least; 1 where nothing is shared."""
    right_fraction: float = nan
    """Of all requests of all models: answered in time, and rightly by the scenario's accuracies."""
    usd_per_million_right: float = nan
    """Of `total_usd_per_month`, for these."""
    cost_usd_per_hour: float
    """Of the machines."""
    training_usd: float
    """Once, to find out what can be shared and to train it; not known where the scenario does not say what it takes."""
    retraining_usd_per_month: float
    """Because scenes change."""
    total_usd_per_month: float
    """Machines, retraining, and the first training written off."""
    evidence: Evidence | None
    """Of the accuracy; None where nothing is shared."""
    live: tuple[Live, ...]
    """How the saving grew during the search; times do not exist where the scenario does not say what training takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The answer to one scenario."""

    scenario: str
    scenario_sha256: str
    seed: int
    """Start of all random numbers of a plan's replays, whatever the scenario's; in plans of older versions that one."""
    versions: dict[str, str]
    created_at: str
    """ISO time stamp; the only value that differs between two equal runs."""
    policies: Policies
    recommendation: Recommendation
    """The best, or where none is feasible the closest; NOTHING_TRIED where nothing could be replayed."""
    alternatives: tuple[Recommendation, ...] = ()
    """Other feasible ways, best first."""
    pareto: tuple[int, ...] = ()
    """Which no other beats in both cost and worst latency relative to its SLO: 0 the recommendation, 1 the first of the
    alternatives, and so on."""
    by_gpu: tuple[OfOneKind, ...] = ()
    """Each kind of GPU alone, the cheapest first, without those that cannot do it or cost more than twice as much."""
    by_gpu_left_out: tuple[KindLeftOut, ...] = ()
    """Those others of the kinds that the scenario names, or else that are on offer, and why."""
    rejections: tuple[Rejection, ...] = ()
    predictions: tuple[Prediction, ...] = ()
    """What the recommendation rests on in place of profiles, each at its largest batch."""
    outlooks: tuple[Outlook, ...] = ()
    """GPUs without profiles that might be cheaper, the cheapest first."""
    precisions: tuple[PrecisionOutlook, ...] = ()
    """What other precisions would cost."""
    measure_next: tuple[Measurement, ...] = ()
    """The one measurement that would narrow the answer most; empty where all is measured."""
    prices_as_of: str = ""
    """Oldest price date used; empty where nothing is rented."""
    merging: tuple[WayOfServing, ...] = ()
    """The ways that were weighed; empty where the scenario merges nothing."""
    assumptions: tuple[Statement, ...] = ()
    warnings: tuple[PlanWarning, ...] = ()
    scenario_seed: int | None = None
    """What replays of the scenario start from; None in plans of older versions."""
    scenario_text: str = ""
    """The file as it was; empty in plans of older versions."""
    scenario_overrides: tuple[str, ...] = ()
    """`--set` values that changed it."""
    latency: tuple[LatencyHistogram, ...] = ()
    """Of the recommendation, by model."""
    timeline: Timeline | None = None
    """Of the recommendation; None where nothing was replayed, and in plans of older versions."""
    schema: str = field(default=SCHEMA)

    @property
    def interrupted(self) -> bool:
        """Whether the search was ended before it was done."""
        return self.interrupted_before or any(one.what.code is Code.INTERRUPTED for one in self.warnings)

    @property
    def interrupted_before(self) -> bool:
        """Whether it was ended before any fleet was seen to meet every SLO."""
        return any(one.what.code is Code.INTERRUPTED_BEFORE for one in self.warnings)


class InterruptedSearch(KeyboardInterrupt):
    """Ctrl-C during a search, with the best plan until then, or what was tried in vain."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan = plan


# Rejections, the nearest miss first

FLEET = frozenset(Bottleneck) - {Bottleneck.COST, Bottleneck.PRICE, Bottleneck.PROFILE, Bottleneck.RETIRED}
"""What can stop a fleet that was tried; the rest stops an offer before."""


def nearest(plan: Plan) -> list[Rejection]:
    """Refused fleets that would have been the better buy, the nearest miss first: where all miss, the answer's own."""
    closest = None if plan.recommendation.feasible else plan.recommendation.candidate
    fleets = [no for no in plan.rejections if is_fleet(no) and cheaper(plan, no)]
    return sorted(fleets, key=lambda no: (no.subject != closest, *distance(no)))


def cheaper(plan: Plan, no: Rejection) -> bool:
    """Whether a refused candidate would have been the better buy; any would, where nothing is feasible."""
    best = plan.recommendation
    return not best.feasible or (no.cost_usd_per_hour or 0) < best.cost_usd_per_hour


def distance(no: Rejection) -> tuple[float, float]:
    """How far beyond its limit a fleet was, of draws by the share of them that meets SLOs; then how many requests came
    late."""
    at = no.why.figures
    late = 1 - at["mean"] / at["target"] if at.keys() >= {"mean", "target"} else 0.0
    if no.why.code is Code.MISSED_IN_DRAWS:
        return 1 - at["kept"] / at["asked"], late
    return overshoot(no), late


def overshoot(no: Rejection) -> float:
    """How far beyond its limit a candidate was, as a share of the limit: 81 ms where 50 ms are allowed: 0.62."""
    return abs(no.observed - no.limit) / no.limit if no.limit else inf


def is_fleet(no: Rejection) -> bool:
    """Whether a fleet was rejected, or a model on any, not an offer that another is better than."""
    return isinstance(no.subject, Candidate) or no.bottleneck in FLEET
