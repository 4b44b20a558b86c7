"""Length: how long one replication of a deployment must be for its queues to show what they do in the long run."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from math import ceil, gcd, inf, lcm

from planner.model.replications import REQUESTS_MAX, judged_s, lasting_s, looks_at, warmup_s
from planner.model.scenario import Scenario
from planner.placing.sizing import Need, judged
from simulator.clock.run import stages
from simulator.clock.stability import longest_round_s, swapping
from simulator.world.deployment import Deployment
from simulator.world.pipelines import RECORDS
from simulator.world.workload import FixedRate, Poisson, Workload

REPEATS_S = 5.0
"""Shortest judged time of cameras that repeat themselves, where phases or speeds are drawn."""
REPEAT_MAX_S = 30.0
"""Cameras that take longer to come round count as if they never did."""
SETTLES = 20
"""Judged time over the time in which queues forget: what was replayed then counts as many independent stretches."""
ROUNDS_WARM = 5
"""Full rounds of the slowest GPU before requests are judged: turns have fallen into their pattern by then."""
CALM_LOAD = 0.8
"""Load up to which queues forget so soon that it does not matter what it is."""
CLEAR_MISSES = 50
"""Requests of each model that may miss their SLO in the time that a short replay judges."""
CLEAR_SLOS = 10
"""Least time that a short replay judges, over the longest latency of an SLO."""
SHORT_SAVES = 4
"""Times that a replay must be longer than a short one that comes before it: some draws need both."""
SPARE_MIN = 0.02
"""Free share of a GPU below which queues are not waited for: they would take thousands of batches to forget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayLength:
    """How long one replication of a deployment is, and why that suffices."""

    horizon_s: float
    warmup_s: float
    """Start that is left out of the figures."""
    settling_s: float
    """Time in which queues that grew by chance are worked off."""
    repeat_s: float | None
    """Time after which all cameras come round to where they were; None where that takes long, or other traffic is
    random."""


def stretch(
    scenario: Scenario, workload: Workload, needs: Mapping[str, Need], deployment: Deployment, load: float = 0.0
) -> ReplayLength:
    """How long one replication of a deployment is: as asked, or as the scenario needs (`horizon_s`), or longer.

    Longer where queues take long to forget, or where turns in memory make rounds long: a queue that grows by little
    must be seen to come back. `load`: what the deployment is offered, where that was measured.
    """
    settles_s = settling_s(deployment, needs, load)
    round_s = longest_round_s(deployment)
    repeat = repeat_s(workload) if deployment.is_fixed else None
    early_s = warmup_s(scenario)
    if scenario.warmup is None:
        early_s = doubled(early_s, max(3 * settles_s, ROUNDS_WARM * round_s))
    if scenario.horizon is not None:
        early_s = min(early_s, max(warmup_s(scenario), scenario.horizon / 10))
        return ReplayLength(horizon_s=scenario.horizon, warmup_s=early_s, settling_s=settles_s, repeat_s=repeat)
    budget_s = REQUESTS_MAX / (looks_at(scenario, workload)[0] * sum(workload.rates_rps().values()))
    wanted_s = min(max(SETTLES * settles_s, 2 * ROUNDS_WARM * round_s), budget_s)
    if repeat is not None:
        drawn = workload.draws_phases or deployment.doubted
        shown_s = REPEATS_S if drawn else judged_s(scenario, workload)  # without draws, requests alone prove an SLO
        lasts_s = doubled(ceil(max(repeat, shown_s) / repeat - 1e-9) * repeat, wanted_s)
    else:
        lasts_s = doubled(judged_s(scenario, workload), wanted_s)
    horizon_s = lasting_s(scenario, workload, lasts_s, early_s)
    return ReplayLength(horizon_s=horizon_s, warmup_s=early_s, settling_s=settles_s, repeat_s=repeat)


