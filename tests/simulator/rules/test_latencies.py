"""Latencies: quantiles and bins, and the same by machine code to the last bit."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from simulator.rules.latencies import EDGES_S, QUANTILES, counts_of, quantiles, quantiles_of


@given(values=st.lists(st.floats(0, 1e6), min_size=1, max_size=50), share=st.floats(0, 1))
def test_quantiles_are_those_of_numpy(values: list[float], share: float) -> None:
    assert quantiles(np.sort(values), [share]) == [np.quantile(values, share)]


def test_a_latency_on_an_edge_counts_where_the_bin_begins() -> None:
    assert counts_of(np.array(EDGES_S)).tolist() == [1] * (len(EDGES_S) - 2) + [2]
    before = np.nextafter(EDGES_S[1:-1], 0)
    assert counts_of(before).tolist() == [1] * (len(EDGES_S) - 2) + [0]


@cache
def added_by_machine_code() -> Any:
    """`add_latencies` as Python may call it."""
    from simulator.clock.replays.latencies import add_latencies
    from simulator.numba_parts import loop

    @loop
    def called(room, finished, bins, quantiles_s):  # type: ignore[no-untyped-def]
        add_latencies(room, finished, bins, quantiles_s)

    return called


few = st.sampled_from([1e-5, 1e-4, 0.01, 0.0101, 0.0102, 0.02, 0.5, 9_999.0, 1e5])


@given(values=st.lists(few | st.floats(1e-6, 1e6) | st.sampled_from(EDGES_S), max_size=200))
@example(values=[0.01] * 99 + [0.5])
@example(values=list(np.nextafter(EDGES_S, 0)))
def test_machine_code_finds_the_same_to_the_last_bit(values: list[float]) -> None:
    pytest.importorskip("numba")
    from simulator.clock.adding_up import sums

    add_latencies = added_by_machine_code()
    world = sums(1, 1, 2, 600)
    for _ in range(2):  # what one leaves behind is not counted again
        world.room.latency_s[: len(values)] = values
        add_latencies(world.room, len(values), world.bins[1], world.quantiles_s[1])
        assert world.bins[1].tolist() == counts_of(np.array(values)).tolist()
        assert repr(world.quantiles_s[1].tolist()) == repr(quantiles_of(np.array(values)))
    assert len(QUANTILES) == world.quantiles_s.shape[1]
