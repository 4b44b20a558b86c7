"""Ahead: GPUs without profiles that might be cheaper, and the one measurement that would narrow the answer most."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf, isnan, nan

from planner.answer import Trial, evidence
from planner.catalog import Catalog, offers
from planner.cost import cost_usd_per_hour, fleet_label
from planner.layout import dollars, span_usd
from planner.plans import Estimate, Measurement, Outlook, PrecisionOutlook, Prediction
from planner.prediction.predict import End, Predictor
from planner.prediction.question import Question, ask
from planner.scenario import Objective
from planner.sizing import Kind, Profiles, Sized, SizedModels
from simulator.curves import Interpolated
from simulator.profile import Evidence, Profile
from simulator.sharing import NOTHING_SHARED, Merged

OUTLOOKS_MAX = 3
"""What a person compares at a glance."""
OTHER_PRECISIONS = ("fp16", "int8")
"""What else models are served in: fp16 rarely costs accuracy, int8 wants a quantized model."""


@dataclass(frozen=True)
class Ahead:
    """What is worth knowing that nobody measured."""

    outlooks: tuple[Outlook, ...] = ()
    measure_next: tuple[Measurement, ...] = ()


@dataclass(frozen=True)
class _Kind:
    """A kind of GPU on its own, with every model sized on it at each end of the foretold times."""

    outlook: Outlook
    sized: dict[End, SizedModels]


def predictions(trial: Trial, predictor: Predictor) -> tuple[Prediction, ...]:
    """What a trial rests on in place of profiles, each once."""
    profiles = [p.portion.sized.profile for p in trial.packing.placed]
    pairs = sorted({(p.model, p.gpu, p.precision) for p in profiles if p.foretold})
    return tuple(told.prediction() for pair in pairs if (told := predictor.told(*pair)) is not None)


def look_ahead(
    question: Question,
    catalog: Catalog,
    predictor: Predictor | None,
    best: Trial | None,
    shown: Trial | None,
    shared: Merged = NOTHING_SHARED,
) -> Ahead:
    """GPUs that might be cheaper than the best plan, and what to measure: there first, else on the plan's own GPUs."""
    if shown is not None and any(p.portion.sized.profile.foretold for p in shown.packing.placed):
        return Ahead(measure_next=tuple(_widest(question, catalog, predictor, shown, shared)))
    limit = best.cost_usd_per_hour if best else question.scenario.buy.max_cost or inf
    kinds = list(_cheaper_kinds(question, catalog, predictor, limit, shared)) if predictor else []
    kinds.sort(key=lambda kind: kind.outlook.cost_usd_per_hour.value)
    found = tuple(kind.outlook for kind in kinds[:OUTLOOKS_MAX])
    if kinds:
        return Ahead(found, tuple(_on_kind(kinds[0], best)))
    return Ahead(measure_next=tuple(_weakest(shown)) if shown else ())


def other_precisions(
    question: Question, catalog: Catalog, predictor: Predictor | None, shown: Trial | None, shared: Merged
) -> Iterator[PrecisionOutlook]:
    """What the models whose precision the scenario leaves open would cost at others, on the same kinds of GPU."""
    scenario = question.scenario
    left_open = {model.name for model in scenario.models if model.precision is None}
    if predictor is None or not left_open:
        return
    placed = shown.packing.placed if shown else ()
    profiles = [p.portion.sized.profile for p in placed if p.portion.sized.model in left_open]
    now = tuple(sorted({profile.precision for profile in profiles}))
    kinds = tuple(dict.fromkeys(card.kind.gpu.name for card in shown.cards)) if shown else scenario.buy.gpus
    names = {model.name: model.known_as for model in scenario.models}
    largest: dict[str, int] = {}
    for (model, _), sized in question.sized.items():
        largest[names[model]] = max(sized.profile.largest_batch, largest.get(names[model], 1))
    for precision in OTHER_PRECISIONS:
        if now == (precision,):
            continue
        models = tuple(replace(m, precision=m.precision or precision) for m in scenario.models)
        asked = replace(scenario, models=models, buy=replace(scenario.buy, gpus=kinds))
        shelves = [AlikeInBatches(predictor.at(end), largest) for end in End]
        ends = [ask(asked, question.workload, catalog, shelf, shared)[0] for shelf in shelves]
        if not all(question.served for question in ends):
            continue
        (_, low), (label, value), (_, high) = map(_fleet, ends)
        if not isnan(value):
            cost = Estimate(value=value, low=low, high=high)
            yield PrecisionOutlook(precision=precision, label=label, cost_usd_per_hour=cost, instead_of=now)


@dataclass(frozen=True)
class AlikeInBatches:
    """Foretold profiles that end where those of today do, so that a precision is not praised for larger batches."""

    known: Profiles
    largest: Mapping[str, int]
    """Batch by model."""

    def get(self, model: str, gpu: str, precision: str | None, /) -> Profile | None:
        """The profile of `model` on `gpu`, foretold ones up to the largest batch of today."""
        found = self.known.get(model, gpu, precision)
        if found is None or not found.foretold:
            return found
        last = max(self.largest.get(model, inf), found.latency.x[0])
        sizes = tuple(sorted({*(x for x in found.latency.x if x < last), min(last, found.latency.x[-1])}))
        return replace(found, latency=Interpolated(sizes, tuple(map(found.latency, sizes))))


