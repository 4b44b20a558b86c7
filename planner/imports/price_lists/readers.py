"""Readers: price lists that are tables, of SkyPilot, gpuhunt and plain CSV."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from enum import StrEnum
from typing import TypeVar

from planner.catalog.files import SaleStatus
from planner.catalog.price_table import COLUMNS
from planner.imports.price_lists.rows import GIB, Key, ListedPrice, ListFile, instance_name, refused_price
from planner.model.choices import PriceKind

T = TypeVar("T", bound=StrEnum)
SKYPILOT = ("InstanceType", "AcceleratorName", "AcceleratorCount", "Price", "Region")
SKYPILOT_PRICES = {"Price": PriceKind.ON_DEMAND, "SpotPrice": PriceKind.SPOT}
GPUHUNT = ("instance_name", "location", "price", "gpu_count", "gpu_name", "spot")
BOOKED = "gcp-dws-calendar-mode"
"""Flag of gpuhunt's for capacity that is booked ahead, at a price of its own."""
PLAIN = ("instance", "gpu", "gpu_count", "usd_per_hour")
AZURE_PREFIX = "Standard_"
"""Before every name of Azure's; the catalog leaves it out."""
GPU_MIB = re.compile(r"'(?:SizeInMiB|TotalGpuMemoryInMiB)': (\d+)")
"""In SkyPilot's `GpuInfo`: of one GPU and of all; both of all (Vast), both of one (Lambda), or of all and more."""
GPU_NAME = re.compile(r"'Name': '([^']+)'")
"""In the same; says more than the column where two kinds go by one name there: RunPod's `A100 PCIe`."""
SMALLEST_MIB = 2048
"""Less than any GPU has: such a figure is in GiB, as RunPod's are."""


def count(file: ListFile, written: object, line: int = 0) -> int:
    """A number of GPUs; 0 where there are none."""
    value = -1.0
    with suppress(ValueError):
        value = float(str(written or 0))
    if value != value or not 0 <= value <= 64:
        raise file.refuse(f"a number of GPUs must be from 0 to 64, got `{str(written)[:40]}`", "Mend the file", line)
    return int(value) if value == int(value) else 0  # a part of a GPU is none to plan with


def gigabytes(file: ListFile, written: object, line: int = 0, unit: float = 1.0) -> str:
    """A memory of the host as prices.csv has it."""
    if written in (None, ""):
        return ""
    found = re.match(r"([\d.,]+)", str(written))
    value = -1.0
    with suppress(ValueError):
        value = float(found[1].replace(",", "")) * unit if found else -1.0
    if not 0 <= value < 1e5:
        raise file.refuse(f"a memory must be a number, got `{str(written)[:40]}`", "Mend the file", line)
    return f"{value:.4g}" if value else ""


def skypilot(file: ListFile) -> Iterator[ListedPrice | str]:
    """`catalogs/.../<provider>/vms.csv`: a row for each zone, with its spot price."""
    whole, apart = 0, 0
    for line, row in file.table(SKYPILOT):
        gpus = count(file, row["AcceleratorCount"], line)
        if not row["AcceleratorName"] or not gpus:
            continue
        if not row["InstanceType"]:
            apart += 1
            continue
        whole += 1
        kind = _sized_kind(file, row, gpus)
        if kind is None:
            yield row["AcceleratorName"]
            continue
        memory = gigabytes(file, row.get("MemoryGiB"), line, GIB)
        besides = _besides(row, *SKYPILOT_PRICES)
        for column, price_kind in SKYPILOT_PRICES.items():
            if usd := file.usd(row.get(column), line):
                made = listed(file, row["Region"], row["InstanceType"], (kind, gpus), memory, price_kind, usd)
                yield replace(made, line=line, besides=besides)
    if apart and not whole:
        wrong = "prices GPUs apart from the machines that they are in, and no row says what both cost"
        raise file.refuse(wrong, f"Write a CSV `{','.join(PLAIN)}` of those that you want")


def _sized_kind(file: ListFile, row: Mapping[str, str], gpus: int) -> str | None:
    """The kind of GPU of a row; None where the catalog has none of that name and memory."""
    info = (row.get("GpuInfo") or "").replace('"', "'")
    called = [*GPU_NAME.findall(info)[:1], row["AcceleratorName"]]
    sizes = [int(size) for size in GPU_MIB.findall(info)]
    sizes_gb = [size / (1024 if size > SMALLEST_MIB else 1) for size in reversed(sizes) if size]
    # What is said is of one GPU's memory, or of all.
    of_one_gb: list[float | None] = [size_gb / among for size_gb in sizes_gb for among in (gpus, 1)]
    kinds = (file.kind(name, size_gb) for name in called for size_gb in of_one_gb or [None])
    return next(filter(None, kinds), None)


