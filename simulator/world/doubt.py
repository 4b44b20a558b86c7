"""Doubt: speeds that are known only so well. A deployment is replayed as one of the worlds that may be."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from math import exp, sqrt
from zlib import crc32

import numpy as np

from simulator.world.curves import Scaled
from simulator.world.deployment import Deployment, Replica, Service
from simulator.world.profile import Doubt


@dataclass(frozen=True, slots=True)
class Drawn:
    """Factors on the times of one world, the same for its whole length.

    Those of a GPU or a model depend on the seed and its name alone, so that all deployments meet the same worlds.
    """

    seed: int

    def factor(self, doubt: Doubt, model: str, kind: str, device: str) -> float:
        """Time in this world over time in the profile.

        Sessions differ by a factor of mean 1, one for each GPU. A prediction errs by a normal error of ln(time), of
        which all models on a kind of GPU have a part in common.
        """
        session = doubt.session_sd * self._normal("session", device) - doubt.session_sd**2 / 2
        together = sqrt(doubt.shared) * self._normal("kind", kind)
        alone = sqrt(1 - doubt.shared) * self._normal("pair", kind, model)
        return exp(session + doubt.prediction_sd * (together + alone - doubt.quantile))

    def _normal(self, *names: str) -> float:
        return _normal(self.seed, names)


@lru_cache(maxsize=100_000)
def _normal(seed: int, names: tuple[str, ...]) -> float:
    return float(np.random.default_rng([seed, crc32("\n".join(names).encode())]).standard_normal())


def drawn(deployment: Deployment, seed: int) -> Deployment:
    """One of the worlds that a deployment may find itself in; the deployment itself where all speeds are known."""
    if not deployment.doubted:
        return deployment
    draw, kinds = Drawn(seed), {device.id: device.gpu.name for device in deployment.devices}

    def replicas(service: Service) -> Iterator[Replica]:
        for replica in service.replicas:
            profile = replica.profile
            factors = [draw.factor(profile.doubt, profile.model, kinds[gpu], gpu) for gpu in replica.devices]
            slower = Scaled(profile.latency, max(factors))  # the slowest stage sets the pace
            yield replace(replica, profile=replace(profile, latency=slower, doubt=Doubt()))

    return replace(
        deployment,
        services=tuple(replace(service, replicas=tuple(replicas(service))) for service in deployment.services),
    )
