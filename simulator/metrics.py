"""Metrics: what the records of a replication amount to, and how sure several replications make us.

Every definition stands as a formula in `docs/concepts.md`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy import special

from simulator.records import Batches, Outcome, Requests, SimulationResult
from simulator.workload import Floats

CONFIDENCE = 0.95
"""Of an interval that is looked at once."""


class Verdict(StrEnum):
    """Whether a model's replicas keep up."""

    STABLE = "stable"
    BACKLOGGED = "backlogged"
    """They keep up with the rate, but at the end a request had waited longer than the SLO."""
    OVERLOADED = "overloaded"
    """More arrives than leaves, or the drop rule must give frames up because all capacity is used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMetrics:
    """One model in one replication, over requests that arrived after the warm-up."""

    arrived: int
    finished: int
    dropped: int
    waiting: int
    running: int
    judged: int
    """Requests that arrived after the warm-up and had their deadline before the end."""
    offered_rps: float
    throughput_rps: float
    goodput_rps: float
    """Finished within the SLO, per second."""
    processed_fraction: float
    dropped_fraction: float
    slo_attainment: float
    """Share of the judged that finished within the SLO; NaN without any."""
    mean_s: float
    p50_s: float
    p90_s: float
    p95_s: float
    p99_s: float
    mean_queueing_s: float
    """From arrival to the start of its batch."""
    mean_batch_size: float
    joules_per_inference: float
    """Energy while its batches ran, per finished request; idle energy is the device's."""
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceMetrics:
    """One card in one replication, over the whole of it."""

    utilization: float
    """Share of time a batch ran."""
    load_share: float
    """Share of time it stood still for weights."""
    loads: int
    """Times that weights were brought in while serving."""
    swaps_per_s: float
    peak_memory_bytes: int
    energy_j: float
    mean_power_w: float


@dataclass(frozen=True, slots=True)
class Summary:
    """All metrics of one replication."""

    models: dict[str, ModelMetrics]
    devices: dict[str, DeviceMetrics]


def summarise(result: SimulationResult, warmup_s: float = 0.0) -> Summary:
    """Metrics of one replication. Requests that arrived in the first `warmup_s` seconds are left out."""
    slo_s = {service.model: service.slo.latency_s for service in result.deployment.services}
    models = {
        model: _model(result, model, requests, slo_s[model], warmup_s) for model, requests in result.requests.items()
    }
    return Summary(models, {device.id: _device(result, device.id) for device in result.deployment.devices})


def _model(result: SimulationResult, model: str, requests: Requests, slo_s: float, warmup_s: float) -> ModelMetrics:
    end_s = result.duration_s
    span_s = end_s - warmup_s
    first = int(np.searchsorted(requests.arrival_s, warmup_s))
    arrival_s, start_s, finish_s = requests.arrival_s[first:], requests.start_s[first:], requests.finish_s[first:]
    outcome = requests.outcome[first:]
    count = np.bincount(outcome, minlength=len(Outcome))
    done = outcome == Outcome.FINISHED
    latency_s = finish_s[done] - arrival_s[done]
    in_time = finish_s - arrival_s <= slo_s + 1e-9
    # Of those who came later only the quick have finished: to judge them would be to flatter.
    judged = arrival_s + slo_s <= end_s
    batches = [b for b in result.batches if b.model == model]
    sizes = np.concatenate([b.count[(b.start_s >= warmup_s) & ~b.aborted] for b in batches])
    p50, p90, p95, p99 = np.quantile(latency_s, (0.5, 0.9, 0.95, 0.99)) if len(latency_s) else (np.nan,) * 4
    return ModelMetrics(
        arrived=len(arrival_s),
        finished=int(count[Outcome.FINISHED]),
        dropped=int(count[Outcome.DROPPED]),
        waiting=int(count[Outcome.WAITING]),
        running=int(count[Outcome.RUNNING]),
        judged=int(np.count_nonzero(judged)),
        offered_rps=len(arrival_s) / span_s,
        throughput_rps=float(count[Outcome.FINISHED]) / span_s,
        goodput_rps=np.count_nonzero(in_time) / span_s,
        processed_fraction=_ratio(count[Outcome.FINISHED], len(arrival_s)),
        dropped_fraction=_ratio(count[Outcome.DROPPED], len(arrival_s)),
        slo_attainment=_mean(in_time[judged]),
        mean_s=_mean(latency_s),
        p50_s=float(p50),
        p90_s=float(p90),
        p95_s=float(p95),
        p99_s=float(p99),
        mean_queueing_s=_mean(start_s[done] - arrival_s[done]),
        mean_batch_size=_mean(sizes),
        joules_per_inference=_ratio(_busy_energy_j(result, batches), int(np.sum(requests.outcome == Outcome.FINISHED))),
        verdict=_verdict(requests, slo_s, end_s),
    )


def _verdict(requests: Requests, slo_s: float, end_s: float) -> Verdict:
    """Compare the backlog at the end with the one half-way; a growing one that outlives the SLO is overload.

    With drops nothing waits long: overload shows as frames given up throughout the second half.
    """
    arrival_s, outcome = requests.arrival_s, requests.outcome
    half = len(arrival_s) // 2
    left = outcome >= Outcome.WAITING
    gone_s = np.where(left, np.inf, np.where(outcome == Outcome.DROPPED, requests.start_s, requests.finish_s))
    backlog_half = int(np.count_nonzero((arrival_s <= end_s / 2) & (gone_s > end_s / 2)))
    backlog_end = int(np.count_nonzero(left))
    late = bool(np.any(arrival_s[left] + slo_s < end_s))
    growth = backlog_end - backlog_half
    if late and growth > 3 * np.sqrt(max(half, 1)) and growth > 0.01 * half:
        return Verdict.OVERLOADED
    if half and np.count_nonzero(outcome[half:] == Outcome.DROPPED) > 0.1 * half:
        return Verdict.OVERLOADED
    return Verdict.BACKLOGGED if late else Verdict.STABLE


