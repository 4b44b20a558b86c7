"""Scenarios: the question a person asks, as frozen data in SI units. `planner.io.load` reads it from YAML.

Parts are checked when they are made, also in Python; a whole scenario by `planner.objects.Scenario` alone, because
searching makes many copies of it in which not all parts fit each other yet.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from calibrate.library.lookup import profile_name
from calibrate.zoo.sources import is_sourced
from planner.model.calendar import CalendarSpec
from planner.model.checked import STRICT, checked
from planner.model.choices import Codec, PriceKind
from planner.units.errors import Steps, Wrong
from planner.units.reading import Bytes, Duration, Fraction, MachineCount, PricePerHour, Rate, did_you_mean
from simulator.world.deployment import Drop, Eviction, Routing, Scheduling, SwapPolicy
from simulator.world.precision import WEIGHT_BYTES

ARRIVALS = ("rate", "poisson", "gamma", "trace")
"""Ways to send, of which a stream has one."""

NAME = r"^[A-Za-z0-9][A-Za-z0-9_.\-]*$"
Name = Annotated[str, Field(min_length=1, max_length=64, pattern=NAME)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]


def _precision(value: object) -> object:
    """`FP16` is `fp16`; ValueError where it is none."""
    if not isinstance(value, str):
        return value
    if value.lower() in WEIGHT_BYTES:
        return value.lower()
    known = ", ".join(WEIGHT_BYTES)
    raise ValueError(f"must be one of {known}, got `{value[:40]}`.{did_you_mean(value, WEIGHT_BYTES)}")


Precision = Annotated[str, BeforeValidator(_precision), Field(json_schema_extra={"enum": list(WEIGHT_BYTES)})]


def _precisions(value: object) -> object:
    """Of one or of each of several."""
    return tuple(map(_precision, value)) if isinstance(value, list | tuple) else _precision(value)


def _some(value: object) -> object:
    """ValueError for a list that names nothing: nobody means none, and leaving the key out means any."""
    if isinstance(value, list | tuple) and not value:
        raise ValueError("names nothing. Name one or more, or leave the key out for any.")
    return value


Precisions = Annotated[str | tuple[str, ...], BeforeValidator(_precisions), BeforeValidator(_some)]


def _factory(value: str) -> str:
    """ValueError where it names no function of a module."""
    if re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", value):
        return value
    raise ValueError(f"must be `package.module:function`, got `{value[:40]}`.")


Factory = Annotated[str, AfterValidator(_factory)]
Names = Annotated[tuple[Name, ...], AfterValidator(_some)]


def _model_name(value: str) -> str:
    """ValueError where it can be the name of no model."""
    if re.fullmatch(NAME, value) or (is_sourced(value) and value.partition(":")[2]):
        return value
    return _factory(value)


ModelName = Annotated[str, Field(min_length=1), AfterValidator(_model_name)]


def _shape(value: object) -> object:
    """`3x224x224` as sizes."""
    if isinstance(value, str) and re.fullmatch(r"\d{1,7}(x\d{1,7})*", value.lower()):
        return tuple(map(int, value.lower().split("x")))
    return tuple(value) if isinstance(value, list) else value


InputShape = Annotated[
    tuple[Count, ...],
    BeforeValidator(_shape),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "integer", "minimum": 1}}]}),
]
PositiveDuration = Annotated[Duration, Field(gt=0)]
PositiveBytes = Annotated[Bytes, Field(gt=0)]


def _fan_out(value: object) -> object:
    """`3` is a fan-out of always three; counts become a tuple, as a validator before others must leave them."""
    if isinstance(value, Mapping):
        return {key: tuple(item) if isinstance(item, list) else item for key, item in value.items()}
    return {"mean": value} if isinstance(value, str | int | float) else value


def _edges(value: object) -> object:
    """One way or several, each by the name of the stage before or with what else is to be said of it."""
    each = value if isinstance(value, list | tuple) else [value]
    return tuple({"stage": one} if isinstance(one, str) else one for one in each)


def _resolution(value: object) -> object:
    """`1920x1080` as width and height."""
    match = re.fullmatch(r"(\d{2,5})x(\d{2,5})", value.lower()) if isinstance(value, str) else None
    if match is None and not isinstance(value, list | tuple):
        raise ValueError("must be width x height. Write e.g. `1920x1080`.")
    return tuple(map(int, match.groups())) if match else value


class OrShorter:
    """What the schema says of a value that may be written in shorter forms too."""

    def __init__(self, *forms: Mapping[str, Any]) -> None:
        self.forms = forms

    def __get_pydantic_json_schema__(self, core: Any, handler: Callable[[Any], Any]) -> dict[str, Any]:
        """Any of the forms, the long one last."""
        return {"anyOf": [*self.forms, handler(core)]}


Resolution = Annotated[
    tuple[Count, Count],
    BeforeValidator(_resolution),
    WithJsonSchema({"type": "string", "pattern": r"^\d{2,5}x\d{2,5}$"}),
]


class MemoryPolicy(StrEnum):
    """Rules for models to stay in GPU memory, or to take turns there."""

    RESIDENT = "resident"
    SWAP = "swap"
    AUTO = "auto"


class Merging(StrEnum):
    """Which equal layers of several models may be stored once, after joint training."""

    NONE = "none"
    STEM = "stem"
    LAYERS = "layers"
    AUTO = "auto"


class SharingRule(StrEnum):
    """Assumptions about the accuracy of merged models where nobody measured it."""

    HARMLESS = "harmless"
    GEMEL = "gemel"


class AccuracyRule(StrEnum):
    """The meaning of a lost frame for accuracy."""

    LOST_IS_WRONG = "lost-is-wrong"
    REUSE_LAST = "reuse-last"


class Objective(StrEnum):
    """The best plan has least of this."""

    COST = "cost"
    GPUS = "gpus"
    ENERGY = "energy"


class Predict(StrEnum):
    """Treatment of GPUs on which a model was never measured."""

    AUTO = "auto"
    NEVER = "never"


class EvidenceAsked(StrEnum):
    """What a plan may rest on."""

    PREDICTED = "predicted"
    MEASURED = "measured"


class Phase(StrEnum):
    """How the cameras of a group stand to each other in time."""

    RANDOM = "random"
    ALIGNED = "aligned"
    SPREAD = "spread"


# Rules between the keys of one part, each with the path in that part


def own_model(model: Mapping[str, Any]) -> Iterator[Wrong]:
    """Errors in how a model is named by where it comes from."""
    key = "factory" if model.get("factory") else "model"
    named = str(model.get(key) or "")
    if model.get("factory") and model.get("model"):
        yield ("model",), "cannot stand beside `factory`: a model comes from one place. Keep one of them."
    if ":" in named and not is_sourced(named) and not model.get("input"):
        text = f"needs `input`, the shape of one sample, with `{key}`. Write e.g. `input: 3x224x224`."
        yield (), text, "input", key
    if model.get("input") and ":" not in named:
        text = "has `input`, which goes only with a `model` of a package or a file, or with `factory`. Leave it out."
        yield (), text, "input", key


def sending(stream: Mapping[str, Any]) -> Iterator[Wrong]:
    """Errors in how one stream sends."""
    kinds = [kind for kind in ARRIVALS if stream.get(kind) is not None]
    if not kinds:
        yield (), "does not say how it sends. Give one of `rate`, `poisson`, `gamma` and `trace`.", *ARRIVALS
    if len(kinds) > 1:
        yield (kinds[1],), f"cannot stand beside `{kinds[0]}`: a stream sends in one way. Keep one of them."
    if kinds and "rate" not in kinds:
        for key in ("phase", "jitter"):
            if key in stream:
                yield (key,), f"goes only with `rate`, not with `{kinds[0]}`. Leave it out."


def reuse(accuracy: Mapping[str, Any]) -> Iterator[Wrong]:
    """Errors where the half-life is not there exactly when it is used."""
    given = accuracy.get("half_life") is not None
    needed = accuracy.get("rule") == AccuracyRule.REUSE_LAST
    if needed and not given:
        yield (), "needs `half_life` with `reuse-last`. Write e.g. `half_life: 2 s`.", "half_life", "rule"
    if given and not needed:
        yield ("half_life",), "goes only with `rule: reuse-last`. Leave it out or set the rule."


def one_source(sharing: Mapping[str, Any]) -> Iterator[Wrong]:
    """Errors where the accuracy of merged models comes from two files."""
    if sharing.get("table") is not None and sharing.get("curve") is not None:
        yield ("curve",), "cannot stand beside `table`: accuracy comes from one of them. Keep one."


# The parts


@checked()
@dataclass(frozen=True, slots=True, kw_only=True)
class SloSpec:
    """The latency that one model must keep to, and how often."""

    latency: PositiveDuration
    """Longest acceptable time from a frame's arrival to its result, e.g. `100 ms`."""
    attainment: Annotated[Fraction, Field(gt=0, le=1)] = 0.99
    """Share of frames that must make it, e.g. `99 %`."""


