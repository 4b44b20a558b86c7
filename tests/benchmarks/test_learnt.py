"""Errors of what was left out are judged in the bands that are told of it."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from math import log

import numpy as np
import pytest

from benchmarks.learnt import PAIR, held_out_with_bands, in_bands
from benchmarks.making.fitting import Spreads, figures, fit
from benchmarks.making.learning import PUBLICATION, HeldOut, errors_of, parts, thinned
from planner.catalog.catalog import load_catalog
from planner.prediction.learnt import OWN_SOFTWARE_SD, learnt
from planner.prediction.rules.bands import SPREAD_80

FIGURES, PARTS = 200, 4
"""Small enough for seconds: fits grow with the third power."""


@cache
def _errors(what: str) -> Sequence[HeldOut]:
    some = thinned(figures(load_catalog().gpus), np.random.default_rng(3), FIGURES)
    fitted = fit(some, Spreads(learnt().spreads, learnt().noise))
    return [error for left in islice(parts(what, some), PARTS) for error in errors_of(what, fitted, left)]


@pytest.mark.parametrize("own_software_sd", [0.0, OWN_SOFTWARE_SD])
def test_bands_are_those_that_are_predicted(own_software_sd: float) -> None:
    found = in_bands(_errors(PAIR), learnt().widening, own_software_sd)
    assert found
    for error in found:
        known = replace(error.by, widening=learnt().widening, own_software_sd=own_software_sd)
        estimate = known.predict(error.figure.case, error.figure.gpu)
        assert error.sd == pytest.approx(log(estimate.high / estimate.value) / SPREAD_80)


def test_a_publication_left_out_is_judged_beside_ones_own_software() -> None:
    errors = _errors(PUBLICATION)
    of_model = held_out_with_bands([replace(error, what=PAIR) for error in errors])
    assert min(error.sd for error in held_out_with_bands(errors)) > OWN_SOFTWARE_SD
    assert min(error.sd for error in of_model) < OWN_SOFTWARE_SD
