"""The other yardstick: a loop in C over the same queues, which notes nothing but how many batches it ran; and the same
with what an answer needs of each queue: latencies, their mean and quantiles, shares in time, what waits.

Compiled where there is a C compiler, else the loop alone by Numba. It takes arrivals as they were drawn, and knows no
memory but who is in it, and no rules.
"""

import ctypes
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from math import inf, nan
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np

from benchmarks.load import Load, run_s
from simulator.clock.run import TURNS, Compiled, simulate
from simulator.clock.worlds import ARRIVALS, Worlds
from simulator.world.workload import Floats, draw

REPEATS = 5
WARM_UP = 0.1
"""Share of the time of which nothing is counted."""
SOURCE = """
#include <math.h>
#include <string.h>
long serve(long queues, const long *begin, long *head, const double *time_s, const double *run_s, long most,
           long *used, long room, double load_s, double end_s, double *start_s, double *gone_s) {
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
        for (n = head[q]; start_s && n < head[q] + count; n++) { start_s[n] = now; gone_s[n] = now + run_s[count]; }
        now += run_s[count];
        head[q] += count;
        used[q] = ++batches;
        last = q;
    }
    return batches;
}

static double ranked(double *value, long count, long rank) {
    long low = 0, high = count - 1;
    while (low < high) {
        double pivot = value[(low + high) / 2];
        long left = low, right = high;
        while (left <= right) {
            while (value[left] < pivot) left++;
            while (value[right] > pivot) right--;
            if (left <= right) { double one = value[left]; value[left++] = value[right]; value[right--] = one; }
        }
        if (rank <= right) high = right; else if (rank >= left) low = left; else break;
    }
    return value[rank];
}

static double outstanding(double came_s, double left_s, double from_s, double to_s) {
    double time_s = fmin(left_s, to_s) - fmax(came_s, from_s);
    return time_s > 0 ? time_s : 0;
}

/* Of each queue, of requests that came after the warm-up: how many, how many are done and in time, the means of their
   latencies and times in the queue, what waits in the last third of the time over the middle one, and 4 quantiles. */
void answer(long queues, const long *begin, const long *head, const double *time_s, const double *start_s,
            const double *gone_s, double slo_s, double warm_s, double end_s, double *took_s, double *figures) {
    static const double at[4] = {0.5, 0.9, 0.95, 0.99};
    double third_s = (end_s - warm_s) / 3, late_s = end_s - third_s;
    for (long q = 0; q < queues; q++, figures += 10) {
        long came = 0, done = 0, in_time = 0;
        double mean_s = 0, queued_s = 0, middle_s = 0, last_s = 0;
        for (long n = begin[q]; n < begin[q + 1]; n++) {
            double gone = n < head[q] && gone_s[n] <= end_s ? gone_s[n] : INFINITY;
            middle_s += outstanding(time_s[n], gone, late_s - third_s, late_s);
            last_s += outstanding(time_s[n], gone, late_s, end_s);
            if (time_s[n] < warm_s) continue;
            came++;
            if (gone > end_s) continue;
            took_s[done++] = gone - time_s[n];
            mean_s += gone - time_s[n];
            queued_s += start_s[n] - time_s[n];
            in_time += gone - time_s[n] <= slo_s;
        }
        figures[0] = came; figures[1] = done; figures[2] = in_time;
        figures[3] = mean_s / done; figures[4] = queued_s / done; figures[5] = (last_s - middle_s) / third_s;
        for (long k = 0; k < 4 && done; k++) figures[6 + k] = ranked(took_s, done, at[k] * (done - 1));
    }
}
"""


def by_numba(queues, begin, head, time_s, run_s, most, used, room, load_s, end_s, *_):  # type: ignore[no-untyped-def]
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
def bare_loop() -> tuple[str, Callable[..., int], Callable[..., None] | None]:
    """Who made it, the loop itself, and what adds up; None where there is no C compiler."""
    if not (compiler := which("cc")):
        return "Numba", import_module("numba").njit(by_numba), None
    with TemporaryDirectory() as folder:
        source, library = Path(folder, "loop.c"), Path(folder, "loop.so")
        source.write_text(SOURCE, encoding="ascii")
        subprocess.run([compiler, "-O3", "-shared", "-fPIC", "-o", library, source], check=True)
        loaded = ctypes.CDLL(str(library))
    loaded.serve.restype, loaded.answer.restype = ctypes.c_long, None
    return "C", partial(_call, loaded.serve), partial(_call, loaded.answer)


