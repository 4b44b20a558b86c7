"""Answers: a packing becomes a deployment, its replays a verdict, and both together a recommendation."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from itertools import cycle, islice
from math import ceil, floor, isnan, nan, sqrt

import numpy as np
from scipy.special import ndtri, stdtrit

from planner import duty
from planner.catalog import Offer, retired_machines, spot_machines, stale
from planner.catalog_files import Status
from planner.cost import Fleet, cost_usd_per_hour, fleet_label, gpu_count
from planner.cutting import Card
from planner.packing import Packing, Placed, portions_of
from planner.plans import (
    Accuracy,
    Bottleneck,
    Caution,
    GpuAnswer,
    Instances,
    Interval,
    ModelAnswer,
    Policies,
    Recommendation,
    Replayed,
    ReplicaAnswer,
    Timeline,
    UnitCosts,
)
from planner.prediction.predict import interpolated
from planner.replications import (
    REQUESTS_MAX,
    Draws,
    confidence_of,
    draws_asked,
    horizon_s,
    looks_at,
    requests_needed,
    warmup_s,
)
from planner.scenario import PriceKind, Scenario
from planner.sizing import Kind, Need
from planner.stretch import Stretch, stretch
from planner.timeline import Counts, latency_counts, timeline
from planner.units import HOURS_PER_MONTH, written_duration
from simulator.deployment import BatchingPolicy, Deployment, Failures, Replica, Service, SwapPolicy
from simulator.hardware import Device, Host
from simulator.metrics import (
    ModelMetrics,
    Summary,
    Verdict,
    accuracy,
    attainment_interval,
    confidence_interval,
    draws_interval,
    drifts,
    long_run,
    share_interval,
    summarise,
)
from simulator.profile import PAGEABLE_SHARE, Evidence, Profile, weakest
from simulator.records import SimulationResult
from simulator.run import simulate
from simulator.sharing import turn_order
from simulator.stability import drain, offered_load
from simulator.workload import FixedRate, Workload

MILE = 0.05
"""A first run that misses its target by so much more than three times the allowed misses is not repeated. One run of a
minute may be off by a few allowed misses, and by a point or two where few ask; hardly by five points besides."""
SCREENED = 3
"""Replications after which a screening that surely keeps every promise ends: a confirmation by other seeds follows."""
CALM_LOAD = 0.8
"""Load up to which queues forget so soon that it does not matter what it is."""
SCREENED_DRAWS = 12
"""The same where each is one draw of the phases."""
WORTH_MEASURING = 0.05
"""Part more that larger batches would carry, from which on it is said that nobody measured them."""
OUTAGES_MIN = 20
"""Outages in all replications below which unavailability is a guess: of 20 the standard error is 22 %."""


def cards_of(offers: Sequence[Offer], fleet: Fleet) -> list[Card]:
    """The cards of a fleet, host by host: `g4dn.xlarge-1:0`."""
    built: dict[str, int] = {}
    cards: list[Card] = []
    for offer, machines in zip(offers, fleet, strict=True):
        for _ in range(machines):
            built[offer.instance] = built.get(offer.instance, 0) + 1
            host = f"{offer.instance}-{built[offer.instance]}"
            cards += [
                Card(f"{host}:{i}", host, Kind.of(offer), offer.host_memory_bytes) for i in range(offer.gpu_count)
            ]
    return cards


def deploy(
    scenario: Scenario,
    needs: Mapping[str, Need],
    cards: Sequence[Card],
    placed: Sequence[Placed],
    swap: SwapPolicy | None = None,
) -> Deployment:
    """The deployment that a packing describes; a host's GPUs share one link as wide as one card's.

    Models that share layers take their turns one after the other. `swap`: the scenario's, where not given.
    """

    def service(need: Need) -> Service:
        mine = [p for p in placed if p.portion.sized.model == need.model]
        replicas = tuple(
            Replica(
                profile=p.portion.sized.profile,
                devices=tuple(card.id for card in p.cards),
                batching=BatchingPolicy(p.batch_size_max, need.max_queue_delay_s, scenario.padded),
                share=p.portion.share,
            )
            for p in mine
        )
        return Service(model=need.model, slo=need.slo, replicas=replicas, drop=scenario.drop, routing=scenario.routing)

    hosts = {
        c.host: Host(id=c.host, pcie_root_bytes_per_s=c.kind.gpu.pcie_bytes_per_s, memory_bytes=c.host_memory_bytes)
        for c in cards
    }
    held = dict.fromkeys(needs, ()) | {p.portion.sized.model: p.portion.sized.profile.layers for p in placed}
    return Deployment(
        services=tuple(service(needs[model]) for model in turn_order(held)),
        devices=tuple(
            Device(
                id=c.id,
                gpu=c.kind.gpu,
                host=c.host,
                memory_bytes=c.kind.memory_bytes,
                context_bytes=scenario.context,
            )
            for c in cards
        ),
        hosts=tuple(hosts.values()),
        scheduling=scenario.scheduling,
        swap=swap or scenario.swap.policy,
        failures=failures(scenario),
    )


@dataclass(frozen=True)
class Replay:
    """Replications of one deployment."""

    needs: Mapping[str, Need]
    summaries: tuple[Summary, ...]
    lost_is_wrong: tuple[Mapping[str, float], ...]
    """Accuracy of each model under that rule, by replication."""
    reuse_last: tuple[Mapping[str, float], ...]
    """The same under the other; empty where the scenario names no half-life."""
    requests: int
    """Replayed in all."""
    wall_s: float
    stretch: Stretch
    """How long each replication is."""
    looks: tuple[int, ...]
    """Numbers of replications at which the intervals may be looked at before the verdict; each look has its part of
    the 5 % risk of error."""
    draws: Draws | None = None
    """What is asked of draws of the cameras' phases; None where no phases are drawn."""
    noisy: bool = True
    """Whether something besides phases is random, so that the attainment of one draw is only estimated."""
    overloaded: tuple[str, ...] = ()
    """Models whose queues grow without end at the full demand, by `simulator.stability`."""
    recorded: bool = False
    """Whether some demand is a recording, whose own ups and downs are no drift."""
    latencies: tuple[Mapping[str, Counts], ...] = ()
    """Of each model, by replication; empty where candidates are screened."""
    timeline: Timeline | None = None
    """A window of the first replication; None where candidates are screened."""

    def rates_rps(self, factor: float) -> dict[str, float]:
        """Requests a second of each model that must be processed, at so many times the demand."""
        return {model: factor * need.needed_rps for model, need in self.needs.items()}

    @property
    def traffic(self) -> Workload:
        """All that is asked."""
        return Workload(tuple(stream for need in self.needs.values() for stream in need.streams))

    def of(self, model: str) -> list[ModelMetrics]:
        """One model's metrics, by replication."""
        return [summary.models[model] for summary in self.summaries]

    @property
    def risk(self) -> float:
        """Part of the 5 % risk of error that one look has."""
        return 1 - confidence_of(len(self.looks))

    @cached_property
    def attainment(self) -> dict[str, Interval]:
        """Share of each model's requests answered in time; the intervals hold with 95 % over all looks together.

        Where phases are drawn, the mean over draws, with an interval for the mean over all draws.
        """
        return {m: self._attainment(m, len(self.summaries)) for m in self.needs}

    def _attainment(self, model: str, replications: int) -> Interval:
        """Attainment after so many replications: those that were seen, over and over."""
        seen = list(islice(cycle(self.of(model)), replications))
        fractions = [x.slo_attainment for x in seen]
        if self.draws:
            return Interval(*draws_interval(fractions, 1 - self.risk))
        errors = [x.slo_attainment_error for x in seen] if self.noisy else []
        return Interval(*attainment_interval(fractions, [x.judged for x in seen], 1 - self.risk, errors))

    @cached_property
    def draws_kept(self) -> dict[str, Interval]:
        """Share of the draws of the phases in which each SLO is kept in the long run; empty where none are drawn.

        Each end may be wrong with the part of the risk that one look has.
        """
        return {m: self._share(kept) for m, kept in self._kept_in_draws.items()}

    def _share(self, kept: Sequence[bool]) -> Interval:
        if not kept:
            return Interval(nan, 0.0, 1.0)
        hits = sum(kept)
        return Interval(hits / len(kept), *share_interval(hits, len(kept), 1 - 2 * self.risk))

    @cached_property
    def all_kept(self) -> Interval | None:
        """Share of the draws in which every SLO is kept; None where no phases are drawn."""
        if not self.draws:
            return None
        return self._share([all(one) for one in zip(*self._kept_in_draws.values(), strict=True)])

    @cached_property
    def _kept_in_draws(self) -> dict[str, list[bool]]:
        """By model and draw."""
        if not self.draws:
            return {}
        return {model: self._in_draws(model, need.slo.attainment) for model, need in self.needs.items()}

    def _in_draws(self, model: str, target: float) -> list[bool]:
        """Whether the SLO is kept in each draw; not where no request was judged."""
        seen = self.of(model)
        known = [i for i, x in enumerate(seen) if x.judged]
        settled = [seen[i].slo_attainment for i in known]
        if self.noisy:
            settled = long_run(settled, [seen[i].slo_attainment_error for i in known])
        kept = {i for i, share in zip(known, settled, strict=True) if share >= target - 1e-9}
        return [i in kept for i in range(len(seen))]

    @cached_property
    def kept(self) -> dict[str, bool | None]:
        """Whether each SLO is kept: True or False once the whole interval lies on one side.

        One of 100 % can be refuted but never proven; it counts as kept while not one request was late. Where phases are
        drawn, the share of draws decides, and the mean over them must be no lower than the SLO.
        """
        return {m: self._kept(m, need.slo.attainment) for m, need in self.needs.items()}

    def _kept(self, model: str, target: float) -> bool | None:
        if not self.draws:
            return _kept(self.attainment[model], target)
        if self.draws.mixed > 1:
            return self._kept_when_mixed(model, target)
        share = self.draws_kept[model]
        if share.high < self.draws.share or self.attainment[model].high < target:
            return False
        return True if share.low >= self.draws.share and self._mean_low(model) >= target - 1e-9 else None

    def _mean_low(self, model: str) -> float:
        """The mean over draws, or where it is only estimated, for noise, the low end of it (Student's t)."""
        fractions = [x.slo_attainment for x in self.of(model) if x.judged]
        return confidence_interval(fractions, 1 - 2 * self.risk)[1] if self.noisy else self.attainment[model].mean

    def _kept_when_mixed(self, model: str, target: float) -> bool | None:
        """Whether the mean over as many draws as come by in the period keeps the SLO: by the interval for the mean of
        further draws (Student's t). One draw more, in which all is late, stands for those that were not seen."""
        assert self.draws is not None
        data = np.array([x.slo_attainment for x in self.of(model) if x.judged] + [0.0])
        if len(data) < 3:
            return None
        spread = float(np.std(data, ddof=1)) * (1 / len(data) + 1 / self.draws.mixed) ** 0.5
        sure = 1 - (1 - self.draws.share) / len(self.looks)
        half = max(0.0, float(stdtrit(len(data) - 1, sure))) * spread
        mean = float(np.mean(data))
        return True if mean - half >= target - 1e-9 else False if mean + half < target else None

    @cached_property
    def verdicts(self) -> dict[str, Verdict]:
        """Whether each model's replicas keep up."""
        return {m: self._verdict(m) for m in self.needs}

    def _verdict(self, model: str) -> Verdict:
        if model in self.overloaded:
            return Verdict.OVERLOADED
        seen = self.of(model)
        arrived = float(np.mean([x.arrived for x in seen])) / 3
        if not self.recorded and drifts([x.backlog_growth for x in seen], arrived):
            return Verdict.BACKLOGGED
        return Verdict.STABLE

    @property
    def met(self) -> bool:
        """Whether every SLO is surely kept, by replicas that keep up."""
        together = self.all_kept
        enough = together is None or self.draws is None or self.draws.mixed > 1 or together.low >= self.draws.share
        return all(self.kept.values()) and enough and self.stable

    @property
    def stable(self) -> bool:
        """Whether all replicas keep up."""
        return all(verdict is Verdict.STABLE for verdict in self.verdicts.values())

    @property
    def missed(self) -> list[str]:
        """Models whose SLO is not surely kept: those missed on the mean before others, furthest first; those that do
        not keep up among them."""
        short = {
            m: self.margin(m) for m, kept in self.kept.items() if not kept or self.verdicts[m] is not Verdict.STABLE
        }
        if not short and not self.met:  # each SLO is kept in enough draws, but not all of them together
            short = {m: self.margin(m) for m in self.needs}
        return sorted(short, key=lambda m: (not short[m] < 0, self.attainment[m].low - self.needs[m].slo.attainment, m))

    def margin(self, model: str) -> float:
        """Mean attainment over its target, below zero where missed; NaN where no request was judged. Where phases are
        drawn, also the share of draws that keep it over the share that is asked, whichever is less."""
        margin = self.attainment[model].mean - self.needs[model].slo.attainment
        if self.draws and self.draws.mixed == 1:
            return min(margin, self.draws_kept[model].mean - self.draws.share)
        return margin

    @property
    def nearness(self) -> tuple[bool, float]:
        """Whether every model had requests that were judged, and the least margin of those that had."""
        known = [margin for m in self.needs if not isnan(margin := self.margin(m))]
        return len(known) == len(self.needs), min(known, default=-1.0)

    @property
    def too_few(self) -> bool:
        """Whether some SLO could not be proven even were all its requests in time: no fleet would change that."""
        if self.draws:
            most = share_interval(self.looks[-1], self.looks[-1], 1 - 2 * self.risk)[0]
            return self.draws.mixed == 1 and most < self.draws.share
        more = self.looks[-1] / len(self.summaries)
        return any(
            more * sum(x.judged for x in self.of(m)) < requests_needed(need.slo.attainment, 1 - self.risk)
            for m, need in self.needs.items()
        )

    @property
    def lost(self) -> bool:
        """Whether so many draws of the phases broke an SLO that the last look could not prove the share any more."""
        if not self.draws or self.draws.mixed > 1 or len(self.looks) == 1:
            return False
        broken = sum(not all(one) for one in zip(*self._kept_in_draws.values(), strict=True))
        last = self.looks[-1]
        return broken > 0 and share_interval(last - broken, last, 1 - 2 * self.risk)[0] < self.draws.share

    @property
    def promising(self) -> bool:
        """Whether a screening leaves no doubt that is worth more than a confirmation by other seeds."""
        if not self.draws:
            return self.met
        return self.stable and not (self.short if self.draws.mixed > 1 else self.far_off)

    @property
    def decided(self) -> bool:
        """Whether more replications would not change the verdict."""
        refuted = any(kept is False for kept in self.kept.values()) or not self.stable
        together = self.all_kept
        if self.draws and together and self.draws.mixed == 1:
            refuted |= together.high < self.draws.share
        return self.met or refuted

    @property
    def short(self) -> bool:
        """Whether some SLO is missed on the mean, or some model does not keep up."""
        return not self.stable or any(self.margin(m) < 0 for m in self.needs)

    @property
    def undecidable(self) -> bool:
        """Whether the last look, with replications like those that were seen, would still not decide."""
        if self.draws:
            return False
        open_ones = [m for m, kept in self.kept.items() if kept is None]
        return any(_kept(self._attainment(m, self.looks[-1]), self.needs[m].slo.attainment) is None for m in open_ones)

    def horizon_to_prove_s(self, model: str) -> float | None:
        """Horizon at which the last look would prove the SLO, were the mean what it is; None where none would.

        Wilson's interval needs z^2 a (1 - a) / (mean - a)^2 requests, which is z^2 a / (1 - a) where all were in time;
        Student's shrinks with the root of the time. None too where that is beyond REQUESTS_MAX requests, and where more
        draws of the phases are needed instead.
        """
        need, runs, confidence = self.needs[model], self.looks[-1], 1 - self.risk
        target = need.slo.attainment
        fractions = [m.slo_attainment for m in self.of(model) if m.judged]
        mean, low, _ = confidence_interval(fractions or [1.0], confidence)
        if mean <= target or self.draws:
            return None
        unjudged_s = self.stretch.warmup_s + need.slo.latency_s
        z = float(ndtri((1 + confidence) / 2))
        requests = z * z * target * (1 - target) / (mean - target) ** 2
        spread = ((mean - low) / (mean - target)) ** 2 * len(fractions) / runs if len(fractions) > 1 else 0.0
        judged_s = max(requests / (runs * need.rate_rps), spread * max(self.stretch.horizon_s - unjudged_s, 0.0))
        found_s = unjudged_s + 1.1 * judged_s  # random arrivals may be fewer than their mean
        total_rps = sum(need.rate_rps for need in self.needs.values())
        return found_s if found_s * total_rps * self.looks[0] <= REQUESTS_MAX else None

    @property
    def far_off(self) -> bool:
        """Whether an SLO is missed by a mile, or in more than one of few draws of the phases."""
        if self.draws and self.draws.mixed == 1:
            most = bad_draws(self.draws.share)
            return any(one.count(False) >= most for one in self._kept_in_draws.values())
        return any(1 - self.attainment[m].mean > 3 * (1 - need.slo.attainment) + MILE for m, need in self.needs.items())


