"""Draws in another order: the same verdicts, told sooner."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from support.planning import T4, demand, model, offer, profile, question, scenario, shelf
from support.random_worlds import doubted, world

from planner.model.parts.streams import StreamSpec
from planner.placing.packing.packed import Packing
from planner.replay.hardest import SPARE_MIN, Strain, given_up
from planner.replay.replay import Replay
from planner.replay.run import replay
from planner.replay.trial import Trial
from planner.search.placement import OnFleet
from planner.search.question import Question
from planner.search.rejections import missed_slo
from simulator.clock.metrics import Summary
from simulator.world.curves import Interpolated
from simulator.world.deployment import Deployment
from simulator.world.doubt import Doubt, drawn

CAMERAS, FPS = 4, 10.0
FRAME_S = 0.01
SEEDS = (3, 4, 5)
LATENCIES_S = [0.018, 0.02, 0.022, 0.025, 0.04]
LOOKED_AT_AGAIN_S = 0.025
"""SLO of which the draws of the first look leave the verdict open."""
BOX = offer(T4, 1.0)
RANDOM = StreamSpec(model="detector", count=CAMERAS, poisson=FPS)


def asked(latency_s: float, is_random: bool = False) -> Question:
    """Cameras on one GPU whose speed is in doubt: in half of the draws a frame takes longer than is said."""
    of_cameras = scenario([model("detector", latency_s)], {"detector": (CAMERAS, FPS)}, confidence=0.9)
    of_cameras = replace(of_cameras, streams=(RANDOM,)) if is_random else of_cameras
    doubt = Doubt(error_sd=Interpolated((1.0,), (0.3,)), shared=0.5, quantile=0.0)
    doubted = replace(profile("detector", T4, FRAME_S, 0.0001), doubt=doubt, predicted=True)
    return question(of_cameras, [BOX], shelf(doubted))


def screened(of: Question) -> Trial:
    """All of it on one GPU, as it would be packed."""
    trial = OnFleet(of, (BOX,), (1,), False, lambda _: lambda _: None)
    packing = trial._packer({}, None).pack(trial.devices)
    assert isinstance(packing, Packing)
    return trial.screened(packing)


def seen(of: Question, verdict_only: bool = False) -> Replay:
    """A confirmation."""
    deployment = screened(of).deployment
    return replay(of.scenario, demand(of.scenario), of.needs, deployment, screen=False, verdict_only=verdict_only)


def timeless(one: Replay) -> Replay:
    return replace(one, wall_s=0.0, latencies=(), first=None)


def with_shares(one: Replay, shares: np.ndarray, error: float) -> Replay:
    """As if draws had answered such shares of their requests in time, each known so well."""
    as_seen = one.summaries[0].models["detector"]
    told = [as_seen._replace(slo_attainment=float(share), slo_attainment_error=error) for share in shares]
    summaries = tuple(Summary({"detector": figures}, {}) for figures in told)
    return replace(
        one, summaries=summaries, overloads=((),) * len(shares), looks=(len(shares),), noisy=True, ranked=True
    )


def test_looks_at_the_hardest_of_many_draws_say_how_far_they_are() -> None:
    of, shares = asked(LOOKED_AT_AGAIN_S), list[float]()
    one = replay(of.scenario, demand(of.scenario), of.needs, screened(of).deployment, screen=False, tell=shares.append)
    assert one.wide is not None
    assert len(shares) >= one.wide.replayed
    again = shares[one.looks[0] :]
    assert again[0] == pytest.approx(1 / one.looks[1])
    assert all(0 < share <= 1 for share in again)


@pytest.mark.parametrize("is_random", [False, True])
@pytest.mark.parametrize("latency_s", LATENCIES_S)
def test_the_order_of_draws_changes_no_verdict(latency_s: float, is_random: bool) -> None:
    sooner, usual = seen(asked(latency_s, is_random), verdict_only=True), seen(asked(latency_s, is_random))
    assert sooner.met == usual.met
    assert len(sooner.summaries) <= len(usual.summaries)
    if usual.met:
        assert timeless(sooner) == timeless(usual)
    else:
        assert sooner.draws_kept["detector"].mean < 0.9


@pytest.fixture(scope="module")
def one_replay() -> Replay:
    """Its SLO is 99 % in 90 % of the draws."""
    return seen(asked(0.02))


@pytest.mark.parametrize("mean", [0.4, 0.8, 0.9, 0.985, 0.995])
@pytest.mark.parametrize("noise", [0.005, 0.02, 0.1])
def test_no_draw_is_lost_to_noise_that_all_draws_would_have_told(one_replay: Replay, mean: float, noise: float) -> None:
    rng = np.random.default_rng(1)
    for spread in (0.0, noise, 4 * noise):
        shares = np.sort(np.clip(rng.normal(mean, np.hypot(noise, spread), 100), 0, 1))
        usual = with_shares(one_replay, shares, noise)
        for count in range(8, 100, 8):
            first = replace(with_shares(one_replay, shares[:count], noise), looks=usual.looks)
            assert first.at_best.kept_together.count(False) <= usual.kept_together.count(False)
            assert not (first.lost and usual.met)


def test_noise_hides_no_fleet_that_is_far_from_its_slo(one_replay: Replay) -> None:
    first = replace(with_shares(one_replay, np.full(16, 0.5), 0.01), looks=(100,))
    assert first.lost
    assert first.at_best.kept_together == [False] * 16


def test_a_few_draws_that_surely_break_an_slo_are_enough(one_replay: Replay) -> None:
    """11 of 100 where 10 may: the mean over all is far above the SLO, and only noise could lift them."""
    shares = np.array([0.95] * 11 + [1.0] * 5)
    first = replace(with_shares(one_replay, shares, 0.002), looks=(100,))
    assert first.lost
    assert first.at_best.kept_together == [False] * 11 + [True] * 5
    assert not replace(with_shares(one_replay, shares, 0.1), looks=(100,)).lost
    assert not replace(with_shares(one_replay, shares[1:], 0.002), looks=(100,)).lost


def test_nothing_is_given_up_whose_noise_nobody_knows(one_replay: Replay) -> None:
    shares = np.array([0.95] * 11 + [1.0] * 5)
    assert not replace(with_shares(one_replay, shares, float("nan")), looks=(100,)).lost


def test_a_fleet_given_up_is_judged_by_as_many_draws_as_others(one_replay: Replay) -> None:
    hard = replace(with_shares(one_replay, np.full(16, 0.5), 0.0), looks=(100,), noisy=False).at_best
    weaker = replace(with_shares(one_replay, np.array([1.0] * 5 + [0.5] * 3), 0.0), noisy=False)
    assert hard.nearness[1] == pytest.approx(0.84 - 0.9)
    assert weaker.nearness < hard.nearness
    assert hard.attainment["detector"].mean == pytest.approx(0.5)


@pytest.mark.parametrize("late", [0.02, 0.5])
def test_a_fleet_given_up_is_below_its_limit(one_replay: Replay, late: float) -> None:
    """Even where draws miss the SLO by so little that their mean over all would meet it."""
    hard = replace(with_shares(one_replay, np.full(16, 1 - late), 0.0), looks=(100,), noisy=False).at_best
    devices = one_replay.summaries[0].devices
    hard = replace(hard, summaries=tuple(replace(one, devices=devices) for one in hard.summaries))
    no = missed_slo(replace(screened(asked(0.02)), replay=hard))
    assert (no.observed, no.limit) == (pytest.approx(0.84), 0.9)


def test_what_breaks_an_slo_often_is_found_out_by_the_first_draws() -> None:
    first, again = seen(asked(0.02)), seen(asked(0.02), verdict_only=True)
    assert not first.met
    assert len(again.summaries) < len(first.summaries)


def test_the_slowest_worlds_are_the_hardest() -> None:
    deployment, seeds = screened(asked(0.02)).deployment, list(range(100))
    slow_s = [drawn(deployment, seed).services[0].replicas[0].profile.latency(1.0) for seed in seeds]
    order = Strain(deployment, {"detector": CAMERAS * FPS}).hardest_first(seeds)
    assert order == sorted(seeds, key=lambda seed: -slow_s[seed])


def test_strain_is_that_of_the_most_strained_replica_in_each_world() -> None:
    for number in range(60):
        deployment, workload = world(number)
        deployment, rates_rps = doubted(deployment, number), workload.rates_rps()
        rates_rps = dict.fromkeys((one.model for one in deployment.services), 0.0) | dict(rates_rps)
        strained = Strain(deployment, rates_rps).of(SEEDS)
        for seed, strain in zip(SEEDS, strained, strict=True):
            assert strain == pytest.approx(strain_of(drawn(deployment, seed), rates_rps))


def strain_of(deployment: Deployment, rates_rps: Mapping[str, float]) -> float:
    """One replica after another."""
    loads: Counter[str] = Counter()
    strains = []
    for service in deployment.services:
        for replica in service.replicas:
            most = replica.batching.max_batch_size
            share = replica.share / sum(one.share for one in service.replicas)
            full_s = replica.profile.latency(most)
            loads[replica.devices[0]] += rates_rps[service.model] * share / most * full_s
            strains.append((full_s / service.slo.latency_s, replica.devices[0]))
    return max(strain / max(1 - loads[gpu], SPARE_MIN) for strain, gpu in strains)


@pytest.mark.parametrize(("numbers", "is_given_up"), [(range(100, 130), False), (range(90, 120), True)])
def test_none_is_given_up_that_an_earlier_look_may_accept(
    one_replay: Replay, numbers: range, is_given_up: bool
) -> None:
    """30 draws of 200 break the SLO, where 20 may; of the first look's 100 none of them, or 10."""
    hard = replace(with_shares(one_replay, np.full(30, 0.5), 0.0), looks=(100, 200), noisy=False)
    assert (given_up(hard, numbers) is not None) == is_given_up
