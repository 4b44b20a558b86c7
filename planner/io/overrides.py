"""Overrides: `--set path=value`, put into what a file says."""

import re
from typing import Any

from planner.io.strict_yaml import parse
from planner.units.errors import Steps, shown
from planner.units.reading import did_you_mean
from simulator.near import known_ones

EVERY = "[*]"
"""In a path: each item of a list."""


def read_override(text: str) -> tuple[str, Any]:
    """Path and value of `path=value`; YamlError or ValueError where it is none."""
    name, equals, value = text.partition("=")
    name = name.strip()
    if not equals or not words_of(name):
        raise ValueError("must be `path=value`. Write e.g. `--set headroom=20%`.")
    if not value.strip():
        raise ValueError(f"has no value. Write e.g. `--set headroom=20%`, or `{name}=null` for none.")
    return name, parse(value).data


def words_of(name: str) -> list[str]:
    """`models`, `yolov3` and `slo` of `models[yolov3].slo`."""
    return [(a or b).strip() for a, b in re.findall(r"\[([^\[\]]+)\]|([^.\[\]]+)", name)]


def item(items: list[Any], word: str, where: str) -> int:
    """Index of the list item that `word` means: its number or its name."""
    names = [entry.get("name") for entry in items if isinstance(entry, dict)]
    if word in names:
        return names.index(word)
    if word.isdecimal() and int(word) < len(items):
        return int(word)
    known = [name for name in names if isinstance(name, str)]
    last = len(items) - 1
    numbers = f"0 to {last}" if last > 0 else "0"
    hint = did_you_mean(word, known) or known_ones(word, [*known, numbers], "their names and numbers in the file")
    raise ValueError(f"`{where}` has no item `{word}`.{hint}")


def child(target: Any, step: str | int) -> Any:
    """The value one step down, or None where there is none yet."""
    match target:
        case list() if isinstance(step, int):
            return target[step]
        case dict():
            return target.get(step)
        case None:
            return None
    raise ValueError(f"`{step}` cannot be set: {shown(target)} has no keys.")


def place(data: Any, path: Steps, value: Any) -> None:
    """Sets the value at `path`, making the mappings that lead there."""
    *steps, last = path
    for step in steps:
        below = child(data, step)
        if below is None:
            below = data[step] = {}
        data = below
    child(data, last)
    data[last] = value


def take_away(data: Any, path: Steps) -> None:
    """Leaves out what stands at `path`; nothing changes where nothing does."""
    *steps, last = path
    for step in steps:
        data = child(data, step)
    child(data, last)
    if isinstance(data, list):
        data[int(last)] = None  # the others keep their numbers
    elif data and last in data:
        del data[last]
