"""The command `planner horizon`: days of load, and ways to keep GPUs for it side by side."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from planner.layout import Format


class Checked(StrEnum):
    """Ways of which a day may be replayed, as in `planner.horizons.answer`, which help must not import."""

    FIXED = "fixed"
    SCHEDULED = "scheduled"
    AUTOSCALED = "autoscaled"
    RESERVED = "reserved"
    SPOT = "spot"
    OWN = "own"


def horizon(
    scenario: Annotated[Path, typer.Argument(metavar="SCENARIO", help="YAML file with a `calendar`.")],
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a value of the scenario. Repeatable.")
    ] = None,
    check: Annotated[
        Checked | None,
        typer.Option("--check-day", metavar="WAY", help="Also replay this way's busiest day frame by frame: minutes."),
    ] = None,
    catalog: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="Your gpus.yaml and prices.yaml, before the shipped ones. Repeatable."),
    ] = None,
    profiles: Annotated[
        list[Path] | None, typer.Option(metavar="DIR", help="Your profiles, before the shipped ones. Repeatable.")
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="table, json or md.")] = Format.TABLE,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw load and GPUs as PNG; needs matplotlib.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Start of all random numbers, instead of the scenario's.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no notes.")] = False,
) -> None:
    """Compare ways to keep GPUs over days: fixed, by the hour, autoscaled, reserved, spot, your own."""
    from datetime import UTC, datetime

    from planner.cli import Status, emit, note, progress, with_seed
    from planner.horizons.answer import Way
    from planner.horizons.report import render
    from planner.horizons.weigh import horizon as weighed
    from planner.knowledge import knowledge
    from planner.layout import stdout_screen
    from planner.load import load_scenario

    if form is Format.CSV:
        raise typer.BadParameter("--format: must be table, json or md, got csv.")
    if plot:
        from calibrate.plot import check_picture

        check_picture(plot)
    loaded = load_scenario(scenario, with_seed(overrides, seed))
    known, library = knowledge(catalog, profiles)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    with progress(quiet) as tell:
        found = weighed(
            loaded, known, library, created_at=now, check=Way(check.value) if check else None, progress=tell
        )
    emit(render(found, form, stdout_screen()))
    if plot:
        from planner.horizons.plot import horizon_plot

        horizon_plot(found, plot)
        if not quiet:
            note(f"Wrote {plot}.")
    raise typer.Exit(Status.FEASIBLE if found.best else Status.INFEASIBLE)
