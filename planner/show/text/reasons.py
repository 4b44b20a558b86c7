"""Reasons as text: what was rejected and why, what is assumed, what weakens an answer, what might be better."""

import math
from collections.abc import Callable, Iterator, Sequence
from datetime import date

from planner.catalog.sold import STALE_DAYS, stale
from planner.model.candidate import Candidate, OnGpu
from planner.model.plan import (
    Bottleneck,
    Estimate,
    GpuAnswer,
    KindLeftOut,
    Measurement,
    ModelAnswer,
    Plan,
    PlanWarning,
    PrecisionOutlook,
    Prediction,
    PredictionRule,
    Recommendation,
    Rejection,
    cheaper,
    less_sure,
    nearest,
)
from planner.model.statement import Code, Statement
from planner.units.writing import counted, dollars, exact, gigabytes, names, seconds, share, span_usd
from planner.words.candidates import candidate_name, subject_name
from planner.words.statements import (
    GROUPED,
    addition,
    assumption,
    measurement,
    names_and_more,
    reason,
    rejection_lines,
    rejection_reason,
    remedies,
    warning,
    way_on,
)
from simulator.grouping import grouped

PREDICTED = "Predicted, with 80 % bands"
OTHERS_SHOWN = 5
RULES = {
    PredictionRule.PROFILE: "profile",
    PredictionRule.MEASURED_RATIO: "measured ratio",
    PredictionRule.LAYER_MODEL: "layer model",
    PredictionRule.LEARNT: "learnt",
    PredictionRule.DATA_SHEETS: "data sheets",
    PredictionRule.ROOFLINE: "roofline",
}
LEAST_PAID_USD = 0.0005
"""Below it, dollars round to nothing: a machine of one's own at a low price, or none; no machine that is saved."""
OLD_PRICES = frozenset({Code.STALE_PRICE, Code.STALE_PRICES})
PRECISIONS = "At another precision or in another runtime (estimated, not replayed)"


def stale_prices(plan: Plan) -> bool:
    """Whether the oldest price was more than 90 days old when the plan was made."""
    return stale(plan.prices_as_of, date.fromisoformat(plan.created_at[:10]))


def days_old(plan: Plan) -> int:
    """Days from the oldest price to when the plan was made."""
    return (date.fromisoformat(plan.created_at[:10]) - date.fromisoformat(plan.prices_as_of)).days


def saving(answer: Recommendation) -> float:
    """Dollars an hour above the lower bound; zero where only rounding is between them."""
    above = answer.cost_usd_per_hour - answer.lower_bound_usd_per_hour
    return above if above > 1e-6 * answer.cost_usd_per_hour else 0.0


def rejection_text(plan: Plan, no: Rejection) -> str:
    """One rejected candidate in words, with the remedy."""
    cost = f" at {rejected_price(plan, no)}" if no.cost_usd_per_hour is not None else ""
    return f"{subject_name(no.subject)}{cost}: {sentence(rejection_reason(no))} {sentence(way_on(no))}"


def rejected_price(plan: Plan, no: Rejection) -> str:
    """`$4.02/h` of a fleet that was rejected; where machines may be away `$4.02/h without spares`, of machines of one
    type `$4.02/h, $5.03/h with 1 spare`."""
    usd_per_hour, spares = no.cost_usd_per_hour or 0.0, plan.policies.survive
    price = f"{dollars(usd_per_hour)}/h"
    match no.subject:
        case _ if not spares:
            return price
        case Candidate(machines=(one,)):
            return f"{price}, {dollars(usd_per_hour * (1 + spares / one.count))}/h with {counted(spares, 'spare')}"
    return f"{price} without spares"


def least_price(answer: Recommendation, survive: int) -> str:
    """`$4.07/h`, or `$4.07/h with spares` where so many machines may be away: the lower bound."""
    return f"{dollars(answer.lower_bound_usd_per_hour)}/h{' with spares' if survive else ''}"


def uncertain(those: Sequence[ModelAnswer] | Sequence[GpuAnswer]) -> str:
    """`predicted and published speeds`: those that are drawn, for the user did not measure them; empty without any."""
    kinds = sorted({str(one.speed_evidence) for one in those if one.uncertain})
    return f"{' and '.join(filter(None, (', '.join(kinds[:-1]), kinds[-1])))} speeds" if kinds else ""


