"""Helps that name the words an option takes name all of them: some registries are too heavy to import for a help."""

import re

import pytest
import typer

from calibrate.library.reading import PRECISIONS
from planner.cli import app
from planner.compare.gate import METRICS
from planner.prediction.columns import COLUMNS
from planner.questions.profiling.systolic import Dataflow
from planner.search.simulation import POLICIES


@pytest.mark.parametrize(
    ("command", "name", "words"),
    [
        ("profile", "precision", PRECISIONS),
        ("plan", "fail_on", METRICS),
        ("simulate", "policy", POLICIES),
        ("predict", "file", COLUMNS),
    ],
)
def test_helps_name_every_word_that_an_option_takes(command, name, words):
    said = params(command)[name].help
    assert set(words) <= set(re.findall(r"[\w-]+", said))


def test_dataflows_are_in_the_place_of_the_value():
    assert params("profile")["dataflow"].metavar == "|".join(Dataflow)


def params(command):
    found = typer.main.get_command(app).commands[command].params
    return {param.name: param for param in found}
