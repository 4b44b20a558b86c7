"""Bands: estimates with an 80 % band, and what is done with them: added, joined, widened, read between points."""

from collections.abc import Mapping
from dataclasses import astuple, replace
from enum import Enum
from math import exp, hypot, log, log2

from planner.model.plan import Estimate
from simulator.world.curves import Interpolated

SPREAD_80 = 1.2816
"""Half of an 80 % band over the spread, of a normal distribution."""
SAME = 1e-9
"""Times that differ by a smaller share are equal but for rounding, and so are logarithms by less."""
PAST_SPREAD = 0.25
"""Of a curve at twice its largest measured batch and beyond: every form is off by 3 to 50 % there."""


class End(float, Enum):
    """Ends of an 80 % band, in standard deviations."""

    LOW = -SPREAD_80
    VALUE = 0.0
    HIGH = SPREAD_80


def around(value: float, spread: float) -> Estimate:
    """A value with its 80 % band. 10 ms at a spread of 0.1: 8.8 to 11.4 ms."""
    half = exp(SPREAD_80 * spread)
    return Estimate(value=value, low=value / half, high=value * half)


def low_end_at_least(known: Estimate, least: float) -> Estimate:
    """What somebody timed, with a band that begins no lower than can be."""
    return replace(known, low=min(known.value, max(known.low, least)))


def at_least(estimate: Estimate, least: float) -> Estimate:
    """No time is below operations over the peak: 4 ms (2 to 8) at least 5 is 5 ms (5 to 10)."""
    value = max(estimate.value, least)
    return Estimate(value=value, low=max(estimate.low, least), high=estimate.high * value / estimate.value)


def no_slower(estimate: Estimate, other: Estimate) -> Estimate:
    """What surely takes no longer than something else: 4 ms (2 to 8) beside 5 (4 to 6) is 4 ms (2 to 6)."""
    return Estimate(
        value=min(estimate.value, other.value), low=min(estimate.low, other.low), high=min(estimate.high, other.high)
    )


def no_faster(estimate: Estimate, other: Estimate) -> Estimate:
    """What surely takes no less than something else: 4 ms (2 to 8) beside 5 (4 to 6) is 5 ms (4 to 8)."""
    return Estimate(
        value=max(estimate.value, other.value), low=max(estimate.low, other.low), high=max(estimate.high, other.high)
    )


def is_no_slower(estimate: Estimate, other: Estimate) -> bool:
    """Whether that is what both say: in the middle and at either end."""
    pairs = zip(astuple(estimate), astuple(other), strict=True)
    return all(one <= another * (1 + SAME) for one, another in pairs)


def raised(estimate: Estimate, usual: float) -> Estimate:
    """The middle is no less than usual, the low end stays possible: 4 ms (2 to 8) beside 5 is 5 ms (2 to 10)."""
    value = max(estimate.value, usual)
    return Estimate(value=value, low=estimate.low, high=estimate.high * value / estimate.value)


def joined(one: Estimate, other: Estimate) -> Estimate:
    """The mean of both by their certainty; where they differ by more than they say, as much less sure (Birge, 1932).

    10 ms (9 to 11) and 12 ms (11 to 13) are 11.1 ms (9.9 to 12.5).
    """
    first, second = (log(e.high / e.low) / (2 * SPREAD_80) for e in (one, other))
    apart = abs(log(one.value / other.value)) / hypot(first, second)
    spread = max(1.0, apart) * first * second / hypot(first, second)
    share = second**2 / (first**2 + second**2)
    return around(one.value**share * other.value ** (1 - share), spread)


def beside_one(many: Estimate, one: Estimate, batch: float) -> Estimate:
    """A batch takes no less than one sample and no more than as many of them: so do 98 % of 1,973 published batches.

    13 ms (5 to 36) of 8 samples, of which one takes 3 ms (2 to 4), are 13 ms (5 to 32).
    """
    value = min(max(many.value, one.value), batch * one.value)
    low = min(max(many.low, one.low), value)
    high = max(min(many.high, batch * one.high), value)
    return Estimate(value=value, low=low, high=high)


def per_batch(one: Estimate, batch: float) -> Estimate:
    """The time of a batch, of that of one of its samples."""
    return Estimate(value=one.value * batch, low=one.low * batch, high=one.high * batch)


def at_quantile(estimate: Estimate, quantile: float) -> float:
    """So many standard deviations from the middle, each side of the band by itself (lognormal)."""
    if not quantile:
        return estimate.value
    end = estimate.high if quantile > 0 else estimate.low
    return float(estimate.value * (end / estimate.value) ** (abs(quantile) / SPREAD_80))


def past_spread(beyond: float) -> float:
    """Of a batch so many times the largest measured one: none at its end, all of `PAST_SPREAD` at twice that.

    With the octave, so that neither a band nor the weight of a series among others jumps where it ends.
    """
    return PAST_SPREAD * min(1.0, max(0.0, log2(beyond)))


def wider(estimate: Estimate, beyond: float) -> Estimate:
    """Past the largest batch."""
    factor = exp(SPREAD_80 * past_spread(beyond))
    return Estimate(value=estimate.value, low=estimate.low / factor, high=estimate.high * factor)


def between(series: Mapping[float, Estimate], at: float) -> Estimate:
    """On straight lines between the points; past the last one the band is wider."""
    x = tuple(series)
    factor = exp(SPREAD_80 * past_spread(at / x[-1]))

    def end(quantile: float) -> float:
        return Interpolated(x, tuple(at_quantile(e, quantile) for e in series.values()))(at)

    return Estimate(value=end(End.VALUE), low=end(End.LOW) / factor, high=end(End.HIGH) * factor)
