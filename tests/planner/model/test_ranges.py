"""Figures with ends: sums and products keep their order, and hold whatever is drawn from their parts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.model.ranges import Range, exactly, ranged

NUMBERS = st.floats(0.001, 1000)
SHARES = st.floats(1.01, 10)
RANGES = st.tuples(NUMBERS, NUMBERS, NUMBERS).map(lambda ends: ranged(*sorted(ends)))


def holds(figure: Range, value: float) -> bool:
    """The value lies between the ends, but for rounding."""
    return figure.low * (1 - 1e-12) <= value <= figure.high * (1 + 1e-12)


@given(RANGES, RANGES, st.data())
def test_what_is_drawn_from_two_figures_lies_within_their_sum_and_product(one: Range, two: Range, data) -> None:
    x, y = (data.draw(st.floats(figure.low, figure.high)) for figure in (one, two))
    assert holds(one + two, x + y)
    assert holds(one * two, x * y)
    assert holds(one.joined(max, two), max(x, y))


@given(RANGES, NUMBERS)
def test_a_number_is_a_figure_without_a_band(figure: Range, number: float) -> None:
    assert figure * number == figure * exactly(number)
    assert figure + number == figure + exactly(number)
    assert (figure * number).mid == figure.mid * number
    assert figure.each(lambda end: end + number) == figure + number


@given(RANGES, RANGES)
def test_ends_stay_in_order(one: Range, two: Range) -> None:
    for figure in (one * two, one + two):
        assert list(figure.ends) == sorted(figure.ends)


@given(st.tuples(NUMBERS, SHARES, SHARES), NUMBERS, SHARES)
def test_a_tenth_of_cases_lie_beyond_either_end(band: tuple[float, float, float], limit: float, more: float) -> None:
    mid, below, above = band
    figure = ranged(mid / below, mid, mid * above)
    assert list(map(figure.chance_within, figure.ends)) == pytest.approx([0.1, 0.5, 0.9])
    assert 0 <= figure.chance_within(limit) <= figure.chance_within(limit * more) <= 1
    for one_sided in (ranged(mid, mid, mid * above), ranged(mid / below, mid, mid), ranged(0, mid, mid), exactly(mid)):
        limits = sorted([0, one_sided.low / more, *one_sided.ends, limit, limit * more, one_sided.high * more])
        chances = list(map(one_sided.chance_within, limits))
        assert chances == sorted(chances)
        assert chances[0] == (0.1 if one_sided.low == 0 else 0)
    assert ranged(mid, mid, mid * above).chance_within(mid) == 0.5
    assert ranged(mid / below, mid, mid).chance_within(mid) == 1
    assert list(map(ranged(0, 0, mid).chance_within, (0, mid / more, mid))) == [0.5, 0.5, 0.9]
    assert exactly(mid).chance_within(mid) == 1
    assert exactly(mid).chance_within(mid / more) == 0
