"""Knees: where caches end, on made-up rates and on this machine's own memory."""

import pytest
import torch

from calibrate.devices.knees import falls, knees
from calibrate.io.points import PASSED_BYTES


@pytest.mark.parametrize(
    ("rates", "ends"),
    [
        ({1: 90, 2: 88, 4: 50, 8: 49}, [2]),
        ({1: 20, 2: 60, 4: 90, 8: 89, 16: 50, 32: 49, 64: 20, 128: 21}, [8, 32]),
        ({1: 90, 2: 60, 4: 92, 8: 91}, []),
        ({1: 10}, []),
    ],
)
def test_a_cache_ends_where_the_rate_falls_for_good(rates, ends):
    assert falls(rates) == ends


def test_this_machines_memory_is_passed_over_in_sets_of_doubling_size():
    threads = torch.get_num_threads()
    values, samples, details = knees(torch.device("cpu"), 0.3)
    sizes = PASSED_BYTES[: len(samples)]
    assert list(samples) == [f"{size}_s" for size in sizes]
    assert sizes[-1] == 1 << 28
    assert values["fastest_bytes_per_s"] >= values["slowest_bytes_per_s"] > 0
    assert set(details["knees_bytes"]) < set(sizes)
    assert torch.get_num_threads() == threads
