"""What the records of a world add up to, as machine code: the same to the last bit as `simulator.clock.metrics` says,
which stays the reference."""

from math import ceil, inf, nan, sqrt
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.clock import compiled
from simulator.clock.compiled import (
    Coming,
    Floats,
    Ints,
    Layout,
    Queues,
    WorldRequests,
    come,
    deal,
    first_from,
    serve_all,
)
from simulator.clock.metrics import IN_TIME_S, SHRINKS, STRETCHES
from simulator.clock.replays import latencies
from simulator.clock.replays.latencies import Scratch, add_latencies, scratch
from simulator.machine_code import by_one, forget_stale
from simulator.numba_parts import at, inner, loop
from simulator.rules.latencies import EDGES_S, QUANTILES

forget_stale(Path(__file__), Path(str(compiled.__file__)), Path(str(latencies.__file__)))
COME, WAIT, SERVE, ADD_UP, JUDGE, LOOK_BACK = (1 << place for place in range(6))
"""Steps that are taken with a world: its requests come, or a backlog waits; all GPUs serve them, one after another;
what became of them is added up, or only counted, or what of a backlog is left is looked at."""
JUDGED, IN_TIME = 5, 7
"""Places in `Sums.counts`."""
BLOCK, LANES = 128, 8
"""Numbers that NumPy adds up in as many lanes, before it adds up such sums by twos."""


class Sums(NamedTuple):
    """What the records of a world add up to; see `simulator.clock.metrics.Tally`."""

    watts: Floats
    """By queue and batch size: what a GPU draws. Given, all else is the answer."""
    busy_s: Floats
    """By queue."""
    energy_j: Floats
    batched: Ints
    batches: Ints
    counts: Ints
    """By model: arrived, finished, dropped, waiting, running, judged, judged and finished, in time, judged and in time,
    finished in all, and stretches."""
    values: Floats
    """By model: mean latency, mean queueing, standard deviation of stretches, growth of the backlog."""
    quantiles_s: Floats
    """By model: of its latencies, at `QUANTILES`."""
    bins: Ints
    """By model: of its latencies, as `simulator.rules.latencies.counts_of`."""
    room: Scratch


class BacklogColumns(NamedTuple):
    """Requests of each model that wait at the start, and come evenly then; see `simulator.clock.stability`."""

    waiting: Ints
    rate_rps: Floats
    phase: Floats
    """Of the first that comes, in gaps between two."""
    grows: NDArray[np.bool_]
    """The answer."""


NO_BACKLOG = BacklogColumns(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0), np.zeros(0, dtype=np.bool_))


def sums(queues: int, largest: int, models: int, requests: int) -> Sums:
    """Room for the sums of so many queues, of batches up to the largest, of models and of requests."""
    return Sums(
        watts=np.zeros((queues, largest + 1)),
        busy_s=np.zeros(queues),
        energy_j=np.zeros(queues),
        batched=np.zeros(queues, dtype=np.int64),
        batches=np.zeros(queues, dtype=np.int64),
        counts=np.zeros((models, 11), dtype=np.int64),
        values=np.zeros((models, 4)),
        quantiles_s=np.zeros((models, len(QUANTILES))),
        bins=np.zeros((models, len(EDGES_S) - 1), dtype=np.int64),
        room=scratch(max(requests, 2 * BLOCK), largest),
    )


def emptied(given: Sums, watts: Floats) -> Sums:
    """Sums of another world, in the same room."""
    return Sums(
        watts=watts,
        busy_s=np.zeros_like(given.busy_s),
        energy_j=np.zeros_like(given.energy_j),
        batched=np.zeros_like(given.batched),
        batches=np.zeros_like(given.batches),
        counts=np.empty_like(given.counts),
        values=np.empty_like(given.values),
        quantiles_s=np.empty_like(given.quantiles_s),
        bins=np.empty_like(given.bins),
        room=given.room,
    )


