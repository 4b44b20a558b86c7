"""Figures as profiles have them: no more digits than timers tell."""

from collections.abc import Mapping, Sequence
from typing import Any

DIGITS = 5
"""Digits of each raw sample: timers tell no more."""
SIZES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "bytes"))
TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))


def source_text(provenance: Mapping[str, Any]) -> str:
    return f"planner calibrate on {provenance.get('gpu_name') or provenance['gpu']}"


def short(value: float, digits: int) -> float:
    """Rounded to so many digits; whole numbers stay whole."""
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 2**53 else rounded


def short_all(samples: Sequence[float]) -> list[float]:
    return [short(sample, DIGITS) for sample in samples]


def short_by_batch(series: Mapping[int, float]) -> dict[str, float]:
    return {str(batch): short(value, DIGITS) for batch, value in series.items()}


def short_if_any(key: str, value: float | None) -> dict[str, float]:
    """The key with its figure; nothing where there is none."""
    return {key: short(value, 2 * DIGITS)} if value else {}


def in_units(value: float, units: Sequence[tuple[float, str]]) -> str:
    """In the largest of `units` that it reaches: 0.000186 s is 186 us."""
    scale, unit = next((unit for unit in units if value >= unit[0]), units[-1])
    return f"{value / scale:.{max(3, len(str(int(value / scale))))}g} {unit}"