def at_slow_end(those: Sequence[ModelAnswer]) -> str:
    """` with predicted speeds at their slow end`: what bounds rest on where speeds are in doubt; else empty."""
    speeds = uncertain(those)
    return f" with {speeds} at their slow end" if speeds else ""


def full_batches(headroom: float) -> str:
    """What the lower bound assumes."""
    return f"full batches, no waiting, {exact(headroom)} headroom"


def rejected_in_all(plan: Plan) -> str:
    """`6 candidates rejected, for 2 reasons; 28 dearer offers of the same GPUs left out`: fleets of one reason
    for one model count once, and so do kinds of GPU that one line names."""
    dearer = sum(no.why.code is Code.OFFERED_FOR_LESS for no in plan.rejections)
    rejected = len(plan.rejections) - dearer
    reasons = len(by_reason(nearest(plan))) + len(never_tried(plan))
    alike = f", for {counted(reasons, 'reason')}" if reasons < rejected else ""
    left_out = f"; {counted(dearer, 'dearer offer')} of the same GPUs left out" if dearer else ""
    return f"{counted(rejected, 'candidate')} rejected{alike}{left_out}"


def never_tried(plan: Plan) -> list[str]:
    """What was never tried, for want of a profile, a price or a seller: one line for each cause."""
    unsold = (Bottleneck.RETIRED, Bottleneck.PRICE)
    without_offer = rejection_lines([no for no in plan.rejections if no.bottleneck in unsold and cheaper(plan, no)])
    return [*without_profile(plan), *without_offer]


def kinds_that_miss(plan: Plan) -> list[KindLeftOut]:
    """Where nothing is feasible, the kinds of GPU that could carry the work, the cheapest at their bounds first."""
    able = [one for one in plan.by_gpu_left_out if one.usd_per_hour_at_least is not None]
    return sorted([] if plan.recommendation.feasible else able, key=lambda one: one.usd_per_hour_at_least or 0.0)


def kinds_left_out(plan: Plan) -> list[str]:
    """Kinds of GPU on offer that no fleet stands for, those with a reason of one kind in one line."""
    in_table = kinds_that_miss(plan)
    left_out = [one for one in plan.by_gpu_left_out if one not in in_table]
    alike = grouped((kind_of_reason(one), one) for one in left_out)
    return [left_out_line(those) for those in alike.values()]


def kind_of_reason(one: KindLeftOut) -> tuple[Code, tuple[str, ...]]:
    """Why a kind is left out, whatever its name is and where its figures come from."""
    of_evidence = one.why.code is Code.SAMPLE_MAY_BE_TOO_SLOW
    return one.why.code, () if of_evidence else tuple(name for name in one.why.subjects if name != one.gpu)


def left_out_line(those: Sequence[KindLeftOut]) -> str:
    """`Left out: B200 ($113.93/h at least), B300 (2 to 4 tried, $142.42/h at least): over twice the cheapest.`"""
    kinds = ", ".join(f"{one.gpu}{left_out_at(one)}" for one in those)
    nearest = min(those, key=lambda one: tuple(one.why.figures.values()))
    differ = len({why_left_out(one) for one in those}) > 1
    return f"Left out: {kinds}: {f'on {nearest.gpu} ' if differ else ''}{why_left_out(nearest)}."


def why_left_out(one: KindLeftOut) -> str:
    """The reason, without the name of the kind."""
    return no_profile_of(one.why.subjects[:-1]) if one.why.code is Code.NO_PROFILE else reason(one.why)


def left_out_at(one: KindLeftOut) -> str:
    """` (2 to 4 tried, 5 GPUs and $142.42/h at least)`: sizes of fleets, and what none can do with less of."""
    least, most = min(one.gpus_tried, default=0), max(one.gpus_tried, default=0)
    tried = [f"{least} to {most} tried" if least < most else f"{most} tried"] if most else []
    bounds = [counted(one.gpus_at_least, "GPU")] if one.gpus_at_least else []
    bounds += [f"{dollars(one.usd_per_hour_at_least)}/h"] if one.usd_per_hour_at_least else []
    at_least = [f"{' and '.join(bounds)} at least"] if bounds else []
    return f" ({', '.join(parts)})" if (parts := [*tried, *at_least]) else ""


