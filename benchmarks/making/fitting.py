"""Fitting: effects given all published times, or all but some, as best linear unbiased predictions.

A mixed model (Henderson, Biometrics 31, 1975), made linear around its own answer a few times. Spreads of its groups of
effects are those at which the points are likeliest (marginal likelihood).
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from math import exp, log
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import cho_solve, lapack, solve_triangular
from scipy.optimize import minimize

from calibrate.io.tables import table
from calibrate.library.lookup import find_profiles
from calibrate.published import names
from calibrate.published.points import PublishedPoint, points
from planner.prediction.effects import (
    SOURCE_GROUPS,
    CaseRoofline,
    Effect,
    EffectPart,
    PredictedCase,
    effects,
    is_repository,
    least_s,
    roofline,
    source_effects,
)
from planner.prediction.learnt import OTHER_SD, Learnt, learnt
from planner.prediction.queries import QueryKnowledge, read_queries
from simulator.world.hardware import GPU
from simulator.world.profile import Profile

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
OWN = "this project"
"""Source of what this project measured."""
JUDGING = Path(__file__).parent.parent / "unlearnt.csv"
"""Figures that teach nothing."""
REPOSITORIES = Path(__file__).parent.parent / "repositories.csv"
"""Figures that documents of repositories give, each with its place."""
BATCH_MAX = 4096
"""Larger ones are lists of items, not batches of pictures."""
FULL_BATCH = 64
"""Stands for a batch that was not stated."""
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
REPOSITORY_NOISE = 0.15
"""Of figures that a repository gives: of few of them it is told how they were measured."""
PRIOR_WEIGHT = 2.0
"""Of one figure's worth of evidence for where spreads begin: a group of few effects says little of its spread."""
SEARCHES, STEPS = 3, 12
"""Searches for spreads, each around the answer of the one before, and steps of each."""
ROUNDS, SOLVED = 20, 0.002
"""Linearizations of one fit at most; a whole step that gains a smaller share is the last."""
STEP_SIZES = (1.0, 0.5, 0.25, 0.125)
"""Shares of a step that are tried until one makes effects likelier."""
DENSE_MAX = 80
"""Columns of a group up to which it is multiplied as a dense matrix."""


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
        every = chain(effects(self.case, self.roofline, self.gpu), source_effects(self.case, self.source))
        return [effect for effect in every if effect.weight]


def figures(gpus: Mapping[str, GPU]) -> list[Figure]:
    """All published points on kinds of GPU that the catalog knows, what repositories give, and what this project
    measured; no processors."""
    usable = (p for p in points() if p.gpu in gpus and not gpus[p.gpu].cores and (p.batch or 1) <= BATCH_MAX)
    published = [Figure(case_of(p), gpus[p.gpu], p.source, log(p.sample_s * (p.batch or FULL_BATCH))) for p in usable]
    return [*published, *(figure for figure, _ in repository_figures(gpus)), *measured_figures(gpus)]


def repository_figures(gpus: Mapping[str, GPU]) -> Iterator[tuple[Figure, dict[str, str]]]:
    """Those of models whose operations or times are published, each with its row; the source is the repository.

    A model that only these tell of would be predicted from its layers before it is learnt, and without them after.
    What is faster than its GPU's peak ran at another precision than was understood.
    """
    known = QueryKnowledge(learnt(), gpus)
    for row in read_queries(REPOSITORIES):
        case = known.named({**row, "gpu": names.gpu_among(row["gpu"], gpus)})
        published = names.facts_of(case.architecture, case.input)
        figure = Figure(case, gpus[case.gpu], repository(row), log(float(row["latency_s"])))
        is_published = (published and published.macs is not None) or any(points(case.architecture))
        if is_published and not is_too_fast(figure):
            yield figure, row


def is_too_fast(figure: Figure) -> bool:
    """Whether it is above the GPU's peak, even where Winograd's convolutions at fp32 leave operations out."""
    return least_s(figure.case, figure.gpu) > exp(figure.log_s)


def repository(row: Mapping[str, str]) -> str:
    """Owner and name."""
    return row["source"].partition("@")[0]


def measured_figures(gpus: Mapping[str, GPU]) -> list[Figure]:
    """Those of shipped profiles that this project measured, without networks that judge what was learnt."""
    judging = {(row["gpu"], names.architecture(row["model"])) for row in table(JUDGING)}
    profiles = find_profiles((), gpus).profiles
    own = [p for _, p in sorted(profiles.items()) if OWN in p.source]
    return [
        Figure(case, gpus[profile.gpu], OWN, log(latency_s))
        for profile in own
        if (profile.gpu, names.architecture(profile.model)) not in judging
        for case, latency_s in _cases_of(profile, gpus[profile.gpu])
    ]


