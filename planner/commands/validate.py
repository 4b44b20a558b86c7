"""The command `planner validate`: a scenario on this machine's device, or a recording of such a run."""

from pathlib import Path
from typing import Annotated

import typer

from planner.api import asking, validating
from planner.console.options import Catalogs, Device, FormNoCsv, Quiet, Seed, Set, shipped_path
from planner.console.output import emit, note, quantity
from planner.units.writing import Format, stdout_screen


def validate(
    scenario: Annotated[
        Path | None,
        typer.Argument(
            metavar="SCENARIO", callback=shipped_path, help="YAML file; not with --replay.", show_default=False
        ),
    ] = None,
    device: Device = "cuda:0",
    duration: Annotated[
        str | None, typer.Option(metavar="TIME", help="How long it serves, e.g. 30s; the scenario's horizon, or 30 s.")
    ] = None,
    record: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep the run here; FILE.json.gz is compressed.")
    ] = None,
    replay: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Instead: compare a kept run again, without the device.")
    ] = None,
    by_profiles: Annotated[
        bool,
        typer.Option("--by-profiles", help="Simulate as a plan would: at the speed of the profiles, not as rehearsed."),
    ] = False,
    overrides: Set = None,
    catalog: Catalogs = None,
    profiles: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="Profiles; what is missing is measured into the first. Default: profiles."),
    ] = None,
    form: FormNoCsv = Format.TABLE,
    seed: Seed = None,
    quiet: Quiet = False,
) -> None:
    """Serve a scenario for real, and put measured beside simulated. Runs the models' own code."""
    from planner.show.text.validation import render

    if (scenario is None) == (replay is None):
        raise typer.BadParameter("name either a scenario or --replay FILE.")
    if replay:
        as_it_was(record, duration, seed, overrides or None)
    comment = asking.unheard if quiet else note
    recording = validating.recorded(
        scenario,
        replay,
        device,
        lasting_s(duration),
        record,
        overrides,
        catalog,
        profiles or [Path("profiles")],
        seed,
        comment,
    )
    answer, unkept = validating.compared(recording, record, by_profiles)
    if record and not unkept:
        comment(f"Kept in {record}. Compare it again: planner validate --replay {record}")
    emit(render(answer, form, stdout_screen()))
    if unkept:
        raise unkept


def as_it_was(*options: object) -> None:
    """BadParameter where an option would change a run that was kept."""
    if any(option is not None for option in options):
        raise typer.BadParameter("--replay compares a run as it was: leave out --record, --duration, --seed and --set.")


def lasting_s(duration: str | None) -> float | None:
    """Seconds for which it serves; None where the scenario says it."""
    from planner.questions.validation.bench import LONGEST_S
    from planner.units.reading import duration as seconds

    if not duration:
        return None
    lasts_s = quantity("--duration", seconds, duration)
    if not 0 < lasts_s <= LONGEST_S:
        raise typer.BadParameter(f"--duration {duration}: must be above 0 s, and a day at most. Write e.g. 30s.")
    return lasts_s
