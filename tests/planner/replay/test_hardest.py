"""Draws in another order: the same verdicts, told sooner."""

from dataclasses import replace

import pytest
from support.planning import T4, demand, model, offer, profile, question, scenario, shelf

from planner.placing.packing import Packing
from planner.replay.hardest import HardestDraws
from planner.replay.replay import Replay
from planner.replay.run import replay
from planner.search.placement import OnFleet
from planner.search.question import Question
from simulator.world.curves import Interpolated
from simulator.world.deployment import Deployment
from simulator.world.doubt import Doubt

CAMERAS, FPS = 4, 10.0
FRAME_S = 0.01
LATENCIES_S = [0.018, 0.02, 0.022, 0.025, 0.04]
BOX = offer(T4, 1.0)


def asked(latency_s: float) -> Question:
    """Cameras on one GPU whose speed is in doubt: in half of the draws a frame takes longer than is said."""
    of_cameras = scenario([model("detector", latency_s)], {"detector": (CAMERAS, FPS)}, confidence=0.9)
    doubt = Doubt(error_sd=Interpolated((1.0,), (0.3,)), shared=0.5, quantile=0.0)
    doubted = replace(profile("detector", T4, FRAME_S, 0.0001), doubt=doubt, predicted=True)
    return question(of_cameras, [BOX], shelf(doubted))


def deployed(of: Question) -> Deployment:
    """All of it on one GPU, as it would be packed."""
    trial = OnFleet(of, (BOX,), (1,), False, lambda _: lambda _: None)
    packing = trial._packer({}, None).pack(trial.devices)
    assert isinstance(packing, Packing)
    return trial.screened(packing).deployment


def seen(of: Question, hardest: HardestDraws | None = None) -> Replay:
    """A confirmation."""
    return replay(of.scenario, demand(of.scenario), of.needs, deployed(of), screen=False, hardest=hardest)


def timeless(one: Replay) -> Replay:
    return replace(one, wall_s=0.0, latencies=(), timeline=None)


@pytest.mark.parametrize("latency_s", LATENCIES_S)
def test_the_order_of_draws_changes_no_verdict(latency_s: float) -> None:
    hardest = HardestDraws()
    seen(asked(0.02), hardest)
    sooner, usual = seen(asked(latency_s), hardest), seen(asked(latency_s))
    assert sooner.met == usual.met
    assert len(sooner.summaries) <= len(usual.summaries)
    if usual.met:
        assert timeless(sooner) == timeless(usual)
    else:
        assert sooner.draws_kept["detector"].mean < 0.9


def test_what_breaks_an_slo_everywhere_is_found_out_by_the_first_draws() -> None:
    hardest = HardestDraws()
    first = seen(asked(0.02), hardest)
    again = seen(asked(0.02), hardest)
    assert not first.met
    assert len(again.summaries) < len(first.summaries)


def test_draws_of_each_look_stay_together() -> None:
    hardest = HardestDraws()
    hardest.broken.update([3, 7, 7, 12])
    order = hardest.order((5, 10, 20))
    assert order[:5] == [3, 0, 1, 2, 4]
    assert order[5:10] == [7, 5, 6, 8, 9]
    assert order[10:] == [12, 10, 11, *range(13, 20)]
