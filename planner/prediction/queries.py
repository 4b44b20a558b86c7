"""Queries: times of many cases at once, from a table of GPUs, models, inputs, precisions, runtimes and batches."""

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import zip_longest
from math import exp, log
from pathlib import Path
from statistics import fmean, stdev

from calibrate.io.files import FileError, read_text
from calibrate.layers.facts import OWN_NAMES, facts, full_name, has_layers, named, of_any_input
from calibrate.layers.facts import known as models_with_layers
from calibrate.layers.naming import profile_name
from calibrate.layers.work import Facts, FactsError, too_small
from calibrate.library.held import counted, held_numbers, own_layers
from calibrate.library.lookup import Library, find_profiles
from calibrate.library.memory import Room, room_in, same_work
from calibrate.library.reading import USUAL_RUNTIME
from calibrate.published import names, runtimes
from calibrate.published.points import PublishedPoint, points
from calibrate.zoo.sources import is_sourced, too_long
from planner.catalog.mig import is_slice, whole_of
from planner.catalog.offers import which_gpu
from planner.model.plan import Estimate
from planner.model.progress import Progress, silent
from planner.prediction.columns import COLUMNS, NEEDED, header
from planner.prediction.effects import PredictedCase, at_size, network
from planner.prediction.learnt import OWN_SOFTWARE_SD, Learnt, Nearness, learnt, publications, series_of
from planner.prediction.ordered import Ordered
from planner.prediction.predict import Predictor, doubt_of, has_counts_of_its_own, is_alike
from planner.prediction.rules.bands import around, low_end_at_least, no_faster
from planner.prediction.rules.floors import resized, shape_of, shipped_layers
from planner.prediction.rules.grounds import Grounds
from planner.prediction.rules.inputs import at_input, is_usual, layers_at, usual_input
from planner.prediction.rules.measured import Past, interpolated
from planner.prediction.rules.roofline import PrecisionError, why_not
from planner.units.reading import known_precision, perhaps
from planner.units.writing import gigabytes
from simulator.errors import InputError
from simulator.world.hardware import CONTEXT_BYTES, GPU
from simulator.world.precision import FACT_BYTES, PUBLISHED_ONLY, WEIGHT_BYTES
from simulator.world.profile import Evidence, Profile

USUAL_PRECISION = "fp32"
PRECISIONS = (*WEIGHT_BYTES, *PUBLISHED_ONLY)
BATCH_MAX = 1_000_000
INPUT = re.compile(r"(?:seq)?[1-9]\d*|[1-9]\d*(?:x[1-9]\d*){1,3}")
"""Pixels of a side, tokens, or sizes with `x` between."""
SHOWN_MAX = 40
"""Letters of a cell in a reason."""
SIDE_MAX = 100_000
DIGITS = 9
"""Of a side of an input, which is too large with fewer."""

MEASURED = (Evidence.MEASURED, Evidence.ELSEWHERE, Evidence.FITTED)
RAN = (*MEASURED, Evidence.PUBLISHED)
"""Of batches that somebody ran."""


class UnansweredError(ValueError):
    """Why nothing can be said of a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryAnswer:
    """A time with its 80 % band, or why there is none."""

    latency_s: float | None = None
    latency_low_s: float | None = None
    latency_high_s: float | None = None
    memory_bytes: int | None = None
    """The most that is allocated: weights, and the tensors of a batch that lie in memory at once."""
    rule: str = ""
    """`published`, `profile` (plans have one whose batches enclose it), `series` (other batches of it were published),
    or how near the nearest published case is."""
    evidence: str = ""
    sources: str = ""
    """Ids of publications, parted by blanks, those of the same model first."""
    reason: str = ""
    """Why nothing is predicted, or why the GPU cannot run what is, or no plan would have it do so."""
    reserved_bytes: int | None = None
    """What a plan keeps free, as it does for the same question: `memory_bytes`, libraries' own workspace and the
    allocator's slack. The context of a process comes on top."""

    @property
    def latency(self) -> Estimate | None:
        """The time with its band; None where there is none."""
        if self.latency_s is None or self.latency_low_s is None or self.latency_high_s is None:
            return None
        return Estimate(value=self.latency_s, low=self.latency_low_s, high=self.latency_high_s)


