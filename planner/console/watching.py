"""Watching: a question is asked again each time its file is saved."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

EVERY_S = 0.2
"""Between two looks at the file: nobody notices so short a wait."""
Stamp = tuple[int, int, int]


def saved(path: Path, wait: Callable[[float], None] = time.sleep) -> Iterator[None]:
    """One item at once, and one each time the file was saved."""
    last: Stamp | None = None
    while True:
        stamp = stamp_of(path)
        if stamp not in (None, last):
            last = stamp
            yield
        wait(EVERY_S)


def stamp_of(path: Path) -> Stamp | None:
    """What tells one saved file from the next; None while there is none, as an editor puts another in its place."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
