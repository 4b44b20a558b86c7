"""Running: a deployment is replayed until every SLO is decided."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import pairwise

import numpy as np

from planner.model.replications import (
    draws_asked,
    looks_at,
)
from planner.model.scenario import Scenario
from planner.model.timeline import Timeline
from planner.placing.sizing import Need, judged
from planner.replay.hardest import HardestDraws, in_order
from planner.replay.replay import SCREENED_DRAWS, Replay
from planner.replay.stretch import stretch
from planner.replay.timeline import timeline
from simulator.clock.metrics import Summary, accuracy
from simulator.clock.records import SimulationResult
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
    hardest: HardestDraws | None = None,
) -> Replay:
    """Replicate until every SLO is decided: `scenario.replications` times at least and 40 times at most, or more where
    each replication is one draw of the cameras' phases.

    Once only where nothing is random: equal replications are no evidence. Replication i of every deployment meets the
    same arrivals. `screen`: a candidate is given up after one that misses by a mile, once an SLO is missed on the mean,
    where 40 would not decide, or where more draws break an SLO than chance has it of one that does; one that keeps all
    after a few is left to its confirmation. Otherwise the seeds are others than those of any screening, and the verdict
    falls at one of a few looks, whose intervals are wider for it (Bonferroni): at the first that leaves no doubt.
    `tell` hears how much of the way to the next look is done.
    `hardest`: what other deployments showed of the draws. Where a verdict counts draws of speeds, those that break SLOs
    come first, so that a deployment that keeps too few is given up soon. Its figures then are what it keeps at best.
    """
    so_far = _not_begun(scenario, workload, needs, deployment, screen=screen)
    looks, horizon_s = so_far.looks, so_far.stretch.horizon_s
    seed_at = seeds_of(seed, 0 if screen else 1, deployment.doubted)
    check(deployment, workload)
    worlds = Worlds(deployment, workload, horizon_s, so_far.stretch.warmup_s, so_far.rates_rps(1.0))
    counted = so_far.draws is not None and not so_far.draws.surely and not screen
    by_hardness = hardest if counted else None
    numbers = by_hardness.order(looks) if by_hardness else range(looks[-1])
    seeds = [seed_at(number) for number in numbers]
    with_records = scenario.accuracy.half_life is not None
    for number, result, seen in _seen(so_far, worlds, numbers, seeds, with_records=with_records):
        so_far = _with_one_more(so_far, seen, result, scenario)
        if not (screen or number):
            so_far = replace(so_far, first=partial(_window, worlds.apart, seed_at(0), seen.summary))
        count = len(so_far.summaries)
        tell(count / next(look for look in looks if look >= count))
        if _is_enough(so_far, screen=screen):
            break
    return _learnt_from(so_far, by_hardness, numbers) if by_hardness else so_far


def _seen(
    so_far: Replay, worlds: Worlds, numbers: Sequence[int], seeds: Sequence[int], *, with_records: bool
) -> Iterator[tuple[int, SimulationResult | None, WorldFigures]]:
    """What replications show, one after another: their numbers, their records where these are needed, and their
    figures. As many are replayed side by side as are looked at together, or nearly so."""
    for begin, end in pairwise(_ends(so_far, len(numbers))):
        if with_records:
            results = map(worlds.result, seeds[begin:end])
            every = zip(numbers[begin:end], results, strict=True)
            yield from ((number, one, worlds.figures(one)) for number, one in every)
        else:
            seen = worlds.seen(seeds[begin:end])
            yield from ((number, None, figures) for number, figures in zip(numbers[begin:end], seen, strict=True))


def _ends(so_far: Replay, most: int) -> list[int]:
    """Where replications that are replayed side by side begin and end."""
    ends = {*range(LOST_EVERY, most, LOST_EVERY), *so_far.looks}
    if so_far.screened:
        first = so_far.fewest_broken if so_far.draws else 1
        ends |= {first, *range(first, SCREENED_DRAWS, AHEAD), SCREENED_DRAWS}
    return [0, *sorted(end for end in ends if end <= most)]


def _learnt_from(seen: Replay, hardest: HardestDraws, numbers: Sequence[int]) -> Replay:
    """The replay with its draws in order, after they were learnt from."""
    hardest.learn(seen, numbers)
    ordered = in_order(seen, numbers)
    return ordered.at_best if seen.lost else ordered


def _is_enough(so_far: Replay, *, screen: bool) -> bool:
    """Whether more replications are not worth their time."""
    if (len(so_far.summaries) % LOST_EVERY == 0 and so_far.lost) or (screen and _screened(so_far)):
        return True
    if len(so_far.summaries) not in so_far.looks:
        return False
    return so_far.decided or so_far.lost or (screen and (so_far.short or so_far.undecidable))


def _not_begun(
    scenario: Scenario, workload: Workload, needs: Mapping[str, Need], deployment: Deployment, *, screen: bool
) -> Replay:
    """What is known before the first replication: how long each is, how many there may be, and what is overloaded."""
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
        overloaded=drain(deployment, rates_rps, workload).growing if load > CALM_LOAD else (),
        recorded=workload.longest_recording_s > 0,
    )


def _window(worlds: Worlds, seed: int, seen: Summary) -> Timeline:
    """What the first replication looked like."""
    return timeline(worlds.result(seed), seen, worlds.warmup_s)


def _with_one_more(so_far: Replay, seen: WorldFigures, result: SimulationResult | None, scenario: Scenario) -> Replay:
    """The replications so far and one more."""
    base = {spec.name: spec.accuracy for spec in scenario.asked}
    half_life_s, early_s = scenario.accuracy.half_life, so_far.stretch.warmup_s
    answered = {model: base[model] * seen.summary.models[model].slo_attainment for model in base}
    reused = _reused(result, base, half_life_s, early_s)
    more = replace(
        so_far,
        overloads=(*so_far.overloads, seen.growing),
        summaries=(*so_far.summaries, seen.summary),
        lost_is_wrong=(*so_far.lost_is_wrong, answered),
        reuse_last=(*so_far.reuse_last, *reused),
        requests=so_far.requests + seen.requests,
        wall_s=so_far.wall_s + seen.wall_s,
    )
    if so_far.screened:
        return more
    return replace(more, latencies=(*so_far.latencies, seen.latency_counts))


def _reused(
    result: SimulationResult | None, base: Mapping[str, float], half_life_s: float | None, early_s: float
) -> tuple[Mapping[str, float], ...]:
    """Accuracy of each model where a lost frame reuses the last answer; none where nobody says how long that holds."""
    return () if result is None or half_life_s is None else (accuracy(result, base, half_life_s, early_s),)


def _screened(so_far: Replay) -> bool:
    """Whether a screening has seen enough: a miss by a mile, or a few replications without one."""
    count = len(so_far.summaries)
    if so_far.far_off and (count == 1 or so_far.draws):
        return True
    return count == SCREENED_DRAWS if so_far.draws else count == SCREENED and so_far.met
