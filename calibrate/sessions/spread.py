"""Spread: how far times differ between sessions on a GPU, between GPUs and between hosts. Pure.

A time is a product: of the batch, of the host, of the GPU, of the session, and of one run. So logarithms add up, and
their variances are told apart level by level (nested analysis of variance): what sessions on one GPU differ by is
what the means of GPUs would differ by anyway, and only what exceeds that is the GPUs' own.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, expm1, log, sqrt
from statistics import fmean

from simulator.grouping import grouped

LEVELS = ("sessions", "gpus", "hosts")
"""Innermost first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTimes:
    """Times of one model in one session."""

    host: str
    gpu: str
    mean_s: Mapping[int, float]
    """By batch size."""
    cv: Mapping[int, float]
    """Coefficient of variation of that mean: of one run, over the root of how many there were."""
    by_host: Mapping[int, bool] = field(default_factory=dict)
    """Whether the host held the batch up, where that was measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How far sessions lie apart."""

    levels: tuple[float, ...]
    """The time of each session over the usual one: 1.1 is a tenth slower; their geometric mean is 1."""
    cv: Mapping[str, float]
    """Coefficient of variation by `LEVELS`. A level of which nothing has two is missing: it is in the next one."""
    session_cv: float
    """Of a session to come, on another GPU where there were several: all levels, and what the mean of
    those seen still errs by: each level's variance is multiplied by 1 + the sum of squares of its groups' shares."""


def spread_of(sessions: Sequence[SessionTimes]) -> Spread:
    """The spread between sessions, by the batch sizes that all of them measured.

    Three sessions on one GPU at 1, 1.1 and 1.21 times: 10 %, and 11 % for a fourth.
    """
    shared = sorted(set.intersection(*(set(one.mean_s) for one in sessions)))
    levels = levels_of(sessions, shared)
    variances = _variances(sessions, shared)
    total = sum(variance * (1 + _doubt_of_mean(sessions, level)) for level, variance in variances.items())
    return Spread(
        levels=levels,
        cv={level: sqrt(expm1(variance)) for level, variance in variances.items()},
        session_cv=sqrt(expm1(total)),
    )


def levels_of(sessions: Sequence[SessionTimes], batches: Sequence[int]) -> tuple[float, ...]:
    """The time of each session over the usual one, by batch sizes that all measured: 1 each where there are none."""
    usual = {batch: fmean(log(one.mean_s[batch]) for one in sessions) for batch in batches}
    apart = ([log(one.mean_s[batch]) - usual[batch] for batch in batches] for one in sessions)
    return tuple(exp(fmean(some)) if some else 1.0 for some in apart)


@dataclass(frozen=True)
class SessionLevels:
    """How slow sessions were: a host that is slow holds up small batches, and none that a GPU takes longer for."""

    times: Sequence[SessionTimes]
    whole: Sequence[float]
    """By all batches that they share."""

    def at(self, batch: int) -> Sequence[float]:
        """By those batches that the same holds up, the host or the GPU; by all where nobody measured what does."""
        if not all(one.by_host for one in self.times):
            return self.whole
        shared = sorted(set.intersection(*(set(one.mean_s) for one in self.times)))
        of_gpu = self._is_of_gpu(batch)
        alike = [other for other in shared if self._is_of_gpu(other) is of_gpu]
        return levels_of(self.times, alike if of_gpu else alike or shared)

    def _is_of_gpu(self, batch: int) -> bool:
        """No host held it up where that was measured."""
        seen = [one.by_host[batch] for one in self.times if batch in one.by_host]
        return bool(seen) and not any(seen)


def _doubt_of_mean(sessions: Sequence[SessionTimes], level: str) -> float:
    """Variance of the mean of all sessions over that of one group of the level: ten sessions on two hosts, 1/2."""
    groups = Counter(
        {"sessions": (at,), "gpus": (one.host, one.gpu), "hosts": (one.host,)}[level] for at, one in enumerate(sessions)
    )
    return sum(size**2 for size in groups.values()) / len(sessions) ** 2


@dataclass(frozen=True, slots=True)
class Member:
    """One mean, and the variance that it has from what lies within."""

    mean: float
    noise: float


def _variances(sessions: Sequence[SessionTimes], batches: Sequence[int]) -> dict[str, float]:
    """Variance of the logarithm by level, without what the level within explains."""
    places: dict[tuple[Hashable, ...], list[Member]] = grouped(
        ((batch, one.host, one.gpu), Member(log(one.mean_s[batch]), one.cv[batch] ** 2))
        for one in sessions
        for batch in batches
    )
    found: dict[str, float] = {}
    for level in LEVELS:
        variance = _between(list(places.values()))
        if variance is not None:
            found[level] = variance
        places = grouped((place[:-1], _together(members, variance or 0.0)) for place, members in places.items())
    return found


def _between(groups: Sequence[Sequence[Member]]) -> float | None:
    """Variance of members around the mean of their group, less their noise; None where each is alone."""
    several = [group for group in groups if len(group) > 1]
    if not several:
        return None
    free = sum(len(group) - 1 for group in several)
    squares = sum((one.mean - fmean(m.mean for m in group)) ** 2 for group in several for one in group)
    noise = fmean(one.noise for group in several for one in group)
    return max(0.0, squares / free - noise)


def _together(members: Sequence[Member], variance: float) -> Member:
    """The mean of a group: each member adds its own noise and what members differ by."""
    noise = fmean(one.noise + variance for one in members) / len(members)
    return Member(fmean(one.mean for one in members), noise)
