"""Learning: effects from all published points together, and how far they err where something was left out.

`make learn` runs it and writes `data/learnt.json.gz`. Effects are best linear unbiased predictions of a mixed model
(Henderson, Biometrics 31, 1975) whose spreads stand in `planner.prediction.effects`.
"""

import gzip
import hashlib
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from calibrate.published.points import DATA as POINTS
from calibrate.published.points import Point, points, sources
from planner.catalog.offers import load_catalog
from planner.prediction.effects import NOISE, SPREAD, Case, Effect, chip, effects, family, roofline
from planner.prediction.learnt import FILE, SCHEMA, SMALL_MAX, Learnt, Nearness
from planner.prediction.transfer import SPREAD_80
from simulator.world.hardware import GPU

Floats = NDArray[np.float64]
FULL_BATCH = 64
"""Stands for a batch that was not stated."""
BATCH_MAX = 4096
"""Larger ones are lists of items, not batches of pictures."""
USUAL_PRECISION = {"tensorrt": "int8"}
"""Where a source states none."""
FOLDS = 4
FIGURES_MAX = 3600
"""Of one fit that only tells how far predictions err: an eighth of the time of all."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured time as the model sees it."""

    case: Case
    gpu: GPU
    source: str
    log_s: float

    @property
    def effects(self) -> list[Effect]:
        """Those of its case, and of whoever published it."""
        told = roofline(self.case, self.gpu)
        return [*effects(self.case, told, self.gpu), Effect("source", self.source, 1.0)]

    @property
    def residual(self) -> float:
        """Logarithm of the time over the roofline's."""
        return self.log_s - roofline(self.case, self.gpu).log_time


def figures(gpus: Mapping[str, GPU]) -> list[Figure]:
    """All published points on kinds of GPU that the catalog knows."""
    usable = (p for p in points() if p.gpu in gpus and (p.batch or 1) <= BATCH_MAX)
    return [Figure(case_of(p), gpus[p.gpu], p.source, log(p.sample_s * (p.batch or FULL_BATCH))) for p in usable]


def case_of(point: Point) -> Case:
    """What was measured."""
    return Case(
        gpu=point.gpu,
        architecture=point.architecture,
        input=point.input,
        precision=point.precision or USUAL_PRECISION.get(point.runtime, "fp32"),
        runtime=point.runtime,
        batch=point.batch or FULL_BATCH,
        full=point.batch is None,
    )


@dataclass(frozen=True)
class Fitted:
    """Effects with their variances, by group and key."""

    effects: dict[str, dict[str, tuple[float, float]]]


def fit(some: Sequence[Figure]) -> Fitted:
    """Effects of all groups: means and variances, given the figures. Takes n^3 operations, a minute for 9,000."""
    columns: dict[str, dict[str, int]] = defaultdict(dict)
    cells: dict[str, list[tuple[int, int, float]]] = defaultdict(list)
    for row, figure in enumerate(some):
        for group, key, weight in figure.effects:
            if weight:
                cells[group].append((row, columns[group].setdefault(key, len(columns[group])), weight))
    designs = {group: _matrix(cells[group], len(some), len(columns[group])) for group in cells}
    together = sp.hstack([SPREAD[group] * design for group, design in designs.items()]).tocsr()
    covariance = (together @ together.T).toarray()
    covariance[np.diag_indices(len(some))] += NOISE**2
    inverse = np.linalg.inv(covariance)
    weights = inverse @ np.array([figure.residual for figure in some])
    return Fitted(
        {
            group: {
                key: (float(mean), float(variance))
                for key, mean, variance in zip(
                    columns[group], *_posterior(design, SPREAD[group] ** 2, inverse, weights), strict=True
                )
            }
            for group, design in designs.items()
        }
    )


def _matrix(cells: Sequence[tuple[int, int, float]], rows: int, columns: int) -> sp.csc_matrix:
    row, column, weight = zip(*cells, strict=True)
    return sp.csc_matrix((weight, (row, column)), shape=(rows, columns))