def _busy_s(batches: Batches, end_s: float) -> float:
    return float(np.sum(np.minimum(batches.finish_s, end_s) - np.minimum(batches.start_s, end_s)))


def _power_w(result: SimulationResult, model: str, device: str) -> float:
    gpu = next(d.gpu for d in result.deployment.devices if d.id == device)
    service = next(s for s in result.deployment.services if s.model == model)
    profile = next(r.profile for r in service.replicas if device in r.devices)
    return gpu.tdp_w if profile.busy_w is None else profile.busy_w


def _busy_energy_j(result: SimulationResult, batches: Sequence[Batches]) -> float:
    return sum(_busy_s(b, result.duration_s) * _power_w(result, b.model, b.device) for b in batches)


def _device(result: SimulationResult, name: str) -> DeviceMetrics:
    end_s = result.duration_s
    device = next(d for d in result.deployment.devices if d.id == name)
    batches = [b for b in result.batches if b.device == name]
    busy_s = sum(_busy_s(b, end_s) for b in batches)
    stalled_s = sum(min(s.finish_s, end_s) - s.start_s for s in result.stalls if s.device == name)
    loads = sum(load.device == name for load in result.loads)
    energy_j = _busy_energy_j(result, batches) + max(0.0, end_s - busy_s) * device.gpu.idle_w
    return DeviceMetrics(
        utilization=busy_s / end_s,
        load_share=stalled_s / end_s,
        loads=loads,
        swaps_per_s=loads / end_s,
        peak_memory_bytes=int(np.max(result.memory[name].used_bytes)),
        energy_j=energy_j,
        mean_power_w=energy_j / end_s,
    )


def accuracy(
    result: SimulationResult, base: Mapping[str, float], half_life_s: float | None, warmup_s: float = 0.0
) -> dict[str, float]:
    """Share of frames with a right answer, by model, if a frame processed in time is right with probability `base`.

    `half_life_s` None: a lost frame (dropped, late or unfinished) is wrong. Otherwise it reuses the
    last in-time result of its source, which is right half as often for every `half_life_s` between the two frames.
    Frames from 0 to 4 s, of which those at 0, 1 and 3 are in time, with base 1 and half-life 1 s: (3 + 0.5 + 0.5) / 5.
    """
    slo_s = {service.model: service.slo.latency_s for service in result.deployment.services}
    found = {}
    for model, requests in result.requests.items():
        good = requests.finish_s - requests.arrival_s <= slo_s[model] + 1e-9
        judged = (requests.arrival_s >= warmup_s) & (requests.arrival_s + slo_s[model] <= result.duration_s)
        right = good.astype(float) if half_life_s is None else _reused(requests, good, half_life_s)
        found[model] = base[model] * _mean(right[judged])
    return found


def _reused(requests: Requests, good: np.ndarray, half_life_s: float) -> Floats:
    order = np.lexsort((requests.arrival_s, requests.source))
    arrival_s, source, fine = requests.arrival_s[order], requests.source[order], good[order]
    last = np.maximum.accumulate(np.where(fine, np.arange(len(fine)), -1))
    usable = (last >= 0) & (source[last] == source)
    age_s = np.where(usable, arrival_s - arrival_s[last], np.inf)
    right = np.empty(len(order))
    right[order] = 0.5 ** (age_s / half_life_s)
    return right


def confidence_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float, float]:
    """Mean and the ends of its interval from independent replications, by Student's t.

    9, 10 and 11: mean 10, and 4.303 x 1 / sqrt(3) = 2.48 to either side. One value: no width can be known, NaN ends.
    """
    data = np.asarray(values, dtype=float)
    mean = _mean(data)
    if len(data) < 2:
        return mean, float("nan"), float("nan")
    half = float(special.stdtrit(len(data) - 1, (1 + confidence) / 2)) * float(np.std(data, ddof=1)) / len(data) ** 0.5
    return mean, mean - half, mean + half


def attainment_interval(
    fractions: Sequence[float], judged: Sequence[int], confidence: float = CONFIDENCE
) -> tuple[float, float, float]:
    """Mean attainment over replications with an interval that stays honest near 1.

    The wider, at each end, of Student's t over the replications and Wilson's interval for the pooled requests: where
    all of 1,000 requests made it, the t interval has no width, and Wilson's low end is 0.9962.
    """
    kept = [(f, n) for f, n in zip(fractions, judged, strict=True) if n]
    if not kept:
        return float("nan"), 0.0, 1.0
    mean, low, high = confidence_interval([f for f, _ in kept], confidence)
    total = sum(n for _, n in kept)
    hits = sum(f * n for f, n in kept)
    z = float(special.ndtri((1 + confidence) / 2))
    centre = (hits + z * z / 2) / (total + z * z)
    half = z / (total + z * z) * (hits * (total - hits) / total + z * z / 4) ** 0.5
    return mean, max(0.0, float(np.fmin(low, centre - half))), min(1.0, float(np.fmax(high, centre + half)))


def _mean(values: np.ndarray) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


def _ratio(part: float, whole: float) -> float:
    return float(part) / float(whole) if whole else float("nan")
