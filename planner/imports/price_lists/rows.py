"""Rows: what one hour of one instance costs, whichever list says so."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

from calibrate.io.files import quoted
from calibrate.published import names
from planner.catalog.files import SaleStatus
from planner.catalog.sold import Instance, is_to_come
from planner.imports.measurements.record import plain_name
from planner.imports.texts import Row, TextFile
from planner.model.choices import PriceKind
from simulator.errors import InputError
from simulator.world.hardware import GPU

GIB = 1.073741824
"""GB of a GiB."""
GB = 1e9
MEMORY_APART = 0.12
"""Lists state what a data sheet has, or what is left of it for programs: 15 of a T4's 16 GB."""
DEAREST_USD = 1e6
"""An hour of no machine costs more."""
THOUSANDS = re.compile(r"\d{1,3}(,\d{3})+\.\d+")
"""A number whose commas part thousands, and nothing else, for a point follows."""
Key = tuple[str, str, str, str]
"""Provider, region, instance and kind of price."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedPrice:
    """A row of prices.csv."""

    provider: str
    region: str
    instance: str
    gpu: str
    gpu_count: int
    host_memory_gb: str = ""
    """As it is to be written; empty: not known."""
    price_kind: PriceKind
    low: float
    """USD for an hour of the whole instance."""
    high: float
    status: SaleStatus = SaleStatus.ACTIVE
    as_of: str = ""
    """ISO date that the row itself states, and so on; empty: what holds for the whole list."""
    source: str = ""
    note: str = ""
    line: int = 0
    """Of its row; 0 where a list has no lines."""
    besides: tuple[str, ...] | None = None
    """All else that its row says, such as a zone; None: what tells it from another of the same machine is not known."""
    cheapest: float | None = None
    """USD for an hour by another row of the same machine, where that says less; None: none does."""

    @property
    def key(self) -> Key:
        """What the price is of."""
        return (self.provider, self.region, self.instance, self.price_kind.value)

    def as_row(self) -> tuple[str, ...]:
        """The same by the columns of prices.csv."""
        return (
            self.provider,
            self.region,
            self.instance,
            self.gpu,
            str(self.gpu_count),
            self.host_memory_gb,
            self.status,
            self.price_kind,
            f"{self.low:.6g}",
            f"{self.high:.6g}",
            self.as_of,
            self.source,
            self.note,
        )


@dataclass(frozen=True, slots=True)
class ListFile(TextFile):
    """A list, and what is known beside it."""

    provider: str = ""
    """By option, else by the name of the file or its folder."""
    region: str = "any"
    """By option, where the file has none."""
    gpus: Mapping[str, GPU] = field(default_factory=dict)
    """Kinds of the catalog."""
    instances: Collection[Instance] = ()
    """Of the catalog, for lists that name instances and not GPUs."""
    as_of: str = ""
    """The day that the list itself states; empty: none."""
    free: list[int] = field(default_factory=list, compare=False)
    """Lines with a price of 0, which is left out; 0 where there are no lines."""
    seen_on: str = ""
    """The day that holds for rows without their own: as an option says, else when the file was written."""

    def table(self, needed: Sequence[str]) -> Iterator[tuple[int, Row]]:
        """Rows by column, with their numbers; InputError where a column is missing."""
        if lacking := [column for column in needed if column not in self.columns]:
            raise self.refuse(f"has no column `{lacking[0]}`", f"Such a list has {', '.join(needed)}", 1)
        return self.rows()

    def usd(self, value: object, line: int = 0) -> float | None:
        """A price by the hour; None where there is none. InputError where it can be none."""
        if value in (None, "", "null"):
            return None
        written = str(value).strip().removeprefix("$").strip()
        try:
            price = float(written.replace(",", "") if THOUSANDS.fullmatch(written) else written)
        except ValueError:
            price = -1.0
        if price == 0:  # lists have it for what is not sold so
            self.free.append(line)
            return None
        if not 0 < price < DEAREST_USD:
            wrong = f"a price must be a number above 0, got {quoted(str(value))}"
            raise self.refuse(wrong, "Write e.g. `1.05` or `$1.05`", line)
        return price

    def day(self, written: str, remedy: str, line: int = 0) -> str:
        """An ISO date on which prices were seen; InputError where it is none, or has yet to come."""
        try:
            day = date.fromisoformat(written)
        except ValueError:
            raise self.refuse(f"`{written[:40]}` is no date", remedy, line) from None
        if is_to_come(day.isoformat()):
            raise self.refuse(f"`{written}` is in the future", "Write the day on which the prices were seen", line)
        return day.isoformat()

    def kind(self, gpu: str, memory_gb: float | None = None) -> str | None:
        """The kind as the catalog calls it; None where it has none of that memory. `A100` of 80 GB is `A100-80GB`."""
        sized = [names.gpu(f"{gpu}-{memory_gb:.0f}GB")] if memory_gb else []
        tried = {plain_name(name): name for name in self.gpus}
        for name in (*sized, names.gpu(gpu)):
            if known := tried.get(plain_name(name)):
                return known if self._is_as_large(known, memory_gb) else None
        return None

    def _is_as_large(self, kind: str, memory_gb: float | None) -> bool:
        """Whether a GPU of so much memory may be of that kind: an H100 NVL of 94 GB is no H100."""
        return not memory_gb or abs(self.gpus[kind].memory_bytes / GB / memory_gb - 1) < MEMORY_APART

    def fitted(self, provider: str, instance: str, gpu_count: int | None = None) -> tuple[str, int] | None:
        """GPUs of an instance that the catalog has, or of its family where their number is said; None: not known."""
        of_provider = [one for one in self.instances if one.provider == provider]
        if same := next((one for one in of_provider if one.name == instance), None):
            return same.gpu, same.gpu_count
        family = instance.split(".", maxsplit=1)[0]
        kinds = {one.gpu for one in of_provider if one.name.split(".", maxsplit=1)[0] == family}
        return (kinds.pop(), gpu_count) if len(kinds) == 1 and gpu_count else None


def instance_name(written: str) -> str:
    """A name as scenarios may have it."""
    return re.sub(r"[^A-Za-z0-9_.\-]+", "-", written).strip("-._")[:64]


def joined(file: ListFile, prices: Iterable[ListedPrice]) -> dict[Key, ListedPrice]:
    """Prices by what they are of; of several zones the range at spot, else the dearest.

    InputError where rows that differ in nothing else have two prices.
    """
    found: dict[Key, ListedPrice] = {}
    alike: dict[tuple[Key, tuple[str, ...] | None], ListedPrice] = {}
    for price in prices:
        same = alike.setdefault((price.key, price.besides), price)
        if price.besides is not None and price.high != same.high:
            raise refused_price(file, price, same)
        found[price.key] = dearer(found[price.key], price) if price.key in found else price
    return found


def apart(prices: Iterable[ListedPrice | str]) -> Iterator[ListedPrice | str]:
    """The same, but machines of one name and region that differ in GPUs have them in it: `n1-standard-4-1xT4`."""
    listed = list(prices)
    fleets: dict[tuple[str, ...], set[tuple[str, int]]] = {}
    for price in listed:
        if isinstance(price, ListedPrice):
            fleets.setdefault(price.key[:3], set()).add((price.gpu, price.gpu_count))
    for price in listed:
        if isinstance(price, ListedPrice) and len(fleets[price.key[:3]]) > 1:
            yield replace(price, instance=instance_name(f"{price.instance}-{price.gpu_count}x{price.gpu}"))
        else:
            yield price


def refused_price(file: ListFile, price: ListedPrice, other: ListedPrice) -> InputError:
    """Two prices of one thing, of which nobody knows which holds."""
    wrong = f"{price.instance} costs {other.high:g} in another row, and {price.high:g} here"
    return file.refuse(wrong, "Leave one of them out, or tell them apart by region, price_kind or as_of", price.line)


def dearer(one: ListedPrice, other: ListedPrice) -> ListedPrice:
    """The row that costs more, with the range of both at spot."""
    chosen = max(one, other, key=lambda price: price.high)
    if chosen.price_kind is PriceKind.SPOT:
        return replace(chosen, low=min(one.low, other.low))
    least = min(price.cheapest or price.high for price in (one, other))
    return replace(chosen, cheapest=least if least < chosen.high else None)
