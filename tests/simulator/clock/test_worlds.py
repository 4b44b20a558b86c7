"""Worlds of one deployment: the figures of each are those of a replication of its own, to the last bit."""

import gc
from collections.abc import Callable, Sequence
from dataclasses import replace
from weakref import ref

import numpy as np
import pytest
from support.random_worlds import alike, doubted, in_stages, in_turns, on_links, routed, world

from simulator.clock import run, stability
from simulator.clock.metrics import finished_latency_s, summarise
from simulator.clock.records import SimulationResult
from simulator.clock.replays.arrivals import Arrivals
from simulator.clock.worlds import Shares, WorldFigures, Worlds
from simulator.rules.latencies import counts_of
from simulator.world.deployment import BatchingPolicy, Deployment, Failures, Routing
from simulator.world.workload import Cameras, Workload, _frames_of, draw, frames_each

DURATION_S, WARMUP_S = 1.0, 0.2
ROUNDING = 1e-12
WORLDS = {world: range(40), routed: range(24), in_turns: range(8), on_links: range(8), in_stages: (14, 19)}
"""By kind; of models cut into stages such as SimPy soon sees the backlogs of."""
SEEDS = (3, 4, 5)
Kind = Callable[[int], tuple[Deployment, Workload]]


def worlds(deployment: Deployment, workload: Workload) -> Worlds:
    """Of the demand that it is asked."""
    rates_rps = dict.fromkeys((one.model for one in deployment.services), 0.0) | dict(workload.rates_rps())
    return Worlds(deployment, workload, DURATION_S, WARMUP_S, rates_rps)


def compare(seen: WorldFigures, deployment: Deployment, workload: Workload, seed: int) -> SimulationResult:
    """With a replication of its own, which is returned."""
    result = run.simulate(deployment, workload, DURATION_S, seed)
    assert repr(seen.summary) == repr(summarise(result, WARMUP_S)), f"seed {seed}"
    assert seen.requests == result.request_count
    for model, requests in result.requests.items():
        counts = counts_of(finished_latency_s(requests, WARMUP_S))
        np.testing.assert_array_equal(seen.latency_counts[model], counts)
    return result


def compare_shares(seen: Shares, figures: Sequence[WorldFigures]) -> None:
    """With all that the same replications showed."""
    assert seen.growing == tuple(one.growing for one in figures)
    assert seen.requests == sum(one.requests for one in figures)
    for model, in_time in seen.in_time.items():
        np.testing.assert_array_equal(in_time, [one.summary.models[model].slo_attainment for one in figures])


@pytest.mark.parametrize("kind", WORLDS)
@pytest.mark.parametrize("is_doubted", [False, True])
def test_machine_code_gives_the_same_figures(monkeypatch: pytest.MonkeyPatch, is_doubted: bool, kind: Kind) -> None:
    pytest.importorskip("numba")
    unstable = 0
    for number in WORLDS[kind]:
        deployment, workload = kind(number)
        if is_doubted:
            deployment = doubted(deployment, number)
        if kind is in_stages:
            deployment = alike(deployment)
        threads = 1 + number % 3
        monkeypatch.setattr("simulator.clock.worlds.cores", lambda threads=threads: threads)
        monkeypatch.setattr("simulator.clock.worlds.REQUESTS_FOR_THREADS", 0)
        monkeypatch.setattr("simulator.clock.replays.places.FACTORS_FIRST", threads)  # soon all used up
        monkeypatch.setattr("simulator.clock.replays.places.SENT_LEAST", 1)  # soon full
        monkeypatch.setattr(run.Compiled, "worth_requests", -1)
        monkeypatch.setattr(run.Compiled, "installed", True)
        monkeypatch.setattr(run.TURNS, "worth", 0)
        many = worlds(deployment, workload)
        figures = list(many.seen(SEEDS))
        compare_shares(many.shares(SEEDS), figures)
        for one, (again, records) in zip(figures, many.recorded(SEEDS), strict=True):
            assert repr(again.summary) == repr(one.summary) == repr(summarise(records, WARMUP_S))
        for seed, seen in zip(SEEDS, figures, strict=True):
            monkeypatch.setattr(run.Compiled, "installed", False)
            result = compare(seen, deployment, workload, seed)
            for installed in (False, True):
                monkeypatch.setattr(run.Compiled, "installed", installed)
                stability._known.cache_clear()
                on_the_clock = many.figures(result)
                assert on_the_clock.growing == seen.growing
                np.testing.assert_allclose(on_the_clock.load, seen.load, rtol=ROUNDING)
            unstable += 0 < len(seen.growing) < len(deployment.services)
    assert unstable or not is_doubted