def without_profile(plan: Plan) -> Iterator[str]:
    """Kinds of GPU on which some model has no profile, those that lack the same in one line."""
    alike = grouped(
        ((no.subject.models, no.beside, () if measurable(no) else no.remedies), no.subject.gpu)
        for no in plan.rejections
        if no.bottleneck is Bottleneck.PROFILE and isinstance(no.subject, OnGpu)
    )
    for (models, beside, others), gpus in alike.items():
        missing = ", ".join([no_profile_of(models), *map(addition, beside)])
        remedy = remedies(others) if others else "measure, or name a folder with --profiles"
        yield f"Not tried on {names(gpus, 12)}: {missing}. Remedy: {remedy}."


def no_profile_of(models: Sequence[str]) -> str:
    """Of the first few, and how many more."""
    return f"no profile of {names_and_more(models)}"


def measurable(no: Rejection) -> bool:
    """Whether a profile is all that models lack on a GPU."""
    return all(one.code is not Code.AS_SAID for one in no.remedies)


def refusals(plan: Plan, after: int = 0) -> list[str]:
    """Why nothing cheaper works: refused fleets, the nearest of each reason first, but for some; then what was never
    tried."""
    rejections = nearest(plan)
    firsts = [those[0] for those in by_reason(rejections).values()]
    no, best = [*firsts, *(no for no in rejections if no not in firsts)], plan.recommendation
    lines = [rejection_text(plan, one) for one in no[after : after + OTHERS_SHOWN]]
    if len(no) > after + OTHERS_SHOWN:
        more = len(no) - after - OTHERS_SHOWN
        was = "was" if more == 1 else "were"
        lines.append(f"{counted(more, 'more candidate')} {was} rejected: see the JSON.")
    if not no and best.feasible and not saving(best) and math.isfinite(best.lower_bound_usd_per_hour):
        speeds = uncertain(best.models)
        and_slow = f" and {speeds} at their slow end" if speeds else ""
        lines.append(
            f"No placement under {least_price(best, plan.policies.survive)} can do this with "
            f"{exact(plan.policies.headroom)} headroom{and_slow}."
        )
    return [*lines, *never_tried(plan)]


def by_reason(rejections: Sequence[Rejection]) -> dict[tuple[Code, tuple[str, ...]], list[Rejection]]:
    """Rejections of each reason for each model, in their order."""
    return grouped(((no.why.code, models_of(no)), no) for no in rejections)


def models_of(no: Rejection) -> tuple[str, ...]:
    """Whom a rejection is about first of all."""
    return no.subject.models if isinstance(no.subject, OnGpu) else no.why.subjects[:1]


def sentence(text: str) -> str:
    """`text` with its full stop."""
    text = text.strip()
    return text if not text or text[-1] in ".!?" else f"{text}."


def predicted(plan: Plan) -> list[str]:
    """What the plan rests on in place of profiles, one line for each pair."""

    def within(one: Estimate, show: Callable[[float], str]) -> str:
        return f"{show(one.value)} ({show(one.low)} to {show(one.high)})"

    return [
        f"{p.model} on {p.gpu}: a batch of {p.batch_size} in {within(p.latency_s, seconds)},"
        f" {gigabytes(p.memory_bytes)} allocated and {gigabytes(p.reserved_bytes)} reserved,"
        f" loaded in {within(p.load_s, seconds)}; {basis(p)},"
        f" evidence {p.evidence}."
        for p in plan.predictions
    ]


def basis(p: Prediction) -> str:
    """`measured ratio from V100 with nvidia_resnet50`."""
    source = f" from {p.source}" if p.source else ""
    probes = f" with {names(p.probes, 6)}" if p.probes else ""
    return f"{RULES[p.rule]}{source}{probes}"


def outlooks_title(plan: Plan) -> str:
    """Heading of GPUs without profiles."""
    might = "be cheaper" if plan.recommendation.feasible else "do it"
    return f"Might {might}, were it measured (estimated, not replayed)"


def outlooks(plan: Plan) -> list[str]:
    """GPUs without profiles that might be cheaper."""
    costs = [(o.gpu, candidate_name(o.candidate), o.cost_usd_per_hour) for o in plan.outlooks]
    spares = with_spares(plan)
    return [
        f"{label}{spares}: {dollars(cost.value)}/h, {span_usd(cost.low, cost.high)}. {planned_alone(gpu)}"
        for gpu, label, cost in costs
    ]


def planned_alone(gpu: str) -> str:
    """How a kind of GPU that was only estimated is replayed."""
    return f"`--set 'buy.gpus=[{gpu}]'` replays it at predicted speeds."


