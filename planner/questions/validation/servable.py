"""Servable: whether a pipeline can be served for real, by its scenario alone, before anything is measured."""

from collections.abc import Iterator, Sequence

from calibrate.io.points import FRAME_SIZES
from calibrate.serving.served import CROP, STEPS
from planner.model.parts.pipelines import EdgeSpec, FanOutSpec, PipelineSpec, StageSpec
from planner.model.scenario import Scenario
from simulator.errors import DeploymentError

CODEC = "h264"
LETTERBOXED = (3, 640, 640)
"""Shape of what the step `letterbox` makes."""
ONE = FanOutSpec()
"""One item of each."""


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
        if stage.decode and (stage.decode != CODEC or stage.resolution not in FRAME_SIZES):
            yield of_frames(pipeline, stage)
    decoding = [stage for stage in pipeline.stages if step_of(stage) == "decode"]
    if len(decoding) > 1:
        names = ", ".join(stage.name for stage in decoding)
        yield f"pipelines[{pipeline.name}].stages: one decodes for real, got {names}. Leave the others out."
    for stage in decoding:
        if stage.after:
            before = names_of(stage.after)
            yield f"{place(pipeline, stage, 'after')}: frames enter where they are decoded, got {before}. Leave it out."


def of_frames(pipeline: PipelineSpec, stage: StageSpec) -> str:
    """A codec or a size that is not decoded."""
    width, height = stage.resolution
    sizes = " or ".join(f"{w}x{h}" for w, h in FRAME_SIZES)
    return (
        f"{place(pipeline, stage)}: for real {CODEC} of {sizes} is decoded, "
        f"got {stage.decode} of {width}x{height}. Name one of these."
    )


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
    if crop.after[0].share < 1:
        share = crop.after[0].share
        yield f"{place(pipeline, crop, 'after.share')}: every object is cut out, got {share:g}. Leave it out."
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
        if way.share < 1 or way.fan_out != ONE:
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
