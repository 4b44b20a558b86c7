"""Tables as CSV: written, and read without comments."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
"""Between columns, instead of commas."""


def csv_text(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Rows below their columns; None is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()


def table(path: Path) -> Iterator[dict[str, str]]:
    """Rows of a CSV file by column, without comments."""
    with path.open(encoding="utf-8", newline="") as lines:
        yield from csv.DictReader(line for line in lines if not line.startswith("#"))


def other_separator(header: Sequence[str]) -> str:
    """What is wrong with a first line whose columns are set apart by something else than commas, and the remedy; empty
    where it is by commas."""
    alone = header[0] if len(header) == 1 else ""
    found = next((name for sign, name in SEPARATORS.items() if len(list(filter(None, alone.split(sign)))) > 1), "")
    return f"its columns are set apart by {found}. Write commas between them, and points in numbers." if found else ""
