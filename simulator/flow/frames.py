"""Frames of one pipeline: how many of their items are left, which are lost, and when each is answered."""

from array import array
from collections.abc import Iterable, Mapping
from math import inf, nan

import numpy as np

from simulator.flow.items import StageItems, item_counts
from simulator.world.pipelines import Pipeline
from simulator.world.workload import Demand, Floats, Sources


class Frames:
    """All frames of one pipeline, by number in order of arrival."""

    def __init__(self, demand: Demand, pipeline: Pipeline, drawn: Mapping[str, StageItems]) -> None:
        count = len(demand.arrival_s)
        self.demand = demand
        self.arrival_s: list[float] = demand.arrival_s.tolist()
        self.whole = item_counts(drawn.values(), count)
        """Items of each."""
        self.left: list[int] = self.whole.tolist()
        """Those that are not done yet."""
        self.due = np.zeros(count, dtype=np.bool_)
        """Whether something of it reaches a last stage, were it not lost."""
        for stage in pipeline.last:
            self.due[drawn[stage.name].frame] = True
        self.answered_s = array("d", [nan]) * count
        self.lost_s = array("d", [nan]) * count
        """When the first of its items was given up."""
        self.is_lost = bytearray(count)

    def lose(self, frames: Iterable[int], now_s: float) -> None:
        """An item of each was given up: nothing more will follow from the others."""
        for frame in frames:
            if not self.is_lost[frame]:
                self.is_lost[frame] = 1
                self.lost_s[frame] = now_s

    def count_done(self, frames: Iterable[int], now_s: float) -> None:
        """An item of each is done. A frame is answered with its last one."""
        left = self.left
        for frame in frames:
            left[frame] -= 1
            if not left[frame]:
                self.answered_s[frame] = now_s

    def columns(self, ordered: bool) -> tuple[Floats, Floats]:
        """When each was answered and lost, NaN where it was not."""
        answered_s, lost_s = np.array(self.answered_s), np.array(self.lost_s)
        return (in_turn_s(answered_s, lost_s, self.demand.source) if ordered else answered_s), lost_s


def in_turn_s(answered_s: Floats, lost_s: Floats, source: Sources) -> Floats:
    """When answers leave that keep the order of their source's frames: NaN while an earlier one is neither answered
    nor lost.

    One source, answered at 3, 2 and 5 s: they leave at 3, 3 and 5 s.
    """
    settled_s = np.where(np.isnan(lost_s), answered_s, lost_s)
    settled_s[np.isnan(settled_s)] = inf
    left_s = np.empty(len(settled_s))
    for one in np.unique(source):
        mine = np.flatnonzero(source == one)
        left_s[mine] = np.maximum.accumulate(settled_s[mine])
    left_s[np.isnan(answered_s) | np.isinf(left_s)] = nan
    return left_s
