"""Specs of joint trainings: what is written is read, and each value that cannot be is named in its place."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrate.joint.spec import JointSpec, SpecError, TaskSpec, read_spec

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,15}", fullmatch=True)
TASKS = st.lists(NAMES, min_size=2, max_size=4, unique=True).flatmap(
    lambda names: st.tuples(
        *(
            st.builds(
                TaskSpec,
                name=st.just(name),
                factory=st.just("a.b:c"),
                target=st.floats(0, 1, exclude_min=True),
            )
            for name in names
        )
    )
)
COUNTS = st.integers(1, 1_000_000)
SHARES = st.floats(0, 1, exclude_max=True)
SPECS = st.builds(
    JointSpec,
    tasks=TASKS,
    epochs=COUNTS,
    epochs_alone=st.integers(0, 100),
    learning_rate=st.floats(1e-9, 1e9),
    momentum=SHARES,
    weight_decay=SHARES,
    attempts=st.none() | COUNTS,
    seed=st.integers(0, 1_000_000),
)
GOOD: dict[str, Any] = {"tasks": [{"name": name, "factory": "a.b:c"} for name in ("one", "two")]}


@given(SPECS)
def test_a_spec_is_read_as_it_was_written(spec: JointSpec) -> None:
    assert read_spec(spec.to_json()) == spec


@pytest.mark.parametrize(
    ("key", "bad"),
    [
        *((key, value) for key in ("epochs", "attempts") for value in (0, -1, 1.5, True, "2", 1_000_001)),
        *((key, value) for key in ("epochs_alone", "seed") for value in (-1, 0.5, True, None)),
        *((key, value) for key in ("momentum", "weight_decay") for value in (-1e-9, 1, 1.0, True, "0", float("nan"))),
        *(("learning_rate", value) for value in (0, -1, float("inf"), float("nan"), None, False)),
        ("epochs", None),
        ("rate", 1),
    ],
)
def test_each_bad_value_is_named_in_its_place(key: str, bad: object) -> None:
    with pytest.raises(SpecError) as caught:
        read_spec(GOOD | {key: bad})
    assert [path for path, _ in caught.value.problems] == [(key,)]


@pytest.mark.parametrize(
    ("key", "bad"),
    [
        *(("name", value) for value in ("", ".a", "a b", 7, None, "a" * 65)),
        *(("factory", value) for value in ("a.b", "a.b:", ":c", "a b:c", 1)),
        *(("target", value) for value in (0, 1.01, -0.5, True, "95 %", float("nan"))),
        ("rate", 1),
    ],
)
def test_each_bad_value_of_a_task_is_named_in_its_place(key: str, bad: object) -> None:
    with pytest.raises(SpecError) as caught:
        read_spec({"tasks": [GOOD["tasks"][0], GOOD["tasks"][1] | {key: bad}]})
    assert [path for path, _ in caught.value.problems] == [("tasks", 1, key)]


def test_all_that_is_wrong_is_listed_at_once() -> None:
    with pytest.raises(SpecError) as caught:
        read_spec({"epochs": 0, "seed": "x", "tasks": [{"name": "one"}, 7]})
    paths = [path for path, _ in caught.value.problems]
    assert paths == [("epochs",), ("seed",), ("tasks", 0), ("tasks", 1)]


@pytest.mark.parametrize("raw", [None, [], 3, "text", {}, {"tasks": None}, {"tasks": GOOD["tasks"][:1]}])
def test_what_is_no_spec_is_refused(raw: object) -> None:
    with pytest.raises(SpecError):
        read_spec(raw)


def test_names_differ() -> None:
    with pytest.raises(SpecError) as caught:
        read_spec({"tasks": [GOOD["tasks"][0]] * 3})
    assert [path for path, _ in caught.value.problems] == [("tasks", 1, "name"), ("tasks", 2, "name")]
