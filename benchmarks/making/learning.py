"""Learning: effects from all published points together, and how far they err where something was left out.

`make learn` runs it and writes `data/learnt.json.gz`. Widths of bands are a regression on errors of what was left out.
Spreads of effects stay those of the shipped file, so that points that are mended change what they say and no more;
`--search` finds them anew, from 1,500 of the points: other draws of these move errors of left-out chips by a third.
"""

import gzip
import hashlib
import json
from argparse import ArgumentParser
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize

from benchmarks.making.fitting import (
    REPOSITORIES,
    DesignMatrices,
    Figure,
    Fit,
    Floats,
    Integers,
    Spreads,
    figures,
    fit,
    likeliest,
    measured_figures,
    series_name,
)
from calibrate.published.points import DATA as POINTS
from calibrate.published.points import sources
from planner.catalog.catalog import load_catalog
from planner.prediction.effects import chip, family, is_repository, network
from planner.prediction.learnt import FILE, SCHEMA, Learnt, Nearness, Seen, Told, learnt
from planner.prediction.rules.bands import SPREAD_80

SPREADS_FROM = 1500
"""Figures that the spreads are found from: each step takes n^3 operations."""
PUBLICATION, PUBLICATION_WEIGHT = "a publication", 4.0
"""How much more errors count where a publication was left out: software of one's own is as far from what was published
as publications are from one another."""
TRAIT_PULL = 40.0
"""Figures' worth of evidence that a trait's width is the usual one."""


# How far it errs


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A figure that a fit did not see."""

    what: str
    """What was left out with it."""
    figure: Figure
    traits: tuple[str, ...]
    """What the width of its band depends on."""
    error: float
    """ln(predicted / seen)."""
    told: Told
    """As the fit tells it, not yet widened."""
    by: Learnt
    """The fit."""

    @property
    def sd(self) -> float:
        """Of what is told."""
        return self.told.sd


class LeftOut(NamedTuple):
    """A kind of thing that is left out."""

    of: Callable[[Figure], str]
    parts: int
    """Into which what there is of it falls: with 50 it is one chip at a time, or 2 % of all else."""


LEFT_OUT: Mapping[str, LeftOut] = {
    # A quarter of all batches, so that more than one of a series is out.
    "some batches": LeftOut(lambda f: f"{f.case}", 4),
    "one precision and runtime of a model on a GPU": LeftOut(series_name, 50),
    "a model on a GPU": LeftOut(lambda f: f"{network(f.case)} {f.case.gpu}", 50),
    "a chip": LeftOut(lambda f: chip(f.gpu), 50),
    "a family of models": LeftOut(lambda f: family(network(f.case)), 50),
    PUBLICATION: LeftOut(lambda f: f.source, 50),
}


def held_out(fitted: Fit) -> Iterator[HeldOut]:
    """Every kind of thing left out in turn, from all that is left."""
    for what in LEFT_OUT:
        for left in parts(what, fitted.figures):
            yield from errors_of(what, fitted, left)
        print(what, flush=True)


def parts(what: str, some: Sequence[Figure], count: int | None = None) -> Iterator[Integers]:
    """Places of figures that are left out together."""
    named = [LEFT_OUT[what].of(figure) for figure in some]
    names = sorted(set(named))
    shuffled = np.random.default_rng(0).permutation(len(names))
    part = dict(zip(names, shuffled % (count or LEFT_OUT[what].parts), strict=True))
    of_figures = np.array([part[name] for name in named])
    yield from (np.flatnonzero(of_figures == one) for one in range(max(of_figures) + 1))


def errors_of(what: str, fitted: Fit, left: Integers, judged: Integers | None = None) -> Iterator[HeldOut]:
    """Errors of figures that are left out, or of those of them that are `judged`, drawn through what is left of the
    same series.

    Not of repositories: `benchmarks.unlearnt` judges bands by them, so they have no part in their widths.
    """
    published = np.array([not is_repository(figure.source) for figure in fitted.figures])
    held = [fitted.figures[at] for at in (left if judged is None else judged) if published[at]]
    if not held:
        return
    rest = np.setdiff1d(np.flatnonzero(published), left)
    series = {series_name(figure) for figure in held}
    beside = [at for at in rest if not fitted.figures[at].case.full and fitted.series[at] in series]
    told = fitted.without(left, np.array([*left, *beside]))
    seen: dict[str, list[Seen]] = defaultdict(list)
    for figure in (fitted.figures[at] for at in beside):
        seen[series_name(figure)].append(Seen(figure.case.batch, figure.log_s))
    for figure in held:
        moved = told.beside(figure.case, figure.gpu, seen[series_name(figure)])
        if is_predicted(figure, told.nearness(figure.case, figure.gpu)):
            of_case = told.traits(figure.case, figure.gpu, moved.regime)
            yield HeldOut(what, figure, of_case, moved.mean - figure.log_s, moved, told)


def is_predicted(figure: Figure, nearness: Nearness) -> bool:
    """Nothing is predicted of a model of which neither operations nor any time are known."""
    return figure.roofline.known or nearness is not Nearness.NEW_MODEL


def thinned(all_figures: Sequence[Figure], rng: np.random.Generator, most: int) -> list[Figure]:
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
    none. A source counts by a root of its figures, so that one with thousands does not speak for all, and so does a
    series, for what seven submit of one machine is no seven results; a whole publication left out counts most.
    """
    columns: dict[str, int] = {}
    cells: list[tuple[int, int]] = []
    for row, error in enumerate(errors):
        cells += [(row, columns.setdefault(trait, len(columns))) for trait in error.traits]
    rows, at = np.array(cells).T
    design = sp.csr_matrix((np.ones(len(cells)), (rows, at)), shape=(len(errors), len(columns)))
    pull = np.full(len(columns), TRAIT_PULL)
    pull[columns["all"]] = 0.0
    wanted = np.array([log(max(abs(e.error), 1e-4) / (SPREAD_80 * e.sd)) for e in errors])
    count = Counter((error.what, error.figure.source) for error in errors)
    alike = Counter((error.what, series_name(error.figure)) for error in errors)
    weights = np.array([count[error.what, error.figure.source] ** -0.25 for error in errors])
    weights *= [alike[error.what, series_name(error.figure)] ** -0.5 for error in errors]
    weights *= [PUBLICATION_WEIGHT if error.what == PUBLICATION else 1.0 for error in errors]
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
    """SHA-256 of what is learnt from: published points, unpacked, figures of repositories, and what this project
    measured."""
    text = gzip.decompress((POINTS / "points.csv.gz").read_bytes()) + REPOSITORIES.read_bytes()
    own = "".join(f"{series_name(f)} {f.case.batch:g} {f.log_s:.5f}\n" for f in measured_figures(load_catalog().gpus))
    return hashlib.sha256(text + own.encode()).hexdigest()


