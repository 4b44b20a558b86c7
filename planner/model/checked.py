"""Parts of a scenario that are checked when somebody makes one in Python, by the rules that a YAML file is held to.

The classes stay standard dataclasses: pydantic makes those of a file, and does not come by here.
"""

import functools
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import TypeAdapter, ValidationError

from planner.units.errors import Wrong, dotted, message, mistakes
from planner.units.reading import Quantity, SaidWithUnit
from simulator.errors import InputError

STRICT: dict[str, Any] = {"extra": "forbid"}
"""One object of all classes that files hold, so that `described` may ask for their docstrings."""
T = TypeVar("T")
Rule = Callable[[Mapping[str, Any]], Iterable[Wrong]]
"""Says what is wrong between the keys of one mapping, each with its path inside it."""


def checked(rule: Rule = lambda _: ()) -> Callable[[type[T]], type[T]]:
    """A frozen dataclass of which the keywords are checked, people's units among them: `SloSpec(latency="100 ms")`.

    InputError lists all that is wrong, a line each: `SloSpec.attainment: must be between 0 and 1, got 99. ...`
    """

    def decorate(cls: type[T]) -> type[T]:
        cls.__pydantic_config__ = STRICT  # type: ignore[attr-defined]
        unchecked = cls.__init__

        @functools.wraps(unchecked)
        def init(self: T, **values: Any) -> None:
            unchecked(self, **values_of(validated(cls, rule, values)))

        cls.__init__ = init  # type: ignore[method-assign, assignment]
        return cls

    return decorate


def validated(cls: type[T], rule: Rule, values: Mapping[str, Any]) -> T:
    """The part that a file with these values would bring; InputError where such a file would be refused."""
    given = stated(cls, values)
    wrong = [*rule(given)]
    try:
        made: T = adapter(cls).validate_json(written(given), strict=True)  # type: ignore[arg-type]
    except ValidationError as error:
        wrong += [(path, message(path, kind, detail, cls)) for path, kind, detail in mistakes(error)]
    if wrong:
        raise InputError("\n".join(f"{dotted((cls.__name__, *path))}: {text}" for path, text, *_ in wrong))
    return made


@functools.cache
def adapter(cls: Any) -> TypeAdapter[Any]:
    """Pydantic's validator of a class."""
    return TypeAdapter(cls)


def described(cls: Any) -> dict[str, Any]:
    """JSON Schema of a class, with the docstrings of its fields.

    Those are read from the source, which takes as long as a short plan: nothing else asks for them.
    """
    STRICT["use_attribute_docstrings"] = True
    try:
        return TypeAdapter(cls).json_schema()
    finally:
        del STRICT["use_attribute_docstrings"]


def written(data: Mapping[str, Any]) -> str:
    """JSON, which is YAML too; what JSON does not know stands there as a text, and is refused like any other."""
    return json.dumps(plain(data), default=str, indent=2)


def stated(cls: Any, values: Mapping[str, Any], folder: Path = Path()) -> dict[str, Any]:
    """Values as a file would state them: those that are not the default, in the order of the fields."""
    names = [field.name for field in fields(cls) if field.name in values]
    usual = {field.name: plain(field.default) for field in fields(cls) if field.default is not MISSING}
    known = quantities(cls)
    given = {
        key: known[key].written(values[key]) if isinstance(values[key], SaidWithUnit) else plain(values[key], folder)
        for key in dict.fromkeys([*names, *values])
    }
    return {key: value for key, value in given.items() if key not in usual or value != usual[key]}


def plain(value: Any, folder: Path = Path()) -> Any:
    """A value as JSON has it. A file's name is taken to count from `folder`."""
    if is_dataclass(value) and not isinstance(value, type):
        return stated(value, in_units(value), folder)
    if hasattr(value, "tolist"):  # a number or a column of NumPy or pandas
        return value.tolist()
    match value:
        case Path():
            return str(folder / value)
        case Mapping():
            return {str(key): plain(item, folder) for key, item in value.items()}
        case list() | tuple():
            return [plain(item, folder) for item in value]
    return value


def in_units(made: Any) -> dict[str, Any]:
    """The same as `values_of`, with the unit of numbers that a file must state it of."""
    known = quantities(made.__class__)
    values = values_of(made)
    return values | {name: known[name].written(values[name]) for name in known if values[name] is not None}


@functools.cache
def quantities(cls: Any) -> dict[str, Quantity]:
    """Of the fields that hold one, the quantity."""
    kinds = [(field.name, kind) for field in fields(cls) for kind in (field.type, *get_args(field.type))]
    notes = [(name, note) for name, kind in kinds for note in getattr(kind, "__metadata__", ())]
    return {name: note for name, note in notes if isinstance(note, Quantity)}


def values_of(made: Any) -> dict[str, Any]:
    """A dataclass's values by name."""
    return {field.name: getattr(made, field.name) for field in fields(made)}
