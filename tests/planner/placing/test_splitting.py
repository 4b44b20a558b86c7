"""Splits of an SLO over stages: against every combination, and within the SLO on every way."""

from collections.abc import Iterator, Mapping
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.placing.splitting import Before, Choice, budgets_s, least_cost, longest_s, most_s, worth_it


def total_cost(chosen: Mapping[str, Choice]) -> float:
    return sum(choice.cost for choice in chosen.values())


def exhaustive(
    before: Before, choices: Mapping[str, list[Choice]], slo_s: float, ends_s: Mapping[str, float]
) -> float | None:
    """Least cost over all combinations."""
    costs = []
    for combination in product(*choices.values()):
        chosen = dict(zip(choices, combination, strict=True))
        times_s = {stage: choice.time_s for stage, choice in chosen.items()}
        until_s = longest_s(before, times_s)
        if all(until_s[stage] <= min(slo_s, ends_s.get(stage, slo_s)) + 1e-9 for stage in before):
            costs.append(total_cost(chosen))
    return min(costs, default=None)


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, tuple[str, ...]]:
    """Up to five stages, each after any of those before it."""
    names = "abcde"[: draw(st.integers(1, 5))]
    return {
        name: tuple(sorted(draw(st.sets(st.sampled_from(names[:i]), max_size=3)) if i else ()))
        for i, name in enumerate(names)
    }


TIMES = st.lists(st.integers(1, 20), min_size=1, max_size=4, unique=True)


@given(graphs(), st.data())
def test_no_combination_costs_less(before: dict[str, tuple[str, ...]], data: st.DataObject) -> None:
    choices = {
        stage: [Choice(time / 1000, data.draw(st.integers(1, 9)) / 10) for time in data.draw(TIMES)] for stage in before
    }
    slo_s = data.draw(st.integers(1, 60)) / 1000
    ends_s = {stage: data.draw(st.integers(1, 60)) / 1000 for stage in before if data.draw(st.booleans())}
    found = least_cost(before, choices, slo_s, ends_s)
    least = exhaustive(before, choices, slo_s, ends_s)
    if least is None:
        assert found is None
        return
    assert found is not None
    assert total_cost(found) == pytest.approx(least, abs=1e-6)
    times_s = {stage: choice.time_s for stage, choice in found.items()}
    until_s = longest_s(before, times_s)
    assert max(until_s.values()) <= slo_s + 1e-6
    assert all(until_s[stage] <= end_s + 1e-6 for stage, end_s in ends_s.items())


def ways(before: Before) -> Iterator[list[str]]:
    """All ways from a first stage to a last one."""

    def back(stage: str) -> Iterator[list[str]]:
        if not before[stage]:
            yield [stage]
        for earlier in before[stage]:
            yield from ([*way, stage] for way in back(earlier))

    for stage in before:
        if not any(stage in earlier for earlier in before.values()):
            yield from back(stage)


@given(graphs(), st.data())
def test_no_way_has_more_than_the_slo_and_every_stage_its_time(
    before: dict[str, tuple[str, ...]], data: st.DataObject
) -> None:
    times_s = {stage: data.draw(st.integers(1, 30)) / 1000 for stage in before}
    slo_s = max(longest_s(before, times_s).values()) * data.draw(st.floats(1.0, 3.0))
    budgets = budgets_s(before, times_s, slo_s)
    assert all(sum(budgets[stage] for stage in way) <= slo_s * (1 + 1e-9) for way in ways(before))
    assert all(budgets[stage] >= times_s[stage] * (1 - 1e-9) for stage in before)
    assert max(sum(budgets[stage] for stage in way) for way in ways(before)) == pytest.approx(slo_s)


@given(graphs(), st.data())
def test_no_way_to_a_stage_has_more_than_its_own_slo(before: dict[str, tuple[str, ...]], data: st.DataObject) -> None:
    times_s = {stage: data.draw(st.integers(1, 30)) / 1000 for stage in before}
    until_s = longest_s(before, times_s)
    slo_s = max(until_s.values()) * data.draw(st.floats(1.0, 3.0))
    ends_s = {stage: until_s[stage] * data.draw(st.floats(1.0, 2.0)) for stage in before if data.draw(st.booleans())}
    budgets = budgets_s(before, times_s, slo_s, ends_s)
    taken_s = longest_s(before, budgets)
    assert max(taken_s.values()) <= slo_s * (1 + 1e-9)
    assert all(taken_s[stage] <= end_s * (1 + 1e-9) for stage, end_s in ends_s.items())
    assert all(budgets[stage] >= times_s[stage] * (1 - 1e-9) for stage in before)


def test_the_worked_example() -> None:
    two = {"a": (), "b": ("a",)}
    both = [Choice(0.01, 3.0), Choice(0.02, 2.0)]
    chosen = least_cost(two, {"a": both, "b": both}, 0.03)
    assert chosen is not None
    assert sorted(choice.cost for choice in chosen.values()) == [2.0, 3.0]
    assert budgets_s(two, {"a": 0.01, "b": 0.02}, 0.06) == pytest.approx({"a": 0.02, "b": 0.04})
    early = {"a": 0.015}
    assert budgets_s(two, {"a": 0.01, "b": 0.02}, 0.06, early) == pytest.approx({"a": 0.015, "b": 0.04})


def test_what_another_beats_in_both_is_left_out() -> None:
    kept = worth_it([Choice(0.02, 2.0), Choice(0.01, 3.0), Choice(0.03, 2.5), Choice(0.04, 1.0)])
    assert [choice.cost for choice in kept] == [3.0, 2.0, 1.0]
    assert np.all(np.diff([choice.time_s for choice in kept]) > 0)


@given(graphs(), st.data())
def test_a_stage_may_take_all_that_the_others_leave(before: dict[str, tuple[str, ...]], data: st.DataObject) -> None:
    """With just that a way through it takes the whole SLO, or until an end with an SLO of its own all of that."""
    times_s = {stage: data.draw(st.integers(1, 20)) / 1000 for stage in before}
    ends_s = {stage: data.draw(st.integers(1, 60)) / 1000 for stage in before if data.draw(st.booleans())}
    for stage, most in most_s(before, times_s, 0.06, ends_s).items():
        until_s = longest_s(before, times_s | {stage: most + 1.0})
        over_s = [until_s[one] - ends_s.get(one, 0.06) for one in before if until_s[one] > 1]
        assert max([*over_s, max(until_s.values()) - 0.06]) == pytest.approx(1.0)
