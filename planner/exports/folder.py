"""Folders of an export: written whole, and never over what somebody else put there."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from planner.exports.fleet import ExportError
from planner.store import StoreError, write_text

MARK = ".planner-export.json"
"""Which files an export wrote, and what they were: the next one replaces those, and nothing else."""
SCHEMA = "planner.exports/v1"


def write_folder(folder: Path, target: str, files: Mapping[str, str], force: bool = False) -> None:
    """Write an export. What an earlier export of the same target wrote is replaced, what it alone had is removed.

    ExportError where the folder holds anything else, or where a file was changed since: then only with `force`.
    """
    earlier = read_mark(folder, target)
    if not force:
        refuse_changed(folder, earlier, files)
    try:
        for path in earlier.keys() - files.keys():
            (folder / path).unlink(missing_ok=True)
        for path in files:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ExportError(f"{folder}: cannot be written: {error.strerror}. Name another folder with -o.") from error
    if not earlier:  # before any other file, so that an export which is broken off can be made again
        write_mark(folder, target, {})
    for path, text in files.items():
        write_text(text, folder / path)
    write_mark(folder, target, files)


def read_mark(folder: Path, target: str) -> dict[str, str]:
    """Digest by path of what an earlier export wrote; ExportError where the folder holds something that is none."""
    if folder.exists() and not folder.is_dir():
        raise ExportError(f"{folder}: is no folder. Name another with -o.")
    try:
        if not folder.exists() or not any(folder.iterdir()):
            return {}
        mark: Any = json.loads((folder / MARK).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ExportError(f"{folder}: is not empty, and holds no export. Name another folder with -o.") from None
    except (OSError, ValueError) as error:
        raise ExportError(f"{folder / MARK}: cannot be read: {error}. Name another folder with -o.") from error
    if mark.get("schema") != SCHEMA:
        raise ExportError(f"{folder / MARK}: is not of this version. Name another folder with -o.")
    if mark.get("target") != target:
        raise ExportError(f"{folder}: holds an export to {mark.get('target')}. Name another folder with -o.")
    return dict(mark["files"])


def refuse_changed(folder: Path, earlier: Mapping[str, str], files: Mapping[str, str]) -> None:
    """ExportError where a file is neither what an earlier export wrote nor what this one would write."""
    for path in sorted(earlier.keys() | files.keys()):
        there = folder / path
        if not there.exists():
            continue
        found = digest(there.read_bytes())
        if found not in (earlier.get(path), digest(files[path].encode()) if path in files else ""):
            raise ExportError(f"{there}: was changed since it was exported. Name another folder, or add --force.")


def write_mark(folder: Path, target: str, files: Mapping[str, str]) -> None:
    """Remember what was written."""
    digests = {path: digest(files[path].encode()) for path in sorted(files)}
    try:
        write_text(json.dumps({"schema": SCHEMA, "target": target, "files": digests}, indent=2) + "\n", folder / MARK)
    except StoreError as error:
        raise ExportError(f"{folder}: cannot be written. Name another folder with -o.") from error


def digest(data: bytes) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(data).hexdigest()
