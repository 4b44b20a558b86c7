"""Numbers of many generators at once, against NumPy's own."""

import numpy as np
import pytest

from simulator.seeding import first_numbers


@pytest.mark.parametrize("seed", [0, 1, 2**31, 2**32, 2**63 + 12345, 2**64 - 1, 2**130 + 7])
def test_numbers_are_those_of_each_generator(seed: int) -> None:
    rng = np.random.default_rng(7)
    keys = [0, 1, *rng.integers(0, 2**32, 500).tolist()]
    counts = rng.integers(1, 6, len(keys)).tolist()
    each = [
        np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(key,))).random(count)
        for key, count in zip(keys, counts, strict=True)
    ]
    np.testing.assert_array_equal(first_numbers([seed + 5, seed], keys, counts)[1], np.concatenate(each))
