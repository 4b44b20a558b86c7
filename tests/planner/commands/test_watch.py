"""`planner plan --watch`: answered again when the file is saved, whatever was wrong with it meanwhile."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.answers import BEST, PLAN
from support.commands import planner

from planner.api import serving
from planner.console import watching
from planner.console.watching import saved
from planner.objects import Plan
from planner.show.text.plan import since
from simulator.errors import InputError


def test_a_file_is_seen_at_once_and_each_time_it_is_saved(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("1", encoding="utf-8")
    steps = iter(
        [
            lambda: None,
            lambda: file.write_text("12", encoding="utf-8"),
            file.unlink,  # an editor puts another in its place
            lambda: file.write_text("123", encoding="utf-8"),
            lambda: None,
        ]
    )
    seen = []
    try:
        for _ in saved(file, wait=lambda _: next(steps)()):
            seen.append(file.read_text(encoding="utf-8"))
    except RuntimeError:  # no more steps
        pass
    assert seen == ["1", "12", "123"]


def test_errors_are_said_and_the_next_answer_says_what_changed(tmp_path: Path, monkeypatch) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("models: []", encoding="utf-8")
    dearer = replace(PLAN, recommendation=replace(BEST, cost_usd_per_hour=BEST.cost_usd_per_hour + 1, instances=()))
    answers = iter([Plan.of(PLAN), InputError("mine.yaml:1:1: models: wrong."), Plan.of(dearer), Plan.of(dearer)])

    def answer(*_: object, **__: object) -> object:
        found = next(answers)
        if isinstance(found, InputError):
            raise found
        return found

    def four_times(_: Path) -> Iterator[int]:
        yield from range(4)
        raise InputError("the end")

    monkeypatch.setattr(serving, "plan", answer)
    monkeypatch.setattr(watching, "saved", four_times)
    _, out, err = planner("plan", file, "--watch", "--quiet", "--format", "json")
    assert "mine.yaml:1:1: models: wrong." in err
    assert "$1.00/h more. Before: " in out
    assert "The same GPUs as before." in out


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("gone.yaml", "no such file"),
        ("loop.yaml", "Too many levels of symbolic links"),
        ("mine.yaml/a.yaml", "Not a directory"),
        ("", "is a directory"),
    ],
)
def test_what_is_no_file_is_not_watched(tmp_path: Path, monkeypatch, name: str, wrong: str) -> None:
    def asleep(_: float) -> None:
        raise AssertionError("waits for a file that nobody saves")

    monkeypatch.setattr(watching.time, "sleep", asleep)
    (tmp_path / "mine.yaml").write_text("models: []", encoding="utf-8")
    (tmp_path / "loop.yaml").symlink_to(tmp_path / "loop.yaml")
    code, out, err = planner("plan", tmp_path / name, "--watch", "--quiet")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert wrong in err


def test_who_ends_it_had_an_answer(tmp_path: Path, monkeypatch) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("models: []", encoding="utf-8")

    def once(_: Path) -> Iterator[None]:
        yield
        raise KeyboardInterrupt

    monkeypatch.setattr(serving, "plan", lambda *_, **__: Plan.of(PLAN))
    monkeypatch.setattr(watching, "saved", once)
    code, _, err = planner("plan", file, "--watch", "--quiet", "--format", "json")
    assert (code, err) == (130, "")


@pytest.mark.parametrize(("cost", "said"), [(-0.5, "$0.500/h less. Before: "), (0.0, "The same GPUs as before.")])
def test_what_changed_in_a_line(cost: float, said: str) -> None:
    changed = replace(
        BEST, cost_usd_per_hour=BEST.cost_usd_per_hour + cost, instances=BEST.instances * (1 + bool(cost))
    )
    assert since(PLAN, replace(PLAN, recommendation=changed)).startswith(said)
