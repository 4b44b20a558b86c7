"""Drawn: what speeds that are drawn settle without a replay, world by world."""

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from simulator.flow.rates import service_rates_rps
from simulator.rules.speeds import Speeds
from simulator.world.deployment import Deployment, Routing
from simulator.world.workload import Floats

AT_ONCE = 640
"""Worlds whose times are worked out side by side: tens of megabytes."""


class DrawnSpeeds:
    """The worlds of a deployment by how fast its GPUs are in each."""

    def __init__(self, deployment: Deployment, rates_rps: Mapping[str, float]) -> None:
        self.deployment = deployment
        self.rates_rps = rates_rps
        """Requests of each model, or frames of each pipeline, that must be processed in the long run."""
        self.replicas = [replica for service in deployment.services for replica in service.replicas]

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

    @cached_property
    def _speeds(self) -> Speeds:
        return Speeds(self.replicas, {device.id: device.gpu for device in self.deployment.devices})

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
        return np.concatenate([self._busy(seeds[at : at + AT_ONCE]) for at in range(0, len(seeds), AT_ONCE)])

    def overloaded(self, busy: Floats) -> dict[str, NDArray[np.bool_]]:
        """By model, or pipeline, and world: whether a GPU that it runs on has more to compute than time. Its queues
        then grow without end."""
        too_busy = busy > 1
        pipelines = {one.name_of(stage): one.name for one in self.deployment.pipelines for stage in one.stages}
        found = {model: np.zeros(len(busy), dtype=bool) for model in self.rates_rps}
        for service in self.deployment.services:
            mine = [self._place[replica.devices[0]] for replica in service.replicas if replica.share]
            found[pipelines.get(service.model, service.model)] |= too_busy[:, mine].any(axis=1)
        return found

    @cached_property
    def _place(self) -> dict[str, int]:
        return {device.id: place for place, device in enumerate(self.deployment.devices)}

    def _busy(self, seeds: Sequence[int]) -> Floats:
        """The same of a few worlds."""
        service_s = self._speeds.costs(seeds).service_s
        size = np.arange(service_s.shape[2])
        allowed = (size >= 1) & (size <= self._speeds.caps[:, None])
        each_s = np.where(allowed, service_s / np.maximum(size, 1), np.inf).min(axis=2)
        busy = np.zeros((len(seeds), len(self._place)))
        for number, (replica, rate_rps) in enumerate(zip(self.replicas, self._rates_rps, strict=True)):
            busy[:, self._place[replica.devices[0]]] += rate_rps * each_s[:, number]
        return busy

    @cached_property
    def _rates_rps(self) -> list[float]:
        """Of each replica."""
        rates_rps = service_rates_rps(self.deployment, self.rates_rps)
        return [
            rates_rps[service.model] * replica.share / sum(one.share for one in service.replicas)
            for service in self.deployment.services
            for replica in service.replicas
        ]
