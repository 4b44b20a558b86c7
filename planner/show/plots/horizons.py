"""The picture of a long horizon: load by the hour, and the GPUs that each way pays for. Needs matplotlib."""

from pathlib import Path
from typing import TYPE_CHECKING

from calibrate.io.plot import BLUE, GREEN, GREY, ORANGE, PURPLE
from planner.model.choices import HorizonWay
from planner.questions.horizons.answer import Horizon
from planner.show.plots.canvas import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {
    HorizonWay.FIXED: GREY,
    HorizonWay.SCHEDULED: PURPLE,
    HorizonWay.AUTOSCALED: BLUE,
    HorizonWay.RESERVED: GREEN,
    HorizonWay.SPOT: ORANGE,
    HorizonWay.OWN: "black",
}
WIDTHS = {
    HorizonWay.FIXED: 1.6,
    HorizonWay.SCHEDULED: 1.6,
    HorizonWay.AUTOSCALED: 2.2,
    HorizonWay.RESERVED: 1.4,
    HorizonWay.SPOT: 1.0,
    HorizonWay.OWN: 1.2,
}
TICKS_MAX = 12
SHORT = 3
"""Days up to which hours are marked."""
ROOM = 1.35
"""Height over the highest line, so that the legend hides none."""


def horizon_plot(horizon: Horizon, path: Path) -> None:
    """Write the picture as PNG; PlotError where it cannot be drawn or written."""
    with canvas(path, 10.4, 6.0) as figure:
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(1, 1.8))
        load(above, horizon)
        gpus(below, horizon)


def across(horizon: Horizon) -> tuple[str, list[float], int]:
    """The unit below, where each hour begins and the last ends, and every how many of these a mark stands."""
    hours = 24 * horizon.days
    if horizon.days <= SHORT:
        return "hour", [float(hour) for hour in range(hours + 1)], 3 * horizon.days
    return "day", [hour / 24 for hour in range(hours + 1)], -(-horizon.days // TICKS_MAX)


def load(axes: "Axes", horizon: Horizon) -> None:
    """Requests a second, the mean of each hour."""
    rates = [count / 3600 for count in horizon.requests_by_hour]
    _, edges, _ = across(horizon)
    axes.stairs(rates, edges, color=PURPLE, fill=True, alpha=0.25)
    axes.stairs(rates, edges, color=PURPLE)
    axes.set(title=f"{horizon.scenario}: load", ylabel="requests/s", ylim=(0, None), xlim=(0, edges[-1]))


def gpus(axes: "Axes", horizon: Horizon) -> None:
    """GPUs needed, and paid by each way, the mean of each hour."""
    unit, edges, step = across(horizon)
    axes.stairs(horizon.gpus_needed_by_hour, edges, color=GREY, fill=True, alpha=0.25, label="needed")
    for s in horizon.strategies:
        label = f"{s.way}: ${s.cost_usd:,.0f}, {s.wasted_gpu_hours:,.0f} GPU-hours wasted"
        axes.stairs(s.gpus_by_hour, edges, color=COLOURS[s.way], linewidth=WIDTHS[s.way], baseline=None, label=label)
    most = max(max(s.gpus_by_hour) for s in horizon.strategies)
    axes.set(title="GPUs paid", xlabel=unit, ylabel="GPUs", ylim=(0, most * ROOM))
    axes.set_xticks(range(0, int(edges[-1]) + 1, step))
    axes.legend(loc="upper right", ncols=2, fontsize=8)
