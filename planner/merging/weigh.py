"""Weighing: the same scenario with every model on its own, merged by each rule, and with one more GPU."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf, isnan, nan

from planner.answer import SCREENED, Replay, Trial, cards_of, deploy, recommend, replay
from planner.catalog import Catalog, Offer
from planner.cost import Fleet
from planner.load import Loaded, workload
from planner.merging.analysis import NOTHING_MERGED, Option, options
from planner.packing import Packer, Packing
from planner.plans import Caution, Plan, Recommendation, Rejection, WayOfServing
from planner.prediction.question import Question, ask
from planner.scenario import Merging, Objective
from planner.search import OTHERS_MAX, plan
from planner.sizing import Profiles
from planner.units import HOURS_PER_MONTH
from simulator.deployment import Deployment
from simulator.profile import Evidence, weakest
from simulator.stability import drain

SAME_USD = 0.005
"""Dollars a month that count as no difference."""
MODES = (", resident", ", swapped")
"""How the label of a fleet ends."""


@dataclass(frozen=True)
class Way:
    """A way of merging, with the plan that came of it."""

    option: Option
    question: Question
    plan: Plan | None
    """None where no plan of this way can be better than another way's."""

    @property
    def best(self) -> Recommendation | None:
        """The plan's recommendation; None where nothing was tried."""
        return self.plan.recommendation if self.plan and self.plan.recommendation.models else None

    def answer_on(self, fleet: Recommendation) -> Recommendation | None:
        """Its own answer, where that buys the same fleet."""
        return self.best if self.best and self.best.instances == fleet.instances else None

    def rank(self, objective: Objective) -> "Rank":
        """Lower is better: what keeps every promise first, then the objective, then cost; else what came nearest."""
        if self.best is None:
            return True, inf, inf
        usd_per_month = self.best.cost_usd_per_month + self.option.bill.usd_per_month
        if not self.best.feasible:
            return True, -nearness(self.best), usd_per_month
        match objective:
            case Objective.COST:
                return False, usd_per_month, usd_per_month
            case Objective.GPUS:
                return False, float(self.best.gpu_count), usd_per_month
            case Objective.ENERGY:
                return False, self.best.energy_w, usd_per_month


Rank = tuple[bool, float, float]


def best_rank(question: Question, option: Option) -> Rank:
    """A rank that no plan of a way can beat by more than half a cent: proven for cost and GPUs, unknown for energy."""
    machines_usd_per_month = question.lower_bound_usd_per_hour() * HOURS_PER_MONTH
    usd_per_month = machines_usd_per_month + option.bill.usd_per_month + SAME_USD
    match question.scenario.objective:
        case Objective.COST:
            return False, usd_per_month, usd_per_month
        case Objective.GPUS:
            return False, float(question.program().least_gpus() or 0), usd_per_month
        case Objective.ENERGY:
            return False, -inf, usd_per_month


def nearness(answer: Recommendation) -> float:
    """The least margin of any model's share on time over its promise."""
    margins = [m.slo_attainment.mean - m.slo_attainment_target for m in answer.models]
    return min((margin for margin in margins if not isnan(margin)), default=-inf)


def weigh(
    loaded: Loaded, catalog: Catalog, library: Profiles, *, created_at: str, progress: Callable[[str, float], None]
) -> Plan:
    """The best plan over all ways of merging that the scenario allows, and how the others compare.

    The simplest way comes first. One that cannot beat the best so far even at its lower bound is not planned: it is
    only compared, on the fleet that the others need.
    """
    found: list[Way] = []
    nothing: list[str] = []
    objective = loaded.scenario.objective
    for option in options(loaded, library):
        if option.merging is not Merging.NONE and not option.merged.sharing and loaded.scenario.merging is Merging.AUTO:
            nothing += option.said
            continue
        given = option.of(loaded)
        question, _ = ask(given.scenario, workload(given), catalog, library, option.merged)
        least = min((way.rank(objective) for way in found), default=(True, inf, inf))
        made = None
        if not question.served or best_rank(question, option) < least:
            made = plan(given, catalog, library, created_at=created_at, progress=progress, shared=option.merged)
        found.append(Way(option, question, made))
    best = min(found, key=lambda way: way.rank(objective))
    return joined(best, found, tuple(ways(best, found, loaded, catalog, library)), nothing)