def bad_draws(share: float) -> int:
    """Draws of the phases that break an SLO and end a screening: one and a half standard deviations above their mean,
    if just such a share of all keep it. Of 12: 2 where 95 % must, 6 where 70 % must."""
    mean = SCREENED_DRAWS * (1 - share)
    return max(2, ceil(mean + 1.5 * sqrt(mean * share)))


PLANNING = 0x5EED << 32
"""Seed of every plan, whatever the scenario's: what is bought must not depend on luck. Larger than any other seed."""


def seed_of(seed: int, stage: int, replication: int) -> int:
    """Seed of one replication. Stage 0 chooses a plan, stage 1 confirms it; no two scenario seeds share any."""
    return int(np.random.SeedSequence((seed, stage, replication)).generate_state(1, np.uint64)[0])


def _kept(attainment: Interval, target: float) -> bool | None:
    if attainment.low >= target or attainment.mean >= 1 <= target:
        return True
    return False if attainment.high < target else None


def measured_load(deployment: Deployment, rates_rps: Mapping[str, float], traffic: Workload) -> float:
    """Load that a deployment is offered, batches as large as are allowed and weights loaded; `CALM_LOAD` if it is no
    more than that."""
    if not drain(deployment, {model: rate / CALM_LOAD for model, rate in rates_rps.items()}, traffic).growing:
        return CALM_LOAD
    return max(CALM_LOAD, offered_load(deployment, rates_rps, traffic))


