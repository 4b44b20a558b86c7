"""The command `planner whatif`: what a plan does as it stands, were something else so."""

from pathlib import Path
from typing import Annotated

import typer

from planner.api import answering, serving
from planner.console.options import Catalogs, FormNoCsv, Out, PlanFile, Profiles, Quiet, Seed, Set
from planner.console.output import ExitCode, answered, check_out, placed_by, progress, quantity
from planner.units.writing import Format, stdout_screen


def whatif(
    plan: PlanFile,
    lose: Annotated[int, typer.Option(metavar="N", min=0, help="Machines that are away at once.")] = 0,
    load: Annotated[
        str, typer.Option(metavar="FACTOR", help="Times the rates of the scenario, e.g. 1.3 or 130 %.")
    ] = "1",
    overrides: Set = None,
    scenario: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The plan's scenario, where that names recordings beside it."),
    ] = None,
    catalog: Catalogs = None,
    profiles: Profiles = None,
    form: FormNoCsv = Format.TABLE,
    out: Out = None,
    seed: Seed = None,
    quiet: Quiet = False,
) -> None:
    """Replay a plan with machines away or at another load.

    Its replicas stay as they stand; its scenario may be changed too.
    """
    from planner.show.kept import render
    from planner.units.reading import load_factor

    factor = quantity("--load", load_factor, load)
    kept = answering.read_plan(plan)
    check_out(out, "whatif", plan)
    with progress(quiet) as tell, placed_by(plan):
        answer = serving.whatif(
            kept,
            lose=lose,
            load=factor,
            overrides=overrides,
            scenario=scenario or plan,
            catalog=catalog,
            profiles=profiles,
            seed=seed,
            progress=tell,
        )
    answered(render(answer, form, stdout_screen()), answer, out, quiet)
    if answer.interrupted:
        raise typer.Exit(ExitCode.INTERRUPTED)
    raise typer.Exit(ExitCode.FEASIBLE if answer.feasible else ExitCode.INFEASIBLE)
