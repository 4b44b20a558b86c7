"""Replaying: the pipelines of a world by machine code, and what happened noted as the clock would."""

from array import array
from collections.abc import Generator, Iterable, Mapping, Sequence
from ctypes import CFUNCTYPE, c_int64, c_void_p, cast
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from simulator.flow.compiled.columns import FACTORS, Columns, Rows
from simulator.flow.compiled.laying import Gpu, Laid
from simulator.flow.flow import Flow
from simulator.flow.stages import OpenStage, StageQueue, StationStage
from simulator.rules.queues import DELAYS, Delays
from simulator.world.deployment import Scheduling

SOURCES = tuple(Path(__file__).with_name(name) for name in ("passing.py", "columns.py", "events.py", "turns.py"))
"""Of the machine code."""
SCHEDULINGS = (Scheduling.ROUND_ROBIN, Scheduling.FCFS, Scheduling.EDF)


def compiles(gpus: Iterable[Gpu], scheduling: Scheduling) -> bool:
    """Whether machine code knows what such GPUs do, were all their models in memory and their hosts always up."""
    queues = [queue for gpu in gpus for queue in gpu.queues]
    alone = all(type(queue) is StageQueue and queue.next_stage is None and not queue.of.router for queue in queues)
    return scheduling in SCHEDULINGS and alone


def serve(
    flow: Flow, gpus: Sequence[Gpu], scheduling: Scheduling, horizon_s: float, delays: Mapping[str, Delays]
) -> None:
    """Let all happen until the horizon, and note it."""
    code: Any = import_module("simulator.flow.compiled.passing")
    laid = Laid(flow, [gpu for gpu in gpus if gpu.queues], delays)
    columns = laid.columns(scheduling, horizon_s)
    failed: list[BaseException] = []
    drawing = _drawing(laid.delays, columns, failed)
    next(drawing)
    by_address = CFUNCTYPE(None, c_int64)(drawing.send)
    columns.clock["draw"] = cast(by_address, c_void_p).value
    begins = True
    while code.go_on(columns, begins) == code.SHORT:
        columns, begins = supplied(laid, columns), False
    if failed:
        raise failed[0]
    note(laid, columns)


def _drawing(delays: Sequence[Delays], columns: Columns, failed: list[BaseException]) -> Generator[None, int, None]:
    """Draws the next of the delays whose number it is sent.

    What is raised meanwhile, Ctrl-C among it, cannot pass through machine code: it is kept, and the end is brought on.
    """
    while True:
        try:
            number, is_follow = divmod((yield), columns.used.shape[1])
            drawn, column = delays[number], columns.follow_s if is_follow else columns.wake_s
            column[number] = np.fromiter(drawn.follow if is_follow else drawn.wake, np.float64, DELAYS)
        except GeneratorExit:
            return
        except BaseException as error:
            failed.append(error)
            columns.clock["horizon_s"] = 0.0


def supplied(laid: Laid, columns: Columns) -> Columns:
    """The same with what ran short: factors, or room for events or for what GPUs are told."""
    clock = columns.clock
    if (number := int(clock["empty"][0])) >= 0:
        columns.factors[number] = np.fromiter(laid.noise[number], np.float64, FACTORS)
        columns.queues["used"][number] = 0
        clock["empty"] = -1
    if clock["is_full"][0]:
        columns = columns._replace(agenda=np.concatenate([columns.agenda, columns.agenda], axis=1))
        clock["is_full"] = False
    if clock["events"][0] > clock["room"][0]:
        clock["room"] += len(columns.events)
        columns = columns._replace(events=np.concatenate([columns.events, columns.events]))
    return columns


def note(laid: Laid, columns: Columns) -> None:
    """What happened, where the clock would have noted it."""
    for number, stage in enumerate(laid.stages):
        _note_stage(stage, columns.places[laid.begins[number] :][: columns.stages["count"][number]])
    for one in laid.pipelines:
        begin = laid.frame_begin[id(one.frames)]
        mine = columns.frames[begin : begin + len(one.frames.arrival_s)]
        one.frames.answered_s = array("d", mine["answered_s"].tobytes())
        one.frames.lost_s = array("d", mine["lost_s"].tobytes())
    for number, queue in enumerate(laid.queues):
        row = columns.queues[number]
        log = columns.log[row["begin"] :][: row["rows"]]
        queue.head = int(row["head"] - row["begin"])
        queue.log.start_s.frombytes(log["start_s"].tobytes())
        queue.log.finish_s.frombytes(log["finish_s"].tobytes())
        queue.log.count.frombytes(log["count"].astype(np.int32).tobytes())
    uses = columns.uses[: columns.clock["uses"][0]]
    for number, station in enumerate(laid.stations):
        mine = uses[uses["station"] == number]
        station.start_s.frombytes(mine["start_s"].tobytes())
        station.finish_s.frombytes(mine["finish_s"].tobytes())


def _note_stage(stage: OpenStage, places: Rows) -> None:
    known = len(stage.items)
    stage.items.frombytes(places["item"][known:].tobytes())
    stage.came_s.frombytes(places["came_s"][known:].tobytes())
    if isinstance(stage, StationStage):
        stage.start_s.frombytes(places["start_s"].tobytes())
        stage.finish_s.frombytes(places["finish_s"].tobytes())
