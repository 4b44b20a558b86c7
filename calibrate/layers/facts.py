"""Layer facts: what the layers of a model compute, read and write - shipped for many models, read without torch.

`python -m calibrate.layers.tracing write` makes the shipped files. Others are traced in a process of their own, and
those of packages and files are kept in the user's cache by what they were made of.
"""

import gzip
import hashlib
import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from calibrate.io.files import cache_folder, read_json, replacing
from calibrate.io.process import last_line, running
from calibrate.published import names
from calibrate.zoo.sources import ZooError, contents, how_to_name, is_sourced, perhaps_sourced, without_owner
from simulator.errors import InputError
from simulator.near import in_any_spelling, near_names
from simulator.world.model import LayerFacts
from simulator.world.signature import Signature, WeightShape, read_signature, sizes

SCHEMA = "planner.layers/v1"
SHIPPED = Path(__file__).parent.parent / "zoo_layers"
PACKED = ".json.gz"
"""End of the files of packages' models, in a folder for each package."""
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
TOTALS = (
    "input_bytes_per_sample",
    "output_bytes_per_sample",
    "activation_bytes_per_sample",
    "peak_activation_bytes_per_sample",
)
"""Keys of a file beside its layers."""
REFUSED = "refused"
"""Key of an answer that says why there are no layers."""
WHY_MAX = 1000
"""Characters of what a model's own code says of its failure."""
TIME_LIMIT_S = 300.0
"""For tracing one model."""
TRACING = 1
"""Of the cache's contents: another where tracing counts otherwise."""


class FactsError(InputError):
    """The layers of a model are not known; the text is one line."""


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
    def working_set_bytes(self) -> int:
        """Inputs, weights and outputs of one sample, of one call."""
        return self.weight_bytes + self.inputs_outputs_bytes

    @property
    def inputs_outputs_bytes(self) -> int:
        """Inputs and outputs of one sample, of one call."""
        return (self.input_bytes + self.output_bytes) // max(1, self.calls)


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
        """The same model for pictures of `pixels` x `pixels`; FactsError where it reads no other.

        Each figure is `a + b x pixels^2`, through its own and that at twice the resolution: exact but for the rounding
        of sizes that a stride does not divide.
        """
        own = self.input_shape[-1]
        if pixels == own:
            return self
        if not self.twice:
            raise FactsError(f"{self.model}: resolution {pixels}: {self.fixed}. Leave the resolution as it is.")
        grown = ((pixels / own) ** 2 - 1) / 3

        def scaled(before: int, after: int) -> int:
            return round(before + (after - before) * grown)

        layers = tuple(_scaled(layer, at, scaled) for layer, at in zip(self.layers, self.twice, strict=True))
        area = (pixels / own) ** 2
        return replace(
            self,
            input_shape=(self.input_shape[0], pixels, pixels),
            layers=layers,
            twice=(),
            fixed=f"it was scaled to {pixels} pixels already",
            **{key: round(getattr(self, key) * area) for key in TOTALS if key != "output_bytes_per_sample"},
        )

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


def _scaled(layer: LayerWork, twice: Mapping[str, int], scaled: Any) -> LayerWork:
    changed = {key: max(0, scaled(getattr(layer, key), value)) for key, value in twice.items()}
    more = changed.get("flops", layer.flops) / layer.flops if layer.flops else 1.0
    products = tuple(replace(p, rows=max(1, round(p.rows * more))) for p in layer.products)
    return replace(layer, products=products, **changed)


def known() -> tuple[str, ...]:
    """Plain names of models whose layers are shipped: the zoo's."""
    return tuple(sorted(path.stem for path in SHIPPED.glob("*.json")))


@cache
def named() -> tuple[str, ...]:
    """Full names of models of packages whose layers are shipped: `timm:convnext_small.fb_in1k`."""
    paths = (path.relative_to(SHIPPED) for path in SHIPPED.glob(f"*/**/*{PACKED}"))
    return tuple(sorted(f"{path.parts[0]}:{path.relative_to(path.parts[0])}".removesuffix(PACKED) for path in paths))


