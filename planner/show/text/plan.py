"""Plans and simulations in words: the answer in a line, whether SLOs are met, how sure that is, under which rules."""

import hashlib
import math
from collections.abc import Iterator, Sequence

from planner.model.parts.merging import Merging
from planner.model.parts.rules import AccuracyRule
from planner.model.plan import (
    Bottleneck,
    Drawn,
    GpuAnswer,
    Instances,
    Interval,
    ModelAnswer,
    OfOneKind,
    Plan,
    Policies,
    Recommendation,
    Rejection,
    Replayed,
    Searched,
    is_as_sure,
)
from planner.model.replications import RISK_SHARE, least_share
from planner.model.scenario import Objective
from planner.model.simulation import Simulation
from planner.model.statement import Code
from planner.show.text.reasons import (
    OLD_PRICES,
    and_spares,
    at_slow_end,
    days_old,
    least_price,
    rejected_in_all,
    saving,
    uncertain,
    warning_texts,
    warnings_of,
)
from planner.units.writing import counted, dollars, exact, gigabytes, names, percent, seconds, share, span
from planner.words.candidates import candidate_name
from simulator.world.profile import NOT_MEASURED, Evidence, speed_evidence_of

NOTED_LOSS = 0.01
"""Share of requests given up from which fewer than 99 % are answered: of all there is no 99th percentile."""


def fleet(instances: Sequence[Instances]) -> str:
    """`3 x NC6s_v3 (V100, azure) + 1 x p3.8xlarge (4 x V100, aws) and 1 spare p3.8xlarge for $12.24/h`."""
    serving = " + ".join(f"{one.count} x {machine(one)}" for one in instances)
    return f"{serving}{spares(instances)}"


def spares(instances: Sequence[Instances]) -> str:
    """` and 1 spare for $0.300/h`, of several types ` and 1 spare t4-box and 1 spare l4-box for $0.850/h`; or empty."""
    ready = [one for one in instances if one.spares]
    if not ready:
        return ""
    alone = len(instances) == 1
    named = [counted(one.spares, "spare") if alone else f"{one.spares} spare {one.instance}" for one in ready]
    cost = sum(one.spares * one.usd_per_hour for one in ready)
    return f" and {' and '.join(named)} for {dollars(cost)}/h"


def machine(one: Instances) -> str:
    """`p3.8xlarge (4 x V100, aws us-east-1)`."""
    gpus = one.gpu if one.gpu_count == 1 else f"{one.gpu_count} x {one.gpu}"
    where = " ".join(part for part in (one.provider, one.region) if part)
    return f"{one.instance} ({', '.join(part for part in (gpus, where) if part)})"


def price(answer: Recommendation) -> str:
    """`$9.18/h, $6,701/month`."""
    return f"{dollars(answer.cost_usd_per_hour)}/h, {dollars(answer.cost_usd_per_month)}/month"


def dated(plan: Plan) -> str:
    """`prices of 2026-07-20, 129 days old, without spares`; the age only where a price is older than its provider's
    usually become."""
    without = ", without spares" if lacks_spares(plan) else ""
    if not plan.prices_as_of:
        return f"your own prices{without}"
    is_old = any(one.what.code in OLD_PRICES for one in warnings_of(plan))
    age = f", {counted(days_old(plan), 'day')} old" if is_old else ""
    return f"prices of {plan.prices_as_of}{age}{without}"


def lacks_spares(plan: Plan) -> bool:
    """Whether machines may be away, and nobody looked for spares of the fleet that is shown, for it misses an SLO."""
    best = plan.recommendation
    return plan.policies.survive > 0 and not best.feasible and not any(one.spares for one in best.instances)


