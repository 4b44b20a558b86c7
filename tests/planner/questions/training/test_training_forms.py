"""Closed forms of training beside what they stand for: all cases searched, chance played out, laws found again."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrate.io.points import PRECISIONS
from planner.model.ranges import ranged
from planner.questions.training.closed_forms import (
    BACKWARD_SHARE,
    NetworkLink,
    all_reduce_s,
    attempt_s,
    bubble,
    checkpoint_interval_s,
    epoch_law,
    exposed_s,
    pipeline_s,
    rescaled_step_s,
    stretches,
    with_interruptions_s,
    workers_enough,
)
from planner.questions.training.memory import (
    ALLOCATOR,
    OPTIMIZERS,
    Fits,
    Split,
    gpus_needed,
    largest_batch,
    memory,
    states,
)
from simulator.world.precision import WEIGHT_BYTES

HOUR = 3600.0


def played_s(work_s: float, between_s: float, write_s: float, restart_s: float, every_s: float, seed: int) -> float:
    """The same run, interruption by interruption; a restart can be interrupted too. Nothing is written at the end."""
    random = np.random.default_rng(seed)
    clock_s, left_s, fails_s = 0.0, work_s, random.exponential(between_s)
    restarting = False
    while left_s > 1e-6:
        is_last = left_s <= every_s + write_s + 1e-6
        part_s = left_s if is_last else every_s
        needs_s = (restart_s if restarting else 0.0) + part_s + (0.0 if is_last else write_s)
        if clock_s + needs_s <= fails_s:
            clock_s += needs_s
            left_s -= part_s
            restarting = False
        else:
            clock_s, restarting = fails_s, True
            fails_s = clock_s + random.exponential(between_s)
    return clock_s


def at_intervals_s(work_s: float, between_s: float, write_s: float, restart_s: float, every_s: float) -> float:
    """Mean time with checkpoints at any interval: Daly's form, the last part as long as what is left."""
    written = math.ceil(work_s / every_s) - 1
    parts = [(written, every_s + write_s), (1, work_s - written * every_s)]
    if restart_s + max(part_s for count, part_s in parts if count) > 100 * between_s:
        return math.inf
    return between_s * math.exp(restart_s / between_s) * sum(n * math.expm1(part_s / between_s) for n, part_s in parts)


def test_time_with_interruptions_is_that_of_runs_played_out() -> None:
    """Daly's form is the mean of this very process, M e^(R/M) (e^((t+d)/M) - 1) a piece. Four standard errors."""
    work_s, between_s, write_s, restart_s, every_s = 20 * HOUR, 5 * HOUR, 60.0, 300.0, 0.5 * HOUR
    runs = [played_s(work_s, between_s, write_s, restart_s, every_s, seed) for seed in range(400)]
    error_s = float(np.std(runs)) / 20
    found_s = at_intervals_s(work_s, between_s, write_s, restart_s, every_s)
    assert found_s == pytest.approx(float(np.mean(runs)), abs=4 * error_s)


@pytest.mark.parametrize("intervals", [0.05, 0.5, 0.99, 1.01, 1.3, 1.5, 2.2])
def test_runs_about_as_long_as_an_interval_take_as_long_as_played_out(intervals: float) -> None:
    """With as many checkpoints as cost least. Four standard errors."""
    between_s, write_s, restart_s, count = 2 * HOUR, 60.0, 300.0, 4000
    work_s = intervals * checkpoint_interval_s(write_s, between_s)
    every_s = attempt_s(work_s, write_s, stretches(work_s, between_s, write_s)) - write_s
    runs = [played_s(work_s, between_s, write_s, restart_s, every_s, seed) for seed in range(count)]
    error_s = float(np.std(runs)) / math.sqrt(count)
    found_s = with_interruptions_s(work_s, between_s, write_s, restart_s)
    assert found_s == pytest.approx(float(np.mean(runs)), abs=4 * error_s)


