"""Learnt: times of any model on any GPU, from the effects that `benchmarks.making.learning` found in points."""

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, cached_property, partial
from math import exp, hypot, log, log2, sqrt
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np

from calibrate.published.points import PublishedPoint, points
from planner.model.plan import Estimate
from planner.prediction.effects import (
    SOURCE_GROUPS,
    Effect,
    EffectPart,
    PredictedCase,
    chip,
    effects_of_any_batch,
    is_repository,
    keys_of_batch,
    least_s,
    network,
    products_share,
    roofline,
    source_effects,
    style,
    weights_of_batch,
)
from planner.prediction.rules.bands import around, at_least, raised
from planner.prediction.rules.roofline import computed_in
from simulator.world.hardware import GPU

SCHEMA = "planner.learnt/v2"
FILE = Path(__file__).parent / "data" / "learnt.json.gz"
SOURCES_MAX = 3
"""Publications that are named of one case."""
NO_SHARE = 0.01
"""Of products or convolutions, that does not count."""
SMALL_MAX = 4
"""Largest batch that counts as small: there overhead tells, and predictions err by more."""
MOST = 0.5
"""Share of a time from which work takes most of it."""
MOST_REACHED = 0.83
"""Share of a GPU's peak that 99 % of 7,600 published figures do not pass: no middle of a band does."""
NEAR_SD, OCTAVE_SD = 0.06, 0.10
"""Of a batch between or beside published ones: at them, and for each doubling away from the nearest."""
FORM_SD = 0.25
"""Of one published batch beside the form of its series, where that says how much of it is work and overhead."""
ROUNDS = 4
"""After which the shares of work and overhead no longer move."""
OWN_SOFTWARE_SD = 0.34
"""Where a publisher is left out - all rounds of MLPerf are one - and others published of the runtime on the GPU, 82 %
of its figures lie in the band with it, 69 % without; where the chip is left out too, 77 and 66 %. `benchmarks learnt`
prints 82 and 77. It holds of one batch that two of them timed, too: `benchmarks predictions` prints it."""
OTHER_SD = 0.08
"""Of effects whose group has no learnt spread."""
UNKNOWN_GPU = ""
"""Name of a GPU of which nothing was published."""


class Nearness(StrEnum):
    """How near to a case something was measured, the nearest first."""

    SERIES = "series"
    """The model on the GPU at that precision and runtime, at another batch."""
    PAIR = "pair"
    """The model on the GPU, otherwise."""
    ELSEWHERE = "elsewhere"
    """The model at that precision and runtime on other GPUs, and the GPU with other models."""
    OTHERWISE = "otherwise"
    """The model on other GPUs, at other precisions or runtimes, and the GPU with other models."""
    NEW_GPU = "new-gpu"
    """The model, but nothing on that GPU nor on another of its chip."""
    NEW_MODEL = "new-model"
    """Nothing of the model."""


NEAREST: Mapping[Nearness, str] = {
    Nearness.SERIES: "other batches there",
    Nearness.PAIR: "on that GPU, at another precision or runtime",
    Nearness.ELSEWHERE: "on other GPUs",
    Nearness.OTHERWISE: "on other GPUs, at other precisions or runtimes",
    Nearness.NEW_GPU: "nothing on such a chip",
    Nearness.NEW_MODEL: "nothing of this model",
}
"""What was timed nearest to a case, in words."""


class Software(StrEnum):
    """Where somebody published of a case's runtime, the nearest first: what is not known of it is in the band."""

    HERE = "here"
    """On the GPU."""
    PRECISION = "precision"
    """At that precision, on other GPUs."""
    RUNTIME = "runtime"
    """At other precisions, on other GPUs."""
    UNKNOWN = "unknown"
    """Nowhere."""


SOFTWARE_GROUPS = {
    "source gpu": Software.HERE,
    "source runtime": Software.PRECISION,
    "overhead source": Software.RUNTIME,
}
"""By the group of effects of sources that are known then."""


