"""An answer as it is shown, once for all: headline, sentences, lists, tables, charts, sections.

`terminal`, `markdown` and `page` write it. A block that only some of them show says so in `views`, and what is empty is
shown nowhere: so whoever makes a document asks for nothing first.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from operator import attrgetter
from typing import Any, ClassVar, Generic, TypeVar

from planner.io.store import plain
from planner.units.writing import begin

T = TypeVar("T")


class View(StrEnum):
    """Where a document is read."""

    TERMINAL = "terminal"
    MARKDOWN = "markdown"
    PAGE = "page"


EVERYWHERE = frozenset(View)
TERMINAL = frozenset({View.TERMINAL})
PAGE = frozenset({View.PAGE})
TEXT = EVERYWHERE - PAGE
MORE_IN_JSON = "... and {} more in the JSON."
MORE_WITH_V = "{} more with -v."


class Tone(StrEnum):
    """How a sentence stands out."""

    PLAIN = ""
    STRONG = "strong"
    GOOD = "good"
    BAD = "bad"
    WARN = "warn"
    NOTE = "note"
    """Less than the others."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A text, and the figure that it shows."""

    text: str
    value: float | None = None
    """The table is sorted by it; by the text where there is none."""
    key: str = ""
    """Where the figure stands in the JSON, `recommendation.models.0.p99_s`; empty where it is worked out."""

    @property
    def written(self) -> str:
        """The figure as the JSON has it; empty where there is none."""
        if self.value is None or not math.isfinite(self.value):
            return ""
        return json.dumps(plain(self.value))


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    title: str
    cells: Sequence[str | Cell]
    right: bool = False
    """Figures stand at the right."""
    wide: bool = False
    """Sentences get room."""
    page_only: bool = False
    cited: bool = False
    """Numbers stand for its texts, which follow below the table, where they repeat and the table would be too wide."""
    once: str = ""
    """`at {}`: said once below the table, where all cells are alike and the table would be too wide."""
    total: str | Cell | None = None
    """Stands below all rows, however they are sorted."""

    @property
    def rows(self) -> list[Cell]:
        """All cells with their figures."""
        return [cell_of(cell) for cell in self.cells]

    @property
    def texts(self) -> list[str]:
        """All cells as they are read."""
        return [cell.text for cell in self.rows]

    @property
    def foot(self) -> Cell:
        """Its part of the last row."""
        return cell_of(self.total or "")


def cell_of(cell: str | Cell) -> Cell:
    """A text alone is a cell without a figure."""
    return Cell(cell) if isinstance(cell, str) else cell


def unmarked(_: object) -> str:
    """Figures as they are."""
    return ""


