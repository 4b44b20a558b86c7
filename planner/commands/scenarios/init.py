"""The commands `planner init` and `planner schema`: a scenario to start from, and what one may hold."""

from pathlib import Path
from typing import Annotated

import typer

from planner import api
from planner.console.output import emit


def init(
    file: Annotated[Path, typer.Argument(metavar="[FILE]", help="Where to write it.")] = Path("scenario.yaml"),
    training: Annotated[bool, typer.Option("--training", help="Of a training, for `planner train`.")] = False,
) -> None:
    """Write a commented scenario to start from."""
    from planner.io.store import StoreError, write_text

    if file.exists():
        raise StoreError(f"{file}: exists already. Name another file.")
    write_text(api.init(training=training), file)
    emit(f"Wrote {file}. Next: planner {'train' if training else 'plan'} {file}\n")


def schema(
    training: Annotated[bool, typer.Option("--training", help="Of training scenarios, for `planner train`.")] = False,
) -> None:
    """Print the JSON Schema of scenarios, for editors."""
    import json

    emit(json.dumps(api.schema(training=training), indent=2) + "\n")
