"""Stations: what pipelines ask of a fleet besides its GPUs' arithmetic - engines for video, cores, copies to GPUs."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import floor, inf

import numpy as np
from numpy.typing import NDArray

from planner.catalog.engines import codes, engine_count, engine_rate, stream_bytes
from planner.catalog.offers import Offer
from planner.model.parts.coding import Coding
from planner.model.parts.pipelines import PipelineSpec, StageSpec
from planner.model.plan import Bottleneck
from planner.placing.cutting import FleetGpu
from planner.placing.sizing import Kind, Need, judged
from planner.placing.stages import behind_models, edge, items_of, least_shares
from simulator.rules.routing import split
from simulator.world.hardware import GPU
from simulator.world.pipelines import DECODE, ENCODE, ENGINES, ModelWork, Pipeline, PipelineStage, Station, StationWork
from simulator.world.workload import SLO

Ints = NDArray[np.int64]
STATIONS = {
    DECODE: Bottleneck.DECODE,
    ENCODE: Bottleneck.ENCODE,
    "host": Bottleneck.HOST_CORES,
    "copy": Bottleneck.COPY,
}
"""Kinds of station, and what is said to bind where one is short."""
MANY = 1_000_000_000
"""Streams: more than anybody has."""


def kind_of(stage: StageSpec) -> str | None:
    """The kind of station that does a stage; None: a GPU, which runs a model."""
    if stage.coding:
        return stage.coding.kind
    if stage.host is not None:
        return "host"
    return None if stage.copy is None else "copy"


def service_s(stage: StageSpec, gpu: GPU) -> float:
    """Time of one item at a station of a machine with such GPUs; infinite where that cannot do it."""
    if stage.coding:
        rate = engine_rate(gpu, stage.coding)
        return 1 / rate.fps_per_engine if rate and rate.engines else inf
    if stage.copy is not None:
        return stage.copy / gpu.pcie_bytes_per_s
    assert stage.host is not None, "a checked stage does one thing"
    return stage.host


def servers(kind: str, gpu: GPU, gpu_count: int, cores: int) -> int:
    """Servers of one machine: engines of its GPUs, cores of its processor, or its one way to its GPUs."""
    if kind in ENGINES:
        return gpu_count * (engine_count(gpu, kind) or 0)
    return 1 if kind == "copy" else cores


@dataclass(frozen=True, slots=True)
class Resource:
    """All that pipelines ask of one kind of station."""

    kind: str
    work: Mapping[str, float]
    """Servers that are busy were all of it done on machines with one kind of GPU, by its name."""
    least: Mapping[str, float]
    """The same of the least that keeps every SLO: of frames that may be lost, those with most items go first."""

    def busy(self, gpu: str, design: float) -> float:
        """Between the least work (0) and the usual (1), or that many times the usual."""
        if design >= 1:
            return self.work[gpu] * design
        return self.least[gpu] + design * (self.work[gpu] - self.least[gpu])

    def servers(self, offer: Offer) -> int:
        """Of one machine."""
        return servers(self.kind, offer.gpu, offer.gpu_count, offer.cores)


def resources(needs: Mapping[str, Need], gpus: Collection[GPU]) -> tuple[Resource, ...]:
    """What the pipelines ask of each kind of station, on each of these kinds of GPU that can do it."""
    asked = list(_asked(needs))
    by_kind = {kind: [one for one in asked if kind_of(one[0]) == kind] for kind in STATIONS}
    return tuple(_resource(kind, mine, gpus) for kind, mine in by_kind.items() if mine)


def _resource(kind: str, asked: Sequence[tuple[StageSpec, float, float]], gpus: Collection[GPU]) -> Resource:
    """What stages ask of one kind of station: each at its rate, and at the least that it may be."""
    able = [gpu for gpu in gpus if all(service_s(stage, gpu) < inf for stage, *_ in asked)]
    work = {gpu.name: sum(needed * service_s(stage, gpu) for stage, needed, _ in asked) for gpu in able}
    least = {gpu.name: sum(least * service_s(stage, gpu) for stage, _, least in asked) for gpu in able}
    return Resource(kind, work, least)


def _asked(needs: Mapping[str, Need]) -> Iterator[tuple[StageSpec, float, float]]:
    """Each stage with the items a second that it must do, and those that it must do at least."""
    for need, pipeline in piped(needs):
        items, spared = items_of(pipeline), behind_models(pipeline)
        least = least_shares(pipeline, need.slo.attainment)
        for stage in pipeline.stages:
            its = items[stage.name]
            if need.may_drop and stage.name in spared:
                yield stage, need.needed_rps * its.mean, need.rate_rps * its.mean * least[stage.name]
            else:
                yield stage, need.rate_rps * its.mean, need.rate_rps * its.mean


@dataclass(frozen=True, slots=True)
class StationLoad:
    """The stations of one kind on GPUs of one kind, or on their hosts."""

    kind: str
    gpu: str
    servers: int
    load: float
    """Share of their time that they are busy with what must be done."""
    sources: int = 0
    """Of engines: cameras that come here."""
    sources_max: int = 0
    """Most that may come here, dealt likewise, within a limit to all loads and as far as their drivers take them."""


def loads_on(needs: Mapping[str, Need], devices: Sequence[FleetGpu], limit: float = 1.0) -> tuple[StationLoad, ...]:
    """The load of each kind of station, by kind of GPU; infinite where there is none that can do its work.

    Sources are dealt to engines by what these can do; other work goes where least waits for what is done there.
    """
    gpus = {device.kind.gpu.name: device.kind.gpu for device in devices}
    found: list[StationLoad] = []
    for resource in resources(needs, gpus.values()):
        here = [(gpu, one) for gpu, one in placed_stations(pipelines_in(needs), devices) if one.kind == resource.kind]
        found += _loads(resource, here, encoded_streams(needs, resource.kind), gpus, limit)
    return tuple(found)


def _loads(
    resource: Resource, stations: Sequence[tuple[str, Station]], encoded: Ints, gpus: Mapping[str, GPU], limit: float
) -> Iterator[StationLoad]:
    """`encoded`: streams that each source makes at such stations."""
    if not stations:
        yield StationLoad(resource.kind, "", 0, inf)
        return
    capacity = sum(one.servers / resource.work[gpu] for gpu, one in stations)
    sources = len(encoded)
    come, most = _dealt(sources, stations), _dealt(floor(sources * limit * capacity + 1e-9), stations)
    by_host = _encoded_by_host(encoded, [one for _, one in stations])
    each = max(1.0, float(encoded.mean())) if sources else 1.0
    for gpu, coming in come.items():
        here = [one for name, one in stations if name == gpu]
        taken = encoded_max(resource.kind, gpus[gpu])
        more = sum(floor((taken - by_host[host]) / each) for host in {one.host for one in here})
        number = sum(one.servers for one in here)
        yield StationLoad(resource.kind, gpu, number, 1 / capacity, coming, min(most[gpu], coming + more))


def _dealt(sources: int, stations: Sequence[tuple[str, Station]]) -> dict[str, int]:
    """How many sources come to stations at each kind of GPU."""
    dealt = split(sources, [one.capacity for _, one in stations])
    come = dict.fromkeys((gpu for gpu, _ in stations), 0)
    for (gpu, _), mine in zip(stations, dealt, strict=True):
        come[gpu] += len(mine)
    return come


def _encoded_by_host(encoded: Ints, stations: Sequence[Station]) -> Counter[str]:
    """How many streams are made in each machine, where each source makes so many."""
    made = Counter[str]()
    for one, mine in zip(stations, split(len(encoded), [one.capacity for one in stations]), strict=True):
        made[one.host] += int(encoded[mine].sum())
    return made


def encoded_max(kind: str, gpu: GPU) -> int:
    """Most streams that the driver of such GPUs encodes at once in one machine."""
    return gpu.encode_sessions if kind == ENCODE and gpu.encode_sessions else MANY


def piped(needs: Mapping[str, Need]) -> list[tuple[Need, PipelineSpec]]:
    """What is asked of each pipeline, and its stages."""
    return [(need, need.pipeline) for need in judged(needs).values() if need.pipeline is not None]


def pipelines_in(needs: Mapping[str, Need]) -> list[PipelineSpec]:
    """All pipelines that are asked."""
    return [pipeline for _, pipeline in piped(needs)]


def stream_sizes(needs: Mapping[str, Need], kind: str) -> Ints:
    """GPU memory that each stream holds which is decoded, or encoded, in bytes: of each such stage its own."""
    return _of_each_source(needs, kind, sum)


def encoded_streams(needs: Mapping[str, Need], kind: str) -> Ints:
    """Streams that each source is decoded from, or encoded to: one at each such stage of its pipeline."""
    return _of_each_source(needs, kind, len)


def _of_each_source(needs: Mapping[str, Need], kind: str, figure: Callable[[Sequence[int]], int]) -> Ints:
    """A figure of what each source that engines of a kind work for holds at its stages."""
    each: list[int] = []
    for need, pipeline in piped(needs):
        held = [held_bytes(stage, stage.coding) for stage in pipeline.stages if stage.coding and kind_of(stage) == kind]
        if held:
            each += [figure(held)] * sum(stream.count for stream in need.streams)
    return np.array(each, dtype=np.int64)


def held_bytes(stage: StageSpec, coding: Coding) -> int:
    """GPU memory that a stream holds at one stage: as stated, or as it is assumed."""
    return stream_bytes(coding) if stage.memory is None else stage.memory


def streams_on(needs: Mapping[str, Need], devices: Sequence[FleetGpu], kind: str) -> dict[str, Ints]:
    """Sizes of the streams at the engines of each GPU, by its id: dealt in turn, by what engines can do."""
    engines = [one for _, one in placed_stations(pipelines_in(needs), devices) if one.kind == kind]
    sizes = stream_sizes(needs, kind)
    shares = split(len(sizes), [one.capacity for one in engines])
    gpu_of = {f"{device.id}/{kind}": device.id for device in devices}
    return {gpu_of[one.id]: sizes[mine] for one, mine in zip(engines, shares, strict=True)}


@dataclass(frozen=True, slots=True)
class Held:
    """What streams hold of one GPU's memory."""

    streams: int = 0
    """As many as it decodes, or as it encodes where these are more."""
    size_bytes: int = 0

    def with_sizes(self, sizes: Ints) -> "Held":
        """And those of one kind of engine."""
        return Held(max(self.streams, len(sizes)), self.size_bytes + int(sizes.sum()))


