"""Running: a deployment is replayed until every SLO is decided."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import pairwise, repeat
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.model.progress import Tell, silent
from planner.model.replications import draws_asked, looks_at
from planner.model.scenario import Scenario
from planner.model.timeline import Timeline
from planner.placing.sizing import Need, judged
from planner.replay.inferred import MARGIN, Told
from planner.replay.replay import SCREENED_DRAWS, Replay, WideLook
from planner.replay.stretch import CALM_LOAD, ReplayLength, clear_stretch, is_shorter, stretch
from planner.replay.timeline import timeline
from simulator.clock.metrics import Summary, accuracy
from simulator.clock.outages.averaged import AveragedWorlds
from simulator.clock.replays.drawn import FULL, DrawnSpeeds
from simulator.clock.run import check
from simulator.clock.stability import drain, offered_load
from simulator.clock.worlds import Shares, WorldFigures, Worlds
from simulator.world.deployment import Deployment
from simulator.world.doubt import STRATA
from simulator.world.workload import Workload

PLANNING = 0x5EED << 32
"""Seed of every plan, whatever the scenario's: what is bought must not depend on it. Larger than any other seed."""
SCREENED = 3
"""Replications after which a screening that surely meets every SLO ends: a confirmation by other seeds follows."""
AHEAD = 4
"""Draws of a screening that are replayed side by side, though the first of them may end it."""
LOST_EVERY = 8
"""Replications after which it is seen whether so many draws broke an SLO that the rest need not be replayed."""
COUNTED_AT_ONCE = 64
"""Draws of speeds of which it is only counted how many keep every SLO, side by side."""
NEAR = 0.5
"""Part of the draws that may break an SLO from which on the first look's are worth counting those of the last."""
FEW = 0.05
"""Part of the requests that may be late which leaves no doubt after a short replay."""


@lru_cache(maxsize=4096)
def seed_of(seed: int, stage: int, replication: int) -> int:
    """Seed of one replication. Stage 0 chooses a plan, stage 1 confirms it; no two scenario seeds share any."""
    return int(np.random.SeedSequence((seed, stage, replication)).generate_state(1, np.uint64)[0])


def seeds_of(seed: int, stage: int, doubted: bool) -> Callable[[int], int]:
    """The seed of each replication by its number: one after the other where speeds are drawn, which spreads them evenly
    (`simulator.world.doubt`)."""
    if not doubted:
        return partial(seed_of, seed, stage)
    first = seed_of(seed, stage, 0) // STRATA * STRATA
    return lambda number: first + number


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
    tell: Tell = silent,
    verdict_only: bool = False,
    ranked: bool = False,
    hopeful: bool = False,
    missed: Sequence[Replay] = (),
    begun: Replay | None = None,
    averaged: bool = True,
) -> Replay:
    """Replicate until every SLO is decided: `scenario.replications` times at least and 40 times at most, or more where
    each replication is one draw of the cameras' phases.

    Once only where nothing is random: equal replications are no evidence. Replication i of every deployment meets the
    same arrivals. `screen`: a candidate is given up after one that misses by a mile, once an SLO is missed on the mean,
    where 40 would not decide, or where more draws break an SLO than chance has it of one that does; one that keeps all
    after a few is left to its confirmation. Otherwise the seeds are others than those of any screening, and the verdict
    falls at one of a few looks, whose intervals are wider for it (Bonferroni): at the first that leaves no doubt.
    `tell` hears how many are done, and how many there may be.
    Draws of speeds are replayed for a short time first, and whole where that leaves doubt (`ShortLook`). Where a
    verdict counts them, later looks are at many more draws, of which it is only counted how many keep every SLO.
    `verdict_only`: what surely is refused is given up after a few, by how busy its GPUs are in each draw, and what
    breaks an SLO in more of the first few than chance has it.
    `ranked`: it is only set beside others, by what the first look sees. `hopeful`: the first look is also the last
    where it leaves hope. `missed`: replays of other deployments in the
    same draws; what keeps hardly any draw more than one that missed in more is given up.
    `averaged`: outages of hosts that fail count by their mean over time; else as the clock brings them.
    """
    failing, averaged = deployment, averaged and deployment.failures is not None
    if averaged:
        deployment = replace(deployment, failures=None)
    so_far = _not_begun(scenario, workload, needs, deployment, screen=screen)
    stretched = so_far.stretch
    check(deployment, workload)
    worlds_of = AveragedWorlds if averaged else Worlds
    worlds = worlds_of(failing, workload, stretched.horizon_s, stretched.warmup_s, so_far.rates_rps(1.0))
    seed_at = seeds_of(seed, 0 if screen else 1, deployment.doubted)
    clear = clear_stretch(scenario, workload, needs, deployment, stretched) if deployment.doubted else None
    short = ShortLook.of(worlds, so_far.needs, clear) if clear and is_shorter(scenario, clear, stretched) else None
    speeds = DrawnSpeeds(deployment, worlds.rates_rps)
    tells = clear and clear.horizon_s <= stretched.horizon_s and not screen
    draws = Replications(scenario, worlds, seed_at, short, Told.of(speeds, so_far.needs) if tells else None)
    if not _is_counted(so_far):
        return _in_turn(so_far, draws, so_far.looks[-1], tell)
    if ranked:
        so_far = replace(so_far, looks=so_far.looks[:1], ranked=True)
    if begun:
        return _looked_wider(replace(begun, hopeful=False), draws, tell, missed)
    if verdict_only and speeds.are_known and (refused := _refused_early(so_far, draws, speeds)):
        return refused
    tell_first = partial(_tell_of, tell, so_far.looks[0]) if hopeful else tell
    first = _in_turn(so_far, draws, so_far.looks[0], tell_first, verdict_only, missed)
    if len(first.summaries) < first.looks[0] or first.decided or first.lost:
        return first
    if hopeful and not replace(first, wide=WideLook.of(first)).gives_up(first.looks[0]):
        return replace(first, hopeful=True)
    return _looked_wider(first, draws, tell, missed)


