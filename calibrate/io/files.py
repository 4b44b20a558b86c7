"""Files: whatever is read comes through here - a plain file, of bounded size before and after it is unpacked.

No file is trusted because it carries our own name: people send each other plans, recordings and profiles. What is
written is there as a whole or not at all, and through no link.
"""

import gzip
import io
import json
import os
import re
import stat
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import Enum, auto
from errno import EACCES, EDQUOT, EIO, ELOOP, ENAMETOOLONG, ENOSPC, EROFS, EXDEV
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, NoReturn

from simulator.errors import InputError

LARGEST_BYTES = 256_000_000
"""Most bytes of any file, unpacked."""
LARGEST_HELD_BYTES = 400_000_000
"""Most memory that the values of a JSON file may take."""
VALUE_BYTES, MAPPING_BYTES, LIST_BYTES = 32, 240, 90
"""Memory of each value, mapping and list, about."""
MADE = "made by the planner"
"""The mark of files that are written for people and other programs."""
OURS = {
    "picture": re.compile(
        rb"\x89PNG\r\n.*Software\0made by the planner|<\?xml .*<dc:title>made by the planner<", re.DOTALL
    ),
    "recording": re.compile(rb"# \d+ arrivals from [^\n]*, made by the planner\n"),
    "report": re.compile(rb'<!doctype html>\n.*\n<meta name="generator" content="made by the planner">\n', re.DOTALL),
}
"""How each begins: only that may be replaced."""
MARK_WITHIN = 10_000
LINES_DEEP = 3
"""Levels of a JSON file that take a line for each key; what lies deeper stands in one line."""
PART = ".part"
"""End of the name of a file that is being written."""
LONGEST_PART = 100
"""Bytes of a file's name in that of the file it is written to first."""
GZIP = b"\x1f\x8b"
ENDLESS = re.compile(rb"(?:^|[\s:,\[])-?(?:\d{100}|\d+(?:\.\d+)?[eE]\+?\d{3})")
"""Numbers that no figure has: of 100 digits or more."""
STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')


REFUSED = (EACCES, EDQUOT, EIO, ELOOP, ENAMETOOLONG, ENOSPC, EROFS, EXDEV)
"""Errors of the system that are none of ours."""


class Fault(Enum):
    """Faults of a file that have remedies of their own."""

    MISSING = auto()
    DIRECTORY = auto()
    LARGE = auto()
    ENCODING = auto()
    DENIED = auto()


MAKE_READABLE = "Make it readable for you, or name another file"
"""Remedy of a file that may not be read."""


class FileError(InputError):
    """A file that cannot be used: what is wrong, in a sentence without the file's name and without the remedy."""

    def __init__(self, what: str, *at: int, fault: Fault | None = None) -> None:
        super().__init__(what)
        self.fault = fault
        self.at = ":".join(map(str, at))
        """`3:7`, line and column; empty where the file as a whole is meant."""

    @property
    def place(self) -> str:
        """The same behind the name of a file."""
        return f":{self.at}" if self.at else ""


def read_bytes(path: Path, most: int = LARGEST_BYTES, *, unpack: bool = True) -> bytes:
    """The content of a plain file, unpacked where gzip packed it. FileError where it is none, or has more bytes."""
    try:
        with open(path, "rb", opener=_open_plain) as file:
            raw = file.read(most + 1)
            if unpack and raw[: len(GZIP)] == GZIP and len(raw) <= most:
                raw = gzip.GzipFile(fileobj=io.BytesIO(raw)).read(most + 1)
    except FileNotFoundError:
        raise FileError("no such file", fault=Fault.MISSING) from None
    except FileError:
        raise
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise FileError("is broken: it cannot be unpacked by gzip") from None
    except (OSError, ValueError) as error:
        what = f"cannot be read: {getattr(error, 'strerror', None) or error}"
        raise FileError(what, fault=Fault.DENIED if isinstance(error, PermissionError) else None) from None
    if len(raw) > most:
        raise FileError(f"holds more than {_size(most)}", fault=Fault.LARGE)
    return raw


def read_text(path: Path, most: int = LARGEST_BYTES) -> str:
    """The same as UTF-8."""
    raw = read_bytes(path, most)
    return _decoded(raw)


