"""The section `calendar` of a scenario: how load goes up and down over days, and what may be done about it."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import Field

from planner.model.checked import checked
from planner.units.errors import KeysError
from planner.units.reading import Duration, Fraction, PositiveDuration, PricePerHour, RareRate

HOURS_PER_DAY = 24
DAYS_PER_WEEK = 7

DAY_S = 86_400.0
Factor = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
Machines = Annotated[int, Field(ge=1, le=10_000)]


class Between(StrEnum):
    """The course of load from one hour's factor to the next."""

    LINEAR = "linear"
    """Each factor holds in the middle of its hour; between, load goes straight."""
    STEP = "step"
    """Each factor holds for its whole hour: the hardest case for what follows the load."""


class RatesAre(StrEnum):
    """The meaning of the streams' rates in a calendar."""

    MEAN = "mean"
    """Means over the whole calendar: factors are scaled to a mean of 1."""
    PEAK = "peak"
    """Those of the busiest minute: factors are scaled to a maximum of 1."""
    UNIT = "unit"
    """Those at factor 1: factors are taken as they are."""


class Keep(StrEnum):
    """Over what an SLO must be kept."""

    HOUR = "hour"
    """Each hour by itself."""
    DAY = "day"
    """Each day by itself."""
    WHOLE = "whole"
    """The whole calendar: a bad hour is made up for by good ones."""


class Term(StrEnum):
    """For how long machines are reserved."""

    ONE_YEAR = "reserved-1y"
    THREE_YEARS = "reserved-3y"


@checked()
@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarTrace:
    """A recording as the shape of the load."""

    file: Path
    """CSV with a column of time stamps, relative to the scenario's file."""
    column: str | None = None
    """Name of that column; found by its usual names where not given."""
    lasts: Annotated[Duration, Field(ge=3600)] | None = None
    """Stretch the recording to this, an hour or more, and repeat it; to the whole calendar where not given."""


@checked()
@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalingSpec:
    """How the number of machines follows the load."""

    target_utilization: Annotated[Fraction, Field(gt=0, le=1)] | None = None
    """Load wanted of each machine: share of the most it can serve in full batches, e.g. `70 %`; the cheapest of 50 %,
    55 %, ... 100 % that keeps the SLO where not given."""
    boot: Annotated[Duration, Field(le=DAY_S)] = 90.0
    """From the order of a machine until it runs; it is paid from the order on."""
    load: Annotated[Duration, Field(le=DAY_S)] | None = None
    """From then until its models answer; what their profiles say of loading where not given."""
    scale_down_delay: Annotated[Duration, Field(le=DAY_S)] = 300.0
    """For so long fewer machines must have been enough before any is given back."""
    interval: PositiveDuration = 15.0
    """How often the load is looked at; each look sees the load since the last."""
    min: Machines = 1
    """Fewest machines."""
    max: Machines | None = None
    """Most machines of an autoscaled way, its base included; as many as `buy.max_gpus` allows where not given."""

    def __post_init__(self) -> None:
        """Refuse limits that contradict each other."""
        if self.max is not None and self.max < self.min:
            raise KeysError(f"`max` must be at least `min`, {self.min}, got {self.max}. Exchange them.", "min", "max")


@checked()
@dataclass(frozen=True, slots=True, kw_only=True)
class ReservedSpec:
    """Machines that are paid for whether they are used or not."""

    term: Term = Term.ONE_YEAR
    """For how long: `reserved-1y` or `reserved-3y`."""
    price: PricePerHour | None = None
    """An hour of one machine; the catalog's where not given."""


@checked()
@dataclass(frozen=True, slots=True, kw_only=True)
class SpotSpec:
    """Machines that are cheaper and may be taken away."""

    interruptions: Annotated[RareRate, Field(le=1 / 60)]
    """How often one machine is taken, e.g. `0.05 /h`: every 20 hours."""
    together: Fraction = 0.92
    """Share of these in which all machines of a zone are taken at once: 92 % of those seen on AWS and Azure came within
    three minutes of another of the same kind and zone (arXiv:2604.16457)."""
    zones: Annotated[int, Field(ge=1, le=100)] = 1
    """Over how many the machines are spread."""
    shortage: Duration = 600.0
    """After a zone was taken: for so long no spot machine can be had there. Nobody publishes it: assumed."""
    notice: Duration = 120.0
    """From the warning until it is gone; it serves meanwhile, and its replacement is ordered at once."""
    price: PricePerHour | None = None
    """An hour of one machine; the upper end of the catalog's range where not given."""


@checked()
@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarSpec:
    """Days of load that rises and falls: by `hourly` and `weekly` factors, or in the shape of a `trace`."""

    days: Annotated[int, Field(ge=1, le=366)] = DAYS_PER_WEEK
    """How many, from midnight on."""
    hourly: tuple[Factor, ...] = ()
    """Load of each of a day's 24 hours over the streams' rates."""
    weekly: tuple[Factor, ...] = ()
    """With `hourly`: factors of the days, from Monday to Sunday; all 1 where not given."""
    trace: CalendarTrace | None = None
    """Instead of `hourly`: a recording."""
    between: Between = Between.LINEAR
    """With `hourly`: `linear` from the middle of one hour to that of the next, or `step`."""
    rates_are: RatesAre = RatesAre.MEAN
    """The meaning of the streams' rates: the `mean` over the calendar, its `peak`, or the `unit` of the factors."""
    keep: Keep = Keep.HOUR
    """Over what each SLO must be kept: every `hour`, every `day`, or the `whole` calendar."""
    keep_share: Annotated[Fraction, Field(gt=0, le=1)] = 1.0
    """Share of the hours or days in which it must be, e.g. `99 %`."""
    representatives: Annotated[int, Field(ge=2, le=500)] = 24
    """Levels of load that are replayed in place of all minutes."""
    autoscaling: AutoscalingSpec = AutoscalingSpec()
    """How the number of machines follows the load."""
    reserved: ReservedSpec = ReservedSpec()
    """Which reservation is weighed for the base."""
    spot: SpotSpec | None = None
    """Spot machines; not weighed where not given."""

    def __post_init__(self) -> None:
        """Refuse factors that make no calendar."""
        if bool(self.hourly) == (self.trace is not None):
            raise KeysError(
                "must have one of `hourly` and `trace`. Give 24 factors, or a recording.", "hourly", "trace"
            )
        if self.weekly and self.trace is not None:
            raise KeysError(
                "`weekly` goes only with `hourly`: a recording has its own days. Leave it out.", "weekly", "trace"
            )
        if self.keep is Keep.WHOLE and self.keep_share < 1:
            raise KeysError(
                "`keep_share` goes with `keep: hour` or `day`: the whole calendar is one. Leave it out.",
                "keep_share",
                "keep",
            )
        if self.hourly:
            self._check_factors()

    def _check_factors(self) -> None:
        """Refuse a wrong number of factors, and factors without any load."""
        if len(self.hourly) != HOURS_PER_DAY:
            raise KeysError(f"`hourly` must have 24 factors, one an hour, got {len(self.hourly)}.", "hourly")
        if len(self.weekly) not in (0, DAYS_PER_WEEK):
            raise KeysError(f"`weekly` must have 7 factors, Monday to Sunday, got {len(self.weekly)}.", "weekly")
        of_days = self.weekly[: self.days] or (1.0,)
        if not any(self.hourly) or not any(of_days):
            raise KeysError(
                "has no load at all: every factor of `hourly`, or of the days, is 0. Write some above 0.",
                "hourly",
                "weekly",
            )
