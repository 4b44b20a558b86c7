"""Units of columns: the one that the name of a column of times says, as in `arrival_ms` or `Start (us)`."""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ColumnUnit:
    """A unit of time."""

    name: str
    seconds: float
    written: tuple[str, ...]
    """Words of a column's name that say it, wherever they stand."""
    written_last: tuple[str, ...] = ()
    """Those that say it at the name's end only: `us` may be a country, `min` the least."""


SECONDS = ColumnUnit("seconds", 1.0, ())
IN_SECONDS = ("s", "sec", "secs", "second", "seconds")
"""Words that end a name whose column is of seconds."""
UNITS = (
    ColumnUnit("milliseconds", 1e-3, ("ms", "msec", "msecs", "millis", "milli", "millisecond", "milliseconds")),
    ColumnUnit(
        "microseconds", 1e-6, ("usec", "usecs", "micros", "microsecond", "microseconds", "µs", "μs"), ("us", "micro")
    ),
    ColumnUnit("nanoseconds", 1e-9, ("ns", "nsec", "nanos", "nanosecond", "nanoseconds"), ("nano",)),
    ColumnUnit("minutes", 60.0, ("minutes",), ("min", "mins", "minute")),
    ColumnUnit("hours", 3600.0, ("hours",), ("h", "hr", "hrs", "hour")),
    ColumnUnit("days", 86400.0, (), ("days", "day")),
)
WORD = re.compile(r"[A-Z]?[^\W\d_A-Z]+|[A-Z]+(?![^\W\d_A-Z])")
"""`arrival` and `Ms` of `arrivalMs`, `TIMESTAMP` and `MS` of `TIMESTAMP_MS`."""
JOINED = re.compile(r"(?:time|timestamp|stamp|arrival|epoch|ts|start)(ms|us|ns|msec|usec|nsec|millis|micros|nanos)")
"""A unit that nothing sets apart: `timestampms`."""


def unit_of(column: str) -> ColumnUnit:
    """The unit that a column's name says; seconds where it says none."""
    words = [word.lower() for word in WORD.findall(column)]
    words += [found[1] for word in words if (found := JOINED.fullmatch(word))]
    last = words[-1:]
    for unit in UNITS:
        if set(words) & set(unit.written) or set(last) & set(unit.written_last):
            return unit
    return SECONDS


def without_unit(column: str) -> str:
    """The words of a name before the unit that ends it: `arrivaltime` of `arrival_time_ms`; empty where none does."""
    words: list[str] = [word.lower() for word in WORD.findall(column)]
    before, last = "".join(words[:-1]), "".join(words[-1:])
    if found := JOINED.fullmatch(last):
        return before + last.removesuffix(found[1])
    written = {word for unit in UNITS for word in (*unit.written, *unit.written_last)}
    return before if last in written or last in IN_SECONDS else ""
