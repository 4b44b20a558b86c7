"""Prediction: what a model would cost on a GPU where nobody measured it, with an 80 % band and the rule behind it.

In order of trust: a profile of that pair; what was learnt from all published points of its architecture, together with
what its profile on another GPU says; that alone, times a ratio of probes measured on both; a layer model of the GPU;
that profile times a ratio of data sheets; a roofline of data sheets alone.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property, partial
from itertools import accumulate
from math import exp, hypot, inf, log, log1p, log2

from calibrate.layers.facts import Facts, FactsError, facts
from calibrate.library.fit import band_log
from calibrate.library.held import counted, held_numbers
from calibrate.library.lookup import Library
from calibrate.library.reading import PRECISIONS, USUAL_RUNTIME
from calibrate.published import names, runtimes
from calibrate.published.points import points
from calibrate.zoo.sources import is_sourced
from planner.model.plan import Estimate, Prediction, PredictionRule
from planner.placing.sizing import Unpredicted
from planner.prediction.effects import PredictedCase, at_size, least_s
from planner.prediction.learnt import Learnt, Nearness, learnt, publications, seen, series_of
from planner.prediction.roofline import PrecisionError, ceilings, under, why_not
from planner.prediction.transfer import (
    ROOFLINE_SPREAD,
    SPREAD_80,
    LayerModel,
    Pair,
    Ratio,
    SampleWork,
    Transferred,
    around,
    at_least,
    floor_and_slope,
    layer_model,
    measured_ratio,
    sheet_ratio,
)
from simulator.world.curves import Curve, Erring, Interpolated, LoadTime
from simulator.world.hardware import GPU
from simulator.world.model import Layer
from simulator.world.precision import value_share, weight_share
from simulator.world.profile import Doubt, Evidence, Profile, weakest

BAND_90 = 1.645
"""Half of a 90 % band over the spread, of a normal distribution."""
PAST_SPREAD = 0.25
"""Of a curve at twice its largest measured batch and beyond: every form is off by 3 to 50 % there."""
WORKSPACE_SPREAD = 0.15
"""Of workspace on another GPU: libraries choose other kernels, which need other room."""
LOAD_SPREAD = 0.15
"""Of the share of its link that a copy reaches."""
LINK_SHARE = 0.77
"""That share where no profile tells: the V100 of the Clockwork zoo reaches 12.29 of 16 GB/s."""
LAUNCH_S = 2e-5
"""For the host to launch a kernel from Python: 6 to 65 microseconds in public series, the geometric mean."""
REACHED = 0.6
"""Share of a data sheet's rates that kernels of whole models reach."""
BATCHES = (1, 2, 4, 8, 16, 32)
"""Predicted where no series of another GPU gives them."""
SHARED = 0.2
"""Part of the variance of predictions that all models on a kind of GPU have in common: 0.38 of the errors where chips
were left out, none where pairs of model and GPU were, in one precision and runtime; `benchmarks truths` prints it."""
MODELS_MIN = 4
"""Models with known layers measured on a GPU, below which a layer model of it says nothing."""
DATE_NONE = "1970-01-01"

PairKey = tuple[str, str, str | None, str | None]
"""Model, GPU, precision and runtime."""


class End(float, Enum):
    """Ends of an 80 % band, in standard deviations."""

    LOW = -SPREAD_80
    VALUE = 0.0
    HIGH = SPREAD_80


@dataclass(frozen=True)
class Footprint:
    """What a model keeps and loads on a GPU, whatever rule predicts its time."""

    layers: tuple[Layer, ...]
    workspace: Callable[[float], Estimate]
    """Bytes that a batch of so many samples needs besides weights."""
    load: LoadTime
    context_bytes: int | None
    """What a process holds there besides; None: nobody measured it."""

    @cached_property
    def weight_bytes(self) -> int:
        """Each layer once."""
        return sum({layer.key: layer.weight_bytes for layer in self.layers}.values())


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
    past: Callable[[float], Estimate]
    """The time of a batch past the last one of the series."""
    runtime: str = USUAL_RUNTIME
    publications: tuple[str, ...] = ()
    """Ids of those who published of the model, where it was learnt from them."""

    def time_s(self, batch: float) -> Estimate:
        """Seconds of a batch."""
        return _between(self.latency_s, batch) if batch <= max(self.latency_s) else self.past(batch)

    def prediction(self, batch: float | None = None) -> Prediction:
        """Time, memory and loading at a batch size, the largest where none is named."""
        at = max(self.latency_s) if batch is None else batch
        footprint = self.footprint
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
            memory_bytes=plus(footprint.weight_bytes, footprint.workspace(at)),
            load_s=around(footprint.load(footprint.weight_bytes), LOAD_SPREAD),
            memory_evidence=self.evidence,
        )

    def profile(self, quantile: float) -> Profile:
        """As if measured, so many standard deviations from the median: time, workspace and loading together."""
        load = self.footprint.load
        times = accumulate((at_quantile(e, quantile) for e in self.latency_s.values()), max)
        rooms = accumulate((at_quantile(self.footprint.workspace(x), quantile) for x in self.latency_s), max)
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
            assumptions=(f"Predicted, never measured: {self.why}.", *self._of_source("assumptions")),
            doubts=self._of_source("doubts"),
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

    def _of_source(self, texts: str) -> tuple[str, ...]:
        """What the profile that was carried over assumes, or what speaks against it."""
        if self.known is None:
            return ()
        known: tuple[str, ...] = getattr(self.known, texts)
        return tuple(f"Of its profile on {self.known.gpu}: {text}" for text in known)

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
                return (
                    f"its time on {self.source} times the ratio of the data sheets of {self.source} and {self.gpu.name}"
                )
            case _:
                return f"a roofline of the data sheet of {self.gpu.name}"


