"""Doubt: speeds that are known only so well. A deployment is replayed as one of the worlds that may be."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from math import exp, log1p, sqrt
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

    def session(self, cv: float, device: str) -> float:
        """Factor of mean 1 by which a GPU differs from session to session, the same for all its models (lognormal)."""
        variance = log1p(cv**2)
        return exp(sqrt(variance) * self._normal("session", device) - variance / 2) if cv else 1.0

    def error(self, doubt: Doubt, model: str, kind: str) -> float:
        """Time in this world over a predicted one; all models on a kind of GPU have a part of the error in common."""
        together = sqrt(doubt.shared) * self._normal("kind", kind)
        alone = sqrt(1 - doubt.shared) * self._normal("pair", kind, model)
        return exp(doubt.error_sd * (together + alone - doubt.quantile))

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
            factor = max(draw.session(profile.session_cv, gpu) for gpu in replica.devices)  # the slowest stage's
            if profile.doubt:
                factor *= draw.error(profile.doubt, profile.model, kinds[replica.devices[0]])
            slower = Scaled(profile.latency, factor)
            yield replace(replica, profile=replace(profile, latency=slower, doubt=None, session_cv=0.0))

    return replace(
        deployment,
        services=tuple(replace(service, replicas=tuple(replicas(service))) for service in deployment.services),
    )
