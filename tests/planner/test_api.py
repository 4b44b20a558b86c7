"""Every command as a call; docs/python.md, which is run as a test, has a session."""

import importlib
import pkgutil
from pathlib import Path

import pytest
import yaml
from support.answers import PLAN
from support.paths import SCENARIOS

import planner
from planner import cli
from planner.api.asking import quantity
from planner.model.statement import Code
from planner.units.reading import load_factor
from simulator.errors import InputError

STUDY, WEEK = "scenarios/studies/deadline.yaml", "scenarios/horizon/week.yaml"
SHOWN_BY_OTHERS = {"open", "prices_status"}
"""What says nothing that another call does not: `prices_show` gives the dates, `report` the page."""


def commands():
    """Their names, as calls."""
    for name, command in cli.commands().commands.items():
        for below in getattr(command, "commands", {"": None}):
            yield f"{name} {below}".strip().replace(" ", "_").replace("-", "_")


@pytest.mark.parametrize("name", sorted({*commands()} - SHOWN_BY_OTHERS))
def test_every_command_is_a_call(name):
    assert callable(getattr(planner, name))
    assert name in planner.__all__


def test_no_module_takes_the_place_of_a_call():
    modules = [module.name for module in pkgutil.iter_modules(planner.__path__)]
    for name in set(modules) - {"__main__"}:
        importlib.import_module(f"planner.{name}")
    assert not {*planner.__all__} & {*modules}
    assert all(callable(getattr(planner, name)) for name in planner.__all__)


def test_what_a_person_can_mend_is_one_kind_of_error(tmp_path):
    with pytest.raises(InputError, match=r"absent\.yaml"):
        planner.plan(tmp_path / "absent.yaml")
    with pytest.raises(InputError, match="Titan"):
        planner.simulate("scenarios/trace.yaml", "Titan", 1)
    with pytest.raises(InputError, match="either gpu and count, or plan"):
        planner.simulate("scenarios/trace.yaml", "V100")
    for count in (0, 10**9):
        with pytest.raises(InputError, match=f"from 1 to 10,000, got {count}"):
            planner.simulate("scenarios/trace.yaml", "V100", count)
    with pytest.raises(InputError, match=r'Write \["headroom=1 %"\]'):
        planner.plan("scenarios/trace.yaml", overrides="headroom=1 %")


PRICES = "planner/catalog/data/prices.yaml"
WORDS = {
    "to: must be one of triton, .* got x": lambda here: planner.export(PLAN, "x", here),
    "check_day: must be one of fixed, .* got x": lambda _: planner.horizon(WEEK, check_day="x"),
    "engine: must be one of local, ray, got x": lambda here: planner.study(STUDY, here / "out", engine="x"),
    "workers: must be from 1 to 1,024, got -1": lambda here: planner.study(STUDY, here / "out", workers=-1),
    "what: must be one of latency, .* got x": lambda here: planner.profiles_plot("vgg16", here / "a.png", "x"),
    "kind: must be one of on-demand, .* got x": lambda _: planner.reprice(PLAN, PRICES, "x"),
    "dataflow x: write one of": lambda _: planner.profile("lenet", dataflow="x"),
    "batch: must be from 1 to 1,000,000, got 0": lambda _: planner.profile("lenet", batch=0),
    "resolution: must be from 8 to 16,384, got -4": lambda _: planner.profile("resnet50", resolution=-4),
    "duration_s: must not be negative, got -1": lambda _: planner.validate(WEEK, duration_s=-1),
}


@pytest.mark.parametrize("said", WORDS)
def test_words_and_numbers_that_are_none_of_those_known(said, tmp_path):
    with pytest.raises(InputError, match=said):
        WORDS[said](tmp_path)
    assert not [*tmp_path.iterdir()]


