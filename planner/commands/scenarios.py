"""Commands that make a scenario, or say what one may hold: `init`, `schema` and `from-triton`."""

from pathlib import Path
from typing import Annotated

import typer

from planner.api import starting
from planner.console.options import Profiles, Quiet
from planner.console.output import emit, say
from planner.units.writing import stdout_screen


def init(
    file: Annotated[Path, typer.Argument(metavar="[FILE]", help="Where to write it.")] = Path("scenario.yaml"),
    training: Annotated[bool, typer.Option("--training", help="Of a training, for `planner train`.")] = False,
    source: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="OTHER",
            help="Of what is served now: the file by which another tool serves.",
        ),
    ] = None,
    profiles: Profiles = None,
    quiet: Quiet = False,
) -> None:
    """Write a commented scenario to start from."""
    from planner.io.store import StoreError, write_text

    if file.exists():
        raise StoreError(f"{file}: exists already. Name another file.")
    if source is None:
        write_text(starting.init(training=training), file, option="")
        if not quiet:
            emit(f"Wrote {file}. Next: planner {'train' if training else 'plan'} {file}\n")
        return
    if training:
        raise typer.BadParameter("--training: goes without --from, whose files say nothing of training.")
    emit(imported(source, file, profiles))
    if not quiet:
        emit(f"\nWrote {file}. Fill in what is missing, then: planner plan {file}\n")


def imported(source: Path, file: Path, profiles: list[Path] | None) -> str:
    """What a file of another tool says, written as a scenario."""
    from planner.catalog.knowledge import knowledge
    from planner.imports.serving.formats import read
    from planner.imports.serving.scenario_text import Import
    from planner.io.store import write_text
    from planner.show.terminal import terminal

    made = Import(read(source), knowledge(None, profiles)[1])
    write_text(made.text(), file, option="")
    return terminal(made.document(), stdout_screen())


def schema(
    training: Annotated[bool, typer.Option("--training", help="Of training scenarios, for `planner train`.")] = False,
) -> None:
    """Print the JSON Schema of scenarios, for editors."""
    import json

    emit(json.dumps(starting.schema(training=training), indent=2) + "\n")


def from_triton(
    repository: Annotated[Path, typer.Argument(metavar="MODEL_REPOSITORY", help="As tritonserver gets it.")],
    out: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The scenario to write.")] = Path(
        "scenario.yaml"
    ),
    rate: Annotated[
        list[str] | None,
        typer.Option(metavar="RATE", help="Requests of each model, or of one: 'resnet50=10 rps'. Repeatable."),
    ] = None,
    slo: Annotated[
        list[str] | None,
        typer.Option(metavar="TIME", help="Longest latency of each model, or of one: 'resnet50=100 ms'. Repeatable."),
    ] = None,
    profiles: Profiles = None,
    quiet: Quiet = False,
) -> None:
    """Make a scenario of an existing Triton model repository."""
    from planner.catalog.knowledge import knowledge
    from planner.imports.serving.from_triton import read
    from planner.imports.serving.scenario_text import check_free
    from planner.io.store import write_text
    from planner.show.terminal import terminal

    check_free(out)
    _, library = knowledge(None, profiles)
    made = read(repository, rate or [], slo or [], library)
    write_text(made.text(), out)
    next_step = f" Next: planner plan {out}" if not made.obstacles else " It cannot be planned yet."
    emit(terminal(made.document(), stdout_screen()))
    if not quiet:
        say(f"\nWrote {out}.{next_step}")
