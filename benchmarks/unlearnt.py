"""Predictions beside figures that taught nothing.

What stands in `unlearnt.csv` judges alone: networks that this project measured, and repositories that were found after
all was learnt. Of the other repositories (`repositories.csv`) each is left out in turn.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import log
from pathlib import Path

import numpy as np

from benchmarks.learnt import HEAD, line
from benchmarks.making.fitting import REPOSITORIES, Fit, case_of, repository, repository_figures
from calibrate.published.names import gpu_among
from calibrate.published.points import points
from planner.catalog.catalog import load_catalog
from planner.prediction.effects import PredictedCase, is_repository
from planner.prediction.learnt import OWN_SOFTWARE_SD, SMALL_MAX, learnt
from planner.prediction.queries import QueryKnowledge, read_queries
from planner.prediction.rules.bands import SPREAD_80

FILE = Path(__file__).with_suffix(".csv")
GROUP_MIN = 20
"""Figures of a group that has a row of its own."""
FOLDS = 10
"""Parts of all repositories, each left out in turn."""


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
    """Figures of a file, each as `planner predict` answers it where no profile of this project does."""
    known = QueryKnowledge(learnt(), load_catalog().gpus, measured=False)
    return [_judged(known, row) for row in read_queries(path)]


def repositories_judged(fitted: Fit) -> list[Judged]:
    """Figures of repositories, each as it is answered by what all but a tenth of the repositories taught, its own among
    that tenth. Widths of bands are those that are shipped."""
    gpus = load_catalog().gpus
    rows = list(repository_figures(gpus))
    of_figures = [figure.source for figure in fitted.figures]
    owners = np.random.default_rng(0).permutation(sorted({figure.source for figure, _ in rows}))
    found = []
    for part in np.array_split(owners, FOLDS):
        left = np.flatnonzero(np.isin(of_figures, part))
        told = fitted.without(left, np.arange(len(of_figures)))
        known = QueryKnowledge(replace(told, widening=learnt().widening), gpus, measured=False)
        found += [_judged(known, row) for figure, row in rows if figure.source in part]
    return found


def _judged(known: QueryKnowledge, row: dict[str, str]) -> Judged:
    gpu = gpu_among(row["gpu"], known.gpus)  # published tables write A100 for the first kind of it
    answer, seen_s = known.answer({**row, "gpu": gpu}), float(row["latency_s"])
    if answer.latency_s is None or answer.latency_low_s is None or answer.latency_high_s is None:
        raise ValueError(f"{row}: {answer.reason}")
    return Judged(
        repository=repository(row),
        gpu=gpu,
        runtime=row["runtime"],
        small=int(row["batch"]) <= SMALL_MAX,
        size=abs(log(answer.latency_s / seen_s)),
        inside=answer.latency_low_s <= seen_s <= answer.latency_high_s,
    )


GROUPS: tuple[Callable[[Judged], str], ...] = (
    lambda _: "all",
    lambda one: f"- batch up to {SMALL_MAX}" if one.small else "- larger",
    lambda one: f"- {one.runtime}",
    lambda one: one.gpu,
    lambda one: one.repository,
)


def unlearnt_table(some: list[Judged]) -> list[str]:
    """Markdown rows: all of them, and each group; those of few figures together."""
    rows = []
    for of in GROUPS:
        count = Counter(map(of, some))
        large = sorted(name for name in count if count[name] >= GROUP_MIN)
        rows += [_row(name, [one for one in some if of(one) == name]) for name in large]
        if rest := [one for one in some if count[of(one)] < GROUP_MIN]:
            rows.append(_row(f"the other {len(count) - len(large)}", rest))
    return [*HEAD, *rows]


def timed_twice() -> list[tuple[PredictedCase, float]]:
    """Pairs of times of one batch, at one precision in one runtime, by two publishers, each with |ln(time / time)|.

    All rounds of MLPerf are one publisher, as is each repository: the first figure of each counts.
    """
    known = QueryKnowledge(learnt(), load_catalog().gpus, measured=False)
    by_case: dict[PredictedCase, dict[str, float]] = defaultdict(dict)

    def add(case: PredictedCase, publisher: str, latency_s: float) -> None:
        alike = replace(case, counted=None, batch=float(case.batch))
        by_case[alike].setdefault(publisher, log(latency_s))

    for point in points():
        if point.batch:
            add(case_of(point), point.source.partition("-v")[0], point.latency_s)
    for row in (*read_queries(REPOSITORIES), *read_queries(FILE)):
        if is_repository(row["source"]):
            case = known.named({**row, "gpu": gpu_among(row["gpu"], known.gpus)})
            add(case, repository(row), float(row["latency_s"]))
    return [
        (case, abs(one - other))
        for case, by_publisher in by_case.items()
        for one, other in combinations(by_publisher.values(), 2)
    ]


def timed_twice_table(pairs: Sequence[tuple[PredictedCase, float]]) -> list[str]:
    """Markdown rows: how far two publishers' times of one batch are apart, and how often the band of one holds both."""
    groups = {
        "all": pairs,
        f"- batch up to {SMALL_MAX}": [pair for pair in pairs if pair[0].batch <= SMALL_MAX],
        "- larger": [pair for pair in pairs if pair[0].batch > SMALL_MAX],
    }
    limit = SPREAD_80 * OWN_SOFTWARE_SD
    return [
        *HEAD,
        *(line(name, [size for _, size in some], [size <= limit for _, size in some]) for name, some in groups.items()),
    ]


def _row(name: str, some: list[Judged]) -> str:
    return line(name, [one.size for one in some], [one.inside for one in some])
