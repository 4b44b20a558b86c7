"""The shipped pipeline, planned whole: what runs out is worked out by hand."""

import pytest
from support.paths import SCENARIOS

import planner
from planner.catalog.catalog import load_catalog
from planner.catalog.engines import engine_rate
from planner.model.choices import Codec
from planner.model.parts.coding import Coding
from planner.model.plan import Bottleneck, Plan

FRAMES_PER_S = 40 * 10
KEPT = 0.95
"""Of the frames: the others may be lost."""


@pytest.fixture(scope="module")
def answer() -> Plan:
    """One kind of GPU and a second of replay are enough: the question is what is asked of each resource."""
    return planner.plan(SCENARIOS / "crossing.yaml", overrides=["buy.gpus=[L4]", "horizon=1 s"])


def test_one_machine_carries_the_crossings(answer: Plan) -> None:
    best = answer.recommendation
    assert best.feasible
    assert [(one.instance, one.count) for one in best.instances] == [("g6.xlarge", 1)]
    assert best.lower_bound_usd_per_hour <= best.cost_usd_per_hour + 1e-9


def test_what_runs_out_is_as_worked_out_by_hand(answer: Plan) -> None:
    """All frames are decoded, at what the catalog says of an engine, of which an L4 has four. Frames that are lost
    behind that need not be tracked and joined, which takes 2.2 ms on one of four cores."""
    used = {one.kind: one for one in answer.recommendation.resources}
    cores = used[Bottleneck.HOST_CORES]
    assert cores.load == pytest.approx(KEPT * FRAMES_PER_S * 0.0022 / 4)
    rate = engine_rate(load_catalog(()).gpus["L4"], Coding(kind="decode", codec=Codec.H264))
    assert rate is not None
    assert used[Bottleneck.DECODE].load == pytest.approx(FRAMES_PER_S / (rate.fps_per_engine * 4))
    assert used[Bottleneck.DECODE].streams == 40
    assert answer.recommendation.resources[0].kind is Bottleneck.COMPUTE, "what runs out first stands first"


def test_every_stage_is_asked_as_often_as_its_fan_out_says(answer: Plan) -> None:
    (crossing,) = answer.recommendation.models
    assert crossing.name == "crossing"
    assert crossing.offered_rps == pytest.approx(FRAMES_PER_S, rel=0.02)
