"""Ways to keep machines: which kinds of price are put together, and in which order."""

from planner.model.choices import HorizonWay
from planner.questions.horizons.answer import Mode
from planner.questions.horizons.market import Paid
from planner.questions.horizons.ways import ALWAYS, PATTERNS, Pattern


def test_every_way_has_patterns_of_its_own_kind() -> None:
    assert PATTERNS.keys() == set(HorizonWay)
    kinds = {
        HorizonWay.FIXED: {Paid.ON_DEMAND},
        HorizonWay.SCHEDULED: {Paid.ON_DEMAND},
        HorizonWay.AUTOSCALED: {Paid.ON_DEMAND},
        HorizonWay.RESERVED: {Paid.RESERVED},
        HorizonWay.SPOT: {Paid.SPOT},
        HorizonWay.OWN: {Paid.OWN},
    }
    for way, needed in kinds.items():
        assert len(set(PATTERNS[way])) == len(PATTERNS[way])
        for pattern in PATTERNS[way]:
            assert needed & {pattern.base, pattern.rest}, f"{way}: {pattern}"


def test_all_that_may_stand_beside_a_base_is_weighed() -> None:
    """A rest on demand or at spot price follows the load, a timetable, or never changes, beside any base."""
    listed = {pattern for patterns in PATTERNS.values() for pattern in patterns}
    for base in (None, Paid.RESERVED, Paid.OWN, Paid.ON_DEMAND):
        for rest in (Paid.ON_DEMAND, Paid.SPOT):
            assert {Pattern(base, rest, mode) for mode in Mode} <= listed
    assert len(listed) == 29


def test_what_is_bought_for_good_never_changes() -> None:
    for patterns in PATTERNS.values():
        for pattern in patterns:
            if pattern.rest in (Paid.RESERVED, Paid.OWN):
                assert pattern.mode is Mode.CONSTANT


def test_of_equals_the_simpler_is_listed_first() -> None:
    """Ways that cost the same are told by their order: without a base before one with a base."""
    for patterns in PATTERNS.values():
        own = [pattern for pattern in patterns if pattern not in ALWAYS]
        bases = [pattern.base is not None for pattern in own]
        assert bases == sorted(bases)
