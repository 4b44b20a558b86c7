"""The command `planner diff`: two answers side by side."""

from pathlib import Path
from typing import Annotated

import typer

from planner.api import answering
from planner.console.options import FormNoCsv
from planner.console.output import ExitCode, emit, note
from planner.units.writing import Format, stdout_screen


def diff(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="A plan.json, or what --format json wrote.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="Another of the same kind.")],
    form: FormNoCsv = Format.TABLE,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CONDITION",
            help="Exit 4 where it holds, e.g. 'cost>+5%', 'p99>+10 ms', 'attainment<-0.1%', infeasible. Repeatable.",
        ),
    ] = None,
) -> None:
    """Say what differs between two answers by more than chance."""
    from planner.compare.diff import crossed
    from planner.compare.gate import parse_change
    from planner.compare.report import render

    conditions = [parse_change(text) for text in fail_on or []]
    changes = answering.diff(old, new)
    emit(render(changes, form, stdout_screen()))
    over = crossed(changes, conditions)
    for line in over:
        note(line)
    raise typer.Exit(ExitCode.THRESHOLD if over else ExitCode.FEASIBLE)
