"""Metrics: what the records of a replication amount to, and how sure several replications make us.

Every definition stands as a formula in `docs/concepts.md`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import reduce
from operator import add
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.clock.records import Batches, Outcome, Requests, SimulationResult, StationUse
from simulator.flow.figures import StageMetrics, StationMetrics, times
from simulator.rules.latencies import quantiles_of
from simulator.world.deployment import Deployment
from simulator.world.hardware import GPU
from simulator.world.pipelines import Station
from simulator.world.power import busy_by_size_w
from simulator.world.profile import Profile
from simulator.world.workload import Floats

FINISHED, DROPPED, WAITING = int(Outcome.FINISHED), int(Outcome.DROPPED), int(Outcome.WAITING)
OUTCOMES = len(Outcome)
CONFIDENCE = 0.95
"""Of an interval that is looked at once."""
STRETCHES = 10
"""Parts of a replication whose means tell how sure its own mean is."""
ROUNDING = 1e-9
"""A share that is lower than an SLO by no more is not: by rounding."""
NOISIER = 4.0
"""Times the noise of the draws seen, as a variance, that the unseen may have: they are the easier ones, and the nearer
a share is to 1 the less noise it has."""
IN_TIME_S = 1e-9
"""A request is in time that is late by no more: by rounding."""
SHRINKS = 0.98
"""Backlog at the end over that at half-time, above which it does not shrink."""


class Verdict(StrEnum):
    """Whether a model's replicas keep up."""

    STABLE = "stable"
    BACKLOGGED = "backlogged"
    """They could keep up with the rate, but what waited grew from the middle of the replications to their end."""
    OVERLOADED = "overloaded"
    """More arrives than can leave, in batches as large as are allowed: what waits grows without end."""


class ModelMetrics(NamedTuple):
    """One model in one replication, over requests that arrived after the warm-up."""

    arrived: int
    finished: int
    dropped: int
    waiting: int
    running: int
    judged: int
    """Requests that arrived after the warm-up and had their deadline before the end."""
    offered_rps: float
    """Of a pipeline all frames; all other figures are of those to which an answer is due."""
    due_fraction: float
    """Share of what came to which an answer is due: 1 of a model, NaN without any."""
    throughput_rps: float
    goodput_rps: float
    """Finished within the SLO, per second."""
    processed_fraction: float
    """Share of the judged that finished, also late; NaN without any."""
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
    slo_attainment_error: float
    """Standard error of `slo_attainment`, as far as this replication can tell it; NaN where that is too short."""
    backlog_growth: float
    """Requests that wait or run in the last third of the time after the warm-up, over those in the middle third."""


class DeviceMetrics(NamedTuple):
    """One GPU in one replication, over the whole of it."""

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
    """Pipelines and their stages among them, by the names that `SimulationResult.requests` has."""
    devices: dict[str, DeviceMetrics]
    stages: dict[str, StageMetrics] = field(default_factory=dict)
    """Of pipelines."""
    stations: dict[str, StationMetrics] = field(default_factory=dict)


def summarise(result: SimulationResult, warmup_s: float = 0.0) -> Summary:
    """Metrics of one replication. Requests that arrived in the first `warmup_s` seconds are left out."""
    deployment, end_s = result.deployment, result.duration_s
    slo_s = slos_s(deployment)
    gpus = {device.id: device.gpu for device in deployment.devices}
    by_model, by_device = _all_worked(result, gpus)
    tallies = {
        model: _tally(requests, by_model[model], slo_s[model], warmup_s, end_s)
        for model, requests in result.requests.items()
    }
    return Summary(
        models={model: tally.metrics(end_s - warmup_s) for model, tally in tallies.items()},
        devices={name: _device(result, gpus[name], name, worked) for name, worked in by_device.items()},
        stages={
            name: _stage(result, name, warmup_s, by_model[name]) for name in result.frames if name in result.requests
        },
        stations={station.id: _station(result, station) for station in deployment.stations},
    )


