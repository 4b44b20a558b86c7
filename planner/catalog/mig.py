"""MIG: slices of a GPU as kinds of their own, each with its share of memory, multiprocessors and engines."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from calibrate.io.tables import table
from simulator.world.hardware import GPU

SLICE = "-MIG-"
"""Between the name of a GPU and its slice."""


def slices(path: Path, gpus: Mapping[str, GPU]) -> dict[str, GPU]:
    """Slices by name, `A100-80GB-MIG-1g.10gb`, of the table in `path`, but for those of GPUs that are not known."""
    found = [_slice(gpus[row["gpu"]], row) for row in table(path) if row["gpu"] in gpus]
    return {gpu.name: gpu for gpu in found}


def _slice(gpu: GPU, row: Mapping[str, str]) -> GPU:
    """Rates by its multiprocessors, bandwidth and cache by its memory. An A100 of 312 TFLOP/s: 44.6 for 1g."""
    arithmetic, memory = float(Fraction(row["sm_share"])), float(Fraction(row["memory_share"]))
    share_w = max(arithmetic, memory)
    return replace(
        gpu,
        name=f"{gpu.name}{SLICE}{row['profile']}",
        chip=gpu.chip or gpu.name,
        mig_profile=row["profile"],
        memory_bytes=round(float(row["memory_gb"]) * 1e9),
        memory_bytes_per_s=gpu.memory_bytes_per_s * memory,
        fp32_flops=gpu.fp32_flops * arithmetic,
        tensor_fp16_flops=_of(gpu.tensor_fp16_flops, arithmetic),
        tensor_tf32_flops=_of(gpu.tensor_tf32_flops, arithmetic),
        tensor_int8_flops=_of(gpu.tensor_int8_flops, arithmetic),
        tensor_fp8_flops=_of(gpu.tensor_fp8_flops, arithmetic),
        l2_bytes=_of(gpu.l2_bytes, memory),
        sm_count=gpu.sm_count and round(gpu.sm_count * arithmetic),
        decoders=int(row["decoders"]),
        encoders=gpu.encoders and round(gpu.encoders * arithmetic),
        assumed=(*gpu.assumed, "tdp_w", "idle_w"),
        tdp_w=gpu.tdp_w * share_w,
        idle_w=gpu.idle_w * share_w,
        nvlink_bytes_per_s=None,
        source=f"{row['source']}; rates by its share of {gpu.name}",
    )


def _of(rate: float | None, share: float) -> float | None:
    return rate and rate * share


def is_slice(name: str) -> bool:
    """Whether a kind of GPU of this name is a slice of one."""
    return SLICE in name


def whole_of(name: str) -> str:
    """The kind of GPU that a slice is cut from: `A100-80GB` of `A100-80GB-MIG-1g.10gb`."""
    return name.partition(SLICE)[0]
