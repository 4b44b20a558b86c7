"""Machines to train on: rented at each kind of price, one's own, or bought."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from planner.catalog import Catalog, Offer, Purchase, offers, purchases
from planner.plans import Rejection
from planner.scenario import PriceKind
from planner.training.closed_forms import Range, exactly
from planner.training.cost import HOURS_PER_YEAR, Ownership
from planner.training.scenario import PurchaseSpec, TrainingScenario
from simulator.hardware import GPU

PURCHASE = "purchase"
TERMS_YEARS = {PriceKind.RESERVED_1Y: 1.0, PriceKind.RESERVED_3Y: 3.0}
YEARS = 3
"""Over which a machine's dollars for each TFLOP/s are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Machines of one kind at one price."""

    instance: str
    gpu: GPU
    gpus_each: int
    usd_per_hour: Range
    usd_in_all: float
    """Of `YEARS` years: what buying takes, or that time's rent."""
    price_kind: str
    committed_years: float = 0.0
    """For which it is paid whether it is used or not."""
    memory_bytes: int
    count_max: int | None = None
    as_of: str = ""

    @property
    def commitment_usd(self) -> float:
        """What one machine takes in all, however little it is used; 0 where it is paid by the hour."""
        if self.price_kind == PURCHASE:
            return self.usd_in_all
        return self.committed_years * HOURS_PER_YEAR * self.usd_per_hour.mid


def sources(s: TrainingScenario, catalog: Catalog) -> tuple[list[Source], list[Rejection]]:
    """Machines at all kinds of price asked for, and what was refused at each of them."""
    found: list[Source] = []
    refused: list[Rejection] = []
    for i, kind in enumerate(s.price_kinds):
        at_price, no = offers(catalog, replace(s.buy, price=kind))
        found += [_rented(o) for o in at_price if o.price_kind or i == 0]  # one's own have no price kind: once
        refused += no
    if s.purchase:
        made, no = purchases(catalog, s.buy)
        found += [_bought(machine, catalog.gpus[machine.gpu], s.purchase) for machine in made]
        refused += no
    return found, refused


def _rented(offer: Offer) -> Source:
    low, high = offer.spot_range or (offer.usd_per_hour, offer.usd_per_hour)
    return Source(
        instance=offer.instance,
        gpu=offer.gpu,
        gpus_each=offer.gpu_count,
        usd_per_hour=Range(low=low, mid=offer.usd_per_hour, high=high),
        usd_in_all=YEARS * HOURS_PER_YEAR * offer.usd_per_hour,
        price_kind=str(offer.price_kind or "own"),
        committed_years=TERMS_YEARS.get(offer.price_kind, 0.0) if offer.price_kind else 0.0,
        memory_bytes=offer.memory_bytes,
        count_max=offer.count_max,
        as_of=offer.as_of,
    )


def _bought(machine: Purchase, gpu: GPU, own: PurchaseSpec) -> Source:
    terms = Ownership(
        years=own.years, interest=own.interest, used=own.used, usd_per_kwh=own.electricity, overhead=own.overhead
    )
    return Source(
        instance=machine.machine,
        gpu=gpu,
        gpus_each=machine.gpu_count,
        usd_per_hour=exactly(terms.usd_per_hour(machine.usd, machine.power_w or machine.gpu_count * gpu.tdp_w)),
        usd_in_all=machine.usd,
        price_kind=PURCHASE,
        committed_years=own.years,
        memory_bytes=gpu.memory_bytes,
        as_of=machine.as_of,
    )


def counts(s: TrainingScenario, source: Source) -> Iterator[int]:
    """Numbers of GPUs that whole machines make up."""
    for count in s.gpu_counts:
        machines, rest = divmod(count, source.gpus_each)
        if not rest and count <= s.buy.max_gpus and machines <= (source.count_max or math.inf):
            yield count
