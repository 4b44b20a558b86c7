"""The first minutes on a GPU: every command is one that is understood, and what it names is there."""

from pathlib import Path

import pytest
from support.paths import ROOT

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
