"""Regimes: the arithmetic in which a model runs. One function sets it, wherever a time is taken. Needs torch."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch

from calibrate.io.points import Settings

CASTS: Mapping[str, torch.dtype] = {"bf16": torch.bfloat16, "fp16": torch.float16}
"""Precisions in which the weights themselves are kept."""
AUTOCASTS: Mapping[tuple[str, str], torch.dtype] = {
    ("amp", "cuda"): torch.float16,
    ("amp", "cpu"): torch.bfloat16,  # where fp16 is emulated
    ("amp-bf16", "cuda"): torch.bfloat16,
    ("amp-bf16", "cpu"): torch.bfloat16,
}
"""By precision and kind of device."""

LIKE_FP32 = (torch.float32, torch.complex64)
"""Kinds of weights that every other precision keeps."""


def kept_in(module: Any) -> torch.dtype | None:
    """The kind of number that most bytes of a module's weights are; None where it has none."""
    held: dict[torch.dtype, int] = {}
    for weight in module.parameters():
        held[weight.dtype] = held.get(weight.dtype, 0) + weight.nbytes
    return max(held, key=lambda kind: held[kind], default=None)


@contextmanager
def in_regime(settings: Settings) -> Iterator[None]:
    """TF32 and cuDNN's choice of algorithm as set, and as before afterwards. `torch` leaves TF32 as it is found.

    The older names of the TF32 switches are set on purpose: they keep the newer `fp32_precision` in step, but not the
    other way round, and torch.compile reads the older and raises where they differ (torch 2.9 to 2.13). What a model
    set by the newer names is put aside first, for the older ones cannot be read beside it.
    """
    cudnn: Any = torch.backends.cudnn
    benchmark = cudnn.benchmark
    cudnn.benchmark = settings.cudnn_benchmark or (benchmark and settings.precision == "torch")
    try:
        with nullcontext() if settings.precision == "torch" else _tf32(settings.precision == "tf32"):
            yield
    finally:
        cudnn.benchmark = benchmark


def of_process(settings: Settings) -> tuple[str, bool]:
    """What holds for a whole process, so that models in one must agree on it."""
    return settings.precision if settings.precision in ("tf32", "torch") else "fp32", settings.cudnn_benchmark


def autocast(settings: Settings, kind: str) -> AbstractContextManager[Any]:
    """Casts operations to half precision, where the settings say so."""
    dtype = AUTOCASTS.get((settings.precision, kind))
    return torch.autocast(kind, dtype=dtype) if dtype else nullcontext()


def in_force(settings: Settings, kind: str) -> dict[str, Any]:
    """What is in force now, read back from torch: `{"convolutions": "tf32", "products": "ieee", ...}`."""
    backends: Any = torch.backends
    owners = {"convolutions": backends.cudnn, "products": backends.cuda.matmul}
    if _newer_switches():
        owners["convolutions"] = backends.cudnn.conv
    dtype = AUTOCASTS.get((settings.precision, kind))
    return {
        "name": settings.precision,
        "runtime": settings.runtime,
        **{what: _precision(owner) for what, owner in owners.items()},
        "autocast": str(dtype).removeprefix("torch.") if dtype else None,
        "cudnn_benchmark": bool(backends.cudnn.benchmark),
    }


@contextmanager
def _tf32(allowed: bool) -> Iterator[None]:
    backends: Any = torch.backends
    owners = (backends.cuda.matmul, backends.cudnn)
    newer = _newer_switches()
    older = [(owner, _readable(owner)) for owner in owners]
    if newer:
        backends.fp32_precision = "none"
    try:
        for owner in owners:
            owner.allow_tf32 = allowed
        yield
    finally:
        for owner, was_allowed in older:
            if was_allowed is not None:
                owner.allow_tf32 = was_allowed
        for owner, precision in newer:
            owner.fp32_precision = precision


def _precision(owner: Any) -> str:
    """`ieee` or `tf32`."""
    if _newer_switches():
        return "tf32" if owner.fp32_precision == "tf32" else "ieee"
    return "tf32" if owner.allow_tf32 else "ieee"


def _readable(owner: Any) -> bool | None:
    """The older switch of `owner`; None where the newer ones say what it cannot say."""
    try:
        return bool(owner.allow_tf32)
    except RuntimeError:
        return None


def _newer_switches() -> list[tuple[Any, str]]:
    """What holds a switch `fp32_precision`, and how it stands, the widest first; empty before torch 2.9."""
    backends: Any = torch.backends
    if not hasattr(backends, "fp32_precision"):
        return []
    owners = (backends, backends.cuda.matmul, backends.cudnn, backends.cudnn.conv, backends.cudnn.rnn)
    return [(owner, owner.fp32_precision) for owner in owners]
