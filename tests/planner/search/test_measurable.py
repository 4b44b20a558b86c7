"""Measure this next: the command is one that `planner calibrate` takes, or says what is to be brought."""

import shlex
from dataclasses import replace

import pytest
from support.paths import SCENARIOS
from support.planning import V100, model, planned, profile, scenario

import planner
from calibrate import cli
from calibrate.layers.naming import OWN, options_of
from calibrate.library.lookup import Library
from planner.io.load import load_scenario
from planner.model.parts.machines import BuySpec
from planner.search.outlooks import calibrate_options
from planner.show.text.reasons import measure_next

SPECS = {
    spec.known_as: spec
    for path in sorted((*SCENARIOS.glob("*.yaml"), *SCENARIOS.glob("validation/*.yaml")))
    for spec in load_scenario(path).scenario.with_stages.models
}


@pytest.mark.parametrize("name", sorted(SPECS))
def test_models_of_all_shipped_scenarios_are_named_as_calibrate_takes_them(name):
    options = calibrate_options(SPECS[name])
    assert options or not options_of(name)
    assert not options or len(cli.read(shlex.split(options)).models) == 1


def test_a_network_of_another_name_is_measured_under_that_of_the_zoo():
    found = planner.plan(SCENARIOS / "trace.yaml", overrides=["horizon=60 s", "buy.gpus=[T4]"])
    (measure,) = [one for one in found.measure_next if one.model == "tagging"]
    words = shlex.split(measure.command)
    assert words[:2] == ["planner", "calibrate"]
    assert cli.read(words[2:]).models == ("resnet50",)
    assert not measure.by_own_code


@pytest.mark.parametrize("changes", [{"profile": "imp"}, {}])
def test_a_model_that_nothing_builds_asks_for_what_makes_it(changes):
    one = replace(model("imp", 0.2), **changes)
    asked = scenario([one], {"imp": (4, 10.0)}, buy=BuySpec(gpus=("L4",), providers=("aws",)))
    found = planned(asked, Library({("imp", "V100", "fp32"): profile("imp", V100, 0.004, 0.001)}))
    (measure,) = found.measure_next
    assert measure.by_own_code
    assert OWN in measure.command
    (line,) = measure_next(found, found.measure_next)
    assert "cannot build imp by name" in line