@dataclass(frozen=True)
class QueryKnowledge:
    """What answers rest on."""

    learnt: Learnt
    gpus: Mapping[str, GPU]
    measured: bool = True
    """Whether profiles that this project measured answer: not where they judge what is predicted."""
    library: Library | None = None
    """Profiles of whoever asks, with those that come with the planner; None: the latter alone."""

    @cached_property
    def profiles(self) -> Library:
        """All profiles that count."""
        return self.library or find_profiles((), self.gpus)

    @cached_property
    def grounds(self) -> Grounds:
        """What memory is predicted from."""
        return Grounds(self.profiles, self.gpus, facts)

    @cached_property
    def ordered(self) -> Ordered:
        """What was learnt, without contradictions."""
        return Ordered(self.learnt, self.gpus)

    def answer(self, row: Mapping[str, str]) -> QueryAnswer:
        """One row by column; an empty cell means the usual."""
        case = self.case(row)
        if isinstance(case, str):
            return QueryAnswer(reason=case)
        found = self.of_case(case, names.precision(row.get("precision", "")))
        return replace(found, reason=found.reason or too_large(found, self.gpus[case.gpu]))

    def case(self, row: Mapping[str, str]) -> PredictedCase | str:
        """The case by canonical names, or why nothing can be said of it."""
        try:
            case = self.named(row)
            if longer := _too_long(row["model"], case.architecture, case.input):
                raise UnansweredError(longer)
            known = self._is_known(case)
            return _with_attention(case, row["model"]) if known else self._with_layers(case, row)
        except UnansweredError as why:
            return str(why)

    def named(self, row: Mapping[str, str]) -> PredictedCase:
        """The case by canonical names, whether or not anything is known of its model; UnansweredError where it cannot
        run."""
        if empty := [name for name in NEEDED if not row[name]]:
            raise UnansweredError(f"{empty[0]} is empty. Name it")
        batch = batch_of(row.get("batch", ""))
        if batch is None:
            got = row["batch"][:SHOWN_MAX]
            raise UnansweredError(f"batch must be a whole number from 1 to {BATCH_MAX:,}, got `{got}`")
        gpu = names.gpu_named(row["gpu"], self.gpus)
        if gpu not in self.gpus:
            raise UnansweredError(f"GPU {gpu} is not known.{which_gpu(gpu, self.gpus)}")
        architecture, size = _identity(row["model"], row.get("input", ""))
        share = _products_share(row, shipped_layers(architecture, size))
        precision = self._precision(row, gpu, architecture, share)
        case = PredictedCase(
            gpu=gpu,
            architecture=architecture,
            input=size,
            precision=precision,
            runtime=_runtime(row.get("runtime", ""), precision, self.gpus[gpu]),
            batch=float(batch),
            counted=_shipped_counts(row["model"], architecture, size),
            products_share=share if precision == "torch" else None,
        )
        asked = _asked(row)
        if unserved := runtimes.runtime(case.runtime).unserved(architecture, asked, self.gpus[gpu]):
            raise UnansweredError(f"{unserved}. {ways_to_run(architecture, asked, self.gpus[gpu])}")
        wrong = wrong_input(architecture, size, row.get("input", "")) or _too_small(row["model"], architecture, size)
        if wrong or (wrong := _scaled(row["model"], architecture, size)):
            raise UnansweredError(wrong)
        return case

    def _precision(self, row: Mapping[str, str], gpu: str, architecture: str, share: float | None) -> str:
        written = _asked(row)
        try:
            precision = known_precision(written, PRECISIONS)
        except ValueError as error:
            raise UnansweredError(f"precision {error}".rstrip(".")) from None
        try:
            return self.learnt.precision(self.gpus[gpu], precision, architecture, share)
        except PrecisionError:
            raise UnansweredError(f"GPU {gpu}: {why_not(self.gpus[gpu], precision)}") from None

    def _is_known(self, case: PredictedCase) -> bool:
        """Whether its operations, or times of its model, are known without its layers."""
        known = names.facts_of(case.architecture, case.input)
        if known and known.macs is not None:
            return True
        is_timed = self.learnt.nearness(case, self.gpus[case.gpu]) is not Nearness.NEW_MODEL
        return is_timed and network(case) == case.architecture

    def _with_layers(self, case: PredictedCase, row: Mapping[str, str]) -> PredictedCase:
        """The case with the operations of its layers."""
        layers = self._layers_of(row["model"], row.get("input", ""), case.input)
        own = counted(layers, case.architecture)
        if names.extent(own.input) == names.extent(case.input):  # a square of as many pixels stands for 640x480
            own = replace(own, input=case.input)
        self._layers[case.architecture, own.input] = layers
        share = _products_share(row, layers)
        precision = self._precision(row, case.gpu, case.architecture, share)
        share = share if precision == "torch" else None
        return replace(case, input=own.input, counted=own, precision=precision, products_share=share)

    def _layers_of(self, model: str, written: str, size: str) -> Facts:
        """The layers of a model at the input that is asked for; UnansweredError where they are not known there."""
        if ":" in model and not is_sourced(model):
            raise UnansweredError(f"model {model} is code, which a table does not run. Ask `planner profile` of it")
        try:
            layers = facts(model, _sample(written))
        except FactsError as error:
            unknown = (
                "" if has_layers(model) else f"nothing is known of model {model}: no operations, no published time. "
            )
            raise UnansweredError(f"{unknown}{error}") from None
        own = counted(layers, model).input
        if not size or size == own or _sample(written):
            return layers
        size = f"seq{size}" if size.isdecimal() and names.tokens(own) else size
        shape = shape_of(size, layers)
        if shape is None:
            raise UnansweredError(f"input {written[:SHOWN_MAX]} is not what {model} reads. Write one such as {own}")
        try:
            return layers.of_shape(shape)
        except FactsError as error:
            raise UnansweredError(str(error)) from None

    @cached_property
    def _layers(self) -> dict[tuple[str, str], Facts]:
        """Those of models of which nothing else is known, by architecture and input, as they were asked for."""
        return {}

    def _layers_at(self, case: PredictedCase) -> Facts | None:
        return self._layers.get((case.architecture, case.input)) or shipped_layers(case.architecture, case.input)

    def _profile(self, case: PredictedCase, precision: str) -> Profile | None:
        """The profile that plans go by, at the input of the case; None where there is none."""
        model = profile_name(case.architecture) if is_sourced(case.architecture) else case.architecture
        profile = self.profiles.get(model, case.gpu, precision, case.runtime)
        if profile is None or (profile.latency_evidence in MEASURED and not self.measured):
            return None
        if case.counted and case.counted.macs and is_sourced(case.architecture):
            return profile if same_work(profile.flops_per_sample, 2 * case.counted.macs) else None
        name, usual = names.identity(OWN_NAMES.get(profile.model, profile.model))
        size = names.input_of(name, (profile.flops_per_sample or 0.0) / 2) or usual or _own_input(name)
        return profile if size == case.input else None

    def of_case(self, case: PredictedCase, precision: str = "") -> QueryAnswer:
        """As plans have it, past the batches of a profile too; else as published, else as learnt and drawn through the
        published batches of the series.

        `precision` is as it was asked for, where the case has what it comes to: `torch` is TF32 where nothing but
        convolutions works.
        """
        series = series_of(case)
        same = [p for p in series if p.batch == case.batch]
        profile = self._profile(case, precision or case.precision)
        ran = profile if profile and profile.latency_evidence in RAN else None
        if ran and ran.latency.covers(case.batch):
            return self._of_profile(case, ran, "published" if same else "profile", same)
        if self.gpus[case.gpu].is_processor and not same:
            return QueryAnswer(reason=f"{case.gpu} is a processor, of which only batches that somebody timed are told")
        if ran and not same and case.batch > ran.latency.x[-1]:
            return self._of_profile(case, ran, str(Nearness.SERIES) if series else "profile", series)
        layers = self._layers_at(case)
        if not profile and (planned := self._planned(case, layers, precision or case.precision)):
            return planned
        if same:
            estimate, rule = self._no_faster(case, of_publications(same)), "published"
        else:
            told = self.ordered.predict(case, layers, self._at_usual(case, layers, precision))
            estimate = self._beside_whole(told, case, precision)
            rule = str(self.learnt.nearness(case, self.gpus[case.gpu]))
        evidence, named = "published" if same else "predicted", publications(case, same or series)
        memory = memory_of(case, profile) if profile else self._memory(case, precision or case.precision)
        return answered(estimate, memory, rule, evidence, named)

    def _planned(self, case: PredictedCase, layers: Facts | None, precision: str) -> QueryAnswer | None:
        """As plans have a model of which nothing was published, by its layers too; None where they say nothing."""
        gpu = self.gpus[case.gpu]
        nearness = self.learnt.nearness(case, gpu)
        is_new = nearness is Nearness.NEW_MODEL or network(case) != case.architecture
        if layers is None or not self.measured or not is_new or case.runtime != USUAL_RUNTIME:
            return None
        size = "" if layers.own is None else f".{layers.input_shape[-1]}px"
        name = profile_name(layers.model, (), size)
        self._planned_layers[name] = layers
        pair = self.predictor.predicted_pair(name, case.gpu, precision, case.runtime)
        if pair is None:
            return None
        memory = pair.footprint.memory(case.batch)
        return answered(pair.time_s(case.batch), memory, str(nearness), str(pair.evidence), pair.publications)

    @cached_property
    def predictor(self) -> Predictor:
        """What plans ask of models that nobody measured."""

        def layers_of(name: str) -> Facts:
            return self._planned_layers.get(name) or facts(name)

        return Predictor(self.profiles, self.gpus, facts_of=layers_of, learnt=self.learnt)

    @cached_property
    def _planned_layers(self) -> dict[str, Facts]:
        """Layers by the names that they were asked for by, which tell of their input."""
        return {}

    def _at_usual(self, case: PredictedCase, layers: Facts | None, precision: str) -> Estimate | None:
        """What is said of the usual input, with which others are in order; None where this is it."""
        if is_usual(case.architecture, case.input):
            return None
        usual = usual_input(case.architecture)
        return self.of_case(at_input(case, usual, layers_at(layers, usual)), precision).latency

    def _beside_whole(self, told: Estimate, case: PredictedCase, precision: str) -> Estimate:
        """Of a slice no faster than its GPU, which somebody may have timed."""
        if not is_slice(case.gpu) or whole_of(case.gpu) not in self.gpus:
            return told
        whole = self.of_case(replace(case, gpu=whole_of(case.gpu)), precision).latency
        return no_faster(told, whole) if whole else told

    def _of_profile(
        self, case: PredictedCase, profile: Profile, rule: str, published: Sequence[PublishedPoint]
    ) -> QueryAnswer:
        """As the profile has it, which plans and `planner profile` go by, with what another publication would differ by
        in the band; `published`: who tells of it, where known."""
        known = interpolated(replace(profile, doubt=doubt_of(profile)), case.batch, self._past(case, profile))
        of_batch = [point for point in published if point.batch == case.batch]
        mine, apart = known.latency_s, around(known.latency_s.value, max(OWN_SOFTWARE_SD, _apart(of_batch)))
        told = replace(mine, low=min(mine.low, apart.low), high=max(mine.high, apart.high))
        told = self._no_faster(case, told)
        named = publications(case, published) if published else ("profile",)
        return answered(told, memory_of(case, profile), rule, str(known.evidence), named)

    def _past(self, case: PredictedCase, profile: Profile) -> Past | None:
        """How a profile goes on past its last batch; None where nothing was learnt of such devices."""
        if self.gpus[case.gpu].cores:
            return None
        return partial(self.ordered.past, case, self._layers_at(case), profile.latency)

    def _no_faster(self, case: PredictedCase, known: Estimate) -> Estimate:
        """What somebody timed, with a band that begins no lower than what operators need."""
        least_s = self.ordered.least_s(case, self._layers_at(case))
        return low_end_at_least(known, least_s)

    def _memory(self, case: PredictedCase, precision: str) -> Room | None:
        """As a plan has it where it has no profile; None where nothing is known of weights or layers."""
        counts = _counts(case)
        if counts is None or counts.params is None or counts.held is None:
            return None
        sized = precision if precision in WEIGHT_BYTES else PUBLISHED_ONLY[precision]
        footprint = self.grounds.footprint(case.architecture, self.gpus[case.gpu], sized, counts)
        return footprint.memory(case.batch)


