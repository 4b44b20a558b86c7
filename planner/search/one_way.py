"""One way: the plan of a scenario whose models are settled, but for the precisions and runtimes that it lists."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from functools import cache, cached_property, partial
from math import inf

from calibrate.library.reading import PRECISIONS
from planner.catalog.catalog import Catalog
from planner.catalog.offers import kinds_on_offer, offers, own_left_out
from planner.io.load import Loaded, workload
from planner.io.warm import versions
from planner.model.parts.models import ModelSpec
from planner.model.plan import (
    NOTHING_TRIED,
    InterruptedSearch,
    Plan,
    PlanWarning,
    Recommendation,
)
from planner.model.progress import Progress, silent
from planner.model.scenario import Objective, Scenario
from planner.model.statement import Code, Statement
from planner.placing.fleets import cost_usd_per_hour, gpu_count
from planner.placing.sizing import Kind, Profiles
from planner.prediction.predict import Predictor
from planner.replay.answer import policies, recommend
from planner.replay.kinds import of_each_kind
from planner.replay.run import PLANNING
from planner.replay.timeline import histograms
from planner.replay.trial import Trial
from planner.replay.warnings import assumptions, warnings_of
from planner.search.budgets import check_fastest, check_load, designed
from planner.search.fleets.beside import Beside, BestFound
from planner.search.fleets.misses import Misses
from planner.search.fleets.search import DIGITS, FleetSearch, goal_of
from planner.search.outlooks import look_ahead, other_precisions, predictions
from planner.search.question import Question, ask, predictor_of
from planner.search.remedies import as_far_as_replayed, as_replayed, nearest_replayed
from simulator.world.sharing import NOTHING_SHARED, Merged

Goal = tuple[float, ...]
"""What the objective wants little of, and of equal ones the cost."""


# Of the variants that a scenario lists, the best


def on_best_evidence(
    scenario: Scenario, asked: Callable[[Scenario], Question], replayed: Callable[[Scenario], Goal | None]
) -> Scenario:
    """The scenario with each model in the variant whose fleet has least of the objective once replayed; of equal ones
    the one with better evidence, then the more precise one.

    Sizing alone would take what needs least of a GPU, even where no GPU is saved. `replayed`: None where no fleet meets
    every SLO.
    """
    for model in scenario.models:
        if len(model.variants) == 1:
            continue
        ways = [scenario, *(_with(scenario, model, *variant) for variant in model.variants)]
        served = [_SearchedVariant(question, model.name) for question in map(asked, ways) if question.served]
        if served:
            scenario = _least(sorted(served, key=lambda way: way.standing), replayed).question.scenario
    return scenario


def _with(scenario: Scenario, model: ModelSpec, precision: str | None, runtime: str | None) -> Scenario:
    models = (
        replace(one, precision=precision, runtime=runtime) if one.name == model.name else one for one in scenario.models
    )
    return replace(scenario, models=tuple(models))


@dataclass(frozen=True)
class _SearchedVariant:
    """A scenario with a model in one variant."""

    question: Question
    model: str

    @cached_property
    def standing(self) -> tuple[Goal, int, int]:
        """The goal of the best fleet that is sized for the work, the model's weakest evidence and precision on it."""
        question = self.question
        solution = question.program().propose(question.scenario.objective, design=1.0)
        if solution is None or solution.fleet is None:
            return (inf,), 0, 0
        bought = {Kind.of(offer) for offer, n in zip(question.offers, solution.fleet, strict=True) if n}
        sized = question.sized.items()
        profiles = [one.profile for (name, kind), one in sized if name == self.model and kind in bought]
        cost = round(cost_usd_per_hour(question.offers, solution.fleet), DIGITS)
        goals: dict[Objective, Goal] = {
            Objective.COST: (cost,),
            Objective.GPUS: (gpu_count(question.offers, solution.fleet), cost),
            Objective.ENERGY: (round(solution.bound, DIGITS), cost),
        }
        return (
            goals[question.scenario.objective],
            max((profile.latency_evidence.rank for profile in profiles), default=0),
            max((PRECISIONS.index(profile.precision) for profile in profiles), default=0),
        )

    def may_beat(self, goal: Goal) -> bool:
        """Whether some fleet might have less."""
        program = self.question.program()
        cost = program.lower_bound_usd_per_hour()
        if cost is None:
            return False
        match self.question.scenario.objective:
            case Objective.COST:
                least: Goal = (cost,)
            case Objective.GPUS:
                least = program.least_gpus() or 0, cost
            case Objective.ENERGY:
                least = 0.0, cost
        return tuple(round(one, DIGITS) for one in least) < goal


def _least(best_first: Iterable[_SearchedVariant], replayed: Callable[[Scenario], Goal | None]) -> _SearchedVariant:
    """The first of the ways with the least once replayed; the very first where none meets every SLO."""
    first, *others = best_first
    best, least = first, replayed(first.question.scenario) or (inf,)
    for way in others:
        if not way.may_beat(least):
            continue
        goal = replayed(way.question.scenario)
        if goal is not None and goal < least:
            best, least = way, goal
    return best


