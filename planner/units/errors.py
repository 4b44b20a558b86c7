"""Errors in a value, in people's words: where it stands, what it must be, what was given, what to write."""

import json
import re
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

from pydantic import ValidationError

from calibrate.io.files import printable, quoted
from planner.units.reading import Quantity, did_you_mean, fraction, perhaps_of, rounded, ungrouped
from planner.units.writing import exact
from simulator.near import known_ones, spaced

Steps = tuple[str | int, ...]
"""The way to a value inside a document: keys of mappings, numbers of list items."""
Wrong = tuple[Steps, str, *tuple[str, ...]]
"""The way to a value, and what is wrong with it. Keys follow where some of a mapping do not go together."""


class KeysError(ValueError):
    """Keys of one mapping that do not go together."""

    def __init__(self, text: str, *keys: str) -> None:
        super().__init__(text)
        self.keys = keys


class ItemError(ValueError):
    """What is wrong with one item of a list that is read as a whole."""

    def __init__(self, text: str, index: int) -> None:
        super().__init__(text)
        self.index = index


UNKNOWN_KEY = "unexpected_keyword_argument"
"""Pydantic's kind of error for a key that a mapping must not have: its place is the key's."""
LIMITS = {
    "greater_than": ("gt", "above"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "below"),
    "less_than_equal": ("le", "at most"),
}
"""By pydantic's kind of error: its name of the limit, and the words for it."""
KEYS_LISTED = "docs/scenario.md"
"""What lists all keys, where a file's own type names no other in `KEYS_IN`."""
LISTED_MAX = 40
"""Words that an error lists; of more, such as the codes of what an answer says, nobody finds theirs."""
WANTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing_size": "a whole number of usual size",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "`true` or `false`",
    "bool_parsing": "`true` or `false`",
    "dict_type": "a mapping of keys to values",
    "string_type": "a text",
    "path_type": "the name of a file",
    "tuple_type": "a list",
    "dataclass_type": "a mapping of keys to values",
}
"""By pydantic's kind of error: what the value must be."""


OWN = "own"
"""The key of one's own machines."""
MACHINES = (
    *("boxes", "cluster", "devices", "fleet", "hardware", "host", "hosts", "machine", "machines"),
    *("node", "nodes", "own", "server", "servers", "workstations"),
)
"""Keys as people write them instead."""
OTHER_KEYS: Mapping[str, Sequence[str]] = {
    "budget": ("max_cost",),
    "max_price": ("max_cost",),
    "max_budget": ("max_cost",),
    "batch_size": ("global_batch",),
    "batch": ("global_batch",),
    "micro_batch_size": ("micro_batch",),
    "gradient_accumulation": ("accumulation",),
    "gradient_accumulation_steps": ("accumulation",),
    "gradient_checkpointing": ("recompute",),
    "activation_checkpointing": ("recompute",),
    "fps": ("rate",),
    "frame_rate": ("rate",),
    "framerate": ("rate",),
    "rps": ("rate", "poisson"),
    "qps": ("rate", "poisson"),
    "cameras": ("count",),
    "replicas": ("count",),
    "num_workers": ("workers",),
    "dtype": ("precision",),
    "framework": ("runtime",),
    "backend": ("runtime",),
    "engine": ("runtime",),
    "deadline": ("latency",),
    "p99": ("latency", "attainment"),
    "p95": ("latency", "attainment"),
    "percentile": ("attainment",),
    "availability": ("attainment",),
    "cloud": ("providers",),
    "clouds": ("providers",),
    "gpu_types": ("gpus",),
    "gpu_kinds": ("gpus",),
    "num_gpus": ("max_gpus", "counts"),
    "gpu_count": ("max_gpus", "counts"),
    "instance_types": ("instances",),
    "duration": ("horizon",),
    "mtbf": ("mean_time_between",),
    "mttr": ("recovery",),
    "seq_len": ("sequence",),
    "sequence_length": ("sequence",),
    "hidden_size": ("hidden",),
    "d_model": ("hidden",),
    "num_layers": ("layers",),
    "num_heads": ("heads",),
    "vocab_size": ("vocabulary",),
    "images": ("samples",),
    "dataset": ("data",),
    "gpus": ("gpus", OWN),
    "gpu": ("gpus", OWN),
    **dict.fromkeys(MACHINES, (OWN,)),
}
"""Keys as people write them who know other tools, and what is meant where a mapping has it, or one beside the key."""


def dotted(path: Steps) -> str:
    """`("models", 2, "slo")` is `models[2].slo`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def mistakes(error: ValidationError) -> Iterator[tuple[Steps, str, Any]]:
    """Path, kind and details of each of pydantic's errors."""
    for detail in error.errors(include_url=False):
        if detail["type"] == "too_short" and len(detail["input"]) >= detail["ctx"]["min_length"]:
            continue  # there are enough items, but some were refused for a reason of their own
        wrong = detail.get("ctx", {}).get("error")
        item = (wrong.index,) if isinstance(wrong, ItemError) else ()
        yield (*detail["loc"], *item), detail["type"], detail


