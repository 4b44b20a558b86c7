"""Ahead: GPUs without profiles that might be cheaper, and the one measurement that would narrow the answer most."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf, isnan, nan
from typing import NamedTuple

from calibrate.io import points
from calibrate.layers.facts import full_name, has_layers
from calibrate.layers.naming import OWN, options_of
from calibrate.library.reading import PRECISIONS
from planner.catalog.catalog import Catalog
from planner.catalog.offers import Offer, offers
from planner.model.candidate import Candidate
from planner.model.parts.models import ModelSpec, Variant
from planner.model.plan import Estimate, Measurement, Outlook, PrecisionOutlook, Prediction
from planner.model.scenario import Objective, Scenario
from planner.model.statement import Code, Statement
from planner.placing.fleets import Fleet, cost_usd_per_hour, machines_of
from planner.placing.outages import machines_asked
from planner.placing.packing.packed import Placed
from planner.placing.sizing import Kind, Profiles, Sized, SizedModels, fits_at_all, judged
from planner.prediction.predict import Predictor
from planner.prediction.rules.bands import End
from planner.replay.deploying import devices_of, failures
from planner.replay.spares import may_be_bought, of_each_type, together
from planner.replay.trial import Trial, evidence
from planner.replay.warnings import of_precisions
from planner.search.budgets import budgeted
from planner.search.question import Question, ask
from planner.search.rejections import streams_refused
from planner.units.reading import HOURS_PER_MONTH
from planner.words.candidates import machines_name
from simulator.world.curves import Interpolated
from simulator.world.hardware import device_option
from simulator.world.profile import Evidence, Profile, weakest
from simulator.world.sharing import NOTHING_SHARED, Merged

SWANSON = {End.LOW: 0.3, End.VALUE: 0.4, End.HIGH: 0.3}
"""Weights of the 10, 50 and 90 % points by which they tell a mean (Megill, An Introduction to Risk Analysis, 1977)."""
HELD_TRIES = 8
"""Fleets that are looked at for one that holds streams of video: the program counts their bytes, but not how they are
dealt."""
MEASURE_MINUTES = 10.0
"""A machine is up within five, and the lecture's whole set of models is measured within five more."""
OUTLOOKS_MAX = 3
"""What a person compares at a glance."""
TRTEXEC_FLAGS = {"fp32": "--noTF32", "tf32": "", "fp16": "--fp16", "amp": "--fp16", "bf16": "--bf16", "int8": "--int8"}
"""How TensorRT's own tool is told the precision."""
OTHERS = (
    Variant("fp16", None),
    Variant("int8", "tensorrt"),
    Variant("fp16", "tensorrt"),
    Variant(None, "tensorrt"),
    Variant(None, "onnxruntime"),
    Variant(None, "torch-compile"),
)
"""What else models are served in: fp16 rarely costs accuracy, int8 wants a quantized model, engines are compiled. None:
as they run in the plan."""


@dataclass(frozen=True)
class LookAhead:
    """What is worth knowing that nobody measured."""

    outlooks: tuple[Outlook, ...] = ()
    measure_next: tuple[Measurement, ...] = ()


@dataclass(frozen=True)
class _KindAhead:
    """A kind of GPU on its own, with every model sized on it at each end of the predicted times."""

    outlook: Outlook
    sized: dict[End, SizedModels]


class _Fleet(NamedTuple):
    """Machines, and what they cost."""

    candidate: Candidate
    usd_per_hour: float


def predictions(trial: Trial, predictor: Predictor) -> tuple[Prediction, ...]:
    """What a trial rests on in place of profiles, each once."""
    profiles = [p.portion.sized.profile for p in trial.packing.placed]
    pairs = sorted({(p.model, p.gpu, p.precision, p.runtime) for p in profiles if p.predicted})
    predicted = (predictor.predicted_pair(*pair) for pair in pairs)
    return tuple(one.prediction() for one in predicted if one is not None)


