"""Search: fleets cheapest first, their models packed and replayed, until one meets every SLO.

From the outermost on, each asks the next: `FleetSearch.found` for the best fleet and those beside it; `best`, a
`Descent`, for fleets of the integer program, in order, in steps, and with fewer instances; `try_fleet` for one fleet,
each once; `OnFleet` (`planner.search.placement`) for a placement on it.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from itertools import islice
from math import ceil, inf
from typing import NamedTuple

from planner.catalog.offers import Offer
from planner.model.candidate import Candidate, Machines
from planner.model.plan import (
    Bottleneck,
    KindLeftOut,
    OfOneKind,
    PlanWarning,
    Rejection,
    Searched,
    less_sure,
)
from planner.model.progress import Progress, Tell, counting
from planner.model.scenario import Objective
from planner.model.statement import Code, Statement
from planner.placing.cutting import too_large
from planner.placing.fleets import GAP_MAX, GPUS_MAX, Fleet, FleetProgram, cost_usd_per_hour, gpu_count, machines_of
from planner.placing.packing.packed import Packing
from planner.placing.sizing import Kind
from planner.placing.stations import held_on, pipelines_in
from planner.replay.answer import p99_over_slo
from planner.replay.deploying import devices_of
from planner.replay.pipelines import each_once
from planner.replay.replay import Replay
from planner.replay.run import replay
from planner.replay.spares import SpareSearch, of_each_type, together
from planner.replay.trial import Trial
from planner.replay.warnings import streams_of_assumed_size, warnings_of
from planner.search.budgets import budgeted, whole, with_budgets
from planner.search.even import force
from planner.search.placement import GPUS_DRAWN_MAX, LARGE_GPUS, Miss, OnFleet, unreplayed_at_best, within_headroom
from planner.search.question import Question, weight_bytes
from planner.search.rejections import (
    HUGE_GPUS,
    KIND_TOO_DEAR,
    KIND_TOO_LARGE,
    NO_FLEET_OF_KIND,
    fewer_streams,
    kind_of,
    missed_slo,
    replayed,
    too_dear,
    too_few_machines,
    too_many,
)
from planner.words.candidates import candidate_name, machines_name
from simulator.world.deployment import Deployment

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

ROOM, WORTHWHILE = 0.1, 0.01
"""Shares of the cost: fleets without some kind of GPU are looked for where they might save so much, and must save so
much."""
DIGITS = 6
"""Digits to which two fleets cost the same."""
CENTS = 100
"""Rented at prices of whole cents, fleets may well cost the same; at others hardly. One's own machines always may."""
EQUALS_MAX = 3
"""Fleets at the price of the best that are tried besides those that the search has anyway."""
ROOMIEST_FIRST = (4.0, 2.0, 1.4, 1.0, 0.0)
"""Times the design work that such a fleet must carry, tried in turn."""

NEAREST_MAX = 4
"""Misses of which it is confirmed how near they came, where no fleet does."""
MORE_TRIES = 8
"""Numbers of GPUs that are looked at for one that holds all streams of video beside models."""
OF_STREAMS = (Code.TOO_MANY_STREAMS, Code.TOO_MANY_ENCODED, Code.STATION_TOO_BUSY, Code.GPU_TOO_FULL)
"""Reasons for which streams of video cannot come to a fleet, or leave models no room there."""
STEPS_DOWN = 16
"""Of a fleet that does, such a part is left out at a time: one instance where there are fewer than twice as many."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How far a search goes: seconds for each fleet, so a minute at worst."""

    first: int
    """Fleets tried strictly cheapest first, before the search takes larger steps; of large fleets one."""
    halvings: int
    """How often the last step is halved: after four, 1 % of work lies between fleets tried, less than most GPUs do; of
    the first step, which begins at nothing, 6 %."""
    thorough: bool = True
    """Whether a fleet that looks good is confirmed, and one that misses is packed again and again, and said to have
    missed."""
    ranked: bool = False
    """Whether fleets are only set beside others, by the first look at draws of speeds."""
    hopeful: bool = False
    """Whether that look is enough, where it leaves hope, to go on to smaller fleets: only the last is confirmed."""
    growth_max: float = inf
    """No fleet is tried that must carry more times the work."""


