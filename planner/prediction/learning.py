"""Learning: effects from all published points together, and how far they err where something was left out.

`make learn` runs it and writes `data/learnt.json.gz`. Effects are best linear unbiased predictions of a mixed model
(Henderson, Biometrics 31, 1975), made linear around its own answer a few times. Spreads of their groups are those at
which the points are likeliest (marginal likelihood); widths of bands are a regression on errors of what was left out.
"""

import gzip
import hashlib
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import cho_solve, lapack
from scipy.optimize import minimize

from calibrate.published.points import DATA as POINTS
from calibrate.published.points import PublishedPoint, points, sources
from planner.catalog.offers import load_catalog
from planner.prediction.effects import CaseRoofline, Effect, EffectPart, PredictedCase, chip, effects, family, roofline
from planner.prediction.learnt import FILE, OTHER_SD, SCHEMA, Learnt, Nearness, Seen, traits
from planner.prediction.transfer import SPREAD_80
from simulator.world.hardware import GPU

Floats = NDArray[np.float64]
FULL_BATCH = 64
"""Stands for a batch that was not stated."""
BATCH_MAX = 4096
"""Larger ones are lists of items, not batches of pictures."""
PRIOR = {
    "mean": 1.0,
    "overhead style": 0.8,
    "overhead runtime": 0.6,
    "overhead family": 0.5,
    "overhead slope": 0.5,
    "overhead runtime precision": 0.4,
    "overhead model?": 0.4,
    "overhead model": 0.25,
    "overhead model chip": 0.25,
    "overhead runtime generation": 0.2,
    "work model?": 1.2,
    "work model input?": 0.5,
    "work family": 0.3,
    "work family runtime precision": 0.25,
    "work runtime": 0.2,
    "work model": 0.1,
    "fill runtime precision": 0.3,
    "fill": 0.2,
    "bound generation precision": 0.25,
    "bound style": 0.2,
    "slope": 0.2,
    "slope of size": 0.4,
    "slope of size generation": 0.15,
    "source gpu": 0.13,
    "work family generation": 0.03,
    "work model input": 0.03,
    "work model gpu": 0.03,
    "series": 0.03,
}
"""Where the search for spreads begins; `OTHER_SD` elsewhere."""
PRIOR_NOISE, NOISE_MIN = 0.08, 0.04
"""Where that of a source begins, and the least: figures that fit better hide what they would be off by elsewhere."""
PRIOR_WEIGHT = 2.0
"""Of one figure's worth of evidence for where spreads begin: a group of few effects says little of its spread."""
SPREADS_FROM = 1500
"""Figures that the spreads are found from: each step takes n^3 operations."""
STEPS, ROUNDS = 10, 5
"""Steps of the search for spreads, and linearizations of one fit."""
DENSE_MAX = 80
"""Columns of a group up to which it is multiplied as a dense matrix."""
FOLDS = 4
FIGURES_MAX = 2600
"""Of one fit that only tells how far predictions err: a thirtieth of the time of all."""
TRAIT_PULL = 10.0
"""Figures' worth of evidence that a trait's width is the usual one."""


@dataclass(frozen=True)
class Figure:
    """A measured time as the model sees it."""

    case: PredictedCase
    gpu: GPU
    source: str
    log_s: float

    @cached_property
    def roofline(self) -> CaseRoofline:
        """What data sheets say of it."""
        return roofline(self.case, self.gpu)

    @cached_property
    def effects(self) -> list[Effect]:
        """Those of its case, and of whoever published it, that count."""
        return [effect for effect in effects(self.case, self.roofline, self.gpu, self.source) if effect.weight]


def figures(gpus: Mapping[str, GPU]) -> list[Figure]:
    """All published points on kinds of GPU that the catalog knows; processors are none."""
    usable = (p for p in points() if p.gpu in gpus and not gpus[p.gpu].cores and (p.batch or 1) <= BATCH_MAX)
    return [Figure(case_of(p), gpus[p.gpu], p.source, log(p.sample_s * (p.batch or FULL_BATCH))) for p in usable]


