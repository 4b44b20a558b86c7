"""DeepStream: the file of `deepstream-app`, as a key file or YAML, and the configurations of its models beside it.

Keys are those of NVIDIA's `deepstream_config_file_parser.c` and of the nvinfer plugin's properties.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from planner.imports.serving.found import (
    BESIDE,
    OF_OBJECTS,
    TENSORRT,
    TODO,
    Found,
    FoundModel,
    FoundStream,
    bare_name,
    distinct_names,
    engine_precision,
)
from planner.imports.serving.parts import Part, key_file, text_of, yaml_documents
from planner.imports.serving.textproto import Message, parse
from planner.units.writing import counted
from simulator.errors import InputError

TOOL = "a DeepStream application"
SEVERAL = "cfg-file-path"
"""Key of a group whose models stand in a file of their own."""
PRIMARY = re.compile(r"primary-gie\d*")
SECONDARY = re.compile(r"secondary-gie\d*")
SOURCES = re.compile(r"source(\d+|-list|-attr-all)?")
DRAWN = re.compile(r"application|tests|osd|tiled-display|tiler|sink\d*|message-converter|message-consumer\d*|img-save")
"""Groups that draw, write and send: no work of models."""
LOOKS = re.compile(rf"{PRIMARY.pattern}|{SECONDARY.pattern}|{SOURCES.pattern}|streammux")
CAMERAS = (1, 5)
"""Types of sources that say how many frames they give: cameras at this machine."""
NETWORK_MODES = {0: "fp32", 1: "int8", 2: "fp16"}
TRITON = 1
"""The plugin that asks Triton, nvinferserver."""
MODEL_KEYS = (
    "onnx-file",
    "tlt-encoded-model",
    "uff-file",
    "model-file",
    "custom-network-config",
    "model-engine-file",
)
"""Where a configuration names the model, the clearest first."""


@dataclass(frozen=True, slots=True)
class Inference:
    """One model of the application: its group, and the properties in its own configuration."""

    group: Part
    own: Mapping[str, Part]
    """Empty where its configuration is not here."""
    triton_model: str = ""

    def part(self, key: str) -> Part:
        """What the application says, else what its own configuration says."""
        here = self.group.at(key)
        return here if here.value is not None else self.own.get(key, here)

    @property
    def key(self) -> str:
        """`secondary-gie0`."""
        return str(self.group.steps[-1])

    @property
    def file(self) -> str:
        """What its model is called in its files; of the configuration where nothing else names it."""
        named = [self.own[key] for key in MODEL_KEYS if key in self.own]
        part = next(iter([*named, self.group.at("model-engine-file")]))
        return self.triton_model or part.word() or self.config or self.key

    @property
    def config(self) -> str:
        """The file of its configuration."""
        return self.group.at("config-file").word() or self.group.at("config-file-path").word()

    @property
    def precision(self) -> str:
        """That of its engine, else the one that an engine is made for; empty where neither is said, as of Triton's."""
        mode = self.part("network-mode").whole()
        made_for = NETWORK_MODES.get(mode or 0, "") if self.own or mode is not None else ""
        return engine_precision(self.part("model-engine-file").word()) or made_for

    @property
    def runtime(self) -> str:
        """The plugin's own; empty where Triton is asked, which has several."""
        return "" if self.group.at("plugin-type").whole() == TRITON else TENSORRT

    @property
    def input_shape(self) -> tuple[int, ...]:
        """(3, 544, 960) of `infer-dims=3;544;960`; empty where it does not say."""
        sides = self.part("infer-dims").word().rstrip(";").split(";")
        return tuple(map(int, sides)) if all(re.fullmatch(r"[1-9]\d{0,6}", side) for side in sides) else ()

    @property
    def each(self) -> int:
        """It looks at one frame of so many."""
        return 1 + (self.part("interval").whole() or 0)


def looks_like(document: Part) -> bool:
    """True of the file of an application."""
    return isinstance(document.value, dict) and any(map(LOOKS.fullmatch, document.value))


def read(documents: Sequence[Part]) -> Found:
    """Models and sources of an application."""
    document = next(filter(looks_like, documents))
    groups = document.parts()
    on = {name: group for name, group in groups.items() if _is_on(group)}
    models = [_inference(group) for group in _inferences(on)]
    if not models:
        off = ", ".join(filter(_is_inference, groups))
        why = f"off are {off}" if off else "there is no `primary-gie`"
        raise InputError(f"{document.path}: runs no model: {why}. Name the file of an application that does.")
    names = distinct_names([bare_name(model.file) for model in models])
    named = dict(zip(names, models, strict=True))
    wait_s = (on["streammux"].at("batched-push-timeout").number(-1) or 0.0) / 1e6 if "streammux" in on else 0.0
    return Found(
        path=document.path,
        name=document.path.stem,
        tool=TOOL,
        models=tuple(_model(name, model, wait_s) for name, model in named.items()),
        streams=tuple(_streams(named, on)),
        left_out=tuple(_left_out(groups, on)),
        warnings=(OF_OBJECTS, BESIDE) if any(SECONDARY.fullmatch(model.key) for model in models) else (BESIDE,),
    )