def gpuhunt(file: ListFile) -> Iterator[ListedPrice | str]:
    """`<provider>.csv` of a catalog of gpuhunt."""
    for line, row in file.table(GPUHUNT):
        gpus = count(file, row["gpu_count"], line)
        if not gpus or BOOKED in (row.get("flags") or "").split():
            continue
        size = gigabytes(file, row.get("gpu_memory"), line)
        kind = file.kind(row["gpu_name"], float(size) if size else None)
        if kind is None:
            yield row["gpu_name"]
        elif usd := file.usd(row["price"], line):
            price_kind = PriceKind.SPOT if row["spot"].lower() == "true" else PriceKind.ON_DEMAND
            memory = gigabytes(file, row.get("memory"), line, GIB)
            made = listed(file, row["location"], row["instance_name"], (kind, gpus), memory, price_kind, usd)
            yield replace(made, line=line, besides=_besides(row, "price"))


def _besides(row: Mapping[str, str], *prices: str) -> tuple[str, ...]:
    """What a row says besides its prices."""
    return tuple(cell for column, cell in row.items() if column not in prices)


def newest(file: ListFile, rows: Iterable[tuple[int, ListedPrice | str]]) -> list[ListedPrice | str]:
    """Of each instance the newest price; InputError where two of one day differ, for nobody knows which holds."""
    unknown: list[str] = []
    found: dict[Key, ListedPrice] = {}
    fleets: dict[tuple[str, ...], ListedPrice] = {}
    for line, row in rows:
        if isinstance(row, str):
            unknown.append(row)
            continue
        dated = replace(row, as_of=row.as_of or file.seen_on, line=line)
        like = fleets.setdefault(row.key[:3], dated)
        if (row.gpu, row.gpu_count) != (like.gpu, like.gpu_count):
            first, second = (f"{one.gpu_count} x {one.gpu}" for one in (like, row))
            wrong = f"{row.instance} of {row.provider} {row.region} has {first} in another row, and {second} here"
            raise file.refuse(wrong, "Leave one of them out, or name them apart", line)
        other = found.setdefault(row.key, dated)
        if other.as_of == dated.as_of and (other.low, other.high) != (row.low, row.high):
            raise refused_price(file, dated, other)
        if dated.as_of > other.as_of:
            found[row.key] = dated
    return [*found.values(), *unknown]


def plain(file: ListFile) -> Iterator[tuple[int, ListedPrice | str]]:
    """A row for each price; `region`, `provider`, `price_kind`, `host_memory_gb` and `as_of` where they differ or are
    known."""
    for line, row in file.table(PLAIN):
        gpus, kind = count(file, row["gpu_count"], line), file.kind(row["gpu"])
        if not gpus:
            raise file.refuse("needs 1 GPU or more", "Write how many the instance has", line)
        if kind is None:
            yield line, row["gpu"]
        elif usd := file.usd(row["usd_per_hour"], line):
            memory = gigabytes(file, row.get("host_memory_gb"), line)
            price_kind = _one_of(PriceKind, "price_kind", file, row.get("price_kind") or PriceKind.ON_DEMAND, line)
            made = listed(file, row.get("region", ""), row["instance"], (kind, gpus), memory, price_kind, usd)
            made = replace(made, as_of=_day(file, row.get("as_of", ""), line))
            yield line, made if not row.get("provider") else of_provider(made, row["provider"])


def ours(file: ListFile) -> Iterator[tuple[int, ListedPrice | str]]:
    """A prices.csv as plans take it: rows keep their dates, sources and notes, and what is no longer sold stays so."""
    for line, row in file.table(COLUMNS):
        kind, usd = file.kind(row["gpu"]), file.usd(row["usd_per_hour_high"], line)
        if kind is None or usd is None:
            yield line, row["gpu"]
            continue
        fleet = (kind, count(file, row["gpu_count"], line))
        memory = gigabytes(file, row["host_memory_gb"], line)
        price_kind = _one_of(PriceKind, "price_kind", file, row["price_kind"], line)
        made = replace(
            listed(file, row["region"], row["instance"], fleet, memory, price_kind, usd),
            status=_one_of(SaleStatus, "status", file, row["status"], line),
            as_of=_day(file, row["as_of"], line),
            source=row["source"],
            note=row["note"],
        )
        yield line, of_provider(made, row["provider"], file.usd(row["usd_per_hour_low"], line) or usd)


def _one_of(kind: type[T], name: str, file: ListFile, written: str, line: int) -> T:
    if written not in list(kind):
        raise file.refuse(f"{name} `{written[:40]}` is not known", f"Write one of {', '.join(kind)}", line)
    return kind(written)


def _day(file: ListFile, written: str, line: int) -> str:
    """An ISO date, or nothing."""
    return file.day(written, "Write such as 2026-07-20", line) if written else ""


def listed(
    file: ListFile, region: str, instance: str, fleet: tuple[str, int], memory: str, kind: PriceKind, usd: float
) -> ListedPrice:
    """A price of the file's provider."""
    gpu, gpu_count = fleet
    return ListedPrice(
        provider=file.provider,
        region=instance_name(region) or file.region,
        instance=instance_name(instance.removeprefix(AZURE_PREFIX)),
        gpu=gpu,
        gpu_count=gpu_count,
        host_memory_gb=memory,
        price_kind=kind,
        low=usd,
        high=usd,
    )


def of_provider(price: ListedPrice, provider: str, low: float | None = None) -> ListedPrice:
    """The same of another provider, with the lower end of a range."""
    return replace(price, provider=instance_name(provider), low=low or price.low)