def joined(best: Way, found: Sequence[Way], rows: tuple[WayOfServing, ...], nothing: Sequence[str]) -> Plan:
    """The best way's plan, with the others' answers among the alternatives and their refusals after its own."""
    assert best.plan is not None  # the first way is always planned, and an unplanned one never ranks before it
    others = [way for way in found if way is not best and way.plan]
    feasible = [named(way.best, way.option) for way in others if way.best and way.best.feasible]
    kept = [named(rec, best.option) for rec in best.plan.alternatives]
    bounds = [way.question.lower_bound_usd_per_hour() for way in found]
    shown = named(best.plan.recommendation, best.option)
    refused = [refusal for way in (best, *others) for refusal in refusals(way)]
    said = [text for way in found for text in way.option.said] + list(nothing)
    return replace(
        best.plan,
        recommendation=replace(shown, lower_bound_usd_per_hour=min(bounds)) if best.best else shown,
        alternatives=tuple(sorted([*feasible, *kept], key=lambda r: (r.cost_usd_per_hour, r.label))[:OTHERS_MAX]),
        pareto=tuple(with_way(label, best.option) for label in best.plan.pareto),
        rejections=tuple(dict.fromkeys(refused)),
        merging=rows,
        assumptions=(*best.plan.assumptions, *dict.fromkeys(said)),
        warnings=(*best.plan.warnings, *cautions(best.option)),
    )


def refusals(way: Way) -> Iterator[Rejection]:
    """What was refused on the way, by the name that tells it from the same fleet on another."""
    for no in way.plan.rejections if way.plan else ():
        yield replace(no, candidate=with_way(no.candidate, way.option))


def with_way(label: str, option: Option) -> str:
    """`1 x V100, resident` where models are merged: `1 x V100, resident, merged layers`."""
    return f"{label}, merged {option.merging}" if option.merged.sharing and label.endswith(MODES) else label


def named(answer: Recommendation, option: Option) -> Recommendation:
    """An answer with the way in its name, and models that rest on an accuracy as weak as what is known of it."""
    shared = {model for group in option.merged.sharing for model in group.models}
    models = tuple(
        replace(m, evidence=weakest(m.evidence, option.evidence)) if option.evidence and m.name in shared else m
        for m in answer.models
    )
    return replace(answer, label=with_way(answer.label, option), models=models)


def cautions(option: Option) -> Iterator[Caution]:
    """What weakens an answer that merges."""
    if option.evidence is Evidence.ASSUMED:
        yield Caution(
            what="the accuracy of merged models is assumed, not measured",
            remedy="train them together with `planner merge train` and name the file under `sharing.curve`",
        )
    if isnan(option.bill.training_usd):
        yield Caution(
            what="what joint training costs is not in these figures",
            remedy="say what it takes under `sharing.retraining`",
        )


# The table


def ways(
    best: Way, found: Sequence[Way], loaded: Loaded, catalog: Catalog, library: Profiles
) -> Iterator[WayOfServing]:
    """Each way on the smallest fleet that any of them needs, then each way's own plan, then one more GPU."""
    answers = [way.best for way in found if way.best]
    if not answers:
        return
    base = min(answers, key=lambda answer: answer.cost_usd_per_hour)
    alone = next((way for way in found if way.option.merging is Merging.NONE), None)
    if alone is None:
        alone = unmerged(loaded, catalog, library)
    for way in [alone, *(way for way in found if way is not alone)]:
        own = way.answer_on(base)
        answer = own or on_fleet(way.question, base, 0)
        if answer is not None:
            yield row(way, answer, chosen=way is best and own is not None)
        if own is None and way.best and way.best.feasible:
            yield row(way, way.best, chosen=way is best, more=way.best.gpu_count - base.gpu_count)
    if not (alone.best and alone.best.feasible) or alone.answer_on(base):
        answer = on_fleet(alone.question, base, 1)
        if answer is not None:
            yield row(alone, answer, chosen=False, more=answer.gpu_count - base.gpu_count)


def unmerged(loaded: Loaded, catalog: Catalog, library: Profiles) -> Way:
    """Every model on its own, to compare with; not planned for, because the scenario forbids it."""
    question, _ = ask(loaded.scenario, workload(loaded), catalog, library)
    return Way(NOTHING_MERGED, question, None)


