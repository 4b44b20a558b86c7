"""Zoo: the real models that are measured, by name, and a user's own as `package.module:factory`.

The names are known without torch; building a model imports it. Building a user's model **runs the user's code**: the
module is imported and its factory called, with all rights of this process.
Weights are random: speed and memory do not depend on them, but for the boxes a detector has to sort out (`_detector`).
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any

from calibrate.zoo import packages
from calibrate.zoo.built import SEED, Built, Entry, Hooks, ZooTask, refuse
from calibrate.zoo.sources import LECTURE, ZooError, how_to_name, is_sourced, module_and_function, sourced_meant
from simulator.near import known_ones, near_names

if TYPE_CHECKING:
    from torch import nn


def expand(name: str) -> Sequence[str] | None:
    """The models that a name or a group (`all`, `lecture`) stands for; None where it is neither."""
    return GROUPS.get(name) or ((name,) if name in MODELS or is_sourced(name) else None)


def build(name: str, input_shape: tuple[int, ...] | None = None, place: str = "cpu") -> Built:
    """The model of that name in eval mode, with the same random weights each time; ZooError if it cannot be.

    `input_shape` is one sample of a user's own model; the zoo's have theirs. That **runs the user's code**. At a
    `place` such as `cuda:0` weights are made there, so that a host without room for them can have them, unless the
    factory puts them elsewhere.
    """
    entry = _entry(name, input_shape)
    try:
        module = _made(entry, place)
    except ZooError:
        if place == "cpu":
            raise
        module = _made(entry, "cpu")  # the factory does what only the host can, such as giving a tensor to NumPy
    return Built(name, module.eval(), entry.shape, entry.task, entry.fixed, entry.hooks, entry.tokens_max)


def made_for(name: str, pixels: int, place: str = "cpu") -> Built | None:
    """The network of that name with positions for larger or smaller pictures; None where it is made for one size."""
    entry = _entry(name, None)
    if entry.made_for is None:
        return None
    larger = replace(entry, make=partial(entry.made_for, pixels), shape=(entry.shape[0], pixels, pixels))
    return Built(name, _made(larger, place).eval(), larger.shape, entry.task, entry.fixed, entry.hooks)


def _entry(name: str, input_shape: tuple[int, ...] | None) -> Entry:
    if is_sourced(name):
        return packages.entry_of(name, input_shape)
    if ":" in name:
        return _own(name, input_shape)
    if name in MODELS:
        return MODELS[name]
    close = near_names(name, MODELS)
    known = f"{known_ones(name, MODELS, 'docs/models.md')} {how_to_name(name)}"
    hint = f" Did you mean {' or '.join(close)}?" if close else known
    raise ZooError(f"{name}: no such model.{hint}")


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
    path, attribute = module_and_function(name)
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
        with _started_here():
            return factory(device=str(torch.get_default_device())) if takes_device else factory()
    except (Exception, SystemExit) as error:
        path, _, attribute = name.partition(":")
        refuse(f"{name}: the factory raised", error, f"Try python -c 'import {path} as m; m.{attribute}()'")


def _imported(name: str, path: str) -> Any:
    """The module, also of the folder where the program was started, as `python -c` finds it."""
    try:
        with _started_here():
            return import_module(path)
    except (Exception, SystemExit) as error:
        start = f"Write {meant}, or start" if (meant := sourced_meant(name)) else "Start"
        refuse(f"{name}: {path} cannot be imported", error, f"{start} where python -c 'import {path}' works")


@contextmanager
def _started_here() -> Iterator[None]:
    """Modules are found in the folder where the program was started.

    Only for the user's own code: a folder `onnx` there would hide the package of that name from everybody else.
    """
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        yield
    finally:
        with suppress(ValueError):  # the user's code may have taken it out
            sys.path.remove(here)


def _article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiouAEIOU' else 'a'} {noun}"


# The zoo's models


def _network(name: str) -> "nn.Module":
    """One of the project's own."""
    from calibrate.zoo import networks

    module: nn.Module = getattr(networks, name)()
    return module


def _torchvision(name: str, package: str = "torchvision.models", **options: Any) -> "nn.Module":
    """One of torchvision's, with random weights."""
    try:
        models = import_module(package)
    except (ImportError, RuntimeError) as error:  # RuntimeError: a torchvision built for another torch
        refuse(f"{name}: torchvision cannot be imported", error, "Install the torchvision made for your torch")
    module: nn.Module = getattr(models, name)(weights=None, **options)
    return module


