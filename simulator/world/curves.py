"""Curves: how a cost grows with batch size or with bytes, and the range in which that was seen."""

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class _Measured:
    """Points, in the range of which a curve holds."""

    x: tuple[float, ...]
    """Increasing, e.g. batch sizes."""
    y: tuple[float, ...]
    """One value for each x, e.g. seconds."""

    def __post_init__(self) -> None:
        if not self.x or len(self.x) != len(self.y):
            raise ValueError(f"needs as many values as points and at least one, got {len(self.x)} and {len(self.y)}")
        if any(b <= a for a, b in zip(self.x, self.x[1:], strict=False)):
            raise ValueError(f"points must increase, got {self.x}")

    def covers(self, x: float) -> bool:
        """Whether `x` lies in the measured range."""
        return self.x[0] <= x <= self.x[-1]


@dataclass(frozen=True, slots=True)
class Interpolated(_Measured):
    """A measured series: straight lines between its points.

    Below the first point the first value holds. Past the last point the last slope continues and `covers` is False.
    """

    def __call__(self, x: float) -> float:
        """Value at `x`. Points (1, 10), (2, 12), (4, 20): at 3 it is 16, at 6 it is 28."""
        if x <= self.x[0] or len(self.x) == 1:
            return self.y[0]
        i = min(bisect_left(self.x, x), len(self.x) - 1)
        x0, x1, y0, y1 = self.x[i - 1], self.x[i], self.y[i - 1], self.y[i]
        return y0 + (y1 - y0) * (x - x0) / (x1 - x0)


@dataclass(frozen=True, slots=True)
class StraightLine(_Measured):
    """A fixed part and a part for each sample, through the points as well as it can."""

    fixed: float
    slope: float

    def __call__(self, x: float) -> float:
        """Value at `x`. Fixed 0.004 and slope 0.002: 0.020 at 8."""
        return self.fixed + self.slope * max(x, self.x[0])


@dataclass(frozen=True, slots=True)
class SmoothMaximum(_Measured):
    """(a^p + (c x)^p)^(1/p): a floor of overhead, a slope of work for each sample, and a bend between.

    The bend is at a/c, the knee: below it a batch is bound by overhead.
    """

    a: float
    """Floor: what a batch takes however small it is."""
    c: float
    """Slope: what each sample of a large batch adds."""
    p: float
    """Sharpness of the bend: 1 is a straight line, 12 nearly a corner; below 1 the slope falls as batches grow."""

    def __call__(self, x: float) -> float:
        """Value at `x`. With a = 3, c = 1, p = 2 it is 5 at 4: the root of 9 + 16."""
        work = self.c * max(x, self.x[0])
        high, low = max(self.a, work), min(self.a, work)
        return float(high * (1 + (low / high) ** self.p) ** (1 / self.p))


@dataclass(frozen=True, slots=True)
class Joined(SmoothMaximum):
    """A smooth maximum bent through the measured points: its shape between them, what was measured at them.

    It is multiplied by the ratio of measurement to form, interpolated in logarithms of both.
    """

    def __call__(self, x: float) -> float:
        """Value at `x`. Points (1, 1) and (4, 8) on a form of 1 at 1, 2 at 2 and 4 at 4: at 2 it is 2 x sqrt 2."""
        x = max(x, self.x[0])
        i = min(max(bisect_left(self.x, x), 1), len(self.x) - 1)
        if x >= self.x[-1] or i == 0:
            return self._form(x) * self._ratio(-1)
        share = math.log(x / self.x[i - 1]) / math.log(self.x[i] / self.x[i - 1])
        return float(self._form(x) * self._ratio(i - 1) ** (1 - share) * self._ratio(i) ** share)

    def _form(self, x: float) -> float:
        # A dataclass with slots is made twice, so `super()` without arguments would name the first one.
        return SmoothMaximum.__call__(self, x)

    def _ratio(self, i: int) -> float:
        return self.y[i] / self._form(self.x[i])


@dataclass(frozen=True, slots=True)
class Erring:
    """A curve that errs: times e^(deviations x sd)."""

    base: "Curve"
    deviations: float
    sd: "Curve"
    """Standard deviation of the error of its logarithm."""

    @property
    def x(self) -> tuple[float, ...]:
        """As of the curve."""
        return self.base.x

    @property
    def y(self) -> tuple[float, ...]:
        """Its values there."""
        return tuple(map(self, self.x))

    def __call__(self, x: float) -> float:
        """Value at `x`. 10 ms, off by 2 deviations of 0.1: 12.2 ms."""
        return self.base(x) * math.exp(self.deviations * self.sd(x))

    def covers(self, x: float) -> bool:
        """As the curve does."""
        return self.base.covers(x)


Curve = Interpolated | StraightLine | SmoothMaximum | Erring
"""A cost by batch size. Below the first point it is that of the first point; past the last one a guess."""


@lru_cache(maxsize=8192)
def by_size(curve: Curve, most: int) -> tuple[float, ...]:
    """Values at 1, 2, ... up to `most`: curves are asked for the same batches in every world that is replayed."""
    match curve:
        case Erring(base=base, deviations=deviations, sd=sd):
            errors = by_size(sd, most)
            return tuple(
                value * math.exp(deviations * error) for value, error in zip(by_size(base, most), errors, strict=True)
            )
        case _:
            return tuple(curve(size) for size in range(1, most + 1))


FORMS = {
    "smooth-maximum": ("a", "c", "p"),
    "straight-line": ("fixed", "slope"),
    "interpolation": (),
    "joined": ("a", "c", "p"),
}
"""Names that files use, and the parameters of each."""
THROUGH_POINTS = ("interpolation", "joined")
"""Forms that say at a measured point what was measured there; the others pass beside it."""


def curve_of(form: str, x: tuple[float, ...], y: tuple[float, ...], parameters: Mapping[str, float]) -> Curve:
    """The curve of one of `FORMS` through measured points."""
    values = {name: parameters[name] for name in FORMS[form]}
    match form:
        case "smooth-maximum":
            return SmoothMaximum(x, y, **values)
        case "straight-line":
            return StraightLine(x, y, **values)
        case "joined":
            return Joined(x, y, **values)
        case _:
            return Interpolated(x, y)


@dataclass(frozen=True, slots=True)
class LoadTime:
    """Seconds to bring weights into device memory: `t0_s + bytes / bytes_per_s`."""

    t0_s: float
    bytes_per_s: float

    def __call__(self, size_bytes: float) -> float:
        """0.1 GB at 12.29 GB/s after 7 us: 8.14 ms. Nothing to load costs nothing."""
        return self.t0_s + size_bytes / self.bytes_per_s if size_bytes else 0.0
