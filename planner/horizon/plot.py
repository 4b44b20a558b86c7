"""The picture of a long horizon: load by the hour, and the GPUs that each way pays for. Needs matplotlib."""

from pathlib import Path
from typing import TYPE_CHECKING

from calibrate.plot import BLUE, DOTS_PER_INCH, GREEN, GREY, ORANGE, PURPLE, STYLE, PlotError
from planner.horizon.answer import Horizon, Way

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {Way.FIXED: GREY, Way.AUTOSCALED: BLUE, Way.RESERVED: GREEN, Way.SPOT: ORANGE}
WIDTHS = {Way.FIXED: 1.6, Way.AUTOSCALED: 2.2, Way.RESERVED: 1.4, Way.SPOT: 1.0}
TICKS_MAX = 12


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
        try:
            figure.savefig(path, dpi=DOTS_PER_INCH, format="png")
        except OSError as error:
            raise PlotError(f"{path}: cannot be written ({error.strerror}). Name another file with --plot.") from None


def load(axes: "Axes", found: Horizon) -> None:
    """Requests a second, the mean of each hour."""
    rates = [count / 3600 for count in found.requests_by_hour]
    days = [hour / 24 for hour in range(len(rates) + 1)]
    axes.stairs(rates, days, color=PURPLE, fill=True, alpha=0.25)
    axes.stairs(rates, days, color=PURPLE)
    axes.set(title=f"{found.scenario}: load", ylabel="requests/s", ylim=(0, None), xlim=(0, days[-1]))


def gpus(axes: "Axes", found: Horizon) -> None:
    """GPUs needed, and paid by each way, the mean of each hour."""
    days = [hour / 24 for hour in range(len(found.gpus_needed_by_hour) + 1)]
    axes.stairs(found.gpus_needed_by_hour, days, color=GREY, fill=True, alpha=0.25, label="needed")
    for s in found.strategies:
        label = f"{s.way}: ${s.cost_usd.mid:,.0f}, {s.wasted_gpu_hours:,.0f} GPU-hours wasted"
        axes.stairs(s.gpus_by_hour, days, color=COLOURS[s.way], linewidth=WIDTHS[s.way], baseline=None, label=label)
    axes.set(title="GPUs paid", xlabel="day", ylabel=found.gpu, ylim=(0, None))
    step = -(-found.days // TICKS_MAX)
    axes.set_xticks(range(0, found.days + 1, step))
    top = max(s.gpus_max for s in found.strategies)
    axes.set_ylim(0, top * 1.35)
    axes.legend(loc="upper right", ncols=2, fontsize=8)
