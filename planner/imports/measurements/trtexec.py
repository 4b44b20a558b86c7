"""trtexec of TensorRT: its log, and what `--exportTimes` and `--exportProfile` write."""

import re
from collections.abc import Iterator, Sequence
from datetime import date
from statistics import fmean, pstdev
from typing import Any

from planner.imports.measurements.record import Measurements, ToolMeasurement, agree, number, whole
from planner.imports.serving.found import bare_name
from planner.imports.texts import TextFile

STARTED = re.compile(r"^&&&& RUNNING TensorRT\.trtexec", re.MULTILINE)
ENDED = re.compile(r"&&&& (PASSED|FAILED) TensorRT\.trtexec")
COMMAND = re.compile(r"&&&& [A-Z]+ TensorRT\.trtexec(?: \[TensorRT v(\d+)\])?.*? # (.*)")
"""Before TensorRT 8, without its version."""
DAY = re.compile(r"^\[(\d\d)/(\d\d)/(\d{4})-", re.MULTILINE)
COMPUTE = re.compile(
    r"GPU Compute Time: (?:min = \S+ ms, max = \S+ ms, )?mean = (\S+) ms"
    r"|GPU Compute *\n(?:.*\n){2}.*\] mean: (\S+) ms"
)
"""Since TensorRT 8, and before."""
AVERAGES = re.compile(r"Average on (\d+) runs - GPU latency: (\S+) ms")
BINDING = re.compile(r"(?:Created input|Input) binding for .* with dimensions ([\dx]+)")
"""Of TensorRT up to 8.5, and since."""
ASKED = re.compile(r"Input inference shapes? ?: [^\s=]+=(\d+)x")
SHAPES = re.compile(r"--shapes=[^\s:]+:(\d+(?:x\d+)*)")
IMPLICIT = re.compile(r"\] Batch: (\d+)\s*$", re.MULTILINE)
DEVICE = re.compile(r"Selected Device: (.+)")
CAPABILITY = re.compile(r"Compute Capability: (\d+)\.")
VERSION = re.compile(r"TensorRT version: ([\d.]+)")
PRECISION = re.compile(r"Precision: (FP32\S*)")
"""Not where an engine is strongly typed, as all are since TensorRT 11: its network says what each layer runs at."""
LOADED = re.compile(r"Load engine: *(\S+)")
MODEL = re.compile(r"\] (?:Model|Prototxt): *(\S+)")
FILE = re.compile(r"--(?:onnx|loadEngine|deploy|uff)=(\S+)")
ENGINE_BYTES = re.compile(r"Loaded engine size: (\d+) (?:MiB|MB)")
CONTEXT_BYTES = re.compile(r"allocation in IExecutionContext creation: CPU [+-]\d+, GPU \+(\d+)")
ACTIVATION_BYTES = re.compile(r"Total Activation Memory: (\d+)")
STREAMS = re.compile(r"Streams: (\d+)")
MIB = 1024 * 1024
FLAGS = (("int8", "--int8"), ("int8", "--best"), ("bf16", "--bf16"), ("fp16", "--fp16"))
"""Precisions by the flag that asks for them, the lowest first: it is the one most layers run at."""
TF32_SINCE = 8
"""Compute capability from which TensorRT computes in TF32 unless it is told not to."""
OVERLAP = "Copies of inputs and outputs are not part of the times: another batch computes meanwhile."
AS_ENGINE = "Weights are taken as large as the engine."
LAYER_BY_LAYER = "Times are sums of layers timed one by one, which takes longer than a run of all."
NOT_PASSED = "Let it run to its end, or leave it out"
MARKS = ("TensorRT.trtexec", "=== Performance summary ===")
"""In every log, and in the part of it that people keep."""


