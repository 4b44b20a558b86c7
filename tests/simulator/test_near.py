"""Near names: what a misspelt word may have meant, and when nothing is said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.near import SHOWN_MAX, in_any_case, known_ones, near_names

GPUS = ("T4", "V100", "V100-32GB", "A100-40GB", "A100-80GB", "H200")
MODELS = ("resnet18", "resnet50", "resnet152", "yolov3", "bert_base", "vgg16")


@pytest.mark.parametrize(
    ("word", "known", "near"),
    [
        ("t4", GPUS, ["T4"]),
        ("a100", GPUS, ["A100-40GB", "A100-80GB"]),
        ("V10", GPUS, ["V100", "V100-32GB"]),
        ("A100 40GB", GPUS, ["A100-40GB"]),
        ("A2000", GPUS, []),  # the name of another
        ("H201", GPUS, ["H200"]),
        ("cifar_wideresnet82_10", ["cifar_wideresnet28_10", "cifar_wideresnet40_8"], ["cifar_wideresnet28_10"]),
        ("cifar_wideresnet12_80", ["cifar_wideresnet28_10"], []),
        ("V150", GPUS, ["V100"]),
        ("resnet81", MODELS, ["resnet18"]),
        ("vgg17", MODELS, []),
        ("H310", GPUS, []),  # two digits are others
        ("resnet5", MODELS, ["resnet50"]),
        ("resnett18", MODELS, ["resnet18"]),
        ("A1OO-40GB", GPUS, ["A100-40GB"]),
        ("V1O0", GPUS, ["V100"]),
        ("yolov8", MODELS, []),
        ("bert_large", MODELS, []),
        ("vgg-16", MODELS, ["vgg16"]),
        ("", MODELS, []),
        ("-.", MODELS, []),
    ],
)
def test_names_that_may_have_been_meant(word: str, known: tuple[str, ...], near: list[str]) -> None:
    assert near_names(word, known) == near


@given(st.text("abV10-_ ", max_size=8), st.lists(st.text("abV10-_ ", min_size=1, max_size=8), max_size=12))
def test_only_few_of_the_known_names_are_ever_said(word: str, known: list[str]) -> None:
    near = near_names(word, known)
    assert len(near) <= SHOWN_MAX
    assert set(near) <= set(known)


def test_a_name_in_another_case_is_the_known_one() -> None:
    assert in_any_case("v100-32gb", GPUS) == "V100-32GB"
    assert in_any_case("mine", GPUS) == "mine"


def test_a_name_that_the_word_goes_on_from_is_listed_first() -> None:
    kinds = ["RTX4060", "RTX4090", "RTX-A4000", "T4", "L4", "L40S", "A100", "H100", "H200"]
    assert known_ones("T400", kinds, "planner gpus show").startswith(" Known: T4, ")
