"""Metrics of records made by hand, verdicts and intervals, and what failures do."""

from dataclasses import replace
from itertools import pairwise, repeat
from math import isnan, nan, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from support import worlds

from benchmarks.coverage import SENT, coverage
from simulator.clock.metrics import (
    accuracy,
    at_best,
    attainment_interval,
    confidence_interval,
    draws_interval,
    drifts,
    long_run,
    share_interval,
    summarise,
)
from simulator.clock.records import Batches, Load, MemoryUse, Outcome, Requests, SimulationResult, Stall
from simulator.clock.run import World, draw_outages, simulate
from simulator.rules.queues import Delays, Outage
from simulator.world.curves import LoadTime
from simulator.world.deployment import BatchingPolicy, Deployment, Failures, Routing, SwapPolicy
from simulator.world.model import Layer
from simulator.world.profile import AfterLoad
from simulator.world.workload import FixedRate, Poisson, Stream, Trace, Workload, draw


def by_hand(**changes: object) -> SimulationResult:
    """Ten seconds of one GPU; SLO 1 s. Fates: in time, late, in time, dropped, overdue, waiting within its SLO."""
    requests = Requests(
        arrival_s=np.array([0.0, 1.0, 2.0, 3.0, 8.0, 9.5]),
        source=np.zeros(6, dtype=np.int32),
        start_s=np.array([0.0, 1.5, 2.5, 3.0, 8.0, nan]),
        finish_s=np.array([0.5, 2.5, 3.0, nan, nan, nan]),
        outcome=np.array([0, 0, 0, 1, 3, 2], dtype=np.int8),
    )
    batches = Batches(
        model="m",
        device="g0",
        start_s=np.array([0.0, 1.5, 2.5, 7.0, 8.0]),
        finish_s=np.array([0.5, 2.5, 3.0, 7.5, 12.0]),
        count=np.array([1, 1, 1, 9, 1], dtype=np.int32),
        aborted=np.array([False, False, False, True, False]),
    )
    facts: dict[str, object] = {
        "deployment": worlds.deployment(worlds.service(worlds.profile("m", busy_w=200.0), slo_s=1.0)),
        "duration_s": 10.0,
        "seed": 1,
        "requests": {"m": requests},
        "batches": (batches,),
        "loads": (Load("m", "g0", 0.0, 0.5, 10, False), Load("m", "g0", 4.0, 5.0, 10, False)),
        "stalls": (Stall("g0", 4.0, 5.0), Stall("g0", 9.0, 11.0)),
        "memory": {"g0": MemoryUse(np.array([0.0, 1.0, 2.0]), np.array([5, 9, 7]))},
        "wall_s": 0.0,
    }
    return SimulationResult(**(facts | changes))  # type: ignore[arg-type]


def test_a_model_by_hand() -> None:
    m = summarise(by_hand()).models["m"]
    assert (m.arrived, m.finished, m.dropped, m.waiting, m.running, m.judged) == (6, 3, 1, 1, 1, 5)
    assert (m.offered_rps, m.throughput_rps, m.goodput_rps) == pytest.approx((0.6, 0.3, 0.2))
    assert (m.processed_fraction, m.dropped_fraction, m.slo_attainment) == pytest.approx((3 / 5, 1 / 6, 2 / 5))
    assert (m.mean_s, m.p50_s, m.p90_s, m.p99_s) == pytest.approx((1.0, 1.0, 1.4, 1.49))
    assert (m.mean_queueing_s, m.mean_batch_size) == pytest.approx((1 / 3, 1.0))
    assert m.joules_per_inference == pytest.approx(200 * (0.5 + 1 + 0.5 + 0.5 + 2) / 3)


def test_a_warm_up_leaves_out_who_came_early() -> None:
    m = summarise(by_hand(), warmup_s=2.0).models["m"]
    assert (m.arrived, m.finished, m.judged, m.slo_attainment) == (4, 1, 3, pytest.approx(1 / 3))
    assert (m.offered_rps, m.goodput_rps) == pytest.approx((0.5, 0.125))


