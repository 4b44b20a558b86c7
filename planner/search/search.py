"""Search: fleets cheapest first, their models packed and replayed, until one meets every SLO."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cache, partial
from itertools import chain
from math import inf

from planner.catalog.offers import Catalog, Offer, kinds_on_offer, offers, own_left_out
from planner.io.load import Loaded, workload
from planner.io.warm import versions
from planner.model.candidate import Candidate
from planner.model.plan import (
    NOTHING_TRIED,
    InterruptedSearch,
    KindLeftOut,
    OfOneKind,
    Plan,
    PlanWarning,
    Recommendation,
    Rejection,
)
from planner.model.progress import Progress, silent
from planner.model.scenario import Objective, Scenario
from planner.model.statement import Code, Statement
from planner.placing.cutting import FleetGpu
from planner.placing.fleets import GPUS_MAX, Fleet, FleetProgram, cost_usd_per_hour, gpu_count, machines_of
from planner.placing.packing import Misfit, Packer, Packing
from planner.placing.sizing import Kind, Profiles
from planner.prediction.predict import Predictor
from planner.replay.answer import policies, recommend
from planner.replay.deploying import deploy, devices_of
from planner.replay.hardest import HardestDraws
from planner.replay.kinds import of_each_kind
from planner.replay.replay import Replay
from planner.replay.run import PLANNING, replay
from planner.replay.spares import SpareSearch, of_each_type, together
from planner.replay.timeline import histograms
from planner.replay.trial import Trial, candidate_of
from planner.replay.warnings import assumptions, warnings_of
from planner.search.budgets import check_fastest, designed, with_budgets
from planner.search.even import is_plain, spread
from planner.search.outlooks import look_ahead, other_precisions, predictions
from planner.search.placement import Miss, OnFleet, within_headroom
from planner.search.question import Question, ask, predictor_of
from planner.search.rejections import (
    KIND_TOO_DEAR,
    NO_FLEET_OF_KIND,
    kind_of,
    misfit,
    missed_slo,
    replayed,
    too_dear,
    too_few_machines,
    too_many,
)
from planner.search.variants import DIGITS, Goal, on_best_evidence
from planner.words.candidates import candidate_name, machines_name
from planner.words.statements import rejection_line
from simulator.errors import InputError
from simulator.world.deployment import Deployment
from simulator.world.sharing import NOTHING_SHARED, Merged

STEP = 1.15
"""Growth of the work that a fleet must carry from one step to the next: five steps double it."""
ALIKE = 0.01
"""Attainments that differ by less are about the same: a screening's interval is about as wide."""
OTHERS_MAX = 4
"""Alternatives looked for besides the best: what a person compares at a glance."""
KINDS_ALONE_MAX = 3
"""Kinds of GPU that are searched for it, the cheapest at their bounds: one place is left for the fewest GPUs."""
DEARER_MAX, KINDS_SHOWN = 2.0, 13
"""Kinds of GPU whose fleets cost so many times the best at least are not tried alone, but for the cheapest dozen."""

LARGE_GPUS = 64
"""GPUs of a large fleet: one more is under 1.6 % of them, so that fleets in order would be tried by the dozen."""
STEPS_DOWN = 16
"""Of a fleet that does, such a part is left out at a time: one instance where there are fewer than twice as many."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How far a search goes: seconds for each fleet, so a minute at worst."""

    first: int
    """Fleets tried strictly cheapest first, before the search takes larger steps; of large fleets one."""
    halvings: int
    """How often the last step is halved: after four, 1 % of work lies between fleets tried, less than most GPUs do; of
    large fleets, whose step begins at nothing, 6 %."""
    thorough: bool = True
    """Whether a fleet that looks good is confirmed, and one that misses is packed again and again, and said to have
    missed."""
    growth_max: float = inf
    """No fleet is tried that must carry more times the work."""


PROOF = Effort(first=12, halvings=4)
"""Where an answer among the first fleets is proven to be the cheapest."""
ESTIMATE = Effort(first=4, halvings=4)
"""Where times are predicted, so that a proof would be one of the predictions."""
ALTERNATIVE = Effort(first=3, halvings=0, growth_max=3.0)
"""For the next best, of which nothing is proven."""
GLANCE = Effort(first=1, halvings=0, thorough=False, growth_max=1.5)
"""For kinds of GPU that are only set side by side."""
DEARER = Effort(first=1, halvings=0, thorough=False, growth_max=3.0)
"""For such kinds where all fleets were tried that cost little enough to be an alternative."""


Gpus = frozenset[tuple[tuple[Kind, int], int]]
"""Machines by what matters to models that stay in memory: the kind and number of their GPUs, and how many there are."""


def gpus_of(offered: Sequence[Offer], fleet: Fleet) -> Gpus:
    """The GPUs of a fleet, whatever their machines are called and cost."""
    counts: Counter[tuple[Kind, int]] = Counter()
    for offer, n in zip(offered, fleet, strict=True):
        counts[Kind.of(offer), offer.gpu_count] += n
    return frozenset(counts.items())


