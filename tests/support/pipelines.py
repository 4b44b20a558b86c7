"""Small pipelines for tests: one line makes a stage, a station or a deployment of one pipeline `p`."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from simulator.world.deployment import Deployment, Service
from simulator.world.pipelines import Edge, FanOut, FanOutKind, ModelWork, Pipeline, PipelineStage, Station, StationWork
from simulator.world.workload import SLO, Demand
from support import worlds

After = Edge | str


def after(
    source: str,
    mean: float = 1.0,
    kind: FanOutKind = FanOutKind.FIXED,
    *,
    counts: tuple[int, ...] = (),
    share: float = 1.0,
    every: int = 1,
) -> Edge:
    """So many items of those of `source`."""
    return Edge(source=source, fan_out=FanOut(mean, kind, counts), share=share, every=every)


def frames(count: int) -> Demand:
    """Ten a second, of one camera."""
    return Demand(np.arange(count) / 10, np.zeros(count, dtype=np.int32))


def _edges(given: Sequence[After]) -> tuple[Edge, ...]:
    return tuple(Edge(source=one) if isinstance(one, str) else one for one in given)


def work(
    name: str, service_s: float, *given: After, cv: float = 0.0, at: str = "", slo_s: float | None = None
) -> PipelineStage:
    """Work at stations of a kind of its own, or of `at`."""
    slo = SLO(slo_s) if slo_s else None
    return PipelineStage(name=name, work=StationWork(at or name, service_s, cv), after=_edges(given), slo=slo)


def model(name: str, *given: After, slo_s: float | None = None) -> PipelineStage:
    """A model, whose service is `p.NAME`."""
    return PipelineStage(name=name, work=ModelWork(), after=_edges(given), slo=SLO(slo_s) if slo_s else None)


def station(kind: str, servers: int = 1, *, number: int = 0, host: str = "h0", speed: float = 1.0) -> Station:
    """`decode-0` on h0."""
    return Station(id=f"{kind}-{number}", host=host, kind=kind, servers=servers, speed=speed)


def pipeline(*stages: PipelineStage, slo_s: float = 1e6, ordered: bool = False) -> Pipeline:
    """`p`, of these stages."""
    return Pipeline(name="p", stages=stages, slo=SLO(slo_s), ordered=ordered)


def deployment(
    asked: Pipeline, *services: Service, stations: Sequence[Station] | None = None, **options: object
) -> Deployment:
    """One pipeline; a station of one server for each kind of work, unless they are given."""
    kinds = dict.fromkeys(s.work.station for s in asked.stages if isinstance(s.work, StationWork))
    built = [station(kind) for kind in kinds] if stations is None else stations
    return replace(worlds.deployment(*services, **options), pipelines=(asked,), stations=tuple(built))  # type: ignore[arg-type]