def with_spares(plan: Plan) -> str:
    """What estimated fleets are priced with, whether or not the fleet that is shown has any."""
    return " with its spares" if plan.policies.survive else ""


def and_spares(plan: Plan, candidate: Candidate) -> str:
    """` and 1 spare`: machines that its price includes and its name leaves out; of each type as many as may be away."""
    spares = plan.policies.survive * len(candidate.machines)
    return f" and {counted(spares, 'spare')}" if spares else ""


def precisions(plan: Plan) -> list[str]:
    """Those that may save: `fp16: about $2.10/h (80 % band $1.60 to $2.63/h; 4 x g4dn.xlarge (T4)); this plan ...`

    The least is a bound: waiting, phases and speeds may take more.
    """
    best = plan.recommendation
    below_usd = best.cost_usd_per_hour if best.feasible else math.inf
    return [precision_line(plan, one) for one in plan.precisions if one.cost_usd_per_hour.low < below_usd]


def precision_line(plan: Plan, outlook: PrecisionOutlook) -> str:
    """One of them."""
    best, cost = plan.recommendation, outlook.cost_usd_per_hour
    runtimes = sorted({m.runtime for m in best.models} - {""}) if outlook.runtime else []
    now = some_and_some(("at", outlook.instead_of), ("in", runtimes))
    against = f"; this plan costs {dollars(best.cost_usd_per_hour)}/h{now}" if best.feasible else ""
    engine = f" in {outlook.runtime} ({outlook.evidence})" if outlook.runtime else ""
    wants = ", after quantization" if outlook.precision == "int8" else ""
    band = f"80 % band {_band(best, cost)}; " if cost.low < cost.high else ""
    fleet = f"about {dollars(cost.value)}/h ({band}{candidate_name(outlook.candidate)}{with_spares(plan)})"
    accuracies = "".join(f" {sentence(warning(PlanWarning(what=one))[0])}" for one in outlook.accuracy)
    return f"{outlook.precision or ' and '.join(outlook.instead_of)}{engine}{wants}: {fleet}{against}.{accuracies}"


def tried_with(outlook: PrecisionOutlook) -> str:
    """`: to try it, set ...`: the keys of each model; empty where no one precision or runtime is named."""
    keys = {"precision": outlook.precision, "runtime": outlook.runtime}
    named = [f"`{key}: {value}`" for key, value in keys.items() if value and " " not in value]
    open_ones = " that leaves it open" if outlook.some_keep else ""
    return f": to try it, set {' and '.join(named)} of each model{open_ones}" if named else ""


def some_and_some(*ways: tuple[str, Sequence[str]]) -> str:
    """`, at fp16, some models in pytorch, some in tensorrt`: ways of running, first those that all models have."""
    parts = [[f"{how} {one}" for one in those] for how, those in sorted(ways, key=lambda way: len(way[1])) if those]
    return "".join(f", {part[0]}" if len(part) == 1 else f", some models {', some '.join(part)}" for part in parts)


def _band(best: Recommendation, cost: Estimate) -> str:
    if not math.isfinite(cost.high):
        return f"from {dollars(cost.low)}/h to no fleet at all"
    more = ", more than now" if best.feasible and best.cost_usd_per_hour < cost.high else ""
    return f"{dollars(cost.low)} to {dollars(cost.high)}/h{more}"


def measure_next(plan: Plan, measurements: Sequence[Measurement]) -> list[str]:
    """Why to measure some of a plan, what it takes, what it saves or decides, and the command."""
    lines = [(f"{m.model} on {m.gpu}: {sentence(measurement(m.why))}", m) for m in measurements]
    remedies = {remedy.code for no in plan.rejections for remedy in no.remedies}
    decides = not plan.recommendation.feasible and Code.MEASURING_DECIDES in remedies
    gain = decided_by if decides else saved_by
    return [f"{line} {untried(m)}{bargain(m, gain(m))}{run_there(m)}: `{m.command}`." for line, m in lines]


def untried(one: Measurement) -> str:
    """Of a fleet that was only estimated, how it is replayed; empty of others."""
    return f"{planned_alone(one.gpu)} " if one.why.code is Code.MIGHT_DO_IT else ""


def run_there(one: Measurement) -> str:
    """How to measure it: what `planner calibrate` does not run is timed with its own tool, and what it cannot build by
    name is made by a function of the user's."""
    if one.by_own_code:
        return (
            f"`planner calibrate` cannot build {one.model} by name: write a function that makes it "
            "(docs/calibration.md), name it as the model's `factory`, without a `profile`, and run there"
        )
    return "Time it there with its own tool, then run" if one.by_own_tool else "Run there"