def _cases_of(profile: Profile, gpu: GPU) -> Iterator[tuple[PredictedCase, float]]:
    """What was measured, and how long each batch took."""
    name, usual = names.identity(profile.model)
    size = names.input_of(name, (profile.flops_per_sample or 0.0) / 2) or usual
    for batch, latency_s in zip(profile.latency.x, profile.latency.y, strict=True):
        yield (
            PredictedCase(
                gpu=profile.gpu,
                architecture=name,
                input=size,
                precision=Learnt({}, {}, {}).precision(gpu, profile.precision, name),
                runtime=profile.runtime,
                batch=batch,
            ),
            latency_s,
        )


def case_of(point: PublishedPoint) -> PredictedCase:
    """What was measured."""
    return PredictedCase(
        gpu=point.gpu,
        architecture=point.architecture,
        input=point.input,
        precision=point.precision,
        runtime=point.runtime,
        batch=point.batch or FULL_BATCH,
        full=point.batch is None,
    )


def series_name(figure: Figure) -> str:
    """Of figures from which only the batch may differ."""
    case = figure.case
    return f"{case.architecture} {case.input} {case.gpu} {case.precision} {case.runtime}"


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

    def means(self, effects: Mapping[str, Mapping[str, tuple[float, float]]]) -> dict[str, Floats]:
        """Known effects by group and column; zero where one is not known."""
        return {
            group: np.array([effects.get(group, {}).get(key, (0.0, 0.0))[0] for key in columns])
            for group, columns in self.columns.items()
        }

    @cached_property
    def seen(self) -> Floats:
        """Logarithms of times."""
        return np.array([figure.log_s for figure in self.figures])

    def unlikely(self, means: Mapping[str, Floats], spreads: Mapping[str, float], noise: Floats) -> float:
        """Half the squares of what is left over noise, and of effects over spreads: least at the likeliest effects."""
        left = (self.seen - self._told(self._sums(means))) / noise
        return float(left @ left + sum(mean @ mean / spreads[group] ** 2 for group, mean in means.items())) / 2

    def _sums(self, means: Mapping[str, Floats]) -> dict[EffectPart, Floats]:
        sums = {part: np.zeros(len(self.figures)) for part in EffectPart}
        for group, mean in means.items():
            sums[self.parts[group]] += self.matrices[group] @ mean
        return sums

    def _told(self, sums: Mapping[EffectPart, Floats]) -> Floats:
        at = zip(self.figures, sums[EffectPart.WORK], sums[EffectPart.OVERHEAD], strict=True)
        told = [f.roofline.log_time(work, overhead, f.case.full) for f, work, overhead in at]
        return np.array(told) + sums[EffectPart.WHOLE]

    def around(self, means: Mapping[str, Floats]) -> "Linear":
        """How times follow effects near some."""
        sums = self._sums(means)
        at = list(zip(self.figures, sums[EffectPart.WORK], sums[EffectPart.OVERHEAD], strict=True))
        share = np.array([f.roofline.share(work, overhead, f.case.full) for f, work, overhead in at])
        follows = {EffectPart.WORK: share, EffectPart.OVERHEAD: 1 - share, EffectPart.WHOLE: np.ones(len(at))}
        moved = sum(follows[part] * sums[part] for part in EffectPart)
        left = self.seen - self._told(sums) + moved
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


def usual_noise(source: str) -> float:
    """Where that of a source begins."""
    return REPOSITORY_NOISE if is_repository(source) else PRIOR_NOISE


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
        return np.array([self._of_source(figure.source) for figure in some])

    def _of_source(self, source: str) -> float:
        return max(NOISE_MIN, self.noise.get(source, usual_noise(source)))