class Regime(StrEnum):
    """What takes most of a time: what is known of one says little of the other."""

    OVERHEAD = "overhead"
    WORK = "work"


Parts = Mapping[EffectPart, float]
"""A sum of effects for each part."""
NONE: Parts = dict.fromkeys(EffectPart, 0.0)
Effects = Mapping[str, Mapping[str, tuple[float, float]]]
"""By group and key: each with its variance."""
GPU_WORDS = frozenset({"gpu", "chip", "series"})
"""In names of groups whose effects are of one GPU."""


class Told(NamedTuple):
    """Logarithm of a time, as the effects tell it."""

    mean: float
    sd: float
    work: float
    """Share of it that is work, 0 to 1."""

    @property
    def regime(self) -> Regime:
        """What takes most of it."""
        return Regime.WORK if self.work >= MOST else Regime.OVERHEAD


class Sums(NamedTuple):
    """Of effects that are the same for every batch."""

    means: Parts
    variances: Parts
    of_batch: Sequence[tuple[float, float]]
    """Mean and variance of what each weight of a batch multiplies."""


class SumsOfGPU(NamedTuple):
    """Sums of a case on a GPU."""

    known: Sums
    of_unknown: Sums
    """Of a GPU like it of which nothing was published."""


class Seen(NamedTuple):
    """A published time of the same series."""

    batch: float
    log_s: float


