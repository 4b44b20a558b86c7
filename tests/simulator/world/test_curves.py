"""Curves: the forms' laws, their range, and what all have in common."""

from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.interpolate import make_interp_spline

from simulator.world.curves import FORMS, Interpolated, Joined, SmoothMaximum, StraightLine, curve_of

X, Y = (1.0, 2.0, 4.0, 8.0), (3.0, 3.5, 5.0, 8.5)
PARAMETERS = {"a": 3.0, "c": 1.0, "p": 2.0, "fixed": 2.0, "slope": 0.8}
sizes = st.floats(1e-6, 1e3)


def of(form):
    return curve_of(form, X, Y, PARAMETERS)


def test_smooth_maximum_is_floor_and_slope_with_a_bend():
    assert SmoothMaximum(X, Y, a=3, c=1, p=2)(4) == 5
    assert SmoothMaximum(X, Y, a=3, c=1, p=1)(4) == 7
    assert SmoothMaximum(X, Y, a=3, c=1, p=12)(1) == pytest.approx(3, rel=1e-6)


def test_straight_line():
    assert StraightLine(X, Y, fixed=0.004, slope=0.002)(8) == pytest.approx(0.020)


def test_joined_passes_through_its_points_and_keeps_the_shape_between():
    assert [of("joined")(x) for x in X] == pytest.approx(Y)
    assert Joined((1, 4), (1, 8), a=1e-9, c=1, p=1)(2) == pytest.approx(2 * sqrt(2))


def test_joined_past_its_points_keeps_the_last_ratio():
    curve, form = of("joined"), of("smooth-maximum")
    assert curve(32) == pytest.approx(form(32) * Y[-1] / form(8))


@pytest.mark.parametrize("form", FORMS)
def test_all_know_their_range_and_hold_the_first_value_below_it(form):
    curve = curve_of(form, X[1:], Y[1:], PARAMETERS)
    assert (curve.x, curve.y) == (X[1:], Y[1:])
    assert [curve.covers(x) for x in (1, 2, 8, 9)] == [False, True, True, False]
    assert curve(1) == pytest.approx(curve(2))


@pytest.mark.parametrize("form", FORMS)
def test_all_live_with_one_point(form):
    assert curve_of(form, (4.0,), (2.0,), PARAMETERS)(4) > 0


@pytest.mark.parametrize("form", FORMS)
def test_all_refuse_points_that_do_not_increase(form):
    with pytest.raises(ValueError, match="points must increase"):
        curve_of(form, (2.0, 1.0), (1.0, 1.0), PARAMETERS)


@given(a=sizes, c=sizes, p=st.floats(0.5, 12), batches=st.tuples(st.integers(1, 4096), st.integers(1, 4096)))
def test_smooth_maximum_never_falls_and_is_never_below_its_larger_part(a, c, p, batches):
    curve = SmoothMaximum((1, 4096), (1, 1), a=a, c=c, p=p)
    low, high = sorted(batches)
    assert curve(low) <= curve(high) * (1 + 1e-12)
    assert curve(high) >= max(a, c * high)


@given(y=st.lists(sizes, min_size=2, max_size=9))
def test_a_form_through_all_points_is_exact_at_them(y):
    x = tuple(float(2**i) for i in range(len(y)))
    for form in ("interpolation", "joined"):
        curve = curve_of(form, x, tuple(y), PARAMETERS)
        assert [curve(b) for b in x] == pytest.approx(y)


def test_interpolation_is_told_by_no_parameters():
    assert curve_of("interpolation", X, Y, {}) == Interpolated(X, Y)


@given(y=st.lists(sizes, min_size=2, max_size=9), at=st.floats(0, 3))
def test_straight_lines_between_points_are_those_of_numpy_and_past_them_those_of_scipy(y, at):
    x = tuple(float(2**i) for i in range(len(y)))
    curve = Interpolated(x, tuple(y))
    within, past = at * (x[-1] - 1) / 3, x[-1] * (1 + at)
    assert curve(within) == pytest.approx(np.interp(within, x, y))
    assert curve(past) == pytest.approx(float(make_interp_spline(x[-2:], y[-2:], k=1)(past)), rel=1e-6, abs=1e-6)
