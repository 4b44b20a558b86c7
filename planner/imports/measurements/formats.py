"""Formats: which tool wrote a file, by what is in it, and its reader."""

from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, NamedTuple

from calibrate.io.files import FileError, named, parse_json, printable, read_bytes
from planner.imports.measurements import documents, printed, tables, trtexec
from planner.imports.measurements.record import Measurements
from planner.imports.texts import TextFile, decoded
from planner.model.choices import MeasurementFormat

LARGEST_BYTES = 64_000_000
"""A day of runs in trtexec's JSON takes a tenth of it."""
MARK_WITHIN = 200_000


class KnownFormat(NamedTuple):
    """How the files of a tool are known, and read."""

    read: Callable[..., Measurements]
    """From a text; of JSON, from that and what it holds."""
    marks: Sequence[str] = ()
    """Any of them stands in such a text."""
    columns: Sequence[str] = ()
    """All of them are columns of such a table."""
    keys: Set[str] = frozenset()
    """Any of them is a key of such a document."""
    json: tuple[type, ...] = ()
    """What such JSON is; of texts nothing."""


FORMATS: Mapping[MeasurementFormat, KnownFormat] = {
    MeasurementFormat.TRTEXEC_LOG: KnownFormat(trtexec.read_log, marks=trtexec.MARKS),
    MeasurementFormat.MLPERF: KnownFormat(printed.read_mlperf, marks=("MLPerf Results Summary",)),
    MeasurementFormat.ULTRALYTICS: KnownFormat(printed.read_ultralytics, marks=("Inference time (ms/im)",)),
    MeasurementFormat.TORCH_BENCHMARK: KnownFormat(printed.read_torch_benchmark, marks=("Times are in ",)),
    MeasurementFormat.PERF_ANALYZER: KnownFormat(
        tables.read_perf_analyzer, columns=("Inferences/Second", "Client Send")
    ),
    MeasurementFormat.MODEL_ANALYZER: KnownFormat(
        tables.read_model_analyzer, columns=("Model", "Batch", "Model Config Path")
    ),
    MeasurementFormat.TIMM: KnownFormat(tables.read_timm, columns=tables.TIMM),
    MeasurementFormat.CSV: KnownFormat(tables.read_plain, columns=tables.PLAIN),
    MeasurementFormat.TRTEXEC_TIMES: KnownFormat(trtexec.read_times, keys={"computeMs"}, json=(list,)),
    MeasurementFormat.TRTEXEC_PROFILE: KnownFormat(trtexec.read_layers, keys={"count"}, json=(list,)),
    MeasurementFormat.TIMM_JSON: KnownFormat(documents.read_timm_json, keys={"infer_step_time"}, json=(list, dict)),
    MeasurementFormat.GENAI_PERF: KnownFormat(documents.read_genai_perf, keys={"request_latency"}, json=(dict,)),
    MeasurementFormat.VLLM: KnownFormat(documents.read_vllm, keys=documents.VLLM_KEYS, json=(dict,)),
}
"""The first that fits a file is its own."""
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
    with named(path, "Name another file"):
        raw = read_bytes(path, LARGEST_BYTES)
        if raw[:1] == PICKLES[0] or raw[:4] == PICKLES[1]:
            raise FileError("is a pickle, which runs what is in it: not read. Save the table that is printed")
        return _read(TextFile(printable(str(path)), decoded(raw)), name), raw


def _read(file: TextFile, name: MeasurementFormat | None) -> Measurements:
    if not file.text.strip():
        raise file.refuse("is empty", "Name what a tool wrote")
    body = file.text.split(f"{RESULT}\n", 1)[-1].lstrip()
    if body[:1] in ("{", "[") and not is_text(file, name):
        return _read_json(file, parse_json(body.encode()), name)
    return _read_text(file, name)


def _read_text(file: TextFile, name: MeasurementFormat | None) -> Measurements:
    columns = set(file.columns)
    by_columns = (one for one, form in FORMATS.items() if form.columns and columns.issuperset(form.columns))
    found = name or next(by_columns, None) or _by_mark(file)
    if found is None:
        if table := next((one for one in OTHER_TABLES if one[0] <= columns), None):
            raise file.refuse(table[1], table[2])
        file.demand_commas()
        raise file.refuse(UNKNOWN, KNOWN)
    form = FORMATS[found]
    if form.json:
        raise file.refuse(f"is no JSON, and {found} is", KNOWN)
    if form.columns:
        file.demand_commas()
    if lacking := [column for column in form.columns if column not in file.columns]:
        raise file.refuse(f"has no column `{lacking[0]}`", f"A {found} file has {', '.join(form.columns)}", 1)
    read = form.read(file)
    if not read.points:
        raise file.refuse("holds no row", "Measure at least one batch")
    return read


UNKNOWN = "is of no format that is known by its content"
KNOWN = f"Name its format with --format, one of {', '.join(MeasurementFormat)}"


def is_text(file: TextFile, name: MeasurementFormat | None) -> bool:
    """Whether a text that begins like JSON is none: PyTorch's table and trtexec's log begin with a bracket too."""
    return not FORMATS[name].json if name else _by_mark(file) is not None


def _by_mark(file: TextFile) -> MeasurementFormat | None:
    head = file.text[:MARK_WITHIN] + file.text[-MARK_WITHIN:]
    return next((name for name, form in FORMATS.items() if any(mark in head for mark in form.marks)), None)


def _read_json(file: TextFile, data: Any, name: MeasurementFormat | None) -> Measurements:
    data = documents.unwrapped(data)
    entries = data if isinstance(data, list) else [data]
    if not entries or not all(isinstance(one, dict) for one in entries):
        raise file.refuse("holds no records", KNOWN)
    found = name or next((name for name, form in FORMATS.items() if form.keys & entries[0].keys()), None)
    if found is None or not isinstance(data, FORMATS[found].json):
        raise file.refuse(UNKNOWN, KNOWN)
    return FORMATS[found].read(file, data)
