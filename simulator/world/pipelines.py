"""Pipelines: the stages that a frame passes, each a model or work at a station, with one SLO from arrival to answer.

A pipeline is asked like a model. A stage that is a model is a service of its own, named `PIPELINE.STAGE`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter

from simulator.world.workload import SLO

DECODE, ENCODE = "decode", "encode"
ENGINES = (DECODE, ENCODE)
"""Kinds of station at which a source stays: an engine for video holds the frames that later ones refer to."""


class FanOutKind(StrEnum):
    """How numbers of items spread around their mean."""

    FIXED = "fixed"
    """None: always the same. Of a mean of 2.5, two or three at random."""
    POISSON = "poisson"
    GEOMETRIC = "geometric"
    """On 0, 1, 2 and so on: most have few, some have many."""
    TABLE = "table"
    """Counts in their order, repeated, whichever source a frame is of."""
    RECORDED = "recorded"
    """The same, but each source goes through them on its own, from a place of its own."""


RECORDS = (FanOutKind.TABLE, FanOutKind.RECORDED)
"""Kinds that have counts instead of a mean."""


@dataclass(frozen=True, slots=True)
class FanOut:
    """Items that follow from one item of the stage before."""

    mean: float = 1.0
    kind: FanOutKind = FanOutKind.FIXED
    counts: tuple[int, ...] = ()
    """Of a table or a recording; its mean is theirs."""

    @property
    def items(self) -> float:
        """Mean number. A table of 2, 0 and 4: 2."""
        return sum(self.counts) / len(self.counts) if self.kind in RECORDS else self.mean

    @property
    def is_fixed(self) -> bool:
        """Whether nothing is random."""
        whole = self.kind is FanOutKind.FIXED and self.mean == int(self.mean)
        return whole or self.kind is FanOutKind.TABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """From a stage to one that follows it."""

    source: str
    fan_out: FanOut = FanOut()
    share: float = 1.0
    """So many of the items of the stage before go on, each at random."""
    every: int = 1
    """Of the items of each source one in so many goes on, in turn; which is the first is random."""

    @property
    def items(self) -> float:
        """Mean number of items that follow from one. A share of 0.3 and a fan-out of 3: 0.9."""
        return self.share / self.every * self.fan_out.items

    @property
    def is_fixed(self) -> bool:
        """Whether nothing is random."""
        return self.share == 1 and self.every == 1 and self.fan_out.is_fixed


@dataclass(frozen=True, slots=True)
class ModelWork:
    """A model runs, on the replicas of the service of that stage."""


@dataclass(frozen=True, slots=True)
class StationWork:
    """Work at a station: decoding, encoding, or whatever a core of the host does."""

    station: str
    """Kind of station: `decode`, `encode`, `host`, `copy`."""
    service_s: float
    """Mean time of one item, at a station of speed 1."""
    cv: float = 0.0
    """Coefficient of variation of that time, Gamma: exponential at 1."""
    factors: tuple[float, ...] = ()
    """Equally likely factors on that time, of mean 1, where it was seen how it spreads; `cv` then says nothing."""

    @property
    def varies(self) -> bool:
        """Whether one item takes longer than another."""
        return max(self.factors) > min(self.factors) if self.factors else self.cv > 0


Work = ModelWork | StationWork


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineStage:
    """One step of a pipeline."""

    name: str
    work: Work
    after: tuple[Edge, ...] = ()
    """None: the source feeds it, one item for each frame. Several: a join. It runs once for each frame, when all items
    of the stages before it are done; where none of their items goes on, it does not run."""
    slo: SLO | None = None
    """From the arrival of the frame to the end of this stage; None: only the pipeline has one."""

    @property
    def is_join(self) -> bool:
        """Whether it waits for several stages."""
        return len(self.after) > 1

    @property
    def is_fixed(self) -> bool:
        """Whether neither the number of its items nor, at a station, their time is random."""
        varies = isinstance(self.work, StationWork) and self.work.varies
        return not varies and all(edge.is_fixed for edge in self.after)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """Stages that follow each other without a cycle. A frame is answered when all its items are.

    The SLO counts frames of which something reaches a last stage: no answer is due to others.
    """

    name: str
    stages: tuple[PipelineStage, ...]
    slo: SLO
    """From the arrival of a frame to its answer."""
    ordered: bool = False
    """Answers of one source leave in the order of its frames: a quick one waits for those before it."""

    def uses(self, kind: str) -> bool:
        """Whether its frames pass stations of a kind."""
        return any(isinstance(one.work, StationWork) and one.work.station == kind for one in self.stages)

    def name_of(self, stage: PipelineStage) -> str:
        """By which the stage's service and figures are known: `crossing.detect`."""
        return f"{self.name}.{stage.name}"

    def slo_of(self, stage: PipelineStage) -> SLO:
        """The one by which its items are late, from the arrival of their frame."""
        return stage.slo or self.slo

    @property
    def before(self) -> dict[str, tuple[str, ...]]:
        """The stages right before each, by name."""
        return {stage.name: tuple(edge.source for edge in stage.after) for stage in self.stages}

    @property
    def last(self) -> tuple[PipelineStage, ...]:
        """Stages that nothing follows."""
        followed = {edge.source for stage in self.stages for edge in stage.after}
        return tuple(stage for stage in self.stages if stage.name not in followed)

    @property
    def is_fixed(self) -> bool:
        """Whether the same frames are always followed by the same work."""
        return all(stage.is_fixed for stage in self.stages)

    @property
    def items_per_frame(self) -> dict[str, float]:
        """Mean number of items at each stage, by its name; of a join one at the most."""
        found: dict[str, float] = {}
        for stage in in_order(self.stages):
            came = sum(found[edge.source] * edge.items for edge in stage.after) if stage.after else 1.0
            found[stage.name] = min(came, 1.0) if stage.is_join else came
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Station:
    """Servers that take items first come, first served: the decoders of one GPU, the cores of one host."""

    id: str
    host: str
    kind: str
    servers: int
    speed: float = 1.0
    """How many times as fast as a stage's `service_s` says."""

    @property
    def capacity(self) -> float:
        """Seconds of work that it does in one. Two servers of speed 1.5: 3."""
        return self.servers * self.speed


def in_order(stages: Sequence[PipelineStage]) -> tuple[PipelineStage, ...]:
    """Stages, each after all that it follows. Those in a cycle, and what follows from one, are left out."""
    ordered: list[PipelineStage] = []
    left = list(stages)
    known: set[str] = set()
    while ready := [stage for stage in left if all(edge.source in known for edge in stage.after)]:
        ordered += ready
        known |= {stage.name for stage in ready}
        left = [stage for stage in left if stage.name not in known]
    return tuple(ordered)


def cycle_in(before: Mapping[str, Iterable[str]]) -> list[str]:
    """The names of a cycle, in the order in which items would go: `a`, `b`, `a`. Empty where there is none.

    `before`: by each name those right before it.
    """
    try:
        TopologicalSorter(before).prepare()
    except CycleError as error:
        return [*error.args[1]]
    return []
