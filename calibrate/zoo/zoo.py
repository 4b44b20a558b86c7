"""Zoo: the real models that are measured, by name, and a user's own as `package.module:factory`.

The names are known without torch; building a model imports it. Building a user's model **runs the user's code**: the
module is imported and its factory called, with all rights of this process.
Weights are random: speed and memory do not depend on them, but for the boxes a detector has to sort out (`_detector`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any, NoReturn

from calibrate.io.files import one_line
from calibrate.io.points import Settings
from simulator.near import near_names

if TYPE_CHECKING:
    from torch import Tensor, nn

SEED = 0
"""Seed of random weights and inputs."""
VOCABULARY = 30522
"""Tokens that BERT knows."""


class ZooError(ValueError):
    """A model cannot be had; the text is one line."""


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


def expand(name: str) -> Sequence[str] | None:
    """The models that a name or a group (`all`, `lecture`) stands for; None where it is neither."""
    return GROUPS.get(name) or ((name,) if name in MODELS else None)


def build(name: str, input_shape: tuple[int, ...] | None = None, place: str = "cpu") -> Built:
    """The model of that name in eval mode, with the same random weights each time; ZooError if it cannot be.

    `input_shape` is one sample of a user's own model; the zoo's have theirs. That **runs the user's code**. At a
    `place` such as `cuda:0` weights are made there, so that a host without room for them can have them, unless the
    factory puts them elsewhere.
    """
    entry = _own(name, input_shape) if ":" in name else MODELS.get(name)
    if entry is None:
        close = near_names(name, MODELS)
        known = f"Known are {', '.join(MODELS)}; your own: package.module:factory."
        hint = f"Did you mean {' or '.join(close)}?" if close else known
        raise ZooError(f"{name}: no such model. {hint}")
    try:
        module = _made(entry, place)
    except ZooError:
        if place == "cpu":
            raise
        module = _made(entry, "cpu")  # the factory does what only the host can, such as giving a tensor to NumPy
    return Built(name, module.eval(), entry.shape, entry.task, entry.fixed, entry.hooks)


def _made(entry: Entry, place: str) -> "nn.Module":
    import torch

    there = nullcontext() if place == "cpu" else torch.device(place)
    with torch.random.fork_rng(devices=[]), there:
        torch.manual_seed(SEED)
        return entry.make()


# A user's own model


def _own(name: str, shape: tuple[int, ...] | None) -> Entry:
    """The model of a factory: a function that returns it, or an object or class with `make_model` and hooks."""
    factory = factory_of(name)
    make = getattr(factory, "make_model", factory)
    hooks = Hooks(*(getattr(factory, hook, None) for hook in ("make_input", "forward", "loss")))
    if shape is None and hooks.make_input is None:
        remedy = "Write --input, e.g. --input 3x224x224, or give the factory a make_input"
        raise ZooError(f"{name}: the shape of its input is not known. {remedy}.")
    return Entry(lambda: _call(name, make), shape or (), ZooTask.OTHER, hooks=hooks)


def factory_of(name: str) -> Any:
    """Import the module and find the factory there; of a class with `make_model`, one object."""
    path, _, attribute = name.partition(":")
    if not path or not attribute:
        raise ZooError(f"{name}: must name a module and a function. Write package.module:factory.")
    factory = getattr(_imported(name, path), attribute, None)
    if hasattr(factory, "make_model"):
        return _ran(name, factory) if isinstance(factory, type) else factory
    if not callable(factory):
        wrong = "is not there" if factory is None else f"is {_article(type(factory).__name__)}, which cannot be called"
        raise ZooError(
            f"{name}: {attribute} {wrong}. Name a function of {path} that takes nothing and returns a model."
        )
    return factory


def _call(name: str, make: Callable[..., Any]) -> "nn.Module":
    """Call what makes the model. This runs the user's code."""
    from torch import nn

    from calibrate.zoo.networks import Opaque

    model = _ran(name, make)
    if isinstance(model, nn.Module):
        return model
    if callable(model):
        return Opaque(model)
    wrong = f"returned {_article(type(model).__name__)}, not a torch.nn.Module"
    raise ZooError(f"{name}: the factory {wrong}. Return the model itself, or what can be called in its place.")


def _ran(name: str, factory: Callable[..., Any]) -> Any:
    """The result of a user's function; one that takes a `device` gets the one it is built for."""
    import torch

    try:
        takes_device = "device" in signature(factory).parameters
        return factory(device=str(torch.get_default_device())) if takes_device else factory()
    except (Exception, SystemExit) as error:
        path, _, attribute = name.partition(":")
        _refuse(f"{name}: the factory raised", error, f"Try python -c 'import {path} as m; m.{attribute}()'")


def _imported(name: str, path: str) -> Any:
    try:
        return import_module(path)
    except (Exception, SystemExit) as error:
        _refuse(f"{name}: {path} cannot be imported", error, f"Start where python -c 'import {path}' works")


