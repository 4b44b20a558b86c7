"""How far published trainings tell of one another where a chip, a model or a publisher is left out."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from math import exp, expm1, log
from statistics import median

import numpy as np

from planner.catalog.catalog import load_catalog
from planner.prediction.effects import chip
from planner.prediction.trainings import PLAIN, StepCase, Trainings, published_steps, trainings

HEAD = ("| left out | figures | median error | p90 | in the 80 % band |", "|---|---:|---:|---:|---:|")
LEFT_OUT: dict[str, Callable[[StepCase], str]] = {
    "a model on a chip": lambda case: f"{case.architecture} {chip(case.gpu)}",
    "a chip": lambda case: chip(case.gpu),
    "a model": lambda case: case.architecture,
    "a family of models": lambda case: case.words["family"],
    "a publisher": lambda case: case.source.partition("-v")[0],
}
SHOWN = ("resnet50", "bert_base", "bert_large")


@dataclass(frozen=True)
class StepError:
    """A published step beside what the others tell of it."""

    case: StepCase
    log_error: float
    """ln(published over told)."""
    inside: bool
    """It lies in the 80 % band."""


def left_out(known: Trainings, of: Callable[[StepCase], str]) -> Iterator[StepError]:
    """Each published step, told by those from which it differs in this."""
    groups = [of(case) for case in known.cases]
    for group in dict.fromkeys(groups):
        rest = known.without([one == group for one in groups])
        for case, log_s in zip(known.cases, known.log_s, strict=True):
            if of(case) == group:
                told = rest.predict(case)
                yield StepError(case, log_s - log(told.value), told.low <= exp(log_s) <= told.high)


@cache
def errors_without(what: str) -> list[StepError]:
    """Of all steps that are shipped, by what is left out."""
    return list(left_out(trainings(load_catalog().gpus), LEFT_OUT[what]))


def row(what: str, errors: list[StepError]) -> str:
    """A row of the table."""
    apart = [abs(error.log_error) for error in errors]
    shares = (median(apart), float(np.quantile(apart, 0.9)))
    inside = sum(error.inside for error in errors) / len(errors)
    return f"| {what} | {len(errors)} | {' | '.join(f'{expm1(a):.1%}' for a in shares)} | {inside:.0%} |"


def trainings_table() -> list[str]:
    """Errors by what was left out; then told over published throughput of each chip, which is left out."""
    rows = [*HEAD]
    for what in LEFT_OUT:
        errors = errors_without(what)
        rows.append(row(what, errors))
        if what == "a chip":
            by_kind = kinds(errors)
    return [*rows, "", "| GPU | precision | " + " | ".join(SHOWN) + " |", "|---|---|" + "---:|" * len(SHOWN), *by_kind]


def kinds(errors: list[StepError]) -> list[str]:
    """Told over published samples a second of each kind and precision, where its chip was left out."""
    ratios: dict[tuple[str, str], dict[str, list[float]]] = {}
    for error in errors:
        case = error.case
        found = ratios.setdefault((case.gpu.name, case.precision), {})
        found.setdefault(case.architecture, []).append(exp(error.log_error))
    return [
        f"| {gpu} | {precision} | " + " | ".join(ratio(found.get(model, [])) for model in SHOWN) + " |"
        for (gpu, precision), found in sorted(ratios.items())
    ]


def ratio(found: list[float]) -> str:
    """The median; a dash of none."""
    return f"{median(found):.2f}" if found else "-"


def other_software() -> list[str]:
    """Published over told time of a step, of software that teaches nothing."""
    gpus = load_catalog().gpus
    known = trainings(gpus)
    others = [step for step in published_steps() if step.software != PLAIN]
    told = [(step, known.predict(step.case(gpus))) for step in others]
    lines = (
        f"| {s.model} | {s.gpu} | {s.precision} | {s.batch} | {s.software} | {s.step_s / one.value:.2f} |"
        for s, one in told
    )
    head = "| model | GPU | precision | batch | software | published over told time |"
    return [head, "|---|---|---|---:|---|---:|", *lines]


if __name__ == "__main__":
    print("\n".join([*trainings_table(), "", *other_software()]))
