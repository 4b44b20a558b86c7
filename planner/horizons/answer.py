"""The answer about a long horizon, as data. The report, the picture and the JSON read only this."""

from dataclasses import dataclass
from enum import StrEnum

from planner.horizons.sections import Keep

SCHEMA = "planner.horizon/v2"


class Way(StrEnum):
    """A way to keep machines for a load that rises and falls."""

    FIXED = "fixed"
    """Always as many, on demand."""
    SCHEDULED = "scheduled"
    """On demand by a timetable: each hour of the calendar has its number of machines."""
    AUTOSCALED = "autoscaled"
    """On demand, as many as the load wants, or a floor if it wants less."""
    RESERVED = "reserved"
    """A base of any size that is reserved, and the rest, if any, on demand by a timetable or as the load wants."""
    SPOT = "spot"
    """Machines that may be taken away, in any number over time, beside a base of any other price, or none."""
    OWN = "own"
    """Machines of one's own, and the rest, if any, rented in any other way."""


class Mode(StrEnum):
    """How the number of machines goes."""

    CONSTANT = "constant"
    SCHEDULED = "scheduled"
    AUTOSCALED = "autoscaled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """A figure with the least and the most it may be."""

    low: float
    mid: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A level of load, which stands in for all minutes that are about as busy."""

    factor: float
    """Over the rates of the streams."""
    rate_rps: float
    minutes: int
    gpus_needed: int
    """Fewest GPUs, in whole machines of `instance`, on which every promise is kept on average."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """One model over the whole calendar."""

    model: str
    slo_attainment: float
    """Share of its requests answered in time."""
    slo_attainment_low: float
    """The low end of its interval, with 95 %."""
    slo_attainment_target: float
    kept_share: float
    """Share of the hours, days or calendars (`keep`) in which even the low end reaches the target."""
    worst_hour: float
    """`slo_attainment` in the hour that had least of it."""
    worst_minute: float
    """The same of minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Machines of one way that are alike, and paid for alike."""

    instance: str
    provider: str
    region: str
    gpu: str
    gpus_per_machine: int
    price_kind: str
    """`own` for machines of one's own."""
    mode: Mode
    target_utilization: float | None
    """Load that the autoscaler wants of each machine, or the timetable allows in the busiest minute of an hour; None
    for a constant number, and where each hour has the fewest machines that keep the SLO."""
    machines_min: int
    machines_max: int
    machine_hours: float
    """Paid."""
    usd_per_hour: float
    """Of one machine; of a range, the upper end."""
    usd_per_hour_range: Band
    """`mid` is its middle."""
    price_as_of: str
    """Empty where the scenario gives the price."""
    start_s: float
    """From the order of a machine until it answers."""
    commitment_usd: float
    """What is owed for the whole term, whatever is used; 0 where nothing is reserved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """What one way costs and does."""

    way: Way
    label: str
    met: bool
    """Whether every SLO is kept, over what `keep` says."""
    parts: tuple[Part, ...]
    """The base first, if there is one."""
    cost_usd: float
    """Of the whole calendar, spot machines at the upper end of their price: the rule of every command."""
    cost_usd_range: Band
    """`mid`: at the middle of the spot price; `low`, `high`: its ends, and interruptions of one calendar with 95 %."""
    cost_usd_per_month: float
    """Of 730 hours like these."""
    usd_per_million_requests: float
    """In time or not."""
    promises: tuple[Promise, ...]
    gpu_hours: float
    """Paid."""
    wasted_gpu_hours: float
    """Paid beyond what the load needed at that moment."""
    short_gpu_hours: float
    """Needed beyond what answered at that moment."""
    gpus_max: int
    """Most that were paid at once."""
    base_gpus: int
    """Of these, in the base."""
    orders: float
    """Machines that were booted."""
    interruptions: float
    """Machines that were taken away."""
    gpus_by_hour: tuple[float, ...]
    """Mean paid GPUs of each hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DayCheck:
    """One day of one way, replayed frame by frame, beside what the levels say of it."""

    way: Way
    day: int
    """From 1."""
    requests: int
    slo_attainment: float
    """Of all models together, replayed."""
    slo_attainment_levels: float
    """The same by levels."""
    busy_gpu_hours: float
    """GPU-hours in which a batch ran, replayed."""
    busy_gpu_hours_levels: float
    """The same by levels."""
    wall_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """Days of load, and ways to serve them side by side."""

    scenario: str
    scenario_sha256: str
    seed: int
    created_at: str
    days: int
    keep: Keep
    """Over what each SLO must be kept."""
    keep_share: float
    """In which share of them."""
    requests: float
    """In the whole calendar."""
    requests_by_hour: tuple[float, ...]
    peak_factor: float
    """The busiest minute over the mean."""
    peak_factor_range: Band
    """With 95 %, of a recording; without width where the factors are written."""
    bound_usd: float
    """What no way on offer can cost less than: the work at the price of the cheapest machine for it, always busy."""
    instance: str
    """The machine in which `gpus_needed` are counted: that of the best way, or of the nearest."""
    levels: tuple[Level, ...]
    gpus_needed_by_hour: tuple[float, ...]
    """Mean of each hour."""
    strategies: tuple[Strategy, ...]
    """In the order of `Way`; those that no price or machine allows are left out."""
    best: str
    """The way that keeps every promise at least cost; empty where none does."""
    not_compared: tuple[str, ...]
    """Ways that were left out, and why."""
    check: DayCheck | None
    requests_replayed: int
    wall_s: float
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...]
    schema: str = SCHEMA
