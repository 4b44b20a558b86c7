"""Carrying: a profile on one GPU carried over to another, by a ratio of probes measured on both or of data sheets."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import hypot, log2

from calibrate.library.reading import USUAL_RUNTIME
from calibrate.published import names
from calibrate.published.points import points
from planner.model.plan import Estimate, PredictionRule
from planner.prediction.rules.bands import at_least, wider
from planner.prediction.rules.floors import Seconds, computed_share, floor_of, passed_by
from planner.prediction.rules.grounds import Grounds
from planner.prediction.rules.pairs import PredictedPair
from planner.prediction.rules.transfer import (
    SHEET_SPREAD,
    Pair,
    Ratio,
    Transferred,
    floor_and_slope,
    measured_ratio,
    sheet_ratio,
)
from simulator.world.hardware import GPU
from simulator.world.profile import Evidence, Profile, weakest

REACHED = 0.6
"""Share of a data sheet's rates that kernels of whole models reach."""


@dataclass(frozen=True)
class Carrying:
    """What profiles on other GPUs say of a GPU."""

    grounds: Grounds

    def carried(self, source: Profile, gpu: GPU, ratio: Ratio) -> PredictedPair:
        """A profile carried over; `ratio` is of large batches, overhead is the host's and stays."""
        share = self._arithmetic(source, source.latency.x[-1])
        peak = self._kind(source).peak_flops(source.precision)
        work_s = (source.flops_per_sample or 0.0) / (REACHED * peak)
        form, slope_spread = floor_and_slope(source.latency.x, source.latency.y, work_s)
        return self.moved(source, gpu, Transferred(form, ratio(share), hypot(ratio.spread, slope_spread)), ratio.probes)

    def moved(
        self, source: Profile, gpu: GPU, time_s: Callable[[float], Estimate], probes: tuple[str, ...] = ()
    ) -> PredictedPair:
        """A profile carried over, of which each batch takes so long there; by data sheets where there are no probes."""
        peak = self._kind(source).peak_flops(source.precision)
        timed = list(zip(source.latency.x, source.latency.y, strict=True))
        operations = computed_share(self.grounds.facts(source.model), gpu, source.precision) * (
            source.flops_per_sample or 0.0
        )
        # What kernels leave out besides passed their peak there already.
        passed_peak = passed_by(timed, lambda batch: batch * operations / peak)
        peak_s = operations / gpu.peak_flops(source.precision) / passed_peak
        floor_s = self._floor(source, gpu)
        passed = passed_by(timed, self._floor(source, self._kind(source)))

        def least_s(batch: float) -> float:
            return max(peak_s * batch, floor_s(batch) / passed)

        measured = bool(probes)
        from_evidence = weakest(source.latency_evidence, source.memory_evidence)
        return PredictedPair(
            model=source.model,
            gpu=gpu,
            precision=source.precision,
            rule=PredictionRule.MEASURED_RATIO if measured else PredictionRule.DATA_SHEETS,
            source=source.gpu,
            probes=probes,
            evidence=weakest(Evidence.TRANSFERRED if measured else Evidence.ASSUMED, from_evidence),
            latency_s={x: at_least(time_s(x), least_s(x)) for x in source.latency.x},
            footprint=self.grounds.footprint(source.model, gpu, source.precision),
            known=source,
            flops=source.flops_per_sample,
            least_s=peak_s,
            past=lambda batch: at_least(wider(time_s(batch), batch / source.latency.x[-1]), least_s(batch)),
        )

    def measured_ratio(self, source: Profile, gpu: GPU) -> Ratio | None:
        """From models with profiles on both GPUs, at the precision, in the runtime, at the largest batch of both."""
        alike = source.gpu, source.precision, source.runtime
        pairs = [
            self._pair(there, here)
            for (model, _, precision), there in sorted(self.grounds.library.profiles.items())
            if (there.gpu, there.precision, there.runtime) == alike
            if (here := self.grounds.library.profiles.get((model, gpu.name, precision))) is not None
            if here.runtime == source.runtime
        ]
        return measured_ratio(pairs) if pairs else None

    def sheets(self, source: Profile, gpu: GPU) -> Ratio:
        """The ratio of two data sheets: of what the layers take by them, where they run one by one.

        Of pairs of GPUs in PyTorch half err by 9 % and less so, by the mean of both rates' ratios by 18 %.
        """
        batch = source.latency.x[-1]
        there_s, here_s = self._floor(source, self._kind(source))(batch), self._floor(source, gpu)(batch)
        if there_s:
            return Ratio(here_s / there_s, here_s / there_s, SHEET_SPREAD, ())
        return sheet_ratio(*_rates(self._kind(source), gpu, source.precision))

    def _floor(self, source: Profile, gpu: GPU) -> Seconds:
        """The least that a batch of its model takes on a GPU."""
        return floor_of(self.grounds.facts(source.model), gpu, source.precision, source.runtime)

    def _kind(self, source: Profile) -> GPU:
        """What it was measured on."""
        return self.grounds.gpus[source.gpu]

    def _pair(self, source: Profile, target: Profile) -> Pair:
        batch = min(source.latency.x[-1], target.latency.x[-1])
        share = self._arithmetic(source, batch)
        return Pair(source.model, share, source.latency(batch), target.latency(batch))

    def _arithmetic(self, profile: Profile, batch: float) -> float | None:
        """Share of its GPU's arithmetic peak that a batch reaches."""
        if profile.flops_per_sample is None:
            return None
        peak = self.grounds.gpus[profile.gpu].peak_flops(profile.precision)
        return profile.flops_per_sample * batch / profile.latency(batch) / peak

    def is_believed(self, pair: PredictedPair) -> bool:
        """Whether it reaches no more of its GPU's peak than models do, or than its source did there."""
        return pair.reached <= max(REACHED, self._reached_there(pair))

    def _reached_there(self, pair: PredictedPair) -> float:
        """Share of its own GPU's peak that the profile reached which was carried over."""
        assert pair.known is not None
        return self._arithmetic(pair.known, pair.known.latency.x[-1]) or 0.0

    # To processors, of which nothing was learnt

    def to_processor(self, model: str, gpu: GPU, precision: str, runtime: str | None) -> Iterator[PredictedPair]:
        """By the ratio of data sheets from the processor that is most like it."""
        library = self.grounds.library
        known = (*library.for_model(model), *library.published_of(model, self._processors))
        alike = [
            profile
            for profile in known
            if profile.gpu != gpu.name and profile.gpu in self._processors
            if profile.precision == precision and runtime in (None, profile.runtime)
        ]

        def strangeness(profile: Profile) -> tuple[float, int, bool]:
            apart = _cores_apart(self.grounds.gpus[profile.gpu], gpu)
            return apart, profile.latency_evidence.rank, profile.runtime != USUAL_RUNTIME

        for profile in sorted(alike, key=strangeness):
            ratio, evidence = self._between_processors(profile, gpu)
            made = self.carried(profile, gpu, ratio)
            yield replace(made, runtime=profile.runtime, evidence=weakest(made.evidence, evidence))

    def _between_processors(self, source: Profile, gpu: GPU) -> tuple[Ratio, Evidence]:
        """By data sheets; from one with other cores to one with as many, if that has probes, by those first.

        Twice the cores are not twice as fast: of one picture, 14 do what 4 do in half the time.
        """
        first = self.grounds.gpus[source.gpu]
        for middle in sorted(self._probed_processors - {source.gpu}):
            kind = self.grounds.gpus[middle]
            if _cores_apart(kind, gpu) < _cores_apart(first, gpu) and (pairs := self.published_pairs(first, kind)):
                probed = measured_ratio(pairs)
                if middle == gpu.name:
                    return probed, Evidence.TRANSFERRED
                sheets = sheet_ratio(*_rates(kind, gpu, source.precision))
                scaled = replace(
                    probed,
                    arithmetic=probed.arithmetic * sheets.arithmetic,
                    other=probed.other * sheets.other,
                    spread=hypot(probed.spread, sheets.spread),
                )
                return scaled, Evidence.ASSUMED
        return self.sheets(source, gpu), Evidence.ASSUMED

    @cached_property
    def _processors(self) -> set[str]:
        return {name for name, kind in self.grounds.gpus.items() if kind.cores}

    @cached_property
    def _probed_processors(self) -> set[str]:
        return {name for name in names.processors() if name in self.grounds.gpus}

    def published_pairs(self, first: GPU, second: GPU) -> list[Pair]:
        """Models published on both, at fp32 and one picture at a time."""
        key = (first.name, second.name)
        if key not in self._processor_pairs:
            both = {p.architecture for p in points(gpu=first.name)} & {p.architecture for p in points(gpu=second.name)}
            found = [
                (self.grounds.library.get(m, first.name, "fp32"), self.grounds.library.get(m, second.name, "fp32"))
                for m in both
            ]
            pairs = [self._pair(one, other) for one, other in found if one and other]
            self._processor_pairs[key] = sorted(pairs, key=lambda pair: pair.model)
        return self._processor_pairs[key]

    @cached_property
    def _processor_pairs(self) -> dict[tuple[str, str], list[Pair]]:
        return {}


def _rates(first: GPU, second: GPU, precision: str) -> tuple[tuple[float, float], tuple[float, float]]:
    """Peaks and bandwidths of two kinds, as data sheets have them."""
    peaks = (first.peak_flops(precision), second.peak_flops(precision))
    return peaks, (first.memory_bytes_per_s, second.memory_bytes_per_s)


def _cores_apart(one: GPU, other: GPU) -> float:
    """Doublings that lie between the cores of two processors."""
    return abs(log2((one.cores or 1) / (other.cores or 1)))
