"""Tables as CSV: perf_analyzer, Model Analyzer, timm's results, and plain ones."""

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from planner.imports.measurements.record import Measurements, Said, ToolMeasurement, agree, number, whole

Row = Mapping[str, str]
MICRO = 1e-6
ALONE = "1"
"""Clients at once: with more of them, a time is that of waiting too."""


def rows_of(said: Said) -> Iterator[tuple[int, Row]]:
    """Rows by column, each as long as the first line; columns without blanks at their ends."""
    reader = csv.reader(io.StringIO(said.text), strict=True)
    try:
        columns = [column.strip() for column in next(reader, [])]
        if twice := next((name for name in columns if columns.count(name) > 1), None):
            raise said.refuse(f"has the column `{twice}` twice", "Keep one", 1)
        for row in reader:
            if not any(row):
                return  # Model Analyzer writes other tables below
            if len(row) != len(columns):
                wrong = f"has {len(row)} values below {len(columns)} columns"
                raise said.refuse(wrong, "Mend the line", reader.line_num)
            yield reader.line_num, dict(zip(columns, row, strict=True))
    except csv.Error as error:
        raise said.refuse(f"is no CSV: {error}", "Mend the line", reader.line_num) from None


def columns_of(text: str) -> tuple[str, ...]:
    """Columns that a text would have as CSV."""
    first = text.lstrip("\n").split("\n", 1)[0]
    return tuple(column.strip() for column in first.split(","))


# perf_analyzer -f


def read_perf_analyzer(said: Said) -> Measurements:
    """What the server computed for a single client: no queue, no network."""
    points = []
    for line, row in rows_of(said):
        if row.get("Concurrency") != ALONE:
            continue
        whole_part = "Server Compute"
        column = "Server Compute Infer" if "Server Compute Infer" in row else whole_part
        if column not in row:
            raise said.refuse("has no column `Server Compute Infer`", "Run perf_analyzer against Triton, with -f")
        time_s = number(said, row[column], column, line) * MICRO
        _not_above(said, time_s, row, line)
        batch = row.get("Batch Size") or row.get("Batch")
        points.append(
            ToolMeasurement(
                line=line,
                batch=whole(said, batch, "Batch Size", line) if batch else None,
                latency_s=time_s,
            )
        )
    if not points:
        raise said.refuse("has no row of Concurrency 1, and others hold waits", "Run it with --concurrency-range 1")
    return Measurements(
        tool="Triton perf_analyzer",
        points=tuple(points),
        assumptions=("Times are what Triton computed for one client at a time; its queue and network are left out.",),
    )


def _not_above(said: Said, time_s: float, row: Row, line: int) -> None:
    """A part of a request is no longer than the request."""
    longest = row.get("p99 latency")
    if longest and time_s > number(said, longest, "p99 latency", line) * MICRO:
        raise said.refuse("computes longer than p99 latency, of which that is a part", "Measure it again", line)


# Model Analyzer

TIMES: Sequence[tuple[str, str]] = (
    ("Server Compute Infer time (ms)", "what Triton computed; its queue and network are left out"),
    ("Server Compute Infer Time (ms)", "what Triton computed; its queue and network are left out"),
    ("Avg Latency (ms)", "whole requests of one client, its network too"),
    ("p99 Latency (ms)", "of the slowest hundredth of requests of one client, its network too"),
)


def read_model_analyzer(said: Said) -> Measurements:
    """`metrics-model-inference.csv`, of a single client."""
    points, meant = [], ""
    for line, row in rows_of(said):
        column, meant = next(((name, text) for name, text in TIMES if name in row), ("", ""))
        if not column:
            raise said.refuse(f"has no column `{TIMES[0][0]}` or `{TIMES[3][0]}`", "Name metrics-model-inference.csv")
        if "," in row.get("Model", ""):
            raise said.refuse("times several models at once", "Analyze each model alone", line)
        if row.get("Concurrency") != ALONE:
            continue
        points.append(
            ToolMeasurement(
                line=line,
                batch=whole(said, row.get("Batch"), "Batch", line),
                latency_s=number(said, row[column], column, line) / 1e3,
                column=row.get("Model Config Path", ""),
                facts={"model": row["Model"]} if row.get("Model") else {},
            )
        )
    if not points:
        raise said.refuse("has no row of Concurrency 1, and others hold waits", "Search concurrency 1 too")
    return Measurements(tool="Triton Model Analyzer", points=tuple(points), assumptions=(f"Times are {meant}.",))


