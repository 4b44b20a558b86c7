"""The answer to a study as data: `study.json`, and the same as CSV and Parquet. Equal studies give equal bytes."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calibrate.io.files import quoted, replacing
from calibrate.io.tables import csv_text
from planner.io.sound import repeated, uneven
from planner.io.store import StoreError, answer_of, to_json, write_beside
from planner.questions.studies.engine import Ask
from planner.questions.studies.figures import Figure, is_figure, middle
from planner.questions.studies.scenario import Label, output_of

SCHEMA = "planner.study/v2"
JSON, CSV, PARQUET = "study.json", "results.csv", "results.parquet"
ENDS = ("low", "high")


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisAnswer:
    """An axis of the study."""

    name: str
    values: tuple[Label, ...]
    """As they were written."""
    numbers: tuple[float, ...] | None
    """The same as numbers, for plots; None where some value is a word."""
    unit: str
    """Unit of the numbers."""
    log: bool
    """The steps are equal ratios."""
    reference: int
    """Number of the value that the base has, else of the one in the middle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputAnswer:
    """A figure that was kept."""

    name: str
    unit: str
    better: str
    """`low`, `high` or empty."""
    interval: bool
    """It has `low` and `high` besides `mid`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchAnswer:
    """The threshold that was searched for."""

    path: str
    between: tuple[Label, Label]
    unit: str
    find: str
    where: tuple[str, ...]
    tolerance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PointAnswer:
    """One point. With a search: the last value that held, or where none did, the end that is easiest to hold."""

    axes: Mapping[str, Label]
    threshold: Figure
    """`mid` held; the threshold lies between `low` and `high`. None where nothing was searched for, or nothing held."""
    values: Mapping[str, Figure]
    """By output."""
    evidence: str | None
    """The weakest that the figures rest on."""
    predicted: bool
    """Some figure of serving rests on a prediction's bad end: the model was not measured on that GPU."""
    speed_evidence: str | None = None
    """Where the speeds of serving come from, by `speed_evidence_of`; None where nothing was replayed."""
    uncertain: bool = False
    """Whether each replication draws some of them from a band."""
    feasible: bool
    """Its SLOs are met; with a search: some value held."""
    failed: bool
    """It has no answer at all."""
    reason: str
    """Why it is not feasible, or failed."""
    tried: int
    """Values that were tried: 1, more with a search."""
    key: str
    """SHA-256 of all inputs; empty where they could not be made out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Swing:
    """The effect of one axis on one output, the others at their `reference`."""

    output: str
    axis: str
    low: Label
    """Value of the axis with the least figure."""
    low_figure: float
    high: Label
    """Value of the axis with the greatest."""
    high_figure: float
    reference_figure: float | None
    """At the axis' reference; None where that point has none."""
    left_out: tuple[Label, ...]
    """Values whose points are not feasible or failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyAnswer:
    """The answer to a study."""

    schema: str = SCHEMA
    name: str
    ask: Ask
    base: str
    """The scenario's file, as the study names it."""
    seed: int | None
    """Start of all random numbers, the same for all points; None where none are drawn."""
    versions: Mapping[str, str]
    fingerprint: str
    """SHA-256 of catalog, profiles and versions."""
    prices_as_of: str
    """Oldest price in the catalog."""
    on: str
    """GPUs that were simulated; empty where something else was asked."""
    changes: tuple[str, ...]
    """Changes of the base, for all points."""
    design: str
    axes: tuple[AxisAnswer, ...]
    search: SearchAnswer | None
    outputs: tuple[OutputAnswer, ...]
    points: tuple[PointAnswer, ...]
    """The last axis fastest."""
    sensitivity: tuple[Swing, ...]
    """By output; of each, the axis that matters most first."""


def read_study(data: Any, path: Path) -> StudyAnswer:
    """The study that a file's JSON is; StoreError, in one line, where no study can have written it."""
    return answer_of(data, path, StudyAnswer, "Run `planner study` again", contradictions)


