"""Beside the best fleet: each kind of GPU alone, the fewest GPUs, equals in cost, each with its spares."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import inf

from planner.catalog.offers import Offer
from planner.model.plan import KindLeftOut, OfOneKind, Rejection, Searched
from planner.model.scenario import Objective
from planner.model.statement import Code, Statement
from planner.placing.cutting import too_large
from planner.placing.fleets import GAP_MAX, Fleet, FleetProgram, cost_usd_per_hour, gpu_count
from planner.placing.sizing import Kind
from planner.replay.answer import p99_over_slo
from planner.replay.pipelines import each_once
from planner.replay.spares import of_each_type, together
from planner.replay.trial import Trial
from planner.search.fleets.misses import Misses
from planner.search.fleets.search import DIGITS, FleetSearch, goal_of
from planner.search.fleets.tried import ALTERNATIVE, DEARER, GLANCE
from planner.search.placement import LARGE_GPUS
from planner.search.rejections import HUGE_GPUS, KIND_TOO_DEAR, KIND_TOO_LARGE, NO_FLEET_OF_KIND, kind_of
from planner.words.candidates import candidate_name

OTHERS_MAX = 4
"""Alternatives looked for besides the best: what a person compares at a glance."""
KINDS_ALONE_MAX = 3
"""Kinds of GPU that are searched for it, the cheapest at their bounds: one place is left for the fewest GPUs."""
DEARER_MAX, KINDS_SHOWN = 2.0, 13
"""Kinds of GPU whose fleets cost so many times the best at least are not tried alone, but for the cheapest dozen."""
CENTS = 100
"""Rented at prices of whole cents, fleets may well cost the same; at others hardly. One's own machines always may."""
EQUALS_MAX = 3
"""Fleets at the price of the best that are tried besides those that the search has anyway."""
ROOMIEST_FIRST = (4.0, 2.0, 1.4, 1.0, 0.0)
"""Times the design work that such a fleet must carry, tried in turn."""


@dataclass(frozen=True)
class BestFound:
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
    seen: bool = True
    """Whether what is shown was seen to meet every SLO then, at a glance at least."""

    @property
    def complete(self) -> bool:
        """Whether what is not in it was looked for."""
        return self.best is not None and not self.interrupted