@by_one
@loop
def replay(
    layout: Layout,
    coming: Coming,
    backlog: BacklogColumns,
    asked: WorldRequests,
    queues: Queues,
    sums: Sums,
    rule: int,
    warmup_s: float,
    end_s: float,
    steps: int,
) -> int:
    """Take these steps with a world: -1. A queue whose factors are used up: it needs more to be served."""
    of_all, requests, columns, totals = at(layout), at(asked), at(queues), at(sums)
    if steps & COME:
        come(at(coming), requests, end_s)
    if steps & WAIT:
        let_wait(at(backlog), requests, end_s)
    if steps & (COME | WAIT):
        deal(of_all, requests, columns)
    if steps & SERVE:
        short = serve_all(of_all, columns, rule, end_s)
        if short >= 0:
            return short
    if steps & ADD_UP:
        add_up(of_all, columns, requests, totals, warmup_s, end_s)
    if steps & JUDGE:
        judge(of_all, columns, requests, totals, warmup_s, end_s)
    if steps & LOOK_BACK:
        find_growing(of_all, at(backlog), requests, columns, totals.room, end_s)
    return -1


@inner
def judge(layout: Layout, queues: Queues, asked: WorldRequests, sums: Sums, warmup_s: float, end_s: float) -> None:
    """Only count by model how many requests are judged, and how many of these are in time."""
    for model in range(len(asked.begin) - 1):
        judged = in_time = 0
        for queue in layout.replica[layout.replica_begin[model] : layout.replica_begin[model + 1]]:
            count, good = _judge_queue(queues, queue, asked.slo_s[model], warmup_s, end_s)
            judged += count
            in_time += good
        sums.counts[model, JUDGED], sums.counts[model, IN_TIME] = judged, in_time


@inner
def _judge_queue(queues: Queues, queue: int, slo_s: float, warmup_s: float, end_s: float) -> tuple[int, int]:
    """Requests of one queue that are judged, and those in time. Of a batch the first that came waits longest."""
    begin = queues.begin[queue]
    times = queues.times[begin : queues.end[queue]]
    first = first_from(times, warmup_s)
    judged = _judged(times[first:], slo_s, end_s)
    good = turn = 0
    for row in range(begin, begin + queues.rows[queue]):
        ended_s = queues.log_finish_s[row]
        place, turn = max(turn, first), turn + queues.log_count[row]
        last = min(turn, first + judged)
        if ended_s <= end_s:
            while place < last and ended_s - times[place] > slo_s + IN_TIME_S:
                place += 1
            good += max(last - place, 0)
    return judged, good


@inner
def let_wait(backlog: BacklogColumns, asked: WorldRequests, end_s: float) -> None:
    """A backlog, and what comes evenly after it."""
    count = 0
    for model in range(len(backlog.rate_rps)):
        asked.begin[model] = count
        for _ in range(backlog.waiting[model]):
            asked.arrival_s[count] = 0.0
            count += 1
        rate_rps, phase = backlog.rate_rps[model], backlog.phase[model]
        for place in range(ceil(end_s * rate_rps)):
            asked.arrival_s[count] = (place + phase) / rate_rps
            count += asked.arrival_s[count] < end_s
    asked.begin[len(backlog.rate_rps)] = count


@inner
def find_growing(
    layout: Layout, backlog: BacklogColumns, asked: WorldRequests, queues: Queues, room: Scratch, end_s: float
) -> None:
    """Which models' backlogs grow, once all was served, as `simulator.clock.stability` finds."""
    for model in range(len(backlog.rate_rps)):
        first, end = asked.begin[model], asked.begin[model + 1]
        for queue in layout.replica[layout.replica_begin[model] : layout.replica_begin[model + 1]]:
            _settle(queues, queue, _last(layout, queue), asked, first, end_s)
        arrival_s, gone_s = asked.arrival_s[first:end], asked.gone_s[first:end]
        half_time = _outstanding(arrival_s, gone_s, room.spare, 0.4 * end_s, 0.6 * end_s)
        at_end = _outstanding(arrival_s, gone_s, room.spare, 0.8 * end_s, end_s)
        half_time /= 0.6 * end_s - 0.4 * end_s
        at_end /= end_s - 0.8 * end_s
        backlog.grows[model] = at_end > backlog.waiting[model] / 2 and at_end > SHRINKS * half_time


