"""Summary: how many arrivals a recording has, how bursty they are, and when most came."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from planner.io.traces.table import TraceTable


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of time and what arrived in it."""

    start_s: float
    length_s: float
    count: int


@dataclass(frozen=True, slots=True)
class TraceSummary:
    """Figures of a recording."""

    count: int
    duration_s: float
    mean_rate_rps: float
    gap_cv: float
    """Coefficient of variation of the gaps between arrivals; 1 is Poisson, more is bursty."""
    peak_to_mean_1s: float
    """Busiest second by the mean second."""
    peak_to_mean_1min: float
    """Busiest minute by the mean minute; of a shorter recording, 1."""
    busiest: tuple[Window, ...]
    """The three busiest seconds, then the three busiest minutes, as far as the recording has such."""
    notes: tuple[str, ...] = ()
    """Changes that reading made, in sentences."""


def describe(table: TraceTable) -> TraceSummary:
    """Count, rate and burstiness of a recording."""
    gaps = np.diff(table.times_s)
    return TraceSummary(
        count=table.times_s.size,
        duration_s=table.period_s,
        mean_rate_rps=table.rate_rps,
        gap_cv=float(gaps.std() / gaps.mean()),
        peak_to_mean_1s=peak_to_mean(table, 1.0),
        peak_to_mean_1min=peak_to_mean(table, 60.0),
        busiest=(*busiest(table, 1.0), *busiest(table, 60.0)),
        notes=table.notes,
    )


def per_window(table: TraceTable, length_s: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Numbers of those whole windows of the recording in which anything arrived, and how many arrived in each."""
    number, count = np.unique((table.times_s / length_s).astype(np.int64), return_counts=True)
    whole = number < int(table.period_s // length_s)
    return number[whole], count[whole].astype(np.int64)


def peak_to_mean(table: TraceTable, length_s: float) -> float:
    """The busiest whole window by the mean one; 1 where no whole window fits."""
    _, count = per_window(table, length_s)
    return float(count.max() / (length_s * table.rate_rps)) if count.size else 1.0


def busiest(table: TraceTable, length_s: float, most: int = 3) -> Iterator[Window]:
    """The whole windows with most arrivals, busiest first; none where the recording is shorter than one."""
    number, count = per_window(table, length_s)
    order = np.argsort(-count, kind="stable")
    return (Window(float(number[i]) * length_s, length_s, int(count[i])) for i in islice(order, most))
