"""Assemble: what a calibration measured becomes profiles and a device file. Pure but for `write`. Needs no torch.

A profile holds the points it was made of under `measured.points`, so that later points can join them and every figure
be made anew from all.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

from calibrate.devices.device import SHARED_COUNT
from calibrate.devices.nvml import OVERHEATED
from calibrate.devices.provenance import KINDS, differing
from calibrate.io.files import Fault, FileError, lines_json, one_line, read_json, replacing
from calibrate.io.points import OPTIMIZERS, PRECISIONS, Point, PointOutcome, Settings, Status, What, usual
from calibrate.library import fit
from calibrate.library.lookup import DEVICE_FILE, DEVICE_SCHEMA, SCHEMA, USUAL_RUNTIME, profile_file, profile_name
from calibrate.library.possible import NOISE
from calibrate.sweep.journal import Header, JournalError
from calibrate.zoo.sources import RUNTIMES
from simulator.world.curves import THROUGH_POINTS

POWER_CAP = "sw_power_cap"
HELD_UP = "held_up"
"""Of a point that was pooled of several sessions: the largest share of hiccups in one of them."""
HICCUPS_OK = 0.02
"""Share of runs that may be held up: fewer say little."""
LOAD_OK = 0.03
"""Share by which load may slow a batch down and count as noise."""
CLOCK_FALL = 0.05
"""Share by which a clock may fall while a batch is timed."""
UNKNOWN_HOST_BYTES_PER_S = 5e9
"""Host memory to device where nothing was measured: half of what PCIe 3.0 x16 reaches."""
DIGITS = 5
"""Digits of each raw sample: timers tell no more."""
FROM_STORAGE = 0.9
"""Share of a file that must be fetched from storage for its reading to count as from disk."""
WATTS_A_CORE = 10.0
"""Power limit over cores of common server processors, W: EPYC 7763 4.4, Xeon 8480 6.3, Core i9 13900 10.5."""
OPAQUE = "It can be called and nothing more: its weights are what the process grew by as it was made."
COPIES = ("to_device_pinned", "to_device_pageable", "from_device_pinned", "from_device_pageable", "host")
"""Ways that the probe `copy` goes."""
CATALOGUED = frozenset(kind for kind, _ in KINDS.values())
BROKEN = (OSError, ValueError, KeyError, TypeError, AttributeError)
"""Errors that reading a damaged file raises."""


@dataclass(frozen=True, slots=True)
class Measured:
    """All that was measured of one model under one setting, and the probes of the device it ran on."""

    model: str
    settings: Settings
    provenance: Mapping[str, Any]
    outcomes: Mapping[str, PointOutcome]
    """By the point's key."""
    probes: Mapping[str, PointOutcome]
    """By the probe's name."""

    @property
    def name(self) -> str:
        """As profiles name it: `resnet50.448px`, `my.package.factory.3x64x64`."""
        return profile_name(self.model, self.input_shape or (), self.settings.suffix)

    @property
    def runtime(self) -> str:
        """The software that ran it: a file's own, or what the settings say."""
        return RUNTIMES.get(self.model.partition(":")[0], self.settings.runtime)

    def one(self, what: What) -> PointOutcome | None:
        """The outcome of a kind that is measured once, if it went well."""
        return next((o for o in self.outcomes.values() if o.point.what is what and o.status is Status.OK), None)

    def by_batch(self, what: What, optimizer: str = "") -> dict[int, PointOutcome]:
        """Outcomes of a kind that went well, by ascending batch size."""
        found = {
            o.point.batch: o
            for o in self.outcomes.values()
            if o.point.what is what and o.point.optimizer == optimizer and o.status is Status.OK
        }
        return dict(sorted(found.items()))

    @property
    def input_shape(self) -> list[int] | None:
        """One sample of a user's own model; None for the zoo's, which have theirs."""
        return next((o.details["input_shape"] for o in self.outcomes.values() if "input_shape" in o.details), None)

    @property
    def optimizers(self) -> list[str]:
        """Those a training step was measured with."""
        return sorted({o.point.optimizer for o in self.outcomes.values() if o.point.optimizer})

    def probe(self, name: str, value: str) -> float | None:
        """A value of a device probe, None where it was not measured or is 0."""
        return (self.probes[name].values.get(value) or None) if name in self.probes else None


# Profiles


