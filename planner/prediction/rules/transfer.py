"""Transfer: what times measured on one device say of another device, and of other models. Numbers only.

`planner.prediction.predict` knows profiles and rules; `python -m benchmarks predictions` measures how far this errs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp, log, sqrt
from statistics import fmean

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares, nnls

from calibrate.library.fit import pooled_spread, smooth_maximum
from planner.model.plan import Estimate
from planner.prediction.rules.bands import SPREAD_80, around
from simulator.world.curves import SmoothMaximum

Floats = NDArray[np.float64]

RATIO_SPREAD = 0.08
"""Of measured ratios between two GPUs (natural logarithm): public pairs err by 4 to 7 % at the median."""
ONE_RATIO_SPREAD = 0.15
"""Of a ratio from one or two probes, whatever bounds them: public pairs err by up to 24 % in one case of ten."""
SHEET_SPREAD = 0.35
"""Of a ratio of two data sheets: those err by 7 to 40 % at the median, and 24 % is that of a spread of 0.35."""
ROOFLINE_SPREAD = 0.7
"""Of a roofline from data sheets alone: operations alone err by 37 to 52 % at the median."""
FLOOR_SPREAD = 0.2
"""Of the time to launch a pass's kernels, which is the host's: between two hosts with any GPUs."""
FORM_SPREAD = 0.08
"""Of one series around the form of another, floor and slope being the same."""
LAYER_SPREAD = 0.33
"""Of a layer model from a handful of probes: half the band that holds 80 % of all other models on the RTX 3090, over
`SPREAD_80`, as `python -m benchmarks predictions` derives it."""
KNEE = 3.0
"""How sharply a curve turns at a knee that nobody measured (the power of a smooth maximum): at the knee itself it lies
26 % above its floor."""
PULL = 0.02
"""Weight of what is usual against one probe: it settles what probes leave open, and little else."""
LAYER_PULL = 0.1
"""The same in a layer model, where a handful of probes leaves more open."""
MANY = 20
"""Held-out errors that show their spread by themselves. Fewer probes agree with each other better than with the rest:
they are the models that everyone tunes for."""


# From one device to another


@dataclass(frozen=True, slots=True)
class Pair:
    """A probe: one model timed on both devices."""

    model: str
    arithmetic: float | None
    """Share of the first device's arithmetic peak that it reaches there; None where its operations are not known."""
    source_s: float
    target_s: float

    @property
    def ratio(self) -> float:
        """10 ms on one and 15 ms on the other: 1.5."""
        return self.target_s / self.source_s


@dataclass(frozen=True, slots=True)
class Ratio:
    """How much longer the second device takes: one ratio for time at the arithmetic peak, one for all other time."""

    arithmetic: float
    other: float
    spread: float
    probes: tuple[str, ...]

    def __call__(self, arithmetic: float | None) -> float:
        """A model that reaches 30 % of the peak, ratios 0.2 and 0.8: 0.3 x 0.2 + 0.7 x 0.8 = 0.62."""
        if arithmetic is None:
            return sqrt(self.arithmetic * self.other)
        share = min(arithmetic, 1.0)
        return share * self.arithmetic + (1 - share) * self.other


def measured_ratio(pairs: Sequence[Pair]) -> Ratio:
    """Both ratios from probes, and their spread from probes left out one at a time."""
    names = tuple(pair.model for pair in pairs)
    if len(pairs) < 3 or any(pair.arithmetic is None for pair in pairs):
        same = exp(fmean(log(pair.ratio) for pair in pairs))
        return Ratio(same, same, ONE_RATIO_SPREAD, names)
    left_out = [log(_two_ratios(_without(pairs, i))(p.arithmetic) / p.ratio) for i, p in enumerate(pairs)]
    found = _two_ratios(pairs)
    spread = _spread(left_out) if len(pairs) >= MANY else pooled_spread(left_out, RATIO_SPREAD)
    return Ratio(found.arithmetic, found.other, spread, names)


