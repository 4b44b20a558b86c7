"""GPUs that serve, as machine code: for GPUs that nobody disturbs and whose models all stay in their memory.

One GPU at a time for `simulator.clock.run`, or all GPUs of a world and what its records amount to, for
`simulator.clock.worlds`. The same batches at the same times, to the last bit, as `simulator.clock.serving` gives, and
the same sums as `simulator.clock.metrics`: these stay the reference. Importing this takes a fifth of a second, and a
few seconds more the first time on a machine.
"""

from collections.abc import Callable, Iterator, Sequence
from math import floor, inf, nan, sqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from simulator.clock.metrics import IN_TIME_S, STRETCHES
from simulator.clock.records import Outcome
from simulator.clock.serving import ServingGpu
from simulator.machine_code import forget_stale
from simulator.rules.batching import EPSILON_S
from simulator.rules.latencies import EDGES_S, INNER_EDGES_S, QUANTILES, SHORTEST_S
from simulator.rules.queues import Queue
from simulator.rules.scheduling import RoundRobin
from simulator.world.deployment import Drop

forget_stale(Path(__file__))
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

UNCOUNTED: dict[str, Any] = {"_nrt": False}
loop = njit(cache=True, **UNCOUNTED)
"""For functions that make no arrays, nor call any that do: Numba then counts no references to those that they are
given, which took ten times as long as serving."""
FACTORS = 1024
"""Factors on batch times that are drawn at once, by queue."""
DROPS = {None: 0, Drop.LATE: 1, Drop.NEWEST: 2, Drop.NEWEST_AND_LATE: 3}
NEVER, LATE, NEWEST = 0, 1, 2
IN_TURN, BY_ARRIVAL, BY_DEADLINE = 0, 1, 2
FINISHED, DROPPED, WAITING, RUNNING = (int(outcome) for outcome in Outcome)
STEP_BITS = 46
"""Bits of a latency that are left off to count it: what is left are steps of 1/64 of a power of two, so that no more
than one edge of a bin lies in each."""
FIRST_STEP, LAST_STEP = (int(step) for step in np.array([SHORTEST_S, EDGES_S[-1]]).view(np.int64) >> STEP_BITS)
NO_BITS = 2**63 - 1
"""As a whole number no latency is as large."""
BLOCK, LANES = 128, 8
"""Numbers that NumPy adds up in as many lanes, before it adds up such sums by twos."""


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


class Layout(NamedTuple):
    """Which queue is whose, on all GPUs of a deployment: their queues stand one GPU after another."""

    gpu_begin: Ints
    """Where the queues of each GPU begin; one entry more, where the last one's end."""
    replica: Ints
    """The queues of each model, in the order of its replicas, one model after another."""
    replica_begin: Ints
    """Where a model's own begin in `replica`, and one entry more."""
    share: Floats
    """By queue: of the requests that the replicas before it leave, this one gets `share` in `of_share`."""
    of_share: Floats
    equal: NDArray[np.bool_]
    """By model: whether all its replicas have the same share."""


class WorldRequests(NamedTuple):
    """The requests of all models in one world, one model after another, and what became of them."""

    arrival_s: Floats
    begin: Ints
    """Where a model's own begin, and one entry more."""
    slo_s: Floats
    """By model."""
    place: Ints
    """Which request each of the `times` of the queues belongs to."""
    start_s: Floats
    finish_s: Floats
    outcome: NDArray[np.int8]


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
    latency_s: Floats
    """Of the requests of a model that finished, from where its requests begin on."""
    bits: Ints
    """The same memory as whole numbers: of two latencies the longer has the larger one."""
    edges_s: Floats
    """Where bins begin; beyond the last never."""
    bin_of: Ints
    """By step (`STEP_BITS`): the bin in which it begins."""
    held: Ints
    """By step: room to reckon in."""
    spare: Floats
    """Room to reckon in."""
    by_size_s: Floats


def serve(gpu: ServingGpu) -> None:
    """Serve until the horizon."""
    queues = begun(gpu)
    now_s, last, empty = 0.0, len(gpu.queues) - 1, -1
    rule = rule_of(gpu)
    while True:
        now_s, last, empty = _serve(queues, rule, gpu.horizon_s, now_s, last)
        if empty < 0:
            break
        draw_factors(queues, gpu.noise[empty], empty)
    keep_logs(gpu, queues)