def profile_json(m: Measured) -> dict[str, Any] | None:
    """The profile file of a model; None where no batch was timed or nothing is known of memory."""
    times = m.by_batch(What.LATENCY)
    workspace, memory_evidence, memory_assumptions, memory_doubts = _raised_workspace(m)
    weights = _weight_bytes(m)
    if not times or not workspace or not weights:
        return None
    samples = {batch: short_all(counted_runs(outcome)) for batch, outcome in times.items()}
    means, load_assumed = _under_load(m, {batch: fmean(runs_s) for batch, runs_s in samples.items()})
    repeats_cv = median(fit.coefficient_of_variation(runs_s) for runs_s in samples.values())
    latency, latency_doubts = raise_falls(means, max(NOISE, 3 * repeats_cv), "Latency", "ms", 1e3)
    fitted = fit.fit_latency(latency)
    through_points = latency == means and fitted.form in THROUGH_POINTS
    work = _work(m, weights)
    load, pageable, load_evidence, load_assumptions = _load(m, weights)
    doubts = [
        *latency_doubts,
        *memory_doubts,
        *fit.doubts(fitted, samples, work),
        *_disturbed(times),
        *_bound(times),
        *_warm_loads(m),
        *_failures(m),
    ]
    return {
        "schema": SCHEMA,
        "model": m.name,
        "gpu": m.provenance["gpu"],
        "precision": m.settings.precision,
        **({"runtime": m.runtime} if m.runtime != USUAL_RUNTIME else {}),
        "weight_bytes": weights,
        "latency_s": _by_batch(latency),
        "latency_cv": _short(_cv(repeats_cv, fitted), 3),
        **_doubted_or_fitted(m, latency, work, fitted),
        "workspace_bytes": _sizes_by_batch(workspace),
        **_held_besides(m),
        **_apart(times, _slower(m)),
        **_beside_load(m, times),
        "load": load,
        **_given("pageable_bytes_per_s", pageable),
        **_given("disk_bytes_per_s", _disk_rate(m, weights)),
        **_given("busy_w", _busy_w(times)),
        **_given("flops_per_sample", work.flops_per_sample),
        **_given("output_bytes_per_sample", _layer_value(m, "output_bytes_per_sample")),
        "latency_evidence": "measured" if through_points else "fitted",
        "memory_evidence": memory_evidence,
        "load_evidence": load_evidence,
        "source": _source(m.provenance),
        "as_of": str(m.provenance["date"])[:10],
        "assumptions": [*load_assumed, *memory_assumptions, *load_assumptions, *_power(m.provenance, {})[2]],
        "doubts": doubts,
        "measured": _measured(m, fitted, work),
    }


def lacking(m: Measured) -> str:
    """Why measured figures make no profile, and the remedy; empty where there are none or they do."""
    if not any(o.status is Status.OK for o in m.outcomes.values()):
        return ""
    if not m.by_batch(What.LATENCY):
        return "no inference batch was timed. Measure it with --mode inference --resume."
    if not _weight_bytes(m):
        return "it has no weights, so there is nothing to bring to a device. Measure a model that has parameters."
    return "" if _workspace(m)[0] else "nothing is known of its memory. Measure it in another --out."


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


def _under_load(m: Measured, alone: Mapping[int, float]) -> tuple[dict[int, float], list[str]]:
    """Seconds of a batch on a device that never rests, by batch, and what that says of times alone (`alone`).

    Plans load a device, so its time alone counts only where it is the longer one. Where a row is shorter, the host
    queued a batch while the one before ran, which a server that waits for each batch does not.
    """
    times = m.by_batch(What.LATENCY)
    slower = _slower(m)
    loaded = {batch: _loaded_s(alone_s, times[batch], slower) for batch, alone_s in alone.items()}
    longer = {batch: time_s / alone[batch] - 1 for batch, time_s in loaded.items() if time_s > alone[batch]}
    if not longer:
        return loaded, []
    figures = f"up to {max(longer.values()):.0%} above those of a batch alone"
    why = "back to back" + (f", with kernels {slower - 1:.0%} slower after long load" if slower > 1 else "")
    return loaded, [f"{fit.named_batches(list(longer))}: times are those under load, {figures}: {why}."]


def _loaded_s(alone_s: float, outcome: PointOutcome, slower: float) -> float:
    """The longer of alone and in a row, where they differ by more than a row spreads; its kernels are `slower`.

    10 ms alone, 10.1 in a row, of which kernels take 8, that are 1.25 times slower under load: 12 ms.
    """
    windows_s = outcome.samples.get("sustained_s", ())
    row_s = median(windows_s) if windows_s else alone_s
    differs = row_s > alone_s * (1 + max(LOAD_OK, fit.coefficient_of_variation(windows_s)))
    time_s = row_s if differs else alone_s
    return time_s + (slower - 1) * min(time_s, outcome.values.get("busy_s", time_s))


def _slower(m: Measured) -> float:
    """Time of kernels under load for long over that of a first second: 1 where a soak showed no more than noise."""
    soak = m.one(What.SOAK)
    if soak is None:
        return 1.0
    timed = m.by_batch(What.LATENCY).get(soak.point.batch)
    row_s = timed.samples.get("sustained_s", ()) if timed else ()
    firsts_s = [soak.values["first_s"], *([median(row_s)] if row_s else [])]
    ratio = soak.values["sustained_s"] / min(firsts_s)
    return ratio if ratio > 1 + LOAD_OK else 1.0


def _cv(repeats: float, fitted: fit.Fit) -> float:
    """Spread of one run around the curve: between repeats (of the usual batch), and of the points beside the curve.

    2 % between repeats and 1.5 % beside the curve: 2.5 %.
    """
    points = zip(fitted.curve.x, fitted.curve.y, strict=True)
    return float((repeats**2 + fmean((fitted.curve(batch) / time_s - 1) ** 2 for batch, time_s in points)) ** 0.5)


def _raised_workspace(m: Measured) -> tuple[dict[int, float], str, list[str], list[str]]:
    """`_workspace` where no batch takes less than a smaller one, its evidence, what is assumed, and doubts."""
    seen, evidence, assumptions = _workspace(m)
    held, doubts = raise_falls(seen, NOISE, "Memory", "MB", 1e-6)
    raised = held != seen and evidence == "measured"
    return held, "fitted" if raised else evidence, assumptions, doubts


