"""Progress: what is told while replications go on."""

from planner.model.progress import counting


def test_replications_are_counted_and_no_time_left_of_one_fleet_is_told_as_if_it_were_of_all() -> None:
    told: list[tuple[str, float]] = []
    tell = counting(lambda text, share: told.append((text, share)), "confirming 2 x T4")
    for done in (8, 800, 1600):
        tell(done, 1600)
    assert told == [(f"confirming 2 x T4: {done} of at most 1,600", 0.0) for done in ("8", "800", "1,600")]
