"""Finished points on disk: one JSON line each, there before the next one is stored. Only one study writes a journal."""

import fcntl
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from calibrate.files import FileError, open_growing, parse_json, read_bytes, replacing
from planner.store import StoreError
from planner.studies.engine import Outcome
from planner.studies.figures import is_figure
from simulator.profile import Evidence

FILE = "points.jsonl"
BEGIN = b'{"key":'
"""Of each line."""
KEYS = {"key", "values", "feasible", "evidence", "foretold", "reason", "failed"}


class Journal:
    """The points that a folder holds, and the way to add one."""

    def __init__(self, directory: Path, *, resume: bool) -> None:
        """Open it, new or, with `resume`, as it was left. A last line that was not finished is cut off."""
        self.path = directory / FILE
        if directory.is_dir() and not self.path.exists() and any(directory.iterdir()):
            raise StoreError(f"{directory}: holds other files, and no study. Name a new directory with -o.")
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self.file = self._opened()
        except OSError as error:
            raise StoreError(f"{self.path}: cannot be written: {error.strerror}. Name a directory with -o.") from None
        except FileError as error:
            raise StoreError(f"{self.path}: {error}. Name another directory with -o.") from None
        try:
            self.outcomes = self._read()
            if self.outcomes and not resume:
                held = f"{self.path}: holds {len(self.outcomes)} points already."
                raise StoreError(f"{held} Continue with --resume, or name another directory with -o.")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        """Have it until the end of the block."""
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Let another study have it."""
        self.close()

    def close(self) -> None:
        """Let another study have it."""
        os.close(self.file)

    def keep(self, key: str, outcome: Outcome) -> None:
        """Store a point for good."""
        data, whole_bytes = line(key, outcome), os.fstat(self.file).st_size
        try:
            while data:
                data = data[os.write(self.file, data) :]
            os.fsync(self.file)
        except OSError as error:
            with suppress(OSError):  # a line that a full disk cut short would spoil the next
                os.ftruncate(self.file, whole_bytes)
            raise StoreError(
                f"{self.path}: cannot be written: {error.strerror}. Then continue with --resume."
            ) from None
        self.outcomes[key] = outcome

    def sort(self, first: Sequence[str]) -> None:
        """Write the lines anew in this order, then all others, so that equal studies leave equal files."""
        order = dict.fromkeys([*(key for key in first if key in self.outcomes), *sorted(self.outcomes)])
        try:
            with replacing(self.path, locked=True) as file:
                file.writelines(line(key, self.outcomes[key]) for key in order)
                new = self._locked(Path(file.name))  # before it is the journal, so that nobody else ever has it
            os.close(self.file)
            self.file = new
        except OSError as error:
            raise StoreError(
                f"{self.path}: cannot be written: {error.strerror}. Then continue with --resume."
            ) from None

    def _opened(self) -> int:
        """The journal, locked. One that another study replaced before the lock was had is opened anew."""
        while True:
            file = self._locked(self.path)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file), self.path.stat()):
                    return file
            os.close(file)

    def _locked(self, path: Path) -> int:
        """A file that only this study writes. StoreError where another one does."""
        file = open_growing(path)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            raise StoreError(f"{self.path}: another study is writing it. Wait, or name another with -o.") from None
        except OSError:
            os.close(file)
            raise
        return file

    def _read(self) -> dict[str, Outcome]:
        try:
            raw = read_bytes(self.path)
        except FileError as error:
            raise StoreError(f"{self.path}: {error}. Name another directory with -o.") from None
        whole = raw[: raw.rfind(b"\n") + 1]
        outcomes = {}
        for number, text in enumerate(whole.splitlines(), start=1):
            try:
                found = parse_json(text)
                if not is_outcome(found):
                    raise ValueError
            except ValueError:
                raise StoreError(f"{self.path}:{number}: is no point of a study. Remove that line.") from None
            if found["key"] in outcomes:
                raise StoreError(f"{self.path}:{number}: holds a point again. Remove that line.")
            outcomes[found.pop("key")] = found
        if len(whole) < len(raw):
            if not outcomes and not raw.startswith(BEGIN[: len(raw)]):
                raise StoreError(f"{self.path}: holds no points of a study. Name another directory with -o.")
            os.ftruncate(self.file, len(whole))
        return outcomes


def is_outcome(found: Any) -> bool:
    """Whether it is a point's outcome, with its key."""
    if not isinstance(found, dict) or found.keys() != KEYS or not isinstance(found["values"], dict):
        return False
    flags = all(isinstance(found[name], bool) for name in ("feasible", "foretold", "failed"))
    texts = all(isinstance(found[name], str) and found[name].isprintable() for name in ("key", "reason"))
    evidence = found["evidence"] is None or found["evidence"] in list(Evidence)
    return flags and texts and evidence and all(map(is_kept, found["values"].values()))


def is_kept(value: Any) -> bool:
    """Whether a point can have it: nothing, a text, or a number."""
    return value is None or is_figure(value, number=True) or is_figure(value, number=False)


def line(key: str, outcome: Outcome) -> bytes:
    """One point as it is stored."""
    return json.dumps({"key": key, **outcome}, allow_nan=False, separators=(",", ":")).encode() + b"\n"
