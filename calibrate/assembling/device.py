"""A device as a kind of GPU, of what was probed of it."""

from collections.abc import Mapping, Sequence
from typing import Any

from calibrate.assembling.figures import DIGITS, short, source_text
from calibrate.assembling.loading import UNKNOWN_HOST_BYTES_PER_S
from calibrate.assembling.points import points_json
from calibrate.io.points import PRECISIONS, PointOutcome, Status, What
from calibrate.library.reading import DEVICE_SCHEMA

WATTS_A_CORE = 10.0
"""Power limit over cores of common server processors, W: EPYC 7763 4.4, Xeon 8480 6.3, Core i9 13900 10.5."""
COPIES = ("to_device_pinned", "to_device_pageable", "from_device_pinned", "from_device_pageable", "host")
"""Ways that the probe `copy` goes."""
NOT_PROBED = "Not probed: {}: models stand for its peaks. Measure it with --mode device --resume."


def device_json(
    provenance: Mapping[str, Any], probes: Mapping[str, PointOutcome], profiles: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The device file: the device as a kind of GPU (`simulator.world.hardware.GPU`), and every probe with its samples.

    No vendor's figure is known here: its peaks are the highest rates that were seen, of probes and of models.
    """
    good = {name: outcome.values for name, outcome in probes.items() if outcome.status is Status.OK}
    copies = good.get("copy", {})
    copied = [copies[rate] for way in COPIES if (rate := f"{way}_bytes_per_s") in copies]
    host = max([*copied, *seen_loads(profiles)], default=UNKNOWN_HOST_BYTES_PER_S)
    missing = [name for name in ("matmul", "copy", "device_copy") if not good.get(name)]
    # The slowest copy between two GPUs, where all are faster than those to the host.
    nvlink = min(good.get("links", {}).values(), default=0.0)
    tdp_w, idle_w, power_assumptions = power_limits(provenance, good)
    kind = {
        "name": provenance["gpu"],
        "memory_bytes": provenance["memory_bytes"],
        "memory_bytes_per_s": short(good.get("device_copy", {}).get("bytes_per_s") or host, DIGITS),
        **_peak_flops(good.get("matmul", {}), profiles),
        "tdp_w": tdp_w,
        "idle_w": idle_w,
        "pcie_bytes_per_s": _above(host),
        **({"nvlink_bytes_per_s": _above(nvlink)} if nvlink > host else {}),
        "compute_capability": str(provenance.get("compute_capability") or ""),
        "source": f"{source_text(provenance)}, {str(provenance['date'])[:10]}",
    }
    return {
        "schema": DEVICE_SCHEMA,
        "gpu": kind,
        "assumptions": ["Its peaks are the highest rates seen: no vendor's figure is known.", *power_assumptions],
        "doubts": [NOT_PROBED.format(", ".join(missing))] if missing else [],
        "provenance": dict(provenance),
        "probes": points_json(probes.values()).get(What.PROBE, {}),
    }


def _peak_flops(products: Mapping[str, float], profiles: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The highest rates seen in fp32, and in any precision of less digits where that is higher."""
    reduced = [products.get(f"{precision}_flops", 0.0) for precision in PRECISIONS if precision != "fp32"]
    fp32 = max([products.get("fp32_flops", 0.0), *seen_flops(profiles, fp32=True)])
    tensor = max([*reduced, *seen_flops(profiles, fp32=False)])
    peaks = {"fp32_flops": _above(fp32 or tensor or 1.0)}
    if tensor > fp32:
        peaks["tensor_fp16_flops"] = _above(tensor)
    return peaks


def power_limits(
    provenance: Mapping[str, Any], probes: Mapping[str, Mapping[str, float]]
) -> tuple[float, float, list[str]]:
    """Power limit and idle power (W), and what of it is assumed."""
    limit_w = provenance.get("power_limit_w")
    idle_w = probes.get("idle", {}).get("power_w")
    if limit_w:
        return limit_w, min(idle_w or 0.0, limit_w), []
    cores = provenance.get("torch_threads") or 1
    assumed = f"It tells no power: {WATTS_A_CORE:g} W for each core in use when busy, a third of that when idle."
    return WATTS_A_CORE * cores, WATTS_A_CORE * cores / 3, [assumed]


def seen_flops(profiles: Sequence[Mapping[str, Any]], *, fp32: bool) -> list[float]:
    return [
        raw["flops_per_sample"] * int(batch) / time_s
        for raw in profiles
        if "flops_per_sample" in raw and (raw["precision"] == "fp32") == fp32
        for batch, time_s in raw["latency_s"].items()
    ]


def seen_loads(profiles: Sequence[Mapping[str, Any]]) -> list[float]:
    return [max(raw["load"]["bytes_per_s"], raw.get("pageable_bytes_per_s", 0.0)) for raw in profiles]


def _above(rate: float) -> float:
    """Rounded up in the fifth digit, so that what was seen is never above what can be."""
    return short(rate * (1 + 10.0 ** (1 - DIGITS)), DIGITS)
