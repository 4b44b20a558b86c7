"""Systolic arrays: cycles and utilization of a layer's matrix products on R x C cells under three dataflows.

The closed forms are those of SCALE-Sim (Samajdar et al., ISPASS 2020).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import yaml

from calibrate.layers.work import Facts, LayerWork, Product

CATALOG = Path(__file__).parent / "systolic_arrays.yaml"


class Dataflow(StrEnum):
    """Which operand stays in the cells while the others stream past."""

    WS = "ws"
    """Weights stay."""
    IS = "is"
    """Inputs stay."""
    OS = "os"
    """Outputs stay, and are added up in place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystolicArray:
    """A device that multiplies matrices by passing numbers from cell to cell."""

    name: str
    rows: int
    columns: int
    clock_hz: float
    value_bytes: int
    """Bytes of one weight or activation."""
    buffer_bytes: int
    """On the chip, for activations."""
    memory_bytes_per_s: float
    """From which weights come."""
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapping2D:
    """A matrix product on an array."""

    folds: int
    """How often the array is filled anew."""
    cycles: int
    macs: int
    weight_reads: int
    """How often all weights stream in."""
    cells: int

    @property
    def utilization(self) -> float:
        """Multiply-adds over cells x cycles."""
        return self.macs / (self.cells * self.cycles)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayLayer:
    """A layer of a batch on an array."""

    layer: LayerWork
    folds: int
    cycles: int
    macs: int
    utilization: float
    compute_s: float
    weights_s: float
    """To bring its weights in from memory; overlaps with computing."""
    fits: bool
    """Inputs and outputs of the batch fit on the chip; where not, moving them takes longer than what stands here."""

    @property
    def time_s(self) -> float:
        """The longer of the two."""
        return max(self.compute_s, self.weights_s)

    @property
    def bound(self) -> str:
        """The longer of the two."""
        return "bandwidth" if self.weights_s > self.compute_s else "arithmetic"


def map_product(product: Product, array: SystolicArray, dataflow: Dataflow) -> Mapping2D:
    """Cycles of `rows x inner` times `inner x columns`: each fold takes 2 R + C + T - 2, and there are
    ceil(S_R / R) x ceil(S_C / C) folds.

    | dataflow | S_R along the rows | S_C along the columns | T in time |
    |---|---|---|---|
    | os | rows | columns | inner |
    | ws | inner | columns | rows |
    | is | inner | rows | columns |

    A fold is R cycles to fill (ws, is) or to empty (os) the array, and T + R + C - 2 for the skewed streams to pass.
    On 256 x 256, ws, a product of 3025 x 363 x 96 takes 2 x 1 folds of 512 + 256 + 3025 - 2 = 3791: 7582 cycles.
    """
    m, k, n = product.rows, product.inner, product.columns
    along_rows, along_columns, in_time = {
        Dataflow.OS: (m, n, k),
        Dataflow.WS: (k, n, m),
        Dataflow.IS: (k, m, n),
    }[dataflow]
    down, across = math.ceil(along_rows / array.rows), math.ceil(along_columns / array.columns)
    folds = down * across * product.times
    return Mapping2D(
        folds=folds,
        cycles=folds * (2 * array.rows + array.columns + in_time - 2),
        macs=product.macs,
        weight_reads={Dataflow.OS: down, Dataflow.WS: 1, Dataflow.IS: across}[dataflow],
        cells=array.rows * array.columns,
    )


def map_layer(layer: LayerWork, array: SystolicArray, dataflow: Dataflow, batch: int) -> ArrayLayer | None:
    """A layer of a batch; None where it multiplies no matrices: the array has no part in it."""
    if not layer.products:
        return None
    products = [batched(product, batch) for product in layer.products]
    mapped = [map_product(product, array, dataflow) for product in products]
    cycles, macs = sum(m.cycles for m in mapped), sum(m.macs for m in mapped)
    size = array.value_bytes
    weights_bytes = sum(
        m.weight_reads * p.inner * p.columns * p.times * size
        for m, p in zip(mapped, products, strict=True)
        if not p.batched
    )
    held_bytes = batch * layer.inputs_outputs_bytes * size // 4
    return ArrayLayer(
        layer=layer,
        folds=sum(m.folds for m in mapped),
        cycles=cycles,
        macs=macs,
        utilization=macs / (array.rows * array.columns * cycles),
        compute_s=cycles / array.clock_hz,
        weights_s=weights_bytes / array.memory_bytes_per_s,
        fits=held_bytes <= array.buffer_bytes,
    )


def map_model(facts: Facts, array: SystolicArray, dataflow: Dataflow, batch: int) -> tuple[ArrayLayer, ...]:
    """All layers that multiply matrices."""
    mapped = (map_layer(layer, array, dataflow, batch) for layer in facts.layers)
    return tuple(layer for layer in mapped if layer)


def batched(product: Product, batch: int) -> Product:
    """The product of a whole batch: more rows against the same weights, or more products where there are none."""
    if product.batched:
        return Product(product.rows, product.inner, product.columns, product.times * batch, True)
    return Product(product.rows * batch, product.inner, product.columns, product.times)


def arrays() -> Mapping[str, SystolicArray]:
    """The catalog's arrays by name."""
    entries = yaml.safe_load(CATALOG.read_text(encoding="utf-8"))
    return {name: _array(name, entry) for name, entry in entries.items()}


def _array(name: str, entry: Mapping[str, float | str]) -> SystolicArray:
    return SystolicArray(
        name=name,
        rows=int(entry["rows"]),
        columns=int(entry["columns"]),
        clock_hz=1e6 * float(entry["clock_mhz"]),
        value_bytes=int(entry["value_bytes"]),
        buffer_bytes=int(float(entry["buffer_mib"]) * 2**20),
        memory_bytes_per_s=1e9 * float(entry["memory_gb_per_s"]),
        source=str(entry["source"]),
    )
