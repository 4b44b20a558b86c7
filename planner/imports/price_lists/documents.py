"""Documents: price lists in JSON, of AWS, Azure and Infracost."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from calibrate.io.files import parse_json, quoted
from planner.imports.price_lists.readers import AZURE_PREFIX, count, gigabytes, listed, of_provider
from planner.imports.price_lists.rows import GIB, ListedPrice, ListFile
from planner.model.choices import PriceKind
from planner.units.reading import HOURS_PER_YEAR

TERMS = {"1yr": PriceKind.RESERVED_1Y, "3yr": PriceKind.RESERVED_3Y}
AZURE_TERMS = {
    "1 Year": (PriceKind.RESERVED_1Y, HOURS_PER_YEAR),
    "3 Years": (PriceKind.RESERVED_3Y, 3 * HOURS_PER_YEAR),
}
WINDOWS = re.compile(r"\bWin(?:dows)?$")
"""Ends the names of Azure's products that hold a Windows licence."""
DAY = re.compile(r"\d{4}-\d\d-\d\d")
INFRACOST = re.compile(r"Linux[^,(]*(?:, | usage \()(?P<paid>[a-z][a-z -]+), (?P<instance>[\w.\-]+)\)$")
"""`Instance usage (Linux/UNIX, on-demand, g4dn.xlarge)`; of old, `Linux/UNIX usage (on-demand, g4dn.xlarge)`."""
INFRACOST_KINDS = {
    "on-demand": PriceKind.ON_DEMAND,
    "pay as you go": PriceKind.ON_DEMAND,
    "spot": PriceKind.SPOT,
    "preemptible": PriceKind.SPOT,
}
INFRACOST_PROVIDERS = {"aws_": "aws", "azurerm_": "azure", "google_": "gcp"}


def whole(data: Any) -> Any:
    """One document of pages that were put together: Azure's items, and what `aws pricing get-products` prints."""
    if isinstance(data, list):
        return {"Items": data}
    if not isinstance(data, dict) or "PriceList" not in data:
        return data
    each = [parse_json(one.encode()) if isinstance(one, str) else one for one in data["PriceList"]]
    terms: dict[str, dict[str, Any]] = {"OnDemand": {}, "Reserved": {}}
    for one in each:
        for name in terms.keys() & one["terms"].keys():
            terms[name][one["product"]["sku"]] = one["terms"][name]
    return {"products": {one["product"]["sku"]: one["product"] for one in each}, "terms": terms}


def day(data: Mapping[str, Any]) -> str:
    """When AWS published its list, or Infracost asked for the prices; empty where a list says neither."""
    found = DAY.match(str(data.get("publicationDate") or data.get("timeGenerated")))
    return found[0] if found else ""


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
            yield listed(file, facts.get("regionCode", ""), facts["instanceType"], fleet, memory, price_kind, usd)


def _is_linux(facts: Mapping[str, str]) -> bool:
    wanted = {"operatingSystem": "Linux", "tenancy": "Shared", "preInstalledSw": "NA", "capacitystatus": "Used"}
    asked = facts.get("marketoption", "OnDemand") == "OnDemand"  # not capacity that is booked ahead
    return asked and all(facts.get(name) == value for name, value in wanted.items())


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


def _demand_dollars(file: ListFile, currencies: Iterable[object], remedy: str) -> None:
    """InputError where prices are in another currency."""
    if other := next((one for one in currencies if one not in (None, "USD")), None):
        raise file.refuse(f"has prices in {quoted(str(other))}, and plans are in US dollars", remedy)


def azure(file: ListFile, data: dict[str, Any]) -> Iterator[ListedPrice | str]:
    """A page of the retail prices: Linux, on demand, spot, and reservations, whose price is of the whole term."""
    _demand_dollars(file, (item.get("currencyCode") for item in data["Items"]), "Leave out `currencyCode` when you ask")
    for item in filter(partial(_holds, file), data["Items"]):
        name, sku = str(item.get("armSkuName", "")), str(item.get("skuName", ""))
        product = str(item.get("productName", ""))
        machine = product.startswith("Virtual Machines") and not WINDOWS.search(product)
        if not machine or sku.endswith("Low Priority"):
            continue
        fleet = file.fitted("azure", name.removeprefix(AZURE_PREFIX))
        if fleet is None:
            yield name
            continue
        paid, usd = _azure_kind(item, sku), file.usd(item.get("retailPrice"))
        if paid and usd:
            price_kind, hours = paid
            yield listed(file, str(item.get("armRegionName", "")), name, fleet, "", price_kind, usd / hours)


def _holds(file: ListFile, item: Mapping[str, Any]) -> bool:
    """Whether an item's price holds on the day of the list: Azure lists those to come, and those to end, beside it."""
    begin, end = (DAY.match(str(item.get(f"effective{name}Date"))) for name in ("Start", "End"))
    return not (begin and begin[0] > file.seen_on) and not (end and end[0] < file.seen_on)


def _azure_kind(item: Mapping[str, Any], sku: str) -> tuple[PriceKind, int] | None:
    """The kind of a price, and the hours that it pays for."""
    if item.get("type") == "Reservation":
        return AZURE_TERMS.get(str(item.get("reservationTerm")))
    if item.get("type") != "Consumption":  # such as DevTestConsumption, for which one must subscribe
        return None
    return (PriceKind.SPOT if sku.endswith("Spot") else PriceKind.ON_DEMAND), 1


def infracost(file: ListFile, data: dict[str, Any]) -> Iterator[ListedPrice | str]:
    """`infracost breakdown --format json`: the hours of each instance, also of groups of them."""
    _demand_dollars(file, [data.get("currency")], "Run `infracost configure set currency USD`, and Infracost again")
    for project in data["projects"]:
        for resource in project.get("breakdown", {}).get("resources", []):
            named = str(resource.get("name", ""))
            provider = next((p for prefix, p in INFRACOST_PROVIDERS.items() if prefix in named), file.provider)
            for part in _parts(resource):
                found = INFRACOST.search(str(part.get("name", "")))
                if found and found["paid"] in INFRACOST_KINDS and part.get("unit") == "hours":
                    yield _hours(file, provider, found, part)


def _parts(resource: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What is paid for in a resource and in those within it."""
    yield from resource.get("costComponents") or []
    for inner in resource.get("subresources") or []:
        yield from _parts(inner)


def _hours(file: ListFile, provider: str, found: re.Match[str], part: dict[str, Any]) -> ListedPrice | str:
    """The price of an instance's hours; its name where its GPUs or its price are not known."""
    instance = found["instance"].removeprefix(AZURE_PREFIX)
    fleet, usd = file.fitted(provider, instance), file.usd(part.get("price"))
    if fleet is None or usd is None:
        return instance
    price_kind = INFRACOST_KINDS[found["paid"]]
    return of_provider(listed(file, "", instance, fleet, "", price_kind, usd), provider)
