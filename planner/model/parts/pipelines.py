"""Pipelines: stages that each frame goes through, and the rules between them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from planner.model.checked import checked
from planner.model.choices import Codec
from planner.model.parts.fields import (
    Factory,
    InputShape,
    ModelName,
    Name,
    OrShorter,
    PositiveBytes,
    PositiveDuration,
    Precisions,
    Resolution,
    Runtimes,
)
from planner.model.parts.models import ModelSpec, SloSpec, own_model
from planner.units.errors import Wrong
from planner.units.reading import Duration, Fraction, did_you_mean
from simulator.world.pipelines import cycle_in

MODEL_KEYS = ("model", "profile", "factory")
"""Keys by which a stage names a model."""
BESIDE_MODEL = ("input", "precision", "runtime", "max_queue_delay")
BESIDE_DECODE = ("resolution", "memory")

OTHER_NAMES = {"h.264": Codec.H264, "h265": Codec.HEVC, "h.265": Codec.HEVC, "h265-10bit": Codec.HEVC_10BIT}
"""Names by which codecs are known too."""


def _codec(value: object) -> object:
    """A codec by the name that is ours."""
    return OTHER_NAMES.get(value.lower(), value) if isinstance(value, str) else value


CodecAsked = Annotated[Codec, BeforeValidator(_codec), OrShorter({"enum": list(OTHER_NAMES)})]


def _fan_out(value: object) -> object:
    """`3` is a fan-out of always three; counts become a tuple, as a validator before others must leave them."""
    if isinstance(value, Mapping):
        return {key: tuple(item) if isinstance(item, list) else item for key, item in value.items()}
    return {"mean": value} if isinstance(value, str | int | float) else value


def _edges(value: object) -> object:
    """One way or several, each by the name of the stage before or with what else is to be said of it."""
    each = value if isinstance(value, list | tuple) else [value]
    return tuple({"stage": one} if isinstance(one, str) else one for one in each)


def spread(fan_out: Mapping[str, Any]) -> Iterator[Wrong]:
    """Errors where a fan-out is stated in two ways."""
    ways = [key for key in ("poisson", "geometric", "counts", "trace") if fan_out.get(key)]
    if len(ways) > 1:
        yield (ways[1],), f"cannot stand beside `{ways[0]}`: counts vary in one way. Keep one of them."
    counts = fan_out.get("counts", (1,))
    if isinstance(counts, list | tuple) and not any(counts):
        yield ("counts",), "must hold one count above 0. Give some, or leave the stage out."
    if "mean" in fan_out and ways and ways[-1] in ("counts", "trace"):
        yield ("mean",), f"cannot stand beside `{ways[-1]}`, which has a mean of its own. Leave it out."
    if bool(fan_out.get("trace")) != bool(fan_out.get("column")):
        yield (), "`trace` and `column` go together: a file, and its column of counts. Give both.", "trace", "column"


def work(stage: Mapping[str, Any]) -> Iterator[Wrong]:
    """Errors where a stage does not do exactly one thing."""
    named = next((key for key in MODEL_KEYS if stage.get(key)), None)
    works = [key for key in (named, "decode", "host", "copy") if key and stage.get(key) is not None]
    if not works:
        yield (), "does nothing. Give one of `model`, `decode`, `host` and `copy`.", *MODEL_KEYS, "decode"
        return
    if len(works) > 1:
        yield (works[1],), f"cannot stand beside `{works[0]}`: a stage does one thing. Make two stages of it."
    yield from misplaced(stage, works[0])
    if named:
        yield from own_model(stage)


def misplaced(stage: Mapping[str, Any], work: str) -> Iterator[Wrong]:
    """Keys that go only with other work."""
    for owners, keys in ((MODEL_KEYS, BESIDE_MODEL), (("decode",), BESIDE_DECODE)):
        for key in keys if work not in owners else ():
            if key in stage:
                yield (key,), f"goes only with `{owners[0]}`, not with `{work}`. Leave it out."


def _listed(stages: object) -> list[tuple[int, Mapping[str, Any]]]:
    """Those of a list that have keys, with their numbers."""
    items = stages if isinstance(stages, list) else []
    return [(i, one) for i, one in enumerate(items) if isinstance(one, Mapping)]


def graph(pipeline: Mapping[str, Any]) -> Iterator[Wrong]:
    """Errors in the stages of a pipeline, and in how they follow one another."""
    places: dict[str, int] = {}
    before: dict[str, list[str]] = {}
    for i, stage in _listed(pipeline.get("stages")):
        for path, text, *keys in (*work(stage), *spreads(stage)):
            yield ("stages", i, *path), text, *keys
        name = stage.get("name")
        if not isinstance(name, str):
            continue
        if name in places:
            yield ("stages", i, "name"), f"`{name}` is the name of another stage. Name them apart."
        else:
            places[name] = i
            before[name] = names_before(stage)
    for name, earlier in before.items():
        for text in ways_wrong(earlier, list(before)):
            yield ("stages", places[name], "after"), text
    yield from circles(places, {name: [one for one in each if one in before] for name, each in before.items()})


def ways_wrong(earlier: Sequence[str], known: Sequence[str]) -> Iterator[str]:
    """Stages before one that are not there, or that are named twice."""
    for number, one in enumerate(earlier):
        if one not in known:
            hint = did_you_mean(one, known) or f" Known: {', '.join(known[:20])}."
            yield f"no stage is called `{one}`.{hint}"
        elif one in earlier[:number]:
            yield f"names `{one}` twice. Keep one."


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


def _stuck(before: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Those that frames never reach: each waits for another one of them."""
    left = dict(before)
    while free := [name for name, earlier in left.items() if not left.keys() & set(earlier)]:
        for name in free:
            del left[name]
    return left


def circles(places: Mapping[str, int], before: Mapping[str, list[str]]) -> Iterator[Wrong]:
    """Stages that run in a circle, and those that nothing else leads to."""
    circle = cycle_in(before)[1:]
    if not circle:
        return
    drawn = " -> ".join([*circle, circle[0]])
    yield ("stages", places[circle[0]], "after"), f"runs in a circle: {drawn}. Leave one `after` of them out."
    left = _stuck(before)
    for name in (name for name in left if name not in circle):
        if name in left[name]:
            text = f"runs in a circle: {name} -> {name}. Leave `{name}` out of it."
        else:
            text = "is never reached: no way leads here from a stage that frames enter."
        yield ("stages", places[name], "after"), text


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
    """Instead of a mean: counts of a recording, frame by frame, repeated. Each source has its own place in them."""
    trace: Path | None = None
    """Instead of `counts`: a CSV that holds them, relative to the scenario's file."""
    column: str | None = None
    """With `trace`: the column of counts, a row for each frame."""


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
    every: Annotated[int, Field(ge=1, le=1000)] = 1
    """Only one in so many of the items of each source goes this way, in turn: `3` makes 5 fps of 15 fps."""

    @property
    def part(self) -> float:
        """Of the items before, those that go this way. A share of a half of every third: a sixth."""
        return self.share / self.every


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
    runtime: Runtimes = None
    """With a model: run it in this software, or in the best of several."""
    max_queue_delay: Duration = 0.0
    """With a model: longest a batch waits to fill before it runs."""
    decode: CodecAsked | None = None
    """Decodes frames of this codec on an engine of a GPU, e.g. `h264`."""
    resolution: Resolution = (1920, 1080)
    """With `decode`: width and height of the frames, e.g. `1920x1080`."""
    memory: PositiveBytes | None = None
    """With `decode`: GPU memory that each stream holds; where not given, 500 MB for 1920x1080, 705 MB for
    3840x2160."""
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
