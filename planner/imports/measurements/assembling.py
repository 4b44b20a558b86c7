"""Assembling: records of several files, and what a person adds, become one profile."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from calibrate.library.held import held_numbers
from calibrate.library.lookup import PRECISIONS, SCHEMA, USUAL_RUNTIME, profile_name
from calibrate.library.published import LINK_SHARE
from calibrate.published import names
from planner.imports.measurements.formats import read_measurements
from planner.imports.measurements.printed import PER_SAMPLE
from planner.imports.measurements.record import AGREE, MeasurementError, Measurements, ToolMeasurement, plain_name
from planner.model.choices import MeasurementFormat
from planner.units.reading import did_you_mean
from simulator.world.hardware import GPU
from simulator.world.precision import VALUE_BYTES, WEIGHT_BYTES
from simulator.world.profile import Evidence

ALL_HELD = 0.5
"""Of all that layers put out, at most so much lies in memory at once: VGG-16, which holds most, 0.47."""
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
    gpu_count: int | None = None
    weight_bytes: float | None = None
    memory_bytes: float | None = None
    """Of the largest batch, besides the weights."""


@dataclass(frozen=True, slots=True)
class MeasuredFile:
    """A file that was read."""

    path: Path
    said: Measurements
    digest: str
    day: str
    """ISO date that it states, else that of the file."""

    @property
    def source(self) -> str:
        """`trtexec 8.5.0: yolo.log (sha256 0123456789abcdef)`."""
        return f"{self.said.tool}: {self.path.name} (sha256 {self.digest})"


def profile_of(
    files: Sequence[Path], added: Added, gpus: Mapping[str, GPU], form: MeasurementFormat | None = None
) -> dict[str, Any]:
    """The profile that files of one model make, as JSON has it. MeasurementError, in one line, where they make none."""
    read = [_chosen(_read(path, form), added) for path in files]
    facts = {name: _fact(name, read, added) for name in CANONICAL}
    known = _architecture(facts)
    lacking = [name for name, value in facts.items() if not value]
    lacking += _unsaid(read, added, known)
    if lacking:
        listed = ", ".join(name.replace("_", " ") for name in lacking)
        options = " ".join(WISHES[name] for name in lacking)
        raise MeasurementError(f"{_named(read)}: {listed} not said. Add {options}.")
    _demand_known(facts, gpus)
    points = _by_batch(read, added)
    weight_bytes = _weights(points.values(), facts["precision"], added, known)
    held, memory_evidence, memory_assumption = _workspace(points, facts["precision"], weight_bytes, added, known)
    gpu = gpus[facts["gpu"]]
    flops = next((point.flops_per_sample for point in points.values() if point.flops_per_sample), None)
    spreads = [point.spread for point in points.values() if point.spread is not None]
    stated = (text for file in read for text in file.said.assumptions)
    return {
        "schema": SCHEMA,
        "model": _name(facts),
        "gpu": gpu.name,
        "precision": facts["precision"],
        **({"runtime": facts["runtime"]} if facts["runtime"] != USUAL_RUNTIME else {}),
        "weight_bytes": round(weight_bytes),
        "latency_s": {str(batch): point.latency_s for batch, point in points.items()},
        **({"latency_cv": max(spreads)} if spreads else {}),
        "workspace_bytes": held,
        "load": {"t0_s": 0.0, "bytes_per_s": LINK_SHARE * gpu.pcie_bytes_per_s},
        **({"flops_per_sample": flops} if flops else {}),
        "latency_evidence": Evidence.ELSEWHERE.value,
        "memory_evidence": memory_evidence.value,
        "load_evidence": Evidence.ASSUMED.value,
        "source": f"{'; '.join(file.source for file in read)}; input {facts['input']}",
        "as_of": max(file.day for file in read),
        "assumptions": [
            *dict.fromkeys(stated),
            *memory_assumption,
            f"Load time was not measured: taken as bytes over {LINK_SHARE:.0%} of the host link.",
            *(() if spreads else ("Spread between runs is not in the files: taken as 0.",)),
        ],
        "doubts": list(dict.fromkeys(text for file in read for text in file.said.doubts)),
    }


def _read(path: Path, form: MeasurementFormat | None) -> MeasuredFile:
    said, raw = read_measurements(path, form)
    day = said.as_of or datetime.fromtimestamp(path.stat().st_mtime, UTC).date().isoformat()
    return MeasuredFile(path, said, sha256(raw).hexdigest()[:DIGEST], day)


def _named(read: Sequence[MeasuredFile]) -> str:
    return ", ".join(str(file.path) for file in read)


# Which points


def _chosen(file: MeasuredFile, added: Added) -> MeasuredFile:
    """The file's points under one column, of one model at one input in one runtime."""
    points = list(file.said.points)
    columns = list(dict.fromkeys(point.column for point in points))
    if added.column in columns:
        points = [point for point in points if point.column == added.column]
    for fact in ("model", "input", "runtime"):
        points = _of_one(file, points, fact, getattr(added, fact))
    left = list(dict.fromkeys(point.column for point in points))
    if len(left) > 1 or (added.column and left != [added.column]):
        hint = did_you_mean(added.column, columns) if added.column else ""
        listed = ", ".join(filter(None, columns[:8])) or "none that has a name"
        raise MeasurementError(f"{file.path}: has the columns {listed}.{hint} Name one with --column.")
    return replace(file, said=replace(file.said, points=tuple(points)))


