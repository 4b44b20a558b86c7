"""Why measured and simulated differ: the largest error, the times of all actions, and the most likely cause."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan

import numpy as np

from calibrate.serving.served import Actions
from planner.questions.validation.answer import (
    DEVICE_METRICS,
    ROUNDING,
    SHARES,
    Compared,
    Overhead,
    Timing,
    error_of,
)
from planner.questions.validation.recording import Recording
from planner.questions.validation.speed import RehearsedSpeed, of_size
from simulator.world.deployment import Deployment

SAME = 0.02
"""Actions whose times are within this of the profile's, on average, explain nothing."""
SPREAD_OVER_STATED = 1.5
"""Spread over the stated one from which run times count as uneven."""
SPREAD_MIN = 0.01
"""Spread on top of that, so that a profile that states none does not make all run times uneven."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The largest error and its most likely cause, each in a sentence."""

    largest_error: str
    likely_cause: str


def explained(
    rows: Sequence[Compared], times: Sequence[Timing], harness: Overhead, deployment: Deployment, cv: float | None
) -> Explanation:
    """The figure of all models and the device that errs most, and why."""
    errors = [(row, metric, error) for row in rows for metric, error in row.error.items() if isfinite(error)]
    if not errors:
        return Explanation("No figure can be compared: nothing finished.", "Run it longer, or at less load.")
    row, metric, error = max(errors, key=lambda entry: abs(entry[2]))
    if abs(error) < ROUNDING:
        return Explanation("No figure errs.", "None.")
    unit = "points" if metric in SHARES else "%"
    direction = "less" if error < 0 else "more"
    size = figure(abs(error) * 100)
    return Explanation(
        largest_error=f"{metric} of {row.name}: simulated {size} {unit} {direction} than measured.",
        likely_cause=cause(simulated_is_quicker(metric, error), times, harness, deployment, cv),
    )


def figure(value: float) -> str:
    """Three digits, or all of a large number: `2.51`, `1,770`."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def simulated_is_quicker(metric: str, error: float) -> bool:
    """The error is that of a device that is slower than its profile."""
    grows_on_slow_devices = metric.endswith("_s") or metric in DEVICE_METRICS or metric == "mean_batch_size"
    return error < 0 if grows_on_slow_devices else error > 0


# Times of actions


def timings(recording: Recording, speed: RehearsedSpeed) -> tuple[Timing, ...]:
    """Every kind of action that takes time, by model."""
    groups: dict[tuple[str, str], list[Actions]] = {}
    for actions in recording.actions:
        if len(actions.start_s) and actions.expected_s.sum() > 0:
            groups.setdefault((actions.kind, actions.model), []).append(actions)
    return tuple(timing(kind, model, actions, speed) for (kind, model), actions in groups.items())


def timing(kind: str, model: str, groups: Sequence[Actions], speed: RehearsedSpeed) -> Timing:
    """One kind of action of one model, expected to take its profile's time at the speed of the rehearsals."""
    factors = speed.run.get(model, {}) if kind == "run" else {0: speed.load.get(model, 1.0)}
    expected = []
    for actions in groups:
        factor_of_each = [of_size(factors, size) for size in actions.batch.tolist()]
        expected.append(actions.expected_s * factor_of_each)
    expected_s = np.concatenate(expected)
    actual_s = np.concatenate([actions.actual_s for actions in groups])
    known = expected_s > 0
    ratios = actual_s[known] / expected_s[known]
    return Timing(
        kind=kind,
        model=model,
        count=len(expected_s),
        expected_s=float(expected_s.mean()),
        actual_s=float(actual_s.mean()),
        error=error_of("", float(expected_s.mean()), float(actual_s.mean())),
        spread=float(ratios.std()),
    )


def overhead(recording: Recording) -> Overhead:
    """Time that the harness itself took."""
    waits_s = np.concatenate([np.empty(0), *recording.launch_s.values()])
    if not len(waits_s):
        return Overhead(batches=0, mean_s=nan, p99_s=nan, share=nan)
    processes = max(1, len(recording.launch_s))
    return Overhead(
        batches=len(waits_s),
        mean_s=float(waits_s.mean()),
        p99_s=float(np.quantile(waits_s, 0.99)),
        share=float(waits_s.sum()) / (processes * recording.result.duration_s),
    )


# The cause


def cause(slower: bool, times: Sequence[Timing], harness: Overhead, deployment: Deployment, cv: float | None) -> str:
    """The most likely cause of the largest error, where the device seems slower than its profile, or faster."""
    stated = {}
    for service in deployment.services:
        stated[service.model] = service.replicas[0].profile.latency_cv if cv is None else cv
    if text := other_times(times, slower=slower) or uneven_times(times, stated):
        return text
    if harness.batches and harness.share > SAME / 2:
        took = f"{harness.mean_s * 1e3:.3g} ms for each batch, {harness.share * 100:.2g} % of the time"
        return f"The harness took {took}."
    return f"No action differs from what was expected by more than {SAME * 100:.0f} %: chance of one run."


def other_times(times: Sequence[Timing], *, slower: bool) -> str:
    """The action that cost most time in all beyond what was expected, or saved most; empty where none did."""
    sign = 1 if slower else -1
    excess_s = {one: sign * one.count * (one.actual_s - one.expected_s) for one in times if abs(one.error) > SAME}
    worst = max(excess_s, key=excess_s.__getitem__, default=None)
    if worst is None or excess_s[worst] <= 0:
        return ""
    actions = "Batches" if worst.kind == "run" else "Loads"
    share = figure(abs(worst.actual_s / worst.expected_s - 1) * 100)
    direction = "longer" if slower else "less"
    return (
        f"{actions} of {worst.model} took {share} % {direction} than expected: {worst.actual_s * 1e3:.4g} ms instead "
        f"of {worst.expected_s * 1e3:.4g} ms on average ({worst.count})."
    )


def uneven_times(times: Sequence[Timing], stated: Mapping[str, float]) -> str:
    """The batches whose times spread most beyond what was expected; empty where none do."""
    runs = [one for one in times if one.kind == "run"]
    uneven = [one for one in runs if one.spread > SPREAD_OVER_STATED * stated[one.model] + SPREAD_MIN]
    if not uneven:
        return ""
    worst = max(uneven, key=lambda one: one.spread * one.count * one.expected_s)
    return (
        f"Batches of {worst.model} took {worst.spread * 100:.3g} % more or less each time, where "
        f"{stated[worst.model] * 100:.3g} % was expected. On average they took what was expected."
    )
