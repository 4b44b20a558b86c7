"""A plan asked for 90 % holds for what was published and left out: a few of what `benchmarks truths` prints."""

from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest

from benchmarks.making.fitting import Figure, Fit, Spreads, figures, fit
from benchmarks.making.learning import HeldOut, parts, thinned
from benchmarks.truths import LEFT_OUT, QUARTERS, Truth, interval, outcomes, shared_share, truths
from planner.catalog.catalog import load_catalog
from planner.prediction.learnt import Told, learnt

FIGURES, PLANS = 200, 1
"""Small enough for seconds: fits grow with the third power."""


@cache
def _known() -> Sequence[Figure]:
    return figures(load_catalog().gpus)


@cache
def _few() -> Fit:
    some = thinned(_known(), np.random.default_rng(3), FIGURES)
    return fit(some, Spreads(learnt().spreads, learnt().noise))


def test_plans_hold_as_often_as_was_asked() -> None:
    """Four plans at most: that all should be right is not asked, that hardly one is would refute 90 %."""
    found = list(outcomes(PLANS, fitted=_few()))
    assert found
    _, high = interval(sum(one.held for one in found), len(found))
    assert high >= 0.9


def test_what_is_left_out_is_whole_pairs_of_model_and_gpu() -> None:
    some = _few().figures
    for places in parts(LEFT_OUT, some, QUARTERS):
        left = [some[at] for at in places]
        seen = [figure for figure in some if figure not in left]
        known = {(figure.case.architecture, figure.case.gpu) for figure in seen}
        assert not known & {(figure.case.architecture, figure.case.gpu) for figure in left}
        for truth in truths(left):
            assert isinstance(truth, Truth)
            assert min(truth.latency_s) == 1
            assert len(truth.latency_s) > 1


@pytest.mark.parametrize("shared", [0.0, 0.5])
def test_the_shared_part_of_errors_is_found(shared: float) -> None:
    """Errors made of a part that all models on a GPU have in common, and one of their own."""
    rng, made = np.random.default_rng(7), []
    some = _known()
    by_gpu = {f.case.gpu: f for f in some}
    models = sorted({f.case.architecture for f in some})[:30]
    for gpu, figure in sorted(by_gpu.items()):
        together = rng.normal()
        for model in models:
            error = np.sqrt(shared) * together + np.sqrt(1 - shared) * rng.normal()
            case = figure.case.__class__(
                gpu=gpu, architecture=model, input="224", precision="fp16", runtime="pytorch", batch=8.0
            )
            of_model = figure.__class__(case, figure.gpu, "x", 0.0)
            made.append(HeldOut("", of_model, (), float(error), Told(0.0, 1.0, 1.0), learnt()))
    # The share of n GPUs' common parts has a relative spread of sqrt(2 / n).
    assert shared_share(made) == pytest.approx(shared, abs=3 * max(0.02, shared * np.sqrt(2 / len(by_gpu))))
