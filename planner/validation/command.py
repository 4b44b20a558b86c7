"""The command `planner validate`: a scenario on this machine's device, or a recording of such a run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.layout import Format

if TYPE_CHECKING:
    from planner.validation.recording import Recording

DURATION_S = 30.0
"""How long a run lasts where nobody says."""
LONGEST_S = 86_400.0


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
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a value of the scenario. Repeatable."),
    ] = None,
    catalog: Annotated[
        list[Path] | None, typer.Option(metavar="DIR", help="Your gpus.yaml, before the shipped one. Repeatable.")
    ] = None,
    profiles: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="Profiles; what is missing is measured into the first. Default: profiles."),
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="table, json or md.")] = Format.TABLE,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Start of all random numbers, instead of the scenario's.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No notes.")] = False,
) -> None:
    """Serve a scenario for real, and put measured beside simulated. Runs the models' own code."""
    from planner.cli import emit
    from planner.layout import stdout_screen
    from planner.validation.comparison import validate as compare
    from planner.validation.page import check_form, render
    from planner.validation.recording import read_recording

    check_form(form)
    if (scenario is None) == (replay is None):
        raise typer.BadParameter("name either a scenario or --replay FILE.")
    if replay:
        if record or duration or seed is not None or overrides:
            raise typer.BadParameter(
                "--replay compares a run as it was: leave out --record, --duration, --seed and --set."
            )
        emit(render(compare(read_recording(replay)), form, stdout_screen()))
        return
    assert scenario is not None
    recorded = run(scenario, device, duration, record, overrides, catalog, profiles, seed, quiet)
    try:
        if record:
            keep(recorded, record, quiet)
    finally:  # what was served is worth its comparison even where it cannot be kept
        emit(render(compare(recorded), form, stdout_screen()))


def run(
    scenario: Path,
    device: str,
    duration: str | None,
    target: Path | None,
    overrides: list[str] | None,
    catalog: list[Path] | None,
    profiles: list[Path] | None,
    seed: int | None,
    quiet: bool,
) -> "Recording":
    """Serve it."""
    from datetime import UTC, datetime

    from planner.catalog import load_catalog
    from planner.cli import note, quantity, with_seed
    from planner.load import load_scenario
    from planner.units import duration as seconds
    from planner.validation.recording import check_target
    from planner.validation.serving import Bench, record

    if target:
        check_target(target, scenario)
    loaded = load_scenario(scenario, with_seed(overrides, seed))
    lasts_s = quantity("--duration", seconds, duration) if duration else loaded.scenario.horizon or DURATION_S
    if not 0 < lasts_s <= LONGEST_S:
        raise typer.BadParameter(f"--duration {duration}: must be above 0 s, and a day at most. Write e.g. 30s.")
    bench = Bench(device=device, catalog=load_catalog(catalog or []), directories=tuple(profiles or [Path("profiles")]))
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return record(loaded, bench, lasts_s, now, note if not quiet else lambda _: None)


def keep(recorded: "Recording", target: Path, quiet: bool) -> None:
    """Write the run to a file."""
    from planner.cli import note
    from planner.validation.recording import write_recording

    write_recording(recorded, target)
    if not quiet:
        note(f"Kept in {target}. Compare it again: planner validate --replay {target}")