@checked(own_model)
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """A model that must be served."""

    name: Name
    """The scenario's name for it."""
    profile: Name | None = None
    """Which profile it uses; the name where not given, or that of its `model` or `factory`."""
    model: ModelName | None = None
    """What it is, where its name does not say so: `resnet50`, `timm:resnet50.a1_in1k`, `onnx:detector.onnx`, ...; a
    package's **code is run**, to see its layers."""
    factory: Factory | None = None
    """A model of yours, `package.module:function`. **Its code is run**, to see its layers."""
    input: InputShape = ()
    """With `factory`, or another than the usual one of a `model`: the shape of one sample, e.g. `3x224x224`."""
    precision: Precisions | None = None
    """Run it at this precision, e.g. `fp16`, or at the best of several, e.g. `[fp16, int8]`; where not given as it
    was measured here, else at the first of fp32, tf32, amp, ... that is known."""
    runtime: Annotated[Name | tuple[Name, ...] | None, AfterValidator(_some)] = None
    """Run it in this software, e.g. `tensorrt`, or in the best of several; where not given in its profile's."""
    slo: SloSpec
    """Latency and attainment."""
    accuracy: Annotated[Fraction, Field(gt=0, le=1)] = 1.0
    """Accuracy on frames that are processed in time."""
    max_queue_delay: Duration = 0.0
    """Longest a batch waits to fill before it runs."""
    layers: Name | None = None
    """With `merging`: whose layers it has, as `planner merge analyze` knows it; the profile's where not given."""
    merged_accuracy: Annotated[Fraction, Field(gt=0, le=1)] = 0.95
    """With `merging`: least accuracy when merged, as a share of its accuracy alone."""

    @property
    def known_as(self) -> str:
        """The name that its profiles and its layers go by."""
        return self.profile or (profile_name(self.made_by, self.input) if self.made_by else self.name)

    @property
    def made_by(self) -> str:
        """Where the model comes from, by name; empty where its own name says so."""
        return self.model or self.factory or ""

    @property
    def is_traced(self) -> bool:
        """A process looks at its layers where it was not measured."""
        return ":" in self.made_by and not self.profile

    @property
    def variants(self) -> "tuple[Variant, ...]":
        """Every precision in every runtime that it may run in."""
        return tuple(Variant(one, other) for one in _each(self.precision) for other in _each(self.runtime))

    @property
    def precisions(self) -> tuple[str, ...]:
        """Those that it may run at; none: any."""
        return tuple(filter(None, _each(self.precision)))

    @property
    def runtimes(self) -> tuple[str, ...]:
        """Those that it may run in; none: any."""
        return tuple(filter(None, _each(self.runtime)))


