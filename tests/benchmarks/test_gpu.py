"""The first minutes on a GPU: every command is one that is understood, and what it names is there."""

import json
import re
import tarfile
from pathlib import Path

import pytest
from support import cuda
from support.paths import ROOT

from benchmarks import gpu
from benchmarks.gpu import STEPS, arguments
from calibrate.cli import read
from planner.cli import app

COMMANDS = [(step, command) for step, (_, commands) in STEPS.items() for command in commands]


@pytest.mark.parametrize(("step", "command"), COMMANDS)
def test_every_command_is_understood(step: str, command: str) -> None:
    module, *words = arguments(command, step, "cuda:0", Path("gpu"))
    if module == "calibrate":
        request = read(words)
        assert (request.device, request.out, request.resume) == ("cuda:0", Path("gpu", step), True)
        return
    import typer.main

    name, *options = words
    found = typer.main.get_command(app).commands[name]
    context = found.make_context(name, options, resilient_parsing=True)
    assert context.args == []
    assert all((ROOT / word).exists() for word in options if word.startswith("scenarios/"))


def test_what_is_begun_again_does_not_write_over_a_log(tmp_path: Path) -> None:
    command = "calibrate --models lenet --memory-log {out}/a.csv"
    assert "--memory-log" in arguments(command, "smoke", "cpu", tmp_path)
    (tmp_path / "a.csv").touch()
    assert "--memory-log" not in arguments(command, "smoke", "cpu", tmp_path)


def test_a_first_hour_is_enough() -> None:
    assert sum(limit_s for limit_s, _ in STEPS.values()) < 3600


SMALL = {
    r"--models \S+": "--models lenet",
    r"--batches \S+": "--batches 1",
    r"--seconds \S+": "--seconds 0.02",
    r"--precision \S+": "--precision torch",
    r"--measure": "--measure --batch 2 --samples 4 --set data.loader=null",
    r" --until-memory-ends": "",
}
"""So that a step takes seconds: fewer and smaller of the same things."""


def in_small(command: str) -> str:
    for pattern, small in SMALL.items():
        command = re.sub(pattern, small, command)
    return command


@pytest.mark.usefixtures("forked")
def test_a_step_ends_well_on_a_gpu_in_imitation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = tmp_path / "held"
    held.mkdir()
    for name, value in (cuda.environment(folder=str(held)) | {"OMP_NUM_THREADS": "1"}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(ROOT)
    step = "training"
    _, commands = STEPS[step]
    monkeypatch.setattr(gpu, "STEPS", {step: (3600, [in_small(command) for command in commands])})
    assert gpu.main(["--out", str(tmp_path), "--steps", step]) == 0, (tmp_path / f"{step}.log").read_text()
    with tarfile.open(tmp_path / f"{step}.tgz") as packed:
        names = [Path(name).name for name in packed.getnames()]
        assert "journal.jsonl" in names
    made = [json.loads(path.read_text()) for path in (tmp_path / step).rglob("lenet*.json")]
    assert {raw["gpu"] for raw in made} == {"H100"}
