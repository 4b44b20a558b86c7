"""Simulating a recorded run: the deployment as fast as it was rehearsed, with the errors that its costs may have."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from planner.questions.validation.pipelines import at_pace, core_stages
from planner.questions.validation.recording import Recording
from planner.questions.validation.speed import (
    ByModel,
    BySize,
    Harness,
    RehearsedSpeed,
    load_errors,
    of_size,
    run_errors,
)
from planner.questions.validation.takes import cut, in_sequence
from simulator.clock.metrics import Summary, summarise
from simulator.clock.run import simulate
from simulator.rules.overlap import beside_process
from simulator.world.curves import Interpolated, LoadTime
from simulator.world.deployment import Deployment, Service
from simulator.world.profile import Profile
from simulator.world.workload import Demand, Stream, Trace, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """What a simulation knows of a run beforehand."""

    speeds: Sequence[RehearsedSpeed]
    """Speed of the device around each take."""
    harness: Harness
    """Times that the harness takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherCosts:
    """Costs other than those known beforehand."""

    run: Mapping[str, BySize] = field(default_factory=dict)
    """Factors on run times, by model and batch size."""
    load: ByModel = field(default_factory=dict)
    """Factors on load times, by model."""
    work: ByModel = field(default_factory=dict)
    """Factors on times of a core, by stage."""
    cv: ByModel = field(default_factory=dict)
    """Spread of one batch's run time, by model."""
    certain: bool = False
    """Whether costs are just these, without a draw of their errors."""


NO_CHANGES = OtherCosts()


def simulated(recording: Recording, basis: Basis, replications: int, changes: OtherCosts = NO_CHANGES) -> list[Summary]:
    """Replications with the arrivals that came, each with fresh noise, and costs off by a draw of their errors."""
    takes = [
        (as_rehearsed(recording, speed, workload, changes), speed, workload)
        for speed, workload in zip(basis.speeds, workloads(recording), strict=True)
    ]
    summaries = []
    for number, seed in enumerate(np.random.SeedSequence(recording.result.seed).spawn(replications)):
        rng = np.random.default_rng(seed)
        results = []
        for (deployment, speed, workload), lasts_s in zip(takes, recording.lasts_s, strict=True):
            drawn = deployment if changes.certain else disturbed(deployment, recording, speed, rng)
            results.append(simulate(drawn, workload, lasts_s, number, basis.harness.delays(rng, speed.beside_core)))
        summaries.append(summarise(in_sequence(results), recording.warmup_s))
    return summaries


def workloads(recording: Recording) -> list[Workload]:
    """The arrivals of each take, counted from its beginning."""
    came = {
        model: Demand(asked.arrival_s, asked.source)
        for model, asked in recording.result.requests.items()
        if model not in recording.result.frames
    }
    return [
        Workload(tuple(Stream(model, Trace(one.arrival_s, lasts_s)) for model, one in asked.items()))
        for asked, lasts_s in zip(cut(came, recording.lasts_s), recording.lasts_s, strict=True)
    ]


def as_rehearsed(
    recording: Recording, speed: RehearsedSpeed, workload: Workload, changes: OtherCosts = NO_CHANGES
) -> Deployment:
    """The deployment as fast as it was rehearsed, but for what changes, processes slowing each other down.

    A process whose batches take k times as long while the others run too, which they do for a share u of the time,
    takes 1 + (k - 1) u times as long on average. The shares are those of a first simulation without it, then of a
    second with it.
    """
    deployment = recording.result.deployment
    cv = {} if speed.cv is None else dict.fromkeys((one.model for one in deployment.services), speed.cv)
    deployment = spread(stretched(deployment, speed.run, speed.load, cv), speed.run_spread)
    deployment = stretched(deployment, changes.run, changes.load, changes.cv)
    deployment = at_pace(at_pace(deployment, speed.work, speed.work_spread), changes.work)
    if not speed.slowdown:
        return deployment
    slowed = deployment
    for _ in range(2):
        devices = summarise(simulate(slowed, workload, recording.result.duration_s)).devices
        factors = {}
        for name, slowdown in speed.slowdown.items():
            others_busy = max(device.utilization for other, device in devices.items() if other != name)
            factors[name] = 1 + (slowdown - 1) * others_busy
        runs = {one.model: {1: factors.get(one.replicas[0].devices[0], 1.0)} for one in deployment.services}
        slowed = stretched(deployment, runs)
    return slowed


