"""Drawn speeds: what they settle of a world without a replay is what its backlog shows, and no more."""

from dataclasses import replace

import numpy as np
import pytest
from support import pipelines
from support.pipelines import after, model, pipeline
from support.random_worlds import doubted, in_turns, piped, world
from support.worlds import deployment, profile, service

from simulator.clock.replays.drawn import FULL, DrawnSpeeds
from simulator.clock.stability import drain
from simulator.rules.speeds import Speeds
from simulator.world.curves import Interpolated
from simulator.world.deployment import BatchingPolicy, Deployment, Routing
from simulator.world.doubt import Doubt, drawn
from simulator.world.workload import Workload

SEEDS = range(4)


def rates_rps(asked: Workload, at: Deployment) -> dict[str, float]:
    """Of models and pipelines, as often as streams send."""
    return {name: rate for name, rate in asked.rates_rps().items() if rate} if at.services else {}


def speeds_of(at: Deployment) -> Speeds:
    """Those of all replicas."""
    replicas = [replica for service in at.services for replica in service.replicas]
    return Speeds(replicas, {device.id: device.gpu for device in at.devices})


@pytest.mark.parametrize(("made", "least", "least_named"), [(world, 50, 0), (in_turns, 50, 0), (piped, 15, 5)])
def test_what_is_overloaded_grows(made, least: int, least_named: int) -> None:
    found = named = 0
    for seed in range(30):
        at, asked = made(seed)
        at = replace(doubted(at, seed), failures=None)
        speeds = DrawnSpeeds(at, rates_rps(asked, at))
        if not speeds.are_known:
            continue
        busy = speeds.busy(SEEDS)
        overloaded = speeds.overloaded(busy)
        for place in np.flatnonzero(busy.max(axis=1) > FULL):
            growing = drain(drawn(at, SEEDS[place]), speeds.rates_rps).growing
            names = {name for name, one in overloaded.items() if one[place]}
            assert growing, seed
            assert names <= set(growing), seed
            found, named = found + 1, named + len(names)
    assert found > least
    assert named >= least_named


def test_the_batches_that_take_it_furthest_decide() -> None:
    """12 ms alone, 20 ms for two: at most 100 a second, of which one GPU alone has all and each of two the half."""
    quick = service(profile("m", [0.012, 0.02]), batch=BatchingPolicy(max_batch_size=2))
    two = replace(quick, replicas=(*quick.replicas, replace(quick.replicas[0], devices=("g1",))))
    for rate_rps, at, too_much in [
        (99.9, deployment(quick), False),
        (100.1, deployment(quick), True),
        (199.9, deployment(two, devices=2), False),
        (200.1, deployment(two, devices=2), True),
    ]:
        speeds = DrawnSpeeds(at, {"m": rate_rps})
        assert speeds.overloaded(speeds.busy([0]))["m"].tolist() == [too_much]


def test_of_a_pipeline_the_frames_wait_for_the_stage_that_does_not_keep_up() -> None:
    """100 frames a second with 2 items each, of 4 ms: 0.8 of a GPU; with 3 of them 1.2."""
    for items, too_much in [(2.0, False), (3.0, True)]:
        asked = pipeline(model("first"), model("second", after("first", items)))
        at = pipelines.deployment(
            asked,
            service(profile("p.first", 0.001), devices=["g0"]),
            service(profile("p.second", 0.004), devices=["g1"]),
            devices=2,
        )
        speeds = DrawnSpeeds(at, {"p": 100.0})
        assert speeds.overloaded(speeds.busy([0]))["p"].tolist() == [too_much]


def test_a_world_that_is_slower_in_nothing_takes_no_longer() -> None:
    """But where an error changes its sign with the batch: made so by lines that go on below zero."""
    slower = disorder = 0
    for seed in range(40):
        at = doubted(world(seed)[0], seed)
        speeds = DrawnSpeeds(at, {})
        slowness, service_s = speeds.slowness(range(24)), speeds_of(at).costs(range(24)).service_s
        for mine, takes_s in zip(slowness, service_s, strict=True):
            above = (slowness >= mine).all(axis=1)
            slower += np.count_nonzero(above) - 1
            in_order = (service_s[above] >= takes_s).all()
            disorder += not in_order
            assert in_order or not speeds.are_in_order
    assert slower > 500
    assert disorder


def test_the_least_time_of_a_request_is_that_of_the_best_batch() -> None:
    for seed in range(10):
        at = doubted(world(seed)[0], seed)
        speeds = speeds_of(at)
        service_s = speeds.costs(range(8)).service_s
        for number, most in enumerate(speeds.caps):
            sizes = np.arange(1, most + 1)
            best_s = (service_s[:, number, sizes] / sizes).min(axis=1)
            assert speeds.least_s(range(8))[:, number] == pytest.approx(best_s, rel=1e-12)


def test_where_somebody_else_decides_what_a_gpu_gets_nothing_is_known() -> None:
    doubt = Doubt(error_sd=Interpolated((1.0,), (0.3,)), shared=0.5)
    uncertain = replace(profile("m"), doubt=doubt)
    assert DrawnSpeeds(deployment(service(uncertain)), {}).are_known
    assert not DrawnSpeeds(deployment(service(uncertain, routing=Routing.SHARED)), {}).are_known
    assert not DrawnSpeeds(deployment(service(uncertain, devices=[("g0", "g1")]), devices=2), {}).are_known
