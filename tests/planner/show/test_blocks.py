"""Every kind of block in three forms, and what holds of each form whatever a document says."""

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.show import document as blocks
from planner.show.charts.kit.axes import ChartAxis
from planner.show.charts.kit.blocks import (
    Bar,
    Bars,
    Box,
    Dot,
    FigureGrid,
    GpuGroup,
    GpuGroups,
    Graph,
    Heat,
    Heats,
    Lane,
    Lanes,
    Legend,
    Strip,
    charts_of,
)
from planner.show.document import (
    Block,
    Cell,
    Changes,
    CodeBlock,
    Column,
    Document,
    FactList,
    Items,
    Rows,
    Section,
    Slider,
    Sliders,
    Stat,
    Stats,
    Table,
    Text,
    Tone,
    View,
    visible,
)
from planner.show.markdown import markdown
from planner.show.page.render import page
from planner.show.terminal import listed, terminal
from planner.units.writing import Screen

X = ChartAxis(0, 10, [(5, "five")])
MARKS = [Box(0, 4, 0, 1, "fill", "a box")]
SAMPLES: dict[type[Block], tuple[Block, Block, list[str]]] = {
    Text: (Text("a sentence"), Text(""), ["a sentence"]),
    Items: (Items(["one", "two"]), Items([]), ["one", "two"]),
    Changes: (Changes([("+", "came"), ("-", "went")]), Changes([]), ["+ came", "- went"]),
    Table: (Table([Column("title", ["cell"])]), Table([Column("title", [])]), ["title", "cell"]),
    CodeBlock: (CodeBlock("a = 1"), CodeBlock(""), ["a = 1"]),
    FactList: (FactList([("seed", "17")]), FactList([]), ["seed", "17"]),
    Stats: (Stats([Stat("cost", Cell("$3"), "an hour")]), Stats([]), ["cost", "$3", "an hour"]),
    Section: (Section("Title", [Text("inside")]), Section("Title", []), ["Title", "inside"]),
    Bars: (Bars("bars", [Bar("row", MARKS, "4 of 10")], X), Bars("bars", [], X), ["bars", "row", "4 of 10", "five"]),
    Lanes: (
        Lanes([Lane("gpu0", "T4", "busy", [Strip("work", MARKS, 1, "Work")])], X),
        Lanes([], X),
        ["gpu0", "T4", "busy", "five", "a box"],
    ),
    Legend: (Legend([("c0", "yolov3")]), Legend([]), ["yolov3"]),
    FigureGrid: (FigureGrid([Graph("graph", X, X, [Dot(1, 1, "best", "A", "the best")], "a note")]), FigureGrid([]),
                 ["graph", "A", "the best", "a note"]),
    Heats: (Heats([Heat("heat", "gpu", "load", ["2"], [("T4", [("$1", 40)])])]), Heats([]),
            ["heat", "gpu / load", "2", "T4", "$1"]),
    GpuGroups: (GpuGroups([GpuGroup("2 x T4", "gpu0", [("c0", "yolov3")], [Bar("busy", MARKS, "40 %")])]),
                GpuGroups([]), ["2 x T4", "gpu0", "yolov3", "busy", "40 %", "a box"]),
    Sliders: (Sliders("it", [Slider("gpus", ["1", "2"], 0)], "none"), Sliders("it", [], "none"), ["gpus"]),
}  # fmt: skip
FORMS = {View.TERMINAL: lambda d: terminal(d, Screen(80)), View.MARKDOWN: markdown, View.PAGE: page}
WORDS = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=12)
SENTENCES = st.lists(WORDS, min_size=1, max_size=12).map(" ".join)
ROWS_MAX = 4
TABLES = st.integers(1, ROWS_MAX).flatmap(
    lambda rows: st.lists(
        st.tuples(WORDS, st.lists(WORDS, min_size=rows, max_size=rows), st.booleans()), min_size=1, max_size=6
    ).map(lambda columns: Table([Column(title, cells, right) for title, cells, right in columns]))
)
DOCUMENTS = st.builds(
    lambda headline, lead, sections: Document(name="Name", headline=headline, lead=lead, sections=sections),
    SENTENCES,
    st.lists(st.builds(Text, SENTENCES, st.sampled_from(Tone)), max_size=2),
    st.lists(
        st.builds(Section, WORDS, st.lists(st.one_of(st.builds(Text, SENTENCES), TABLES), max_size=3)), max_size=3
    ),
)


def kinds(of: type[Block] = Block) -> set[str]:
    """Names of all kinds of block there are."""
    below = {kind for sub in of.__subclasses__() for kind in kinds(sub)}
    return below | {of.__name__}


