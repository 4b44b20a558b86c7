"""Models trained to share layers: real networks on real pictures, on this machine's processor."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from support import joint_tasks
from support.forks import forking
from support.paths import ROOT
from support.shown import TRAINED_IN_TEST_JOINT

from calibrate.joint import train as joint
from calibrate.joint.curve import read_curve
from calibrate.joint.spec import JointSpec, SpecError, TaskSpec, read_spec
from calibrate.joint.state import JointError
from calibrate.joint.training import Training, build, hopeless, loss_factors, moved, rounds, tied, weights_of
from calibrate.tasks import digits, share_right
from planner.io.load import ScenarioError
from planner.questions.merging.joint import read_joint_spec
from simulator.world.sharing import groups

DIGITS = ROOT / "scenarios" / "merge" / "digits.yaml"
LIMIT_S = 120.0
"""After which a process that says nothing is taken for dead."""


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def planner(*arguments: str) -> list[str]:
    return [str(Path(sys.executable).with_name("planner")), "merge", "train", *arguments, "--device", "cpu"]


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def spec(**changes) -> JointSpec:
    tasks = tuple(TaskSpec(name=name, factory=f"support.joint_tasks:{name}") for name in changes.pop("tasks"))
    return JointSpec(tasks=tasks, **{"epochs": 4, "epochs_alone": 3, "learning_rate": 0.1} | changes)


def train(wanted: JointSpec, folder: Path, *, resume: bool = False, say=lambda _: None) -> dict:
    joint.train(wanted, folder, "cpu", resume=resume, say=say)
    return json.loads((folder / "curve.json").read_text())


def timeless(curve: dict) -> dict:
    """All of a curve but what the clock brings."""
    points = [{key: value for key, value in point.items() if key != "wall_s"} for point in curve["points"]]
    machine = {key: value for key, value in curve["provenance"].items() if key != "date"}
    return {**curve, "points": points, "provenance": machine}


# The shipped example


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The example as README shows it: its folder, and what it said."""
    folder = tmp_path_factory.mktemp("digits") / "merged"
    words = shlex.split(TRAINED_IN_TEST_JOINT)[1:]
    command = [Path(sys.executable).with_name("planner"), *words, "--out", str(folder)]
    with forking():
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment(), cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return folder, done


def test_digits_share_more_than_the_stem_and_stay_accurate(trained):
    folder, done = trained
    raw, curve = json.loads((folder / "curve.json").read_text()), read_curve(folder / "curve.json")
    held = [point for point, tried in zip(curve.points, raw["attempts"], strict=True) if tried["accepted"]]
    assert held
    assert set(held[-1].accuracy) == {"which-digit", "parity", "larger-than-four"}
    assert all(value >= 0.95 for value in held[-1].accuracy.values())
    assert all(value >= raw["targets"][name] for name, value in held[-1].accuracy.items())
    assert raw["shareable_bytes"] >= held[-1].saved_bytes > 10 * max(raw["stem_bytes"], raw["branching_stem_bytes"])
    assert raw["stem_bytes"] == 2 * (8 * 9 + 8) * 4  # one convolution of three
    assert min(model["accuracy"] for model in raw["models"].values()) > 0.9
    assert "every model keeps its target" in " ".join(done.stdout.split())
    assert f"{held[-1].saved_bytes / 1e3:.1f} kB" in done.stdout


def test_merged_weights_are_shared_and_as_accurate_as_the_curve_says(trained):
    folder, _ = trained
    raw, curve = json.loads((folder / "curve.json").read_text()), read_curve(folder / "curve.json")
    held = [point for point, tried in zip(curve.points, raw["attempts"], strict=True) if tried["accepted"]][-1]
    weights = torch.load(folder / raw["weights"], weights_only=True)
    made = {"which-digit": digits.which_digit, "parity": digits.parity, "larger-than-four": digits.larger_than_four}
    for name, factory in made.items():
        task = factory()
        task.model.load_state_dict(weights[name])
        task.model.eval()
        with torch.no_grad():
            now = share_right(task.model, task.validation) / raw["models"][name]["accuracy"]
        assert now == pytest.approx(held.accuracy[name], abs=1e-9)
    kept = {id: t for part in weights.values() for id, t in ((t.numpy().tobytes(), t) for t in part.values())}
    apart = sum(t.numel() * t.element_size() for part in weights.values() for t in part.values())
    together = sum(t.numel() * t.element_size() for t in kept.values())
    # Counters of norms and tensors of zeros may be equal by chance, shared tensors are equal by all means.
    assert apart - together >= held.saved_bytes


