"""The JSON of a recording, and facts that cannot be in one. Times are whole microseconds, mostly as gaps."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, make_dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from calibrate.io.files import quoted
from calibrate.serving.served import HeldMemory
from planner.io.sound import repeated, uneven
from simulator.clock.records import Outcome
from simulator.world.deployment import Deployment, Replica, Service
from simulator.world.profile import Profile

TICK_S = 1e-6
"""Times are kept in whole microseconds: finer than any clock of a request, and short in a file."""
MOST_TICKS = 10**13
"""Longest time, four months: no run is as long."""
MOST_REQUESTS = 10**6
"""Most requests in one batch."""
Ticks = Annotated[int, Field(ge=0, le=MOST_TICKS)]
Count = Annotated[int, Field(ge=0, le=MOST_REQUESTS)]
Size = Annotated[int, Field(ge=0, le=10**15)]
"""Bytes, up to more than any machine has."""
Above = Annotated[float, Field(gt=0, lt=1e15)]
Share = Annotated[float, Field(ge=0, le=1e3)]


def as_written(kind: type, **types: Any) -> Any:
    """A dataclass like another, but for the types of some fields."""
    columns = [
        (column.name, types.get(column.name, column.type), field(default=column.default)) for column in fields(kind)
    ]
    return make_dataclass(f"Written{kind.__name__}", columns, kw_only=True, frozen=True)


CURVES = ("latency", "workspace", "slack", "host_s", "busy_s")
"""Of a profile, kept as their values at the batches that can be formed."""
Series = tuple[float, ...] | None
WrittenProfile = as_written(
    Profile, latency=tuple[Above, ...], workspace=tuple[float, ...], slack=Series, host_s=Series, busy_s=Series
)
WrittenReplica = as_written(Replica, profile=WrittenProfile)
WrittenService = as_written(Service, replicas=tuple[WrittenReplica, ...])  # type: ignore[valid-type]
WrittenDeployment = as_written(Deployment, services=tuple[WrittenService, ...])  # type: ignore[valid-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRequests:
    """Requests of one model: arrivals as gaps; start and finish counted from the arrival, null where there is none."""

    arrival: tuple[Ticks, ...]
    start: tuple[Ticks | None, ...]
    finish: tuple[Ticks | None, ...]
    outcome: str
    """A digit for each request."""
    due: str | None = None
    """Of the frames of a pipeline a digit for each: 1 where an answer is due to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenBatches:
    """Batches of one replica: starts as gaps, ends counted from the start."""

    model: str
    device: str
    start: tuple[Ticks, ...]
    took: tuple[Ticks | None, ...]
    count: tuple[Count, ...]
    aborted: tuple[int, ...]
    """Numbers of those that were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenMemory:
    """Memory of one device, from each time on."""

    at: tuple[Ticks, ...]
    used_bytes: tuple[Size, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenStation:
    """Items that a station took: starts as gaps, and how long each took."""

    start: tuple[Ticks, ...]
    took: tuple[Ticks, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenActions:
    """Actions of one kind, model and device."""

    kind: Literal["run", "load", "evict", "work", "wake", "follow"]
    model: str
    device: str
    start: tuple[Ticks, ...]
    batch: tuple[Count, ...]
    expected: tuple[Ticks, ...]
    actual: tuple[Ticks, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """One run of a deployment on a real device."""

    schema: str
    scenario: str
    created_at: str
    machine: Mapping[str, Any]
    stopped: str
    others_cores: float | None
    duration_s: Above
    warmup_s: float
    seed: int
    wall_s: float
    run_error: Mapping[str, Share]
    load_error: Mapping[str, Share]
    rehearsals: tuple[tuple[WrittenActions, ...], ...]
    scenario_text: str
    deployment: WrittenDeployment  # type: ignore[valid-type]
    requests: Mapping[str, WrittenRequests]
    batches: tuple[WrittenBatches, ...]
    loads: tuple[tuple[str, str, Ticks, Ticks, Size, bool], ...]
    stalls: tuple[tuple[str, Ticks, Ticks], ...]
    memory: Mapping[str, WrittenMemory]
    actions: tuple[WrittenActions, ...]
    held: Mapping[str, HeldMemory]
    frames: Mapping[str, tuple[Count, ...]] = field(default_factory=dict)
    """By stage of a pipeline: the frame that each of its items is of."""
    stations: Mapping[str, WrittenStation] = field(default_factory=dict)
    takes: tuple[Ticks, ...] = ()


@dataclass(frozen=True, slots=True)
class KnownNames:
    """Names of the deployment, which all parts of a recording must use."""

    models: Sequence[str]
    devices: Sequence[str]
    asked: Sequence[str]
    """All that requests are of: models, pipelines, and the stages of these."""
    stages: Sequence[str]
    """Of pipelines."""
    stations: Sequence[str]


def impossible_run(written: Written, deployment: Deployment) -> Iterator[str]:
    """Facts that no run of the deployment can have given."""
    models = [service.model for service in deployment.services]
    stages = [one.name_of(stage) for one in deployment.pipelines for stage in one.stages]
    names = KnownNames(
        models=models,
        devices=[device.id for device in deployment.devices],
        asked=list(dict.fromkeys([*models, *(one.name for one in deployment.pipelines), *stages])),
        stages=stages,
        stations=[station.id for station in deployment.stations],
    )
    yield from impossible_deployment(deployment)
    if written.warmup_s >= written.duration_s:
        yield f"warmup_s: must be below duration_s, {written.duration_s:g}, got {written.warmup_s:g}"
    if written.takes and abs(sum(written.takes) * TICK_S - written.duration_s) > len(written.takes) * TICK_S:
        yield f"takes: must last as long as the run, {written.duration_s:g} s, got {sum(written.takes) * TICK_S:g} s"
    yield from other_names(written, names)
    yield from impossible_columns(written, deployment)
    yield from impossible_batches(written, names)
    yield from impossible_spans(written, names)
    for i, actions in enumerate(written.actions):
        yield from impossible_actions(f"actions[{i}]", actions, names)
    for i, rehearsal in enumerate(written.rehearsals):
        for j, actions in enumerate(rehearsal):
            yield from impossible_actions(f"rehearsals[{i}][{j}]", actions, names)


def impossible_deployment(deployment: Deployment) -> Iterator[str]:
    """Services and devices that cannot be."""
    if not deployment.services or not deployment.devices:
        yield "deployment: must have a service and a device"
    for i, service in enumerate(deployment.services):
        yield from impossible_service(f"deployment.services[{i}]", service)
    for i, device in enumerate(deployment.devices):
        if min(device.gpu.memory_bytes_per_s, device.gpu.pcie_bytes_per_s, device.memory_bytes) <= 0:
            yield f"deployment.devices[{i}]: must have memory and bandwidths above 0"


def impossible_service(where: str, service: Service) -> Iterator[str]:
    """Properties that no model can have."""
    if not service.slo.latency_s > 0 or not 0 < service.slo.attainment <= 1:
        yield f"{where}.slo: must be a latency above 0 and an attainment from 0 to 1"
    for i, replica in enumerate(service.replicas):
        yield from impossible_replica(f"{where}.replicas[{i}]", replica)


def impossible_replica(where: str, replica: Replica) -> Iterator[str]:
    """Properties that no replica can have."""
    profile, batch_max = replica.profile, replica.batching.max_batch_size
    yield from repeated(f"{where}.devices", replica.devices)
    if not replica.devices:
        yield f"{where}.devices: must not be empty"
    series = [curve for name in CURVES if (curve := getattr(profile, name))]
    if any(len(curve.y) != batch_max for curve in series):
        yield f"{where}.profile: must have a latency and a workspace for each batch up to {batch_max}"
    if profile.load.bytes_per_s <= 0 or not profile.weight_bytes or profile.pageable_bytes_per_s == 0:
        yield f"{where}.profile: must have weights, and load them at a rate above 0"


def other_names(written: Written, names: KnownNames) -> Iterator[str]:
    """Models and devices that the deployment lacks, or of which the recording lacks figures."""
    yield from all_named("requests", written.requests, names.asked)
    yield from all_named("frames", written.frames, names.stages)
    yield from all_named("stations", written.stations, names.stations)
    yield from all_named("memory", written.memory, names.devices)
    yield from all_named("batches", {batches.model: batches for batches in written.batches}, names.models)
    yield from unknown("held", written.held, names.devices)
    yield from unknown("run_error", written.run_error, names.models)
    yield from unknown("load_error", written.load_error, names.models)


def impossible_columns(written: Written, deployment: Deployment) -> Iterator[str]:
    """Columns of requests and memory that do not fit together."""
    outcomes = {str(int(outcome)) for outcome in Outcome}
    for model, requests in written.requests.items():
        yield from uneven(f"requests[{model}]", columns(requests, "arrival", "start", "finish", "outcome"))
        if not set(requests.outcome) <= outcomes:
            yield f"requests[{model}].outcome: must be digits of those that there are, got {quoted(requests.outcome)}"
    for stage, frames in written.frames.items():
        if stage in written.requests and len(frames) != len(written.requests[stage].arrival):
            yield f"frames[{stage}]: must be one for each of its items"
    yield from impossible_frames(written, deployment)
    for station, work in written.stations.items():
        yield from uneven(f"stations[{station}]", columns(work, "start", "took"))
    for device, use in written.memory.items():
        yield from uneven(f"memory[{device}]", columns(use, "at", "used_bytes"))


def impossible_frames(written: Written, deployment: Deployment) -> Iterator[str]:
    """Items of frames that never came, and frames of which it is not said whether an answer is due."""
    for pipeline in deployment.pipelines:
        count = len(written.requests[pipeline.name].arrival) if pipeline.name in written.requests else 0
        due = written.requests[pipeline.name].due if count else ""
        if due is None or len(due) != count or not set(due) <= {"0", "1"}:
            yield f"requests[{pipeline.name}].due: must be 0 or 1 for each of the {count} frames. Record it anew"
        for stage in map(pipeline.name_of, pipeline.stages):
            largest = max(written.frames.get(stage, ()), default=-1)
            if largest >= count:
                yield f"frames[{stage}]: must be below the number of frames, {count}, got {largest}"


def impossible_batches(written: Written, names: KnownNames) -> Iterator[str]:
    """Batches that no replica can have run."""
    for i, batches in enumerate(written.batches):
        where, count = f"batches[{i}]", len(batches.start)
        yield from unknown(f"{where}.model", [batches.model], names.models)
        yield from unknown(f"{where}.device", [batches.device], names.devices)
        yield from uneven(where, columns(batches, "start", "took", "count"))
        if wrong := [number for number in batches.aborted if not 0 <= number < count]:
            yield f"{where}.aborted: must be from 0 to {count - 1}, got {wrong[0]}"


def impossible_spans(written: Written, names: KnownNames) -> Iterator[str]:
    """Loads and stalls that end before they began, or are of nothing that there is."""
    for i, (model, device, start, finish, _, _) in enumerate(written.loads):
        if model not in names.models or device not in names.devices or finish < start:
            yield f"loads[{i}]: must be of a model on a device, and end after it began"
    for i, (device, start, finish) in enumerate(written.stalls):
        if device not in names.devices or finish < start:
            yield f"stalls[{i}]: must be of a device, and end after it began"


def impossible_actions(where: str, actions: WrittenActions, names: KnownNames) -> Iterator[str]:
    """Actions that no device can have done."""
    yield from unknown(f"{where}.model", [actions.model], names.asked)
    yield from unknown(f"{where}.device", [actions.device], [*names.devices, *names.stations])
    yield from uneven(where, columns(actions, "start", "batch", "expected", "actual"))
    took = [actual for actual, expected in zip(actions.actual, actions.expected, strict=False) if expected]
    if not all(took):
        yield f"{where}.actual: must be above 0 where something was expected"


def columns(written: object, *names: str) -> dict[str, Any]:
    """Columns by name."""
    return {name: getattr(written, name) for name in names}


def all_named(where: str, names: Mapping[str, object], wanted: Sequence[str]) -> Iterator[str]:
    """Names that are not all of the deployment, or more."""
    if names.keys() != set(wanted):
        yield f"{where}: must be there for each of the deployment's, {', '.join(wanted)}, and for no other"


def unknown(where: str, names: Iterable[str], known: Sequence[str]) -> Iterator[str]:
    """Names that the deployment lacks."""
    if odd := [name for name in names if name not in known]:
        yield f"{where}: must be one of the deployment's, {', '.join(known)}, got {quoted(odd[0])}"
