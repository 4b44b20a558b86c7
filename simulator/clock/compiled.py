"""GPUs that serve, as machine code: for GPUs that nobody disturbs and whose models all stay in their memory.

One GPU at a time for `simulator.clock.run`, or all GPUs of a world for `simulator.clock.worlds`. The same batches at
the same times, to the last bit, as `simulator.clock.serving` gives on the drivers `Ahead` and `DelayedAhead` of
`simulator.clock.drivers`: these stay the reference. Importing this takes a fifth of a second, and a few seconds more
the first time on a machine.
"""

from collections.abc import Callable, Iterator, Sequence
from math import ceil, inf, nan
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.clock.serving import ServingGpu
from simulator.machine_code import forget_stale
from simulator.numba_parts import at, inlined, inner, loop
from simulator.rules.batching import EPSILON_S
from simulator.rules.noise import FACTORS
from simulator.rules.queues import DELAYS, Delays, FormedQueue, Queue, SharedQueue
from simulator.rules.scheduling import RoundRobin
from simulator.world.deployment import Drop

forget_stale(Path(__file__))
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

STEPS_FIRST = 8
"""Requests of a queue that are looked at one by one: most batches are no larger."""
DROPS = {None: 0, Drop.LATE: 1, Drop.NEWEST: 2, Drop.NEWEST_AND_LATE: 3}
NEVER, LATE, NEWEST = 0, 1, 2
IN_TURN, BY_ARRIVAL, BY_DEADLINE = 0, 1, 2
WAKE, FOLLOW = 0, 1
DONE, LACKS_WAKE, LACKS_FOLLOW, AGAIN, BEGINS = -1, -2, -3, -4, -5
"""Instead of a queue: serving ends, or is interrupted for delays that are used up; nobody's batch may begin yet; or
serving begins."""


class Waits(NamedTuple):
    """The next of `simulator.rules.queues.Delays`; none where whoever serves takes no time."""

    wake_s: Floats
    follow_s: Floats
    used: Ints
    """How many of each are used up."""


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
    answer_s: Floats
    """The same from the start of a batch to its answer."""
    longest_s: Floats
    factors: Floats
    """By queue: factors on the times of its next batches."""
    stock: Ints
    """How many of them are drawn."""
    used: Ints
    """How many of these are used up; -1: they are all 1."""
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
    waits: Waits
    formed: NDArray[np.bool_]
    """Its batches come formed: each is one of the `times`."""
    size: NDArray[np.int32]
    """Of these, as long as `times` where there are any: requests in a batch."""
    since_s: Floats
    """The same: when the oldest of them came."""
    drawer: NDArray[np.int32]
    """As long as the log where replicas draw from one queue: the queue of that which did, by row."""


class Layout(NamedTuple):
    """Which queue is whose, on all GPUs of a deployment: their queues stand one GPU after another."""

    gpu_begin: Ints
    """Where the queues of each GPU begin; one entry more, where the last one's end."""
    replica: Ints
    """The queues of each model, in the order of its replicas, one model after another."""
    replica_begin: Ints
    """Where a model's own begin in `replica`, and one entry more."""
    room_begin: Ints
    """Where the room of each queue begins in `times`, in the log and in `place`; one entry more, where the last one's
    ends."""
    following: Ints
    """By queue: that which gets its batches, on another GPU; -1 where they are answered."""
    front: Ints
    """By queue: that which holds what it draws from, the first replica's; -1 where nobody else draws from its own."""
    routed: NDArray[np.bool_]
    """By model: a router sends its requests, one by one as they come."""


class Coming(NamedTuple):
    """When the requests of all models of a world come, one model after another: by phases, or each by itself."""

    rate_rps: Floats
    """By model: of each of the steady cameras that ask it; 0 where each arrival is given."""
    given_s: Floats
    """When each camera's first frame comes, sorted, or when each request does."""
    begin: Ints
    """Where a model's own begin in `given_s`, and one entry more."""


NOBODY = Coming(np.zeros(0), np.zeros(0), np.zeros(1, dtype=np.int64))


class WorldRequests(NamedTuple):
    """The requests of all models in one world, one model after another, and what became of them."""

    arrival_s: Floats
    begin: Ints
    """Where a model's own begin, and one entry more."""
    slo_s: Floats
    """By model."""
    place: Ints
    """Which of its model's requests each of the `times` of the queues is: the same in every world."""
    start_s: Floats
    """When its batch began; NaN of those that wait or were dropped."""
    gone_s: Floats
    """When it was answered or dropped; never while it waits or runs."""


