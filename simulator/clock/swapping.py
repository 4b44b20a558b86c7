"""A GPU whose models take turns in its memory, as machine code: where nobody disturbs it.

The same batches, loads and stalls at the same times, to the last bit, as `simulator.clock.serving` gives on the drivers
`Ahead` and `DelayedAhead` of `simulator.clock.drivers`: these stay the reference. Names of functions are theirs.
"""

from collections.abc import Iterable
from itertools import chain
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.clock import compiled
from simulator.clock.compiled import (
    AGAIN,
    BEGINS,
    BY_DEADLINE,
    DONE,
    FOLLOW,
    IN_TURN,
    LACKS_FOLLOW,
    LACKS_WAKE,
    WAKE,
    Floats,
    Ints,
    Queues,
    _batch_size,
    _book,
    _discard,
    _leave,
    _ready_at,
    begun,
    keep_logs,
    lacks,
    next_delay_s,
    rule_of,
    supply,
)
from simulator.clock.records import Load, Stall
from simulator.clock.serving import Number, ServingGpu
from simulator.machine_code import by_one, forget_stale
from simulator.numba_parts import inlined, loop
from simulator.rules.queues import Delays, Stage
from simulator.rules.scheduling import SwapAware
from simulator.world.deployment import Eviction

forget_stale(Path(__file__), Path(str(compiled.__file__)))
Flags = NDArray[np.bool_]

RESIDENT_FIRST = 3
"""How queues take their turns, beside the rules of `simulator.clock.compiled`."""
ORDERS = {Eviction.LRU: 0, Eviction.MRU: 1, Eviction.LOOKAHEAD: 2}
"""Rules of eviction that are compiled."""
MRU, LOOKAHEAD = 1, 2
NOTES, LOADS = 7, 2
"""Changes of memory and loads that one request can bring at most: a load before its batch and one beside it."""

NOW, STEP, FINISH, STALLED, BATCH, BATCH_K, LOAD, LOAD_K, ARRIVED, OWED, LOAD_BEGUN, BESIDE_BEGUN = range(12)
"""Times: now; when what goes on beside goes on; when its batch ends; since when the GPU stands still; those of
`simulator.rules.overlap.Overlap`; when a load before a batch and one beside it began."""
TURN, LAST, STAGE, COMING, RUNNING, COMING_BYTES, LOADING, LEAVING, WEIGHTS, WORKSPACE, NOTED, LOADED, STOOD = range(13)
CHOSEN = 13
"""Numbers: who had the last turn, and ran last; how far what goes on beside is, for whom, and beside whom; layers under
way and to leave; bytes in use; rows of the logs; whose weights are in for a batch that waits for delays, or -1."""
IDLE, BEGINNING, EXPECTING, LOADING_BESIDE, HELD_UP = range(5)
"""How far what goes on beside a batch is."""


class Turns(NamedTuple):
    """What is in the memory of a GPU, and what became of it."""

    limit_bytes: int
    context_bytes: int
    order: int
    prefetch: bool
    most_s: float
    """What loading and running never exceed together."""
    layer_begin: Ints
    """Where a queue's own begin in `layer`, and one entry more."""
    layer: Ints
    user_begin: Ints
    """Where a layer's own begin in `user`, and one entry more."""
    user: Ints
    layer_bytes: Ints
    holds: Flags
    """By queue and layer."""
    workspace_bytes: Ints
    """By queue, as all that follow."""
    t0_s: Floats
    bytes_per_s: Floats
    link_bytes_per_s: Floats
    """The same where the link is no slower."""
    after_load: Floats
    beside_load: Floats
    model: Ints
    missing_bytes: Ints
    fresh: Flags
    """By model."""
    before: Ints
    """By layer, the least recently used first: a chain, whose ends are held by one entry more."""
    after: Ints
    """The same; -1 where it is not resident."""
    loading: Flags
    """By layer."""
    leaving: Flags
    victim: Ints
    """Room for layers that must go."""
    ranked: Ints
    next_use_s: Floats
    next_turns: Ints
    times_s: Floats
    counts: Ints
    note_s: Floats
    note_bytes: Ints
    load_s: Floats
    """Two columns: begun and ended."""
    load_of: Ints
    """Three columns: queue, bytes, and whether it was beside a batch."""
    stall_s: Floats


