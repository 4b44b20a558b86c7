"""Curves of accuracy and states of trainings: read as they were written, and refused where no training wrote them."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from calibrate.io.reader import ProfileError
from calibrate.joint.curve import CurvePoint, SharedCurve, curve_document, read_curve
from simulator.world.sharing import Group, group_document, read_group
from simulator.world.signature import Signature, WeightShape

torch = pytest.importorskip("torch")

from calibrate.joint.state import SCHEMA, Progress, state_of  # noqa: E402
from calibrate.joint.training import ended, hopeless, loss_factors, met  # noqa: E402
from simulator.errors import InputError  # noqa: E402

MODELS = ("a", "b", "c")
SIGNATURES = st.sampled_from(
    [
        Signature("Linear", (), (WeightShape("weight", (4, 4)),)),
        Signature("conv"),
        Signature("Conv2d", (("groups", "1"),)),
    ]
)
GROUPS = st.builds(
    Group,
    signature=SIGNATURES,
    copy=st.integers(0, 9),
    layer_bytes=st.integers(1, 10**9),
    models=st.lists(st.sampled_from(MODELS), min_size=2, max_size=3, unique=True).map(tuple),
)
ACCURACIES = st.fixed_dictionaries(dict.fromkeys(MODELS, st.floats(0, 1.2)))
POINTS = st.builds(
    CurvePoint,
    sharing=st.lists(GROUPS, min_size=1, max_size=3, unique=True).map(tuple),
    accuracy=ACCURACIES,
    wall_s=st.floats(0, 1e6),
)
CURVES = st.builds(
    SharedCurve,
    models=st.fixed_dictionaries(dict.fromkeys(MODELS, st.integers(0, 10**12))),
    points=st.lists(POINTS, max_size=4).map(tuple),
)


def written(folder: Path, document: object) -> Path:
    path = folder / "curve.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


@given(GROUPS)
def test_a_group_is_read_as_it_was_written(group: Group) -> None:
    assert read_group(json.loads(json.dumps(group_document(group)))) == group


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(CURVES)
def test_a_curve_is_read_as_it_was_written(tmp_path: Path, curve: SharedCurve) -> None:
    assert read_curve(written(tmp_path, curve_document(curve, dict.fromkeys(MODELS, 0.9), more=1))) == curve


def curve() -> dict[str, Any]:
    group = Group(Signature("conv"), 0, 10, ("a", "b"))
    points = (CurvePoint((group,), dict.fromkeys(MODELS, 0.9), 1.0),)
    return curve_document(SharedCurve(dict.fromkeys(MODELS, 100), points), dict.fromkeys(MODELS, 0.9))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("schema",), "planner.sharing/v0"),
        (("models", "a", "weight_bytes"), -1),
        (("models", "a", "weight_bytes"), 10**16),
        (("models",), {"a": {"weight_bytes": 1}}),
        (("groups", 0, "layer_bytes"), None),
        (("groups", 0, "models"), 3),
        (("points", 0, "groups"), [1]),
        (("points", 0, "groups"), [-1]),
        (("points", 0, "accuracy", "a"), -0.1),
        (("points", 0, "accuracy", "a"), "much"),
        (("points", 0, "saved_bytes"), 11),
        (("points", 0), {}),
        (("points",), None),
    ],
)
def test_what_no_training_wrote_is_refused_in_one_line(tmp_path: Path, place: tuple[Any, ...], value: object) -> None:
    document = copy.deepcopy(curve())
    inside = document
    for step in place[:-1]:
        inside = inside[step]
    inside[place[-1]] = value
    with pytest.raises(InputError) as caught:
        read_curve(written(tmp_path, document))
    assert "\n" not in str(caught.value)
    assert str(tmp_path / "curve.json") in str(caught.value)


# States


def state() -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "spec": {},
        "device": "cpu",
        "alone": {"a": 0.9},
        "attempts": [
            {
                "groups": [group_document(Group(Signature("conv"), 0, 10, ("a", "b")))],
                "accuracy": dict.fromkeys(MODELS, 1.0),
                "accepted": True,
                "epochs": 2,
                "trained": ["a", "b"],
                "wall_s": 1.5,
            }
        ],
        "weights": "weights-3-1.pt",
        "flight": {
            "stage": "sharing 2",
            "history": [{"a": 1.0}],
            "wall_s": 0.0,
            "diverged": False,
            "file": "flight-3-1-0-0.pt",
        },
    }


def test_a_state_is_taken_up_where_it_ended() -> None:
    found = state_of(state(), MODELS)
    assert found.begun
    assert (found.alone, found.weights) == ({"a": 0.9}, "weights-3-1.pt")
    assert found.attempts == state()["attempts"]
    assert found.flight == state()["flight"]


PLACES = [
    *((key,) for key in ("schema", "device", "attempts")),
    *(("attempts", 0, key) for key in ("groups", "accuracy", "accepted", "epochs", "trained", "wall_s")),
    *(("attempts", 0, "groups", 0, key) for key in ("signature", "copy", "layer_bytes", "models")),
    *(("flight", key) for key in ("stage", "history", "wall_s", "diverged", "file")),
]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: ".".join(map(str, place)))
@pytest.mark.parametrize("value", [{"odd": 1}, "../../etc/passwd"], ids=["mapping", "path"])
def test_a_state_with_anything_else_in_it_is_refused(place: tuple[Any, ...], value: object) -> None:
    if isinstance(value, str) and place[-1] in ("device", "stage", "signature"):
        return  # any text may stand there
    document = state()
    inside: Any = document
    for step in place[:-1]:
        inside = inside[step]
    inside[place[-1]] = value
    with pytest.raises(ProfileError):
        state_of(document, MODELS)


# When a training ends


HISTORY = st.lists(ACCURACIES, min_size=1, max_size=8)
TARGETS = st.fixed_dictionaries(dict.fromkeys(MODELS, st.floats(0.1, 1)))


@given(HISTORY, TARGETS, st.integers(1, 12))
def test_a_training_ends_where_the_rules_say(
    history: list[dict[str, float]], targets: dict[str, float], epochs: int
) -> None:
    progress = Progress("x", history=history)
    out_of_epochs = len(history) - 1 >= epochs
    reached = all(history[-1][model] >= targets[model] for model in MODELS)
    stuck = hopeless(history, targets, epochs)
    assert ended(progress, epochs, targets) is (out_of_epochs or reached or bool(stuck))
    assert ended(progress, epochs, None) is out_of_epochs
    assert ended(Progress("x", history=history, diverged=True), epochs, targets)
    assert met(history[-1], targets) is reached
    assert not set(stuck) & {model for model in MODELS if history[-1][model] >= targets[model]}


@given(HISTORY, TARGETS, st.integers(1, 12))
def test_nobody_is_given_up_who_would_get_there_at_the_best_of_two_paces(
    history: list[dict[str, float]], targets: dict[str, float], epochs: int
) -> None:
    left = epochs - (len(history) - 1)
    for model in hopeless(history, targets, epochs):
        assert len(history) > 2
        for before, after in ((history[-3], history[-2]), (history[-2], history[-1])):
            assert after[model] + max(0.0, left * (after[model] - before[model])) < targets[model]


@given(ACCURACIES, TARGETS)
def test_who_is_further_from_the_target_counts_more(accuracy: dict[str, float], targets: dict[str, float]) -> None:
    factors = loss_factors(accuracy, targets)
    assert factors.keys() == targets.keys()
    assert all(0 < factor <= 10 for factor in factors.values())
    for one in MODELS:
        for other in MODELS:
            if accuracy[one] * targets[other] < accuracy[other] * targets[one] * (1 - 1e-9):
                assert factors[one] >= factors[other]
