"""Reader: JSON files taken apart key by key, strictly: an error is one line that names the key."""

import math
import re
from collections.abc import Callable, Sequence
from datetime import date
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from calibrate.io.files import FileError, printable, read_json
from simulator.errors import InputError
from simulator.near import LIKE, LISTED_MAX, known_ones
from simulator.world.curves import Interpolated
from simulator.world.model import Layer

LARGEST_FILE_BYTES = 16_000_000
LONGEST = 100
"""Characters of a key or a value in an error."""
LARGEST_BATCH = 1_000_000
HINTS_MAX = 4
"""Names that an error suggests."""
LEAVE = "Leave it as the planner wrote it"
T = TypeVar("T")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,63}")


class ProfileError(InputError):
    """A profile that cannot be used; the text names file, key, what is wrong and what to write."""


def parse(path: Path, what: str) -> dict[str, Any]:
    """The mapping that a file holds, which is to be `what`: strict JSON, no key twice."""
    try:
        raw = read_json(path, LARGEST_FILE_BYTES)
    except FileError as error:
        refuse(error.at, str(error), f"Write {what}")
    if not isinstance(raw, dict):
        refuse("", f"must be a mapping, got {_kind(raw)}", f"Write {what}")
    return raw


class Reader:
    """Takes values out of a JSON mapping by key, each checked; keys that were not taken are refused at the end."""

    def __init__(self, raw: dict[str, Any], prefix: str = "", what: str = "a profile") -> None:
        self.raw = raw
        self.prefix = prefix
        self.what = what
        self.known: set[str] = set()

    def refuse(self, key: str, wrong: str, remedy: str) -> NoReturn:
        refuse(self.prefix + key, wrong, remedy)

    def _take(self, key: str) -> Any:
        self.known.add(key)
        return self.raw.get(key)

    def _needed(self, key: str, kind: type, what: str) -> Any:
        value = self._take(key)
        if value is None:
            # A misspelt key explains the missing one better than its absence does.
            if close := get_close_matches(key, self.raw.keys() - self.known, n=1, cutoff=0.8):
                self.refuse(close[0], f"is not a key of {self.what}", f"Did you mean {key}?")
            self.refuse(key, "is missing", f"Write {what}")
        if not isinstance(value, kind):
            self.refuse(key, f"must be {what}, got {_kind(value)}", f"Write {what}")
        return value

    def text(self, key: str) -> str:
        value: str = self._needed(key, str, "a text")
        if not value.strip():
            self.refuse(key, "is empty", "Write a text")
        return value

    def text_or_empty(self, key: str) -> str:
        return "" if self._take(key) in (None, "") else self.text(key)

    def schema(self, known: str) -> None:
        if (schema := self.text("schema")) != known:
            refuse("schema", f"{_short(schema)} is not known", f"Write {known}")

    def name(self, key: str) -> str:
        value = self.text(key)
        if not NAME.fullmatch(value):
            refuse(
                self.prefix + key,
                f"{_short(value)} is not a name",
                "Write at most 64 letters from a to z, digits, and _ . - between",
            )
        return value

    def date(self, key: str) -> str:
        value = self.text(key)
        if not is_date(value):
            self.refuse(key, f"{_short(value)} is not a date", "Write it as 2026-07-20")
        return value

    def one_of(self, key: str, allowed: tuple[str, ...]) -> str:
        value = self.text(key)
        if value not in allowed:
            self.refuse(key, f"{_short(value)} is not known", _instead(value, allowed))
        return value

    def number(self, key: str) -> float:
        return _finite(self.prefix + key, self._needed(key, object, "a number"))

    def maybe(self, key: str, read: Callable[[str], T]) -> T | None:
        """What one of these methods reads; None where the key is not there."""
        return None if self._take(key) is None else read(key)

    def positive(self, key: str) -> float:
        if (value := self.number(key)) <= 0:
            self.refuse(key, f"must be above 0, got {value:g}", "Write what was measured")
        return value

    def not_negative(self, key: str) -> float:
        if (value := self.number(key)) < 0:
            self.refuse(key, f"must not be below 0, got {value:g}", "Write what was measured")
        return value

    def part(self, key: str) -> dict[str, Any]:
        """A mapping that planning does not look into; empty where there is none."""
        if self._take(key) is None:
            return {}
        inner: dict[str, Any] = self._needed(key, dict, "a mapping")
        return inner

    def figures(self, key: str) -> dict[str, float]:
        """The figures above 0 among a mapping's `values`."""
        place = f"{self.prefix}{key}."
        values = Reader(self._needed(key, dict, "a mapping"), place, self.what).part("values")
        found = {name: _finite(f"{place}values.{name}", value) for name, value in values.items()}
        return {name: value for name, value in found.items() if value > 0}

    def mapping(self, key: str) -> "Reader":
        return Reader(self._needed(key, dict, "a mapping"), f"{self.prefix}{key}.", self.what)

    def mappings(self, key: str) -> list["Reader"]:
        """A list of mappings; none where the key is not there."""
        listed = self._take(key)
        if not isinstance(listed, list | None):
            self.refuse(key, f"must be a list of mappings, got {_kind(listed)}", LEAVE)
        for i, entry in enumerate(listed or []):
            if not isinstance(entry, dict):
                refuse(f"{self.prefix}{key}[{i}]", f"must be a mapping, got {_kind(entry)}", LEAVE)
        return [Reader(entry, f"{self.prefix}{key}[{i}].", self.what) for i, entry in enumerate(listed or [])]

    def count(self, key: str) -> int:
        """A whole number from 0."""
        if not float(value := self.not_negative(key)).is_integer():
            self.refuse(key, f"must be a whole number, got {value:g}", LEAVE)
        return int(value)

    def flag(self, key: str) -> bool:
        value: bool = self._needed(key, bool, "true or false")
        return value

    def series(self, key: str) -> Interpolated:
        """A cost by batch size, e.g. `{"1": 0.0084, "2": 0.0085}`."""
        points: dict[str, Any] = self._needed(key, dict, "a mapping of batch size to value")
        if not points:
            self.refuse(key, "is empty", 'Write at least one point, e.g. {"1": 0.0084}')
        pairs = sorted(
            (_batch(f"{self.prefix}{key}.{b}", b), _finite(f"{self.prefix}{key}.{b}", y)) for b, y in points.items()
        )
        return Interpolated(tuple(float(b) for b, _ in pairs), tuple(y for _, y in pairs))

    def lists(self, key: str) -> dict[int, list[float]]:
        """Lists of numbers by batch size; none where the key is not there."""
        if self._take(key) is None:
            return {}
        by_batch: dict[str, Any] = self._needed(key, dict, "a mapping of batch size to a list of numbers")
        found = {}
        for batch, values in by_batch.items():
            place = f"{self.prefix}{key}.{batch}"
            if not isinstance(values, list):
                refuse(place, f"must be a list of numbers, got {_kind(values)}", LEAVE)
            found[_batch(place, batch)] = [_finite(place, value) for value in values]
        return found

    def reasons(self, key: str) -> dict[float, str]:
        if self._take(key) is None:
            return {}
        inner = self.mapping(key)
        return {float(_batch(f"{inner.prefix}{batch}", batch)): inner.text(batch) for batch in inner.raw}

    def sentences(self, key: str) -> tuple[str, ...]:
        value = self._take(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(line, str) and line.strip() for line in value):
            self.refuse(key, "must be a list of texts", 'Write e.g. ["Taken for a V100."]')
        return tuple(value)

    def layers(self, model: str) -> tuple[Layer, ...]:
        """Either `layers`, or `weight_bytes` as one layer that has the model's name."""
        listed = self._take("layers")
        whole = self.maybe("weight_bytes", self.number)
        if (listed is None) == (whole is None):
            wrong = "exactly one of weight_bytes and layers is needed"
            refuse("weight_bytes", wrong, "Write weight_bytes if layers are unknown")
        if whole is not None:
            return self._measured_layers(model, int(whole))
        if not listed:
            refuse("layers", "must be a list of layers", 'Write e.g. [{"key": "conv1", "weight_bytes": 37632}]')
        return tuple(map(_layer, self.mappings("layers")))

    def _measured_layers(self, model: str, whole_bytes: int) -> tuple[Layer, ...]:
        """Those that measuring found to have weights, and one more for what they leave of `whole_bytes`."""
        listed = Reader(self.part("measured"), "measured.").mappings("layers")
        sizes = {one.text("name"): int(one.not_negative("weight_bytes")) for one in listed}
        layers = tuple(Layer(f"{model}/{name}", size) for name, size in sizes.items() if size)
        rest_bytes = whole_bytes - sum(layer.weight_bytes for layer in layers)
        if not layers or rest_bytes < 0:  # layers that share weights count them twice: which, the list does not say
            return (Layer(model, whole_bytes),)
        return (*layers, Layer(model, rest_bytes)) if rest_bytes else layers

    def nothing_else(self) -> None:
        if unknown := sorted(self.raw.keys() - self.known):
            self.refuse(unknown[0], f"is not a key of {self.what}", _instead(unknown[0], tuple(self.known)))


