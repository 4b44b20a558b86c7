"""Naming: what is advised for a profile is taken by `planner calibrate`, and its figures count for that profile."""

import re
import shlex

import pytest

from calibrate import cli
from calibrate.layers.facts import known, named
from calibrate.layers.naming import LAYERS_ONLY, OWN, measured_as, options_of, profile_name
from calibrate.library.lookup import find_profiles
from calibrate.library.reading import how_to_measure
from calibrate.published.names import of_profile
from calibrate.zoo.zoo import MODELS
from planner.catalog.catalog import load_catalog
from simulator.errors import InputError

GPUS = load_catalog().gpus
NAMES = sorted({*find_profiles((), GPUS).models(), *map(profile_name, named()), *MODELS})


@pytest.mark.parametrize("name", NAMES)
def test_what_is_advised_for_a_profile_is_what_calibrate_takes(name):
    advised = shlex.split(re.findall("`(.*)`", how_to_measure(name, "T4", "pytorch"))[0])
    assert advised[:4] == ["planner", "calibrate", "--device", "cuda:0"]
    if not options_of(name):
        assert " ".join(advised[4:]) == OWN
        return
    (built,) = cli.read(advised[2:]).models
    assert of_profile(profile_name(built)) == of_profile(name), "else what is measured would not count"


def test_names_that_stand_for_one_network():
    assert options_of("nvidia_resnet50") == "--models resnet50"
    assert options_of("resnet50.448px.channels_last") == "--models resnet50 --resolution 448 --channels-last"
    assert options_of("resnext50_32x4d") == "--models torchvision:resnext50_32x4d"
    assert options_of(profile_name("hf:BAAI/bge-m3")) == "--models hf:BAAI/bge-m3"
    assert options_of("winograd_resnet50_v2") == "", "nothing builds the second version"
    assert options_of("my.shop.model.3x64x64") == ""


def test_all_plain_names_can_be_built_but_those_of_layers_alone():
    assert set(known()) - LAYERS_ONLY == set(MODELS)
    assert not any(map(options_of, LAYERS_ONLY))


def test_a_name_of_figures_is_refused_with_what_builds_its_network():
    with pytest.raises(InputError, match=r"^--models: nvidia_resnet50 is .* Write --models resnet50,"):
        cli.read(["--models", "nvidia_resnet50"])
    with pytest.raises(InputError, match=f"imp is not known.*{OWN}"):
        cli.read(["--models", "imp"])


@pytest.mark.parametrize(
    "model",
    [
        "resnet50",
        "timm:resnet50.a1_in1k",
        "torchvision:efficientnet_v2_s",
        "hf:bert-base-uncased",
        "hf:sentence-transformers/all-MiniLM-L6-v2",
        "hf:some-body/their-model-v1.5",
    ],
)
def test_the_name_of_a_profile_says_which_model_was_measured(model):
    assert measured_as(profile_name(model)) == model


@pytest.mark.parametrize(
    "profile", ["nvidia_resnet50", "my.package.factory.3x64x64", "timm.resnet18.channels_last", "onnx.a"]
)
def test_other_names_of_profiles_say_of_no_model(profile):
    assert measured_as(profile) == profile
