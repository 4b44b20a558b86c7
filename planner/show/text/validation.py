"""Validation for people: measured beside simulated as tables and JSON."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from math import exp, isfinite, log
from statistics import fmean
from typing import Any

from planner.questions.validation.answer import (
    ROUNDING,
    SAME,
    SCHEMA,
    SHARES,
    Cause,
    CauseKind,
    Compared,
    Coverage,
    Timing,
    Validation,
)
from planner.questions.validation.speed import RehearsedSpeed
from planner.show.document import Column, Document, Rows, Section, Table, Text, Tone, View
from planner.show.forms import written
from planner.units.writing import Format, Screen, counted, per_second, seconds, share

DISTURBING_CORES = 0.2
"""What other programs may use of the processor without being mentioned."""


def hundredths(value: float) -> str:
    """`3.27`."""
    return f"{value:.2f}"


def fraction(value: float) -> str:
    """`98.31 %`."""
    return share(value, 2)


def exact_gigabytes(size_bytes: float) -> str:
    """`3.271 GB`."""
    return f"{size_bytes / 1e9:.3f} GB"


METRICS: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "p50_s": ("p50", seconds),
    "p95_s": ("p95", seconds),
    "p99_s": ("p99", seconds),
    "mean_s": ("mean", seconds),
    "slo_attainment": ("within the SLO", fraction),
    "throughput_rps": ("throughput", per_second),
    "mean_batch_size": ("formed batch", hundredths),
    "processed_fraction": ("processed", fraction),
    "utilization": ("time running", fraction),
    "load_share": ("time loading", fraction),
    "peak_memory_bytes": ("peak memory", exact_gigabytes),
}
"""Names of the metrics for people, and how their figures are written."""
FAR = 1.5
"""Times the profiles' from which a device is not the one that was profiled: within a computing centre, GPUs of one kind
differ by up to 1.22 times (Sinha et al., SC 2022)."""
PROFILE_AGAIN = (
    "Profiles are of another state of that device. Serve with the threads and the load with which they were measured, "
    "or measure anew into another --profiles DIR."
)


MEASURE_THOSE = "Measure those that are far off anew, into another --profiles DIR."
MACHINE = {
    "gpu_name": "gpu name",
    "host_cpu": "host cpu",
    "host_cores": "host cores",
    "torch_threads": "torch threads",
    "driver": "driver",
    "cuda": "cuda",
    "torch": "torch",
    "python": "python",
}
"""Of the machine of a run."""


def machine_line(answer: Validation) -> str:
    """The machine a run was recorded on: device, versions, date."""
    known = answer.machine
    parts = [f"{name} {known[key]}" for key, name in MACHINE.items() if known.get(key) not in (None, "")]
    return ", ".join([*parts, f"recorded {answer.created_at[:10]}"])


def figure(metric: str, value: float) -> str:
    """A value in the unit of its metric."""
    _, show = METRICS[metric]
    return show(value) if isfinite(value) else "-"


def error(metric: str, value: float) -> str:
    """`+2.1 %`, or of shares `-0.4 points`."""
    if not isfinite(value):
        return "-"
    shown = f"{value * 100:+.1f}".replace("-0.0", "+0.0")
    return f"{shown} points" if metric in SHARES else f"{shown} %"


def span(metric: str, interval: tuple[float, float]) -> str:
    """`71.2 ms to 80.1 ms`."""
    low, high = (figure(metric, end) for end in interval)
    return low if low == high else f"{low} to {high}"


def render(answer: Validation, form: Format, screen: Screen) -> str:
    """The comparison in one of the formats."""
    return written(answer, document, form, screen, as_json)


def as_json(answer: Validation) -> dict[str, Any]:
    """Keys of `planner.validation/v2`."""
    raw = asdict(answer)
    raw["coverage"]["share"] = answer.coverage.share
    return {"schema": SCHEMA, **raw}


def document(answer: Validation) -> Document:
    """The largest error first, then every figure."""
    rows = (*answer.models, answer.device)
    return Document(
        name=answer.scenario,
        headline=headline(answer),
        lead=[
            Text(f"{machine_line(answer)}.", views=frozenset({View.MARKDOWN})),
            *(Text(line, Tone.WARN) for line in spoilt_by(answer)),
            *map(Text, summary(answer)),
        ],
        sections=[
            *(Section(row.name, [Table(columns(row), misses(row))]) for row in rows),
            Section("What memory is held for", [Table(memory_columns(answer))]),
            Section("What actions took", [Table(action_columns(answer))]),
        ],
    )


def spoilt_by(answer: Validation) -> Iterator[str]:
    """Whatever makes the run worth less."""
    if answer.stopped:
        yield f"Stopped early: {answer.stopped}"
    others = answer.others_cores or 0.0
    if others > DISTURBING_CORES:
        yield f"Disturbed: other programs kept {others:.1f} cores busy meanwhile. Run it on an idle machine."


def headline(answer: Validation) -> str:
    """The run in one line."""
    requests = counted(answer.requests, "request")
    return f"{answer.scenario} on {answer.device.name}: {requests} in {answer.duration_s:g} s, measured and simulated"


def summary(answer: Validation) -> list[str]:
    """Largest error, its cause, how honest the intervals are, what the harness took."""
    over = answer.overhead
    speed = [speed_line(answer.speeds, models_apart(answer))] if any(one.run for one in answer.speeds) else []
    if answer.by_profiles:
        speed = [f"Speed: as the profiles have it{beside_others(answer.speeds[0])}; the rehearsals are left out."]
    took = f"{over.mean_s * 1e6:.0f} us a batch on average, {over.p99_s * 1e3:.2f} ms in the slowest of 100"
    return [
        f"Largest error: {largest_error(answer)}",
        f"Likely cause: {likely_cause(answer)}",
        *speed,
        coverage_line(answer.coverage),
        f"Harness: {took}, {over.share * 100:.2f} % of the time." if over.batches else "Harness: no batch was started.",
    ]


def largest_error(answer: Validation) -> str:
    """`lenet, p99: simulated 2.51 % less than measured.`"""
    worst = answer.largest_error
    if worst is None:
        return "No figure can be compared: nothing finished."
    if abs(worst.error) < ROUNDING:
        return "No figure errs."
    unit = "points" if worst.metric in SHARES else "%"
    direction = "less" if worst.error < 0 else "more"
    size = three_digits(abs(worst.error) * 100)
    return f"{worst.name}, {METRICS[worst.metric][0]}: simulated {size} {unit} {direction} than measured."


def likely_cause(answer: Validation) -> str:
    """What explains most of the largest error, and how much; chance where nothing explains enough."""
    if answer.largest_error is None:
        return "Run it longer, or at less load."
    if abs(answer.largest_error.error) < ROUNDING:
        return "None."
    if not answer.causes:
        return f"No action differs from what was expected by more than {SAME * 100:.0f} %: {unexplained(answer)}."
    if answer.likely_cause is None:
        return f"Nothing that differs from what was expected explains it: {unexplained(answer)}."
    explained = f"That explains {min(answer.likely_cause.share, 1) * 100:.0f} % of the error."
    return f"{difference(answer, answer.likely_cause)} {explained}"


def unexplained(answer: Validation) -> str:
    """The state of the device where that was far from what its profiles say, or others used it; else chance."""
    if (answer.others_cores or 0.0) > DISTURBING_CORES:
        return "other programs, which came and went"
    if apart := models_apart(answer):
        return apart
    if far := far_speeds(answer.speeds):
        return f"the device, which took {far[0]:.3g} to {far[-1]:.3g} times what profiles say, runs unevenly"
    return "chance of one run"


def far_speeds(speeds: Sequence[RehearsedSpeed]) -> list[float]:
    """Run times of all rehearsals over those of the profiles, the least first; empty where none is far off."""
    seen = sorted(ratio for one in speeds for ratio in (one.before, one.after) if ratio is not None)
    return seen if any(ratio > FAR or ratio < 1 / FAR for ratio in seen) else []


def difference(answer: Validation, cause: Cause) -> str:
    """How a part of the run differed from what was expected."""
    if cause.kind is CauseKind.HARNESS:
        over = answer.overhead
        rehearsed_ms = f"{over.rehearsed_mean_s * 1e3:.3g} ms"
        return f"The harness took {over.mean_s * 1e3:.3g} ms for each batch, in the rehearsals {rehearsed_ms}."
    kind = cause.kind.value if cause.kind in (CauseKind.LOAD, CauseKind.WORK) else "run"
    timing = next(one for one in answer.timings if (one.kind, one.model) == (kind, cause.model))
    return uneven_times(timing) if cause.kind is CauseKind.SPREAD else other_times(timing)


def other_times(one: Timing) -> str:
    """`Batches of lenet took 12 % longer than expected: 1.12 ms instead of 1 ms on average (594).`"""
    actions = {"run": "Batches", "work": "Items"}.get(one.kind, "Loads")
    share = three_digits(abs(one.actual_s / one.expected_s - 1) * 100)
    direction = "longer" if one.actual_s > one.expected_s else "less"
    times_ms = f"{one.actual_s * 1e3:.4g} ms instead of {one.expected_s * 1e3:.4g} ms on average"
    return f"{actions} of {one.model} took {share} % {direction} than expected: {times_ms} ({one.count})."


def uneven_times(one: Timing) -> str:
    """`Batches of lenet took 21 % more or less each time, where 5 % was expected.`"""
    expected = f"{(one.expected_spread or 0) * 100:.3g} %"
    return (
        f"Batches of {one.model} took {one.spread * 100:.3g} % more or less each time, where {expected} was expected."
    )


def three_digits(value: float) -> str:
    """Three digits, or all of a large number: `2.51`, `1,770`."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def models_apart(answer: Validation) -> str:
    """`batches of lenet took 6.5 times what its profile says (3 % of all run time), of tags 1.03 times (97 %)`; empty
    where models do not differ much. One mean of both would be of neither."""
    took = {one.model: one.count * one.actual_s for one in answer.timings if one.kind == "run"}
    ratios: dict[str, list[float]] = {}
    for speed in answer.speeds:
        for model, of_sizes in speed.run.items():
            ratios.setdefault(model, []).extend(of_sizes.values())
    times = {model: exp(fmean(map(log, found))) for model, found in ratios.items()}
    if not times or max(times.values()) < FAR * min(times.values()):
        return ""
    all_s = sum(took.values()) or 1.0
    first, *others = sorted(times, key=lambda model: -times[model])
    part = {model: share(took.get(model, 0.0) / all_s) for model in times}
    said = f"batches of {first} took {times[first]:.3g} times what its profile says ({part[first]} of all run time)"
    return said + "".join(f", of {model} {times[model]:.3g} times ({part[model]})" for model in others)