def keys_of(detail: Any) -> Sequence[str]:
    """Keys that do not go together, where that is one of pydantic's errors."""
    error = detail.get("ctx", {}).get("error")
    return error.keys if isinstance(error, KeysError) else ()


def message(path: Steps, kind: str, detail: Any, root: type) -> str:
    """One of pydantic's errors in people's words; `root` is the class that describes the whole document."""
    got, context = shown(detail["input"]), detail.get("ctx", {})
    if kind in LIMITS:
        name, side = LIMITS[kind]
        limit, quantity = context[name], quantity_at(path, root)
        if quantity and limit and (said := quantity.alike(limit, detail["input"])):
            more = {"greater_than_equal": f" Write `{said}` or more.", "less_than_equal": f" Write `{said}` or less."}
            return f"must be {side} {said}, got {got}.{more.get(kind) or within(path, kind, limit, root)}"
        return f"must be {side} {rounded(limit)}, got {got}.{within(path, kind, limit, root)}"
    match kind:
        case "value_error":
            return str(context["error"])
        case kind if kind == UNKNOWN_KEY:
            return unknown_key(path, root)
        case "missing" | "missing_argument" | "missing_keyword_only_argument":
            quantity = quantity_at(path, root)
            return f"is missing. Add it. {quantity.hint}" if quantity else "is missing. Add it."
        case "enum" | "literal_error":
            return _none_of(re.findall(r"'([^']+)'", context["expected"]), detail["input"])
        case "too_short":
            return "must not be empty. Add at least one item."
        case "too_long":
            return f"must have at most {context['max_length']:,} items, got {context['actual_length']:,}."
        case "string_pattern_mismatch" | "string_too_short" | "string_too_long":
            rule = f"must be a name of 1 to 64 letters from a to z, digits, `-`, `_` and `.`, got {got}."
            return rule + spaced(str(detail["input"])) + _as_model(path, str(detail["input"]))
    return f"must be {WANTED.get(kind, 'of another kind')}, got {got}.{_to_write(path, kind, detail['input'], root)}"


def within(path: Steps, kind: str, limit: float, root: type) -> str:
    """What to write of a number on the wrong side of a limit: ` Write `1` or more.`"""
    match kind:
        case "greater_than_equal":
            return f" Write `{limit:.15g}` or more."
        case "less_than_equal":
            return f" Write `{limit:.15g}` or less."
    item, quantity = field_at(path, root), quantity_at(path, root)
    if item and isinstance(item.default, float):
        usual = exact(item.default) if quantity is fraction else f"{item.default:g}"
        return f" Write e.g. `{usual}`."
    if quantity:
        return f" {quantity.hint}"
    return " Write e.g. `1`." if limit == 0 else ""


def quantity_at(path: Steps, root: type) -> Quantity | None:
    """What reads the value at `path`, where that has a unit."""
    item = field_at(path, root)
    notes = getattr(item.type, "__metadata__", ()) if item else ()
    return next((note for note in notes if isinstance(note, Quantity)), None)


COUNT_MAX = 1e15
"""No count of anything is larger."""
ZEROS = {"k": 3, "m": 6, "b": 9, "g": 9, "t": 12}
"""Zeros that a letter after a number stands for."""


def _to_write(path: Steps, kind: str, written: object, root: type) -> str:
    """How YAML has a list of one, the keys that a mapping needs, a text of digits, or a number with a letter for its
    zeros: `20B` is `20e9`; else a number that may stand there."""
    if kind in ("tuple_type", "dataclass_type") and (needed := _keys_needed(path, root)):
        return f" Write `[{needed}]`." if kind == "tuple_type" else f" Write `{needed}`."
    if kind == "tuple_type" and isinstance(written, str | int):
        return f" Write `[{shown(written).strip('`')}]`."
    if kind.startswith("int_") and isinstance(written, float) and written.is_integer():
        return f" Write `{written:.0f}`." if abs(written) < COUNT_MAX else " Write a smaller one."
    number = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?) ?([kmbgt])", str(written).strip(), re.IGNORECASE)
    if not WANTED.get(kind, "").endswith(" number"):
        return _example(path, kind, written, root)
    if number:
        return f" Write `{number[1]}e{ZEROS[number[2].lower()]}`."
    plain = ungrouped(str(written).strip())
    wanted = r"\d{1,18}" if kind.startswith("int_") else r"\d{1,18}(?:\.\d{1,18})?"
    if isinstance(written, str) and re.fullmatch(wanted, plain):
        return f" Write `{plain}`" + ("." if plain != written.strip() else " without quotation marks.")
    return _example(path, kind, written, root)


def _example(path: Steps, kind: str, written: object, root: type) -> str:
    """A text in quotation marks, or the usual number."""
    if kind == "string_type" and isinstance(written, int | float):
        return f" Write `{json.dumps(json.dumps(written))}`."
    if not WANTED.get(kind, "").endswith(" number"):
        return ""
    item = field_at(path, root)
    usual = item.default if item and isinstance(item.default, int | float) else 1
    return f" Write e.g. `{usual:g}`."


