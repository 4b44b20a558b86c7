"""Models that are cut into stages, as machine code has them: what one GPU hands to another, and whom that wakes."""

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

import numpy as np

from simulator.clock import compiled
from simulator.clock.compiled import BY_DEADLINE, Floats, Ints, Queues
from simulator.clock.replays.links import (
    OTHER,
    POINT,
    SLEEPS,
    WAKES,
    WAKES_PLACE,
    Flights,
    Turns,
    is_before,
    next_place,
)
from simulator.numba_parts import inlined
from simulator.rules.queues import Queue


class Chains(NamedTuple):
    """Of all queues that are served together, which hand their batches on; the columns below are those of
    `simulator.clock.compiled.Queues` and of `simulator.clock.replays.links.Turns`."""

    following: Ints
    """The queue that gets a queue's batches; -1 where they are answered."""
    transfer_s: Floats
    """What each request of them takes to get there."""
    link_free_s: Floats
    """When all are there that were handed on."""
    gpu: Ints
    """By queue: its place among the GPUs."""
    end: Ints
    ready_s: Floats
    priority: Floats
    slo_s: Floats
    times_s: Floats
    counts: Ints


def chains_of(own: Sequence[Queue], queues: Queues, turns: Turns, flights: Flights) -> Chains:
    """Of these queues, each on its GPU."""
    numbers = {id(queue): number for number, queue in enumerate(own)}
    gpu = np.full(len(own), -1)
    for place, (first, end) in enumerate(zip(flights.first, flights.end, strict=True)):
        gpu[first:end] = place
    return Chains(
        following=np.array([numbers.get(id(queue.next_stage), -1) for queue in own], dtype=np.int64),
        transfer_s=np.array([queue.stage.transfer_s_per_sample for queue in own]),
        link_free_s=np.zeros(len(own)),
        gpu=gpu,
        end=queues.end,
        ready_s=queues.ready_s,
        priority=queues.priority,
        slo_s=queues.slo_s,
        times_s=turns.times_s,
        counts=turns.counts,
    )


# Compiled: as of `simulator.clock.compiled`, where batches may come formed


@inlined
def book(queues: Queues, rule: int, number: int) -> None:
    """When the next batch of a queue may run, and which place it has among those of others."""
    compiled._book(queues, min(rule, BY_DEADLINE), number)
    if queues.formed[number] and queues.ready_s[number] < inf:
        queues.priority[number] = queues.since_s[queues.head[number]]
        if rule >= BY_DEADLINE:
            queues.priority[number] += queues.slo_s[number]


@inlined
def batch_size(queues: Queues, number: int, now: float) -> int:
    """Requests in a batch that starts now."""
    if not queues.formed[number]:
        return int(compiled._batch_size(queues, number, now))
    head = queues.head[number]
    return int(queues.size[head]) if head < queues.end[number] and queues.times[head] <= now else 0


@inlined
def leave(queues: Queues, number: int, start_s: float, finish_s: float, count: int) -> None:
    """Record that these requests wait no longer."""
    compiled._leave(queues, number, start_s, finish_s, count)
    if queues.formed[number]:
        queues.head[number] += 1 - count


# Compiled: from stage to stage


@inlined
def hand_on(
    queues: Queues, flights: Flights, chains: Chains, rule: int, gpu: int, number: int, finish_s: float, count: int
) -> int:
    """Send the first requests of a queue to the next stage, which gets them some time after `finish_s`: the GPU that
    may sleep until something comes, or -1."""
    mine, head = flights.first[gpu] + number, queues.head[number]
    following = chains.following[mine]
    if following < 0:
        return -1
    free_s = max(finish_s, chains.link_free_s[mine]) + count * chains.transfer_s[mine]
    chains.link_free_s[mine] = free_s
    place = chains.end[following]
    chains.end[following] += 1
    queues.times[place], queues.size[place] = free_s, count
    queues.since_s[place] = queues.since_s[head] if queues.formed[number] else queues.times[head]
    if chains.ready_s[following] < inf:  # it has a batch that waits, or for which weights are loaded
        return -1
    chains.ready_s[following] = free_s
    chains.priority[following] = queues.since_s[place]
    if rule >= BY_DEADLINE:
        chains.priority[following] += chains.slo_s[following]
    return int(chains.gpu[following])


@inlined
def ring(flights: Flights, chains: Chains, gpu: int, now: float) -> None:
    """Wake a GPU if it sleeps."""
    if chains.counts[gpu, POINT] != SLEEPS or chains.times_s[gpu, WAKES] <= now:
        return
    place = next_place(flights)
    chains.times_s[gpu, WAKES], chains.counts[gpu, WAKES_PLACE] = now, place
    if now < flights.next_s[gpu]:
        flights.next_s[gpu], flights.next_place[gpu] = now, place
        other = flights.counts[OTHER]
        if other < 0 or is_before(flights, gpu, flights.next_s[other], flights.next_place[other]):
            flights.counts[OTHER] = gpu