def serve(gpu: ServingGpu, delays: Delays | None = None) -> None:
    """Serve until the horizon."""
    queues = begun(gpu.queues, gpu.noise, delays)
    now_s, last, lacking = 0.0, len(gpu.queues) - 1, BEGINS
    rule = rule_of(gpu)
    while lacking != DONE:
        now_s, last, lacking = serve_one(queues, rule, gpu.horizon_s, now_s, last)
        supply(queues, gpu.noise, delays, lacking)
    keep_logs(gpu.queues, queues)


def begun(own: Sequence[Queue], noise: Sequence[Iterator[float]], delays: Delays | None) -> Queues:
    """Queues with all their requests."""
    queues = columns(own, sum(queue.room for queue in own), DELAYS if delays else 0)
    _fill_times(queues, own)
    for number in np.flatnonzero(queues.used == 0).tolist():
        draw_factors(queues, noise[number], number)
    return queues


def keep_logs(own: Sequence[Queue], queues: Queues) -> None:
    """What became of the requests, as the GPU itself would have noted it."""
    for number, queue in enumerate(own):
        begin, rows = int(queues.begin[number]), int(queues.rows[number])
        queue.head = int(queues.head[number] - begin)
        mine = slice(begin, begin + rows)
        queue.log.start_s.frombytes(queues.log_start_s[mine].tobytes())
        queue.log.finish_s.frombytes(queues.log_finish_s[mine].tobytes())
        queue.log.count.frombytes(queues.log_count[mine].tobytes())


def rule_of(gpu: ServingGpu) -> int:
    """How its queues take their turns."""
    if isinstance(gpu.agenda, RoundRobin):
        return IN_TURN
    return BY_DEADLINE if gpu.by_deadline else BY_ARRIVAL


def columns(queues: Sequence[Queue], requests: int, delays: int = 0) -> Queues:
    """Queues as columns, with room for so many requests, but without these, and for so many delays."""
    count, largest = len(queues), max((queue.cap for queue in queues), default=0)
    service_s, answer_s = np.zeros((2, count, largest + 1))
    for number, queue in enumerate(queues):
        service_s[number, : queue.cap + 1] = queue.service_s
        answer_s[number, : queue.cap + 1] = queue.answer_s
    formed = [isinstance(queue, FormedQueue) for queue in queues]
    handed = requests if any(formed) else 0
    return Queues(
        times=np.empty(requests),
        begin=np.zeros(count, dtype=np.int64),
        end=np.zeros(count, dtype=np.int64),
        head=np.zeros(count, dtype=np.int64),
        cap=_ints(queues, lambda queue: queue.cap),
        delay_s=np.array([float(not one) * q.policy.max_queue_delay_s for one, q in zip(formed, queues, strict=True)]),
        slo_s=np.array([queue.slo_s for queue in queues]),
        drop=_ints(queues, lambda queue: DROPS[queue.drop]),
        service_s=service_s,
        answer_s=answer_s,
        longest_s=np.array([queue.longest_s for queue in queues]),
        factors=np.ones((count, FACTORS if any(queue.stage.cv for queue in queues) else 1)),
        stock=np.full(count, FACTORS),
        used=_ints(queues, lambda queue: 0 if queue.stage.cv else -1),
        ready_s=np.full(count, inf),
        priority=np.zeros(count),
        rest=np.full(count, -1),
        rest_s=np.full(count, inf),
        log_start_s=np.empty(requests),
        log_finish_s=np.empty(requests),
        log_count=np.empty(requests, dtype=np.int32),
        rows=np.zeros(count, dtype=np.int64),
        waits=Waits(np.zeros(delays), np.zeros(delays), np.full(2, delays)),
        formed=np.array(formed, dtype=np.bool_),
        size=np.empty(handed, dtype=np.int32),
        since_s=np.empty(handed),
        drawer=np.empty(requests if any(isinstance(queue, SharedQueue) for queue in queues) else 0, dtype=np.int32),
    )


def _fill_times(columns: Queues, queues: Sequence[Queue]) -> None:
    """The arrivals of each queue, one queue after another."""
    end = 0
    for number, queue in enumerate(queues):
        begin, end = end, end + queue.room
        columns.begin[number] = columns.head[number] = begin
        columns.end[number] = begin + len(queue.times)
        columns.times[begin : columns.end[number]] = queue.times


