"""`planner calibrate`, `doctor` and `profiles plot` as a person meets them, on this machine's own CPU."""

import io
import json
import re
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import yaml
from support.paths import ROOT

from calibrate.cli import parser, read
from calibrate.library.lookup import find_kinds, find_profiles
from planner.catalog.catalog import load_catalog
from planner.cli import main
from simulator.errors import InputError
from simulator.world.profile import Evidence

PNG = b"\x89PNG\r\n\x1a\n"
SMALL = """
from torch import nn

def perceptron():
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 256), nn.ReLU(), nn.Linear(256, 10))
"""
MODELS = ("lenet", "small.perceptron.3x32x32")
OWN = ["--model", "small:perceptron", "--input", "3x32x32"]


@pytest.fixture
def here(forked, tmp_path, monkeypatch):
    """A folder of one's own with models in it."""
    (tmp_path / "small.py").write_text(SMALL, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return tmp_path


def planner(*words: str) -> subprocess.CompletedProcess[str]:
    """The whole command in this process, which has imported torch already; workers are processes, forked."""
    out, err = io.StringIO(), io.StringIO()
    command = ["planner", *words]
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        patch.setattr(sys, "argv", command)
        with pytest.raises(SystemExit) as end:
            main()
    return subprocess.CompletedProcess(command, int(end.value.code or 0), out.getvalue(), err.getvalue())


def done(*words: str) -> str:
    """Standard output of a command that goes well."""
    ended = planner(*words)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def scenario(kind: str) -> str:
    models = [{"name": name, "profile": name, "slo": {"latency": "200 ms", "attainment": "95 %"}} for name in MODELS]
    return yaml.safe_dump(
        {
            "name": "This machine",
            "horizon": "10 s",
            "replications": 2,
            "models": models,
            "streams": [{"model": model["name"], "count": 2, "rate": "5 fps"} for model in models],
            "buy": {"own": [{"name": "this-machine", "gpu": kind, "price": "$0.10/h"}]},
        }
    )


def test_models_measured_on_this_cpu_are_planned_with(here):
    """The real command measures two models; its files are read, planned with, explained, shown and drawn."""
    measuring = ["--device", "cpu", "--mode", "inference", "--batches", "1,4,16", "--seconds", "0.02"]
    ended = planner("calibrate", "--models", "lenet", *OWN, *measuring, "--out", "mine")
    assert ended.returncode == 0, ended.stderr
    ((name, kind),) = find_kinds([here / "mine"]).items() - find_kinds([]).items()
    assert name.startswith("cpu-")
    assert kind.memory_bytes > 1e9
    known = load_catalog().gpus | {name: kind}
    library = find_profiles([here / "mine"], known)
    for model in MODELS:
        (found,) = [p for p in library.for_model(model) if p.gpu == name]
        assert found.largest_batch == 16
        assert found.latency_evidence.rank <= Evidence.FITTED.rank
        assert found.flops_per_sample
    assert planner_answers(here, name) == list(MODELS)
    for what in ("latency", "memory", "layers"):
        done("profiles", "plot", "lenet", "--profiles", "mine", "--what", what, "-o", f"{what}.png")
        assert (here / f"{what}.png").read_bytes().startswith(PNG)


def planner_answers(here: Path, kind: str) -> list[str]:
    (here / "mine.yaml").write_text(scenario(kind), encoding="utf-8")
    said = done("plan", "mine.yaml", "--profiles", "mine", "-o", "plan.json")
    assert said.startswith("1 x this-machine")
    explained = done("explain", "plan.json")
    assert "own" in explained or kind in explained
    assert f"lenet on {kind}" in done("profiles", "show", "lenet", "--profiles", "mine")
    (best,) = [json.loads((here / "plan.json").read_text(encoding="utf-8"))["recommendation"]]
    assert best["feasible"]
    return [model["name"] for model in best["models"]]


def test_sessions_are_measured_apart_and_joined_by_one_command_or_by_two(here):
    measuring = ["--device", "cpu", "--models", "lenet", "--batches", "1,2", "--seconds", "0.02", "--apart", "0.1"]
    ended = planner("calibrate", *measuring, "--mode", "inference", "--sessions", "2", "--out", "mine")
    assert ended.returncode == 0, ended.stderr
    sessions = [f"mine-sessions/{number}" for number in (1, 2)]
    (path,) = [path for path in (here / "mine").rglob("*.json") if path.name != "device.json"]
    raw = json.loads(path.read_text(encoding="utf-8"))
    assert len(raw["measured"]["sessions"]) == 2
    assert raw["session_cv"] >= 0
    done("profiles", "join", *sessions, "--out", "again")
    assert (here / "again" / path.relative_to(here / "mine")).read_bytes() == path.read_bytes()
    again = planner("calibrate", *measuring, "--mode", "inference", "--sessions", "2", "--out", "mine", "--resume")
    assert again.returncode == 0, again.stderr
    assert path.read_bytes() == (here / "again" / path.relative_to(here / "mine")).read_bytes()
    assert planner("profiles", "join", "mine-sessions/1", "--out", "mine-sessions/2").returncode == 2


def test_a_dry_run_measures_nothing(here):
    ended = planner("calibrate", "--device", "cpu", "--models", "lenet", "--dry-run", "--out", "mine")
    assert ended.returncode == 0
    assert re.search(r"\d+ points, about .*Nothing was measured", ended.stdout + ended.stderr)
    assert not (here / "mine").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--models", "lenett"], r"--models: lenett is not known\. Did you mean lenet\?"),
        (["--models", "lenet", "--batches", "0"], r"--batches: 0 is not a whole number"),
        (["--models", "lenet", "--out", "small.py"], r"small\.py"),
        (["--models", "lenet", "--seed", "x"], r"--seed: x is not a whole number"),
        (["--models", "lenet", "--sed", "1"], r"unrecognized arguments: --sed 1\. planner calibrate --help lists all"),
    ],
)
def test_bad_input_is_one_clear_line(here, words, said):
    ended = planner("calibrate", *words, "--device", "cpu")
    assert ended.returncode == 2, ended.stderr
    lines = [line for line in ended.stderr.splitlines() if re.search(said, line)]
    assert lines, ended.stderr
    assert "Traceback" not in ended.stderr