def speed_line(speeds: Sequence[RehearsedSpeed], apart: str = "") -> str:
    """`Speed: right before, batches took 1.08 times what profiles say, right after 1.05 times, ...`

    `apart`: what is said of models instead, where they differ much.
    """
    first, last = speeds[0], speeds[-1]
    if first.before is None:
        return "Speed: the device was not timed right before the run."
    between = "".join(f", then {times(speed.before)} times" for speed in speeds[1:])
    after = "" if last.after is None else f", right after {last.after:.3g} times"
    found = [ratio for speed in speeds for ratio in speed.load.values()]
    loads = f", loading of weights {fmean(found):.3g} times" if found else ""
    took = f"batches took {first.before:.3g} times what profiles say{between}{after}{loads}"
    if apart:
        return f"Speed: in the rehearsals, {apart}{loads}{beside_others(first)}. {MEASURE_THOSE}"
    remedy = f" {PROFILE_AGAIN}" if far_speeds(speeds) else ""
    return f"Speed: right before, {took}{beside_others(first)}.{remedy}"


def beside_others(speed: RehearsedSpeed) -> str:
    """`; process-1 1.3 times as long beside the others`; empty where there are none."""
    return "".join(f"; {name} {k:.3g} times as long beside the others" for name, k in speed.slowdown.items())


