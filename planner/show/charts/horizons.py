"""The chart of a long horizon: the load, what it needs, and what each way pays for, hour by hour."""

from collections.abc import Iterator, Sequence

from planner.questions.horizons.answer import Horizon, Strategy
from planner.show.charts.kit.axes import ChartAxis
from planner.show.charts.kit.blocks import Lane, Lanes, Line, Strip, area, colour, stairs
from planner.show.document import Block, Text, Tone
from planner.units.writing import counted, dollars, per_second

DAYS_LABELLED = 10
HOURS_PER_DAY = 24
ROOM = 1.05
"""Height over the highest line."""


def by_hour(horizon: Horizon) -> Iterator[Block]:
    """The load, then a lane for each way: an area for what is needed, a line for what is paid."""
    needed = horizon.gpus_needed_by_hour
    if not needed:
        return
    most = max([*needed, *(gpus for s in horizon.strategies for gpus in s.gpus_by_hour)]) * ROOM
    days = range(0, horizon.days, max(1, round(horizon.days / DAYS_LABELLED)))
    x = ChartAxis(0, len(needed), [(day * HOURS_PER_DAY, f"day {day + 1}") for day in days])
    yield Text("Area: GPUs that the load needs. Line: GPUs that are paid for.", Tone.NOTE)
    yield Lanes([load(horizon), *(lane(s, needed, most) for s in horizon.strategies)], x)


def load(horizon: Horizon) -> Lane:
    """Requests a second, the mean of each hour."""
    rates = [count / 3600 for count in horizon.requests_by_hour]
    strip = Strip("queue", [area(hourly(rates), colour(6))], max(rates) * ROOM, "Requests a second, by hour")
    return Lane("load", "", f"at most {per_second(max(rates))} in an hour", [strip])


def lane(s: Strategy, needed: Sequence[float], most: float) -> Lane:
    """One way."""
    marks = [area(hourly(needed)), Line(hourly(s.gpus_by_hour), colour(1))]
    strip = Strip("queue", marks, most, f"GPUs that {s.way} pays for, by hour")
    wasted = f"{s.wasted_gpu_hours:,.0f} GPU-hours wasted"
    return Lane(s.way, s.label, f"{dollars(s.cost_usd)}, at most {counted(s.gpus_max, 'GPU')}, {wasted}", [strip])


def hourly(values: Sequence[float]) -> list[tuple[float, float]]:
    """Corners of the steps."""
    return stairs(range(len(values)), values, len(values))
