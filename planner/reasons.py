"""Explanations: what binds each model, what was refused and why, what would change the answer. Reads only a plan."""

from collections.abc import Sequence

from planner.layout import Screen, dollars, gigabytes, names, promise, seconds, share
from planner.merging.report import reasons
from planner.plans import Bottleneck, GpuAnswer, ModelAnswer, Plan, Recommendation
from planner.terminal import (
    FORETOLD,
    PRECISIONS,
    budget_left,
    caution_texts,
    cautions,
    foretold,
    granted,
    headline,
    latency_left,
    measure_next,
    nearest,
    notes,
    on_time,
    outlooks,
    outlooks_title,
    precisions,
    refusal,
    refusals,
    refusals_title,
    rules_line,
    slo_line,
    tightest,
)
from simulator.profile import Evidence


def explain(plan: Plan, screen: Screen) -> str:
    """Why the answer is what it is, in words."""
    answer, refused = plan.recommendation, nearest(plan)
    lines = [screen.bold(line) for line in screen.wrap(headline(plan), hang=2)]
    if answer.models:
        for line in (slo_line(answer), rules_line(plan.policies, answer.models)):
            lines += screen.wrap(line, hang=2)
        binds = [f"{m.name}: {binding(m, answer)}" for m in sorted(answer.models, key=budget_left)]
        lines += notes("What binds each model, tightest first", binds, screen)
    lines += notes("Swap, merge or buy", reasons(plan), screen)
    lines += notes(
        "Nearest refusal, and the smallest change that makes it work", [refusal(no) for no in refused[:1]], screen
    )
    lines += notes(refusals_title(plan), refusals(plan, after=1), screen)
    if answer.feasible:
        lines += notes("What would change the answer", sensitivity(plan, answer), screen)
    if answer.models:
        lines += notes("Evidence", evidence(answer), screen)
    lines += notes(outlooks_title(plan), outlooks(plan), screen)
    lines += notes(PRECISIONS, precisions(plan), screen)
    lines += notes(FORETOLD, foretold(plan), screen)
    lines += notes("Cautions", caution_texts(cautions(plan)), screen)
    lines += notes("Taken for granted", granted(plan.assumptions), screen)
    lines += notes("Measure this next", measure_next(plan), screen)
    return "\n".join(lines) + "\n"


def cards_of(model: ModelAnswer, answer: Recommendation) -> list[GpuAnswer]:
    """The GPUs a model runs on, busiest first."""
    return sorted((g for g in answer.gpus if g.id in model.gpus), key=lambda g: -occupied(g))


def occupied(gpu: GpuAnswer) -> float:
    """Share of time a card computes or waits for weights."""
    return gpu.utilization + gpu.load_share


def binding(model: ModelAnswer, answer: Recommendation) -> str:
    """Whether a model's replicas keep up, what gives way first, and how far off that is."""
    slack = f"{promised(model)}; p99 {seconds(model.p99_s)} of {seconds(model.slo_s)}"
    return f"{model.verdict}, bound by {model.bottleneck}. {limit(model, cards_of(model, answer))}{slack}."


def limit(model: ModelAnswer, cards: Sequence[GpuAnswer]) -> str:
    """How much is left of what binds, as a sentence; nothing where the latency itself says it."""
    if not cards:
        return ""
    card = cards[0]
    match model.bottleneck:
        case Bottleneck.COMPUTE | Bottleneck.BATCH_RANGE:
            return f"{card.id} would compute {share(card.offered_load)} of the time in full batches. "
        case Bottleneck.LOADING:
            return f"{card.id} waits for weights {share(card.load_share)} of the time. "
        case Bottleneck.MEMORY:
            fullest = min(cards, key=lambda g: g.memory_bytes - g.peak_memory_bytes)
            left = gigabytes(fullest.memory_bytes - fullest.peak_memory_bytes)
            return f"{fullest.id} has {left} of {gigabytes(fullest.memory_bytes)} left. "
    return ""


def promised(model: ModelAnswer) -> str:
    """How the promise stands: `99.31 [99.20, 99.43] % on time, 99 % promised, 20 % of the allowed misses left`."""
    left = budget_left(model)
    surely = "" if model.draws_kept else "surely "
    undecided = "missed" if model.slo_met is False else "not surely kept"
    rest = f"{share(left)} of the allowed misses {surely}left" if left >= 0 else undecided
    return f"{on_time(model)} % on time, {promise(model.slo_attainment_target)} promised, {rest}"


def sensitivity(plan: Plan, answer: Recommendation) -> list[str]:
    """Load, price and promise: how far each may move. From the figures of this plan, not from new replays."""
    return [*load_room(answer), *price_room(plan, answer), *promise_room(answer)]


def load_room(answer: Recommendation) -> list[str]:
    """How much more could be asked."""
    if not answer.gpus:
        return []
    card = max(answer.gpus, key=lambda g: g.offered_load + g.load_share)
    if not (taken := card.offered_load + card.load_share):
        return []
    grown = f"{1 / taken:.2f} times the demand would fill it" if taken < 1 else "more demand needs more GPUs"
    return [f"Load: {card.id} is loaded most, {share(taken)} in full batches: {grown}; promises break earlier."]


def price_room(plan: Plan, answer: Recommendation) -> list[str]:
    """How much dearer this may become before another wins."""
    others = [o for o in plan.alternatives if o.feasible and o.cost_usd_per_hour > answer.cost_usd_per_hour]
    if not others:
        return []
    other = min(others, key=lambda o: o.cost_usd_per_hour)
    margin = other.cost_usd_per_hour - answer.cost_usd_per_hour
    dearer = f"{dollars(margin)}/h ({share(margin / answer.cost_usd_per_hour)}) more"
    return [f"Price: the next best costs {dearer}, {other.label}. Up to that margin this one may become dearer."]


def promise_room(answer: Recommendation) -> list[str]:
    """How much could be promised with the same GPUs."""
    slow = min(answer.models, key=latency_left)
    tight = tightest(answer.models)
    room = latency_left(slow)
    latency = f"{slow.name} would still answer 99 % of what it answers within {seconds(slow.p99.high)}"
    return [
        f"Promise: {latency}, {share(room)} under its {seconds(slow.slo_s)}."
        if room > 0
        else f"Promise: no latency can be tightened; {slow.name} has none to spare.",
        *attainment_room(tight),
    ]


def attainment_room(tight: ModelAnswer) -> list[str]:
    """How much the tightest model could be promised; of draws of the cameras' phases, in how many it keeps its SLO."""
    if drawn := tight.draws_kept:
        kept = f"{tight.name} keeps its SLO in {share(drawn.mean, 1)} of the draws of the cameras' phases"
        return [f"Attainment: {kept}, in {share(drawn.low, 1)} at least."]
    return [f"Attainment: the most that {tight.name} could be promised is {share(tight.slo_attainment.low, 2)}."]


def evidence(answer: Recommendation) -> list[str]:
    """What the figures rest on."""
    return [
        f"{kind}: {names([m.name for m in answer.models if m.evidence is kind], 12)}"
        for kind in Evidence
        if any(m.evidence is kind for m in answer.models)
    ]
