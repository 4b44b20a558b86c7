"""A short run in which every model takes its turn, to time the device right before and after a run.

It keeps the device as busy as the run will, for a processor that rests between batches is slower at the next one. It
has other arrivals than the run and says nothing of how long requests wait. A pipeline rehearses on other frames, for
how busy its core and its device are at the same time sets how long both take. Comes to torch through the executor
alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np

from calibrate.serving.served import Actions, ServeError, batch_sizes, doublings
from planner.questions.validation.fitting import Case, swaps
from simulator.clock.metrics import summarise
from simulator.clock.run import simulate
from simulator.world.deployment import BatchingPolicy, Drop, Replica, Service
from simulator.world.profile import WeightSource
from simulator.world.workload import Demand, draw

if TYPE_CHECKING:
    from calibrate.serving.serve import Source

Turn = tuple[str, int, float]
"""Model, batch size, and time by the profile."""
SHARE = 0.2
"""Share of the run's time that a rehearsal takes."""
LONGEST_S = 10.0
"""Longest rehearsal."""
PIPELINE_SHARE, PIPELINE_LONGEST_S = 1 / 3, 20.0
"""The same of a pipeline: each time that one is served it is slower at first, some 20 % for ten seconds, which must not
count for more in a rehearsal than in the run."""
BUSIEST = 0.95
"""A device that is predicted to be busier than this rehearses as if it were so busy."""
SIGHTINGS = 3
"""Times that each model shall run at each size, so that the spread of run times is known."""
SEED = 20_000
"""Draws the frames of a pipeline's rehearsal: they are not those of the run."""
PREDICTED_S = 60.0
"""Length of the simulation that predicts how busy the device will be."""


class RehearsalError(ServeError):
    """A rehearsal that ended early."""

    def __init__(self, reason: str) -> None:
        """`reason`: why, without saying that it was the rehearsal."""
        super().__init__(f"rehearsal: {reason}")
        self.reason = reason


def rehearsal_s(duration_s: float, *, of_pipeline: bool = False) -> float:
    """Length of the rehearsal for a run: 6 s for 30 s, of a pipeline 10 s."""
    if of_pipeline:
        return min(PIPELINE_SHARE * duration_s, PIPELINE_LONGEST_S)
    return min(SHARE * duration_s, LONGEST_S)


def rehearse(case: Case, models: Mapping[str, "Source"], device: str, lasts_s: float) -> tuple[Actions, ...]:
    """Each load and each batch of a rehearsal, of those that ended in time, and what the harness took.

    KeyboardInterrupt where Ctrl-C ended it, RehearsalError where anything else did.
    """
    from calibrate.serving.entry import serve

    patient_services = tuple(map(patient, case.deployment.services))
    deployment = replace(case.deployment, services=patient_services)
    asked = draw(case.workload, lasts_s, SEED) if deployment.pipelines else turns(case, lasts_s)
    served = serve(deployment, asked, models, device, lasts_s, seed=SEED, scene=case.scene)
    if served.stopped == "interrupted":
        raise KeyboardInterrupt
    if served.stopped:
        raise RehearsalError(served.stopped)
    return tuple(actions for actions in served.actions if actions.kind != "evict")


def patient(service: Service) -> Service:
    """The service without dropped requests and without waits for a batch to fill."""
    return replace(service, drop=Drop.NEVER, replicas=tuple(prompt(replica) for replica in service.replicas))


def prompt(replica: Replica) -> Replica:
    """The replica, its batches closed at once."""
    batching = replica.batching
    return replace(replica, batching=BatchingPolicy(batching.max_batch_size, 0.0, batching.padded))


def turns(case: Case, lasts_s: float) -> dict[str, Demand]:
    """Arrivals by model: batches of every size, some at once and then a rest, as busy as the run will be."""
    deployment, busy_of = case.deployment, busy_shares(case)
    due_s: dict[str, list[float]] = {service.model: [] for service in deployment.services}
    for device in deployment.devices:
        services = [service for service in deployment.services if service.replicas[0].devices == (device.id,)]
        source = deployment.swap.source if swaps(deployment, device.id) else None
        busy = busy_of[device.id]
        batches = in_turn(services, busy * lasts_s, source)
        at_s = 0.0
        while at_s < lasts_s:
            busy_s = 0.0
            for _ in range(at_once(busy)):
                model, size, took_s = next(batches)
                due_s[model] += [at_s + busy_s] * size
                busy_s += took_s
            at_s += busy_s / busy
    return {model: demand(times_s, lasts_s) for model, times_s in due_s.items()}


def busy_shares(case: Case) -> dict[str, float]:
    """By device: the predicted share of its time in which it runs or loads, by its profiles."""
    devices = summarise(simulate(case.deployment, case.workload, PREDICTED_S)).devices
    busy = {name: device.utilization + device.load_share for name, device in devices.items()}
    return {name: min(BUSIEST, max(share, 1 - BUSIEST)) for name, share in busy.items()}


def at_once(busy: float) -> int:
    """Batches between two rests: where arrivals are random, a server that is busy half of the time serves 2 in a row.

    1 / (1 - load), the mean number served in a busy period of M/M/1. Kleinrock, Queueing Systems 1 (1975), 5.8.
    """
    return round(1 / (1 - busy))


def demand(times_s: Sequence[float], lasts_s: float) -> Demand:
    """Requests that are due before the end."""
    within = np.array([at_s for at_s in times_s if at_s < lasts_s])
    return Demand(within, np.zeros(len(within), dtype=np.int32))


def in_turn(services: Sequence[Service], busy_s: float, source: WeightSource | None) -> Iterator[Turn]:
    """One batch after another: all models at one size, then at the next.

    Every size, or every doubling where `busy_s` does not suffice to see each of them several times.
    """
    most = max(service.replicas[0].batching.max_batch_size for service in services)

    def turns_of(sizes: Sequence[int]) -> list[Turn]:
        return [turn(service, size, source) for size in sizes for service in services]

    every = turns_of(batch_sizes(most))
    enough = SIGHTINGS * sum(took_s for *_, took_s in every) <= busy_s
    return cycle(every if enough else turns_of(doublings(most)))


def turn(service: Service, size: int, source: WeightSource | None) -> Turn:
    """One batch, with the load before it, where there is one."""
    profile = service.replicas[0].profile
    moved_s = profile.swap_from(source)(profile.weight_bytes) if source else 0.0
    return service.model, size, profile.latency(size) + moved_s
