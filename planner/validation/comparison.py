"""Validation: the same deployment and arrivals, measured and simulated side by side, and why the two differ."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, nan
from typing import Any

import numpy as np

from calibrate.served import Actions
from planner.validation.recording import Recording
from planner.validation.speed import BySize, Speed, load_errors, of_size, run_errors, speed_of
from simulator.curves import Interpolated, LoadTime
from simulator.deployment import Deployment, Service
from simulator.metrics import Summary, summarise
from simulator.profile import Profile
from simulator.records import SimulationResult
from simulator.run import simulate
from simulator.workload import Floats, Stream, Trace, Workload

SCHEMA = "planner.validation/v1"
REPLICATIONS = 39
"""The least and the most of n runs contain one more run of the same kind with probability (n - 1) / (n + 1), whatever
the distribution: 95 % of 39. Wilks, Annals of Mathematical Statistics 12 (1941)."""
ROUNDING = 1e-6
"""Figures that differ by less, relatively, are the same."""
SAME = 0.02
"""Actions that take within this of what the profile says, on average, explain nothing."""
MODEL_METRICS = (
    "p50_s",
    "p95_s",
    "p99_s",
    "mean_s",
    "slo_attainment",
    "throughput_rps",
    "mean_batch_size",
    "processed_fraction",
)
DEVICE_METRICS = ("utilization", "load_share", "peak_memory_bytes")
SHARES = frozenset({"slo_attainment", "processed_fraction", "utilization", "load_share"})
"""Their error is a difference, of others it is relative to what was measured."""
Figures = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A model, or the device, measured and simulated; the same metrics in each mapping."""

    name: str
    measured: Figures
    simulated: Figures
    """Medians over replications."""
    error: Figures
    """Simulated against measured: relative for times, rates and sizes, the difference for shares."""
    intervals: Mapping[str, tuple[float, float]]
    """Where one run should lie with 95 % probability."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """What one kind of action took for one model, against what its profile and the device's speed at that time say."""

    kind: str
    model: str
    count: int
    expected_s: float
    """Mean."""
    actual_s: float
    """Mean."""
    error: float
    """Expected against actual."""
    spread: float
    """Standard deviation of actual over expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How many measured figures lie in their intervals, of those whose simulation varies or errs."""

    inside: int
    of: int
    fixed: int
    """Figures that no chance touches and that came out as simulated; they are not counted."""

    @property
    def share(self) -> float:
        """Inside of all counted."""
        return self.inside / self.of if self.of else nan


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """What running for real added: from the moment a batch could run until it was started."""

    batches: int
    mean_s: float
    p99_s: float
    share: float
    """Of the run, while a batch waited for the harness."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """Measured beside simulated."""

    scenario: str
    created_at: str
    machine: Mapping[str, Any]
    duration_s: float
    warmup_s: float
    seed: int
    replications: int
    stopped: str
    others_cores: float | None
    """Processor cores that other programs kept busy meanwhile."""
    requests: int
    models: tuple[Compared, ...]
    device: Compared
    speed: Speed
    """Of the device in the rehearsals; the simulation and `timings` take it for granted."""
    timings: tuple[Timing, ...]
    coverage: Coverage
    overhead: Overhead
    largest_error: str
    """Which figure errs most, in a sentence."""
    likely_cause: str


def validate(recording: Recording, replications: int = REPLICATIONS) -> Validation:
    """Simulate anew what was recorded, and compare."""
    result = recording.result
    speed = speed_of(recording.rehearsals)
    runs = predict(recording, speed, replications)
    real = summarise(result, recording.warmup_s)
    models = tuple(
        compared(model, model_figures(real, model), [model_figures(run, model) for run in runs])
        for model in result.requests
    )
    context_bytes = sum(card.context_bytes for card in result.deployment.devices)
    device = compared(
        device_name(result),
        {**device_figures(real, context_bytes), **allocated(recording)},
        [device_figures(run, context_bytes) for run in runs],
    )
    times = timings(recording, speed)
    over = overhead(recording)
    largest, cause = explained(models, device, times, over, result.deployment, speed.cv)
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
        models=models,
        device=device,
        timings=times,
        speed=speed,
        coverage=coverage((*models, device)),
        overhead=over,
        largest_error=largest,
        likely_cause=cause,
    )


# Simulating


def predict(recording: Recording, speed: Speed, replications: int) -> list[Summary]:
    """One run after another: the arrivals that came, fresh noise, and costs as far off as they may be."""
    result = recording.result
    same = Workload(
        tuple(
            Stream(model, Trace(requests.arrival_s, result.duration_s)) for model, requests in result.requests.items()
        )
    )
    together = shared(recording, speed, same)
    seeds = np.random.SeedSequence(result.seed).spawn(replications)
    summaries = []
    for number, seed in enumerate(seeds):
        world = disturbed(together, recording, speed, np.random.default_rng(seed))
        summaries.append(summarise(simulate(world, same, result.duration_s, number), recording.warmup_s))
    return summaries


def shared(recording: Recording, speed: Speed, same: Workload) -> Deployment:
    """The deployment as the simulator takes it: as fast as it was rehearsed, processes slowing each other down.

    A process whose batches take k times as long while the others run too, which they do for a share u of the time,
    takes 1 + (k - 1) u times as long on average. The shares are those of a first simulation without it, then of a
    second with it.
    """
    deployment = stretched(recording.result.deployment, speed.run, speed.load, speed.cv)
    if not speed.slowdown:
        return deployment
    slowed = deployment
    for _ in range(2):
        busy = summarise(simulate(slowed, same, recording.result.duration_s)).devices
        factor = {
            name: 1 + (k - 1) * max(busy[other].utilization for other in busy if other != name)
            for name, k in speed.slowdown.items()
        }
        slowed = stretched(
            deployment, {s.model: {1: factor.get(s.replicas[0].devices[0], 1.0)} for s in deployment.services}
        )
    return slowed


def disturbed(deployment: Deployment, recording: Recording, speed: Speed, rng: np.random.Generator) -> Deployment:
    """The same with run times off by one draw of the error that all models share and one for each model and batch size,
    and all load times by another. Factors are lognormal, for a cost is never below zero.
    """
    run, load = rng.standard_normal(2)
    common, own = run_errors(recording, speed)
    loads = load_errors(recording, speed)
    models = [service.model for service in deployment.services]
    runs = {
        m: {
            n: float(np.exp(run * common.get(m, 0.0) + rng.standard_normal() * s))
            for n, s in own.get(m, {1: 0.0}).items()
        }
        for m in models
    }
    return stretched(deployment, runs, {m: float(np.exp(load * loads.get(m, 0.0))) for m in models})


def stretched(
    deployment: Deployment, run: Mapping[str, BySize], load: Figures | None = None, cv: float | None = None
) -> Deployment:
    """The same deployment with run times of each model and batch size, and load times of each model, times a factor.

    `cv`: spread of one batch's run time instead of the profiles'.
    """
    load = load or {}
    services = tuple(
        stretched_service(service, run.get(service.model, {}), load.get(service.model, 1.0), cv)
        for service in deployment.services
    )
    return replace(deployment, services=services)


def stretched_service(service: Service, run: BySize, load: float, cv: float | None) -> Service:
    """One model."""
    replicas = tuple(
        replace(one, profile=stretched_profile(one.profile, one.batching.max_batch_size, run, load, cv))
        for one in service.replicas
    )
    return replace(service, replicas=replicas)


def stretched_profile(profile: Profile, most: int, run: BySize, load: float, cv: float | None) -> Profile:
    """One profile, for batches up to `most`."""
    batches = range(1, most + 1)
    pageable = profile.pageable_bytes_per_s
    return replace(
        profile,
        latency=Interpolated(tuple(map(float, batches)), tuple(of_size(run, n) * profile.latency(n) for n in batches)),
        latency_cv=profile.latency_cv if cv is None else cv,
        load=LoadTime(load * profile.load.t0_s, profile.load.bytes_per_s / load),
        pageable_bytes_per_s=None if pageable is None else pageable / load,
    )


# Comparing


def model_figures(summary: Summary, model: str) -> Figures:
    """Metrics of one model that are compared."""
    found = summary.models[model]
    return {name: float(getattr(found, name)) for name in MODEL_METRICS}


def device_figures(summary: Summary, context_bytes: int) -> Figures:
    """Metrics of the device: shares of time are means over its processes, memory is their sum, contexts left out."""
    cards = list(summary.devices.values())
    return {
        "utilization": sum(card.utilization for card in cards) / len(cards),
        "load_share": sum(card.load_share for card in cards) / len(cards),
        "peak_memory_bytes": float(sum(card.peak_memory_bytes for card in cards) - context_bytes),
    }


def allocated(recording: Recording) -> Figures:
    """Peak memory by the device's own allocator where it has one, instead of what the executor counted."""
    peaks = [held.allocated_peak_bytes for held in recording.held.values()]
    known = [float(peak) for peak in peaks if peak is not None]
    return {"peak_memory_bytes": sum(known)} if known and len(known) == len(peaks) else {}


