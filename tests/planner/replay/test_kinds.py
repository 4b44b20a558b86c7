"""Kinds of GPU side by side: old prices beside what the provider asks since."""

from dataclasses import replace
from datetime import date
from types import SimpleNamespace

import pytest
from support.planning import CATALOG

from planner.catalog.files import SaleStatus
from planner.catalog.offers import offers
from planner.catalog.sold import Instance, Price
from planner.model.choices import PriceKind
from planner.model.parts.machines import BuySpec
from planner.replay.kinds import dearer_since

OFFER = offers(CATALOG, BuySpec(gpus=("T4",), instances=("g4dn.xlarge",), regions=("us-east-1",)))[0][0]
TODAY = date(2027, 6, 1)


def said(usd: float, as_of: str = "2027-05-01", today: date = TODAY, **changes: object) -> list[tuple[str, ...]]:
    """What is warned of where the provider lists another machine since."""
    price = Price(usd_per_hour=usd, as_of=as_of, source="a list")
    other = {
        "provider": OFFER.provider,
        "region": OFFER.region,
        "name": "other",
        "gpu": "T4",
        "gpu_count": 1,
        "host_memory_bytes": None,
        "status": SaleStatus.UNCLEAR,
        "prices": {PriceKind.ON_DEMAND: price},
    }
    known = [one for one in CATALOG.instances if one.name == OFFER.instance and one.region == OFFER.region]
    catalog = replace(CATALOG, instances=(*known, Instance(**{**other, **changes})))  # type: ignore[arg-type]
    trial = SimpleNamespace(bought=[OFFER])
    return [one.what.subjects for one in dearer_since([trial, trial], catalog, today)]  # type: ignore[list-item]


def test_an_old_price_stands_beside_what_the_provider_asks_since() -> None:
    assert said(2 * OFFER.usd_per_hour) == [
        (OFFER.instance, OFFER.as_of, OFFER.provider, "T4", "other", "2027-05-01"),
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {"usd": 0.5 * OFFER.usd_per_hour},
        {"as_of": "2020-01-01"},
        {"today": date.fromisoformat(OFFER.as_of)},
        {"gpu_count": 4},
        {"gpu": "A10G"},
        {"region": "elsewhere"},
        {"provider": "somebody"},
        {"status": SaleStatus.RETIRED},
        {"status": SaleStatus.ACTIVE},  # another machine, such as one with more processors
    ],
)
def test_nothing_is_said_of_what_is_no_dearer_no_newer_or_not_alike(changes: dict[str, object]) -> None:
    assert said(**{"usd": 2 * OFFER.usd_per_hour, **changes}) == []  # type: ignore[arg-type]
