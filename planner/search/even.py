"""Even: the models on GPUs that one names oneself, each GPU with as much to do as the others.

Headroom is a reserve of planning: a replay does not depend on it.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from planner.placing.cutting import FleetGpu
from planner.placing.duty import offered_load
from planner.placing.packing import Misfit, Packer, Packing, Placed, portions_of
from planner.placing.sizing import Kind, Sized, SizedModels, judged
from planner.replay.deploying import deploy
from planner.search.question import Question
from simulator.clock.stability import drain

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
    foresees: the same, however much is asked, so that more load is never served better.
    """
    ways = _ways(question, question.sized, devices)
    if isinstance(ways, Misfit):
        return ways
    first, designs = ways[0], _designs(question, devices)
    if is_plain(first):
        return iter([first if first.work <= 1 else next(designs, first)])
    return chain([next(designs, first)], designs)


def _ways(question: Question, sized: SizedModels, devices: Sequence[FleetGpu]) -> list[Packing] | Misfit:
    """The best first; nothing grows on it unless it does on all."""
    able: list[Packing] = []
    for swap in question.policies:
        rules, models = replace(question.rules(swap, {}), headroom=0.0), list(question.needs)
        usual = Packer(models, sized, rules).pack(devices)
        even = _evenly(Packer(models, sized, rules, even=True), devices)
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


def _evenly(packer: Packer, devices: Sequence[FleetGpu]) -> Packing | Misfit:
    """All GPUs equally busy in the batches that are allowed on them, as nearly as a few rounds find it."""
    best = packer.pack(devices)
    last = best
    for _ in range(ROUNDS):
        if isinstance(last, Misfit):
            break
        packer.work = _work_of(last)
        last = packer.pack(devices)
        if isinstance(last, Packing) and (isinstance(best, Misfit) or last.work < best.work):
            best = last
    return best


def _work_of(packing: Packing) -> Mapping[tuple[str, Kind], float]:
    """GPUs that all requests of a model would keep busy on each kind, in the batches that are allowed there."""
    busy: dict[tuple[str, Kind], float] = defaultdict(float)
    share: dict[tuple[str, Kind], float] = defaultdict(float)
    for p in packing.placed:
        cell = p.portion.sized.model, p.devices[0].kind
        busy[cell] += sum(offered_load([portion], [p.batch_size_max]) for portion in portions_of(p))
        share[cell] += p.portion.share
    return {cell: busy[cell] / share[cell] for cell in busy}
