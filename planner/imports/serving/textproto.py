"""Protocol buffers in their text form (protobuf.dev/reference/protobuf/textformat-spec), small and strict.

Knows the grammar alone: `planner.imports.serving.triton_config` knows the fields. Extensions and `Any` are refused.
"""

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, NoReturn

from calibrate.io.files import quoted
from simulator.errors import InputError

MAX_DEPTH = 50
LONGEST_NUMBER = 100
"""Digits; protobuf's have twenty."""
TOKENS = re.compile(
    r"""(?P<blank>[ \t\r\n\f\v]+|\#[^\n]*)
    |(?P<float>(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?[fF]?|\d+[eE][+-]?\d+[fF]?|(?:0|[1-9]\d*)[fF])
    |(?P<int>0[xX][0-9a-fA-F]+|0[0-7]*|[1-9]\d*)
    |(?P<word>[A-Za-z_]\w*)
    |(?P<string>"(?:[^"\\\n]|\\[^\n])*"|'(?:[^'\\\n]|\\[^\n])*')
    |(?P<mark>[-{}<>\[\]:,;])""",
    re.VERBOSE | re.ASCII,
)
ESCAPES = re.compile(
    rb"\\(?:([abfnrtv?\\'\"])|([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))"
)
LETTERS = dict(zip(b"abfnrtv?\\'\"", b"\a\b\f\n\r\t\v?\\'\"", strict=True))
CHARACTERS = range(0x110000)
SURROGATES = range(0xD800, 0xE000)
"""Halves of characters, which no text may hold alone."""
CLOSING = {"{": "}", "<": ">"}


class Token(NamedTuple):
    """A word of the text."""

    kind: str
    text: str
    start: int


@dataclass(frozen=True, slots=True)
class TextprotoValue:
    """A value, and where it stands."""

    kind: str
    """`int`, `float`, `word`, `string` or `message`."""
    value: "int | float | str | Message"
    place: str
    """`config.pbtxt:12:5`."""


@dataclass(frozen=True, slots=True)
class Field:
    """All values of one field of a message, in order."""

    place: str
    """Place of its first value."""
    values: list[TextprotoValue]
    listed: bool
    """True where some stand in `[...]`, as only repeated fields may."""


Message = dict[str, Field]


def parse(text: str, name: str) -> Message:
    """The message in a text; errors name it `name`."""
    return TextprotoReader(text, name).message("", 0)