def headline(plan: Plan) -> str:
    """The answer in one line."""
    answer = plan.recommendation
    stopped = "Interrupted before any fleet met every SLO" if plan.interrupted_before else ""
    if not answer.models:
        return f"{stopped or 'No feasible plan'}: {rejected_in_all(plan)}."
    bought, evidence = fleet(answer.instances), not_measured(answer.models)
    if answer.feasible and not plan.interrupted:
        beginning = f"{evidence.capitalize()}: " if evidence else ""
        return f"{beginning}{bought}: {price(answer)} ({dated(plan)})"
    known = f"{dated(plan)}; {evidence}" if evidence else dated(plan)
    line = f"is {bought} at {price(answer)} ({known})."
    if stopped:
        return f"{stopped}. The closest so far {line}"
    if plan.interrupted:
        seen = "" if answer.feasible else ", by a few replays only,"
        return f"Interrupted. The cheapest so far{seen} {line}"
    return f"No feasible plan. The closest {line}"


def not_measured(models: Sequence[ModelAnswer]) -> str:
    """`predicted, not measured`, the ground of some speed; empty where the user measured all."""
    ground = speed_evidence_of(model.speed_evidence for model in models if model.speed_evidence)
    return f"{ground}, not measured" if ground in NOT_MEASURED else ""


def ground(model: ModelAnswer) -> str:
    """`measured`; `speed published, memory or weight loading predicted`, where these rest on less."""
    speed, weakest = model.speed_evidence, model.evidence
    if speed in (None, weakest):
        return str(weakest)
    if speed is Evidence.PREDICTED:
        return f"speed predicted, evidence {weakest}"
    if weakest in (Evidence.PREDICTED, Evidence.ASSUMED):  # no speed is, or that would be named
        return f"speed {speed}, memory or weight loading {weakest}"
    return str(weakest)


def since(before: Plan, after: Plan) -> str:
    """What a plan that was made again has changed, in one line."""
    old, new = before.recommendation, after.recommendation
    if (old.feasible, old.instances) == (new.feasible, new.instances):
        return "The same GPUs as before."
    more = new.cost_usd_per_hour - old.cost_usd_per_hour
    what = f"{dollars(abs(more))}/h {'more' if more > 0 else 'less'}. " if more else ""
    return f"{what if math.isfinite(more) else ''}Before: {headline(before)}"


def budget_left(model: ModelAnswer) -> float:
    """Share of the allowed misses surely left: SLO 99 %, at least 99.6 % came: 0.6. Negative: too many.

    On the mean, where cameras draw phases: then the share of draws says how sure that is.
    """
    seen, target = model.slo_attainment, model.slo_attainment_target
    left = (seen.low if model.draws_kept is None else seen.mean) - target
    allowed = 1 - target
    if not math.isfinite(left):
        return -math.inf
    return left / allowed if allowed > 0 else left


def latency_left(model: ModelAnswer) -> float:
    """Share of the SLO's latency that the 99th percentile leaves: SLO 100 ms, at most 97 ms: 0.03."""
    return 1 - model.p99_high_s / model.slo_s if math.isfinite(model.p99_high_s) else -math.inf


def room_of(model: ModelAnswer) -> tuple[float, float, float]:
    """How tight a model is: first in draws that keep its SLO, then in misses and latency."""
    kept = model.draws_kept.mean if model.draws_kept else 1.0
    return kept, budget_left(model), latency_left(model)


def tightest(models: Sequence[ModelAnswer]) -> ModelAnswer:
    """The model with the least room."""
    return min(models, key=room_of)


def on_time(model: ModelAnswer) -> str:
    """`99.31 [99.20, 99.43]`, percent with its 95 % interval."""
    a = model.slo_attainment
    return f"{percent(a.mean)} [{percent(a.low)}, {percent(a.high, up=True)}]"


def batches(model: ModelAnswer) -> str:
    """`32`; of a pipeline `detect 18, crop 32`, the stages that run models in their order, where these differ."""
    each = {stage.name: stage.batch_size for stage in model.stages if stage.replicas}
    if len(sizes := set(each.values())) > 1:
        return ", ".join(f"{name} {size}" for name, size in each.items())
    return str(sizes.pop() if sizes else model.batch_size)


def p99(model: ModelAnswer) -> str:
    """`81.2 ± 0.4 / 100 ms`."""
    half_width_s = (model.p99.high - model.p99.low) / 2 if model.p99_in_draws_s is None else None
    alike = (model.p99_shown_s >= 1) == (model.slo_s >= 1)
    got = seconds(model.p99_shown_s, half_width_s, unit=not alike)
    return f"{got} / {seconds(model.slo_s)}"