@inner
def add_up(layout: Layout, queues: Queues, asked: WorldRequests, sums: Sums, warmup_s: float, end_s: float) -> None:
    """What the requests and batches of a world add up to."""
    room = sums.room
    for model in range(len(asked.begin) - 1):
        first, end = asked.begin[model], asked.begin[model + 1]
        for queue in layout.replica[layout.replica_begin[model] : layout.replica_begin[model + 1]]:
            _settle(queues, queue, _last(layout, queue), asked, first, end_s)
            stage = queue
            while stage >= 0:
                _add_batches(queues, stage, layout.front[stage], sums, warmup_s, end_s)
                stage = layout.following[stage]
        arrival_s, start_s, gone_s = asked.arrival_s[first:end], asked.start_s[first:end], asked.gone_s[first:end]
        counts, values = sums.counts[model], sums.values[model]
        _add_requests(arrival_s, start_s, gone_s, asked.slo_s[model], room, counts, values, warmup_s, end_s)
        values[3] = _growth(arrival_s, gone_s, room, warmup_s, end_s)
        add_latencies(room, counts[1], sums.bins[model], sums.quantiles_s[model])


@inner
def _last(layout: Layout, queue: int) -> int:
    """The queue of the last stage, which answers what comes to this one."""
    while layout.following[queue] >= 0:
        queue = layout.following[queue]
    return queue


@inner
def _settle(queues: Queues, queue: int, last: int, asked: WorldRequests, first: int, end_s: float) -> None:
    """What became by the end of the requests of one queue, whose batches the last stage's queue answers."""
    begin, end, rows = queues.begin[queue], queues.end[queue], queues.rows[queue]
    answered, answers_end = queues.begin[last], queues.begin[last] + queues.rows[last]
    start_s, gone_s = asked.start_s[first:], asked.gone_s[first:]
    turn = begin
    for row in range(begin, begin + rows):
        begun_s, ended_s = queues.log_start_s[row], queues.log_finish_s[row]
        if ended_s != ended_s:
            begun_s, ended_s = nan, begun_s
        elif last != queue:
            ended_s = queues.log_finish_s[answered] if answered < answers_end else inf
            answered += 1
        left_s = ended_s if ended_s <= end_s or begun_s != begun_s else inf
        for _ in range(queues.log_count[row]):
            request = asked.place[turn]
            start_s[request] = begun_s
            gone_s[request] = left_s
            turn += 1
    for left in range(turn, end):
        start_s[asked.place[left]] = nan
        gone_s[asked.place[left]] = inf


@inner
def _add_batches(queues: Queues, queue: int, front: int, sums: Sums, warmup_s: float, end_s: float) -> None:
    """What the batches of one queue took and drew; how many began after the warm-up, with how many requests. Those that
    it drew from one that replicas share are among the batches of the first."""
    log = queue if front < 0 else front
    room, begin = sums.room, queues.begin[log]
    room.by_size_s[: queues.cap[queue] + 1] = 0.0
    ran = batched = batches = 0
    for row in range(begin, begin + queues.rows[log]):
        if front >= 0 and queues.drawer[row] != queue:
            continue
        begun_s, ended_s, count = queues.log_start_s[row], queues.log_finish_s[row], queues.log_count[row]
        if ended_s == ended_s:
            run_s = (ended_s if ended_s < end_s else end_s) - (begun_s if begun_s < end_s else end_s)
            room.spare[ran] = run_s
            room.by_size_s[count] += run_s
            ran += 1
            if begun_s >= warmup_s:
                batched += count
                batches += 1
    energy_j = 0.0
    for size in range(1, queues.cap[queue] + 1):
        energy_j += room.by_size_s[size] * sums.watts[queue, size]
    sums.busy_s[queue], sums.energy_j[queue] = _sum(room.spare[:ran]), energy_j
    sums.batched[queue], sums.batches[queue] = batched, batches


