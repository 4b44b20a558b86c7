"""Pipelines in a validation: what their camera sees, how long a core takes for their stages, and how fast it was."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from calibrate.io.points import FRAME_SIZES
from calibrate.serving.served import CROP, STEPS, Scene
from planner.model.parts.pipelines import EdgeSpec, FanOutSpec, PipelineSpec, StageSpec
from planner.model.scenario import Scenario
from planner.placing.stages import edge, fan_out
from simulator.errors import DeploymentError
from simulator.flow.items import fan_outs
from simulator.world.deployment import Deployment
from simulator.world.pipelines import FanOut, FanOutKind, ModelWork, Pipeline, PipelineStage, Station, StationWork
from simulator.world.workload import SLO

HOST = "host"
CORE = Station(id="core", host=HOST, kind=HOST, servers=1)
"""One core of the machine does all that is not a model; the device's own thread has another."""
PICTURES = 60
ONE_CAMERA = np.zeros(PICTURES, dtype=np.int32)
"""The source of each picture."""
"""Of the video, which then begins again."""
MOST_OBJECTS = 9
"""In a picture: its lanes."""
CODEC = "h264"
LETTERBOXED = (3, 640, 640)
"""Shape of what the step `letterbox` makes."""
ONE = FanOutSpec()
"""One item of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorePace:
    """What a core was seen to do."""

    probed_s: Mapping[str, float] = field(default_factory=dict)
    """Its times as `planner calibrate --what host` has them, by the names of that probe."""
    slower: Mapping[str, float] = field(default_factory=dict)
    """By stage: its time now over that; 1 for those that are not named."""
    found: tuple[int, ...] = ()
    """Objects that the detector found in each picture; none: as many as the scenario says."""


def scene_of(scenario: Scenario) -> Scene | None:
    """What the servable pipeline of a scenario looks at: in each picture as many objects as its crops have items."""
    if not scenario.pipelines:
        return None
    spec = scenario.pipelines[0]
    decoding = next((stage.resolution for stage in spec.stages if stage.decode and stage.resolution), None)
    width, height = decoding or FRAME_SIZES[0]
    counts = np.zeros(PICTURES, dtype=np.int64)
    for stage in spec.stages:
        if step_of(stage) == CROP:
            drawn = fan_outs(fan_out(stage.after[0].fan_out), ONE_CAMERA, np.random.default_rng(scenario.seed))
            counts = np.minimum(drawn, MOST_OBJECTS)
    steps = {stage.name: step for stage in spec.stages if (step := step_of(stage))}
    return Scene(width=width, height=height, counts=tuple(counts.tolist()), steps=steps)


def opened(spec: PipelineSpec, scene: Scene, pace: CorePace) -> Pipeline:
    """A pipeline as it runs on one core and the device. DeploymentError where a time of the core is missing."""

    def stage(one: StageSpec) -> PipelineStage:
        after = tuple(map(edge, one.after))
        if pace.found and scene.steps.get(one.name) == CROP:
            counts = FanOut(kind=FanOutKind.TABLE, counts=pace.found)
            after = (replace(after[0], fan_out=counts),)
        work = ModelWork() if one.is_model else StationWork(HOST, core_s(spec, one, scene, pace.probed_s))
        slo = SLO(one.slo.latency, one.slo.attainment) if one.slo else None
        return PipelineStage(name=one.name, work=work, after=after, slo=slo)

    return Pipeline(
        name=spec.name,
        stages=tuple(map(stage, spec.stages)),
        slo=SLO(spec.slo.latency, spec.slo.attainment),
        ordered=spec.ordered,
    )


def core_s(spec: PipelineSpec, stage: StageSpec, scene: Scene, probed_s: Mapping[str, float]) -> float:
    """Time of one item on the core: as probed where its work is a known step, else as the scenario has it."""
    step = scene.steps.get(stage.name)
    if step is None:
        assert stage.host is not None
        return stage.host
    keys = f"{step}_{scene.width}x{scene.height}_s", f"{step}_s"
    found = [probed_s[key] for key in keys if key in probed_s]
    if not found:
        raise DeploymentError(
            f"{spec.stage(stage.name)}: nobody measured how long a core takes to {step}. "
            "Measure it: planner calibrate --mode device --what host; decoding needs PyAV, pip install av."
        )
    return found[0]


def frame_s(pipeline: Pipeline, run_s: Mapping[str, float], slower: Mapping[str, float]) -> float:
    """All work of one frame on average, one item after another; `run_s`: times of models by stage.

    20 ms, then two items of 5 ms: 30 ms.
    """
    whole_s = 0.0
    for stage in pipeline.stages:
        name = pipeline.name_of(stage)
        took_s = run_s[name] if isinstance(stage.work, ModelWork) else stage.work.service_s * slower.get(name, 1.0)
        whole_s += pipeline.items_per_frame[stage.name] * took_s
    return whole_s


def at_pace(
    deployment: Deployment, slower: Mapping[str, float], spread: Mapping[str, tuple[float, ...]] | None = None
) -> Deployment:
    """The same deployment with times at stations, by stage, times a factor; `spread`: factors of single items, drawn
    from."""
    spread = spread or {}

    def stage(pipeline: Pipeline, one: PipelineStage) -> PipelineStage:
        if isinstance(one.work, ModelWork):
            return one
        name = pipeline.name_of(one)
        service_s = one.work.service_s * slower.get(name, 1.0)
        work = replace(one.work, service_s=service_s, factors=spread.get(name, one.work.factors))
        return replace(one, work=work)

    pipelines = [
        replace(pipeline, stages=tuple(stage(pipeline, one) for one in pipeline.stages))
        for pipeline in deployment.pipelines
    ]
    return replace(deployment, pipelines=tuple(pipelines))


def model_slos(pipeline: Pipeline) -> dict[str, SLO]:
    """By stage that is a model, as figures name it: the SLO by which its items are late."""
    return {
        pipeline.name_of(stage): pipeline.slo_of(stage)
        for stage in pipeline.stages
        if isinstance(stage.work, ModelWork)
    }


def core_stages(pipelines: Sequence[Pipeline]) -> list[str]:
    """Stages that the core works on, by the names that figures have."""
    return [
        pipeline.name_of(stage)
        for pipeline in pipelines
        for stage in pipeline.stages
        if isinstance(stage.work, StationWork)
    ]


# Which can be served


def refuse_unservable(scenario: Scenario) -> None:
    """DeploymentError where the pipelines of a scenario cannot be served for real."""
    if problem := next(unservable(scenario), None):
        raise DeploymentError(problem)


def unservable(scenario: Scenario) -> Iterator[str]:
    """What cannot be served for real, a line each; none of a scenario without pipelines."""
    if not scenario.pipelines:
        return
    names = [pipeline.name for pipeline in scenario.pipelines]
    if len(names) > 1:
        yield f"pipelines: one is served for real, got {len(names)}: {', '.join(names)}. Leave the others out."
    if alone := [model.name for model in scenario.models if model.name not in scenario.stages]:
        yield f"models[{alone[0]}]: a pipeline is served for real by itself, got a model beside it. Leave it out."
    if scenario.validate.processes > 1:
        count = scenario.validate.processes
        yield f"validate.processes: must be 1 where a pipeline is served for real, got {count}. Leave it out."
    for pipeline in scenario.pipelines:
        yield from of_stages(pipeline)
        yield from of_crops(pipeline)


def of_stages(pipeline: PipelineSpec) -> Iterator[str]:
    """Work that is not done for real."""
    for stage in pipeline.stages:
        if stage.copy is not None:
            yield f"{place(pipeline, stage, 'copy')}: copies are not served for real. Leave the stage out."
        if stage.encode:
            yield f"{place(pipeline, stage, 'encode')}: frames are not encoded for real. Leave the stage out."
        coding = stage.coding if stage.decode else None
        if coding and (coding.codec != CODEC or (coding.width, coding.height) not in FRAME_SIZES):
            sizes = " or ".join(f"{w}x{h}" for w, h in FRAME_SIZES)
            yield (
                f"{place(pipeline, stage)}: for real {CODEC} of {sizes} is decoded, "
                f"got {coding.codec} of {coding.width}x{coding.height}. Name one of these."
            )
    yield from of_decoding(pipeline)


def of_decoding(pipeline: PipelineSpec) -> Iterator[str]:
    """More decoding than one stage does where frames enter."""
    decoding = [stage for stage in pipeline.stages if step_of(stage) == "decode"]
    if len(decoding) > 1:
        names = ", ".join(stage.name for stage in decoding)
        yield f"pipelines[{pipeline.name}].stages: one decodes for real, got {names}. Leave the others out."
    for stage in decoding:
        if stage.after:
            before = names_of(stage.after)
            yield f"{place(pipeline, stage, 'after')}: frames enter where they are decoded, got {before}. Leave it out."


def of_crops(pipeline: PipelineSpec) -> Iterator[str]:
    """Crops of which nobody would know how many there are, or of what: the detector must see each frame once."""
    stages = {stage.name: stage for stage in pipeline.stages}
    crop = stages.get(CROP)
    if crop is None or step_of(crop) != CROP:
        return
    before = [stages[way.stage] for way in crop.after]
    if len(before) != 1 or not before[0].is_model:
        yield (
            f"{place(pipeline, crop, 'after')}: crops are of what one model found, got {names_of(crop.after)}. "
            "Name the detector: after: {stage: detect, fan_out: 3}, or call the stage otherwise."
        )
        return
    (detector,) = before
    for key, given in (("share", crop.after[0].share), ("every", crop.after[0].every)):
        if given != 1:
            yield f"{place(pipeline, crop, f'after.{key}')}: every object is cut out, got {given:g}. Leave it out."
    if detector.input != LETTERBOXED:
        yield (
            f"{place(pipeline, detector, 'input')}: crops follow it, so it sees {by(LETTERBOXED)}, "
            f"got {by(detector.input)}. Name a detector of such frames."
        )
    yield from of_line(pipeline, detector)


def of_line(pipeline: PipelineSpec, detector: StageSpec) -> Iterator[str]:
    """Another way to the detector than one that leads each frame from `decode` to `letterbox` to it."""
    stages = {stage.name: stage for stage in pipeline.stages}
    line = [detector]
    while len(line[-1].after) == 1:
        (way,) = line[-1].after
        if way.part < 1 or way.fan_out != ONE:
            yield (
                f"{place(pipeline, line[-1], 'after')}: crops follow, so each frame goes this way once, "
                "got a share or a fan-out. Leave it out."
            )
        line.append(stages[way.stage])
    first, made_by = line[-1], line[1:2]
    if not made_by or step_of(made_by[0]) != "letterbox":
        yield (
            f"{place(pipeline, detector, 'after')}: crops follow it, so it sees what a stage `letterbox` makes, "
            f"got {names_of(detector.after)}. Name such a stage of kind host: {{name: letterbox, host: 10 ms}}."
        )
    elif step_of(first) != "decode":
        yield (
            f"{place(pipeline, first, 'after')}: crops follow, so one way leads here from a stage that decodes, "
            f"got {names_of(first.after)}. Begin with {{name: decode, decode: {CODEC}, resolution: 1280x720}}."
        )


def step_of(stage: StageSpec) -> str | None:
    """The work of a processor that a stage is: decoding, or what its name says."""
    if stage.decode:
        return "decode"
    if stage.measured:
        return stage.measured.value
    return stage.name if stage.host is not None and stage.name in STEPS else None


def place(pipeline: PipelineSpec, stage: StageSpec, key: str = "") -> str:
    """Where it stands, as `--set` has it: `pipelines[road].stages[crop].after`."""
    return f"pipelines[{pipeline.name}].stages[{stage.name}]{key and '.'}{key}"


def names_of(ways: Sequence[EdgeSpec]) -> str:
    """The stages before: `detect, track`; `none`."""
    return ", ".join(way.stage for way in ways) or "none"


def by(shape: Sequence[int]) -> str:
    """A shape in words: `3x640x640`; `none`."""
    return "x".join(map(str, shape)) or "none"
