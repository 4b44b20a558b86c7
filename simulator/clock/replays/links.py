"""GPUs whose models take turns in memory, as machine code has them: those that load over one link, and to which these
hand batches."""

from collections.abc import Iterable, Sequence
from itertools import chain
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.clock.compiled import Floats, Ints
from simulator.clock.serving import ServingGpu
from simulator.numba_parts import inlined, inner
from simulator.world.deployment import Eviction

Flags = NDArray[np.bool_]

ORDERS = {Eviction.LRU: 0, Eviction.MRU: 1, Eviction.LOOKAHEAD: 2}
"""Rules of eviction that are compiled."""
MRU, LOOKAHEAD = 1, 2
NOTES, LOADS = 7, 2
"""Changes of memory and loads that one request can bring at most: a load before its batch and one beside it."""

LIMIT, CONTEXT, ORDER, PREFETCH, SHARES, SWAPS, HEARS = range(7)
"""Rules: bytes of memory, and of them what the context takes; the order of eviction; whether it waits as on SimPy's
clock, because others share the link or hand it batches; whether its models take turns, and others wake it."""
NOW, WAKES, STEP, FINISH, STALLED, BATCH, BATCH_K, LOAD, LOAD_K, ARRIVED, OWED, LOAD_BEGUN, BESIDE_BEGUN = range(13)
"""Times: now; when the loop goes on; when what goes on beside does; when its batch ends; since when the GPU stands
still; those of `simulator.rules.overlap.Overlap`; when a load before a batch and one beside it began."""
TURN, LAST, CHOSEN, POINT, WAKES_PLACE, STEP_PLACE, STAGE, COMING, COMING_BYTES, CHOSEN_BYTES = range(10)
LOADING, LEAVING, WEIGHTS, WORKSPACE, NOTED, LOADED, STOOD = range(10, 17)
"""Numbers: who had the last turn, ran last, and is to run; how far the loop is, and which place among all waits of the
link that it and what goes on beside have; how far that is, and for whom; bytes that come for either; layers under way
and to leave; bytes in use; rows of the logs."""
IDLE, BEGINNING, EXPECTING, TAKING_OFF, LANDING, HELD_UP = range(6)
"""How far what goes on beside a batch is."""
CAPACITY, SEEN, LANDS = range(3)
"""Of a link: bytes a second; when its flights were last advanced; when the first of them ends."""
PLACE, FLYING, FIRST, LANDS_PLACE, OTHER = range(5)
"""Numbers: the last place that was given; flights; whose ends first, and the place of that; the GPU that goes on next
after the one that does now, or -1."""
SLEEPS = 8
"""How far the loop of a GPU is that others may wake, after all that `simulator.clock.swapping` names."""
AT_ONCE = 1 << 62
"""Places of what SimPy calls urgent are so much lower."""


class Turns(NamedTuple):
    """What is in the memory of a GPU, and what became of it: one row of what is kept of all that are served
    together."""

    rules: Ints
    most_s: Floats
    """One: what loading and running never exceed together."""
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


class Flights(NamedTuple):
    """Loads under way on a link, as of `simulator.clock.link.Link`, one of each GPU at most; and whose wait is next.

    Waits that end at one instant end in the order of their places: the order in which they began, as on SimPy's clock.
    """

    times_s: Floats
    counts: Ints
    gpu: Ints
    """In the order in which flights began."""
    by_need: Ints
    left_bytes: Floats
    """By GPU, as all that follow."""
    most_bytes_per_s: Floats
    rate: Floats
    next_s: Floats
    """When it goes on."""
    next_place: Ints
    first: Ints
    """Where its queues begin and end."""
    end: Ints


def compiles(gpu: ServingGpu) -> bool:
    """Whether its rules and layers are such as are compiled: each layer once in a model, and as large in all. Where all
    stay in memory, it does not matter which these are."""
    if not gpu.swaps:
        return True
    stages = [queue.stage for queue in gpu.queues]
    once = all(len({layer.key for layer in stage.layers}) == len(stage.layers) for stage in stages)
    sizes = {(layer.key, layer.weight_bytes) for stage in stages for layer in stage.layers}
    alike = len({key for key, _ in sizes}) == len(sizes) and all(size_bytes > 0 for _, size_bytes in sizes)
    return once and alike and gpu.swap.eviction in ORDERS


def turns_of(gpus: Sequence[ServingGpu], link_bytes_per_s: float, room: dict[str, Any]) -> Turns:
    """GPUs with nothing in their memory yet, and room for what happens there."""
    queues, layers = max(len(gpu.queues) for gpu in gpus), max(len(gpu.users) for gpu in gpus)
    rows = [_row(gpu, link_bytes_per_s, queues, layers) for gpu in gpus]
    users = max(len(row["user"]) for row in rows)
    for row in rows:
        row["layer"], row["user"] = _wide(row["layer"], users), _wide(row["user"], users)
    columns = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    return Turns(**columns, **{name: column[: len(gpus)] for name, column in room.items()})


