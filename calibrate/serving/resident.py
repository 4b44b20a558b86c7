"""Resident weights: a host copy of each model's weights, and tensors on the device that come and go. Needs torch."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch

from calibrate.devices.device import Device
from calibrate.serving.served import ServeError
from simulator.world.model import Layer

ALIGN_BYTES = 64
"""A cache line; torch's own tensors on a CPU start there too."""


class Arena:
    """Main memory that plays a device's: taken once, so that a load copies bytes and does not wait for fresh pages.

    First fit, neighbours joined when they are freed. Where no hole is large enough, a tensor gets memory of its own.
    """

    def __init__(self, size_bytes: int) -> None:
        self._memory = torch.empty(size_bytes, dtype=torch.uint8).fill_(0)  # `zeros` would leave its pages untouched
        self._holes = [(0, size_bytes)] if size_bytes else []
        """Start and length, in order."""
        self._taken: dict[int, tuple[int, int]] = {}
        """By address."""

    def take(self, like: torch.Tensor) -> torch.Tensor:
        """Room for a tensor of the same kind, shape and layout."""
        size = -(-like.nbytes // ALIGN_BYTES) * ALIGN_BYTES
        place = next((i for i, (_, length) in enumerate(self._holes) if length >= size), None)
        if not size or place is None:
            return torch.empty_like(like, device="cpu")
        start, length = self._holes.pop(place)
        if length > size:
            self._holes.insert(place, (start + size, length - size))
        room = self._memory[start : start + like.nbytes].view(like.dtype).as_strided(like.shape, like.stride())
        self._taken[room.data_ptr()] = (start, size)
        return room

    def give(self, tensor: torch.Tensor) -> None:
        """Room that `take` gave is free again."""
        if (room := self._taken.pop(tensor.data_ptr(), None)) is None:
            return
        start, size = room
        holes = self._holes
        i = bisect_left(holes, (start, 0))
        if i < len(holes) and holes[i][0] == start + size:
            size += holes.pop(i)[1]
        if i and sum(holes[i - 1]) == start:
            i -= 1
            before, length = holes.pop(i)
            start, size = before, length + size
        holes.insert(i, (start, size))


@dataclass(slots=True)
class ResidentGroup:
    """One layer in the simulator's sense: tensors that come and go together."""

    host: list[torch.Tensor]
    holders: list[list[Any]]
    """For each tensor the parameters and buffers that show it, of several models where they share the layer."""
    here: list[torch.Tensor] = field(default_factory=list)
    """On the device; empty while evicted."""

    @property
    def weight_bytes(self) -> int:
        """Bytes of its tensors."""
        return sum(tensor.nbytes for tensor in self.host)


class Weights:
    """The weights of all models of one process: always in host memory, on the device between `load` and `evict`."""

    def __init__(self, device: Device, *, pinned: bool) -> None:
        self.device = device
        self.pinned = pinned and device.kind == "cuda"
        self.groups: dict[str, ResidentGroup] = {}
        self._arena = Arena(0)
        self._copies: Any = torch.cuda.Stream(device.label) if device.kind == "cuda" else None  # type: ignore[no-untyped-call]

    def adopt(self, model: str, module: torch.nn.Module, layers: Sequence[Layer]) -> tuple[Layer, ...]:
        """Take a module's tensors into host memory, off the device; its layers with the bytes they really have."""
        for key, named in assigned(model, module, layers).items():
            self._join(model, key, named) if key in self.groups else self._open(key, named)
        keys = dict.fromkeys(layer.key for layer in layers)
        return tuple(Layer(key, self.groups[key].weight_bytes) for key in keys)

    def _open(self, key: str, named: Mapping[str, Any]) -> None:
        host = [tensor.detach().clone() for tensor in named.values()]
        if self.pinned:
            pinned = self.device.pin(host)
            if pinned is None:
                raise ServeError(
                    f"{key}: {sum(t.nbytes for t in host) / 1e9:.2f} GB of host memory could not be pinned. "
                    "Free memory, raise `ulimit -l`, or serve with swap.pinned: false"
                )
            host = pinned
        self.groups[key] = ResidentGroup(host, [[holder] for holder in named.values()])
        self._hide(self.groups[key])

    def _join(self, model: str, key: str, named: Mapping[str, Any]) -> None:
        group = self.groups[key]
        mine = [tuple(tensor.shape) for tensor in named.values()]
        theirs = [tuple(tensor.shape) for tensor in group.host]
        if mine != theirs:
            raise ServeError(
                f"{model}: layer {key!r} is shared, but its tensors have shapes {mine} here and {theirs} in another "
                "model. Give layers that differ different keys"
            )
        for holders, holder in zip(group.holders, named.values(), strict=True):
            holders.append(holder)
        self._hide(group)

    def reserve(self, size_bytes: int) -> None:
        """Have so much memory at hand for weights; a GPU's allocator keeps its own."""
        if self.device.kind == "cpu":
            count = sum(len(group.host) for group in self.groups.values())
            self._arena = Arena(size_bytes + ALIGN_BYTES * count)

    def load(self, keys: Iterable[str]) -> None:
        """Copy layers to the device; they are there when it returns. May be called from any thread, one at a time."""
        groups = [self.groups[key] for key in keys]
        if self._copies is None:
            self._fetch(groups)
        else:
            # Memory is taken on the copying stream too: blocks of the computing one may still be read by kernels.
            with torch.cuda.stream(self._copies):
                self._fetch(groups)
            self._copies.synchronize()
        for group in groups:
            self._show(group)

    def _fetch(self, groups: Sequence[ResidentGroup]) -> None:
        for group in groups:
            group.here = [self._room(tensor) for tensor in group.host]
            for target, source in zip(group.here, group.host, strict=True):
                target.copy_(source, non_blocking=True)

    def _room(self, like: torch.Tensor) -> torch.Tensor:
        if self.device.kind == "cpu":
            return self._arena.take(like)
        return torch.empty_like(like, device=self.device.label)

    def evict(self, keys: Iterable[str]) -> None:
        """Free layers at once. No batch that uses them may be running."""
        for key in keys:
            group = self.groups[key]
            self._hide(group)
            for tensor in group.here:
                self._arena.give(tensor)
            group.here = []

    def _show(self, group: ResidentGroup) -> None:
        for holders, tensor in zip(group.holders, group.here, strict=True):
            for holder in holders:
                holder.data = tensor

    def _hide(self, group: ResidentGroup) -> None:
        """Holders show an empty tensor: a model whose weights are away cannot run by accident."""
        for holders, tensor in zip(group.holders, group.host, strict=True):
            for holder in holders:
                holder.data = nothing(tensor.dtype)

    @property
    def held_bytes(self) -> int:
        """Bytes of all tensors on the device now."""
        return sum(tensor.nbytes for group in self.groups.values() for tensor in group.here)


@cache
def nothing(dtype: torch.dtype) -> torch.Tensor:
    """An empty tensor, the same for all: making one for each holder took longer than all else of an eviction."""
    return torch.empty(0, dtype=dtype)


def assigned(model: str, module: torch.nn.Module, layers: Sequence[Layer]) -> dict[str, dict[str, Any]]:
    """The module's parameters and buffers by layer key.

    One layer holds all. Of several, the part of a key after its last `/` is the name of a module within the model,
    and a tensor belongs to the longest that leads to it: `features.0.weight` to `alexnet/features.0`.
    """
    tensors: dict[str, Any] = dict([*module.named_parameters(), *module.named_buffers()])
    if len(layers) == 1:
        return {layers[0].key: tensors}
    found: dict[str, dict[str, Any]] = {layer.key: {} for layer in layers}
    paths = {layer.key: layer.key.rsplit("/", 1)[-1] for layer in layers}
    for name, tensor in tensors.items():
        fitting = [key for key, path in paths.items() if f"{name}.".startswith(f"{path}.")]
        if not fitting:
            raise ServeError(
                f"{model}: {name} belongs to none of the {len(layers)} layers of its profile. "
                "Layers' keys must end in names of modules, after a `/`; or list the model as one layer"
            )
        found[max(fitting, key=lambda key: len(paths[key]))][name] = tensor
    return found
