"""The command `planner profile`: where one model's time and memory go, and what would change them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.layout import Format

if TYPE_CHECKING:
    from planner.catalog import Catalog
    from planner.profiling.anatomy import Wish

BATCH_MAX = 1_000_000
SIDE_MIN, SIDE_MAX = 8, 16_384
"""Of a picture, in pixels."""


def profile(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="E.g. resnet50; your own: package.module:factory.")],
    gpu: Annotated[str | None, typer.Option(metavar="KIND", help="Kind of GPU, e.g. V100.")] = None,
    batch: Annotated[int, typer.Option(metavar="N", min=1, max=BATCH_MAX, help="Batch size.")] = 1,
    precision: Annotated[str, typer.Option(metavar="P", help="fp32, tf32, amp, fp16, bf16 or int8.")] = "fp32",
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
    catalog: Annotated[
        list[Path] | None, typer.Option(metavar="DIR", help="Your gpus.yaml, before the shipped one. Repeatable.")
    ] = None,
    profiles: Annotated[
        list[Path] | None, typer.Option(metavar="DIR", help="Your profiles, before the shipped ones. Repeatable.")
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="table, json or md.")] = Format.TABLE,
) -> None:
    """Say where one model's time and memory go, layer by layer, and what would change that.

    Your own model's code is run, to see its layers.
    """
    from calibrate.plot import check_picture
    from planner.cli import emit, note
    from planner.knowledge import knowledge
    from planner.layout import stdout_screen
    from planner.profiling.anatomy import look
    from planner.profiling.plot import FORMS, draw
    from planner.profiling.report import render

    if picture:
        check_picture(picture, tuple(FORMS))
    known, library = knowledge(catalog, profiles)
    wish = wished(known, model, shape, resolution, batch, precision, gpu, device, dataflow, measure)
    seen = look(wish, library, known.gpus, profiles or [])
    emit(render(seen, form, stdout_screen()))
    if picture:
        draw(seen, picture)
        note(f"Wrote {picture}.")


def wished(
    known: "Catalog",
    model: str,
    shape: str | None,
    resolution: int | None,
    batch: int,
    precision: str,
    gpu: str | None,
    device: str | None,
    dataflow: str | None,
    measure: bool,
) -> "Wish":
    """What was asked for, checked."""
    from planner.profiling.anatomy import Wish, is_local
    from planner.profiling.systolic import Dataflow
    from planner.units import perhaps
    from simulator.near import in_any_case
    from simulator.precision import VALUE_BYTES

    gpu = gpu and in_any_case(gpu, known.gpus)
    if gpu is not None and gpu not in known.gpus:
        raise typer.BadParameter(f"--gpu {gpu}: is not in the catalog.{perhaps(gpu, known.gpus)}")
    if precision not in VALUE_BYTES:
        raise typer.BadParameter(f"--precision {precision}: write one of {', '.join(VALUE_BYTES)}.")
    if dataflow is not None and dataflow not in list(Dataflow):
        raise typer.BadParameter(f"--dataflow {dataflow}: write one of {', '.join(Dataflow)}.")
    if dataflow is not None and (device is None or is_local(device)):
        raise typer.BadParameter(f"--dataflow {dataflow}: only systolic arrays have one. Add --device tpu-v1.")
    if device is not None and device.startswith("cuda:") and not measure:
        raise typer.BadParameter(
            f"--device {device}: says nothing by itself. Add --measure, or name the kind of GPU with --gpu."
        )
    if measure and not is_local(device):
        raise typer.BadParameter("--measure runs the model: write --device cpu or --device cuda:0.")
    return Wish(
        model=model,
        input_shape=sizes(shape) if shape else None,
        resolution=resolution,
        batch=batch,
        precision=precision,
        gpu=known.gpus[gpu] if gpu else None,
        device=device,
        dataflow=Dataflow(dataflow or Dataflow.WS),
        measure=measure,
    )


def sizes(shape: str) -> tuple[int, ...]:
    """`3x224x224` as numbers."""
    parts = shape.lower().split("x")
    if not all(part.isdecimal() and 0 < int(part) < 1_000_000 for part in parts):
        raise typer.BadParameter(f"--input {shape}: must be sizes with x between. Write e.g. 3x224x224.")
    return tuple(map(int, parts))