def _of_one(file: MeasuredFile, points: list[ToolMeasurement], fact: str, wish: str | None) -> list[ToolMeasurement]:
    """Points whose fact is what was wished, where the file has several."""
    found = {CANONICAL[fact](point.facts[fact]): point.facts[fact] for point in points if point.facts.get(fact)}
    if len(found) < 2:
        return points
    wanted = CANONICAL[fact](wish) if wish else ""
    if wanted not in found:
        hint = did_you_mean(wish, list(found.values())) if wish else ""
        listed = ", ".join(sorted(found.values())[:6])
        what = f"holds {len(found)} {fact}s, such as {listed}"
        raise MeasurementError(f"{file.path}: {what}.{hint} Name one with {WISHES[fact]}.")
    return [point for point in points if CANONICAL[fact](point.facts[fact]) == wanted]


# Facts


def _size(written: str) -> str:
    """`224` for `3x224x224`, `1x3x224x224` and `224x224`."""
    plain = re.sub(r"^(?:1x)?3x(?=\d+x\d+$)", "", written.strip())
    return names.canonical_input(plain)


def _model(written: str) -> str:
    return profile_name(written.strip())


CANONICAL = {
    "model": _model,
    "gpu": names.gpu,
    "precision": names.precision,
    "runtime": names.runtime,
    "input": _size,
}
"""How each is written in a profile."""


def _fact(name: str, read: Sequence[MeasuredFile], added: Added) -> str:
    """What is said of it, by option or file; empty: nothing. MeasurementError where two say different things."""
    said = {point.facts[name]: file.path for file in read for point in file.said.points if point.facts.get(name)}
    wish: str | None = getattr(added, name)
    if wish and name == "model":  # a person may call it as the scenario does
        return _model(wish)
    sayings = [(CANONICAL[name](text), str(path)) for text, path in said.items()]
    if wish:
        sayings.append((CANONICAL[name](wish), WISHES[name].split(" ")[0]))
    different = {plain_name(text): (text, who) for text, who in sayings}
    if len(different) > 1:
        (one, who), (other, whom), *_ = different.values()
        remedy = f"Name one with {WISHES[name]}" if name == "model" else "Files of one profile are of one thing"
        raise MeasurementError(f"{who}: says {name} `{one}`, and {whom} `{other}`. {remedy}.")
    return sayings[-1][0] if sayings else ""


def _demand_known(facts: dict[str, str], gpus: Mapping[str, GPU]) -> None:
    """The names that the catalog has; MeasurementError where it has none of them."""
    kinds = {plain_name(kind): kind for kind in gpus}
    if plain_name(facts["gpu"]) not in kinds:
        hint = did_you_mean(facts["gpu"], [kind for kind, gpu in gpus.items() if not gpu.mig_profile])
        remedy = f"{hint} Name another with --gpu, or add it: planner gpus add.".lstrip()
        raise MeasurementError(f"gpu: `{facts['gpu']}` is not in the catalog. {remedy}")
    facts["gpu"] = kinds[plain_name(facts["gpu"])]
    if facts["precision"] not in PRECISIONS:
        raise MeasurementError(f"precision: `{facts['precision']}` is not known. Write one of {', '.join(PRECISIONS)}.")


def _architecture(facts: Mapping[str, str]) -> names.Architecture | None:
    """What is known of the model at this input; None: nothing."""
    size = facts["input"]
    found = names.facts_of(names.architecture(facts["model"]), size)
    return found if found and found.input == size else None


def _name(facts: Mapping[str, str]) -> str:
    """The model, with its input where a known network does not run at its usual one: `resnet50.448px`."""
    usual, size = names.usual_input(names.architecture(facts["model"])), facts["input"]
    other = usual and size != usual and size.isdigit()
    return profile_name(facts["model"], suffix=f".{size}px" if other else "")


