"""Kinds of GPU that a person adds: an entry in a gpus.yaml of a catalog of their own."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from calibrate.io.files import Fault, FileError, put, read_text
from calibrate.published.names import gpu_named
from planner.catalog.engines import engine_rates
from planner.catalog.files import GpuFile, read_all
from planner.catalog.offers import family_of, near_gpu
from planner.model.checked import adapter
from planner.show.document import Column, Document, Rows, Section, Table
from planner.show.terminal import terminal
from planner.units.errors import dotted, message
from planner.units.reading import perhaps
from planner.units.writing import Screen, counted
from simulator.errors import InputError
from simulator.world.hardware import GPU, device_option
from simulator.world.pipelines import ENCODE, ENGINES

MADE = "# Kinds of GPU of your own, added by `planner gpus add`.\n"


def chosen(gpus: Mapping[str, GPU], kind: str | None) -> dict[str, GPU]:
    """Whole GPUs, or the one that is named."""
    if kind is None:
        return {name: gpu for name, gpu in gpus.items() if not gpu.mig_profile}
    found = gpu_named(kind, gpus)
    if found not in gpus:
        raise InputError(f"`{kind}` is not in the catalog.{near_gpu(kind, gpus) or _ways_to_have(kind, gpus)}")
    return {found: gpus[found]}


def _ways_to_have(kind: str, gpus: Mapping[str, GPU]) -> str:
    """Where a kind that is like none may be: among what was measured, or in a catalog of one's own."""
    if device_option(kind) == "cpu":
        return " `planner profiles device --profiles DIR` shows the devices that `planner calibrate` measured."
    return f"{family_of(kind, gpus)} Add it with the figures of its data sheet: `planner gpus add --help` names them."


def _same(kind: str, names: Iterable[str]) -> str | None:
    """The name that is the same but for its capitals."""
    return next((name for name in names if name.lower() == kind.lower()), None)


def add_kind(kind: str, figures: Mapping[str, Any], out: Path, gpus: Mapping[str, GPU]) -> Path:
    """The file with the new kind, checked as plans read it before it is put in place of the old one."""
    path = out / "gpus.yaml"
    if known_as := _same(kind, gpus):
        raise InputError(f"`{known_as}` is in the catalog already. Name it otherwise, or write {path} by hand.")
    text = _text(path)
    known: dict[str, Any] = _known(path) if text else {"source": "added by hand", "gpus": {}}
    if text and text != _written(known):  # written anew, it would lose what a person wrote
        wrong = "is not as `planner gpus add` writes it"
        raise InputError(f"{path}: {wrong}. Write the kind there, or name another folder with --out.")
    if known_as := _same(kind, known["gpus"]):
        raise InputError(f"{path}: has `{known_as}` already. Name it otherwise, or change it there.")
    given = {name: value for name, value in figures.items() if value is not None}
    chip, chips = given.get("chip"), {*gpus, *known["gpus"], *(gpu.chip for gpu in gpus.values() if gpu.chip)}
    if chip and chip not in chips:
        hint = perhaps(chip, chips) or " Name a kind that has it, or leave it out."
        raise InputError(f"chip: `{chip}` is neither a kind nor the chip of another.{hint}")
    more = {**known, "gpus": {**known["gpus"], kind: given}}
    _check(more)
    put(path, _written(more).encode(), InputError, "Name another folder with --out")
    return path


def _text(path: Path) -> str:
    """What stands in a file; nothing where there is none."""
    try:
        return read_text(path)
    except FileError as error:
        if error.fault is Fault.MISSING:
            return ""
        raise InputError(f"{path}{error.place}: {error}. Name another folder with --out.") from None


def _written(data: Mapping[str, Any]) -> str:
    return MADE + yaml.safe_dump(dict(data), sort_keys=False, allow_unicode=True)


def _check(data: Mapping[str, Any]) -> None:
    """InputError with all that is wrong with kinds, as plans read them."""
    try:
        adapter(GpuFile).validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        wrong = (
            f"{dotted(problem['loc'][1:])}: {message(problem['loc'], problem['type'], problem, GpuFile)}"
            for problem in error.errors()
        )
        raise InputError("\n".join(wrong)) from None


def _known(path: Path) -> dict[str, Any]:
    """The same as plans read it."""
    errors: list[str] = []
    found = read_all([path], GpuFile, errors)
    if errors:
        raise InputError("\n".join(errors))
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
        rows.figures("decoders", lambda gpu: "-" if gpu.decoders is None else str(gpu.decoders)),
        rows.figures("encoders", lambda gpu: "-" if gpu.encoders is None else str(gpu.encoders)),
    ]
    headline = counted(len(gpus), "kind") + " of GPU, dense peaks."
    sections = [Section("", [Table(columns)])]
    only = next(iter(gpus.values())) if len(gpus) == 1 else None
    if only:
        headline = f"{only.name}: {only.source}."
        sections.append(Section("Besides", [Table(_besides(only))]))
        for kind in ENGINES:
            if list(engine_rates(only, kind)):
                sections.append(Section(f"Video of 1920x1080 that its engines {kind}", [Table(_coding(only, kind))]))
    return terminal(Document(name="gpus", headline=headline, sections=sections), screen) + "\n"


def _besides(gpu: GPU) -> list[Column]:
    """What a list of all kinds leaves out."""
    rows = Rows([gpu])
    return [
        rows.words("chip", lambda gpu: gpu.chip or gpu.name),
        rows.figures("fp8 TFLOP/s", lambda gpu: _tera(gpu.tensor_fp8_flops)),
        rows.figures("L2 MB", lambda gpu: f"{gpu.l2_bytes / 1e6:g}" if gpu.l2_bytes else "-"),
        rows.figures("SMs", lambda gpu: str(gpu.sm_count or "-")),
        rows.figures("idle W", lambda gpu: f"{gpu.idle_w:g}"),
        rows.figures("NVLink GB/s", lambda gpu: f"{gpu.nvlink_bytes_per_s / 1e9:g}" if gpu.nvlink_bytes_per_s else "-"),
        rows.figures("compute capability", lambda gpu: gpu.compute_capability or "-"),
    ]


def _coding(gpu: GPU, kind: str) -> list[Column]:
    """A row for each codec that is known of it, and each preset."""
    rows = Rows(list(engine_rates(gpu, kind)))
    preset = [rows.words("preset", lambda rate: rate.preset or "-")] if kind == ENCODE else []
    return [
        rows.words("codec", "codec"),
        *preset,
        rows.figures("frames/s", lambda rate: f"{rate.fps:,.0f}"),
        rows.figures("streams of 30 fps", lambda rate: str(rate.streams(30))),
        rows.words("evidence", "evidence"),
        rows.words("source", "source", wide=True, cited=True),
    ]


def _tera(rate: float | None) -> str:
    return f"{rate / 1e12:g}" if rate else "-"