def device_name(result: SimulationResult) -> str:
    """What kind of device it was."""
    return result.deployment.devices[0].gpu.name


def compared(name: str, measured: Figures, runs: Sequence[Figures]) -> Compared:
    """Measured beside the median and the range of simulated runs."""
    columns = {metric: np.array([run[metric] for run in runs]) for metric in measured}
    simulated = {metric: middle(values) for metric, values in columns.items()}
    return Compared(
        name=name,
        measured=measured,
        simulated=simulated,
        error={metric: error_of(metric, simulated[metric], measured[metric]) for metric in measured},
        intervals={metric: least_and_most(values) for metric, values in columns.items()},
    )


def middle(values: Floats) -> float:
    """Median of those that exist. A queue near its limit grows out of proportion in the runs where the device is drawn
    slow, so that a mean would be that of a slower device.
    """
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else nan


def least_and_most(values: Floats) -> tuple[float, float]:
    """The range of those that exist."""
    known = values[np.isfinite(values)]
    return (float(known.min()), float(known.max())) if len(known) else (nan, nan)


def error_of(metric: str, simulated: float, measured: float) -> float:
    """Simulated 0.104 s, measured 0.100 s: 0.04. Of shares, 0.98 against 0.99: -0.01."""
    if metric in SHARES:
        return simulated - measured
    if simulated == measured:
        return 0.0
    return simulated / measured - 1 if measured else nan


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


