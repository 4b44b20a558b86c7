"""Pictures of a study, a row for each figure: heat map, lines with intervals, what matters most; and the Pareto set."""

from collections.abc import Callable, Sequence
from itertools import product
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrate.io.plot import BLUE, GREEN, GREY, ORANGE, PURPLE, PlotError
from planner.questions.studies.figures import Figure, middle
from planner.questions.studies.results import AxisAnswer, OutputAnswer, PointAnswer, StudyAnswer
from planner.questions.studies.scenario import Design, Label
from planner.show.plots.canvas import canvas
from planner.show.text.studies import SHOWN_LONG_S, held, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.transforms import Bbox

COLOURS = (BLUE, ORANGE, GREEN, PURPLE, GREY, "#b8a12c", "#2a9d9d", "#b04a6b")
CELLS_MAX = 16
"""Values of an axis up to which a heat map can be read."""
ROWS_MAX = 4
"""Figures drawn: those named first."""
THRESHOLD = "threshold"
SCALES = {"fraction": (100.0, "%"), "bytes": (1e-9, "GB"), "J": (1 / 3.6e6, "kWh")}

SIDES: tuple[dict[str, Any], ...] = (
    {"position": (4, 4), "horizontalalignment": "left", "verticalalignment": "bottom"},
    {"position": (4, -4), "horizontalalignment": "left", "verticalalignment": "top"},
    {"position": (-4, 4), "horizontalalignment": "right", "verticalalignment": "bottom"},
    {"position": (-4, -4), "horizontalalignment": "right", "verticalalignment": "top"},
)
"""Where the name of a point may stand, in points from it."""

Draw = Callable[["Axes"], None]


def draw(answer: StudyAnswer, path: Path) -> None:
    """The picture, as PNG; PlotError where it cannot be drawn or written."""
    rows = [panels for output in drawable(answer)[:ROWS_MAX] if (panels := of_output(answer, output))]
    if pareto := of_two(answer):
        rows.append([pareto])
    if not rows:
        raise PlotError(f"{answer.name}: no figure that can be drawn. Keep a number among `outputs`.")
    wide = max(map(len, rows))
    with canvas(path, 5.2 * wide, 3.6 * len(rows)) as picture:
        picture.suptitle(answer.name)
        for i, panels in enumerate(rows):
            for j, panel in enumerate(panels):
                panel(picture.add_subplot(len(rows), wide, i * wide + j + 1))
        if pareto:
            picture.draw_without_rendering()  # so that it is known where names lie
            uncover(picture.axes[-1])


# What is drawn


def drawable(answer: StudyAnswer) -> list[OutputAnswer]:
    """The threshold, where one was searched for, and all figures that are numbers."""
    search = answer.search
    threshold = [OutputAnswer(name=THRESHOLD, unit=search.unit, better="", interval=True)] if search else []
    return [o for o in (*threshold, *answer.outputs) if any(value(p, o) is not None for p in answer.points)]


def of_output(answer: StudyAnswer, output: OutputAnswer) -> list[Draw]:
    """Panels that can be drawn of one figure."""
    varied = [axis for axis in answer.axes if len(axis.values) > 1]
    panels: list[Draw] = []
    if is_map(answer, varied):
        panels.append(lambda axes: heat_map(axes, answer, output, *varied))
    if along := next((axis for axis in varied if axis.numbers), None):
        panels.append(lambda axes: lines(axes, answer, output, along))
    if any(swing.output == output.name for swing in answer.sensitivity):
        panels.append(lambda axes: tornado(axes, answer, output))
    return panels


def is_map(answer: StudyAnswer, varied: Sequence[AxisAnswer]) -> bool:
    """Whether two axes span a grid small enough to be read."""
    two = answer.design == Design.GRID and len(varied) == 2
    return two and all(len(axis.values) <= CELLS_MAX for axis in varied)


def of_two(answer: StudyAnswer) -> Draw | None:
    """The Pareto set of the first two figures of which one wants an end; those with a unit before counts."""
    two = sorted((output for output in drawable(answer) if output.better), key=lambda output: not output.unit)[:2]
    return (lambda axes: pareto(axes, answer, *two)) if len(two) == 2 else None


def figure(point: PointAnswer, output: OutputAnswer) -> Figure:
    """The figure of a point; None where the point is not feasible."""
    if not point.feasible:
        return None
    return point.threshold if output.name == THRESHOLD else point.values.get(output.name)


def value(point: PointAnswer, output: OutputAnswer) -> float | None:
    """The same as a number; None for words."""
    seen = figure(point, output)
    if seen is None or isinstance(seen, str):
        return None
    number = middle(seen)
    return number if number is not None and isfinite(number) else None


def title(answer: StudyAnswer, output: OutputAnswer) -> str:
    """Its name; of a threshold what was searched for."""
    return f"{answer.search.find} {answer.search.path}" if answer.search and output.name == THRESHOLD else output.name


