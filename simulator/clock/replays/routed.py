"""GPUs whose replicas draw from one queue, or get what a router sends them, as machine code.

All their models stay in memory, and nobody else disturbs them. The same batches at the same times, to the last bit, as
`simulator.clock.serving` gives on the driver `Clocked` of `simulator.clock.drivers`, which stays the reference.
"""

from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import NamedTuple

import numpy as np

from simulator.clock import compiled
from simulator.clock.compiled import (
    IN_TURN,
    Floats,
    Ints,
    Layout,
    Queues,
    WorldRequests,
    _batch_size,
    _book,
    _discard,
    _ready_at,
    _run,
)
from simulator.clock.serving import ServingGpu
from simulator.machine_code import by_one, forget_stale
from simulator.numba_parts import at, inlined, inner, loop
from simulator.rules.queues import Queue, SharedQueue

forget_stale(Path(__file__), Path(str(compiled.__file__)))

DOZES, WAKES, DRAWS = range(3)
"""How far the loop of a GPU is: its sleep ends; it goes on; all who may draw before it have done so."""
GOES_ON = -1
"""Instead of a queue: nothing is short."""
URGENT, NORMAL, TURN = range(3)
"""What SimPy does first at one instant; last come replicas that draw, in the order of their list."""


class Group(NamedTuple):
    """GPUs that are served together, and how far each is."""

    gpu: Ints
    """Its number among all."""
    at_s: Floats
    """When it goes on."""
    rank: Ints
    """Of those that go on at one instant, the lowest is first."""
    place: Ints
    """Of these, the one that began to wait first."""
    point: Ints
    chosen: Ints
    """The queue that is to run once others have drawn."""
    last: Ints
    """The queue that had the last turn."""
    turn: Ints
    """By queue: its replica's place among those that draw from one queue; -1 of others."""
    model: Ints
    """By queue: the model whose requests a router sends; -1 where none does."""
    sent: Ints
    """By model: requests that its router has sent."""
    places: Ints
    """One: the last place that was given."""


def is_compiled(gpu: ServingGpu) -> bool:
    """Whether a GPU that others may keep waiting is one of these."""
    plain = all(type(queue) in (Queue, SharedQueue) and queue.next_stage is None for queue in gpu.queues)
    at_once = not any(queue.policy.max_queue_delay_s for queue in gpu.queues)
    return plain and not (gpu.swaps or gpu.outages) and (at_once or not gpu.routers)


def group_of(
    gpus: Sequence[int], queues: int, sharing: Sequence[Sequence[int]], routed: Sequence[Sequence[int]]
) -> Group:
    """These GPUs. By model: the queues of all replicas that share one, and those that a router fills; else none."""
    turn, model = np.full((2, queues), -1)
    for own in sharing:
        turn[own] = np.arange(len(own))
    for number, own in enumerate(routed):
        model[own] = number
    columns = {name: np.zeros(len(gpus), dtype=np.int64) for name in ("rank", "place", "point", "chosen", "last")}
    return Group(
        gpu=np.array(gpus, dtype=np.int64),
        at_s=np.zeros(len(gpus)),
        turn=turn,
        model=model,
        sent=np.zeros(len(routed), dtype=np.int64),
        places=np.zeros(1, dtype=np.int64),
        **columns,
    )


# Compiled


@by_one
@loop
def serve_routed(
    layout: Layout, queues: Queues, asked: WorldRequests, group: Group, rule: int, horizon_s: float
) -> int:
    """Serve until the horizon: -1; a queue whose factors are used up; or -2 less that which has no room for more."""
    return _serve(at(layout), at(queues), at(asked), at(group), rule, horizon_s)


@inlined
def _serve(layout: Layout, queues: Queues, asked: WorldRequests, group: Group, rule: int, horizon_s: float) -> int:
    _begin(layout, queues, group, rule)
    while True:
        gpu = _first(group)
        now = group.at_s[gpu]
        if now >= horizon_s:
            break
        if group.point[gpu] == DOZES:
            _wait(group, gpu, now, NORMAL, WAKES)
            continue
        short = _go_on(layout, queues, asked, group, rule, gpu, now)
        if short != GOES_ON:
            return short
    for queue in range(len(group.model)):
        if group.model[queue] >= 0:
            full = _send(layout, queues, asked, group, group.model[queue], horizon_s)
            if full < 0:
                return int(full)
        if group.turn[queue] > 0:  # what it drew is the first replica's to tell
            _empty_view(layout, queues, queue)
    return -1


