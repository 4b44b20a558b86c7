"""Tiny pipelines for tests, and the cheapest way to serve them by trying all ways there are."""

from collections.abc import Iterator, Sequence
from itertools import chain, combinations, product

from planner.catalog.offers import Offer
from planner.model.plan import Bottleneck
from planner.placing.cutting import FleetGpu
from planner.placing.duty import Portion, Shortage
from planner.placing.fleets import Fleet, cost_usd_per_hour
from planner.placing.packing.packed import Placed, busiest_device
from planner.placing.stations import loads_on
from planner.replay.deploying import deploy, devices_of
from planner.replay.run import replay
from planner.search.question import Question


def fleets(offers: Sequence[Offer], most: int) -> list[Fleet]:
    """All with up to so many machines, the cheapest first."""
    counts = product(range(most + 1), repeat=len(offers))
    return sorted((f for f in counts if 0 < sum(f) <= most), key=lambda fleet: cost_usd_per_hour(offers, fleet))


def cheapest(question: Question, most: int, batches: Sequence[int]) -> float | None:
    """Least dollars an hour at which some placement surely meets every SLO: all are replayed, in all these batches."""
    for fleet in fleets(question.offers, most):
        devices = devices_of(question.offers, fleet)
        if overloaded(question, devices):
            continue
        if any(meets(question, devices, placed) for placed in placements(question, devices, batches)):
            return cost_usd_per_hour(question.offers, fleet)
    return None


def overloaded(question: Question, devices: Sequence[FleetGpu]) -> bool:
    """Whether decoders, cores or links are short."""
    limit = 1 - question.scenario.headroom
    return any(one.load > limit + 1e-9 for one in loads_on(question.needs, devices))


def placements(question: Question, devices: Sequence[FleetGpu], batches: Sequence[int]) -> Iterator[tuple[Placed, ...]]:
    """Each model on any GPUs, shared evenly, in batches of any size that it can run."""
    models = list(question.needs)
    subsets = list(chain.from_iterable(combinations(devices, n) for n in range(1, len(devices) + 1)))
    for places in product(subsets, repeat=len(models)):
        for sizes in product(batches, repeat=len(models)):
            yield tuple(
                Placed(Portion(question.sized[m, d.kind], 1 / len(where)), (d,), size, size, 0.0, False, short)
                for m, where, size in zip(models, places, sizes, strict=True)
                for d in where
            )


def short() -> Shortage:
    """What a GPU is short of: here nobody asks."""
    return Shortage(Bottleneck.COMPUTE, 1.0)


def meets(question: Question, devices: Sequence[FleetGpu], placed: tuple[Placed, ...]) -> bool:
    """Whether every SLO is surely met, with the headroom kept."""
    if any(p.batch_size_max > p.portion.sized.batch_size_max for p in placed):
        return False
    if busiest_device(placed)[0] > 1 - question.scenario.headroom + 1e-9:
        return False
    scenario, needs = question.scenario, question.needs
    deployment = deploy(scenario, needs, devices, placed)
    screened = replay(scenario, question.workload, needs, deployment, screen=True)
    if not (screened.met or screened.promising):
        return False
    return replay(scenario, question.workload, needs, deployment, screen=False).met