def clear_stretch(
    scenario: Scenario, workload: Workload, needs: Mapping[str, Need], deployment: Deployment, length: ReplayLength
) -> ReplayLength | None:
    """How long a replay must be to show of most draws of speeds clearly that they keep every SLO, or that they do not.

    It brings so many requests that `CLEAR_MISSES` of each model may be late; queues forget, and cameras come round,
    often enough meanwhile. Its start is as long as calm queues need: only where they are calm is an SLO clearly kept.
    None where one second is not like another: recordings, bursts, failures, turns in memory.
    """
    asked = judged(needs).values()
    missed_rps = min(need.rate_rps * (1 - need.slo.attainment) for need in asked)
    if not missed_rps or deployment.failures or swapping(deployment) or not _is_even(workload, deployment):
        return None
    slo_s = max(need.slo.latency_s for need in asked)
    rounds_s = _common_s({s.arrivals.rate_rps for s in workload.streams if isinstance(s.arrivals, FixedRate)})
    if rounds_s == inf:
        return None
    settles_s = settling_s(deployment, needs, CALM_LOAD)
    lasts_s = max(CLEAR_MISSES / missed_rps, SETTLES * max(settles_s, rounds_s), CLEAR_SLOS * slo_s)
    warm_s = stretch(scenario, workload, needs, deployment, CALM_LOAD).warmup_s
    horizon = ceil(warm_s + lasts_s + slo_s)
    return replace(length, horizon_s=float(horizon), warmup_s=warm_s, settling_s=settles_s)


def is_shorter(scenario: Scenario, clear: ReplayLength, length: ReplayLength) -> bool:
    """Whether a clear replay before the whole one saves much; where a horizon is asked for, all are that long."""
    return scenario.horizon is None and SHORT_SAVES * clear.horizon_s <= length.horizon_s


def _is_even(workload: Workload, deployment: Deployment) -> bool:
    """Whether all that comes, comes evenly or at random: no recording, no bursts, and no stage that counts frames."""
    edges = [edge for pipeline in deployment.pipelines for stage in pipeline.stages for edge in stage.after]
    counted = any(edge.every > 1 or edge.fan_out.kind in RECORDS for edge in edges)
    return not counted and all(isinstance(stream.arrivals, FixedRate | Poisson) for stream in workload.streams)


def doubled(usual_s: float, wanted_s: float) -> float:
    """The usual time, doubled until it is long enough: so nearly all candidates meet the same arrivals for as long."""
    while usual_s < wanted_s:
        usual_s *= 2
    return usual_s


def repeat_s(workload: Workload) -> float | None:
    """Time after which all cameras come round: 15 and 10 fps, 0.2 s. None with other traffic, or where it takes long.

    Rates count as fractions of small numbers: 7.49 fps are 749 frames in 100 s, which is too long.
    """
    steady = [s.arrivals for s in workload.streams if isinstance(s.arrivals, FixedRate) and not s.arrivals.jitter_s]
    if len(steady) < len(workload.streams):
        return None
    common_s = _common_s({arrivals.rate_rps for arrivals in steady})
    return common_s if common_s <= REPEAT_MAX_S else None


def _common_s(rates_rps: Set[float]) -> float:
    """Time after which cameras of all these rates come round; 0 without any, infinite with one that hardly sends."""
    small = [Fraction(rate_rps).limit_denominator(1000) for rate_rps in sorted(rates_rps)]
    if not all(small):
        return inf
    return float(reduce(_least_common, (1 / rate for rate in small))) if small else 0.0


def _least_common(a: Fraction, b: Fraction) -> Fraction:
    """Least common multiple of two fractions: 1/15 and 1/10: 1/5."""
    return Fraction(lcm(a.numerator, b.numerator), gcd(a.denominator, b.denominator))


def settling_s(deployment: Deployment, needs: Mapping[str, Need], load: float = 0.0) -> float:
    """Time in which the slowest queue forgets a chance excess: sum of rate x dispersion x work^2 over (1 - load)^2.

    That is the variance of the work that comes in a second over the square of what is left free of it, the time scale
    of a Brownian queue (Harrison, 1985). Poisson arrivals at 90/s of 10 ms each: 90 x 0.01^2 / 0.1^2 = 0.9 s. Cameras
    alone bring no such excess. `load`: at least that of every GPU.
    """
    variance: dict[str, float] = dict.fromkeys((d.id for d in deployment.devices), 0.0)
    works: dict[str, float] = dict.fromkeys(variance, 0.0)
    turns = swapping(deployment)
    for service in deployment.services:
        need, total = needs[service.model], sum(r.share for r in service.replicas)
        for replica in service.replicas:
            rate_rps, most = need.rate_rps * replica.share / total, replica.batching.max_batch_size
            for name, stage in zip(replica.devices, stages(service, replica, deployment.swap, None), strict=True):
                loading_s = stage.load_s(stage.weight_bytes) if name in turns else 0.0
                work_s = (stage.service_s[-1] + loading_s) / most
                variance[name] += rate_rps * need.dispersion * work_s**2
                works[name] += rate_rps * work_s
    spare = {name: max(SPARE_MIN, 1 - max(load, work)) for name, work in works.items()}
    return max(variance[name] / spare[name] ** 2 for name in spare)
