"""Dollars for speed: the lecture's own table, and every machine of the catalog."""

import pytest

from planner.catalog.catalog import load_catalog
from planner.compare.speed_prices import BOUGHT, SpeedPrice, double_flops, speed_price_table, speed_prices
from planner.units.writing import Screen

CATALOG = load_catalog()
ROWS = speed_prices(CATALOG, CATALOG.instances, CATALOG.purchases)
LECTURE = {
    # CS 181AI lecture 14: machine and kind of price -> dollars for a TFLOP/s at double, single, half precision
    ("p3.2xlarge", "reserved-3y"): (4671, 2335, 292),
    ("p3.8xlarge", "reserved-3y"): (4670, 2335, 292),
    ("p3.16xlarge", "reserved-3y"): (4670, 2335, 292),
    ("p2.xlarge", "reserved-3y"): (8296, 2765, None),
    ("DGX-1V", BOUGHT): (2483, 1242, 155),
    ("DGX-1P", BOUGHT): (3035, 1521, 761),
}
ROUNDED = 0.08
"""The lecture takes 7.5, 15 and 120 TFLOP/s of a V100 that has 7.85, 15.7 and 125."""


def row(machine: str, kind: str) -> SpeedPrice:
    return next(one for one in ROWS if one.machine.split()[0] == machine and one.kind == kind)


@pytest.mark.parametrize(("key", "figures"), LECTURE.items(), ids=str)
def test_the_lectures_table(key: tuple[str, str], figures: tuple[float | None, ...]) -> None:
    one = row(*key)
    rates = (double_flops(one.gpu), one.gpu.fp32_flops, one.gpu.tensor_fp16_flops)
    for rate, printed in zip(rates, figures, strict=True):
        found = one.usd_per_tflops(rate)
        assert (found is None) == (printed is None)
        if printed is not None:
            assert found == pytest.approx(printed, rel=ROUNDED)


def test_every_price_of_every_machine_is_there_once() -> None:
    kinds = sum(len(instance.prices) for instance in CATALOG.instances)
    assert len(ROWS) == kinds + len(CATALOG.purchases)
    unknown = {gpu.compute_capability for gpu in CATALOG.gpus.values() if double_flops(gpu) is None}
    assert unknown == {"", "5.3", "7.2", "8.7", "10.3", "11.0", "12.0", "12.1", "gfx90a", "gfx942", "gfx950"}


def test_what_is_retired_says_so() -> None:
    retired = {one.name: one.status == "retired" for one in CATALOG.instances}
    retired |= {one.machine: one.status == "retired" for one in CATALOG.purchases}
    lines = speed_price_table(ROWS, Screen(400)).splitlines()[1 : len(ROWS) + 1]
    assert set(retired.values()) == {True, False}
    for line in lines:
        assert ("retired" in line) == retired[line.split()[0]], line
