"""Training scenarios: what is trained, on what, until when, as frozen data in SI units - and how YAML becomes it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, ClassVar

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from calibrate.io.points import PRECISIONS
from planner.model.checked import STRICT
from planner.model.choices import PriceKind
from planner.model.parts.fields import Count, Factory, GpuKind, InputShape, ModelName, Name
from planner.model.parts.machines import BuySpec
from planner.model.ranges import ranged
from planner.questions.training.closed_forms import FLOPS_PER_PARAM_TOKEN, FORWARD_SHARE
from planner.questions.training.memory import OPTIMIZERS, Split
from planner.units.reading import (
    ONE,
    Delay,
    Duration,
    Fraction,
    Latency,
    LongDuration,
    PositiveBytes,
    Quantity,
    Rate,
    known_precision,
    rounded,
)

RECOMPUTE = ("none", "selective", "full")
WHOLE = Split()
"""A model that is not divided."""
COUNTS = tuple(2**n for n in range(14))
"""Numbers of GPUs that are tried where a scenario names none."""
SHOWN_COUNTS = 12
"""Numbers of GPUs that a message lists."""
SPOT_BETWEEN_S = ranged(6 * 3600.0, 24 * 3600.0, 96 * 3600.0)
"""Mean time between interruptions of a spot machine of which nobody says it: a day, or four times as often or seldom.
Providers' own figures spread wider, from hours to months, by kind of machine and region."""
FROZEN_KEYS = "lora qlora dora peft adapter adapters freeze freezes frozen unfreeze trainable"
FROZEN = (
    "All weights are trained: frozen ones, LoRA and adapters are not modelled. Leave it out: memory and time are then"
    " an upper bound, but for what adapters add."
)
KILO = Decimal(1000)
flop_rate = Quantity(
    "a rate of operations",
    ("28 TFLOP/s",),
    {"FLOP/s": ONE, "GFLOP/s": KILO**3, "TFLOP/s": KILO**4, "PFLOP/s": KILO**5},
    zero=False,
)
byte_rate = Quantity(
    "a bandwidth",
    ("25 GB/s", "100 Gb/s"),
    {
        "B/s": ONE,
        "MB/s": KILO**2,
        "GB/s": KILO**3,
        "TB/s": KILO**4,
        "Mb/s": KILO**2 / 8,
        "Gb/s": KILO**3 / 8,
        "Tb/s": KILO**4 / 8,
    },
    zero=False,
)


class Dollars(Quantity):
    """An amount of money; the sign may stand before or after the number."""

    __slots__ = ()

    def parse(self, text: str, said: str = "") -> float:
        """`$500`, `500 USD` and `500` are the same."""
        return Quantity.parse(self, text.strip().removeprefix("$"), said or text)


dollars = Dollars("an amount of money", ("$500",), {"$": ONE, "USD": ONE}, zero=False, prefix=r"\$?\s*")
FlopRate = Annotated[float, BeforeValidator(flop_rate), WithJsonSchema(flop_rate.json_schema)]
EPOCHS_MAX = 1e6


def _within_reach(epochs: float) -> float:
    """Epochs that a run can have."""
    if epochs > EPOCHS_MAX:
        raise ValueError(f"must be at most {rounded(EPOCHS_MAX)}, got {epochs:g}. Write e.g. `epochs: 90`.")
    return epochs


