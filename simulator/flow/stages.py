"""Stages on the clock: where the items of each wait, and what follows when they are done."""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain, repeat
from math import isnan

import numpy as np
import simpy

from simulator.flow.frames import Frames
from simulator.flow.items import Counts, StageItems, item_counts
from simulator.flow.stations import OpenStation, least_busy
from simulator.rules.batching import EPSILON_S
from simulator.rules.queues import Delays, Queue, SharedQueue, Stage
from simulator.rules.routing import Entrance, Router, split
from simulator.world.deployment import BatchingPolicy, Drop
from simulator.world.workload import Demand, Floats


class OpenStage(ABC):
    """A stage of a pipeline on the clock. Each of its items has a place: that in the order in which they came."""

    def __init__(self, frames: Frames, items: StageItems) -> None:
        self.frames = frames
        self.drawn = items
        """Those that may come."""
        self.items = array("q")
        """By place."""
        self.came_s = array("d")
        """By place: when it came to this stage."""
        self.following: list[Way] = []
        self.joins: list[Join] = []

    @cached_property
    def frame(self) -> Sequence[int]:
        """Of each item that may come, for the clock."""
        return _listed(self.drawn.frame)

    def take(self, items: Sequence[int], now_s: float) -> None:
        """Items come, all at once."""
        first = len(self.items)
        self.items.extend(items)
        self.came_s.extend(repeat(now_s, len(items)))
        self.send(first, now_s)

    @abstractmethod
    def send(self, first: int, now_s: float) -> None:
        """Bring those from the place `first` on to where they wait."""

    def answer(self, places: Sequence[int], now_s: float) -> None:
        """Items are done. What follows from them comes to the next stages, unless their frame is lost."""
        frame, is_lost = self.frame, self.frames.is_lost
        done = [item for item in map(self.items.__getitem__, places) if not is_lost[frame[item]]]
        if not done:
            return
        frames = [frame[item] for item in done]
        self.frames.count_done(frames, now_s)
        for way in self.following:
            begins = way.begins
            each = [range(begins[item], begins[item + 1]) for item in done]
            if items := each[0] if len(each) == 1 else list(chain.from_iterable(each)):
                way.stage.take(items, now_s)
        for join in self.joins:
            join.count_done(frames, now_s)

    def lose(self, places: Sequence[int], now_s: float) -> None:
        """Items are given up, and their frames with them."""
        self.frames.lose((self.frame[self.items[place]] for place in places), now_s)

    @property
    def frame_by_place(self) -> Counts:
        """Which frame each item is of."""
        of_place: Counts = self.drawn.frame[np.array(self.items)]
        return of_place

    @property
    def demand(self) -> Demand:
        """Its items as requests."""
        return Demand(np.array(self.came_s), self.frames.demand.source[self.frame_by_place])


class Way:
    """To a stage that follows one other."""

    def __init__(self, stage: OpenStage, drawn: Counts) -> None:
        self.stage = stage
        self.drawn = drawn
        """Where the items begin there that follow from each of those before."""

    @cached_property
    def begins(self) -> Sequence[int]:
        """The same, for the clock."""
        return _listed(self.drawn)


class Join:
    """What a stage waits for that follows several."""

    def __init__(self, stage: OpenStage, drawn: Counts, before: Sequence[StageItems]) -> None:
        self.stage = stage
        self.drawn = drawn
        """By frame: its item, -1 for none."""
        self.whole = item_counts(before, len(drawn))
        """By frame: items before it."""

    @cached_property
    def joined(self) -> Sequence[int]:
        """The same, for the clock."""
        return _listed(self.drawn)

    @cached_property
    def left(self) -> list[int]:
        """By frame: items before it that are not done."""
        return _listed(self.whole)

    def count_done(self, frames: Sequence[int], now_s: float) -> None:
        """An item before it is done, of each of these frames."""
        left, joined = self.left, self.joined
        ready = []
        for frame in frames:
            left[frame] -= 1
            if not left[frame] and joined[frame] >= 0:
                ready.append(joined[frame])
        if ready:
            self.stage.take(ready, now_s)


