"""Why a plan is what it is: what limits each model, what was refused and why, what would change the answer."""

from collections.abc import Sequence
from math import isfinite
from operator import attrgetter

from planner.model.plan import Bottleneck, GpuAnswer, ModelAnswer, Plan, Recommendation, Rejection, nearest
from planner.model.scenario import Objective
from planner.model.simulation import Simulation
from planner.show.document import Document, explanation
from planner.show.text.merging import reasons
from planner.show.text.plan import (
    budget_left,
    draws_of_p99,
    ground,
    headline,
    latency_left,
    on_time,
    room_of,
    rules_line,
    slo_line,
    tightest,
)
from planner.show.text.reasons import (
    PRECISIONS,
    PREDICTED,
    and_spares,
    assumption_lines,
    measure_next,
    outlooks,
    outlooks_title,
    precisions,
    predicted,
    refusals,
    refusals_title,
    rejection_text,
    uncertain,
    warning_texts,
    warnings_of,
)
from planner.show.text.resources import FULLEST, GIVES_WAY, budget_lines, resource_lines, times_what
from planner.units.writing import dollars, exact, gigabytes, names, seconds, share
from planner.words.candidates import candidate_name
from simulator.clock.metrics import Verdict
from simulator.grouping import grouped

BINDING = "What limits each model, tightest first"
"""Title of the limits of models."""
SAME_USD = 5e-7
"""Dollars an hour by which two prices that are the same differ at most: by rounding."""
SPARES_IN_PRICES = (
    "Prices of the answer and of the next best include their spares. Prices of rejected fleets include spares only"
    " where these are named."
)


def document(plan: Plan) -> Document:
    """The explanation, from the tightest model to the next measurement."""
    answer, near = plan.recommendation, nearest(plan)
    lead = [slo_line(answer), rules_line(plan.policies, answer.models)] if answer.models else []
    if plan.policies.survive and near:
        lead.append(SPARES_IN_PRICES)
    parts = {
        BINDING: bindings(answer),
        "How the SLO is split": budget_lines(answer),
        FULLEST: resource_lines(answer),
        "Swap, merge or buy": reasons(plan),
        nearest_title(near): [rejection_text(plan, no) for no in near[:1]],
        refusals_title(plan): refusals(plan, after=1),
        "What would change the answer": sensitivity(plan, answer) if answer.feasible else [],
        "Evidence": evidence(answer),
        outlooks_title(plan): outlooks(plan),
        PRECISIONS: precisions(plan),
        PREDICTED: predicted(plan),
        "Warnings": warning_texts(warnings_of(plan)),
        "Assumptions": assumption_lines(plan.assumptions),
        "Measure this next": measure_next(plan, plan.measure_next),
    }
    return explanation(plan.scenario, headline(plan), parts, lead)


def nearest_title(near: Sequence[Rejection]) -> str:
    """Whether the changes were replayed, or are estimates by what few replications showed."""
    if near and near[0].replayed:
        return "Nearest miss, and changes that replays bear out"
    return "Nearest miss, and changes that may help: estimates"


def bindings(answer: Recommendation | Simulation) -> list[str]:
    """The limit of each model."""
    return [f"{m.name}: {binding(m, answer)}" for m in sorted(answer.models, key=room_of)]


def occupied(gpu: GpuAnswer) -> float:
    """Share of time a GPU computes or waits for weights."""
    return gpu.utilization + gpu.load_share


def binding(model: ModelAnswer, answer: Recommendation | Simulation) -> str:
    """Whether a model's replicas keep up, what gives way first, and how far off that is."""
    by = occupied if model.bottleneck is Bottleneck.LOADING else attrgetter("offered_load")
    busiest = sorted((gpu for gpu in answer.gpus if gpu.id in model.gpus), key=by, reverse=True)
    slack = f"{standing(model)}; p99 {seconds(model.p99_shown_s)} of {seconds(model.slo_s)}{batches(model)}"
    return f"{model.verdict}, limited by {GIVES_WAY[model.bottleneck]}. {limit(model, busiest)}{slack}."


def batches(model: ModelAnswer) -> str:
    """`; batches of 1.9 on average, of 16 at most`; empty where none ran."""
    if not isfinite(model.mean_batch_size):
        return ""
    return f"; batches of {model.mean_batch_size:.1f} on average, of {model.batch_size} at most"


def limit(model: ModelAnswer, devices: Sequence[GpuAnswer]) -> str:
    """How much is left of what limits it, as a sentence; nothing where the latency itself says it."""
    if not devices:
        return ""
    device = devices[0]
    match model.bottleneck:
        case Bottleneck.COMPUTE | Bottleneck.BATCH_RANGE:
            busy = f"{share(device.offered_load)} of the time{slow_ends(device)}"
            return f"In full batches {device.id} would be busy {busy}. "
        case Bottleneck.SLO_BATCH:
            busy = f"{share(device.offered_load)} of the time{slow_ends(device)}"
            if model.verdict is Verdict.OVERLOADED and device.offered_load < 1:
                return f"In full batches {device.id} would be busy {busy}, but SLOs keep rounds too short for them. "
            return f"In the largest allowed {device.id} would be busy {busy}; longer SLOs allow larger ones. "
        case Bottleneck.LOADING:
            return f"{device.id} waits for weights {share(device.load_share)} of the time. "
        case Bottleneck.MEMORY:
            fullest = min(devices, key=lambda g: g.memory_bytes - g.peak_memory_bytes)
            left = gigabytes(fullest.memory_bytes - fullest.peak_memory_bytes)
            return f"{fullest.id} has {left} of {gigabytes(fullest.memory_bytes)} left. "
    return ""


