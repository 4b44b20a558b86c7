"""Sold: machines that providers rent out or sell, and their prices."""

from collections.abc import Mapping
from dataclasses import dataclass

from planner.catalog.files import SaleStatus
from planner.model.candidate import MachineType
from planner.model.choices import PriceKind

ANY_REGION = "any"
"""Of a provider whose price is the same everywhere, or who does not say where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The cost of an hour of a whole instance."""

    usd_per_hour: float
    """A range's upper end."""
    usd_per_hour_range: tuple[float, float] | None = None
    as_of: str
    """ISO date."""
    source: str
    note: str = ""
    """Said of this price beside its source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """A type of machine that a provider rents or rented out, and its prices."""

    provider: str
    region: str
    name: str
    gpu: str
    gpu_count: int
    host_memory_bytes: int | None
    status: SaleStatus
    prices: Mapping[PriceKind, Price]

    @property
    def machine(self) -> MachineType:
        """Its name, without prices."""
        return MachineType(
            provider=self.provider, region=self.region, instance=self.name, gpu=self.gpu, gpu_count=self.gpu_count
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Purchase:
    """The cost of buying a machine."""

    machine: str
    gpu: str
    gpu_count: int
    usd: float
    power_w: float | None
    """Most that the whole machine draws; None where it is not known."""
    status: SaleStatus
    as_of: str
    source: str