def slo_line(answer: Recommendation | Simulation) -> str:
    """How the SLOs stand, and for the tightest model by how much."""
    models = answer.models
    missed = [m for m in models if m.slo_met is False]
    undecided = [m for m in models if m.slo_met is None]
    tight = standing(tightest(missed or undecided or models), answer.replayed)
    all_models = counted(len(models), "model")
    if missed:
        worst = ", worst by " if len(missed) > 1 else ": "
        among = f"{len(missed)} of {all_models}{worst}" if len(models) > 1 else ""
        return f"SLO MISSED by {among}{tight}."
    if undecided:
        return f"SLO UNDECIDED: {len(undecided)} of {all_models}. Closest to its SLO: {tight}."
    return f"{doubt(answer) or f'SLO met: {len(models)} of {all_models}'}. Closest to its SLO: {tight}."


def weak_line(models: Sequence[ModelAnswer]) -> str:
    """`Figures of 2 of 6 models are predicted or assumed.`; empty where all are measured, published or fitted."""
    weak = [m for m in models if m.predicted or m.evidence in (Evidence.PREDICTED, Evidence.ASSUMED)]
    kinds = {"predicted" if m.predicted else f"partly {m.evidence}" for m in weak}
    whose = "all models" if len(weak) == len(models) else f"{len(weak)} of {counted(len(models), 'model')}"
    return f"Figures of {whose} are {' or '.join(sorted(kinds, reverse=True))}." if weak else ""


def doubt(answer: Recommendation | Simulation) -> str:
    """Why SLOs that each model meets are not sure; empty where they are."""
    if answer.replayed and too_few_draws(answer.replayed):
        return "SLO UNDECIDED: enough replications meet each SLO, too few meet all"
    match answer:
        case Recommendation(unready=True):
            return "SLO NOT SURE: it is met while all machines run, but no spares may be bought"
        case Recommendation(searched=Searched.SCREENED):
            return "SLO NOT SURE: a few replays met it, but it was not confirmed"
    return "" if answer.feasible else "SLO NOT SURE: replays met it, but the offered load leaves no headroom"


def standing(model: ModelAnswer, replayed: Replayed | None) -> str:
    """`yolov3, 99.31 [99.20, 99.43] % on time (SLO 99 %)`, and what else is to be said of it."""
    target = exact(model.slo_attainment_target)
    shares = f"{model.name}, {on_time(model)} % on time (SLO {target})"
    if model.attainment_max is not None and model.slo_attainment.mean >= model.slo_attainment_target:
        most = f"at most {percent(model.attainment_max)} % on time in the long run (SLO {target})"
        return f"{model.name}, {most}: machines fail too often or for too long. These replays show {on_time(model)} %"
    if model.verdict != "stable":
        return f"{shares}; it is {model.verdict}"
    if replayed and model.draws_kept and math.isfinite(model.draws_kept.mean):
        decides = ", the share that counts" if beside_interval(model) and replayed.draws_mixed == 1 else ""
        return f"{shares}, met in {percent(model.draws_kept.mean)} % of replications{decides}"
    return shares


def beside_interval(model: ModelAnswer) -> bool:
    """Whether draws decide on an SLO otherwise than the low end of the share on time would."""
    is_above = model.slo_attainment.low >= model.slo_attainment_target
    return model.draws_kept is not None and model.slo_met is not None and model.slo_met is not is_above


def too_few_draws(replayed: Replayed) -> bool:
    """True where the draws that keep every SLO are not as many as are asked, or not surely as many as must."""
    together, asked = replayed.draws_kept, replayed.draws_asked
    if together is None or asked is None or replayed.draws_mixed > 1:
        return False
    return together.mean < asked or together.low < (least_share(asked) if Drawn.SPEEDS in replayed.drawn else asked)


def asked_for(kept: Interval, asked: float) -> str:
    """`95 % was asked for`, and how low its low end may be where it lies below that."""
    may_be = f", with a low end of at least {exact(least_share(asked))}" if kept.low < asked <= kept.mean else ""
    return f"{exact(asked)} was asked for{may_be}"


