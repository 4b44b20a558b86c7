"""What GPUs hold: nothing is lost or doubled when models move between them."""

from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.placing.packing.contents import Content, added, neighbours, without
from planner.placing.packing.exchanges import SHARE_MIN
from planner.placing.packing.starts import laid_end_to_end

SHARES = st.floats(SHARE_MIN, 1.0)
CONTENTS = st.dictionaries(st.sampled_from("abcd"), SHARES, max_size=4).map(lambda held: tuple(sorted(held.items())))


def total(contents: Iterable[Content]) -> Counter[str]:
    """Share of each model on all GPUs."""
    found = Counter[str]()
    for content in contents:
        for model, share in content:
            found[model] += share  # type: ignore[assignment]
    return found


@given(CONTENTS, CONTENTS)
def test_an_exchange_leaves_as_much_of_each_model(here: Content, there: Content) -> None:
    before = total([here, there])
    for after in neighbours(here, there):
        assert total(after) == pytest.approx(before)
        assert all(list(content) == sorted(content) for content in after)
        assert after != (here, there)


@given(CONTENTS, st.sampled_from("abcd"), SHARES)
def test_what_is_added_can_be_taken_away(content: Content, model: str, share: float) -> None:
    held = dict(content)
    more = added(content, model, share)
    assert dict(more) == {**held, model: held.get(model, 0.0) + share}
    assert without(more, model) == without(content, model)
    assert list(more) == sorted(more)


@given(st.lists(st.floats(0.01, 10.0), min_size=1, max_size=8), st.integers(1, 6))
def test_works_laid_end_to_end_fill_all_gpus_alike(works: list[float], count: int) -> None:
    """McNaughton's rule: no GPU has more work than another, and no model is cut but where a GPU ends."""
    parts = list(laid_end_to_end(works, count))
    for number, work in enumerate(works):
        assert sum(part for one, _, part in parts if one == number) == pytest.approx(work, abs=1e-6)
    for place in range(count):
        assert sum(part for _, at, part in parts if at == place) == pytest.approx(sum(works) / count, abs=1e-6)
    assert len(parts) <= len(works) + count - 1


def test_work_of_next_to_nothing_has_a_place() -> None:
    """A stage whose items may all be lost: the least that must be done of it is a billionth, and it has to be there."""
    assert [number for number, _, _ in laid_end_to_end([0.3, 1e-11, 0.2], 1)] == [0, 1, 2]