@dataclass(frozen=True)
class Fit:
    """A mixed model at its answer: what its figures say of the effects, all of them or all but some."""

    design: DesignMatrices
    linear: Linear
    spreads: Mapping[str, float]
    """Of effects, by group."""
    noise: Mapping[str, float]
    """Of figures, by source."""
    inverse: Floats
    """Of the covariance of all figures."""

    @property
    def figures(self) -> Sequence[Figure]:
        """Those that it is made of."""
        return self.design.figures

    @cached_property
    def series(self) -> list[str]:
        """Name of each one's series."""
        return [series_name(figure) for figure in self.figures]

    @cached_property
    def means(self) -> dict[str, Floats]:
        """Of all effects, by group."""
        return {group: self.spreads[group] ** 2 * (m.T @ self._weights) for group, m in self.linear.matrices.items()}

    def learnt(self) -> Learnt:
        """All effects, as all figures tell them."""
        every = {group: np.arange(matrix.shape[1]) for group, matrix in self._columns.items()}
        return self._learnt(every, self._weights, np.zeros((1, len(self._weights))))

    def without(self, left: Integers, asked: Integers) -> Learnt:
        """The effects that the figures `asked` have, as all figures but those `left` out tell them.

        That takes no second fit: where rows of a matrix go, its inverse becomes a Schur complement (Rasmussen and
        Williams, Gaussian Processes for Machine Learning, 2006, section 5.4.2). Only the tangent of the model is that
        of all figures.
        """
        rows = self.inverse[left]
        root = np.linalg.cholesky(rows[:, left])
        known = solve_triangular(root, rows, lower=True, check_finite=False)
        weights = self._weights - known.T @ solve_triangular(root, self._weights[left], lower=True)
        return self._learnt(self._told(left, asked), weights, known)

    def _told(self, left: Integers, asked: Integers) -> dict[str, Integers]:
        """Columns by group of what figures that are asked for have, and others than those left out.

        Of sources all: times are told as they find them together. What figures have is the design's to say: where all
        are work alone, the tangent has nothing of overhead, which a second fit knows none the less.
        """

        def counts(matrix: sp.csr_matrix, rows: Integers) -> Integers:
            return np.bincount(matrix[rows].indices, minlength=matrix.shape[1])

        told = {}
        for group, matrix in self.design.matrices.items():
            known = counts(matrix, left) < np.bincount(matrix.indices, minlength=matrix.shape[1])
            needed = counts(matrix, asked) > 0
            told[group] = np.flatnonzero(known & (needed | (group in SOURCE_GROUPS)))
        return told

    def _learnt(self, chosen: Mapping[str, Integers], weights: Floats, known: Floats) -> Learnt:
        """Chosen effects, where figures weigh so much; the rows of `known` are what is no longer known."""
        effects = {}
        for group, columns in chosen.items():
            matrix = self._columns[group][:, columns]
            own = self.spreads[group] ** 2
            means = own * (matrix.T @ weights)
            traces = self._traces[group][columns] - ((matrix.T @ known.T) ** 2).sum(axis=1)
            variances = np.maximum(own - own**2 * traces, 0.0)
            keys = self._keys[group]
            told = zip(columns, means, variances, strict=True)
            effects[group] = {keys[at]: (float(mean), float(variance)) for at, mean, variance in told}
        return Learnt(effects=effects, spreads=self.spreads, noise=self.noise)

    @cached_property
    def _weights(self) -> Floats:
        return self.inverse @ self.linear.left

    @cached_property
    def _traces(self) -> dict[str, Floats]:
        return self.linear.traces(self.inverse)

    @cached_property
    def _columns(self) -> dict[str, sp.csc_matrix]:
        return {group: matrix.tocsc() for group, matrix in self.linear.matrices.items()}

    @cached_property
    def _keys(self) -> dict[str, list[str]]:
        return {group: list(columns) for group, columns in self.design.columns.items()}


def fit(some: Sequence[Figure], spreads: Spreads, begin: Learnt | None = None) -> Fit:
    """Effects of all groups, given the figures. Takes n^3 operations a round, minutes for 8,000; fewer from others'.

    Gauss and Newton's steps, halved while they make things worse: at the knee between overhead and work a tangent
    says little of what is far. Where all do so, the tangent there is the last.
    """
    design = DesignMatrices(some)
    own, noise = spreads.of_groups(list(design.matrices)), spreads.of_figures(some)
    means = design.means(begin.effects if begin else {})
    unlikely = design.unlikely(means, own, noise)
    for _ in range(ROUNDS):
        linear = design.around(means)
        root = lower_root(linear.covariance(own, noise))
        weights = cho_solve((root, True), linear.left, check_finite=False)
        steps = {
            group: own[group] ** 2 * (matrix.T @ weights) - means[group] for group, matrix in linear.matrices.items()
        }
        before = unlikely
        for size in STEP_SIZES:
            moved = {group: mean + size * steps[group] for group, mean in means.items()}
            unlikely = design.unlikely(moved, own, noise)
            if unlikely < before:
                break
        else:
            break
        means = moved
        if size == 1.0 and unlikely > (1 - SOLVED) * before:
            break
    return Fit(design=design, linear=linear, spreads=own, noise=spreads.noise, inverse=inverse_of(root))


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
    """Spreads at which the figures are likeliest, by a linear model around its own answer, found anew a few times."""
    names = sorted({figure.source for figure in some})
    row = np.array([names.index(figure.source) for figure in some])
    spreads, told = Spreads({}, {}), None
    for _ in range(SEARCHES):
        fitted = fit(some, spreads, told)
        told = fitted.learnt()
        linear = fitted.linear
        groups = list(linear.matrices)
        begin = np.log(
            [spreads.of_groups(groups)[g] for g in groups] + [spreads.noise.get(n, usual_noise(n)) for n in names]
        )
        usual = np.log([PRIOR.get(g, OTHER_SD) for g in groups] + [usual_noise(n) for n in names])
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
