"""Simulating a recorded run: the deployment as fast as it was rehearsed, with the errors that its costs may have."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from planner.questions.validation.recording import Recording
from planner.questions.validation.speed import ByModel, BySize, RehearsedSpeed, load_errors, of_size, run_errors
from simulator.clock.metrics import Summary, summarise
from simulator.clock.run import simulate
from simulator.world.curves import Interpolated, LoadTime
from simulator.world.deployment import Deployment, Service
from simulator.world.profile import Profile
from simulator.world.workload import Stream, Trace, Workload


def simulated(recording: Recording, speed: RehearsedSpeed, replications: int) -> list[Summary]:
    """Replications with the arrivals that came, each with fresh noise, and costs off by a draw of their errors."""
    result = recording.result
    arrivals = [
        Stream(model, Trace(requests.arrival_s, result.duration_s)) for model, requests in result.requests.items()
    ]
    workload = Workload(tuple(arrivals))
    rehearsed = as_rehearsed(recording, speed, workload)
    summaries = []
    for number, seed in enumerate(np.random.SeedSequence(result.seed).spawn(replications)):
        deployment = disturbed(rehearsed, recording, speed, np.random.default_rng(seed))
        replication = simulate(deployment, workload, result.duration_s, number)
        summaries.append(summarise(replication, recording.warmup_s))
    return summaries


def as_rehearsed(recording: Recording, speed: RehearsedSpeed, workload: Workload) -> Deployment:
    """The deployment as fast as it was rehearsed, processes slowing each other down.

    A process whose batches take k times as long while the others run too, which they do for a share u of the time,
    takes 1 + (k - 1) u times as long on average. The shares are those of a first simulation without it, then of a
    second with it.
    """
    deployment = stretched(recording.result.deployment, speed.run, speed.load, speed.cv)
    if not speed.slowdown:
        return deployment
    slowed = deployment
    for _ in range(2):
        devices = summarise(simulate(slowed, workload, recording.result.duration_s)).devices
        factors = {}
        for name, slowdown in speed.slowdown.items():
            others_busy = max(device.utilization for other, device in devices.items() if other != name)
            factors[name] = 1 + (slowdown - 1) * others_busy
        runs = {}
        for service in deployment.services:
            device_name = service.replicas[0].devices[0]
            runs[service.model] = {1: factors.get(device_name, 1.0)}
        slowed = stretched(deployment, runs)
    return slowed


def disturbed(
    deployment: Deployment, recording: Recording, speed: RehearsedSpeed, rng: np.random.Generator
) -> Deployment:
    """The deployment with run times and load times off by a draw of their errors.

    All models share one draw of run times and one of load times; each model and batch size has one of run times more.
    Factors are lognormal, for a cost is never below zero.
    """
    run_draw, load_draw = rng.standard_normal(2)
    common, own = run_errors(recording, speed)
    load_error = load_errors(recording, speed)
    runs: dict[str, dict[int, float]] = {}
    loads: dict[str, float] = {}
    for service in deployment.services:
        model = service.model
        factors = {}
        for size, error in own.get(model, {1: 0.0}).items():
            factors[size] = float(np.exp(run_draw * common.get(model, 0.0) + rng.standard_normal() * error))
        runs[model] = factors
        loads[model] = float(np.exp(load_draw * load_error.get(model, 0.0)))
    return stretched(deployment, runs, loads)


def stretched(
    deployment: Deployment, run: Mapping[str, BySize], load: ByModel | None = None, cv: float | None = None
) -> Deployment:
    """The same deployment with run times of each model and batch size, and load times of each model, times a factor.

    `cv`: spread of one batch's run time instead of the profiles'.
    """
    load = load or {}
    services = [
        stretched_service(service, run.get(service.model, {}), load.get(service.model, 1.0), cv)
        for service in deployment.services
    ]
    return replace(deployment, services=tuple(services))


def stretched_service(service: Service, run: BySize, load: float, cv: float | None) -> Service:
    """One model with its times multiplied."""
    replicas = [
        replace(replica, profile=stretched_profile(replica.profile, replica.batching.max_batch_size, run, load, cv))
        for replica in service.replicas
    ]
    return replace(service, replicas=tuple(replicas))


def stretched_profile(profile: Profile, most: int, run: BySize, load: float, cv: float | None) -> Profile:
    """One profile with its times multiplied, for batches up to `most`."""
    batches = range(1, most + 1)
    latencies_s = [of_size(run, batch) * profile.latency(batch) for batch in batches]
    pageable = profile.pageable_bytes_per_s
    return replace(
        profile,
        latency=Interpolated(tuple(map(float, batches)), tuple(latencies_s)),
        latency_cv=profile.latency_cv if cv is None else cv,
        load=LoadTime(load * profile.load.t0_s, profile.load.bytes_per_s / load),
        pageable_bytes_per_s=None if pageable is None else pageable / load,
    )
