"""GPUs whose models take turns in their memory or are cut into stages, as machine code: those that share a link or hand
batches to one another, where nobody else disturbs them.

The same batches, loads and stalls at the same times, to the last bit, as `simulator.clock.serving` gives on the drivers
of `simulator.clock.drivers`, which stay the reference: `Ahead` and `DelayedAhead` where a GPU has its link alone,
`Clocked` and `simulator.clock.link` where several share it or it is handed batches. Names of functions are theirs.
"""

from collections.abc import Sequence
from itertools import accumulate, chain
from math import inf
from pathlib import Path

import numpy as np

from simulator.clock import compiled
from simulator.clock.compiled import (
    AGAIN,
    BEGINS,
    DONE,
    FOLLOW,
    IN_TURN,
    LACKS_FOLLOW,
    LACKS_WAKE,
    WAKE,
    Floats,
    Queues,
    _discard,
    _ready_at,
    _some,
    begun,
    keep_logs,
    lacks,
    next_delay_s,
    rule_of,
    supply,
)
from simulator.clock.records import Load, Stall
from simulator.clock.replays import chains as handing
from simulator.clock.replays import links
from simulator.clock.replays.chains import Chains, batch_size, book, chains_of, hand_on, leave, ring
from simulator.clock.replays.links import (
    ARRIVED,
    AT_ONCE,
    BATCH,
    BATCH_K,
    BEGINNING,
    BESIDE_BEGUN,
    CHOSEN,
    CHOSEN_BYTES,
    COMING,
    COMING_BYTES,
    CONTEXT,
    EXPECTING,
    FINISH,
    HEARS,
    HELD_UP,
    IDLE,
    LANDING,
    LANDS,
    LAST,
    LEAVING,
    LIMIT,
    LOAD,
    LOAD_BEGUN,
    LOAD_K,
    LOADED,
    LOADING,
    LOOKAHEAD,
    MRU,
    NOTED,
    NOW,
    ORDER,
    OTHER,
    OWED,
    POINT,
    PREFETCH,
    SEEN,
    SHARES,
    SLEEPS,
    STAGE,
    STALLED,
    STEP,
    STEP_PLACE,
    STOOD,
    SWAPS,
    TAKING_OFF,
    TURN,
    WAKES,
    WAKES_PLACE,
    WEIGHTS,
    WORKSPACE,
    Flights,
    Turns,
    first_two,
    flights_of,
    is_before,
    land,
    lands_before,
    logs_for,
    next_place,
    take_off,
    turns_of,
)
from simulator.clock.serving import Number, ServingGpu
from simulator.machine_code import by_one, forget_stale
from simulator.numba_parts import at, inlined, loop
from simulator.rules.queues import Delays, Stage
from simulator.rules.scheduling import SwapAware

forget_stale(Path(__file__), *(Path(str(module.__file__)) for module in (compiled, links, handing)))

RESIDENT_FIRST = 3
"""How queues take their turns, beside the rules of `simulator.clock.compiled`."""
LACKS_FACTORS = -6
"""Beside what is lacking in `simulator.clock.compiled`: factors of the queue whose batch is to run."""

RAN, VACATES, CHOOSES, BRINGS, TAKES_OFF, LANDED, LOADS_NO_MORE, RUNS = range(8)
"""Where the loop goes on: its batch ran, or is over with what held that up; a queue is chosen, its weights are brought
in; what comes before their bytes is over, these are through, or what held them up is over too; its batch runs."""


def serve(gpus: Sequence[ServingGpu], link_bytes_per_s: float, delays: Delays | None = None) -> None:
    """Serve on GPUs that are served together until the horizon; delays are those of one that is alone."""
    of_all = [queue for gpu in gpus for queue in gpu.queues]
    noise = list(chain.from_iterable(gpu.noise for gpu in gpus))
    ends = list(accumulate(len(gpu.queues) for gpu in gpus))
    queues = begun(of_all, noise, delays)
    room = logs_for(len(gpus), max(sum(queue.room for queue in gpu.queues) for gpu in gpus))
    turns, flights = turns_of(gpus, link_bytes_per_s, room), flights_of(link_bytes_per_s, [0, *ends[:-1]], ends)
    chains = chains_of(of_all, queues, turns, flights)
    rule, horizon_s, lacking = rule_in_turns(gpus[0]), float(gpus[0].horizon_s), BEGINS
    while lacking != DONE:
        lacking = serve_on(queues, turns, flights, chains, rule, horizon_s, lacking == BEGINS)
        supply(queues, noise, delays, lacking)
    keep_logs(of_all, queues)
    for number, gpu in enumerate(gpus):
        _keep_turns(gpu, Turns(*(column[number] for column in turns)))


