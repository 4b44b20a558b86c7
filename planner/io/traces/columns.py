"""Columns of a CSV text: its header, and cells that are times, dates or counts; the first bad one is named."""

import csv
import io
import math
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import NoReturn, TextIO

import numpy as np
from numpy.typing import NDArray

from calibrate.io.files import quoted
from calibrate.io.tables import other_separator
from planner.io.traces.column_units import SECONDS, ColumnUnit, unit_of, without_unit
from planner.io.traces.table import LONGEST_S, RESOLUTION_S, Floats, TraceError, TraceTable, enough
from planner.units.reading import did_you_mean, duration

TIME_COLUMNS = ("arrival_s", "timestamp", "time", "arrival", "arrival_time", "time_s", "timestamp_s", "ts", "datetime")
"""Names that a column of time stamps usually has, whatever the case; the first that is there counts."""
TIMES = {name.replace("_", "") for name in TIME_COLUMNS}
"""The same where a unit stands beside them: `timestamp` of `timestamp_ms`."""
COUNTS = {
    *("count", "counts", "requests", "invocations", "calls", "hits", "arrivals", "queries", "rps", "qps", "rate"),
    *("requestcount", "requestscount", "numrequests", "nrequests", "requestrate", "arrivalrate", "arrivalcount"),
    *("requestspersecond", "requestsperminute", "requestss", "reqs", "nreq", "numreq"),
}
"""Names of columns of how many arrived in each row's time, by their letters."""
SPAN = re.compile(r"#\s*from\s+(\d.*?)\s*,\s*lasts\s+(.*?)\s*", re.IGNORECASE)
"""Comment above the header of a CSV, e.g. `# from 0 s, lasts 240 s`."""
MOST_COUNTS, LARGEST_COUNT = 100_000, 10_000
"""Of a column of counts: three hours of a camera at 10 fps."""
COUNTED_ROWS = 1_000
"""Of a column of counts that are looked at."""
LONGEST_LINE = 1_000_000
DATES_AT_ONCE = 100_000
LONGEST_DATE, NO_DATE = 45, "none"
"""Characters that a date may have; of longer texts none is one."""
ZONE = re.compile(r"[T ]\d\d[\d:.,]*\s?(?:[Zz]|[+-]\d\d(?::?\d\d)?)")
"""A time of a date, with the zone that it ends in."""
LONGEST_COMMENT = 200
"""That may say from when and how long."""
IN_SECONDS = "Write times in seconds. Another unit is read where the header names it, e.g. `arrival_ms`."
COLUMN = re.compile(r"[A-Za-z][\w .()/%-]{0,40}")
"""The form of a column's name."""
NEARLY = re.compile(r"#\s*(from\b.*\b)?lasts?\s+[\d.+-]", re.IGNORECASE)
"""Comment that surely means the same, and is written otherwise."""


@dataclass(frozen=True, slots=True)
class Span:
    """From when on and how long was recorded, as a comment in the file says."""

    start_s: float
    lasts_s: float


@dataclass(frozen=True, slots=True)
class Body:
    """The text of a recording from one of its lines on, which is never copied as a whole."""

    raw: bytes
    skipped: int = 0
    """Lines before it."""

    def open(self) -> TextIO:
        """Read it from its beginning."""
        file = io.TextIOWrapper(io.BytesIO(self.raw), encoding="utf-8-sig", newline="")
        for _ in range(self.skipped):
            file.readline(LONGEST_LINE)
        return file

    def lines(self, path: Path) -> Iterator[tuple[int, str]]:
        """Each line with its number; TraceError where one is too long for any recording."""
        file, number = self.open(), self.skipped
        while text := file.readline(LONGEST_LINE):
            number += 1
            if len(text) == LONGEST_LINE:
                raise TraceError(f"{path}:{number}: has more than {LONGEST_LINE:,} characters. Mend the line.")
            yield number, text


def read_header(file: TextIO, path: Path) -> tuple[list[str], int, Span | None]:
    """Column names, the number of their line, and what a comment above them says. The file stands behind them."""
    number, span = 0, None
    while text := file.readline(LONGEST_LINE):
        number += 1
        if text.strip() and not text.startswith("#"):
            names = [name.strip() for name in next(csv.reader([text]))]
            if between := other_separator(names):
                raise TraceError(f"{path}:{number}: {between}")
            return names, number, span
        if len(text) > LONGEST_COMMENT:
            continue
        if (found := SPAN.fullmatch(text.strip())) is not None:
            if span is not None:
                raise TraceError(f"{path}:{number}: says a second time how long the recording lasts. Remove one line.")
            span = span_of(found, f"{path}:{number}")
        elif NEARLY.match(text):
            raise TraceError(f"{path}:{number}: cannot be read as a length. Write it as `# from 0 s, lasts 240 s`.")
    raise TraceError(f"{path}: is empty. The first line names the columns, e.g. `arrival_s`.")


