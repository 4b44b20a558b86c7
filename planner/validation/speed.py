"""Speed: what batches and loads took in the rehearsals around a run, over what their profiles say.

Profiles are measured once, and a device is not always as fast as then: others share its processor, memory or power.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import exp, hypot, log, sqrt
from statistics import fmean
from typing import NamedTuple

import numpy as np

from calibrate.served import Actions
from planner.validation.recording import Recording
from simulator.workload import Floats

Shares = Mapping[str, float]
BySize = Mapping[int, float]
"""By size of the batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """Costs at the time of the run over what profiles say; without a rehearsal nothing is known and nothing changed."""

    run: Mapping[str, BySize] = field(default_factory=dict)
    """By model and batch size: run times, both rehearsals alike."""
    load: Shares = field(default_factory=dict)
    """The same of load times."""
    before: float | None = None
    """Run times right before the run, geometric mean over models and batch sizes."""
    after: float | None = None
    """The same right after it."""
    drift: float = 0.0
    """One standard deviation of the speed during the run around that of the rehearsals, a share."""
    run_error: Mapping[str, BySize] = field(default_factory=dict)
    """The same of `run`, for it is known from few batches."""
    load_error: float = 0.0
    """The same of `load`, of all models alike."""
    cv: float | None = None
    """Coefficient of variation of one batch's run time."""
    slowdown: Shares = field(default_factory=dict)
    """By device, where several processes share one: run times while the others run too, over those alone."""


Kind = tuple[str, int]
"""Model and batch size."""
SEEN_MIN = 2
"""Batches of a kind in a rehearsal that show how much they vary."""


class Taken(NamedTuple):
    """One action."""

    rehearsal: int
    start_s: float
    device: str
    model: str
    size: int
    """Of the batch; 0 of a load."""
    expected_s: float
    actual_s: float
    overlap: float
    """Share of its time in which other processes ran a batch."""

    @property
    def kind(self) -> Kind:
        """What is comparable: a profile may be right for one size and wrong for another."""
        return self.model, self.size

    @property
    def ratio(self) -> float:
        """Actual over expected."""
        return self.actual_s / self.expected_s

    def without(self, slowdown: float) -> "Taken":
        """As long as it would have taken alone: 0.3 s with others for half of it, where they double it, are 0.2 s."""
        return self._replace(actual_s=self.actual_s / (1 + (slowdown - 1) * self.overlap))


def speed_of(rehearsals: Sequence[Sequence[Actions]]) -> Speed:
    """What the rehearsals right before and right after a run say."""
    runs = comparable([taken for number, one in enumerate(rehearsals) for taken in listed(number, one, "run")])
    loads = [taken for number, one in enumerate(rehearsals) for taken in listed(number, one, "load")]
    if not runs:
        return Speed()
    together = slowdown(runs)
    alone = [one.without(together.get(one.device, 1.0)) for one in runs]
    levels = [level(alone, number) for number in range(len(rehearsals))]
    spread = pooled_cv(alone)
    return Speed(
        run=by_size(usual_ratios(alone)),
        load={model: ratio for (model, _), ratio in usual_ratios(loads).items()},
        before=levels[0],
        after=levels[1] if len(levels) > 1 else None,
        drift=drift_of(alone),
        run_error=by_size({kind: spread / sqrt(count) for kind, count in Counter(one.kind for one in alone).items()}),
        load_error=pooled_cv(loads) / sqrt(max(1, len(loads))),
        cv=spread,
        slowdown=together,
    )


def listed(number: int, rehearsal: Sequence[Actions], kind: str) -> list[Taken]:
    """Actions of a kind, one by one."""
    spans = [(a.device, a.start_s, a.start_s + a.actual_s) for a in rehearsal if a.kind == "run"]
    found = []
    for actions in (a for a in rehearsal if a.kind == kind):
        others = [(starts, ends) for device, starts, ends in spans if device != actions.device]
        columns = (actions.start_s, actions.batch.tolist(), actions.expected_s, actions.actual_s)
        for start_s, size, expected_s, actual_s in zip(*columns, strict=True):
            if not expected_s:
                continue  # a load of nothing
            both_s = sum(
                float(np.clip(np.minimum(ends, start_s + actual_s) - np.maximum(starts, start_s), 0.0, None).sum())
                for starts, ends in others
            )
            overlap = both_s / actual_s
            found.append(Taken(number, start_s, actions.device, actions.model, size, expected_s, actual_s, overlap))
    return found


def comparable(runs: Sequence[Taken]) -> list[Taken]:
    """Batches whose kind every rehearsal has seen more than once: else there is no telling noise and drift from size.

    A model without such a kind has its sizes thrown together, as size 0.
    """
    seen = Counter((one.rehearsal, one.kind) for one in runs)
    numbers = {one.rehearsal for one in runs}
    whole = {one.kind for one in runs if all(seen[number, one.kind] >= SEEN_MIN for number in numbers)}
    models = {model for model, _ in whole}
    return [
        one if one.model in models else one._replace(size=0)
        for one in runs
        if one.kind in whole or one.model not in models
    ]


