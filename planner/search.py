"""Search: fleets cheapest first, their models packed and replayed, until one keeps every promise."""

import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from importlib.metadata import version
from itertools import chain
from math import inf

from planner.answer import (
    PLANNING,
    Replay,
    Trial,
    assumptions,
    cards_of,
    cautions,
    deploy,
    label,
    policies,
    recommend,
    replay,
)
from planner.catalog import Catalog, Offer
from planner.cost import GPUS_MAX, Fleet, FleetProgram, cost_usd_per_hour, fleet_label, gpu_count
from planner.cutting import Card
from planner.even import is_plain, spread
from planner.load import Loaded, workload
from planner.names import with_known_names
from planner.packing import Misfit, Packer, Packing
from planner.placement import OnFleet, within_headroom
from planner.plans import NOTHING_TRIED, Caution, Plan, Recommendation, Rejection
from planner.prediction.ahead import look_ahead, other_precisions, predictions
from planner.prediction.question import Question, ask, predictor_of
from planner.refusals import (
    misfit,
    missed_promise,
    replayed,
    too_dear,
    too_few_machines,
    too_many,
)
from planner.scenario import Merging, Objective
from planner.sizing import Kind, Profiles
from planner.timeline import histograms
from simulator.deployment import Deployment
from simulator.errors import InputError
from simulator.sharing import NOTHING_SHARED, Merged

Progress = Callable[[str, float], None]
"""Hears what is going on, and how much of it is done, from 0 to 1."""

STEP = 1.15
"""Growth of the work that a fleet must carry from one step to the next: five steps double it."""
ALIKE = 0.01
"""Attainments that differ by less are about the same: a screening's interval is about as wide."""
OTHERS_MAX = 4
"""Alternatives looked for besides the best: what a person compares at a glance."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How far a search goes: seconds for each fleet, so a minute at worst."""

    first: int
    """Fleets tried strictly cheapest first, before the search takes larger steps."""
    halvings: int
    """How often the last step is halved: after four, 1 % of work lies between fleets tried, less than most GPUs do."""


PROOF = Effort(first=12, halvings=4)
"""Where an answer among the first fleets is proven to be the cheapest."""
ESTIMATE = Effort(first=4, halvings=4)
"""Where times are predicted, so that a proof would be one of the predictions."""
ALTERNATIVE = Effort(first=3, halvings=0)
"""For the next best, of which nothing is proven."""


def silent(_text: str, _done: float) -> None:
    """Progress that nobody hears."""


class NothingToPlanError(InputError):
    """A deployment that cannot be; the text says what is wrong and what to do."""


def plan(
    loaded: Loaded,
    catalog: Catalog,
    library: Profiles,
    *,
    created_at: str,
    progress: Progress | None = None,
    shared: Merged | None = None,
) -> Plan:
    """The answer to a scenario. The same inputs give the same plan but for `created_at`, an ISO time stamp.

    `shared`: which layers are stored once; where not given, what the scenario says of merging is weighed.
    """
    loaded = with_known_names(loaded, catalog, library)
    if shared is None and loaded.scenario.merging is not Merging.NONE:
        from planner.merging.weigh import weigh  # which asks back for a plan of each way of serving

        return weigh(loaded, catalog, library, created_at=created_at, progress=progress or silent)
    scenario, demand, shared = loaded.scenario, workload(loaded), shared or NOTHING_SHARED
    question, refused = ask(scenario, demand, catalog, library, shared)
    predictor = predictor_of(scenario, catalog, library)
    search = Search(question, progress or silent, refused)
    bound = question.lower_bound_usd_per_hour()
    best = search.best(question.program(), scenario.objective) if question.served else None
    shown = best or search.closest()
    if shown and shown.met:
        best = shown
    others = search.others(best) if best else []
    answers = [recommend(trial, bound) for trial in ([shown] if shown else []) + others]
    if shown:
        full = replace(question, scenario=replace(scenario, headroom=0.0)).lower_bound_usd_per_hour()
        bears = shown.demand_factor_max
        answers[0] = replace(answers[0], demand_factor_max=bears, lower_bound_full_usd_per_hour=full)
    promised_s = {model: need.slo.latency_s for model, need in question.needs.items()}
    ahead = look_ahead(question, catalog, predictor, best, shown, shared)
    return Plan(
        scenario=scenario.name or loaded.path.stem,
        scenario_sha256=loaded.sha256,
        seed=scenario.seed,
        versions=versions(),
        created_at=created_at,
        policies=policies(scenario, question.workload, shown),
        recommendation=answers[0] if answers else NOTHING_TRIED,
        alternatives=tuple(answers[1:]),
        pareto=pareto(answers) if best else (),
        rejections=search.refusals(),
        predictions=predictions(shown, predictor) if shown and predictor else (),
        outlooks=ahead.outlooks,
        precisions=tuple(other_precisions(question, catalog, predictor, shown, shared)),
        measure_next=ahead.measure_next,
        prices_as_of=min((i.price_as_of for a in answers[:1] for i in a.instances if i.price_as_of), default=""),
        assumptions=assumptions(scenario, shown, catalog.assumptions) if shown else (),
        warnings=search.cautions(shown, date.fromisoformat(created_at[:10])) if shown else (),
        scenario_text=loaded.text,
        scenario_overrides=loaded.overrides,
        latency=histograms(promised_s, shown.replay.latencies) if shown else (),
        timeline=shown.replay.timeline if shown else None,
    )


