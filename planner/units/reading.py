"""People's units at the border: `30 fps`, `100 ms`, `16 GB`, `95 %`, `$2.50/h` become requests per second, seconds,
bytes, fractions and dollars per hour. A bare number is already in that unit."""

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from difflib import get_close_matches
from typing import Annotated, Any

from pydantic import BeforeValidator, ByteSize, Field, WithJsonSchema

from simulator.near import LIKE, near_names
from simulator.world.precision import OTHER_WORDS, PUBLISHED_ONLY, WEIGHT_BYTES

NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,3})?"
HOURS_PER_MONTH = 730
HOURS_PER_YEAR = 8760
BEGUN_MAX = 3
"""Known words that one may begin and still mean."""
MACHINES_AWAY_MAX = 3
"""Machines that a plan may be asked to do without."""

COUNTED = 1e10
"""Below it a whole number is shown with all its digits."""
LOAD_MAX = 100
"""Times its own load that a plan may be asked about: who writes more means percent."""


GROUPED = re.compile(r"\d+(?:_\d+)+|(?<!\d)\d{1,3}(?:([,' ])\d{3})(?:\1\d{3})*(?!\d)")
"""Digits that are parted by signs: `1_200_000`, `1,200,000`; YAML 1.2 knows none of these for a number."""


def ungrouped(text: str) -> str:
    """The same in plain digits: `1000/s` of `1_000/s`."""
    return GROUPED.sub(lambda found: re.sub(r"\D", "", found[0]), text, count=1)


def rounded(number: float) -> str:
    """`0.999`; `1 million`, which nobody reads in `1e+06`; `4294967295`."""
    if 1e6 <= number < 1e9:
        return f"{number / 1e6:g} million"
    return f"{number:.15g}" if 1e9 <= number < COUNTED and number == int(number) else f"{number:g}"


def known_precision(written: str, known: Collection[str] = WEIGHT_BYTES) -> str:
    """`fp16` of `FP16`; ValueError with those that are known where it is none, and with the command that knows it."""
    if written.lower() in known:
        return written.lower()
    hint = did_you_mean(written, known)
    if written.lower() in PUBLISHED_ONLY:
        hint = f" Only `planner predict` knows {written.lower()}, by published times of batches."
    raise ValueError(f"must be one of {', '.join(known)}, got `{written[:40]}`.{hint}")


YES = ("yes", "true", "on")
"""Words that say that something is wanted, and not what."""


def did_you_mean(word: str, known: Collection[str]) -> str:
    """` Did you mean `rate`?`, or nothing when no known word is near. `yes` is like `layers` by chance alone."""
    if word.lower() in YES:
        return ""
    return perhaps_of(meant_by(word, known))


def meant_by(word: str, known: Collection[str]) -> list[str]:
    """The known word that is nearest, all that the word begins where these are few, or none when none is near."""
    asked, lower = word.lower(), [k.lower() for k in known]
    meant = OTHER_WORDS.get(asked, "")
    if meant in known:
        return [meant]
    begun = [k for k in known if word and k.lower().startswith(asked)]
    if 1 < len(begun) <= BEGUN_MAX and asked not in lower:
        return begun
    near = get_close_matches(asked, lower, n=1, cutoff=LIKE)
    return get_close_matches(word, [k for k in known if k.lower() in near], n=1, cutoff=0)


def perhaps(name: str, known: Iterable[str]) -> str:
    """The same of models and GPUs, where a name that is only like another is that of something else."""
    return perhaps_of([one for one in near_names(name, known) if one != name])


def perhaps_of(near: Sequence[str]) -> str:
    """The same of the names that are near."""
    return f" Did you mean {' or '.join(f'`{one}`' for one in near)}?" if near else ""


class SaidWithUnit(float):
    """An SI number that needs its unit, which somebody said: a copy need not say it again."""