def contradictions(answer: StudyAnswer) -> Iterator[str]:
    """Everything in a study that no run can have written."""
    yield from repeated("axes", [axis.name for axis in answer.axes])
    yield from repeated("outputs", [output.name for output in answer.outputs])
    for i, axis in enumerate(answer.axes):
        yield from wrong_axis(f"axes[{i}]", axis)
    for i, output in enumerate(answer.outputs):
        try:
            output_of(output.name, answer.ask)
        except KeyError:
            yield f"outputs[{i}].name: must be a figure of {answer.ask}, got {quoted(output.name)}"
    for i, point in enumerate(answer.points):
        yield from (f"points[{i}].{wrong}" for wrong in wrong_point(answer, point))
    for i, swing in enumerate(answer.sensitivity):
        place = f"sensitivity[{i}]"
        values = {axis.name: axis.values for axis in answer.axes}
        outputs = {output.name for output in answer.outputs} | {"threshold"}
        if swing.axis not in values or swing.output not in outputs:
            yield f"{place}: must be of an axis and an output, got {quoted(swing.axis)}, {quoted(swing.output)}"
        elif not {swing.low, swing.high, *swing.left_out} <= set(values[swing.axis]):
            yield f"{place}: must be at values of its axis"


def wrong_axis(place: str, axis: AxisAnswer) -> Iterator[str]:
    """Everything that no axis can be."""
    if not axis.values or len(set(axis.values)) < len(axis.values):
        yield f"{place}.values: must be different values, one at least"
    if not 0 <= axis.reference < len(axis.values):
        yield f"{place}.reference: must be from 0 to {len(axis.values) - 1}, got {axis.reference}"
    if axis.numbers is None:
        return
    yield from uneven(place, {"values": axis.values, "numbers": axis.numbers})
    if any(map(math.isnan, axis.numbers)) or (axis.log and min(axis.numbers) <= 0):
        yield f"{place}.numbers: must be numbers, above 0 where steps are equal ratios"


def wrong_point(answer: StudyAnswer, point: PointAnswer) -> Iterator[str]:
    """Everything that no point of this study can be."""
    if point.axes.keys() != {axis.name for axis in answer.axes}:
        yield "axes: must have each axis of the study"
    else:
        for axis in answer.axes:
            value = point.axes[axis.name]
            if value not in axis.values:
                yield f"axes[{axis.name}]: must be one of its values, got {quoted(value)}"
    numbers = {output.name: output_of(output.name, answer.ask).about.number for output in answer.outputs}
    for name, figure in {"threshold": point.threshold, **point.values}.items():
        number = numbers.get(name, True)
        if figure is not None and not is_figure(figure, number=number):
            kind = "a number" if number else "a text"
            yield f"values[{name}]: must be {kind}, got {quoted(figure)}"


def sensitivity(
    axes: Sequence[AxisAnswer], outputs: Sequence[str], points: Sequence[PointAnswer], ask: Ask
) -> tuple[Swing, ...]:
    """The effect of each axis on each output, the others held at their reference."""
    at = {tuple(point.axes.values()): point for point in points}
    base = tuple(axis.values[axis.reference] for axis in axes)
    found = []
    for output in outputs:
        swings = [s for i in range(len(axes)) if (s := swing(axes, i, output, at, base, ask))]
        found += sorted(swings, key=lambda s: (s.low_figure - s.high_figure, s.axis))
    return tuple(found)


def swing(
    axes: Sequence[AxisAnswer],
    i: int,
    output: str,
    at: Mapping[tuple[Label, ...], PointAnswer],
    base: tuple[Label, ...],
    ask: Ask,
) -> Swing | None:
    """The effect of axis number `i` on an output; None where fewer than two of its points have that figure."""
    figures: dict[Label, float] = {}
    left_out = []
    for value in axes[i].values:
        point = at.get((*base[:i], value, *base[i + 1 :]))
        counts = point is not None and not point.failed and (point.feasible or ask is Ask.SIMULATE)
        number = figure_of(point, output) if point and counts else math.nan
        if math.isfinite(number):
            figures[value] = number
        else:
            left_out.append(value)
    if len(figures) < 2:
        return None
    low, high = min(figures, key=figures.__getitem__), max(figures, key=figures.__getitem__)
    return Swing(
        output=output,
        axis=axes[i].name,
        low=low,
        low_figure=figures[low],
        high=high,
        high_figure=figures[high],
        reference_figure=figures.get(base[i]),
        left_out=tuple(left_out),
    )


