"""Reading: the JSON of a profile or a device, strictly; every error names its field."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from calibrate.io.reader import Reader, parse, refuse
from calibrate.layers.naming import OWN, options_of
from simulator.world.curves import FORMS, THROUGH_POINTS, Curve, Interpolated, LoadTime, curve_of
from simulator.world.hardware import GPU, device_option
from simulator.world.precision import WEIGHT_BYTES
from simulator.world.profile import AfterLoad, Evidence, FitQuality, Profile, weakest

SCHEMA = "planner.profile/v1"
DEVICE_SCHEMA = "planner.device/v1"
WHAT = {SCHEMA: "a profile", DEVICE_SCHEMA: "a device"}
PRECISIONS = tuple(WEIGHT_BYTES)
"""In order of preference where a question names none: the precision that changes no result comes first."""
QUANTIZED = "int8"
"""The precision that takes another model: a quantized one."""
ROUNDING = 1e-3
"""Share by which a fit may miss its points beyond what it says, for figures are written with few digits."""
USUAL_RUNTIME = "pytorch"
"""Of profiles and questions that name none."""


def parsed_json(path: Path, schema: str = SCHEMA) -> dict[str, Any]:
    """The mapping that a file of a schema holds."""
    return parse(path, f"{WHAT[schema]} of schema {schema}")


def profile_from(raw: dict[str, Any], gpus: Mapping[str, GPU]) -> Profile:
    """The profile that its JSON describes, of a GPU that is known."""
    read = Reader(raw)
    read.schema(SCHEMA)
    gpu = read.one_of("gpu", tuple(gpus))
    precision = read.one_of("precision", PRECISIONS)
    flops = read.maybe("flops_per_sample", read.number)
    published = read.series("latency_s")
    latency, doubts = _raise_doubted(read, published, flops, gpus[gpu].peak_flops(precision))
    tensors = read.series("workspace_bytes")
    slack = read.maybe("slack_bytes", read.series)
    workspace = tensors
    if slack is not None:  # the allocator's, on top of what tensors take
        reserved = (size + slack(batch) for batch, size in zip(tensors.x, tensors.y, strict=True))
        workspace = Interpolated(tensors.x, tuple(reserved))
    model = read.name("model")
    load = read.mapping("load")
    curve, quality, misses = _fitted(read, published)
    if latency != published:  # a fit through points that are not believed is not believed either
        curve, quality, misses = latency, None, ()
    evidence = Evidence(read.one_of("latency_evidence", tuple(Evidence)))
    if evidence is not Evidence.PUBLISHED:  # those of others are no surer for it, and stay theirs
        evidence = _of_all_batches(evidence, latency)
    runtime = read.text_or_empty("runtime") or USUAL_RUNTIME
    profile = Profile(
        model=model,
        gpu=gpu,
        precision=precision,
        runtime=runtime,
        layers=read.layers(model),
        latency=curve,
        latency_fit=quality,
        latency_cv=read.maybe("latency_cv", read.number) or 0.0,
        latency_factors=_factors(read),
        session_cv=read.maybe("session_cv", read.number) or 0.0,
        after_load=_after_load(read),
        beside_load=_beside_load(read),
        host_s=read.maybe("host_s", read.series),
        busy_s=read.maybe("busy_s", read.series),
        workspace=workspace,
        slack=slack,
        context_bytes=read.maybe("context_bytes", lambda key: round(read.not_negative(key))),
        load=LoadTime(load.number("t0_s"), load.number("bytes_per_s")),
        pageable_bytes_per_s=read.maybe("pageable_bytes_per_s", read.number),
        disk_bytes_per_s=read.maybe("disk_bytes_per_s", read.number),
        busy_w=read.maybe("busy_w", read.number),
        flops_per_sample=flops,
        output_bytes_per_sample=int(read.maybe("output_bytes_per_sample", read.number) or 0),
        latency_evidence=Evidence.ASSUMED if latency != published else evidence,
        memory_evidence=_of_all_batches(Evidence(read.one_of("memory_evidence", tuple(Evidence))), workspace),
        load_evidence=Evidence(read.one_of("load_evidence", tuple(Evidence))),
        source=read.text("source"),
        as_of=read.date("as_of"),
        assumptions=read.sentences("assumptions"),
        doubts=(
            *read.sentences("doubts"),
            *misses,
            *doubts,
            *_unseen(model, gpu, runtime, max(latency.x[0], workspace.x[0])),
        ),
    )
    load.nothing_else()
    read.nothing_else()
    return profile


def _factors(read: Reader) -> tuple[tuple[int, tuple[float, ...]], ...]:
    """By batch size, factors of a mean near 1: made to be 1, for rounding leaves a little."""
    found = []
    for batch, factors in sorted(read.lists("latency_factors").items()):
        mean = fmean(factors) if factors else 0.0
        if min(factors, default=0.0) <= 0 or abs(mean - 1) > ROUNDING:
            place = f"latency_factors.{batch}"
            refuse(place, f"must be above 0 with a mean of 1, got a mean of {mean:.3g}", "Divide times by their mean")
        found.append((batch, tuple(factor / mean for factor in sorted(factors))))
    return tuple(found)


def _after_load(read: Reader) -> AfterLoad | None:
    if not read.part("after_load"):
        return None
    ratios = read.mapping("after_load")
    found = AfterLoad(batch_ratio=ratios.positive("batch_ratio"), load_ratio=ratios.positive("load_ratio"))
    ratios.nothing_else()
    return found


def _beside_load(read: Reader) -> float:
    ratio = read.maybe("beside_load", read.number)
    if ratio is not None and not 1 <= ratio <= 2:
        refuse("beside_load", f"must be from 1 to 2, got {ratio:g}", "Write 2 where running at once gains nothing")
    return ratio or 1.0


def device_from(raw: dict[str, Any]) -> GPU | None:
    """The kind of GPU that a device's JSON describes; None where it has none."""
    read = Reader(raw, what=WHAT[DEVICE_SCHEMA])
    read.schema(DEVICE_SCHEMA)
    gpu = _gpu(read.mapping("gpu")) if read.part("gpu") else None
    read.part("provenance")
    read.part("probes")
    probes_evidence(read)
    read.sentences("assumptions")
    read.sentences("doubts")
    read.nothing_else()
    return gpu


