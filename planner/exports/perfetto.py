"""Perfetto: the plan's window of one replication as a timeline, in Chrome's trace event format.

One process for each GPU, with threads for what it computes, what it copies and when requests wait. Requests overlap, so
they are asynchronous events in lanes of their own. ui.perfetto.dev and chrome://tracing open it.
"""

import heapq
import json
from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any

from planner.exports.fleet import ExportError
from planner.model.plan import Plan
from planner.model.timeline import RequestColumns, Timeline

COMPUTE, COPY, QUEUE = 1, 2, 3
THREADS = {COMPUTE: "compute", COPY: "copy", QUEUE: "queue"}
Event = dict[str, Any]


def trace(plan: Plan) -> str:
    """The whole file, an event a line."""
    timeline = plan.timeline
    if timeline is None:
        raise ExportError("the plan holds no timeline: nothing was replayed, or it is of an older version. Plan again.")
    window = {"window_begins_s": timeline.start_s, "window_ends_s": timeline.end_s}
    about = {"scenario": plan.scenario, "seed": timeline.seed, **window}
    found = (placed(event, timeline.start_s) for event in events(plan, timeline))
    lines = ",\n".join(json.dumps(event, separators=(",", ":")) for event in found)
    return f'{{"displayTimeUnit":"ms","otherData":{json.dumps(about)},"traceEvents":[\n{lines}\n]}}\n'


def events(plan: Plan, timeline: Timeline) -> Iterator[Event]:
    """All events: names first, then what each GPU did, then requests and queues."""
    kinds = {gpu.id: gpu.kind for gpu in plan.recommendation.gpus}
    for number, gpu in enumerate(timeline.gpus):
        yield from named_process(process(number), f"{gpu} ({kinds.get(gpu, '?')})")
        for thread, name in THREADS.items():
            yield meta("thread_name", process(number), thread, name=name)
            yield meta("thread_sort_index", process(number), thread, sort_index=thread)
    models, lost, queues = timeline.models, *beside(timeline)
    yield from named_process(lost, "lost requests")
    yield from named_process(queues, "queues")
    for gpu, model, start_s, end_s, size in rows(timeline.batches):
        yield span(models[model], process(gpu), COMPUTE, start_s, end_s, requests=size)
    for gpu, model, start_s, end_s, size in rows(timeline.loads):  # of weights, from the host
        yield span(f"load {models[model]}", process(gpu), COPY, start_s, end_s, bytes=size)
    yield from waiting(timeline)
    for gpu, time_s, size in rows(timeline.memory):
        yield counter("memory", process(gpu), time_s, bytes=size)
    for model, time_s, length in rows(timeline.queue):
        yield counter(f"{models[model]} waiting", queues, time_s, requests=length)
    yield from requests(timeline)


def placed(event: Event, window_begins_s: float) -> Event:
    """The event at its time in the replication: what began before the window has a negative time within it."""
    return {**event, "ts": round(event["ts"] + micros(window_begins_s), 3)} if "ts" in event else event


def process(gpu: int) -> int:
    """Number of a GPU's process; 0 would be the idle task of a system."""
    return gpu + 1


def beside(timeline: Timeline) -> tuple[int, int]:
    """Tracks of requests that no GPU answered, and of the lengths of queues, each of a model on all its GPUs."""
    return len(timeline.gpus) + 1, len(timeline.gpus) + 2


def named_process(pid: int, name: str) -> Iterator[Event]:
    """Its name, and its place in the list."""
    yield meta("process_name", pid, 0, name=name)
    yield meta("process_sort_index", pid, 0, sort_index=pid)


def meta(what: str, pid: int, tid: int, **args: Any) -> Event:
    """Something about a process or a thread."""
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args}


def span(name: str, pid: int, tid: int, start_s: float, end_s: float, **args: Any) -> Event:
    """Something that lasts, alone on its thread at the time."""
    start_us = micros(start_s)
    return {
        "ph": "X",
        "name": name,
        "pid": pid,
        "tid": tid,
        "ts": start_us,
        "dur": round(micros(end_s) - start_us, 3),
        "args": args,
    }


def micros(time_s: float) -> float:
    """Microseconds, to the nanosecond."""
    return round(time_s * 1e6, 3)


def rows(columns: Any) -> Iterator[tuple[Any, ...]]:
    """What stands in the columns of a timeline, row by row."""
    return zip(*(getattr(columns, one.name) for one in fields(columns)), strict=True)


def waiting(timeline: Timeline) -> Iterator[Event]:
    """When requests waited for each GPU: from the first that waits until none does."""
    r = timeline.requests
    for number in range(len(timeline.gpus)):
        waits = [(a, s) for a, s, gpu in zip(r.arrival_s, r.start_s, r.gpu, strict=True) if gpu == number and s > a]
        for start_s, end_s, count in together(waits):
            yield span("requests wait", process(number), QUEUE, start_s, end_s, requests=count)


def together(spans: Iterable[tuple[float, float]]) -> Iterator[tuple[float, float, int]]:
    """Spans that overlap as one, and how many they are."""
    start_s = end_s = 0.0
    count = 0
    for first, last in sorted(spans):
        if count and first > end_s:
            yield start_s, end_s, count
            count = 0
        start_s, end_s, count = (start_s, max(end_s, last), count + 1) if count else (first, last, 1)
    if count:
        yield start_s, end_s, count


def counter(name: str, pid: int, time_s: float, **value: int) -> Event:
    """A figure from this time on."""
    return {"ph": "C", "name": name, "pid": pid, "ts": micros(time_s), "args": value}


def requests(timeline: Timeline) -> Iterator[Event]:
    """Every request from its arrival to its answer, on its GPU; within it, how long it waited and when it ran."""
    r, (lost, _) = timeline.requests, beside(timeline)
    for i, lane in lanes(r):
        model, answered = timeline.models[r.model[i]], r.gpu[i] >= 0
        pid = process(r.gpu[i]) if answered else lost
        track = {"cat": "request", "id": f"{r.gpu[i]}:{model}:{lane}", "pid": pid, "tid": QUEUE}
        marks = [("b", model, r.arrival_s[i]), ("b", "waits", r.arrival_s[i]), ("e", "waits", r.start_s[i])]
        if answered:
            marks += [("b", "runs", r.start_s[i]), ("e", "runs", r.finish_s[i])]
        for phase, name, time_s in [*marks, ("e", model, r.finish_s[i])]:
            yield {"ph": phase, "name": name, **track, "ts": micros(time_s)}


def lanes(r: RequestColumns) -> Iterator[tuple[int, int]]:
    """Requests in the order of their arrival, each with the lowest lane of its model and GPU that is free then."""
    busy: dict[tuple[int, int], list[tuple[float, int]]] = {}
    free: dict[tuple[int, int], list[int]] = {}
    for i in sorted(range(len(r.model)), key=lambda i: r.arrival_s[i]):
        key = (r.gpu[i], r.model[i])
        running, spare = busy.setdefault(key, []), free.setdefault(key, [])
        while running and running[0][0] <= r.arrival_s[i]:
            heapq.heappush(spare, heapq.heappop(running)[1])
        lane = heapq.heappop(spare) if spare else len(running)
        heapq.heappush(running, (r.finish_s[i], lane))
        yield i, lane
