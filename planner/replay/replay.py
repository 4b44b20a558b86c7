"""Replays: replications of one deployment, and how they are judged."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import cycle, islice, takewhile
from math import ceil, isnan, log, nan

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, ndtri, stdtrit

from planner.model.plan import Interval
from planner.model.replications import (
    REQUESTS_MAX,
    Draws,
    confidence_of,
    requests_needed,
)
from planner.model.timeline import Timeline
from planner.placing.sizing import Need
from planner.replay.stretch import ReplayLength
from simulator.clock.metrics import (
    ModelMetrics,
    Summary,
    Verdict,
    at_best,
    attainment_interval,
    confidence_interval,
    draws_interval,
    drifts,
    long_run,
    share_interval,
    without_noise,
)
from simulator.clock.worlds import Shares
from simulator.rules.latencies import Counts
from simulator.world.workload import Workload

MILE = 0.05
"""A first run that misses its target by so much more than three times the allowed misses is not repeated. One run of a
minute may be off by a few allowed misses, and by a point or two where few ask; hardly by five points besides."""
SCREENED_DRAWS = 12
"""Draws after which a screening ends."""
BY_CHANCE = 0.001
"""A screening refuses what breaks so many draws that a deployment which does would do so more seldom than that."""


GIVE_UP = 0.1
"""A look at many draws gives up what the last one accepts only if the draws seen are such as come once in ten times."""


@dataclass(frozen=True)
class WideLook:
    """Draws of speeds of which it is only counted how many break an SLO, those of the first look among them."""

    kept: NDArray[np.bool_]
    """Whether every SLO was kept, by draw: none broken, by any request that was judged."""
    judged: NDArray[np.bool_]
    """Whether any request was judged, by draw."""
    broken: Mapping[str, int]
    """By model, the draws that break its SLO."""
    silent: Mapping[str, int]
    """By model, the draws in which no request of it was judged."""
    requests: int

    @classmethod
    def of(cls, first: "Replay") -> "WideLook":
        """The draws of the first look."""
        broken = {model: kept.count(False) for model, kept in first.kept_in_draws.items()}
        silent = {model: judged.count(False) for model, judged in first.judged_in_draws.items()}
        return cls(np.array(first.kept_together), np.array(first.judged_together), broken, silent, first.requests)

    @property
    def draws(self) -> int:
        """All that were looked at."""
        return len(self.kept)

    @property
    def broken_together(self) -> int:
        """Draws that break any SLO."""
        return int(np.count_nonzero(~self.kept))

    @property
    def silent_together(self) -> int:
        """Draws in which no request was judged: they say nothing."""
        return int(np.count_nonzero(~self.judged))

    def and_more(self, first: "Replay", shares: Shares) -> "WideLook":
        """With further draws, in the long run as those of the first look tell it."""
        kept = first.kept_in(shares)
        judged = {model: ~np.isnan(shares.in_time[model]) for model in kept}
        return WideLook(
            np.concatenate([self.kept, np.logical_and.reduce(list(kept.values()))]),
            np.concatenate([self.judged, np.logical_or.reduce(list(judged.values()))]),
            {model: self.broken[model] + int(np.count_nonzero(~one)) for model, one in kept.items()},
            {model: self.silent[model] + int(np.count_nonzero(~one)) for model, one in judged.items()},
            self.requests + shares.requests,
        )

    @classmethod
    def at_best(cls, overloaded: Mapping[str, NDArray[np.bool_]], any_one: NDArray[np.bool_]) -> "WideLook":
        """Draws that were not replayed, by model and in all: what is not known to be overloaded keeps every SLO."""
        broken = {model: int(np.count_nonzero(one)) for model, one in overloaded.items()}
        return cls(~any_one, np.ones_like(any_one), broken, dict.fromkeys(overloaded, 0), 0)

    def but(self, numbers: Sequence[int], seen: Mapping[str, Sequence[bool]], requests: int = 0) -> "WideLook":
        """The same, with what the first of these draws showed of each model that was replayed."""
        kept, broken = self.kept.copy(), dict(self.broken)
        for model, of_model in seen.items():
            places = np.array(numbers[: len(of_model)])
            kept[places] &= of_model
            broken[model] += int(np.count_nonzero(self.kept[places] & ~np.array(of_model)))
        return replace(self, kept=kept, broken=broken, requests=requests)


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
    stretch: ReplayLength
    """How long each replication is."""
    looks: tuple[int, ...]
    """Numbers of replications at which the intervals may be looked at before the verdict; each look has its part of
    the 5 % risk of error."""
    draws: Draws | None = None
    """What is asked of draws of the cameras' phases; None where no phases are drawn."""
    noisy: bool = True
    """Whether something besides phases is random, so that the attainment of one draw is only estimated."""
    unseen: int = 0
    """Draws left out because so many others broke an SLO that these could not mend it. Shares of draws count them as
    if all requests were answered in time: what is kept at best. All other figures are those of the draws seen."""
    screened: bool = False
    """Whether these are a few replications to choose by, which others are to confirm."""
    overloaded: tuple[str, ...] = ()
    """Models whose queues grow without end at the full demand, by `simulator.clock.stability`; empty where speeds are
    drawn."""
    in_time_up: tuple[Mapping[str, float], ...] = ()
    """By replication and model the share in time while all hosts are up, where outages count by their mean over time;
    else empty."""
    overloads: tuple[tuple[str, ...], ...] = ()
    """Models whose queues grow without end in the world of each replication; empty where speeds are known."""
    recorded: bool = False
    """Whether some demand is a recording, whose own ups and downs are no drift."""
    latencies: tuple[Mapping[str, Counts], ...] = ()
    """Of each model, by replication where speeds are drawn, else of all together: a large fleet has a thousand models;
    empty where candidates are screened."""
    wide: WideLook | None = None
    """Where the first look at draws of speeds left it open: of which draws shares are told. All other figures are those
    of the first look."""
    clear: int = 0
    """Draws of which a short replay left no doubt."""
    at_best_only: bool = False
    """Whether of `wide` draws that were not replayed count as such that keep every SLO."""
    inferred: int = 0
    """Draws that were not replayed, for others told what they would show."""
    ranked: bool = False
    """Whether it is only set beside others: of draws of speeds the share of those seen at the first look decides."""
    hopeful: bool = False
    """Whether the first look left the verdict open, and hope, and no other followed yet."""
    first: Callable[[], Timeline] | None = None
    """Shows a window of the first replication; None where candidates are screened, or that one was left out."""

    @cached_property
    def timeline(self) -> Timeline | None:
        """A window of the first replication, which is replayed for it once more, with all its records."""
        return self.first() if self.first else None

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
    def shares(self) -> Shares:
        """What says in each draw whether SLOs are met."""
        in_time = {model: np.array([x.slo_attainment for x in self.of(model)]) for model in self.needs}
        return Shares(in_time, self.overloads, np.full(len(self.summaries), nan), self.requests)

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

    def in_time_while_up(self, model: str) -> float:
        """The mean share of a model's requests in time while all hosts are up, where outages count by their mean."""
        return mean_of(one[model] for one in self.in_time_up) if self.in_time_up else self.attainment[model].mean

    def surely_in_time(self, model: str) -> float:
        """The share of requests in time that may be asked instead: the low end; where draws decide, what the worst of
        those seen keeps."""
        if not self.draws:
            return self.attainment[model].low
        return min((x.slo_attainment for x in self.of(model) if x.judged), default=0.0)

    @cached_property
    def draws_kept(self) -> dict[str, Interval]:
        """Share of the draws of the phases in which each SLO is met in the long run; empty where none are drawn.

        Each end may be wrong with the part of the risk that one look has.
        """
        if self.wide:
            judged = {m: self.wide.draws - silent for m, silent in self.wide.silent.items()}
            return {m: self._share_of(judged[m] - broken, judged[m]) for m, broken in self.wide.broken.items()}
        return {m: self._share(kept, self.judged_in_draws[m]) for m, kept in self.kept_in_draws.items()}

    def _share(self, kept: Sequence[bool], judged: Sequence[bool]) -> Interval:
        """Share of the draws that were judged; one without a request says nothing, for or against."""
        seen = [one for one, says in zip(kept, judged, strict=True) if says]
        return self._share_of(sum(seen) + self.unseen, len(seen) + self.unseen)

    def _share_of(self, kept: int, draws: int) -> Interval:
        if not draws:
            return Interval(nan, 0.0, 1.0)
        return Interval(kept / draws, *share_interval(kept, draws, 1 - 2 * self.risk))

    @cached_property
    def all_kept(self) -> Interval | None:
        """Share of the draws in which every model with requests meets its SLO, of those in which any were judged; None
        where no phases are drawn."""
        if not self.draws:
            return None
        if self.wide:
            judged = self.wide.kept[self.wide.judged]
            return self._share_of(int(np.count_nonzero(judged)), len(judged))
        return self._share(self.kept_together, self.judged_together)

    @property
    def kept_share(self) -> float:
        """Share of the draws looked at in which every SLO is met; NaN where none are drawn."""
        return self.all_kept.mean if self.all_kept else nan

    @cached_property
    def kept_together(self) -> list[bool]:
        """Whether no SLO is broken, by draw."""
        return [all(one) for one in zip(*self.kept_in_draws.values(), strict=True)]

    @cached_property
    def judged_together(self) -> list[bool]:
        """Whether any request was judged, by draw."""
        return [any(one) for one in zip(*self.judged_in_draws.values(), strict=True)]

    @property
    def _look_that_counts(self) -> int:
        """The last, or the next where the share of the draws seen decides."""
        share_decides = self.draws is not None and not self.draws.surely
        return next(look for look in self.looks if look >= len(self.summaries)) if share_decides else self.looks[-1]

    @cached_property
    def at_best(self) -> "Replay":
        """As if in all draws up to the look that counts every request were answered in time."""
        return replace(self, unseen=self._look_that_counts - len(self.summaries))

    @cached_property
    def kept_in_draws(self) -> dict[str, list[bool]]:
        """By model and draw whether it does not break the SLO."""
        if not self.draws:
            return {}
        return {model: self._in_draws(model, need.slo.attainment) for model, need in self.needs.items()}

    @cached_property
    def judged_in_draws(self) -> dict[str, list[bool]]:
        """By model and draw whether any request was judged: one without says nothing of the SLO."""
        return {model: [bool(x.judged) for x in self.of(model)] for model in self.needs} if self.draws else {}

    def _in_draws(self, model: str, target: float) -> list[bool]:
        """Whether the SLO is not broken in each draw; nothing breaks it where no request was judged."""
        seen = self.of(model)
        settled = iter(self._settled([x for x in seen if x.judged], target))
        return [
            not x.judged or (next(settled) >= target - 1e-9 and model not in growing)
            for x, growing in zip(seen, self.overloads, strict=True)
        ]

    def _settled(self, seen: Sequence[ModelMetrics], target: float) -> list[float]:
        """What each draw comes to in the long run; where draws are left out, at best.

        Noise moves draws towards their mean, by how much only all of them tell.
        """
        fractions, errors = [x.slo_attainment for x in seen], [x.slo_attainment_error for x in seen]
        if not self.noisy:
            return fractions
        return at_best(fractions, errors, self.unseen, target) if self.unseen else long_run(fractions, errors)

    def kept_in(self, shares: Shares) -> dict[str, NDArray[np.bool_]]:
        """Whether each SLO is not broken in each of further draws, in the long run as the draws seen tell it."""
        kept = {}
        for model, need in self.needs.items():
            mean, part = self._without_noise[model]
            seen = shares.in_time[model]
            settled = mean + part * (seen - mean) if part < 1 else seen
            keeps_up = np.array([model not in growing for growing in shares.growing])
            kept[model] = np.isnan(seen) | ((settled >= need.slo.attainment - 1e-9) & keeps_up)
        return kept

    @cached_property
    def _without_noise(self) -> dict[str, tuple[float, float]]:
        if not self.noisy:
            return dict.fromkeys(self.needs, (nan, 1.0))
        known = {model: [x for x in self.of(model) if x.judged] for model in self.needs}
        return {
            model: without_noise([x.slo_attainment for x in seen], [x.slo_attainment_error for x in seen])
            for model, seen in known.items()
        }

    def _overloaded_in(self, replication: int, model: str) -> bool:
        """Whether its queues grow without end in one world, however little that showed."""
        return model in self.overloads[replication]

    @property
    def growing_unseen(self) -> list[str]:
        """Of each world that keeps every SLO as long as it is replayed, but not its queues: the first that grows."""
        targets = {model: need.slo.attainment for model, need in self.needs.items()}
        return [
            growing[0]
            for summary, growing in zip(self.summaries, self.overloads, strict=True)
            if growing and not any(summary.models[model].slo_attainment < at for model, at in targets.items())
        ]

    @cached_property
    def kept(self) -> dict[str, bool | None]:
        """Whether each SLO is met: True or False once the whole interval lies on one side.

        One of 100 % can be refuted but never proven; it counts as kept while not one request was late. Where phases are
        drawn, the share of draws decides, and the mean over them must be no lower than the SLO. Where speeds are drawn,
        only one of the draws is true, so their mean says nothing.
        """
        return {m: self._kept(m, need.slo.attainment) for m, need in self.needs.items()}

    def _kept(self, model: str, target: float) -> bool | None:
        if not self.draws:
            return _kept(self.attainment[model], target)
        if self.draws.mixed > 1:
            return self._kept_when_mixed(model, target)
        share = self.draws_kept[model]
        if not self.draws.surely:
            return self._enough(share) or (False if share.high < self.draws.share else None)
        if share.high < self.draws.share or self.attainment[model].high < target:
            return False
        return True if self._enough(share) and self._mean_low(model) >= target - 1e-9 else None

    def _enough(self, share: Interval) -> bool:
        """Whether so many draws keep an SLO as are asked, and surely so many as must; where it is only ranked, so many
        of the first. One draw alone shows nothing."""
        assert self.draws is not None
        if self.ranked and len(self.summaries) + self.unseen >= self.looks[-1] > 1:
            return share.mean >= self.draws.share
        return share.mean >= self.draws.share and share.low >= self.draws.least

    def _mean_low(self, model: str) -> float:
        """The mean over draws, or where it is only estimated, for noise, the low end of it (Student's t)."""
        fractions = [x.slo_attainment for x in self.of(model) if x.judged]
        return confidence_interval(fractions, 1 - 2 * self.risk)[1] if self.noisy else self.attainment[model].mean

    def _kept_when_mixed(self, model: str, target: float) -> bool | None:
        """Whether the mean over as many draws as come by in the period meets the SLO: by the interval for the mean of
        further draws (Student's t). One draw more, in which all is late, stands for those that were not seen."""
        assert self.draws is not None
        data = np.array([x.slo_attainment for x in self.of(model) if x.judged] + [0.0])
        if len(data) < 3:
            return None
        spread = float(np.std(data, ddof=1)) * (1 / len(data) + 1 / self.draws.mixed) ** 0.5
        sure = 1 - (1 - self.draws.share) / len(self.looks)
        half = max(0.0, float(stdtrit(len(data) - 1, sure))) * spread
        mean = float(np.mean(data))
        if mean - half >= target - 1e-9:
            return True
        return False if mean + half < target else None

    @cached_property
    def verdicts(self) -> dict[str, Verdict]:
        """Whether each model's replicas keep up."""
        return {m: self._verdict(m) for m in self.needs}

    def _verdict(self, model: str) -> Verdict:
        if model in self.overloaded:
            return Verdict.OVERLOADED
        seen = [x for i, x in enumerate(self.of(model)) if not self._overloaded_in(i, model)]
        growths = [3 * x.backlog_growth / x.arrived for x in seen if x.arrived] + [0.0] * self.unseen
        if not self.recorded and drifts(growths):
            return Verdict.BACKLOGGED
        return Verdict.STABLE

    @property
    def met(self) -> bool:
        """Whether every SLO is surely met, by replicas that keep up."""
        together = self.all_kept
        enough = together is None or self.draws is None or self.draws.mixed > 1 or self._enough(together)
        return all(self.kept.values()) and enough and self.stable

    @property
    def stable(self) -> bool:
        """Whether all replicas keep up."""
        return all(verdict is Verdict.STABLE for verdict in self.verdicts.values())

    @property
    def missed(self) -> list[str]:
        """Models whose SLO is not surely kept: those missed on the mean before others, furthest first; those that do
        not keep up among them."""
        short = [m for m, kept in self.kept.items() if not kept or self.verdicts[m] is not Verdict.STABLE]
        if not short and not self.met:  # each SLO is met in enough draws, but not all of them together
            short = list(self.needs)
        above = {m: self.attainment[m].low - self.needs[m].slo.attainment for m in short}
        return sorted(short, key=lambda m: (not self.falls_short(m), above[m], m))

    @property
    def broken(self) -> list[str]:
        """Models whose SLO was broken in some draw that was seen, those in most draws first, and those that do not keep
        up: a few draws leave every SLO unproven, so that all would count as missed."""
        times = {model: kept.count(False) for model, kept in self.kept_in_draws.items()}
        growing = [model for model in times if self.verdicts[model] is not Verdict.STABLE]
        broken = {model for model, n in times.items() if n}.union(growing)
        return sorted((model for model in times if model in broken), key=lambda model: -times[model])

    def margin(self, model: str) -> float:
        """Mean attainment over its target, below zero where missed; NaN where no request was judged. Where phases are
        drawn, also the share of draws seen that keep it over the share that is asked, whichever is less."""
        margin = self.attainment[model].mean - self.needs[model].slo.attainment
        if self.draws and self.draws.mixed == 1:
            kept = self.draws_kept[model].mean - self.draws.share
            return min(margin, kept) if self.draws.surely else kept
        return margin

    def falls_short(self, model: str) -> bool:
        """Whether a model misses its SLO on the mean; surely, where draws with requests of it are too few to tell."""
        return self.margin(model) < 0 and not (model in self.rare and self.kept[model] is None)

    @property
    def nearest_by_margin(self) -> tuple[bool, float]:
        """Whether every model had requests that were judged, and the least margin of those that had; of draws of speeds
        that were counted, that of all models together too."""
        known = [margin for m in self.needs if not isnan(margin := self.margin(m))]
        judged, least = len(known) == len(self.needs), min(known, default=-1.0)
        if known and self.wide and self.draws and self.all_kept:
            least = min(least, self.all_kept.mean - self.draws.share)
        return judged, least

    @property
    def nearest_by_shares(self) -> tuple[bool, float, tuple[float, ...]]:
        """The rule between fleets that all miss: the margin of draws where these decide, and where it
        is as small, or they do not, shares of requests in time over those of the SLOs, the worst model first."""
        judged, least = self.nearest_by_margin
        decide = self.draws is not None and self.draws.mixed == 1
        shares = [self.attainment[m].mean / need.slo.attainment for m, need in self.needs.items()]
        return judged, least if decide else 0.0, tuple(sorted(one for one in shares if not isnan(one)))

    @property
    def too_few(self) -> bool:
        """Whether some SLO could not be proven even were all its requests in time: no fleet would change that."""
        return self.too_few_with({})

    def too_few_with(self, in_time_max: Mapping[str, float]) -> bool:
        """The same, were as many in time as can be: all, or so large a share, by model."""
        if self.rare:
            return True
        if self.draws and not self.draws.surely:
            return self.looks[-1] == 1
        if self.draws:
            most = share_interval(self.looks[-1], self.looks[-1], 1 - 2 * self.risk)[0]
            return self.draws.mixed == 1 and most < self.draws.share
        more = self.looks[-1] / len(self.summaries)
        return any(
            more * sum(x.judged for x in self.of(m))
            < requests_needed(need.slo.attainment, 1 - self.risk, in_time_max.get(m, 1.0))
            for m, need in self.needs.items()
        )

    @cached_property
    def rare(self) -> list[str]:
        """Models whose requests come in so few draws that those of the last look, each keeping the SLO, would surely be
        too few to show it; the rarest first."""
        if self.draws is None or self.draws.mixed > 1 or self.screened:
            return []
        told = {model: self.told_by(model) for model in self.needs}
        return sorted((model for model in told if self._are_too_few(told[model])), key=lambda model: told[model])

    def _are_too_few(self, seen: int) -> bool:
        """Whether such draws, were they to come as often as now, would surely be too few at the last look."""
        assert self.draws is not None
        if seen == self.replayed or (self.ranked and seen):
            return False
        more = max(0, self.looks[-1] - self.replayed)
        most = seen + int(more * share_interval(seen, self.replayed, 1 - 2 * GIVE_UP)[1])
        return share_interval(most, most, 1 - 2 * self.risk)[0] < self.draws.least

    def told_by(self, model: str) -> int:
        """Draws in which requests of a model were judged."""
        if self.wide:
            return self.wide.draws - self.wide.silent[model]
        return sum(self.judged_in_draws[model]) if self.draws else len(self.summaries)

    @property
    def waits_for_requests(self) -> bool:
        """Whether all that is left open are SLOs of models whose requests come in too few draws."""
        together = self.all_kept
        if not self.rare or together is None:
            return False
        enough = self._enough(together) or self._are_too_few(self.replications)
        return enough and all(kept for model, kept in self.kept.items() if model not in self.rare)

    @property
    def lost(self) -> bool:
        """Whether so many draws broke an SLO that the look that counts could not show the share any more."""
        if not self.draws or self.draws.mixed > 1 or self.looks[-1] == 1:
            return False
        best, at_last = self.at_best, self._look_that_counts >= self.looks[-1]
        if best.unseen and not best._is_too_little(best._share(best._kept_as_seen, best.judged_together), at_last):
            return False  # at best no draw comes to less than was seen of it, and that took long to work out
        assert best.all_kept is not None
        return best._is_too_little(best.all_kept, at_last)

    def gives_up(self, look: int) -> bool:
        """Whether a look at so many draws, were no more of them to break an SLO than were seen to, leaves little hope
        that the last one accepts (`GIVE_UP`): that errs towards larger fleets alone."""
        if self.wide is None or self.draws is None:
            return False
        wide, least = self.wide, 1 - self.breaks_allowed / self.looks[-1]
        counts = [(wide.silent_together, wide.broken_together)]
        counts += [(silent, wide.broken[model]) for model, silent in wide.silent.items()]
        return any(
            share_interval(look - silent - broken, look - silent, 1 - 2 * GIVE_UP)[1] < least
            for silent, broken in counts
        )

    def refuses(self, at_best: WideLook) -> bool:
        """Whether the first look does, were just these of its draws to break an SLO."""
        if self.ranked:
            return at_best.broken_together > self.breaks_allowed
        return replace(self, wide=at_best).gives_up(at_best.draws)

    @property
    def breaks_allowed(self) -> int:
        """Draws that may break an SLO of those of the last look, where they are counted."""
        assert self.draws is not None
        last = self.looks[-1]
        as_asked = int(last * (1 - self.draws.share) + 1e-9)
        return as_asked if self.ranked else min(misses_allowed(last, self.draws.least, self.risk), as_asked)

    def is_hardly_better(self, other: "Replay") -> bool:
        """Whether it keeps too few draws, and of those in which another broke an SLO so few that, given what the other
        kept of many more, there is little hope for it (`GIVE_UP`). Equal in 160 draws, and of 640 the other kept 92 %:
        at most 93.4 %."""
        assert self.draws is not None
        mine = self.wide or WideLook.of(self)
        if other.wide is None or other.wide.draws <= mine.draws:
            return False
        judged = mine.judged & other.wide.judged[: mine.draws]
        if not judged.any():
            return False
        gained = np.count_nonzero((mine.kept & ~other.wide.kept[: mine.draws])[judged])
        gained_share = share_interval(float(gained), int(np.count_nonzero(judged)), 1 - 2 * GIVE_UP)[1]
        others_share = float(np.mean(other.wide.kept[other.wide.judged]))
        return max(float(np.mean(mine.kept[judged])), others_share + gained_share) < self.draws.share

    @property
    def replications(self) -> int:
        """All that say something: where draws decide, those in which any were judged."""
        if self.wide:
            return self.wide.draws - self.wide.silent_together
        return sum(self.judged_together) if self.draws else len(self.summaries)

    @property
    def replayed(self) -> int:
        """All that were looked at."""
        return self.wide.draws if self.wide else len(self.summaries)

    @property
    def counted(self) -> bool:
        """Whether the number of draws that break an SLO decided, of fewer or more draws than the first look has."""
        return not self.screened and (self.wide is not None or self._is_cut_short)

    @property
    def _is_cut_short(self) -> bool:
        return self.draws is not None and not self.draws.surely and len(self.summaries) < self.looks[0]

    @property
    def preliminary(self) -> bool:
        """Whether others are to confirm it before it is bought."""
        return self.screened or self.ranked or self.hopeful

    def _is_too_little(self, share: Interval, at_last: bool) -> bool:
        """Whether so many draws are fewer than are asked: surely, until the last look decides."""
        assert self.draws is not None
        if share.mean >= 1:
            return False
        if at_last or self.draws.surely:
            return not self._enough(share)
        return share.high < self.draws.share

    @property
    def _kept_as_seen(self) -> list[bool]:
        """Whether in each draw every model's share in time met its SLO, and all kept up."""
        targets = [(model, need.slo.attainment - 1e-9) for model, need in self.needs.items()]
        return [
            not growing and not any(summary.models[model].slo_attainment < target for model, target in targets)
            for summary, growing in zip(self.summaries, self.overloads, strict=True)
        ]

    @property
    def promising(self) -> bool:
        """Whether a screening leaves no doubt that is worth more than a confirmation by other seeds."""
        if not self.draws:
            return self.met
        return self.stable and not (self.short if self.draws.mixed > 1 else self.far_off)

    @property
    def looks_met(self) -> bool:
        """Whether a screening, with no confirmation to follow, speaks for it: no more draws break an SLO than may, or
        one."""
        if not self.draws or self.draws.mixed > 1:
            return self.promising
        may_break = SCREENED_DRAWS * (1 - self.draws.share)
        return self.promising and self.kept_together.count(False) <= max(1.0, may_break)

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
        """Whether some SLO is missed on the mean, as far as its draws can tell, or some model does not keep up."""
        return not self.stable or any(map(self.falls_short, self.needs))

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

    def _seldom(self, broken: int) -> bool:
        """Whether of the draws seen so many break an SLO only by a chance of `BY_CHANCE`, were the deployment one that
        the last look accepts in one case of two. Where 95 % are asked of speeds: 3 of 4, 4 of 10, 5 of 12."""
        if not broken:
            return False
        return float(betainc(broken, self.replications - broken + 1, self._may_break)) < BY_CHANCE

    @property
    def fewest_broken(self) -> int:
        """The fewest draws after which a screening may end: where each of them breaks an SLO."""
        return 1 if not self._may_break else min(SCREENED_DRAWS, ceil(log(BY_CHANCE) / log(self._may_break)))

    @property
    def _may_break(self) -> float:
        """Share of draws that may break an SLO at the last look."""
        assert self.draws is not None
        if not self.draws.surely:
            return 1 - self.draws.share
        return misses_allowed(self.looks[-1], self.draws.share, self.risk) / self.looks[-1]

    @property
    def far_off(self) -> bool:
        """Whether an SLO is missed by a mile, or more draws break one than chance has it of what would just do."""
        if self.draws and self.draws.mixed == 1:
            return self._seldom(self.kept_together.count(False))
        return any(1 - self.attainment[m].mean > 3 * (1 - need.slo.attainment) + MILE for m, need in self.needs.items())


@lru_cache
def misses_allowed(draws: int, share: float, risk: float) -> int:
    """Of so many draws, those that may break an SLO while the others prove that a share keeps it. 7 of 320: 95 %."""
    proofs = takewhile(lambda n: share_interval(draws - n, draws, 1 - 2 * risk)[0] >= share, range(draws))
    return max(proofs, default=0)


def mean_of(shares: Iterable[float]) -> float:
    """Of shares that are known."""
    known = [share for share in shares if not isnan(share)]
    return sum(known) / len(known) if known else nan


def _kept(attainment: Interval, target: float) -> bool | None:
    if attainment.low >= target or attainment.mean >= 1 <= target:
        return True
    return False if attainment.high < target else None