def _inferences(on: Mapping[str, Part]) -> Iterator[Part]:
    """Groups of models, also of the files that groups of `deepstream-parallel-infer` name."""
    for name, group in on.items():
        file = group.at(SEVERAL).word() if _is_inference(name) else ""
        if not file:
            yield from [group] if _is_inference(name) else []
        elif (path := group.path.parent / file).is_file():
            for document in read_either(path):
                yield from (part for key, part in document.parts().items() if _is_inference(key) and _is_on(part))


def _is_inference(group: str) -> bool:
    return bool(PRIMARY.fullmatch(group) or SECONDARY.fullmatch(group))


def _is_on(group: Part) -> bool:
    enabled = group.parts().get("enable")
    return enabled is None or enabled.word() not in ("0", "false", "False")


def _inference(group: Part) -> Inference:
    """A group with its configuration, where that is here."""
    name = group.at("config-file").word() or group.at("config-file-path").word()
    path = group.path.parent / name
    if not name or not path.is_file():
        return Inference(group, {})
    if group.at("plugin-type").whole() == TRITON:
        return Inference(group, {}, _triton_model(path))
    return Inference(group, _properties(path))


def _properties(path: Path) -> Mapping[str, Part]:
    """The group `property` of a configuration of nvinfer."""
    for document in read_either(path):
        return document.at("property").parts()
    return {}


def read_either(path: Path) -> list[Part]:
    """A key file, or the documents of a YAML file."""
    first = next((line.strip() for line in text_of(path).splitlines() if line.strip()[:1] not in ("", "#")), "")
    if first.endswith("{"):
        remedy = "Name the file of the application that runs it; `planner from-triton` reads a model repository"
        raise InputError(f"{path}: configures one model for Triton. {remedy}.")
    return [key_file(path)] if first.startswith("[") else yaml_documents(path)


def _triton_model(path: Path) -> str:
    """The model that a configuration of nvinferserver asks Triton for; empty where it names none."""
    message = parse(text_of(path), str(path))
    for name in ("infer_config", "backend", "triton"):
        message = _inside(message, name)
    named = message.get("model_name")
    return str(named.values[0].value) if named else ""


def _inside(message: Message, name: str) -> Message:
    found = message.get(name)
    value = found.values[0].value if found and found.values else {}
    return value if isinstance(value, dict) else {}


def _model(name: str, model: Inference, wait_s: float) -> FoundModel:
    batch = model.part("batch-size").whole()
    first = bool(PRIMARY.fullmatch(model.key))
    return FoundModel(
        name=name,
        notes=tuple(_notes(model, batch)),
        source=_source(model),
        batch_size=batch,
        precision=model.precision,
        runtime=model.runtime,
        input_shape=model.input_shape,
        max_queue_delay_s=wait_s if first and batch != 1 and wait_s > 0 else 0.0,
    )


def _notes(model: Inference, batch: int | None) -> Iterator[str]:
    server = "asked of Triton" if model.triton_model else "TensorRT"
    batches = f", batches up to {batch}" if batch else ""
    yield f"{model.key}: {model.file.rpartition('/')[2]}, {server}{batches}"
    if model.config and not model.own and not model.triton_model:
        yield f"Its configuration is not here: {model.config}"


def _source(model: Inference) -> str:
    """The ONNX file where it is here, else the name of what is served."""
    onnx = model.own.get("onnx-file")
    if onnx and (path := onnx.path.parent / onnx.word()).is_file():
        return f"onnx:{path}"
    return bare_name(model.file)


# Who asks


def _streams(named: Mapping[str, Inference], on: Mapping[str, Part]) -> Iterator[FoundStream]:
    sources = _sources(on)
    for name, model in named.items():
        if PRIMARY.fullmatch(model.key):
            yield from (_of_cameras(name, model, *kind, count) for kind, count in sources.items())
        else:
            yield _of_objects(name, model, named)


