"""Layers: what a model is made of, by one traced pass of one sample. Running the pass runs the model's own code."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from inspect import unwrap
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import flop_counter
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from calibrate.io.files import one_line
from calibrate.io.points import Settings
from calibrate.zoo.built import Built, tensors
from simulator.world.model import LayerFacts
from simulator.world.signature import GEOMETRY, Signature, WeightShape, sizes

WHOLE = (nn.MultiheadAttention,)
"""Modules that compute with their children's weights without calling them: one layer, weights and all."""
WEIGHTS = ("name", "type", "signature", "params", "weight_bytes")
"""Facts of a layer that are known without running it."""
HALF = ("bf16", "fp16")
"""Precisions in which floats are kept in 2 bytes. The pass runs in 4, for which there are kernels everywhere."""
ROOT = "(model)"
"""Name of the layer that holds what the model itself holds and does outside of its parts."""
Mode = TypeVar("Mode", bound=TorchDispatchMode)


def uncompiled(mode: type[Mode]) -> type[Mode]:
    """A dispatch mode as it was written: torch wraps it to keep its compiler away, which imports that compiler.

    That is 1.5 s of each process that traces, where nothing is compiled.
    """
    setattr(mode, "__torch_dispatch__", unwrap(mode.__torch_dispatch__))  # noqa: B010 # types know of no assignment
    return mode


uncompiled(getattr(flop_counter, "_FlopCounterMode", FlopCounterMode))


def trace(built: Built, settings: Settings) -> tuple[dict[str, float], dict[str, Any]]:
    """Values and details of an `Outcome`: totals for one sample, and its layers in execution order as `LayerFacts`.

    Runs where the model's weights are: on the CPU for real, on the meta device without arithmetic. Operations are those
    that `torch.utils.flop_counter` knows: convolutions and matrix products. Each belongs to the innermost module that
    was running, so that layers add up to the total. `activation_bytes_per_sample` adds up what layers put out, but not
    memory shared with their input, nor what functions outside of layers put out.
    Bytes are those of the settings' precision; `amp` counts as fp32, in which it keeps weights.
    If the pass fails, only weights are listed, and details say why under `unknown`.
    """
    tracer = Tracer(built.module, 2 if settings.precision in HALF else None)
    weights: dict[str, float] = {"params": tracer.params, "weight_bytes": tracer.weight_bytes}
    try:
        inputs = built.make_input(1, tracer.device, settings)
        outputs = tracer.run(lambda: built.forward(built.module, inputs))
    except Exception as error:
        unknown = f"operations and activations: {type(error).__name__}: {one_line(error)}"
        weighty = (document(layer) for layer in tracer.facts() if layer.weight_bytes)
        listed = [{key: layer[key] for key in WEIGHTS} for layer in weighty]
        return weights, {"layers": listed, "unknown": unknown}
    facts = tracer.facts()
    flops = sum(layer.flops for layer in facts)
    values = weights | {
        "flops_per_sample": flops,
        "macs": flops / 2,
        "activation_bytes_per_sample": tracer.activation_bytes,
        "input_bytes_per_sample": tracer.bytes_of(tensors(inputs)),
        "output_bytes_per_sample": tracer.bytes_of(tensors(outputs)),
    }
    return values, {"layers": [document(layer) for layer in facts]}


def document(layer: LayerFacts) -> dict[str, Any]:
    """A layer as files have it."""
    return {**asdict(layer), "signature": str(layer.signature)}


@dataclass(slots=True)
class ModulePart:
    """A module that is or holds a layer, and what was seen of it."""

    name: str
    module: nn.Module
    weights: dict[str, Tensor]
    """Its own, and its children's where it is one whole, by name. Shared ones belong to the first that has them."""
    is_layer: bool
    """It has no parts of its own."""
    flops: int = 0
    input_bytes: int = 0
    output_bytes: int = 0
    starts: list[int] = field(default_factory=list)
    """Total operations at each start that has not ended."""