class Beside:
    """The fleets that stand beside the best one, each with its spares."""

    def __init__(self, search: FleetSearch) -> None:
        self.search, self.question = search, search.question
        self.passed_over: dict[str, KindLeftOut] = {}
        """Kinds of GPU of which no fleet is set beside the others."""

    def found(self, best: Trial | None) -> BestFound:
        """The best of all fleets with the others beside it, each with its spares; else the closest."""
        shown = best or Misses(self.search).closest()
        if shown and shown.met:
            best = shown
        alone: list[Trial] = []
        equals: list[Trial] = []
        if best:  # steps may leave out what a kind of GPU does alone, or what few GPUs do
            equals, alone = self._with_spares(best)
            best = shown = equals[0]
            known = {(one.candidate, one.spares): one for one in equals}
            alone = [known.get((one.candidate, one.spares), one) for one in self.spared(alone)]
        if shown and shown.unready:
            self.reject_spares(shown)
            best = None
        others = self.others(best, alone, equals) if best else []
        if best:
            Misses(self.search).see_less_sure(best)
        return BestFound(best, shown, alone, others)

    def _with_spares(self, best: Trial) -> tuple[list[Trial], list[Trial]]:
        """The best with its spares, or another with its own that is better then, and all that cost as much, which stand
        when confirmed: the surest first, of equally sure ones the fastest; and the cheapest of each kind of GPU alone,
        without what missed there."""
        objective = self.question.scenario.objective
        while True:
            alone = self.alone(best)
            ready = self.search.spares.ready([best, *alone, *self.fewest(best), *self._with_few_types(best)])
            least = min(ready, key=lambda one: goal_of(objective, one))
            equals = _apart([one for one in ready if _costs_as(objective, one, least)])
            confirmed = [self.search.confirmed(one) if one.replay.preliminary else one for one in equals]
            if all(trial.stands for trial in confirmed):
                return sorted([*confirmed, *self._at_price(confirmed)], key=_surest_first), alone

    def _with_few_types(self, best: Trial) -> list[Trial]:
        """The cheapest fleet where each type of machine is paid for with its spares, if the best is of several types:
        of fewer it may cost less in all."""
        survive = self.question.scenario.survive
        if not survive or len(best.bought) == 1:
            return []
        spared = of_each_type(best.fleet, survive)
        most_usd_per_hour = cost_usd_per_hour(best.offers, together(best.fleet, spared))
        program = replace(self.question.program(), spares=survive)
        found = self.search.best(program, Objective.COST, ALTERNATIVE, most_usd_per_hour)
        return [found] if found else []

    def _at_price(self, known: Sequence[Trial]) -> Iterator[Trial]:
        """A few other fleets that cost as much as the best and meet every SLO, the roomiest first; none of large
        fleets, or where prices are such that hardly any cost the same."""
        scenario, best = self.question.scenario, known[0]
        usd_per_hour = best.cost_usd_per_hour
        own = [offer for offer in self.question.offers if offer.price_kind is None]
        rented = [offer for offer in self.question.offers if offer.price_kind is not None]
        offered = [*own, *(offer for offer in rented if _is_whole(CENTS * offer.usd_per_hour))]
        is_asked = scenario.objective is Objective.COST and not scenario.survive and len(best.devices) < LARGE_GPUS
        if not (is_asked and offered and (own or _is_whole(CENTS * usd_per_hour))):
            return
        program = replace(self.question.program(offered), usd_per_hour_min=usd_per_hour * (1 - GAP_MAX))
        seen = {_gpus_alone(trial.offers, trial.fleet) for trial in known}
        excluded = [fleet for one in known if (fleet := _as_fleet_of(offered, one))]
        for fleet in islice(_fleets_at(program, excluded, usd_per_hour), EQUALS_MAX):
            gpus = _gpus_alone(program.offers, fleet)
            if gpus not in seen and (trial := self.search.anew(program.offers, fleet)):
                yield trial
            seen.add(gpus)

    def alone(self, best: Trial) -> list[Trial]:
        """The cheapest fleet that was found of each kind of GPU alone, the best among them.

        Only the first few are confirmed, what a glance leaves in doubt, and what looks better than the best.
        """
        only = {device.kind.gpu.name for device in best.devices}
        trials = [best] if len(only) == 1 else []
        programs = [one for one in self._of_each_kind(self.question.offers) if only != {one.offers[0].gpu.name}]
        for place, (bound, program) in enumerate(cheapest_first(programs)):
            if trial := self._of_kind(place, bound, program, best):
                trials.append(trial)
        return trials

    def _of_each_kind(self, offered: Sequence[Offer]) -> list[FleetProgram]:
        """A program over the offers of each kind of GPU."""
        by_gpu: dict[str, list[Offer]] = {}
        for offer in offered:
            by_gpu.setdefault(offer.gpu.name, []).append(offer)
        return [self.question.program(of_kind) for of_kind in by_gpu.values()]

    def _of_kind(self, place: int, bound: float, program: FleetProgram, best: Trial) -> Trial | None:
        """The cheapest fleet of the kind of GPU at this place among all; None where it is passed over, and noted."""
        most = DEARER_MAX * best.cost_usd_per_hour
        near = bound <= most
        if len(best.devices) >= HUGE_GPUS:
            self._pass_over(program, KIND_TOO_LARGE, bound)
            return None
        if not near and (place >= KINDS_SHOWN - 1 or self._must_cut(program)):
            self._pass_over(program, KIND_TOO_DEAR, bound)
            return None
        tried = near and place < KINDS_ALONE_MAX
        trial = self._cheapest_beside(best, program, most if tried else None)
        if trial is None:
            self._pass_over(program, self._limit_on(program, bound) or NO_FLEET_OF_KIND, bound)
        return trial

    def _cheapest_beside(self, best: Trial, program: FleetProgram, most_usd_per_hour: float | None) -> Trial | None:
        """The cheapest fleet of one kind of GPU, answered for where it looks better than the best.

        `most_usd_per_hour`: what it costs to be an alternative; None where it is only set beside the others.
        """
        objective = self.question.scenario.objective
        if most_usd_per_hour is None:
            trial = self.search.best(program, Objective.COST, GLANCE)
        else:
            trial = self.search.best(program, Objective.COST, ALTERNATIVE, most_usd_per_hour)
            trial = trial or self.search.best(program, Objective.COST, DEARER)
        if trial and goal_of(objective, trial) < goal_of(objective, best):
            return self.search.best(program, Objective.COST, ALTERNATIVE)
        return trial

    def _pass_over(self, program: FleetProgram, why: Statement, bound_usd_per_hour: float | None) -> None:
        self.passed_over[program.offers[0].gpu.name] = self._left_out(program, why, bound_usd_per_hour)

    def _left_out(self, program: FleetProgram, why: Statement, bound_usd_per_hour: float | None) -> KindLeftOut:
        """A kind of GPU without a fleet, what any would take, and the sizes of its fleets that missed."""
        gpu = program.offers[0].gpu.name
        of_kind = [
            (key, trial)
            for key, trial in {**self.search.tried, **self.search.glanced}.items()
            if {offer.gpu.name for offer in key[0]} == {gpu}
        ]
        missed = (key for key, trial in of_kind if trial is None or trial.replay.preliminary)
        is_open = why.code in (Code.KIND_LIMITED, Code.NO_FLEET_OF_KIND)
        least = bound_usd_per_hour
        sized = [one for (_, kind), one in program.sized.items() if kind.gpu.name == gpu]
        return KindLeftOut(
            gpu=gpu,
            why=why,
            usd_per_hour_at_least=None if least is None else self.question.with_spares_usd_per_hour(program, least),
            gpus_at_least=program.unlimited().least_gpus() if is_open else None,
            gpus_tried=tuple(sorted({gpu_count(*key) for key in missed})),
            precision=each_once(one.profile.precision for one in sized),
        )

    def left_out(self, kinds: Iterable[str], shown: Sequence[OfOneKind]) -> tuple[KindLeftOut, ...]:
        """Those of some kinds of GPU that are not shown, and why."""
        known = {one.gpu for one in shown}
        whys = {kind_of(no): no.why for no in reversed(self.search.rejections)}
        others = [gpu for gpu in kinds if gpu not in known]
        return tuple(self.passed_over.get(gpu) or self._not_passed_over(gpu, whys.get(gpu)) for gpu in others)

    def _not_passed_over(self, gpu: str, why: Statement | None) -> KindLeftOut:
        """A kind of GPU that cannot run the models, of which too few machines may be bought for any fleet, or any kind
        where no fleet of any does."""
        offered = [offer for offer in self.question.offers if offer.gpu.name == gpu]
        if why or not offered:
            return KindLeftOut(gpu=gpu, why=why or NO_FLEET_OF_KIND)
        program = self.question.program(offered)
        bound = program.unlimited().lower_bound_usd_per_hour()
        limit = self._limit_on(program, inf if bound is None else bound)
        return self._left_out(program, limit or NO_FLEET_OF_KIND, bound)

    def _limit_on(self, program: FleetProgram, bound_usd_per_hour: float) -> Statement | None:
        """The limit on buying that keeps a fleet of one kind of GPU out; None where larger ones could be tried."""
        least = self.question.with_spares_usd_per_hour(program, bound_usd_per_hour)
        if not self.question.scenario.buy.affords(least):
            return Statement(code=Code.KIND_LIMITED, subjects=("buy.max_cost",))
        most = sum(program.count_max(offer) * offer.gpu_count for offer in program.offers)
        if self._most_tried_of(program) < most and program.lower_bound_usd_per_hour() is not None:
            return None
        return Statement(code=Code.KIND_LIMITED, subjects=("count" if most < program.max_gpus else "buy.max_gpus",))

    def _most_tried_of(self, program: FleetProgram) -> int:
        """GPUs of the largest fleet that was tried of just these kinds; 0 where none was."""
        kinds = {offer.gpu.name for offer in program.offers}
        tried = (
            gpu_count(*key)
            for key in {**self.search.tried, **self.search.glanced}
            if {o.gpu.name for o in key[0]} == kinds
        )
        return max(tried, default=0)

    def _must_cut(self, program: FleetProgram) -> bool:
        """Whether some model fits no kind of GPU of a program as a whole."""
        kinds = {Kind.of(offer) for offer in program.offers}
        return bool(too_large(self.question.needs, self.question.sized, kinds))

    def others(self, best: Trial, alone: Sequence[Trial], equals: Sequence[Trial] = ()) -> list[Trial]:
        """Other ways that meet every SLO: those that cost as much, one kind of GPU alone, as they are, and the fewest
        GPUs; best first."""
        objective = self.question.scenario.objective
        confirmed = (trial for trial in alone if trial.searched is not Searched.SCREENED)
        ways = [*confirmed, *self.spared(self.fewest(best)), *equals]
        others = {(trial.candidate, trial.fleet): trial for trial in ways if trial.candidate != best.candidate}
        best_first = sorted(others.values(), key=lambda t: (round(goal_of(objective, t), DIGITS), *_surest_first(t)))
        return best_first[:OTHERS_MAX]

    def fewest(self, best: Trial) -> list[Trial]:
        """The fleet of fewest GPUs, where that is another question; empty where none was found."""
        kinds = {offer.gpu.name for offer in self.question.offers}
        is_asked = len(kinds) == 1 or self.question.scenario.objective is Objective.GPUS
        if is_asked or len(best.devices) >= HUGE_GPUS:
            return []
        fewest = self.search.best(self.question.program(), Objective.GPUS, ALTERNATIVE)
        return [fewest] if fewest else []

    def spared(self, trials: Sequence[Trial]) -> list[Trial]:
        """Trials with their spares, the cheapest first, without those whose spares may not be bought."""
        if self.question.scenario.survive:
            trials = [self.search.spares.with_spares(trial, self._of_kinds_of(trial)) for trial in trials]
        for trial in trials:
            if trial.unready:
                self._pass_over_unready(trial)
        ready = (trial for trial in trials if not trial.unready)
        return sorted(ready, key=lambda trial: (trial.cost_usd_per_hour, candidate_name(trial.candidate)))

    def _of_kinds_of(self, trial: Trial) -> list[Offer]:
        """All that is on offer with GPUs of a fleet's kinds."""
        return [offer for offer in self.question.offers if offer.gpu in {one.gpu for one in trial.bought}]

    def _pass_over_unready(self, trial: Trial) -> None:
        """Note which limit on what may be bought keeps the spares of a kind of GPU alone out."""
        kinds = {offer.gpu.name for offer in trial.bought}
        if len(kinds) == 1:
            program = self.question.program([offer for offer in self.question.offers if offer.gpu.name in kinds])
            key, _ = next(self._limits_on_spares(trial))
            limited = Statement(code=Code.KIND_LIMITED, subjects=(key,))
            self._pass_over(program, limited, program.unlimited().lower_bound_usd_per_hour())

    def reject_spares(self, trial: Trial) -> None:
        """Say which limits on what may be bought keep the spares of a trial out; the fleet itself is named without."""
        usd_per_hour = cost_usd_per_hour(trial.offers, trial.fleet)
        self.search.rejections += [
            replace(no, subject=trial.candidate, cost_usd_per_hour=usd_per_hour)
            for _, no in self._limits_on_spares(trial)
        ]

    def _limits_on_spares(self, trial: Trial) -> Iterator[tuple[str, Rejection]]:
        program, scenario = self.question.program(trial.offers), self.question.scenario
        fleet = together(trial.fleet, of_each_type(trial.fleet, scenario.survive))
        return self.search.limits(program, fleet, scenario.buy.max_cost or inf)


