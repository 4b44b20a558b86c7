"""Recorded arrivals: plain CSV with time stamps, and the forms in which public recordings of requests are published.

Azure LLM inference 2023 (CSV, dates), Azure Functions 2019 (CSV, counts a minute), BurstGPT (CSV, seconds) and Mooncake
(JSON lines, milliseconds). Each may be packed by gzip.
"""

import csv
import io
import json
import math
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple, NoReturn, TextIO

import numpy as np
from numpy.typing import NDArray

from calibrate.io.files import (
    MADE,
    FileError,
    demand_ours,
    printable,
    quoted,
    read_bytes,
    replacing_named,
    unwritable,
)
from planner.units.reading import did_you_mean, duration
from simulator.errors import InputError

TIME_COLUMNS = ("arrival_s", "timestamp", "time", "arrival", "arrival_time", "time_s", "timestamp_s", "ts", "datetime")
"""Names that a column of time stamps usually has, whatever the case; the first that is there counts."""
LONGEST_S = 1e10
"""Longest recording, 300 years: beyond it, times are not in seconds."""
DIGITS = 6
"""After the point of times that are written: microseconds."""
RESOLUTION_S = 10.0**-DIGITS
FUNCTIONS_HEADER = ["HashOwner", "HashApp", "HashFunction", "Trigger"]
BURST_COLUMNS = frozenset({"Timestamp", "Model", "Request tokens", "Response tokens", "Total tokens", "Log Type"})
"""Columns of BurstGPT, github.com/HPMLL/BurstGPT; its release 2.0 has `Session ID` and `Elapsed time` besides."""
MOONCAKE_KEYS = ("timestamp", "input_length", "output_length")
"""Keys of Mooncake, github.com/kvcache-ai/Mooncake, FAST25-release; `hash_ids` beside them says nothing of time."""
SPAN = re.compile(r"#\s*from\s+(\d.*?)\s*,\s*lasts\s+(.*?)\s*", re.IGNORECASE)
"""Comment above the header of a CSV, e.g. `# from 0 s, lasts 240 s`."""
MOST_ARRIVALS = 15_000_000
"""Most arrivals of one recording: BurstGPT has ten million."""
MOST_COUNTS, LARGEST_COUNT = 100_000, 10_000
"""Of a column of counts: three hours of a camera at 10 fps."""
LONGEST_LINE = 1_000_000
DATES_AT_ONCE = 100_000
LONGEST_DATE, NO_DATE = 45, "none"
"""Characters that a date may have; of longer texts none is one."""
LONGEST_COMMENT = 200
"""That may say from when and how long."""
COLUMN = re.compile(r"[A-Za-z][\w .()/%-]{0,40}")
"""The form of a column's name."""
NEARLY = re.compile(r"#\s*(from\b.*\b)?lasts?\s+[\d.+-]", re.IGNORECASE)
"""Comment that surely means the same, and is written otherwise."""
Floats = NDArray[np.float64]


class TraceError(InputError):
    """A recording that cannot be used, in one line that names the file, the place and the remedy."""


@dataclass(frozen=True, slots=True)
class TraceTable:
    """Recorded arrivals."""

    times_s: Floats = field(compare=False)
    """Sorted, seconds from the start of the recording."""
    period_s: float
    """Length of the recording, silent ends included; where it is not known, until the last arrival and one mean gap
    more, so that it can be repeated."""
    source: str
    """The file that was read."""
    notes: tuple[str, ...] = ()
    """Changes that reading made, in sentences."""

    @property
    def rate_rps(self) -> float:
        """Mean rate: arrivals by length."""
        return self.times_s.size / self.period_s

    def at_rate(self, rate_rps: float) -> "TraceTable":
        """The same arrivals with time stretched or shrunk until the mean rate is `rate_rps`."""
        factor = self.rate_rps / rate_rps
        return replace(self, times_s=self.times_s * factor, period_s=self.period_s * factor)

    def first(self, duration_s: float) -> "TraceTable":
        """Only the first `duration_s` seconds."""
        if not duration_s > 0:
            raise TraceError(f"{self.source}: a duration must be above 0 s, got {duration_s:g} s.")
        if duration_s > self.period_s + RESOLUTION_S:
            raise TraceError(f"{self.source}: lasts {self.period_s:.6g} s, not {duration_s:g} s. Ask for less.")
        kept = self.times_s[self.times_s < duration_s]
        return replace(self, times_s=enough(kept, self.source), period_s=duration_s)