def scale(answer: StudyAnswer, output: OutputAnswer) -> tuple[float, str]:
    """Factor that a figure is drawn with, and its unit then."""
    most = max((value(p, output) or 0.0) for p in answer.points)
    if output.unit == "s":
        return (1 / 3600, "h") if most >= SHOWN_LONG_S else (1.0, "s") if most >= 1 else (1e3, "ms")
    return SCALES.get(output.unit, (1.0, output.unit))


def label(answer: StudyAnswer, output: OutputAnswer) -> str:
    """Name and unit of an axis."""
    unit = scale(answer, output)[1]
    return f"{title(answer, output)} ({unit})" if unit else title(answer, output)


def named(axis: AxisAnswer) -> str:
    """Name of what was varied; of a path its end."""
    return axis.name


# How it is drawn


def heat_map(axes: "Axes", answer: StudyAnswer, output: OutputAnswer, down: AxisAnswer, across: AxisAnswer) -> None:
    """A cell for each point with its figure; grey where there is none."""
    import numpy as np

    cells = crossed(answer, down, across)
    numbers = np.array([[value(p, output) for p in row] for row in cells], dtype=float)
    axes.set_facecolor("#dddddd")
    axes.imshow(numbers, cmap="Blues" if output.better != "high" else "Greens", aspect="auto")
    middle_of = (np.nanmin(numbers) + np.nanmax(numbers)) / 2
    for (i, row), j in product(enumerate(cells), range(len(across.values))):
        dark = bool(numbers[i, j] > middle_of)
        text = written(row[j], output, answer)
        axes.text(j, i, text, ha="center", va="center", fontsize=7, color="white" if dark else "black")
    axes.set_xticks(range(len(across.values)), [str(v) for v in across.values], rotation=30, ha="right")
    axes.set_yticks(range(len(down.values)), [str(v) for v in down.values])
    axes.grid(visible=False)
    axes.set(title=title(answer, output), xlabel=named(across), ylabel=named(down))


def crossed(answer: StudyAnswer, down: AxisAnswer, across: AxisAnswer) -> list[list[PointAnswer]]:
    """Points of two axes, the others at their first value."""
    points = {tuple(point.axes.values()): point for point in answer.points}
    first = {axis.name: axis.values[0] for axis in answer.axes}

    def at(row: Label, column: Label) -> PointAnswer:
        return points[tuple((first | {down.name: row, across.name: column}).values())]

    return [[at(row, column) for column in across.values] for row in down.values]


def written(point: PointAnswer, output: OutputAnswer, answer: StudyAnswer) -> str:
    """A cell's figure as the table has it; `~` where it is predicted."""
    if (seen := value(point, output)) is None:
        return "-"
    if output.name == THRESHOLD and answer.search:
        return held(point.threshold, answer.search.unit)
    return f"{'~' * point.predicted}{number(seen, output)}"


def lines(axes: "Axes", answer: StudyAnswer, output: OutputAnswer, along: AxisAnswer) -> None:
    """A line for each combination of the other axes, with the 95 % interval where the figure has one."""
    assert along.numbers
    series = series_along(answer, along)
    for i, (name, points) in enumerate(list(series.items())[: len(COLOURS)]):
        draw_series(axes, scaled(answer, output, along, points), i, name)
    if along.log or (min(along.numbers) > 0 and max(along.numbers) >= 8 * min(along.numbers)):
        axes.set_xscale("log")
        axes.minorticks_off()
    if len(along.values) <= CELLS_MAX:
        axes.set_xticks(along.numbers, [str(v) for v in along.values], rotation=30, ha="right")
    axes.set(title=title(answer, output), xlabel=named(along), ylabel=label(answer, output))
    axes.margins(y=0.1)
    bottom, top = axes.get_ylim()
    if 0 < bottom < top / 2:
        axes.set_ylim(bottom=0)
    none_below_zero(axes)
    if len(series) > 1:
        axes.legend(fontsize=7)


def series_along(answer: StudyAnswer, along: AxisAnswer) -> dict[str, list[PointAnswer]]:
    """Points by the values of all other axes."""
    series: dict[str, list[PointAnswer]] = {}
    for point in answer.points:
        rest = [str(v) for name, v in point.axes.items() if name != along.name]
        series.setdefault(", ".join(rest), []).append(point)
    longest = max(map(len, series.values()))  # one-at-a-time has one line, and single points of the other axes
    return {name: points for name, points in series.items() if len(points) == longest}


