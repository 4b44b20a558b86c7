"""All ways to keep machines for a calendar: each a base that never changes, and a rest.

The rest follows the load, or a timetable, or never changes either. Both are of any type on offer in one region of one
provider, at any kind of price.
The cost of a way is known before anything is replayed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from planner.catalog.offers import Offer
from planner.model.choices import HorizonWay, PriceKind
from planner.questions.horizons.answer import Mode
from planner.questions.horizons.machines import MachineBase, MachineGroup, hardware
from planner.questions.horizons.market import Market, Paid, side_by_side
from planner.questions.horizons.question import HorizonQuestion
from planner.questions.horizons.wishes import RestPlans
from simulator.clock.autoscaling import Wishes


class Pattern(NamedTuple):
    """How base and rest are paid for, and how the number of the rest changes."""

    base: Paid | None
    """None: there is no base."""
    rest: Paid
    mode: Mode


def patterns(bases: Sequence[Paid | None], rest: Paid, *modes: Mode) -> tuple[Pattern, ...]:
    """Each base beside a rest in each mode; in all modes where none is named."""
    return tuple(Pattern(base, rest, mode) for base in bases for mode in modes or Mode)


ALWAYS = patterns((None, Paid.ON_DEMAND), Paid.ON_DEMAND, Mode.CONSTANT)
PATTERNS: Mapping[HorizonWay, Sequence[Pattern]] = {
    HorizonWay.FIXED: ALWAYS,
    HorizonWay.SCHEDULED: (
        *patterns((None, Paid.ON_DEMAND), Paid.ON_DEMAND, Mode.SCHEDULED),
        *ALWAYS,  # a timetable may never change
    ),
    HorizonWay.AUTOSCALED: patterns((None, Paid.ON_DEMAND), Paid.ON_DEMAND, Mode.AUTOSCALED),
    HorizonWay.RESERVED: (
        *patterns((None, Paid.RESERVED), Paid.RESERVED, Mode.CONSTANT),
        *patterns((Paid.RESERVED,), Paid.ON_DEMAND),
    ),
    HorizonWay.SPOT: patterns((None, Paid.RESERVED, Paid.ON_DEMAND), Paid.SPOT),
    HorizonWay.OWN: (
        *patterns((None, Paid.OWN), Paid.OWN, Mode.CONSTANT),
        *patterns((Paid.OWN,), Paid.RESERVED, Mode.CONSTANT),
        *patterns((Paid.OWN,), Paid.ON_DEMAND),
        *patterns((Paid.OWN,), Paid.SPOT),
    ),
}


@dataclass(frozen=True)
class OfferPair:
    """Types of machines for base and rest, at their kinds of price."""

    way: HorizonWay
    mode: Mode
    base: Offer | None
    rest: Offer


@dataclass(frozen=True)
class WayCandidate:
    """One way with all its numbers."""

    way: HorizonWay
    base: MachineBase | None
    group: MachineGroup
    """Machines of the rest, without the base."""
    mode: Mode
    target: float | None
    """Target utilization of the rest; None where it has none."""
    wishes: Callable[[], Wishes]
    """Machines of the rest that are wanted over time."""
    usd: float
    """Cost of the whole calendar, or less: a timetable orders ahead, and spot machines cost nothing in a shortage."""
    exact: bool = True
    """`usd` is what the timelines cost."""

    @property
    def rest(self) -> Offer:
        """Type and price of the rest."""
        return self.group.offer

    @property
    def beside_base(self) -> MachineGroup:
        """Machines of the rest beside the base."""
        return self.group.beside(self.base)


def pairs(market: Market, way: HorizonWay) -> Iterator[OfferPair]:
    """All types of machines for base and rest that may make sense."""
    for pattern in PATTERNS[way]:
        bases = market.offers.get(pattern.base, ()) if pattern.base else (None,)
        for rest, base in product(market.offers.get(pattern.rest, ()), bases):
            if base is None or (side_by_side(base, rest) and sensible(pattern, base, rest)):
                yield OfferPair(way, pattern.mode, base, rest)


def sensible(pattern: Pattern, base: Offer, rest: Offer) -> bool:
    """A base may be cheaper than more of the rest."""
    if hardware(base) != hardware(rest):
        return True
    if pattern.base is Paid.OWN:
        return pattern.rest is not Paid.OWN
    if pattern.base is pattern.rest:
        return pattern.mode is Mode.AUTOSCALED  # the base is a floor
    if pattern.rest is Paid.SPOT:
        return True
    return pattern.mode is not Mode.CONSTANT and base.usd_per_hour < rest.usd_per_hour


def candidates(question: HorizonQuestion, pair: OfferPair) -> Iterator[WayCandidate]:
    """Every size of the base, and every number or target of the rest."""
    group = question.market.group(pair.rest)
    base_group = question.market.group(pair.base) if pair.base else None
    if group is None or (pair.base and base_group is None):
        return
    is_spot = pair.rest.price_kind is PriceKind.SPOT
    plans = RestPlans(question, group, pair.mode)
    for base in bases(question, base_group):
        for plan in plans.beside(base):
            wishes = plan.wishes()
            if base is not None and not wishes.count.any():
                continue  # the base alone is a way of its own
            hours = wishes.machine_hours()
            if pair.rest.price_kind is PriceKind.SPOT:
                hours = max(0.0, hours - question.hours_in_shortage(int(wishes.count.max())))
            base_usd = base.machines * base.offer.usd_per_hour * question.hours if base else 0.0
            yield WayCandidate(
                way=pair.way,
                base=base,
                group=group,
                mode=pair.mode,
                target=plan.target,
                wishes=plan.wishes,
                usd=base_usd + hours * pair.rest.usd_per_hour,
                exact=not is_spot and pair.mode is not Mode.SCHEDULED,
            )


def bases(question: HorizonQuestion, group: MachineGroup | None) -> Iterator[MachineBase | None]:
    """Every size of the base; None where there is none."""
    if group is None:
        yield None
        return
    for machines in range(1, question.most_machines(group) + 1):
        yield MachineBase(group, machines)