@dataclass(frozen=True)
class Learnt:
    """Effects by group and key, each with its variance."""

    effects: Effects
    spreads: Mapping[str, float]
    """Standard deviation of each group's effects, in logarithms of time."""
    noise: Mapping[str, float]
    """Of one figure, by source, the same."""
    widening: Mapping[str, float] = field(default_factory=dict)
    """By trait of a case: logarithm of what the spread is multiplied by, so that 80 % bands hold 80 %."""
    own_software_sd: float = OWN_SOFTWARE_SD
    """Of ln(time) between the software of those who published of a runtime on a GPU and that of whoever asks."""
    points_sha256: str = ""
    """Of the points that it was learnt from."""
    as_of: str = ""
    """ISO date of the newest source."""

    def log_time(self, case: PredictedCase, gpu: GPU, off: Parts = NONE) -> Told:
        """Mean and spread of ln(seconds), as the mean of those finds who published the like.

        An effect that nobody has seen is zero, and spreads as its group does. `off`: by how much each part is more.
        """
        return self._told(case, gpu, self._sums(case, gpu).known, off)

    def _of_unknown(self, case: PredictedCase, gpu: GPU) -> Told:
        """The same of a GPU like it of which nothing was published."""
        return self._told(case, gpu, self._sums(case, gpu).of_unknown, NONE)

    def _told(self, case: PredictedCase, gpu: GPU, sums: Sums, off: Parts) -> Told:
        """Those of a batch, by sums of effects."""
        told = roofline(case, gpu)
        work, overhead, whole = (sums.means[part] + off[part] for part in EffectPart)
        variance = sums.variances[EffectPart.WORK]
        for weight, (mean, more) in zip(weights_of_batch(case, told, gpu), sums.of_batch, strict=True):
            work += weight * mean
            variance += weight**2 * more
        share = told.share(work, overhead, case.full)
        shared = share**2 * variance + (1 - share) ** 2 * sums.variances[EffectPart.OVERHEAD]
        sd = sqrt(shared + sums.variances[EffectPart.WHOLE])
        return Told(told.log_time(work, overhead, case.full) + whole, sd, share)

    def _sums(self, case: PredictedCase, gpu: GPU) -> SumsOfGPU:
        """Sums of effects, which are the same for every batch."""
        asked = replace(case, batch=1.0), gpu
        if asked not in self._summed:
            of_any = list(effects_of_any_batch(case, roofline(case, gpu), gpu))
            of_batch = [
                [Effect(EffectPart.WORK, group, key, 1.0) for group, key in keys] for keys in keys_of_batch(case, gpu)
            ]
            self._summed[asked] = SumsOfGPU(
                self._sum(self._level(case), of_any, of_batch, self.effects),
                self._sum(self._level(replace(case, gpu=UNKNOWN_GPU)), of_any, of_batch, self._effects_of_others),
            )
        return self._summed[asked]

    @cached_property
    def _summed(self) -> dict[tuple[PredictedCase, GPU], SumsOfGPU]:
        """Those that were asked for before."""
        return {}

    @cached_property
    def _effects_of_others(self) -> Effects:
        """Effects that are of no GPU by its name."""
        return {group: keys for group, keys in self.effects.items() if GPU_WORDS.isdisjoint(group.split())}

    def _sum(
        self, level: Parts, of_any: Iterable[Effect], of_batch: Iterable[Iterable[Effect]], known: Effects
    ) -> Sums:
        """By what is known."""
        means, variances = self._added(known, of_any)
        return Sums(
            {part: level[part] + means[part] for part in EffectPart},
            {**variances, EffectPart.WHOLE: variances[EffectPart.WHOLE] + self.usual_noise**2},
            [(mean[EffectPart.WORK], of[EffectPart.WORK]) for mean, of in map(partial(self._added, known), of_batch)],
        )

    def _added(self, known: Effects, some: Iterable[Effect]) -> tuple[Parts, Parts]:
        """Means and variances of effects together."""
        means, variances = dict(NONE), dict(NONE)
        for part, group, key, weight in some:
            if not weight:
                continue
            effect, variance = known.get(group, {}).get(key) or (0.0, self.spreads.get(group, OTHER_SD) ** 2)
            means[part] += weight * effect
            variances[part] += weight**2 * variance
        return means, variances

    def publishers(self, case: PredictedCase) -> list[str]:
        """Sources that published of the runtime on the GPU, else of it at that precision, else of it, else anything;
        repositories only where no other source is as near."""
        own = self._keys_of_sources(case)
        alike = ([source for source in own if self.knows(group, own[source][group])] for group in SOURCE_GROUPS)
        some = next(filter(None, alike), [])
        return [source for source in some if not is_repository(source)] or some

    def _keys_of_sources(self, case: PredictedCase) -> Mapping[str, Mapping[str, str]]:
        """Keys of each source's effects, by group."""
        asked = (case.gpu, case.runtime, case.precision)
        if asked not in self._source_keys:
            self._source_keys[asked] = {
                source: {effect.group: effect.key for effect in source_effects(case, source)}
                for source in self.effects.get("source", ())
            }
        return self._source_keys[asked]

    @cached_property
    def _source_keys(self) -> dict[tuple[str, str, str], Mapping[str, Mapping[str, str]]]:
        """Those that were asked for before, by GPU, runtime and precision."""
        return {}

    def software(self, case: PredictedCase) -> Software:
        """Where somebody published of the runtime."""
        asked = (case.gpu, case.runtime, case.precision)
        if asked not in self._software:
            own = self._keys_of_sources(case).values()
            found = (
                where for group, where in SOFTWARE_GROUPS.items() if any(self.knows(group, keys[group]) for keys in own)
            )
            self._software[asked] = next(found, Software.UNKNOWN)
        return self._software[asked]

    @cached_property
    def _software(self) -> dict[tuple[str, str, str], Software]:
        """What was asked for before, by GPU, runtime and precision."""
        return {}

    def _level(self, case: PredictedCase) -> dict[EffectPart, float]:
        """Their mean effects, by what these multiply: times of the runtime are known as they found them."""
        asked = (case.gpu, case.runtime, case.precision)
        if asked not in self._levels:
            self._levels[asked] = dict.fromkeys(EffectPart, 0.0)
            sources = self.publishers(case)
            for source in sources:
                for part, group, key, _ in source_effects(case, source):
                    effect, _ = self.effects.get(group, {}).get(key, (0.0, 0.0))
                    self._levels[asked][part] += effect / len(sources)
        return self._levels[asked]

    @cached_property
    def _levels(self) -> dict[tuple[str, str, str], dict[EffectPart, float]]:
        """Levels that were asked for before, by GPU, runtime and precision."""
        return {}

    def beside(self, case: PredictedCase, gpu: GPU, series: Sequence[Seen]) -> Told:
        """The same, moved by how far it is off at published batches of the same series."""
        if not series:
            return self.log_time(case, gpu)
        off, octaves, errors = self._errors(replace(case, batch=1.0), gpu, tuple(series))
        told, at = self.log_time(case, gpu, off), log2(case.batch)
        away = min(abs(at - octave) for octave in octaves)
        return Told(told.mean + float(np.interp(at, octaves, errors)), hypot(NEAR_SD, OCTAVE_SD * away), told.work)

    def _errors(self, one: PredictedCase, gpu: GPU, series: tuple[Seen, ...]) -> tuple[Parts, list[float], list[float]]:
        """How far work and overhead are off, octaves of published batches, and what each is off besides: the same for
        every batch asked for."""
        asked = one, gpu, series
        if asked not in self._errors_known:
            off = self._off(one, gpu, series)
            errors: dict[float, list[float]] = {}
            for batch, log_s in series:
                there = replace(one, batch=batch)
                errors.setdefault(log2(batch), []).append(log_s - self.log_time(there, gpu, off).mean)
            octaves = sorted(errors)
            self._errors_known[asked] = off, octaves, [fmean(errors[octave]) for octave in octaves]
        return self._errors_known[asked]

    def _off(self, one: PredictedCase, gpu: GPU, series: Sequence[Seen]) -> Parts:
        """By how much published batches say that each part is more: the likeliest, by how well each is known (Gauss
        and Newton's method). 1 ms of a batch that should take 5, all of them overhead, says that overhead is less."""
        known = np.diag([self._sums(one, gpu).known.variances[part] for part in EffectPart])
        off = np.zeros(len(EffectPart))
        for _ in range(ROUNDS):
            parts = dict(zip(EffectPart, map(float, off), strict=True))
            told = [self.log_time(replace(one, batch=batch), gpu, parts) for batch, _ in series]
            slopes = np.array([[at.work, 1 - at.work, 1.0] for at in told])
            apart = np.array([log_s - at.mean for (_, log_s), at in zip(series, told, strict=True)]) + slopes @ off
            spread = slopes @ known @ slopes.T + FORM_SD**2 * np.eye(len(told))
            off = known @ slopes.T @ np.linalg.solve(spread, apart)
        return dict(zip(EffectPart, map(float, off), strict=True))

    @cached_property
    def _errors_known(
        self,
    ) -> dict[tuple[PredictedCase, GPU, tuple[Seen, ...]], tuple[Parts, list[float], list[float]]]:
        """Errors that were asked for before."""
        return {}

    def predict(self, case: PredictedCase, gpu: GPU, series: Sequence[Seen] = ()) -> Estimate:
        """Seconds of a batch with their 80 % band: not below the GPU's peak, or only as far as published ones are."""
        told = self.beside(case, gpu, series)
        reached = _reached(case, gpu, series)
        at_peak_s = least_s(case, gpu)
        usual = raised(around(exp(told.mean), self.sd(case, gpu, told)), at_peak_s / max(MOST_REACHED, reached))
        return at_least(usual, at_peak_s / max(1.0, reached))

    def sd(self, case: PredictedCase, gpu: GPU, told: Told) -> float:
        """Of ln(time), no wider than of a GPU like it of which nothing was published; one's own software is as far
        from what was published as publishers are from one another."""
        unknown, copy = self._of_unknown(case, gpu), replace(gpu, name=UNKNOWN_GPU, chip=UNKNOWN_GPU)
        of_unknown = unknown.sd * self.wider(replace(case, gpu=UNKNOWN_GPU), copy, unknown.regime)
        sd = min(told.sd * self.wider(case, gpu, told.regime), of_unknown)
        return sd if self.software(case) is Software.UNKNOWN else hypot(sd, self.own_software_sd)

    def least_s(self, case: PredictedCase, gpu: GPU, series: Sequence[Seen]) -> float:
        """Seconds at the GPU's peak, or as far below as published batches of the series are."""
        return least_s(case, gpu) / max(1.0, _reached(case, gpu, series))

    def wider(self, case: PredictedCase, gpu: GPU, regime: Regime) -> float:
        """What the spread is multiplied by: how near something was measured counts, and what it is.

        What is known well narrows no band of what was never seen: of another style in a runtime, for FasterTransformer
        was timed with transformers alone; of overhead on a GPU, of which large batches say nothing.
        """
        asked = case.architecture, case.input, case.gpu, case.precision, case.runtime, _size(case), regime
        if asked not in self._widths:
            unseen = not self._is_style_seen(case)
            unseen |= self.software(case) is Software.HERE and not self.is_seen(case, gpu)
            widest = max(self._raised(case, near, regime, unseen) for near in self._nearnesses(case, gpu))
            self._widths[asked] = exp(widest)
        return self._widths[asked]

    def _nearnesses(self, case: PredictedCase, gpu: GPU) -> tuple[Nearness, ...]:
        """How near something was measured: on a GPU that is new, of a model that is at other precisions alone, both."""
        near = self.nearness(case, gpu)
        return (near, Nearness.OTHERWISE) if near is Nearness.NEW_GPU and not self._is_alike(case) else (near,)

    def _raised(self, case: PredictedCase, nearness: Nearness, regime: Regime, unseen: bool) -> float:
        """Logarithm of what the spread is multiplied by; of what was never seen, no trait narrows it."""
        more = (self.widening.get(trait, 0.0) for trait in traits(case, nearness, self.software(case), regime))
        return sum(max(0.0, one) if unseen else one for one in more)

    @cached_property
    def _widths(self) -> dict[tuple[str, str, str, str, str, str, Regime], float]:
        """Those that were asked for before."""
        return {}

    def _is_style_seen(self, case: PredictedCase) -> bool:
        return self.knows("overhead style runtime", f"{style(case.architecture)} {case.runtime}")

    def is_seen(self, case: PredictedCase, gpu: GPU) -> bool:
        """Whether batches of that size were published of the runtime there, and small ones where overhead tells."""
        if _on_gpu(case) not in self.widening:
            return False
        return _on_gpu(replace(case, batch=1.0)) in self.widening or self.log_time(case, gpu).regime is Regime.WORK

    def traits(self, case: PredictedCase, gpu: GPU, regime: Regime) -> tuple[str, ...]:
        """What the width of its band depends on."""
        return tuple(traits(case, self.nearness(case, gpu), self.software(case), regime))

    @cached_property
    def usual_noise(self) -> float:
        """Of one figure, of the median publication."""
        return float(
            np.median([noise for source, noise in self.noise.items() if not is_repository(source)] or [OTHER_SD])
        )

    def nearness(self, case: PredictedCase, gpu: GPU) -> Nearness:
        """How near to the case something was measured."""
        model, kind, runtime, precision = network(case), case.gpu, case.runtime, case.precision
        if self.knows("series", f"{case.architecture} {case.input} {kind} {precision} {runtime}"):
            return Nearness.SERIES
        if self.knows("work model gpu", f"{model} {kind}"):
            return Nearness.PAIR
        if not (self.knows("work model", model) or self.knows("work model?", model)):
            return Nearness.NEW_MODEL
        if not self.knows("work chip", chip(gpu)):
            return Nearness.NEW_GPU
        return Nearness.ELSEWHERE if self._is_alike(case) else Nearness.OTHERWISE

    def _is_alike(self, case: PredictedCase) -> bool:
        """Whether the model was measured at that precision and runtime, on whichever GPU."""
        return self.knows("work model runtime precision", f"{network(case)} {case.runtime} {case.precision}")

    def precision(self, gpu: GPU, asked: str, architecture: str = "", of_layers: float | None = None) -> str:
        """That of published points which `asked` is on the GPU: `torch` stays only for what does both by far.

        PrecisionError where the GPU has no such arithmetic and nobody published any.
        """
        if asked == "torch":
            share = products_share(architecture, of_layers) if gpu.has_tf32 else 1.0
            return "fp32" if share > 1 - NO_SHARE else "tf32" if share < NO_SHARE else "torch"
        published = self.knows("work gpu precision", f"{gpu.name} {asked}")
        return asked if published else computed_in(gpu, asked)

    @property
    def runtimes(self) -> set[str]:
        """Those in which anything was published."""
        return set(self.effects.get("overhead runtime", {}))

    def knows(self, group: str, key: str) -> bool:
        """Whether an effect was seen."""
        return key in self.effects.get(group, {})


