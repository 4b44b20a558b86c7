"""Estimates with bands: what is read between points, past the last, and of two that differ."""

from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.model.plan import Estimate
from planner.prediction.rules.bands import (
    PAST_SPREAD,
    End,
    around,
    at_least,
    at_quantile,
    between,
    joined,
    per_batch,
    wider,
)

VALUES, SPREADS = st.floats(1e-4, 10.0), st.floats(0.02, 1.0)
ESTIMATES = st.builds(around, VALUES, SPREADS)


def ends(one: Estimate) -> tuple[float, float, float]:
    return one.low, one.value, one.high


@given(ESTIMATES)
def test_the_ends_of_a_band_are_its_quantiles(one: Estimate) -> None:
    assert ends(one) == pytest.approx(tuple(at_quantile(one, end) for end in (End.LOW, End.VALUE, End.HIGH)))
    assert ends(per_batch(one, 8)) == pytest.approx(tuple(8 * end for end in ends(one)))


@given(ESTIMATES, ESTIMATES, st.floats(0.0, 1.0))
def test_between_two_points_each_end_is_between_theirs(first: Estimate, last: Estimate, share: float) -> None:
    series = {1.0: first, 8.0: last}
    for at, known in series.items():
        assert ends(between(series, at)) == pytest.approx(ends(known))
    inside = between(series, 1.0 + 7.0 * share)
    for mine, *others in zip(ends(inside), ends(first), ends(last), strict=True):
        assert min(others) * (1 - 1e-9) <= mine <= max(others) * (1 + 1e-9)


@given(ESTIMATES, st.floats(1.0, 100.0))
def test_past_the_last_batch_the_band_widens_for_an_octave(one: Estimate, beyond: float) -> None:
    far = wider(one, beyond)
    assert far.value == one.value
    assert wider(one, 1.0) == one
    assert one.high <= far.high <= wider(one, 2.0).high * (1 + 1e-12)
    assert ends(wider(around(1.0, 0.0), 2.0)) == pytest.approx(ends(around(1.0, PAST_SPREAD)))


@given(ESTIMATES, ESTIMATES)
def test_of_two_estimates_the_surer_counts_more(one: Estimate, other: Estimate) -> None:
    both = joined(one, other)
    assert ends(both) == pytest.approx(ends(joined(other, one)))
    least, most = sorted((one.value, other.value))
    assert least * (1 - 1e-9) <= both.value <= most * (1 + 1e-9)
    surer, poorer = sorted((one, other), key=lambda estimate: estimate.high / estimate.low)
    assert abs(log(both.value / surer.value)) <= abs(log(both.value / poorer.value)) + 1e-9


@given(VALUES, SPREADS, SPREADS)
def test_two_that_agree_are_surer_than_each_alone(value: float, first: float, second: float) -> None:
    both = joined(around(value, first), around(value, second))
    assert both.high / both.low < around(value, min(first, second)).high / around(value, min(first, second)).low


@given(ESTIMATES, VALUES)
def test_no_end_is_below_what_must_be(one: Estimate, least: float) -> None:
    assert min(ends(at_least(one, least))) >= least
    assert ends(at_least(one, one.low / 2)) == pytest.approx(ends(one))
