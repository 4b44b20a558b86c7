"""Machines to train on: rented at each kind of price, one's own, or bought."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from planner.catalog.catalog import Catalog
from planner.catalog.cost import HOURS_PER_YEAR, Ownership
from planner.catalog.offers import Offer, offers, purchases
from planner.catalog.sold import Purchase
from planner.model.choices import PriceKind
from planner.model.plan import Rejection
from planner.model.ranges import Range, exactly, ranged
from planner.model.statement import Code, Statement
from planner.questions.training.scenario import PurchaseSpec, TrainingScenario
from simulator.world.hardware import GPU

PURCHASE = "purchase"
OWN = "own"
TERMS_YEARS: Mapping[PriceKind | None, float] = {PriceKind.RESERVED_1Y: 1.0, PriceKind.RESERVED_3Y: 3.0}
YEARS = 3
"""Years over which a machine's dollars for each TFLOP/s are counted."""
ASSUMED_NETWORK_BYTES_PER_S = ranged(0.625e9, 2.5e9, 32.5e9)
"""Bandwidth to other machines for each GPU of one of which nobody lists it: 20 Gb/s, between 5 and 260, which are the
median, the tenth and the nine tenths of instances of which it is listed."""
LISTED_REACHED = 0.5
"""Least share of a listed bandwidth that messages get: providers say that theirs is an upper limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSource:
    """Machines of one kind at one price."""

    instance: str
    provider: str = ""
    """Who rents it; empty where it is one's own or bought."""
    region: str = ""
    """Where; empty with the provider, and where it does not matter."""
    gpu: GPU
    gpus_each: int
    usd_per_hour: Range
    usd_in_all: float
    """Dollars of `YEARS` years: the price where bought, else that time's rent."""
    price_kind: str
    committed_years: float = 0.0
    """Years for which it is paid whether it is used or not."""
    memory_bytes: int
    count_max: int | None = None
    as_of: str = ""
    host_cores: int | None = None
    """Virtual CPUs of one machine; None where nobody says."""
    listed_network_bytes_per_s: tuple[float, float] | None = None
    """Bandwidth to other machines, sustained and in bursts, as its provider lists it; None where nobody does."""

    @property
    def network_bytes_per_s(self) -> Range:
        """Bandwidth to other machines, as listed or assumed, with its doubt."""
        if self.listed_network_bytes_per_s is None:
            return ASSUMED_NETWORK_BYTES_PER_S * self.gpus_each
        sustained, burst = self.listed_network_bytes_per_s
        return ranged(LISTED_REACHED * sustained, sustained, burst)

    @property
    def commitment_usd(self) -> float:
        """Dollars of one machine in all, however little it is used; 0 where it is paid by the hour."""
        if self.price_kind == PURCHASE:
            return self.usd_in_all
        return self.committed_years * HOURS_PER_YEAR * self.usd_per_hour.mid


def sources(scenario: TrainingScenario, catalog: Catalog) -> tuple[list[MachineSource], list[Rejection]]:
    """Machines at all kinds of price that the scenario names, and the machines rejected at each of them."""
    found: list[MachineSource] = []
    rejections: list[Rejection] = []
    for i, kind in enumerate(scenario.price_kinds):
        at_price, rejected = offers(catalog, replace(scenario.buy, price=kind))
        # One's own machines come with every kind of price, and count once.
        found += [_rented(o) for o in at_price if not o.gpu.cores and (o.price_kind or i == 0)]
        rejections += [among_compared(no, scenario) for no in rejected]
    if scenario.purchase:
        machines, rejected = purchases(catalog, scenario.buy)
        found += [_bought(machine, catalog.gpus[machine.gpu], scenario.purchase) for machine in machines]
        rejections += rejected
    return found, [no for i, no in enumerate(rejections) if no not in rejections[:i]]


def among_compared(no: Rejection, scenario: TrainingScenario) -> Rejection:
    """Another `buy.price` is no remedy beside `prices`; those that it does not list yet are."""
    if not scenario.prices:
        return no
    return replace(no, remedies=tuple(listed(remedy, scenario) for remedy in no.remedies))


def listed(remedy: Statement, scenario: TrainingScenario) -> Statement:
    """`add on-demand to prices` for `set buy.price to on-demand`."""
    if remedy.code is not Code.OTHER_PRICE:
        return remedy
    wanted, *known = remedy.subjects
    others = [kind for kind in known if kind not in scenario.prices]
    return Statement(code=Code.OTHER_PRICE_COMPARED, subjects=(wanted, *others))


def _rented(offer: Offer) -> MachineSource:
    low, high = offer.spot_range or (offer.usd_per_hour, offer.usd_per_hour)
    return MachineSource(
        instance=offer.instance,
        provider=offer.provider if offer.price_kind else "",
        region=offer.region if offer.price_kind else "",
        gpu=offer.gpu,
        gpus_each=offer.gpu_count,
        usd_per_hour=ranged(low, offer.usd_per_hour, high),
        usd_in_all=YEARS * HOURS_PER_YEAR * offer.usd_per_hour,
        price_kind=str(offer.price_kind or OWN),
        committed_years=TERMS_YEARS.get(offer.price_kind, 0.0),
        memory_bytes=offer.memory_bytes,
        count_max=offer.count_max,
        as_of=offer.as_of,
        host_cores=offer.host_cores,
        listed_network_bytes_per_s=offer.network_bytes_per_s,
    )


def _bought(machine: Purchase, gpu: GPU, own: PurchaseSpec) -> MachineSource:
    terms = Ownership(
        years=own.years,
        interest=own.interest,
        used=own.used,
        usd_per_kwh=own.electricity,
        overhead=own.overhead,
    )
    power_w = machine.power_w or machine.gpu_count * gpu.tdp_w
    return MachineSource(
        instance=machine.machine,
        gpu=gpu,
        gpus_each=machine.gpu_count,
        usd_per_hour=exactly(terms.usd_per_hour(machine.usd, power_w)),
        usd_in_all=machine.usd,
        price_kind=PURCHASE,
        committed_years=own.years,
        memory_bytes=gpu.memory_bytes,
        as_of=machine.as_of,
    )


def counts(scenario: TrainingScenario, source: MachineSource) -> Iterator[int]:
    """Numbers of GPUs that whole machines make up, as many and as dear an hour as may be had."""
    for gpu_count in whole_counts(scenario, source):
        if scenario.buy.affords(hourly_usd(source, gpu_count)):
            yield gpu_count


def whole_counts(scenario: TrainingScenario, source: MachineSource) -> Iterator[int]:
    """The same whatever they cost."""
    machines_max = math.inf if source.count_max is None else source.count_max
    for gpu_count in scenario.gpu_counts:
        machines, rest = divmod(gpu_count, source.gpus_each)
        if not rest and gpu_count <= scenario.buy.max_gpus and machines <= machines_max:
            yield gpu_count


def hourly_usd(source: MachineSource, gpu_count: int) -> float:
    """Dollars an hour of so many GPUs, as a plan counts them: 2 machines of $3.06 with one each are $6.12."""
    return gpu_count / source.gpus_each * source.usd_per_hour.mid