def look_ahead(
    question: Question,
    catalog: Catalog,
    predictor: Predictor | None,
    best: Trial | None,
    shown: Trial | None,
    shared: Merged = NOTHING_SHARED,
) -> LookAhead:
    """GPUs that might be cheaper than the best plan, and what to measure: there first, else on the plan's own GPUs."""
    if shown is not None and any(p.portion.sized.profile.doubt for p in shown.packing.placed):
        if best is None and not _holds_streams(question, shown.offers, shown.fleet):
            return LookAhead()
        return LookAhead(measure_next=tuple(_worthiest(question, catalog, predictor, shown, shared)))
    limit = best.cost_usd_per_hour if best else question.scenario.buy.max_cost or inf
    kinds = list(_cheaper_kinds(question, catalog, predictor, limit, shared)) if predictor else []
    kinds.sort(key=lambda kind: kind.outlook.cost_usd_per_hour.value)
    if kinds:
        outlooks = tuple(kind.outlook for kind in kinds[:OUTLOOKS_MAX])
        return LookAhead(outlooks, tuple(_on_kind(question, catalog, kinds[0], best)))
    return LookAhead(measure_next=tuple(_weakest(question, catalog, shown)) if shown else ())


def other_precisions(
    question: Question, catalog: Catalog, predictor: Predictor | None, shown: Trial | None, shared: Merged
) -> Iterator[PrecisionOutlook]:
    """What models with precision or runtime left open would cost otherwise, on the same kinds of GPU."""
    scenario = question.scenario
    left_open = _left_open(scenario)
    if predictor is None or not left_open:
        return
    running = _running(shown, left_open) if shown else {}
    scenario = _on_kinds_of(shown, scenario) if shown else scenario
    now = tuple(sorted({one.precision for one in running.values() if one.precision}))
    largest = _largest_batches(question)
    libraries = {end: AlikeInBatches(predictor.at(end), largest) for end in End}
    for variant in _others(scenario, running):
        other = _run_as(scenario, variant, running)
        ends = {end: ask(other, question.workload, catalog, libraries[end], shared)[0] for end in End}
        some_keep = any(map(partial(keeps_another, variant), scenario.models))
        yield from (replace(one, some_keep=some_keep) for one in _precision_outlook(variant, ends, now))


def _precision_outlook(
    variant: Variant, ends: Mapping[End, Question], now: tuple[str, ...]
) -> Iterator[PrecisionOutlook]:
    """What models that run so would cost; nothing where they do not run so, or no fleet is allowed."""
    is_served = all(one.served for one in ends.values())
    cheapest = _cheapest(*(_fleet(ends[end]) for end in End)) if is_served else None
    if cheapest is None:
        return
    candidate, cost = cheapest
    sized = list(ends[End.VALUE].sized.values())
    as_sized = "" if now else " and ".join(sorted({one.profile.precision for one in sized}))
    yield PrecisionOutlook(
        precision=variant.precision or as_sized,
        runtime=variant.runtime or "",
        evidence=weakest(*(one.profile.latency_evidence for one in sized)),
        candidate=candidate,
        cost_usd_per_hour=cost,
        instead_of=now,
        accuracy=tuple(of_precisions(sized)),
    )


def _left_open(scenario: Scenario) -> set[str]:
    """Models that may run at any precision, or in any runtime."""
    return {model.name for model in scenario.models if not (model.precisions and model.runtimes)}


def _others(scenario: Scenario, running: Mapping[str, Variant]) -> Iterator[Variant]:
    """How the models could run besides: neither as the scenario has it already, nor as they do now."""
    precisions_open = any(not model.precisions for model in scenario.models)
    for variant in OTHERS:
        settled = variant.precision and not precisions_open
        as_now = running and all(_covers(variant, one) for one in running.values())
        if not settled and not as_now and _run_as(scenario, variant, {}) != scenario:
            yield variant