def _each(named: str | tuple[str, ...] | None) -> tuple[str | None, ...]:
    return (named,) if named is None or isinstance(named, str) else named or (None,)


class Variant(NamedTuple):
    """One way to run a model; None: any."""

    precision: str | None
    runtime: str | None


@checked()
@dataclass(frozen=True, slots=True, kw_only=True)
class GammaSpec:
    """Bursty arrivals."""

    rate: Rate
    """Mean rate, e.g. `20 rps`."""
    cv: Annotated[float, Field(ge=0.001, le=100, allow_inf_nan=False)]
    """Coefficient of variation of the gaps; 1 is Poisson."""


@checked()
@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSpec:
    """Recorded arrivals."""

    file: Path
    """CSV with a column of time stamps, relative to the scenario's file."""
    column: str | None = None
    """Name of that column; found by its usual names where not given."""
    rate: Rate | None = None
    """Stretch time so that the mean rate becomes this."""


@checked(sending)
@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSpec:
    """A group of like sources. Exactly one of `rate`, `poisson`, `gamma` and `trace` says how each one sends."""

    model: Name
    """The model that is asked."""
    name: Name | None = None
    """The group's name in messages."""
    count: Count = 1
    """How many sources."""
    rate: Rate | None = None
    """Frames at a fixed rate, each source, e.g. `15 fps`."""
    phase: Phase = Phase.RANDOM
    """With `rate`: first frames at random times, all at once, or evenly spread."""
    jitter: Duration = 0.0
    """With `rate`: scale of a frame's delay, `abs(N(0, jitter))`."""
    poisson: Rate | None = None
    """Independent arrivals at this mean rate, each source."""
    gamma: GammaSpec | None = None
    """Bursty arrivals, each source."""
    trace: TraceSpec | None = None
    """Arrivals from a file."""


