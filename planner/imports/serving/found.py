"""Found: models that another tool serves and who asks them, as far as its file says. A scenario is made of that."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from calibrate.io.reader import NAME
from calibrate.library.reading import PRECISIONS
from calibrate.published.names import precision as canonical_precision

TODO = "TODO"
"""Stands in the scenario where only its reader knows; `planner plan` refuses it, line by line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundModel:
    """A model that is served on GPUs."""

    name: str
    """The scenario's name for it."""
    notes: tuple[str, ...] = ()
    """What the file says of it, a comment each."""
    profile: str = ""
    """The profile that it was planned with; empty: its source says all."""
    source: str = ""
    """What it is: `hf:bert-base-uncased`, `onnx:detector.onnx`, `my.module:make`, or the bare name of its file."""
    input_shape: tuple[int, ...] = ()
    """Of one sample, where the file says it."""
    batch_size: int | None = None
    """Largest batch; None where the file does not say."""
    precision: str = ""
    runtime: str = ""
    """The software that runs it, where the file says."""
    latency: str = TODO
    """Longest latency, in people's units."""
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

    command: str = "init --from"
    """By which it was read."""
    path: Path
    name: str
    """Of the scenario."""
    tool: str = ""
    """With its article: `a DeepStream application`."""
    says: tuple[str, ...] = ()
    """What to know of such files, in sentences."""
    options: str = ""
    """Of that command, by which one may say what is missing."""
    models: tuple[FoundModel, ...]
    streams: tuple[FoundStream, ...]
    left_out: tuple[str, ...] = ()
    """Parts that are not imported, each with its reason, without its full stop."""
    warnings: tuple[str, ...] = ()
    """Properties that a scenario cannot hold, likewise."""


MODEL_KEYS = (
    "model_id",
    "model_name_or_path",
    "pretrained_model_name_or_path",
    "model_path",
    "model_file",
    "model",
    "checkpoint",
)
"""Under which servers are told their model."""
CALLED = "model_name"
"""What callers name it, and at times what it is."""
PRECISION_KEYS = ("dtype", "torch_dtype", "precision")
OF_OBJECTS = "models that look at what another found have streams and SLOs of their own, not one with its"
BESIDE = "decoding, scaling and drawing share the GPU with the models, and are not planned: `headroom` leaves room"
"""Of pipelines of video."""
TENSORRT = "tensorrt"
"""The runtime whose engines are made for one precision, whatever their model's files say."""
HUB = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
"""A model's name on Hugging Face's hub, with its owner."""


OPTION = re.compile(r"(--)?[A-Za-z_][\w.-]*|-[A-Za-z]")
"""A name of an option or a variable; anything else may hold a value."""
HARMLESS = re.compile(r"-?\d{1,5}(\.\d{1,5})?|true|false", re.IGNORECASE)
"""A value that may be shown: others may be, or hold, what nobody should read."""
SECRET = re.compile("token|secret|passw|pwd|pin|credential|auth|key", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ServingSettings:
    """Names and values that a server is told: options, arguments, variables of its environment."""

    places: tuple[Mapping[str, str], ...]
    """Where it is told, what counts most first; the last is the environment."""

    @property
    def model(self) -> str:
        """The name of the model, as it is written; empty where none is."""
        return self._first(MODEL_KEYS)

    @property
    def named(self) -> str:
        """The same, or what callers name it, whichever place counts more."""
        return self._first([*MODEL_KEYS, CALLED])

    @property
    def precision(self) -> str:
        """`fp16` for `float16`; empty where none is said that a scenario knows."""
        found = canonical_precision(self._first(PRECISION_KEYS))
        return found if found in PRECISIONS else ""

    def told(self, key: str) -> str:
        """The value of one key, the place that counts most first; empty where none has it."""
        return self._first([key])

    def unread(self, *read: str) -> str:
        """`--task, --max_length 512`: what no scenario holds, and is not of `read`. Only numbers are shown."""
        kept, models = {*read, *(PRECISION_KEYS if self.precision else ())}, {self.model, self.named}
        settings = [(name, value) for place in self.places[:-1] for name, value in place.items()]
        settings += [(name, "") for name in self.places[-1]]
        shown = [
            _shown(name, value)
            for name, value in settings
            if _key(name) not in kept and not (_key(name) in (*MODEL_KEYS, CALLED) and value in models)
        ]
        return ", ".join(dict.fromkeys(shown))

    def _first(self, keys: Iterable[str]) -> str:
        found = (value for place in self.places for key in keys for name, value in place.items() if _key(name) == key)
        return next(filter(None, found), "")


def _shown(name: str, value: str) -> str:
    """An option with its value, as far as both may be shown."""
    if not OPTION.fullmatch(name):
        return "an option that is not named here"
    harmless = HARMLESS.fullmatch(value) and not SECRET.search(name)
    return f"{name} {value}" if harmless else name


def shown_address(written: str) -> str:
    """`s3://models/resnet` without what may let one in: no user, no password, no query."""
    return re.sub(r"//.*@", "//", written).partition("?")[0].partition("#")[0]


def _key(name: str) -> str:
    """`model_id` for `--model-id` and `MODEL_ID`."""
    return name.lstrip("-").replace("-", "_").lower()


def source_of(written: str) -> str:
    """`hf:BAAI/bge-m3` and `timm:resnet50.a1_in1k` for names of the hub, else the bare name of a file."""
    if not HUB.fullmatch(written) or MODEL_FILES.search(written):
        return bare_name(written)
    return f"timm:{written.removeprefix('timm/')}" if written.startswith("timm/") else f"hf:{written}"


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


ENGINE = re.compile(r"(?P<file>.+?)(_b\d+)?(_(gpu|dla)\d+)?(_(?P<precision>fp32|fp16|int8))?\.(engine|plan|trt)")
"""An engine's file, as DeepStream and Savant name it: `detector.onnx_b4_gpu0_fp16.engine`."""
MODEL_FILES = re.compile(r"\.(onnx|etlt|tlt|uff|caffemodel|prototxt|cfg|pt|pth|torchscript|engine|plan|trt|txt)$")


def bare_name(file: str) -> str:
    """`yolov8s` of `models/yolov8s.onnx_b4_gpu0_fp16.engine`."""
    name = file.replace("\\", "/").rpartition("/")[2]
    engine = ENGINE.fullmatch(name)
    return MODEL_FILES.sub("", engine["file"] if engine else name)


def engine_precision(file: str) -> str:
    """`fp16` of `yolov8s.onnx_b4_gpu0_fp16.engine`; empty where the name does not say."""
    engine = ENGINE.fullmatch(file.rpartition("/")[2])
    return (engine["precision"] or "") if engine else ""
