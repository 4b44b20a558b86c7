"""Trials: a fleet with its models placed, and what its replays showed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isnan, nan

from planner.catalog.offers import Offer
from planner.model.candidate import Candidate, Memory
from planner.model.plan import Searched
from planner.placing.cutting import FleetGpu
from planner.placing.fleets import Fleet, cost_usd_per_hour, machines_of
from planner.placing.outages import asks_all, broken_by_outages, in_time_on_any
from planner.placing.packing.packed import Packing, Placed
from planner.placing.sizing import Kind, Need
from planner.replay.replay import Replay
from simulator.clock.stability import drain, offered_load
from simulator.world.deployment import Deployment, Routing
from simulator.world.doubt import middle
from simulator.world.profile import Evidence, Profile, weakest

ALIKE = 0.01
"""Attainments that differ by less are about the same: a screening's interval is about as wide."""


@dataclass(frozen=True)
class Trial:
    """A fleet with its models placed, and what its replays showed."""

    offers: tuple[Offer, ...]
    fleet: Fleet
    devices: tuple[FleetGpu, ...]
    packing: Packing
    deployment: Deployment
    replay: Replay
    among: tuple[Offer, ...] = ()
    """All offers, from which its name must tell it."""
    overloaded: bool = False
    """Whether it is known to be offered more than `limit` in the largest batches that are allowed."""
    limit: float = 1.0
    """Load that the headroom leaves."""
    spares: Fleet = ()
    """Machines of each offer beside the fleet that stand ready."""
    unready: bool = False
    """Whether the spares that are asked for may not be bought."""

    def bears(self, factor: float) -> bool:
        """Whether every queue still drains at so many times the demand."""
        return not drain(self.deployment, self.replay.rates_rps(factor), self.replay.traffic).growing

    @cached_property
    def broken(self) -> tuple[Need, float] | None:
        """What has an SLO that failing machines alone break, and the share that can be in time, however the replays
        went; None where nothing has."""
        failures, services = self.deployment.failures, self.deployment.services
        return broken_by_outages(failures, services[0].routing, self.replay.needs, self.packing.placed)

    @property
    def attainment_max(self) -> dict[str, float]:
        """By what has an SLO that failing machines alone break, the share of its requests that can be in time."""
        if self.broken is None:
            return {}
        need, most = self.broken
        return {need.model: most}

    @property
    def never_in_time(self) -> bool:
        """Whether failing machines break an SLO on however many: of 100 %, or of a model whose requests nobody takes
        over."""
        if self.broken is None:
            return False
        return asks_all(self.broken[0]) or self.deployment.services[0].routing is Routing.ROUND_ROBIN

    @property
    def too_few(self) -> bool:
        """Whether some SLO could not be proven even were all its requests in time that failing machines leave, on
        however many."""
        routing = self.deployment.services[0].routing
        return self.replay.too_few_with(in_time_on_any(self.deployment.failures, routing, self.replay.needs))

    @cached_property
    def demand_factor_max(self) -> float:
        """Times the demand up to which every queue drains, batches as large as are allowed and weights loaded."""
        return 1 / offered_load(self.deployment, self.replay.rates_rps(1.0), self.replay.traffic)

    @cached_property
    def load_at_middle(self) -> float:
        """The same were all uncertain speeds at the middle of their bands; what is planned with is at the bad end."""
        return offered_load(middle(self.deployment), self.replay.rates_rps(1.0), self.replay.traffic)

    @property
    def load(self) -> float:
        """What it is offered, over what it can bear."""
        if self.packing.work > self.limit:
            return self.packing.work
        return max(1 / self.demand_factor_max, self.limit if self.overloaded else 0.0)

    @property
    def searched(self) -> Searched:
        """How far it was looked at."""
        if self.replay.screened or self.replay.hopeful:
            return Searched.SCREENED
        return Searched.RANKED if self.replay.ranked and self.deployment.doubted else Searched.CONFIRMED

    @property
    def stands(self) -> bool:
        """Whether replays that had no part in choosing it met every SLO, within the headroom."""
        return not (self.overloaded or self.broken or self.replay.preliminary) and self.replay.met

    @property
    def met(self) -> bool:
        """Whether every SLO is met, surely or until it is confirmed, within the headroom, and with the spares that are
        asked for."""
        return not (self.overloaded or self.broken or self.unready) and (self.replay.met or self.replay.hopeful)

    @property
    def as_ranked(self) -> "Trial | None":
        """What the first look left open, by the share of the draws it saw; None where that is too little. Any other as
        it is."""
        seen = self.replay
        if not seen.hopeful:
            return self
        ranked = replace(self, replay=replace(seen, looks=seen.looks[:1], ranked=True, hopeful=False))
        return ranked if ranked.met else None

    @property
    def nearest_by_margin(self) -> tuple[bool, bool, float]:
        """Whether its load is within the headroom, and how near its replays came."""
        return (not self.overloaded, *self.replay.nearest_by_margin)

    @property
    def nearest_by_shares(self) -> tuple[bool, bool, float, tuple[float, ...]]:
        """Whether its queues drain, and how near its replays came, to set fleets beside each other that all miss."""
        return (self.load <= 1, *self.replay.nearest_by_shares)

    @property
    def bought(self) -> list[Offer]:
        """The offers of which it has any."""
        return [offer for offer, n in zip(self.offers, self.fleet, strict=True) if n]

    @property
    def kinds(self) -> set[Kind]:
        """Kinds of its GPUs."""
        return {device.kind for device in self.devices}

    @property
    def candidate(self) -> Candidate:
        """`2 x NC6s_v3 (V100), resident`."""
        return candidate_of(self.offers, self.fleet, any(p.swapped for p in self.packing.placed), self.among)

    @property
    def cost_usd_per_hour(self) -> float:
        """All instances, spares included."""
        return cost_usd_per_hour(self.offers, self.paid)

    @property
    def paid(self) -> Fleet:
        """The fleet with its spares."""
        spares = self.spares or (0,) * len(self.fleet)
        return tuple(n + more for n, more in zip(self.fleet, spares, strict=True))

    @property
    def power_w(self) -> float:
        """Mean power of all GPUs."""
        return sum(mean_of_known([s.devices[c.id].mean_power_w for s in self.replay.summaries]) for c in self.devices)

    def placed(self, model: str) -> list[Placed]:
        """The replicas of one model, or of all stages of a pipeline."""
        return [p for p in self.packing.placed if p.portion.sized.need.judged.model == model]

    @cached_property
    def short(self) -> list[str]:
        """Models that run for what broke its SLO in some draw, else for what missed it, in the order of the misses."""
        short = self.replay.broken or self.replay.missed
        return list(dict.fromkeys(p.portion.sized.model for missed in short for p in self.placed(missed)))


