"""How long a replication lasts and how many there are: as asked, or as much as it takes to prove an SLO."""

from dataclasses import dataclass
from itertools import count, takewhile
from math import ceil, floor, log, sqrt
from statistics import NormalDist

from planner.model.scenario import Scenario
from simulator.clock.metrics import CONFIDENCE
from simulator.world.workload import Workload

REPLICATIONS_MAX = 40
"""Replications of random traffic after which an undecided SLO counts as not met."""
WORLDS = (160, 640, 1280, 2560, 5120)
"""Draws of speeds in doubt at each look: a share of 95 % then has a standard error of 1.7, 0.9, 0.6, 0.4 and 0.3
points. Where 95 % are asked, what keeps 97.5 % is mostly accepted after 640, what keeps 96 % after some thousands."""
RISK_OFF = 0.1
"""Part of the risk that the confidence leaves by which the share of draws of speeds may surely fall short: half a point
of 95 %. What just keeps 95 % could never be shown to. Of those seen, as many must as are asked."""
RISK_SHARE = 1.0
"""Part of the risk that the confidence leaves at which each predicted time is sized, 95 % for 95 %. At half of it plans
that asked for 90 % held in 96 % of left-out truths: draws decide what is bought, and that is a margin twice."""
HORIZON_S = 60.0
"""Shortest time in which requests are judged, unless asked for less: it shows what a usual minute brings."""
REQUESTS_MAX = 2e7
"""Most requests that a longer horizon nobody asked for brings to the first look: about a minute of simulation."""
LOOKS_AT_DRAWS = 3
"""Looks at draws of phases: after as many as could prove the share that is asked, twice and four times as many."""
DRAWS_MIN, LOOKS_AT_MIXED = 80, 4
"""Draws of the first look where the phases mix in time, and looks, each at four times as many: an SLO over a day of
phases that mix in an hour takes a thousand draws to prove, for one bad hour breaks it."""


@dataclass(frozen=True, slots=True)
class Draws:
    """What is asked of draws: of the cameras' phases, of speeds in doubt. One is what a site gets, for good or until
    clocks have drifted."""

    share: float
    """Of the draws that must meet every SLO."""
    surely: bool = True
    """Whether just that is to be proven; else it may fall short by `RISK_OFF`."""
    mixed: int = 1
    """Draws that come by in the time over which an SLO counts; 1: phases stay."""

    @property
    def least(self) -> float:
        """Share that surely keeps every SLO. 94.5 % where 95 % of draws of speeds are asked."""
        return self.share if self.surely else least_share(self.share)


def least_share(share: float) -> float:
    """Share of draws of speeds that surely keeps every SLO where so many are asked. 95 %: 94.5 %."""
    return share - RISK_OFF * (1 - share)


def draws_asked(scenario: Scenario, workload: Workload, doubted: bool = False) -> Draws | None:
    """What is asked of draws; None where neither cameras have phases of their own nor speeds are in doubt.

    Phases that mix in an hour, and an SLO that counts over a day: 24 draws. Speeds do not mix: where they are in
    doubt each draw counts by itself.
    """
    if not (workload.draws_phases or doubted):
        return None
    if doubted:
        return Draws(scenario.confidence, surely=False)
    drift = scenario.clock_drift
    return Draws(scenario.confidence, mixed=max(1, int(drift.period / drift.mix + 1e-9)) if drift else 1)


def looks_at(scenario: Scenario, workload: Workload, fixed: bool = False, doubted: bool = False) -> tuple[int, ...]:
    """Numbers of replications after which the intervals are looked at; at most 5 % of all errors are left to all looks.

    Random traffic: 10, 20 and 40 where ten are asked for. Draws of the phases: 80, 160 and 320, for only 80 that all
    keep an SLO prove that 95 % do. Draws of speeds: 160, 640 and so on to 5,120. Where nothing is
    random, or one is asked: 1.
    """
    asked = scenario.replications
    if fixed or asked == 1:
        return (1,)
    if doubted:
        return tuple(sorted({max(asked, draws) for draws in WORLDS}))
    if draws := draws_asked(scenario, workload):
        if draws.mixed > 1:
            return tuple(max(asked, DRAWS_MIN) * 4**k for k in range(LOOKS_AT_MIXED))
        return tuple(max(asked, draws_needed(draws.share)) * 2**k for k in range(LOOKS_AT_DRAWS))
    doubled = takewhile(lambda n: n < REPLICATIONS_MAX, (asked * 2**k for k in count()))
    return (*doubled, max(REPLICATIONS_MAX, asked))


