"""Curves of accuracy against memory shared, as joint training measures them: the file that planning reads.

Needs no torch.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from calibrate.io.files import named, quoted, read_json
from simulator.errors import InputError
from simulator.world.sharing import Group, Sharing, group_document, read_group, saved_bytes

CURVE_SCHEMA = "planner.sharing/v1"
LARGEST_SIZE = 10**15
"""Bytes that no model has."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One sharing that was trained."""

    sharing: Sharing
    accuracy: Mapping[str, float]
    """By model, over its accuracy alone."""
    wall_s: float
    """That its training took."""

    @property
    def saved_bytes(self) -> int:
        """Memory that need not be held."""
        return saved_bytes(self.sharing)


@dataclass(frozen=True, slots=True)
class SharedCurve:
    """Accuracy against memory shared, as `planner merge train` measured it."""

    models: Mapping[str, int]
    """Bytes of all weights, by model."""
    points: tuple[CurvePoint, ...]
    """In the order they were trained."""


def read_curve(path: Path) -> SharedCurve:
    """A file of schema `planner.sharing/v1`; InputError, in one line, where it is none.

    `models`: by name `weight_bytes` and `accuracy` alone. `groups`: all that were tried, in order: `signature`, `copy`,
    `layer_bytes`, `models`. `points`: each sharing that was trained: `groups` (numbers of those shared), `saved_bytes`,
    `accuracy` by model over that alone, `wall_s`.
    """
    with named(path, "Name a curve that `planner merge train` wrote"):
        raw = read_json(path)
    if not isinstance(raw, dict) or raw.get("schema") != CURVE_SCHEMA:
        raise InputError(f"{path}: is no curve of schema {CURVE_SCHEMA}. `planner merge train` writes one.")
    try:
        listed = [replace(read_group(group), layer_bytes=_size(group["layer_bytes"])) for group in raw["groups"]]
        curve = SharedCurve(
            {str(name): _size(model["weight_bytes"]) for name, model in raw["models"].items()},
            tuple(_point(point, listed) for point in raw["points"]),
        )
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        what = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise InputError(f"{path}: is not as {CURVE_SCHEMA} has it ({what}). Train again.") from None
    for number, point in enumerate(curve.points):
        _possible(f"{path}: points[{number}]", point, raw["points"][number], curve)
    return curve


def _size(value: Any) -> int:
    if not 0 <= int(value) <= LARGEST_SIZE:
        raise ValueError(f"a size must be from 0 to {LARGEST_SIZE}, got {quoted(value)}")
    return int(value)


def _point(raw: Mapping[str, Any], listed: Sequence[Group]) -> CurvePoint:
    chosen = tuple(listed[int(i)] for i in raw["groups"])
    accuracy = {str(model): float(value) for model, value in raw["accuracy"].items()}
    if min((int(i) for i in raw["groups"]), default=0) < 0 or not math.isfinite(int(raw["saved_bytes"])):
        raise ValueError("groups: must be numbers of groups")
    return CurvePoint(chosen, accuracy, float(raw.get("wall_s") or 0.0))


def _possible(where: str, point: CurvePoint, raw: Mapping[str, Any], curve: SharedCurve) -> None:
    """Refuses a point that contradicts itself."""
    if not all(0 <= value < math.inf for value in point.accuracy.values()):
        raise InputError(f"{where}.accuracy: must be numbers, got {dict(point.accuracy)}. Look at the task's metric.")
    if unknown := {m for g in point.sharing for m in g.models} - curve.models.keys():
        raise InputError(f"{where}.groups: shares layers of {min(unknown)}, which is not in `models`. Train again.")
    if int(raw["saved_bytes"]) != point.saved_bytes:
        raise InputError(
            f"{where}.saved_bytes: must be (models - 1) x layer_bytes added up, {point.saved_bytes}, got "
            f"{raw['saved_bytes']}. Train again."
        )


def curve_document(curve: SharedCurve, alone: Mapping[str, float], **more: Any) -> dict[str, Any]:
    """A curve as JSON, for `read_curve`; `alone` is the accuracy of each model by itself, `more` goes beside it."""
    listed = list(dict.fromkeys(group for point in curve.points for group in point.sharing))
    return {
        "schema": CURVE_SCHEMA,
        "models": {m: {"weight_bytes": size, "accuracy": alone[m]} for m, size in curve.models.items()},
        "groups": [group_document(group) for group in listed],
        "points": [
            {
                "groups": [listed.index(group) for group in point.sharing],
                "saved_bytes": point.saved_bytes,
                "accuracy": dict(point.accuracy),
                "wall_s": point.wall_s,
            }
            for point in curve.points
        ],
        **more,
    }