@inner
def _add_requests(
    arrival_s: Floats,
    start_s: Floats,
    gone_s: Floats,
    slo_s: float,
    room: Scratch,
    counts: Ints,
    values: Floats,
    warmup_s: float,
    end_s: float,
) -> None:
    """Of one model: counts and values; its latencies are in `room` then."""
    first = first_from(arrival_s, warmup_s)
    arrived = len(arrival_s) - first
    judged = _judged(arrival_s[first:], slo_s, end_s)
    is_long = _cut(arrival_s, first, first + judged, room.edges)
    in_time = finished = unjudged = 0
    for part in range(STRETCHES + 1):
        begin, end = room.edges[part], room.edges[part + 1]
        more, good = _add_part(
            arrival_s[begin:end],
            start_s[begin:end],
            gone_s[begin:end],
            room.latency_s[finished:],
            room.spare[finished:],
            slo_s + IN_TIME_S,
        )
        finished += more
        in_time += good
        room.good[part], unjudged = good, more
    values[0] = _sum(room.latency_s[:finished]) / finished if finished else nan
    values[1] = _sum(room.spare[:finished]) / finished if finished else nan
    stretches, values[2] = _over_time(room) if is_long else (0, nan)
    dropped = waiting = 0
    if finished < arrived:
        dropped, waiting = _unfinished(start_s[first:], gone_s[first:])
    counts[0], counts[1], counts[2] = arrived, finished, dropped
    counts[3], counts[4], counts[5] = waiting, arrived - finished - dropped - waiting, judged
    counts[6] = finished - unjudged
    counts[7], counts[8] = in_time, in_time - room.good[STRETCHES]
    counts[9], counts[10] = finished + _finished(start_s[:first], gone_s[:first]), stretches


@inner
def _add_part(
    arrival_s: Floats, start_s: Floats, gone_s: Floats, latency_s: Floats, queued_s: Floats, limit_s: float
) -> tuple[int, int]:
    """Put the latencies and times in the queue of those that finished one after another; how many these are, and how
    many were in time."""
    count, good = _finished(start_s, gone_s), 0
    if count == len(arrival_s):
        for place in range(count):
            latency_s[place] = gone_s[place] - arrival_s[place]
        for place in range(count):
            queued_s[place] = start_s[place] - arrival_s[place]
    else:
        put = 0
        for place in range(len(arrival_s)):
            latency_s[put] = gone_s[place] - arrival_s[place]
            queued_s[put] = start_s[place] - arrival_s[place]
            put += gone_s[place] < inf and start_s[place] == start_s[place]
            if put == count:
                break
    for place in range(count):
        good += latency_s[place] <= limit_s
    return count, good


@inner
def _finished(start_s: Floats, gone_s: Floats) -> int:
    count = 0
    for place in range(len(start_s)):
        count += (gone_s[place] < inf) & (start_s[place] == start_s[place])
    return count


@inner
def _unfinished(start_s: Floats, gone_s: Floats) -> tuple[int, int]:
    """How many were dropped, and how many wait."""
    dropped = waiting = 0
    for place in range(len(start_s)):
        if start_s[place] != start_s[place]:
            dropped += gone_s[place] < inf
            waiting += gone_s[place] == inf
    return dropped, waiting


@inner
def _judged(arrival_s: Floats, slo_s: float, end_s: float) -> int:
    """How many of the first had their deadline before the end."""
    count = first_from(arrival_s, end_s - slo_s)
    while count < len(arrival_s) and arrival_s[count] + slo_s <= end_s:
        count += 1
    while count and arrival_s[count - 1] + slo_s > end_s:
        count -= 1
    return count


