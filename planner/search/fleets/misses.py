"""Fleets that miss: which came closest, and what would help."""

from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import partial
from math import ceil

from planner.catalog.offers import Offer
from planner.model.candidate import Candidate, Machines
from planner.model.plan import Bottleneck, PlanWarning, Rejection, less_sure
from planner.model.statement import Code, Statement
from planner.placing.fleets import Fleet, cost_usd_per_hour
from planner.placing.stations import held_on
from planner.replay.deploying import devices_of
from planner.replay.replay import Replay
from planner.replay.run import replay
from planner.replay.trial import ALIKE, Trial, as_near, nearest_of
from planner.replay.warnings import streams_of_assumed_size
from planner.search.budgets import with_budgets
from planner.search.even import force
from planner.search.fleets.tried import TriedFleets
from planner.search.placement import LARGE_GPUS, OnFleet, within_headroom
from planner.search.question import Question
from planner.search.rejections import fewer_streams, missed_slo, replayed

NEAREST_MAX = 4
"""Misses of which it is confirmed how near they came, where no fleet does."""
MORE_TRIES = 8
"""Numbers of GPUs that are looked at for one that holds all streams of video beside models."""


OF_LIMITS = (Code.TOO_MANY_GPUS, Code.TOO_DEAR, Code.TOO_FEW_MACHINES)
"""Reasons for which a fleet may not be bought."""


def _type(machines: Machines) -> tuple[str, ...]:
    """What is bought of them, whatever their number."""
    return machines.provider, machines.region, machines.instance, machines.gpu


