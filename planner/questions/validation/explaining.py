"""Why measured and simulated differ: the largest error, the times of all actions, and what explains most of it.

A cause is found by simulating the run once more with one part of it as it was: how much of the error goes then.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np

from calibrate.serving.served import Actions
from planner.questions.validation.answer import (
    EXPLAINS,
    ROUNDING,
    SAME,
    Cause,
    CauseKind,
    Compared,
    ErringFigure,
    Timing,
    error_of,
)
from planner.questions.validation.recording import Recording
from planner.questions.validation.simulating import Basis, OtherCosts
from planner.questions.validation.speed import RehearsedSpeed, of_actions, of_size, overhead, rehearsed
from planner.questions.validation.takes import take_of
from simulator.grouping import grouped
from simulator.world.workload import Floats

SPREAD_OVER_STATED = 1.5
"""Spread over the stated one from which run times count as uneven."""
SPREAD_MIN = 0.01
"""Spread on top of that, so that a profile that states none does not make all run times uneven."""
AS_EXPECTED = OtherCosts(certain=True)
"""What a cause is told from: draws of errors would only blur it."""
Simulate = Callable[[Basis, OtherCosts], Sequence[Compared]]
"""Every row, simulated with other costs."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A part of the run that was not as expected, and what a simulation needs to have it as it was."""

    kind: CauseKind
    model: str
    basis: Basis
    changes: OtherCosts


def largest_error(rows: Sequence[Compared]) -> ErringFigure | None:
    """The figure of all models and the device that errs most; None where none can be compared."""
    figures = [
        ErringFigure(name=row.name, metric=metric, error=error)
        for row in rows
        for metric, error in row.error.items()
        if isfinite(error)
    ]
    return max(figures, key=lambda one: abs(one.error), default=None)


def causes_of(
    worst: ErringFigure,
    recording: Recording,
    rows: Sequence[Compared],
    times: Sequence[Timing],
    basis: Basis,
    simulate: Simulate,
) -> tuple[Cause, ...]:
    """Whatever was not as expected, with the share of the largest error that it explains, the most first."""
    if abs(worst.error) < ROUNDING:
        return ()
    found = list(suspects(recording, times, basis, worst.name))
    if not found:
        return ()
    row = row_of(worst, rows)
    missing = row.measured[worst.metric] - row.simulated[worst.metric]
    before = row_of(worst, simulate(basis, AS_EXPECTED)).simulated[worst.metric]
    others = [row_of(worst, simulate(one.basis, one.changes)).simulated[worst.metric] for one in found]
    shares = [(simulated - before) / missing for simulated in others]
    causes = [
        Cause(kind=one.kind, model=one.model, share=share)
        for one, share in zip(found, shares, strict=True)
        if isfinite(share)
    ]
    return tuple(sorted(causes, key=lambda cause: -cause.share))


def likely(causes: Sequence[Cause]) -> Cause | None:
    """The first cause; None where it explains so little that chance is as likely."""
    return causes[0] if causes and causes[0].share >= EXPLAINS else None


# Times of actions


def timings(recording: Recording, speeds: Sequence[RehearsedSpeed]) -> tuple[Timing, ...]:
    """Every kind of action that takes time, by model."""
    timed = [actions for actions in recording.actions if len(actions.start_s) and actions.expected_s.sum() > 0]
    groups = grouped(((actions.kind, actions.model), actions) for actions in timed)
    return tuple(timing(recording, actions, speeds) for actions in groups.values())


def timing(recording: Recording, groups: Sequence[Actions], speeds: Sequence[RehearsedSpeed]) -> Timing:
    """One kind of action of one model, expected to take its profile's time at the speed of the rehearsals."""
    expected_s = np.concatenate([expected(recording, actions, speeds) for actions in groups])
    actual_s = np.concatenate([actions.actual_s for actions in groups])
    known = expected_s > 0
    ratios = actual_s[known] / expected_s[known]
    return Timing(
        kind=groups[0].kind,
        model=groups[0].model,
        count=len(expected_s),
        expected_s=float(expected_s.mean()),
        actual_s=float(actual_s.mean()),
        error=error_of("", float(expected_s.mean()), float(actual_s.mean())),
        spread=float(ratios.std()),
        expected_spread=stated_spread(recording, groups[0].model, speeds) if groups[0].kind == "run" else None,
    )