def _ints(queues: Sequence[Queue], value: Callable[[Queue], int]) -> Ints:
    return np.array([value(queue) for queue in queues], dtype=np.int64)


def supply(queues: Queues, noise: Sequence[Iterator[float]], delays: Delays | None, lacking: int) -> None:
    """The next factors of a queue, or the next delays, where these are used up."""
    if lacking >= 0:
        draw_factors(queues, noise[lacking], lacking)
    if delays and lacking in (LACKS_WAKE, LACKS_FOLLOW):
        is_wake = lacking == LACKS_WAKE
        column, drawn_s = (queues.waits.wake_s, delays.wake) if is_wake else (queues.waits.follow_s, delays.follow)
        column[:] = np.fromiter(drawn_s, np.float64, DELAYS)
        queues.waits.used[WAKE if is_wake else FOLLOW] = 0


def draw_factors(queues: Queues, noise: Iterator[float], number: int) -> None:
    """The next factors of a queue."""
    queues.factors[number] = np.fromiter(noise, np.float64, FACTORS)
    queues.used[number] = 0


# Compiled: all GPUs of a world


@inner
def serve_all(layout: Layout, queues: Queues, rule: int, horizon_s: float) -> int:
    """Serve on all GPUs: -1, or a queue whose factors are used up before all is done."""
    for gpu in range(len(layout.gpu_begin) - 1):
        first, end = layout.gpu_begin[gpu], layout.gpu_begin[gpu + 1]
        if first < end:
            empty = _serve(at(_some(queues, first, end)), rule, horizon_s, 0.0, end - first - 1)[2]
            if empty >= 0:
                return first + empty
    return -1


def part(queues: Queues, first: int, end: int) -> Queues:
    """As `_some`, for Python to call."""
    whole = {"times", "log_start_s", "log_finish_s", "log_count", "waits", "size", "since_s", "drawer"}
    parts = {name: column[first:end] for name, column in queues._asdict().items() if name not in whole}
    return queues._replace(**parts)


@inner
def _some(queues: Queues, first: int, end: int) -> Queues:
    """The queues of one GPU."""
    return Queues(
        queues.times,
        queues.begin[first:end],
        queues.end[first:end],
        queues.head[first:end],
        queues.cap[first:end],
        queues.delay_s[first:end],
        queues.slo_s[first:end],
        queues.drop[first:end],
        queues.service_s[first:end],
        queues.answer_s[first:end],
        queues.longest_s[first:end],
        queues.factors[first:end],
        queues.stock[first:end],
        queues.used[first:end],
        queues.ready_s[first:end],
        queues.priority[first:end],
        queues.rest[first:end],
        queues.rest_s[first:end],
        queues.log_start_s,
        queues.log_finish_s,
        queues.log_count,
        queues.rows[first:end],
        queues.waits,
        queues.formed[first:end],
        queues.size,
        queues.since_s,
        queues.drawer,
    )


@inner
def come(coming: Coming, asked: WorldRequests, end_s: float) -> None:
    """Let all requests come, as `simulator.world.workload.draw` does."""
    count = 0
    for model in range(len(coming.rate_rps)):
        asked.begin[model] = count
        given_s = coming.given_s[coming.begin[model] : coming.begin[model + 1]]
        if coming.rate_rps[model]:
            count = _film(given_s, coming.rate_rps[model], asked.arrival_s, count, end_s)
        else:
            for come_s in given_s:
                asked.arrival_s[count] = come_s
                count += 1
    asked.begin[len(coming.rate_rps)] = count


@loop
def _film(phases_s: Floats, rate_rps: float, arrival_s: Floats, first: int, end_s: float) -> int:
    """The frames of steady cameras from a place on; where they end. Those that come at one instant, at the end of one
    period and the beginning of the next, may be out of order by the last bit."""
    count = first
    for period in range(ceil(end_s * rate_rps) + 1):
        begun_s, kept = period / rate_rps, len(phases_s)
        while kept and begun_s + phases_s[kept - 1] >= end_s:
            kept -= 1
        frames_s = arrival_s[count : count + kept]
        for camera in range(kept):
            frames_s[camera] = begun_s + phases_s[camera]
        for place in range(max(count, first + 1), count + kept):
            come_s, before = arrival_s[place], place - 1
            if arrival_s[before] <= come_s:
                break
            while before >= first and arrival_s[before] > come_s:
                arrival_s[before + 1] = arrival_s[before]
                before -= 1
            arrival_s[before + 1] = come_s
        count += kept
    return count


