"""Doubt: speeds that are known only so well. A deployment is replayed as one of the worlds that may be."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from math import log1p, sqrt
from statistics import NormalDist
from zlib import crc32

import numpy as np

from simulator.world.curves import Erring, Interpolated
from simulator.world.deployment import Deployment, Replica, Service
from simulator.world.profile import Doubt
from simulator.world.workload import Floats

ONE = Interpolated((1.0,), (1.0,))
STRATA = 32
"""Seeds that follow each other from a multiple of it on have one draw each of as many equally likely parts of what may
be: a Latin hypercube (McKay, 1979), whose shares err less than those of draws at random. Of 160 seeds, 8 or so lie
beyond what one in 20 exceeds; at random 3 to 14 would, for good, on a kind of GPU whatever is asked of it."""
LEAST = 1e-9
"""No share is 0 or 1, whose normal draw is infinite."""


class DrawnTogether:
    """How far the times of worlds are off, each the same for its whole length.

    Those of a GPU or a model depend on the seed and its name alone, so that all deployments meet the same worlds.
    """

    def __init__(self, seeds: Sequence[int]) -> None:
        self.places = [divmod(seed, STRATA) for seed in seeds]
        self.blocks = {block for block, _ in self.places}

    def session(self, cv: float, device: str) -> Floats:
        """By world, logarithm of a GPU's factor in a session, the same for all its models: lognormal, of mean 1."""
        variance = log1p(cv**2)
        return sqrt(variance) * self._normal("session", device) - variance / 2

    def error(self, doubt: Doubt, model: str, kind: str) -> Floats:
        """By world, standard deviations by which a prediction errs; all models on a kind of GPU have a part in
        common."""
        together = sqrt(doubt.shared) * self._normal("kind", kind)
        alone = sqrt(1 - doubt.shared) * self._normal("pair", kind, model)
        return together + alone - doubt.quantile

    def _normal(self, *names: str) -> Floats:
        """A standard normal draw of each."""
        normals = {block: _normals(block, names) for block in self.blocks}
        return np.array([normals[block][place] for block, place in self.places])


@lru_cache(maxsize=10_000)
def _normals(block: int, names: tuple[str, ...]) -> list[float]:
    """Standard normal draws of as many seeds, one of each stratum, in any order."""
    rng = np.random.default_rng([block, crc32("\n".join(names).encode())])
    shares = (rng.permutation(STRATA) + rng.uniform(LEAST, 1, STRATA)) / (STRATA + LEAST)
    return [NormalDist().inv_cdf(share) for share in shares.tolist()]


def middle(deployment: Deployment) -> Deployment:
    """The world in which each predicted speed is at the middle of its band."""
    return _erring(deployment, lambda _, doubt: -doubt.quantile)


def slow_end(deployment: Deployment) -> Deployment:
    """The world in which each predicted speed is at the end of its band that is planned with."""
    return _erring(deployment, lambda *_: 0.0)


def drawn(deployment: Deployment, seed: int) -> Deployment:
    """One of the worlds that a deployment may find itself in; the deployment itself where all speeds are known."""
    if not deployment.doubted:
        return deployment
    draw, kinds = DrawnTogether([seed]), {device.id: device.gpu.name for device in deployment.devices}

    def deviations(one: Replica, doubt: Doubt) -> float:
        return float(draw.error(doubt, one.profile.model, kinds[one.devices[0]])[0])

    return _erring(deployment, deviations, draw)


def _erring(
    deployment: Deployment, deviations: Callable[[Replica, Doubt], float], draw: DrawnTogether | None = None
) -> Deployment:
    """The same with times that are off by so many standard deviations; and by their sessions, where those are drawn."""

    def replicas(service: Service) -> Iterator[Replica]:
        for replica in service.replicas:
            profile, latency = replica.profile, replica.profile.latency
            if doubt := profile.doubt:
                latency = Erring(latency, deviations(replica, doubt), doubt.error_sd)
            if draw and profile.session_cv:
                slowest = max(float(draw.session(profile.session_cv, gpu)[0]) for gpu in replica.devices)
                latency = Erring(latency, slowest, ONE)
            session_cv = 0.0 if draw else profile.session_cv
            yield replace(replica, profile=replace(profile, latency=latency, doubt=None, session_cv=session_cv))

    services = (replace(service, replicas=tuple(replicas(service))) for service in deployment.services)
    return replace(deployment, services=tuple(services))
