"""Batching, as pure functions on a sorted queue: when a batch closes, how many it takes, which frames are given up."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from math import inf

from simulator.world.deployment import BatchingPolicy, Drop

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


def _arrivals_end(times_s: Sequence[float], head: int, end: int, now_s: float, most: int) -> int:
    """Where the requests begin that have not arrived yet. Searched near `head`: a queue is short beside a replay."""
    reach = head + 2 * most
    while reach < end and times_s[reach] <= now_s:
        reach += reach - head
    return bisect_right(times_s, now_s, head, min(reach, end))


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

    `newest` keeps the newest batch. `late` looks at the batch that would start at `start_s`, with `service_s[n]` the
    time of a batch of n. If its oldest request would be late, that one alone is given up, the batch is formed again
    from what is left, and looked at again, until the oldest is on time: then all are, for the others came later.

    Frames at 0, 20 and 40 ms, now and start 60 ms, an SLO of 100 ms; batches of 1, 2 and 3 take 30, 50 and 70 ms.
    The frame of 0 ms would end at 130 ms and goes; then the frame of 20 ms ends at 110 ms, before 120 ms, and stays.
    """
    most = len(service_s) - 1
    present = _arrivals_end(times_s, head, end, now_s, most)
    if drop is not Drop.LATE:
        head = max(head, present - most)
    if drop is Drop.NEWEST:
        return head
    # One by one, in two strides. While at least `most` wait, the batch stays full, and so does its time: the first
    # that is on time is found by bisection. Of fewer, each size has its own time, which need not grow with the size.
    if (last_full := present - most) >= head:
        head = bisect_left(times_s, start_s + service_s[most] - slo_s - EPSILON_S, head, last_full + 1)
        if head <= last_full:
            return head
    while head < present and times_s[head] < start_s + service_s[present - head] - slo_s - EPSILON_S:
        head += 1
    return head
