"""Timers: the interval of the median holds what it promises; repeating ends for a reason. Recordings stand in."""

import time
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom
from support.timers import ReplayTimer

from calibrate.devices.timer import (
    CpuTimer,
    Sample,
    StopRule,
    enough,
    median_interval,
    repeat,
    warm_up,
    warmed_up,
)

RULE = StopRule(width=0.01, seconds=2.0, at_least=10, at_most=40, warm_up_s=0.0)


@pytest.mark.parametrize("count", [6, 7, 20, 100])
def test_the_interval_holds_the_median_of_any_distribution(count: int) -> None:
    rng = np.random.default_rng(1)
    draws = {
        0.0: rng.normal(size=(400, count)),
        np.log(2): rng.exponential(size=(400, count)),
        1.0: rng.lognormal(sigma=2.0, size=(400, count)),
    }
    for true, samples in draws.items():
        intervals = [median_interval(row.tolist()) for row in samples]
        held = sum(interval is not None and interval[0] <= true <= interval[1] for interval in intervals)
        # At least 95 % promised: fewer than the 0.1 % quantile of 400 such trials would refute it.
        assert held >= binom.ppf(0.001, 400, 0.95)


def test_the_interval_is_by_rank_alone() -> None:
    assert median_interval([5, 1, 4, 2, 6, 3]) == (1, 6)
    assert median_interval(range(1, 21)) == (6, 15)
    assert median_interval([1, 1, 1, 1, 1]) is None
    assert median_interval([]) is None


@given(st.lists(st.floats(0.1, 10), min_size=6, max_size=60))
def test_the_interval_holds_the_sample_median_and_is_of_samples(samples: list[float]) -> None:
    interval = median_interval(samples)
    assert interval is not None
    assert interval[0] <= median(samples) <= interval[1]
    assert set(interval) <= set(samples)


def test_stops_when_narrow_when_time_is_up_or_when_there_are_enough() -> None:
    steady, wild = [1.0] * 10, [1.0, 2.0] * 20
    assert enough(steady, 0.1, RULE)
    assert not enough(steady[:9], 0.1, RULE), "fewer than at_least"
    assert not enough(wild[:12], 0.1, RULE)
    assert enough(wild[:12], 2.0, RULE)
    assert enough(wild[:1], 2.0, RULE), "one slow run is better than a budget broken many times over"
    assert enough(wild, 0.1, RULE)
    assert not enough(wild[:-1], 0.1, RULE)


def test_looks_at_growing_distances_only() -> None:
    looks = [n for n in range(1, 40) if enough([1.0] * n, 0.0, RULE)]
    assert looks == [10, 12, 14, 16, 19, 22, 26, 31, 37]


def test_warm_when_the_last_runs_are_as_fast_as_those_before() -> None:
    assert not warmed_up([5, 3, 2, 2.01, 2, 2], 0.1, RULE)
    assert warmed_up([2.01, 2, 2, 2, 2, 2], 0.1, RULE)
    assert not warmed_up([2, 2, 2, 2.2, 2.2, 2.2], 0.1, RULE), "slower counts as change too: clocks may fall"
    assert not warmed_up([2, 2, 2, 2, 2], 0.1, RULE)
    assert warmed_up([5, 4], 2.0, RULE), "its time is up"
    assert not warmed_up([2] * 6, 0.1, StopRule(warm_up_s=0.2)), "clocks need a moment to rise"


def test_a_recording_is_warmed_up_and_sampled_like_a_device() -> None:
    recorded = [9.0, 0.05, 0.03, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02, *[0.02 + i * 1e-5 for i in range(10)]]
    repeats = repeat(ReplayTimer(recorded), lambda: None, RULE)
    assert list(repeats.wall_s) == recorded[8:18], "stable from the third on, the first apart"
    assert repeats.device_s == ()


def test_a_first_run_that_compiles_does_not_end_the_warm_up() -> None:
    repeats = repeat(ReplayTimer([60.0, 5e-3, *[1e-3] * 40]), lambda: None, RULE)
    assert max(repeats.wall_s) == 1e-3


def test_time_on_the_device_is_kept_apart() -> None:
    repeats = repeat(ReplayTimer([Sample(0.02, 0.01)] * 40), lambda: None, RULE)
    assert repeats.wall_s == (0.02,) * 10
    assert repeats.device_s == (0.01,) * 10


def test_a_slow_run_is_not_repeated_for_ever() -> None:
    timer = ReplayTimer([30.0] * 4)
    assert len(repeat(timer, lambda: None, RULE).samples) == 1
    assert timer.now_s() == 3 * 30.0


def test_a_recording_that_ends_says_so() -> None:
    with pytest.raises(EOFError, match="holds no more samples"):
        repeat(ReplayTimer([1e-3, 2e-3]), lambda: None, RULE)


@given(st.lists(st.floats(1e-4, 1e-1), min_size=60, max_size=60))
def test_nothing_is_dropped_or_made_up(recorded: list[float]) -> None:
    try:
        repeats = repeat(ReplayTimer(recorded), lambda: None, RULE)
    except EOFError:
        return
    before = [run.wall_s for run in warm_up(ReplayTimer(recorded), lambda: None, RULE)]
    taken = [*before, *repeats.wall_s]
    assert taken == recorded[: len(taken)]


def test_the_wall_clock_waits_for_the_run() -> None:
    timer = CpuTimer()
    start_s = timer.now_s()
    taken = timer.time(lambda: time.sleep(0.01))
    assert 0.01 <= taken.wall_s <= timer.now_s() - start_s
    assert taken.device_s is None