def _reached(case: PredictedCase, gpu: GPU, series: Sequence[Seen]) -> float:
    """The highest share of the GPU's peak that published batches of the series reach; 0 of none."""
    return max((least_s(replace(case, batch=at), gpu) / exp(log_s) for at, log_s in series), default=0.0)


def traits(case: PredictedCase, nearness: Nearness, software: Software, regime: Regime) -> Iterator[str]:
    """What the width of a band depends on."""
    size = _size(case)
    yield "all"
    yield f"{nearness} {size}"
    yield f"{nearness} {regime}"
    yield f"{nearness} {case.runtime}"
    yield _on_gpu(case)
    yield f"gpu {case.gpu} {size}"
    yield f"runtime {case.runtime} {size}"
    yield f"precision {case.precision} {size}"
    yield f"gpu {case.gpu} {case.precision} {size}"
    yield f"runtime {case.runtime} {case.precision} {size}"
    yield f"software {software} {nearness} {regime}"
    yield f"software {software} {size}"


def _on_gpu(case: PredictedCase) -> str:
    """The trait that a runtime has on a GPU where batches of that size were published in it."""
    return f"gpu {case.gpu} {case.runtime} {_size(case)}"


def _size(case: PredictedCase) -> str:
    return "small" if case.batch <= SMALL_MAX else "large"


