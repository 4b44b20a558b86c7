"""A profile of all that was measured of a model."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from statistics import fmean, median
from typing import Any

import numpy as np

from calibrate.assembling.device import power_limits
from calibrate.assembling.figures import DIGITS, short, short_all, short_by_batch, short_if_any, source_text
from calibrate.assembling.loading import load_fit, load_times, rate_of_disk, warm_loads
from calibrate.assembling.measured import Measured
from calibrate.assembling.memory import (
    bytes_of_weights,
    held_besides,
    layer_value,
    raise_falls,
    raised_workspace,
    sizes_by_batch,
    workspace_sizes,
)
from calibrate.assembling.points import points_json
from calibrate.assembling.runs import (
    counted,
    disturbances,
    held_by_host,
    host_bound,
    slow_clocks,
    slower_by,
    times_apart,
    times_beside_load,
    under_load,
)
from calibrate.devices.provenance import KINDS
from calibrate.io.files import one_line
from calibrate.io.points import NO_WEIGHTS, PointOutcome, Status, What
from calibrate.io.process import ONE_THREAD
from calibrate.layers.naming import profile_name
from calibrate.library import fit
from calibrate.library.possible import NOISE
from calibrate.library.reading import SCHEMA, USUAL_RUNTIME
from simulator.world.curves import THROUGH_POINTS
from simulator.world.hardware import device_option

FACTORS_MAX = 200
"""Factors that a profile keeps of a batch: one of the slowest hundredth's halves each."""
CATALOGUED = frozenset(kind for kind, _ in KINDS.values())


# Profiles


def profile_json(m: Measured) -> dict[str, Any] | None:
    """The profile file of a model; None where no batch was timed or nothing is known of memory."""
    times = m.by_batch(What.LATENCY)
    workspace, memory_evidence, memory_assumptions, memory_doubts = raised_workspace(m)
    weights = bytes_of_weights(m)
    if not times or not workspace or not weights:
        return None
    samples = {batch: short_all(runs_s) for batch, runs_s in counted(times).items()}
    means, load_assumed = under_load(m, {batch: fmean(runs_s) for batch, runs_s in samples.items()})
    repeats_cv = median(fit.coefficient_of_variation(runs_s) for runs_s in samples.values())
    latency, slower = raise_falls(means, max(NOISE, 3 * repeats_cv))
    fitted = fit.fit_latency(latency)
    through_points = latency == means and fitted.form in THROUGH_POINTS
    work = _work(m, weights)
    load, pageable, load_evidence, load_assumptions = load_times(m, weights)
    powers_w = [o.values["power_w"] for o in times.values() if o.values.get("power_w")]  # full batches run when busy
    doubts = [
        *_falls(means, slower),
        *memory_doubts,
        *fit.doubts(fitted, samples, work),
        *_threads(m, samples),
        *disturbances(times),
        *host_bound(times),
        *warm_loads(m),
        *_failures(m),
    ]
    return {
        "schema": SCHEMA,
        "model": m.name,
        "gpu": m.provenance["gpu"],
        "precision": m.settings.precision,
        **({"runtime": m.runtime} if m.runtime != USUAL_RUNTIME else {}),
        "weight_bytes": weights,
        "latency_s": short_by_batch(latency),
        "latency_cv": short(_cv(repeats_cv, fitted), 3),
        **_factors(samples),
        **_doubted_or_fitted(m, latency, work, fitted),
        "workspace_bytes": sizes_by_batch(workspace),
        **held_besides(m),
        **times_apart(times, slower_by(m)),
        **times_beside_load(m, times),
        "load": load,
        **short_if_any("pageable_bytes_per_s", pageable),
        **short_if_any("disk_bytes_per_s", rate_of_disk(m, weights)),
        **short_if_any("busy_w", powers_w[-1] if powers_w else None),
        **short_if_any("flops_per_sample", work.flops_per_sample),
        **short_if_any("output_bytes_per_sample", layer_value(m, "output_bytes_per_sample")),
        "latency_evidence": "measured" if through_points else "fitted",
        "memory_evidence": memory_evidence,
        "load_evidence": load_evidence,
        "source": source_text(m.provenance),
        "as_of": str(m.provenance["date"])[:10],
        "assumptions": [*load_assumed, *memory_assumptions, *load_assumptions, *power_limits(m.provenance, {})[2]],
        "doubts": doubts,
        "measured": _measured(m, fitted, work),
    }


