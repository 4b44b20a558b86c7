"""Tables as CSV: perf_analyzer, Model Analyzer, timm's results, and plain ones."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from planner.imports.measurements.record import Measurements, ToolMeasurement, agree, number, whole
from planner.imports.texts import Row, TextFile

MICRO = 1e-6
ALONE = "1"
"""Clients at once: with more of them, a time is that of waiting too."""


def alone(file: TextFile, remedy: str) -> Sequence[tuple[int, Row]]:
    """Rows of a single client; InputError where there is none."""
    rows = [(line, row) for line, row in file.rows() if row.get("Concurrency") == ALONE]
    if not rows:
        raise file.refuse("has no row of Concurrency 1, and others hold waits", remedy)
    return rows


# perf_analyzer -f


def read_perf_analyzer(file: TextFile) -> Measurements:
    """What the server computed for a single client: no queue, no network."""
    rows = alone(file, "Run it with --concurrency-range 1")
    return Measurements(
        tool="Triton perf_analyzer",
        points=tuple(_computed(file, line, row) for line, row in rows),
        assumptions=("Times are what Triton computed for one client at a time; its queue and network are left out.",),
    )


def _computed(file: TextFile, line: int, row: Row) -> ToolMeasurement:
    column = "Server Compute Infer" if "Server Compute Infer" in row else "Server Compute"
    if column not in row:
        raise file.refuse("has no column `Server Compute Infer`", "Run perf_analyzer against Triton, with -f")
    time_s = number(file, row[column], column, line) * MICRO
    _not_above(file, time_s, row, line)
    batch = row.get("Batch Size") or row.get("Batch")
    return ToolMeasurement(line=line, batch=whole(file, batch, "Batch Size", line) if batch else None, latency_s=time_s)


def _not_above(file: TextFile, time_s: float, row: Row, line: int) -> None:
    """A part of a request is no longer than the request."""
    longest = row.get("p99 latency")
    if longest and time_s > number(file, longest, "p99 latency", line) * MICRO:
        raise file.refuse("computes longer than p99 latency, of which that is a part", "Measure it again", line)


# Model Analyzer

TIMES: Sequence[tuple[str, str]] = (
    ("Server Compute Infer time (ms)", "what Triton computed; its queue and network are left out"),
    ("Server Compute Infer Time (ms)", "what Triton computed; its queue and network are left out"),
    ("Avg Latency (ms)", "whole requests of one client, its network too"),
    ("p99 Latency (ms)", "of the slowest hundredth of requests of one client, its network too"),
)


def read_model_analyzer(file: TextFile) -> Measurements:
    """`metrics-model-inference.csv`, of a single client; other tables may stand below an empty line."""
    table = TextFile(file.path, file.text.split("\n\n", 1)[0])
    column, meant = next(((name, text) for name, text in TIMES if name in table.columns), ("", ""))
    if not column:
        raise file.refuse(f"has no column `{TIMES[0][0]}` or `{TIMES[3][0]}`", "Name metrics-model-inference.csv")
    if several := next((line for line, row in table.rows() if "," in row.get("Model", "")), None):
        raise file.refuse("times several models at once", "Analyze each model alone", several)
    points = [
        ToolMeasurement(
            line=line,
            batch=whole(file, row.get("Batch"), "Batch", line),
            latency_s=number(file, row[column], column, line) / 1e3,
            column=row.get("Model Config Path", ""),
            facts={"model": row["Model"]} if row.get("Model") else {},
        )
        for line, row in alone(table, "Search concurrency 1 too")
    ]
    return Measurements(tool="Triton Model Analyzer", points=tuple(points), assumptions=(f"Times are {meant}.",))


# timm's benchmark.py

TIMM = ("model", "infer_batch_size", "infer_step_time", "infer_samples_per_sec")


def timm_point(file: TextFile, row: Mapping[str, object], line: int = 0) -> ToolMeasurement:
    """A model at a batch size; step time and rate are one figure twice."""
    batch = whole(file, row.get("infer_batch_size"), "infer_batch_size", line)
    step_s = number(file, row.get("infer_step_time"), "infer_step_time", line) / 1e3
    rate = number(file, row.get("infer_samples_per_sec"), "infer_samples_per_sec", line)
    agree(file, step_s, batch / rate, "the step time in s", line)
    facts = {"model": str(row.get("model") or ""), "runtime": "pytorch"}
    if size := row.get("infer_img_size"):
        pixels = whole(file, size, "infer_img_size", line)
        facts["input"] = f"3x{pixels}x{pixels}"
    return ToolMeasurement(
        line=line,
        batch=batch,
        latency_s=step_s,
        facts={name: value for name, value in facts.items() if value},
        params=_scaled(file, row, "param_count", 1e6, line),
        activations=_scaled(file, row, "infer_macts", 1e6, line),
        flops_per_sample=_scaled(file, row, "infer_gmacs", 2e9, line),
    )


def _scaled(file: TextFile, row: Mapping[str, object], column: str, unit: float, line: int) -> float | None:
    written = row.get(column)
    return number(file, written, column, line) * unit if written not in (None, "") else None


def read_timm(file: TextFile) -> Measurements:
    """`results-*.csv` and `benchmark-infer-*.csv`, a row for each model; the latter say more by their names."""
    named = TIMM_NAME.search(file.path)
    facts = {"precision": named[1].replace("amp_bf16", "bf16")} if named else {}
    if named and named[2]:
        facts["runtime"] = "torch-compile"
    points = (timm_point(file, row, line) for line, row in file.rows())
    return Measurements(
        tool="timm benchmark.py", points=tuple(replace(one, facts={**one.facts, **facts}) for one in points)
    )


TIMM_NAME = re.compile(r"benchmark-infer-([a-z0-9_]+)-n(?:chw|hwc)-pt\d+-[\w.-]+?(-dynamo)?\.csv$")
"""As timm's own results are called: `benchmark-infer-amp-nchw-pt240-cu124-rtx4090-dynamo.csv`."""


# Plain

FACTS = ("model", "gpu", "precision", "runtime", "input")
PLAIN = ("batch", "latency_ms")
KNOWN = (*PLAIN, "memory_mb", "weight_mb", *FACTS)


def read_plain(file: TextFile) -> Measurements:
    """`batch,latency_ms[,memory_mb]`, and columns of facts where there are."""
    points = []
    for line, row in file.rows():
        if unknown := row.keys() - set(KNOWN):
            raise file.refuse(f"has the column `{min(unknown)}`, which is not known", "Leave it out", 1)
        memory, weights = row.get("memory_mb"), row.get("weight_mb")
        points.append(
            ToolMeasurement(
                line=line,
                batch=whole(file, row["batch"], "batch", line),
                latency_s=number(file, row["latency_ms"], "latency_ms", line) / 1e3,
                facts={name: row[name] for name in FACTS if row.get(name)},
                total_bytes=number(file, memory, "memory_mb", line) * 1e6 if memory else None,
                weight_bytes=number(file, weights, "weight_mb", line) * 1e6 if weights else None,
            )
        )
    return Measurements(tool="plain CSV", points=tuple(points))