@dataclass(frozen=True, slots=True)
class Rows(Generic[T]):
    """Things that are alike, a row for each: it makes the columns of their table."""

    items: Sequence[T]
    places: Sequence[str] = ()
    """Where each stands in the JSON."""
    mark: Callable[[T], str] = unmarked
    """Stands before its figures: `~` of those that rest on a prediction."""

    @classmethod
    def at(cls, place: str, items: Sequence[T], mark: Callable[[T], str] = unmarked) -> "Rows[T]":
        """The rows of a list in the JSON."""
        return cls(items, [f"{place}.{i}" for i in range(len(items))], mark)

    def words(
        self, title: str, text: str | Callable[[T], str], *, once: str = "", wide: bool = False, cited: bool = False
    ) -> Column:
        """Texts without figures, or names of attributes that are texts."""
        get = attrgetter(text) if isinstance(text, str) else text
        return Column(title, [str(get(item)) for item in self.items], once=once, wide=wide, cited=cited)

    def shown(
        self,
        title: str,
        key: str,
        show: Callable[[Any], str] = str,
        *,
        page_only: bool = False,
        total: Cell | None = None,
    ) -> Column:
        """Figures that are attributes, each by itself: `key` leads to them, as in the JSON. `-` where there is none."""
        get = attrgetter(key)

        def text(item: T) -> str:
            value = get(item)
            return "-" if value is None else show(value)

        return self.figures(title, text, key, page_only=page_only, total=total)

    def worked(
        self,
        title: str,
        value: Callable[[T], float | None],
        show: Callable[[float], str],
        key: str = "",
        *,
        total: Cell | None = None,
    ) -> Column:
        """Figures that are worked out, each by itself. `-` where there is none."""

        def text(item: T) -> str:
            figure = value(item)
            return "-" if figure is None else show(figure)

        return self.figures(title, text, key, value=value, total=total)

    def figures(
        self,
        title: str,
        text: Callable[[T], str],
        key: str = "",
        *,
        value: Callable[[T], float | None] | None = None,
        page_only: bool = False,
        total: Cell | None = None,
    ) -> Column:
        """Figures: `key` leads from the thing to the figure, as from its place in the JSON; or `value` works it out."""
        get = value or (attrgetter(key) if key else lambda _: None)
        cells = [Cell(f"{self.mark(item)}{text(item)}", get(item)) for item in self.items]
        if key and self.places:
            keys = [f"{place}.{key}" for place in self.places]
            cells = [replace(cell, key=at) for cell, at in zip(cells, keys, strict=True)]
        return Column(title, cells, right=True, page_only=page_only, total=total)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A part of a document."""

    holds: ClassVar[str]
    """Name of the field without which there is nothing to show."""
    views: frozenset[View] = EVERYWHERE

    @property
    def kind(self) -> str:
        """Name of the part of the template that writes it."""
        return type(self).__name__.lower()

    @property
    def empty(self) -> bool:
        """Nothing to show."""
        return not getattr(self, self.holds)


@dataclass(frozen=True, slots=True, kw_only=True)
class OnPage(Block):
    """A block that only pages show."""

    views: frozenset[View] = PAGE


@dataclass(frozen=True, slots=True)
class Text(Block):
    """A sentence or some."""

    holds: ClassVar[str] = "text"
    text: str
    tone: Tone = Tone.PLAIN
    indent: int = 0
    """Blanks before it on a terminal."""


@dataclass(frozen=True, slots=True)
class Items(Block):
    """A list of sentences."""

    holds: ClassVar[str] = "texts"
    texts: Sequence[str]
    bullets: bool = True
    """On a terminal; Markdown and pages always have them."""
    shown: int | None = None
    """Most of them on a terminal."""
    rest: str = MORE_IN_JSON
    """The line for those that are left out, `{}` their number."""


@dataclass(frozen=True, slots=True)
class Changes(Block):
    """What was added (`+`), changed (`~`) and removed (`-`), a line each, in colours."""

    holds: ClassVar[str] = "lines"
    lines: Sequence[tuple[str, str]]
    """Sign and text."""
    indent: int = 0
    """Blanks before it on a terminal."""
    views: frozenset[View] = field(default=TEXT, kw_only=True)


@dataclass(frozen=True, slots=True)
class Table(Block):
    """A table; on a page it can be sorted by every column."""

    columns: Sequence[Column]
    bad: frozenset[int] = frozenset()
    """Rows that stand out."""
    shown: int | None = None
    """Most rows on a terminal."""
    rest: str = MORE_IN_JSON
    """The line for those that are left out, `{}` their number."""
    stacked: bool = False
    """On a narrow page each row becomes a block: for sentences, and for more columns than anybody scrolls through."""

    def narrowed(self) -> tuple[list[Column], str]:
        """The columns without those that may be said once, where all their cells are alike; and the line for them."""
        alike = [c for c in self.columns if c.once and len(set(c.texts)) == 1]
        once = "; ".join(column.once.format(column.texts[0]) for column in alike)
        several = bool(alike) and len(alike[0].cells) > 1
        line = f"All: {once}." if several else f"{begin(once)}." if once else ""
        return [c for c in self.columns if c not in alike], line

    @property
    def empty(self) -> bool:
        """No row."""
        return not self.columns or not self.columns[0].cells


@dataclass(frozen=True, slots=True)
class CodeBlock(OnPage):
    """A text as it is, of several lines."""

    holds: ClassVar[str] = "text"
    text: str


@dataclass(frozen=True, slots=True)
class FactList(Block):
    """Names and values."""

    holds: ClassVar[str] = "pairs"
    pairs: Sequence[tuple[str, str]]
    views: frozenset[View] = field(default=EVERYWHERE - TERMINAL, kw_only=True)


@dataclass(frozen=True, slots=True)
class Stat:
    """A figure that the first screen of a page shows large."""

    label: str
    cell: Cell
    note: str = ""
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Stats(OnPage):
    """Figures one wants first."""

    holds: ClassVar[str] = "stats"
    stats: Sequence[Stat]


@dataclass(frozen=True, slots=True)
class Slider:
    """A column of a table, and the values that it may have."""

    title: str
    values: Sequence[str]
    start: int
    """Place of the value that is shown first."""


@dataclass(frozen=True, slots=True)
class Sliders(OnPage):
    """They choose a row of a table by its columns; the rest of that row is shown large."""

    holds: ClassVar[str] = "sliders"
    table: str
    """`id` of the section in which the table stands."""
    sliders: Sequence[Slider]
    missing: str
    """Shown where no row has these values."""


@dataclass(frozen=True, slots=True)
class DrawnCharts(OnPage):
    """Charts, which are drawn only where there is a page to show them."""

    holds: ClassVar[str] = "draw"
    draw: Callable[[], Iterable[Block]]


@dataclass(frozen=True, slots=True)
class Section(Block):
    """Blocks under a title. One that holds sections alone has a title on pages only."""

    holds: ClassVar[str] = "blocks"
    title: str
    blocks: Sequence[Block]
    id: str = ""
    """Where the page's list of sections leads."""
    link: str = ""
    """Its name in that list; the title if empty."""
    titled: frozenset[View] = EVERYWHERE
    """Views that show the title."""
    folded: bool = False
    """On a page, until one opens it."""
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """All that is shown of an answer."""

    name: str
    """The scenario's, or of whatever the answer is."""
    headline: str
    """The answer in one line."""
    lead: Sequence[Block] = ()
    """Blocks that belong to the first screen too."""
    sections: Sequence[Section] = ()
    first_page: Sequence[Section] = ()
    """In print, what follows the lead on a page of its own before the sections; they say all of it too."""


def explanation(name: str, headline: str, lists: Mapping[str, Sequence[str]], lead: Iterable[str] = ()) -> Document:
    """A document of sentences alone, in lists under their titles."""
    sections = [Section(title, [Items(texts)]) for title, texts in lists.items()]
    return Document(name=name, headline=headline, lead=[*map(Text, lead)], sections=sections)


def visible(blocks: Iterable[Block], view: View) -> list[Block]:
    """The blocks that a view shows, charts drawn, without those that are empty."""
    shown: list[Block] = []
    for block in blocks:
        if view not in block.views:
            continue
        match block:
            case DrawnCharts():
                shown += visible(block.draw(), view)
            case Section():
                shown.append(replace(block, blocks=visible(block.blocks, view)))
            case _:
                shown.append(block)
    return [block for block in shown if not block.empty]
