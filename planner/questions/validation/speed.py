"""Speed of the device and of the harness: times in the rehearsals around a run, over those of the profiles.

Profiles are measured once, and a device is not always as fast as then: others share its processor, memory or power.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise, repeat
from math import exp, hypot, log, nan, sqrt
from statistics import fmean
from typing import NamedTuple

import numpy as np

from calibrate.serving.served import FOLLOW, WAKE, Actions, launches, overlap_s
from planner.questions.validation.recording import Recording
from simulator.grouping import grouped
from simulator.rules.queues import DELAYS, Delays
from simulator.world.workload import Floats

ByModel = Mapping[str, float]
BySize = Mapping[int, float]
"""By size of the batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsedSpeed:
    """Times in the rehearsals over those of the profiles; without a rehearsal nothing is known and nothing changed."""

    run: Mapping[str, BySize] = field(default_factory=dict)
    """Run times by model and batch size, the mean of both rehearsals."""
    load: ByModel = field(default_factory=dict)
    """Load times by model, the mean of both rehearsals."""
    before: float | None = None
    """Run times right before the run, geometric mean over models and batch sizes."""
    after: float | None = None
    """Run times right after the run, geometric mean over models and batch sizes."""
    drift: float = 0.0
    """One standard deviation of the speed during the run around that of the rehearsals, a share."""
    run_error: Mapping[str, BySize] = field(default_factory=dict)
    """One standard deviation of `run`, which rests on few batches, a share."""
    load_error: float = 0.0
    """One standard deviation of `load`, of all models alike, a share."""
    cv: float | None = None
    """Coefficient of variation of one batch's run time."""
    work: ByModel = field(default_factory=dict)
    """Times of a core by stage of a pipeline, the mean of both rehearsals."""
    run_spread: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Times of single batches of a pipeline over their mean, without what they lose beside a core, by model."""
    work_spread: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Times of single items on a core over their mean, by stage: most crops take a third of the mean, a few that were
    interrupted ten times as much, and no distribution of two parameters has both."""
    slowdown: ByModel = field(default_factory=dict)
    """By device, where several processes share one: run times while the others run too, over those alone."""
    beside_core: Mapping[str, "Company"] = field(default_factory=dict)
    """By device, where a core works for a pipeline too."""


class Company(NamedTuple):
    """What a device loses beside a core."""

    slowdown: float
    """Run times while the core works, over those alone."""
    usual_share: float
    """Share of a batch's time in which it worked."""


def speeds_of(rehearsals: Sequence[Sequence[Actions]], takes: int) -> tuple[RehearsedSpeed, ...]:
    """The speed around each take, by the rehearsals right before and right after it, as far as they were made."""
    return tuple(speed_of(rehearsals[number : number + 2]) for number in range(takes))


KindOfBatch = tuple[str, int]
"""Model and batch size."""
FACTORS_MOST = 400
"""Factors that stand for all that were seen: an answer lists them, and runs have thousands of items."""
SEEN_MIN = 2
"""Batches of a kind in a rehearsal that show how much they vary."""


class TimedAction(NamedTuple):
    """One batch or load of a rehearsal."""

    rehearsal: int
    start_s: float
    device: str
    model: str
    size: int
    """Size of the batch; 0 of a load."""
    expected_s: float
    actual_s: float
    overlap: float
    """Share of its time in which other processes ran a batch, or a core worked."""

    @property
    def kind(self) -> KindOfBatch:
        """The actions that it compares with: a profile may be right for one size and wrong for another."""
        return self.model, self.size

    @property
    def ratio(self) -> float:
        """Actual over expected time."""
        return self.actual_s / self.expected_s

    def alone(self, slowdown: float) -> "TimedAction":
        """The action had it run alone: 0.3 s with others for half of it, where they double it, are 0.2 s."""
        return self._replace(actual_s=self.actual_s / (1 + (slowdown - 1) * self.overlap))


def speed_of(rehearsals: Sequence[Sequence[Actions]]) -> RehearsedSpeed:
    """The speed by the rehearsals right before and right after a run."""
    runs, loads = comparable(all_timed(rehearsals, "run")), all_timed(rehearsals, "load")
    works = all_timed(rehearsals, "work")
    if not runs:
        return RehearsedSpeed()
    slowdown = slowdowns(runs)
    alone = [action.alone(slowdown.get(action.device, 1.0)) for action in runs]
    levels = [level(alone, number) for number in range(len(rehearsals))]
    spread = pooled_cv(alone)
    beside_core = companies(rehearsals) if works else {}
    counts = Counter(action.kind for action in alone)
    mean_errors = {kind: spread / sqrt(count) for kind, count in counts.items()}
    return RehearsedSpeed(
        run=by_size(usual_ratios(alone)),
        load={model: ratio for (model, _), ratio in usual_ratios(loads).items()},
        work={stage: ratio for (stage, _), ratio in usual_ratios(works).items()},
        run_spread=spread_of_runs(rehearsals, beside_core) if works else {},
        work_spread=spread_of(works),
        before=levels[0],
        after=levels[1] if len(levels) > 1 else None,
        drift=drift_of(alone),
        run_error=by_size(mean_errors),
        load_error=pooled_cv(loads) / sqrt(max(1, len(loads))),
        cv=spread,
        slowdown=slowdown,
        beside_core=beside_core,
    )


