"""Running: a deployment is replayed until every SLO is decided."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial, reduce
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from planner.model.replications import draws_asked, looks_at
from planner.model.scenario import Scenario
from planner.model.timeline import Timeline
from planner.placing.sizing import Need, judged
from planner.replay.hardest import Strain, given_up, in_order, wide_look
from planner.replay.replay import SCREENED_DRAWS, Replay
from planner.replay.stretch import stretch
from planner.replay.timeline import timeline
from simulator.clock.metrics import Summary, accuracy
from simulator.clock.run import check
from simulator.clock.stability import drain, offered_load
from simulator.clock.worlds import WorldFigures, Worlds
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
CALM_LOAD = 0.8
"""Load up to which queues forget so soon that it does not matter what it is."""


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
    tell: Callable[[float], None] = lambda _: None,
    verdict_only: bool = False,
    ranked: bool = False,
) -> Replay:
    """Replicate until every SLO is decided: `scenario.replications` times at least and 40 times at most, or more where
    each replication is one draw of the cameras' phases.

    Once only where nothing is random: equal replications are no evidence. Replication i of every deployment meets the
    same arrivals. `screen`: a candidate is given up after one that misses by a mile, once an SLO is missed on the mean,
    where 40 would not decide, or where more draws break an SLO than chance has it of one that does; one that keeps all
    after a few is left to its confirmation. Otherwise the seeds are others than those of any screening, and the verdict
    falls at one of a few looks, whose intervals are wider for it (Bonferroni): at the first that leaves no doubt.
    `tell` hears how much of the way to the next look is done.
    Where a verdict counts draws of speeds, the first look is at all of its draws, and others at the hardest of many
    more (`planner.replay.hardest`). `verdict_only`: those in which models are strained most come first in both, so that
    a deployment that keeps too few is given up soon. Its figures then are what it keeps at best. `ranked`: it is only
    set beside others, by what the first look sees.
    """
    so_far = _not_begun(scenario, workload, needs, deployment, screen=screen)
    stretched = so_far.stretch
    check(deployment, workload)
    worlds = Worlds(deployment, workload, stretched.horizon_s, stretched.warmup_s, so_far.rates_rps(1.0))
    seed_at = seeds_of(seed, 0 if screen else 1, deployment.doubted)
    draws = Replications(scenario, worlds, seed_at, stretched.warmup_s, kept=_is_counted(so_far))
    if not _is_counted(so_far):
        return _in_turn(so_far, draws, range(so_far.looks[-1]), tell)
    if ranked:
        so_far = replace(so_far, looks=so_far.looks[:1], ranked=True)
    return _counted(so_far, draws, tell, verdict_only)


class Replication(NamedTuple):
    """What one showed."""

    figures: WorldFigures
    answered: Mapping[str, float]
    """Accuracy of each model where a lost frame is wrong."""
    reused: tuple[Mapping[str, float], ...]
    """The same where it reuses the last answer; none where nobody says how long that holds."""


class Replications:
    """Replications of one deployment by number, each replayed once where they are `kept`."""

    def __init__(
        self, scenario: Scenario, worlds: Worlds, seed_at: Callable[[int], int], warmup_s: float, kept: bool
    ) -> None:
        self.worlds, self.seed_at, self.warmup_s = worlds, seed_at, warmup_s
        self.kept = kept
        self.accuracy = {spec.name: spec.accuracy for spec in scenario.asked}
        self.half_life_s = scenario.accuracy.half_life
        self.known: dict[int, Replication] = {}

    def in_turn(self, numbers: Sequence[int], ends: Sequence[int]) -> Iterator[tuple[int, Replication]]:
        """All of some numbers, side by side up to each end."""
        for begin, end in pairwise(ends):
            yield from zip(numbers[begin:end], self.seen(numbers[begin:end]), strict=True)

    @cached_property
    def strain(self) -> Strain:
        """By which the hardest are known."""
        return Strain(self.worlds.deployment, self.worlds.rates_rps)

    def hardest_first(self, most: int) -> list[int]:
        """The numbers of so many, those first in whose worlds a model is strained most."""
        return self.strain.hardest_first([self.seed_at(number) for number in range(most)])

    @property
    def requests(self) -> int:
        """All that came."""
        return sum(one.figures.requests for one in self.known.values())

    def figures(self, numbers: Sequence[int], tell: Callable[[], None]) -> list[WorldFigures]:
        """The figures of some numbers, replayed side by side; `tell` hears of each."""
        found = []
        for one in self.seen(numbers):
            found.append(one.figures)
            tell()
        return found

    def seen(self, numbers: Sequence[int]) -> Iterator[Replication]:
        """Those of some numbers, replayed side by side."""
        if not self.kept:
            yield from self._replayed([self.seed_at(number) for number in numbers])
            return
        missing = [number for number in numbers if number not in self.known]
        found = zip(missing, self._replayed([self.seed_at(number) for number in missing]), strict=True)
        for number in numbers:
            while number not in self.known:
                other, one = next(found)
                self.known[other] = one
            yield self.known[number]

    def _replayed(self, seeds: Sequence[int]) -> Iterator[Replication]:
        if self.half_life_s is None:
            for figures in self.worlds.seen(seeds):
                yield Replication(figures, self._answered(figures), ())
            return
        for seed in seeds:
            result = self.worlds.result(seed)
            figures = self.worlds.figures(result)
            reused = accuracy(result, self.accuracy, self.half_life_s, self.warmup_s)
            yield Replication(figures, self._answered(figures), (reused,))

    def _answered(self, figures: WorldFigures) -> dict[str, float]:
        return {model: share * figures.summary.models[model].slo_attainment for model, share in self.accuracy.items()}


@dataclass
class LookProgress:
    """Counts the draws of a look, of which `tell` hears the share that is done: the look may end before all are."""

    draws: int
    tell: Callable[[float], None]
    done: int = 0

    def __call__(self) -> None:
        """One more."""
        self.done += 1
        self.tell(self.done / self.draws)


def _is_counted(so_far: Replay) -> bool:
    """Whether draws of speeds are counted that keep every SLO."""
    return so_far.draws is not None and not so_far.draws.surely and not so_far.screened


def _in_turn(so_far: Replay, draws: Replications, numbers: Sequence[int], tell: Callable[[float], None]) -> Replay:
    """Replications of these numbers, until more are not worth their time."""
    for number, one in draws.in_turn(numbers, _ends(so_far, len(numbers))):
        so_far = _with_one_more(so_far, one)
        if not (so_far.screened or number):
            worlds, first_seed = draws.worlds.apart, draws.seed_at(0)
            so_far = replace(so_far, first=partial(_window, worlds, first_seed, one.figures.summary))
        count = len(so_far.summaries)
        tell(count / next(look for look in so_far.looks if look >= count))
        if _is_enough(so_far):
            break
    return so_far


def _counted(so_far: Replay, draws: Replications, tell: Callable[[float], None], verdict_only: bool) -> Replay:
    """All draws of the first look, and others at the hardest of more where those leave the verdict open."""
    numbers: Sequence[int] = range(so_far.looks[0])
    if verdict_only:
        numbers = draws.hardest_first(len(numbers))
        if lost := _given_up(so_far, draws, numbers, tell):
            return lost
    seen = _in_turn(so_far, draws, numbers, tell)
    ordered = in_order(seen, numbers)
    if seen.lost:
        return ordered.at_best if verdict_only else ordered
    return ordered if ordered.decided else _looked_wider(ordered, draws, tell, verdict_only)


def _given_up(
    so_far: Replay, draws: Replications, order: Sequence[int], tell: Callable[[float], None]
) -> Replay | None:
    """The hardest draws of the first look, if they show that too few of all keep the SLOs: tried as long as half of
    every few break one. None where they do not show it."""
    for end in range(LOST_EVERY, len(order) + LOST_EVERY, LOST_EVERY):
        few = order[end - LOST_EVERY : end]
        so_far = reduce(_with_one_more, draws.seen(few), so_far)
        tell(end / len(order))
        if lost := given_up(so_far, order[:end]):
            return lost
        if 2 * so_far.kept_together[-len(few) :].count(False) < len(few):
            return None
    return None


def _looked_wider(first: Replay, draws: Replications, tell: Callable[[float], None], verdict_only: bool) -> Replay:
    """The first look at draws of speeds, and others at the hardest of more and more draws until they decide."""
    so_far = first
    for look in first.looks[1:]:
        replayed = partial(draws.figures, tell=LookProgress(look, tell))
        wide = wide_look(first, draws.hardest_first(look), replayed, verdict_only=verdict_only)
        so_far = replace(first, wide=replace(wide, replayed=len(draws.known)), requests=draws.requests)
        if so_far.decided or wide.at_best:
            break
    return so_far


def _ends(so_far: Replay, most: int) -> list[int]:
    """Where replications that are replayed side by side begin and end."""
    ends = {*range(LOST_EVERY, most, LOST_EVERY), *so_far.looks}
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
