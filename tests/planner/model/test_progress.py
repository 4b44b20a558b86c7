"""Progress: what is told while replications go on."""

import pytest

from planner.model.progress import counting


def test_the_time_left_is_that_of_replications_after_the_first_that_were_told_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first eight wait for machine code; eight more take 10 s, so 144 take 180 s."""
    clock, told = iter([100.0, 110.0]), []
    monkeypatch.setattr("planner.model.progress.monotonic", lambda: next(clock))
    tell = counting(lambda text, _: told.append(text), "confirming 2 x T4")
    tell(8, 160)
    tell(16, 160)
    assert told == ["confirming 2 x T4: 8 of at most 160", "confirming 2 x T4: 16 of at most 160, 3 min left"]
