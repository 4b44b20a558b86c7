"""Text for people: figures in their units, tables that fit a screen, colours where they are wanted."""

import math
import os
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import zip_longest
from typing import TextIO


class Format(StrEnum):
    """How an answer is written."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    MD = "md"


PIPED_WIDTH = 120
"""Columns where no terminal says otherwise."""
WIDTH_MIN = 40


@dataclass(frozen=True, slots=True)
class Screen:
    """Where the text will be read."""

    width: int = PIPED_WIDTH
    colour: bool = False

    def paint(self, text: str, code: str) -> str:
        """`text` in an ANSI colour or weight, or as it is on a plain screen."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour and text else text

    def wrap(self, text: str, indent: int = 0, hang: int = 0) -> list[str]:
        """Lines of `text`, the first after `indent` blanks, the others after `indent + hang`."""
        first, rest = " " * indent, " " * (indent + hang)
        paragraph = textwrap.TextWrapper(self.width, first, rest, break_long_words=False, break_on_hyphens=False)
        return [line.replace(KEPT_BLANK, " ") for line in paragraph.wrap(kept(text))]


KEPT_BLANK = "\u00a0"
"""A blank where no line ends."""
IN_FIGURES = re.compile(
    r"(?<=[\d\]]) (?=(?:%|[munk]?s|min|minutes|h|days?|[kMGT]i?B|GB/s|[GT]FLOP/s|W|[Gk]b/s|x|vCPUs?|GPUs?)(?!\w))"
    r"|(?<=\d,) (?=[\d.]+\])"
    r"|(?<=\d x) (?=\S)"
)
"""Blanks between a figure and its unit, between the ends of an interval, and between a number of things and what they
are."""
COPIED = re.compile(r"`[^`]*`")


def kept(text: str) -> str:
    """A text whose figures keep their units, and whose commands and keys stay on one line, to be copied."""
    return with_units(COPIED.sub(lambda found: found[0].replace(" ", KEPT_BLANK), text))


def with_units(text: str) -> str:
    """A text whose figures keep their units."""
    return IN_FIGURES.sub(KEPT_BLANK, text)


def stdout_screen() -> Screen:
    """The screen that standard output is."""
    return screen_of(sys.stdout)


def screen_of(stream: TextIO | None) -> Screen:
    """The screen that a stream is: colours only in a terminal, and not where NO_COLOR is set (no-color.org)."""
    colour = (
        stream is not None and stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    )
    return Screen(max(WIDTH_MIN, columns_of(stream)), colour)


def columns_of(stream: TextIO | None) -> int:
    """Columns of a stream's terminal; COLUMNS goes before, as everywhere.

    `shutil.get_terminal_size` asks descriptor 1, where an answer does not go (`planner.cli.keep_standard_output`).
    """
    if (asked := os.environ.get("COLUMNS", "")).isdecimal() and int(asked):
        return int(asked)
    try:
        return os.get_terminal_size(stream.fileno()).columns or PIPED_WIDTH if stream else PIPED_WIDTH
    except (OSError, ValueError):  # it is no terminal, or no file
        return PIPED_WIDTH


GOOD, BAD, WARN = "38;5;29", "38;5;163", "38;5;131"
"""Green, red and brown of the 256 colours: 4.5 to 1 and more on white and on black alike, which no theme changes."""
BOLD = "1"
"""Of headings."""
UNDERLINED = "4"
"""Of titles of columns: faint ones have 4 to 1 on white."""
FOLDED_MIN = 12
"""Characters of a column of words, under which its cells are not folded."""
PATH_MIN = 16
"""Characters of a word with `/` in it that may be broken after any part of it, for it is a path."""
PATH_PIECE = re.compile(r"\s*[^/@:_.-]*[/@:_.-]*")


@dataclass(frozen=True, slots=True)
class TextColumn:
    """One column of a table."""

    title: str
    cells: Sequence[str]
    right: bool = False
    """Figures stand at the right."""

    room: int | None = None
    """Width into which longer cells are folded; None: none is."""

    @property
    def width(self) -> int:
        """Width of the widest cell."""
        whole = max(len(text) for text in (self.title, *self.cells))
        return whole if self.room is None else min(whole, self.room)

    @property
    def least(self) -> int:
        """Width down to which its cells can be folded; figures are not."""
        if self.right:
            return self.width
        found = (piece.strip() for text in (self.title, *self.cells) for piece in pieces(text))
        return min(self.width, max([FOLDED_MIN, *map(len, found)]))

    def rows(self) -> Iterator[list[str]]:
        """The lines of title and cells, each as wide as the column."""
        width = self.width  # of all cells, so once
        for text in (self.title, *self.cells):
            lines = folded(text, width) if len(text) > width else [text]
            yield [line.rjust(width) if self.right else line.ljust(width) for line in lines]