def memory_of(case: PredictedCase, profile: Profile) -> Room:
    """As the profile has it, weights included."""
    counts = _counts(case)
    room = room_in(profile, counts.held if counts else None, case.batch)
    return Room(profile.weight_bytes + room.allocated, profile.weight_bytes + room.reserved)


def answered(latency_s: Estimate, memory: Room | None, rule: str, evidence: str, sources: Sequence[str]) -> QueryAnswer:
    """A time and what it rests on."""
    return QueryAnswer(
        latency_s=latency_s.value,
        latency_low_s=latency_s.low,
        latency_high_s=latency_s.high,
        memory_bytes=None if memory is None else round(memory.allocated),
        rule=rule,
        evidence=evidence,
        sources=" ".join(sources),
        reserved_bytes=None if memory is None else round(memory.reserved),
    )


def too_large(answer: QueryAnswer, gpu: GPU) -> str:
    """Why the GPU does not hold the batch, or why no plan puts it there though it may; empty where plans do, and where
    nobody knows. What somebody ran did fit."""
    needed_bytes, kept_bytes = (answer.memory_bytes or 0) + CONTEXT_BYTES, (answer.reserved_bytes or 0) + CONTEXT_BYTES
    if needed_bytes > gpu.memory_bytes and answer.evidence not in RAN:
        return f"does not fit: needs {_beside(needed_bytes, gpu)}. Write a smaller batch"
    if kept_bytes > gpu.memory_bytes:
        fits = "fits" if answer.evidence in RAN else "may fit"
        return f"{fits}, but no plan takes it: one keeps {_beside(kept_bytes, gpu)}. Write a smaller batch"
    return ""


