"""Memory per request: how far the peak of a process of its own rises from one million requests to ten million."""

import resource
import subprocess
import sys

from benchmarks.load import Load
from benchmarks.speed import simulated
from simulator.clock.metrics import summarise

FEW, MANY = 10**6, 10**7


def bytes_per_request(batch_size_max: int, metrics: bool) -> float:
    """Measured in a child process, whose peak no other work has raised. `metrics`: derived as well."""
    command = [sys.executable, "-m", "benchmarks.memory", str(batch_size_max), str(int(metrics))]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def _peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _peak_after(load: Load, request_count: int, metrics: bool) -> tuple[int, int]:
    result = simulated(load, request_count)
    if metrics:
        summarise(result)
    return result.request_count, _peak_bytes()


def _main(batch_size_max: int, metrics: bool) -> None:
    load = Load(gpu_count=1, model_count=1, batch_size_max=batch_size_max)
    few, low_bytes = _peak_after(load, FEW, metrics)
    many, high_bytes = _peak_after(load, MANY, metrics)
    print((high_bytes - low_bytes) / (many - few))


if __name__ == "__main__":
    _main(int(sys.argv[1]), bool(int(sys.argv[2])))