def _workspace(m: Measured) -> tuple[dict[int, float], str, list[str]]:
    """Peak memory of a batch on top of the weights, by batch size; its evidence, and what is assumed."""
    peaks = m.by_batch(What.MEMORY)
    found = {
        batch: max(0.0, outcome.values["allocated_bytes"] - outcome.values["weights_bytes"])
        for batch, outcome in peaks.items()
        if {"allocated_bytes", "weights_bytes"} <= outcome.values.keys()
    }
    if found:
        return found, "measured", [OPAQUE] if _is_opaque(m) else []
    each = _layer_value(m, "activation_bytes_per_sample")
    if not each:
        return {}, "", []
    assumption = "Memory of a batch was not measured: taken as all activations held at once."
    return {batch: each * batch for batch in m.by_batch(What.LATENCY)}, "assumed", [assumption]


def _is_opaque(m: Measured) -> bool:
    """True where the model could be called and nothing more."""
    loaded = m.one(What.LOAD)
    return loaded is not None and "left_out" in loaded.details


def _held_besides(m: Measured) -> dict[str, Any]:
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
        **({"slack_bytes": _sizes_by_batch(slack)} if any(slack.values()) else {}),
        **({"context_bytes": max(besides)} if min(besides, default=-1) >= 0 else {}),
    }


def _sizes_by_batch(sizes: Mapping[int, float]) -> dict[str, int]:
    return {str(batch): round(size) for batch, size in sizes.items()}


def _weight_bytes(m: Measured) -> int:
    """As they lie on the device where that was measured, else as the layers have them; 0 where neither is known."""
    loaded = m.one(What.LOAD)
    held = [o.values["weights_bytes"] for o in m.by_batch(What.MEMORY).values() if "weights_bytes" in o.values]
    known = [loaded.values.get("weight_bytes") if loaded else None, *held, _layer_value(m, "weight_bytes")]
    return int(next((size for size in known if size), 0))


def _layer_value(m: Measured, name: str) -> float | None:
    layers = m.one(What.LAYERS)
    return (layers.values.get(name) or None) if layers else None


def _work(m: Measured, weights: float) -> fit.FitWork:
    """The work of a batch, and the device's measured peaks at this precision."""
    half = "fp16" if "driver" in m.provenance else "bf16"  # as autocast: a CPU has no driver
    computed_in = {"amp": half, "amp-bf16": "bf16", "torch": "fp32" if half == "bf16" else "tf32"}
    precision = computed_in.get(m.settings.precision, m.settings.precision)
    return fit.FitWork(
        flops_per_sample=_layer_value(m, "flops_per_sample"),
        bytes_per_sample=2 * (_layer_value(m, "activation_bytes_per_sample") or 0.0),
        weight_bytes=weights,
        peak_flops=m.probe("matmul", f"{precision}_flops"),
        peak_bytes_per_s=m.probe("device_copy", "bytes_per_s"),
    )


def _doubted_or_fitted(m: Measured, latency: Mapping[int, float], work: fit.FitWork, fitted: fit.Fit) -> dict[str, Any]:
    """The fit; or batches faster than the best matrix product, on a kind whose peak the catalog has.

    No plan may exceed that peak, so the reader raises such a batch where need be, and no fit can pass through it. A
    device the catalog does not know is taken to reach what was seen, see `device_json`.
    """
    shares = {batch: work.arithmetic_share(batch, time_s) or 0.0 for batch, time_s in latency.items()}
    reasons = {
        str(batch): f"measured as {latency[batch] * 1e3:.4g} ms, {share:.3g} times the rate of the best matrix product"
        for batch, share in shares.items()
        if share > 1
    }
    return {"doubted": reasons} if reasons and m.provenance["gpu"] in CATALOGUED else {"latency_fit": fitted.to_json()}


def _load(m: Measured, weights: int) -> tuple[dict[str, float], float | None, str, list[str]]:
    """Time to bring the weights in, `t0_s + bytes / bytes_per_s`; rate from pageable memory; evidence; assumptions.

    The rate is that of the device's largest copies where they were probed, else that between parts of the model. What
    the whole model takes beyond it comes from its many tensors: `t0_s`.
    """
    outcome = m.one(What.LOAD)
    pinned = outcome.samples.get("pinned_s") if outcome else None
    pageable = outcome.samples.get("pageable_s") if outcome else None
    if not outcome or not pinned:
        return _unmeasured_load(m, weights, pageable)
    parts = _load_fit(outcome, "pinned_s")
    rate = m.probe("copy", "to_device_pinned_bytes_per_s") or (parts.load.bytes_per_s if parts else None)
    load = _through(median(pinned), weights, rate)
    from_pageable = weights / max(median(pageable) - load["t0_s"], 1e-9) if pageable else None
    # A copy through a pinned buffer cannot be faster than the copy from that buffer: less is noise of the timing.
    return load, from_pageable and min(from_pageable, load["bytes_per_s"]), "measured", []