def full_name(model: str) -> str:
    """The name of a shipped model that a plain one stands for; FactsError where that is none, or several."""
    if ":" in model or model in known():
        return without_owner(model)
    if (spelt := in_any_spelling(model, known())) in known():
        return spelt
    found = shipped(model)
    if len(found) == 1:
        return found[0]
    wrong = f"{model}: its layers are not known."
    if found:
        raise FactsError(f"{model}: may be {' or '.join(found)}. Write one of them.")
    if others := _named_alike(model):
        raise FactsError(f"{wrong} {' and '.join(others)} is another network: write that name if you mean it.")
    if close := meant(model):
        raise FactsError(f"{wrong} Did you mean {' or '.join(close)}?")
    raise FactsError(f"{wrong}{_of_other_numbers(model)} {how_to_name(model)}")


def _of_other_numbers(model: str) -> str:
    """` Known: vit_b_16.` of `vit_b_17`; nothing where none is called so but for numbers."""
    letters, *alike = (re.sub(r"\d+", "", name.lower()) for name in (model, *known()))
    found = [name for name, others in zip(known(), alike, strict=True) if others == letters]
    return f" Known: {', '.join(found)}." if found else ""


def meant(model: str) -> list[str]:
    """Shipped models of nearly such a name: plain ones, else those of packages by their names without the source."""
    by_short = {short: full for full in named() for short in _short(full)}
    near = near_names(model, known()) or (by_short[name] for name in near_names(model, by_short))
    return list(dict.fromkeys(near))


def shipped(model: str) -> list[str]:
    """Full names of models of packages that a plain one may stand for.

    `ultralytics:yolov5s` is none of `yolov5s`, which published tables and its authors call an older network.
    """
    meant = names.architecture(model)
    return [full for full in _named_alike(model) if names.architecture(full) in (meant, full)]


def _named_alike(model: str) -> list[str]:
    """Full names that have the plain one in them."""
    return [full for full in named() if model in _short(full)]


def _short(full: str) -> set[str]:
    """`convnext_small.fb_in1k` and `convnext_small` of `timm:convnext_small.fb_in1k`; `bge-m3` of `hf:BAAI/bge-m3`."""
    source, _, name = full.partition(":")
    last = name.rpartition("/")[2]
    return {name, last, last.partition(".")[0]} if source == "timm" else {name, last}


def has_layers(model: str) -> bool:
    """True where a plain name stands for one model whose layers are shipped."""
    return model in known() or len(shipped(model)) == 1


def facts(model: str, input_shape: tuple[int, ...] | None = None) -> Facts:
    """The layers of any model by its name; FactsError where they cannot be known.

    Those that are shipped need no torch. Others are traced by a process of its own, which **runs the package's code, or
    the user's** of a `package.module:factory`, whose input must be named.
    """
    full = full_name(model)
    if full in known():
        if input_shape:
            raise FactsError(f"{model}: has its own input. Leave it out, or name a model of a package or of your own.")
        return _shipped_at(SHIPPED / f"{full}.json")
    if not is_sourced(full):
        if not input_shape:
            unnamed = f"{model}: the shape of its input is not known."
            raise FactsError(f"{unnamed}{perhaps_sourced(full)} Name it, e.g. 3x224x224.")
        return traced(full, input_shape)
    path = SHIPPED / f"{full.replace(':', '/', 1)}{PACKED}"
    if full in named() and input_shape in (None, (found := _shipped_at(path)).input_shape):
        return found
    return sourced(full, input_shape)


@lru_cache(maxsize=256)
def _shipped_at(path: Path) -> Facts:
    """Read once: a plan asks for the same layers at each kind of GPU and end of a band."""
    return _read(path)


