"""Charts as a picture by matplotlib: PNG, or SVG by its name."""

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, filterwarnings

from calibrate.io.plot import STYLE, save
from planner.show.charts.kit.axes import ChartAxis
from planner.show.charts.kit.blocks import (
    AREAS,
    PALETTE,
    Bars,
    Box,
    Chart,
    Dot,
    Graph,
    Heat,
    Label,
    Lanes,
    Line,
    Look,
    Mark,
    Rule,
    colour,
    moved,
)
from simulator.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {colour(i): hex for i, hex in enumerate(PALETTE)} | {
    "fg": "#1b1f24",
    "fill": "#4e79a7",
    "band": "#c9d8ea",
    "late": "#c4232e",
    "limit": "#c4232e",
    "best": "#17753a",
    "on": "#4e79a7",
    "off": "#8c8c8c",
}
"""As a page has them by daylight."""
WIDTH_IN, HEIGHT_IN = 5.2, 3.6
"""Of a graph."""
ROW_IN, LANE_IN, AXIS_IN = 0.35, 0.8, 0.9
"""Height of a row of bars, a lane, and of axis and title."""
PITCH = 1.6
"""From one row to the next, of which a bar may fill 1; above it stands text."""
TALLEST_IN = 14.0
LETTERS = 80
"""Of a line of a note."""
LONG = 6
"""Letters of a label, above which labels are turned where there are many."""
DASHES = {True: "--", False: "-"}
PALE = {True: 0.6, False: 1.0}
WIDTHS = {Look.THICK: 3.0, Look.FAINT: 0.5}
"""Of lines that are no plain ones."""
FORMS = (".png", ".svg")
CROWDED = 100
"""Marks."""
DARK = 72
"""Per cent of shade from which white words stand out more than black ones."""


