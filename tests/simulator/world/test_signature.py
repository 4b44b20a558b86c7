"""Signatures of layers: texts of files are read as they were written, and nothing of them is lost."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrate.layers.facts import SHIPPED
from simulator.world.signature import GEOMETRY, Signature, WeightShape, read_signature, read_sizes

NAMES = st.sampled_from(["weight", "bias", "in_proj_weight", "running_mean", "num_batches_tracked"])
SHAPES = st.lists(st.integers(1, 9999), min_size=1, max_size=4).map(tuple)
WEIGHTS = st.builds(WeightShape, NAMES, SHAPES, st.sampled_from(["float32", "float16", "int64"]))
GEOMETRIES = st.tuples(st.sampled_from(GEOMETRY), st.sampled_from(["7x7", "1", "same"]))
SIGNATURES = st.builds(
    Signature,
    st.sampled_from(["Conv2d", "Linear", "BatchNorm2d"]),
    st.lists(GEOMETRIES, max_size=3).map(tuple),
    st.lists(WEIGHTS, max_size=3).map(tuple),
)


@given(SIGNATURES)
def test_a_signature_is_read_as_it_was_written(signature: Signature) -> None:
    assert read_signature(str(signature)) == signature


@pytest.mark.parametrize(
    ("written", "sizes"),
    [
        ("3x224x224", (3, 224, 224)),
        ("3X224X224", (3, 224, 224)),
        ("384", (384,)),
        ("seq384", (384,)),
        ("seq3x8", None),
        ("3xx8", None),
        ("0x8", None),
        ("seq", None),
        ("", None),
    ],
)
def test_the_shape_of_a_sample_is_read_as_people_write_it(written, sizes) -> None:
    assert read_sizes(written) == sizes


@given(st.text(alphabet="Conv2dx=: 1weight.", max_size=30))
def test_any_text_is_kept(text: str) -> None:
    assert str(read_signature(text)) == text


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.json")), ids=lambda path: path.stem)
def test_shipped_signatures_are_taken_in_whole(path) -> None:
    for text in json.loads(path.read_text())["signatures"]:
        signature = read_signature(text)
        assert str(signature) == text
        assert " " not in signature.kind


def test_a_signature_knows_its_parts() -> None:
    signature = read_signature("Linear weight=1000x2048:float16 bias=1000")
    assert signature == Signature(
        "Linear", (), (WeightShape("weight", (1000, 2048), "float16"), WeightShape("bias", (1000,)))
    )
    assert signature.matrices == signature.weights[:1]
    assert signature.short == "Linear 1000x2048"
    assert read_signature("conv").short == "conv"
    assert read_signature("Odd weight=x").kind == "Odd weight=x"
