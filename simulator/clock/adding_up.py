"""What the records of a world add up to, as machine code: the same to the last bit as `simulator.clock.metrics` says,
which stays the reference."""

from math import ceil, inf, nan, sqrt
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.clock import compiled
from simulator.clock.compiled import Coming, Floats, Ints, Layout, Queues, WorldRequests, come, deal, loop, serve_all
from simulator.clock.metrics import IN_TIME_S, STRETCHES
from simulator.clock.records import Outcome
from simulator.clock.stability import SHRINKS
from simulator.machine_code import forget_stale
from simulator.rules.latencies import EDGES_S, INNER_EDGES_S, QUANTILES, SHORTEST_S

forget_stale(Path(__file__), Path(str(compiled.__file__)))
FINISHED, DROPPED, WAITING, RUNNING = (int(outcome) for outcome in Outcome)
STEP_BITS = 46
"""Bits of a latency that are left off to count it: what is left are steps of 1/64 of a power of two, so that no more
than one edge of a bin lies in each."""
FIRST_STEP, LAST_STEP = (int(step) for step in np.array([SHORTEST_S, EDGES_S[-1]]).view(np.int64) >> STEP_BITS)
STEPS = LAST_STEP - FIRST_STEP + 1
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
    """By model: arrived, finished, dropped, waiting, running, judged, in time, judged in time, finished in all, and
    stretches."""
    values: Floats
    """By model: mean latency, mean queueing, standard deviation of stretches, growth of the backlog."""
    quantiles_s: Floats
    """By model: of its latencies, at `QUANTILES`."""
    bins: Ints
    """By model: of its latencies, as `simulator.rules.latencies.counts_of`."""
    room: "Scratch"


class Backlog(NamedTuple):
    """Requests of each model that wait at the start, and come evenly then; see `simulator.clock.stability`."""

    waiting: Ints
    rate_rps: Floats
    phase: Floats
    """Of the first that comes, in gaps between two."""
    grows: NDArray[np.bool_]
    """The answer."""


class Scratch(NamedTuple):
    """Room to reckon in, and tables."""

    latency_s: Floats
    """Of the requests of a model that finished."""
    bits: Ints
    """The same memory as whole numbers: of two latencies the longer has the larger one."""
    spare: Floats
    by_size_s: Floats
    edges: Ints
    """Where the stretches of a model's requests begin, then those that are not judged, and where these end."""
    good: Ints
    """How many are in time of each of these."""
    late: Floats
    """Of one block."""
    bin_of: Ints
    """By step (`STEP_BITS`): the bin in which it begins."""
    edge_s: Floats
    """By step: where that bin ends; beyond the last never."""
    held: Ints
    """By step: how many latencies lie in it before the end of the bin, and how many from there on."""
    bucket: Ints
    """By step: where the next of its latencies goes; -1 where none is looked at closer."""


def sums(queues: int, largest: int, models: int, requests: int) -> Sums:
    """Room for the sums of so many queues, of batches up to the largest, of models and of requests."""
    latency_s = np.empty(requests)
    steps = np.arange(FIRST_STEP, LAST_STEP + 1) << STEP_BITS
    bin_of = INNER_EDGES_S.searchsorted(steps.view(np.float64), side="right")
    return Sums(
        watts=np.zeros((queues, largest + 1)),
        busy_s=np.zeros(queues),
        energy_j=np.zeros(queues),
        batched=np.zeros(queues, dtype=np.int64),
        batches=np.zeros(queues, dtype=np.int64),
        counts=np.zeros((models, 10), dtype=np.int64),
        values=np.zeros((models, 4)),
        quantiles_s=np.zeros((models, len(QUANTILES))),
        bins=np.zeros((models, len(EDGES_S) - 1), dtype=np.int64),
        room=Scratch(
            latency_s=latency_s,
            bits=latency_s.view(np.int64),
            spare=np.empty(max(requests, 2 * BLOCK)),
            by_size_s=np.zeros(largest + 1),
            edges=np.zeros(STRETCHES + 2, dtype=np.int64),
            good=np.zeros(STRETCHES + 1, dtype=np.int64),
            late=np.zeros(BLOCK),
            bin_of=bin_of,
            edge_s=np.array([*EDGES_S[:-1], inf])[bin_of + 1],
            held=np.zeros(2 * STEPS, dtype=np.int64),
            bucket=np.full(STEPS, -1),
        ),
    )


