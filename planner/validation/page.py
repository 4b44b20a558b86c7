"""Validation for people: measured beside simulated as tables and JSON, and the page that gathers all recordings."""

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from math import isfinite
from pathlib import Path
from statistics import fmean, median
from typing import Any

from planner.layout import Column, Format, Screen, counted, markdown, per_second, seconds, table
from planner.store import StoreError, to_json, write_text
from planner.validation.comparison import SCHEMA, SHARES, Compared, Coverage, Validation, validate
from planner.validation.recording import read_recording
from planner.validation.speed import Speed

BEGIN, END = "<!-- made by `make validation` -->", "<!-- end -->"
DISTURBING_CORES = 0.2
"""What other programs may use of the processor without being mentioned."""
NAMES = {
    "p50_s": "p50",
    "p95_s": "p95",
    "p99_s": "p99",
    "mean_s": "mean",
    "slo_attainment": "within the SLO",
    "throughput_rps": "throughput",
    "mean_batch_size": "formed batch",
    "processed_fraction": "processed",
    "utilization": "time running",
    "load_share": "time loading",
    "peak_memory_bytes": "peak memory",
}
"""What people call the metrics."""
PAGE_METRICS = ("p50_s", "p95_s", "p99_s", "slo_attainment")


def figure(metric: str, value: float) -> str:
    """A value in the unit of its metric."""
    if not isfinite(value):
        return "-"
    if metric.endswith("_bytes"):
        return f"{value / 1e9:.3f} GB"
    if metric in SHARES:
        return f"{value * 100:.2f} %"
    if metric.endswith("_rps"):
        return per_second(value)
    return seconds(value) if metric.endswith("_s") else f"{value:.2f}"


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


def check_form(form: Format) -> None:
    """StoreError for a format that a comparison does not have, before anything is run."""
    if form is Format.CSV:
        raise StoreError(f"--format {form}: a comparison is written as table, json or md. Choose one.")


def render(answer: Validation, form: Format, screen: Screen) -> str:
    """The comparison in one of the formats."""
    check_form(form)
    match form:
        case Format.JSON:
            return to_json(as_json(answer))
        case Format.MD:
            return "\n".join(section(answer.scenario, [answer])) + "\n"
    return report(answer, screen)


def as_json(answer: Validation) -> dict[str, Any]:
    """Keys of `planner.validation/v1`."""
    raw = asdict(answer)
    raw["coverage"]["share"] = answer.coverage.share
    return {"schema": SCHEMA, **raw}


def report(answer: Validation, screen: Screen) -> str:
    """What errs most first, then every figure."""
    lines = [screen.bold(line) for line in screen.wrap(headline(answer), hang=2)]
    if answer.stopped:
        lines += [screen.warn(line) for line in screen.wrap(f"Stopped early: {answer.stopped}", hang=2)]
    if (answer.others_cores or 0.0) > DISTURBING_CORES:
        others = (
            f"Disturbed: other programs kept {answer.others_cores:.1f} cores busy meanwhile. Run it on an idle machine."
        )
        lines += [screen.warn(line) for line in screen.wrap(others, hang=2)]
    lines += [line for text in summary(answer) for line in screen.wrap(text, hang=2)]
    for row in (*answer.models, answer.device):
        lines += ["", screen.bold(row.name), *table(columns(row), screen, bad=misses(row))]
    if answer.timings:
        lines += ["", screen.bold("What actions took"), *table(action_columns(answer), screen)]
    return "\n".join(lines) + "\n"


def headline(answer: Validation) -> str:
    """What was run, in one line."""
    requests = counted(answer.requests, "request")
    return f"{answer.scenario} on {answer.device.name}: {requests} in {answer.duration_s:g} s, measured and simulated"


def summary(answer: Validation) -> list[str]:
    """Largest error, its cause, how honest the intervals are, what the harness took."""
    over = answer.overhead
    speed = [speed_line(answer.speed)] if answer.speed.run else []
    took = f"{over.mean_s * 1e6:.0f} us a batch on average, {over.p99_s * 1e3:.2f} ms in the slowest of 100"
    return [
        f"Largest error: {answer.largest_error}",
        f"Likely cause: {answer.likely_cause}",
        *speed,
        coverage_line(answer.coverage),
        f"Harness: {took}, {over.share * 100:.2f} % of the time." if over.batches else "Harness: no batch was started.",
    ]