def compiles(gpu: ServingGpu) -> bool:
    """Whether its rules and layers are such as are compiled: each layer once in a model, and as large in all."""
    stages = [queue.stage for queue in gpu.queues]
    once = all(len({layer.key for layer in stage.layers}) == len(stage.layers) for stage in stages)
    sizes = {(layer.key, layer.weight_bytes) for stage in stages for layer in stage.layers}
    alike = len({key for key, _ in sizes}) == len(sizes) and all(size_bytes > 0 for _, size_bytes in sizes)
    return once and alike and gpu.swap.eviction in ORDERS


def serve(gpu: ServingGpu, link_bytes_per_s: float, delays: Delays | None = None) -> None:
    """Serve until the horizon."""
    queues = begun(gpu, delays)
    turns = turns_of(gpu, link_bytes_per_s, sum(len(queue.times) for queue in gpu.queues))
    rule, lacking = rule_in_turns(gpu), BEGINS
    begin(queues, turns, rule)
    while lacking != DONE:
        lacking = serve_on(queues, turns, rule, gpu.horizon_s)
        supply(queues, gpu.noise, delays, lacking)
    keep_logs(gpu, queues)
    _keep_turns(gpu, turns)


def rule_in_turns(gpu: ServingGpu) -> int:
    """How its queues take their turns."""
    return RESIDENT_FIRST if isinstance(gpu.agenda, SwapAware) else rule_of(gpu)


def turns_of(gpu: ServingGpu, link_bytes_per_s: float, requests: int) -> Turns:
    """A GPU with nothing in its memory yet, and room for what so many requests bring about."""
    stages = [queue.stage for queue in gpu.queues]
    layers = {layer.key: layer.weight_bytes for stage in stages for layer in stage.layers}
    numbers = {key: number for number, key in enumerate(layers)}
    held = [[numbers[layer.key] for layer in stage.layers] for stage in stages]
    models = list(dict.fromkeys(stage.model for stage in stages))
    holds = np.zeros((len(stages), len(layers)), dtype=np.bool_)
    for own, row in zip(held, holds, strict=True):
        row[own] = True
    ends = np.full(len(layers) + 1, -1)
    ends[-1] = len(layers)
    times_s = np.zeros(12)
    times_s[[STEP, STALLED, BATCH, LOAD, ARRIVED]] = inf
    times_s[[BATCH_K, LOAD_K]] = 1.0
    counts = np.zeros(14, dtype=np.int64)
    counts[[TURN, LAST]] = len(stages) - 1
    return Turns(
        limit_bytes=gpu.memory.limit_bytes,
        context_bytes=gpu.memory.context_bytes,
        order=ORDERS[gpu.swap.eviction],
        prefetch=gpu.swap.prefetch,
        most_s=gpu.most_s(),
        layer_begin=_begins(held),
        layer=_ints(chain.from_iterable(held)),
        user_begin=np.cumsum([0, *holds.sum(axis=0)], dtype=np.int64),
        user=np.ascontiguousarray(np.nonzero(holds.T)[1]),  # machine code is made for such
        layer_bytes=_ints(layers.values()),
        holds=holds,
        workspace_bytes=_ints(stage.workspace_bytes for stage in stages),
        t0_s=_floats(stage.load_t0_s for stage in stages),
        bytes_per_s=_floats(stage.load_bytes_per_s for stage in stages),
        link_bytes_per_s=_floats(min(stage.load_bytes_per_s, link_bytes_per_s) for stage in stages),
        after_load=_floats(stage.after_load for stage in stages),
        beside_load=_floats(stage.beside_load for stage in stages),
        model=_ints(models.index(stage.model) for stage in stages),
        missing_bytes=_ints(gpu.missing_bytes),
        fresh=np.zeros(len(models), dtype=np.bool_),
        before=ends.copy(),
        after=ends,
        loading=np.zeros(len(layers), dtype=np.bool_),
        leaving=np.zeros(len(layers), dtype=np.bool_),
        victim=np.zeros(len(layers), dtype=np.int64),
        ranked=np.zeros(len(layers), dtype=np.int64),
        next_use_s=np.zeros(len(layers)),
        next_turns=np.zeros(len(layers), dtype=np.int64),
        times_s=times_s,
        counts=counts,
        **logs_for(requests),
    )


