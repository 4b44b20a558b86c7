"""Why a study came out as it did: what moves each figure, what changes nothing, why points have no answer."""

from collections.abc import Iterator

from planner.questions.studies.results import StudyAnswer
from planner.show.document import Document, explanation
from planner.show.text.studies import (
    bracketed,
    feasible_by,
    findings,
    headline,
    joined,
    least_and_most,
    moving,
    name_of,
    number,
    numeric,
    reference,
    refusals,
    swings_title,
    title,
)
from planner.units.writing import counted
from simulator.grouping import grouped


def document(answer: StudyAnswer) -> Document:
    """The explanation, from what matters to what the figures rest on."""
    parts = {
        f"{swings_title(answer)}, and where it is best": list(findings(answer)),
        "How far each axis moves it": list(moves(answer)),
        "What decides which points are feasible": list(deciding(answer)),
        "What changes nothing": list(idle_axes(answer)),
        "What still held": list(thresholds(answer)),
        "Why points are not feasible": refusals(answer),
        "Evidence": list(evidence(answer)),
    }
    return explanation(answer.name, headline(answer), parts)


def moves(answer: StudyAnswer) -> Iterator[str]:
    """Each figure by each axis that moves it: from where to where, the others at their reference."""
    outputs = {output.name: output for output in numeric(answer)}
    moved = [s for s in answer.sensitivity if s.output in outputs and s.low_figure != s.high_figure]
    if moved and (at := reference(answer)):
        yield at
    for swing in moved:
        output = outputs[swing.output]
        low, high = number(swing.low_figure, output), number(swing.high_figure, output)
        yield f"{title(answer, output.name)} by {swing.axis}: {low} at {swing.low}, {high} at {swing.high}."


def deciding(answer: StudyAnswer) -> Iterator[str]:
    """Axes that make points feasible or not, each with how many of how many are."""
    for axis, counts in feasible_by(answer).items():
        yield f"{axis}: feasible are {least_and_most(counts)}."


def idle_axes(answer: StudyAnswer) -> Iterator[str]:
    """Axes that move no figure."""
    moved = moving(answer) | feasible_by(answer).keys()
    asked = dict.fromkeys(swing.axis for swing in answer.sensitivity)
    if idle := [axis for axis in asked if axis not in moved]:
        yield f"{', '.join(idle)}: no figure moves with it, so it need not be known well."


def thresholds(answer: StudyAnswer) -> Iterator[str]:
    """What was searched for, point by point: the last value that held, and the nearest that did not."""
    if search := answer.search:
        for point in answer.points:
            if point.threshold is not None:
                held = bracketed(point.threshold, search.unit)
                yield f"{name_of(point)}: {title(answer, 'threshold')} {held}."


def evidence(answer: StudyAnswer) -> Iterator[str]:
    """Points by the weakest evidence that their figures rest on."""
    by_evidence = grouped(
        (f"{point.evidence}, predicted" if point.predicted else point.evidence, str(i))
        for i, point in enumerate(answer.points, 1)
        if point.evidence
    )
    for kind, points in by_evidence.items():
        yield f"{kind}: {counted(len(points), 'point')}, {joined(points)}"
