"""Prices of one instance from several days."""

from support.planning import CATALOG

from planner.model.choices import PriceKind
from planner.show.text.listings.prices import dates


def test_each_price_has_its_own_date() -> None:
    both = (PriceKind.ON_DEMAND, PriceKind.SPOT)
    sold = (i for i in CATALOG.instances if all(kind in i.prices for kind in both))
    instance = next(i for i in sold if len({i.prices[kind].as_of for kind in both}) == 2)
    rent, spot = (instance.prices[kind].as_of for kind in both)
    assert dates(instance).startswith(rent)
    assert f"spot {spot}" in dates(instance)
