"""The command `planner profile`: where one model's time and memory go, and what would change them."""

from pathlib import Path
from typing import Annotated

import typer

from planner.api import modelling
from planner.console.options import Catalogs, FormNoCsv, GpuKind, Profiles, Quiet
from planner.console.output import check_plot, emit, note
from planner.questions.profiling.wish import BATCH_MAX, SIDE_MAX, SIDE_MIN
from planner.units.writing import Format, stdout_screen
from simulator.world.precision import WEIGHT_BYTES


def profile(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="E.g. resnet50, timm:resnet50d, onnx:FILE; your own: package.module:factory."
        ),
    ],
    gpu: GpuKind = None,
    batch: Annotated[int, typer.Option(metavar="N", min=1, max=BATCH_MAX, help="Batch size.")] = 1,
    precision: Annotated[str, typer.Option(metavar="P", help=f"{', '.join(WEIGHT_BYTES)}.")] = "fp32",
    shape: Annotated[
        str | None, typer.Option("--input", metavar="SHAPE", help="One sample of your own model, e.g. 3x224x224.")
    ] = None,
    resolution: Annotated[
        int | None, typer.Option(metavar="PX", min=SIDE_MIN, max=SIDE_MAX, help="Side of a picture.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(metavar="D", help="tpu-v1, a systolic array; or this machine's cpu or cuda:0.")
    ] = None,
    dataflow: Annotated[
        str | None,
        typer.Option(
            metavar="ws|is|os", help="What stays in a systolic array: weights (the default), inputs or outputs."
        ),
    ] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Run it at several batch sizes on --device cpu or cuda:0.")
    ] = False,
    picture: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw operations, memory and roofline: .png or .svg.")
    ] = None,
    catalog: Catalogs = None,
    profiles: Profiles = None,
    form: FormNoCsv = Format.TABLE,
    quiet: Quiet = False,
) -> None:
    """Say where one model's time and memory go, layer by layer.

    And what would change that.

    Your own model's code is run, to see its layers.
    """
    from planner.show.charts.kit.png import FORMS, draw
    from planner.show.charts.profiling import anatomy as charts
    from planner.show.charts.profiling import title
    from planner.show.forms import written
    from planner.show.text.profiling import as_json, document

    check_plot(picture, FORMS)
    anatomy = modelling.profile(
        model,
        gpu,
        batch=batch,
        precision=precision,
        resolution=resolution,
        input_shape=shape,
        device=device,
        dataflow=dataflow,
        measure=measure,
        catalog=catalog,
        profiles=profiles,
    )
    emit(written(anatomy, document, form, stdout_screen(), as_json))
    if picture:
        draw(picture, charts(anatomy), title(anatomy))
        if not quiet:
            note(f"Wrote {picture}.")