def lacking(m: Measured) -> str:
    """Why measured figures make no profile, and the remedy; empty where there are none or they do."""
    if not any(o.status is Status.OK for o in m.outcomes.values()):
        return ""
    if not m.by_batch(What.LATENCY):
        return "no inference batch was timed. Measure it with --mode inference --resume."
    if not bytes_of_weights(m):
        return NO_WEIGHTS
    return "" if workspace_sizes(m)[0] else "nothing is known of its memory. Measure it in another --out."


def _cv(repeats: float, fitted: fit.SeriesFit) -> float:
    """Spread of one run around the curve: between repeats (of the usual batch), and of the points beside the curve.

    2 % between repeats and 1.5 % beside the curve: 2.5 %.
    """
    points = zip(fitted.curve.x, fitted.curve.y, strict=True)
    return float((repeats**2 + fmean((fitted.curve(batch) / time_s - 1) ** 2 for batch, time_s in points)) ** 0.5)


def _falls(means: Mapping[int, float], slower: Mapping[int, int]) -> Iterator[str]:
    """Batches that were faster than a smaller one, whose time stands in."""
    for batch, top in slower.items():
        yield (
            f"Latency of batch {batch}: {means[batch] * 1e3:.4g} ms, less than the {means[top] * 1e3:.4g} ms of batch"
            f" {top}, which stands in. Measure both again on an idle device, with more --seconds."
        )


def _threads(m: Measured, samples: Mapping[int, Sequence[float]]) -> Iterator[str]:
    """Threads of a processor that may have waited for each other, where times spread widely."""
    threads = m.provenance.get("torch_threads") or 1
    if device_option(m.provenance["gpu"]) == "cpu" and threads > 1 and wide_batches(samples):
        yield f"It computed with {threads} threads. {ONE_THREAD} and measure again."


def wide_batches(samples: Mapping[int, Sequence[float]]) -> list[int]:
    """Batch sizes whose run times spread by more than noise."""
    return [
        batch
        for batch, runs_s in samples.items()
        if len(runs_s) >= fit.SAMPLES_MIN and fit.coefficient_of_variation(runs_s) > fit.CV_MAX
    ]


def _factors(samples: Mapping[int, Sequence[float]]) -> dict[str, dict[str, list[float]]]:
    """Run times over their mean, by batch size, of batches whose spread is no noise around it.

    Of many runs the means of equal shares of them, in order: they have the same mean, and the slowest hundredth stays
    as slow as it was.
    """
    wide = {
        str(batch): short_all([s / fmean(runs_s) for s in shares_of(runs_s, min(FACTORS_MAX, len(runs_s)))])
        for batch, runs_s in ((batch, samples[batch]) for batch in wide_batches(samples))
    }
    return {"latency_factors": wide} if wide else {}


def shares_of(values: Sequence[float], count: int) -> list[float]:
    """Means of so many equal shares of the values, the least first: 1, 2 and 6 in two shares are 4/3 and 14/3."""
    ends = np.linspace(0, len(values), count + 1)
    sums = np.interp(ends, np.arange(len(values) + 1), [0.0, *np.cumsum(np.sort(values))])
    return [float(total) * count / len(values) for total in np.diff(sums)]


def _work(m: Measured, weights: float) -> fit.FitWork:
    """The work of a batch, and the device's measured peaks at this precision."""
    half = "fp16" if "driver" in m.provenance else "bf16"  # as autocast: a CPU has no driver
    computed_in = {"amp": half, "amp-bf16": "bf16", "torch": "fp32" if half == "bf16" else "tf32"}
    precision = computed_in.get(m.settings.precision, m.settings.precision)
    return fit.FitWork(
        flops_per_sample=layer_value(m, "flops_per_sample"),
        bytes_per_sample=2 * (layer_value(m, "activation_bytes_per_sample") or 0.0),
        weight_bytes=weights,
        peak_flops=m.probe("matmul", f"{precision}_flops"),
        peak_bytes_per_s=m.probe("device_copy", "bytes_per_s"),
    )


def _doubted_or_fitted(
    m: Measured, latency: Mapping[int, float], work: fit.FitWork, fitted: fit.SeriesFit
) -> dict[str, Any]:
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


def _training_doubts(m: Measured, optimizer: str) -> list[str]:
    """The same about training steps as about latency: inference rests on none of them."""
    steps = m.by_batch(What.TRAINING, optimizer)
    samples = {batch: outcome.samples["step_s"] for batch, outcome in steps.items()}
    fitted = fit.fit_latency({batch: median(taken) for batch, taken in samples.items()}) if samples else None
    of_fit = fit.doubts(fitted, samples, fit.FitWork()) if fitted else []
    return [*of_fit, *slow_clocks(steps), *_failures(m, optimizer)]