def drawn(replayed: Replayed, models: Sequence[ModelAnswer]) -> str:
    """`camera phases and predicted speeds`: what each replication draws anew; of measured speeds their sessions."""
    called = {Drawn.PHASES: "camera phases", Drawn.SPEEDS: uncertain(models) or "speeds of sessions"}
    return " and ".join(called[what] for what in replayed.drawn)


def draws_line(answer: Recommendation | Simulation) -> list[str]:
    """How many replications meet every SLO, where these draw phases of cameras or speeds."""
    seen = answer.replayed
    if seen is None or seen.draws_kept is None or seen.draws_asked is None:
        return []
    if seen.draws_mixed > 1:
        return [f"Camera clocks drift, so each SLO counts over {seen.draws_mixed:,} draws of their phases."]
    kept = seen.draws_kept
    if not math.isfinite(kept.mean):
        return ["In no replication was a request judged: set a longer `horizon`."]
    draws = seen.draws or answer.replications
    count = round(kept.mean * draws)
    if isinstance(answer, Simulation) and answer.policies.failures:
        sure = f"{percent(kept.mean)} % [{percent(kept.low)}, {percent(kept.high, up=True)}]"
        return [
            f"{count:,} of {draws:,} replications meet every SLO, each with its own {drawn(seen, answer.models)} and "
            f"the outages that fall into it: {sure} of such stretches of {span(seen.horizon_s)} do, and "
            f"{asked_for(kept, seen.draws_asked)}. That is no probability for the long run."
        ]
    if Drawn.SPEEDS in seen.drawn:
        return [
            f"Every SLO holds with probability {percent(kept.mean)} % [{percent(kept.low)}, "
            f"{percent(kept.high, up=True)}]; {asked_for(kept, seen.draws_asked)}. {count:,} of {draws:,} "
            f"replications meet every SLO; each draws its own {drawn(seen, answer.models)}."
        ]
    return [
        f"A site keeps the camera phases that it starts with. Of {counted(draws, 'draw')} of them "
        f"{count} meet every SLO, so at least {percent(kept.low)} % of sites do; {exact(seen.draws_asked)} was asked "
        "for."
    ]


def replayed_line(answer: Recommendation | Simulation) -> list[str]:
    """How long was replayed, and why that suffices."""
    seen = answer.replayed
    if seen is None:
        return []
    line = f"Replayed: {counted(answer.replications, 'replication')} of {span(seen.horizon_s)}"
    if seen.draws_inferred:
        replayed = answer.replications - seen.draws_inferred
        line = f"Replayed: {replayed:,} of {counted(answer.replications, 'replication')}, {span(seen.horizon_s)} each"
    if seen.draws_clear:
        line += f", {seen.draws_clear:,} of them only until their result was clear"
    if seen.draws_inferred:
        line += "; slower and faster ones decide the others"
    if seen.repeat_s:
        line += f"; the pattern of all cameras repeats every {span(seen.repeat_s)}"
    elif seen.settling_s:
        line += f"; queues settle within {seconds(seen.settling_s)} after a burst"
    bears = answer.demand_factor_max
    if math.isfinite(bears):
        speeds = uncertain(answer.models)
        slow = f", with {speeds} at their slow end" if speeds else ""
        line += f". Queues stay stable up to {bears:.2f} times this load (without headroom and SLOs{slow})"
    return [f"{line}."]


def sure_line(replications: int, requests: int) -> str:
    """How much was replayed, and how far its intervals may be trusted."""
    replayed = f", {counted(requests, 'request')} simulated" if requests else ""
    sure = "Intervals: 95 % confidence (share on time: over all looks together)"
    return f"{sure}, {counted(replications, 'replication')}{replayed}."


