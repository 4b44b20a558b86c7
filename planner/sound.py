"""Sound: an answer that comes from a file is one that a command could have written. Nothing is trusted for its name."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from calibrate.files import quoted
from simulator.errors import InputError

if TYPE_CHECKING:
    from pydantic_core import SchemaValidator

T = TypeVar("T")
LARGEST_COUNT = 2**64
MOST_KEYS = 100_000
"""Of a mapping."""
LONGEST_TEXT = 2**20
SIGNED = frozenset(
    {"observed", "limit", "numbers", "values", "low_figure", "high_figure", "reference_figure", "axes", "timeline"}
)
"""Figures that may be below 0: whatever a study varies or keeps, what a refusal compares, and times in a window."""
OF_LINES = frozenset({"scenario_text"})
"""Texts of several lines."""
LINES = {ord(char): " " for char in "\n\t\r"}


class UnsoundError(InputError):
    """What no answer can hold; the text names the place, the value and the rule."""


def typed(data: Any, kind: type[T]) -> T:
    """JSON as the dataclass it was written from; pydantic's ValidationError, with the first error, where it is none.

    JSON has no NaN, so a figure that does not exist is written as null: null where a number must be is NaN again.
    """
    answer: T = validator_of(kind).validate_python(data)  # type: ignore[arg-type]
    return answer


@cache
def validator_of(kind: type[Any]) -> "SchemaValidator":
    """What validates a kind of answer, made once."""
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

    from planner.load import message
    from planner.strict_yaml import dotted

    try:
        answer = typed(data, kind)
    except ValidationError as error:
        first = error.errors()[0]
        said = message(first["loc"], first["type"], first, kind).rstrip(".")
        raise UnsoundError(f"{dotted(first['loc'])}: {said}") from error
    if wrong := next(impossible(answer, "", False), ""):
        raise UnsoundError(wrong)
    return answer


def impossible(value: Any, place: str, signed: bool) -> Iterator[str]:
    """Figures below 0 or beyond all bounds, and texts that speak to a terminal, anywhere in an answer."""
    match value:
        case bool() | None:
            return
        case str():
            if len(value) > LONGEST_TEXT:
                yield f"{place}: must be a text of at most {LONGEST_TEXT:,} characters, got {len(value):,}"
            elif not (value if place not in OF_LINES else value.translate(LINES)).isprintable():
                yield f"{place}: must have no control characters, got {quoted(value)}"
            elif value and place.endswith("as_of") and not is_date(value):
                yield f"{place}: must be a date such as 2026-08-01, got {quoted(value)}"
        case int() | float():
            least = -LARGEST_COUNT if signed else 0
            if not (least <= value <= LARGEST_COUNT) and isinstance(value, int):
                yield f"{place}: must be a whole number from {least} to 2^64, got {quoted(value)}"
            elif value < least or math.isinf(value):
                yield f"{place}: must be a finite number{'' if signed else ' from 0'}, got {quoted(value)}"
        case Mapping():
            for key, item in value.items():
                yield from impossible(str(key), place, signed)
                yield from impossible(item, f"{place}[{key}]" if place else str(key), signed or key in SIGNED)
        case list() | tuple():
            if all_within(value, -LARGEST_COUNT if signed else 0):
                return
            for i, item in enumerate(value):
                yield from impossible(item, f"{place}[{i}]", signed)
        case _ if is_dataclass(value):
            for one in fields(value):
                inside = f"{place}.{one.name}" if place else one.name
                yield from impossible(getattr(value, one.name), inside, signed or one.name in SIGNED)


def all_within(column: Sequence[Any], least: int) -> bool:
    """Whether a column, which may be long, holds numbers alone, none below the least and none beyond all bounds."""
    return {*map(type, column)} <= {int, float} and all(least <= number <= LARGEST_COUNT for number in column)


def is_date(text: str) -> bool:
    """Whether it is an ISO date."""
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