def _disk_rate(m: Measured, weights: int) -> float | None:
    """Weights over the time from disk to device, where the file was seen to come from storage and from no cache."""
    outcome = m.one(What.LOAD)
    if outcome is None or not outcome.samples.get("disk_s"):
        return None
    share = outcome.details.get("disk", {}).get("share_from_storage")
    return weights / median(outcome.samples["disk_s"]) if share and share > FROM_STORAGE else None


def _load_fit(outcome: PointOutcome, kind: str) -> fit.LoadFit | None:
    """Through parts of the model of several sizes, from its first tensors to all."""
    sizes = [part for part in outcome.details.get("sizes", []) if part.get(kind)]
    return fit.fit_load((part["bytes"], median(part[kind])) for part in sizes) if len(sizes) > 1 else None


def _through(whole_s: float, weights: int, rate: float | None) -> dict[str, float]:
    """100 MB in 12 ms at 10 GB/s: 2 ms and 10 GB/s; in 8 ms: nothing and 12.5 GB/s."""
    fixed_s = max(0.0, whole_s - weights / rate) if rate else 0.0
    return {"t0_s": _short(fixed_s, DIGITS), "bytes_per_s": _short(weights / (whole_s - fixed_s), DIGITS)}


def _unmeasured_load(
    m: Measured, weights: int, pageable: Sequence[float] | None
) -> tuple[dict[str, float], float | None, str, list[str]]:
    """Where weights cannot come from pinned memory, as on a CPU, or their loading was not timed."""
    if pageable:
        assumption = "There is no pinned memory: loading is as from pageable memory."
        return _through(median(pageable), weights, m.probe("copy", "host_bytes_per_s")), None, "measured", [assumption]
    if rate := m.probe("copy", "to_device_pinned_bytes_per_s") or m.probe("copy", "host_bytes_per_s"):
        assumption = "Loading was not timed: taken as bytes over the device's measured copy bandwidth."
        return {"t0_s": 0.0, "bytes_per_s": _short(rate, DIGITS)}, None, "assumed", [assumption]
    assumption = f"Loading was not timed and no copy probed: taken as {UNKNOWN_HOST_BYTES_PER_S / 1e9:g} GB/s."
    return {"t0_s": 0.0, "bytes_per_s": UNKNOWN_HOST_BYTES_PER_S}, None, "assumed", [assumption]


def _busy_w(times: Mapping[int, PointOutcome]) -> float | None:
    """Power while the largest batch runs that it is known of: full batches are what a busy device runs."""
    return next((o.values["power_w"] for o in reversed(list(times.values())) if o.values.get("power_w")), None)


def pace_s(outcome: PointOutcome) -> float:
    """Seconds of a batch or a step of a point that was timed, as its profile has them but for what a soak adds."""
    match outcome.point.what:
        case What.LATENCY:
            return _loaded_s(fmean(counted_runs(outcome)), outcome, slower=1.0)
        case What.TRAINING:
            return median(outcome.samples.get("sustained_s") or outcome.samples["step_s"])
    return outcome.values["sustained_s"]


def counted_runs(outcome: PointOutcome) -> Sequence[float]:
    """Times of an inference batch without hiccups, which runs pooled of several sessions have lost already."""
    runs_s = outcome.samples["wall_s"]
    return runs_s if HELD_UP in outcome.details else usual(runs_s)


def held_up(outcome: PointOutcome) -> float:
    """Share of the runs of an inference batch that were hiccups."""
    runs_s = outcome.samples["wall_s"]
    return float(outcome.details.get(HELD_UP, 1 - len(usual(runs_s)) / len(runs_s)))


def _disturbed(times: Mapping[int, PointOutcome]) -> list[str]:
    """Hiccups, clocks that fell or were held down, and other processes, while batches were timed."""
    return [*_held_down(times), *_hiccups(times)]


def _held_down(times: Mapping[int, PointOutcome]) -> list[str]:
    """Clocks that fell or were held down, and other processes, while batches or steps were timed."""
    return [*_lowered(times), *_slowing(times), *_not_alone(times)]


def _hiccups(times: Mapping[int, PointOutcome]) -> Iterator[str]:
    held = {batch: held_up(outcome) for batch, outcome in times.items()}
    if many := [batch for batch, share in held.items() if share > HICCUPS_OK]:
        remedy = "find what else runs there, or expect them in use"
        most = f"{max(held.values()):.0%}"
        yield f"{fit.named_batches(many)}: up to {most} of runs were held up and do not count; {remedy}."


def _lowered(times: Mapping[int, PointOutcome]) -> Iterator[str]:
    slowed = {batch: found for batch, outcome in times.items() if (found := _slowed(outcome))}
    if slowed:
        reasons = ", ".join(sorted(set[str]().union(*slowed.values())))
        remedy = "expect the same in use, or raise the power limit, cool the device, and measure again"
        yield f"{fit.named_batches([*slowed])}: clocks were held down under load ({reasons}); {remedy}."


def _slowing(times: Mapping[int, PointOutcome]) -> Iterator[str]:
    falls = {batch: _clock_fall(outcome.values) for batch, outcome in times.items()}
    if fell := [batch for batch, share in falls.items() if share > CLOCK_FALL]:
        worst = f"the clock fell by up to {max(falls.values()):.0%} during the runs"
        yield f"{fit.named_batches(fell)}: {worst}; cool the device or lock its clocks, and measure again."


