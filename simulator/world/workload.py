"""Demand: streams of requests, drawn before the clock starts as sorted arrays of arrival times."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.seeding import first_numbers

Floats = NDArray[np.float64]
Sources = NDArray[np.int32]
FEW = 10
"""Streams whose random numbers take no longer one stream after another, one source each."""
TOGETHER = 2**15
"""Streams whose random numbers are drawn at once: more need room and are no quicker."""


@dataclass(frozen=True, slots=True)
class FixedRate:
    """A camera: one frame every 1/rate seconds."""

    rate_rps: float
    phase_s: float | None = None
    """Time of the first frame; None: uniform over one period, drawn for each camera."""
    jitter_s: float = 0.0
    """Scale of a frame's delay past its due time, seconds. Delays are `abs(N(0, jitter))`, half-normal: 0.8 of it on
    average, with a standard deviation of 0.6 of it."""


@dataclass(frozen=True, slots=True)
class Poisson:
    """Independent arrivals."""

    rate_rps: float


@dataclass(frozen=True, slots=True)
class Gamma:
    """Gamma-distributed gaps: bursty for cv > 1, Poisson at cv = 1."""

    rate_rps: float
    cv: float
    """Coefficient of variation of the gaps."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Recorded arrivals, repeated from the start when the horizon is longer, begun at a random place when shorter."""

    times_s: Floats
    """Sorted, from 0."""
    period_s: float
    """Length of the recording, at least the last time."""

    @property
    def rate_rps(self) -> float:
        """Mean rate over the recording."""
        return len(self.times_s) / self.period_s


Arrivals = FixedRate | Poisson | Gamma | Trace


@dataclass(frozen=True, slots=True)
class SLO:
    """An SLO: at least `attainment` of all requests answered within `latency_s`."""

    latency_s: float
    attainment: float = 0.99


@dataclass(frozen=True, slots=True)
class Stream:
    """`count` independent sources of one kind, all asking one model."""

    model: str
    arrivals: Arrivals
    count: int = 1

    @property
    def rate_rps(self) -> float:
        """Mean rate of all its sources together: 40 cameras at 15 fps ask 600 times a second."""
        return self.count * self.arrivals.rate_rps

    def is_fixed(self, duration_s: float) -> bool:
        """Whether every seed draws the same arrivals in so many seconds."""
        match self.arrivals:
            case FixedRate(phase_s=phase, jitter_s=jitter):
                return phase is not None and not jitter
            case Trace(period_s=period):
                return self.count == 1 and duration_s >= period
        return False


@dataclass(frozen=True, slots=True)
class Workload:
    """All demand on a deployment."""

    streams: tuple[Stream, ...]

    @property
    def longest_recording_s(self) -> float:
        """Length of the longest trace; 0 without any."""
        traces = (stream.arrivals for stream in self.streams if isinstance(stream.arrivals, Trace))
        return max((trace.period_s for trace in traces), default=0.0)

    @property
    def draws_phases(self) -> bool:
        """Whether some cameras have phases of their own, which a seed draws once for a whole replication."""
        return any(isinstance(s.arrivals, FixedRate) and s.arrivals.phase_s is None for s in self.streams)

    def is_fixed(self, duration_s: float) -> bool:
        """Whether every seed draws the same arrivals in so many seconds: then one replication says it all."""
        return all(stream.is_fixed(duration_s) for stream in self.streams)

    def is_fixed_but_for_phases(self, duration_s: float) -> bool:
        """The same once all phases are drawn."""
        cameras = [one.arrivals for one in self.streams if isinstance(one.arrivals, FixedRate)]
        others = [one for one in self.streams if not isinstance(one.arrivals, FixedRate)]
        return not any(one.jitter_s for one in cameras) and all(one.is_fixed(duration_s) for one in others)

    def rates_rps(self) -> Mapping[str, float]:
        """Mean rate asked of each model."""
        rates: dict[str, float] = {}
        for stream in self.streams:
            rates[stream.model] = rates.get(stream.model, 0.0) + stream.rate_rps
        return rates


@dataclass(frozen=True, slots=True)
class Demand:
    """The requests of one model as columns."""

    arrival_s: Floats
    """Sorted."""
    source: Sources
    """Which camera, numbered through the workload."""


def scaled(workload: Workload, factor: float) -> Workload:
    """The same demand with all rates times `factor`.

    Time is shrunk by it, so that gaps keep their pattern: phases and jitter shrink as the gaps do, a `cv` stays.
    """
    return Workload(tuple(replace(stream, arrivals=_scaled(stream.arrivals, factor)) for stream in workload.streams))


def _scaled(arrivals: Arrivals, factor: float) -> Arrivals:
    match arrivals:
        case FixedRate(rate, phase, jitter):
            return FixedRate(rate * factor, None if phase is None else phase / factor, jitter / factor)
        case Poisson(rate):
            return Poisson(rate * factor)
        case Gamma(rate, cv):
            return Gamma(rate * factor, cv)
        case Trace(times, period):
            return Trace(times / factor, period / factor)