def read_json(path: Path, most: int = LARGEST_BYTES) -> Any:
    """The same as JSON: no key twice, every number finite. FileError where it would take too much memory."""
    return parse_json(read_bytes(path, most))


def parse_json(raw: bytes) -> Any:
    """JSON of bytes; FileError with the place."""
    if held_bytes(raw) > LARGEST_HELD_BYTES:
        raise FileError(f"holds more values than fit into {_size(LARGEST_HELD_BYTES)}")
    # As many blanks as a text has bytes stand for it: a digest in it is no number.
    if found := ENDLESS.search(raw) and ENDLESS.search(STRING.sub(lambda text: b"_" * len(text[0]), raw)):
        line = raw.count(b"\n", 0, found.end()) + 1
        column = found.end() - raw.rfind(b"\n", 0, found.end())
        raise FileError("holds a number beyond 1e100", line, column)
    try:
        return json.loads(_decoded(raw), object_pairs_hook=_unique, parse_constant=_not_finite)
    except json.JSONDecodeError as error:
        end = "it ends too early" if error.pos >= len(error.doc.rstrip()) else error.msg.lower()
        raise FileError(f"is not JSON: {end}", error.lineno, error.colno) from None
    except RecursionError:
        raise FileError("is nested too deeply") from None


def held_bytes(raw: bytes) -> int:
    """Memory that the values of a JSON text take, at most: characters, and each value, mapping and list."""
    letters = len(raw) * (2 if raw.isascii() else 5)
    return letters + VALUE_BYTES * raw.count(b",") + MAPPING_BYTES * raw.count(b"{") + LIST_BYTES * raw.count(b"[")


def cache_folder(room: str) -> Path:
    """Where the user's programs keep what can be made again."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(home) / "gpu-capacity-planner" / room


def lines_json(value: Any, depth: int = 0) -> str:
    """JSON with a line for each key of the upper levels: long enough to be read, short enough to be kept."""
    if not isinstance(value, Mapping) or not value or depth > LINES_DEEP:
        return json.dumps(value, allow_nan=False, ensure_ascii=False)
    indent = "  " * (depth + 1)
    lines = (f"{indent}{json.dumps(key)}: {lines_json(inner, depth + 1)}" for key, inner in value.items())
    return "{\n" + ",\n".join(lines) + "\n" + "  " * depth + "}"


def demand_ours(path: Path, what: str) -> None:
    """FileError where a new file would replace one of another kind, or of somebody else; an empty one may go."""
    if path.is_dir():
        raise FileError("is a directory", fault=Fault.DIRECTORY)
    try:
        with open(path, "rb", opener=_open_plain) as file:
            head = file.read(MARK_WITHIN)
    except (OSError, FileError):  # not there, or a pipe, which nothing replaces
        return
    if head and not OURS[what].match(head):
        raise FileError(f"exists and is no {what} that the planner made")


def unwritable(path: Path, error: OSError | None = None) -> str:
    """Why a file cannot be written: as its place tells, else as the system says; empty where it can be.

    A folder that is not there is named: `No such file or directory` of a new file seems to be about the file. Before
    anything failed it is tried, for modes tell little: a disk may be mounted to be read only.
    """
    if os.path.isdir(path):  # not `is_dir`, which raises where a name is too long
        return "it is a folder"
    target = Path(os.path.realpath(path))
    folder = target.parent if os.path.islink(path) else path.parent
    if not os.path.isdir(folder):
        return f"{folder} is no folder" if os.path.exists(folder) else f"folder {folder} is not there"
    try:
        if error:
            raise error
        if not target.exists() or target.is_file():  # a pipe or a device is written into
            with TemporaryFile(dir=target.parent):
                pass
    except OSError as refused:
        return refused.strerror or str(refused)
    return ""


@contextmanager
def replacing(path: Path, *, locked: bool = False) -> Iterator[BinaryIO]:
    """A file to be written: a reader sees the old one or, after the block, the new one.

    No link is followed. `locked`: no other process writes it, so the rest of a killed one goes. OSError where it
    cannot be written; then the old one is as it was.
    """
    writer, name = "" if locked else f".{os.getpid()}", path.name.encode()[:LONGEST_PART].decode(errors="ignore")
    part = path.with_name(f".{name}{writer}{PART}")
    try:
        with open(part, "wb", opener=_open_new) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise


def put(path: Path, data: bytes, refusal: type[Exception], remedy: str) -> None:
    """Write a file into a folder that is made where there is none; a refusal with the remedy where that cannot be."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(data)
    except OSError as error:
        raise refusal(f"{path}: cannot be written: {error.strerror}. {remedy}.") from None