def _unsaid(read: Sequence[MeasuredFile], added: Added, known: names.Architecture | None) -> Iterator[str]:
    """What else a profile needs and nobody said."""
    points = [point for file in read for point in file.said.points]
    if added.batch is None and any(point.batch is None for point in points):
        yield "batch"
    if added.gpu_count is None and any(file.said.by_gpus for file in read):
        yield "gpu_count"
    if (
        added.weight_bytes is None
        and not any(p.weight_bytes or p.params for p in points)
        and not (known and known.params)
    ):
        yield "weights"
    has_memory = any(p.workspace_bytes or p.total_bytes or p.activations for p in points)
    if added.memory_bytes is None and not has_memory and not (known and known.activations):
        yield "memory"


# Points of one GPU, one for each batch


def _by_batch(read: Sequence[MeasuredFile], added: Added) -> dict[int, ToolMeasurement]:
    """Points by batch; of two that agree the longer, with what either knows of memory."""
    found: dict[int, tuple[ToolMeasurement, str]] = {}
    for file in read:
        for one in file.said.points:
            point = _of_one_gpu(file, one, added)
            batch, place = point.batch or 0, f"{file.path}:{one.line}" if one.line else str(file.path)
            if batch in found:
                point = _joined(batch, *found[batch], point, place)
            found[batch] = (point, place)
    return {batch: found[batch][0] for batch in sorted(found)}


def _of_one_gpu(file: MeasuredFile, point: ToolMeasurement, added: Added) -> ToolMeasurement:
    """The point with its batch, as one GPU of the system had it."""
    count = (added.gpu_count or 1) if file.said.by_gpus else 1
    batch = point.batch or added.batch or 0
    if point.column == PER_SAMPLE:
        return replace(point, batch=batch, latency_s=point.latency_s * batch * count)
    if batch % count:
        raise MeasurementError(f"{file.path}: {batch} samples are no equal parts for {count} GPUs. Mend --gpu-count.")
    if added.batch and len(file.said.points) == 1 and batch != added.batch:
        raise MeasurementError(f"{file.path}: says batch {batch}, and --batch {added.batch}. Leave --batch out.")
    return replace(point, batch=batch // count)


def _joined(batch: int, one: ToolMeasurement, first: str, other: ToolMeasurement, second: str) -> ToolMeasurement:
    longer, shorter = sorted((one, other), key=lambda point: point.latency_s, reverse=True)
    if longer.latency_s > shorter.latency_s * (1 + AGREE):
        times = f"{one.latency_s * 1e3:.4g} ms in {first}, {other.latency_s * 1e3:.4g} ms in {second}"
        raise MeasurementError(f"batch {batch}: {times}. Name one of the two, or the --column that is meant.")
    known = ("weight_bytes", "workspace_bytes", "total_bytes", "params", "activations", "flops_per_sample", "spread")
    return replace(longer, **{name: getattr(shorter, name) for name in known if getattr(longer, name) is None})


# Memory


def _weights(points: Any, precision: str, added: Added, known: names.Architecture | None) -> float:
    """Bytes of the weights: as said, as the file has them, else parameters at this precision."""
    params = next((point.params for point in points if point.params), known.params if known else None)
    held = (point.weight_bytes for point in points if point.weight_bytes)
    return added.weight_bytes or next(held, None) or (params or 0) * WEIGHT_BYTES[precision]


def _workspace(
    points: Mapping[int, ToolMeasurement],
    precision: str,
    weight_bytes: float,
    added: Added,
    known: names.Architecture | None,
) -> tuple[dict[str, int], Evidence, Sequence[str]]:
    """Bytes besides the weights by batch, where they are from, and what is assumed."""
    if added.memory_bytes is not None:
        each = added.memory_bytes / max(points)
        size = f"{added.memory_bytes / 1e6:.4g} MB of {max(points)}"
        told = f"Memory of a batch is as it was said: {size}, others in proportion."
        return {str(batch): round(each * batch) for batch in points}, Evidence.ASSUMED, [told]
    seen = {batch: _held(point, batch, weight_bytes) for batch, point in points.items()}
    measured = {str(batch): round(size) for batch, size in seen.items() if size is not None}
    if measured:
        return measured, Evidence.ELSEWHERE, ()
    values = next((p.activations for p in points.values() if p.activations), known.activations if known else None)
    held = held_numbers(known.name, known.input) if known else None
    each = (ALL_HELD * (values or 0) if held is None else held) * VALUE_BYTES[precision]
    rule = "Memory of a batch was not measured: taken as the most that layers hold at once."
    return {str(batch): round(each * batch) for batch in points}, Evidence.ASSUMED, [rule]


def _held(point: ToolMeasurement, batch: int, weight_bytes: float) -> float | None:
    if point.total_bytes is None:
        return point.workspace_bytes
    if point.total_bytes <= weight_bytes:
        sizes = f"{point.total_bytes / 1e6:.4g} MB in all, of which weights are {weight_bytes / 1e6:.4g} MB"
        raise MeasurementError(f"batch {batch}: takes {sizes}. Write what lies on the GPU while the batch runs.")
    return point.total_bytes - weight_bytes