def replay(
    scenario: Scenario,
    workload: Workload,
    needs: Mapping[str, Need],
    deployment: Deployment,
    *,
    screen: bool,
    seed: int = PLANNING,
    tell: Callable[[float], None] = lambda _: None,
) -> Replay:
    """Replicate until every SLO is decided: `scenario.replications` times at least and 40 times at most, or more where
    each replication is one draw of the cameras' phases.

    Once only where nothing is random: equal replications are no evidence. Replication i of every deployment meets the
    same arrivals. `screen`: a candidate is given up after one that misses by a mile, once an SLO is missed on the mean,
    where 40 would not decide, or after two draws of the phases that break an SLO; one that keeps all after a few is
    left to its confirmation. Otherwise the seeds are others than those of any screening, and the verdict falls at one
    of a few looks, whose intervals are wider for it (Bonferroni).
    `tell` hears how much of the way to the next look is done.
    """
    so_far = _not_begun(scenario, workload, needs, deployment, screen=screen)
    looks, length = so_far.looks, so_far.stretch
    for i in range(looks[-1]):
        result = simulate(deployment, workload, length.horizon_s, seed_of(seed, 0 if screen else 1, i))
        so_far = _with_one_more(so_far, result, scenario, screen=screen)
        tell((i + 1) / next(look for look in looks if look > i))
        if so_far.lost or (screen and _screened(so_far)):
            break
        if i + 1 in looks and (so_far.decided or (screen and (so_far.short or so_far.undecidable))):
            break
    return so_far


