"""The formulas against published numbers, and the simulator against the formulas."""

from math import exp, inf

import numpy as np
import pytest
from support import theory, worlds

from simulator.clock.metrics import confidence_interval
from simulator.clock.records import SimulationResult
from simulator.clock.run import simulate
from simulator.world.deployment import BatchingPolicy, Deployment, Routing
from simulator.world.workload import Poisson, Stream, Workload

REPLICATIONS = 20
WARMUP_S, END_S = 200.0, 100.0
"""Left out at either end: the queue fills, and who came last may not have begun."""


def test_erlang_b_gives_the_traffic_tables() -> None:
    """Erlang's table for 1 % lost: 5 servers carry 1.361 erlangs, 10 carry 4.461, 20 carry 12.03, 50 carry 37.90."""
    for servers, load in ((5, 1.361), (10, 4.461), (20, 12.03), (50, 37.90)):
        assert theory.erlang_b(servers, load) == pytest.approx(0.01, rel=2e-3)


def test_many_servers_as_in_the_textbook() -> None:
    """Gross et al. (2008), sec. 2.3, eye clinic: 6 an hour, 3 doctors, 20 min each: wait 8.9 min, 28.9 min in all."""
    assert theory.erlang_c(3, 2.0) == pytest.approx(4 / 9)
    assert theory.mmc_wait_s(3, 6 / 60, 20) == pytest.approx(80 / 9)


def test_one_server_as_in_the_textbook() -> None:
    """Gross et al. (2008), sec. 2.2, hair salon: 5 an hour, 10 min each: 50 min of waiting."""
    wait_min = theory.mg1_wait_s(5 / 60, 10, 1.0)
    assert wait_min == pytest.approx(50)
    assert theory.mmc_wait_s(1, 5 / 60, 10) == pytest.approx(wait_min)
    assert theory.mmc_late(1, 5 / 60, 10, 30) == pytest.approx(5 / 6 * exp(-0.5))
    assert theory.mg1_wait_s(5 / 60, 10, 0.0) == pytest.approx(wait_min / 2)


def test_no_wait_is_finite_past_capacity() -> None:
    assert theory.mg1_wait_s(2, 1, 1) == theory.mmc_wait_s(2, 3, 1) == inf
    assert theory.markov_bulk_wait_s(9, 1, 8) == theory.fixed_bulk_wait_s(9, 1, 8) == inf
    assert theory.erlang_c(2, 3) == theory.mmc_late(2, 3, 1, 5) == 1.0


@pytest.mark.parametrize("load", [0.1, 0.5, 0.9])
def test_batches_of_one_are_no_batches(load: float) -> None:
    assert theory.markov_bulk_wait_s(load, 1, 1) == pytest.approx(theory.mg1_wait_s(load, 1, 1))
    assert theory.fixed_bulk_wait_s(load, 1, 1) == pytest.approx(theory.mg1_wait_s(load, 1, 0))


def test_markov_batches_have_the_golden_ratio_as_their_root() -> None:
    """Load 1 in batches of 2: r^3 - 2r + 1 = (r - 1)(r^2 + r - 1), so r is the golden ratio less 1."""
    r = (5**0.5 - 1) / 2
    assert theory.markov_bulk_wait_s(1, 1, 2) == pytest.approx(r / ((2 - r) * (1 - r)))


@pytest.mark.parametrize(("load", "most"), [(1.0, 2), (3.0, 4), (6.0, 8), (7.5, 8)])
def test_fixed_batches_agree_with_the_chain_summed_term_by_term(load: float, most: int) -> None:
    """The numbers left at the ends of batches form a Markov chain; here its equations are solved directly."""
    states = 200
    arrivals = np.cumprod(np.concatenate([[exp(-load)], load / np.arange(1, states)]))
    chain = np.zeros((states, states))
    for left in range(states):
        beyond = max(0, left - most)
        chain[left, beyond:] = arrivals[: states - beyond]
    share = np.linalg.lstsq(
        np.vstack([chain.T - np.eye(states), np.ones(states)]), np.append(np.zeros(states), 1.0), rcond=None
    )[0]
    waiting = share @ np.maximum(np.arange(states) - most, 0) + load / 2
    assert theory.fixed_bulk_wait_s(load, 1, most) == pytest.approx(waiting / (1 + share[0] / load) / load, rel=1e-6)


def waits(deployment: Deployment, rate_rps: float, seed: int) -> SimulationResult:
    horizon_s = WARMUP_S + END_S + 5000 / max(1.0, rate_rps)
    return simulate(deployment, Workload((Stream("m", Poisson(rate_rps)),)), horizon_s, seed)


def settled(result: SimulationResult) -> np.ndarray:
    """Waits of the requests in between."""
    requests = result.requests["m"]
    first, last = np.searchsorted(requests.arrival_s, (WARMUP_S, result.duration_s - END_S))
    return (requests.start_s - requests.arrival_s)[first:last]


def interval(deployment: Deployment, rate_rps: float) -> tuple[float, float, float]:
    return confidence_interval(
        [float(settled(waits(deployment, rate_rps, seed)).mean()) for seed in range(REPLICATIONS)]
    )


def one_card(cv: float, most: int = 1) -> Deployment:
    batch = BatchingPolicy(most)
    return worlds.deployment(worlds.service(worlds.profile("m", 1.0, cv=cv), batch=batch))


@pytest.mark.parametrize("load", [0.5, 0.8])
@pytest.mark.parametrize("cv", [0.0, 0.5, 1.0, 1.5])
def test_one_server(cv: float, load: float) -> None:
    """M/D/1, M/E4/1, M/M/1 and a wilder M/G/1."""
    _, low, high = interval(one_card(cv), load)
    assert low <= theory.mg1_wait_s(load, 1.0, cv) <= high


def test_waits_at_one_markov_server_are_exponential() -> None:
    late = [float(np.mean(settled(waits(one_card(1.0), 0.7, seed)) > 3.0)) for seed in range(10 * REPLICATIONS)]
    _, low, high = confidence_interval(late)
    assert low <= theory.mmc_late(1, 0.7, 1.0, 3.0) <= high


@pytest.mark.parametrize(("servers", "load"), [(3, 2.4)])
def test_many_servers_on_one_queue(servers: int, load: float) -> None:
    devices = [f"g{i}" for i in range(servers)]
    shared = worlds.service(worlds.profile("m", 1.0, cv=1.0), devices=devices, routing=Routing.SHARED)
    _, low, high = interval(worlds.deployment(shared, devices=servers), load)
    assert low <= theory.mmc_wait_s(servers, load, 1.0) <= high


@pytest.mark.parametrize(("most", "load"), [(2, 1.0), (4, 3.2), (8, 4.0), (8, 7.0)])
def test_fixed_time_batches(most: int, load: float) -> None:
    _, low, high = interval(one_card(0.0, most), load)
    assert low <= theory.fixed_bulk_wait_s(load, 1.0, most) <= high


@pytest.mark.parametrize(("most", "load"), [(2, 1.0), (4, 3.2), (8, 6.0)])
def test_exponential_batches(most: int, load: float) -> None:
    _, low, high = interval(one_card(1.0, most), load)
    assert low <= theory.markov_bulk_wait_s(load, 1.0, most) <= high
