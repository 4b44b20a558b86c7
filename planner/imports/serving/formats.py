"""Formats: which tool a file is for, by what is in it, and its reader."""

from pathlib import Path

from planner.imports.serving import deepstream, kserve, ray_serve, savant
from planner.imports.serving.found import Found
from planner.imports.serving.parts import Part
from simulator.errors import InputError

KNOWN = "a DeepStream application, a Savant module, a KServe InferenceService or a Ray Serve config"


def read(path: Path) -> Found:
    """Models of a file, and who asks them; InputError, in one line, where it is none that is known."""
    if path.is_dir():
        raise InputError(f"{path}: is a directory. Name a file; `planner from-triton` reads a model repository.")
    documents = deepstream.read_either(path)
    if not documents:
        raise InputError(f"{path}: is empty. Name {KNOWN}.")
    first = documents[0]
    if any(map(ray_serve.looks_like, documents)):
        return ray_serve.read(documents)
    if any(map(kserve.looks_like, documents)):
        return kserve.read(documents)
    if savant.looks_like(first):
        return savant.read(first)
    if deepstream.looks_like(first):
        return deepstream.read(first)
    raise InputError(f"{path}: is none that is read. {_remedy(first)}")


def _remedy(first: Part) -> str:
    if first.at("property").value is not None:
        return "It configures one model: name the file of the application that runs it."
    return f"Name {KNOWN}."
