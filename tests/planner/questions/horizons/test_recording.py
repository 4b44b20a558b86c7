"""Steps of a recording beside all ways to cut it, and what cannot be seen in it."""

from itertools import combinations, pairwise
from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2, t

from planner.questions.horizons.cheapest import one_more
from planner.questions.horizons.recording import CROWD_MIN, blocks, price_of_a_step, shape_of_counts, unseen

COUNTS = st.lists(st.integers(0, 60), min_size=1, max_size=9)


def worth(counts: np.ndarray, edges: list[int], price: float) -> float:
    """Log-likelihood of steps, less the price of each."""
    total = 0.0
    for begin, end in pairwise(edges):
        inside = float(counts[begin:end].sum())
        total += inside * log(max(inside, 1.0) / (end - begin)) - price
    return total


@settings(max_examples=60)
@given(COUNTS)
def test_no_other_steps_are_more_likely(listed: list[int]) -> None:
    """Against all ways to cut a short recording, 256 at most."""
    counts = np.array(listed)
    price = price_of_a_step(int(counts.sum()))
    found = worth(counts, blocks(counts).tolist(), price)
    inner = range(1, len(counts))
    every = (cut for size in range(len(counts)) for cut in combinations(inner, size))
    best = max(worth(counts, [0, *cut, len(counts)], price) for cut in every)
    assert found == pytest.approx(best, abs=1e-6)


@given(COUNTS)
def test_steps_lose_no_arrival(listed: list[int]) -> None:
    counts = np.array(listed)
    shape = shape_of_counts(counts)
    assert shape.factors.sum() == pytest.approx(counts.sum())
    assert len(shape.factors) == len(counts)
    if counts.any():
        assert shape.peak_low <= 1 <= shape.peak_high


def test_the_peak_is_known_as_a_poisson_count_is() -> None:
    """The exact interval of a count of 100: 81.4 to 121.6 (Garwood 1936)."""
    shape = shape_of_counts(np.full(10, 10))
    assert (100 * shape.peak_low, 100 * shape.peak_high) == pytest.approx((81.36, 121.63), abs=0.01)
    assert 100 * shape.peak_low == pytest.approx(chi2.ppf(0.025, 200) / 2)


@given(st.floats(0.5, 1e4), st.integers(10, 10**6))
def test_a_crowd_that_shows_pays_for_two_steps(usual: float, arrivals: int) -> None:
    crowd = unseen(usual, arrivals)
    assert usual * (crowd * log(crowd) - crowd + 1) == pytest.approx(2 * price_of_a_step(arrivals), rel=1e-6)
    assert unseen(2 * usual, arrivals) < crowd


def test_more_of_a_crowd_hides_in_a_sparser_recording() -> None:
    hidden = [shape_of_counts(np.full(600, each)).hidden for each in (1, 10, 100)]
    assert hidden == sorted(hidden, reverse=True)
    assert CROWD_MIN == 5


@given(st.lists(st.floats(1, 1000), min_size=2, max_size=12))
def test_one_more_lies_within_students_interval(values: list[float]) -> None:
    low, middle, high = one_more(values)
    half = t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) * np.sqrt(1 + 1 / len(values))
    assert middle == pytest.approx(np.mean(values))
    assert (low, high) == pytest.approx((max(0.0, middle - half), middle + half), rel=1e-6, abs=1e-6)
