"""Sold: machines that providers rent out or sell, their prices, and when a price may have changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from planner.catalog.files import SaleStatus
from planner.model.candidate import MachineType
from planner.model.choices import PriceKind
from planner.model.statement import Code, Statement

STALE_DAYS = 90
"""After which a price of a large provider may have changed: they cut and raise theirs a few times a year."""
SMALLER_STALE_DAYS = 30
"""The same of smaller clouds, whose prices change within weeks."""
LARGE_PROVIDERS = ("aws", "azure", "gcp", "oci")
OWN = "own"
"""Provider of machines that are not rented."""
OWN_IS_NO_PROVIDER = "`own` means machines of your own. Write them under `buy.own` of a scenario, or who rents them."
BEST_FIRST = (SaleStatus.ACTIVE, SaleStatus.UNCLEAR, SaleStatus.RETIRED)
ANY_REGION = "any"
"""Of a provider whose price is the same everywhere, or who does not say where."""


def seller(provider: str, region: str) -> str:
    """`aws us-east-2`; `lambda` where the region does not matter; empty of machines of one's own."""
    return " ".join(filter(None, (provider, "" if region == ANY_REGION else region)))


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
    status: SaleStatus = SaleStatus.ACTIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """A type of machine that a provider rents or rented out, and its prices."""

    provider: str
    region: str
    name: str
    gpu: str
    gpu_count: int
    host_memory_bytes: int | None
    prices: Mapping[PriceKind, Price]

    @property
    def status(self) -> SaleStatus:
        """`active` where it can be had at any of its prices."""
        statuses = {price.status for price in self.prices.values()}
        return next((one for one in BEST_FIRST if one in statuses), SaleStatus.ACTIVE)

    def status_at(self, kind: PriceKind | None) -> SaleStatus:
        """Of its price of that kind; the machine's where it has none."""
        price = kind and self.prices.get(kind)
        return price.status if price else self.status

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


def is_to_come(as_of: str) -> bool:
    """True of an ISO date that no place on earth has reached: there it is tomorrow already."""
    return date.fromisoformat(as_of) > datetime.now(UTC).date() + timedelta(days=1)


def not_yet(as_of: str) -> str:
    """What is wrong with such a date of a price."""
    return f"{as_of} is in the future. Write the day on which the prices were seen."


def stale(as_of: str, today: date, days: int = STALE_DAYS) -> bool:
    """True for a price of an ISO date more than `days` ago. A machine of one's own has no date and never is."""
    return bool(as_of) and (today - date.fromisoformat(as_of)).days > days


def usual_days(provider: str) -> int:
    """Days after which a provider's price may have changed; 90 for those who sell machines."""
    return SMALLER_STALE_DAYS if provider and provider not in LARGE_PROVIDERS else STALE_DAYS


def stale_price(instances: Sequence[str], provider: str, as_of: str, today: date) -> Statement | None:
    """What to say of prices of one date that are older than their provider's usually become; None of others."""
    usual = usual_days(provider)
    if not stale(as_of, today, usual):
        return None
    figures = {"days": (today - date.fromisoformat(as_of)).days, "usual": usual}
    return Statement(code=Code.STALE_PRICE, subjects=(*instances, as_of), figures=figures)