def rules_line(policies: Policies, models: Sequence[ModelAnswer]) -> str:
    """The rules that were replayed, in the words of the scenario; those of swapping where a model is swapped."""
    p = policies
    aging = f" (half-life {span(p.half_life_s)})" if p.half_life_s and p.accuracy is AccuracyRule.REUSE_LAST else ""
    rules = [f"drop {p.drop}", f"accuracy {p.accuracy}{aging}", f"memory {p.memory}"]
    if any(m.mode == "swapped" for m in models):
        rules += [f"eviction {p.eviction}", "prefetch" if p.prefetch else "no prefetch"]
        rules += ["from disk" if p.disk else "pinned" if p.pinned else "not pinned"]
    rules += [f"scheduling {p.scheduling}", f"routing {p.routing}"]
    rules += ["padded batches"] if p.padded else []
    rules += [f"headroom {exact(p.headroom)}", f"horizon {span(p.horizon_s)}", f"warm-up {span(p.warmup_s)}"]
    rules += [failures(p)]
    return f"Rules: {', '.join(rules)}."


def failures(policies: Policies) -> str:
    """`no failures`, or how often a machine fails and for how long."""
    if (often := policies.failures) is None:
        return "no failures"
    return f"failures every {span(often.mean_time_between_s)} for {span(often.recovery_s)}"


def bound_line(answer: Recommendation, rejections: Sequence[Rejection], headroom: float, survive: int = 0) -> str:
    """How much could still be saved at most, and for which plans that is proven."""
    bound = answer.lower_bound_usd_per_hour
    if math.isnan(bound):
        return "No lower bound is known at these prices: only fleets that were replayed were compared."
    basis = bound_basis(answer, rejections)
    rules = f"with {exact(headroom)} headroom, batch sizes of the profiles, one batch at a time on a GPU"
    free = answer.lower_bound_full_usd_per_hour
    least = least_price(answer, survive)
    less = f" Without headroom the bound is {dollars(free)}/h." if free < bound * (1 - 1e-6) else ""
    if not saving(answer):
        cheapest = "Proven cheapest" if proven(answer) else "Cheapest"
        nothing = f"no placement under {least} can do this"
        return f"{cheapest}{basis}{assumed(answer)}, {rules}: {nothing}.{less}"
    most = f"{dollars(saving(answer))}/h ({share(saving(answer) / answer.cost_usd_per_hour, 1)})"
    return (
        f"Cheapest found{basis}, {rules}. Lower bound: {least}, with full batches and no waiting. Not every fleet "
        f"between the two was tried: a better one saves at most {most}.{less}"
    )


def least_of_objective(plan: Plan) -> str:
    """What was minimized in place of the price, and which of the fleets that were replayed costs least."""
    best = plan.recommendation
    found = {
        Objective.ENERGY: f"Least power of the fleets that were replayed, {best.power_w:.0f} W",
        Objective.GPUS: f"Fewest GPUs of the fleets that were replayed, {best.gpu_count}",
    }
    cheapest = min(plan.alternatives, key=lambda one: one.cost_usd_per_hour if one.feasible else math.inf, default=best)
    if not cheapest.feasible or cheapest.cost_usd_per_hour >= best.cost_usd_per_hour:
        return f"{found[plan.policies.objective]}; none of them costs less."
    name = f"{candidate_name(cheapest.candidate)}{and_spares(plan, cheapest.candidate)}"
    less = f"{name} costs least, {dollars(cheapest.cost_usd_per_hour)}/h"
    return f"{found[plan.policies.objective]}; of those {less}."


def proven(answer: Recommendation) -> bool:
    """Whether the search stopped only where nothing cheaper was left: not where speeds are in doubt."""
    seen = answer.replayed
    return not answer.predicted and not (seen and Drawn.SPEEDS in seen.drawn)


def bound_basis(answer: Recommendation, rejections: Sequence[Rejection]) -> str:
    """Figures that the bound rests on, where these are not profiles of all GPUs."""
    if speeds := uncertain(answer.models):
        asked = answer.replayed.draws_asked if answer.replayed else None
        return f" with {speeds} at their slow {exact(1 - RISK_SHARE * (1 - asked))} end" if asked else ""
    if any(no.bottleneck is Bottleneck.PROFILE for no in rejections):
        return " on GPUs that have profiles"
    return ""


