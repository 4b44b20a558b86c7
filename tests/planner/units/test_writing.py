"""Tables and colours of a terminal: nothing is clipped, torn or too faint."""

from itertools import groupby

import pytest

from planner.units.writing import BAD, GOOD, WARN, Screen, TextColumn, folded, signed_share, table

LEVELS = (0, 95, 135, 175, 215, 255)
"""Of red, green and blue in xterm's 256 colours, 16 to 231."""
CONTRAST_AA = 4.5
"""WCAG 2.1, success criterion 1.4.3."""


def luminance(code: str) -> float:
    """Of a colour by its number, as WCAG has it."""
    number = int(code.removeprefix("38;5;")) - 16
    parts = (LEVELS[number // 36] / 255, LEVELS[number // 6 % 6] / 255, LEVELS[number % 6] / 255)
    red, green, blue = (v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("code", [GOOD, BAD, WARN])
def test_colours_stand_out_on_white_and_on_black(code):
    assert min(1.05 / (luminance(code) + 0.05), (luminance(code) + 0.05) / 0.05) >= CONTRAST_AA


SOURCE = "raw.example.com/somebody/prices/main/derived/csv/gpu_prices.csv (average of listed prices)"
SLOS = "yolov3, tiny_yolov3 and 4 more missed; resnet152 not served"


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_long_words_are_folded_before_a_table_is_torn(width):
    columns = [
        TextColumn("away", ["g5.xlarge-3", "g5.xlarge-1"]),
        TextColumn("ways", ["1", "12"], right=True),
        TextColumn("SLOs", [SLOS, "-"]),
        TextColumn("source", [SOURCE, "a list [1.00, 2.00]"]),
    ]
    lines = table(columns, Screen(width))
    assert all(len(line) <= width for line in lines)
    assert "" not in lines  # one table
    assert all(sum(word in line.split() for line in lines) == 1 for word in ("g5.xlarge-3", "tiny_yolov3", "resnet152"))
    assert sum("[1.00, 2.00]" in line for line in lines) == 1
    assert (len(lines) == 3) is (width == 200)


def test_figures_are_not_folded():
    columns = [
        TextColumn("name", ["a" * 30]),
        *(TextColumn(f"figure {i}", ["1,234,567"], right=True) for i in range(6)),
    ]
    assert "" in table(columns, Screen(60))


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("a word and more", 8, ["a word", "and more"]),
        ("aws/provider@1d92708:pkg/pricing.go", 14, ["aws/provider@", "1d92708:pkg/", "pricing.go"]),
        ("120/s of 3", 6, ["120/s", "of 3"]),
        ("averylongword", 4, ["averylongword"]),
        ("at [98.90, 100.00] %", 12, ["at", "[98.90, 100.00] %"]),
        ("1 x g4dn.xlarge (T4) + 5 x g5.xlarge", 24, ["1 x g4dn.xlarge (T4) +", "5 x g5.xlarge"]),
    ],
)
def test_texts_are_broken_between_words_and_parts_of_paths(text, width, lines):
    assert folded(text, width) == lines


def test_parts_of_a_table_name_their_rows_and_are_no_wider_than_the_screen():
    figures = [TextColumn(f"figure {i}", ["1,234,567"] * 3, right=True) for i in range(6)]
    columns = [TextColumn("precision", ["int8", "fp16", "int8"]), *figures, TextColumn("source", [SOURCE] * 3)]
    lines = table(columns, Screen(60))
    assert all(len(line) <= 60 for line in lines)
    parts = [list(part) for full, part in groupby(lines, key=bool) if full]
    assert len(parts) > 1
    for part in parts:
        names = [line.split()[0] for line in part]
        assert [name for name in names if name in ("#", "1", "2", "3")] == ["#", "1", "2", "3"]


@pytest.mark.parametrize("width", [40, 57, 80])
def test_a_command_stays_on_one_line_and_a_figure_with_its_unit(width):
    command = "`planner calibrate --device cuda:0`"
    text = f"It takes 10 minutes, 102 MB and 4 vCPUs, [98.90, 100.00] % at 5.2 us. There: {command}, on 3 x T4."
    lines = Screen(width).wrap(text, hang=2)
    for whole in ("10 minutes", "102 MB", "4 vCPUs", "[98.90, 100.00] %", "5.2 us", command, "3 x T4"):
        assert sum(whole in line for line in lines) == 1, whole
    assert " ".join(line.strip() for line in lines) == text


def test_a_column_of_blanks_takes_no_room() -> None:
    assert TextColumn("", ["", ""]).least == 0


@pytest.mark.parametrize(
    ("fraction", "places", "text"),
    [
        (0.167, 1, "+16.7 %"),
        (-0.021, 1, "-2.1 %"),
        (-1e-16, 1, "+0.0 %"),
        (-0.0004, 1, "+0.0 %"),
        (-0.0006, 1, "-0.1 %"),
        (-0.0004, 2, "-0.04 %"),
        (0.0, 0, "+0 %"),
        (float("inf"), 1, "-"),
    ],
)
def test_a_change_that_rounds_to_nothing_has_no_minus(fraction, places, text):
    assert signed_share(fraction, places) == text
