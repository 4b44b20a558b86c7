"""What all calls take: scenarios, overrides, words and numbers, checked."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from planner.console.shipped import shipped
from simulator.errors import InputError

if TYPE_CHECKING:
    import planner.model.plan
    import planner.model.scenario
    from planner.io.load import Loaded

File = str | Path
Texts = Sequence[str] | None
Question: TypeAlias = "File | Mapping[str, Any] | planner.model.scenario.Scenario"
"""A YAML file, the same as a mapping, or a scenario made in Python."""
Shape = str | tuple[int, ...]
"""One sample's shape: `3x224x224` or `(3, 224, 224)`."""
Note = Callable[[str], None]
Choice = TypeVar("Choice", bound=StrEnum)


def unheard(_text: str) -> None:
    """A note that nobody reads."""


def load(scenario: Question, overrides: Texts, seed: int | None = None) -> "Loaded":
    """A scenario with what belongs to it; InputError lists all that is wrong with it."""
    from planner.io.load import load_data, load_scenario
    from planner.model.checked import stated, values_of
    from planner.model.scenario import Scenario

    changes = seeded(overrides, seed)
    match scenario:
        case str() | Path():
            return load_scenario(shipped(Path(scenario)), changes)
        case Mapping():
            return load_data(scenario, changes)
        case Scenario():
            return load_data(stated(Scenario, values_of(scenario)), changes)
    raise InputError(f"scenario: must be a file, a mapping or a Scenario, got a {type(scenario).__name__}.")


def path_of(name: str, file: File) -> Path:
    """The path of a file; InputError where something else is given."""
    if isinstance(file, File):
        return Path(file)
    raise InputError(f"{name}: must be a file, got {type(file).__name__}.")


def kept_plan(plan: "planner.model.plan.Plan | File") -> "planner.model.plan.Plan":
    """A plan, or the one that a file keeps; InputError where something else is given."""
    from planner.io.store import read_plan
    from planner.model.plan import Plan

    match plan:
        case str() | Path():
            return read_plan(Path(plan))
        case Plan():
            return plan
    raise InputError(f"plan: must be a plan, or the file that keeps one, got {type(plan).__name__}.")


def texts(overrides: Texts) -> list[str]:
    """Overrides in a list."""
    if isinstance(overrides, str):
        raise InputError(f'overrides: must be a list of texts. Write ["{overrides}"].')
    return list(overrides or ())


def seeded(overrides: Texts, seed: int | None) -> list[str]:
    """Overrides, the seed among them."""
    from planner.model.scenario import SEED_MAX

    if seed is not None and not 0 <= seed <= SEED_MAX:
        raise InputError(f"--seed: must be from 0 to {SEED_MAX}, got {seed}. Write a whole number of these.")
    return texts(overrides) + ([] if seed is None else [f"seed={seed}"])


def shape_text(shape: Shape | None) -> str | None:
    """A sample's shape as people write it."""
    return "x".join(map(str, shape)) if isinstance(shape, tuple) else shape


def choice(choices: type[Choice], name: str, text: str) -> Choice:
    """The one that is meant; InputError where there is none."""
    if text not in list(choices):
        raise InputError(f"{name}: must be one of {', '.join(choices)}, got {text}.")
    return choices(text)


def within(name: str, number: int, least: int, most: int) -> None:
    """InputError where a number lies outside of what the command would take."""
    if not least <= number <= most:
        raise InputError(f"{name}: must be from {least:,} to {most:,}, got {number}.")


def now() -> str:
    """An ISO time stamp."""
    return datetime.now(UTC).isoformat(timespec="seconds")
