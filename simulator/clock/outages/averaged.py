"""Averaged: replications of hosts that fail, each of which shows the mean over time instead of what a moment brings.

On the clock an outage of minutes, once in hours, is in no replay of a minute, or fills it. Here replays are those of
hosts that are up, and of what is left while some are away; each of these states counts by how much of the time it
lasts.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import repeat
from math import isnan, nan
from typing import TypeVar

import numpy as np

from simulator.clock.metrics import ModelMetrics
from simulator.clock.outages.outages import LATE_MIN, Outages, without
from simulator.clock.records import SimulationResult
from simulator.clock.stability import drain, offered_load
from simulator.clock.worlds import Shares, WorldFigures, Worlds
from simulator.rules.latencies import EDGES_S, QUANTILES, Counts
from simulator.world.deployment import Deployment
from simulator.world.workload import Floats, Workload

Value = TypeVar("Value", float, Floats)
LEAST_SLOS = 5
"""How long a state is replayed at least, in SLOs."""
ERROR = 0.05
"""Part of what an SLO lets be late by which chance may move the part of a state in a model's mean: half of its requests
late is the worst case, and its standard error 0.5 over the root of their number."""
OVERLOADED = 0.999
"""Load from which on a backlog is worked off in no time that matters."""


@dataclass(frozen=True, slots=True)
class State:
    """Hosts that are away together."""

    worlds: Worlds | None
    """What is left; None where it serves nothing."""
    share: float
    """Of the time."""
    backlogs: Mapping[str, float]
    """Models that do not keep up there: how long it takes to work off what waited, over the recovery."""

    def serves(self, model: str) -> bool:
        """Whether a model has replicas there, and keeps up."""
        return self.worlds is not None and model in self.worlds.rates_rps and model not in self.backlogs


class AveragedWorlds(Worlds):
    """Replications of a deployment whose hosts fail, by their means over time; all other figures are those of hosts
    that are up."""

    def __init__(
        self,
        deployment: Deployment,
        workload: Workload,
        duration_s: float,
        warmup_s: float,
        rates_rps: Mapping[str, float],
    ) -> None:
        super().__init__(replace(deployment, failures=None), workload, duration_s, warmup_s, rates_rps)
        self.failing = deployment
        self.outages = Outages(deployment, rates_rps)

    def lasting(self, duration_s: float, warmup_s: float) -> "AveragedWorlds":
        """The same, as long as that."""
        return AveragedWorlds(self.failing, self.workload, duration_s, warmup_s, self.rates_rps)

    def seen(self, seeds: Sequence[int]) -> Iterator[WorldFigures]:
        """Replications by their figures."""
        states = [state.worlds.seen(seeds) if state.worlds else repeat(None) for state in self._states]
        for up, *others in zip(super().seen(seeds), *states, strict=False):
            yield self._averaged(up, others)

    def recorded(self, seeds: Sequence[int]) -> Iterator[tuple[WorldFigures, SimulationResult]]:
        """The same with all records of hosts that are up."""
        yield from zip(self.seen(seeds), map(self.result, seeds), strict=True)

    def shares(self, seeds: Sequence[int]) -> Shares:
        """Replications by what says whether SLOs are met."""
        up = super().shares(seeds)
        others = [state.worlds.shares(seeds) if state.worlds else None for state in self._states]
        requests = up.requests + sum(one.requests for one in others if one)
        in_time = {
            model: self._in_time(model, up.in_time[model], [_in_time_of(model, one) for one in others])
            for model in up.in_time
        }
        return Shares(in_time, up.growing, up.load, requests)

    @cached_property
    def _states(self) -> list[State]:
        """Those that are replayed; none where nobody takes over what a host is asked that is away."""
        if self.outages.is_dealt:
            return []
        return [self._state(*one) for one in self.outages.states()]

    def _state(self, away: frozenset[str], share: float) -> State:
        left = without(self.deployment, away)
        served = {one.model for one in left.services} | {one.name for one in left.pipelines}
        rates_rps = {model: rate for model, rate in self.rates_rps.items() if model in served}
        traffic = Workload(tuple(one for one in self.workload.streams if one.model in served))
        lasts_s = self.warmup_s + min(self.judged_s, self._enough_s(share))
        worlds = Worlds(left, traffic, lasts_s, self.warmup_s, rates_rps) if rates_rps else None
        return State(worlds, share, self._backlogs(left, rates_rps, traffic))

    def _backlogs(self, left: Deployment, rates_rps: Mapping[str, float], traffic: Workload) -> dict[str, float]:
        """What is left of hosts is short of a part of what comes, or of all; once all are back, they work off what
        waited as far as they have room. Of speeds that are drawn each draw says what grows; `Outages` knows what one
        host alone serves. What is dropped leaves no backlog."""
        if self.outages.drops:
            return {}
        room = 1 / min(OVERLOADED, self._load) - 1
        waiting = (model for model in self.rates_rps if model not in rates_rps and not self.outages.is_on_one(model))
        backlogs = dict.fromkeys(waiting, 1 / room)
        if rates_rps and not left.doubted and (growing := drain(left, rates_rps, traffic).growing):
            short = 1 - 1 / max(1.0, offered_load(left, rates_rps, traffic))
            backlogs |= dict.fromkeys(growing, short / room)
        return backlogs

    def _enough_s(self, share: float) -> float:
        """Time that shows enough of a state that lasts for such a share of the time. 0.5 % where 0.1 % may be late:
        2,500 requests."""
        slo_s = max(self.outages.slo_s[model] for model in self.rates_rps)
        wanted_s = LEAST_SLOS * slo_s
        for model, rate_rps in self.workload.rates_rps().items():
            may_be_late = max(LATE_MIN, 1 - self.outages.asked_share(model))
            requests = (0.5 * share / (ERROR * may_be_late)) ** 2
            wanted_s = max(wanted_s, requests / rate_rps if rate_rps else 0.0)
        return wanted_s + slo_s

    @cached_property
    def _load(self) -> float:
        return offered_load(self.deployment, self.rates_rps, self.workload)

    def in_time_at_most(self, model: str) -> float:
        """The share of a model's requests in time where no replay shows one that is late."""
        return self._in_time(model, 1.0, [1.0] * len(self._states))

    def _in_time(self, model: str, up: Value, others: Sequence[Value]) -> Value:
        """The share in time over all states. `others`: of what is left, in the order of the states."""
        outages = self.outages
        if outages.is_dealt:
            return up * (1 - outages.late_if_dealt(model))
        backlog = sum(state.share * state.backlogs.get(model, 0.0) for state in self._states)
        mean = up * max(0.0, outages.up_share - outages.late_beside(model) - backlog)
        for state, share in zip(self._states, others, strict=True):
            mean = mean + state.share * share * state.serves(model)
        return mean

    def _averaged(self, up: WorldFigures, others: Sequence[WorldFigures | None]) -> WorldFigures:
        """The figures of hosts that are up, in which states have their part."""
        models, counts = dict(up.summary.models), dict(up.latency_counts)
        for model in self.rates_rps:
            seen = [_attainment_of(model, one) for one in others]
            in_time = self._in_time(model, models[model].slo_attainment, seen)
            models[model], counts[model] = self._with_late(model, models[model], in_time, counts[model])
        return replace(
            up,
            summary=replace(up.summary, models=models),
            requests=up.requests + sum(one.requests for one in others if one),
            latency_counts=counts,
            wall_s=up.wall_s + sum(one.wall_s for one in others if one),
            in_time_up={model: up.summary.models[model].slo_attainment for model in self.rates_rps},
        )

    def _with_late(self, model: str, up: ModelMetrics, in_time: float, counts: Counts) -> tuple[ModelMetrics, Counts]:
        """Metrics and latencies with what outages make late: it is dropped, or finishes up to a recovery after it came,
        evenly spread as in a fluid that is worked off."""
        late = up.slo_attainment - in_time
        if isnan(late):
            return up, counts
        metrics = up._replace(slo_attainment=in_time, goodput_rps=up.goodput_rps * in_time / (up.slo_attainment or 1))
        if self.outages.drops:
            return metrics._replace(
                processed_fraction=up.processed_fraction - late, dropped_fraction=up.dropped_fraction + late
            ), counts
        shortest_s, longest_s = self.outages.slo_s[model], self.outages.failures.recovery_s
        mean_s = max(shortest_s, (shortest_s + longest_s) / 2)
        spread = np.clip((np.array(EDGES_S) - shortest_s) / max(longest_s - shortest_s, 1e-9), 0.0, 1.0)
        spread[-1] = 1.0
        mixed = (1 - late) * counts + late * counts.sum() * np.diff(spread)
        p50, p90, p95, p99 = (
            known * _quantile(mixed, share) / _quantile(counts, share)
            for known, share in zip((up.p50_s, up.p90_s, up.p95_s, up.p99_s), QUANTILES, strict=True)
        )
        return metrics._replace(
            mean_s=(1 - late) * up.mean_s + late * mean_s,
            mean_queueing_s=(1 - late) * up.mean_queueing_s + late * mean_s,
            p50_s=p50,
            p90_s=p90,
            p95_s=p95,
            p99_s=p99,
        ), np.rint(mixed).astype(np.int64)


def _attainment_of(model: str, seen: WorldFigures | None) -> float:
    """Of what is left of hosts: 0 where it serves a model no more, or its queue grows in a draw of speeds."""
    if seen is None or model not in seen.summary.models or model in seen.growing:
        return 0.0
    share = seen.summary.models[model].slo_attainment
    return 0.0 if isnan(share) else share


def _in_time_of(model: str, seen: Shares | None) -> Floats:
    """The same by replication."""
    if seen is None or model not in seen.in_time:
        return np.zeros(1)
    grows = np.array([model in growing for growing in seen.growing])
    return np.where(grows, 0.0, np.nan_to_num(seen.in_time[model]))


def _quantile(counts: Floats | Counts, share: float) -> float:
    """Latency below which such a share lies, evenly spread within a bin; NaN without any."""
    before = np.append(0.0, np.cumsum(counts))
    if not before[-1]:
        return nan
    return float(np.interp(share * before[-1], before, EDGES_S))