OTHERS = {
    r"absent\.json: no such file": planner.explain,
    r"absent\.json: no such file.": lambda absent: planner.whatif(str(absent)),
    "answer: must be one of plan, .* got int": lambda _: planner.explain(5),
    "answer: must be one of plan, .* got NoneType": lambda absent: planner.report(None, absent.with_suffix(".html")),
    "plan: must be a plan, .* got int": lambda _: planner.whatif(5),
    "plan: must be a plan, .* got dict": lambda absent: planner.export({}, "triton", absent),
    "plan: must be a plan, .* got list": lambda _: planner.simulate(WEEK, plan=[]),
    "scenario: must be a file, a mapping .* got a NoneType": lambda _: planner.train(None),
    "scenario: must be a file, a mapping .* got a int": lambda _: planner.train_measured(5),
    "file: must be a file, got dict": lambda absent: planner.study({}, absent),
    "old: must be a plan, .* got int": lambda absent: planner.diff(1, absent),
}


ARGUMENTS = {
    "gpu T9: is not in the catalog": lambda: planner.simulate(WEEK, "T9", 1),
    "seed -1: must be from 0 to": lambda: planner.plan(WEEK, seed=-1),
}


@pytest.mark.parametrize("said", ARGUMENTS)
def test_an_argument_is_named_as_in_python_and_an_option_as_on_the_command_line(said):
    with pytest.raises(InputError) as refused:
        ARGUMENTS[said]()
    assert str(refused.value).startswith(said)
    assert refused.value.on_command_line.startswith(f"--{said}")


def test_differences_are_shown_of_answers_and_trainings_asked_of_mappings():
    file = SCENARIOS / "training" / "resnet50.yaml"
    asked = yaml.safe_load(file.read_text(encoding="utf-8"))
    whole, part = planner.train(file), planner.train(asked)
    assert whole.cheapest == part.cheapest
    assert planner.diff(whole, part).old.path == "old"
    with pytest.raises(InputError, match="data: is missing"):
        planner.train({"model": {"zoo": "resnet50"}})


@pytest.mark.parametrize("said", OTHERS)
def test_what_is_neither_a_file_nor_an_answer_is_refused_in_one_line(said, tmp_path):
    with pytest.raises(InputError, match=said) as refused:
        OTHERS[said](tmp_path / "absent.json")
    assert "\n" not in str(refused.value)
    assert not [*tmp_path.iterdir()]


def test_an_answer_is_explained_from_its_file(tmp_path):
    planner.write_plan(PLAN, tmp_path / "plan.json")
    assert planner.explain(tmp_path / "plan.json") == planner.explain(PLAN)


WRITES = {
    "write_plan": lambda file: planner.write_plan(PLAN, file),
    "report": lambda file: planner.report(file, file),
    "validate": lambda file: planner.validate(file, record=file),
    "profiles_plot": lambda file: planner.profiles_plot("vgg16", file),
    "trace_import": lambda file: planner.trace_import("scenarios/data/bursts.csv", file),
}


@pytest.mark.parametrize("name", WRITES)
def test_nothing_is_written_over_what_is_something_else(name, tmp_path):
    file = tmp_path / "scenario.yaml"
    text = Path("scenarios/trace.yaml").read_text(encoding="utf-8")
    file.write_text(text, encoding="utf-8")
    with pytest.raises(
        InputError, match=r"scenario\.yaml: (exists|must end|is the)|must end in .csv, got .*scenario\.yaml"
    ):
        WRITES[name](file)
    assert file.read_text(encoding="utf-8") == text


class Served(Exception):
    """Instead of serving for so long."""


@pytest.mark.parametrize(("horizon", "asked_s", "lasts_s"), [("7 s", None, 7), ("7 s", 2, 2), (None, None, 30)])
def test_a_run_lasts_as_long_as_with_the_command(horizon, asked_s, lasts_s, monkeypatch):
    def serve(_loaded, _bench, duration_s, *_):
        raise Served(duration_s)

    monkeypatch.setattr("planner.questions.validation.bench.record", serve)
    overrides = [f"horizon={horizon or 'null'}"]
    with pytest.raises(Served) as served:
        planner.validate("scenarios/video.yaml", duration_s=asked_s, overrides=overrides)
    assert served.value.args == (lasts_s,)