def _detector(name: str, heads: Sequence[str], **options: Any) -> "nn.Module":
    """A detector of torchvision's with heads at zero: all boxes are anchors, all of 91 classes equally likely.

    So the first stage proposes as many boxes as it may, as a trained one does, and none passes a threshold of 0.05:
    random heads would have thousands of boxes to sort out where a trained one has a few.
    """
    from torch import nn

    module = _torchvision(name, "torchvision.models.detection", weights_backbone=None, **options)
    for parameter in (parameter for head in heads for parameter in module.get_submodule(head).parameters()):
        nn.init.zeros_(parameter)
    return module


def _resnet(name: str) -> Callable[[], "nn.Module"]:
    """A classifier whose residual branches end in 0: random ones would add up beyond fp16's range over 50 blocks."""
    return partial(_torchvision, name, zero_init_residual=True)


def _bert() -> "nn.Module":
    try:
        from transformers import BertConfig, BertModel
    except (ImportError, RuntimeError) as error:
        refuse("bert_base: transformers cannot be imported", error, "Install it: pip install transformers")
    module: nn.Module = BertModel(BertConfig())
    return module


def _picture(pixels: int) -> tuple[int, int, int]:
    return (3, pixels, pixels)


MODELS: Mapping[str, Entry] = {
    "yolov3": Entry(partial(_network, "YoloV3"), _picture(416), ZooTask.OTHER),
    "tiny_yolov3": Entry(partial(_network, "TinyYoloV3"), _picture(416), ZooTask.OTHER),
    "resnet152": Entry(_resnet("resnet152"), _picture(224)),
    "resnet50": Entry(_resnet("resnet50"), _picture(224)),
    "vgg16": Entry(partial(_torchvision, "vgg16"), _picture(224)),
    "faster_rcnn": Entry(
        partial(
            _detector,
            "fasterrcnn_resnet50_fpn",
            ("rpn.head.cls_logits", "rpn.head.bbox_pred", "roi_heads.box_predictor"),
        ),
        _picture(800),
        ZooTask.DETECTION,
        "it scales every picture to 800 pixels itself",
    ),
    "inceptionv3": Entry(partial(_torchvision, "inception_v3", init_weights=False), _picture(299)),
    "ssd_vgg": Entry(
        partial(_detector, "ssd300_vgg16", ("head",), score_thresh=0.05),
        _picture(300),
        ZooTask.DETECTION,
        "it scales every picture to 300 pixels itself",
    ),
    "lenet": Entry(partial(_network, "lenet"), (1, 28, 28), fixed="its linear layers fit 28 pixels only"),
    "alexnet": Entry(partial(_torchvision, "alexnet"), _picture(224)),
    "vgg19": Entry(partial(_torchvision, "vgg19"), _picture(224)),
    "resnet18": Entry(_resnet("resnet18"), _picture(224)),
    "resnet34": Entry(_resnet("resnet34"), _picture(224)),
    "resnet101": Entry(_resnet("resnet101"), _picture(224)),
    "mobilenet_v3_large": Entry(partial(_torchvision, "mobilenet_v3_large"), _picture(224)),
    "efficientnet_b0": Entry(partial(_torchvision, "efficientnet_b0"), _picture(224)),
    "vit_b_16": Entry(
        partial(_torchvision, "vit_b_16"),
        _picture(224),
        fixed="its positions fit 224 pixels only",
        made_for=lambda pixels: _torchvision("vit_b_16", image_size=pixels),
    ),
    "convnext_tiny": Entry(partial(_torchvision, "convnext_tiny"), _picture(224)),
    "osnet_x1_0": Entry(
        partial(_network, "osnet_x1_0"), (3, 256, 128), ZooTask.OTHER, "it reads people of 256 x 128 pixels"
    ),
    "crnn": Entry(partial(_network, "Crnn"), (1, 32, 100), ZooTask.OTHER, "it reads lines of 32 x 100 pixels"),
    "bert_base": Entry(_bert, (128,), ZooTask.TOKENS, "it reads 128 tokens, no picture", tokens_max=512),
}
GROUPS: Mapping[str, Sequence[str]] = {"all": tuple(MODELS), "lecture": LECTURE}
