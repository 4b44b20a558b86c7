"""Built: a model with the input it is fed, its inference and its training loss in one form for all.

Random weights: speed and memory do not depend on them.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NoReturn

from calibrate.io.files import one_line
from calibrate.io.points import Settings
from calibrate.zoo.sources import ZooError

if TYPE_CHECKING:
    from torch import Tensor, nn

SEED = 0
"""Seed of random weights and inputs."""
VOCABULARY = 30522
"""Tokens that BERT knows."""


def refuse(what: str, error: BaseException, remedy: str) -> NoReturn:
    """ZooError: `resnet50: torchvision cannot be imported: RuntimeError: ... . Install ... .`"""
    text = one_line(error)
    raise ZooError(f"{what}: {type(error).__name__}{text and ': '}{text}. {remedy}.") from error


class ZooTask(StrEnum):
    """The input of a model, and the loss of a training step."""

    CLASSIFICATION = "classification"
    """Pictures; cross entropy, and 0.4 of that of an auxiliary head where there is one (Szegedy et al. 2015)."""
    DETECTION = "detection"
    """A list of pictures; the model's own losses, added up, with two fixed boxes a picture."""
    TOKENS = "tokens"
    """Rows of word numbers; mean of the squared outputs."""
    OTHER = "other"
    """One tensor; mean of the squared outputs: its backward pass costs what any other loss's does."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """What a factory of a user's own says of its model besides how to make it; None: as for any other model."""

    make_input: Callable[[int, str], Any] | None = None
    """From batch size and device: a tensor, a tuple of arguments, a dictionary of them by name, or what the model
    takes."""
    forward: Callable[[Any, Any], Any] | None = None
    """From model and input: what it puts out."""
    loss: Callable[[Any, Any], "Tensor"] | None = None
    """From model and input: the loss of a training step."""


@dataclass(frozen=True, slots=True)
class Entry:
    """How to get one model of the zoo."""

    make: Callable[[], "nn.Module"]
    shape: tuple[int, ...]
    """Shape of one sample."""
    task: ZooTask = ZooTask.CLASSIFICATION
    fixed: str = ""
    """Why its resolution cannot be chosen; empty where it can."""
    hooks: Hooks = Hooks()
    made_for: Callable[[int], "nn.Module"] | None = None
    """The network for pictures of so many pixels, where it learns a position for each of their parts."""
    tokens_max: int = 0
    """The most tokens that it has positions for; 0: as many as there are."""


