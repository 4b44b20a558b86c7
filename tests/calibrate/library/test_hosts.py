"""Hosts: batches carried over to another host, against kernels that are queued and run one by one."""

from dataclasses import replace
from statistics import fmean, quantiles

import numpy as np
import pytest
from support import worlds

from calibrate.library.hosts import beside_host
from simulator.world.curves import Interpolated
from simulator.world.profile import Evidence, Profile

LAUNCH_S, AWAIT_S = 2e-5, 3e-5
"""Host's: until the first kernel begins, and after the last."""


def known(latency_s: float, host_s: float, busy_s: float) -> Profile:
    apart = {name: Interpolated((1.0,), (value,)) for name, value in (("host_s", host_s), ("busy_s", busy_s))}
    return replace(worlds.profile("m", latency_s), latency_evidence=Evidence.MEASURED, **apart)


@pytest.mark.parametrize(
    ("speed", "host_s", "busy_s", "time_s"),
    [(0.5, 4.0, 3.0, 9.0), (2.0, 4.0, 3.0, 3.25), (1.0, 4.0, 3.0, 4.5), (0.5, 1.0, 4.0, 5.0), (0.1, 1.0, 4.0, 15.0)],
)
def test_the_longer_of_host_and_kernels_counts(speed: float, host_s: float, busy_s: float, time_s: float) -> None:
    assert beside_host(known(4.5, host_s, busy_s), speed).latency(1) == pytest.approx(time_s)


@pytest.mark.parametrize("speed", [0.5, 2.0, 100.0])
def test_a_batch_shorter_than_what_was_measured_of_it_keeps_a_time(speed: float) -> None:
    assert beside_host(known(3.9, 4.0, 0.05), speed).latency(1) == pytest.approx(max(3.9 / speed, 0.05))
    assert beside_host(known(2.0, 1.0, 3.0), speed).latency(1) == pytest.approx(max(1.0 / speed, 2.0))


def test_evidence_and_doubt_say_so() -> None:
    usual = known(4.5, 4.0, 3.0)
    carried = beside_host(usual, 0.5)
    assert carried.latency_evidence is Evidence.TRANSFERRED
    assert len(carried.doubts) == 1
    assert beside_host(usual, 1.0) is usual
    unknown = replace(usual, busy_s=None)
    kept = beside_host(unknown, 0.5)
    assert (kept.latency, kept.latency_evidence, len(kept.doubts)) == (unknown.latency, Evidence.MEASURED, 1)


def batch_s(queueing_s: np.ndarray, kernels_s: np.ndarray, speed: float) -> float:
    """One kernel after another: each begins when it is queued and the one before is done."""
    queued_s = done_s = LAUNCH_S / speed
    for queueing, kernel in zip(queueing_s / speed, kernels_s, strict=True):
        queued_s += queueing
        done_s = max(done_s, queued_s) + kernel
    return done_s + AWAIT_S / speed


def carried_errors(speed: float) -> list[float]:
    """Of networks of 20 to 300 kernels, 6 to 30 us to queue one and 3 to 60 us to run it: far from each other."""
    rng = np.random.default_rng(5)
    errors = []
    for _ in range(300):
        count = int(rng.integers(20, 300))
        queueing_s = rng.uniform(6e-6, 3e-5) * rng.lognormal(0, 0.5, count)
        kernels_s = np.exp(rng.uniform(np.log(3e-6), np.log(6e-5))) * rng.lognormal(0, 1.0, count)
        measured = known(batch_s(queueing_s, kernels_s, 1.0), queueing_s.sum(), kernels_s.sum())
        errors.append(beside_host(measured, speed).latency(1) / batch_s(queueing_s, kernels_s, speed) - 1)
    return errors


@pytest.mark.parametrize("speed", [0.5, 0.7, 1.5, 2.0])
def test_batches_carried_over_take_what_their_kernels_take_one_by_one(speed: float) -> None:
    """Within 2 % on average and 7 % in 19 of 20."""
    errors = list(map(abs, carried_errors(speed)))
    assert fmean(errors) < 0.02
    assert quantiles(errors, n=20)[-1] < 0.07
