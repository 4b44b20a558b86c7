"""Measured: what a profile says of batches between its points and past the last."""

from math import hypot, log1p

from calibrate.library.fit import band_log
from calibrate.library.memory import room_in
from planner.model.plan import Estimate, Prediction, PredictionRule
from planner.prediction.rules.bands import around, at_least, past_spread, raised, wider
from planner.prediction.rules.carrying import REACHED
from planner.prediction.rules.transfer import Transferred, floor_and_slope
from simulator.world.hardware import GPU
from simulator.world.profile import Evidence, Profile, weakest

BAND_90 = 1.645
"""Half of a 90 % band over the spread, of a normal distribution."""


def interpolated(
    profile: Profile, batch: float, gpu: GPU | None = None, held_numbers: float | None = None
) -> Prediction:
    """What a profile says of a batch between its points, and past the last with a wide band.

    `held_numbers`: what the model's layers hold at once for a sample.
    """
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
        latency_s=around(profile.latency(batch), spread) if inside else _past(profile, batch, gpu, of_sources),
        memory_bytes=round(profile.weight_bytes + room.allocated),
        reserved_bytes=round(profile.weight_bytes + room.reserved),
        load_s=around(profile.load(profile.weight_bytes), 0.0),
        memory_evidence=profile.memory_evidence,
        runtime=profile.runtime,
    )


def _past(profile: Profile, batch: float, gpu: GPU | None, of_sources: float) -> Estimate:
    """The time of a batch past the last measured one; of a series under its knee it follows a roofline's slope.

    The middle lies no lower than a GPU's usual share of its peak, or the share that the series reached.
    """
    beyond = batch / profile.latency.x[-1]
    usual = around(profile.latency(batch), hypot(of_sources, past_spread(beyond)))
    if gpu is None or profile.flops_per_sample is None:
        return usual
    peak = gpu.peak_flops(profile.precision)
    x, y = profile.latency.x, profile.latency.y
    reached = max(profile.flops_per_sample * b / t / peak for b, t in zip(x, y, strict=True))
    form, spread = floor_and_slope(x, y, profile.flops_per_sample / (REACHED * peak))
    time_s = wider(Transferred(form, 1.0, spread)(batch), beyond) if spread else usual
    work_s = profile.flops_per_sample * batch / peak
    return raised(at_least(time_s, work_s / max(1.0, reached)), work_s / max(REACHED, reached))
