"""Possible: figures that no GPU can reach, found in a profile before a plan is built on it."""

from collections.abc import Iterator
from itertools import accumulate

from simulator.world.curves import Curve
from simulator.world.hardware import GPU, with_article
from simulator.world.profile import Evidence, Profile

NOISE = 0.05
"""Share by which a cost may fall as the batch grows before it is no longer noise (or three times the cv, if more)."""

LEFT_OUT_MAX = 4.0
"""Times the GPU's peak that counted operations seem to run at most: Winograd's F(4x4, 3x3) leaves out three of four
multiplications of a convolution (Lavin and Gray, 2015), half of the weights may be 0. Published figures reach 1.7."""


def beyond_peak(profile: Profile, gpu: GPU, flops_per_sample: float) -> list[str]:
    """A doubt where operations that are known by a model's name alone pass the GPU's peak; none elsewhere."""
    peak = gpu.peak_flops(profile.precision) * (1 + 1e-9)
    points = zip(profile.latency.x, profile.latency.y, strict=True)
    times, batch = max((flops_per_sample * x / y / peak, x) for x, y in points)
    if times <= 1:
        return []
    excess = f"Batch {batch:g}: {float(f'{times:.2g}'):,g} times the arithmetic that {with_article(gpu.name)} reaches"
    wrong = "its unit, precision or input is another: mend it"
    if times > LEFT_OUT_MAX:
        return [f"{excess} at {profile.precision}; {wrong}"]
    ways = " or ".join(["Winograd", "sparse weights", *(["TF32"] if peak < gpu.peak_flops("tf32") else [])])
    return [f"{excess} at {profile.precision}; {ways} may do that, else {wrong}"]


CACHED_MAX = 10.0
"""Times the bandwidth of a GPU's memory at which its caches may pass weights that they hold: a T4's L2 reaches 4
(Jia et al., 2019)."""


def beyond_bandwidth(profile: Profile, gpu: GPU) -> list[str]:
    """A doubt where a batch takes less time than its weights take to be read; none elsewhere.

    1 MB in 1 ns are 1 PB/s: over a thousand times the 900 GB/s of a V100.
    """
    time_s, batch = min(zip(profile.latency.y, profile.latency.x, strict=True))
    times = profile.weight_bytes / time_s / gpu.memory_bytes_per_s
    if times <= CACHED_MAX:
        return []
    excess = f"Batch {batch:g}: its weights would be read {float(f'{times:.2g}'):,g} times as fast as the memory of"
    ways = "a batch that reads few of them, such as embeddings, may do that"
    return [f"{excess} {with_article(gpu.name)} can; {ways}, else its unit or its weights are others: mend it"]


def check(profile: Profile, gpu: GPU) -> list[str]:
    """Figures of `profile` that `gpu` cannot reach, a line each; empty where all are possible."""
    signs = _signs(profile)
    return signs or [*_rates(profile, gpu), *_falls(profile), *_sizes(profile, gpu)]


def _signs(profile: Profile) -> list[str]:
    load = profile.load
    above_zero = [
        *_named("latency_s", profile.latency),
        *_named("host_s", profile.host_s),
        *_named("busy_s", profile.busy_s),
        ("load.bytes_per_s", load.bytes_per_s),
        ("pageable_bytes_per_s", profile.pageable_bytes_per_s),
        ("disk_bytes_per_s", profile.disk_bytes_per_s),
        ("busy_w", profile.busy_w),
        ("flops_per_sample", profile.flops_per_sample),
        *((f"weight_bytes of layer {layer.key!r}", layer.weight_bytes) for layer in profile.layers),
    ]
    from_zero = [
        *_named("workspace_bytes", profile.workspace),
        *_named("slack_bytes", profile.slack),
        ("load.t0_s", load.t0_s),
        ("latency_cv", profile.latency_cv),
        ("output_bytes_per_sample", profile.output_bytes_per_sample),
    ]
    low = [(key, value, "be above 0") for key, value in above_zero if value is not None and value <= 0]
    low += [(key, value, "not be below 0") for key, value in from_zero if value < 0]
    return [f"{key}: must {rule}, got {value:g}. Write what was measured" for key, value, rule in low]


