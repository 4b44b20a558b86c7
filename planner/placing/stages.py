"""Stages: how many items each stage of a pipeline has of one frame, and how that varies."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, floor

import numpy as np
from scipy.special import gammaln

from planner.model.parts.pipelines import EdgeSpec, FanOutSpec, PipelineSpec, StageSpec
from simulator.world.pipelines import Edge, FanOut, FanOutKind
from simulator.world.workload import Floats

ITEMS_MAX = 2000
"""Items of one frame from which on chances are added up in one."""
RARE = 1e-9
"""Chance of a number of items that is left out."""


@dataclass(frozen=True, slots=True)
class ItemCount:
    """The number of items that a frame has at one stage."""

    mean: float
    chances: Floats
    """Of 0, 1, 2, ... items."""

    @property
    def variance(self) -> float:
        """Of the number."""
        numbers = np.arange(len(self.chances))
        seen = float(numbers @ self.chances)
        return float(numbers**2 @ self.chances) - seen**2

    @property
    def none(self) -> float:
        """Share of the frames that have no item here."""
        return float(self.chances[0])

    def least_share(self, frames: float, left_out: float = 0.0) -> float:
        """Share of all items that such a share of the frames has at least: those with few of them.

        Of 1 and 3 items, one as often as the other, half of the frames has a quarter of the items. `left_out`: share
        of frames without any that are none of them.
        """
        if not self.mean or left_out >= 1:
            return frames
        chances = self.chances.copy()
        chances[0] -= left_out
        up_to = np.minimum(np.cumsum(chances), frames)
        counted = np.diff(up_to, prepend=0.0)
        usual = frames / (1 - left_out)
        return min(usual, float(np.arange(len(counted)) @ counted) / self.mean)


ONE = ItemCount(1.0, np.array([0.0, 1.0]))


def in_order(pipeline: PipelineSpec) -> Iterator[StageSpec]:
    """The stages, each after all that come before it."""
    left = {stage.name: stage for stage in pipeline.stages}
    while left:
        ready = [one for one in left.values() if not any(edge.stage in left for edge in one.after)]
        yield from ready
        for stage in ready:
            del left[stage.name]


@lru_cache(maxsize=64)
def items_of(pipeline: PipelineSpec) -> Mapping[str, ItemCount]:
    """Items of each stage by its name. A stage after several runs once a frame, if any item came to it at all."""
    items: dict[str, ItemCount] = {}
    for stage in in_order(pipeline):
        match stage.after:
            case ():
                items[stage.name] = ONE
            case (edge,):
                items[stage.name] = after(items[edge.stage], edge)
            case several:
                items[stage.name] = joined([after(items[edge.stage], edge) for edge in several])
    return items


def least_shares(pipeline: PipelineSpec, attainment: float) -> dict[str, float]:
    """Share of the items of each stage that must be done at least, where so many of the frames that the SLO counts
    must be answered: those of which something reaches a last stage. Never nothing, for each stage has to be there.

    Of a detector on every third frame and an attainment of 90 %: 90 %, and 30 % of the decoding before it.
    """
    items, passed, last = items_of(pipeline), passed_by(pipeline), last_stages(pipeline)
    kept = attainment * max(1 - items[name].none for name in last)
    always = set.intersection(*(passed[name] for name in last))

    def share(name: str) -> float:
        left_out = max((items[one].none for one in always & passed[name]), default=0.0)
        return max(RARE, items[name].least_share(kept, left_out))

    return {name: share(name) for name in items}


def passed_by(pipeline: PipelineSpec) -> dict[str, set[str]]:
    """Of each stage those that all ways to it pass, itself too."""
    passed: dict[str, set[str]] = {}
    for stage in in_order(pipeline):
        before = [passed[edge.stage] for edge in stage.after]
        passed[stage.name] = {stage.name}.union(set.intersection(*before) if before else ())
    return passed


def last_stages(pipeline: PipelineSpec) -> list[str]:
    """Stages that nothing follows."""
    followed = {edge.stage for stage in pipeline.stages for edge in stage.after}
    return [stage.name for stage in pipeline.stages if stage.name not in followed]


def joined(arrived: Sequence[ItemCount]) -> ItemCount:
    """Once, but for frames of which nothing came: at most as many as have none on the way where that is rarest."""
    none = min(one.none for one in arrived)
    return ItemCount(1 - none, np.array([none, 1 - none]))


def after(items: ItemCount, edge: EdgeSpec) -> ItemCount:
    """Items behind one edge: each item before it that goes this way brings a number of its own.

    The chances of a sum of so many numbers are found by adding one at a time.
    """
    each = chances_of(edge.fan_out)
    if edge.part < 1:
        each = each * edge.part
        each[0] += 1 - edge.part
    found, some = np.zeros(ITEMS_MAX), np.ones(1)
    for chance in items.chances:
        found[: len(some)] += chance * some
        some = up_to_most(np.convolve(some, each))
    return ItemCount(items.mean * edge.part * mean_of(edge.fan_out), trimmed(found))


def up_to_most(chances: Floats) -> Floats:
    """All numbers from the largest on that is looked at as that number."""
    return np.append(chances[: ITEMS_MAX - 1], chances[ITEMS_MAX - 1 :].sum()) if len(chances) > ITEMS_MAX else chances


def trimmed(chances: Floats) -> Floats:
    """Without the numbers beyond all that are likely."""
    known = np.flatnonzero(chances > RARE)
    return chances[: known[-1] + 1] if len(known) else chances[:1]


def mean_of(fan_out: FanOutSpec) -> float:
    """Mean number of items."""
    return sum(fan_out.counts) / len(fan_out.counts) if fan_out.counts else fan_out.mean


def chances_of(fan_out: FanOutSpec) -> Floats:
    """Chances of 0, 1, 2, ... items."""
    mean = fan_out.mean
    if fan_out.counts:
        return np.bincount(fan_out.counts) / len(fan_out.counts)
    numbers = np.arange(ITEMS_MAX)
    if fan_out.poisson:
        return trimmed(np.exp(numbers * np.log(mean) - mean - gammaln(numbers + 1)))
    if fan_out.geometric:
        more = mean / (1 + mean)
        return trimmed(np.append((1 - more) * more ** numbers[:-1], more ** numbers[-1]))
    chances = np.zeros(ceil(mean) + 1)
    chances[floor(mean)] += 1 - mean % 1
    chances[ceil(mean)] += mean % 1
    return chances


def behind_models(pipeline: PipelineSpec) -> set[str]:
    """Stages behind a model, which may give frames up: stations before it give up none."""
    found: set[str] = set()
    models = {stage.name for stage in pipeline.stages if stage.is_model}
    for stage in in_order(pipeline):
        if any(edge.stage in found | models for edge in stage.after):
            found.add(stage.name)
    return found


def edge(spec: EdgeSpec) -> Edge:
    """One way from stage to stage."""
    return Edge(source=spec.stage, fan_out=fan_out(spec.fan_out), share=spec.share, every=spec.every)


def fan_out(spec: FanOutSpec) -> FanOut:
    """A number of items."""
    if spec.counts:
        return FanOut(mean=mean_of(spec), kind=FanOutKind.RECORDED, counts=spec.counts)
    if spec.poisson:
        return FanOut(mean=spec.mean, kind=FanOutKind.POISSON)
    return FanOut(mean=spec.mean, kind=FanOutKind.GEOMETRIC if spec.geometric else FanOutKind.FIXED)
