"""Validation: the same deployment and arrivals, measured and simulated side by side, and why the two differ."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import isfinite, nan

import numpy as np

from calibrate.serving.served import HeldMemory, apart
from planner.questions.validation.answer import (
    MODEL_METRICS,
    ROUNDING,
    Compared,
    Coverage,
    Figures,
    MemoryKind,
    MemoryPart,
    Validation,
    error_of,
)
from planner.questions.validation.explaining import causes_of, largest_error, likely, timings
from planner.questions.validation.fitting import loading_paces, segments_bytes
from planner.questions.validation.recording import Recording
from planner.questions.validation.simulating import Basis, OtherCosts, expected_slowdown, simulated
from planner.questions.validation.speed import RehearsedSpeed, harness_of, overhead, speeds_of
from simulator.clock.metrics import Summary, summarise
from simulator.world.deployment import Replica
from simulator.world.workload import Floats

REPLICATIONS = 39
"""The least and the most of n runs contain one more run of the same kind with probability (n - 1) / (n + 1), whatever
the distribution: 95 % of 39. Wilks, Annals of Mathematical Statistics 12 (1941)."""
CAUSE_REPLICATIONS = 7
"""Replications that show how much of an error one cause explains: a share of it, not a digit."""


def validate(
    recording: Recording, replications: int = REPLICATIONS, *, by_profiles: bool = False, causes: bool = True
) -> Validation:
    """Simulate anew what was recorded, and compare.

    `by_profiles`: as a plan made before would have it, whatever the rehearsals say of the device. Without `causes`
    nothing is asked of why they differ, which takes longest.
    """
    if not by_profiles:
        recording = unmixed(recording)
    result = recording.result
    takes = len(recording.lasts_s)
    by_plan = RehearsedSpeed(slowdown=expected_slowdown(result.deployment))
    speeds = (by_plan,) * takes if by_profiles else speeds_of(recording.rehearsals, takes)
    basis = Basis(speeds=speeds, harness=harness_of(recording))
    rows = compared_rows(recording, simulated(recording, basis, replications))
    times = timings(recording, speeds)

    def changed(other: Basis, changes: OtherCosts) -> tuple[Compared, ...]:
        return compared_rows(recording, simulated(recording, other, CAUSE_REPLICATIONS, changes))

    worst = largest_error(rows)
    found = causes_of(worst, recording, rows, times, basis, changed) if causes and worst else ()
    *models, device = rows
    return Validation(
        scenario=recording.scenario,
        created_at=recording.created_at,
        machine=recording.machine,
        duration_s=result.duration_s,
        warmup_s=recording.warmup_s,
        seed=result.seed,
        replications=replications,
        stopped=recording.stopped,
        others_cores=recording.others_cores,
        requests=result.request_count,
        models=tuple(models),
        device=device,
        memory=memory_parts(recording),
        timings=times,
        by_profiles=by_profiles,
        speeds=speeds,
        coverage=coverage(rows),
        overhead=overhead(recording),
        causes=found,
        largest_error=worst,
        likely_cause=likely(found),
    )


def unmixed(recording: Recording) -> Recording:
    """The recording with batches and loads timed apart from each other, as profiles have them."""
    paces = loading_paces(recording.result.deployment)
    return replace(
        recording,
        actions=apart(recording.actions, paces),
        rehearsals=tuple(apart(rehearsal, paces) for rehearsal in recording.rehearsals),
    )


# Figures


def compared_rows(recording: Recording, runs: Sequence[Summary]) -> tuple[Compared, ...]:
    """Each model, then the device, measured beside simulated."""
    result, devices = recording.result, recording.result.deployment.devices
    real = summarise(result, recording.warmup_s)
    models = [
        compared(model, model_figures(real, model), [model_figures(run, model) for run in runs])
        for model in result.requests
    ]
    contexts_bytes = sum(device.context_bytes for device in devices)
    more_bytes = segments_bytes(result.deployment.services) if whole(recording) else -contexts_bytes
    device = compared(
        devices[0].gpu.name,
        {**device_figures(real, more_bytes), **memory_held(recording)},
        [device_figures(run, more_bytes) for run in runs],
    )
    return (*models, device)


def model_figures(summary: Summary, model: str) -> Figures:
    """Metrics of one model that are compared."""
    metrics = summary.models[model]
    return {name: float(getattr(metrics, name)) for name in MODEL_METRICS}


def device_figures(summary: Summary, more_bytes: int) -> Figures:
    """Metrics of the device: shares of time are means over its processes, memory is their sum and so much more."""
    devices = list(summary.devices.values())
    return {
        "utilization": sum(device.utilization for device in devices) / len(devices),
        "load_share": sum(device.load_share for device in devices) / len(devices),
        "peak_memory_bytes": float(sum(device.peak_memory_bytes for device in devices) + more_bytes),
    }


def whole(recording: Recording) -> bool:
    """Whether all that the processes held was read, and the profiles know contexts and slack as well."""
    profiles = [replica.profile for service in recording.result.deployment.services for replica in service.replicas]
    known = all(profile.context_bytes is not None for profile in profiles)
    return known and all(held.process_peak_bytes is not None for held in recording.held.values())


def memory_held(recording: Recording) -> Figures:
    """Peak memory as the device has it instead of the executor's count: of whole processes, else of tensors."""
    held = recording.held.values()
    peaks = [one.process_peak_bytes if whole(recording) else one.allocated_peak_bytes for one in held]
    known = [float(peak) for peak in peaks if peak is not None]
    return {"peak_memory_bytes": sum(known)} if known and len(known) == len(peaks) else {}