@pytest.mark.parametrize("routing", Routing)
def test_worlds_in_which_nobody_fails_are_those_without_failures(
    monkeypatch: pytest.MonkeyPatch, routing: Routing
) -> None:
    """And all others are replayed on the clock."""
    monkeypatch.setattr(run.Compiled, "worth_requests", -1)
    deployment, workload = world(7)
    failing = replace(
        deployment,
        services=tuple(replace(one, routing=routing) for one in deployment.services),
        failures=Failures(mean_time_between_s=2.0, recovery_s=1.0),
    )
    many, seeds = worlds(failing, workload), range(12)
    figures = list(many.seen(seeds))
    for seed, seen in zip(seeds, figures, strict=True):
        compare(seen, failing, workload, seed)
    compare_shares(many.shares(seeds), figures)
    assert {run.nobody_fails(failing, DURATION_S, seed) for seed in seeds} == {True, False}


def test_machine_code_leaves_other_routing_to_the_clock() -> None:
    pytest.importorskip("numba")
    many, workload = world(next(n for n in range(50) if any(len(s.replicas) > 1 for s in world(n)[0].services)))

    def is_compiled(routing: Routing, delay_s: float) -> bool:
        policy = BatchingPolicy(max_batch_size=4, max_queue_delay_s=delay_s)
        services = [
            replace(one, routing=routing, replicas=tuple(replace(r, batching=policy) for r in one.replicas))
            for one in many.services
        ]
        return worlds(replace(many, services=tuple(services)), workload)._plain is not None

    assert is_compiled(Routing.ROUND_ROBIN, 0.1)
    assert is_compiled(Routing.SHARED, 0.1)
    assert is_compiled(Routing.LEAST_OUTSTANDING, 0.0)
    assert not is_compiled(Routing.LEAST_OUTSTANDING, 0.1)
    assert not is_compiled("one that is new", 0.0)  # type: ignore[arg-type]


def test_arrivals_are_drawn_once_while_they_are_kept() -> None:
    _, workload = world(1)
    _, other = world(2)
    one = sum(asked.arrival_s.nbytes + asked.source.nbytes for asked in draw(workload, DURATION_S, 1).values())
    arrivals = Arrivals(limit_bytes=int(1.5 * one))
    first = arrivals.of(workload, DURATION_S, 1)
    second = arrivals.of(workload, DURATION_S, 2)
    assert arrivals.held_bytes <= arrivals.limit_bytes
    assert arrivals.of(workload, DURATION_S, 1) is first
    assert arrivals.of(workload, DURATION_S, 2) is not second
    arrivals.of(other, DURATION_S, 1)
    again = arrivals.of(workload, DURATION_S, 1)
    assert again is not first
    for model, asked in again.items():
        np.testing.assert_array_equal(asked.arrival_s, first[model].arrival_s)


def test_frames_of_cameras_come_in_order_where_phases_are_a_bit_apart() -> None:
    compiled = pytest.importorskip("simulator.clock.compiled")
    rng = np.random.default_rng(5)
    swapped = 0
    for _ in range(500):
        rate_rps, duration_s = float(rng.choice([3.0, 7.0, 15.0, 29.97])), float(rng.uniform(0.5, 4))
        period_s = 1 / rate_rps
        edges = [0.0, period_s, np.nextafter(period_s, 0), np.nextafter(period_s, 1), period_s / 2]
        phases_s = np.sort(rng.choice(edges, 6))
        whose = np.arange(6, dtype=np.int32)
        asked = _frames_of(Cameras(rate_rps, phases_s, whose, whose), duration_s).arrival_s
        frames = frames_each(rate_rps, duration_s)
        swapped += bool(np.any(np.diff((np.arange(frames)[:, None] / rate_rps + phases_s).ravel()) < 0))
        arrival_s = np.empty(6 * frames)
        end = compiled._film(phases_s, rate_rps, arrival_s, 0, duration_s)
        np.testing.assert_array_equal(arrival_s[:end], asked)
    assert swapped > 50


def test_worlds_that_are_let_go_take_their_room_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large fleet's takes hundreds of megabytes, and a search has dozens: none waits for the next collection."""
    pytest.importorskip("numba")
    monkeypatch.setattr(run.Compiled, "worth_requests", -1)
    many = worlds(*world(0))
    assert list(many.seen(SEEDS))
    assert many._plain
    room = ref(many._plain)
    gc.disable()
    try:
        del many
        assert room() is None
    finally:
        gc.enable()
