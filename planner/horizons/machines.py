"""Machines of one type: which serves the busiest minute cheapest, and what so many of them do at a level of load."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import floor, isnan, sqrt

from planner.answer import Trial, cards_of, deploy, seed_of
from planner.catalog import Catalog, Offer
from planner.horizons.demand import refuse
from planner.load import Loaded, workload
from planner.packing import Packer, Packing
from planner.plans import Rejection
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


@dataclass
class Group:
    """Machines of one type that serve all models, however many there are."""

    loaded: Loaded
    catalog: Catalog
    library: Profiles
    offer: Offer
    demand: Workload
    """At factor 1."""
    peak: float
    """The largest factor."""
    trial: Trial
    """What the search found for the peak."""
    erlangs: float
    """GPUs that factor 1 keeps busy in the best of its batches."""
    placed: dict[int, Deployment] = field(default_factory=dict)
    seen: dict[tuple[float, int], Behaviour] = field(default_factory=dict)
    requests: int = 0
    """Replayed so far."""

    @property
    def machines_peak(self) -> int:
        """Machines that the search found for the peak."""
        return sum(self.trial.fleet)

    @property
    def machines_max(self) -> int:
        """Most machines that may be had."""
        limit = self.loaded.scenario.buy.max_gpus // self.offer.gpu_count
        return max(1, limit if self.offer.count_max is None else min(limit, self.offer.count_max))

    @property
    def targets(self) -> dict[str, float]:
        """The share of requests that is promised in time, by model."""
        return {spec.name: spec.slo.attainment for spec in self.loaded.scenario.models}

    def judged_s(self, factor: float) -> float:
        """Judged time of a replay at one level of load."""
        rates_rps = self.demand.rates_rps().values()
        wanted_s = min(JUDGED_S, JUDGED_MAX / (sum(rates_rps) * factor))
        return max(wanted_s, JUDGED_MIN / (min(rates_rps) * factor))

    def deployment(self, machines: int) -> Deployment:
        """The models on so many machines, placed for as much of the peak as these are of the peak's machines."""
        if machines not in self.placed:
            self.placed[machines] = self._place(machines)
        return self.placed[machines]

    def _place(self, machines: int) -> Deployment:
        if machines == self.machines_peak:
            return self.trial.deployment
        scenario = self.loaded.scenario
        part = self.peak * min(1.0, machines / self.machines_peak)
        question, _ = ask(scenario, scaled(self.demand, part), self.catalog, self.library)
        cards = cards_of((self.offer,), (machines,))
        for swap in question.policies:
            found = Packer(list(question.needs), question.sized, question.rules(swap, {})).pack(cards)
            if isinstance(found, Packing):
                return deploy(scenario, question.needs, cards, found.placed)
        raise NothingToPlanError(
            f"{machines} x {self.offer.instance} cannot hold all models. Set calendar.autoscaling.min to "
            f"{machines + 1} or more, or `memory: auto`."
        )

    def behaviour(self, factor: float, machines: int) -> Behaviour:
        """Replays at one level of load, each number of machines under the same arrivals; remembered."""
        key = factor, machines
        if key not in self.seen:
            self.seen[key] = self._replayed(factor, machines)
        return self.seen[key]

    def _replayed(self, factor: float, machines: int) -> Behaviour:
        if not factor:
            return Behaviour(dict.fromkeys(self.targets, 1.0), 0.0)
        if not machines:
            return Behaviour(dict.fromkeys(self.targets, 0.0), 0.0)
        scenario, deployment, demand = self.loaded.scenario, self.deployment(machines), scaled(self.demand, factor)
        early_s = warmup_s(scenario)
        duration_s = early_s + self.judged_s(factor) + longest_slo_s(scenario)
        growing = drain(deployment, self.needed_rps(factor), demand).growing
        judged, timely = dict.fromkeys(self.targets, 0), dict.fromkeys(self.targets, 0.0)
        variance = dict.fromkeys(self.targets, 0.0)
        busy = 0.0
        for i in range(REPLAYS):
            result = simulate(deployment, demand, duration_s, seed_of(scenario.seed, STAGE, i))
            summary = summarise(result, early_s)
            busy += sum(card.utilization for card in summary.devices.values()) / REPLAYS
            self.requests += result.request_count
            for model, seen in summary.models.items():
                judged[model] += seen.judged
                timely[model] += seen.slo_attainment * seen.judged if seen.judged else 0.0
                error = 0.0 if isnan(seen.slo_attainment_error) else seen.slo_attainment_error
                variance[model] += (error * seen.judged) ** 2
        attained = {m: timely[m] / n if n else 1.0 for m, n in judged.items()}
        never = scenario.drop is Drop.NEVER  # what waits then grows until all of it is late
        shares = {m: 0.0 if never and m in growing else share for m, share in attained.items()}
        errors = {m: sqrt(variance[m]) / n if n else 0.0 for m, n in judged.items()}
        return Behaviour(shares, busy, errors, growing)

    def needed_rps(self, factor: float) -> dict[str, float]:
        """Requests of each model that must be processed at one level of load."""
        may_drop = self.loaded.scenario.drop is not Drop.NEVER
        rates_rps = self.demand.rates_rps()
        return {m: factor * rate * (self.targets[m] if may_drop else 1.0) for m, rate in rates_rps.items()}

    def needed(self, factor: float, least: int = 1) -> int:
        """Fewest machines, `least` or more, on which every promise is kept on average; the most there are, if none."""
        machines = max(least, floor(factor * self.erlangs * min(self.targets.values()) / self.offer.gpu_count))
        while machines < self.machines_max and self.misses(factor, machines):
            machines += 1
        return min(machines, self.machines_max)

    def misses(self, factor: float, machines: int) -> bool:
        """Whether some promise is missed on average, or would be were the load to stay."""
        seen = self.behaviour(factor, machines)
        return bool(seen.growing) or any(seen.attainment[model] < share for model, share in self.targets.items())


