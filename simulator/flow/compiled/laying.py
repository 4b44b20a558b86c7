"""Laying out: the pipelines of a world as columns, all that may happen on them drawn already."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from math import inf, nan
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from simulator.flow.compiled import columns as rows
from simulator.flow.compiled.columns import FACTORS, Columns, Rows
from simulator.flow.flow import Flow
from simulator.flow.items import Counts
from simulator.flow.stages import Join, ModelStage, OpenStage, StageQueue, StationStage
from simulator.rules.queues import AT_ONCE, DELAYS, Delays, Queue
from simulator.world.deployment import Drop, Scheduling
from simulator.world.hardware import Device
from simulator.world.workload import Floats

DROPS = {
    None: rows.NEVER,
    Drop.LATE: rows.LATE,
    Drop.NEWEST: rows.NEWEST,
    Drop.NEWEST_AND_LATE: rows.NEWEST_AND_LATE,
}
AGENDA_ROOM = 4
"""Entries for each queue of a GPU, to begin with: its own, and what batches have left that filled early."""
EVENTS_ROOM = 2
"""Times as many events as one may bring, to begin with: those, and what sleeps have left that were cut short."""


class Gpu(Protocol):
    """One that serves."""

    device: Device
    queues: Sequence[Queue]
    noise: Sequence[Iterator[float]]


class Laid:
    """Where each stage, station and queue of a world is in its columns."""

    def __init__(self, flow: Flow, gpus: Sequence[Gpu], delays: Mapping[str, Delays] = MappingProxyType({})) -> None:
        self.pipelines = list(flow.pipelines.values())
        self.stages = [stage for one in self.pipelines for stage in one.stages.values()]
        self.numbers = {id(stage): number for number, stage in enumerate(self.stages)}
        self.first = {id(stage) for one in self.pipelines for stage in one.first.values()}
        self.stations = sorted(flow.stations, key=lambda one: one.station.kind)
        self.gpus = gpus
        self.queues = [queue for gpu in gpus for queue in gpu.queues if isinstance(queue, StageQueue)]
        self.noise = [factors for gpu in gpus for factors in gpu.noise]
        self.of_stage = {id(queue): number for number, queue in enumerate(self.queues)}
        self.begins = begins_of(len(stage.drawn.frame) for stage in self.stages)
        frame_begins = begins_of(len(one.frames.arrival_s) for one in self.pipelines)
        self.frame_begin = {id(one.frames): begin for one, begin in zip(self.pipelines, frame_begins, strict=False)}
        self.frame_count = frame_begins[-1]
        self.is_delayed = bool(delays)
        self.of_gpu = [delays.get(gpu.device.id, AT_ONCE) for gpu in gpus]
        self.of_queue = [
            delays.get(queue.stage.model, own)
            for gpu, own in zip(gpus, self.of_gpu, strict=True)
            for queue in gpu.queues
        ]
        self.of_station_stage = [
            delays.get(name) if isinstance(stage, StationStage) else None for name, stage in flow.stages.items()
        ]
        self.delays = list({id(one): one for one in (*self.of_queue, *self.of_station_stage) if one}.values())
        self.delay_numbers = {id(one): number for number, one in enumerate(self.delays)}

    def columns(self, scheduling: Scheduling, horizon_s: float) -> Columns:
        """All that may happen."""
        ways = [way for stage in self.stages for way in stage.following]
        joins = list({id(join): join for stage in self.stages for join in stage.joins}.values())
        numbers = {id(join): number for number, join in enumerate(joins)}
        queues, waiting = self._queues()
        widths = [len(gpu.queues) for gpu in self.gpus]
        work_items = sum(len(stage.drawn.frame) for stage in self.stages if isinstance(stage, StationStage))
        # One event at the most brings so many: all that stations do, and each GPU begins a batch, or is woken.
        most = work_items + 3 * len(self.gpus) + len(self.pipelines) + 1
        clock = np.zeros(1, rows.CLOCK)
        clock["horizon_s"], clock["room"], clock["empty"] = horizon_s, (EVENTS_ROOM - 1) * most, -1
        clock["in_turn"] = scheduling is Scheduling.ROUND_ROBIN
        clock["by_deadline"] = scheduling is Scheduling.EDF
        clock["is_delayed"] = self.is_delayed
        return Columns(
            clock=clock,
            stages=self._stages(),
            items=self._items(),
            places=self._places(),
            ways=_filled(
                rows.WAY,
                stage=[self.numbers[id(way.stage)] for way in ways],
                begin=begins_of(len(way.drawn) for way in ways)[:-1],
            ),
            begins=_joined(way.drawn for way in ways),
            joins=self._joins(joins),
            join_after=np.array([numbers[id(join)] for stage in self.stages for join in stage.joins], dtype=np.int64),
            joined=_filled(
                rows.JOINED, item=_joined(join.drawn for join in joins), left=_joined(join.whole for join in joins)
            ),
            frames=self._frames(),
            sources=self._sources(),
            stations=self._station_rows(),
            free_s=np.zeros(sum(one.station.servers for one in self.stations)),
            uses=np.zeros(work_items, rows.USE),
            queues=queues,
            waiting=waiting,
            log=np.zeros(len(waiting), rows.BATCH),
            service_s=self._service_s(),
            factors=self._factors(),
            wake_s=np.zeros((len(self.delays), DELAYS)),
            follow_s=np.zeros((len(self.delays), DELAYS)),
            used=np.full((len(self.delays), 2), DELAYS),
            gpus=self._gpus(widths),
            agenda=np.zeros((len(widths), AGENDA_ROOM * max(widths, default=0)), rows.ENTRY),
            events=np.zeros(EVENTS_ROOM * most, rows.EVENT),
            spare=np.zeros(max((len(stage.drawn.frame) for stage in self.stages), default=0), rows.SPARE),
        )

    def _stages(self) -> Rows:
        ways = begins_of(len(stage.following) for stage in self.stages)
        joins = begins_of(len(stage.joins) for stage in self.stages)
        kinds = [one.station.kind for one in self.stations]
        kind = [stage.stations[0].station.kind if isinstance(stage, StationStage) else "" for stage in self.stages]
        model = [isinstance(stage, ModelStage) for stage in self.stages]
        return _filled(
            rows.STAGE,
            begin=self.begins[:-1],
            count=[len(stage.items) for stage in self.stages],
            is_model=model,
            is_fed=[id(stage) in self.first and not model[i] for i, stage in enumerate(self.stages)],
            way=ways[:-1],
            way_end=ways[1:],
            join=joins[:-1],
            join_end=joins[1:],
            station=[kinds.index(one) if one else 0 for one in kind],
            station_end=[kinds.index(one) + kinds.count(one) if one else 0 for one in kind],
            delays=[self.delay_numbers.get(id(one), -1) for one in self.of_station_stage],
        )

    def _items(self) -> Rows:
        """Those of all stages."""
        return _filled(
            rows.ITEM,
            frame=_joined(stage.drawn.frame + self.frame_begin[id(stage.frames)] for stage in self.stages),
            work_s=np.concatenate([self._work_s(stage) for stage in self.stages]),
            home=_joined(map(self._home, self.stages)),
            owner=_joined(map(self._owner, self.stages)),
        )

    def _work_s(self, stage: OpenStage) -> Floats:
        return stage.drawn_s if isinstance(stage, StationStage) else np.zeros(len(stage.drawn.frame))

    def _home(self, stage: OpenStage) -> Counts:
        """By item: the station where its source stays."""
        count = len(stage.drawn.frame)
        if not (isinstance(stage, StationStage) and stage.homes and count):
            return np.full(count, -1)
        kinds = [one.station.kind for one in self.stations]
        of_source = np.zeros(max(stage.homes) + 1, dtype=np.int64)
        of_source[list(stage.homes)] = list(stage.homes.values())
        found: Counts = of_source[stage.frames.demand.source[stage.drawn.frame]]
        return found + kinds.index(stage.stations[0].station.kind)

    def _owner(self, stage: OpenStage) -> Counts:
        """By place: the queue where it goes."""
        count = len(stage.drawn.frame)
        if not isinstance(stage, ModelStage):
            return np.full(count, -1)
        queues = np.array([self.of_stage[id(queue)] for queue in stage.queues], dtype=np.int64)
        return queues[stage.dealt_to] if len(queues) > 1 else np.full(count, queues[0])

    def _places(self) -> Rows:
        """Those at stages that frames enter and that are models: they are known."""
        found = np.zeros(self.begins[-1], rows.PLACE)
        for begin, stage in zip(self.begins, self.stages, strict=False):
            mine = slice(begin, begin + len(stage.items))
            found["item"][mine], found["came_s"][mine] = stage.items, stage.came_s
        return found

    def _joins(self, joins: Sequence[Join]) -> Rows:
        begins = begins_of(len(join.drawn) for join in joins)
        return _filled(
            rows.JOIN,
            stage=[self.numbers[id(join.stage)] for join in joins],
            begin=[begin - self.frame_begin[id(join.stage.frames)] for begin, join in zip(begins, joins, strict=False)],
        )

    def _frames(self) -> Rows:
        found = _filled(
            rows.FRAME,
            arrival_s=np.concatenate([one.frames.demand.arrival_s for one in self.pipelines]),
            left=_joined(one.frames.whole for one in self.pipelines),
        )
        found["answered_s"] = found["lost_s"] = nan
        return found

    def _sources(self) -> Rows:
        """Pipelines that frames enter at stations; the others' models know theirs."""
        ends = begins_of(len(one.stages) for one in self.pipelines)[1:]
        fed = [
            (one, end)
            for one, end in zip(self.pipelines, ends, strict=True)
            if any(isinstance(stage, StationStage) for stage in one.first.values())
        ]
        first = [self.frame_begin[id(one.frames)] for one, _ in fed]
        return _filled(
            rows.SOURCE,
            first=first,
            frame=first,
            end=[begin + len(one.frames.arrival_s) for begin, (one, _) in zip(first, fed, strict=True)],
            stage=[end - len(one.stages) for one, end in fed],
            stage_end=[end for _, end in fed],
        )

    def _station_rows(self) -> Rows:
        servers = begins_of(one.station.servers for one in self.stations)
        return _filled(
            rows.STATION,
            server=servers[:-1],
            server_end=servers[1:],
            speed=[one.speed for one in self.stations],
            capacity=[one.capacity for one in self.stations],
        )

    def _queues(self) -> tuple[Rows, Rows]:
        """Queues, and what waits in those of stages that frames enter."""
        owner = _joined(map(self._owner, self.stages))
        begins = begins_of(np.bincount(owner[owner >= 0], minlength=len(self.queues)))
        found = _filled(
            rows.QUEUE,
            gpu=[number for number, gpu in enumerate(self.gpus) for _ in gpu.queues],
            stage=[self.numbers[id(queue.of)] for queue in self.queues],
            begin=begins[:-1],
            head=begins[:-1],
            end=begins[:-1],
            cap=[queue.cap for queue in self.queues],
            drop=[DROPS[queue.drop] for queue in self.queues],
            delay_s=[queue.policy.max_queue_delay_s for queue in self.queues],
            slo_s=[queue.slo_s for queue in self.queues],
            longest_s=[queue.longest_s for queue in self.queues],
            used=[0 if queue.stage.cv else -1 for queue in self.queues],
            delays=[self.delay_numbers[id(one)] for one in self.of_queue],
        )
        found["booked_s"], found["rest"], found["rest_s"] = inf, -1, inf
        waiting = np.zeros(begins[-1], rows.WAITING)
        for number, (begin, queue) in enumerate(zip(begins, self.queues, strict=False)):
            stage = queue.of
            here = np.flatnonzero(owner[self.begins[self.numbers[id(stage)]] :][: len(stage.items)] == number)
            mine = slice(begin, begin + len(here))
            waiting["came_s"][mine] = np.array(stage.came_s)[here]
            waiting["place"][mine] = here + self.begins[self.numbers[id(stage)]]
            waiting["frame"][mine] = stage.frame_by_place[here] + self.frame_begin[id(stage.frames)]
            found["end"][number] += len(here)
        return found, waiting

    def _service_s(self) -> Floats:
        found = np.zeros((len(self.queues), max((queue.cap for queue in self.queues), default=0) + 1))
        for row, queue in zip(found, self.queues, strict=True):
            row[: queue.cap + 1] = queue.service_s
        return found

    def _factors(self) -> Floats:
        """The first of each queue."""
        found = np.ones((len(self.queues), FACTORS if any(queue.stage.cv for queue in self.queues) else 1))
        for row, queue, noise in zip(found, self.queues, self.noise, strict=True):
            if queue.stage.cv:
                row[:] = np.fromiter(noise, np.float64, FACTORS)
        return found

    def _gpus(self, widths: Sequence[int]) -> Rows:
        begins = begins_of(widths)
        found = _filled(rows.GPU, begin=begins[:-1], end=begins[1:], last=[end - 1 for end in begins[1:]])
        found["is_awake"] = True
        found["slowdown"] = [one.slowdown for one in self.of_gpu]
        found["usual_share"] = [one.usual_share for one in self.of_gpu]
        return found


def begins_of(lengths: Iterable[int]) -> list[int]:
    """Where each of several runs begins, and where the last ends."""
    return [0, *accumulate(lengths)]


def _joined(parts: Iterable[Counts]) -> Counts:
    return np.concatenate([np.empty(0, dtype=np.int64), *parts])


def _filled(kind: "np.dtype[np.void]", **fields: Any) -> Rows:
    """Rows of a kind, of the columns that are given; all others are 0."""
    found = np.zeros(len(next(iter(fields.values()))), kind)
    for name, values in fields.items():
        found[name] = values
    return found