@checked()
@dataclass(frozen=True, slots=True, kw_only=True)
class OwnMachine:
    """A machine of your own, at the price you put on an hour of it."""

    name: Name
    """The plan's name for it."""
    gpu: Name
    """Kind of GPU, as in the catalog."""
    gpu_count: Annotated[int, Field(ge=1, le=64)] = 1
    """GPUs in one machine."""
    memory: PositiveBytes | None = None
    """Memory of each GPU that may be used; the GPU's where not given."""
    host_memory: PositiveBytes | None = None
    """Memory for weights that are not on a GPU."""
    cores: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Cores of its processor, on which pipelines work; four for each GPU where not given."""
    price: PricePerHour
    """An hour of the whole machine, e.g. `$0.30/h`."""
    count: Count = 1
    """How many of them there are."""


@checked()
@dataclass(frozen=True, slots=True, kw_only=True)
class BuySpec:
    """Machines that may be rented or used. Of what is left out: any."""

    providers: Names = ()
    """Cloud providers, e.g. `[aws, azure]`."""
    regions: Names = ()
    """Regions, e.g. `[us-east-1]`."""
    gpus: Names = ()
    """Kinds of GPU or processor, of machines of your own too, e.g. `[T4, CPU-Ice-Lake-4c]`."""
    instances: Names = ()
    """Instance types, e.g. `[g4dn.xlarge]`."""
    price: PriceKind = PriceKind.ON_DEMAND
    """Which price counts."""
    retired: bool = False
    """Also instances that are still in price lists but no longer sold."""
    evidence: EvidenceAsked = EvidenceAsked.PREDICTED
    """`predicted`: any GPU on which every model was measured or can be predicted, with the `confidence` that is asked;
    `measured`: only where some model has no profile on any GPU on offer are times predicted."""
    max_gpus: Annotated[int, Field(ge=1, le=10_000)] = 64
    """Most GPUs in all."""
    max_cost: PricePerHour | None = None
    """Most dollars an hour in all."""
    host_speed: Annotated[float, Field(ge=0.01, le=100, allow_inf_nan=False)] = 1.0
    """Speed of a core of their hosts over that of the host where profiles were measured, e.g. `0.7`: what the host does
    of a batch takes so much longer."""
    own: tuple[OwnMachine, ...] = ()
    """Machines of your own. With these and no `providers`, nothing is rented."""


@checked(reuse)
@dataclass(frozen=True, slots=True, kw_only=True)
class AccuracySpec:
    """The meaning of a lost frame for accuracy."""

    rule: AccuracyRule = AccuracyRule.LOST_IS_WRONG
    """`lost-is-wrong`, or `reuse-last`: the last result of the same source stands in."""
    half_life: PositiveDuration | None = None
    """With `reuse-last`: time after which a reused result is right half as often."""


@checked()
@dataclass(frozen=True, slots=True, kw_only=True)
class RetrainingSpec:
    """Time and cost of joint training. Each try of the search for what to share is one training of all who share."""

    step: PositiveDuration
    """One training step of one model, e.g. `0.3 s`."""
    steps: Count
    """Steps of an epoch."""
    epochs: Count
    """Epochs of one try."""
    price: PricePerHour
    """An hour of the machine that trains, e.g. `$3.06/h`."""
    every: PositiveDuration | None = None
    """Train what is shared anew so often, because scenes change, e.g. `30 days`; never where not given."""
    life: PositiveDuration = 31_536_000.0
    """Over how long the first training is written off; a year where not given."""


@checked(one_source)
@dataclass(frozen=True, slots=True, kw_only=True)
class SharingSpec:
    """Knowledge about merged models. Of `table` and `curve` one at most; with neither, `rule` is assumed."""

    rule: SharingRule = SharingRule.GEMEL
    """`gemel`: 95 % of the accuracy where 71 % of what could be shared is; `harmless`: sharing costs none."""
    table: Path | None = None
    """CSV with `model`, `shared_fraction`, `accuracy`, measured; relative to the scenario's file."""
    curve: Path | None = None
    """A file that `planner merge train` wrote; relative to the scenario's file."""
    retraining: RetrainingSpec | None = None
    """Time and cost of joint training; not priced where not given."""