def test_killed_and_resumed_loses_nothing_but_the_epoch_in_flight(tmp_path):
    """Amid the third epoch of the second model, of 22 batches each; against the same in one go."""
    file, mine, heard = (tmp_path / name for name in ("short.yaml", "merged", "stderr"))
    told = spec(tasks=["parity", "dropping", "larger_than_four"], epochs=2, epochs_alone=3, attempts=1)
    file.write_text(json.dumps(told.to_json()), encoding="utf-8")
    command = planner(str(file), "--out", str(mine))
    hangs = environment() | {joint_tasks.HANGS: "50", "PYTHONPATH": str(ROOT / "tests")}
    with heard.open("w") as errors, forking(), subprocess.Popen(command, stderr=errors, env=hangs) as process:
        wait_for("dropping alone: epoch 2", heard, process)
        process.send_signal(signal.SIGKILL)  # the process that trains ends with it
    before = epochs(heard.read_text().splitlines())
    until_unlocked(mine)
    again: list[str] = []
    joint.train(read_joint_spec(file), mine, "cpu", resume=True, say=again.append)
    in_one_go: list[str] = []
    whole = train(read_joint_spec(file), tmp_path / "whole", say=in_one_go.append)
    expected = epochs(in_one_go)
    assert 0 < len(before) < len(expected)
    assert list(dict.fromkeys([*before, *epochs(again)])) == expected
    assert len(before) + len(epochs(again)) <= len(expected) + 1
    assert timeless(json.loads((mine / "curve.json").read_text())) == timeless(whole)


def epochs(lines: list[str]) -> list[str]:
    return [line for line in lines if ": epoch " in line]


def wait_for(text: str, file: Path, process) -> None:
    said, deadline = "", time.monotonic() + LIMIT_S
    while text not in said:
        assert process.poll() is None, said
        assert time.monotonic() < deadline, said
        time.sleep(0.02)
        if (heard := file.read_text()) != said:
            said, deadline = heard, time.monotonic() + LIMIT_S


def until_unlocked(folder: Path) -> None:
    import fcntl

    with (folder / ".lock").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)


# Sharing one object


def nets(*names):
    return {name: build(TaskSpec(name=name, factory=f"calibrate.tasks.digits:{name}"), 1) for name in names}


def shared(*names):
    made = nets(*names)
    weights = weights_of({name: net.task.model for name, net in made.items()})
    sharing = groups({name: net.layers for name, net in made.items()})
    return made, sharing, tied(made, list(made), weights, sharing, "cpu")


def test_models_refer_to_one_object():
    made, sharing, modules = shared("which_digit", "parity", "larger_than_four")
    assert [len(group.models) for group in sharing] == [3, 2, 2, 3]
    for group in sharing:
        objects = {modules[name].get_submodule(made[name].layer_of(group)) for name in group.models}
        assert len(objects) == 1
    held = {id(p): p for module in modules.values() for p in module.parameters()}
    alone = sum(p.numel() for net in made.values() for p in net.task.model.parameters())
    assert alone - sum(p.numel() for p in held.values()) == sum(group.saved_bytes for group in sharing) / 4
    assert all(p is not q for p in held.values() for net in made.values() for q in net.task.model.parameters())


def test_one_step_follows_the_sum_of_the_losses(tmp_path):
    made, sharing, modules = shared("parity", "larger_than_four")
    factors = {"parity": 1.0, "larger_than_four": 2.0}
    batches = {name: next(iter(net.task.validation)) for name, net in made.items()}
    for module in modules.values():
        module.train()
    layer = modules["parity"].get_submodule(made["parity"].layer_of(sharing[0]))
    total = sum(factors[name] * made[name].task.loss(modules[name], batches[name]) for name in made)
    total.backward()
    wanted = layer.weight.detach() - 0.1 * layer.weight.grad
    one_batch = {
        name: type(net)(net.name, joint_tasks.Task(net.task.model, [batches[name]], []), net.layers)
        for name, net in made.items()
    }
    told = spec(tasks=["parity", "larger_than_four"], learning_rate=0.1, momentum=0.0, weight_decay=0.0)
    with joint.JointWork(tmp_path, told, "cpu", resume=False) as work:
        training = Training(work, told, one_batch, lambda _: None)
        assert training.epoch(modules, training.optimizer(modules), factors)
    torch.testing.assert_close(layer.weight.detach(), wanted)


