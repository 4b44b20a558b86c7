"""ONNX Runtime: a file as a model that can be called, on the CPU or on a CUDA device. Nothing of its inside is seen."""

from collections.abc import Mapping
from functools import partial
from importlib import import_module
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrate.zoo.built import Entry, Hooks, ZooTask, refuse
from calibrate.zoo.sources import ZooError, file_of

if TYPE_CHECKING:
    from torch import nn

PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
"""What ONNX Runtime calls kinds of devices."""
TYPES = {"tensor(float)": "float32", "tensor(float16)": "float16", "tensor(int64)": "int64", "tensor(int32)": "int32"}
"""Types of inputs that random numbers can stand for."""
WORDS = 1000
"""Of random text: every vocabulary has as many."""
PACKAGE = "onnxruntime"


class OnnxSession:
    """A file that ONNX Runtime runs where its inputs lie; nothing is copied from or to the device."""

    def __init__(self, session: Any, device: str) -> None:
        self.session = session
        self.kind, _, index = device.partition(":")
        self.index = int(index or 0)

    def __call__(self, **inputs: Any) -> Any:
        """The outputs: tensors on the CPU, what ONNX Runtime holds on a GPU."""
        import torch

        if self.kind == "cpu":
            found = self.session.run(None, {name: tensor.numpy() for name, tensor in inputs.items()})
            return tuple(map(torch.from_numpy, found))
        bound = self.session.io_binding()
        for name, tensor in inputs.items():
            held = tensor.contiguous()
            kind = str(held.dtype).removeprefix("torch.")
            bound.bind_input(name, self.kind, self.index, np.dtype(kind).type, tuple(held.shape), held.data_ptr())
        for output in self.session.get_outputs():
            bound.bind_output(output.name, self.kind, self.index)
        self.session.run_with_iobinding(bound)
        return bound.get_outputs()


def entry(model: str, shape: tuple[int, ...] | None) -> Entry:
    """How to run `onnx:detector.onnx`; ZooError where ONNX Runtime cannot."""
    path = file_of(model)
    given = _session(model, path, "cpu").get_inputs()
    samples = {one.name: _sample(model, one, shape if i == 0 else None) for i, one in enumerate(given)}
    types = {one.name: TYPES[one.type] for one in given}
    return Entry(
        partial(_made, model, path),
        next(iter(samples.values())),
        ZooTask.OTHER,
        fixed="its input is the file's",
        hooks=Hooks(make_input=partial(_inputs, samples, types)),
    )


def _session(model: str, path: Path, kind: str) -> Any:
    try:
        onnxruntime = import_module(PACKAGE)
    except ImportError:
        raise ZooError(
            f"{model}: running it needs {PACKAGE}. pip install {PACKAGE}-gpu, or {PACKAGE} for a CPU."
        ) from None
    provider = PROVIDERS[kind]
    if provider not in onnxruntime.get_available_providers():
        raise ZooError(f"{model}: this {PACKAGE} has no {provider}. pip install {PACKAGE}-gpu.")
    try:
        return onnxruntime.InferenceSession(str(path), providers=[provider])
    except Exception as error:
        refuse(f"{model}: {PACKAGE} cannot load it", error, "Try another version of it")


def _made(model: str, path: Path) -> "nn.Module":
    import torch

    from calibrate.zoo.networks import Opaque

    device = str(torch.get_default_device())
    return Opaque(OnnxSession(_session(model, path, device.partition(":")[0]), device))


def _sample(model: str, given: Any, shape: tuple[int, ...] | None) -> tuple[int, ...]:
    """One sample of an input, as the file has it or as it was asked for."""
    if given.type not in TYPES:
        raise ZooError(f"{model}: input {given.name} is a {given.type}, which is not made here. Name a factory.")
    batch, *sides = given.shape
    if isinstance(batch, int):
        raise ZooError(f"{model}: its batch is fixed at {batch}. Export it with a free one.")
    sample = shape or tuple(side if isinstance(side, int) else 0 for side in sides)
    if len(sample) != len(sides) or not prod(sample):
        raise ZooError(f"{model}: the shape of input {given.name} is not fixed. Write it, e.g. --input 3x224x224.")
    return sample


def _inputs(
    samples: Mapping[str, tuple[int, ...]], types: Mapping[str, str], batch: int, device: str
) -> dict[str, Any]:
    """Random inputs by name."""
    import torch

    def random(name: str) -> Any:
        size, kind = (batch, *samples[name]), getattr(torch, types[name])
        if kind.is_floating_point:
            return torch.rand(size, dtype=kind, device=device)
        return torch.randint(2, WORDS, size, dtype=kind, device=device)

    return {name: random(name) for name in samples}
