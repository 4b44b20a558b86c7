"""Watch: what a GPU says of itself while it works: clocks, watts, and why the clocks are lowered. Needs no torch."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from threading import Event, Thread
from typing import Self

from calibrate.devices.nvml import Nvml, counter_power_w, mean_power_w

EVERY_S = 0.05
"""A reading takes some tenths of a millisecond; power is told as a mean over up to a second."""
OFTEN = 0.1
"""Share of the readings from which a reason for lower clocks counts."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at a GPU; what it does not tell is None."""

    at_s: float
    energy_mj: int | None
    power_w: float | None
    clock_mhz: int | None
    reasons: tuple[str, ...]


@dataclass(slots=True)
class Watch:
    """Reads while in its `with` block, in a thread of its own; nothing where there is no NVML."""

    nvml: Nvml
    every_s: float = EVERY_S
    readings: list[Reading] = field(default_factory=list)
    _stop: Event = field(default_factory=Event)
    _thread: Thread | None = None

    def __enter__(self) -> Self:
        if self.nvml.there:
            self._thread = Thread(target=self._watch, name="watch", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread:
            self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(self.every_s):
            self.readings.append(self._reading())

    def _reading(self) -> Reading:
        nvml = self.nvml
        return Reading(
            at_s=time.perf_counter(),
            energy_mj=nvml.energy_mj(),
            power_w=nvml.power_w(),
            clock_mhz=nvml.clock_mhz(),
            reasons=nvml.slow_reasons() or (),
        )


def power_w(readings: Sequence[Reading]) -> float | None:
    """Watts by the energy counter, else by sampled power."""
    counted = [(one.at_s, one.energy_mj) for one in readings if one.energy_mj is not None]
    if (by_counter := counter_power_w(counted)) is not None:
        return by_counter
    return mean_power_w([(one.at_s, one.power_w) for one in readings if one.power_w is not None])


def clocks_mhz(readings: Sequence[Reading]) -> tuple[float | None, float | None]:
    """Clock in the first and in the last quarter of the readings, medians."""
    clocks_mhz = [one.clock_mhz for one in readings if one.clock_mhz is not None]
    quarter = max(1, len(clocks_mhz) // 4)
    return (median(clocks_mhz[:quarter]), median(clocks_mhz[-quarter:])) if clocks_mhz else (None, None)


def slow_reasons(readings: Sequence[Reading]) -> dict[str, float]:
    """Share of the readings by reason, of those that are frequent; `idle` is none while work is queued."""
    count = Counter(reason for one in readings for reason in one.reasons if reason != "idle")
    shares = {reason: round(times / len(readings), 3) for reason, times in count.items()}
    return {reason: share for reason, share in sorted(shares.items()) if share >= OFTEN}