class StationStage(OpenStage):
    """A stage whose items are worked on at stations."""

    def __init__(
        self,
        frames: Frames,
        items: StageItems,
        work_s: Floats,
        stations: Sequence[OpenStation],
        homes: Mapping[int, int],
        env: simpy.Environment,
    ) -> None:
        super().__init__(frames, items)
        self.drawn_s = work_s
        """By item: its time at a station of speed 1."""
        self.stations = stations
        self.homes = homes
        """By source: the station where it stays; empty: each item goes where least is outstanding."""
        self.env = env
        self.delays: Delays | None = None
        """Times that whoever serves takes before each item."""
        self.start_s = array("d")
        """By place."""
        self.finish_s = array("d")

    @cached_property
    def work_s(self) -> Sequence[float]:
        """The same, for the clock."""
        listed: list[float] = self.drawn_s.tolist()
        return listed

    @cached_property
    def home(self) -> list[OpenStation]:
        """By item: the station where its source stays."""
        sources = self.frames.demand.source[self.drawn.frame].tolist() if self.homes else []
        return [self.stations[self.homes[source]] for source in sources]

    def send(self, first: int, now_s: float) -> None:
        """Stations take them at once. Those that will end together do so in one event."""
        ends: dict[float, list[tuple[int, OpenStation]]] = {}
        items, home, work_s = self.items, self.home, self.work_s
        for place in range(first, len(items)):
            item = items[place]
            station = home[item] if home else least_busy(self.stations, now_s)
            start_s, finish_s = station.take(now_s, work_s[item], self.delays)
            self.start_s.append(start_s)
            self.finish_s.append(finish_s)
            ends.setdefault(finish_s, []).append((place, station))
        now = self.env.now
        for finish_s, together in ends.items():
            end = self.env.timeout(max(0.0, finish_s - now), together)
            end.callbacks.append(self._end)

    def _end(self, end: simpy.Event) -> None:
        together: list[tuple[int, OpenStation]] = end.value or []
        for _, station in together:
            station.give_back()
        self.answer([place for place, _ in together], self.env.now)