def _cheaper_kinds(
    question: Question, catalog: Catalog, predictor: Predictor, limit: float, shared: Merged
) -> Iterator[_Kind]:
    """Kinds with pairs that nobody measured, on which all models might cost less: they do at the good end."""
    offered, _ = offers(catalog, question.scenario.buy)
    for gpu in dict.fromkeys(offer.gpu.name for offer in offered):
        ends = {end: _alone(question, catalog, predictor.at(end), gpu, shared) for end in End}
        asked = ends[End.VALUE]
        if not asked.served or not any(s.profile.foretold for s in asked.sized.values()):
            continue
        (_, low), (label, value), (_, high) = (_fleet(ends[end]) for end in (End.LOW, End.VALUE, End.HIGH))
        if isnan(value) or not low < limit:
            continue
        cost = Estimate(value=value, low=low, high=high)
        outlook = Outlook(gpu=gpu, label=label, cost_usd_per_hour=cost)
        yield _Kind(outlook, {end: question.sized for end, question in ends.items()})


def _alone(question: Question, catalog: Catalog, predictor: Predictor, gpu: str, shared: Merged) -> Question:
    """The question where only one kind of GPU is on offer."""
    buy = replace(question.scenario.buy, gpus=(gpu,))
    asked, _ = ask(replace(question.scenario, buy=buy), question.workload, catalog, predictor, shared)
    return asked


def _fleet(question: Question) -> tuple[str, float]:
    """The cheapest fleet that carries the work with room to gather batches; NaN dollars where none is allowed."""
    solution = question.program().propose(Objective.COST, design=1.0) if question.served else None
    if solution is None or solution.fleet is None:
        return "", nan
    return fleet_label(question.offers, solution.fleet), cost_usd_per_hour(question.offers, solution.fleet)


def _on_kind(kind: _Kind, best: Trial | None) -> Iterator[Measurement]:
    """The model on that kind of whose work least is known."""
    pairs = [
        (_spread(kind.sized, key), sized) for key, sized in kind.sized[End.VALUE].items() if sized.profile.foretold
    ]
    if not pairs:
        return
    _, sized = max(pairs, key=lambda pair: (pair[0], pair[1].model))
    cost = kind.outlook.cost_usd_per_hour
    against = f", against {dollars(best.cost_usd_per_hour)}/h" if best else ""
    reason = (
        f"{kind.outlook.label} might do it for {dollars(cost.value)}/h, {span_usd(cost.low, cost.high)}{against};"
        f" that depends on {sized.model} most"
    )
    yield _measurement(sized, reason)


def _spread(sized: dict[End, SizedModels], key: tuple[str, Kind]) -> float:
    """GPUs more at the bad end than at the good one; a model that cannot run at the bad end matters most."""
    low, high = (sized[end].get(key) for end in (End.LOW, End.HIGH))
    if low is None or high is None:
        return inf
    return float(high.design_work - low.design_work)


def _widest(
    question: Question, catalog: Catalog, predictor: Predictor | None, shown: Trial, shared: Merged
) -> Iterator[Measurement]:
    """Of a plan on foretold figures: the pair whose band moves the price most."""
    if predictor is None:
        return
    low, _ = ask(question.scenario, question.workload, catalog, predictor.at(End.LOW), shared)
    dearest_first = sorted(question.offers, key=lambda o: -o.usd_per_hour / o.gpu_count)
    prices = {o.gpu.name: o.usd_per_hour / o.gpu_count for o in dearest_first}
    pairs = {
        (p.portion.sized.model, card.kind): p.portion.sized
        for p in shown.packing.placed
        for card in p.cards
        if p.portion.sized.profile.foretold
    }

    def dollars_apart(key: tuple[str, Kind], sized: Sized) -> float:
        good = low.sized[key]
        return (sized.design_work - good.design_work) * prices[sized.profile.gpu]

    apart = {key: dollars_apart(key, sized) for key, sized in pairs.items()}
    key = max(apart, key=lambda key: (apart[key], key[0]))
    reason = (
        f"between the ends of its 80 % band lie {dollars(apart[key])}/h of GPU time, more than for any other model here"
    )
    yield _measurement(pairs[key], reason)


def _weakest(shown: Trial) -> Iterator[Measurement]:
    """Of a plan on profiles: the model with the least room among those with the weakest evidence."""
    placed = {p.portion.sized.model: p for p in shown.packing.placed}
    ranks = {m: evidence(p.portion.sized.profile, p.swapped) for m, p in placed.items()}
    weak = max(ranks.values(), key=lambda e: e.rank)
    if weak is Evidence.MEASURED:
        return
    first = min((m for m in placed if ranks[m] is weak), key=lambda m: (_room(shown, m), m))
    yield _measurement(placed[first].portion.sized, f"among the models that are only {weak}, it has the least room")


def _room(shown: Trial, model: str) -> float:
    """Surely kept share of what a model may miss."""
    target = shown.replay.needs[model].slo.attainment
    left = shown.replay.attainment[model].low - target
    return -inf if isnan(left) else left / (1 - target) if target < 1 else left


def _measurement(sized: Sized, reason: str) -> Measurement:
    profile = sized.profile
    return Measurement(
        model=sized.model,
        gpu=profile.gpu,
        reason=reason,
        command=f"planner calibrate --device cuda:0 --models {profile.model}",
    )
