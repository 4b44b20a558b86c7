"""Figures as profiles have them: no more digits than timers tell."""

from collections.abc import Mapping, Sequence
from typing import Any

DIGITS = 5
"""Digits of each raw sample: timers tell no more."""


# Words and numbers


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