def _bought(offered: Sequence[Offer], fleet: Fleet) -> tuple[tuple[Offer, ...], Fleet]:
    """A fleet without the offers of which it has none."""
    bought = {offer: n for offer, n in zip(offered, fleet, strict=True) if n}
    return tuple(bought), tuple(bought.values())


class NothingToPlanError(InputError):
    """A deployment that cannot be; the text says what is wrong and what to do."""


@dataclass(frozen=True)
class Found:
    """Fleets for the answer."""

    best: Trial | None
    """None where no fleet meets every SLO."""
    shown: Trial | None
    """The best, or else the one that comes closest; None where nothing could be tried."""
    alone: Sequence[Trial]
    """The cheapest of each kind of GPU alone."""
    others: Sequence[Trial]
    interrupted: bool = False
    """Whether the search did not come to its end."""

    @property
    def complete(self) -> bool:
        """Whether what is not in it was looked for."""
        return self.best is not None and not self.interrupted


def plan_of_one_way(
    loaded: Loaded,
    catalog: Catalog,
    library: Profiles,
    *,
    created_at: str,
    progress: Progress | None = None,
    shared: Merged = NOTHING_SHARED,
) -> Plan:
    """The answer to a scenario whose names are known, with these layers stored once."""
    scenario = loaded.scenario
    demand = workload(loaded)
    predictor = predictor_of(scenario, catalog, library)

    def search_for(asked: Scenario) -> FleetSearch:
        question, rejections = ask(asked, demand, catalog, library, shared)
        check_fastest(loaded, question, offers(catalog, asked.buy)[0], rejections)
        return FleetSearch(designed(question), progress or silent, rejections)

    def answered(search: FleetSearch, found: Found) -> Plan:
        plan = Plan(
            scenario=scenario.name or loaded.path.stem,
            scenario_sha256=loaded.sha256,
            seed=scenario.seed,
            versions=versions(),
            created_at=created_at,
            policies=policies(scenario, search.question.workload, found.shown),
            recommendation=NOTHING_TRIED,
            rejections=search.settled(),
            warnings=tuple(own_left_out(scenario.buy)),
            scenario_text=loaded.text,
            scenario_overrides=loaded.overrides,
        )
        return _answered(plan, scenario, search, found, catalog, predictor)

    ways = _Ways(search_for)
    try:
        search = ways.search(on_best_evidence(scenario, lambda asked: ways.search(asked).question, ways.goal))
        question = search.question
        found = search.found(ways.best(question.scenario))
        ahead = look_ahead(question, catalog, predictor, found.best, found.shown, shared)
        precisions = tuple(other_precisions(question, catalog, predictor, found.shown, shared))
    except KeyboardInterrupt:
        if (so_far := ways.so_far()) is None:
            raise
        raise InterruptedSearch(answered(*so_far)) from None
    plan = answered(search, found)
    return replace(plan, outlooks=ahead.outlooks, precisions=precisions, measure_next=ahead.measure_next)


def _answered(
    plan: Plan, scenario: Scenario, search: "FleetSearch", found: Found, catalog: Catalog, predictor: Predictor | None
) -> Plan:
    """The plan with what was found, and all that is said of the fleet that is shown."""
    shown, feasible = found.shown, found.best is not None
    if shown is None:
        return plan
    answer = replace(recommended(search.question, shown), feasible=feasible)
    bound = answer.lower_bound_usd_per_hour
    slo_s = {model: need.slo.latency_s for model, need in shown.replay.needs.items()}
    alternatives = tuple(recommend(trial, bound) for trial in found.others)
    by_gpu = of_each_kind(found.alone, catalog)
    return replace(
        plan,
        recommendation=answer,
        alternatives=alternatives,
        pareto=pareto([answer, *alternatives]) if feasible else (),
        by_gpu=by_gpu,
        by_gpu_left_out=search.left_out(kinds_on_offer(catalog, scenario.buy), by_gpu) if found.complete else (),
        predictions=predictions(shown, predictor) if predictor else (),
        prices_as_of=oldest_price(answer),
        assumptions=assumptions(scenario, shown, catalog.assumptions),
        warnings=(
            *([PlanWarning(what=Statement(code=Code.INTERRUPTED))] if found.interrupted else []),
            *plan.warnings,
            *search.warnings_of(shown, date.fromisoformat(plan.created_at[:10])),
        ),
        latency=histograms(slo_s, shown.replay.latencies),
        timeline=shown.replay.timeline,
    )


def _ready(
    found: "Iterable[tuple[FleetSearch, Mapping[tuple[tuple[Offer, ...], Fleet], Trial | None]]]",
) -> "list[tuple[FleetSearch, Trial]]":
    """What met every SLO in each search, with its spares, where these may be bought."""
    met = [(one, one.spares.certain(trial)) for one, known in found for trial in known.values() if trial]
    return [(one, trial) for one, trial in met if not trial.unready]