def test_every_option_of_calibrate_stands_in_the_docs():
    """`planner calibrate` and `python -m calibrate` have one parser, and so one list of options."""
    _, _, section = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8").partition("## `planner calibrate`")
    options = [word for action in parser()._actions for word in action.option_strings if word.startswith("--")]
    assert len(options) > 15
    assert [word for word in options if word != "--help" and f"`{word}" not in section] == []


def test_help_of_calibrate_is_its_parsers(here):
    said = done("calibrate", "--help")
    assert said.startswith("usage: planner calibrate ")
    assert "--until-memory-ends" in said


def test_doctor_looks_at_this_cpu(here):
    said = done("doctor", "--device", "cpu")
    assert re.search(r"^ok +torch", said, re.MULTILINE)
    assert planner("doctor", "--device", "cuda:99").returncode == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["vgg16", "--gpu", "V100", "--what", "layers"], "vgg16 on V100: its layers are not known."),
        (["nvidia_resnet50"], "`nvidia_resnet50` has profiles on H100, H200, T4, V100. Name one with --gpu."),
        (["vgg16", "--precision", "int8"], "no profile of `vgg16` at `int8`. Known: fp32, torch."),
        (["vgg166"], "no profile of `vgg166`. Did you mean `vgg16`?"),
    ],
)
def test_a_picture_that_cannot_be_drawn_says_why(here, words, said):
    ended = planner("profiles", "plot", *words, "-o", "out.png")
    assert ended.returncode == 2
    assert said in ended.stderr
    assert not (here / "out.png").exists()


def test_published_figures_can_be_drawn_too(here):
    done("profiles", "plot", "nvidia_resnet50", "--gpu", "V100", "-o", "out.png")
    assert (here / "out.png").read_bytes().startswith(PNG)
    ended = planner("profiles", "plot", "vgg16", "-o", "absent/out.png")
    assert ended.returncode == 2
    assert "-o absent/out.png: cannot be written: folder absent is not there" in ended.stderr


ANY = """
import numpy as np
import torch
from torch import nn

class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.part, self.words = nn.Linear(8, 4), nn.Embedding(10, 4)

    def forward(self, picture, word):
        return {"score": self.part(picture) * self.words(word)}

class TwoInputs:
    make_model = Pair

    def make_input(self, batch, device):
        return torch.rand(batch, 8, device=device), torch.randint(10, (batch,), device=device)

class Engine:
    def make_model(self):
        self.weights = np.ones((256, 8192), dtype=np.float32) * 2
        return lambda rows: rows @ self.weights

    def make_input(self, batch, device):
        return np.ones((batch, 256), dtype=np.float32)
"""
ENGINE_BYTES = 256 * 8192 * 4


def test_models_of_two_inputs_and_what_can_only_be_called_are_calibrated(here):
    (here / "any.py").write_text(ANY, encoding="utf-8")
    models = [word for name in ("TwoInputs", "Engine") for word in ("--model", f"any:{name}")]
    measuring = ["--device", "cpu", "--batches", "1,2", "--seconds", "0.02", "--out", "mine"]
    ended = planner("calibrate", *models, *measuring, "--mode", "inference,training", "--optimizers", "sgd")
    assert ended.returncode == 0, ended.stderr
    known = load_catalog().gpus | find_kinds([here / "mine"])
    library = find_profiles([here / "mine"], known)
    (two,), (engine,) = (library.for_model(f"any.{name}") for name in ("TwoInputs", "Engine"))
    assert two.flops_per_sample == 2 * 8 * 4
    assert library.measured(two)["training"]["sgd"].keys() == {"1", "2"}
    assert ENGINE_BYTES * 0.9 < engine.weight_bytes < ENGINE_BYTES * 2, "what the process grew by"
    assert engine.memory_evidence is Evidence.MEASURED
    assert "is not trained" in library.measured(engine)["training_doubts"]["sgd"][0]


def test_models_go_by_the_names_that_plans_know():
    asked = ["--device", "cpu", "--models"]
    assert read([*asked, "yolo11s,lenet"]).models == ("ultralytics:yolo11s", "lenet")
    with pytest.raises(InputError, match=r"convnext_base may be timm:convnext_base\S* or torchvision:convnext_base"):
        read([*asked, "convnext_base"])
