"""Demand over days: a factor for every minute, and a few levels of load that stand in for all minutes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from planner.io.load import Loaded, ScenarioError, refused
from planner.io.traces.reading import read_trace
from planner.io.traces.table import TraceError, TraceTable
from planner.model.calendar import DAYS_PER_WEEK, HOURS_PER_DAY, Between, CalendarSpec, CalendarTrace, Keep, RatesAre
from planner.questions.horizons.recording import Shape, shape_of_counts
from planner.units.errors import Steps
from simulator.world.workload import Floats, Stream, Trace, Workload, draw

MINUTE_S = 60.0
MINUTES_PER_HOUR = 60
MINUTES_PER_DAY = HOURS_PER_DAY * MINUTES_PER_HOUR
WHOLE = 2**40
"""Minutes of a period in which any calendar lies."""
PERIODS = {Keep.HOUR: MINUTES_PER_HOUR, Keep.DAY: MINUTES_PER_DAY, Keep.WHOLE: WHOLE}
"""Minutes of each period in which an SLO may have to be met."""


@dataclass(frozen=True, slots=True)
class Levels:
    """Minutes sorted into levels of load. A level's factor is the mean of its minutes, so that no request is lost."""

    factor: Floats
    """Factor of each level, rising."""
    of_minute: NDArray[np.intp]
    """Number of the level of each minute."""

    @property
    def minutes(self) -> NDArray[np.intp]:
        """Number of minutes that each level stands for."""
        return np.bincount(self.of_minute, minlength=len(self.factor))


def refuse(loaded: Loaded, path: Steps, message: str) -> ScenarioError:
    """An error with the place of a value: the `--set` that brought it, else where it stands in the scenario's file."""
    return refused(loaded, [(path, message)])


def calendar_of(loaded: Loaded) -> CalendarSpec:
    """The scenario's calendar; ScenarioError where it has none."""
    if loaded.scenario.calendar is None:
        remedy = "Write e.g. `calendar: {days: 7, hourly: [24 factors]}`, see docs/horizons.md."
        raise refuse(loaded, ("calendar",), f"is missing: how does load go up and down? {remedy}")
    return loaded.scenario.calendar


def shape_of(loaded: Loaded, calendar: CalendarSpec) -> Shape:
    """Load of every minute over the rates of the streams, in the unit that `rates_are` names."""
    if calendar.trace is not None:
        shape = recorded(read(loaded, calendar.trace), calendar.trace, calendar.days)
    else:
        shape = Shape(from_factors(calendar))
    match calendar.rates_are:
        case RatesAre.MEAN:
            unit = float(np.mean(shape.factors))
        case RatesAre.PEAK:
            unit = float(np.max(shape.factors))
        case RatesAre.UNIT:
            return shape
    return replace(shape, factors=shape.factors / unit)


def from_factors(calendar: CalendarSpec) -> Floats:
    """Factors of `hourly` times those of the days, minute by minute."""
    days = np.resize(np.array(calendar.weekly or (1.0,) * DAYS_PER_WEEK), calendar.days)
    hours = np.outer(days, calendar.hourly).ravel()
    if calendar.between is Between.STEP:
        return np.repeat(hours, MINUTES_PER_HOUR)
    middle_of_hour = np.arange(len(hours)) + 0.5
    middle_of_minute = (np.arange(len(hours) * MINUTES_PER_HOUR) + 0.5) / MINUTES_PER_HOUR
    factors: Floats = np.interp(middle_of_minute, middle_of_hour, hours, period=float(len(hours)))
    return factors


def read(loaded: Loaded, trace: CalendarTrace) -> TraceTable:
    """The recording; ScenarioError with its place where it cannot be read."""
    try:
        return read_trace(loaded.path.parent / trace.file, trace.column)
    except TraceError as error:
        raise refuse(loaded, ("calendar", "trace", "file"), str(error)) from None


def recorded(table: TraceTable, trace: CalendarTrace, days: int) -> Shape:
    """Load of each minute in a recording that is stretched, and repeated until the days are full."""
    minutes = days * MINUTES_PER_DAY
    lasts_min = (trace.lasts or minutes * MINUTE_S) / MINUTE_S
    cells = max(1, round(lasts_min))
    cell_of_arrival = (table.times_s / table.period_s * cells).astype(np.intp)
    counts = np.bincount(np.minimum(cell_of_arrival, cells - 1), minlength=cells)
    shape = shape_of_counts(counts)
    cell_of_minute = ((np.arange(minutes) + 0.5) % lasts_min / lasts_min * cells).astype(np.intp)
    return replace(shape, factors=shape.factors[cell_of_minute] * (cells / lasts_min))


def levels(factors: Floats, count: int) -> Levels:
    """Sort minutes into `count` equal ranges between least and most load; ranges without minutes are left out.

    Factors 0, 1, 9 and 10 in two levels: 0.5 and 9.5.
    """
    edges = np.linspace(factors.min(), factors.max(), count + 1)[1:-1]
    ranges = np.searchsorted(edges, factors, side="right")
    _, of_minute = np.unique(ranges, return_inverse=True)
    means = np.bincount(of_minute, factors) / np.bincount(of_minute)
    return Levels(means, of_minute)


def warped(demand: Workload, factors: Floats, start_s: float, finish_s: float, seed: int) -> Mapping[str, Floats]:
    """Every arrival from `start_s` to `finish_s` of the calendar, by model, in seconds from `start_s`.

    Arrivals are drawn in a time in which the load never changes. Each is then put where as much load has passed in the
    calendar's time.
    """
    edges_s = np.arange(len(factors) + 1) * MINUTE_S
    passed_s = np.concatenate([[0.0], np.cumsum(factors)]) * MINUTE_S
    first, last = np.interp([start_s, finish_s], edges_s, passed_s)
    if last <= first:
        return {}
    inside = (edges_s > start_s) & (edges_s < finish_s)
    clock_s = np.concatenate([[start_s], edges_s[inside], [finish_s]]) - start_s
    load_s = np.concatenate([[first], passed_s[inside], [last]]) - first
    drawn = draw(demand, float(last - first), seed)
    return {model: np.interp(arrivals.arrival_s, load_s, clock_s) for model, arrivals in drawn.items()}


def stamped(arrivals_s: Mapping[str, Floats], duration_s: float) -> Workload:
    """Arrivals that were drawn already, as a workload that replays exactly them once."""
    streams = (Stream(model, Trace(times_s, duration_s)) for model, times_s in arrivals_s.items() if len(times_s))
    return Workload(tuple(streams))


def request_count(demand: Workload, factors: Floats) -> float:
    """Requests of the whole calendar: 1,500 a second at factors of mean 1 are 907,200,000 in a week."""
    return sum(demand.rates_rps().values()) * float(np.sum(factors)) * MINUTE_S
