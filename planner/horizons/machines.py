"""Machines: what is on offer at which kind of price, and what so many of them do at a level of load."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import ceil, floor, isnan, sqrt

from planner.answer import Trial, cards_of, deploy, seed_of
from planner.catalog import Catalog, Offer
from planner.horizons.demand import calendar_of, refuse
from planner.horizons.sections import CalendarSpec
from planner.load import Loaded, workload
from planner.packing import Packer, Packing
from planner.plans import Bottleneck, Rejection
from planner.prediction.question import Question, ask
from planner.replications import longest_slo_s, warmup_s
from planner.scenario import Objective, PriceKind
from planner.search import NothingToPlanError, Progress, Search
from planner.sizing import Kind, Profiles
from simulator.deployment import Deployment, Drop
from simulator.metrics import summarise
from simulator.run import simulate
from simulator.stability import drain
from simulator.workload import Workload, scaled

STAGE = 2
"""Seeds of these replays are no others': 0 chooses plans, 1 confirms them."""
REPLAYS = 2
"""Replays of each level of load on each number of machines."""
JUDGED_S = 30.0
"""Judged time of one of them, at most."""
JUDGED_MAX = 40_000
"""Requests after which it may end sooner: the standard error of 99 % is then 0.05 points."""
JUDGED_MIN = 2000
"""Requests of the least asked model that it judges, however long that takes."""


Hardware = tuple[Kind, int, int | None]
"""Kind of GPU, how many in a machine, and host memory."""


class Paid(StrEnum):
    """How a machine is paid for."""

    ON_DEMAND = "on-demand"
    RESERVED = "reserved"
    SPOT = "spot"
    OWN = "own"


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What so many machines do at one level of load."""

    attainment: Mapping[str, float]
    """Share of each model's requests answered in time."""
    busy_gpus: float
    """GPUs that run a batch, on average."""
    error: Mapping[str, float] = field(default_factory=dict)
    """Standard error of each `attainment`; none where nothing was replayed."""
    growing: tuple[str, ...] = ()
    """Models whose queues would grow without end, were the load to stay."""
    requests: int = 0
    """Replayed."""