def rule_in_turns(gpu: ServingGpu) -> int:
    """How its queues take their turns."""
    return RESIDENT_FIRST if isinstance(gpu.agenda, SwapAware) else rule_of(gpu)


def _keep_turns(gpu: ServingGpu, turns: Turns) -> None:
    """What happened, as the GPU itself would have noted it."""
    noted, loaded, stood = turns.counts[[NOTED, LOADED, STOOD]].tolist()
    gpu.memory_at_s += turns.note_s[:noted].tolist()
    gpu.memory_used += turns.note_bytes[:noted].tolist()
    stages: list[Stage] = [queue.stage for queue in gpu.queues]
    number, size_bytes, ahead = turns.load_of[:loaded].T.tolist()
    loads = zip(number, *turns.load_s[:loaded].T.tolist(), size_bytes, map(bool, ahead), strict=True)
    gpu.loads += [Load(stages[number].model, gpu.device.id, *rest) for number, *rest in loads]
    gpu.stalls += [Stall(gpu.device.id, *times_s) for times_s in zip(*turns.stall_s[:stood].T.tolist(), strict=True)]
    gpu.stalled_s = float(turns.times_s[STALLED])
    gpu.clock = Number(gpu.horizon_s)


# Compiled: GPUs that are served together, whose waits end one after another


@loop
def figures(turns: Turns, gpu: int, horizon_s: float) -> tuple[float, int, int]:
    """How long a GPU stood still for weights, how often these were loaded, and the most bytes in use."""
    stalled_s = 0.0
    for row in range(turns.counts[gpu, STOOD]):
        stalled_s += min(turns.stall_s[gpu, row, 1], horizon_s) - turns.stall_s[gpu, row, 0]
    if horizon_s > turns.times_s[gpu, STALLED]:
        stalled_s += horizon_s - turns.times_s[gpu, STALLED]
    most_bytes = 0
    for row in range(turns.counts[gpu, NOTED]):
        most_bytes = max(most_bytes, turns.note_bytes[gpu, row])
    return stalled_s, turns.counts[gpu, LOADED], most_bytes


@by_one
@loop
def serve_on(
    queues: Queues, turns: Turns, flights: Flights, chains: Chains, rule: int, horizon_s: float, begins: bool
) -> int:
    """As `_serve_on`, for Python to call."""
    return _serve_on(at(queues), at(turns), at(flights), at(chains), rule, horizon_s, begins)


@inlined
def _serve_on(
    queues: Queues, turns: Turns, flights: Flights, chains: Chains, rule: int, horizon_s: float, begins: bool
) -> int:
    """Serve until the horizon, or until delays or the factors of a queue are used up: which, or that queue."""
    if begins:
        _begin_all(queues, turns, flights, chains, rule)
    while True:
        gpu, flights.counts[OTHER] = first_two(flights)
        ahead = _ahead(turns, flights, horizon_s)
        if ahead >= 0:
            gpu, flights.counts[OTHER] = ahead, -1
        if lands_before(flights, flights.next_s[gpu], flights.next_place[gpu]):
            if flights.times_s[LANDS] >= horizon_s:
                return DONE
            land(turns, flights)
            continue
        if flights.next_s[gpu] >= horizon_s:
            return DONE
        first, end = flights.first[gpu], flights.end[gpu]
        lacking = _serve(at(_some(queues, first, end)), at(_of(turns, gpu)), flights, chains, gpu, rule, horizon_s)
        if lacking != AGAIN:
            return first + turns.counts[gpu, CHOSEN] if lacking == LACKS_FACTORS else lacking


@inlined
def _ahead(turns: Turns, flights: Flights, horizon_s: float) -> int:
    """A GPU that nobody disturbs and that has not come to the horizon: it runs ahead of all others; -1: none."""
    for gpu in range(len(flights.next_s)):
        if not turns.rules[gpu, SHARES] and flights.next_s[gpu] < horizon_s:
            return gpu
    return -1