def coverage_line(coverage: Coverage) -> str:
    """`Intervals: 33 of 36 measured figures lie in them (92 %); 4 more are fixed.`"""
    if not coverage.of:
        return f"Intervals: nothing varies; {counted(coverage.fixed, 'figure')} came out as simulated."
    more = f"; {coverage.fixed} more cannot vary and came out as simulated" if coverage.fixed else ""
    inside = f"{coverage.inside} of {coverage.of} measured figures lie in them ({coverage.share * 100:.0f} %)"
    return f"Intervals (95 % for one run): {inside}{more}."


def columns(row: Compared) -> list[Column]:
    """Metrics as rows."""
    metrics = Rows(list(row.measured))
    return [
        metrics.words("figure", lambda m: METRICS[m][0]),
        metrics.figures("measured", lambda m: figure(m, row.measured[m])),
        metrics.figures("simulated", lambda m: figure(m, row.simulated[m])),
        metrics.figures("error", lambda m: error(m, row.error[m])),
        metrics.figures("one run lies in", lambda m: span(m, row.intervals[m])),
    ]


def misses(row: Compared) -> frozenset[int]:
    """Rows whose measured figure lies outside its interval."""
    return frozenset(
        i
        for i, (metric, (low, high)) in enumerate(row.intervals.items())
        if not low * (1 - 1e-6) <= row.measured[metric] <= high * (1 + 1e-6)
    )


def memory_columns(answer: Validation) -> list[Column]:
    """Parts of memory, planned and held."""
    rows = Rows(answer.memory)
    return [
        rows.words("part", "kind"),
        rows.shown("planned", "planned_bytes", exact_gigabytes),
        rows.shown("held", "held_bytes", exact_gigabytes),
    ]


def action_columns(answer: Validation) -> list[Column]:
    """Expected and actual durations."""
    rows = Rows(answer.timings)
    return [
        rows.words("action", "kind"),
        rows.words("model", "model"),
        rows.shown("count", "count"),
        rows.shown("expected", "expected_s", seconds),
        rows.shown("actual", "actual_s", seconds),
        rows.figures("expected over actual", lambda one: error("", one.error)),
        rows.figures("spread", lambda one: f"{one.spread * 100:.1f} %"),
    ]


def times(factor: float | None) -> str:
    """`1.08`; `-` where nobody timed it."""
    return "-" if factor is None else f"{factor:.2f}"