def draw(
    path: Path, rows: Sequence[Sequence[Chart]], title: str = "", wide_in: float = WIDTH_IN, option: str = "--plot"
) -> None:
    """Charts in rows; InputError where they cannot be drawn or written."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("matplotlib is not installed: nothing can be drawn. pip install matplotlib.") from None
    columns = max(map(len, rows))
    heights_in = [max(map(height_in, row)) for row in rows]
    with matplotlib.rc_context(STYLE | {"text.parse_math": False}):  # dollars are money
        sheet = Figure(figsize=(wide_in * columns, sum(heights_in) + 0.4), layout="constrained")
        parts = sheet.subfigures(len(rows), columns, squeeze=False, height_ratios=heights_in)
        for row, places in zip(rows, parts, strict=True):
            for chart, place in zip(row, places, strict=False):
                match chart:
                    case Graph():
                        draw_graph(chart, place.subplots())
                    case Bars():
                        draw_bars(chart, place.subplots())
                    case Heat():
                        draw_heat(chart, place.subplots())
                    case Lanes():
                        draw_lanes(chart, list(place.subplots(len(chart.rows), sharex=True, squeeze=False).flat))
        sheet.suptitle(title, x=0.01, ha="left", weight="bold")
        with catch_warnings():
            filterwarnings("ignore", "Creating legend")  # that it takes a second
            save(sheet, path, option)


def height_in(chart: Chart) -> float:
    """Inches that a chart takes."""
    match chart:
        case Bars(rows=rows):
            return min(TALLEST_IN, max(HEIGHT_IN / 2, ROW_IN * len(rows) + AXIS_IN))
        case Lanes(rows=lanes):
            return LANE_IN * len(lanes) + AXIS_IN
    return HEIGHT_IN


def draw_graph(graph: Graph, axes: "Axes") -> None:
    """Marks in the plane of two axes."""
    for mark in graph.seen:
        draw_mark(mark, axes)
    label(axes, graph.x)
    axes.set_yscale("log" if graph.y.log else "linear")
    axes.set(title=graph.title, ylabel=graph.y.title, ylim=(graph.y.low, graph.y.high))
    axes.set_yticks(*ticks(graph.y))
    axes.set_yticks([], minor=True)
    axes.set_xlabel("\n".join(filter(None, (graph.x.title, fill(graph.note, LETTERS)))))
    legend(axes, len(graph.marks))


def draw_bars(bars: Bars, axes: "Axes") -> None:
    """Rows, the first on top, below its name and its figure each."""
    count = len(bars.rows)
    for i, row in enumerate(bars.rows):
        floor = PITCH * (count - 1 - i)
        for mark in row.marks:
            draw_mark(moved(mark, floor), axes)
        axes.text(0, floor + 1.08, f"{row.label}: {row.text}", transform=axes.get_yaxis_transform(), fontsize=7)
    axes.set_yticks([])
    axes.set(title=bars.title, ylim=(0, PITCH * count))
    label(axes, bars.x)
    axes.set_xlabel(fill(bars.note, LETTERS))
    legend(axes, len(bars.rows))


def draw_lanes(lanes: Lanes, parts: "Sequence[Axes]") -> None:
    """A lane under another; of each its last strip."""
    for lane, axes in zip(lanes.rows, parts, strict=True):
        strip = lane.strips[-1]
        for mark in strip.marks:
            draw_mark(mark, axes)
        axes.set(ylim=(0, strip.high or 1.0))
        axes.set_title(f"{lane.name}: {lane.right}" if lane.right else lane.name, fontsize=8)
        label(axes, lanes.x)


def draw_heat(heat: Heat, axes: "Axes") -> None:
    """A field for each figure; grey where there is none."""
    from numpy import array, ma

    shades = array([[shade for _, shade in fields] for _, fields in heat.rows])
    axes.set_facecolor("#dddddd")
    axes.imshow(ma.masked_less(shades, 0), cmap="Blues", vmin=0, vmax=100, aspect="auto")
    for i, (_, fields) in enumerate(heat.rows):
        for j, (text, shade) in enumerate(fields):
            tint = "white" if shade > DARK else "black"
            axes.text(j, i, text, ha="center", va="center", fontsize=7, color=tint)
    axes.set_xticks(range(len(heat.columns)), heat.columns, rotation=30, ha="right")
    axes.set_yticks(range(len(heat.rows)), [name for name, _ in heat.rows])
    axes.grid(visible=False)
    axes.set(title=heat.title, xlabel=heat.across, ylabel=heat.down)


def ticks(axis: ChartAxis) -> tuple[list[float], list[str]]:
    """Places and texts."""
    return [at for at, _ in axis.ticks], [text for _, text in axis.ticks]


def label(axes: "Axes", axis: ChartAxis) -> None:
    """The horizontal axis: ends, labels, many long ones turned."""
    axes.set_xscale("log" if axis.log else "linear")
    axes.set(xlabel=axis.title, xlim=(axis.low, axis.high))
    places, texts = ticks(axis)
    crowded = sum(map(len, texts)) > 2 * WIDTH_IN * LONG
    axes.set_xticks(places, texts, rotation=90 if crowded else 0)
    axes.set_xticks([], minor=True)


def legend(axes: "Axes", marks: int) -> None:
    """Names of marks, each once; nothing where none has any. Among many marks no place is free: it stands outside."""
    handles, labels = axes.get_legend_handles_labels()
    named = dict(zip(labels, handles, strict=True))
    if named:
        place: Any = {"bbox_to_anchor": (1, 1), "loc": "upper left"} if marks > CROWDED else {}
        axes.legend(named.values(), named.keys(), fontsize="small", **place)


def draw_mark(mark: Mark, axes: "Axes") -> None:
    """A mark in the colours of a page by daylight."""
    tint: Any = {"color": COLOURS[mark.colour], "label": mark.name or None}
    match mark:
        case Line(points=[]):
            return
        case Line():
            x, y = zip(*mark.points, strict=True)
            if mark.look is Look.DOTS:
                axes.plot(x, y, ".", alpha=0.5, zorder=1, **tint)
            elif mark.look in AREAS:
                axes.fill(x, y, alpha=0.5 if mark.look is Look.AREA else 0.18, lw=0, **tint)
            else:
                style = DASHES[mark.look is Look.DASHED]
                axes.plot(x, y, linewidth=WIDTHS.get(mark.look, 1.5), linestyle=style, **tint)
        case Rule():
            line = axes.axhline if mark.level else axes.axvline
            line(mark.at, linewidth=1.2, linestyle=DASHES[mark.dashed], **tint)
        case Box():
            span, height = (mark.left, mark.right - mark.left), (mark.low, mark.high - mark.low)
            axes.broken_barh([span], height, alpha=PALE[mark.pale], linewidth=0, **tint)
        case Dot():
            face = "white" if mark.colour == "off" else tint["color"]
            axes.plot([mark.x], [mark.y], "o", markersize=6 if mark.label else 4, markerfacecolor=face, **tint)
            axes.annotate(mark.label, (mark.x, mark.y), (4, 5), textcoords="offset points", fontsize=7)
        case Label():
            weight = "bold" if mark.strong else "normal"
            axes.text(mark.x, mark.y, mark.text, ha="center", va="center", fontsize=7, weight=weight)
