"""Anatomy as one picture: operations and working set by layer, training memory by kind, and the roofline."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrate.io.plot import BLUE, GREEN, GREY, NAMES_MAX, ORANGE, PURPLE
from planner.prediction.roofline import Bound
from planner.questions.profiling.anatomy import Anatomy
from planner.questions.profiling.whatif import training_memory
from planner.show.plots.canvas import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMS = {".png": "png", ".svg": "svg"}
BATCHES = (16, 32, 64, 128, 256)
"""Of the picture of training memory."""
COLOURS = {Bound.ARITHMETIC: ORANGE, Bound.BANDWIDTH: BLUE, Bound.OVERHEAD: GREY, Bound.NONE: GREY}


def draw(seen: Anatomy, path: Path) -> None:
    """The picture, as PNG or SVG by its name."""
    with canvas(path, 11, 8) as figure:
        fill(figure, seen)
        where = f" on {seen.gpu.name}" if seen.gpu else ""
        title = f"{seen.facts.model}{where}, batch {seen.batch}, {seen.precision}"
        figure.suptitle(title, x=0.01, ha="left", weight="bold")


def fill(figure: "Figure", seen: Anatomy) -> None:
    """All panels."""
    panels = figure.subplots(2, 2)
    _operations(panels[0, 0], seen)
    _working_set(panels[0, 1], seen)
    _training(panels[1, 0], seen)
    _roofline(panels[1, 1], seen)


def _operations(axes: "Axes", seen: Anatomy) -> None:
    times = [time for time in seen.roofline.layers if time.flops]
    _bars(axes, [time.layer.name for time in times], {"operations": [time.flops / 1e9 for time in times]}, [BLUE])
    axes.set_title("Operations of a layer, billion (a multiply-add is two)")


def _working_set(axes: "Axes", seen: Anatomy) -> None:
    layers = [layer for layer in seen.facts.layers if layer.kernels]
    parts = {
        "inputs": [seen.batch * layer.input_bytes / layer.calls / 1e6 for layer in layers],
        "weights": [layer.weight_bytes / 1e6 for layer in layers],
        "outputs": [seen.batch * layer.output_bytes / layer.calls / 1e6 for layer in layers],
    }
    _bars(axes, [layer.name for layer in layers], parts, [GREEN, BLUE, ORANGE])
    axes.set_title("Working set of a layer, MB (4-byte floats)")
    axes.legend(fontsize="small")


def _training(axes: "Axes", seen: Anatomy) -> None:
    batches = sorted({*BATCHES, seen.batch})
    held = [training_memory(seen.facts, batch) for batch in batches]
    parts = {
        "weights": [each.weights / 1e9 for each in held],
        "gradients": [each.gradients / 1e9 for each in held],
        "momentum": [each.optimizer / 1e9 for each in held],
        "activations": [each.activations.mid / 1e9 for each in held],
        "allocator": [each.allocator.mid / 1e9 for each in held],
    }
    _bars(axes, [str(batch) for batch in batches], parts, [BLUE, ORANGE, PURPLE, GREEN, GREY])
    ends = [(each.total.low / 1e9, each.total.high / 1e9) for each in held]
    axes.vlines(range(len(held)), *zip(*ends, strict=True), color="black", label="its 80 % band")
    if seen.gpu:
        limit = seen.gpu.memory_bytes / 1e9
        axes.axhline(limit, color="black", linestyle="--", label=f"memory of {seen.gpu.name}: {limit:g} GB")
    axes.set(title="Training memory by batch size, GB", xlabel="batch size")
    axes.legend(fontsize="small", loc="upper left")


def _roofline(axes: "Axes", seen: Anatomy) -> None:
    times = [time for time in seen.roofline.layers if time.flops and time.bytes]
    axes.set_title("Roofline: operations a second against operations a byte")
    axes.set(xscale="log", yscale="log", xlabel="operations a byte")
    if not times or seen.gpu is None:
        axes.text(0.5, 0.5, "name a --gpu", ha="center", transform=axes.transAxes)
        return
    limits = seen.roofline.ceilings
    across = np.geomspace(min(0.1, *(t.intensity for t in times)), max(1e3, *(t.intensity for t in times)), 200)
    roof = np.minimum(limits.flops_per_s, across * limits.bytes_per_s) / 1e12
    axes.plot(across, roof, color="black", label="ceiling")
    for bound in Bound:
        of_bound = [time for time in times if time.bound is bound]
        if of_bound:
            rates = [time.flops / time.time_s / 1e12 for time in of_bound]
            label = f"bound by {bound}"
            axes.plot([t.intensity for t in of_bound], rates, "o", color=COLOURS[bound], alpha=0.7, label=label)
    axes.set_ylabel("TFLOP/s")
    axes.legend(fontsize="small")


def _bars(axes: "Axes", names: Sequence[str], parts: Mapping[str, Sequence[float]], colours: Sequence[str]) -> None:
    """Bars on top of one another."""
    places: Any = np.arange(len(names))
    below = np.zeros(len(names))
    for (name, heights), colour in zip(parts.items(), colours, strict=True):
        axes.bar(places, heights, 0.8, bottom=below, label=name, color=colour)
        below = below + np.array(heights)
    axes.grid(visible=False, axis="x")
    if len(names) > NAMES_MAX:
        axes.set_xticks([])
        axes.set_xlabel(f"{len(names)} layers, in the order they run")
    else:
        turned = 90 if max(map(len, names), default=0) > 3 else 0
        axes.set_xticks(places, names, rotation=turned, fontsize="small")
