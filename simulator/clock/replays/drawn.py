"""Drawn: what speeds that are drawn settle without a replay, world by world."""

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from simulator.flow.rates import service_rates_rps
from simulator.rules.speeds import Speeds
from simulator.world.deployment import Deployment, Replica, Routing
from simulator.world.workload import Floats

TIMES_AT_ONCE = 2_000_000
"""Times of batches that are worked out side by side: some tens of megabytes."""
FULL = 1 + 1e-9
"""Share of its time that a GPU computes above which its queues grow."""


class DrawnSpeeds:
    """The worlds of a deployment by how fast its GPUs are in each."""

    def __init__(self, deployment: Deployment, rates_rps: Mapping[str, float]) -> None:
        self.deployment = deployment
        self.rates_rps = rates_rps
        """Requests of each model, or frames of each pipeline, that must be processed in the long run."""
        self.replicas = [replica for service in deployment.services for replica in service.replicas]
        self.place = {device.id: place for place, device in enumerate(deployment.devices)}

    @property
    def are_known(self) -> bool:
        """Whether there are replicas, each of them one GPU that has its share of the requests whatever comes."""
        alone = all(len(replica.devices) == 1 for replica in self.replicas)
        dealt = all(service.routing is Routing.ROUND_ROBIN for service in self.deployment.services)
        return bool(self.replicas) and alone and dealt

    @property
    def are_in_order(self) -> bool:
        """Whether what is slower in a batch is slower in all: not where an error changes its sign with the batch."""
        return bool((self._speeds.errs.sd >= 0).all())

    @property
    def sources(self) -> int:
        """How many things are in doubt."""
        return sum(source is not None for source in (*self._speeds.doubts, *self._speeds.sessions))

    def slowness(self, seeds: Sequence[int]) -> Floats:
        """By world and source of doubt: the larger, the longer it takes. A world that has no more of any is as fast in
        all its batches, where they are in order."""
        return np.hstack(self._speeds.drawn(seeds))

    def busy(self, seeds: Sequence[int]) -> Floats:
        """By world and GPU: the share of its time that it computes, in the batches that take it furthest.

        100 requests a second, of 12 ms alone and 20 ms in a batch of two: 1.0, which it just bears.
        """
        step = max(1, TIMES_AT_ONCE // len(self._speeds.size))
        parts = (seeds[at : at + step] for at in range(0, len(seeds), step))
        return np.concatenate([self._speeds.least_s(part) @ self._rates_rps for part in parts])

    def overloaded(self, busy: Floats) -> dict[str, NDArray[np.bool_]]:
        """By model, or pipeline, and world: whether a GPU that it has to itself has more to compute than time. Its
        queues then grow without end; of several on one GPU those of some do."""
        pipelines = {one.name_of(stage): one.name for one in self.deployment.pipelines for stage in one.stages}
        names: list[set[str]] = [set() for _ in self.place]
        for service in self.deployment.services:
            for replica in service.replicas:
                if replica.share:
                    names[self.place[replica.devices[0]]].add(pipelines.get(service.model, service.model))
        alone = {name: [place for place, here in enumerate(names) if here == {name}] for name in self.rates_rps}
        return {name: busy[:, places].max(axis=1, initial=0.0) > FULL for name, places in alone.items()}

    @cached_property
    def _unlike(self) -> dict[tuple[object, ...], Replica]:
        """One replica of those that are as fast as each other in every world."""
        return {self._likeness(replica): replica for replica in self.replicas}

    def _likeness(self, replica: Replica) -> tuple[object, ...]:
        (device,) = replica.devices
        gpu = self.deployment.devices[self.place[device]].gpu.name
        return id(replica.profile), replica.batching, gpu, device if replica.profile.session_cv else None

    @cached_property
    def _speeds(self) -> Speeds:
        return Speeds(list(self._unlike.values()), {device.id: device.gpu for device in self.deployment.devices})

    @cached_property
    def _rates_rps(self) -> Floats:
        """Requests a second that those which are alike have on each GPU."""
        number = {likeness: number for number, likeness in enumerate(self._unlike)}
        asked_rps = service_rates_rps(self.deployment, self.rates_rps)
        rates_rps = np.zeros((len(number), len(self.place)))
        for service in self.deployment.services:
            shares = sum(replica.share for replica in service.replicas)
            for replica in service.replicas:
                rate_rps = asked_rps[service.model] * replica.share / shares
                rates_rps[number[self._likeness(replica)], self.place[replica.devices[0]]] += rate_rps
        return rates_rps