# The plan


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
        check_load(loaded, question, question.program().gpu_count_max)
        return FleetSearch(designed(question), progress or silent, rejections)

    def answered(beside: Beside, found: BestFound) -> Plan:
        misses = Misses(beside.search)
        plan = Plan(
            scenario=scenario.name or loaded.path.stem,
            scenario_sha256=loaded.sha256,
            seed=PLANNING,
            versions=versions(),
            created_at=created_at,
            policies=policies(scenario, beside.question.workload, found.shown),
            recommendation=NOTHING_TRIED,
            rejections=misses.settled(),
            warnings=(*own_left_out(scenario.buy), *misses.streams_refused),
            scenario_seed=scenario.seed,
            scenario_text=loaded.text,
            scenario_overrides=loaded.overrides,
        )
        return _answered(plan, scenario, beside, found, catalog, predictor, ways.questions)

    ways = _Ways(search_for)
    try:
        search = ways.search(on_best_evidence(scenario, lambda asked: ways.search(asked).question, ways.goal))
        question = search.question
        beside = Beside(search)
        found = beside.found(ways.best(question.scenario))
        ahead = look_ahead(question, catalog, predictor, found.best, found.shown, shared)
        precisions = tuple(other_precisions(question, catalog, predictor, found.shown, shared))
    except KeyboardInterrupt:
        if (so_far := ways.so_far()) is None:
            raise
        stopped, found = so_far
        raise InterruptedSearch(answered(Beside(stopped), found)) from None
    plan = answered(beside, found)
    return replace(plan, outlooks=ahead.outlooks, precisions=precisions, measure_next=ahead.measure_next)


def _answered(
    plan: Plan,
    scenario: Scenario,
    beside: Beside,
    found: BestFound,
    catalog: Catalog,
    predictor: Predictor | None,
    questions: Sequence[Question],
) -> Plan:
    """The plan with what was found, and all that is said of the fleet that is shown."""
    search, shown, feasible = beside.search, found.shown, found.best is not None
    by_gpu = of_each_kind(found.alone, catalog)
    if not found.interrupted:
        plan = replace(plan, by_gpu_left_out=beside.left_out(kinds_on_offer(catalog, scenario.buy), by_gpu))
    interruptions = (interruption(search, found),) if found.interrupted else ()
    if shown is None:
        nothing = replace(NOTHING_TRIED, lower_bound_usd_per_hour=lower_bound_usd_per_hour(questions))
        return (
            replace(plan, recommendation=nothing, warnings=(*interruptions, *plan.warnings)) if interruptions else plan
        )
    answer = replace(recommended(questions, shown), feasible=feasible)
    if not (feasible or found.interrupted):
        with suppress(KeyboardInterrupt):  # the answer stands without
            lower = partial(as_replayed, search.question, shown, known=search)
            plan = replace(
                plan, rejections=tuple(lower(no) if no.subject == shown.candidate else no for no in plan.rejections)
            )
    if feasible and not found.interrupted:
        with suppress(KeyboardInterrupt):
            plan = nearest_replayed(replace(plan, recommendation=answer), search)
        answer = replace(answer, models=tuple(as_far_as_replayed(search.question, shown, answer.models)))
    bound = answer.lower_bound_usd_per_hour
    slo_s = {model: need.slo.latency_s for model, need in shown.replay.needs.items()}
    alternatives = tuple(recommend(trial, bound) for trial in found.others)
    today = date.fromisoformat(plan.created_at[:10])
    return replace(
        plan,
        recommendation=answer,
        alternatives=alternatives,
        pareto=pareto([answer, *alternatives]) if feasible else (),
        by_gpu=by_gpu,
        predictions=predictions(shown, predictor) if predictor else (),
        prices_as_of=oldest_price(answer),
        assumptions=assumptions(scenario, shown, catalog.assumptions),
        warnings=(
            *interruptions,
            *plan.warnings,
            *(
                one
                for one in search_warnings(search, shown, today)
                if not (found.interrupted and one.what.code is Code.UNPROVEN)
            ),
        ),
        latency=histograms(slo_s, shown.replay.latencies),
        timeline=shown.replay.timeline,
    )


def search_warnings(search: FleetSearch, shown: Trial, today: date) -> tuple[PlanWarning, ...]:
    """What weakens the answer, the search for it included."""
    cut_off = PlanWarning(what=Statement(code=Code.CUT_OFF))
    already_warned = Misses(search).streams_refused
    warnings = warnings_of(search.question.scenario, search.question.workload, shown, today)
    return (*(one for one in warnings if one not in already_warned), *([cut_off] if search.cut_off else []))


