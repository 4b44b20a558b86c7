"""Drop rules, what is left after them, and shared queues: held against programs that are slow and plain."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import inf, nan

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support import worlds

from calibrate.serving.executor import Executor, RealGpu, Stopwatch, WaitingLine
from simulator.clock.drivers import time_until
from simulator.clock.records import SimulationResult
from simulator.clock.run import simulate, stages
from simulator.clock.serving import ServingGpu
from simulator.rules.batching import EPSILON_S, first_kept
from simulator.rules.queues import Stage
from simulator.world.curves import LoadTime
from simulator.world.deployment import BatchingPolicy, Deployment, Drop, Routing, Service, SwapPolicy
from simulator.world.hardware import Host
from simulator.world.model import Layer
from simulator.world.workload import Stream, Trace, Workload

AT_ONCE = 1e30
"""Bytes per second of a link that costs no time."""
LAYER_BYTES = 10
DURATION_S = 5.0
MODELS = ("a", "b", "c")


# One frame at a time


def kept_one_by_one(
    waiting: Sequence[float], start_s: float, drop: Drop, slo_s: float, service_s: Sequence[float]
) -> list[float]:
    """What is left of `waiting`: the drop rule to the letter, without a thought of speed."""
    most = len(service_s) - 1
    if drop in (Drop.NEWEST, Drop.NEWEST_AND_LATE):
        waiting = waiting[-most:]
    if drop in (Drop.LATE, Drop.NEWEST_AND_LATE):
        while waiting:
            batch = waiting[:most]
            if batch[0] >= start_s + service_s[len(batch)] - slo_s - EPSILON_S:
                break
            waiting = waiting[1:]
    return list(waiting)


def test_a_frame_that_the_smaller_batch_answers_in_time_is_kept() -> None:
    """Now 60 ms, SLO 100 ms. Of three, the frame of 0 ms would end at 130. Of two, that of 20 ms ends at 110 <= 120."""
    service_s = [0.0, 0.03, 0.05, 0.07]
    assert first_kept([0.0, 0.02, 0.04], 0, 3, 0.06, 0.06, Drop.LATE, 0.1, service_s) == 1


def test_the_batch_is_filled_up_from_the_queue() -> None:
    """Batches of two at most, 50 ms each, now 120 ms, SLO 100 ms: 0, 20 and 60 ms are late, behind them is 80 ms."""
    times_s = [0.0, 0.02, 0.06, 0.08, 0.1, 0.11]
    assert first_kept(times_s, 0, 6, 0.12, 0.12, Drop.LATE, 0.1, [0.0, 0.05, 0.05]) == 3


def test_a_large_batch_may_be_quicker_than_a_small_one() -> None:
    """A batch of two takes 10 ms, one alone 90 ms: of two frames the older is on time, and the last of one is not."""
    service_s = [0.0, 0.09, 0.01]
    assert first_kept([0.0, 0.01], 0, 2, 0.05, 0.05, Drop.LATE, 0.1, service_s) == 0
    assert first_kept([0.0], 0, 1, 0.05, 0.05, Drop.LATE, 0.1, service_s) == 1


@given(
    times=st.lists(st.integers(0, 40), max_size=30).map(sorted),
    gone=st.integers(0, 3),
    now=st.integers(0, 41),
    load=st.integers(0, 5),
    slo=st.integers(1, 30),
    service=st.lists(st.integers(1, 25), min_size=1, max_size=8),
    drop=st.sampled_from([Drop.LATE, Drop.NEWEST, Drop.NEWEST_AND_LATE]),
)
def test_frames_are_given_up_one_by_one(
    times: list[int], gone: int, now: int, load: int, slo: int, service: list[int], drop: Drop
) -> None:
    """Whatever waits, and whichever way the time of a batch depends on its size."""
    head = min(gone, len(times))
    service_s = [0.0, *map(float, service)]
    waiting = [t for t in times[head:] if t <= now]
    left = kept_one_by_one(waiting, now + load, drop, slo, service_s)
    found = first_kept(times, head, len(times), now, now + load, drop, slo, service_s)
    assert found == head + len(waiting) - len(left)


class Counted(list[float]):
    """A list that counts how often it is looked into."""

    looks = 0

    def __getitem__(self, place):
        self.looks += 1
        return super().__getitem__(place)


@pytest.mark.parametrize("on_time", [0, 3, 500])
def test_a_long_backlog_is_given_up_in_a_few_looks(on_time: int) -> None:
    """100,000 frames are late, behind them some are not: bisection takes 17 steps, not 100,000."""
    times_s = Counted([0.0] * 100_000 + [9.0] * on_time)
    service_s = [0.0] + [1.0] * 32
    assert first_kept(times_s, 0, len(times_s), 9.5, 9.5, Drop.LATE, 2.0, service_s) == 100_000
    assert times_s.looks < 150


# A GPU that serves several models in turn


def random_services(seed: int) -> tuple[list[Service], dict[str, list[float]]]:
    """Three models of random times, SLOs, batches, delays and drop rules, and when they are asked."""
    rng = np.random.default_rng(seed)
    services, asked = [], {}
    for model in MODELS:
        most = int(rng.integers(1, 7))
        latency_s = rng.uniform(0.005, 0.03) + np.cumsum(rng.uniform(0.0, 0.02, most))
        if rng.uniform() < 0.3:
            latency_s = rng.permutation(latency_s)  # times need not grow with the batch
        profile = worlds.profile(
            model,
            latency_s.tolist(),
            layers=[Layer(model, LAYER_BYTES)],
            workspace_bytes=0,
            load=LoadTime(0.0, AT_ONCE),
        )
        delay_s = float(rng.choice([0.0, 0.01, 0.05]))
        services.append(
            worlds.service(
                profile,
                batch=BatchingPolicy(most, delay_s),
                slo_s=float(rng.uniform(0.06, 0.2)),
                drop=list(Drop)[rng.integers(4)] if rng.uniform() < 0.4 else Drop.LATE,
            )
        )
        rate_rps = rng.uniform(0.2, 0.6) * most / latency_s[-1]
        count = int(rate_rps * DURATION_S)
        asked[model] = sorted(rng.uniform(0.001, DURATION_S, count).tolist())
    return services, asked


def ready_s(times_s: Sequence[float], policy: BatchingPolicy) -> float:
    """When the first batch of `times_s` may run."""
    if not times_s:
        return inf
    waited_s = times_s[0] + policy.max_queue_delay_s
    is_full_s = times_s[policy.max_batch_size - 1] if len(times_s) >= policy.max_batch_size else inf
    return max(times_s[0], min(waited_s, is_full_s))


def answered_in_turn(services: Sequence[Service], asked: dict[str, list[float]]) -> dict[str, np.ndarray]:
    """One GPU by hand: start and finish of each request. A dropped one finishes at NaN, one that waits is NaN."""
    left = [list(asked[service.model]) for service in services]
    rows: list[list[tuple[float, float]]] = [[] for _ in services]
    now_s, last = 0.0, len(services) - 1
    while now_s < DURATION_S:
        when_s = [ready_s(times_s, s.replicas[0].batching) for times_s, s in zip(left, services, strict=True)]
        turns = [(last + 1 + i) % len(services) for i in range(len(services))]
        turn = next((i for i in turns if when_s[i] <= now_s), None)
        if turn is None:
            now_s = min(when_s)
            continue
        last, service = turn, services[turn]
        most = service.replicas[0].batching.max_batch_size
        service_s = [0.0] + [service.replicas[0].profile.latency(n) for n in range(1, most + 1)]
        waiting = [t for t in left[turn] if t <= now_s]
        kept = kept_one_by_one(waiting, now_s, service.drop, service.slo.latency_s, service_s)
        batch = kept[:most]
        rows[turn] += [(now_s, nan)] * (len(waiting) - len(kept))
        left[turn] = left[turn][len(waiting) - len(kept) + len(batch) :]
        if batch:
            finish_s = now_s + service_s[len(batch)]
            rows[turn] += [(now_s, finish_s if finish_s <= DURATION_S else nan)] * len(batch)
            now_s = finish_s
    columns = [r + [(nan, nan)] * len(t) for r, t in zip(rows, left, strict=True)]
    return {service.model: np.array(column) for service, column in zip(services, columns, strict=True)}


def on_one_gpu(services: Sequence[Service], *, models_that_fit: int) -> Deployment:
    """Where not all models fit, they are swapped, at no cost of time."""
    return worlds.deployment(
        *services,
        memory_bytes=models_that_fit * LAYER_BYTES,
        root_bytes_per_s=AT_ONCE,
        swap=SwapPolicy(prefetch=False),
    )


def played(deployment: Deployment, asked: dict[str, list[float]], duration_s: float = DURATION_S) -> SimulationResult:
    streams = (Stream(model, Trace(np.array(times_s), duration_s)) for model, times_s in asked.items())
    return simulate(deployment, Workload(tuple(streams)), duration_s)


def starts_and_ends(result: SimulationResult) -> dict[str, np.ndarray]:
    return {model: np.column_stack([r.start_s, r.finish_s]) for model, r in result.requests.items()}


def same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> bool:
    return all(np.array_equal(found[model], expected[model], equal_nan=True) for model in MODELS)


def by_the_clock(patch: pytest.MonkeyPatch) -> None:
    """No GPU runs ahead of the others."""
    patch.setattr(ServingGpu, "clocked", property(lambda self: True))


@pytest.mark.parametrize("seed", range(20))
def test_every_request_starts_and_ends_as_by_hand(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for all models and with swaps that take no time, ahead of the clock and by it."""
    services, asked = random_services(seed)
    expected = answered_in_turn(services, asked)
    resident = on_one_gpu(services, models_that_fit=3)
    swapped = on_one_gpu(services, models_that_fit=2)
    ahead = played(resident, asked), played(swapped, asked)
    by_the_clock(monkeypatch)
    clocked = played(resident, asked), played(swapped, asked)
    assert [len(result.loads) > 0 for result in (*ahead, *clocked)] == [False, True, False, True]
    for result in (*ahead, *clocked):
        assert same(starts_and_ends(result), expected)


