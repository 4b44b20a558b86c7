"""Speeds that are known only so well: how far drawn worlds lie apart, and what they have in common."""

from dataclasses import replace
from math import log, log1p, sqrt
from statistics import NormalDist

import numpy as np
import pytest
from scipy import stats

from simulator.clock.metrics import summarise
from simulator.clock.run import simulate
from simulator.world.curves import Interpolated, LoadTime
from simulator.world.deployment import Deployment, Replica, Service
from simulator.world.doubt import STRATA, DrawnTogether, drawn
from simulator.world.hardware import GPU, Device, Host
from simulator.world.model import Layer
from simulator.world.profile import Doubt, Evidence, Profile
from simulator.world.workload import SLO, FixedRate, Stream, Workload

WORLDS = 4000
CONFIDENCE = 0.999
PROFILE = Profile(
    model="detector",
    gpu="any",
    precision="fp32",
    layers=(Layer("detector", 10_000_000),),
    latency=Interpolated((1, 8), (0.010, 0.024)),
    workspace=Interpolated((1, 8), (1e6, 8e6)),
    load=LoadTime(0, 1e10),
    latency_evidence=Evidence.ASSUMED,
    memory_evidence=Evidence.ASSUMED,
    load_evidence=Evidence.ASSUMED,
    source="made up",
    as_of="2026-11-23",
)


def flat(value: float) -> Interpolated:
    """The same for every batch."""
    return Interpolated((1.0,), (value,))


def one_gpu(profile: Profile, gpus: int = 1) -> Deployment:
    """A service on some GPUs of one host."""
    kind = GPU(
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
    devices = tuple(
        Device(id=f"gpu{i}", gpu=kind, host="host", memory_bytes=kind.memory_bytes, context_bytes=0)
        for i in range(gpus)
    )
    replicas = tuple(Replica(profile=profile, devices=(device.id,)) for device in devices)
    return Deployment(
        services=(Service(model=profile.model, slo=SLO(0.1), replicas=replicas),),
        devices=devices,
        hosts=(Host(id="host", memory_bytes=None, pcie_root_bytes_per_s=1e10),),
    )


def test_run_times_that_vary_in_any_way_are_not_fixed() -> None:
    """By a coefficient of variation, or by factors that were measured."""
    assert one_gpu(PROFILE).is_fixed
    assert not one_gpu(replace(PROFILE, latency_cv=0.1)).is_fixed
    assert not one_gpu(replace(PROFILE, latency_factors=((1, (0.5, 1.5)),))).is_fixed


def times(deployment: Deployment, worlds: int = WORLDS) -> np.ndarray:
    """Time of one frame on each GPU, by world."""
    rows = [[r.profile.latency(1) for r in drawn(deployment, seed).services[0].replicas] for seed in range(worlds)]
    return np.array(rows)


def holds_variance(sample: np.ndarray, variance: float) -> bool:
    """Whether a normal sample's variance agrees (chi-squared)."""
    low, high = stats.chi2.interval(CONFIDENCE, len(sample) - 1)
    return bool(low <= (len(sample) - 1) * np.var(sample, ddof=1) / variance <= high)


def test_a_known_speed_is_what_it_is() -> None:
    deployment = one_gpu(PROFILE)
    assert drawn(deployment, 1) is deployment


def test_sessions_differ_as_they_were_measured_to_and_not_on_the_mean() -> None:
    cv = 0.2
    factors = times(one_gpu(replace(PROFILE, session_cv=cv), gpus=2)) / 0.010
    assert holds_variance(np.log(factors[:, 0]), log1p(cv**2))
    mean_error = NormalDist().inv_cdf((1 + CONFIDENCE) / 2) * cv / sqrt(WORLDS)
    assert abs(factors[:, 0].mean() - 1) < mean_error
    assert abs(stats.pearsonr(factors[:, 0], factors[:, 1]).statistic) < stats.norm.ppf((1 + CONFIDENCE) / 2) / sqrt(
        WORLDS
    )


@pytest.mark.parametrize("quantile", [-1.0, 0.0, 1.645])
def test_a_prediction_is_exceeded_as_often_as_its_quantile_says(quantile: float) -> None:
    doubted = replace(PROFILE, doubt=Doubt(error_sd=flat(0.3), shared=0.5, quantile=quantile))
    faster = int((times(one_gpu(doubted))[:, 0] <= 0.010).sum())
    share = NormalDist().cdf(quantile)
    low, high = stats.binom.interval(CONFIDENCE, WORLDS, share)
    assert low <= faster <= high


@pytest.mark.parametrize("shared", [0.0, 0.5, 0.9])
def test_models_on_one_kind_err_together(shared: float) -> None:
    doubt = Doubt(error_sd=flat(0.3), shared=shared)
    pairs = np.array([DrawnTogether(range(WORLDS)).error(doubt, model, "any") for model in ("a", "b")]).T
    found = stats.pearsonr(pairs[:, 0], pairs[:, 1]).confidence_interval(CONFIDENCE)
    assert found.low <= shared <= found.high
    assert holds_variance(pairs[:, 0], 1.0)


def test_seeds_in_a_row_meet_each_part_of_what_may_be_once() -> None:
    """Of a kind's speeds as of a model's own on it, in orders that have nothing to do with each other."""
    parts = NormalDist().inv_cdf
    edges = [parts(k / STRATA) for k in range(1, STRATA)]
    orders = []
    for shared in (0.0, 1.0):
        doubt = Doubt(error_sd=flat(0.3), shared=shared)
        errors = DrawnTogether(range(5 * STRATA, 6 * STRATA)).error(doubt, "a", "any")
        orders.append(np.searchsorted(edges, errors).tolist())
    assert [sorted(order) for order in orders] == [list(range(STRATA))] * 2
    assert orders[0] != orders[1]


def test_seeds_far_apart_are_draws_at_random() -> None:
    seeds = np.random.default_rng(1).integers(0, 2**63, WORLDS).tolist()
    doubt = Doubt(error_sd=flat(0.3), shared=0.5)
    errors = DrawnTogether(seeds).error(doubt, "a", "any")
    assert stats.kstest(errors, "norm").pvalue > 1 - CONFIDENCE


def test_all_deployments_meet_the_same_worlds() -> None:
    doubted = replace(PROFILE, session_cv=0.1, doubt=Doubt(error_sd=flat(0.3), shared=0.5))
    few, many = times(one_gpu(doubted), 20), times(one_gpu(doubted, gpus=3), 20)
    assert (few[:, 0] == many[:, 0]).all()


def test_the_load_of_a_gpu_varies_between_worlds_as_its_speed_does() -> None:
    cv, runs = 0.2, 400
    deployment = one_gpu(replace(PROFILE, session_cv=cv))
    demand = Workload((Stream(model="detector", arrivals=FixedRate(20.0, 0.0, 0.0), count=1),))
    busy = [summarise(simulate(deployment, demand, 10.0, seed)).devices["gpu0"].utilization for seed in range(runs)]
    assert holds_variance(np.log(busy), log1p(cv**2))
    assert log(np.mean(busy) / 0.2) == pytest.approx(0, abs=4 * cv / sqrt(runs))


def test_the_same_seed_is_the_same_world() -> None:
    doubted = one_gpu(replace(PROFILE, doubt=Doubt(error_sd=flat(0.3), shared=0.5)))
    assert drawn(doubted, 7) == drawn(doubted, 7) != drawn(doubted, 8)