# Explaining


def timings(recording: Recording, speed: Speed) -> tuple[Timing, ...]:
    """Every kind of action that takes time, by model."""
    groups: dict[tuple[str, str], list[Actions]] = {}
    for actions in recording.actions:
        if len(actions.start_s) and actions.expected_s.sum() > 0:
            groups.setdefault((actions.kind, actions.model), []).append(actions)
    return tuple(timing(kind, model, found, speed) for (kind, model), found in groups.items())


def timing(kind: str, model: str, found: Sequence[Actions], speed: Speed) -> Timing:
    """One kind of one model, expected to take what its profile says at the speed of the rehearsals."""
    factors = speed.run.get(model, {}) if kind == "run" else {0: speed.load.get(model, 1.0)}
    expected_s = np.concatenate(
        [actions.expected_s * [of_size(factors, n) for n in actions.batch.tolist()] for actions in found]
    )
    actual_s = np.concatenate([actions.actual_s for actions in found])
    known = expected_s > 0
    ratio = actual_s[known] / expected_s[known]
    return Timing(
        kind=kind,
        model=model,
        count=len(expected_s),
        expected_s=float(expected_s.mean()),
        actual_s=float(actual_s.mean()),
        error=error_of("", float(expected_s.mean()), float(actual_s.mean())),
        spread=float(ratio.std()),
    )


