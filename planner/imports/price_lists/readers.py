"""Readers: SkyPilot's catalog, gpuhunt, AWS, Azure, Infracost and plain CSV."""

import csv
import io
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from planner.catalog.price_table import COLUMNS
from planner.imports.price_lists.rows import GIB, ListedPrice, ListFile, instance_name
from planner.model.choices import PriceKind
from planner.units.reading import HOURS_PER_YEAR

Row = Mapping[str, str]
SKYPILOT = ("InstanceType", "AcceleratorName", "AcceleratorCount", "Price", "Region")
GPUHUNT = ("instance_name", "location", "price", "gpu_count", "gpu_name", "spot")
PLAIN = ("instance", "gpu", "gpu_count", "usd_per_hour")
TERMS = {"1yr": PriceKind.RESERVED_1Y, "3yr": PriceKind.RESERVED_3Y}
AZURE_TERMS = {
    "1 Year": (PriceKind.RESERVED_1Y, HOURS_PER_YEAR),
    "3 Years": (PriceKind.RESERVED_3Y, 3 * HOURS_PER_YEAR),
}
AZURE_PREFIX = "Standard_"
"""Before every name of Azure's; the catalog leaves it out."""
GPU_MIB = re.compile(r"'TotalGpuMemoryInMiB': (\d+)")
"""In SkyPilot's `GpuInfo`, of all GPUs of an instance."""
INFRACOST = re.compile(r"(?P<kind>on-demand|spot), (?P<instance>[\w.\-]+)\)")
INFRACOST_PROVIDERS = {"aws_": "aws", "azurerm_": "azure", "google_": "gcp"}


def table_rows(file: ListFile, text: str, needed: tuple[str, ...]) -> Iterator[tuple[int, Row]]:
    """Rows by column; PriceListError where a column is missing or a row is longer or shorter than the first line."""
    reader = csv.DictReader(io.StringIO(text), strict=True)
    try:
        if lacking := [column for column in needed if column not in (reader.fieldnames or ())]:
            raise file.refuse(f"has no column `{lacking[0]}`", f"Such a list has {', '.join(needed)}", 1)
        for row in reader:
            if None in row or None in row.values():
                raise file.refuse("is not as long as the first line", "Mend the line", reader.line_num)
            yield reader.line_num, row
    except csv.Error as error:
        raise file.refuse(f"is no CSV: {error}", "Mend the file", reader.line_num) from None


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


# Tables


def skypilot(file: ListFile, text: str) -> Iterator[ListedPrice | str]:
    """`catalogs/.../<provider>/vms.csv`: a row for each zone, with its spot price."""
    for line, row in table_rows(file, text, SKYPILOT):
        gpus = count(file, row["AcceleratorCount"], line)
        if not row["InstanceType"] or not row["AcceleratorName"] or not gpus:
            continue
        kind = _sized_kind(file, row, gpus)
        if kind is None:
            yield row["AcceleratorName"]
            continue
        memory = gigabytes(file, row.get("MemoryGiB"), line, GIB)
        for column, price_kind in (("Price", PriceKind.ON_DEMAND), ("SpotPrice", PriceKind.SPOT)):
            if usd := file.usd(row.get(column), line):
                yield _listed(file, row["Region"], row["InstanceType"], (kind, gpus), memory, price_kind, usd)


def _sized_kind(file: ListFile, row: Mapping[str, str], gpus: int) -> str | None:
    """The kind of GPU of a row; None where the catalog has none of that name and memory.

    `TotalGpuMemoryInMiB` is that of all GPUs in some lists (Vast), of each in others (Lambda).
    """
    name, found = row["AcceleratorName"], GPU_MIB.search(row.get("GpuInfo") or "")
    if not found:
        return file.kind(name)
    size_gb = int(found[1]) / 1024
    return file.kind(name, size_gb / gpus) or file.kind(name, size_gb)


def gpuhunt(file: ListFile, text: str) -> Iterator[ListedPrice | str]:
    """`<provider>.csv` of a catalog of gpuhunt."""
    for line, row in table_rows(file, text, GPUHUNT):
        gpus = count(file, row["gpu_count"], line)
        if not gpus:
            continue
        size = gigabytes(file, row.get("gpu_memory"), line)
        kind = file.kind(row["gpu_name"], float(size) if size else None)
        if kind is None:
            yield row["gpu_name"]
        elif usd := file.usd(row["price"], line):
            price_kind = PriceKind.SPOT if row["spot"].lower() == "true" else PriceKind.ON_DEMAND
            memory = gigabytes(file, row.get("memory"), line, GIB)
            yield _listed(file, row["location"], row["instance_name"], (kind, gpus), memory, price_kind, usd)


def plain(file: ListFile, text: str) -> Iterator[ListedPrice | str]:
    """A row for each price; `region`, `provider`, `price_kind` and `host_memory_gb` where they differ or are known."""
    for line, row in table_rows(file, text, PLAIN):
        gpus, kind = count(file, row["gpu_count"], line), file.kind(row["gpu"])
        if not gpus:
            raise file.refuse("needs 1 GPU or more", "Write how many the instance has", line)
        if kind is None:
            yield row["gpu"]
        elif usd := file.usd(row["usd_per_hour"], line):
            memory = gigabytes(file, row.get("host_memory_gb"), line)
            price_kind = _price_kind(file, row.get("price_kind") or PriceKind.ON_DEMAND, line)
            made = _listed(file, row.get("region", ""), row["instance"], (kind, gpus), memory, price_kind, usd)
            yield made if not row.get("provider") else _of_provider(made, row["provider"])


