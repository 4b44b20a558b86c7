"""Charts as SVG. Strips stretch to any width and hold no text; the others have a fixed shape and text in them."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from planner.model.plan import LatencyHistogram
from planner.show.charts.blocks import Tick
from planner.units.writing import seconds

COLOURS = 12
"""Of models; more of them share one, and their names stand on each bar."""
WIDTH, HEIGHT = 360, 190
"""Of a chart with text, in its own units: as wide as a phone shows it."""
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 14, 30
LETTER = 7
"""Width of a letter of an axis, in the chart's units: the widest font that a page is seen in."""
STRIP = 1000
"""Width of a strip in its own units."""


def figure(value: float) -> str:
    """A coordinate: two digits are a hundredth of a pixel."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def colour(number: int) -> str:
    """Class of a model's colour."""
    return f"c{number % COLOURS}"


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
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    each = (1, 2, 5) if high < 30 * low else (1, 3) if high < 1000 * low else (1,)
    return [m * 10.0**p for p in powers for m in each if low * (1 - 1e-9) <= m * 10.0**p <= high * (1 + 1e-9)]


@dataclass(frozen=True, slots=True)
class Scale:
    """Values from `low` to `high` on pixels from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Where a value lies; what is beyond the ends, at them."""
        low, high, at = (math.log(x) if self.log else x for x in (self.low, self.high, max(value, 1e-300)))
        share = (at - low) / (high - low) if high > low else 0.5
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)

    def steps(self, count: int = 5) -> list[float]:
        """Round values to label."""
        return log_steps(self.low, self.high) if self.log else steps(self.low, self.high, count)

    def ticks(self, texts: Iterable[tuple[float, str]]) -> tuple[Tick, ...]:
        """Labels at shares of the width, for a scale from 0 to 1."""
        return tuple(Tick(self(value), text) for value, text in texts)


def svg(parts: Iterable[str], label: str, width: float = WIDTH, height: float = HEIGHT) -> Markup:
    """A chart of fixed shape; `label` is what a screen reader says of it."""
    body = Markup("").join(Markup(part) for part in parts)
    return Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        figure(width), figure(height), label, body
    )


def strip(parts: Iterable[str], height: float, label: str) -> Markup:
    """A chart that stretches: 1000 units wide, whatever that is in pixels."""
    body = Markup("").join(Markup(part) for part in parts)
    return Markup(
        '<svg class="strip" viewBox="0 0 1000 {}" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>'
    ).format(figure(height), label, body)


def text(x: float, y: float, words: str, style: str = "", anchor: str = "middle") -> Markup:
    """Words in a chart."""
    return Markup('<text x="{}" y="{}" text-anchor="{}" class="{}">{}</text>').format(
        figure(x), figure(y), anchor, style, words
    )


def rect(x: float, y: float, width: float, height: float, style: str, title: str = "") -> Markup:
    """A box; the title shows where one points at it."""
    inside = Markup("<title>{}</title>").format(title) if title else Markup("")
    return Markup('<rect x="{}" y="{}" width="{}" height="{}" class="{}">{}</rect>').format(
        figure(x), figure(y), figure(width), figure(height), style, inside
    )


def line(x1: float, y1: float, x2: float, y2: float, style: str) -> Markup:
    """A straight line."""
    places = (figure(v) for v in (x1, y1, x2, y2))
    return Markup('<line x1="{}" y1="{}" x2="{}" y2="{}" class="{}"/>').format(*places, style)


def dot(x: float, y: float, style: str, title: str = "", radius: float = 5) -> Markup:
    """A point; the title shows where one points at it."""
    inside = Markup("<title>{}</title>").format(title) if title else Markup("")
    return Markup('<circle cx="{}" cy="{}" r="{}" class="{}">{}</circle>').format(
        figure(x), figure(y), figure(radius), style, inside
    )


def path(points: Sequence[tuple[float, float]], style: str, closed: bool = False) -> Markup:
    """A line through points, or the area that they bound."""
    drawn = "L".join(f"{figure(x)} {figure(y)}" for x, y in points)
    return Markup('<path d="M{}" class="{}"/>').format(drawn + ("Z" if closed else ""), style) if points else Markup("")


