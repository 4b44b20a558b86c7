"""Damaged scenarios through every command: standard output is one JSON document, or nothing.

`python -m benchmarks.mutants --count 1000` asks more of them.
"""

import pytest

from benchmarks.mutants import faults, judge


@pytest.mark.parametrize("seed", [101, 102, 104, 105])
def test_one_document_or_nothing(seed: int) -> None:
    found = judge(seed)
    assert found.codes
    assert found.wrong == ()


@pytest.mark.parametrize(
    ("code", "out", "err"),
    [
        (0, "a line of a library\n{}\n", ""),
        (0, "{}\n{}\n", ""),
        (1, "", "Traceback (most recent call last):"),
        (2, "", ""),
        (2, "{}\n", "no such model"),
        (0, "", ""),
        (0, '{"a": NaN}\n', ""),
        (-11, "", ""),
    ],
)
def test_what_went_wrong_is_seen(code: int, out: str, err: str) -> None:
    assert list(faults(["plan"], code, out, err))
    assert not list(faults(["plan"], 0, "{}\n", "a note"))
