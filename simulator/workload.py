"""Demand: streams of requests, drawn before the clock starts as sorted arrays of arrival times."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class FixedRate:
    """A camera: one frame every 1/rate seconds."""

    rate_rps: float
    phase_s: float | None = None
    """Time of the first frame; None: uniform over one period, drawn for each camera."""
    jitter_s: float = 0.0
    """Standard deviation of each frame's delay around its due time, seconds."""


@dataclass(frozen=True, slots=True)
class Poisson:
    """Independent arrivals."""

    rate_rps: float


@dataclass(frozen=True, slots=True)
class Gamma:
    """Gamma-distributed gaps: bursty for cv > 1, Poisson at cv = 1."""

    rate_rps: float
    cv: float
    """Coefficient of variation of the gaps."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Recorded arrivals, repeated from the start when the horizon is longer."""

    times_s: NDArray[np.float64]
    """Sorted, from 0."""
    period_s: float
    """Length of the recording, at least the last time."""


Arrivals = FixedRate | Poisson | Gamma | Trace


@dataclass(frozen=True, slots=True)
class Stream:
    """`count` independent sources of one kind, all asking one model."""

    model: str
    arrivals: Arrivals
    count: int = 1


@dataclass(frozen=True, slots=True)
class Workload:
    """All demand on a deployment."""

    streams: tuple[Stream, ...]
