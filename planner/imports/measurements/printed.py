"""What tools print: MLPerf's summary, Ultralytics' table, and that of torch.utils.benchmark."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from calibrate.io.files import quoted
from planner.imports.measurements.record import Measurements, ToolMeasurement, agree, number, whole
from planner.imports.texts import TextFile

# MLPerf's mlperf_log_summary.txt

ENTRY = re.compile(r"^\s*([^:]+?)\s*:\s*(.*?)\s*$")
SCENARIOS = ("singlestream", "multistream", "offline")
"""Of MLPerf's, those that time the device. Server says which load was offered."""
NANO = 1e-9
COARSE_PER_S = 0.2
"""Rates have two places: below, half of the last is more than figures may differ by."""


def read_mlperf(file: TextFile) -> Measurements:
    """The mean of a stream, or an offline throughput, which is the time of a batch that is not stated."""
    said_by: dict[str, str] = {}
    for _, line in file.lines:
        if entry := ENTRY.match(line):
            said_by.setdefault(entry[1].lower(), entry[2])
    scenario = said_by.get("scenario", "").replace(" ", "").lower()
    if any("token" in name for name in said_by):
        raise file.refuse("times tokens of a language model, whose samples are no fixed piece of work", NO_TOKENS)
    if scenario not in SCENARIOS:
        named = quoted(said_by.get("scenario", ""))
        wrong = f"is of scenario {named}, which says what load was offered and not what a batch takes"
        raise file.refuse(wrong, "Name one of SingleStream, MultiStream or Offline")
    if not said_by.get("mode", "").lower().startswith("performance"):
        raise file.refuse("is of a run for accuracy, which is not timed", "Name the summary of a performance run")
    if scenario == "offline":  # of one sample; the batch multiplies it
        rate = number(file, said_by.get("samples per second"), "Samples per second")
        point = ToolMeasurement(latency_s=1 / rate, column=PER_SAMPLE)
    else:
        point = _stream(file, said_by, scenario)
    valid = said_by.get("result is", "").upper() == "VALID"
    return Measurements(
        tool=f"MLPerf LoadGen, {said_by.get('scenario')}",
        points=(point,),
        by_gpus=scenario != "singlestream",
        doubts=() if valid else ("MLPerf says that this run is not valid: measure it again.",),
    )


NO_TOKENS = "Plans are about batches of fixed work"


PER_SAMPLE = "throughput"
"""Column of a time for each sample, of batches whose size is not stated."""


def _stream(file: TextFile, said_by: dict[str, str], scenario: str) -> ToolMeasurement:
    mean_ns = number(file, said_by.get("mean latency (ns)"), "Mean latency (ns)")
    rate = said_by.get("qps w/o loadgen overhead")
    batch = whole(file, said_by.get("samples_per_query", said_by.get("samples per query")), "samples_per_query")
    if scenario == "singlestream":
        if batch != 1:
            raise file.refuse(f"is a single stream with {batch} samples a query", "Mend the file")
        if rate and (per_s := number(file, rate, "QPS w/o loadgen overhead")) > COARSE_PER_S:
            agree(file, mean_ns * NANO, 1 / per_s, "the latency in s")
    return ToolMeasurement(batch=batch, latency_s=mean_ns * NANO)


# Ultralytics' `benchmark`

COMPLETE = re.compile(r"Benchmarks complete for (\S+)(?: on \S+)? at imgsz=(\d+)")
SYSTEM = re.compile(r"Ultralytics (?:YOLO\S* )?v?(\d[\w.]*).*?(?:CUDA:\d+ \((.+?), \d+MiB\)|$)")
HALF = re.compile(r"\b(?:half|quantize)=(\w+)")
HALVES = {"True": "fp16", "16": "fp16", "8": "int8", "False": "fp32", "32": "fp32", "None": "fp32"}
"""Precisions by what `half` was, and `quantize` is since 8.4."""
PROCESSOR = re.compile(r"^Ultralytics .* CPU \(|\bdevice=.?cpu\b", re.MULTILINE)
ROW = re.compile(
    r"^\s*\d*\s+(?P<format>[A-Za-z][A-Za-z .]*?)\s+(?P<status>\S+)\s+(?P<size>[\d.]+)"
    r"\s+(?P<accuracy>\S+)\s+(?P<time>\S+)(?:\s+(?P<fps>\S+))?\s*$"
)
BORDERS = str.maketrans("│┆|", "   ")
FAILED = ("-", "nan", "NaN", "None", "null")
PLACES = 0.02
"""Share by which FPS may miss 1000 over the time, which is written with two places; 0.005 of 0.3 ms."""


def _exported(file: TextFile, shared: Mapping[str, str], *, several: bool) -> Iterator[ToolMeasurement]:
    """The rows of all tables; of `several` runs, each names its own."""
    facts, run = dict(shared), 0
    for line, text in file.lines:
        if complete := COMPLETE.search(text):
            run += 1
            facts |= {"model": PurePosixPath(complete[1]).stem, "input": f"{complete[2]}x{complete[2]}"}
        if point := _row(file, line, text, facts):
            yield replace(point, column=f"{point.column}, run {run}") if several else point