@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """A kind of quantity and the units people write it in. Calling it turns a number or a text into an SI number.

    The arithmetic is decimal, so that `39.9 ms` is 0.0399 s to the last digit. `Annotated[float, duration]` is a field
    of a file that is read so.
    """

    noun: str
    """With its article, e.g. `a duration`."""
    examples: tuple[str, ...]
    units: Mapping[str, Decimal]
    """SI value of one of each; more than one spelling is fine."""
    zero: bool = True
    """True where none at all is a value."""
    prefix: str = ""
    """Pattern of what may stand before the number."""
    most: float = math.inf
    """Largest value that anybody can mean."""
    bare: tuple[float, float, str] | None = None
    """Least and largest number that is believed without a unit, and the unit that others are likely to be in."""
    words: Mapping[str, str] = field(default_factory=dict)
    """Units written out, and what is short for them."""
    things: tuple[str, ...] = ()
    """What is counted, without its s, as it may stand before a unit: `30 frames per second`, `10 frames/min`."""

    def __call__(self, value: object) -> float:
        """SI value of `value`; ValueError names what is wrong and what to write."""
        match value:
            case bool() | None:
                raise ValueError(f"must be {self.noun}, got {str(value).lower()}. {self.hint}")
            case int() | float():
                return self.checked(self._bare(value), value)
            case str():
                return self.checked(self._parsed(value), value)
        raise ValueError(f"must be {self.noun}, got a {'list' if isinstance(value, list) else 'mapping'}. {self.hint}")

    def __get_pydantic_core_schema__(self, kind: type, handler: Callable[[type], Any]) -> Any:
        """A value as people write it, read before pydantic looks at it; whole where the field is."""
        from pydantic_core import core_schema

        read = self if kind is float else lambda value: round(self(value))
        schema = core_schema.no_info_before_validator_function(read, handler(kind))
        return core_schema.no_info_after_validator_function(self.said, schema) if self.bare else schema

    def __get_pydantic_json_schema__(self, schema: object, handler: object) -> dict[str, Any]:
        """JSON Schema of what people may write."""
        return self.json_schema

    @property
    def si(self) -> list[str]:
        """Units of the value itself."""
        return [unit for unit, size in self.units.items() if size == 1]

    def said(self, si: float) -> float:
        """A number that was read, marked where it was believed for its unit alone."""
        return si if self._is_believed(si) else SaidWithUnit(si)

    def written(self, si: float) -> object:
        """An SI number as one would write it: with its unit where a bare one is not believed."""
        return si if self._is_believed(si) else f"{float(si)!r} {self.si[0]}"

    @property
    def hint(self) -> str:
        """An example to write instead."""
        return f"Write e.g. {' or '.join(f'`{example}`' for example in self.examples)}."

    def _parsed(self, text: str) -> float:
        """The same as `parse`; ValueError with what to write where signs part the digits of a number."""
        try:
            return self.parse(text)
        except ValueError:
            if (plain := ungrouped(text)) == text:
                raise
            self.parse(plain, text)
        raise ValueError(f"must be {self.noun} in plain digits, got `{text[:40]}`. Write `{plain[:40]}`.")

    def parse(self, text: str, said: str = "") -> float:
        """Number times unit; a text without unit is a bare number. Errors quote `said`; empty: the text."""
        match = re.fullmatch(rf"\s*({NUMBER})\s*([^\d\s,.].*?)?\s*", text, re.ASCII)
        if match is None:
            raise ValueError(f"must be {self.noun}, got `{(said or text)[:40]}`. {self.hint}")
        number, unit = match.groups()
        unit = unit and self._short(unit)
        if unit is not None and unit not in self.units:
            raise ValueError(
                f"unknown unit `{unit[:20]}` for {self.noun}.{did_you_mean(unit, list(self.units))} "
                f"Known: {', '.join(self.units)}."
            )
        return float(Decimal(number) * self.units[unit]) if unit else self._bare(Decimal(number), said)

    def alike(self, si: float, given: object) -> str:
        """An SI number in the unit of what was given, 1/60 beside `100 /h` is `60 /h`; without one in the first in
        which it is short. Empty where no unit makes it so."""
        match = re.fullmatch(rf"\s*(\$?)\s*{NUMBER}\s*([^\d\s,.].*?)?\s*", str(given), re.ASCII)
        dollar, unit = match.groups() if match else ("", "")
        own = self._short(unit) if unit else ""
        for unit in [own] if own in self.units else [*self.si, *self.units]:
            number = si / float(self.units[unit])
            short = f"{number:.10g}" if dollar else f"{number:.6g}"
            if math.isclose(number, float(short), rel_tol=1e-12):
                return f"${short}{unit}" if dollar else f"{short} {unit}"
            if own:
                return f"{number!r} {unit}"
        return ""

    def size(self, unit: str) -> Decimal | None:
        """SI value of one of a unit; None where it is none of these."""
        return self.units.get(self._short(unit))

    def _short(self, unit: str) -> str:
        """A unit without what is counted, its words made short."""
        word = unit.lower()
        if self.things:
            word = re.sub(rf"^(?:{'|'.join(self.things)})s?\s*(?=/|per |a )", "", word)
        return self.words.get(word, word if word in self.units else unit)

    def _is_believed(self, number: float | Decimal) -> bool:
        """Without a unit."""
        return self.bare is None or self.bare[0] <= number <= self.bare[1]

    def _bare(self, number: float | Decimal, said: str = "") -> float:
        """A number without a unit; ValueError for one that is likely meant in another unit than SI."""
        if self.bare and 0 < number < math.inf and not self._is_believed(number):
            likely, own = (f"`{number:g} {unit}`" for unit in (self.bare[2], self.si[0]))
            got = said[:40] or f"{number:g}"
            raise ValueError(f"must say its unit, got {got}. Write {likely}, or {own} where that is meant.")
        return float(number)

    def checked(self, si: float, given: object) -> float:
        """`si` if it is a finite number that is not negative."""
        if not math.isfinite(si):
            raise ValueError(f"must be finite, got {given}. {self.hint}")
        if si < 0:
            raise ValueError(f"must not be negative, got {given}. {self.hint}")
        if si > self.most:
            asked = self.alike(self.most, given) if isinstance(given, str) else ""
            most = asked or f"{rounded(self.most)} {next(iter(self.si), '')}"
            raise ValueError(f"must be at most {most}, got {given}. {self.hint}")
        if si == 0 and not self.zero:
            raise ValueError(f"must be above 0, got {given}. {self.hint}")
        return si

    @property
    def json_schema(self) -> dict[str, Any]:
        """JSON Schema of what people may write: a number, or a text with one of the units."""
        short = (re.escape(unit) for unit in self.units if unit not in self.words)
        units = "|".join((*short, *map(in_any_case, self.words)))
        things = "|".join(map(in_any_case, self.things))
        counted = rf"(({things})[sS]?\s*(?=[/pPaA]))?" if things else ""
        pattern = rf"^\s*{self.prefix}{NUMBER}\s*{counted}({units})?\s*$"
        text = {"type": "string", "pattern": pattern, "examples": list(self.examples)}
        return {"anyOf": [{"type": "number", "minimum": 0}, text]}


