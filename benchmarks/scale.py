"""Scale: plans for more and more models, cameras and GPUs, with profiles that are made up."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import process_time

from planner.api import serving

SIZES = ((5, 50), (20, 200), (50, 1000))
"""Models and cameras; the last takes half a minute."""
LARGE = (*SIZES, (200, 5000))
"""The same with one more, which takes a minute or two."""
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
    gap: float
    """Share of the cost that could still be saved at most."""


def scaled(sizes: tuple[tuple[int, int], ...]) -> Iterator[Scaled]:
    """A plan of each size."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        for models, streams in sizes:
            yield _planned(folder, models, streams)


def _planned(folder: Path, models: int, streams: int) -> Scaled:
    scenario = _written(folder, models, streams)
    began_s = process_time()
    answer = serving.plan(scenario, profiles=(folder / "profiles",)).recommendation
    took_s = process_time() - began_s
    gap = 1 - answer.lower_bound_usd_per_hour / answer.cost_usd_per_hour
    return Scaled(models, streams, answer.gpu_count, took_s, gap)


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
    lines += ["buy: {gpus: [T4, L4], providers: [aws], max_gpus: 1000}"]
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