def begun(gpu: ServingGpu) -> Queues:
    """The queues of a GPU with all their requests."""
    queues = columns(gpu.queues, sum(len(queue.times) for queue in gpu.queues))
    _fill_times(queues, gpu.queues)
    for number in np.flatnonzero(queues.used == 0).tolist():
        draw_factors(queues, gpu.noise[number], number)
    return queues


def keep_logs(gpu: ServingGpu, queues: Queues) -> None:
    """What became of the requests, as the GPU itself would have noted it."""
    for number, queue in enumerate(gpu.queues):
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


def columns(queues: Sequence[Queue], requests: int) -> Queues:
    """Queues as columns, with room for so many requests, but without these."""
    count, largest = len(queues), max((queue.cap for queue in queues), default=0)
    service_s = np.zeros((count, largest + 1))
    for row, queue in zip(service_s, queues, strict=True):
        row[: queue.cap + 1] = queue.service_s
    return Queues(
        times=np.empty(requests),
        begin=np.zeros(count, dtype=np.int64),
        end=np.zeros(count, dtype=np.int64),
        head=np.zeros(count, dtype=np.int64),
        cap=_ints(queues, lambda queue: queue.cap),
        delay_s=np.array([queue.policy.max_queue_delay_s for queue in queues]),
        slo_s=np.array([queue.slo_s for queue in queues]),
        drop=_ints(queues, lambda queue: DROPS[queue.drop]),
        service_s=service_s,
        longest_s=np.array([queue.longest_s for queue in queues]),
        factors=np.ones((count, FACTORS if any(queue.stage.cv for queue in queues) else 1)),
        used=_ints(queues, lambda queue: 0 if queue.stage.cv else -1),
        ready_s=np.full(count, inf),
        priority=np.zeros(count),
        rest=np.full(count, -1),
        rest_s=np.full(count, inf),
        log_start_s=np.empty(requests),
        log_finish_s=np.empty(requests),
        log_count=np.empty(requests, dtype=np.int32),
        rows=np.zeros(count, dtype=np.int64),
    )


def sums(queues: int, largest: int, models: int, requests: int) -> Sums:
    """Room for the sums of so many queues, of batches up to the largest, of models and of requests."""
    latency_s = np.empty(requests)
    steps = np.arange(FIRST_STEP, LAST_STEP + 1) << STEP_BITS
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
        latency_s=latency_s,
        bits=latency_s.view(np.int64),
        edges_s=np.array([*EDGES_S[:-1], inf]),
        bin_of=INNER_EDGES_S.searchsorted(steps.view(np.float64), side="right"),
        held=np.zeros(len(steps), dtype=np.int64),
        spare=np.empty(requests),
        by_size_s=np.zeros(largest + 1),
    )


def _fill_times(columns: Queues, queues: Sequence[Queue]) -> None:
    """The arrivals of each queue, one queue after another."""
    end = 0
    for number, queue in enumerate(queues):
        begin, end = end, end + len(queue.times)
        columns.times[begin:end] = queue.times
        columns.begin[number] = columns.head[number] = begin
        columns.end[number] = end


def _ints(queues: Sequence[Queue], value: Callable[[Queue], int]) -> Ints:
    return np.array([value(queue) for queue in queues], dtype=np.int64)


def draw_factors(queues: Queues, noise: Iterator[float], number: int) -> None:
    """The next factors of a queue."""
    queues.factors[number] = np.fromiter(noise, np.float64, FACTORS)
    queues.used[number] = 0


# Compiled: all GPUs of a world


@loop
def serve_all(
    layout: Layout, queues: Queues, rule: int, horizon_s: float, gpu: int, now: float, last: int
) -> tuple[int, float, int, int]:
    """Serve on each GPU from `gpu` on, or until the factors of a queue are used up: that GPU, its time, who ran last
    there, and the queue; -1 where all is done. `last` -1: the GPU has not begun."""
    while gpu < len(layout.gpu_begin) - 1:
        first, end = layout.gpu_begin[gpu], layout.gpu_begin[gpu + 1]
        if first < end:
            if last < 0:
                last = end - first - 1
            now, last, empty = _serve(_some(queues, first, end), rule, horizon_s, now, last)
            if empty >= 0:
                return gpu, now, last, first + empty
        gpu, now, last = gpu + 1, 0.0, -1
    return gpu, now, last, -1