def _not_begun(
    scenario: Scenario, workload: Workload, needs: Mapping[str, Need], deployment: Deployment, *, screen: bool
) -> Replay:
    """What is known before the first replication: how long each is, how many there may be, and what is overloaded."""
    rates_rps = {model: need.needed_rps for model, need in needs.items()}
    load = 0.0 if screen else measured_load(deployment, rates_rps, workload)
    length = stretch(scenario, workload, needs, deployment, load)
    fixed = workload.is_fixed(length.horizon_s) and deployment.is_fixed
    only_phases = workload.is_fixed_but_for_phases(length.horizon_s) and deployment.is_fixed
    return Replay(
        needs=needs,
        summaries=(),
        lost_is_wrong=(),
        reuse_last=(),
        requests=0,
        wall_s=0.0,
        stretch=length,
        looks=looks_at(scenario, workload, fixed),
        draws=draws_asked(scenario, workload),
        noisy=not (fixed or only_phases),
        overloaded=drain(deployment, rates_rps, workload).growing if load > CALM_LOAD else (),
        recorded=workload.longest_recording_s > 0,
    )


def _with_one_more(so_far: Replay, result: SimulationResult, scenario: Scenario, *, screen: bool) -> Replay:
    """The replications so far and one more."""
    base = {spec.name: spec.accuracy for spec in scenario.models}
    half_life_s, early_s = scenario.accuracy.half_life, so_far.stretch.warmup_s
    summary = summarise(result, early_s)
    reused = () if half_life_s is None else (accuracy(result, base, half_life_s, early_s),)
    more = replace(
        so_far,
        summaries=(*so_far.summaries, summary),
        lost_is_wrong=(*so_far.lost_is_wrong, accuracy(result, base, None, early_s)),
        reuse_last=(*so_far.reuse_last, *reused),
        requests=so_far.requests + result.request_count,
        wall_s=so_far.wall_s + result.wall_s,
    )
    if screen:
        return more
    return replace(
        more,
        latencies=(*so_far.latencies, latency_counts(result, early_s)),
        timeline=so_far.timeline or timeline(result, summary, early_s),
    )


