"""Pictures of merging: what is equal in several models, and which way of serving costs least. Needs matplotlib."""

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from calibrate.io.plot import BLUE, GREEN, GREY, ORANGE, PURPLE
from planner.placing.sharing import TOP_TENTH, Analysis, HeavyHitters
from planner.questions.merging.breakeven import Breakeven, BreakevenRow
from planner.show.plots.canvas import canvas
from planner.show.text.merging import axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MODELS_MAX = 60
"""Bars up to which each is named."""
COLOURS = {"resident": GREY, "swapped": ORANGE, "merged stem": PURPLE, "merged layers": BLUE}
SERIES = (BLUE, ORANGE, GREEN, PURPLE, GREY)
"""Colours of models side by side, and so how many are shown."""
STRIP = 0.035
"""Height of the strip below, as a share of the picture's."""
MIB = 2**20


def analysis_plot(analysis: Analysis, path: Path) -> None:
    """How much of each model others have too, how the saving grows group by group, and how memory lies in layers."""

    def draw(both: "Sequence[Axes]") -> None:
        _models(both[0], analysis)
        _groups(both[1], analysis)
        _ranks(both[2], analysis)
        _cumulative(both[3], analysis)

    drawn(path, 4, draw)


def breakeven_plot(breakeven: Breakeven, path: Path) -> None:
    """Dollars a month of each way, against load and against the number of models."""
    shown = axes(breakeven)

    def draw(parts: "Sequence[Axes]") -> None:
        for part, (title, axis, rows) in zip(parts, shown, strict=True):
            _ways(part, title, axis, rows)

    drawn(path, len(shown), draw)


def drawn(path: Path, count: int, draw: "Callable[[Sequence[Axes]], None]") -> None:
    """A PNG of so many pictures side by side; PlotError where it cannot be drawn or written."""
    with canvas(path, 5.2 * count, 3.8) as figure:
        draw([figure.add_subplot(1, count, i + 1) for i in range(count)])


def _models(axes_: "Axes", analysis: Analysis) -> None:
    """Bars: what others have too, and what is a model's own."""
    shown = analysis.heavy_hitters[:MODELS_MAX]
    places = range(len(shown))
    common = [analysis.shared_by.get(x.model, 0) / MIB for x in shown]
    own = [x.bytes / MIB - size for x, size in zip(shown, common, strict=True)]
    axes_.barh(places, common, color=BLUE, label="others have it too")
    axes_.barh(places, own, left=common, color=GREY, label="its own")
    axes_.set_yticks(places, [x.model for x in shown], fontsize=7)
    axes_.invert_yaxis()
    axes_.set(title="Layers of each model", xlabel="MiB")
    axes_.legend()


def _groups(axes_: "Axes", analysis: Analysis) -> None:
    """The saving, largest groups first, beside what stems save."""
    saved = [size / MIB for size in accumulate((g.saved_bytes for g in analysis.groups), initial=0)]
    axes_.plot(range(len(saved)), saved, color=BLUE, label="all equal layers")
    axes_.axhline(analysis.branching_stem_bytes / MIB, color=PURPLE, linestyle="--", label="stems")
    axes_.axhline(analysis.total_bytes / MIB, color=GREEN, linestyle=":", label="all weights")
    axes_.set(title="Saved by sharing", xlabel="groups of equal layers shared", ylabel="MiB", ylim=(0, None))
    axes_.legend()


def _ranks(axes_: "Axes", analysis: Analysis) -> None:
    """Layers by rank, the largest first, and the power law through them."""
    for x, colour in _few(analysis):
        ranks = range(1, len(x.layer_bytes) + 1)
        axes_.plot(ranks, [size / MIB for size in x.layer_bytes], ".", color=colour, label=x.model)
        if x.power_law:
            line = [x.power_law(rank) / MIB for rank in ranks]
            axes_.plot(ranks, line, color=colour, linewidth=1, label=f"rank ^ -{x.power_law.exponent:.1f}")
    axes_.set(xscale="log", yscale="log", title="Memory of layers by rank", xlabel="rank", ylabel="MiB")
    axes_.legend()


def _cumulative(axes_: "Axes", analysis: Analysis) -> None:
    """Share of the memory in the largest layers."""
    for x, colour in _few(analysis):
        held = [0.0, *accumulate(size / x.bytes for size in x.layer_bytes)]
        axes_.plot([i / len(x.layer_bytes) for i in range(len(held))], held, color=colour, label=x.model)
    axes_.axvline(TOP_TENTH, color=GREY, linestyle=":", label="largest tenth")
    axes_.set(title="Memory in the largest layers", xlabel="share of the layers", ylabel="share of the memory")
    axes_.set(xlim=(0, 1), ylim=(0, 1.02))
    axes_.legend()


def _few(analysis: Analysis) -> list[tuple[HeavyHitters, str]]:
    """The largest models, each with a colour of its own."""
    largest = sorted(analysis.heavy_hitters, key=lambda x: -x.bytes)[: len(SERIES)]
    return list(zip(largest, SERIES, strict=False))


def _ways(axes_: "Axes", title: str, axis: str, rows: Sequence[BreakevenRow]) -> None:
    """A line for each way, as far as it serves; equal ones lie on each other. Below, the colour of what is cheapest."""
    for i, cell in enumerate(rows[0].cells):
        points = [(row.at, row.cells[i].usd_per_month) for row in rows if isfinite(row.cells[i].usd_per_month)]
        if points:
            axes_.plot(
                *zip(*points, strict=True),
                color=COLOURS.get(cell.way, GREEN),
                label=cell.way,
                linewidth=5 - 1.2 * i,
                marker="o",
                markersize=6 - i,
            )
    edges = [rows[0].at, *((a.at + b.at) / 2 for a, b in pairwise(rows)), rows[-1].at]
    for row, left, right in zip(rows, edges, edges[1:], strict=False):
        axes_.axvspan(left, right, ymax=STRIP, color=COLOURS.get(row.wins, "white"), linewidth=0)
    label = "rates over those of the scenario" if axis == "load" else "models"
    axes_.set(title=title, xlabel=f"{label} (strip: what is cheapest there)", ylabel="US dollars a month")
    axes_.set_ylim(0, axes_.get_ylim()[1] * 1.1)
    axes_.legend()