@loop
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
        queues.longest_s[first:end],
        queues.factors[first:end],
        queues.used[first:end],
        queues.ready_s[first:end],
        queues.priority[first:end],
        queues.rest[first:end],
        queues.rest_s[first:end],
        queues.log_start_s,
        queues.log_finish_s,
        queues.log_count,
        queues.rows[first:end],
    )


@njit(cache=True)
def deal(layout: Layout, asked: WorldRequests, queues: Queues) -> None:
    """Send each request to its queue, as `simulator.rules.scheduling.split` does, and let all begin anew."""
    filled = 0
    rest = np.empty(len(asked.arrival_s), dtype=np.int64)
    for model in range(len(asked.begin) - 1):
        first, left = asked.begin[model], asked.begin[model + 1] - asked.begin[model]
        replicas = layout.replica[layout.replica_begin[model] : layout.replica_begin[model + 1]]
        for turn in range(left):
            rest[turn] = first + turn
        for number in range(len(replicas)):
            queue = replicas[number]
            queues.begin[queue] = queues.head[queue] = filled
            if layout.equal[model]:
                for turn in range(number, left, len(replicas)):
                    asked.place[filled] = rest[turn]
                    filled += 1
            else:
                kept, before = 0, 0
                for turn in range(left):
                    turns = floor((turn + 1) * layout.share[queue] / layout.of_share[queue] + 1e-9)
                    if turns > before:
                        asked.place[filled] = rest[turn]
                        filled += 1
                    else:
                        rest[kept] = rest[turn]
                        kept += 1
                    before = turns
                left = kept
            queues.end[queue] = filled
    for place in range(filled):
        queues.times[place] = asked.arrival_s[asked.place[place]]
    for queue in range(len(queues.rows)):
        queues.rows[queue] = 0
        queues.rest[queue] = -1
        queues.rest_s[queue] = queues.ready_s[queue] = inf


@njit(cache=True)
def add_up(queues: Queues, asked: WorldRequests, sums: Sums, warmup_s: float, end_s: float) -> None:
    """What the requests and batches of a world add up to."""
    for request in range(len(asked.outcome)):
        asked.start_s[request] = asked.finish_s[request] = nan
        asked.outcome[request] = WAITING
    for number in range(len(queues.head)):
        first = queues.begin[number]
        end = first + queues.rows[number]
        start_s, finish_s = queues.log_start_s[first:end], queues.log_finish_s[first:end]
        count = queues.log_count[first:end]
        places = asked.place[first : queues.end[number]]
        _settle(start_s, finish_s, count, places, asked.start_s, asked.finish_s, asked.outcome, end_s)
        batches = _add_batches(
            start_s, finish_s, count, sums.watts[number], sums.by_size_s, sums.spare, warmup_s, end_s
        )
        sums.busy_s[number], sums.energy_j[number], sums.batched[number], sums.batches[number] = batches
    for model in range(len(asked.begin) - 1):
        first, end = asked.begin[model], asked.begin[model + 1]
        _add_requests(
            asked.arrival_s[first:end],
            asked.start_s[first:end],
            asked.finish_s[first:end],
            asked.outcome[first:end],
            asked.slo_s[model],
            sums.latency_s[first:end],
            sums.spare,
            sums.counts[model],
            sums.values[model],
            warmup_s,
            end_s,
        )
        _add_latencies(sums, first, model)


@loop
def _add_latencies(sums: Sums, first: int, model: int) -> None:
    """Of one model, whose latencies begin at `first`: how many are in each bin, and their quantiles."""
    count = sums.counts[model, 1]
    latency_s, bits = sums.latency_s[first : first + count], sums.bits[first : first + count]
    bins = sums.bins[model]
    for step in range(len(sums.held)):
        sums.held[step] = 0
    for number in range(len(bins)):
        bins[number] = 0
    for place in range(count):
        step = min(max((bits[place] >> STEP_BITS) - FIRST_STEP, 0), len(sums.held) - 1)
        sums.held[step] += 1
        number = sums.bin_of[step]
        bins[number + (latency_s[place] >= sums.edges_s[number + 1])] += 1
    for number in range(len(QUANTILES)):
        sums.quantiles_s[model, number] = _quantile(latency_s, bits, sums.held, sums.spare, QUANTILES[number])


