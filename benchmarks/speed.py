"""Simulated requests per second of processor time, and how the time grows with their number.

Simulator and baseline each keep one core busy; its time does not count what other programs take of the machine.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from time import process_time

import numpy as np

from benchmarks.baseline import bare_loop_s
from benchmarks.load import Load, run_s
from simulator.clock.records import SimulationResult
from simulator.clock.run import simulate

BRIEF = 10**6
"""Runs of at most so many requests are short enough to be disturbed: the best of three counts."""


@dataclass(frozen=True, slots=True)
class Run:
    """One simulation and its baseline."""

    request_count: int
    mean_batch: float
    simulate_s: float
    baseline_s: float

    @property
    def requests_per_s(self) -> float:
        """Processor time, all of `simulate`."""
        return self.request_count / self.simulate_s

    @property
    def ratio(self) -> float:
        """Speed over that of the baseline."""
        return self.baseline_s / self.simulate_s


@dataclass(frozen=True, slots=True)
class Series:
    """One configuration at growing numbers of requests."""

    load: Load
    runs: tuple[Run, ...]

    @property
    def largest(self) -> Run:
        """The run with the most requests."""
        return self.runs[-1]

    @property
    def exponent(self) -> float:
        """k of time ~ requests^k: 1 is linear; fixed costs make it less."""
        return _exponent(self.runs, "simulate_s")

    @property
    def last_exponents(self) -> tuple[float, float]:
        """The same between the two largest runs, where fixed costs no longer show: of simulation and baseline."""
        return _exponent(self.runs[-2:], "simulate_s"), _exponent(self.runs[-2:], "baseline_s")


def _exponent(runs: Sequence[Run], which: str) -> float:
    """By least squares on logarithms."""
    times_s = [getattr(run, which) for run in runs]
    return float(np.polyfit(np.log([run.request_count for run in runs]), np.log(times_s), 1)[0])


def simulated(load: Load, request_count: int) -> SimulationResult:
    """About so many requests."""
    return simulate(load.deployment(), load.workload(), request_count / load.rate_rps, seed=1)


def measure(load: Load, request_counts: tuple[int, ...]) -> Series:
    """Simulation and baseline by turns, so that whatever slows the machine meets both."""
    return Series(load, tuple(_run(load, n) for n in request_counts))


def _run(load: Load, request_count: int) -> Run:
    pairs = [_pair(load, request_count) for _ in range(3 if request_count <= BRIEF else 1)]
    result = pairs[0][0]
    batches = sum(len(b.count) for b in result.batches)
    return Run(
        result.request_count,
        result.request_count / batches,
        min(simulate_s for _, simulate_s, _ in pairs),
        min(baseline_s for _, _, baseline_s in pairs),
    )


def _pair(load: Load, request_count: int) -> tuple[SimulationResult, float, float]:
    began_s = process_time()
    result = simulated(load, request_count)
    simulate_s = process_time() - began_s
    baseline_s = bare_loop_s(result.request_count, load.gpu_count, load.batch_size_max, load.rate_rps, run_s)
    return result, simulate_s, baseline_s