@dataclass(frozen=True, slots=True)
class Built:
    """A model, and how it is fed: inputs, inference and training loss have one form for all models."""

    name: str
    module: "nn.Module"
    """In eval mode."""
    shape: tuple[int, ...]
    """Shape of one sample at the model's own resolution."""
    task: ZooTask
    fixed: str = ""
    """Why its resolution cannot be chosen; empty where it can."""
    hooks: Hooks = Hooks()
    tokens_max: int = 0
    """The most tokens that it has positions for; 0: as many as there are."""

    @property
    def is_opaque(self) -> bool:
        """True where it can be called and nothing more: it has no layers, no weights to load and no training step."""
        from calibrate.zoo.networks import Opaque

        return isinstance(self.module, Opaque)

    @property
    def sample(self) -> str:
        """One sample in words: `3x224x224`."""
        return "x".join(map(str, self.shape)) or "its factory's input"

    def make_input(self, batch: int, device: str, settings: Settings) -> Any:
        """Random input of `batch` samples, the same on every call; ZooError where the resolution cannot be had."""
        import torch

        shape = self._shape_at(settings.resolution)
        if self.hooks.make_input:
            return self._own_input(batch, device)
        # The meta device has no random numbers, and needs none.
        generator = None if device == "meta" else torch.Generator(device).manual_seed(SEED)
        if self.task is ZooTask.TOKENS:
            return torch.randint(VOCABULARY, (batch, *shape), device=device, generator=generator)
        samples = torch.rand(batch, *shape, device=device, generator=generator)
        return list(samples) if self.task is ZooTask.DETECTION else samples

    def _own_input(self, batch: int, device: str) -> Any:
        """Input by the factory; where tensors have no numbers, those of the CPU without theirs."""
        import torch

        assert self.hooks.make_input
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(SEED)
            if device != "meta":
                return self.hooks.make_input(batch, device)
            return mapped(self.hooks.make_input(batch, "cpu"), lambda tensor: tensor.to("meta"))

    def forward(self, module: Any, inputs: Any) -> Any:
        """Inference with `module`: the built one, or what compiling it gave."""
        if self.hooks.forward:
            return self.hooks.forward(module, inputs)
        match inputs:
            case Mapping():
                return module(**inputs)
            case tuple():
                return module(*inputs)
        return module(inputs)

    def loss(self, module: Any, inputs: Any) -> "Tensor":
        """The loss of a training step, as `Task` has it; `module` is in train mode. Targets are made on the way."""
        if self.hooks.loss:
            return self.hooks.loss(module, inputs)
        match self.task:
            case ZooTask.CLASSIFICATION:
                return _cross_entropy(module(inputs))
            case ZooTask.DETECTION:
                return _total(module(inputs, [_boxes(picture) for picture in inputs]).values())
        outputs = floats(self.forward(module, inputs))
        return _total(output.square().mean() for output in outputs)

    def _shape_at(self, resolution: int | None) -> tuple[int, ...]:
        if resolution is None or resolution == self.shape[-1]:
            return self.shape
        if self.fixed or len(self.shape) != 3:
            reason = self.fixed or f"one sample is {self.sample}, no picture"
            raise ZooError(f"{self.name}: resolution {resolution}: {reason}. Leave --resolution away for this model.")
        return (self.shape[0], resolution, resolution)


def floats(nested: Any) -> list["Tensor"]:
    """All floating-point tensors in nested sequences and mappings."""
    return [tensor for tensor in tensors(nested) if tensor.is_floating_point()]


def tensors(nested: Any) -> list["Tensor"]:
    """All tensors in nested sequences and mappings."""
    from torch import Tensor

    match nested:
        case Tensor():
            return [nested]
        case Mapping():
            return tensors(list(nested.values()))
        case list() | tuple():
            return [tensor for part in nested for tensor in tensors(part)]
    return []


def mapped(nested: Any, change: Callable[["Tensor"], "Tensor"]) -> Any:
    """The same nested sequences and mappings with each tensor changed."""
    from torch import Tensor

    match nested:
        case Tensor():
            return change(nested)
        case Mapping():
            return {key: mapped(value, change) for key, value in nested.items()}
        case list() | tuple():
            return type(nested)([mapped(part, change) for part in nested])
    return nested


# Losses


def _cross_entropy(outputs: Any) -> "Tensor":
    from torch.nn.functional import cross_entropy

    logits, *auxiliary = outputs if isinstance(outputs, tuple) else (outputs,)
    target = logits.new_zeros(len(logits)).long()
    return _total([cross_entropy(logits, target), *(0.4 * cross_entropy(aux, target) for aux in auxiliary)])


def _boxes(picture: "Tensor") -> dict[str, "Tensor"]:
    """Two boxes, corner to corner in pixels, of classes 1 and 2; made where the picture is: nothing is copied."""
    import torch

    height, width = picture.shape[-2:]
    across, down = (
        torch.linspace(0.1 * size, 0.9 * size, 4, dtype=picture.dtype, device=picture.device)
        for size in (width, height)
    )
    corners = torch.stack((across, down), dim=1)
    return {"boxes": corners.view(2, 4), "labels": torch.arange(1, 3, device=picture.device)}


def _total(losses: Iterable["Tensor"]) -> "Tensor":
    first, *others = losses
    return sum(others, start=first)
