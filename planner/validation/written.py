"""Written: what a recording's JSON holds, and what cannot be in one. Times are whole microseconds, mostly as gaps."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, make_dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from calibrate.files import quoted
from calibrate.served import Held
from planner.sound import repeated, uneven
from simulator.deployment import Deployment, Replica, Service
from simulator.profile import Profile
from simulator.records import Outcome

MOST_TICKS = 10**13
"""Four months: no run is as long."""
MOST_REQUESTS = 10**6
"""In one batch."""
Ticks = Annotated[int, Field(ge=0, le=MOST_TICKS)]
Count = Annotated[int, Field(ge=0, le=MOST_REQUESTS)]
Size = Annotated[int, Field(ge=0, le=10**15)]
"""In bytes, less than any machine has."""
Above = Annotated[float, Field(gt=0, lt=1e15)]
Share = Annotated[float, Field(ge=0, le=1e3)]


def as_written(kind: type, **types: Any) -> Any:
    """A dataclass like another, but for the types of some fields."""
    columns = [(one.name, types.get(one.name, one.type), field(default=one.default)) for one in fields(kind)]
    return make_dataclass(f"Written{kind.__name__}", columns, kw_only=True, frozen=True)


WrittenProfile = as_written(Profile, latency=tuple[Above, ...], workspace=tuple[float, ...])
WrittenReplica = as_written(Replica, profile=WrittenProfile)
WrittenService = as_written(Service, replicas=tuple[WrittenReplica, ...])  # type: ignore[valid-type]
WrittenDeployment = as_written(Deployment, services=tuple[WrittenService, ...])  # type: ignore[valid-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRequests:
    """Of one model: arrivals as gaps; start and finish counted from the arrival, null where there is none."""

    arrival: tuple[Ticks, ...]
    start: tuple[Ticks | None, ...]
    finish: tuple[Ticks | None, ...]
    outcome: str
    """A digit each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenBatches:
    """Of one replica: starts as gaps, ends counted from the start."""

    model: str
    device: str
    start: tuple[Ticks, ...]
    took: tuple[Ticks | None, ...]
    count: tuple[Count, ...]
    aborted: tuple[int, ...]
    """Which of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenMemory:
    """Of one device, from each time on."""

    at: tuple[Ticks, ...]
    used_bytes: tuple[Size, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenActions:
    """Of one kind, model and device."""

    kind: Literal["run", "load", "evict"]
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
    launch: Mapping[str, tuple[Ticks, ...]]
    held: Mapping[str, Held]


def impossible_run(written: Written, deployment: Deployment) -> Iterator[str]:
    """What no run of the deployment can have given."""
    models = [service.model for service in deployment.services]
    devices = [one.id for one in deployment.devices]
    if not models or not devices:
        yield "deployment: must have a service and a device"
    if written.warmup_s >= written.duration_s:
        yield f"warmup_s: must be below duration_s, {written.duration_s:g}, got {written.warmup_s:g}"
    for i, service in enumerate(deployment.services):
        yield from impossible_service(f"deployment.services[{i}]", service)
    for i, card in enumerate(deployment.devices):
        if min(card.gpu.memory_bytes_per_s, card.gpu.pcie_bytes_per_s, card.memory_bytes) <= 0:
            yield f"deployment.devices[{i}]: must have memory and bandwidths above 0"
    yield from same("requests", written.requests, models)
    yield from same("memory", written.memory, devices)
    for name in ("launch", "held"):
        yield from known(name, getattr(written, name), devices)
    for name in ("run_error", "load_error"):
        yield from known(name, getattr(written, name), models)
    for model, requests in written.requests.items():
        columns = {name: getattr(requests, name) for name in ("arrival", "start", "finish", "outcome")}
        yield from uneven(f"requests[{model}]", columns)
        if not set(requests.outcome) <= {str(int(one)) for one in Outcome}:
            yield f"requests[{model}].outcome: must be digits of those that there are, got {quoted(requests.outcome)}"
    for device, use in written.memory.items():
        yield from uneven(f"memory[{device}]", {"at": use.at, "used_bytes": use.used_bytes})
    yield from same("batches", {one.model: one for one in written.batches}, models)
    for i, one in enumerate(written.batches):
        yield from place(f"batches[{i}]", one, models, devices)
        yield from uneven(f"batches[{i}]", {"start": one.start, "took": one.took, "count": one.count})
        if wrong := [n for n in one.aborted if not 0 <= n < len(one.start)]:
            yield f"batches[{i}].aborted: must be from 0 to {len(one.start) - 1}, got {wrong[0]}"
    for i, (model, device, start, finish, _, _) in enumerate(written.loads):
        if model not in models or device not in devices or finish < start:
            yield f"loads[{i}]: must be of a model on a device, and end after it began"
    for i, (device, start, finish) in enumerate(written.stalls):
        if device not in devices or finish < start:
            yield f"stalls[{i}]: must be of a device, and end after it began"
    for i, one_action in enumerate(written.actions):
        yield from impossible_actions(f"actions[{i}]", one_action, models, devices)
    for i, rehearsal in enumerate(written.rehearsals):
        for j, one_action in enumerate(rehearsal):
            yield from impossible_actions(f"rehearsals[{i}][{j}]", one_action, models, devices)


def impossible_service(where: str, service: Service) -> Iterator[str]:
    """What no model can be."""
    if not service.slo.latency_s > 0 or not 0 < service.slo.attainment <= 1:
        yield f"{where}.slo: must be a latency above 0 and an attainment from 0 to 1"
    for i, replica in enumerate(service.replicas):
        profile, most = replica.profile, replica.batching.max_batch_size
        at = f"{where}.replicas[{i}]"
        yield from repeated(f"{at}.devices", replica.devices)
        if not replica.devices:
            yield f"{at}.devices: must not be empty"
        if not len(profile.latency.y) == len(profile.workspace.y) == most:
            yield f"{at}.profile: must have a latency and a workspace for each batch up to {most}"
        if profile.load.bytes_per_s <= 0 or not profile.weight_bytes or profile.pageable_bytes_per_s == 0:
            yield f"{at}.profile: must have weights, and load them at a rate above 0"


def impossible_actions(where: str, one: WrittenActions, models: Sequence[str], devices: Sequence[str]) -> Iterator[str]:
    """What no device can have done."""
    yield from place(where, one, models, devices)
    columns = {name: getattr(one, name) for name in ("start", "batch", "expected", "actual")}
    yield from uneven(where, columns)
    took = [actual for actual, expected in zip(one.actual, one.expected, strict=False) if expected]
    if not all(took):
        yield f"{where}.actual: must be above 0 where something was expected"


def place(
    where: str, one: WrittenBatches | WrittenActions, models: Sequence[str], devices: Sequence[str]
) -> Iterator[str]:
    """A model or a device that the deployment has not."""
    yield from known(f"{where}.model", [one.model], models)
    yield from known(f"{where}.device", [one.device], devices)


def same(where: str, names: Mapping[str, object], wanted: Sequence[str]) -> Iterator[str]:
    """Names that are not all of the deployment, or more."""
    if names.keys() != set(wanted):
        yield f"{where}: must be there for each of the deployment's, {', '.join(wanted)}, and for no other"


def known(where: str, names: Sequence[str] | Mapping[str, object], all_names: Sequence[str]) -> Iterator[str]:
    """Names that the deployment has not."""
    if odd := [name for name in names if name not in all_names]:
        yield f"{where}: must be one of the deployment's, {', '.join(all_names)}, got {quoted(odd[0])}"
