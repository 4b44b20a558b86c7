"""Texts: files of other programs, in whichever encoding and with whichever ends of lines these were saved."""

from codecs import BOM_UTF16_BE, BOM_UTF16_LE

from calibrate.io.files import FileError

SEPARATORS = (";", "\t")
"""Of tables that are not separated by commas, as of spreadsheets where numbers have decimal commas."""


def decoded(raw: bytes) -> str:
    """Text of UTF-8, or of UTF-16 as PowerShell writes what it redirects. FileError where it is neither."""
    try:
        text = raw.decode("utf-16" if raw.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileError(f"is no text in UTF-8: byte 0x{raw[error.start]:02x} at offset {error.start}") from None
    if "\0" in text:
        raise FileError(f"is no text in UTF-8: byte 0x00 at offset {raw.index(0)}")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def separation(text: str) -> str:
    """What is wrong with a table whose columns are not separated by commas; empty where they are."""
    first = text.lstrip("\n").split("\n", 1)[0]
    found = next((sign for sign in SEPARATORS if first.count(sign) > first.count(",")), "")
    return f"separates columns by {found!r}" if found else ""


BY_COMMAS = "Save it as CSV with commas between columns and points in numbers"