@cache
def sourced(model: str, input_shape: tuple[int, ...] | None) -> Facts:
    """The layers of a model of a package or a file, traced once for each of its versions and inputs."""
    try:
        made_of = [SCHEMA, TRACING, model, input_shape, contents(model)]
    except ZooError as error:
        raise FactsError(f"{error}{_perhaps_shipped(model)}") from None
    name = hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()
    path = cache_folder("layers") / f"{name}{PACKED}"
    with suppress(LookupError, TypeError, ValueError, AttributeError):  # not there, or damaged: made anew
        return _read(path)
    document = _run(model, "trace", input_shape)
    with suppress(OSError):  # what cannot be kept is traced again
        pack(document, path)
    return from_document(document)


def _perhaps_shipped(model: str) -> str:
    """Names like its own whose layers need no package; a plain one that is the same goes first."""
    source, _, name = model.partition(":")
    of_source = [full for full in named() if full.startswith(f"{source}:")]
    close = [name] if name in known() else near_names(model, of_source)
    return f" Or did you mean {' or '.join(close)}? Its layers are shipped." if close else ""


def pack(document: Mapping[str, Any], path: Path) -> None:
    """Write a document, small, the same bytes each time, at once or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(gzip.compress(json.dumps(document, separators=(",", ":")).encode(), mtime=0))


def _read(path: Path) -> Facts:
    return from_document(read_json(path))


@cache
def traced(model: str, input_shape: tuple[int, ...]) -> Facts:
    """The layers of a user's own `package.module:factory`. **Runs the user's code**, in a process with torch."""
    return from_document(_run(model, "trace", input_shape))


def timed(model: str, input_shape: Sequence[int] | None, device: str, batches: Sequence[int]) -> dict[int, float]:
    """Median seconds of a batch on `cpu` or `cuda:0`, by batch size. **Runs the model**, in a process with torch."""
    options = ("--device", device, "--batches", ",".join(map(str, batches)))
    return {int(batch): float(time_s) for batch, time_s in _run(model, "time", input_shape, *options).items()}


def _run(model: str, what: str, input_shape: Sequence[int] | None, *more: str) -> dict[str, Any]:
    """The answer of `calibrate.layers.tracing`; FactsError where it has none."""
    shape = ("--input", sizes(input_shape)) if input_shape else ()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "answer.json"  # not its output, to which the model's own code may write
        command = [*running("calibrate.layers.tracing"), what, model, *shape, *more, "--out", str(path)]
        try:
            done = subprocess.run(command, capture_output=True, timeout=TIME_LIMIT_S, check=False)
        except subprocess.TimeoutExpired:
            text = f"took more than {TIME_LIMIT_S:.0f} s. Try a smaller input, or run it once yourself."
            raise FactsError(f"{model}: {text}") from None
        if not path.exists():
            raise FactsError(f"{model}: {_failure(done)}")
        answer: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if REFUSED in answer:
        raise FactsError(answer[REFUSED][:WHY_MAX])
    return answer


def _failure(done: "subprocess.CompletedProcess[bytes]") -> str:
    """Why a process wrote no answer: the last line it said."""
    if find_spec("torch") is None:
        return "running it needs torch. pip install torch."
    why = last_line(done.stderr.decode("utf-8", errors="replace")) or f"its process ended with {done.returncode}"
    return f"cannot be run: {why[:WHY_MAX]}. Run it once yourself."


def from_document(document: Mapping[str, Any]) -> Facts:
    """Facts as `to_document` writes them."""
    if document.get("schema") != SCHEMA:
        raise FactsError(f"schema: must be {SCHEMA}, got {document.get('schema')}. Trace the model again.")
    signatures = list(map(read_signature, document["signatures"]))
    rows = [dict(zip(COLUMNS, row, strict=False)) for row in document["layers"]]
    totals = {key: document[key] for key in TOTALS}
    fixed = document["fixed"]
    return Facts(
        model=document["model"],
        input_shape=tuple(document["input_shape"]),
        fixed=fixed,
        layers=tuple(_layer(row, signatures[row["signature"]]) for row in rows),
        twice=() if fixed else tuple(map(_twice, rows)),
        made_with=document.get("made_with", {}),
        **totals,
    )


def _twice(row: Mapping[str, Any]) -> dict[str, int]:
    return dict(zip(SCALED, row["twice"], strict=True)) if "twice" in row else {}


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
