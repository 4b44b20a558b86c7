"""All pipelines of a deployment on the clock of one world: frames come, pass from stage to stage, and are answered."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import simpy
from simpy.events import ProcessGenerator

from simulator.flow.frames import Frames
from simulator.flow.items import StageItems, draw_items, draw_work_s
from simulator.flow.stages import Join, ModelStage, OpenStage, StationStage, Way
from simulator.flow.stations import OpenStation, homes
from simulator.rules.queues import Delays, Outage
from simulator.world.deployment import Deployment
from simulator.world.pipelines import ENGINES, ModelWork, Pipeline, PipelineStage, StationWork
from simulator.world.workload import Demand

NOTHING = Demand(np.empty(0), np.empty(0, dtype=np.int32))


@dataclass(frozen=True, slots=True)
class OpenPipeline:
    """One pipeline on the clock."""

    pipeline: Pipeline
    frames: Frames
    stages: Mapping[str, OpenStage]
    """By the name that figures have: `crossing.detect`."""

    @property
    def first(self) -> dict[str, OpenStage]:
        """Those that the source feeds; there the place of an item is the number of its frame."""
        names = (self.pipeline.name_of(stage) for stage in self.pipeline.stages if not stage.after)
        return {name: self.stages[name] for name in names}


class Flow:
    """All pipelines of one world."""

    def __init__(
        self,
        deployment: Deployment,
        demand: Mapping[str, Demand],
        seed: int,
        env: simpy.Environment,
        outages: Mapping[str, Sequence[Outage]],
    ) -> None:
        self.env = env
        self.seed = seed
        self.stations = [OpenStation(station, outages[station.host]) for station in deployment.stations]
        asked = {one.name: demand.get(one.name, NOTHING) for one in deployment.pipelines}
        self.homes = {kind: _homes(kind, deployment, asked) for kind in ENGINES}
        """By kind of engine, where each source stays."""
        self.pipelines = {one.name: self._opened(one, asked[one.name]) for one in deployment.pipelines}

    @property
    def stages(self) -> dict[str, OpenStage]:
        """Of all pipelines, by the name that figures have."""
        return {name: stage for one in self.pipelines.values() for name, stage in one.stages.items()}

    @property
    def models(self) -> dict[str, ModelStage]:
        """Those that are models."""
        return {name: stage for name, stage in self.stages.items() if isinstance(stage, ModelStage)}

    def start(self, delays: Mapping[str, Delays]) -> None:
        """Let frames come. Stages that are models know theirs already."""
        for name, stage in self.stages.items():
            if isinstance(stage, StationStage):
                stage.delays = delays.get(name)
        for one in self.pipelines.values():
            first = [stage for stage in one.first.values() if isinstance(stage, StationStage)]
            if first:
                self.env.process(self._arrivals(one.frames, first))

    def _arrivals(self, frames: Frames, stages: Sequence[StationStage]) -> ProcessGenerator:
        for frame, at_s in enumerate(frames.arrival_s):
            if at_s > self.env.now:
                yield self.env.timeout(at_s - self.env.now)
            for stage in stages:
                stage.take((frame,), at_s)

    def _opened(self, pipeline: Pipeline, demand: Demand) -> OpenPipeline:
        drawn = draw_items(pipeline, demand, self.seed)
        frames = Frames(demand, pipeline, drawn)
        stages = {stage.name: self._stage(pipeline, stage, frames, drawn[stage.name]) for stage in pipeline.stages}
        return linked(pipeline, frames, stages, drawn)

    def _stage(self, pipeline: Pipeline, stage: PipelineStage, frames: Frames, items: StageItems) -> OpenStage:
        match stage.work:
            case ModelWork():
                return ModelStage(frames, items, pipeline.slo_of(stage).latency_s, fed_by_source=not stage.after)
            case StationWork(kind) as work:
                work_s = draw_work_s(pipeline, stage, work, len(items.frame), self.seed)
                stations = [one for one in self.stations if one.station.kind == kind]
                return StationStage(frames, items, work_s, stations, self.homes.get(kind, {}), self.env)


def linked(
    pipeline: Pipeline, frames: Frames, stages: Mapping[str, OpenStage], drawn: Mapping[str, StageItems]
) -> OpenPipeline:
    """The pipeline, each of its stages known to those before it; `stages` by their names in it."""
    for stage in pipeline.stages:
        _link(stage, stages, drawn)
    return OpenPipeline(pipeline, frames, {pipeline.name_of(stage): stages[stage.name] for stage in pipeline.stages})


def _link(stage: PipelineStage, stages: Mapping[str, OpenStage], drawn: Mapping[str, StageItems]) -> None:
    """Let the stages before one know it."""
    here, items = stages[stage.name], drawn[stage.name]
    before = [edge.source for edge in stage.after]
    if items.begins is not None:
        stages[before[0]].following.append(Way(here, items.begins))
    if items.joined is not None:
        join = Join(here, items.joined, [drawn[name] for name in before])
        for name in before:
            stages[name].joins.append(join)


def _homes(kind: str, deployment: Deployment, asked: Mapping[str, Demand]) -> dict[int, int]:
    """The engine of this kind where each source stays that needs one."""
    engines = [station for station in deployment.stations if station.kind == kind]
    sources = _sources(asked[one.name] for one in deployment.pipelines if one.uses(kind))
    return homes(engines, sources) if engines else {}


def _sources(demands: Iterable[Demand]) -> list[int]:
    """All that ask, pipeline by pipeline, each in the order of their numbers."""
    return [source for demand in demands for source in np.unique(demand.source).tolist()]
