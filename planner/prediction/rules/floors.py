"""Floors: the least that a batch takes where operators run one by one, as in PyTorch.

Nothing is fused there: each operator reads and writes memory, even what the next one reads again.
"""

from collections.abc import Callable, Iterable
from functools import cache
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from calibrate.layers.work import Facts, FactsError, LayerArrays
from calibrate.library.held import counted, own_layers
from calibrate.published import names
from planner.prediction.effects import WINOGRAD
from planner.prediction.rules.roofline import computed_in, vendor_ceilings
from simulator.world.hardware import GPU
from simulator.world.precision import value_share

ONE_BY_ONE = ("pytorch", "torchscript")
"""Runtimes that fuse nothing. None of 661 figures in them of networks whose layers are known is below its roofline."""

Seconds = Callable[[float], float]
"""Of a batch of so many samples."""


def floor_of(layers: Facts | None, gpu: GPU, precision: str, runtime: str) -> Seconds:
    """The roofline of the layers at the vendor's peaks; 0 where operators are fused, or where no layers are known."""
    if layers is None or gpu.cores or runtime not in ONE_BY_ONE:
        return lambda batch: 0.0
    limits = vendor_ceilings(gpu, precision)
    arrays = layers.arrays
    products = limits.products_flops_per_s or limits.flops_per_s
    each_s = _computed(arrays) / np.where(arrays.convolves, limits.flops_per_s, products)
    size = value_share(precision) / limits.bytes_per_s
    return lambda batch: _slower_s(batch * each_s, size * (arrays.weights_read_bytes + batch * arrays.moved_bytes))


def computed_share(layers: Facts | None, gpu: GPU, precision: str) -> float:
    """Share of the counted operations that kernels must compute: Winograd's leave some out at fp32."""
    if layers is None or not layers.flops or computed_in(gpu, precision) != "fp32":
        return 1.0
    return float(_computed(layers.arrays).sum()) / layers.flops


def _computed(arrays: LayerArrays) -> NDArray[np.float64]:
    """Operations that a GPU computes at least, by layer."""
    return np.where(arrays.is_3x3, arrays.flops / WINOGRAD, arrays.flops)


def _slower_s(arithmetic_s: NDArray[np.float64], bandwidth_s: NDArray[np.float64]) -> float:
    return float(np.maximum(arithmetic_s, bandwidth_s).sum())


def passed_by(times_s: Iterable[tuple[float, float]], floor_s: Seconds) -> float:
    """How far batches that somebody timed were faster than their floor, at least 1: then others may be, too."""
    return max([1.0, *(floor_s(batch) / time_s for batch, time_s in times_s)])


@cache
def shipped_layers(architecture: str, size: str) -> Facts | None:
    """The layers of an architecture at that input, where they are shipped."""
    layers = own_layers(architecture)
    return layers and resized(layers, architecture, size)


def resized(layers: Facts, architecture: str, size: str) -> Facts | None:
    """The same for so many tokens, or for the square picture of as many pixels; None where that is too small or large,
    or where the input is of another kind. A published architecture is one network at every size, made for each."""
    if counted(layers, layers.model).input == size:
        return layers
    own = layers.own or layers
    shape = shape_of(size, own)
    try:
        if shape is None or len(shape) == 1 or not names.architectures().get(architecture):
            return own.of_shape(shape) if shape else None
        return own.made_for(shape[-1])
    except FactsError:
        return None


def shape_of(size: str, layers: Facts) -> tuple[int, ...] | None:
    """One sample of so many tokens, or the square picture of as many pixels; None where the model reads no such."""
    own = layers.input_shape
    tokens = names.tokens(size)
    if (tokens is not None) != (len(own) == 1) or not names.extent(size):
        return None
    if tokens is not None:
        return (tokens,)
    if not layers.is_square:
        sides = tuple(map(int, size.split("x")))
        return (*own[: -len(sides)], *sides)
    side = isqrt(round(names.extent(size)))
    return (own[0], side, side)