@inlined
def _of(turns: Turns, gpu: int) -> Turns:
    """What is kept of one GPU."""
    return Turns(
        turns.rules[gpu],
        turns.most_s[gpu],
        turns.layer_begin[gpu],
        turns.layer[gpu],
        turns.user_begin[gpu],
        turns.user[gpu],
        turns.layer_bytes[gpu],
        turns.holds[gpu],
        turns.workspace_bytes[gpu],
        turns.t0_s[gpu],
        turns.bytes_per_s[gpu],
        turns.link_bytes_per_s[gpu],
        turns.after_load[gpu],
        turns.beside_load[gpu],
        turns.model[gpu],
        turns.missing_bytes[gpu],
        turns.fresh[gpu],
        turns.before[gpu],
        turns.after[gpu],
        turns.loading[gpu],
        turns.leaving[gpu],
        turns.victim[gpu],
        turns.ranked[gpu],
        turns.next_use_s[gpu],
        turns.next_turns[gpu],
        turns.times_s[gpu],
        turns.counts[gpu],
        turns.note_s[gpu],
        turns.note_bytes[gpu],
        turns.load_s[gpu],
        turns.load_of[gpu],
        turns.stall_s[gpu],
    )


@inlined
def _begin_all(queues: Queues, turns: Turns, flights: Flights, chains: Chains, rule: int) -> None:
    """Empty memory and links, for another world."""
    chains.link_free_s[:] = 0.0
    flights.times_s[SEEN], flights.times_s[LANDS] = 0.0, inf
    flights.counts[:] = 0
    for gpu in range(len(flights.first)):
        _begin(at(_some(queues, flights.first[gpu], flights.end[gpu])), at(_of(turns, gpu)), rule)
        turns.counts[gpu, WAKES_PLACE] = gpu - AT_ONCE  # SimPy begins with one after another
        flights.next_s[gpu], flights.next_place[gpu] = 0.0, gpu - AT_ONCE


@inlined
def _begin(queues: Queues, turns: Turns, rule: int) -> None:
    times_s, counts = turns.times_s, turns.counts
    for queue in range(len(queues.head)):
        turns.missing_bytes[queue] = 0
        for place in range(turns.layer_begin[queue], turns.layer_begin[queue + 1]):
            turns.missing_bytes[queue] += turns.rules[SWAPS] * turns.layer_bytes[turns.layer[place]]
        book(queues, rule, queue)
    for flags in (turns.fresh, turns.loading, turns.leaving):
        flags[:] = False
    for chain_of in (turns.before, turns.after):
        chain_of[:] = -1
        chain_of[-1] = len(turns.layer_bytes)
    times_s[:] = 0.0
    times_s[STEP] = times_s[STALLED] = times_s[BATCH] = times_s[LOAD] = times_s[ARRIVED] = inf
    times_s[BATCH_K] = times_s[LOAD_K] = 1.0
    counts[:] = 0
    counts[TURN] = counts[LAST] = len(queues.head) - 1
    counts[POINT] = CHOOSES


@inlined
def _serve(
    queues: Queues, turns: Turns, flights: Flights, chains: Chains, gpu: int, rule: int, horizon_s: float
) -> int:
    """Let a GPU go on until a wait of another ends first, or the horizon comes: AGAIN, or what it lacks."""
    times_s, counts, lacking = turns.times_s, turns.counts, AGAIN
    while lacking == AGAIN:
        is_beside = _is_beside_first(turns)
        at_s = times_s[STEP] if is_beside else times_s[WAKES]
        place = counts[STEP_PLACE] if is_beside else counts[WAKES_PLACE]
        flights.next_s[gpu], flights.next_place[gpu] = at_s, place
        if at_s >= horizon_s or lands_before(flights, at_s, place):
            break
        other = flights.counts[OTHER]
        if other >= 0 and is_before(flights, other, at_s, place):
            break
        times_s[NOW] = at_s
        if is_beside:
            times_s[STEP] = _go_on(queues, turns, flights, gpu)
            counts[STEP_PLACE] = next_place(flights)
        else:
            lacking = _go_round(queues, turns, flights, chains, gpu, rule)
    return lacking


@inlined
def _is_beside_first(turns: Turns) -> bool:
    """What goes on beside a batch comes before the loop: at one instant, where nobody shares the link, always."""
    step_s, wakes_s = turns.times_s[STEP], turns.times_s[WAKES]
    if step_s == wakes_s and turns.rules[SHARES]:
        return bool(turns.counts[STEP_PLACE] < turns.counts[WAKES_PLACE])
    return bool(step_s <= wakes_s)


# Compiled: the loop of one GPU


