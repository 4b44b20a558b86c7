"""Plans from the user's cache: the same as worked out, and worked out where anything has changed."""

import json
import multiprocessing
import os
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from support.answers import PLAN
from support.forks import forking

from planner.io import warm
from planner.io.load import Loaded, load_scenario
from planner.io.store import to_json
from planner.io.warm import key_of, warm_plan
from planner.model.plan import Plan, PlanWarning
from planner.model.statement import Code, Statement

SCENARIO = """
models: [{name: resnet50, slo: {latency: 100 ms}}]
streams: [{model: resnet50, count: 1, rate: 10 fps}]
buy: {gpus: [T4]}
"""
NOW, DAY = "2026-08-01T12:00:00+00:00", "2026-08-01"


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def scenario(tmp_path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(SCENARIO, encoding="utf-8")
    return path


def asked(
    path: Path, folders: tuple[list[Path], list[Path]] = ([], []), created_at: str = NOW, plan: Plan = PLAN
) -> tuple[Plan, bool]:
    """The plan, and whether it was worked out."""
    made = []

    def work() -> Plan:
        made.append(True)
        return replace(plan, created_at=created_at)

    return warm_plan(load_scenario(path), folders, created_at, work), bool(made)


def test_the_second_answer_is_the_first_to_the_last_digit(scenario: Path) -> None:
    first, made = asked(scenario)
    later = "2026-08-01T13:00:00+00:00"
    second, made_again = asked(scenario, created_at=later)
    assert (made, made_again) == (True, False)
    assert second.created_at == later
    assert repr(replace(second, created_at=first.created_at)) == repr(first)
    assert to_json(replace(second, created_at=first.created_at)) == to_json(first)


def test_counts_are_written_as_they_were(scenario: Path) -> None:
    more_gpus = Statement(code=Code.MORE_GPUS, figures={"gpu_count": 2, "share": 0.5})
    warned = replace(PLAN, warnings=(PlanWarning(what=more_gpus),))
    first, _ = asked(scenario, plan=warned)
    second, made_again = asked(scenario)
    assert not made_again
    assert to_json(second) == to_json(first)
    assert '"gpu_count": 2,' in to_json(first)


def test_a_change_is_worked_out(scenario: Path) -> None:
    asked(scenario)
    scenario.write_text(SCENARIO.replace("10 fps", "11 fps"), encoding="utf-8")
    assert asked(scenario)[1]


def test_prices_are_a_day_older_tomorrow(scenario: Path) -> None:
    asked(scenario)
    assert asked(scenario, created_at="2026-08-02T12:00:00+00:00")[1]


def test_one_s_own_files_count_by_what_is_in_them_and_what_they_are_for(scenario: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "a.json").write_text("1", encoding="utf-8")
    assert asked(scenario, ([], [own]))[1]
    assert not asked(scenario, ([], [own]))[1]
    assert asked(scenario, ([own], []))[1]
    (own / "a.json").write_text("2", encoding="utf-8")
    assert asked(scenario, ([], [own]))[1]


def test_a_folder_that_is_not_there_is_never_answered_from_the_cache(scenario: Path, tmp_path: Path) -> None:
    missing = ([tmp_path / "absent"], [])
    assert asked(scenario, missing)[1]
    assert asked(scenario, missing)[1]


STAGE = """
pipelines:
- {name: street, slo: {latency: 100 ms}, stages: [{name: detect, model: 'onnx:a.onnx'}]}
streams: [{model: street, count: 1, rate: 10 fps}]
"""


@pytest.mark.parametrize(
    "text",
    [SCENARIO.replace("name: resnet50,", "name: resnet50, model: 'onnx:a.onnx',"), STAGE],
    ids=["model", "stage"],
)
def test_models_whose_layers_are_looked_at_are_never_kept(scenario: Path, text: str) -> None:
    scenario.write_text(text, encoding="utf-8")
    assert asked(scenario)[1]
    assert asked(scenario)[1]


def test_another_program_or_recording_is_another_key(scenario: Path, tmp_path: Path, monkeypatch) -> None:
    loaded: Loaded = load_scenario(scenario)
    key = key_of(loaded, ([], []), DAY)
    assert key == key_of(load_scenario(scenario), ([], []), DAY)
    program = tmp_path / "program"
    program.mkdir()
    monkeypatch.setattr(warm, "PROGRAM", (program,))
    (program / "search.py").write_text("1", encoding="utf-8")
    before = key_of(loaded, ([], []), DAY)
    (program / "search.py").write_text("2", encoding="utf-8")
    assert len({key, before, key_of(loaded, ([], []), DAY)}) == 3


def test_what_is_damaged_is_made_anew(scenario: Path, tmp_path: Path) -> None:
    asked(scenario)
    (kept,) = (tmp_path / "cache").rglob("*.json")
    kept.write_text(json.dumps({**json.loads(kept.read_text(encoding="utf-8")), "seed": "x"}), encoding="utf-8")
    assert asked(scenario)[1]
    assert not asked(scenario)[1]


def test_the_oldest_go(scenario: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(warm, "KEPT_MAX", 2)
    for number in range(4):
        scenario.write_text(SCENARIO.replace("10 fps", f"{10 + number} fps"), encoding="utf-8")
        asked(scenario)
        newest = max((tmp_path / "cache").rglob("*.json"), key=lambda path: path.stat().st_mtime_ns)
        os.utime(newest, (number, number))
    assert len([*(tmp_path / "cache").rglob("*.json")]) == 2


def test_writers_beside_each_other_leave_one_whole_plan(scenario: Path, tmp_path: Path) -> None:
    fork = multiprocessing.get_context("fork")
    writers = [fork.Process(target=asked, args=(scenario,)) for _ in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0] * 4
    assert [path.suffix for path in (tmp_path / "cache").rglob("*") if path.is_file()] == [".json"]
    assert not asked(scenario)[1]


def test_a_plan_from_the_cache_loads_no_scipy(scenario: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.delenv("PLANNER_NO_CACHE", raising=False)
    code = (
        "import sys; from planner.cli import app\n"
        f"app(['plan', {str(scenario)!r}, '-q', '-o', {str(tmp_path / 'plan.json')!r}], standalone_mode=False)\n"
        "print('scipy' in sys.modules, file=sys.stderr)"
    )
    loaded = []
    for around in (forking(), nullcontext()):  # a copy has loaded all; only a fresh process shows what it needs
        with around:
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        loaded.append(done.stderr.strip())
    assert loaded == ["True", "False"]
