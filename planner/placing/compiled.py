"""Strains as machine code: the duty cycles of `planner.placing.duty`, the same to the last bit, for whole models."""

from math import ceil, inf, sqrt
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from planner.placing.duty import LOST_WEIGHT, USUAL_ROUNDS
from simulator.machine_code import forget_stale

forget_stale(Path(__file__))
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class ModelColumns(NamedTuple):
    """Of each model on each kind of GPU; see `planner.placing.strain.Strains`."""

    memory_bytes: Floats
    needed_rps: Floats
    least_work: Floats
    context_bytes: Floats
    weight_bytes: Floats
    spread: Floats
    misses: Floats
    gap_s: Floats
    delay_s: Floats
    limit_s: Floats
    tightness: Floats
    load_s: Floats
    longest: Ints
    run_s: Floats
    workspace: Floats
    """By model and batch size, from 1 on."""


class Here(NamedTuple):
    """What stands on one GPU, an entry for each model; and room to reckon in."""

    model: Ints
    rate_rps: Floats
    room_bytes: Floats
    load_s: Floats
    batch_s: Floats
    often: Floats
    order: Ints
    sizes: Ints


@njit(cache=True)
def burdens(
    known: ModelColumns, headroom: float, swap: bool, prefetch: bool, begin: Ints, model: Ints, share: Floats
) -> tuple[Floats, Floats, Floats]:
    """Work, strain and memory held of GPUs, each with the models from its `begin` to the next."""
    count = len(begin) - 1
    work, strain, held = np.zeros(count), np.full(count, inf), np.zeros(count)
    widest = 0
    for row in range(count):
        widest = max(widest, begin[row + 1] - begin[row])
    room = Here(
        np.zeros(widest, np.int64),
        np.zeros(widest),
        np.zeros(widest),
        np.zeros(widest),
        np.zeros(widest),
        np.zeros(widest),
        np.zeros(widest, np.int64),
        np.zeros(widest, np.int64),
    )
    for row in range(count):
        first, size = begin[row], begin[row + 1] - begin[row]
        here = _first_of(room, size)
        context = together = largest = most = 0.0
        for i in range(size):
            m = model[first + i]
            here.model[i] = m
            here.rate_rps[i] = known.needed_rps[m] * share[first + i]
            work[row] += share[first + i] * known.least_work[m]
            context = max(context, known.context_bytes[m])
            together += known.weight_bytes[m]
            most = max(most, known.workspace[m, 0])
            largest = max(largest, known.weight_bytes[m] + known.workspace[m, 0])
        spare = known.memory_bytes[model[first]] - context
        here.room_bytes[:] = spare - together
        here.load_s[:] = 0.0
        strain[row] = _strain(known, here, headroom, prefetch)
        held[row] = context + together + most
        if swap:
            for i in range(size):
                here.room_bytes[i] = spare - known.weight_bytes[here.model[i]]
                here.load_s[i] = known.load_s[here.model[i]]
            strain[row] = min(strain[row], _strain(known, here, headroom, prefetch))
            held[row] = context + largest
    return work, strain, held


@njit(cache=True)
def _first_of(room: Here, size: int) -> Here:
    return Here(
        room.model[:size],
        room.rate_rps[:size],
        room.room_bytes[:size],
        room.load_s[:size],
        room.batch_s[:size],
        room.often[:size],
        room.order[:size],
        room.sizes[:size],
    )


@njit(cache=True)
def _strain(known: ModelColumns, here: Here, headroom: float, prefetch: bool) -> float:
    """The highest of any model; infinite where memory is short."""
    for i in range(len(here.model)):
        if not _cap(known, here, i):
            return inf
    longest_s = _longest(known, here, headroom, prefetch)
    usual_s = _usual(known, here, longest_s, headroom, prefetch)
    _order(here, usual_s)
    most = -inf
    for i in range(len(here.model)):
        m, rate_rps = here.model[i], here.rate_rps[i]
        mean, cap = rate_rps * longest_s, _cap(known, here, i)
        gathered = max(1, ceil(mean + known.spread[m] * sqrt(mean) - 1e-9))
        rounds_left = ceil(gathered / cap) - 1
        own_s = known.delay_s[m] + rounds_left * usual_s + here.batch_s[i]
        crowding = rate_rps * usual_s / cap * known.tightness[m]
        crowding = crowding + LOST_WEIGHT * max(0.0, crowding * (1 - headroom) - 1)
        wait_s = _wait(known, here, i, prefetch) / (1 - headroom)
        most = max(most, (wait_s + own_s) / known.limit_s[m], crowding)
    return most