def emptied(given: Sums, watts: Floats) -> Sums:
    """Sums of another world, in the same room."""
    return Sums(
        watts=watts,
        busy_s=np.empty_like(given.busy_s),
        energy_j=np.empty_like(given.energy_j),
        batched=np.empty_like(given.batched),
        batches=np.empty_like(given.batches),
        counts=np.empty_like(given.counts),
        values=np.empty_like(given.values),
        quantiles_s=np.empty_like(given.quantiles_s),
        bins=np.empty_like(given.bins),
        room=given.room,
    )


@loop
def replay(
    layout: Layout,
    coming: Coming,
    asked: WorldRequests,
    queues: Queues,
    sums: Sums,
    rule: int,
    warmup_s: float,
    end_s: float,
) -> None:
    """Deal out the requests of a world whose batches have no noise, serve them, and add up what became of them."""
    come(coming, asked, end_s)
    deal(layout, asked, queues)
    serve_all(layout, queues, rule, end_s, 0, 0.0, -1)
    add_up(queues, asked, sums, warmup_s, end_s)


@loop
def grow(
    layout: Layout, backlog: Backlog, asked: WorldRequests, queues: Queues, room: Scratch, rule: int, end_s: float
) -> None:
    """Find which models' backlogs grow, as `simulator.clock.stability` does."""
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
    deal(layout, asked, queues)
    serve_all(layout, queues, rule, end_s, 0, 0.0, -1)
    for number in range(len(queues.head)):
        _settle_queue(queues, number, asked, end_s)
    for model in range(len(backlog.rate_rps)):
        first, end = asked.begin[model], asked.begin[model + 1]
        arrival_s, gone_s = asked.arrival_s[first:end], asked.gone_s[first:end]
        half_time = _outstanding(arrival_s, gone_s, room.spare, room.late, 0.4 * end_s, 0.6 * end_s, end_s)[0]
        at_end = _outstanding(arrival_s, gone_s, room.spare, room.late, 0.6 * end_s, 0.8 * end_s, end_s)[1]
        half_time /= 0.6 * end_s - 0.4 * end_s
        at_end /= end_s - 0.8 * end_s
        backlog.grows[model] = at_end > backlog.waiting[model] / 2 and at_end > SHRINKS * half_time


@loop
def add_up(queues: Queues, asked: WorldRequests, sums: Sums, warmup_s: float, end_s: float) -> None:
    """What the requests and batches of a world add up to."""
    room = sums.room
    for number in range(len(queues.head)):
        first = queues.begin[number]
        end = first + queues.rows[number]
        start_s, finish_s = queues.log_start_s[first:end], queues.log_finish_s[first:end]
        count = queues.log_count[first:end]
        _settle_queue(queues, number, asked, end_s)
        batches = _add_batches(
            start_s, finish_s, count, sums.watts[number], room.by_size_s, room.spare, warmup_s, end_s
        )
        sums.busy_s[number], sums.energy_j[number], sums.batched[number], sums.batches[number] = batches
    for model in range(len(asked.begin) - 1):
        first, end = asked.begin[model], asked.begin[model + 1]
        _add_requests(
            asked.arrival_s[first:end],
            asked.start_s[first:end],
            asked.gone_s[first:end],
            asked.outcome[first:end],
            asked.slo_s[model],
            room,
            sums.counts[model],
            sums.values[model],
            warmup_s,
            end_s,
        )
        _add_latencies(room, sums.counts[model, 1], sums.bins[model], sums.quantiles_s[model])


@loop
def _settle_queue(queues: Queues, number: int, asked: WorldRequests, end_s: float) -> None:
    first = queues.begin[number]
    end = first + queues.rows[number]
    start_s, finish_s = queues.log_start_s[first:end], queues.log_finish_s[first:end]
    places = asked.place[first : queues.end[number]]
    _settle(start_s, finish_s, queues.log_count[first:end], places, asked, end_s)


@loop
def _settle(
    start_s: Floats, finish_s: Floats, count: NDArray[np.int32], places: Ints, asked: WorldRequests, end_s: float
) -> None:
    """What became of the requests of one queue by the end."""
    place = 0
    for row in range(len(start_s)):
        outcome, gone_s = FINISHED, finish_s[row]
        if gone_s != gone_s:
            outcome, gone_s = DROPPED, start_s[row]
        elif gone_s > end_s:
            outcome, gone_s = RUNNING, inf
        for _ in range(count[row]):
            request = places[place]
            asked.start_s[request] = start_s[row]
            asked.gone_s[request] = gone_s
            asked.outcome[request] = outcome
            place += 1
    for left in range(place, len(places)):
        asked.gone_s[places[left]] = inf
        asked.outcome[places[left]] = WAITING


