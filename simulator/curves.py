"""Curves: how a cost grows with batch size or with bytes, and the range in which that was seen."""

from bisect import bisect_left
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Interpolated:
    """A measured series: straight lines between its points.

    Below the first point the first value holds. Past the last point the last slope continues and `covers` is False.
    """

    x: tuple[float, ...]
    """Increasing, e.g. batch sizes."""
    y: tuple[float, ...]
    """One value for each x, e.g. seconds."""

    def __post_init__(self) -> None:
        if not self.x or len(self.x) != len(self.y):
            raise ValueError(f"needs as many values as points and at least one, got {len(self.x)} and {len(self.y)}")
        if any(b <= a for a, b in zip(self.x, self.x[1:], strict=False)):
            raise ValueError(f"points must increase, got {self.x}")

    def __call__(self, x: float) -> float:
        """Value at `x`. Points (1, 10), (2, 12), (4, 20): at 3 it is 16, at 6 it is 28."""
        if x <= self.x[0] or len(self.x) == 1:
            return self.y[0]
        i = min(bisect_left(self.x, x), len(self.x) - 1)
        x0, x1, y0, y1 = self.x[i - 1], self.x[i], self.y[i - 1], self.y[i]
        return y0 + (y1 - y0) * (x - x0) / (x1 - x0)

    def covers(self, x: float) -> bool:
        """Whether `x` lies in the measured range."""
        return self.x[0] <= x <= self.x[-1]


@dataclass(frozen=True, slots=True)
class LoadTime:
    """Seconds to bring weights into device memory: `t0_s + bytes / bytes_per_s`."""

    t0_s: float
    bytes_per_s: float

    def __call__(self, size_bytes: float) -> float:
        """0.1 GB at 12.29 GB/s after 7 us: 8.14 ms. Nothing to load costs nothing."""
        return self.t0_s + size_bytes / self.bytes_per_s if size_bytes else 0.0
