"""Kinds of GPU that a person adds: an entry in a gpus.yaml of a catalog of their own."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError

from calibrate.io.files import replacing
from planner.catalog.files import GpuFile, read_all
from planner.catalog.mig import SLICE
from planner.show.document import Document, Rows, Section, Table
from planner.show.terminal import terminal
from planner.units.errors import dotted, message
from planner.units.reading import perhaps
from planner.units.writing import Screen, counted
from simulator.errors import InputError
from simulator.world.hardware import GPU

MADE = "# Kinds of GPU of your own, added by `planner gpus add`.\n"


class KindError(InputError):
    """A kind of GPU that cannot be shown or added; one line for each thing that is wrong."""


def chosen(gpus: Mapping[str, GPU], kind: str | None) -> dict[str, GPU]:
    """Whole GPUs, or the one that is named."""
    if kind is None:
        return {name: gpu for name, gpu in gpus.items() if SLICE not in name}
    found = next((name for name in gpus if name.lower() == kind.lower()), None)
    if found is None:
        raise KindError(f"`{kind}` is not in the catalog.{perhaps(kind, gpus)} Add it: planner gpus add {kind}.")
    return {found: gpus[found]}


def add_kind(kind: str, figures: Mapping[str, Any], out: Path, gpus: Mapping[str, GPU]) -> Path:
    """The file with the new kind, checked as plans read it before it is put in place of the old one."""
    path = out / "gpus.yaml"
    if kind in gpus:
        raise KindError(f"`{kind}` is in the catalog already. Name it otherwise, or write {path} by hand.")
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if text and not text.startswith(MADE):
        raise KindError(f"{path}: was not made by `planner gpus add`. Write the kind there, or name another --out.")
    known: dict[str, Any] = _known(path) if text else {"source": "added by hand", "gpus": {}}
    if kind in known["gpus"]:
        raise KindError(f"{path}: has `{kind}` already. Name it otherwise, or change it there.")
    given = {name: value for name, value in figures.items() if value is not None}
    kinds = {**known["gpus"], kind: given}
    made = MADE + yaml.safe_dump({**known, "gpus": kinds}, sort_keys=False, allow_unicode=True)
    _check({**known, "gpus": kinds})
    try:
        out.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(made.encode())
    except OSError as error:
        raise KindError(f"{path}: cannot be written: {error.strerror}. Name another folder with --out.") from None
    return path


def _check(data: Mapping[str, Any]) -> None:
    """KindError with all that is wrong with kinds, as plans read them."""
    try:
        TypeAdapter(GpuFile).validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        wrong = (
            f"{dotted(problem['loc'][1:])}: {message(problem['loc'], problem['type'], problem, GpuFile)}"
            for problem in error.errors()
        )
        raise KindError("\n".join(wrong)) from None


def _known(path: Path) -> dict[str, Any]:
    """What stands in a file that was made here."""
    errors: list[str] = []
    found = read_all([path], GpuFile, errors)
    if errors:
        raise KindError("\n".join(errors))
    return dict(found[0].document.data)


# As a table


def kinds_text(gpus: Mapping[str, GPU], screen: Screen) -> str:
    """A row for each kind; the source where one was asked for."""
    rows = Rows([gpus[name] for name in sorted(gpus)])
    columns = [
        rows.words("GPU", "name"),
        rows.figures("memory GB", lambda gpu: f"{gpu.memory_bytes / 1e9:g}"),
        rows.figures("GB/s", lambda gpu: f"{gpu.memory_bytes_per_s / 1e9:g}"),
        rows.figures("fp32 TFLOP/s", lambda gpu: _tera(gpu.fp32_flops)),
        rows.figures("tf32", lambda gpu: _tera(gpu.tensor_tf32_flops)),
        rows.figures("fp16", lambda gpu: _tera(gpu.tensor_fp16_flops)),
        rows.figures("int8", lambda gpu: _tera(gpu.tensor_int8_flops)),
        rows.figures("power W", lambda gpu: f"{gpu.tdp_w:g}"),
        rows.figures("host GB/s", lambda gpu: f"{gpu.pcie_bytes_per_s / 1e9:g}"),
    ]
    headline = counted(len(gpus), "kind") + " of GPU, dense peaks."
    only = next(iter(gpus.values())) if len(gpus) == 1 else None
    if only:
        headline = f"{only.name}: {only.source}."
    return terminal(Document(name="gpus", headline=headline, sections=[Section("", [Table(columns)])]), screen) + "\n"


def _tera(rate: float | None) -> str:
    return f"{rate / 1e12:g}" if rate else "-"
