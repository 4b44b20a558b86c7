"""The command `planner predict`: times of many models on many GPUs, each with its band and what it rests on."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from planner.api import modelling
from planner.console.options import Catalogs, Profiles, Quiet, shipped_path
from planner.console.output import ExitCode, emit, note, progress
from planner.units.writing import stdout_screen


class Form(StrEnum):
    """How the answers are written."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


def predict(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", callback=shipped_path, help="CSV with columns gpu, model, input, precision, runtime, batch."
        ),
    ],
    form: Annotated[
        Form | None, typer.Option("--format", help="Where not given, a table on a terminal and csv elsewhere.")
    ] = None,
    catalog: Catalogs = None,
    profiles: Profiles = None,
    quiet: Quiet = False,
) -> None:
    """Say how long batches take that nobody may have measured.

    Seconds with 80 % bands, row by row, in order.

    An empty cell means the usual: the model's usual input, fp32, pytorch, a batch of 1. Names may be written as
    published tables write them. What cannot be predicted has no figures and a reason; exit code 2 where nothing can.
    """
    from planner.prediction.columns import COLUMNS
    from planner.prediction.queries import read_queries
    from planner.show.spreadsheet import answers_csv, answers_json
    from planner.show.text.listings.predictions import predictions_table

    with progress(quiet) as tell:
        answers = modelling.predict(file, catalog=catalog, profiles=profiles, progress=tell)
    written = {
        Form.TABLE: lambda: predictions_table(read_queries(file), answers, stdout_screen()),
        Form.CSV: lambda: answers_csv(answers),
        Form.JSON: lambda: answers_json(answers),
    }
    form = form or (Form.TABLE if sys.stdout.isatty() else Form.CSV)
    emit(written[form]())
    ignored = [f"`{name}`" for name in next(iter(read_queries(file)), {}) if name and name not in COLUMNS]
    if ignored and not quiet:
        note(f"{file}: ignored, as no column that a prediction depends on: {', '.join(ignored)}.")
    without = [answer for answer in answers if answer.latency_s is None]
    if without and not quiet and form is not Form.TABLE:  # which says so itself
        first = f"Row {answers.index(without[0]) + 1}: {without[0].reason}"
        note(f"{file}: {len(without)} of {len(answers)} rows have no figures: `reason` says why. {first}")
    if not answers:
        note(f"{file}: has no rows below its first line. Write one for each batch that you ask about.")
    if len(without) == len(answers):
        raise typer.Exit(ExitCode.INPUT)
