"""Pipelines against queueing theory: queues in tandem, forks and joins."""

from collections.abc import Sequence

import numpy as np
import pytest
from support import pipelines, worlds
from support.pipelines import after, model, work

from simulator.clock import theory
from simulator.clock.metrics import confidence_interval
from simulator.clock.records import Requests, SimulationResult
from simulator.clock.run import simulate
from simulator.world.deployment import BatchingPolicy, Deployment
from simulator.world.workload import FixedRate, Poisson, Stream, Workload

REPLICATIONS = 20
HORIZON_S = 4000.0
WARMUP_S, END_S = 200.0, 100.0
"""Left out at either end: queues fill, and who came last may not have been answered."""
SURE = 0.99
RESOLUTION = 0.1
"""Largest half-width of an interval over the figure: with a wider one, agreement would say little."""


def runs(deployment: Deployment, rate_rps: float = 1.0) -> list[SimulationResult]:
    """Frames at random."""
    asked = Workload((Stream("p", Poisson(rate_rps)),))
    return [simulate(deployment, asked, HORIZON_S, seed) for seed in range(REPLICATIONS)]


def settled(requests: Requests, values_s: np.ndarray) -> float:
    """Mean of those in between."""
    first, last = np.searchsorted(requests.arrival_s, (WARMUP_S, HORIZON_S - END_S))
    return float(np.mean(values_s[first:last]))


def waits(seen: Sequence[SimulationResult], name: str) -> list[float]:
    """Mean wait at a stage, of each replication."""
    found = [result.requests[name] for result in seen]
    return [settled(one, one.start_s - one.arrival_s) for one in found]


def latencies(seen: Sequence[SimulationResult]) -> list[float]:
    """Mean time of a frame."""
    found = [result.requests["p"] for result in seen]
    return [settled(one, one.finish_s - one.arrival_s) for one in found]


def agrees(values: Sequence[float], expected: float) -> None:
    _, low, high = confidence_interval(values, SURE)
    assert low <= expected <= high
    assert (high - low) / 2 <= RESOLUTION * expected


def test_markov_queues_in_tandem_do_not_know_each_other() -> None:
    """What leaves M/M/1 is Poisson (Burke, 1956): each queue waits as if alone, and times add."""
    seen = runs(pipelines.deployment(pipelines.pipeline(work("a", 0.6, cv=1.0), work("b", 0.7, "a", cv=1.0))))
    expected_s = [theory.mg1_wait_s(1.0, service_s, 1.0) for service_s in (0.6, 0.7)]
    for name, wait_s in zip(("p.a", "p.b"), expected_s, strict=True):
        agrees(waits(seen, name), wait_s)
    agrees(latencies(seen), sum(expected_s) + 0.6 + 0.7)


@pytest.mark.parametrize("load", [0.3, 0.7])
def test_a_fork_of_two_markov_queues_and_their_join(load: float) -> None:
    """Exact for two servers: Flatto and Hahn (1984), as Nelson and Tantawi (1988) write it."""
    forked = pipelines.pipeline(work("a", load, cv=1.0), work("b", load, cv=1.0), work("join", 0.0, "a", "b"))
    agrees(latencies(runs(pipelines.deployment(forked))), theory.fork_join_s(1.0, load))


def test_fixed_times_before_a_quicker_server_leave_nobody_waiting() -> None:
    """M/D/1, and then a GPU that is done before the next can come."""
    crops = worlds.service(worlds.profile("p.b", (0.5, 0.6, 0.7, 0.8)), batch=BatchingPolicy(4))
    seen = runs(pipelines.deployment(pipelines.pipeline(work("a", 0.8), model("b", "a")), crops))
    agrees(waits(seen, "p.a"), theory.mg1_wait_s(1.0, 0.8, 0.0))
    assert max(waits(seen, "p.b")) <= 1e-9


def test_a_burst_is_cut_into_batches_and_joined_to_the_microsecond() -> None:
    """40 ms of decoding, 20 ms of detection, five crops in batches of 4 and 1 (18 and 10 ms), 2 ms for the answer,
    which also waits for 100 ms of tracking in every frame."""
    crossing = pipelines.pipeline(
        work("decode", 0.040),
        model("detect", "decode"),
        work("track", 0.100, "detect"),
        model("classify", after("detect", 5)),
        work("answer", 0.002, "track", "classify"),
    )
    services = (
        worlds.service(worlds.profile("p.detect", 0.020)),
        worlds.service(
            worlds.profile("p.classify", (0.010, 0.014, 0.016, 0.018)), devices=("g1",), batch=BatchingPolicy(4)
        ),
    )
    deployed = pipelines.deployment(crossing, *services, devices=2)
    result = simulate(deployed, Workload((Stream("p", FixedRate(4.0, 0.0)),)), 10.0)
    frames, crops = result.requests["p"], result.requests["p.classify"]
    assert len(frames.arrival_s) == 40
    assert frames.finish_s - frames.arrival_s == pytest.approx(0.040 + 0.020 + 0.100 + 0.002)
    assert (crops.finish_s - crops.arrival_s).reshape(40, 5) == pytest.approx(np.tile([0.018] * 4 + [0.028], (40, 1)))