def test_a_simulation_says_which_machines_of_ones_own_have_no_part_in_it() -> None:
    def codes(gpu: str) -> set[Code]:
        found = planner.simulate(SCENARIOS / "edge-box.yaml", gpu, 1, overrides=["horizon=10 s", "confidence=50 %"])
        return {one.what.code for one in found.warnings}

    assert Code.OWN_NOT_REPLAYED in codes("T4")
    assert Code.OWN_NOT_REPLAYED not in codes("V100")


TRACE = "scenarios/trace.yaml"
NO_SUCH_VALUES = {
    "count: must be a whole number, got 2.0": lambda _: planner.simulate(TRACE, "V100", 2.0),
    "count: must be a whole number, got 2.5": lambda _: planner.simulate(TRACE, "V100", 2.5),
    "count: must be a whole number, got True": lambda _: planner.simulate(TRACE, "V100", True),
    "count: must be a whole number, got 'x'": lambda _: planner.simulate(TRACE, "V100", "x"),
    "gpu: must be a text, got 4": lambda _: planner.simulate(TRACE, 4, 2),
    "seed: must be a whole number, got 'x'": lambda _: planner.plan(TRACE, seed="x"),
    "seed: must be a whole number, got False": lambda here: planner.study(STUDY, here / "out", seed=False),
    "lose: must be a whole number, got 1.5": lambda _: planner.whatif(PLAN, lose=1.5),
    "load: must be a multiple of the load, got none": lambda _: planner.whatif(PLAN, load=None),
    "load: must be a multiple of the load, got `much`": lambda _: planner.whatif(PLAN, load="much"),
    "workers: must be a whole number, got 2.0": lambda here: planner.study(STUDY, here / "out", workers=2.0),
    "out: must be a file, got int": lambda _: planner.study(STUDY, 5),
    "batch: must be a whole number, got 4.0": lambda _: planner.profile("lenet", batch=4.0),
    "model: must be a text, got 5": lambda _: planner.profile(5),
    "input_shape: must be a text, got 5": lambda _: planner.profile("lenet", input_shape=5),
    "file: must be a file, got list": lambda _: planner.predict(["gpu,model"]),
    "counts: must be a list, got 3": lambda _: planner.merge_breakeven(TRACE, counts=3),
    "batches: must be a whole number, got 1.5": lambda _: planner.profiles_table("lenet", batches=[1.5]),
    "duration_s: must be a duration, got `x`": lambda _: planner.validate(TRACE, duration_s="x"),
    "overrides: must be a list of texts, got 5": lambda _: planner.plan(TRACE, overrides=5),
    "catalog or profiles: must be a list of folders": lambda _: planner.plan(TRACE, catalog=5),
    "to: must be a text, got 5": lambda here: planner.export(PLAN, 5, here),
    "kind: must be a text, got 5": lambda _: planner.gpus_show(5),
}


@pytest.mark.parametrize(("said", "call"), NO_SUCH_VALUES.items())
def test_a_value_of_another_kind_is_named_with_its_argument(said, call, tmp_path):
    with pytest.raises(InputError) as error:
        call(tmp_path)
    assert str(error.value).startswith(said)
    assert "\n" not in str(error.value)


def test_values_are_taken_as_a_command_takes_them():
    replay = planner.simulate(TRACE, "V100", "1", seed="2")
    assert replay.models == planner.simulate(TRACE, "V100", 1, seed=2).models
    assert planner.profile("lenet", batch="4").batch == 4
    assert planner.profiles_table("resnet50", batches="1,2", gpu="V100").batches == (1, 2)


@pytest.mark.parametrize(("written", "read"), [("130 %", 1.3), ("1.3", 1.3), (1.3, 1.3), (2, 2.0)])
def test_a_load_is_taken_as_a_command_takes_it(written, read):
    assert quantity("load", load_factor, written) == read