@contextmanager
def replacing_named(path: Path, remedy: str, refusal: type[InputError] = InputError) -> Iterator[BinaryIO]:
    """The same of a file that a person named: a link is followed, and a pipe or a device is written into.

    A refusal with the remedy where it cannot be written.
    """
    target = Path(os.path.realpath(path))
    try:
        opened = open(target, "wb") if target.exists() and not target.is_file() else replacing(target)  # noqa: SIM115
        with opened as file:
            yield file
    except OSError as error:
        raise refusal(f"{path}: cannot be written: {unwritable(path, error)}. {remedy}.") from error


@contextmanager
def named(place: object, remedy: str, refusal: type[InputError] = InputError) -> Iterator[None]:
    """What is wrong with a file becomes a refusal that names it, with the remedy: another where it may not be read."""
    try:
        yield
    except FileError as error:
        remedy = MAKE_READABLE if error.fault is Fault.DENIED else remedy
        raise refusal(f"{place}{error.place}: {error}. {remedy}.") from None


def open_plain(path: Path) -> BinaryIO:
    """A plain file to be read, and no link. FileError or OSError where it is none."""
    if path.is_symlink():
        raise FileError("is a link")
    return open(path, "rb", opener=_open_plain)


def open_growing(path: Path) -> int:
    """A descriptor of a file that is read and appended to, made where there is none.

    FileError where it is a link, a directory, a device or a pipe; OSError where it cannot be written.
    """
    if path.is_symlink():
        raise FileError("is a link")
    return _open_plain(str(path), os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW)


def _open_new(path: str, flags: int) -> int:
    """A descriptor of a file that was not there before, whatever stood in its way."""
    with suppress(FileNotFoundError):
        os.unlink(path)
    return os.open(path, flags | os.O_EXCL | os.O_NOFOLLOW, 0o666)


def _open_plain(path: str, flags: int) -> int:
    """A descriptor of a plain file; a pipe without a writer does not hold it up."""
    descriptor = os.open(path, flags | os.O_NONBLOCK, 0o666)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise FileError("is a directory", fault=Fault.DIRECTORY)
    raise FileError("is a device or a pipe, and no file")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    for key, value in pairs:
        if key in mapping:
            raise FileError(f"has the key {quoted(key)} twice")
        mapping[key] = value
    return mapping


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        what = f"is not UTF-8: byte 0x{raw[error.start]:02x} at offset {error.start}"
        raise FileError(what, fault=Fault.ENCODING) from None


def _not_finite(text: str) -> NoReturn:
    raise FileError(f"{text} is not a finite number")


def _size(count: int) -> str:
    return f"{count // 1_000_000} MB" if count >= 1_000_000 else f"{count // 1000} kB"


def unusable(error: Exception) -> str:
    """The error line for a file that somebody named and the system refuses; empty where it is another error."""
    if isinstance(error, OSError) and error.errno in REFUSED and error.filename is not None:
        return f"{quoted(str(error.filename))}: cannot be used: {error.strerror}. Name another file."
    return ""


def quoted(value: object, longest: int = 60) -> str:
    """A value of a file as an error line has it: on one line, shortened, nothing that a terminal would obey."""
    text = printable(value if isinstance(value, str) else repr(value))
    return f"`{text}`" if len(text) <= longest else f"`{text[: longest - 3]}...`"


def printable(text: str) -> str:
    """A text whose control characters are shown (`\\x1b`) and not sent to the terminal."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def one_line(text: object, longest: int = 300) -> str:
    """A text, such as that of an error, without line breaks, cut where it is too long."""
    return " ".join(str(text).split())[:longest]
