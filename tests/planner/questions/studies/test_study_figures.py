"""Figures and changes of studies: named once, compared by their bad end, and searched for by halving."""

import math
from dataclasses import replace
from math import isclose

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from planner.io.overrides import read_override
from planner.model.ranges import ROUNDING
from planner.questions.studies.base import ChangedValue
from planner.questions.studies.engine import Ask
from planner.questions.studies.figures import SERVING, TRAINING, is_figure, middle
from planner.questions.studies.reading import between, measured
from planner.questions.studies.results import OutputAnswer
from planner.questions.studies.scenario import Condition, Find, Search, output_of, with_unit
from planner.questions.studies.threshold import SIGNS, bracket, next_values, one_holds
from planner.show.text.studies import number

NUMBERS = st.floats(-1e6, 1e6)
SCALARS = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | NUMBERS | st.text(st.characters(codec="ascii"))
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3), max_leaves=4)


@pytest.mark.parametrize(("ask", "figures"), [(Ask.PLAN, SERVING), (Ask.SIMULATE, SERVING), (Ask.TRAIN, TRAINING)])
def test_every_figure_is_found_by_its_name(ask: Ask, figures) -> None:
    for name, about in figures.items():
        found = output_of(name, ask)
        assert (found.name, found.figure, found.model, found.about) == (name, name, "", about)
        if about.each:
            of_one = output_of(f"{name}[yolo.v3-tiny]", ask)
            assert (of_one.name, of_one.model) == (f"{name}[yolo.v3-tiny]", "yolo.v3-tiny")
        else:
            with pytest.raises(KeyError):
                output_of(f"{name}[yolov3]", ask)


@pytest.mark.parametrize("name", ["", "p99", "p99_s[", "p99_s[]", "p99_s]", "p99_s[a][b]", "[a]"])
def test_what_is_no_figure_has_no_facts(name: str) -> None:
    with pytest.raises(KeyError):
        output_of(name, Ask.PLAN)


@given(VALUES)
def test_a_change_is_what_set_reads(value: object) -> None:
    assert read_override(str(ChangedValue("models[a].slo.latency", value))) == ("models[a].slo.latency", value)


def test_a_change_by_hand_keeps_its_text() -> None:
    assert str(ChangedValue(*read_override("load = 2"), "load = 2")) == "load = 2"


@given(NUMBERS, NUMBERS, NUMBERS, st.sampled_from(sorted(SIGNS)))
def test_a_condition_holds_where_it_holds_at_both_ends(limit: float, one: float, other: float, sign: str) -> None:
    low, high = sorted((one, other))
    assume(all(end == limit or not isclose(end, limit, rel_tol=ROUNDING) for end in (low, high)))
    compare = {
        ">=": lambda x: x >= limit,
        ">": lambda x: x > limit,
        "<=": lambda x: x <= limit,
        "<": lambda x: x < limit,
    }
    outcome = {"feasible": True, "values": {"x": {"low": low, "mid": (low + high) / 2, "high": high}}}
    assert one_holds(Condition("", "x", sign, limit), outcome) is all(map(compare[sign], (low, high)))


def test_a_threshold_has_the_unit_that_was_asked() -> None:
    threshold = OutputAnswer(name="threshold", unit="ms", better="low", interval=True)
    assert number(74.42, threshold) == "74.4 ms"
    assert number(1.78, replace(threshold, unit="")) == "1.78"


@pytest.mark.parametrize(("sign", "holds"), [("<=", True), (">=", True), ("<", False), (">", False)])
def test_a_figure_that_equals_its_limit_but_for_rounding_is_on_neither_side_of_it(sign: str, holds: bool) -> None:
    assert 3 * 0.1 != 0.3
    outcome = {"feasible": True, "values": {"x": {"low": 3 * 0.1, "mid": 3 * 0.1, "high": 3 * 0.1}}}
    assert one_holds(Condition("", "x", sign, 0.3), outcome) is holds


@pytest.mark.parametrize("sign", sorted(SIGNS))
@pytest.mark.parametrize("figure", [None, "a text", {"low": None, "mid": 1.0, "high": None}])
def test_an_unknown_figure_holds_nothing(sign: str, figure: object) -> None:
    assert not one_holds(Condition("", "x", sign, 0.0), {"feasible": True, "values": {"x": figure}})


@given(
    st.floats(0.01, 100),
    st.floats(1.5, 1000),
    st.floats(0, 1),
    st.sampled_from([0.01, 0.05, 0.3]),
    st.sampled_from(list(Find)),
)
def test_halving_comes_as_near_as_asked_in_few_steps(
    low: float, ratio: float, share: float, tolerance: float, find: Find
) -> None:
    """Whatever the threshold, the bracket holds it and is as narrow as the tolerance, after 2 + log2 of that many."""
    high = low * ratio
    threshold = low * ratio**share
    search = Search("x", low, high, "", find, (), tolerance, whole=False)
    largest = find is Find.LARGEST
    held: dict[float, bool] = {}
    while values := next_values(search, held):
        held |= {value: value <= threshold if largest else value >= threshold for value in values}
    halvings = math.log2(math.log(ratio) / math.log1p(tolerance))
    assert len(held) <= 2 + max(0, math.ceil(halvings)) + 1  # one more, for values are rounded to six digits
    found = bracket(search, held)
    ends = [end for end in (found.good, found.bad) if end is not None]
    assert all(held[end] is (end == found.good) for end in ends)
    if len(ends) == 2:
        assert min(ends) <= threshold <= max(ends)
        assert max(ends) <= min(ends) * (1 + tolerance)


@given(st.floats(0.001, 1e6), st.floats(1.01, 1e3), st.integers(2, 50), st.booleans())
def test_ranges_go_from_end_to_end(low: float, ratio: float, steps: int, log: bool) -> None:
    numbers = list(between(low, low * ratio, steps, log=log))
    assert len(numbers) == steps
    assert numbers == sorted(numbers)
    assert (numbers[0], numbers[-1]) == pytest.approx((low, low * ratio), rel=1e-5)


@given(st.floats(0, 1e12), st.sampled_from(["", "ms", "fps", "GB"]))
def test_a_number_is_written_as_it_is_read(number: float, unit: str) -> None:
    assert measured(with_unit(number, unit)) == (number, unit)


@given(NUMBERS, NUMBERS, NUMBERS)
def test_only_numbers_have_a_middle(low: float, mid: float, high: float) -> None:
    figure = {"low": low, "mid": mid, "high": high}
    assert middle(figure) == middle(mid) == mid
    assert is_figure(figure, number=True)
    assert not is_figure(figure, number=False)
    for nothing in (None, True, "text"):
        assert math.isnan(middle(nothing))
        assert not is_figure(nothing, number=True)