def attainments(result: SimulationResult, warmup_s: float = 0.0) -> dict[str, float]:
    """SLO attainment alone of every model, as `summarise` has it."""
    slo_s = slos_s(result.deployment)
    found = {}
    for model, requests in result.requests.items():
        late = _after(requests.to_answer(), warmup_s)
        judged = _judged(late.arrival_s, slo_s[model], result.duration_s)
        found[model] = _ratio(int(np.count_nonzero(_in_time(late, slo_s[model])[:judged])), judged)
    return found


def _profiles(deployment: Deployment) -> dict[tuple[str, str], Profile]:
    """Of each model on each device."""
    return {
        (service.model, device): replica.profile
        for service in deployment.services
        for replica in service.replicas
        for device in replica.devices
    }


def slos_s(deployment: Deployment) -> dict[str, float]:
    """By which requests are late, by model, pipeline and stage. Items of a stage at stations have their pipeline's."""
    of_services = {service.model: service.slo.latency_s for service in deployment.services}
    of_pipelines = {pipeline.name: pipeline.slo.latency_s for pipeline in deployment.pipelines}
    of_stages = {
        pipeline.name_of(stage): pipeline.slo_of(stage).latency_s
        for pipeline in deployment.pipelines
        for stage in pipeline.stages
    }
    return of_stages | of_pipelines | of_services


def _stage(result: SimulationResult, name: str, warmup_s: float, worked: "Sequence[_Worked]") -> StageMetrics:
    items, frame = result.requests[name], result.frames[name]
    busy_s = sum(one.busy_s for one in worked) if worked else _worked_until(result.duration_s, items)
    first = int(items.arrival_s.searchsorted(warmup_s))
    items, frame = items.since(first), frame[first:]
    done = items.outcome == FINISHED
    came_s, start_s, finish_s = items.arrival_s[done], items.start_s[done], items.finish_s[done]
    pipeline = next(one.name for one in result.deployment.pipelines if name in map(one.name_of, one.stages))
    frame_came_s = result.requests[pipeline].arrival_s[frame[done]]
    return StageMetrics(
        items_per_s=len(items.arrival_s) / (result.duration_s - warmup_s),
        lost_fraction=_ratio(int(np.count_nonzero(items.outcome == DROPPED)), len(items.arrival_s)),
        waiting=times(start_s - came_s),
        service=times(finish_s - start_s),
        since_arrival=times(finish_s - frame_came_s),
        busy=busy_s / result.duration_s,
    )


def _station(result: SimulationResult, station: Station) -> StationMetrics:
    use, end_s = result.stations[station.id], result.duration_s
    return StationMetrics(utilization=_worked_until(end_s, use) / (station.servers * end_s), items=len(use.start_s))


def _worked_until(end_s: float, done: Requests | StationUse) -> float:
    """Seconds of all items at servers until then; of those that never began none."""
    begun = ~np.isnan(done.start_s)
    worked_s = np.fmin(done.finish_s[begun], end_s) - np.minimum(done.start_s[begun], end_s)
    return total(worked_s.tolist())


@dataclass(frozen=True, slots=True)
class _Worked:
    """The batches of one replica on one GPU, what they took and drew."""

    batches: Batches
    busy_s: float
    energy_j: float


def _all_worked(
    result: SimulationResult, gpus: Mapping[str, GPU]
) -> tuple[dict[str, list[_Worked]], dict[str, list[_Worked]]]:
    """Work by model, of a pipeline that of its stages, and by device."""
    deployment = result.deployment
    by_model: dict[str, list[_Worked]] = {model: [] for model in result.requests}
    by_device: dict[str, list[_Worked]] = {device: [] for device in gpus}
    profiles = _profiles(deployment)
    for batches in result.batches:
        worked = _worked(batches, gpus[batches.device], profiles[batches.model, batches.device], result.duration_s)
        by_device[batches.device].append(worked)
        by_model.setdefault(batches.model, []).append(worked)
    for pipeline in deployment.pipelines:
        by_model[pipeline.name] = [one for s in pipeline.stages for one in by_model.get(pipeline.name_of(s), ())]
    return by_model, by_device


