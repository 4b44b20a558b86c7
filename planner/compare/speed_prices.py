"""Dollars for speed: what a TFLOP/s of each machine costs over three years, rented, reserved or bought, by precision.

The lectures' own table (CS 181AI, lecture 14), for everything in the catalog.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf

from planner.catalog.catalog import Catalog
from planner.catalog.cost import usd_per_tflops
from planner.catalog.files import SaleStatus
from planner.catalog.sold import Instance, Purchase
from planner.model.choices import PriceKind
from planner.questions.training.sources import YEARS
from planner.units.reading import HOURS_PER_YEAR
from planner.units.writing import Screen, TextColumn, dollars, table
from simulator.world.hardware import GPU

BOUGHT = "bought"
DOUBLE_SHARE = {
    "2.0": 1 / 8,
    "3.7": 1 / 3,
    "6.0": 1 / 2,
    "6.1": 1 / 32,
    "7.0": 1 / 2,
    "7.5": 1 / 32,
    "8.0": 1 / 2,
    "8.6": 1 / 64,
    "8.9": 1 / 64,
    "9.0": 1 / 2,
    "10.0": 1 / 2,
}
"""64-bit results a clock over 32-bit ones, by compute capability: CUDA programming guide, throughput of arithmetic
instructions. Matrix units for 64 bits, from 8.0 on, are not counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedPrice:
    """A machine at one kind of price."""

    machine: str
    gpu: GPU
    gpu_count: int
    kind: str
    """A kind of price, or `bought`."""
    usd: float
    """Of three years, or of the machine."""
    sold: bool
    as_of: str

    def usd_per_tflops(self, flops_per_s: float | None) -> float | None:
        """$149,000 for eight V100 of 15.7 TFLOP/s: $1,186 a TFLOP/s."""
        return None if not flops_per_s else usd_per_tflops(self.usd, self.gpu_count * flops_per_s / 1e12)


def double_flops(gpu: GPU) -> float | None:
    """Peak at 64 bits; None where nothing is known of its compute capability. A V100: 7.85 TFLOP/s."""
    share = DOUBLE_SHARE.get(gpu.compute_capability)
    return None if share is None else share * gpu.fp32_flops


def speed_prices(catalog: Catalog, rented: Sequence[Instance], bought: Sequence[Purchase]) -> list[SpeedPrice]:
    """Every machine at every kind of its prices, least dollars for a TFLOP/s at single precision first."""
    prices = [*_rents(catalog, rented), *_purchases(catalog, bought)]
    return sorted(prices, key=lambda one: (one.usd_per_tflops(one.gpu.fp32_flops) or inf, one.machine, one.kind))


def _rents(catalog: Catalog, rented: Sequence[Instance]) -> Iterator[SpeedPrice]:
    for instance in rented:
        for kind in PriceKind:
            if price := instance.prices.get(kind):
                yield SpeedPrice(
                    machine=f"{instance.name} ({instance.provider} {instance.region})",
                    gpu=catalog.gpus[instance.gpu],
                    gpu_count=instance.gpu_count,
                    kind=str(kind),
                    usd=YEARS * HOURS_PER_YEAR * price.usd_per_hour,
                    sold=price.status is not SaleStatus.RETIRED,
                    as_of=price.as_of,
                )


def _purchases(catalog: Catalog, bought: Sequence[Purchase]) -> Iterator[SpeedPrice]:
    for machine in bought:
        yield SpeedPrice(
            machine=machine.machine,
            gpu=catalog.gpus[machine.gpu],
            gpu_count=machine.gpu_count,
            kind=BOUGHT,
            usd=machine.usd,
            sold=machine.status is not SaleStatus.RETIRED,
            as_of=machine.as_of,
        )


def speed_price_table(rows: Sequence[SpeedPrice], screen: Screen) -> str:
    """For people: a line for each machine and kind of price."""

    def each(flops_per_s: float | None, one: SpeedPrice) -> str:
        usd = one.usd_per_tflops(flops_per_s)
        return "-" if usd is None else f"${usd:,.0f}"

    columns = [
        TextColumn("machine", [one.machine for one in rows]),
        TextColumn("GPUs", [f"{one.gpu_count} x {one.gpu.name}" for one in rows]),
        TextColumn("price", [one.kind + ("" if one.sold else ", retired") for one in rows]),
        TextColumn(f"{YEARS} years", [dollars(one.usd) for one in rows], right=True),
        TextColumn("double", [each(double_flops(one.gpu), one) for one in rows], right=True),
        TextColumn("single", [each(one.gpu.fp32_flops, one) for one in rows], right=True),
        TextColumn("tensor", [each(one.gpu.tensor_fp16_flops, one) for one in rows], right=True),
        TextColumn("as of", [one.as_of for one in rows]),
    ]
    note = (
        f"Dollars for a TFLOP/s of peak: rent of {YEARS} years, or the price of a machine to keep. tensor: fp16 on"
        " matrix or vector units. Power and upkeep of bought machines come on top."
    )
    return "\n".join([*table(columns, screen, indent=0), "", *screen.wrap(note)]) + "\n"