def span_of(found: re.Match[str], place: str) -> Span:
    """The durations in a comment."""
    try:
        return Span(duration(found[1]), duration(found[2]))
    except ValueError as error:
        raise TraceError(f"{place}: `{found[0][:80]}`: {error}") from None


def time_column(header: list[str], column: str | None, path: Path) -> int:
    """Index of the column of time stamps."""
    if column is not None:
        return column_named(header, column, path)
    lowered = [name.lower() for name in header]
    if found := next((name for name in TIME_COLUMNS if name in lowered), None):
        return lowered.index(found)
    with_unit = [name for name in header if without_unit(name) in TIMES]
    if len(with_unit) == 1:
        return header.index(with_unit[0])
    if with_unit:
        raise TraceError(
            f"{path}: has {len(with_unit)} columns of time stamps: {', '.join(map(quoted, with_unit))}. "
            "Name one with `column`, on the command line with --column."
        )
    # A first line that is no header may be of a private file, and is not shown.
    is_header = len(header) > 1 and all(COLUMN.fullmatch(name) for name in header)
    known = f"none of {', '.join(header)[:200]}" if is_header else "nothing in its first line"
    raise TraceError(
        f"{path}: has no column of time stamps: {known} is called {', '.join(TIME_COLUMNS)}. "
        "Name it with `column`, on the command line with --column."
    )


def demand_arrivals(header: list[str], times: int, body: Body, path: Path) -> None:
    """TraceError where each row says how many arrived: read as one arrival each, others would come than did."""
    others = [(index, name) for index, name in enumerate(header) if index != times]
    index, named = next(
        ((i, name) for i, name in others if re.sub(r"[^a-z]|total", "", name.lower()) in COUNTS), (times, "")
    )
    if not named:
        return
    cells = [row[index].strip() if index < len(row) else "" for row in islice(rows(body), COUNTED_ROWS)]
    if all(map(numeric, cells)) and any(number(cell) != 1 for cell in cells):
        raise TraceError(
            f"{path}: column {quoted(named)} says how many arrived, and each row is read as one arrival. Write a row "
            "for each of them; or name the column of time stamps with `column`, on the command line with --column, if "
            "each row is one."
        )


def column_named(header: list[str], column: str, path: Path) -> int:
    """Index of a column."""
    if column in header:
        return header.index(column)
    hint = did_you_mean(column, header)
    known = f" Known: {', '.join(header)[:200]}." if all(map(COLUMN.fullmatch, header)) else ""
    raise TraceError(f"{path}: has no column {quoted(column)}.{hint}{known}")


def demand_header(header: list[str], column: str | None, path: Path, example: str) -> None:
    """TraceError where the first line holds figures, which would be taken for names and lost."""
    if all(map(is_figure, header)) or (column in header and is_figure(str(column))):
        raise TraceError(
            f"{path}: has no header: its first line holds figures. Write a line with names of columns above it, "
            f"e.g. `{example}`."
        )


def is_figure(text: str) -> bool:
    """True for a number and for a date with time: no name of a column."""
    return numeric(text.removeprefix("-")) or (text[:1].isdigit() and dated(text))


def rows(body: Body) -> Iterator[list[str]]:
    """Rows of a CSV text that are neither empty nor comments."""
    return (row for row in csv.reader(body.open()) if row and not row[0].startswith("#"))


def numbers(body: Body, index: int) -> Floats:
    """One column as numbers; NumPy's own reader, so that millions of rows take a second or two."""
    return np.loadtxt(body.open(), delimiter=",", quotechar='"', usecols=index, ndmin=1)


def dates(body: Body, path: Path, index: int) -> Floats:
    """One column of ISO dates with times as seconds since the earliest; NaN where there is none.

    TraceError where some have a zone and some have none, which may be any.
    """
    cells = (row[index].strip() for row in rows(body))
    cells = (cell if len(cell) <= LONGEST_DATE else NO_DATE for cell in cells)
    parts = []
    zoned = None
    while some := list(islice(cells, DATES_AT_ONCE)):
        parts.append(from_dates(np.array(some)))
        zoned = zoned if zoned is not None else has_zone(some[0])
        if any(has_zone(cell) is not zoned for cell in some):
            refuse_first_bad(body, path, index, has_zone if zoned else has_no_zone)
    moments = np.concatenate(parts)
    missing = np.isnat(moments)
    since = (moments - moments[~missing].min()).astype(np.float64) / 1e6
    return np.where(missing, np.nan, since)