def held_on(needs: Mapping[str, Need], devices: Sequence[FleetGpu]) -> dict[str, Held]:
    """What streams hold on each GPU that decodes or encodes, by its id."""
    found: dict[str, Held] = {}
    for kind in ENGINES:
        for gpu, sizes in streams_on(needs, devices, kind).items():
            found[gpu] = found.get(gpu, Held()).with_sizes(sizes)
    return found


def beyond_drivers(needs: Mapping[str, Need], devices: Sequence[FleetGpu]) -> tuple[GPU, int] | None:
    """A machine in which more streams would be encoded than its driver takes: its GPU, and how many; None where there
    is none."""
    engines = [one for _, one in placed_stations(pipelines_in(needs), devices) if one.kind == ENCODE]
    by_host = _encoded_by_host(encoded_streams(needs, ENCODE), engines)
    over = (one for one in devices if by_host[one.host] > encoded_max(ENCODE, one.kind.gpu))
    return next(((one.kind.gpu, by_host[one.host]) for one in over), None)


def placed_stations(pipelines: Sequence[PipelineSpec], devices: Sequence[FleetGpu]) -> list[tuple[str, Station]]:
    """The stations of a fleet that its pipelines use, each with the kind of GPU in its machine.

    Speeds are those of the first stage of their kind: a GPU that decodes H.264 twice as fast as another is taken to
    decode other codecs twice as fast too.
    """
    found: list[tuple[str, Station]] = []
    for kind, stages in _by_kind(pipelines).items():
        usual_s = _usual_s(stages[0], devices)
        for place, device in _places(kind, devices).items():
            gpu = device.kind.gpu
            gpus = 1 if kind in ENGINES else sum(one.host == device.host for one in devices)
            count = servers(kind, gpu, gpus, device.cores)
            times_s = [service_s(stage, gpu) for stage in stages]
            if count and max(times_s) < inf:
                speed = usual_s / times_s[0]
                one = Station(id=f"{place}/{kind}", host=device.host, kind=kind, servers=count, speed=speed)
                found.append((gpu.name, one))
    return found


