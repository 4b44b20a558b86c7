"""Tracing: the layers of a model and what they make a device do, as JSON. Running it runs the model's own code.

`python -m calibrate.layers.tracing trace MODEL` prints one model; `... write` makes the shipped files.
"""

import argparse
import json
import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn

from calibrate.devices.regime import in_regime
from calibrate.devices.timer import CpuTimer, CudaTimer, StopRule, repeat
from calibrate.io.files import one_line
from calibrate.io.points import Settings
from calibrate.layers.facts import PACKED, REFUSED, SHIPPED, named, pack
from calibrate.layers.kernels import Kernels, Work
from calibrate.layers.modules import ModulePart, Tracer, bytes_of
from calibrate.layers.work import SCALED, Facts, LayerWork, Product, to_document
from calibrate.zoo.built import Built, tensors
from calibrate.zoo.packages import INPUT_NAMED, TAKES_OTHERS
from calibrate.zoo.sources import ZooError, installed, is_sourced
from calibrate.zoo.zoo import MODELS, build, made_for
from simulator.world.model import LayerFacts
from simulator.world.signature import sizes

HISTORIC = {"alexnet_2012": ("calibrate.zoo.networks:alexnet_2012", (3, 227, 227))}
"""Models that are looked at and not measured: factory and input."""

INPUT_GIVEN = "its input is the one that was traced"
TWICE = 2.0
GROWN = (0.5, TWICE, 4.0, 8.0, 16.0, 32.0, 64.0)
"""Times the own input at which a model is looked at: attention takes most of the memory from some length on."""
LARGEST, LONGEST = 8.0, 8192
"""Times the own side, and tokens, that are tried at most."""
META = "meta"
"""The device of tensors that have a shape and no numbers."""
WEIGHTS_MAX = 8e9
"""Bytes of weights that are worth having only to see layers, where the meta device will not do."""
WHY_LONGEST = 160
"""Characters of another's message that are repeated."""
SECONDS_A_BATCH = 3.0
"""At most, for timing one batch size."""


class TracingError(ValueError):
    """A model that cannot be traced; the text is one line."""


def look(model: str, shape: tuple[int, ...] | None) -> Facts:
    """The layers of any model: without weights or arithmetic, and where its code does not bear that, for real."""
    if model.startswith("onnx:"):
        from calibrate.layers import onnx_graph

        return onnx_graph.read(model, shape)
    built = build(model, shape, META)
    weight_bytes = bytes_of(built.module.state_dict().values())
    try:
        built.module.to(META)
        return trace(built)
    except Exception as error:  # a model's own code may raise anything
        if weight_bytes > WEIGHTS_MAX:
            many = f"{weight_bytes / 1e9:.0f} GB of weights are too many to run it for real"
            raise TracingError(f"{error} It was tried without weights; {many}.") from None
    return trace(build(model, shape))


def grown(facts: Facts) -> Facts:
    """The same with its layers at twice the input, where that is named with the model or the model is made for it."""
    shape = facts.input_shape
    if facts.twice or not (len(shape) == 1 or (len(shape) == 3 and shape[-2] == shape[-1])):
        return facts
    by_side = partial(_made_larger, facts)
    own = facts.input_shape[-1]
    larger = {times: by_side(round(times * own)) for times in GROWN}
    large = larger[TWICE]
    if large is None or [layer.name for layer in large.layers] != [layer.name for layer in facts.layers]:
        return replace(facts, fixed=TAKES_OTHERS) if facts.fixed == INPUT_NAMED else facts
    known = {times: one.peak_activation_bytes_per_sample for times, one in larger.items() if one}
    is_any_picture = facts.fixed == INPUT_NAMED and len(facts.input_shape) == 3
    return replace(
        facts,
        fixed="" if is_any_picture else facts.fixed,
        twice=tuple({key: getattr(layer, key) for key in SCALED} for layer in large.layers),
        peaks=tuple(sorted({1.0: facts.peak_activation_bytes_per_sample, **known}.items())),
        pixels_min=_smallest(own, lambda side: by_side(side) is not None) if is_any_picture else facts.pixels_min,
    )


