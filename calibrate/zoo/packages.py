"""Packages: models of torchvision, timm, transformers and Ultralytics by name, and TorchScript files. No weights.

Building one runs the package's code. Weights are random, and on the meta device there are none.
"""

import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrate.zoo import onnx_runtime
from calibrate.zoo.built import Entry, Hooks, ZooTask, refuse
from calibrate.zoo.sources import SOURCES, ZooError, config_of, file_of, installed, too_long, unknown

if TYPE_CHECKING:
    from torch import nn

Shape = tuple[int, ...] | None
"""Of one sample, where it was asked for."""
SCALES_ITSELF = "it scales every picture itself"
TAKES_OTHERS = "its layers fit this input only"
INPUT_NAMED = "its input is named with the model"
DETECTOR_PIXELS = 800
"""Of the pictures for which torchvision states the operations of its detectors."""
SURE = 10.0
"""A logit that leaves no doubt."""
WORDS = 1000
"""Of random text: every vocabulary has as many."""
SECOND_S = 16_000
"""Values of a second of sound."""
SUPPRESSION = ("nms", "qnms")
"""Operators of torchvision that its own import asks for."""
DECLARED: list[Any] = []
"""Operators of torchvision that are known by name only: they live as long as what declared them."""


def entry_of(model: str, shape: Shape) -> Entry:
    """How to get a model by `source:name`; ZooError where it cannot be had."""
    source, _, name = model.partition(":")
    if source == "onnx":
        return onnx_runtime.entry(model, shape)
    installed(model)
    entry = MAKERS[source](model, name, shape)
    made_for = entry.made_for and partial(_made, model, entry.made_for)
    return replace(entry, make=partial(_made, model, entry.make), made_for=made_for)


def _made(model: str, make: Callable[..., "nn.Module"], *pixels: int) -> "nn.Module":
    try:
        return make(*pixels)
    except ZooError:
        raise
    except Exception as error:
        refuse(
            f"{model}: {SOURCES[model.partition(':')[0]].package} cannot build it", error, "Try another version of it"
        )


def imported(model: str, module: str) -> Any:
    """A package's module; ZooError where it does not load."""
    try:
        return _with_torchvision(module)
    except (ImportError, RuntimeError) as error:
        package = SOURCES[model.partition(":")[0]].package
        message = str(error)
        broken = "torchvision" if "torchvision" in message else package
        remedy = "Install the torchvision made for your torch" if broken == "torchvision" else f"Install {package} anew"
        refuse(f"{model}: {package} cannot be imported", error, remedy)


def _with_torchvision(module: str) -> Any:
    """The same, also of a torchvision made for another torch: few models suppress boxes, which it cannot do there."""
    try:
        return import_module(module)
    except RuntimeError as error:
        if "torchvision::nms" not in str(error) or DECLARED:
            raise
    from torch.library import Library

    lacking: Any = Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
    for name in SUPPRESSION:
        lacking.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    DECLARED.append(lacking)
    return import_module(module)


# torchvision


def _torchvision(model: str, name: str, shape: Shape) -> Entry:
    models = imported(model, "torchvision.models")
    names = [one for one in models.list_models() if not one.startswith("quantized_")]
    if name not in names:
        raise unknown(model, name, names, "torchvision.models.list_models()")
    builder = models.get_model_builder(name)
    kind = builder.__module__.removeprefix("torchvision.models.").partition(".")[0]
    make = partial(_of_torchvision, builder, kind)
    _demand_picture(model, kind, shape)
    if kind == "detection":
        pixels = next((int(size) for size in ("300", "320") if size in name), DETECTOR_PIXELS)
        return Entry(make, shape or (3, pixels, pixels), ZooTask.DETECTION, SCALES_ITSELF)
    pixels = _pixels(models.get_model_weights(name))
    own = (3, pixels, pixels)
    fixed = name.startswith(("vit_", "maxvit"))
    task = ZooTask.OTHER if kind in ("segmentation", "video") else ZooTask.CLASSIFICATION
    made_for = partial(_of_torchvision, builder, kind) if name.startswith("vit_") else None
    return Entry(make, _input(model, shape, own, fixed), task, TAKES_OTHERS if fixed else "", made_for=made_for)


def _input(model: str, shape: Shape, own: tuple[int, ...], fixed: bool) -> tuple[int, ...]:
    """The shape that was asked for, else the model's own; ZooError where it takes no other than that."""
    if fixed and shape not in (None, own):
        raise ZooError(f"{model}: {TAKES_OTHERS}, {'x'.join(map(str, own))}. Leave the input away.")
    return shape or own


def _demand_picture(model: str, kind: str, shape: Shape) -> None:
    """ZooError where a model reads something else than a picture, and nobody says what."""
    remedies = {
        "optical_flow": "Name a factory with a make_input",
        "video": "" if shape else "Write its input, e.g. 3x16x112x112",
    }
    if remedy := remedies.get(kind):
        raise ZooError(f"{model}: what it reads is no single picture. {remedy}.")


