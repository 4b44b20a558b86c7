"""Draws after which a fleet is given up: seldom one that all draws would have accepted."""

from dataclasses import replace

import numpy as np
import pytest
from support.planning import T4, demand, model, offer, profile, question, scenario, shelf

from planner.model.parts.streams import StreamSpec
from planner.model.progress import silent
from planner.placing.packing.packed import Packing
from planner.replay.replay import Replay
from planner.replay.run import COUNTED_AT_ONCE, LOST_EVERY, replay
from planner.replay.trial import Trial
from planner.search.placement import OnFleet
from planner.search.question import Question
from planner.search.rejections import missed_slo
from simulator.clock.metrics import Summary
from simulator.world.curves import Interpolated
from simulator.world.doubt import Doubt

CAMERAS, FPS = 4, 10.0
FRAME_S = 0.01
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
    trial = OnFleet(of, (BOX,), (1,), False, lambda _: silent)
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
        one,
        summaries=summaries,
        overloads=((),) * len(shares),
        looks=(len(shares),),
        noisy=True,
        ranked=True,
        wide=None,
    )


def test_looks_at_many_draws_say_how_far_they_are() -> None:
    of, told = asked(LOOKED_AT_AGAIN_S), list[tuple[int, int]]()

    def tell(done: int, most: int) -> None:
        told.append((done, most))

    one = replay(of.scenario, demand(of.scenario), of.needs, screened(of).deployment, screen=False, tell=tell)
    assert one.wide is not None
    done = [count for count, _ in told]
    of_first = one.looks[0] // LOST_EVERY
    assert done[:of_first] == list(range(LOST_EVERY, one.looks[0] + 1, LOST_EVERY))
    assert done[of_first] == one.looks[0] + COUNTED_AT_ONCE
    assert done[-1] == one.wide.draws
    assert {most for _, most in told} == {one.looks[-1]}


@pytest.mark.parametrize("is_random", [False, True])
@pytest.mark.parametrize("latency_s", LATENCIES_S)
def test_what_is_given_up_early_all_draws_would_refuse(latency_s: float, is_random: bool) -> None:
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


@pytest.mark.parametrize("late", [0.02, 0.5])
def test_a_fleet_given_up_is_below_its_limit(one_replay: Replay, late: float) -> None:
    """Even where draws miss the SLO by so little that their mean would meet it."""
    shares = np.array([1 - late] * 8 + [1.0] * 8)
    few = replace(with_shares(one_replay, shares, 0.0), looks=(100,), noisy=False, ranked=False)
    devices = one_replay.summaries[0].devices
    few = replace(few, summaries=tuple(replace(one, devices=devices) for one in few.summaries))
    no = missed_slo(replace(screened(asked(0.02)), replay=few))
    assert (no.observed, no.limit) == (pytest.approx(0.5), 0.9)


def test_what_breaks_an_slo_often_is_found_out_by_the_first_draws() -> None:
    first, again = seen(asked(0.02)), seen(asked(0.02), verdict_only=True)
    assert not first.met
    assert len(again.summaries) < len(first.summaries)
