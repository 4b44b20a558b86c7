"""Reading: plain CSV with time stamps, as of Azure LLM inference 2023, or a published form; any packed by gzip too."""

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from calibrate.io.files import named, quoted, read_bytes
from planner.io.traces.columns import (
    MOST_COUNTS,
    Body,
    a_count,
    column_named,
    demand_arrivals,
    demand_header,
    read_header,
    read_stamps,
    refuse_first_bad,
    rows,
    time_column,
)
from planner.io.traces.published import BURST_COLUMNS, FUNCTIONS_HEADER, read_burst, read_functions, read_mooncake
from planner.io.traces.table import MOST_ARRIVALS, TraceError, TraceTable


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
        demand_header(header, column, path, "arrival_s")
        index = time_column(header, column, path)
        if header[index] == "Timestamp" and set(header) >= BURST_COLUMNS:
            return read_burst(body, path, header, span)
        if column is None:
            demand_arrivals(header, index, body, path)
        return read_stamps(body, path, index, span, column=header[index])


def read_counts(path: Path, column: str) -> tuple[int, ...]:
    """A column of counts in a CSV file, row by row: the cars in each frame."""
    raw = whole(path, MOST_COUNTS, "counts")
    with csv_faults(path, "Write a column of counts."):
        header, start, _ = read_header(Body(raw).open(), path)
        demand_header(header, column, path, "cars")
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
    with named(path, f"Name a whole CSV file with {of}", TraceError):
        raw = read_bytes(path)
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