def _beside(needed_bytes: int, gpu: GPU) -> str:
    return f"{gigabytes(needed_bytes)} with a process's context, the GPU has {gigabytes(gpu.memory_bytes)}"


def ways_to_run(architecture: str, precision: str, gpu: GPU) -> str:
    """`Write one of pytorch and tensorrt`, or that it is the GPU or the precision that must be another."""
    served = runtimes.serving(architecture, precision, gpu)
    return f"Write one of {', '.join(served)}" if served else "Write another precision or GPU"


def _identity(model: str, written: str) -> tuple[str, str]:
    """The architecture's name and input; where none is written, that of the zoo's network, as plans have it."""
    architecture, size = names.identity(model, written)
    if written or size != names.usual_input(architecture):
        return architecture, size
    own = _own_input(architecture)
    return architecture, own if any(one.input == own for one in names.architectures().get(architecture, ())) else size


def _own_input(architecture: str) -> str:
    """That of the zoo's network; empty where it has none."""
    return counted(facts(architecture), architecture).input if architecture in models_with_layers() else ""


def _asked(row: Mapping[str, str]) -> str:
    """The precision that a row asks for."""
    return names.precision(row.get("precision", "")) or USUAL_PRECISION


def _products_share(row: Mapping[str, str], layers: Facts | None) -> float | None:
    """What the layers say of it, where PyTorch as it comes is asked for."""
    return layers.products_share if layers and _asked(row) == "torch" else None