def case_of(point: PublishedPoint) -> PredictedCase:
    """What was measured."""
    return PredictedCase(
        gpu=point.gpu,
        architecture=point.architecture,
        input=point.input,
        precision=point.ran_at,
        runtime=point.runtime,
        batch=point.batch or FULL_BATCH,
        full=point.batch is None,
    )


# A fit


@dataclass(frozen=True)
class DesignMatrices:
    """Figures as matrices: a column for each effect, by group."""

    figures: Sequence[Figure]

    @cached_property
    def columns(self) -> dict[str, dict[str, int]]:
        """Column of each key, by group."""
        found: dict[str, dict[str, int]] = defaultdict(dict)
        for figure in self.figures:
            for _, group, key, _ in figure.effects:
                found[group].setdefault(key, len(found[group]))
        return dict(found)

    @cached_property
    def parts(self) -> dict[str, EffectPart]:
        """What the effects of each group multiply."""
        return {effect.group: effect.part for figure in self.figures for effect in figure.effects}

    @cached_property
    def matrices(self) -> dict[str, sp.csr_matrix]:
        """Weights by figure and column, by group."""
        cells: dict[str, list[tuple[int, int, float]]] = defaultdict(list)
        for row, figure in enumerate(self.figures):
            for _, group, key, weight in figure.effects:
                cells[group].append((row, self.columns[group][key], weight))
        return {group: self._matrix(group, some) for group, some in cells.items()}

    def _matrix(self, group: str, cells: Sequence[tuple[int, int, float]]) -> sp.csr_matrix:
        row, column, weight = zip(*cells, strict=True)
        return sp.csr_matrix((weight, (row, column)), shape=(len(self.figures), len(self.columns[group])))

    def around(self, means: Mapping[str, Floats]) -> "Linear":
        """How times follow effects near some."""
        sums = {part: np.zeros(len(self.figures)) for part in EffectPart}
        for group, mean in means.items():
            sums[self.parts[group]] += self.matrices[group] @ mean
        at = list(zip(self.figures, sums[EffectPart.WORK], sums[EffectPart.OVERHEAD], strict=True))
        told = np.array([f.roofline.log_time(work, overhead, f.case.full) for f, work, overhead in at])
        share = np.array([f.roofline.share(work, overhead, f.case.full) for f, work, overhead in at])
        follows = {EffectPart.WORK: share, EffectPart.OVERHEAD: 1 - share, EffectPart.WHOLE: np.ones(len(at))}
        moved = sum(follows[part] * sums[part] for part in EffectPart)
        seen = np.array([figure.log_s for figure in self.figures])
        left = seen - told - sums[EffectPart.WHOLE] + moved
        return Linear(
            {group: sp.diags(follows[self.parts[group]]) @ matrix for group, matrix in self.matrices.items()}, left
        )


@dataclass(frozen=True)
class Linear:
    """A mixed model: what the effects have to explain, and how figures follow them."""

    matrices: Mapping[str, sp.csr_matrix]
    left: Floats

    @cached_property
    def dense(self) -> dict[str, Floats]:
        """Matrices of groups of few effects, which nearly every figure has."""
        return {group: matrix.toarray() for group, matrix in self.matrices.items() if matrix.shape[1] <= DENSE_MAX}

    def covariance(self, spreads: Mapping[str, float], noise: Floats) -> Floats:
        """Of all figures."""
        few = np.hstack([spreads[group] * matrix for group, matrix in self.dense.items()])
        total = few @ few.T
        sparse = [spreads[group] * matrix for group, matrix in self.matrices.items() if group not in self.dense]
        if sparse:
            together = sp.hstack(sparse).tocsr()
            product = (together @ together.T).tocsr()
            rows = np.repeat(np.arange(product.shape[0]), np.diff(product.indptr))
            total[rows, product.indices] += product.data
        total[np.diag_indices(len(total))] += noise**2
        return np.asarray(total)

    def traces(self, inverse: Floats) -> dict[str, Floats]:
        """By group, for each effect: its column times the inverse times its column."""
        return {
            group: np.einsum("ij,ij->j", inverse @ self.dense[group], self.dense[group])
            if group in self.dense
            else _diagonal(matrix.tocsc(), inverse)
            for group, matrix in self.matrices.items()
        }


