"""One document, three views: each shows what it should, and nothing that is empty."""

import re
from dataclasses import replace
from math import nan

import pytest
from support.answers import INFEASIBLE, PLAN

from planner.io.store import read_plan, write_answer
from planner.show.document import (
    TERMINAL,
    Cell,
    CodeBlock,
    Column,
    Document,
    DrawnCharts,
    FactList,
    Items,
    Rows,
    Section,
    Stat,
    Stats,
    Table,
    Text,
    Tone,
    View,
    visible,
)
from planner.show.documents import plan as plans
from planner.show.markdown import markdown
from planner.show.page.render import page
from planner.show.terminal import terminal
from planner.units.writing import BAD, Screen

FLEETS = [("a box", 3.5, True), ("b|ox", 12.25, False)]


def never():
    """A chart that must not be drawn."""
    raise AssertionError


def table(**changes):
    """Two fleets with their prices."""
    rows = Rows.at("fleets", FLEETS)
    price = rows.figures("price", lambda fleet: f"${fleet[1]}", value=lambda fleet: fleet[1], total=Cell("$15.75"))
    columns = [rows.words("fleet", lambda fleet: fleet[0]), price, rows.words("mode", lambda _: "swapped", once="{}")]
    return Table(columns, bad=frozenset({1}), **changes)


DOCUMENT = Document(
    name="Kiosk",
    headline="Two <fleets>",
    lead=[Text("SLO met.", Tone.GOOD), Stats([Stat("cost", Cell("$3.5", 3.5, "fleets.0.1"))]), Text("")],
    sections=[
        Section("Fleets", [table(shown=1, rest="... and 1 more.")], id="fleets"),
        Section("Nothing", [Items([]), Text(""), Table([Column("empty", [])])], id="nothing"),
        Section(
            "Around", [Section("Within", [Items(["one `way`", "another"], shown=1, rest="... and 1 more.")])], id="in"
        ),
        Section("Charts", [DrawnCharts(lambda: [CodeBlock("drawn")])], id="charts"),
        Section("Mind", [Items(["old prices"])], id="mind", tone=Tone.WARN),
        Section("Here alone", [Text("in a terminal", views=TERMINAL)], id="here"),
        Section("Made", [FactList([("seed", "1")])], id="made"),
    ],
)


def test_a_terminal_has_no_charts_and_the_first_of_what_is_long():
    assert terminal(DOCUMENT, Screen(80)).splitlines() == [
        *("Two <fleets>", "SLO met."),
        *("", "Fleets", "  fleet  price  mode", "  a box   $3.5  swapped", "  ... and 1 more."),
        *("", "Within", "  - one `way`", "  ... and 1 more."),
        *("", "Mind", "  - old prices"),
        *("", "Here alone", "in a terminal"),
    ]


def test_markdown_has_all_rows():
    text = markdown(DOCUMENT)
    assert text.startswith("### Kiosk\n\n**Two <fleets>**\n\n- SLO met.\n\n#### Fleets\n\n| fleet | price | mode |")
    assert "| b\\|ox | $12.25 | swapped |" in text
    assert "- another\n" in text
    assert "- seed: 1\n" in text
    assert "Around" not in text
    assert "drawn" not in text


def test_a_page_has_charts_figures_to_sort_by_and_says_once_what_is_alike():
    html = page(DOCUMENT)
    assert "<h1>Two &lt;fleets&gt;</h1>" in html
    assert re.findall(r'<section id="(\w+)">', html) == ["fleets", "in", "charts", "mind", "made"]
    assert re.findall(r'data-value="([\d.]+)"', html) == ["3.5", "3.5", "12.25"]
    assert '<p class="note">All: swapped.</p>' in html
    assert "<tfoot>" in html
    assert html.count('<tr class="bad">') == 1
    assert "<code>way</code>" in html
    assert '<pre tabindex="0">drawn</pre>' in html


def test_charts_are_drawn_for_pages_alone():
    section = Section("Charts", [DrawnCharts(never)])
    assert visible([section], View.TERMINAL) == visible([section], View.MARKDOWN) == []
    with pytest.raises(AssertionError):
        visible([section], View.PAGE)


def test_a_row_that_stands_out_does_so_in_colour():
    lines = terminal(replace(DOCUMENT, sections=[Section("", [table()])]), Screen(80, colour=True)).splitlines()
    assert f"\x1b[{BAD}m" in lines[-1]
    assert f"\x1b[{BAD}m" not in lines[-2]


def test_a_figure_that_does_not_exist_is_sorted_last():
    assert Cell("-", nan).written == ""
    assert Cell("1/3", 1 / 3).written == "0.333333333"


@pytest.mark.parametrize("plan", [PLAN, INFEASIBLE])
def test_every_key_of_a_page_leads_to_its_figure(plan, tmp_path):
    """Of plans that no command made, so that all columns are among them."""
    write_answer(plan, tmp_path / "plan.json")
    document = plans.document(read_plan(tmp_path / "plan.json"))
    tables = [block for block in everything(document) if isinstance(block, Table)]
    keyed = [cell for one in tables for column in one.columns for cell in column.rows if cell.key]
    assert len(keyed) > 10
    for cell in keyed:
        value = plan
        for step in cell.key.split("."):
            value = value[int(step)] if step.isdigit() else getattr(value, step)
        assert value == cell.value


def everything(document):
    """All blocks that a page has, whatever section they are in."""
    found = visible([*document.lead, *document.sections], View.PAGE)
    for block in found:
        found += block.blocks if isinstance(block, Section) else []
    return found


def test_a_figure_that_is_worked_out_is_shown_and_sorted_by_the_same_number() -> None:
    column = Rows([1.0, None]).worked("twice", lambda known: None if known is None else 2 * known, "{:.1f}".format)
    assert column.texts == ["2.0", "-"]
    assert [cell.value for cell in column.rows] == [2.0, None]
