"""The commands `planner diff` and `planner reprice`: two answers side by side, and one at other prices."""

from pathlib import Path
from typing import Annotated

import typer

from planner.layout import Format

Compared = Annotated[Format, typer.Option("--format", help="table, json or md.")]


def diff(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="A plan.json, or what --format json wrote.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="Another of the same kind.")],
    form: Compared = Format.TABLE,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CONDITION",
            help="Exit 4 where it holds, e.g. 'cost>+5%', 'p99>+10 ms', 'attainment<-0.1%', infeasible. Repeatable.",
        ),
    ] = None,
) -> None:
    """Say what differs between two answers, and which figures by more than chance."""
    from planner.cli import Status, emit, note
    from planner.compare.answers import read_answer
    from planner.compare.diff import compare, crossed
    from planner.compare.report import render
    from planner.gate import parse_change
    from planner.layout import stdout_screen

    if form is Format.CSV:
        raise typer.BadParameter("--format: must be table, json or md, got csv.")
    conditions = [parse_change(text) for text in fail_on or []]
    found = compare(read_answer(old), read_answer(new))
    emit(render(found, form, stdout_screen()))
    over = crossed(found, conditions)
    for line in over:
        note(line)
    raise typer.Exit(Status.THRESHOLD if over else Status.FEASIBLE)