def speed_line(found: Speed) -> str:
    """`Speed: right before, batches took 1.08 times what profiles say, right after 1.05 times, loads 1.2 times.`"""
    if found.before is None:
        return "Speed: the device was not timed right before the run."
    after = "" if found.after is None else f", right after {found.after:.3g} times"
    loads = f", loads {fmean(found.load.values()):.3g} times" if found.load else ""
    shared = "".join(f"; {name} {k:.3g} times as long beside the others" for name, k in found.slowdown.items())
    return f"Speed: right before, batches took {found.before:.3g} times what profiles say{after}{loads}{shared}."


def coverage_line(found: Coverage) -> str:
    """`Intervals: 33 of 36 measured figures lie in them (92 %); 4 more are fixed.`"""
    if not found.of:
        return f"Intervals: nothing varies; {counted(found.fixed, 'figure')} came out as simulated."
    more = f"; {found.fixed} more cannot vary and came out as simulated" if found.fixed else ""
    inside = f"{found.inside} of {found.of} measured figures lie in them ({found.share * 100:.0f} %)"
    return f"Intervals (95 % for one run): {inside}{more}."


def columns(row: Compared) -> list[Column]:
    """Metrics as rows."""
    metrics = list(row.measured)
    return [
        Column("figure", [NAMES[m] for m in metrics]),
        Column("measured", [figure(m, row.measured[m]) for m in metrics], right=True),
        Column("simulated", [figure(m, row.simulated[m]) for m in metrics], right=True),
        Column("error", [error(m, row.error[m]) for m in metrics], right=True),
        Column("one run lies in", [span(m, row.intervals[m]) for m in metrics], right=True),
    ]


def misses(row: Compared) -> frozenset[int]:
    """Rows whose measured figure lies outside its interval."""
    return frozenset(
        i
        for i, (metric, (low, high)) in enumerate(row.intervals.items())
        if not low * (1 - 1e-6) <= row.measured[metric] <= high * (1 + 1e-6)
    )


def action_columns(answer: Validation) -> list[Column]:
    """Expected and actual durations."""
    found = answer.timings
    return [
        Column("action", [one.kind for one in found]),
        Column("model", [one.model for one in found]),
        Column("count", [str(one.count) for one in found], right=True),
        Column("expected", [seconds(one.expected_s) for one in found], right=True),
        Column("actual", [seconds(one.actual_s) for one in found], right=True),
        Column("error", [error("", one.error) for one in found], right=True),
        Column("spread", [f"{one.spread * 100:.1f} %" for one in found], right=True),
    ]


# The page


def rows_markdown(answers: Sequence[Validation]) -> list[str]:
    """One row for each model of each run: measured beside simulated."""
    rows = [(answer, model) for answer in answers for model in answer.models]

    def beside(metric: str) -> Callable[[Compared], str]:
        return lambda row: f"{figure(metric, row.measured[metric])} / {figure(metric, row.simulated[metric])}"

    made = [
        Column("scenario", [answer.scenario for answer, _ in rows]),
        Column("model", [model.name for _, model in rows]),
    ]
    for metric in PAGE_METRICS:
        cells = [f"{beside(metric)(model)} ({error(metric, model.error[metric])})" for _, model in rows]
        made.append(Column(NAMES[metric], cells, right=True))
    return markdown(made)


