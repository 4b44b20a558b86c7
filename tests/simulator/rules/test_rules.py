"""The simulator's rules one by one, worked by hand."""

from dataclasses import replace
from math import inf, nan
from typing import cast

import numpy as np
import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st
from support import worlds

from simulator.clock.link import Link, fair_rates
from simulator.clock.records import SimulationResult
from simulator.clock.run import cut, simulate
from simulator.errors import DeploymentError
from simulator.rules.batching import arrived, close_at, first_kept
from simulator.rules.memory import Residency, eviction_order
from simulator.rules.routing import CHOICES, least_outstanding, split
from simulator.rules.scheduling import Agenda, EarliestFirst, RoundRobin, SwapAware
from simulator.world.curves import LoadTime
from simulator.world.deployment import BatchingPolicy, Deployment, Drop, Eviction, Routing, Scheduling, SwapPolicy
from simulator.world.model import Layer
from simulator.world.pipelines import ModelWork, Pipeline, PipelineStage
from simulator.world.workload import SLO, Stream, Trace, Workload

A, B, C = Layer("a", 4), Layer("b", 3), Layer("c", 2)


def at(model: str, *times_s: float) -> Stream:
    return Stream(model, Trace(np.array(times_s), 1000.0))


def play(deployment: Deployment, demand: Workload, duration_s: float) -> SimulationResult:
    """Simulate recordings as if they were as long as the simulation, so that all begin at 0."""
    whole = [Stream(s.model, Trace(s.arrivals.times_s, duration_s)) for s in demand.streams]  # type: ignore[union-attr]
    return simulate(deployment, Workload(tuple(whole)), duration_s)


@pytest.mark.parametrize(
    ("times_s", "most", "delay_s", "closes_s"),
    [
        ([0.0, 0.3], 2, 0.2, 0.2),
        ([0.0, 0.3], 2, 1.0, 0.3),
        ([0.0, 0.1, 0.2], 2, 1.0, 0.1),
        ([0.5], 1, 0.0, 0.5),
        ([0.5, 0.6], 4, 0.0, 0.5),
        ([], 4, 1.0, inf),
    ],
)
def test_a_batch_closes_when_full_or_old(times_s: list[float], most: int, delay_s: float, closes_s: float) -> None:
    assert close_at(times_s, 0, len(times_s), BatchingPolicy(most, delay_s)) == closes_s


@given(st.lists(st.integers(0, 20), max_size=12).map(sorted), st.integers(0, 12), st.integers(0, 21), st.integers(1, 5))
def test_arrived_counts(times_s: list[int], head: int, now_s: int, most: int) -> None:
    head = min(head, len(times_s))
    assert arrived(times_s, head, len(times_s), now_s, most) == min(most, sum(t <= now_s for t in times_s[head:]))


@pytest.mark.parametrize(
    ("drop", "times_s", "now_s", "start_s", "slo_s", "service_s", "head"),
    [
        (Drop.LATE, [0.0, 0.05], 0.06, 0.06, 0.1, [0, 0.03, 0.05], 1),
        (Drop.LATE, [0.0, 0.05], 0.05, 0.05, 0.1, [0, 0.03, 0.05], 0),
        (Drop.LATE, [0.0, 0.01, 0.9], 1.0, 1.0, 0.5, [0, 0.1], 2),
        (Drop.LATE, [0.0, 0.01], 1.0, 1.0, 0.5, [0, 0.1], 2),
        (Drop.LATE, [0.0], 0.0, 0.45, 0.5, [0, 0.1], 1),
        (Drop.NEWEST, [0.0, 0.1, 0.2, 0.3], 0.25, 0.25, 9.0, [0, 0.1, 0.1], 1),
        (Drop.NEWEST, [0.0, 0.1], 0.25, 9.0, 0.1, [0, 0.1, 0.1], 0),
        (Drop.NEWEST_AND_LATE, [0.0, 0.1, 0.2, 0.3], 0.25, 0.25, 0.2, [0, 0.1, 0.1], 2),
        (Drop.NEWEST, [0.5], 0.1, 0.1, 0.1, [0, 0.1], 0),
    ],
)
def test_the_frames_that_are_kept(
    drop: Drop, times_s: list[float], now_s: float, start_s: float, slo_s: float, service_s: list[float], head: int
) -> None:
    assert first_kept(times_s, 0, len(times_s), now_s, start_s, drop, slo_s, service_s) == head