@given(st.floats(10, 40_000), st.floats(0, 600), st.floats(0.2, 200))
def test_no_other_number_of_checkpoints_costs_less(work_s: float, write_s: float, between_hours: float) -> None:
    """All up to 200, equally far apart; a run without interruptions pays for none."""
    between_s = between_hours * HOUR
    best_s = with_interruptions_s(work_s, between_s, write_s, 300.0)
    others = [at_intervals_s(work_s, between_s, write_s, 300.0, work_s / parts) for parts in range(1, 200)]
    assert best_s <= min(others) * (1 + 1e-4)
    assert best_s >= work_s


@given(st.floats(10, 40_000), st.floats(1, 600), st.floats(0.2, 200))
def test_a_longer_run_takes_longer_and_by_no_whole_write(work_s: float, write_s: float, between_hours: float) -> None:
    between_s, more_s = between_hours * HOUR, 1e-3
    first_s, then_s = (with_interruptions_s(s, between_s, write_s, 300.0) for s in (work_s, work_s + more_s))
    assert first_s <= then_s <= first_s + 0.1 * write_s or math.isinf(then_s)


@given(st.floats(1, 600), st.floats(2, 200))
def test_the_best_interval_is_the_best_of_all(write_s: float, between_hours: float) -> None:
    between_s = between_hours * HOUR
    best_s = with_interruptions_s(1000 * HOUR, between_s, write_s, 300.0)
    others = [
        at_intervals_s(1000 * HOUR, between_s, write_s, 300.0, every_s)
        for every_s in np.geomspace(write_s / 10, between_s, 200)
    ]
    assert best_s <= min(others) * 1.001
    assert checkpoint_interval_s(write_s, between_s) <= between_s


@given(st.floats(1, 200), st.floats(100, 1e6), st.lists(st.integers(16, 100_000), min_size=2, max_size=6, unique=True))
def test_a_law_of_epochs_is_found_again(least: float, critical: float, batches: list[int]) -> None:
    """Batches that differ by too little for their slope to be seen are left to chance."""
    if max(batches) < 1.5 * min(batches) or max(batches) < 0.01 * critical:
        return
    law = epoch_law([(batch, least * (1 + batch / critical)) for batch in batches])
    assert law.spread == 0.0
    for batch in (1, *batches, 200_000):
        assert law(batch) == pytest.approx(least * (1 + batch / critical), rel=1e-3)


@given(st.floats(1, 10_000), st.floats(1, 10_000), st.floats(0.001, 100))
def test_no_fewer_workers_keep_up(samples: float, rate: float, step_s: float) -> None:
    workers = workers_enough(samples, rate, step_s)
    assert workers * rate * step_s >= samples * (1 - 1e-6)
    assert workers == 1 or (workers - 1) * rate * step_s < samples


@given(st.floats(0.001, 10), st.integers(1, 16), st.integers(1, 64), st.floats(0, 1))
def test_a_pipeline_waits_as_its_bubble_says(batch_s: float, stages: int, passes: int, hand_over_s: float) -> None:
    found_s = pipeline_s(batch_s, stages, passes)
    assert found_s * (1 - bubble(stages, passes)) == pytest.approx(passes * batch_s / stages)
    assert pipeline_s(batch_s, stages, passes, hand_over_s) >= found_s * (1 - 1e-12)
    assert pipeline_s(batch_s, 1, passes, hand_over_s) == pytest.approx(passes * batch_s)


@given(st.floats(0, 1e10), st.integers(1, 8), st.integers(1, 64))
def test_more_members_never_agree_sooner(size_bytes: float, in_machine: int, machines: int) -> None:
    inside, between = NetworkLink(bytes_per_s=3e11, latency_s=5e-6), NetworkLink(bytes_per_s=1e10, latency_s=2e-5)

    def taken_s(each: int, count: int) -> float:
        return all_reduce_s(size_bytes, each, count, inside, between)

    assert taken_s(1, 1) == 0.0
    assert taken_s(in_machine, machines) <= taken_s(in_machine + 1, machines) <= taken_s(in_machine + 1, machines + 1)
    assert between.ring_s(size_bytes, 10**9) >= 2 * size_bytes / between.bytes_per_s * (1 - 1e-6)


