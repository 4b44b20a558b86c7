"""The question of `planner profile` as its options state it, checked."""

from typing import TYPE_CHECKING

from simulator.errors import InputError, wrong_argument
from simulator.world.signature import read_sizes

if TYPE_CHECKING:
    from planner.catalog.catalog import Catalog
    from planner.questions.profiling.anatomy import Wish

BATCH_MAX = 1_000_000
SIDE_MIN, SIDE_MAX = 8, 16_384
"""Height and width of a picture, in pixels."""


def wished(
    catalog: "Catalog",
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
    """The question that the options state; InputError where one of them is wrong."""
    from calibrate.published.names import gpu_named
    from planner.catalog.offers import which_gpu
    from planner.questions.profiling.anatomy import Wish, is_local
    from planner.questions.profiling.systolic import Dataflow

    gpu = gpu and gpu_named(gpu, catalog.gpus)
    if gpu is not None and gpu not in catalog.gpus:
        raise wrong_argument("gpu", gpu, "is not in the catalog", which_gpu(gpu, catalog.gpus).strip())
    check_dataflow(dataflow, device)
    if device is not None and device.startswith("cuda:") and not measure:
        remedy = "Add --measure, or name the kind of GPU with --gpu."
        raise InputError(f"--device {device}: says nothing by itself. {remedy}")
    if measure and not is_local(device):
        raise InputError("--measure runs the model: write --device cpu or --device cuda:0.")
    return Wish(
        model=model,
        input_shape=sizes(shape) if shape else None,
        resolution=resolution,
        batch=batch,
        precision=asked_precision(precision),
        gpu=catalog.gpus[gpu] if gpu else None,
        device=device,
        dataflow=Dataflow(dataflow or Dataflow.WS),
        measure=measure,
    )


def asked_precision(precision: str) -> str:
    """As we spell it; InputError for a precision that there is not."""
    from planner.units.reading import known_precision

    try:
        return known_precision(precision)
    except ValueError as error:
        raise InputError(f"--precision {error}") from None


def check_dataflow(dataflow: str | None, device: str | None) -> None:
    """InputError for a dataflow that there is not, or without a systolic array."""
    from planner.questions.profiling.anatomy import is_local
    from planner.questions.profiling.systolic import Dataflow

    if dataflow is None:
        return
    if dataflow not in list(Dataflow):
        raise InputError(f"--dataflow {dataflow}: write one of {', '.join(Dataflow)}.")
    if device is None or is_local(device):
        raise InputError(f"--dataflow {dataflow}: only systolic arrays have one. Add --device tpu-v1.")


def sizes(shape: str) -> tuple[int, ...]:
    """`3x224x224` as numbers."""
    if (found := read_sizes(shape)) is None:
        hint = "Write e.g. 3x224x224, or 384 of so many tokens."
        raise InputError(f"--input {shape}: must be sizes with x between. {hint}")
    return found
