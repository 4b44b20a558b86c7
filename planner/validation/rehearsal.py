"""Rehearsal: a short run in which every model takes its turn, to see what the device's costs are at that time.

It keeps the device as busy as the run will, for a processor that rests between batches is slower at the next one. It
has other arrivals than the run and says nothing of how long requests wait. Comes to torch through the executor alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np

from calibrate.served import Actions, ServeError, batch_sizes, doublings
from planner.validation.fitting import Case, swaps
from simulator.deployment import BatchingPolicy, Drop, Replica, Service
from simulator.metrics import summarise
from simulator.run import simulate
from simulator.workload import Demand

if TYPE_CHECKING:
    from calibrate.serve import Source

Turn = tuple[str, int, float]
"""Model, size and time by its profile of one batch."""
SHARE = 0.2
"""Of the run's time that a rehearsal takes."""
LONGEST_S = 10.0
BUSIEST = 0.95
"""A device that is foretold to be busier than this rehearses as if it were so busy."""
SIGHTINGS = 3
"""Times that each model shall run at each size, so that it is known how much run times spread."""
FORETOLD_S = 60.0
"""How long a run is simulated to know how busy the device will be."""


def rehearsal_s(duration_s: float) -> float:
    """How long to rehearse for a run: 30 s are worth 6 s."""
    return min(SHARE * duration_s, LONGEST_S)


def rehearse(case: Case, models: Mapping[str, "Source"], device: str, lasts_s: float) -> tuple[Actions, ...]:
    """What each load and each batch took, of those that ended in time.

    KeyboardInterrupt where Ctrl-C ended it, ServeError where anything else did.
    """
    from calibrate.serve import serve

    world = replace(case.deployment, services=tuple(patient(service) for service in case.deployment.services))
    served = serve(world, turns(case, lasts_s), models, device, lasts_s)
    if served.stopped == "interrupted":
        raise KeyboardInterrupt
    if served.stopped:
        raise ServeError(f"rehearsal: {served.stopped}")
    return tuple(actions for actions in served.actions if actions.kind in ("run", "load"))


def patient(service: Service) -> Service:
    """The service without frames lost and without waits for a batch to fill."""
    return replace(service, drop=Drop.NEVER, replicas=tuple(prompt(replica) for replica in service.replicas))


def prompt(replica: Replica) -> Replica:
    """The replica, its batches closed at once."""
    batching = replica.batching
    return replace(replica, batching=BatchingPolicy(batching.max_batch_size, 0.0, batching.padded))


def turns(case: Case, lasts_s: float) -> dict[str, Demand]:
    """Arrivals by model: batches of every size, some at once and then a rest, as busy as the run will be."""
    deployment, busy = case.deployment, busy_shares(case)
    due: dict[str, list[float]] = {service.model: [] for service in deployment.services}
    for card in deployment.devices:
        mine = [service for service in deployment.services if service.replicas[0].devices == (card.id,)]
        loading, pinned = swaps(deployment, card.id), deployment.swap.pinned
        batches = in_turn(mine, busy[card.id] * lasts_s, loading=loading, pinned=pinned)
        at_s = 0.0
        while at_s < lasts_s:
            busy_s = 0.0
            for _ in range(at_once(busy[card.id])):
                model, size, took_s = next(batches)
                due[model] += [at_s + busy_s] * size
                busy_s += took_s
            at_s += busy_s / busy[card.id]
    return {model: demand(times_s, lasts_s) for model, times_s in due.items()}


def busy_shares(case: Case) -> dict[str, float]:
    """By device: the share of its time that it will run or load, by its profiles."""
    found = summarise(simulate(case.deployment, case.workload, FORETOLD_S)).devices
    return {name: min(BUSIEST, max(one.utilization + one.load_share, 1 - BUSIEST)) for name, one in found.items()}


def at_once(busy: float) -> int:
    """Batches between two rests: where arrivals are random, a server that is busy half of the time serves 2 in a row.

    1 / (1 - load), the mean number served in a busy period of M/M/1. Kleinrock, Queueing Systems 1 (1975), 5.8.
    """
    return round(1 / (1 - busy))


def demand(times_s: Sequence[float], lasts_s: float) -> Demand:
    """Those that are due in time."""
    within = np.array([at_s for at_s in times_s if at_s < lasts_s])
    return Demand(within, np.zeros(len(within), dtype=np.int32))


def in_turn(services: Sequence[Service], busy_s: float, *, loading: bool, pinned: bool) -> Iterator[Turn]:
    """One batch after another: all models at one size, then at the next.

    Every size, or every doubling where `busy_s` does not suffice to see each of them several times.
    """
    most = max(service.replicas[0].batching.max_batch_size for service in services)
    every, fewer = (
        [turn(service, size, loading=loading, pinned=pinned) for size in sizes for service in services]
        for sizes in (batch_sizes(most), doublings(most))
    )
    enough = SIGHTINGS * sum(took_s for *_, took_s in every) <= busy_s
    return cycle(every if enough else fewer)


def turn(service: Service, size: int, *, loading: bool, pinned: bool) -> Turn:
    """One batch, with the load before it."""
    profile = service.replicas[0].profile
    moved_s = profile.load_from(pinned=pinned)(profile.weight_bytes) if loading else 0.0
    return service.model, size, profile.latency(size) + moved_s
