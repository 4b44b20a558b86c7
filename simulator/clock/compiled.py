"""One GPU that serves, as machine code: for a GPU that nobody disturbs and whose models all stay in its memory.

The same batches at the same times, to the last bit, as `simulator.clock.serving` gives, which stays the reference.
Importing this takes a fifth of a second, and a few seconds more the first time on a machine.
"""

from collections.abc import Callable, Sequence
from math import inf, nan
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from simulator.clock.serving import ServingGpu
from simulator.rules.batching import EPSILON_S
from simulator.rules.queues import Queue
from simulator.rules.scheduling import RoundRobin
from simulator.world.deployment import Drop

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FACTORS = 1024
"""Factors on batch times that are drawn at once, by queue."""
DROPS = {None: 0, Drop.LATE: 1, Drop.NEWEST: 2, Drop.NEWEST_AND_LATE: 3}
NEVER, LATE, NEWEST = 0, 1, 2
IN_TURN, BY_ARRIVAL, BY_DEADLINE = 0, 1, 2


class Queues(NamedTuple):
    """The queues of one GPU as columns, one entry a queue; `times` and the log hold those of all, one after another."""

    times: Floats
    """Arrivals."""
    begin: Ints
    """Where a queue's own begin in `times` and in the log."""
    end: Ints
    head: Ints
    """The oldest request that waits."""
    cap: Ints
    delay_s: Floats
    slo_s: Floats
    drop: Ints
    service_s: Floats
    """By queue and batch size."""
    longest_s: Floats
    factors: Floats
    """By queue: `FACTORS` on the times of its next batches."""
    used: Ints
    """How many of them are used up; -1: they are all 1."""
    ready_s: Floats
    """When its next batch may run."""
    priority: Floats
    """Of its next batch: the lowest runs first, where queues do not run in turn."""
    rest: Ints
    """Where the queue begins that a drop left of a batch which was ready."""
    rest_s: Floats
    """Since when that may run."""
    log_start_s: Floats
    log_finish_s: Floats
    log_count: NDArray[np.int32]
    rows: Ints
    """Rows in the log."""


def serve(gpu: ServingGpu) -> None:
    """Serve until the horizon."""
    queues = _columns(gpu)
    now_s, last, empty = 0.0, len(gpu.queues) - 1, -1
    rule = _rule(gpu)
    while True:
        now_s, last, empty = _serve(queues, rule, gpu.horizon_s, now_s, last)
        if empty < 0:
            break
        _draw(queues, gpu, empty)
    for number, queue in enumerate(gpu.queues):
        begin, rows = queues.begin[number], queues.rows[number]
        queue.head = int(queues.head[number] - begin)
        mine = slice(begin, begin + rows)
        queue.log.start_s.frombytes(queues.log_start_s[mine].tobytes())
        queue.log.finish_s.frombytes(queues.log_finish_s[mine].tobytes())
        queue.log.count.frombytes(queues.log_count[mine].tobytes())


def _rule(gpu: ServingGpu) -> int:
    if isinstance(gpu.agenda, RoundRobin):
        return IN_TURN
    return BY_DEADLINE if gpu.by_deadline else BY_ARRIVAL


def _columns(gpu: ServingGpu) -> Queues:
    queues = gpu.queues
    lengths = _ints(queues, lambda queue: len(queue.times))
    begins = np.cumsum(lengths) - lengths
    total = int(lengths.sum())
    service_s = np.zeros((len(queues), max((queue.cap for queue in queues), default=0) + 1))
    for row, queue in zip(service_s, queues, strict=True):
        row[: queue.cap + 1] = queue.service_s
    columns = Queues(
        times=np.concatenate([np.asarray(queue.times, dtype=np.float64) for queue in queues]),
        begin=begins,
        end=begins + lengths,
        head=begins.copy(),
        cap=_ints(queues, lambda queue: queue.cap),
        delay_s=np.array([queue.policy.max_queue_delay_s for queue in queues]),
        slo_s=np.array([queue.slo_s for queue in queues]),
        drop=_ints(queues, lambda queue: DROPS[queue.drop]),
        service_s=service_s,
        longest_s=np.array([queue.longest_s for queue in queues]),
        factors=np.ones((len(queues), FACTORS)),
        used=_ints(queues, lambda queue: 0 if queue.stage.cv else -1),
        ready_s=np.full(len(queues), inf),
        priority=np.zeros(len(queues)),
        rest=np.full(len(queues), -1),
        rest_s=np.full(len(queues), inf),
        log_start_s=np.empty(total),
        log_finish_s=np.empty(total),
        log_count=np.empty(total, dtype=np.int32),
        rows=np.zeros(len(queues), dtype=np.int64),
    )
    for number in np.flatnonzero(columns.used == 0):
        _draw(columns, gpu, int(number))
    return columns


def _ints(queues: Sequence[Queue], value: Callable[[Queue], int]) -> Ints:
    return np.array([value(queue) for queue in queues], dtype=np.int64)