def _screened(so_far: Replay) -> bool:
    """Whether a screening has seen enough: a miss by a mile, or a few replications without one."""
    count = len(so_far.summaries)
    if so_far.far_off and (count == 1 or so_far.draws):
        return True
    return count == SCREENED_DRAWS if so_far.draws else count == SCREENED and so_far.met


@dataclass(frozen=True)
class Trial:
    """A fleet with its models placed, and what its replays showed."""

    offers: tuple[Offer, ...]
    fleet: Fleet
    cards: tuple[Card, ...]
    packing: Packing
    deployment: Deployment
    replay: Replay
    among: tuple[Offer, ...] = ()
    """All offers, from which its label must tell it."""
    overloaded: bool = False
    """Whether it is known to be offered more than `limit` in the largest batches that are allowed."""
    limit: float = 1.0
    """Load that the headroom leaves."""

    def bears(self, factor: float) -> bool:
        """Whether every queue still drains at so many times the demand."""
        return not drain(self.deployment, self.replay.rates_rps(factor), self.replay.traffic).growing

    @cached_property
    def demand_factor_max(self) -> float:
        """Times the demand up to which every queue drains, batches as large as are allowed and weights loaded."""
        return 1 / offered_load(self.deployment, self.replay.rates_rps(1.0), self.replay.traffic)

    @property
    def load(self) -> float:
        """What it is offered, over what it can bear."""
        if self.packing.work > self.limit:
            return self.packing.work
        return max(1 / self.demand_factor_max, self.limit if self.overloaded else 0.0)

    @property
    def met(self) -> bool:
        """Whether every SLO is surely kept, within the headroom."""
        return not self.overloaded and self.replay.met

    @property
    def nearness(self) -> tuple[bool, bool, float]:
        """Whether its load is within the headroom, and how near its replays came."""
        return (not self.overloaded, *self.replay.nearness)

    @property
    def label(self) -> str:
        """`2 x NC6s_v3 (V100), resident`."""
        return label(self.offers, self.fleet, any(p.swapped for p in self.packing.placed), self.among)

    @property
    def cost_usd_per_hour(self) -> float:
        """All instances."""
        return cost_usd_per_hour(self.offers, self.fleet)

    @property
    def energy_w(self) -> float:
        """Mean power of all cards."""
        return sum(_mean([s.devices[c.id].mean_power_w for s in self.replay.summaries]) for c in self.cards)

    def placed(self, model: str) -> list[Placed]:
        """The replicas of one model."""
        return [p for p in self.packing.placed if p.portion.sized.model == model]


def label(offers: Sequence[Offer], fleet: Fleet, swapped: bool, among: Sequence[Offer] = ()) -> str:
    """`2 x NC6s_v3 (V100), resident`; with the place where several `among` have an instance's name."""
    return f"{fleet_label(offers, fleet, among)}, {'swapped' if swapped else 'resident'}"


def recommend(trial: Trial, lower_bound_usd_per_hour: float) -> Recommendation:
    """What a person reads about a trial."""
    offers = [(offer, n) for offer, n in zip(trial.offers, trial.fleet, strict=True) if n]
    cost = trial.cost_usd_per_hour
    models = tuple(_model_answer(trial, need) for need in trial.replay.needs.values())
    return Recommendation(
        feasible=trial.met,
        label=trial.label,
        instances=tuple(
            Instances(
                provider=offer.provider,
                region=offer.region,
                instance=offer.instance,
                gpu=offer.gpu.name,
                gpu_count=offer.gpu_count,
                count=n,
                usd_per_hour=offer.usd_per_hour,
                price_as_of=offer.as_of,
                price_kind=offer.price_kind,
            )
            for offer, n in offers
        ),
        gpu_count=gpu_count(trial.offers, trial.fleet),
        cost_usd_per_hour=cost,
        cost_usd_per_month=cost * HOURS_PER_MONTH,
        unit_costs=unit_costs(cost, models, trial.replay.traffic),
        lower_bound_usd_per_hour=lower_bound_usd_per_hour,
        energy_w=trial.energy_w,
        replications=len(trial.replay.summaries),
        replayed=replayed(trial),
        requests=trial.replay.requests,
        models=models,
        gpus=tuple(_gpu_answer(trial, card) for card in trial.cards),
    )