def test_the_random_worlds_are_worth_the_name() -> None:
    """Some requests finish, some are dropped, and some batches wait for more."""
    finished = dropped = 0
    for seed in range(20):
        services, asked = random_services(seed)
        for rows in answered_in_turn(services, asked).values():
            finished += np.count_nonzero(~np.isnan(rows[:, 1]))
            dropped += np.count_nonzero(np.isnan(rows[:, 1]) & (rows[:, 0] < DURATION_S - 0.5))
    assert dropped > 500
    assert finished > 5000


# The executor, which serves for real by the same rules, played here with a clock that only moves when it is told to


class NoWeights:
    """Weights that are nowhere."""

    device = None

    def load(self, keys) -> None:
        pass

    def evict(self, keys) -> None:
        pass


class Hand(Stopwatch):
    """A clock that is moved by hand."""

    now = 0.0


class Played(Executor):
    """An executor whose time passes by what its batches are expected to take."""

    def _rest(self, until_s: float) -> bool:
        self.clock.now = max(self.clock.now, until_s)
        return False


def executed(deployment: Deployment, asked: dict[str, list[float]]) -> dict[str, np.ndarray]:
    """What `calibrate.serving.executor` makes of the same requests."""
    clock = Hand()
    lines: list[WaitingLine] = []
    for service in deployment.services:
        (stage,) = stages(service, service.replicas[0], deployment.swap, None)
        stage = replace(stage, load_t0_s=0.0, load_bytes_per_s=AT_ONCE)
        lines.append(WaitingLine(service, stage, asked[service.model], partial(pass_time, clock, stage)))
    executor = Played(RealGpu(deployment, lines, NoWeights()))  # type: ignore[arg-type]
    executor.clock = clock
    assert executor.serve(lambda: 0.0, DURATION_S, lambda: False) is None
    return {line.stage.model: ends_of(line) for line in lines}