class Replication(NamedTuple):
    """What one showed."""

    figures: WorldFigures
    answered: Mapping[str, float]
    """Accuracy of each model where a lost frame is wrong."""
    reused: tuple[Mapping[str, float], ...]
    """The same where it reuses the last answer; none where nobody says how long that holds."""
    clear: bool
    """Whether a short replay left no doubt, and is what was seen."""


@dataclass(frozen=True, slots=True)
class ShortLook:
    """Short replays of draws of speeds: most show clearly that they keep every SLO, some that they do not."""

    worlds: Worlds
    clear_shares: Mapping[str, float]
    """By model, of requests in time that leave no doubt: nearly as many as can be, and more than must."""
    missed_shares: Mapping[str, float]
    """By model, of requests in time below which there is none either."""

    @classmethod
    def of(cls, worlds: Worlds, needs: Mapping[str, Need], length: ReplayLength) -> "ShortLook":
        """At worlds that are replayed so long only."""
        may_miss = {model: 1 - need.slo.attainment for model, need in needs.items()}
        clear_shares = {
            model: max(worlds.in_time_at_most(model), needs[model].slo.attainment + 2 * FEW * share) - FEW * share
            for model, share in may_miss.items()
        }
        missed_shares = {model: 1 - MARGIN * share for model, share in may_miss.items()}
        return cls(worlds.lasting(length.horizon_s, length.warmup_s), clear_shares, missed_shares)

    def is_clear(self, load: NDArray[np.float64], in_time: Mapping[str, NDArray[np.float64]]) -> NDArray[np.bool_]:
        """Whether a draw leaves no doubt: queues are calm, and hardly any request is late; or an SLO is missed by far.
        By draw the load, and of each model the share of requests in time."""
        kept: NDArray[np.bool_] = load <= CALM_LOAD
        missed = np.zeros(len(load), dtype=bool)
        for model, share in self.clear_shares.items():
            kept &= in_time[model] >= share
            missed |= in_time[model] < self.missed_shares[model]
        return kept | missed


