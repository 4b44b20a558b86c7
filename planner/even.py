"""Even: the models on GPUs that one names oneself, each GPU with as much to do as the others.

Headroom is a reserve of planning: a replay does not depend on it.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from planner.answer import deploy
from planner.cutting import Card
from planner.duty import offered_load
from planner.packing import Misfit, Packer, Packing, Placed, portions_of
from planner.prediction.question import Question
from planner.sizing import Kind, Sized, SizedModels
from simulator.stability import drain

ROUNDS = 4
"""How often shares are set anew by the batches that the last ones allow."""


def spread(question: Question, cards: Sequence[Card]) -> Packing | Misfit:
    """The models on all of these cards; why they cannot be placed, where none holds them.

    Evenly by the time that each card needs in the batches that are allowed there, and resident if they can be. Placed
    as a plan would be, or taking turns in memory, only where that brings the worst case nearer to the SLOs, or no card
    is then offered more than it can do.
    """
    found = _best(question, question.sized, cards)
    if isinstance(found, Misfit) or (found.work <= 1 and not _grows(question, question.sized, cards, found)):
        return found
    return _as_if_full(question, cards, found)


def _best(question: Question, sized: SizedModels, cards: Sequence[Card]) -> Packing | Misfit:
    able: list[Packing] = []
    for swap in question.policies:
        rules, models = replace(question.rules(swap, {}), headroom=0.0), list(question.needs)
        usual = Packer(models, sized, rules).pack(cards)
        even = _evenly(Packer(models, sized, rules, even=True), cards)
        able += [way for way in (even, usual) if isinstance(way, Packing)]
    able.sort(key=lambda way: (max(1.0, way.work), max(1.0, way.strain)))
    return next((way for way in able if not _grows(question, sized, cards, way)), able[0] if able else usual)


def _grows(question: Question, sized: SizedModels, cards: Sequence[Card], packing: Packing) -> bool:
    """Whether some queue would grow where models take turns in memory or are cut: no duty cycle quite foresees that."""
    if not any(p.swapped or len(p.cards) > 1 for p in packing.placed):
        return False
    deployment = deploy(question.scenario, question.needs, cards, packing.placed)
    rates_rps = {one.model: one.need.needed_rps for one in sized.values()}
    return bool(drain(deployment, rates_rps, question.workload).growing)


def _as_if_full(question: Question, cards: Sequence[Card], found: Packing) -> Packing:
    """Batches and places as under the most that the cards can do, whatever is asked of them."""
    sized = {cell: _lighter(one, 1 / found.work) for cell, one in question.sized.items()}
    again = _best(question, sized, cards)
    if isinstance(again, Misfit):
        return found
    placed = tuple(replace(p, portion=replace(p.portion, sized=_own(question.sized, p))) for p in again.placed)
    return replace(again, placed=placed).with_batches([p.batch_size_max for p in placed])


def _own(sized: SizedModels, placed: Placed) -> Sized:
    return sized[placed.portion.sized.model, placed.cards[0].kind]


def _lighter(sized: Sized, factor: float) -> Sized:
    need = replace(sized.need, rate_rps=sized.need.rate_rps * factor)
    return replace(sized, need=need, least_work=sized.least_work * factor, design_work=sized.design_work * factor)


def _evenly(packer: Packer, cards: Sequence[Card]) -> Packing | Misfit:
    """All cards equally busy in the batches that are allowed on them, as nearly as a few rounds find it."""
    best = packer.pack(cards)
    last = best
    for _ in range(ROUNDS):
        if isinstance(last, Misfit):
            break
        packer.work = _work_of(last)
        last = packer.pack(cards)
        if isinstance(last, Packing) and (isinstance(best, Misfit) or last.work < best.work):
            best = last
    return best


def _work_of(packing: Packing) -> Mapping[tuple[str, Kind], float]:
    """Cards that all requests of a model would keep busy on each kind, in the batches that are allowed there."""
    busy: dict[tuple[str, Kind], float] = defaultdict(float)
    share: dict[tuple[str, Kind], float] = defaultdict(float)
    for p in packing.placed:
        cell = p.portion.sized.model, p.cards[0].kind
        busy[cell] += sum(offered_load([portion], [p.batch_size_max]) for portion in portions_of(p))
        share[cell] += p.portion.share
    return {cell: busy[cell] / share[cell] for cell in busy}
