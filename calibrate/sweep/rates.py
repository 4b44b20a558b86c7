"""Rates: runs back to back, and what of a run is the host's and what the device's. Needs torch.

A run alone (`calibrate.devices.timer`) starts on an idle device and is waited for: what a single request meets. In a
row the host queues the next run while the device works: what a busy device reaches. Whichever is slower sets the pace.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import fmean, median
from typing import Any, NamedTuple

import torch

from calibrate.devices.device import Cuda, Device
from calibrate.devices.timer import CudaTimer, Repeats, Timer
from calibrate.devices.watch import Reading, Watch, clocks_mhz, power_w, slow_reasons

ROW_S = 1.0
"""Length of a row: the energy counter moves every 20 to 100 ms, and power is told as a mean over up to a second."""
AT_LEAST = 3
"""Runs in a row."""
FEW = 10
"""Repeats of the host's, the device's and the cold time, each of which hardly spreads."""
AHEAD = 2.0
"""How long the device is held back, over the time the host needs to queue a run."""
COLD = 2
"""Times the L2 cache: so much is written to empty it."""

Run = Callable[[], object]


class RateFigures(NamedTuple):
    """Figures beside the times of single runs."""

    values: dict[str, float | None]
    samples: dict[str, list[float]]
    details: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Streak:
    """Runs back to back."""

    runs: int
    took_s: float
    readings: Sequence[Reading]
    """Of the device meanwhile."""

    @property
    def each_s(self) -> float:
        """Seconds a run."""
        return self.took_s / self.runs


def row(run: Run, device: Device, run_s: float) -> Streak:
    """As many runs as take about `ROW_S` by `run_s`, the time of one, without a wait in between."""
    count = max(AT_LEAST, ceil(ROW_S / run_s))
    with Watch(device.nvml) as watch:
        device.synchronise()
        start_s = time.perf_counter()
        for _ in range(count):
            run()
        device.synchronise()
        took_s = time.perf_counter() - start_s
    return Streak(count, took_s, watch.readings)


def rates(run: Run, device: Device, timer: Timer, alone: Repeats, *, cold: bool = False) -> RateFigures:
    """Seconds a run in a row, of the host, of the device and (`cold`) with an empty cache; energy and clocks in a row.

    On a processor the host is the device and every run follows the one before.
    """
    run_s = median(alone.wall_s)
    if not device.nvml.there and not isinstance(device, Cuda):
        return RateFigures(dict.fromkeys(("sustained_s", "host_s", "busy_s"), fmean(alone.wall_s)), {}, {})
    together = row(run, device, run_s)
    of_row = in_row(together)
    if not isinstance(timer, CudaTimer) or not isinstance(device, Cuda):
        return of_row
    samples = {"host_s": [timer.issue(run) for _ in range(FEW)]}
    ahead_s = AHEAD * median(samples["host_s"])
    samples["busy_s"] = [busy_s for _ in range(FEW) if (busy_s := timer.busy(run, ahead_s)) is not None]
    if cold:
        samples["cold_s"] = cold_s(run, device, timer)
    medians: dict[str, float | None] = {name: median(taken) for name, taken in samples.items() if taken}
    return RateFigures(of_row.values | medians, samples, of_row.details)


def in_row(found: Streak) -> RateFigures:
    """Time, energy, clocks and what lowered them in a row."""
    start_mhz, end_mhz = clocks_mhz(found.readings)
    drawn_w, by = power_w(found.readings)
    values: dict[str, float | None] = {
        "sustained_s": found.each_s,
        "clock_start_mhz": start_mhz,
        "clock_end_mhz": end_mhz,
        "temperature_c": found.readings[-1].temperature_c if found.readings else None,
        "power_w": drawn_w,
        "energy_j": None if drawn_w is None else drawn_w * found.each_s,
    }
    details: dict[str, Any] = {} if drawn_w is None else {"energy_by": by}
    return RateFigures(values, {}, details | {"slow_reasons": slow_reasons(found.readings)})


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


def soak(run: Run, device: Device, run_s: float, seconds: float) -> RateFigures:
    """Rows until `seconds` are over: seconds a run at the start, and once power and heat have had their say.

    The last quarter of the rows is that end; its clocks, watts and reasons count.
    """
    end_s = time.perf_counter() + seconds
    rows: list[Streak] = []
    while not rows or time.perf_counter() < end_s:
        rows.append(row(run, device, run_s))
    late = rows[-max(1, len(rows) // 4) :]
    last = in_row(Streak(sum(r.runs for r in late), sum(r.took_s for r in late), [x for r in late for x in r.readings]))
    first_mhz, _ = clocks_mhz(rows[0].readings)
    values = last.values | {"first_s": rows[0].each_s, "clock_start_mhz": first_mhz}
    log = [last_of.readings[-1] for last_of in rows if last_of.readings]
    history = [[round(x.at_s - log[0].at_s, 1), x.clock_mhz, x.power_w, x.temperature_c, list(x.reasons)] for x in log]
    return RateFigures(values, {"sustained_s": [r.each_s for r in rows]}, last.details | {"history": history})