def test_a_sharing_that_costs_too_much_is_taken_back(tmp_path):
    curve = train(spec(tasks=["parity", "larger_than_four"], epochs=8), tmp_path)
    (tried,) = curve["attempts"]
    assert not tried["accepted"]
    assert tried["epochs"] < 8  # given up early
    assert min(curve["points"][0]["accuracy"].values()) < 0.95
    weights = torch.load(tmp_path / curve["weights"], weights_only=True)
    task = joint_tasks.parity()
    task.model.load_state_dict(weights["parity"])
    assert share_right(task.model, task.validation) == curve["models"]["parity"]["accuracy"]


def test_half_of_the_models_share_where_all_cannot(tmp_path):
    names = {"odd": "parity", "again": "parity", "large": "larger_than_four"}
    tasks = tuple(TaskSpec(name=name, factory=f"support.joint_tasks:{factory}") for name, factory in names.items())
    curve = train(JointSpec(tasks=tasks, epochs=4, epochs_alone=3, learning_rate=0.1), tmp_path)
    assert [tried["accepted"] for tried in curve["attempts"]] == [False, True]
    assert curve["groups"][curve["points"][1]["groups"][0]]["models"] == ["odd", "again"]
    assert curve["points"][1]["accuracy"]["large"] == 1


def test_without_epochs_alone_models_come_trained(tmp_path):
    """Both start from the factory's weights, and sharing equal tasks holds before any epoch."""
    curve = train(spec(tasks=["parity", "dropping"], epochs_alone=0, epochs=1), tmp_path)
    assert [len(curve["points"]), curve["attempts"][0]["trained"]] == [1, ["dropping", "parity"]]


RANDOM = {"tasks": ["parity", "dropping", "larger_than_four"], "epochs": 2, "epochs_alone": 1}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory, one_thread):
    """What comes of a training that draws random numbers, and how many lines it says."""
    heard: list[str] = []
    return train(spec(**RANDOM), tmp_path_factory.mktemp("whole"), say=heard.append), len(heard)


@pytest.mark.parametrize("line", range(1, 10))
def test_interrupted_anywhere_and_resumed_gives_the_same(tmp_path, uninterrupted, line):
    told = spec(**RANDOM)
    whole, lines = uninterrupted
    heard: list[str] = []

    def interrupt(text: str) -> None:
        heard.append(text)
        if len(heard) == line:
            raise KeyboardInterrupt

    assert lines >= line
    with pytest.raises(KeyboardInterrupt):
        train(told, tmp_path, say=interrupt)
    assert timeless(train(told, tmp_path, resume=True)) == timeless(whole)


def test_a_folder_is_used_once_and_for_one_spec(tmp_path):
    told = spec(tasks=["parity", "dropping"], epochs=1, epochs_alone=1)
    train(told, tmp_path)
    with pytest.raises(JointError, match=r"holds 2 models alone and 1 sharings already. Continue with --resume"):
        train(told, tmp_path)
    with pytest.raises(JointError, match="seed was `0`, now it is `7`"):
        train(spec(tasks=["parity", "dropping"], epochs=1, epochs_alone=1, seed=7), tmp_path, resume=True)
    with joint.JointWork(tmp_path, told, "cpu", resume=True), pytest.raises(JointError, match="another training"):
        train(told, tmp_path, resume=True)
    (tmp_path / "state.json").write_text("{")
    with pytest.raises(JointError, match=r"state\.json:1:2: is not JSON"):
        train(told, tmp_path, resume=True)


# Rules


def test_loss_counts_more_far_from_the_target():
    factors = loss_factors({"a": 0.6, "b": 0.95, "c": 0.0}, {"a": 0.95, "b": 0.95, "c": 0.95})
    assert factors == pytest.approx({"a": 1.411, "b": 1.0, "c": 10.0}, abs=1e-3)


@pytest.mark.parametrize(
    ("values", "left", "gone"),
    [
        ([0.78, 0.79, 0.80], 5, True),  # 5 x .01 < .15, twice
        ([0.70, 0.79, 0.80], 5, False),  # 5 x .09 >= .16 at the first of both
        ([0.79, 0.80], 5, False),  # too early to tell
        ([0.99, 0.97, 0.955], 5, False),  # falls, but is there
        ([0.80, 0.80, 0.90], 1, False),
        ([0.80, 0.80, 0.90], 0, True),
    ],
)
def test_an_attempt_is_given_up_when_it_will_not_get_there(values, left, gone):
    history = [{"m": value} for value in values]
    assert bool(hopeless(history, {"m": 0.95}, len(values) - 1 + left)) is gone


def test_shorter_data_begins_anew():
    found = list(rounds({"short": [1, 2], "long": [1, 2, 3, 4, 5], "same": (9, 8, 7, 6, 5)}))
    assert [batch["short"] for batch in found] == [1, 2, 1, 2, 1]
    assert [batch["long"] for batch in found] == [1, 2, 3, 4, 5]


