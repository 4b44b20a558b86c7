"""The picture of a long horizon: load by the hour, and the GPUs that each way pays for. Needs matplotlib."""

from pathlib import Path
from typing import TYPE_CHECKING

from calibrate.plot import BLUE, GREEN, GREY, ORANGE, PURPLE, STYLE, PlotError, save
from planner.horizons.answer import Horizon, Way

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {
    Way.FIXED: GREY,
    Way.SCHEDULED: PURPLE,
    Way.AUTOSCALED: BLUE,
    Way.RESERVED: GREEN,
    Way.SPOT: ORANGE,
    Way.OWN: "black",
}
WIDTHS = {
    Way.FIXED: 1.6,
    Way.SCHEDULED: 1.6,
    Way.AUTOSCALED: 2.2,
    Way.RESERVED: 1.4,
    Way.SPOT: 1.0,
    Way.OWN: 1.2,
}
TICKS_MAX = 12
SHORT = 3
"""Days up to which hours are marked."""
ROOM = 1.35
"""Height over the highest line, so that the legend hides none."""


def horizon_plot(found: Horizon, path: Path) -> None:
    """Write the picture as PNG; PlotError where it cannot be drawn or written."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise PlotError("matplotlib is not installed: nothing can be drawn. pip install matplotlib.") from None
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(10.4, 6.0), layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(1, 1.8))
        load(above, found)
        gpus(below, found)
        save(figure, path)


def across(found: Horizon) -> tuple[str, list[float], int]:
    """What is written below, where each hour begins and the last ends, and every how many of these a mark stands."""
    hours = 24 * found.days
    if found.days <= SHORT:
        return "hour", [float(hour) for hour in range(hours + 1)], 3 * found.days
    return "day", [hour / 24 for hour in range(hours + 1)], -(-found.days // TICKS_MAX)


def load(axes: "Axes", found: Horizon) -> None:
    """Requests a second, the mean of each hour."""
    rates = [count / 3600 for count in found.requests_by_hour]
    _, edges, _ = across(found)
    axes.stairs(rates, edges, color=PURPLE, fill=True, alpha=0.25)
    axes.stairs(rates, edges, color=PURPLE)
    axes.set(title=f"{found.scenario}: load", ylabel="requests/s", ylim=(0, None), xlim=(0, edges[-1]))


def gpus(axes: "Axes", found: Horizon) -> None:
    """GPUs needed, and paid by each way, the mean of each hour."""
    unit, edges, step = across(found)
    axes.stairs(found.gpus_needed_by_hour, edges, color=GREY, fill=True, alpha=0.25, label="needed")
    for s in found.strategies:
        label = f"{s.way}: ${s.cost_usd:,.0f}, {s.wasted_gpu_hours:,.0f} GPU-hours wasted"
        axes.stairs(s.gpus_by_hour, edges, color=COLOURS[s.way], linewidth=WIDTHS[s.way], baseline=None, label=label)
    most = max(max(s.gpus_by_hour) for s in found.strategies)
    axes.set(title="GPUs paid", xlabel=unit, ylabel="GPUs", ylim=(0, most * ROOM))
    axes.set_xticks(range(0, int(edges[-1]) + 1, step))
    axes.legend(loc="upper right", ncols=2, fontsize=8)