@inner
def deal(layout: Layout, asked: WorldRequests, queues: Queues) -> None:
    """Send each request to its queue but those that a router will, and let all begin anew."""
    for model in range(len(asked.begin) - 1):
        arrival_s = asked.arrival_s[asked.begin[model] : asked.begin[model + 1]]
        for queue in layout.replica[layout.replica_begin[model] : layout.replica_begin[model + 1]]:
            begin = layout.room_begin[queue]
            if layout.routed[model]:
                _empty(queues, queue, begin)
                continue
            place = asked.place[begin : layout.room_begin[queue + 1]]
            count = first_from(place, len(arrival_s))
            times = queues.times[begin : begin + count]
            if count == len(arrival_s):
                for turn in range(count):
                    times[turn] = arrival_s[turn]
            else:
                for turn in range(count):
                    times[turn] = arrival_s[place[turn]]
            _empty(queues, queue, begin)
            queues.end[queue] = begin + count
            stage = layout.following[queue]
            while stage >= 0:
                _empty(queues, stage, layout.room_begin[stage])
                stage = layout.following[stage]


@inlined
def _empty(queues: Queues, queue: int, begin: int) -> None:
    """Nothing waits in a queue yet, whose room begins there."""
    queues.begin[queue] = queues.head[queue] = queues.end[queue] = begin
    queues.rows[queue] = 0
    queues.rest[queue] = -1
    queues.rest_s[queue] = queues.ready_s[queue] = inf
    queues.used[queue] = min(queues.used[queue], 0)


@inner
def first_from(values: Ints | Floats, value: float) -> int:
    """Where those begin that are no less, by bisection."""
    low, high = 0, len(values)
    while low < high:
        middle = (low + high) // 2
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


# Compiled: one GPU


@loop
def serve_one(queues: Queues, rule: int, horizon_s: float, now: float, last: int) -> tuple[float, int, int]:
    """As `_serve`, for Python to call."""
    return _serve(at(queues), rule, horizon_s, now, last)


@inner
def _serve(queues: Queues, rule: int, horizon_s: float, now: float, last: int) -> tuple[float, int, int]:
    """Serve until the horizon, or until delays or the factors of a queue are used up: the time, who ran last, and which
    of them, or that queue."""
    if not now:
        for number in range(len(queues.head)):
            _book(queues, rule, number)
    while now < horizon_s:
        number, at_s = _choose(queues, rule, horizon_s, now, last)
        if number < 0 and number != AGAIN:
            return at_s, last, number
        now = at_s
        if number == AGAIN:
            continue
        _discard(queues, number, now, now)
        size = _batch_size(queues, number, now)
        if size and lacks(queues.waits, FOLLOW):
            return now, last, LACKS_FOLLOW
        last = number
        if not size:
            _book(queues, rule, number)
            continue
        now = _run(queues, rule, number, now, size)
        if now < horizon_s and queues.used[number] == queues.stock[number]:
            return now, last, number
    return horizon_s, last, DONE


@inlined
def _choose(queues: Queues, rule: int, horizon_s: float, now: float, last: int) -> tuple[int, float]:
    """The queue that runs next, and when; instead of one that serving ends, or when to look again."""
    number, next_s = _next(queues, rule, now, last)
    if next_s > now and len(queues.waits.wake_s):
        if lacks(queues.waits, WAKE):
            return LACKS_WAKE, now
        return AGAIN, next_s + next_delay_s(queues.waits, WAKE)
    return (number, next_s) if next_s < horizon_s else (DONE, horizon_s)


@inlined
def _run(queues: Queues, rule: int, number: int, now: float, size: int) -> float:
    """Run a batch; when the next may begin."""
    service_s = queues.service_s[number, size]
    if queues.used[number] >= 0:
        service_s *= queues.factors[number, queues.used[number]]
        queues.used[number] += 1
    _leave(queues, number, now, now + service_s, size)
    _book(queues, rule, number)
    return now + (service_s + next_delay_s(queues.waits, FOLLOW))


