"""Hardest: draws in which other deployments broke an SLO, which soonest show that one more does not keep enough."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from planner.replay.replay import Replay


@dataclass
class HardestDraws:
    """Numbers of replications by how often they broke an SLO.

    Every deployment meets the same draws, and a verdict asks in how many of them its SLOs are met: which of those come
    first does not change it. One is given up early only where those left cannot mend it, whatever its noise.
    """

    broken: Counter[int] = field(default_factory=Counter)

    def order(self, looks: Sequence[int]) -> list[int]:
        """All replications up to the last look: those of each look stay together, the hardest of them first."""
        parts = [range(begin, end) for begin, end in pairwise((0, *looks))]
        return [i for part in parts for i in sorted(part, key=lambda number: -self.broken[number])]

    def learn(self, seen: Replay, numbers: Sequence[int]) -> None:
        """Count the draws that broke an SLO of one more deployment."""
        for number, kept in zip(numbers, seen.kept_together, strict=False):
            self.broken[number] += not kept


def in_order(seen: Replay, numbers: Sequence[int]) -> Replay:
    """The replications by their numbers, as if they had been replayed so."""
    places = sorted(range(len(seen.summaries)), key=lambda place: numbers[place])
    return replace(
        seen,
        summaries=tuple(seen.summaries[place] for place in places),
        overloads=tuple(seen.overloads[place] for place in places),
        lost_is_wrong=tuple(seen.lost_is_wrong[place] for place in places),
        reuse_last=tuple(seen.reuse_last[place] for place in places if seen.reuse_last),
        latencies=tuple(seen.latencies[place] for place in places if seen.latencies),
    )