def pass_time(clock: Hand, stage: Stage, count: int) -> None:
    clock.now += stage.service_s[count]


def ends_of(line: WaitingLine) -> np.ndarray:
    log = line.log
    ends_s = np.array([end_s if end_s <= DURATION_S else nan for end_s in log.finish_s])
    rows = np.repeat(np.column_stack([log.start_s, ends_s]), log.count, axis=0)
    return np.vstack([rows, np.full((len(line.times) - len(rows), 2), nan)])


@pytest.mark.parametrize("models_that_fit", [3, 2])
@pytest.mark.parametrize("seed", range(8))
def test_the_executor_keeps_the_same_rules(seed: int, models_that_fit: int) -> None:
    services, asked = random_services(seed)
    deployment = on_one_gpu(services, models_that_fit=models_that_fit)
    assert same(executed(deployment, asked), answered_in_turn(services, asked))


# What a drop leaves


def left_alone(model: str, *, delay_s: float) -> Service:
    """Batches of up to 4 take 50 ms, the SLO is 200 ms."""
    profile = worlds.profile(model, 0.05, layers=[Layer(model, LAYER_BYTES)], workspace_bytes=0)
    return worlds.service(profile, batch=BatchingPolicy(4, delay_s), slo_s=0.2, drop=Drop.LATE)