def figure_of(point: PointAnswer, output: str) -> float:
    """The number of an output, or of the threshold; NaN where there is none."""
    return middle(point.threshold if output == "threshold" else point.values.get(output))


def columns(answer: StudyAnswer) -> dict[str, str]:
    """Columns of the CSV, each with its type in SQL: first those of the axes."""
    found = found_columns(answer)
    types = ["VARCHAR" if axis.numbers is None or axis.unit else "DOUBLE" for axis in answer.axes]
    return dict(zip(axis_columns(answer.axes, found), types, strict=True)) | found


def axis_columns(axes: Sequence[AxisAnswer], found: Iterable[str]) -> list[str]:
    """The axes' names, after `axis.` where another column is called so; SQL sees no capitals in names."""
    taken = {name.casefold() for name in found}
    names = []
    for axis in axes:
        name = axis.name
        while name.casefold() in taken:
            name = f"axis.{name}"
        taken.add(name.casefold())
        names.append(name)
    return names


def found_columns(answer: StudyAnswer) -> dict[str, str]:
    """Columns of answers."""
    types: dict[str, str] = {}
    if answer.search:
        types |= dict.fromkeys(("threshold", "threshold_low", "threshold_high"), "DOUBLE")
    for output in answer.outputs:
        known = output_of(output.name, answer.ask)
        types[output.name] = "DOUBLE" if known.about.number else "VARCHAR"
        if output.interval:
            types |= dict.fromkeys((f"{output.name}_{end}" for end in ENDS), "DOUBLE")
    return types | {
        "feasible": "BOOLEAN",
        "failed": "BOOLEAN",
        "evidence": "VARCHAR",
        "predicted": "BOOLEAN",
        "speed_evidence": "VARCHAR",
        "uncertain": "BOOLEAN",
        "reason": "VARCHAR",
        "tried": "BIGINT",
        "key": "VARCHAR",
    }


def flat(point: PointAnswer, answer: StudyAnswer) -> dict[str, object]:
    """The answer to a point as a row; None is an empty cell."""
    figures = {output.name: point.values.get(output.name) for output in answer.outputs}
    if answer.search:
        figures = {"threshold": point.threshold} | figures
    row: dict[str, object] = {}
    for name, figure in figures.items():
        if isinstance(figure, dict):
            row |= {name: figure["mid"]} | {f"{name}_{end}": figure[end] for end in ENDS}
        else:
            row[name] = figure
    names = ("feasible", "failed", "evidence", "predicted", "speed_evidence", "uncertain", "reason", "tried", "key")
    return row | {name: getattr(point, name) for name in names}


def cell(value: object) -> object:
    """A value as a CSV has it."""
    return str(value).lower() if isinstance(value, bool) else value


def write(answer: StudyAnswer, directory: Path) -> list[str]:
    """Write all forms; names of those that were written. Parquet takes duckdb."""
    write_beside(to_json(answer), directory / JSON)
    names = columns(answer)
    axes = list(zip(names, answer.axes, strict=False))

    def cells(point: PointAnswer) -> list[object]:
        row = {name: point.axes[axis.name] for name, axis in axes} | flat(point, answer)
        return [cell(row.get(name)) for name in names]

    write_beside(csv_text([*names], map(cells, answer.points)), directory / CSV)
    return [JSON, CSV, *([PARQUET] if write_parquet(answer, directory) else [])]


def write_parquet(answer: StudyAnswer, directory: Path) -> bool:
    """The table of the CSV with its types; False where duckdb is not installed."""
    try:
        import duckdb
    except ImportError:
        return False
    types = ", ".join(f"{literal(name)}: {literal(kind)}" for name, kind in columns(answer).items())
    table = f"read_csv({literal(str(directory / CSV))}, header=true, auto_detect=false, columns={{{types}}})"
    try:
        with replacing(directory / PARQUET) as file, duckdb.connect() as db:
            db.execute("SET threads = 1")  # so that the same rows make the same file
            db.execute(f"COPY (SELECT * FROM {table}) TO {literal(file.name)} (FORMAT parquet, USE_TMP_FILE false)")
    except (OSError, duckdb.Error) as error:
        raise StoreError(f"{directory / PARQUET}: cannot be written: {' '.join(str(error).split())}") from error
    return True


def literal(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"