def ours(file: ListFile, text: str) -> Iterator[ListedPrice | str]:
    """A prices.csv as plans take it."""
    for line, row in table_rows(file, text, COLUMNS):
        kind, usd = file.kind(row["gpu"]), file.usd(row["usd_per_hour_high"], line)
        if kind is None or usd is None:
            yield row["gpu"]
            continue
        fleet = (kind, count(file, row["gpu_count"], line))
        memory = gigabytes(file, row["host_memory_gb"], line)
        price_kind = _price_kind(file, row["price_kind"], line)
        made = _listed(file, row["region"], row["instance"], fleet, memory, price_kind, usd)
        yield _of_provider(made, row["provider"], file.usd(row["usd_per_hour_low"], line) or usd)


def _price_kind(file: ListFile, written: str, line: int) -> PriceKind:
    if written not in list(PriceKind):
        raise file.refuse(f"price_kind `{written[:40]}` is not known", f"Write one of {', '.join(PriceKind)}", line)
    return PriceKind(written)


# Documents


def aws(file: ListFile, data: dict[str, Any]) -> Iterator[ListedPrice | str]:
    """The price list of AmazonEC2 in a region: Linux, shared, on demand and reserved with nothing paid in advance."""
    terms = data["terms"]
    for sku, product in data["products"].items():
        facts = product.get("attributes", {})
        if not _is_linux(facts) or not (gpus := count(file, facts.get("gpu"))):
            continue
        fleet = file.fitted("aws", facts.get("instanceType", ""), gpus)
        if fleet is None:
            yield str(facts.get("instanceType", ""))
            continue
        memory = gigabytes(file, facts.get("memory"), 0, GIB)
        for price_kind, usd in _aws_terms(file, terms, sku):
            yield _listed(file, facts.get("regionCode", ""), facts["instanceType"], fleet, memory, price_kind, usd)


def _is_linux(facts: Mapping[str, str]) -> bool:
    wanted = {"operatingSystem": "Linux", "tenancy": "Shared", "preInstalledSw": "NA", "capacitystatus": "Used"}
    return all(facts.get(name) == value for name, value in wanted.items())


def _aws_terms(file: ListFile, terms: Mapping[str, Any], sku: str) -> Iterator[tuple[PriceKind, float]]:
    reserved = terms.get("Reserved", {}).get(sku, {}).values()
    for price_kind, term in [
        *((PriceKind.ON_DEMAND, term) for term in terms.get("OnDemand", {}).get(sku, {}).values()),
        *((_aws_kind(term.get("termAttributes", {})), term) for term in reserved),
    ]:
        for part in term["priceDimensions"].values():
            usd = file.usd(part["pricePerUnit"].get("USD"))
            if price_kind and usd and part.get("unit") == "Hrs":
                yield price_kind, usd


def _aws_kind(facts: Mapping[str, str]) -> PriceKind | None:
    paid_by_hour = facts.get("PurchaseOption") == "No Upfront" and facts.get("OfferingClass") == "standard"
    return TERMS.get(facts.get("LeaseContractLength", "")) if paid_by_hour else None


def azure(file: ListFile, data: dict[str, Any]) -> Iterator[ListedPrice | str]:
    """A page of the retail prices: Linux, on demand, spot, and reservations, whose price is of the whole term."""
    for item in data["Items"]:
        name, sku = str(item.get("armSkuName", "")), str(item.get("skuName", ""))
        product = str(item.get("productName", ""))
        machine = product.startswith("Virtual Machines") and not product.endswith("Windows")
        if not machine or item.get("currencyCode") != "USD" or sku.endswith("Low Priority"):
            continue
        fleet = file.fitted("azure", name.removeprefix(AZURE_PREFIX))
        if fleet is None:
            yield name
            continue
        paid, usd = _azure_kind(item, sku), file.usd(item.get("retailPrice"))
        if paid and usd:
            price_kind, hours = paid
            yield _listed(file, str(item.get("armRegionName", "")), name, fleet, "", price_kind, usd / hours)


def _azure_kind(item: Mapping[str, Any], sku: str) -> tuple[PriceKind, int] | None:
    """The kind of a price, and the hours that it pays for."""
    if item.get("type") == "Reservation":
        return AZURE_TERMS.get(str(item.get("reservationTerm")))
    if item.get("type") != "Consumption":  # such as DevTestConsumption, for which one must subscribe
        return None
    return (PriceKind.SPOT if sku.endswith("Spot") else PriceKind.ON_DEMAND), 1


def infracost(file: ListFile, data: dict[str, Any]) -> Iterator[ListedPrice | str]:
    """`infracost breakdown --format json`: the hours of each instance."""
    for project in data["projects"]:
        for resource in project.get("breakdown", {}).get("resources", []):
            named = str(resource.get("name", ""))
            provider = next((p for prefix, p in INFRACOST_PROVIDERS.items() if prefix in named), file.provider)
            for part in resource.get("costComponents") or []:
                found = INFRACOST.search(str(part.get("name", "")))
                if found and part.get("unit") == "hours":
                    yield _hours(file, provider, found, part)


def _hours(file: ListFile, provider: str, found: re.Match[str], part: dict[str, Any]) -> ListedPrice | str:
    """The price of an instance's hours; its name where its GPUs or its price are not known."""
    fleet, usd = file.fitted(provider, found["instance"]), file.usd(part.get("price"))
    if fleet is None or usd is None:
        return found["instance"]
    price_kind = PriceKind(found["kind"])
    return _of_provider(_listed(file, "", found["instance"], fleet, "", price_kind, usd), provider)


def _listed(
    file: ListFile, region: str, instance: str, fleet: tuple[str, int], memory: str, kind: PriceKind, usd: float
) -> ListedPrice:
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


def _of_provider(price: ListedPrice, provider: str, low: float | None = None) -> ListedPrice:
    return replace(price, provider=instance_name(provider), low=low or price.low)
