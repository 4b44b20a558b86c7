"""Texts of other programs: their tables are those that Python's own reader finds, none of their rows is lost."""

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import paths
from support.imports import imported

from planner.imports.texts import TextFile
from simulator.errors import InputError

CELLS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=6)
NAMES = st.lists(st.text("abcXYZ ()_", min_size=1, max_size=8), min_size=1, max_size=4, unique_by=str.strip)


@given(names=NAMES, rows=st.lists(st.lists(CELLS, min_size=4, max_size=4), max_size=6))
def test_rows_are_those_of_pythons_reader(names: list[str], rows: list[list[str]]) -> None:
    """All but those without anything in them, with blanks taken off the columns' names."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([names, *(row[: len(names)] for row in rows)])
    theirs = [row for row in csv.DictReader(io.StringIO(text.getvalue())) if any(row.values())]
    ours = [row for _, row in TextFile("x.csv", text.getvalue()).rows()]
    assert ours == [{name.strip(): cell for name, cell in row.items()} for row in theirs]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b,a\n1,2,3\n", "x.csv:1: has the column `a` twice. Keep one."),
        ("a,b\n1,2\n1,2,3\n", "x.csv:3: has 3 values below 2 columns. Mend the line."),
        ('a,b\n1,"2\n', "x.csv:2: is no CSV: unexpected end of data. Mend the line."),
    ],
)
def test_a_table_that_is_none_is_refused_at_its_line(text: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        list(TextFile("x.csv", text).rows())
    assert str(error.value) == said


def test_rows_below_an_empty_line_count(tmp_path: Path) -> None:
    whole = (paths.DATA / "imports" / "plain.csv").read_text().splitlines()
    (parted := tmp_path / "parted.csv").write_text("\n".join([*whole[:3], "", *whole[3:], ""]))
    words = ("--model", "resnet50", "--input", "224", "--gpu", "V100", "--precision", "fp32", "--runtime", "pytorch")
    made = imported(tmp_path, parted, *words, "--weights", "50 MB")
    assert made["latency_s"] == pytest.approx({"1": 0.0041, "2": 0.006, "4": 0.0101, "8": 0.0187})