class Replications:
    """Replications of one deployment by number."""

    def __init__(
        self,
        scenario: Scenario,
        worlds: Worlds,
        seed_at: Callable[[int], int],
        short: ShortLook | None,
        told: Told | None,
    ) -> None:
        self.worlds, self.seed_at, self.short, self.told = worlds, seed_at, short, told
        self.clear = 0
        """Those of `shares` of which a short replay left no doubt."""
        self.beforehand: dict[int, Replication] = {}
        """By number, those that were replayed before their turn."""
        self.accuracy = {spec.name: spec.accuracy for spec in scenario.asked}
        self.half_life_s = scenario.accuracy.half_life

    def in_turn(self, ends: Sequence[int]) -> Iterator[Replication]:
        """One after another, side by side up to each end."""
        for begin, end in pairwise(ends):
            others = self._replayed([self.seed_at(n) for n in range(begin, end) if n not in self.beforehand])
            for number in range(begin, end):
                yield self.beforehand.pop(number) if number in self.beforehand else next(others)

    def ahead(self, numbers: Sequence[int]) -> list[Replication]:
        """Those of some numbers, kept for their turn."""
        found = list(self._replayed(list(map(self.seed_at, numbers))))
        self.beforehand |= zip(numbers, found, strict=True)
        return found

    def shares(self, begin: int, end: int) -> Shares:
        """Of some numbers, what says whether SLOs are met; as others tell it, else replayed."""
        seeds = self.seeds(begin, end)
        return self.told.shares(seeds, self._shares) if self.told else self._shares(seeds)

    def _shares(self, seeds: Sequence[int]) -> Shares:
        """The same replayed: whole where a short look leaves it open. Queues that grow leave nothing open."""
        if self.short is None:
            return self.worlds.shares(seeds)
        found = self.short.worlds.shares(seeds)
        clear = self.short.is_clear(found.load, found.in_time)
        is_open = np.flatnonzero(~clear & np.array([not one for one in found.growing]))
        self.clear += len(seeds) - len(is_open)
        if not len(is_open):
            return found
        return found.with_others(is_open, self.worlds.shares([seeds[i] for i in is_open.tolist()]))

    def seeds(self, begin: int, end: int) -> list[int]:
        """Those of some numbers."""
        return list(map(self.seed_at, range(begin, end)))

    def _replayed(self, seeds: Sequence[int]) -> Iterator[Replication]:
        if self.half_life_s is None:
            for figures, clear in self._seen(seeds):
                yield Replication(figures, self._answered(figures), (), clear)
            return
        for figures, result in self.worlds.recorded(seeds):
            reused = accuracy(result, self.accuracy, self.half_life_s, self.worlds.warmup_s)
            reused = {model: share * _up_part(figures, model) for model, share in reused.items()}
            yield Replication(figures, self._answered(figures), (reused,), clear=False)

    def _seen(self, seeds: Sequence[int]) -> Iterator[tuple[WorldFigures, bool]]:
        """Figures of whole replays, but of a short one where that leaves no doubt; whether it does."""
        if self.short is None:
            yield from zip(self.worlds.seen(seeds), repeat(False))
            return
        found = list(self.short.worlds.seen(seeds))
        metrics = [figures.summary.models for figures in found]
        in_time = {m: np.array([one[m].slo_attainment for one in metrics]) for m in self.short.clear_shares}
        clear = self.short.is_clear(np.array([figures.load for figures in found]), in_time)
        whole = self.worlds.seen([seed for seed, is_clear in zip(seeds, clear, strict=True) if not is_clear])
        for figures, is_clear in zip(found, clear.tolist(), strict=True):
            yield self._as_long(figures) if is_clear else next(whole), is_clear

    def _as_long(self, figures: WorldFigures) -> WorldFigures:
        """Those of a short replay with as many latencies as a whole one would have brought: in a histogram of several
        replications each counts alike."""
        assert self.short is not None
        longer = self.worlds.judged_s / self.short.worlds.judged_s
        counts = {m: np.rint(longer * one).astype(np.int64) for m, one in figures.latency_counts.items()}
        return replace(figures, latency_counts=counts)

    def _answered(self, figures: WorldFigures) -> dict[str, float]:
        return {model: share * figures.summary.models[model].slo_attainment for model, share in self.accuracy.items()}


def _up_part(figures: WorldFigures, model: str) -> float:
    """The share in time over that of hosts that are up: an outage lasts so long that no result can be reused."""
    up = figures.in_time_up.get(model)
    return figures.summary.models[model].slo_attainment / up if up else 1.0


def _is_counted(so_far: Replay) -> bool:
    """Whether draws of speeds are counted that keep every SLO."""
    return so_far.draws is not None and not so_far.draws.surely and not so_far.screened


