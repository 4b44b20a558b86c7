"""Kinds of GPU as a table."""

from collections.abc import Mapping

from planner.show.document import Document, Rows, Section, Table
from planner.show.terminal import terminal
from planner.units.writing import Screen, counted
from simulator.world.hardware import GPU


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