def test_victims_are_as_few_as_the_order_allows() -> None:
    memory = Residency(limit_bytes=10, context_bytes=1)
    memory.add([A, B])
    assert memory.used_bytes == 8
    assert memory.victims(2, 0, frozenset(), ["a", "b"]) == []
    assert memory.victims(3, 1, frozenset(), ["a", "b"]) == ["a"]
    assert memory.victims(3, 1, frozenset(), ["b", "a"]) == ["b"]
    assert memory.victims(3, 1, frozenset("a"), ["a", "b"]) == ["b"]
    assert memory.victims(6, 1, frozenset(), ["a", "b"]) == ["a", "b"]
    assert memory.victims(6, 1, frozenset("a"), ["a", "b"]) is None
    assert memory.victims(10, 0, frozenset(), ["a", "b"]) is None


def test_residency_is_a_union_in_order_of_use() -> None:
    memory = Residency(limit_bytes=100, context_bytes=1)
    memory.add([A, B])
    memory.add(memory.missing([B, C]))
    assert (list(memory.resident), memory.used_bytes) == (["a", "b", "c"], 10)
    memory.touch([A])
    memory.workspace_bytes = 5
    assert (list(memory.resident), memory.used_bytes) == (["b", "c", "a"], 15)
    memory.evict(["b"])
    assert (memory.missing([A, B]), memory.used_bytes) == ([B], 12)


@pytest.mark.parametrize(
    ("policy", "order"),
    [
        (Eviction.LRU, ["ab", "bc", "ca"]),
        (Eviction.MRU, ["ca", "bc", "ab"]),
        (Eviction.LOOKAHEAD, ["bc", "ab", "ca"]),
        (Eviction.COST, ["ca", "ab", "bc"]),
    ],
)
def test_eviction_order(policy: Eviction, order: list[str]) -> None:
    """Used in the order ab, bc, ca; needed next at 2, 2 (but a turn later) and 1 s; worth 5, 9 and 2 s a byte."""
    next_use = {"ab": (2.0, 0), "bc": (2.0, 1), "ca": (1.0, 0)}
    worth = {"ab": 5.0, "bc": 9.0, "ca": 2.0}
    assert eviction_order(["ab", "bc", "ca"], policy, next_use.__getitem__, worth.__getitem__) == order


@pytest.mark.parametrize("eviction", Eviction)
def test_three_models_that_share_layers_pairwise(eviction: Eviction) -> None:
    """A = ab + ca, B = ab + bc, C = bc + ca in a memory of two layers: a turn keeps one and loads one, 0.1 s each.

    The only layer that may go is the one the next model does not need, whatever the policy.
    """
    ab, bc, ca = (Layer(key, 10) for key in ("ab", "bc", "ca"))
    load = LoadTime(0.0, 100.0)
    services = [
        worlds.service(worlds.profile(name, 0.5, layers=layers, workspace_bytes=0, load=load))
        for name, layers in (("A", (ab, ca)), ("B", (ab, bc)), ("C", (bc, ca)))
    ]
    small = worlds.deployment(*services, memory_bytes=20, swap=SwapPolicy(eviction=eviction))
    demand = Workload((at("A", 0.0, 3.0), at("B", 1.0, 4.0), at("C", 2.0, 5.0)))
    result = play(small, demand, 10.0)
    assert [load.size_bytes for load in result.loads] == [20, 10, 10, 10, 10, 10]
    assert [load.model for load in result.loads] == ["A", "B", "C", "A", "B", "C"]
    assert result.requests["A"].finish_s == pytest.approx([0.7, 3.6])
    assert result.requests["C"].finish_s == pytest.approx([2.6, 5.6])
    assert max(result.memory["g0"].used_bytes) == 20


