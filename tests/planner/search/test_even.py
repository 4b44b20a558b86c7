"""GPUs that one names oneself: each has as much to do as the others, whatever is kept free, and verdicts never turn."""

from argparse import Namespace
from dataclasses import replace
from datetime import date

import pytest
from support.paths import SCENARIOS
from support.planning import T4, model, offer, planned, profile, question, scenario, shelf

from benchmarks.monotone import walk
from planner.catalog.knowledge import knowledge
from planner.io.load import load_scenario
from planner.model.parts.machines import BuySpec, OwnMachine
from planner.model.parts.streams import StreamSpec
from planner.model.plan import Rejection
from planner.model.simulation import Simulation
from planner.model.statement import Code
from planner.placing.packing.packed import Packing
from planner.placing.packing.packer import Packer
from planner.replay.deploying import devices_of
from planner.search.even import evaluate, evenly
from planner.search.simulation import simulate_named
from simulator.world.curves import Interpolated
from simulator.world.deployment import Drop
from simulator.world.profile import Doubt

WEEK = SCENARIOS / "horizon" / "week.yaml"
CATALOG, LIBRARY = knowledge(None, None)
NEARLY_FULL = ("streams[0].rate=28.23 fps", "horizon=20 s", "confidence=50%")
"""Of seven T4, 97 %."""


def simulated(count: int, *changes: str) -> Simulation:
    loaded = load_scenario(WEEK, (*NEARLY_FULL, *changes))
    return simulate_named(loaded, CATALOG, LIBRARY, "T4", count, date(2026, 11, 23))


@pytest.mark.parametrize("headroom", ["0%", "20%"])
def test_seven_carry_what_seven_can_whatever_is_kept_free(headroom: str) -> None:
    seen, usual = simulated(7, f"headroom={headroom}"), simulated(7)
    assert seen.feasible
    assert {round(gpu.offered_load, 6) for gpu in seen.gpus} == {round(usual.gpus[0].offered_load, 6)}
    assert 0.95 < usual.gpus[0].offered_load < 1
    assert (seen.models, seen.gpus) == (usual.models, usual.gpus)


def test_six_are_too_few_and_all_alike() -> None:
    seen = simulated(6)
    assert not seen.feasible
    loads = [gpu.offered_load for gpu in seen.gpus]
    assert max(loads) == pytest.approx(min(loads))
    assert max(loads) > 1


def test_verdicts_do_not_turn_back() -> None:
    """The same for 200 seeds: `python -m benchmarks.monotone --count 200`."""
    assert walk(76, Namespace(kind=None, traffic=None, load=None)).turned_back == ()


def test_plans_know_replicas_that_are_evened_by_the_batches_that_run() -> None:
    """Two models on one GPU run smaller batches than by design, and shares that heed it have room on fewer GPUs."""
    cameras = {"a": (10, 10.0), "b": (120, 10.0)}
    asked = scenario([model("a"), model("b")], cameras, headroom=0.2, buy=BuySpec(gpus=("T4",)))
    library = shelf(profile("a", T4, 0.016, 0.004), profile("b", T4, 0.016, 0.016))
    of = question(asked, [offer(T4, 1.0)], library)

    def has_room(gpus: int) -> bool:
        packer = Packer(list(of.needs), of.sized, of.rules(False, {}), seed=1, even=True)
        packing = evenly(packer, devices_of((offer(T4, 1.0),), (gpus,)))
        return isinstance(packing, Packing) and packing.work <= 0.8

    bought = planned(asked, library).recommendation.gpu_count
    assert bought <= next(gpus for gpus in range(20, 40) if has_room(gpus))


BOX = OwnMachine(name="box", gpu="T4", price=0.5, count=8)


