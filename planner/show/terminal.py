"""A document for a terminal: colours where they are wanted, tables as wide as the screen."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from planner.show.document import (
    Block,
    Changes,
    CodeBlock,
    Column,
    Document,
    Items,
    Section,
    Table,
    Text,
    Tone,
    View,
    visible,
)
from planner.units import writing
from planner.units.writing import Screen, table

MARGIN = 2
"""Blanks before tables and lists."""
SIGNS = {"+": Tone.GOOD, "~": Tone.WARN, "-": Tone.BAD}
PAINTS = {Tone.STRONG: writing.BOLD, Tone.GOOD: writing.GOOD, Tone.BAD: writing.BAD, Tone.WARN: writing.WARN}


def terminal(document: Document, screen: Screen) -> str:
    """The document as text."""
    return "\n".join(document_lines(document, screen)) + "\n"


def document_lines(document: Document, screen: Screen) -> Iterator[str]:
    """The headline, what belongs to it, then section by section."""
    for line in screen.wrap(document.headline, hang=2):
        yield screen.paint(line, writing.BOLD)
    for block in visible([*document.lead, *document.sections], View.TERMINAL):
        yield from block_lines(block, screen)


def block_lines(block: Block, screen: Screen) -> Iterator[str]:
    """One block."""
    match block:
        case Section():
            yield from section_lines(block, screen)
        case Text():
            for line in screen.wrap(block.text, block.indent, 2):
                yield toned(line, block.tone, screen)
        case Changes():
            for sign, text in block.lines:
                for line in screen.wrap(f"{sign} {text}", block.indent, 2):
                    yield toned(line, SIGNS[sign], screen)
        case Items():
            yield from item_lines(block, screen)
        case Table():
            yield from table_lines(block, screen)
        case CodeBlock():
            yield from block.text.splitlines()


def section_lines(section: Section, screen: Screen) -> Iterator[str]:
    """An empty line, the title, and what is in it."""
    if section.tone is not Tone.PLAIN:
        plain = Screen(screen.width)
        for line in section_lines(replace(section, tone=Tone.PLAIN), plain):
            yield toned(line, section.tone, screen)
        return
    if not all(isinstance(block, Section) for block in section.blocks):
        yield ""
        if section.title and View.TERMINAL in section.titled:
            yield screen.paint(section.title, writing.BOLD)
    for block in section.blocks:
        yield from block_lines(block, screen)


def toned(line: str, tone: Tone, screen: Screen) -> str:
    """A line that stands out."""
    return screen.paint(line, PAINTS[tone]) if tone in PAINTS else line


def item_lines(items: Items, screen: Screen) -> Iterator[str]:
    """A list, of a long one its first sentences."""
    bullet = "- " if items.bullets else ""
    for text in items.texts[: items.shown]:
        yield from screen.wrap(f"{bullet}{text}", MARGIN, 2)
    if items.shown is not None and len(items.texts) > items.shown:
        yield from screen.wrap(items.rest.format(len(items.texts) - items.shown), MARGIN)


def table_lines(table: Table, screen: Screen) -> Iterator[str]:
    """A table, of a long one its first rows; a wide one without the columns that may be said once."""
    columns, alike = list(table.columns), ""
    if writing.too_wide([column.width for column in plain(columns)], screen.width - MARGIN):
        columns, alike = table.narrowed()
    columns, sources = numbered(columns, screen.width - MARGIN)
    yield from writing.table(plain(columns, table.shown), screen, MARGIN, table.bad)
    yield from screen.wrap(alike, MARGIN)
    yield from source_lines(sources, screen, MARGIN)
    if table.shown is not None and len(columns[0].cells) > table.shown:
        yield from screen.wrap(table.rest.format(len(columns[0].cells) - table.shown), MARGIN)


def numbered(columns: Sequence[Column], width: int) -> tuple[list[Column], list[str]]:
    """Of columns that are too wide, numbers for the texts of those that are cited, and a line for each text."""
    if not writing.too_wide([column.width for column in plain(columns)], width):
        return list(columns), []
    numbers = {column.title: _numbers(column.texts) for column in columns if column.cited}
    lines = [f"{title} {number}: {text}" for title, all_of in numbers.items() for text, number in all_of.items()]
    short = [replace(c, cells=[numbers[c.title][t] for t in c.texts]) if numbers.get(c.title) else c for c in columns]
    return short, lines


def source_lines(sources: Sequence[str], screen: Screen, indent: int = 0) -> Iterator[str]:
    """What the numbers stand for; paths break after any of their parts."""
    for text in sources:
        first, *others = writing.folded(text, screen.width - indent - MARGIN)
        yield f"{' ' * indent}{first}"
        yield from (f"{' ' * (indent + MARGIN)}{line}" for line in others)


def _numbers(texts: Sequence[str]) -> dict[str, str]:
    """In order of their appearance; none where no text comes twice."""
    each = dict.fromkeys(texts)
    return {text: str(n) for n, text in enumerate(each, start=1)} if len(each) < len(texts) else {}


def plain(columns: Sequence[Column], shown: int | None = None) -> list[writing.TextColumn]:
    """Columns of texts alone."""
    seen = [column for column in columns if not column.page_only]
    return [writing.TextColumn(column.title, column.texts[:shown], column.right) for column in seen]


def listed(columns: Sequence[Column], screen: Screen, bad: frozenset[int] = frozenset()) -> str:
    """A table by itself."""
    short, sources = numbered(columns, screen.width)
    return "\n".join([*table(plain(short), screen, indent=0, bad=bad), *source_lines(sources, screen)]) + "\n"