class TextprotoReader:
    """Reads tokens, one ahead."""

    def __init__(self, text: str, name: str) -> None:
        self.text, self.name, self.end = text, name, 0
        self.lines = [0, *(found.end() for found in re.finditer("\n", text))]
        """Where each begins."""
        self.token = self.next()

    def place(self, start: int) -> str:
        """File, line and column of a position."""
        number = bisect_right(self.lines, start)
        return f"{self.name}:{number}:{start - self.lines[number - 1] + 1}"

    def refuse(self, wanted: str, token: Token | None = None) -> NoReturn:
        """Raises what is wrong at a token."""
        at = token or self.token
        got = quoted(at.text, 30) if at.text else "the end of the file"
        raise InputError(f"{self.place(at.start)}: must be {wanted}, got {got}. Mend the file.")

    def next(self) -> Token:
        """The next token that is neither blank nor a comment; the end is an empty one."""
        while self.end < len(self.text):
            start, found = self.end, TOKENS.match(self.text, self.end)
            if found is None or found.lastgroup is None:
                what = "a text that ends on its line" if self.text[start] in "\"'" else "a field or a value"
                self.refuse(what, Token("", self.text[start], start))
            self.end = found.end()
            if found.lastgroup == "blank":
                continue
            if found.lastgroup in ("int", "float") and re.match(r"[\w.]", self.text[self.end : self.end + 1]):
                self.refuse("a number", Token("", self.text[start : self.end + 1], start))
            return Token(found.lastgroup, found.group(), start)
        return Token("end", "", len(self.text))

    def take(self) -> Token:
        """The token, and go on."""
        token, self.token = self.token, self.next()
        return token

    def skip(self, *marks: str) -> bool:
        """True where the token is one of these marks; then go on."""
        return self.token.kind == "mark" and self.token.text in marks and bool(self.take())

    def message(self, closing: str, depth: int) -> Message:
        """Fields until `closing`, or the end of the text."""
        if depth > MAX_DEPTH:
            self.refuse(f"nested at most {MAX_DEPTH} deep")
        fields: Message = {}
        while not (self.token.kind == "end" if not closing else self.skip(closing)):
            if self.token.kind != "word":
                self.refuse(f"a field or `{closing}`" if closing else "a field")
            self.field(fields, depth)
            self.skip(",", ";")
        return fields

    def field(self, fields: Message, depth: int) -> None:
        """One field; its values join those it has."""
        name = self.take()
        colon = self.skip(":")
        listed = self.token.text == "[" and self.token.kind == "mark"
        values = self.items(colon, depth) if listed else [self.value(colon, depth)]
        old = fields.get(name.text)
        if old is None:
            fields[name.text] = Field(self.place(name.start), values, listed)
        else:
            fields[name.text] = Field(old.place, [*old.values, *values], old.listed or listed)

    def items(self, colon: bool, depth: int) -> list[TextprotoValue]:
        """Values in brackets."""
        self.take()
        if self.skip("]"):
            return []
        values = [self.value(colon, depth)]
        while self.skip(","):
            values.append(self.value(colon, depth))
        if not self.skip("]"):
            self.refuse("`,` or `]`")
        return values

    def value(self, colon: bool, depth: int) -> TextprotoValue:
        """One value; only a message may follow its field without a colon."""
        start, place = self.token, self.place(self.token.start)
        if self.skip("{", "<"):
            return TextprotoValue("message", self.message(CLOSING[start.text], depth + 1), place)
        if not colon:
            self.refuse("`:` or `{`")
        if start.kind == "string":
            return TextprotoValue("string", self.string(), place)
        return self.scalar(place)

    def scalar(self, place: str) -> TextprotoValue:
        """A word or a number; of words only those that mean one may follow a minus."""
        negative = self.skip("-")
        kind, text = self.token.kind, self.token.text
        if kind == "word" and not negative:
            return TextprotoValue(kind, self.take().text, place)
        if kind == "word" and text.lower() in ("inf", "infinity", "nan"):
            return TextprotoValue("float", -float(self.take().text), place)
        if kind not in ("int", "float"):
            self.refuse("a value")
        if len(text) > LONGEST_NUMBER:
            self.refuse(f"a number of at most {LONGEST_NUMBER} digits")
        self.take()
        number = whole(text) if kind == "int" else float(text.rstrip("fF"))
        return TextprotoValue(kind, -number if negative else number, place)

    def string(self) -> str:
        """Texts that stand side by side are one."""
        start, raw = self.token, b""
        while self.token.kind == "string":
            token = self.take()
            raw += ESCAPES.sub(partial(self.unescaped, token), token.text[1:-1].encode())
        try:
            return raw.decode()
        except UnicodeDecodeError:
            self.refuse("UTF-8 text", start)

    def unescaped(self, token: Token, found: "re.Match[bytes]") -> bytes:
        """Bytes of one escape sequence."""
        letter, octal, hexadecimal, short, long, _ = found.groups()
        if letter:
            return bytes([LETTERS[letter[0]]])
        if octal or hexadecimal:
            code = int(octal, 8) if octal else int(hexadecimal, 16)
            return bytes([code]) if code < 256 else self.refuse("an escape up to \\377", token)
        code = int(short or long or b"-1", 16)
        if code in CHARACTERS and code not in SURROGATES:
            return chr(code).encode()
        self.refuse(f"a text without `{found.group().decode(errors='replace')}`", token)


def whole(text: str) -> int:
    """An integer: decimal, `0x1F`, or with a leading zero octal."""
    if text[:2].lower() == "0x":
        return int(text, 16)
    return int(text, 8) if text.startswith("0") else int(text)