class Words(HTMLParser):
    """What of a page is read."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.silent = 0
        self.feed(html)

    def handle_starttag(self, tag, _):
        self.silent += tag in ("style", "script")

    def handle_endtag(self, tag):
        self.silent -= tag in ("style", "script")

    def handle_data(self, data):
        if not self.silent and data.strip():
            self.texts.append(data.strip())


def shown(block: Block, view: View) -> str:
    """All that is read of a block."""
    text = FORMS[view](Document(name="Name", headline="Headline", sections=[Section("", [block], id="it")]))
    return "\n".join(Words(text).texts) if view is View.PAGE else text


def test_every_kind_of_block_has_a_sample():
    assert kinds() - {"Block", "OnPage", "DrawnCharts"} == {kind.__name__ for kind in SAMPLES}


@pytest.mark.parametrize("view", View)
@pytest.mark.parametrize("kind", SAMPLES, ids=lambda kind: kind.__name__)
def test_a_view_shows_a_block_or_leaves_it_out(kind, view):
    block, _, texts = SAMPLES[kind]
    seen = shown(block, view)
    assert [text for text in texts if text in seen] == (texts if view in block.views else [])


@pytest.mark.parametrize("kind", SAMPLES, ids=lambda kind: kind.__name__)
def test_what_is_empty_is_shown_nowhere(kind):
    block, empty, _ = SAMPLES[kind]
    for view in View:
        assert visible([empty], view) == []
        assert bool(visible([block], view)) is (view in block.views)


def test_charts_come_out_of_their_blocks_one_by_one():
    drawn = list(charts_of(block for block, _, _ in SAMPLES.values()))
    assert [type(chart).__name__ for chart in drawn] == ["Bars", "Lanes", "Graph", "Heat"]


@given(DOCUMENTS, st.integers(40, 120))
def test_no_screen_loses_a_word_or_a_letter_runs_over(document, width):
    """Rows of a table that is split are numbered, where its first column does not tell them apart."""
    text = terminal(document, Screen(width))
    words = {word for line in text.splitlines() for word in line.split()}
    assert words >= said(document, View.TERMINAL)
    assert words - said(document, View.TERMINAL) <= {"#", *map(str, range(1, ROWS_MAX + 1))}
    assert all(len(line) <= width for line in text.splitlines())


@given(DOCUMENTS)
def test_colours_change_no_letter(document):
    coloured = terminal(document, Screen(80, colour=True))
    assert re.sub("\x1b\\[[\\d;]+m", "", coloured) == terminal(document, Screen(80))


@given(DOCUMENTS)
def test_markdown_says_each_sentence_and_each_row_once(document):
    lines = markdown(document).splitlines()
    rows = [line for line in lines if line.startswith("| ")]
    tables = [block for section in document.sections for block in section.blocks if isinstance(block, Table)]
    assert len(rows) == sum(1 + len(table.columns[0].cells) for table in tables)
    for table in tables:
        assert "| " + " | ".join(column.title for column in table.columns) + " |" in lines
    for section in visible(document.sections, View.MARKDOWN):
        assert f"#### {section.title}" in lines


@settings(max_examples=50)
@given(DOCUMENTS)
def test_a_page_says_all_of_it(document):
    read = {word for text in Words(page(document)).texts for word in text.split()}
    assert said(document, View.PAGE) <= read


def said(document: Document, view: View) -> set[str]:
    """Words of all that a view shows."""
    texts = [document.headline]
    for block in visible([*document.lead, *document.sections], view):
        texts += texts_of(block)
    return {word for text in texts for word in text.split()}


def texts_of(block: Block) -> list[str]:
    match block:
        case Text():
            return [block.text]
        case Table():
            return [text for column in block.columns for text in (column.title, *column.texts)]
        case Section():
            return [block.title, *(text for inner in block.blocks for text in texts_of(inner))]
    raise TypeError(block)


# Columns


@given(st.lists(st.tuples(WORDS, st.one_of(st.none(), st.floats(-1e6, 1e6))), min_size=1, max_size=5))
def test_a_column_of_an_attribute_has_its_text_its_figure_and_its_key(items):
    things = [Thing(name, value) for name, value in items]
    rows = Rows.at("things", things, lambda thing: "~" if thing.name < "M" else "")
    column = rows.shown("value", "value", "{:.2f}".format)
    for i, (cell, thing) in enumerate(zip(column.rows, things, strict=True)):
        text = "-" if thing.value is None else f"{thing.value:.2f}"
        assert cell.text == ("~" if thing.name < "M" else "") + text
        assert (cell.value, cell.key) == (thing.value, f"things.{i}.value")
    assert rows.words("name", "name").texts == rows.words("name", lambda thing: thing.name).texts


class Thing:
    def __init__(self, name: str, value: float | None) -> None:
        self.name = name
        self.value = value


@given(st.lists(WORDS, min_size=2, max_size=5), WORDS)
def test_what_is_alike_is_said_once_and_what_differs_in_every_row(names, mode):
    table = Table([Column("name", names), Column("mode", [mode] * len(names), once="at {}")])
    columns, line = table.narrowed()
    assert [column.title for column in columns] == ["name"]
    assert line == f"All: at {mode}."
    alone = Table([Column("name", names[:1]), Column("mode", [mode], once="at {}")])
    assert alone.narrowed()[1] == f"At {mode}."
    differing = Table([Column("name", names), Column("mode", [mode, f"{mode}x"], once="at {}")])
    assert differing.narrowed() == (list(differing.columns), "")


@given(st.lists(st.sampled_from(["the data sheet", "a/long/path/to/table.csv", "-"]), min_size=4, max_size=9))
def test_sources_that_repeat_are_numbered_where_they_are_too_wide(sources):
    columns = [Column("name", ["a"] * len(sources)), Column("source", sources, cited=True)]
    wide, narrow = (listed(columns, Screen(width)) for width in (80, 24))
    assert all(len(line) <= 24 for line in narrow.splitlines())
    assert all(f"a     {source}" in wide for source in sources)
    if max(map(len, sources)) > 18:
        said = [line for line in narrow.splitlines() if line.startswith("source ")]
        assert len(said) == len(set(sources))


def test_the_kinds_of_a_page_have_their_macro():
    """A block's name is the macro's: `parts[block.kind](block)`."""
    template = blocks.__file__.replace("document.py", "page/parts.html.j2")
    with open(template, encoding="utf-8") as file:
        macros = set(re.findall(r"\{% macro (\w+)\(", file.read()))
    on_pages = {kind for kind, (block, _, _) in SAMPLES.items() if View.PAGE in block.views}
    assert {kind.__name__.lower() for kind in on_pages} <= macros