def _in_turn(
    so_far: Replay,
    draws: Replications,
    most: int,
    tell: Tell,
    verdict_only: bool = False,
    missed: Sequence[Replay] = (),
) -> Replay:
    """So many replications at most, until more are not worth their time."""
    ends = _ends(so_far, most)
    for one in draws.in_turn(ends):
        so_far = _with_one_more(so_far, one)
        count = len(so_far.summaries)
        if count == 1 and not so_far.screened:
            worlds, first_seed = draws.worlds.apart, draws.seed_at(0)
            so_far = replace(so_far, first=partial(_window, worlds, first_seed, one.figures.summary))
        if count in ends:
            tell(count, SCREENED_DRAWS if so_far.screened and so_far.draws else so_far.looks[-1])
        if _is_enough(so_far):
            break
        if verdict_only and count % LOST_EVERY == 0 and so_far.far_off:
            break
        if 2 * count == most and any(map(so_far.is_hardly_better, missed)):
            break
    return so_far


def _tell_of(tell: Tell, most: int, done: int, _: int) -> None:
    """Tell of so many at most."""
    tell(done, most)


def _refused_early(so_far: Replay, draws: Replications, speeds: DrawnSpeeds) -> Replay | None:
    """A few replications of what the first look would surely refuse; else None.

    In too many draws of the last look some GPU has more to compute than time; or of the draws of the first look these,
    and of the others those in which GPUs are busiest, are too many that break an SLO. Draws that were not replayed
    count as such that keep every SLO, but for those that are overloaded.
    """
    first, last = so_far.looks[0], so_far.looks[-1]
    busy = speeds.busy(draws.seeds(0, first))
    broken = WideLook.at_best(speeds.overloaded(busy), busy.max(axis=1) > FULL)
    if broken.broken_together > NEAR * so_far.breaks_allowed * first / last:
        busy_of_last = speeds.busy(draws.seeds(0, last))
        of_last = WideLook.at_best(speeds.overloaded(busy_of_last), busy_of_last.max(axis=1) > FULL)
        if of_last.broken_together > so_far.breaks_allowed:
            return _few(so_far, draws, of_last)
    hard = so_far
    hardest = [number for number in np.argsort(-busy.max(axis=1), kind="stable").tolist() if broken.kept[number]]
    for at in range(0, len(hardest), LOST_EVERY):
        for one in draws.ahead(hardest[at : at + LOST_EVERY]):
            hard = _with_one_more(hard, one)
        if hard.refuses(seen := broken.but(hardest, hard.at_best.kept_in_draws)):
            return _few(so_far, draws, seen)
        if 2 * hard.kept_together[-LOST_EVERY:].count(False) < LOST_EVERY:
            break
    return None


def _few(so_far: Replay, draws: Replications, at_best: WideLook) -> Replay:
    """The first replications, for their figures, and what all draws show at best."""
    few = _in_turn(so_far, draws, min(so_far.looks[0], LOST_EVERY), silent)
    numbers = range(len(few.summaries))
    return replace(few, wide=at_best.but(numbers, few.kept_in_draws, few.requests), at_best_only=True)


def _looked_wider(first: Replay, draws: Replications, tell: Tell, missed: Sequence[Replay]) -> Replay:
    """The first look at draws of speeds, and others at more and more draws until they decide.

    A look ends where it will give the fleet up whatever the rest of its draws show.
    """
    so_far = replace(first, wide=WideLook.of(first))
    if draws.told:
        draws.told.learn(draws.seeds(0, first.replayed), first.shares)
        draws.told = None if draws.told.contradicted else draws.told
    for look in first.looks:
        while so_far.replayed < look and not so_far.gives_up(look):
            if any(map(so_far.is_hardly_better, missed)):
                return so_far
            so_far = _with_more_draws(so_far, first, draws, look)
            tell(so_far.replayed, first.looks[-1])
            if draws.told and draws.told.contradicted:
                draws.told, draws.clear = None, 0
                return _looked_wider(first, draws, tell, missed)
        if so_far.decided or so_far.gives_up(look) or so_far.waits_for_requests:
            break
    return so_far