def _not_alone(times: Mapping[int, PointOutcome]) -> Iterator[str]:
    if shared := [batch for batch, outcome in times.items() if outcome.values.get("other_processes")]:
        yield f"{fit.named_batches(shared)}: another process was on the device; end it and measure again."


def _slowed(outcome: PointOutcome) -> set[str]:
    return set(outcome.details.get("slow_reasons") or ()) & {*OVERHEATED, POWER_CAP}


def _bound(times: Mapping[int, PointOutcome]) -> list[str]:
    """Batches that the host queues more slowly than the device runs them: the figures are of that host."""
    known = _known_apart(times)
    bound = [batch for batch, values in known.items() if values["host_s"] > values["busy_s"]]
    if not bound:
        return []
    first = known[bound[0]]
    figures = f"{first['host_s'] * 1e3:.3g} ms beside {first['busy_s'] * 1e3:.3g} ms of kernels at batch {bound[0]}"
    remedy = "measure on the host that will serve, or with --cuda-graph or --compile"
    return [
        f"{fit.named_batches(bound)}: the host queues a batch more slowly than the GPU runs it ({figures}); {remedy}."
    ]


def _apart(times: Mapping[int, PointOutcome], slower: float) -> dict[str, dict[str, float]]:
    """Seconds of a batch that are the host's, and that are kernels' under load, by batch."""
    known = _known_apart(times)
    if not known:
        return {}
    return {
        "host_s": _by_batch({batch: values["host_s"] for batch, values in known.items()}),
        "busy_s": _by_batch({batch: slower * values["busy_s"] for batch, values in known.items()}),
    }


def _known_apart(times: Mapping[int, PointOutcome]) -> dict[int, Mapping[str, float]]:
    return {batch: o.values for batch, o in times.items() if {"host_s", "busy_s"} <= o.values.keys()}


def _beside_load(m: Measured, times: Mapping[int, PointOutcome]) -> dict[str, float]:
    """How many times as long a batch and a load take while both run, where that is more than noise.

    What they took beyond the longer of the two, over the shorter, which they share; of all batch sizes together. A
    batch of 10 ms and a load of 4 ms that are both done after 12: 1 + 2 / 4.
    """
    loaded = m.one(What.LOAD)
    if loaded is None or not loaded.samples.get("pinned_s"):
        return {}
    load_s = median(loaded.samples["pinned_s"])
    seen = [(fmean(counted_runs(o)), o.values["beside_load_s"]) for o in times.values() if "beside_load_s" in o.values]
    shared_s = sum(min(alone_s, load_s) for alone_s, _ in seen)
    beyond_s = sum(both_s - max(alone_s, load_s) for alone_s, both_s in seen)
    if beyond_s <= LOAD_OK * shared_s:
        return {}
    return {"beside_load": _short(min(2.0, 1 + beyond_s / shared_s), DIGITS)}


def _training_doubts(m: Measured, optimizer: str) -> list[str]:
    """The same about training steps as about latency: inference rests on none of them."""
    steps = m.by_batch(What.TRAINING, optimizer)
    samples = {batch: outcome.samples["step_s"] for batch, outcome in steps.items()}
    fitted = fit.fit_latency({batch: median(taken) for batch, taken in samples.items()}) if samples else None
    of_fit = fit.doubts(fitted, samples, fit.FitWork()) if fitted else []
    return [*of_fit, *_held_down(steps), *_failures(m, optimizer)]


def _warm_loads(m: Measured) -> list[str]:
    """Loads that may have come from a processor's cache, because memory was too short to empty it."""
    outcome = m.one(What.LOAD)
    if outcome is None or "cooled_bytes" not in outcome.details:
        return []
    touched, cache = (outcome.details[key] / 1e6 for key in ("cooled_bytes", "cache_bytes"))
    return [
        f"Loads were timed with {touched:.0f} MB of a cache of {cache:.0f} MB emptied between them, so they may be too"
        " quick. Allow more with --memory."
    ]


def _clock_fall(values: Mapping[str, float]) -> float:
    start, end = values.get("clock_start_mhz"), values.get("clock_end_mhz")
    return 1 - end / start if start and end is not None else 0.0


def limits(outcomes: Iterable[PointOutcome]) -> dict[str, dict[str, int]]:
    """Largest batch that fitted in memory and the smallest that did not, by `inference` and `training.<optimizer>`."""
    found: dict[str, dict[str, int]] = {}
    for outcome in outcomes:
        if outcome.point.what is not What.MEMORY:
            continue
        phase = found.setdefault(_phase(outcome.point), {})
        batch = outcome.point.batch
        if outcome.status is Status.OK:
            phase["fits"] = max(batch, phase.get("fits", batch))
        if outcome.status is Status.OUT_OF_MEMORY:
            phase["fails"] = min(batch, phase.get("fails", batch))
    return {phase: found[phase] for phase in sorted(found) if found[phase]}


def _phase(point: Point) -> str:
    return f"training.{point.optimizer}" if point.optimizer else "inference"


