"""`planner merge`: what models could share, and where sharing pays."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from planner.api import modelling
from planner.console.options import Catalogs, Device, FormJson, Plot, Profiles, Quiet, Scenario, Set, shipped_path
from planner.console.output import PLAIN, ExitCode, check_plot, emit, note, progress
from planner.units.writing import Format, stdout_screen

N = TypeVar("N", int, float)
app = typer.Typer(help="Layers that models share, stored once.", **PLAIN)


@app.command()
def train(
    spec: Annotated[
        Path,
        typer.Argument(metavar="SPEC", callback=shipped_path, help="YAML file with the tasks, e.g. merge/digits.yaml."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="For the curve and the merged weights. Default: the spec's name + .merged."),
    ] = None,
    device: Device = "cuda:0",
    resume: Annotated[bool, typer.Option("--resume", help="Go on where the training in --out ended.")] = False,
    form: FormJson = Format.TABLE,
    quiet: Quiet = False,
) -> None:
    """Train models to share layers, and measure what that costs. Runs the tasks' own code."""
    from calibrate.joint.spec import CURVE
    from planner.show.text.joint import report

    folder = out or Path(f"{spec.stem}.merged")
    if (code := modelling.run_joint(spec, folder, device, resume, quiet)) < 0:
        note(f"The training was ended by signal {-code}. The same command with --resume continues.")
        code = ExitCode.INTERNAL
    if code:
        raise typer.Exit(code)
    text = (folder / CURVE).read_text(encoding="utf-8")
    emit(text if form is Format.JSON else report(json.loads(text), folder, stdout_screen()))


@app.command()
def analyze(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...",
            help="Names, `resnet50*4` for four; timm:resnet50d, onnx:FILE; your package.module:factory.",
        ),
    ],
    shape: Annotated[
        str | None, typer.Option("--input", metavar="CxHxW", help="Shape of one sample of your models.")
    ] = None,
    profiles: Profiles = None,
    form: FormJson = Format.TABLE,
    plot: Plot = None,
    quiet: Quiet = False,
) -> None:
    """Say what models could share, and how much each rule saves."""
    from planner.show.forms import written
    from planner.show.text.merging import analysis_document, analysis_json

    check_plot(plot)
    analysis = modelling.merge_analyze(*models, input_shape=shape, profiles=profiles)
    emit(written(analysis, analysis_document, form, stdout_screen(), analysis_json))
    if plot:
        from planner.show.charts import merging
        from planner.show.charts.kit.png import draw

        draw(plot, merging.analysis(analysis))
        if not quiet:
            note(f"Wrote {plot}.")


@app.command()
def breakeven(
    scenario: Scenario,
    loads: Annotated[
        str | None, typer.Option(metavar="X,...", help="Rates over those of the scenario. Default: 0.25 to 3, or more.")
    ] = None,
    models: Annotated[
        str | None, typer.Option(metavar="N,...", help="Numbers of models. Default: five steps up to all.")
    ] = None,
    overrides: Set = None,
    catalog: Catalogs = None,
    profiles: Profiles = None,
    form: FormJson = Format.TABLE,
    plot: Plot = None,
    quiet: Quiet = False,
) -> None:
    """Say where resident, swapped or merged models cost least.

    Against load and number of models, with more GPUs where they are needed.
    """
    from planner.show.forms import written
    from planner.show.text.merging import breakeven_document, breakeven_json

    check_plot(plot)
    ratios, counts = numbers("--loads", loads, float), numbers("--models", models, int)
    with progress(quiet) as tell:
        answer = modelling.merge_breakeven(
            scenario,
            loads=ratios,
            counts=counts,
            overrides=overrides,
            catalog=catalog,
            profiles=profiles,
            progress=tell,
        )
    emit(written(answer, breakeven_document, form, stdout_screen(), breakeven_json))
    if plot:
        from planner.show.charts import merging
        from planner.show.charts.kit.png import draw

        draw(plot, merging.breakeven(answer))
        if not quiet:
            note(f"Wrote {plot}.")


def numbers(option: str, text: str | None, read: Callable[[str], N]) -> list[N]:
    """`0.5,1,2` as numbers; whole ones where `read` takes no others."""
    found = []
    for part in filter(None, map(str.strip, (text or "").split(","))):
        try:
            found.append(read(part))
        except ValueError:
            raise typer.BadParameter(f"{option} {part}: must be a number. Write e.g. 1,2,4.") from None
    return found