def series_of(case: PredictedCase) -> Sequence[PublishedPoint]:
    """Published points from which only the batch may differ."""
    return _series(case.architecture, case.gpu, (case.input, case.precision, case.runtime))


@cache
def _series(architecture: str, gpu: str, wanted: tuple[str, str, str]) -> Sequence[PublishedPoint]:
    return [p for p in points(architecture, gpu) if (p.input, p.precision, p.runtime) == wanted]


def publications(case: PredictedCase, series: Sequence[PublishedPoint]) -> tuple[str, ...]:
    """Ids of those who published the series, else of the model: on the GPU first; the first few."""
    of_model = list(points(case.architecture))
    here = [point for point in of_model if point.gpu == case.gpu]
    sources = [point.source for point in series or [*here, *of_model]]
    return tuple(dict.fromkeys(sources))[:SOURCES_MAX]


def seen(series: Sequence[PublishedPoint]) -> list[Seen]:
    """Those of a stated batch."""
    return [Seen(float(point.batch), log(point.latency_s)) for point in series if point.batch]


@cache
def learnt(path: Path = FILE) -> Learnt:
    """What is shipped."""
    content = json.loads(gzip.decompress(path.read_bytes()))
    return Learnt(
        effects=content["effects"],
        spreads=content["spreads"],
        noise=content["noise"],
        widening=content["widening"],
        points_sha256=content["points_sha256"],
        as_of=content["as_of"],
    )
