"""Savant: the elements of a `module.yml` that infer, with what its `${...}` stand for where the file says it.

Defaults are those of `savant/base/model.py`: batches of 1, engines of fp16; not of a model with a configuration of
nvinfer, which says both where the module does not.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from calibrate.published.names import precision as named
from planner.imports.serving.found import (
    BESIDE,
    OF_OBJECTS,
    TENSORRT,
    Found,
    FoundModel,
    FoundStream,
    bare_name,
    distinct_names,
    engine_precision,
)
from planner.imports.serving.parts import Part
from simulator.errors import InputError

TOOL = "a Savant module"
INFERS = re.compile(r"nvinfer(@\w+)?")
PRECISION = "fp16"
"""What Savant makes engines for where a module does not say."""
MODEL_KEYS = ("model_file", "engine_file", "config_file")
ALONE = re.compile(r"\$\{([\w.]+)\}")
INNERMOST = re.compile(r"\$\{([^${}]*)\}")
VARIABLE = re.compile(r"oc\.env:[^,]*,?(.*)", re.DOTALL)
DECODED = re.compile(r"(?:oc\.decode|json):(.*)", re.DOTALL)
REPLACED_MOST = 20
"""Nested `${...}` of one text."""


def looks_like(document: Part) -> bool:
    """True of a module."""
    return isinstance(document.at("pipeline", "elements").value, list)


def read(documents: Sequence[Part]) -> Found:
    """Models of a module; which sources send to it stands elsewhere."""
    document = next(filter(looks_like, documents))
    module = Part(document.path, document.document, _filled(document.value, document))
    elements = list(_elements(module.at("pipeline", "elements")))
    models = [element for element in elements if INFERS.fullmatch(element.at("element").word())]
    if not models:
        raise InputError(f"{document.path}: runs no model: no element is `nvinfer@...`. Name a module that does.")
    names = distinct_names([element.at("name").word() or _file(element) for element in models])
    return Found(
        path=document.path,
        name=document.path.stem,
        tool=TOOL,
        models=tuple(_model(name, element) for name, element in zip(names, models, strict=True)),
        streams=tuple(_stream(name, element) for name, element in zip(names, models, strict=True)),
        left_out=tuple(_left_out(element) for element in elements if element not in models),
        warnings=(OF_OBJECTS, BESIDE),
    )


def _elements(listed: Part) -> Iterator[Part]:
    """All elements, those in groups too."""
    for item in listed.items():
        inside = item.at("group", "elements")
        if inside.value is None:
            yield item
        else:
            yield from _elements(inside)


def _file(element: Part) -> str:
    """What names the model in its files; empty where nothing does."""
    named = (element.at("model", key).word() for key in MODEL_KEYS)
    return next((bare_name(name) for name in named if name), "")


def _model(name: str, element: Part) -> FoundModel:
    model = element.at("model")
    configured = model.at("config_file").value is not None
    batch = model.at("batch_size").whole(1) or (None if configured else 1)
    file = model.at(next((key for key in MODEL_KEYS if model.at(key).value is not None), MODEL_KEYS[0])).word(name)
    shape = tuple(side.whole(1) or 1 for side in model.at("input", "shape").items())
    of_shape = f", input {'x'.join(map(str, shape))}" if shape else ""
    batches = f", batches up to {batch}" if batch else ""
    notes = [f"{element.at('element').word()}: {file}, TensorRT{batches}{of_shape}"]
    if config := model.at("config_file").word():
        notes.append(f"What its configuration says is not read: {config.rpartition('/')[2]}")
    return FoundModel(
        name=name,
        notes=tuple(notes),
        source=_file(element) or name,
        batch_size=batch,
        runtime=TENSORRT,
        input_shape=shape,
        precision=engine_precision(model.at("engine_file").word())
        or named(model.at("precision").word("" if configured else PRECISION)),
    )


def _stream(name: str, element: Part) -> FoundStream:
    """Frames for a model that sees whole pictures; objects for one that sees what another found."""
    finder, _, label = element.at("model", "input", "object").word().partition(".")
    if not finder or finder == "auto":
        each = 1 + (element.at("model", "interval").whole() or 0)
        seen = f", one frame in {each} of each" if each > 1 else ""
        return FoundStream(model=name, kind="rate", notes=(f"Write how many sources send to the module{seen}",))
    note = f"Asked for each {label or 'object'} that {finder} finds: its frames a second times objects in a frame"
    return FoundStream(model=name, notes=(note,))


def _left_out(element: Part) -> str:
    module = element.at("module").word()
    of_module = f" {module}" if module else ""
    return f"{element.at('element').word('an element without a name')}{of_module}: its work is not planned"


# What `${...}` stands for


def _filled(value: Any, document: Part) -> Any:
    """The same values, with what `${...}` stands for; a text that is nothing else may stand for a list."""
    match value:
        case str() if (alone := ALONE.fullmatch(value)) and isinstance(document.at(*alone[1].split(".")).value, list):
            return document.at(*alone[1].split(".")).value
        case str():
            return _text(value, document)
        case list():
            return [_filled(item, document) for item in value]
        case dict():
            return {key: _filled(item, document) for key, item in value.items()}
    return value


def _text(text: str, document: Part) -> str:
    for _ in range(REPLACED_MOST):
        replaced = INNERMOST.sub(lambda found: _meant(found[1], document), text)
        if replaced == text:
            break
        text = replaced
    return text


def _meant(name: str, document: Part) -> str:
    """A parameter's value, or the default of a variable; the name itself where neither is in the file."""
    if found := VARIABLE.fullmatch(name):
        return found[1].strip(" '\"")
    if found := DECODED.fullmatch(name):
        return found[1].strip()
    value = document.at(*name.split(".")).value
    return str(value) if isinstance(value, str | int | float) else name