@dataclass(frozen=True)
class Predictor:
    """A library that also answers for pairs nobody measured."""

    library: Library
    gpus: Mapping[str, GPU]
    quantile: float = End.HIGH
    """What `get` makes of a band, in standard deviations from its middle."""
    facts_of: Callable[[str], Facts] = facts
    learnt: Learnt = field(default_factory=learnt)

    def get(self, model: str, gpu: str, precision: str | None = None, runtime: str | None = None, /) -> Profile | None:
        """The profile of a pair, else what was predicted at the quantile; None where nothing can be said.

        Of a runtime that is asked for, only what was learnt is told: profiles of one do not hold in another.
        """
        key = (model, gpu, precision, runtime)
        if key not in self._made:
            self._made[key] = self._known(*key) or self._predicted(*key)
        return self._made[key]

    def _known(self, model: str, gpu: str, precision: str | None, runtime: str | None) -> Profile | None:
        """The best source, at the quantile of what others make of it."""
        best = self.library.get(model, gpu, precision, runtime)
        if best is None or best.doubt is None:
            return best
        latency = Erring(best.latency, self.quantile, best.doubt.error_sd)
        return replace(best, latency=latency, doubt=replace(best.doubt, quantile=self.quantile))

    def _predicted(self, model: str, gpu: str, precision: str | None, runtime: str | None) -> Profile | None:
        pair = self.predicted_pair(model, gpu, precision, runtime)
        return None if pair is None else pair.profile(self.quantile)

    @cached_property
    def _made(self) -> dict[PairKey, Profile | None]:
        return {}

    @cached_property
    def _pairs(self) -> dict[PairKey, PredictedPair | None]:
        return {}

    @cached_property
    def _facts_by_model(self) -> dict[str, Facts | None]:
        return {}

    def at(self, quantile: float) -> "Predictor":
        """The same at another quantile of the bands; one for each, for it remembers too."""
        if quantile not in self._at:
            other = replace(self, quantile=quantile)
            other.__dict__.update(_at=self._at, _pairs=self._pairs, _facts_by_model=self._facts_by_model)
            self._at[quantile] = other
        return self._at[quantile]

    @cached_property
    def _at(self) -> "dict[float, Predictor]":
        return {}

    def predicted_pair(
        self, model: str, gpu: str, precision: str | None = None, runtime: str | None = None
    ) -> PredictedPair | None:
        """What is predicted of a pair without a profile, by the first rule that can."""
        key = (model, gpu, precision, runtime)
        if key not in self._pairs:
            self._pairs[key] = next(iter(self._told(model, self.gpus[gpu], precision, runtime)), None)
        return self._pairs[key]

    def _told(self, model: str, gpu: GPU, precision: str | None, runtime: str | None) -> Iterable[PredictedPair]:
        """What every rule says, the most trusted first; nothing at a precision that GPU or runtime lack."""
        if not self._computes(gpu, precision or PRECISIONS[0]):
            return ()
        if gpu.cores:
            return self._on_processor(model, gpu, precision or PRECISIONS[0], runtime)
        wanted = runtime or self._usual_runtime(model, precision)
        if self._unserved(model, gpu, precision, wanted):
            return ()
        if wanted in (None, USUAL_RUNTIME):
            return self._rules(model, gpu, precision)
        return self._by_learnt(model, gpu, precision, wanted) or self._by_counts(model, gpu, precision, wanted)

    def _usual_runtime(self, model: str, precision: str | None) -> str | None:
        """That which is meant where none is named; None: whatever a profile at the precision was measured in."""
        measured = any(profile.precision == precision for profile in self.library.for_model(model))
        return None if measured else runtimes.usual(precision)

    def _unserved(self, model: str, gpu: GPU, precision: str | None, runtime: str | None) -> str:
        """Why the runtime does not run the model; empty where it does, or where somebody measured that it does."""
        if runtime is None:
            return ""
        wanted = (precision or PRECISIONS[0], runtime)
        if any((profile.precision, profile.runtime) == wanted for profile in self.library.for_model(model)):
            return ""
        return runtimes.runtime(runtime).unserved(names.architecture(model), wanted[0], gpu)

    def _computes(self, gpu: GPU, precision: str) -> bool:
        if precision not in PRECISIONS:
            return False
        try:
            self.learnt.precision(gpu, precision)
        except PrecisionError:
            return False
        return True

    def why_not(self, model: str, gpu: str, precision: str | None, runtime: str | None = None) -> Unpredicted:
        """Why nothing can be predicted of a pair that nobody measured."""
        kind, wanted = self.gpus[gpu], precision or "fp32"
        if not self._computes(kind, wanted):
            return Unpredicted(f"{gpu} {why_not(kind, wanted)}", "another `precision`, or another kind of GPU")
        if unserved := self._unserved(model, kind, precision, runtime or self._usual_runtime(model, precision)):
            return Unpredicted(unserved, "another `runtime`, or another `precision`")
        others = sorted({p.precision for p in self.library.for_model(model)} - {precision})
        if others and precision is not None and self._facts(model) is None:
            return Unpredicted(f"it was measured at {' and '.join(others)} only, and its layers are not known")
        return Unpredicted("neither are its layers known, nor was it measured on another GPU")

    def predict(
        self, model: str, gpu: str, precision: str | None = None, batch: float | None = None
    ) -> Prediction | None:
        """Time, memory and loading of a pair, measured or not; None where nothing can be said."""
        if (measured := self.library.get(model, gpu, precision)) is not None:
            at = measured.largest_batch if batch is None else batch
            return interpolated(measured, at, self.gpus.get(gpu), self._facts(model))
        pair = self.predicted_pair(model, gpu, precision)
        return None if pair is None else pair.prediction(batch)

    def _rules(self, model: str, gpu: GPU, precision: str | None) -> Iterator[PredictedPair]:
        sources = self._sources(model, gpu, precision)
        ratios = [(source, self._measured_ratio(source, gpu)) for source in sources]
        by_ratio = [self._carried(source, gpu, ratio) for source, ratio in ratios if ratio]
        by_learnt = self._by_learnt(model, gpu, sources[0].precision if sources else precision)
        by_sheets = sorted((self._carried(p, gpu, self._sheets(p, gpu)) for p in sources), key=_width)
        carried = sorted(by_ratio, key=_width)
        yield from self._all_joined(by_learnt, (carried or list(filter(self._is_believed, by_sheets)))[:1] or [None])
        yield from carried
        yield from self._by_layers(model, gpu, precision or "fp32", sources)
        yield from filter(self._is_believed, by_sheets)
        by_layers = list(self._roofline(model, gpu, precision or "fp32"))
        yield from self._all_joined(self._by_counts(model, gpu, precision), by_layers)
        yield from by_layers
        yield from by_sheets

    def _all_joined(
        self, pairs: Iterable[PredictedPair], others: Sequence[PredictedPair | None]
    ) -> Iterator[PredictedPair]:
        """Each pair joined with each of the others, or alone with none."""
        for pair in pairs:
            yield from (self._joined(pair, other) if other else pair for other in others)

    def _sources(self, model: str, gpu: GPU, precision: str | None) -> list[Profile]:
        """The best profile of the model's architecture on each other GPU, all at one precision."""
        elsewhere = self._elsewhere(model, gpu)
        if precision is None and elsewhere:
            precision = _preferred(elsewhere)
        usable = [p for p in elsewhere if p.precision == precision and self._computes(gpu, p.precision)]
        return list({p.gpu: p for p in reversed(usable)}.values())

    def _elsewhere(self, model: str, gpu: GPU) -> list[Profile]:
        """Profiles on other GPUs. Times in other runtimes count only where none is known in the usual one."""
        elsewhere = [p for p in self.library.for_model(model) if p.gpu != gpu.name]
        return [p for p in elsewhere if p.runtime == USUAL_RUNTIME] or elsewhere

    def _is_believed(self, pair: PredictedPair) -> bool:
        """Whether it reaches no more of its GPU's peak than models do, or than its source did there."""
        return pair.reached <= max(REACHED, self._reached_there(pair))

    # On processors, of which nothing was learnt

    def _on_processor(self, model: str, gpu: GPU, precision: str, runtime: str | None) -> Iterator[PredictedPair]:
        """By the ratio of data sheets from the processor that is most like it, else by a roofline."""
        known = (*self.library.for_model(model), *self.library.published_of(model))
        alike = [
            profile
            for profile in known
            if profile.gpu != gpu.name and profile.gpu in self.gpus and self.gpus[profile.gpu].cores
            if profile.precision == precision and runtime in (None, profile.runtime)
        ]

        def strangeness(profile: Profile) -> tuple[float, int, bool]:
            apart = _cores_apart(self.gpus[profile.gpu], gpu)
            return apart, profile.latency_evidence.rank, profile.runtime != USUAL_RUNTIME

        for profile in sorted(alike, key=strangeness):
            ratio, evidence = self._between_processors(profile, gpu)
            made = self._carried(profile, gpu, ratio)
            yield replace(made, runtime=profile.runtime, evidence=weakest(made.evidence, evidence))
        if runtime in (None, USUAL_RUNTIME):
            yield from self._roofline(model, gpu, precision)

    def _between_processors(self, source: Profile, gpu: GPU) -> tuple[Ratio, Evidence]:
        """By data sheets; from one with other cores to one with as many, if that has probes, by those first.

        Twice the cores are not twice as fast: of one picture, 14 do what 4 do in half the time.
        """
        first = self.gpus[source.gpu]
        for middle in sorted(self._probed_processors - {source.gpu}):
            kind = self.gpus[middle]
            if _cores_apart(kind, gpu) < _cores_apart(first, gpu) and (pairs := self._published_pairs(first, kind)):
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
        return self._sheets(source, gpu), Evidence.ASSUMED

    @cached_property
    def _probed_processors(self) -> set[str]:
        return {name for name in names.processors() if name in self.gpus}

    def _published_pairs(self, first: GPU, second: GPU) -> list[Pair]:
        """Models published on both, at fp32 and one picture at a time."""
        key = (first.name, second.name)
        if key not in self._processor_pairs:
            both = {p.architecture for p in points(gpu=first.name)} & {p.architecture for p in points(gpu=second.name)}
            found = [(self.library.get(m, first.name, "fp32"), self.library.get(m, second.name, "fp32")) for m in both]
            pairs = [self._pair(one, other) for one, other in found if one and other]
            self._processor_pairs[key] = sorted(pairs, key=lambda pair: pair.model)
        return self._processor_pairs[key]

    @cached_property
    def _processor_pairs(self) -> dict[tuple[str, str], list[Pair]]:
        return {}

    # From published points

    def _by_learnt(
        self, model: str, gpu: GPU, precision: str | None, runtime: str = USUAL_RUNTIME
    ) -> list[PredictedPair]:
        """What all published points together say of the model's architecture at its input; none: nothing."""
        one = self._case(model, gpu, precision or PRECISIONS[0], runtime)
        if self.learnt.nearness(one, gpu) is Nearness.NEW_MODEL:
            return []
        return self._by_effects(model, gpu, precision, one)

    def _by_counts(
        self, model: str, gpu: GPU, precision: str | None, runtime: str = USUAL_RUNTIME
    ) -> list[PredictedPair]:
        """What all published points together say of a new model with so many operations; none where unknown."""
        facts = self._facts(model)
        if facts is None or runtime not in self.learnt.runtimes:
            return []
        one = self._case(model, gpu, precision or PRECISIONS[0], runtime)
        return self._by_effects(model, gpu, precision, replace(one, counted=counted(facts, one.architecture)))

    def _case(self, model: str, gpu: GPU, precision: str, runtime: str) -> PredictedCase:
        """One sample of a model by its published name, where its own layers do not contradict that."""
        facts = self._facts(model)
        own = facts if facts and ":" in facts.model else None
        architecture, size = names.identity(own.model if own else model)
        if own and not is_alike(own, architecture):
            architecture = own.model
        counts = counted(facts, architecture) if facts else None
        ran_at = self.learnt.precision(gpu, precision, architecture, counts)
        if not own and ran_at != "torch":
            counts = None
        return PredictedCase(
            gpu=gpu.name,
            architecture=architecture,
            input=counts.input if counts else self._likeliest_input(model, architecture) or size,
            precision=ran_at,
            runtime=runtime,
            batch=1.0,
            counted=counts,
        )

    def _by_effects(self, model: str, gpu: GPU, precision: str | None, one: PredictedCase) -> list[PredictedPair]:
        known = one.counted or names.facts_of(one.architecture, one.input)
        if known is None or known.params is None:
            return []
        flops = 2 * (at_size(known, one.input).macs or 0.0)
        series = series_of(one)
        published = seen(series)

        def time_s(batch: float) -> Estimate:
            return self.learnt.predict(replace(one, batch=batch), gpu, published)

        return [
            PredictedPair(
                model=model,
                gpu=gpu,
                precision=precision or PRECISIONS[0],
                rule=PredictionRule.LEARNT,
                source=f"published times ({self.learnt.nearness(one, gpu)})",
                probes=(),
                evidence=Evidence.PREDICTED,
                latency_s={float(batch): time_s(batch) for batch in BATCHES},
                footprint=self._footprint(model, gpu, precision or PRECISIONS[0]),
                known=None,
                flops=flops or None,
                past=lambda batch: at_least(
                    _wider(time_s(batch), batch / BATCHES[-1]), least_s(replace(one, batch=batch), gpu)
                ),
                runtime=one.runtime,
                publications=publications(one, series),
            )
        ]

    def _joined(self, told: PredictedPair, carried: PredictedPair) -> PredictedPair:
        """What was learnt, and what was carried over from another GPU or comes from layers, each as it is sure."""

        least_s = (told.flops or 0.0) / told.gpu.peak_flops(told.precision)

        def time_s(batch: float) -> Estimate:
            return at_least(joined(told.time_s(batch), carried.time_s(batch)), least_s * batch)

        return replace(
            told,
            source=f"{told.source} and its {f'time on {carried.source}' if carried.source else 'layers'}",
            probes=carried.probes,
            latency_s={batch: time_s(batch) for batch in told.latency_s},
            footprint=carried.footprint,
            known=carried.known,
            past=time_s,
        )

    def _likeliest_input(self, model: str, architecture: str) -> str:
        """The input at which the architecture takes as many operations as the model is known to; empty: not known."""
        facts = self._facts(model)
        known = [p.flops_per_sample for p in self.library.for_model(model) if p.flops_per_sample]
        flops = known[0] if known else facts.flops if facts else 0.0
        sizes = {one.input: 2 * one.macs for one in names.architectures().get(architecture, ()) if one.macs}
        return min(sizes, key=lambda size: abs(log(sizes[size] / flops)), default="") if flops else ""

    # From another GPU

    def _carried(self, source: Profile, gpu: GPU, ratio: Ratio) -> PredictedPair:
        """A profile carried over; `ratio` is of large batches, overhead is the host's and stays."""
        share = self._arithmetic(source, source.latency.x[-1])
        peak = self.gpus[source.gpu].peak_flops(source.precision)
        work_s = (source.flops_per_sample or 0.0) / (REACHED * peak)
        form, slope_spread = floor_and_slope(source.latency.x, source.latency.y, work_s)
        moved = Transferred(form, ratio(share), hypot(ratio.spread, slope_spread))
        shares = [self._arithmetic(source, x) or 0.0 for x in source.latency.x]
        # Kernels that leave operations out, as Winograd's do, passed their peak there already.
        least_s = (source.flops_per_sample or 0.0) / gpu.peak_flops(source.precision) / max(1.0, *shares)
        measured = bool(ratio.probes)
        from_evidence = weakest(source.latency_evidence, source.memory_evidence)
        return PredictedPair(
            model=source.model,
            gpu=gpu,
            precision=source.precision,
            rule=PredictionRule.MEASURED_RATIO if measured else PredictionRule.DATA_SHEETS,
            source=source.gpu,
            probes=ratio.probes,
            evidence=weakest(Evidence.TRANSFERRED if measured else Evidence.ASSUMED, from_evidence),
            latency_s={x: at_least(moved(x), least_s * x) for x in source.latency.x},
            footprint=self._footprint(source.model, gpu, source.precision),
            known=source,
            flops=source.flops_per_sample,
            past=lambda batch: at_least(_wider(moved(batch), batch / source.latency.x[-1]), least_s * batch),
        )

    def _measured_ratio(self, source: Profile, gpu: GPU) -> Ratio | None:
        """From every model with profiles on both GPUs at the precision, timed at the largest batch of both."""
        pairs = [
            self._pair(there, here)
            for (model, name, precision), there in sorted(self.library.profiles.items())
            if name == source.gpu and precision == source.precision
            if (here := self.library.profiles.get((model, gpu.name, precision))) is not None
        ]
        return measured_ratio(pairs) if pairs else None

    def _pair(self, source: Profile, target: Profile) -> Pair:
        batch = min(source.latency.x[-1], target.latency.x[-1])
        share = self._arithmetic(source, batch)
        return Pair(source.model, share, source.latency(batch), target.latency(batch))

    def _arithmetic(self, profile: Profile, batch: float) -> float | None:
        """Share of its GPU's arithmetic peak that a batch reaches."""
        if profile.flops_per_sample is None:
            return None
        peak = self.gpus[profile.gpu].peak_flops(profile.precision)
        return profile.flops_per_sample * batch / profile.latency(batch) / peak

    def _reached_there(self, pair: PredictedPair) -> float:
        """Share of its own GPU's peak that the profile reached which was carried over."""
        assert pair.known is not None
        return self._arithmetic(pair.known, pair.known.latency.x[-1]) or 0.0

    def _sheets(self, source: Profile, gpu: GPU) -> Ratio:
        return sheet_ratio(*_rates(self.gpus[source.gpu], gpu, source.precision))

    def _load_rate(self, gpu: GPU, link_share: float) -> float:
        """Median of what profiles on the GPU load at: bandwidth is the device's; without any, a share of its link."""
        rates = sorted(
            p.load.bytes_per_s
            for (_, name, _), p in self.library.profiles.items()
            if name == gpu.name and p.load_evidence.rank <= Evidence.FITTED.rank
        )
        return rates[len(rates) // 2] if rates else link_share * gpu.pcie_bytes_per_s

    # What it keeps and loads

    def _context_bytes(self, gpu: GPU) -> int | None:
        """The most that a process held on the GPU beside any model that was measured there."""
        held = (p.context_bytes for (_, name, _), p in self.library.profiles.items() if name == gpu.name)
        return max((size for size in held if size is not None), default=None)

    def _footprint(self, model: str, gpu: GPU, precision: str) -> Footprint:
        """One rule for every pair: a profile whose memory somebody saw, in numbers of this precision; else its layers.

        The profile is the same however the time is predicted, so two precisions differ by the size of numbers.
        """
        facts = self._facts(model)
        source = self._memory_source(model, gpu, precision, facts)
        workspace = partial(workspace_of, source, facts, precision)
        context_bytes = self._context_bytes(gpu)
        if source is None:
            load = LoadTime(0.0, self._load_rate(gpu, LINK_SHARE))
            held = _counted(model, precision) if facts is None else (facts.weight_bytes, workspace)
            whole = Layer(model, round(weight_share(precision) * held[0]))
            return Footprint((whole,), held[1], load, context_bytes)
        scale = weight_share(precision) / weight_share(source.precision)
        layers = tuple(Layer(layer.key, round(scale * layer.weight_bytes)) for layer in source.layers)
        if source.gpu == gpu.name:
            return Footprint(layers, workspace, source.load, context_bytes)
        link_share = min(1.0, source.load.bytes_per_s / self.gpus[source.gpu].pcie_bytes_per_s)
        load = LoadTime(source.load.t0_s, self._load_rate(gpu, link_share))
        return Footprint(layers, workspace, load, context_bytes)

    def _memory_source(self, model: str, gpu: GPU, precision: str, facts: Facts | None) -> Profile | None:
        """The profile whose memory is most like the pair's; None where the layers say more."""
        known = self.library.for_model(model)
        observed = [p for p in known if p.memory_evidence.rank <= Evidence.FITTED.rank]
        usable = observed or ([] if facts else known)
        same = [p for p in usable if p.precision == precision] or usable

        def strangeness(p: Profile) -> tuple[int, bool, float, str]:
            bandwidths = self.gpus[p.gpu].memory_bytes_per_s / gpu.memory_bytes_per_s if p.gpu in self.gpus else inf
            return PRECISIONS.index(p.precision), p.gpu != gpu.name, abs(log(bandwidths)), p.gpu

        return min(same, key=strangeness, default=None)

    # From layers

    def _facts(self, model: str) -> Facts | None:
        """The model's layers, looked for once; None where they are not known."""
        if model not in self._facts_by_model:
            self._facts_by_model[model] = self._found_facts(model)
        return self._facts_by_model[model]

    def _found_facts(self, model: str) -> Facts | None:
        for name in dict.fromkeys((model, names.architecture(model))):
            try:
                return self.facts_of(name)
            except FactsError:
                continue
        return None

    def _by_layers(self, model: str, gpu: GPU, precision: str, sources: list[Profile]) -> Iterator[PredictedPair]:
        precision = sources[0].precision if sources else precision
        fitted = self._layer_model(gpu.name, precision)
        layers = self._facts(model) if fitted else None
        if fitted is None or layers is None:
            return

        def time_s(batch: float) -> Estimate:
            return _times(fitted(work_of(layers, batch, precision)), batch)

        yield self._from_facts(layers, model, gpu, precision, PredictionRule.LAYER_MODEL, time_s, fitted.probes)

    def _layer_model(self, gpu: str, precision: str) -> LayerModel | None:
        measured = [p for (_, name, kind), p in self.library.profiles.items() if (name, kind) == (gpu, precision)]
        if len(measured) < MODELS_MIN:
            return None
        rows = [
            (p.model, work_of(layers, x, precision), y / x)
            for p in measured
            if (layers := self._facts(p.model)) is not None
            for x, y in _points(p.latency)
        ]
        if len({name for name, _, _ in rows}) < MODELS_MIN:
            return None
        names, works, times_s = zip(*rows, strict=True)
        return layer_model(names, works, times_s)

    def _roofline(self, model: str, gpu: GPU, precision: str) -> Iterator[PredictedPair]:
        layers = self._facts(model)
        if layers is None:
            return

        def time_s(batch: float) -> Estimate:
            return around(roofline_s(layers, gpu, precision, batch), ROOFLINE_SPREAD)

        try:
            yield self._from_facts(layers, model, gpu, precision, PredictionRule.ROOFLINE, time_s, ())
        except PrecisionError:
            return

    def _from_facts(
        self,
        layers: Facts,
        model: str,
        gpu: GPU,
        precision: str,
        rule: PredictionRule,
        time_s: Callable[[float], Estimate],
        probes: tuple[str, ...],
    ) -> PredictedPair:
        least_s = layers.flops / gpu.peak_flops(precision)
        times = {float(b): at_least(time_s(b), least_s * b) for b in BATCHES}
        return PredictedPair(
            model=model,
            gpu=gpu,
            precision=precision,
            rule=rule,
            source="",
            probes=probes,
            evidence=Evidence.PREDICTED if rule is PredictionRule.LAYER_MODEL else Evidence.ASSUMED,
            latency_s=times,
            footprint=self._footprint(model, gpu, precision),
            known=None,
            flops=layers.flops,
            past=lambda batch: at_least(_wider(time_s(batch), batch / BATCHES[-1]), least_s * batch),
        )


def is_alike(facts: Facts, architecture: str) -> bool:
    """Whether layers of a package's model are those of a published architecture: equal in parameters, but for a head.

    A name alone says little of a file, or of a function of a user's own.
    """
    return is_sourced(facts.model) and names.has_size_of(facts.params, architecture)


def _rates(first: GPU, second: GPU, precision: str) -> tuple[tuple[float, float], tuple[float, float]]:
    """Peaks and bandwidths of two kinds, as data sheets have them."""
    peaks = (first.peak_flops(precision), second.peak_flops(precision))
    return peaks, (first.memory_bytes_per_s, second.memory_bytes_per_s)


def _cores_apart(one: GPU, other: GPU) -> float:
    """Doublings that lie between the cores of two processors."""
    return abs(log2((one.cores or 1) / (other.cores or 1)))


def _counted(model: str, precision: str) -> tuple[float, Callable[[float], Estimate]]:
    """Bytes of weights at 4 bytes a number and those that a batch needs, of an architecture known by its counts."""
    architecture, size = names.identity(model)
    counted = names.facts_of(architecture, size)
    assert counted is not None  # which the time came from
    each = 4 * value_share(precision) * (held_numbers(architecture, size) or 0.0)
    return 4 * (counted.params or 0.0), lambda batch: around(each * batch, 2 * WORKSPACE_SPREAD)


def workspace_of(source: Profile | None, layers: Facts | None, precision: str, batch: float) -> Estimate:
    """Bytes that a batch needs besides weights, from a profile on any GPU at any precision, or from layers.

    Past the largest measured batch it grows with the activations of the layers, and no faster than the profile did:
    230 and 720 MB at batch 1 and 4, which libraries took at once, are no 10 GB at batch 64.
    """
    each = inf if layers is None else value_share(precision) * layers.peak_activation_bytes_per_sample
    if source is None:
        return around(each * batch, 2 * WORKSPACE_SPREAD)
    scale = value_share(precision) / value_share(source.precision)
    last = source.workspace.x[-1]
    if batch <= last:
        return around(scale * source.workspace(batch), WORKSPACE_SPREAD)
    grown = scale * source.workspace(last) + each * (batch - last)
    return around(min(scale * source.workspace(batch), grown), 2 * WORKSPACE_SPREAD)


def interpolated(profile: Profile, batch: float, gpu: GPU | None = None, layers: Facts | None = None) -> Prediction:
    """What a profile says of a batch between its points, and past the last with a wide band."""
    fit = profile.latency_fit
    half_90 = log1p(fit.band) if fit and fit.band is not None else band_log([])
    inside = profile.latency.covers(batch)
    of_sources = profile.doubt.error_sd(batch) if profile.doubt else 0.0
    exact = batch in profile.latency.x
    spread = hypot(of_sources, 0.0 if exact else half_90 / BAND_90)
    evidence = profile.latency_evidence if inside else weakest(profile.latency_evidence, Evidence.EXTRAPOLATED)
    room = workspace_of(profile, layers, profile.precision, batch)
    held = around(room.value, 0.0) if profile.workspace.covers(batch) else room
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
        memory_bytes=plus(profile.weight_bytes, held),
        load_s=around(profile.load(profile.weight_bytes), 0.0),
        memory_evidence=profile.memory_evidence,
    )