# timm's benchmark.py

TIMM = ("model", "infer_batch_size", "infer_step_time", "infer_samples_per_sec")


def timm_point(said: Said, row: Mapping[str, object], line: int = 0) -> ToolMeasurement:
    """A model at a batch size; step time and rate are one figure twice."""
    batch = whole(said, row.get("infer_batch_size"), "infer_batch_size", line)
    step_s = number(said, row.get("infer_step_time"), "infer_step_time", line) / 1e3
    rate = number(said, row.get("infer_samples_per_sec"), "infer_samples_per_sec", line)
    agree(said, step_s, batch / rate, "the step time in s", line)
    facts = {"model": str(row.get("model") or ""), "runtime": "pytorch"}
    if size := row.get("infer_img_size"):
        pixels = whole(said, size, "infer_img_size", line)
        facts["input"] = f"3x{pixels}x{pixels}"
    return ToolMeasurement(
        line=line,
        batch=batch,
        latency_s=step_s,
        facts={name: value for name, value in facts.items() if value},
        params=_scaled(said, row, "param_count", 1e6, line),
        activations=_scaled(said, row, "infer_macts", 1e6, line),
        flops_per_sample=_scaled(said, row, "infer_gmacs", 2e9, line),
    )


def _scaled(said: Said, row: Mapping[str, object], column: str, unit: float, line: int) -> float | None:
    written = row.get(column)
    return number(said, written, column, line) * unit if written not in (None, "") else None


def read_timm(said: Said) -> Measurements:
    """`results-*.csv` and `benchmark-infer-*.csv`, a row for each model; the latter say more by their names."""
    named = TIMM_NAME.search(said.path)
    facts = {"precision": named[1].replace("amp_bf16", "bf16")} if named else {}
    if named and named[2]:
        facts["runtime"] = "torch-compile"
    points = (timm_point(said, row, line) for line, row in rows_of(said))
    return Measurements(
        tool="timm benchmark.py", points=tuple(replace(one, facts={**one.facts, **facts}) for one in points)
    )


TIMM_NAME = re.compile(r"benchmark-infer-([a-z0-9_]+)-n(?:chw|hwc)-pt\d+-[\w.-]+?(-dynamo)?\.csv$")
"""As timm's own results are called: `benchmark-infer-amp-nchw-pt240-cu124-rtx4090-dynamo.csv`."""


# Plain

FACTS = ("model", "gpu", "precision", "runtime", "input")
PLAIN = ("batch", "latency_ms")
KNOWN = (*PLAIN, "memory_mb", "weight_mb", *FACTS)


def read_plain(said: Said) -> Measurements:
    """`batch,latency_ms[,memory_mb]`, and columns of facts where there are."""
    points = []
    for line, row in rows_of(said):
        if unknown := row.keys() - set(KNOWN):
            raise said.refuse(f"has the column `{min(unknown)}`, which is not known", "Leave it out", 1)
        memory, weights = row.get("memory_mb"), row.get("weight_mb")
        points.append(
            ToolMeasurement(
                line=line,
                batch=whole(said, row["batch"], "batch", line),
                latency_s=number(said, row["latency_ms"], "latency_ms", line) / 1e3,
                facts={name: row[name] for name in FACTS if row.get(name)},
                total_bytes=number(said, memory, "memory_mb", line) * 1e6 if memory else None,
                weight_bytes=number(said, weights, "weight_mb", line) * 1e6 if weights else None,
            )
        )
    return Measurements(tool="plain CSV", points=tuple(points))