@inlined
def _begin(layout: Layout, queues: Queues, group: Group, rule: int) -> None:
    """All queues are looked at; then each GPU goes on, in their order."""
    group.sent[:] = 0
    group.places[0] = 0
    for gpu in range(len(group.gpu)):
        first, end = _own(layout, group, gpu)
        for queue in range(first, end):
            _look(layout, queues, queue)
            _book(queues, rule, queue)
        group.last[gpu] = end - 1
        _wait(group, gpu, 0.0, URGENT, WAKES)


@inlined
def _own(layout: Layout, group: Group, gpu: int) -> tuple[int, int]:
    """Where the queues of a GPU begin and end."""
    number = group.gpu[gpu]
    return layout.gpu_begin[number], layout.gpu_begin[number + 1]


@inlined
def _wait(group: Group, gpu: int, until_s: float, rank: int, point: int) -> None:
    """Let a GPU go on then."""
    group.places[0] += 1
    group.at_s[gpu], group.rank[gpu], group.place[gpu], group.point[gpu] = until_s, rank, group.places[0], point


@inlined
def _first(group: Group) -> int:
    """The GPU that goes on next."""
    first = 0
    for gpu in range(1, len(group.gpu)):
        if (group.at_s[gpu], group.rank[gpu], group.place[gpu]) < (
            group.at_s[first],
            group.rank[first],
            group.place[first],
        ):
            first = gpu
    return first


@inner
def _go_on(layout: Layout, queues: Queues, asked: WorldRequests, group: Group, rule: int, gpu: int, now: float) -> int:
    """Let a GPU run its next batch, or wait: -1, or as `serve_routed`."""
    queue = group.chosen[gpu] if group.point[gpu] == DRAWS else -1
    if queue >= 0 and not _is_due(layout, queues, rule, queue, now):
        queue = -1
    while True:
        if queue < 0:
            queue = _choose(layout, queues, asked, group, rule, gpu, now)
        if queue < 0:
            return queue
        if queues.used[queue] == queues.stock[queue]:
            return queue
        if _ran(layout, queues, group, rule, gpu, queue, now):
            return GOES_ON
        queue = -1


@inlined
def _choose(layout: Layout, queues: Queues, asked: WorldRequests, group: Group, rule: int, gpu: int, now: float) -> int:
    """The queue that runs now; -1 where the GPU waits, or less, as `_send`."""
    first, end = _own(layout, group, gpu)
    while True:
        arrives_s = _route(layout, queues, asked, group, rule, gpu, now)
        if arrives_s < 0:
            return int(arrives_s)
        queue, ready_s = _next(queues, rule, first, end, group.last[gpu], now)
        if queue < 0:
            _wait(group, gpu, _later(now, min(ready_s, arrives_s)), NORMAL, DOZES)
            return GOES_ON
        group.last[gpu] = queue
        if not _is_due(layout, queues, rule, queue, now):
            continue
        if group.turn[queue] >= 0 and _others_go_on(group, gpu, now):
            group.chosen[gpu] = queue
            _wait(group, gpu, now, TURN + group.turn[queue], DRAWS)
            return GOES_ON
        return queue


@inlined
def _next(queues: Queues, rule: int, first: int, end: int, last: int, now: float) -> tuple[int, float]:
    """The queue whose turn it is of those that were ready when they were looked at; -1, and when one will be."""
    best, ready_s, queue = -1, inf, last
    for _ in range(end - first):
        queue = queue + 1 if queue + 1 < end else first
        if queues.ready_s[queue] > now:
            ready_s = min(ready_s, queues.ready_s[queue])
        elif rule == IN_TURN:
            return queue, now
        elif best < 0 or (queues.priority[queue], queue) < (queues.priority[best], best):
            best = queue
    return best, ready_s


@inlined
def _later(now: float, until_s: float) -> float:
    """When a sleep ends, as of `simulator.clock.drivers.time_until`."""
    left_s = until_s - now
    if now + left_s > until_s:
        left_s = np.nextafter(left_s, 0.0)
    return now + left_s


