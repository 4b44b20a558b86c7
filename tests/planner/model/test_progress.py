"""Progress: what is told while replications go on."""

import pytest

from planner.model.progress import counting


def test_the_time_left_is_told_from_half_on_by_replications_after_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first eight wait for machine code; 72 more take 180 s, so the other 80 take 200 s at most."""
    clock, told = iter([100.0, 280.0]), []
    monkeypatch.setattr("planner.model.progress.monotonic", lambda: next(clock))
    tell = counting(lambda text, _: told.append(text), "confirming 2 x T4")
    for done in (8, 16, 80, 160):
        tell(done, 160)
    after = ["", "", ", at most 3 min left", ""]
    assert told == [
        f"confirming 2 x T4: {n} of at most 160{left}" for n, left in zip((8, 16, 80, 160), after, strict=True)
    ]
