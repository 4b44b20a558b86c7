"""The command `planner horizon`: days of load, and ways to keep GPUs for it side by side."""

from pathlib import Path
from typing import Annotated

import typer

from planner.api import serving
from planner.console.options import Catalogs, FormNoCsv, Out, Profiles, Quiet, Seed, Set, shipped_path
from planner.console.output import ExitCode, answered, check_out, check_plot, note, progress
from planner.model.choices import HorizonWay
from planner.units.writing import Format, stdout_screen


def horizon(
    scenario: Annotated[
        Path, typer.Argument(metavar="SCENARIO", callback=shipped_path, help="YAML file with a `calendar`.")
    ],
    overrides: Set = None,
    check: Annotated[
        HorizonWay | None,
        typer.Option("--check-day", metavar="WAY", help="Also replay this way's busiest day frame by frame: minutes."),
    ] = None,
    catalog: Catalogs = None,
    profiles: Profiles = None,
    form: FormNoCsv = Format.TABLE,
    out: Out = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw load and GPUs as PNG; needs matplotlib.")
    ] = None,
    seed: Seed = None,
    quiet: Quiet = False,
) -> None:
    """Compare ways to keep GPUs over days of load.

    Fixed, by the hour, autoscaled, reserved, spot, your own.
    """
    from planner.show.kept import render

    check_plot(plot)
    check_out(out, "horizon", scenario)
    with progress(quiet) as tell:
        answer = serving.horizon(
            scenario,
            overrides=overrides,
            catalog=catalog,
            profiles=profiles,
            seed=seed,
            check_day=check,
            progress=tell,
        )
    answered(render(answer, form, stdout_screen()), answer, out, quiet)
    if plot:
        from planner.show.documents.horizons import draw

        draw(answer, plot)
        if not quiet:
            note(f"Wrote {plot}.")
    raise typer.Exit(ExitCode.FEASIBLE if answer.best else ExitCode.INFEASIBLE)