@dataclass(frozen=True, slots=True)
class Span:
    """From when on and how long was recorded, as a comment in the file says."""

    start_s: float
    lasts_s: float


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of time and what arrived in it."""

    start_s: float
    length_s: float
    count: int


@dataclass(frozen=True, slots=True)
class TraceSummary:
    """Figures of a recording."""

    count: int
    duration_s: float
    mean_rate_rps: float
    gap_cv: float
    """Coefficient of variation of the gaps between arrivals; 1 is Poisson, more is bursty."""
    peak_to_mean_1s: float
    """Busiest second by the mean second."""
    peak_to_mean_1min: float
    """Busiest minute by the mean minute; of a shorter recording, 1."""
    busiest: tuple[Window, ...]
    """The three busiest seconds, then the three busiest minutes, as far as the recording has such."""


def read_trace(path: Path, column: str | None = None, function: str | int = 1) -> TraceTable:
    """Arrivals recorded in a file.

    Plain CSV: a column of seconds or of ISO dates with times, found by its usual names or named by `column`. Times
    count from the first arrival; rows out of order are sorted. Lines that start with `#` are comments. One like
    `# from 0 s, lasts 240 s` above the header keeps what was silent before the first arrival and after the last.

    Azure Functions 2019 (counts a minute): `function` is the hash of one function, or how many of the busiest are
    merged; the k calls of a minute are spread evenly over it, at (i + 1/2) / k.

    BurstGPT: plain CSV whose token counts must be whole numbers. Mooncake: one JSON object a line.
    """
    raw = whole(path, MOST_ARRIVALS, "time stamps")
    with csv_faults(path, "Write a column `arrival_s` of seconds."):
        header, start, span = read_header(Body(raw).open(), path)
        body = Body(raw, start)
        if header[0].startswith("{"):
            return read_mooncake(Body(raw), path, column)
        if header[:4] == FUNCTIONS_HEADER:
            return read_functions(body, path, function)
        index = time_column(header, column, path)
        if header[index] == "Timestamp" and set(header) >= BURST_COLUMNS:
            return read_burst(body, path, header, span)
        return read_stamps(body, path, index, span)


def read_counts(path: Path, column: str) -> tuple[int, ...]:
    """A column of counts in a CSV file, row by row: the cars in each frame."""
    raw = whole(path, MOST_COUNTS, "counts")
    with csv_faults(path, "Write a column of counts."):
        header, start, _ = read_header(Body(raw).open(), path)
        index, body = column_named(header, column, path), Body(raw, start)
        cells = [row[index] if index < len(row) else "" for row in rows(body)]
        if not all(map(a_count, cells)):
            refuse_first_bad(body, path, index, a_count)
    counts = tuple(int(float(cell)) for cell in cells)
    if not any(counts):
        raise TraceError(f"{path}: column {quoted(column)} must hold one count above 0. Give some.")
    return counts


def whole(path: Path, rows_max: int, of: str) -> bytes:
    """All that is in a recording; TraceError where that is too much."""
    try:
        raw = read_bytes(path)
    except FileError as error:
        raise TraceError(f"{path}: {error}. Name a whole CSV file with {of}.") from None
    if max(raw.count(b"\n"), raw.count(b"\r")) > rows_max:
        raise TraceError(f"{path}: holds more than {rows_max:,} rows. Cut it into parts.")
    return raw


@contextmanager
def csv_faults(path: Path, remedy: str) -> Iterator[None]:
    """Turns what is wrong with the form of a file into a TraceError."""
    try:
        yield
    except UnicodeDecodeError:
        raise TraceError(f"{path}: is not UTF-8 text. Save the file as UTF-8.") from None
    except csv.Error as error:
        raise TraceError(f"{path}: is not CSV: {error}. {remedy}") from None


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
            return [name.strip() for name in next(csv.reader([text]))], number, span
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
    raise TraceError(
        f"{path}: has no column of time stamps: {columns_shown(header)} is called {', '.join(TIME_COLUMNS)}. "
        "Name it with `column`, on the command line with --column."
    )


def column_named(header: list[str], column: str, path: Path) -> int:
    """Index of a column."""
    if column in header:
        return header.index(column)
    hint = did_you_mean(column, header)
    known = f" Known: {', '.join(header)[:200]}." if all(map(COLUMN.fullmatch, header)) else ""
    raise TraceError(f"{path}: has no column {quoted(column)}.{hint}{known}")


def columns_shown(header: list[str]) -> str:
    """`none of a, b`; nothing of a first line that is no header, for it may be of a private file."""
    is_header = len(header) > 1 and all(COLUMN.fullmatch(name) for name in header)
    return f"none of {', '.join(header)[:200]}" if is_header else "nothing in its first line"


def read_stamps(body: Body, path: Path, index: int, span: Span | None, seconds: bool | None = None) -> TraceTable:
    """Arrivals from a column of seconds or of dates; which of them, the first row tells where `seconds` does not."""
    sample = next((row[index] for row in rows(body) if len(row) > index), None)
    if sample is None:
        raise TraceError(f"{path}: has a header but no arrivals.")
    if seconds is None:
        seconds = numeric(sample)
    try:
        stamps = numbers(body, index) if seconds else dates(body, index)
    except (ValueError, IndexError):
        stamps = np.array([np.nan])
    least = 0 if seconds else -math.inf
    if not (np.isfinite(stamps) & (stamps >= least)).all():
        refuse_first_bad(body, path, index, numeric if seconds else dated)
    return from_stamps(stamps, path, span)


def from_stamps(stamps: Floats, path: Path, span: Span | None = None) -> TraceTable:
    """Arrivals at times in seconds since any moment, in any order. Without `span`, the first of them is the start."""
    notes: tuple[str, ...] = ()
    if late := int(np.count_nonzero(np.diff(stamps) < 0)):
        notes = (f"{late} of {stamps.size} rows were out of order; the rows were sorted.",)
        stamps = np.sort(stamps)
    times = enough(stamps - (span.start_s if span else stamps[0]), str(path))
    spans_s = span.lasts_s if span else float(times[-1])
    if stamps[0] > LONGEST_S:
        raise TraceError(f"{path}: begins at {stamps[0]:.6g} s, more than {LONGEST_S:.0e}. Write times in seconds.")
    if spans_s > LONGEST_S:
        raise TraceError(f"{path}: spans {spans_s:.3g} s, more than {LONGEST_S:.0e}. Write times in seconds.")
    if span is None:
        return TraceTable(times, spans_s * times.size / (times.size - 1), str(path), notes)
    if times[0] < -RESOLUTION_S or times[-1] > spans_s + RESOLUTION_S:
        raise TraceError(
            f"{path}: is said to be from {span.start_s:.10g} s and to last {spans_s:.10g} s, but its arrivals are "
            f"from {stamps[0]:.10g} s to {stamps[-1]:.10g} s. Mend or remove the line that says so."
        )
    return TraceTable(times.clip(0.0, spans_s), spans_s, str(path), notes)


def read_burst(body: Body, path: Path, header: list[str], span: Span | None) -> TraceTable:
    """Arrivals of BurstGPT: seconds since midnight of the first day. A request that failed has no response tokens."""
    table = read_stamps(body, path, header.index("Timestamp"), span, seconds=True)
    columns = (header.index(name) for name in ("Request tokens", "Total tokens", "Response tokens"))
    *_, answered = (whole_numbers(body, path, index) for index in columns)
    if not (failed := int(np.count_nonzero(answered == 0))):
        return table
    note = f"BurstGPT: {failed} of {answered.size} requests got no response tokens; they arrived, so they count."
    return replace(table, notes=(*table.notes, note))


def whole_numbers(body: Body, path: Path, index: int) -> Floats:
    """A column of counts."""
    try:
        counts = numbers(body, index)
        if np.array_equal(counts, np.abs(np.floor(counts))):
            return counts
    except (ValueError, IndexError):
        pass
    refuse_first_bad(body, path, index, str.isdecimal)


def read_mooncake(body: Body, path: Path, column: str | None) -> TraceTable:
    """Arrivals of Mooncake: one JSON object a line, with `timestamp` in milliseconds."""
    if column is not None:
        raise TraceError(f"{path}: holds JSON lines, which have no column {quoted(column)}. Leave the column out.")
    stamps = (mooncake_stamp(text, f"{path}:{number}") for number, text in body.lines(path) if text.strip())
    return from_stamps(np.fromiter(stamps, dtype=float), path)


def mooncake_stamp(text: str, place: str) -> float:
    """Time in seconds of one request."""
    try:
        request = json.loads(text)
    except (ValueError, RecursionError):
        request = None
    if not isinstance(request, dict):
        raise TraceError(
            f"{place}: must be one JSON object on one line, got {quoted(text.strip(), 40)}. Mend the line."
        )
    for key in MOONCAKE_KEYS:
        got = request.get(key)
        if isinstance(got, bool) or not isinstance(got, int | float) or not 0 <= got <= LONGEST_S * 1e3:
            what = "milliseconds from 0 on" if key == "timestamp" else "a number of tokens"
            got_instead = f"got {quoted(json.dumps(got), 40)}" if key in request else "but is missing"
            raise TraceError(f"{place}: `{key}` must be {what}, {got_instead}. Mend or remove the line.")
    return float(request["timestamp"]) / 1e3


def enough(times: Floats, source: str) -> Floats:
    """`times`, sorted, of which there must be two that differ."""
    if times.size < 2:
        raise TraceError(f"{source}: holds {times.size} arrival{'s' * (times.size != 1)}. A rate needs at least two.")
    if times[0] == times[-1]:
        raise TraceError(f"{source}: all {times.size} arrivals have the same time. A rate needs time to pass.")
    return times


def rows(body: Body) -> Iterator[list[str]]:
    """Rows of a CSV text that are neither empty nor comments."""
    return (row for row in csv.reader(body.open()) if row and not row[0].startswith("#"))


def numbers(body: Body, index: int) -> Floats:
    """One column as numbers; NumPy's own reader, so that millions of rows take a second or two."""
    return np.loadtxt(body.open(), delimiter=",", quotechar='"', usecols=index, ndmin=1)