@inlined
def lacks(waits: Waits, kind: int) -> bool:
    """Delays of this kind are used up, where whoever serves takes time."""
    return len(waits.wake_s) > 0 and waits.used[kind] == len(waits.wake_s)


@inlined
def next_delay_s(waits: Waits, kind: int) -> float:
    """How long whoever serves takes next."""
    if not len(waits.wake_s):
        return 0.0
    waits.used[kind] += 1
    return (waits.wake_s if kind == WAKE else waits.follow_s)[waits.used[kind] - 1]


@inlined
def _next(queues: Queues, rule: int, now: float, last: int) -> tuple[int, float]:
    """The queue that runs next, and when; AGAIN where it is to be chosen among those that are ready then."""
    count = len(queues.head)
    best, first, next_s = -1, -1, inf
    number = last
    for _ in range(count):
        number = number + 1 if number + 1 < count else 0
        ready_s = queues.ready_s[number]
        if ready_s > now:
            if ready_s < next_s:
                first, next_s = number, ready_s
        elif rule == IN_TURN:
            return number, now
        elif best < 0 or (queues.priority[number], number) < (queues.priority[best], best):
            best = number
    if best >= 0:
        return best, now
    return (first if rule == IN_TURN else AGAIN), next_s


@inlined
def _book(queues: Queues, rule: int, number: int) -> None:
    queues.ready_s[number] = _ready_at(queues, number)
    if rule != IN_TURN and queues.ready_s[number] < inf:
        queues.priority[number] = queues.times[queues.head[number]]
        if rule == BY_DEADLINE:
            queues.priority[number] += queues.slo_s[number]


@inlined
def _ready_at(queues: Queues, number: int) -> float:
    head, end, delay_s = queues.head[number], queues.end[number], queues.delay_s[number]
    if delay_s and head == queues.rest[number]:
        return queues.rest_s[number]
    if head >= end:
        return inf
    oldest_s = queues.times[head] + delay_s
    full = head + queues.cap[number] - 1
    return min(oldest_s, queues.times[full]) if delay_s and full < end else oldest_s


@inlined
def _leave(queues: Queues, number: int, start_s: float, finish_s: float, count: int) -> None:
    row = queues.begin[number] + queues.rows[number]
    queues.log_start_s[row] = start_s
    queues.log_finish_s[row] = finish_s
    queues.log_count[row] = count
    queues.rows[number] += 1
    queues.head[number] += count


@inlined
def _batch_size(queues: Queues, number: int, now: float) -> int:
    head, end, most = queues.head[number], queues.end[number], queues.cap[number]
    return _arrivals_end(queues.times, head, min(head + most, end), now) - head


@inlined
def _arrivals_end(times: Floats, head: int, end: int, now: float) -> int:
    """Where the requests begin that have not arrived yet: a few steps, strides that double, then bisection."""
    near = min(head + STEPS_FIRST, end)
    while head < near and times[head] <= now:
        head += 1
    if head < near:
        return head
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


@inlined
def _discard(queues: Queues, number: int, now: float, start_s: float) -> None:
    """Apply the drop rule to what has arrived, for a batch that could start at `start_s`."""
    drop, head, end = queues.drop[number], queues.head[number], queues.end[number]
    if drop == NEVER:
        return
    met_from_s = start_s + queues.longest_s[number] - queues.slo_s[number]
    if drop == LATE and head < end and queues.times[head] >= met_from_s:
        return
    kept = _first_kept(queues, number, now, start_s)
    if kept == head:
        return
    ready_s = _ready_at(queues, number) if queues.delay_s[number] else inf
    _leave(queues, number, now, nan, kept - head)
    if ready_s <= now and _batch_size(queues, number, now):
        queues.rest[number] = kept
        queues.rest_s[number] = max(ready_s, queues.times[kept])


@inlined
def _first_kept(queues: Queues, number: int, now: float, start_s: float) -> int:
    """As `simulator.rules.batching.first_kept`."""
    times, head, most = queues.times, queues.head[number], queues.cap[number]
    answer_s, slo_s, drop = queues.answer_s[number], queues.slo_s[number], queues.drop[number]
    present = _arrivals_end(times, head, queues.end[number], now)
    if drop != LATE:
        head = max(head, present - most)
    if drop == NEWEST:
        return head
    while head < present and times[head] < start_s + answer_s[min(present - head, most)] - slo_s - EPSILON_S:
        head += 1
    return head