ByteRate = Annotated[float, BeforeValidator(byte_rate), WithJsonSchema(byte_rate.json_schema)]
Usd = Annotated[float, BeforeValidator(dollars), WithJsonSchema(dollars.json_schema)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Epochs = Annotated[
    float,
    Field(gt=0, allow_inf_nan=False, json_schema_extra={"maximum": EPOCHS_MAX}),
    AfterValidator(_within_reach),
]
PositiveFraction = Annotated[Fraction, Field(gt=0, le=1)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def _precision(value: object) -> object:
    """`FP16` is `fp16`; ValueError where no training runs at it."""
    return known_precision(value, PRECISIONS) if isinstance(value, str) else value


Precision = Annotated[str, BeforeValidator(_precision), Field(json_schema_extra={"enum": list(PRECISIONS)})]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformer:
    """A transformer by its shape."""

    __pydantic_config__ = STRICT
    layers: Count
    """Blocks."""
    hidden: Count
    """Width."""
    heads: Count
    """Heads of each attention."""
    sequence: Count
    """Tokens of one sample."""
    vocabulary: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    """Words it knows."""
    params: Positive | None = None
    """All parameters; from the shape where not given."""
    active_params: Positive | None = None
    """Parameters that one token uses: of a mixture of experts fewer than all."""
    experts: Count = 1
    """Experts of each mixture; 1: there is none."""

    @property
    def shape_params(self) -> float:
        """Parameters of a GPT, arXiv 2104.04473: 12 L h^2 (1 + 13/12h) + (V + s) h. 96 x 12,288, 51,200 words: 175e9"""
        h = self.hidden
        return 12 * self.layers * h * h * (1 + 13 / (12 * h)) + (self.vocabulary + self.sequence) * h

    def activation_bytes(self, micro_batch: float, split: Split = WHOLE, recompute: str = "none") -> float:
        """Bytes kept for the backward pass by the first stage of a pipeline, 2-byte numbers: arXiv 2205.05198, table 2.

        s b h L (10 + 24/t + 5 a s / h t) bytes, with sequence parallelism s b h L (34 + 5 a s / h) / t; selective
        recomputation drops 5 a s / h, full recomputation leaves 2 s b h L. The first stage holds as many micro-batches
        as there are stages, so that its share is that of all L layers. 48 layers of 6,144, 64 heads, 2,048 tokens,
        4 samples, t = 8: 59.25 GiB; sequence parallel and selective: 9.56 GiB.
        """
        numbers = self.sequence * micro_batch * self.hidden * self.layers
        if recompute == "full":
            return 2 * numbers / (split.tensor if split.sequence_parallel else 1)
        attention = 0.0
        if recompute != "selective":
            attention = 5 * self.heads * self.sequence / self.hidden
        if split.sequence_parallel:
            return numbers * (34 + attention) / split.tensor
        return numbers * (10 + (24 + attention) / split.tensor)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedModel:
    """The model: exactly one of `zoo`, `factory` and `transformer`."""

    __pydantic_config__ = STRICT
    zoo: ModelName | None = None
    """By its name, e.g. `resnet50` or `timm:resnet50.a1_in1k`."""
    factory: Factory | None = None
    """A model of yours, `package.module:factory`. **Its code is run**, to see its layers."""
    input: InputShape = ()
    """With `factory`, or another than the usual one of a package's model: the shape of one sample, e.g. `3x224x224`."""
    transformer: Transformer | None = None
    """By its shape."""
    profile: Name | None = None
    """Whose measured times count; the zoo's name where not given."""
    pixels: Count | None = None
    """Height and width of pictures; the model's own where not given."""
    channels: Annotated[int, Field(ge=1, le=64)] | None = None
    """1 for grey pictures; the model's own where not given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderSpec:
    """The processes that bring samples to each GPU."""

    __pydantic_config__ = STRICT
    workers: Count
    """Processes for each GPU."""
    rate: Rate | None = None
    """Samples a second that one of them makes ready, e.g. `400 /s`; where not given, as probed beside the profiles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSpec:
    """The training data: `samples`, or for transformers `tokens`."""

    __pydantic_config__ = STRICT
    samples: Annotated[int, Field(ge=1, le=10**15)] | None = None
    """Samples of one epoch."""
    tokens: Positive | None = None
    """Tokens of one epoch, e.g. `300e9`."""
    used: PositiveFraction = 1.0
    """Share of them that is used, e.g. `50 %`."""
    bytes: PositiveBytes | None = None
    """Size of one sample as it is stored, e.g. `110 kB`."""
    storage: ByteRate | None = None
    """Bandwidth of a machine's storage, e.g. `1 GB/s`; with `bytes`."""
    loader: LoaderSpec | None = None
    """Never too slow where not given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochPoint:
    """Epochs that reached the target at a global batch."""

    __pydantic_config__ = STRICT
    global_batch: Count
    """Samples of one step on all GPUs."""
    epochs: Epochs
    """Until the target was reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainSpec:
    """The training: `epochs` or `epochs_to_target`; `global_batch` or `micro_batch`."""

    __pydantic_config__ = STRICT
    epochs: Epochs | None = None
    """Passes over the data; may be less than one."""
    epochs_to_target: tuple[EpochPoint, ...] = ()
    """Instead: runs that reached the accuracy wanted. Several of one batch show how far seeds differ."""
    global_batch: Count | None = None
    """Samples of one step on all GPUs."""
    micro_batch: Count | None = None
    """Instead: samples of one pass on one GPU (or one pipeline of them)."""
    accumulation: Count | None = None
    """Passes before each step; with a pipeline, the micro-batches that fill it. Where not given: one, and of a network
    without batch norm as few more of `global_batch` as fit in memory."""
    precision: Precision = "fp32"
    """`fp32`, `tf32`, `torch` (as PyTorch comes), `amp`, `amp-bf16`, `bf16` or `fp16`."""
    optimizer: Annotated[str, Field(json_schema_extra={"enum": list(OPTIMIZERS)})] = "momentum"
    """`sgd`, `momentum`, `adam`, `adamw`, `adam8bit` or `adagrad`."""
    recompute: Annotated[str, Field(json_schema_extra={"enum": list(RECOMPUTE)})] = "none"
    """Activation checkpointing: `none`, `selective` (attention alone), `full`."""
    evaluation: Annotated[int, Field(ge=0, le=10**12)] = 0
    """Samples that are judged after each epoch."""
    sync_batch_norm: bool = False
    """Batch norms of all GPUs agree in every pass."""

    @property
    def passes(self) -> int:
        """Passes before each step, one where the scenario does not say."""
        return self.accumulation or 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelSpec:
    """The division of a model. The rest of the GPUs is data parallel."""

    __pydantic_config__ = STRICT
    tensor: Count = 1
    """GPUs among which each layer is divided."""
    pipeline: Count = 1
    """GPUs among which the layers are divided."""
    zero: Annotated[int, Field(ge=0, le=3)] = 0
    """ZeRO stage: data parallel GPUs share optimizer states (1), gradients too (2), weights too (3)."""
    sequence_parallel: bool = False
    """With `tensor`: the rest of a layer is divided too."""
    synchronous: bool = True
    """All take each step together; else each by itself, on parameters that the others have changed meanwhile."""
    epochs_per_staleness: NotNegative = 0.0
    """Asynchronous: share of epochs more for each update that a gradient comes late."""
    overlap: bool = True
    """Gradients travel during the backward pass."""

    @property
    def parts(self) -> int:
        """GPUs among which one copy of the model is divided."""
        return self.tensor * self.pipeline


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedSpec:
    """The speed on a kind of GPU: one of `achieved`, `rate`, `step`, `run`."""

    __pydantic_config__ = STRICT
    gpu: GpuKind
    """Kind of GPU, as in the catalog."""
    gpu_count: Count = 1
    """With `step`, `rate` or `run`: GPUs it was measured on, all together."""
    global_batch: Count | None = None
    """With `step`, `rate` or `run`: the batch it was measured at; the scenario's where not given."""
    achieved: FlopRate | None = None
    """Operations a second of one GPU over the whole run, e.g. `140 TFLOP/s`."""
    rate: Rate | None = None
    """Samples a second of all GPUs."""
    step: Latency | None = None
    """One step."""
    run: LongDuration | None = None
    """The whole training of this scenario."""
    flops_per_param_token: Positive | None = None
    """With `achieved`: 6, or 8 with full recomputation; from `recompute` where not given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSpec:
    """The network between machines."""

    __pydantic_config__ = STRICT
    bandwidth: ByteRate | None = None
    """Bandwidth of one machine, one direction, e.g. `25 Gb/s`. Where not given, what the provider lists of it, else
    20 Gb/s for each of its GPUs, which is assumed."""
    latency: Delay = 20e-6
    """Latency of one message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptionSpec:
    """Interruptions of a run, and the time they take."""

    __pydantic_config__ = STRICT
    mean_time_between: LongDuration | None = None
    """Mean time between failures of one machine; none where not given."""
    spot_mean_time_between: LongDuration | None = None
    """Mean time between interruptions of a machine at spot price; 24 h (6 h to 4 days) are assumed where not given."""
    write: Duration = 60.0
    """To write a checkpoint."""
    restart: Duration = 300.0
    """From an interruption until training goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PurchaseSpec:
    """Machines that are bought, as the catalog prices them."""

    __pydantic_config__ = STRICT
    years: Positive = 3.0
    """Over which a machine is written off."""
    interest: Annotated[Fraction, Field(ge=0, lt=1)] = 0.05
    """A year."""
    used: PositiveFraction = 0.6
    """Share of its hours that it works."""
    electricity: NotNegative = 0.12
    """USD for a kWh."""
    overhead: Annotated[float, Field(ge=1, le=10)] = 1.3
    """Power of the room over power of the machine (PUE)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingScenario:
    """A question: train this model on that data - on what, how long, for how much?"""

    __pydantic_config__ = STRICT
    LACKS: ClassVar[Mapping[str, str]] = {FROZEN_KEYS: FROZEN}
    name: str = ""
    """Title of the answer."""
    model: TrainedModel
    """The model that is trained."""
    data: DataSpec
    """The training data."""
    train: TrainSpec
    """The training itself."""
    parallel: ParallelSpec = ParallelSpec()
    """The division of the work."""
    speed: tuple[SpeedSpec, ...] = ()
    """Measured or published speeds; they go before all predictions."""
    utilization: PositiveFraction | None = None
    """Share of peak operations that is reached; a band from published runs where not given."""
    goodput: PositiveFraction | None = None
    """Share of the time in which steps are made; a band from published runs where not given."""
    network: NetworkSpec = NetworkSpec()
    """Between machines."""
    interruptions: InterruptionSpec = InterruptionSpec()
    """Failures, and spot machines that are taken away."""
    buy: BuySpec = field(default_factory=BuySpec)
    """Machines that may be rented or used."""
    prices: Annotated[tuple[PriceKind, ...], Field(min_length=1)] = ()
    """Kinds of price to compare; `buy.price` where not given."""
    purchase: PurchaseSpec | None = None
    """Also machines that the catalog has a purchase price of."""
    counts: Annotated[tuple[Count, ...], Field(min_length=1, max_length=100)] = ()
    """Numbers of GPUs to try; where not given, powers of two up to `buy.max_gpus` that `parallel` divides."""
    context: PositiveBytes | None = None
    """GPU memory that a process holds before any model is loaded; as it was measured, else 800 MB, where not given."""
    deadline: LongDuration | None = None
    """Longest it may take."""
    budget: Usd | None = None
    """Most it may cost."""
    grid: NotNegative | None = None
    """g CO2 for a kWh; without it the answer has no CO2."""

    @property
    def usual_counts(self) -> tuple[int, ...]:
        """Numbers of GPUs that are tried of a model that is not divided, where the scenario names none."""
        return tuple(n for n in COUNTS if n <= self.buy.max_gpus)

    @property
    def gpu_counts(self) -> tuple[int, ...]:
        """Numbers of GPUs to try: of those that nobody named the ones that make up copies of a divided model."""
        return self.counts or tuple(n for n in self.usual_counts if not n % self.parallel.parts)

    @property
    def epoch_samples(self) -> float:
        """Samples of one epoch."""
        if self.data.samples is not None:
            return self.data.samples * self.data.used
        assert self.data.tokens is not None
        assert self.model.transformer
        return self.data.tokens * self.data.used / self.model.transformer.sequence

    @property
    def epochs_most(self) -> float:
        """Epochs, the most of those to a target."""
        return self.train.epochs or max((point.epochs for point in self.train.epochs_to_target), default=1.0)

    @property
    def price_kinds(self) -> tuple[PriceKind, ...]:
        """Kinds of price to compare."""
        return tuple(dict.fromkeys(self.prices)) or (self.buy.price,)

    @property
    def computed_again(self) -> float:
        """Operations of a step that activation checkpointing adds, as a share of those without.

        Full: a forward pass more. Selective: attention's, s / (6 h + s); 2,048 tokens and a width of 12,288: 2.7 %.
        arXiv 2205.05198, equations 7 and 8.
        """
        shape = self.model.transformer
        if self.train.recompute == "selective" and shape:
            return shape.sequence / (6 * shape.hidden + shape.sequence)
        return FORWARD_SHARE if self.train.recompute == "full" else 0.0

    @property
    def flops_per_param_token(self) -> float:
        """Operations for each parameter and token."""
        return FLOPS_PER_PARAM_TOKEN * (1 + self.computed_again)


def batch_of(scenario: TrainingScenario, gpu_count: int) -> float | None:
    """Samples of one pass on one copy of the model, with so many GPUs; None where the batch is not divided by them."""
    train = scenario.train
    if train.micro_batch is not None:
        return train.micro_batch
    assert train.global_batch is not None
    batch, rest = divmod(train.global_batch, copies(scenario, gpu_count) * train.passes)
    return None if rest else batch


def step_samples(scenario: TrainingScenario, gpu_count: int) -> float:
    """Samples of one step on so many GPUs."""
    train = scenario.train
    if train.global_batch is not None:
        return train.global_batch
    return (train.micro_batch or 0) * copies(scenario, gpu_count) * train.passes


def has_a_step(scenario: TrainingScenario, gpu_count: int) -> bool:
    """The whole training has one step or more on so many GPUs."""
    return scenario.epochs_most * scenario.epoch_samples >= step_samples(scenario, gpu_count)


def copies(scenario: TrainingScenario, gpu_count: int) -> int:
    """Copies of the model on so many GPUs; where its parts do not divide their number, each GPU has a whole copy."""
    parts = scenario.parallel.parts
    return gpu_count if gpu_count % parts else gpu_count // parts