def _made_larger(facts: Facts, side: int) -> Facts | None:
    """Its layers for so many tokens, or pixels a side; None where it does not run there, or where that is too large."""
    shape = (side,) if len(facts.input_shape) == 1 else (facts.input_shape[0], side, side)
    if side > max(LARGEST * facts.input_shape[-1], LONGEST if len(shape) == 1 else 0):
        return None
    try:
        built = _larger(facts, shape)
        return _pass_anywhere(built) if built else None
    except (ZooError, TracingError):
        return None


def _larger(facts: Facts, shape: tuple[int, ...]) -> Built | None:
    """The model for a larger input; None where it is made for its own alone."""
    if facts.fixed == INPUT_NAMED:
        return build(facts.model, shape, META)
    if len(shape) == 1:
        return replace(build(facts.model, None, META), shape=shape) if shape[0] <= facts.tokens_max else None
    return made_for(facts.model, shape[-1], META)


def _pass_anywhere(built: Built) -> Facts:
    """One pass without numbers, or with them where the model's code needs them."""
    try:
        built.module.to(META)
        return _pass(built, Settings())
    except (NotImplementedError, RuntimeError, TracingError):
        return _pass(replace(built, module=built.module.to_empty(device="cpu")), Settings())


def trace(built: Built) -> Facts:
    """All layers of a model, for one sample at its own resolution and, where it can be chosen, at twice that."""
    sourced = is_sourced(built.name)
    made_with = installed(built.name) if sourced else {}
    facts = replace(_pass(built, Settings()), made_with=made_with, tokens_max=built.tokens_max)
    is_own = ":" in built.name and not sourced  # what it reads is what the user gave
    if built.fixed or is_own or len(built.shape) != 3:
        return replace(facts, fixed=built.fixed or INPUT_GIVEN)
    return _with_twice(built, facts)


def _with_twice(built: Built, facts: Facts) -> Facts:
    """The same with its layers at twice the resolution, where it runs there and they are the same ones."""
    try:
        large = _pass(built, Settings(resolution=2 * built.shape[-1]))
    except TracingError:
        return replace(facts, fixed="it does not run at another resolution")
    scaled = {layer.name: {key: getattr(layer, key) for key in SCALED} for layer in large.layers}
    if scaled.keys() != {layer.name for layer in facts.layers}:
        return replace(facts, fixed="at another resolution its layers are others")
    twice = tuple(scaled[layer.name] for layer in facts.layers)
    return replace(facts, twice=twice, pixels_min=pixels_min(built))


def pixels_min(built: Built) -> int:
    """Side of the smallest picture that a model takes: between the first power of 2 that it takes and the one before.

    For a network may take multiples of a power of 2 only.
    """
    return _smallest(built.shape[-1], partial(_takes, built))