def nearest_of(trials: Sequence[Trial]) -> Trial:
    """Of trials that all miss the one that came nearest, the cheapest of those that came as near."""
    nearest = max(trials, key=lambda trial: trial.nearest_by_shares)
    return min((one for one in trials if as_near(one, nearest)), key=lambda trial: trial.cost_usd_per_hour)


def as_near(one: Trial, other: Trial) -> bool:
    """Whether two trials differ by chance alone: alike in all that comes before the shares in time, which are about the
    same, and whose intervals overlap."""
    if one is other:
        return True
    pairs = [(one.replay.attainment[model], other.replay.attainment[model]) for model in one.replay.needs]
    if any(abs(a.mean - b.mean) >= ALIKE or max(a.low, b.low) > min(a.high, b.high) for a, b in pairs):
        return False
    *before, _ = one.nearest_by_shares
    *others_before, _ = other.nearest_by_shares
    return before == others_before


def candidate_of(offers: Sequence[Offer], fleet: Fleet, swapped: bool, among: Sequence[Offer] = ()) -> Candidate:
    """What is bought, and how models share its memory; `among` are all offers."""
    memory = Memory.SWAPPED if swapped else Memory.RESIDENT
    return Candidate(machines=machines_of(offers, fleet, among), memory=memory)


def evidence(profile: Profile, swapped: bool) -> Evidence:
    """The weakest of the figures that matter: load times only where weights move while serving."""
    loading = [profile.load_evidence] if swapped else []
    return weakest(profile.latency_evidence, profile.memory_evidence, *loading)


def mean_of_known(values: Sequence[float]) -> float:
    """Mean of those that are known."""
    known = [v for v in values if not isnan(v)]
    return sum(known) / len(known) if known else nan