def unit_costs(usd_per_hour: float, models: Sequence[ModelAnswer], traffic: Workload) -> UnitCosts | None:
    """What a request, a right answer and a stream cost. $3.60 an hour for 1,000 requests a second: $1 a million."""
    millions = sum(model.offered_rps for model in models) * 3600 / 1e6
    right = sum(model.offered_rps * model.accuracy.lost_is_wrong for model in models) * 3600 / 1e6
    streams = sum(stream.count for stream in traffic.streams)
    only = all(isinstance(stream.arrivals, FixedRate) for stream in traffic.streams)
    if not millions:
        return None
    return UnitCosts(
        per_million_requests=usd_per_hour / millions,
        per_million_right=usd_per_hour / right if right > 0 else nan,
        per_stream_month=usd_per_hour * HOURS_PER_MONTH / streams if only else None,
    )


def replayed(trial: Trial) -> Replayed:
    """How long was replayed, and why that suffices."""
    seen, length = trial.replay, trial.replay.stretch
    return Replayed(
        horizon_s=length.horizon_s,
        warmup_s=length.warmup_s,
        settling_s=length.settling_s,
        repeat_s=length.repeat_s,
        draws_asked=seen.draws.share if seen.draws else None,
        draws_mixed=seen.draws.mixed if seen.draws else 1,
        draws_kept=seen.all_kept,
        swap=trial.deployment.swap if any(p.swapped for p in trial.packing.placed) else None,
    )


def _model_answer(trial: Trial, need: Need) -> ModelAnswer:
    seen, placed = trial.replay.of(need.model), trial.placed(need.model)
    swapped = any(p.swapped for p in placed)
    verdict = trial.replay.verdicts[need.model]

    def mean(figure: Callable[[ModelMetrics], float]) -> float:
        return _mean([figure(m) for m in seen])

    p99 = Interval(*confidence_interval([m.p99_s for m in seen if not isnan(m.p99_s)]))
    return ModelAnswer(
        name=need.model,
        replicas=tuple(
            ReplicaAnswer(gpus=tuple(card.id for card in p.cards), batch_size=p.batch_size_max, share=p.portion.share)
            for p in placed
        ),
        batch_size=max(p.batch_size_max for p in placed),
        max_queue_delay_s=need.max_queue_delay_s,
        gpus=tuple(card.id for p in placed for card in p.cards),
        mode="swapped" if swapped else "resident",
        slo_s=need.slo.latency_s,
        slo_attainment_target=need.slo.attainment,
        slo_attainment=trial.replay.attainment[need.model],
        slo_met=trial.replay.kept[need.model] if verdict is Verdict.STABLE else False,
        draws_kept=trial.replay.draws_kept.get(need.model),
        mean_s=mean(lambda m: m.mean_s),
        p50_s=mean(lambda m: m.p50_s),
        p90_s=mean(lambda m: m.p90_s),
        p95_s=mean(lambda m: m.p95_s),
        p99_s=p99.mean,
        p99=p99,
        throughput_rps=mean(lambda m: m.throughput_rps),
        offered_rps=mean(lambda m: m.offered_rps),
        goodput_rps=mean(lambda m: m.goodput_rps),
        dropped_fraction=mean(lambda m: m.dropped_fraction),
        processed_fraction=mean(lambda m: m.processed_fraction),
        mean_batch_size=mean(lambda m: m.mean_batch_size),
        accuracy=Accuracy(
            lost_is_wrong=_mean([a[need.model] for a in trial.replay.lost_is_wrong]),
            reuse_last=_mean([a[need.model] for a in trial.replay.reuse_last]) if trial.replay.reuse_last else None,
        ),
        joules_per_inference=mean(lambda m: m.joules_per_inference),
        verdict=verdict,
        bottleneck=_bottleneck(max(placed, key=lambda p: p.worst_s)),
        evidence=weakest(*(evidence(p.portion.sized.profile, swapped) for p in placed)),
        foretold=any(p.portion.sized.profile.foretold for p in placed),
        precision=" and ".join(sorted({p.portion.sized.profile.precision for p in placed})),
    )


def _bottleneck(placed: Placed) -> Bottleneck:
    """What gives way first: the end of the measured batches where larger ones would carry more than these can."""
    compute = placed.bottleneck is Bottleneck.COMPUTE
    return Bottleneck.BATCH_RANGE if compute and _larger_would_do(placed) else placed.bottleneck


def _larger_would_do(placed: Placed) -> bool:
    """Whether twice the largest measured batch would carry more if its curve goes on, within the SLO and in memory.

    4 in 10 ms and 8 in 16 ms carry a quarter more. Waiting for such a batch and running it must be within the SLO.
    """
    sized, profile, kind = placed.portion.sized, placed.portion.sized.profile, placed.cards[0].kind
    largest = profile.largest_batch
    if placed.batch_size_max < largest or len(profile.latency.x) < 2:
        return False
    run_s = interpolated(profile, 2 * largest, kind.gpu).latency_s.value
    held_bytes = profile.weight_bytes + profile.workspace(2 * largest)
    carries_more = 2 * profile.latency(largest) >= (1 + WORTH_MEASURING) * run_s
    return carries_more and 2 * run_s <= sized.need.slo.latency_s and held_bytes <= kind.memory_bytes


