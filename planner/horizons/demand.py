"""Demand over days: a factor for every minute, and few levels of load that stand in for all of them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from planner.horizons.recording import Shape, shape
from planner.horizons.sections import DAYS_PER_WEEK, HOURS_PER_DAY, Between, CalendarSpec, CalendarTrace, RatesAre
from planner.load import Loaded, ScenarioError, refused
from planner.strict_yaml import Steps
from planner.traces import TraceError, TraceTable, read_trace
from simulator.workload import Floats, Stream, Trace, Workload, draw

MINUTE_S = 60.0
MINUTES_PER_HOUR = 60
MINUTES_PER_DAY = HOURS_PER_DAY * MINUTES_PER_HOUR


@dataclass(frozen=True, slots=True)
class Levels:
    """Minutes sorted into levels of load. Each level's factor is the mean of its minutes, so that no frame is lost."""

    factor: Floats
    """Of each level, rising."""
    of_minute: NDArray[np.intp]
    """Which level each minute has."""

    @property
    def minutes(self) -> NDArray[np.intp]:
        """How many minutes each level stands for."""
        return np.bincount(self.of_minute, minlength=len(self.factor))


def refuse(loaded: Loaded, path: Steps, message: str) -> ScenarioError:
    """An error with the place of a value: the `--set` that brought it, else where it stands in the scenario's file."""
    return refused(loaded, [(path, message)])


def calendar_of(loaded: Loaded) -> CalendarSpec:
    """The scenario's calendar; ScenarioError where it has none."""
    if loaded.scenario.calendar is None:
        hint = "Write e.g. `calendar: {days: 7, hourly: [24 factors]}`"
        raise refuse(loaded, ("calendar",), f"is missing: how does load go up and down? {hint}, see docs/horizons.md.")
    return loaded.scenario.calendar


def shape_of(loaded: Loaded, calendar: CalendarSpec) -> Shape:
    """Load of every minute over the rates of the streams, scaled to what these are said to be."""
    if calendar.trace is not None:
        found = recorded(read(loaded, calendar.trace), calendar.trace, calendar.days)
    else:
        found = Shape(written(calendar))
    match calendar.rates_are:
        case RatesAre.MEAN:
            return replace(found, factors=found.factors / float(np.mean(found.factors)))
        case RatesAre.PEAK:
            return replace(found, factors=found.factors / float(np.max(found.factors)))
        case RatesAre.UNIT:
            return found


def written(calendar: CalendarSpec) -> Floats:
    """Factors of `hourly` times those of the days, minute by minute."""
    days = np.resize(np.array(calendar.weekly or (1.0,) * DAYS_PER_WEEK), calendar.days)
    hours = np.outer(days, calendar.hourly).ravel()
    if calendar.between is Between.STEP:
        return np.repeat(hours, MINUTES_PER_HOUR)
    middle = np.arange(len(hours)) + 0.5
    at = (np.arange(len(hours) * MINUTES_PER_HOUR) + 0.5) / MINUTES_PER_HOUR
    between: Floats = np.interp(at, middle, hours, period=float(len(hours)))
    return between


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
    at = np.minimum((table.times_s / table.period_s * cells).astype(np.intp), cells - 1)
    found = shape(np.bincount(at, minlength=cells))
    which = ((np.arange(minutes) + 0.5) % lasts_min / lasts_min * cells).astype(np.intp)
    return replace(found, factors=found.factors[which] * (cells / lasts_min))


def levels(factors: Floats, count: int) -> Levels:
    """Sort minutes into `count` equal ranges between least and most load; ranges without minutes are left out.

    Factors 0, 1, 9 and 10 in two levels: 0.5 and 9.5.
    """
    edges = np.linspace(factors.min(), factors.max(), count + 1)[1:-1]
    _, of_minute = np.unique(np.searchsorted(edges, factors, side="right"), return_inverse=True)
    return Levels(np.bincount(of_minute, factors) / np.bincount(of_minute), of_minute)


def warped(demand: Workload, factors: Floats, start_s: float, finish_s: float, seed: int) -> Mapping[str, Floats]:
    """Every arrival from `start_s` to `finish_s` of the calendar, by model, in seconds from `start_s`.

    Drawn in a time in which the load never changes, and put where as much load has passed in the calendar's.
    """
    edges_s = np.arange(len(factors) + 1) * MINUTE_S
    passed_s = np.concatenate([[0.0], np.cumsum(factors)]) * MINUTE_S
    first, last = np.interp([start_s, finish_s], edges_s, passed_s)
    inside = (edges_s > start_s) & (edges_s < finish_s)
    clock_s = np.concatenate([[start_s], edges_s[inside], [finish_s]]) - start_s
    load_s = np.concatenate([[first], passed_s[inside], [last]]) - first
    if last <= first:
        return {}
    drawn = draw(demand, float(last - first), seed)
    return {model: np.interp(found.arrival_s, load_s, clock_s) for model, found in drawn.items()}


def stamped(arrivals_s: Mapping[str, Floats], duration_s: float) -> Workload:
    """Arrivals that were drawn already, as a workload that replays exactly them once."""
    return Workload(tuple(Stream(m, Trace(times, duration_s)) for m, times in arrivals_s.items() if len(times)))


def frames(demand: Workload, factors: Floats) -> float:
    """Frames in the whole calendar: 1,500 a second at factors of mean 1 are 907,200,000 in a week."""
    return sum(demand.rates_rps().values()) * float(np.sum(factors)) * MINUTE_S
