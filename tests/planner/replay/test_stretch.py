"""How long one replication lasts: by formulas worked by hand, as asked, or as long as queues need."""

from dataclasses import replace

import numpy as np
import pytest
from support import worlds
from support.planning import demand, model, scenario

from planner.model.parts.streams import Phase
from planner.model.replications import horizon_s, requests_needed
from planner.model.scenario import Scenario
from planner.placing.sizing import Need
from planner.replay.stretch import (
    REPEATS_S,
    SETTLES,
    ReplayLength,
    clear_stretch,
    doubled,
    is_shorter,
    repeat_s,
    settling_s,
    stretch,
)
from simulator.world.deployment import Deployment
from simulator.world.workload import SLO, Arrivals, FixedRate, Gamma, Poisson, Stream, Trace, Workload


def need(arrivals: Arrivals, dispersion: float) -> dict[str, Need]:
    stream = Stream("m", arrivals)
    return {"m": Need("m", stream.rate_rps, SLO(0.1), 0.0, True, (stream,), dispersion)}


def one_gpu(latency_s: float = 0.01, cv: float = 0.0) -> Deployment:
    return worlds.deployment(worlds.service(worlds.profile("m", latency_s, cv=cv)))


@pytest.mark.parametrize(
    ("arrivals", "period_s"),
    [
        ((FixedRate(15), FixedRate(10)), 0.2),
        ((FixedRate(30),), 1 / 30),
        ((FixedRate(0.2), FixedRate(0.25)), 20.0),
        ((FixedRate(7.49), FixedRate(15)), None),  # 749 frames in 100 s
        ((FixedRate(15, jitter_s=0.01),), None),
        ((FixedRate(15), Poisson(1)), None),
    ],
)
def test_cameras_come_round(arrivals: tuple[Arrivals, ...], period_s: float | None) -> None:
    found = repeat_s(Workload(tuple(Stream("m", one) for one in arrivals)))
    assert found == (None if period_s is None else pytest.approx(period_s))


def test_a_length_is_doubled_until_it_is_long_enough() -> None:
    assert [doubled(5.0, wanted_s) for wanted_s in (1.0, 5.0, 5.1, 12.0)] == [5.0, 5.0, 10.0, 20.0]


def test_queues_forget_in_the_time_of_a_brownian_queue() -> None:
    """Poisson arrivals at 90/s of 10 ms each: 90 x 0.01^2 / 0.1^2 = 0.9 s; of cameras alone, no time."""
    assert settling_s(one_gpu(), need(Poisson(90), 1.0)) == pytest.approx(0.9)
    assert settling_s(one_gpu(), need(Poisson(90), 1.0), load=0.94) == pytest.approx(2.5)
    assert settling_s(one_gpu(), need(Poisson(98), 1.0)) == pytest.approx(24.5)
    assert settling_s(one_gpu(), need(FixedRate(90), 0.0)) == 0
    full = settling_s(one_gpu(), need(Poisson(100), 1.0))
    assert full == settling_s(one_gpu(), need(Poisson(100), 1.0), load=2.0)  # beyond that, nobody waits for it


def test_where_models_take_turns_loads_are_work_too() -> None:
    """0.1 GB over 10 GB/s: 10 ms more for each batch of one, which makes 1 % of 40 arrivals 4 times the variance."""
    services = [worlds.service(worlds.profile(name, 0.01)) for name in "ab"]
    needs = {name: Need(name, 20.0, SLO(1.0), 0.0, True, (), 1.0) for name in "ab"}
    resident = worlds.deployment(*services)
    swapping = worlds.deployment(*services, memory_bytes=150_000_000)
    assert settling_s(resident, needs) == pytest.approx(40 * 0.01**2 / 0.6**2)
    assert settling_s(swapping, needs) == pytest.approx(40 * 0.02**2 / 0.2**2)


def asked(**changes: object) -> Scenario:
    return scenario([model("m", 0.5)], {"m": (2, 10.0)}, **{"horizon": None, "warmup": None, **changes})


def test_a_horizon_that_was_asked_is_kept() -> None:
    given = asked(horizon=7.0)
    found = stretch(given, demand(given), need(FixedRate(20), 0.0), one_gpu())
    assert found.horizon_s == 7
    assert 0 < found.warmup_s <= 0.7
    assert found.repeat_s == pytest.approx(0.1)


@pytest.mark.parametrize("phase", [Phase.ALIGNED, Phase.SPREAD])
def test_cameras_that_draw_no_phases_are_judged_until_they_prove_their_slo(phase: Phase) -> None:
    """One replication is all there is of them: 95 % takes 73 requests in time, 99.9 % takes 3,838, at 20 a second."""
    for attainment in (0.95, 0.999):
        spec = model("m", 0.5, attainment)
        drawn = scenario([spec], {"m": (2, 10.0)}, horizon=None, warmup=None)
        given = replace(drawn, streams=tuple(replace(one, phase=phase) for one in drawn.streams))
        found = stretch(given, demand(given), need(FixedRate(20), 0.0), one_gpu())
        judged = 20 * (found.horizon_s - found.warmup_s - 0.5)
        assert judged >= requests_needed(attainment, 0.95)
        assert found.repeat_s == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("recorded_s", "rate_rps", "repeats"), [(7.3, 10.0, 9), (59.0, 10.0, 2), (90.0, 0.5, 10), (900.0, 10.0, 1)]
)
def test_recordings_are_judged_a_whole_number_of_times(recorded_s: float, rate_rps: float, repeats: int) -> None:
    """For a minute, or until 381 requests prove an SLO of 99 %, and three standard deviations more: 440."""
    given = scenario([model("m", 0.03, 0.99)], {"m": (1, 10.0)}, horizon=None, warmup=None)
    trace = Trace(np.arange(0.0, recorded_s, 1 / rate_rps), recorded_s)
    workload = Workload((Stream("m", trace),))
    found = stretch(given, workload, need(trace, 0.0), one_gpu(0.0005, cv=0.1))
    assert (found.horizon_s - found.warmup_s - 0.03) / recorded_s == pytest.approx(repeats)
    assert horizon_s(given, workload) <= found.horizon_s


