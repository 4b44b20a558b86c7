"""Inferred draws: what others tell of them is what their own replays show."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from support import pipelines
from support.pipelines import after, model, pipeline
from support.worlds import deployment, profile, service

from planner.placing.sizing import Need
from planner.replay.inferred import SOURCES_MAX, TELL, Told
from simulator.clock.replays.drawn import DrawnSpeeds
from simulator.clock.worlds import Shares, Worlds
from simulator.world.curves import Interpolated
from simulator.world.deployment import BatchingPolicy, Deployment, Drop
from simulator.world.doubt import Doubt
from simulator.world.pipelines import FanOutKind
from simulator.world.workload import SLO, FixedRate, Stream, Workload

SLO_MET = SLO(0.1, 0.99)
FRAMES_RPS = 150.0


def site(latencies_s: Sequence[float]) -> Deployment:
    """A first stage and two that take what it finds, Poisson items of each frame, on three GPUs of doubtful speed."""
    asked = pipeline(
        model("first"),
        model("second", after("first", 2.0, FanOutKind.POISSON)),
        model("third", after("first", 1.0, FanOutKind.POISSON)),
        slo_s=SLO_MET.latency_s,
    )
    doubt = Doubt(error_sd=Interpolated((1.0,), (0.25,)), shared=0.2, quantile=0.0)
    batch = BatchingPolicy(max_batch_size=8)
    services = [
        service(
            replace(profile(f"p.{name}", [latency_s * (0.5 + n / 2) for n in range(1, 9)]), doubt=doubt),
            devices=[f"g{place}"],
            batch=batch,
            drop=Drop.LATE,
        )
        for place, (name, latency_s) in enumerate(zip(("first", "second", "third"), latencies_s, strict=True))
    ]
    return pipelines.deployment(asked, *services, devices=3)


def need() -> Need:
    cameras = Stream("p", FixedRate(FRAMES_RPS / 10, None, 0.0), count=10)
    return Need("p", FRAMES_RPS, SLO_MET, 0.0, True, (cameras,), 1.0)


def test_what_others_tell_is_what_replays_show() -> None:
    """Of draws of which some twenty in a hundred miss the SLO, most for a queue that grows."""
    one = need()
    worlds = Worlds(site([0.0072, 0.0036, 0.0072]), Workload(one.streams), 8.0, 0.1, {"p": FRAMES_RPS * 0.99})
    told = Told.of(DrawnSpeeds(worlds.deployment, worlds.rates_rps), {"p": one})
    assert told
    asked: list[int] = []

    def replayed(seeds: Sequence[int]) -> Shares:
        asked.extend(seeds)
        return worlds.shares(seeds)

    seeds = list(range(256))
    found = [told.shares(seeds[at : at + 32], replayed) for at in range(0, 256, 32)]
    whole = worlds.shares(seeds)
    kept = (whole.in_time["p"] >= 0.99) & ~np.array(list(map(bool, whole.growing)))
    as_told = np.concatenate([(part.in_time["p"] >= 0.99) & ~np.array(list(map(bool, part.growing))) for part in found])
    assert 0.1 < np.mean(~kept) < 0.3
    assert np.array_equal(as_told, kept)
    assert told.inferred == 256 - len(asked) > 100
    assert sum(part.requests for part in found) < 0.6 * whole.requests
    assert np.count_nonzero(~as_told) > np.count_nonzero(~kept[asked])  # some of those that miss were inferred too


def test_one_draw_alone_tells_nothing_and_neither_does_one_that_just_keeps_or_misses() -> None:
    told = Told.of(DrawnSpeeds(site([0.01] * 3), {}), {"p": need()})
    assert told
    seeds = list(range(64))
    slowest = sorted(seeds, key=lambda seed: told.speeds.slowness([seed]).min())[-8:]
    (quickest,) = [
        seed for seed in seeds if all((told.speeds.slowness([seed]) <= told.speeds.slowness(slowest)).ravel())
    ][:1]

    def learnt(share: float, draws: int) -> int:
        told = Told.of(DrawnSpeeds(site([0.01] * 3), {}), {"p": need()})
        assert told
        seen = Shares({"p": np.full(draws, share)}, ((),) * draws, np.zeros(draws), draws)
        told.learn(slowest[:draws], seen)
        told.shares(
            [quickest], lambda seeds: Shares({"p": np.ones(len(seeds))}, ((),) * len(seeds), np.zeros(len(seeds)), 1)
        )
        return told.inferred

    assert learnt(1.0, TELL) == 1
    assert learnt(1.0, TELL - 1) == 0
    assert learnt(0.992, TELL) == 0  # keeps 99 %, but not with ease
    assert learnt(0.9, TELL) == 0  # slower ones that miss tell nothing of a quicker one


def test_of_many_sources_of_doubt_none_is_slower_in_all() -> None:
    doubt = Doubt(error_sd=Interpolated((1.0,), (0.25,)), shared=0.2)
    many = [service(replace(profile(f"m{i}"), doubt=doubt)) for i in range(SOURCES_MAX + 1)]
    for services, tells in [(many[1:], True), (many, False)]:
        at = replace(site([0.01] * 3), services=tuple(services), pipelines=())
        assert bool(Told.of(DrawnSpeeds(at, {}), {})) == tells


def test_where_phases_decide_nothing_is_inferred() -> None:
    """16 cameras on two GPUs whose speeds are off by 5 %: which cameras come together is worth more than that."""
    doubt = Doubt(error_sd=Interpolated((1.0,), (0.05,)), shared=0.2, quantile=0.0)
    uncertain = replace(profile("m", 0.02), doubt=doubt)
    slo = SLO(0.05, 0.95)
    at = deployment(service(uncertain, devices=["g0", "g1"], drop=Drop.LATE, slo_s=slo.latency_s), devices=2)
    cameras = Stream("m", FixedRate(5.0, None, 0.0), count=16)
    worlds = Worlds(at, Workload((cameras,)), 6.0, slo.latency_s, {"m": 76.0})
    told = Told.of(DrawnSpeeds(at, worlds.rates_rps), {"m": Need("m", 80.0, slo, 0.0, True, (cameras,), 0.0)})
    assert told
    seeds = list(range(0, 160))
    told.learn(seeds, worlds.shares(seeds))
    assert told.contradicted


def test_nothing_is_inferred_where_requests_come_in_some_draws_only() -> None:
    told = Told.of(DrawnSpeeds(site([0.01] * 3), {}), {"p": need()})
    assert told
    told.learn([0, 1], Shares({"p": np.array([1.0, 1.0])}, ((), ()), np.zeros(2), 2))
    assert not told.contradicted
    told.learn([2], Shares({"p": np.array([np.nan])}, ((),), np.zeros(1), 1))
    assert told.contradicted
