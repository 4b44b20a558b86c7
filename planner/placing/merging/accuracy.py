"""Accuracy of models that share layers: assumed by a rule, or from a table of what was measured."""

import csv
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from calibrate.io.files import FileError, quoted, read_text
from planner.placing.merging.layers import MergeError
from simulator.world.sharing import Judge, Sharing, shared_bytes

GEMEL_SHARE = 0.607 / 0.86
"""Of what could be shared, GEMEL (NSDI'23) shared this much at 95 % of the accuracy, at best: 60.7 of 86 %."""
GEMEL_TARGET = 0.95


def assumed_harmless(sharing: Sharing) -> dict[str, float]:
    """Accuracy over that alone under the rule `harmless`: no sharing costs any."""
    return dict.fromkeys(shared_bytes(sharing), 1.0)


def assumed_gemel(could: Mapping[str, int]) -> Judge:
    """The rule `gemel`: accuracy falls on a straight line to 95 % where a model shares 70.6 % of what it could.

    `could`: bytes of each model that some other has too. GEMEL (NSDI'23) reports 86 % shareable and 60.7 % shared at
    95 % of the accuracy, each for the best of its workloads; the straight line and that it holds for each model by
    itself are assumed. 35.3 % shared: 97.5 %.
    """

    def judge(sharing: Sharing) -> dict[str, float]:
        return {
            model: max(0.0, 1 - (1 - GEMEL_TARGET) * size / could[model] / GEMEL_SHARE)
            for model, size in shared_bytes(sharing).items()
        }

    return judge


LARGEST_TABLE_BYTES = 1_000_000
TABLE_COLUMNS = frozenset({"model", "shared_fraction", "accuracy"})
Rows = Mapping[str, Sequence[tuple[float, float]]]
"""Accuracy over that alone by share of a model's bytes that is shared, ascending, by model; `*` is for any other."""


def read_table(path: Path) -> Rows:
    """A CSV with the columns `model`, `shared_fraction` and `accuracy`; MergeError names the line that is wrong."""
    rows: dict[str, dict[float, float]] = {}
    for number, row in enumerate(_table_rows(path), start=2):
        share, accuracy = _point(row)
        if not 0 <= share <= 1 or not 0 <= accuracy < math.inf:
            got = quoted(f"{row['shared_fraction']} and {row['accuracy']}")
            raise MergeError(f"{path}: row {number}: a share from 0 to 1 and an accuracy are wanted, got {got}.")
        rows.setdefault(str(row["model"]), {})[share] = accuracy
    if not rows:
        raise MergeError(f"{path}: holds no row. Write one for each share that was measured.")
    return {model: tuple(sorted(points.items())) for model, points in rows.items()}


def _table_rows(path: Path) -> list[dict[str, str]]:
    """The rows of the file, all columns there."""
    try:
        lines = read_text(path, LARGEST_TABLE_BYTES).splitlines()
    except FileError as error:
        raise MergeError(f"{path}: {error}. Name a CSV file.") from None
    reader = csv.DictReader(line for line in lines if line and not line.startswith("#"))
    try:
        missing = TABLE_COLUMNS - set(reader.fieldnames or ())
        rows = list(reader)
    except csv.Error as error:
        raise MergeError(f"{path}: is not CSV: {error}. Mend row {reader.line_num}.") from None
    if missing:
        names = ", ".join(sorted(TABLE_COLUMNS))
        raise MergeError(f"{path}: must have the columns {names}. Write them in the first line.")
    return rows


def _point(row: Mapping[str, str]) -> tuple[float, float]:
    """Share and accuracy; NaN where one is no number."""
    try:
        return float(row["shared_fraction"]), float(row["accuracy"])
    except (TypeError, ValueError):  # a short row has None
        return math.nan, math.nan


def tabled(rows: Rows, sizes: Mapping[str, int]) -> Judge:
    """Accuracy from a measured table: on a line between its points, and 0 beyond the largest share measured.

    `sizes`: bytes of each model that count. A table that begins above a share of 0 begins there with 1.
    """

    def judge(sharing: Sharing) -> dict[str, float]:
        accuracy = {}
        for model, size in shared_bytes(sharing).items():
            points = rows.get(model) or rows.get("*", ())
            accuracy[model] = interpolated([(0.0, 1.0), *points], size / sizes[model])
        return accuracy

    return judge


def interpolated(points: Sequence[tuple[float, float]], at: float) -> float:
    """On a straight line between neighbours; 0 beyond the last point."""
    if at > points[-1][0] + 1e-12:
        return 0.0
    for (x0, y0), (x1, y1) in pairwise(points):
        if at <= x1 + 1e-12:
            return y1 if x1 == x0 else y0 + (y1 - y0) * min(1.0, (at - x0) / (x1 - x0))
    return points[-1][1]
