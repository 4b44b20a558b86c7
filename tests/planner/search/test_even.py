"""GPUs that one names oneself: each has as much to do as the others, whatever is kept free, and verdicts never turn."""

from argparse import Namespace
from datetime import date

import pytest
from support.paths import SCENARIOS

from benchmarks.monotone import walk
from planner.catalog.knowledge import knowledge
from planner.io.load import load_scenario
from planner.model.simulation import Simulation
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