def _call(function: Callable[..., Any], *given: object) -> Any:
    return function(*map(_for_c, given))


def _for_c(given: object) -> object:
    if given is None:
        return ctypes.c_void_p(None)
    if isinstance(given, np.ndarray):
        return given.ctypes.data_as(ctypes.c_void_p)
    return ctypes.c_double(given) if isinstance(given, float) else ctypes.c_long(given)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Notes:
    """Room for what the loop notes on one GPU."""

    start_s: Floats
    gone_s: Floats
    took_s: Floats
    figures: Floats
    """By queue."""

    @classmethod
    def of(cls, begin: np.ndarray, time_s: Floats) -> "Notes":
        return cls(*(np.zeros(len(time_s)) for _ in range(3)), np.zeros((len(begin) - 1, 10)))


@dataclass(frozen=True, slots=True)
class Beside:
    """Processor time of one load, without that of drawing its arrivals but for `simulate_s`."""

    requests: int
    batches: int
    """That are simulated."""
    loop_s: float
    """For as many batches: where models take turns the loop, which loads nothing ahead, gets less far."""
    answer_s: float
    """The same with what an answer needs; NaN where no C compiler is."""
    replay_s: float
    """As plans replay worlds, with all figures."""
    simulate_s: float
    """With arrivals drawn and a record of each request."""


def beside(load: Load, request_count: int) -> Beside:
    """The best of a few of each, by turns."""
    duration_s = request_count / load.rate_rps
    deployment, workload = load.deployment(), load.workload()
    queues = _queues(load, [one.arrival_s for one in draw(workload, duration_s, 1).values()])
    room = max(1, int(load.resident * load.model_count))
    batches, times = 0, []
    notes = [Notes.of(begin, time_s) for begin, time_s in queues] if bare_loop()[2] else []
    for _ in range(REPEATS):
        began_s = process_time()
        result = simulate(deployment, workload, duration_s, seed=1)
        simulated_s = process_time()
        batches = sum(_served(begin, time_s, load, room, duration_s) for begin, time_s in queues)
        looped_s = process_time()
        for (begin, time_s), of_gpu in zip(queues, notes, strict=bool(notes)):
            _served(begin, time_s, load, room, duration_s, of_gpu)
        answered_s = process_time()
        times.append((looped_s - simulated_s, answered_s - looped_s if notes else nan, simulated_s - began_s))
    replay_s = _replay_s(load, duration_s)
    loop_s, answer_s, simulate_s = map(min, zip(*times, strict=True))
    simulated = sum(len(one.count) for one in result.batches)
    more = simulated / batches
    return Beside(result.request_count, simulated, loop_s * more, answer_s * more, replay_s, simulate_s)


def _replay_s(load: Load, duration_s: float) -> float:
    workload = load.workload()
    Compiled.seen_requests += Compiled.worth_requests
    TURNS.done += TURNS.worth
    worlds = Worlds(load.deployment(), workload, duration_s, duration_s * WARM_UP, workload.rates_rps())
    ARRIVALS.coming(workload, duration_s, [1])
    times_s = []
    for _ in range(1 + REPEATS):  # the first makes room
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


def _served(begin: np.ndarray, time_s: Floats, load: Load, room: int, end_s: float, notes: Notes | None = None) -> int:
    """Batches of one GPU; with notes what an answer needs of them."""
    times = np.array([run_s(size) for size in range(load.batch_size_max + 1)])
    count, load_s = load.model_count, 10**8 / 12e9 if load.resident < 1 else 0.0
    head, used = np.zeros(count, np.int64), np.zeros(count, np.int64)
    noted = (notes.start_s, notes.gone_s) if notes else (None, None)
    given = begin, head, time_s, times, load.batch_size_max, used, room, load_s, float(end_s)
    batches = bare_loop()[1](count, *given, *noted)
    if notes:
        warm_s = end_s * WARM_UP
        more = notes.start_s, notes.gone_s, load.slo_s, warm_s, float(end_s), notes.took_s, notes.figures
        bare_loop()[2](count, begin, head, time_s, *more)  # type: ignore[misc]
    return batches