def _pixels(weights: Any) -> int:
    """Side of the pictures that a model's usual weights were made for."""
    preset = weights.DEFAULT.transforms() if len(weights) else None
    size = getattr(preset, "crop_size", None) or getattr(preset, "resize_size", None) or [224]
    return int(size[0])


def _of_torchvision(builder: Any, kind: str, pixels: int | None = None) -> "nn.Module":
    """Made as its weights are: the heads that only training needs are there where the weights have them."""
    takes = signature(builder).parameters
    options: dict[str, Any] = {"weights": None, **({"image_size": pixels} if pixels else {})}
    if "weights_backbone" in takes:
        options["weights_backbone"] = None
    if "aux_loss" in takes and "lraspp" not in builder.__name__:
        options["aux_loss"] = True
    if builder.__name__ == "googlenet":
        options |= {"aux_logits": False, "init_weights": False}
    module: nn.Module = builder(**options)
    if kind == "detection":
        _undecided(module)
    return module


def _undecided(detector: "nn.Module") -> None:
    """Heads without weights that find nothing, as torchvision counts operations; where the first stage has no threshold
    it proposes as many boxes as it may, as a trained one does."""
    from torch import nn, no_grad

    parts: Any = dict(detector.named_children())
    for part in ("rpn.head", "roi_heads.box_predictor", "head"):
        try:
            head = detector.get_submodule(part)
        except AttributeError:
            continue
        for weight in head.parameters():
            if weight.dim() > 1:
                nn.init.zeros_(weight)
    with no_grad():
        if "roi_heads" in parts:
            parts["roi_heads"].box_predictor.cls_score.bias[0] = SURE
        if "rpn" in parts and parts["rpn"].score_thresh > 0:
            parts["rpn"].head.cls_logits.bias.fill_(-SURE)


# timm


def _timm(model: str, name: str, shape: Shape) -> Entry:
    timm = imported(model, "timm")
    bare = name.partition(".")[0]
    if not timm.is_model(bare):
        raise unknown(model, bare, timm.list_models(), "timm.list_models()")
    tagged = timm.list_pretrained(f"{bare}.*")
    if name != bare and name not in tagged:
        raise unknown(model, name, tagged, f"timm.list_pretrained('{bare}.*')")
    config = timm.get_pretrained_cfg(name, allow_unregistered=True)
    own = tuple(config.input_size) if config else (3, 224, 224)
    fixed = bool(config and config.fixed_input_size)
    make = partial(timm.create_model, name, pretrained=False)

    def made_for(pixels: int) -> "nn.Module":
        module: nn.Module = make(img_size=pixels)
        return module

    sample = _input(model, shape, own, fixed)
    return Entry(make, sample, fixed=TAKES_OTHERS if fixed else "", made_for=made_for if fixed else None)


# transformers

KINDS: Mapping[str, tuple[int, ...]] = {
    "input_ids": (128,),
    "pixel_values": (3, 224, 224),
    "input_features": (80, 3000),
    "input_values": (10 * SECOND_S,),
}
"""One sample of each input that models of transformers have, where the configuration says nothing."""
WITH_TEXT = ("clip", "siglip", "chinese_clip", "altclip", "align")
"""Types of models that read a picture and a text."""
WITH_DECODER = ("whisper", "vision-encoder-decoder", "speech_to_text", "t5", "bart", "mbart", "marian")
"""Types of models whose decoder reads what it wrote before: one token here."""
POSITIONS_LEFT = {"roberta": 2, "xlm-roberta": 2, "camembert": 2, "mpnet": 2}
"""Positions that no token has, by type: those up to that of padding."""
BARE = ("ForMaskedLM", "ForPreTraining")
"""Ends of the names of classes with heads that training alone needs."""


def _hf(model: str, name: str, shape: Shape) -> Entry:
    config, known = config_of(name)
    if find_spec("torchvision"):  # which transformers imports late, and then hides why it cannot
        imported(model, "torchvision")
    transformers = imported(model, "transformers")
    make = partial(_of_transformers, transformers, config)
    kind = known.get("reads") or _main_input(model, transformers, config)
    own = tuple(known.get("input") or _sample(kind, config))
    sample = shape or own
    if len(sample) != len(own):
        want = "x".join(map(str, own))
        raise ZooError(f"{model}: reads {kind}, one sample of e.g. {want}, got {'x'.join(map(str, sample))}. Write so.")
    settings = _settings(transformers, config)
    longest = 0
    if kind == "input_ids":
        positions = int(getattr(settings, "max_position_embeddings", 0) or 0)
        longest = max(0, positions - POSITIONS_LEFT.get(settings.model_type, 0))
    if longest and sample[0] > longest:
        raise ZooError(f"{model} {too_long(longest, sample[0])}.")
    hooks = Hooks(make_input=partial(_inputs, kind, sample, settings))
    return Entry(make, sample, ZooTask.OTHER, INPUT_NAMED, hooks, tokens_max=longest)


