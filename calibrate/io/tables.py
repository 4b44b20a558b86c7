"""Tables as CSV: written, and read without comments."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path


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