def probes_evidence(read: Reader) -> Evidence:
    """How a device's probes are known: measured by whoever plans, where it does not say."""
    said = read.maybe("evidence", lambda key: read.one_of(key, (Evidence.MEASURED, Evidence.ELSEWHERE)))
    return Evidence(said or Evidence.MEASURED)


def _gpu(read: Reader) -> GPU:
    gpu = GPU(
        name=read.name("name"),
        memory_bytes=int(read.positive("memory_bytes")),
        memory_bytes_per_s=read.positive("memory_bytes_per_s"),
        fp32_flops=read.positive("fp32_flops"),
        tensor_fp16_flops=read.maybe("tensor_fp16_flops", read.positive),
        tdp_w=read.not_negative("tdp_w"),
        idle_w=read.not_negative("idle_w"),
        pcie_bytes_per_s=read.positive("pcie_bytes_per_s"),
        nvlink_bytes_per_s=read.maybe("nvlink_bytes_per_s", read.positive),
        compute_capability=read.text_or_empty("compute_capability"),
        source=read.text("source"),
    )
    # A device that does not tell its power has 0 for both.
    if gpu.idle_w > gpu.tdp_w:
        refuse("gpu.idle_w", f"must not be above tdp_w, got {gpu.idle_w:g} and {gpu.tdp_w:g}", "Write both in watts")
    read.nothing_else()
    return gpu


def _fitted(read: Reader, points: Interpolated) -> tuple[Curve, FitQuality | None, tuple[str, ...]]:
    """The curve that `latency_fit` puts through the points, how far it errs, and a doubt where it misses one by more
    than its band: then lines between them stand in, as they do without a fit."""
    if not read.part("latency_fit"):
        return points, None, ()
    fit = read.mapping("latency_fit")
    form = fit.one_of("form", tuple(FORMS))
    quality = FitQuality(
        form=form,
        error_mean=fit.maybe("error_mean", fit.not_negative),
        error_max=fit.maybe("error_max", fit.not_negative),
        error_max_at=fit.maybe("error_max_at", fit.positive),
        band=fit.maybe("band", fit.not_negative),
    )
    curve = curve_of(form, points.x, points.y, _parameters(fit, form))
    fit.nothing_else()
    _agree(curve, quality)
    if missed := _beyond_band(curve, quality):
        return points, None, (missed,)
    return curve, quality, ()


