"""What a page is made of: tables whose cells know the figure behind their text, and rows of small bars."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from planner.store import plain


@dataclass(frozen=True, slots=True)
class Cell:
    """A text, and the figure that it shows."""

    text: str
    value: float | None = None
    """What the table is sorted by; the text where there is none."""
    key: str = ""
    """Where the figure stands in the JSON, `recommendation.models.0.p99_s`; empty where it is worked out."""

    @property
    def written(self) -> str:
        """The figure as the JSON has it; empty where there is none."""
        return "" if self.value is None or not math.isfinite(self.value) else json.dumps(plain(self.value))


@dataclass(frozen=True, slots=True)
class Head:
    """Title of a column."""

    title: str
    right: bool = False
    """Figures stand at the right."""
    wide: bool = False
    """Sentences get room."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row; a bad one stands out."""

    cells: tuple[Cell, ...]
    bad: bool = False
    total: bool = False
    """Stays below all others however the table is sorted."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table that can be sorted by every column."""

    caption: str
    heads: tuple[Head, ...]
    rows: tuple[Row, ...]
    cards: bool = False
    """On narrow screens each row becomes a card: for sentences, and for more columns than anybody scrolls through."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A row of a bar chart: what, its marks as SVG, and the figure in words."""

    label: str
    marks: str
    text: str
    bad: bool = False


@dataclass(frozen=True, slots=True)
class Tick:
    """A label on an axis."""

    at: float
    """0 at the left end, 1 at the right."""
    text: str


@dataclass(frozen=True, slots=True)
class Bars:
    """Rows of bars on one axis."""

    title: str
    rows: tuple[Bar, ...]
    ticks: tuple[Tick, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with its caption."""

    svg: str
    title: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Stat:
    """A figure that the first screen shows large."""

    label: str
    cell: Cell
    note: str = ""
    tone: str = ""
    """`good`, `bad` or empty."""


def words(*texts: str) -> tuple[Cell, ...]:
    """Cells without figures."""
    return tuple(Cell(text) for text in texts)


def heads(*titles: str, right: Sequence[str] = (), wide: Sequence[str] = ()) -> tuple[Head, ...]:
    """Titles of columns."""
    return tuple(Head(title, title in right, title in wide) for title in titles)
