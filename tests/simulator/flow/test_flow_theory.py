"""Pipelines against queueing theory and against Ciw: networks of queues, bursts, forks and joins."""

from collections.abc import Sequence

import ciw
import numpy as np
import pytest
from scipy import stats
from support import pipelines, theory, worlds
from support.pipelines import after, model, station, work

from simulator.clock.metrics import confidence_interval, outstanding
from simulator.clock.records import Requests, SimulationResult
from simulator.clock.run import simulate
from simulator.world.deployment import BatchingPolicy, Deployment
from simulator.world.pipelines import FanOutKind
from simulator.world.workload import FixedRate, Gamma, Poisson, Stream, Workload

REPLICATIONS = 20
HORIZON_S = 4000.0
WARMUP_S, END_S = 200.0, 100.0
"""Left out at either end: queues fill, and who came last may not have been answered."""
SURE = 0.999
"""Some thirty figures are compared."""
RESOLUTION = 0.15
"""Largest half-width of an interval over the figure: with a wider one, agreement would say little."""


def runs(deployment: Deployment, rate_rps: float = 1.0, replications: int = REPLICATIONS) -> list[SimulationResult]:
    """Frames at random."""
    asked = Workload((Stream("p", Poisson(rate_rps)),))
    return [simulate(deployment, asked, HORIZON_S, seed) for seed in range(replications)]


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


def numbers(seen: Sequence[SimulationResult], name: str) -> list[float]:
    """Mean number at a stage, waiting or in service."""
    return [outstanding(result.requests[name], WARMUP_S, HORIZON_S - END_S) for result in seen]


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


def test_a_network_that_branches_has_the_product_form() -> None:
    """Two servers, then half of the items to one queue and 0.3 to another: Jackson (1957)."""
    branching = pipelines.pipeline(
        work("a", 1.2, cv=1.0),
        work("b", 1.3, after("a", share=0.5), cv=1.0),
        work("c", 2.0, after("a", share=0.3), cv=1.0),
        work("d", 1.5, after("b", share=0.8), cv=1.0),
    )
    stations = [pipelines.station("a", 2), *map(pipelines.station, "bcd")]
    seen = runs(pipelines.deployment(branching, stations=stations), replications=2 * REPLICATIONS)
    for name, servers, rate_rps, service_s in (
        ("a", 2, 1, 1.2),
        ("b", 1, 0.5, 1.3),
        ("c", 1, 0.3, 2.0),
        ("d", 1, 0.4, 1.5),
    ):
        wait_s = theory.mmc_wait_s(servers, rate_rps, service_s)
        agrees(waits(seen, f"p.{name}"), wait_s)
        agrees(numbers(seen, f"p.{name}"), rate_rps * (wait_s + service_s))


@pytest.mark.parametrize(
    ("mean", "kind", "second_moment"),
    [
        (3.0, FanOutKind.FIXED, 9.0),
        (2.5, FanOutKind.FIXED, 6.5),
        (3.2, FanOutKind.POISSON, 13.44),
        (1.5, FanOutKind.GEOMETRIC, 6.0),
    ],
)
@pytest.mark.parametrize("on_gpu", [False, True])
def test_bursts_of_a_fan_out_wait_for_each_other(
    mean: float, kind: FanOutKind, second_moment: float, on_gpu: bool
) -> None:
    """An M/M/1 queue and then M[X]/M/1: every item is followed by a burst."""
    service_s = 0.6 / mean
    follows = after("a", mean, kind)
    if on_gpu:
        crops = worlds.service(worlds.profile("p.b", service_s, cv=1.0))
        deployed = pipelines.deployment(pipelines.pipeline(work("a", 0.5, cv=1.0), model("b", follows)), crops)
    else:
        deployed = pipelines.deployment(
            pipelines.pipeline(work("a", 0.5, cv=1.0), work("b", service_s, follows, cv=1.0))
        )
    seen = runs(deployed)
    agrees(waits(seen, "p.a"), theory.mg1_wait_s(1.0, 0.5, 1.0))
    agrees(waits(seen, "p.b"), theory.bulk_arrivals_wait_s(1.0, mean, second_moment, service_s))


def test_a_recording_of_many_cameras_is_bursts_of_its_counts() -> None:
    """Two hundred at random, each in its own place of the recording: the next frame knows nothing of the last."""
    cars = after("a", kind=FanOutKind.RECORDED, counts=(0, 1, 6, 3))
    deployed = pipelines.deployment(pipelines.pipeline(work("a", 0.5, cv=1.0), work("b", 0.24, cars, cv=1.0)))
    asked = Workload((Stream("p", Poisson(1 / 200), 200),))
    seen = [simulate(deployed, asked, HORIZON_S, seed) for seed in range(REPLICATIONS)]
    agrees(waits(seen, "p.a"), theory.mg1_wait_s(1.0, 0.5, 1.0))
    agrees(waits(seen, "p.b"), theory.bulk_arrivals_wait_s(1.0, 2.5, 11.5, 0.24))