def cheapest_first(programs: Sequence[FleetProgram]) -> list[tuple[float, FleetProgram]]:
    """Programs with what their fleets cost at least; none that cannot do it."""
    bounds = [(program.lower_bound_usd_per_hour(), program) for program in programs]
    return sorted(((b, program) for b, program in bounds if b is not None), key=lambda pair: pair[0])


def _costs_as(objective: Objective, trial: Trial, best: Trial) -> bool:
    """Whether one trial has as little of the objective as another, and costs as much."""
    costs = [(goal_of(objective, one), one.cost_usd_per_hour) for one in (trial, best)]
    return all(round(one, DIGITS) == round(other, DIGITS) for one, other in zip(*costs, strict=True))


def _gpus_alone(offered: Sequence[Offer], fleet: Fleet) -> frozenset[tuple[Kind, int]]:
    """The GPUs of a fleet, in whichever machines they are."""
    counts: Counter[Kind] = Counter()
    for offer, n in zip(offered, fleet, strict=True):
        counts[Kind.of(offer)] += n * offer.gpu_count
    return frozenset((kind, n) for kind, n in counts.items() if n)


def _apart(trials: Sequence[Trial]) -> list[Trial]:
    """Trials on GPUs that differ: of equal ones in other machines, the first."""
    first: dict[frozenset[tuple[Kind, int]], Trial] = {}
    for trial in trials:
        first.setdefault(_gpus_alone(trial.offers, trial.fleet), trial)
    return list(first.values())


def _surest_first(trial: Trial) -> tuple[float, float, str]:
    """Sorts trials that cost the same: by the share of draws that meet every SLO, then by p99 over its SLO."""
    kept = trial.replay.all_kept
    return -(kept.mean if kept else 1.0), p99_over_slo(trial), candidate_name(trial.candidate)


def _fleets_at(program: FleetProgram, excluded: list[Fleet], usd_per_hour: float) -> Iterator[Fleet]:
    """Fleets at a price, those first that carry most."""
    for design in ROOMIEST_FIRST:
        while (found := program.propose(Objective.COST, excluded, usd_per_hour, design)) and found.fleet:
            yield found.fleet
            excluded.append(found.fleet)


def _is_whole(number: float) -> bool:
    return abs(number - round(number)) < 10.0**-DIGITS


def _as_fleet_of(offered: Sequence[Offer], trial: Trial) -> Fleet | None:
    """A trial's machines by the place of their offers; None where one is not among them."""
    bought = {offer: n for offer, n in zip(trial.offers, trial.fleet, strict=True) if n}
    return tuple(bought.get(offer, 0) for offer in offered) if bought.keys() <= set(offered) else None
