"""One way: the plan of a scenario whose models are settled, but for the precisions and runtimes that it lists."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from functools import cache, cached_property, partial
from itertools import accumulate, pairwise
from math import ceil, floor, inf, isfinite, log

from calibrate.library.reading import PRECISIONS
from planner.catalog.catalog import Catalog
from planner.catalog.offers import kinds_on_offer, offers, own_left_out
from planner.io.load import Loaded, workload
from planner.io.warm import versions
from planner.model.parts.models import ModelSpec
from planner.model.plan import (
    NOTHING_TRIED,
    Bottleneck,
    InterruptedSearch,
    ModelAnswer,
    Plan,
    PlanWarning,
    Recommendation,
    Rejection,
    nearest,
)
from planner.model.progress import Progress, silent
from planner.model.scenario import Objective, Scenario
from planner.model.statement import Code, Statement
from planner.placing.fleets import cost_usd_per_hour, gpu_count
from planner.placing.sizing import Kind, Profiles, needs
from planner.prediction.predict import Predictor
from planner.replay.answer import policies, recommend
from planner.replay.kinds import of_each_kind
from planner.replay.replay import Replay
from planner.replay.run import PLANNING, replay
from planner.replay.timeline import histograms
from planner.replay.trial import Trial
from planner.replay.warnings import assumptions
from planner.search.budgets import check_fastest, check_load, designed
from planner.search.outlooks import look_ahead, other_precisions, predictions
from planner.search.question import Question, ask, predictor_of
from planner.search.search import DIGITS, GLANCE, PROOF, BestFound, Effort, FleetSearch, goal_of
from simulator.clock.metrics import Verdict
from simulator.world.deployment import Deployment
from simulator.world.doubt import slow_end
from simulator.world.sharing import NOTHING_SHARED, Merged
from simulator.world.workload import Stream, Workload, scaled

GROWTH = 1.05
"""Of the load, from one that replays try to the next."""
HALVED = 15
"""Such steps down to half of a load, or up to twice an SLO that is estimated to do."""
REPLAYED = {
    Code.LOWER_RATE: "rate_rps",
    Code.LESS_DEMAND: "share",
    Code.FEWER_CAMERAS: "left",
    Code.RAISE_LATENCY: "latency_s",
}
"""Remedies that are replayed, and their figures."""
BORNE_OUT = frozenset({*REPLAYED, Code.MORE_GPUS, Code.LOWER_SLO})
"""They, and others that replays bear out."""
MORE_MAX = 8
"""Times the GPUs that are estimated to help."""
GROWN_REQUESTS_MAX = 3e6
"""Requests of a replication above which more load is not replayed: a dozen of them take some seconds."""

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

    def answered(search: FleetSearch, found: BestFound) -> Plan:
        plan = Plan(
            scenario=scenario.name or loaded.path.stem,
            scenario_sha256=loaded.sha256,
            seed=PLANNING,
            versions=versions(),
            created_at=created_at,
            policies=policies(scenario, search.question.workload, found.shown),
            recommendation=NOTHING_TRIED,
            rejections=search.settled(),
            warnings=(*own_left_out(scenario.buy), *search.streams_refused),
            scenario_seed=scenario.seed,
            scenario_text=loaded.text,
            scenario_overrides=loaded.overrides,
        )
        return _answered(plan, scenario, search, found, catalog, predictor, ways.questions)

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
    plan: Plan,
    scenario: Scenario,
    search: FleetSearch,
    found: BestFound,
    catalog: Catalog,
    predictor: Predictor | None,
    questions: Sequence[Question],
) -> Plan:
    """The plan with what was found, and all that is said of the fleet that is shown."""
    shown, feasible = found.shown, found.best is not None
    by_gpu = of_each_kind(found.alone, catalog)
    if not found.interrupted:
        plan = replace(plan, by_gpu_left_out=search.left_out(kinds_on_offer(catalog, scenario.buy), by_gpu))
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
                for one in search.warnings_of(shown, today)
                if not (found.interrupted and one.what.code is Code.UNPROVEN)
            ),
        ),
        latency=histograms(slo_s, shown.replay.latencies),
        timeline=shown.replay.timeline,
    )


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


def as_far_as_replayed(question: Question, shown: Trial, models: Sequence[ModelAnswer]) -> Iterator[ModelAnswer]:
    """The models, each limited from the load that replays bear that meet all of it grown alike, uncertain speeds at
    their slow end; from no more than leaves the headroom. Where these take long the estimates stand."""
    scenario, workload = question.scenario, question.workload
    if _takes_long(question, shown):
        yield from models
        return
    slow = slow_end(shown.deployment)

    @cache
    def grown(steps: int) -> Replay:
        more = scaled(workload, GROWTH**steps)
        return replay(scenario, more, needs(scenario, more), slow, screen=True)

    def misses(model: str, steps: int) -> bool:
        seen = grown(steps)
        return seen.margin(model) < 0 or seen.verdicts[model] is not Verdict.STABLE

    def limited(model: ModelAnswer) -> ModelAnswer:
        estimate, queues = model.demand_factor_max, shown.limit * shown.demand_factor_max
        factor = max(estimate, queues)
        most = int(log(factor) / log(GROWTH)) if isfinite(factor) and factor > GROWTH else 0
        if not most:
            return model
        if not misses(model.name, most):
            is_busy = estimate < GROWTH**most and model.bottleneck is Bottleneck.LATENCY
            bottleneck = Bottleneck.COMPUTE if is_busy else model.bottleneck
            return replace(model, demand_factor_max=max(estimate, GROWTH**most), bottleneck=bottleneck)
        met = bisect_left(range(1, most), True, key=partial(misses, model.name))
        keeps_up = grown(met + 1).verdicts[model.name] is Verdict.STABLE
        bottleneck = Bottleneck.LATENCY if keeps_up else model.bottleneck
        return replace(model, demand_factor_max=GROWTH**met, bottleneck=bottleneck)

    for place, model in enumerate(models):
        try:
            yield limited(model)
        except KeyboardInterrupt:  # the answer stands without
            yield from models[place:]
            return


def _takes_long(question: Question, trial: Trial) -> bool:
    """Whether replays at other loads do: of very many requests, or pipelines."""
    scenario = question.scenario
    requests = trial.replay.stretch.horizon_s * sum(question.workload.rates_rps().values())
    return bool(scenario.pipelines) or requests > GROWN_REQUESTS_MAX


def _lessened(streams: Sequence[Stream], remedy: Statement) -> Iterator[Stream]:
    """What comes once a remedy of less load is followed: of several streams of cameras, as large a part of each."""
    models = remedy.subjects or {one.model for one in streams}
    asked = [one for one in streams if one.model in models]
    yield from (one for one in streams if one.model not in models)
    match remedy.code:
        case Code.FEWER_CAMERAS:
            left, cameras = round(remedy.figures["left"]), sum(one.count for one in asked)
            ends = [left * end // cameras for end in accumulate((one.count for one in asked), initial=0)]
            counts = (end - begin for begin, end in pairwise(ends))
            yield from (replace(one, count=count) for one, count in zip(asked, counts, strict=True) if count)
        case Code.LOWER_RATE:
            yield from scaled(
                Workload(tuple(asked)), remedy.figures["rate_rps"] / sum(o.rate_rps for o in asked)
            ).streams
        case _:
            yield from scaled(Workload(tuple(asked)), remedy.figures["share"]).streams


def as_replayed(
    question: Question,
    trial: Trial,
    rejection: Rejection,
    effort: Effort = PROOF,
    known: FleetSearch | None = None,
) -> Rejection:
    """The rejection of a placement, whose remedies are such that replays then meet what they name; without those of
    which half as much load, twice as long an SLO, or many more GPUs, would still miss.

    `effort`: for fleets of more GPUs. `known`: has tried some.
    """
    if _takes_long(question, trial):
        return rejection
    replayed = _Replayed(question, trial, slow_end(trial.deployment), effort, known)
    # A longer SLO of a busy fleet leaves time for larger batches, which this placement has not.
    kept = (Code.RAISE_LATENCY,) if rejection.why.code is Code.TOO_BUSY else ()
    found = (one if one.code in kept else replayed.remedy(one) for one in rejection.remedies)
    remedies = tuple(one for one in found if one)
    but = rejection.but
    if not (but or kept):
        others = [replayed.others_missed(one) for one in remedies]
        whole = tuple(one for one, missed in zip(remedies, others, strict=True) if not missed)
        if any(one.code in BORNE_OUT for one in whole):
            remedies = whole
        else:
            but = tuple(filter(None, others))
    estimated = {*kept, *([] if len(trial.bought) == 1 else [Code.MORE_GPUS])}
    figured = [one.code for one in remedies if one.figures]
    whole_answer = not any(one.code is Code.OTHERS_MISS_TOO for one in but)
    is_replayed = bool(figured) and whole_answer and (BORNE_OUT - estimated).issuperset(figured)
    return replace(rejection, remedies=remedies or rejection.remedies, but=but, replayed=is_replayed)


def nearest_replayed(plan: Plan, search: FleetSearch) -> Plan:
    """The plan whose nearest miss has remedies that were replayed, where the miss itself was."""
    for no in nearest(plan)[:1]:
        if trial := search.missed_by(no):
            found = as_replayed(search.question, trial, no, GLANCE, search)
            return replace(plan, rejections=tuple(found if one is no else one for one in plan.rejections))
    return plan


@dataclass(frozen=True)
class _Replayed:
    """Remedies of less load and of one longer SLO, as replays with uncertain speeds at their slow end bear them out; of
    more GPUs as replays of such a fleet do."""

    question: Question
    trial: Trial
    deployment: Deployment
    effort: Effort
    known: FleetSearch | None

    def remedy(self, remedy: Statement) -> Statement | None:
        """The mildest step that does; None where none does; what is not replayed as it was."""
        if remedy.code is Code.MORE_GPUS:
            return self._more_gpus(remedy)
        if remedy.code not in REPLAYED:
            return remedy
        most = HALVED
        if remedy.code is Code.RAISE_LATENCY:
            most += max(0, ceil(log(remedy.figures["latency_s"] / self._slo_s(remedy)) / log(GROWTH)))
        steps = bisect_left(range(most), True, key=lambda steps: self._meets(self._stepped(remedy, steps)))
        if remedy.code is Code.RAISE_LATENCY:
            steps = next((one for one in range(steps, most) if self._is_longer_surely(remedy, one)), most)
        return None if steps == most else self._stepped(remedy, steps)

    def _more_gpus(self, remedy: Statement) -> Statement | None:
        """As many as are told, else the fewest up to `MORE_MAX` times as many; as they were where machines differ."""
        if len(self.trial.bought) != 1:
            return remedy
        (offer,) = self.trial.bought
        told = ceil(remedy.figures["gpu_count"] / offer.gpu_count)
        most = told
        while not self._meets_with(most):
            most *= 2
            if most > MORE_MAX * told:
                return None
        more = range(most // 2 + 1, most) if most > told else ()
        least = most - len(more) + bisect_left(more, True, key=self._meets_with)
        return replace(remedy, figures={**remedy.figures, "gpu_count": least * offer.gpu_count})

    def _meets_with(self, more: int) -> bool:
        """Whether so many more machines of the fleet's one type meet every SLO."""
        (offer,) = self.trial.bought
        count = len(self.trial.devices) // offer.gpu_count
        fleet = (offer,), (count + more,)
        if self.known and self.known.has_met(*fleet):
            return True
        return self._at_slow_end.try_fleet(*fleet, self.effort) is not None

    @cached_property
    def _at_slow_end(self) -> FleetSearch:
        """A search in which each uncertain speed is at its slow end."""
        sized = {
            key: replace(one, profile=replace(one.profile, doubt=None, session_cv=0.0))
            for key, one in self.question.sized.items()
        }
        return FleetSearch(replace(self.question, sized=sized), silent, [])

    def others_missed(self, remedy: Statement) -> Statement | None:
        """The other models that miss their SLO when that of one is longer; None where none does, and of other
        remedies."""
        if remedy.code is not Code.RAISE_LATENCY:
            return None
        seen = self._longer(remedy, screen=False)
        others = [name for name in seen.needs if name not in remedy.subjects and seen.margin(name) < 0]
        return Statement(code=Code.OTHERS_MISS_TOO, subjects=(*remedy.subjects, *others)) if others else None

    def _stepped(self, remedy: Statement, steps: int) -> Statement:
        figure = REPLAYED[remedy.code]
        value = remedy.figures[figure] / GROWTH**steps
        match remedy.code:
            case Code.RAISE_LATENCY:
                value = self._slo_s(remedy) * GROWTH ** (steps + 1)
            case Code.LESS_DEMAND:  # whole percent
                value = max(0.01, floor(100 * value + 1e-9) / 100)
            case Code.FEWER_CAMERAS:
                value = max(1.0, remedy.figures[figure] - steps * max(1, remedy.figures[figure] // HALVED))
        return replace(remedy, figures={**remedy.figures, figure: value})

    def _meets(self, remedy: Statement) -> bool:
        scenario, workload = self.question.scenario, self.question.workload
        if remedy.code is not Code.RAISE_LATENCY:
            less = Workload(tuple(_lessened(workload.streams, remedy)))
            seen = replay(scenario, less, needs(scenario, less), self.deployment, screen=True)
            return seen.stable and not any(seen.margin(name) < 0 for name in seen.needs)
        seen = self._longer(remedy, screen=True)
        return seen.stable and seen.margin(remedy.subjects[0]) >= 0

    def _is_longer_surely(self, remedy: Statement, steps: int) -> bool:
        """Whether as many replications as a plan is confirmed by leave no doubt."""
        seen = self._longer(self._stepped(remedy, steps), screen=False)
        return seen.stable and seen.kept[remedy.subjects[0]] is True

    def _longer(self, remedy: Statement, *, screen: bool) -> Replay:
        """The same fleet with the latency SLO that the remedy names."""
        scenario, workload = self.question.scenario, self.question.workload
        name, latency_s = remedy.subjects[0], remedy.figures["latency_s"]
        services = tuple(
            replace(one, slo=replace(one.slo, latency_s=latency_s)) if one.model == name else one
            for one in self.deployment.services
        )
        wanted = needs(scenario, workload)
        wanted[name] = replace(wanted[name], slo=replace(wanted[name].slo, latency_s=latency_s))
        return replay(scenario, workload, wanted, replace(self.deployment, services=services), screen=screen)

    def _slo_s(self, remedy: Statement) -> float:
        return needs(self.question.scenario, self.question.workload)[remedy.subjects[0]].slo.latency_s


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
