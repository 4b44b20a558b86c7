"""A recording as the shape of the load: steps where its arrivals prove a change, and what it cannot show.

Bayesian blocks: Scargle et al., Studies in Astronomical Time Series Analysis VI, ApJ 764:167 (2013).
"""

from dataclasses import dataclass
from itertools import pairwise
from math import exp, log

import numpy as np
from numpy.typing import NDArray

from simulator.world.workload import Floats

FALSE_ALARM = 0.05
"""Chance that a recording without any change is cut somewhere."""
CELLS_MAX = 2880
"""Cells that are cut together, two days of minutes: the time it takes grows with their square."""
CROWD_MIN = 5
"""Length of the flash crowd that may hide in a sparse recording, minutes."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Load of each minute, in arrivals, and how sure its peak is."""

    factors: Floats
    """Load of each minute."""
    peak_low: float = 1.0
    """Low end of the true peak over the recorded one, with 95 %."""
    peak_high: float = 1.0
    """High end of the true peak over the recorded one, with 95 %."""
    hidden: float = 1.0
    """A crowd of five minutes with less than so many times the mean load would not show."""


def shape_of_counts(counts: NDArray[np.intp]) -> Shape:
    """Arrivals of each minute as steps: as narrow as they prove a change, and no narrower."""
    from scipy.stats import chi2

    if not counts.any():
        return Shape(counts.astype(float))
    edges = blocks(counts)
    passed = np.append(0, np.cumsum(counts))
    arrivals, width = np.diff(passed[edges]), np.diff(edges)
    peak = int(arrivals[np.argmax(arrivals / width)])
    return Shape(
        factors=np.repeat(arrivals / width, width),
        peak_low=float(chi2.ppf(0.025, 2 * peak)) / 2 / peak,
        peak_high=float(chi2.ppf(0.975, 2 * peak + 2)) / 2 / peak,
        hidden=unseen(float(counts.mean()) * CROWD_MIN, int(counts.sum())),
    )


def blocks(counts: NDArray[np.intp]) -> NDArray[np.intp]:
    """Edges of the steps of constant load, in cells: the most likely steps, each at its price."""
    price = price_of_a_step(int(counts.sum()))
    pieces = range(0, len(counts), CELLS_MAX)
    begins = np.concatenate([start + _begins(counts[start : start + CELLS_MAX], price) for start in pieces])
    edges = [*begins.tolist(), len(counts)]
    return np.array(_without_dear_cuts(edges, counts, price), dtype=np.intp)


def _without_dear_cuts(edges: list[int], counts: NDArray[np.intp], price: float) -> list[int]:
    """The edges without those between two pieces that do not pay: the pieces were cut apart from each other."""
    passed = np.append(0, np.cumsum(counts))

    def log_likelihood(begin: int, end: int) -> float:
        inside = float(passed[end] - passed[begin])
        return inside * log(max(inside, 1.0) / (end - begin))

    kept = edges[:1]
    for edge, following in pairwise(edges[1:]):
        apart = log_likelihood(kept[-1], edge) + log_likelihood(edge, following)
        together = log_likelihood(kept[-1], following)
        if edge % CELLS_MAX or apart - together > price:
            kept.append(edge)
    return [*kept, edges[-1]]


def _begins(counts: NDArray[np.intp], price: float) -> NDArray[np.intp]:
    """First cells of the most likely steps of one piece, by dynamic programming over the end of the last step."""
    passed = np.append(0.0, np.cumsum(counts))
    best = np.zeros(len(counts) + 1)
    begins = np.zeros(len(counts) + 1, dtype=np.intp)
    for end in range(1, len(counts) + 1):
        inside = passed[end] - passed[:end]
        width = end - np.arange(end)
        likely = best[:end] + inside * np.log(np.maximum(inside, 1) / width)
        begins[end] = np.argmax(likely)
        best[end] = likely[begins[end]] - price
    steps = []
    cell = len(counts)
    while cell > 0:
        cell = int(begins[cell])
        steps.append(cell)
    return np.array(steps[::-1], dtype=np.intp)


def price_of_a_step(arrivals: int) -> float:
    """Log-likelihood that one more step must bring (equation 21). 10,000 arrivals: 7.1."""
    # The constants of the equation: a fit to simulated recordings without any change.
    return 4 - log(73.53 * FALSE_ALARM * max(1, arrivals) ** -0.478)


def unseen(usual: float, arrivals: int) -> float:
    """The least crowd that shows, over the usual load, where so many arrivals are usual: k ln k - k + 1 = 2 p / m.

    Two steps must pay their price. 15 arrivals usual, 10,000 in all: 2.7.
    """
    from scipy.optimize import brentq

    worth = 2 * price_of_a_step(arrivals) / usual
    return float(brentq(lambda k: k * log(k) - k + 1 - worth, 1.0, exp(1) + 2 * worth))
