"""Formats: which tool a file is for, by what is in it, and its reader."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from planner.imports.serving import deepstream, kserve, ray_serve, savant
from planner.imports.serving.found import Found
from planner.imports.serving.parts import text_of
from planner.imports.serving.textproto import parse
from planner.imports.serving.triton_config import checked
from simulator.errors import InputError

FORMATS: Sequence[Any] = (deepstream, savant, kserve, ray_serve)
"""Modules that each know the files of one tool, called by `TOOL`."""
*_FIRST, _LAST = (tool.TOOL for tool in FORMATS)
KNOWN = f"{', '.join(_FIRST)} or {_LAST}"


def read(path: Path) -> Found:
    """Models of a file, and who asks them; InputError, in one line, where it is none that is known."""
    if path.is_dir():
        raise InputError(f"{path}: is a directory. Name a file; `planner from-triton` reads a model repository.")
    if is_triton_model(path):
        remedy = f"Read the folder of its models: `planner from-triton {path.absolute().parent.parent}`"
        raise InputError(f"{path}: configures one model of a Triton server. {remedy}.")
    documents = deepstream.read_either(path)
    if not documents:
        raise InputError(f"{path}: is empty. Name {KNOWN}.")
    for tool in FORMATS:
        if any(map(tool.looks_like, documents)):
            found: Found = tool.read(documents)
            return found
    remedy = f"Name {KNOWN}."
    if documents[0].at("property").value is not None:
        remedy = "It configures one model: name the file of the application that runs it."
    raise InputError(f"{path}: is none that is read. {remedy}")


def is_triton_model(path: Path) -> bool:
    """Whether a file is the `config.pbtxt` of a model, whatever it is called."""
    try:
        return bool(checked(parse(text_of(path), str(path)), "ModelConfig"))
    except InputError:
        return path.suffix == ".pbtxt" and not text_of(path).lstrip().startswith("infer_config")
