"""Axes: their ends, and round values to label."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

NARROW = 3
"""Ratio of the ends of an axis below which equal steps label it better than equal ratios."""
Write = Callable[[float], str]


@dataclass(frozen=True, slots=True)
class ChartAxis:
    """Values from `low` to `high`."""

    low: float
    high: float
    ticks: Sequence[tuple[float, str]] = ()
    title: str = ""
    log: bool = False

    def share(self, value: float) -> float:
        """The place of a value: 0 at the low end, 1 at the high one. What is beyond lies at the end."""
        low, high, at = self.low, self.high, value
        if self.log:
            low, high, at = math.log(low), math.log(high), math.log(max(value, 1e-300))
        part = (at - low) / (high - low) if high > low else 0.5
        return min(1.0, max(0.0, part))

    @property
    def labels(self) -> list[tuple[float, str]]:
        """Labels by their place."""
        return [(self.share(value), text) for value, text in self.ticks]


def axis_to(high: float, write: Write, title: str = "") -> ChartAxis:
    """An axis from nothing on."""
    return ChartAxis(0, high or 1.0, labelled(steps(0, high, 4), write), title)


def axis_around(
    values: Iterable[float], write: Write, count: int = 4, title: str = "", log: bool = False, unit: float = 1.0
) -> ChartAxis:
    """An axis with a little room around its values, labelled where they are round in a unit."""
    known = list(values)
    low, high = min(known), max(known)
    if log:
        low, high = low / 1.2, high * 1.2
        return ChartAxis(low, high, labelled(log_steps(low, high), write), title, log)
    low, high = padded(low, high)
    round_values = [unit * value for value in steps(low / unit, high / unit, count)]
    return ChartAxis(low, high, labelled(round_values, write), title)


def labelled(values: Iterable[float], write: Write) -> list[tuple[float, str]]:
    """Values with their texts."""
    return [(value, write(value)) for value in values]


def plain(value: float) -> str:
    """`1.5`, `200`."""
    return f"{value:g}"


def padded(low: float, high: float) -> tuple[float, float]:
    """A twelfth more on both ends, but never below zero for what is never negative."""
    room = (high - low) / 12 or abs(high) / 2 or 1.0
    below = low - room
    return max(0.0, below) if low >= 0 else below, high + room


def nice_step(span: float, count: int) -> float:
    """A step of 1, 2 or 5 times a power of ten, of which about `count` fill the span. 0.83 in 5 steps: 0.2."""
    rough = span / max(1, count)
    if not math.isfinite(rough) or rough <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    return power * min((1, 2, 5, 10), key=lambda m: abs(math.log(m * power / rough)))


def steps(low: float, high: float, count: int = 5) -> list[float]:
    """Round values from `low` to `high`."""
    step = nice_step(high - low, count)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [step * i for i in range(first, last + 1)]


def log_steps(low: float, high: float) -> list[float]:
    """Round values from `low` to `high` in about equal ratios, the fewer the more powers of ten they span."""
    if high < NARROW * low:
        return steps(low, high)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    each = (1, 2, 5) if high < 30 * low else (1, 3) if high < 1000 * low else (1,)
    values = [m * 10.0**p for p in powers for m in each]
    return [value for value in values if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]
