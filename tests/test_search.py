"""The lower bound against brute force, fleets in order of price, and answers and refusals from end to end."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning import CATALOG, T4, V100, Shelf, model, offer, profile, question, scenario, shelf
from scipy.optimize import linprog

from planner.cost import Fleet, cost_usd_per_hour, fleet_label, gpu_count
from planner.load import Loaded
from planner.plan import Bottleneck, Plan
from planner.scenario import BuySpec, MemoryPolicy, Objective, OwnMachine, Scenario
from planner.search import NothingToPlanError, Question, evaluate, plan, undominated
from planner.sizing import Kind
from simulator.deployment import Drop

OFFERS = (offer(T4, 0.526), offer(T4, 1.8, gpu_count=4), offer(V100, 3.06), offer(V100, 11.0, gpu_count=4))
LIBRARY = shelf(
    *(profile(n, V100, floor_s, slope_s) for n, floor_s, slope_s in (("a", 0.004, 0.002), ("b", 0.008, 0.004))),
    *(profile(n, T4, 3 * floor_s, 3 * slope_s) for n, floor_s, slope_s in (("a", 0.004, 0.002), ("b", 0.008, 0.004))),
)


def asked(rate_a: float = 300, rate_b: float = 200, **changes: object) -> Scenario:
    models = [model("a", 0.2), model("b", 0.3, 0.95)]
    return scenario(models, {"a": (10, rate_a / 10), "b": (10, rate_b / 10)}, **changes)


def can_carry(q: Question, fleet: Fleet) -> bool:
    """Whether some sharing of the work, split at will between kinds, leaves every kind its headroom."""
    kinds = list(dict.fromkeys(map(Kind.of, q.offers)))
    cells = [(m, k) for m in q.needs for k in kinds if (m, k) in q.sized]
    room = [
        (1 - q.scenario.headroom)
        * sum(n * o.gpu_count for o, n in zip(q.offers, fleet, strict=True) if Kind.of(o) == kind)
        for kind in kinds
    ]
    found = linprog(
        [0.0] * len(cells),
        A_ub=[[q.sized[m, k].least_work * (k == kind) for m, k in cells] for kind in kinds],
        b_ub=room,
        A_eq=[[float(m == name) for m, _ in cells] for name in q.needs],
        b_eq=[1.0] * len(q.needs),
        bounds=[(0, 1 if room[kinds.index(k)] else 0) for _, k in cells],
    )
    return bool(found.success)


@settings(max_examples=25)
@given(st.floats(20, 900), st.floats(20, 500), st.sampled_from([0.0, 0.1, 0.3]))
def test_lower_bound_is_the_least_over_all_fleets(rate_a: float, rate_b: float, headroom: float) -> None:
    q = question(asked(rate_a, rate_b, headroom=headroom, memory=MemoryPolicy.AUTO), OFFERS, LIBRARY)
    fleets = product(range(4), range(6), range(4), range(2))
    by_price = sorted(fleets, key=lambda fleet: cost_usd_per_hour(q.offers, fleet))
    least = next(fleet for fleet in by_price if can_carry(q, fleet))
    bound = q.program().lower_bound_usd_per_hour()
    assert bound == pytest.approx(cost_usd_per_hour(q.offers, least), rel=1e-5)


def proposed(q: Question, objective: Objective = Objective.COST) -> Fleet:
    found = q.program().propose(objective)
    assert found is not None
    assert found.fleet is not None
    return found.fleet


def test_resident_weights_raise_the_bound() -> None:
    heavy = shelf(*(profile(n, T4, 0.004, 0.002, 6_000_000_000) for n in "abcde"))
    light = scenario([model(n, 0.5) for n in "abcde"], dict.fromkeys("abcde", (1, 1.0)))
    assert question(light, [OFFERS[0]], heavy).program().lower_bound_usd_per_hour() == pytest.approx(2 * 0.526)
    turns = replace(light, memory=MemoryPolicy.SWAP)
    assert question(turns, [OFFERS[0]], heavy).program().lower_bound_usd_per_hour() == pytest.approx(0.526)


def test_fleets_come_in_order_of_price_and_none_is_part_of_a_refused_one() -> None:
    q = question(asked(), OFFERS, LIBRARY)
    refused: list[Fleet] = []
    for _ in range(8):
        found = q.program().propose(Objective.COST, refused)
        assert found is not None
        assert found.proven
        fleet = found.fleet
        assert fleet is not None
        assert not any(all(n <= had for n, had in zip(fleet, no, strict=True)) for no in refused)
        refused.append(fleet)
    costs = [cost_usd_per_hour(q.offers, fleet) for fleet in refused]
    assert costs == sorted(costs)


def test_limits_on_what_may_be_bought_are_kept() -> None:
    few = proposed(question(asked(buy=BuySpec(max_gpus=3)), OFFERS, LIBRARY))
    assert gpu_count(OFFERS, few) <= 3
    one = (replace(OFFERS[2], count_max=1), OFFERS[0])
    assert proposed(question(asked(900, 500), one, LIBRARY), Objective.GPUS)[0] == 1
    assert question(asked(buy=BuySpec(max_gpus=1)), OFFERS[:1], LIBRARY).program().propose() is None


def test_dearer_offers_of_the_same_cards_are_refused_by_name() -> None:
    kept, refused = undominated([offer(T4, 0.752, name="big"), *OFFERS[:2], offer(T4, 8.0, 8)], whole_hosts=False)
    assert [o.instance for o in kept] == ["4xT4", "1xT4"]  # 0.45 and 0.526 dollars a card
    assert [(no.bottleneck, no.limit) for no in refused] == [
        (Bottleneck.COST, pytest.approx(0.526)),
        (Bottleneck.COST, pytest.approx(3.6)),
    ]


def test_label_names_machines_and_cards() -> None:
    assert fleet_label(OFFERS, (2, 0, 0, 1)) == "2 x 1xT4 (T4) + 1 x 4xV100 (4 x V100)"


OWN = BuySpec(
    own=(
        OwnMachine(name="small", gpu="T4", price=0.5, count=8),
        OwnMachine(name="large", gpu="V100", price=3.0, count=4),
    )
)


def planned(question: Scenario, library: Shelf = LIBRARY) -> Plan:
    loaded = Loaded(question, "0" * 64, Path("made.yaml"))
    return plan(loaded, CATALOG, library, created_at="2026-07-25T00:00:00")


def test_plan_keeps_every_promise_and_says_what_it_costs() -> None:
    answer = planned(asked(buy=OWN)).recommendation
    assert answer is not None
    assert answer.feasible
    assert all(m.slo_met and m.slo_attainment.low >= m.slo_attainment_target for m in answer.models)
    assert answer.cost_usd_per_hour == pytest.approx(sum(i.count * i.usd_per_hour for i in answer.instances))
    assert answer.cost_usd_per_month == pytest.approx(730 * answer.cost_usd_per_hour)
    assert answer.cost_usd_per_hour >= answer.lower_bound_usd_per_hour * (1 - 1e-6)
    assert {card for m in answer.models for card in m.gpus} <= {g.id for g in answer.gpus}


def test_alternatives_are_other_fleets_and_the_pareto_set_names_some_of_them() -> None:
    found = planned(asked(buy=OWN))
    assert found.recommendation is not None
    labels = [found.recommendation.label, *(a.label for a in found.alternatives)]
    assert len(set(labels)) == len(labels) > 1
    assert all(a.feasible for a in found.alternatives)
    assert set(found.pareto) <= set(labels)
    assert found.pareto


def test_fewest_gpus_is_never_more_than_the_cheapest_plan_has() -> None:
    cheapest = planned(asked(600, 300, buy=OWN)).recommendation
    fewest = planned(asked(600, 300, buy=OWN, objective=Objective.GPUS)).recommendation
    assert cheapest is not None
    assert fewest is not None
    assert fewest.gpu_count <= cheapest.gpu_count


def test_swapping_serves_what_does_not_fit_together() -> None:
    heavy = shelf(*(profile(n, T4, 0.01, 0.002, 8_000_000_000) for n in "ab"))
    box = BuySpec(own=(OwnMachine(name="box", gpu="T4", price=0.3, host_memory=32_000_000_000),))
    light = scenario([model("a", 5.0, 0.9), model("b", 5.0, 0.9)], {"a": (1, 1.0), "b": (1, 1.0)}, buy=box)
    turns = planned(replace(light, memory=MemoryPolicy.AUTO, horizon=60.0), heavy).recommendation
    assert turns is not None
    assert turns.feasible
    assert {m.mode for m in turns.models} == {"swapped"}
    assert turns.gpus[0].swaps_per_s > 0
    resident = planned(light, heavy)
    assert resident.recommendation is None
    assert {no.bottleneck for no in resident.rejections} == {Bottleneck.MEMORY, Bottleneck.GPU_COUNT}


def test_model_over_two_cards_is_planned_as_stages() -> None:
    wide = shelf(profile("a", T4, 0.02, 0.002, 20_000_000_000))
    pair = BuySpec(own=(OwnMachine(name="pair", gpu="T4", gpu_count=2, price=1.0, count=2),))
    answer = planned(scenario([model("a", 0.5)], {"a": (4, 5.0)}, buy=pair), wide).recommendation
    assert answer is not None
    assert answer.feasible
    assert answer.models[0].gpus == ("pair-1:0", "pair-1:1")


@pytest.mark.parametrize(
    ("buy", "bottleneck", "way_out"),
    [
        (replace(OWN, max_gpus=1), Bottleneck.GPU_COUNT, "`buy.max_gpus: 4` or more"),
        (replace(OWN, max_cost=1.0), Bottleneck.COST, "`buy.max_cost: $7.00/h` or more"),
    ],
)
def test_limit_that_leaves_no_fleet_is_named(buy: BuySpec, bottleneck: Bottleneck, way_out: str) -> None:
    found = planned(asked(500, 500, buy=buy))
    assert found.recommendation is None or not found.recommendation.feasible
    named = [no for no in found.rejections if no.bottleneck is bottleneck]
    assert [no.way_out for no in named] == [way_out]
    assert named[0].observed > named[0].limit


def test_deployment_one_names_is_replayed_even_if_too_small() -> None:
    q = question(asked(900, 500), OFFERS, LIBRARY)
    trial = evaluate(q, OFFERS[0], 1)
    assert not trial.replay.met
    assert trial.replay.requests > 0
    wide = shelf(profile("a", T4, 0.02, 0.002, 20_000_000_000))
    alone = question(scenario([model("a", 0.5)], {"a": (1, 1.0)}), [offer(T4, 1.0, gpu_count=2)], wide)
    with pytest.raises(NothingToPlanError, match="no GPUs are left that can hold a"):
        evaluate(alone, offer(T4, 0.5), 1)


def test_frames_that_may_not_be_dropped_are_all_served() -> None:
    answer = planned(asked(buy=OWN, drop=Drop.NEVER)).recommendation
    assert answer is not None
    assert answer.feasible
    assert all(m.dropped_fraction == 0 for m in answer.models)
