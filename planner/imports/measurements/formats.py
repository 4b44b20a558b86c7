"""Formats: which tool wrote a file, by what is in it, and its reader."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from calibrate.io.files import FileError, parse_json, printable, read_bytes
from planner.imports.measurements import documents, printed, tables, trtexec
from planner.imports.measurements.record import Measurements, Said
from planner.imports.texts import BY_COMMAS, decoded, separation
from planner.model.choices import MeasurementFormat
from simulator.errors import InputError

LARGEST_BYTES = 64_000_000
"""A day of runs in trtexec's JSON takes a tenth of it."""
MARK_WITHIN = 200_000


TEXTS: Mapping[MeasurementFormat, Callable[[Said], Measurements]] = {
    MeasurementFormat.TRTEXEC_LOG: trtexec.read_log,
    MeasurementFormat.MLPERF: printed.read_mlperf,
    MeasurementFormat.ULTRALYTICS: printed.read_ultralytics,
    MeasurementFormat.TORCH_BENCHMARK: printed.read_torch_benchmark,
    MeasurementFormat.PERF_ANALYZER: tables.read_perf_analyzer,
    MeasurementFormat.MODEL_ANALYZER: tables.read_model_analyzer,
    MeasurementFormat.TIMM: tables.read_timm,
    MeasurementFormat.CSV: tables.read_plain,
}
LISTS: Mapping[MeasurementFormat, Callable[[Said, list[Any]], Measurements]] = {
    MeasurementFormat.TRTEXEC_TIMES: trtexec.read_times,
    MeasurementFormat.TRTEXEC_PROFILE: trtexec.read_layers,
    MeasurementFormat.TIMM_JSON: documents.read_timm_json,
}
MAPPINGS: Mapping[MeasurementFormat, Callable[[Said, dict[str, Any]], Measurements]] = {
    MeasurementFormat.TIMM_JSON: documents.read_timm_json,
    MeasurementFormat.VLLM: documents.read_vllm,
    MeasurementFormat.GENAI_PERF: documents.read_genai_perf,
}
MARKS: Mapping[MeasurementFormat, tuple[str, ...]] = {
    MeasurementFormat.TRTEXEC_LOG: trtexec.MARKS,
    MeasurementFormat.MLPERF: ("MLPerf Results Summary",),
    MeasurementFormat.ULTRALYTICS: ("Inference time (ms/im)",),
    MeasurementFormat.TORCH_BENCHMARK: ("Times are in ",),
}
COLUMNS: Mapping[MeasurementFormat, tuple[str, ...]] = {
    MeasurementFormat.PERF_ANALYZER: ("Inferences/Second", "Client Send"),
    MeasurementFormat.MODEL_ANALYZER: ("Model", "Batch", "Model Config Path"),
    MeasurementFormat.TIMM: tables.TIMM,
    MeasurementFormat.CSV: tables.PLAIN,
}
"""Columns that tell a table, the first that has all of its own."""
KEYS: Mapping[MeasurementFormat, frozenset[str]] = {
    MeasurementFormat.TRTEXEC_TIMES: frozenset({"computeMs"}),
    MeasurementFormat.TRTEXEC_PROFILE: frozenset({"count"}),
    MeasurementFormat.TIMM_JSON: frozenset({"infer_step_time"}),
    MeasurementFormat.GENAI_PERF: frozenset({"request_latency"}),
}
"""Keys that tell a document."""
VLLM_KEYS = frozenset({"avg_latency", "mean_ttft_ms", "tokens_per_second", "request_throughput", "mean_e2el_ms"})
PICKLES = (b"\x80", b"PK\x03\x04")
"""Beginnings of what torch and pickle write, which would run what is in it."""
OTHER_TABLES: Sequence[tuple[set[str], str, str]] = (
    (
        {"Metric", "avg"},
        "is a table of GenAI-Perf or AIPerf, which says neither clients nor batch",
        "Name the profile_export_genai_perf.json or profile_export_aiperf.json beside it",
    ),
    ({"model", "top1"}, "says how accurate timm's models are, and no times", "Name a benchmark-infer-*.csv of timm's"),
    ({"model", "train_step_time"}, "times steps of training", "Name a benchmark-infer-*.csv of timm's"),
    (
        {"Model", "GPU Memory Usage (MB)"},
        "is a table of Model Analyzer without times",
        "Name the metrics-model-inference.csv beside it",
    ),
)
"""By their columns, tables of tools that are read which are not: what they are, and which to name instead."""
RESULT = "--result"
"""Stands above the JSON that timm's benchmark.py prints."""