def _failures(m: Measured, optimizer: str = "") -> list[str]:
    """Points of inference, or of training with an optimizer, without figures though memory did not end."""
    doubts = []
    for outcome in m.outcomes.values():
        is_meant = outcome.point.optimizer == optimizer
        if is_meant and outcome.status not in (Status.OK, Status.OUT_OF_MEMORY):
            reason = one_line(outcome.message, 200) or "no reason given"
            doubts.append(f"{outcome.point.key}: {outcome.status} ({reason}); measure it again.")
    return doubts


def _measured(m: Measured, fitted: fit.Fit, work: fit.FitWork) -> dict[str, Any]:
    """Everything that planning does not need: where it was measured, the raw points, and what follows from them."""
    return {
        "provenance": {**m.provenance, **_how(m)},
        "model": profile_name(m.model, m.input_shape or ()),
        "settings": asdict(m.settings),
        "regime": {str(int(x)): fit.regime(fitted, x, work) for x in fitted.curve.x},
        "knee": _short(fitted.knee, 3) if fitted.knee else None,
        "limits": limits(m.outcomes.values()),
        "fits": _fits(m, fitted),
        "training": {optimizer: _steps(m, optimizer) for optimizer in m.optimizers},
        "training_doubts": {optimizer: _training_doubts(m, optimizer) for optimizer in m.optimizers},
        "layers": (layers.details.get("layers", []) if (layers := m.one(What.LAYERS)) else []),
        "points": points_json(m.outcomes.values()),
    }


def _how(m: Measured) -> dict[str, Any]:
    """How the model was run; the zoo's inputs go without saying."""
    return asdict(m.settings) | ({"input_shape": m.input_shape} if m.input_shape else {})


def _fits(m: Measured, fitted: fit.Fit) -> dict[str, Any]:
    """Forms through everything that grows with the batch, each with its errors."""
    fits: dict[str, fit.Fit | fit.LoadFit] = {"latency": fitted}
    if memory := _value_by_batch(m.by_batch(What.MEMORY), "allocated_bytes"):
        fits["memory"] = fit.fit_memory(memory)
    if energy := _value_by_batch(m.by_batch(What.LATENCY), "energy_j"):
        fits["energy"] = fit.fit_latency(energy)
    for optimizer in m.optimizers:
        if steps_s := {batch: median(o.samples["step_s"]) for batch, o in m.by_batch(What.TRAINING, optimizer).items()}:
            fits[f"training.{optimizer}"] = fit.fit_latency(steps_s)
    loaded = m.one(What.LOAD)
    for memory_kind in ("pinned", "pageable"):
        if load_fit := loaded and _load_fit(loaded, f"{memory_kind}_s"):
            fits[f"load.{memory_kind}"] = load_fit
    return {name: one.to_json() for name, one in fits.items()}


def _value_by_batch(outcomes: Mapping[int, PointOutcome], name: str) -> dict[int, float]:
    return {batch: o.values[name] for batch, o in outcomes.items() if o.values.get(name)}


def _steps(m: Measured, optimizer: str) -> dict[str, dict[str, float]]:
    """Median of a step and its parts, by batch."""
    steps = {}
    for batch, outcome in m.by_batch(What.TRAINING, optimizer).items():
        steps[str(batch)] = {name: _short(median(taken), DIGITS) for name, taken in outcome.samples.items()}
    return steps


# Points in files


def _point_kind(what: What, optimizer: str) -> str:
    """`latency`, `memory.adam`."""
    return f"{what}.{optimizer}" if optimizer else str(what)


POINT_KINDS = {_point_kind(what, optimizer): (what, optimizer) for what in What for optimizer in ("", *OPTIMIZERS)}
"""What a kind of points in a file is of."""


def points_json(outcomes: Iterable[PointOutcome]) -> dict[str, Any]:
    """Outcomes by kind (and optimizer), then by batch, 0 where there is none; `outcomes_of` reads them."""
    kinds = list(What)
    listed: dict[str, dict[str, Any]] = {}
    for outcome in sorted(outcomes, key=lambda o: (kinds.index(o.point.what), o.point.optimizer, o.point.batch)):
        point = outcome.point
        of_kind = listed.setdefault(_point_kind(point.what, point.optimizer), {})
        of_kind[point.probe or str(point.batch)] = _point_json(outcome)
    return listed


def _point_json(outcome: PointOutcome) -> dict[str, Any]:
    raw: dict[str, Any] = {"status": str(outcome.status)}
    if outcome.message:
        raw["message"] = one_line(outcome.message, 200)
    raw["values"] = {name: _short(value, 2 * DIGITS) for name, value in outcome.values.items()}
    raw["samples"] = {name: short_all(taken) for name, taken in outcome.samples.items()}
    # Layers stand beside the points, where planning reads them.
    if outcome.details and outcome.point.what is not What.LAYERS:
        raw["details"] = outcome.details
    return raw | {"took_s": _short(outcome.took_s, 3)}


def outcomes_of(points: Mapping[str, Any], model: str, settings: Settings, layers: Any = ()) -> list[PointOutcome]:
    """The outcomes that `points_json` wrote, `layers` in their place."""
    found = []
    for kind, by_key in points.items():
        what, optimizer = POINT_KINDS[kind]
        for key, raw in by_key.items():
            named = {"probe": key} if what is What.PROBE else {"model": model, "batch": int(key), "settings": settings}
            point = Point(what=what, optimizer=optimizer, **named)
            details = {"layers": layers} if point.what is What.LAYERS and layers else raw.get("details", {})
            found.append(PointOutcome.from_json({**raw, "point": asdict(point), "details": details}))
    return found


