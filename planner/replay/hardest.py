"""Hardest: draws of speeds in which a deployment has most to do, which soonest show that it does not keep enough."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from planner.replay.replay import Replay, WideLook
from simulator.clock.worlds import WorldFigures
from simulator.flow.rates import service_rates_rps
from simulator.rules.speeds import Speeds
from simulator.world.deployment import Deployment, Replica, Service
from simulator.world.workload import Floats

SPARE_MIN = 0.05
"""Free share of a GPU below which it does not matter how little that is."""
SIDE_BY_SIDE = 32
"""Draws whose speeds are worked out at once."""
CALM, CALM_RISKS = 64, 3.2
"""Draws in order of strain, all of which keep every SLO, after which the easier ones are left to the first look: 64, or
where the confidence leaves little risk so many over it, 320 of 99 %. Of draws that break an SLO as often as may be,
whatever their strain, so many in a row are calm once in 25 times."""
ANY = ""
"""Among names of models: any of them."""


class Strain:
    """How long full batches of a replica take over the SLO of its model, over the share that is free of its GPU.

    A queue's delay grows with 1 / (1 - load), whatever the queue. Batches of 20 ms for an SLO of 100 ms on a GPU that
    is busy for 80 % of its time: 1. It orders draws, and says nothing of whether an SLO is met.
    """

    def __init__(self, deployment: Deployment, rates_rps: Mapping[str, float]) -> None:
        every = [(service, replica) for service in deployment.services for replica in service.replicas]
        every.sort(key=lambda one: one[1].devices[0])
        gpus = [replica.devices[0] for _, replica in every]
        self.speeds = Speeds([replica for _, replica in every], {one.id: one.gpu for one in deployment.devices})
        self.slo_s = np.array([service.slo.latency_s for service, _ in every])
        begins = [not place or gpus[place - 1] != gpu for place, gpu in enumerate(gpus)]
        self.gpu_begin, self.gpu_of = np.flatnonzero(begins), np.cumsum(begins) - 1
        asked_rps = service_rates_rps(deployment, rates_rps)
        self.batches_per_s = np.array([asked_rps[s.model] * _share(s, one) for s, one in every]) / self.speeds.caps

    def hardest_first(self, seeds: Sequence[int]) -> list[int]:
        """Places of the seeds, those first in whose worlds a model is strained most."""
        parts = (seeds[place : place + SIDE_BY_SIDE] for place in range(0, len(seeds), SIDE_BY_SIDE))
        return [int(place) for place in np.argsort(-np.concatenate(list(map(self.of, parts))), kind="stable")]

    def of(self, seeds: Sequence[int]) -> Floats:
        """By world: of its most strained replica."""
        full_s = self.speeds.full_s(seeds)
        loads = np.add.reduceat(self.batches_per_s * full_s, self.gpu_begin, axis=1)
        free = np.maximum(1 - loads[:, self.gpu_of], SPARE_MIN)
        return np.asarray((full_s / self.slo_s / free).max(axis=1))


def _share(service: Service, replica: Replica) -> float:
    """The part of a model's requests that comes to one of its replicas."""
    return replica.share / sum(one.share for one in service.replicas)


def in_order(seen: Replay, numbers: Sequence[int], below: float = np.inf) -> Replay:
    """The replications by their numbers, as if they had been replayed so; those below a number alone."""
    places = sorted((p for p in range(len(seen.summaries)) if numbers[p] < below), key=lambda place: numbers[place])
    return replace(
        seen,
        summaries=tuple(seen.summaries[place] for place in places),
        overloads=tuple(seen.overloads[place] for place in places),
        lost_is_wrong=tuple(seen.lost_is_wrong[place] for place in places),
        reuse_last=tuple(seen.reuse_last[place] for place in places if seen.reuse_last),
        latencies=tuple(seen.latencies[place] for place in places if seen.latencies),
    )


def given_up(seen: Replay, numbers: Sequence[int]) -> Replay | None:
    """The replications at best, if those seen leave it to no look that enough draws meet every SLO; else None."""
    for look in seen.looks:
        part = in_order(seen, numbers, look)
        if part.lost_at(look):
            return part.at_best_at(look)
        if part.may_be_enough_at(look):
            return None
    return None


def wide_look(
    first: Replay,
    order: Sequence[int],
    replayed: Callable[[Sequence[int]], Sequence[WorldFigures]],
    *,
    verdict_only: bool,
) -> WideLook:
    """Draws from the hardest on, until a run of them keeps every SLO (`CALM`), or where only a verdict is wanted, until
    so many break one that the others do not matter. For those left speak the draws among them of the first look, whose
    numbers are the lowest."""
    assert first.draws is not None
    enough = max(CALM, CALM_RISKS / (1 - first.draws.share))
    broken: Counter[str] = Counter(dict.fromkeys((*first.needs, ANY), 0))
    at_best, end, calm = False, 0, 0
    while end < len(order) and calm < enough and not at_best:
        now = _broken(first, replayed(order[end : end + CALM]))
        broken.update(now)
        end += CALM
        calm = 0 if now[ANY] else calm + CALM
        at_best = verdict_only and first.loses(broken[ANY], len(order))
    counts = {name: float(count) for name, count in broken.items()}
    rest = [] if at_best else order[end:]
    for name, count in _broken_in_the_rest(first, rest, replayed).items():
        counts[name] += count
    together = counts.pop(ANY)
    return WideLook(len(order), counts, together, at_best)


def _broken_in_the_rest(
    first: Replay, rest: Sequence[int], replayed: Callable[[Sequence[int]], Sequence[WorldFigures]]
) -> dict[str, float]:
    """In how many of these draws each model breaks its SLO, if in as large a part as of those in the first look."""
    sample = [number for number in rest if number < len(first.summaries)]
    if not sample:
        return {}
    return {name: count * len(rest) / len(sample) for name, count in _broken(first, replayed(sample)).items()}


def _broken(first: Replay, figures: Sequence[WorldFigures]) -> Counter[str]:
    """In how many draws each model breaks its SLO, and any of them."""
    broken: Counter[str] = Counter()
    for one in figures:
        missed = [model for model, kept in first.kept_in(one.summary, one.growing).items() if not kept]
        broken.update([*missed, *([ANY] if missed else [])])
    return broken
