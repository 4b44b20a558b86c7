"""Assembling: records of several files, and what a person adds, become one profile."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from calibrate.layers.naming import profile_name
from calibrate.library.held import held_evidence, held_numbers
from calibrate.library.memory import room_of
from calibrate.library.published import LINK_SHARE
from calibrate.library.reading import SCHEMA, USUAL_RUNTIME
from calibrate.published import names
from planner.imports.measurements.files import CANONICAL, WISHES, Added, MeasuredFile, known_network, measured_files
from planner.imports.measurements.plausible import doubts_of
from planner.imports.measurements.printed import PER_SAMPLE
from planner.imports.measurements.record import AGREE, ToolMeasurement, plain_name
from planner.model.choices import MeasurementFormat
from planner.units.reading import did_you_mean, known_precision
from planner.units.writing import share
from simulator.errors import InputError
from simulator.world.hardware import GPU
from simulator.world.precision import WEIGHT_BYTES
from simulator.world.profile import Evidence

ALL_HELD = 0.5
"""Of all that layers put out, at most so much lies in memory at once: VGG-16, which holds most, 0.47."""


def profile_of(
    files: Sequence[Path], added: Added, gpus: Mapping[str, GPU], form: MeasurementFormat | None = None
) -> dict[str, Any]:
    """The profile that files of one model make, as JSON has it. InputError, in one line, where they make none."""
    read = measured_files(files, form, added)
    facts = {name: _fact(name, read, added) for name in CANONICAL}
    known = known_network(facts["model"], facts["input"])
    _demand_all(read, facts, added, known)
    _demand_known(facts, gpus)
    _demand_processor(read, gpus[facts["gpu"]])
    points = _by_batch(read, added)
    weight_bytes = added.weight_bytes or _known(points.values(), "weight_bytes")
    weight_bytes = weight_bytes or (_known([*points.values(), known], "params") or 0) * WEIGHT_BYTES[facts["precision"]]
    memory = _workspace(points, facts["precision"], weight_bytes, added, known)
    gpu = gpus[facts["gpu"]]
    times_s = {batch: point.latency_s for batch, point in points.items()}
    doubts = doubts_of(facts, known, gpu, times_s, _named(read))
    spread = max((point.spread for point in points.values() if point.spread is not None), default=None)
    usual, size = names.usual_input(names.architecture(facts["model"])), facts["input"]
    is_other = usual and size != usual and size.isdigit()
    profile = {
        "schema": SCHEMA,
        "model": profile_name(facts["model"], suffix=f".{size}px" if is_other else ""),
        "gpu": gpu.name,
        "precision": facts["precision"],
        "runtime": None if facts["runtime"] == USUAL_RUNTIME else facts["runtime"],
        "weight_bytes": round(weight_bytes),
        "latency_s": {str(batch): time_s for batch, time_s in times_s.items()},
        "latency_cv": spread,
        "workspace_bytes": memory.bytes_by_batch,
        "load": {"t0_s": 0.0, "bytes_per_s": LINK_SHARE * gpu.pcie_bytes_per_s},
        "flops_per_sample": _known(points.values(), "flops_per_sample"),
        "latency_evidence": Evidence.ELSEWHERE.value,
        "memory_evidence": memory.evidence.value,
        "load_evidence": Evidence.ASSUMED.value,
        "source": f"{'; '.join(file.source for file in read)}; input {facts['input']}",
        "as_of": max(file.day for file in read),
        "assumptions": _assumptions(read, memory, spread),
        "doubts": _once(*(file.measurements.doubts for file in read), doubts),
    }
    return {key: value for key, value in profile.items() if value is not None}


def _assumptions(read: Sequence[MeasuredFile], memory: "BatchMemory", spread: float | None) -> list[str]:
    """What the profile takes for granted, as the files do or beyond them."""
    return _once(
        *(file.measurements.assumptions for file in read),
        memory.assumptions,
        [f"Load time was not measured: taken as bytes over {share(LINK_SHARE)} of the host link."],
        ["Spread between runs is not in the files: taken as 0."] if spread is None else [],
    )


def _once(*lists: Sequence[str]) -> list[str]:
    """All texts in order, equal ones once."""
    return list(dict.fromkeys(chain(*lists)))


def _named(read: Sequence[MeasuredFile]) -> str:
    return ", ".join(str(file.path) for file in read)


# Facts


def _fact(name: str, read: Sequence[MeasuredFile], added: Added) -> str:
    """What is said of it, by option or file; empty: nothing. InputError where two say different things."""
    files = {
        point.facts[name]: file.path for file in read for point in file.measurements.points if point.facts.get(name)
    }
    wish: str | None = getattr(added, name)
    if wish and name == "model":  # a person may call it as the scenario does
        return CANONICAL[name](wish)
    sayings = [(CANONICAL[name](text), str(path)) for text, path in files.items()]
    if wish:
        sayings.append((CANONICAL[name](wish), WISHES[name].split(" ")[0]))
    _demand_one(name, sayings)
    return sayings[-1][0] if sayings else ""


def _demand_one(name: str, sayings: Iterable[tuple[str, str]]) -> None:
    """InputError where two say different things, each by its text and who says it."""
    different = {plain_name(text): (text, who) for text, who in sayings}
    if len(different) > 1:
        (one, who), (other, whom), *_ = different.values()
        remedy = f"Name one with {WISHES[name]}" if name == "model" else "Files of one profile are of one thing"
        raise InputError(f"{who}: says {name} `{one}`, and {whom} `{other}`. {remedy}.")


def _demand_known(facts: dict[str, str], gpus: Mapping[str, GPU]) -> None:
    """The names that the catalog has; InputError where it has none of them."""
    kinds = {plain_name(kind): kind for kind in gpus}
    if plain_name(facts["gpu"]) not in kinds:
        hint = did_you_mean(facts["gpu"], [kind for kind, gpu in gpus.items() if not gpu.mig_profile])
        remedy = f"{hint} Name another with --gpu, or add it: planner gpus add.".lstrip()
        raise InputError(f"gpu: `{facts['gpu']}` is not in the catalog. {remedy}")
    facts["gpu"] = kinds[plain_name(facts["gpu"])]
    try:
        facts["precision"] = known_precision(facts["precision"])
    except ValueError as error:
        raise InputError(f"precision {error}") from None


def _demand_processor(read: Sequence[MeasuredFile], gpu: GPU) -> None:
    """InputError where a file is of a processor, and a GPU is said to have run it."""
    of_processor = next((file for file in read if file.measurements.by_processor), None)
    if of_processor and not gpu.cores:
        what = f"was measured on a processor, and {gpu.name} is a GPU"
        remedy = "Name a processor with --gpu, or measure on the GPU"
        raise InputError(f"{of_processor.path}: {what}. {remedy}.")


def _demand_all(
    read: Sequence[MeasuredFile], facts: Mapping[str, str], added: Added, known: names.Architecture | None
) -> None:
    """InputError where nobody said something that a profile needs."""
    unsaid = [name for name, value in facts.items() if not value]
    unsaid += [*_unsaid_of_runs(read, added), *_unsaid_of_memory(read, added, known)]
    if unsaid:
        listed = ", ".join(name.replace("_", " ") for name in unsaid)
        wishes = WISHES | ({"input": f"--input {known.input}"} if known else {})
        each = "batch" in unsaid and len(read) > 1
        more = " Write the batch of each file, in their order: --batch 1,8." if each else ""
        raise InputError(f"{_named(read)}: {listed} not said. Add {' '.join(wishes[name] for name in unsaid)}.{more}")


def _points(read: Sequence[MeasuredFile]) -> list[ToolMeasurement]:
    return list(chain.from_iterable(file.measurements.points for file in read))


def _unsaid_of_runs(read: Sequence[MeasuredFile], added: Added) -> Iterator[str]:
    """What nobody said of how the model ran."""
    if added.batch is None and not all(point.batch for point in _points(read)):
        yield "batch"
    if added.gpu_count is None and any(file.measurements.by_gpus for file in read):
        yield "gpu_count"


def _unsaid_of_memory(read: Sequence[MeasuredFile], added: Added, known: names.Architecture | None) -> Iterator[str]:
    """What nobody said of what the model holds."""
    points = _points(read)
    records = [*points, known]
    if not (added.weight_bytes or _known(records, "weight_bytes", "params")):
        yield "weights"
    held = _known(records, "workspace_bytes", "total_bytes") or _layers_hold(points, known)
    if added.memory_bytes is None and not held:
        yield "memory"


def _known(each: Iterable[object], *figures: str) -> float | None:
    """The first such figure that one of points and networks has."""
    found = (getattr(one, figure, None) for figure in figures for one in each)
    return next(filter(None, found), None)


# Points of one GPU, one for each batch


def _by_batch(read: Sequence[MeasuredFile], added: Added) -> dict[int, ToolMeasurement]:
    """Points by batch; of two that agree the longer, with what either knows of memory."""
    found: dict[int, tuple[ToolMeasurement, str]] = {}
    for file in read:
        for one in file.measurements.points:
            point = _of_one_gpu(file, one, added)
            batch, place = point.batch or 0, f"{file.path}:{one.line}" if one.line else str(file.path)
            if batch in found:
                point = _joined(batch, *found[batch], point, place)
            found[batch] = (point, place)
    return {batch: found[batch][0] for batch in sorted(found)}


def _of_one_gpu(file: MeasuredFile, point: ToolMeasurement, added: Added) -> ToolMeasurement:
    """The point with its batch, as one GPU of the system had it."""
    count = (added.gpu_count or 1) if file.measurements.by_gpus else 1
    batch = point.batch or added.batch or 0
    if point.column == PER_SAMPLE:
        return replace(point, batch=batch, latency_s=point.latency_s * batch * count)
    if batch % count:
        raise InputError(f"{file.path}: {batch} samples are no equal parts for {count} GPUs. Mend --gpu-count.")
    if added.batch and len(file.measurements.points) == 1 and batch != added.batch:
        raise InputError(f"{file.path}: says batch {batch}, and --batch {added.batch}. Leave --batch out.")
    return replace(point, batch=batch // count)


def _joined(batch: int, one: ToolMeasurement, first: str, other: ToolMeasurement, second: str) -> ToolMeasurement:
    longer, shorter = sorted((one, other), key=lambda point: point.latency_s, reverse=True)
    if longer.latency_s > shorter.latency_s * (1 + AGREE):
        times = f"{one.latency_s * 1e3:.4g} ms in {first}, {other.latency_s * 1e3:.4g} ms in {second}"
        raise InputError(f"batch {batch}: {times}. Name one of the two, or the --column that is meant.")
    known = ("weight_bytes", "workspace_bytes", "total_bytes", "params", "activations", "flops_per_sample", "spread")
    return replace(longer, **{name: getattr(shorter, name) for name in known if getattr(longer, name) is None})


# Memory


class BatchMemory(NamedTuple):
    """Bytes besides the weights, by batch."""

    bytes_by_batch: dict[str, int]
    evidence: Evidence
    assumptions: Sequence[str] = ()


def _workspace(
    points: Mapping[int, ToolMeasurement],
    precision: str,
    weight_bytes: float,
    added: Added,
    known: names.Architecture | None,
) -> BatchMemory:
    """As a person said, else as the files have it, else as layers hold it."""
    if added.memory_bytes is not None:
        return _as_said(points, added.memory_bytes)
    held = {batch: _held(point, batch, weight_bytes) for batch, point in points.items()}
    measured = {str(batch): round(size) for batch, size in held.items() if size is not None}
    if measured:
        return BatchMemory(measured, Evidence.ELSEWHERE)
    return _as_layers_hold(points, precision, known)


def _as_said(batches: Collection[int], memory_bytes: float) -> BatchMemory:
    """What a person said of the largest batch, for each of them."""
    size = f"{memory_bytes / 1e6:.4g} MB"
    rule = f"Memory of smaller batches was not said: taken as the {size} of {max(batches)}, the most that they hold."
    of_each = dict.fromkeys(map(str, batches), round(memory_bytes))
    return BatchMemory(of_each, Evidence.ELSEWHERE, [rule] if len(batches) > 1 else [])


def _as_layers_hold(
    points: Mapping[int, ToolMeasurement], precision: str, known: names.Architecture | None
) -> BatchMemory:
    """What layers hold at once for one sample, times the batch, with room for libraries and the allocator."""
    room = room_of(None, _layers_hold(points.values(), known), precision)
    reserved = {str(batch): round(room(batch).reserved) for batch in points}
    rule = "Memory of a batch was not measured: predicted by what layers hold at once, with room for libraries."
    traced = Evidence.PREDICTED if known and known.held else None
    return BatchMemory(reserved, traced or (held_evidence(known.name) if known else Evidence.ASSUMED), [rule])


def _layers_hold(points: Iterable[ToolMeasurement], known: names.Architecture | None) -> float:
    """Numbers that layers hold at once for one sample: as traced, else a share of all that they put out."""
    held = (known.held or held_numbers(known.name, known.input)) if known else None
    if held is not None:
        return held
    return ALL_HELD * (_known([*points, known], "activations") or 0.0)


def _held(point: ToolMeasurement, batch: int, weight_bytes: float) -> float | None:
    if point.total_bytes is None:
        return point.workspace_bytes
    if point.total_bytes <= weight_bytes:
        sizes = f"{point.total_bytes / 1e6:.4g} MB in all, of which weights are {weight_bytes / 1e6:.4g} MB"
        raise InputError(f"batch {batch}: takes {sizes}. Write what lies on the GPU while the batch runs.")
    return point.total_bytes - weight_bytes
