"""Weighing: the same scenario with every model on its own, merged by each rule, and with one more GPU."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf, isnan, nan

from planner.catalog.catalog import Catalog
from planner.catalog.offers import Offer
from planner.io.load import Loaded, workload
from planner.model.candidate import Candidate
from planner.model.parts.merging import Merging
from planner.model.parts.rules import AccuracySpec
from planner.model.plan import InterruptedSearch, Plan, PlanWarning, Recommendation, Rejection, WayOfServing
from planner.model.progress import Progress
from planner.model.scenario import Objective
from planner.model.statement import Code, Statement
from planner.placing.fleets import Fleet
from planner.placing.merging.options import NOTHING_MERGED, Option, options
from planner.placing.packing.packed import Packing
from planner.placing.packing.packer import Packer
from planner.placing.sizing import Kind, Profiles, Sized
from planner.replay.answer import recommend
from planner.replay.deploying import deploy, devices_of
from planner.replay.replay import Replay
from planner.replay.run import SCREENED, replay
from planner.replay.trial import Trial
from planner.search.fleets.beside import OTHERS_MAX
from planner.search.one_way import plan_of_one_way
from planner.search.question import Question, ask
from planner.units.reading import HOURS_PER_MONTH
from planner.words.candidates import candidate_name
from simulator.clock.stability import drain
from simulator.world.deployment import Deployment
from simulator.world.profile import Evidence, WeightSource, weakest

SAME_USD = 0.005
"""Dollars a month that count as no difference."""
NO_ROOM_NEEDED = (
    "every machine on offer holds all models at once, on each of its GPUs in their largest batches and in its own "
    "memory: sharing layers saves memory alone, so that merged ways need the same GPUs; they are compared on these, "
    "not searched"
)


@dataclass(frozen=True)
class MergingWay:
    """A way of merging, with the plan that came of it."""

    option: Option
    question: Question
    plan: Plan | None
    """None where no plan of this way can be better than another way's."""

    @property
    def best(self) -> Recommendation | None:
        """The plan's recommendation; None where nothing was tried."""
        return self.plan.recommendation if self.plan and self.plan.recommendation.models else None

    @property
    def feasible(self) -> bool:
        """Whether its plan meets every SLO."""
        return self.best is not None and self.best.feasible

    def answer_on(self, fleet: Recommendation) -> Recommendation | None:
        """Its own answer, where that buys the same fleet."""
        return self.best if self.best and self.best.instances == fleet.instances else None

    def rank(self, objective: Objective) -> "Rank":
        """Lower is better: what meets every SLO first, then the objective, then cost; else what came nearest."""
        if self.best is None:
            return True, inf, inf
        usd_per_month = self.best.cost_usd_per_month + self.option.bill.usd_per_month
        if not self.best.feasible:
            return True, -least_margin(self.best), usd_per_month
        match objective:
            case Objective.COST:
                return False, usd_per_month, usd_per_month
            case Objective.GPUS:
                return False, float(self.best.gpu_count), usd_per_month
            case Objective.ENERGY:
                return False, self.best.power_w, usd_per_month


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


def least_margin(answer: Recommendation) -> float:
    """The least margin of any model's share on time over its SLO."""
    margins = [m.slo_attainment.mean - m.slo_attainment_target for m in answer.models]
    return min((margin for margin in margins if not isnan(margin)), default=-inf)


def weigh(
    loaded: Loaded, catalog: Catalog, library: Profiles, *, created_at: str, progress: Callable[[str, float], None]
) -> Plan:
    """The best plan over all ways of merging that the scenario allows, and how the others compare.

    The simplest way comes first. One that cannot beat the best so far even at its lower bound is not planned: it is
    only compared, on the fleet that the others need. InterruptedSearch at Ctrl-C, with the best of what was found.
    """
    tried: list[MergingWay] = []
    objective = loaded.scenario.objective

    def progress_of(option: Option) -> Progress:
        of_way = "" if option.way is Merging.NONE else f"merged {option.way}: "
        return lambda text, done: progress(f"{of_way}{text}", done)

    def planned(own: Loaded, option: Option, question: Question) -> Plan:
        try:
            return plan_of_one_way(
                own, catalog, library, created_at=created_at, progress=progress_of(option), shared=option.merged
            )
        except InterruptedSearch as stop:
            tried.append(MergingWay(option, question, stop.plan))
            raise

    questions, unmergeable = asked(loaded, catalog, library)
    try:
        for option, own, question in questions:
            least = min((way.rank(objective) for way in tried), default=(True, inf, inf))
            pays = not question.served or best_rank(question, option) < least
            if pays and needs_no_room(tried):
                unmergeable.append(NO_ROOM_NEEDED)
                pays = False
            tried.append(MergingWay(option, question, planned(own, option, question) if pays else None))
        best = min(tried, key=lambda way: way.rank(objective))
        return joined(best, tried, tuple(ways(best, tried, loaded, catalog, library)), unmergeable)
    except KeyboardInterrupt as stop:
        raise until_then(stop, tried, objective, [question for _, _, question in questions]) from None


