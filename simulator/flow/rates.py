"""Rates: how often each stage is asked, and what that offers to stations."""

from collections.abc import Mapping, Sequence

from simulator.world.deployment import Deployment
from simulator.world.pipelines import ModelWork, StationWork


def service_rates_rps(deployment: Deployment, rates_rps: Mapping[str, float]) -> dict[str, float]:
    """Requests a second of each service: those of pipelines are handed on to the stages that are models.

    40 frames a second and 3.2 vehicles in each: 128 a second of `crossing.classify`.
    """
    rates = dict(rates_rps)
    for pipeline in deployment.pipelines:
        if pipeline.name not in rates:
            continue
        frames_rps = rates.pop(pipeline.name)
        items = pipeline.items_per_frame
        for stage in pipeline.stages:
            if isinstance(stage.work, ModelWork):
                rates[pipeline.name_of(stage)] = frames_rps * items[stage.name]
    return rates


def station_loads(deployment: Deployment, rates_rps: Mapping[str, float]) -> dict[str, float]:
    """By kind of station: the work that comes in a second over what all of them can do in one.

    40 frames a second of 20 ms at a station of one server: 0.8.
    """
    work = {station.kind: 0.0 for station in deployment.stations}
    for pipeline in deployment.pipelines:
        items, frames_rps = pipeline.items_per_frame, rates_rps.get(pipeline.name, 0.0)
        for stage in pipeline.stages:
            if isinstance(stage.work, StationWork):
                work[stage.work.station] += frames_rps * items[stage.name] * stage.work.service_s
    can = dict.fromkeys(work, 0.0)
    for station in deployment.stations:
        can[station.kind] += station.capacity
    return {kind: work[kind] / can[kind] for kind in work}


def held_up(deployment: Deployment, rates_rps: Mapping[str, float], growing: Sequence[str]) -> list[str]:
    """Stages at stations that are offered 1 erlang a server or more, and pipelines of which any stage grows."""
    loads = station_loads(deployment, rates_rps)
    held: list[str] = []
    for pipeline in deployment.pipelines:
        works = [(pipeline.name_of(stage), stage.work) for stage in pipeline.stages]
        full = [name for name, work in works if isinstance(work, StationWork) and loads[work.station] >= 1]
        held += full
        if full or any(name in growing for name, _ in works):
            held.append(pipeline.name)
    return held
