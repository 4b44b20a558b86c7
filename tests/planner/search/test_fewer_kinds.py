"""Fewer kinds: a plan costs no more because more kinds of GPU are on offer."""

import pytest
from support.planning import CATALOG, T4, V100, model, planned, profile, scenario, shelf

from planner.model.parts.machines import BuySpec, OwnMachine
from simulator.world.hardware import GPU

L4 = CATALOG.gpus["L4"]
SECONDS = {
    "doors": {T4: (0.0046, 0.0025), V100: (0.0021, 0.0012), L4: (0.0025, 0.0011)},
    "gates": {T4: (0.0136, 0.0098), V100: (0.0071, 0.0041), L4: (0.01, 0.0043)},
}
"""Of each batch, and of each of its frames, by kind of GPU."""
USD_PER_HOUR = {T4: 0.53, V100: 1.0, L4: 0.83}


def cost_usd_per_hour(*kinds: GPU) -> float:
    """Of the plan for 37 doors and 16 gates on boxes with these kinds."""
    asked = scenario(
        [model("doors", 0.08), model("gates", 0.03)],
        {"doors": (37, 15.0), "gates": (16, 15.0)},
        buy=BuySpec(
            own=tuple(OwnMachine(name=f"box-{k.name}", gpu=k.name, price=USD_PER_HOUR[k], count=6) for k in kinds),
            max_gpus=18,
        ),
    )
    shelved = shelf(*(profile(name, gpu, *both) for name, on in SECONDS.items() for gpu, both in on.items()))
    answer = planned(asked, shelved).recommendation
    assert answer.feasible
    return answer.cost_usd_per_hour


@pytest.mark.parametrize("fewer", [(T4, V100), (T4, L4), (V100, L4)], ids=lambda kinds: " ".join(k.name for k in kinds))
def test_a_third_kind_of_gpu_does_not_make_the_plan_dearer(fewer: tuple[GPU, ...]) -> None:
    """The cheapest mixes of all three miss, and one of two kinds that does was behind the first that does of three."""
    assert cost_usd_per_hour(T4, V100, L4) <= cost_usd_per_hour(*fewer)
