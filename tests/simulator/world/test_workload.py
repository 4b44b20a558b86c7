"""Arrivals: their rates, their order and what they depend on."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.world.workload import (
    Arrivals,
    FixedRate,
    Gamma,
    Poisson,
    Stream,
    Trace,
    Workload,
    draw,
    scaled,
    steady_cameras,
)

KINDS = st.one_of(
    st.floats(0.5, 50).map(Poisson),
    st.builds(Gamma, st.floats(0.5, 50), st.floats(0.3, 5)),
    st.builds(FixedRate, st.floats(0.5, 50), st.sampled_from([None, 0.0, 0.7]), st.sampled_from([0.0, 0.1])),
    st.just(Trace(np.array([0.0, 0.1, 0.1, 2.0]), 2.5)),
)


@given(st.lists(st.builds(Stream, st.sampled_from("ab"), KINDS, st.integers(1, 4)), max_size=4), st.integers(0, 99))
def test_arrivals_are_sorted_inside_the_horizon_and_named(streams: list[Stream], seed: int) -> None:
    demand = draw(Workload(tuple(streams)), 7.0, seed)
    assert set(demand) == {stream.model for stream in streams}
    for model, columns in demand.items():
        assert np.all(np.diff(columns.arrival_s) >= 0)
        assert np.all((columns.arrival_s >= 0) & (columns.arrival_s < 7.0))
        sources = np.split(np.arange(sum(s.count for s in streams)), np.cumsum([s.count for s in streams])[:-1])
        mine = [n for s, numbers in zip(streams, sources, strict=True) if s.model == model for n in numbers]
        assert set(columns.source) <= set(mine)


@pytest.mark.parametrize("arrivals", [Poisson(2.0), Gamma(2.0, 4.0), Gamma(2.0, 0.2), FixedRate(2.0)])
@pytest.mark.parametrize("duration_s", [0.3, 40.0])
def test_rates_hold_from_the_first_moment(arrivals: Arrivals, duration_s: float) -> None:
    """No start-up effect: even in a window shorter than a gap the mean count is rate x time (4 standard errors)."""
    workload = Workload((Stream("m", arrivals, 3),))
    counts = [len(draw(workload, duration_s, seed)["m"].arrival_s) for seed in range(400)]
    assert np.mean(counts) == pytest.approx(6.0 * duration_s, abs=4 * np.std(counts) / len(counts) ** 0.5)


def test_gaps_have_their_spread() -> None:
    """Gamma gaps of cv 2, 100,000 of them; the error of a cv is about cv^2 sqrt(kurtosis) / sqrt(n), 2 %."""
    gaps = np.diff(draw(Workload((Stream("m", Gamma(10.0, 2.0)),)), 10_000.0, 1)["m"].arrival_s)
    assert np.std(gaps) / np.mean(gaps) == pytest.approx(2.0, rel=0.02)


def test_a_camera_is_on_time_and_only_ever_late() -> None:
    steady = draw(Workload((Stream("m", FixedRate(10.0, 0.05)),)), 1.0, 1)["m"].arrival_s
    assert steady == pytest.approx(0.05 + np.arange(10) / 10)
    late_s = draw(Workload((Stream("m", FixedRate(1.0, 0.0, 0.01)),)), 1000.0, 1)["m"].arrival_s % 1.0
    assert late_s.min() >= 0
    assert np.sqrt(np.mean(late_s**2)) == pytest.approx(0.01, rel=0.1)


@pytest.mark.parametrize(
    "arrivals",
    [
        FixedRate(10.0, 0.05, 0.03),
        FixedRate(10.0, None, 0.03),
        Poisson(10.0),
        Gamma(10.0, 4.0),
        Trace(np.array([0.5, 1.0, 1.0, 1.25]), 2.0),
    ],
)
def test_at_twice_the_rate_every_request_comes_in_half_the_time(arrivals: Arrivals) -> None:
    """Jitter shrinks as the gaps do: were it kept, frames of a quick camera would overtake each other."""
    asked = Workload((Stream("m", arrivals, 3),))
    usual, twice = draw(asked, 60.0, 1)["m"], draw(scaled(asked, 2.0), 30.0, 1)["m"]
    assert twice.arrival_s == pytest.approx(usual.arrival_s / 2)
    assert np.array_equal(twice.source, usual.source)
    assert scaled(asked, 2.0).rates_rps()["m"] == pytest.approx(2 * asked.rates_rps()["m"])


def test_a_recording_repeats() -> None:
    trace = Trace(np.array([0.0, 1.0, 4.0]), 5.0)
    assert draw(Workload((Stream("m", trace),)), 9.5, 1)["m"].arrival_s.tolist() == [0.0, 1.0, 4.0, 5.0, 6.0, 9.0]
    shifted = draw(Workload((Stream("m", trace, 2),)), 10.0, 1)["m"]
    assert np.bincount(shifted.source).tolist() == [6, 6]


def test_a_stream_does_not_disturb_the_one_before() -> None:
    first = Stream("a", Poisson(5.0))
    alone = draw(Workload((first,)), 50.0, 3)["a"].arrival_s
    beside = draw(Workload((first, Stream("b", Gamma(5.0, 2.0)))), 50.0, 3)["a"].arrival_s
    assert alone.tobytes() == beside.tobytes()


def test_a_longer_recording_is_seen_through_another_window_by_every_seed() -> None:
    """90 quiet seconds and a burst of 900 in the last 10: ten seconds see the burst in about two of ten cases."""
    burst = Trace(np.concatenate([np.arange(90.0), np.linspace(90.0, 99.9, 900)]), 100.0)
    seen = [len(draw(Workload((Stream("m", burst),)), 10.0, seed)["m"].arrival_s) for seed in range(300)]
    assert len(set(seen)) > 10
    assert np.mean(seen) == pytest.approx(99.0, abs=4 * np.std(seen) / len(seen) ** 0.5)
    whole = [draw(Workload((Stream("m", burst),)), 100.0, seed)["m"].arrival_s.tobytes() for seed in (1, 2)]
    assert whole == [burst.times_s.tobytes()] * 2


@pytest.mark.parametrize(
    ("arrivals", "count", "fixed"),
    [
        (FixedRate(2.0, 0.0), 3, True),
        (FixedRate(2.0), 1, False),
        (FixedRate(2.0, 0.0, 0.1), 1, False),
        (Poisson(2.0), 1, False),
        (Gamma(2.0, 0.5), 1, False),
        (Trace(np.array([0.0, 1.0, 4.0]), 9.0), 1, True),
        (Trace(np.array([0.0, 1.0, 4.0]), 9.0), 2, False),
        (Trace(np.array([0.0, 1.0, 4.0]), 9.5), 1, False),
    ],
)
def test_fixed_demand_is_the_same_for_every_seed(arrivals: Arrivals, count: int, fixed: bool) -> None:
    workload = Workload((Stream("m", FixedRate(1.0, 0.5)), Stream("m", arrivals, count)))
    drawn = {draw(workload, 9.0, seed)["m"].arrival_s.tobytes() for seed in range(5)}
    assert workload.is_fixed(9.0) is (len(drawn) == 1) is fixed


@given(
    st.lists(st.tuples(st.sampled_from([7.3, 10.0, 30.0]), st.integers(1, 4)), min_size=1, max_size=12),
    st.floats(0.01, 20.0),
    st.integers(0, 2**32),
)
def test_cameras_that_share_a_model_come_as_they_would_if_each_had_its_own(
    cameras: list[tuple[float, int]], duration_s: float, seed: int
) -> None:
    together = Workload(tuple(Stream("m", FixedRate(rate), count) for rate, count in cameras))
    apart = Workload(tuple(Stream(f"m{i}", FixedRate(rate), count) for i, (rate, count) in enumerate(cameras)))
    all_at_once = draw(together, duration_s, seed)["m"]
    each = list(draw(apart, duration_s, seed).values())
    came = np.concatenate([one.arrival_s for one in each])
    source = np.concatenate([one.source for one in each])
    order = np.argsort(came, kind="stable")
    assert all_at_once.arrival_s.tobytes() == came[order].tobytes()
    assert all_at_once.source.tobytes() == source[order].tobytes()


def test_cameras_that_come_at_the_same_instant_keep_the_order_of_their_streams() -> None:
    streams = tuple(Stream("m", FixedRate(10.0, 0.05)) for _ in range(3))
    assert draw(Workload(streams), 0.2, seed=1)["m"].source.tolist() == [0, 1, 2, 0, 1, 2]


def test_phases_of_many_cameras_are_those_of_each_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Workload(tuple(Stream(f"m{place % 7}", FixedRate(7.0 + place % 7), 1 + place % 3) for place in range(60)))
    at_once = steady_cameras(asked, seed=5)
    monkeypatch.setattr("simulator.world.workload.FEW", 10**9)
    one_by_one = steady_cameras(asked, seed=5)
    for model, cameras in one_by_one.items():
        np.testing.assert_array_equal(at_once[model].phase_s, cameras.phase_s)
        assert len(cameras.phase_s) == sum(s.count for s in asked.streams if s.model == model)
