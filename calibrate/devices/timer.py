"""Timers: how long one run takes, and how often to repeat it until its median is known. Needs no torch."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median
from typing import Any, Protocol

import numpy as np

FASTEST_HZ = 3e9
"""Above the clock of every GPU: so many cycles last a second at least."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One timed run."""

    wall_s: float
    """From before the first kernel is launched to after the last has ended."""
    device_s: float | None = None
    """Between the device's own marks before and after; None where it has none."""


class Timer(Protocol):
    """Times one run, and tells the time by which a budget is kept."""

    def time(self, run: Callable[[], object]) -> Sample:
        """Run it once."""
        ...

    def now_s(self) -> float:
        """Seconds since some moment."""
        ...


class CpuTimer:
    """Wall clock, for work that is done when the call returns."""

    def time(self, run: Callable[[], object]) -> Sample:
        """Run it once."""
        start_s = time.perf_counter()
        run()
        return Sample(time.perf_counter() - start_s)

    def now_s(self) -> float:
        """Seconds since some moment."""
        return time.perf_counter()


class CudaTimer(CpuTimer):
    """Wall clock and CUDA events, with the device idle before and done after."""

    def __init__(self, index: int) -> None:
        import torch

        self._cuda: Any = torch.cuda
        self._index = index
        self._marks = [self._cuda.Event(enable_timing=True) for _ in range(2)]

    def time(self, run: Callable[[], object]) -> Sample:
        """Run it once. Events lie on the device's current stream: work on others counts in the wall clock alone."""
        before, after = self._marks
        # Of this device, which need not be the current one: only here it is waited for that both events are done.
        stream = self._cuda.current_stream(self._index)
        self._cuda.synchronize(self._index)
        start_s = time.perf_counter()
        before.record(stream)
        run()
        after.record(stream)
        self._cuda.synchronize(self._index)
        wall_s = time.perf_counter() - start_s
        return Sample(wall_s, before.elapsed_time(after) / 1e3)

    def issue(self, run: Callable[[], object]) -> float:
        """Seconds that the host takes to queue a run on an idle device."""
        self._cuda.synchronize(self._index)
        start_s = time.perf_counter()
        run()
        return time.perf_counter() - start_s

    def busy(self, run: Callable[[], object], ahead_s: float) -> float | None:
        """Seconds that the device takes for a run whose kernels are all queued: before, it is kept waiting `ahead_s`.

        None where the host was later than that, or waits for the device itself while it queues the run.
        """
        before, after = self._marks
        stream = self._cuda.current_stream(self._index)
        self._cuda.synchronize(self._index)
        self._cuda._sleep(ceil(ahead_s * FASTEST_HZ))
        before.record(stream)
        run()
        has_begun = before.query()
        after.record(stream)
        self._cuda.synchronize(self._index)
        return None if has_begun else before.elapsed_time(after) / 1e3


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRule:
    """When a run has been repeated enough."""

    width: float = 0.01
    """The median counts as known when its 95 % interval lies within this share of it on both sides."""
    seconds: float = 2.0
    """Time for the repeats, warm-up apart."""
    at_least: int = 10
    at_most: int = 300
    """Repeats at most: more tell little of the 99th percentile and fill files."""
    warm_up_s: float = 0.2
    """Warm-up at least: clocks of a GPU at rest take some tenths of a second to rise."""
    warm_up_runs: int = 3
    """Runs compared with as many before them to see whether it still gets faster."""
    warm_up_change: float = 0.03
    """Change of their median that counts as none."""


@dataclass(frozen=True, slots=True)
class Repeats:
    """The outcome of repeating a run."""

    samples: tuple[Sample, ...]

    @property
    def wall_s(self) -> tuple[float, ...]:
        """Wall clock of each sample."""
        return tuple(sample.wall_s for sample in self.samples)

    @property
    def device_s(self) -> tuple[float, ...]:
        """The device's time of each sample; empty where it has none."""
        return tuple(sample.device_s for sample in self.samples if sample.device_s is not None)