def memory_parts(recording: Recording) -> tuple[MemoryPart, ...]:
    """Weights, tensors, slack and context: as planned, and as they were held."""
    replicas = [service.replicas[0] for service in recording.result.deployment.services]
    slack = [size for replica in replicas if (size := slack_bytes(replica)) is not None]
    tensors = [r.profile.workspace(r.batching.max_batch_size) - (slack_bytes(r) or 0.0) for r in replicas]
    planned = {
        MemoryKind.WEIGHTS: sum(replica.profile.weight_bytes for replica in replicas),
        MemoryKind.TENSORS: max(tensors),
        MemoryKind.SLACK: max(slack) + segments_bytes(recording.result.deployment.services) if slack else None,
        MemoryKind.CONTEXT: sum(device.context_bytes for device in recording.result.deployment.devices),
    }
    held = held_memory(list(recording.held.values()))
    return tuple(MemoryPart(kind=kind, planned_bytes=planned[kind], held_bytes=held[kind]) for kind in MemoryKind)


def held_memory(held: Sequence[HeldMemory]) -> Mapping[MemoryKind, float | None]:
    """As processes were seen to hold it; None where it could not be read."""
    return {
        MemoryKind.WEIGHTS: sum(size for one in held for size in one.weight_bytes.values()) or None,
        MemoryKind.TENSORS: max((size for one in held for size in one.workspace_bytes.values()), default=None),
        MemoryKind.SLACK: total(one.slack_bytes for one in held),
        MemoryKind.CONTEXT: total(one.context_bytes for one in held),
    }


def slack_bytes(replica: Replica) -> float | None:
    """What the allocator holds beyond tensors at the largest batch; None where nobody measured it."""
    slack = replica.profile.slack
    return None if slack is None else slack(replica.batching.max_batch_size)


def total(parts: Iterable[float | None]) -> float | None:
    """The sum; None where one is not known, or there is none."""
    known = list(parts)
    return None if None in known or not known else sum(part for part in known if part is not None)


def compared(name: str, measured: Figures, runs: Sequence[Figures]) -> Compared:
    """Measured beside the median and the range of simulated runs."""
    columns = {metric: np.array([run[metric] for run in runs]) for metric in measured}
    medians = {metric: middle(values) for metric, values in columns.items()}
    return Compared(
        name=name,
        measured=measured,
        simulated=medians,
        error={metric: error_of(metric, medians[metric], value) for metric, value in measured.items()},
        intervals={metric: least_and_most(values) for metric, values in columns.items()},
    )


def middle(values: Floats) -> float:
    """Median of those that exist.

    A queue near its limit grows out of proportion in the runs where the device is drawn slow, so that a mean would be
    that of a slower device.
    """
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else nan


def least_and_most(values: Floats) -> tuple[float, float]:
    """The range of those that exist."""
    known = values[np.isfinite(values)]
    return (float(known.min()), float(known.max())) if len(known) else (nan, nan)


def coverage(rows: Sequence[Compared]) -> Coverage:
    """Count the measured figures that lie in their intervals."""
    inside = counted = fixed = 0
    for row in rows:
        for metric, (low, high) in row.intervals.items():
            value = row.measured[metric]
            if metric == "peak_memory_bytes" or not (isfinite(value) and isfinite(low)):
                continue  # no chance is simulated in memory
            slack = ROUNDING * max(abs(low), abs(high), abs(value))
            lies_in = low - slack <= value <= high + slack
            if lies_in and high - low <= slack:
                fixed += 1
                continue
            counted += 1
            inside += lies_in
    return Coverage(inside=inside, of=counted, fixed=fixed)
