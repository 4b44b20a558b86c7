"""The command `planner train`: how long a training takes, how much memory, how much money."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from planner.layout import Format


def train(
    scenario: Annotated[Path, typer.Argument(metavar="SCENARIO", help="YAML file, as in scenarios/training.")],
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a value of the scenario. Repeatable."),
    ] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Instead: train for a moment here, and compare with what was foretold.")
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
    catalog: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="Your gpus.yaml and prices.yaml, before the shipped ones. Repeatable."),
    ] = None,
    profiles: Annotated[
        list[Path] | None, typer.Option(metavar="DIR", help="Your profiles, before the shipped ones. Repeatable.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw options by time and cost, as .png or .svg.")
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="table, json or md.")] = Format.TABLE,
) -> None:
    """Say how long a training takes, whether it fits, and what it costs: options, cheapest and fastest."""
    from calibrate.plot import check_picture
    from planner.cli import Status, emit
    from planner.knowledge import knowledge
    from planner.layout import stdout_screen
    from planner.profiling.plot import FORMS
    from planner.training.plan import train as answer
    from planner.training.plot import draw
    from planner.training.report import render
    from planner.training.scenario import load_training

    if form is Format.CSV:
        raise typer.BadParameter("--format: must be table, json or md, got csv.")
    refuse(measure, only={"--device": device, "--batch": batch, "--samples": samples},
           never={"--catalog": catalog, "--profiles": profiles, "--plot": plot})  # fmt: skip
    if plot:
        check_picture(plot, tuple(FORMS))
    loaded = load_training(scenario, overrides or [])
    if measure:
        from planner.training.check import check
        from planner.training.check import render as beside

        emit(beside(check(loaded, device or "cuda:0", batch, samples), form, stdout_screen()))
        return
    known, library = knowledge(catalog, profiles)
    plan = answer(loaded, known, library)
    emit(render(plan, form, stdout_screen()))
    if plot:
        draw(plan, plot)
    raise typer.Exit(Status.FEASIBLE if plan.cheapest else Status.INFEASIBLE)


def refuse(measure: bool, *, only: Mapping[str, object], never: Mapping[str, object]) -> None:
    """BadParameter for options that would do nothing: some need `--measure`, some have no part in it."""
    for name, value in (never if measure else only).items():
        if value is not None:
            raise typer.BadParameter(
                f"{name}: does nothing {'with' if measure else 'without'} --measure. Leave it out."
            )
