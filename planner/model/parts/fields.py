"""Values of a scenario: names, shapes, precisions, times and sizes, as a person may write them."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from calibrate.zoo.sources import is_sourced, perhaps_sourced
from planner.units.errors import ItemError, shown
from planner.units.reading import known_precision, perhaps_of
from simulator.near import spaced
from simulator.world.precision import WEIGHT_BYTES
from simulator.world.signature import read_sizes

NAME = r"^[A-Za-z0-9][A-Za-z0-9_.\-]*$"
Name = Annotated[str, Field(min_length=1, max_length=64, pattern=NAME)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
GPU_KIND = r"^[A-Za-z0-9][A-Za-z0-9_.\- ]*$"


def _as_text(value: object) -> object:
    """A number as it was written: the kind of GPU in `gpu: 4060`."""
    return str(value) if type(value) is int else value


GpuKind = Annotated[str, Field(min_length=1, max_length=64, pattern=GPU_KIND), BeforeValidator(_as_text)]
"""As people write it: the catalog's name of `RTX 4060` is found later."""


def _precision(value: object) -> object:
    """`FP16` is `fp16`; ValueError where it is none."""
    return known_precision(value) if isinstance(value, str) else value


Precision = Annotated[str, BeforeValidator(_precision), Field(json_schema_extra={"enum": list(WEIGHT_BYTES)})]


def _precisions(value: object) -> object:
    """Of one or of each of several; ItemError for the first that is none."""
    if not isinstance(value, list | tuple):
        return _precision(value)
    known = []
    for i, item in enumerate(value):
        try:
            known.append(_precision(item))
        except ValueError as error:
            raise ItemError(str(error), i) from None
    return tuple(known)


def _some(value: object) -> object:
    """ValueError for a list that names nothing: nobody means none, and leaving the key out means any."""
    if isinstance(value, list | tuple) and not value:
        raise ValueError("names nothing. Name one or more, or leave the key out for any.")
    return value


Precisions = Annotated[str | tuple[str, ...], BeforeValidator(_precisions), BeforeValidator(_some)]


def is_factory(value: str) -> bool:
    """Whether it may name a function of a module."""
    return re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", value) is not None


def _factory(value: str) -> str:
    """ValueError where it names no function of a module."""
    if is_factory(value):
        return value
    hint = perhaps_sourced(value)
    if re.fullmatch(r"[A-Za-z_][\w.]*\.[A-Za-z_]\w*", value):
        hint = f" Write `{':'.join(value.rsplit('.', 1))}`."
    raise ValueError(f"must be `package.module:function`, got `{value[:40]}`.{spaced(value) or hint}")


Factory = Annotated[str, AfterValidator(_factory)]
Names = Annotated[tuple[Name, ...], AfterValidator(_some)]
GpuKinds = Annotated[tuple[GpuKind, ...], AfterValidator(_some)]
Runtimes = Annotated[Name | tuple[Name, ...] | None, AfterValidator(_some)]


def _model_name(value: str) -> str:
    """ValueError where it can be the name of no model."""
    if re.fullmatch(NAME, value) or (is_sourced(value) and value.partition(":")[2]):
        return value
    from calibrate.layers.facts import meant  # which takes a while, and is for mistakes

    if not is_factory(value) and (near := meant(value)):
        raise ValueError(f"must be the name of a model, got `{value[:40]}`.{perhaps_of(near)}")
    return _factory(value)


ModelName = Annotated[str, Field(min_length=1), AfterValidator(_model_name)]


def _shape(value: object) -> object:
    """`3x224x224` as sizes; ValueError where it is no shape."""
    if isinstance(value, str) and (sizes := read_sizes(value)):
        return sizes
    if isinstance(value, list | tuple):
        return tuple(value)
    shapes = "`3x224x224` for a picture of three colours, `[128]` for 128 tokens or numbers"
    raise ValueError(
        f"must be the shape of one sample, got {json.dumps(value, default=str)[:40]}. Write e.g. {shapes}."
    )


InputShape = Annotated[
    tuple[Count, ...],
    BeforeValidator(_shape),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "integer", "minimum": 1}}]}),
]


class OrShorter:
    """What the schema says of a value that may be written in shorter forms too."""

    def __init__(self, *forms: Mapping[str, Any]) -> None:
        self.forms = forms

    def __get_pydantic_json_schema__(self, core: Any, handler: Callable[[Any], Any]) -> dict[str, Any]:
        """Any of the forms, the long one last."""
        return {"anyOf": [*self.forms, handler(core)]}


def _resolution(value: object) -> object:
    """`1920x1080` as width and height."""
    if isinstance(value, list | tuple):
        return tuple(value)
    match = re.fullmatch(r"(\d+)x(\d+)", value.lower()) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"must be width x height, got {shown(value)}. Write e.g. `1920x1080`.")
    if not all(2 <= len(side) <= 5 for side in match.groups()):
        raise ValueError(f"must have sides of 10 to 99999 pixels, got {shown(value)}. Write e.g. `1920x1080`.")
    return tuple(map(int, match.groups()))


Resolution = Annotated[
    tuple[Count, Count],
    BeforeValidator(_resolution),
    WithJsonSchema({"type": "string", "pattern": r"^\d{2,5}x\d{2,5}$"}),
]