def versions() -> dict[str, str]:
    """Of the program and of what its figures depend on."""
    packages = {"planner": "gpu-capacity-planner", "numpy": "numpy", "scipy": "scipy", "simpy": "simpy"}
    return {"python": platform.python_version()} | {name: version(package) for name, package in packages.items()}


class Search:
    """Tries fleets and remembers what came of them."""

    def __init__(self, question: Question, progress: Progress, refused: Sequence[Rejection] = ()) -> None:
        self.question = question
        self.progress = progress
        self.rejections = list(refused)
        self.tried: dict[tuple[tuple[Offer, ...], Fleet], Trial | None] = {}
        self.misses: list[tuple[Trial, Rejection]] = []
        self.too_few = False
        """Whether a fleet failed only for want of requests, so that no other would do better."""
        self.cut_off = False
        """Whether the integer program was once cut off before it had proven its fleet a best one."""

    def best(self, program: FleetProgram, objective: Objective, effort: Effort | None = None) -> Trial | None:
        """The fleet with least of the objective that keeps every promise.

        First strictly in order, so that an answer among these is the least there is. Then in growing steps of the work
        to be carried, and back in halves: fleets between two steps may be left out.
        """
        predicted = any(sized.profile.foretold for sized in self.question.sized.values())
        effort = effort or (ESTIMATE if predicted else PROOF)
        refused: list[Fleet] = []
        most_usd_per_hour = self.question.scenario.buy.max_cost or inf
        for _ in range(effort.first):
            fleet = self._propose(program, objective, refused, most_usd_per_hour)
            if fleet is None:
                self._out_of_fleets(program, refused, most_usd_per_hour)
                return None
            if trial := self.try_fleet(program.offers, fleet):
                return trial
            if self.too_few:
                return None
            refused.append(fleet)
        return self._by_steps(program, objective, refused, effort.halvings, most_usd_per_hour)

    def _propose(
        self,
        program: FleetProgram,
        objective: Objective,
        refused: Sequence[Fleet],
        most_usd_per_hour: float = inf,
        design: float = 0.0,
    ) -> Fleet | None:
        solution = program.propose(objective, refused, most_usd_per_hour, design)
        self.cut_off |= solution is not None and not solution.proven
        return solution and solution.fleet

    def _by_steps(
        self,
        program: FleetProgram,
        objective: Objective,
        refused: list[Fleet],
        halvings: int,
        most_usd_per_hour: float,
    ) -> Trial | None:
        low = high = 1.0
        found: Trial | None = None
        while found is None:
            fleet = self._propose(program, objective, refused, most_usd_per_hour, high)
            if fleet is None:
                self._out_of_fleets(program, refused, most_usd_per_hour)
                return None
            found = self.try_fleet(program.offers, fleet)
            if self.too_few:
                return None
            if found is None:
                refused.append(fleet)
                low, high = high, high * STEP
        for _ in range(halvings):
            middle = (low + high) / 2
            fleet = self._propose(program, objective, refused, most_usd_per_hour, middle)
            trial = self.try_fleet(program.offers, fleet) if fleet else None
            if trial:
                found, high = trial, middle
            else:
                refused += [fleet] if fleet else []
                low = middle
        return self._smaller(found)

    def _smaller(self, found: Trial) -> Trial:
        """Leave out one instance at a time, the dearest first, while every promise is still kept."""
        for offer in sorted(found.offers, key=lambda o: -o.usd_per_hour):
            while offer in found.offers:
                fewer = tuple(n - (o == offer) for o, n in zip(found.offers, found.fleet, strict=True))
                trial = self.try_fleet(found.offers, fewer) if any(fewer) else None
                if trial is None:
                    break
                found = trial
        return found

    def try_fleet(self, offered: tuple[Offer, ...], fleet: Fleet) -> Trial | None:
        """The fleet with its models placed so that every promise is kept; None where that was not found."""
        bought = {offer: n for offer, n in zip(offered, fleet, strict=True) if n}
        key = (tuple(bought), tuple(bought.values()))
        if key not in self.tried:
            self.progress(f"trying {fleet_label(*key, self.question.offers)}", 0.0)
            self.tried[key] = self._try(*key)
        return self.tried[key]

    def _try(self, offered: tuple[Offer, ...], fleet: Fleet) -> Trial | None:
        for swap in self.question.policies:
            found = self._on(offered, fleet, swap).find()
            if isinstance(found, Trial):
                return found
            self.rejections.append(found.why)
            self.too_few = found.too_few
            if found.nearest:
                self.misses.append((found.nearest, found.why))
            if not found.short_of_memory:
                break
        return None

    def _on(self, offered: tuple[Offer, ...], fleet: Fleet, swap: bool) -> OnFleet:
        name = fleet_label(offered, fleet, self.question.offers)
        return OnFleet(self.question, offered, fleet, swap, lambda doing: partial(self.progress, f"{doing} {name}"))

    def _out_of_fleets(self, program: FleetProgram, refused: Sequence[Fleet], most_usd_per_hour: float) -> None:
        """Say which limit on what may be bought keeps the next fleet out; try what the limits leave of it."""
        any_count = replace(program, max_gpus=GPUS_MAX)
        more_gpus = self._propose(any_count, Objective.GPUS, refused, most_usd_per_hour)
        more_money = self._propose(program, Objective.COST, refused)
        more_machines = replace(program.unlimited(), max_gpus=program.max_gpus)
        of_a_kind = self._propose(more_machines, Objective.COST, refused, most_usd_per_hour)
        for fleet in (more_gpus, more_money, of_a_kind):
            self._name_limits(program, fleet, most_usd_per_hour)
        next_one = self._propose(program.unlimited(), Objective.COST, refused)
        if not any((more_gpus, more_money, of_a_kind)):
            self._name_limits(program, next_one, most_usd_per_hour)
        left = program.within_limits(next_one) if next_one and not refused else ()
        if any(left) and cost_usd_per_hour(program.offers, left) <= most_usd_per_hour:
            self.try_fleet(program.offers, left)

    def _name_limits(self, program: FleetProgram, fleet: Fleet | None, most_usd_per_hour: float) -> None:
        """One refusal for each limit that the fleet breaks."""
        if fleet is None:
            return
        cost, gpus = cost_usd_per_hour(program.offers, fleet), gpu_count(program.offers, fleet)
        name = fleet_label(program.offers, fleet, self.question.offers)
        if gpus > program.max_gpus:
            self.rejections.append(too_many(name, gpus, program.max_gpus, cost))
        if cost > most_usd_per_hour:
            self.rejections.append(too_dear(name, cost, most_usd_per_hour))
        for offer, n in zip(program.offers, fleet, strict=True):
            if offer.count_max is not None and n > offer.count_max:
                self.rejections.append(too_few_machines(name, offer, n, cost))

    def others(self, best: Trial) -> list[Trial]:
        """Other ways that keep every promise: each kind of GPU alone, and the fewest GPUs; best first."""
        objective = self.question.scenario.objective
        found: dict[tuple[str, Fleet], Trial] = {}
        for program, goal in self._other_programs(best):
            trial = self.best(program, goal, ALTERNATIVE)
            if trial and trial.label != best.label:
                found[trial.label, trial.fleet] = trial
        return sorted(found.values(), key=lambda t: (goal_of(objective, t), t.label))[:OTHERS_MAX]

    def _other_programs(self, best: Trial) -> Iterator[tuple[FleetProgram, Objective]]:
        question = self.question
        kinds = list(dict.fromkeys(map(Kind.of, question.offers)))
        used = {card.kind for card in best.cards}
        alone = [[o for o in question.offers if Kind.of(o) == kind] for kind in kinds if used != {kind}]
        programs = [p for p in map(question.program, alone) if p.lower_bound_usd_per_hour() is not None]
        yield from (
            (p, Objective.COST) for p in sorted(programs, key=lambda p: p.lower_bound_usd_per_hour() or 0.0)[:3]
        )
        if len(kinds) > 1 and question.scenario.objective is not Objective.GPUS:
            yield question.program(), Objective.GPUS

    def closest(self) -> Trial | None:
        """The miss that came nearest, replayed as often as an answer would be; else the dearest fleet tried.

        Its refusal then quotes this confirmation, not the screening; it is taken back where every promise is kept.
        """
        question = self.question
        if self.misses:
            nearest, why = max(self.misses, key=lambda miss: miss[0].nearness)
            confirmed = self._on(nearest.offers, nearest.fleet, swap=True).confirmed(nearest)
            if confirmed.overloaded:  # refused for its load, before any replay but a screening
                confirmed = replace(confirmed, replay=self._replayed(nearest))
            self.misses.remove((nearest, why))
            at = self.rejections.index(why)
            self.rejections[at : at + 1] = []
            if not confirmed.met:
                why = missed_promise(confirmed)
                self.misses.append((confirmed, why))
                self.rejections.insert(at, why)
            return confirmed
        dearest = max(self.tried, key=lambda key: cost_usd_per_hour(*key), default=None)
        found = force(question, *dearest, self.progress) if dearest else None
        if not isinstance(found, Trial):
            return None
        self.rejections = [replayed(no, found) if no.candidate == found.label else no for no in self.rejections]
        return within_headroom(found, 1 - question.scenario.headroom)

    def _replayed(self, trial: Trial) -> Replay:
        """A deployment replayed as often as an answer would be."""
        q = self.question
        return replay(q.scenario, q.workload, q.needs, trial.deployment, screen=False)

    def refusals(self) -> tuple[Rejection, ...]:
        """Each once. More GPUs are no way out where a fleet with more of them, or fewer, missed by about as much."""
        settled = {why: missed_promise(trial, self._gpus_that_help(trial)) for trial, why in self.misses}
        return tuple(dict.fromkeys(settled.get(no, no) for no in self.rejections))

    def _gpus_that_help(self, trial: Trial) -> int:
        """How many more of its GPUs kept every promise; 1 where that is open, 0 where they were seen not to help."""
        kinds = {card.kind for card in trial.cards}
        kept = [t for t in self.tried.values() if t and {card.kind for card in t.cards} == kinds]
        more = [n for t in kept if (n := len(t.cards) - len(trial.cards)) > 0]
        if more:
            return min(more)
        others = [t for t, _ in self.misses if {c.kind for c in t.cards} == kinds and len(t.cards) != len(trial.cards)]
        model = next(iter(trial.replay.missed), None)
        if model is None:  # it is its load that is too high
            return 1
        seen = trial.replay.attainment[model].mean
        return int(not any(abs(t.replay.attainment[model].mean - seen) < ALIKE for t in others))

    def cautions(self, shown: Trial, today: date) -> tuple[Caution, ...]:
        """What weakens the answer, the search for it included."""
        cut_off = Caution(
            what="the search over fleets was cut off: one with less of the objective may have been left out",
            remedy="offer fewer machines with `buy.gpus` or `buy.instances`",
        )
        found = cautions(self.question.scenario, self.question.workload, shown, today)
        return (*found, cut_off) if self.cut_off else found