@dataclass(frozen=True)
class Misses:
    """Fleets that miss: which came closest, and what would help."""

    fleets: TriedFleets

    @property
    def question(self) -> Question:
        """What is asked."""
        return self.fleets.question

    def closest(self) -> Trial | None:
        """The miss that came nearest, replayed as often as an answer would be; else the dearest fleet tried.

        Its rejection then quotes this confirmation, not the screening; it is taken back where every SLO is met.
        """
        if self.fleets.misses:
            return self._nearest_miss()
        dearest = max(self.fleets.tried, key=lambda key: cost_usd_per_hour(*key), default=None)
        trial = force(self.question, *dearest, self.fleets.progress) if dearest else None
        if not isinstance(trial, Trial):
            return None
        self.fleets.rejections = [
            replayed(no, trial) if no.subject == trial.candidate else no for no in self.fleets.rejections
        ]
        if packed := self.fleets.packed_without_idle(trial):
            on_used, packing = packed
            trial = replace(on_used, verdict_only=False).confirmed(on_used.screened(packing, trial.deployment.swap))
        limit = 1 - self.question.scenario.headroom
        if self.fleets.on_fleet(trial).short_of_stations():
            return replace(trial, overloaded=True, limit=limit)
        return within_headroom(trial, limit)

    def _nearest_miss(self) -> Trial:
        """The miss that came nearest, once it is confirmed. What was refused early came at best as near as it is said
        to: others may have come nearer."""
        confirmed = [self._confirmed_miss(*self._nearest())]
        while not confirmed[-1].met and self.fleets.misses and len(confirmed) < NEAREST_MAX:
            nearest, rejection = self._nearest()
            if not nearest.replay.at_best_only:
                break
            confirmed.append(self._confirmed_miss(nearest, rejection))
        return next((trial for trial in confirmed if trial.met), None) or nearest_of(confirmed)

    def _nearest(self) -> tuple[Trial, Rejection]:
        nearest = nearest_of([trial for trial, _ in self.fleets.misses])
        return next(miss for miss in self.fleets.misses if miss[0] is nearest)

    def _confirmed_miss(self, nearest: Trial, rejection: Rejection) -> Trial:
        """A miss, replayed as often as an answer would be; its rejection tells what that showed."""
        self.fleets.misses.remove((nearest, rejection))
        if packed := self.fleets.packed_without_idle(nearest):
            on_used, packing = packed
            nearest = on_used.screened(packing, nearest.deployment.swap)
        here = replace(self.fleets.on_fleet(nearest), verdict_only=False)
        confirmed = here.confirmed(nearest)
        if confirmed.overloaded:  # rejected for its load, before any replay but a screening
            confirmed = replace(confirmed, replay=self._replayed(nearest))
        place = self.fleets.rejections.index(rejection)
        del self.fleets.rejections[place]
        if not confirmed.met:
            rejection = missed_slo(confirmed)
            self.fleets.misses.append((confirmed, rejection))
            self.fleets.rejections.insert(place, rejection)
        return confirmed

    def see_less_sure(self, best: Trial) -> None:
        """Replay in full what is told to who would be content with less: the cheapest of what was refused early may
        keep fewer draws than it does at best."""
        usd_per_hour = cost_usd_per_hour(best.offers, best.fleet)
        while rejection := less_sure([no for _, no in self.fleets.misses], usd_per_hour):
            trial = next(trial for trial, no in self.fleets.misses if no is rejection)
            if not trial.replay.at_best_only:
                return
            self._confirmed_miss(trial, rejection)

    def _replayed(self, trial: Trial) -> Replay:
        """A deployment replayed as often as an answer would be."""
        q = self.question
        return replay(q.scenario, q.workload, q.needs, trial.deployment, screen=False)

    def settled(self) -> tuple[Rejection, ...]:
        """Each once. More GPUs are no remedy where a fleet with more of them, or fewer, missed by about as much, and no
        limit on them is then named. Where streams of video fill GPUs, so many streams or GPUs are as do by
        arithmetic."""
        settled = {why: missed_slo(trial, self._gpus_that_help(trial)) for trial, why in self.fleets.misses}
        settled |= {why: self._worked_out(why, *fleet) for why, fleet in self.fleets.full_of_streams.items()}
        each_once = dict.fromkeys(settled.get(no, no) for no in self.fleets.rejections if not self._is_in_vain(no))
        return tuple(map(self._with_takeover, each_once))

    def _is_in_vain(self, no: Rejection) -> bool:
        """Whether it is of a limit on machines of one type, of which the most that were tried came no nearer than
        fewer."""
        if no.why.code not in OF_LIMITS or not isinstance(no.subject, Candidate) or len(no.subject.machines) != 1:
            return False
        types = {_type(one) for one in no.subject.machines}
        tried = [t for t, _ in self.fleets.misses if {_type(one) for one in t.candidate.machines} == types]
        tried.sort(key=lambda trial: len(trial.devices))
        return len(tried) > 1 and any(len(t.devices) < len(tried[-1].devices) and as_near(t, tried[-1]) for t in tried)

    def _with_takeover(self, rejection: Rejection) -> Rejection:
        """The rejection of a fleet that is away too long, with what spares that are asked for would do."""
        if rejection.why.code is not Code.OFTEN_AWAY or not self.question.scenario.survive:
            return rejection
        takeover = Statement(code=Code.TAKEOVER_AS_RECOVERY)
        return replace(rejection, remedies=(takeover, *rejection.remedies))

    def _worked_out(self, no: Rejection, offered: tuple[Offer, ...], fleet: Fleet) -> Rejection:
        """A fleet that streams of video cannot come to with what would do by arithmetic: fewer of them where they fill
        a GPU, and more GPUs; with what is not known left out."""
        more = self._more_that_may_do(offered, fleet)
        more_gpus = [Statement(code=Code.MORE_GPUS, figures={"gpu_count": more})] if more else []
        others = [one for one in no.remedies if one.code is not Code.MORE_GPUS]
        if no.bottleneck is Bottleneck.MEMORY:
            fewer = self._fewer_that_may_do(offered, fleet)
            memory = [] if no.why.code is Code.TOO_MANY_STREAMS else others
            remedies = [*fewer, *memory, *more_gpus]
        elif len(offered) > 1:
            return no
        else:
            remedies = [*others[:1], *more_gpus, *others[1:]]
        return replace(no, remedies=tuple(remedies) or tuple(others))

    def _fewer_that_may_do(self, offered: tuple[Offer, ...], fleet: Fleet) -> list[Statement]:
        """As many of the streams on the fullest GPU as it holds beside models; none where that is not known."""
        devices = devices_of(offered, fleet)
        held_by_gpu = held_on(self.question.needs, devices)
        fullest = max((one for one in devices if one.id in held_by_gpu), key=lambda one: held_by_gpu[one.id].size_bytes)
        come = held_by_gpu[fullest.id].streams
        if len(devices) >= LARGE_GPUS or not come:
            return []

        def may_do(streams: int) -> bool | None:
            fewer = self.question.with_fewer_streams(streams / come)
            return None if fewer is None else self._may_do(fewer, offered, fleet)

        most = bisect_left(range(1, come), True, key=lambda streams: may_do(streams) is False)
        return fewer_streams(fullest.kind.gpu.name, come, most) if may_do(most) else []

    def _more_that_may_do(self, offered: tuple[Offer, ...], fleet: Fleet) -> int:
        """GPUs more of the same machines that do for all; 0 where these are of several types, or none are known."""
        if len(offered) > 1:
            return 0
        (offer,), (count,) = offered, fleet
        least = self.question.program([offer]).unlimited().least_gpus() or 0
        first = max(count + 1, ceil(least / offer.gpu_count))
        tried = (n for n in range(first, first + MORE_TRIES) if n * offer.gpu_count < LARGE_GPUS)
        enough = next((n for n in tried if self._may_do(self.question, offered, (n,))), count)
        return (enough - count) * offer.gpu_count

    def _may_do(self, question: Question, offered: tuple[Offer, ...], fleet: Fleet) -> bool:
        """Whether a fleet does by arithmetic, in some way to split the SLOs of pipelines."""
        tell = partial(self.fleets.tell, name=self.fleets.trying)
        return any(
            OnFleet(asked, offered, fleet, swap, tell).may_do
            for swap in question.policies
            for asked in with_budgets(question, devices_of(offered, fleet))
        )

    def missed_by(self, rejection: Rejection) -> Trial | None:
        """The trial of a rejection that was replayed; None of others."""
        return next((trial for trial, no in reversed(self.fleets.misses) if no.subject == rejection.subject), None)

    def _gpus_that_help(self, trial: Trial) -> int:
        """How many more of its GPUs met every SLO; 1 where that is open, 0 where they were seen not to help."""
        met = [t for t in self.fleets.tried.values() if t and not t.replay.hopeful and t.kinds == trial.kinds]
        more = [len(t.devices) - len(trial.devices) for t in met if len(t.devices) > len(trial.devices)]
        if more:
            return min(more)
        missed = trial.replay.missed
        if not missed:  # it is its load that is too high
            return 1
        return 0 if self._as_bad_with_other_counts(trial, missed[0]) else 1

    def _as_bad_with_other_counts(self, trial: Trial, model: str) -> bool:
        """Whether a fleet with more or fewer of its GPUs missed the model's SLO by about as much."""
        attainment = trial.replay.attainment[model].mean
        like_it = [t for t, _ in self.fleets.misses if t.kinds == trial.kinds]
        others = [t for t in like_it if len(t.devices) != len(trial.devices)]
        return any(abs(t.replay.attainment[model].mean - attainment) < ALIKE for t in others)

    @property
    def streams_refused(self) -> tuple[PlanWarning, ...]:
        """The memory that streams of video hold where nobody states it, if a fleet was rejected for it."""
        refused = any(no.why.code is Code.TOO_MANY_STREAMS for no in self.fleets.rejections)
        return tuple(streams_of_assumed_size(self.question.needs)) if refused else ()
