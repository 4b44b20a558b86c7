"""The command `planner from-triton`: a scenario made of what a Triton server already serves."""

from pathlib import Path
from typing import Annotated

import typer

from planner.console.options import Profiles, Quiet


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
    from planner.console.output import emit, say
    from planner.imports.serving.from_triton import read
    from planner.imports.serving.scenario_text import check_free
    from planner.io.store import write_text
    from planner.show.terminal import terminal
    from planner.units.writing import stdout_screen

    check_free(out)
    _, library = knowledge(None, profiles)
    made = read(repository, rate or [], slo or [], library)
    write_text(made.text(), out)
    next_step = f" Next: planner plan {out}" if not made.obstacles else " It cannot be planned yet."
    emit(terminal(made.document(), stdout_screen()))
    if not quiet:
        say(f"\nWrote {out}.{next_step}")