def spread_of(actions: Sequence[TimedAction]) -> dict[str, tuple[float, ...]]:
    """Times of single actions over the mean of their kind and rehearsal, by model or stage, the least first."""
    factors: dict[str, list[float]] = {}
    for group in alike(actions):
        mean_s = fmean(action.actual_s for action in group)
        factors.setdefault(group[0].model, []).extend(action.actual_s / mean_s for action in group)
    return {name: thinned(sorted(found)) for name, found in factors.items()}


def thinned(values: Sequence[float]) -> tuple[float, ...]:
    """Means of so many equal parts of sorted values; all of fewer. Their mean stays: of 1, 2, 3 and 6 1.5 and 4.5."""
    if len(values) <= FACTORS_MOST:
        return tuple(values)
    sums = np.concatenate([[0.0], np.cumsum(values)])
    edges = np.linspace(0, len(values), FACTORS_MOST + 1)
    parts = np.diff(np.interp(edges, np.arange(len(sums)), sums)) * FACTORS_MOST / len(values)
    return tuple(parts.tolist())


def spread_of_runs(
    rehearsals: Sequence[Sequence[Actions]], beside_core: Mapping[str, Company]
) -> dict[str, tuple[float, ...]]:
    """The same of batches, without what they lose beside a core."""
    runs = comparable(all_timed(rehearsals, "run", beside="work"))
    return spread_of([run.alone(beside_core[run.device].slowdown) for run in runs])


# Actions one by one


def all_timed(rehearsals: Sequence[Sequence[Actions]], kind: str, beside: str = "run") -> list[TimedAction]:
    """Actions of a kind in all rehearsals, beside those of a kind elsewhere."""
    return [action for number, rehearsal in enumerate(rehearsals) for action in timed(number, rehearsal, kind, beside)]


def timed(number: int, rehearsal: Sequence[Actions], kind: str, beside: str) -> Iterator[TimedAction]:
    """Actions of a kind in a rehearsal, one by one."""
    for actions in rehearsal:
        if actions.kind != kind:
            continue
        others = [other for other in rehearsal if other.kind == beside and other.device != actions.device]
        columns = (actions.start_s, actions.batch.tolist(), actions.expected_s, actions.actual_s)
        for start_s, size, expected_s, actual_s in zip(*columns, strict=True):
            if not expected_s:
                continue  # a load of nothing
            both_s = sum(overlap_s(other, start_s, start_s + actual_s) for other in others)
            yield TimedAction(
                rehearsal=number,
                start_s=start_s,
                device=actions.device,
                model=actions.model,
                size=size,
                expected_s=expected_s,
                actual_s=actual_s,
                overlap=both_s / actual_s,
            )


def comparable(runs: Sequence[TimedAction]) -> list[TimedAction]:
    """Batches whose kind every rehearsal has seen more than once: else noise and drift look like a matter of size.

    A model without such a kind has its sizes thrown together, as size 0.
    """
    kinds = often_seen(runs)
    models = {model for model, _ in kinds}
    chosen = []
    for action in runs:
        if action.model not in models:
            chosen.append(action._replace(size=0))
        elif action.kind in kinds:
            chosen.append(action)
    return chosen


def often_seen(runs: Sequence[TimedAction]) -> set[KindOfBatch]:
    """Kinds that every rehearsal has seen more than once."""
    seen = Counter((action.rehearsal, action.kind) for action in runs)
    numbers = {action.rehearsal for action in runs}
    kinds = {action.kind for action in runs}
    return {kind for kind in kinds if all(seen[number, kind] >= SEEN_MIN for number in numbers)}


def alike(actions: Sequence[TimedAction]) -> list[list[TimedAction]]:
    """Actions by rehearsal and kind."""
    return list(grouped(((action.rehearsal, action.kind), action) for action in actions).values())


# Ratios


def usual_ratios(actions: Sequence[TimedAction]) -> dict[KindOfBatch, float]:
    """Time of all actions of a kind over that expected of them, the mean of the rehearsals."""
    ratios = grouped(
        (group[0].kind, sum(action.actual_s for action in group) / sum(action.expected_s for action in group))
        for group in alike(actions)
    )
    return {kind: fmean(found) for kind, found in ratios.items()}


