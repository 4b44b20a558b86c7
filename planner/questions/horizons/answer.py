"""The answer about a long horizon, as data. The report, the picture and the JSON read only this."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from math import nan

from planner.model.calendar import Keep
from planner.model.choices import HorizonWay
from planner.model.ranges import Range
from simulator.world.profile import Evidence

SCHEMA = "planner.horizon/v3"


class Mode(StrEnum):
    """How the number of machines changes over time."""

    CONSTANT = "constant"
    SCHEDULED = "scheduled"
    AUTOSCALED = "autoscaled"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadLevel:
    """A level of load, which stands in for all minutes that are about as busy."""

    factor: float
    """Rate over the rates of the streams."""
    rate_rps: float
    minutes: int
    gpus_needed: int
    """Fewest GPUs, in whole machines of `instance`, on which every SLO is met on average and the headroom is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSlo:
    """The SLO attainment of one model over the whole calendar."""

    model: str
    slo_attainment: float
    """Share of its requests within the latency of its SLO."""
    slo_attainment_low: float
    """Low end of the 95 % interval."""
    slo_attainment_target: float
    met_share: float
    """Share of the hours, days or calendars (`keep`) in which even the low end reaches the target."""
    worst_hour: float
    """`slo_attainment` of the worst hour."""
    worst_minute: float
    """`slo_attainment` of the worst minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyPart:
    """Machines of one strategy that are alike, and paid for alike."""

    instance: str
    provider: str
    region: str
    gpu: str
    gpus_per_machine: int
    price_kind: str
    """`own` for machines of one's own."""
    mode: Mode
    target_utilization: float | None
    """Load that the autoscaler wants of each machine, or that the timetable allows in the busiest minute of an hour.
    None for a constant number, and where each hour has the fewest machines that meet the SLO."""
    machines_min: int
    machines_max: int
    machine_hours: float
    """Machine-hours that are paid."""
    usd_per_hour: float
    """Price of one machine; the upper end of a range."""
    usd_per_hour_range: Range
    """`mid` is the middle of the range."""
    price_as_of: str
    """Date of the price; empty where the scenario gives it."""
    start_s: float
    """Time from the order of a machine until it answers."""
    commitment_usd: float
    """Dollars owed for the whole term, whatever is used; 0 where nothing is reserved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """One way to keep machines, with its cost and its SLO attainment."""

    way: HorizonWay
    label: str
    met: bool
    """Every SLO is met, in the periods that `keep` names, and no hour costs more than `buy.max_cost`."""
    parts: tuple[StrategyPart, ...]
    """The base first, if there is one."""
    cost_usd: float
    """Cost of the whole calendar. Spot machines count at the upper end of their price, as in every command."""
    cost_usd_range: Range
    """`mid`: at the middle of the spot price; `low`, `high`: its ends, and interruptions of one calendar with 95 %."""
    cost_usd_per_month: float
    """Cost of 730 hours like these."""
    usd_per_million_requests: float
    """Cost of a million requests, late ones included."""
    slos: tuple[ModelSlo, ...]
    gpu_hours: float
    """GPU-hours that are paid."""
    wasted_gpu_hours: float
    """GPU-hours paid beyond what the load needed at that moment."""
    short_gpu_hours: float
    """GPU-hours needed beyond what answered, at moments that miss an SLO."""
    gpus_max: int
    """Most GPUs that were paid at once."""
    base_gpus: int
    """GPUs of the base."""
    orders: float
    """Machines that were booted."""
    interruptions: float
    """Machines that were taken away."""
    gpus_by_hour: tuple[float, ...]
    """Paid GPUs, the mean of each hour."""
    usd_per_hour_max: float = nan
    """Cost of the dearest hour, with whichever interruptions; nan in answers that do not say."""
    over_max_cost: bool = False
    """Its dearest hour costs more than `buy.max_cost` allows."""
    draws_kept: float | None = None
    """Share of the draws of uncertain speeds that meet every SLO in the busiest minute; None where none is drawn."""
    draws: int = 0
    """How many were drawn."""
    reason: str = ""
    """Why it misses, where more than its machines are to blame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DayCheck:
    """One day of one strategy, replayed request by request, beside what the levels say of it."""

    way: HorizonWay
    day: int
    """Number of the day, from 1."""
    requests: int
    slo_attainment: float
    """Attainment of all models together, replayed."""
    slo_attainment_levels: float
    """Attainment of all models together, by levels."""
    busy_gpu_hours: float
    """GPU-hours in which a batch ran, replayed."""
    busy_gpu_hours_levels: float
    """GPU-hours in which a batch ran, by levels."""
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
    """The periods in which each SLO must be met."""
    keep_share: float
    """Share of these periods in which it must be met."""
    requests: float
    """Requests of the whole calendar."""
    requests_by_hour: tuple[float, ...]
    peak_factor: float
    """The busiest minute over the mean."""
    peak_factor_range: Range
    """95 % interval of a recording's peak; without width where the factors are written."""
    bound_usd: float
    """A cost that no way on offer can beat: the work at the price of the cheapest machine for it, always busy."""
    instance: str
    """The machine in which `gpus_needed` are counted: that of the best way, or of the nearest."""
    levels: tuple[LoadLevel, ...]
    gpus_needed_by_hour: tuple[float, ...]
    """GPUs needed, the mean of each hour."""
    strategies: tuple[Strategy, ...]
    """One strategy for each way, in the order of `HorizonWay`, without those that no price or machine allows."""
    best: str
    """The cheapest way that meets every SLO; empty where none does."""
    not_compared: tuple[str, ...]
    """Ways that were left out, and why."""
    check: DayCheck | None
    requests_replayed: int
    wall_s: float
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...]
    speed_evidence: Evidence | None = None
    """Where the speeds of all ways come from, by `speed_evidence_of`; None in answers that do not say."""
    speed_confidence: float | None = None
    """Share that uncertain speeds are at least as fast in as in all replays of levels; None where none is uncertain."""
    schema: str = SCHEMA


def contradictions(horizon: Horizon) -> Iterator[str]:
    """Statements that no answer has, so that whoever reads one may rely on it."""
    if horizon.days < 1:
        yield f"days: must be at least 1, got {horizon.days}"
    if not horizon.requests_by_hour:
        yield "requests_by_hour: must not be empty"
    if not horizon.strategies:
        yield "strategies: must not be empty"
    if horizon.best not in ("", *(s.way for s in horizon.strategies)):
        yield f"best: must be the way of one of `strategies`, got {horizon.best}"
    models = {tuple(one.model for one in s.slos) for s in horizon.strategies}
    if len(models) > 1 or () in models:
        yield "strategies: must each have `slos` of the same models"
