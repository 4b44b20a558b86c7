"""Scenarios and answers in Python: made by keyword, mapping or file, held to the rules of a file, and shown."""

import copy
import html
import json
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from support.answers import PLAN
from support.forks import forking
from support.paths import SCENARIOS

import planner
from planner import BuySpec, CalendarSpec, InputError, ModelSpec, OwnMachine, Plan, Scenario, SloSpec, StreamSpec
from planner.io.load import ScenarioError, load_scenario
from planner.model.checked import plain
from planner.model.parts.streams import Phase
from simulator.world.deployment import Drop

FILES = sorted(SCENARIOS.glob("*.yaml"))
MODEL = ModelSpec(name="resnet50", slo=SloSpec(latency=0.1))
CAMERAS = StreamSpec(model="resnet50", count=4, rate=15.0)
SMALL = Scenario(models=(MODEL,), streams=(CAMERAS,), buy=BuySpec(gpus=("T4",)), replications=2, confidence=0.5)


def test_what_is_no_mapping_and_no_place_to_save_are_said_in_words_of_python(tmp_path):
    with pytest.raises(InputError, match="data: must be a mapping of keys to values, got `x`"):
        Scenario.from_dict("x")
    other = tmp_path / "reqs.csv"
    other.write_text("t\n1\n")
    with pytest.raises(InputError, match=r"reqs\.csv: exists and is no plan\. Name another file, or remove this one"):
        Plan.of(PLAN).save(other)


def test_units_of_people_and_si_are_the_same():
    assert SloSpec(latency="100 ms", attainment="99 %") == SloSpec(latency=0.1, attainment=0.99)
    assert OwnMachine(name="a", gpu="T4", memory="16 GB", price="$730/month") == OwnMachine(
        name="a", gpu="T4", memory=16_000_000_000, price=1.0
    )
    assert StreamSpec(model="a", rate="60 /min", phase="aligned").phase is Phase.ALIGNED
    assert Scenario(models=[MODEL], streams=[CAMERAS], drop="never", headroom="20 %").drop is Drop.NEVER


def test_a_long_latency_is_the_same_in_a_scenario_made_of_another():
    long = SloSpec(latency="100 s")
    assert ModelSpec(name="net", slo=long).slo == long


def test_a_copy_of_a_part_need_not_say_a_unit_again() -> None:
    """A bare 12 is refused as milliseconds that were likely meant; that of a copy was said with its unit."""
    slow = SloSpec(latency="12 s", attainment=0.95)
    assert replace(slow, attainment=0.9) == SloSpec(latency="12 s", attainment=0.9)
    read = load_scenario(SCENARIOS / "trace.yaml", ["models[0].slo.latency=12 s", "horizon=200 s"]).scenario
    model = replace(read.models[0], slo=replace(read.models[0].slo, attainment=0.9))
    assert replace(read, models=(model, *read.models[1:])).models[0].slo.latency == 12.0
    with pytest.raises(InputError, match="must say its unit, got 12"):
        replace(slow, latency=12.0)


def test_parts_may_be_mappings_and_columns_of_numpy():
    by_mapping = Scenario(models=[{"name": "resnet50", "slo": {"latency": "100 ms"}}], streams=[CAMERAS])
    assert by_mapping.models == (MODEL,)
    assert CalendarSpec(hourly=np.ones(24), days=np.int64(2)) == CalendarSpec(hourly=(1.0,) * 24, days=2)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_scenario_is_the_same_from_file_and_mapping(path, monkeypatch):
    monkeypatch.chdir(SCENARIOS)  # so that names of files mean the same
    read = load_scenario(Path(path.name)).scenario
    from_file = Scenario.from_file(path.name)
    assert plain(from_file) == {"name": path.stem} | plain(read)
    assert Scenario.from_dict(yaml.safe_load(path.read_text())) == replace(from_file, name=read.name)
    for other in (pickle.loads(pickle.dumps(from_file)), copy.deepcopy(from_file), replace(from_file)):
        assert other == from_file


def test_files_are_found_wherever_the_program_runs(tmp_path, monkeypatch):
    scenario = Scenario.from_file(SCENARIOS / "trace.yaml")
    monkeypatch.chdir(tmp_path)
    assert replace(scenario, seed=2).streams == scenario.streams
    with pytest.raises(ScenarioError, match=r"^streams\[0\].trace.file: "):
        Scenario(models=[MODEL], streams=[{"model": "resnet50", "trace": {"file": "bursts.csv"}}])