@loop
def _quantile(latency_s: Floats, bits: Ints, held: Ints, spare: Floats, share: float) -> float:
    """As `simulator.rules.latencies.quantiles`; `held`: how many latencies lie in each step.

    Only those of one step are looked at closer, or of two where the quantile lies between the last and the first.
    """
    if not len(latency_s):
        return nan
    place = share * (len(latency_s) - 1)
    below, part = int(place), place - int(place)
    step = before = 0
    while before + held[step] <= below:
        before += held[step]
        step += 1
    few = spare[: _in_step(latency_s, bits, spare, step, len(held))]
    low_s = high_s = _select(few, below - before)
    if below + 1 < before + held[step]:
        high_s = _select(few, below + 1 - before)
    elif below + 1 < len(latency_s):
        step += 1
        while not held[step]:
            step += 1
        high_s = _select(spare[: _in_step(latency_s, bits, spare, step, len(held))], 0)
    if part >= 0.5:
        return high_s - (high_s - low_s) * (1 - part)
    return low_s + (high_s - low_s) * part


@loop
def _in_step(latency_s: Floats, bits: Ints, spare: Floats, step: int, steps: int) -> int:
    """Copy the latencies of one step, and say how many there are."""
    first = (FIRST_STEP + step) << STEP_BITS if step else 0
    end = (FIRST_STEP + step + 1) << STEP_BITS if step < steps - 1 else NO_BITS
    count = 0
    for place in range(len(latency_s)):
        if first <= bits[place] < end:
            spare[count] = latency_s[place]
            count += 1
    return count


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


@loop
def _settle(
    start_s: Floats,
    finish_s: Floats,
    count: NDArray[np.int32],
    places: Ints,
    request_start_s: Floats,
    request_finish_s: Floats,
    outcomes: NDArray[np.int8],
    end_s: float,
) -> None:
    """What became of the requests of one queue by the end."""
    place = 0
    for row in range(len(start_s)):
        outcome, ended_s = FINISHED, finish_s[row]
        if ended_s != ended_s:
            outcome = DROPPED
        elif ended_s > end_s:
            outcome, ended_s = RUNNING, nan
        for _ in range(count[row]):
            request = places[place]
            request_start_s[request] = start_s[row]
            request_finish_s[request] = ended_s
            outcomes[request] = outcome
            place += 1


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
        run_s = min(finish_s[row], end_s) - min(start_s[row], end_s)
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


@njit(cache=True)
def _add_requests(
    arrival_s: Floats,
    start_s: Floats,
    finish_s: Floats,
    outcome: NDArray[np.int8],
    slo_s: float,
    latency_s: Floats,
    spare: Floats,
    counts: Ints,
    values: Floats,
    warmup_s: float,
    end_s: float,
) -> None:
    """Of one model; latencies of what finished, counts and values."""
    first = _place(arrival_s, warmup_s)
    arrived = len(arrival_s) - first
    judged = _judged(arrival_s[first:], slo_s, end_s)
    finished_before = in_time = judged_in_time = finished = dropped = waiting = 0
    for request in range(first):
        finished_before += outcome[request] == FINISHED
    for request in range(first, len(arrival_s)):
        dropped += outcome[request] == DROPPED
        waiting += outcome[request] == WAITING
        if outcome[request] == FINISHED:
            took_s = finish_s[request] - arrival_s[request]
            latency_s[finished] = took_s
            spare[finished] = start_s[request] - arrival_s[request]
            finished += 1
            if took_s <= slo_s + IN_TIME_S:
                in_time += 1
                judged_in_time += request < first + judged
    values[0] = _sum(latency_s[:finished]) / finished if finished else nan
    values[1] = _sum(spare[:finished]) / finished if finished else nan
    stretches, values[2] = _over_time(arrival_s, finish_s, first, first + judged, slo_s)
    values[3] = _growth(arrival_s, start_s, finish_s, outcome, spare, warmup_s, end_s)
    counts[0], counts[1], counts[2] = arrived, finished, dropped
    counts[3], counts[4], counts[5] = waiting, arrived - finished - dropped - waiting, judged
    counts[6], counts[7] = in_time, judged_in_time
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


