"""Predictions beside figures of publications that taught nothing: they stand in `unlearnt.csv` to judge alone."""

from collections.abc import Callable
from dataclasses import dataclass
from math import log
from pathlib import Path

from benchmarks.learnt import HEAD, line
from planner.catalog.offers import load_catalog
from planner.prediction.learnt import SMALL_MAX, learnt
from planner.prediction.queries import QueryKnowledge, read_queries

FILE = Path(__file__).with_suffix(".csv")


@dataclass(frozen=True, slots=True)
class Judged:
    """A published figure and what was predicted of it."""

    repository: str
    gpu: str
    runtime: str
    small: bool
    """Whether its batch is one of up to 4."""
    size: float
    """|ln(predicted / published)|."""
    inside: bool
    """Whether the 80 % band holds it."""


def judged(path: Path = FILE) -> list[Judged]:
    """All figures, each as `planner predict` answers it."""
    known = QueryKnowledge(learnt(), load_catalog().gpus)
    return [_judged(known, row) for row in read_queries(path)]


def _judged(known: QueryKnowledge, row: dict[str, str]) -> Judged:
    answer, seen_s = known.answer(row), float(row["latency_s"])
    if answer.latency_s is None or answer.latency_low_s is None or answer.latency_high_s is None:
        raise ValueError(f"{row}: {answer.reason}")
    return Judged(
        repository=row["source"].partition("@")[0],
        gpu=row["gpu"],
        runtime=row["runtime"],
        small=int(row["batch"]) <= SMALL_MAX,
        size=abs(log(answer.latency_s / seen_s)),
        inside=answer.latency_low_s <= seen_s <= answer.latency_high_s,
    )


GROUPS: tuple[Callable[[Judged], str], ...] = (
    lambda _: "all",
    lambda one: f"- batch up to {SMALL_MAX}" if one.small else "- larger",
    lambda one: f"- {one.runtime}",
    lambda one: f"{one.repository}, {one.gpu}",
)


def unlearnt_table(some: list[Judged]) -> list[str]:
    """Markdown rows: all of them, and each group."""
    rows = []
    for of in GROUPS:
        for name in sorted({of(one) for one in some}):
            group = [one for one in some if of(one) == name]
            rows.append(line(name, [one.size for one in group], [one.inside for one in group]))
    return [*HEAD, *rows]
