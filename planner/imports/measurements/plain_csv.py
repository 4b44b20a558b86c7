"""A profile as plain CSV: a row for each batch size, figures in people's units, all else in columns of its name."""

import json
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from calibrate.io.files import FileError, parse_json, quoted
from calibrate.io.tables import csv_text
from calibrate.library.reading import SCHEMA
from planner.imports.measurements.record import number, whole
from planner.imports.texts import TextFile

SERIES = {"latency_s": "latency_ms", "workspace_bytes": "memory_mb", "slack_bytes": "slack_mb", "doubted": "doubted"}
"""Columns of what a profile has by batch size. Memory is that of weights and batch together."""
WHOLE = frozenset({"schema", "source", "as_of", "load.bytes_per_s"})
"""Columns that only a profile has which was written so."""
NOT_KEPT = frozenset({"measured"})
"""Raw samples, which planning does not need."""
SHIFT = {"latency_s": 3, "workspace_bytes": -6, "slack_bytes": -6}
"""Powers of ten from a profile's unit to the column's; decimal, so that nothing is rounded."""


def is_whole(file: TextFile) -> bool:
    """True where a table has all that a profile holds."""
    return set(file.columns) >= WHOLE


def text_of(raw: Mapping[str, Any]) -> str:
    """The CSV of a profile's JSON; `profile_json` reads it back."""
    shared = {key: value for key, value in _flat(raw) if key not in NOT_KEPT}
    weights = _weights(raw)
    series = [key for key in SERIES if key in raw]
    batches = sorted({batch for key in series for batch in raw[key]}, key=int)
    rows = (
        [batch, *(_cell(key, raw[key].get(batch), weights) for key in series), *shared.values()] for batch in batches
    )
    return csv_text(["batch", *(SERIES[key] for key in series), *shared], rows)


def profile_json(file: TextFile) -> dict[str, Any]:
    """The profile's JSON of such a CSV. InputError where rows differ in what is said of all."""
    rows = list(file.rows())
    shared = _shared(file, rows)
    raw = _nested(file, {column: text for column, text in shared.items() if text})
    try:
        weights = _weights(raw)
    except (ArithmeticError, LookupError, TypeError):
        raise file.refuse("weight_bytes or layers hold no number of bytes", "Leave them as exported", 2) from None
    for key, column in SERIES.items():
        found = {
            str(whole(file, row["batch"], "batch", line)): _value(file, key, row[column], weights, line)
            for line, row in rows
            if row.get(column)
        }
        if found:
            raw[key] = found
    return {**raw, "schema": raw.get("schema", SCHEMA)}


def _shared(file: TextFile, rows: Sequence[tuple[int, Mapping[str, str]]]) -> dict[str, str]:
    """What the first row says of all batches. InputError where the rows are no profile."""
    if not rows:
        raise file.refuse("holds no row", "Write one for each batch size")
    first = rows[0][1]
    if "batch" not in first:
        raise file.refuse("has no column `batch`", "Write a row for each batch size", 1)
    shared = {column: text for column, text in first.items() if column not in ("batch", *SERIES.values())}
    for line, row in rows:
        if different := next((column for column, text in shared.items() if row[column] != text), None):
            raise file.refuse(f"says another {different} than the first row", "Keep one profile in a file", line)
    if len({row["batch"] for _, row in rows}) < len(rows):
        raise file.refuse("has a batch size twice", "Keep one row of each")
    return shared


def _weights(raw: Mapping[str, Any]) -> Decimal:
    layers = raw.get("layers")
    whole_bytes = sum(layer["weight_bytes"] for layer in layers) if layers else raw.get("weight_bytes", 0)
    return Decimal(repr(whole_bytes))


def _cell(key: str, value: Any, weights: Decimal) -> str:
    if value is None or key == "doubted":
        return value or ""
    exact = Decimal(repr(value)) + (weights if key == "workspace_bytes" else 0)
    return f"{exact.scaleb(SHIFT[key]).normalize():f}"


def _value(file: TextFile, key: str, cell: str, weights: Decimal, line: int) -> Any:
    if key == "doubted":
        return cell
    if key == "slack_bytes" and cell.strip() == "0":
        return 0
    number(file, cell, SERIES[key], line)
    exact = Decimal(cell.strip()).scaleb(-SHIFT[key]) - (weights if key == "workspace_bytes" else 0)
    if exact < 0:
        raise file.refuse(f"{SERIES[key]} {cell} is less than the weights", "Write weights and batch together", line)
    return float(exact)


def _flat(raw: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Keys of mappings in mappings joined with dots; lists as JSON."""
    for key, value in raw.items():
        name = f"{prefix}{key}"
        if name in SERIES or name in NOT_KEPT:
            continue
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}.")
        else:
            yield name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _nested(file: TextFile, flat: Mapping[str, str]) -> dict[str, Any]:
    raw: dict[str, Any] = {}
    for name, written in flat.items():
        *outer, key = name.split(".")
        place: Any = raw
        for step in outer:
            place = place.setdefault(step, {}) if isinstance(place, dict) else None
        if not isinstance(place, dict):
            raise file.refuse(f"has {quoted(name)} beside a column of what it is part of", "Keep one of them", 1)
        place[key] = written if name in TEXTS else _json(file, name, written)
    return raw


def _json(file: TextFile, name: str, written: str) -> Any:
    try:
        return parse_json(written.encode())
    except FileError:
        raise file.refuse(f"{name} is not JSON: {quoted(written)}", "Leave it as it was exported", 2) from None


TEXTS = frozenset(
    {
        "schema",
        "model",
        "gpu",
        "precision",
        "runtime",
        "latency_fit.form",
        "latency_evidence",
        "memory_evidence",
        "load_evidence",
        "source",
        "as_of",
    }
)
"""Columns that are texts; the others are JSON."""
