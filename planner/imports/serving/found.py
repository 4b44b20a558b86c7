"""Found: models that another tool serves and who asks them, as far as its file says. A scenario is made of that."""

import re
from dataclasses import dataclass
from pathlib import Path

from calibrate.io.reader import NAME
from simulator.errors import InputError

TODO = "TODO"
"""Stands in the scenario where only its reader knows; `planner plan` refuses it, line by line."""


class ServingError(InputError):
    """What no scenario can be made of, or an option that does not fit it; one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundModel:
    """A model that is served on GPUs."""

    name: str
    """The scenario's name for it."""
    notes: tuple[str, ...] = ()
    """What the file says of it, a comment each."""
    source: str = ""
    """What it is: `hf:bert-base-uncased`, `onnx:detector.onnx`, `my.module:make`, or the bare name of its file."""
    input_shape: tuple[int, ...] = ()
    """Of one sample, where the file says it and the source wants it."""
    batch_size: int | None = None
    """Largest batch; None where the file does not say."""
    precision: str = ""
    max_queue_delay_s: float = 0.0
    """How long a batch may wait to fill."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundStream:
    """Who asks a model."""

    model: str
    notes: tuple[str, ...] = ()
    count: int = 1
    kind: str = "poisson"
    """`rate` for cameras, `poisson` for people and for objects in pictures."""
    rate: str = TODO
    """In people's units."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Contents of a file of another tool."""

    path: Path
    tool: str
    """With its article: `a DeepStream application`."""
    models: tuple[FoundModel, ...]
    streams: tuple[FoundStream, ...]
    left_out: tuple[str, ...] = ()
    """Parts that are not imported, each with its reason, without its full stop."""
    warnings: tuple[str, ...] = ()
    """Properties that a scenario cannot hold, likewise."""


def scenario_name(name: str) -> str:
    """A model's name as a scenario may have it: letters, digits, `-`, `_` and `.`, at most 64."""
    return name if NAME.fullmatch(name) else re.sub(r"[^A-Za-z0-9_.\-]", "-", name).lstrip("_.-")[:64] or "model"


def distinct_names(names: list[str]) -> list[str]:
    """The same names, of which the second `detector` is `detector-2`."""
    taken: list[str] = []
    for name in map(scenario_name, names):
        numbered = (f"{name[:60]}-{number}" for number in range(2, len(names) + 2))
        taken.append(name if name not in taken else next(one for one in numbered if one not in taken))
    return taken


ENGINE = re.compile(r"(?P<file>.+?)(_b\d+)?(_gpu\d+)?(_(?P<precision>fp32|fp16|int8))?\.(engine|plan|trt)")
"""An engine's file, as DeepStream and Savant name it: `detector.onnx_b4_gpu0_fp16.engine`."""
MODEL_FILES = re.compile(r"\.(onnx|etlt|tlt|uff|caffemodel|cfg|pt|pth|torchscript|engine|plan|trt|txt)$")


def bare_name(file: str) -> str:
    """`yolov8s` of `models/yolov8s.onnx_b4_gpu0_fp16.engine`."""
    name = file.replace("\\", "/").rpartition("/")[2]
    engine = ENGINE.fullmatch(name)
    return MODEL_FILES.sub("", engine["file"] if engine else name)


def engine_precision(file: str) -> str:
    """`fp16` of `yolov8s.onnx_b4_gpu0_fp16.engine`; empty where the name does not say."""
    engine = ENGINE.fullmatch(file.rpartition("/")[2])
    return (engine["precision"] or "") if engine else ""
