"""The window of a replication that an answer shows, and its latencies, against the records they are made of."""

import numpy as np
import pytest
from support import worlds

from planner.model.timeline import Timeline
from planner.replay.timeline import GPUS_SHOWN, REQUESTS_SHOWN, busiest, histogram, timeline
from planner.show.charts.plan import quantile_s
from simulator.clock.metrics import finished_latency_s, summarise
from simulator.clock.records import Outcome, SimulationResult
from simulator.clock.run import simulate
from simulator.rules.latencies import counts_of
from simulator.world.deployment import BatchingPolicy, Drop
from simulator.world.workload import Poisson, Stream, Workload

WARMUP_S = 1.0


@pytest.fixture(scope="module")
def swapping() -> SimulationResult:
    """Two models that take turns in the memory of one, beside a GPU of a third."""
    batch = BatchingPolicy(4)
    services = [
        worlds.service(worlds.profile(name, [0.01, 0.015, 0.02, 0.025], cv=0.1), devices=[gpu], batch=batch, slo_s=0.2)
        for name, gpu in (("a", "g0"), ("b", "g0"), ("c", "g1"))
    ]
    world = worlds.deployment(*services, devices=2, memory_bytes=150_000_000)
    rates_rps = {"a": 20.0, "b": 10.0, "c": 60.0}
    workload = Workload(tuple(Stream(name, Poisson(rate)) for name, rate in rates_rps.items()))
    return simulate(world, workload, 10.0, 1)


@pytest.fixture(scope="module")
def seen(swapping: SimulationResult) -> Timeline:
    return timeline(swapping, summarise(swapping, WARMUP_S), WARMUP_S)


def test_the_window_follows_the_warm_up_and_holds_a_load(swapping: SimulationResult, seen: Timeline) -> None:
    assert WARMUP_S <= seen.start_s < seen.end_s <= swapping.duration_s
    assert seen.gpus == ("g0", "g1")
    assert len(seen.loads.start_s) > 0
    assert {seen.gpus[gpu] for gpu in seen.loads.gpu} == {"g0"}
    assert set(seen.loads.bytes) == {100_000_000}


def test_requests_are_those_that_arrived_in_the_window(swapping: SimulationResult, seen: Timeline) -> None:
    arrivals = [requests.arrival_s for requests in swapping.requests.values()]
    expected = sum(int(np.sum((at_s >= seen.start_s) & (at_s < seen.end_s))) for at_s in arrivals)
    assert len(seen.requests.arrival_s) == expected
    assert list(seen.requests.arrival_s) == sorted(seen.requests.arrival_s)
    for arrived_s, begun_s, left_s in zip(
        seen.requests.arrival_s, seen.requests.start_s, seen.requests.finish_s, strict=True
    ):
        assert arrived_s <= begun_s <= left_s


def test_each_request_ran_where_its_model_lies(seen: Timeline) -> None:
    home = {"a": "g0", "b": "g0", "c": "g1"}
    pairs = zip(seen.requests.model, seen.requests.gpu, strict=True)
    ran = [(seen.models[number], seen.gpus[gpu]) for number, gpu in pairs if gpu >= 0]
    assert len(ran) > 100
    assert all(home[name] == gpu for name, gpu in ran)


def test_a_batch_begins_with_as_many_requests_as_it_holds(seen: Timeline) -> None:
    begun: dict[tuple[int, float], int] = {}
    for number, start_s in zip(seen.requests.model, seen.requests.start_s, strict=True):
        begun[number, start_s] = begun.get((number, start_s), 0) + 1
    sizes = dict(zip(zip(seen.batches.model, seen.batches.start_s, strict=True), seen.batches.size, strict=True))
    whole = [key for key in begun if key in sizes and 0.2 < key[1] < seen.end_s - seen.start_s - 0.2]
    assert len(whole) > 50
    assert all(begun[key] <= sizes[key] <= 4 for key in whole)


def test_memory_never_shows_more_than_there_is(seen: Timeline) -> None:
    assert 0 < max(seen.memory.bytes) <= 150_000_000
    assert min(seen.queue.length) >= 0


def test_no_more_requests_are_kept_than_can_be_shown() -> None:
    world = worlds.deployment(worlds.service(worlds.profile("m", 1e-4), slo_s=0.1, drop=Drop.LATE))
    result = simulate(world, Workload((Stream("m", Poisson(2000)),)), 4.0, 1)
    seen = timeline(result, summarise(result, WARMUP_S), WARMUP_S)
    assert 0.8 * REQUESTS_SHOWN < len(seen.requests.arrival_s) <= REQUESTS_SHOWN + 1


def test_of_many_gpus_those_that_do_most_are_shown() -> None:
    names = [f"g{i}" for i in range(GPUS_SHOWN + 4)]
    services = [
        worlds.service(worlds.profile(f"m{i}", 0.001 * (1 + i % 5)), devices=[name]) for i, name in enumerate(names)
    ]
    world = worlds.deployment(*services, devices=len(names))
    workload = Workload(tuple(Stream(service.model, Poisson(20)) for service in services))
    summary = summarise(simulate(world, workload, 5.0, 1))
    shown = busiest(summary)
    assert len(shown) == GPUS_SHOWN
    assert list(shown) == [name for name in summary.devices if name in shown]
    least = min(summary.devices[name].utilization for name in shown)
    assert all(summary.devices[name].utilization <= least for name in names if name not in shown)


def test_a_histogram_counts_every_finished_request_in_its_bin(swapping: SimulationResult) -> None:
    for name, requests in swapping.requests.items():
        counts = counts_of(finished_latency_s(requests, WARMUP_S))
        judged = (requests.arrival_s >= WARMUP_S) & (requests.outcome == Outcome.FINISHED)
        latency_s = (requests.finish_s - requests.arrival_s)[judged]
        found = histogram(name, 0.2, counts)
        assert sum(found.counts) == len(latency_s) > 50
        assert found.edges_s[0] <= latency_s.min()
        assert latency_s.max() <= found.edges_s[-1]
        expected, _ = np.histogram(latency_s, found.edges_s)
        assert expected.tolist() == list(found.counts)


def test_a_model_without_requests_has_an_empty_histogram() -> None:
    empty = histogram("m", 0.1, np.zeros(320, dtype=np.int64))
    assert (empty.counts, len(empty.edges_s)) == ((), 1)


def test_quantiles_of_a_histogram_are_those_of_its_requests(swapping: SimulationResult) -> None:
    """Within the bar that they fall into."""
    for name, requests in swapping.requests.items():
        latency_s = finished_latency_s(requests, WARMUP_S)
        found = histogram(name, 0.2, counts_of(latency_s))
        for part in (0.5, 0.99):
            exact_s = np.quantile(latency_s, part, method="inverted_cdf")
            place = np.searchsorted(found.edges_s, exact_s, side="right")
            assert found.edges_s[place - 1] <= quantile_s(found, part) <= found.edges_s[place]