def _named(key: str, curve: Curve | None) -> Iterator[tuple[str, float]]:
    """Points of a curve, each by its place in the file."""
    return ((f"{key}.{x:g}", y) for x, y in zip(curve.x, curve.y, strict=True)) if curve else iter(())


def _rates(profile: Profile, gpu: GPU) -> list[str]:
    """Rates above what the GPU can reach: arithmetic by batch, and the host link."""
    peak = gpu.peak_flops(profile.precision) * (1 + 1e-9)
    too_fast = [
        f"latency_s.{x:g}: {profile.flops_per_sample * x / y / 1e12:.1f} TFLOP/s is above the {peak / 1e12:.1f}"
        f" {with_article(gpu.name)} can reach at {profile.precision}. Time it with the device synchronised, or name the"
        " precision it ran at"
        for x, y in zip(profile.latency.x, profile.latency.y, strict=True)
        if profile.flops_per_sample and profile.flops_per_sample * x / y > peak
    ]
    links = {"load.bytes_per_s": profile.load.bytes_per_s, "pageable_bytes_per_s": profile.pageable_bytes_per_s}
    return too_fast + [
        f"{key}: {rate / 1e9:.1f} GB/s is above the {gpu.pcie_bytes_per_s / 1e9:g} GB/s of {with_article(gpu.name)}'s"
        " host link. Time the copy until it has arrived"
        for key, rate in links.items()
        if rate and rate > gpu.pcie_bytes_per_s * (1 + 1e-9)
    ]


def _falls(profile: Profile) -> list[str]:
    """Costs that fall as the batch grows, by more than noise explains."""
    noise = max(NOISE, 3 * profile.latency_cv)
    return [
        *(
            f"latency_s.{x:g}: {y * 1e3:.3g} ms, but a smaller batch takes {top * 1e3:.3g} ms. Measure both again, with"
            " more repeats"
            for x, y, top in _below_earlier(profile.latency, noise)
        ),
        *(
            f"workspace_bytes.{x:g}: {y / 1e9:.3g} GB, but a smaller batch needs {top / 1e9:.3g} GB. Measure the peak"
            " of both in fresh processes"
            for x, y, top in _below_earlier(profile.workspace, NOISE)
        ),
    ]


def _below_earlier(curve: Curve, noise: float) -> list[tuple[float, float, float]]:
    """Points below the highest earlier one by more than `noise`, with that one."""
    points = zip(curve.x, curve.y, accumulate(curve.y, max), strict=True)
    return [(x, y, top) for x, y, top in points if y < top * (1 - noise)]


def _sizes(profile: Profile, gpu: GPU) -> list[str]:
    """Bytes that the GPU cannot hold: what ran on it fitted whole; what is predicted may be split between layers."""
    ran = profile.latency_evidence.rank <= Evidence.FITTED.rank
    needed = profile.weight_bytes if ran else max(layer.weight_bytes for layer in profile.layers)
    if (context_bytes := profile.context_bytes or 0) > gpu.memory_bytes:
        has = f"{context_bytes / 1e9:.3g} GB, {with_article(gpu.name)} has {gpu.memory_bytes / 1e9:g} GB"
        return [f"context_bytes: {has}. Write what a process held there"]
    if needed <= gpu.memory_bytes:
        return []
    what = "its weights are" if ran or len(profile.layers) == 1 else "its largest layer is"
    return [
        f"weight_bytes: {what} {needed / 1e9:.3g} GB, {with_article(gpu.name)} has {gpu.memory_bytes / 1e9:g} GB."
        " Name a GPU that can hold them, or list its layers with evidence weaker than fitted"
    ]