def _diagonal(matrix: sp.csc_matrix, inverse: Floats) -> Floats:
    found = np.empty(matrix.shape[1])
    for column in range(matrix.shape[1]):
        begin, end = matrix.indptr[column : column + 2]
        rows, values = matrix.indices[begin:end], matrix.data[begin:end]
        found[column] = values @ inverse[np.ix_(rows, rows)] @ values
    return found


@dataclass(frozen=True)
class Spreads:
    """Standard deviations of effects by group, and of figures by source."""

    effects: Mapping[str, float]
    noise: Mapping[str, float]

    def of_groups(self, groups: Sequence[str]) -> dict[str, float]:
        """Of those that were not learnt, the usual one."""
        return {group: self.effects.get(group, PRIOR.get(group, OTHER_SD)) for group in groups}

    def of_figures(self, some: Sequence[Figure]) -> Floats:
        """Noise of each."""
        return np.array([max(NOISE_MIN, self.noise.get(figure.source, PRIOR_NOISE)) for figure in some])


def fit(some: Sequence[Figure], spreads: Spreads) -> Learnt:
    """Effects of all groups, given the figures. Takes n^3 operations a round, minutes for 8,000."""
    design = DesignMatrices(some)
    own = spreads.of_groups(list(design.matrices))
    means: dict[str, Floats] = {}
    for _ in range(ROUNDS):
        linear = design.around(means)
        root = lower_root(linear.covariance(own, spreads.of_figures(some)))
        weights = cho_solve((root, True), linear.left, check_finite=False)
        means = {group: own[group] ** 2 * (matrix.T @ weights) for group, matrix in linear.matrices.items()}
    known = linear.traces(inverse_of(root))
    variances = {group: np.maximum(own[group] ** 2 - own[group] ** 4 * known[group], 0.0) for group in known}
    return Learnt(
        effects={
            group: {key: (float(means[group][at]), float(variances[group][at])) for key, at in columns.items()}
            for group, columns in design.columns.items()
        },
        spreads=own,
        noise=spreads.noise,
    )


def lower_root(covariance: Floats) -> Floats:
    """Cholesky's factor of a symmetric positive matrix, which is used up."""
    root, failed = lapack.dpotrf(covariance, lower=1, overwrite_a=1)
    assert not failed
    return np.asarray(root)


def inverse_of(root: Floats) -> Floats:
    """Of the matrix whose lower root it is, which is used up."""
    half, failed = lapack.dpotri(root, lower=1, overwrite_c=1)
    assert not failed
    lower = np.tril(half)
    return np.asarray(lower + np.tril(lower, -1).T)


def likeliest(some: Sequence[Figure]) -> Spreads:
    """Spreads at which the figures are likeliest, in two rounds of a linear model around its own answer."""
    design = DesignMatrices(some)
    names = sorted({figure.source for figure in some})
    row = np.array([names.index(figure.source) for figure in some])
    spreads = Spreads({}, {})
    for _ in range(2):
        linear = design.around(_means(fit(some, spreads), design))
        groups = list(linear.matrices)
        begin = np.log(
            [spreads.of_groups(groups)[g] for g in groups] + [spreads.noise.get(n, PRIOR_NOISE) for n in names]
        )
        usual = np.log([PRIOR.get(g, OTHER_SD) for g in groups] + [PRIOR_NOISE] * len(names))
        found = minimize(
            _unlikely,
            begin,
            args=(linear, groups, row, len(names), usual),
            jac=True,
            method="L-BFGS-B",
            bounds=[(log(0.003), log(3.0))] * len(begin),
            options={"maxiter": STEPS, "maxfun": STEPS + 4},
        )
        values = [float(value) for value in np.exp(found.x)]
        spreads = Spreads(
            dict(zip(groups, values[: len(groups)], strict=True)), dict(zip(names, values[len(groups) :], strict=True))
        )
        print(f"likelihood {-found.fun:.1f}", flush=True)
    return spreads


