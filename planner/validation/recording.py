"""Recordings: a run on a real device as a file, so that it can be compared again without the device."""

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from calibrate.files import FileError, quoted, read_json
from calibrate.served import Actions, Held
from planner.sound import UnsoundError, sound
from planner.store import StoreError, write_bytes
from planner.validation.written import Written, WrittenActions, WrittenBatches, WrittenRequests, impossible_run
from simulator.curves import Interpolated
from simulator.deployment import Deployment, Replica, Service
from simulator.profile import Profile
from simulator.records import Batches, Load, MemoryUse, Requests, SimulationResult, Stall
from simulator.run import DeploymentError, check
from simulator.workload import Floats, Workload

T = TypeVar("T")
SCHEMA = "planner.recording/v1"
TICK_S = 1e-6
"""Times are kept in whole microseconds: finer than any clock of a request, and short in a file."""
SUFFIXES = (".json", ".json.gz")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One run of a deployment on a real device, and what was known before."""

    scenario: str
    """Its name."""
    scenario_text: str
    """YAML as it stood."""
    created_at: str
    machine: Mapping[str, Any]
    """Device, driver, versions, settings: where and how it was measured."""
    result: SimulationResult
    """The columns of the run; its deployment holds the profiles used. `seed` is the one that drew the arrivals."""
    warmup_s: float
    actions: tuple[Actions, ...]
    launch_s: Mapping[str, Floats]
    """By device: from the moment a batch could run until it was started, the harness's own time."""
    held: Mapping[str, Held] = field(default_factory=dict)
    """By device: memory that its process was seen to hold."""
    others_cores: float | None = None
    """Processor cores that other programs kept busy meanwhile; None where that cannot be known."""
    stopped: str = ""
    """Why it ended early; empty where it did not."""
    run_error: Mapping[str, float] = field(default_factory=dict)
    """By model: the error its profile states of run times, one standard deviation as a share."""
    load_error: Mapping[str, float] = field(default_factory=dict)
    """The same of load times."""
    rehearsals: tuple[tuple[Actions, ...], ...] = ()
    """What actions took right before the run, and right after it."""


def write_recording(recording: Recording, path: Path) -> None:
    """Write it as JSON, compressed where the name ends in `.gz`. The same recording gives the same bytes."""
    text = json.dumps(encode(recording), separators=(",", ":"), allow_nan=False) + "\n"
    data = text.encode()
    write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data, path, "--record")


def check_target(target: Path, scenario: Path) -> None:
    """StoreError where a recording would replace its own scenario, or a file that is none, or cannot be written."""
    if target.is_dir():
        raise StoreError(f"{target}: is a folder. Name a file with --record.")
    if target.exists() and scenario.exists() and target.samefile(scenario):
        raise StoreError(f"{target}: is the scenario itself. Name another file with --record.")
    if not target.name.endswith(SUFFIXES):
        raise StoreError(f"{target}: a recording is named .json or .json.gz. Name it so with --record.")
    if target.is_file() and target.stat().st_size:
        read_recording(target)
    if not target.parent.is_dir():
        raise StoreError(f"{target}: its folder is not there. Make it, or name another file with --record.")


def read_recording(path: Path) -> Recording:
    """The recording in a file; StoreError, in one line, where it is none that can have been recorded."""
    way_out = "Name a file that --record wrote, or record the run again"
    try:
        raw = read_json(path)
    except FileError as error:
        raise StoreError(f"{path}{error.place}: {error}. {way_out}.") from error
    found = raw.get("schema") if isinstance(raw, dict) else None
    if found != SCHEMA:
        raise StoreError(f"{path}: has schema {quoted(found)}, not `{SCHEMA}`. {way_out}.")
    try:
        return decode(sound(raw, Written))
    except (UnsoundError, DeploymentError) as error:
        raise StoreError(f"{path}: {error}. {way_out}.") from error


def kept(recording: Recording) -> Recording:
    """The recording as its file would give it back: a run and its replay are compared on the same figures."""
    return decode(sound(json.loads(json.dumps(encode(recording), allow_nan=False)), Written))


# Writing


def encode(recording: Recording) -> dict[str, Any]:
    """As JSON has it."""
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
        "rehearsals": [[encode_actions(one) for one in rehearsal] for rehearsal in recording.rehearsals],
        "scenario_text": recording.scenario_text,
        "deployment": encode_deployment(result.deployment),
        "requests": {model: encode_requests(one) for model, one in result.requests.items()},
        "batches": [encode_batches(one) for one in result.batches],
        "loads": [
            [one.model, one.device, ticks(one.start_s), ticks(one.finish_s), one.size_bytes, one.ahead]
            for one in result.loads
        ],
        "stalls": [[one.device, ticks(one.start_s), ticks(one.finish_s)] for one in result.stalls],
        "memory": {
            name: {"at": deltas(use.at_s), "used_bytes": use.used_bytes.tolist()} for name, use in result.memory.items()
        },
        "actions": [encode_actions(one) for one in recording.actions],
        "launch": {name: spans(values) for name, values in recording.launch_s.items()},
        "held": {name: asdict(held) for name, held in recording.held.items()},
    }


