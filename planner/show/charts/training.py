"""Charts of a training plan: its options by time and cost, in characters and as a graph."""

from collections.abc import Iterator, Sequence
from itertools import chain
from math import isfinite, log

from planner.questions.training.answer.option import TrainingOption, TrainingPlan
from planner.show.charts.kit.axes import ChartAxis, axis_around, labelled
from planner.show.charts.kit.blocks import Dot, FigureGrid, Graph, Legend, Line, Look, Mark, Rule, colour
from planner.show.document import Block
from planner.show.text.training import TICKS_S, length, usd, who

MARKS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
HEIGHT, WIDTH = 12, 60
"""Of the picture, in characters."""
LEAST_DRAWN = 3
"""Options that a picture in characters is worth; two are read from the table."""
TICKS_MAX = 6
"""Times that have room along the axis."""
NAMED_MAX = 10
"""Options that nothing beats, up to which each is named below."""
NOTE = "On the line no other is both faster and cheaper; crosses show the bands."


def drawable(options: Sequence[TrainingOption]) -> list[TrainingOption]:
    """Options that fit and come to an end."""
    return [o for o in options if o.may_fit and isfinite(o.time_s.mid) and 0 < o.cost_usd.mid < float("inf")]


def picture(shown: Sequence[TrainingOption]) -> list[str]:
    """Cost by time, both logarithmic; what nothing beats lies at the lower left."""
    options = [(mark, o) for mark, o in zip(MARKS, shown, strict=False) if drawable([o])]
    if len(options) < LEAST_DRAWN:
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


def cost_by_time(plan: TrainingPlan, shown: Sequence[TrainingOption]) -> Iterator[Block]:
    """Options by kind of GPU, for a page."""
    for graph in graphs(plan, shown, shown):
        kinds = dict.fromkeys(o.gpu for o in drawable(shown))
        yield Legend([(colour(i), gpu) for i, gpu in enumerate(kinds)])
        yield FigureGrid([graph])


def graphs(plan: TrainingPlan, drawn: Sequence[TrainingOption], shown: Sequence[TrainingOption]) -> list[Graph]:
    """Options that fit, with the letters of those that a table shows; none where nothing can be compared."""
    options = drawable(drawn)
    if len(options) < 2:
        return []
    dots = sorted(dots_of(options, shown), key=lambda dot: dot.label != "")
    unbeaten = sorted((o for o in options if o.pareto), key=lambda o: o.time_s.mid)
    front = Line([(o.time_s.mid, o.cost_usd.mid) for o in unbeaten], look=Look.DASHED)
    listed = [dot.title for dot in dots if dot.label]
    note = "; ".join(listed) if len(listed) <= NAMED_MAX else ""
    marks: list[Mark] = [front, *chain.from_iterable(map(cross, unbeaten)), *limits(plan), *dots]
    around = axis_around([dot.x for dot in dots], length, log=True)
    fitting = [t for t in TICKS_S if around.low <= t <= around.high]
    ticks = labelled(fitting[:: len(fitting) // TICKS_MAX + 1], length)
    x = ChartAxis(around.low, around.high, ticks, "time of the training", log=True)
    y = axis_around([dot.y for dot in dots], usd, title="cost", log=True)
    return [Graph("Cost by time, both logarithmic", x, y, marks, f"{NOTE} {note}")]


def dots_of(options: Sequence[TrainingOption], shown: Sequence[TrainingOption]) -> list[Dot]:
    """A dot for each, in the colour of its kind of GPU."""
    kinds = list(dict.fromkeys(o.gpu for o in options))
    letters = {id(o): mark for mark, o in zip(MARKS, shown, strict=False)}
    return [dot(o, colour(kinds.index(o.gpu)), letters.get(id(o), "")) for o in options]


def dot(o: TrainingOption, tint: str, mark: str) -> Dot:
    """An option; those that nothing beats have letters."""
    label = mark if o.pareto else ""
    return Dot(o.time_s.mid, o.cost_usd.mid, tint, label, f"{mark}: {who(o)}" if mark else who(o), o.gpu)


def cross(o: TrainingOption) -> list[Line]:
    """The bands of its time and its cost."""
    time, cost = o.time_s, o.cost_usd
    across = [(time.low, cost.mid), (time.high, cost.mid)]
    up = [(time.mid, cost.low), (time.mid, cost.high)]
    return [Line(points, look=Look.FAINT) for points in (across, up) if isfinite(points[1][0] + points[1][1])]


def limits(plan: TrainingPlan) -> Iterator[Rule]:
    """Deadline and budget."""
    if plan.deadline_s:
        yield Rule(plan.deadline_s, name=f"deadline {length(plan.deadline_s)}", dashed=True)
    if plan.budget_usd:
        yield Rule(plan.budget_usd, name=f"budget {usd(plan.budget_usd)}", dashed=True, level=True)
