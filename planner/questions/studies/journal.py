"""Finished points on disk: one JSON line each, there before the next one is stored. Only one study writes a journal."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, Self

from calibrate.io.files import parse_json
from calibrate.io.lines import Writer, open_lines
from planner.io.store import StoreError
from planner.questions.studies.engine import Outcome
from planner.questions.studies.figures import is_figure
from planner.units.writing import counted
from simulator.world.profile import Evidence

FILE = "points.jsonl"
OLDER = {"speed_evidence": None, "uncertain": False}
"""Of points that were kept before they said so."""
BEGIN = b'{"key":'
"""Start of each line."""
ELSEWHERE = "Name another directory (`-o`, in Python `out`)"
WRITER = Writer("study", "name another directory", StoreError)


class StudyJournal:
    """The points that a folder holds, and the way to add one."""

    def __init__(self, directory: Path, *, resume: bool) -> None:
        """Open it, new or, with `resume`, as it was left. A last line that was not finished is cut off."""
        self.path = directory / FILE
        self.resume = resume
        self.outcomes: dict[str, Outcome] = {}
        if directory.is_dir() and not self.path.exists() and any(directory.iterdir()):
            WRITER.refuse(directory, "holds other files, and no study", "Name a new directory")
        self.lines = open_lines(self.path, WRITER, BEGIN, self._accept)

    def __enter__(self) -> Self:
        """Keep it open until the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let another study have it."""
        self.close()

    def close(self) -> None:
        """Let another study have it."""
        self.lines.close()

    def refuse_other(self) -> NoReturn:
        """Raise StoreError: results would replace those of another study."""
        held = counted(len(self.outcomes), "point")
        WRITER.refuse(self.path, f"holds {held} of another study, or of this one before it changed", ELSEWHERE)

    def keep(self, key: str, outcome: Outcome) -> None:
        """Store a point for good."""
        self.lines.append({"key": key, **outcome})
        self.outcomes[key] = outcome

    def sort(self, first: Sequence[str]) -> None:
        """Write the lines anew in this order, then all others, so that equal studies leave equal files."""
        listed = [key for key in first if key in self.outcomes]
        order = dict.fromkeys([*listed, *sorted(self.outcomes)])
        self.lines.rewrite({"key": key, **self.outcomes[key]} for key in order)

    def _accept(self, lines: Sequence[bytes]) -> int:
        for number, line in enumerate(lines, start=1):
            try:
                point = OLDER | parse_json(line)
            except (ValueError, TypeError):
                point = None
            if not is_outcome(point):
                raise StoreError(f"{self.path}:{number}: is no point of a study. Remove that line.")
            key = point.pop("key")
            if key in self.outcomes:
                raise StoreError(f"{self.path}:{number}: holds a point again. Remove that line.")
            self.outcomes[key] = {name: point[name] for name in RULES if name in point}  # one order, so equal bytes
        if lines and not self.resume:
            wrong = f"holds {len(lines)} points already"
            WRITER.refuse(self.path, wrong, f"Resume it (`--resume`, in Python `resume=True`), or {WRITER.elsewhere}")
        return len(lines)


def is_outcome(point: Any) -> bool:
    """True for a point's outcome with its key."""
    return (
        isinstance(point, dict)
        and point.keys() == RULES.keys()
        and all(is_good(point[key]) for key, is_good in RULES.items())
    )


def are_kept(values: Any) -> bool:
    """True for figures by name."""
    return isinstance(values, dict) and all(map(is_kept, values.values()))


def is_flag(value: Any) -> bool:
    """True for yes or no."""
    return isinstance(value, bool)


def is_text(value: Any) -> bool:
    """True for a text that a terminal may show."""
    return isinstance(value, str) and value.isprintable()


def is_kept(value: Any) -> bool:
    """True for nothing, a text, or a number."""
    return value is None or is_figure(value, number=True) or is_figure(value, number=False)


RULES: Mapping[str, Callable[[Any], bool]] = {
    "key": is_text,
    "values": are_kept,
    "feasible": is_flag,
    "evidence": lambda evidence: evidence in [None, *Evidence],
    "predicted": is_flag,
    "speed_evidence": lambda evidence: evidence in [None, *Evidence],
    "uncertain": is_flag,
    "reason": is_text,
    "failed": is_flag,
}
"""What each key of a point must be."""