def _beyond_band(curve: Curve, quality: FitQuality) -> str:
    """A doubt where a curve passes a point of its own further away than its band is wide; empty elsewhere."""
    if quality.form in THROUGH_POINTS or quality.band is None:
        return ""
    far = {x: max(curve(x) / y, y / curve(x)) - 1 for x, y in zip(curve.x, curve.y, strict=True) if y > 0}
    at = max(far, key=far.__getitem__, default=0.0)
    if not far or far[at] <= quality.band + ROUNDING:
        return ""
    seen = dict(zip(curve.x, curve.y, strict=True))[at]
    return (
        f"Batch {at:g}: {seen * 1e3:.3g} ms, and {curve(at) * 1e3:.3g} ms by its {quality.form}, beyond its band of"
        f" {quality.band:.1%}; lines between what was measured stand in: fit it again, or measure more batches."
    )


def _parameters(fit: Reader, form: str) -> dict[str, float]:
    if not FORMS[form]:
        fit.part("parameters")
        return {}
    read = fit.mapping("parameters")
    values = {name: read.positive(name) if name == "p" else read.not_negative(name) for name in FORMS[form]}
    read.nothing_else()
    if not any(value for name, value in values.items() if name != "p"):
        refuse("latency_fit.parameters", "are all 0", "Write what was fitted")
    return values


def _agree(curve: Curve, quality: FitQuality) -> None:
    """Refuses a fit that misses its points by more than it says: of other units, or made through other points."""
    if quality.form in THROUGH_POINTS:
        return
    if quality.error_max is None:
        refuse("latency_fit.error_max", "is missing", "Say how far the fit errs at most")
    misses = {x: abs(curve(x) / y - 1) for x, y in zip(curve.x, curve.y, strict=True) if y > 0}
    at = max(misses, key=misses.__getitem__, default=0.0)
    if misses and not misses[at] <= quality.error_max + ROUNDING:
        refuse(
            "latency_fit",
            f"says {curve(at) * 1e3:.3g} ms for batch {at:g}, off by {misses[at]:.1%} where error_max is"
            f" {quality.error_max:.1%}",
            "Fit it to these latency_s, or leave out latency_fit",
        )


def _raise_doubted(
    read: Reader, published: Interpolated, flops: float | None, peak_flops: float
) -> tuple[Interpolated, tuple[str, ...]]:
    """Points the file itself doubts, raised to the least time that the GPU's peak allows; and those doubts."""
    doubted = read.reasons("doubted")
    if not doubted:
        return published, ()
    if unknown := doubted.keys() - set(published.x):
        refuse(f"doubted.{min(unknown):g}", "has no latency_s", "Name a batch size of latency_s")
    if flops is None:
        refuse("doubted", "needs flops_per_sample to say what is possible", "Give flops_per_sample")
    runtime = read.text_or_empty("runtime") or USUAL_RUNTIME
    remedy = f"measure it: {how_to_measure(read.name('model'), read.text('gpu'), runtime)}"
    times_s = dict(zip(published.x, published.y, strict=True))
    doubts = []
    for batch, reason in sorted(doubted.items()):
        parts = [f"Batch {batch:g}: {reason}", remedy]
        least_s = flops * batch / peak_flops
        if times_s[batch] < least_s:
            times_s[batch] = least_s
            parts.insert(1, f"{least_s * 1e3:.3g} ms, the least its GPU's peak allows, stands in")
        doubts.append("; ".join(parts))
    return Interpolated(published.x, tuple(times_s.values())), tuple(doubts)


def _of_all_batches(evidence: Evidence, series: Interpolated) -> Evidence:
    """Evidence for batches that run part-filled too: below the first point, its figure stands in for theirs."""
    return evidence if series.covers(1) else weakest(evidence, Evidence.EXTRAPOLATED)


def how_to_measure(model: str, gpu: str, runtime: str) -> str:
    """The command that measures a model, or takes in what the tool of a runtime wrote that `calibrate` does not run."""
    if runtime == USUAL_RUNTIME:
        return f"`planner calibrate --device {device_option(gpu)} {options_of(model) or OWN}`"
    return f"`planner profiles import FILE --model {model} --gpu {gpu} --runtime {runtime}`"


def _unseen(model: str, gpu: str, runtime: str, first: float) -> Sequence[str]:
    remedy = f"measure them: {how_to_measure(model, gpu, runtime)}"
    return (f"Batches below {first:g}: not measured, its figures stand in; {remedy}",) if first > 1 else ()
