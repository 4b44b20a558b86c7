"""Batching, as pure functions on a sorted queue: when a batch closes, how many it takes, which frames are given up."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from math import inf

from simulator.deployment import BatchingPolicy, Drop

EPSILON_S = 1e-9
"""A deadline missed by less than this is met: it is rounding, not lateness."""


def close_at(times_s: Sequence[float], head: int, end: int, policy: BatchingPolicy) -> float:
    """When the batch that starts at `head` may run: full, or its oldest request has waited `max_queue_delay_s`.

    Requests at 0.0 and 0.3 with batches of 2 and a delay of 0.2: at 0.2. With a delay of 1: at 0.3. Empty: never.
    """
    if head >= end:
        return inf
    oldest = times_s[head] + policy.max_queue_delay_s
    last = head + policy.max_batch_size - 1
    return min(oldest, times_s[last]) if last < end and policy.max_queue_delay_s else oldest


def arrived(times_s: Sequence[float], head: int, end: int, now_s: float, most: int) -> int:
    """How many of the requests from `head` on have arrived, `most` at the most."""
    full = head + most
    if full <= end and times_s[full - 1] <= now_s:
        return most
    return bisect_right(times_s, now_s, head, min(full, end)) - head


def first_kept(
    times_s: Sequence[float],
    head: int,
    end: int,
    now_s: float,
    start_s: float,
    drop: Drop,
    slo_s: float,
    service_s: Sequence[float],
) -> int:
    """Where the queue begins once the drop rule has been applied to what has arrived by `now_s`.

    The batch can start at `start_s`, and `service_s[n]` is the time of a batch of n: a frame is late when the batch
    it would be in ends after its deadline. Frames at 0 and 50 ms, now and start 60 ms, a batch of 2 takes 50 ms: with
    an SLO of 100 ms the first is late, the second is kept.
    """
    most = len(service_s) - 1
    if drop in (Drop.NEWEST, Drop.NEWEST_AND_LATE):
        head = max(head, bisect_right(times_s, now_s, head, end) - most)
    if drop in (Drop.LATE, Drop.NEWEST_AND_LATE):
        while n := arrived(times_s, head, end, now_s, most):
            on_time = start_s + service_s[n] - slo_s - EPSILON_S
            if times_s[head] >= on_time:
                break
            head = bisect_left(times_s, on_time, head, head + n)
    return head
