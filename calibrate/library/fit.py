"""Fits: forms through measured points, chosen by how well they predict points they have not seen. Needs no torch.

A held-out error is that of a point which was left out while form and parameters were chosen. The first and the last
point are never held out: without them they lie outside the range, where no form is used.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import nnls

from simulator.world.curves import THROUGH_POINTS, Curve, LoadTime, SmoothMaximum, curve_of

Values = tuple[float, ...]

LATENCY_FORMS = ("joined", "smooth-maximum", "interpolation", "straight-line")
"""Also for energy and training steps. The first is used where points are too few to choose, or forms are equal."""
MEMORY_FORMS = ("interpolation", "straight-line")
"""Memory grows in proportion to the batch, or in steps where a library picks another algorithm."""
CHOICE_POINTS_MIN = 5
"""One or two points that can be held out do not tell forms apart."""
BENT_POINTS_MIN = 4
"""Three points settle the three parameters of a smooth maximum whatever they are: nothing is learnt."""
HELD_OUT_MAX = 12
"""Points held out to choose a form, evenly spread. To state its error, all are."""
SHARPNESS = np.geomspace(0.5, 12.0, 97)
"""Values of p that are tried, 3 % apart: below 0.5 and above 12 no batch size tells one from the next."""

BAND_SHARE = 0.9
"""Share of points not seen that lie within the band."""
BAND_SPREAD = 0.0391
"""Held-out errors of the published series (natural logarithm, root mean square of the series' own)."""
BAND_WEIGHT = 4
"""How many held-out points of a series its band's width takes from the published series."""
BAND_FACTOR = 1.82
"""Half the band over the series' spread, so that `BAND_SHARE` lies within; `python -m benchmarks fits` derives both."""
BAND_MAX = 0.5
"""Band of a series above which it is no curve that was seen: between its points it may be half as much again."""

SAMPLES_MIN = 10
"""Fewer runs of a batch do not show its spread."""
CV_MAX = 0.1
"""Spread of run times, standard deviation over mean, above which something disturbed the runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesFit:
    """A form through measured points, and how far it errs. Errors are relative: 0.03 is 3 %."""

    form: str
    """One of `simulator.world.curves.FORMS`."""
    parameters: Mapping[str, float]
    curve: Curve
    error_mean: float | None
    """Mean over held-out points; None where there are fewer than three points."""
    error_max: float | None
    """The largest of a held-out point, or of any point against the curve through all."""
    error_max_at: float | None
    """Where that is, e.g. the batch size."""
    spread: float | None
    """Root mean square of held-out errors, natural logarithm."""
    band: float
    """The value times and over 1 + `band` contains 90 % of points in the range that were not measured."""
    knee: float | None
    """Batch size up to which a fixed cost outweighs the work; None: not enough points, or at no batch that can be."""

    def to_json(self) -> dict[str, Any]:
        """As `latency_fit` of a profile; what is not known is left out."""
        known = {
            "form": self.form,
            "parameters": dict(self.parameters),
            "error_mean": self.error_mean,
            "error_max": self.error_max,
            "error_max_at": self.error_max_at,
            "band": self.band,
        }
        return {key: _short(value) for key, value in known.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadFit:
    """Fixed part and bandwidth of a copy, and how far they err (relative)."""

    load: LoadTime
    error_mean: float
    error_max: float
    error_max_at_bytes: float

    def to_json(self) -> dict[str, float]:
        """As `measured.fits.load` of a profile."""
        return {
            "t0_s": self.load.t0_s,
            "bytes_per_s": self.load.bytes_per_s,
            "error_mean": self.error_mean,
            "error_max": self.error_max,
            "error_max_at_bytes": self.error_max_at_bytes,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class FitWork:
    """The work of a batch, and the most that the device was seen to do; None: not known."""

    flops_per_sample: float | None = None
    """A multiply-add is two."""
    bytes_per_sample: float = 0.0
    """Activations written and read again."""
    weight_bytes: float = 0.0
    """Read once a batch."""
    peak_flops: float | None = None
    """Measured at the same precision, FLOP/s."""
    peak_bytes_per_s: float | None = None
    """Measured bandwidth of the device's memory."""

    def arithmetic_share(self, batch: float, time_s: float) -> float | None:
        """Achieved over peak FLOP/s. 8 GFLOP in 4 ms on 4 TFLOP/s: 0.5."""
        if not self.flops_per_sample or not self.peak_flops:
            return None
        return self.flops_per_sample * batch / time_s / self.peak_flops

    def bandwidth_share(self, batch: float, time_s: float) -> float | None:
        """Achieved over peak bytes/s. 100 MB of weights and 1 MB a sample, 100 samples in 1 ms on 400 GB/s: 0.5."""
        moved = self.weight_bytes + self.bytes_per_sample * batch
        return moved / time_s / self.peak_bytes_per_s if moved and self.peak_bytes_per_s else None


def fit_latency(seconds: Mapping[int, float]) -> SeriesFit:
    """Run time by batch size; also for energy (joules a batch) and for training steps."""
    return fit_series(seconds, LATENCY_FORMS)


def fit_memory(size_bytes: Mapping[int, float]) -> SeriesFit:
    """Bytes in use by batch size."""
    return fit_series(size_bytes, MEMORY_FORMS)


def fit_series(points: Mapping[int, float], forms: Sequence[str]) -> SeriesFit:
    """The best of `forms` through `points`, with its errors. Points must not be below 0; a 0 is interpolated."""
    x = tuple(float(batch) for batch in sorted(points))
    y = tuple(float(points[batch]) for batch in sorted(points))
    if not x or min(y) < 0 or not all(map(math.isfinite, y)):
        raise ValueError(f"a fit needs points that are finite and not below 0, got {dict(points)}")
    if min(y) == 0:
        forms = ("interpolation",)
    return _fit(x, y, forms, held_out_errors(x, y, forms) if min(y) > 0 else {})


def _fit(x: Values, y: Values, forms: Sequence[str], held_out: Mapping[float, float]) -> SeriesFit:
    """The best form, and what the held-out errors by point say of it."""
    form = choose(x, y, forms)
    parameters = _parameters(form, x, y)
    curve = curve_of(form, x, y, parameters)
    errors_log = list(held_out.values())
    worst_at, worst = _worst(curve, held_out)
    return SeriesFit(
        form=form,
        parameters=parameters,
        curve=curve,
        error_mean=statistics.fmean(map(relative, errors_log)) if errors_log else None,
        error_max=worst,
        error_max_at=worst_at,
        spread=math.sqrt(statistics.fmean(e * e for e in errors_log)) if errors_log else None,
        band=math.expm1(band_log(errors_log)),
        knee=_knee(x, y),
    )


def relative(error_log: float) -> float:
    """Size of an error as a share: predicted over seen of e^0.01 is 1.005 %."""
    return abs(math.expm1(error_log))


def choose(x: Values, y: Values, forms: Sequence[str]) -> str:
    """The form with the least mean held-out error, of those that miss no point they know by more than their band."""
    if len(x) < BENT_POINTS_MIN and "interpolation" in forms:
        return "interpolation"
    if len(x) < CHOICE_POINTS_MIN or len(forms) == 1:
        return forms[0]
    tried: Sequence[int] = range(1, len(x) - 1)
    if len(tried) > HELD_OUT_MAX:
        step = (len(tried) - 1) / (HELD_OUT_MAX - 1)
        tried = [tried[round(k * step)] for k in range(HELD_OUT_MAX)]
    errors = {form: [_held_out(x, y, i, form) for i in tried] for form in forms}
    fitting = [form for form in forms if form in THROUGH_POINTS or _is_near(form, x, y, band_log(errors[form]))]
    return min(fitting or forms, key=lambda form: statistics.fmean(map(abs, errors[form])))


def _is_near(form: str, x: Values, y: Values, band: float) -> bool:
    """Whether a form passes all points within its band: the ends too, which are never held out."""
    curve = curve_of(form, x, y, _parameters(form, x, y))
    return all(abs(math.log(curve(batch) / value)) <= band for batch, value in zip(x, y, strict=True))


def held_out_errors(x: Values, y: Values, forms: Sequence[str]) -> dict[float, float]:
    """ln(predicted / seen) by point, the form too being chosen without the point; the ends are not held out."""
    errors = {}
    for i in range(1, len(x) - 1):
        form = choose(_without(x, i), _without(y, i), forms)
        errors[x[i]] = _held_out(x, y, i, form)
    return errors


def band_log(errors_log: Sequence[float]) -> float:
    """Half the width of the band, natural logarithm: `BAND_FACTOR` times the spread of a series.

    The spread is the root mean square of its held-out errors, and of `BAND_WEIGHT` more of the usual size. No point
    held out: 1.82 x 0.0391 = 0.071.
    """
    return BAND_FACTOR * pooled_spread(errors_log, BAND_SPREAD)


def pooled_spread(errors_log: Sequence[float], usual: float) -> float:
    """Spread of a series whose few errors alone would not show it."""
    squares = sum(e * e for e in errors_log) + BAND_WEIGHT * usual**2
    return math.sqrt(squares / (len(errors_log) + BAND_WEIGHT))


def fit_load(copies: Iterable[tuple[float, float]]) -> LoadFit:
    """`t0 + bytes / bandwidth` through (bytes, seconds), least squares of relative errors; one size has no `t0`."""
    points = [(size, time_s) for size, time_s in copies if size > 0]
    if not points or min(time_s for _, time_s in points) <= 0:
        raise ValueError("a load fit needs copies of at least 1 byte that took time")
    sizes, times = np.array(points).T
    if len(set(sizes)) > 1:
        fixed, per_byte = _line(sizes, times)
    else:
        fixed, per_byte = 0.0, float(np.mean(times / sizes))
    # Where size does not matter there is no bandwidth to be seen: the fastest copy bounds it from below.
    load = LoadTime(fixed, 1 / per_byte) if per_byte else LoadTime(0.0, float(np.max(sizes / times)))
    errors = [abs(load(size) / time_s - 1) for size, time_s in points]
    worst = max(range(len(errors)), key=errors.__getitem__)
    return LoadFit(
        load=load,
        error_mean=statistics.fmean(errors),
        error_max=errors[worst],
        error_max_at_bytes=points[worst][0],
    )


def regime(fit: SeriesFit, batch: float, work: FitWork, by_host: bool | None = None) -> str:
    """The bound of a batch: `overhead` where the host holds it up or, where nobody measured that (`by_host` is None),
    below the knee; else `arithmetic` or `bandwidth`, whichever is nearer its peak.

    `unknown` where neither can be compared with a measured peak.
    """
    below_knee = fit.knee is not None and batch < fit.knee
    if below_knee if by_host is None else by_host:
        return "overhead"
    time_s = fit.curve(batch)
    arithmetic, bandwidth = work.arithmetic_share(batch, time_s), work.bandwidth_share(batch, time_s)
    if arithmetic is None and bandwidth is None:
        return "unknown"
    return "arithmetic" if (arithmetic or 0.0) >= (bandwidth or 0.0) else "bandwidth"


def doubts(fit: SeriesFit, samples: Mapping[int, Sequence[float]], work: FitWork) -> list[str]:
    """Doubts about a latency fit and its samples (seconds by batch), each with a remedy."""
    count = len(fit.curve.x)
    few = f"Latency was measured at {count} batch size{'s' * (count != 1)}, too few to choose a form"
    unsteady = f"Between batches that were measured, latency is known within {fit.band:.0%} only"
    found = [
        _few_samples(samples),
        f"{few} and to know its error; measure at least {CHOICE_POINTS_MIN}." if count < CHOICE_POINTS_MIN else "",
        f"{unsteady}; measure more of them." if fit.band > BAND_MAX else "",
        _wide(samples),
        _no_knee(fit),
        _too_fast(fit, work),
    ]
    return [text for text in found if text]


def coefficient_of_variation(samples: Sequence[float]) -> float:
    """Standard deviation over mean; 0 for fewer than two samples. 9 and 11 ms: 0.14."""
    return statistics.stdev(samples) / statistics.fmean(samples) if len(samples) > 1 else 0.0


def smooth_maximum(x: Values, y: Values) -> SmoothMaximum:
    """That form through points, whatever other form would suit them better: its floor and slope mean something."""
    return SmoothMaximum(x, y, *_smooth(x, y))


# Forms


def _parameters(form: str, x: Values, y: Values) -> dict[str, float]:
    match form:
        case "straight-line":
            fixed, slope = _line(np.array(x), np.array(y))
            return {"fixed": _short(fixed), "slope": _short(slope)}
        case "smooth-maximum" | "joined":
            return dict(zip("acp", map(_short, _smooth(x, y)), strict=True))
        case _:
            return {}


def _line(x: "np.ndarray[Any, Any]", y: "np.ndarray[Any, Any]") -> tuple[float, float]:
    """Fixed part and slope, neither below 0, with the least squares of relative errors."""
    (fixed, slope), _ = nnls(np.stack([1 / y, x / y], axis=1), np.ones_like(y))
    return float(fixed), float(slope)


@lru_cache(maxsize=256)
def _smooth(x: Values, y: Values) -> tuple[float, float, float]:
    """a, c and p of the smooth maximum with the least squares of errors in logarithms.

    For a given p the form is linear: a^p y^-p + c^p (x/y)^p = 1. So every p is solved at once and the best is taken,
    which has no starting point to depend on.
    """
    log_x, log_y = np.log(x), np.log(y)
    p = SHARPNESS[:, None]
    mean = log_y.mean()  # in units of the mean nothing overflows
    u = np.exp(-p * (log_y - mean))
    v = np.exp(p * (log_x - log_y + mean))
    # Least squares of a^p u + c^p v = 1, a row for each p.
    u1, v1 = u.sum(1), v.sum(1)
    uu, vv, uv = (u * u).sum(1), (v * v).sum(1), (u * v).sum(1)
    determinant = np.maximum(uu * vv - uv**2, 1e-12 * uu * vv)  # 0 where floor and slope cannot be distinguished
    both_floor = (u1 * vv - v1 * uv) / determinant
    both_slope = (v1 * uu - u1 * uv) / determinant
    floor = np.maximum(np.where(both_slope <= 0, u1 / uu, both_floor), 1e-30)
    slope = np.maximum(np.where(both_floor <= 0, v1 / vv, both_slope), 1e-30)
    form = np.log(floor[:, None] + slope[:, None] * np.exp(p * log_x)) / p + mean
    shift = (log_y - form).mean(1)
    best = int(((form + shift[:, None] - log_y) ** 2).sum(1).argmin())
    sharpness = float(SHARPNESS[best])
    scale = math.exp(mean + shift[best])
    return float(floor[best] ** (1 / sharpness) * scale), float(slope[best] ** (1 / sharpness) * scale), sharpness


def _knee(x: Values, y: Values) -> float | None:
    """From a smooth maximum, whatever form was chosen: a line between points has no knee."""
    if len(x) < BENT_POINTS_MIN or min(y) <= 0:
        return None
    a, c, _ = _smooth(x, y)
    return a / c if a / c < 100 * x[-1] else None


def _short(value: Any) -> Any:
    """Seven digits: what the file holds and what the fit says are the same number."""
    return float(f"{value:.7g}") if isinstance(value, float) else value


# Holding out


def _without(values: Values, i: int) -> Values:
    return values[:i] + values[i + 1 :]


def _held_out(x: Values, y: Values, i: int, form: str) -> float:
    """ln(predicted / seen) of point `i` by a form through the others."""
    others_x, others_y = _without(x, i), _without(y, i)
    predicted = curve_of(form, others_x, others_y, _parameters(form, others_x, others_y))(x[i])
    return math.log(predicted / y[i])


def _worst(curve: Curve, held_out: Mapping[float, float]) -> tuple[float | None, float | None]:
    """Where the largest error is, and how large; of the curve's own points too, the ends being nowhere else."""
    if not held_out:
        return None, None
    own = {x: abs(curve(x) / y - 1) for x, y in zip(curve.x, curve.y, strict=True)}
    errors = {x: max(own[x], relative(held_out.get(x, 0.0))) for x in own}
    at = max(errors, key=errors.__getitem__)
    return at, errors[at]


# Doubts


def _few_samples(samples: Mapping[int, Sequence[float]]) -> str:
    few = sorted(batch for batch, times in samples.items() if len(times) < SAMPLES_MIN)
    if not few:
        return ""
    least = min(len(samples[batch]) for batch in few)
    runs = "one run shows" if least == 1 else f"{least} runs show"
    fewest = "" if len(few) == 1 else "at the fewest, "
    return f"{named_batches(few)}: {fewest}{runs} no spread, {SAMPLES_MIN} do; give each point more time."


def _wide(samples: Mapping[int, Sequence[float]]) -> str:
    spreads = {batch: coefficient_of_variation(times) for batch, times in samples.items()}
    wide = sorted(batch for batch, cv in spreads.items() if cv > CV_MAX)
    if not wide:
        return ""
    widest = max(spreads.values())
    up_to = f"{widest:.0%}"
    if up_to == f"{CV_MAX:.0%}":  # in more digits, upward: what is more must look so
        up_to = f"{math.ceil(widest * 1000) / 10:g}%"
    return (
        f"{named_batches(wide)}: run times spread by up to {up_to} of their mean, more than"
        f" {CV_MAX:.0%}; stop other work on the device, lock its clocks and measure again."
    )


def _no_knee(fit: SeriesFit) -> str:
    last = fit.curve.x[-1]
    if len(fit.curve.x) < BENT_POINTS_MIN or (fit.knee is not None and fit.knee <= last):
        return ""
    return (
        f"Up to batch {last:g} a fixed cost outweighs the work, so nothing was seen of how large batches grow;"
        " measure larger ones."
    )


def _too_fast(fit: SeriesFit, work: FitWork) -> str:
    points = list(zip(fit.curve.x, fit.curve.y, strict=True))
    shares = [(work.arithmetic_share(x, y) or 0.0, x) for x, y in points]
    share, batch = max(shares)
    if share <= 1:
        return ""
    return (
        f"Batch {batch:g}: {share:.2g} times the arithmetic that the device was seen to reach; time it with the device"
        " synchronised, at the precision named."
    )


def named_batches(batches: Sequence[int]) -> str:
    """`Batch 8`, `Batches 8, 16`."""
    return f"Batch{'es' * (len(batches) > 1)} {', '.join(map(str, batches))}"