@pytest.mark.parametrize(
    ("make", "problems"),
    [
        (lambda: SloSpec(latency="100 ms", attainment=99), ["SloSpec.attainment: must be between 0 and 1"]),
        (SloSpec, ["SloSpec.latency: is missing"]),
        (lambda: SloSpec(latency=1, atainment=0.9), ["SloSpec.atainment: unknown key. Did you mean `attainment`?"]),
        (lambda: SloSpec(latency=-1), ["SloSpec.latency: must not be negative"]),
        (lambda: BuySpec(max_gpus="3"), ["BuySpec.max_gpus: must be a whole number, got `3`"]),
        (lambda: BuySpec(retired="yes"), ["BuySpec.retired: must be `true` or `false`, got `yes`"]),
        (lambda: BuySpec(gpus={"T4"}), ["BuySpec.gpus: must be a list"]),
        (lambda: ModelSpec(name="a b", slo={"latency": "3 fps"}), ["ModelSpec.name: ", "ModelSpec.slo.latency: "]),
        (lambda: ModelSpec(name="a", slo=MODEL.slo, factory="a:b"), ["ModelSpec: needs `input`"]),
        (lambda: StreamSpec(model="a"), ["StreamSpec: does not say how it sends"]),
        (lambda: StreamSpec(model="a", rate=1, poisson=1), ["StreamSpec.poisson: cannot stand beside `rate`"]),
        (lambda: CalendarSpec(hourly=(1, 2)), ["CalendarSpec: `hourly` must have 24 factors"]),
        (lambda: replace(SMALL, streams=[]), ["streams: must not be empty"]),
        (
            lambda: replace(SMALL, streams=[StreamSpec(model="b", rate=1)]),
            ["streams[0].model: no model is called `b`. Known: resnet50."],
        ),
        (lambda: replace(SMALL, horizon="100 ms"), ["horizon: must be longer than a warm-up of 0.1 s"]),
        (lambda: replace(SMALL, streams=[StreamSpec(model="resnet50", rate="1e-6 /h")]), ["models[0]: is asked"]),
        (lambda: Scenario(modells=[]), ["models: is missing", "streams: is missing", "modells: unknown key"]),
        (lambda: Scenario.from_dict({"model": {}}), ["is a scenario of training"]),
        (lambda: planner.plan([SMALL]), ["scenario: must be a file, a mapping or a Scenario, got a list"]),
        (lambda: planner.plan(replace(SMALL, buy={"gpus": ["T44"]})), ["buy.gpus[0]: `T44` is not in the catalog"]),
        (lambda: planner.plan(SMALL, overrides=["seed=x"]), ["--set seed=x: seed: must be a whole number"]),
    ],
)
def test_rules_of_a_file_hold_in_python_each_with_the_path_of_its_field(make, problems):
    with pytest.raises(InputError) as error:
        make()
    lines = str(error.value).splitlines()
    assert len(lines) == len(problems)
    for line, start in zip(lines, problems, strict=True):
        assert line.startswith(start)


def test_a_plan_is_the_same_however_the_scenario_is_given(tmp_path):
    file = tmp_path / "small.yaml"
    file.write_text(json.dumps(plain(SMALL)))
    answers = [planner.plan(given) for given in (SMALL, plain(SMALL), file)]
    assert {type(answer) for answer in answers} == {Plan}
    assert answers[0] == replace(answers[1], created_at=answers[0].created_at)
    assert answers[0].recommendation == answers[2].recommendation


def test_a_plan_is_asked_shown_kept_and_exported(tmp_path):
    answer = Plan.of(PLAN)
    best = PLAN.recommendation
    assert (answer.feasible, answer.cost_usd_per_hour) == (best.feasible, best.cost_usd_per_hour)
    name = best.models[-1].name
    assert answer.models[name] is answer.models[-1] is best.models[-1]
    assert answer.models[:1] == best.models[:1]
    with pytest.raises(InputError, match=f"Did you mean `{name}`"):
        answer.models[name + "x"]
    assert str(answer).splitlines()[0] in answer._repr_markdown_()
    assert answer._repr_html_().startswith("<iframe srcdoc=")
    assert answer.explain() == planner.explain(PLAN)
    answer.save(tmp_path / "plan.json")
    assert str(planner.read_plan(tmp_path / "plan.json")) == str(answer)
    assert sorted(answer.export("openmetrics", tmp_path / "out")) == ["plan.prom"]
    assert (tmp_path / "out" / "plan.prom").exists()


def test_a_plan_is_replayed_as_it_was_placed():
    answer = planner.plan(SMALL)
    replay = planner.simulate(SMALL, plan=answer)
    assert replay.models["resnet50"].gpus == answer.models["resnet50"].gpus
    assert str(replay).splitlines()[0] in replay._repr_markdown_()


DEADLINE = SCENARIOS / "studies" / "deadline.yaml"
ANSWERS = {
    "simulation": lambda _: planner.simulate(SMALL, "T4", 2),
    "training": lambda _: planner.train(SCENARIOS / "training" / "lenet.yaml"),
    "study": lambda here: planner.study(DEADLINE, here / "study", workers=1, overrides=["buy.gpus=[H100]"]),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_every_answer_is_shown_and_kept_like_a_plan(name, tmp_path):
    with forking():
        answer, file = ANSWERS[name](tmp_path), tmp_path / "answer.json"
    assert str(answer).splitlines()[0] in answer._repr_markdown_()
    answer.save(file)
    assert json.loads(file.read_text())["schema"] == answer.schema
    for given in (file, answer):
        planner.report(given, tmp_path / "answer.html")
        assert html.escape((tmp_path / "answer.html").read_text()) in answer._repr_html_()
    with pytest.raises(InputError, match="exists and is no plan"):
        Plan.of(PLAN).save(file)


def test_importing_the_package_loads_nothing_heavy():
    code = "import planner, sys; print(*{'numpy', 'pydantic', 'scipy', 'simpy', 'torch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_what_the_package_does_not_have_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute `Scenery`"):
        planner.Scenery  # noqa: B018