def by_size(values: Mapping[KindOfBatch, float]) -> dict[str, dict[int, float]]:
    """Values by model, then by size, smallest first."""
    by_model: dict[str, dict[int, float]] = {}
    for (model, size), value in sorted(values.items()):
        by_model.setdefault(model, {})[size] = value
    return by_model


def of_size(known: BySize | None, size: int) -> float:
    """The factor of one batch size: on a straight line between known sizes, as the nearest beyond; 1 without any."""
    if not known:
        return 1.0
    sizes = sorted(known)
    return float(np.interp(size, sizes, [known[other] for other in sizes]))


def level(actions: Sequence[TimedAction], number: int) -> float | None:
    """Geometric mean over models and sizes of one rehearsal; None where nothing ran."""
    ratios = usual_ratios([action for action in actions if action.rehearsal == number]).values()
    return exp(fmean(map(log, ratios))) if ratios else None


def pooled_cv(actions: Sequence[TimedAction]) -> float:
    """Spread of ratios around the mean of their kind and rehearsal; 0 where there is one of each only."""
    squares, freedom = 0.0, 0
    for group in alike(actions):
        ratios = [action.ratio for action in group]
        mean = fmean(ratios)
        freedom += len(ratios) - 1
        for ratio in ratios:
            squares += (ratio / mean - 1) ** 2
    return sqrt(squares / freedom) if freedom else 0.0


# Drift


def drift_of(actions: Sequence[TimedAction]) -> float:
    """One standard deviation of the speed during a run around the mean of its rehearsals.

    Neighbouring stretches of time - the halves of each rehearsal, and the rehearsals - differ by root 2 of the Allan
    deviation s of the device's speed, which for slow noise (1/f) hardly depends on how long they are. With a level of
    its own for the run and for each of n rehearsals the distance is s x root(1 + 1/n). Allan, Proc. IEEE 54 (1966).
    """
    usual = usual_ratios(actions)
    ordered = sorted(actions, key=lambda action: (action.rehearsal, action.start_s))
    rehearsals = list(grouped((action.rehearsal, action) for action in ordered).values())
    pairs = [halves(rehearsal) for rehearsal in rehearsals] + list(pairwise(rehearsals))
    steps = [log(relative(later, usual) / relative(earlier, usual)) for earlier, later in pairs if earlier and later]
    allan = sqrt(fmean(step**2 for step in steps) / 2) if steps else 0.0
    return allan * sqrt(1 + 1 / len(rehearsals))


def halves(actions: list[TimedAction]) -> tuple[list[TimedAction], list[TimedAction]]:
    """The first half and the second."""
    middle = len(actions) // 2
    return actions[:middle], actions[middle:]


def relative(actions: Sequence[TimedAction], usual: Mapping[KindOfBatch, float]) -> float:
    """Mean ratio over that which is usual for its kind."""
    return fmean(action.ratio / usual[action.kind] for action in actions)


# Processes that share a device


def slowdowns(runs: Sequence[TimedAction]) -> dict[str, float]:
    """By device, where others share it: run times while the others run too, over those alone.

    Slope of the straight line through (overlap, run time), each over the mean of its kind and rehearsal, so that the
    drift of the machine and the size of models and batches play no part. At least 1, at most the number of processes.
    """
    devices = list(dict.fromkeys(action.device for action in runs))
    if len(devices) < 2:
        return {}
    return {
        device: steepness([action for action in runs if action.device == device], len(devices)) for device in devices
    }


def companies(rehearsals: Sequence[Sequence[Actions]]) -> dict[str, Company]:
    """By device: what it loses beside a core, as processes do beside each other."""
    runs = comparable(all_timed(rehearsals, "run", beside="work"))
    by_device = {device: [run for run in runs if run.device == device] for device in {run.device for run in runs}}
    return {
        device: Company(steepness(mine, 2), fmean(run.overlap for run in mine)) for device, mine in by_device.items()
    }


def steepness(runs: Sequence[TimedAction], processes: int) -> float:
    """The slowdown of one device."""
    groups = alike(runs)
    overlaps = [np.array([action.overlap for action in group]) for group in groups]
    ratios = [np.array([action.ratio for action in group]) for group in groups]
    centred = np.concatenate([values - fmean(values) for values in overlaps])
    times = np.concatenate([values / fmean(values) for values in ratios])
    squares = float(centred @ centred)
    if not squares:
        return 1.0
    slope = float(centred @ times) / squares
    alone = 1 - slope * float(np.concatenate(overlaps).mean())
    if alone <= 0:
        return float(processes)
    return min(max(1.0, 1 + slope / alone), float(processes))