class FractionOfOne(Quantity):
    """A share: 0.99 or `99 %`. A bare 99 is refused, because it might mean either."""

    __slots__ = ()

    def checked(self, si: float, given: object) -> float:
        """`si` if it lies between 0 and 1."""
        if 0 <= si <= 1:
            return si
        percent = si if isinstance(given, int | float) else si * 100
        hint = f"Write {percent / 100:g} or {percent:g} %." if 1 < percent <= 100 else self.hint
        raise ValueError(f"must be between 0 and 1, got {given}. {hint}")


class HourlyPrice(Quantity):
    """Dollars for each hour of use; the sign may stand before or after the number."""

    __slots__ = ()

    def parse(self, text: str, said: str = "") -> float:
        """`$2.50/h`, `2.50 $/h` and `2.50 USD/h` are the same."""
        if re.fullmatch(rf"\s*\$?\s*{NUMBER}\s*(\$|USD)?\s*", text) and re.search(r"\$|USD", text):
            raise ValueError(f"must say for how long the price is, got `{(said or text)[:40]}`. {self.hint}")
        return Quantity.parse(self, text.strip().removeprefix("$"), said or text)


class OwnPrice(HourlyPrice):
    """Of a machine of one's own, which costs its electricity at least: at $0 every number of them costs the same."""

    __slots__ = ()

    @property
    def hint(self) -> str:
        """An example to write instead."""
        return "Write what an hour costs you, its electricity at least, e.g. `$0.04/h` for 300 W."


def in_any_case(word: str) -> str:
    """Pattern of a word in small letters or capitals, where patterns know no flag for it."""
    return "".join(f"[{c}{c.upper()}]" if c.isalpha() else re.escape(c) for c in word)


def spelled(**units: str) -> dict[str, str]:
    """Short units by the words for them: `spelled(h="hour hours")`."""
    return {word: unit for unit, words in units.items() for word in words.split()}


def prices(period: str, hours: int) -> dict[str, Decimal]:
    """Spellings of dollars for each `period` of so many hours."""
    return {f"{sign}/{period}": 1 / Decimal(hours) for sign in ("$", "USD", "")}


ONE = Decimal(1)
SECONDS = {"us": "0.000001", "\N{MICRO SIGN}s": "0.000001", "ms": "0.001", "s": "1", "min": "60", "h": "3600"}
PERIODS = {"sec": "s", "second": "s", "minute": "min", "hour": "h"}
MEMORY = ("B", "kB", "KB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB")

