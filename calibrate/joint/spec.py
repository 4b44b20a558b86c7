"""The spec of a joint training, checked. Needs no torch."""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from types import NoneType
from typing import Any

STATE = "state.json"
"""In the folder of a training: what was done so far."""
CURVE = "curve.json"
"""Beside it: accuracy against memory shared, which planning reads."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,63}")
COUNT_MAX = 1_000_000
FACTORY = re.compile(r"[\w.]+:\w+")
Path = tuple[str | int, ...]
Wrong = tuple[Path, str]
"""The path of a value, and what is wrong with it."""


class SpecError(ValueError):
    """A spec with something wrong in it."""

    def __init__(self, problems: list[Wrong]) -> None:
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


@dataclass(frozen=True, slots=True)
class ValueRule:
    """Values that a key may have."""

    wanted: str
    kinds: tuple[type, ...]
    is_good: Callable[[Any], object]

    def allows(self, value: Any) -> bool:
        """True for such a value. `true` is no number, though Python counts it as one."""
        return isinstance(value, self.kinds) and not isinstance(value, bool) and bool(self.is_good(value))


def _whole(least: int) -> ValueRule:
    return ValueRule(f"a whole number of at least {least}", (int,), lambda count: least <= count <= COUNT_MAX)


SHARE = ValueRule("at least 0 and below 1", (int, float), lambda share: 0 <= share < 1)
ATTEMPTS = ValueRule(
    "a whole number of at least 1", (int, NoneType), lambda count: count is None or 1 <= count <= COUNT_MAX
)
NAMED = "a name of 1 to 64 letters from a to z, digits, `-`, `_` and `.`"
VALUES = {
    "name": ValueRule(NAMED, (str,), NAME.fullmatch),
    "factory": ValueRule("`package.module:function`, e.g. calibrate.tasks.digits:parity", (str,), FACTORY.fullmatch),
    "target": ValueRule("above 0 and at most 1", (int, float), lambda share: 0 < share <= 1),
    "epochs": _whole(1),
    "attempts": ATTEMPTS,
    "epochs_alone": _whole(0),
    "seed": _whole(0),
    "learning_rate": ValueRule("above 0", (int, float), lambda rate: 0 < rate < math.inf),
    "momentum": SHARE,
    "weight_decay": SHARE,
}
"""By key, of the spec and of its tasks."""


def read_spec(raw: Any) -> JointSpec:
    """The spec in a parsed JSON or YAML file; SpecError lists all that is wrong with it."""
    if not isinstance(raw, Mapping):
        raise SpecError([((), "must be a mapping with `tasks`. See scenarios/merge/digits.yaml.")])
    problems = [*_wrong_values(JointSpec, raw, ()), *_wrong_tasks(raw)]
    if not problems:
        names = [task["name"] for task in raw["tasks"]]
        for number, name in enumerate(names):
            if name in names[:number]:
                problems.append((("tasks", number, "name"), f"`{name}` is there twice. Names must differ."))
    if problems:
        raise SpecError(problems)
    return JointSpec(**{**raw, "tasks": tuple(TaskSpec(**task) for task in raw["tasks"])})


def _wrong_tasks(raw: Mapping[str, Any]) -> Iterator[Wrong]:
    tasks = raw.get("tasks")
    if not isinstance(tasks, list) or len(tasks) < 2:
        text = "`tasks` must be a list of two tasks or more: one shares nothing."
        yield ("tasks",) if "tasks" in raw else (), text
    if isinstance(tasks, list):
        for number, task in enumerate(tasks):
            path = ("tasks", number)
            if not isinstance(task, Mapping):
                yield path, "must be a mapping with `name` and `factory`."
                continue
            yield from ((path, f"`{key}` is missing. Add it.") for key in ("name", "factory") if key not in task)
            yield from _wrong_values(TaskSpec, task, path)


def _wrong_values(kind: type, raw: Mapping[str, Any], path: Path) -> Iterator[Wrong]:
    """Keys that such a mapping must not have, and values that they must not have."""
    names = [field.name for field in fields(kind)]
    for key, value in raw.items():
        if key not in names:
            yield (*path, key), f"unknown key. Known: {', '.join(names)}."
        elif key in VALUES and not VALUES[key].allows(value):
            yield (*path, key), f"must be {VALUES[key].wanted}, got {value!r}."
