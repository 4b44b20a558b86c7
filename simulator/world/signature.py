"""Signatures of layers: kind, geometry and weights. Layers with equal signatures could be shared by merging."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

GEOMETRY = ("kernel_size", "stride", "padding", "dilation", "groups", "num_heads")
"""Named in a signature besides kind and weights, where a layer has it."""
FLOAT32 = "float32"


@dataclass(frozen=True, slots=True)
class WeightShape:
    """One weight of a layer."""

    name: str
    shape: tuple[int, ...]
    """A scalar has the shape 1."""
    number_type: str = FLOAT32

    def __str__(self) -> str:
        """`weight=64x3x7x7`; another type than float32 is named: `weight=64x3:float16`."""
        text = f"{self.name}={sizes(self.shape)}"
        return text if self.number_type == FLOAT32 else f"{text}:{self.number_type}"


@dataclass(frozen=True, slots=True)
class Signature:
    """The kind of a layer, its geometry as texts by name, and its weights."""

    kind: str
    """Class of the module: `Conv2d`."""
    geometry: tuple[tuple[str, str], ...] = ()
    weights: tuple[WeightShape, ...] = ()

    def __str__(self) -> str:
        """As files have it: `Conv2d kernel_size=7x7 stride=2x2 padding=3x3 dilation=1x1 groups=1 weight=64x3x7x7`."""
        geometry = (f"{name}={value}" for name, value in self.geometry)
        return " ".join([self.kind, *geometry, *map(str, self.weights)])

    @property
    def matrices(self) -> tuple[WeightShape, ...]:
        """The weights proper, without biases and statistics."""
        return tuple(weight for weight in self.weights if weight.name.endswith("weight"))

    @property
    def short(self) -> str:
        """`Linear 128x512`: the kind, and the shape of its first matrix."""
        return " ".join([self.kind, *(sizes(weight.shape) for weight in self.matrices[:1])])


def sizes(shape: Iterable[int]) -> str:
    """`64x3x7x7`."""
    return "x".join(map(str, shape))


SAMPLE = re.compile(r"(?:seq)?[1-9]\d{0,5}|[1-9]\d{0,5}(?:x[1-9]\d{0,5})+")
"""A sample's shape as it is written; `seq384` as published tables write 384 tokens."""


def read_sizes(shape: str) -> tuple[int, ...] | None:
    """`3x224x224` as numbers, `seq384` and `[384]` as one; None of what is no shape of a sample."""
    written = shape.lower().removeprefix("[").removesuffix("]")
    return tuple(map(int, written.removeprefix("seq").split("x"))) if SAMPLE.fullmatch(written) else None


def read_signature(text: str) -> Signature:
    """The signature in a file; a text in another form is a kind of its own."""
    kind, *words = text.split(" ")
    pairs = [word.partition("=") for word in words]
    geometry = tuple((name, value) for name, _, value in pairs if name in GEOMETRY)
    try:
        weights = tuple(_weight(name, value) for name, _, value in pairs if name not in GEOMETRY)
    except ValueError:
        return Signature(text)
    made = Signature(kind, geometry, weights)
    return made if str(made) == text else Signature(text)


def _weight(name: str, text: str) -> WeightShape:
    shape, _, number_type = text.partition(":")
    return WeightShape(name, tuple(map(int, shape.split("x"))), number_type or FLOAT32)