def pieces(text: str) -> Iterator[str]:
    """What stays on one line: words, figures, intervals, and parts of paths, with the blanks before them."""
    for word in re.findall(r" *(?:\[[^\]]*\][^ ]*|[^ ]+)", kept(text)):
        is_path = "/" in word and len(word) >= PATH_MIN and KEPT_BLANK not in word
        yield from filter(None, PATH_PIECE.findall(word)) if is_path else (word.replace(KEPT_BLANK, " "),)


def folded(text: str, width: int) -> list[str]:
    """Lines of a text, broken between its pieces."""
    lines = [""]
    for piece in pieces(text):
        if len(lines[-1] + piece) > width and lines[-1]:
            lines.append(piece.lstrip())
        else:
            lines[-1] += piece
    return lines


def fit(columns: Sequence[TextColumn], width: int) -> list[list[TextColumn]]:
    """Columns of words as narrow as the width asks for, where that is enough; else as many tables as it asks for, each
    of which begins with a column that names its rows: the first, or their numbers where two rows begin alike."""
    if narrow := _narrowed(columns, width):
        return [narrow]
    key, others = columns[0], columns[1:]
    if len(set(key.cells)) < len(key.cells):
        key, others = TextColumn("#", [str(n) for n in range(1, len(key.cells) + 1)], right=True), columns
    tables = [[key]]
    for column in others:
        used = sum(c.width + 2 for c in tables[-1])
        if used + column.width > width and len(tables[-1]) > 1:
            tables.append([key])
        tables[-1].append(column)
    return [_narrowed(part, width) or part for part in tables]


def too_wide(widths: Sequence[int], width: int) -> bool:
    """Whether columns so wide, two blanks apart, are wider."""
    return sum(widths) + 2 * (len(widths) - 1) > width


def _narrowed(columns: Sequence[TextColumn], width: int) -> list[TextColumn]:
    """All columns, the widest of words narrower and narrower until they fit; none where they do not."""
    widths, least = [c.width for c in columns], [c.least for c in columns]
    if too_wide(least, width):
        return []
    while too_wide(widths, width):
        widest = max(range(len(columns)), key=lambda i: (widths[i] > least[i], widths[i]))
        widths[widest] -= 1
    return [replace(column, room=room) for column, room in zip(columns, widths, strict=True)]


def table(
    columns: Sequence[TextColumn], screen: Screen, indent: int = 2, bad: frozenset[int] = frozenset()
) -> list[str]:
    """Lines of a table, split into several where the screen is narrow. Rows in `bad` stand out."""
    lines: list[str] = []
    for part in fit(columns, screen.width - indent):
        lines += [""] if lines else []
        for place, line in _rows(part):
            painted = screen.paint(line, UNDERLINED) if place < 0 else line
            lines.append(" " * indent + (screen.paint(line, BAD) if place in bad else painted))
    return lines


def _rows(columns: Sequence[TextColumn]) -> Iterator[tuple[int, str]]:
    """Lines of columns side by side, each with the number of its row: -1 for that of the titles."""
    empty = [" " * column.width for column in columns]
    for place, row in enumerate(zip(*(column.rows() for column in columns), strict=True), start=-1):
        for cells in zip_longest(*row):
            whole = [cell or blank for cell, blank in zip(cells, empty, strict=True)]
            yield place, "  ".join(whole).rstrip()


