"""The answer to a training scenario as data. Tables, pictures and the JSON read only this."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from planner.catalog.sold import seller
from planner.model.plan import PlanWarning, Rejection
from planner.model.ranges import Range
from planner.questions.training.speed import Limit, SpeedRule
from planner.questions.training.step import RunInterruptions
from simulator.world.profile import Evidence

SCHEMA = "planner.training/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOption:
    """One way to train: its time, memory and cost at the ends and the middle of what is predicted."""

    gpu: str
    gpu_count: int
    instance: str
    provider: str
    """Who rents the machine; empty where it is one's own or bought."""
    region: str = ""
    """Where it is rented."""
    machines: int
    price_kind: str
    price_as_of: str = ""
    """ISO date of its price; empty where it is one's own."""
    global_batch: int
    micro_batch: float
    """Samples of one pass on one copy of the model."""
    accumulation_chosen: int | None = None
    """Passes before each step, chosen so that it fits in memory; None where that takes one, or the scenario says."""
    parallel: str
    """How the GPUs share the work, in words."""
    undivided: bool = False
    """Each GPU has the whole model, for the parts of the scenario do not divide their number."""
    fits: bool
    """At the upper end of the memory that it may need."""
    memory_bytes: int
    """Memory of the fullest GPU, at the middle."""
    memory: Mapping[str, float]
    """Memory of the fullest GPU by kind."""
    memory_range_bytes: Range
    memory_limit_bytes: int
    largest_batch: int
    """Most samples of one pass that surely fit on one GPU or pipeline; 0 where none does."""
    accumulation_enough: int | None = None
    """Fewest passes a step with which it surely fits; None where it does already, or with none."""
    gpus_needed: int | None
    """Fewest GPUs that could hold weights, gradients and optimizer states divided among them."""
    steps: float
    step_s: float
    step_range_s: Range | None = None
    """Its band; None in answers of before that was said."""
    time_s: Range
    time_parts_s: Mapping[str, float] = field(default_factory=dict)
    """The middle of `time_s` by what takes it; empty in answers of before that was told apart."""
    interruptions: RunInterruptions | None = None
    """None where nothing interrupts the run."""
    cost_usd: Range
    commitment_usd: float
    """Cost of a whole reservation or purchase, of which the run uses a part; 0 where machines are paid by the hour."""
    commitment_used: float | None
    """Share of the commitment's time that the run takes; None without one."""
    energy_j: float
    co2_kg: float | None
    bottleneck: Limit
    host_cores: int | None = None
    """Virtual CPUs of one machine; None where nobody says."""
    workers_enough: int | None
    """Loader workers for each GPU with which the loader delays nothing; None where the scenario has no loader."""
    network_bytes_per_s: Range | None = None
    """Bandwidth of one machine to others; None where it is the only one."""
    network_assumed: bool = False
    """Neither does the scenario state that bandwidth nor its provider list it."""
    staleness: int
    """Updates by others before a gradient arrives; 0 where all step together."""
    usd_per_tflops: float | None
    """Dollars of three years of a machine, or its price where bought, for each TFLOP/s of its peak; None where it has
    no such precision."""
    rule: SpeedRule | None = None
    """How the speed was found; None in answers of before that was said."""
    evidence: Evidence
    source: str
    """Where the speed comes from, in words."""
    sources: tuple[str, ...] = ()
    """Ids of publications that it rests on, and the source of a profile; empty where the scenario or data sheets say
    it."""
    within_deadline: bool
    """It meets the deadline even at the late end."""
    deadline_probability: float | None = None
    """Probability that it meets the deadline, by the band of its time; None without a deadline."""
    within_budget: bool
    """It keeps the budget even at the dear end, commitments counted whole."""
    pareto: bool = False
    """No option that fits is both faster and cheaper, commitments counted whole; where none surely fits, that may."""

    @property
    def may_fit(self) -> bool:
        """It fits at the middle of the memory that it may need."""
        return self.memory_bytes <= self.memory_limit_bytes

    @property
    def name(self) -> str:
        """`4 x p3.16xlarge (32 V100)`."""
        return f"{self.machines} x {self.instance} ({self.gpu_count} {self.gpu})"

    @property
    def priced(self) -> str:
        """`spot of aws us-east-2`; `own`."""
        whose = seller(self.provider, self.region)
        return f"{self.price_kind} of {whose}" if whose else self.price_kind

    @property
    def paid_usd(self) -> float:
        """Dollars that are really paid at the middle: the run, or the whole commitment that it needs."""
        return max(self.cost_usd.mid, self.commitment_usd)


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedChange:
    """A change of a scenario of which nothing fits in memory, and the best that fits with it."""

    key: str
    """As `--set` takes it."""
    values: tuple[str, ...]
    """The one that it fits with; all that were tried where it fits with none."""
    option: TrainingOption | None
    """The cheapest that fits, of those that keep the limits where any does; None where nothing fits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPlan:
    """The answer."""

    schema: str = SCHEMA
    name: str
    options: tuple[TrainingOption, ...]
    cheapest: TrainingOption | None
    """By what is really paid, within memory, the deadline and the budget at the bad ends; where none fits so surely, at
    the middle of memory."""
    fastest: TrainingOption | None
    """The same, by time; of those whose times cannot be told apart, the cheapest."""
    cheaper_if_it_fits: TrainingOption | None = None
    """Cheapest of all that fit at the middle of their memory and keep the limits, where it does not surely fit."""
    faster_if_it_fits: TrainingOption | None = None
    """The same, by time."""
    cheaper_if_fed: TrainingOption | None = None
    """Cheapest of all that keep the limits, where its processors likely cannot make as many pictures as it takes."""
    faster_if_fed: TrainingOption | None = None
    """The same, by time."""
    cheapest_rival: TrainingOption | None = None
    """Cheapest of the other kinds of GPU, where nobody can tell whether it is not cheaper than `cheapest`."""
    fastest_rival: TrainingOption | None = None
    """The same, by time."""
    tried: tuple[TriedChange, ...] = ()
    """Changes that were tried where nothing fits in memory, those that help first, by what is paid then."""
    unused: tuple[str, ...] = ()
    """What the scenario says and no figure rests on."""
    assumptions: tuple[str, ...] = ()
    """What the scenario leaves open of a sample, and all figures rest on."""
    feeding: tuple[str, ...] = ()
    """What processors have to make ready that the scenario does not say, or more workers than they have."""
    warnings: tuple[str, ...] = ()
    rejections: tuple[Rejection, ...] = ()
    prices_as_of: str = ""
    """ISO date of the oldest price; empty where all machines are one's own."""
    cheapest_at_fresh_price: TrainingOption | None = None
    """The same as `cheapest` of those whose price is not stale, where its own is."""
    stale_prices: tuple[PlanWarning, ...] = ()
    """Prices of the answers that may have changed since, one of each date."""
    deadline_s: float | None = None
    budget_usd: float | None = None
