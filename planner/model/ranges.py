"""Figures that are predicted, with what they may be at least and at most."""

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from operator import add, mul
from statistics import NormalDist

BEYOND_A_TENTH = NormalDist().inv_cdf(0.9)
"""Standard deviations from the middle of a normal distribution to where a tenth lies beyond."""
ROUNDING = 1e-9
"""Share of a figure within which it equals a limit: sums and products are rounded."""
OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


def compared(value: float, sign: str, limit: float) -> bool:
    """Whether a figure is on that side of a limit, where both are equal but for rounding: 0.1 x 3 is not above 0.3."""
    if math.isclose(value, limit, rel_tol=ROUNDING):
        return "=" in sign
    return OPERATORS[sign](value, limit)


def is_within(value: float, limit: float | None) -> bool:
    """The value is at most the limit, or there is none."""
    return limit is None or compared(value, "<=", limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A figure with its least and its most. Of what is predicted, about a tenth of cases lie below the band, a
    tenth above."""

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

    def chance_within(self, limit: float) -> float:
        """Probability that the figure is at most `limit`: its logarithm is normal on either side of the middle.

        12 h (9 to 16): 0.5 within 12 h, 0.9 within 16 h, 0.99 within 20.2 h. Where a side has no band, none lie there.
        """
        if not math.isfinite(self.mid):
            return 0.0
        end = self.high if limit >= self.mid else self.low
        if end == self.mid:
            return float(is_within(self.mid, limit))
        if min(limit, end, self.mid) <= 0:  # zero has no logarithm: the ends alone are known
            known = ((self.high, 0.9), (self.mid, 0.5), (self.low, 0.1))
            return next((chance for value, chance in known if limit >= value), 0.0)
        return NormalDist().cdf(BEYOND_A_TENTH * math.log(limit / self.mid) / abs(math.log(end / self.mid)))

    def each(self, change: Callable[[float], float]) -> "Range":
        """A rising function of all three ends."""
        return ranged(*map(change, self.ends))


def ranged(low: float, mid: float, high: float) -> Range:
    """A figure between its ends."""
    return Range(low=low, mid=mid, high=high)


def exactly(value: float) -> Range:
    """A figure without a band."""
    return ranged(value, value, value)
