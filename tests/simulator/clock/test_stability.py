"""Stability: what drains and what grows, against the capacity that queueing theory gives in closed form."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import worlds
from support.random_worlds import in_stages, in_turns, on_links, world

from simulator.clock import run, stability
from simulator.clock.stability import compute_load, drain, longest_round_s, offered_load
from simulator.world.deployment import BatchingPolicy, Deployment, Drop, Routing, Scheduling, SwapPolicy
from simulator.world.model import Layer
from simulator.world.workload import Arrivals, FixedRate, Poisson, Stream, Workload

Kind = Callable[[int], tuple[Deployment, Workload]]
SERIES = (0.020, 0.026, 0.032, 0.038)
"""Run times of batches of 1 to 4."""


def alone(batch: int = 4, **options: object) -> Deployment:
    """One model on one GPU."""
    return worlds.deployment(worlds.service(worlds.profile("m", SERIES), batch=BatchingPolicy(batch), **options))  # type: ignore[arg-type]


def turns(prefetch: bool, count: int = 2, memory_bytes: int = 800_000_000) -> Deployment:
    """Models of 0.6 GB on a GPU that holds one of them; a load takes 60 ms."""
    services = (
        worlds.service(worlds.profile(f"m{i}", SERIES, layers=(Layer(f"m{i}", 600_000_000),)), batch=BatchingPolicy(4))
        for i in range(count)
    )
    return worlds.deployment(*services, memory_bytes=memory_bytes, swap=SwapPolicy(prefetch=prefetch))


@pytest.mark.parametrize("batch", [1, 2, 4])
@pytest.mark.parametrize("drop", [Drop.NEVER, Drop.LATE])
def test_one_model_bears_its_largest_batch_over_its_time(batch: int, drop: Drop) -> None:
    most_rps = batch / SERIES[batch - 1]
    given = alone(batch, drop=drop, slo_s=0.1)
    assert offered_load(given, {"m": 0.8 * most_rps}) == pytest.approx(0.8, rel=0.02)
    assert not drain(given, {"m": 0.97 * most_rps}).growing
    assert drain(given, {"m": 1.02 * most_rps}).growing == ("m",)


def test_busy_with_small_batches_is_not_overloaded() -> None:
    """At 45/s batches of 1 keep the GPU busy 90 % of the time; batches of 4 would take 43 %."""
    assert offered_load(alone(), {"m": 45.0}) == pytest.approx(45 * 0.038 / 4, rel=0.02)


def test_loads_of_weights_count_where_models_take_turns() -> None:
    """A round is two batches of 4 and two loads of 60 ms, which nothing hides: 8 requests in 196 ms."""
    most_rps = 4 / (2 * (0.038 + 0.060))
    given = turns(prefetch=False)
    assert longest_round_s(given) == pytest.approx(0.196)
    assert offered_load(given, {"m0": 0.7 * most_rps, "m1": 0.7 * most_rps}) == pytest.approx(0.7, rel=0.02)
    assert drain(given, {"m0": 1.03 * most_rps, "m1": 1.03 * most_rps}).growing == ("m0", "m1")


def one_by_one(scheduling: Scheduling, shares: Sequence[float]) -> Deployment:
    """Models of which one is loaded in 100 ms and then runs a request in 10 ms."""
    services = (
        worlds.service(worlds.profile(f"m{i}", 0.010, layers=(Layer(f"m{i}", 1_000_000_000),)), slo_s=3.0)
        for i in range(len(shares))
    )
    return worlds.deployment(
        *services, memory_bytes=1_300_000_000, swap=SwapPolicy(prefetch=False), scheduling=scheduling
    )


def asking(shares: Sequence[float], total_rps: float, arrivals: Callable[[float], Arrivals] = Poisson) -> Workload:
    """Streams that ask so large a share of all requests each."""
    return Workload(tuple(Stream(f"m{i}", arrivals(share * total_rps)) for i, share in enumerate(shares)))


@pytest.mark.parametrize("scheduling", [Scheduling.FCFS, Scheduling.EDF])
@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.75, 0.25), (0.2, 0.3, 0.5)])
def test_requests_at_random_served_as_they_come_load_for_those_that_follow_another_models(
    scheduling: Scheduling, shares: Sequence[float]
) -> None:
    """Of Poisson requests served one by one, 1 less the sum of the squares of shares ask for another model than the one
    before: of two models asked alike every second one, so that it takes 60 ms on average."""
    given = one_by_one(scheduling, shares)
    most_rps = 1 / (0.010 + 0.100 * (1 - sum(share**2 for share in shares)))
    for load in (0.6, 0.95, 1.05):
        asked = asking(shares, load * most_rps)
        assert bool(drain(given, asked.rates_rps(), asked).growing) is (load > 1)
    asked = asking(shares, 0.6 * most_rps)
    assert offered_load(given, asked.rates_rps(), asked) == pytest.approx(0.6, rel=0.03)


def test_cameras_that_alternate_load_for_each_request() -> None:
    given = one_by_one(Scheduling.FCFS, (0.5, 0.5))
    for load in (0.95, 1.05):
        asked = asking((0.5, 0.5), load / 0.110, FixedRate)
        assert bool(drain(given, asked.rates_rps(), asked).growing) is (load > 1)


def test_a_gpu_that_finishes_what_is_loaded_bears_nearly_its_work_alone() -> None:
    """Where the GPU goes on until none of a model wait, loads are the rarer the more wait (Takagi, 1988). An SLO of 3 s
    leaves time for that; a much shorter one has what is not loaded go first ever again."""
    given = one_by_one(Scheduling.SWAP_AWARE, (0.5, 0.5))
    for load in (0.8, 0.9, 1.05):
        asked = asking((0.5, 0.5), load / 0.010)
        assert bool(drain(given, asked.rates_rps(), asked).growing) is (load > 1)


def test_prefetch_hides_batches_behind_loads() -> None:
    """Three models, two of which fit: the next is loaded while one runs, so a round takes the three loads."""
    most_rps = 4 / (3 * 0.060)
    rates_rps = {f"m{i}": 0.9 * most_rps for i in range(3)}
    assert offered_load(turns(prefetch=True, count=3, memory_bytes=1_400_000_000), rates_rps) == pytest.approx(
        0.9, rel=0.03
    )


def test_the_fuller_stage_of_a_pipeline_decides() -> None:
    """Of 1 GB the first GPU has 0.8: it takes 0.8 of each batch's time, the second 0.2."""
    layers = (Layer("first", 800_000_000), Layer("second", 200_000_000))
    given = worlds.deployment(
        worlds.service(worlds.profile("m", 0.010, layers=layers), devices=[("g0", "g1")]), devices=2
    )
    assert offered_load(given, {"m": 100.0}) == pytest.approx(0.8, rel=0.02)


