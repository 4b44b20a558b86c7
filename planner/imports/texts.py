"""Texts: files of other programs, in whichever encoding and with whichever ends of lines these were saved."""

import csv
import io
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from calibrate.io.files import FileError
from simulator.errors import InputError

SEPARATORS = (";", "\t")
"""Of tables that are not separated by commas, as of spreadsheets where numbers have decimal commas."""
Row = Mapping[str, str]


def decoded(raw: bytes) -> str:
    """Text of UTF-8, or of UTF-16 as PowerShell writes what it redirects. FileError where it is neither."""
    try:
        text = raw.decode("utf-16" if raw.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileError(f"is no text in UTF-8: byte 0x{raw[error.start]:02x} at offset {error.start}") from None
    if "\0" in text:
        raise FileError(f"is no text in UTF-8: byte 0x00 at offset {raw.index(0)}")
    return text.replace("\r\n", "\n").replace("\r", "\n")


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file's text and its name, for errors."""

    path: str
    text: str

    def refuse(self, wrong: str, remedy: str, line: int = 0) -> InputError:
        """An error that names the file, the line, the value and the remedy."""
        place = f"{self.path}:{line}" if line else self.path
        return InputError(f"{place}: {wrong}. {remedy}.")

    @property
    def lines(self) -> Iterator[tuple[int, str]]:
        """Lines from 1."""
        return enumerate(self.text.splitlines(), 1)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that it would have as CSV; none where its first line is none of a table."""
        try:
            return tuple(column.strip() for column in next(csv.reader([self._first_line]), []))
        except csv.Error:
            return ()

    def demand_commas(self) -> None:
        """InputError of a table whose columns are separated by something else."""
        first = self._first_line
        if found := next((sign for sign in SEPARATORS if first.count(sign) > first.count(",")), ""):
            remedy = "Save it as CSV with commas between columns and points in numbers"
            raise self.refuse(f"separates columns by {found!r}", remedy, 1)

    @property
    def _first_line(self) -> str:
        return self.text.lstrip("\n").split("\n", 1)[0]

    def rows(self) -> Iterator[tuple[int, Row]]:
        """Rows by column, each as long as the first line, with their numbers; columns without blanks at their ends."""
        reader = csv.reader(io.StringIO(self.text), strict=True)
        try:
            columns = [column.strip() for column in next(reader, [])]
            if twice := next((name for name in columns if columns.count(name) > 1), None):
                raise self.refuse(f"has the column `{twice}` twice", "Keep one", 1)
            for row in filter(any, reader):
                if len(row) != len(columns):
                    wrong = f"has {len(row)} values below {len(columns)} columns"
                    raise self.refuse(wrong, "Mend the line", reader.line_num)
                yield reader.line_num, dict(zip(columns, row, strict=True))
        except csv.Error as error:
            raise self.refuse(f"is no CSV: {error}", "Mend the line", reader.line_num) from None