def goal_of(objective: Objective, trial: Trial) -> float:
    """What the objective wants little of."""
    match objective:
        case Objective.COST:
            return trial.cost_usd_per_hour
        case Objective.GPUS:
            return len(trial.cards)
        case Objective.ENERGY:
            return trial.energy_w


def pareto(answers: Sequence[Recommendation]) -> tuple[str, ...]:
    """Labels of those that no other beats in both cost and worst p99 over its SLO."""
    worst = [(a.cost_usd_per_hour, max(m.p99_s / m.slo_s for m in a.models)) for a in answers]
    return tuple(
        a.label
        for a, (cost, late) in zip(answers, worst, strict=True)
        if not any(c <= cost and w <= late and (c, w) != (cost, late) for c, w in worst)
    )


def evaluate(question: Question, offer: Offer, count: int, progress: Progress = silent) -> Trial:
    """Replay a deployment one names oneself, all models on `count` machines of one offer, keeping promises or not.

    Raises NothingToPlanError where they cannot be placed at all.
    """
    offered, fleet, scenario = (offer,), (count,), question.scenario
    cards = cards_of(offered, fleet)
    ways = spread(question, cards)
    if isinstance(ways, Misfit):
        name = label(offered, fleet, question.policies[-1], question.offers)
        no = misfit(name, ways, scenario.memory, cost_usd_per_hour(offered, fleet))
        raise NothingToPlanError(f"{no.candidate}: {no.reason}. Way out: {no.way_out}.")
    first = next(ways)
    if is_plain(first):
        return _as_packed(question, offered, fleet, cards, first, progress, scenario.seed)
    return _best_replayed(question, offered, fleet, chain([first], ways), progress)


