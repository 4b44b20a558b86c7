"""The other yardstick: a loop in C over the same queues, which notes nothing but how many batches it ran.

Compiled where there is a C compiler, else the same loop by Numba. It takes arrivals as they were drawn, and knows no
memory but who is in it.
"""

import ctypes
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from math import inf
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from time import process_time

import numpy as np

from benchmarks.load import Load, run_s
from simulator.clock.run import TURNS, Compiled, simulate
from simulator.clock.worlds import ARRIVALS, Worlds
from simulator.world.workload import Floats, draw

SOURCE = """
#include <math.h>
#include <string.h>
long serve(long queues, const long *begin, long *head, const double *time_s, const double *run_s, long most,
           long *used, long room, double load_s, double end_s) {
    double now = 0;
    long last = queues - 1, batches = 0, held = 0;
    memcpy(head, begin, queues * sizeof(long));
    memset(used, 0, queues * sizeof(long));
    while (now < end_s) {
        long q = -1, n = last;
        double next = INFINITY;
        for (long k = 0; k < queues; k++) {
            n = n + 1 < queues ? n + 1 : 0;
            if (head[n] == begin[n + 1]) continue;
            if (time_s[head[n]] <= now) { q = n; break; }
            if (time_s[head[n]] < next) next = time_s[head[n]];
        }
        if (q < 0) { now = next; continue; }
        long count = 1;
        while (count < most && head[q] + count < begin[q + 1] && time_s[head[q] + count] <= now) count++;
        if (!used[q]) {
            if (held == room) {
                long oldest = -1;
                for (n = 0; n < queues; n++) if (used[n] && (oldest < 0 || used[n] < used[oldest])) oldest = n;
                used[oldest] = 0;
                held--;
            }
            held++;
            now += load_s;
        }
        now += run_s[count];
        head[q] += count;
        used[q] = ++batches;
        last = q;
    }
    return batches;
}
"""


def by_numba(queues, begin, head, time_s, run_s, most, used, room, load_s, end_s):  # type: ignore[no-untyped-def]
    """The same, where there is no C compiler."""
    now, last, batches, held = 0.0, queues - 1, 0, 0
    head[:], used[:] = begin[:-1], 0
    while now < end_s:
        q, n, next_s = -1, last, inf
        for _ in range(queues):
            n = n + 1 if n + 1 < queues else 0
            if head[n] == begin[n + 1]:
                continue
            if time_s[head[n]] <= now:
                q = n
                break
            next_s = min(next_s, time_s[head[n]])
        if q < 0:
            now = next_s
            continue
        count = 1
        while count < most and head[q] + count < begin[q + 1] and time_s[head[q] + count] <= now:
            count += 1
        if not used[q]:
            if held == room:
                oldest = -1
                for n in range(queues):
                    if used[n] and (oldest < 0 or used[n] < used[oldest]):
                        oldest = n
                used[oldest] = 0
                held -= 1
            held += 1
            now += load_s
        now += run_s[count]
        head[q] += count
        batches += 1
        used[q], last = batches, q
    return batches


@cache
def bare_loop() -> tuple[str, Callable[..., int]]:
    """Who made it, and the loop itself."""
    if not (compiler := which("cc")):
        return "Numba", import_module("numba").njit(by_numba)
    with TemporaryDirectory() as folder:
        source, library = Path(folder, "loop.c"), Path(folder, "loop.so")
        source.write_text(SOURCE, encoding="ascii")
        subprocess.run([compiler, "-O3", "-shared", "-fPIC", "-o", library, source], check=True)
        serve = ctypes.CDLL(str(library)).serve
    serve.restype = ctypes.c_long

    def called(*given: object) -> int:
        return int(serve(*(_for_c(one) for one in given)))

    return "C", called


def _for_c(given: object) -> object:
    if isinstance(given, np.ndarray):
        return given.ctypes.data_as(ctypes.c_void_p)
    return ctypes.c_double(given) if isinstance(given, float) else ctypes.c_long(given)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Beside:
    """Processor time of one load, without that of drawing its arrivals but for `simulate_s`."""

    requests: int
    batches: int
    """That are simulated."""
    loop_s: float
    """For as many batches: where models take turns the loop, which loads nothing ahead, gets less far."""
    replay_s: float
    """As plans replay worlds, with all figures."""
    simulate_s: float
    """With arrivals drawn and a record of each request."""


def beside(load: Load, request_count: int) -> Beside:
    """The best of three of each, by turns."""
    duration_s = request_count / load.rate_rps
    deployment, workload = load.deployment(), load.workload()
    queues = _queues(load, [one.arrival_s for one in draw(workload, duration_s, 1).values()])
    room = max(1, int(load.resident * load.model_count))
    batches, times = 0, []
    for _ in range(3):
        began_s = process_time()
        result = simulate(deployment, workload, duration_s, seed=1)
        simulated_s = process_time()
        batches = sum(_served(begin, time_s, load, room, duration_s) for begin, time_s in queues)
        looped_s = process_time()
        times.append((looped_s - simulated_s, simulated_s - began_s))
    replay_s = _replay_s(load, duration_s)
    loop_s, simulate_s = map(min, zip(*times, strict=True))
    simulated = sum(len(one.count) for one in result.batches)
    return Beside(result.request_count, simulated, loop_s * simulated / batches, replay_s, simulate_s)


def _replay_s(load: Load, duration_s: float) -> float:
    workload = load.workload()
    Compiled.seen_requests += Compiled.worth_requests
    TURNS.done += TURNS.worth
    worlds = Worlds(load.deployment(), workload, duration_s, duration_s / 10, workload.rates_rps())
    ARRIVALS.coming(workload, duration_s, 1)
    times_s = []
    for _ in range(4):  # the first makes room
        began_s = process_time()
        next(worlds.seen([1]))
        times_s.append(process_time() - began_s)
    return min(times_s)


def _queues(load: Load, by_model: Sequence[Floats]) -> list[tuple[np.ndarray, Floats]]:
    """Of each GPU: where its queues begin, and their arrivals."""
    found = []
    for gpu in range(load.gpu_count):
        mine = [times[gpu :: load.gpu_count] for times in by_model]
        found.append((np.cumsum([0, *map(len, mine)]), np.concatenate(mine)))
    return found


def _served(begin: np.ndarray, time_s: Floats, load: Load, room: int, end_s: float) -> int:
    _, serve = bare_loop()
    times = np.array([run_s(size) for size in range(load.batch_size_max + 1)])
    count, load_s = load.model_count, 10**8 / 12e9 if load.resident < 1 else 0.0
    head, used = np.zeros(count, np.int64), np.zeros(count, np.int64)
    return serve(count, begin, head, time_s, times, load.batch_size_max, used, room, load_s, float(end_s))
