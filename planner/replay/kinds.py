"""Kinds of GPU side by side: what the cheapest fleet of each costs, at which prices, and how sure it is."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from planner.catalog.catalog import Catalog
from planner.catalog.sold import Instance
from planner.model.plan import OfOneKind
from planner.replay.pipelines import each_once
from planner.replay.trial import Trial, evidence
from simulator.clock.metrics import Summary
from simulator.world.profile import speed_evidence_of, weakest


def of_each_kind(trials: Sequence[Trial], catalog: Catalog) -> tuple[OfOneKind, ...]:
    """One line for each trial, every one on a kind of GPU of its own."""
    sold = {(one.provider, one.region, one.name): one for one in catalog.instances}
    return tuple(_of_one_kind(trial, sold) for trial in trials)


def _of_one_kind(trial: Trial, sold: Mapping[tuple[str, str, str], Instance]) -> OfOneKind:
    placed = trial.packing.placed
    profiles = [p.portion.sized.profile for p in placed]
    bought = [(offer, n) for offer, n in zip(trial.offers, trial.paid, strict=True) if n]
    by_price = at_each_price([(sold.get((one.provider, one.region, one.instance)), n) for one, n in bought])
    held, draws = trial.replay.all_kept, trial.replay.draws
    return OfOneKind(
        gpu=trial.devices[0].kind.gpu.name,
        candidate=trial.candidate,
        gpu_count=len(trial.devices),
        cost_usd_per_hour=trial.cost_usd_per_hour,
        usd_per_hour_by_price={kind: usd_per_hour for kind, (usd_per_hour, _) in by_price.items()},
        prices_as_of=min((offer.as_of for offer in trial.bought if offer.as_of), default=""),
        prices_as_of_by_price={kind: as_of for kind, (_, as_of) in by_price.items()},
        utilization=_utilization(trial.replay.summaries),
        power_w=trial.power_w,
        slo_held=held,
        undecided=bool(held and draws and draws.mixed == 1 and held.mean < draws.share),
        evidence=weakest(*(evidence(p.portion.sized.profile, p.swapped) for p in placed)),
        predicted=any(profile.predicted for profile in profiles),
        speed_evidence=speed_evidence_of(profile.speed_evidence for profile in profiles),
        precision=each_once(profile.precision for profile in profiles),
        runtime=each_once(profile.runtime for profile in profiles),
        searched=trial.searched,
        replications=trial.replay.replications,
    )


def _utilization(summaries: Sequence[Summary]) -> float:
    """The mean of all GPUs in all replications."""
    return fmean(device.utilization for summary in summaries for device in summary.devices.values())


def at_each_price(bought: Sequence[tuple[Instance | None, int]]) -> dict[str, tuple[float, str]]:
    """What so many of each instance cost an hour at each kind of price at which all of them are sold, and the date of
    the oldest of these prices; empty where one, None, is sold nowhere."""
    priced = [(instance.prices, n) for instance, n in bought if instance is not None]
    if not priced or len(priced) < len(bought):
        return {}
    return {
        kind.value: (
            sum(n * prices[kind].usd_per_hour for prices, n in priced),
            min(prices[kind].as_of for prices, _ in priced),
        )
        for kind in sorted(set.intersection(*(set(prices) for prices, _ in priced)))
    }