def likelier(some: Sequence[Learnt], known: Sequence[Figure], spreads: Spreads) -> Learnt:
    """Those effects that all figures speak for most. Each is near a solution of its own, for a network may be slow by
    its work or by its overhead: where a fit begins decides which one is found."""
    design = DesignMatrices(known)
    own, noise = spreads.of_groups(list(design.matrices)), spreads.of_figures(known)
    return min(some, key=lambda one: design.unlikely(design.means(one.effects), own, noise))


def learn(path: Path = FILE, search: bool = False) -> None:
    """Fit everything, see how far it errs, and write the file."""
    known = figures(load_catalog().gpus)
    print(f"{len(known):,} figures", flush=True)
    few = thinned(known, np.random.default_rng(0), SPREADS_FROM)
    spreads = likeliest(few) if search else Spreads(learnt().spreads, learnt().noise)
    fitted = fit(known, spreads, likelier((learnt(), fit(few, spreads).learnt()), known, spreads))
    content = {
        "schema": SCHEMA,
        "as_of": max(source.as_of for source in sources().values()),
        "points_sha256": digest(),
        "figures": len(known),
        "widening": widening(list(held_out(fitted))),
        "spreads": {group: round(value, 4) for group, value in fitted.spreads.items()},
        "noise": {source: round(value, 4) for source, value in spreads.noise.items()},
        "effects": {
            group: {key: [round(mean, 4), round(variance, 5)] for key, (mean, variance) in keys.items()}
            for group, keys in fitted.learnt().effects.items()
        },
    }
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(json.dumps(content, separators=(",", ":")).encode(), 9, mtime=0))
    print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, nargs="?", default=FILE, help="where what is learnt goes; the shipped file")
    parser.add_argument("--search", action="store_true", help="find spreads of effects anew")
    asked = parser.parse_args()
    learn(asked.file, search=asked.search)