def logs_for(requests: int) -> dict[str, Any]:
    """Room for what happens in memory while so many requests come."""
    return {
        "note_s": np.empty(NOTES * (requests + 1)),
        "note_bytes": np.empty(NOTES * (requests + 1), dtype=np.int64),
        "load_s": np.empty((LOADS * (requests + 1), 2)),
        "load_of": np.empty((LOADS * (requests + 1), 3), dtype=np.int64),
        "stall_s": np.empty((LOADS * (requests + 1), 2)),
    }


def _begins(parts: Iterable[list[int]]) -> Ints:
    return np.cumsum([0, *map(len, parts)], dtype=np.int64)


def _ints(values: Iterable[int]) -> Ints:
    return np.array(list(values), dtype=np.int64)


def _floats(values: Iterable[float]) -> Floats:
    return np.array(list(values), dtype=np.float64)


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


# Compiled: the loop


@loop
def begin(queues: Queues, turns: Turns, rule: int) -> None:
    """Empty the memory, for another world."""
    times_s, counts = turns.times_s, turns.counts
    for queue in range(len(queues.head)):
        turns.missing_bytes[queue] = 0
        for place in range(turns.layer_begin[queue], turns.layer_begin[queue + 1]):
            turns.missing_bytes[queue] += turns.layer_bytes[turns.layer[place]]
        _book(queues, min(rule, BY_DEADLINE), queue)
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
    counts[CHOSEN] = -1


@loop
def figures(turns: Turns, horizon_s: float) -> tuple[float, int, int]:
    """How long the GPU stood still for weights, how often these were loaded, and the most bytes in use."""
    stalled_s = 0.0
    for row in range(turns.counts[STOOD]):
        stalled_s += min(turns.stall_s[row, 1], horizon_s) - turns.stall_s[row, 0]
    if horizon_s > turns.times_s[STALLED]:
        stalled_s += horizon_s - turns.times_s[STALLED]
    most_bytes = 0
    for row in range(turns.counts[NOTED]):
        most_bytes = max(most_bytes, turns.note_bytes[row])
    return stalled_s, turns.counts[LOADED], most_bytes


@by_one
@loop
def serve_on(queues: Queues, turns: Turns, rule: int, horizon_s: float) -> int:
    """Serve until the horizon, or until delays or the factors of a queue are used up: which, or that queue."""
    times_s, counts = turns.times_s, turns.counts
    while times_s[NOW] < horizon_s:
        number = counts[CHOSEN] if counts[CHOSEN] >= 0 else _choose(queues, turns, rule, horizon_s)
        if number == AGAIN:
            continue
        if number < 0:
            return number
        counts[CHOSEN] = -1
        now = times_s[NOW]
        _discard(queues, number, now, now)
        size = _batch_size(queues, number, now)
        if not size:
            _book(queues, min(rule, BY_DEADLINE), number)
            continue
        if lacks(queues.waits, FOLLOW):
            counts[CHOSEN] = number
            return LACKS_FOLLOW
        takes_s = _takes_s(queues, turns, number, size)
        finish_s = now + takes_s
        until_s = now + (takes_s + next_delay_s(queues.waits, FOLLOW))
        _leave(queues, number, now, finish_s, size)
        _book(queues, min(rule, BY_DEADLINE), number)
        _occupy(queues, turns, rule, number, finish_s)
        if not (_wait(queues, turns, horizon_s, until_s) and _end_batch(queues, turns, horizon_s, number, finish_s)):
            return DONE
        if queues.used[number] == queues.stock[number]:
            return number
    return DONE


