"""Pipelines in answers: what each stage gets and gives, and how much is taken of each resource."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import floor

from planner.model.parts.pipelines import PipelineSpec, StageSpec
from planner.model.plan import Bottleneck, ReplicaAnswer, ResourceAnswer, StageAnswer
from planner.placing.cutting import FleetGpu
from planner.placing.duty import offered_load
from planner.placing.packing.packed import Placed, load_within, portions_of
from planner.placing.sizing import Need
from planner.placing.stages import items_of
from planner.placing.stations import (
    STATIONS,
    Held,
    StationLoad,
    held_on,
    kind_of,
    loads_on,
    pipelines_in,
)
from planner.replay.trial import Trial, evidence, mean_of_known
from simulator.flow.figures import StageMetrics
from simulator.world.profile import Evidence, speed_evidence_of, weakest


def stages_of(trial: Trial, need: Need) -> tuple[StageAnswer, ...]:
    """What each stage of a pipeline gets and gives; none of a model."""
    if need.pipeline is None:
        return ()
    return tuple(_stage(trial, need.pipeline, stage) for stage in need.pipeline.stages)


def _stage(trial: Trial, pipeline: PipelineSpec, stage: StageSpec) -> StageAnswer:
    name = pipeline.stage(stage.name)
    seen = [summary.stages[name] for summary in trial.replay.summaries]
    placed = [p for p in trial.packing.placed if p.portion.sized.model == name]
    profiles = [p.portion.sized.profile for p in placed]

    def mean(figure: Callable[[StageMetrics], float]) -> float:
        return mean_of_known([figure(one) for one in seen])

    sizes = [summary.models[name].mean_batch_size for summary in trial.replay.summaries]
    mean_batch = mean_of_known(sizes) if placed else 1.0
    return StageAnswer(
        name=stage.name,
        kind=kind_of(stage) or "model",
        after=tuple(edge.stage for edge in stage.after),
        budget_s=placed[0].portion.sized.need.slo.latency_s if placed else None,
        replicas=replicas_of(placed),
        batch_size=max((p.batch_size_max for p in placed), default=0),
        mean_batch_size=mean_batch,
        items_per_frame=items_of(pipeline)[stage.name].mean,
        items_per_s=mean(lambda one: one.items_per_s),
        waiting_p50_s=mean(lambda one: one.waiting.p50_s),
        waiting_p99_s=mean(lambda one: one.waiting.p99_s),
        service_p50_s=mean(lambda one: one.service.p50_s),
        service_p99_s=mean(lambda one: one.service.p99_s),
        lost_fraction=mean(lambda one: one.lost_fraction),
        utilization=min(1.0, mean(lambda one: one.busy) / _places(trial, stage, placed)),
        mode=mode_of(placed),
        precision=each_once(profile.precision for profile in profiles),
        runtime=each_once(profile.runtime for profile in profiles),
        evidence=_evidence(placed),
        predicted=any(profile.predicted for profile in profiles),
        speed_evidence=speed_evidence_of(profile.speed_evidence for profile in profiles),
        uncertain=any(profile.doubt for profile in profiles),
    )


def replicas_of(placed: Sequence[Placed]) -> tuple[ReplicaAnswer, ...]:
    """Where each replica runs, and what it takes."""
    each = [(tuple(device.id for device in p.devices), p) for p in placed]
    return tuple(ReplicaAnswer(gpus=gpus, batch_size=p.batch_size_max, share=p.portion.share) for gpus, p in each)


def mode_of(placed: Sequence[Placed]) -> str:
    """How it is in memory; empty of what is placed on no GPU."""
    if not placed:
        return ""
    return "swapped" if any(p.swapped for p in placed) else "resident"


def each_once(names: Iterable[str]) -> str:
    """`fp16 and fp32`, each once."""
    return " and ".join(sorted(set(names)))


def _evidence(placed: Sequence[Placed]) -> Evidence:
    """Of a stage at a station: as the scenario states it."""
    each = [evidence(p.portion.sized.profile, p.swapped) for p in placed]
    return weakest(*each) if each else Evidence.ASSUMED


def _places(trial: Trial, stage: StageSpec, placed: Sequence[Placed]) -> int:
    """GPUs of its replicas, or servers of its stations."""
    if placed:
        return len({device.id for p in placed for device in p.devices})
    return sum(one.servers for one in trial.deployment.stations if one.kind == kind_of(stage))


def resources_of(trial: Trial) -> tuple[ResourceAnswer, ...]:
    """How much of each resource is taken, where pipelines are asked."""
    needs = trial.replay.needs
    if not pipelines_in(needs):
        return ()
    stages = [stage for pipeline in pipelines_in(needs) for stage in pipeline.stages]
    stations = (_station(trial, one, stages) for one in loads_on(needs, trial.devices, trial.limit))
    return (*_arithmetic(trial), *_memory(trial), *stations)


def _arithmetic(trial: Trial) -> Iterator[ResourceAnswer]:
    """Of each kind of GPU, the load of the busiest."""
    loads = {device.id: 0.0 for device in trial.devices}
    for placed in trial.packing.placed:
        for device, portion in zip(placed.devices, portions_of(placed), strict=True):
            loads[device.id] += offered_load([portion], [placed.batch_size_max])
    for gpu in dict.fromkeys(device.kind.gpu.name for device in trial.devices):
        mine = [loads[device.id] for device in trial.devices if device.kind.gpu.name == gpu]
        yield ResourceAnswer(kind=Bottleneck.COMPUTE, gpu=gpu, servers=len(mine), load=max(mine), limit=trial.limit)


def _memory(trial: Trial) -> Iterator[ResourceAnswer]:
    """Of each kind of GPU that decodes or encodes, the memory of the fullest, and the streams for which there is
    room."""
    held = held_on(trial.replay.needs, trial.devices)
    by_gpu: dict[str, list[FleetGpu]] = {}
    for device in trial.devices:
        if device.id in held and held[device.id].streams:
            by_gpu.setdefault(device.kind.gpu.name, []).append(device)
    for gpu, mine in by_gpu.items():
        peak = {device.id: _peak_bytes(trial, device.id) for device in mine}
        free = {device.id: device.kind.memory_bytes - peak[device.id] for device in mine}
        come = sum(held[device.id].streams for device in mine)
        yield ResourceAnswer(
            kind=Bottleneck.MEMORY,
            gpu=gpu,
            servers=len(mine),
            load=max(peak[device.id] / device.kind.memory_bytes for device in mine),
            limit=1.0,
            streams=come,
            streams_max=max(come, dealt_most([_most_streams(trial, one, held[one.id], free[one.id]) for one in mine])),
        )


def dealt_most(most: Sequence[int]) -> int:
    """Streams that may come to GPUs of one kind, dealt in turn, where each has room for so many: 2 and 3 for 4."""
    return min(len(most) * streams + place for place, streams in enumerate(most))


def _most_streams(trial: Trial, device: FleetGpu, held: Held, free_bytes: int) -> int:
    """Streams of the mean size of those here for which there is room: in the batches of replays, or in smaller ones
    that do what so many streams ask."""
    mean_bytes = held.size_bytes / held.streams
    if not mean_bytes:
        return held.streams
    as_replayed = held.streams + max(0, floor(free_bytes / mean_bytes + 1e-9))
    placed = [p for p in trial.packing.placed if device in p.devices]
    if not placed:
        return as_replayed

    def too_many(streams: int) -> bool:
        load = load_within(placed, device, device.kind.memory_bytes - streams * mean_bytes)
        return load * streams / held.streams > trial.limit + 1e-9

    more = range(as_replayed + 1, floor(device.kind.memory_bytes / mean_bytes) + 1)
    return as_replayed + bisect_left(more, True, key=too_many)


def _peak_bytes(trial: Trial, gpu: str) -> int:
    return max(summary.devices[gpu].peak_memory_bytes for summary in trial.replay.summaries)


def _station(trial: Trial, one: StationLoad, stages: Sequence[StageSpec]) -> ResourceAnswer:
    codecs = {stage.coding.codec.value for stage in stages if stage.coding and stage.coding.kind == one.kind}
    return ResourceAnswer(
        kind=STATIONS[one.kind],
        gpu=one.gpu,
        codecs=tuple(sorted(codecs)),
        servers=one.servers,
        load=one.load,
        limit=trial.limit,
        streams=one.sources if codecs else 0,
        streams_max=one.sources_max if codecs else 0,
    )