@checked()
@dataclass(frozen=True, slots=True, kw_only=True)
class FailureSpec:
    """Machines that fail, or spot instances that are taken away."""

    mean_time_between: PositiveDuration
    """Mean time between failures of one machine, e.g. `12 h`."""
    recovery: Duration
    """Time until it serves again, e.g. `3 min`."""


@checked()
@dataclass(frozen=True, slots=True, kw_only=True)
class ClockDriftSpec:
    """Cameras whose clocks drift, so that how they stand to each other changes in time."""

    mix: PositiveDuration
    """Time after which the phases are as good as drawn anew, e.g. `1 h`."""
    period: PositiveDuration
    """Stretch of time over which an attainment counts, e.g. `1 day`."""


@checked()
@dataclass(frozen=True, slots=True, kw_only=True)
class SwapSpec:
    """How swapping goes. What is left open is searched for, where models are swapped."""

    eviction: Eviction | None = None
    """Which resident model gives way; where not given, `lru` or whichever meets every SLO."""
    prefetch: bool | None = None
    """Load the next model while the present one runs, when both fit; where not given, yes or whichever meets every
    SLO."""
    pinned: bool = True
    """Host copies in page-locked memory."""
    disk: bool = False
    """No host copies: weights come from disk."""

    @property
    def policy(self) -> SwapPolicy:
        """The fixed settings, and the usual ones for those that are open."""
        open_ones = SwapPolicy()
        return SwapPolicy(
            eviction=open_ones.eviction if self.eviction is None else self.eviction,
            prefetch=open_ones.prefetch if self.prefetch is None else self.prefetch,
            pinned=self.pinned,
            disk=self.disk,
        )

    @property
    def policies(self) -> tuple[SwapPolicy, ...]:
        """All that may be tried, the usual one first."""
        first = self.policy
        evictions = tuple(Eviction) if self.eviction is None else (self.eviction,)
        prefetches = (True, False) if self.prefetch is None else (self.prefetch,)
        tried = (SwapPolicy(e, p, self.pinned, self.disk) for p in prefetches for e in evictions)
        return (first, *(policy for policy in tried if policy != first))


@checked()
@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateSpec:
    """How `planner validate` fits the scenario to the device it runs on, so that one file suits slow and fast ones."""

    load: Annotated[Fraction, Field(gt=0, le=1)] | None = None
    """Share of its time that the device works at full batches: all rates are scaled to it."""
    slo_scale: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] | None = None
    """Latency in run times of the model's largest batch, instead of the one in its `slo`."""
    delay_scale: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)] | None = None
    """Longest wait of a batch in run times of one sample, instead of `max_queue_delay`."""
    batch_size: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """Largest batch of every model."""
    memory_share: Annotated[Fraction, Field(gt=0, le=1)] | None = None
    """Share of all weights that fits beside the context and the largest workspace; all where not given."""
    processes: Annotated[int, Field(ge=1, le=2)] = 1
    """Processes that share the device, the models dealt to them in turn."""


MODEL_KEYS = ("model", "profile", "factory")
"""Keys by which a stage names a model."""
BESIDE_MODEL = ("input", "precision", "runtime", "max_queue_delay")
BESIDE_DECODE = ("resolution", "memory")


def spread(fan_out: Mapping[str, Any]) -> Iterator[Wrong]:
    """Errors where a fan-out is stated in two ways."""
    ways = [key for key in ("poisson", "geometric", "counts") if fan_out.get(key)]
    if len(ways) > 1:
        yield (ways[1],), f"cannot stand beside `{ways[0]}`: counts vary in one way. Keep one of them."
    counts = fan_out.get("counts", (1,))
    if isinstance(counts, list | tuple) and not any(counts):
        yield ("counts",), "must hold one count above 0. Give some, or leave the stage out."
    if fan_out.get("counts") and "mean" in fan_out:
        yield ("mean",), "cannot stand beside `counts`, which have a mean of their own. Leave it out."


def work(stage: Mapping[str, Any]) -> Iterator[Wrong]:
    """Errors where a stage does not do exactly one thing."""
    named = next((key for key in MODEL_KEYS if stage.get(key)), None)
    works = [key for key in (named, "decode", "host", "copy") if key and stage.get(key) is not None]
    if not works:
        yield (), "does nothing. Give one of `model`, `decode`, `host` and `copy`.", *MODEL_KEYS, "decode"
        return
    if len(works) > 1:
        yield (works[1],), f"cannot stand beside `{works[0]}`: a stage does one thing. Make two stages of it."
    for owners, keys in ((MODEL_KEYS, BESIDE_MODEL), (("decode",), BESIDE_DECODE)):
        if works[0] not in owners:
            for key in keys:
                if key in stage:
                    yield (key,), f"goes only with `{owners[0]}`, not with `{works[0]}`. Leave it out."
    if named:
        yield from own_model(stage)


