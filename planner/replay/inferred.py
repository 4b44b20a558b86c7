"""Inferred: draws of speeds that need no replay, for others tell what they would show."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from planner.placing.sizing import Need
from simulator.clock.replays.drawn import DrawnSpeeds
from simulator.clock.worlds import Shares

TELL = 2
"""Draws that must agree: one alone may have had easy phases, or hard ones."""
MARGIN = 2.0
"""Times by which a draw that tells of others has fewer misses than it may, or more."""
SOURCES_MAX = 12
"""Sources of doubt of which hardly any draw is slower than another in all."""


class Told:
    """Draws that were replayed, and what they tell of others.

    What is slower in everything and keeps every SLO with ease says of what is quicker that it keeps them too; what is
    quicker in everything and misses one by far says that what is slower misses it. No work is done later for being
    done sooner, but for chance: phases, and what came at random.
    """

    def __init__(self, speeds: DrawnSpeeds, slos: Mapping[str, float]) -> None:
        self.speeds = speeds
        self.slos = slos
        """By model, the share of its requests that must be in time."""
        self.slowness = speeds.slowness(())
        """By draw that was replayed and source of doubt."""
        self.keeps, self.misses = np.empty((2, 0), dtype=bool)
        """Whether it keeps every SLO with ease, and whether it misses one by far."""
        self.seen = Shares({model: np.empty(0) for model in slos}, (), np.empty(0), 0)
        self.inferred = 0
        """Draws that others told of."""

    @classmethod
    def of(cls, speeds: DrawnSpeeds, needs: Mapping[str, Need]) -> "Told | None":
        """None where it could not tell of any."""
        slos = {model: need.slo.attainment for model, need in needs.items()}
        tells = speeds.are_known and speeds.are_in_order and speeds.sources <= SOURCES_MAX
        return cls(speeds, slos) if tells else None

    def learn(self, seeds: Sequence[int], seen: Shares) -> None:
        """From draws that were replayed."""
        misses = np.array([bool(growing) for growing in seen.growing])
        keeps = ~misses
        for model, slo in self.slos.items():
            missed = 1 - seen.in_time[model]
            keeps &= MARGIN * missed <= 1 - slo
            misses |= missed > MARGIN * (1 - slo)
        self.slowness = np.vstack([self.slowness, self.speeds.slowness(seeds)])
        self.keeps, self.misses = np.append(self.keeps, keeps), np.append(self.misses, misses)
        self.seen = self.seen.and_more(seen)

    def shares(self, seeds: Sequence[int], replayed: Callable[[Sequence[int]], Shares]) -> Shares:
        """What draws show: of some what another shows that tells of them, of the rest what is seen of them replayed."""
        places = self._telling(seeds)
        open_ones = np.flatnonzero(places < 0)
        self.inferred += len(seeds) - len(open_ones)
        if not len(open_ones):
            return self.seen.at(places)
        rest = [seeds[place] for place in open_ones.tolist()]
        seen = replayed(rest)
        places[open_ones] = np.arange(len(rest)) + len(self.keeps)
        self.learn(rest, seen)
        return self.seen.at(places)._replace(requests=seen.requests)

    def _telling(self, seeds: Sequence[int]) -> NDArray[np.intp]:
        """Of each draw the place of one that tells of it; -1 where none does."""
        places = np.full(len(seeds), -1)
        for number, mine in enumerate(self.speeds.slowness(seeds)):
            slower = np.flatnonzero(self.keeps & (self.slowness >= mine).all(axis=1))
            quicker = np.flatnonzero(self.misses & (self.slowness <= mine).all(axis=1))
            for telling in (slower, quicker):
                if len(telling) >= TELL:
                    places[number] = telling[0]
        return places