def asked(
    loaded: Loaded, catalog: Catalog, library: Profiles
) -> tuple[list[tuple[Option, Loaded, Question]], list[str]]:
    """The question of each way that the scenario allows, with the scenario as that has it; and why others merge
    nothing."""
    questions: list[tuple[Option, Loaded, Question]] = []
    unmergeable: list[str] = []
    for option in options(loaded, library):
        nothing_shared = option.merging is not option.way
        if nothing_shared and loaded.scenario.merging is Merging.AUTO:
            unmergeable += option.assumptions
            continue
        own = option.of(loaded)
        question, _ = ask(own.scenario, workload(own), catalog, library, option.merged)
        questions.append((option, own, question))
    return questions, unmergeable


def needs_no_room(tried: Sequence[MergingWay]) -> bool:
    """Whether models on their own meet every SLO, and memory is never short: then no merged way does with less."""
    return any(way.option.merging is Merging.NONE and way.feasible and has_room(way.question) for way in tried)


def has_room(question: Question) -> bool:
    """Whether each machine holds all models at once, in their largest batches: then no fleet is short of memory, which
    is all that shared layers save."""
    from_disk = question.scenario.swap.policy.source is WeightSource.DISK
    return all(
        holds_all(offer, [sized for (_, kind), sized in question.sized.items() if kind == Kind.of(offer)], from_disk)
        for offer in question.offers
    )


def holds_all(offer: Offer, models: Sequence[Sized], from_disk: bool) -> bool:
    """Whether a GPU of a machine holds all models at once, and the machine their weights where they come from there."""
    if any(sized.stages > 1 for sized in models):
        return False
    weights_bytes = sum(sized.profile.weight_bytes for sized in models)
    workspace_bytes = max((sized.profile.workspace(sized.batch_size_max) for sized in models), default=0)
    context_bytes = max((sized.context_bytes for sized in models), default=0)
    host_bytes = inf if from_disk or offer.host_memory_bytes is None else offer.host_memory_bytes
    return weights_bytes <= host_bytes and weights_bytes + workspace_bytes + context_bytes <= offer.memory_bytes


def until_then(
    stop: KeyboardInterrupt, tried: Sequence[MergingWay], objective: Objective, questions: Sequence[Question]
) -> KeyboardInterrupt:
    """The same with the best plan of the ways that were tried until then, where one is feasible; and the bound on the
    cost of all ways, tried or not."""
    bound = min((question.lower_bound_usd_per_hour() for question in questions), default=nan)
    best = min(tried, key=lambda way: way.rank(objective), default=None)
    if best is None or best.plan is None or not best.feasible:
        return InterruptedSearch(bounded(stop.plan, bound)) if isinstance(stop, InterruptedSearch) else stop
    answer = replace(named(best.plan.recommendation, best.option), lower_bound_usd_per_hour=bound)
    interruptions = tuple(PlanWarning(what=Statement(code=code)) for code in (Code.INTERRUPTED, Code.WAYS_NOT_COMPARED))
    warnings = (*interruptions, *(one for one in best.plan.warnings if one not in interruptions))
    return InterruptedSearch(replace(best.plan, recommendation=answer, warnings=warnings))


def bounded(plan: Plan, usd_per_hour: float) -> Plan:
    """A plan with another bound on its cost."""
    return replace(plan, recommendation=replace(plan.recommendation, lower_bound_usd_per_hour=usd_per_hour))


