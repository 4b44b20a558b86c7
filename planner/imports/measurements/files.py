"""Files: what is meant of each, by what it holds and what a person adds."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from calibrate.layers.facts import facts as layers_of
from calibrate.layers.facts import named, shipped
from calibrate.layers.naming import profile_name
from calibrate.library.held import counted as counts_of
from calibrate.published import names
from planner.imports.measurements.formats import read_measurements
from planner.imports.measurements.record import Measurements, ToolMeasurement
from planner.model.choices import MeasurementFormat
from planner.prediction.predict import is_alike
from planner.units.reading import did_you_mean
from planner.units.writing import counted
from simulator.errors import InputError

DIGEST = 16
"""Hexadecimal digits of a file's SHA-256 that a profile keeps: enough to tell it from any other."""
WISHES = {
    "model": "--model NAME",
    "gpu": "--gpu KIND",
    "precision": "--precision P",
    "runtime": "--runtime NAME",
    "input": "--input 224",
    "batch": "--batch N",
    "gpu_count": "--gpu-count N",
    "weights": "--weights '97 MB'",
    "memory": "--memory '160 MB'",
}
"""The option that says what files did not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """What a person says of files, beside them; None: the files are to say it."""

    model: str | None = None
    gpu: str | None = None
    precision: str | None = None
    runtime: str | None = None
    input: str | None = None
    column: str | None = None
    batch: int | None = None
    batches: Sequence[int] | None = None
    """Of each file in turn, instead of `batch`."""
    gpu_count: int | None = None
    weight_bytes: float | None = None
    memory_bytes: float | None = None
    """Of the largest batch, besides the weights."""


@dataclass(frozen=True, slots=True)
class MeasuredFile:
    """A file that was read."""

    path: Path
    measurements: Measurements
    digest: str
    day: str
    """ISO date that it states, else that of the file."""

    @property
    def source(self) -> str:
        """`trtexec 8.5.0: yolo.log (sha256 0123456789abcdef)`."""
        return f"{self.measurements.tool}: {self.path.name} (sha256 {self.digest})"


def _size(written: str) -> str:
    """`224` for `3x224x224`, `1x3x224x224` and `224x224`."""
    plain = re.sub(r"^(?:1x)?3x(?=\d+x\d+$)", "", written.strip())
    return names.canonical_input(plain)


CANONICAL = {
    "model": lambda written: profile_name(written.strip()),
    "gpu": names.gpu,
    "precision": names.precision,
    "runtime": names.runtime,
    "input": _size,
}
"""How each is written in a profile."""


def measured_files(files: Sequence[Path], form: MeasurementFormat | None, added: Added) -> Sequence[MeasuredFile]:
    """What is meant of each file, with the batch that a person says of it; InputError where that is another."""
    read = []
    for path in files:
        measurements, raw = read_measurements(path, form)
        day = measurements.as_of or datetime.fromtimestamp(path.stat().st_mtime, UTC).date().isoformat()
        read.append(_chosen(MeasuredFile(path, measurements, sha256(raw).hexdigest()[:DIGEST], day), added))
    if not added.batches:
        return read
    if len(added.batches) != len(read):
        what = f"names {len(added.batches)} batches for {counted(len(read), 'file')}"
        raise InputError(f"--batch: {what}. Name one for each, in their order.")
    return [_of_batch(file, batch) for file, batch in zip(read, added.batches, strict=True)]


def _of_batch(file: MeasuredFile, batch: int) -> MeasuredFile:
    if own := next((one.batch for one in file.measurements.points if one.batch not in (None, batch)), None):
        raise InputError(f"{file.path}: says batch {own}, and --batch {batch}. Mend --batch.")
    points = tuple(replace(one, batch=batch) for one in file.measurements.points)
    return replace(file, measurements=replace(file.measurements, points=points))


def _chosen(file: MeasuredFile, added: Added) -> MeasuredFile:
    """The file's points under one column, of one model at one input in one runtime."""
    points = [point for point in file.measurements.points if point.column == added.column] or list(
        file.measurements.points
    )
    for fact in ("model", "input", "runtime"):
        points = _of_one(file, points, fact, getattr(added, fact))
    _demand_one_column(file, points, added.column)
    return replace(file, measurements=replace(file.measurements, points=tuple(points)))


def _demand_one_column(file: MeasuredFile, points: Sequence[ToolMeasurement], wish: str | None) -> None:
    """InputError where these points of the file are of several columns, or of another than was wished."""
    found = {point.column for point in points}
    if len(found) > 1 or (wish and wish not in found):
        columns = list(dict.fromkeys(point.column for point in file.measurements.points))
        listed = ", ".join(filter(None, columns[:8])) or "none that has a name"
        hint = did_you_mean(wish or "", columns)
        raise InputError(f"{file.path}: has the columns {listed}.{hint} Name one with --column.")


def _of_one(file: MeasuredFile, points: list[ToolMeasurement], fact: str, wish: str | None) -> list[ToolMeasurement]:
    """Points whose fact is what was wished, where the file has several."""
    found = {CANONICAL[fact](point.facts[fact]): point.facts[fact] for point in points if point.facts.get(fact)}
    if len(found) < 2:
        return points
    wanted = CANONICAL[fact](wish) if wish else ""
    if wanted not in found:
        listed = ", ".join(sorted(found.values())[:6])
        what = f"holds {len(found)} {fact}s, such as {listed}"
        hint = did_you_mean(wish or "", list(found.values()))
        raise InputError(f"{file.path}: {what}.{hint} Name one with {WISHES[fact]}.")
    return [point for point in points if CANONICAL[fact](point.facts[fact]) == wanted]


def known_network(model: str, written: str) -> names.Architecture | None:
    """What is known of the model at this input, by its own layers first, else at the usual one where none is said."""
    if not model:
        return None
    name = names.architecture(model)
    size = written or names.usual_input(name)
    found = (_of_package(model, name), names.facts_of(name, size))
    return next((one for one in found if one and (one.input == size or not written)), None)


def _of_package(model: str, name: str) -> names.Architecture | None:
    """What the shipped layers of a package's model say; None where there are none of that name."""
    of_plain = shipped(model)
    full = next((one for one in named() if profile_name(one) == model or [one] == of_plain), None)
    layers = layers_of(full) if full else None
    return counts_of(layers, name if is_alike(layers, name) else layers.model) if layers else None
