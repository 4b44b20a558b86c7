"""Telling: what a sweep says on standard error of its points and its files, a line each."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from calibrate.assembling.figures import SIZES, TIMES, in_units
from calibrate.io.points import Point, PointOutcome, What

TIMED = {What.LATENCY: "a batch", What.TRAINING: "a step", What.SOAK: "a batch under load"}


def say(text: str, *, passing: bool = False) -> None:
    """A line on standard error; in a terminal a `passing` one gives way to the next."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}" + ("" if passing else "\n"))
    else:
        sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def amount(points: int, seconds: float) -> str:
    """`80 points, about 3 min`."""
    return f"{points} points, {about(seconds)}"


def about(seconds: float) -> str:
    """`about 40 s`, `about 3 min`, `about 2.5 h`."""
    if seconds < 90:
        return f"about {max(seconds, 1):.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"


def headline(outcome: PointOutcome) -> str:
    """The figure most worth seeing."""
    if unit := TIMED.get(outcome.point.what):
        from calibrate.assembling.runs import pace_s  # SciPy takes a second to import

        each_s = pace_s(outcome)
        return f"{in_units(each_s, TIMES)} {unit}, {outcome.point.batch / each_s:,.0f} samples/s"
    if held_bytes := outcome.values.get("allocated_bytes") or outcome.values.get("device_bytes"):
        return in_units(held_bytes, SIZES)
    return "done"


def title(point: Point) -> str:
    """`lenet fp32: memory of a training step (sgd) at batch 8`."""
    if point.what is What.PROBE:
        return f"device: {point.probe}"
    step = f"training step ({point.optimizer})" if point.optimizer else "inference"
    what = {
        What.LAYERS: "layers",
        What.LOAD: "loading",
        What.MEMORY: f"memory of {step}",
        What.SOAK: f"soak of {step}",
    }.get(point.what, f"time of {step}")
    at = f" at batch {point.batch}" if point.batch else ""
    return f"{point.model}{point.settings.suffix} {point.settings.precision}, {what}{at}"


def doubts(files: Sequence[Path]) -> list[str]:
    """Doubts about the figures, as the files hold them."""
    kept = [(path, json.loads(path.read_text(encoding="utf-8"))) for path in files]
    return [f"Doubt: {path.stem}: {doubt}" for path, raw in kept for doubt in raw.get("doubts", [])]
