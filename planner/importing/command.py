"""The command `planner from-triton`: a scenario made of what a Triton server already serves."""

from pathlib import Path
from typing import Annotated

import typer


def from_triton(
    repository: Annotated[Path, typer.Argument(metavar="MODEL_REPOSITORY", help="As tritonserver gets it.")],
    out: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The scenario to write.")] = Path(
        "scenario.yaml"
    ),
    rate: Annotated[
        list[str] | None,
        typer.Option(metavar="RATE", help="How often each model is asked, or one: 'resnet50=10 rps'. Repeatable."),
    ] = None,
    slo: Annotated[
        list[str] | None,
        typer.Option(metavar="TIME", help="Latency promised by each model, or one: 'resnet50=100 ms'. Repeatable."),
    ] = None,
    profiles: Annotated[
        list[Path] | None, typer.Option(metavar="DIR", help="Your profiles, before the shipped ones. Repeatable.")
    ] = None,
) -> None:
    """Make a scenario of an existing Triton model repository."""
    from planner.cli import emit
    from planner.importing.from_triton import (
        check_free,
        profiled,
        read_repository,
        scenario_text,
        short_waits,
        summary,
        wishes,
    )
    from planner.knowledge import knowledge
    from planner.layout import stdout_screen
    from planner.store import write_text

    check_free(out)
    found = read_repository(repository)
    wished = wishes(found, rate or [], slo or [])
    short_waits(found, wished)
    _, library = knowledge(None, profiles)
    known = profiled(found, library)
    write_text(scenario_text(found, wished, known), out)
    next_step = f" Next: planner plan {out}" if all(known.values()) else " It cannot be planned yet."
    emit(f"{summary(found, wished, known, stdout_screen())}\nWrote {out}.{next_step}\n")