def markdown(columns: Sequence[TextColumn]) -> list[str]:
    """The same table in Markdown."""

    def row(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    rule = "|" + "|".join("---:" if c.right else "---" for c in columns) + "|"
    rows = zip(*(c.cells for c in columns), strict=True)
    return [row([c.title for c in columns]), rule, *(row(cells) for cells in rows)]


def dollars(amount: float) -> str:
    """`$9.18`, `$0.526`, `$6,701`: cents matter below a thousand, tenths of a cent below one.

    First to the nine digits that files keep, so that 1861.49999... and 1861.5 read alike.
    """
    amount = float(f"{amount:.9g}")
    return f"${amount:,.0f}" if amount >= 1000 else f"${amount:.2f}" if amount >= 1 else f"${amount:.3f}"


def span_usd(low: float, high: float) -> str:
    """`$3.02 to $6.04 over the 80 % band`; NaN dollars stand for no fleet at all."""
    if not math.isfinite(high):
        return f"{dollars(low)} at the good end of the 80 % band, and no fleet does it at the bad end"
    return f"{dollars(low)} to {dollars(high)} over the 80 % band"


def decimals(value: float) -> int:
    """Digits after the point that leave about three in all."""
    return 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2


def rate_decimals(value_rps: float) -> int:
    """The same of rates, of which small ones keep two digits that are no zeros."""
    if 0 < abs(value_rps) < 0.1:
        return 1 - math.floor(math.log10(abs(value_rps)))
    return decimals(value_rps)


def seconds(value_s: float, half_width_s: float | None = None, *, unit: bool = True) -> str:
    """`81.2 ms`, `81.2 ± 0.4 ms`, `1.20 s`, `100 ms`; `-` where there is no figure."""
    if not math.isfinite(value_s):
        return "-"
    name, scale = (" s", 1.0) if value_s >= 1 else (" ms", 1e3)
    places = decimals(value_s * scale)
    error = "" if half_width_s is None or not math.isfinite(half_width_s) else f" ± {half_width_s * scale:.{places}f}"
    return f"{value_s * scale:.{places}f}{error}{name if unit else ''}"


def span(value_s: float) -> str:
    """`2 s`, `57 min`, `12 h`: a length of time as people write it."""
    for unit, length_s in (("h", 3600.0), ("min", 60.0)):
        if value_s >= 2 * length_s and value_s % length_s == 0:
            return f"{value_s / length_s:g} {unit}"
    return seconds(value_s) if value_s < 1 else f"{value_s:g} s"


def percent(share: float, *, up: bool = False) -> str:
    """`99.31`: two digits, never rounded over an SLO. 0.98999 is 98.99; with `up` (an upper end) 99.00."""
    if not math.isfinite(share):
        return "-"
    hundredths = math.ceil(share * 1e4 - 1e-6) if up else math.floor(share * 1e4 + 1e-6)
    return f"{hundredths / 100:.2f}"


def exact(share: float) -> str:
    """`99 %`, `99.9 %`: all digits of a share, for limits that people set."""
    return f"{share * 100:.6g} %"


def share(fraction: float, places: int = 0) -> str:
    """`61 %`, or `1.3 %` with one place."""
    return f"{fraction * 100:.{places}f} %" if math.isfinite(fraction) else "-"


def signed_share(fraction: float, places: int = 1) -> str:
    """`+16.7 %`; what rounds to nothing is `+0.0 %` from both sides."""
    sign = "-" if round(fraction * 100, places) < 0 else "+"
    return f"{sign}{share(abs(fraction), places)}" if math.isfinite(fraction) else "-"


def gigabytes(size_bytes: float) -> str:
    """`14.20 GB`."""
    return f"{size_bytes / 1e9:.2f} GB"


def per_second(value_rps: float) -> str:
    """`120/s`, `7.50/s`, `0.0010/s`."""
    return f"{value_rps:,.{rate_decimals(value_rps)}f}/s" if math.isfinite(value_rps) else "-"


def names(items: Sequence[str], most: int = 4) -> str:
    """`a, b, c`; of many the first few and how many more: `a, b, c and 4 more`."""
    if len(items) <= most:
        return ", ".join(items)
    return f"{', '.join(items[: most - 1])} and {len(items) - most + 1} more"


def ranges(numbers: Sequence[int]) -> str:
    """`1-3, 5` for 1, 2, 3 and 5."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def gpus(counts: Sequence[int]) -> str:
    """`1 GPU`, `1, 2, 4 GPUs`."""
    return f"{', '.join(map(str, counts))} GPU{'' if list(counts) == [1] else 's'}"


def begin(text: str) -> str:
    """`text` as a sentence begins: `let it end` becomes `Let it end`."""
    return f"{text[:1].upper()}{text[1:]}"


def counted(count: int, noun: str) -> str:
    """`1 model`, `8 models`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def size_text(size_bytes: float, least_bytes: float = math.inf) -> str:
    """`14.20 GB`; of a small model `0.18 MB`. Sizes in one column go by the least of them."""
    return gigabytes(size_bytes) if min(size_bytes, least_bytes) >= 1e7 else f"{size_bytes / 1e6:.2f} MB"


def gigabytes_a_second(rate: float) -> str:
    """`54.3 GB/s`, `4,230 GB/s`: three digits."""
    return f"{float(f'{rate / 1e9:.3g}'):,.10g} GB/s"


def microseconds(time_s: float) -> str:
    """`5.2 us`."""
    return f"{time_s * 1e6:.3g} us"


def watts(power_w: float) -> str:
    """`70 W`."""
    return f"{power_w:.3g} W"
