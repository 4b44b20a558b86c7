"""The chart of a long horizon: what the load needs and what each way pays for, hour by hour."""

from collections.abc import Iterator, Sequence

from planner.questions.horizons.answer import Horizon, Strategy
from planner.show.charts.blocks import Lane, Lanes
from planner.show.charts.kit import STRIP, Scale, path, step_points, strip
from planner.show.document import Block, Text, Tone
from planner.units.writing import counted, dollars

HEIGHT = 44
DAYS_LABELLED = 10
HOURS_PER_DAY = 24


def gpus_by_hour(horizon: Horizon) -> Iterator[Block]:
    """A lane for each way: an area for what is needed, a line for what is paid."""
    needed = horizon.gpus_needed_by_hour
    if not needed:
        return
    most = max([*needed, *(gpus for s in horizon.strategies for gpus in s.gpus_by_hour)])
    across = Scale(0, len(needed), 0, STRIP)
    up = Scale(0, most, HEIGHT, 2)
    each = max(1, round(horizon.days / DAYS_LABELLED))
    days = range(0, horizon.days, each)
    unit = Scale(0, len(needed), 0, 1)
    ticks = unit.ticks((day * HOURS_PER_DAY, f"day {day + 1}") for day in days)
    yield Text("Area: GPUs that the load needs. Line: GPUs that are paid for.", Tone.NOTE)
    yield Lanes([lane(s, needed, across, up) for s in horizon.strategies], ticks)


def lane(s: Strategy, needed: Sequence[float], across: Scale, up: Scale) -> Lane:
    """One way."""
    points = hourly(needed, across, up)
    area = path([(0, HEIGHT), *points, (STRIP, HEIGHT)], "area", closed=True)
    paid = path(hourly(s.gpus_by_hour, across, up), "c1 line")
    marks = strip([area, paid], HEIGHT, f"GPUs that {s.way} pays for, by hour")
    return Lane(s.way, s.label, f"{dollars(s.cost_usd)}, at most {counted(s.gpus_max, 'GPU')}", [("queue", marks)])


def hourly(values: Sequence[float], across: Scale, up: Scale) -> list[tuple[float, float]]:
    """Corners of the steps."""
    return step_points(range(len(values)), values, across, up)
