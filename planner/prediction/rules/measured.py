"""Measured: what a profile says of batches between its points and past the last."""

from collections.abc import Callable
from functools import partial
from math import hypot, log1p

from calibrate.library.fit import band_log
from calibrate.library.memory import room_in
from planner.model.plan import Estimate, Prediction, PredictionRule
from planner.prediction.rules.bands import around, past_spread
from simulator.world.profile import Evidence, Profile, weakest

BAND_90 = 1.645
"""Half of a 90 % band over the spread, of a normal distribution."""
Past = Callable[[float], Estimate]
"""Seconds of a batch past the last, of a profile whose times are known with such a spread (of natural logarithms)."""


def interpolated(
    profile: Profile, batch: float, past: Past | None = None, held_numbers: float | None = None
) -> Prediction:
    """What a profile says of a batch between its points, and past the last with a wider band.

    `past`: how it goes on there, where anything like it was learnt; on its last line else. `held_numbers`: what the
    model's layers hold at once for a sample.
    """
    past = past or partial(_straight, profile, batch)
    fit = profile.latency_fit
    half_90 = log1p(fit.band) if fit and fit.band is not None else band_log([])
    inside = profile.latency.covers(batch)
    of_sources = profile.doubt.error_sd(batch) if profile.doubt else 0.0
    exact = batch in profile.latency.x
    spread = hypot(of_sources, 0.0 if exact else half_90 / BAND_90)
    evidence = profile.latency_evidence if inside else weakest(profile.latency_evidence, Evidence.EXTRAPOLATED)
    room = room_in(profile, held_numbers, batch)
    return Prediction(
        model=profile.model,
        gpu=profile.gpu,
        precision=profile.precision,
        rule=PredictionRule.PROFILE,
        source=profile.gpu,
        probes=(),
        evidence=evidence if exact else weakest(evidence, Evidence.FITTED),
        batch_size=int(batch),
        latency_s=around(profile.latency(batch), spread) if inside else past(of_sources),
        memory_bytes=round(profile.weight_bytes + room.allocated),
        reserved_bytes=round(profile.weight_bytes + room.reserved),
        load_s=around(profile.load(profile.weight_bytes), 0.0),
        memory_evidence=profile.memory_evidence,
        runtime=profile.runtime,
    )


def _straight(profile: Profile, batch: float, spread: float) -> Estimate:
    """On its last line; of one point, in proportion."""
    x, y = profile.latency.x, profile.latency.y
    time_s = profile.latency(batch) if len(x) > 1 else y[0] * batch / x[0]
    return around(time_s, hypot(spread, past_spread(batch / x[-1])))
