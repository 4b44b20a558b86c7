"""Charts of a training plan: its options by time and cost, in characters and for pages."""

from collections.abc import Iterator, Sequence
from math import isfinite, log

from planner.questions.training.plan import TrainingOption
from planner.show.charts.blocks import Figure, FigureGrid
from planner.show.charts.kit import Spot, plot_area, scatter
from planner.show.text.training import TICKS_S, length, usd, who

MARKS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
HEIGHT, WIDTH = 12, 60
"""Of the picture, in characters."""
TICKS_MAX = 6
"""Times that have room along the axis."""


def drawable(shown: Sequence[TrainingOption]) -> list[tuple[str, TrainingOption]]:
    """Options that fit and come to an end, each with its letter."""
    lettered = zip(MARKS, shown, strict=False)
    return [(mark, o) for mark, o in lettered if o.fits and isfinite(o.time_s.mid) and isfinite(o.cost_usd.mid)]


def picture(shown: Sequence[TrainingOption]) -> list[str]:
    """Cost by time, both logarithmic; what nothing beats lies at the lower left."""
    options = drawable(shown)
    if len(options) < 2:
        return []
    times = [o.time_s.mid for _, o in options]
    costs = [o.cost_usd.mid for _, o in options]
    grid = [[" "] * (WIDTH + 1) for _ in range(HEIGHT + 1)]
    for mark, o in options:
        row = steps_from(max(costs), o.cost_usd.mid, costs, HEIGHT)
        column = steps_from(min(times), o.time_s.mid, times, WIDTH)
        grid[row][column] = mark if grid[row][column] == " " else "+"
    labels = [usd(max(costs)), *[""] * (HEIGHT - 1), usd(min(costs))]
    margin = max(map(len, labels))
    left, right = length(min(times)), length(max(times))
    return [
        *(f"  {label:>{margin}} |{''.join(row).rstrip()}" for label, row in zip(labels, grid, strict=True)),
        f"  {'':>{margin}} +{'-' * WIDTH}",
        f"  {'':>{margin}}  {left}{right:>{WIDTH - len(left)}}",
    ]


def steps_from(end: float, value: float, values: Sequence[float], most: int) -> int:
    """How far a value lies from one end of all, in logarithms; from one to the other it is `most` steps."""
    whole = log(max(values) / min(values)) or 1.0
    return round(abs(log(value / end)) / whole * most)


def cost_by_time(shown: Sequence[TrainingOption]) -> Iterator[FigureGrid]:
    """The same for a page."""
    options = drawable(shown)
    if len(options) < 2:
        return
    spots = [
        Spot(o.time_s.mid, o.cost_usd.mid, mark, f"{mark}: {who(o)}", "best" if o.pareto else "off")
        for mark, o in options
    ]
    times, costs = roomy([spot.x for spot in spots]), roomy([spot.y for spot in spots])
    across, up = plot_area(times, costs, usd, x_log=True, y_log=True)
    lengths = [x for x in TICKS_S if times[0] <= x <= times[1]]
    each = len(lengths) // TICKS_MAX + 1
    ticks = [(x, length(x)) for x in lengths[::each]], [(y, usd(y)) for y in up.steps(4)]
    chart = scatter(spots, "time of the training", "cost", ticks, (across, up))
    yield FigureGrid([Figure(chart, "Cost by time, both logarithmic", "Filled: nothing is both faster and cheaper.")])


def roomy(values: Sequence[float]) -> tuple[float, float]:
    """The ends of an axis: a fifth beyond the least and the largest, so that no point lies on its edge."""
    return min(values) / 1.2, max(values) * 1.2
