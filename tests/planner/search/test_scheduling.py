"""What the arithmetic of rounds may reject: only fleets whose GPUs serve each of their models once a round."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from support.planning import T4, model, planned, profile, scenario, shelf

from planner.model.parts.machines import BuySpec, OwnMachine
from planner.model.parts.rules import SwapSpec
from planner.model.parts.streams import StreamSpec
from planner.model.plan import Recommendation
from planner.model.scenario import MemoryPolicy, Scenario
from simulator.world.deployment import Drop, Scheduling

OTHERS = tuple("abcdefghij")
WITH_URGENT = shelf(profile("urgent", T4, 0.002, 0.0005), *(profile(name, T4, 0.015, 0.001) for name in OTHERS))
APART = shelf(*(profile(name, T4, 0.002, 0.0005, 120_000_000) for name in "ab"))


def boxes(count: int, **changes: object) -> BuySpec:
    return BuySpec(own=(OwnMachine(name="box", gpu="T4", price=0.3, count=count, **changes),))


def one_is_urgent(scheduling: Scheduling, count: int = 3) -> Scenario:
    """A round of all takes far longer than the urgent one may wait, and one batch of another does not."""
    models = [model("urgent", 0.03), *(model(name, 1.0, 0.95) for name in OTHERS)]
    asked = {"urgent": (1, 10.0), **dict.fromkeys(OTHERS, (1, 4.0))}
    return scenario(models, asked, scheduling=scheduling, buy=boxes(count))


def take_turns(scheduling: Scheduling, count: int = 3) -> Scenario:
    """In turn, each batch of 5 waits for two loads of 10 ms; a model that stays while it is loaded runs several."""
    return replace(
        scenario([model(name, 0.2, 0.95) for name in "ab"], dict.fromkeys("ab", (1, 1.0))),
        streams=tuple(StreamSpec(model=name, poisson=300.0) for name in "ab"),
        scheduling=scheduling,
        buy=boxes(count, memory=320_000_000),
        context=100_000_000,
        drop=Drop.NEVER,
        memory=MemoryPolicy.AUTO,
        swap=SwapSpec(prefetch=False),
    )


def answer(asked: Scenario) -> Recommendation:
    found = planned(asked, WITH_URGENT if len(asked.models) > 2 else APART).recommendation
    assert found.feasible
    return found


@pytest.mark.parametrize("scheduling", [Scheduling.EDF, Scheduling.SWAP_AWARE])
def test_who_may_go_first_waits_for_no_round(scheduling: Scheduling) -> None:
    assert answer(one_is_urgent(Scheduling.ROUND_ROBIN)).gpu_count == 2
    assert answer(one_is_urgent(scheduling)).gpu_count == 1


def test_models_that_stay_while_loaded_are_not_rejected_for_loads_in_each_turn() -> None:
    in_turn = planned(take_turns(Scheduling.ROUND_ROBIN), APART)
    assert in_turn.recommendation.gpu_count == 2
    found = answer(take_turns(Scheduling.SWAP_AWARE))
    assert (found.gpu_count, {one.mode for one in found.models}) == (1, {"swapped"})


@pytest.mark.parametrize("asked", [one_is_urgent, take_turns])
def test_fewer_machines_on_offer_never_make_a_plan_cheaper(asked: Callable[[Scheduling, int], Scenario]) -> None:
    many, one = (answer(asked(Scheduling.SWAP_AWARE, count)) for count in (3, 1))
    assert many.cost_usd_per_hour == one.cost_usd_per_hour