def joined(
    best: MergingWay, tried: Sequence[MergingWay], rows: tuple[WayOfServing, ...], unmergeable: Sequence[str]
) -> Plan:
    """The best way's plan, with the others' answers among the alternatives and their rejections after its own."""
    plan = best.plan
    assert plan is not None  # the first way is always planned, and an unplanned one never ranks before it
    others = [way for way in tried if way is not best and way.plan]
    own = [named(answer, best.option) for answer in plan.alternatives]
    answers = [*feasible_answers(others), *own]
    cheapest_first = sorted(answers, key=lambda r: (r.cost_usd_per_hour, candidate_name(r.candidate)))
    alternatives = cheapest_first[:OTHERS_MAX]
    rejections = [no for way in (best, *others) for no in rejections_of(way)]
    return replace(
        plan,
        recommendation=recommended(best, plan, tried),
        alternatives=tuple(alternatives),
        pareto=places_among(alternatives, own, plan.pareto),
        rejections=tuple(dict.fromkeys(rejections)),
        merging=rows,
        assumptions=(*plan.assumptions, *assumptions_of([way.option for way in tried], unmergeable)),
        warnings=(*plan.warnings, *warnings_of(best.option)),
    )


def recommended(best: MergingWay, plan: Plan, tried: Sequence[MergingWay]) -> Recommendation:
    """The best way's answer, with the bound of all ways where it is feasible."""
    answer = named(plan.recommendation, best.option)
    if not best.best:
        return answer
    return replace(answer, lower_bound_usd_per_hour=min(way.question.lower_bound_usd_per_hour() for way in tried))


def feasible_answers(tried: Sequence[MergingWay]) -> list[Recommendation]:
    """Answers that meet every SLO, each with its way."""
    return [named(way.best, way.option) for way in tried if way.best and way.best.feasible]


def assumptions_of(tried: Sequence[Option], unmergeable: Sequence[str] = ()) -> list[Statement]:
    """What the ways rest on, and why others merge nothing, each once."""
    texts = [text for option in tried for text in option.assumptions]
    return [Statement(code=Code.OF_MERGING, text=text) for text in dict.fromkeys([*texts, *unmergeable])]


def places_among(
    alternatives: Sequence[Recommendation], own: Sequence[Recommendation], pareto: Sequence[int]
) -> tuple[int, ...]:
    """Places of a plan's Pareto front once its own alternatives stand among others; 0 is the recommendation."""
    by_identity = {id(answer): place for place, answer in enumerate(alternatives, start=1)}
    places = [by_identity.get(id(own[i - 1])) if i else 0 for i in pareto]
    return tuple(place for place in places if place is not None)


def rejections_of(way: MergingWay) -> Iterator[Rejection]:
    """What was rejected on the way, with the way in its candidates."""
    merging = way.option.way
    for no in way.plan.rejections if way.plan else ():
        if isinstance(no.subject, Candidate) and no.subject.memory:
            yield replace(no, subject=replace(no.subject, merging=merging))
        else:
            yield no


def named(answer: Recommendation, option: Option) -> Recommendation:
    """An answer with its way, and models that rest on an accuracy as weak as what is known of it."""
    shared = {model for group in option.merged.sharing for model in group.models}
    models = tuple(
        replace(m, evidence=weakest(m.evidence, option.evidence)) if option.evidence and m.name in shared else m
        for m in answer.models
    )
    return replace(answer, merging=option.way, models=models)


def warnings_of(option: Option) -> Iterator[PlanWarning]:
    """What weakens an answer that merges."""
    if option.evidence is Evidence.ASSUMED:
        yield PlanWarning(what=Statement(code=Code.ACCURACY_ASSUMED))
    if isnan(option.bill.training_usd):
        yield PlanWarning(what=Statement(code=Code.TRAINING_COST_UNKNOWN))


# The table


def ways(
    best: MergingWay, tried: Sequence[MergingWay], loaded: Loaded, catalog: Catalog, library: Profiles
) -> Iterator[WayOfServing]:
    """Each way on the smallest fleet that any of them needs, then each way's own plan, then one more GPU."""
    answers = [way.best for way in tried if way.best]
    if not answers:
        return
    base = min(answers, key=lambda answer: answer.cost_usd_per_hour)
    alone = [way for way in tried if way.option.merging is Merging.NONE] or [unmerged(loaded, catalog, library)]
    others = [way for way in tried if way is not alone[0]]
    for way in (alone[0], *others):
        yield from rows_of(way, base, chosen=way is best)
    yield from with_one_more(alone[0], base)


def with_one_more(alone: MergingWay, base: Recommendation) -> Iterator[WayOfServing]:
    """Every model on its own, on one GPU more, unless its own plan is larger anyway."""
    if alone.feasible and not alone.answer_on(base):
        return
    answer = on_fleet(alone.question, base, 1)
    if answer is not None:
        yield row(alone, answer, chosen=False, more=answer.gpu_count - base.gpu_count)