def _two_ratios(pairs: Sequence[Pair]) -> Ratio:
    """Non-negative least squares of relative errors, pulled a little towards one ratio for all."""
    shares = np.array([min(pair.arithmetic or 0.0, 1.0) for pair in pairs])
    ratios = np.array([pair.ratio for pair in pairs])
    usual = float(np.exp(np.log(ratios).mean()))
    rows = np.vstack([np.stack([shares, 1 - shares], axis=1) / ratios[:, None], PULL / usual * np.eye(2)])
    (arithmetic, other), _ = nnls(rows, np.append(np.ones(len(ratios)), [PULL, PULL]))
    return Ratio(float(arithmetic), float(other), 0.0, ())


def sheet_ratio(peak_flops: tuple[float, float], bytes_per_s: tuple[float, float]) -> Ratio:
    """From two data sheets, (first, second) of each rate: the mean (geometric) of both rates' ratios."""
    mean = (peak_flops[0] / peak_flops[1] * bytes_per_s[0] / bytes_per_s[1]) ** 0.5
    apart = abs(log(peak_flops[0] / peak_flops[1]) - log(bytes_per_s[0] / bytes_per_s[1])) / 2
    return Ratio(mean, mean, max(SHEET_SPREAD, apart), ())


# One model, batch by batch


def floor_and_slope(
    batches: Sequence[float], times_s: Sequence[float], work_s: float = 0.0
) -> tuple[SmoothMaximum, float]:
    """A series as a floor of overhead and a slope of work, and how well the slope is known (natural logarithm).

    One point is taken as work alone. A series that stays under its knee shows only that its work is no more than it
    took: there `work_s`, a roofline's seconds a sample, is the slope, and known as well as rooflines are.
    """
    x, y = tuple(map(float, batches)), tuple(map(float, times_s))
    if len(x) == 1:
        return SmoothMaximum(x, y, 0.0, y[0] / x[0], 1.0), 0.0
    floor_s = min(y)
    if not work_s or y[-1] >= 2 ** (1 / KNEE) * floor_s:
        return smooth_maximum(x, y), 0.0
    return SmoothMaximum(x, y, floor_s, min(work_s, y[-1] / x[-1]), KNEE), ROOFLINE_SPREAD


@dataclass(frozen=True)
class Transferred:
    """A series of one device on another: floor and slope each times a ratio that is known so well.

    What was measured on the second device narrows both ratios: the nearer a form comes to it, the more it counts.
    """

    source: SmoothMaximum
    ratio: float
    """Of slopes: of the work of a large batch."""
    ratio_spread: float
    own: tuple[tuple[float, float], ...] = ()
    """(batch, seconds) measured on the second device."""

    @cached_property
    def _grid(self) -> tuple[Floats, Floats, Floats]:
        """Logarithms of both ratios, and how likely each pair of them is."""
        units = np.linspace(-4, 4, 81)
        floor, slope = np.meshgrid(FLOOR_SPREAD * units, log(self.ratio) + self.ratio_spread * units, indexing="ij")
        weight = -(units[:, None] ** 2 + units[None, :] ** 2) / 2
        for batch, seen_s in self.own:
            weight = weight - ((self._log_time(batch, floor, slope) - log(seen_s)) / FORM_SPREAD) ** 2 / 2
        likely = np.exp(weight - weight.max())
        return floor, slope, likely / likely.sum()

    def _log_time(self, batch: float, floor: Floats, slope: Floats) -> Floats:
        form = self.source
        overhead = np.log(max(form.a, 1e-30)) + floor
        work = np.log(max(form.c * batch, 1e-30)) + slope
        joined: Floats = np.logaddexp(form.p * overhead, form.p * work) / form.p
        return joined

    def __call__(self, batch: float) -> Estimate:
        """Seconds of a batch with their 80 % band; what was measured itself is certain but for its noise."""
        if measured := dict(self.own).get(batch):
            return around(measured, 0.0)
        floor, slope, likely = self._grid
        log_times = self._log_time(batch, floor, slope)
        mean = float((likely * log_times).sum())
        variance = float((likely * (log_times - mean) ** 2).sum())
        return around(exp(mean), (variance + FORM_SPREAD**2) ** 0.5)


# Other models on one device