def _worked(batches: Batches, gpu: GPU, profile: Profile, end_s: float) -> _Worked:
    runs_s = np.minimum(batches.finish_s, end_s) - np.minimum(batches.start_s, end_s)
    by_size_s = np.bincount(batches.count, weights=runs_s)
    sizes = np.flatnonzero(by_size_s)
    watts = busy_by_size_w(gpu, profile, int(sizes[-1])) if len(sizes) else ()
    energy_j = total(float(by_size_s[size]) * watts[size - 1] for size in sizes)
    return _Worked(batches, float(np.add.reduce(runs_s)), energy_j)


def total(values: Iterable[float]) -> float:
    """A sum from the left: `sum` rounds otherwise from Python 3.12 on, and machine code must come to the same."""
    return reduce(add, values, 0.0)


class Tally(NamedTuple):
    """What the requests and batches of one model add up to, of those that arrived after the warm-up."""

    came: int
    """Those too to which no answer is due."""
    arrived: int
    finished: int
    dropped: int
    waiting: int
    running: int
    judged: int
    judged_finished: int
    in_time: int
    judged_in_time: int
    batched: int
    """Requests in batches."""
    batches: int
    finished_in_all: int
    """Those of the warm-up too."""
    mean_s: float
    mean_queueing_s: float
    stretches: int
    """Parts of the replication that hold requests which are judged; 0 where they are too few to tell."""
    stretches_sd: float
    """Standard deviation over these parts of the share in time."""
    backlog_growth: float
    energy_j: float
    quantiles_s: Sequence[float]
    """Latencies of those that finished, at `QUANTILES`."""

    def metrics(self, span_s: float) -> ModelMetrics:
        """As shares and rates; `span_s`: the time after the warm-up."""
        p50, p90, p95, p99 = self.quantiles_s
        error = self.stretches_sd / self.stretches**0.5 if self.stretches > 1 else float("nan")
        return ModelMetrics(
            arrived=self.arrived,
            finished=self.finished,
            dropped=self.dropped,
            waiting=self.waiting,
            running=self.running,
            judged=self.judged,
            offered_rps=self.came / span_s,
            due_fraction=_ratio(self.arrived, self.came),
            throughput_rps=self.finished / span_s,
            goodput_rps=self.in_time / span_s,
            processed_fraction=_ratio(self.judged_finished, self.judged),
            dropped_fraction=_ratio(self.dropped, self.arrived),
            slo_attainment=_ratio(self.judged_in_time, self.judged),
            mean_s=self.mean_s,
            p50_s=p50,
            p90_s=p90,
            p95_s=p95,
            p99_s=p99,
            mean_queueing_s=self.mean_queueing_s,
            mean_batch_size=_ratio(self.batched, self.batches),
            joules_per_inference=_ratio(self.energy_j, self.finished_in_all),
            slo_attainment_error=error,
            backlog_growth=self.backlog_growth,
        )


def _tally(requests: Requests, worked: Sequence[_Worked], slo_s: float, warmup_s: float, end_s: float) -> Tally:
    came, requests = requests, requests.to_answer()
    late = _after(requests, warmup_s)
    arrived = len(late.arrival_s)
    _, dropped, waiting, running = map(int, np.bincount(late.outcome, minlength=OUTCOMES))
    finished = arrived - dropped - waiting - running
    took_s = late.finish_s - late.arrival_s
    queued_s = late.start_s - late.arrival_s
    if finished < arrived:
        done = late.outcome == FINISHED
        queued_s = queued_s[done]
    latency_s = took_s if finished == arrived else took_s[done]
    in_time = _in_time(late, slo_s)
    # Of those who came later only the quick have finished: to judge them would be to flatter.
    judged = _judged(late.arrival_s, slo_s, end_s)
    sizes = [w.batches.count[(w.batches.start_s >= warmup_s) & ~w.batches.aborted] for w in worked]
    stretches, stretches_sd = _over_time(late.arrival_s[:judged], in_time[:judged])
    return Tally(
        came=len(came.arrival_s) - int(came.arrival_s.searchsorted(warmup_s)),
        arrived=arrived,
        finished=finished,
        dropped=dropped,
        waiting=waiting,
        running=running,
        judged=judged,
        judged_finished=int(np.count_nonzero(late.outcome[:judged] == FINISHED)),
        in_time=int(np.count_nonzero(in_time)),
        judged_in_time=int(np.count_nonzero(in_time[:judged])),
        batched=sum(int(np.add.reduce(n)) for n in sizes),
        batches=sum(map(len, sizes)),
        finished_in_all=int(np.count_nonzero(requests.outcome == FINISHED)),
        mean_s=_mean(latency_s),
        mean_queueing_s=_mean(queued_s),
        stretches=stretches,
        stretches_sd=stretches_sd,
        backlog_growth=_backlog_growth(came, warmup_s, end_s),
        energy_j=total(w.energy_j for w in worked),
        quantiles_s=quantiles_of(latency_s),
    )