@dataclass
class Group:
    """Machines of one type, however many there are, and beside them always the same machines of another, or none."""

    loaded: Loaded
    catalog: Catalog
    library: Profiles
    offer: Offer
    demand: Workload
    """At factor 1."""
    peak: float
    """The largest factor."""
    trial: Trial
    """What the search found for the peak, on this type alone."""
    erlangs: Mapping[str, float]
    """GPUs that factor 1 of each model keeps busy in the best of its batches."""
    base: "tuple[Group, int] | None" = None
    """Machines that are always there; of the same type they are this group's own."""
    placed: dict[int, Deployment] = field(default_factory=dict)
    seen: dict[tuple[float, int], Behaviour] = field(default_factory=dict)
    mixes: "dict[tuple[int | None, Hardware, int], Group]" = field(default_factory=dict)

    @property
    def machines_peak(self) -> int:
        """Machines that the search found for the peak."""
        return sum(self.trial.fleet)

    @property
    def machines_max(self) -> int:
        """Most machines that may be had beside the base."""
        gpus = self.loaded.scenario.buy.max_gpus - (self.base[0].offer.gpu_count * self.base[1] if self.base else 0)
        limit = gpus // self.offer.gpu_count
        return max(0, limit if self.offer.count_max is None else min(limit, self.offer.count_max))

    @property
    def load_erlangs(self) -> float:
        """Machines that factor 1 keeps busy in the best of its batches."""
        return sum(self.erlangs.values()) / self.offer.gpu_count

    @property
    def beside_erlangs(self) -> float:
        """Machines of this type that do as much as the base, by the mix of the demand."""
        if self.base is None:
            return 0.0
        other, machines = self.base
        return machines * self.load_erlangs / other.load_erlangs

    @property
    def beside_erlangs_most(self) -> float:
        """The same, were the base given only the model that it is best at."""
        if self.base is None:
            return 0.0
        other, machines = self.base
        best = max(self.erlangs[m] / other.erlangs[m] for m in self.erlangs if other.erlangs[m])
        return machines * best * other.offer.gpu_count / self.offer.gpu_count

    def beside(self, other: "Group", machines: int) -> "Group":
        """The same, beside so many that are always there."""
        if not machines:
            return self
        key = self.offer.count_max, hardware(other.offer), machines
        if key not in self.mixes:
            mix = replace(self, base=(other, machines), placed={}, seen={}, mixes={})
            self.mixes[key] = mix
        return self.mixes[key]

    @property
    def targets(self) -> dict[str, float]:
        """The share of requests that is promised in time, by model."""
        return {spec.name: spec.slo.attainment for spec in self.loaded.scenario.models}

    def judged_s(self, factor: float) -> float:
        """Judged time of a replay at one level of load."""
        rates_rps = self.demand.rates_rps().values()
        wanted_s = min(JUDGED_S, JUDGED_MAX / (sum(rates_rps) * factor))
        return max(wanted_s, JUDGED_MIN / (min(rates_rps) * factor))

    def of_one_type(self, machines: int) -> "tuple[Group, int] | None":
        """Base and machines as so many of one type, where they are."""
        if self.base and (not machines or hardware(self.base[0].offer) == hardware(self.offer)):
            return self.base[0], machines + self.base[1]
        return None

    def deployment(self, machines: int) -> Deployment:
        """The models on so many machines, placed for as much of the peak as these are of the peak's machines."""
        if whole := self.of_one_type(machines):
            return whole[0].deployment(whole[1])
        if machines not in self.placed:
            self.placed[machines] = self._place(machines)
        return self.placed[machines]

    def _place(self, machines: int) -> Deployment:
        fleet = [(self, machines), *([self.base] if self.base else [])]
        if machines == self.machines_peak and not self.base:
            return self.trial.deployment
        scenario = self.loaded.scenario
        part = self.peak * min(1.0, sum(n / group.machines_peak for group, n in fleet))
        question, _ = ask(scenario, scaled(self.demand, part), self.catalog, self.library)
        cards = cards_of([group.offer for group, _ in fleet], tuple(n for _, n in fleet))
        for swap in question.policies:
            found = Packer(list(question.needs), question.sized, question.rules(swap, {})).pack(cards)
            if isinstance(found, Packing):
                return deploy(scenario, question.needs, cards, found.placed)
        raise NothingToPlanError(f"{machines} x {self.offer.instance} cannot hold all models.")

    def behaviour(self, factor: float, machines: int) -> Behaviour:
        """Replays at one level of load, each number of machines under the same arrivals; remembered."""
        if whole := self.of_one_type(machines):
            return whole[0].behaviour(factor, whole[1])
        key = factor, machines
        if key not in self.seen:
            self.seen[key] = self._replayed(factor, machines)
        return self.seen[key]

    def known(self, factor: float, machines: int) -> Behaviour | None:
        """What was replayed already."""
        if whole := self.of_one_type(machines):
            return whole[0].known(factor, whole[1])
        return self.seen.get((factor, machines))

    def _replayed(self, factor: float, machines: int) -> Behaviour:
        if not factor:
            return Behaviour(dict.fromkeys(self.targets, 1.0), 0.0)
        nothing = Behaviour(dict.fromkeys(self.targets, 0.0), 0.0)
        if not machines and not self.base:
            return nothing
        try:
            deployment = self.deployment(machines)
        except NothingToPlanError:  # too few to hold all models
            return nothing
        scenario, demand = self.loaded.scenario, scaled(self.demand, factor)
        early_s = warmup_s(scenario)
        duration_s = early_s + self.judged_s(factor) + longest_slo_s(scenario)
        growing = drain(deployment, self.needed_rps(factor), demand).growing
        judged, timely = dict.fromkeys(self.targets, 0), dict.fromkeys(self.targets, 0.0)
        variance = dict.fromkeys(self.targets, 0.0)
        busy, requests = 0.0, 0
        for i in range(REPLAYS):
            result = simulate(deployment, demand, duration_s, seed_of(scenario.seed, STAGE, i))
            summary = summarise(result, early_s)
            busy += sum(card.utilization for card in summary.devices.values()) / REPLAYS
            requests += result.request_count
            for model, seen in summary.models.items():
                judged[model] += seen.judged
                timely[model] += seen.slo_attainment * seen.judged if seen.judged else 0.0
                error = 0.0 if isnan(seen.slo_attainment_error) else seen.slo_attainment_error
                variance[model] += (error * seen.judged) ** 2
        attained = {m: timely[m] / n if n else 1.0 for m, n in judged.items()}
        never = scenario.drop is Drop.NEVER  # what waits then grows until all of it is late
        shares = {m: 0.0 if never and m in growing else share for m, share in attained.items()}
        errors = {m: sqrt(variance[m]) / n if n else 0.0 for m, n in judged.items()}
        return Behaviour(shares, busy, errors, growing, requests)

    def needed_rps(self, factor: float) -> dict[str, float]:
        """Requests of each model that must be processed at one level of load."""
        may_drop = self.loaded.scenario.drop is not Drop.NEVER
        rates_rps = self.demand.rates_rps()
        return {m: factor * rate * (self.targets[m] if may_drop else 1.0) for m, rate in rates_rps.items()}

    def needed(self, factor: float, least: int = 1) -> int:
        """Fewest machines, `least` or more, on which every promise is kept on average; where not even the most that may
        be had do, what the load would keep busy, one more at least."""
        machines = max(least, floor(factor * self.load_erlangs * min(self.targets.values())))
        while machines < self.machines_max and self.misses(factor, machines):
            machines += 1
        if machines < self.machines_max or (machines == self.machines_max and not self.misses(factor, machines)):
            return machines
        return max(self.machines_max + 1, least, ceil(factor * self.load_erlangs))

    def misses(self, factor: float, machines: int) -> bool:
        """Whether some promise is missed on average, or would be were the load to stay."""
        seen = self.behaviour(factor, machines)
        return bool(seen.growing) or any(seen.attainment[model] < share for model, share in self.targets.items())


