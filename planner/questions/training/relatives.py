"""Predictions for a network that nobody measured from many that were: steps from inference, memory from activations.

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
"""Rounds of least squares, each weighed by the errors of the last: they come to least absolute errors."""
ERROR_MIN = 0.02
"""Error of a network below which it counts no more, as a logarithm."""
FAMILY = re.compile(r"(?:tf_|gluon_|ig_|swsl_|ssl_|legacy_)?([a-z]+)")
NEARNESS = 4
"""Power of the share of a name that two relatives have in common: the nearest count most."""
SHRINK = 0.1
"""Number of relatives that would stand for the law itself."""
FURTHEST = 0.6
"""A relative further from the law than this, as a logarithm, counts as this far: it ran under other conditions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """A network as public tables list it."""

    name: str
    params: float
    macs: float
    """Multiply-adds of one sample."""
    activations: float
    """Numbers that convolutions and products put out for one sample."""
    pixels: int = 224

    @property
    def intensity(self) -> float:
        """Activations for 1,000 multiply-adds: 2.7 for a ResNet-50, 16 for an EfficientNet-B0."""
        return 1000 * self.activations / self.macs

    @property
    def depthwise(self) -> bool:
        """Bandwidth limits it, as it limits networks of depthwise convolutions: its band is wider."""
        return self.intensity >= DEPTHWISE_INTENSITY


@dataclass(frozen=True, slots=True)
class Law:
    """A ratio by network: exp(sum of weights x logarithms)."""

    weights: tuple[float, ...]

    def __call__(self, network: Network) -> float:
        """The ratio."""
        return math.exp(float(np.dot(self.weights, terms(network))))


def terms(network: Network) -> tuple[float, ...]:
    """The terms of a ratio, as logarithms: a constant, the intensity and the size of pictures."""
    return 1.0, math.log(network.intensity), math.log(network.pixels / 224)


def fit_law(known: Sequence[tuple[Network, float]]) -> Law:
    """Least absolute errors of logarithms: few networks that ran under other conditions do not bend it."""
    x = np.array([terms(network) for network, _ in known])
    y = np.log([ratio for _, ratio in known])
    trust = np.ones(len(y))
    weights = np.zeros(x.shape[1])
    for _ in range(ROUNDS):
        root = np.sqrt(trust)
        weights = np.linalg.lstsq(x * root[:, None], y * root, rcond=None)[0]
        trust = 1 / np.maximum(np.abs(y - x @ weights), ERROR_MIN)
    return Law(tuple(float(weight) for weight in weights))


@dataclass(frozen=True)
class Relatives:
    """A law, and the error of each known network under it."""

    law: Law
    known: tuple[tuple[str, float], ...]
    """Name and logarithm of measured over law."""

    def __call__(self, network: Network) -> float:
        """The law times the errors of relatives by name, of which the nearest count most."""
        total = error = 0.0
        for name, miss in self.known:
            nearness = likeness(network.name, name) ** NEARNESS
            total += nearness
            error += nearness * max(-FURTHEST, min(FURTHEST, miss))
        return self.law(network) * math.exp(error / (total + SHRINK))


def relatives(known: Sequence[tuple[Network, float]]) -> Relatives:
    """The law of networks and their measured ratios, and its errors."""
    law = fit_law(known)
    errors = [(network.name, math.log(ratio / law(network))) for network, ratio in known]
    return Relatives(law, tuple(errors))


def likeness(one: str, other: str) -> float:
    """Share of two names that is the same from the start; 0 between families. resnet50, resnet101: 6 of 9."""
    one, other = plain(one), plain(other)
    if family(one) != family(other):
        return 0.0
    same = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return len(list(same)) / max(len(one), len(other))


def family(name: str) -> str:
    """`tf_efficientnet_b0` is an `efficientnet`."""
    match = FAMILY.match(name)
    return match[1] if match else name


def plain(name: str) -> str:
    """The name without the prefix of who trained it."""
    match = FAMILY.match(name)
    return name[match.start(1) :] if match else name


def held_out(
    known: Sequence[tuple[Network, float]],
    make: Callable[[Sequence[tuple[Network, float]]], Callable[[Network], float]],
    folds: int = 10,
    seed: int = 1,
) -> list[float]:
    """The prediction for each network by those of the other folds."""
    fold_of = np.random.default_rng(seed).integers(0, folds, len(known))
    predictions = [0.0] * len(known)
    for fold in range(folds):
        predict = make([pair for pair, own in zip(known, fold_of, strict=True) if own != fold])
        for i in np.flatnonzero(fold_of == fold).tolist():
            network, _ = known[i]
            predictions[i] = predict(network)
    return predictions


# Memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """Batches that were tried one after another, two to each doubling: 512, 384, 256, 192 ..."""

    memory_bytes: float
    context_bytes: float
    state_bytes: float
    """Bytes of states of each parameter."""

    def room(self, network: Network) -> float:
        """Bytes that are left for activations."""
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


def hits(batches: Iterable[int], predictions: Iterable[float]) -> float:
    """Share of networks whose predicted largest batch lies between the one that fitted and the next."""
    pairs = zip(batches, predictions, strict=True)
    inside = [batch <= prediction < half_octave_up(batch) for batch, prediction in pairs]
    return sum(inside) / len(inside)