class _Ways:
    """Searches for a scenario with its models in some variant each, every one done once."""

    def __init__(self, search: "Callable[[Scenario], FleetSearch]") -> None:
        self.searches: list[FleetSearch] = []
        self.search = cache(lambda asked: self._began(search(asked)))
        self.best = cache(self._best)

    def _began(self, search: "FleetSearch") -> "FleetSearch":
        self.searches.append(search)
        return search

    def so_far(self) -> "tuple[FleetSearch, Found] | None":
        """The best that was found until now, and where: confirmed, else seen at a glance; None where there is none."""
        for seen in ([one.tried for one in self.searches], [one.glanced for one in self.searches]):
            if ready := _ready(zip(self.searches, seen, strict=True)):
                search, best = min(ready, key=lambda pair: goal_of(pair[0].question.scenario.objective, pair[1]))
                return search, Found(None if best.replay.screened else best, best, [], [], interrupted=True)
        return None

    def _best(self, asked: Scenario) -> Trial | None:
        search = self.search(asked)
        return search.answer(search.question.program(), asked.objective) if search.question.served else None

    def goal(self, asked: Scenario) -> Goal | None:
        """What the objective wants little of, and then the cost, of the best fleet; None where none meets every SLO."""
        best = self.best(asked)
        if best is None:
            return None
        goal, cost = goal_of(asked.objective, best), best.cost_usd_per_hour
        return (
            (round(goal, DIGITS),) if asked.objective is Objective.COST else (round(goal, DIGITS), round(cost, DIGITS))
        )


def recommended(question: Question, shown: Trial) -> Recommendation:
    """The answer of a plan: a trial, with the growth that it bears and the least that any fleet could cost."""
    no_headroom = replace(question, scenario=replace(question.scenario, headroom=0.0))
    return replace(
        recommend(shown, question.lower_bound_usd_per_hour()),
        demand_factor_max=shown.demand_factor_max,
        lower_bound_full_usd_per_hour=no_headroom.lower_bound_usd_per_hour(),
    )


def oldest_price(answer: Recommendation) -> str:
    """ISO date of the oldest price; empty where nothing is rented."""
    return min((i.price_as_of for i in answer.instances if i.price_as_of), default="")