class Tracer:
    """Watches the modules of a model while it runs."""

    def __init__(self, model: nn.Module, float_bytes: int | None = None) -> None:
        """`float_bytes`: what a float will take where the model is to run; None: what it takes here."""
        self.float_bytes = float_bytes
        self.parts = {part.module: part for part in _parts(model)}
        self.order: dict[nn.Module, None] = {}
        self.inside: list[int] = []
        """For each module that is running, the operations of modules that ran inside."""
        self.activation_bytes = 0
        self.counter = FlopCounterMode(display=False)
        held = [weight for part in self.parts.values() for weight in part.weights.values()]
        self.device = str(held[0].device) if held else "cpu"
        self.weight_bytes = self.bytes_of(held)
        self.params = sum(weight.numel() for weight in held if isinstance(weight, nn.Parameter))

    def run(self, work: Any) -> Any:
        """Run `work` watched, and return its result."""
        hooks = [module.register_forward_pre_hook(self._enter, with_kwargs=True) for module in self.parts]
        hooks += [module.register_forward_hook(self._leave, with_kwargs=True) for module in self.parts]
        try:
            with torch.no_grad(), _countable(), self.counter:
                return work()
        finally:
            for hook in hooks:
                hook.remove()

    def facts(self) -> list[LayerFacts]:
        """Layers that ran, in order, then those that only hold weights."""
        parts = [self.parts[module] for module in dict.fromkeys([*self.order, *self.parts])]
        return [layer_facts(part, self.float_bytes) for part in parts if self.is_shown(part)]

    def is_shown(self, part: ModulePart) -> bool:
        """The part holds weights, or does something by itself."""
        return bool(part.weights or part.flops or (part.is_layer and part.output_bytes))

    def bytes_of(self, listed: Iterable[Tensor]) -> int:
        """Where the model is to run."""
        return bytes_of(listed, self.float_bytes)

    def _enter(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        self.order.setdefault(module)
        self.parts[module].starts.append(self.counter.get_total_flops())
        self.inside.append(0)

    def _leave(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        part, inside = self.parts[module], self.inside.pop()
        total = self.counter.get_total_flops() - part.starts.pop()
        part.flops += total - inside
        if self.inside:
            self.inside[-1] += total
        given, put_out = tensors([args, kwargs]), tensors(output)
        part.input_bytes += self.bytes_of(given)
        part.output_bytes += self.bytes_of(put_out)
        if part.is_layer:
            memory = {memory_of(tensor) for tensor in given}
            self.activation_bytes += self.bytes_of(tensor for tensor in put_out if memory_of(tensor) not in memory)


@contextmanager
def _countable() -> Iterator[None]:
    """Attention as plain matrix products: its fused forms are not counted on every device."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def _parts(model: nn.Module) -> Iterator[ModulePart]:
    """All modules of a model but those inside of whole ones, each with the weights that no earlier one has."""
    seen: set[Tensor] = set()
    inside: set[nn.Module] = set()
    for name, module in model.named_modules():
        if module in inside:
            continue
        whole = isinstance(module, WHOLE)
        if whole:
            inside.update(module.modules())
        held = (*module.named_parameters(recurse=whole), *module.named_buffers(recurse=whole))
        weights = {key: weight for key, weight in held if weight not in seen}
        seen.update(weights.values())
        yield ModulePart(name or ROOT, module, weights, whole or not any(module.children()))


def layer_facts(part: ModulePart, float_bytes: int | None = None) -> LayerFacts:
    return LayerFacts(
        name=part.name,
        type=type(part.module).__name__,
        signature=signature(part.module, part.weights),
        params=sum(weight.numel() for weight in part.weights.values() if isinstance(weight, nn.Parameter)),
        weight_bytes=bytes_of(part.weights.values(), float_bytes),
        flops=part.flops,
        input_bytes=part.input_bytes,
        output_bytes=part.output_bytes,
    )


def signature(module: nn.Module, weights: dict[str, Tensor]) -> Signature:
    """The kind, geometry and weights of a module: here without a bias where it has none."""
    named = {name: getattr(module, name, None) for name in GEOMETRY}
    geometry = tuple(
        (name, _text(value)) for name, value in named.items() if isinstance(value, int | str | tuple | list)
    )
    shapes = tuple(WeightShape(name, tuple(weight.shape) or (1,), _type(weight)) for name, weight in weights.items())
    return Signature(type(module).__name__, geometry, shapes)


def _text(value: Any) -> str:
    return sizes(value) if isinstance(value, list | tuple) else str(value)


def _type(weight: Tensor) -> str:
    return str(weight.dtype).removeprefix("torch.")


def bytes_of(listed: Iterable[Tensor], float_bytes: int | None = None) -> int:
    """Bytes of tensors, where a float takes so many; None: what it takes here."""
    return sum(
        tensor.numel() * (float_bytes if float_bytes and tensor.is_floating_point() else tensor.itemsize)
        for tensor in listed
    )


def memory_of(tensor: Tensor) -> int:
    """Identity of the memory behind a tensor, the same for its views; works without memory, on the meta device."""
    return int(tensor.untyped_storage()._cdata)