@inlined
def _others_go_on(group: Group, gpu: int, now: float) -> bool:
    """Whether anything else is to happen now."""
    found = False
    for other in range(len(group.gpu)):
        found |= other != gpu and group.at_s[other] <= now
    return found


@inlined
def _is_due(layout: Layout, queues: Queues, rule: int, queue: int, now: float) -> bool:
    """Whether a queue that was ready still is: others may have drawn."""
    _look(layout, queues, queue)
    if _ready_at(queues, queue) <= now:
        return True
    _book(queues, rule, queue)
    return False


@inlined
def _ran(layout: Layout, queues: Queues, group: Group, rule: int, gpu: int, queue: int, now: float) -> bool:
    """Run a batch of a queue, if anything is left of it."""
    _look(layout, queues, queue)
    row = queues.begin[queue] + queues.rows[queue]
    _discard(queues, queue, now, now)
    size = _batch_size(queues, queue, now)
    if size:
        _wait(group, gpu, _run(queues, rule, queue, now, size), NORMAL, WAKES)
    else:
        _book(queues, rule, queue)
    front = layout.front[queue]
    if front >= 0:
        queues.drawer[row : queues.begin[queue] + queues.rows[queue]] = queue
        queues.head[front], queues.rows[front] = queues.head[queue], queues.rows[queue]
        queues.rest[front], queues.rest_s[front] = queues.rest[queue], queues.rest_s[queue]
    return size > 0


# Compiled: one queue from which several draw


@inlined
def _look(layout: Layout, queues: Queues, queue: int) -> None:
    """See what others have left of the queue that all draw from, if it does."""
    front = layout.front[queue]
    if front >= 0:
        queues.begin[queue], queues.end[queue] = queues.begin[front], queues.end[front]
        queues.head[queue], queues.rows[queue] = queues.head[front], queues.rows[front]
        queues.rest[queue], queues.rest_s[queue] = queues.rest[front], queues.rest_s[front]


@inlined
def _empty_view(layout: Layout, queues: Queues, queue: int) -> None:
    """Nothing of it is its own."""
    begin = layout.room_begin[queue]
    queues.begin[queue] = queues.head[queue] = queues.end[queue] = begin
    queues.rows[queue] = 0


# Compiled: a router


@inlined
def _route(
    layout: Layout, queues: Queues, asked: WorldRequests, group: Group, rule: int, gpu: int, now: float
) -> float:
    """Let routers send what has arrived, look at the queues of a GPU again, and say when the next request arrives, or
    as `_send`."""
    first, end = _own(layout, group, gpu)
    next_s, routed = inf, False
    for queue in range(first, end):
        model = group.model[queue]
        if model >= 0:
            routed = True
            next_s = min(next_s, _send(layout, queues, asked, group, model, now))
    if routed:
        for queue in range(first, end):
            if _ready_at(queues, queue) < queues.ready_s[queue]:
                _book(queues, rule, queue)
    return next_s


@inner
def _send(layout: Layout, queues: Queues, asked: WorldRequests, group: Group, model: int, now: float) -> float:
    """Send all requests of a model that have arrived to the replica with fewest outstanding; when the next arrives, or
    -2 less the queue that has no room for one."""
    first, end = asked.begin[model], asked.begin[model + 1]
    while first + group.sent[model] < end:
        number = group.sent[model]
        come_s = asked.arrival_s[first + number]
        if come_s > now:
            return come_s
        best, fewest = -1, 0
        for queue in layout.replica[layout.replica_begin[model] : layout.replica_begin[model + 1]]:
            outstanding = _outstanding(queues, queue, come_s)
            if best < 0 or outstanding < fewest:
                best, fewest = queue, outstanding
        place = queues.end[best]
        if place == layout.room_begin[best + 1]:
            return -2.0 - best
        queues.times[place], asked.place[place] = come_s, number
        queues.end[best] += 1
        group.sent[model] += 1
    return inf


@inlined
def _outstanding(queues: Queues, queue: int, now: float) -> int:
    """Requests that wait in a queue or run."""
    waiting = queues.end[queue] - queues.head[queue]
    row = queues.begin[queue] + queues.rows[queue] - 1
    if queues.rows[queue] and queues.log_finish_s[row] > now:
        return waiting + queues.log_count[row]
    return waiting