def _posterior(design: sp.csc_matrix, variance: float, inverse: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of each effect of a group."""
    mean = variance * (design.T @ weights)
    known = np.empty(design.shape[1])
    for column in range(design.shape[1]):
        begin, end = design.indptr[column : column + 2]
        rows, values = design.indices[begin:end], design.data[begin:end]
        known[column] = values @ inverse[np.ix_(rows, rows)] @ values
    return mean, np.maximum(variance - variance**2 * known, 0.0)


# How far it errs


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A figure that a fit did not see."""

    what: str
    """What was left out with it."""
    figure: Figure
    nearness: Nearness
    error: float
    """ln(predicted / seen)."""
    sd: float
    """As the model tells it, not yet widened."""


LEFT_OUT: Mapping[str, Callable[[Figure], str]] = {
    "some batches": lambda f: f"{f.case}",
    "one precision and runtime of a model on a GPU": lambda f: (
        f"{f.case.architecture} {f.case.gpu} {f.case.precision} {f.case.runtime}"
    ),
    "a model on a GPU": lambda f: f"{f.case.architecture} {f.case.gpu}",
    "a chip": lambda f: chip(f.case.gpu),
    "a family of models": lambda f: family(f.case.architecture),
}


def held_out(all_figures: Sequence[Figure], gpus: Mapping[str, GPU]) -> Iterator[HeldOut]:
    """Every kind of thing left out in turn, in `FOLDS` parts of what there is of it."""
    rng = np.random.default_rng(0)
    for what, of in LEFT_OUT.items():
        some = thinned(all_figures, rng)
        names = sorted({of(figure) for figure in some})
        fold = dict(zip(names, rng.permutation(len(names)) % FOLDS, strict=True))
        for part in range(FOLDS):
            seen = [figure for figure in some if fold[of(figure)] != part]
            learnt = Learnt.of(fit(seen).effects)
            for figure in some:
                if fold[of(figure)] == part:
                    told = learnt.log_time(figure.case, figure.gpu)
                    yield HeldOut(what, figure, learnt.nearness(figure.case), told.mean - figure.log_s, told.sd)


def thinned(all_figures: Sequence[Figure], rng: np.random.Generator) -> list[Figure]:
    """Figures of some architectures, all that there are of each, so that no source has more than a third of them."""
    by_source: dict[str, int] = defaultdict(int)
    by_model: dict[str, list[Figure]] = defaultdict(list)
    for figure in all_figures:
        by_model[figure.case.architecture].append(figure)
    chosen: list[Figure] = []
    for model in rng.permutation(sorted(by_model)):
        more = [f for f in by_model[str(model)] if by_source[f.source] < FIGURES_MAX // 3]
        for figure in more:
            by_source[figure.source] += 1
        chosen += more
        if len(chosen) >= FIGURES_MAX:
            break
    return chosen


def widening(errors: Sequence[HeldOut]) -> dict[str, float]:
    """By nearness and size of batch: what the told spread must be times so that the band holds 80 %.

    A source counts by the root of its figures, so that one with thousands does not speak for all.
    """
    found = {}
    for nearness in Nearness:
        for small in (True, False):
            some = [e for e in errors if e.nearness is nearness and (e.figure.case.batch <= SMALL_MAX) == small]
            if some:
                found[f"{nearness} {'small' if small else 'large'}"] = _quantile(some, 0.8) / SPREAD_80
    return found


def _quantile(errors: Sequence[HeldOut], share: float) -> float:
    """Of errors over their spreads, each weighted by one over the root of its source's figures."""
    count = Counter(e.figure.source for e in errors)
    ordered = sorted((abs(e.error) / e.sd, count[e.figure.source] ** -0.5) for e in errors)
    reached = np.cumsum([weight for _, weight in ordered])
    return ordered[int(np.searchsorted(reached, share * reached[-1]))][0]


def digest() -> str:
    """SHA-256 of the points that are learnt from, unpacked."""
    text = gzip.decompress((POINTS / "points.csv.gz").read_bytes())
    return hashlib.sha256(text).hexdigest()


def learn(path: Path = FILE) -> None:
    """Fit everything, see how far it errs, and write the file."""
    gpus = load_catalog().gpus
    known = figures(gpus)
    print(f"{len(known):,} figures")
    errors = list(held_out(known, gpus))
    fitted = fit(known)
    content = {
        "schema": SCHEMA,
        "as_of": max(source.as_of for source in sources().values()),
        "points_sha256": digest(),
        "figures": len(known),
        "widening": {name: round(value, 3) for name, value in widening(errors).items()},
        "effects": {
            group: {key: [round(mean, 4), round(variance, 5)] for key, (mean, variance) in keys.items()}
            for group, keys in fitted.effects.items()
        },
    }
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(json.dumps(content, separators=(",", ":")).encode(), 9, mtime=0))
    print(f"{path}: {path.stat().st_size:,} bytes")
    print(json.dumps(content["widening"], indent=2))


if __name__ == "__main__":
    learn(Path(sys.argv[1]) if len(sys.argv) > 1 else FILE)