def is_date(text: str) -> bool:
    """True of a date such as 2026-07-20."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _layer(read: Reader) -> Layer:
    layer = Layer(read.text("key"), int(read.number("weight_bytes")))
    read.nothing_else()
    return layer


def _finite(place: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        refuse(place, f"must be a number, got {_kind(value)}", "Write a plain number in the unit the key names")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        refuse(place, "is not a finite number", "Write a plain number in the unit the key names")
    return number


def _batch(place: str, text: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,6}", text) or int(text) > LARGEST_BATCH:
        refuse(place, f"{_short(text)} is not a batch size", f"Write a whole number from 1 to {LARGEST_BATCH}")
    return int(text)


def refuse(key: str, wrong: str, remedy: str) -> NoReturn:
    # A key comes from the file and may hold line breaks; a message is one line.
    place = _cut(printable(key))
    raise ProfileError(f"{place}: {wrong}. {remedy}" if key else f"{wrong}. {remedy}")


def _short(value: str) -> str:
    return _cut(repr(value))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def _instead(value: str, allowed: Sequence[str]) -> str:
    begun = [name for name in allowed if name.startswith(value)]
    if close := begun[:HINTS_MAX] or get_close_matches(value, allowed, n=1, cutoff=LIKE):
        return f"Did you mean {' or '.join(close)}?"
    if len(allowed) <= LISTED_MAX:
        return f"Write one of {', '.join(sorted(allowed))}"
    return known_ones(value, sorted(allowed), "docs/data.md").strip(" .")


def _kind(value: object) -> str:
    names = {bool: "a boolean", dict: "a mapping", list: "a list", str: "a text", type(None): "nothing"}
    return names.get(type(value), "a number")
