"""Study files: a base scenario, axes, a threshold to search for, outputs to keep - and how YAML becomes them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain, product
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from planner.model.checked import STRICT
from planner.model.parts.fields import Count, Name
from planner.questions.studies.base import Base, ChangedValue
from planner.questions.studies.engine import Ask, WorkerMachine
from planner.questions.studies.figures import SERVING, TRAINING, AskedFigure, Output
from planner.units.reading import Fraction

FEASIBLE = "feasible"
"""The condition that every SLO is met."""
FIGURE = re.compile(r"([\w.\-]+)(?:\[([^\[\]]+)\])?")
Label = str | float | int


class Find(StrEnum):
    """Which end of a search keeps its conditions."""

    LARGEST = "largest"
    SMALLEST = "smallest"


class Design(StrEnum):
    """Which points an axis is crossed with."""

    GRID = "grid"
    ONE_AT_A_TIME = "one-at-a-time"


@dataclass(frozen=True, slots=True, kw_only=True)
class OnSpec:
    """With `ask: simulate`: the GPUs."""

    __pydantic_config__ = STRICT
    gpu: Name
    """Kind, as in the catalog; an axis may be `on.gpu`."""
    count: Count = 1
    """How many; an axis may be `on.count`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSpec:
    """The value at which a condition ceases to hold, by halving, for every point of the axes."""

    __pydantic_config__ = STRICT
    path: str
    """The path that is changed, e.g. `load` or `models[*].slo.latency`."""
    between: tuple[Any, Any]
    """Where to look, e.g. `[0.1, 4]` or `[50 ms, 1 s]`. Whole numbers: only whole values are tried (`load`: any)."""
    find: Find = Find.LARGEST
    """The `largest` value with which all of `where` holds, or the `smallest`. It is taken that beyond it none does."""
    where: Annotated[tuple[str, ...], Field(min_length=1)] = (FEASIBLE,)
    """`feasible`, or outputs compared with numbers, `cost_usd_per_hour<=6`: with the bad end of their intervals."""
    tolerance: Annotated[Fraction, Field(gt=0, lt=1)] = 0.05
    """Ends where the bracket is this narrow, as a share of its lower end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudySpec:
    """A study as it is written."""

    __pydantic_config__ = STRICT
    KEYS_IN: ClassVar[str] = "docs/studies.md"
    name: str = ""
    """Title of the answer; the file's name where not given."""
    base: Path
    """A scenario of serving or training, relative to this file."""
    ask: Ask | None = None
    """`plan`, `simulate` or `train`; from the base, and from `on`, where not given."""
    on: OnSpec | None = None
    """With `ask: simulate`: the GPUs."""
    set: dict[str, Any] = field(default_factory=dict)
    """Values of the base that all points have instead, by path."""
    axes: dict[str, Any] = field(default_factory=dict)
    """Values that are varied: by path, a list or a range `{from, to, steps, log}`; by any name, `cases` of
    `{label: {path: value}}`. A path is that of `--set`; `[*]` means every item of a list; `load` scales all rates."""
    design: Design = Design.GRID
    """`grid`: every value with every other; `one-at-a-time`: each axis alone, the others at the base's value, else at
    the one in the middle."""
    search: SearchSpec | None = None
    """A threshold to look for at every point."""
    outputs: tuple[str, ...] = ()
    """Figures to keep, e.g. `cost_usd_per_hour`, `p99_s[yolov3]`."""
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] | None = None
    """Start of all random numbers of all points; the base's where not given."""


@dataclass(frozen=True, slots=True)
class Value:
    """One value of an axis."""

    label: Label
    """As it was written; a number stays one."""
    changes: tuple[ChangedValue, ...]
    """Changes of the base."""


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of the study."""

    name: str
    values: tuple[Value, ...]
    numbers: tuple[float, ...] | None
    """The values as numbers, in `unit`; None where some value is a word."""
    unit: str
    log: bool
    """The steps are equal ratios."""
    reference: int
    """Number of the value that the base has, else of the one in the middle."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that holds up to a threshold."""

    text: str
    name: str
    sign: str
    limit: float


@dataclass(frozen=True, slots=True)
class Search:
    """A threshold to look for."""

    path: str
    low: float
    high: float
    unit: str
    find: Find
    conditions: tuple[Condition, ...]
    tolerance: float
    whole: bool
    """Only whole numbers are tried."""

    def written(self, number: float) -> Label:
        """A value as one would write it."""
        return with_unit(number, self.unit)


@dataclass(frozen=True, slots=True)
class Study:
    """A study, checked."""

    name: str
    path: Path
    text: str
    ask: Ask
    base: Base
    base_as_written: str
    on: WorkerMachine | None
    """The GPUs of a simulation where no axis changes them."""
    changes: tuple[ChangedValue, ...]
    """Changes of the base, for all points."""
    axes: tuple[Axis, ...]
    design: Design
    search: Search | None
    outputs: tuple[AskedFigure, ...]

    def combinations(self) -> list[tuple[int, ...]]:
        """Numbers of the axes' values, point by point, the last axis fastest."""
        if self.design is Design.GRID:
            return list(product(*(range(len(axis.values)) for axis in self.axes)))
        return sorted({self.reference, *self.around(self.reference)})

    def around(self, point: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        """Points that differ from one in no more than one axis, axis by axis."""
        for i, axis in enumerate(self.axes):
            for at in range(len(axis.values)):
                yield (*point[:i], at, *point[i + 1 :])

    @property
    def reference(self) -> tuple[int, ...]:
        """The point that each axis is varied from."""
        return tuple(axis.reference for axis in self.axes)

    def changes_at(self, at: Sequence[int]) -> tuple[ChangedValue, ...]:
        """All changes of the base at a point."""
        varied = (axis.values[i].changes for axis, i in zip(self.axes, at, strict=True))
        return (*self.changes, *chain.from_iterable(varied))


def figures_of(ask: Ask) -> Mapping[str, Output]:
    """All figures that a question has."""
    return TRAINING if ask is Ask.TRAIN else SERVING


def parts_of(name: str) -> tuple[str, str]:
    """Figure and model of `p99_s[yolov3]`; no model is empty."""
    match = FIGURE.fullmatch(name)
    return (match[1], match[2] or "") if match else (name, "")


def output_of(name: str, ask: Ask) -> AskedFigure:
    """The figure that a person or a file names; KeyError where there is none of that name."""
    figure, model = parts_of(name)
    about = figures_of(ask)[figure]
    if model and not about.each:
        raise KeyError(name)
    return AskedFigure(figure, model, about)


def with_unit(number: float, unit: str) -> Label:
    """`15 fps`; a bare number stays one, whole where it is. Nothing is rounded: what is written is what is run."""
    plain = int(number) if float(number).is_integer() and abs(number) < 1e15 else number
    return f"{plain} {unit}" if unit else plain