@loop
def _add_batches(
    start_s: Floats,
    finish_s: Floats,
    count: NDArray[np.int32],
    watts: Floats,
    by_size_s: Floats,
    spare: Floats,
    warmup_s: float,
    end_s: float,
) -> tuple[float, float, int, int]:
    """Of one queue: time and energy of its batches, and after the warm-up their requests and number."""
    ran = batched = batches = 0
    for size in range(len(by_size_s)):
        by_size_s[size] = 0.0
    for row in range(len(start_s)):
        if finish_s[row] != finish_s[row]:
            continue
        ended_s, begun_s = finish_s[row], start_s[row]
        run_s = (ended_s if ended_s < end_s else end_s) - (begun_s if begun_s < end_s else end_s)
        spare[ran] = run_s
        by_size_s[count[row]] += run_s
        ran += 1
        if start_s[row] >= warmup_s:
            batched += count[row]
            batches += 1
    energy_j = 0.0
    for size in range(1, len(by_size_s)):
        energy_j += by_size_s[size] * watts[size]
    return _sum(spare[:ran]), energy_j, batched, batches


@loop
def _add_requests(
    arrival_s: Floats,
    start_s: Floats,
    gone_s: Floats,
    outcome: NDArray[np.int8],
    slo_s: float,
    room: Scratch,
    counts: Ints,
    values: Floats,
    warmup_s: float,
    end_s: float,
) -> None:
    """Of one model: counts and values; its latencies are in `room` then."""
    first = _place(arrival_s, warmup_s)
    arrived = len(arrival_s) - first
    judged = _judged(arrival_s[first:], slo_s, end_s)
    is_long = _cut(arrival_s, first, first + judged, room.edges)
    finished_before = in_time = finished = dropped = waiting = 0
    for request in range(first):
        finished_before += outcome[request] == FINISHED
    for part in range(STRETCHES + 1):
        good = 0
        for request in range(room.edges[part], room.edges[part + 1]):
            is_done = outcome[request] == FINISHED
            took_s = gone_s[request] - arrival_s[request]
            room.latency_s[finished] = took_s
            room.spare[finished] = start_s[request] - arrival_s[request]
            finished += is_done
            good += is_done and took_s <= slo_s + IN_TIME_S
            dropped += outcome[request] == DROPPED
            waiting += outcome[request] == WAITING
        room.good[part] = good
        in_time += good
    values[0] = _sum(room.latency_s[:finished]) / finished if finished else nan
    values[1] = _sum(room.spare[:finished]) / finished if finished else nan
    stretches = 0
    values[2] = nan
    if is_long:
        stretches, values[2] = _over_time(room)
    values[3] = _growth(arrival_s, gone_s, room, warmup_s, end_s)
    counts[0], counts[1], counts[2] = arrived, finished, dropped
    counts[3], counts[4], counts[5] = waiting, arrived - finished - dropped - waiting, judged
    counts[6], counts[7] = in_time, in_time - room.good[STRETCHES]
    counts[8], counts[9] = finished + finished_before, stretches


@loop
def _place(values: Floats, value: float) -> int:
    """Where those begin that are no less, by bisection."""
    low, high = 0, len(values)
    while low < high:
        middle = (low + high) // 2
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@loop
def _judged(arrival_s: Floats, slo_s: float, end_s: float) -> int:
    """How many of the first had their deadline before the end."""
    count = _place(arrival_s, end_s - slo_s)
    while count < len(arrival_s) and arrival_s[count] + slo_s <= end_s:
        count += 1
    while count and arrival_s[count - 1] + slo_s > end_s:
        count -= 1
    return count


@loop
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


@loop
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


@loop
def _growth(arrival_s: Floats, gone_s: Floats, room: Scratch, warmup_s: float, end_s: float) -> float:
    """Requests that wait or run in the last third of the time after the warm-up, over those in the middle third."""
    third_s = (end_s - warmup_s) / 3
    begun_s, late_s = end_s - 2 * third_s, end_s - third_s
    middle, late = _outstanding(arrival_s, gone_s, room.spare, room.late, begun_s, late_s, end_s)
    return late / (end_s - late_s) - middle / (late_s - begun_s)