def test_a_device_by_hand() -> None:
    device = summarise(by_hand()).devices["g0"]
    assert (device.utilization, device.load_share, device.loads) == (pytest.approx(0.45), pytest.approx(0.2), 2)
    assert (device.swaps_per_s, device.peak_memory_bytes) == (pytest.approx(0.2), 9)
    assert device.energy_j == pytest.approx(4.5 * 200 + 5.5 * worlds.CARD.idle_w)
    assert device.mean_power_w == pytest.approx(device.energy_j / 10)


def test_nothing_asked_is_nothing_known() -> None:
    idle = worlds.deployment(worlds.service(worlds.profile("m")))
    summary = summarise(simulate(idle, Workload((Stream("m", Poisson(1e-9)),)), 1.0))
    assert summary.models["m"].arrived == 0
    assert isnan(summary.models["m"].slo_attainment)
    assert summary.models["m"].backlog_growth == 0
    assert summary.devices["g0"].utilization == 0


def test_a_swapping_gpu_without_requests_holds_its_context() -> None:
    pair = worlds.service(worlds.profile("m")), worlds.service(worlds.profile("other"))
    small = worlds.deployment(*pair, memory_bytes=12 * 10**7, context_bytes=7)
    summary = summarise(simulate(small, Workload((Stream("m", Poisson(1e-9)),)), 1.0))
    assert summary.devices["g0"].peak_memory_bytes == 7


def test_a_lost_frame_is_wrong_or_reuses_the_last_result() -> None:
    """Two cameras, one frame a second. Camera 0: in time at 0, 1 and 3 s; camera 1: lost, in time, then late."""
    requests = Requests(
        arrival_s=np.array([0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0]),
        source=np.array([0, 1, 0, 1, 0, 1, 0, 0], dtype=np.int32),
        start_s=np.array([0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0]),
        finish_s=np.array([0.1, nan, 1.1, 1.6, nan, 9.0, 3.1, nan]),
        outcome=np.array([0, 1, 0, 0, 1, 0, 0, 1], dtype=np.int8),
    )
    result = by_hand(requests={"m": requests})
    assert accuracy(result, {"m": 0.8}, None) == {"m": pytest.approx(0.8 * 4 / 8)}
    assert accuracy(result, {"m": 0.8}, 1.0) == {"m": pytest.approx(0.8 * (4 + 0.5 + 0.5 + 0.5) / 8)}
    assert accuracy(result, {"m": 0.8}, 1.0, warmup_s=1.0) == {"m": pytest.approx(0.8 * (3 + 1.5) / 6)}


@pytest.mark.parametrize(("load", "grows"), [(0.5, False), (0.9, False), (1.02, True), (1.3, True)])
def test_a_backlog_that_grows_is_told_from_one_that_comes_and_goes(load: float, grows: bool) -> None:
    device = worlds.deployment(worlds.service(worlds.profile("m", 0.01)))
    demand = Workload((Stream("m", Poisson(100 * load)),))
    seen = [summarise(simulate(device, demand, 300.0, seed), 30.0).models["m"] for seed in range(20)]
    assert drifts([3 * m.backlog_growth / m.arrived for m in seen]) is grows


def test_backlog_growth_by_hand() -> None:
    """Ten seconds: in [10/3, 20/3) nobody waits; in [20/3, 10) one from 8 s on and one from 9.5 s on."""
    assert summarise(by_hand()).models["m"].backlog_growth == pytest.approx((2.0 + 0.5) / (10 / 3))


def test_an_interval_by_students_t() -> None:
    assert confidence_interval([9, 10, 11]) == pytest.approx((10, 10 - 4.303 / sqrt(3), 10 + 4.303 / sqrt(3)), abs=1e-3)
    values = np.random.default_rng(1).normal(size=30)
    low, high = stats.t.interval(0.95, 29, values.mean(), stats.sem(values))
    assert confidence_interval(values) == pytest.approx((values.mean(), low, high))
    mean, *ends = confidence_interval([3.0])
    assert mean == 3.0
    assert all(isnan(end) for end in ends)


