"""Inferred: draws of speeds that need no replay, for others tell what they would show."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from planner.placing.sizing import Need
from simulator.clock.replays.drawn import DrawnSpeeds
from simulator.clock.worlds import Shares
from simulator.world.workload import Floats

TELL = 2
"""Draws that must agree: one alone may have had easy phases, or hard ones."""
MARGIN = 2.0
"""Times by which a draw that tells of others has fewer misses than it may, or more."""
CHECKED = 8
"""Of so many draws that others tell of one is replayed all the same, to see whether it shows that."""
SOURCES_MAX = 12
"""Sources of doubt of which hardly any draw is slower than another in all."""


Bools = NDArray[np.bool_]


class Told:
    """Draws that were replayed, and what they tell of others.

    What is slower in everything and keeps every SLO with ease says of what is quicker that it keeps them too; what is
    quicker in everything and misses one by far says that what is slower misses it. No work is done later for being
    done sooner, but for chance: phases of cameras, and what came at random. Where that matters, draws contradict each
    other: what neighbours say of those that were replayed is not what these showed, and then nothing is inferred; nor
    where requests of some model come in one draw and in another do not.
    """

    def __init__(self, speeds: DrawnSpeeds, slos: Mapping[str, float]) -> None:
        self.speeds = speeds
        self.slos = slos
        """By model, the share of its requests that must be in time."""
        self.slowness = speeds.slowness(())
        """By draw that was replayed and source of doubt."""
        self.kept, self.keeps, self.misses = np.empty((3, 0), dtype=bool)
        """Whether it keeps every SLO, whether with ease, and whether it misses one by far."""
        self.seen = Shares({model: np.empty(0) for model in slos}, (), np.empty(0), 0)
        self.inferred = 0
        """Draws that others told of, and that were not replayed."""
        self.told = 0
        """The same with those that were."""
        self.contradicted = False
        """Whether one that was replayed did not show what others tell of it, or had no request of some model."""

    @classmethod
    def of(cls, speeds: DrawnSpeeds, needs: Mapping[str, Need]) -> "Told | None":
        """None where it could not tell of any."""
        slos = {model: need.slo.attainment for model, need in needs.items()}
        tells = speeds.are_known and speeds.are_in_order and speeds.sources <= SOURCES_MAX
        return cls(speeds, slos) if tells else None

    def learn(self, seeds: Sequence[int], seen: Shares) -> None:
        """From draws that were replayed."""
        grows = np.array([bool(growing) for growing in seen.growing])
        kept, keeps, misses = ~grows, ~grows, grows
        for model, slo in self.slos.items():
            missed = 1 - seen.in_time[model]
            kept = kept & (missed <= 1 - slo)
            keeps = keeps & (MARGIN * missed <= 1 - slo)
            misses = misses | (missed > MARGIN * (1 - slo))
        self.slowness = np.vstack([self.slowness, self.speeds.slowness(seeds)])
        self.kept = np.append(self.kept, kept)
        self.keeps, self.misses = np.append(self.keeps, keeps), np.append(self.misses, misses)
        self.seen = self.seen.and_more(seen)
        self.contradicted |= any(bool(np.isnan(seen.in_time[model]).any()) for model in self.slos)
        self.contradicted |= any(map(self._contradicts, range(len(self.kept) - len(kept), len(self.kept))))

    def shares(self, seeds: Sequence[int], replayed: Callable[[Sequence[int]], Shares]) -> Shares:
        """What draws show: of some what another shows that tells of them, of the rest what is seen of them replayed."""
        places = np.array([self._telling(mine) for mine in self.speeds.slowness(seeds)])
        told = np.flatnonzero(places >= 0)
        places[told[(self.told + np.arange(len(told))) % CHECKED == CHECKED - 1]] = -1
        self.told += len(told)
        open_ones = np.flatnonzero(places < 0)
        self.inferred += len(seeds) - len(open_ones)
        if not len(open_ones):
            return self.seen.at(places)
        rest = [seeds[place] for place in open_ones.tolist()]
        seen = replayed(rest)
        places[open_ones] = np.arange(len(rest)) + len(self.kept)
        self.learn(rest, seen)
        return self.seen.at(places)._replace(requests=seen.requests)

    def _telling(self, mine: Floats, others: Bools | None = None) -> int:
        """The place of a draw that tells of one so slow; -1 where none does, or where one says otherwise."""
        slower, quicker = (self.slowness >= mine).all(axis=1), (self.slowness <= mine).all(axis=1)
        if others is not None:
            slower, quicker = slower & others, quicker & others
        for telling, denying in [
            (slower & self.keeps, quicker & ~self.keeps),
            (quicker & self.misses, slower & ~self.misses),
        ]:
            if np.count_nonzero(telling) >= TELL and not denying.any():
                return int(np.argmax(telling))
        return -1

    def _contradicts(self, place: int) -> bool:
        """Whether a draw that was replayed did not show what the others tell of it."""
        telling = self._telling(self.slowness[place], np.arange(len(self.kept)) != place)
        return telling >= 0 and bool(self.kept[telling] != self.kept[place])