def draws_needed(share: float) -> int:
    """Draws, all of which keep an SLO, that prove at the first look that such a share does. 95 %: 80. 50 %: 6."""
    return ceil(log((1 - CONFIDENCE) / LOOKS_AT_DRAWS) / log(share))


def confidence_of(looks: int) -> float:
    """Confidence of one look, so that all looks together err in 5 % at most (Bonferroni). Three looks: 98.3 %."""
    return 1 - (1 - CONFIDENCE) / looks


def requests_needed(attainment: float, confidence: float, in_time: float = 1.0) -> int:
    """Requests, so large a share of them in time, after which Wilson's interval lies above `attainment`:
    z^2 a (1 - a) / (in time - a)^2, which is z^2 a / (1 - a) where all are.

    99 % at 95 % confidence: 1.96^2 x 99 = 381. What can never be proven, such as an SLO of 100 %: 0.
    """
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    spare = in_time - attainment
    return ceil(z * z * attainment * (1 - attainment) / spare**2) if spare > 0 else 0


def longest_slo_s(scenario: Scenario) -> float:
    """The longest latency of an SLO."""
    return max(spec.slo.latency for spec in scenario.asked)


def warmup_s(scenario: Scenario) -> float:
    """Start of a replication that is left out of the figures: as asked, or the longest latency of an SLO."""
    return longest_slo_s(scenario) if scenario.warmup is None else scenario.warmup


def horizon_s(scenario: Scenario, workload: Workload) -> float:
    """Length of a replication for the demand alone: as asked, or a minute or more between the warm-up and the last SLO.

    Whole repeats of the longest recording. More where that is longer, or where it takes longer to prove every SLO at
    the first look with all requests in time, as far as the budget goes.
    """
    if scenario.horizon is not None:
        return scenario.horizon
    return lasting_s(scenario, workload, judged_s(scenario, workload), warmup_s(scenario))


def lasting_s(scenario: Scenario, workload: Workload, judged_s: float, early_s: float) -> float:
    """Length of a replication that judges so much time after its start: whole seconds, but not of a recording, of which
    a second more would be judged once more."""
    wanted_s = judged_s + early_s + longest_slo_s(scenario)
    return wanted_s if workload.longest_recording_s else float(ceil(wanted_s - 1e-9))


def judged_s(scenario: Scenario, workload: Workload) -> float:
    """Time in which requests are judged, for the demand alone."""
    alone_s = _judged_in(scenario, workload, 1)
    if workload.is_fixed(alone_s + warmup_s(scenario) + longest_slo_s(scenario)):
        return alone_s
    return _judged_in(scenario, workload, looks_at(scenario, workload)[0])


def _judged_in(scenario: Scenario, workload: Workload, replications: int) -> float:
    confidence = confidence_of(1 if replications == 1 else len(looks_at(scenario, workload)))
    rates_rps = workload.rates_rps()
    recorded_s = workload.longest_recording_s
    wanted_s = max(HORIZON_S, recorded_s)
    for spec in scenario.asked:
        # Arrivals are random: three standard deviations more than needed are rarely too few.
        needed = requests_needed(spec.slo.attainment, confidence)
        wanted_s = max(wanted_s, (needed + 3 * sqrt(needed)) / (replications * rates_rps[spec.name]))
    budget_s = REQUESTS_MAX / (replications * sum(rates_rps.values()))
    if 0 < recorded_s <= budget_s:  # a part of a repeat would have another rate than the whole
        return min(ceil(wanted_s / recorded_s - 1e-9), floor(budget_s / recorded_s)) * recorded_s
    return max(HORIZON_S, min(wanted_s, budget_s))