def test_a_gpu_runs_the_batches_that_cost_least_not_the_largest_where_it_would_be_too_busy_otherwise() -> None:
    """A frame takes 6 ms in batches of two and 15 ms in batches of four: 140 a second are 0.84 of a GPU, or 2.1."""
    uneven = replace(profile("a", T4, 0.0, 0.0), latency=Interpolated((1.0, 2.0, 4.0), (0.010, 0.012, 0.060)))
    asked = scenario([model("a", 0.2)], {"a": (14, 10.0)}, buy=BuySpec(own=(BOX,)))
    best = planned(asked, shelf(uneven)).recommendation
    assert (best.feasible, best.gpu_count, best.models[0].batch_size) == (True, 1, 2)


def test_gpus_that_would_do_nothing_help_where_an_slo_is_missed() -> None:
    """On five of 16 GPUs too many draws miss, and the arithmetic of rounds needs no more; on all of them few do."""
    slow_end = Doubt(error_sd=Interpolated((1.0,), (0.6,)), quantile=1.64)
    well_known = replace(slow_end, error_sd=Interpolated((1.0,), (0.2,)))
    light = replace(profile("light", T4, 0.002, 0.001), doubt=well_known, predicted=True)
    heavy = replace(profile("heavy", T4, 0.020, 0.004), doubt=slow_end, predicted=True)
    asked = scenario([model("light", 0.02), model("heavy", 0.03)], {"heavy": (10, 15.0)}, confidence=0.9)
    asked = replace(asked, streams=(*asked.streams, StreamSpec(model="light", poisson=600.0)))
    of = question(asked, [offer(T4, 1.0)], shelf(light, heavy))
    trial = evaluate(of, offer(T4, 1.0), 16)
    assert trial.met
    assert {device for placed in trial.packing.placed for device in placed.devices} == set(trial.devices)


@pytest.mark.parametrize("boxes", [1, 2])
def test_a_rejection_quotes_the_best_placement_that_was_found(boxes: int) -> None:
    """Three models that take 0.65 of a GPU each: two on a GPU would be 1.3; cut evenly over two all are 0.975."""
    library = shelf(*(profile(name, T4, 0.0, 0.010) for name in "abc"))
    cameras = dict.fromkeys("abc", (13, 5.0))
    asked = scenario(
        [model(name, 0.5) for name in "abc"], cameras, drop=Drop.NEVER, buy=BuySpec(own=(replace(BOX, count=boxes),))
    )
    plan = planned(asked, library)
    (busy,) = [no for no in plan.rejections if no.why.code is Code.TOO_BUSY]
    assert busy.observed == pytest.approx(3 * 0.65 / boxes, rel=0.02)


def too_busy(models: str, boxes: int) -> Rejection:
    """Why one GPU more than these is needed for models that take 0.65 of a GPU each."""
    library = shelf(*(profile(name, T4, 0.0, 0.010) for name in models))
    buy = BuySpec(own=(replace(BOX, count=boxes),))
    cameras = dict.fromkeys(models, (13, 5.0))
    asked = scenario([model(name, 0.5) for name in models], cameras, drop=Drop.NEVER, headroom=0.0, buy=buy)
    (busy,) = [no for no in planned(asked, library).rejections if no.why.code is Code.TOO_BUSY]
    return busy


@pytest.mark.parametrize(("models", "boxes", "more"), [("abc", 1, 1), ("abcde", 1, 3), ("abcd", 2, 1)])
def test_too_much_work_for_one_model_to_give_way_asks_for_enough_gpus(models: str, boxes: int, more: int) -> None:
    """Without one of three models the other two still take 1.3 of the GPU; five take 3.25, so three GPUs more. Of four
    on two GPUs, less of one leaves the other GPU at 1.3."""
    remedies = {one.code: one for one in too_busy(models, boxes).remedies}
    assert Code.FEWER_CAMERAS not in remedies
    assert remedies[Code.MORE_GPUS].figures["gpu_count"] == more


def test_cameras_are_dropped_where_that_alone_is_enough() -> None:
    """Two models take 1.3 of the GPU. Seven of thirteen cameras of one are 0.35 beside 0.65; eight are too many."""
    remedies = {one.code: one for one in too_busy("ab", 1).remedies}
    assert remedies[Code.FEWER_CAMERAS].figures == {"left": 7, "count": 13}
