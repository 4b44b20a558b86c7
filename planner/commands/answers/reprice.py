"""The command `planner reprice`: a plan at other prices."""

from pathlib import Path
from typing import Annotated

import typer

from planner.api import answering
from planner.console.options import FormNoCsv, PlanFile, Quiet
from planner.console.output import emit, note
from planner.model.choices import PriceKind
from planner.units.writing import Format, stdout_screen


def reprice(
    plan: PlanFile,
    prices: Annotated[
        Path,
        typer.Option(metavar="FILE", help="A prices.yaml or prices.csv, or a --catalog directory with one."),
    ],
    out: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Keep the plan at its new prices here.")
    ] = None,
    kind: Annotated[
        PriceKind | None, typer.Option("--price", help="Another kind of price than the plan was made with.")
    ] = None,
    form: FormNoCsv = Format.TABLE,
    quiet: Quiet = False,
) -> None:
    """Say what a plan costs at other prices, not simulated again."""
    from planner.compare.report import reprice_document
    from planner.io.store import check_target
    from planner.show.forms import written

    if out:
        check_target(out, plan)
    new, changes = answering.reprice(plan, prices, kind)
    emit(written(changes, reprice_document, form, stdout_screen()))
    if out:
        answering.write_plan(new, out)
        if not quiet:
            note(f"Plan kept in {out}. What differs: planner diff {plan} {out}")