def _gpu_answer(trial: Trial, card: Card) -> GpuAnswer:
    seen = [summary.devices[card.id] for summary in trial.replay.summaries]
    return GpuAnswer(
        id=card.id,
        kind=card.kind.gpu.name,
        host=card.host,
        models=tuple(p.portion.sized.model for p in trial.packing.placed if card in p.cards),
        utilization=_mean([d.utilization for d in seen]),
        offered_load=sum(_offered_load(p, card) for p in trial.packing.placed if card in p.cards),
        load_share=_mean([d.load_share for d in seen]),
        swaps_per_s=_mean([d.swaps_per_s for d in seen]),
        peak_memory_bytes=max(d.peak_memory_bytes for d in seen),
        memory_bytes=card.kind.memory_bytes,
        mean_power_w=_mean([d.mean_power_w for d in seen]),
        foretold=any(p.portion.sized.profile.foretold for p in trial.packing.placed if card in p.cards),
    )


def _offered_load(placed: Placed, card: Card) -> float:
    """Of one replica on one of its cards."""
    here = portions_of(placed)[placed.cards.index(card)]
    return duty.offered_load([here], [placed.batch_size_max])


def evidence(profile: Profile, swapped: bool) -> Evidence:
    """The weakest of the figures that matter: load times only where weights move while serving."""
    used = (profile.latency_evidence, profile.memory_evidence, *([profile.load_evidence] if swapped else []))
    return weakest(*used)


def policies(scenario: Scenario, workload: Workload, trial: Trial | None) -> Policies:
    """The rules that a scenario's deployments are replayed under; those of the answer, where there is one."""
    swap = trial.deployment.swap if trial else scenario.swap.policy
    length = trial.replay.stretch if trial else None
    return Policies(
        memory=scenario.memory,
        scheduling=scenario.scheduling,
        routing=scenario.routing,
        drop=scenario.drop,
        accuracy=scenario.accuracy.rule,
        half_life_s=scenario.accuracy.half_life,
        eviction=swap.eviction,
        prefetch=swap.prefetch,
        pinned=swap.pinned,
        padded=scenario.padded,
        headroom=scenario.headroom,
        horizon_s=length.horizon_s if length else horizon_s(scenario, workload),
        warmup_s=length.warmup_s if length else warmup_s(scenario),
        failures=failures(scenario),
    )


def failures(scenario: Scenario) -> Failures | None:
    """Disturbances of a scenario's deployments."""
    spec = scenario.failures
    return Failures(mean_time_between_s=spec.mean_time_between, recovery_s=spec.recovery) if spec else None


def assumptions(scenario: Scenario, trial: Trial, known: Sequence[str]) -> tuple[str, ...]:
    """What the answer takes for granted, each once; `known` comes from the catalog."""
    kinds = {card.kind.gpu.name for card in trial.cards}
    swapped = any(p.swapped for p in trial.packing.placed)
    said = _grouped({name: p.portion.sized.profile.assumptions for name, p in _profiles(trial).items()})
    said.append(f"one process on each GPU holds {scenario.context / 1e9:.2g} GB besides weights and workspace")
    unmetered = [name for name, p in _profiles(trial).items() if p.portion.sized.profile.busy_w is None]
    if unmetered:
        names = ", ".join(unmetered)
        said.append(f"{names}: Power while a batch runs is not published: taken by the pace of the batch.")
    said += [text for text in (_of_kinds(text, kinds) for text in known) if text]
    if any(len(p.cards) > 1 for p in trial.packing.placed):
        said.append("a model cut into pipeline stages spends time in each in proportion to its weights")
    if swapped:
        said.append("all GPUs of a host share a link as wide as one card's own")
        unknown = any(p.portion.sized.profile.pageable_bytes_per_s is None for p in trial.packing.placed)
        if unknown and not scenario.swap.pinned:
            said.append(f"loads from pageable memory, not measured, run at {PAGEABLE_SHARE:.0%} of the pinned rate")
        if any(card.host_memory_bytes is None for card in trial.cards):
            said.append("host memory, where it is not listed, holds all weights")
    return tuple(dict.fromkeys(said))


def _of_kinds(text: str, kinds: Collection[str]) -> str:
    """A sentence on some kinds of GPU, `... (K80, T4, V100).`, for those in use; empty where none is."""
    what, _, listed = text.removesuffix(").").rpartition(" (")
    named = [kind for kind in listed.split(", ") if kind in kinds]
    return f"{what} ({', '.join(named)})." if named else ""


def cautions(scenario: Scenario, workload: Workload, trial: Trial, today: date) -> tuple[Caution, ...]:
    """What weakens the answer, and what to do about it."""
    return (
        *_doubts(trial),
        *_prices(scenario, trial, today),
        *_foretold(trial),
        *_batch_ranges(trial),
        *_evidence(trial),
        *_windows(workload, trial.replay),
        *_outages(scenario, trial),
        *_unproven(trial.replay),
    )


def _doubts(trial: Trial) -> Iterator[Caution]:
    """What speaks against a profile."""
    for name, placed in _profiles(trial).items():
        for doubt in placed.portion.sized.profile.doubts:
            what, _, remedy = doubt.rpartition("; ")
            yield Caution(what=f"{name}: {what or remedy}", remedy=remedy)


