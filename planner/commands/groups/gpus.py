"""The commands `planner gpus`: kinds of GPU, and those of one's own."""

from pathlib import Path
from typing import Annotated

import typer

from planner.api import pricing
from planner.console.options import Catalogs, Quiet
from planner.console.output import PLAIN, emit, say
from planner.units.writing import stdout_screen

app = typer.Typer(help="Kinds of GPU.", **PLAIN)


@app.command("show")
def gpus_show(
    kind: Annotated[str | None, typer.Argument(metavar="[KIND]")] = None,
    catalog: Catalogs = None,
) -> None:
    """List kinds of GPU: memory, peaks, power and links."""
    from planner.imports.gpu_kinds import kinds_text

    emit(kinds_text(pricing.gpus_show(kind, catalog=catalog or ()), stdout_screen()))


@app.command("add")
def gpus_add(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="Its name, such as RTX-2080-Ti.")],
    memory_gb: Annotated[float, typer.Option(metavar="GB", help="1e9 bytes each.")],
    memory_bandwidth_gb_per_s: Annotated[float, typer.Option(metavar="GB/S", help="Of its own memory.")],
    fp32_tflops: Annotated[float, typer.Option(metavar="N", help="Dense peak.")],
    tdp_w: Annotated[float, typer.Option(metavar="W", help="Power limit.")],
    idle_w: Annotated[float, typer.Option(metavar="W", help="Power while nothing runs.")],
    pcie_gb_per_s: Annotated[float, typer.Option(metavar="GB/S", help="Host link, one direction.")],
    source: Annotated[str, typer.Option(metavar="TEXT", help="Where the figures stand.")],
    tensor_fp16_tflops: Annotated[float | None, typer.Option(metavar="N", help="With sums in fp32.")] = None,
    tensor_tf32_tflops: Annotated[float | None, typer.Option(metavar="N", help="Dense peak.")] = None,
    tensor_int8_tops: Annotated[float | None, typer.Option(metavar="N", help="Dense peak.")] = None,
    tensor_fp8_tflops: Annotated[float | None, typer.Option(metavar="N", help="Dense peak.")] = None,
    l2_mb: Annotated[float | None, typer.Option(metavar="MB", help="L2 cache; predictions use it.")] = None,
    sm_count: Annotated[int | None, typer.Option(metavar="N", help="Multiprocessors; predictions use them.")] = None,
    decoders: Annotated[int | None, typer.Option(metavar="N", help="Engines that decode video.")] = None,
    encoders: Annotated[int | None, typer.Option(metavar="N", help="Engines that encode video.")] = None,
    chip: Annotated[str | None, typer.Option(metavar="KIND", help="A kind of the catalog with the same chip.")] = None,
    nvlink_gb_per_s: Annotated[float | None, typer.Option(metavar="GB/S", help="One direction.")] = None,
    compute_capability: Annotated[str | None, typer.Option(metavar="N.N", help="As NVIDIA states it.")] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for --catalog.")] = Path("catalog"),
    catalog: Catalogs = None,
    quiet: Quiet = False,
) -> None:
    """Add a kind of GPU to a catalog, as its data sheet states it."""
    path = pricing.gpus_add(
        kind,
        out,
        catalog=catalog or (),
        memory_gb=memory_gb,
        memory_bandwidth_gb_per_s=memory_bandwidth_gb_per_s,
        fp32_tflops=fp32_tflops,
        tensor_fp16_tflops=tensor_fp16_tflops,
        tensor_tf32_tflops=tensor_tf32_tflops,
        tensor_int8_tops=tensor_int8_tops,
        tensor_fp8_tflops=tensor_fp8_tflops,
        l2_mb=l2_mb,
        sm_count=sm_count,
        decoders=decoders,
        encoders=encoders,
        chip=chip,
        tdp_w=tdp_w,
        idle_w=idle_w,
        pcie_gb_per_s=pcie_gb_per_s,
        nvlink_gb_per_s=nvlink_gb_per_s,
        compute_capability=compute_capability,
        source=source,
    )
    if not quiet:
        say(f"Wrote {path}: {kind}. Plan with it: --catalog {out}")
