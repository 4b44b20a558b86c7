"""Journal: every finished point is on disk before the next one starts. JSON lines, the first of them a header."""

import fcntl
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

from calibrate.files import LARGEST_BYTES, FileError, open_growing, parse_json, read_bytes
from calibrate.points import Outcome
from calibrate.provenance import differing
from calibrate.reader import NAME
from simulator.errors import InputError

SCHEMA = "planner.journal/v1"
BEGIN = b'{"provenance":'
"""Of its first line."""


class JournalError(InputError):
    """A journal that cannot be written or continued; the text names file, what is wrong and the way out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What all points of one journal share."""

    provenance: Mapping[str, Any]
    """Device and software that were measured, and when."""
    seed: int
    """Start of all random orders."""
    schema: str = SCHEMA


@dataclass(slots=True)
class Journal:
    """An open journal. Only one process has it; each outcome is written once and has reached the disk on return."""

    path: Path
    header: Header
    outcomes: dict[str, Outcome]
    """By the point's key, in the order they were written."""
    file: int = field(repr=False)
    """Its descriptor, which holds the lock."""

    def append(self, outcome: Outcome) -> None:
        """Keep `outcome` for good."""
        key = outcome.point.key
        if key in self.outcomes:
            raise JournalError(f"{self.path}: holds {key} already; each point is kept once.")
        self._write(outcome.to_json())
        self.outcomes[key] = outcome

    def close(self) -> None:
        """Let another process have it."""
        os.close(self.file)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, line: Mapping[str, Any]) -> None:
        data = json.dumps(line, allow_nan=False, separators=(",", ":")).encode() + b"\n"
        whole_bytes = os.fstat(self.file).st_size
        try:
            while data:
                data = data[os.write(self.file, data) :]
            os.fsync(self.file)
        except OSError as error:
            # A line that a full disk cut short would hide what comes after it.
            with suppress(OSError):
                os.ftruncate(self.file, whole_bytes)
            _refuse(self.path, f"cannot be written ({error.strerror})", "Make room, then continue with --resume")


def open_journal(path: Path, provenance: Mapping[str, Any], seed: int, *, resume: bool) -> Journal:
    """The journal at `path`, new, or with `resume` continued where it ended: under its own seed, on the same device.

    A last line that was not finished is cut off: its point was never kept.
    """
    file = _open(path)
    try:
        _lock(file, path)
        header, outcomes = _read(file, path)
        if outcomes and not resume:
            _refuse(path, f"holds {len(outcomes)} points already", "Continue it with --resume, or name another --out")
        if header and outcomes:
            _same(path, header.provenance, provenance)
            return Journal(path, header, outcomes, file)
        os.ftruncate(file, 0)
        journal = Journal(path, Header(provenance=provenance, seed=seed), {}, file)
        journal._write(asdict(journal.header))
        return journal
    except BaseException:
        os.close(file)
        raise


def read_journal(path: Path) -> tuple[Header, list[Outcome]]:
    """Header and outcomes of a journal that nobody need be done writing."""
    try:
        header, outcomes, _ = _parse(read_bytes(path, unpack=False), path)
    except FileError as error:
        _refuse(path, str(error), "Name a journal that exists and may be read")
    if header is None:
        _refuse(path, "holds no whole line", "Measure again")
    return header, list(outcomes.values())


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return open_growing(path)
    except OSError as error:
        _refuse(path, f"cannot be written ({error.strerror})", "Name a directory that may be written with --out")
    except FileError as error:
        _refuse(path, str(error), "Name another --out")


def _lock(file: int, path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _refuse(path, "another calibration is writing it", "Wait for it to end, or name another --out")
    except OSError:
        return  # A file system without locks (some network ones): then nobody can hold one.


def _read(file: int, path: Path) -> tuple[Header | None, dict[str, Outcome]]:
    """What a journal holds, once its torn last line is cut off."""
    if os.fstat(file).st_size > LARGEST_BYTES:
        _refuse(path, f"holds more than {LARGEST_BYTES // 1_000_000} MB", "Name another --out")
    data = b""
    while chunk := os.pread(file, 1 << 20, len(data)):
        data += chunk
    header, outcomes, whole_bytes = _parse(data, path)
    if not header and not data.startswith(BEGIN[: len(data)]):
        _refuse(path, "is no journal", "Move the file away, or name another --out")
    if whole_bytes < len(data):
        os.ftruncate(file, whole_bytes)
    return header, outcomes


def _parse(data: bytes, path: Path) -> tuple[Header | None, dict[str, Outcome], int]:
    """Header, outcomes and the length of the whole lines."""
    *lines, _torn = data.split(b"\n")
    header: Header | None = None
    outcomes: dict[str, Outcome] = {}
    whole_bytes = 0
    for number, line in enumerate(lines, start=1):
        try:
            raw = parse_json(line)
            if header is None:
                header = _header(raw)
            else:
                outcome = Outcome.from_json(raw)
                if outcome.point.key in outcomes:
                    _refuse(path, f"line {number} holds {outcome.point.key} again", "Delete that line")
                outcomes[outcome.point.key] = outcome
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            if isinstance(error, JournalError):
                raise
            if header and number == len(lines):
                break  # A machine that lost power may leave a last line of anything.
            way_out = (
                "Delete that line, or name another --out" if header else "Move the file away, or name another --out"
            )
            _refuse(path, f"line {number} is no line of a journal", way_out)
        whole_bytes += len(line) + 1
    return header, outcomes, whole_bytes


def _header(raw: Mapping[str, Any]) -> Header:
    header = Header(**raw)
    if header.schema != SCHEMA or not isinstance(header.provenance, Mapping) or not isinstance(header.seed, int):
        raise ValueError(header.schema)
    if not NAME.fullmatch(str(header.provenance["gpu"])):  # the name of a folder
        raise ValueError(header.provenance["gpu"])
    return header


def _same(path: Path, kept: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to mix what was measured on different devices or with different software."""
    if found := differing(kept, now):
        key, was, is_now = found
        _refuse(path, f"{key} was {was}, now it is {is_now}", "Such figures are not mixed: name another --out")


def _refuse(path: Path, wrong: str, way_out: str) -> NoReturn:
    raise JournalError(f"{path}: {wrong}. {way_out}.")