def test_a_model_that_gets_one_request_a_round_may_starve_beside_idle_time() -> None:
    """Batches of 1 in turn with batches that take 100 ms: 10/s at most, though 1 ms each is only 2 % of the time."""
    small = worlds.service(worlds.profile("small", 0.001))
    long = worlds.service(worlds.profile("long", (0.100,) * 8), batch=BatchingPolicy(8))
    given = worlds.deployment(small, long)
    assert drain(given, {"small": 20.0, "long": 79.0}).growing
    assert not drain(given, {"small": 8.0, "long": 70.0}).growing


@settings(max_examples=25, deadline=None)
@given(
    load=st.floats(0.3, 1.3),
    models=st.integers(1, 3),
    scheduling=st.sampled_from([Scheduling.ROUND_ROBIN, Scheduling.FCFS]),
    routing=st.sampled_from(list(Routing)),
    devices=st.integers(1, 2),
)
def test_equal_models_bear_what_their_batches_do(
    load: float, models: int, scheduling: Scheduling, routing: Routing, devices: int
) -> None:
    """Alike models on alike GPUs with full batches: each GPU serves 4 requests in 38 ms, whichever they are."""
    services = (
        worlds.service(
            worlds.profile(f"m{i}", SERIES),
            batch=BatchingPolicy(4),
            devices=[f"g{j}" for j in range(devices)],
            routing=routing,
        )
        for i in range(models)
    )
    given = worlds.deployment(*services, devices=devices, scheduling=scheduling)
    rates_rps = {f"m{i}": load * devices * 4 / 0.038 / models for i in range(models)}
    if not 0.95 < load < 1.03:  # at the very edge a batch more or less decides
        assert bool(drain(given, rates_rps).growing) is (load > 1)


@settings(max_examples=15, deadline=None)
@given(rate_rps=st.floats(1.0, 60.0), factor=st.floats(1.1, 2.0), prefetch=st.booleans())
def test_more_demand_never_drains_where_less_did_not(rate_rps: float, factor: float, prefetch: bool) -> None:
    given, less = turns(prefetch), {"m0": rate_rps, "m1": rate_rps / 2}
    if drain(given, less).growing:
        assert drain(given, {model: factor * rate for model, rate in less.items()}).growing


@pytest.mark.parametrize(("kind", "worlds_seen"), [(world, 30), (in_turns, 4), (on_links, 4)])
def test_machine_code_finds_the_same_to_grow(monkeypatch: pytest.MonkeyPatch, kind: Kind, worlds_seen: int) -> None:
    pytest.importorskip("numba")
    monkeypatch.setattr(run.Compiled, "worth_requests", -1)
    monkeypatch.setattr(run.TURNS, "worth", -1)
    kept = {"none": 0, "some": 0, "all": 0}
    for number in range(worlds_seen):
        deployment, workload = kind(number)
        rates_rps = dict.fromkeys((one.model for one in deployment.services), 0.0) | dict(workload.rates_rps())
        usual = compute_load(deployment, rates_rps)
        for load in (0.6, 0.97, 1.03):
            asked = {model: rate * load / usual for model, rate in rates_rps.items()}
            seen = []
            for installed in (True, False):
                monkeypatch.setattr(run.Compiled, "installed", installed)
                stability._known.cache_clear()
                seen.append(drain(deployment, asked))
            assert seen[0] == seen[1], f"world {number} at {load:g}"
            assert stability._backlog(deployment, tuple(rates_rps), True)
            growing = len(seen[0].growing)
            kept["none" if not growing else "all" if growing == len(asked) else "some"] += 1
    assert min(kept.values()) > worlds_seen // 6


def test_machine_code_finds_the_same_to_grow_where_bursts_meet_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    monkeypatch.setattr(run.Compiled, "worth_requests", -1)
    monkeypatch.setattr(run.TURNS, "worth", -1)
    deployment, workload = in_stages(0)
    rates_rps = workload.rates_rps()
    usual = compute_load(deployment, rates_rps)
    growing = []
    for load in (0.5, 1.03):
        asked = {model: rate * load / usual for model, rate in rates_rps.items()}
        seen = []
        for installed in (True, False):
            monkeypatch.setattr(run.Compiled, "installed", installed)
            seen.append(drain(deployment, asked, workload))
        assert seen[0] == seen[1]
        assert stability._backlog(deployment, tuple(rates_rps), True)
        growing.append(len(seen[0].growing))
    assert growing == [0, len(deployment.services)]