def assumed(answer: Recommendation) -> str:
    """Says so where no time is predicted, but some figure is assumed, or some memory predicted."""
    if answer.predicted:
        return ""
    # Of assumed speeds that are drawn, whoever says this says so already.
    models = [one for one in answer.models if not (one.uncertain and one.speed_evidence is Evidence.ASSUMED)]
    known = {model.evidence for model in models}
    if Evidence.ASSUMED in known:
        return " by figures that are partly assumed"
    return " with memory as layers predict it" if Evidence.PREDICTED in known else ""


TILDE = (
    "~: predicted; nobody measured this model on this GPU. Each replication draws a speed from the prediction's band."
)


def predicted_line(answer: Recommendation | Simulation) -> list[str]:
    """What figures are that rest on predictions, and which p99 is shown; nothing where nothing is drawn."""
    p99 = not_exceeded(draws_of_p99(answer))
    tilde = TILDE if any(model.predicted for model in answer.models) else ""
    return [text] if (text := " ".join(filter(None, (tilde, p99)))) else []


def draws_of_p99(answer: Recommendation | Simulation) -> str:
    """`95 %`: replications in which p99 is no higher than what is shown; empty where that is a mean of all."""
    return asked_of_p99(answer.models, answer.replayed.draws_asked if answer.replayed else None)


def asked_of_p99(models: Sequence[ModelAnswer], draws_asked: float | None) -> str:
    """The same of models, where so large a share of replications must meet every SLO."""
    drawn = any(model.p99_in_draws_s is not None for model in models)
    return exact(draws_asked) if drawn and draws_asked is not None else ""


def not_exceeded(asked: str) -> str:
    """`p99: not exceeded in 95 % of replications.`; empty where it is a mean of all."""
    return f"p99: not exceeded in {asked} of replications." if asked else ""


def given_up(models: Sequence[ModelAnswer]) -> str:
    """Why more are late than the 99th percentile tells: what is given up has no latency."""
    shares = {m.name: m.dropped_fraction for m in models if m.dropped_fraction >= NOTED_LOSS}
    if not shares:
        return ""
    most = max(shares.values())
    return f"p99: of answered requests. Up to {percent(most, up=True)} % of {names([*shares])} are dropped."


def certainty(answer: Recommendation, plan: Plan) -> list[str]:
    """How much better another could be, how sure the answer is, and under which rules."""
    sure = [
        *draws_line(answer),
        *predicted_line(answer),
        *replayed_line(answer),
        sure_line(answer.replications, answer.requests),
        rules_line(plan.policies, answer.models),
    ]
    rules = plan.policies
    bound = [bound_line(answer, plan.rejections, rules.headroom, rules.survive)] if answer.feasible else []
    if answer.feasible and rules.objective is not Objective.COST:
        bound = [least_of_objective(plan)]
    return [*costs_line(answer), *bound, *sure]


def costs_line(answer: Recommendation) -> list[str]:
    """The cost of a request and a camera's stream; and a right answer, where some are wrong."""
    unit = answer.unit_costs
    if unit is None or not math.isfinite(unit.per_million_requests):
        return []
    parts = [f"{dollars(unit.per_million_requests)} per million requests"]
    if unit.per_million_right > 1.001 * unit.per_million_requests:
        parts.append(f"{dollars(unit.per_million_right)} per million right answers")
    if unit.per_stream_month is not None:
        parts.append(f"{dollars(unit.per_stream_month)} per camera stream and month")
    return [f"Unit cost: {', '.join(parts)}."]


def told_apart(models: Sequence[ModelAnswer], policies: Policies) -> bool:
    """True where accuracy says more than the share on time: not where frames in time are right and others wrong."""
    return any(percent(m.accuracy.under(policies)) != percent(m.slo_attainment.mean) for m in models)


def tilde(figures: ModelAnswer | GpuAnswer | Recommendation | OfOneKind) -> str:
    """`~` before figures that rest on a prediction."""
    return "~" if figures.predicted else ""


def or_more(found: Recommendation | OfOneKind, best: Recommendation) -> str:
    """`+` after figures of a fleet that is less sure than the answer: to be as sure may take more."""
    return "" if is_as_sure(found, best) else "+"


