"""Sources: packages and files whose models go by `source:name`, such as `timm:convnext_tiny.fb_in1k`. Needs no torch.

Nothing here uses the network: of a model of transformers the configuration alone is needed, and it is shipped, lies in
a file, or in the folder where Hugging Face keeps what was fetched before.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from calibrate.io.files import FileError, read_text
from simulator.near import near_names

DATA = Path(__file__).parent / "data"
LECTURE = ("yolov3", "tiny_yolov3", "resnet152", "resnet50", "vgg16", "faster_rcnn", "inceptionv3", "ssd_vgg")
"""The eight of the lecture's table, named as the shipped profiles name them."""
CONFIG = "config.json"
"""A model's configuration, as Hugging Face names it."""


class ZooError(ValueError):
    """A model cannot be had; the text is one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSource:
    """Where models come from by name, or from a file."""

    package: str
    """What must be installed."""
    example: str
    is_file: bool = False
    licence: str = ""
    """Named where it binds whoever serves the model."""


SOURCES: Mapping[str, ModelSource] = {
    "torchvision": ModelSource(package="torchvision", example="torchvision:efficientnet_v2_s"),
    "timm": ModelSource(package="timm", example="timm:convnext_tiny.fb_in1k"),
    "hf": ModelSource(package="transformers", example="hf:bert-base-uncased"),
    "ultralytics": ModelSource(package="ultralytics", example="ultralytics:yolo11s", licence="AGPL-3.0"),
    "onnx": ModelSource(package="onnx", example="onnx:detector.onnx", is_file=True),
    "torchscript": ModelSource(package="torch", example="torchscript:model.pt", is_file=True),
}
RUNTIMES: Mapping[str, str] = {"onnx": "onnxruntime"}
"""What runs the files of a source, where PyTorch does not."""
ULTRALYTICS = ("yolo", "rtdetr")
"""Beginnings of the names of Ultralytics' models."""


def module_and_function(name: str) -> tuple[str, str]:
    """The two that `package.module:factory` names. ZooError where one is missing."""
    path, _, attribute = name.partition(":")
    if not path or not attribute:
        raise ZooError(f"{name}: must name a module and a function. Write package.module:factory.")
    return path, attribute


def is_sourced(model: str) -> bool:
    """True of `timm:resnet50`, not of `package.module:factory` or `resnet50`."""
    return model.partition(":")[0] in SOURCES and ":" in model


def sourced_meant(model: str) -> str:
    """`timm:resnet50` for `Timm:resnet50` and `tim:resnet50`; empty of names that begin like no source."""
    kind, _, name = model.partition(":")
    close = near_names(kind, SOURCES) if name and kind not in SOURCES else []
    return f"{close[0]}:{name}" if close else ""


def perhaps_sourced(model: str) -> str:
    """` Did you mean ...?`, or nothing."""
    meant = sourced_meant(model)
    return f" Did you mean `{meant}`?" if meant else ""


OTHERS_GO_BY = f"Others go by e.g. `{SOURCES['timm'].example}` or `package.module:factory`: docs/models.md."


def too_long(tokens_max: int, tokens: int) -> str:
    """What is wrong with so many tokens, and the remedy; after the name of the model."""
    return f"reads at most {tokens_max} tokens, got {tokens}. Write {tokens_max} or fewer"


def how_to_name(model: str) -> str:
    """What to write for a model that no plain name stands for."""
    if model.lower().startswith(ULTRALYTICS):
        return f"Ultralytics' models go by `ultralytics:{model.lower()}`."
    return OTHERS_GO_BY


def installed(model: str) -> dict[str, str]:
    """The versions of what a model is made with; ZooError where its package is not installed."""
    kind = model.partition(":")[0]
    needed = dict.fromkeys(("torch", SOURCES[kind].package) if kind != "onnx" else ("onnx",))
    found = {package: _version(package) for package in needed}
    if missing := [package for package, known in found.items() if not known]:
        are, them = ("is", "it") if len(missing) == 1 else ("are", "them")
        licence = SOURCES[kind].licence if SOURCES[kind].package in missing else ""
        terms = f" Its licence is {licence}." if licence else ""
        remedy = f"Install {them}: pip install {' '.join(missing)}."
        raise ZooError(f"{model}: needs {' and '.join(missing)}, which {are} not installed. {remedy}{terms}")
    return found


def _version(package: str) -> str:
    """Of an installed package, without its build; empty where it is not installed."""
    try:
        return version(package).partition("+")[0]
    except PackageNotFoundError:
        return ""


def contents(model: str) -> dict[str, str]:
    """What decides the layers of a model besides its name and input: versions, and the digest of its file."""
    kind, _, name = model.partition(":")
    path = file_of(model) if SOURCES[kind].is_file else None
    if kind == "hf":
        path = config_file(name)
    made_of = installed(model) | ({"sha256": digest(model, path)} if path else {})
    if kind == "timm":
        _demand_written(model, name.partition(".")[0])
    return made_of