def _by_kind(pipelines: Sequence[PipelineSpec]) -> dict[str, list[StageSpec]]:
    """Stages that stations do, by the kind of these."""
    found: dict[str, list[StageSpec]] = {}
    for pipeline in pipelines:
        for stage in pipeline.stages:
            if (kind := kind_of(stage)) is not None:
                found.setdefault(kind, []).append(stage)
    return found


def _places(kind: str, devices: Sequence[FleetGpu]) -> dict[str, FleetGpu]:
    """Where the stations of a kind stand: engines on each GPU, the others on each host."""
    if kind in ENGINES:
        return {device.id: device for device in devices}
    return {device.host: device for device in reversed(devices)}


def _usual_s(stage: StageSpec, devices: Sequence[FleetGpu]) -> float:
    """Time of one item on the first GPU that can do it."""
    times = (service_s(stage, device.kind.gpu) for device in devices)
    return next((took_s for took_s in times if took_s < inf), inf)


def pipelines_on(pipelines: Sequence[PipelineSpec], devices: Sequence[FleetGpu]) -> tuple[Pipeline, ...]:
    """The pipelines as they run on a fleet: times of stations are those of its first GPU that can do the work."""

    def stage(spec: StageSpec) -> PipelineStage:
        kind = kind_of(spec)
        work = ModelWork() if kind is None else StationWork(kind, _usual_s(spec, devices))
        slo = SLO(spec.slo.latency, spec.slo.attainment) if spec.slo else None
        return PipelineStage(name=spec.name, work=work, after=tuple(map(edge, spec.after)), slo=slo)

    return tuple(
        Pipeline(
            name=spec.name,
            stages=tuple(map(stage, spec.stages)),
            slo=SLO(spec.slo.latency, spec.slo.attainment),
            ordered=spec.ordered,
        )
        for spec in pipelines
    )


