"""Plans on disk: `plan.json`, written whole or not at all, read back and checked."""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import asdict, fields, is_dataclass
from datetime import datetime
from itertools import chain
from os.path import isdir, isfile
from pathlib import Path
from typing import Any, TypeVar

from calibrate.io import files
from calibrate.io.files import FileError, named, quoted, replacing_named, unwritable
from planner.io.schemas import document_of, kind_of
from planner.io.sound import UnsoundError, repeated, sound, uneven
from planner.io.strict_yaml import parse, read_text
from planner.model.plan import SCHEMA, GpuAnswer, ModelAnswer, Plan, PlanWarning, Recommendation
from planner.model.simulation import Simulation
from planner.model.timeline import Timeline
from planner.words.statements import assumption_line, measurement, rejection_line, warning_line
from simulator.errors import InputError
from simulator.world.pipelines import cycle_in

T = TypeVar("T")
NOWHERE = -1
"""GPU of a request that ran on none."""
EXACT = 17
"""Digits from which any float is read as it was."""


class StoreError(InputError):
    """A file that cannot be written, or is no plan; one line a person can read."""


def plain(value: Any, digits: int = 9) -> Any:
    """`value` as JSON has it: nine digits of every float (so that equal runs give equal bytes), null for none."""
    match value:
        case float():
            return float(f"{value:.{digits}g}") if math.isfinite(value) else None
        case dict():
            return {str(key): plain(item, digits) for key, item in value.items()}
        case list() | tuple():
            return [plain(item, digits) for item in value]
    return value


def to_json(answer: Any) -> str:
    """JSON of a dataclass or a mapping, schema first."""
    data = asdict(answer) if is_dataclass(answer) and not isinstance(answer, type) else dict(answer)
    ordered = plain({"schema": data.pop("schema"), **data})
    return written(ordered) + "\n"


def written(value: Any, indent: str = "") -> str:
    """JSON with a line for each key and item, but a column of figures on one line."""
    inner = indent + "  "
    match value:
        case dict() if value:
            lines = [f"{inner}{json.dumps(key)}: {written(item, inner)}" for key, item in value.items()]
            return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
        case [int() | float(), *_] if all(isinstance(item, int | float) for item in value):
            return json.dumps(value, allow_nan=False)
        case [_, *_]:
            return "[\n" + ",\n".join(inner + written(item, inner) for item in value) + f"\n{indent}]"
    return json.dumps(value, allow_nan=False)


def write_text(text: str, path: Path, option: str = "-o") -> None:
    """The same of text that `-o` asked for, or an argument without a name."""
    write_bytes(text.encode(), path, option)


def write_bytes(data: bytes, path: Path, option: str) -> None:
    """Write a file in one step: a reader sees the old one or the new one, never a part.

    `option` named it: the remedy where it cannot be written. A link that a person names there is followed.
    """
    with replacing_named(path, another(option), StoreError) as file:
        file.write(data)


def write_beside(text: str, path: Path) -> None:
    """The same of a file that nobody named, in a folder that somebody did: no link is followed."""
    files.put(path, text.encode(), StoreError, "Name another folder with -o")


def check_target(target: Path, scenario: Path | None = None, kind: str = "plan", option: str = "-o") -> None:
    """StoreError where an answer would replace its own scenario, or a file of another kind, or has no place to be.

    Asked before anything is worked out.
    """
    if scenario and target.exists() and scenario.exists() and target.samefile(scenario):
        raise StoreError(f"{target}: is what the answer is made of. {another(option)}.")
    demand_place(target, option)
    if target.is_file() and not holds(target, kind):
        raise StoreError(f"{target}: exists and is no {kind}. {another(option)}, or remove this one.")


def another(option: str) -> str:
    """The remedy where a file cannot be written that an option named, or an argument without a name."""
    return f"Name another file with {option}" if option else "Name another file"


def demand_place(target: Path, option: str = "-o") -> None:
    """StoreError where no file can be at that place: asked before anything is worked out."""
    if why := unwritable(target):
        raise StoreError(f"{target}: cannot be written: {why}. {another(option)}.")


def holds(path: Path, kind: str) -> bool:
    """True where a file may be replaced by an answer: it holds one of that kind and any version, or nothing at all."""
    try:
        return not path.stat().st_size or kind_of(files.read_json(path)) == kind
    except (OSError, FileError):
        return False


def write_answer(answer: Any, path: Path, option: str = "-o") -> None:
    """Keep an answer as JSON; StoreError where the file holds something else."""
    check_target(path, kind=kind_of({"schema": answer.schema}) or "", option=option)
    write_text(to_json(answer), path, option)


def read_plan(path: Path) -> Plan:
    """The plan in `path`. StoreError, in one line, where it is no plan of this version."""
    return plan_of(read_json(path), path)


