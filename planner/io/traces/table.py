"""A recording: arrivals as times, and how long it lasted."""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from simulator.errors import InputError

LONGEST_S = 1e10
"""Longest recording, 300 years: beyond it, times are not in seconds."""
DIGITS = 6
"""After the point of times that are written: microseconds."""
RESOLUTION_S = 10.0**-DIGITS
MOST_ARRIVALS = 15_000_000
"""Most arrivals of one recording: BurstGPT has ten million."""
Floats = NDArray[np.float64]


class TraceError(InputError):
    """A recording that cannot be used, in one line that names the file, the place and the remedy."""


@dataclass(frozen=True, slots=True)
class TraceTable:
    """Recorded arrivals."""

    times_s: Floats = field(compare=False)
    """Sorted, seconds from the start of the recording."""
    period_s: float
    """Length of the recording, silent ends included; where it is not known, until the last arrival and one mean gap
    more, so that it can be repeated."""
    source: str
    """The file that was read."""
    notes: tuple[str, ...] = ()
    """Changes that reading made, in sentences."""

    @property
    def rate_rps(self) -> float:
        """Mean rate: arrivals by length."""
        return self.times_s.size / self.period_s

    def at_rate(self, rate_rps: float) -> "TraceTable":
        """The same arrivals with time stretched or shrunk until the mean rate is `rate_rps`."""
        factor = self.rate_rps / rate_rps
        return replace(self, times_s=self.times_s * factor, period_s=self.period_s * factor)

    def first(self, duration_s: float) -> "TraceTable":
        """Only the first `duration_s` seconds."""
        if not duration_s > 0:
            raise TraceError(f"{self.source}: a duration must be above 0 s, got {duration_s:g} s.")
        if duration_s > self.period_s + RESOLUTION_S:
            raise TraceError(f"{self.source}: lasts {self.period_s:.6g} s, not {duration_s:g} s. Ask for less.")
        kept = self.times_s[self.times_s < duration_s]
        return replace(self, times_s=enough(kept, self.source), period_s=duration_s)


def enough(times: Floats, source: str) -> Floats:
    """`times`, sorted, of which there must be two that differ."""
    if times.size < 2:
        raise TraceError(f"{source}: holds {times.size} arrival{'s' * (times.size != 1)}. A rate needs at least two.")
    if times[0] == times[-1]:
        raise TraceError(f"{source}: all {times.size} arrivals have the same time. A rate needs time to pass.")
    return times