def on_fleet(question: Question, base: Recommendation, more: int) -> Recommendation | None:
    """The models on another answer's fleet, with so many more of its first instance; None where they do not fit."""
    bought = list(offers_of(question, base))
    if not bought or any(offer is None for offer, _ in bought):
        return None
    offered = tuple(offer for offer, _ in bought if offer)
    fleet = tuple(n + more * (i == 0) for i, (_, n) in enumerate(bought))
    trials: list[Trial] = []
    for swap in question.policies:
        trial = tried_on(question, offered, fleet, swap)
        if trial and trial.replay.promising:
            trial = replace(trial, replay=replayed(question, trial.deployment, screen=False))
        if trial and trial.met:
            return recommend(trial, nan)
        trials += [trial] if trial else []
    nearest = max(trials, key=lambda t: t.replay.nearness, default=None)
    return recommend(nearest, nan) if nearest else None


def offers_of(question: Question, answer: Recommendation) -> Iterator[tuple[Offer | None, int]]:
    """The offers that an answer buys, and how many of each."""
    for i in answer.instances:
        name = (i.provider, i.region, i.instance)
        yield next((o for o in question.offers if (o.provider, o.region, o.instance) == name), None), i.count


def tried_on(question: Question, offered: tuple[Offer, ...], fleet: Fleet, swap: bool) -> Trial | None:
    """The models packed on a fleet and screened as a candidate would be; None where they do not fit."""
    cards = cards_of(offered, fleet)
    packing = Packer(list(question.needs), question.sized, question.rules(swap, {})).pack(cards)
    if not isinstance(packing, Packing):
        return None
    deployment = deploy(question.scenario, question.needs, cards, packing.placed)
    seen = replayed(question, deployment, screen=True)
    seen = replace(seen, overloaded=drain(deployment, seen.rates_rps(1.0), question.workload).growing)
    return Trial(offered, fleet, tuple(cards), packing, deployment, seen, question.offers)


def replayed(question: Question, deployment: Deployment, *, screen: bool) -> Replay:
    """Fewer replications than a plan has where random traffic averages out: here ways are compared."""
    scenario = replace(question.scenario, replications=min(SCREENED, question.scenario.replications))
    return replay(scenario, question.workload, question.needs, deployment, screen=screen)


def row(way: Way, answer: Recommendation, *, chosen: bool, more: int = 0) -> WayOfServing:
    """One line of the table."""
    option, merged = way.option, way.option.merged
    mode = next((mode for mode in MODES if answer.label.endswith(mode)), "")
    what = f"merged {option.merging}" if merged.sharing else "each on its own"
    asked_rps = sum(m.offered_rps for m in answer.models)
    right_rps = sum(m.offered_rps * m.accuracy.lost_is_wrong for m in answer.models)
    usd_per_month = answer.cost_usd_per_month + option.bill.usd_per_month
    millions = right_rps * HOURS_PER_MONTH * 3600 / 1e6
    extra = f"{more} more GPU{'s' if more > 1 else ''}, " if more > 0 else ""
    return WayOfServing(
        merging=option.merging,
        what=f"{extra}{what}{mode}",
        fleet=answer.label.removesuffix(mode) if mode else answer.label,
        chosen=chosen,
        feasible=answer.feasible,
        gpu_count=answer.gpu_count,
        weights_bytes=weights_bytes(way.question, answer),
        saved_bytes=merged.saved_bytes,
        peak_memory_bytes=sum(gpu.peak_memory_bytes for gpu in answer.gpus),
        processed_fraction=min(m.processed_fraction for m in answer.models),
        merged_accuracy=min(merged.accuracy.values(), default=1.0),
        right_fraction=right_rps / asked_rps if asked_rps else nan,
        usd_per_million_right=usd_per_month / millions if millions else nan,
        cost_usd_per_hour=answer.cost_usd_per_hour,
        training_usd=option.bill.training_usd,
        retraining_usd_per_month=option.bill.retraining_usd_per_month,
        total_usd_per_month=usd_per_month,
        evidence=option.evidence,
        live=option.bill.live,
    )


def weights_bytes(question: Question, answer: Recommendation) -> int:
    """All models' weights as the first GPU's kind has them, shared layers once."""
    kind = answer.gpus[0].kind
    sized = [s for (_, k), s in question.sized.items() if k.gpu.name == kind]
    return sum({layer.key: layer.weight_bytes for s in sized for layer in s.profile.layers}.values())
