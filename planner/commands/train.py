"""The command `planner train`: how long a training takes, how much memory, how much money."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from planner.api import training
from planner.console.options import Catalogs, FormNoCsv, Out, Profiles, Quiet, Set, Verbose, shipped_path
from planner.console.output import ExitCode, answered, check_out, check_plot, emit
from planner.units.writing import Format, stdout_screen


def train(
    scenario: Annotated[
        Path, typer.Argument(metavar="SCENARIO", callback=shipped_path, help="YAML file, as in scenarios/training.")
    ],
    overrides: Set = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Instead: train for a moment here, and compare with what was predicted.")
    ] = False,
    device: Annotated[
        str | None, typer.Option(metavar="D", help="With --measure: cpu, cuda:1, ... Default: cuda:0.")
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=1_000_000, help="With --measure: the batch; the scenario's, 64 at most."),
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=10**9, help="With --measure: of the short epoch; twenty batches."),
    ] = None,
    catalog: Catalogs = None,
    profiles: Profiles = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw options by time and cost, as .png or .svg.")
    ] = None,
    form: FormNoCsv = Format.TABLE,
    out: Out = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Say how long a training takes, what it costs, and if it fits.

    Options, the cheapest and the fastest.
    """
    from planner.show.charts.kit.png import FORMS
    from planner.show.documents.training import brief, check_text, draw
    from planner.show.kept import render
    from planner.show.terminal import terminal

    refuse(measure, only={"--device": device, "--batch": batch, "--samples": samples},
           never={"--catalog": catalog, "--profiles": profiles, "--plot": plot, "-o": out})  # fmt: skip
    check_plot(plot, FORMS)
    check_out(out, "training", scenario)
    if measure:
        check = training.train_measured(scenario, device or "cuda:0", batch=batch, samples=samples, overrides=overrides)
        emit(check_text(check, form, stdout_screen()))
        return
    plan = training.train(scenario, overrides=overrides, catalog=catalog, profiles=profiles)
    short = form is Format.TABLE and not verbose
    text = terminal(brief(plan), stdout_screen()) if short else render(plan, form, stdout_screen())
    answered(text, plan, out, quiet)
    if plot:
        draw(plan, plot)
    raise typer.Exit(ExitCode.FEASIBLE if plan.cheapest else ExitCode.INFEASIBLE)


def refuse(measure: bool, *, only: Mapping[str, object], never: Mapping[str, object]) -> None:
    """BadParameter for options that would do nothing: some need `--measure`, some have no part in it."""
    for name, value in (never if measure else only).items():
        if value is not None:
            raise typer.BadParameter(
                f"{name}: does nothing {'with' if measure else 'without'} --measure. Leave it out."
            )
