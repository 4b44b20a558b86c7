"""Pairs: a model on a GPU where nobody measured it - its time by batch, what it keeps and loads, and by which rule."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from math import exp, inf, log

from calibrate.library.memory import Room, RoomOfBatch
from calibrate.library.reading import USUAL_RUNTIME
from planner.model.plan import Estimate, Prediction, PredictionRule
from planner.prediction.rules import bands
from planner.prediction.rules.bands import (
    SPREAD_80,
    around,
    at_least,
    at_quantile,
    beside_one,
    between,
    is_no_slower,
    joined,
    no_slower,
)
from simulator.world.curves import Interpolated, LoadTime
from simulator.world.hardware import GPU
from simulator.world.model import Layer
from simulator.world.profile import Doubt, Evidence, Profile

LOAD_SPREAD = 0.15
"""Of the share of its link that a copy reaches."""
SHARED = 0.2
"""Part of the variance of predictions that all models on a kind of GPU have in common: 0.16 of the errors where chips
were left out, none where pairs of model and GPU were, in one precision and runtime; `benchmarks truths` prints it."""
LARGE = 32.0
"""Batch at which the bands of pairs are compared."""
DATE_NONE = "1970-01-01"


@dataclass(frozen=True)
class Footprint:
    """What a model keeps and loads on a GPU, whatever rule predicts its time."""

    layers: tuple[Layer, ...]
    workspace: RoomOfBatch
    """Bytes that a batch of so many samples needs besides weights."""
    load: LoadTime
    context_bytes: int | None
    """What a process holds there besides; None: nobody measured it."""

    @cached_property
    def weight_bytes(self) -> int:
        """Each layer once."""
        return sum({layer.key: layer.weight_bytes for layer in self.layers}.values())

    def memory(self, batch: float) -> Room:
        """Of a batch, weights included."""
        room = self.workspace(batch)
        return Room(self.weight_bytes + room.allocated, self.weight_bytes + room.reserved)


@dataclass(frozen=True)
class PredictedPair:
    """A pair that was predicted: a series by batch, and what it rests on."""

    model: str
    gpu: GPU
    precision: str
    rule: PredictionRule
    source: str
    """GPU whose profile was carried over; empty where none was."""
    probes: tuple[str, ...]
    evidence: Evidence
    latency_s: Mapping[float, Estimate]
    footprint: Footprint
    known: Profile | None
    """The profile that was carried over."""
    flops: float | None
    least_s: float
    """Seconds of a sample at the vendor's peak, less what kernels may leave out."""
    past: Callable[[float], Estimate]
    """The time of a batch past the last one of the series."""
    runtime: str = USUAL_RUNTIME
    publications: tuple[str, ...] = ()
    """Ids of those who published of the model, where it was learnt from them."""
    parts: "tuple[PredictedPair, ...]" = ()
    """The two that it was joined from."""

    def time_s(self, batch: float) -> Estimate:
        """Seconds of a batch."""
        return between(self.latency_s, batch) if batch <= max(self.latency_s) else self.past(batch)

    def prediction(self, batch: float | None = None) -> Prediction:
        """Time, memory and loading at a batch size, the largest where none is named."""
        at = max(self.latency_s) if batch is None else batch
        footprint = self.footprint
        memory = footprint.memory(at)
        return Prediction(
            model=self.model,
            gpu=self.gpu.name,
            precision=self.precision,
            rule=self.rule,
            source=self.source,
            probes=self.probes,
            evidence=self.evidence,
            batch_size=int(at),
            latency_s=self.time_s(at),
            memory_bytes=round(memory.allocated),
            reserved_bytes=round(memory.reserved),
            load_s=around(footprint.load(footprint.weight_bytes), LOAD_SPREAD),
            memory_evidence=self.evidence,
            runtime=self.runtime,
        )

    def profile(self, quantile: float) -> Profile:
        """As if measured: time and loading so many standard deviations from the median, memory never short."""
        load = self.footprint.load
        times = accumulate((at_quantile(e, quantile) for e in self.latency_s.values()), max)
        rooms = accumulate((self.footprint.workspace(x).reserved for x in self.latency_s), max)
        slower = exp(quantile * LOAD_SPREAD)
        made = Profile(
            model=self.model,
            gpu=self.gpu.name,
            precision=self.precision,
            runtime=self.runtime,
            layers=self.footprint.layers,
            latency=Interpolated(tuple(self.latency_s), tuple(times)),
            doubt=Doubt(error_sd=self._error_sd(quantile), shared=SHARED, quantile=quantile),
            workspace=Interpolated(tuple(self.latency_s), tuple(rooms)),
            context_bytes=self.footprint.context_bytes,
            load=LoadTime(load.t0_s * slower, min(load.bytes_per_s / slower, self.gpu.pcie_bytes_per_s)),
            flops_per_sample=self.flops,
            latency_evidence=self.evidence,
            memory_evidence=self.evidence,
            load_evidence=self.evidence,
            source=self.why,
            as_of=self.known.as_of if self.known else DATE_NONE,
            assumptions=(f"Predicted, never measured: {self.why}.", *self._assumed_of_source()),
            doubts=self._doubts_of_source(),
            predicted=True,
        )
        if self.known is None:
            return made
        known = self.known
        return replace(made, latency_cv=known.latency_cv, output_bytes_per_sample=known.output_bytes_per_sample)

    def _error_sd(self, quantile: float) -> Interpolated:
        """Standard deviation of ln(time) by batch size, on the side of the band that the quantile lies on."""
        bands = self.latency_s.values()
        sides = [log(e.value / e.low) if quantile < 0 else log(e.high / e.value) for e in bands]
        return Interpolated(tuple(self.latency_s), tuple(side / SPREAD_80 for side in sides))

    def _assumed_of_source(self) -> tuple[str, ...]:
        """What the profile that was carried over assumes."""
        known = self.known
        return tuple(f"Of its profile on {known.gpu}: {text}" for text in known.assumptions) if known else ()

    def _doubts_of_source(self) -> tuple[str, ...]:
        """How much speaks against that profile: what it is, and what mends it, is a matter of the other GPU."""
        known = self.known
        if known is None or not known.doubts:
            return ()
        said = "a doubt" if len(known.doubts) == 1 else f"{len(known.doubts)} doubts"
        shown = f"planner profiles show {known.model} --gpu {known.gpu}"
        return (f"Its profile on {known.gpu}, from which it is predicted, has {said}: see `{shown}`.",)

    @property
    def reached(self) -> float:
        """Share of the GPU's arithmetic peak that the largest batch would reach: more than models do is not believed.

        A time carried over from a processor may come out at all of a GPU's peak.
        """
        batch = max(self.latency_s)
        return (self.flops or 0.0) * batch / self.latency_s[batch].value / self.gpu.peak_flops(self.precision)

    @property
    def sources(self) -> tuple[str, ...]:
        """Publications, and where the figures of the profile stand that was carried over."""
        return (*self.publications, *([self.known.source] if self.known else []))

    @property
    def why(self) -> str:
        """The rule in words, with its probes: `measured ratio to V100 (nvidia_resnet50)`."""
        probes = f" ({', '.join(self.probes)})" if self.probes else ""
        match self.rule:
            case PredictionRule.LEARNT:
                return f"what was learnt from {self.source}"
            case PredictionRule.MEASURED_RATIO:
                return f"its time on {self.source} times a ratio measured with probes{probes}"
            case PredictionRule.LAYER_MODEL:
                return f"a layer model of {self.gpu.name} from {len(self.probes)} models measured on it"
            case PredictionRule.DATA_SHEETS:
                both = f"{self.source} and {self.gpu.name}"
                if self.gpu.cores:
                    return f"its time on {self.source} times the ratio of the data sheets of {both}"
                return f"its time on {self.source} times the ratio of {both}, by data sheets and by what was learnt"
            case _:
                return f"a roofline of the data sheet of {self.gpu.name}"


