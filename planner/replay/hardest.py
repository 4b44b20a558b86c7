"""Hardest: draws of speeds in which a deployment has most to do, which soonest show that it does not keep enough."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from planner.replay.replay import Replay
from simulator.flow.rates import service_rates_rps
from simulator.rules.speeds import Speeds
from simulator.world.deployment import Deployment
from simulator.world.workload import Floats

SPARE_MIN = 0.05
"""Free share of a GPU below which it does not matter how little that is."""
SIDE_BY_SIDE = 32
"""Draws whose speeds are worked out at once."""


def hardest_first(deployment: Deployment, rates_rps: Mapping[str, float], seeds: Sequence[int]) -> list[int]:
    """Places of the seeds, those first in whose worlds a model is strained most."""
    strain = Strain(deployment, rates_rps)
    parts = (seeds[place : place + SIDE_BY_SIDE] for place in range(0, len(seeds), SIDE_BY_SIDE))
    strained = np.concatenate([strain.of(part) for part in parts])
    return [int(place) for place in np.argsort(-strained, kind="stable")]


class Strain:
    """How long full batches of a replica take over the SLO of its model, over the share that is free of its GPU.

    A queue's delay grows with 1 / (1 - load), whatever the queue. Batches of 20 ms for an SLO of 100 ms on a GPU that
    is busy for 80 % of its time: 1. It orders draws, and says nothing of whether an SLO is met.
    """

    def __init__(self, deployment: Deployment, rates_rps: Mapping[str, float]) -> None:
        asked_rps = service_rates_rps(deployment, rates_rps)
        every = [(service, replica) for service in deployment.services for replica in service.replicas]
        every.sort(key=lambda one: one[1].devices[0])
        gpus = [replica.devices[0] for _, replica in every]
        self.speeds = Speeds([replica for _, replica in every], {one.id: one.gpu for one in deployment.devices})
        self.slo_s = np.array([service.slo.latency_s for service, _ in every])
        begins = [not place or gpus[place - 1] != gpu for place, gpu in enumerate(gpus)]
        self.gpu_begin, self.gpu_of = np.flatnonzero(begins), np.cumsum(begins) - 1
        shares = [replica.share / sum(one.share for one in service.replicas) for service, replica in every]
        rates = [asked_rps[service.model] * share for (service, _), share in zip(every, shares, strict=True)]
        self.batches_per_s = np.array(rates) / self.speeds.caps

    def of(self, seeds: Sequence[int]) -> Floats:
        """By world: of its most strained replica."""
        full_s = self.speeds.costs(seeds).service_s[:, np.arange(len(self.slo_s)), self.speeds.caps]
        loads = np.add.reduceat(self.batches_per_s * full_s, self.gpu_begin, axis=1)
        free = np.maximum(1 - loads[:, self.gpu_of], SPARE_MIN)
        return np.asarray((full_s / self.slo_s / free).max(axis=1))


def in_order(seen: Replay, numbers: Sequence[int], below: float = np.inf) -> Replay:
    """The replications by their numbers, as if they had been replayed so; those below a number alone."""
    places = sorted((p for p in range(len(seen.summaries)) if numbers[p] < below), key=lambda place: numbers[place])
    return replace(
        seen,
        summaries=tuple(seen.summaries[place] for place in places),
        overloads=tuple(seen.overloads[place] for place in places),
        lost_is_wrong=tuple(seen.lost_is_wrong[place] for place in places),
        reuse_last=tuple(seen.reuse_last[place] for place in places if seen.reuse_last),
        latencies=tuple(seen.latencies[place] for place in places if seen.latencies),
    )


def given_up(seen: Replay, numbers: Sequence[int]) -> Replay | None:
    """The replications at best, if those seen leave it to no look that enough draws meet every SLO; else None."""
    for look in seen.looks:
        part = in_order(seen, numbers, look)
        if part.lost_at(look):
            return part.at_best_at(look)
        if part.may_be_enough_at(look):
            return None
    return None
