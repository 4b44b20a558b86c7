"""Files that grow line by line: one process writes them, and each line is on disk before the next one is begun."""

import fcntl
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from calibrate.io.files import LARGEST_BYTES, FileError, open_growing, replacing
from simulator.errors import InputError


@dataclass(frozen=True, slots=True)
class Writer:
    """The command that writes a file, as errors name it."""

    name: str
    """E.g. `calibration`."""
    elsewhere: str
    """How another file is named: `name another --out`."""
    error: type[InputError]

    def refuse(self, path: Path, wrong: str, remedy: str) -> NoReturn:
        """Raise the command's own error."""
        raise self.error(f"{path}: {wrong}. {remedy}.") from None

    def refuse_file(self, path: Path, wrong: str) -> NoReturn:
        """The same where only another file helps."""
        self.refuse(path, wrong, self.elsewhere.capitalize())


@dataclass(slots=True)
class Lines:
    """An open file of JSON lines, which no other process writes."""

    path: Path
    writer: Writer
    file: int = field(repr=False)
    """Its descriptor, which holds the lock."""

    def close(self) -> None:
        """Let another process have it."""
        os.close(self.file)

    def append(self, document: Mapping[str, Any]) -> None:
        """Add a line for good. ValueError, with nothing written, where JSON cannot hold it."""
        data = line_of(document)
        whole_bytes = os.fstat(self.file).st_size
        try:
            while data:
                data = data[os.write(self.file, data) :]
            os.fsync(self.file)
        except OSError as error:
            # A line that a full disk cut short would spoil the next one.
            with suppress(OSError):
                os.ftruncate(self.file, whole_bytes)
            self._refuse_full(error)

    def rewrite(self, documents: Iterable[Mapping[str, Any]]) -> None:
        """Put other lines in place of all that are there, at once."""
        try:
            with replacing(self.path, locked=True) as file:
                file.writelines(map(line_of, documents))
                # Locked before it has the journal's name, so that no other process ever has it.
                new = claim(Path(file.name), self.writer)
        except OSError as error:
            self._refuse_full(error)
        os.close(self.file)
        self.file = new

    def _refuse_full(self, error: OSError) -> NoReturn:
        wrong = f"cannot be written ({error.strerror})"
        self.writer.refuse(self.path, wrong, "Make room, then continue with --resume")


def line_of(document: Mapping[str, Any]) -> bytes:
    """A document as one line."""
    return json.dumps(document, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def whole_lines(data: bytes) -> list[bytes]:
    """Lines that were finished, without their ends."""
    return data.split(b"\n")[:-1]


def open_lines(path: Path, writer: Writer, begin: bytes, accept: Callable[[Sequence[bytes]], int]) -> Lines:
    """The file at `path`, made where there is none, to be continued by this process alone.

    `accept` gets the whole lines and returns how many of them stay; it raises where the file is not to be continued,
    which leaves it as it was. What follows, and a last line that a kill cut short, is cut off: but never from a file
    without a whole line that does not begin with `begin`, for that is somebody else's.
    """
    lines = Lines(path, writer, claim(path, writer))
    try:
        data = _content(lines)
        whole = whole_lines(data)
        kept = whole[: accept(whole)]
        if not whole and not data.startswith(begin[: len(data)]):
            writer.refuse(path, f"holds nothing of a {writer.name}", f"Move the file away, or {writer.elsewhere}")
        kept_bytes = sum(len(line) + 1 for line in kept)
        if kept_bytes < len(data):
            os.ftruncate(lines.file, kept_bytes)
    except BaseException:
        lines.close()
        raise
    return lines


def claim(path: Path, writer: Writer) -> int:
    """A descriptor of the file at `path`, made where there is none: until it is closed, no other process gets one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            file = open_growing(path)
            _lock(file, path, writer)
            if _is_at(file, path):
                return file
            os.close(file)  # another process replaced the file before the lock was had
    except OSError as error:
        wrong = f"cannot be written ({error.strerror})"
        writer.refuse_file(path, wrong)
    except FileError as error:
        writer.refuse_file(path, str(error))


def _lock(file: int, path: Path, writer: Writer) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        wrong = f"another {writer.name} is writing it"
        writer.refuse(path, wrong, f"Wait for it to end, or {writer.elsewhere}")
    except OSError:
        return  # A file system without locks (some network ones): then no process can hold one.


def _is_at(file: int, path: Path) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file), path.stat())
    return False


def _content(lines: Lines) -> bytes:
    with open(lines.file, "rb", closefd=False) as file:
        data = file.read(LARGEST_BYTES + 1)
    if len(data) > LARGEST_BYTES:
        lines.writer.refuse_file(lines.path, f"holds more than {LARGEST_BYTES // 1_000_000} MB")
    return data
