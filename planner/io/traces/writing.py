"""Writing: a recording as plain CSV, scaled to a rate and cut to a length."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from calibrate.io.files import MADE, demand_ours, named, printable, replacing_named
from planner.io.traces.reading import read_trace
from planner.io.traces.table import DIGITS, LONGEST_S, RESOLUTION_S, TraceError, TraceTable, enough


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
    with named(target, "Name another file with -o, or remove this one", TraceError):
        demand_ours(target, "recording")
    table = read_trace(source, column, function)
    if rate_rps is not None:
        table = rescaled(table, rate_rps)
    if duration_s is not None:
        table = table.first(duration_s)
    table = rounded(table)
    lasts = np.format_float_positional(table.period_s, trim="-")
    heading = f"# {table.times_s.size} arrivals from {printable(source.name)}, {MADE}"
    lines = [heading, f"# from 0 s, lasts {lasts} s", "arrival_s"]
    lines.extend(f"{time_s:.{DIGITS}f}" for time_s in table.times_s.tolist())
    with replacing_named(target, "Name a file in a folder you own", TraceError) as file:
        file.writelines(f"{line}\n".encode() for line in lines)
    return table
