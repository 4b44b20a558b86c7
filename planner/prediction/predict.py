"""Prediction: what a model would cost on a GPU where nobody measured it, with an 80 % band and the rule behind it.

In order of trust: a profile of that pair; what was learnt from all published points of its architecture, together with
what its profile on another GPU says; that alone, times a ratio of probes measured on both; a layer model of the GPU;
that profile times a ratio of data sheets; a roofline of data sheets alone.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import exp, log, log1p, sqrt

from calibrate.layers.facts import facts
from calibrate.layers.facts import known as models_with_layers
from calibrate.layers.work import Facts
from calibrate.library.held import counted
from calibrate.library.lookup import Library, is_measured
from calibrate.library.reading import PRECISIONS, USUAL_RUNTIME
from calibrate.published import names, runtimes
from calibrate.zoo.sources import is_sourced
from planner.catalog.mig import is_slice, whole_of
from planner.model.plan import Estimate, Prediction, PredictionRule
from planner.placing.sizing import Unpredicted
from planner.prediction.effects import UNKNOWN, PredictedCase, at_size, least_s, roofline
from planner.prediction.learnt import (
    NEAREST,
    OWN_SOFTWARE_SD,
    Learnt,
    Nearness,
    learnt,
    publications,
    series_of,
)
from planner.prediction.ordered import WIDER, Ordered, chip_of
from planner.prediction.rules.bands import End, around, low_end_at_least
from planner.prediction.rules.carrying import Carrying
from planner.prediction.rules.grounds import Grounds
from planner.prediction.rules.layered import BATCHES, Layered
from planner.prediction.rules.measured import interpolated
from planner.prediction.rules.pairs import (
    SHARED,
    PredictedPair,
    in_order_of_parts,
    in_proportion,
    is_refuted,
    joined_pair,
    no_faster,
    no_faster_than,
    width,
)
from planner.prediction.rules.roofline import PrecisionError, lacks_on_processor, why_not
from planner.prediction.rules.transfer import SHEET_SPREAD, Ratio
from planner.prediction.trainings import Trainings, trainings
from simulator.world.curves import Erring, Interpolated
from simulator.world.hardware import GPU
from simulator.world.profile import Doubt, Evidence, Profile

SD_MIN = 0.035
"""Of ln(time): sources that differ by less, 5 % from each other, agree. So much do runs of one source differ."""
WIDER_JOINED = {**WIDER, "tf32": ("torch", "fp32")}
"""The same as `WIDER` of what is joined, with PyTorch as it comes between TF32 and fp32."""
PairKey = tuple[str, str, str | None, str | None]
"""Model, GPU, precision and runtime."""


@dataclass(frozen=True)
class Predictor:
    """A library that also answers for pairs nobody measured."""

    library: Library
    gpus: Mapping[str, GPU]
    quantile: float = End.HIGH
    """What `get` makes of a band, in standard deviations from its middle."""
    draws_published: bool = True
    """Whether times that others published, or that are assumed, have a doubt; else they are taken as they stand."""
    facts_of: Callable[[str], Facts] = facts
    learnt: Learnt = field(default_factory=learnt)

    def get(self, model: str, gpu: str, precision: str | None = None, runtime: str | None = None, /) -> Profile | None:
        """The profile of a pair, else what was predicted at the quantile; None where nothing can be said.

        Of a runtime that is asked for, what was learnt of it and one's own times in it are told: profiles of one do not
        hold in another.
        """
        key = (model, gpu, precision, runtime)
        if key not in self._made:
            self._made[key] = self._sourced(*key) or self._predicted(*key)
        return self._made[key]

    def _sourced(self, model: str, gpu: str, precision: str | None, runtime: str | None) -> Profile | None:
        """The best source, at the quantile of its doubt."""
        best = self.library.get(model, gpu, precision, runtime)
        if best is None or not self.draws_published or (doubt := doubt_of(best)) is None:
            return best
        latency = Erring(best.latency, self.quantile, doubt.error_sd)
        return replace(best, latency=latency, doubt=replace(doubt, quantile=self.quantile))

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
    def grounds(self) -> Grounds:
        """What the rules rest on besides published points."""
        return Grounds(self.library, self.gpus, self.facts_of)

    @cached_property
    def trainings(self) -> Trainings:
        """Published trainings, which tell of others."""
        return trainings(self.gpus)

    @cached_property
    def carrying(self) -> Carrying:
        """The rules that carry a profile over from another GPU."""
        return Carrying(self.grounds)

    @cached_property
    def ordered(self) -> Ordered:
        """What was learnt, without contradictions."""
        return Ordered(self.learnt, self.gpus)

    @cached_property
    def layered(self) -> Layered:
        """The rules that ask the model's layers."""
        return Layered(self.grounds)

    def at(self, quantile: float) -> "Predictor":
        """The same at another quantile of the bands; one for each, for it remembers too."""
        if quantile not in self._at:
            other = replace(self, quantile=quantile)
            alike = "_at", "_pairs", "grounds", "carrying", "ordered", "layered"
            other.__dict__.update({name: getattr(self, name) for name in alike})
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
            first = next(iter(self._told(model, self.gpus[gpu], precision, runtime)), None)
            told = first and self._beside_wider(in_proportion(self._possible(first)), runtime)
            self._pairs[key] = told and self._beside_whole(told, runtime)
        return self._pairs[key]

    def _beside_whole(self, pair: PredictedPair, runtime: str | None) -> PredictedPair:
        """Of a slice no faster than its GPU is, or was where somebody timed that."""
        kind = whole_of(pair.gpu.name)
        if not is_slice(pair.gpu.name) or kind not in self.gpus:
            return pair
        if timed := self.library.get(pair.model, kind, pair.precision, pair.runtime):
            return no_faster(pair, timed.latency)
        whole = self.predicted_pair(pair.model, kind, pair.precision, runtime)
        return no_faster_than(pair, whole) if whole else pair

    def _beside_wider(self, pair: PredictedPair, runtime: str | None) -> PredictedPair:
        """A joined pair in order with those in wider numbers, as both of its parts are."""
        told = pair
        for wider in WIDER_JOINED.get(pair.precision, ()) if pair.parts else ():
            other = self.predicted_pair(pair.model, pair.gpu.name, wider, runtime)
            if other and other.parts:
                told = in_order_of_parts(told, other)
        return told if told is pair else self._possible(told)

    def _possible(self, pair: PredictedPair) -> PredictedPair:
        """The same where no batch takes less than its operators need.

        A pair that a profile was carried over to is as it was: models may need less than that where they were measured.
        """
        if pair.gpu.cores or pair.known:
            return pair
        one = self._case(pair.model, pair.gpu, pair.precision, pair.runtime)
        layers = self._layers_at(pair.model, one)
        return no_faster(pair, lambda batch: self.ordered.least_s(replace(one, batch=batch), layers))

    def _told(self, model: str, gpu: GPU, precision: str | None, runtime: str | None) -> Iterable[PredictedPair]:
        """What every rule says, the most trusted first; nothing at a precision that GPU or runtime lack."""
        if not self._computes(gpu, precision or PRECISIONS[0]):
            return ()
        if gpu.cores:
            return self._on_processor(model, gpu, precision or PRECISIONS[0], runtime)
        wanted = runtime or self._usual_runtime(model, gpu, precision)
        if self._unserved(model, gpu, precision, wanted):
            return ()
        if gpu.is_processor and wanted not in (None, USUAL_RUNTIME):
            return self.carrying.to_processor(model, gpu, precision or PRECISIONS[0], wanted)
        if wanted in (None, USUAL_RUNTIME):
            return self._rules(model, gpu, precision, runtime)
        return self._in_runtime(model, gpu, precision or self._usual_precision(model, wanted), wanted)

    def _usual_runtime(self, model: str, gpu: GPU, precision: str | None) -> str | None:
        """That which is meant where none is named: PyTorch, or else what one ran the model in at the precision; None:
        whatever a profile at the precision was measured in."""
        at_precision = [one for one in self.library.for_model(model) if one.precision == precision]
        own = [one.runtime for one in at_precision if is_own(one)]
        if own and all(one != USUAL_RUNTIME for one in own):
            return own[0]
        return None if at_precision else runtimes.usual(precision, gpu)

    def _usual_precision(self, model: str, runtime: str) -> str:
        """That which is meant in a runtime where none is named: that of one's own profiles in it."""
        own = [one for one in self.library.for_model(model) if is_own(one) and one.runtime == runtime]
        return _preferred(own) if own else PRECISIONS[0]

    def _unserved(self, model: str, gpu: GPU, precision: str | None, runtime: str | None) -> str:
        """Why the runtime does not run the model; empty where it does, or where somebody measured that it does."""
        if runtime is None:
            return ""
        wanted = (precision or PRECISIONS[0], runtime)
        if any((profile.precision, profile.runtime) == wanted for profile in self.library.for_model(model)):
            return ""
        return runtimes.runtime(runtime).unserved(names.architecture(model), wanted[0], gpu)

    def _computes(self, gpu: GPU, precision: str) -> bool:
        if precision not in PRECISIONS or lacks_on_processor(gpu, precision):
            return False
        try:
            self.learnt.precision(gpu, precision)
        except PrecisionError:
            return False
        return True

    def why_not(self, model: str, gpu: str, precision: str | None, runtime: str | None = None) -> Unpredicted:
        """Why nothing can be predicted of a pair that nobody measured."""
        kind = self.gpus[gpu]
        if (unable := self.unable(model, gpu, precision)).why:
            return unable
        wanted = runtime or self._usual_runtime(model, kind, precision)
        if unserved := self._unserved(model, kind, precision, wanted):
            return Unpredicted(unserved, "another `runtime`, or another `precision`")
        if kind.is_processor and wanted not in (None, USUAL_RUNTIME):
            return Unpredicted(f"nobody published it in {wanted} on a processor", "another `runtime`")
        others = sorted({p.precision for p in self.library.for_model(model)} - {precision})
        if others and precision is not None and self.grounds.facts(model) is None:
            return Unpredicted(f"it was measured at {' and '.join(others)} only, and its layers are not known")
        return Unpredicted("neither are its layers known, nor was it measured on another GPU")

    def unable(self, _model: str, gpu: str, precision: str | None, _runtime: str | None = None) -> Unpredicted:
        """Why no measurement would help on a kind of GPU, for it lacks the precision; no reason where it has it."""
        kind, wanted = self.gpus[gpu], precision or PRECISIONS[0]
        if self._computes(kind, wanted):
            return Unpredicted("")
        able = ", ".join(one for one in PRECISIONS if self._computes(kind, one))
        return Unpredicted(f"{gpu} {why_not(kind, wanted)}", f"another `precision` ({able}), or another kind of GPU")

    def predict(
        self, model: str, gpu: str, precision: str | None = None, batch: float | None = None
    ) -> Prediction | None:
        """Time, memory and loading of a pair, measured or not; None where nothing can be said."""
        measured = None if self._is_resized(model) else self.library.get(model, gpu, precision)
        if measured is not None:
            at = measured.largest_batch if batch is None else batch
            return self.of_profile(measured, at)
        pair = self.predicted_pair(model, gpu, precision)
        return None if pair is None else pair.prediction(batch)

    def of_profile(self, profile: Profile, batch: float) -> Prediction:
        """What a profile says of a batch; its band has the doubt of `doubt_of`."""
        gpu, held_numbers = self.gpus.get(profile.gpu), self.grounds.held_numbers(profile.model)
        doubt = doubt_of(profile)
        if gpu is None or gpu.cores:
            return interpolated(replace(profile, doubt=doubt), batch, None, held_numbers)
        case = replace(self._case_of(profile, gpu), batch=batch)
        layers = self._layers_at(profile.model, case)
        past = partial(self.ordered.past, case, layers, profile.latency)
        known = interpolated(replace(profile, doubt=doubt), batch, past, held_numbers)
        if doubt is None:
            return known
        least_s = self.ordered.least_s(case, layers)
        return replace(known, latency_s=low_end_at_least(known.latency_s, least_s))

    def _is_resized(self, model: str) -> bool:
        """Whether its layers are of another resolution than its own, of which its profiles are, but for those of a name
        such as `resnet50.448px`."""
        layers = self.grounds.facts(model)
        has_own_name = model in self.library.models() and layers is not None and model != layers.model
        return layers is not None and layers.own is not None and not has_own_name

    @cached_property
    def _at_own(self) -> "Predictor":
        """The same of models at their own resolution."""

        def own(model: str) -> Facts:
            layers = self.facts_of(model)
            return layers.own or layers

        return replace(self, facts_of=own)

    def _at_usual(self, model: str, gpu: GPU, precision: str | None, batch: float) -> Estimate | None:
        """The time at a model's own resolution, where it is asked for at another; None where it is not."""
        told = self._at_own.predict(model, gpu.name, precision, batch) if self._is_resized(model) else None
        return told.latency_s if told else None

    def _rules(
        self, model: str, gpu: GPU, precision: str | None, runtime: str | None = None
    ) -> Iterator[PredictedPair]:
        sources = [] if self._is_resized(model) else self._sources(model, gpu, precision, runtime)
        if sources and is_own(sources[0]) and sources[0].runtime != USUAL_RUNTIME:
            yield from self._in_runtime(model, gpu, sources[0].precision, sources[0].runtime)
            return
        carrying = self.carrying
        ratios = [(source, carrying.measured_ratio(source, gpu)) for source in sources]
        by_ratio = [carrying.carried(source, gpu, ratio) for source, ratio in ratios if ratio]
        by_learnt = self._by_learnt(model, gpu, sources[0].precision if sources else precision)
        by_sheets = self._by_sheets(sources, gpu)
        carried = sorted(by_ratio, key=width)
        yield from self._all_joined(by_learnt, (carried or list(filter(carrying.is_believed, by_sheets)))[:1] or [None])
        yield from carried
        yield from self.layered.by_model(model, gpu, precision or "fp32", sources)
        yield from filter(carrying.is_believed, by_sheets)
        by_layers = list(self.layered.by_roofline(model, gpu, precision or "fp32"))
        yield from self._all_joined(self._by_counts(model, gpu, precision), by_layers)
        yield from by_layers
        yield from by_sheets

    def _in_runtime(self, model: str, gpu: GPU, precision: str, runtime: str) -> Iterator[PredictedPair]:
        """In a runtime that is named: what was learnt of it, beside one's own times in it on another GPU."""
        own = [p for p in self.library.for_model(model) if is_own(p) and p.gpu != gpu.name]
        sources = [p for p in own if (p.precision, p.runtime) == (precision, runtime) and not self.gpus[p.gpu].cores]
        carried = self._nearest_first(replace(self._in_engine(p, gpu), runtime=runtime) for p in sources)
        told = self._by_learnt(model, gpu, precision, runtime) or self._by_counts(model, gpu, precision, runtime)
        yield from self._all_joined(told, carried[:1] or [None])
        yield from carried

    def _in_engine(self, source: Profile, gpu: GPU) -> PredictedPair:
        """Carried over by probes, else each batch by the mean (geometric) of the ratios of what was learnt and of both
        rooflines: an engine's overhead is not the host's alone."""
        if probes := self.carrying.measured_ratio(source, gpu):
            return self.carrying.carried(source, gpu, probes)
        kind = self.gpus[source.gpu]
        if not self._computes(kind, source.precision):
            return self.carrying.carried(source, gpu, self.carrying.sheets(source, gpu))

        def time_s(batch: float) -> Estimate:
            here, there = (self._roofline_s(source, one, batch) for one in (gpu, kind))
            ratio = sqrt(self._learnt_ratio(source, gpu, batch) * here / there)
            return around(self.of_profile(source, batch).latency_s.value * ratio, SHEET_SPREAD)

        return self.carrying.moved(source, gpu, time_s)

    def _learnt_ratio(self, source: Profile, gpu: GPU, batch: float) -> float:
        """How much longer a batch takes there, by what was learnt."""
        here, there = (self._batch_of(source, kind, batch) for kind in (gpu, self.gpus[source.gpu]))
        layers = self._layers_at(source.model, here)
        return self.ordered.predict(here, layers).value / self.ordered.predict(there, layers).value

    def _roofline_s(self, source: Profile, gpu: GPU, batch: float) -> float:
        """What a batch takes on a GPU by its data sheet."""
        return exp(roofline(self._batch_of(source, gpu, batch), gpu).log_time(0.0, 0.0, full=False))

    def _batch_of(self, source: Profile, gpu: GPU, batch: float) -> PredictedCase:
        """A batch of a profile's model on a GPU."""
        return replace(self._case_of(source, gpu), batch=batch)

    def _sheets(self, source: Profile, gpu: GPU) -> Ratio:
        """Of two data sheets; between GPUs the mean (geometric) of that and of what was learnt."""
        sheets, kind = self.carrying.sheets(source, gpu), self.gpus[source.gpu]
        if kind.cores or not self._computes(kind, source.precision):
            return sheets
        learnt = self._learnt_ratio(source, gpu, source.latency.x[-1])
        return replace(sheets, arithmetic=sqrt(sheets.arithmetic * learnt), other=sqrt(sheets.other * learnt))

    def _by_sheets(self, sources: Sequence[Profile], gpu: GPU) -> list[PredictedPair]:
        """Each carried over by data sheets."""
        return self._nearest_first(self.carrying.carried(p, gpu, self._sheets(p, gpu)) for p in sources)

    def _nearest_first(self, carried: Iterable[PredictedPair]) -> list[PredictedPair]:
        """From a kind of the same chip first, then those with the narrowest band, then of the most alike peak."""

        def strangeness(pair: PredictedPair) -> tuple[bool, float, float]:
            source = self.gpus[pair.source]
            apart = abs(log(source.fp32_flops / pair.gpu.fp32_flops))
            return chip_of(source) != chip_of(pair.gpu), round(width(pair), 6), apart

        return sorted(carried, key=strangeness)

    def _all_joined(
        self, pairs: Iterable[PredictedPair], others: Sequence[PredictedPair | None]
    ) -> Iterator[PredictedPair]:
        """Each pair joined with each of the others, or alone with none, or with one that it refutes."""
        for pair in pairs:
            yield from (joined_pair(pair, other) if other and not is_refuted(other, pair) else pair for other in others)

    def _sources(self, model: str, gpu: GPU, precision: str | None, runtime: str | None) -> list[Profile]:
        """The best profile of the model's architecture on each other GPU, all at one precision."""
        elsewhere = self._elsewhere(model, gpu, runtime)
        if precision is None and elsewhere:
            precision = _preferred(elsewhere)
        usable = [p for p in elsewhere if p.precision == precision and self._computes(gpu, p.precision)]
        return list({p.gpu: p for p in reversed(usable)}.values())

    def _elsewhere(self, model: str, gpu: GPU, runtime: str | None) -> list[Profile]:
        """Profiles on other GPUs in a runtime that is named; else in others only where none is in the usual one."""
        elsewhere = [p for p in self.library.for_model(model) if p.gpu != gpu.name]
        alike = [p for p in elsewhere if p.runtime == (runtime or USUAL_RUNTIME)]
        return alike if runtime else alike or elsewhere

    def _on_processor(self, model: str, gpu: GPU, precision: str, runtime: str | None) -> Iterator[PredictedPair]:
        """Of processors nothing was learnt."""
        yield from self.carrying.to_processor(model, gpu, precision, runtime)
        if runtime in (None, USUAL_RUNTIME):
            yield from self.layered.by_roofline(model, gpu, precision)

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
        facts = self.grounds.facts(model)
        if facts is None or runtime not in self.learnt.runtimes:
            return []
        one = self._case(model, gpu, precision or PRECISIONS[0], runtime)
        return self._by_effects(model, gpu, precision, replace(one, counted=counted(facts, one.architecture)))

    def _case(self, model: str, gpu: GPU, precision: str, runtime: str) -> PredictedCase:
        """One sample of a model by its published name, where its own layers do not contradict that."""
        facts = self.grounds.facts(model)
        own = facts if facts and has_counts_of_its_own(facts) else None
        architecture, size = _identity(own) if own else names.identity(model)
        counts = counted(facts, architecture) if facts else None
        share = facts.products_share if facts and precision == "torch" else None
        ran_at = self.learnt.precision(gpu, precision, architecture, share)
        is_published = not own or (counts is not None and names.is_counted(architecture, counts.input))
        resized = counts.input if counts and facts and facts.own else ""
        if is_published:
            counts = None
        return PredictedCase(
            gpu=gpu.name,
            architecture=architecture,
            input=resized or (counts.input if counts else self._likeliest_input(model, architecture) or size),
            precision=ran_at,
            runtime=runtime,
            batch=1.0,
            counted=counts,
            products_share=share if ran_at == "torch" else None,
        )

    def _case_of(self, profile: Profile, gpu: GPU) -> PredictedCase:
        """One sample of a profile's model, with the operations that it tells where nobody else does."""
        one = self._case(profile.model, gpu, profile.precision, profile.runtime)
        if roofline(one, gpu).known or profile.flops_per_sample is None:
            return one
        return replace(one, counted=replace(UNKNOWN, input=one.input, macs=profile.flops_per_sample / 2))

    def _by_effects(self, model: str, gpu: GPU, precision: str | None, one: PredictedCase) -> list[PredictedPair]:
        known = one.counted or names.facts_of(one.architecture, one.input)
        if known is None or known.params is None:
            return []
        flops = 2 * (at_size(known, one.input).macs or 0.0)
        series = series_of(one)
        layers = self._layers_at(model, one)

        def time_s(batch: float) -> Estimate:
            at_usual = self._at_usual(model, gpu, precision, batch)
            return self.ordered.predict(replace(one, batch=batch), layers, at_usual)

        return [
            PredictedPair(
                model=model,
                gpu=gpu,
                precision=precision or PRECISIONS[0],
                rule=PredictionRule.LEARNT,
                source=f"published times ({NEAREST[self.learnt.nearness(one, gpu)]})",
                probes=(),
                evidence=Evidence.PREDICTED,
                latency_s={float(batch): time_s(batch) for batch in BATCHES},
                footprint=self.grounds.footprint(model, gpu, precision or PRECISIONS[0]),
                known=None,
                flops=flops or None,
                least_s=least_s(one, gpu),
                past=time_s,
                runtime=one.runtime,
                publications=publications(one, series),
            )
        ]

    def _layers_at(self, model: str, one: PredictedCase) -> Facts | None:
        """The model's own layers, where they are known at the input of the case."""
        facts = self.grounds.facts(model)
        return facts if facts and counted(facts, one.architecture).input == one.input else None

    def _likeliest_input(self, model: str, architecture: str) -> str:
        """The input at which the architecture takes as many operations as the model is known to; empty: not known."""
        facts = self.grounds.facts(model)
        known = [p.flops_per_sample for p in self.library.for_model(model) if p.flops_per_sample]
        flops = known[0] if known else facts.flops if facts else 0.0
        return names.input_of(architecture, flops / 2)