@inner
def _cut(arrival_s: Floats, first: int, end: int, edges: Ints) -> bool:
    """Cut the requests that are judged into stretches of equal length; False where they are too few to tell."""
    for stretch in range(STRETCHES):
        edges[stretch] = first
    edges[STRETCHES], edges[STRETCHES + 1] = end, len(arrival_s)
    if end - first < 2 * STRETCHES or arrival_s[end - 1] == arrival_s[first]:
        return False
    begun_s = arrival_s[first]
    span_s = arrival_s[end - 1] - begun_s
    for stretch in range(1, STRETCHES):
        low, high = edges[stretch - 1], end
        while low < high:
            middle = (low + high) // 2
            if (arrival_s[middle] - begun_s) / span_s * STRETCHES < stretch:
                low = middle + 1
            else:
                high = middle
        edges[stretch] = low
    return True


@inner
def _over_time(room: Scratch) -> tuple[int, float]:
    """Stretches that hold requests, and the standard deviation over them of the share in time."""
    means, held = room.spare, 0
    for stretch in range(STRETCHES):
        count = room.edges[stretch + 1] - room.edges[stretch]
        if count:
            means[held] = room.good[stretch] / count
            held += 1
    if held < 2:
        return held, nan
    mean = _sum(means[:held]) / held
    for stretch in range(held):
        means[stretch] = (means[stretch] - mean) * (means[stretch] - mean)
    return held, sqrt(_sum(means[:held]) / (held - 1))


@inner
def _growth(arrival_s: Floats, gone_s: Floats, room: Scratch, warmup_s: float, end_s: float) -> float:
    """Requests that wait or run in the last third of the time after the warm-up, over those in the middle third."""
    third_s = (end_s - warmup_s) / 3
    begun_s, late_s = end_s - 2 * third_s, end_s - third_s
    middle = _outstanding(arrival_s, gone_s, room.spare, begun_s, late_s)
    late = _outstanding(arrival_s, gone_s, room.spare, late_s, end_s)
    return late / (end_s - late_s) - middle / (late_s - begun_s)


@inner
def _outstanding(arrival_s: Floats, gone_s: Floats, spare: Floats, begun_s: float, ended_s: float) -> float:
    """Time that requests waited or ran meanwhile; added up as `_sum` does, but for parts where it is 0."""
    count = len(arrival_s)
    if not count or arrival_s[0] >= ended_s:
        return 0.0
    if count > BLOCK:
        half = count // 2
        half -= half % LANES
        first = _outstanding(arrival_s[:half], gone_s[:half], spare, begun_s, ended_s)
        return first + _outstanding(arrival_s[half:], gone_s[half:], spare, begun_s, ended_s)
    here = 0
    for place in range(count):
        here += gone_s[place] > begun_s
    if not here:
        return 0.0
    for place in range(count):
        came_s, left_s = arrival_s[place], gone_s[place]
        time_s = (left_s if left_s < ended_s else ended_s) - (came_s if came_s > begun_s else begun_s)
        spare[place] = time_s if time_s > 0.0 else 0.0
    return _sum(spare[:count])


@inner
def _sum(values: Floats) -> float:
    """As `numpy.add.reduce`, to the last bit."""
    count = len(values)
    if count < LANES:
        few = 0.0
        for value in values:
            few += value
        return few
    if count > BLOCK:
        half = count // 2
        half -= half % LANES
        return _sum(values[:half]) + _sum(values[half:])
    a, b, c, d, e, f, g, h = values[0], values[1], values[2], values[3], values[4], values[5], values[6], values[7]
    whole = count - count % LANES
    for place in range(LANES, whole, LANES):
        a += values[place]
        b += values[place + 1]
        c += values[place + 2]
        d += values[place + 3]
        e += values[place + 4]
        f += values[place + 5]
        g += values[place + 6]
        h += values[place + 7]
    added = ((a + b) + (c + d)) + ((e + f) + (g + h))
    for place in range(whole, count):
        added += values[place]
    return added