def _on_kinds_of(trial: Trial, scenario: Scenario) -> Scenario:
    """The scenario with only a trial's kinds of GPU on offer."""
    kinds = tuple(dict.fromkeys(device.kind.gpu.name for device in trial.devices))
    return replace(scenario, buy=replace(scenario.buy, gpus=kinds))


def _running(trial: Trial, models: Collection[str]) -> dict[str, Variant]:
    """How a trial runs these models, by name."""
    sized = [p.portion.sized for p in trial.packing.placed if p.portion.sized.model in models]
    return {one.model: Variant(one.profile.precision, one.profile.runtime) for one in sized}


def _covers(variant: Variant, one: Variant) -> bool:
    """Whether a model that runs so would change nothing."""
    return variant.precision in (None, one.precision) and variant.runtime in (None, one.runtime)


def keeps_another(variant: Variant, model: ModelSpec) -> bool:
    """Whether a model states a precision or a runtime that is not the variant's."""
    stated = (variant.precision, model.precision), (variant.runtime, model.runtime)
    return any(asked and own not in (None, asked) for asked, own in stated)


def _largest_batches(question: Question) -> dict[str, int]:
    """The largest batch of any profile of each model, by the name that libraries know it by."""
    names = {model.name: model.known_as for model in question.scenario.models}
    largest: dict[str, int] = {}
    for (model, _), sized in question.sized.items():
        largest[names[model]] = max(sized.profile.largest_batch, largest.get(names[model], 1))
    return largest


def _run_as(scenario: Scenario, variant: Variant, running: Mapping[str, Variant]) -> Scenario:
    """The scenario with that precision and runtime wherever it leaves them open, else at the precision of now."""

    def other(model: ModelSpec) -> ModelSpec:
        now = running[model.name].precision if model.name in running else None
        precision = model.precision or variant.precision or now
        return replace(model, precision=precision, runtime=model.runtime or variant.runtime)

    return replace(scenario, models=tuple(map(other, scenario.models)))


@dataclass(frozen=True)
class AlikeInBatches:
    """Predicted profiles that end where those of today do, so that a precision is not praised for larger batches."""

    known: Profiles
    largest: Mapping[str, int]
    """Batch by model."""

    def get(self, model: str, gpu: str, precision: str | None, runtime: str | None = None, /) -> Profile | None:
        """The profile of `model` on `gpu`, predicted ones up to the largest batch of today."""
        profile = self.known.get(model, gpu, precision, *filter(None, (runtime,)))
        if profile is None or not profile.predicted:
            return profile
        curve = profile.latency
        last = max(self.largest.get(model, inf), curve.x[0])
        smaller = {size for size in curve.x if size < last}
        sizes = tuple(sorted({*smaller, min(last, curve.x[-1])}))
        return replace(profile, latency=Interpolated(sizes, tuple(map(curve, sizes))))


def _cheaper_kinds(
    question: Question, catalog: Catalog, predictor: Predictor, limit: float, shared: Merged
) -> Iterator[_KindAhead]:
    """Kinds with pairs that the user has not measured, on which all models might cost less: they do at the good end."""
    offered, _ = offers(catalog, question.scenario.buy)
    for gpu in dict.fromkeys(offer.gpu.name for offer in offered):
        alone = {End.VALUE: _alone(question, catalog, predictor.at(End.VALUE), gpu, shared)}
        sized = alone[End.VALUE].sized.values()
        if not alone[End.VALUE].served or not any(one.profile.doubt for one in sized):
            continue
        alone[End.LOW] = _alone(question, catalog, predictor.at(End.LOW), gpu, shared)
        good = _fleet(alone[End.LOW])
        if not good.usd_per_hour < limit:
            continue
        alone[End.HIGH] = _alone(question, catalog, predictor.at(End.HIGH), gpu, shared)
        cheapest = _cheapest(good, _fleet(alone[End.VALUE]), _fleet(alone[End.HIGH]))
        if cheapest is None:
            continue
        candidate, cost = cheapest
        outlook = Outlook(gpu=gpu, candidate=candidate, cost_usd_per_hour=cost)
        yield _KindAhead(outlook, {end: one.sized for end, one in alone.items()})