def graph(pipeline: Mapping[str, Any]) -> Iterator[Wrong]:
    """Errors in the stages of a pipeline, and in how they follow one another."""
    listed = pipeline.get("stages")
    stages = [(i, one) for i, one in enumerate(listed if isinstance(listed, list) else []) if isinstance(one, Mapping)]
    places: dict[str, int] = {}
    before: dict[str, list[str]] = {}
    for i, stage in stages:
        for path, text, *keys in (*work(stage), *spreads(stage)):
            yield ("stages", i, *path), text, *keys
        name = stage.get("name")
        if not isinstance(name, str):
            continue
        if name in places:
            yield ("stages", i, "name"), f"`{name}` is the name of another stage. Name them apart."
            continue
        places[name] = i
        before[name] = names_before(stage)
    for name, earlier in before.items():
        for number, one in enumerate(earlier):
            if one not in before:
                hint = did_you_mean(one, list(before)) or f" Known: {', '.join(list(before)[:20])}."
                yield ("stages", places[name], "after"), f"no stage is called `{one}`.{hint}"
            elif one in earlier[:number]:
                yield ("stages", places[name], "after"), f"names `{one}` twice. Keep one."
    yield from circles(places, {name: [one for one in each if one in before] for name, each in before.items()})


def spreads(stage: Mapping[str, Any]) -> Iterator[Wrong]:
    """Errors in the fan-outs on the ways to a stage."""
    after = stage.get("after")
    ways = {("after", i): way for i, way in enumerate(after)} if isinstance(after, list) else {("after",): after}
    for path, way in ways.items():
        fan_out = way.get("fan_out") if isinstance(way, Mapping) else None
        if isinstance(fan_out, Mapping):
            yield from (((*path, "fan_out", *inner), text) for inner, text, *_ in spread(fan_out))


def names_before(stage: Mapping[str, Any]) -> list[str]:
    """Names of the stages that a stage comes after."""
    after = stage.get("after") or []
    each = after if isinstance(after, list) else [after]
    names = (one.get("stage") if isinstance(one, Mapping) else one for one in each)
    return [name for name in names if isinstance(name, str)]


def circles(places: Mapping[str, int], before: Mapping[str, list[str]]) -> Iterator[Wrong]:
    """Stages that run in a circle, and those that nothing else leads to."""
    left = dict(before)
    while free := [name for name, earlier in left.items() if not left.keys() & set(earlier)]:
        for name in free:
            del left[name]
    if not left:
        return
    way = [next(iter(left))]
    while (earlier := next(one for one in left[way[-1]] if one in left)) not in way:
        way.append(earlier)
    circle = [*reversed(way[way.index(earlier) :])]
    drawn = " -> ".join([*circle, circle[0]])
    yield ("stages", places[circle[0]], "after"), f"runs in a circle: {drawn}. Leave one `after` of them out."
    for name in (name for name in left if name not in circle):
        yield ("stages", places[name], "after"), "is never reached: no way leads here from a stage that frames enter."


@checked(spread)
@dataclass(frozen=True, slots=True, kw_only=True)
class FanOutSpec:
    """How many items of a stage come of one item of the stage before: the cars that a detector finds in a frame."""

    mean: Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)] = 1.0
    """On average, e.g. `3`; 2.5 is 2 or 3 at random."""
    poisson: bool = False
    """Their number is Poisson with this mean."""
    geometric: bool = False
    """Their number is geometric with this mean, from 0: often none, sometimes many."""
    counts: tuple[Annotated[int, Field(ge=0, le=10_000)], ...] = ()
    """Instead of a mean: counts of a recording, frame by frame, repeated."""


FanOutAsked = Annotated[FanOutSpec, BeforeValidator(_fan_out), OrShorter({"type": "number", "exclusiveMinimum": 0})]


@checked()
@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeSpec:
    """The way from one stage to the next."""

    stage: Name
    """The stage before."""
    fan_out: FanOutAsked = FanOutSpec()
    """Items that come of each of its items, e.g. `3` or `{mean: 3.2, poisson: true}`."""
    share: Annotated[Fraction, Field(gt=0, le=1)] = 1.0
    """Only so many of its items go this way, at random, e.g. `30 %`."""


