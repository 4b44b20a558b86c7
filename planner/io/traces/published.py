"""Forms in which recordings are published: BurstGPT (CSV, seconds), Mooncake (JSON lines, milliseconds) and Azure
Functions 2019 (CSV, counts a minute)."""

import json
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrate.io.files import printable, quoted
from planner.io.traces.columns import Body, Span, from_stamps, numbers, read_stamps, refuse_first_bad
from planner.io.traces.table import LONGEST_S, MOST_ARRIVALS, Floats, TraceError, TraceTable, enough

FUNCTIONS_HEADER = ["HashOwner", "HashApp", "HashFunction", "Trigger"]
BURST_COLUMNS = frozenset({"Timestamp", "Model", "Request tokens", "Response tokens", "Total tokens", "Log Type"})
"""Columns of BurstGPT, github.com/HPMLL/BurstGPT; its release 2.0 has `Session ID` and `Elapsed time` besides."""
MOONCAKE_KEYS = ("timestamp", "input_length", "output_length")
"""Keys of Mooncake, github.com/kvcache-ai/Mooncake, FAST25-release; `hash_ids` beside them says nothing of time."""


def read_burst(body: Body, path: Path, header: list[str], span: Span | None) -> TraceTable:
    """Arrivals of BurstGPT: seconds since midnight of the first day. A request that failed has no response tokens."""
    table = read_stamps(body, path, header.index("Timestamp"), span, are_numbers=True)
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