@dataclass(frozen=True, slots=True)
class SampleWork:
    """What one sample makes a device do, as a share of its batch."""

    flops: float
    moved_bytes: float
    """Activations read and written."""
    weight_bytes: float
    """Read once a batch: of a batch of 8, an eighth."""
    launches: float
    """Kernels started, or passes where only sums over layers are known: of a batch of 8, an eighth."""

    @classmethod
    def of(cls, flops: float, activation_bytes: float, weight_bytes: float, batch: float) -> "SampleWork":
        """Every activation is written once and read once."""
        return cls(flops, 2 * activation_bytes, weight_bytes / batch, 1 / batch)

    @property
    def terms(self) -> tuple[float, float, float, float]:
        """In the order of a layer model's costs."""
        return (self.flops, self.moved_bytes, self.weight_bytes, self.launches)


@dataclass(frozen=True, slots=True)
class LayerModel:
    """Seconds of each operation, moved byte, weight byte and launch on one device."""

    costs: tuple[float, ...]
    spread: float
    probes: tuple[str, ...]

    def __call__(self, work: SampleWork) -> Estimate:
        """Seconds of one sample."""
        return around(self.seconds(work), self.spread)

    def seconds(self, work: SampleWork) -> float:
        """2 G operations at 0.5 ps and 40 MB at 2 ps a byte: 1.08 ms."""
        return sum(cost * term for cost, term in zip(self.costs, work.terms, strict=True))


def layer_model(
    names: Sequence[str], works: Sequence[SampleWork], times_s: Sequence[float], folds: int = 5
) -> LayerModel:
    """Costs from models timed on a device, and their spread from models left out in turn."""
    terms, times = np.array([work.terms for work in works]), np.array(times_s)
    errors = held_out_errors(terms, times, fold_of(names, min(folds, len(set(names)))))
    spread = _spread(errors) if len(times) >= MANY else max(_rms(errors), LAYER_SPREAD)
    return LayerModel(tuple(map(float, layer_costs(terms, times))), spread, tuple(dict.fromkeys(names)))


def fold_of(names: Sequence[str], folds: int) -> Floats:
    """Which fold each row is in; all rows of one model are in the same, for one of them would give away the others."""
    ordered = sorted(set(names))
    places = dict(zip(ordered, np.random.default_rng(0).permutation(len(ordered)) % folds, strict=True))
    return np.array([places[name] for name in names])


def held_out_errors(terms: Floats, times: Floats, fold: Floats) -> list[float]:
    """ln(predicted / seen) of each row, by costs from the rows of other folds."""
    errors = np.empty(len(times))
    for k in np.unique(fold):
        inside = fold == k
        errors[inside] = np.log(terms[inside] @ layer_costs(terms[~inside], times[~inside]) / times[inside])
    return [float(e) for e in errors]


def layer_costs(terms: Floats, times: Floats) -> Floats:
    """Non-negative costs with the least errors in logarithms, large ones counting less than by their square.

    Pulled a little to where each term takes the same share of a middling model's time.
    """
    middling = np.median(terms, axis=0)
    used = middling > 0
    scaled = terms[:, used] / middling[used]
    usual = float(np.exp(np.median(np.log(times / scaled.sum(axis=1)))))
    count = int(used.sum())

    def errors(share: Floats) -> Floats:
        far: Floats = np.log(scaled @ share * usual / times)
        robust = np.sqrt(2 * 0.1**2 * (np.sqrt(1 + (far / 0.1) ** 2) - 1)) * np.sign(far)
        return np.append(robust, LAYER_PULL * (share - 1))

    start, _ = nnls(
        np.vstack([scaled * usual / times[:, None], LAYER_PULL * np.eye(count)]),
        np.append(np.ones(len(times)), LAYER_PULL * np.ones(count)),
    )
    best = least_squares(errors, np.maximum(start, 1e-6), bounds=(0, np.inf)).x
    costs = np.zeros(terms.shape[1])
    costs[used] = best * usual / middling[used]
    return costs


def _without(pairs: Sequence[Pair], i: int) -> Sequence[Pair]:
    return [*pairs[:i], *pairs[i + 1 :]]


def _rms(errors: Sequence[float]) -> float:
    return sqrt(fmean(e * e for e in errors))


def _spread(errors: Sequence[float]) -> float:
    """That of the band which holds 80 % of them."""
    return float(np.quantile(np.abs(errors), 0.8)) / SPREAD_80