def repeat(timer: Timer, run: Callable[[], object], rule: StopRule = StopRule()) -> Repeats:
    """Warms up until times are stable, then repeats until the median is known or time is up."""
    warm_up(timer, run, rule)
    return sample(timer, run, rule)


def warm_up(timer: Timer, run: Callable[[], object], rule: StopRule = StopRule()) -> tuple[Sample, ...]:
    """Runs until times are stable."""
    runs = [timer.time(run)]
    start_s = timer.now_s()  # the first run may compile for a minute; that is no reason to end the warm-up
    while not warmed_up([taken.wall_s for taken in runs[1:]], timer.now_s() - start_s, rule):
        runs.append(timer.time(run))
    return tuple(runs)


def sample(
    timer: Timer, run: Callable[[], object], rule: StopRule = StopRule(), before_each: Callable[[], object] = bool
) -> Repeats:
    """Repeats a run that is warm until the median is known or time is up; `before_each` is called before each repeat,
    untimed."""
    start_s = timer.now_s()
    samples: list[Sample] = []
    while not (samples and enough([taken.wall_s for taken in samples], timer.now_s() - start_s, rule)):
        before_each()
        samples.append(timer.time(run))
    return Repeats(tuple(samples))


def warmed_up(samples_s: Sequence[float], elapsed_s: float, rule: StopRule) -> bool:
    """True where the last runs are as fast as those before, or warming up has taken the time of the repeats.

    With 3 runs and 3 %: 5, 3, 2, 2.01, 2, 2 no (median 3, then 2); 2.01, 2, 2, 2, 2, 2 yes.
    """
    if elapsed_s >= max(rule.seconds, rule.warm_up_s):
        return True
    runs = rule.warm_up_runs
    if elapsed_s < rule.warm_up_s or len(samples_s) < 2 * runs:
        return False
    before_s, last_s = median(samples_s[-2 * runs : -runs]), median(samples_s[-runs:])
    return abs(last_s - before_s) <= rule.warm_up_change * before_s


def enough(samples_s: Sequence[float], elapsed_s: float, rule: StopRule) -> bool:
    """True to stop after these samples: the median's interval is narrow, the time is used up, or there are enough.

    The interval is looked at now and then only: deciding after every sample would stop at the first that is narrow by
    chance, and cost more than the runs it decides on.
    """
    count = len(samples_s)
    if count >= rule.at_most or elapsed_s >= rule.seconds:
        return True
    if count < rule.at_least or not _is_look(count, rule.at_least) or not (interval := median_interval(samples_s)):
        return False
    middle = median(samples_s)
    return max(middle - interval[0], interval[1] - middle) <= rule.width * middle


def median_interval(samples: Sequence[float]) -> tuple[float, float] | None:
    """Interval that holds the median with at least 95 %, whatever the distribution; None below 6 samples at 95 %.

    The k-th smallest and the k-th largest, k from the binomial of n and 1/2: of 6 samples the first and the last hold
    it with 96.9 %, of 20 the 6th and the 15th with 95.9 %. David and Nagaraja, Order Statistics (2003), 7.1.
    """
    count = len(samples)
    k = _half_quantile(count) if count else 0
    if k < 1:
        return None
    ordered = np.sort(np.asarray(samples, dtype=float))
    return float(ordered[k - 1]), float(ordered[count - k])


def _is_look(count: int, first: int) -> bool:
    """At the first, then at every fifth more: from 10 at 10, 12, 14, 16, 19, ..."""
    look = first
    while look < count:
        look += max(1, look // 5)
    return look == count


def _half_quantile(count: int) -> int:
    """Smallest k with P(X <= k) >= 2.5 % for X binomial of `count` and 1/2; SciPy's takes half a second to import."""
    k, ways, up_to_k = 0, 1, 1
    while up_to_k / 2**count < 0.025:
        ways = ways * (count - k) // (k + 1)
        up_to_k += ways
        k += 1
    return k