def stated_spread(recording: Recording, model: str, speeds: Sequence[RehearsedSpeed]) -> float:
    """Spread of a model's batches as its rehearsals have it; without any, as its profile states it."""
    rehearsed_cv = next((speed.cv for speed in speeds if speed.cv is not None), None)
    if rehearsed_cv is not None:
        return rehearsed_cv
    services = recording.result.deployment.services
    return next(one.replicas[0].profile.latency_cv for one in services if one.model == model)


def expected(recording: Recording, actions: Actions, speeds: Sequence[RehearsedSpeed]) -> Floats:
    """Time of each action (s) by its profile, at the speed of the rehearsals around its take."""
    takes = take_of(actions.start_s, recording.lasts_s).tolist()
    factors = [factor(speeds[take], actions, size) for take, size in zip(takes, actions.batch.tolist(), strict=True)]
    times_s: Floats = actions.expected_s * np.array(factors)
    return times_s


def factor(speed: RehearsedSpeed, actions: Actions, size: int) -> float:
    """Time of an action at this speed over that of its profile."""
    if actions.kind == "run":
        return of_size(speed.run.get(actions.model), size)
    times = speed.work if actions.kind == "work" else speed.load
    return times.get(actions.model, 1.0)


# The cause


def row_of(figure: ErringFigure, rows: Sequence[Compared]) -> Compared:
    """The row of the model or device that a figure is of."""
    return next(row for row in rows if row.name == figure.name)


def suspects(recording: Recording, times: Sequence[Timing], basis: Basis, name: str) -> Iterator[Suspect]:
    """Whatever was not as expected: of the model whose figure errs, the harness, then of the others.

    Of two that explain as much, the first is named.
    """
    own = [one for one in times if one.model == name]
    yield from of_times(recording, own, basis)
    yield from of_harness(recording, basis)
    yield from of_times(recording, [one for one in times if one.model != name], basis)


def of_times(recording: Recording, times: Sequence[Timing], basis: Basis) -> Iterator[Suspect]:
    """Actions that took longer or less than expected, and batches whose times spread more."""
    for one in times:
        if abs(one.error) > SAME:
            changes = as_they_were(recording, one, basis)
            yield Suspect(CauseKind(one.kind), one.model, basis, changes)
        stated = one.expected_spread
        if stated is not None and one.spread > SPREAD_OVER_STATED * stated + SPREAD_MIN:
            changes = OtherCosts(cv={one.model: one.spread}, certain=True)
            yield Suspect(CauseKind.SPREAD, one.model, basis, changes)


def as_they_were(recording: Recording, one: Timing, basis: Basis) -> OtherCosts:
    """Times of one kind of action of one model as they were, by batch size."""
    if one.kind == "load":
        return OtherCosts(load={one.model: one.actual_s / one.expected_s}, certain=True)
    if one.kind == "work":
        return OtherCosts(work={one.model: one.actual_s / one.expected_s}, certain=True)
    mine = [actions for actions in recording.actions if (actions.kind, actions.model) == (one.kind, one.model)]
    sizes = np.concatenate([actions.batch for actions in mine])
    actual_s = np.concatenate([actions.actual_s for actions in mine])
    expected_s = np.concatenate([expected(recording, actions, basis.speeds) for actions in mine])
    ratios = {
        int(size): float(actual_s[sizes == size].sum() / expected_s[sizes == size].sum()) for size in np.unique(sizes)
    }
    return OtherCosts(run={one.model: ratios}, certain=True)


def of_harness(recording: Recording, basis: Basis) -> Iterator[Suspect]:
    """The harness, which was another in the run than in the rehearsals."""
    real = overhead(recording)
    if not real.batches or not rehearsed(recording):
        return
    other = Basis(speeds=basis.speeds, harness=of_actions(recording.actions))
    yield Suspect(CauseKind.HARNESS, "", other, AS_EXPECTED)