def test_lookahead_keeps_what_is_needed_soonest() -> None:
    """Room for two of three models. C comes at 2 s; A is needed at 3 s, B at 9 s: B goes, although A is older."""
    services = [
        worlds.service(worlds.profile(name, 0.1, layers=[Layer(name, 10)], workspace_bytes=0)) for name in "ABC"
    ]
    demand = Workload((at("A", 0.0, 3.0), at("B", 1.0, 9.0), at("C", 2.0)))
    for eviction, loaded in ((Eviction.LOOKAHEAD, "ABCB"), (Eviction.LRU, "ABCAB")):
        small = worlds.deployment(*services, memory_bytes=20, swap=SwapPolicy(eviction=eviction))
        assert "".join(load.model for load in play(small, demand, 12.0).loads) == loaded


def test_lookahead_knows_whose_turn_is_next() -> None:
    """Room for two of three models that always have work: the best there is loads every other turn, LRU every turn."""
    services = [
        worlds.service(worlds.profile(name, 0.1, layers=[Layer(name, 10)], workspace_bytes=0)) for name in "ABC"
    ]
    demand = Workload(tuple(at(name, *[0.0] * 12) for name in "ABC"))
    for eviction, loads in ((Eviction.LOOKAHEAD, 3 + 33 // 2), (Eviction.LRU, 36)):
        small = worlds.deployment(*services, memory_bytes=20, swap=SwapPolicy(eviction=eviction, prefetch=False))
        assert len(play(small, demand, 12.0).loads) == loads


def test_the_cheapest_to_bring_back_goes_first() -> None:
    """A has run three times, B once, both of 10 bytes: B has saved less loading, so C takes its place."""
    services = [
        worlds.service(worlds.profile(name, 0.1, layers=[Layer(name, 10)], workspace_bytes=0)) for name in "ABC"
    ]
    demand = Workload((at("B", 2.0, 6.0), at("A", 0.0, 0.5, 1.0, 5.0), at("C", 3.0)))
    small = worlds.deployment(*services, memory_bytes=20, swap=SwapPolicy(eviction=Eviction.COST))
    assert "".join(load.model for load in play(small, demand, 12.0).loads) == "ABCB"


def test_what_cannot_be_loaded_ahead_drives_nothing_out() -> None:
    """A of 6 and C of 3 bytes are here; B of 7 is next, but fits only once A is done: until then C stays."""
    sizes = {"A": 6, "B": 7, "C": 3}
    services = [
        worlds.service(worlds.profile(name, 1.0, layers=[Layer(name, size)], workspace_bytes=0))
        for name, size in sizes.items()
    ]
    small = worlds.deployment(*services, memory_bytes=10, swap=SwapPolicy(eviction=Eviction.LRU))
    result = play(small, Workload((at("C", 0.0), at("A", 1.5), at("B", 1.6))), 10.0)
    at_s, used = result.memory["g0"].at_s, result.memory["g0"].used_bytes
    assert used[np.searchsorted(at_s, 2.4) - 1] == 9
    assert result.requests["B"].start_s == pytest.approx([2.5])


def test_a_load_ahead_hides_behind_the_batch_before() -> None:
    """Room for two of three models: B's 1 s of loading hides in A's run of 2 s."""
    load = LoadTime(0.0, 10.0)
    services = [
        worlds.service(worlds.profile(name, 2.0, layers=[Layer(name, 10)], workspace_bytes=0, load=load))
        for name in "ABC"
    ]
    demand = Workload((at("A", 0.0), at("B", 0.0)))
    for prefetch, finish_s in ((True, 5.0), (False, 6.0)):
        small = worlds.deployment(*services, memory_bytes=20, swap=SwapPolicy(prefetch=prefetch))
        result = play(small, demand, 20.0)
        assert result.requests["B"].finish_s == pytest.approx([finish_s])
        assert [load.ahead for load in result.loads] == [False, prefetch]
        assert sum(s.finish_s - s.start_s for s in result.stalls) == pytest.approx(finish_s - 4.0)


@pytest.mark.parametrize(
    ("most", "capacity", "rates"),
    [
        ([2, 10, 10], 16, [2, 7, 7]),
        ([10, 2, 10], 16, [7, 2, 7]),
        ([1, 2, 3], 100, [1, 2, 3]),
        ([5, 5], 4, [2, 2]),
        ([], 4, []),
    ],
)
def test_fair_rates(most: list[float], capacity: float, rates: list[float]) -> None:
    assert fair_rates(most, capacity) == rates


def test_transfers_share_a_link_fairly() -> None:
    """10 and 30 bytes over 10 bytes/s from 0 s: 5 each until 2 s, then 20 more at 10: 4 s. 5 bytes at 3 s: 5.5 and 4 s.

    At 3 s the long one has 10 left; both get 5, so the new one ends at 4 s and the long one at 4.5 s.
    """
    env = simpy.Environment()
    link = Link(env, 10.0)
    ended: dict[str, float] = {}

    def send(name: str, at_s: float, size_bytes: float, most: float) -> simpy.events.ProcessGenerator:
        yield env.timeout(at_s)
        yield link.transfer(size_bytes, most)
        ended[name] = env.now

    for name, at_s, size_bytes, most in (("a", 0, 10, 99), ("b", 0, 30, 99), ("c", 3, 5, 99), ("d", 6, 6, 3)):
        env.process(send(name, at_s, size_bytes, most))
    env.run()
    assert ended == pytest.approx({"a": 2.0, "c": 4.0, "b": 4.5, "d": 8.0})


def test_two_gpus_behind_one_root_load_at_half_speed() -> None:
    """Each GPU could take 10 GB/s, the root gives 10 to both: 5 GB each take 1 s instead of 0.5 s."""
    names = ("A", "A2"), ("B", "B2")
    services = [
        worlds.service(
            worlds.profile(name, 0.1, layers=[Layer(name, 5 * 10**9)], load=LoadTime(0.0, 1e10)), devices=[f"g{i}"]
        )
        for i, pair in enumerate(names)
        for name in pair
    ]
    demand = Workload((at("A", 0.0), at("B", 0.0)))
    for root, finish_s in ((1e10, 1.1), (2e10, 0.6)):
        pair = worlds.deployment(*services, devices=2, memory_bytes=6 * 10**9, root_bytes_per_s=root)
        result = play(pair, demand, 5.0)
        assert result.requests["A"].finish_s == pytest.approx([finish_s])
        assert result.requests["B"].finish_s == pytest.approx([finish_s])


def test_shares_of_equal_replicas_alternate() -> None:
    assert [part.tolist() for part in split(6, [1.0, 1.0])] == [[0, 2, 4], [1, 3, 5]]


@given(st.integers(0, 300), st.lists(st.floats(0.05, 1.0), min_size=1, max_size=5))
def test_shares_are_kept_at_all_times(count: int, shares: list[float]) -> None:
    """Each request goes somewhere once, and every replica has its share at any time, give or take a few."""
    parts = split(count, shares)
    assert sorted(np.concatenate(parts).tolist()) == list(range(count))
    for part, share in zip(parts, shares, strict=True):
        due = np.arange(1, count + 1) * share / sum(shares)
        assert np.all(np.abs(np.searchsorted(part, np.arange(count), side="right") - due) <= len(shares))


def test_least_outstanding() -> None:
    assert least_outstanding([3, 1, 2], [True, True, True]) == 1
    assert least_outstanding([3, 1, 2], [True, False, True]) == 2
    assert least_outstanding([2, 2], [True, True]) == 0
    assert least_outstanding([3, 1], [False, False]) == 1


def test_every_rule_of_routing_deals_shares_or_chooses() -> None:
    assert {Routing.ROUND_ROBIN, Routing.SHARED, *CHOICES} == set(Routing)


@pytest.mark.parametrize("model", ["m", "road.m"])
def test_a_rule_that_nothing_decides_by_is_refused(model: str) -> None:
    """Also of a stage of a pipeline: its requests do not silently go in turn."""
    named = worlds.service(worlds.profile(model, 1.0), devices=("g0", "g1"))
    deployment = worlds.deployment(replace(named, routing=cast(Routing, "nearest")), devices=2)
    if model == "road.m":
        only = PipelineStage(name="m", work=ModelWork())
        deployment = replace(deployment, pipelines=(Pipeline(name="road", stages=(only,), slo=SLO(1.0)),))
    with pytest.raises(KeyError, match="nearest"):
        play(deployment, Workload((at(model.removesuffix(".m"), 0.0),)), 1.0)


def test_requests_go_where_least_is_outstanding() -> None:
    """At 0.5 s g0 has one running, g1 none; at 0.6 s one each; at 0.7 s g0 has two. At 10.2 s g0 has one, g1 two."""
    shortest = worlds.service(worlds.profile("m", 10.0), devices=("g0", "g1"), routing=Routing.LEAST_OUTSTANDING)
    result = play(worlds.deployment(shortest, devices=2), Workload((at("m", 0.0, 0.5, 0.6, 0.7, 10.2),)), 60.0)
    assert result.requests["m"].start_s == pytest.approx([0.0, 0.5, 10.0, 10.5, 20.0])


def test_a_shared_queue_feeds_who_is_free() -> None:
    """Two GPUs; the first request runs on one, the next three go through whoever is free first."""
    shared = worlds.service(worlds.profile("m", 10.0), devices=("g0", "g1"), routing=Routing.SHARED)
    result = play(worlds.deployment(shared, devices=2), Workload((at("m", 0.0, 0.5, 0.6, 0.7, 10.2),)), 60.0)
    assert result.requests["m"].start_s == pytest.approx([0.0, 0.5, 10.0, 10.5, 20.0])
    assert sum(len(b.start_s) for b in result.batches) == 5


def drained(agenda: Agenda, now_s: float) -> list[int]:
    order = []
    while (number := agenda.take(now_s)) >= 0:
        order.append(number)
    return order


def test_round_robin_goes_on_after_the_last() -> None:
    agenda = RoundRobin(4)
    for number in (3, 1, 0):
        agenda.put(number, 1.0, nan)
    assert (agenda.take(0.5), agenda.next_ready_s(), agenda.peek(0.5, 0.9), agenda.peek(0.5, 1.0)) == (-1, 1.0, -1, 0)
    assert (agenda.peek(1.0, 1.0), agenda.take(1.0), agenda.take(1.0)) == (0, 0, 1)
    agenda.put(0, 1.5, nan)
    agenda.put(2, 1.5, nan)
    assert drained(agenda, 2.0) == [2, 3, 0]


def test_the_earliest_goes_first_among_the_ready() -> None:
    agenda = EarliestFirst()
    agenda.put(0, 1.0, 5.0)
    agenda.put(1, 1.0, 4.0)
    agenda.put(2, 3.0, 0.0)
    assert (agenda.peek(1.0, 9.0), drained(agenda, 2.0)) == (1, [1, 0])
    assert (agenda.peek(2.0, 2.9), agenda.peek(2.0, 3.0), drained(agenda, 3.0)) == (-1, 2, [2])


def test_swap_aware_loads_only_for_a_deadline() -> None:
    """0 is resident, runs 1 s. 1 and 2 need 2 s of loading and run 1 s."""
    missing_s = {0: 0.0, 1: 2.0, 2: 2.0}
    for deadline_s, order in (
        (9.0, [0, 1]),  # it can wait for 0's batch: 1 + 2 + 1 <= 9
        (3.5, [1, 0]),  # it cannot: 4 > 3.5 >= 3
        (2.5, [0, 1]),  # it is lost whatever runs
    ):
        agenda = SwapAware(missing_s.__getitem__, lambda number: 1.0)
        agenda.put(0, 0.0, 100.0)
        agenda.put(1, 0.0, deadline_s)
        assert drained(agenda, 0.0) == order
    agenda = SwapAware(missing_s.__getitem__, lambda number: 1.0)
    agenda.put(1, 0.0, 50.0)
    agenda.put(2, 0.0, 40.0)
    assert drained(agenda, 0.0) == [2, 1]


@pytest.mark.parametrize(
    ("scheduling", "order"),
    [(Scheduling.ROUND_ROBIN, "ABCA"), (Scheduling.FCFS, "ACBA"), (Scheduling.EDF, "ABCA")],
)
def test_order_on_one_gpu(scheduling: Scheduling, order: str) -> None:
    """A runs from 0 to 1 s. Meanwhile C came at 0.1, B at 0.2, A at 0.3; deadlines are 30, 10 and 40 s later."""
    services = [
        worlds.service(worlds.profile(name, 1.0), slo_s=slo_s)
        for name, slo_s in (("A", 40.0), ("B", 10.0), ("C", 30.0))
    ]
    demand = Workload((at("A", 0.0, 0.3), at("B", 0.2), at("C", 0.1)))
    result = play(worlds.deployment(*services, scheduling=scheduling), demand, 10.0)
    began = sorted((start, b.model) for b in result.batches for start in b.start_s)
    assert "".join(model for _, model in began) == order


def test_swap_aware_finishes_what_is_resident() -> None:
    """Room for one model. A, B, A, B at once: round robin swaps four times, swap-aware twice."""
    services = [worlds.service(worlds.profile(name, 0.1, layers=[Layer(name, 10)], workspace_bytes=0)) for name in "AB"]
    demand = Workload((at("A", 0.0, 0.0), at("B", 0.0, 0.0)))
    for scheduling, loads in ((Scheduling.ROUND_ROBIN, 4), (Scheduling.SWAP_AWARE, 2)):
        small = worlds.deployment(*services, memory_bytes=10, scheduling=scheduling)
        assert len(play(small, demand, 5.0).loads) == loads


@pytest.mark.parametrize(
    ("sizes", "count", "parts"),
    [
        ([1, 1, 1, 1], 2, [2, 2]),
        ([1, 1, 100], 3, [1, 1, 1]),
        ([100, 1, 1], 3, [1, 1, 1]),
        ([6, 1, 1, 1, 1, 2], 2, [1, 5]),
        ([3, 3, 3, 3, 3, 3], 3, [2, 2, 2]),
        ([5], 2, [1, 1]),
    ],
)
def test_a_pipeline_is_cut_where_bytes_are_equal(sizes: list[int], count: int, parts: list[int]) -> None:
    profile = worlds.profile("m", layers=[Layer(str(i), size) for i, size in enumerate(sizes)])
    assert [len(part) for part in cut(profile, count)] == parts


def test_a_pipeline_takes_the_sum_and_gives_the_rate_of_the_slowest() -> None:
    """0.3 and 0.7 s, 2 GB a sample over a 10 GB/s link: 0.3 + 0.2 + 0.7 = 1.2 s; then one every 0.7 s."""
    profile = worlds.profile(
        "m", 1.0, layers=(Layer("front", 30), Layer("back", 70)), output_bytes_per_sample=2 * 10**9
    )
    pipeline = worlds.deployment(worlds.service(profile, devices=[("g0", "g1")]), devices=2)
    one = play(pipeline, Workload((at("m", 1.0),)), 10.0)
    assert one.requests["m"].finish_s == pytest.approx([2.2])
    many = play(pipeline, Workload((at("m", *[0.0] * 20),)), 30.0)
    assert many.requests["m"].finish_s == pytest.approx(1.2 + 0.7 * np.arange(20))


def test_hand_overs_share_a_link_in_order() -> None:
    """Stages of 0.1 s, hand-overs of 0.5 s a sample: four at once arrive 0.5 s apart, a batch of two takes 1 s."""
    profile = worlds.profile(
        "m", 0.2, layers=(Layer("front", 50), Layer("back", 50)), output_bytes_per_sample=5 * 10**9
    )
    for most, finish_s in ((1, [0.7, 1.2, 1.7, 2.2]), (2, [1.2, 1.2, 2.2, 2.2])):
        split_model = worlds.service(profile, devices=[("g0", "g1")], batch=BatchingPolicy(most))
        result = play(worlds.deployment(split_model, devices=2), Workload((at("m", 0.0, 0.0, 0.0, 0.0),)), 10.0)
        assert result.requests["m"].finish_s == pytest.approx(finish_s)


def test_a_small_batch_does_not_overtake_a_large_one() -> None:
    """A batch of 4 is handed over from 0.1 to 2.1 s; the single request behind it follows, from 2.1 to 2.6 s."""
    profile = worlds.profile(
        "m", 0.2, layers=(Layer("front", 50), Layer("back", 50)), output_bytes_per_sample=5 * 10**9
    )
    split_model = worlds.service(profile, devices=[("g0", "g1")], batch=BatchingPolicy(4))
    result = play(worlds.deployment(split_model, devices=2), Workload((at("m", 0.0, 0.0, 0.0, 0.0, 0.05),)), 10.0)
    assert result.requests["m"].finish_s == pytest.approx([2.2, 2.2, 2.2, 2.2, 2.7])


def test_a_pipeline_gives_up_what_its_last_stage_would_finish_late() -> None:
    """Two stages of 0.5 s, the SLO is 1.6 s: the third of three at once would start at 1.0 and end at 2.0."""
    profile = worlds.profile("m", 1.0, layers=(Layer("front", 50), Layer("back", 50)))
    late = worlds.service(profile, devices=[("g0", "g1")], slo_s=1.6, drop=Drop.LATE)
    result = play(worlds.deployment(late, devices=2), Workload((at("m", 0.0, 0.0, 0.0),)), 10.0)
    assert result.requests["m"].finish_s == pytest.approx([1.0, 1.5, nan], nan_ok=True)


@pytest.mark.parametrize("waiting", [True, False])
def test_work_handed_over_while_the_next_gpu_is_busy_is_not_forgotten(waiting: bool) -> None:
    """The second stage's GPU runs another model when the first stage hands over; nothing else comes later."""
    split_model = worlds.profile("m", 1.0, layers=(Layer("front", 50), Layer("back", 50)))
    other = worlds.service(worlds.profile("other", 2.0), devices=("g1",))
    both = worlds.deployment(worlds.service(split_model, devices=[("g0", "g1")]), other, devices=2)
    result = play(both, Workload((at("m", 0.0), at("other", 0.3 if waiting else 5.0))), 10.0)
    assert result.requests["m"].finish_s == pytest.approx([2.8 if waiting else 1.0])


def test_what_cannot_be_is_refused() -> None:
    fits = worlds.service(worlds.profile("m"))
    one_card = worlds.deployment(fits)
    for wrong, text in (
        (worlds.deployment(worlds.service(worlds.profile("other"))), "which no service answers"),
        (worlds.deployment(fits, fits), "names must differ, got service 'm' twice"),
        (replace(one_card, devices=one_card.devices * 2), "names must differ, got device or host 'g0' twice"),
        (worlds.deployment(worlds.service(worlds.profile("m"), devices=("g7",))), "'g7' is not in the deployment"),
        (worlds.deployment(worlds.service(worlds.profile("m"), devices=())), "has no replica"),
        (worlds.deployment(fits, memory_bytes=10**8), "needs 0.11 GB"),
    ):
        with pytest.raises(DeploymentError, match=text):
            play(wrong, Workload((at("m", 0.0),)), 1.0)