def finished_latency_s(requests: Requests, warmup_s: float) -> Floats:
    """Latencies of those that finished, of requests that arrived after the warm-up."""
    requests = requests.to_answer()
    first = int(requests.arrival_s.searchsorted(warmup_s))
    latency_s = requests.finish_s[first:] - requests.arrival_s[first:]
    finished_s: Floats = latency_s[requests.outcome[first:] == FINISHED]
    return finished_s


def _after(requests: Requests, warmup_s: float) -> Requests:
    """Those that arrived after the warm-up."""
    first = int(requests.arrival_s.searchsorted(warmup_s))
    return requests.since(first) if first else requests


def _in_time(requests: Requests, slo_s: float) -> npt.NDArray[np.bool_]:
    """Which of them finished within the SLO."""
    return requests.finish_s - requests.arrival_s <= slo_s + IN_TIME_S


def _judged(arrival_s: Floats, slo_s: float, end_s: float) -> int:
    """How many of the first had their deadline before the end."""
    count = int(arrival_s.searchsorted(end_s - slo_s, side="right"))
    # Rounding may put one on the other side of the end.
    while count < len(arrival_s) and arrival_s[count] + slo_s <= end_s:
        count += 1
    while count and arrival_s[count - 1] + slo_s > end_s:
        count -= 1
    return count


def _over_time(arrival_s: Floats, in_time: np.ndarray) -> tuple[int, float]:
    """Stretches of equal length that hold requests, and the standard deviation over them of the share in time: of these
    is the standard error of their mean (batch means). No stretches where requests are too few."""
    if len(arrival_s) < 2 * STRETCHES or arrival_s[-1] == arrival_s[0]:
        return 0, float("nan")
    place = (arrival_s - arrival_s[0]) / (arrival_s[-1] - arrival_s[0]) * STRETCHES
    edges = np.append(place.searchsorted(np.arange(STRETCHES)), len(place))
    good_before = np.zeros(len(place) + 1)
    np.cumsum(in_time, out=good_before[1:])
    count = edges[1:] - edges[:-1]
    good = good_before[edges[1:]] - good_before[edges[:-1]]
    means = good[count > 0] / count[count > 0]
    return len(means), float(np.std(means, ddof=1)) if len(means) > 1 else float("nan")


def _backlog_growth(requests: Requests, warmup_s: float, end_s: float) -> float:
    third_s = (end_s - warmup_s) / 3
    gone_s = _gone_s(requests)
    late = _outstanding(requests, gone_s, end_s - third_s, end_s)
    return late - _outstanding(requests, gone_s, end_s - 2 * third_s, end_s - third_s)


def outstanding(requests: Requests, start_s: float, end_s: float) -> float:
    """Mean number of requests that wait or run between two moments."""
    return _outstanding(requests, _gone_s(requests), start_s, end_s)


def _gone_s(requests: Requests) -> Floats:
    """When each request was answered or dropped; infinity where it still waits or runs."""
    outcome = requests.outcome
    if not outcome.any():
        return requests.finish_s
    gone_s = np.where(outcome == DROPPED, requests.start_s, requests.finish_s)
    gone_s[outcome >= WAITING] = np.inf
    return gone_s


