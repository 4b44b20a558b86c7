"""Checking: pipelines that cannot run are refused, each in one line."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from simulator.errors import DeploymentError
from simulator.world.deployment import Deployment
from simulator.world.pipelines import (
    RECORDS,
    Edge,
    ModelWork,
    Pipeline,
    PipelineStage,
    Station,
    StationWork,
    cycle_in,
)


def check_pipelines(deployment: Deployment) -> None:
    """Refuse what cannot be run. Raises DeploymentError."""
    hosts = {host.id for host in deployment.hosts}
    once("station", [station.id for station in deployment.stations])
    for station in deployment.stations:
        _check_station(station, hosts)
    for pipeline in deployment.pipelines:
        once("stage", [pipeline.name_of(stage) for stage in pipeline.stages])
        _check_edges(pipeline)
        _check_order(pipeline)
        _check_work(pipeline, deployment)


def once(what: str, names: Sequence[str]) -> None:
    """Refuse names that stand for two things."""
    if twice := [name for name, n in Counter(names).items() if n > 1]:
        raise DeploymentError(f"deployment: names must differ, got {what} {twice[0]!r} twice. Rename one.")


def _check_station(station: Station, hosts: set[str]) -> None:
    if station.host not in hosts:
        raise DeploymentError(f"{station.id}: host {station.host!r} is not in the deployment. Add it to hosts.")
    if station.servers < 1:
        raise DeploymentError(f"{station.id}: servers must be 1 or more, got {station.servers}. Leave the station out.")
    if not station.speed > 0:
        raise DeploymentError(f"{station.id}: speed must be above 0, got {station.speed:g}. Leave the station out.")


def _check_edges(pipeline: Pipeline) -> None:
    names = {stage.name for stage in pipeline.stages}
    for stage, edge in _edges(pipeline):
        place = f"{pipeline.name_of(stage)} after {edge.source}"
        if edge.source not in names:
            raise DeploymentError(f"{place}: the pipeline has no such stage. It has {', '.join(sorted(names))}.")
        if not 0 < edge.share <= 1:
            raise DeploymentError(
                f"{place}: share must be above 0 and at most 1, got {edge.share:g}. Write 0.3 for 30 %."
            )
        if edge.fan_out.kind in RECORDS and not edge.fan_out.counts:
            raise DeploymentError(f"{place}: a table of fan-outs needs counts, got none. Give it one or more.")
        if (least := min((edge.fan_out.mean, *edge.fan_out.counts))) < 0:
            raise DeploymentError(f"{place}: fan-out must be 0 or more, got {least:g}. A share says how many go on.")


def _check_order(pipeline: Pipeline) -> None:
    if not pipeline.stages:
        raise DeploymentError(f"{pipeline.name}: has no stage. Give it at least one.")
    if cycle := cycle_in(pipeline.before):
        raise DeploymentError(f"{pipeline.name}: stages go round in a cycle, {' -> '.join(cycle)}. Take one edge out.")
    for name, sources in pipeline.before.items():
        if twice := next((a for a, b in pairwise(sorted(sources)) if a == b), None):
            raise DeploymentError(f"{pipeline.name}.{name}: is after {twice!r} twice. Name each stage once.")
    for name, items in pipeline.items_per_frame.items():
        if not items:
            raise DeploymentError(f"{pipeline.name}.{name}: no item ever reaches it. Leave it out, or raise a fan-out.")


def _check_work(pipeline: Pipeline, deployment: Deployment) -> None:
    services = {service.model for service in deployment.services}
    kinds = {station.kind for station in deployment.stations}
    for stage in pipeline.stages:
        name = pipeline.name_of(stage)
        match stage.work:
            case ModelWork():
                if name not in services:
                    raise DeploymentError(f"{name}: is a model, and no service has that name. Add a service.")
            case StationWork(kind, service_s, cv):
                if kind not in kinds:
                    raise DeploymentError(f"{name}: no station is of kind {kind!r}. Add one to stations.")
                if service_s < 0 or cv < 0:
                    raise DeploymentError(f"{name}: time and spread must be 0 or more, got {service_s:g} s and {cv:g}.")


def _edges(pipeline: Pipeline) -> Iterator[tuple[PipelineStage, Edge]]:
    return ((stage, edge) for stage in pipeline.stages for edge in stage.after)
