"""Training options as a picture: cost by time, those that nothing beats joined by a line, deadline and budget."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from calibrate.io.plot import BLUE, GREEN, GREY, ORANGE, PURPLE
from planner.questions.training.plan import TrainingOption, TrainingPlan
from planner.show.plots.canvas import canvas
from planner.show.text.training import TICKS_S, length, usd

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = (BLUE, ORANGE, GREEN, PURPLE)
MARKERS = "osD^vP"
NAMED = 10
"""Options on the line up to which each is named; more would overlap."""


def draw(plan: TrainingPlan, path: Path) -> None:
    """The picture, as PNG or SVG by its name; PlotError where it cannot be."""
    with canvas(path, 10, 6) as figure:
        fill(figure.subplots(), plan)


def fill(axes: "Axes", plan: TrainingPlan) -> None:
    """All options that fit, by kind of GPU."""
    fitting = [o for o in plan.options if o.fits and 0 < o.cost_usd.mid < float("inf")]
    kinds = dict.fromkeys(o.gpu for o in fitting)
    for i, gpu in enumerate(kinds):
        some = [o for o in fitting if o.gpu == gpu]
        x, y = [o.time_s.mid for o in some], [o.cost_usd.mid for o in some]
        axes.plot(x, y, MARKERS[i % len(MARKERS)], color=COLOURS[i % len(COLOURS)], label=gpu)
    best(axes, [o for o in fitting if o.pareto])
    limits(axes, plan)
    axes.set(xscale="log", yscale="log", xlabel="time of the training", ylabel="cost")
    axes.set_title(f"{plan.name}: cost by time. Nothing is faster and cheaper than *; bars show how sure that is")
    axes.legend(bbox_to_anchor=(1, 1), loc="upper left")
    label(axes)


def label(axes: "Axes") -> None:
    """Round lengths of time and sums of money along the axes."""
    least, most = axes.get_xlim()
    ticks = [t for t in TICKS_S if least <= t <= most]
    axes.set_xticks(ticks, [length(t) for t in ticks])
    axes.set_xticks([], minor=True)
    axes.set_xlim(least, most)
    axes.yaxis.set_major_formatter(money)
    axes.yaxis.set_minor_formatter(money)
    axes.tick_params(which="minor", labelsize="small")


def money(value: float, _: object) -> str:
    """The text of a tick."""
    return usd(value)


def best(axes: "Axes", ends: Sequence[TrainingOption]) -> None:
    """Those that nothing beats, with their bands and names."""
    line = sorted(ends, key=lambda o: o.time_s.mid)
    x, y = ([getattr(o, key) for o in line] for key in ("time_s", "cost_usd"))
    axes.errorbar(
        [t.mid for t in x], [c.mid for c in y],
        xerr=[[t.mid - t.low for t in x], [t.high - t.mid for t in x]],
        yerr=[[c.mid - c.low for c in y], [c.high - c.mid for c in y]],
        color=GREY, elinewidth=0.8, linewidth=1, zorder=1,
    )  # fmt: skip
    for o in line if len(line) <= NAMED else ():
        text = f"* {o.gpu_count} {o.gpu}, {o.price_kind}"
        axes.annotate(text, (o.time_s.mid, o.cost_usd.mid), (5, 6), textcoords="offset points", fontsize="small")


def limits(axes: "Axes", plan: TrainingPlan) -> None:
    """Deadline and budget."""
    if plan.deadline_s:
        axes.axvline(plan.deadline_s, color=GREY, linestyle="--", label=f"deadline {length(plan.deadline_s)}")
    if plan.budget_usd:
        axes.axhline(plan.budget_usd, color=GREY, linestyle=":", label=f"budget {usd(plan.budget_usd)}")