def plan_of(data: Any, path: Path) -> Plan:
    """The plan that a file's JSON is."""
    if not isinstance(data, dict) or "schema" not in data:
        raise StoreError(f"{path}: is not a plan: it has no `schema`. Write one with `planner plan SCENARIO`.")
    if (schema := data["schema"]) != SCHEMA:
        way = (
            "Another version of the planner kept it: run `planner plan` again"
            if kind_of(data) == "plan"
            else "Name what `planner plan` keeps, plan.json unless you said so"
        )
        raise StoreError(f"{path}: has schema {quoted(schema)}, not `{SCHEMA}`. {way}.")
    return answer_of(data, path, Plan, "Run `planner plan` again", contradictions)


def answer_of(
    data: Any, path: Path, kind: type[T], remedy: str, contradictions: Callable[[T], Iterable[str]] = lambda _: ()
) -> T:
    """A file's JSON as the answer it was written from; StoreError where no command can have written it."""
    try:
        answer = sound(data, kind)
    except UnsoundError as error:
        raise StoreError(f"{path}: {error}. {remedy}.") from error
    if wrong := next(iter(contradictions(answer)), ""):
        raise StoreError(f"{path}: {wrong}. {remedy}.")
    return answer


def answer_in(path: Path) -> str:
    """What to name instead: of a folder the answer in it, of a scenario what was kept of it, else any other answer."""
    kept = "what a command kept as JSON, such as plan.json"
    if isdir(path):
        found = next((path / name for name in ("study.json", "plan.json") if isfile(path / name)), None)
        return f"Name `{found}`" if found else f"Name {kept}"
    if path.suffix.lower() in (".yaml", ".yml"):
        return f"Name {kept}; `planner plan` reads scenarios"
    return "Name one that a command kept, or make it again"


def read_json(path: Path) -> Any:
    """JSON of a file; StoreError, in one line, where it cannot be had."""
    with named(path, answer_in(path), StoreError):
        try:
            return files.read_json(path)
        except FileError:
            if question := _question_in(path):
                raise StoreError(f"{path}: is {question}. Name the answer that it keeps.") from None
            raise


def _question_in(path: Path) -> str | None:
    """Which kind of question stands in a file instead of an answer, and the command that reads it; None: none."""
    try:
        text = read_text(path)
        return None if text.lstrip().startswith(("{", "[")) else document_of(parse(text).data)
    except ValueError:
        return None


# Contradictions in a plan


def contradictions(plan: Plan) -> Iterator[str]:
    """Statements that no plan written here makes, so that whoever reads one may rely on it."""
    best = plan.recommendation
    try:
        datetime.fromisoformat(plan.created_at)
    except ValueError:
        yield f"created_at: must be a time such as 2026-08-01T12:00:00Z, got {quoted(plan.created_at)}"
    if best.feasible and not best.models:
        yield "recommendation.models: must not be empty in a feasible plan"
    yield from of_recommendation("recommendation", best)
    for i, other in enumerate(plan.alternatives):
        yield from of_recommendation(f"alternatives[{i}]", other)
    yield from of_latency(plan)
    if wrong := [place for place in plan.pareto if not 0 <= place <= len(plan.alternatives)]:
        yield f"pareto: must be from 0 to {len(plan.alternatives)}, got {wrong[0]}"
    if plan.timeline:
        yield from of_timeline(plan.timeline)
    yield from unsaid("rejections", plan.rejections, rejection_line)
    yield from unsaid("warnings", plan.warnings, warning_line)
    yield from unsaid("assumptions", plan.assumptions, assumption_line)
    yield from unsaid(
        "precisions", [PlanWarning(what=one) for outlook in plan.precisions for one in outlook.accuracy], warning_line
    )
    yield from unsaid("measure_next", [one.why for one in plan.measure_next], measurement)


def of_latency(plan: Plan) -> Iterator[str]:
    """Histograms of the models that were recommended: edges that rise, one more than there are counts."""
    names = {model.name for model in plan.recommendation.models}
    for i, seen in enumerate(plan.latency):
        if seen.model not in names:
            yield f"latency[{i}].model: must be one of `recommendation.models`, got {quoted(seen.model)}"
        if seen.counts and len(seen.edges_s) != len(seen.counts) + 1:
            yield f"latency[{i}].edges_s: must be one more than `counts`, got {len(seen.edges_s)}"
        if list(seen.edges_s) != sorted(set(seen.edges_s)) or any(edge <= 0 for edge in seen.edges_s):
            yield f"latency[{i}].edges_s: must grow from above 0"


def of_simulation(run: Simulation) -> Iterator[str]:
    """What cannot be in any simulation."""
    if not run.models:
        yield "models: must not be empty"
    yield from of_fleet("", run.gpus, run.models)
    yield from unsaid("warnings", run.warnings, warning_line)
    yield from unsaid("assumptions", run.assumptions, assumption_line)