class FleetSearch:
    """Tries fleets and remembers what came of them."""

    def __init__(self, question: Question, progress: Progress, rejections: Sequence[Rejection] = ()) -> None:
        self.question = question
        self.progress = progress
        self.rejections = list(rejections)
        self.tried: dict[tuple[tuple[Offer, ...], Fleet], Trial | None] = {}
        self.glanced: dict[tuple[tuple[Offer, ...], Fleet], Trial | None] = {}
        """The same, of those that were only glanced at."""
        self.missed_gpus: set[Gpus] = set()
        """GPUs on which models that stay in memory missed: other machines with just these would miss as well."""
        self.misses: list[tuple[Trial, Rejection]] = []
        self.hardest = HardestDraws()
        self.too_few = False
        """Whether a fleet failed only for want of requests, so that no other would do better."""
        self.passed_over: dict[str, KindLeftOut] = {}
        """Kinds of GPU of which no fleet is set beside the others."""
        self.confirms_slowly = bool(question.scenario.pipelines)
        """Pipelines are replayed event by event: many glances take less than one confirmation."""
        self.cut_off = False
        """Whether the integer program was once cut off before it had proven its fleet a best one."""

    def answer(self, program: FleetProgram, objective: Objective, effort: Effort | None = None) -> Trial | None:
        """The best fleet whose SLOs are met at the last look too.

        The first fleet that just passes a look often does so by chance, so what is bought is looked at again.
        """
        while found := self.best(program, objective, effort):
            trial = self._looked_at_last(found)
            if trial.met:
                return trial
        return None

    def _looked_at_last(self, found: Trial) -> Trial:
        """A trial after the last look, confirmed before where it was only screened; where it misses, it is not found
        again."""
        here = self._on_fleet(found)
        trial = here.confirmed(found) if found.replay.screened else found
        if trial.stands:
            trial = here.looked_at_last(trial)
        as_found = replace(trial, spares=(), unready=False)
        self.tried[_bought(trial.offers, trial.fleet)] = as_found if trial.stands else None
        if not trial.stands:
            rejection = missed_slo(trial)
            self.rejections.append(rejection)
            self.misses.append((trial, rejection))
        return trial

    def best(
        self,
        program: FleetProgram,
        objective: Objective,
        effort: Effort | None = None,
        wanted_usd_per_hour: float = inf,
    ) -> Trial | None:
        """The fleet with least of the objective that meets every SLO.

        First strictly in order, so that an answer among these is the least there is. Then in growing steps of the work
        to be carried, and back in halves: fleets between two steps may be left out. Of large fleets only the first is
        tried in order, and halves begin there. Where a confirmation is slow all this is done at a glance first, and
        stands where its end is confirmed. What costs more than is wanted is not tried, and that is no limit on buying.
        """
        doubted = any(sized.profile.doubt for sized in self.question.sized.values())
        effort = effort or (ESTIMATE if doubted else PROOF)
        excluded: list[Fleet] = []
        allowed_usd_per_hour = self.question.scenario.buy.max_cost or inf
        most_usd_per_hour = min(allowed_usd_per_hour, wanted_usd_per_hour)
        if effort.thorough and self.confirms_slowly:
            seen = self.best(program, objective, replace(effort, thorough=False), wanted_usd_per_hour)
            if seen and (trial := self.try_fleet(seen.offers, seen.fleet, effort)):
                return trial
        large = (program.least_gpus() or 0) >= LARGE_GPUS
        for _ in range(1 if large else effort.first):
            fleet = self._propose(program, objective, excluded, most_usd_per_hour)
            if fleet is None:
                if most_usd_per_hour == allowed_usd_per_hour:
                    self._out_of_fleets(program, excluded, most_usd_per_hour, effort)
                return None
            if trial := self.try_fleet(program.offers, fleet, effort):
                return trial
            if self.too_few:
                return None
            excluded.append(fleet)
        missed = 0.0 if large else 1.0
        return self._by_steps(program, objective, excluded, effort, most_usd_per_hour, missed)

    def _of_each_kind(self, offered: Sequence[Offer]) -> list[FleetProgram]:
        """A program over the offers of each kind of GPU."""
        by_gpu: dict[str, list[Offer]] = {}
        for offer in offered:
            by_gpu.setdefault(offer.gpu.name, []).append(offer)
        return [self.question.program(of_kind) for of_kind in by_gpu.values()]

    def _propose(
        self,
        program: FleetProgram,
        objective: Objective,
        excluded: Sequence[Fleet],
        most_usd_per_hour: float = inf,
        design: float = 0.0,
    ) -> Fleet | None:
        solution = program.propose(objective, excluded, most_usd_per_hour, design)
        self.cut_off |= solution is not None and not solution.proven
        return solution and solution.fleet

    def _by_steps(
        self,
        program: FleetProgram,
        objective: Objective,
        excluded: list[Fleet],
        effort: Effort,
        most_usd_per_hour: float,
        missed: float,
    ) -> Trial | None:
        """The same in steps; `missed`: work from which on nothing is known of fleets."""
        low, high = missed, 1.0
        best: Trial | None = None
        while best is None:
            fleet = self._propose(program, objective, excluded, most_usd_per_hour, high)
            if fleet is None:
                if most_usd_per_hour == (self.question.scenario.buy.max_cost or inf):
                    self._out_of_fleets(program, excluded, most_usd_per_hour, effort)
                return None
            best = self.try_fleet(program.offers, fleet, effort)
            if self.too_few:
                return None
            if best is None:
                excluded.append(fleet)
                low, high = high, high * STEP
                if high > effort.growth_max:
                    return None

        def halved(best: Trial, low: float, high: float, by: Effort) -> tuple[Trial, float]:
            for _ in range(effort.halvings):
                middle = (low + high) / 2
                fleet = self._propose(program, objective, excluded, most_usd_per_hour, middle)
                if fleet and (trial := self.try_fleet(program.offers, fleet, by)):
                    best, high = trial, middle
                    continue
                low = middle
                if fleet and by.thorough:
                    excluded.append(fleet)
            return best, high

        best, _ = halved(best, low, high, effort)
        return self._smaller(best, effort)

    def _smaller(self, trial: Trial, effort: Effort) -> Trial:
        """Leave out instances, the dearest first, as many of each offer as can be while every SLO is still met."""
        for offer in sorted(trial.offers, key=lambda o: -o.usd_per_hour):
            trial = self._with_fewest(trial, offer, effort)
        return trial

    def _with_fewest(self, trial: Trial, offer: Offer, effort: Effort) -> Trial:
        """As few instances of an offer as will do beside the others.

        A few less at a time until that misses; then half-way to what missed, again and again.
        """
        offered, fleet = trial.offers, trial.fleet
        place = offered.index(offer)
        count, least = fleet[place], int(len(offered) == 1)
        missed = self._most_missed(offered, fleet, place)
        step = max(1, count // STEPS_DOWN)
        while count > least and (missed is None or count - missed > 1):
            fewer = max(least, count - step) if missed is None else (count + missed) // 2
            smaller = self.try_fleet(offered, (*fleet[:place], fewer, *fleet[place + 1 :]), effort)
            if smaller:
                trial, count = smaller, fewer
            else:
                missed = fewer
        return trial

    def _most_missed(self, offered: tuple[Offer, ...], fleet: Fleet, place: int) -> int | None:
        """The most instances of one offer, beside these others, that were tried and did not do; None: none were."""
        missed = [dict(zip(*key, strict=True)) for key, trial in self.tried.items() if trial is None]
        counts = (bought.pop(offered[place], 0) for bought in missed)
        others = {offer: n for offer, n in zip(offered, fleet, strict=True) if offer != offered[place]}
        beside = [n for n, bought in zip(counts, missed, strict=True) if bought == others and n < fleet[place]]
        return max(beside, default=None)

    def try_fleet(self, offered: tuple[Offer, ...], fleet: Fleet, effort: Effort = PROOF) -> Trial | None:
        """The fleet with its models placed so that every SLO is met; None where there is none that it knows."""
        key = _bought(offered, fleet)
        known = self.tried if effort.thorough or key in self.tried else self.glanced
        if key not in known:
            self.progress(f"trying {machines_name(machines_of(*key, self.question.offers))}", 0.0)
            known[key] = self._try(*key) if effort.thorough else self._glance(*key)
        return known[key]

    def _glance(self, offered: tuple[Offer, ...], fleet: Fleet) -> Trial | None:
        for swap in self.question.policies:
            ways = list(self._on(offered, fleet, swap))
            if trial := next(filter(None, (one.glance() for one in ways)), None):
                return trial
            if not any(one.short_of_memory for one in ways):
                break
        return None

    def _try(self, offered: tuple[Offer, ...], fleet: Fleet) -> Trial | None:
        gpus = gpus_of(offered, fleet)
        if gpus in self.missed_gpus:
            return None
        for swap in self.question.policies:
            found = self._find(offered, fleet, swap)
            if isinstance(found, Trial):
                return found
            self.rejections.append(found.rejection)
            self.too_few = found.too_few
            if found.nearest:
                self.misses.append((found.nearest, found.rejection))
            if not found.short_of_memory:
                if not swap:
                    self.missed_gpus.add(gpus)
                break
        return None

    def _find(self, offered: tuple[Offer, ...], fleet: Fleet, swap: bool) -> Trial | Miss:
        """The first way to split the SLOs of pipelines under which all are met; else the nearest miss."""
        misses: list[Miss] = []
        for one in self._on(offered, fleet, swap):
            match one.find():
                case Trial() as trial:
                    return trial
                case Miss() as miss:
                    misses.append(miss)
        return max(misses, key=lambda miss: (miss.nearest is not None, miss.nearest and miss.nearest.nearness))

    def _on(self, offered: tuple[Offer, ...], fleet: Fleet, swap: bool) -> Iterator[OnFleet]:
        """The fleet with each way to split the SLOs of pipelines; once where there are none."""
        name = machines_name(machines_of(offered, fleet, self.question.offers))
        for question in with_budgets(self.question, devices_of(offered, fleet)):
            yield OnFleet(question, offered, fleet, swap, lambda doing: self._tell(doing, name), self.hardest)

    def _on_fleet(self, trial: Trial) -> OnFleet:
        return next(self._on(trial.offers, trial.fleet, swap=True))

    def _tell(self, doing: str, name: str) -> Callable[[float], None]:
        return partial(self.progress, f"{doing} {name}")

    def _out_of_fleets(
        self, program: FleetProgram, excluded: Sequence[Fleet], most_usd_per_hour: float, effort: Effort
    ) -> None:
        """Say which limit on what may be bought keeps the next fleet out; try what the limits leave of it."""
        if not effort.thorough:
            return
        any_count = replace(program, max_gpus=GPUS_MAX)
        more_gpus = self._propose(any_count, Objective.GPUS, excluded, most_usd_per_hour)
        more_money = self._propose(program, Objective.COST, excluded)
        more_machines = replace(program.unlimited(), max_gpus=program.max_gpus)
        of_a_kind = self._propose(more_machines, Objective.COST, excluded, most_usd_per_hour)
        for fleet in (more_gpus, more_money, of_a_kind):
            self._name_limits(program, fleet, most_usd_per_hour)
        next_one = self._propose(program.unlimited(), Objective.COST, excluded)
        if not any((more_gpus, more_money, of_a_kind)):
            self._name_limits(program, next_one, most_usd_per_hour)
        left = program.within_limits(next_one) if next_one and not excluded else ()
        if any(left) and cost_usd_per_hour(program.offers, left) <= most_usd_per_hour:
            self.try_fleet(program.offers, left)

    def _name_limits(self, program: FleetProgram, fleet: Fleet | None, most_usd_per_hour: float) -> None:
        """One rejection for each limit that the fleet breaks."""
        if fleet is None:
            return
        cost, gpus = cost_usd_per_hour(program.offers, fleet), gpu_count(program.offers, fleet)
        candidate = Candidate(machines=machines_of(program.offers, fleet, self.question.offers))
        if gpus > program.max_gpus:
            self.rejections.append(too_many(candidate, program.max_gpus, cost))
        if cost > most_usd_per_hour:
            self.rejections.append(too_dear(candidate, cost, most_usd_per_hour))
        for offer, n in zip(program.offers, fleet, strict=True):
            if offer.count_max is not None and n > offer.count_max:
                self.rejections.append(too_few_machines(candidate, offer, n, cost))

    def found(self, best: Trial | None) -> Found:
        """The best of all fleets with the others beside it, each with its spares; else the closest."""
        shown = best or self.closest()
        if shown and shown.met:
            best = shown
        alone = self.alone(best) if best else []
        if best:  # steps may leave out what a kind of GPU does alone
            best, alone = self._with_spares(best, alone)
            shown, alone = best, self.spared(alone)
        if shown and shown.unready:
            self.reject_spares(shown)
            best = None
        others = self.spared(self.others(best, alone)) if best else []
        return Found(best, shown, alone, others)

    def _with_spares(self, best: Trial, alone: Sequence[Trial]) -> tuple[Trial, list[Trial]]:
        """The best with its spares, or another with its own that is better then and stands the last look; and of those
        of one kind of GPU alone all but what missed there."""
        alone = list(alone)
        while True:
            ready = self.spares.ready([best, *alone])
            trial = self._looked_at_last(min(ready, key=lambda one: goal_of(self.question.scenario.objective, one)))
            if trial.stands:
                return trial, alone
            alone = [one for one in alone if one.candidate != trial.candidate]

    def alone(self, best: Trial) -> list[Trial]:
        """The cheapest fleet that was found of each kind of GPU alone, the best among them; cheapest first.

        Only the first few are confirmed, where that is not slow, and what looks better than the best.
        """
        only = {device.kind.gpu.name for device in best.devices}
        trials = [best] if len(only) == 1 else []
        programs = [one for one in self._of_each_kind(self.question.offers) if only != {one.offers[0].gpu.name}]
        most = DEARER_MAX * best.cost_usd_per_hour
        objective = self.question.scenario.objective
        for place, (bound, program) in enumerate(cheapest_first(programs)):
            near = bound <= most
            if not near and (place >= KINDS_SHOWN - 1 or self._must_cut(program)):
                self._pass_over(program, KIND_TOO_DEAR, bound)
                continue
            first = near and place < KINDS_ALONE_MAX
            effort = ALTERNATIVE if first and not self.confirms_slowly else GLANCE
            trial = self.best(program, Objective.COST, effort, most if first else inf)
            if trial is None and first:
                trial = self.best(program, Objective.COST, DEARER)
            if trial and goal_of(objective, trial) < goal_of(objective, best):
                trial = self.answer(program, Objective.COST, ALTERNATIVE)
            if trial:
                trials.append(trial)
            else:
                self._pass_over(program, NO_FLEET_OF_KIND, bound)
        return sorted(trials, key=lambda t: (t.cost_usd_per_hour, candidate_name(t.candidate)))

    def _pass_over(self, program: FleetProgram, why: Statement, bound_usd_per_hour: float) -> None:
        gpu = program.offers[0].gpu.name
        fleets = [key for key in {**self.tried, **self.glanced} if {offer.gpu.name for offer in key[0]} == {gpu}]
        self.passed_over[gpu] = KindLeftOut(
            gpu=gpu,
            why=why,
            usd_per_hour_at_least=bound_usd_per_hour,
            gpus_tried=tuple(sorted({gpu_count(*key) for key in fleets})),
        )

    def left_out(self, kinds: Iterable[str], shown: Sequence[OfOneKind]) -> tuple[KindLeftOut, ...]:
        """Those of some kinds of GPU that are not shown, and why."""
        known = {one.gpu for one in shown}
        whys = {kind_of(no): no.why for no in reversed(self.rejections)}
        others = [KindLeftOut(gpu=gpu, why=whys.get(gpu, NO_FLEET_OF_KIND)) for gpu in kinds if gpu not in known]
        return tuple(self.passed_over.get(one.gpu, one) for one in others)

    def _must_cut(self, program: FleetProgram) -> bool:
        """Whether some model fits no kind of GPU of a program as a whole."""
        kinds, sized = {Kind.of(offer) for offer in program.offers}, self.question.sized
        return any(not any((m, k) in sized and sized[m, k].batches[0] for k in kinds) for m in self.question.needs)

    def others(self, best: Trial, alone: Sequence[Trial]) -> list[Trial]:
        """Other ways that meet every SLO: one kind of GPU alone, and the fewest GPUs; best first."""
        objective = self.question.scenario.objective
        ways = [trial for trial in alone if not trial.replay.screened]
        if len({offer.gpu.name for offer in self.question.offers}) > 1 and objective is not Objective.GPUS:
            fewest = self.best(self.question.program(), Objective.GPUS, ALTERNATIVE)
            ways += [fewest] if fewest else []
        others = {(trial.candidate, trial.fleet): trial for trial in ways if trial.candidate != best.candidate}
        best_first = sorted(others.values(), key=lambda t: (goal_of(objective, t), candidate_name(t.candidate)))
        return best_first[:OTHERS_MAX]

    @property
    def spares(self) -> SpareSearch:
        """A search for machines that stand ready."""
        question = self.question

        def is_met(offered: tuple[Offer, ...], fleet: Fleet) -> bool:
            return self.try_fleet(offered, fleet, GLANCE) is not None

        def of_type(offer: Offer) -> Trial | None:
            return self.best(question.program([offer]), Objective.COST, ALTERNATIVE)

        return SpareSearch(question.scenario, question.offers, is_met, of_type)

    def spared(self, trials: Sequence[Trial]) -> list[Trial]:
        """Trials with their spares, without those whose spares may not be bought."""
        if not self.question.scenario.survive:
            return list(trials)
        return [trial for trial in map(self.spares.with_spares, trials) if not trial.unready]

    def reject_spares(self, trial: Trial) -> None:
        """Say which limits on what may be bought keep the spares of a trial out."""
        buy, program = self.question.scenario.buy, self.question.program(trial.offers)
        fleet = together(trial.fleet, of_each_type(trial.fleet, self.question.scenario.survive))
        self._name_limits(program, fleet, buy.max_cost or inf)

    def closest(self) -> Trial | None:
        """The miss that came nearest, replayed as often as an answer would be; else the dearest fleet tried.

        Its rejection then quotes this confirmation, not the screening; it is taken back where every SLO is met.
        """
        if self.misses:
            return self._confirmed_miss()
        dearest = max(self.tried, key=lambda key: cost_usd_per_hour(*key), default=None)
        trial = force(self.question, *dearest, self.progress) if dearest else None
        if not isinstance(trial, Trial):
            return None
        self.rejections = [replayed(no, trial) if no.subject == trial.candidate else no for no in self.rejections]
        return within_headroom(trial, 1 - self.question.scenario.headroom)

    def _confirmed_miss(self) -> Trial:
        nearest, rejection = max(self.misses, key=lambda miss: miss[0].nearness)
        here = replace(self._on_fleet(nearest), hardest=None)
        confirmed = here.confirmed(nearest)
        if confirmed.overloaded:  # rejected for its load, before any replay but a screening
            confirmed = replace(confirmed, replay=self._replayed(nearest))
        else:
            confirmed = here.looked_at_last(confirmed)
        self.misses.remove((nearest, rejection))
        place = self.rejections.index(rejection)
        del self.rejections[place]
        if not confirmed.met:
            rejection = missed_slo(confirmed)
            self.misses.append((confirmed, rejection))
            self.rejections.insert(place, rejection)
        return confirmed

    def _replayed(self, trial: Trial) -> Replay:
        """A deployment replayed as often as an answer would be."""
        q = self.question
        return replay(q.scenario, q.workload, q.needs, trial.deployment, screen=False)

    def settled(self) -> tuple[Rejection, ...]:
        """Each once. More GPUs are no remedy where a fleet with more of them, or fewer, missed by about as much."""
        settled = {why: missed_slo(trial, self._gpus_that_help(trial)) for trial, why in self.misses}
        return tuple(dict.fromkeys(settled.get(no, no) for no in self.rejections))

    def _gpus_that_help(self, trial: Trial) -> int:
        """How many more of its GPUs met every SLO; 1 where that is open, 0 where they were seen not to help."""
        met = [t for t in self.tried.values() if t and t.kinds == trial.kinds]
        more = [len(t.devices) - len(trial.devices) for t in met if len(t.devices) > len(trial.devices)]
        if more:
            return min(more)
        missed = trial.replay.missed
        if not missed:  # it is its load that is too high
            return 1
        return 0 if self._as_bad_with_other_counts(trial, missed[0]) else 1

    def _as_bad_with_other_counts(self, trial: Trial, model: str) -> bool:
        """Whether a fleet with more or fewer of its GPUs missed the model's SLO by about as much.

        Where draws were left out that is open: the hardest are compared with no others.
        """
        if trial.replay.unseen:
            return False
        attainment = trial.replay.attainment[model].mean
        like_it = [t for t, _ in self.misses if t.kinds == trial.kinds]
        others = [t for t in like_it if len(t.devices) != len(trial.devices) and not t.replay.unseen]
        return any(abs(t.replay.attainment[model].mean - attainment) < ALIKE for t in others)

    def warnings_of(self, shown: Trial, today: date) -> tuple[PlanWarning, ...]:
        """What weakens the answer, the search for it included."""
        cut_off = PlanWarning(what=Statement(code=Code.CUT_OFF))
        warnings = warnings_of(self.question.scenario, self.question.workload, shown, today)
        return (*warnings, cut_off) if self.cut_off else warnings


def cheapest_first(programs: Sequence[FleetProgram]) -> list[tuple[float, FleetProgram]]:
    """Programs with what their fleets cost at least; none that cannot do it."""
    bounds = [(program.lower_bound_usd_per_hour(), program) for program in programs]
    return sorted(((b, program) for b, program in bounds if b is not None), key=lambda pair: pair[0])


def goal_of(objective: Objective, trial: Trial) -> float:
    """What the objective wants little of."""
    match objective:
        case Objective.COST:
            return trial.cost_usd_per_hour
        case Objective.GPUS:
            return len(trial.devices)
        case Objective.ENERGY:
            return trial.energy_w


def pareto(answers: Sequence[Recommendation]) -> tuple[int, ...]:
    """Places of those that no other beats in both cost and worst p99 over its SLO."""
    points = [(a.cost_usd_per_hour, max(m.p99_s / m.slo_s for m in a.models)) for a in answers]

    def beaten(point: tuple[float, float]) -> bool:
        return any(one[0] <= point[0] and one[1] <= point[1] and one != point for one in points)

    return tuple(place for place, point in enumerate(points) if not beaten(point))


def evaluate(question: Question, offer: Offer, count: int, progress: Progress = silent) -> Trial:
    """Replay a deployment one names oneself, all models on `count` machines of one offer, SLOs met or not.

    Raises NothingToPlanError where they cannot be placed at all.
    """
    offered, fleet, scenario = (offer,), (count,), question.scenario
    devices = devices_of(offered, fleet)
    question = next(with_budgets(question, devices))
    ways = spread(question, devices)
    if isinstance(ways, Misfit):
        candidate = candidate_of(offered, fleet, question.policies[-1], question.offers)
        no = misfit(candidate, ways, scenario.memory, cost_usd_per_hour(offered, fleet))
        raise NothingToPlanError(rejection_line(no))
    first = next(ways)
    if is_plain(first):
        return _as_packed(question, offered, fleet, devices, first, progress, scenario.seed)
    return _best_replayed(question, offered, fleet, chain([first], ways), progress)


def _best_replayed(
    question: Question, offered: tuple[Offer, ...], fleet: Fleet, ways: Iterator[Packing], progress: Progress
) -> Trial:
    """The first way that meets every SLO, else the one on which fewest queues grow and that came nearest."""
    scenario, demand, needs, devices = question.scenario, question.workload, question.needs, devices_of(offered, fleet)
    tried: list[tuple[Deployment, Packing, Replay]] = []
    trials: dict[int, Trial] = {}
    for packing in ways:
        deployment = deploy(scenario, needs, devices, packing.placed)
        if any(deployment == other for other, _, _ in tried):
            continue
        tried.append((deployment, packing, replay(scenario, demand, needs, deployment, screen=True)))
        if tried[-1][2].met:
            trial = _as_packed(question, offered, fleet, devices, packing, progress, scenario.seed)
            if trial.met:
                return trial
            trials[len(tried) - 1] = trial
    nearest = max(range(len(tried)), key=lambda i: tried[i][2].nearness)
    return trials.get(nearest) or _as_packed(
        question, offered, fleet, devices, tried[nearest][1], progress, scenario.seed
    )


def force(
    question: Question, offered: tuple[Offer, ...], fleet: Fleet, progress: Progress = silent
) -> Trial | Rejection:
    """Pack a fleet as for a plan and replay it, too busy or not; a Rejection where the models cannot be placed."""
    devices = devices_of(offered, fleet)
    question = next(with_budgets(question, devices))
    rejections: list[Rejection] = []
    for swap in question.policies:
        packing = Packer(list(question.needs), question.sized, question.rules(swap, {})).pack(devices)
        if isinstance(packing, Packing):
            return _as_packed(question, offered, fleet, devices, packing, progress, PLANNING)
        cost = cost_usd_per_hour(offered, fleet)
        candidate = candidate_of(offered, fleet, swap, question.offers)
        rejections.append(misfit(candidate, packing, question.scenario.memory, cost))
    return rejections[-1]


def _as_packed(
    question: Question,
    offered: tuple[Offer, ...],
    fleet: Fleet,
    devices: Sequence[FleetGpu],
    packing: Packing,
    progress: Progress,
    seed: int,
) -> Trial:
    """A packing replayed as often as an answer would be, too busy or not."""
    scenario, demand, needs = question.scenario, question.workload, question.needs
    deployment = deploy(scenario, needs, devices, packing.placed)
    tell = partial(progress, f"replaying {machines_name(machines_of(offered, fleet, question.offers))}")
    seen = replay(scenario, demand, needs, deployment, screen=False, seed=seed, tell=tell)
    return Trial(offered, fleet, tuple(devices), packing, deployment, seen, question.offers)