@inlined
def _go_round(queues: Queues, turns: Turns, flights: Flights, chains: Chains, gpu: int, rule: int) -> int:
    """Go on with the loop until it waits again: AGAIN, or what it lacks."""
    point = turns.counts[POINT]
    while point >= 0:
        if point <= CHOOSES:
            point = _choose(queues, turns, flights, rule, point)
        if BRINGS <= point < RUNS:
            point = _bring_in(queues, turns, flights, gpu, rule, point)
        if point == RUNS:
            point = _run(queues, turns, flights, chains, gpu, rule)
        if point == SLEEPS:  # it is woken, by what it waited for or by another: SimPy has one more event for that
            point = _wait(turns, flights, turns.times_s[NOW], CHOOSES)
    return point


@inlined
def _wait(turns: Turns, flights: Flights, until_s: float, point: int) -> int:
    """The loop goes on then, from that point."""
    turns.times_s[WAKES], turns.counts[WAKES_PLACE] = until_s, next_place(flights)
    turns.counts[POINT] = point
    return AGAIN


@inlined
def _lack(turns: Turns, lacking: int, point: int) -> int:
    """The loop goes on at once when that is supplied."""
    turns.times_s[WAKES], turns.counts[WAKES_PLACE] = turns.times_s[NOW], -AT_ONCE
    turns.counts[POINT] = point
    return lacking


@inlined
def _choose(queues: Queues, turns: Turns, flights: Flights, rule: int, point: int) -> int:
    """Whose turn it is, once the batch that ran is done, or has gone on for as long as a load beside it held it up."""
    times_s = turns.times_s
    if point == RAN:
        longer_s = _longer_s(times_s, times_s[FINISH])
        times_s[OWED] += longer_s
        times_s[BATCH] = inf
        if longer_s:
            ran = turns.counts[LAST]
            queues.log_finish_s[queues.begin[ran] + queues.rows[ran] - 1] += longer_s
            return _wait(turns, flights, times_s[NOW] + longer_s, VACATES)
    if point <= VACATES:
        _vacate(turns)
    number = _first(queues, turns, rule)
    if number < 0:
        return _idle(queues, turns, flights)
    turns.counts[TURN] = turns.counts[CHOSEN] = number
    return BRINGS if turns.rules[SWAPS] else RUNS


@inlined
def _vacate(turns: Turns) -> None:
    """The batch is done: its workspace is free."""
    turns.counts[WORKSPACE] = 0
    if turns.counts[LEAVING]:
        for layer in range(len(turns.leaving)):
            if turns.leaving[layer]:
                _evict(turns, layer)
                turns.leaving[layer] = False
        turns.counts[LEAVING] = 0
        _note(turns)
    _note(turns)


@inlined
def _idle(queues: Queues, turns: Turns, flights: Flights) -> int:
    """Wait until a queue is ready, and for whoever serves to wake."""
    now = turns.times_s[NOW]
    if lacks(queues.waits, WAKE):
        return _lack(turns, LACKS_WAKE, CHOOSES)
    until_s = _next_ready_s(queues) + next_delay_s(queues.waits, WAKE)
    left_s = until_s - now
    if turns.rules[SHARES] and now + left_s > until_s:  # as of `simulator.clock.drivers.time_until`
        left_s = np.nextafter(left_s, 0.0)
    if turns.rules[SHARES] or turns.rules[SWAPS]:
        until_s = now + left_s
    return _wait(turns, flights, until_s, SLEEPS if turns.rules[HEARS] else CHOOSES)


@inlined
def _run(queues: Queues, turns: Turns, flights: Flights, chains: Chains, gpu: int, rule: int) -> int:
    """Run a batch, if requests are left to."""
    number, now = turns.counts[CHOSEN], turns.times_s[NOW]
    _discard(queues, number, now, now)
    size = batch_size(queues, number, now)
    if not size:
        book(queues, rule, number)
        return CHOOSES
    if lacks(queues.waits, FOLLOW):
        return _lack(turns, LACKS_FOLLOW, RUNS)
    if queues.used[number] == queues.stock[number]:
        return _lack(turns, LACKS_FACTORS, RUNS)
    takes_s = _takes_s(queues, turns, number, size)
    until_s = now + (takes_s + next_delay_s(queues.waits, FOLLOW))
    woken = hand_on(queues, flights, chains, rule, gpu, number, now + takes_s, size)
    if woken >= 0:
        ring(flights, chains, woken, now)
    leave(queues, number, now, now + takes_s, size)
    book(queues, rule, number)
    if not turns.rules[SWAPS]:
        return _wait(turns, flights, until_s, CHOOSES)
    _occupy(queues, turns, flights, rule, now + takes_s)
    return _wait(turns, flights, until_s, RAN)