def _keys_needed(path: Steps, root: type) -> str:
    """`{name: ..., gpu: ..., price: ...}`: what the mapping at `path` must have; empty where that is none."""
    keys = [item.name for item in fields_beside((*path, ""), root) if MISSING is item.default is item.default_factory]
    return f"{{{', '.join(f'{key}: ...' for key in keys)}}}" if keys else ""


def unknown_key(path: Steps, root: type) -> str:
    """What is wrong with a key that `root` does not have there, and those that it has."""
    known = keys_beside(path, root)
    if not known:
        return f"unknown key. `{dotted(path[:-1])}` has no keys."
    if lacking := not_modelled(str(path[-1]), root):
        return f"unknown key. {lacking}"
    listed = getattr(root, "KEYS_IN", KEYS_LISTED)
    return f"unknown key.{_key_meant(path, known, root)}{known_ones('', known, listed)}"


def _key_meant(path: Steps, known: Sequence[str], root: type) -> str:
    """` Did you mean `rate`?`: a key beside an unknown one, or in a mapping there; where one's own machines stand."""
    written = str(path[-1])
    others = OTHER_KEYS.get(written.lower(), ())
    found = [key for key in others if key in known] or _keys_below(path, root, others)
    machines = [key for key in found if key.split(".")[-1] == OWN]
    if machines:
        elsewhere = perhaps_of([key for key in found if key not in machines])
        return f"{elsewhere} Your own machines stand under `{dotted((*path[:-1], machines[0]))}`."
    beside = perhaps_of([key for key in found if key in known]) or did_you_mean(written, known)
    return beside or perhaps_of(_keys_below(path, root, (written, *others)))


def _keys_below(path: Steps, root: type, names: Sequence[str]) -> list[str]:
    """Keys of such names in the mappings beside `path`: `buy.max_cost`."""
    beside = [item.name for item in fields_beside(path, root) if _is_mapping(item.type)]
    below = {key: keys_beside((*path[:-1], key, ""), root) for key in beside}
    return [f"{key}.{name}" for key, found in below.items() for name in names if name in found]


def _is_mapping(hint: Any) -> bool:
    """One mapping, not a list of them."""
    return is_dataclass(hint) or (
        typing.get_origin(hint) is not tuple and any(map(is_dataclass, typing.get_args(hint)))
    )


def _none_of(words: Sequence[str], written: object) -> str:
    if len(words) > LISTED_MAX:
        return f"is none of the {len(words)} that this version of planner knows, got {shown(written)}."
    return f"must be one of {', '.join(words)}, got {shown(written)}.{did_you_mean(str(written), words)}"


def not_modelled(key: str, root: type) -> str:
    """What to know of a key that asks for what `root` says it lacks, such as `lora_rank`; nothing of others."""
    words = set(re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key).lower()))
    return next((text for lacking, text in getattr(root, "LACKS", {}).items() if words & set(lacking.split())), "")


def _as_model(path: Steps, written: str) -> str:
    """Where a model's source is written, of what stands as its name: `timm:resnet50`."""
    if not re.fullmatch(r"[\w.-]+[:/]\S+", written):
        return ""
    if path[0] == "models" and path[-1] == "name":
        return f" Give it a short name, and write `model: {printable(written)}` beside it."
    return " Write the short name that it has under `models`." if path[-1] == "model" else ""


def shown(value: object) -> str:
    """A value as a person wrote it, shortened."""
    match value:
        case list():
            return "a list"
        case Mapping():
            return "a mapping"
        case None:
            return "nothing"
        case str():
            return quoted(value, 43)
    return json.dumps(value)[:40]


def keys_beside(path: Steps, root: type) -> list[str]:
    """Keys that the mapping around `path` knows; none where a plain value stands there."""
    return [item.name for item in fields_beside(path, root)]


def field_at(path: Steps, root: type) -> Field[Any] | None:
    """What describes the value at `path`; None of an item of a list."""
    return next((item for item in fields_beside(path, root) if item.name == path[-1]), None)


def fields_beside(path: Steps, root: type) -> Sequence[Field[Any]]:
    """What describes the values of the mapping around `path`; a key that people choose leads no further."""
    kind: Any = root
    for step in path[:-1]:
        hints = typing.get_type_hints(kind) if kind else {}
        if step in hints:
            kind = part(hints[step])
    return fields(kind) if kind else ()


def first_unknown(path: Steps, root: type) -> Steps:
    """The way to the first key on a path that `root` does not have there; empty where it has all."""
    kind: Any = root
    for number, step in enumerate(path):
        if isinstance(step, str):
            hints = typing.get_type_hints(kind) if kind else {}
            if step not in hints:
                return path[: number + 1]
            kind = part(hints[step])
    return ()


def part(hint: Any) -> Any:
    """The dataclass inside a type such as `tuple[ModelSpec, ...]` or `GammaSpec | None`."""
    if is_dataclass(hint):
        return hint
    return next((found for inner in typing.get_args(hint) if (found := part(inner))), None)