def test_an_interval_of_attainment_is_honest_near_one() -> None:
    assert attainment_interval([1.0, 1.0], [500, 500]) == pytest.approx((1.0, 0.99617, 1.0), abs=1e-5)
    wilson = stats.binomtest(95, 100).proportion_ci(method="wilson")
    assert attainment_interval([0.95], [100]) == pytest.approx((0.95, wilson.low, wilson.high))
    mean, low, high = attainment_interval([0.5, 1.0, 0.9], [10, 10, 0])
    assert (mean, low, high) == (0.75, 0.0, 1.0)
    assert attainment_interval([nan], [0]) == pytest.approx((nan, 0.0, 1.0), nan_ok=True)


FAILING = Failures(mean_time_between_s=30.0, recovery_s=10.0)


def test_time_away_is_as_expected() -> None:
    """Away for 10 of every 40 s on average."""
    rng = np.random.default_rng(3)
    away = [
        sum(min(o.finish_s, 4000.0) - o.start_s for o in draw_outages(FAILING, 4000.0, rng)) / 4000 for _ in range(60)
    ]
    _, low, high = confidence_interval(away)
    assert low <= 10 / 40 <= high


@pytest.mark.parametrize("duration_s", [1.0, 15.0, 100.0])
def test_time_away_is_as_expected_however_short_the_look(duration_s: float) -> None:
    """A quarter of the time, from the first moment on."""
    drawn = [draw_outages(FAILING, duration_s, np.random.default_rng(seed)) for seed in range(2000)]
    away = [sum(min(o.finish_s, duration_s) - o.start_s for o in outages) / duration_s for outages in drawn]
    assert np.mean(away) == pytest.approx(10 / 40, abs=4 * np.std(away) / len(away) ** 0.5)
    assert all(a.finish_s < b.start_s for outages in drawn for a, b in pairwise(outages))


def test_who_comes_too_late_to_be_judged_is_not_judged() -> None:
    """Served at once in 0.1 s, until all capacity goes at 9 s: those of the last second have until after the end."""
    requests = Requests(
        arrival_s=np.array([8.0, 8.9, 9.0, 9.1, 9.2, 9.3]),
        source=np.zeros(6, dtype=np.int32),
        start_s=np.array([8.0, 8.9, 9.0, 9.1, nan, nan]),
        finish_s=np.array([8.1, nan, 9.1, 9.2, nan, nan]),
        outcome=np.array([0, 3, 0, 0, 2, 1], dtype=np.int8),
    )
    result = by_hand(requests={"m": requests})
    m = summarise(result).models["m"]
    assert (m.judged, m.slo_attainment) == (3, pytest.approx(2 / 3))
    assert m.goodput_rps == pytest.approx(0.3)
    assert accuracy(result, {"m": 0.9}, None) == {"m": pytest.approx(0.6)}


