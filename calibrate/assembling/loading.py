"""Loading of weights: a start and a rate, from host and from disk."""

from collections.abc import Sequence
from statistics import median

from calibrate.assembling.figures import DIGITS, short
from calibrate.assembling.measured import Measured
from calibrate.io.points import PointOutcome, What
from calibrate.library import fit

UNKNOWN_HOST_BYTES_PER_S = 5e9
"""Host memory to device where nothing was measured: half of what PCIe 3.0 x16 reaches."""
FROM_STORAGE = 0.9
"""Share of a file that must be fetched from storage for its reading to count as from disk."""


def load_times(m: Measured, weights: int) -> tuple[dict[str, float], float | None, str, list[str]]:
    """Time to bring the weights in, `t0_s + bytes / bytes_per_s`; rate from pageable memory; evidence; assumptions.

    The rate is that of the device's largest copies where they were probed, else that between parts of the model. What
    the whole model takes beyond it comes from its many tensors: `t0_s`.
    """
    outcome = m.one(What.LOAD)
    pinned = outcome.samples.get("pinned_s") if outcome else None
    pageable = outcome.samples.get("pageable_s") if outcome else None
    if not outcome or not pinned:
        return _unmeasured_load(m, weights, pageable)
    parts = load_fit(outcome, "pinned_s")
    rate = m.probe("copy", "to_device_pinned_bytes_per_s") or (parts.load.bytes_per_s if parts else None)
    load = _through(median(pinned), weights, rate)
    from_pageable = weights / max(median(pageable) - load["t0_s"], 1e-9) if pageable else None
    # A copy through a pinned buffer cannot be faster than the copy from that buffer: less is noise of the timing.
    return load, from_pageable and min(from_pageable, load["bytes_per_s"]), "measured", []


def rate_of_disk(m: Measured, weights: int) -> float | None:
    """Weights over the time from disk to device, where the file was seen to come from storage and from no cache."""
    outcome = m.one(What.LOAD)
    if outcome is None or not outcome.samples.get("disk_s"):
        return None
    share = outcome.details.get("disk", {}).get("share_from_storage")
    return weights / median(outcome.samples["disk_s"]) if share and share > FROM_STORAGE else None


def load_fit(outcome: PointOutcome, kind: str) -> fit.LoadFit | None:
    """Through parts of the model of several sizes, from its first tensors to all."""
    sizes = [part for part in outcome.details.get("sizes", []) if part.get(kind)]
    return fit.fit_load((part["bytes"], median(part[kind])) for part in sizes) if len(sizes) > 1 else None


def _through(whole_s: float, weights: int, rate: float | None) -> dict[str, float]:
    """100 MB in 12 ms at 10 GB/s: 2 ms and 10 GB/s; in 8 ms: nothing and 12.5 GB/s."""
    fixed_s = max(0.0, whole_s - weights / rate) if rate else 0.0
    return {"t0_s": short(fixed_s, DIGITS), "bytes_per_s": short(weights / (whole_s - fixed_s), DIGITS)}


def _unmeasured_load(
    m: Measured, weights: int, pageable: Sequence[float] | None
) -> tuple[dict[str, float], float | None, str, list[str]]:
    """Where weights cannot come from pinned memory, as on a CPU, or their loading was not timed."""
    if pageable:
        assumption = "There is no pinned memory: loading is as from pageable memory."
        return _through(median(pageable), weights, m.probe("copy", "host_bytes_per_s")), None, "measured", [assumption]
    if rate := m.probe("copy", "to_device_pinned_bytes_per_s") or m.probe("copy", "host_bytes_per_s"):
        assumption = "Loading was not timed: taken as bytes over the device's measured copy bandwidth."
        return {"t0_s": 0.0, "bytes_per_s": short(rate, DIGITS)}, None, "assumed", [assumption]
    assumption = f"Loading was not timed and no copy probed: taken as {UNKNOWN_HOST_BYTES_PER_S / 1e9:g} GB/s."
    return {"t0_s": 0.0, "bytes_per_s": UNKNOWN_HOST_BYTES_PER_S}, None, "assumed", [assumption]


def warm_loads(m: Measured) -> list[str]:
    """Loads that may have come from a processor's cache, because memory was too short to empty it."""
    outcome = m.one(What.LOAD)
    if outcome is None or "cooled_bytes" not in outcome.details:
        return []
    touched, cache = (outcome.details[key] / 1e6 for key in ("cooled_bytes", "cache_bytes"))
    return [
        f"Loads were timed with {touched:.0f} MB of a cache of {cache:.0f} MB emptied between them, so they may be too"
        " quick. Allow more with --memory."
    ]