def _runtime(written: str, precision: str, gpu: GPU) -> str:
    runtime = names.runtime(written) or runtimes.usual(precision, gpu)
    if runtime not in names.runtimes():
        raise UnansweredError(f"runtime {runtime} is not known.{perhaps(runtime, names.runtimes())}")
    return runtime


def _full_name(model: str, architecture: str) -> str:
    """By which a network's own layers are known, of either name; empty: none. FactsError where several may be meant."""
    return next((full_name(name) for name in (model, architecture) if has_layers(name) or is_sourced(name)), "")


def _layers_by_name(model: str, architecture: str) -> Facts | None:
    """Shipped layers of a network that has counts of its own, by any of its names; None where there are none."""
    full = _full_name(model, architecture)
    layers = facts(full) if full in named() or full in models_with_layers() else own_layers(architecture)
    return layers if layers and has_counts_of_its_own(layers) else None


def _shipped_counts(model: str, architecture: str, size: str) -> names.Architecture | None:
    """Counts of a network's own layers, which plans know it by too; None where there are published ones."""
    if names.is_counted(architecture, size):
        return None
    try:
        layers = _layers_by_name(model, architecture)
        if layers is None or not is_alike(layers, architecture):
            return None
        own = counted(layers, architecture)
        return counted(layers.at(int(size)), architecture) if size.isdecimal() and size != own.input else own
    except FactsError:  # may be several, or reads no other input
        return None