def _past(profile: Profile, batch: float, gpu: GPU | None, of_sources: float) -> Estimate:
    """The time of a batch past the last measured one; of a series under its knee it follows a roofline's slope."""
    beyond = batch / profile.latency.x[-1]
    usual = around(profile.latency(batch), hypot(of_sources, past_spread(beyond)))
    if gpu is None or profile.flops_per_sample is None:
        return usual
    peak = gpu.peak_flops(profile.precision)
    x, y = profile.latency.x, profile.latency.y
    reached = max(profile.flops_per_sample * b / t / peak for b, t in zip(x, y, strict=True))
    form, spread = floor_and_slope(x, y, profile.flops_per_sample / (REACHED * peak))
    time_s = _wider(Transferred(form, 1.0, spread)(batch), beyond) if spread else usual
    return at_least(time_s, profile.flops_per_sample * batch / peak / max(1.0, reached))


def plus(exact: float, estimate: Estimate) -> Estimate:
    """100 MB and 20 MB (10 to 40): 120 MB (110 to 140)."""
    return Estimate(value=exact + estimate.value, low=exact + estimate.low, high=exact + estimate.high)


def joined(one: Estimate, other: Estimate) -> Estimate:
    """The mean of both by their certainty; where they differ by more than they say, as much less sure (Birge, 1932).

    10 ms (9 to 11) and 12 ms (11 to 13) are 11.1 ms (9.9 to 12.5).
    """
    first, second = (log(e.high / e.low) / (2 * SPREAD_80) for e in (one, other))
    apart = abs(log(one.value / other.value)) / hypot(first, second)
    spread = max(1.0, apart) * first * second / hypot(first, second)
    share = second**2 / (first**2 + second**2)
    return around(one.value**share * other.value ** (1 - share), spread)


