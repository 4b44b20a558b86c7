"""Points: settings, runtimes, and the runs that count."""

from hypothesis import given
from hypothesis import strategies as st

from calibrate.io.points import Settings, usual


def test_a_hiccup_does_not_count_and_a_slow_device_does() -> None:
    assert usual([1.0] * 19 + [20.0]) == [1.0] * 19
    mixed = [1.0] * 10 + [20.0] * 10
    assert usual(mixed) == mixed, "so many are how the device is"
    assert usual([1.0, 1.1, 1.2, 1.4] * 5) == [1.0, 1.1, 1.2, 1.4] * 5, "below 1.5 times the median nothing is far"
    assert usual([2.0]) == [2.0]


@given(st.lists(st.floats(1e-6, 10), min_size=1, max_size=50))
def test_most_runs_count_and_the_fastest_always_do(samples_s: list[float]) -> None:
    kept = usual(samples_s)
    assert len(kept) >= 0.9 * len(samples_s)
    assert min(kept) == min(samples_s)


def test_a_runtime_has_the_name_that_published_figures_have() -> None:
    runtimes = [Settings(), Settings(compile=True), Settings(cuda_graph=True)]
    assert [one.runtime for one in runtimes] == ["pytorch", "torch-compile", "cuda-graphs"]
    assert [one.suffix for one in runtimes] == ["", ".compile", ".cuda_graph"]
