"""Journal: every finished point is on disk before the next one starts. JSON lines, the first of them a header."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from calibrate.devices.provenance import differing
from calibrate.io.files import FileError, parse_json, read_bytes
from calibrate.io.lines import Lines, Writer, open_lines, whole_lines
from calibrate.io.points import PointOutcome, Status
from calibrate.io.reader import NAME
from simulator.errors import InputError

SCHEMA = "planner.journal/v1"
BEGIN = b'{"provenance":'
"""Start of its first line."""


class JournalError(InputError):
    """A journal that cannot be written or continued; the text names file, what is wrong and the remedy."""


REPEATED = (Status.FAILED, Status.CRASHED, Status.TIMED_OUT)
"""Their cause may be gone when the journal is continued: a GPU that was busy, a package that lacked, a short limit."""
WRITER = Writer("calibration", "name another --out", JournalError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """Facts that all points of one journal share."""

    provenance: Mapping[str, Any]
    """Device and software that were measured, and when."""
    seed: int
    """Start of all random orders."""
    schema: str = SCHEMA


@dataclass(slots=True)
class Journal:
    """An open journal. Only one process has it; each outcome is written once and has reached the disk on return."""

    lines: Lines
    header: Header
    outcomes: dict[str, PointOutcome]
    """By the point's key; of a point that was repeated, the last."""
    repeats: set[str] = field(default_factory=set)
    """Keys of points that failed when the journal was last written, and are measured again."""

    @property
    def path(self) -> Path:
        return self.lines.path

    @property
    def settled(self) -> dict[str, PointOutcome]:
        """Outcomes without those of points that are measured again."""
        return {key: outcome for key, outcome in self.outcomes.items() if key not in self.repeats}

    def append(self, outcome: PointOutcome) -> None:
        """Keep `outcome` for good."""
        key = outcome.point.key
        if key in self.settled:
            raise JournalError(f"{self.path}: holds {key} already; each point is kept once.")
        self.lines.append(outcome.to_json())
        self.outcomes[key] = outcome
        self.repeats.discard(key)

    def close(self) -> None:
        """Let another process have it."""
        self.lines.close()


@dataclass(slots=True)
class Content:
    """The content of a journal, taken from its lines one by one."""

    path: Path
    header: Header | None = None
    outcomes: dict[str, PointOutcome] = field(default_factory=dict)

    def read(self, lines: Sequence[bytes]) -> int:
        """Take the lines; how many there are, without a last one of anything that a loss of power left."""
        for number, line in enumerate(lines, start=1):
            try:
                raw = parse_json(line)
                if self.header is None:
                    self.header = _header(raw)
                    continue
                outcome = PointOutcome.from_json(raw)
            except (ValueError, TypeError, KeyError, AttributeError):
                if self.header and number == len(lines):
                    return number - 1
                remedy = "Delete that line" if self.header else "Move the file away"
                wrong = f"line {number} is no line of a journal"
                WRITER.refuse(self.path, wrong, f"{remedy}, or {WRITER.elsewhere}")
            key = outcome.point.key
            if key in self.outcomes and self.outcomes[key].status not in REPEATED:
                WRITER.refuse(self.path, f"line {number} holds {key} again", "Delete that line")
            self.outcomes[key] = outcome
        return len(lines)


def open_journal(path: Path, provenance: Mapping[str, Any], seed: int, *, resume: bool) -> Journal:
    """The journal at `path`, new, or with `resume` continued where it ended: under its own seed, on the same device.

    A last line that was not finished is cut off: its point was never kept. A journal without points is begun anew.
    Points that failed are measured again; of two outcomes of a point the later one counts.
    """
    content = Content(path)

    def accept(lines: Sequence[bytes]) -> int:
        count = content.read(lines)
        if content.header is None or not content.outcomes:
            return 0
        if not resume:
            wrong = f"holds {len(content.outcomes)} points already"
            remedy = "Add to it with --resume, which measures what is missing, other models too"
            WRITER.refuse(path, wrong, f"{remedy}, or {WRITER.elsewhere}")
        if difference := differing(content.header.provenance, provenance):
            key, was, now = difference
            WRITER.refuse(path, f"{key} was {was}, now it is {now}", f"Such figures are not mixed: {WRITER.elsewhere}")
        return count

    lines = open_lines(path, WRITER, BEGIN, accept)
    if content.header and content.outcomes:
        failed = {key for key, outcome in content.outcomes.items() if outcome.status in REPEATED}
        return Journal(lines, content.header, content.outcomes, failed)
    header = Header(provenance=provenance, seed=seed)
    try:
        lines.append(asdict(header))
    except BaseException:
        lines.close()
        raise
    return Journal(lines, header, {})


def read_journal(path: Path) -> tuple[Header, list[PointOutcome]]:
    """Header and outcomes of a journal, which another process may still be writing."""
    content = Content(path)
    try:
        content.read(whole_lines(read_bytes(path, unpack=False)))
    except FileError as error:
        WRITER.refuse(path, str(error), "Name a journal that exists and may be read")
    if content.header is None:
        WRITER.refuse(path, "holds no whole line", "Measure again")
    return content.header, list(content.outcomes.values())


def _header(raw: Mapping[str, Any]) -> Header:
    header = Header(**raw)
    if header.schema != SCHEMA or not isinstance(header.provenance, Mapping) or not isinstance(header.seed, int):
        raise ValueError(header.schema)
    if not NAME.fullmatch(str(header.provenance["gpu"])):  # the name of a folder
        raise ValueError(header.provenance["gpu"])
    return header