def from_dates(texts: NDArray[np.generic]) -> NDArray[np.datetime64]:
    """ISO dates with times. A zone counts, none is UTC."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # NumPy warns that it turns zones into UTC, which is what we want
        return texts.astype("datetime64[us]")


def numeric(text: str) -> bool:
    """True for a time in seconds: finite and not negative."""
    try:
        return 0 <= number(text) < math.inf
    except ValueError:
        return False


def number(text: str) -> float:
    """The number that NumPy reads too: Python would take `1_000` as well, and digits of any script."""
    if "_" in text or not text.isascii():
        raise ValueError(text)
    return float(text)


def a_count(text: str) -> bool:
    """True for a whole number of items; `3.0` is one."""
    try:
        return 0 <= number(text) <= LARGEST_COUNT and number(text).is_integer()
    except ValueError:
        return False


def has_zone(text: str) -> bool:
    """True for `2023-11-16 18:17:03Z` and `...+01:00`."""
    return bool(ZONE.search(text.strip()))


def has_no_zone(text: str) -> bool:
    """The contrary."""
    return not has_zone(text)


def dated(text: str) -> bool:
    """True for an ISO date with time."""
    try:
        return bool(text.strip()) and not np.isnat(from_dates(np.array([text.strip()]))).any()
    except ValueError:
        return False


WANTED: dict[Callable[[str], bool], str] = {
    a_count: f"a whole number from 0 to {LARGEST_COUNT:,}",
    dated: "a date with time like `2023-11-16 18:17:03.97`",
    has_zone: "a time with its zone, as the rows before it have",
    has_no_zone: "a time without a zone, as the rows before it are",
}


def refuse_first_bad(
    body: Body, path: Path, index: int, good: Callable[[str], bool], unit: ColumnUnit = SECONDS
) -> NoReturn:
    """Raises the error that names the first row which is not `good`."""
    reader = csv.reader(body.open())
    for row in reader:
        if not row or row[0].startswith("#"):
            continue
        cell = row[index].strip() if index < len(row) else ""
        if not good(cell):
            what = quoted(cell, 40) if cell else "nothing"
            wanted = f"{unit.name} from 0 on" if good is numeric else WANTED.get(good, "a whole number of tokens")
            place = f"{path}:{body.skipped + reader.line_num}"
            raise TraceError(f"{place}: must be {wanted}, got {what}. Mend or remove the row.")
    raise TraceError(f"{path}: cannot be read as a CSV of time stamps. Write a column `arrival_s` of seconds.")


def read_stamps(
    body: Body,
    path: Path,
    index: int,
    span: Span | None,
    *,
    are_numbers: bool | None = None,
    column: str = "",
) -> TraceTable:
    """Arrivals from a column of numbers in the unit that its name says, or of dates; which of them, the first row tells
    where `are_numbers` does not."""
    unit = unit_of(column)
    sample = next((row[index] for row in rows(body) if len(row) > index), None)
    if sample is None:
        raise TraceError(f"{path}: has a header but no arrivals.")
    if are_numbers is None:
        are_numbers = numeric(sample.strip().removeprefix("-"))  # NumPy would take -3 for a year
    try:
        stamps = numbers(body, index) * unit.seconds if are_numbers else dates(body, path, index)
    except TraceError:
        raise
    except (ValueError, IndexError):
        stamps = np.array([np.nan])
    least = 0 if are_numbers else -math.inf
    if not (np.isfinite(stamps) & (stamps >= least)).all():
        refuse_first_bad(body, path, index, numeric if are_numbers else dated, unit)
    table = from_stamps(stamps, path, span)
    if unit is SECONDS or not are_numbers:
        return table
    note = f"the column {quoted(column)} was read as {unit.name}, as its name says."
    return replace(table, notes=(note, *table.notes))


def from_stamps(stamps: Floats, path: Path, span: Span | None = None) -> TraceTable:
    """Arrivals at times in seconds since any moment, in any order. Without `span`, the first of them is the start."""
    notes: tuple[str, ...] = ()
    if late := int(np.count_nonzero(np.diff(stamps) < 0)):
        notes = (f"{late} of {stamps.size} rows were out of order; the rows were sorted.",)
        stamps = np.sort(stamps)
    times = enough(stamps - (span.start_s if span else stamps[0]), str(path))
    spans_s = span.lasts_s if span else float(times[-1])
    if stamps[0] > LONGEST_S:
        raise TraceError(f"{path}: begins at {stamps[0]:.6g} s, more than {LONGEST_S:.0e}. {IN_SECONDS}")
    if spans_s > LONGEST_S:
        raise TraceError(f"{path}: spans {spans_s:.3g} s, more than {LONGEST_S:.0e}. {IN_SECONDS}")
    if span is None:
        return TraceTable(times, spans_s * times.size / (times.size - 1), str(path), notes)
    if times[0] < -RESOLUTION_S or times[-1] > spans_s + RESOLUTION_S:
        raise TraceError(
            f"{path}: is said to be from {span.start_s:.10g} s and to last {spans_s:.10g} s, but its arrivals are "
            f"from {stamps[0]:.10g} s to {stamps[-1]:.10g} s. Mend or remove the line that says so."
        )
    return TraceTable(times.clip(0.0, spans_s), spans_s, str(path), notes)
