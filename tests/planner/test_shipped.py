"""Shipped scenarios are found by name wherever one works."""

from pathlib import Path

import click
import pytest
import typer
from support.paths import SCENARIOS

from planner.console.options import shipped_path
from planner.console.shipped import named, shipped
from planner.objects import Scenario
from simulator.errors import InputError


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("video", "video.yaml"),
        ("video.yaml", "video.yaml"),
        ("scenarios/video.yaml", "video.yaml"),
        ("training/lenet", "training/lenet.yaml"),
        ("cases.csv", "cases.csv"),
        ("deadline", "studies/deadline.yaml"),
        ("lenet.yaml", "training/lenet.yaml"),
    ],
)
def test_a_name_stands_for_what_is_shipped(tmp_path, monkeypatch, typed, found):
    monkeypatch.chdir(tmp_path)
    assert shipped(Path(typed)) == SCENARIOS / found


def test_a_file_that_is_there_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("video.yaml").touch()
    assert shipped(Path("video.yaml")) == Path("video.yaml")


@pytest.mark.parametrize(
    ("typed", "note"),
    [
        ("lenet.yaml", "lenet.yaml: no such file here; the shipped training/lenet.yaml is used.\n"),
        ("lenet", ""),
        ("scenarios/video.yaml", ""),
        ("own.yaml", ""),
    ],
)
def test_what_stands_for_a_file_that_is_not_there_is_named(tmp_path, monkeypatch, capsys, typed, note):
    monkeypatch.chdir(tmp_path)
    Path("own.yaml").touch()
    context = typer.Context(click.Command("plan"))
    assert shipped_path(context, Path(typed)) == shipped(Path(typed))
    assert capsys.readouterr() == ("", note)
    context.resilient_parsing = True  # a shell completes the line
    assert shipped_path(context, Path(typed)) == shipped(Path(typed))
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("typed", ["nosuch", "../README.md", "/video.yaml", "data", "."])
def test_nothing_else_is_found(tmp_path, monkeypatch, typed):
    monkeypatch.chdir(tmp_path)
    assert shipped(Path(typed)) == Path(typed)


def test_python_finds_them_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Scenario.from_file("scenarios/trace.yaml") == Scenario.from_file(SCENARIOS / "trace.yaml")


@pytest.mark.parametrize(
    ("begun", "offered"),
    [
        ("vid", ["video.yaml", "video"]),
        ("training/gp", ["training/gpt3"]),
        ("mi", ["mine/"]),
        ("./vi", ["./video.yaml"]),
        ("no-such", []),
    ],
)
def test_a_shell_completes_files_folders_and_what_is_shipped(tmp_path, monkeypatch, begun, offered):
    monkeypatch.chdir(tmp_path)
    Path("video.yaml").touch()
    Path("video.txt").touch()
    Path("mine").mkdir()
    assert named(begun) == offered
    here = f"{tmp_path}/"
    assert named(f"{here}vi") == [f"{here}video.yaml"]


def test_a_word_that_is_nearly_a_shipped_scenario_is_told_which(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"^vide: no such file, .* Did you mean `video`\?$"):
        shipped(Path("vide"))
    with pytest.raises(InputError, match=r"^bursts: no such file, .* Did you mean `horizon/bursts`\?$"):
        shipped(Path("bursts"))
    assert shipped(Path("vide.yaml")) == Path("vide.yaml"), "a file, which its reader misses"
    assert shipped(Path("nosuch")) == Path("nosuch")