@dataclass
class Market:
    """What is on offer at each kind of price, and the machines of each type once somebody asks."""

    loaded: Loaded
    catalog: Catalog
    library: Profiles
    peak: float
    """The largest factor."""
    offers: Mapping[Paid, Sequence[Offer]]
    question: Mapping[Kind, Question]
    """That which has the curves of a kind of GPU."""
    progress: Progress
    opened: dict[Hardware, Group | None] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)
    """Why machines on offer are not weighed."""

    def erlangs(self, offer: Offer) -> Mapping[str, float]:
        """GPUs of that kind that factor 1 of each model keeps busy in the best of its batches."""
        kind = Kind.of(offer)
        return {m: load / self.peak for m, load in erlangs(self.question[kind], kind).items()}

    def group(self, offer: Offer) -> Group | None:
        """Machines of that type; None where no number of them serves the peak, however many there were."""
        key = hardware(offer)
        if key not in self.opened:
            self.opened[key] = self._open(offer)
        found = self.opened[key]
        return found and replace(found, offer=offer)  # what was replayed is theirs together

    def _open(self, offer: Offer) -> Group | None:
        question = self.question[Kind.of(offer)]
        search = Search(question, self.progress, [])
        found = search.best(question.program([offer]).unlimited(), Objective.COST)
        if found is None:
            self.refusals += [_why(no) for no in search.refusals()[-1:]]
            return None
        demand = workload(self.loaded)
        return Group(self.loaded, self.catalog, self.library, offer, demand, self.peak, found, self.erlangs(offer))

    @property
    def requests(self) -> int:
        """Replayed so far."""
        groups = [group for group in self.opened.values() if group]
        mixes = [mix for group in groups for mix in group.mixes.values()]
        replayed = sum(seen.requests for group in (*groups, *mixes) for seen in group.seen.values())
        return replayed + sum(group.trial.replay.requests for group in groups)