def read_ultralytics(file: TextFile) -> Measurements:
    """A row for each exported format, of batch 1. `benchmarks.log` takes another table for each run."""
    runs = COMPLETE.findall(file.text)
    if len({name for name, _ in runs}) > 1:
        raise file.refuse("holds the tables of several models", "Keep one in the file")
    if not runs:
        raise file.refuse(
            "has no line `Benchmarks complete for ... at imgsz=...`", "Save all that `yolo benchmark` says"
        )
    systems = SYSTEM.findall(file.text)
    half = _only(HALF.findall(file.text))
    shared = {"gpu": _only([gpu for _, gpu in systems]), "precision": HALVES.get(half, "")}
    points = list(_exported(file, shared, several=len(runs) > 1))
    if not points:
        raise file.refuse("has no format that could be timed", "Name a table with `Inference time (ms/im)`")
    return Measurements(
        tool=f"Ultralytics {systems[0][0]} benchmark" if systems else "Ultralytics benchmark",
        points=tuple(points),
        by_processor=PROCESSOR.search(file.text) is not None,
        assumptions=("Weights are taken as large as the exported file.",),
    )


def _only(found: Sequence[str]) -> str:
    """What all say; empty where they differ."""
    return found[0] if len(set(found)) == 1 else ""


def _row(file: TextFile, line: int, text: str, shared: dict[str, str]) -> ToolMeasurement | None:
    row = ROW.match(text.translate(BORDERS))
    if not row or row["time"] in FAILED or "imgsz" in text:
        return None
    time_ms = number(file, row["time"], "Inference time (ms/im)", line)
    if (fps := row["fps"]) and fps not in FAILED:
        rate = number(file, fps, "FPS", line)
        if abs(rate * time_ms / 1e3 - 1) > max(PLACES, 0.006 / time_ms):
            raise file.refuse(f"{time_ms:g} ms are no {rate:g} FPS", "Measure it again", line)
    return ToolMeasurement(
        line=line,
        batch=1,
        latency_s=time_ms / 1e3,
        column=row["format"],
        facts={name: value for name, value in {**shared, "runtime": row["format"]}.items() if value},
        weight_bytes=number(file, row["size"], "Size (MB)", line) * 1e6,
    )


# torch.utils.benchmark's `Compare`

UNITS = {"nanoseconds (ns)": 1e-9, "microseconds (us)": 1e-6, "milliseconds (ms)": 1e-3, "seconds (s)": 1.0}
UNIT = re.compile(r"Times are in (\w+ \(\w+\))")
TITLE = re.compile(r"^\[-+ ?(.*?) ?-+\]$")
BATCH = re.compile(r"(?:^|\b(?:batch(?:[_ ]?size)?|bs)[ =:_]*)(\d+)\b", re.IGNORECASE)
SPREAD = re.compile(r"\s*\(\+-[\d.]+\)$")
"""After a time, where it is shown."""
COLOURS = re.compile("\x1b\\[[0-9;]*m")


def _compared(file: TextFile) -> Iterator[tuple[int, str, dict[str, str]]]:
    """The rows of all tables: line, label, and cells by their column; of several tables with its title."""
    lines = [(line, COLOURS.sub("", coloured)) for line, coloured in file.lines]
    several = len(set(filter(TITLE.match, (text.strip() for _, text in lines)))) > 1
    heads: list[str] = []
    title = ""
    for line, text in lines:
        label, *cells = map(str.strip, text.split("|"))
        if found := TITLE.match(text.strip()):
            heads, title = [], f"{found[1]}, " if several else ""
        elif heads and cells:
            yield line, label, dict(zip(heads, cells, strict=False))
        else:
            heads = heads or [f"{title}{cell}" for cell in cells]


def read_torch_benchmark(file: TextFile) -> Measurements:
    """A row for each batch size and a column for each description."""
    unit = UNIT.search(file.text)
    if not unit or unit[1] not in UNITS:
        raise file.refuse("does not say which unit its times are in", "Save all that `Compare.print()` says")
    points: list[ToolMeasurement] = []
    for line, label, cells in _compared(file):
        points += _cells(file, line, label, cells, UNITS[unit[1]])
    if not points:
        raise file.refuse("has no row of times", "Save all that `Compare.print()` says")
    return Measurements(tool="torch.utils.benchmark", points=tuple(points))


def _cells(file: TextFile, line: int, label: str, cells: dict[str, str], unit_s: float) -> list[ToolMeasurement]:
    batch = BATCH.search(label)
    if not batch:
        wrong = f"the row `{label[:40]}` names no batch size"
        raise file.refuse(wrong, "Give each Timer a sub_label such as `batch 8`", line)
    return [
        ToolMeasurement(
            line=line,
            batch=whole(file, batch[1], "the batch", line),
            latency_s=number(file, SPREAD.sub("", value).strip("()! "), head, line) * unit_s,
            column=head,
        )
        for head, value in cells.items()
        if value
    ]