@dataclass(frozen=True, slots=True)
class Unable:
    """A kind of GPU that does not do what pipelines ask of engines for video."""

    gpu: GPU
    kind: str
    """`decode` or `encode`."""
    codings: tuple[Coding, ...]
    unpublished: bool
    """Whether it does so, and only its rate is not known."""


def unable(needs: Mapping[str, Need], gpus: Collection[GPU]) -> Iterator[Unable]:
    """Kinds of GPU whose engines cannot do what pipelines ask, each once for decoding and once for encoding."""
    asked = codings_in(needs)
    for kind, gpu in product(ENGINES, {gpu.name: gpu for gpu in gpus}.values()):
        missing = tuple(one for one in asked if one.kind == kind and not does(gpu, one))
        if missing:
            yield Unable(gpu, kind, missing, unpublished=all(codes(gpu, one) for one in missing))


def codings_in(needs: Mapping[str, Need]) -> list[Coding]:
    """All that stages of pipelines ask of engines for video."""
    return [stage.coding for pipeline in pipelines_in(needs) for stage in pipeline.stages if stage.coding]


def does(gpu: GPU, coding: Coding) -> bool:
    """Whether an engine of a GPU does this at a rate that is known."""
    rate = engine_rate(gpu, coding)
    return bool(rate and rate.engines)


def too_small_for_a_stream(
    needs: Mapping[str, Need], kinds: Collection[Kind], context_bytes: int
) -> Iterator[tuple[Kind, int]]:
    """Kinds of GPU whose memory, in the machine with most of it, does not hold the largest stream beside a context,
    each once with what that stream takes, in bytes."""
    largest = max(int(stream_sizes(needs, kind).max(initial=0)) for kind in ENGINES)
    least_first = sorted(kinds, key=lambda kind: kind.memory_bytes)
    for kind in {kind.gpu.name: kind for kind in least_first}.values():
        if largest > max(0, kind.memory_bytes - context_bytes):
            yield kind, largest


def too_many_of_a_source(needs: Mapping[str, Need], gpus: Collection[GPU]) -> Iterator[tuple[GPU, int]]:
    """Kinds of GPU whose driver does not encode all streams of the source with most, each once with how many."""
    most = int(encoded_streams(needs, ENCODE).max(initial=0))
    for gpu in {gpu.name: gpu for gpu in gpus}.values():
        if most > encoded_max(ENCODE, gpu):
            yield gpu, most
