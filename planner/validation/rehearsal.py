"""Rehearsal: a short run in which every model takes its turn, to see what the device's costs are at that time.

Processes that share the device are alone by turns, then all at once. What is seen says nothing of the requests that the
run itself serves: other arrivals, no queues. Comes to torch through the executor alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count, cycle
from typing import TYPE_CHECKING

import numpy as np

from calibrate.served import Actions, batch_sizes
from planner.validation.fitting import swaps
from simulator.deployment import BatchingPolicy, Deployment, Drop, Replica, Service
from simulator.workload import Demand

if TYPE_CHECKING:
    from calibrate.serve import Source

SHARE = 0.2
"""Of the run's time that a rehearsal takes."""
LONGEST_S = 10.0
PHASE_S = 1.0
"""How long one process of several is alone, or all run at once."""


def rehearsal_s(duration_s: float) -> float:
    """How long to rehearse for a run: 30 s are worth 6 s."""
    return min(SHARE * duration_s, LONGEST_S)


def rehearse(
    deployment: Deployment, models: Mapping[str, "Source"], device: str, lasts_s: float
) -> tuple[Actions, ...]:
    """What each load and each batch took, of those that ended in time. KeyboardInterrupt where Ctrl-C ended it."""
    from calibrate.serve import serve

    world = replace(deployment, services=tuple(patient(service) for service in deployment.services))
    served = serve(world, turns(world, lasts_s), models, device, lasts_s)
    if served.stopped == "interrupted":
        raise KeyboardInterrupt
    return tuple(actions for actions in served.actions if actions.kind in ("run", "load"))


def patient(service: Service) -> Service:
    """The service without frames lost and without waits for a batch to fill."""
    return replace(service, drop=Drop.NEVER, replicas=tuple(prompt(replica) for replica in service.replicas))


def prompt(replica: Replica) -> Replica:
    """The replica, its batches closed at once."""
    batching = replica.batching
    return replace(replica, batching=BatchingPolicy(batching.max_batch_size, 0.0, batching.padded))


def turns(deployment: Deployment, lasts_s: float) -> dict[str, Demand]:
    """Arrivals by model: batches of every size, each due when by the profiles the one before it is done."""
    names = [card.id for card in deployment.devices]
    due: dict[str, list[float]] = {service.model: [] for service in deployment.services}
    for name in names:
        mine = [service for service in deployment.services if service.replicas[0].devices == (name,)]
        batches = in_turn(mine, loading=swaps(deployment, name), pinned=deployment.swap.pinned)
        for start_s, finish_s in phases(name, names, lasts_s):
            at_s = start_s
            while at_s < finish_s:
                model, size, took_s = next(batches)
                due[model] += [at_s] * size
                at_s += took_s
    return {model: Demand(np.array(times_s), np.zeros(len(times_s), dtype=np.int32)) for model, times_s in due.items()}


def phases(name: str, names: Sequence[str], lasts_s: float) -> Iterator[tuple[float, float]]:
    """When a process runs. Of a and b, a: from 0 to 1 s alone, from 2 to 3 s with b, from 3 to 4 s alone, ..."""
    if len(names) == 1:
        yield 0.0, lasts_s
        return
    for number, active in zip(count(), cycle([*([one] for one in names), names])):
        if number * PHASE_S >= lasts_s:
            return
        if name in active:
            yield number * PHASE_S, min((number + 1) * PHASE_S, lasts_s)


def in_turn(services: Sequence[Service], *, loading: bool, pinned: bool) -> Iterator[tuple[str, int, float]]:
    """Model, size and time by its profile of one batch after another: all models at one size, then at the next."""
    most = max(service.replicas[0].batching.max_batch_size for service in services)
    for size in cycle(batch_sizes(most)):
        for service in services:
            profile = service.replicas[0].profile
            moved_s = profile.load_from(pinned=pinned)(profile.weight_bytes) if loading else 0.0
            yield service.model, size, profile.latency(size) + moved_s
