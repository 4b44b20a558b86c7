"""Sound: an answer that comes from a file is one that a command could have written. Nothing is trusted for its name."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from calibrate.io.files import quoted
from simulator.errors import InputError

if TYPE_CHECKING:
    from pydantic_core import SchemaValidator

T = TypeVar("T")
LARGEST_COUNT = 2**64
MOST_KEYS = 100_000
"""Most keys of one mapping."""
LONGEST_TEXT = 2**20
SIGNED = frozenset(
    {"observed", "limit", "numbers", "values", "low_figure", "high_figure", "reference_figure", "axes", "timeline"}
)
"""Figures that may be below 0: whatever a study varies or keeps, what a refusal compares, and times in a window."""
DATES = frozenset({"as_of", "price_as_of", "prices_as_of"})
OF_LINES = frozenset({"scenario_text"})
"""Texts of several lines."""
LINES = {ord(char): " " for char in "\n\t\r"}


class UnsoundError(InputError):
    """A value that no answer can hold; the text names the place, the value and the rule."""


def typed(data: Any, kind: type[T]) -> T:
    """JSON as the dataclass it was written from; pydantic's ValidationError, with the first error, where it is none.

    JSON has no NaN, so a figure that does not exist is written as null: null where a number must be is NaN again.
    """
    answer: T = validator_of(kind).validate_python(data)  # type: ignore[arg-type]
    return answer


@cache
def validator_of(kind: type[Any]) -> "SchemaValidator":
    """The validator of a kind of answer, made once."""
    from pydantic import TypeAdapter
    from pydantic_core import SchemaValidator

    return SchemaValidator(bounded(TypeAdapter(kind).core_schema))


def bounded(schema: Any) -> Any:
    """pydantic's schema of an answer, in which a column ends at its first error: all of them may fill the memory."""
    from pydantic_core.core_schema import no_info_before_validator_function

    if isinstance(schema, list):
        return [bounded(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: bounded(part) for key, part in schema.items()}
    match inner:
        case {"type": "list" | "tuple"}:
            return {**inner, "fail_fast": True}
        case {"type": "dict"}:
            return no_info_before_validator_function(few_keys, inner)
        case {"type": "float"}:
            return no_info_before_validator_function(nan_of, inner)
    return inner


def few_keys(value: object) -> object:
    """A mapping, where it is not too long."""
    from pydantic_core import PydanticKnownError

    if isinstance(value, dict) and len(value) > MOST_KEYS:
        count = {"field_type": "Mapping", "max_length": MOST_KEYS, "actual_length": len(value)}
        raise PydanticKnownError("too_long", count)
    return value


def nan_of(value: object) -> object:
    """NaN for the null that stands for it."""
    return math.nan if value is None else value


def sound(data: Any, kind: type[T]) -> T:
    """The same, and every figure possible; UnsoundError with the place of what is not."""
    from pydantic import ValidationError

    from planner.units.errors import dotted, message

    try:
        answer = typed(data, kind)
    except ValidationError as error:
        first = error.errors()[0]
        text = message(first["loc"], first["type"], first, kind).rstrip(".")
        raise UnsoundError(f"{dotted(first['loc'])}: {text}") from error
    if wrong := next(impossible(answer), ""):
        raise UnsoundError(wrong)
    return answer


def impossible(value: Any, place: str = "", name: str = "", signed: bool = False) -> Iterator[str]:
    """Figures below 0 or beyond all bounds, and texts that speak to a terminal, anywhere in an answer.

    `name` is that of the field or key.
    """
    match value:
        case bool() | None:
            return
        case str():
            yield from impossible_text(value, place, name)
        case int() | float():
            yield from impossible_number(value, place, signed)
        case list() | tuple() if {*map(type, value)} <= {int, float} and all(
            least_of(signed) <= number <= LARGEST_COUNT for number in value
        ):
            return  # a column of numbers, which may be long
        case _:
            for inside, key, item in parts(value, place):
                yield from impossible(item, inside, key, signed or key in SIGNED)


def parts(value: Any, place: str) -> Iterator[tuple[str, str, Any]]:
    """What a mapping, a list or a dataclass holds: each with its place and its name."""
    match value:
        case Mapping():
            for key, item in value.items():
                yield place, "", str(key)
                yield f"{place}[{key}]" if place else str(key), str(key), item
        case list() | tuple():
            for i, item in enumerate(value):
                yield f"{place}[{i}]", "", item
        case _ if is_dataclass(value):
            for one in fields(value):
                yield f"{place}.{one.name}" if place else one.name, one.name, getattr(value, one.name)


def impossible_text(text: str, place: str, name: str) -> Iterator[str]:
    """The error of a text that no answer holds."""
    lines = text.translate(LINES) if name in OF_LINES else text
    if len(text) > LONGEST_TEXT:
        yield f"{place}: must be a text of at most {LONGEST_TEXT:,} characters, got {len(text):,}"
    elif not lines.isprintable():
        yield f"{place}: must have no control characters, got {quoted(text)}"
    elif text and name in DATES and not is_date(text):
        yield f"{place}: must be a date such as 2026-08-01, got {quoted(text)}"


def impossible_number(number: float, place: str, signed: bool) -> Iterator[str]:
    """The error of a number that no answer holds; NaN stands for a figure that does not exist."""
    least = least_of(signed)
    if isinstance(number, int):
        if not least <= number <= LARGEST_COUNT:
            yield f"{place}: must be a whole number from {least} to 2^64, got {quoted(number)}"
    elif number < least or math.isinf(number):
        bound = "" if signed else " from 0"
        yield f"{place}: must be a finite number{bound}, got {quoted(number)}"


def least_of(signed: bool) -> int:
    """The least number a figure may be."""
    return -LARGEST_COUNT if signed else 0


def is_date(text: str) -> bool:
    """True for an ISO date."""
    try:
        return bool(date.fromisoformat(text))
    except ValueError:
        return False


# Columns and names


def uneven(place: str, columns: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    """Columns that are not all of one length."""
    lengths = {name: len(column) for name, column in columns.items()}
    first, *others = lengths
    for name in others:
        if lengths[name] != lengths[first]:
            yield f"{place}.{name}: must have as many entries as `{first}`, {lengths[first]}, got {lengths[name]}"


def repeated(place: str, names: Sequence[str]) -> Iterator[str]:
    """Names that come twice."""
    for name, count in Counter(names).items():
        if count > 1:
            yield f"{place}: must have each name once, got {quoted(name)} {count} times"
