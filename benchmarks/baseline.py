"""The yardstick: a bare SimPy loop with one process for each server, arrivals in an array, a timeout for each batch.

It does what no simulation of this kind can do without: wait for a request, count who has arrived, let the batch run,
note it. It knows no models, no memory and no rules.
"""

from bisect import bisect_right
from collections.abc import Callable, Generator
from time import process_time

import numpy as np
import simpy

from simulator.world.workload import Floats


def bare_loop_s(
    request_count: int, gpu_count: int, most: int, rate_rps: float, run_s: Callable[[float], float]
) -> float:
    """Processor time to draw and serve Poisson arrivals, dealt to servers in turn, in batches of at most `most`."""
    began_s = process_time()
    arrival_s = np.cumsum(np.random.default_rng(1).exponential(1 / rate_rps, request_count))
    service_s = [run_s(n) for n in range(most + 1)]
    env = simpy.Environment()
    for gpu in range(gpu_count):
        env.process(_server(env, arrival_s[gpu::gpu_count].copy(), service_s))
    env.run()
    return process_time() - began_s


def _server(env: simpy.Environment, arrival_s: Floats, service_s: list[float]) -> Generator[simpy.Event, None, None]:
    times, head, end, most = arrival_s.data, 0, len(arrival_s), len(service_s) - 1
    batches: list[tuple[float, float, int]] = []
    while head < end:
        if times[head] > env.now:
            yield env.timeout(times[head] - env.now)
        start_s = env.now
        count = bisect_right(times, start_s, head, min(head + most, end)) - head
        # An arrival can be a rounding error away from the instant for which the timeout was set.
        count = max(count, 1)
        yield env.timeout(service_s[count])
        batches.append((start_s, env.now, count))
        head += count
