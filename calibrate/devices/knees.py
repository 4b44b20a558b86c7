"""Knees: how long the device takes to pass over a working set, by its size, and where caches end. Needs torch."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from statistics import median

import torch

from calibrate.devices.timer import CpuTimer, CudaTimer, StopRule, Timer, repeat
from calibrate.io.points import PASSED_BYTES, Figures

LARGEST_BYTES = {"cpu": 1 << 28, "cuda": 1 << 30}
TOUCHED_BYTES = {"cpu": 1 << 25, "cuda": 1 << 30}
"""Passed over in one timing, small sets many times: a cache is warm then, and a launch costs little of it."""
FALL = 1.25
"""How much slower a byte must get, for good, where a cache ends: noise stays below."""
PASSES_MAX = 500
"""More would wait in a GPU's queue."""


def knees(device: torch.device, seconds: float) -> Figures:
    """Time of one pass over sets of doubling size, each number read, added to and written back; on a CPU by one core.

    Samples: `<bytes>_s`, of one pass. Values: `fastest_bytes_per_s` and `slowest_bytes_per_s`, of the best size and the
    largest, reads and writes counted. Details: `knees_bytes`, the largest sets that a cache holds.
    """
    largest = LARGEST_BYTES[device.type]
    if device.type == "cuda":
        largest = min(largest, torch.cuda.mem_get_info(device)[0] // 4)
    sizes = [size for size in PASSED_BYTES if size <= largest]
    timer: Timer = CudaTimer(device.index or 0) if device.type == "cuda" else CpuTimer()
    numbers = torch.zeros(sizes[-1] // 4, device=device)
    with one_thread():
        samples = {size: pass_s(numbers[: size // 4], timer, seconds / len(sizes)) for size in sizes}
    times_s = {size: median(taken) for size, taken in samples.items()}
    rates = {size: 2 * size / time_s for size, time_s in times_s.items()}
    values = {"fastest_bytes_per_s": max(rates.values()), "slowest_bytes_per_s": rates[sizes[-1]]}
    return Figures(values, {f"{size}_s": taken for size, taken in samples.items()}, {"knees_bytes": falls(rates)})


def pass_s(numbers: torch.Tensor, timer: Timer, seconds: float) -> list[float]:
    """Times of one pass over all numbers."""
    passes = min(PASSES_MAX, max(1, TOUCHED_BYTES[numbers.device.type] // numbers.nbytes))

    def work() -> None:
        for _ in range(passes):
            numbers.add_(1.0)

    rule = StopRule(seconds=seconds, at_most=100, warm_up_s=seconds / 4, warm_up_runs=1)
    return [taken / passes for taken in repeat(timer, work, rule).wall_s]


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch computes with one thread: waiting for the others would hide what a cache does."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def falls(rates: Mapping[int, float]) -> list[int]:
    """Sizes after which the rate falls for good. 1 MB at 90, 2 at 88, 4 at 50, 8 at 49 GB/s: 2 MB."""
    sizes = sorted(rates)
    best_after = {size: max((rates[later] for later in sizes if later > size), default=0.0) for size in sizes[:-1]}
    over = [size for size in best_after if rates[size] > FALL * best_after[size]]
    following = dict(pairwise(sizes))
    return [size for size in over if following[size] not in over]
