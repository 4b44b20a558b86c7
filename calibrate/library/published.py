"""Profiles of published points: of each architecture, GPU, precision and runtime by its best source."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, groupby
from math import exp, log
from statistics import median
from types import MappingProxyType

from calibrate.library.held import held_evidence, held_numbers
from calibrate.library.memory import room_of_counts
from calibrate.library.possible import check
from calibrate.library.reading import how_to_measure
from calibrate.published import names
from calibrate.published.points import PublishedPoint, points, sources
from simulator.grouping import grouped
from simulator.world.curves import Interpolated, LoadTime
from simulator.world.hardware import GPU
from simulator.world.model import Layer
from simulator.world.precision import WEIGHT_BYTES
from simulator.world.profile import Evidence, Profile

BATCHES_MIN = 3
LARGE_BATCH = 16
"""Two batch sizes are enough where one is 1 and the other is this or more: floor and slope are both seen."""
SMALL_RANGE = 4
"""A series that ends here hides what larger batches would save."""
LINK_SHARE = 0.77
"""Share of the host link at which weights load: the V100 of the Clockwork zoo reaches 12.29 of 16 GB/s."""

MLPERF = frozenset(
    f"mlperf-v{number}" for number in ("0.5", "0.7", "1.0", "1.1", "2.0", "2.1", "3.0", "4.1", "5.1", "6.0")
)
"""Rounds of MLPerf, which are one publisher's."""