@loop
def _outstanding(
    arrival_s: Floats, gone_s: Floats, middle: Floats, late: Floats, begun_s: float, late_s: float, end_s: float
) -> tuple[float, float]:
    """Time that requests waited or ran in the middle third, and in the last one; added up as `_sum` does."""
    count = len(arrival_s)
    if count <= BLOCK:
        for place in range(count):
            came_s, left_s = arrival_s[place], gone_s[place]
            middle_s = (left_s if left_s < late_s else late_s) - (came_s if came_s > begun_s else begun_s)
            last_s = (left_s if left_s < end_s else end_s) - (came_s if came_s > late_s else late_s)
            middle[place] = middle_s if middle_s > 0.0 else 0.0
            late[place] = last_s if last_s > 0.0 else 0.0
        return _sum(middle[:count]), _sum(late[:count])
    half = count // 2
    half -= half % LANES
    first = _outstanding(arrival_s[:half], gone_s[:half], middle, late, begun_s, late_s, end_s)
    second = _outstanding(arrival_s[half:], gone_s[half:], middle, late, begun_s, late_s, end_s)
    return first[0] + second[0], first[1] + second[1]


@loop
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


@loop
def _add_latencies(room: Scratch, count: int, bins: Ints, quantiles_s: Floats) -> None:
    """Of one model that has so many latencies: how many are in each bin, and their quantiles."""
    for number in range(len(bins)):
        bins[number] = 0
    if not count:
        quantiles_s[:] = nan
        return
    lowest, highest = STEPS, 0
    for place in range(count):
        step = _step(room.bits[place])
        lowest, highest = min(lowest, step), max(highest, step)
        room.held[2 * step + (room.latency_s[place] >= room.edge_s[step])] += 1
    for step in range(lowest, highest + 1):
        number = room.bin_of[step]
        bins[number] += room.held[2 * step]
        if room.held[2 * step + 1]:
            bins[number + 1] += room.held[2 * step + 1]
    _look_closer(room, count, lowest)
    for number in range(len(QUANTILES)):
        rank = QUANTILES[number] * (count - 1)
        below, part = int(rank), rank - int(rank)
        low_s = _ranked(room, below, lowest)
        high_s = _ranked(room, min(below + 1, count - 1), lowest)
        if part >= 0.5:
            quantiles_s[number] = high_s - (high_s - low_s) * (1 - part)
        else:
            quantiles_s[number] = low_s + (high_s - low_s) * part
    for step in range(lowest, highest + 1):
        room.held[2 * step] = room.held[2 * step + 1] = 0
        room.bucket[step] = -1


@loop
def _step(bits: int) -> int:
    return min(max((bits >> STEP_BITS) - FIRST_STEP, 0), STEPS - 1)


@loop
def _look_closer(room: Scratch, count: int, lowest: int) -> None:
    """Put those latencies together, step by step, among which are the quantiles."""
    used = 0
    for number in range(len(QUANTILES)):
        below = int(QUANTILES[number] * (count - 1))
        for rank in range(below, min(below + 2, count)):
            step, _ = _step_of(room.held, rank, lowest)
            if room.bucket[step] < 0:
                room.bucket[step] = used
                used += room.held[2 * step] + room.held[2 * step + 1]
    for place in range(count):
        step = _step(room.bits[place])
        if room.bucket[step] >= 0:
            room.spare[room.bucket[step]] = room.latency_s[place]
            room.bucket[step] += 1


@loop
def _ranked(room: Scratch, rank: int, lowest: int) -> float:
    """The latency that stands there once they are sorted."""
    step, before = _step_of(room.held, rank, lowest)
    end = room.bucket[step]
    return _select(room.spare[end - room.held[2 * step] - room.held[2 * step + 1] : end], rank - before)


@loop
def _step_of(held: Ints, rank: int, lowest: int) -> tuple[int, int]:
    """The step of the latency that stands there once they are sorted, and how many lie before that step."""
    step, before = lowest, 0
    while before + held[2 * step] + held[2 * step + 1] <= rank:
        before += held[2 * step] + held[2 * step + 1]
        step += 1
    return step, before


@loop
def _select(values: Floats, rank: int) -> float:
    """The value that stands there once they are sorted: what is smaller than one of them goes before it, what is larger
    behind it, and on with the part that holds the rank (Hoare, 1961)."""
    low, high = 0, len(values) - 1
    while low < high:
        pivot = values[(low + high) // 2]
        left, right, place = low, high, low
        while place <= right:
            value = values[place]
            if value < pivot:
                values[place], values[left] = values[left], value
                left += 1
                place += 1
            elif value > pivot:
                values[place], values[right] = values[right], value
                right -= 1
            else:
                place += 1
        if left <= rank <= right:
            return pivot
        if rank < left:
            high = left - 1
        else:
            low = right + 1
    return values[low]