@inlined
def _takes_s(queues: Queues, turns: Turns, number: int, size: int) -> float:
    """What a batch takes, by the next factor of its queue, and longer where its weights have just come."""
    takes_s = queues.service_s[number, size]
    if queues.used[number] >= 0:
        takes_s *= queues.factors[number, queues.used[number]]
        queues.used[number] += 1
    if turns.fresh[turns.model[number]]:
        turns.fresh[turns.model[number]] = False
        takes_s *= turns.after_load[number]
    return takes_s


# Compiled: whose turn it is


@inlined
def _first(queues: Queues, turns: Turns, rule: int) -> int:
    """The ready queue that comes first; -1 where none is ready."""
    now, best = turns.times_s[NOW], -1
    if rule == IN_TURN:
        number = turns.counts[TURN]
        for _ in range(len(queues.head)):
            number = number + 1 if number + 1 < len(queues.head) else 0
            if queues.ready_s[number] <= now:
                return number
        return -1
    here = -1
    for number in range(len(queues.head)):
        if queues.ready_s[number] > now:
            continue
        if best < 0 or queues.priority[number] < queues.priority[best]:
            best = number
        if not turns.missing_bytes[number] and (here < 0 or queues.priority[number] < queues.priority[here]):
            here = number
    if rule != RESIDENT_FIRST or here < 0:
        return best
    urgent = _urgent(queues, turns, here)
    return here if urgent < 0 else urgent


@inlined
def _urgent(queues: Queues, turns: Turns, here: int) -> int:
    """The first queue that must be loaded and would miss its deadline behind `here`; -1 where there is none."""
    now, best = turns.times_s[NOW], -1
    after_s = now + _service_s(queues, here, now)
    for number in range(len(queues.head)):
        deadline_s = queues.priority[number]
        if queues.ready_s[number] > now or deadline_s <= now or deadline_s >= after_s + turns.most_s[0]:
            continue
        if not turns.missing_bytes[number] or (best >= 0 and queues.priority[best] <= deadline_s):
            continue
        needs_s = _load_s(turns, number, turns.missing_bytes[number])
        if now + needs_s > deadline_s or after_s + (needs_s + queues.longest_s[number]) <= deadline_s:
            continue
        takes_s = needs_s + _service_s(queues, number, now)
        if now + takes_s <= deadline_s < after_s + takes_s:
            best = number
    return best


@inlined
def _service_s(queues: Queues, number: int, now: float) -> float:
    return queues.service_s[number, max(1, batch_size(queues, number, now))]


@inlined
def _load_s(turns: Turns, number: int, size_bytes: int) -> float:
    return turns.t0_s[number] + size_bytes / turns.bytes_per_s[number]


@inlined
def _next_ready_s(queues: Queues) -> float:
    next_s = inf
    for ready_s in queues.ready_s:
        next_s = min(next_s, ready_s)
    return next_s


@inlined
def _peek(queues: Queues, turns: Turns, rule: int, until_s: float) -> int:
    """The queue that would run next if the GPU were free now, else the first to be ready by `until_s`; -1: none."""
    number = _first(queues, turns, rule)
    if number >= 0:
        return number
    for other in range(len(queues.head)):
        if queues.ready_s[other] <= until_s and (number < 0 or queues.ready_s[other] < queues.ready_s[number]):
            number = other
    return number


# Compiled: memory


