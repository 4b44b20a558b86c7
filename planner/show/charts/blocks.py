"""Charts as blocks of a document: rows of bars, lanes, heat maps, figures side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from markupsafe import Markup

from planner.show.document import OnPage


@dataclass(frozen=True, slots=True)
class Bar:
    """A row of a bar chart: its marks as SVG, and the figure in words."""

    label: str
    marks: Markup
    text: str
    bad: bool = False


@dataclass(frozen=True, slots=True)
class Tick:
    """A label on an axis."""

    at: float
    """0 at the left end, 1 at the right."""
    text: str


@dataclass(frozen=True, slots=True)
class Bars(OnPage):
    """Rows of bars on one axis."""

    holds: ClassVar[str] = "rows"
    title: str
    rows: Sequence[Bar]
    ticks: Sequence[Tick]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Lane:
    """Strips under one name."""

    name: str
    note: str
    right: str
    """Stands at the right of the name."""
    strips: Sequence[tuple[str, Markup]]
    """Each with its style: `work`, `memory` or `queue`."""


@dataclass(frozen=True, slots=True)
class Lanes(OnPage):
    """Lanes on one axis."""

    holds: ClassVar[str] = "rows"
    rows: Sequence[Lane]
    ticks: Sequence[Tick]


@dataclass(frozen=True, slots=True)
class Legend(OnPage):
    """Colours and whom they stand for."""

    holds: ClassVar[str] = "names"
    names: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with its caption."""

    svg: Markup
    title: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class FigureGrid(OnPage):
    """Charts side by side."""

    holds: ClassVar[str] = "figures"
    figures: Sequence[Figure]


@dataclass(frozen=True, slots=True)
class Heat:
    """Two axes crossed: one figure in each field."""

    title: str
    corner: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[tuple[str, int]]]]
    """Each with its name; each field with its shade in per cent, -1 where it has no figure."""


@dataclass(frozen=True, slots=True)
class Heats(OnPage):
    """Heat maps side by side."""

    holds: ClassVar[str] = "heats"
    heats: Sequence[Heat]