def expected_slowdown(deployment: Deployment) -> ByModel:
    """By device: how many times as long two processes take beside each other, by the shares of their time that kernels
    keep the GPU busy; nothing where they are not two or that is not known."""
    shares = {device.id: busy_share(deployment, device.id) for device in deployment.devices}
    match list(shares.items()):
        case [(first, float(one)), (second, float(other))]:
            return dict.fromkeys((first, second), beside_process(one, other))
    return {}


def busy_share(deployment: Deployment, device: str) -> float | None:
    """Share of its time alone that a process keeps the GPU busy, in full batches of all its models in turn; None where
    that is not known of one."""
    replicas = [service.replicas[0] for service in deployment.services if device in service.replicas[0].devices]
    busy_s = run_s = 0.0
    for replica in replicas:
        batch = replica.batching.max_batch_size
        if replica.profile.busy_s is None:
            return None
        busy_s += replica.profile.busy_s(batch)
        run_s += replica.profile.latency(batch)
    return min(1.0, busy_s / run_s)


def disturbed(
    deployment: Deployment, recording: Recording, speed: RehearsedSpeed, rng: np.random.Generator
) -> Deployment:
    """The deployment with run times and load times off by a draw of their errors.

    All models share one draw of run times, with the core, and one of load times; each model and batch size has one of
    run times more. Factors are lognormal, for a cost is never below zero.
    """
    run_draw, load_draw = rng.standard_normal(2)
    common, own = run_errors(recording, speed)
    load_error = load_errors(recording, speed)
    runs: dict[str, dict[int, float]] = {}
    loads: dict[str, float] = {}
    for service in deployment.services:
        model = service.model
        runs[model] = {
            size: float(np.exp(run_draw * common.get(model, 0.0) + rng.standard_normal() * error))
            for size, error in own.get(model, {1: 0.0}).items()
        }
        loads[model] = float(np.exp(load_draw * load_error.get(model, 0.0)))
    core = float(np.exp(run_draw * max(common.values(), default=0.0)))
    return at_pace(stretched(deployment, runs, loads), dict.fromkeys(core_stages(deployment.pipelines), core))


def stretched(
    deployment: Deployment, run: Mapping[str, BySize], load: ByModel | None = None, cv: ByModel | None = None
) -> Deployment:
    """The same deployment with run times of each model and batch size, and load times of each model, times a factor.

    `cv`: spread of one batch's run time instead of the profiles', of some models.
    """
    load, cv = load or {}, cv or {}
    services = [
        stretched_service(one, run.get(one.model, {}), load.get(one.model, 1.0), cv.get(one.model))
        for one in deployment.services
    ]
    return replace(deployment, services=tuple(services))


def spread(deployment: Deployment, factors: Mapping[str, tuple[float, ...]]) -> Deployment:
    """The same deployment with batches of some models that spread as they were seen to."""

    def of_service(service: Service) -> Service:
        seen = ((1, factors[service.model]),)
        replicas = [replace(one, profile=replace(one.profile, latency_factors=seen)) for one in service.replicas]
        return replace(service, replicas=tuple(replicas))

    services = [of_service(one) if one.model in factors else one for one in deployment.services]
    return replace(deployment, services=tuple(services))


def stretched_service(service: Service, run: BySize, load: float, cv: float | None) -> Service:
    """One model with its times multiplied."""
    replicas = [
        replace(replica, profile=stretched_profile(replica.profile, replica.batching.max_batch_size, run, load, cv))
        for replica in service.replicas
    ]
    return replace(service, replicas=tuple(replicas))


def stretched_profile(profile: Profile, most: int, run: BySize, load: float, cv: float | None) -> Profile:
    """One profile with its times multiplied, for batches up to `most`; the spread between sessions is drawn here."""
    batches = range(1, most + 1)
    latencies_s = [of_size(run, batch) * profile.latency(batch) for batch in batches]
    pageable = profile.pageable_bytes_per_s
    return replace(
        profile,
        latency=Interpolated(tuple(map(float, batches)), tuple(latencies_s)),
        latency_cv=profile.latency_cv if cv is None else cv,
        latency_factors=profile.latency_factors if cv is None else (),
        session_cv=0.0,
        load=LoadTime(load * profile.load.t0_s, profile.load.bytes_per_s / load),
        pageable_bytes_per_s=None if pageable is None else pageable / load,
    )
