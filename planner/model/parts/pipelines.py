"""Pipelines: stages that each frame goes through."""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field

from planner.model.checked import checked
from planner.model.choices import Codec, EncodedCodec, HostWork, Preset
from planner.model.parts.coding import FULL_HD, Coding
from planner.model.parts.fields import (
    Factory,
    InputShape,
    ModelName,
    Name,
    OrShorter,
    Precisions,
    Resolution,
    Runtimes,
)
from planner.model.parts.graphs import graph, spread, work
from planner.model.parts.models import ModelSpec, SloSpec
from planner.units.errors import shown
from planner.units.reading import Delay, Fraction, Latency, PositiveBytes, Rate

OTHER_NAMES = {"h.264": Codec.H264, "h265": Codec.HEVC, "h.265": Codec.HEVC, "h265-10bit": Codec.HEVC_10BIT}
"""Names by which codecs are known too."""


def _codec(value: object) -> object:
    """A codec by the name that is ours."""
    return OTHER_NAMES.get(value.lower(), value) if isinstance(value, str) else value


EncodedAsked = Annotated[EncodedCodec, BeforeValidator(_codec), OrShorter({"enum": list(OTHER_NAMES)[:3]})]
CodecAsked = Annotated[Codec, BeforeValidator(_codec), OrShorter({"enum": list(OTHER_NAMES)})]


def _fan_out(value: object) -> object:
    """`3` is a fan-out of always three; counts become a tuple, as a validator before others must leave them."""
    if isinstance(value, Mapping):
        return {key: tuple(item) if isinstance(item, list) else item for key, item in value.items()}
    if isinstance(value, FanOutSpec):
        return value
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(
            f"must be a number of items, got {shown(value)}. Write e.g. `3`, or `{{mean: 3.2, poisson: true}}`."
        )
    return {"mean": value}


def _edges(value: object) -> object:
    """One way or several, each by the name of the stage before or with what else is to be said of it."""
    each = value if isinstance(value, list | tuple) else [value]
    for one in each:
        if not isinstance(one, str | Mapping | EdgeSpec):
            raise ValueError(
                f"must name a stage, got {shown(one)}. Write e.g. `decode`, or `{{stage: decode, share: 30 %}}`."
            )
    return tuple({"stage": one} if isinstance(one, str) else one for one in each)


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
    """One stage of a pipeline. Exactly one of `model`, `decode`, `encode`, `host`, `measured` and `copy` says what it
    does."""

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
    max_queue_delay: Delay = 0.0
    """With a model: longest a batch waits to fill before it runs."""
    decode: CodecAsked | None = None
    """Decodes frames of this codec on an engine of a GPU, e.g. `h264`."""
    encode: EncodedAsked | None = None
    """Encodes what comes as video of this codec on an engine of a GPU, e.g. `h264`."""
    preset: Preset = Preset.P4
    """With `encode`: from `p1`, the quickest, to `p7`, the one of best quality; FFmpeg's own is `p4`."""
    resolution: Resolution | None = None
    """With `decode`, `encode` or `measured`: width and height of the frames, e.g. `1920x1080`. Where not given,
    1920x1080; of encoding and of measured work, that of the stream that is decoded before."""
    memory: PositiveBytes | None = None
    """With `decode` or `encode`: GPU memory that each stream holds; where not given, of 1920x1080 500 MB to decode and
    440 MB to encode, of 3840x2160 705 MB and 645 MB."""
    engine_rate: Rate | None = None
    """With `decode` or `encode`: frames a second that one engine does of these, where you know it, e.g. `400 fps`."""
    host: Latency | None = None
    """Work on a core of the machine's processor: its time for one item, e.g. `2 ms`."""
    measured: HostWork | None = None
    """Usual work on a core of the machine's processor, in the time that `planner calibrate --what host` measured, in a
    folder of `--profiles`: `decode`, `resize`, `letterbox` or `crop` of frames, `suppress` boxes, `track` objects.
    `host` beside it is the time where no folder has one."""
    copy: PositiveBytes | None = None
    """Bytes of one item that cross PCIe to a GPU, e.g. `6.2 MB` of a frame that was decoded on the processor."""
    after: Edges = ()
    """Stages before it, e.g. `decode`, `[track, classify]` or `{stage: detect, fan_out: 3, share: 30 %}`. After several
    it runs once for each frame, when all of them are done. Without, frames enter here."""
    slo: SloSpec | None = None
    """An SLO from the frame's arrival to the end of this stage, besides that of the pipeline: items that miss it are
    late. Shorter than the pipeline's, or for a larger share of them."""

    @property
    def is_model(self) -> bool:
        """Whether it runs a model."""
        return bool(self.model or self.profile or self.factory)

    @property
    def coding(self) -> Coding | None:
        """What an engine for video does; None: no such engine works here."""
        codec = self.decode or self.encode
        if codec is None:
            return None
        width, height = self.resolution or FULL_HD
        kind = "encode" if self.encode else "decode"
        return Coding(
            kind=kind,
            codec=Codec(codec),
            width=width,
            height=height,
            preset=self.preset,
            engine_fps=self.engine_rate,
        )

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

    def __post_init__(self) -> None:
        """What is encoded, or worked on, has the size of what was decoded, unless another one is stated."""
        object.__setattr__(self, "stages", tuple(self._sized(stage) for stage in self.stages))

    def _sized(self, stage: StageSpec) -> StageSpec:
        if stage.resolution or not (stage.encode or stage.measured):
            return stage
        before = self.stages_before(stage)
        size = next((one.resolution for one in before if one.decode and one.resolution), None)
        if size:
            stage = copy(stage)  # as it stands: what may be wrong with it is told elsewhere
            object.__setattr__(stage, "resolution", size)
        return stage

    def stages_before(self, stage: StageSpec) -> list[StageSpec]:
        """All on the ways that lead to a stage, the nearest first."""
        by_name = {one.name: one for one in self.stages}
        found: dict[str, StageSpec] = {}
        ahead = list(stage.after)
        while ahead:
            name = ahead.pop(0).stage
            if name in by_name and name not in found:
                found[name] = by_name[name]
                ahead += by_name[name].after
        return list(found.values())

    def stage(self, name: str) -> str:
        """The name that a stage's model is served by: `crossing.detect`."""
        return f"{self.name}.{name}"