def _with_more_draws(so_far: Replay, first: Replay, draws: Replications, look: int) -> Replay:
    """A wide look that goes a little further, to a look at most."""
    assert so_far.wide is not None
    seen = so_far.replayed
    shares = draws.shares(seen, min(look, seen + COUNTED_AT_ONCE))
    wide = so_far.wide.and_more(first, shares)
    inferred = draws.told.inferred if draws.told else 0
    return replace(first, wide=wide, requests=wide.requests, clear=first.clear + draws.clear, inferred=inferred)


def _ends(so_far: Replay, most: int) -> list[int]:
    """Where replications that are replayed side by side begin and end."""
    ends = {*range(LOST_EVERY, most, LOST_EVERY), most, *so_far.looks}
    if so_far.screened:
        first = so_far.fewest_broken if so_far.draws else 1
        ends |= {first, *range(first, SCREENED_DRAWS, AHEAD), SCREENED_DRAWS}
    return [0, *sorted(end for end in ends if end <= most)]


def _is_enough(so_far: Replay) -> bool:
    """Whether more replications are not worth their time."""
    if (len(so_far.summaries) % LOST_EVERY == 0 and so_far.lost) or (so_far.screened and _screened(so_far)):
        return True
    if len(so_far.summaries) not in so_far.looks:
        return False
    return so_far.decided or so_far.lost or (so_far.screened and (so_far.short or so_far.undecidable))


def _not_begun(
    scenario: Scenario, workload: Workload, needs: Mapping[str, Need], deployment: Deployment, *, screen: bool
) -> Replay:
    """What is known before the first replication: how long each is, how many there may be, and what is overloaded.

    Where speeds are drawn, each world says which of its queues grow (`Replay.overloads`), and their share decides.
    """
    asked = judged(needs)
    rates_rps = {model: need.needed_rps for model, need in asked.items()}
    load = 0.0 if screen else measured_load(deployment, rates_rps, workload)
    length = stretch(scenario, workload, needs, deployment, load)
    doubted = deployment.doubted
    fixed = workload.is_fixed(length.horizon_s) and deployment.is_fixed and not doubted
    only_draws = workload.is_fixed_but_for_phases(length.horizon_s) and deployment.is_fixed
    return Replay(
        needs=asked,
        summaries=(),
        lost_is_wrong=(),
        reuse_last=(),
        requests=0,
        wall_s=0.0,
        stretch=length,
        looks=looks_at(scenario, workload, fixed, doubted),
        draws=draws_asked(scenario, workload, doubted),
        noisy=not (fixed or only_draws),
        screened=screen,
        overloaded=drain(deployment, rates_rps, workload).growing if load > CALM_LOAD and not doubted else (),
        recorded=workload.longest_recording_s > 0,
    )


def _window(worlds: Worlds, seed: int, seen: Summary) -> Timeline:
    """What the first replication looked like."""
    return timeline(worlds.result(seed), seen, worlds.warmup_s)


def _with_one_more(so_far: Replay, one: Replication) -> Replay:
    """The replications so far and one more."""
    seen = one.figures
    more = replace(
        so_far,
        overloads=(*so_far.overloads, seen.growing),
        summaries=(*so_far.summaries, seen.summary),
        lost_is_wrong=(*so_far.lost_is_wrong, one.answered),
        reuse_last=(*so_far.reuse_last, *one.reused),
        requests=so_far.requests + seen.requests,
        wall_s=so_far.wall_s + seen.wall_s,
        clear=so_far.clear + one.clear,
        in_time_up=(*so_far.in_time_up, seen.in_time_up) if seen.in_time_up else (),
    )
    if so_far.screened:
        return more
    if so_far.draws and not so_far.draws.surely:  # a part of them may be what is shown
        return replace(more, latencies=(*so_far.latencies, seen.latency_counts))
    before = so_far.latencies[0] if so_far.latencies else dict.fromkeys(seen.latency_counts, 0)
    return replace(more, latencies=({m: before[m] + counts for m, counts in seen.latency_counts.items()},))


def _screened(so_far: Replay) -> bool:
    """Whether a screening has seen enough: a miss by a mile, or a few replications without one."""
    count = len(so_far.summaries)
    if so_far.far_off and (count == 1 or so_far.draws):
        return True
    return count == SCREENED_DRAWS if so_far.draws else count == SCREENED and so_far.met
