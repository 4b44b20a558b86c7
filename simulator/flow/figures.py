"""Figures of stages and stations: where the time of a frame goes."""

from dataclasses import dataclass

import numpy as np

from simulator.world.workload import Floats

QUANTILES = (0.5, 0.95, 0.99)


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """How long something takes, over many items; NaN without any."""

    mean_s: float
    p50_s: float
    p95_s: float
    p99_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StageMetrics:
    """One stage of a pipeline in one replication, over its items that came after the warm-up."""

    items_per_s: float
    lost_fraction: float
    """Share that was given up here."""
    waiting: Times
    """From coming to the stage until its batch, or the station, begins; of those that are done, as all below."""
    service: Times
    """From there until it is done."""
    since_arrival: Times
    """From the arrival of the frame until it is done."""
    busy: float
    """GPUs, or servers of its stations, that work at it, on average over the whole of the replication."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StationMetrics:
    """One station in one replication, over the whole of it."""

    utilization: float
    """Share of its servers' time that they worked."""
    items: int


def times(values_s: Floats) -> Times:
    """Of single times. 1, 2 and 3 s: a mean and a half of 2 s."""
    if not len(values_s):
        return Times(mean_s=np.nan, p50_s=np.nan, p95_s=np.nan, p99_s=np.nan)
    p50_s, p95_s, p99_s = np.quantile(values_s, QUANTILES).tolist()
    return Times(mean_s=float(np.mean(values_s)), p50_s=p50_s, p95_s=p95_s, p99_s=p99_s)
