"""GPUs in machine code: their queues, whose turn it is and which batch runs, as `simulator.flow.stages` and
`simulator.clock.serving` decide it for GPUs that hold all their models, on hosts that never fail."""

from math import inf, nan

import numpy as np

from simulator.flow.compiled.columns import FACTORS, LATE, NEVER, NEWEST, Columns
from simulator.flow.compiled.events import AWAKE, FOLLOW, NONE, RAN, RINGS, WAKE, WAKES, next_delay_s, schedule
from simulator.numba_parts import inner
from simulator.rules.batching import EPSILON_S


@inner
def expect(w: Columns, number: int) -> None:
    """Book a queue where it will be ready earlier than its GPU knows, and wake that."""
    queue = w.queues[number]
    gpu = w.gpus[queue.gpu]
    if _ready_at(w, number) < queue.booked_s:
        _book(w, number)
        if not w.clock[0].is_delayed:
            ring(w, queue.gpu)
        elif not (gpu.is_awake or gpu.is_waking):
            gpu.is_waking = True
            wake_s = next_delay_s(w, w.queues[_first_ready(w, queue.gpu)].delays, WAKE)
            schedule(w, RINGS, queue.gpu, NONE, wake_s)


@inner
def ring(w: Columns, number: int) -> None:
    """Wake a GPU that sleeps."""
    gpu = w.gpus[number]
    if not (gpu.is_awake or gpu.is_rung):
        gpu.is_rung = True
        schedule(w, WAKES, number, gpu.sleep, 0.0)


@inner
def _first_ready(w: Columns, number: int) -> int:
    """The first queue of a GPU that is ready; the first of all where none is."""
    gpu = w.gpus[number]
    for queue in range(gpu.begin, gpu.end):
        if _ready_at(w, queue) <= w.clock[0].now_s:
            return queue
    return gpu.begin


@inner
def _book(w: Columns, number: int) -> None:
    """Note when a queue will be ready."""
    queue, clock = w.queues[number], w.clock[0]
    gpu = w.gpus[queue.gpu]
    queue.booked_s = _ready_at(w, number)
    if queue.booked_s == inf:
        return
    entry = w.agenda[queue.gpu, gpu.entries]
    entry.ready_s, entry.queue = queue.booked_s, number
    entry.priority = w.frames[w.waiting[queue.head].frame].arrival_s
    if clock.by_deadline:
        entry.priority += queue.slo_s
    gpu.entries += 1
    clock.is_full |= gpu.entries + gpu.end - gpu.begin > w.agenda.shape[1]


@inner
def _ready_at(w: Columns, number: int) -> float:
    """When its next batch may run."""
    queue = w.queues[number]
    if queue.delay_s and queue.head == queue.rest:
        return queue.rest_s
    if queue.head >= queue.end:
        return inf
    oldest_s, full = w.waiting[queue.head].came_s + queue.delay_s, queue.head + queue.cap - 1
    if queue.delay_s and full < queue.end:
        return min(oldest_s, w.waiting[full].came_s)
    return oldest_s


@inner
def _batch_size(w: Columns, number: int) -> int:
    """Items in a batch that starts now."""
    queue, size = w.queues[number], 0
    most = min(queue.cap, queue.end - queue.head)
    while size < most and w.waiting[queue.head + size].came_s <= w.clock[0].now_s:
        size += 1
    return size


@inner
def _discard(w: Columns, number: int) -> None:
    """Apply the drop rule to what is here now."""
    queue, now_s = w.queues[number], w.clock[0].now_s
    if queue.drop == NEVER:
        return
    kept = _first_kept(w, number)
    if kept == queue.head:
        return
    ready_s = _ready_at(w, number) if queue.delay_s else inf
    for place in range(queue.head, kept):
        frame = w.frames[w.waiting[place].frame]
        if not frame.is_lost:
            frame.is_lost, frame.lost_s = True, now_s
    _leave(w, number, nan, kept - queue.head)
    if ready_s <= now_s and _batch_size(w, number):
        queue.rest, queue.rest_s = kept, max(ready_s, w.waiting[kept].came_s)


@inner
def _first_kept(w: Columns, number: int) -> int:
    """As of `simulator.flow.stages.StageQueue`."""
    queue, now_s = w.queues[number], w.clock[0].now_s
    first = queue.head
    if queue.drop == LATE and first < queue.end and not _is_late(w, number, first, now_s + queue.longest_s):
        return first
    present, end = first, queue.end
    while present < end:
        middle = (present + end) // 2
        if w.waiting[middle].came_s <= now_s:
            present = middle + 1
        else:
            end = middle
    if queue.drop != LATE:
        first = max(first, present - queue.cap)
    if queue.drop == NEWEST:
        return first
    while first < present and _is_late(w, number, first, now_s + w.service_s[number, min(present - first, queue.cap)]):
        first += 1
    return first


@inner
def _is_late(w: Columns, number: int, place: int, answer_s: float) -> bool:
    return w.frames[w.waiting[place].frame].arrival_s + w.queues[number].slo_s < answer_s - EPSILON_S