def usual_ratios(taken: Sequence[Taken]) -> dict[Kind, float]:
    """What all of a kind took over what all should have; each rehearsal counts alike, whatever it did in its time."""
    ratios: dict[Kind, list[float]] = {}
    for group in grouped(taken):
        ratio = sum(one.actual_s for one in group) / sum(one.expected_s for one in group)
        ratios.setdefault(group[0].kind, []).append(ratio)
    return {kind: fmean(found) for kind, found in ratios.items()}


def by_size(values: Mapping[Kind, float]) -> dict[str, dict[int, float]]:
    """By model, then by size, smallest first."""
    found: dict[str, dict[int, float]] = {}
    for (model, size), value in sorted(values.items()):
        found.setdefault(model, {})[size] = value
    return found


def of_size(known: BySize | None, size: int) -> float:
    """The factor of one batch size: on a straight line between those that are known, as the nearest beyond; else 1."""
    return float(np.interp(size, sorted(known), [known[n] for n in sorted(known)])) if known else 1.0


def level(taken: Sequence[Taken], number: int) -> float | None:
    """Geometric mean over models and sizes of one rehearsal; None where nothing ran."""
    ratios = usual_ratios([one for one in taken if one.rehearsal == number]).values()
    return exp(fmean(map(log, ratios))) if ratios else None


def drift_of(taken: Sequence[Taken]) -> float:
    """How far the speed during a run lies from the mean of its rehearsals, one standard deviation.

    Neighbouring stretches of time - the halves of each rehearsal, and the rehearsals - differ by root 2 of the Allan
    deviation s of the device's speed, which for slow noise (1/f) hardly depends on how long they are. With a level of
    its own for the run and for each of n rehearsals the distance is s x root(1 + 1/n). Allan, Proc. IEEE 54 (1966).
    """
    usual = usual_ratios(taken)
    numbers = sorted({one.rehearsal for one in taken})
    whole = {n: sorted((one for one in taken if one.rehearsal == n), key=lambda one: one.start_s) for n in numbers}
    pairs = [(mine[: len(mine) // 2], mine[len(mine) // 2 :]) for mine in whole.values()]
    pairs += list(pairwise(whole.values()))
    steps = [log(relative(later, usual) / relative(before, usual)) for before, later in pairs if before and later]
    allan = sqrt(fmean(step**2 for step in steps) / 2) if steps else 0.0
    return allan * sqrt(1 + 1 / len(numbers))


def relative(taken: Sequence[Taken], usual: Mapping[Kind, float]) -> float:
    """Mean ratio over that which is usual for its kind."""
    return fmean(one.ratio / usual[one.kind] for one in taken)


def pooled_cv(taken: Sequence[Taken]) -> float:
    """Spread of ratios around the mean of their kind and rehearsal; 0 where there is one of each only."""
    groups = [[one.ratio for one in group] for group in grouped(taken)]
    squares = sum((ratio / fmean(ratios) - 1) ** 2 for ratios in groups for ratio in ratios)
    freedom = sum(len(ratios) - 1 for ratios in groups)
    return sqrt(squares / freedom) if freedom else 0.0


def slowdown(runs: Sequence[Taken]) -> dict[str, float]:
    """By device, where others share it: run times while the others run too over those alone.

    Slope of the straight line through (overlap, run time), each over the mean of its kind and rehearsal, so that the
    drift of the machine and the size of models and batches play no part. At least 1, at most the number of processes.
    """
    devices = list(dict.fromkeys(one.device for one in runs))
    return {
        device: steepness([one for one in runs if one.device == device], len(devices))
        for device in devices[1:] and devices
    }


def steepness(runs: Sequence[Taken], processes: int) -> float:
    """The same of one device."""
    groups = grouped(runs)
    overlap = np.concatenate([[one.overlap for one in group] for group in groups])
    centred = np.concatenate([centre([one.overlap for one in group]) for group in groups])
    times = np.concatenate([np.array([one.ratio for one in group]) / fmean(o.ratio for o in group) for group in groups])
    if not (squares := float(centred @ centred)):
        return 1.0
    slope = float(centred @ times) / squares
    alone = 1 - slope * float(overlap.mean())
    return min(max(1.0, 1 + slope / alone), float(processes)) if alone > 0 else float(processes)


def centre(values: Sequence[float]) -> Floats:
    """Distances from the mean."""
    return np.array(values) - fmean(values)


def grouped(taken: Sequence[Taken]) -> list[list[Taken]]:
    """By rehearsal and kind."""
    groups: dict[tuple[int, Kind], list[Taken]] = {}
    for one in taken:
        groups.setdefault((one.rehearsal, one.kind), []).append(one)
    return list(groups.values())


def run_errors(recording: Recording, speed: Speed) -> tuple[Shares, Mapping[str, BySize]]:
    """One standard deviation of run times, by model: of what all models have in common, and of each size by itself.

    Where nobody rehearsed it is what the profiles state, for all in common: a device that is slower than it was when it
    was measured is slower at everything.
    """
    if speed.run:
        return dict.fromkeys(speed.run, speed.drift), speed.run_error
    return recording.run_error, {}


def load_errors(recording: Recording, speed: Speed) -> Shares:
    """The same of load times, in common."""
    if speed.load:
        return {model: hypot(speed.drift, speed.load_error) for model in speed.load}
    return recording.load_error
