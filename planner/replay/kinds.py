"""Kinds of GPU side by side: what the cheapest fleet of each costs, at which prices, and how sure it is."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from statistics import fmean

from planner.catalog.files import SaleStatus
from planner.catalog.offers import Catalog, Offer, stale, usual_days
from planner.catalog.sold import Instance, Price
from planner.model.plan import OfOneKind, PlanWarning, Searched
from planner.model.statement import Code, Statement
from planner.replay.trial import Trial, evidence
from simulator.world.profile import weakest


def of_each_kind(trials: Sequence[Trial], catalog: Catalog) -> tuple[OfOneKind, ...]:
    """One line for each trial, every one on a kind of GPU of its own."""
    sold = {(one.provider, one.region, one.name): one for one in catalog.instances}
    return tuple(_of_one_kind(trial, sold) for trial in trials)


def _of_one_kind(trial: Trial, sold: Mapping[tuple[str, str, str], Instance]) -> OfOneKind:
    placed = trial.packing.placed
    profiles = [p.portion.sized.profile for p in placed]
    devices = [device for summary in trial.replay.summaries for device in summary.devices.values()]
    return OfOneKind(
        gpu=trial.devices[0].kind.gpu.name,
        candidate=trial.candidate,
        gpu_count=len(trial.devices),
        cost_usd_per_hour=trial.cost_usd_per_hour,
        usd_per_hour_by_price=_by_price(trial, sold),
        prices_as_of=min((offer.as_of for offer in trial.bought if offer.as_of), default=""),
        utilization=fmean(device.utilization for device in devices),
        energy_w=trial.energy_w,
        slo_held=trial.replay.all_kept,
        evidence=weakest(*(evidence(p.portion.sized.profile, p.swapped) for p in placed)),
        predicted=any(profile.predicted for profile in profiles),
        searched=Searched.SCREENED if trial.replay.screened else Searched.CONFIRMED,
    )


def _by_price(trial: Trial, sold: Mapping[tuple[str, str, str], Instance]) -> dict[str, float]:
    """What fleet and spares cost an hour at each kind of price at which all of these instances are sold."""
    bought = [(offer, n) for offer, n in zip(trial.offers, trial.paid, strict=True) if n]
    instances = [(sold.get((offer.provider, offer.region, offer.instance)), n) for offer, n in bought]
    priced = [(instance.prices, n) for instance, n in instances if instance is not None]
    if len(priced) < len(instances):
        return {}
    kinds = set.intersection(*(set(prices) for prices, _ in priced))
    return {kind.value: sum(n * prices[kind].usd_per_hour for prices, n in priced) for kind in sorted(kinds)}


def dearer_since(trials: Iterable[Trial], catalog: Catalog, today: date) -> Iterator[PlanWarning]:
    """Old prices of machines for whose like their provider asks more since, each machine once."""
    for offer in dict.fromkeys(offer for trial in trials for offer in trial.bought):
        newer = _newest(catalog, offer) if stale(offer.as_of, today, usual_days(offer.provider)) else None
        if newer is None or newer[1].usd_per_hour <= offer.usd_per_hour:
            continue
        instance, price = newer
        names = (offer.instance, offer.as_of, offer.provider, offer.gpu.name, instance.name, price.as_of)
        figures = {"usd_per_hour": offer.usd_per_hour, "now_usd_per_hour": price.usd_per_hour}
        yield PlanWarning(what=Statement(code=Code.DEARER_SINCE, subjects=names, figures=figures))


def _newest(catalog: Catalog, offer: Offer) -> tuple[Instance, Price] | None:
    """The last price of the same machine after the offer's own, or an average or the like (`unclear`) of what the
    provider asks for as many such GPUs: another machine of its has another price."""
    like = (offer.provider, offer.gpu.name, offer.gpu_count)
    found = [
        (one, price)
        for one in catalog.instances
        if (one.provider, one.gpu, one.gpu_count) == like
        if one.status is SaleStatus.UNCLEAR or (one.name == offer.instance and one.status is not SaleStatus.RETIRED)
        if one.region == offer.region or "any" in (one.region, offer.region)
        for kind, price in one.prices.items()
        if kind is offer.price_kind and price.as_of > offer.as_of
    ]
    return max(found, key=lambda pair: pair[1].as_of, default=None)
