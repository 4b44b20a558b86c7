"""Resources in words: what gives way first, and how full each is."""

from planner.model.choices import Codec
from planner.model.plan import Bottleneck, ModelAnswer, Recommendation, ResourceAnswer, StageAnswer
from planner.model.simulation import Simulation
from planner.units.writing import counted, seconds, share

CODECS = {
    Codec.H264: "H.264",
    Codec.HEVC: "HEVC",
    Codec.HEVC_10BIT: "HEVC 10 bit",
    Codec.VP9: "VP9",
    Codec.VP9_10BIT: "VP9 10 bit",
    Codec.AV1: "AV1",
}
WORK = {
    "model": "model",
    "decode": "decoding",
    "encode": "encoding",
    "host": "on the host",
    "copy": "copy to the GPU",
}
"""What a stage does, by its kind."""
GIVES_WAY = {
    Bottleneck.LATENCY: "the latency SLO",
    Bottleneck.MEMORY: "GPU memory",
    Bottleneck.COMPUTE: "compute",
    Bottleneck.BATCH_RANGE: "the largest batch known",
    Bottleneck.SLO_BATCH: "the small batches that SLOs allow",
    Bottleneck.LOADING: "weight loading",
    Bottleneck.HOST_MEMORY: "host memory",
    Bottleneck.DECODE: "decoding",
    Bottleneck.ENCODE: "encoding",
    Bottleneck.HOST_CORES: "the processor's cores",
    Bottleneck.COPY: "copies to the GPU",
}
"""Limits of a model that runs."""
HELD_BY_STREAMS = (Bottleneck.MEMORY, Bottleneck.ENCODE)
"""What pipelines run out of by the number of their streams, however often frames come."""
FULLEST = "How full resources are, the fullest first"


def resource_name(one: ResourceAnswer) -> str:
    """`decoding H.264 on T4`."""
    match one.kind:
        case Bottleneck.DECODE | Bottleneck.ENCODE:
            return f"{WORK[one.kind]} {' and '.join(CODECS[Codec(codec)] for codec in one.codecs)} on {one.gpu}"
        case Bottleneck.HOST_CORES:
            return f"cores of machines with {one.gpu}"
        case Bottleneck.COPY:
            return f"links to {one.gpu}"
        case Bottleneck.MEMORY:
            return f"memory of {one.gpu} for video"
    return f"arithmetic of {one.gpu}"


def resource_line(one: ResourceAnswer) -> str:
    """`decoding H.264 on T4: 40 of 46 streams`, `memory of T4 for video: 40 of 58 streams`,
    `cores of machines with T4: 63 % of 90 %`."""
    if one.streams_max:
        return f"{resource_name(one)}: {one.streams} of {counted(one.streams_max, 'stream')}"
    return f"{resource_name(one)}: {share(one.load)} of {share(one.limit)}"


def times_what(model: ModelAnswer) -> str:
    """What its `demand_factor_max` multiplies."""
    by_number = model.stages and model.bottleneck in HELD_BY_STREAMS
    return "times as many streams" if by_number else "times this load"


def resource_lines(answer: Recommendation | Simulation) -> list[str]:
    """What is used most of all that there is, first."""
    return [resource_line(one) for one in sorted(answer.resources, key=lambda one: -one.used)]


def budget_lines(answer: Recommendation | Simulation) -> list[str]:
    """How the SLO of each pipeline was split over the stages that run models."""
    lines = []
    for model in answer.models:
        parts = [part(stage) for stage in model.stages if stage.budget_s is not None]
        if parts:
            lines.append(f"{model.name}: of {seconds(model.slo_s)} {', '.join(parts)}.")
    return lines


def part(stage: StageAnswer) -> str:
    """`detect 95.7 ms in batches of up to 5`."""
    assert stage.budget_s is not None, "a stage that runs a model has a budget"
    return f"{stage.name} {seconds(stage.budget_s)} in batches of up to {stage.batch_size}"