def rows_of(way: MergingWay, base: Recommendation, *, chosen: bool) -> Iterator[WayOfServing]:
    """A way on that fleet, and its own plan where that buys another."""
    own = way.answer_on(base)
    answer = own or on_fleet(way.question, base, 0)
    if answer is not None:
        yield row(way, answer, chosen=chosen and own is not None)
    if own is None and way.best and way.best.feasible:
        yield row(way, way.best, chosen=chosen, more=way.best.gpu_count - base.gpu_count)


def unmerged(loaded: Loaded, catalog: Catalog, library: Profiles) -> MergingWay:
    """Every model on its own, to compare with; not planned for, because the scenario forbids it."""
    question, _ = ask(loaded.scenario, workload(loaded), catalog, library)
    return MergingWay(NOTHING_MERGED, question, None)


def on_fleet(question: Question, base: Recommendation, more: int) -> Recommendation | None:
    """The models on another answer's fleet, with so many more of its first instance; None where they do not fit."""
    offered = offers_of(question, base)
    if not offered:
        return None
    first, *others = (instances.count for instances in base.instances)
    fleet = (first + more, *others)
    trials: list[Trial] = []
    for swap in question.policies:
        trial = tried_on(question, offered, fleet, swap)
        if trial is None:
            continue
        if trial.replay.promising:
            trial = replace(trial, replay=replayed(question, trial.deployment, screen=False))
        if trial.met:
            return recommend(trial, nan)
        trials.append(trial)
    nearest = max(trials, key=lambda t: t.replay.nearest_by_margin, default=None)
    return recommend(nearest, nan) if nearest else None


def offers_of(question: Question, answer: Recommendation) -> tuple[Offer, ...]:
    """The offers that an answer buys; empty where one of them is not on offer."""
    offered: list[Offer] = []
    for i in answer.instances:
        name = (i.provider, i.region, i.instance)
        offer = next((o for o in question.offers if (o.provider, o.region, o.instance) == name), None)
        if offer is None:
            return ()
        offered.append(offer)
    return tuple(offered)


def tried_on(question: Question, offered: tuple[Offer, ...], fleet: Fleet, swap: bool) -> Trial | None:
    """The models packed on a fleet and screened as a candidate would be; None where they do not fit."""
    devices = devices_of(offered, fleet)
    packing = Packer(list(question.needs), question.sized, question.rules(swap, {})).pack(devices)
    if not isinstance(packing, Packing):
        return None
    deployment = deploy(question.scenario, question.needs, devices, packing.placed)
    seen = replayed(question, deployment, screen=True)
    seen = replace(seen, overloaded=drain(deployment, seen.rates_rps(1.0), question.workload).growing)
    return Trial(offered, fleet, tuple(devices), packing, deployment, seen, question.offers)


def replayed(question: Question, deployment: Deployment, *, screen: bool) -> Replay:
    """Fewer replications than a plan has where random traffic averages out: here ways are compared. A lost frame is
    wrong in rows of the table: what it would be with the last answer is not worked out."""
    replications = min(SCREENED, question.scenario.replications)
    scenario = replace(question.scenario, replications=replications, accuracy=AccuracySpec())
    return replay(scenario, question.workload, question.needs, deployment, screen=screen)


def row(way: MergingWay, answer: Recommendation, *, chosen: bool, more: int = 0) -> WayOfServing:
    """One line of the table."""
    option, merged = way.option, way.option.merged
    offered_rps = sum(m.offered_rps for m in answer.models)
    right_rps = sum(m.offered_rps * m.accuracy.lost_is_wrong for m in answer.models)
    usd_per_month = answer.cost_usd_per_month + option.bill.usd_per_month
    millions = right_rps * HOURS_PER_MONTH * 3600 / 1e6
    return WayOfServing(
        merging=option.merging,
        candidate=replace(answer.candidate, merging=option.way),
        gpus_added=max(0, more),
        chosen=chosen,
        feasible=answer.feasible,
        gpu_count=answer.gpu_count,
        weights_bytes=weights_bytes(way.question, answer),
        saved_bytes=merged.saved_bytes,
        peak_memory_bytes=sum(gpu.peak_memory_bytes for gpu in answer.gpus),
        processed_fraction=min(m.processed_fraction for m in answer.models),
        merged_accuracy=min(merged.accuracy.values(), default=1.0),
        right_fraction=right_rps / offered_rps if offered_rps else nan,
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