def read_log(file: TextFile) -> Measurements:
    """The mean GPU compute time of each run: several may have written into one file."""
    runs = list(_runs(file))
    points = tuple(_point(run, line) for line, run in runs)
    return Measurements(
        tool=f"trtexec {_version(runs[0][1])}".rstrip(),
        as_of=max(_day(run) for _, run in runs),
        points=points,
        assumptions=(OVERLAP, AS_ENGINE) if any(point.weight_bytes for point in points) else (OVERLAP,),
    )


def _runs(file: TextFile) -> Iterator[tuple[int, TextFile]]:
    """The line at which each run begins, and what it said; of a log that was cut out, what there is."""
    begins = sorted({0, *(found.start() for found in STARTED.finditer(file.text))})
    for begin, end in zip(begins, [*begins[1:], len(file.text)], strict=True):
        text = file.text[begin:end]
        if STARTED.match(text) or COMPUTE.search(text) or len(begins) == 1:
            yield file.text.count("\n", 0, begin) + 1, TextFile(file.path, text)


def _point(file: TextFile, line: int) -> ToolMeasurement:
    """One run."""
    ended = ENDED.search(file.text)
    whole_log = STARTED.match(file.text) is not None
    if (ended and ended[1] != "PASSED") or (whole_log and not ended):
        raise file.refuse("is a log of trtexec that did not end as PASSED", NOT_PASSED, line)
    computed = _computed(file, line)
    if int(_first(STREAMS, file) or 1) > 1:
        wrong = "is of several streams at once, whose batches disturb each other"
        raise file.refuse(wrong, "Run it with --streams=1", line)
    time_ms = number(file, computed, "GPU Compute Time", line)
    groups = [(int(count), number(file, ms, "GPU latency")) for count, ms in AVERAGES.findall(file.text)]
    if groups:  # averages of tens of runs each, which are the same runs
        runs = sum(count for count, _ in groups)
        agree(file, time_ms, sum(count * ms for count, ms in groups) / runs, "the mean GPU time in ms")
    command = COMMAND.search(file.text)
    words = command[2] if command else ""
    dimensions = (_first(BINDING, file) or _first(SHAPES, file) or "").split("x")
    return ToolMeasurement(
        line=line,
        batch=_batch(file, dimensions),
        latency_s=time_ms / 1e3,
        facts=_facts(file, words, dimensions),
        weight_bytes=_size(ENGINE_BYTES, file, MIB),
        workspace_bytes=_size(CONTEXT_BYTES, file, MIB) or _size(ACTIVATION_BYTES, file),
    )


def _computed(file: TextFile, line: int) -> str:
    """The one mean GPU compute time of a run."""
    computed: list[str] = [one or other for one, other in COMPUTE.findall(file.text)]
    if not computed:
        raise file.refuse("has no `GPU Compute Time`", "Let trtexec time the engine (not --buildOnly)", line)
    if len(computed) > 1:
        raise file.refuse("has several summaries below each other", "Keep one, or whole logs with their commands", line)
    return computed[0]


def _batch(file: TextFile, dimensions: Sequence[str]) -> int | None:
    """The batch by the shape of the first input, and by the shape that was asked for; they must be one."""
    bound = dimensions[0] if len(dimensions) > 1 else ""
    asked, implicit = _first(ASKED, file), _first(IMPLICIT, file)
    if asked and bound and asked != bound and not implicit:
        raise file.refuse(f"asks for a batch of {asked} and runs one of {bound}", "Name it with --batch in its own run")
    beside = implicit if implicit != "1" else None  # one beside the shapes that is 1 may be any of theirs
    found = beside or asked or bound or implicit
    return whole(file, found, "the batch") if found else None


def _facts(file: TextFile, command: str, dimensions: Sequence[str]) -> dict[str, str]:
    files = (_first(pattern, file) for pattern in (MODEL, LOADED, FILE))
    facts = {
        "model": bare_name(next(filter(None, files), "")),
        "gpu": (_first(DEVICE, file) or "").strip(),
        "runtime": "tensorrt",
        "precision": _precision(file, command),
        "input": "x".join(dimensions[1:]),
    }
    return {name: value for name, value in facts.items() if value}


