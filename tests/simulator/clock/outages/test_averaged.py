"""Outages by their mean over time, against long replays in which hosts fail on the clock."""

from dataclasses import replace
from math import comb

import numpy as np
import pytest
from support import worlds

from simulator.clock.metrics import attainments, confidence_interval
from simulator.clock.outages.averaged import AveragedWorlds
from simulator.clock.outages.outages import Outages, without
from simulator.clock.run import simulate
from simulator.world.deployment import BatchingPolicy, Deployment, Drop, Failures, Routing
from simulator.world.workload import Poisson, Stream, Workload

FAILING = Failures(mean_time_between_s=600.0, recovery_s=30.0)
"""Away 4.8 % of the time."""
RR, LEAST, SHARED = Routing.ROUND_ROBIN, Routing.LEAST_OUTSTANDING, Routing.SHARED
HOURS, SEEDS = 2, range(100, 108)
DRAWS = range(1, 101)
"""Of the mean over time: three err by 0.2 points themselves."""
OUTAGES = 100
"""Of a host in one replay: six, as in two hours of one that fails every 20 minutes, tell little."""


def failing(routing: Routing, drop: Drop, hosts: int, batch: int = 1, failures: Failures = FAILING) -> Deployment:
    """One model on each of some hosts: 0.2 s of work, 0.05 s more for each further request of a batch."""
    latencies_s = [0.2 + 0.05 * more for more in range(batch)]
    given = worlds.profile("m", latencies_s)
    gpus = [f"g{number}" for number in range(hosts)]
    asked = worlds.service(given, devices=gpus, batch=BatchingPolicy(batch), slo_s=1.0, drop=drop, routing=routing)
    return worlds.deployment(asked, devices=hosts, hosts=hosts, failures=failures)


def averaged(deployment: Deployment, rate_rps: float) -> AveragedWorlds:
    """Worlds of so many requests a second."""
    return AveragedWorlds(deployment, demand(rate_rps), 1000.0, 20.0, {"m": rate_rps})


def demand(rate_rps: float) -> Workload:
    return Workload((Stream("m", Poisson(rate_rps)),))


@pytest.mark.parametrize(
    ("routing", "drop", "hosts", "rate_rps", "batch"),
    [
        (RR, Drop.NEVER, 1, 2.0, 1),
        (RR, Drop.NEVER, 2, 7.0, 1),
        (RR, Drop.NEVER, 2, 12.0, 8),
        (RR, Drop.LATE, 3, 6.0, 1),
        (LEAST, Drop.LATE, 2, 6.5, 1),
        (LEAST, Drop.LATE, 3, 3.0, 1),
        (SHARED, Drop.NEVER, 2, 3.0, 1),
        (SHARED, Drop.NEVER, 2, 6.5, 1),
    ],
)
def test_the_mean_is_that_of_long_replays(
    routing: Routing, drop: Drop, hosts: int, rate_rps: float, batch: int
) -> None:
    """With what waits for a host and is worked off after an outage, what others take over, and what they cannot. What
    came within an SLO before a failure counts as late: 1 s of 630 at most is not."""
    deployment = failing(routing, drop, hosts, batch)
    seen = [attainments(simulate(deployment, demand(rate_rps), HOURS * 3600.0, seed), 60.0)["m"] for seed in SEEDS]
    _, low, high = confidence_interval(seen)
    mean = float(np.mean(averaged(deployment, rate_rps).shares(DRAWS).in_time["m"]))
    assert low - 1.0 / 630 <= mean <= high
    assert high < 0.9999, "outages show"