@inlined
def _choose(queues: Queues, turns: Turns, rule: int, horizon_s: float) -> int:
    """The queue whose batch may begin now that its weights are in."""
    number = _first(queues, turns, rule)
    if number < 0:
        return _idle(queues, turns, horizon_s)
    turns.counts[TURN] = number
    if not _bring_in(queues, turns, horizon_s, number):
        return DONE
    if not _ready_at(queues, number) <= turns.times_s[NOW] < horizon_s:
        _book(queues, min(rule, BY_DEADLINE), number)
        return AGAIN
    return number


@inlined
def _idle(queues: Queues, turns: Turns, horizon_s: float) -> int:
    """Wait until a queue is ready, and for whoever serves to wake."""
    now = turns.times_s[NOW]
    if lacks(queues.waits, WAKE):
        return LACKS_WAKE
    until_s = _next_ready_s(queues) + next_delay_s(queues.waits, WAKE)
    return AGAIN if _wait(queues, turns, horizon_s, now + (until_s - now)) else DONE


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


@inlined
def _wait(queues: Queues, turns: Turns, horizon_s: float, until_s: float) -> bool:
    """Wait until then, while what goes on beside comes as far as it will; False where that is past the horizon."""
    times_s = turns.times_s
    while times_s[STEP] <= until_s and times_s[STEP] < horizon_s:
        times_s[NOW] = times_s[STEP]
        times_s[STEP] = _go_on(queues, turns)
    if until_s >= horizon_s:
        return False
    times_s[NOW] = until_s
    return True


@inlined
def _end_batch(queues: Queues, turns: Turns, horizon_s: float, number: int, finish_s: float) -> bool:
    """A batch is done, or goes on for as long as a load beside it held it up; False where the horizon comes first."""
    times_s = turns.times_s
    longer_s = _longer_s(times_s, finish_s)
    times_s[OWED] += longer_s
    times_s[BATCH] = inf
    if longer_s:
        queues.log_finish_s[queues.begin[number] + queues.rows[number] - 1] += longer_s
        if not _wait(queues, turns, horizon_s, times_s[NOW] + longer_s):
            return False
    turns.counts[WORKSPACE] = 0
    if turns.counts[LEAVING]:
        for layer in range(len(turns.leaving)):
            if turns.leaving[layer]:
                _evict(turns, layer)
                turns.leaving[layer] = False
        turns.counts[LEAVING] = 0
        _note(turns)
    _note(turns)
    return True


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
        if queues.ready_s[number] > now or deadline_s <= now or deadline_s >= after_s + turns.most_s:
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
    return queues.service_s[number, max(1, _batch_size(queues, number, now))]


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
def _bring_in(queues: Queues, turns: Turns, horizon_s: float, number: int) -> bool:
    """Wait for or load what a queue lacks, and make room for its workspace; False where the horizon comes first."""
    times_s = turns.times_s
    wanted = _wanted(queues, turns, horizon_s, number)
    while wanted and _in_the_way(queues, turns, number):
        times_s[STALLED] = min(times_s[STALLED], times_s[NOW])
        if not _wait(queues, turns, horizon_s, times_s[STEP]):
            return False
        wanted = _wanted(queues, turns, horizon_s, number)
    if wanted:
        _evict_for(queues, turns, number)
        lacks = turns.missing_bytes[number] > 0
        for place in range(turns.layer_begin[number], turns.layer_begin[number + 1]):
            layer = turns.layer[place]
            if turns.after[layer] >= 0:
                _unchain(turns, layer)
                _chain(turns, layer)
        if lacks and not _load(queues, turns, horizon_s, number):
            return False
    if times_s[NOW] > times_s[STALLED]:
        turns.stall_s[turns.counts[STOOD], 0] = times_s[STALLED]
        turns.stall_s[turns.counts[STOOD], 1] = times_s[NOW]
        turns.counts[STOOD] += 1
    times_s[STALLED] = inf
    return True