def _identity(own: Facts) -> tuple[str, str]:
    """The published architecture and input of a model's own layers; its own name where they contradict that."""
    architecture, size = names.identity(own.model)
    return architecture if is_alike(own, architecture) else own.model, size


def has_counts_of_its_own(facts: Facts) -> bool:
    """Whether it is a package's model, or one that published tables know by another name, perhaps at another input."""
    return ":" in facts.model or names.architecture(facts.model) != facts.model


def is_alike(facts: Facts, architecture: str) -> bool:
    """Whether layers are those of a published architecture: equal in parameters, but for a head.

    A name alone says little of a file, or of a function of a user's own.
    """
    is_known = is_sourced(facts.model) or facts.model in models_with_layers()
    return is_known and names.has_size_of(facts.params, architecture)


def _preferred(sources: list[Profile]) -> str:
    return min((p.precision for p in sources), key=PRECISIONS.index)


def is_own(profile: Profile) -> bool:
    """Whether its times are of whoever plans, a single batch from which smaller ones are extrapolated included."""
    return is_measured(profile) or profile.latency_evidence is Evidence.EXTRAPOLATED


def doubt_of(profile: Profile) -> Doubt | None:
    """How far a profile's times may be off for whoever runs the model; None where they were measured by them.

    Sources differ, and times that others published are of their software. The larger of the two counts. Weaker evidence
    is no surer than that: one's own series with an impossible time in it was timed or counted wrongly, and nobody knows
    by how much.
    """
    if is_measured(profile):
        return None
    # Of two draws from one distribution the difference has twice the variance of each.
    of_sources = log1p(profile.source_spread or 0.0) / sqrt(2)
    # Extrapolated: batches below the first of one's own take no longer than it.
    of_software = 0.0 if profile.latency_evidence is Evidence.EXTRAPOLATED else OWN_SOFTWARE_SD
    error_sd = max(of_sources, of_software)
    return Doubt(error_sd=Interpolated((1.0,), (error_sd,)), shared=SHARED) if error_sd > SD_MIN else None
