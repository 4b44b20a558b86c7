"""YAML without surprises: 1.2 core numbers and booleans, no duplicate keys, no tags, no bombs.
Every value keeps its place in the text."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from calibrate.io import files
from calibrate.io.files import MAKE_READABLE, Fault, FileError
from planner.units.errors import Steps

MAX_BYTES = 4 * 1024 * 1024
"""A scenario of 50,000 streams has 2 MB."""
START = "`planner init FILE` writes a scenario to start from, with --training one of training"
WAYS_OUT = {
    Fault.MISSING: f"{START}.",
    Fault.DIRECTORY: "Name a YAML file in it.",
    Fault.LARGE: "Move recorded arrivals to a CSV file and name it under `trace`.",
    Fault.ENCODING: "Save the file as UTF-8.",
    Fault.DENIED: f"{MAKE_READABLE}.",
}
SYNTAX = (
    ("flow mapping", " Close the `{{` of line {line}, and part its keys by commas."),
    ("flow sequence", " Close the `[` of line {line}, and part its items by commas."),
    ("quoted scalar", " Close the quotation mark of line {line}."),
    ("block ", " Indent keys of one mapping, and items of one list, alike from line {line} on."),
    ("mapping values are not allowed", " Indent keys alike; put a text that holds `: ` in quotation marks."),
    ("flow node", " Write a value there; put a text that begins with a sign in quotation marks."),
    ("cannot start any token", " Put a text that begins so in quotation marks."),
)
"""What to do about an error of syntax, by words of the parser's."""
ANY_SYNTAX = " Write keys as `key: value`, and items of lists as `- item`."
MAX_DEPTH = 50
MAX_NODES = 300_000
Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

EXACT = 2**53
"""Below it a float holds every whole number."""


def whole_or_not(number: float) -> float | int:
    """3e6 is how one writes a count of three million."""
    return int(number) if number.is_integer() and abs(number) < EXACT else number