def _outstanding(requests: Requests, gone_s: Floats, start_s: float, end_s: float) -> float:
    inside_s = np.minimum(gone_s, end_s)
    inside_s -= np.maximum(requests.arrival_s, start_s)
    return float(np.add.reduce(np.maximum(inside_s, 0.0, out=inside_s))) / (end_s - start_s)


def drifts(growths: Sequence[float]) -> bool:
    """Whether a backlog surely grew, over replications in which so many requests more waited a third later.

    `growths`: shares of the requests of such a third. What grows by less than half a percent of them is no drift; nor
    is what may be chance, with one error in a thousand.
    """
    if len(growths) < 3:
        return False
    mean, low, _ = confidence_interval(growths, 0.998)
    return low > 0 and mean > 0.005


def _device(result: SimulationResult, gpu: GPU, name: str, worked: Sequence[_Worked]) -> DeviceMetrics:
    return device_metrics(
        gpu,
        result.duration_s,
        busy_s=total(w.busy_s for w in worked),
        batches_j=total(w.energy_j for w in worked),
        stalled_s=total(min(s.finish_s, result.duration_s) - s.start_s for s in result.stalls if s.device == name),
        loads=sum(load.device == name for load in result.loads),
        peak_memory_bytes=int(np.max(result.memory[name].used_bytes)),
    )


