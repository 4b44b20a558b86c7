"""Joint training: its spec read from YAML, and the training run in a process that has torch."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from calibrate.joint.spec import SpecError, read_spec
from planner.io.load import ScenarioError, read_yaml, refusal
from planner.io.schemas import document_of
from planner.io.strict_yaml import Problem, YamlDocument
from planner.units.errors import Steps, dotted
from planner.units.reading import fraction
from simulator.errors import InputError


def read_joint_spec(path: Path) -> Any:
    """The spec in a YAML file; ScenarioError lists all that is wrong, with its place."""
    if not path.exists():
        raise ScenarioError([f"{path}: no such file. scenarios/merge/digits.yaml is one to start from."])
    _, document = read_yaml(path)
    if question := document_of(document.data):
        raise ScenarioError([f"{path}: is {question}. Name a file with `tasks`, such as scenarios/merge/digits.yaml."])
    problems = [*document.problems, *(placed(document, *problem) for problem in read_shares(document.data))]
    try:
        spec = read_spec(document.data)
    except SpecError as error:
        named = {problem.path for problem in problems}
        others = (placed(document, *problem) for problem in error.problems)
        problems += (problem for problem in others if problem.path not in named)
    if problems:
        raise refusal(path, problems)
    return spec


def placed(document: YamlDocument, steps: Steps, message: str) -> Problem:
    """A problem with the place of its value, or of the nearest one around it that has a place."""
    around = (steps[:count] for count in range(len(steps), -1, -1))
    nearest = next(some for some in around if some in document.places)
    return Problem(*document.places[nearest], message, dotted(steps))


def read_shares(data: Any) -> Iterator[tuple[Steps, str]]:
    """Puts numbers in the place of shares such as `95 %`, and gives each that is none, with what is wrong."""
    tasks = data.get("tasks") if isinstance(data, dict) else None
    if not isinstance(tasks, list):
        return
    for number, task in enumerate(tasks):
        if not isinstance(task, dict) or "target" not in task:
            continue
        try:
            task["target"] = fraction(task["target"])
        except ValueError as error:
            yield ("tasks", number, "target"), str(error)


def run(spec: str, options: Sequence[str]) -> int:
    """Train in a process of its own, which reports itself what is wrong.

    Its exit code; below 0 the signal that ended it. InputError where torch is missing.
    """
    if find_spec("torch") is None:
        raise InputError("torch is not installed, training needs it. pip install torch")
    command = [sys.executable, "-m", "calibrate.joint", "-", *options, "--parent", str(os.getpid())]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True, encoding="utf-8") as process:
        try:
            process.communicate(spec)
        except KeyboardInterrupt:
            process.wait()  # it was interrupted too, and prints how to continue
            return 130
    return process.returncode