@inlined
def _bring_in(queues: Queues, turns: Turns, flights: Flights, gpu: int, rule: int, point: int) -> int:
    """Wait for or load what the chosen queue lacks, and make room for its workspace."""
    times_s, counts, number = turns.times_s, turns.counts, turns.counts[CHOSEN]
    if point == BRINGS and _wanted(queues, turns, number):
        if _in_the_way(queues, turns, number):
            times_s[STALLED] = min(times_s[STALLED], times_s[NOW])
            return _wait(turns, flights, inf if turns.rules[SHARES] else times_s[STEP], BRINGS)
        if _make_room(queues, turns, number):
            times_s[STALLED] = min(times_s[STALLED], times_s[NOW])
            times_s[LOAD_BEGUN] = times_s[NOW]
            counts[CHOSEN_BYTES] = _begin_load(turns, number)
            until_s = _transfer_s(turns, number, counts[CHOSEN_BYTES])
            return _wait(turns, flights, until_s, TAKES_OFF if turns.rules[SHARES] else LANDED)
    if point == TAKES_OFF:
        take_off(flights, gpu, times_s[NOW], counts[CHOSEN_BYTES], turns.bytes_per_s[number])
        return _wait(turns, flights, inf, LANDED)
    if point == LANDED:
        longer_s = _end_load(times_s)
        if longer_s:
            return _wait(turns, flights, times_s[NOW] + longer_s, LOADS_NO_MORE)
    if point >= LANDED:
        _keep_load(turns, number, times_s[LOAD_BEGUN], counts[CHOSEN_BYTES], 0)
    _end_stall(turns)
    if _ready_at(queues, number) <= times_s[NOW]:
        return RUNS
    book(queues, rule, number)
    return CHOOSES


@inlined
def _make_room(queues: Queues, turns: Turns, number: int) -> bool:
    """Evict what is in the way of a queue, note that its layers are used; whether some must be loaded."""
    _evict_for(queues, turns, number)
    for place in range(turns.layer_begin[number], turns.layer_begin[number + 1]):
        layer = turns.layer[place]
        if turns.after[layer] >= 0:
            _unchain(turns, layer)
            _chain(turns, layer)
    return turns.missing_bytes[number] > 0


@inlined
def _end_stall(turns: Turns) -> None:
    """Note for how long the GPU stood still, if it did."""
    times_s, row = turns.times_s, turns.counts[STOOD]
    if times_s[NOW] > times_s[STALLED]:
        turns.stall_s[row, 0], turns.stall_s[row, 1] = times_s[STALLED], times_s[NOW]
        turns.counts[STOOD] += 1
    times_s[STALLED] = inf


@inlined
def _wanted(queues: Queues, turns: Turns, number: int) -> bool:
    """Whether requests are left that a load begun now would serve."""
    now, lacking_bytes = turns.times_s[NOW], turns.missing_bytes[number]
    _discard(queues, number, now, now + (_load_s(turns, number, lacking_bytes) if lacking_bytes else 0.0))
    return batch_size(queues, number, now) > 0


@inlined
def _in_the_way(queues: Queues, turns: Turns, number: int) -> bool:
    """Whether a load is under way and the queue needs its layers, the copy engine or more room than it leaves."""
    if not turns.counts[LOADING]:
        return False
    if turns.missing_bytes[number]:
        return True
    for place in range(turns.layer_begin[number], turns.layer_begin[number + 1]):
        if turns.loading[turns.layer[place]]:
            return True
    return _victims(queues, turns, number) < 0


@inlined
def _evict_for(queues: Queues, turns: Turns, number: int) -> None:
    """Evict what is in the way of a queue."""
    count = _victims(queues, turns, number)
    for place in range(count):
        _evict(turns, turns.victim[place])
    if count > 0:
        _note(turns)


@inlined
def _victims(queues: Queues, turns: Turns, number: int) -> int:
    """How many layers, in `turns.victim`, must go so that the queue can run; -1 where it cannot be."""
    taken_bytes = turns.rules[CONTEXT] + turns.counts[WEIGHTS]
    excess = taken_bytes + turns.missing_bytes[number] + turns.workspace_bytes[number] - turns.rules[LIMIT]
    if excess <= 0:
        return 0
    count, end = 0, len(turns.layer_bytes)
    ranks = _rank(queues, turns) if turns.rules[ORDER] == LOOKAHEAD else 0
    layer = turns.before[end] if turns.rules[ORDER] == MRU else turns.after[end]
    place = 0
    while excess > 0:
        if turns.rules[ORDER] == LOOKAHEAD:
            if place == ranks:
                break
            layer = turns.ranked[place]
            place += 1
        elif layer == end:
            break
        if not (turns.holds[number, layer] or turns.loading[layer]):
            turns.victim[count] = layer
            count += 1
            excess -= turns.layer_bytes[layer]
        layer = turns.before[layer] if turns.rules[ORDER] == MRU else turns.after[layer]
    return count if excess <= 0 else -1