@njit(cache=True)
def _cap(known: ModelColumns, here: Here, i: int) -> int:
    """The largest batch that memory allows."""
    m = here.model[i]
    for size in range(known.longest[m], 0, -1):
        if known.workspace[m, size - 1] <= here.room_bytes[i]:
            return size
    return 0


@njit(cache=True)
def _busy(run_s: float, load_s: float, prefetch: bool) -> float:
    return max(run_s, load_s) if prefetch else run_s + load_s


@njit(cache=True)
def _total(values: Floats) -> float:
    """From the left."""
    total = 0.0
    for value in values:
        total += value
    return total


@njit(cache=True)
def _longest(known: ModelColumns, here: Here, headroom: float, prefetch: bool) -> float:
    """The shortest round that serves all that arrives; sets each batch in it."""
    here.sizes[:] = 1
    load_s = _total(here.load_s)
    while True:
        for i in range(len(here.model)):
            here.batch_s[i] = known.run_s[here.model[i], here.sizes[i] - 1]
        cycle_s = _busy(_total(here.batch_s), load_s, prefetch) / (1 - headroom)
        grows = False
        for i in range(len(here.model)):
            wanted = ceil(here.rate_rps[i] * cycle_s - 1e-9)
            grown = max(here.sizes[i], min(known.longest[here.model[i]], wanted))
            grows |= grown > here.sizes[i]
            here.sizes[i] = grown
        if not grows:
            return cycle_s


@njit(cache=True)
def _usual(known: ModelColumns, here: Here, cycle_s: float, headroom: float, prefetch: bool) -> float:
    """A round in which a model that is rarely asked rarely takes part."""
    for _ in range(USUAL_ROUNDS):
        run_s = load_s = 0.0
        for i in range(len(here.model)):
            gathered = here.rate_rps[i] * cycle_s
            taken = min(1.0, gathered)
            size = min(known.longest[here.model[i]], max(1, ceil(gathered - 1e-9)))
            run_s += taken * known.run_s[here.model[i], size - 1]
            load_s += taken * here.load_s[i]
        shorter_s = _busy(run_s, load_s, prefetch) / (1 - headroom)
        if shorter_s >= cycle_s:
            break
        cycle_s = shorter_s
    return cycle_s


@njit(cache=True)
def _order(here: Here, usual_s: float) -> None:
    """The models by how often they take part, the rarest first."""
    for i in range(len(here.model)):
        here.often[i] = min(here.rate_rps[i], 1 / usual_s)
        place = i
        while place and here.often[here.order[place - 1]] > here.often[i]:
            here.order[place] = here.order[place - 1]
            place -= 1
        here.order[place] = i


@njit(cache=True)
def _wait(known: ModelColumns, here: Here, i: int, prefetch: bool) -> float:
    """The longest round that all but half of the misses that a model may have must wait."""
    m = here.model[i]
    alone = _total(here.batch_s) + _total(here.load_s) <= known.gap_s[m]
    but = i if alone else -1
    if prefetch:
        waits_s = _left_out(here.batch_s, here, but, known.misses[m])
        return max(waits_s, _left_out(here.load_s, here, but, known.misses[m]))
    return _left_out(here.batch_s + here.load_s, here, but, known.misses[m])


@njit(cache=True)
def _left_out(times_s: Floats, here: Here, but: int, misses: float) -> float:
    """Sum of `times_s` without that of `but`, and without what the rarest add as long as misses allow."""
    wait_s = _total(times_s) - (times_s[but] if but >= 0 else 0.0)
    for j in here.order:
        if j == but:
            continue
        cost = here.often[j] * times_s[j]
        if cost > misses:
            return wait_s - misses / here.often[j]
        misses -= cost
        wait_s -= times_s[j]
    return max(wait_s, 0.0)