def read_measurements(path: Path, name: MeasurementFormat | None = None) -> tuple[Measurements, bytes]:
    """What a file says, and its bytes. InputError, in one line, where it cannot be read."""
    try:
        raw = read_bytes(path, LARGEST_BYTES)
        if raw[:1] == PICKLES[0] or raw[:4] == PICKLES[1]:
            raise FileError("is a pickle, which runs what is in it: not read. Save the table that is printed")
        return _read(Said(printable(str(path)), decoded(raw)), name), raw
    except FileError as error:
        raise InputError(f"{path}{error.place}: {error}. Name another file.") from None


def _read(said: Said, name: MeasurementFormat | None) -> Measurements:
    if not said.text.strip():
        raise said.refuse("is empty", "Name what a tool wrote")
    body = said.text.split(f"{RESULT}\n", 1)[-1].lstrip()
    if body[:1] in ("{", "[") and not name_of_text(said, name):
        return _read_json(said, parse_json(body.encode()), name)
    found = name or _by_columns(said) or _by_mark(said)
    if found is None:
        raise _unknown_table(said)
    if found not in TEXTS:
        raise said.refuse(f"is no JSON, and {found} is", KNOWN)
    _demand_columns(said, found)
    read = TEXTS[found](said)
    if not read.points:
        raise said.refuse("holds no row", "Measure at least one batch")
    return read


def _unknown_table(said: Said) -> InputError:
    columns = set(tables.columns_of(said.text))
    if table := next((one for one in OTHER_TABLES if one[0] <= columns), None):
        return said.refuse(table[1], table[2])
    if other := separation(said.text):
        return said.refuse(other, BY_COMMAS, 1)
    return said.refuse("is of no format that is known by its content", KNOWN)


KNOWN = f"Name its format with --format, one of {', '.join(MeasurementFormat)}"


def name_of_text(said: Said, name: MeasurementFormat | None) -> bool:
    """Whether a text that begins like JSON is none: PyTorch's table and trtexec's log begin with a bracket too."""
    return name in TEXTS if name else _by_mark(said) is not None


def _by_mark(said: Said) -> MeasurementFormat | None:
    head = said.text[:MARK_WITHIN] + said.text[-MARK_WITHIN:]
    return next((name for name, marks in MARKS.items() if any(mark in head for mark in marks)), None)


def _by_columns(said: Said) -> MeasurementFormat | None:
    columns = tables.columns_of(said.text)
    return next((name for name, needed in COLUMNS.items() if set(needed) <= set(columns)), None)


def _demand_columns(said: Said, name: MeasurementFormat) -> None:
    columns = tables.columns_of(said.text)
    if name in COLUMNS and (other := separation(said.text)):
        raise said.refuse(other, BY_COMMAS, 1)
    if lacking := [column for column in COLUMNS.get(name, ()) if column not in columns]:
        raise said.refuse(f"has no column `{lacking[0]}`", f"A {name} file has {', '.join(COLUMNS[name])}", 1)


def _read_json(said: Said, data: Any, name: MeasurementFormat | None) -> Measurements:
    data = documents.unwrapped(data)
    entries = data if isinstance(data, list) else [data]
    if not entries or not all(isinstance(one, dict) for one in entries):
        raise said.refuse("holds no records", KNOWN)
    found = name or _by_keys(entries[0])
    readers: Mapping[MeasurementFormat, Callable[[Said, Any], Measurements]] = LISTS if data is entries else MAPPINGS
    if found is None or found not in readers:
        raise said.refuse("is of no format that is known by its content", KNOWN)
    return readers[found](said, data)


def _by_keys(entry: dict[str, Any]) -> MeasurementFormat | None:
    found = next((name for name, keys in KEYS.items() if keys <= entry.keys()), None)
    return found or (MeasurementFormat.VLLM if entry.keys() & VLLM_KEYS else None)