def test_cameras_are_judged_over_whole_rounds() -> None:
    given = asked()
    found = stretch(given, demand(given), need(FixedRate(20), 0.0), one_gpu())
    assert REPEATS_S <= found.horizon_s - found.warmup_s - 0.5 < REPEATS_S + 1
    assert found.horizon_s == round(found.horizon_s)
    noisy = stretch(given, demand(given), need(FixedRate(20), 0.0), one_gpu(cv=0.1))
    assert noisy.repeat_s is None


def test_fuller_gpus_are_replayed_for_longer() -> None:
    given = asked()
    needs = need(Poisson(20), 1.0)
    lengths = [stretch(given, demand(given), needs, one_gpu(), load) for load in (0.0, 0.9, 0.94)]
    assert lengths == sorted(lengths, key=lambda one: one.horizon_s)
    for one in lengths:
        assert one.horizon_s - one.warmup_s - 0.5 >= SETTLES * one.settling_s
        assert one.warmup_s >= 3 * one.settling_s


@pytest.mark.parametrize(
    ("rate_rps", "attainment", "latency_s", "horizon_s", "is_short"),
    [
        (1000, 0.99, 0.1, 7.0, True),  # 50 late of 5,000, which take 5 s
        (1000, 0.95, 0.1, 3.0, True),  # 1 s; queues forget 20 times in 1.4
        (1000, 0.95, 0.4, 6.0, True),  # and ten times the SLO are 4 s
        (150, 0.99, 0.1, 35.0, False),  # 33 s, beside a minute
        (1000, 1.0, 0.1, None, False),
    ],
)
def test_a_short_replay_may_show_what_few_miss(
    rate_rps: float, attainment: float, latency_s: float, horizon_s: float | None, is_short: bool
) -> None:
    """Of arrivals in bursts, each worked off in 0.5 ms: forgotten in 1000 x 11 x 0.0005^2 / 0.2^2 = 0.07 s."""
    stream = Stream("m", Poisson(rate_rps))
    needs = {"m": Need("m", rate_rps, SLO(latency_s, attainment), 0.0, True, (stream,), 11.0)}
    length = ReplayLength(horizon_s=61.0, warmup_s=1.0, settling_s=0.0, repeat_s=None)
    given = asked(warmup=1.0)
    clear = clear_stretch(given, Workload((stream,)), needs, one_gpu(0.0005), length)
    assert (clear.horizon_s if clear else None) == horizon_s
    assert bool(clear and is_shorter(given, clear, length)) == is_short
    assert not (clear and is_shorter(replace(given, horizon=61.0), clear, length))


def test_a_short_replay_starts_as_long_as_calm_queues_need_however_full_the_gpus_are() -> None:
    """A whole replay near the limit leaves out ten seconds; what is clear has no such queues."""
    stream = Stream("m", Poisson(1000))
    needs, workload = {"m": Need("m", 1000.0, SLO(0.1, 0.95), 0.0, True, (stream,), 11.0)}, Workload((stream,))
    given = asked()
    lengths = [stretch(given, workload, needs, one_gpu(0.0005), load) for load in (0.0, 0.95)]
    calm, full = (clear_stretch(given, workload, needs, one_gpu(0.0005), length) for length in lengths)
    assert calm
    assert full
    assert lengths[1].warmup_s > lengths[0].warmup_s
    assert (full.horizon_s, full.warmup_s) == (calm.horizon_s, calm.warmup_s)


@pytest.mark.parametrize(
    ("arrivals", "is_short"),
    [
        ((FixedRate(500), FixedRate(500, jitter_s=0.001)), True),
        ((FixedRate(500), Poisson(500)), True),
        ((FixedRate(500), FixedRate(499.5)), False),  # their phases come round in 2 s, twenty times in 40
        ((Gamma(1000, cv=3.0),), False),
        ((Trace(np.arange(0.0, 60.0, 0.001), 60.0),), False),
    ],
)
def test_a_short_replay_shows_nothing_where_one_second_is_not_like_another(
    arrivals: tuple[Arrivals, ...], is_short: bool
) -> None:
    streams = tuple(Stream("m", one) for one in arrivals)
    needs = {"m": Need("m", 1000.0, SLO(0.1), 0.0, True, streams, 0.0)}
    length = ReplayLength(horizon_s=61.0, warmup_s=1.0, settling_s=0.0, repeat_s=None)
    found = clear_stretch(asked(warmup=1.0), Workload(streams), needs, one_gpu(0.0005), length)
    assert bool(found and is_shorter(asked(), found, length)) == is_short
