"""The command `planner validate`: a scenario on this machine's device, or a recording of such a run."""

from pathlib import Path
from typing import Annotated

import typer

from planner import api
from planner.console.options import Catalogs, FormNoCsv, Seed, Set
from planner.units.writing import Format


def validate(
    scenario: Annotated[
        Path | None, typer.Argument(metavar="SCENARIO", help="YAML file; not with --replay.", show_default=False)
    ] = None,
    device: Annotated[str, typer.Option(metavar="D", help="cuda:0, cuda:1, ... or cpu.")] = "cuda:0",
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
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No notes.")] = False,
) -> None:
    """Serve a scenario for real, and put measured beside simulated. Runs the models' own code."""
    from planner.console.output import emit, note
    from planner.questions.validation.comparison import validate as compare
    from planner.questions.validation.recording import write_recording
    from planner.show.text.validation import check_form, render
    from planner.units.writing import stdout_screen

    check_form(form)
    if (scenario is None) == (replay is None):
        raise typer.BadParameter("name either a scenario or --replay FILE.")
    if replay:
        if any(option is not None for option in (record, duration, seed)) or overrides:
            raise typer.BadParameter(
                "--replay compares a run as it was: leave out --record, --duration, --seed and --set."
            )
        emit(render(api.validate(replay=replay, by_profiles=by_profiles), form, stdout_screen()))
        return
    assert scenario is not None
    comment = api.unheard if quiet else note
    recording = api.serve(
        scenario,
        device,
        lasting_s(duration),
        record,
        overrides,
        catalog,
        profiles or [Path("profiles")],
        seed,
        comment,
    )
    try:
        if record:
            write_recording(recording, record)
            comment(f"Kept in {record}. Compare it again: planner validate --replay {record}")
    finally:  # what was served is worth its comparison even where it cannot be kept
        emit(render(compare(recording, by_profiles=by_profiles), form, stdout_screen()))


def lasting_s(duration: str | None) -> float | None:
    """Seconds for which it serves; None where the scenario says it."""
    from planner.console.output import quantity
    from planner.questions.validation.serving import LONGEST_S
    from planner.units.reading import duration as seconds

    if not duration:
        return None
    lasts_s = quantity("--duration", seconds, duration)
    if not 0 < lasts_s <= LONGEST_S:
        raise typer.BadParameter(f"--duration {duration}: must be above 0 s, and a day at most. Write e.g. 30s.")
    return lasts_s