def _row(gpu: ServingGpu, link_bytes_per_s: float, queues: int, layers: int) -> dict[str, Any]:
    """One GPU, as wide as one with so many queues and layers."""
    stages = [queue.stage for queue in gpu.queues]
    sizes = {layer.key: layer.weight_bytes for stage in stages for layer in stage.layers}
    numbers = {key: number for number, key in enumerate(sizes)}
    held = [[numbers[layer.key] for layer in stage.layers] for stage in stages]
    models = list(dict.fromkeys(stage.model for stage in stages))
    holds = np.zeros((queues, layers), dtype=np.bool_)
    for own, row in zip(held, holds, strict=False):
        row[own] = True
    memory, waits = gpu.memory, (gpu.clocked, gpu.swaps, not gpu.arrivals_known)
    rules = memory.limit_bytes, memory.context_bytes, ORDERS.get(gpu.swap.eviction, 0), gpu.swap.prefetch, *waits
    by_queue = {
        "workspace_bytes": _ints(stage.workspace_bytes for stage in stages),
        "t0_s": _floats(stage.load_t0_s for stage in stages),
        "bytes_per_s": _floats(stage.load_bytes_per_s for stage in stages),
        "link_bytes_per_s": _floats(min(stage.load_bytes_per_s, link_bytes_per_s) for stage in stages),
        "after_load": _floats(stage.after_load for stage in stages),
        "beside_load": _floats(stage.beside_load for stage in stages),
        "model": _ints(models.index(stage.model) for stage in stages),
    }
    return {
        "rules": _ints(rules),
        "most_s": np.array([gpu.most_s()]),
        "layer_begin": _wide(_begins(held), queues + 1),
        "layer": _ints(chain.from_iterable(held)),
        "user_begin": _wide(np.cumsum([0, *holds.sum(axis=0)], dtype=np.int64), layers + 1),
        "user": np.nonzero(holds.T)[1],
        "layer_bytes": _wide(_ints(sizes.values()), layers),
        "holds": holds,
        **{name: _wide(column, queues) for name, column in by_queue.items()},
        "missing_bytes": np.zeros(queues, dtype=np.int64),
        "fresh": np.zeros(queues, dtype=np.bool_),
        "before": np.zeros(layers + 1, dtype=np.int64),
        "after": np.zeros(layers + 1, dtype=np.int64),
        "loading": np.zeros(layers, dtype=np.bool_),
        "leaving": np.zeros(layers, dtype=np.bool_),
        "victim": np.zeros(layers, dtype=np.int64),
        "ranked": np.zeros(layers, dtype=np.int64),
        "next_use_s": np.zeros(layers),
        "next_turns": np.zeros(layers, dtype=np.int64),
        "times_s": np.zeros(BESIDE_BEGUN + 1),
        "counts": np.zeros(STOOD + 1, dtype=np.int64),
    }


def _wide(column: NDArray[Any], width: int) -> NDArray[Any]:
    """As wide as that of any GPU that is served with it."""
    wide = np.zeros(width, dtype=column.dtype)
    wide[: len(column)] = column
    return wide


def flights_of(link_bytes_per_s: float, first: Sequence[int], end: Sequence[int]) -> Flights:
    """A link with nothing under way, between GPUs with these queues."""
    count = len(first)
    return Flights(
        times_s=np.array([link_bytes_per_s, 0.0, inf]),
        counts=np.zeros(OTHER + 1, dtype=np.int64),
        gpu=np.zeros(count, dtype=np.int64),
        by_need=np.zeros(count, dtype=np.int64),
        left_bytes=np.zeros(count),
        most_bytes_per_s=np.zeros(count),
        rate=np.zeros(count),
        next_s=np.zeros(count),
        next_place=np.zeros(count, dtype=np.int64),
        first=_ints(first),
        end=_ints(end),
    )


def logs_for(gpus: int, requests: int) -> dict[str, Any]:
    """Room for what happens in the memory of so many GPUs while so many requests come to each."""
    return {
        "note_s": np.empty((gpus, NOTES * (requests + 1))),
        "note_bytes": np.empty((gpus, NOTES * (requests + 1)), dtype=np.int64),
        "load_s": np.empty((gpus, LOADS * (requests + 1), 2)),
        "load_of": np.empty((gpus, LOADS * (requests + 1), 3), dtype=np.int64),
        "stall_s": np.empty((gpus, LOADS * (requests + 1), 2)),
    }