def slow_ends(device: GpuAnswer) -> str:
    """The speeds behind the offered load of a GPU with models that nobody measured for the user."""
    return f", with {speeds} at their slow end" if (speeds := uncertain([device])) else ""


def standing(model: ModelAnswer) -> str:
    """How a model stands to its SLO: `99.31 [99.20, 99.43] % on time, SLO 99 %, 20 % of the allowed misses left`."""
    left = budget_left(model)
    if left >= 0:
        rest = f"{'' if model.draws_kept else 'at least '}{share(left)} of the allowed misses left"
    elif model.slo_met is False:
        rest = "missed"
    elif model.slo_met and model.draws_kept:
        rest = "met in enough replications; those that miss it count in this mean"
    else:
        rest = "not surely met"
    return f"{on_time(model)} % on time, SLO {exact(model.slo_attainment_target)}, {rest}"


def sensitivity(plan: Plan, answer: Recommendation) -> list[str]:
    """Load, price and SLO: how far each may move. From the figures of this plan, not from new replays."""
    return [*load_room(answer), *price_room(plan, answer), *slo_room(answer)]


def load_room(answer: Recommendation | Simulation) -> list[str]:
    """How much more could be asked."""
    bears = answer.demand_factor_max
    if not answer.gpus or not isfinite(bears):
        return []
    device = max(answer.gpus, key=lambda g: g.offered_load)
    room = f"{first_to_give(answer)}{grown(bears)}" if bears > 1 else "more load needs more GPUs"
    return [f"Load: {device.id} has the largest offered load, {share(device.offered_load)}{slow_ends(device)}; {room}."]


def first_to_give(answer: Recommendation | Simulation) -> str:
    """`compute limits it from 1.18 times this load, headroom kept; `, as the plan says it; empty where that is not
    known, or no sooner than queues grow."""
    known = [m for m in answer.models if isfinite(m.demand_factor_max)]
    if isinstance(answer, Simulation) or not known:
        return ""
    first = min(known, key=lambda m: m.demand_factor_max)
    if not 1 < round(first.demand_factor_max, 2) < answer.demand_factor_max:
        return ""
    what = GIVES_WAY[first.bottleneck]
    return f"{what} limits it from {first.demand_factor_max:.2f} {times_what(first)}, headroom kept; "


def grown(bears: float) -> str:
    """`queues stay stable up to 1.33 times this load ...`"""
    aside = "without headroom and SLOs, in full batches"
    return f"queues stay stable up to {bears:.2f} times this load ({aside})"


def price_room(plan: Plan, answer: Recommendation) -> list[str]:
    """How much dearer this may become before another wins."""
    others = [o for o in plan.alternatives if o.feasible and o.cost_usd_per_hour > answer.cost_usd_per_hour - SAME_USD]
    if not others or plan.policies.objective is not Objective.COST:
        return []
    other = min(others, key=lambda o: o.cost_usd_per_hour)
    margin = other.cost_usd_per_hour - answer.cost_usd_per_hour
    name = f"{candidate_name(other.candidate)}{and_spares(plan, other.candidate)}"
    if margin < SAME_USD:
        slow, here = (share(max(m.p99_shown_s / m.slo_s for m in one.models)) for one in (other, answer))
        kept = [one.replayed.draws_kept for one in (other, answer) if one.replayed and one.replayed.draws_kept]
        sure, *sure_here = (share(one.mean, 2) for one in kept) if kept else ("",)
        surely = f"every SLO is met with probability {sure} (here {sure_here[0]}), " if sure_here else ""
        set_beside = f"{surely}slowest p99 {slow} of its SLO (here {here})"
        as_much = f"Price: the next best, {name}, costs as much: {set_beside}"
        return [f"{as_much}. It is cheaper as soon as the price of this plan rises."]
    dearer = f"{dollars(margin)}/h ({share(margin / answer.cost_usd_per_hour)}) more"
    return [f"Price: the next best, {name}, costs {dearer}. This plan stays cheaper until its price rises by as much."]


def slo_room(answer: Recommendation | Simulation) -> list[str]:
    """SLOs that the same GPUs would meet."""
    slow = min(answer.models, key=latency_left)
    tight = tightest(answer.models)
    room = latency_left(slow)
    asked = draws_of_p99(answer) if slow.p99_in_draws_s is not None else ""
    is_exact = asked or seconds(slow.p99.high) == seconds(slow.p99_s)
    at_most = "" if is_exact else f", {seconds(slow.p99.high)} at most"
    in_draws = f", not exceeded in {asked} of replications" if asked else ""
    latency = f"p99 of {slow.name} is {seconds(slow.p99_shown_s)}{at_most}{in_draws}"
    return [
        f"Latency: {latency}; that is {share(room)} under its SLO of {seconds(slow.slo_s)}."
        if room > 0
        else f"Latency: no latency can be tightened; {slow.name} has none to spare.",
        *attainment_room(tight),
    ]


def attainment_room(tight: ModelAnswer) -> list[str]:
    """The highest SLO that the tightest model would meet, or the share of replications in which it is met."""
    if drawn := tight.draws_kept:
        kept = f"{tight.name} meets its SLO in {share(drawn.mean, 1)} of replications"
        return [f"Attainment: {kept}, in {share(drawn.low, 1)} at least."]
    return [f"Attainment: the highest that {tight.name} would meet is {share(tight.slo_attainment.low, 2)}."]


def evidence(answer: Recommendation | Simulation) -> list[str]:
    """What the figures rest on, strongest first; of speeds apart where memory or weight loading rests on less."""
    by_kind = grouped((ground(model), model.name) for model in sorted(answer.models, key=lambda m: m.evidence.rank))
    return [f"{kind}: {names(models, 12)}" for kind, models in by_kind.items()]