def overhead(recording: Recording) -> Overhead:
    """What the harness itself took."""
    waits_s = np.concatenate([np.empty(0), *recording.launch_s.values()])
    if not len(waits_s):
        return Overhead(batches=0, mean_s=nan, p99_s=nan, share=nan)
    processes = max(1, len(recording.launch_s))
    return Overhead(
        batches=len(waits_s),
        mean_s=float(waits_s.mean()),
        p99_s=float(np.quantile(waits_s, 0.99)),
        share=float(waits_s.sum()) / (processes * recording.result.duration_s),
    )


def explained(
    models: Sequence[Compared],
    device: Compared,
    times: Sequence[Timing],
    over: Overhead,
    deployment: Deployment,
    cv: float | None,
) -> tuple[str, str]:
    """The largest error in a sentence, and what most likely made it."""
    rows = [(abs(row.error[m]), row, m) for row in (*models, device) for m in row.error if isfinite(row.error[m])]
    if not rows:
        return "No figure can be compared: nothing finished.", "Run it longer, or at less load."
    size, row, metric = max(rows, key=lambda entry: entry[0])
    if size < ROUNDING:
        return "No figure errs.", "None."
    unit = "points" if metric in SHARES else "%"
    low = "less" if row.error[metric] < 0 else "more"
    said = f"{metric} of {row.name}: simulated {figure(size * 100)} {unit} {low} than measured."
    return said, cause(
        slower=simulated_is_quicker(metric, row.error[metric]), times=times, over=over, world=deployment, cv=cv
    )


def figure(value: float) -> str:
    """Three digits, or all of a large number: `2.51`, `1,770`."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def simulated_is_quicker(metric: str, error: float) -> bool:
    """Whether the error is what a device makes that is slower than its profile."""
    return error < 0 if metric.endswith("_s") or metric in DEVICE_METRICS or metric == "mean_batch_size" else error > 0


def cause(*, slower: bool, times: Sequence[Timing], over: Overhead, world: Deployment, cv: float | None) -> str:
    """What took longer, or less long, than expected: the action that cost or saved most time in all."""
    sign = 1 if slower else -1
    excess = {one: sign * one.count * (one.actual_s - one.expected_s) for one in times if abs(one.error) > SAME}
    worst = max(excess, key=lambda one: excess[one], default=None)
    if worst is not None and excess[worst] > 0:
        what = "Batches" if worst.kind == "run" else "Loads"
        off = abs(worst.actual_s / worst.expected_s - 1)
        longer = f"{figure(off * 100)} % {'longer' if slower else 'less'}"
        return (
            f"{what} of {worst.model} took {longer} than expected: {worst.actual_s * 1e3:.4g} ms instead of "
            f"{worst.expected_s * 1e3:.4g} ms on average ({worst.count})."
        )
    stated = {s.model: s.replicas[0].profile.latency_cv if cv is None else cv for s in world.services}
    uneven = [one for one in times if one.kind == "run" and one.spread > 1.5 * stated[one.model] + 0.01]
    if uneven:
        one = max(uneven, key=lambda found: found.spread * found.count * found.expected_s)
        return (
            f"Batches of {one.model} took {one.spread * 100:.3g} % more or less each time, where "
            f"{stated[one.model] * 100:.3g} % was expected. On average they took what was expected."
        )
    if over.batches and over.share > SAME / 2:
        return f"The harness took {over.mean_s * 1e3:.3g} ms for each batch, {over.share * 100:.2g} % of the time."
    return f"No action differs from what was expected by more than {SAME * 100:.0f} %: chance of one run."
