"""Even: the models on GPUs that one names oneself, each GPU with as much to do as the others, and their replay.

Headroom is a reserve of planning: a replay does not depend on it.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

from planner.catalog.offers import Offer
from planner.model.plan import Rejection
from planner.model.progress import Progress, counting, silent
from planner.placing.cutting import FleetGpu
from planner.placing.duty import offered_load
from planner.placing.fleets import Fleet, cost_usd_per_hour, machines_of
from planner.placing.packing.packed import Misfit, Packing, Placed, portions_of
from planner.placing.packing.packer import Packer
from planner.placing.sizing import Kind, Sized, SizedModels, judged
from planner.replay.deploying import deploy, devices_of
from planner.replay.replay import Replay
from planner.replay.run import PLANNING, replay
from planner.replay.trial import Trial, candidate_of
from planner.search.budgets import with_budgets
from planner.search.question import NothingToPlanError, Question
from planner.search.rejections import misfit, streams_refused
from planner.words.candidates import machines_name
from planner.words.statements import rejection_line
from simulator.clock.stability import drain
from simulator.world.deployment import Deployment

ROUNDS = 4
"""How often shares are set anew by the batches that the last ones allow."""
PARTS = (1.0, 0.85, 0.7, 0.6, 0.5, 0.4, 0.3)
"""Of the most that the GPUs can do: under more, batches are larger, which swapping and stages may need."""
NEARLY = 0.02
"""Of the most, that is near enough."""


def spread(question: Question, devices: Sequence[FleetGpu]) -> Iterator[Packing] | Misfit:
    """The models on all of these GPUs, the most promising way first; why they cannot be placed, where none holds them.

    Evenly by the time that each GPU needs in the batches that are allowed there, and resident if they can be. Placed
    as a plan would be, or taking turns in memory, only where that brings the worst case nearer to the SLOs, or no GPU
    is then offered more than it can do. Several ways where models take turns or are cut, which no duty cycle quite
    foresees: the same, however much is asked, so that more load is never served better. Else those on more of the GPUs
    besides, for where the first misses.
    """
    ways = _ways(question, question.sized, devices)
    if isinstance(ways, Misfit):
        return ways
    first, designs = ways[0], _designs(question, devices)
    if is_plain(first):
        fuller = [way for way in ways[1:] if is_plain(way) and _used(way) > _used(first)]
        return iter([first if first.work <= 1 else next(designs, first), *fuller])
    return chain([next(designs, first)], designs)


def _ways(question: Question, sized: SizedModels, devices: Sequence[FleetGpu]) -> list[Packing] | Misfit:
    """The best first; nothing grows on it unless it does on all."""
    able: list[Packing] = []
    for swap in question.policies:
        rules, models = replace(question.rules(swap, {}), headroom=0.0), list(question.needs)
        usual = Packer(models, sized, rules).pack(devices)
        even = evenly(Packer(models, sized, rules, even=True), devices)
        able += [way for way in (even, usual) if isinstance(way, Packing)]
    if not able:
        assert isinstance(usual, Misfit)
        return usual
    able.sort(key=lambda way: (max(1.0, way.work), max(1.0, way.strain)))
    first = next((i for i, way in enumerate(able) if not _grows(question, sized, devices, way)), 0)
    return [able.pop(first), *able]


def is_plain(packing: Packing) -> bool:
    """Whether no models take turns in memory and none is cut."""
    return not any(p.swapped or len(p.devices) > 1 for p in packing.placed)


def _used(packing: Packing) -> int:
    """GPUs on which models run."""
    return len({device for placed in packing.placed for device in placed.devices})


def _grows(question: Question, sized: SizedModels, devices: Sequence[FleetGpu], packing: Packing) -> bool:
    """Whether some queue would grow where models take turns in memory or are cut: no duty cycle quite foresees that."""
    if is_plain(packing):
        return False
    deployment = deploy(question.scenario, question.needs, devices, packing.placed)
    rates_rps = {m: need.needed_rps for m, need in judged({one.model: one.need for one in sized.values()}).items()}
    return bool(drain(deployment, rates_rps, question.workload).growing)


def _designs(question: Question, devices: Sequence[FleetGpu]) -> Iterator[Packing]:
    """Batches and places as under parts of the most that the GPUs can do, whatever is asked of them."""

    def under(factor: float) -> Packing | None:
        ways = _ways(question, {cell: _lighter(one, factor) for cell, one in question.sized.items()}, devices)
        return None if isinstance(ways, Misfit) else ways[0]

    work = {model: one.least_work for (model, _), one in question.sized.items()}
    most = len(devices) / sum(work.values())
    for _ in range(ROUNDS):
        if (full := under(most)) is None or abs(full.work - 1) < NEARLY:
            break
        most /= full.work
    for part in PARTS:
        if packing := under(part * most):
            yield _as_asked(question, packing)


def _as_asked(question: Question, packing: Packing) -> Packing:
    """The same places and batches, with what is really asked."""
    placed = tuple(replace(p, portion=replace(p.portion, sized=_own(question.sized, p))) for p in packing.placed)
    return replace(packing, placed=placed).with_batches([p.batch_size_max for p in placed])


def _own(sized: SizedModels, placed: Placed) -> Sized:
    return sized[placed.portion.sized.model, placed.devices[0].kind]


def _lighter(sized: Sized, factor: float) -> Sized:
    need = replace(sized.need, rate_rps=sized.need.rate_rps * factor)
    return replace(sized, need=need, least_work=sized.least_work * factor, design_work=sized.design_work * factor)


def evenly(packer: Packer, devices: Sequence[FleetGpu]) -> Packing | Misfit:
    """All GPUs equally busy in the batches that are allowed on them, as nearly as a few rounds find it."""
    packer.work = at_best = _work_at_best(packer.sized)
    best = packer.pack(devices)
    last = best
    for _ in range(ROUNDS):
        if isinstance(last, Misfit):
            break
        packer.work = {**at_best, **_work_of(last)}
        last = packer.pack(devices)
        if isinstance(last, Packing) and (isinstance(best, Misfit) or last.work < best.work):
            best = last
    return best


def _work_at_best(sized: SizedModels) -> Mapping[tuple[str, Kind], float]:
    """The same in the batches that cost least of those that are allowed: at the speeds that are planned with, where the
    least work is at the best that predictions leave open."""
    runs_s = {cell: one.latency_s[: one.batches[0]] or one.latency_s for cell, one in sized.items()}
    return {
        cell: sized[cell].need.needed_rps * min(run_s / b for b, run_s in enumerate(times_s, start=1))
        for cell, times_s in runs_s.items()
    }


def _work_of(packing: Packing) -> Mapping[tuple[str, Kind], float]:
    """GPUs that all requests of a model would keep busy on each kind, in the batches that are allowed there."""
    busy: dict[tuple[str, Kind], float] = defaultdict(float)
    share: dict[tuple[str, Kind], float] = defaultdict(float)
    for p in packing.placed:
        cell = p.portion.sized.model, p.devices[0].kind
        busy[cell] += sum(offered_load([portion], [p.batch_size_max]) for portion in portions_of(p))
        share[cell] += p.portion.share
    return {cell: busy[cell] / share[cell] for cell in busy}


# Replayed


def evaluate(question: Question, offer: Offer, count: int, progress: Progress = silent) -> Trial:
    """Replay a deployment one names oneself, all models on `count` machines of one offer, SLOs met or not.

    Raises NothingToPlanError where they cannot be placed at all, or streams of video cannot come there.
    """
    offered, fleet, scenario = (offer,), (count,), question.scenario
    devices = devices_of(offered, fleet)
    candidate, cost = partial(candidate_of, offered, fleet, among=question.offers), cost_usd_per_hour(offered, fleet)
    if no := streams_refused(candidate(question.policies[0]), scenario, question.needs, devices, cost):
        raise NothingToPlanError(rejection_line(no))
    question = next(with_budgets(question, devices))
    ways = spread(question, devices)
    if isinstance(ways, Misfit):
        raise NothingToPlanError(rejection_line(misfit(candidate(question.policies[-1]), ways, scenario.memory, cost)))
    first = next(ways)
    if not is_plain(first):
        return _best_replayed(question, offered, fleet, chain([first], ways), progress)
    replayed = partial(_as_packed, question, offered, fleet, devices, progress=progress, seed=scenario.seed)
    usual = replayed(first)
    if usual.met:
        return usual
    return max([usual, *map(replayed, ways)], key=_kept_most)


def _kept_most(trial: Trial) -> tuple[bool, float, tuple[object, ...]]:
    """Sorts trials: that which meets every SLO comes last, else that which keeps all in most draws."""
    kept = trial.replay.all_kept
    return trial.met, kept.mean if kept else 0.0, trial.nearest_by_shares


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
        tried.append((deployment, packing, replay(scenario, demand, needs, deployment, screen=True, averaged=False)))
        if tried[-1][2].met:
            trial = _as_packed(question, offered, fleet, devices, packing, progress, scenario.seed)
            if trial.met:
                return trial
            trials[len(tried) - 1] = trial
    nearest = max(range(len(tried)), key=lambda i: tried[i][2].nearest_by_margin)
    return trials.get(nearest) or _as_packed(
        question, offered, fleet, devices, tried[nearest][1], progress, scenario.seed
    )


def force(
    question: Question, offered: tuple[Offer, ...], fleet: Fleet, progress: Progress = silent
) -> Trial | Rejection:
    """Pack a fleet as a plan would, as well as can be, and replay it, too busy or not; a Rejection where the models
    cannot be placed."""
    devices = devices_of(offered, fleet)
    question = next(with_budgets(question, devices))
    rejections: list[Rejection] = []
    for swap in question.policies:
        packing = least_busy(question, devices, swap)
        if isinstance(packing, Packing):
            return _as_packed(question, offered, fleet, devices, packing, progress, PLANNING, averaged=True)
        cost = cost_usd_per_hour(offered, fleet)
        candidate = candidate_of(offered, fleet, swap, question.offers)
        rejections.append(misfit(candidate, packing, question.scenario.memory, cost))
    return rejections[-1]


def least_busy(question: Question, devices: Sequence[FleetGpu], swap: bool) -> Packing | Misfit:
    """The usual packing; where that leaves a GPU too busy, the one with replicas on all GPUs if those are less so."""
    models, rules = list(question.needs), question.rules(swap, {})
    usual = Packer(models, question.sized, rules).pack(devices)
    if isinstance(usual, Misfit) or usual.work <= 1 - rules.headroom:
        return usual
    even = evenly(Packer(models, question.sized, rules, seed=1, even=True), devices)
    return even if isinstance(even, Packing) and even.work < usual.work else usual


def _as_packed(
    question: Question,
    offered: tuple[Offer, ...],
    fleet: Fleet,
    devices: Sequence[FleetGpu],
    packing: Packing,
    progress: Progress,
    seed: int,
    *,
    averaged: bool = False,
) -> Trial:
    """A packing replayed as often as an answer would be, too busy or not. `averaged`: outages count as in plans."""
    scenario, demand, needs = question.scenario, question.workload, question.needs
    deployment = deploy(scenario, needs, devices, packing.placed)
    tell = counting(progress, f"replaying {machines_name(machines_of(offered, fleet, question.offers))}")
    seen = replay(scenario, demand, needs, deployment, screen=False, seed=seed, tell=tell, averaged=averaged)
    return Trial(offered, fleet, tuple(devices), packing, deployment, seen, question.offers)
