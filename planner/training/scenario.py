"""Training scenarios: what is trained, on what, until when, as frozen data in SI units - and how YAML becomes it."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError, WithJsonSchema

from planner.load import MAX_LINES, ScenarioError, ScenarioReader, line, message, shown
from planner.scenario import STRICT, BuySpec, Count, Factory, Name, PositiveBytes, PositiveDuration, PriceKind
from planner.strict_yaml import YamlError, parse, read_text
from planner.training.memory import CONTEXT_BYTES, OPTIMIZERS, PRECISIONS
from planner.units import ONE, Duration, Fraction, Quantity, Rate, did_you_mean

SPEEDS = ("achieved", "rate", "step", "run")
COUNTS = tuple(2**n for n in range(14))
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
    {f"{p}B/s": f for p, f in (("", ONE), ("M", KILO**2), ("G", KILO**3), ("T", KILO**4))}
    | {f"{p}b/s": f / 8 for p, f in (("M", KILO**2), ("G", KILO**3), ("T", KILO**4))},
    zero=False,
)


class Dollars(Quantity):
    """An amount of money; the sign may stand before or after the number."""

    __slots__ = ()

    def parse(self, text: str) -> float:
        """`$500`, `500 USD` and `500` are the same."""
        return Quantity.parse(self, text.strip().removeprefix("$"))


dollars = Dollars("an amount of money", ("$500",), {"$": ONE, "USD": ONE}, zero=False, prefix=r"\$?\s*")

FlopRate = Annotated[float, BeforeValidator(flop_rate), WithJsonSchema(flop_rate.json_schema)]
ByteRate = Annotated[float, BeforeValidator(byte_rate), WithJsonSchema(byte_rate.json_schema)]
Usd = Annotated[float, BeforeValidator(dollars), WithJsonSchema(dollars.json_schema)]
PositiveFraction = Annotated[Fraction, Field(gt=0, le=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Precision = Annotated[str, Field(json_schema_extra={"enum": list(PRECISIONS)})]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformerSpec:
    """A transformer by its shape."""

    __pydantic_config__ = STRICT
    layers: Count
    """Blocks."""
    hidden: Count
    """Width."""
    heads: Count
    """Of each attention."""
    sequence: Count
    """Tokens of one sample."""
    vocabulary: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    """Words it knows."""
    params: Positive | None = None
    """All parameters; from the shape where not given."""
    active_params: Positive | None = None
    """Parameters that one token uses: of a mixture of experts fewer than all."""
    experts: Count = 1
    """Of each mixture; 1: there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedModel:
    """The model: exactly one of `zoo`, `factory` and `transformer`."""

    __pydantic_config__ = STRICT
    zoo: Name | None = None
    """One of the zoo's, e.g. `resnet50`."""
    factory: Factory | None = None
    """A model of yours, `package.module:factory`. **Its code is run**, to see its layers."""
    input: tuple[Count, ...] = ()
    """With `factory`: the shape of one sample, e.g. `[3, 224, 224]`."""
    transformer: TransformerSpec | None = None
    """By its shape."""
    profile: Name | None = None
    """Whose measured times count; the zoo's name where not given."""
    pixels: Count | None = None
    """Height and width of pictures; the model's own where not given."""
    channels: Annotated[int, Field(ge=1, le=64)] | None = None
    """1 for grey pictures; the model's own where not given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderSpec:
    """What brings samples to each GPU."""

    __pydantic_config__ = STRICT
    workers: Count
    """Processes for each GPU."""
    rate: Rate
    """Samples a second that one of them makes ready, e.g. `400 /s`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSpec:
    """What is learnt from: `samples`, or for transformers `tokens`."""

    __pydantic_config__ = STRICT
    samples: Annotated[int, Field(ge=1, le=10**15)] | None = None
    """Of one epoch."""
    tokens: Positive | None = None
    """Of one epoch, e.g. `300e9`."""
    used: PositiveFraction = 1.0
    """Share of them that is used, e.g. `50 %`."""
    bytes: PositiveBytes | None = None
    """Of one sample as it is stored, e.g. `110 kB`."""
    storage: ByteRate | None = None
    """What a machine reads, e.g. `1 GB/s`; with `bytes`."""
    loader: LoaderSpec | None = None
    """Never too slow where not given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochPoint:
    """Epochs that reached the target at a global batch."""

    __pydantic_config__ = STRICT
    global_batch: Count
    """Samples of one step on all GPUs."""
    epochs: Positive
    """Until the target was reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainSpec:
    """How it is trained: `epochs` or `epochs_to_target`; `global_batch` or `micro_batch`."""

    __pydantic_config__ = STRICT
    epochs: Positive | None = None
    """Passes over the data; may be less than one."""
    epochs_to_target: tuple[EpochPoint, ...] = ()
    """Instead: runs that reached the accuracy wanted. Several of one batch tell how far seeds differ."""
    global_batch: Count | None = None
    """Samples of one step on all GPUs."""
    micro_batch: Count | None = None
    """Instead: samples of one pass on one GPU (or one pipeline of them)."""
    accumulation: Count = 1
    """Passes before each step; with a pipeline, the micro-batches that fill it."""
    precision: Precision = "fp32"
    """`fp32`, `tf32`, `amp`, `bf16` or `fp16`."""
    optimizer: Annotated[str, Field(json_schema_extra={"enum": list(OPTIMIZERS)})] = "momentum"
    """`sgd`, `momentum`, `adam`, `adamw`, `adam8bit` or `adagrad`."""
    recompute: Annotated[str, Field(json_schema_extra={"enum": ["none", "selective", "full"]})] = "none"
    """Activation checkpointing: `none`, `selective` (attention alone), `full`."""
    evaluation: Annotated[int, Field(ge=0, le=10**12)] = 0
    """Samples that are judged after each epoch."""
    sync_batch_norm: bool = False
    """Whether batch norms of all GPUs agree in every pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelSpec:
    """How a model is divided. What remains of the GPUs is data parallel."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedSpec:
    """What is known of the speed on a kind of GPU: one of `achieved`, `rate`, `step`, `run`."""

    __pydantic_config__ = STRICT
    gpu: Name
    """Kind of GPU, as in the catalog."""
    gpu_count: Count = 1
    """With `step`, `rate` or `run`: GPUs it was measured on, all together."""
    global_batch: Count | None = None
    """With `step`, `rate` or `run`: at this; the scenario's where not given."""
    achieved: FlopRate | None = None
    """Operations a second of one GPU over the whole run, e.g. `140 TFLOP/s`."""
    rate: Rate | None = None
    """Samples a second of all GPUs."""
    step: PositiveDuration | None = None
    """One step."""
    run: PositiveDuration | None = None
    """The whole training of this scenario."""
    flops_per_param_token: Positive | None = None
    """With `achieved`: 6, or 8 with full recomputation; from `recompute` where not given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSpec:
    """What connects machines."""

    __pydantic_config__ = STRICT
    bandwidth: ByteRate = 12.5e9
    """Of one machine, one direction, e.g. `100 Gb/s`."""
    latency: Duration = 20e-6
    """Of one message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptionSpec:
    """What stops a run, and what that takes."""

    __pydantic_config__ = STRICT
    mean_time_between: PositiveDuration | None = None
    """Mean time between failures of one machine; none where not given."""
    spot_mean_time_between: PositiveDuration = 86_400.0
    """The same of a machine at spot price: how long it is left to you on average."""
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
    name: str = ""
    """What the answer is titled."""
    model: TrainedModel
    """What is trained."""
    data: DataSpec
    """On what."""
    train: TrainSpec
    """How."""
    parallel: ParallelSpec = ParallelSpec()
    """How the work is divided."""
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
    """What may be rented or used."""
    prices: tuple[PriceKind, ...] = ()
    """Kinds of price to compare; `buy.price` where not given."""
    purchase: PurchaseSpec | None = None
    """Also machines that the catalog has a purchase price of."""
    counts: Annotated[tuple[Count, ...], Field(max_length=100)] = ()
    """Numbers of GPUs to try; powers of two up to `buy.max_gpus` where not given."""
    context: PositiveBytes = CONTEXT_BYTES
    """GPU memory that a process holds before any model is loaded."""
    deadline: PositiveDuration | None = None
    """Longest it may take."""
    budget: Usd | None = None
    """Most it may cost."""
    grid: NotNegative | None = None
    """g CO2 for a kWh; no CO2 is told without it."""

    @property
    def gpu_counts(self) -> tuple[int, ...]:
        """Numbers of GPUs to try."""
        return self.counts or tuple(n for n in COUNTS if n <= self.buy.max_gpus)

    @property
    def price_kinds(self) -> tuple[PriceKind, ...]:
        """Kinds of price to compare."""
        return tuple(dict.fromkeys(self.prices)) or (self.buy.price,)

    @property
    def flops_per_param_token(self) -> float:
        """Operations for each parameter and token."""
        return 8.0 if self.train.recompute == "full" else 6.0


