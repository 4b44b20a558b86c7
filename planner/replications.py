"""How long a replication lasts and how many there are: as asked, or as many requests as a promise takes to prove."""

from itertools import count, takewhile
from math import ceil, sqrt
from statistics import NormalDist

from planner.scenario import Scenario
from simulator.metrics import CONFIDENCE
from simulator.workload import Workload

REPLICATIONS_MAX = 40
"""Runs after which an undecided promise counts as not met."""
HORIZON_S = 60.0
"""Shortest time in which requests are judged, unless asked for less: it shows what a usual minute brings."""
REQUESTS_MAX = 2e7
"""Most requests that a longer horizon nobody asked for brings to the first look: about a minute of simulation."""


def looks_at(replications: int) -> tuple[int, ...]:
    """Numbers of replications after which the intervals are looked at: 10, 20 and 40 where ten are asked for.

    One replication is looked at once: 1.
    """
    if replications == 1:
        return (1,)
    doubled = takewhile(lambda n: n < REPLICATIONS_MAX, (replications * 2**k for k in count()))
    return (*doubled, max(REPLICATIONS_MAX, replications))


def confidence_of(looks: int) -> float:
    """Confidence of one look, so that all looks together err in 5 % at most (Bonferroni). Three looks: 98.3 %."""
    return 1 - (1 - CONFIDENCE) / looks


def requests_needed(attainment: float, confidence: float) -> int:
    """Requests, all in time, after which Wilson's interval lies above `attainment`: z^2 a / (1 - a).

    99 % at 95 % confidence: 1.96^2 x 99 = 381. A promise of 100 % can never be proven: 0.
    """
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    return ceil(z * z * attainment / (1 - attainment)) if attainment < 1 else 0


def longest_slo_s(scenario: Scenario) -> float:
    """The longest latency that is promised."""
    return max(spec.slo.latency for spec in scenario.models)


def warmup_s(scenario: Scenario) -> float:
    """Start of a replication that is left out of the figures: as asked, or the longest promised latency."""
    return longest_slo_s(scenario) if scenario.warmup is None else scenario.warmup


def horizon_s(scenario: Scenario, workload: Workload) -> float:
    """Length of a replication: as asked, or a minute or more between the warm-up and the last promised latency.

    Whole repeats of a recording shorter than that. More where the longest recording is longer, or where it takes longer
    to prove every promise at the first look with all requests in time, as far as the budget goes.
    """
    if scenario.horizon is not None:
        return scenario.horizon
    alone_s = _horizon_s(scenario, workload, 1)
    return alone_s if workload.is_fixed(alone_s) else _horizon_s(scenario, workload, scenario.replications)


def _horizon_s(scenario: Scenario, workload: Workload, replications: int) -> float:
    confidence = confidence_of(len(looks_at(replications)))
    rates_rps = workload.rates_rps()
    wanted_s = workload.longest_recording_s
    for spec in scenario.models:
        # Arrivals are random: three standard deviations more than needed are rarely too few.
        needed = requests_needed(spec.slo.attainment, confidence)
        wanted_s = max(wanted_s, (needed + 3 * sqrt(needed)) / (replications * rates_rps[spec.name]))
    if 0 < workload.longest_recording_s < HORIZON_S:  # a part of a repeat would have another rate than the whole
        wanted_s = ceil(max(wanted_s, HORIZON_S) / workload.longest_recording_s) * workload.longest_recording_s
    budget_s = REQUESTS_MAX / (replications * sum(rates_rps.values()))
    judged_s = max(HORIZON_S, min(wanted_s, budget_s))
    return float(ceil(judged_s + warmup_s(scenario) + longest_slo_s(scenario)))
