"""Tracing: the layers of a model and what they make a device do, as JSON. Running it runs the model's own code.

`python -m calibrate.tracing trace MODEL` prints one model; `python -m calibrate.tracing write` makes the shipped files.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn

from calibrate.kernels import Kernels, Work
from calibrate.layer_facts import SCALED, SHIPPED, Facts, LayerWork, Product, to_document
from calibrate.layers import Part, Tracer, layer_facts
from calibrate.points import Settings
from calibrate.timer import CpuTimer, CudaTimer, Rule, repeat
from calibrate.zoo import MODELS, Built, ZooError, build, tensors
from simulator.model import LayerFacts

HISTORIC = {"alexnet_2012": ("calibrate.alexnet:original", (3, 227, 227))}
"""Models that are looked at and not measured: factory and input."""

SECONDS_A_BATCH = 3.0
"""At most, for timing one batch size."""


class TraceError(ValueError):
    """A model that cannot be traced; the text is one line."""


def trace(built: Built) -> Facts:
    """All layers of a model, for one sample at its own resolution and, where it can be chosen, at twice that."""
    facts = _pass(built, Settings())
    # What a user's own model reads is what the user said.
    if built.fixed or len(built.shape) != 3 or ":" in built.name:
        return replace(facts, fixed=built.fixed or "its input is the one that was traced")
    large = _pass(built, Settings(resolution=2 * built.shape[-1]))
    by_name = {layer.name: layer for layer in large.layers}
    return replace(facts, twice=tuple({key: getattr(by_name[own.name], key) for key in SCALED} for own in facts.layers))


def _pass(built: Built, settings: Settings) -> Facts:
    watch = _Watch(built.module)
    inputs = built.make_input(1, watch.device, settings)
    try:
        outputs = watch.follow(lambda: built.forward(built.module, inputs), inputs)
    except Exception as error:
        shape = "x".join(map(str, built.shape))
        text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise TraceError(f"{built.name}: cannot be traced with input {shape}: {text}. Run it once yourself.") from error
    return Facts(
        model=built.name,
        input_shape=built.shape,
        layers=tuple(
            _layer(layer, watch.work.get(layer.name, Work()), watch.calls[layer.name]) for layer in watch.facts()
        ),
        input_bytes_per_sample=_bytes(inputs),
        output_bytes_per_sample=_bytes(outputs),
        activation_bytes_per_sample=watch.activation_bytes,
        peak_activation_bytes_per_sample=watch.kernels.peak_bytes,
    )


class _Watch(Tracer):
    """A tracer that watches kernels too."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.running: list[Work] = []
        self.work: dict[str, Work] = {}
        self.calls: Counter[str] = Counter()
        weights = [weight for part in self.parts.values() for weight in part.weights.values()]
        self.kernels = Kernels(weights, self.running)

    def follow(self, work: Any, inputs: Any) -> Any:
        """What `work` gives, watched."""
        self.kernels.hold(inputs)
        with self.kernels:
            return self.run(work)

    def facts(self) -> list[LayerFacts]:
        """Layers that ran, in the order they began, blocks with work of their own among them; then mere weights."""
        listed = [self.parts[module] for module in dict.fromkeys([*self.order, *self.parts])]
        return [layer_facts(part) for part in listed if self._is_shown(part)]

    def _is_shown(self, part: Part) -> bool:
        works = part.name in self.work and self.work[part.name].kernels > 0
        return works or part.flops > 0 or bool(part.weights) or (part.is_layer and part.output_bytes > 0)

    def _enter(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        super()._enter(module, args, kwargs)
        name = self.parts[module].name
        self.calls[name] += 1
        self.running.append(self.work.setdefault(name, Work()))

    def _leave(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        self.running.pop()
        super()._leave(module, args, kwargs, output)


def _layer(facts: LayerFacts, work: Work, calls: int) -> LayerWork:
    counted = sorted(work.products.items())
    products = tuple(Product(rows, inner, columns, times, own) for (rows, inner, columns, own), times in counted)
    return LayerWork(
        **asdict(facts),
        calls=calls,
        kernels=work.kernels,
        moved_bytes=work.moved_bytes,
        made_bytes=work.made_bytes,
        weights_read_bytes=work.weights_read_bytes,
        products=products,
    )


def _bytes(nested: Any) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors(nested))


def line(facts: Facts) -> str:
    """One line of JSON."""
    return json.dumps(to_document(facts), separators=(",", ":"))


def text(facts: Facts) -> str:
    """JSON with one row a layer and one a signature, so that a change shows where it is."""
    parts = []
    for key, value in to_document(facts).items():
        inside = [json.dumps(row, separators=(",", ":")) for row in value] if key in ("signatures", "layers") else None
        shown = json.dumps(value) if inside is None else "[\n" + ",\n".join(inside) + "\n]"
        parts.append(f"{json.dumps(key)}: {shown}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def write(names: Sequence[str], directory: Path) -> list[Path]:
    """The zoo's models as files, and those of history."""
    paths = []
    for name in names:
        path = directory / f"{name}.json"
        factory, shape = HISTORIC.get(name, (name, None))
        path.write_text(text(replace(trace(build(factory, shape)), model=name)), encoding="utf-8")
        paths.append(path)
    return paths


def times(built: Built, device: str, batches: Sequence[int]) -> dict[int, float]:
    """Median seconds of a batch, by batch size."""
    module = built.module.to(device)
    timer = CpuTimer() if device == "cpu" else CudaTimer(torch.device(device).index or 0)
    rule = Rule(seconds=SECONDS_A_BATCH)
    found = {}
    for batch in batches:
        inputs = built.make_input(batch, device, Settings())
        taken = repeat(timer, partial(built.forward, module, inputs), rule)
        found[batch] = median(sample.wall_s for sample in taken.samples)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 2 with one line where a model cannot be traced."""
    parser = argparse.ArgumentParser(prog="python -m calibrate.tracing", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("trace", help="print the layers of one model")
    one.add_argument("model", help="a name of the zoo, or package.module:factory")
    one.add_argument("--input", help="shape of one sample of your own model, e.g. 3x224x224")
    one.add_argument("--out", type=Path, help="write to this file instead of printing")
    files = commands.add_parser("write", help="write the files of the zoo's models")
    files.add_argument("models", nargs="*", help="all, where none is named")
    timed = commands.add_parser("time", help="run one model at several batch sizes")
    timed.add_argument("model", help="a name of the zoo, or package.module:factory")
    timed.add_argument("--input", help="shape of one sample of your own model, e.g. 3x224x224")
    timed.add_argument("--out", type=Path, help="write to this file instead of printing")
    timed.add_argument("--device", default="cpu", help="cpu, cuda:0, ...")
    timed.add_argument("--batches", required=True, help="e.g. 1,2,4")
    asked = parser.parse_args(arguments)
    try:
        if asked.command == "write":
            print(*write(asked.models or (*MODELS, *HISTORIC), SHIPPED), sep="\n")
            return 0
        shape = tuple(int(size) for size in asked.input.split("x")) if asked.input else None
        built = build(asked.model, shape)
        if asked.command == "trace":
            found = line(trace(built))
        else:
            found = json.dumps(times(built, asked.device, [int(batch) for batch in asked.batches.split(",")]))
        if asked.out:
            asked.out.write_text(found, encoding="utf-8")
        else:
            print(found)
    except (ZooError, TraceError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    with torch.no_grad():
        sys.exit(main())