def _means(learnt: Learnt, design: DesignMatrices) -> dict[str, Floats]:
    return {
        group: np.array([learnt.effects[group][key][0] for key in columns]) for group, columns in design.columns.items()
    }


def _unlikely(
    logs: Floats, linear: Linear, groups: Sequence[str], source: NDArray[np.int64], sources_: int, usual: Floats
) -> tuple[float, Floats]:
    """Minus the logarithm of the likelihood, with its slope by the logarithm of each spread."""
    values = np.exp(logs)
    noise = values[len(groups) :]
    covariance = linear.covariance(dict(zip(groups, values, strict=False)), noise[source])
    root = lower_root(covariance)
    log_root = np.log(np.diag(root)).sum()
    inverse = inverse_of(root)
    weights = inverse @ linear.left
    traces = linear.traces(inverse)
    slope = PRIOR_WEIGHT * (logs - usual)
    for at, group in enumerate(groups):
        pulled = linear.matrices[group].T @ weights
        slope[at] += values[at] ** 2 * (traces[group].sum() - pulled @ pulled)
    own = np.diag(inverse) - weights**2
    slope[len(groups) :] += noise**2 * np.bincount(source, own, minlength=sources_)
    unlikely = log_root + 0.5 * linear.left @ weights + 0.5 * PRIOR_WEIGHT * ((logs - usual) ** 2).sum()
    return float(unlikely), slope


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


def _series(figure: Figure) -> str:
    case = figure.case
    return f"{case.architecture} {case.input} {case.gpu} {case.precision} {case.runtime}"


LEFT_OUT: Mapping[str, Callable[[Figure], str]] = {
    "some batches": lambda f: f"{f.case}",
    "one precision and runtime of a model on a GPU": _series,
    "a model on a GPU": lambda f: f"{f.case.architecture} {f.case.gpu}",
    "a chip": lambda f: chip(f.gpu),
    "a family of models": lambda f: family(f.case.architecture),
}


def held_out(all_figures: Sequence[Figure], spreads: Spreads) -> Iterator[HeldOut]:
    """Every kind of thing left out in turn, in `FOLDS` parts of what there is of it."""
    rng = np.random.default_rng(0)
    for what in LEFT_OUT:
        for seen, left in folds(what, thinned(all_figures, rng), rng):
            yield from errors_of(what, fit(seen, spreads), left, seen)
        print(what, flush=True)


def folds(what: str, some: Sequence[Figure], rng: np.random.Generator) -> Iterator[tuple[list[Figure], list[Figure]]]:
    """Figures that a fit sees, and those that are left out with that kind of thing."""
    of = LEFT_OUT[what]
    names = sorted({of(figure) for figure in some})
    fold = dict(zip(names, rng.permutation(len(names)) % FOLDS, strict=True))
    for part in range(FOLDS):
        seen = [figure for figure in some if fold[of(figure)] != part]
        yield seen, [figure for figure in some if fold[of(figure)] == part]


def errors_of(what: str, learnt: Learnt, left: Sequence[Figure], seen: Sequence[Figure] = ()) -> Iterator[HeldOut]:
    """Errors of figures that a fit did not see, drawn through what it saw of the same series."""
    series: dict[str, list[Seen]] = defaultdict(list)
    for figure in seen:
        if not figure.case.full:
            series[_series(figure)].append(Seen(figure.case.batch, figure.log_s))
    for figure in left:
        told = learnt.beside(figure.case, figure.gpu, series[_series(figure)])
        yield HeldOut(what, figure, learnt.nearness(figure.case, figure.gpu), told.mean - figure.log_s, told.sd)


