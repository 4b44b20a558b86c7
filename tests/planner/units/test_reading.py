"""Units: what people write becomes SI to the last digit; what they did not mean is refused."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from planner.questions.training.scenario import dollars
from planner.units.reading import (
    Bytes,
    Duration,
    Fraction,
    PricePerHour,
    Rate,
    duration,
    fraction,
    latency,
    long_duration,
    memory,
    price,
    rate,
)


@pytest.mark.parametrize(
    ("quantity", "written", "si"),
    [
        (duration, "100 ms", 0.1),
        (duration, "39.9 ms", 0.0399),
        (duration, "250us", 0.00025),
        (duration, "250 \N{MICRO SIGN}s", 0.00025),
        (duration, "2 s", 2),
        (duration, "5 min", 300),
        (duration, "12 h", 43200),
        (duration, "3 days", 259200),
        (duration, "36 hours", 129_600),
        (duration, "1 Minute", 60),
        (duration, "1 second", 1),
        (duration, 0.05, 0.05),
        (duration, "0.05", 0.05),
        (duration, 0, 0),
        (duration, 100, 100),
        (latency, 9, 9),
        (latency, "100 s", 100),
        (latency, 0.05, 0.05),
        (long_duration, 600.0, 600),
        (long_duration, "24 s", 24),
        (long_duration, 86400, 86400),
        (rate, "30 fps", 30),
        (rate, "30fps", 30),
        (rate, "30 rps", 30),
        (rate, "30 /s", 30),
        (rate, "900 /min", 15),
        (rate, "7 /h", 7 / 3600),
        (rate, "7 per hour", 7 / 3600),
        (rate, "30 FPS", 30),
        (rate, "30 frames/s", 30),
        (rate, "30 frames per second", 30),
        (rate, "1 request a minute", 1 / 60),
        (rate, "90 Queries/min", 1.5),
        (memory, "16 gigabytes", 16e9),
        (rate, 12.5, 12.5),
        (memory, "16 GB", 16e9),
        (memory, "16 GiB", 16 * 2**30),
        (memory, "1.5 MB", 1.5e6),
        (memory, "4 KiB", 4096),
        (memory, 12_000, 12_000),
        (memory, "500 B", 500),
        (fraction, "95 %", 0.95),
        (fraction, "99.9%", 0.999),
        (fraction, 0.99, 0.99),
        (fraction, 1, 1),
        (price, "$2.50/h", 2.5),
        (price, "$ 2.50 /h", 2.5),
        (price, "2.50 $/h", 2.5),
        (price, "2.5 USD/hour", 2.5),
        (price, "$1825/month", 2.5),
        (price, "$8760/year", 1),
        (price, 0.3, 0.3),
    ],
)
def test_what_people_write(quantity, written, si):
    assert quantity(written) == si


@pytest.mark.parametrize(
    ("quantity", "written", "fragments"),
    [
        (duration, "100 msec", ["unknown unit `msec` for a duration", "Did you mean `ms`?", "Known: us,"]),
        (duration, "30 fps", ["unknown unit `fps` for a duration"]),
        (duration, "soon", ["must be a duration, got `soon`. Write e.g. `100 ms` or `2 s`."]),
        (duration, "", ["must be a duration, got ``."]),
        (duration, -1, ["must not be negative, got -1"]),
        (duration, "-5 ms", ["must not be negative, got -5 ms"]),
        (duration, float("nan"), ["must be finite, got nan"]),
        (duration, float("inf"), ["must be finite"]),
        (duration, "1e400 s", ["must be finite, got 1e400 s"]),
        (latency, 100, ["must say its unit, got 100. Write `100 ms`, or `100 s` where that is meant."]),
        (latency, "100", ["must say its unit, got 100. Write `100 ms`"]),
        (latency, 100.0, ["must say its unit, got 100. Write `100 ms`"]),
        (latency, 12.5, ["must say its unit, got 12.5. Write `12.5 ms`, or `12.5 s` where that is meant."]),
        (memory, 500, ["must say its unit, got 500. Write `500 MB`, or `500 B` where that is meant."]),
        (long_duration, 0.5, ["must say its unit, got 0.5. Write `0.5 h`"]),
        (latency, -100, ["must not be negative, got -100"]),
        (long_duration, 24, ["must say its unit, got 24. Write `24 h`, or `24 s` where that is meant."]),
        (duration, True, ["must be a duration, got true"]),
        (duration, None, ["must be a duration, got none"]),
        (duration, [1], ["got a list"]),
        (duration, {"s": 1}, ["got a mapping"]),
        (rate, "30 feet", ["unknown unit `feet` for a rate", "fps"]),
        (rate, "1_000/s", ["must be a rate in plain digits, got `1_000/s`", "Write `1000/s`"]),
        (rate, "1,000 rps", ["Write `1000 rps`"]),
        (rate, "1_000 feet", ["unknown unit `feet` for a rate"]),
        (rate, "1,5/s", ["must be a rate, got `1,5/s`"]),  # perhaps 1.5
        (rate, "10,000,00/s", ["must be a rate, got `10,000,00/s`"]),
        (rate, "1,000..5 rps", ["must be a rate, got `1,000..5 rps`"]),
        (latency, "1,000", ["must say its unit, got 1,000. Write `1000 ms`"]),
        (price, "$1,800", ["must say for how long the price is, got `$1,800`"]),
        (price, "$1,800,00/h", ["got `$1,800,00/h`"]),
        (price, "$two/h", ["got `$two/h`"]),
        (dollars, "$10,000,00", ["must be an amount of money, got `$10,000,00`"]),
        (duration, "0.2_5 s", ["Write `0.25 s`"]),
        (memory, "16_000 MB", ["Write `16000 MB`"]),
        (rate, 0, ["must be above 0, got 0. Write e.g. `30 fps`"]),
        (memory, "16 Gb", ["unknown unit `Gb`", "Did you mean `GB`?", "GiB"]),
        (fraction, 99, ["must be between 0 and 1, got 99. Write 0.99 or 99 %."]),
        (fraction, "120 %", ["must be between 0 and 1, got 120 %. Write e.g. `0.95` or `95 %`."]),
        (fraction, -0.1, ["must be between 0 and 1, got -0.1"]),
        (fraction, float("nan"), ["must be between 0 and 1, got nan"]),
        (price, "$2.50", ["must say for how long", "`$2.50/h`"]),
        (
            price,
            "$1,800/month",
            ["in plain digits, got `$1,800/month`. Write `$1800/month`"],
        ),
        (price, "2 EUR/h", ["unknown unit `EUR/h` for a price", "$/h"]),
        (price, 0, ["must be above 0"]),
    ],
)
def test_what_is_refused(quantity, written, fragments):
    with pytest.raises(ValueError, match=r"must|unknown") as error:
        quantity(written)
    for fragment in fragments:
        assert fragment in str(error.value)
    assert "\n" not in str(error.value)


@given(st.decimals(min_value="0.001", max_value=1_000_000, places=3))
def test_a_unit_scales_without_rounding_twice(number):
    assert duration(f"{number} ms") == float(number / 1000)
    assert duration(f"{number} s") == duration(float(number)) == float(number)


@given(st.text(max_size=30))
def test_any_text_is_a_quantity_or_a_value_error(text):
    for quantity in (duration, rate, memory, fraction, price):
        try:
            outcome = quantity(text) >= 0
        except ValueError as error:
            outcome = bool(re.search(r"Write |Known:", str(error)))
        assert outcome


@pytest.mark.parametrize(
    ("kind", "quantity"),
    [(Duration, duration), (Rate, rate), (Bytes, memory), (Fraction, fraction), (PricePerHour, price)],
)
def test_examples_fit_the_json_schema_and_the_type(kind, quantity):
    adapter = TypeAdapter(kind)
    pattern = adapter.json_schema()["anyOf"][1]["pattern"]
    words = [f"3 {word}" for unit in quantity.words for word in (unit, unit.upper(), unit.title())]
    counted = [f"3 {thing}s{unit}" for thing in quantity.things for unit in ("/s", " per minute", " a second")]
    for example in (*quantity.examples, *words, *counted):
        assert re.search(pattern, example), example
        assert adapter.validate_python(example) == quantity(example)


def test_bytes_are_whole():
    assert TypeAdapter(Bytes).validate_python("0.8 GB") == 800_000_000
    assert isinstance(TypeAdapter(Bytes).validate_python(12_000.5), int)
