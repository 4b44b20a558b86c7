"""Ctrl-C during a search: the best fleet until then is the answer, and says so; without one, what was tried is."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from support.answers import PLAN
from support.commands import planner
from support.planning import CATALOG, T4, V100, loaded, model, profile, scenario, shelf

from planner.api import serving
from planner.model.parts.machines import BuySpec
from planner.model.plan import InterruptedSearch, Plan, PlanWarning, Searched
from planner.model.scenario import Objective, Scenario
from planner.model.statement import Code, Statement
from planner.placing.merging.options import NOTHING_MERGED
from planner.search import merged
from planner.search.merged import MergingWay, until_then
from planner.search.plan import plan
from planner.show.documents.brief import brief
from planner.show.text.plan import headline
from planner.units.reading import HOURS_PER_MONTH
from planner.units.writing import Screen, dollars

LIBRARY = shelf(profile("a", T4, 0.012, 0.006), profile("a", V100, 0.004, 0.002))
MADE = "2026-07-25T00:00:00"
INTERRUPTED = PlanWarning(what=Statement(code=Code.INTERRUPTED))


def asked(**changes: object) -> Scenario:
    return scenario([model("a", 0.2)], {"a": (60, 10.0)}, buy=BuySpec(gpus=("T4", "V100")), **changes)


def interrupted_at(count: int, what: Scenario, doing: str = "trying") -> Plan | None:
    """The plan where Ctrl-C comes as a fleet is tried for the `count`-th time; None where no search had begun."""
    left = count

    def tell(text: str, _done: float) -> None:
        nonlocal left
        left -= text.startswith(doing)
        if left < 0:
            raise KeyboardInterrupt

    try:
        return plan(loaded(what), CATALOG, LIBRARY, created_at=MADE, progress=tell)
    except InterruptedSearch as stop:
        return stop.plan
    except KeyboardInterrupt:
        return None


def test_the_best_until_then_is_kept_whenever_it_comes() -> None:
    whole = plan(loaded(asked()), CATALOG, LIBRARY, created_at=MADE)
    plans: list[Plan | None] = []
    for count in range(40):
        plans.append(found := interrupted_at(count, asked()))
        if found and not found.interrupted:
            break
    cut = [found for found in plans if found and found.interrupted and not found.interrupted_before]
    assert cut
    assert plans[-1] == whole
    for found in cut:
        assert found.recommendation.feasible
        assert found.recommendation.cost_usd_per_hour >= whole.recommendation.cost_usd_per_hour
        assert headline(found).startswith("Interrupted. The cheapest so far is ")
        assert found.by_gpu_left_out == ()  # what was not tried is not said to fail
    assert cut[-1].recommendation.instances == whole.recommendation.instances


@pytest.mark.parametrize(("limits", "doing", "rejected"), [({}, "trying", False), ({"max_gpus": 1}, "replaying", True)])
def test_without_one_it_says_where_it_was_what_missed_and_what_any_costs_at_least(
    limits: dict[str, int], doing: str, rejected: bool
) -> None:
    """130 cameras are too many for one T4, which is known before that is replayed as the closest."""
    what = scenario([model("a", 0.2)], {"a": (130, 10.0)}, buy=BuySpec(gpus=("T4",), **limits))
    found = interrupted_at(0, what, doing)
    assert found is not None
    assert (found.interrupted_before, found.recommendation.feasible) == (True, False)
    bound = found.recommendation.lower_bound_usd_per_hour
    free = replace(what, buy=BuySpec(gpus=("T4",)))
    assert 0 < bound <= plan(loaded(free), CATALOG, LIBRARY, created_at=MADE).recommendation.cost_usd_per_hour
    said = brief(found, Screen(width=500))
    assert said.startswith("Interrupted before any fleet met every SLO")
    assert f"no fleet under {dollars(bound)}/h can do this" in said
    assert " x g4dn.xlarge" in said.partition("interrupted at ")[2]
    assert "come to its end, or ask for less" in said
    assert ("`buy.max_gpus: " in said) is rejected


def test_what_was_being_confirmed_is_shown_as_that() -> None:
    found = interrupted_at(0, asked(), "confirming")
    assert found
    assert (found.interrupted, found.interrupted_before) == (True, False)
    assert not found.recommendation.feasible
    assert found.recommendation.searched is Searched.SCREENED
    assert found.recommendation.instances


def test_it_has_its_spares() -> None:
    found = [interrupted_at(count, asked(survive=1)) for count in range(12)]
    cut = [one for one in found if one and one.interrupted and not one.interrupted_before]
    assert cut
    assert all([one.spares for one in each.recommendation.instances] == [1] for each in cut)


def test_ways_that_were_weighed_before_are_not_lost() -> None:
    stop = KeyboardInterrupt()
    assert until_then(stop, [], Objective.COST, []) is stop
    way = MergingWay(option=NOTHING_MERGED, question=None, plan=PLAN)  # type: ignore[arg-type]
    kept = until_then(stop, [way], Objective.COST, [])
    assert isinstance(kept, InterruptedSearch)
    assert kept.plan.interrupted
    assert kept.plan.recommendation.instances == PLAN.recommendation.instances


def costing(usd_per_hour: float) -> Plan:
    """The plan of tests at another price."""
    costs = {"cost_usd_per_hour": usd_per_hour, "cost_usd_per_month": usd_per_hour * HOURS_PER_MONTH}
    return replace(PLAN, recommendation=replace(PLAN.recommendation, **costs))


class Bounded(NamedTuple):
    """A question of which only the bound is asked."""

    usd_per_hour: float

    def lower_bound_usd_per_hour(self) -> float:
        return self.usd_per_hour


@pytest.mark.parametrize("feasible", [True, False])
def test_the_bound_is_that_of_all_ways_tried_or_not(feasible: bool) -> None:
    """Merged, which was not tried yet, half the money might do."""
    tried = [MergingWay(NOTHING_MERGED, None, PLAN)] if feasible else []  # type: ignore[arg-type]
    stop = InterruptedSearch(replace(PLAN, warnings=(INTERRUPTED,)))
    kept = until_then(stop, tried, Objective.COST, [Bounded(2.0), Bounded(1.0)])  # type: ignore[list-item]
    assert isinstance(kept, InterruptedSearch)
    assert kept.plan.recommendation.lower_bound_usd_per_hour == 1.0


@pytest.mark.parametrize("second_usd", [2.0, 4.0])
def test_ctrl_c_in_a_second_way_keeps_the_better_of_both(second_usd: float, monkeypatch) -> None:
    ways = [costing(3.0), InterruptedSearch(replace(costing(second_usd), warnings=(INTERRUPTED,)))]

    def of_one_way(*_: object, **__: object) -> Plan:
        if isinstance(way := ways.pop(0), KeyboardInterrupt):
            raise way
        return way

    monkeypatch.setattr(merged, "options", lambda *_: [NOTHING_MERGED, NOTHING_MERGED])
    monkeypatch.setattr(merged, "has_room", lambda _: False)  # else a second way needs no search
    monkeypatch.setattr(merged, "plan_of_one_way", of_one_way)
    with pytest.raises(InterruptedSearch) as stopped:
        merged.weigh(loaded(asked()), CATALOG, LIBRARY, created_at=MADE, progress=lambda *_: None)
    kept = stopped.value.plan
    assert kept.recommendation.cost_usd_per_hour == min(3.0, second_usd)
    assert kept.warnings.count(INTERRUPTED) == 1
    assert PlanWarning(what=Statement(code=Code.WAYS_NOT_COMPARED)) in kept.warnings


def test_ctrl_c_while_ways_are_compared_keeps_the_best(monkeypatch) -> None:
    def compared(*_: object) -> list[object]:
        raise KeyboardInterrupt

    monkeypatch.setattr(merged, "options", lambda *_: [NOTHING_MERGED])
    monkeypatch.setattr(merged, "plan_of_one_way", lambda *_, **__: costing(3.0))
    monkeypatch.setattr(merged, "ways", compared)
    with pytest.raises(InterruptedSearch) as stopped:
        merged.weigh(loaded(asked()), CATALOG, LIBRARY, created_at=MADE, progress=lambda *_: None)
    assert stopped.value.plan.recommendation.cost_usd_per_hour == 3.0
    assert PlanWarning(what=Statement(code=Code.WAYS_NOT_COMPARED)) in stopped.value.plan.warnings


def test_the_command_shows_and_keeps_it_and_ends_as_interrupted(tmp_path: Path, monkeypatch) -> None:
    def stopped(*_: object, **__: object) -> Plan:
        raise InterruptedSearch(replace(PLAN, warnings=(INTERRUPTED,)))

    monkeypatch.setattr(serving, "plan", stopped)
    kept = tmp_path / "kept.json"
    code, out, _ = planner("plan", "video", "-o", kept)
    assert code == 130
    assert out.startswith("Interrupted. The cheapest so far is ")
    assert "The search was interrupted" in out
    assert "interrupted" in kept.read_text(encoding="utf-8")
