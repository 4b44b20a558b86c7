"""Rates: runs back to back, and what of a run is the host's and what the device's. Needs torch.

A run alone (`calibrate.devices.timer`) starts on an idle device and is waited for: what a single request meets. In a
row the host queues the next run while the device works: what a busy device reaches. Whichever is slower sets the pace.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median
from typing import Any

import torch

from calibrate.devices.device import Cuda, Device
from calibrate.devices.timer import CudaTimer, Repeats, Timer
from calibrate.devices.watch import Reading, Watch, clocks_mhz, power_w, slow_reasons
from calibrate.io.points import Figures

ROW_S = 1.0
"""Length of a row: the energy counter moves every 20 to 100 ms, and power is told as a mean over up to a second."""
WINDOWS = 10
"""Parts of a row: their median is of the row without what held up one of them. The wait at the end of each is a tenth
of a second apart, so it adds what one run alone has over one in a row to that tenth."""
AT_LEAST = 3
"""Runs in a row."""
FEW = 10
"""Repeats of the host's, the device's and the cold time, each of which hardly spreads."""
AHEAD = 2.0
"""How long the device is held back, over the time the host needs to queue a run."""
COLD = 2
"""Times the L2 cache: so much is written to empty it."""

Run = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Streak:
    """Runs back to back."""

    windows_s: Sequence[float]
    """Seconds a run in each part of them."""
    readings: Sequence[Reading]
    """Of the device meanwhile."""

    @property
    def each_s(self) -> float:
        """Seconds a run."""
        return median(self.windows_s)


def row(run: Run, device: Device, run_s: float) -> Streak:
    """As many runs as take about `ROW_S` by `run_s`, the time of one, with a wait after each window alone."""
    count = max(AT_LEAST, ceil(ROW_S / run_s))
    in_window = ceil(count / WINDOWS)
    with Watch(device.nvml) as watch:
        device.synchronise()
        windows_s = [_window_s(run, device, in_window) for _ in range(ceil(count / in_window))]
    return Streak(windows_s, watch.readings)


def _window_s(run: Run, device: Device, count: int) -> float:
    """Seconds a run of so many in a row."""
    start_s = time.perf_counter()
    for _ in range(count):
        run()
    device.synchronise()
    return (time.perf_counter() - start_s) / count


def rates(run: Run, device: Device, timer: Timer, alone: Repeats, *, weights: Sequence[torch.Tensor] = ()) -> Figures:
    """Seconds a run in a row, of the host and of the device; energy and clocks in a row.

    With a model's `weights` also with an empty cache, and beside a load of them, as where models take turns.

    Nothing on a processor: there the host is the device, and every run follows the one before.
    """
    if not isinstance(device, Cuda):
        return Figures({}, {}, {})
    together = row(run, device, median(alone.wall_s))
    of_row = in_row(together)
    samples = {"sustained_s": list(together.windows_s)}
    if not isinstance(timer, CudaTimer):
        return of_row._replace(samples=samples)
    samples["host_s"] = [timer.issue(run) for _ in range(FEW)]
    ahead_s = AHEAD * median(samples["host_s"])
    samples["busy_s"] = [busy_s for _ in range(FEW) if (busy_s := timer.busy(run, ahead_s)) is not None]
    if weights:
        samples["cold_s"] = cold_s(run, device, timer)
        samples["beside_load_s"] = beside_load_s(run, weights, device, timer)
    medians = {name: median(taken) for name, taken in samples.items() if taken}
    return Figures(of_row.values | medians, samples, of_row.details)


def in_row(found: Streak) -> Figures:
    """Time, energy, clocks and what lowered them in a row."""
    start_mhz, end_mhz = clocks_mhz(found.readings)
    drawn_w = power_w(found.readings)
    values: dict[str, Any] = {
        "sustained_s": found.each_s,
        "clock_start_mhz": start_mhz,
        "clock_end_mhz": end_mhz,
        "power_w": drawn_w,
        "energy_j": None if drawn_w is None else drawn_w * found.each_s,
    }
    return Figures(values, {}, {"slow_reasons": slow_reasons(found.readings)})


def cold_s(run: Run, device: Cuda, timer: CudaTimer) -> list[float]:
    """Times of runs alone after the L2 cache was filled with something else, as where other models run in between."""
    try:
        others = torch.empty(COLD * device.l2_bytes(), dtype=torch.uint8, device=device.label)
    except torch.cuda.OutOfMemoryError:
        return []  # the largest batch that fits leaves no room for it
    times_s = []
    for _ in range(FEW):
        others.zero_()
        times_s.append(timer.time(run).wall_s)
    return times_s


def beside_load_s(run: Run, weights: Sequence[torch.Tensor], device: Cuda, timer: CudaTimer) -> list[float]:
    """Times until both are done: a run, and a load of `weights` from pinned memory on a stream of its own."""
    pinned = device.pin([weight.cpu() for weight in weights])
    if pinned is None:
        return []
    try:
        targets = [torch.empty_like(weight) for weight in weights]
    except torch.cuda.OutOfMemoryError:
        return []  # as above
    cuda: Any = torch.cuda
    own = cuda.Stream(device.label)

    def both() -> None:
        with cuda.stream(own):
            for target, source in zip(targets, pinned, strict=True):
                target.copy_(source, non_blocking=True)
        run()

    return [timer.time(both).wall_s for _ in range(FEW)]


def soak(run: Run, device: Device, run_s: float, seconds: float) -> Figures:
    """Rows until `seconds` are over: seconds a run at the start, and once power and heat have had their say.

    The last quarter of the rows is that end; its clocks, watts and reasons count.
    """
    end_s = time.perf_counter() + seconds
    rows: list[Streak] = []
    while not rows or time.perf_counter() < end_s:
        rows.append(row(run, device, run_s))
    late = rows[-max(1, len(rows) // 4) :]
    last = in_row(Streak([w for r in late for w in r.windows_s], [x for r in late for x in r.readings]))
    first: dict[str, Any] = {"first_s": rows[0].each_s, "clock_start_mhz": clocks_mhz(rows[0].readings)[0]}
    return Figures(last.values | first, {"sustained_s": [r.each_s for r in rows]}, last.details)