PROOF = Effort(first=12, halvings=4)
"""Where an answer among the first fleets is proven to be the cheapest."""
ESTIMATE = Effort(first=4, halvings=4, hopeful=True)
"""Where times are predicted, so that a proof would be one of the predictions."""
ALTERNATIVE = Effort(first=3, halvings=0, ranked=True, growth_max=3.0)
"""For the next best, of which nothing is proven."""
GLANCE = Effort(first=1, halvings=0, thorough=False, ranked=True, growth_max=1.5)
"""For kinds of GPU that are only set side by side."""
DEARER = Effort(first=1, halvings=0, thorough=False, ranked=True, growth_max=3.0)
"""For such kinds where all fleets were tried that cost little enough to be an alternative."""


class Machine(NamedTuple):
    """What of a machine matters to models."""

    kind: Kind
    gpu_count: int
    cores: int
    """Where pipelines work on them; else 0."""
    host_memory_bytes: int
    """As far as all models fill it."""


Gpus = frozenset[tuple[Machine, int]]
"""Machines, whatever they are called and cost, and how many there are of each."""


def gpus_of(question: Question, offered: Sequence[Offer], fleet: Fleet) -> Gpus:
    """The GPUs of a fleet, and what of their hosts matters to what is asked."""
    all_bytes = weight_bytes(question.sized)
    counts: Counter[Machine] = Counter()
    for offer, n in zip(offered, fleet, strict=True):
        cores = offer.cores if question.scenario.pipelines else 0
        host_bytes = all_bytes if offer.host_memory_bytes is None else min(all_bytes, offer.host_memory_bytes)
        counts[Machine(Kind.of(offer), offer.gpu_count, cores, host_bytes)] += n
    return frozenset(counts.items())


def _bought(offered: Sequence[Offer], fleet: Fleet) -> tuple[tuple[Offer, ...], Fleet]:
    """A fleet without the offers of which it has none."""
    bought = {offer: n for offer, n in zip(offered, fleet, strict=True) if n}
    return tuple(bought), tuple(bought.values())


def _is_of(rejection: Rejection, machines: Sequence[Machines]) -> bool:
    """Whether it is of a fleet of these machines."""
    return isinstance(rejection.subject, Candidate) and rejection.subject.machines == machines


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


