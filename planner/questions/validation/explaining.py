"""Why measured and simulated differ: the largest error, the times of all actions, and the most likely cause.

A cause is found by simulating the run once more with one part of it as it was: how much of the error goes then.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np

from calibrate.serving.served import Actions
from planner.questions.validation.answer import (
    ROUNDING,
    SHARES,
    Cause,
    CauseKind,
    Compared,
    Timing,
    error_of,
)
from planner.questions.validation.harness import of_actions, overhead, rehearsed
from planner.questions.validation.recording import Recording
from planner.questions.validation.simulating import Basis, OtherCosts
from planner.questions.validation.speed import RehearsedSpeed, of_size
from planner.questions.validation.takes import take_of
from simulator.world.workload import Floats

SAME = 0.02
"""Actions whose times are within this of the profile's, on average, explain nothing."""
SPREAD_OVER_STATED = 1.5
"""Spread over the stated one from which run times count as uneven."""
SPREAD_MIN = 0.01
"""Spread on top of that, so that a profile that states none does not make all run times uneven."""
EXPLAINS = 0.2
"""Least share of an error that names its cause: less is within the chance of the few runs it is told from."""
AS_EXPECTED = OtherCosts(certain=True)
"""What a cause is told from: draws of errors would only blur it."""
Simulate = Callable[[Basis, OtherCosts], Sequence[Compared]]
"""Every row, simulated with other costs."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The largest error and its most likely cause, each in a sentence."""

    largest_error: str
    likely_cause: str
    causes: tuple[Cause, ...] = ()


@dataclass(frozen=True, slots=True)
class ErringFigure:
    """The figure that errs most."""

    row: int
    """Number of its row."""
    name: str
    metric: str
    error: float

    def simulated(self, rows: Sequence[Compared]) -> float:
        """The figure as simulated."""
        return rows[self.row].simulated[self.metric]


@dataclass(frozen=True, slots=True)
class Suspect:
    """A part of the run that was not as expected, and what a simulation needs to have it as it was."""

    kind: CauseKind
    model: str
    basis: Basis
    changes: OtherCosts
    text: str


def explained(
    recording: Recording, rows: Sequence[Compared], times: Sequence[Timing], basis: Basis, simulate: Simulate
) -> Explanation:
    """The figure of all models and the device that errs most, and why."""
    errors = [
        ErringFigure(number, row.name, metric, error)
        for number, row in enumerate(rows)
        for metric, error in row.error.items()
        if isfinite(error)
    ]
    if not errors:
        return Explanation("No figure can be compared: nothing finished.", "Run it longer, or at less load.")
    worst = max(errors, key=lambda one: abs(one.error))
    if abs(worst.error) < ROUNDING:
        return Explanation("No figure errs.", "None.")
    unit = "points" if worst.metric in SHARES else "%"
    direction = "less" if worst.error < 0 else "more"
    size = figure(abs(worst.error) * 100)
    found = weighed(worst, rows, list(suspects(recording, times, basis, worst.name)), basis, simulate)
    return Explanation(
        largest_error=f"{worst.metric} of {worst.name}: simulated {size} {unit} {direction} than measured.",
        likely_cause=cause_text(found),
        causes=tuple(Cause(kind=one.kind, model=one.model, share=share) for one, share in found),
    )


def figure(value: float) -> str:
    """Three digits, or all of a large number: `2.51`, `1,770`."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


# Times of actions


def timings(recording: Recording, speeds: Sequence[RehearsedSpeed]) -> tuple[Timing, ...]:
    """Every kind of action that takes time, by model."""
    groups: dict[tuple[str, str], list[Actions]] = {}
    for actions in recording.actions:
        if len(actions.start_s) and actions.expected_s.sum() > 0:
            groups.setdefault((actions.kind, actions.model), []).append(actions)
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
    )


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
    return speed.load.get(actions.model, 1.0)


# The cause


def weighed(
    worst: ErringFigure, rows: Sequence[Compared], found: Sequence[Suspect], basis: Basis, simulate: Simulate
) -> list[tuple[Suspect, float]]:
    """Suspects with the share of the error that goes where each is simulated as it was, the most first.

    Simulated 1.0 s, measured 1.4 s, and 1.3 s with the run times as they were: they explain 0.75 of the error.
    """
    if not found:
        return []
    row = rows[worst.row]
    missing = row.measured[worst.metric] - row.simulated[worst.metric]
    before = worst.simulated(simulate(basis, AS_EXPECTED))
    shares = [(worst.simulated(simulate(one.basis, one.changes)) - before) / missing for one in found]
    known = [(one, share) for one, share in zip(found, shares, strict=True) if isfinite(share)]
    return sorted(known, key=lambda entry: -entry[1])


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
    stated = {service.model: service.replicas[0].profile.latency_cv for service in recording.result.deployment.services}
    for one in times:
        if abs(one.error) > SAME:
            changes = as_they_were(recording, one, basis)
            yield Suspect(CauseKind(one.kind), one.model, basis, changes, times_text(one))
        cv = next((speed.cv for speed in basis.speeds if speed.cv is not None), stated[one.model])
        if one.kind == "run" and one.spread > SPREAD_OVER_STATED * cv + SPREAD_MIN:
            changes = OtherCosts(cv={one.model: one.spread}, certain=True)
            yield Suspect(CauseKind.SPREAD, one.model, basis, changes, spread_text(one, cv))


def as_they_were(recording: Recording, one: Timing, basis: Basis) -> OtherCosts:
    """Times of one kind of action of one model as they were, by batch size."""
    if one.kind == "load":
        return OtherCosts(load={one.model: one.actual_s / one.expected_s}, certain=True)
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
    text = f"The harness took {real.mean_s * 1e3:.3g} ms for each batch, {real.share * 100:.2g} % of the time."
    yield Suspect(CauseKind.HARNESS, "", other, AS_EXPECTED, text)


def times_text(one: Timing) -> str:
    """`Batches of lenet took 12 % longer than expected: 1.12 ms instead of 1 ms on average (594).`"""
    actions = "Batches" if one.kind == "run" else "Loads"
    share = figure(abs(one.actual_s / one.expected_s - 1) * 100)
    direction = "longer" if one.actual_s > one.expected_s else "less"
    return (
        f"{actions} of {one.model} took {share} % {direction} than expected: {one.actual_s * 1e3:.4g} ms instead "
        f"of {one.expected_s * 1e3:.4g} ms on average ({one.count})."
    )


def spread_text(one: Timing, cv: float) -> str:
    """`Batches of lenet took 21 % more or less each time, where 5 % was expected.`"""
    return (
        f"Batches of {one.model} took {one.spread * 100:.3g} % more or less each time, where "
        f"{cv * 100:.3g} % was expected."
    )


def cause_text(found: Sequence[tuple[Suspect, float]]) -> str:
    """The first cause in a sentence, with the share that it explains; chance where none explains enough."""
    if not found:
        return f"No action differs from what was expected by more than {SAME * 100:.0f} %: chance of one run."
    suspect, share = found[0]
    if share < EXPLAINS:
        return "Nothing that differs from what was expected explains it: chance of one run."
    return f"{suspect.text} That explains {min(share, 1) * 100:.0f} % of the error."
