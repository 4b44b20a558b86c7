"""A run on a real device as a file, so that it can be compared again without the device."""

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from calibrate.io.files import named, quoted, read_json
from calibrate.serving.served import Actions, HeldMemory
from planner.io.sound import UnsoundError, sound
from planner.io.store import StoreError, demand_place, write_bytes
from planner.questions.validation.written import (
    CURVES,
    TICK_S,
    Written,
    WrittenActions,
    WrittenBatches,
    WrittenRequests,
    WrittenStation,
    impossible_run,
)
from simulator.clock.records import Batches, Load, MemoryUse, Requests, SimulationResult, Stall, StationUse
from simulator.clock.run import check
from simulator.errors import DeploymentError
from simulator.world.curves import Interpolated
from simulator.world.deployment import Deployment, Replica, Service
from simulator.world.profile import Profile
from simulator.world.workload import Floats, Workload

T = TypeVar("T")
SCHEMA = "planner.recording/v1"
SUFFIXES = (".json", ".json.gz")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One run of a deployment on a real device, with the errors that its profiles state."""

    scenario: str
    """Name of the scenario."""
    scenario_text: str
    """YAML as it stood."""
    created_at: str
    machine: Mapping[str, Any]
    """Device, driver, versions, settings: where and how it was measured."""
    result: SimulationResult
    """The columns of the run; its deployment holds the profiles used. `seed` is the one that drew the arrivals."""
    warmup_s: float
    actions: tuple[Actions, ...]
    """Batches, loads, evictions, and what the harness took."""
    takes_s: tuple[float, ...] = ()
    """Lengths of the takes that the run was served in; none where it was served in one."""
    held: Mapping[str, HeldMemory] = field(default_factory=dict)
    """By device: memory that its process held."""
    others_cores: float | None = None
    """Processor cores that other programs kept busy meanwhile; None where that cannot be known."""
    stopped: str = ""
    """Reason of an early end; empty where there was none."""
    run_error: Mapping[str, float] = field(default_factory=dict)
    """By model: error of run times that profiles state, of the fit and between sessions, one standard deviation."""
    load_error: Mapping[str, float] = field(default_factory=dict)
    """By model: error of load times that profiles state, of the fit and between sessions, one standard deviation."""
    rehearsals: tuple[tuple[Actions, ...], ...] = ()
    """Actions right before the run, between its takes, and right after it."""

    @property
    def lasts_s(self) -> tuple[float, ...]:
        """Length of each take."""
        return self.takes_s or (self.result.duration_s,)


def write_recording(recording: Recording, path: Path) -> None:
    """Write it as JSON, compressed where the name ends in `.gz`. The same recording gives the same bytes."""
    text = json.dumps(encode(recording), separators=(",", ":"), allow_nan=False) + "\n"
    data = text.encode()
    write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data, path, "--record")


def check_target(target: Path, scenario: Path) -> None:
    """StoreError where a recording would replace its own scenario, or a file that is none, or cannot be written."""
    if target.exists() and scenario.exists() and target.samefile(scenario):
        raise StoreError(f"{target}: is the scenario itself. Name another file with --record.")
    if not target.name.endswith(SUFFIXES):
        raise StoreError(f"{target}: a recording is named .json or .json.gz. Name it so with --record.")
    if target.is_file() and target.stat().st_size:
        read_recording(target)
    demand_place(target, "--record")


def read_recording(path: Path) -> Recording:
    """The recording in a file; StoreError, in one line, where it is none that can have been recorded."""
    remedy = "Name a file that --record wrote, or record the run again"
    with named(path, remedy, StoreError):
        raw = read_json(path)
    schema = raw.get("schema") if isinstance(raw, dict) else None
    if schema != SCHEMA:
        raise StoreError(f"{path}: has schema {quoted(schema)}, not `{SCHEMA}`. {remedy}.")
    try:
        return decode(sound(raw, Written))
    except (UnsoundError, DeploymentError) as error:
        raise StoreError(f"{path}: {error}. {remedy}.") from error


def kept(recording: Recording) -> Recording:
    """The recording as its file would give it back: a run and its replay are compared on the same figures."""
    text = json.dumps(encode(recording), allow_nan=False)
    return decode(sound(json.loads(text), Written))


# Writing


def encode(recording: Recording) -> dict[str, Any]:
    """A recording as JSON has it."""
    result = recording.result
    return {
        "schema": SCHEMA,
        "scenario": recording.scenario,
        "created_at": recording.created_at,
        "machine": dict(recording.machine),
        "stopped": recording.stopped,
        "others_cores": recording.others_cores,
        "duration_s": result.duration_s,
        "warmup_s": recording.warmup_s,
        "seed": result.seed,
        "wall_s": round(result.wall_s, 6),
        "run_error": dict(recording.run_error),
        "load_error": dict(recording.load_error),
        "rehearsals": [list(map(encode_actions, rehearsal)) for rehearsal in recording.rehearsals],
        "scenario_text": recording.scenario_text,
        "deployment": encode_deployment(result.deployment),
        "requests": {model: encode_requests(requests) for model, requests in result.requests.items()},
        "batches": list(map(encode_batches, result.batches)),
        "loads": [
            [x.model, x.device, *map(ticks, (x.start_s, x.finish_s)), x.size_bytes, x.ahead] for x in result.loads
        ],
        "stalls": [[stall.device, ticks(stall.start_s), ticks(stall.finish_s)] for stall in result.stalls],
        "memory": {
            name: {"at": deltas(use.at_s), "used_bytes": use.used_bytes.tolist()} for name, use in result.memory.items()
        },
        "frames": {name: frames.tolist() for name, frames in result.frames.items()},
        "stations": {
            name: {"start": deltas(use.start_s), "took": spans(use.finish_s - use.start_s)}
            for name, use in result.stations.items()
        },
        "actions": list(map(encode_actions, recording.actions)),
        "takes": list(map(ticks, recording.takes_s)),
        "held": {name: asdict(held) for name, held in recording.held.items()},
    }


def encode_deployment(deployment: Deployment) -> dict[str, Any]:
    """A deployment; curves as their values at the batches that can be formed."""
    if deployment.failures is not None:
        raise ValueError("failures are simulated only: nobody pulls the plug of a real device")
    raw = asdict(deployment)
    del raw["failures"]
    for service, raw_service in zip(deployment.services, raw["services"], strict=True):
        for replica, raw_replica in zip(service.replicas, raw_service["replicas"], strict=True):
            batches = range(1, replica.batching.max_batch_size + 1)
            raw_profile = raw_replica["profile"]
            for name in CURVES:
                if curve := getattr(replica.profile, name):
                    raw_profile[name] = [curve(batch) for batch in batches]
    return raw


def encode_requests(requests: Requests) -> dict[str, Any]:
    """Arrivals as gaps; start and finish counted from the arrival, null where there is none."""
    arrived = np.rint(requests.arrival_s / TICK_S)
    return {
        "arrival": np.diff(arrived, prepend=0.0).astype(int).tolist(),
        "start": since(requests.start_s, arrived),
        "finish": since(requests.finish_s, arrived),
        "outcome": "".join(map(str, requests.outcome.tolist())),
        "due": None if requests.due is None else "".join(map(str, requests.due.astype(int).tolist())),
    }


def encode_batches(batches: Batches) -> dict[str, Any]:
    """Starts as gaps, ends counted from the start."""
    return {
        "model": batches.model,
        "device": batches.device,
        "start": deltas(batches.start_s),
        "took": since(batches.finish_s, np.rint(batches.start_s / TICK_S)),
        "count": batches.count.tolist(),
        "aborted": np.flatnonzero(batches.aborted).tolist(),
    }


def encode_actions(actions: Actions) -> dict[str, Any]:
    """Starts as gaps, times in microseconds."""
    return {
        "kind": actions.kind,
        "model": actions.model,
        "device": actions.device,
        "start": deltas(actions.start_s),
        "batch": actions.batch.tolist(),
        "expected": spans(actions.expected_s),
        "actual": spans(actions.actual_s),
    }


def ticks(time_s: float) -> int:
    """Whole microseconds: 1.5 s is 1,500,000."""
    return round(time_s / TICK_S)


def deltas(times_s: Floats) -> list[int]:
    """Sorted times as gaps: 1, 3 and 4 us are 1, 2, 1."""
    return np.diff(np.rint(times_s / TICK_S), prepend=0.0).astype(int).tolist()  # type: ignore[no-any-return]


def spans(lengths_s: Floats) -> list[int]:
    """Lengths of time in microseconds."""
    return np.rint(lengths_s / TICK_S).astype(int).tolist()  # type: ignore[no-any-return]


def since(times_s: Floats, origin: Floats) -> list[int | None]:
    """Times counted from an origin in microseconds; null for none."""
    counted = np.rint(times_s / TICK_S) - origin
    return [None if np.isnan(value) else int(value) for value in counted]


# Reading


def decode(written: Written) -> Recording:
    """The recording that `encode` wrote. UnsoundError or DeploymentError where no run can have given it."""
    deployment = decode_deployment(written.deployment)
    check(deployment, Workload(()))
    if problem := next(impossible_run(written, deployment), ""):
        raise UnsoundError(problem)
    result = SimulationResult(
        deployment=deployment,
        duration_s=written.duration_s,
        seed=written.seed,
        requests={model: decode_requests(requests) for model, requests in written.requests.items()},
        batches=tuple(map(decode_batches, written.batches)),
        loads=tuple(
            Load(model, device, start * TICK_S, finish * TICK_S, size_bytes, ahead)
            for model, device, start, finish, size_bytes, ahead in written.loads
        ),
        stalls=tuple(Stall(device, start * TICK_S, finish * TICK_S) for device, start, finish in written.stalls),
        memory={
            name: MemoryUse(summed(use.at) * TICK_S, np.array(use.used_bytes, dtype=np.int64))
            for name, use in written.memory.items()
        },
        wall_s=written.wall_s,
        frames={name: np.array(frames, dtype=np.int64) for name, frames in written.frames.items()},
        stations={name: decode_station(use) for name, use in written.stations.items()},
    )
    return Recording(
        scenario=written.scenario,
        scenario_text=written.scenario_text,
        created_at=written.created_at,
        machine=written.machine,
        result=result,
        warmup_s=written.warmup_s,
        actions=tuple(map(decode_actions, written.actions)),
        takes_s=tuple(take * TICK_S for take in written.takes),
        held=written.held,
        others_cores=written.others_cores,
        stopped=written.stopped,
        run_error=written.run_error,
        load_error=written.load_error,
        rehearsals=tuple(tuple(map(decode_actions, rehearsal)) for rehearsal in written.rehearsals),
    )


def decode_deployment(written: Any) -> Deployment:
    """The deployment that ran."""
    services = []
    for service in written.services:
        replicas = [rebuilt(Replica, one, profile=decode_profile(one.profile)) for one in service.replicas]
        services.append(rebuilt(Service, service, replicas=tuple(replicas)))
    return rebuilt(Deployment, written, services=tuple(services), failures=None)


def decode_profile(written: Any) -> Profile:
    """A profile as far as the run needed it."""
    batches = tuple(float(batch) for batch in range(1, len(written.latency) + 1))
    known = {name: values for name in CURVES if (values := getattr(written, name)) is not None}
    curves = {name: Interpolated(batches, values) for name, values in known.items()}
    return rebuilt(Profile, written, **curves)


def rebuilt(kind: type[T], written: Any, **changes: Any) -> T:
    """The dataclass of a kind with the fields that were written, but for some that change."""
    names = [column.name for column in fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: changes.get(name, getattr(written, name)) for name in names})


def decode_requests(written: WrittenRequests) -> Requests:
    """Columns of one model."""
    arrived = summed(written.arrival)
    return Requests(
        arrived * TICK_S,
        np.zeros(len(arrived), dtype=np.int32),
        (arrived + nullable(written.start)) * TICK_S,
        (arrived + nullable(written.finish)) * TICK_S,
        np.array(list(written.outcome), dtype=np.int8),
        None if written.due is None else np.array(list(written.due), dtype=np.int8).astype(np.bool_),
    )


def decode_batches(written: WrittenBatches) -> Batches:
    """Columns of one replica."""
    start = summed(written.start)
    finish = start + nullable(written.took)
    count = np.array(written.count, dtype=np.int32)
    aborted = np.zeros(len(start), dtype=bool)
    aborted[list(written.aborted)] = True
    return Batches(written.model, written.device, start * TICK_S, finish * TICK_S, count, aborted)


def decode_station(written: WrittenStation) -> StationUse:
    """What a station did."""
    start = summed(written.start)
    return StationUse(start * TICK_S, (start + np.array(written.took, dtype=float)) * TICK_S)


def decode_actions(written: WrittenActions) -> Actions:
    """Columns of one kind and model."""
    return Actions(
        kind=written.kind,
        model=written.model,
        device=written.device,
        start_s=summed(written.start) * TICK_S,
        batch=np.array(written.batch, dtype=np.int32),
        expected_s=np.array(written.expected, dtype=float) * TICK_S,
        actual_s=np.array(written.actual, dtype=float) * TICK_S,
    )


def summed(gaps: Sequence[int]) -> Floats:
    """Times from gaps."""
    return np.cumsum(np.array(gaps, dtype=float))


def nullable(values: Sequence[int | None]) -> Floats:
    """NaN for null."""
    return np.array([np.nan if value is None else value for value in values], dtype=float)