def dates(body: Body, index: int) -> Floats:
    """One column of ISO dates with times as seconds since the earliest; NaN where there is none."""
    cells = (row[index].strip() for row in rows(body))
    cells = (cell if len(cell) <= LONGEST_DATE else NO_DATE for cell in cells)
    parts = []
    while some := list(islice(cells, DATES_AT_ONCE)):
        parts.append(from_dates(np.array(some)))
    return since_first(np.concatenate(parts))


def from_dates(texts: NDArray[np.generic]) -> NDArray[np.datetime64]:
    """ISO dates with times. A zone counts, none is UTC."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # NumPy warns that it turns zones into UTC, which is what we want
        return texts.astype("datetime64[us]")


def since_first(moments: NDArray[np.datetime64]) -> Floats:
    """Seconds since the earliest; NaN where there is none."""
    missing = np.isnat(moments)
    since = (moments - moments[~missing].min()).astype(np.float64) / 1e6
    return np.where(missing, np.nan, since)


def numeric(text: str) -> bool:
    """True for a time in seconds: finite and not negative."""
    try:
        return 0 <= float(text) < math.inf
    except ValueError:
        return False


def a_count(text: str) -> bool:
    """True for a whole number of items; `3.0` is one."""
    try:
        return 0 <= float(text) <= LARGEST_COUNT and float(text).is_integer()
    except ValueError:
        return False


def dated(text: str) -> bool:
    """True for an ISO date with time."""
    try:
        return bool(text.strip()) and not np.isnat(from_dates(np.array([text.strip()]))).any()
    except ValueError:
        return False


WANTED: dict[Callable[[str], bool], str] = {
    numeric: "seconds from 0 on",
    a_count: f"a whole number from 0 to {LARGEST_COUNT:,}",
    dated: "a date with time like `2023-11-16 18:17:03.97`",
}


def refuse_first_bad(body: Body, path: Path, index: int, good: Callable[[str], bool]) -> NoReturn:
    """Raises the error that names the first row which is not `good`."""
    reader = csv.reader(body.open())
    for row in reader:
        if not row or row[0].startswith("#"):
            continue
        cell = row[index].strip() if index < len(row) else ""
        if not good(cell):
            what = quoted(cell, 40) if cell else "nothing"
            wanted = WANTED.get(good, "a whole number of tokens")
            place = f"{path}:{body.skipped + reader.line_num}"
            raise TraceError(f"{place}: must be {wanted}, got {what}. Mend or remove the row.")
    raise TraceError(f"{path}: cannot be read as a CSV of time stamps. Write a column `arrival_s` of seconds.")


def read_functions(body: Body, path: Path, function: str | int) -> TraceTable:
    """Arrivals of functions from counts a minute."""
    taken = functions_of(body, path, function)
    if not taken:
        what = f"no function {quoted(function)}" if isinstance(function, str) else "no functions"
        raise TraceError(f"{path}: has {what}. Give a value of the column HashFunction, or how many of the busiest.")
    total = np.zeros(taken[0].counts.size, dtype=np.int64)
    for one in taken:
        total += one.counts
    if (count := int(total.sum())) > MOST_ARRIVALS:
        raise TraceError(f"{path}: counts {count:,} calls, more than {MOST_ARRIVALS:,}. Take fewer functions.")
    busiest = sorted(taken, key=lambda one: -one.calls)[:5]
    named = ", ".join(printable(one.name[:12]) for one in busiest)
    note = f"counts a minute of {len(taken)} function(s) ({named}); the calls of a minute are spread evenly over it."
    return TraceTable(enough(spread(total), str(path)), 60.0 * total.size, str(path), (note,))


class Function(NamedTuple):
    """A function of a recording."""

    calls: int
    name: str
    counts: NDArray[np.int32]
    """Calls in each minute."""


def functions_of(body: Body, path: Path, function: str | int) -> list[Function]:
    """All rows of one function, or of so many functions the busiest."""
    taken: list[Function] = []
    minutes = None
    for number, text in body.lines(path):
        cells = text.rstrip("\r\n").split(",", 4)
        if len(cells) < 5 or (isinstance(function, str) and cells[2] != function):
            continue
        counts = minute_counts(cells[4], path, number)
        minutes = minutes or counts.size
        if counts.size != minutes:
            wrong = f"has counts of {counts.size} minutes, the rows before it of {minutes}"
            raise TraceError(f"{path}:{number}: {wrong}. Mend or remove the row.")
        taken.append(Function(int(counts.sum(dtype=np.int64)), cells[2], counts))
        if isinstance(function, int) and len(taken) > function:
            del taken[min(range(len(taken)), key=lambda i: taken[i].calls)]
    return taken


def minute_counts(text: str, path: Path, number: int) -> NDArray[np.int32]:
    """Calls in each minute."""
    try:
        counts = np.array(text.split(","), dtype=np.int64)
    except (ValueError, OverflowError):
        counts = np.array([-1])
    if counts.min() < 0 or counts.max() > MOST_ARRIVALS:
        wanted = f"must be whole numbers from 0 to {MOST_ARRIVALS:,}"
        raise TraceError(f"{path}:{number}: counts a minute {wanted}. Mend or remove the row.")
    return counts.astype(np.int32)


def spread(counts: NDArray[np.int64]) -> Floats:
    """Times of so many calls in each minute, evenly spread: 2 calls in the first minute come at 15 s and 45 s."""
    minute = np.repeat(np.arange(counts.size), counts)
    before = np.cumsum(counts) - counts
    rank = np.arange(minute.size) - before[minute]
    return np.asarray(60.0 * (minute + (rank + 0.5) / counts[minute]))


def describe(table: TraceTable) -> TraceSummary:
    """Count, rate and burstiness of a recording."""
    gaps = np.diff(table.times_s)
    return TraceSummary(
        count=table.times_s.size,
        duration_s=table.period_s,
        mean_rate_rps=table.rate_rps,
        gap_cv=float(gaps.std() / gaps.mean()),
        peak_to_mean_1s=peak_to_mean(table, 1.0),
        peak_to_mean_1min=peak_to_mean(table, 60.0),
        busiest=(*busiest(table, 1.0), *busiest(table, 60.0)),
    )


def per_window(table: TraceTable, length_s: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Numbers of those whole windows of the recording in which anything arrived, and how many arrived in each."""
    number, count = np.unique((table.times_s / length_s).astype(np.int64), return_counts=True)
    whole = number < int(table.period_s // length_s)
    return number[whole], count[whole].astype(np.int64)


def peak_to_mean(table: TraceTable, length_s: float) -> float:
    """The busiest whole window by the mean one; 1 where no whole window fits."""
    _, count = per_window(table, length_s)
    return float(count.max() / (length_s * table.rate_rps)) if count.size else 1.0


def busiest(table: TraceTable, length_s: float, most: int = 3) -> Iterator[Window]:
    """The whole windows with most arrivals, busiest first; none where the recording is shorter than one."""
    number, count = per_window(table, length_s)
    order = np.argsort(-count, kind="stable")
    return (Window(float(number[i]) * length_s, length_s, int(count[i])) for i in islice(order, most))


def rescaled(table: TraceTable, rate_rps: float) -> TraceTable:
    """The recording at another mean rate; TraceError where its times, in microseconds, could not be told apart."""
    place = f"{table.source}: cannot be scaled to {rate_rps:g} a second"
    if not rate_rps > 0:
        raise TraceError(f"{place}: a rate must be above 0.")
    if rate_rps > 1 / RESOLUTION_S:
        raise TraceError(f"{place}: times are kept in microseconds. Ask for {1 / RESOLUTION_S:,.0f} at most.")
    if table.times_s.size > rate_rps * LONGEST_S:
        least = table.times_s.size / LONGEST_S
        raise TraceError(f"{place}: it would last more than {LONGEST_S:.0e} s. Ask for {least:.2g} at least.")
    return table.at_rate(rate_rps)


def rounded(table: TraceTable) -> TraceTable:
    """The recording as a file in microseconds holds it."""
    times = enough(np.round(table.times_s, DIGITS), table.source)
    return replace(table, times_s=times, period_s=round(table.period_s, DIGITS))


def import_trace(
    source: Path,
    target: Path,
    rate_rps: float | None = None,
    duration_s: float | None = None,
    function: str | int = 1,
    column: str | None = None,
) -> TraceTable:
    """Writes a recording as plain CSV with the column `arrival_s`, scaled to a mean rate and then cut to a length.

    What is returned is what the file gives when it is read again.
    """
    if target.exists() and source.exists() and target.samefile(source):
        raise TraceError(f"{target}: is the recording itself. Name another file with -o.")
    try:
        demand_ours(target, "recording")
    except FileError as error:
        raise TraceError(f"{target}: {error}. Name another file with -o, or remove this one.") from None
    table = read_trace(source, column, function)
    if rate_rps is not None:
        table = rescaled(table, rate_rps)
    if duration_s is not None:
        table = table.first(duration_s)
    table = rounded(table)
    lasts = np.format_float_positional(table.period_s, trim="-")
    said = f"# {table.times_s.size} arrivals from {printable(source.name)}, {MADE}"
    lines = [said, f"# from 0 s, lasts {lasts} s", "arrival_s"]
    lines.extend(f"{time_s:.{DIGITS}f}" for time_s in table.times_s.tolist())
    try:
        with replacing_named(target) as file:
            file.writelines(f"{line}\n".encode() for line in lines)
    except OSError as error:
        raise TraceError(
            f"{target}: cannot be written: {unwritable(target, error)}. Name a file in a folder you own."
        ) from None
    return table