# The device


def device_json(
    provenance: Mapping[str, Any], probes: Mapping[str, PointOutcome], profiles: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The device file: the device as a kind of GPU (`simulator.world.hardware.GPU`), and every probe with its samples.

    No vendor's figure is known here: its peaks are the highest rates that were seen, of probes and of models.
    """
    good = {name: outcome.values for name, outcome in probes.items() if outcome.status is Status.OK}
    copies = good.get("copy", {})
    copied = [copies[rate] for way in COPIES if (rate := f"{way}_bytes_per_s") in copies]
    host = max([*copied, *_seen_loads(profiles)], default=UNKNOWN_HOST_BYTES_PER_S)
    tdp_w, idle_w, power_assumptions = _power(provenance, good)
    kind = {
        "name": provenance["gpu"],
        "memory_bytes": provenance["memory_bytes"],
        "memory_bytes_per_s": _short(good.get("device_copy", {}).get("bytes_per_s") or host, DIGITS),
        **_peak_flops(good.get("matmul", {}), profiles),
        "tdp_w": tdp_w,
        "idle_w": idle_w,
        "pcie_bytes_per_s": _above(host),
        **_nvlink(good.get("links", {}), host),
        "compute_capability": str(provenance.get("compute_capability") or ""),
        "source": f"{_source(provenance)}, {str(provenance['date'])[:10]}",
    }
    return {
        "schema": DEVICE_SCHEMA,
        "gpu": kind,
        "assumptions": ["Its peaks are the highest rates seen: no vendor's figure is known.", *power_assumptions],
        "doubts": _not_probed(good),
        "provenance": dict(provenance),
        "probes": points_json(probes.values()).get(What.PROBE, {}),
    }


def _peak_flops(products: Mapping[str, float], profiles: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The highest rates seen in fp32, and in any precision of less digits where that is higher."""
    reduced = [products.get(f"{precision}_flops", 0.0) for precision in PRECISIONS if precision != "fp32"]
    fp32 = max([products.get("fp32_flops", 0.0), *_seen_flops(profiles, fp32=True)])
    tensor = max([*reduced, *_seen_flops(profiles, fp32=False)])
    peaks = {"fp32_flops": _above(fp32 or tensor or 1.0)}
    if tensor > fp32:
        peaks["tensor_fp16_flops"] = _above(tensor)
    return peaks


def _nvlink(links: Mapping[str, float], host: float) -> dict[str, float]:
    """The slowest copy between two GPUs, where all are faster than those to the host."""
    slowest = min(links.values(), default=0.0)
    return {"nvlink_bytes_per_s": _above(slowest)} if slowest > host else {}


def _power(provenance: Mapping[str, Any], probes: Mapping[str, Mapping[str, float]]) -> tuple[float, float, list[str]]:
    """Power limit and idle power (W), and what of it is assumed."""
    limit_w = provenance.get("power_limit_w")
    idle_w = probes.get("idle", {}).get("power_w")
    if limit_w:
        return limit_w, min(idle_w or 0.0, limit_w), []
    cores = provenance.get("torch_threads") or 1
    assumed = f"It tells no power: {WATTS_A_CORE:g} W for each core in use when busy, a third of that when idle."
    return WATTS_A_CORE * cores, WATTS_A_CORE * cores / 3, [assumed]


def _not_probed(probes: Mapping[str, Mapping[str, float]]) -> list[str]:
    missing = [name for name in ("matmul", "copy", "device_copy") if not probes.get(name)]
    if not missing:
        return []
    return [f"Not probed: {', '.join(missing)}: models stand for its peaks. Measure it with --mode device --resume."]


def _seen_flops(profiles: Sequence[Mapping[str, Any]], *, fp32: bool) -> list[float]:
    return [
        raw["flops_per_sample"] * int(batch) / time_s
        for raw in profiles
        if "flops_per_sample" in raw and (raw["precision"] == "fp32") == fp32
        for batch, time_s in raw["latency_s"].items()
    ]


def _seen_loads(profiles: Sequence[Mapping[str, Any]]) -> list[float]:
    return [max(raw["load"]["bytes_per_s"], raw.get("pageable_bytes_per_s", 0.0)) for raw in profiles]


def _above(rate: float) -> float:
    """Rounded up in the fifth digit, so that what was seen is never above what can be."""
    return _short(rate * (1 + 10.0 ** (1 - DIGITS)), DIGITS)


# Files


def write(outcomes: Sequence[PointOutcome], header: Header, out: Path) -> list[Path]:
    """Profiles and the device file under `out/<gpu>`, joined with what earlier runs on the same device left there.

    Each is written whole or not at all. Raises `JournalError` after all that can be written is.
    """
    directory = out / str(header.provenance["gpu"])
    device = directory / DEVICE_FILE
    errors: list[str] = []
    probes = _kept_probes(device, header.provenance, errors)
    probes |= {o.point.probe: o for o in outcomes if o.point.what is What.PROBE}
    good_probes = {name: o for name, o in probes.items() if o.status is Status.OK}
    made = []
    for (model, settings), group in _by_model(outcomes).items():
        measured = Measured(model, settings, header.provenance, {o.point.key: o for o in group}, good_probes)
        path = directory / file_name(measured)
        joined = _joined(path, measured, errors)
        if joined and (raw := profile_json(joined)):
            write_file(path, _as_swapped(path, raw))
            made.append(path)
    if errors:
        raise JournalError("\n".join(errors))
    write_file(device, device_json(header.provenance, probes, _profiles(directory)))
    return [*made, device]


def file_name(m: Measured) -> str:
    """The profile's file under its device's folder."""
    return profile_file(m.name, m.settings.precision)


def _by_model(outcomes: Sequence[PointOutcome]) -> dict[tuple[str, Settings], list[PointOutcome]]:
    found: dict[tuple[str, Settings], list[PointOutcome]] = {}
    for outcome in outcomes:
        if outcome.point.what is not What.PROBE:
            found.setdefault((outcome.point.model, outcome.point.settings), []).append(outcome)
    return found


def _joined(path: Path, m: Measured, errors: list[str]) -> Measured | None:
    """With the points that a profile of the same device, software and settings already holds; the new ones count."""
    try:
        kept = read(path)
        if kept is None:
            return m
        if "sessions" in kept["measured"]:
            remedy = "Name another --out, then join both: planner profiles join"
            errors.append(f"{path}: holds several sessions, to which no points are added. {remedy}.")
            return None
        was = kept["measured"]["provenance"]
        old = outcomes_of(kept["measured"]["points"], m.model, m.settings, kept["measured"]["layers"])
    except BROKEN as error:
        errors.append(broken(path, error))
        return None
    if not _same(path, was, {**m.provenance, **_how(m)}, errors):
        return None
    return replace(m, outcomes={o.point.key: o for o in old} | dict(m.outcomes))


def _as_swapped(path: Path, raw: dict[str, Any]) -> dict[str, Any]:
    """The profile with what swapping was seen to cost, which is measured apart, as its file has it."""
    kept = read(path) or {}
    if "after_load" not in kept:
        return raw
    measured = {**raw["measured"], "after_load": kept["measured"].get("after_load", {})}
    return {**raw, "after_load": kept["after_load"], "measured": measured}


def _kept_probes(path: Path, provenance: Mapping[str, Any], errors: list[str]) -> dict[str, PointOutcome]:
    try:
        kept = read(path)
        if kept is None or not _same(path, kept["provenance"], provenance, errors):
            return {}
        return {o.point.probe: o for o in outcomes_of({What.PROBE: kept["probes"]}, "", Settings())}
    except BROKEN as error:
        errors.append(broken(path, error))
        return {}


def broken(path: Path, error: Exception) -> str:
    why = error.strerror if isinstance(error, OSError) else "it is no whole file of a calibration"
    return f"{path}: cannot be read ({why}). Move it away, then continue with --resume."


def _same(path: Path, was: Mapping[str, Any], now: Mapping[str, Any], errors: list[str]) -> bool:
    """True where figures may stand together; else an error names the key that differs."""
    if (found := differing(was, now)) is None:
        return True
    key, old, new = found
    remedy = "Move the file away, then the same command with --resume writes it anew"
    errors.append(f"{path}: {key} was {old}, now it is {new}: such figures are not mixed. {remedy}.")
    return False


def _profiles(directory: Path) -> list[dict[str, Any]]:
    """Those that are whole: a broken one says so to whoever plans with it."""
    found = []
    for path in sorted(directory.glob("*.json")):
        with suppress(*BROKEN):
            raw = read(path) if path.name != DEVICE_FILE else None
            if raw and _seen_loads([raw]) and _seen_flops([raw], fp32=raw["precision"] == "fp32") is not None:
                found.append(raw)
    return found


def read(path: Path) -> dict[str, Any] | None:
    """A file of ours; None where there is none. One of `BROKEN` where it is damaged."""
    try:
        raw = read_json(path)
    except FileError as error:
        if error.fault is Fault.MISSING:
            return None
        raise
    return raw if isinstance(raw, dict) and raw.get("schema") in (SCHEMA, DEVICE_SCHEMA) else None


def write_file(path: Path, raw: Mapping[str, Any]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(f"{lines_json(raw)}\n".encode())
    except OSError as error:
        remedy = "Make room, or let it be written, then continue with --resume"
        raise JournalError(f"{path}: cannot be written ({error.strerror}). {remedy}.") from error


# Words and numbers


def _source(provenance: Mapping[str, Any]) -> str:
    return f"planner calibrate on {provenance.get('gpu_name') or provenance['gpu']}"


def _short(value: float, digits: int) -> float:
    """Rounded to so many digits; whole numbers stay whole."""
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 2**53 else rounded


def short_all(samples: Sequence[float]) -> list[float]:
    return [_short(sample, DIGITS) for sample in samples]


def _by_batch(series: Mapping[int, float]) -> dict[str, float]:
    return {str(batch): _short(value, DIGITS) for batch, value in series.items()}


def _given(key: str, value: float | None) -> dict[str, float]:
    """The key with its figure; nothing where there is none."""
    return {key: _short(value, 2 * DIGITS)} if value else {}