def _with_attention(case: PredictedCase, model: str) -> PredictedCase:
    """The case with the operations of its layers where these grow faster than its input, of which nothing was learnt:
    what was learnt of an input holds of operations that grow with it."""
    learnt_of = f"{case.architecture} {case.input}"
    if names.is_counted(case.architecture, case.input) or learnt().knows("work model input", learnt_of):
        return case
    own = _known_layers(model, case.architecture)
    if own is None or not own.attends or not (":" not in own.model or is_alike(own, case.architecture)):
        return case
    there = resized(own, case.architecture, case.input)
    return replace(case, counted=replace(counted(there, case.architecture), input=case.input)) if there else case


def wrong_input(architecture: str, size: str, written: str) -> str:
    """Why an input says nothing of a network; empty where it does."""
    known = [one.input for one in names.architectures().get(architecture, ())]
    if not size or _is_published(architecture, size):
        return ""
    shown = written[:SHOWN_MAX]
    if not INPUT.fullmatch(size):
        return f"input {shown} is not known. Write pixels such as 224 or 640x480, a shape such as 3x224x224, or seq128"
    if not names.tokens(size) and max(_sides(size), default=0) > SIDE_MAX:
        return f"input {shown} is too large: a side has at most {SIDE_MAX:,}"
    usual = next(iter(known), "")
    if usual and bool(names.tokens(size)) != bool(names.tokens(usual)):
        return f"input {shown or size} is not what {architecture} reads. Write one such as {usual}"
    return ""


def _is_published(architecture: str, size: str) -> bool:
    """Whether operations or times of a network are published at an input."""
    counted_at = (one.input for one in names.architectures().get(architecture, ()))
    return size in counted_at or any(point.input == size for point in points(architecture))


def _too_small(model: str, architecture: str, size: str) -> str:
    """Why a network takes no picture of that size; empty where it does, or where its layers are not known."""
    layers = None if names.tokens(size) else _known_layers(model, architecture)
    side, least = min(_sides(size), default=0), layers.pixels_min if layers else 0
    return f"{architecture} {too_small(least, side)}" if 0 < side < least else ""


def _scaled(model: str, architecture: str, size: str) -> str:
    """Why a network of the zoo takes no such picture; empty where it does, or where somebody published it so."""
    is_zoos = has_layers(model) and not _is_published(architecture, size)
    layers = _layers_by_name(model, architecture) if is_zoos else None
    shape = shape_of(size, layers) if layers and ":" not in layers.model else None
    if layers is None or shape is None:
        return ""
    try:
        layers.of_shape(shape)
    except FactsError as error:
        return str(error)
    return ""