CORE = (
    (re.compile(r"|~|null|Null|NULL"), lambda text: None),
    (re.compile(r"true|True|TRUE"), lambda text: True),
    (re.compile(r"false|False|FALSE"), lambda text: False),
    # A number of so many digits is no count of anything; as a float it ends as too large, not as a slow conversion.
    (re.compile(r"[-+]?[0-9]{1,300}"), int),
    (re.compile(r"0o[0-7]{1,300}"), lambda text: int(text[2:], 8)),
    (re.compile(r"0x[0-9a-fA-F]{1,300}"), lambda text: int(text[2:], 16)),
    (re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+"), lambda text: whole_or_not(float(text))),
    (re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)"), float),
    (re.compile(r"[-+]?\.(inf|Inf|INF)"), lambda text: float(text.replace(".", ""))),
    (re.compile(r"\.(nan|NaN|NAN)"), lambda text: float("nan")),
)
"""Plain scalars of the YAML 1.2 core schema: `no` is a text, `010` is ten, `1:30` is a text; but `1e3`, a float
there, may be a count."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with a document, and where."""

    line: int
    """From 1; 0 where the document as a whole is meant."""
    column: int
    message: str
    path: str = ""
    """Which value, e.g. `models[2].slo.latency`."""
    override: str = ""
    """The `key=value` that brought it; empty where the text did."""


EMPTY = Problem(0, 0, f"is empty. {START}.")


class YamlError(ValueError):
    """A text that is no YAML of ours, with all that is wrong."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("; ".join(problem.message for problem in problems))
        self.problems = problems


class EmptyYaml(YamlError):
    """A text in which nothing is written."""


@dataclass(slots=True)
class Node:
    """A value as it stands in the text."""

    value: Any
    """A scalar, a list of nodes, or a dict from keys to nodes."""
    line: int
    column: int
    keys: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Places of a mapping's keys."""


@dataclass(slots=True)
class YamlDocument:
    """A text as plain values, and the line and column of each."""

    data: Any
    places: dict[Steps, tuple[int, int]]
    """Each value's place, by its path."""
    keys: dict[Steps, tuple[int, int]]
    """Each key's place, by the path of its value."""
    problems: list[Problem]
    """Duplicate keys and tags; the rest of the text is read in spite of them."""

    def place(self, path: Steps, *, at_key: bool = False) -> tuple[int, int]:
        """Line and column of a value or of its key; of what is not there, those of the nearest that it would be in."""
        places = self.keys if at_key else self.places
        around = (path[:end] for end in range(len(path), -1, -1))
        return places.get(path) or next(self.places[one] for one in around if one in self.places)


def read_text(path: Path) -> str:
    """Text of a small UTF-8 file; ValueError says in one sentence what is wrong. Never reads more than 4 MiB."""
    try:
        return files.read_text(path, MAX_BYTES)
    except FileError as error:
        remedy = WAYS_OUT[error.fault] if error.fault else "Name a YAML file."
        raise ValueError(f"{error}. {remedy}") from None


def parse(text: str) -> YamlDocument:
    """Plain values of one YAML document; YamlError where nothing can be made of it."""
    reader = YamlReader(text)
    document = YamlDocument(None, {}, {}, reader.problems)
    root = reader.document()
    budget = iter(range(MAX_NODES))
    document.data = plain(root, (), document, budget)
    return document


def plain(node: Node, path: Steps, document: YamlDocument, budget: Iterator[int]) -> Any:
    """The node's plain value; its places are noted. Aliases are written out, so the budget bounds what they make."""
    if next(budget, None) is None:
        raise YamlError(Problem(node.line, node.column, "aliases make the document too large. Write the values out."))
    if len(path) > MAX_DEPTH:
        raise YamlError(Problem(node.line, node.column, f"is nested deeper than {MAX_DEPTH} levels."))
    document.places[path] = (node.line, node.column)
    match node.value:
        case list() as items:
            return [plain(item, (*path, i), document, budget) for i, item in enumerate(items)]
        case dict() as entries:
            document.keys.update({(*path, key): place for key, place in node.keys.items()})
            return {key: plain(value, (*path, key), document, budget) for key, value in entries.items()}
    return node.value


def scalar(text: str) -> Any:
    """Value of a plain scalar."""
    return next((read(text) for pattern, read in CORE if pattern.fullmatch(text)), text)


class YamlReader:
    """Builds nodes from the parser's events, one at a time, so that a bomb is seen before it goes off."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.events = yaml.parse(text, Loader=Loader)
        self.anchors: dict[str, Node | None] = {}
        self.problems: list[Problem] = []

    def next(self) -> Any:
        """Next event; a syntax error becomes a problem with its place."""
        try:
            return next(self.events)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            what = ", ".join(part for part in (error.context, error.problem) if part)
            line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
            raise YamlError(Problem(line, column, f"is not YAML: {what}.{self.remedy(error)}")) from None
        except (yaml.YAMLError, UnicodeError) as error:
            remedy = " Save the file as UTF-8." if "\0" in self.text else " Leave that character out."
            raise YamlError(Problem(0, 0, f"is not YAML: {' '.join(str(error).split())}.{remedy}")) from None

    def remedy(self, error: yaml.MarkedYAMLError) -> str:
        """What to write instead, where the kind of error says so; with the line in which the trouble began."""
        mark, begun = error.problem_mark or error.context_mark, error.context_mark
        lines = self.text.split("\n")
        line = lines[mark.line] if mark and mark.line < len(lines) else ""
        if "\t" in line[: len(line) - len(line.lstrip())]:
            return " Indent with blanks, not tabs."
        found = f"{error.context} {error.problem}"
        remedy = next((way for words, way in SYNTAX if words in found), ANY_SYNTAX)
        return remedy.format(line=begun.line + 1 if begun else 0)

    def document(self) -> Node:
        """The only document of the text."""
        self.next()
        if isinstance(self.next(), yaml.StreamEndEvent):
            raise EmptyYaml(EMPTY)
        root = self.node(self.next(), 0)
        self.next()
        if not isinstance(event := self.next(), yaml.StreamEndEvent):
            raise YamlError(
                Problem(event.start_mark.line + 1, 1, "starts a second document. Keep one document in a file.")
            )
        return root

    def node(self, event: Any, depth: int) -> Node:
        """The node that starts with `event`."""
        node = Node(None, event.start_mark.line + 1, event.start_mark.column + 1)
        if depth > MAX_DEPTH:
            raise YamlError(Problem(node.line, node.column, f"is nested deeper than {MAX_DEPTH} levels."))
        if isinstance(event, yaml.AliasEvent):
            return self.alias(event.anchor, node)
        if event.tag is not None:
            self.problems.append(
                Problem(node.line, node.column, f"has the tag `{event.tag}`. Tags are not allowed: leave it out.")
            )
        if event.anchor:
            self.anchors[event.anchor] = None
        match event:
            case yaml.ScalarEvent():
                node.value = scalar(event.value) if event.implicit[0] else event.value
            case yaml.SequenceStartEvent():
                node.value = self.items(depth)
            case _:
                self.entries(node, depth)
        if event.anchor:
            self.anchors[event.anchor] = node
        return node

    def alias(self, name: str | None, node: Node) -> Node:
        """The node that an alias stands for, at the place of the alias."""
        if (target := self.anchors.get(name or "")) is None:
            what = "contains itself" if name in self.anchors else "has no anchor before it"
            raise YamlError(Problem(node.line, node.column, f"alias `*{name}` {what}. Write the value out."))
        return Node(target.value, node.line, node.column, target.keys)

    def items(self, depth: int) -> list[Node]:
        """Nodes of a sequence that has begun."""
        nodes = []
        while not isinstance(event := self.next(), yaml.SequenceEndEvent):
            nodes.append(self.node(event, depth + 1))
        return nodes

    def entries(self, node: Node, depth: int) -> None:
        """Fills in the mapping that has begun."""
        node.value = {}
        while not isinstance(event := self.next(), yaml.MappingEndEvent):
            line, column = event.start_mark.line + 1, event.start_mark.column + 1
            if not isinstance(event, yaml.ScalarEvent):
                raise YamlError(Problem(line, column, "a key must be a word, not an alias, a list or a mapping."))
            value = self.node(self.next(), depth + 1)
            key = event.value
            if key in node.keys:
                first = node.keys[key][0]
                message = f"key `{key}` is given twice, first in line {first}. Keep one."
                self.problems.append(Problem(line, column, message))
                continue
            node.keys[key] = (line, column)
            node.value[key] = value
