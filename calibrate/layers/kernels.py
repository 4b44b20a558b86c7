"""Kernels: what each part of a model makes a device do, seen as PyTorch hands one operator after another to it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor
from torch.multiprocessing import reductions
from torch.utils._python_dispatch import TorchDispatchMode

from calibrate.layers.modules import memory_of, uncompiled
from calibrate.zoo.built import tensors

StorageWeakRef: Any = reductions.StorageWeakRef
"""Says whether a storage is still used, without using it."""
GATHERS = ("embedding", "gather", "index", "index_select")
"""Operators that read only so much of their first input as they put out."""
NORMS = ("native_batch_norm", "_native_batch_norm_legit_no_training")
"""Operators that put out statistics too, which are empty in inference but on the meta device."""
METADATA = ("as_strided_", "empty", "empty_like", "empty_strided", "resize_", "set_")
"""Operators that change or make no values."""
PRODUCTS = {"mm": (0, 1), "addmm": (1, 2), "bmm": (0, 1), "baddbmm": (1, 2)}
"""Operators that multiply matrices, alone or in a batch, and which of their inputs they multiply."""
Product = tuple[int, int, int, bool]
"""Rows, inner length and columns of a matrix product, and whether its right side is no weight."""


@dataclass(slots=True)
class Work:
    """The work that one part of a model gave the device, in one pass of one sample."""

    kernels: int = 0
    moved_bytes: int = 0
    """Activations read and written by kernels."""
    made_bytes: int = 0
    """New memory that kernels wrote: what training keeps at most."""
    weights_read_bytes: int = 0
    """Weights read by kernels: once a batch, whatever its size."""
    products: Counter[Product] = field(default_factory=Counter)
    """How often each matrix product runs; a convolution is the product that im2col makes of it."""


@uncompiled
class Kernels(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves its own untyped
    """Counts operators, what they read and write, and the most memory that activations held at once.

    Each operator counts as one kernel, and views as none. What a framework fuses, or splits, is not known here.
    """

    def __init__(self, weights: Iterable[Tensor], parts: "list[Work]") -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.weights = {memory_of(weight) for weight in weights}
        self.parts = parts
        """The part that is running is last; it is charged."""
        self.peak_bytes = 0
        self._held: dict[int, tuple[Any, int]] = {}

    def hold(self, given: Any) -> None:
        """Count the model's input among what is held."""
        self._keep(tensors(given))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator, then count it."""
        named = kwargs or {}
        outputs = func(*args, **named)
        name = func.__name__.partition(".")[0]
        read, written = tensors([args, named]), tensors(outputs)[: 1 if name in NORMS else None]
        self._keep(written)
        memory_read = {memory_of(tensor) for tensor in read}
        made = [tensor for tensor in written if memory_of(tensor) not in memory_read]
        changes_values = name not in METADATA and (made or func._schema.is_mutable)
        if changes_values and self.parts:
            self.parts[-1].made_bytes += sum(map(_touched, made))
            self._charge(self.parts[-1], name, args, read, written)
        return outputs

    def _charge(self, work: Work, name: str, args: Any, read: list[Tensor], written: list[Tensor]) -> None:
        out_bytes = sum(map(_touched, written))
        work.kernels += 1
        if name in GATHERS:
            work.moved_bytes += 2 * out_bytes + sum(map(_touched, read[1:]))
        else:
            of_weights = sum(_touched(tensor) for tensor in read if memory_of(tensor) in self.weights)
            work.weights_read_bytes += of_weights
            work.moved_bytes += sum(map(_touched, read)) - of_weights + out_bytes
        work.products.update(self._products(name, args, written))

    def _products(self, name: str, args: Any, written: list[Tensor]) -> Mapping[Product, int]:
        if name == "convolution":
            return _convolution(args, written[0])
        if name not in PRODUCTS:
            return {}
        left, right = (args[place] for place in PRODUCTS[name])
        own = memory_of(right) not in self.weights
        times = len(left) if left.dim() == 3 else 1
        return {(left.shape[-2], left.shape[-1], right.shape[-1], own): times}

    def _keep(self, written: list[Tensor]) -> None:
        """Storages live as long as some tensor uses them: what is held now, and whether it was ever more."""
        self._held = {key: held for key, held in self._held.items() if not held[0].expired()}
        for tensor in written:
            if (memory := memory_of(tensor)) not in self.weights:
                storage = tensor.untyped_storage()
                self._held[memory] = (StorageWeakRef(storage), storage.nbytes())
        self.peak_bytes = max(self.peak_bytes, sum(size for _, size in self._held.values()))


def _convolution(args: Any, output: Tensor) -> Mapping[Product, int]:
    """Weights are out x in/groups x kernel; of a transposed one, in x out/groups x kernel."""
    given, weight, transposed, groups = args[0], args[1], args[6], args[8]
    kernel = weight[0, 0].numel()
    if transposed:
        return {(given[:, 0].numel(), weight.shape[0] // groups, weight.shape[1] * kernel, False): groups}
    return {(output[:, 0].numel(), weight.shape[1] * kernel, weight.shape[0] // groups, False): groups}


def _touched(tensor: Tensor) -> int:
    """Bytes of it that lie in memory: an expanded tensor repeats what is there."""
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())