Key = tuple[str, str, str]
"""GPU, precision and runtime."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedSeries:
    """Latencies by batch size, of one source."""

    source: str
    """Ids of its sources; rounds of MLPerf are one."""
    as_of: str
    latency_s: Mapping[float, float]
    """By batch size, ascending; the median where a source has several."""

    @property
    def is_enough(self) -> bool:
        """Whether floor and slope can be told from it."""
        batches = tuple(self.latency_s)
        return len(batches) >= BATCHES_MIN or (len(batches) > 1 and batches[0] == 1 and batches[-1] >= LARGE_BATCH)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """All series of one architecture on one GPU at one precision in one runtime, the best first."""

    architecture: str
    input: str
    gpu: str
    precision: str
    runtime: str
    series: tuple[PublishedSeries, ...]

    @property
    def best(self) -> PublishedSeries:
        """The one with most batch sizes, of two alike the newer."""
        return self.series[0]

    @property
    def is_enough(self) -> bool:
        """Whether a profile can be made of it; of processors, one batch size will do."""
        return bool(self.series) and (self.best.is_enough or self.gpu in names.processors())

    @property
    def spread(self) -> float | None:
        """How far others are from the best where both have a batch: 0.2 is 1.2 times or a 1.2th. None: no other."""
        spreads = (source_spread(self.best.latency_s, other.latency_s) for other in self.series[1:])
        return max((spread for spread in spreads if spread is not None), default=None)


def source_spread(best: Mapping[float, float], other: Mapping[float, float]) -> float | None:
    """How far the other is from the best at most: 10 and 12 ms at one batch size are 0.2. None: no batch in common."""
    ratios = [abs(log(other[batch] / best[batch])) for batch in other.keys() & best.keys()]
    return exp(max(ratios)) - 1 if ratios else None


def sources_of(model: str) -> Mapping[Key, Sources]:
    """What was published of a model at its usual input, where it is enough for a profile."""
    return _sources_of(names.architecture(model))


@cache
def _sources_of(architecture: str) -> Mapping[Key, Sources]:
    size = names.usual_input(architecture)
    usable = [p for p in points(architecture) if p.batch and p.precision in WEIGHT_BYTES and p.input in (size, "")]
    found = (_sources(key, list(group)) for key, group in groupby(sorted(usable, key=_key), _key))
    return {(one.gpu, one.precision, one.runtime): one for one in found if one.is_enough}


def profile_of(
    model: str,
    gpu: GPU,
    precision: str,
    runtime: str,
    known: Iterable[Profile] = (),
    gpus: Mapping[str, GPU] = MappingProxyType({}),
) -> Profile | None:
    """The profile of a model by its best source; None where there is none, or where its weights are not known.

    `known` are profiles of it on any GPU, whose memory somebody may have seen, and `gpus` their kinds.
    """
    found = sources_of(model).get((gpu.name, precision, runtime))
    facts = names.facts_of(found.architecture, found.input) if found else None
    held = held_numbers(found.architecture, found.input) if found else None
    if found is None or facts is None or facts.params is None or held is None:
        return None
    best = found.best
    batches = tuple(best.latency_s)
    room = room_of_counts(replace(facts, held=held), gpu, precision, known, gpus)
    profile = Profile(
        model=model,
        gpu=gpu.name,
        precision=precision,
        runtime=runtime,
        layers=(Layer(model, round(facts.params * WEIGHT_BYTES[precision])),),
        latency=Interpolated(batches, tuple(best.latency_s.values())),
        source_spread=found.spread,
        workspace=Interpolated(batches, tuple(accumulate((room(b).reserved for b in batches), max))),
        load=LoadTime(0.0, LINK_SHARE * gpu.pcie_bytes_per_s),
        flops_per_sample=2 * facts.macs if facts.macs else None,
        latency_evidence=Evidence.PUBLISHED,
        memory_evidence=held_evidence(found.architecture),
        load_evidence=Evidence.ASSUMED,
        source=best.source,
        as_of=best.as_of,
        assumptions=_assumptions(facts.params, precision),
        doubts=tuple(_doubts(found)),
    )
    return None if check(profile, gpu) else profile


def _sources(key: tuple[str, ...], found: Sequence[PublishedPoint]) -> Sources:
    architecture, gpu, precision, runtime = key
    by_source = {source: list(group) for source, group in groupby(sorted(found, key=_publisher), _publisher)}
    series = [_series(group) for group in by_source.values()]
    return Sources(
        architecture=architecture,
        input=names.usual_input(architecture),
        gpu=gpu,
        precision=precision,
        runtime=runtime,
        series=tuple(sorted(series, key=lambda one: (len(one.latency_s), one.as_of), reverse=True)),
    )


def _series(found: Sequence[PublishedPoint]) -> PublishedSeries:
    by_batch = grouped((point.batch or 0, point.latency_s) for point in found)
    ids = sorted({point.source for point in found})
    return PublishedSeries(
        source="; ".join(sources()[id].title for id in ids),
        as_of=max(_day(sources()[id].as_of) for id in ids),
        latency_s={batch: median(by_batch[batch]) for batch in sorted(by_batch)},
    )


def _key(point: PublishedPoint) -> tuple[str, ...]:
    return (point.architecture, point.gpu, point.precision, point.runtime)


def _publisher(point: PublishedPoint) -> str:
    """The source, without the round of MLPerf: rounds measure the same thing with newer software."""
    return "mlperf" if point.source in MLPERF else point.source


def _day(as_of: str) -> str:
    """The first day of a month; of an unknown date, the first of all."""
    return f"{as_of}-01" if len(as_of) == len("2024-08") else as_of or "2000-01-01"


def _assumptions(params: float, precision: str) -> tuple[str, ...]:
    return (
        f"Weights: {params / 1e6:.4g} M parameters x {WEIGHT_BYTES[precision]} bytes.",
        "Workspace is not published: predicted as a plan keeps it free, with libraries' own and the allocator's slack.",
        f"Load time is not published: taken as bytes over {LINK_SHARE:.0%} of the host link.",
        "Spread between runs is not published: taken as 0.",
    )


def _doubts(found: Sources) -> Iterator[str]:
    """What speaks against the figures."""
    largest = max(found.best.latency_s)
    if largest <= SMALL_RANGE:
        remedy = how_to_measure(found.architecture, found.gpu, found.runtime)
        yield f"The series ends at batch {largest}, which may bind; measure larger ones: {remedy}"
    if found.spread:
        yield f"Sources differ by up to {found.spread:.0%}: {', '.join(one.source for one in found.series)}"