def _of_cameras(name: str, model: Inference, rate_fps: float | None, kept: int, count: int) -> FoundStream:
    """So many sources of one rate, None where they decide; of each only one in `kept` frames reaches the models."""
    each = model.each * kept
    left_out = {"interval": model.each - 1, "drop-frame-interval": kept if kept > 1 else 0}
    why = ", ".join(f"{key} {value}" for key, value in left_out.items() if value)
    seen = f", one frame in {each} of each ({why})" if each > 1 else ""
    rate = f"{rate_fps / each:g} fps" if rate_fps else TODO
    return FoundStream(
        model=name,
        notes=(f"{counted(count, 'source')}{seen}",),
        count=count,
        kind="rate",
        rate=rate,
    )


def _of_objects(name: str, model: Inference, named: Mapping[str, Inference]) -> FoundStream:
    """A secondary model is asked once for each object that another finds."""
    wanted = model.part("operate-on-gie-id").whole()
    ids = {other: one.part("gie-unique-id").whole() for other, one in named.items() if one is not model}
    finder = next((other for other, number in ids.items() if number == wanted), "another model")
    classes = model.part("operate-on-class-ids").word().rstrip(";")
    of_class = f" of class {classes.replace(';', ', ')}" if classes else ""
    asked = f"Asked for each object{of_class} that {finder} finds: its frames a second times objects in a frame"
    again = model.part("secondary-reinfer-interval").whole()
    new = [f"again after {again} frames (secondary-reinfer-interval)"] if again else []
    if model.part("classifier-async-mode").whole():
        new = ["once, while it is new (classifier-async-mode)", *new]
    notes = (asked, f"An object is looked at {', '.join(new)}") if new else (asked,)
    return FoundStream(model=name, notes=notes)


def _sources(on: Mapping[str, Part]) -> Mapping[tuple[float | None, int], int]:
    """How many sources there are, by their frames a second and by how many frames of them one is kept."""
    counts: Counter[tuple[float | None, int]] = Counter()
    of_all = _kept(on["source-attr-all"]) if "source-attr-all" in on else 1
    for name, group in on.items():
        if name == "source-list":
            listed = sum(bool(uri.strip()) for uri in group.at("list").word().split(";"))
            counts[None, of_all] += listed or group.at("num-source-bins").whole(1) or 1
        elif table := _table_of_sources(name, group):
            counts.update(_of_table(table))
        elif re.fullmatch(r"source\d+", name):
            counts[_rate_fps(group), _kept(group)] += group.at("num-sources").whole(1) or 1
    return counts or {(None, 1): 1}


def _kept(group: Part) -> int:
    return max(1, group.at("drop-frame-interval").whole() or 1)


def _table_of_sources(name: str, group: Part) -> Path | None:
    """The CSV file that lists them."""
    file = group.at("csv-file-path").word() if name == "source" else ""
    return group.path.parent / file if file else None


def _rate_fps(group: Part) -> float | None:
    """Frames a second; None where the source decides."""
    frames, seconds = (group.at(f"camera-fps-{key}").number() for key in ("n", "d"))
    if group.at("type").whole() not in CAMERAS or not frames:
        return None
    return frames / (seconds or 1.0)


def _of_table(path: Path) -> Mapping[tuple[float | None, int], int]:
    """How many sources a CSV file lists, by what is kept; one where the file is not here."""
    if not path.is_file():
        return {(None, 1): 1}
    rows = list(csv.DictReader(text_of(path).splitlines()))
    counts = [row.get("num-sources") or "1" for row in rows if (row.get("enable") or "1").strip() != "0"]
    if wrong := next((count for count in counts if not re.fullmatch(r"\s*[1-9]\d{0,5}\s*", count)), None):
        raise InputError(f"{path}: `num-sources` must be a whole number from 1, got `{wrong[:40]}`. Mend the file.")
    return {(None, 1): sum(map(int, counts))}


# What stays out


def _left_out(groups: Mapping[str, Part], on: Mapping[str, Part]) -> Iterator[str]:
    for name, group in groups.items():
        looks = LOOKS.fullmatch(name) is not None
        if looks and name not in on:
            yield f"{name}: is off"
        elif missing := _missing_file(name, group):
            yield missing
        elif name in on and not looks and not DRAWN.fullmatch(name):
            yield f"{name}: its work is not planned"


def _missing_file(name: str, group: Part) -> str:
    """What is not known for want of a file that a group names; empty where it names none, or one that is here."""
    table = _table_of_sources(name, group)
    if table and not table.is_file():
        return f"{table.name}, which lists the sources, is not here: one stands for all"
    file = group.at(SEVERAL).word() if _is_inference(name) else ""
    if file and not (group.path.parent / file).is_file():
        return f"{name}: its models stand in {file}, which is not here"
    return ""
