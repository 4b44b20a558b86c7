"""A document in Markdown, to paste into an issue."""

from collections.abc import Iterator

from planner.show.document import Block, Changes, Document, FactList, Items, Section, Table, Text, View, visible
from planner.show.terminal import plain
from planner.units import writing

SIGNS = {"+": "+", "-": "-", "~": "!"}
"""GitHub colours a block of changes that begin so."""


def markdown(document: Document) -> str:
    """The document as Markdown."""
    return "\n".join(document_lines(document)) + "\n"


def document_lines(document: Document) -> Iterator[str]:
    """The headline, a list of what belongs to it, then section by section."""
    yield from (f"### {document.name}", "", f"**{document.headline}**")
    lead = visible(document.lead, View.MARKDOWN)
    sentences = [block.text for block in lead if isinstance(block, Text)]
    others = [block for block in lead if not isinstance(block, Text)]
    for block in visible([Items(sentences), *others, *document.sections], View.MARKDOWN):
        yield from block_lines(block)


def block_lines(block: Block) -> Iterator[str]:
    """One block, an empty line before it."""
    if isinstance(block, Section):
        yield from section_lines(block)
    else:
        yield from ("", *inner_lines(block))


def inner_lines(block: Block) -> Iterator[str]:
    """A block that holds no others."""
    match block:
        case Text():
            yield block.text
        case Items():
            yield from (f"- {text}" for text in block.texts)
        case Changes():
            yield from ("```diff", *(f"{SIGNS[sign]} {text}" for sign, text in block.lines), "```")
        case Table():
            yield from writing.markdown(plain(block.columns))
        case FactList():
            yield from (f"- {name}: {value}" for name, value in block.pairs)


def section_lines(section: Section) -> Iterator[str]:
    """The title and what is in it."""
    holds_sections_alone = all(isinstance(block, Section) for block in section.blocks)
    if section.title and View.MARKDOWN in section.titled and not holds_sections_alone:
        yield from ("", f"#### {section.title}")
    for block in section.blocks:
        yield from block_lines(block)