def _prices(scenario: Scenario, trial: Trial, today: date) -> Iterator[Caution]:
    """Old prices, and machines that may be taken away."""
    used = [offer for offer, n in zip(trial.offers, trial.fleet, strict=True) if n]
    for offer in used:
        if stale(offer.as_of, today):
            yield Caution(
                what=f"the price of {offer.instance} is of {offer.as_of}",
                remedy="look it up and pass a newer prices.yaml with `--catalog DIR`",
            )
    gone = [offer.instance for offer in used if offer.status is Status.RETIRED]
    if gone:
        yield retired_machines(gone)
    spot = [offer.instance for offer in used if offer.price_kind is PriceKind.SPOT]
    if spot and scenario.failures is None:
        yield spot_machines(spot)


def _foretold(trial: Trial) -> Iterator[Caution]:
    """Pairs that nobody measured."""
    names = [name for name, p in _profiles(trial).items() if p.portion.sized.profile.foretold]
    if names:
        yield Caution(
            what=f"nobody measured {', '.join(names)}: times, memory and loads are foretold, and the plan is made at"
            " the bad end of their 80 % bands, which one time in ten is exceeded",
            remedy="measure with `planner calibrate` on such a GPU before you buy, and name the folder with"
            " `--profiles DIR`",
        )


def _batch_ranges(trial: Trial) -> Iterator[Caution]:
    """GPUs short of compute only because nobody measured larger batches."""
    held = [placed for placed in trial.packing.placed if _bottleneck(placed) is Bottleneck.BATCH_RANGE]
    names = dict.fromkeys(f"{p.portion.sized.profile.model} on {p.portion.sized.profile.gpu}" for p in held)
    if names and len(trial.cards) > 1:
        yield Caution(
            what=f"batches of {', '.join(names)} end where measuring ended: if the curves go on, a GPU would carry more"
            " in larger ones, and fewer may do",
            remedy="measure larger ones with `planner calibrate --batches` on such a GPU and name the folder with"
            " `--profiles DIR`",
        )


def _evidence(trial: Trial) -> Iterator[Caution]:
    """Profiles that rest on assumptions."""
    profiles = [(name, p) for name, p in _profiles(trial).items() if not p.portion.sized.profile.foretold]
    assumed = [name for name, p in profiles if evidence(p.portion.sized.profile, p.swapped) is Evidence.ASSUMED]
    if assumed:
        yield Caution(
            what=f"figures of {', '.join(assumed)} are partly assumed",
            remedy="measure them with `planner calibrate` and name the folder with `--profiles DIR`",
        )


def _windows(workload: Workload, seen: Replay) -> Iterator[Caution]:
    """Recordings of which no replication replays all."""
    longest_s = workload.longest_recording_s
    if longest_s > seen.stretch.horizon_s:
        runs, each, whole = len(seen.summaries), written_duration(seen.stretch.horizon_s), written_duration(longest_s)
        yield Caution(
            what=f"{runs} windows of {each} of a recording of {whole} were replayed, not the whole of it",
            remedy=f"`horizon: {whole}` replays all",
        )


def _outages(scenario: Scenario, trial: Trial) -> Iterator[Caution]:
    """Disturbances too rare for the replayed time."""
    if scenario.failures is None:
        return
    every_s = scenario.failures.mean_time_between + scenario.failures.recovery
    host_runs = len({card.host for card in trial.cards}) * len(trial.replay.summaries)
    expected = host_runs * trial.replay.stretch.horizon_s / every_s
    if expected < OUTAGES_MIN:
        longer = written_duration(OUTAGES_MIN * every_s / host_runs)
        yield Caution(
            what=f"only {expected:.2g} outages are to be expected in all that was replayed: a chance result",
            remedy=f"`horizon: {longer}` shows about {OUTAGES_MIN}",
        )


def _unproven(seen: Replay) -> Iterator[Caution]:
    """Promises that hold on the mean, with too few requests to prove them."""
    for model, kept in seen.kept.items():
        if kept is None and not seen.margin(model) < 0:
            few = "draws of the phases" if seen.draws else f"requests of {model}"
            yield Caution(what=f"too few {few} to prove {model}'s promise", remedy=remedy_unproven(seen, model))


def remedy_unproven(seen: Replay, model: str) -> str:
    """`set `horizon: 57 min`, or promise 98.9 % for a`; of draws of the phases `set `replications: 640``."""
    if seen.draws:
        return f"set `replications: {2 * len(seen.summaries)}`, or a lower `confidence`"
    longer_s, low = seen.horizon_to_prove_s(model), floor(seen.attainment[model].low * 1000) / 10
    longer = [f"set `horizon: {written_duration(longer_s)}`"] if longer_s is not None else []
    lower = [f"promise {low:g} % for {model}"] if low > 0 else []
    return ", or ".join([*longer, *lower]) or "set a longer `horizon`"


def _grouped(texts: Mapping[str, Sequence[str]]) -> list[str]:
    """Each text once, after all whom it concerns: `yolov3, ssd_vgg on V100: taken for fp32`."""
    whom: dict[str, list[str]] = {}
    for name, said in texts.items():
        for text in said:
            whom.setdefault(text, []).append(name)
    return [f"{', '.join(names)}: {text}" for text, names in whom.items()]


def _profiles(trial: Trial) -> dict[str, Placed]:
    """A replica for each profile in use, by `resnet50 on V100`."""
    profiles = ((p.portion.sized.profile, p) for p in trial.packing.placed)
    return {f"{profile.model} on {profile.gpu}": placed for profile, placed in profiles}


def _mean(values: Sequence[float]) -> float:
    """Mean of those that are known."""
    known = [v for v in values if not isnan(v)]
    return sum(known) / len(known) if known else nan
