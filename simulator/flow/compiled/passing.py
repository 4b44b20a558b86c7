"""Frames in machine code: they arrive, their items pass from stage to stage, by stations and GPUs, and are answered.

The same events in the same order as on SimPy's clock, which stays the reference: so the same items, batches and times,
to the last bit.
"""

from pathlib import Path
from typing import Any

from simulator.flow.compiled.columns import Columns
from simulator.flow.compiled.events import (
    ARRIVES,
    AWAKE,
    ENDS,
    FOLLOW,
    NONE,
    RAN,
    RINGS,
    WAKE,
    next_delay_s,
    remove_first,
    schedule,
)
from simulator.flow.compiled.turns import expect, follow, ring, serve
from simulator.machine_code import by_one, forget_stale
from simulator.numba_parts import at, inner, loop

forget_stale(Path(__file__), *(Path(__file__).with_name(name) for name in ("columns.py", "events.py", "turns.py")))
DONE, SHORT = 0, 1


@inner
def _start(w: Columns) -> None:
    """What happens before all else at the beginning: GPUs look at their queues, and the first frames arrive."""
    for queue in range(len(w.queues)):
        expect(w, queue)
    for gpu in range(len(w.gpus)):
        serve(w, gpu)
    for source in range(len(w.sources)):
        _arrive(w, source, False)


@by_one
@loop
def go_on(world: Columns, begins: bool) -> int:
    """Let all happen until the horizon, from the beginning or from where it stopped: DONE. SHORT where factors, or room
    for events, must be had first."""
    w = at(world)
    if begins:
        _start(w)
    clock = w.clock[0]
    while clock.events and w.events[0].at_s < clock.horizon_s:
        if clock.empty >= 0 or clock.is_full or clock.events > clock.room:
            return SHORT
        what, who, which = w.events[0].what, w.events[0].who, w.events[0].which
        clock.now_s = w.events[0].at_s
        remove_first(w)
        if what == ARRIVES:
            _arrive(w, who, True)
        elif what == ENDS:
            _end(w, who, which)
        elif what == RAN:
            _answer(w, who)
            follow(w, who)
        elif what == AWAKE:
            serve(w, who)
        elif what == RINGS:
            w.gpus[who].is_waking = False
            ring(w, who)
        elif w.gpus[who].sleep == which and not w.gpus[who].is_awake:
            w.gpus[who].is_awake = True
            schedule(w, AWAKE, who, NONE, 0.0)
    return DONE


# Frames and their items


@inner
def _arrive(w: Columns, number: int, is_here: bool) -> None:
    """Frames arrive until one is yet to come. `is_here`: the next one was waited for."""
    source, clock = w.sources[number], w.clock[0]
    while source.frame < source.end:
        at_s = w.frames[source.frame].arrival_s
        if at_s > clock.now_s and not is_here:
            schedule(w, ARRIVES, number, NONE, at_s - clock.now_s)
            return
        is_here = False
        for stage in range(source.stage, source.stage_end):
            if w.stages[stage].is_fed:
                first = w.stages[stage].count
                _come(w, stage, source.frame - source.first, at_s)
                _work(w, stage, first)
        source.frame += 1


@inner
def _come(w: Columns, number: int, item: int, now_s: float) -> None:
    """An item comes to a stage."""
    stage = w.stages[number]
    place = w.places[stage.begin + stage.count]
    place.item, place.came_s, place.next = item, now_s, -1
    stage.count += 1


@inner
def _send(w: Columns, stage: int, first: int) -> None:
    """Bring items that came to where they wait."""
    if w.stages[stage].count == first:
        return
    if w.stages[stage].is_model:
        _deal(w, stage, first)
    else:
        _work(w, stage, first)


@inner
def _follow(w: Columns, number: int, count: int) -> None:
    """So many items of a stage are done. What follows from them comes to the next stages."""
    stage, now_s = w.stages[number], w.clock[0].now_s
    for turn in range(count):
        frame = w.frames[w.items[stage.begin + w.spare[turn].item].frame]
        frame.left -= 1
        if not frame.left:
            frame.answered_s = now_s
    for way in range(stage.way, stage.way_end):
        target, begin = w.ways[way].stage, w.ways[way].begin
        first = w.stages[target].count
        for turn in range(count):
            item = begin + w.spare[turn].item
            for following in range(w.begins[item], w.begins[item + 1]):
                _come(w, target, following, now_s)
        _send(w, target, first)
    for number in range(stage.join, stage.join_end):
        _count_before(w, stage.begin, w.joins[w.join_after[number]], count)