def _best_replayed(
    question: Question, offered: tuple[Offer, ...], fleet: Fleet, ways: Iterator[Packing], progress: Progress
) -> Trial:
    """The first way that keeps every SLO, else the one on which fewest queues grow and that came nearest."""
    scenario, demand, needs, cards = question.scenario, question.workload, question.needs, cards_of(offered, fleet)
    tried: list[tuple[Deployment, Packing, Replay]] = []
    trials: dict[int, Trial] = {}
    for packing in ways:
        deployment = deploy(scenario, needs, cards, packing.placed)
        if any(deployment == other for other, _, _ in tried):
            continue
        tried.append((deployment, packing, replay(scenario, demand, needs, deployment, screen=True)))
        if tried[-1][2].met:
            trial = _as_packed(question, offered, fleet, cards, packing, progress, scenario.seed)
            if trial.met:
                return trial
            trials[len(tried) - 1] = trial
    nearest = max(range(len(tried)), key=lambda i: tried[i][2].nearness)
    return trials.get(nearest) or _as_packed(
        question, offered, fleet, cards, tried[nearest][1], progress, scenario.seed
    )


def force(
    question: Question, offered: tuple[Offer, ...], fleet: Fleet, progress: Progress = silent
) -> Trial | Rejection:
    """Pack a fleet as for a plan and replay it, too busy or not; a Rejection where the models cannot be placed."""
    cards = cards_of(offered, fleet)
    refusals: list[Rejection] = []
    for swap in question.policies:
        found = Packer(list(question.needs), question.sized, question.rules(swap, {})).pack(cards)
        if isinstance(found, Packing):
            return _as_packed(question, offered, fleet, cards, found, progress, PLANNING)
        cost = cost_usd_per_hour(offered, fleet)
        refusals.append(misfit(label(offered, fleet, swap, question.offers), found, question.scenario.memory, cost))
    return refusals[-1]


def _as_packed(
    question: Question,
    offered: tuple[Offer, ...],
    fleet: Fleet,
    cards: Sequence[Card],
    packing: Packing,
    progress: Progress,
    seed: int,
) -> Trial:
    """A packing replayed as often as an answer would be, too busy or not."""
    scenario, demand, needs = question.scenario, question.workload, question.needs
    deployment = deploy(scenario, needs, cards, packing.placed)
    tell = partial(progress, f"replaying {fleet_label(offered, fleet, question.offers)}")
    seen = replay(scenario, demand, needs, deployment, screen=False, seed=seed, tell=tell)
    return Trial(offered, fleet, tuple(cards), packing, deployment, seen, question.offers)