def histogram(one: LatencyHistogram, p50_s: float, p99_s: float) -> Markup:
    """How long one model's requests took: bars on a logarithmic axis, the SLO as a line."""
    low_s, high_s = one.edges_s[0], max(one.edges_s[-1], one.slo_s)
    across = Scale(low_s / 1.1, high_s * 1.1, LEFT - 30, WIDTH - RIGHT, log=True)
    floor, most = HEIGHT - BOTTOM, max(one.counts)
    up = Scale(0, most, floor, TOP + 14)
    bars = []
    for left_s, right_s, count in zip(one.edges_s[:-1], one.edges_s[1:], one.counts, strict=True):
        if count:
            late = "late" if left_s >= one.slo_s else "fill"
            title = f"{seconds(left_s)} to {seconds(right_s)}: {count:,} requests"
            y = up(count) if count > most / 300 else floor - 1  # what is there can be seen
            bars.append(
                rect(across(left_s), y, max(1.0, across(right_s) - across(left_s) - 0.6), floor - y, late, title)
            )
    marks = [
        line(across(at_s), TOP + 12, across(at_s), floor, style)
        for at_s, style in ((p50_s, "mark"), (p99_s, "mark dash"), (one.slo_s, "limit"))
        if math.isfinite(at_s)
    ]
    limit = text(min(across(one.slo_s), WIDTH - RIGHT - 18), TOP + 4, "SLO", "bad strong")
    axis = [line(across.start, floor, across.end, floor, "axis")]
    for at_s in across.steps():
        axis += [
            line(across(at_s), floor, across(at_s), floor + 4, "axis"),
            text(across(at_s), floor + 17, seconds_tick(at_s)),
        ]
    figures = f"median {seconds(p50_s)}, 99th percentile {seconds(p99_s)}, SLO {seconds(one.slo_s)}"
    return svg([*bars, *marks, limit, *axis], f"Latency of {one.model}: {figures}")


def seconds_tick(at_s: float) -> str:
    """`5 ms`, `0.2 ms`, `2 s`."""
    return f"{at_s:g} s" if at_s >= 1 else f"{at_s * 1e3:.3g} ms"


def step_points(times: Sequence[float], values: Sequence[float], across: Scale, up: Scale) -> list[tuple[float, float]]:
    """Corners of a step function from its first time stamp to the right end."""
    points: list[tuple[float, float]] = []
    for at, value in zip(times, values, strict=True):
        if points:
            points.append((across(at), points[-1][1]))
        points.append((across(at), up(value)))
    return [*points, (across.end, points[-1][1])] if points else []


@dataclass(frozen=True, slots=True)
class Spot:
    """A point of a scatter chart."""

    x: float
    y: float
    name: str
    title: str
    style: str


def scatter(
    spots: Sequence[Spot],
    x_title: str,
    y_title: str,
    tick_texts: tuple[Sequence[tuple[float, str]], Sequence[tuple[float, str]]],
    scales: tuple[Scale, Scale],
    frontier: Sequence[tuple[float, float]] = (),
    limit: float | None = None,
) -> Markup:
    """Points named by short names, the frontier as a line through those that no other beats."""
    across, up = scales
    parts: list[Markup] = grid(across, up, *tick_texts)
    if limit is not None:
        parts.append(line(across.start, up(limit), across.end, up(limit), "limit"))
    corners: list[tuple[float, float]] = []
    for x, y in frontier:
        corners += [(across(x), corners[-1][1])] if corners else []
        corners.append((across(x), up(y)))
    parts.append(path(corners, "front"))
    for spot in spots:
        x, y = across(spot.x), up(spot.y)
        parts += [dot(x, y, spot.style, spot.title), text(x, y - 9, spot.name, "strong")]
    parts += [
        text((across.start + across.end) / 2, HEIGHT + 8, x_title, "muted"),
        text(4, 9, y_title, "muted", "start"),
    ]
    return svg(parts, f"{y_title} by {x_title}", height=HEIGHT + 14)


def grid(
    across: Scale, up: Scale, x_ticks: Sequence[tuple[float, str]], y_ticks: Sequence[tuple[float, str]]
) -> list[Markup]:
    """Axes with their labels."""
    parts = [line(across.start, up.start, across.end, up.start, "axis")]
    for value, words in x_ticks:
        parts.append(line(across(value), up.start, across(value), up.start + 4, "axis"))
        parts.append(text(across(value), up.start + 17, words))
    for value, words in y_ticks:
        parts.append(line(across.start, up(value), across.end, up(value), "grid"))
        parts.append(text(across.start - 5, up(value) + 4, words, anchor="end"))
    return parts


def plot_area(
    x: tuple[float, float],
    y: tuple[float, float],
    written: Callable[[float], str],
    x_log: bool = False,
    y_log: bool = False,
) -> tuple[Scale, Scale]:
    """Scales of a chart with a little room around its points, and on the left as much as `written` values of y take."""
    up = Scale(*(y if y_log else padded(*y)), HEIGHT - BOTTOM, TOP + 8, y_log)
    longest = max((len(written(value)) for value in up.steps(4)), default=0)
    left = max(LEFT, LETTER * longest + 8)
    return Scale(*(x if x_log else padded(*x)), left, WIDTH - RIGHT, x_log), up


def padded(low: float, high: float) -> tuple[float, float]:
    """A twelfth more on both ends, but never below zero for what is never negative."""
    room = (high - low) / 12 or abs(high) / 2 or 1.0
    return (max(0.0, low - room) if low >= 0 else low - room), high + room
