"""The tutorial, the how-tos, the page for students and the notebook: they run as shown, and say what is shown."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from support.commands import planner
from support.figures import held_elsewhere, not_shown
from support.notebook import run
from support.paths import ROOT, SCENARIOS
from support.shown import WALKED
from support.walks import ageless, pictures, saved, shown_anew, steps

from planner.io.store import read_plan

DOCS = ROOT / "docs"
TUTORIAL = DOCS / "tutorial.md"
NOTEBOOK = DOCS / "planner.ipynb"
UPDATE = "UPDATE_DOCS" in os.environ


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder of one's own, as wide as the pages."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys, "path", sys.path.copy())
    shutil.copytree(SCENARIOS, tmp_path / "scenarios")
    return tmp_path


def test_the_tutorial_runs_on_this_processor(here):
    """The page was written on one kind of processor; a reader has another."""
    pytest.importorskip("torch")
    page = TUTORIAL.read_text(encoding="utf-8")
    (here / "tiles.py").write_text(saved(page)["tiles.py"])
    walk = list(steps(page))
    assert len(walk) >= 9
    for step in walk:
        code, out, err = planner(*step.words)
        assert (code, "Traceback" in err) == (step.code, False), (step.words, out, err)
        if step.words[0] == "calibrate":
            (kind,) = (folder.name for folder in Path("measured").iterdir())
            (here / "tiles.yaml").write_text(saved(page)["tiles.yaml"].replace("cpu-amd-epyc", kind))
    assert (here / "served" / "serve_config.yaml").read_text().count("tiles:make") == 1


@pytest.mark.parametrize("file", WALKED, ids=lambda file: file.stem)
def test_a_page_runs_and_answers_as_shown(file, here):
    """What is shown of an answer stands in it, line for line. UPDATE_DOCS=1 writes it anew, and the pictures."""
    pytest.importorskip("matplotlib")
    page = file.read_text(encoding="utf-8")
    if "--measure" in page:
        pytest.importorskip("torch")
    for name, text in saved(page).items():
        (here / name).write_text(text)
    walk = list(steps(page))
    assert walk
    printed = ""
    for step in walk:
        code, out, err = planner(*step.words)
        assert code == step.code, (step.words, out, err)
        printed += out
        if step.words == ["plan", "scenarios/video.yaml"]:
            readme_shows(out)
            can_be_rented_for_less_than_retired_machines(read_plan(here / "plan.json").recommendation)
        if UPDATE:
            page = shown_anew(page, step.answer, out)
        assert UPDATE or ageless(f"\n{step.answer}") in ageless(f"\n{out}"), (step.words, out)
    elsewhere = held_elsewhere(file.relative_to(ROOT).as_posix())
    assert set(not_shown(page, printed)) <= {figure for _, figures in elsewhere for figure in figures}
    drawn = pictures(page)
    assert all((here / name).is_file() for name in drawn)
    if file.stem == "report":
        assert sections_named(page) <= sections_shown(here / "report.html")
    if UPDATE:
        file.write_text(page, encoding="utf-8")
        for name in drawn:
            shutil.copy(here / name, DOCS / "images" / name)


def readme_shows(out):
    """The answer at the top, whole. UPDATE_DOCS=1 writes it anew."""
    readme = ROOT / "README.md"
    before, fence, rest = readme.read_text(encoding="utf-8").partition("```text\n")
    answer, end, after = rest.partition("```")
    if UPDATE:
        readme.write_text("".join((before, fence, out, end, after)), encoding="utf-8")
    else:
        assert ageless(answer) == ageless(out)


def can_be_rented_for_less_than_retired_machines(best):
    """Four V100s, which can no longer be rented, would be $12.24/h."""
    assert best.feasible
    assert best.predicted
    assert {gpu.kind for gpu in best.gpus} <= {"T4", "A10G"}
    assert best.cost_usd_per_hour < 12.24
    assert 0 < best.lower_bound_usd_per_hour <= best.cost_usd_per_hour
    assert {model.mode for model in best.models} == {"resident"}


def sections_named(page):
    """The second column of the table of questions."""
    named = set(re.findall(r"^\| [^|]+\? \| ([^|]+) \|", page, re.MULTILINE))
    assert len(named) >= 9
    return named


def sections_shown(report):
    return set(re.findall(r"<h2[^>]*>(.*?)</h2>", report.read_text(encoding="utf-8")))


def test_the_notebook_gives_what_it_shows(here):
    """UPDATE_DOCS=1 writes its outputs anew."""
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    for cell, outputs in run(notebook):
        assert UPDATE or cell["outputs"] == outputs, cell["source"]
        cell["outputs"] = outputs
    if UPDATE:
        NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    assert NOTEBOOK.stat().st_size < 20_000