@pytest.mark.parametrize(
    ("routing", "drop", "hosts", "rate_rps", "failures", "slo_s"),
    [
        (RR, Drop.NEVER, 1, 3.2, Failures(mean_time_between_s=60.0, recovery_s=5.0), 3.0),
        (RR, Drop.NEVER, 1, 4.4, Failures(mean_time_between_s=600.0, recovery_s=20.0), 10.0),
        (RR, Drop.LATE, 1, 3.2, Failures(mean_time_between_s=60.0, recovery_s=5.0), 3.0),
        (RR, Drop.NEWEST, 1, 3.2, Failures(mean_time_between_s=60.0, recovery_s=5.0), 3.0),
        (RR, Drop.NEWEST, 1, 1.0, Failures(mean_time_between_s=1200.0, recovery_s=30.0), 60.0),
        (RR, Drop.NEWEST, 2, 7.0, FAILING, 1.0),
        (RR, Drop.NEWEST_AND_LATE, 1, 2.0, FAILING, 3.0),
        (RR, Drop.NEVER, 1, 1.0, Failures(mean_time_between_s=1200.0, recovery_s=30.0), 60.0),
        (LEAST, Drop.NEVER, 2, 3.0, Failures(mean_time_between_s=600.0, recovery_s=5.0), 3.0),
    ],
)
def test_so_it_is_where_an_slo_is_as_long_as_an_outage(
    routing: Routing, drop: Drop, hosts: int, rate_rps: float, failures: Failures, slo_s: float
) -> None:
    """And where a busy host hardly works off what waited before it fails again. A request that waits when a host fails
    counts as late: of some seconds, one in each time between failures."""
    deployment = failing(routing, drop, hosts, failures=failures)
    (asked,) = deployment.services
    deployment = replace(deployment, services=(replace(asked, slo=replace(asked.slo, latency_s=slo_s)),))
    lasts_s = OUTAGES * (failures.mean_time_between_s + failures.recovery_s)
    seen = [attainments(simulate(deployment, demand(rate_rps), lasts_s, seed), 60.0)["m"] for seed in SEEDS]
    _, low, high = confidence_interval(seen)
    mean = float(np.mean(averaged(deployment, rate_rps).shares(DRAWS).in_time["m"]))
    assert low - 1.0 / (failures.mean_time_between_s + failures.recovery_s) <= mean <= high


def test_figures_say_the_same_as_shares_and_what_is_in_time_while_all_are_up() -> None:
    many = averaged(failing(LEAST, Drop.LATE, 3), 7.0)
    figures, shares = list(many.seen([1, 2])), many.shares([1, 2])
    for one, in_time in zip(figures, shares.in_time["m"], strict=True):
        assert one.summary.models["m"].slo_attainment == pytest.approx(in_time, abs=1e-12)
        assert in_time < one.in_time_up["m"]
        assert one.summary.models["m"].dropped_fraction >= one.in_time_up["m"] - in_time
    assert shares.requests == sum(one.requests for one in figures)


def test_what_finishes_late_is_in_the_percentiles() -> None:
    """One of 21 waits for a host: the 99th percentile lies between the SLO and an outage."""
    often = averaged(failing(RR, Drop.NEVER, 1), 2.0)
    (seen,) = often.seen([1])
    never = replace(often.deployment, failures=None)
    assert seen.summary.models["m"].p50_s < 0.5
    assert 1.0 < seen.summary.models["m"].p99_s < FAILING.recovery_s
    assert never == often.deployment, "what is replayed fails nowhere"


@pytest.mark.parametrize("routing", [RR, LEAST])
def test_a_host_that_holds_nothing_changes_nothing(routing: Routing) -> None:
    used = failing(routing, Drop.LATE, 2)
    idle = failing(routing, Drop.LATE, 3)
    beside = replace(used, devices=idle.devices, hosts=idle.hosts)
    alone = averaged(used, 4.0).shares([1, 2]).in_time["m"]
    np.testing.assert_array_equal(averaged(beside, 4.0).shares([1, 2]).in_time["m"], alone)


def test_hosts_that_hold_the_same_are_one_state() -> None:
    """Of four alike one is away in four ways, two in six."""
    outages = Outages(failing(LEAST, Drop.LATE, 4), {"m": 4.0})
    away = 30 / 630
    states = list(outages.states())
    assert [len(hosts) for hosts, _ in states] == list(range(1, len(states) + 1))
    for hosts, share in states:
        n = len(hosts)
        assert share == pytest.approx(comb(4, n) * away**n * (1 - away) ** (4 - n))
    assert outages.up_share + sum(share for _, share in states) == pytest.approx(1.0, abs=1e-3)


def test_what_is_left_serves_what_has_a_replica() -> None:
    both = failing(LEAST, Drop.LATE, 2)
    alone = worlds.service(worlds.profile("k"), devices=("g1",))
    left = without(replace(both, services=(*both.services, alone)), frozenset({"h1"}))
    assert [service.model for service in left.services] == ["m"]
    assert [device.id for device in left.devices] == ["g0"]
