"""Costs of models side by side, as a document and as CSV."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from calibrate.io.tables import csv_text
from planner.io.store import plain
from planner.questions.profiling.model_costs import ModelCost, ModelCosts, Origin, RunCost
from planner.show.document import Column, Document, Rows, Section, Table, Text
from planner.show.markdown import markdown
from planner.show.terminal import terminal
from planner.units.writing import Format, Screen, counted, gigabytes, seconds

RUN_COLUMNS = ("memory_bytes", "reserved_bytes", "time_s", "time_low_s", "time_high_s", "beside_load_s")
"""Of each batch size."""
TITLES = {
    Origin.MEASURED: "Measured here",
    Origin.PUBLISHED: "Published",
    Origin.PREDICTED: "Predicted, never measured",
}


def costs_text(costs: ModelCosts, form: Format, screen: Screen) -> str:
    """In the form that is asked for."""
    match form:
        case Format.CSV:
            return csv_text(_csv_header(costs.batches), (_csv_row(row, costs.batches) for row in costs.rows))
        case Format.JSON:
            return json.dumps(plain(asdict(costs)), indent=2) + "\n"
        case Format.MD:
            return markdown(costs_document(costs))
    return terminal(costs_document(costs), screen)


def costs_document(costs: ModelCosts) -> Document:
    """A table for each origin, and models with and without cuDNN's trying."""
    sections = [Section(TITLES[origin], [Table(_columns(costs.of(origin), costs.batches))]) for origin in Origin]
    rows = Rows(
        [
            (off, batch, before.time_s, after.time_s)
            for off, on in costs.benchmarked
            for batch in costs.batches
            if (before := off.at(batch)) and (after := on.at(batch))
        ]
    )
    benchmarked = [
        rows.words("model", lambda r: r[0].name),
        rows.words("GPU", lambda r: r[0].gpu),
        rows.words("precision", lambda r: r[0].precision),
        rows.figures("batch", lambda r: str(r[1])),
        rows.worked("off", lambda r: r[2], seconds),
        rows.worked("on", lambda r: r[3], seconds),
        rows.worked("on / off", lambda r: r[3] / r[2], "{:.2f}".format),
    ]
    pairs = Section("cudnn.benchmark off and on", [Table(benchmarked)])
    memory = (
        "Memory is weights and tensors, reserved what a plan keeps free: with libraries' workspace and the allocator's"
        " slack. Each process holds its context besides."
    )
    return Document(
        name="Models",
        headline=f"{counted(len({row.model for row in costs.rows}), 'model')} to load and to run",
        lead=[Text(memory)],
        sections=[*sections, pairs],
    )


def _columns(rows: Sequence[ModelCost], batches: Sequence[int]) -> list[Column]:
    of = Rows(rows)
    columns = [
        of.words("model", "name"),
        of.words("GPU", "gpu", once="on {}"),
        of.words("precision", "precision", once="at {}"),
        of.words("runtime", "runtime", once="in {}"),
        of.words("memory is", "memory_evidence", once="memory {}"),
        of.shown("load memory", "weight_bytes", gigabytes),
        of.shown("load", "load_s", seconds),
    ]
    if any(row.pageable_s for row in rows):
        columns.append(of.shown("pageable", "pageable_s", seconds))
    if any(row.context_bytes is not None for row in rows):
        columns.append(of.shown("context", "context_bytes", gigabytes))
    return [*columns, *(column for batch in batches for column in _run_columns(rows, batch))]


def _run_columns(rows: Sequence[ModelCost], batch: int) -> Iterator[Column]:
    runs = Rows([row.at(batch) for row in rows])
    yield runs.worked(f"memory at {batch}", lambda r: r.memory_bytes if r else None, gigabytes)
    yield runs.worked(f"reserved at {batch}", lambda r: r.reserved_bytes if r else None, gigabytes)
    yield runs.figures(f"time at {batch}", _time, value=lambda r: r.time_s if r else None)
    if any(run and run.beside_load_s for run in runs.items):
        yield runs.worked(f"beside a load at {batch}", lambda r: r.beside_load_s if r else None, seconds)


def _time(run: RunCost | None) -> str:
    """`8.4 ms`; of a prediction with its 80 % band, `8.4 ms [6.1 ms, 12 ms]`."""
    if run is None:
        return "-"
    band = f" [{seconds(run.band_s[0])}, {seconds(run.band_s[1])}]" if run.band_s else ""
    return f"{seconds(run.time_s)}{band}"


def _csv_header(batches: Sequence[int]) -> list[str]:
    names = ["origin", "model", "gpu", "precision", "runtime", "load_memory_bytes", "load_s", "load_pageable_s"]
    runs = [f"{name}_{batch}" for batch in batches for name in RUN_COLUMNS]
    return [*names, "context_bytes", *runs]


def _csv_row(row: ModelCost, batches: Sequence[int]) -> Iterator[object]:
    yield from (row.origin, row.name, row.gpu, row.precision, row.runtime)
    yield from (round(row.weight_bytes), f"{row.load_s:.6g}", row.pageable_s and f"{row.pageable_s:.6g}")
    yield row.context_bytes
    for run in map(row.at, batches):
        if run is None:
            yield from (None,) * len(RUN_COLUMNS)
            continue
        low, high = run.band_s or (None, None)
        yield from (round(run.memory_bytes), round(run.reserved_bytes))
        times_s = (run.time_s, low, high, run.beside_load_s)
        yield from (None if time_s is None else f"{time_s:.6g}" for time_s in times_s)