@given(st.floats(0, 10), st.floats(0, 10))
def test_what_is_hidden_is_hidden_by_the_backward_pass(communication_s: float, step_s: float) -> None:
    shown_s = exposed_s(communication_s, step_s, overlap=True)
    assert max(0.0, communication_s - step_s) <= shown_s <= exposed_s(communication_s, step_s, overlap=False)
    assert communication_s - shown_s <= BACKWARD_SHARE * step_s + 1e-9


@given(st.floats(0.001, 10), st.floats(1, 1000), st.floats(1, 1000), st.floats(0, 1))
def test_a_step_at_another_batch_lies_between_all_and_nothing_fixed(
    step_s: float, batch: float, other: float, overhead_s: float
) -> None:
    found = rescaled_step_s(step_s, batch, other, overhead_s)
    ends = sorted((step_s, step_s * other / batch))
    assert ends[0] * (1 - 1e-9) <= found.low <= found.mid * (1 + 1e-9)
    assert found.mid <= found.high * (1 + 1e-9)
    assert found.high <= ends[1] * (1 + 1e-9)
    assert rescaled_step_s(step_s, batch, batch, overhead_s).ends == pytest.approx((step_s,) * 3)


# Memory


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_zero_divides_more_from_stage_to_stage(precision: str, optimizer: str) -> None:
    sizes = [states(1e9, precision, optimizer, Split(data=8, zero=zero)).total for zero in range(4)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[3] == pytest.approx(sizes[0] / 8)  # all of it is shared
    assert sizes[0] >= 2 * 1e9 * WEIGHT_BYTES[precision]
    parts = states(1e9, precision, optimizer, Split(tensor=2, pipeline=4))
    assert parts.total == pytest.approx(sizes[0] / 8)


@given(st.floats(1e6, 1e9), st.floats(1e5, 1e8), st.floats(1e9, 1e11))
def test_one_sample_more_would_not_fit(params: float, sample_bytes: float, limit_bytes: float) -> None:
    fixed, per_sample = states(params, "fp32", "adam"), ranged(sample_bytes / 2, sample_bytes, 2 * sample_bytes)
    most = largest_batch(fixed, per_sample.high, 8e8, limit_bytes, ALLOCATOR.high)
    assert memory(fixed, per_sample * (most + 1), 8e8).total.high > limit_bytes * (1 - 1e-9)
    if most:
        assert memory(fixed, per_sample * most, 8e8).total.high <= limit_bytes * (1 + 1e-9)


@given(st.floats(1e9, 1e12), st.sampled_from(PRECISIONS), st.sampled_from(OPTIMIZERS))
def test_states_fit_on_so_many_gpus_and_no_fewer(params: float, precision: str, optimizer: str) -> None:
    gpus = gpus_needed(params, precision, optimizer, 80e9, 8e8)
    whole = states(params, precision, optimizer).total * ALLOCATOR.low
    assert whole <= gpus * (80e9 - 8e8) * (1 + 1e-12)
    assert whole > (gpus - 1) * (80e9 - 8e8) * (1 - 1e-12)


@given(st.tuples(*[st.floats(0, 10)] * 3).map(sorted), st.floats(0.1, 10))
def test_more_memory_never_fits_less(ends: list[float], limit: float) -> None:
    order = [Fits.NO, Fits.UNLIKELY, Fits.LIKELY, Fits.YES]
    found = [order.index(Fits.of(ranged(*ends), limit * more)) for more in (0.5, 1.0, 2.0, math.inf)]
    assert all(before <= after for before, after in pairwise(found))
    assert found[-1] == order.index(Fits.YES)