def _alone(question: Question, catalog: Catalog, predictor: Predictor, gpu: str, shared: Merged) -> Question:
    """The question where only one kind of GPU is on offer."""
    buy = replace(question.scenario.buy, gpus=(gpu,))
    alone, _ = ask(replace(question.scenario, buy=buy), question.workload, catalog, predictor, shared)
    return alone


def _cheapest(low: _Fleet, value: _Fleet, high: _Fleet) -> tuple[Candidate, Estimate] | None:
    """The cheapest fleet at the middle of the predicted times, and what the cheapest costs at each end; None where
    none is allowed."""
    if isnan(value.usd_per_hour):
        return None
    cost = Estimate(value=value.usd_per_hour, low=low.usd_per_hour, high=high.usd_per_hour)
    return value.candidate, cost


def _fleet(question: Question) -> _Fleet:
    """The cheapest fleet that carries the work with room to gather batches, and holds the streams of video, with as
    many machines as failures ask for, and what it costs with spares of each type; NaN dollars where none is allowed, or
    no such spares are."""
    carries = _cheapest_that_holds(question) if question.served else None
    fleet = carries and _with_enough_up(question, carries)
    if fleet is None:
        return _Fleet(Candidate(machines=()), nan)
    candidate = Candidate(machines=machines_of(question.offers, fleet))
    spares = of_each_type(fleet, question.scenario.survive)
    if not may_be_bought(question.scenario.buy, question.offers, fleet, spares):
        return _Fleet(candidate, nan)
    return _Fleet(candidate, cost_usd_per_hour(question.offers, together(fleet, spares)))


def _cheapest_that_holds(question: Question) -> Fleet | None:
    """The cheapest fleet of a few whose GPUs hold the streams of video that come to them, and models beside; None where
    none does."""
    program, excluded = question.program(), list[Fleet]()
    while len(excluded) < HELD_TRIES:
        solution = program.propose(Objective.COST, excluded, design=1.0)
        if solution is None or solution.fleet is None:
            return None
        if _holds_streams(question, question.offers, solution.fleet):
            return solution.fleet
        excluded.append(solution.fleet)
    return None


def _holds_streams(question: Question, offered: Sequence[Offer], fleet: Fleet) -> bool:
    """Whether GPUs code and hold the streams of video that come to them, and some kind of them each model beside."""
    candidate = Candidate(machines=machines_of(offered, fleet))
    devices = devices_of(offered, fleet)
    if streams_refused(candidate, question.scenario, question.needs, devices, 0.0):
        return False
    kinds = {device.kind for device in devices}
    beside = budgeted(question, devices, {}).sized
    fitting = {model for (model, kind), one in beside.items() if kind in kinds and fits_at_all(one, kind)}
    return fitting == set(question.needs)


def _with_enough_up(question: Question, fleet: Fleet) -> Fleet | None:
    """A fleet with more machines of its cheapest type, until those that fail leave enough of them up for every SLO;
    None where no number does."""
    scenario, offered = question.scenario, question.offers
    least = replace(question.program(), headroom=0.0).propose(Objective.COST) if scenario.failures else None
    carrying = sum(least.fleet) if least and least.fleet else sum(fleet)
    needs = judged(question.needs).values()
    count = machines_asked(failures(scenario), scenario.routing, needs, sum(fleet), carrying)
    if count is None:
        return None
    cheapest = min((place for place, n in enumerate(fleet) if n), key=lambda place: offered[place].usd_per_hour)
    return (*fleet[:cheapest], fleet[cheapest] + count - sum(fleet), *fleet[cheapest + 1 :])


