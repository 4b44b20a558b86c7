"""Where code takes our own text apart: a walk over the code that follows sentences through a function."""

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

MAKERS = ("planner.words", "planner.show", "planner.units.writing")
"""Rooms whose functions make sentences, and figures in people's units."""
HELD = frozenset(
    [
        "assumed",
        "assumes",
        "assumptions",
        "doubts",
        "gpu",
        "gpu_kind",
        "headline",
        "label",
        "message",
        "note",
        "notes",
        "reason",
        "remedy",
        "running",
        "runtime",
        "summary",
        "title",
        "warnings",
        "why",
        "why_not",
    ]
)
"""Fields that hold sentences, labels or names of ours."""
GIVEN = frozenset(["gpu", "gpu_kind", "runtime"])
"""Parameters that hold such names."""
KINDS = GIVEN | {"kind"}
"""Variables that hold such names."""
UNIT = re.compile(r"(_[a-z]+)+")
"""The end of a figure's name."""
CUTS = frozenset(
    [
        "endswith",
        "find",
        "index",
        "partition",
        "removeprefix",
        "removesuffix",
        "rfind",
        "rpartition",
        "rsplit",
        "split",
        "startswith",
    ]
)
SEARCHES = frozenset(["find", "index", "rfind"])
ENDINGS = frozenset(["endswith", "partition", "removesuffix", "rpartition", "rsplit", "split"])
MATCHES = frozenset(["findall", "finditer", "fullmatch", "match", "search", "split", "sub", "subn"])


@dataclass(frozen=True)
class Place:
    """A line that takes text apart."""

    file: str
    function: str
    line: int
    code: str


def own_errors(trees: Iterable[ast.Module]) -> frozenset[str]:
    """Names of our exceptions: their text is ours."""
    classes = (node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef))
    return frozenset(node.name for node in classes if node.name.endswith("Error"))


class Function:
    """One function, and which of its names hold text of ours."""

    def __init__(self, node: ast.AST, makers: frozenset[str], errors: frozenset[str]) -> None:
        self.nodes = list(ast.walk(node))
        self.makers = makers
        self.caught = frozenset(self._caught(errors))
        self.names = frozenset(arg.arg for arg in self.nodes if isinstance(arg, ast.arg) and arg.arg in GIVEN)
        while (more := self.names | frozenset(self._bound())) != self.names:
            self.names = more

    def _caught(self, errors: frozenset[str]) -> Iterator[str]:
        for node in self.nodes:
            if isinstance(node, ast.ExceptHandler) and node.name and node.type:
                types = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
                if any(last_name(one) in errors for one in types):
                    yield node.name

    def _bound(self) -> Iterator[str]:
        for node in self.nodes:
            match node:
                case ast.Assign(targets=targets, value=value) if self.ours(value):
                    yield from (name for target in targets for name in stored(target))
                case ast.NamedExpr(target=target, value=value) | ast.AnnAssign(target=target, value=value) if value:
                    yield from stored(target) if self.ours(value) else ()
                case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
                    yield from stored(target) if self.ours(value) else ()

    def ours(self, node: ast.AST | None) -> bool:
        """Whether an expression is text of ours, or several."""
        match node:
            case ast.Name(id=name):
                return name in self.names
            case ast.Call(func=ast.Name(id="str"), args=[ast.Name(id=name)]) if name in self.caught:
                return True
            case ast.Attribute(value=ast.Name(id=name), attr="args") if name in self.caught:
                return True
            case ast.Attribute(attr=attribute):
                return attribute in HELD
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name not in MATCHES - CUTS:
                return last_name(value) in self.makers or self.ours(value) or any(map(self.ours, node.args))
            case ast.Call(func=ast.Name(id=name), args=args):
                passing = name in ("str", "sorted", "list", "tuple", "reversed", "enumerate", "zip")
                return name in self.makers or (passing and any(map(self.ours, args)))
            case ast.JoinedStr() | ast.BinOp() | ast.BoolOp() | ast.IfExp() | ast.Tuple() | ast.List():
                return any(map(self.ours, ast.iter_child_nodes(node)))
            case ast.FormattedValue(value=value) | ast.Subscript(value=value) | ast.Starred(value=value):
                return self.ours(value)
            case ast.GeneratorExp(elt=value) | ast.ListComp(elt=value):
                return self.ours(value)
        return False

    def cuts(self, sentences: frozenset[str]) -> Iterator[ast.AST]:
        """Where it takes such text apart, asks what stands in it, or looks for one of the `sentences`."""
        for node in self.nodes:
            match node:
                case ast.Call(func=ast.Attribute(value=value, attr=name), args=args) if name in CUTS | MATCHES and args:
                    subjects = args if name in MATCHES - CUTS else [value, *(args if name == "split" else [])]
                    place_in_list = name in SEARCHES and not any(isinstance(arg, ast.Constant) for arg in args)
                    ending = name in ENDINGS and any(map(is_ending, args))
                    sought = name in CUTS and any(last_name(arg) in sentences for arg in args)
                    if ending or sought or (any(map(self.ours, subjects)) and not place_in_list):
                        yield node
                case ast.Compare(ops=[ast.In() | ast.NotIn()], left=part, comparators=[value]) if is_text(part):
                    if self.ours(value) or last_name(value) in KINDS:
                        yield node


def is_ending(node: ast.AST) -> bool:
    """Whether it is what a name of ours ends with, or what stands around it: a unit, settings, a backtick."""
    constants = (one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str))
    added = any(isinstance(one, ast.Attribute) and one.attr == "suffix" for one in ast.walk(node))
    return added or any(one == "`" or UNIT.fullmatch(one) for one in constants)


def is_text(node: ast.AST) -> bool:
    """Whether it is a text, or a constant by its name."""
    return (isinstance(node, ast.Constant) and isinstance(node.value, str)) or last_name(node).isupper()


def sentences_of(tree: ast.Module) -> frozenset[str]:
    """Names of a module's constants that hold three words or more."""
    constants = (node for node in tree.body if isinstance(node, ast.Assign))
    return frozenset(
        name
        for node in constants
        if isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        and len(node.value.value.split()) > 2
        for target in node.targets
        for name in stored(target)
    )


def last_name(node: ast.AST) -> str:
    """`b` of `a.b`."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def stored(target: ast.AST) -> Iterator[str]:
    """Names that an assignment binds."""
    return (node.id for node in ast.walk(target) if isinstance(node, ast.Name))


def makers_of(nodes: Sequence[ast.AST]) -> frozenset[str]:
    """Names in a module that make text when they are called."""
    imports = (node for node in nodes if isinstance(node, ast.ImportFrom) and node.module)
    made = (node for node in imports if f"{node.module}.".startswith(tuple(f"{room}." for room in MAKERS)))
    names = (alias.asname or alias.name for node in made for alias in node.names)
    return frozenset(name for name in names if not name[0].isupper())  # a function, not a class or a constant


def taken_apart(files: list[Path], root: Path) -> Iterator[Place]:
    """Every place in these files that takes our own text apart."""
    texts = {file: file.read_text(encoding="utf-8") for file in files}
    trees = {file: ast.parse(text) for file, text in texts.items()}
    errors = own_errors(trees.values())
    for file, tree in trees.items():
        nodes = list(ast.walk(tree))
        makers, sentences = makers_of(nodes), sentences_of(tree)
        functions = [n for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
        for function in functions:
            for node in Function(function, makers, errors).cuts(sentences):
                code = ast.get_source_segment(texts[file], node) or ""
                yield Place(file.relative_to(root).as_posix(), function.name, node.lineno, " ".join(code.split()))
