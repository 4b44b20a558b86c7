"""The answer of a validation, as data: figures measured and simulated, times of actions, coverage."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import nan
from typing import Any

from planner.questions.validation.speed import Overhead, RehearsedSpeed

SCHEMA = "planner.validation/v2"
ROUNDING = 1e-6
"""Figures that differ by less, relatively, are the same."""
SAME = 0.02
"""Actions whose times are within this of the profile's, on average, explain nothing."""
EXPLAINS = 0.2
"""Least share of an error that names its cause: less is within the chance of the few runs it is told from."""
MODEL_METRICS = (
    "p50_s",
    "p95_s",
    "p99_s",
    "mean_s",
    "slo_attainment",
    "throughput_rps",
    "mean_batch_size",
    "processed_fraction",
)
SHARES = frozenset({"slo_attainment", "processed_fraction", "utilization", "load_share"})
"""Metrics whose error is a difference; of others it is relative to the measured figure."""
Figures = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A model, or the device, measured and simulated; the same metrics in each mapping."""

    name: str
    measured: Figures
    simulated: Figures
    """Medians over replications."""
    error: Figures
    """Simulated against measured: relative for times, rates and sizes, the difference for shares."""
    intervals: Mapping[str, tuple[float, float]]
    """Range in which one run should lie with 95 % probability."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Times of one kind of action for one model, against its profile at the speed of the rehearsals."""

    kind: str
    model: str
    count: int
    expected_s: float
    """Mean of the expected times."""
    actual_s: float
    """Mean of the actual times."""
    error: float
    """Expected against actual."""
    spread: float
    """Standard deviation of actual over expected."""
    expected_spread: float | None
    """The same as rehearsals or profile state it; None of loads and of work of a core."""


class CauseKind(StrEnum):
    """Parts of a run whose times can differ from what was expected."""

    RUN = "run"
    """Batches of a model took longer or less on average."""
    SPREAD = "spread"
    """Batches of a model took more unequal times."""
    LOAD = "load"
    """Loads of a model took longer or less on average."""
    WORK = "work"
    """A core took longer or less for a stage of a pipeline on average."""
    HARNESS = "harness"
    """Starting batches took longer or less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A part of a run that differed, and how much of the largest error goes where it is simulated as it was."""

    kind: CauseKind
    model: str
    """Whose; empty of the harness."""
    share: float
    """Of the error: 1 where nothing is left of it, below 0 where it grows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErringFigure:
    """A figure and how far it errs."""

    name: str
    """Of the model, or of the device."""
    metric: str
    error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Measured figures in their intervals, of those whose simulation varies or errs."""

    inside: int
    of: int
    fixed: int
    """Figures that no chance touches and that came out as simulated; they are not counted."""

    @property
    def share(self) -> float:
        """Inside of all counted."""
        return self.inside / self.of if self.of else nan


class MemoryKind(StrEnum):
    """Parts of the memory that processes hold."""

    WEIGHTS = "weights"
    """Of all models, whether they are there at once or take turns."""
    TENSORS = "tensors"
    """What a batch needs besides, of the model that needs most."""
    SLACK = "slack"
    """Of the allocator, beyond tensors."""
    CONTEXT = "context"
    """All that a process holds besides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPart:
    """A part of memory, of all processes together."""

    kind: MemoryKind
    planned_bytes: float | None
    """As the profiles and the deployment have it; None: not known."""
    held_bytes: float | None
    """As it was held; None: it could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """Measured beside simulated."""

    scenario: str
    created_at: str
    machine: Mapping[str, Any]
    duration_s: float
    warmup_s: float
    seed: int
    replications: int
    stopped: str
    others_cores: float | None
    """Processor cores that other programs kept busy meanwhile."""
    requests: int
    models: tuple[Compared, ...]
    device: Compared
    memory: tuple[MemoryPart, ...]
    by_profiles: bool
    """Whether the rehearsals were left out: the device as fast as its profiles say."""
    speeds: tuple[RehearsedSpeed, ...]
    """For each take: speed of the device in the rehearsals around it, on which the simulation and `timings` rest."""
    timings: tuple[Timing, ...]
    coverage: Coverage
    overhead: Overhead
    causes: tuple[Cause, ...]
    """Whatever differed from what was expected, with the share of the largest error that it explains; most first."""
    largest_error: ErringFigure | None
    """The figure that errs most; None where none can be compared."""
    likely_cause: Cause | None
    """The first of `causes`; None where it explains too little, and chance of one run is as likely."""


def error_of(metric: str, simulated: float, measured: float) -> float:
    """Simulated 0.104 s, measured 0.100 s: 0.04. Of shares, 0.98 against 0.99: -0.01."""
    if metric in SHARES:
        return simulated - measured
    if simulated == measured:
        return 0.0
    return simulated / measured - 1 if measured else nan
