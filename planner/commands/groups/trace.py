"""The commands `planner trace`: recorded arrivals."""

from pathlib import Path
from typing import Annotated

import typer

from planner.api import starting
from planner.console.options import Quiet
from planner.console.output import PLAIN, emit, note, quantity, say
from planner.units.writing import stdout_screen

app = typer.Typer(help="Recorded arrivals.", **PLAIN)
TraceFile = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="CSV, Azure 2023 or 2019, BurstGPT or Mooncake."),
]
TraceColumn = Annotated[str | None, typer.Option(metavar="NAME", help="Column of the time stamps.")]
TraceFunction = Annotated[
    str, typer.Option(metavar="HASH|N", help="Azure Functions: one function, or the N busiest together.")
]


@app.command("describe")
def trace_describe(file: TraceFile, column: TraceColumn = None, function: TraceFunction = "1") -> None:
    """Count, rate and burstiness of a recording."""
    from planner.show.text.listings.traces import trace_summary

    emit(trace_summary(file.name, starting.trace_describe(file, column, which(function)), stdout_screen()))


@app.command("import")
def trace_import(
    file: TraceFile,
    out: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The CSV to write.")] = Path("trace.csv"),
    column: TraceColumn = None,
    function: TraceFunction = "1",
    rate: Annotated[
        str | None, typer.Option(metavar="RATE", help="Scale time to this mean rate, e.g. '20 rps'.")
    ] = None,
    duration: Annotated[
        str | None, typer.Option(metavar="TIME", help="Keep only so much of it, e.g. '10 min'.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Turn a recording into a CSV that a scenario can name."""
    from planner.units.reading import duration as seconds
    from planner.units.reading import rate as per_second

    if out.suffix.lower() != ".csv":
        raise typer.BadParameter(f"-o {out}: must end in .csv. Name such a file.")
    rate_rps = None if rate is None else quantity("--rate", per_second, rate)
    duration_s = None if duration is None else quantity("--duration", seconds, duration)
    table = starting.trace_import(file, out, rate_rps, duration_s, which(function), column)
    if quiet:
        return
    for text in table.notes:
        note(f"{file}: {text}")
    say(f"Wrote {table.times_s.size:,} arrivals at {table.rate_rps:.3g}/s to {out}. Use it: trace: {{file: {out}}}")


def which(function: str) -> str | int:
    """A function's hash, or how many of the busiest."""
    return int(function) if function.isdecimal() and len(function) < 9 else function
