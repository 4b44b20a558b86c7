"""The market: offers at each kind of price that a calendar weighs, and the machines of each type."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import inf

from planner.catalog.catalog import Catalog
from planner.catalog.offers import Offer, offers
from planner.catalog.sold import OWN
from planner.io.load import Loaded, workload
from planner.model.calendar import CalendarSpec
from planner.model.candidate import MachineType
from planner.model.choices import PriceKind
from planner.model.parts.merging import Merging
from planner.model.plan import Bottleneck, Rejection
from planner.model.progress import Progress
from planner.model.scenario import Objective
from planner.model.statement import Code, Statement
from planner.placing.sizing import Kind, Profiles
from planner.questions.horizons.demand import calendar_of, refuse
from planner.questions.horizons.machines import Hardware, MachineGroup, hardware
from planner.search.fleets.misses import Misses
from planner.search.fleets.search import FleetSearch
from planner.search.question import NothingToPlanError, Question, ask
from planner.units.writing import counted, dollars, names
from planner.words.statements import rejection_line, rejection_lines
from simulator.grouping import grouped
from simulator.world.workload import scaled


class Paid(StrEnum):
    """How a machine is paid for."""

    ON_DEMAND = "on-demand"
    RESERVED = "reserved"
    SPOT = "spot"
    OWN = "own"


@dataclass
class Market:
    """Offers at each kind of price, and the machines of each type once they are looked at."""

    loaded: Loaded
    catalog: Catalog
    library: Profiles
    peak: float
    """The largest factor."""
    offers: Mapping[Paid, Sequence[Offer]]
    question: Mapping[Kind, Question]
    """The question that has the curves of a kind of GPU."""
    progress: Progress
    opened: dict[Hardware, MachineGroup | None] = field(default_factory=dict)
    rejections: list[str] = field(default_factory=list)
    """Machines on offer that are not weighed, and why."""

    def erlangs(self, offer: Offer) -> Mapping[str, float]:
        """GPUs of that kind that factor 1 of each model keeps busy in the best of its batches."""
        kind = Kind.of(offer)
        at_peak = erlangs(self.question[kind], kind)
        return {model: load / self.peak for model, load in at_peak.items()}

    def group(self, offer: Offer) -> MachineGroup | None:
        """Machines of that type; None where no number of them serves the peak, however many there were."""
        key = hardware(offer)
        if key not in self.opened:
            self.opened[key] = self._open(offer)
        group = self.opened[key]
        return group and replace(group, offer=offer)  # offers of one type share their replays

    def _open(self, offer: Offer) -> MachineGroup | None:
        question = self.question[Kind.of(offer)]
        search = FleetSearch(question, self.progress, [])
        trial = search.best(question.program([offer]).unlimited(), Objective.COST)
        if trial is None:
            self.rejections += [rejection_line(rejection) for rejection in Misses(search).settled()[-1:]]
            return None
        return MachineGroup(
            loaded=self.loaded,
            catalog=self.catalog,
            library=self.library,
            offer=offer,
            demand=workload(self.loaded),
            peak=self.peak,
            trial=trial,
            erlangs=self.erlangs(offer),
        )

    @property
    def together(self) -> list[list[Offer]]:
        """The machines of which one way may be made: those of one region of a provider, with one's own."""
        all_offers = [offer for some in self.offers.values() for offer in some]
        own = [offer for offer in all_offers if offer.provider == OWN]
        places = {offer.place for offer in all_offers if offer not in own}
        return [own + [offer for offer in all_offers if offer.place == where] for where in sorted(places)] or [own]

    @property
    def requests(self) -> int:
        """Requests that were replayed so far."""
        groups = [group for group in self.opened.values() if group]
        mixes = [mix for group in groups for mix in group.mixes.values()]
        replayed = sum(seen.requests for group in (*groups, *mixes) for seen in group.seen.values())
        return replayed + sum(group.trial.replay.requests for group in groups)


def market(loaded: Loaded, catalog: Catalog, library: Profiles, peak: float, progress: Progress) -> Market:
    """All that may be had for this calendar, at every kind of price that it weighs."""
    check_answerable(loaded)
    scenario, demand = loaded.scenario, scaled(workload(loaded), peak)
    questions: dict[Paid, Question] = {}
    rejections: dict[Paid, list[Rejection]] = {}
    for paid, kind in price_kinds(calendar_of(loaded)).items():
        priced = replace(scenario, buy=replace(scenario.buy, price=kind, max_cost=None))
        questions[paid], rejections[paid] = ask(priced, demand, catalog, library, by_place=True)
    question_of = {Kind.of(offer): question for question in questions.values() for offer in question.offers}
    served: dict[Paid, list[Offer]] = {}
    for paid, some in offers_by_payment(loaded, catalog, questions).items():
        served[paid] = [offer for offer in some if serves(question_of[Kind.of(offer)], offer)]
    rejected = rejections[Paid.ON_DEMAND]
    if not any(served.values()):
        reasons = "\n".join(rejection_lines(rejected))
        raise NothingToPlanError(reasons or "no model can run on what is on offer.")
    weighed = grouped((offer.machine, offer.price_kind) for some in served.values() for offer in some)
    unfit = rejection_lines([at_its_price(no, weighed) for no in rejected if no.bottleneck is not Bottleneck.COST])
    return Market(loaded, catalog, library, peak, in_best_places(served), question_of, progress, rejections=unfit)