@inlined
def _rank(queues: Queues, turns: Turns) -> int:
    """What is resident by its next use, the latest first, in `turns.ranked`; how many there are."""
    count, end = 0, len(turns.layer_bytes)
    layer = turns.after[end]
    while layer != end:
        _look_ahead(queues, turns, layer)
        place = count
        while place and _is_sooner(turns, turns.ranked[place - 1], layer):
            turns.ranked[place] = turns.ranked[place - 1]
            place -= 1
        turns.ranked[place] = layer
        count += 1
        layer = turns.after[layer]
    return count


@inlined
def _look_ahead(queues: Queues, turns: Turns, layer: int) -> None:
    """When a layer is needed next, and after how many turns."""
    count, first_s, first_turns = len(queues.head), inf, len(queues.head)
    for place in range(turns.user_begin[layer], turns.user_begin[layer + 1]):
        number = turns.user[place]
        use_s = max(_ready_at(queues, number), turns.times_s[NOW])
        away = (number - turns.counts[LAST] - 1) % count
        if use_s < first_s or (use_s == first_s and away < first_turns):
            first_s, first_turns = use_s, away
    turns.next_use_s[layer], turns.next_turns[layer] = first_s, first_turns


@inlined
def _is_sooner(turns: Turns, one: int, other: int) -> bool:
    if turns.next_use_s[one] != turns.next_use_s[other]:
        return turns.next_use_s[one] < turns.next_use_s[other]
    return turns.next_turns[one] < turns.next_turns[other]


@inlined
def _evict(turns: Turns, layer: int) -> None:
    """Free a layer at once."""
    for place in range(turns.user_begin[layer], turns.user_begin[layer + 1]):
        turns.missing_bytes[turns.user[place]] += turns.layer_bytes[layer]
    turns.counts[WEIGHTS] -= turns.layer_bytes[layer]
    _unchain(turns, layer)


@inlined
def _unchain(turns: Turns, layer: int) -> None:
    turns.after[turns.before[layer]] = turns.after[layer]
    turns.before[turns.after[layer]] = turns.before[layer]
    turns.after[layer] = -1


@inlined
def _chain(turns: Turns, layer: int) -> None:
    """Make a layer the most recently used one."""
    end = len(turns.layer_bytes)
    last = turns.before[end]
    turns.after[last] = turns.before[end] = layer
    turns.before[layer], turns.after[layer] = last, end


@inlined
def _note(turns: Turns) -> None:
    """Count the bytes in use from now on."""
    counts = turns.counts
    turns.note_s[counts[NOTED]] = turns.times_s[NOW]
    turns.note_bytes[counts[NOTED]] = turns.rules[CONTEXT] + counts[WEIGHTS] + counts[WORKSPACE]
    counts[NOTED] += 1


# Compiled: loads, before a batch and beside one


@inlined
def _transfer_s(turns: Turns, number: int, size_bytes: int) -> float:
    """When a transfer that begins now is over; where others share the link, what comes before its bytes."""
    begun_s = turns.times_s[NOW] + turns.t0_s[number]
    return begun_s if turns.rules[SHARES] else begun_s + size_bytes / turns.link_bytes_per_s[number]


@inlined
def _begin_load(turns: Turns, number: int) -> int:
    """Take the room at once; the bytes that come."""
    times_s, size_bytes = turns.times_s, 0
    times_s[LOAD], times_s[LOAD_K] = times_s[NOW], turns.beside_load[number]
    times_s[ARRIVED], times_s[OWED] = inf, 0.0
    for place in range(turns.layer_begin[number], turns.layer_begin[number + 1]):
        layer = turns.layer[place]
        if turns.after[layer] < 0:
            turns.loading[layer] = True
            turns.counts[LOADING] += 1
            size_bytes += turns.layer_bytes[layer]
            _chain(turns, layer)
            for user in range(turns.user_begin[layer], turns.user_begin[layer + 1]):
                turns.missing_bytes[turns.user[user]] -= turns.layer_bytes[layer]
    turns.counts[WEIGHTS] += size_bytes
    _note(turns)
    return size_bytes


@inlined
def _end_load(times_s: Floats) -> float:
    """The bytes are through; how much longer it takes."""
    times_s[ARRIVED] = times_s[NOW]
    return times_s[OWED] + _longer_s(times_s, times_s[NOW])


@inlined
def _longer_s(times_s: Floats, now: float) -> float:
    """By what the batch and the load that run have of each other so far."""
    shared_s = min(now, times_s[ARRIVED]) - max(times_s[BATCH], times_s[LOAD])
    return (max(times_s[BATCH_K], times_s[LOAD_K]) - 1) * max(0.0, shared_s)