@pytest.mark.parametrize("clocked", [False, True])
@pytest.mark.parametrize("models_that_fit", [2, 1])
def test_what_is_left_after_a_drop_runs_at_once(
    models_that_fit: int, clocked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another model runs from 10 to 160 ms. The batch of 0 s is ready at 100 ms; at 160 ms its frame of 0 s is late.

    The frame of 120 ms starts at once, not at 220 ms. At 1 s nothing is left to go on with: the next waits its 100 ms.
    """
    if clocked:
        by_the_clock(monkeypatch)
    other = worlds.service(worlds.profile("b", 0.15, layers=[Layer("b", LAYER_BYTES)], workspace_bytes=0))
    deployment = on_one_gpu([left_alone("a", delay_s=0.1), other], models_that_fit=models_that_fit)
    result = played(deployment, {"a": [0.0, 0.12, 1.0], "b": [0.01]})
    assert result.requests["a"].start_s == pytest.approx([0.16, 0.16, 1.1])
    assert result.requests["a"].finish_s == pytest.approx([nan, 0.21, 1.15], nan_ok=True)


@pytest.mark.parametrize("models_that_fit", [2, 1])
def test_where_nothing_is_left_the_next_waits_its_time(models_that_fit: int) -> None:
    """The only frame is given up at 310 ms. The one of 320 ms is a batch of its own, which may run at 420 ms."""
    other = worlds.service(worlds.profile("b", 0.3, layers=[Layer("b", LAYER_BYTES)], workspace_bytes=0))
    deployment = on_one_gpu([left_alone("a", delay_s=0.1), other], models_that_fit=models_that_fit)
    result = played(deployment, {"a": [0.0, 0.32], "b": [0.01]})
    assert result.requests["a"].start_s == pytest.approx([0.31, 0.42])


def test_what_is_left_of_a_shared_queue_may_be_drawn_by_all() -> None:
    """Loads take 200 ms, batches 50 ms, SLO 300 ms. The batch of 1.00 and 1.08 s is ready at 1.1 s; both GPUs are busy.

    g0 is free at 1.12 s, gives up the frame of 1.00 s, which would end at 1.37 s, and begins to load. g1 is free at
    1.15 s, needs no load, and draws the rest there and then, not at 1.18 s, when it will have waited 100 ms.
    """
    load = LoadTime(0.0, LAYER_BYTES / 0.2)
    model = worlds.service(
        worlds.profile("m", 0.05, layers=[Layer("m", LAYER_BYTES)], workspace_bytes=0, load=load),
        devices=("g0", "g1"),
        batch=BatchingPolicy(4, 0.1),
        slo_s=0.3,
        drop=Drop.LATE,
        routing=Routing.SHARED,
    )
    others = [
        worlds.service(
            worlds.profile(name, took_s, layers=[Layer(name, LAYER_BYTES)], workspace_bytes=0, load=load),
            devices=(name,),
        )
        for name, took_s in (("g0", 0.92), ("g1", 1.15))
    ]
    both = worlds.deployment(model, *others, devices=2, hosts=2, memory_bytes=LAYER_BYTES)
    roomy = replace(both.devices[1], memory_bytes=2 * LAYER_BYTES)
    result = played(replace(both, devices=(both.devices[0], roomy)), {"m": [1.0, 1.08], "g0": [0.0], "g1": [0.0]})
    assert result.requests["m"].start_s == pytest.approx([1.12, 1.15])
    assert result.requests["m"].finish_s == pytest.approx([nan, 1.2], nan_ok=True)


# Shared queues


def drawn_in_order(times_s: Sequence[float], service: Service) -> list[tuple[float, float, int]]:
    """Start, finish and replica of each request, where the first listed of those that are free draws."""
    replicas = len(service.replicas)
    most, latency_s = service.replicas[0].batching.max_batch_size, service.replicas[0].profile.latency
    free_s = [0.0] * replicas
    rows: list[tuple[float, float, int]] = []
    while len(rows) < len(times_s):
        now_s = max(times_s[len(rows)], min(free_s))
        first = next(r for r in range(replicas) if free_s[r] <= now_s)
        count = sum(t <= now_s for t in times_s[len(rows) : len(rows) + most])
        free_s[first] = now_s + latency_s(count)
        rows += [(now_s, free_s[first], first)] * count
    return rows


def shared(latency_s: Sequence[float], devices: Sequence[str], **options) -> Service:
    return worlds.service(
        worlds.profile("m", latency_s, layers=[Layer("m", LAYER_BYTES)], workspace_bytes=0, **options),
        devices=devices,
        batch=BatchingPolicy(len(latency_s)),
        routing=Routing.SHARED,
    )


def batches_by_device(result: SimulationResult) -> dict[str, list[float]]:
    return {b.device: b.start_s.tolist() for b in result.batches if b.model == "m"}


def test_the_replica_that_is_listed_first_draws_first() -> None:
    """1 s each. At 0 and 3 s all are idle, at 0.5 s the first one runs, at 4 s it has just ended."""
    deployment = worlds.deployment(shared([1.0], ("g2", "g0", "g1")), devices=3)
    result = played(deployment, {"m": [0.0, 0.5, 3.0, 4.0, 4.0]}, 10.0)
    assert batches_by_device(result) == {"g2": [0.0, 3.0, 4.0], "g0": [0.5, 4.0], "g1": []}


@given(
    hundredths=st.lists(st.integers(0, 120), min_size=1, max_size=25).map(sorted),
    service=st.lists(st.integers(1, 30), min_size=1, max_size=3),
    order=st.permutations(["g0", "g1", "g2"]),
)
@example(hundredths=[0, 11], service=[4], order=["g0", "g1", "g2"])  # from 0.04 s on, 0.07 s end after 0.11 s
def test_replicas_draw_in_the_order_of_the_list(hundredths: list[int], service: list[int], order: list[str]) -> None:
    """On a grid of 10 ms, where arrivals and ends of batches often fall on the same moment, but for rounding."""
    times_s, model = [h / 100 for h in hundredths], shared([s / 100 for s in service], order)
    result = played(worlds.deployment(model, devices=3), {"m": times_s}, 20.0)
    expected = drawn_in_order(times_s, model)
    assert result.requests["m"].start_s.tolist() == [start_s for start_s, _, _ in expected]
    assert result.requests["m"].finish_s.tolist() == [finish_s for _, finish_s, _ in expected]
    starts = {name: sorted({s for s, _, r in expected if order[r] == name}) for name in order}
    assert batches_by_device(result) == starts


@pytest.mark.parametrize("order", [("g0", "g1"), ("g1", "g0")])
def test_loads_that_end_together_leave_the_draw_to_the_first_of_the_list(order: tuple[str, str]) -> None:
    """Room for one model. A request at 2 s: g1 loads from 2 to 4 s; g0 runs another until 3 s, then loads until 4."""
    load = LoadTime(0.0, 10.0)
    others = [
        worlds.service(
            worlds.profile(name, 2.0, layers=[Layer(name, LAYER_BYTES)], workspace_bytes=0, load=load), devices=(name,)
        )
        for name in ("g0", "g1")
    ]
    hosts = Host(id="h0", pcie_root_bytes_per_s=10.0), Host(id="h1", pcie_root_bytes_per_s=5.0)
    both = worlds.deployment(shared([0.5], order, load=load), *others, devices=2, hosts=2, memory_bytes=LAYER_BYTES)
    result = played(replace(both, hosts=hosts), {"m": [2.0], "g0": [0.0]}, 10.0)
    assert [(load.device, load.finish_s) for load in result.loads if load.model == "m"] == [("g0", 4.0), ("g1", 4.0)]
    assert batches_by_device(result) == {order[0]: [4.0], order[1]: []}


@given(st.floats(0.0, 1e4), st.floats(0.0, 1e4))
@example(0.04, 0.11)
def test_nobody_oversleeps(a_s: float, b_s: float) -> None:
    """Who sleeps until a moment wakes in it, or a little before and then in it."""
    now_s, at_s = min(a_s, b_s), max(a_s, b_s)
    early_s = now_s + time_until(now_s, at_s)
    assert early_s <= at_s
    assert early_s + time_until(early_s, at_s) == at_s
    assert time_until(at_s, now_s) == 0.0