@dataclass(frozen=True, slots=True)
class LoadedTraining:
    """A training scenario, and what is odd about it."""

    scenario: TrainingScenario
    path: Path
    warnings: tuple[str, ...] = ()
    text: str = ""
    """The file as it was."""
    overrides: tuple[str, ...] = ()


def load_training(path: Path, overrides: Sequence[str] = ()) -> LoadedTraining:
    """The training scenario in a YAML file after `key=value` overrides; ScenarioError lists all that is wrong."""
    try:
        text = read_text(path)
        document = parse(text)
    except YamlError as error:
        raise ScenarioError([line(path, problem) for problem in error.problems]) from None
    except ValueError as error:
        raise ScenarioError([f"{path}: {error}"]) from None
    reader = TrainingReader(document)
    for override in overrides:
        reader.override(override)
    scenario = reader.training()
    if scenario is None or reader.problems:
        problems = sorted(reader.problems, key=lambda problem: (problem.line, problem.column))
        raise ScenarioError([line(path, problem) for problem in problems[:MAX_LINES]])
    return LoadedTraining(scenario, path, tuple(odd(scenario)), text, tuple(overrides))


@cache
def adapter() -> TypeAdapter[TrainingScenario]:
    """Pydantic's validator of training scenarios."""
    return TypeAdapter(TrainingScenario)