@njit(cache=True)
def _over_time(arrival_s: Floats, finish_s: Floats, first: int, end: int, slo_s: float) -> tuple[int, float]:
    """Stretches that hold requests, and the standard deviation over them of the share in time."""
    if end - first < 2 * STRETCHES or arrival_s[end - 1] == arrival_s[first]:
        return 0, nan
    begun_s = arrival_s[first]
    span_s = arrival_s[end - 1] - begun_s
    means, held, request = np.empty(STRETCHES), 0, first
    for stretch in range(1, STRETCHES + 1):
        count = good = 0
        while request < end and (stretch == STRETCHES or (arrival_s[request] - begun_s) / span_s * STRETCHES < stretch):
            count += 1
            good += finish_s[request] - arrival_s[request] <= slo_s + IN_TIME_S
            request += 1
        if count:
            means[held] = good / count
            held += 1
    if held < 2:
        return held, nan
    mean = _sum(means[:held]) / held
    for stretch in range(held):
        means[stretch] = (means[stretch] - mean) * (means[stretch] - mean)
    return held, sqrt(_sum(means[:held]) / (held - 1))


@loop
def _growth(
    arrival_s: Floats,
    start_s: Floats,
    finish_s: Floats,
    outcome: NDArray[np.int8],
    spare: Floats,
    warmup_s: float,
    end_s: float,
) -> float:
    """Requests that wait or run in the last third of the time after the warm-up, over those in the middle third."""
    third_s = (end_s - warmup_s) / 3
    late = growth = 0.0
    for third in range(1, 3):
        begun_s, ended_s = end_s - third * third_s, end_s - (third - 1) * third_s
        for request in range(len(arrival_s)):
            gone_s = finish_s[request]
            if outcome[request] == DROPPED:
                gone_s = start_s[request]
            elif outcome[request] != FINISHED:
                gone_s = inf
            spare[request] = max(min(gone_s, ended_s) - max(arrival_s[request], begun_s), 0.0)
        mean = _sum(spare[: len(arrival_s)]) / (ended_s - begun_s)
        growth, late = late - mean, mean
    return growth


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


# Compiled: one GPU


@loop
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
        _discard(queues, number, now, now)
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


@loop
def _next(queues: Queues, rule: int, now: float, last: int) -> tuple[int, float]:
    """The ready queue that runs now; where none is ready -1, and when the first will be."""
    count = len(queues.head)
    best, next_s = -1, inf
    number = last
    for _ in range(count):
        number = number + 1 if number + 1 < count else 0
        if queues.ready_s[number] > now:
            next_s = min(next_s, queues.ready_s[number])
        elif rule == IN_TURN:
            return number, now
        elif best < 0 or (queues.priority[number], number) < (queues.priority[best], best):
            best = number
    return best, next_s


@loop
def _book(queues: Queues, rule: int, number: int) -> None:
    queues.ready_s[number] = _ready_at(queues, number)
    if rule != IN_TURN and queues.ready_s[number] < inf:
        queues.priority[number] = queues.times[queues.head[number]]
        if rule == BY_DEADLINE:
            queues.priority[number] += queues.slo_s[number]


@loop
def _ready_at(queues: Queues, number: int) -> float:
    head, end, delay_s = queues.head[number], queues.end[number], queues.delay_s[number]
    if delay_s and head == queues.rest[number]:
        return queues.rest_s[number]
    if head >= end:
        return inf
    oldest_s = queues.times[head] + delay_s
    full = head + queues.cap[number] - 1
    return min(oldest_s, queues.times[full]) if delay_s and full < end else oldest_s


@loop
def _leave(queues: Queues, number: int, start_s: float, finish_s: float, count: int) -> None:
    row = queues.begin[number] + queues.rows[number]
    queues.log_start_s[row] = start_s
    queues.log_finish_s[row] = finish_s
    queues.log_count[row] = count
    queues.rows[number] += 1
    queues.head[number] += count


@loop
def _batch_size(queues: Queues, number: int, now: float) -> int:
    head, end, most = queues.head[number], queues.end[number], queues.cap[number]
    return _arrivals_end(queues.times, head, min(head + most, end), now) - head


@loop
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


@loop
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


@loop
def _first_kept(queues: Queues, number: int, now: float, start_s: float) -> int:
    """As `simulator.rules.batching.first_kept`."""
    times, head, most = queues.times, queues.head[number], queues.cap[number]
    service_s, slo_s, drop = queues.service_s[number], queues.slo_s[number], queues.drop[number]
    present = _arrivals_end(times, head, queues.end[number], now)
    if drop != LATE:
        head = max(head, present - most)
    if drop == NEWEST:
        return head
    while head < present and times[head] < start_s + service_s[min(present - head, most)] - slo_s - EPSILON_S:
        head += 1
    return head