def _on_kind(question: Question, catalog: Catalog, kind: _KindAhead, best: Trial | None) -> Iterator[Measurement]:
    """The model on that kind of whose work least is known."""
    uncertain = {key: sized for key, sized in kind.sized[End.VALUE].items() if sized.profile.doubt}
    pairs = [(_spread(kind.sized, key), sized) for key, sized in uncertain.items()]
    if not pairs:
        return
    _, sized = max(pairs, key=lambda pair: (pair[0], pair[1].model))
    cost = kind.outlook.cost_usd_per_hour
    figures = {"usd_per_hour": cost.value, "low_usd_per_hour": cost.low, "high_usd_per_hour": cost.high}
    worth = nan
    if best:
        now = figures["best_usd_per_hour"] = best.cost_usd_per_hour
        ends = {End.LOW: cost.low, End.VALUE: cost.value, End.HIGH: cost.high}
        # It is bought only where it turns out cheaper; an end at which no fleet is allowed saves nothing.
        worth = HOURS_PER_MONTH * sum(SWANSON[end] * max(0.0, now - usd) for end, usd in ends.items() if not isnan(usd))
    subjects = (machines_name(kind.outlook.candidate.machines), sized.model)
    why = Statement(code=Code.MIGHT_DO_IT, subjects=subjects, figures=figures)
    yield _measurement(question, catalog, sized, why, worth)


def _spread(sized: dict[End, SizedModels], key: tuple[str, Kind]) -> float:
    """GPUs more at the bad end than at the good one; a model that cannot run at the bad end matters most."""
    low, high = (sized[end].get(key) for end in (End.LOW, End.HIGH))
    if low is None or high is None:
        return inf
    return float(high.design_work - low.design_work)


def _worthiest(
    question: Question, catalog: Catalog, predictor: Predictor | None, shown: Trial, shared: Merged
) -> Iterator[Measurement]:
    """Of a plan on predicted or published figures: the pair whose time, once known, is expected to save most."""
    if predictor is None:
        return
    ends = {end: ask(question.scenario, question.workload, catalog, predictor.at(end), shared)[0].sized for end in End}
    dearest_first = sorted(question.offers, key=lambda o: -o.usd_per_hour / o.gpu_count)
    prices = {o.gpu.name: o.usd_per_hour / o.gpu_count for o in dearest_first}
    pairs = {
        (p.portion.sized.model, device.kind): p.portion.sized
        for p in shown.packing.placed
        for device in p.devices
        if p.portion.sized.profile.doubt
    }

    def saved_usd_per_hour(key: tuple[str, Kind], sized: Sized) -> float:
        """Work that it is sized for, less the work to be expected."""
        mean = sum(SWANSON[end] * ends[end][key].design_work for end in End if key in ends[end])
        return max(0.0, sized.design_work - mean) * prices[sized.profile.gpu]

    saved = {key: saved_usd_per_hour(key, sized) for key, sized in pairs.items()}
    key = max(saved, key=lambda key: (saved[key], key[0]))
    why = Statement(code=Code.WIDEST_BAND)
    sized_at = {end: ends[end][key] for end in End if key in ends[end]}
    worth = HOURS_PER_MONTH * _fleets_saved(question, key, sized_at, shown.cost_usd_per_hour)
    yield _measurement(question, catalog, pairs[key], why, worth)


def _fleets_saved(
    question: Question, key: tuple[str, Kind], ends: Mapping[End, Sized], planned_usd_per_hour: float
) -> float:
    """Dollars an hour of whole machines to be expected once a pair's time is known: fractions of GPUs are not sold.

    Of what is planned, or of the cheapest fleet that would do at the bad end if that costs less.
    """
    now = min(planned_usd_per_hour, _fleet(question).usd_per_hour)
    known = {end: _fleet(replace(question, sized={**question.sized, key: sized}))[1] for end, sized in ends.items()}
    # An end at which no fleet is allowed, or only a dearer one, changes nothing.
    return sum(SWANSON[end] * max(0.0, now - usd) for end, usd in known.items() if not isnan(usd))