def bargain(one: Measurement, gain: str) -> str:
    """`It takes 10 minutes, $0.09, and should save $37/month. `; empty in plans that do not say."""
    if math.isnan(one.minutes):
        return ""
    paid = f", {dollars(one.usd)}" if one.usd >= LEAST_PAID_USD else ""
    return f"It takes {one.minutes:g} minutes{paid}{gain}. "


def decided_by(_: Measurement) -> str:
    """What a measurement tells where nothing is feasible by uncertain speeds."""
    return ", and helps to decide on a fleet that was rejected for its uncertain speeds"


def saved_by(one: Measurement) -> str:
    """What a measurement is expected to save; empty where nobody knows."""
    worth = one.worth_usd_per_month
    if math.isnan(worth):
        return ""
    if saves_nothing(one):
        return ", and makes the plan surer, not cheaper"
    return f", and should save {dollars(worth)}/month"


def less_sure_line(plan: Plan) -> list[str]:
    """The cheapest fleet that is much cheaper, and meets every SLO in most replications, though not in enough."""
    without_spares = sum(one.count * one.usd_per_hour for one in plan.recommendation.instances)
    no = less_sure(plan.rejections, without_spares)
    if not plan.recommendation.feasible or no is None or no.why.figures.get("at_least"):
        return []
    fleet = f"{subject_name(no.subject)} at {rejected_price(plan, no)}"
    return [f"Or less sure: {fleet} meets every SLO in {draws_seen(no)}. Lower `confidence` to accept it."]


def draws_seen(no: Rejection) -> str:
    """`90 % of replications (95 % was asked for)`, in as many digits as tell the two apart."""
    asked = exact(no.limit)
    if no.observed >= no.limit:
        return f"{share(no.observed, 1)} of replications, too few of them to be sure of {asked}"

    def at_most(places: int) -> str:
        """Rounded down: a `confidence` of so much accepts it."""
        return share(math.floor(no.observed * 10 ** (places + 2) + 1e-9) / 10 ** (places + 2), places)

    told = next((at_most(n) for n in range(4) if at_most(n) != share(no.limit, n)), at_most(4))
    return f"{told} of replications ({asked} was asked for)"


def saves_nothing(one: Measurement) -> bool:
    """True where no whole machine less is to be expected; False where nobody knows."""
    return one.worth_usd_per_month < LEAST_PAID_USD


def warnings_of(plan: Plan) -> tuple[PlanWarning, ...]:
    """What weakens the answer; stale prices among it, if nothing says so yet."""
    about_prices = {Code.STALE_PRICE, Code.CHEAPER_NOW}
    if not stale_prices(plan) or any(one.what.code in about_prices for one in plan.warnings):
        return plan.warnings
    stale = Statement(code=Code.STALE_PRICES, subjects=(plan.prices_as_of,), figures={"days": STALE_DAYS})
    return (*plan.warnings, PlanWarning(what=stale))


def warning_texts(warnings: Sequence[PlanWarning]) -> list[str]:
    """Each with its remedy."""
    return [warning_text(*warning(one)) for one in warnings]


def warning_text(what: str, remedy: str) -> str:
    """`The price of g5.xlarge is from 2026-01-02. Remedy: look it up ...`"""
    return f"{sentence(what)} Remedy: {sentence(remedy)}" if remedy else sentence(what)


def assumption_lines(assumptions: Sequence[Statement]) -> list[str]:
    """Assumptions, said once where they hold for several models: in what is computed, then those of most models."""
    first = {assumption(one) for one in assumptions if one.code is Code.COMPUTES_IN}
    whose: dict[str, list[str]] = {}
    for one in assumptions:
        whose.setdefault(assumption(one), []).extend(one.subjects if one.code in GROUPED else ())
    ordered = sorted(whose.items(), key=lambda item: (item[0] not in first, -len(item[1])))
    return [f"{names(whom, 3)}: {sentence(text)}" if whom else sentence(text) for text, whom in ordered]


def refusals_title(plan: Plan) -> str:
    """Heading of what was refused."""
    best = plan.recommendation
    if not best.feasible:
        return "What was rejected, and why"
    return "Cheaper fleets that were rejected" if saving(best) else "Why nothing cheaper works"
