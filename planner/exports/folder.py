"""Folders of an export: written whole, and never over what somebody else put there."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from calibrate.io.files import PART, FileError, named, quoted, read_bytes, read_json
from planner.exports.fleet import ExportError
from planner.io.store import StoreError, write_beside

MARK = ".planner-export.json"
"""Which files an export wrote, and what they were: the next one replaces those, and nothing else."""
SCHEMA = "planner.exports/v1"
MARK_BYTES = 1_000_000


def write_folder(folder: Path, target: str, files: Mapping[str, str], force: bool = False) -> None:
    """Write an export. What an earlier export of the same target wrote is replaced, what it alone had is removed.

    ExportError where the folder holds anything else, or where a file was changed since: then only with `force`.
    """
    earlier = read_mark(folder, target)
    demand_plain(folder, {MARK, *earlier, *files})
    if not force:
        refuse_changed(folder, earlier, files)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not earlier:  # before all else, so that an export which is broken off can be made again
            write_mark(folder, target, {})
        for path in earlier.keys() - files.keys():
            (folder / path).unlink(missing_ok=True)
        for path in files:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ExportError(f"{folder}: cannot be written: {error.strerror}. Name another folder.") from error
    for path, text in files.items():
        write_beside(text, folder / path)
    write_mark(folder, target, files)


def read_mark(folder: Path, target: str) -> dict[str, str]:
    """Digest by path of what an earlier export wrote; ExportError where the folder holds something that is none."""
    mark = mark_in(folder)
    if mark is None:
        return {}
    if not is_mark(mark):
        raise ExportError(f"{folder / MARK}: is no mark that an export wrote. Name another folder.")
    if mark["target"] != target:
        raise ExportError(f"{folder}: holds an export to {quoted(mark['target'])}. Name another folder.")
    files: dict[str, str] = mark["files"]
    return files


def mark_in(folder: Path) -> Any:
    """JSON of the mark in a folder; None where the folder is empty, or not there."""
    if folder.exists() and not folder.is_dir():
        raise ExportError(f"{folder}: is no folder. Name another.")
    try:
        if not folder.exists() or all(path.suffix == PART for path in folder.iterdir()):
            return None
        if not (folder / MARK).exists():
            raise ExportError(f"{folder}: is not empty, and holds no export. Name another folder.")
        return read_json(folder / MARK, MARK_BYTES)
    except OSError as error:
        raise ExportError(f"{folder}: cannot be read: {error.strerror}. Name another folder.") from error
    except FileError as error:
        raise ExportError(f"{folder / MARK}{error.place}: {error}. Name another folder.") from error


def is_mark(mark: Any) -> bool:
    """True where it names plain files below the folder, each with its digest."""
    match mark:
        case {"schema": str() as schema, "target": str(), "files": dict() as files} if schema == SCHEMA:
            return all(is_below(path) and isinstance(found, str) for path, found in files.items())
    return False


def is_below(path: str) -> bool:
    """True where a path leads to a file below the folder, and to nothing else."""
    parts = PurePosixPath(path).parts
    return path == "/".join(parts) and path.isprintable() and parts not in ((), (MARK,)) and not {"..", "/"} & {*parts}


def demand_plain(folder: Path, paths: Iterable[str]) -> None:
    """ExportError where a path leads through a link, or to something that is no file: nothing is followed."""
    for path in sorted(paths):
        steps = [folder / path, *(folder / path).parents][: len(PurePosixPath(path).parts)]
        for there in steps:
            if there.is_symlink():
                raise ExportError(f"{there}: is a link. Remove it, or name another folder.")
        if (folder / path).exists() and not (folder / path).is_file():
            raise ExportError(f"{folder / path}: is no file. Remove it, or name another folder.")


def refuse_changed(folder: Path, earlier: Mapping[str, str], files: Mapping[str, str]) -> None:
    """ExportError where a file is neither what an earlier export wrote nor what this one would write."""
    for path in sorted(earlier.keys() | files.keys()):
        there = folder / path
        if not there.exists():
            continue
        with named(there, "Remove it, or name another folder", ExportError):
            found = digest(read_bytes(there, unpack=False))
        if found not in (earlier.get(path), digest(files[path].encode()) if path in files else ""):
            remedy = "Name another folder, or write over it (`--force`, in Python `force=True`)"
            raise ExportError(f"{there}: was changed since it was exported. {remedy}.")


def write_mark(folder: Path, target: str, files: Mapping[str, str]) -> None:
    """Remember what was written."""
    digests = {path: digest(files[path].encode()) for path in sorted(files)}
    try:
        write_beside(json.dumps({"schema": SCHEMA, "target": target, "files": digests}, indent=2) + "\n", folder / MARK)
    except StoreError as error:
        raise ExportError(f"{folder}: cannot be written. Name another folder.") from error


def digest(data: bytes) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(data).hexdigest()
