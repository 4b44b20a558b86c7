"""Records: what a file of another tool says, whichever tool it was."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from calibrate.io.files import quoted
from planner.imports.texts import TextFile

AGREE = 0.05
"""Share by which two figures of one thing may differ before one of them is wrong: as much as falls of a series may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolMeasurement:
    """A batch that was timed."""

    line: int = 0
    """Where it stands in its file; 0: all of it."""
    batch: int | None = None
    """None: the file does not say."""
    latency_s: float
    column: str = ""
    """What it was measured under, where a file has several such; empty: it has one."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """`model`, `gpu`, `precision`, `runtime` and `input` as the file writes them, where it does."""
    weight_bytes: float | None = None
    workspace_bytes: float | None = None
    total_bytes: float | None = None
    """All that lies on the GPU while the batch runs, weights too."""
    params: float | None = None
    activations: float | None = None
    """Numbers that convolutions and products put out for one sample."""
    flops_per_sample: float | None = None
    spread: float | None = None
    """Standard deviation of a run over its mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurements:
    """What a file holds."""

    tool: str
    """With its version, where the file has it."""
    points: tuple[ToolMeasurement, ...]
    as_of: str = ""
    """ISO date; empty: the file does not say."""
    by_gpus: bool = False
    """Whether the figures are of all GPUs of a system together."""
    by_processor: bool = False
    """Whether the file says that a processor computed, which it may not name."""
    assumptions: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()


def number(file: TextFile, text: object, what: str, line: int = 0) -> float:
    """A figure above 0 and finite, or an InputError."""
    try:
        value = float(str(text).strip())
    except ValueError:
        raise file.refuse(f"{what} must be a number, got {quoted(str(text))}", "Mend the file", line) from None
    if not math.isfinite(value) or value <= 0:
        raise file.refuse(f"{what} must be above 0 and finite, got {quoted(str(text))}", "Mend the file", line)
    return value


def whole(file: TextFile, text: object, what: str, line: int = 0) -> int:
    """The same of a whole number."""
    value = number(file, text, what, line)
    if value != int(value) or value > 1_000_000:
        wrong = f"{what} must be a whole number up to a million, got {quoted(str(text))}"
        raise file.refuse(wrong, "Mend the file", line)
    return int(value)


def agree(file: TextFile, one: float, other: float, what: str, line: int = 0) -> None:
    """An InputError where a file says one thing twice, and not alike."""
    if abs(math.log(one / other)) > AGREE:
        wrong = f"says {what} twice, and not alike: {one:.4g} and {other:.4g}"
        raise file.refuse(wrong, "Measure it again", line)


def plain_name(written: str) -> str:
    """A name by its letters and digits: `RTX 2080 Ti` and `RTX-2080-Ti` are one."""
    return re.sub(r"[^a-z0-9]", "", written.lower())