def _weakest(question: Question, catalog: Catalog, shown: Trial) -> Iterator[Measurement]:
    """Of a plan on profiles: the model with the least room among those with the weakest evidence."""
    placed = {p.portion.sized.model: p for p in shown.packing.placed}
    ranks = {m: evidence(p.portion.sized.profile, p.swapped) for m, p in placed.items()}
    weak = max(ranks.values(), key=lambda e: e.rank)
    if weak is Evidence.MEASURED:
        return
    first = min((m for m in placed if ranks[m] is weak), key=lambda m: (_room(shown, placed[m]), m))
    why = Statement(code=Code.LEAST_ROOM, subjects=(weak,))
    yield _measurement(question, catalog, placed[first].portion.sized, why)


def _room(shown: Trial, placed: Placed) -> float:
    """Surely kept share of what a model, or the pipeline of a stage, may miss."""
    judged = placed.portion.sized.need.judged
    target = judged.slo.attainment
    left = shown.replay.attainment[judged.model].low - target
    return -inf if isnan(left) else left / (1 - target) if target < 1 else left


def _measurement(
    question: Question, catalog: Catalog, sized: Sized, why: Statement, worth_usd_per_month: float = nan
) -> Measurement:
    profile = sized.profile
    spec = next(model for model in question.scenario.models if model.name == sized.model)
    ours = spec.is_calibrated_in(profile.runtime) and _is_calibrated_at(spec, profile.precision)
    options = calibrate_options(spec) if ours else ""
    command = _calibrate(spec, profile, options or OWN) if ours else _import(spec, profile)
    offered, _ = offers(catalog, replace(question.scenario.buy, gpus=(profile.gpu,)))
    cheapest = min((o.usd_per_hour if o.price_kind else 0.0 for o in offered), default=nan)
    return Measurement(
        model=sized.model,
        gpu=profile.gpu,
        why=why,
        command=command,
        minutes=MEASURE_MINUTES,
        usd=cheapest * MEASURE_MINUTES / 60,
        by_own_tool=not ours and not _is_timed(profile),
        by_own_code=ours and not options,
        worth_usd_per_month=worth_usd_per_month,
    )


def _is_calibrated_at(spec: ModelSpec, precision: str) -> bool:
    """Whether `planner calibrate` measures it at that precision; an ONNX file has its own numbers."""
    return precision in points.PRECISIONS or _is_file(spec)


def _is_file(spec: ModelSpec) -> bool:
    return spec.made_by.startswith("onnx:") and not spec.profile


def calibrate_options(spec: ModelSpec) -> str:
    """The options of `planner calibrate` that name a model; empty where nothing that can be built is known of it."""
    if spec.profile:
        return options_of(spec.profile)
    made_by = spec.made_by or spec.name
    full = full_name(made_by) if has_layers(made_by) else made_by
    if ":" not in full:
        return options_of(full)
    shape = f" --input {'x'.join(map(str, spec.input))}" if spec.input else ""
    return f"--model {full}{shape}"


def _calibrate(spec: ModelSpec, profile: Profile, options: str) -> str:
    """The command that measures what PyTorch or ONNX Runtime runs."""
    as_it_is = profile.precision == PRECISIONS[0] or _is_file(spec)
    precision = "" if as_it_is else f" --precision {profile.precision}"
    return f"planner calibrate --device {device_option(profile.gpu)} {options}{precision}"


def _import(spec: ModelSpec, profile: Profile) -> str:
    """The commands that measure with a runtime's own tool, where it is known, and take what that wrote."""
    of = f"--gpu {profile.gpu} --precision {profile.precision} --runtime {profile.runtime}"
    timed = _is_timed(profile)
    seen = "times.txt" if timed else "FILE"
    flag = TRTEXEC_FLAGS.get(profile.precision)
    first = f"trtexec --onnx=FILE.onnx {flag} > {seen} && ".replace("  ", " ") if timed else ""
    return f"{first}planner profiles import {seen} --model {spec.known_as} {of}"


def _is_timed(profile: Profile) -> bool:
    """Whether the command of its runtime's own tool is known."""
    return profile.runtime == "tensorrt" and profile.precision in TRTEXEC_FLAGS
