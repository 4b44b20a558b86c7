"""Sound: an answer that comes from a file is one that a command could have written. Nothing is trusted for its name."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from calibrate.files import shown
from planner.plans import Plan, Timeline
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
NOWHERE = -1
"""GPU of a request that ran on none."""
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
                yield f"{place}: must have no control characters, got {shown(value)}"
            elif value and place.endswith("as_of") and not is_date(value):
                yield f"{place}: must be a date such as 2026-08-01, got {shown(value)}"
        case int() | float():
            least = -LARGEST_COUNT if signed else 0
            if not (least <= value <= LARGEST_COUNT) and isinstance(value, int):
                yield f"{place}: must be a whole number from {least} to 2^64, got {shown(value)}"
            elif value < least or math.isinf(value):
                yield f"{place}: must be a finite number{'' if signed else ' from 0'}, got {shown(value)}"
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


# Plans


def contradictions(plan: Plan) -> Iterator[str]:
    """What cannot be in any plan that was written here, so that whoever reads one may rely on it."""
    best = plan.recommendation
    try:
        datetime.fromisoformat(plan.created_at)
    except ValueError:
        yield f"created_at: must be a time such as 2026-08-01T12:00:00Z, got {shown(plan.created_at)}"
    if best.feasible and not best.models:
        yield "recommendation.models: must not be empty in a feasible plan"
    if best.models and not 0 <= best.cost_usd_per_hour < math.inf:
        yield f"recommendation.cost_usd_per_hour: must be a finite number from 0, got {best.cost_usd_per_hour:g}"
    for place, one in [("recommendation", best), *((f"alternatives[{i}]", a) for i, a in enumerate(plan.alternatives))]:
        gpus = {gpu.id for gpu in one.gpus}
        yield from repeated(f"{place}.gpus", [gpu.id for gpu in one.gpus])
        yield from repeated(f"{place}.models", [model.name for model in one.models])
        for model in one.models:
            named = [*model.gpus, *(gpu for replica in model.replicas for gpu in replica.gpus)]
            if lost := [gpu for gpu in named if gpu not in gpus]:
                yield f"{place}.models[{model.name}]: runs on {shown(lost[0])}, which is not among `gpus`"
    names = {model.name for model in best.models}
    for i, seen in enumerate(plan.latency):
        if seen.model not in names:
            yield f"latency[{i}].model: must be one of `recommendation.models`, got {shown(seen.model)}"
        if seen.counts and len(seen.edges_s) != len(seen.counts) + 1:
            yield f"latency[{i}].edges_s: must be one more than `counts`, got {len(seen.edges_s)}"
        if list(seen.edges_s) != sorted(set(seen.edges_s)) or any(edge <= 0 for edge in seen.edges_s):
            yield f"latency[{i}].edges_s: must grow from above 0"
    if plan.timeline:
        yield from of_timeline(plan.timeline)


def of_timeline(seen: Timeline) -> Iterator[str]:
    """Columns of one length, whose numbers of GPUs and models exist."""
    if not seen.start_s < seen.end_s:
        yield f"timeline.end_s: must be after `start_s`, got {seen.end_s:g}"
    known = {"gpu": len(seen.gpus), "model": len(seen.models)}
    for name in ("batches", "loads", "memory", "queue", "requests"):
        part = getattr(seen, name)
        columns = {one.name: getattr(part, one.name) for one in fields(part)}
        yield from uneven(f"timeline.{name}", columns)
        for column in columns.keys() & {"size", "bytes", "length"}:
            if wrong := [n for n in columns[column] if n < 0]:
                yield f"timeline.{name}.{column}: must be from 0, got {wrong[0]}"
        for column in columns.keys() & known.keys():
            least = NOWHERE if name == "requests" else 0
            if wrong := [n for n in columns[column] if not least <= n < known[column]]:
                yield f"timeline.{name}.{column}: must be from {least} to {known[column] - 1}, got {wrong[0]}"


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
            yield f"{place}: must have each name once, got {shown(name)} {count} times"
