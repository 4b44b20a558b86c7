"""Fleets that cost the same: the surest of them is the answer, and of equally sure ones the fastest."""

from dataclasses import replace

import pytest
from support.planning import A10G, T4, V100, model, offer, planned, profile, question, scenario, shelf

from planner.catalog.offers import Offer
from planner.model.parts.machines import BuySpec, OwnMachine
from planner.model.plan import Plan
from planner.model.progress import silent
from planner.model.scenario import Objective, Scenario
from planner.replay.answer import p99_over_slo
from planner.replay.trial import Trial
from planner.search.fleets.beside import Beside
from planner.search.fleets.search import FleetSearch
from simulator.world.curves import Interpolated
from simulator.world.profile import Doubt

QUICK, SLOW = profile("a", V100, 0.004, 0.002), profile("a", T4, 0.012, 0.006)
MIDDLING = profile("a", A10G, 0.008, 0.004)


def asked(**changes: object) -> Scenario:
    return scenario([model("a", 0.2)], {"a": (10, 12.0)}, **changes)


def answer(search: FleetSearch) -> Trial:
    found = Beside(search).found(search.best(search.question.program(), search.question.scenario.objective))
    assert found.best
    return found.best


def best_of(asked: Scenario, *offers: Offer) -> Trial:
    return answer(FleetSearch(question(asked, offers, shelf(QUICK, SLOW, MIDDLING)), silent))


@pytest.mark.parametrize("turn", [1, -1])
def test_of_equally_sure_fleets_at_one_price_the_fastest_is_taken(turn: int) -> None:
    """Whichever the integer program happens to propose first."""
    best = best_of(asked(), *[offer(V100, 0.4), offer(T4, 0.4), offer(A10G, 0.4)][::turn])
    assert {gpu.name for gpu in (one.gpu for one in best.bought)} == {"V100"}
    assert best.cost_usd_per_hour == pytest.approx(0.4)


def test_a_price_above_never_wins_by_speed() -> None:
    best = best_of(asked(), offer(V100, 0.41), offer(T4, 0.4))
    assert [one.gpu.name for one in best.bought] == ["T4"]


@pytest.mark.parametrize("turn", [1, -1])
def test_mixes_at_the_price_of_one_kind_are_set_beside_it(turn: int) -> None:
    """300 requests a second take three T4 at 133 each, or an A10G at twice the price beside one: $1.20 both."""
    offers = [offer(A10G, 0.8), offer(T4, 0.4)][::turn]
    search = FleetSearch(
        question(scenario([model("a", 0.2)], {"a": (25, 12.0)}), offers, shelf(SLOW, MIDDLING)), silent
    )
    best = answer(search)
    assert best.cost_usd_per_hour == pytest.approx(1.2)
    tried = [search.try_fleet(tuple(offers), fleet[::turn]) for fleet in ((0, 3), (1, 1))]
    p99s = [p99_over_slo(trial) for trial in tried if trial]
    assert len(p99s) == 2
    assert p99_over_slo(best) == min(p99s) < max(p99s)


@pytest.mark.parametrize("turn", [1, -1])
def test_of_fleets_at_one_price_the_surest_is_taken_though_it_is_slower(turn: int) -> None:
    """A quick kind of which nobody knows how quick it is keeps the SLO in fewer draws than a slow one."""
    known, unknown = (Doubt(error_sd=Interpolated((1.0,), (sd,))) for sd in (0.05, 1.2))
    kinds = shelf(replace(QUICK, doubt=unknown), replace(SLOW, doubt=known))
    offers = [offer(V100, 0.4), offer(T4, 0.4)][::turn]
    search = FleetSearch(question(asked(), offers, kinds), silent)
    best = answer(search)
    (beside,) = [one for one in search.tried.values() if one and one.kinds != best.kinds]
    assert [one.gpu.name for one in best.bought] == ["T4"]
    assert best.replay.all_kept
    assert beside.replay.all_kept
    assert best.replay.all_kept.mean > beside.replay.all_kept.mean
    assert p99_over_slo(best) > p99_over_slo(beside)


def test_machines_that_differ_in_name_alone_are_no_other_fleet() -> None:
    """Nor are the same GPUs in larger machines: the small ones are taken, as ever."""
    offers = [offer(T4, 0.4, name="one"), offer(T4, 0.4, name="two"), offer(T4, 0.8, gpu_count=2)]
    busy = scenario([model("a", 0.2)], {"a": (20, 12.0)})
    search = FleetSearch(question(busy, offers, shelf(SLOW)), silent)
    best = answer(search)
    assert best.cost_usd_per_hour == pytest.approx(0.8)
    assert {one.gpu_count for one in best.bought} == {1}
    assert not search.glanced


def of_own(**changes: object) -> Plan:
    own = tuple(OwnMachine(name=name, gpu=name, gpu_count=1, price=0.4, count=4) for name in ("T4", "V100"))
    return planned(asked(buy=BuySpec(own=own), **changes), shelf(QUICK, SLOW))


@pytest.mark.parametrize("objective", [Objective.COST, Objective.GPUS])
def test_the_others_at_its_price_are_alternatives_of_the_answer(objective: Objective) -> None:
    plan = of_own(objective=objective)
    assert [one.instance for one in plan.recommendation.instances] == ["V100"]
    assert [one.instance for one in plan.alternatives[0].instances] == ["T4"]
    assert plan.alternatives[0].cost_usd_per_hour == pytest.approx(plan.recommendation.cost_usd_per_hour)