def _begins(parts: Iterable[list[int]]) -> Ints:
    return np.cumsum([0, *map(len, parts)], dtype=np.int64)


def _ints(values: Iterable[int]) -> Ints:
    return np.array(list(values), dtype=np.int64)


def _floats(values: Iterable[float]) -> Floats:
    return np.array(list(values), dtype=np.float64)


# Compiled: whose wait ends first


@inlined
def first_two(flights: Flights) -> tuple[int, int]:
    """The GPU whose wait ends first, and the next one; -1 where there is none."""
    first, second = 0, -1
    for gpu in range(1, len(flights.next_s)):
        if is_before(flights, gpu, flights.next_s[first], flights.next_place[first]):
            first, second = gpu, first
        elif second < 0 or is_before(flights, gpu, flights.next_s[second], flights.next_place[second]):
            second = gpu
    return first, second


@inlined
def is_before(flights: Flights, gpu: int, at_s: float, place: int) -> bool:
    """The next wait of a GPU ends before one that ends then and has this place."""
    next_s = flights.next_s[gpu]
    return bool(next_s < at_s or (next_s == at_s and flights.next_place[gpu] < place))


@inlined
def lands_before(flights: Flights, at_s: float, place: int) -> bool:
    """The same of the first flight that ends."""
    lands_s = flights.times_s[LANDS]
    return bool(lands_s < at_s or (lands_s == at_s and flights.counts[LANDS_PLACE] < place))


@inlined
def next_place(flights: Flights) -> int:
    """That of a wait that begins."""
    place: int = flights.counts[PLACE] + 1
    flights.counts[PLACE] = place
    return place


# Compiled: flights on a link that GPUs share


@inner
def take_off(flights: Flights, gpu: int, now: float, size_bytes: int, most_bytes_per_s: float) -> None:
    """Start moving bytes to a GPU."""
    counts = flights.counts
    _advance(flights, now)
    flights.left_bytes[gpu], flights.most_bytes_per_s[gpu] = size_bytes, most_bytes_per_s
    flights.gpu[counts[FLYING]] = gpu
    counts[FLYING] += 1
    _share(flights, now)


@inlined
def land(turns: Turns, flights: Flights) -> None:
    """The first flight ends, and whoever waits for it goes on."""
    counts, now, gpu = flights.counts, flights.times_s[LANDS], flights.counts[FIRST]
    _advance(flights, now)
    kept = 0
    for place in range(counts[FLYING]):
        if flights.gpu[place] != gpu:
            flights.gpu[kept] = flights.gpu[place]
            kept += 1
    counts[FLYING] = kept
    place = next_place(flights)
    if turns.counts[gpu, STAGE] == LANDING:
        turns.times_s[gpu, STEP], turns.counts[gpu, STEP_PLACE] = now, place
    else:
        turns.times_s[gpu, WAKES], turns.counts[gpu, WAKES_PLACE] = now, place
    if now < flights.next_s[gpu]:
        flights.next_s[gpu], flights.next_place[gpu] = now, place
    _share(flights, now)


@inlined
def _advance(flights: Flights, now: float) -> None:
    passed_s = now - flights.times_s[SEEN]
    flights.times_s[SEEN] = now
    for place in range(flights.counts[FLYING]):
        gpu = flights.gpu[place]
        flights.left_bytes[gpu] -= flights.rate[gpu] * passed_s


@inner
def _share(flights: Flights, now: float) -> None:
    """Share the link fairly, and find which flight ends first."""
    times_s, counts, flying = flights.times_s, flights.counts, flights.counts[FLYING]
    times_s[LANDS] = inf
    _find_rates(flights)
    first_s = inf
    for place in range(flying):
        gpu = flights.gpu[place]
        left_s = flights.left_bytes[gpu] / flights.rate[gpu]
        if left_s < first_s:
            first_s, counts[FIRST] = left_s, gpu
    if flying:
        times_s[LANDS], counts[LANDS_PLACE] = now + max(0.0, first_s), next_place(flights)


@inlined
def _find_rates(flights: Flights) -> None:
    """As `simulator.clock.link.fair_rates`."""
    most, by_need, flying = flights.most_bytes_per_s, flights.by_need, flights.counts[FLYING]
    for count in range(flying):
        gpu, place = flights.gpu[count], count
        while place and most[by_need[place - 1]] > most[gpu]:
            by_need[place] = by_need[place - 1]
            place -= 1
        by_need[place] = gpu
    left = flights.times_s[CAPACITY]
    for place in range(flying):
        gpu = by_need[place]
        flights.rate[gpu] = min(most[gpu], left / (flying - place))
        left -= flights.rate[gpu]