def hardware(offer: Offer) -> Hardware:
    """What tells machines apart, whoever rents them out."""
    return Kind.of(offer), offer.gpu_count, offer.host_memory_bytes


def market(loaded: Loaded, catalog: Catalog, library: Profiles, peak: float, progress: Progress) -> Market:
    """All that may be had for this calendar, at every kind of price that it weighs."""
    scenario, calendar = loaded.scenario, calendar_of(loaded)
    if scenario.buy.price is not PriceKind.ON_DEMAND:
        way_out = "Leave it out; `calendar.reserved` and `calendar.spot` say which other kinds are weighed."
        rule = f"must be on-demand with a calendar, which compares kinds of price, got {scenario.buy.price}."
        raise refuse(loaded, ("buy", "price"), f"{rule} {way_out}")
    questions, refused = {}, []
    for paid, kind in asked_kinds(calendar).items():
        priced = replace(scenario, buy=replace(scenario.buy, price=kind))
        questions[paid], no = ask(priced, scaled(workload(loaded), peak), catalog, library)
        refused += no if paid is Paid.ON_DEMAND else []
    found = {paid: [offer for offer in question.offers if offer.price_kind] for paid, question in questions.items()}
    found[Paid.OWN] = [offer for offer in questions[Paid.ON_DEMAND].offers if not offer.price_kind]
    prices = {Paid.RESERVED: calendar.reserved.price, Paid.SPOT: calendar.spot.price if calendar.spot else None}
    for paid, usd_per_hour in prices.items():
        if usd_per_hour is not None:
            found[paid] = [priced_at(loaded, found, paid, usd_per_hour)]
    known = {Kind.of(offer): question for question in questions.values() for offer in question.offers}
    served = {paid: [o for o in some if serves(known[Kind.of(o)], o)] for paid, some in found.items()}
    if not any(served.values()):
        raise NothingToPlanError("\n".join(_why(no) for no in refused) or "no model can run on what is on offer.")
    unfit = [_why(no) for no in refused if no.bottleneck is not Bottleneck.COST]
    return Market(loaded, catalog, library, peak, served, known, progress, refusals=unfit)


def asked_kinds(calendar: CalendarSpec) -> Mapping[Paid, PriceKind]:
    """The catalog's kinds of price that a calendar weighs."""
    kinds = {Paid.ON_DEMAND: PriceKind.ON_DEMAND, Paid.RESERVED: PriceKind(calendar.reserved.term)}
    return kinds | ({Paid.SPOT: PriceKind.SPOT} if calendar.spot else {})


def priced_at(loaded: Loaded, found: Mapping[Paid, Sequence[Offer]], paid: Paid, usd_per_hour: float) -> Offer:
    """The one kind of machine on offer, at the price that the calendar says; ScenarioError where there are several."""
    kinds = {offer.instance: offer for offer in found[Paid.ON_DEMAND]}
    if len(kinds) != 1:
        names = ", ".join(kinds) or "none"
        rule = f"is the price of one kind of machine, and on offer are {names}."
        raise refuse(loaded, ("calendar", paid, "price"), f"{rule} Name one in `buy.instances`.")
    (offer,) = kinds.values()
    kind = asked_kinds(calendar_of(loaded))[paid]
    return replace(offer, usd_per_hour=usd_per_hour, price_kind=kind, spot_range=None, as_of="")


def serves(question: Question, offer: Offer) -> bool:
    """Whether each model can run on such a machine."""
    return all((model, Kind.of(offer)) in question.sized for model in question.needs)


def erlangs(question: Question, kind: Kind) -> Mapping[str, float]:
    """GPUs that each model's demand keeps busy in the batch that takes least time a request: rate x latency(b) / b."""
    return {
        model: need.rate_rps * min(s / b for b, s in enumerate(question.sized[model, kind].latency_s, start=1))
        for model, need in question.needs.items()
    }


def _why(no: Rejection) -> str:
    return f"{no.candidate}: {no.reason}. Way out: {no.way_out}."
