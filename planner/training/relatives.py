"""What is known of many networks told on one that nobody measured: steps from inference, memory from activations.

Both follow the intensity of a network: activations for each multiply-add. Where names of relatives are known - another
ResNet, another EfficientNet - what those differ by is carried over too.
"""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

MILLION = 1e6
DEPTHWISE_INTENSITY = 10.0
"""Activations for 1,000 multiply-adds from which a network is held by bandwidth as depthwise ones are."""
ROUNDS = 20
FAMILY = re.compile(r"(?:tf_|gluon_|ig_|swsl_|ssl_|legacy_)?([a-z]+)")
NEARNESS = 4
"""Power of the share of a name that two relatives have in common: the nearest count most."""
SHRINK = 0.1
"""Of relatives, as if so many stood for the law itself."""
FURTHEST = 0.6
"""A relative further from the law than this, as a logarithm, counts as this far: it ran under other conditions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """A network as public tables list it."""

    name: str
    params: float
    macs: float
    """Of one sample."""
    activations: float
    """Numbers that convolutions and products put out for one sample."""
    pixels: int = 224

    @property
    def intensity(self) -> float:
        """Activations for 1,000 multiply-adds: 2.7 for a ResNet-50, 16 for an EfficientNet-B0."""
        return 1000 * self.activations / self.macs

    @property
    def depthwise(self) -> bool:
        """Whether it is held by bandwidth as networks of depthwise convolutions are: its band is wider."""
        return self.intensity >= DEPTHWISE_INTENSITY


@dataclass(frozen=True, slots=True)
class Law:
    """A ratio by network: exp(sum of weights x logarithms)."""

    weights: tuple[float, ...]

    def __call__(self, network: Network) -> float:
        """The ratio."""
        return math.exp(float(np.dot(self.weights, terms(network))))


def terms(n: Network) -> tuple[float, ...]:
    """What a ratio depends on, as logarithms: a constant, the intensity and the size of pictures."""
    return 1.0, math.log(n.intensity), math.log(n.pixels / 224)


def fit_law(known: Sequence[tuple[Network, float]]) -> Law:
    """Least absolute errors of logarithms: few networks that ran under other conditions do not bend it."""
    x = np.array([terms(n) for n, _ in known])
    y = np.log([ratio for _, ratio in known])
    weight = np.ones(len(y))
    found = np.zeros(x.shape[1])
    for _ in range(ROUNDS):
        root = np.sqrt(weight)
        found = np.linalg.lstsq(x * root[:, None], y * root, rcond=None)[0]
        weight = 1 / np.maximum(np.abs(y - x @ found), 0.02)
    return Law(tuple(float(w) for w in found))


@dataclass(frozen=True)
class Relatives:
    """A law, and by how much each network that is known differs from it."""

    law: Law
    known: tuple[tuple[str, float], ...]
    """Name and logarithm of measured over law."""

    def __call__(self, network: Network) -> float:
        """The law times what relatives by name differ by, the nearest most."""
        shares = [(likeness(network.name, name) ** NEARNESS, miss) for name, miss in self.known]
        total = sum(share for share, _ in shares)
        mean = sum(share * max(-FURTHEST, min(FURTHEST, miss)) for share, miss in shares)
        return self.law(network) * math.exp(mean / (total + SHRINK))


def relatives(known: Sequence[tuple[Network, float]]) -> Relatives:
    """Of networks and their measured ratios."""
    law = fit_law(known)
    return Relatives(law, tuple((n.name, math.log(ratio / law(n))) for n, ratio in known))


def likeness(one: str, other: str) -> float:
    """Share of two names that is the same from the start; 0 between families. resnet50, resnet101: 6 of 9."""
    a, b = plain(one), plain(other)
    if family(a) != family(b):
        return 0.0
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))
    return same / max(len(a), len(b))


def family(name: str) -> str:
    """`tf_efficientnet_b0` is an `efficientnet`."""
    found = FAMILY.match(name)
    return found[1] if found else name


def plain(name: str) -> str:
    """Without what says who trained it."""
    found = FAMILY.match(name)
    return name[found.start(1) :] if found else name


def held_out(
    known: Sequence[tuple[Network, float]],
    make: Callable[[Sequence[tuple[Network, float]]], Callable[[Network], float]],
    folds: int = 10,
    seed: int = 1,
) -> list[float]:
    """What is foretold of each network by those of the other folds."""
    fold = np.random.default_rng(seed).integers(0, folds, len(known))
    told = [0.0] * len(known)
    for f in range(folds):
        told_by = make([pair for pair, at in zip(known, fold, strict=True) if at != f])
        for i in np.flatnonzero(fold == f).tolist():
            told[i] = told_by(known[i][0])
    return told


# Memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """Batches that were tried one after another, two to each doubling: 512, 384, 256, 192 ..."""

    memory_bytes: float
    context_bytes: float
    state_bytes: float
    """Of each parameter."""

    def room(self, network: Network) -> float:
        """For activations."""
        return self.memory_bytes - self.context_bytes - self.state_bytes * network.params

    def per_activation(self, network: Network, batch: int) -> float:
        """Bytes of each activation, if the truth lies in the middle between the batch that fitted and the next."""
        return self.room(network) / math.sqrt(batch * half_octave_up(batch)) / network.activations

    def largest(self, network: Network, bytes_per_activation: float) -> float:
        """Largest batch at so many bytes of each activation."""
        return self.room(network) / (bytes_per_activation * network.activations)


def half_octave_up(batch: int) -> int:
    """The next batch of the ladder: 384 after 256, 512 after 384, 2 after 1."""
    return batch + max(1, (1 << (batch.bit_length() - 1)) // 2)


def hits(batches: Iterable[int], told: Iterable[float]) -> float:
    """Share of networks whose foretold largest batch lies between the one that fitted and the next."""
    found = [b <= t < half_octave_up(b) for b, t in zip(batches, told, strict=True)]
    return sum(found) / len(found)
