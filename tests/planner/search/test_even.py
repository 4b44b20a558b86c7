"""GPUs that one names oneself: each has as much to do as the others, whatever is kept free, and verdicts never turn."""

from argparse import Namespace
from datetime import date

import pytest
from support.paths import SCENARIOS
from support.planning import T4, model, offer, planned, profile, question, scenario, shelf

from benchmarks.monotone import walk
from planner.catalog.knowledge import knowledge
from planner.io.load import load_scenario
from planner.model.parts.machines import BuySpec
from planner.model.simulation import Simulation
from planner.placing.packing.packed import Packing
from planner.placing.packing.packer import Packer
from planner.replay.deploying import devices_of
from planner.search.even import evenly
from planner.search.simulation import simulate_named

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


@pytest.mark.parametrize("seed", [76, 154])
def test_verdicts_do_not_turn_back(seed: int) -> None:
    """The same for 200 seeds: `python -m benchmarks.monotone --count 200`."""
    assert walk(seed, Namespace(kind=None, traffic=None, load=None)).turned_back == ()


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
