"""Pipelines in a validation: what their camera sees, how long a core takes for their stages, and how fast it was."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from calibrate.io.points import FRAME_SIZES
from calibrate.serving.served import CROP, Scene
from planner.model.parts.pipelines import PipelineSpec, StageSpec
from planner.model.scenario import Scenario
from planner.placing.stations import edge, fan_out
from planner.questions.validation.servable import step_of
from simulator.errors import DeploymentError
from simulator.flow.items import fan_outs
from simulator.world.deployment import Deployment
from simulator.world.pipelines import (
    FanOut,
    FanOutKind,
    ModelWork,
    Pipeline,
    PipelineStage,
    Station,
    StationWork,
)
from simulator.world.workload import SLO

HOST = "host"
CORE = Station(id="core", host=HOST, kind=HOST, servers=1)
"""One core of the machine does all that is not a model; the device's own thread has another."""
PICTURES = 60
"""Of the video, which then begins again."""
MOST_OBJECTS = 9
"""In a picture: its lanes."""


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
    decoding = next((stage for stage in spec.stages if stage.decode), None)
    width, height = decoding.resolution if decoding else FRAME_SIZES[0]
    counts = np.zeros(PICTURES, dtype=np.int64)
    for stage in spec.stages:
        if step_of(stage) == CROP:
            drawn = fan_outs(fan_out(stage.after[0].fan_out), PICTURES, np.random.default_rng(scenario.seed))
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


def at_pace(deployment: Deployment, slower: Mapping[str, float], cv: Mapping[str, float] | None = None) -> Deployment:
    """The same deployment with times at stations, by stage, times a factor; `cv`: their spread instead of none."""
    spread = cv or {}

    def stage(pipeline: Pipeline, one: PipelineStage) -> PipelineStage:
        if isinstance(one.work, ModelWork):
            return one
        name = pipeline.name_of(one)
        work = replace(one.work, service_s=one.work.service_s * slower.get(name, 1.0), cv=spread.get(name, one.work.cv))
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