@inner
def _leave(w: Columns, number: int, finish_s: float, count: int) -> None:
    queue = w.queues[number]
    row = w.log[queue.begin + queue.rows]
    row.start_s, row.finish_s, row.count = w.clock[0].now_s, finish_s, count
    queue.rows += 1
    queue.head += count


# Turns


@inner
def serve(w: Columns, number: int) -> None:
    """Run the next batch, or sleep."""
    gpu, clock = w.gpus[number], w.clock[0]
    while True:
        which = _next(w, number)
        if which < 0:
            _sleep(w, number)
            return
        queue = w.queues[which]
        if queue.booked_s > clock.now_s:
            continue
        if _ready_at(w, which) > clock.now_s:
            _book(w, which)
            continue
        queue.booked_s = -inf
        _discard(w, which)
        size = _batch_size(w, which)
        if size:
            service_s = w.service_s[which, size] * _factor(w, which)
            service_s *= _beside_stations(w, number, service_s)
            _leave(w, which, clock.now_s + service_s, size)
            _book(w, which)
            gpu.queue, gpu.size = which, size
            schedule(w, RAN, number, NONE, service_s)
            return
        _book(w, which)


@inner
def follow(w: Columns, number: int) -> None:
    """Go on after a batch: at once, or where whoever serves takes time and a batch waits, once that is over."""
    gpu, clock, oldest, oldest_s = w.gpus[number], w.clock[0], -1, inf
    if clock.is_delayed:
        for which in range(gpu.begin, gpu.end):
            if _ready_at(w, which) <= clock.now_s:
                came_s = w.waiting[w.queues[which].head].came_s
                if came_s < oldest_s:
                    oldest, oldest_s = which, came_s
    if oldest < 0:
        serve(w, number)
    else:
        schedule(w, AWAKE, number, NONE, next_delay_s(w, w.queues[oldest].delays, FOLLOW))


@inner
def _beside_stations(w: Columns, number: int, service_s: float) -> float:
    """As `simulator.rules.queues.Delays.beside` has it, of stations that work meanwhile."""
    gpu, free_s = w.gpus[number], 0.0
    if gpu.slowdown == 1.0:
        return 1.0
    for which in range(len(w.stations)):
        station = w.stations[which]
        soonest_s = w.free_s[station.server]
        for server in range(station.server + 1, station.server_end):
            soonest_s = min(soonest_s, w.free_s[server])
        free_s = max(free_s, soonest_s)
    share = min(max((free_s - w.clock[0].now_s) / service_s, 0.0), 1.0)
    return (1 + (gpu.slowdown - 1) * share) / (1 + (gpu.slowdown - 1) * gpu.usual_share)


@inner
def _factor(w: Columns, number: int) -> float:
    """On the time of a queue's next batch."""
    queue = w.queues[number]
    if queue.used < 0:
        return 1.0
    queue.used += 1
    if queue.used == FACTORS:
        w.clock[0].empty = number
    return w.factors[number, queue.used - 1]


@inner
def _next(w: Columns, number: int) -> int:
    """The ready queue that runs now, which leaves the agenda; -1 where none is ready."""
    gpu, clock, agenda = w.gpus[number], w.clock[0], w.agenda[number]
    best = -1
    for place in range(gpu.entries):
        if agenda[place].ready_s <= clock.now_s:
            if clock.in_turn:
                agenda[place].priority = (agenda[place].queue - gpu.last - 1) % (gpu.end - gpu.begin)
            if best < 0 or (agenda[place].priority, agenda[place].queue) < (agenda[best].priority, agenda[best].queue):
                best = place
    if best < 0:
        return -1
    queue = agenda[best].queue
    if clock.in_turn:
        gpu.last = queue
        for place in range(gpu.entries - 1, -1, -1):
            if agenda[place].queue == queue and agenda[place].ready_s <= clock.now_s:
                gpu.entries -= 1
                agenda[place] = agenda[gpu.entries]
    else:
        gpu.entries -= 1
        agenda[best] = agenda[gpu.entries]
    return queue


@inner
def _sleep(w: Columns, number: int) -> None:
    """Wait for the next queue that is known to be ready, or until it is woken."""
    gpu, now_s, until_s = w.gpus[number], w.clock[0].now_s, inf
    for place in range(gpu.entries):
        until_s = min(until_s, w.agenda[number, place].ready_s)
    gpu.sleep += 1
    gpu.is_awake = gpu.is_rung = False
    if w.clock[0].is_delayed:
        until_s += next_delay_s(w, w.queues[_soonest(w, number)].delays, WAKE)
    if until_s < inf:
        left_s = until_s - now_s
        if now_s + left_s > until_s:
            left_s = np.nextafter(left_s, 0.0)
        schedule(w, WAKES, number, gpu.sleep, left_s)


@inner
def _soonest(w: Columns, number: int) -> int:
    """The first queue of a GPU that none is ready before."""
    gpu = w.gpus[number]
    soonest = gpu.begin
    for queue in range(gpu.begin + 1, gpu.end):
        if _ready_at(w, queue) < _ready_at(w, soonest):
            soonest = queue
    return soonest