def limits(outcomes: Iterable[PointOutcome]) -> dict[str, dict[str, Any]]:
    """Largest batch that fitted in memory and the smallest that did not, by `inference` and `training.<optimizer>`.

    Where a batch past the largest ended otherwise, also the smallest such one, and how.
    """
    found: dict[str, dict[str, Any]] = {}
    for outcome in sorted(outcomes, key=lambda one: one.point.batch):
        if outcome.point.what is not What.MEMORY:
            continue
        optimizer, batch = outcome.point.optimizer, outcome.point.batch
        phase = found.setdefault(f"training.{optimizer}" if optimizer else "inference", {})
        if outcome.status is Status.OK:
            phase["fits"] = batch
            phase.pop("ended", None)
        elif outcome.status is Status.OUT_OF_MEMORY:
            phase.setdefault("fails", batch)
        elif "ended" not in phase:
            phase["ended"] = {"batch": batch, "how": str(outcome.status), "why": one_line(outcome.message, 200)}
    return {phase: found[phase] for phase in sorted(found) if found[phase]}


def _failures(m: Measured, optimizer: str = "") -> list[str]:
    """Points of inference, or of training with an optimizer, without figures though memory did not end."""
    doubts = []
    for outcome in m.outcomes.values():
        is_meant = outcome.point.optimizer == optimizer
        if is_meant and outcome.status not in (Status.OK, Status.OUT_OF_MEMORY):
            reason = one_line(outcome.message, 200) or "no reason given"
            doubts.append(f"{outcome.point.key}: {outcome.status} ({reason}); {_remedy(outcome)}.")
    return doubts


def _remedy(outcome: PointOutcome) -> str:
    """What may help: an error of the model's code comes again."""
    if outcome.status is not Status.FAILED:
        return "measure it again"
    return "correct the model, or leave that batch out of --batches" if outcome.point.batch else "correct the model"


def _measured(m: Measured, fitted: fit.SeriesFit, work: fit.FitWork) -> dict[str, Any]:
    """Everything that planning does not need: where it was measured, the raw points, and what follows from them."""
    by_host = held_by_host(m.by_batch(What.LATENCY))
    steps = {
        optimizer: {
            str(batch): {name: short(median(taken), DIGITS) for name, taken in outcome.samples.items()}
            for batch, outcome in m.by_batch(What.TRAINING, optimizer).items()
        }
        for optimizer in m.optimizers
    }
    return {
        "provenance": {**m.provenance, **how_measured(m)},
        "model": profile_name(m.model, m.input_shape or ()),
        "settings": asdict(m.settings),
        "regime": {str(int(x)): fit.regime(fitted, x, work, by_host.get(int(x))) for x in fitted.curve.x},
        "knee": short(fitted.knee, 3) if fitted.knee else None,
        "limits": limits(m.outcomes.values()),
        "fits": _fits(m, fitted),
        "training": steps,
        "training_doubts": {optimizer: _training_doubts(m, optimizer) for optimizer in m.optimizers},
        "layers": (layers.details.get("layers", []) if (layers := m.one(What.LAYERS)) else []),
        "points": points_json(m.outcomes.values()),
    }


def how_measured(m: Measured) -> dict[str, Any]:
    """How the model was run; the zoo's inputs go without saying."""
    return asdict(m.settings) | ({"input_shape": m.input_shape} if m.input_shape else {})


def _fits(m: Measured, fitted: fit.SeriesFit) -> dict[str, Any]:
    """Forms through everything that grows with the batch, each with its errors."""
    fits: dict[str, fit.SeriesFit | fit.LoadFit] = {"latency": fitted}
    if memory := _value_by_batch(m.by_batch(What.MEMORY), "allocated_bytes"):
        fits["memory"] = fit.fit_memory(memory)
    if energy := _value_by_batch(m.by_batch(What.LATENCY), "energy_j"):
        fits["energy"] = fit.fit_latency(energy)
    for optimizer in m.optimizers:
        if steps_s := {batch: median(o.samples["step_s"]) for batch, o in m.by_batch(What.TRAINING, optimizer).items()}:
            fits[f"training.{optimizer}"] = fit.fit_latency(steps_s)
    loaded = m.one(What.LOAD)
    for memory_kind in ("pinned", "pageable"):
        if found := loaded and load_fit(loaded, f"{memory_kind}_s"):
            fits[f"load.{memory_kind}"] = found
    return {name: one.to_json() for name, one in fits.items()}


def _value_by_batch(outcomes: Mapping[int, PointOutcome], name: str) -> dict[int, float]:
    return {batch: o.values[name] for batch, o in outcomes.items() if o.values.get(name)}