def _precision(file: TextFile, command: str) -> str:
    """Lowest that the build may use; empty where an engine was loaded whose build is not in the log."""
    named, built = next((name for name, flag in FLAGS if flag in command.split()), ""), _first(PRECISION, file)
    if named or _first(LOADED, file) or not built:
        return named
    reduced = next((name for name in ("int8", "bf16", "fp16") if name.upper() in built), "")
    may_use_tf32 = int(_first(CAPABILITY, file) or 0) >= TF32_SINCE and "--noTF32" not in command
    return reduced or ("tf32" if may_use_tf32 else "fp32")


def _version(file: TextFile) -> str:
    """`8.5.0`, also where a log has `8500` alone, and `10.1.0` for `100100`; empty where it says none."""
    if found := _first(VERSION, file):
        return found
    command = COMMAND.search(file.text)
    packed = (command[1] or "") if command else ""
    major = len(packed) - 4 if len(packed) > 4 else 1
    parts = (packed[:major], packed[major:-2], packed[-2:])
    return ".".join(str(int(part)) for part in parts if part)


def _day(file: TextFile) -> str:
    found = DAY.search(file.text)
    if not found:
        return ""
    month, day, year = map(int, found.groups())
    try:
        return date(year, month, day).isoformat()
    except ValueError:
        return ""


def _size(pattern: re.Pattern[str], file: TextFile, unit: int = 1) -> float | None:
    found = _first(pattern, file)
    return float(found) * unit if found and float(found) else None


def _first(pattern: re.Pattern[str], file: TextFile) -> str | None:
    found = pattern.search(file.text)
    return found[1] if found else None


def read_times(file: TextFile, runs: list[Any]) -> Measurements:
    """`--exportTimes`: a record for each run."""
    times = []
    for run in runs:
        time_ms = number(file, run.get("computeMs"), "computeMs")
        if {"startComputeMs", "endComputeMs"} <= run.keys():
            end, start = (_any_number(file, run[key], key) for key in ("endComputeMs", "startComputeMs"))
            if abs(end - start - time_ms) > max(0.01, 0.05 * time_ms):
                raise file.refuse(
                    f"computeMs is {time_ms:g}, and from its start to its end {end - start:g}", "Export it again"
                )
        times.append(time_ms / 1e3)
    mean_s = fmean(times)
    spread = pstdev(times) / mean_s if len(times) > 1 else None
    point = ToolMeasurement(latency_s=mean_s, spread=spread, facts={"runtime": "tensorrt"})
    return Measurements(tool="trtexec --exportTimes", points=(point,), assumptions=(OVERLAP,))


def _any_number(file: TextFile, value: object, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise file.refuse(f"{what} must be a number", "Export it again")
    return float(value)


def read_layers(file: TextFile, entries: list[Any]) -> Measurements:
    """`--exportProfile`: how often all ran, then a record for each layer."""
    count = whole(file, entries[0].get("count"), "count")
    total_ms = 0.0
    for layer in entries[1:]:
        average_ms = _any_number(file, layer.get("averageMs"), "averageMs")
        time_ms = _any_number(file, layer.get("timeMs"), "timeMs")
        if average_ms < 0 or time_ms < 0:
            raise file.refuse("has a layer of less than 0 ms", "Export it again")
        if abs(time_ms - count * average_ms) > max(0.01 * count, 0.05 * time_ms):
            wrong = f"timeMs is {time_ms:g}, and {count} runs of averageMs are {count * average_ms:g}"
            raise file.refuse(wrong, "Export it again")
        total_ms += average_ms
    point = ToolMeasurement(
        latency_s=number(file, total_ms, "the sum of averageMs") / 1e3, facts={"runtime": "tensorrt"}
    )
    return Measurements(tool="trtexec --exportProfile", points=(point,), assumptions=(OVERLAP, LAYER_BY_LAYER))