class ModelStage(OpenStage, Entrance["StageQueue"]):
    """A stage that is a model: its items wait in the queues of replicas."""

    came_s: array[float]

    def __init__(self, frames: Frames, items: StageItems, deadline_s: float, *, fed_by_source: bool) -> None:
        super().__init__(frames, items)
        self.deadline_s = deadline_s
        """From the arrival of the frame."""
        self.queues = []
        self.dealt_to = np.empty(0, dtype=np.int64)
        """By place: the queue it goes to, where that is known from the start."""
        self.lines: list[tuple[array[float], array[int]]] = []
        """When the items of each queue came, and their places, where these are dealt in turn."""
        self.shared = False
        """Whether all queues show the one in front of them."""
        if fed_by_source:
            self.items = array("q", range(len(items.frame)))
            self.came_s = array("d", frames.arrival_s)

    @cached_property
    def owner(self) -> Sequence[int]:
        """The same, for the clock."""
        return _listed(self.dealt_to)

    def frame_came_s(self, place: int) -> float:
        """When the frame of an item arrived."""
        return self.frames.arrival_s[self.frame[self.items[place]]]

    def add_queue(self, stage: Stage, policy: BatchingPolicy, drop: Drop, *, shared: bool) -> StageQueue:
        rules = policy, self.deadline_s, drop
        queue = SharedStageQueue(stage, self.front, *rules) if shared else StageQueue(stage, (), *rules)
        queue.answered = queue.end_batch
        self.queues.append(queue)
        return queue

    def open_alone(self) -> None:
        self.queues[0].times = self.came_s
        self._open([range(len(self.drawn.frame))])

    def open_in_turn(self, shares: Sequence[float]) -> None:
        count = len(self.drawn.frame)
        self.dealt_to = np.empty(count, dtype=np.int64)
        for number, places in enumerate(split(count, shares)):
            self.dealt_to[places] = number
        self.lines = [(array("d"), array("q")) for _ in self.queues]
        for queue, (came_s, _) in zip(self.queues, self.lines, strict=True):
            queue.times = came_s
        self._open([places for _, places in self.lines])
        self._deal(0)

    def open_routed(self, router: Router) -> None:
        self._open(router.sent)

    def open_shared(self) -> None:
        self.shared = True
        self._open([self.front.places for _ in self.queues])

    def _open(self, places: Sequence[Sequence[int]]) -> None:
        for queue, of_queue in zip(self.queues, places, strict=True):
            queue.open(self, of_queue)

    def send(self, first: int, now_s: float) -> None:
        """Queues get them at once, and wake their GPUs."""
        queues = self.queues
        if self.shared:
            self.front.add(self.came_s[first:])
        elif self.router:
            self.router.route(now_s)
        elif self.lines:
            queues = self._deal(first)
        for queue in queues:
            queue.wake()

    @property
    def dealt_places(self) -> list[Counts]:
        if not self.lines:
            return [np.arange(len(self.items))]
        return [np.flatnonzero(self.dealt_to[: len(self.items)] == number) for number in range(len(self.queues))]

    def _deal(self, first: int) -> list[StageQueue]:
        """To each queue what is its own; the queues that got something."""
        owners, lines, all_came_s = self.owner[first : len(self.items)], self.lines, self.came_s
        for place, owner in enumerate(owners, first):
            came_s, places = lines[owner]
            came_s.append(all_came_s[place])
            places.append(place)
        return [self.queues[owner] for owner in dict.fromkeys(owners)]


def _listed(numbers: Counts) -> list[int]:
    """As Python reads them soonest, one by one."""
    listed: list[int] = numbers.tolist()
    return listed


class StageQueue(Queue):
    """Items of a stage that wait for one replica. They are as old as their frames."""

    of: ModelStage
    places: Sequence[int]
    """Beside `times`: the place of each in its stage."""
    running: deque[Sequence[int]]
    """Those in batches that run, or are on their way through the GPUs of the replica."""

    def open(self, of: ModelStage, places: Sequence[int]) -> None:
        """Wait for items of a stage."""
        self.of, self.places, self.running = of, places, deque()

    def oldest_s(self) -> float:
        return self.of.frame_came_s(self.places[self.head])

    def first_kept(self, now_s: float, start_s: float, drop: Drop) -> int:
        """As of any queue, but one after another: the deadline is the frame's, and frames may overtake each other."""
        first, most = self.head, len(self.answer_s) - 1
        if drop is Drop.LATE and first < len(self.times) and not self._is_late(first, start_s + self.longest_s):
            return first  # the usual case: the oldest would be in time even in the longest batch
        present = bisect_right(self.times, now_s, first)
        if drop is not Drop.LATE:
            first = max(first, present - most)
        if drop is Drop.NEWEST:
            return first
        while first < present and self._is_late(first, start_s + self.answer_s[min(present - first, most)]):
            first += 1
        return first

    def _is_late(self, waiting: int, answer_s: float) -> bool:
        deadline_s = self.of.frame_came_s(self.places[waiting]) + self.slo_s
        return deadline_s < answer_s - EPSILON_S

    def leave(self, start_s: float, finish_s: float, count: int) -> None:
        places = self.places[self.head : self.head + count]
        super().leave(start_s, finish_s, count)
        if isnan(finish_s):
            self.of.lose(places, start_s)
        else:
            self.running.append(places)

    def end_batch(self, now_s: float) -> None:
        """The batch that began first is done, on all GPUs of the replica."""
        self.of.answer(self.running.popleft(), now_s)


class SharedStageQueue(StageQueue, SharedQueue):
    """The same where several replicas draw from one queue."""