duration = Quantity(
    "a duration",
    ("100 ms", "2 s"),
    {unit: Decimal(value) for unit, value in SECONDS.items()} | dict.fromkeys(("day", "days"), Decimal(86400)),
    most=1e10,
    words=spelled(
        ms="millisecond milliseconds", s="second seconds sec secs", min="minute minutes mins", h="hour hours hr hrs"
    ),
)
delay = replace(duration, bare=(0, 9, "ms"))
latency = replace(delay, zero=False)
long_duration = replace(latency, examples=("24 h", "3 days"), bare=(600, math.inf, "h"))
rate = Quantity(
    "a rate",
    ("30 fps", "20 rps"),
    dict.fromkeys(("fps", "rps", "qps", "Hz", "/s"), ONE) | {"/min": ONE / 60, "/h": ONE / 3600},
    zero=False,
    most=1e9,
    words={f"{per}{word}": f"/{unit}" for word, unit in PERIODS.items() for per in ("/", "per ", "a ")}
    | spelled(fps="fps", rps="rps", qps="qps", Hz="hz"),
    things=("frame", "request", "req", "image", "picture", "sample", "call", "event", "query", "querie"),
)
seldom = replace(rate, examples=("0.1 /h", "1 /min"))
memory = Quantity(
    "a size of memory",
    ("16 GB", "16 GiB"),
    {unit: Decimal(ByteSize.byte_sizes[unit.lower()]) for unit in MEMORY},
    most=1e18,
    words=spelled(kB="kilobyte kilobytes", MB="megabyte megabytes", GB="gigabyte gigabytes", TB="terabyte terabytes"),
    bare=(10_000, math.inf, "MB"),
)
machines = Quantity(
    "a number of machines", ("1 machine",), dict.fromkeys(("machines", "machine"), ONE), most=MACHINES_AWAY_MAX
)
fraction = FractionOfOne("a fraction", ("0.95", "95 %"), {"%": ONE / 100})
load_factor = Quantity(
    "a multiple of the load", ("1.3", "130 %"), {"times": ONE, "x": ONE, "%": ONE / 100}, zero=False, most=LOAD_MAX
)
price = HourlyPrice(
    "a price in US dollars",
    ("$2.50/h", "$1800/month"),
    prices("h", 1) | prices("hour", 1) | prices("month", HOURS_PER_MONTH) | prices("year", HOURS_PER_YEAR),
    zero=False,
    prefix=r"\$?\s*",
    most=1e6,
)
own_price = OwnPrice(price.noun, price.examples, price.units, zero=price.zero, prefix=price.prefix, most=price.most)


QUANTITIES = (duration, rate, memory, fraction, load_factor, price)
"""All kinds here that differ in their units."""


def ratio_of(unit: str, other: str, *kinds: Quantity) -> Decimal | None:
    """How many of another unit one is: 1000 of `s` and `ms`; None where they are not of one kind.

    `kinds` are more than `QUANTITIES`.
    """
    sizes = ((kind.size(unit), kind.size(other)) for kind in (*QUANTITIES, *kinds))
    return next((one / another for one, another in sizes if one and another), None)


def whole_machines(value: object) -> int:
    """`1 machine` is 1; ValueError for a part of one."""
    count = machines(value)
    if count != int(count):
        raise ValueError(f"must be a whole number of machines, got {value}. {machines.hint}")
    return int(count)


def written_duration(seconds: float) -> str:
    """A duration as one would write it, rounded up: `90 s`, `57 min`, `30 h`."""
    unit, size_s = ("s", 1) if seconds <= 120 else ("min", 60) if seconds <= 7200 else ("h", 3600)
    return f"{math.ceil(seconds / size_s - 1e-9)} {unit}"


Duration = Annotated[float, duration]
"""Seconds."""
Delay = Annotated[float, delay]
"""Seconds; a number above 9 needs a unit, for many would mean milliseconds."""
Latency = Annotated[float, latency]
"""The same, above 0."""
LongDuration = Annotated[float, long_duration]
"""Seconds; a number below 600 needs a unit, for many would mean hours."""
Rate = Annotated[float, rate]
"""Requests per second."""
RareRate = Annotated[float, seldom]
"""Events per second that are hours apart."""
Bytes = Annotated[int, memory]
"""Bytes; kB, MB, GB are powers of 1000, KiB, MiB, GiB powers of 1024. A number below 10,000 needs a unit, for many
would mean megabytes."""
PositiveDuration = Annotated[float, replace(duration, zero=False)]
PositiveBytes = Annotated[int, replace(memory, zero=False), Field(gt=0)]
GpuBytes = Annotated[int, replace(memory, zero=False, bare=(10_000, math.inf, "GB")), Field(gt=0)]
"""Memory of a GPU or its host, of which a bare number is likely in GB."""
Fraction = Annotated[float, fraction]
"""Between 0 and 1."""
OwnPricePerHour = Annotated[float, own_price]
PricePerHour = Annotated[float, price]
"""US dollars per hour; a month is 730 hours, a year 8760."""
MachineCount = Annotated[int, BeforeValidator(whole_machines), WithJsonSchema(machines.json_schema)]
"""Machines."""