def _demand_written(model: str, name: str) -> None:
    """ZooError where timm's sources have no such name: to import them, and torch, for a misspelt one takes long."""
    found = find_spec("timm")
    folders = found.submodule_search_locations or () if found else ()
    texts = [path.read_text(encoding="utf-8") for folder in folders for path in Path(folder).glob("models/*.py")]
    if texts and not any(re.search(rf"\b{re.escape(name)}\b", text) for text in texts):
        known = {one for text in texts for one in re.findall(r"@register_model\s+def (\w+)", text)}
        raise unknown(model, name, known, "timm.list_models()")


def unknown(model: str, name: str, known: Iterable[str], see: str) -> ZooError:
    """A name that a package does not have, with those that are near."""
    source = model.partition(":")[0]
    close = near_names(name, list(known))
    hint = f"Did you mean {' or '.join(f'{source}:{one}' for one in close)}?" if close else f"See {see}."
    return ZooError(f"{model}: {SOURCES[source].package} has no such model. {hint}")


def file_of(model: str) -> Path:
    """The file of `onnx:detector.onnx`; ZooError where there is none."""
    path = in_home(model.partition(":")[2])
    if not os.path.isfile(path):
        wrong = "is a folder" if path.is_dir() else "is not there"
        raise ZooError(f"{model}: the file {wrong}. Name one from the folder where the command runs.")
    return path


def in_home(written: str) -> Path:
    """A path whose `~` is the home of a user; as it was written where there is no such user."""
    return Path(os.path.expanduser(written))


def digest(model: str, path: Path) -> str:
    """Of a file's bytes; ZooError where they cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ZooError(f"{model}: {path} cannot be read: {error.strerror}. Allow it.") from None


# Configurations of transformers


OWNERS = frozenset({"FacebookAI", "albert", "distilbert", "google-bert", "google-t5", "openai-community"})
"""To whom Hugging Face gave the models that were published without an owner: `google-bert/bert-base-uncased`."""


def without_owner(model: str) -> str:
    """`hf:bert-base-uncased` for `hf:google-bert/bert-base-uncased`, as it is shipped; others as they are."""
    kind, _, name = model.partition(":")
    owner, _, bare = name.partition("/")
    return f"hf:{bare}" if kind == "hf" and owner in OWNERS and bare in known_configs() else model


@cache
def known_configs() -> Mapping[str, Mapping[str, Any]]:
    """Shipped configurations by name: what differs from the class's own, the input, and where it is published."""
    found: Mapping[str, Mapping[str, Any]] = json.loads((DATA / "hf.json").read_text(encoding="utf-8"))
    return found


def config_of(name: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The configuration of a model of transformers, and what is known of its input; ZooError where it is not here."""
    if (path := config_file(name)) is None:
        known = known_configs()[name]
        return known["config"], known
    try:
        config = json.loads(read_text(path))  # published ones hold `Infinity`, which `read_json` refuses
    except (ValueError, RecursionError) as error:
        wrong = " ".join(str(error).split())
        raise ZooError(f"hf:{name}: {path} is no configuration: {wrong}. Fetch it again.") from None
    if not isinstance(config, dict) or "model_type" not in config:
        raise ZooError(f"hf:{name}: {path} has no `model_type`. Name the {CONFIG} of a model of transformers.")
    return config, {}


def config_file(name: str) -> Path | None:
    """The file that holds a configuration; None where it is shipped. ZooError where it is not here."""
    for path in (in_home(name), in_home(name) / CONFIG):
        if os.path.isfile(path):  # a name that can be no file's is none
            return path
    if name in known_configs():
        return None
    if fetched := next(_fetched(name), None):
        return fetched
    raise ZooError(f"hf:{name}: {_not_here(name)}")


def _fetched(name: str) -> Iterator[Path]:
    """Where Hugging Face's own tools keep the configuration of a model."""
    home = Path(os.environ.get("HF_HOME") or in_home("~/.cache/huggingface"))
    hub = Path(os.environ.get("HF_HUB_CACHE") or home / "hub") / f"models--{name.replace('/', '--')}"
    main = hub / "refs" / "main"
    with suppress(FileError):  # not there, or damaged: any that was fetched
        yield from (hub / "snapshots" / read_text(main).strip()).glob(CONFIG)
    yield from sorted((hub / "snapshots").glob(f"*/{CONFIG}"))


def _not_here(name: str) -> str:
    if name.endswith(".json") or name.startswith((".", "/", "~")):
        return f"there is no such file or folder with a {CONFIG}. Name one that is there."
    close = near_names(name, known_configs())
    hint = f" Did you mean {' or '.join(close)}?" if close else ""
    fetch = f"Fetch it once with `hf download {name} {CONFIG}`, or name a file: hf:path/{CONFIG}."
    return f"its configuration is not on this machine, and the network is not used.{hint} {fetch}"
