"""Rules while models are served: swapping, lost frames, clocks that drift, and how a device is fitted to."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from planner.model.checked import checked
from planner.units.errors import Wrong
from planner.units.reading import Fraction, PositiveDuration
from simulator.world.deployment import Eviction, SwapPolicy


class AccuracyRule(StrEnum):
    """The meaning of a lost frame for accuracy."""

    LOST_IS_WRONG = "lost-is-wrong"
    REUSE_LAST = "reuse-last"


def reuse(accuracy: Mapping[str, Any]) -> Iterator[Wrong]:
    """Errors where the half-life is not there exactly when it is used."""
    given = accuracy.get("half_life") is not None
    needed = accuracy.get("rule") == AccuracyRule.REUSE_LAST
    if needed and not given:
        yield (), "needs `half_life` with `reuse-last`. Write e.g. `half_life: 2 s`.", "half_life", "rule"
    if given and not needed:
        yield ("half_life",), "goes only with `rule: reuse-last`. Leave it out or set the rule."


@checked(reuse)
@dataclass(frozen=True, slots=True, kw_only=True)
class AccuracySpec:
    """The meaning of a lost frame for accuracy."""

    rule: AccuracyRule = AccuracyRule.LOST_IS_WRONG
    """`lost-is-wrong`, or `reuse-last`: the last result of the same source stands in."""
    half_life: PositiveDuration | None = None
    """With `reuse-last`: time after which a reused result is right half as often."""


@checked()
@dataclass(frozen=True, slots=True, kw_only=True)
class SwapSpec:
    """How swapping goes. What is left open is searched for, where models are swapped."""

    eviction: Eviction | None = None
    """Which resident model gives way; where not given, `lru` or whichever meets every SLO."""
    prefetch: bool | None = None
    """Load the next model while the present one runs, when both fit; where not given, yes or whichever meets every
    SLO."""
    pinned: bool = True
    """Host copies in page-locked memory."""
    disk: bool = False
    """No host copies: weights come from disk."""

    @property
    def policy(self) -> SwapPolicy:
        """The fixed settings, and the usual ones for those that are open."""
        usual = SwapPolicy()
        return self.over(usual.eviction, prefetch=usual.prefetch)

    def over(self, eviction: Eviction, *, prefetch: bool) -> SwapPolicy:
        """The fixed settings, and these for those that are open."""
        return SwapPolicy(
            eviction=self.eviction or eviction,
            prefetch=prefetch if self.prefetch is None else self.prefetch,
            pinned=self.pinned,
            disk=self.disk,
        )

    @property
    def policies(self) -> tuple[SwapPolicy, ...]:
        """All that may be tried, the usual one first."""
        first = self.policy
        evictions = tuple(Eviction) if self.eviction is None else (self.eviction,)
        prefetches = (True, False) if self.prefetch is None else (self.prefetch,)
        tried = (SwapPolicy(e, p, self.pinned, self.disk) for p in prefetches for e in evictions)
        return (first, *(policy for policy in tried if policy != first))


@checked()
@dataclass(frozen=True, slots=True, kw_only=True)
class ClockDriftSpec:
    """Cameras whose clocks drift, so that how they stand to each other changes in time."""

    mix: PositiveDuration
    """Time after which the phases are as good as drawn anew, e.g. `1 h`."""
    period: PositiveDuration
    """Stretch of time over which an attainment counts, e.g. `1 day`."""


@checked()
@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateSpec:
    """How `planner validate` fits the scenario to the device it runs on, so that one file suits slow and fast ones."""

    load: Annotated[Fraction, Field(gt=0, le=1)] | None = None
    """Share of its time that the device works at full batches, of a pipeline the device or the core, whichever has more
    to do: all rates are scaled to it."""
    slo_scale: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] | None = None
    """Latency in run times of the model's largest batch, of a pipeline in the work of one frame, its items one after
    another, instead of the one in its `slo`."""
    delay_scale: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)] | None = None
    """Longest wait of a batch in run times of one sample, instead of `max_queue_delay`."""
    batch_size: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """Largest batch of every model."""
    memory_share: Annotated[Fraction, Field(gt=0, le=1)] | None = None
    """Share of all weights that fits beside the context and the largest workspace; all where not given."""
    processes: Annotated[int, Field(ge=1, le=2)] = 1
    """Processes that share the device, the models dealt to them in turn."""
