"""`planner merge`: what models could share, and where sharing pays."""

from pathlib import Path
from typing import Annotated

import typer

from planner.layout import Format, stdout_screen

Plot = Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw it as PNG; needs matplotlib.")]


def analyze(
    models: Annotated[
        list[str],
        typer.Argument(metavar="MODEL...", help="Names, `resnet50*4` for four; or your package.module:factory."),
    ],
    shape: Annotated[
        str | None, typer.Option("--input", metavar="CxHxW", help="Shape of one sample of your models.")
    ] = None,
    profiles: Annotated[
        list[Path] | None, typer.Option("--profiles", metavar="DIR", help="Your measured profiles. Repeatable.")
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="table or json.")] = Format.TABLE,
    plot: Plot = None,
) -> None:
    """Say what models could share, and how much each rule saves."""
    from planner.cli import emit, note
    from planner.knowledge import knowledge
    from planner.merging.analysis import analyze as analysis
    from planner.merging.analysis import layers_of, named, own_layers
    from planner.merging.report import analysis_json, analysis_table
    from planner.store import to_json

    only(form)
    if plot:
        from calibrate.plot import check_picture

        check_picture(plot)
    library = knowledge(None, profiles)[1] if profiles else None
    found = analysis(named(models, lambda m: own_layers(m, shape) if ":" in m else layers_of(m, library)))
    emit(to_json(analysis_json(found)) if form is Format.JSON else analysis_table(found, stdout_screen()))
    if plot:
        from planner.merging.plot import analysis_plot

        analysis_plot(found, plot)
        note(f"Wrote {plot}.")


def breakeven(
    scenario: Annotated[Path, typer.Argument(metavar="SCENARIO", help="YAML file; `planner init` writes one.")],
    loads: Annotated[
        str | None, typer.Option(metavar="X,...", help="Rates over those of the scenario. Default: 0.25 to 3, or more.")
    ] = None,
    models: Annotated[
        str | None, typer.Option(metavar="N,...", help="Numbers of models. Default: five steps up to all.")
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a value of the scenario. Repeatable.")
    ] = None,
    catalog: Annotated[
        list[Path] | None, typer.Option("--catalog", metavar="DIR", help="Your gpus.yaml and prices.yaml. Repeatable.")
    ] = None,
    profiles: Annotated[
        list[Path] | None, typer.Option("--profiles", metavar="DIR", help="Your profiles. Repeatable.")
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="table or json.")] = Format.TABLE,
    plot: Plot = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no notes.")] = False,
) -> None:
    """Say where resident, swapped and merged models, or more GPUs, cost least: against load and number of models."""
    from planner.cli import emit, note, progress
    from planner.knowledge import knowledge
    from planner.load import load_scenario
    from planner.merging.breakeven import breakeven as compare
    from planner.merging.report import breakeven_json, breakeven_table
    from planner.store import to_json

    only(form)
    if plot:
        from calibrate.plot import check_picture

        check_picture(plot)
    loaded = load_scenario(scenario, overrides or [])
    known, library = knowledge(catalog, profiles)
    wanted = [float(x) for x in numbers("--loads", loads)]
    counts = [int(x) for x in numbers("--models", models)]
    with progress(quiet) as tell:
        found = compare(loaded, known, library, wanted, counts, tell)
    emit(to_json(breakeven_json(found)) if form is Format.JSON else breakeven_table(found, stdout_screen()))
    if plot:
        from planner.merging.plot import breakeven_plot

        breakeven_plot(found, plot)
        if not quiet:
            note(f"Wrote {plot}.")


def numbers(option: str, text: str | None) -> list[str]:
    """`0.5,1,2` in parts; whole numbers for --models."""
    parts = [part.strip() for part in (text or "").split(",") if part.strip()]
    read = int if option == "--models" else float
    for part in parts:
        try:
            read(part)
        except ValueError:
            raise typer.BadParameter(f"{option} {part}: must be a number. Write e.g. 1,2,4.") from None
    return parts


def only(form: Format) -> None:
    """Refuse formats that are for plans."""
    if form not in (Format.TABLE, Format.JSON):
        raise typer.BadParameter(f"--format {form}: only table and json here.")