def device_rows_markdown(answers: Sequence[Validation]) -> list[str]:
    """One row for each run: what the device did, how many figures lie in their intervals, and why the rest differ."""

    def speed(answer: Validation) -> str:
        found = (answer.speed.before, answer.speed.after)
        return " / ".join("-" if value is None else f"{value:.2f}" for value in found)

    def both(metric: str) -> list[str]:
        return [
            f"{figure(metric, a.device.measured[metric])} / {figure(metric, a.device.simulated[metric])}"
            for a in answers
        ]

    return markdown(
        [
            Column("scenario", [a.scenario for a in answers]),
            Column("requests", [f"{a.requests:,}" for a in answers], right=True),
            Column("speed", [speed(a) for a in answers], right=True),
            Column("time loading", both("load_share"), right=True),
            Column("peak memory", both("peak_memory_bytes"), right=True),
            Column("in their intervals", [f"{a.coverage.inside} of {a.coverage.of}" for a in answers], right=True),
            Column("harness", [f"{a.overhead.share * 100:.2f} %" for a in answers], right=True),
            Column("largest error, and its likely cause", [f"{a.largest_error} {a.likely_cause}" for a in answers]),
        ]
    )


def bands(answers: Sequence[Validation], alone: Sequence[Validation]) -> list[str]:
    """How far all runs together are off, `alone` being the same runs without their rehearsals."""
    lines = ["Errors over all models of all runs:", "", *overall(answers), f"- {coverage_line(pooled(answers))}"]
    if alone:
        lines += ["", "The same by profiles alone, as if nobody had rehearsed:", "", *overall(alone)]
        lines.append(f"- {coverage_line(pooled(alone))}")
    return lines


def overall(answers: Sequence[Validation]) -> list[str]:
    """How far all runs together are off, each figure the median over models and runs, and the worst."""
    models = [model for answer in answers for model in answer.models]
    lines = []
    for metric in PAGE_METRICS:
        found = sorted(abs(model.error[metric]) for model in models if isfinite(model.error[metric]))
        if found:
            unit = "points" if metric in SHARES else "%"
            middle, average = median(found), fmean(found)
            lines.append(
                f"- {NAMES[metric]}: median {middle * 100:.1f} {unit}, mean {average * 100:.1f} {unit}, "
                f"worst {found[-1] * 100:.1f} {unit}"
            )
    return lines


def pooled(answers: Sequence[Validation]) -> Coverage:
    """Coverage over several runs."""
    found = [answer.coverage for answer in answers]
    return Coverage(inside=sum(c.inside for c in found), of=sum(c.of for c in found), fixed=sum(c.fixed for c in found))


def machine_line(answer: Validation) -> str:
    """The machine a run was recorded on: device, versions, date."""
    known = answer.machine
    keys = ("gpu_name", "host_cpu", "host_cores", "torch_threads", "driver", "cuda", "torch", "python")
    parts = [f"{key.replace('_', ' ')} {known[key]}" for key in keys if known.get(key) not in (None, "")]
    return ", ".join([*parts, f"recorded {answer.created_at[:10]}"])


def section(name: str, answers: Sequence[Validation], alone: Sequence[Validation] = ()) -> list[str]:
    """All runs of one machine."""
    return [
        *(f"## {name}", "", *(f"{line}." for line in dict.fromkeys(map(machine_line, answers))), ""),
        *(*bands(answers, alone), ""),
        *("Measured / simulated, and the error:", "", *rows_markdown(answers), ""),
        *device_rows_markdown(answers),
    ]


def page(directory: Path) -> list[str]:
    """A section for each folder of recordings, a folder for each machine."""
    lines: list[str] = []
    for folder in sorted(path for path in directory.glob("*") if path.is_dir()):
        recordings = [read_recording(path) for path in sorted(folder.glob("*.json*"))]
        alone = [validate(replace(recording, rehearsals=())) for recording in recordings]
        lines += ["", *section(folder.name, list(map(validate, recordings)), alone)] if recordings else []
    return lines


def renew(document: Path, recordings: Path) -> None:
    """Write the part of the document between its marks anew."""
    text = document.read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        raise StoreError(f"{document}: has no `{BEGIN}` and `{END}`. Put both on lines of their own.")
    made = "\n".join([BEGIN, *page(recordings), "", END])
    write_text(re.sub(re.escape(BEGIN) + ".*" + re.escape(END), lambda _: made, text, flags=re.DOTALL), document)


if __name__ == "__main__":
    renew(Path(sys.argv[1]), Path(sys.argv[2]))
