"""What all calls take: scenarios, overrides, words and numbers, checked."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias, TypeVar

from planner.console.shipped import shipped
from simulator.errors import InputError, wrong_argument

if TYPE_CHECKING:
    import planner.model.plan
    import planner.model.scenario
    from planner.io.load import Loaded
    from planner.units.reading import Quantity

File = str | Path
Texts = Sequence[str] | None
Question: TypeAlias = "File | Mapping[str, Any] | planner.model.scenario.Scenario"
"""A YAML file, the same as a mapping, or a scenario made in Python."""
Shape = str | tuple[int, ...]
"""One sample's shape: `3x224x224` or `(3, 224, 224)`."""
Note = Callable[[str], None]
Choice = TypeVar("Choice", bound=StrEnum)
DIGITS_MAX = 30
"""Of a whole number that is written as a text."""
SHOWN_MAX = 60
"""Letters of a value in an error."""


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
    if not isinstance(overrides, Iterable | None):
        raise InputError(f"overrides: must be a list of texts, got {shown(overrides)}.")
    return [word("overrides", one) for one in overrides or ()]


def seeded(overrides: Texts, seed: int | str | None) -> list[str]:
    """Overrides, the seed among them."""
    number = seed_of(seed)
    return texts(overrides) + ([] if number is None else [f"seed={number}"])


def seed_of(seed: int | str | None) -> int | None:
    """A seed, if there is one; InputError where no random numbers can start from it."""
    from planner.model.scenario import SEED_MAX

    number = None if seed is None else integer("seed", seed)
    if number is not None and not 0 <= number <= SEED_MAX:
        raise wrong_argument("seed", number, f"must be from 0 to {SEED_MAX}", "Write a whole number of these.")
    return number


def shape_text(shape: Shape | None) -> str | None:
    """A sample's shape as people write it."""
    if isinstance(shape, tuple | list):
        return "x".join(map(str, shape))
    return maybe("input_shape", shape)


def choice(choices: type[Choice], name: str, text: str) -> Choice:
    """The one that is meant; InputError where there is none."""
    if text not in list(choices):
        raise InputError(f"{name}: must be one of {', '.join(choices)}, got {text}.")
    return choices(text)


def word(name: str, text: object) -> str:
    """A text; InputError where something else is given."""
    if isinstance(text, str):
        return text
    raise InputError(f"{name}: must be a text, got {shown(text)}.")


def maybe(name: str, text: object) -> str | None:
    """The same, or None."""
    return None if text is None else word(name, text)


def integer(name: str, number: object) -> int:
    """A whole number, also written as a command takes it; InputError where something else is given."""
    written = number
    if isinstance(number, str) and re.fullmatch(rf"\s*[-+]?\d{{1,{DIGITS_MAX}}}\s*", number, re.ASCII):
        written = int(number)
    if isinstance(written, SupportsIndex) and not isinstance(written, bool):
        return index(written)
    raise InputError(f"{name}: must be a whole number, got {shown(number)}. Write e.g. 1.")


def whole(name: str, number: object, least: int, most: int) -> int:
    """The same within what the command would take; InputError outside of that."""
    found = integer(name, number)
    if not least <= found <= most:
        raise InputError(f"{name}: must be from {least:,} to {most:,}, got {found}.")
    return found


def wholes(name: str, numbers: object, least: int, most: int) -> list[int]:
    """All of a list, or of a text with commas between."""
    return [whole(name, number, least, most) for number in parts(name, numbers)]


def parts(name: str, listed: object) -> list[object]:
    """Items of a list, or of a text with commas between; InputError where it is neither."""
    if isinstance(listed, str):
        return list(filter(None, map(str.strip, listed.split(","))))
    if isinstance(listed, Iterable):
        return list(listed)
    raise InputError(f"{name}: must be a list, got {shown(listed)}.")


def quantity(name: str, read: "Quantity", value: object) -> float:
    """A number, or a text in people's units; InputError where it is neither."""
    try:
        return read(value.item() if hasattr(value, "item") else value)  # a number of NumPy
    except ValueError as error:
        raise InputError(f"{name}: {error}") from None


def shown(value: object) -> str:
    """A value as Python writes it, in one short line."""
    written = " ".join(repr(value).split())
    return written if len(written) <= SHOWN_MAX else f"{written[:SHOWN_MAX]}..."


def now() -> str:
    """An ISO time stamp."""
    return datetime.now(UTC).isoformat(timespec="seconds")