def _draw(queues: Queues, gpu: ServingGpu, number: int) -> None:
    """The next factors of a queue."""
    queues.factors[number] = np.fromiter(gpu.noise[number], np.float64, FACTORS)
    queues.used[number] = 0


# Compiled


@njit(cache=True)
def _serve(queues: Queues, rule: int, horizon_s: float, now: float, last: int) -> tuple[float, int, int]:
    """Serve until the horizon, or until the factors of a queue are used up: the time, who ran last, and that queue."""
    if not now:
        for number in range(len(queues.head)):
            _book(queues, rule, number)
    while now < horizon_s:
        number, next_s = _next(queues, rule, now, last)
        if number < 0:
            if next_s >= horizon_s:
                break
            now = next_s
            continue
        last = number
        _discard(queues, number, now)
        size = _batch_size(queues, number, now)
        if not size:
            _book(queues, rule, number)
            continue
        service_s = queues.service_s[number, size]
        if queues.used[number] >= 0:
            service_s *= queues.factors[number, queues.used[number]]
            queues.used[number] += 1
        finish_s = now + service_s
        _leave(queues, number, now, finish_s, size)
        _book(queues, rule, number)
        if finish_s >= horizon_s:
            break
        now = finish_s
        if queues.used[number] == FACTORS:
            return now, last, number
    return horizon_s, last, -1


@njit(cache=True)
def _next(queues: Queues, rule: int, now: float, last: int) -> tuple[int, float]:
    """The ready queue that runs now; where none is ready -1, and when the first will be."""
    count = len(queues.head)
    best, next_s = -1, inf
    for step in range(1, count + 1):
        number = (last + step) % count
        if queues.ready_s[number] > now:
            next_s = min(next_s, queues.ready_s[number])
        elif rule == IN_TURN:
            return number, now
        elif best < 0 or (queues.priority[number], number) < (queues.priority[best], best):
            best = number
    return best, next_s


@njit(cache=True)
def _book(queues: Queues, rule: int, number: int) -> None:
    queues.ready_s[number] = _ready_at(queues, number)
    if rule != IN_TURN and queues.ready_s[number] < inf:
        queues.priority[number] = queues.times[queues.head[number]]
        if rule == BY_DEADLINE:
            queues.priority[number] += queues.slo_s[number]


@njit(cache=True)
def _ready_at(queues: Queues, number: int) -> float:
    head, end, delay_s = queues.head[number], queues.end[number], queues.delay_s[number]
    if delay_s and head == queues.rest[number]:
        return queues.rest_s[number]
    if head >= end:
        return inf
    oldest_s = queues.times[head] + delay_s
    full = head + queues.cap[number] - 1
    return min(oldest_s, queues.times[full]) if delay_s and full < end else oldest_s


@njit(cache=True)
def _leave(queues: Queues, number: int, start_s: float, finish_s: float, count: int) -> None:
    row = queues.begin[number] + queues.rows[number]
    queues.log_start_s[row] = start_s
    queues.log_finish_s[row] = finish_s
    queues.log_count[row] = count
    queues.rows[number] += 1
    queues.head[number] += count


@njit(cache=True)
def _batch_size(queues: Queues, number: int, now: float) -> int:
    head, end, most = queues.head[number], queues.end[number], queues.cap[number]
    return _arrivals_end(queues.times, head, min(head + most, end), now) - head


@njit(cache=True)
def _arrivals_end(times: Floats, head: int, end: int, now: float) -> int:
    """Where the requests begin that have not arrived yet: strides that double, then bisection."""
    stride = 1
    while head + stride < end and times[head + stride - 1] <= now:
        head += stride
        stride *= 2
    low, high = head, min(head + stride, end)
    while low < high:
        middle = (low + high) // 2
        if times[middle] <= now:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def _discard(queues: Queues, number: int, now: float) -> None:
    """Apply the drop rule to what has arrived."""
    drop, head, end = queues.drop[number], queues.head[number], queues.end[number]
    if drop == NEVER:
        return
    met_from_s = now + queues.longest_s[number] - queues.slo_s[number]
    if drop == LATE and head < end and queues.times[head] >= met_from_s:
        return
    kept = _first_kept(queues, number, now)
    if kept == head:
        return
    ready_s = _ready_at(queues, number) if queues.delay_s[number] else inf
    _leave(queues, number, now, nan, kept - head)
    if ready_s <= now and _batch_size(queues, number, now):
        queues.rest[number] = kept
        queues.rest_s[number] = max(ready_s, queues.times[kept])


@njit(cache=True)
def _first_kept(queues: Queues, number: int, now: float) -> int:
    """As `simulator.rules.batching.first_kept`."""
    times, head, most = queues.times, queues.head[number], queues.cap[number]
    service_s, slo_s, drop = queues.service_s[number], queues.slo_s[number], queues.drop[number]
    present = _arrivals_end(times, head, queues.end[number], now)
    if drop != LATE:
        head = max(head, present - most)
    if drop == NEWEST:
        return head
    while head < present and times[head] < now + service_s[min(present - head, most)] - slo_s - EPSILON_S:
        head += 1
    return head
