"""The spec of a joint training, checked. Needs no torch."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

STATE = "state.json"
"""In the folder of a training: what was done so far."""
CURVE = "curve.json"
"""Beside it: accuracy against memory shared, which planning reads."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,63}")
JUST_BELOW_ZERO = -1e-12
"""A bound that lets 0 itself be."""
FACTORY = re.compile(r"[\w.]+:\w+")
Path = tuple[str | int, ...]
Report = Callable[[Path, str], None]


class SpecError(ValueError):
    """A spec with something wrong in it."""

    def __init__(self, problems: list[tuple[Path, str]]) -> None:
        super().__init__("; ".join(f"{'.'.join(map(str, path))}: {text}" if path else text for path, text in problems))
        self.problems = problems


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """One model, and how it is trained and judged."""

    name: str
    """The model's name in scenarios."""
    factory: str
    """`package.module:function`, which takes nothing and returns a `calibrate.tasks.Task`. It is the user's code."""
    target: float = 0.95
    """Share of its accuracy alone that it must keep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JointSpec:
    """Which models are trained together, and how. Defaults are those of the published training (GEMEL, NSDI'23)."""

    tasks: tuple[TaskSpec, ...]
    epochs: int = 10
    """Most epochs of one attempt."""
    epochs_alone: int = 0
    """Epochs that each model is trained by itself first; 0 where the models come trained."""
    learning_rate: float = 1e-5
    """Learning rate of SGD, as momentum and weight decay are."""
    momentum: float = 0.9
    weight_decay: float = 5e-4
    attempts: int | None = None
    """Most sharings that are tried; all that are worth it where not given."""
    seed: int = 0
    """Start of all random numbers."""

    @property
    def targets(self) -> dict[str, float]:
        """By model."""
        return {task.name: task.target for task in self.tasks}

    def to_json(self) -> dict[str, Any]:
        """A mapping that `read_spec` reads."""
        return {**asdict(self), "tasks": [asdict(task) for task in self.tasks]}


def read_spec(raw: Any) -> JointSpec:
    """The spec in a parsed JSON or YAML file; SpecError lists all that is wrong with it."""
    problems: list[tuple[Path, str]] = []

    def report(path: Path, text: str) -> None:
        problems.append((path, text))

    if not isinstance(raw, Mapping):
        raise SpecError([((), "must be a mapping with `tasks`. See scenarios/merge/digits.yaml.")])
    _known(JointSpec, raw, (), report)
    _check_tasks(raw, report)
    _whole(raw, "epochs", 1, report)
    _whole(raw, "attempts", 1, report)
    _whole(raw, "epochs_alone", 0, report)
    _whole(raw, "seed", 0, report)
    _number(raw, "learning_rate", ("learning_rate",), 0.0, math.inf, report)
    _number(raw, "momentum", ("momentum",), JUST_BELOW_ZERO, 1.0, report)
    _number(raw, "weight_decay", ("weight_decay",), JUST_BELOW_ZERO, 1.0, report)
    if not problems:
        _different([task["name"] for task in raw["tasks"]], report)
    if problems:
        raise SpecError(problems)
    return JointSpec(**{**raw, "tasks": tuple(TaskSpec(**task) for task in raw["tasks"])})


def _check_tasks(raw: Mapping[str, Any], report: Report) -> None:
    tasks = raw.get("tasks")
    if not isinstance(tasks, list) or len(tasks) < 2:
        report(("tasks",) if "tasks" in raw else (), "`tasks` must be a list of two tasks or more: one shares nothing.")
    if isinstance(tasks, list):
        for number, task in enumerate(tasks):
            _check_task(task, ("tasks", number), report)


def _check_task(task: Any, path: Path, report: Report) -> None:
    if not isinstance(task, Mapping):
        return report(path, "must be a mapping with `name` and `factory`.")
    _known(TaskSpec, task, path, report)
    for key, form, hint in (
        ("name", NAME, "a name of 1 to 64 letters, digits, `-`, `_` and `.`"),
        ("factory", FACTORY, "`package.module:function`, e.g. calibrate.tasks.digits:parity"),
    ):
        if key not in task:
            report(path, f"`{key}` is missing. Add it.")
        elif not isinstance(task[key], str) or not form.fullmatch(task[key]):
            report((*path, key), f"must be {hint}, got {task[key]!r}.")
    _number(task, "target", (*path, "target"), 0.0, 1.0 + 1e-12, report)
    return None


def _known(kind: type, raw: Mapping[str, Any], path: Path, report: Report) -> None:
    names = [field.name for field in fields(kind)]
    for key in raw:
        if key not in names:
            report((*path, key), f"unknown key. Known: {', '.join(names)}.")


def _whole(raw: Mapping[str, Any], key: str, least: int, report: Report) -> None:
    value = raw.get(key, least)
    if key == "attempts" and value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 1_000_000:
        report((key,), f"must be a whole number of at least {least}, got {value!r}.")


def _number(raw: Mapping[str, Any], key: str, path: Path, above: float, below: float, report: Report) -> None:
    value = raw.get(key, (above + min(below, 1.0)) / 2)
    if isinstance(value, bool) or not isinstance(value, int | float) or not above < value < below:
        low = "above 0" if above == 0 else "at least 0"
        high = {math.inf: "", 1.0: " and below 1"}.get(below, " and at most 1")
        report(path, f"must be {low}{high}, got {value!r}.")


def _different(names: list[str], report: Report) -> None:
    for number, name in enumerate(names):
        if name in names[:number]:
            report(("tasks", number, "name"), f"`{name}` is there twice. Names must differ.")
