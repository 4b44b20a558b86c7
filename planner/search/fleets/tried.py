"""Fleets that were tried: each once, its models placed on it by `OnFleet` (`planner.search.placement`)."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import NamedTuple

from planner.catalog.offers import Offer
from planner.model.candidate import Candidate, Machines
from planner.model.plan import Rejection
from planner.model.progress import Progress, Tell, counting
from planner.model.scenario import Objective
from planner.model.statement import Code
from planner.placing.fleets import GPUS_MAX, Fleet, FleetProgram, cost_usd_per_hour, gpu_count, machines_of
from planner.placing.packing.packed import Packing
from planner.placing.sizing import Kind
from planner.placing.stations import pipelines_in
from planner.replay.deploying import devices_of
from planner.replay.replay import Replay
from planner.replay.spares import of_each_type, together
from planner.replay.trial import Trial, as_near
from planner.search.budgets import budgeted, whole, with_budgets
from planner.search.placement import GPUS_DRAWN_MAX, Miss, OnFleet, unreplayed_at_best
from planner.search.question import Question, weight_bytes
from planner.search.rejections import missed_slo, too_dear, too_few_machines, too_many
from planner.words.candidates import machines_name
from simulator.world.deployment import Deployment

OF_STREAMS = (Code.TOO_MANY_STREAMS, Code.TOO_MANY_ENCODED, Code.STATION_TOO_BUSY, Code.GPU_TOO_FULL)
"""Reasons for which streams of video cannot come to a fleet, or leave models no room there."""


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


def only_bought(offered: Sequence[Offer], fleet: Fleet) -> tuple[tuple[Offer, ...], Fleet]:
    """A fleet without the offers of which it has none."""
    bought = {offer: n for offer, n in zip(offered, fleet, strict=True) if n}
    return tuple(bought), tuple(bought.values())


def _is_of(rejection: Rejection, machines: Sequence[Machines]) -> bool:
    """Whether it is of a fleet of these machines."""
    return isinstance(rejection.subject, Candidate) and rejection.subject.machines == machines


class TriedFleets:
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
        self.trying = "the first fleet"
        """The last that was tried, by name."""
        self.cut_off = False
        """Whether the integer program was once cut off before it had proven its fleet a best one."""

    @property
    def level_gpus(self) -> int:
        """GPUs of the last fleet that missed, where half as many of its kinds came as near and queues drain; else 0."""
        last = self.misses[-1][0] if self.misses else None
        if last is None or last.overloaded:
            return 0
        gpus = len(last.devices)
        fewer = [t for t, _ in self.misses if 2 * len(t.devices) <= gpus and t.kinds == last.kinds]
        return gpus if any(as_near(trial, last) for trial in fewer) and last.load <= 1 else 0

    def try_fleet(self, offered: tuple[Offer, ...], fleet: Fleet, effort: Effort = PROOF) -> Trial | None:
        """The fleet with its models placed so that every SLO is met; None where there is none that it knows."""
        key = only_bought(offered, fleet)
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
        trial = self.tried.get(only_bought(offered, fleet))
        return trial is not None and trial.stands

    def anew(self, offered: tuple[Offer, ...], fleet: Fleet) -> Trial | None:
        """The models placed on machines that are left of a fleet, where replays confirm that every SLO is met; the rule
        by which a plan survives."""
        trial = self.try_fleet(offered, fleet, GLANCE)
        if trial and trial.replay.preliminary:
            confirmed = replace(self.on_fleet(trial), verdict_only=False).confirmed(trial)
            trial = self.glanced[only_bought(offered, fleet)] = confirmed if confirmed.stands else None
        return trial

    def confirmed(self, screened: Trial) -> Trial:
        """A trial that was only screened, confirmed; where it misses, it is not found again."""
        trial = self.on_fleet(screened).confirmed(screened)
        as_found = replace(trial, spares=(), unready=False)
        self.tried[only_bought(trial.offers, trial.fleet)] = as_found if trial.stands else None
        if not trial.stands:
            self.missed_gpus.add(gpus_of(self.question, trial.offers, trial.fleet))
            rejection = missed_slo(trial)
            self.rejections.append(rejection)
            self.misses.append((trial, rejection))
        return trial

    def without_idle(self, trial: Trial) -> Trial:
        """The same without machines on which no model runs, where replays confirm that what is left meets every SLO."""
        packed = self.packed_without_idle(trial)
        if packed is None:
            return trial
        here, packing = packed
        left = here.replayed(packing, trial.deployment.swap)
        if not left.stands:
            return trial
        offered, fleet, machines_left = left.offers, left.fleet, left.candidate.machines
        self.tried[only_bought(offered, fleet)] = left
        self.missed_gpus.discard(gpus_of(self.question, offered, fleet))
        self.misses = [miss for miss in self.misses if miss[0].candidate.machines != machines_left]
        self.rejections = [no for no in self.rejections if not _is_of(no, machines_left)]
        return left

    def packed_without_idle(self, trial: Trial) -> tuple[OnFleet, Packing] | None:
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
                self.full_of_streams[found.rejection] = only_bought(offered, fleet)
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
        tell = partial(self.tell, name=machines_name(machines_of(offered, fleet, self.question.offers)))
        return OnFleet(question, offered, fleet, swap, tell, being_confirmed=self.being_confirmed).find_at_random()

    def _on(
        self, offered: tuple[Offer, ...], fleet: Fleet, swap: bool, *, ranked: bool = False, hopeful: bool = False
    ) -> Iterator[OnFleet]:
        """The fleet with each way to split the SLOs of pipelines; once where there are none."""
        name = machines_name(machines_of(offered, fleet, self.question.offers))
        tell = partial(self.tell, name=name)
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

    def on_fleet(self, trial: Trial) -> OnFleet:
        return next(self._on(trial.offers, trial.fleet, swap=True))

    def tell(self, doing: str, name: str) -> Tell:
        return counting(self.progress, f"{doing} {name}")

    @property
    def _holds_streams(self) -> bool:
        """Whether engines for video work for what is asked, so that streams of it hold GPU memory."""
        return any(stage.coding for pipeline in pipelines_in(self.question.needs) for stage in pipeline.stages)

    def _has_missed(self, offered: tuple[Offer, ...], fleet: Fleet) -> bool:
        """Whether models missed on just these GPUs, of these machines or others."""
        return bool(self.missed_gpus) and gpus_of(self.question, offered, fleet) in self.missed_gpus

    def most_missed(self, offered: tuple[Offer, ...], fleet: Fleet, place: int) -> int | None:
        """The most instances of one offer, beside these others, that were tried and did not do; None: none were."""
        missed = [dict(zip(*key, strict=True)) for key, trial in self.tried.items() if trial is None]
        counts = (bought.pop(offered[place], 0) for bought in missed)
        others = {offer: n for offer, n in zip(offered, fleet, strict=True) if offer != offered[place]}
        beside = [n for n, bought in zip(counts, missed, strict=True) if bought == others and n < fleet[place]]
        return max(beside, default=None)

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
                for _, no in self.limits(program, paid, most_usd_per_hour)
            ]

    def limits(self, program: FleetProgram, fleet: Fleet, most_usd_per_hour: float) -> Iterator[tuple[str, Rejection]]:
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