def group(loaded: Loaded, catalog: Catalog, library: Profiles, peak: float, progress: Progress) -> Group:
    """The type of machine that serves the peak at least cost, and the number the search found for it."""
    scenario, demand = loaded.scenario, workload(loaded)
    if scenario.buy.price is not PriceKind.ON_DEMAND:
        way_out = "Leave it out; `calendar.reserved` and `calendar.spot` say which other kinds are weighed."
        rule = f"must be on-demand with a calendar, which compares kinds of price, got {scenario.buy.price}."
        raise refuse(loaded, ("buy", "price"), f"{rule} {way_out}")
    question, refused = ask(scenario, scaled(demand, peak), catalog, library)
    if not question.served:
        raise NothingToPlanError("\n".join(_why(no) for no in refused) or "no model can run on what is on offer.")
    search = Search(question, progress, refused)
    best = min(_alone(question, search), key=lambda trial: trial.cost_usd_per_hour, default=None)
    if best is None:
        reasons = "\n".join(_why(no) for no in search.refusals()[-3:])
        raise NothingToPlanError(f"no number of machines of one type serves the busiest minute.\n{reasons}")
    offer = best.offers[0]
    return Group(loaded, catalog, library, offer, demand, peak, best, erlangs(question, Kind.of(offer)) / peak)


def _alone(question: Question, search: Search) -> Iterator[Trial]:
    """The cheapest fleet of each type of machine alone, unless another is surely cheaper."""
    programs = [question.program([offer]) for offer in question.offers]
    bounds = [(program.lower_bound_usd_per_hour(), program) for program in programs]
    least = float("inf")
    for bound, program in sorted(((b, p) for b, p in bounds if b is not None), key=lambda pair: pair[0]):
        if bound < least and (trial := search.best(program, Objective.COST)):
            least = min(least, trial.cost_usd_per_hour)
            kept = [(offer, n) for offer, n in zip(trial.offers, trial.fleet, strict=True) if n]
            yield replace(trial, offers=(kept[0][0],), fleet=(kept[0][1],))


def erlangs(question: Question, kind: Kind) -> float:
    """GPUs that the demand keeps busy in the batches that take least time a request: rate x latency(b) / b."""
    return sum(
        need.rate_rps * min(s / b for b, s in enumerate(question.sized[model, kind].latency_s, start=1))
        for model, need in question.needs.items()
    )


def _why(no: Rejection) -> str:
    return f"{no.candidate}: {no.reason}. Way out: {no.way_out}."