def failing(**options: object) -> Deployment:
    """Two models that share 0.4 GB of 0.5; loading takes 0.05 s."""
    shared = Layer("shared", 4 * 10**8)
    services = [
        worlds.service(worlds.profile(name, 0.2, layers=(shared, Layer(name, 10**8))), slo_s=1.0) for name in "AB"
    ]
    return worlds.deployment(*services, failures=FAILING, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("memory_bytes", [10**9, 52 * 10**7])
def test_requests_survive_failures_and_weights_come_back(memory_bytes: int) -> None:
    demand = Workload((Stream("A", Poisson(1.0)), Stream("B", Poisson(1.0))))
    world = World(failing(memory_bytes=memory_bytes), draw(demand, 400.0, 1), 400.0, 1)
    world.run()
    outages = world.outages["h0"]
    assert len(outages) >= 5
    (gpu,) = world.gpus.values()
    for model in "AB":
        requests = world.requests(model)
        assert np.count_nonzero(requests.outcome == Outcome.FINISHED) >= len(requests.arrival_s) - 40
        assert not np.any(requests.outcome == Outcome.DROPPED)
    cut = [(s, f) for b in world.batches() for s, f in zip(b.start_s[b.aborted], b.finish_s[b.aborted], strict=True)]
    assert cut
    assert {finish for _, finish in cut} <= {o.start_s for o in outages}
    for o in outages:
        ran = [(s, f) for b in world.batches() for s, f in zip(b.start_s, b.finish_s, strict=True)]
        assert not any(s < o.finish_s - 1e-9 and f > o.start_s + 1e-9 for s, f in ran)
        if o.finish_s < 390:
            again = [load.size_bytes for load in gpu.loads if o.finish_s - 1e-9 <= load.start_s <= o.finish_s + 9]
            assert again[0] == 5 * 10**8


def test_weights_that_two_models_share_are_reloaded_once() -> None:
    result = simulate(failing(), Workload((Stream("A", Poisson(1.0)), Stream("B", Poisson(1.0)))), 400.0)
    assert [load.size_bytes for load in result.loads[:2]] == [5 * 10**8, 10**8]
    assert sum(s.finish_s - s.start_s for s in result.stalls[:1]) == pytest.approx(0.06)


def test_an_idle_gpu_reloads_as_soon_as_its_host_is_back() -> None:
    result = simulate(failing(), Workload((Stream("A", FixedRate(1e-3, 399.0)),)), 400.0)
    assert result.requests["A"].finish_s == pytest.approx([399.2])
    assert len(result.loads) >= 10


def test_requests_are_routed_around_a_host_that_is_away() -> None:
    """Two GPUs in two hosts at low load: least outstanding loses only who was already there."""
    attained = {}
    for routing in (Routing.ROUND_ROBIN, Routing.LEAST_OUTSTANDING):
        pair = worlds.deployment(
            worlds.service(worlds.profile("m", 0.01), devices=("g0", "g1"), slo_s=0.5, routing=routing),
            devices=2,
            hosts=2,
            failures=FAILING,
        )
        result = simulate(pair, Workload((Stream("m", Poisson(10.0)),)), 2000.0)
        attained[routing] = summarise(result).models["m"].slo_attainment
    assert attained[Routing.ROUND_ROBIN] == pytest.approx(0.75, abs=0.08)
    assert attained[Routing.LEAST_OUTSTANDING] == pytest.approx(1 - 0.25**2, abs=0.03)


@pytest.mark.parametrize(("pageable_bytes_per_s", "pageable_s"), [(1e9, 0.1), (None, 0.02)])
def test_unpinned_host_memory_loads_slower(pageable_bytes_per_s: float | None, pageable_s: float) -> None:
    load_s = {}
    for pinned in (True, False):
        slow = worlds.profile("m", 0.1, pageable_bytes_per_s=pageable_bytes_per_s)
        pair = worlds.service(slow), worlds.service(worlds.profile("other", 0.1))
        small = worlds.deployment(*pair, memory_bytes=11 * 10**7, swap=SwapPolicy(pinned=pinned))
        (load,) = simulate(small, Workload((Stream("m", FixedRate(0.1, 0.0)),)), 5.0).loads
        load_s[pinned] = load.finish_s - load.start_s
    assert load_s == {True: pytest.approx(0.01), False: pytest.approx(pageable_s)}


@pytest.mark.parametrize(("disk_bytes_per_s", "disk_s"), [(5e8, 0.2), (None, 0.8)])
def test_weights_from_disk_come_at_its_rate_and_need_no_host_memory(disk_bytes_per_s, disk_s) -> None:
    """100 MB at 500 MB/s, and where nobody measured it at 125 MB/s; swapping's ratio of copies plays no part."""
    swapped = AfterLoad(batch_ratio=1.0, load_ratio=3.0)
    slow = replace(worlds.profile("m", 0.1), disk_bytes_per_s=disk_bytes_per_s, after_load=swapped)
    pair = worlds.service(slow), worlds.service(worlds.profile("other", 0.1))
    small = worlds.deployment(*pair, memory_bytes=11 * 10**7, swap=SwapPolicy(disk=True))
    host = replace(small.hosts[0], memory_bytes=10**8)  # half of both models
    (load,) = simulate(replace(small, hosts=(host,)), Workload((Stream("m", FixedRate(0.1, 0.0)),)), 5.0).loads
    assert load.finish_s - load.start_s == pytest.approx(disk_s)


def test_a_batch_right_after_a_load_and_a_load_of_weights_that_were_away_take_longer() -> None:
    """Two requests of each of two models: a load before the first of each, none before the second."""
    slow = AfterLoad(batch_ratio=1.5, load_ratio=2.0)
    pair = [worlds.service(replace(worlds.profile(name, 0.1), after_load=slow)) for name in ("m", "other")]
    small = worlds.deployment(*pair, memory_bytes=11 * 10**7, swap=SwapPolicy(prefetch=False))
    asked = [Stream("m", Trace(np.array([0.0, 0.2]), 5.0)), Stream("other", Trace(np.array([1.0, 1.2]), 5.0))]
    result = simulate(small, Workload(tuple(asked)), 5.0)
    assert [load.finish_s - load.start_s for load in result.loads] == pytest.approx([0.02, 0.02])
    for batches in result.batches:
        assert batches.finish_s - batches.start_s == pytest.approx([0.15, 0.1])
    held = worlds.deployment(*pair, memory_bytes=10**9)
    for batches in simulate(held, Workload(tuple(asked)), 5.0).batches:
        assert batches.finish_s - batches.start_s == pytest.approx([0.1, 0.1]), "nothing is loaded where all fit"


@pytest.mark.parametrize("k", [1.0, 1.3, 2.0])
@pytest.mark.parametrize("gpus", [1, 2])
def test_a_batch_and_a_load_beside_it_hold_each_other_up(k: float, gpus: int) -> None:
    """Three models in turn, room for two: a turn takes the longer of batch and load, and k - 1 of the shorter on top.

    On a GPU that runs ahead of the clock, and on two that share a link which is wide enough for both.
    """
    batch_s, load_s, count = 0.1, 0.04, 30
    slow = {"load": LoadTime(0.0, 10**8 / load_s)}
    held_up = [
        worlds.service(replace(worlds.profile(f"{name}{gpu}", batch_s, **slow), beside_load=k), devices=(f"g{gpu}",))
        for gpu in range(gpus)
        for name in "abc"
    ]
    small = worlds.deployment(*held_up, devices=gpus, memory_bytes=21 * 10**7)
    asked = Workload(tuple(Stream(s.model, Trace(np.zeros(count), 1e3)) for s in held_up))
    result = simulate(small, asked, 1e3)
    turn_s = max(batch_s, load_s) + (k - 1) * min(batch_s, load_s)
    last_s = load_s + (3 * count - 1) * turn_s + batch_s
    for batches in result.batches:
        assert np.diff(batches.start_s) == pytest.approx(3 * turn_s)
    assert max(batches.finish_s[-1] for batches in result.batches) == pytest.approx(last_s)
    if k == 2:
        patient = replace(small, swap=SwapPolicy(prefetch=False))
        assert simulate(patient, asked, 1e3).batches[0].start_s == pytest.approx(result.batches[0].start_s)


def test_a_load_longer_than_the_batch_beside_it_is_held_up_for_as_long_as_both_run() -> None:
    """A batch of 0.1 s and a load of 0.3 s beside it at k 1.5: 0.15 and 0.35 s."""
    profiles = [
        replace(worlds.profile(name, 0.1, load=LoadTime(0.0, 10**8 / 0.3)), beside_load=k)
        for name, k in (("a", 1.5), ("b", 1.0), ("c", 1.0))
    ]
    small = worlds.deployment(*map(worlds.service, profiles), memory_bytes=21 * 10**7)
    asked = Workload(tuple(Stream(name, Trace(np.zeros(1), 10.0)) for name in "ab"))
    result = simulate(small, asked, 10.0)
    a, b, _ = result.batches
    assert (a.start_s[0], a.finish_s[0]) == (pytest.approx(0.3), pytest.approx(0.45))
    assert [load.finish_s for load in result.loads] == pytest.approx([0.3, 0.65])
    assert b.start_s[0] == pytest.approx(0.65)


@pytest.mark.parametrize("shared", [False, True])
def test_whoever_serves_takes_time_between_batches(shared: bool) -> None:
    """Woken 3 ms late, and 1 ms from batch to batch: on a GPU that runs ahead of the clock and on one that cannot."""
    count = 2 if shared else 1
    service = worlds.service(worlds.profile("m", 0.1), devices=[f"g{n}" for n in range(count)], routing=Routing.SHARED)
    world = worlds.deployment(service, devices=count)
    delays = {f"g{n}": Delays(repeat(0.003), repeat(0.001)) for n in range(count)}
    asked = Workload((Stream("m", Trace(np.array([0.5] * 2 * count), 5.0)),))
    result = simulate(world, asked, 5.0, 1, delays)
    for batches in result.batches:
        assert batches.start_s == pytest.approx([0.503, 0.604])
        assert batches.finish_s == pytest.approx([0.603, 0.704])


def during(world: World, *outages: Outage) -> World:
    """Let host h0 be away at these times."""
    world.outages["h0"][:] = outages
    for gpu in world.gpus.values():
        gpu.outages = list(outages) if gpu.device.host == "h0" else []
    return world


def test_a_failure_breaks_a_load_off() -> None:
    """9 GB take 0.9 s. The host is away from 0.5 to 0.6 s: the load begins anew at 0.6 s, and is a load only then."""
    big = [worlds.service(worlds.profile(name, 0.1, layers=[Layer(name, 9 * 10**9)])) for name in ("m", "other")]
    small = worlds.deployment(*big, failures=FAILING)
    demand = Workload((Stream("m", FixedRate(0.01, 0.0)),))
    world = during(World(small, draw(demand, 5.0, 1), 5.0, 1), Outage(start_s=0.5, finish_s=0.6))
    world.run()
    (gpu,) = world.gpus.values()
    assert [(load.start_s, load.finish_s) for load in gpu.loads] == [pytest.approx((0.6, 1.5))]
    assert world.requests("m").finish_s == pytest.approx([1.6])
    assert [(stall.start_s, stall.finish_s) for stall in gpu.stalls] == [
        pytest.approx((0.0, 0.5)),
        pytest.approx((0.6, 1.5)),
    ]


def test_a_failure_amid_a_reload_begins_it_anew() -> None:
    """0.5 and 0.1 GB are reloaded from 1 s on; the host fails again at 1.03 s and is back at 2 s."""
    demand = Workload((Stream("A", FixedRate(0.01, 0.5)),))
    twice = Outage(start_s=0.6, finish_s=1.0), Outage(start_s=1.03, finish_s=2.0)
    world = during(World(failing(), draw(demand, 5.0, 1), 5.0, 1), *twice)
    world.run()
    (gpu,) = world.gpus.values()
    assert [(load.start_s, load.size_bytes) for load in gpu.loads] == [
        (pytest.approx(2.0), 5 * 10**8),
        (pytest.approx(2.05), 10**8),
    ]
    assert world.requests("A").finish_s == pytest.approx([2.06 + 0.2])


def shared_pair(batch: int = 1) -> Deployment:
    """Two GPUs in two hosts draw from one queue; a batch takes 1 s."""
    return worlds.deployment(
        worlds.service(
            worlds.profile("m", 1.0), devices=("g0", "g1"), batch=BatchingPolicy(batch), routing=Routing.SHARED
        ),
        devices=2,
        hosts=2,
        failures=FAILING,
    )


def test_a_batch_that_will_be_cut_short_is_not_open_to_others() -> None:
    """g0 runs the first until it fails at 0.5 s; g1, free all the time, knows no more than g0 does until then."""
    demand = Workload((Stream("m", FixedRate(0.01, 0.0)),))
    world = during(World(shared_pair(), draw(demand, 9.0, 1), 9.0, 1), Outage(start_s=0.5, finish_s=5.0))
    world.run()
    assert world.requests("m").start_s == pytest.approx([0.5])
    aborted = [(b.device, float(s)) for b in world.batches() for s in b.start_s[b.aborted]]
    assert aborted == [("g0", 0.0)]


def test_what_comes_back_to_a_shared_queue_goes_before_what_came_later() -> None:
    """g0 takes 0 and 1, g1 takes 2 and 3, both fail, g0 first: when g1 is back it runs all in order, each once."""
    demand = Workload((Stream("m", FixedRate(0.01, 0.0), 6),))
    world = World(shared_pair(batch=2), draw(demand, 20.0, 1), 20.0, 1)
    world.gpus["g0"].outages = [Outage(start_s=0.6, finish_s=15.0)]
    world.gpus["g1"].outages = [Outage(start_s=0.7, finish_s=3.0)]
    world.run()
    requests = world.requests("m")
    assert np.all(requests.outcome == Outcome.FINISHED)
    assert requests.start_s == pytest.approx([3.01, 3.01, 4.01, 4.01, 5.01, 5.01])  # 0.1 GB of weights come first
    assert sorted(p for places in world.places["m"] for p in places) == list(range(6))


def test_a_padded_batch_takes_the_time_of_a_full_one() -> None:
    padded = worlds.service(worlds.profile("m", [1.0, 2.0, 3.0]), batch=BatchingPolicy(3, 0.5, padded=True))
    result = simulate(worlds.deployment(padded), Workload((Stream("m", FixedRate(0.1, 0.0)),)), 5.0)
    assert result.requests["m"].finish_s == pytest.approx([3.5])


def test_of_draws_all_kept_the_rest_may_break() -> None:
    assert share_interval(80, 80) == (pytest.approx(0.025 ** (1 / 80)), 1.0)
    assert share_interval(0, 20) == (0.0, pytest.approx(1 - 0.025 ** (1 / 20)))
    assert draws_interval([1.0] * 80) == (1.0, *share_interval(80, 80))
    assert draws_interval([]) == (pytest.approx(nan, nan_ok=True), 0.0, 1.0)


@pytest.mark.parametrize("share", [0.5, 0.9, 0.98])
def test_exact_intervals_hold_the_share(share: float) -> None:
    """Over all outcomes of 80 draws, weighed by their binomial chance: at least 95 %, as Clopper and Pearson prove."""
    held = [k for k in range(81) if (ends := share_interval(k, 80))[0] <= share <= ends[1]]
    assert sum(stats.binom.pmf(held, 80, share)) >= 0.95


def test_the_long_run_of_a_draw_is_its_look_without_the_noise() -> None:
    rng = np.random.default_rng(1)
    truth = rng.normal(0.95, 0.02, 4000)
    looks = truth + rng.normal(0, 0.02, 4000)
    found = long_run(list(looks), [0.02] * 4000)
    assert np.std(found) == pytest.approx(0.02, rel=0.05)
    assert np.mean(np.square(found - truth)) < np.mean(np.square(looks - truth))
    assert long_run([0.9, 1.0], [0.0, 0.0]) == [0.9, 1.0]
    assert long_run([0.9, 1.0], [0.5, 0.5]) == [0.95, 0.95]


@pytest.mark.parametrize("name", SENT)
def test_intervals_hold_the_long_run(name: str) -> None:
    """At least 93 %, as far as so few intervals can tell; `python -m benchmarks.coverage` has more of them."""
    sets = {"camera": 12, "camera+poisson": 5}.get(name, 20)
    found = coverage(name, sets)
    assert 0.5 < found.truth < 0.999  # near the edge, where an interval may be wrong on either side
    assert found.held * sets >= stats.binom.ppf(0.001, sets, 0.93)


@given(
    fractions=st.lists(st.floats(0.5, 1), min_size=1, max_size=40),
    error=st.floats(0, 0.2),
    unseen=st.integers(1, 600),
    target=st.sampled_from([0.9, 0.95, 0.99, 1.0]),
)
def test_at_best_no_draw_falls_below_a_target_that_it_met(
    fractions: list[float], error: float, unseen: int, target: float
) -> None:
    """What `Replay.lost` relies on when it looks at draws as they were seen first."""
    found = at_best(fractions, [error] * len(fractions), unseen, target)
    assert all(best >= target - 1e-9 for seen, best in zip(fractions, found, strict=True) if seen >= target - 1e-9)
