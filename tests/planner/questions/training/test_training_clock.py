"""A training job on the clock: it agrees with the closed forms where there are any."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.training_clock import TrainingJob, train

from planner.questions.training.closed_forms import NetworkLink, bubble, exposed_s, loader_s, pipeline_s, workers_enough

WITHIN = 0.01
"""How far clock and formula may differ."""
TIMES = st.floats(1e-3, 1.0)


@given(st.integers(1, 8), TIMES, TIMES, st.integers(1, 4))
@settings(max_examples=20, deadline=None)
def test_synchronous_data_parallel_is_computing_plus_the_exposed_ring(
    copies: int, forward_s: float, backward_s: float, micro_batches: int
) -> None:
    link = NetworkLink(bytes_per_s=10e9, latency_s=5e-6)
    compute_s = micro_batches * (forward_s + backward_s)
    ring_s = exposed_s(link.ring_s(1e9, copies), compute_s, overlap=True)
    job = TrainingJob(
        steps=20, copies=copies, micro_batches=micro_batches, forward_s=forward_s, backward_s=backward_s,
        all_reduce_s=ring_s, update_s=0.002,
    )  # fmt: skip
    records = train(job)
    assert records.step_s() == pytest.approx(compute_s + ring_s + 0.002, rel=WITHIN)
    assert len(records.update_s) == 20
    assert records.computed_s == pytest.approx(20 * copies * compute_s, rel=WITHIN)


@given(st.integers(1, 8), st.integers(1, 16))
@settings(max_examples=20, deadline=None)
def test_a_pipeline_has_gpipes_bubble(stages: int, micro_batches: int) -> None:
    job = TrainingJob(steps=6, stages=stages, micro_batches=micro_batches, forward_s=0.01, backward_s=0.02)
    step_s = train(job).step_s()
    assert step_s == pytest.approx(pipeline_s(0.03, stages, micro_batches), rel=WITHIN)
    assert 1 - micro_batches * 0.03 / stages / step_s == pytest.approx(bubble(stages, micro_batches), abs=WITHIN)


@given(st.integers(1, 6), st.integers(1, 12), st.floats(0, 0.05))
@settings(max_examples=20, deadline=None)
def test_links_between_stages_are_waited_for(stages: int, micro_batches: int, hand_over_s: float) -> None:
    job = TrainingJob(
        steps=4, stages=stages, micro_batches=micro_batches, forward_s=0.03, backward_s=0.06, hand_over_s=hand_over_s
    )
    assert train(job).step_s() == pytest.approx(pipeline_s(0.09, stages, micro_batches, hand_over_s), rel=WITHIN)


@given(st.integers(1, 6), TIMES, TIMES, st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_the_slower_of_loader_copy_and_computing_sets_the_pace(
    workers: int, load_s: float, step_s: float, copies: int
) -> None:
    job = TrainingJob(
        steps=240 * workers, copies=copies, workers=workers, load_s=load_s, copy_s=step_s / 3,
        forward_s=step_s / 3, backward_s=2 * step_s / 3,
    )  # fmt: skip
    records = train(job)
    assert records.step_s() == pytest.approx(max(step_s, loader_s(1, workers, 1 / load_s)), rel=WITHIN)


def test_a_starved_job_is_ended_by_the_number_of_workers_that_the_formula_names() -> None:
    job = {"steps": 200, "forward_s": 0.1, "backward_s": 0.2, "load_s": 1.0}
    enough = workers_enough(1, 1.0, 0.3)
    assert enough == 4
    starved, fed = (train(TrainingJob(**job, workers=n)) for n in (enough - 1, enough))  # type: ignore[arg-type]
    assert starved.step_s() == pytest.approx(1 / 3, rel=WITHIN)
    assert starved.waited_s > 0.05 * starved.update_s[-1]
    assert fed.step_s() == pytest.approx(0.3, rel=WITHIN)
    # Only the first round, which is made while nothing is ready, is waited for.
    assert fed.waited_s < 0.02 * fed.update_s[-1]


@pytest.mark.parametrize("copies", [1, 2, 4, 16])
def test_staleness_of_equal_copies_is_all_the_others(copies: int) -> None:
    job = TrainingJob(steps=10, copies=copies, forward_s=0.1, backward_s=0.2, asynchronous=True)
    records = train(job)
    assert set(records.staleness[copies:]) == {copies - 1}
    assert len(records.update_s) == 10 * copies


def test_asynchronous_copies_do_not_wait_for_stragglers() -> None:
    uneven = {"steps": 300, "copies": 8, "forward_s": 0.1, "backward_s": 0.2, "cv": 0.3, "seed": 1}
    apart = train(TrainingJob(**uneven, asynchronous=True))  # type: ignore[arg-type]
    waiting = train(TrainingJob(**uneven))  # type: ignore[arg-type]
    assert apart.step_s() * 8 == pytest.approx(0.3, rel=0.05)
    assert waiting.step_s() > 1.3 * 0.3
    assert np.mean(apart.staleness[8:]) == pytest.approx(7, abs=0.2)


def test_the_same_seed_gives_the_same_records() -> None:
    job = TrainingJob(steps=50, copies=3, workers=2, load_s=0.1, forward_s=0.1, backward_s=0.1, cv=0.5, seed=7)
    assert train(job) == train(job)