Edges = Annotated[
    tuple[EdgeSpec, ...],
    BeforeValidator(_edges),
    OrShorter({"type": "string"}, {"type": "object"}, {"type": "array", "items": {"type": ["string", "object"]}}),
]


@checked(work)
@dataclass(frozen=True, slots=True, kw_only=True)
class StageSpec:
    """One stage of a pipeline. Exactly one of `model`, `decode`, `host` and `copy` says what it does."""

    name: Name
    """Its name in the pipeline."""
    model: ModelName | None = None
    """A model that runs on a GPU: `resnet50`, `timm:resnet50.a1_in1k`, ..., as the `model` of one in `models`."""
    profile: Name | None = None
    """With a model: which profile it uses."""
    factory: Factory | None = None
    """A model of yours, `package.module:function`. **Its code is run**, to see its layers."""
    input: InputShape = ()
    """With a model: the shape of one sample, e.g. `3x224x224`."""
    precision: Precisions | None = None
    """With a model: run it at this precision, or at the best of several."""
    runtime: Annotated[Name | tuple[Name, ...] | None, AfterValidator(_some)] = None
    """With a model: run it in this software, or in the best of several."""
    max_queue_delay: Duration = 0.0
    """With a model: longest a batch waits to fill before it runs."""
    decode: Codec | None = None
    """Decodes frames of this codec on an engine of a GPU, e.g. `h264`."""
    resolution: Resolution = (1920, 1080)
    """With `decode`: width and height of the frames, e.g. `1920x1080`."""
    memory: PositiveBytes | None = None
    """With `decode`: GPU memory that each stream holds; where not given, 500 MB for 1920x1080, by the pixels."""
    host: PositiveDuration | None = None
    """Work on a core of the machine's processor: its time for one item, e.g. `2 ms`."""
    copy: PositiveBytes | None = None
    """Bytes of one item that cross PCIe to a GPU, e.g. `6.2 MB` of a frame that was decoded on the processor."""
    after: Edges = ()
    """Stages before it, e.g. `decode`, `[track, classify]` or `{stage: detect, fan_out: 3, share: 30 %}`. After several
    it runs once for each frame, when all of them are done. Without, frames enter here."""
    slo: SloSpec | None = None
    """An SLO from the frame's arrival to the end of this stage, besides that of the pipeline: items that miss it are
    late."""

    @property
    def is_model(self) -> bool:
        """Whether it runs a model."""
        return bool(self.model or self.profile or self.factory)

    def served(self, pipeline: "PipelineSpec") -> ModelSpec:
        """The model as if it were asked on its own, with all of the pipeline's time to itself."""
        return ModelSpec(
            name=pipeline.stage(self.name),
            profile=self.profile,
            model=self.model,
            factory=self.factory,
            input=self.input,
            precision=self.precision,
            runtime=self.runtime,
            slo=pipeline.slo,
            max_queue_delay=self.max_queue_delay,
        )