def interruption(search: FleetSearch, found: BestFound) -> PlanWarning:
    """That the search did not come to its end, and where it was where it had found nothing."""
    if found.seen:
        return PlanWarning(what=Statement(code=Code.INTERRUPTED))
    return PlanWarning(what=Statement(code=Code.INTERRUPTED_BEFORE, subjects=(search.trying,)))


def _ready(found: "Iterable[tuple[FleetSearch, Iterable[Trial | None]]]") -> "list[tuple[FleetSearch, Trial]]":
    """What met every SLO in each search, with its spares, where these may be bought."""
    met = [(one, one.spares.certain(trial)) for one, trials in found for trial in trials if trial]
    return [(one, trial) for one, trial in met if not trial.unready]


def _rank(search: FleetSearch, trial: Trial) -> tuple[bool, float]:
    """What is confirmed comes first, and of that what has least of the objective."""
    return trial.replay.preliminary, goal_of(search.question.scenario.objective, trial)


class _Ways:
    """Searches for a scenario with its models in some variant each, every one done once."""

    def __init__(self, search: "Callable[[Scenario], FleetSearch]") -> None:
        self.searches: list[FleetSearch] = []
        self.search = cache(lambda asked: self._began(search(asked)))
        self.best = cache(self._best)

    def _began(self, search: FleetSearch) -> FleetSearch:
        self.searches.append(search)
        return search

    @property
    def questions(self) -> list[Question]:
        """Those that were asked, of each variant."""
        return [search.question for search in self.searches]

    def so_far(self) -> "tuple[FleetSearch, BestFound] | None":
        """The best that was found until now, and where: confirmed, else such that its first look keeps as many draws as
        are asked, else seen at a glance, else what was being confirmed or is hopeful, else the nearest miss; None where
        no search has begun."""
        tried = [[trial for trial in one.tried.values() if trial] for one in self.searches]
        ranked = [[trial.as_ranked for trial in trials] for trials in tried]
        glanced = [one.glanced.values() for one in self.searches]
        begun = [[*one.being_confirmed, *trials] for one, trials in zip(self.searches, tried, strict=True)]
        for seen in (ranked, glanced, begun):
            if ready := _ready(zip(self.searches, seen, strict=True)):
                search, best = min(ready, key=lambda pair: _rank(*pair))
                return search, BestFound(None if best.replay.preliminary else best, best, [], [], interrupted=True)
        missed = [(trial.nearest_by_shares, i, trial) for i, one in enumerate(self.searches) for trial, _ in one.misses]
        if missed:
            _, place, nearest = max(missed, key=lambda one: one[:2])
            return self.searches[place], BestFound(None, nearest, [], [], interrupted=True, seen=False)
        if not self.searches:
            return None
        return self.searches[-1], BestFound(None, None, [], [], interrupted=True, seen=False)

    def _best(self, asked: Scenario) -> Trial | None:
        search = self.search(asked)
        if not search.question.served:
            return None
        best = search.best(search.question.program(), asked.objective)
        return search.with_fewer_kinds(best) if best and asked.objective is Objective.COST else best

    def goal(self, asked: Scenario) -> Goal | None:
        """What the objective wants little of, and then the cost, of the best fleet; None where none meets every SLO."""
        best = self.best(asked)
        if best is None:
            return None
        goal, cost = goal_of(asked.objective, best), best.cost_usd_per_hour
        return (
            (round(goal, DIGITS),) if asked.objective is Objective.COST else (round(goal, DIGITS), round(cost, DIGITS))
        )


def recommended(questions: Sequence[Question], shown: Trial) -> Recommendation:
    """The answer of a plan: a trial, with the growth that it bears and the least that any fleet could cost."""
    no_headroom = [replace(one, scenario=replace(one.scenario, headroom=0.0)) for one in questions]
    return replace(
        recommend(shown, lower_bound_usd_per_hour(questions)),
        demand_factor_max=shown.demand_factor_max,
        lower_bound_full_usd_per_hour=lower_bound_usd_per_hour(no_headroom),
    )


def lower_bound_usd_per_hour(questions: Sequence[Question]) -> float:
    """Price that no plan can beat, whichever variants its models run in: the lowest, of those that can run at all."""
    served = [question for question in questions if question.served]
    return min(question.lower_bound_usd_per_hour() for question in served or questions)


def oldest_price(answer: Recommendation) -> str:
    """ISO date of the oldest price; empty where nothing is rented."""
    return min((i.price_as_of for i in answer.instances if i.price_as_of), default="")


def pareto(answers: Sequence[Recommendation]) -> tuple[int, ...]:
    """Places of those that no other beats in both cost and worst p99 over its SLO."""
    points = [(a.cost_usd_per_hour, max(m.p99_shown_s / m.slo_s for m in a.models)) for a in answers]

    def beaten(point: tuple[float, float]) -> bool:
        return any(one[0] <= point[0] and one[1] <= point[1] and one != point for one in points)

    return tuple(place for place, point in enumerate(points) if not beaten(point))