# Errors


def run_errors(recording: Recording, speed: RehearsedSpeed) -> tuple[ByModel, Mapping[str, BySize]]:
    """One standard deviation of run times, by model: of all models in common, and of each size by itself.

    Without a rehearsal it is what the profiles state, of their fits and between their sessions, for all in common: a
    device that is slower than it was when it was measured is slower at everything.
    """
    if not speed.run:
        return recording.run_error, {}
    return dict.fromkeys(speed.run, speed.drift), speed.run_error


def load_errors(recording: Recording, speed: RehearsedSpeed) -> ByModel:
    """One standard deviation of load times, by model: of all models in common."""
    if not speed.load:
        return recording.load_error
    return dict.fromkeys(speed.load, hypot(speed.drift, speed.load_error))


ALONE = Company(1.0, 0.0)

# Harness: the time that serving for real takes between batches. No plan has it, so it is measured and allowed for.


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """Time that running for real added: from the moment a batch could run until it was started."""

    batches: int
    mean_s: float
    rehearsed_mean_s: float
    """The same in the rehearsals, which the simulation rests on; not a number where they did not keep it."""
    p99_s: float
    share: float
    """Share of the run in which a batch waited for the harness."""


@dataclass(frozen=True, slots=True)
class Harness:
    """Times (s) from the moment a batch or an item could run until it was started, by device, or by stage."""

    wake: Mapping[str, Floats] = field(default_factory=dict)
    """Of batches that found the device idle: a sleep that ends late is part of it."""
    follow: Mapping[str, Floats] = field(default_factory=dict)
    """Of batches that waited for the one before."""

    @property
    def mean_s(self) -> float:
        """Mean of all; not a number where there is none."""
        waits_s = np.concatenate([np.empty(0), *self.wake.values(), *self.follow.values()])
        return float(waits_s.mean()) if len(waits_s) else nan

    def delays(self, rng: np.random.Generator, beside_core: Mapping[str, Company]) -> dict[str, Delays]:
        """Times drawn from those seen, with repetition; and what a device loses beside a core."""
        names = dict.fromkeys([*self.wake, *self.follow, *beside_core])
        return {
            name: Delays(
                drawn(self.wake.get(name), rng), drawn(self.follow.get(name), rng), *beside_core.get(name, ALONE)
            )
            for name in names
        }


def drawn(seen_s: Floats | None, rng: np.random.Generator) -> Iterator[float]:
    """Times drawn with repetition; 0 where none was seen."""
    if seen_s is None or not len(seen_s):
        return repeat(0.0)
    return chain.from_iterable(rng.choice(seen_s, DELAYS).tolist() for _ in repeat(None))


def of_actions(actions: Sequence[Actions]) -> Harness:
    """The harness as it was while these actions happened."""
    return Harness(by_server(actions, WAKE), by_server(actions, FOLLOW))


def by_server(actions: Sequence[Actions], kind: str) -> dict[str, Floats]:
    """Times of one kind by device, of pipelines by stage: a frame that comes wakes two threads, a crop one.

    A batch that is due when the clock starts, as the first of a rehearsal is, waited for all that serving begins with:
    that happens once, and says nothing of later batches.
    """
    of_stages = any(one.kind == "work" for one in actions)
    times_s = grouped(
        (one.model if of_stages else one.device, one.actual_s[one.start_s > 0]) for one in actions if one.kind == kind
    )
    return {name: np.concatenate(found) for name, found in times_s.items()}


def harness_of(recording: Recording) -> Harness:
    """The harness as it was in the rehearsals; in a recording that did not keep that, as it was in the run."""
    return of_actions(rehearsed(recording) or recording.actions)


def rehearsed(recording: Recording) -> list[Actions]:
    """What the harness took in the rehearsals, beside the work that tells cores; none in recordings that did not keep
    it."""
    actions = list(chain.from_iterable(recording.rehearsals))
    return actions if any(one.kind in (WAKE, FOLLOW) for one in actions) else []


def overhead(recording: Recording) -> Overhead:
    """Time that the harness took in the run."""
    names = [device.id for device in recording.result.deployment.devices]
    waits_s = np.concatenate([launches(recording.actions, name) for name in names])
    if not len(waits_s):
        return Overhead(batches=0, mean_s=nan, rehearsed_mean_s=nan, p99_s=nan, share=nan)
    return Overhead(
        batches=len(waits_s),
        mean_s=float(waits_s.mean()),
        rehearsed_mean_s=of_actions(rehearsed(recording)).mean_s,
        p99_s=float(np.quantile(waits_s, 0.99)),
        share=float(waits_s.sum()) / (len(names) * recording.result.duration_s),
    )