def device_metrics(
    gpu: GPU,
    end_s: float,
    *,
    busy_s: float,
    batches_j: float,
    peak_memory_bytes: int,
    stalled_s: float = 0.0,
    loads: int = 0,
) -> DeviceMetrics:
    """One GPU whose batches ran for `busy_s` and drew `batches_j`."""
    energy_j = batches_j + max(0.0, end_s - busy_s) * gpu.idle_w
    return DeviceMetrics(
        utilization=busy_s / end_s,
        load_share=stalled_s / end_s,
        loads=loads,
        swaps_per_s=loads / end_s,
        peak_memory_bytes=peak_memory_bytes,
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
    slo_s = slos_s(result.deployment)
    found = {}
    for model, asked in result.requests.items():
        if model not in base:
            continue
        requests = asked.to_answer()
        good = requests.finish_s - requests.arrival_s <= slo_s[model] + IN_TIME_S
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
    half = _student(len(data) - 1, (1 + confidence) / 2) * float(np.std(data, ddof=1)) / len(data) ** 0.5
    return mean, mean - half, mean + half


def _student(freedom: int, share: float) -> float:
    """Student's t below which such a share lies; SciPy, which takes long to import, is not asked for without need."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, share))


def attainment_interval(
    fractions: Sequence[float],
    judged: Sequence[int],
    confidence: float = CONFIDENCE,
    errors: Sequence[float] = (),
) -> tuple[float, float, float]:
    """Mean attainment over replications with an interval that stays honest near 1.

    The wider, at each end, of Student's t over the replications and Wilson's interval for the pooled requests: where
    all of 1,000 requests made it, the t interval has no width, and Wilson's low end is 0.9962. Of a single replication,
    `errors` holds its standard error over `STRETCHES` stretches of time, which then stands in for Student's.
    """
    kept = [(f, n) for f, n in zip(fractions, judged, strict=True) if n]
    if not kept:
        return float("nan"), 0.0, 1.0
    mean, low, high = confidence_interval([f for f, _ in kept], confidence)
    if len(kept) == 1 and errors:
        (error,) = (e for e, n in zip(errors, judged, strict=True) if n)
        half = _student(STRETCHES - 1, (1 + confidence) / 2) * error
        low, high = mean - half, mean + half
    wilson_low, wilson_high = _wilson(sum(f * n for f, n in kept), sum(n for _, n in kept), confidence)
    return mean, max(0.0, float(np.fmin(low, wilson_low))), min(1.0, float(np.fmax(high, wilson_high)))


def _wilson(hits: float, total: int, confidence: float) -> tuple[float, float]:
    """Wilson's score interval for a share (JASA 22, 1927)."""
    from scipy.special import ndtri

    z = float(ndtri((1 + confidence) / 2))
    centre = (hits + z * z / 2) / (total + z * z)
    half = z / (total + z * z) * (hits * (total - hits) / total + z * z / 4) ** 0.5
    return centre - half, centre + half


def draws_interval(fractions: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float, float]:
    """Mean over draws of the phases with an interval for the mean over all draws there are.

    In a draw nearly all requests may be late or none, and what was not seen may be: so it is the exact interval of
    Clopper and Pearson (1934) for so many draws, which holds for shares too, as none vary more than those that are 0 or
    1 (Hoeffding, 1963). Of 80 draws all kept: 0.955 to 1. None: 0 to 1.
    """
    known = [f for f in fractions if f == f]
    if not known:
        return float("nan"), 0.0, 1.0
    return (sum(known) / len(known), *share_interval(sum(known), len(known), confidence))


def share_interval(hits: float, count: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Ends of the exact interval of Clopper and Pearson for a share. 80 of 80: 0.955 and 1. 0 of 20: 0 and 0.168."""
    from scipy.special import betaincinv

    hits = min(max(hits, 0.0), float(count))
    half = (1 - confidence) / 2
    low = float(betaincinv(hits, count - hits + 1, half)) if hits > 0 else 0.0
    high = float(betaincinv(hits + 1, count - hits, 1 - half)) if hits < count else 1.0
    return low, high


def long_run(fractions: Sequence[float], errors: Sequence[float]) -> list[float]:
    """What each draw of the phases would come to in the long run: the noise of a short look is taken out.

    The variance over draws is that of the long run and that of the noise, which `errors` (standard errors in time)
    tell. Each draw moves towards the mean by the root of the first one's part of it, so that the long runs vary as they
    should (Louis, JASA 79, 1984). Without noise nothing moves; where all is noise, all draws are the mean.
    """
    mean, part = without_noise(fractions, errors)
    return [mean + part * (float(f) - mean) if part < 1 else float(f) for f in fractions]


def without_noise(fractions: Sequence[float], errors: Sequence[float]) -> tuple[float, float]:
    """The mean over draws, and the part of its distance from it that each keeps in the long run: 1 without noise."""
    data = np.asarray(fractions, dtype=float)
    seen = float(np.var(data, ddof=1)) if len(data) > 1 else 0.0
    mean = float(np.mean(data)) if len(data) else float("nan")
    if not seen or np.all(np.isnan(errors)):
        return mean, 1.0
    return mean, max(0.0, 1 - float(np.nanmean(np.square(errors))) / seen) ** 0.5


def at_best(fractions: Sequence[float], errors: Sequence[float], unseen: int, target: float) -> list[float]:
    """What each draw below the target comes to in the long run at best, while so many others are unseen: as seen where
    it stays below the target, else 1.

    A draw moves up the more, the higher the mean over all, the larger the noise and the smaller the variance. The mean
    is highest with all unseen requests in time. If it is below the target, so is every draw that was. Else the variance
    is least where the unseen draws are alike, and no better than the target asks; their noise counts as `NOISIER` times
    that of the draws seen. 2 draws of 90 % among 38 of 100 %, with errors of 0.1 %, and 120 unseen: at 99 % both stay.
    """
    data = np.asarray(fractions, dtype=float)
    total = len(data) + unseen
    mean = (float(data.sum()) + unseen) / total
    if mean < target - ROUNDING:
        return list(fractions)
    if np.isnan(errors).all():
        return [1.0] * len(data)
    apart = max(0.0, 1 - (mean - target) * total / unseen - float(data.mean()))
    squares = float(np.var(data)) * len(data) + apart**2 * len(data) * unseen / total
    noise = NOISIER * float(np.nanmean(np.square(errors))) * (total - 1)
    kept = max(0.0, 1 - noise / squares) ** 0.5 if squares else 0.0
    return [f if mean + kept * (f - mean) < target - ROUNDING else 1.0 for f in fractions]


def _mean(values: np.ndarray) -> float:
    return float(np.add.reduce(values)) / len(values) if len(values) else float("nan")


def _ratio(part: float, whole: float) -> float:
    return float(part) / float(whole) if whole else float("nan")