@inlined
def _wanted(queues: Queues, turns: Turns, horizon_s: float, number: int) -> bool:
    """Whether requests are left that a load begun now would serve."""
    now, lacking_bytes = turns.times_s[NOW], turns.missing_bytes[number]
    if now >= horizon_s:
        return False
    _discard(queues, number, now, now + (_load_s(turns, number, lacking_bytes) if lacking_bytes else 0.0))
    return _batch_size(queues, number, now) > 0


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
    taken_bytes = turns.context_bytes + turns.counts[WEIGHTS]
    excess = taken_bytes + turns.missing_bytes[number] + turns.workspace_bytes[number] - turns.limit_bytes
    if excess <= 0:
        return 0
    count, end = 0, len(turns.layer_bytes)
    ranks = _rank(queues, turns) if turns.order == LOOKAHEAD else 0
    layer = turns.before[end] if turns.order == MRU else turns.after[end]
    place = 0
    while excess > 0:
        if turns.order == LOOKAHEAD:
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
        layer = turns.before[layer] if turns.order == MRU else turns.after[layer]
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
    turns.note_bytes[counts[NOTED]] = turns.context_bytes + counts[WEIGHTS] + counts[WORKSPACE]
    counts[NOTED] += 1


# Compiled: loads, before a batch and beside one


@inlined
def _load(queues: Queues, turns: Turns, horizon_s: float, number: int) -> bool:
    """Load what a queue lacks; False where the horizon comes first."""
    times_s = turns.times_s
    times_s[STALLED] = min(times_s[STALLED], times_s[NOW])
    times_s[LOAD_BEGUN] = times_s[NOW]
    size_bytes = _begin_load(turns, number)
    took_s = size_bytes / turns.link_bytes_per_s[number]
    if not _wait(queues, turns, horizon_s, times_s[NOW] + turns.t0_s[number] + took_s):
        return False
    longer_s = _end_load(times_s)
    if longer_s and not _wait(queues, turns, horizon_s, times_s[NOW] + longer_s):
        return False
    _keep_load(turns, number, times_s[LOAD_BEGUN], size_bytes, 0)
    return True


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
def _occupy(queues: Queues, turns: Turns, rule: int, number: int, finish_s: float) -> None:
    """A batch begins: its workspace is taken; meanwhile the next model may be loaded."""
    times_s, counts = turns.times_s, turns.counts
    counts[WORKSPACE] = turns.workspace_bytes[number]
    counts[LAST] = number
    times_s[BATCH], times_s[BATCH_K] = times_s[NOW], turns.beside_load[number]
    _note(turns)
    if not turns.prefetch or counts[LOADING]:
        return
    coming = _peek(queues, turns, rule, finish_s)
    if coming >= 0 and turns.missing_bytes[coming]:
        counts[STAGE], counts[COMING], counts[RUNNING] = BEGINNING, coming, number
        times_s[STEP], times_s[FINISH] = times_s[NOW], finish_s


@inlined
def _go_on(queues: Queues, turns: Turns) -> float:
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
        counts[STAGE] = LOADING_BESIDE
        return now + turns.t0_s[coming] + counts[COMING_BYTES] / turns.link_bytes_per_s[coming]
    if counts[STAGE] == LOADING_BESIDE:
        longer_s = _end_load(times_s)
        if longer_s:
            counts[STAGE] = HELD_UP
            return now + longer_s
    counts[STAGE] = IDLE
    _keep_load(turns, coming, times_s[BESIDE_BEGUN], counts[COMING_BYTES], 1)
    return inf


@inlined
def _make_room_beside(queues: Queues, turns: Turns) -> bool:
    """Evict what is in the way of what is to come while a batch runs; False where both do not fit."""
    coming, running = turns.counts[COMING], turns.counts[RUNNING]
    count = max(0, _victims(queues, turns, coming))
    freed_bytes, going, missing_bytes = 0, 0, turns.missing_bytes[coming]
    for place in range(count):
        layer = turns.victim[place]
        if not turns.holds[running, layer]:
            freed_bytes += turns.layer_bytes[layer]
            going += 1
    used_bytes = turns.context_bytes + turns.counts[WEIGHTS] + turns.counts[WORKSPACE]
    if used_bytes - freed_bytes + missing_bytes > turns.limit_bytes:
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
