"""Looks at draws of speeds: what passes the first is looked at again before it is bought."""

from dataclasses import replace

import numpy as np
import pytest
from support.planning import T4, demand, model, offer, profile, question, scenario, shelf

from planner.model.replications import WORLDS, WORLDS_MAX
from planner.placing.packing import Packing
from planner.replay.replay import Replay
from planner.replay.run import replay
from planner.replay.trial import Trial
from planner.search.placement import OnFleet
from planner.search.question import Question
from planner.search.search import GLANCE, FleetSearch
from simulator.clock.metrics import Summary
from simulator.world.curves import Interpolated
from simulator.world.doubt import Doubt

CONFIDENCE = 0.9
FIRST, LAST = (WORLDS,), (WORLDS, WORLDS_MAX)
LATENCIES_S = [0.018, 0.02, 0.024, 0.026, 0.03]


def asked(latency_s: float) -> Question:
    """Cameras on GPUs whose speed is in doubt."""
    of_cameras = scenario([model("detector", latency_s)], {"detector": (4, 10.0)}, confidence=CONFIDENCE)
    doubt = Doubt(error_sd=Interpolated((1.0,), (0.3,)), shared=0.5, quantile=0.0)
    doubted = replace(profile("detector", T4, 0.01, 0.0001), doubt=doubt, predicted=True)
    return question(of_cameras, [offer(T4, 1.0)], shelf(doubted))


def on_one(of: Question) -> Trial:
    """All of it on one GPU, screened."""
    trial = OnFleet(of, (offer(T4, 1.0),), (1,), False, lambda _: lambda _: None)
    packing = trial._packer({}, None).pack(trial.devices)
    assert isinstance(packing, Packing)
    return trial.screened(packing)


def seen(of: Question, *, first_look: bool = False, begun: Replay | None = None) -> Replay:
    """A confirmation."""
    return replay(
        of.scenario,
        demand(of.scenario),
        of.needs,
        on_one(of).deployment,
        screen=False,
        first_look=first_look,
        begun=begun,
    )


def as_if(one: Replay, kept: int, draws: int, looks: tuple[int, ...]) -> Replay:
    """A replay in which so many of so many draws had all requests in time, and the others none."""
    as_seen = one.summaries[0].models["detector"]
    shares = [1.0] * kept + [0.0] * (draws - kept)
    summaries = tuple(Summary({"detector": replace(as_seen, slo_attainment=share)}, {}) for share in shares)
    return replace(one, summaries=summaries, overloads=((),) * draws, looks=looks, noisy=False)


@pytest.fixture(scope="module")
def one_replay() -> Replay:
    return seen(asked(0.03), first_look=True)


@pytest.mark.parametrize(
    ("kept", "draws", "looks", "met", "lost"),
    [
        (144, 160, FIRST, True, False),
        (143, 160, FIRST, False, True),
        (144, 160, LAST, False, False),  # enough are kept, but not surely: another look
        (143, 160, LAST, False, True),  # who fails the first look fails
        (154, 160, LAST, True, False),  # surely
        (576, 640, LAST, True, False),
        (575, 640, LAST, False, True),
    ],
)
def test_a_share_is_met_surely_at_the_first_look_or_at_the_last(
    one_replay: Replay, kept: int, draws: int, looks: tuple[int, ...], met: bool, lost: bool
) -> None:
    one = as_if(one_replay, kept, draws, looks)
    assert (one.met, one.lost) == (met, lost)


@pytest.mark.parametrize("latency_s", LATENCIES_S)
def test_going_on_is_the_same_as_not_stopping(latency_s: float) -> None:
    of = asked(latency_s)
    at_once, begun = seen(of), seen(of, first_look=True)
    if not begun.met:
        assert not at_once.met
        return
    gone_on = seen(of, begun=begun)
    assert gone_on.met == at_once.met
    assert np.allclose(gone_on.draws_kept["detector"].mean, at_once.draws_kept["detector"].mean, rtol=0, atol=0)
    assert len(gone_on.latencies) == len(gone_on.summaries) == len(at_once.summaries)


def test_what_is_bought_is_sure_or_was_looked_at_to_the_last() -> None:
    draws = set()
    for latency_s in LATENCIES_S:
        of = asked(latency_s)
        search = FleetSearch(of, lambda *_: None)
        best = search.answer(of.program(), of.scenario.objective)
        if best is None:
            continue
        share = best.replay.all_kept
        assert best.met
        assert share is not None
        assert share.mean >= CONFIDENCE
        assert share.low >= CONFIDENCE or len(best.replay.summaries) == WORLDS_MAX
        draws.add(len(best.replay.summaries))
    assert draws == {WORLDS, WORLDS_MAX}, "both kinds of answer are among these"


def test_what_was_only_screened_is_confirmed_before_it_is_bought() -> None:
    """As where spares decide: the cheapest with its own was seen at a glance, and that has no say in the verdict."""
    for latency_s in LATENCIES_S:
        of = asked(latency_s)
        search = FleetSearch(of, lambda *_: None)
        glanced = search.try_fleet((offer(T4, 1.0),), (2,), GLANCE)
        assert glanced is not None
        assert glanced.replay.screened
        trial = search._looked_at_last(glanced)
        assert not trial.replay.screened
        assert len(trial.replay.latencies) == len(trial.replay.summaries)
        known = search.tried[(offer(T4, 1.0),), (2,)]
        assert (known is not None) == trial.stands


def test_a_screening_is_not_gone_on_with() -> None:
    of = asked(0.03)
    screening = replace(seen(of, first_look=True), screened=True)
    with pytest.raises(AssertionError, match="what chose a deployment"):
        seen(of, begun=screening)


def test_what_missed_the_last_look_stands_in_no_table() -> None:
    """Two trials of which the cheaper misses: it is left out of those of one kind of GPU alone."""
    of = asked(0.018)  # one GPU is too slow, two are enough
    search = FleetSearch(of, lambda *_: None)
    best = search.answer(of.program(), of.scenario.objective)
    assert best is not None
    assert best.fleet == (2,)
    found, alone = search._with_spares(best, [on_one(of), best])
    assert found.fleet == (2,)
    assert [one.fleet for one in alone] == [(2,)]