def _smallest(own: int, takes: Callable[[int], bool]) -> int:
    powers = (2**power for power in range(own.bit_length()))
    taken = next((side for side in powers if takes(side)), own)
    return bisect_left(range(taken), True, lo=taken // 2 + 1, key=takes)


def _takes(built: Built, side: int) -> bool:
    """Whether a model runs on a picture of that side; it may raise anything where it does not."""
    device = next((weight.device for weight in built.module.parameters()), torch.device("cpu"))
    try:
        with torch.no_grad():
            built.forward(built.module, built.make_input(1, str(device), Settings(resolution=side)))
    except Exception:
        return False
    return True


def _pass(built: Built, settings: Settings) -> Facts:
    watch = _Watch(built.module)
    inputs = built.make_input(1, watch.device, settings)
    try:
        outputs = watch.follow(lambda: built.forward(built.module, inputs), inputs)
    except Exception as error:
        why = one_line(error, WHY_LONGEST).rstrip(".") or type(error).__name__
        remedy = "Give the shape of one sample that it takes, without the batch, and see that it runs by itself."
        raise TracingError(
            f"{built.name}: does not run on an input of {sizes(built.shape)}. It fails with: {why}. {remedy}"
        ) from error
    return Facts(
        model=built.name,
        input_shape=built.shape,
        layers=tuple(
            _layer(layer, watch.work.get(layer.name, Work()), watch.calls[layer.name]) for layer in watch.facts()
        ),
        input_bytes_per_sample=bytes_of(tensors(inputs)),
        output_bytes_per_sample=bytes_of(tensors(outputs)),
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
        """Run `work` watched, and return its result."""
        self.kernels.hold(inputs)
        with self.kernels:
            return self.run(work)

    def is_shown(self, part: ModulePart) -> bool:
        """Blocks with work of their own, too."""
        return super().is_shown(part) or (part.name in self.work and self.work[part.name].kernels > 0)

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
    known = {field.name: getattr(of, field.name) for of in (facts, work) for field in fields(of)}
    return LayerWork(**{**known, "calls": calls, "products": products})


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
        if is_sourced(name):
            path = directory / f"{name.replace(':', '/', 1)}{PACKED}"
            pack(to_document(grown(look(name, None))), path)
            paths.append(path)
            continue
        path = directory / f"{name}.json"
        factory, shape = HISTORIC.get(name, (name, None))
        path.write_text(text(grown(replace(look(factory, shape), model=name))), encoding="utf-8")
        paths.append(path)
    return paths


def times(built: Built, device: str, batches: Sequence[int]) -> dict[int, float]:
    """Median seconds of a batch, by batch size, in the arithmetic that calibration takes by default."""
    module = built.module.to(device)
    timer = CpuTimer() if device == "cpu" else CudaTimer(torch.device(device).index or 0)
    rule = StopRule(seconds=SECONDS_A_BATCH)
    found = {}
    for batch in batches:
        inputs = built.make_input(batch, device, Settings())
        with in_regime(Settings()):
            taken = repeat(timer, partial(built.forward, module, inputs), rule)
        found[batch] = median(sample.wall_s for sample in taken.samples)
    return found


def parser() -> argparse.ArgumentParser:
    """Options of `python -m calibrate.layers.tracing`."""
    made = argparse.ArgumentParser(prog="python -m calibrate.layers.tracing", description=__doc__)
    commands = made.add_subparsers(dest="command", required=True)
    one = commands.add_parser("trace", help="print the layers of one model")
    timed = commands.add_parser("time", help="run one model at several batch sizes")
    for command in (one, timed):
        command.add_argument("model", help="a name of the zoo, source:name, or package.module:factory")
        command.add_argument("--input", help="shape of one sample of your own model, e.g. 3x224x224")
        command.add_argument("--out", type=Path, help="write to this file instead of printing")
    timed.add_argument("--device", default="cpu", help="cpu, cuda:0, ...")
    timed.add_argument("--batches", required=True, help="e.g. 1,2,4")
    files = commands.add_parser("write", help="write the files of the zoo's models")
    files.add_argument("models", nargs="*", help="all, where none is named")
    files.set_defaults(out=None)
    return made


def answer(given: argparse.Namespace) -> str:
    """The answer to `trace` or `time`, as one line of JSON."""
    shape = tuple(map(int, given.input.split("x"))) if given.input else None
    if given.command == "trace":
        return line(look(given.model, shape))
    return json.dumps(times(build(given.model, shape), given.device, list(map(int, given.batches.split(",")))))


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 2 with one line where a model cannot be traced."""
    given = parser().parse_args(arguments)
    code = 0
    try:
        if given.command == "write":
            print(*write(given.models or (*MODELS, *HISTORIC, *named()), SHIPPED), sep="\n")
            return 0
        found = answer(given)
    except (ZooError, TracingError) as error:
        print(error, file=sys.stderr)
        code, found = 2, json.dumps({REFUSED: str(error)})
    if given.out:
        given.out.write_text(found, encoding="utf-8")
    elif not code:
        print(found)
    return code


if __name__ == "__main__":
    with torch.no_grad():
        sys.exit(main())
