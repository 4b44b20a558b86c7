"""KServe: predictors of InferenceServices, whatever other objects the manifest holds."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from planner.imports.serving.found import (
    TENSORRT,
    Found,
    FoundModel,
    FoundStream,
    ServingSettings,
    bare_name,
    distinct_names,
    shown_address,
    source_of,
)
from planner.imports.serving.parts import Part
from planner.units.writing import counted
from simulator.errors import InputError

TOOL = "a KServe manifest"
GROUP = "serving.kserve.io/"
SERVICE = "InferenceService"
TREES = ("sklearn", "xgboost", "lightgbm", "pmml", "catboost")
"""Formats of models that are no networks, and run on processors."""
FORMATS = ("huggingface", "onnx", "paddle", "pytorch", "tensorflow", "triton", *TREES)
"""Keys by which older manifests say the format."""
RUNTIMES = {"onnx": "onnxruntime", "pytorch": "pytorch", "tensorflow": "tensorflow", "tensorrt": TENSORRT}
"""The software that KServe's servers of these formats run models in."""
TASKS = ("text_generation", "text2text_generation")
"""Of the server of Hugging Face models, those that generate tokens."""
VERSION = re.compile(r"/v?\d+$")
"""The end of an address that is a version of a model, not its name."""
GPU_RESOURCES = ("nvidia.com/", "amd.com/gpu")


def looks_like(document: Part) -> bool:
    """True of any object of KServe."""
    return document.at("apiVersion").value is not None and document.at("apiVersion").word().startswith(GROUP)


def read(documents: Sequence[Part]) -> Found:
    """Models of all services in a manifest."""
    services = [one for one in documents if _is_service(one)]
    served = [one for one in services if _serves(one)]
    path = documents[0].path
    if not served:
        found = f"no {SERVICE} with a `spec.predictor`" if services else f"no {SERVICE}"
        if any(map(_predicts, services)):
            found = "only models that are no networks, or that generate tokens"
        raise InputError(f"{path}: holds {found}. Name a manifest with one that serves a network.")
    names = distinct_names([one.at("metadata", "name").word("model") for one in served])
    return Found(
        path=path,
        name=path.stem,
        tool=TOOL,
        models=tuple(map(_model, names, served)),
        streams=tuple(FoundStream(model=name) for name in names),
        left_out=tuple(_left_out(documents)),
        warnings=tuple(filter(None, map(_unread, served))),
    )


def _left_out(documents: Sequence[Part]) -> Iterator[str]:
    """What is not planned: models that are no networks, objects of other kinds, code beside a model."""
    services = [one for one in documents if _is_service(one)]
    for one in services:
        if not _predicts(one):
            yield f"{_name(one)}: has no `spec.predictor`"
        elif _format(one) in TREES:
            yield f"{_name(one)}: is {_format(one)}, which runs on processors"
        elif _generates(one):
            yield f"{_name(one)}: generates tokens, which this import does not read"
    for one in documents:
        if one not in services:
            yield f"{one.at('kind').word('an object')} {_name(one)}: is no {SERVICE}"
    for one in filter(_serves, services):
        yield from _beside(one)


def _is_service(document: Part) -> bool:
    return looks_like(document) and document.at("kind").word() == SERVICE


def _predicts(document: Part) -> bool:
    return bool(document.at("spec", "predictor").parts())


def _serves(document: Part) -> bool:
    """True of one with a predictor that is a network, and of none that generates tokens."""
    return _predicts(document) and _format(document) not in TREES and not _generates(document)


def _generates(document: Part) -> bool:
    """True where the server of Hugging Face models is told so."""
    settings = _settings(document)
    return _format(document) == "huggingface" and (settings.told("task") in TASKS or settings.told("backend") == "vllm")


def _name(document: Part) -> str:
    return document.at("metadata", "name").word("without a name")


def _format(document: Part) -> str:
    """`huggingface`, `onnx`, ...; `container` where an image of somebody's own serves."""
    predictor = document.at("spec", "predictor")
    if named := predictor.at("model", "modelFormat", "name").word():
        return named
    return next((name for name in FORMATS if predictor.at(name).value is not None), "container")


def _server(document: Part) -> Part:
    """What says where the model lies and what it gets."""
    predictor, name = document.at("spec", "predictor"), _format(document)
    if name == "container":
        return predictor.at("containers", 0)
    return predictor.at("model") if predictor.at("model").value is not None else predictor.at(name)


def _model(name: str, document: Part) -> FoundModel:
    batcher = document.at("spec", "predictor", "batcher")
    batch = batcher.at("maxBatchSize").whole(1)
    return FoundModel(
        name=name,
        notes=tuple(_notes(document, batch)),
        source=_source(document),
        precision=_settings(document).precision,
        runtime=RUNTIMES.get(_format(document), ""),
        batch_size=batch,
        max_queue_delay_s=(batcher.at("maxLatency").number() or 0.0) / 1e3,
    )


def _notes(document: Part, batch: int | None) -> Iterator[str]:
    server, predictor = _server(document), document.at("spec", "predictor")
    where = _address(document) or shown_address(server.at("image").word())
    of_file = f" of {where}" if where else ""
    batches = f", batches up to {batch}" if batch else ""
    yield f"{_format(document)}{of_file}{batches}"
    limits = server.at("resources", "limits").parts()
    asked = [f"asks for {part.whole()} {key}" for key, part in limits.items() if key.startswith(GPU_RESOURCES)]
    replicas = {key: predictor.at(f"{key}Replicas").whole() for key in ("min", "max")}
    bounds = [f"{key}Replicas {count}" for key, count in replicas.items() if count is not None]
    yield ", ".join([" and ".join(asked) or "asks for no GPU", *bounds])


def _address(document: Part) -> str:
    """Where the model lies, by address or in a store of the cluster; empty where nothing says."""
    server = _server(document)
    return shown_address(server.at("storageUri").word() or server.at("storage", "path").word())


def _source(document: Part) -> str:
    """`hf:bert-base-uncased` where the server gets it from there; else the name of its folder."""
    settings, uri = _settings(document), _address(document)
    if settings.model and _format(document) == "huggingface":
        return f"hf:{shown_address(settings.model)}"
    if uri.startswith("hf://"):
        return f"hf:{uri.removeprefix('hf://').partition(':')[0]}"
    return bare_name(VERSION.sub("", uri.rstrip("/"))) or source_of(settings.named)


def _settings(document: Part) -> ServingSettings:
    """Options and variables of the environment that the server gets."""
    server = _server(document)
    variables = {one.at("name").word(): one.at("value").word() for one in server.at("env").items()}
    words = [part.word() for name in ("command", "args") for part in server.at(name).items()]
    options: dict[str, str] = {}
    for option, after in pairwise([*words, ""]):
        key, equals, value = option.partition("=")
        if option.startswith("-"):
            options[key] = value if equals or after.startswith("-") else after
    return ServingSettings((options, variables))


def _unread(document: Part) -> str:
    """What the server is told and no scenario holds; empty where that is nothing."""
    unread = _settings(document).unread("model_name")  # what callers name it
    return f"{_name(document)} is told what is not read: {unread}" if unread else ""


def _beside(document: Part) -> Iterator[str]:
    for part in ("transformer", "explainer"):
        if document.at("spec", part).value is not None:
            yield f"{part} of {_name(document)}: runs code of its own, which is not planned"
    containers = document.at("spec", "predictor", "containers").items()
    if _format(document) == "container" and len(containers) > 1:
        yield f"{counted(len(containers) - 1, 'further container')} of {_name(document)}: run code of their own"
