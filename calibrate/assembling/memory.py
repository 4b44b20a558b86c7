"""Memory of a model: weights, workspace, and what else it holds."""

from collections.abc import Mapping
from typing import Any

from calibrate.assembling.figures import SIZES, in_units
from calibrate.assembling.measured import Measured
from calibrate.devices.device import SHARED_COUNT
from calibrate.io.points import What
from calibrate.library.possible import NOISE

OTHER_ALGORITHMS = (
    "Libraries choose an algorithm for each size: --cudnn-benchmark or --precision torch may find one that needs less."
)
OPAQUE = "It can be called and nothing more: its weights are what the process grew by as it was made."


def raise_falls(series: Mapping[int, float], noise: float) -> tuple[dict[int, float], dict[int, int]]:
    """The series where what falls below a smaller batch by more than `noise` takes that one's value; and whose it took.

    The dearer of two figures is safe, be it that one is wrong or that libraries chose another algorithm. 1: 10, 2: 7,
    4: 9 becomes 10, 10, 9 with noise of 15 %, and 2 took that of 1.
    """
    rising: dict[int, float] = {}
    taken = {}
    for batch, value in sorted(series.items()):
        top = max(rising, key=lambda b: rising[b], default=batch)
        rising[batch] = value
        if value < rising[top] * (1 - noise):
            rising[batch] = rising[top]
            taken[batch] = top
    return rising, taken


def raised_workspace(m: Measured) -> tuple[dict[int, float], str, list[str], list[str]]:
    """`workspace_sizes` where no batch takes less than a smaller one, its evidence, what is assumed, and doubts."""
    seen, evidence, assumptions = workspace_sizes(m)
    held, taken = raise_falls(seen, NOISE)
    doubts = [
        f"Memory of batch {batch}: {in_units(seen[batch], SIZES)}, less than the {in_units(seen[top], SIZES)} of batch"
        f" {top}, which stands in. {OTHER_ALGORITHMS}"
        for batch, top in taken.items()
    ]
    return held, "fitted" if taken and evidence == "measured" else evidence, assumptions, doubts


def workspace_sizes(m: Measured) -> tuple[dict[int, float], str, list[str]]:
    """Peak memory of a batch on top of the weights, by batch size; its evidence, and what is assumed."""
    peaks = m.by_batch(What.MEMORY)
    found = {
        batch: max(0.0, outcome.values["allocated_bytes"] - outcome.values["weights_bytes"])
        for batch, outcome in peaks.items()
        if {"allocated_bytes", "weights_bytes"} <= outcome.values.keys()
    }
    if found:
        loaded = m.one(What.LOAD)
        return found, "measured", [OPAQUE] if loaded and "left_out" in loaded.details else []
    each = layer_value(m, "activation_bytes_per_sample")
    if not each:
        return {}, "", []
    assumption = "Memory of a batch was not measured: taken as all activations held at once."
    return {batch: each * batch for batch in m.by_batch(What.LATENCY)}, "assumed", [assumption]


def held_besides(m: Measured) -> dict[str, Any]:
    """What the device's allocator held beyond tensors, by batch, and what the process held beyond its allocator.

    The latter is read after the batch, when the libraries have loaded their kernels. Where other processes cannot be
    told apart, it is not known. Where tensors were raised (`raised_workspace`), what both hold together does not fall.
    """
    peaks = {batch: o for batch, o in m.by_batch(What.MEMORY).items() if "allocated_bytes" in o.values}
    allocators = {batch: o.values.get("reserved_bytes", o.values["allocated_bytes"]) for batch, o in peaks.items()}
    weights = {batch: o.values.get("weights_bytes", 0.0) for batch, o in peaks.items()}
    tensors, _ = raise_falls({batch: o.values["allocated_bytes"] - weights[batch] for batch, o in peaks.items()}, NOISE)
    held, _ = raise_falls({batch: size - weights[batch] for batch, size in allocators.items()}, NOISE)
    slack = {batch: max(0.0, held[batch] - tensors[batch]) for batch in peaks}
    besides = [
        round(o.values["device_bytes"] - allocators[batch])
        for batch, o in peaks.items()
        if "device_bytes" in o.values and o.details.get("device_bytes_by") != SHARED_COUNT
    ]
    return {
        **({"slack_bytes": sizes_by_batch(slack)} if any(slack.values()) else {}),
        **({"context_bytes": max(besides)} if min(besides, default=-1) >= 0 else {}),
    }


def sizes_by_batch(sizes: Mapping[int, float]) -> dict[str, int]:
    return {str(batch): round(size) for batch, size in sizes.items()}


def bytes_of_weights(m: Measured) -> int:
    """As they lie on the device where that was measured, else as the layers have them; 0 where neither is known."""
    loaded = m.one(What.LOAD)
    held = [o.values["weights_bytes"] for o in m.by_batch(What.MEMORY).values() if "weights_bytes" in o.values]
    known = [loaded.values.get("weight_bytes") if loaded else None, *held, layer_value(m, "weight_bytes")]
    return int(next((size for size in known if size), 0))


def layer_value(m: Measured, name: str) -> float | None:
    layers = m.one(What.LAYERS)
    return (layers.values.get(name) or None) if layers else None