class Cameras(NamedTuple):
    """Steady cameras of one rate, all that one model is asked by."""

    rate_rps: float
    phase_s: Floats
    """Time of the first frame of each."""
    source: Sources
    stream: Sources
    """The streams that they are of, numbered in order."""


def draw(
    workload: Workload, duration_s: float, seed: int, cameras: Mapping[str, Cameras] | None = None
) -> dict[str, Demand]:
    """All arrivals in [0, duration_s) by model. A stream's draw depends only on the seed and its place in it.

    `cameras`: what `steady_cameras` draws with this seed, where that is known.
    """
    steady = steady_cameras(workload, seed) if cameras is None else cameras
    return {
        model: _frames_of(steady[model], duration_s) if model in steady else _drawn(mine, duration_s, seed)
        for model, mine in _by_model(workload).items()
    }


def steady_cameras(workload: Workload, seed: int) -> dict[str, Cameras]:
    """As `SteadyCameras`, with the phases of one seed."""
    return SteadyCameras.of(workload).phased([seed])[0]


class _Placed(NamedTuple):
    """A stream, its place in the workload, and the number of its first source."""

    stream: Stream
    place: int
    first_source: int

    def rng(self, seed: int) -> np.random.Generator:
        """Its own: a child of the seed."""
        return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(self.place,)))

    @property
    def source(self) -> Sources:
        """Numbers of all its sources."""
        return np.arange(self.first_source, self.first_source + self.stream.count, dtype=np.int32)


def _by_model(workload: Workload) -> dict[str, list[_Placed]]:
    by_model: dict[str, list[_Placed]] = {}
    first_source = 0
    for place, stream in enumerate(workload.streams):
        by_model.setdefault(stream.model, []).append(_Placed(stream, place, first_source))
        first_source += stream.count
    return by_model


