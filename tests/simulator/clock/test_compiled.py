"""The machine code for plain GPUs against the loop in Python, which is the reference: equal to the last bit."""

import numpy as np
import pytest

from simulator.clock import run
from simulator.clock.records import SimulationResult
from simulator.world.curves import Interpolated, LoadTime
from simulator.world.deployment import SLO, BatchingPolicy, Deployment, Drop, Replica, Scheduling, Service
from simulator.world.hardware import GPU, Device, Host
from simulator.world.model import Layer
from simulator.world.profile import Evidence, Profile
from simulator.world.workload import FixedRate, Gamma, Poisson, Stream, Workload

pytest.importorskip("numba")

WORLDS = 1_000
DURATION_S = 5.0
KIND = GPU(
    name="any",
    memory_bytes=16_000_000_000,
    memory_bytes_per_s=3e11,
    fp32_flops=1e13,
    tensor_fp16_flops=None,
    tdp_w=70,
    idle_w=10,
    pcie_bytes_per_s=1e10,
    nvlink_bytes_per_s=None,
    source="made up",
)


def profile(rng: np.random.Generator, model: str) -> Profile:
    """Of any speed, growth with the batch and spread, exponential at most."""
    floor_s, slope_s = rng.uniform(0.001, 0.02), rng.uniform(0, 0.01)
    return Profile(
        model=model,
        gpu=KIND.name,
        precision="fp32",
        layers=(Layer(model, 10_000_000),),
        latency=Interpolated((1, 16), (floor_s, floor_s + 15 * slope_s)),
        latency_cv=float(rng.choice([0, 0.05, 0.5, 1])),
        workspace=Interpolated((1, 16), (1e6, 1e7)),
        load=LoadTime(0, 1e10),
        latency_evidence=Evidence.ASSUMED,
        memory_evidence=Evidence.ASSUMED,
        load_evidence=Evidence.ASSUMED,
        source="made up",
        as_of="2026-11-23",
    )


def service(rng: np.random.Generator, model: str, gpus: list[str]) -> Service:
    """On some of the GPUs, by any rule of batching and dropping."""
    of_one, chosen = profile(rng, model), [gpu for gpu in gpus if rng.random() < 0.7] or gpus[:1]
    replicas = tuple(
        Replica(
            profile=of_one,
            devices=(gpu,),
            batching=BatchingPolicy(
                max_batch_size=int(rng.choice([1, 2, 3, 4, 8, 16])),
                max_queue_delay_s=float(rng.choice([0, 0, 0.01, 0.1])),
                padded=bool(rng.random() < 0.2),
            ),
            share=float(rng.choice([1, 2])),
        )
        for gpu in chosen
    )
    drop = list(Drop)[rng.integers(len(Drop))]
    return Service(model=model, slo=SLO(float(rng.uniform(0.01, 0.3)), 0.95), replicas=replicas, drop=drop)


def stream(rng: np.random.Generator, model: str) -> Stream:
    """Cameras in step, apart or unsteady, and random traffic, from idle to overload."""
    rate_rps = float(rng.uniform(1, 60))
    arrivals = [
        FixedRate(rate_rps, None, 0.0),
        FixedRate(rate_rps, 0.0, 0.0),
        FixedRate(rate_rps, None, 0.01),
        Poisson(rate_rps),
        Gamma(rate_rps, 2.0),
    ]
    return Stream(model=model, arrivals=arrivals[rng.integers(len(arrivals))], count=int(rng.integers(1, 5)))


def world(seed: int) -> tuple[Deployment, Workload]:
    """One to three GPUs with one to six models."""
    rng = np.random.default_rng(seed)
    gpus = [f"gpu{i}" for i in range(rng.integers(1, 4))]
    models = [f"model{i}" for i in range(rng.integers(1, 7))]
    deployment = Deployment(
        services=tuple(service(rng, model, gpus) for model in models),
        devices=tuple(
            Device(id=gpu, gpu=KIND, host="host", memory_bytes=KIND.memory_bytes, context_bytes=0) for gpu in gpus
        ),
        hosts=(Host(id="host", memory_bytes=None, pcie_root_bytes_per_s=1e10),),
        scheduling=list(Scheduling)[rng.integers(len(Scheduling))],
    )
    return deployment, Workload(tuple(stream(rng, model) for model in models))


def replayed(monkeypatch: pytest.MonkeyPatch, seed: int, *, compiled: bool) -> SimulationResult:
    """One replay of a world, by machine code or not."""
    monkeypatch.setattr(run.Compiled, "installed", compiled)
    monkeypatch.setattr(run.Compiled, "worth_requests", 0)
    return run.simulate(*world(seed), DURATION_S, seed)


def columns(result: SimulationResult) -> list[np.ndarray]:
    """All that happened: of each request, and of each batch."""
    requests = [[r.start_s, r.finish_s, r.outcome] for r in result.requests.values()]
    batches = [[b.start_s, b.finish_s, b.count, b.aborted] for b in result.batches]
    return [column for group in (*requests, *batches) for column in group]


def test_every_request_and_batch_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(WORLDS):
        ours = columns(replayed(monkeypatch, seed, compiled=True))
        reference = columns(replayed(monkeypatch, seed, compiled=False))
        assert len(ours) == len(reference)
        for column, expected in zip(ours, reference, strict=True):
            np.testing.assert_array_equal(column, expected, err_msg=f"world {seed}")


def test_it_is_fetched_once_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    deployment, workload = world(1)
    served: list[object] = []
    monkeypatch.setattr(run.Compiled, "serve", served.append)
    monkeypatch.setattr(run.Compiled, "installed", True)
    monkeypatch.setattr(run.Compiled, "seen_requests", 0)
    run.simulate(deployment, workload, DURATION_S, 1)
    assert not served
    monkeypatch.setattr(run.Compiled, "seen_requests", run.Compiled.worth_requests)
    run.simulate(deployment, workload, DURATION_S, 1)
    assert len(served) == len(deployment.devices)
