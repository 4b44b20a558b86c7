"""Remedies of what misses, and growth of what does, as replays bear them out."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import accumulate, pairwise
from math import ceil, floor, isfinite, log

from planner.model.plan import Bottleneck, ModelAnswer, Plan, Rejection, nearest
from planner.model.progress import silent
from planner.model.statement import Code, Statement
from planner.placing.sizing import needs
from planner.replay.replay import Replay
from planner.replay.run import replay
from planner.replay.trial import Trial
from planner.search.fleets.misses import Misses
from planner.search.fleets.search import FleetSearch
from planner.search.fleets.tried import GLANCE, PROOF, Effort
from planner.search.question import Question
from simulator.clock.metrics import Verdict
from simulator.world.deployment import Deployment
from simulator.world.doubt import slow_end
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
        factor = max(queues, estimate)  # the first of them where the other is NaN
        most = int(log(factor) / log(GROWTH)) if isfinite(factor) and factor > GROWTH else 0
        if not most:
            return model
        if not misses(model.name, most):
            is_busy = not estimate >= GROWTH**most and model.bottleneck is Bottleneck.LATENCY
            bottleneck = Bottleneck.COMPUTE if is_busy else model.bottleneck
            return replace(model, demand_factor_max=max(GROWTH**most, estimate), bottleneck=bottleneck)
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
        if trial := Misses(search).missed_by(no):
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


def _takes_long(question: Question, trial: Trial) -> bool:
    """Whether replays at other loads do: of very many requests, or pipelines."""
    scenario = question.scenario
    requests = trial.replay.stretch.horizon_s * sum(question.workload.rates_rps().values())
    return bool(scenario.pipelines) or requests > GROWN_REQUESTS_MAX