def unsaid(place: str, items: Sequence[T], say: Callable[[T], str]) -> Iterator[str]:
    """Statements that lack a subject or a figure of their code, or that stand where their code has no place."""
    for i, one in enumerate(items):
        try:
            say(one)
        except (LookupError, ValueError, OverflowError):
            yield f"{place}[{i}]: lacks a subject or a figure of its code, or its code is none of `{place}`"


def of_recommendation(place: str, one: Recommendation) -> Iterator[str]:
    """Models that run on GPUs which are there, at figures that every plan has."""
    if one.models and not 0 < one.cost_usd_per_hour < math.inf:
        yield f"{place}.cost_usd_per_hour: must be above 0, got {one.cost_usd_per_hour:g}"
    if none := [i for i, bought in enumerate(one.instances) if bought.count < 1]:
        yield f"{place}.instances[{none[0]}].count: must be at least 1, got {one.instances[none[0]].count}"
    if (one.models or one.gpus) and not one.instances:
        yield f"{place}.instances: must not be empty beside models and GPUs, which are theirs"
    elif lost := [gpu for gpu in one.gpus if not 0 <= gpu.machines < len(one.instances)]:
        yield f"{place}.gpus[{lost[0].id}].machines: must be a place in `instances`, got {lost[0].machines}"
    yield from of_fleet(f"{place}.", one.gpus, one.models)


def of_fleet(place: str, gpus: Sequence[GpuAnswer], models: Sequence[ModelAnswer]) -> Iterator[str]:
    """GPUs that have memory, and the models that run on them."""
    ids = [gpu.id for gpu in gpus]
    yield from repeated(f"{place}gpus", ids)
    if without := [gpu for gpu in gpus if gpu.memory_bytes <= 0]:
        yield f"{place}gpus[{without[0].id}].memory_bytes: must be above 0, got {without[0].memory_bytes}"
    yield from repeated(f"{place}models", [model.name for model in models])
    for model in models:
        where = f"{place}models[{model.name}]"
        yield from of_replicas(where, model, set(ids))
        yield from of_figures(where, model)
        yield from of_stages(where, model)


def of_replicas(where: str, model: ModelAnswer, gpus: Set[str]) -> Iterator[str]:
    """Replicas, each on GPUs of the fleet, in batches of at least 1."""
    named = [model.gpus, *(replica.gpus for replica in model.replicas)]
    if lost := [gpu for gpu in chain(*named) if gpu not in gpus]:
        yield f"{where}: runs on {quoted(lost[0])}, which is not among `gpus`"
    if not model.replicas or not all(replica.gpus for replica in model.replicas):
        yield f"{where}.replicas: must each name a GPU"
    if min([model.batch_size, *(replica.batch_size for replica in model.replicas)]) < 1:
        yield f"{where}: must run batches of at least 1"


def of_stages(where: str, model: ModelAnswer) -> Iterator[str]:
    """Stages of a pipeline, each after others of it, in no circle."""
    before = {stage.name: stage.after for stage in model.stages}
    if lost := [name for name in chain(*before.values()) if name not in before]:
        yield f"{where}.stages: come after {quoted(lost[0])}, which is not among them"
    if cycle_in(before):
        yield f"{where}.stages: come after each other in a circle"


def of_figures(where: str, model: ModelAnswer) -> Iterator[str]:
    """An SLO that can be met, and figures that every plan has."""
    if not 0 < model.slo_s < math.inf:
        yield f"{where}.slo_s: must be above 0, got {model.slo_s:g}"
    if not 0 < model.slo_attainment_target <= 1:
        yield f"{where}.slo_attainment_target: must be from 0 to 1, got {model.slo_attainment_target:g}"
    for name in ("max_queue_delay_s", "offered_rps"):
        if math.isnan(getattr(model, name)):
            yield f"{where}.{name}: is missing"


def of_timeline(seen: Timeline) -> Iterator[str]:
    """Columns of one length, whose numbers of GPUs and models exist."""
    if not seen.start_s < seen.end_s:
        yield f"timeline.end_s: must be after `start_s`, got {seen.end_s:g}"
    for name in ("batches", "loads", "memory", "queue", "requests"):
        part = getattr(seen, name)
        columns = {one.name: getattr(part, one.name) for one in fields(part)}
        yield from uneven(f"timeline.{name}", columns)
        least = NOWHERE if name == "requests" else 0
        for column, numbers in columns.items():
            match column:
                case "size" | "bytes" | "length":
                    yield from outside(f"timeline.{name}.{column}", numbers, 0)
                case "gpu":
                    yield from outside(f"timeline.{name}.gpu", numbers, least, len(seen.gpus) - 1)
                case "model":
                    yield from outside(f"timeline.{name}.model", numbers, least, len(seen.models) - 1)


def outside(place: str, numbers: Sequence[int], least: int, most: int | None = None) -> Iterator[str]:
    """The first number of a column that lies outside of its bounds."""
    bounds = f"from {least}" if most is None else f"from {least} to {most}"
    for number in numbers:
        if number < least or (most is not None and number > most):
            yield f"{place}: must be {bounds}, got {number}"
            return