@dataclass(frozen=True, slots=True)
class SteadyCameras:
    """The cameras of each model that nothing else asks, without jitter and of one rate: with their phases all of them
    is drawn, however long they run."""

    streams: tuple[_Placed, ...]
    by_model: Mapping[str, Cameras]
    """Without phases."""

    @classmethod
    def of(cls, workload: Workload) -> "SteadyCameras":
        """Those of a workload, the same for every seed."""
        alike: dict[str, list[_Placed]] = {}
        for model, mine in _by_model(workload).items():
            first = mine[0].stream.arrivals
            is_steady = isinstance(first, FixedRate) and first.phase_s is None and first.jitter_s == 0.0
            if is_steady and all(one.stream.arrivals == first for one in mine):
                alike[model] = mine
        streams = tuple(one for mine in alike.values() for one in mine)
        return cls(streams, {model: _without_phases(mine) for model, mine in alike.items()})

    def phased(self, seeds: Sequence[int]) -> list[dict[str, Cameras]]:
        """With their phases, by seed."""
        ends = np.cumsum([len(cameras.source) for cameras in self.by_model.values()])
        step = max(1, TOGETHER // max(1, len(self.streams)))
        parts = (seeds[begin : begin + step] for begin in range(0, len(seeds), step))
        return [self._with(np.split(row, ends[:-1])) for part in parts for row in _uniform(self.streams, part)]

    def _with(self, parts: Sequence[Floats]) -> dict[str, Cameras]:
        return {
            model: cameras._replace(phase_s=part * (1 / cameras.rate_rps))
            for (model, cameras), part in zip(self.by_model.items(), parts, strict=False)
        }


def _uniform(streams: Sequence[_Placed], seeds: Sequence[int]) -> Floats:
    """A number from 0 to 1 for each source of each stream, a row for each seed: of many all at once, which gives the
    same."""
    counts = [one.stream.count for one in streams]
    if len(streams) * len(seeds) >= FEW + 2 * max(counts, default=0):
        return first_numbers(seeds, [one.place for one in streams], counts)
    drawn = [
        [np.empty(0), *(one.rng(seed).random(count) for one, count in zip(streams, counts, strict=True))]
        for seed in seeds
    ]
    return np.array(list(map(np.concatenate, drawn)))


def _without_phases(streams: Sequence[_Placed]) -> Cameras:
    counts = [one.stream.count for one in streams]
    return Cameras(
        streams[0].stream.arrivals.rate_rps,
        phase_s=np.empty(0),
        source=np.concatenate([one.source for one in streams]),
        stream=np.repeat(np.arange(len(streams), dtype=np.int32), counts),
    )


def arrivals_of(
    workload: Workload, duration_s: float, seed: int, cameras: Mapping[str, Cameras]
) -> dict[str, Cameras | Floats]:
    """By model: the steady cameras that ask it, or else when its requests arrive, as `draw` has them."""
    models = dict.fromkeys(stream.model for stream in workload.streams)
    others = {} if models.keys() <= cameras.keys() else _by_model(workload)
    return {
        model: cameras[model] if model in cameras else _drawn(others[model], duration_s, seed).arrival_s
        for model in models
    }


def frames_each(rate_rps: float, duration_s: float) -> int:
    """Frames of a camera, with those that come too late."""
    return int(np.ceil(duration_s * rate_rps)) + 1


def _frames_of(cameras: Cameras, duration_s: float) -> Demand:
    """In each period every camera comes once, in the order of the phases: these are sorted, and not the frames."""
    order = np.argsort(cameras.phase_s)
    begins_s = np.arange(frames_each(cameras.rate_rps, duration_s)) / cameras.rate_rps
    times = (begins_s[:, None] + cameras.phase_s[order]).ravel()
    times = times[: np.searchsorted(times, duration_s)]
    if np.all(times[1:] > times[:-1]):
        source = np.empty((len(begins_s), len(order)), dtype=cameras.source.dtype)
        source[:] = cameras.source[order]
        return Demand(times, source.ravel()[: len(times)])
    return _sorted_frames(cameras, begins_s, duration_s)


def _sorted_frames(cameras: Cameras, begins_s: Floats, duration_s: float) -> Demand:
    """The same where several come at one instant: those of the first stream first."""
    times = (begins_s[:, None] + cameras.phase_s).ravel()
    stream, source = np.tile(cameras.stream, len(begins_s)), np.tile(cameras.source, len(begins_s))
    order = np.lexsort((np.arange(len(times)), stream, times))
    order = order[times[order] < duration_s]
    return Demand(times[order], source[order])


def _drawn(streams: Sequence[_Placed], duration_s: float, seed: int) -> Demand:
    """All requests of these streams, one stream drawn after another."""
    each_times, each_source = [], []
    for one in streams:
        times, source = _sources(one.stream, duration_s, one.rng(seed))
        each_times.append(times)
        each_source.append(source + np.int32(one.first_source))
    times, source = np.concatenate(each_times), np.concatenate(each_source)
    if np.all(times[1:] >= times[:-1]):
        return Demand(times, source)
    order = np.argsort(times, kind="stable")
    return Demand(times[order], source[order])


def _sources(stream: Stream, duration_s: float, rng: np.random.Generator) -> tuple[Floats, Sources]:
    match stream.arrivals:
        case FixedRate(rate, phase, jitter):
            return _cameras(rate, phase, jitter, stream.count, duration_s, rng)
        case Poisson(rate):
            times = _renewals(rng, 1.0, 1 / (stream.count * rate), duration_s)
            return times, rng.integers(0, stream.count, len(times), dtype=np.int32)
        case Gamma(rate, cv):
            each = [_renewals(rng, cv**-2, cv**2 / rate, duration_s) for _ in range(stream.count)]
        case Trace() as trace:
            each = list(_repeated(trace, stream.count, duration_s, rng))
    counts = [len(times) for times in each]
    return np.concatenate(each), np.repeat(np.arange(stream.count, dtype=np.int32), counts)


def _cameras(
    rate: float, phase: float | None, jitter: float, count: int, duration_s: float, rng: np.random.Generator
) -> tuple[Floats, Sources]:
    first = rng.uniform(0, 1 / rate, count) if phase is None else np.full(count, phase)
    frames = frames_each(rate, duration_s)
    times = (np.arange(frames)[:, None] / rate + first).ravel()
    source = np.tile(np.arange(count, dtype=np.int32), frames)
    if jitter:
        times = times + np.abs(rng.normal(0.0, jitter, len(times)))
    inside = times < duration_s
    return times[inside], source[inside]


def _renewals(rng: np.random.Generator, shape: float, scale: float, duration_s: float) -> Floats:
    """A renewal process with Gamma gaps in equilibrium.

    The first gap is a uniform part of a length-biased one, Gamma(shape + 1); Cox, Renewal Theory (1962), ch. 5.
    """
    expected = duration_s / (shape * scale)
    chunk = int(expected + 6 * np.sqrt(expected / shape)) + 16
    gaps = rng.standard_gamma(shape, chunk) if shape != 1.0 else rng.standard_exponential(chunk)
    gaps *= scale
    gaps[0] = rng.uniform() * rng.gamma(shape + 1, scale)
    times = np.cumsum(gaps, out=gaps)
    while times[-1] < duration_s:
        times = np.concatenate([times, times[-1] + np.cumsum(rng.gamma(shape, scale, chunk))])
    return times[: np.searchsorted(times, duration_s)]


def _repeated(trace: Trace, count: int, duration_s: float, rng: np.random.Generator) -> Iterator[Floats]:
    """By source: a recording from a random place, but by the first from its start where all of it is replayed."""
    begins_s = np.arange(int(np.ceil(duration_s / trace.period_s)))[:, None] * trace.period_s
    for source in range(count):
        is_whole = source == 0 and duration_s >= trace.period_s
        shift_s = 0.0 if is_whole else rng.uniform(0, trace.period_s)
        turned = np.sort((trace.times_s + shift_s) % trace.period_s) if shift_s else trace.times_s
        times = (begins_s + turned).ravel()
        yield times[times < duration_s]
