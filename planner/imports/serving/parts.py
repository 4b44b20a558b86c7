"""Parts: values of somebody's YAML or key file, each with its place, so that an error names file, line and column."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from calibrate.io.files import named, read_text
from planner.io.strict_yaml import MAX_BYTES, Problem, YamlDocument, YamlError, parse
from planner.units.errors import Steps, dotted, shown
from simulator.errors import InputError

SEPARATOR = re.compile(r"---(\s.*)?")
"""The line between two documents of one YAML file."""
MERGED = "<<"
TOO_LARGE = 1e15
"""No count or time of a deployment is so large."""
T = TypeVar("T", int, float)
GROUP = re.compile(r"\[([^\[\]]+)\]")


@dataclass(frozen=True, slots=True)
class Part:
    """A value, and the way to it; the value is None where nothing stands there."""

    path: Path
    document: YamlDocument = field(repr=False)
    value: Any
    steps: Steps = ()

    def at(self, *steps: str | int) -> "Part":
        """The value inside; one that holds nothing where there is none."""
        value = self.value
        for step in steps:
            inside = isinstance(value, dict) if isinstance(step, str) else isinstance(value, list)
            known = inside and (step in value if isinstance(step, str) else step < len(value))
            value = value[step] if known else None
        return Part(self.path, self.document, value, (*self.steps, *steps))

    def error(self, rule: str) -> InputError:
        """The value is not what it must be."""
        got = f"{rule}, got {shown(self.value)}" if self.value is not None else rule
        return InputError(f"{self.place}: `{dotted(self.steps)}` must be {got}. Mend the file.")

    @property
    def place(self) -> str:
        """`module.yml:12:5`; of what is not there, the place of what should hold it."""
        for end in range(len(self.steps), -1, -1):
            if place := self.document.places.get(self.steps[:end]):
                return f"{self.path}:{place[0]}:{place[1]}"
        return str(self.path)

    def parts(self) -> dict[str, "Part"]:
        """Values of a mapping, by key; none where nothing stands here."""
        if self.value is None:
            return {}
        if not isinstance(self.value, dict):
            raise self.error("a mapping of keys to values")
        return {key: self.at(key) for key in self.value}

    def items(self) -> list["Part"]:
        """Values of a list; none where nothing stands here."""
        if self.value is None:
            return []
        if not isinstance(self.value, list):
            raise self.error("a list")
        return [self.at(number) for number in range(len(self.value))]

    def word(self, default: str = "") -> str:
        """A text, or a number as it is written."""
        if self.value is None:
            return default
        if isinstance(self.value, dict | list):
            raise self.error("a text")
        return str(self.value).strip()

    def number(self, least: float = 0.0) -> float | None:
        """A number; None where nothing stands here."""
        return self._read(float, least, "a number")

    def whole(self, least: int = 0) -> int | None:
        """A whole number; None where nothing stands here."""
        return self._read(int, least, "a whole number")

    def _read(self, kind: Callable[[str], T], least: float, noun: str) -> T | None:
        if self.value is None:
            return None
        try:
            found = kind(self.word())
        except (ValueError, OverflowError):
            raise self.error(noun) from None
        if not least <= found < TOO_LARGE:
            raise self.error(f"{noun} of at least {least:g}")
        return found


def yaml_documents(path: Path) -> list[Part]:
    """All documents of a YAML file that hold anything; InputError where it is none."""
    text = text_of(path)
    documents = (parsed(path, part) for part in _split(text))
    return [Part(path, document, document.data) for document in documents if document.data is not None]


def _split(text: str) -> Iterator[str]:
    """Texts of the documents, each below as many empty lines as stand before it: so places are those of the file."""
    lines = text.splitlines()
    ends = [number for number, line in enumerate(lines) if SEPARATOR.fullmatch(line)]
    starts = [0, *(end + 1 for end in ends)]
    for start, end in zip(starts, [*ends, len(lines)], strict=True):
        held = lines[start:end]
        if any(line.strip() and not line.lstrip().startswith("#") for line in held):
            yield "\n" * start + "\n".join(held) + "\n"


def parsed(path: Path, text: str) -> YamlDocument:
    """A YAML text of a file; InputError names the first thing that is wrong."""
    try:
        document = parse(text)
    except YamlError as error:
        raise _refused(path, error.problems[0]) from None
    if document.problems:
        raise _refused(path, document.problems[0])
    document.data = _merged(document.data)
    return document


def _merged(value: Any) -> Any:
    """The same values, with what YAML's `<<` brings into a mapping: its own keys count more, then those named first."""
    match value:
        case list():
            return [_merged(item) for item in value]
        case dict():
            held = {key: _merged(item) for key, item in value.items()}
            brought = held.get(MERGED)
            sources = brought if isinstance(brought, list) else [brought]
            if not all(isinstance(source, dict) for source in sources):
                return held
            del held[MERGED]
            return {key: item for source in [*reversed(sources), held] for key, item in source.items()}
    return value


def _refused(path: Path, problem: Problem) -> InputError:
    place = f":{problem.line}:{problem.column}" if problem.line else ""
    return InputError(f"{path}{place}: {problem.message}")


def key_file(path: Path) -> Part:
    """A key file as GLib reads it: `[group]`, `key=value`, comments; later values replace earlier ones."""
    document = YamlDocument({}, {}, {}, [])
    group = ""
    for number, line in enumerate(text_of(path).splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        if found := GROUP.fullmatch(stripped):
            group = found[1]
            document.places[(group,)] = (number, 1)
            document.data.setdefault(group, {})
            continue
        key, equals, value = stripped.partition("=")
        if not equals or not key.strip() or not group:
            rule = "must be `key=value`" if group else "must be a `[group]`, or stand below one"
            raise InputError(f"{path}:{number}: {rule}, got {shown(stripped)}. Mend the file.")
        document.data[group][key.strip()] = value.strip()
        document.places[(group, key.strip())] = (number, line.index("=") + 2)
    return Part(path, document, document.data)


def text_of(path: Path) -> str:
    """Text of a small file; InputError where there is none."""
    with named(path, "Name another file"):
        return read_text(path, MAX_BYTES)