def schema() -> dict[str, Any]:
    """JSON Schema of a training scenario, for editors."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | adapter().json_schema()


class TrainingReader(ScenarioReader):
    """Turns a document into a training scenario and gathers the problems on the way."""

    def training(self) -> TrainingScenario | None:
        """The scenario, or None where the document holds none."""
        data = self.document.data
        if not isinstance(data, dict):
            self.report((), f"must be a mapping with `model`, `data` and `train`, got {shown(data)}.")
            return None
        if self.is_other(data, {"model", "data", "train"}):
            return None
        scenario = None
        try:
            scenario = adapter().validate_json(json.dumps(data), strict=True)
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                self.explain(detail)
        if scenario and not self.problems:
            for path, text in wrong(scenario):
                self.report(path, text)
        return scenario

    def explain(self, detail: Any) -> None:
        """Notes one of pydantic's errors in the project's words."""
        path, kind = tuple(detail["loc"]), detail["type"]
        text = message(path, kind, detail, TrainingScenario)
        self.report(path, text, at_key=kind == "unexpected_keyword_argument")


Wrong = tuple[tuple[str | int, ...], str]


def wrong(s: TrainingScenario) -> Iterator[Wrong]:
    """What is wrong between the parts of a training scenario."""
    yield from _model(s)
    yield from _data(s)
    yield from _train(s)
    yield from _parallel(s)
    yield from _words(s)
    for i, speed in enumerate(s.speed):
        given = [key for key in SPEEDS if getattr(speed, key) is not None]
        if len(given) != 1:
            yield (
                ("speed", i),
                f"must have one of {', '.join(SPEEDS)}, got {_listed(given)}. Keep one.",
            )


def _model(s: TrainingScenario) -> Iterator[Wrong]:
    m = s.model
    given = [key for key in ("zoo", "factory", "transformer") if getattr(m, key) is not None]
    if len(given) != 1:
        yield ("model",), f"must have one of `zoo`, `factory` and `transformer`, got {_listed(given)}. Keep one."
    if m.factory and not m.input:
        yield ("model",), "needs `input`, the shape of one sample, with `factory`. Write e.g. `input: [3, 224, 224]`."
    if m.transformer and (m.pixels or m.channels):
        yield ("model",), "has `pixels` or `channels`, which a transformer by shape does not. Leave them out."
    if m.transformer:
        yield from _shape(m.transformer)


def _shape(t: TransformerSpec) -> Iterator[Wrong]:
    where = ("model", "transformer")
    if t.active_params and t.active_params > (t.params or t.active_params):
        yield (*where, "active_params"), "must be at most `params`. Exchange them."
    if t.hidden % t.heads:
        yield (*where, "heads"), f"must divide `hidden`, {t.hidden}, got {t.heads}."


def _data(s: TrainingScenario) -> Iterator[Wrong]:
    d = s.data
    given = [key for key in ("samples", "tokens") if getattr(d, key) is not None]
    if len(given) != 1:
        yield ("data",), f"must have one of `samples` and `tokens`, got {_listed(given)}. Keep one."
    if d.tokens is not None and s.model.transformer is None:
        hint = "Give `model.transformer` with its shape or `params`, or count `samples`."
        yield ("data", "tokens"), f"tokens without parameters: the model has no tokens. {hint}"
    if (d.storage is None) != (d.bytes is None):
        yield ("data",), "needs `storage` and `bytes` together: what a machine reads, and what a sample has."


def _train(s: TrainingScenario) -> Iterator[Wrong]:
    t = s.train
    if (t.epochs is None) == (not t.epochs_to_target) and not (t.epochs is None and s.data.tokens):
        yield ("train",), "must have one of `epochs` and `epochs_to_target`. Write e.g. `epochs: 90`."
    if (t.global_batch is None) == (t.micro_batch is None):
        yield ("train",), "must have one of `global_batch` and `micro_batch`. Write e.g. `global_batch: 256`."
    if t.recompute == "selective" and s.model.transformer is None:
        yield (
            ("train", "recompute"),
            "selective drops attention's part of a `transformer` by shape. Write full.",
        )
    if t.global_batch is not None:
        yield from _divided(s, t.global_batch)


def _parallel(s: TrainingScenario) -> Iterator[Wrong]:
    p, parts = s.parallel, s.parallel.tensor * s.parallel.pipeline
    if p.zero == 3 and p.pipeline > 1:
        yield ("parallel", "zero"), "must be below 3 with a pipeline, whose stages need their weights. Write 1 or 2."
    if not p.synchronous and parts > 1:
        yield ("parallel", "synchronous"), "must be true where a model is divided. Leave out `tensor` and `pipeline`."
    if not p.synchronous and p.zero:
        yield ("parallel", "zero"), "must be 0 where copies do not wait for each other. Leave it out."
    if p.synchronous and p.epochs_per_staleness:
        yield ("parallel", "epochs_per_staleness"), "needs `synchronous: false`: gradients are never late otherwise."
    if p.sequence_parallel and p.tensor == 1:
        yield ("parallel", "sequence_parallel"), "needs `tensor` above 1: it divides the rest of a divided layer."
    if (shape := s.model.transformer) and shape.heads % p.tensor:
        yield ("parallel", "tensor"), f"must divide `heads`, {shape.heads}, got {p.tensor}."
    if parts > 1 and all(count % parts for count in s.gpu_counts):
        divided = f"tensor {p.tensor} x pipeline {p.pipeline}"
        yield ("parallel",), f"{divided} divide none of {_counts(s)} GPUs. Write other parts, or other `counts`."


def _divided(s: TrainingScenario, batch: int) -> Iterator[Wrong]:
    if any(batch_of(s, count) for count in s.gpu_counts):
        return
    each = f" with {s.train.accumulation} passes a step" if s.train.accumulation > 1 else ""
    share = s.parallel.tensor * s.parallel.pipeline
    copies = f" as copies of the model on {share} each" if share > 1 else ""
    hint = "Write a batch that one of them divides, or other `counts`."
    yield ("train", "global_batch"), f"{batch} is divided by none of {_counts(s)} GPUs{copies}{each}. {hint}"


def _counts(s: TrainingScenario) -> str:
    return ", ".join(map(str, s.gpu_counts[:12]))


def batch_of(s: TrainingScenario, count: int) -> float | None:
    """Samples of one pass on one copy of the model, with so many GPUs; None where the batch is not divided by them."""
    if s.train.micro_batch is not None:
        return s.train.micro_batch
    assert s.train.global_batch is not None
    each, rest = divmod(s.train.global_batch, copies(s, count) * s.train.accumulation)
    return None if rest else each


def copies(s: TrainingScenario, count: int) -> int:
    """Copies of the model on so many GPUs; a model divided among more than there are is taken as whole."""
    parts = s.parallel.tensor * s.parallel.pipeline
    return count // parts if count % parts == 0 else count


def _words(s: TrainingScenario) -> Iterator[Wrong]:
    allowed: dict[str, tuple[str, Sequence[str]]] = {
        "precision": (s.train.precision, PRECISIONS),
        "optimizer": (s.train.optimizer, OPTIMIZERS),
        "recompute": (s.train.recompute, ("none", "selective", "full")),
    }
    for key, (word, known) in allowed.items():
        if word not in known:
            hint = did_you_mean(word, list(known))
            yield ("train", key), f"must be one of {', '.join(known)}, got {shown(word)}.{hint}"


def _listed(keys: Sequence[str]) -> str:
    return " and ".join(f"`{key}`" for key in keys) or "none"


def odd(s: TrainingScenario) -> Iterator[str]:
    """What is allowed and probably not meant."""
    t = s.model.transformer
    if t and t.experts > 1 and t.active_params is None:
        total = (t.params or 0) / 1e9
        yield (
            f"model.transformer: a mixture of {t.experts} experts is computed with all its parameters"
            f"{f', {total:g}B' if total else ''}, though a token uses few of them. Give `active_params`."
        )
    if t and t.experts == 1 and t.params and t.params > 4 * _shape_params(t):
        yield (
            f"model.transformer.params: {t.params / 1e9:g}B are {t.params / _shape_params(t):.1f} times what the shape"
            " has. If it is a mixture of experts, give `experts` and `active_params`."
        )
    if not s.parallel.synchronous and not s.parallel.epochs_per_staleness:
        yield "parallel.synchronous: late gradients usually take more epochs; `epochs_per_staleness` says how many."


def _shape_params(t: TransformerSpec) -> float:
    return 12.0 * t.layers * t.hidden**2 + (t.vocabulary + t.sequence) * t.hidden