def _settings(transformers: Any, config: Mapping[str, Any]) -> Any:
    values = {key: value for key, value in config.items() if key not in ("model_type", "transformers_version")}
    return transformers.AutoConfig.for_model(config["model_type"], **values)


def _of_transformers(transformers: Any, config: Mapping[str, Any]) -> "nn.Module":
    settings = _settings(transformers, config)
    named = next(iter(config.get("architectures") or ()), "")
    # A class that only adds what training needs is not wanted.
    kind = None if named.endswith(BARE) else getattr(transformers, named, None)
    if kind is None:
        kind = transformers.AutoModel
    module: nn.Module = kind.from_config(settings) if kind is transformers.AutoModel else kind(settings)
    return module


def _main_input(model: str, transformers: Any, config: Mapping[str, Any]) -> str:
    """The name of what a model reads, by its class."""
    import torch

    try:
        with torch.device("meta"):
            kind = str(_of_transformers(transformers, config).main_input_name)
    except Exception as error:
        refuse(f"{model}: transformers cannot build it", error, "Check its configuration")
    if kind not in KINDS:
        raise ZooError(f"{model}: reads {kind}, which is not known here. Name a factory with a make_input.")
    return kind


def _sample(kind: str, config: Mapping[str, Any]) -> tuple[int, ...]:
    """One sample, as the configuration has it."""
    vision = config.get("vision_config") or config.get("encoder") or config
    pixels = vision.get("image_size")
    if kind == "input_features" and "num_mel_bins" in config:
        return (config["num_mel_bins"], KINDS[kind][1])
    if kind == "pixel_values" and pixels:
        sides = pixels if isinstance(pixels, list) else [pixels, pixels]
        return (vision.get("num_channels", 3), *sides)
    return KINDS[kind]


def _inputs(kind: str, sample: tuple[int, ...], settings: Any, batch: int, device: str) -> Any:
    """Random input; where a model reads more than one, by the names of its arguments."""
    import torch

    def words(count: int) -> Any:
        return torch.randint(2, WORDS, (batch, count), device=device)

    is_text = kind == "input_ids"
    inputs = {kind: words(sample[0]) if is_text else torch.rand(batch, *sample, device=device)}
    if settings.model_type in WITH_TEXT:
        inputs["input_ids"] = words(settings.text_config.max_position_embeddings)
    if settings.model_type in WITH_DECODER:
        inputs["decoder_input_ids"] = words(1)
    return inputs[kind] if len(inputs) == 1 else inputs


# Ultralytics


def _ultralytics(model: str, name: str, shape: Shape) -> Entry:
    # It asks the network for newer versions and installs what it lacks, where it is not told to leave that.
    os.environ.update(YOLO_OFFLINE="true", YOLO_AUTOINSTALL="false", YOLO_VERBOSE="false")
    package = imported(model, "ultralytics")
    folder = Path(package.__file__).parent / "cfg" / "models"
    known = sorted(_scaled(path.stem for path in folder.rglob("*.yaml")))
    if name not in known:
        raise unknown(model, name, known, "ultralytics/cfg/models")
    pixels = {"cls": 224, "obb": 1024}.get(name.rpartition("-")[2], 640)
    make = partial(_of_ultralytics, package, name)
    return Entry(make, shape or (3, pixels, pixels), ZooTask.OTHER)


def _scaled(stems: Iterable[str]) -> set[str]:
    """`yolo11-pose` is the file of `yolo11n-pose` to `yolo11x-pose`."""
    found = set()
    for stem in stems:
        head, dash, task = stem.partition("-")
        found |= {stem, *(f"{head}{scale}{dash}{task}" for scale in "nsmlx")}
    return found


def _of_ultralytics(package: Any, name: str) -> "nn.Module":
    kind = package.RTDETR if name.startswith("rtdetr") else partial(package.YOLO, verbose=False)
    module: nn.Module = kind(f"{name}.yaml").model
    return module


# Files


def _torchscript(model: str, _: str, shape: Shape) -> Entry:
    path = file_of(model)
    if shape is None:
        raise ZooError(f"{model}: the shape of its input is not known. Write it, e.g. 3x224x224.")
    return Entry(partial(_loaded, model, path), shape, ZooTask.OTHER)


def _loaded(model: str, path: Path) -> "nn.Module":
    import torch

    from calibrate.zoo.networks import Scripted

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # TorchScript is old, which is known
            return Scripted(torch.jit.load(str(path), map_location="cpu"))  # type: ignore[no-untyped-call]
    except (RuntimeError, ValueError, OSError) as error:
        refuse(f"{model}: is no TorchScript file, or a damaged one", error, "Save it with torch.jit.save")


MAKERS: Mapping[str, Callable[[str, str, Shape], Entry]] = {
    "torchvision": _torchvision,
    "timm": _timm,
    "hf": _hf,
    "ultralytics": _ultralytics,
    "torchscript": _torchscript,
}
