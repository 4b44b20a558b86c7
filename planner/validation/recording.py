"""Recordings: a run on a real device as a file, so that it can be compared again without the device."""

import gzip
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from calibrate.served import Actions, Held
from planner.store import StoreError, write_bytes
from simulator.curves import Interpolated, LoadTime
from simulator.deployment import (
    SLO,
    BatchingPolicy,
    Deployment,
    Drop,
    Eviction,
    Replica,
    Routing,
    Scheduling,
    Service,
    SwapPolicy,
)
from simulator.hardware import GPU, Device, Host
from simulator.model import Layer
from simulator.profile import Evidence, FitQuality, Profile
from simulator.records import Batches, Load, MemoryUse, Outcome, Requests, SimulationResult, Stall
from simulator.workload import Floats

SCHEMA = "planner.recording/v1"
TICK_S = 1e-6
"""Times are kept in whole microseconds: finer than any clock of a request, and short in a file."""
SUFFIXES = (".json", ".json.gz")
LARGEST_BYTES = 500_000_000


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
    """The recording in a file; StoreError, in one line, where it is none."""
    try:
        data = path.read_bytes()
        raw = json.loads(unpacked(data) if data[:2] == b"\x1f\x8b" else data)
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(f"{path}: cannot be read: {reason}. Name a file that --record wrote.") from error
    except (ValueError, EOFError, zlib.error, RecursionError) as error:
        raise StoreError(f"{path}: is not a recording: {error}. Name a file that --record wrote.") from error
    if not isinstance(raw, dict) or raw.get("schema") != SCHEMA:
        found = raw.get("schema") if isinstance(raw, dict) else None
        raise StoreError(f"{path}: has schema `{found}`, not `{SCHEMA}`. Name a file that --record wrote.")
    try:
        return decode(raw)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = " ".join(str(error).split())[:200]
        raise StoreError(f"{path}: is damaged: {type(error).__name__}: {what}. Record the run again.") from error


def unpacked(data: bytes) -> bytes:
    """What gzip packed, up to a size no recording has."""
    machine = zlib.decompressobj(wbits=31)
    text = machine.decompress(data, LARGEST_BYTES)
    if machine.unconsumed_tail:
        raise ValueError(f"unpacks to more than {LARGEST_BYTES // 1_000_000} MB")
    if not machine.eof:
        raise EOFError("it ends too early")
    return text


def kept(recording: Recording) -> Recording:
    """The recording as its file would give it back: a run and its replay are compared on the same figures."""
    return decode(json.loads(json.dumps(encode(recording), allow_nan=False)))


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


def checked(result: SimulationResult) -> SimulationResult:
    """The run, if it can be one. Raises ValueError."""
    if not 0 < result.duration_s < math.inf:
        raise ValueError(f"duration_s: must be above 0, got {result.duration_s:g}")
    if result.requests.keys() != {service.model for service in result.deployment.services} or not result.batches:
        raise ValueError("requests, batches: must be there for every model")
    if not all(np.isin(requests.outcome, list(Outcome)).all() for requests in result.requests.values()):
        raise ValueError("outcome: must be one of those that there are")
    return result


def decode(raw: Mapping[str, Any]) -> Recording:
    """What `encode` wrote. Raises KeyError, TypeError or ValueError where it is something else."""
    result = SimulationResult(
        deployment=decode_deployment(raw["deployment"]),
        duration_s=float(raw["duration_s"]),
        seed=int(raw["seed"]),
        requests={model: decode_requests(one) for model, one in raw["requests"].items()},
        batches=tuple(decode_batches(one) for one in raw["batches"]),
        loads=tuple(
            Load(model, device, start * TICK_S, finish * TICK_S, size, ahead)
            for model, device, start, finish, size, ahead in raw["loads"]
        ),
        stalls=tuple(Stall(device, start * TICK_S, finish * TICK_S) for device, start, finish in raw["stalls"]),
        memory={
            name: MemoryUse(summed(use["at"]) * TICK_S, np.array(use["used_bytes"], dtype=np.int64))
            for name, use in raw["memory"].items()
        },
        wall_s=float(raw["wall_s"]),
    )
    return Recording(
        scenario=str(raw["scenario"]),
        scenario_text=str(raw["scenario_text"]),
        created_at=str(raw["created_at"]),
        machine=dict(raw["machine"]),
        result=checked(result),
        warmup_s=float(raw["warmup_s"]),
        actions=tuple(decode_actions(one) for one in raw["actions"]),
        launch_s={name: np.array(values, dtype=float) * TICK_S for name, values in raw["launch"].items()},
        held={name: Held(**held) for name, held in raw["held"].items()},
        others_cores=None if raw["others_cores"] is None else float(raw["others_cores"]),
        stopped=str(raw["stopped"]),
        run_error=dict(raw["run_error"]),
        load_error=dict(raw["load_error"]),
        rehearsals=tuple(tuple(map(decode_actions, rehearsal)) for rehearsal in raw["rehearsals"]),
    )