def thinned(all_figures: Sequence[Figure], rng: np.random.Generator, most: int = FIGURES_MAX) -> list[Figure]:
    """Figures of some architectures, all that there are of each, so that no source has more than a third of them."""
    by_source: dict[str, int] = defaultdict(int)
    by_model: dict[str, list[Figure]] = defaultdict(list)
    for figure in all_figures:
        by_model[figure.case.architecture].append(figure)
    chosen: list[Figure] = []
    for model in rng.permutation(sorted(by_model)):
        more = [f for f in by_model[str(model)] if by_source[f.source] < most // 3]
        for figure in more:
            by_source[figure.source] += 1
        chosen += more
        if len(chosen) >= most:
            break
    return chosen


def widening(errors: Sequence[HeldOut]) -> dict[str, float]:
    """By trait: what the logarithm of the told spread must be raised by, so that 80 % of errors lie in the band.

    A regression of the 80 % quantile (Koenker and Bassett, Econometrica 46, 1978), where each trait is pulled towards
    none. A source counts by a root of its figures, so that one with thousands does not speak for all.
    """
    columns: dict[str, int] = {}
    cells: list[tuple[int, int]] = []
    for row, error in enumerate(errors):
        cells += [(row, columns.setdefault(t, len(columns))) for t in traits(error.figure.case, error.nearness)]
    rows, at = np.array(cells).T
    design = sp.csr_matrix((np.ones(len(cells)), (rows, at)), shape=(len(errors), len(columns)))
    pull = np.full(len(columns), TRAIT_PULL)
    pull[columns["all"]] = 0.0
    wanted = np.array([log(max(abs(e.error), 1e-4) / (SPREAD_80 * e.sd)) for e in errors])
    count = Counter((error.what, error.figure.source) for error in errors)
    weights = np.array([count[error.what, error.figure.source] ** -0.25 for error in errors])
    weights *= len(errors) / weights.sum()
    found = minimize(
        _pinball, np.zeros(len(columns)), args=(design, wanted, weights, pull), jac=True, method="L-BFGS-B"
    )
    return {trait: round(float(found.x[column]), 3) for trait, column in columns.items()}


def _pinball(
    raised: Floats, design: sp.csr_matrix, wanted: Floats, weights: Floats, pull: Floats
) -> tuple[float, Floats]:
    """Loss of the 80 % quantile, smooth within 0.1, with its slope."""
    share, smooth = 0.8, 0.1
    over = wanted - design @ raised
    loss = share * over + smooth * np.logaddexp(0.0, -over / smooth)
    slope = share - 1 / (1 + np.exp(np.clip(over / smooth, -500, 500)))
    unlikely = float(weights @ loss + 0.5 * pull @ raised**2)
    return unlikely, -design.T @ (weights * slope) + pull * raised


def digest() -> str:
    """SHA-256 of the points that are learnt from, unpacked."""
    text = gzip.decompress((POINTS / "points.csv.gz").read_bytes())
    return hashlib.sha256(text).hexdigest()


def learn(path: Path = FILE) -> None:
    """Fit everything, see how far it errs, and write the file."""
    known = figures(load_catalog().gpus)
    print(f"{len(known):,} figures", flush=True)
    spreads = likeliest(thinned(known, np.random.default_rng(0), SPREADS_FROM))
    errors = list(held_out(known, spreads))
    fitted = fit(known, spreads)
    content = {
        "schema": SCHEMA,
        "as_of": max(source.as_of for source in sources().values()),
        "points_sha256": digest(),
        "figures": len(known),
        "widening": widening(errors),
        "spreads": {group: round(value, 4) for group, value in fitted.spreads.items()},
        "noise": {source: round(value, 4) for source, value in spreads.noise.items()},
        "effects": {
            group: {key: [round(mean, 4), round(variance, 5)] for key, (mean, variance) in keys.items()}
            for group, keys in fitted.effects.items()
        },
    }
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(json.dumps(content, separators=(",", ":")).encode(), 9, mtime=0))
    print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    learn(Path(sys.argv[1]) if len(sys.argv) > 1 else FILE)
