"""Figures that are predicted, with what they may be at least and at most."""

from collections.abc import Callable
from dataclasses import dataclass
from operator import add, mul


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A figure with its least and its most. Of what is predicted, about a tenth of cases lie beyond either end."""

    low: float
    mid: float
    high: float

    @property
    def ends(self) -> tuple[float, float, float]:
        """Low, middle and high."""
        return self.low, self.mid, self.high

    def __mul__(self, other: "Range | float") -> "Range":
        """Times a number, or a range end by end: both bad ends meet, so the result is never too narrow."""
        return self.joined(mul, other)

    def __add__(self, other: "Range | float") -> "Range":
        """Plus a number, or a range end by end."""
        return self.joined(add, other)

    def joined(self, join: Callable[[float, float], float], other: "Range | float") -> "Range":
        """A function of two figures that rises with both."""
        ends = other.ends if isinstance(other, Range) else (other,) * 3
        return ranged(*map(join, self.ends, ends))

    def each(self, change: Callable[[float], float]) -> "Range":
        """A rising function of all three ends."""
        return ranged(*map(change, self.ends))


def ranged(low: float, mid: float, high: float) -> Range:
    """A figure between its ends."""
    return Range(low=low, mid=mid, high=high)


def exactly(value: float) -> Range:
    """A figure without a band."""
    return ranged(value, value, value)
