"""Machines that may be rented or used, and how often they fail."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from planner.model.checked import checked
from planner.model.choices import PriceKind
from planner.model.parts.fields import Count, GpuKind, GpuKinds, Name, Names
from planner.model.ranges import is_within
from planner.units.reading import Duration, GpuBytes, LongDuration, OwnPricePerHour, PricePerHour


class EvidenceAsked(StrEnum):
    """What a plan may rest on."""

    PREDICTED = "predicted"
    MEASURED = "measured"


@checked()
@dataclass(frozen=True, slots=True, kw_only=True)
class OwnMachine:
    """A machine of your own, at the price you put on an hour of it."""

    name: Name
    """The plan's name for it."""
    gpu: GpuKind
    """Kind of GPU, as in the catalog."""
    gpu_count: Annotated[int, Field(ge=1, le=64)] = 1
    """GPUs in one machine."""
    memory: GpuBytes | None = None
    """Memory of each GPU that may be used; the GPU's where not given."""
    host_memory: GpuBytes | None = None
    """Memory for weights that are not on a GPU."""
    cores: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Cores of its processor, on which pipelines work; four for each GPU where not given."""
    price: OwnPricePerHour
    """An hour of the whole machine, e.g. `$0.30/h`."""
    count: Count = 1
    """How many of them there are."""


@checked()
@dataclass(frozen=True, slots=True, kw_only=True)
class BuySpec:
    """Machines that may be rented or used. Of what is left out: any."""

    providers: Names = ()
    """Cloud providers, e.g. `[aws, azure]`."""
    regions: Names = ()
    """Regions, e.g. `[us-east-1]`."""
    gpus: GpuKinds = ()
    """Kinds of GPU or processor, of machines of your own too, e.g. `[T4, CPU-Ice-Lake-4c]`."""
    instances: Names = ()
    """Instance types, e.g. `[g4dn.xlarge]`."""
    price: PriceKind = PriceKind.ON_DEMAND
    """Which price counts."""
    retired: bool = False
    """Also instances that are still in price lists but no longer sold."""
    evidence: EvidenceAsked = EvidenceAsked.PREDICTED
    """`predicted`: any GPU on which every model was measured or can be predicted, with the `confidence` that is asked,
    over predicted, published and assumed speeds; `measured`: published and assumed speeds are taken as they stand, and
    only where some model has no profile on any GPU on offer are times predicted."""
    max_gpus: Annotated[int, Field(ge=1, le=10_000)] = 64
    """Most GPUs in all."""
    max_cost: PricePerHour | None = None
    """Most dollars an hour in all; with a `calendar`, of each of its hours."""
    host_speed: Annotated[float, Field(ge=0.01, le=100, allow_inf_nan=False)] = 1.0
    """Speed of a core of their hosts over that of the host where profiles were measured, e.g. `0.7`: what the host does
    of a batch takes so much longer."""
    own: tuple[OwnMachine, ...] = ()
    """Machines of your own. With these and no `providers`, nothing is rented."""

    def affords(self, usd_per_hour: float) -> bool:
        """Whether so much an hour is within `max_cost`, but for how sums are rounded."""
        return is_within(usd_per_hour, self.max_cost)


@checked()
@dataclass(frozen=True, slots=True, kw_only=True)
class FailureSpec:
    """Machines that fail, or spot instances that are taken away; plans count outages by how long they last in all."""

    mean_time_between: LongDuration
    """Mean time between failures of one machine, e.g. `12 h`."""
    recovery: Duration
    """Time until it serves again, e.g. `3 min`."""