def test_batches_of_any_form_go_to_the_device():
    batch = {"images": [torch.zeros(1)], "boxes": ({"labels": torch.ones(1)}, "name")}
    there = moved(batch, "meta")
    assert there["images"][0].device.type == there["boxes"][0]["labels"].device.type == "meta"
    assert there["boxes"][1] == "name"


# Bad input


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("metric_is_nan", "task metric_is_nan: its metric gave nan; it must be a number of at least 0"),
        ("metric_is_zero", "task metric_is_zero: its accuracy alone is 0, of which no share can be kept"),
        ("metric_raises", "task metric_raises: its metric on one batch raised KeyError: 'label'"),
        ("loss_raises", "task loss_raises: its loss raised ValueError: expected 10 classes got 2"),
        ("loss_is_nan", "task loss_is_nan: its loss alone is no number any more. Lower `learning_rate`."),
        ("no_data", "task no_data: its training data is empty"),
        ("nothing_to_judge_by", "task nothing_to_judge_by: its validation data is empty"),
        ("nothing_to_train", "nothing_to_train: no weight may be trained"),
        ("without_weights", "without_weights: has no layers with weights, so nothing can be shared"),
        ("in_float64", "in_float64: its weights are float64, those of parity float32"),
        (
            "raising",
            "task raising: support.joint_tasks:raising: the factory raised FileNotFoundError: frames/ is empty",
        ),
        ("no_task", "task no_task: support.joint_tasks:no_task: returned Linear, not a calibrate.tasks.Task"),
        ("no_model", "its model is str, not a torch.nn.Module"),
        ("not_a_function", "joint_tasks has no function not_a_function"),
        ("absent", "joint_tasks has no function absent"),
    ],
)
def test_a_bad_task_is_one_clear_line(task, said, tmp_path, capsys):
    file = tmp_path / "spec.json"
    file.write_text(json.dumps(spec(tasks=["parity", task], epochs_alone=1).to_json()))
    assert joint.main([str(file), "--out", str(tmp_path / "out"), "--quiet"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tasks": []}, "`tasks` must be a list of two tasks or more"),
        ({"tasks": [{"name": "a"}, 3]}, "tasks.0: `factory` is missing. Add it.; tasks.1: must be a mapping"),
        ({"epochs": 0}, "epochs: must be a whole number of at least 1, got 0"),
        ({"epochs_alone": True}, "epochs_alone: must be a whole number of at least 0, got True"),
        ({"learning_rate": 0}, "learning_rate: must be above 0, got 0"),
        ({"momentum": 1}, "momentum: must be at least 0 and below 1, got 1"),
        ({"momentums": 1}, "momentums: unknown key. Known: tasks, epochs"),
    ],
)
def test_a_bad_spec_says_what_is_wrong(changes, said):
    with pytest.raises(SpecError) as error:
        read_spec({**spec(tasks=["parity", "dropping"]).to_json(), **changes})
    assert said in str(error.value)


def test_a_spec_is_read_as_it_was_written():
    told = spec(tasks=["parity", "dropping"], attempts=3)
    assert read_spec(json.loads(json.dumps(told.to_json()))) == told


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("target: 96 %", "target: 96", ":10:13: tasks[2].target: must be between 0 and 1, got 96. Write 0.96 or 96 %."),
        ("epochs: 8", "epoch: 8", ":12:8: epoch: unknown key."),
        ("name: parity", "name: which-digit", ":6:11: tasks[1].name: `which-digit` is there twice."),
        ("digits:parity", "digits.parity", "tasks[1].factory: must be `package.module:function`"),
        ("seed: 1", "seed: 1\nseed: 2", "key `seed` is given twice"),
    ],
)
def test_a_bad_yaml_names_the_place(old, new, said, tmp_path):
    file = tmp_path / "spec.yaml"
    file.write_text(DIGITS.read_text().replace(old, new, 1))
    with pytest.raises(ScenarioError) as error:
        read_joint_spec(file)
    (line,) = error.value.problems
    assert line.startswith(str(file))
    assert said in line


def test_no_file_and_no_device(tmp_path):
    done = subprocess.run(planner("absent.yaml"), capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "absent.yaml: no such file. scenarios/merge/digits.yaml" in done.stderr
    file = tmp_path / "spec.json"
    file.write_text(json.dumps(spec(tasks=["parity", "dropping"]).to_json()))
    assert joint.main([str(file), "--out", str(tmp_path), "--device", "tpu"]) == 2
