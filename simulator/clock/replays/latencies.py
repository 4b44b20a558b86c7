"""Latencies of a model in one world as machine code: how many are in each bin, and their quantiles; the same to the
last bit as `simulator.rules.latencies` says, which stays the reference."""

from math import inf, nan
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.clock import compiled
from simulator.clock.compiled import Floats, Ints
from simulator.clock.metrics import STRETCHES
from simulator.machine_code import forget_stale
from simulator.numba_parts import inlined, inner
from simulator.rules.latencies import EDGES_S, INNER_EDGES_S, QUANTILES, SHORTEST_S

forget_stale(Path(__file__), Path(str(compiled.__file__)))
STEP_BITS = 46
"""Bits of a latency that are left off to count it: what is left are steps of 1/64 of a power of two, so that no more
than one edge of a bin lies in each."""
FIRST_STEP, LAST_STEP = (int(step) for step in np.array([SHORTEST_S, EDGES_S[-1]]).view(np.int64) >> STEP_BITS)
STEPS = LAST_STEP - FIRST_STEP + 1


class Scratch(NamedTuple):
    """Room to reckon in, and tables."""

    latency_s: Floats
    """Of the requests of a model that finished."""
    bits: Ints
    """The same memory as whole numbers: of two latencies the longer has the larger one."""
    step: NDArray[np.int32]
    """Of each latency (`STEP_BITS`)."""
    spare: Floats
    by_size_s: Floats
    edges: Ints
    """Where the stretches of a model's requests begin, then those that are not judged, and where these end."""
    good: Ints
    """How many are in time of each of these."""
    bin_of: Ints
    """By step (`STEP_BITS`): the bin in which it begins."""
    edge_s: Floats
    """By step: where that bin ends; beyond the last never."""
    held: Ints
    """By step: how many latencies lie in it before the end of the bin, and how many from there on."""
    bucket: Ints
    """By step: where the next of its latencies goes; -1 where none is looked at closer."""
    rank_step: Ints
    """By quantile the steps of the two latencies that it lies between."""
    rank_in: Ints
    """How many lie before these in their steps."""


def scratch(requests: int, largest: int) -> Scratch:
    """Room for so many requests, and batches up to the largest."""
    latency_s = np.empty(requests)
    steps = np.arange(FIRST_STEP, LAST_STEP + 1) << STEP_BITS
    bin_of = INNER_EDGES_S.searchsorted(steps.view(np.float64), side="right")
    return Scratch(
        latency_s=latency_s,
        bits=latency_s.view(np.int64),
        step=np.empty(requests, dtype=np.int32),
        spare=np.empty(requests),
        by_size_s=np.zeros(largest + 1),
        edges=np.zeros(STRETCHES + 2, dtype=np.int64),
        good=np.zeros(STRETCHES + 1, dtype=np.int64),
        bin_of=bin_of,
        edge_s=np.array([*EDGES_S[:-1], inf])[bin_of + 1],
        held=np.zeros(2 * STEPS, dtype=np.int64),
        bucket=np.full(STEPS, -1),
        rank_step=np.zeros(2 * len(QUANTILES), dtype=np.int64),
        rank_in=np.zeros(2 * len(QUANTILES), dtype=np.int64),
    )


@inner
def add_latencies(room: Scratch, count: int, bins: Ints, quantiles_s: Floats) -> None:
    """Of one model that has so many latencies: how many are in each bin, and their quantiles."""
    bins[:] = 0
    if not count:
        quantiles_s[:] = nan
        return
    lowest, highest = _note_steps(room.bits[:count], room.step[:count])
    for place in range(count):
        step = room.step[place]
        room.held[2 * step + (room.latency_s[place] >= room.edge_s[step])] += 1
    for step in range(lowest, highest + 1):
        number = room.bin_of[step]
        bins[number] += room.held[2 * step]
        if room.held[2 * step + 1]:
            bins[number + 1] += room.held[2 * step + 1]
    _find_ranks(room, count, lowest)
    for place in range(count):
        step = room.step[place]
        if room.bucket[step] >= 0:
            room.spare[room.bucket[step]] = room.latency_s[place]
            room.bucket[step] += 1
    for number in range(len(QUANTILES)):
        rank = QUANTILES[number] * (count - 1)
        part = rank - int(rank)
        low_s, high_s = _ranked(room, 2 * number), _ranked(room, 2 * number + 1)
        if part >= 0.5:
            quantiles_s[number] = high_s - (high_s - low_s) * (1 - part)
        else:
            quantiles_s[number] = low_s + (high_s - low_s) * part
    room.held[2 * lowest : 2 * highest + 2] = 0
    room.bucket[lowest : highest + 1] = -1


@inner
def _note_steps(bits: Ints, steps: NDArray[np.int32]) -> tuple[int, int]:
    """The steps of latencies; the lowest and the highest of them."""
    lowest, highest = STEPS, 0
    for place in range(len(bits)):
        step = min(max((bits[place] >> STEP_BITS) - FIRST_STEP, 0), STEPS - 1)
        steps[place] = step
        lowest, highest = min(lowest, step), max(highest, step)
    return lowest, highest


@inner
def _find_ranks(room: Scratch, count: int, lowest: int) -> None:
    """In which steps the latencies are that quantiles lie between, and how many lie before them there; all latencies of
    such steps are to be put together."""
    step, before, used = lowest, 0, 0
    for number in range(len(QUANTILES)):
        rank = int(QUANTILES[number] * (count - 1))
        next_rank = min(rank + 1, count - 1)
        step, before = _step_from(room, step, before, rank)
        next_step, next_before = _step_from(room, step, before, next_rank)
        room.rank_step[2 * number], room.rank_in[2 * number] = step, rank - before
        room.rank_step[2 * number + 1], room.rank_in[2 * number + 1] = next_step, next_rank - next_before
    for wanted in room.rank_step:
        if room.bucket[wanted] < 0:
            room.bucket[wanted] = used
            used += room.held[2 * wanted] + room.held[2 * wanted + 1]


@inlined
def _step_from(room: Scratch, step: int, before: int, rank: int) -> tuple[int, int]:
    """From a step on, before which so many latencies lie: the step that holds a rank, and how many lie before it."""
    while before + room.held[2 * step] + room.held[2 * step + 1] <= rank:
        before += room.held[2 * step] + room.held[2 * step + 1]
        step += 1
    return step, before


@inner
def _ranked(room: Scratch, number: int) -> float:
    """The latency that stands there once they are sorted."""
    step = room.rank_step[number]
    end = room.bucket[step]
    return _select(room.spare[end - room.held[2 * step] - room.held[2 * step + 1] : end], room.rank_in[number])


@inner
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