def in_best_places(served: Mapping[Paid, Sequence[Offer]]) -> dict[Paid, list[Offer]]:
    """Offers without those of a place where everything is to be had elsewhere, paid for alike, for no more."""
    rented = [(paid, offer) for paid, some in served.items() for offer in some if offer.provider != OWN]
    offers_at = grouped((offer.place, (paid, offer)) for paid, offer in rented)
    usd_at = {
        where: {(paid, hardware(offer)): offer.usd_per_hour for paid, offer in reversed(some)}  # the cheapest stays
        for where, some in offers_at.items()
    }
    for where in reversed(list(usd_at)):
        others = [usd for other, usd in usd_at.items() if other != where]
        if any(all(other.get(key, inf) <= usd for key, usd in usd_at[where].items()) for other in others):
            del usd_at[where]
    return {
        paid: [offer for offer in some if offer.provider == OWN or offer.place in usd_at]
        for paid, some in served.items()
    }


def at_its_price(no: Rejection, weighed: Mapping[MachineType, Sequence[PriceKind | None]]) -> Rejection:
    """Another `buy.price` is no remedy with a calendar, which weighs all kinds of price.

    `weighed`: the kinds of price at which each machine is compared.
    """
    if no.why.code is not Code.NO_PRICE:
        return no
    why = no.why
    if isinstance(no.subject, MachineType) and (kinds := weighed.get(no.subject)):
        why = Statement(code=Code.NO_PRICE_BUT, subjects=(*no.why.subjects, " and ".join(map(str, kinds))))
    return replace(no, why=why, remedies=(Statement(code=Code.OTHER_PRICE, subjects=no.why.subjects),))


def check_answerable(loaded: Loaded) -> None:
    """ScenarioError where pipelines, merged models or spares are asked for, which a calendar does not weigh, or one
    kind of price, for it compares them."""
    if loaded.scenario.pipelines:
        rule = "must be left out with a calendar, which weighs models alone."
        raise refuse(loaded, ("pipelines",), f"{rule} `planner plan` plans pipelines, at one load.")
    merging = loaded.scenario.merging
    if merging is not Merging.NONE:
        rule = f"must be none with a calendar, which serves each model on its own, got {merging}."
        raise refuse(loaded, ("merging",), f"{rule} `planner plan` weighs merging, at one load.")
    if survive := loaded.scenario.survive:
        rule = f"must be left out with a calendar, which buys no spares, got {counted(survive, 'machine')}."
        raise refuse(loaded, ("survive",), f"{rule} `planner plan` buys them, at one load.")
    price = loaded.scenario.buy.price
    if price is PriceKind.ON_DEMAND:
        return
    rule = f"must be on-demand with a calendar, which compares kinds of price, got {price}."
    remedy = "Leave it out; `calendar.reserved` and `calendar.spot` say which other kinds are weighed."
    raise refuse(loaded, ("buy", "price"), f"{rule} {remedy}")


def price_kinds(calendar: CalendarSpec) -> Mapping[Paid, PriceKind]:
    """The catalog's kinds of price that a calendar weighs."""
    kinds = {Paid.ON_DEMAND: PriceKind.ON_DEMAND, Paid.RESERVED: PriceKind(calendar.reserved.term)}
    if calendar.spot:
        kinds[Paid.SPOT] = PriceKind.SPOT
    return kinds


def offers_by_payment(loaded: Loaded, catalog: Catalog, questions: Mapping[Paid, Question]) -> dict[Paid, list[Offer]]:
    """Offers at each kind of price. A price that the calendar states stands before the catalog's."""
    on_offer = {paid: [offer for offer in question.offers if offer.price_kind] for paid, question in questions.items()}
    on_offer[Paid.OWN] = [offer for offer in questions[Paid.ON_DEMAND].offers if not offer.price_kind]
    calendar = calendar_of(loaded)
    kinds = price_kinds(calendar)
    stated = {Paid.RESERVED: calendar.reserved.price, Paid.SPOT: calendar.spot.price if calendar.spot else None}
    for paid, usd_per_hour in stated.items():
        if usd_per_hour is None:
            continue
        types = types_on_offer(loaded, catalog, (PriceKind.ON_DEMAND, kinds[paid]))
        if len(types) != 1:
            rule = f"{dollars(usd_per_hour)}/h is of one type of machine, and on offer are {names(types) or 'none'}."
            raise refuse(loaded, ("calendar", paid, "price"), f"{rule} Name one type in `buy.instances`.")
        on_offer[paid] = [
            replace(offer, usd_per_hour=usd_per_hour, price_kind=kinds[paid], spot_range=None, as_of="")
            for offer in on_offer[Paid.ON_DEMAND] or on_offer[paid]
        ]
    return on_offer


def types_on_offer(loaded: Loaded, catalog: Catalog, kinds: Sequence[PriceKind]) -> list[str]:
    """Types of machine that are rented out at one of these kinds of price, also where another stands in for one."""
    buys = [replace(loaded.scenario.buy, price=kind) for kind in kinds]
    rented = [offer for buy in buys for offer in offers(catalog, buy)[0] if offer.price_kind]
    return list(dict.fromkeys(offer.instance for offer in rented))


def side_by_side(base: Offer, rest: Offer) -> bool:
    """One service stands in one region of one provider; machines of one's own stand beside any."""
    return OWN in (base.provider, rest.provider) or base.place == rest.place


def serves(question: Question, offer: Offer) -> bool:
    """Each model can run on such a machine."""
    return all((model, Kind.of(offer)) in question.sized for model in question.needs)


def erlangs(question: Question, kind: Kind) -> Mapping[str, float]:
    """GPUs that each model's demand keeps busy in the batch that takes least time a request: rate x latency(b) / b."""
    loads = {}
    for model, need in question.needs.items():
        latencies_s = question.sized[model, kind].latency_s
        request_s = min(latency_s / batch for batch, latency_s in enumerate(latencies_s, start=1))
        loads[model] = need.rate_rps * request_s
    return loads
