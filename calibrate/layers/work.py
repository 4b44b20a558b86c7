"""Work of a model, layer by layer: operations, bytes and parameters, as data and as a document."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import exp, log, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

from calibrate.zoo.sources import too_long
from simulator.errors import InputError
from simulator.world.model import LayerFacts
from simulator.world.precision import FACT_BYTES
from simulator.world.signature import Signature, WeightShape, read_signature

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SCHEMA = "planner.layers/v1"
COLUMNS = (
    "name",
    "signature",
    "params",
    "weight_bytes",
    "flops",
    "input_bytes",
    "output_bytes",
    "calls",
    "kernels",
    "moved_bytes",
    "made_bytes",
    "weights_read_bytes",
    "products",
    "twice",
)
"""Columns of a layer in a file. `signature` is its place in the file's list; `twice` may be left out."""
SCALED = ("flops", "input_bytes", "output_bytes", "moved_bytes", "made_bytes")
"""Columns of `twice`: the same at twice the resolution, where it differs."""
KEPT = 32
"""Shapes that a model is kept at."""
TOTALS = (
    "input_bytes_per_sample",
    "output_bytes_per_sample",
    "activation_bytes_per_sample",
    "peak_activation_bytes_per_sample",
)
"""Keys of a file beside its layers."""


class FactsError(InputError):
    """The layers of a model are not known; the text is one line."""

    def __init__(self, text: str, key: str = "") -> None:
        super().__init__(text)
        self.key = key
        """What of a model is wrong, where it is not its name: `pixels`."""


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix product `rows x inner` times `inner x columns`; a convolution is the one that im2col makes of it."""

    rows: int
    """Grows with the batch."""
    inner: int
    columns: int
    times: int = 1
    """How often it runs: heads of an attention, groups of a convolution."""
    batched: bool = False
    """Its right side is no weight: a larger batch repeats the product instead of adding rows."""

    @property
    def macs(self) -> int:
        """Multiply-adds of one sample."""
        return self.rows * self.inner * self.columns * self.times


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerWork(LayerFacts):
    """One layer, and what it makes a device do for one sample in 4-byte floats."""

    calls: int
    """How often it ran; inputs and outputs are those of all calls. 0: it only holds weights."""
    kernels: int
    """Operators that run; views are none."""
    moved_bytes: int
    """Activations that its kernels read and write."""
    made_bytes: int
    """Activations that its kernels write to new memory: what training keeps of it at most."""
    weights_read_bytes: int
    """Weights that its kernels read: once a batch, whatever its size."""
    products: tuple[Product, ...] = ()

    def bytes_of(self, batch: int) -> int:
        """Bytes moved by a batch: its weights once, its activations for each sample."""
        return self.weights_read_bytes + batch * self.moved_bytes

    @property
    def macs(self) -> int:
        """Multiply-adds of its products and convolutions, one sample."""
        return sum(product.macs for product in self.products)

    @property
    def convolves(self) -> bool:
        """Whether its weights slide over a picture or a sound."""
        return any(len(weight.shape) > 2 for weight in self.signature.weights)

    @property
    def is_3x3(self) -> bool:
        """Whether 3x3 weights slide over a picture."""
        return any(weight.shape[2:] == (3, 3) for weight in self.signature.weights)

    @property
    def fused(self) -> "LayerWork":
        """The same where attention is one kernel: all parts of an input, compared with each other, never come to
        memory."""
        if not any(product.batched for product in self.products):
            return self
        return replace(self, moved_bytes=min(self.moved_bytes, self.input_bytes + self.output_bytes))

    @property
    def inputs_outputs_bytes(self) -> int:
        """Inputs and outputs of one sample, of one call."""
        return (self.input_bytes + self.output_bytes) // max(1, self.calls)


class LayerArrays(NamedTuple):
    """Layers as arrays, one entry each."""

    flops: "NDArray[np.float64]"
    weights_read_bytes: "NDArray[np.float64]"
    moved_bytes: "NDArray[np.float64]"
    convolves: "NDArray[np.bool_]"
    is_3x3: "NDArray[np.bool_]"
    """Convolutions of 3x3."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """A model as its layers, in the order they run; per sample, in 4-byte floats, a multiply-add as 2 operations."""

    model: str
    input_shape: tuple[int, ...]
    """Shape of one sample."""
    fixed: str = ""
    """Why its resolution cannot be chosen; empty where it can."""
    layers: tuple[LayerWork, ...]
    input_bytes_per_sample: int
    output_bytes_per_sample: int
    activation_bytes_per_sample: int
    """All that layers put out: what training keeps at least."""
    peak_activation_bytes_per_sample: int
    """The most that lay in memory at once, inference; inputs are part of it."""
    twice: tuple[Mapping[str, int], ...] = ()
    """`SCALED` of each layer at twice the resolution; empty where that cannot be chosen."""
    peaks: tuple[tuple[float, int], ...] = ()
    """Of a model whose attention grows faster than its input: by times its own side or length, the most that lay in
    memory at once."""
    own: "Facts | None" = None
    """The same at its own resolution, where this one was chosen."""
    pixels_min: int = 1
    """Side of the smallest picture that it takes, where its resolution can be chosen."""
    tokens_max: int = 0
    """The most tokens that it has positions for; 0: as many as there are."""
    made_with: Mapping[str, str] = field(default_factory=dict)
    """Versions of the packages that the model was traced with."""

    @cached_property
    def params(self) -> int:
        """Parameters, buffers not counted."""
        return sum(layer.params for layer in self.layers)

    @cached_property
    def weight_bytes(self) -> int:
        """Parameters and buffers: what is loaded."""
        return sum(layer.weight_bytes for layer in self.layers)

    @cached_property
    def flops(self) -> int:
        """Operations of one sample; a multiply-add is 2."""
        return sum(layer.flops for layer in self.layers)

    @cached_property
    def arrays(self) -> LayerArrays:
        """Its layers, for arithmetic on all of them at once. Who only reads profiles needs no NumPy."""
        import numpy as np

        return LayerArrays(
            np.array([layer.flops for layer in self.layers], dtype=float),
            np.array([layer.weights_read_bytes for layer in self.layers], dtype=float),
            np.array([layer.moved_bytes for layer in self.layers], dtype=float),
            np.array([layer.convolves for layer in self.layers], dtype=bool),
            np.array([layer.is_3x3 for layer in self.layers], dtype=bool),
        )

    @property
    def macs(self) -> float:
        """Multiply-adds of one sample."""
        return self.flops / 2

    @cached_property
    def outputs(self) -> int:
        """Numbers that convolutions and products put out for one sample."""
        return sum(p.rows * p.columns * p.times for layer in self.layers for p in layer.products)

    @cached_property
    def products_share(self) -> float:
        """Share of its multiply-adds that are matrix products: 0.96 of ConvNeXt, 0 of ResNet-50."""
        convolutions = sum(layer.macs for layer in self.layers if layer.convolves)
        return 1 - convolutions / max(1, sum(layer.macs for layer in self.layers))

    @cached_property
    def made_bytes_per_sample(self) -> int:
        """All that kernels write to new memory: what training keeps at most."""
        return sum(layer.made_bytes for layer in self.layers)

    @cached_property
    def kernels(self) -> int:
        """Operators of one pass."""
        return sum(layer.kernels for layer in self.layers)

    def moved_bytes(self, batch: int) -> int:
        """Bytes that the kernels of one batch read and write."""
        return sum(layer.bytes_of(batch) for layer in self.layers)

    def at(self, pixels: int) -> "Facts":
        """The same model for pictures of `pixels` x `pixels`; FactsError where it reads no other, or none so small.

        Each figure is `a + b x pixels^2`, through its own and that at twice the resolution, or `(a + b x pixels)^2`
        where pictures lose their borders: exact but for the rounding of sizes that a stride does not divide.
        """
        if pixels == self.input_shape[-1]:
            return self
        if self.fixed or not self.twice:
            remedy = f"Leave it as it is, or name a model made for {pixels} pixels, e.g. one of `timm:`."
            raise FactsError(f"{self.model}: resolution {pixels}: {self.fixed}. {remedy}", "pixels")
        if pixels < self.pixels_min:
            raise FactsError(f"{self.model} {too_small(self.pixels_min, pixels)}.", "pixels")
        return self._at((self.input_shape[0], pixels, pixels))

    def of_shape(self, shape: tuple[int, ...]) -> "Facts":
        """The same model for one sample of another shape: so many tokens, or a square picture; FactsError where it
        reads no such one."""
        if shape == self.input_shape:
            return self
        if not self.scales_to(shape):
            own, wanted = ("x".join(map(str, one)) for one in (self.input_shape, shape))
            why = self.fixed or f"it reads {own}"
            raise FactsError(f"{self.model}: input {wanted}: {why}. Write {own}, or leave it out.", "input")
        if len(shape) > 1:
            return self.at(shape[-1])
        if self.tokens_max and shape[0] > self.tokens_max:
            raise FactsError(f"{self.model} {too_long(self.tokens_max, shape[0])}.", "input")
        return self._at(shape)

    def scales_to(self, shape: tuple[int, ...]) -> bool:
        """Whether its layers are known at every shape of that kind."""
        if len(shape) == 1:
            return len(self.input_shape) == 1 and bool(self.twice)
        is_square = shape == (self.input_shape[0], shape[-1], shape[-1])
        return shape == self.input_shape or (self.is_square and is_square and bool(self.twice) and not self.fixed)

    def made_for(self, pixels: int) -> "Facts":
        """The same network made for other pictures, also where this one has positions for its own alone; with the
        least that its kernels move: published times of large pictures are of attention in one kernel."""
        is_made = self.fixed and self.twice and self.is_square
        made = self._at((self.input_shape[0], pixels, pixels)) if is_made else self.at(pixels)
        return replace(made, layers=tuple(layer.fused for layer in made.layers)) if self.attends else made

    @property
    def is_square(self) -> bool:
        """Whether it reads pictures as high as they are wide."""
        return len(self.input_shape) == 3 and self.input_shape[-2] == self.input_shape[-1]

    @cached_property
    def attends(self) -> bool:
        """Whether each part of its input is compared with each other one: such work grows with the square of it."""
        grown = 2.0 ** (1 if len(self.input_shape) == 1 else 2)
        return any(
            twice.get("flops", 0) > 1.01 * grown * layer.flops and any(p.batched for p in layer.products)
            for layer, twice in zip(self.layers, self.twice, strict=False)
        )

    @cached_property
    def _known_at(self) -> "dict[tuple[int, ...], Facts]":
        """Shapes that it was scaled to before: tables ask for the same few, row after row."""
        return {}

    def _at(self, shape: tuple[int, ...]) -> "Facts":
        if shape not in self._known_at:
            if len(self._known_at) >= KEPT:
                self._known_at.clear()
            self._known_at[shape] = self._scaled_to(shape)
        return self._known_at[shape]

    def _scaled_to(self, shape: tuple[int, ...]) -> "Facts":
        """The same at a shape, whatever it reads."""
        growth = Growth(shape[-1] / self.input_shape[-1], 1 if len(shape) == 1 else 2, self.attends)
        layers = tuple(_scaled(layer, at, growth) for layer, at in zip(self.layers, self.twice, strict=True))
        totals = {key: round(getattr(self, key) * growth.more) for key in TOTALS if key != "output_bytes_per_sample"}
        if self.peaks:
            totals["peak_activation_bytes_per_sample"] = self._peak_at(growth)
        return replace(
            self,
            input_shape=shape,
            layers=layers,
            twice=(),
            peaks=(),
            own=self,
            fixed=f"it was scaled to {shape[-1]} {'tokens' if len(shape) == 1 else 'pixels'} already",
            **totals,
        )

    def _peak_at(self, growth: "Growth") -> int:
        """Between the nearest of `peaks`, past them as far as it may grow, on a straight line of logarithms."""
        import numpy as np

        times, peaks = (np.log(column) for column in zip(*self.peaks, strict=True))
        power = growth.axes * (2 if growth.attends else 1)
        beyond = max(0.0, log(growth.times) - times[-1]) * power + min(0.0, log(growth.times) - times[0]) * growth.axes
        return round(exp(float(np.interp(log(growth.times), times, peaks)) + beyond))

    def with_channels(self, channels: int) -> "Facts":
        """The same model on pictures of so many channels: only the first layer that computes changes.

        Of ResNet-50's operations 2.9 % are in the first convolution; one channel of three saves two thirds of them.
        """
        first = self.first
        if first is None or channels == self.input_shape[0]:
            return self
        share = channels / self.input_shape[0]
        return replace(
            self,
            own=self.own and self.own.with_channels(channels),
            layers=tuple(_thinner(layer, share) if layer is first else layer for layer in self.layers),
            input_shape=(channels, *self.input_shape[1:]),
            input_bytes_per_sample=round(self.input_bytes_per_sample * share),
        )

    @property
    def first(self) -> LayerWork | None:
        """The layer that sees the colours of a picture; None where a model begins otherwise."""
        if len(self.input_shape) != 3:
            return None
        return next((layer for layer in self.layers if layer.products), None)


def too_small(pixels_min: int, pixels: int) -> str:
    """What is wrong with a picture of so few pixels, and the remedy; after the name of the model."""
    return f"takes no picture of {pixels} pixels a side, the smallest has {pixels_min}. Write {pixels_min} or more"


def _thinner(layer: LayerWork, share: float) -> LayerWork:
    """A layer that reads a share of its channels. Its bias reads none, but has fewer operations than rounding."""
    products = tuple(replace(product, inner=max(1, round(product.inner * share))) for product in layer.products)
    removed = _weights_in(layer.products) - _weights_in(products)
    input_bytes = round(layer.input_bytes * share)
    return replace(
        layer,
        signature=replace(layer.signature, weights=tuple(_with_inputs(w, share) for w in layer.signature.weights)),
        params=layer.params - removed,
        weight_bytes=layer.weight_bytes - 4 * removed,
        weights_read_bytes=layer.weights_read_bytes - 4 * removed,
        flops=round(layer.flops * share),
        input_bytes=input_bytes,
        moved_bytes=layer.moved_bytes - layer.input_bytes + input_bytes,
        products=products,
    )


def _weights_in(products: Sequence[Product]) -> int:
    return sum(product.inner * product.columns * product.times for product in products)


def _with_inputs(weight: WeightShape, share: float) -> WeightShape:
    """A matrix with a share of its inputs, which are its second dimension."""
    if len(weight.shape) < 2:
        return weight
    outputs, inputs, *kernel = weight.shape
    return replace(weight, shape=(outputs, max(1, round(inputs * share)), *kernel))


class Growth(NamedTuple):
    """How much larger an input is than the one that was traced."""

    times: float
    """Of a side, or of the length."""
    axes: int
    """Along which it grows: 2 of a picture."""
    attends: bool
    """Whether work grows with the square of the input."""

    @property
    def more(self) -> float:
        """Times as many pixels or tokens."""
        return self.times**self.axes


def _scaled(layer: LayerWork, twice: Mapping[str, int], growth: Growth) -> LayerWork:
    """A layer at so many times the input: it computes one position at least, and keeps one number."""
    least = dict.fromkeys(SCALED, FACT_BYTES) | {"flops": sum(2 * p.macs // p.rows for p in layer.products)}
    figures = {key: (getattr(layer, key), value) for key, value in twice.items()}
    changed = {
        key: max(_figure_at(growth, own, doubled), min(own, least[key])) for key, (own, doubled) in figures.items()
    }
    more = changed.get("flops", layer.flops) / layer.flops if layer.flops else 1.0
    compares = growth.attends and any(product.batched for product in layer.products)
    per_row = growth.more if compares else more
    return replace(layer, products=tuple(_product_at(p, per_row, compares) for p in layer.products), **changed)


def _product_at(product: Product, more: float, compares: bool) -> Product:
    """One of so many times the rows; where it compares all of them with each other, its other side grows as well."""

    def grown(side: int) -> int:
        return max(1, round(side * more)) if compares and product.batched and side == product.rows else side

    return replace(
        product,
        rows=max(1, round(product.rows * more)),
        inner=grown(product.inner),
        columns=grown(product.columns),
    )


def _figure_at(growth: Growth, own: int, doubled: int) -> int:
    """A figure at so many times the input, by that at its own and at twice its own.

    More than as many times as much is of attention, whose work grows with the square of the input, or of a picture that
    loses its borders: 9 (3 x 3) and 64 (8 x 8) are 30 (5.5 x 5.5) at 1.5 times.
    """
    usual = 2.0**growth.axes
    if doubled <= usual * own:
        return round(own + (doubled - own) * (growth.more - 1) / (usual - 1))
    if growth.attends or growth.axes == 1:
        squared = (doubled - usual * own) / (usual**2 - usual)
        return round((own - squared) * growth.more + squared * growth.more**2)
    side = sqrt(own) + (sqrt(doubled) - sqrt(own)) * (growth.times - 1)
    return round(max(0.0, side) ** 2)


def from_document(document: Mapping[str, Any]) -> Facts:
    """Facts as `to_document` writes them."""
    if document.get("schema") != SCHEMA:
        raise FactsError(f"schema: must be {SCHEMA}, got {document.get('schema')}. Trace the model again.")
    signatures = list(map(read_signature, document["signatures"]))
    rows = [dict(zip(COLUMNS, row, strict=False)) for row in document["layers"]]
    totals = {key: document[key] for key in TOTALS}
    twice = tuple(dict(zip(SCALED, row.get("twice", ()), strict="twice" in row)) for row in rows)
    fixed = document["fixed"]
    return Facts(
        model=document["model"],
        input_shape=tuple(document["input_shape"]),
        fixed=fixed,
        layers=tuple(_layer(row, signatures[row["signature"]]) for row in rows),
        twice=() if fixed and not any(twice) else twice,
        peaks=tuple((times, peak) for times, peak in document.get("peaks", ())),
        pixels_min=document.get("pixels_min", 1),
        tokens_max=document.get("tokens_max", 0),
        made_with=document.get("made_with", {}),
        **totals,
    )


def _layer(row: Mapping[str, Any], signature: Signature) -> LayerWork:
    named = {key: row[key] for key in COLUMNS if key not in ("signature", "products", "twice")}
    products = tuple(
        Product(rows, inner, columns, times, bool(batched)) for rows, inner, columns, times, batched in row["products"]
    )
    return LayerWork(type=signature.kind, signature=signature, products=products, **named)


def to_document(facts: Facts) -> dict[str, Any]:
    """Facts as JSON: one short row a layer."""
    signatures = list(dict.fromkeys(layer.signature for layer in facts.layers))
    twice = facts.twice or tuple({} for _ in facts.layers)
    return {
        "schema": SCHEMA,
        "model": facts.model,
        "input_shape": list(facts.input_shape),
        "fixed": facts.fixed,
        **({"pixels_min": facts.pixels_min} if facts.pixels_min > 1 else {}),
        **({"tokens_max": facts.tokens_max} if facts.tokens_max else {}),
        **({"peaks": [list(peak) for peak in facts.peaks]} if facts.peaks else {}),
        **({"made_with": dict(facts.made_with)} if facts.made_with else {}),
        **{key: getattr(facts, key) for key in TOTALS},
        "signatures": list(map(str, signatures)),
        "layers": [_row(layer, signatures, at) for layer, at in zip(facts.layers, twice, strict=True)],
    }


def _row(layer: LayerWork, signatures: Sequence[Signature], twice: Mapping[str, int]) -> list[Any]:
    products = [[p.rows, p.inner, p.columns, p.times, int(p.batched)] for p in layer.products]
    special = {"signature": signatures.index(layer.signature), "products": products}
    row = [special[key] if key in special else getattr(layer, key) for key in COLUMNS[:-1]]
    changed = {key: twice.get(key, getattr(layer, key)) for key in SCALED}
    same = all(value == getattr(layer, key) for key, value in changed.items())
    return row if same else [*row, list(changed.values())]