@inlined
def _keep_load(turns: Turns, number: int, begun_s: float, size_bytes: int, ahead: int) -> None:
    row = turns.counts[LOADED]
    turns.load_s[row, 0], turns.load_s[row, 1] = begun_s, turns.times_s[NOW]
    turns.load_of[row, 0], turns.load_of[row, 1], turns.load_of[row, 2] = number, size_bytes, ahead
    turns.counts[LOADED] += 1
    turns.counts[LOADING] = 0
    turns.loading[:] = False
    turns.fresh[turns.model[number]] = True


@inlined
def _occupy(queues: Queues, turns: Turns, flights: Flights, rule: int, finish_s: float) -> None:
    """A batch begins: its workspace is taken; meanwhile the next model may be loaded."""
    times_s, counts, number = turns.times_s, turns.counts, turns.counts[CHOSEN]
    counts[WORKSPACE] = turns.workspace_bytes[number]
    counts[LAST] = number
    times_s[BATCH], times_s[BATCH_K], times_s[FINISH] = times_s[NOW], turns.beside_load[number], finish_s
    _note(turns)
    if counts[LOADING]:
        return
    times_s[STEP] = inf  # what waited to be loaded beside the last batch would find it done
    coming = _peek(queues, turns, rule, finish_s) if turns.rules[PREFETCH] else -1
    if coming >= 0 and turns.missing_bytes[coming]:
        counts[STAGE], counts[COMING] = BEGINNING, coming
        times_s[STEP], counts[STEP_PLACE] = times_s[NOW], next_place(flights) - AT_ONCE


@inlined
def _go_on(queues: Queues, turns: Turns, flights: Flights, gpu: int) -> float:
    """Load what is to come beside the batch that runs, as far as it goes without a wait; when it goes on."""
    times_s, counts = turns.times_s, turns.counts
    now, coming = times_s[NOW], counts[COMING]
    if counts[STAGE] == BEGINNING and queues.ready_s[coming] > now:
        counts[STAGE] = EXPECTING
        return now + (queues.ready_s[coming] - now)
    if counts[STAGE] <= EXPECTING:
        if now >= times_s[FINISH] or counts[LOADING] or not _make_room_beside(queues, turns):
            counts[STAGE] = IDLE
            return inf
        times_s[BESIDE_BEGUN] = now
        counts[COMING_BYTES] = _begin_load(turns, coming)
        counts[STAGE] = TAKING_OFF if turns.rules[SHARES] else LANDING
        return _transfer_s(turns, coming, counts[COMING_BYTES])
    if counts[STAGE] == TAKING_OFF:
        counts[STAGE] = LANDING
        take_off(flights, gpu, now, counts[COMING_BYTES], turns.bytes_per_s[coming])
        return inf
    if counts[STAGE] == LANDING:
        longer_s = _end_load(times_s)
        if longer_s:
            counts[STAGE] = HELD_UP
            return now + longer_s
    counts[STAGE] = IDLE
    _keep_load(turns, coming, times_s[BESIDE_BEGUN], counts[COMING_BYTES], 1)
    if counts[POINT] == BRINGS and times_s[WAKES] == inf:  # the loop waits for it
        times_s[WAKES], counts[WAKES_PLACE] = now, next_place(flights)
    return inf


@inlined
def _make_room_beside(queues: Queues, turns: Turns) -> bool:
    """Evict what is in the way of what is to come while a batch runs; False where both do not fit."""
    coming, running = turns.counts[COMING], turns.counts[LAST]
    count = max(0, _victims(queues, turns, coming))
    freed_bytes, going, missing_bytes = 0, 0, turns.missing_bytes[coming]
    for place in range(count):
        layer = turns.victim[place]
        if not turns.holds[running, layer]:
            freed_bytes += turns.layer_bytes[layer]
            going += 1
    used_bytes = turns.rules[CONTEXT] + turns.counts[WEIGHTS] + turns.counts[WORKSPACE]
    if used_bytes - freed_bytes + missing_bytes > turns.rules[LIMIT]:
        return False
    turns.leaving[:] = False
    for place in range(count):
        layer = turns.victim[place]
        if turns.holds[running, layer]:
            turns.leaving[layer] = True
        else:
            _evict(turns, layer)
    turns.counts[LEAVING] = count - going
    if going:
        _note(turns)
    return missing_bytes > 0