def _too_long(model: str, architecture: str, size: str) -> str:
    """Why a network reads no text of that length; empty where it does, or where somebody timed one made for it."""
    tokens = names.tokens(size)
    layers = _known_layers(model, architecture) if tokens else None
    if not tokens or not layers or tokens <= (layers.tokens_max or tokens):
        return ""
    is_timed = learnt().knows("work model input", f"{architecture} {size}")
    return "" if is_timed else f"{architecture} {too_long(layers.tokens_max, tokens)}"


def _known_layers(model: str, architecture: str) -> Facts | None:
    """The shipped layers of a network, by any of its names."""
    try:
        full = _full_name(model, architecture) or of_any_input(architecture)
    except FactsError:  # may be several
        return None
    return facts(full) if full in models_with_layers() or full in named() else None


def _sides(size: str) -> list[int]:
    return [int(side[:DIGITS]) for side in re.findall(r"\d+", size)]


def _sample(written: str) -> tuple[int, ...] | None:
    """`3x640x640` as the shape of one sample; None for all that says less."""
    sides = written.lower().split("x")
    whole = len(sides) != 2 and all(side.isdecimal() for side in sides)
    return tuple(int(side[:DIGITS]) for side in sides) if whole and len(sides) > 1 else None


def of_publications(same: Sequence[PublishedPoint]) -> Estimate:
    """The geometric mean, with what publications differ by."""
    return around(exp(fmean(log(point.latency_s) for point in same)), max(OWN_SOFTWARE_SD, _apart(same)))


def _apart(same: Sequence[PublishedPoint]) -> float:
    """Standard deviation of ln(time) between publications of one batch; 0 of one alone."""
    logs = [log(point.latency_s) for point in same]
    return stdev(logs) if len(logs) > 1 else 0.0


def _counts(case: PredictedCase) -> names.Architecture | None:
    """Counts at the input of the case, with what it holds; None where nothing is known."""
    known, own = _counts_alone(case), own_layers(case.architecture)
    return known and replace(known, params=own.weight_bytes / FACT_BYTES if own else known.params)


def _counts_alone(case: PredictedCase) -> names.Architecture | None:
    """The same with parameters as tables have them."""
    if case.counted and case.counted.input == case.input:
        return case.counted
    if case.counted and (scaled := at_input(case, case.input, None).counted):
        return scaled
    known = names.facts_of(case.architecture, case.input)
    if known is None:
        return None
    held = held_numbers(case.architecture, case.input)
    return replace(at_size(known, case.input), input=case.input, held=held)


def batch_of(written: str) -> int | None:
    """A whole number from 1; 1 where nothing is written, None where it is no such number."""
    text = written.strip() or "1"
    text = text.removesuffix(".0")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 9 and 1 <= int(text) <= BATCH_MAX else None


def answers(
    path: Path, gpus: Mapping[str, GPU], progress: Progress = silent, library: Library | None = None
) -> Iterator[QueryAnswer]:
    """An answer for each row, in order. InputError where the table cannot be read."""
    known = QueryKnowledge(learnt(), gpus, library=library)
    rows = read_queries(path)
    for done, row in enumerate(rows):
        progress(f"{done:,} of {len(rows):,} rows", done / len(rows))
        yield known.answer(row)


def read_queries(path: Path) -> list[dict[str, str]]:
    """Rows by column, whatever it is called. Others are left aside, but for misspelt ones."""
    try:
        text = read_text(path)
    except FileError as error:
        raise InputError(f"{path}{error.place}: {error}. Name a CSV file with columns {', '.join(COLUMNS)}") from None
    table = csv.reader(io.StringIO(text, newline=""))
    rows = []
    try:
        columns = header(path, next(table, []))
        for cells in table:
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) > len(columns):
                raise InputError(f"{path}:{table.line_num}: has {len(cells)} cells, the first line has {len(columns)}")
            rows.append({name: cell.strip() for name, cell in zip_longest(columns, cells, fillvalue="")})
    except csv.Error as error:
        raise InputError(f"{path}:{table.line_num}: is no CSV: {error}. Mend the line") from None
    return rows