def simulation_headline(run: Simulation) -> str:
    """The replay in one line."""
    speed = run.requests / run.wall_s if run.wall_s > 0 else 0
    return f"{simulated(run)} in {run.wall_s:.2f} s ({speed:,.0f}/s)"


def simulated(run: Simulation) -> str:
    """The GPUs, their cost and the requests, without the time that the replay took."""
    kinds = [gpu.kind for gpu in run.gpus]
    devices = " + ".join(f"{kinds.count(kind)} x {kind}" for kind in dict.fromkeys(kinds))
    cost = "" if run.cost_usd_per_hour is None else f" at {dollars(run.cost_usd_per_hour)}/h"
    merged = "" if run.merging is Merging.NONE else f", merged {run.merging}"
    evidence = not_measured(run.models)
    beginning = f"{evidence.capitalize()}: " if evidence else ""
    return f"{beginning}{devices}{cost}{merged}: {counted(run.requests, 'request')} replayed"


def idle_line(run: Simulation) -> str:
    """`26 of 39 GPUs hold no model and do nothing.`, or that only their engines for video, cores and links work; empty
    where all hold a model."""
    idle = [gpu.kind for gpu in run.gpus if not gpu.models]
    if not idle:
        return ""
    holds, does = ("holds", "does") if len(idle) == 1 else ("hold", "do")
    beside = {one.gpu for one in run.resources if one.kind in STATIONS and one.load > 0}
    what = f"and {does} nothing"
    if beside.intersection(idle):
        what = f"and {'serves' if len(idle) == 1 else 'serve'} pipelines by engines for video, cores or links alone"
    return f"{len(idle)} of {counted(len(run.gpus), 'GPU')} {holds} no model {what}: the usual placement needs no more."


STATIONS = frozenset({Bottleneck.DECODE, Bottleneck.ENCODE, Bottleneck.HOST_CORES, Bottleneck.COPY})
"""Resources of a GPU's machine and of its engines, besides its arithmetic."""


def outages_line(run: Simulation) -> str:
    """How few outages the replays are expected to hold, and what shows more; empty where they are enough."""
    return " ".join(warning_texts([one for one in run.warnings if one.what.code in OUTAGES]))


OUTAGES = frozenset({Code.FEW_OUTAGES, Code.RARE_OUTAGES})
"""Warnings that stand beside the verdict."""


def sure_of(run: Simulation) -> list[str]:
    """How sure a replay is, and under which rules."""
    sure = [sure_line(run.replications, 0), rules_line(run.policies, run.models)]
    return [*draws_line(run), *predicted_line(run), *replayed_line(run), *sure]


def in_unit(value: float, unit: str) -> str:
    """A figure of a rejected candidate, as people read it."""
    match unit:
        case "s":
            return seconds(value)
        case "bytes":
            return gigabytes(value)
        case "fraction":
            return share(value, 1)
        case "USD/h":
            return f"{dollars(value)}/h"
        case "":
            return ""
    return f"{value:g} {unit}"


def scenario_note(plan: Plan) -> str:
    """A doubt, where the text is not the one that was planned."""
    if not plan.scenario_text:
        return "The plan does not hold its scenario: it was made by an older version."
    text = "\n--set ".join([plan.scenario_text, *plan.scenario_overrides])
    same = hashlib.sha256(text.encode()).hexdigest() == plan.scenario_sha256
    return "" if same else "This text does not have the SHA-256 of the scenario that was planned: it was changed since."


def provenance(plan: Plan) -> Iterator[tuple[str, str]]:
    """Versions, seed and hashes that made the answer."""
    best = plan.recommendation
    yield "made", plan.created_at
    yield from plan.versions.items()
    yield "seed", str(plan.seed)
    yield "scenario SHA-256", plan.scenario_sha256
    yield "schema", plan.schema
    if best.models and not math.isnan(best.lower_bound_usd_per_hour):
        below = f"{dollars(saving(best))}/h below the answer" if saving(best) else "the answer itself"
        slow = at_slow_end(best.models)
        yield "lower bound on cost", f"{dollars(best.lower_bound_usd_per_hour)}/h{slow}, {below}"
    if plan.prices_as_of:
        yield "oldest price", plan.prices_as_of