@checked(graph)
@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSpec:
    """Stages that each frame goes through, from its source to the last answer. It is asked like a model."""

    name: Name
    """The name that streams ask."""
    slo: SloSpec
    """Latency and attainment from a frame's arrival to the last answer of it."""
    stages: Annotated[tuple[StageSpec, ...], Field(min_length=1, max_length=100)]
    """What is done, in any order; `after` says what comes before what."""
    ordered: bool = False
    """Answers of one source leave in the order of its frames."""
    accuracy: Annotated[Fraction, Field(gt=0, le=1)] = 1.0
    """Accuracy on frames that are processed in time."""

    def stage(self, name: str) -> str:
        """The name that a stage's model is served by: `crossing.detect`."""
        return f"{self.name}.{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A question: these models, this demand, these offers - what should be bought?"""

    __pydantic_config__ = STRICT
    name: str = ""
    """The answer's title."""
    models: Annotated[tuple[ModelSpec, ...], Field(max_length=1000)] = ()
    """The models to serve; may be left out where there are `pipelines`."""
    pipelines: Annotated[tuple[PipelineSpec, ...], Field(max_length=100)] = ()
    """Stages that frames go through - decode, detect, classify -, asked by streams as models are."""
    streams: Annotated[tuple[StreamSpec, ...], Field(min_length=1, max_length=10_000)]
    """Who asks them, and how often."""
    buy: BuySpec = BuySpec()
    """Machines that may be rented or used."""
    memory: MemoryPolicy = MemoryPolicy.AUTO
    """`resident`: all models stay on their GPU; `swap`: they may take turns; `auto`: whichever is cheaper."""
    swap: SwapSpec = SwapSpec()
    """How swapping goes, where it happens."""
    merging: Merging = Merging.NONE
    """`none`; `stem`: models share the layers in which they begin alike; `layers`: equal layers anywhere; `auto`:
    whichever is cheapest, retraining included."""
    sharing: SharingSpec = SharingSpec()
    """With `merging`: what is known about merged models."""
    scheduling: Scheduling = Scheduling.ROUND_ROBIN
    """Which model runs next on a GPU."""
    routing: Routing = Routing.ROUND_ROBIN
    """Which replica a frame goes to."""
    drop: Drop = Drop.LATE
    """Which frames are given up."""
    padded: bool = False
    """A part-filled batch takes the time of a full one."""
    accuracy: AccuracySpec = AccuracySpec()
    """The meaning of a lost frame."""
    headroom: Annotated[Fraction, Field(ge=0, lt=1)] = 0.1
    """Share of every GPU kept free on purpose."""
    survive: MachineCount = 0
    """Machines that may be away while every SLO is met, e.g. `1 machine`; `planner plan` buys spares for them."""
    context: Bytes | None = None
    """GPU memory that one framework process holds besides weights and workspace; where not given, as it was measured
    with the models, and 0.8 GB where nobody measured it."""
    objective: Objective = Objective.COST
    """The best plan has least of this."""
    predict: Predict = Predict.AUTO
    """`auto`: what nobody measured is predicted, with a band; `never`: profiles alone."""
    horizon: PositiveDuration | None = None
    """Simulated time of one replication; where not given, a minute or more, as long as recordings, queues and SLOs
    need, or some rounds of cameras that come round."""
    warmup: Duration | None = None
    """Start of each replication that is left out of the figures; where not given, the longest latency of an SLO,
    doubled until queues and turns have settled."""
    replications: Annotated[int, Field(ge=1, le=1000)] = 10
    """Runs with different seeds to begin with; more follow while the intervals decide nothing. At least as many as can
    prove `confidence`, 80 for 95 %, where cameras have phases of their own, for one run is one draw of them. With 1
    there is just that one."""
    confidence: Annotated[Fraction, Field(gt=0, le=0.999)] = 0.95
    """Share of the draws that must meet every SLO for good: of the cameras' phases, so of sites like this one, and of
    speeds that are predicted or differ between sessions."""
    clock_drift: ClockDriftSpec | None = None
    """Where clocks drift, each SLO counts over a stretch of time in which phases mix; for good where not given."""
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = 1
    """Start of all random numbers of a replay; what `planner plan` buys does not depend on it."""
    failures: FailureSpec | None = None
    """Disturbances; none where not given."""
    validate: ValidateSpec = ValidateSpec()
    """How `planner validate` fits the scenario to a device; other commands leave it aside."""
    calendar: CalendarSpec | None = None
    """Days of load that rises and falls, for `planner horizon`; other commands leave it aside."""

    @property
    def stages(self) -> dict[str, Steps]:
        """Where each stage that runs a model stands, by the name that its model is served by."""
        return {
            pipeline.stage(stage.name): ("pipelines", i, "stages", k)
            for i, pipeline in enumerate(self.pipelines)
            for k, stage in enumerate(pipeline.stages)
            if stage.is_model
        }

    @property
    def asked(self) -> tuple[ModelSpec | PipelineSpec, ...]:
        """All that streams ask and SLOs judge: pipelines as a whole, and models that are no stages."""
        return (*(model for model in self.models if model.name not in self.stages), *self.pipelines)

    @property
    def with_stages(self) -> "Scenario":
        """The same with the models of its pipelines' stages among its models."""
        known = {model.name for model in self.models}
        stages = (stage.served(pipeline) for pipeline in self.pipelines for stage in pipeline.stages if stage.is_model)
        return replace(self, models=(*self.models, *(model for model in stages if model.name not in known)))

    def place(self, name: str) -> Steps:
        """Where a model, a stage or a pipeline stands: `("models", 2)`, `("pipelines", 0, "stages", 1)`."""
        if name in self.stages:
            return self.stages[name]
        models = {model.name: ("models", i) for i, model in enumerate(self.models)}
        return models.get(name) or ("pipelines", [pipeline.name for pipeline in self.pipelines].index(name))
