"""Plans on disk: `plan.json`, written whole or not at all, read back and checked."""

import json
import math
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, is_dataclass
from datetime import datetime
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any, TypeVar

from planner.plans import SCHEMA, Plan
from simulator.errors import InputError

T = TypeVar("T")


class StoreError(InputError):
    """A file that cannot be written, or is no plan; one line a person can read."""


def plain(value: Any) -> Any:
    """`value` as JSON has it: nine digits of every float (so that equal runs give equal bytes), null for none."""
    match value:
        case float():
            return float(f"{value:.9g}") if math.isfinite(value) else None
        case dict():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
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


def write_text(text: str, path: Path) -> None:
    """The same of text that `-o` asked for."""
    write_bytes(text.encode(), path, "-o")


def write_bytes(data: bytes, path: Path, option: str) -> None:
    """Write a file in one step: a reader sees the old one or the new one, never a part.

    `option` named it: the way out where it cannot be written.
    """
    target = path.resolve()
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        if target.exists() and not target.is_file():  # a pipe or a device cannot be replaced
            target.write_bytes(data)
            return
        part.write_bytes(data)
        part.replace(target)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise StoreError(f"{path}: cannot be written: {error.strerror}. Name another file with {option}.") from error


def check_target(target: Path, scenario: Path | None = None) -> None:
    """StoreError where a plan would replace its own scenario, or a file that holds no answer."""
    if scenario and target.exists() and scenario.exists() and target.samefile(scenario):
        raise StoreError(f"{target}: is the scenario itself. Name another file with -o.")
    if target.is_file() and not is_plan(target):
        raise StoreError(f"{target}: exists and is no plan. Name another file with -o, or remove this one.")


def is_plan(path: Path) -> bool:
    """Whether a file may be replaced by a plan: it holds a plan of any version, or nothing at all."""
    try:
        text = path.read_text(encoding="utf-8")
        data = json.loads(text) if text.strip() else {"schema": SCHEMA}
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(data, dict) and str(data.get("schema")).startswith("planner.plan/")


def write_plan(plan: Plan, path: Path) -> None:
    """Keep a plan as `plan.json`."""
    write_text(to_json(plan), path)


def typed(data: Any, kind: type[T]) -> T:
    """JSON as the dataclass it was written from; pydantic's ValidationError where it is none.

    JSON has no NaN, so a figure that does not exist is written as null: null where a number must be is NaN again.
    """
    from pydantic import TypeAdapter, ValidationError

    adapter = TypeAdapter(kind)
    try:
        return adapter.validate_python(data)
    except ValidationError as error:
        for gap in error.errors():
            if gap["type"] == "float_type" and gap["input"] is None:
                *way, last = gap["loc"]
                reduce(getitem, way, data)[last] = math.nan
    return adapter.validate_python(data)


def read_plan(path: Path) -> Plan:
    """The plan in `path`. StoreError, in one line, where it is no plan of this version."""
    from pydantic import ValidationError

    data = read_json(path)
    if not isinstance(data, dict) or "schema" not in data:
        raise StoreError(f"{path}: is not a plan: it has no `schema`. Write one with `planner plan SCENARIO`.")
    if (schema := data["schema"]) != SCHEMA:
        older = str(schema).startswith("planner.plan/")
        way = "Run `planner plan` again" if older else "Name what `planner plan` keeps, plan.json unless you said so"
        raise StoreError(f"{path}: has schema `{schema}`, not `{SCHEMA}`. {way}.")
    try:
        plan = typed(data, Plan)
    except ValidationError as error:
        from planner.load import message
        from planner.strict_yaml import dotted

        first = error.errors()[0]
        said = message(first["loc"], first["type"], first, Plan).rstrip(".")
        raise StoreError(f"{path}: {dotted(first['loc'])}: {said}. Run `planner plan` again.") from error
    if wrong := next(contradictions(plan), ""):
        raise StoreError(f"{path}: {wrong}. Run `planner plan` again.")
    return plan


def contradictions(plan: Plan) -> Iterator[str]:
    """What cannot be in any plan that was written here, so that whoever reads one may rely on it."""
    best = plan.recommendation
    try:
        datetime.fromisoformat(plan.created_at)
    except ValueError:
        yield f"created_at: must be a time such as 2026-08-01T12:00:00Z, got `{plan.created_at}`"
    if best.feasible and not best.models:
        yield "recommendation.models: must not be empty in a feasible plan"
    if best.models and not 0 <= best.cost_usd_per_hour < math.inf:
        yield f"recommendation.cost_usd_per_hour: must be a finite number from 0, got {best.cost_usd_per_hour:g}"
    cards = {gpu.id for gpu in best.gpus}
    for model in best.models:
        if lost := [card for replica in model.replicas for card in replica.gpus if card not in cards]:
            yield f"recommendation.models[{model.name}]: runs on {lost[0]}, which is not among `gpus`"


def read_json(path: Path) -> Any:
    """JSON of a file; StoreError, in one line, where it cannot be had."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error.strerror}. Name one that a command kept.") from error
    except UnicodeDecodeError as error:
        raise StoreError(f"{path}: is not a plan: byte {error.start} is not UTF-8.") from error
    except json.JSONDecodeError as error:
        end = "it ends too early" if error.pos >= len(error.doc.rstrip()) else error.msg.lower()
        raise StoreError(f"{path}:{error.lineno}:{error.colno}: is not JSON: {end}. Make the plan again.") from error
    except RecursionError as error:
        raise StoreError(f"{path}: is not a plan: it is nested too deeply.") from error