def _refuse(what: str, error: BaseException, remedy: str) -> NoReturn:
    text = one_line(error)
    raise ZooError(f"{what}: {type(error).__name__}{text and ': '}{text}. {remedy}.") from error


def _article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiouAEIOU' else 'a'} {noun}"


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


# The zoo's models


def _network(name: str) -> Callable[[], "nn.Module"]:
    """One of the project's own."""

    def make() -> "nn.Module":
        from calibrate.zoo import networks

        module: nn.Module = getattr(networks, name)()
        return module

    return make


def _vision(name: str, **options: Any) -> Callable[[], "nn.Module"]:
    """A classifier of torchvision's."""
    return _torchvision("torchvision.models", name, **options)


def _resnet(name: str) -> Callable[[], "nn.Module"]:
    """A classifier whose residual branches end in 0: random ones would add up beyond fp16's range over 50 blocks."""
    return _vision(name, zero_init_residual=True)


def _detector(name: str, heads: Sequence[str], **options: Any) -> Callable[[], "nn.Module"]:
    """A detector of torchvision's with heads at zero: all boxes are anchors, all of 91 classes equally likely.

    So the first stage proposes as many boxes as it may, as a trained one does, and none passes a threshold of 0.05:
    random heads would have thousands of boxes to sort out where a trained one has a few.
    """
    make = _torchvision("torchvision.models.detection", name, weights_backbone=None, **options)

    def undecided() -> "nn.Module":
        from torch import nn

        module = make()
        for parameter in (parameter for head in heads for parameter in module.get_submodule(head).parameters()):
            nn.init.zeros_(parameter)
        return module

    return undecided


def _torchvision(package: str, name: str, **options: Any) -> Callable[[], "nn.Module"]:
    def make() -> "nn.Module":
        try:
            models = import_module(package)
        except (ImportError, RuntimeError) as error:  # RuntimeError: a torchvision built for another torch
            _refuse(f"{name}: torchvision cannot be imported", error, "Install the torchvision made for your torch")
        module: nn.Module = getattr(models, name)(weights=None, **options)
        return module

    return make


def _bert() -> "nn.Module":
    try:
        from transformers import BertConfig, BertModel
    except (ImportError, RuntimeError) as error:
        _refuse("bert_base: transformers cannot be imported", error, "Install it: pip install transformers")
    module: nn.Module = BertModel(BertConfig())
    return module


def _picture(pixels: int) -> tuple[int, int, int]:
    return (3, pixels, pixels)


LECTURE = ("yolov3", "tiny_yolov3", "resnet152", "resnet50", "vgg16", "faster_rcnn", "inceptionv3", "ssd_vgg")
"""The eight of the lecture's table, named as the shipped profiles name them."""
MODELS: Mapping[str, Entry] = {
    "yolov3": Entry(_network("YoloV3"), _picture(416), ZooTask.OTHER),
    "tiny_yolov3": Entry(_network("TinyYoloV3"), _picture(416), ZooTask.OTHER),
    "resnet152": Entry(_resnet("resnet152"), _picture(224)),
    "resnet50": Entry(_resnet("resnet50"), _picture(224)),
    "vgg16": Entry(_vision("vgg16"), _picture(224)),
    "faster_rcnn": Entry(
        _detector("fasterrcnn_resnet50_fpn", ("rpn.head.cls_logits", "rpn.head.bbox_pred", "roi_heads.box_predictor")),
        _picture(800),
        ZooTask.DETECTION,
        "it scales every picture to 800 pixels itself",
    ),
    "inceptionv3": Entry(_vision("inception_v3", init_weights=False), _picture(299)),
    "ssd_vgg": Entry(
        _detector("ssd300_vgg16", ("head",), score_thresh=0.05),
        _picture(300),
        ZooTask.DETECTION,
        "it scales every picture to 300 pixels itself",
    ),
    "lenet": Entry(_network("lenet"), (1, 28, 28), fixed="its linear layers fit 28 pixels only"),
    "alexnet": Entry(_vision("alexnet"), _picture(224)),
    "vgg19": Entry(_vision("vgg19"), _picture(224)),
    "resnet18": Entry(_resnet("resnet18"), _picture(224)),
    "resnet34": Entry(_resnet("resnet34"), _picture(224)),
    "resnet101": Entry(_resnet("resnet101"), _picture(224)),
    "mobilenet_v3_large": Entry(_vision("mobilenet_v3_large"), _picture(224)),
    "efficientnet_b0": Entry(_vision("efficientnet_b0"), _picture(224)),
    "vit_b_16": Entry(_vision("vit_b_16"), _picture(224), fixed="its positions fit 224 pixels only"),
    "convnext_tiny": Entry(_vision("convnext_tiny"), _picture(224)),
    "bert_base": Entry(_bert, (128,), ZooTask.TOKENS, "it reads 128 tokens, no picture"),
}
GROUPS: Mapping[str, Sequence[str]] = {"all": tuple(MODELS), "lecture": LECTURE}