def scaled(
    answer: StudyAnswer, output: OutputAnswer, along: AxisAnswer, points: Sequence[PointAnswer]
) -> list[tuple[float, float, float, float]]:
    """Place, figure, and by how much the ends of its interval are below and above it; in order of the places."""
    assert along.numbers
    factor, _ = scale(answer, output)
    places = dict(zip(along.values, along.numbers, strict=True))
    rows = []
    for point in points:
        if (y := value(point, output)) is not None:
            low, high = ends(figure(point, output))
            place = places[point.axes[along.name]]
            rows.append((place, factor * y, factor * max(0.0, y - low), factor * max(0.0, high - y)))
    return sorted(rows)


def draw_series(axes: "Axes", known: Sequence[tuple[float, float, float, float]], number: int, name: str) -> None:
    """One line; the later ones are thinner, so that equal lines can be seen on each other."""
    x, y, below, above = zip(*known, strict=True) if known else ((), (), (), ())
    size = max(2.0, 7.0 - 1.5 * number)
    axes.errorbar(
        x,
        y,
        yerr=[below, above],
        color=COLOURS[number],
        label=name,
        marker="o",
        markersize=size,
        linewidth=size / 2.5,
        capsize=3,
        elinewidth=1,
    )


def ends(seen: Figure) -> tuple[float, float]:
    """Of an interval; of a plain number itself."""
    mid = middle(seen) if not isinstance(seen, str) else None
    at = 0.0 if mid is None else mid
    if not isinstance(seen, dict):
        return at, at
    low, high = seen.get("low"), seen.get("high")
    return (at if low is None else low), (at if high is None else high)


def tornado(axes: "Axes", answer: StudyAnswer, output: OutputAnswer) -> None:
    """How far each axis moves the figure, the others as in the base; what matters most on top."""
    factor, _ = scale(answer, output)
    swings = [swing for swing in answer.sensitivity if swing.output == output.name]
    for i, swing in enumerate(swings):
        start, width = factor * swing.low_figure, factor * (swing.high_figure - swing.low_figure)
        axes.barh(i, width, left=start, color=BLUE, height=0.5)
        if width:
            axes.annotate(
                str(swing.low), (start, i), (-3, 0), ha="right", va="center", size=7, textcoords="offset points"
            )
            axes.annotate(
                str(swing.high), (start + width, i), (3, 0), ha="left", va="center", size=7, textcoords="offset points"
            )
    if (base := swings[0].reference_figure) is not None:
        axes.axvline(factor * base, color=GREY, linestyle="--", linewidth=1, label="base")
        axes.legend(fontsize=7)
    axes.set_yticks(range(len(swings)), [swing.axis for swing in swings])
    axes.use_sticky_edges = False
    axes.margins(x=0.3)
    axes.set_ylim(len(swings) - 0.4, -0.6)
    axes.set(title="What matters most", xlabel=label(answer, output))


def pareto(axes: "Axes", answer: StudyAnswer, one: OutputAnswer, other: OutputAnswer) -> None:
    """All points by two figures; those that no point beats in both are joined."""
    points = [p for p in answer.points if value(p, one) is not None and value(p, other) is not None]
    (fx, _), (fy, _) = scale(answer, one), scale(answer, other)
    at = [(fx * (value(p, one) or 0.0), fy * (value(p, other) or 0.0)) for p in points]
    best = unbeaten(at, one.better == "high", other.better == "high")
    axes.plot(*zip(*at, strict=True), "o", color=GREY, markersize=4, label="points")
    axes.plot(*zip(*best, strict=True), "o-", color=BLUE, label="not beaten in both")
    for place in best:
        name = ", ".join(str(v) for v in points[at.index(place)].axes.values())
        axes.annotate(name, place, (4, 4), textcoords="offset points", fontsize=6)
    axes.set(title="Pareto set", xlabel=label(answer, one), ylabel=label(answer, other))
    axes.margins(x=0.2, y=0.15)
    none_below_zero(axes)
    axes.legend(fontsize=7)


def none_below_zero(axes: "Axes") -> None:
    """Let no axis begin below 0 where nothing drawn lies there: no one pays less than nothing."""
    left, bottom = axes.dataLim.min
    if left >= 0:
        axes.set_xlim(left=max(0.0, axes.get_xlim()[0]))
    if bottom >= 0:
        axes.set_ylim(bottom=max(0.0, axes.get_ylim()[0]))


def uncover(axes: "Axes") -> None:
    """Move names that lie on others to another side of their point, and hide those that find no room."""
    taken: list[Bbox] = []
    for name in axes.texts:
        for side in SIDES:
            name.set(**side)
            box = name.get_window_extent()
            if not any(map(box.overlaps, taken)):
                taken.append(box)
                break
        else:
            name.set_visible(False)


def unbeaten(at: Sequence[tuple[float, float]], high_x: bool, high_y: bool) -> list[tuple[float, float]]:
    """The points than which none is as good in both and better in one, in order of the first figure."""
    good = {(x * (-1 if high_x else 1), y * (-1 if high_y else 1)): (x, y) for x, y in at}
    kept = [p for p in good if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in good)]
    return sorted(good[p] for p in kept)
