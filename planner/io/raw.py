"""Parts and numbers of what was measured, as its JSON has them, whatever else stands there."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

ROUNDED = 0.005
"""Share by which means of the same runs may differ, for they are kept in few digits."""


def part_of(raw: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    """A mapping inside others; empty where there is none."""
    for key in keys:
        raw = raw.get(key) or {}
        if not isinstance(raw, dict):
            return {}
    return raw


def numbers_in(values: object) -> list[float]:
    """The numbers of a list; none where it is no list."""
    listed = values if isinstance(values, list) else []
    return [float(v) for v in listed if isinstance(v, int | float) and not isinstance(v, bool)]


def batch_points(raw: Mapping[str, Any], batch: float) -> list[Mapping[str, Any]]:
    """What was measured of an inference batch, in each session."""
    return [part_of(session, "points", "latency", f"{batch:g}") for session in raw.get("sessions") or [raw]]


def all_runs_s(points: Sequence[Mapping[str, Any]]) -> float | None:
    """Mean time of all runs of a batch, hiccups too; None where no run was kept."""
    runs_s = [numbers_in(part_of(point, "samples").get("wall_s")) for point in points]
    return fmean(map(fmean, filter(None, runs_s))) if any(runs_s) else None


def without_hiccups(raw: Mapping[str, Any], times_s: Mapping[float, float]) -> bool:
    """Whether times by batch are below the mean of all runs, for hiccups among them were left out."""
    return any(
        (all_runs_s(batch_points(raw, batch)) or 0) * (1 - ROUNDED) > time_s for batch, time_s in times_s.items()
    )