def encode_deployment(deployment: Deployment) -> dict[str, Any]:
    """All of it; curves as their values at the batches that can be formed."""
    if deployment.failures is not None:
        raise ValueError("failures are simulated only: nobody pulls the plug of a real device")
    raw = asdict(deployment)
    del raw["failures"]
    for one, plain in zip(deployment.services, raw["services"], strict=True):
        for replica, kept in zip(one.replicas, plain["replicas"], strict=True):
            batches = range(1, replica.batching.max_batch_size + 1)
            kept["profile"]["latency"] = [replica.profile.latency(n) for n in batches]
            kept["profile"]["workspace"] = [replica.profile.workspace(n) for n in batches]
    return raw


def encode_requests(requests: Requests) -> dict[str, Any]:
    """Arrivals as gaps; start and finish counted from the arrival, null where there is none."""
    arrived = np.rint(requests.arrival_s / TICK_S)
    return {
        "arrival": np.diff(arrived, prepend=0.0).astype(int).tolist(),
        "start": since(requests.start_s, arrived),
        "finish": since(requests.finish_s, arrived),
        "outcome": "".join(map(str, requests.outcome.tolist())),
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
    """The same for actions."""
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
    """What `encode` wrote. UnsoundError or DeploymentError where no run can have given it."""
    deployment = decode_deployment(written.deployment)
    check(deployment, Workload(()))
    if wrong := next(impossible_run(written, deployment), ""):
        raise UnsoundError(wrong)
    result = SimulationResult(
        deployment=deployment,
        duration_s=written.duration_s,
        seed=written.seed,
        requests={model: decode_requests(one) for model, one in written.requests.items()},
        batches=tuple(decode_batches(one) for one in written.batches),
        loads=tuple(
            Load(model, device, start * TICK_S, finish * TICK_S, size, ahead)
            for model, device, start, finish, size, ahead in written.loads
        ),
        stalls=tuple(Stall(device, start * TICK_S, finish * TICK_S) for device, start, finish in written.stalls),
        memory={
            name: MemoryUse(summed(use.at) * TICK_S, np.array(use.used_bytes, dtype=np.int64))
            for name, use in written.memory.items()
        },
        wall_s=written.wall_s,
    )
    return Recording(
        scenario=written.scenario,
        scenario_text=written.scenario_text,
        created_at=written.created_at,
        machine=written.machine,
        result=result,
        warmup_s=written.warmup_s,
        actions=tuple(map(decode_actions, written.actions)),
        launch_s={name: np.array(values, dtype=float) * TICK_S for name, values in written.launch.items()},
        held=written.held,
        others_cores=written.others_cores,
        stopped=written.stopped,
        run_error=written.run_error,
        load_error=written.load_error,
        rehearsals=tuple(tuple(map(decode_actions, rehearsal)) for rehearsal in written.rehearsals),
    )


def decode_deployment(written: Any) -> Deployment:
    """The deployment that ran."""
    services = tuple(
        rebuilt(
            Service, one, replicas=tuple(rebuilt(Replica, r, profile=decode_profile(r.profile)) for r in one.replicas)
        )
        for one in written.services
    )
    return rebuilt(Deployment, written, services=services, failures=None)


def decode_profile(written: Any) -> Profile:
    """A profile as far as the run needed it."""
    batches = tuple(float(n) for n in range(1, len(written.latency) + 1))
    latency, workspace = Interpolated(batches, written.latency), Interpolated(batches, written.workspace)
    return rebuilt(Profile, written, latency=latency, workspace=workspace)


def rebuilt(kind: type[T], written: Any, **changes: Any) -> T:
    """The dataclass as which something was written, but for some fields."""
    return kind(**{one.name: changes.get(one.name, getattr(written, one.name)) for one in fields(kind)})  # type: ignore[arg-type]


def decode_requests(written: WrittenRequests) -> Requests:
    """Columns of one model."""
    arrived = summed(written.arrival)
    start, finish = nullable(written.start), nullable(written.finish)
    outcome = np.array(list(written.outcome), dtype=np.int8)
    source = np.zeros(len(arrived), dtype=np.int32)
    return Requests(arrived * TICK_S, source, (arrived + start) * TICK_S, (arrived + finish) * TICK_S, outcome)


def decode_batches(written: WrittenBatches) -> Batches:
    """Columns of one replica."""
    start = summed(written.start)
    count, aborted = np.array(written.count, dtype=np.int32), np.zeros(len(start), dtype=bool)
    aborted[list(written.aborted)] = True
    finish = start + nullable(written.took)
    return Batches(written.model, written.device, start * TICK_S, finish * TICK_S, count, aborted)


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