class FleetSearch:
    """Tries fleets and remembers what came of them."""

    def __init__(self, question: Question, progress: Progress, rejections: Sequence[Rejection] = ()) -> None:
        self.question = question
        self.progress = progress
        self.rejections = list(rejections)
        self.tried: dict[tuple[tuple[Offer, ...], Fleet], Trial | None] = {}
        self.glanced: dict[tuple[tuple[Offer, ...], Fleet], Trial | None] = {}
        """The same, of those that were only glanced at."""
        self.full_of_streams: dict[Rejection, tuple[tuple[Offer, ...], Fleet]] = {}
        """Fleets that more streams of video come to than they code or hold, or than leave room for models."""
        self.missed_gpus: set[Gpus] = set()
        """GPUs on which models missed: other machines with just these would miss as well."""
        self.misses: list[tuple[Trial, Rejection]] = []
        self.begun: list[tuple[Deployment, Replay]] = []
        """First looks that leave hope."""
        self.looked_wide: list[Replay] = []
        """Replays that missed in many draws of speeds."""
        self.being_confirmed: list[Trial] = []
        """What a screening speaks for, while it is confirmed."""
        self.too_few = False
        """Whether a fleet failed only for want of requests, or machines fail too often, so that no other would do."""
        self.passed_over: dict[str, KindLeftOut] = {}
        """Kinds of GPU of which no fleet is set beside the others."""
        self.trying = "the first fleet"
        """The last that was tried, by name."""
        self.cut_off = False
        """Whether the integer program was once cut off before it had proven its fleet a best one."""

    def _confirmed(self, screened: Trial) -> Trial:
        """A trial that was only screened, confirmed; where it misses, it is not found again."""
        trial = self._on_fleet(screened).confirmed(screened)
        as_found = replace(trial, spares=(), unready=False)
        self.tried[_bought(trial.offers, trial.fleet)] = as_found if trial.stands else None
        if not trial.stands:
            self.missed_gpus.add(gpus_of(self.question, trial.offers, trial.fleet))
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

        What costs more than is wanted is not tried, and that is no limit on buying.
        """
        trial = self._best(program, objective, effort or self.usual_effort, wanted_usd_per_hour)
        return trial and self.without_idle(trial)

    @property
    def usual_effort(self) -> Effort:
        """For an answer."""
        return ESTIMATE if any(sized.profile.doubt for sized in self.question.sized.values()) else PROOF

    def with_fewer_kinds(self, best: Trial) -> Trial:
        """The cheapest without some kind of GPU of the best, again and again while that saves something: where the
        cheapest mixes of all kinds nearly do, those of fewer are behind them."""
        most_usd_per_hour = best.cost_usd_per_hour * (1 - WORTHWHILE)
        room_usd_per_hour = best.cost_usd_per_hour * (1 - ROOM)
        for name in dict.fromkeys(device.kind.gpu.name for device in best.devices):
            left = [offer for offer in self.question.offers if offer.gpu.name != name]
            program = self.question.program(left)
            bound = program.lower_bound_usd_per_hour() if left else None
            if bound is None or bound > room_usd_per_hour:
                continue
            if found := self.best(program, Objective.COST, wanted_usd_per_hour=most_usd_per_hour):
                return self.with_fewer_kinds(found)
        return best

    def _best(
        self, program: FleetProgram, objective: Objective, effort: Effort, wanted_usd_per_hour: float
    ) -> Trial | None:
        while True:
            trial = Descent(self, program, objective, effort, wanted_usd_per_hour).end()
            if trial is None or not (trial.replay.hopeful and effort.hopeful):
                return trial
            key = _bought(trial.offers, trial.fleet)
            self.tried[key] = self._try(*key, replace(effort, hopeful=False))
            if confirmed := self.tried[key]:
                return confirmed

    def without_idle(self, trial: Trial) -> Trial:
        """The same without machines on which no model runs, where replays confirm that what is left meets every SLO."""
        packed = self._packed_without_idle(trial)
        if packed is None:
            return trial
        here, packing = packed
        left = here.replayed(packing, trial.deployment.swap)
        if not left.stands:
            return trial
        offered, fleet, machines_left = left.offers, left.fleet, left.candidate.machines
        self.tried[_bought(offered, fleet)] = left
        self.missed_gpus.discard(gpus_of(self.question, offered, fleet))
        self.misses = [miss for miss in self.misses if miss[0].candidate.machines != machines_left]
        self.rejections = [no for no in self.rejections if not _is_of(no, machines_left)]
        return left

    def _packed_without_idle(self, trial: Trial) -> tuple[OnFleet, Packing] | None:
        """The machines of a fleet on which models run, with what runs there; None where that is all of them. Engines of
        idle machines may work for pipelines."""
        used = {device.host for placed in trial.packing.placed for device in placed.devices}
        kept = [device for device in trial.devices if device.host in used]
        if self.question.scenario.pipelines or len(kept) == len(trial.devices):
            return None
        machines = {device.host: trial.bought[device.machines] for device in kept}
        offered, fleet = zip(*Counter(machines.values()).items(), strict=True)
        now = dict(zip(kept, devices_of(offered, fleet), strict=True))
        placed = tuple(replace(p, devices=tuple(now[device] for device in p.devices)) for p in trial.packing.placed)
        here = next(self._on(offered, fleet, any(p.swapped for p in placed)))
        return here, replace(trial.packing, placed=placed)

    def _of_each_kind(self, offered: Sequence[Offer]) -> list[FleetProgram]:
        """A program over the offers of each kind of GPU."""
        by_gpu: dict[str, list[Offer]] = {}
        for offer in offered:
            by_gpu.setdefault(offer.gpu.name, []).append(offer)
        return [self.question.program(of_kind) for of_kind in by_gpu.values()]

    def propose(
        self,
        program: FleetProgram,
        objective: Objective,
        excluded: Sequence[Fleet],
        most_usd_per_hour: float = inf,
        design: float = 0.0,
    ) -> Fleet | None:
        """The fleet with least of the objective that may do; see `FleetProgram.propose`."""
        solution = program.propose(objective, excluded, most_usd_per_hour, design)
        self.cut_off |= solution is not None and not solution.proven
        return solution and solution.fleet

    def with_fewest(self, trial: Trial, offer: Offer, effort: Effort) -> Trial:
        """As few instances of an offer as will do beside the others; of alternatives in large fleets to 1.6 %.

        A few less at a time until that misses; then half-way to what missed, again and again.
        """
        offered, fleet = trial.offers, trial.fleet
        place = offered.index(offer)
        count, least = fleet[place], int(len(offered) == 1)
        missed = self._most_missed(offered, fleet, place)
        step = max(1, count // STEPS_DOWN)
        exact = 1 if effort.halvings else max(1, count // LARGE_GPUS)
        while count > least and (missed is None or count - missed > exact):
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
            self.trying = machines_name(machines_of(*key, self.question.offers))
            self.progress(f"trying {self.trying}", 0.0)
            known[key] = self._try(*key, effort) if effort.thorough else self._glance(*key)
        trial = known[key]
        if trial is None or (trial.replay.preliminary and self._has_missed(*key)):
            return None
        return trial.as_ranked if effort.ranked and effort.thorough else trial

    def has_met(self, offered: tuple[Offer, ...], fleet: Fleet) -> bool:
        """Whether the fleet was confirmed to meet every SLO."""
        trial = self.tried.get(_bought(offered, fleet))
        return trial is not None and trial.stands

    @property
    def _holds_streams(self) -> bool:
        """Whether engines for video work for what is asked, so that streams of it hold GPU memory."""
        return any(stage.coding for pipeline in pipelines_in(self.question.needs) for stage in pipeline.stages)

    def _has_missed(self, offered: tuple[Offer, ...], fleet: Fleet) -> bool:
        """Whether models missed on just these GPUs, of these machines or others."""
        return bool(self.missed_gpus) and gpus_of(self.question, offered, fleet) in self.missed_gpus

    def _glance(self, offered: tuple[Offer, ...], fleet: Fleet) -> Trial | None:
        if self._has_missed(offered, fleet):
            return None
        for swap in self.question.policies:
            ways = list(self._on(offered, fleet, swap, ranked=True))
            if trial := next(filter(None, (one.glance() for one in ways)), None):
                return trial
            if not any(one.short_of_memory for one in ways):
                break
        return None

    def _try(self, offered: tuple[Offer, ...], fleet: Fleet, effort: Effort) -> Trial | None:
        if self._has_missed(offered, fleet):
            return None
        for swap in self.question.policies:
            found = self._find(offered, fleet, swap, effort)
            if isinstance(found, Trial):
                return found
            self.rejections.append(found.rejection)
            if found.rejection.why.code in OF_STREAMS and self._holds_streams:
                self.full_of_streams[found.rejection] = _bought(offered, fleet)
            self.too_few = found.too_few
            if found.nearest:
                self.misses.append((found.nearest, found.rejection))
            if not found.short_of_memory:
                break
        self.missed_gpus.add(gpus_of(self.question, offered, fleet))
        return None

    def _find(self, offered: tuple[Offer, ...], fleet: Fleet, swap: bool, effort: Effort) -> Trial | Miss:
        """The first way to split the SLOs of pipelines under which all are met; else the nearest miss."""
        misses: list[Miss] = []
        for one in self._on(offered, fleet, swap, ranked=effort.ranked, hopeful=effort.hopeful):
            match one.find():
                case Trial() as trial:
                    return trial
                case Miss() as miss:
                    misses.append(miss)
            if trial_with_more := one.find_with_more_headroom():
                return trial_with_more
        near = [(miss.nearest.nearest_by_margin, miss) for miss in misses if miss.nearest]
        if near and (found := self._find_at_random(offered, fleet, swap)):
            return found
        return max(near, key=lambda one: one[0])[1] if near else unreplayed_at_best(misses)

    def _find_at_random(self, offered: tuple[Offer, ...], fleet: Fleet, swap: bool) -> Trial | None:
        """A placement of pipelines on a few GPUs, of known speeds, that no way to split their SLOs has led to."""
        devices = devices_of(offered, fleet)
        doubted = any(sized.profile.doubt for sized in self.question.sized.values())
        if not self.question.scenario.pipelines or len(devices) > GPUS_DRAWN_MAX or doubted:
            return None
        question = budgeted(self.question, devices, whole(self.question))
        tell = partial(self._tell, name=machines_name(machines_of(offered, fleet, self.question.offers)))
        return OnFleet(question, offered, fleet, swap, tell, being_confirmed=self.being_confirmed).find_at_random()

    def _on(
        self, offered: tuple[Offer, ...], fleet: Fleet, swap: bool, *, ranked: bool = False, hopeful: bool = False
    ) -> Iterator[OnFleet]:
        """The fleet with each way to split the SLOs of pipelines; once where there are none."""
        name = machines_name(machines_of(offered, fleet, self.question.offers))
        tell = partial(self._tell, name=name)
        replays: list[tuple[Deployment, Replay]] = []
        for question in with_budgets(self.question, devices_of(offered, fleet)):
            yield OnFleet(
                question,
                offered,
                fleet,
                swap,
                tell,
                ranked=ranked,
                hopeful=hopeful,
                replays=replays,
                begun=self.begun,
                looked_wide=self.looked_wide,
                being_confirmed=self.being_confirmed,
            )

    def _on_fleet(self, trial: Trial) -> OnFleet:
        return next(self._on(trial.offers, trial.fleet, swap=True))

    def _tell(self, doing: str, name: str) -> Tell:
        return counting(self.progress, f"{doing} {name}")

    def out_of_fleets(
        self, program: FleetProgram, excluded: Sequence[Fleet], most_usd_per_hour: float, design: float
    ) -> None:
        """Say which limit on what may be bought keeps the next fleet out that carries so much; try what the limits
        leave of it."""
        any_count = replace(program, max_gpus=GPUS_MAX)
        more_gpus = self.propose(any_count, Objective.GPUS, excluded, most_usd_per_hour, design)
        more_money = self.propose(program, Objective.COST, excluded, design=design)
        more_machines = replace(program.unlimited(), max_gpus=program.max_gpus)
        of_a_kind = self.propose(more_machines, Objective.COST, excluded, most_usd_per_hour, design)
        for fleet in (more_gpus, more_money, of_a_kind):
            self._name_limits(program, fleet, most_usd_per_hour)
        next_one = self.propose(program.unlimited(), Objective.COST, excluded, design=design)
        if not any((more_gpus, more_money, of_a_kind)):
            self._name_limits(program, next_one, most_usd_per_hour)
        left = program.within_limits(next_one) if next_one and not excluded else ()
        if any(left) and cost_usd_per_hour(program.offers, left) <= most_usd_per_hour:
            self.try_fleet(program.offers, left)

    def _name_limits(self, program: FleetProgram, fleet: Fleet | None, most_usd_per_hour: float) -> None:
        """One rejection for each limit that the fleet breaks with the spares that are asked for."""
        if fleet is not None:
            named = Candidate(machines=machines_of(program.offers, fleet, self.question.offers))
            usd_per_hour = cost_usd_per_hour(program.offers, fleet)
            paid = together(fleet, of_each_type(fleet, self.question.scenario.survive))
            self.rejections += [
                replace(no, subject=named, cost_usd_per_hour=usd_per_hour)
                for _, no in self._limits(program, paid, most_usd_per_hour)
            ]

    def _limits(self, program: FleetProgram, fleet: Fleet, most_usd_per_hour: float) -> Iterator[tuple[str, Rejection]]:
        """The keys of limits on buying that a fleet breaks, each with its rejection."""
        cost, gpus = cost_usd_per_hour(program.offers, fleet), gpu_count(program.offers, fleet)
        candidate = Candidate(machines=machines_of(program.offers, fleet, self.question.offers))
        if gpus > program.max_gpus:
            yield "buy.max_gpus", too_many(candidate, program.max_gpus, cost)
        if cost > most_usd_per_hour:
            yield "buy.max_cost", too_dear(candidate, cost, most_usd_per_hour)
        for offer, n in zip(program.offers, fleet, strict=True):
            if offer.count_max is not None and n > offer.count_max:
                yield "count", too_few_machines(candidate, offer, n, cost)

    def found(self, best: Trial | None) -> BestFound:
        """The best of all fleets with the others beside it, each with its spares; else the closest."""
        shown = best or self.closest()
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
            self.see_less_sure(best)
        return BestFound(best, shown, alone, others)

    def _with_spares(self, best: Trial) -> tuple[list[Trial], list[Trial]]:
        """The best with its spares, or another with its own that is better then, and all that cost as much, which stand
        when confirmed: the surest first, of equally sure ones the fastest; and the cheapest of each kind of GPU alone,
        without what missed there."""
        objective = self.question.scenario.objective
        while True:
            alone = self.alone(best)
            ready = self.spares.ready([best, *alone, *self.fewest(best), *self._with_few_types(best)])
            least = min(ready, key=lambda one: goal_of(objective, one))
            equals = _apart([one for one in ready if _costs_as(objective, one, least)])
            confirmed = [self._confirmed(one) if one.replay.preliminary else one for one in equals]
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
        found = self.best(program, Objective.COST, ALTERNATIVE, most_usd_per_hour)
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
            if gpus not in seen and (trial := self.anew(program.offers, fleet)):
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
            trial = self.best(program, Objective.COST, GLANCE)
        else:
            trial = self.best(program, Objective.COST, ALTERNATIVE, most_usd_per_hour)
            trial = trial or self.best(program, Objective.COST, DEARER)
        if trial and goal_of(objective, trial) < goal_of(objective, best):
            return self.best(program, Objective.COST, ALTERNATIVE)
        return trial

    def _pass_over(self, program: FleetProgram, why: Statement, bound_usd_per_hour: float | None) -> None:
        self.passed_over[program.offers[0].gpu.name] = self._left_out(program, why, bound_usd_per_hour)

    def _left_out(self, program: FleetProgram, why: Statement, bound_usd_per_hour: float | None) -> KindLeftOut:
        """A kind of GPU without a fleet, what any would take, and the sizes of its fleets that missed."""
        gpu = program.offers[0].gpu.name
        of_kind = [
            (key, trial)
            for key, trial in {**self.tried, **self.glanced}.items()
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
        whys = {kind_of(no): no.why for no in reversed(self.rejections)}
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
        if least > (self.question.scenario.buy.max_cost or inf):
            return Statement(code=Code.KIND_LIMITED, subjects=("buy.max_cost",))
        most = sum(program.count_max(offer) * offer.gpu_count for offer in program.offers)
        if self._most_tried_of(program) < most and program.lower_bound_usd_per_hour() is not None:
            return None
        return Statement(code=Code.KIND_LIMITED, subjects=("count" if most < program.max_gpus else "buy.max_gpus",))

    def _most_tried_of(self, program: FleetProgram) -> int:
        """GPUs of the largest fleet that was tried of just these kinds; 0 where none was."""
        kinds = {offer.gpu.name for offer in program.offers}
        tried = (gpu_count(*key) for key in {**self.tried, **self.glanced} if {o.gpu.name for o in key[0]} == kinds)
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
        fewest = self.best(self.question.program(), Objective.GPUS, ALTERNATIVE)
        return [fewest] if fewest else []

    @property
    def spares(self) -> SpareSearch:
        """A search for machines that stand ready."""
        question = self.question

        def of_type(offer: Offer) -> Trial | None:
            return self.best(question.program([offer]), Objective.COST, ALTERNATIVE)

        def carries(offered: tuple[Offer, ...], fleet: Fleet) -> bool:
            counted = tuple(replace(offer, count_max=n) for offer, n in zip(offered, fleet, strict=True))
            return replace(question.program(offered), offers=counted).lower_bound_usd_per_hour() is not None

        least_usd_per_hour = question.lower_bound_usd_per_hour()
        return SpareSearch(question.scenario, question.offers, self.anew, of_type, carries, least_usd_per_hour)

    def anew(self, offered: tuple[Offer, ...], fleet: Fleet) -> Trial | None:
        """The models placed on machines that are left of a fleet, where replays confirm that every SLO is met; the rule
        by which a plan survives."""
        trial = self.try_fleet(offered, fleet, GLANCE)
        if trial and trial.replay.preliminary:
            confirmed = replace(self._on_fleet(trial), verdict_only=False).confirmed(trial)
            trial = self.glanced[_bought(offered, fleet)] = confirmed if confirmed.stands else None
        return trial

    def spared(self, trials: Sequence[Trial]) -> list[Trial]:
        """Trials with their spares, the cheapest first, without those whose spares may not be bought."""
        if self.question.scenario.survive:
            trials = [self.spares.with_spares(trial, self._of_kinds_of(trial)) for trial in trials]
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
        self.rejections += [
            replace(no, subject=trial.candidate, cost_usd_per_hour=usd_per_hour)
            for _, no in self._limits_on_spares(trial)
        ]

    def _limits_on_spares(self, trial: Trial) -> Iterator[tuple[str, Rejection]]:
        program, scenario = self.question.program(trial.offers), self.question.scenario
        fleet = together(trial.fleet, of_each_type(trial.fleet, scenario.survive))
        return self._limits(program, fleet, scenario.buy.max_cost or inf)

    def closest(self) -> Trial | None:
        """The miss that came nearest, replayed as often as an answer would be; else the dearest fleet tried.

        Its rejection then quotes this confirmation, not the screening; it is taken back where every SLO is met.
        """
        if self.misses:
            return self._nearest_miss()
        dearest = max(self.tried, key=lambda key: cost_usd_per_hour(*key), default=None)
        trial = force(self.question, *dearest, self.progress) if dearest else None
        if not isinstance(trial, Trial):
            return None
        self.rejections = [replayed(no, trial) if no.subject == trial.candidate else no for no in self.rejections]
        if packed := self._packed_without_idle(trial):
            on_used, packing = packed
            trial = replace(on_used, verdict_only=False).confirmed(on_used.screened(packing, trial.deployment.swap))
        limit = 1 - self.question.scenario.headroom
        if self._on_fleet(trial).short_of_stations():
            return replace(trial, overloaded=True, limit=limit)
        return within_headroom(trial, limit)

    def _nearest_miss(self) -> Trial:
        """The miss that came nearest, once it is confirmed. What was refused early came at best as near as it is said
        to: others may have come nearer."""
        confirmed = [self._confirmed_miss(*self._nearest())]
        while not confirmed[-1].met and self.misses and len(confirmed) < NEAREST_MAX:
            nearest, rejection = self._nearest()
            if not nearest.replay.at_best_only:
                break
            confirmed.append(self._confirmed_miss(nearest, rejection))
        return max(confirmed, key=lambda trial: (trial.met, trial.nearest_by_shares))

    def _nearest(self) -> tuple[Trial, Rejection]:
        return max(self.misses, key=lambda miss: miss[0].nearest_by_shares)

    def _confirmed_miss(self, nearest: Trial, rejection: Rejection) -> Trial:
        """A miss, replayed as often as an answer would be; its rejection tells what that showed."""
        self.misses.remove((nearest, rejection))
        if packed := self._packed_without_idle(nearest):
            on_used, packing = packed
            nearest = on_used.screened(packing, nearest.deployment.swap)
        here = replace(self._on_fleet(nearest), verdict_only=False)
        confirmed = here.confirmed(nearest)
        if confirmed.overloaded:  # rejected for its load, before any replay but a screening
            confirmed = replace(confirmed, replay=self._replayed(nearest))
        place = self.rejections.index(rejection)
        del self.rejections[place]
        if not confirmed.met:
            rejection = missed_slo(confirmed)
            self.misses.append((confirmed, rejection))
            self.rejections.insert(place, rejection)
        return confirmed

    def see_less_sure(self, best: Trial) -> None:
        """Replay in full what is told to who would be content with less: the cheapest of what was refused early may
        keep fewer draws than it does at best."""
        usd_per_hour = cost_usd_per_hour(best.offers, best.fleet)
        while rejection := less_sure([no for _, no in self.misses], usd_per_hour):
            trial = next(trial for trial, no in self.misses if no is rejection)
            if not trial.replay.at_best_only:
                return
            self._confirmed_miss(trial, rejection)

    def _replayed(self, trial: Trial) -> Replay:
        """A deployment replayed as often as an answer would be."""
        q = self.question
        return replay(q.scenario, q.workload, q.needs, trial.deployment, screen=False)

    def settled(self) -> tuple[Rejection, ...]:
        """Each once. More GPUs are no remedy where a fleet with more of them, or fewer, missed by about as much. Where
        streams of video fill GPUs, so many streams or GPUs are as do by arithmetic."""
        settled = {why: missed_slo(trial, self._gpus_that_help(trial)) for trial, why in self.misses}
        settled |= {why: self._worked_out(why, *fleet) for why, fleet in self.full_of_streams.items()}
        each_once = dict.fromkeys(settled.get(no, no) for no in self.rejections)
        return tuple(map(self._with_takeover, each_once))

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
        tell = partial(self._tell, name=self.trying)
        return any(
            OnFleet(asked, offered, fleet, swap, tell).may_do
            for swap in question.policies
            for asked in with_budgets(question, devices_of(offered, fleet))
        )

    def missed_by(self, rejection: Rejection) -> Trial | None:
        """The trial of a rejection that was replayed; None of others."""
        return next((trial for trial, no in reversed(self.misses) if no.subject == rejection.subject), None)

    def _gpus_that_help(self, trial: Trial) -> int:
        """How many more of its GPUs met every SLO; 1 where that is open, 0 where they were seen not to help."""
        met = [t for t in self.tried.values() if t and not t.replay.hopeful and t.kinds == trial.kinds]
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
        like_it = [t for t, _ in self.misses if t.kinds == trial.kinds]
        others = [t for t in like_it if len(t.devices) != len(trial.devices)]
        return any(abs(t.replay.attainment[model].mean - attainment) < ALIKE for t in others)

    def warnings_of(self, shown: Trial, today: date) -> tuple[PlanWarning, ...]:
        """What weakens the answer, the search for it included."""
        cut_off = PlanWarning(what=Statement(code=Code.CUT_OFF))
        already_warned = self.streams_refused
        warnings = warnings_of(self.question.scenario, self.question.workload, shown, today)
        return (*(one for one in warnings if one not in already_warned), *([cut_off] if self.cut_off else []))

    @property
    def streams_refused(self) -> tuple[PlanWarning, ...]:
        """The memory that streams of video hold where nobody states it, if a fleet was rejected for it."""
        refused = any(no.why.code is Code.TOO_MANY_STREAMS for no in self.rejections)
        return tuple(streams_of_assumed_size(self.question.needs)) if refused else ()


class Descent:
    """The way down to the best fleet of one program: in order, then in steps, then instance by instance.

    First strictly in order, so that an answer among these is the least there is; of large fleets only the first. Then
    in growing steps of the work to be carried, and back in halves: fleets between two steps may be left out. Last,
    instances are left out of the fleet that was found, but where it is huge: there the last step is 1 % of work.
    """

    def __init__(
        self,
        search: FleetSearch,
        program: FleetProgram,
        objective: Objective,
        effort: Effort,
        wanted_usd_per_hour: float,
    ) -> None:
        self.search, self.program, self.objective, self.effort = search, program, objective, effort
        allowed_usd_per_hour = search.question.scenario.buy.max_cost or inf
        self.most_usd_per_hour = min(allowed_usd_per_hour, wanted_usd_per_hour)
        self.says_limits = effort.thorough and self.most_usd_per_hour == allowed_usd_per_hour
        self.excluded: list[Fleet] = []
        self.over = False
        """Whether no other fleet is worth a try."""

    def end(self) -> Trial | None:
        """The last fleet that meets every SLO."""
        large = (self.program.least_gpus() or 0) >= LARGE_GPUS
        for _ in range(1 if large else self.effort.first):
            trial = self._next()
            if trial or self.over:
                return trial
        return self._by_steps()

    def _propose(self, design: float) -> Fleet | None:
        return self.search.propose(self.program, self.objective, self.excluded, self.most_usd_per_hour, design)

    def _next(self, design: float = 0.0) -> Trial | None:
        """The best fleet that was not tried yet and carries so much work; None where it misses, or there is none."""
        fleet = self._propose(design)
        if fleet is None:
            self.over = True
            if self.says_limits:
                self.search.out_of_fleets(self.program, self.excluded, self.most_usd_per_hour, design)
            return None
        trial = self.search.try_fleet(self.program.offers, fleet, self.effort)
        if trial is None:
            self.over = self.search.too_few
            self.excluded.append(fleet)
        return trial

    def _by_steps(self) -> Trial | None:
        """The same in steps; back to fleets that carry less than the first step too, for only a few of them were tried.
        Where no fleet that may be bought carries as much as the last step, some between it and the one before may."""
        low, high = 0.0, 1.0
        while (best := self._next(high)) is None and not self.over:
            low, high = high, high * STEP
            if high > self.effort.growth_max:
                return None
        for _ in range(0 if self.search.too_few else self.effort.halvings):
            middle = (low + high) / 2
            fleet = self._propose(middle)
            if fleet and (trial := self.search.try_fleet(self.program.offers, fleet, self.effort)):
                best, high = trial, middle
            elif best or fleet:
                low = middle
                if fleet and self.effort.thorough:
                    self.excluded.append(fleet)
            else:
                high = middle
        if best is None:
            return None
        if len(best.devices) >= HUGE_GPUS:
            return best
        for offer in sorted(best.offers, key=lambda o: -o.usd_per_hour):
            best = self.search.with_fewest(best, offer, self.effort)
        return best


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
            return trial.power_w


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