def width(pair: PredictedPair) -> float:
    """Of the band at a large batch, which a short series says little of."""
    large = pair.time_s(LARGE)
    return large.high / large.low if large.low > 0 else inf


def is_refuted(carried: PredictedPair, told: PredictedPair) -> bool:
    """Whether what was carried over rests on a time of which something is assumed, and what was published of the
    network says otherwise: the bands of one sample have nothing in common."""
    if carried.known is None or carried.known.latency_evidence is not Evidence.ASSUMED:
        return False
    one, other = carried.time_s(1), told.time_s(1)
    return one.low > other.high or other.low > one.high


def joined_pair(told: PredictedPair, carried: PredictedPair) -> PredictedPair:
    """What was learnt, and what was carried over from another GPU or comes from layers, each as it is sure."""
    least_s = min(told.least_s, carried.least_s)

    def time_s(batch: float) -> Estimate:
        return at_least(joined(told.time_s(batch), carried.time_s(batch)), least_s * batch)

    return replace(
        told,
        source=f"{told.source} and its {f'time on {carried.source}' if carried.source else 'layers'}",
        probes=carried.probes,
        latency_s={batch: time_s(batch) for batch in told.latency_s},
        footprint=carried.footprint,
        known=carried.known,
        least_s=least_s,
        past=time_s,
        parts=(told, carried),
    )


def in_order_of_parts(pair: PredictedPair, other: PredictedPair) -> PredictedPair:
    """The same where no batch takes longer than in another joined pair of which either part says that it does not.

    Certainties differ between both, so a mean by certainty alone does not keep the order of what it is the mean of.
    """

    def time_s(batch: float) -> Estimate:
        own, parts = pair.time_s(batch), zip(pair.parts, other.parts, strict=True)
        is_due = all(is_no_slower(mine.time_s(batch), others.time_s(batch)) for mine, others in parts)
        return no_slower(own, other.time_s(batch)) if is_due else own

    return replace(pair, latency_s={batch: time_s(batch) for batch in pair.latency_s}, past=time_s)


def no_faster(pair: PredictedPair, least_s: Callable[[float], float]) -> PredictedPair:
    """The same where no batch takes less than `least_s` says."""
    return replace(
        pair,
        latency_s={batch: at_least(time_s, least_s(batch)) for batch, time_s in pair.latency_s.items()},
        past=lambda batch: at_least(pair.past(batch), least_s(batch)),
    )


def no_faster_than(pair: PredictedPair, other: PredictedPair) -> PredictedPair:
    """The same where no batch takes less than that of another pair, at either end of its band."""
    return replace(
        pair,
        latency_s={batch: bands.no_faster(time_s, other.time_s(batch)) for batch, time_s in pair.latency_s.items()},
        past=lambda batch: bands.no_faster(pair.past(batch), other.time_s(batch)),
    )


def in_proportion(pair: PredictedPair) -> PredictedPair:
    """The same where no batch contradicts that of one sample, if that is in the series."""
    one = pair.latency_s.get(1.0)
    if one is None:
        return pair

    def past(batch: float) -> Estimate:
        return beside_one(pair.past(batch), one, batch)

    latency_s = {batch: beside_one(time_s, one, batch) for batch, time_s in pair.latency_s.items()}
    return replace(pair, latency_s=latency_s, past=past)
