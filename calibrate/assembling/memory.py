"""Memory of a model: weights, workspace, and what else it holds."""

from collections.abc import Mapping
from typing import Any

from calibrate.assembling.measured import Measured
from calibrate.devices.device import SHARED_COUNT
from calibrate.io.points import What
from calibrate.library.possible import NOISE

OPAQUE = "It can be called and nothing more: its weights are what the process grew by as it was made."


def raise_falls(
    series: Mapping[int, float], noise: float, what: str, unit: str, scale: float
) -> tuple[dict[int, float], list[str]]:
    """The series where what falls below a smaller batch by more than `noise` takes that one's value, and says so.

    One of the two figures is wrong, and it is not known which: the dearer one is safe. 1: 10, 2: 7, 4: 9 becomes 10,
    10, 9 with noise of 15 %.
    """
    rising: dict[int, float] = {}
    doubts = []
    for batch, value in sorted(series.items()):
        top = max(rising, key=lambda b: rising[b], default=batch)
        rising[batch] = value
        if value < rising[top] * (1 - noise):
            rising[batch] = rising[top]
            figures = f"{value * scale:.4g} {unit}, less than the {rising[top] * scale:.4g} {unit} of batch {top}"
            remedy = "Measure both again on an idle device, with more --seconds"
            doubts.append(f"{what} of batch {batch}: {figures}, which stands in. {remedy}.")
    return rising, doubts


def raised_workspace(m: Measured) -> tuple[dict[int, float], str, list[str], list[str]]:
    """`workspace_sizes` where no batch takes less than a smaller one, its evidence, what is assumed, and doubts."""
    seen, evidence, assumptions = workspace_sizes(m)
    held, doubts = raise_falls(seen, NOISE, "Memory", "MB", 1e-6)
    raised = held != seen and evidence == "measured"
    return held, "fitted" if raised else evidence, assumptions, doubts


def workspace_sizes(m: Measured) -> tuple[dict[int, float], str, list[str]]:
    """Peak memory of a batch on top of the weights, by batch size; its evidence, and what is assumed."""
    peaks = m.by_batch(What.MEMORY)
    found = {
        batch: max(0.0, outcome.values["allocated_bytes"] - outcome.values["weights_bytes"])
        for batch, outcome in peaks.items()
        if {"allocated_bytes", "weights_bytes"} <= outcome.values.keys()
    }
    if found:
        return found, "measured", [OPAQUE] if _is_opaque(m) else []
    each = layer_value(m, "activation_bytes_per_sample")
    if not each:
        return {}, "", []
    assumption = "Memory of a batch was not measured: taken as all activations held at once."
    return {batch: each * batch for batch in m.by_batch(What.LATENCY)}, "assumed", [assumption]


def _is_opaque(m: Measured) -> bool:
    """True where the model could be called and nothing more."""
    loaded = m.one(What.LOAD)
    return loaded is not None and "left_out" in loaded.details


def held_besides(m: Measured) -> dict[str, Any]:
    """What the device's allocator held beyond tensors, by batch, and what the process held beyond its allocator.

    The latter is read after the batch, when the libraries have loaded their kernels. Where other processes cannot be
    told apart, it is not known.
    """
    peaks = {batch: o for batch, o in m.by_batch(What.MEMORY).items() if "allocated_bytes" in o.values}
    allocators = {batch: o.values.get("reserved_bytes", o.values["allocated_bytes"]) for batch, o in peaks.items()}
    slack = {batch: size - peaks[batch].values["allocated_bytes"] for batch, size in allocators.items()}
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
