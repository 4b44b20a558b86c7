"""Spares: machines beside a fleet that take over what others did which are away, so that every SLO is met still."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import combinations_with_replacement, islice
from math import inf

from planner.catalog.offers import Offer
from planner.model.parts.machines import BuySpec
from planner.model.scenario import Scenario
from planner.placing.fleets import Fleet, cost_usd_per_hour, gpu_count
from planner.replay.trial import Trial

TYPES_MAX = 6
"""Types of machines of which a fleet is looked for: small ones may be dearer by the GPU, and their spares cheaper."""
FLEETS_COUNTED, FLEETS_WEIGHED, FLEETS_TRIED = 20_000, 400, 12
"""Fleets that carry their own spares: listed by cost, weighed by arithmetic, some milliseconds each, and replayed with
each of their machines away."""
ROUNDING = 1e-9
"""USD/h by which sums of prices may differ that are the same."""


@dataclass(frozen=True)
class SpareSearch:
    """Looks for the cheapest spares of fleets, with what a search for fleets can do."""

    scenario: Scenario
    offers: Sequence[Offer]
    anew: Callable[[tuple[Offer, ...], Fleet], Trial | None]
    """A fleet with the models placed anew where every SLO is met on it."""
    of_type: Callable[[Offer], Trial | None]
    """The cheapest fleet of one type of machine alone."""
    carries: Callable[[tuple[Offer, ...], Fleet], bool]
    """Whether a fleet could carry the work by arithmetic."""
    least_usd_per_hour: float
    """Price that no fleet can beat with its spares."""

    def ready(self, trials: Sequence[Trial]) -> list[Trial]:
        """Trials with their spares, fleets of one type of machine with theirs, and a fleet of several types that costs
        less and carries its own; those first that cost least in all.

        As they are where no machine may be away. Those whose own types allow no spares are joined by the cheapest types
        on offer where that costs less than the rest; where the limits on buying allow none, all are unready.
        """
        if not self.scenario.survive or not trials:
            return list(trials)
        fleets = [*trials, *self._of_one_type()]
        found = list(map(self.with_spares, fleets))
        below_usd = min((trial.cost_usd_per_hour for trial in found if not trial.unready), default=inf)
        for place, trial in enumerate(found):
            if trial.unready and (larger := self._joined(trial, self.offers, below_usd)):
                found[place], below_usd = larger, min(below_usd, larger.cost_usd_per_hour)
        for offered in self._types_that_may_carry_their_own(fleets, found) if below_usd < inf else ():
            if cheaper := self._carrying_its_own(offered, below_usd):
                found.append(cheaper)
                below_usd = cheaper.cost_usd_per_hour
        distinct = {(trial.candidate, trial.spares): trial for trial in found}
        usable = [trial for trial in distinct.values() if not trial.unready]
        return sorted(usable or found, key=lambda trial: trial.cost_usd_per_hour)

    def _of_one_type(self) -> Iterator[Trial]:
        offered = sorted(self.offers, key=lambda offer: offer.usd_per_hour)
        for offer in offered[:TYPES_MAX]:
            if trial := self.of_type(offer):
                yield trial

    def with_spares(self, trial: Trial, beside: Sequence[Offer] = ()) -> Trial:
        """The trial with the cheapest spares that were found; unready where the limits on buying allow none.

        As many of each type as may be away always do. Fewer may: of one type that stands in for all, or none where the
        models find room on what is left. Where there are no more of its types, machines of these or of types `beside`
        join the fleet.
        """
        if spares := self._spares_of(trial):
            return replace(trial, spares=spares)
        return self._joined(trial, beside) or replace(trial, unready=True)

    def _joined(self, trial: Trial, beside: Sequence[Offer], below_usd: float = inf) -> Trial | None:
        """The cheapest fleet that survives, of those with machines of the trial's types or of types `beside` more; None
        where none costs less than `below_usd` an hour."""
        if all(offer.count_max is None for offer in trial.bought):
            return None
        offered = tuple(dict.fromkeys((*trial.offers, *beside)))
        fleet = (*trial.fleet, *(0 for _ in offered[len(trial.fleet) :]))
        for larger in larger_fleets(offered, fleet, self.scenario.survive):
            if cost_usd_per_hour(offered, larger) >= below_usd:
                break
            allowed = may_be_bought(self.scenario.buy, offered, larger, fleet_of_none(offered))
            found = self.anew(offered, larger) if allowed else None
            if found and (spares := self._spares_of(found)):
                return replace(found, spares=spares)
        return None

    def _types_that_may_carry_their_own(
        self, trials: Sequence[Trial], spared: Sequence[Trial]
    ) -> Iterator[tuple[Offer, ...]]:
        """Those of the fleet that is the cheapest with its spares, and those of all and the cheapest on offer."""
        least = min((one for one in spared if not one.unready), key=lambda one: one.cost_usd_per_hour)
        yield tuple(least.bought)
        cheapest = sorted(self.offers, key=lambda offer: offer.usd_per_hour)
        bought = (offer for trial in trials for offer in trial.bought)
        yield tuple(dict.fromkeys((*bought, *cheapest)))[:TYPES_MAX]

    def _carrying_its_own(self, offered: tuple[Offer, ...], below_usd: float) -> Trial | None:
        """The cheapest fleet below a price that needs no spares: whichever of its machines are away, the rest does.
        None where there is none among those that are tried."""
        away, buy = self.scenario.survive, self.scenario.buy
        none = fleet_of_none(offered)
        listed = islice(by_cost(offered, below_usd), FLEETS_COUNTED)
        dearer = (fleet for fleet, cost in listed if cost >= self.least_usd_per_hour - ROUNDING)
        missed: list[Fleet] = []
        tried = 0
        for fleet in islice(dearer, FLEETS_WEIGHED):
            left = ways_left(fleet, away)
            if any(covers(one, fewer) for one in missed for fewer in left):
                continue
            if not may_be_bought(buy, offered, fleet, none):
                continue
            if short := next((one for one in left if not self.carries(offered, one)), None):
                missed.append(short)
                continue
            tried += 1
            if short := next((one for one in left if not self.anew(offered, one)), None):
                missed.append(short)
            elif found := self.anew(offered, fleet):
                return replace(found, spares=fleet_of_none(found.offers))
            if tried == FLEETS_TRIED:
                return None
        return None

    def _spares_of(self, trial: Trial) -> Fleet | None:
        """The cheapest spares of its own types with which a trial survives; None where none may be bought."""
        away = self.scenario.survive
        for spares in ways_to_spare(trial.offers, trial.fleet, away):
            if may_be_bought(self.scenario.buy, trial.offers, trial.fleet, spares) and self.survives(
                trial.offers, trial.fleet, spares, away
            ):
                return spares
        return None

    def certain(self, trial: Trial) -> Trial:
        """The trial with as many spares of each type as may be away, which always do: no replay is needed."""
        spares = of_each_type(trial.fleet, self.scenario.survive)
        allowed = may_be_bought(self.scenario.buy, trial.offers, trial.fleet, spares)
        return replace(trial, spares=spares) if allowed else replace(trial, unready=True)

    def survives(self, offered: tuple[Offer, ...], fleet: Fleet, spares: Fleet, away: int) -> bool:
        """Whether every SLO is met on what is left of a fleet and its spares, whichever machines are away."""
        left = ways_left(together(fleet, spares), away)
        return all(covers(one, fleet) or (any(one) and self.anew(offered, one)) for one in left)


def may_be_bought(buy: BuySpec, offered: Sequence[Offer], fleet: Fleet, spares: Fleet) -> bool:
    """Whether there may be so many machines, spares included."""
    bought = together(fleet, spares)
    return (
        gpu_count(offered, bought) <= buy.max_gpus
        and buy.affords(cost_usd_per_hour(offered, bought))
        and all(o.count_max is None or n <= o.count_max for o, n in zip(offered, bought, strict=True))
    )


def ways_to_spare(offered: Sequence[Offer], fleet: Fleet, away: int) -> list[Fleet]:
    """No spares, one to `away` of one type of the fleet, and `away` of each; the cheapest first."""
    places = range(len(fleet))
    bought = [place for place in places if fleet[place]]
    ones = [tuple(n if place == i else 0 for i in places) for place in bought for n in range(1, away + 1)]
    ways = {fleet_of_none(offered), *ones, of_each_type(fleet, away)}
    return sorted(ways, key=lambda spares: cost_usd_per_hour(offered, spares))


def larger_fleets(offered: Sequence[Offer], fleet: Fleet, away: int) -> list[Fleet]:
    """A fleet with one to `away` machines more, of the cheapest types on offer; the cheapest first."""
    places = sorted(range(len(fleet)), key=lambda place: offered[place].usd_per_hour)[:TYPES_MAX]
    more = (one for n in range(1, away + 1) for one in combinations_with_replacement(places, n))
    fleets = [tuple(n + one.count(place) for place, n in enumerate(fleet)) for one in more]
    return sorted(fleets, key=lambda larger: cost_usd_per_hour(offered, larger))


def by_cost(offered: Sequence[Offer], below_usd: float) -> Iterator[tuple[Fleet, float]]:
    """Fleets that cost less than `below_usd` an hour with their cost, as many of each offer as there are; the cheapest
    first."""
    waiting: list[tuple[float, Fleet, int]] = [(0.0, fleet_of_none(offered), 0)]
    while waiting:
        cost, fleet, last = heappop(waiting)
        yield fleet, cost
        for place in range(last, len(fleet)):
            larger = (*fleet[:place], fleet[place] + 1, *fleet[place + 1 :])
            dearer, most = cost_usd_per_hour(offered, larger), offered[place].count_max
            if dearer < below_usd - ROUNDING and (most is None or larger[place] <= most):
                heappush(waiting, (dearer, larger, place))


def fleet_of_none(offered: Sequence[Offer]) -> Fleet:
    """No machine of any offer."""
    return (0,) * len(offered)


def of_each_type(fleet: Fleet, away: int) -> Fleet:
    """As many spares of each type as may be away."""
    return tuple(away if n else 0 for n in fleet)


def together(fleet: Fleet, spares: Fleet) -> Fleet:
    """A fleet and its spares."""
    return tuple(n + more for n, more in zip(fleet, spares, strict=True))


def ways_left(fleet: Fleet, away: int) -> list[Fleet]:
    """What is left of a fleet when so many of its machines are away, in every way; nothing is left of one too small."""
    if sum(fleet) <= away:
        return [(0,) * len(fleet)]
    lost = combinations_with_replacement(range(len(fleet)), away)
    left = [tuple(n - gone.count(place) for place, n in enumerate(fleet)) for gone in lost]
    return [fleet for fleet in left if min(fleet) >= 0]


def covers(fleet: Fleet, needed: Fleet) -> bool:
    """Whether one fleet has all machines of another."""
    return all(n >= m for n, m in zip(fleet, needed, strict=True))
