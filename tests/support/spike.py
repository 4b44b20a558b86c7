"""The size at which times begin to rise."""

import math
from collections.abc import Sequence

import numpy as np

from simulator.world.workload import Floats


def spike(sizes: Sequence[float], times_s: Sequence[float]) -> float | None:
    """The size at which a flat curve begins to rise: where two straight lines on log-log paper, the first level, meet.

    None where time does not double. Hidden layers of 128 to 6,144 nodes, 2.4 to 13.2 s: 1,700.
    """
    if max(times_s) < 2 * min(times_s):
        return None
    xs, ys = np.log(sizes), np.log(times_s)
    tried = np.linspace(xs[0], xs[-1], 201)[1:-1]
    return math.exp(min(tried, key=lambda at: _misfit(at, xs, ys)))


def _misfit(at: float, xs: Floats, ys: Floats) -> float:
    """Sum of squares of y = level + slope x max(0, x - at), both fitted."""
    columns = np.column_stack([np.ones(len(xs)), np.maximum(0, xs - at)])
    level_slope = np.linalg.lstsq(columns, ys, rcond=None)[0]
    return float(np.sum((ys - columns @ level_slope) ** 2))