def work_of(layers: Facts, batch: float, precision: str) -> SampleWork:
    """What one sample of a batch asks of a device."""
    width = value_share(precision)
    moved = sum(layer.moved_bytes for layer in layers.layers)
    return SampleWork(layers.flops, width * moved, width * layers.weight_bytes / batch, layers.kernels / batch)


def roofline_s(layers: Facts, gpu: GPU, precision: str, batch: float) -> float:
    """Each layer at the slowest of its arithmetic, its bytes and its launches, as kernels of models reach them."""
    limits = ceilings(gpu, precision)
    if limits.evidence is Evidence.ASSUMED:
        limits = replace(limits.scaled(REACHED), launch_s=LAUNCH_S)
    return under(layers, limits, int(batch), precision).total_s


def _preferred(sources: list[Profile]) -> str:
    return min((p.precision for p in sources), key=PRECISIONS.index)


def _times(one: Estimate, batch: float) -> Estimate:
    return Estimate(value=one.value * batch, low=one.low * batch, high=one.high * batch)


def _width(pair: PredictedPair) -> float:
    """Of the band at the largest batch."""
    last = pair.latency_s[max(pair.latency_s)]
    return last.high / last.low if last.low > 0 else inf


def at_quantile(estimate: Estimate, quantile: float) -> float:
    """So many standard deviations from the middle, each side of the band by itself (lognormal)."""
    if not quantile:
        return estimate.value
    end = estimate.high if quantile > 0 else estimate.low
    return float(estimate.value * (end / estimate.value) ** (abs(quantile) / SPREAD_80))


def _points(curve: Curve) -> list[tuple[float, float]]:
    return list(zip(curve.x, curve.y, strict=True))


def past_spread(beyond: float) -> float:
    """Of a batch so many times the largest measured one: none at its end, all of `PAST_SPREAD` at twice that.

    With the octave, so that neither a band nor the weight of a series among others jumps where it ends.
    """
    return PAST_SPREAD * min(1.0, max(0.0, log2(beyond)))


def _wider(estimate: Estimate, beyond: float) -> Estimate:
    """Past the largest batch."""
    wider = exp(SPREAD_80 * past_spread(beyond))
    return Estimate(value=estimate.value, low=estimate.low / wider, high=estimate.high * wider)


def _between(series: Mapping[float, Estimate], at: float) -> Estimate:
    """On straight lines between the points; past the last one the band is wider."""
    x = tuple(series)
    wider = exp(SPREAD_80 * past_spread(at / x[-1]))

    def end(quantile: float) -> float:
        return Interpolated(x, tuple(at_quantile(e, quantile) for e in series.values()))(at)

    return Estimate(value=end(End.VALUE), low=end(End.LOW) / wider, high=end(End.HIGH) * wider)