@inner
def _count_before(w: Columns, begin: int, join: Any, count: int) -> None:
    """So many items before a join are done. It runs once nothing of a frame is left."""
    first = w.stages[join.stage].count
    for turn in range(count):
        joined = w.joined[join.begin + w.items[begin + w.spare[turn].item].frame]
        joined.left -= 1
        if not joined.left and joined.item >= 0:
            _come(w, join.stage, joined.item, w.clock[0].now_s)
    _send(w, join.stage, first)


@inner
def _deal(w: Columns, number: int, first: int) -> None:
    """Each item to its queue, and then each queue that got something tells its GPU."""
    stage, clock = w.stages[number], w.clock[0]
    clock.deals += 1
    for here in range(stage.begin + first, stage.begin + stage.count):
        queue = w.queues[w.items[here].owner]
        waiting, place = w.waiting[queue.end], w.places[here]
        waiting.came_s, waiting.place = place.came_s, here
        waiting.frame = w.items[stage.begin + place.item].frame
        queue.end += 1
    for here in range(stage.begin + first, stage.begin + stage.count):
        queue = w.queues[w.items[here].owner]
        if queue.dealt != clock.deals:
            queue.dealt = clock.deals
            expect(w, w.items[here].owner)


@inner
def _answer(w: Columns, number: int) -> None:
    """The batch of a GPU is done."""
    gpu, count = w.gpus[number], NONE
    queue = w.queues[gpu.queue]
    begin = w.stages[queue.stage].begin
    for place in range(queue.head - gpu.size, queue.head):
        count = _note_done(w, begin, w.places[w.waiting[place].place].item, count)
    _follow(w, queue.stage, count)


# Stations


@inner
def _work(w: Columns, number: int, first: int) -> None:
    """Stations take items at once. Those that will end together do so in one event."""
    stage, now_s, groups = w.stages[number], w.clock[0].now_s, 0
    for here in range(stage.begin + first, stage.begin + stage.count):
        _take(w, number, here)
        place, group = w.places[here], groups - 1
        while group >= 0 and w.places[w.spare[group].first].finish_s != place.finish_s:
            group -= 1
        if group < 0:
            w.spare[groups].first = here
            group = groups
            groups += 1
        else:
            w.places[w.spare[group].last].next = here
        w.spare[group].last = here
    for group in range(groups):
        begun = w.spare[group].first
        schedule(w, ENDS, number, begun, max(0.0, w.places[begun].finish_s - now_s))


@inner
def _take(w: Columns, number: int, here: int) -> None:
    """Where its source stays, or where least is outstanding, a server takes an item."""
    stage, place, clock = w.stages[number], w.places[here], w.clock[0]
    item = w.items[stage.begin + place.item]
    place.station = item.home
    if item.home < 0:
        place.station = stage.station
        for other in range(stage.station + 1, stage.station_end):
            if w.stations[other].load < w.stations[place.station].load:
                place.station = other
    station = w.stations[place.station]
    server = station.server
    for other in range(server + 1, station.server_end):
        if w.free_s[other] < w.free_s[server]:
            server = other
    place.start_s = max(place.came_s, w.free_s[server])
    if stage.delays >= 0:
        kind = FOLLOW if station.has_begun and w.free_s[server] >= place.came_s else WAKE
        place.start_s += next_delay_s(w, stage.delays, kind)
    station.has_begun = True
    place.finish_s = w.free_s[server] = place.start_s + item.work_s / station.speed
    station.outstanding += 1
    station.load = station.outstanding / station.capacity
    use = w.uses[clock.uses]
    use.station, use.start_s, use.finish_s = place.station, place.start_s, place.finish_s
    clock.uses += 1


@inner
def _end(w: Columns, number: int, here: int) -> None:
    """Items that ended together are done."""
    stage, count = w.stages[number], NONE
    while here >= 0:
        place = w.places[here]
        station = w.stations[place.station]
        station.outstanding -= 1
        station.load = station.outstanding / station.capacity
        count = _note_done(w, stage.begin, place.item, count)
        here = place.next
    _follow(w, number, count)


@inner
def _note_done(w: Columns, begin: int, item: int, count: int) -> int:
    """How many items are done with this one, unless its frame is lost."""
    if w.frames[w.items[begin + item].frame].is_lost:
        return count
    w.spare[count].item = item
    return count + 1