@pytest.mark.parametrize("load", [0.3, 0.7])
def test_a_fork_of_two_markov_queues_and_their_join(load: float) -> None:
    """Exact for two servers: Flatto and Hahn (1984), as Nelson and Tantawi (1988) write it."""
    forked = pipelines.pipeline(work("a", load, cv=1.0), work("b", load, cv=1.0), work("join", 0.0, "a", "b"))
    agrees(latencies(runs(pipelines.deployment(forked))), theory.fork_join_s(1.0, load))


def test_a_markov_queue_before_a_server_of_batches() -> None:
    """What leaves M/M/1 is Poisson, so a GPU behind it is M/D[1,4]/1."""
    crops = worlds.service(worlds.profile("p.b", 2.4), batch=BatchingPolicy(4))
    seen = runs(pipelines.deployment(pipelines.pipeline(work("a", 0.6, cv=1.0), model("b", "a")), crops))
    agrees(waits(seen, "p.b"), theory.fixed_bulk_wait_s(1.0, 2.4, 4))


def test_fixed_times_before_a_quicker_server_leave_nobody_waiting() -> None:
    """M/D/1, and then a GPU that is done before the next can come."""
    crops = worlds.service(worlds.profile("p.b", (0.5, 0.6, 0.7, 0.8)), batch=BatchingPolicy(4))
    seen = runs(pipelines.deployment(pipelines.pipeline(work("a", 0.8), model("b", "a")), crops))
    agrees(waits(seen, "p.a"), theory.mg1_wait_s(1.0, 0.8, 0.0))
    assert max(waits(seen, "p.b")) <= 1e-9


@pytest.mark.parametrize("engines", [1, 2, 3])
def test_frames_that_are_encoded_wait_as_in_a_queue_of_fixed_times(engines: int) -> None:
    """The engines of one GPU are M/D/c; frames that never wait for a decoder come to them as they came."""
    load = 0.8
    asked = pipelines.pipeline(work("decode", 0.0), work("encode", load * engines, "decode"))
    encoders = [station("decode"), station("encode", engines)]
    seen = runs(pipelines.deployment(asked, stations=encoders))
    agrees(waits(seen, "p.encode"), theory.mdc_wait_s(engines, 1.0, load * engines))
    agrees(numbers(seen, "p.encode"), theory.mdc_wait_s(engines, 1.0, load * engines) + load * engines)


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


# Against Ciw


def test_three_nodes_as_ciw_runs_them() -> None:
    """Gamma gaps of cv 2, fixed times, then two servers of Gamma times for 0.7, then one of fixed time for 0.6."""
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Gamma(1 / 4, 4.0), None, None],
        service_distributions=[ciw.dists.Deterministic(0.5), ciw.dists.Gamma(4.0, 0.45), ciw.dists.Deterministic(1.5)],
        number_of_servers=[1, 2, 1],
        routing=[[0.0, 0.7, 0.0], [0.0, 0.0, 0.6], [0.0, 0.0, 0.0]],
    )
    branching = pipelines.pipeline(
        work("a", 0.5), work("b", 1.8, after("a", share=0.7), cv=0.5), work("c", 1.5, after("b", share=0.6))
    )
    stations = [pipelines.station("a"), pipelines.station("b", 2), pipelines.station("c")]
    deployed = pipelines.deployment(branching, stations=stations)
    asked = Workload((Stream("p", Gamma(1.0, 2.0)),))
    mine = [simulate(deployed, asked, HORIZON_S, seed) for seed in range(3 * REPLICATIONS)]
    others = [ciw_waits(network, seed) for seed in range(12)]  # which takes ten times as long
    for node, name in enumerate("abc", 1):
        found = waits(mine, f"p.{name}")
        difference = stats.ttest_ind(found, [one[node] for one in others], equal_var=False)
        low, high = difference.confidence_interval(1 - 0.05 / 3)
        assert low <= 0 <= high
        assert (high - low) / 2 <= 0.2 * np.mean(found)


def ciw_waits(network: ciw.network.Network, seed: int) -> dict[int, float]:
    """Mean wait by node."""
    ciw.seed(seed)
    simulation = ciw.Simulation(network)
    simulation.simulate_until_max_time(HORIZON_S)
    found: dict[int, list[float]] = {}
    for record in simulation.get_all_records():
        if WARMUP_S <= record.arrival_date < HORIZON_S - END_S:
            found.setdefault(record.node, []).append(record.waiting_time)
    return {node: float(np.mean(each)) for node, each in found.items()}
