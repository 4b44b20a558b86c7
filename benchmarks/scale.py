"""Scale: plans for more and more models, cameras and GPUs, with profiles that are made up.

Each in a process of its own, as `planner plan` runs, so that its memory is its own.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from os import wait4, waitstatus_to_exitcode
from pathlib import Path
from random import Random
from subprocess import DEVNULL, Popen
from tempfile import TemporaryDirectory

SIZES = ((5, 50), (20, 200), (50, 1000))
"""Models and cameras: a few seconds each."""
LARGE = (*SIZES, (200, 5000), (1000, 50_000))
"""The same with two more: half a minute, and ten."""
SPEEDS = {"T4": 1.0, "L4": 0.55}
"""Run times over those on a T4."""
BATCHES = (1, 2, 4, 8, 16)


@dataclass(frozen=True, slots=True)
class Scaled:
    """One plan."""

    models: int
    streams: int
    gpus: int
    took_s: float
    """Processor time."""
    memory_bytes: int
    """Held at most."""
    gap: float
    """Share of the cost that could still be saved at most."""


def scaled(sizes: tuple[tuple[int, int], ...]) -> Iterator[Scaled]:
    """A plan of each size."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        for models, streams in sizes:
            yield _planned(folder, models, streams)


def _planned(folder: Path, models: int, streams: int) -> Scaled:
    scenario, kept = _written(folder, models, streams), folder / "plan.json"
    command = [str(Path(sys.executable).parent / "planner"), "plan", str(scenario), "--no-cache", "-q"]
    with Popen([*command, "--profiles", str(folder / "profiles"), "-o", str(kept)], stdout=DEVNULL) as child:
        _, status, usage = wait4(child.pid, 0)
        child.returncode = waitstatus_to_exitcode(status)
    assert status == 0, f"{scenario.name} ended with {child.returncode}"
    answer = json.loads(kept.read_text(encoding="utf-8"))["recommendation"]
    gap = 1 - answer["lower_bound_usd_per_hour"] / answer["cost_usd_per_hour"]
    took_s = usage.ru_utime + usage.ru_stime
    return Scaled(models, streams, answer["gpu_count"], took_s, usage.ru_maxrss * 1024, gap)


def _written(folder: Path, models: int, streams: int) -> Path:
    """A scenario of so many models and cameras of 10 fps, and a profile of each model on two kinds of GPU."""
    random = Random(5)
    lines = ["name: scale", "predict: never", "models:"]
    for model in range(models):
        floor_s, slope_s = random.uniform(2e-3, 15e-3), random.uniform(0.5e-3, 4e-3)
        weight_bytes = int(random.uniform(50e6, 600e6))
        for gpu, speed in SPEEDS.items():
            latency_s = {str(batch): (floor_s + slope_s * batch) * speed for batch in BATCHES}
            _write_profile(folder / "profiles", f"m{model}", gpu, latency_s, weight_bytes)
        slo_ms = random.choice([100, 150, 200, 400])
        lines.append(f"  - {{name: m{model}, slo: {{latency: {slo_ms} ms, attainment: 95 %}}}}")
    lines.append("streams:")
    lines += [f"  - {{model: m{stream % models}, count: 1, rate: 10 fps}}" for stream in range(streams)]
    lines += ["buy: {gpus: [T4, L4], providers: [aws], max_gpus: 10000}"]
    path = folder / f"{models}x{streams}.yaml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _write_profile(folder: Path, model: str, gpu: str, latency_s: dict[str, float], weight_bytes: int) -> None:
    profile = {
        "schema": "planner.profile/v1",
        "model": model,
        "gpu": gpu,
        "precision": "fp32",
        "weight_bytes": weight_bytes,
        "latency_s": latency_s,
        "workspace_bytes": {batch: 10_000_000 * int(batch) for batch in latency_s},
        "load": {"t0_s": 1e-5, "bytes_per_s": 12e9},
        "latency_cv": 0,
        "latency_evidence": "measured",
        "memory_evidence": "measured",
        "load_evidence": "measured",
        "source": "made up to measure how plans scale",
        "as_of": "2026-07-20",
    }
    folder.mkdir(exist_ok=True)
    (folder / f"{model}-{gpu}.json").write_text(json.dumps(profile), encoding="utf-8")
