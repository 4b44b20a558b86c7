"""Prices and machines for people to look at."""

from collections import Counter
from collections.abc import Sequence
from datetime import date

from planner.catalog.catalog import Catalog
from planner.catalog.files import SaleStatus
from planner.catalog.sold import Instance, Price, Purchase, seller, stale, usual_days
from planner.model.choices import PriceKind
from planner.show.document import Column, Rows
from planner.show.terminal import listed
from planner.units.writing import Screen, dollars

TITLES = {
    PriceKind.ON_DEMAND: "on-demand",
    PriceKind.SPOT: "spot",
    PriceKind.RESERVED_1Y: "1 year",
    PriceKind.RESERVED_3Y: "3 years",
}
"""Columns of prices."""


def price_list(catalog: Catalog, wanted: Sequence[Instance], screen: Screen) -> str:
    """One line for each instance, cheapest GPU first."""
    rows = Rows(sorted(wanted, key=lambda i: (per_gpu(i), i.name, i.region)))
    columns = [
        rows.words("instance", lambda i: i.name if i.status is SaleStatus.ACTIVE else f"{i.name} ({i.status})"),
        rows.words("provider", lambda i: seller(i.provider, i.region)),
        rows.words("GPUs", lambda i: f"{i.gpu_count} {i.gpu}"),
        rows.figures("GB", lambda i: f"{catalog.gpus[i.gpu].memory_bytes / 1e9:.0f}"),
        *(Column(title, [hourly_at(i, kind) for i in rows.items], True) for kind, title in TITLES.items()),
        rows.words("as of", dates),
    ]
    return listed(columns, screen)


def purchase_list(wanted: Sequence[Purchase], screen: Screen) -> str:
    """One line for each machine that can be bought, cheapest GPU first; nothing where there is none."""
    rows = Rows(sorted(wanted, key=lambda p: (p.usd / p.gpu_count, p.machine)))
    columns = [
        rows.words("to buy", "machine"),
        rows.words("GPUs", lambda p: f"{p.gpu_count} x {p.gpu}"),
        rows.shown("price", "usd", dollars),
        rows.figures("each GPU", lambda p: dollars(p.usd / p.gpu_count)),
        rows.words("status", "status"),
        rows.words("as of", "as_of"),
    ]
    return listed(columns, screen) if wanted else ""


def hourly_at(instance: Instance, kind: PriceKind) -> str:
    """The price of that kind, `$3.06 (retired)` where the machine can be had at another only."""
    price, status = instance.prices.get(kind), instance.status_at(kind)
    return hourly(price) if status is instance.status else f"{hourly(price)} ({status})"


def hourly(price: Price | None) -> str:
    """`$0.526`, `$0.158-$0.210`, or `-` where nobody says."""
    if price is None:
        return "-"
    if price.usd_per_hour_range is None:
        return dollars(price.usd_per_hour)
    low, high = price.usd_per_hour_range
    return f"{dollars(low)}-{dollars(high)}"


def per_gpu(instance: Instance) -> float:
    """Lowest price of one of its GPUs, dollars an hour."""
    return min(price.usd_per_hour for price in instance.prices.values()) / instance.gpu_count


def dates(instance: Instance) -> str:
    """The date of its prices; `2026-07-20, spot 2025-01-01` where some have another than the first."""
    first, *others = sorted(instance.prices, key=list(PriceKind).index)
    as_of = instance.prices[first].as_of
    apart = [f"{kind} {instance.prices[kind].as_of}" for kind in others if instance.prices[kind].as_of != as_of]
    return ", ".join([as_of, *apart])


def price_status(catalog: Catalog, today: date, screen: Screen) -> str:
    """How old the prices are, by provider, state and date, and what is no longer sold."""
    dated = [(i.provider, p.as_of, p.source, p.status) for i in catalog.instances for p in i.prices.values()]
    dated += [("to buy", p.as_of, p.source, p.status) for p in catalog.purchases]
    counts = Counter((provider, as_of, source, status) for provider, as_of, source, status in dated)
    rows = Rows(sorted(counts))
    old = frozenset(i for i, group in enumerate(rows.items) if _state(group, today) == "STALE")
    columns = [
        rows.words("provider", lambda group: group[0]),
        rows.words("as of", lambda group: group[1]),
        rows.figures("days", lambda group: str((today - date.fromisoformat(group[1])).days)),
        rows.figures("usual", lambda group: str(_usual(group[0]))),
        rows.words("state", lambda group: _state(group, today)),
        rows.figures("prices", lambda group: str(counts[group])),
        rows.words("source", lambda group: group[2], cited=True),
    ]
    remedy = "Stale prices mislead: put newer ones into a prices.yaml and name its directory with --catalog."
    return listed(columns, screen, old) + ("\n".join(["", *screen.wrap(remedy), ""]) if old else "")


def _state(group: tuple[str, str, str, SaleStatus], today: date) -> str:
    """`retired` and `unclear` before age: a price that nobody can have need not be looked up."""
    provider, as_of, _, status = group
    if status is not SaleStatus.ACTIVE:
        return status.value
    return "STALE" if stale(as_of, today, _usual(provider)) else "fresh"


def _usual(provider: str) -> int:
    return usual_days("" if provider == "to buy" else provider)