def decode_deployment(raw: Mapping[str, Any]) -> Deployment:
    """The deployment that ran."""
    return Deployment(
        services=tuple(decode_service(one) for one in raw["services"]),
        devices=tuple(Device(**{**one, "gpu": GPU(**one["gpu"])}) for one in raw["devices"]),
        hosts=tuple(Host(**one) for one in raw["hosts"]),
        scheduling=Scheduling(raw["scheduling"]),
        swap=SwapPolicy(**{**raw["swap"], "eviction": Eviction(raw["swap"]["eviction"])}),
    )


def decode_service(raw: Mapping[str, Any]) -> Service:
    """One model, its promise and its replicas."""
    replicas = tuple(
        Replica(
            profile=decode_profile(one["profile"]),
            devices=tuple(one["devices"]),
            batching=BatchingPolicy(**one["batching"]),
            share=one["share"],
        )
        for one in raw["replicas"]
    )
    slo, drop, routing = SLO(**raw["slo"]), Drop(raw["drop"]), Routing(raw["routing"])
    return Service(model=raw["model"], slo=slo, replicas=replicas, drop=drop, routing=routing)


def decode_profile(raw: Mapping[str, Any]) -> Profile:
    """A profile as far as the run needed it."""
    batches = tuple(float(n) for n in range(1, len(raw["latency"]) + 1))
    return Profile(
        **{
            **raw,
            "layers": tuple(Layer(**layer) for layer in raw["layers"]),
            "latency": Interpolated(batches, tuple(raw["latency"])),
            "workspace": Interpolated(batches, tuple(raw["workspace"])),
            "latency_fit": FitQuality(**raw["latency_fit"]) if raw["latency_fit"] else None,
            "load": LoadTime(**raw["load"]),
            **{key: Evidence(raw[key]) for key in ("latency_evidence", "memory_evidence", "load_evidence")},
            "assumptions": tuple(raw["assumptions"]),
            "doubts": tuple(raw["doubts"]),
        }
    )


def decode_requests(raw: Mapping[str, Any]) -> Requests:
    """Columns of one model."""
    arrived = summed(raw["arrival"])
    outcome = np.array(list(raw["outcome"]), dtype=np.int8)
    start, finish = (nullable(raw[key]) for key in ("start", "finish"))
    if not len(arrived) == len(start) == len(finish) == len(outcome):
        raise ValueError("requests: columns differ in length")
    source = np.zeros(len(arrived), dtype=np.int32)
    return Requests(arrived * TICK_S, source, (arrived + start) * TICK_S, (arrived + finish) * TICK_S, outcome)


def decode_batches(raw: Mapping[str, Any]) -> Batches:
    """Columns of one replica."""
    start = summed(raw["start"])
    count, aborted = np.array(raw["count"], dtype=np.int32), np.zeros(len(start), dtype=bool)
    aborted[raw["aborted"]] = True
    finish = start + nullable(raw["took"])
    return Batches(raw["model"], raw["device"], start * TICK_S, finish * TICK_S, count, aborted)


def decode_actions(raw: Mapping[str, Any]) -> Actions:
    """Columns of one kind and model."""
    return Actions(
        kind=raw["kind"],
        model=raw["model"],
        device=raw["device"],
        start_s=summed(raw["start"]) * TICK_S,
        batch=np.array(raw["batch"], dtype=np.int32),
        expected_s=np.array(raw["expected"], dtype=float) * TICK_S,
        actual_s=np.array(raw["actual"], dtype=float) * TICK_S,
    )


def summed(gaps: Sequence[int]) -> Floats:
    """Times from gaps."""
    return np.cumsum(np.array(gaps, dtype=float))


def nullable(values: Sequence[int | None]) -> Floats:
    """NaN for null."""
    return np.array([np.nan if value is None else value for value in values], dtype=float)
