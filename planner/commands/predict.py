"""The command `planner predict`: times of many models on many GPUs, each with its band and what it rests on."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from planner import api
from planner.console.options import Catalogs
from planner.console.shipped import shipped


class Form(StrEnum):
    """How the answers are written."""

    CSV = "csv"
    JSON = "json"


def predict(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", callback=shipped, help="CSV with columns gpu, model, input, precision, runtime, batch."
        ),
    ],
    form: Annotated[Form, typer.Option("--format", help="csv or json.")] = Form.CSV,
    catalog: Catalogs = None,
) -> None:
    """Say how long batches take that nobody may have measured: seconds with 80 % bands, row by row, in order.

    An empty cell means the usual: the model's usual input, fp32, pytorch, a batch of 1. Names may be written as
    published tables write them. What cannot be predicted has no figures and a reason.
    """
    from planner.console.output import emit
    from planner.show.spreadsheet import answers_csv, answers_json

    answers = api.predict(file, catalog=catalog or ())
    emit(answers_csv(answers) if form is Form.CSV else answers_json(answers))
