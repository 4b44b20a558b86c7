"""A plan in brief, for a terminal: the answer, its models, each kind of GPU, what is uncertain, the next step."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf, isfinite

from planner.model.choices import PriceKind
from planner.model.plan import Bottleneck, Drawn, ModelAnswer, Plan, Recommendation
from planner.model.scenario import Objective
from planner.model.statement import Code, Statement
from planner.show.document import Block, Document, Items, Rows, Section, Table, Text, Tone
from planner.show.documents.plan import (
    NO_GPU_NEEDED,
    PRICE_TITLES,
    kind_columns,
    kind_notes,
    missing_kinds,
    without_gpu,
)
from planner.show.documents.replay import SLO_WORDS, drawn, ways_of_running
from planner.show.documents.uncertain import doubts
from planner.show.terminal import terminal
from planner.show.text import plan as prose
from planner.show.text import reasons
from planner.show.text.merging import reasons as merging_reasons
from planner.show.text.resources import FULLEST, GIVES_WAY, resource_lines, times_what
from planner.units.writing import Screen, begin, counted, dollars, exact, names, per_second, percent, seconds, share
from planner.words.statements import assumption, warning
from simulator.grouping import grouped

REFUSALS_SHOWN = 3
RESOURCES_SHOWN, HALF = 2, 0.5
WAYS_SHOWN = 4
TILDE = "~: predicted; nobody measured this model on this GPU"
MORE = "More with -v."
RESERVED = {PRICE_TITLES[PriceKind.RESERVED_1Y], PRICE_TITLES[PriceKind.RESERVED_3Y]}


def brief(plan: Plan, screen: Screen) -> str:
    """A plan as its reader needs it first; `documents.plan` has the rest."""
    return terminal(document(plan), screen)


def document(plan: Plan) -> Document:
    """Some 25 lines where eight models have a feasible plan."""
    best = plan.recommendation
    feasible = best.feasible
    half_full = sum(one.used > HALF for one in best.resources)
    return Document(
        name=plan.scenario or "Plan",
        headline=prose.headline(plan),
        lead=lead(plan) if best.models else [Text(savings(plan))],
        sections=[
            Section("", models(best, plan.assumptions)),
            Section(FULLEST, [Items(resource_lines(best)[: max(RESOURCES_SHOWN, half_full)])]),
            Section("Swap, merge or buy", [Items(merging_reasons(plan), shown=WAYS_SHOWN, rest=MORE)]),
            Section("Each kind of GPU alone", kinds(plan)),
            Section(
                reasons.refusals_title(plan),
                [] if feasible else [Items(reasons.refusals(plan), shown=REFUSALS_SHOWN, rest=MORE)],
            ),
            Section("What is uncertain", [doubts(plan)], tone=Tone.WARN),
            Section("Next", [Items(next_steps(plan))]),
        ],
    )


def lead(plan: Plan) -> list[Block]:
    """Whether SLOs are met, how probably, and what could still be saved."""
    best = plan.recommendation
    sure = Tone.WARN if prose.weak_line(best.models) else Tone.GOOD
    tone = sure if best.feasible else Tone.BAD
    none_needed = NO_GPU_NEEDED if without_gpu(plan) else ""
    return [
        Text(verdict(best), tone),
        Text(none_needed),
        Text(savings(plan)),
        Text(spread(best)),
    ]


def verdict(best: Recommendation) -> str:
    """`Every SLO is met (8 models) with probability 97.50 % [94.20, 99.10], over predicted speeds; 95 % was asked
    for.`"""
    if not best.feasible:
        return prose.slo_line(best)
    met = f"Every SLO is met ({counted(len(best.models), 'model')})"
    seen = best.replayed
    if seen is None or seen.draws_kept is None or seen.draws_asked is None or seen.draws_mixed > 1:
        return f"{met}. Closest to its SLO: {prose.standing(prose.tightest(best.models), None)}."
    kept = seen.draws_kept
    over = prose.drawn(seen, best.models)
    if Drawn.SPEEDS not in seen.drawn:  # a share of a few sites is no probability of the next one
        sure = f"{percent(kept.low)} % at least"
        return f"{met} with probability {sure}, over {over}; {exact(seen.draws_asked)} was asked for."
    sure = f"{percent(kept.mean)} % [{percent(kept.low)}, {percent(kept.high, up=True)}]"
    return f"{met} with probability {sure}, over {over}; {prose.asked_for(kept, seen.draws_asked)}."


def spread(best: Recommendation) -> str:
    """Says so where a fleet is rented from several providers: between these, requests cross the open network."""
    providers = sorted({one.provider for one in best.instances if one.provider})
    if len(providers) < 2:
        return ""
    return f"Rented from {names(providers)}: `--set 'buy.providers=[{providers[0]}]'` asks for one alone."


def savings(plan: Plan) -> str:
    """How much cheaper another plan could be at most, or what any costs at least; empty where that is not known."""
    best = plan.recommendation
    bound = best.lower_bound_usd_per_hour
    least = reasons.least_price(best, plan.policies.survive)
    speeds = reasons.uncertain(best.models)
    slow, with_speeds = f", {speeds} at their slow end" if speeds else "", reasons.at_slow_end(best.models)
    full = f"Lower bound: no fleet under {least} can do this ({reasons.full_batches(plan.policies.headroom)}{slow})"
    if not best.feasible:
        return f"{full}." if bound > reasons.LEAST_PAID_USD else ""
    if plan.policies.objective is not Objective.COST:
        return prose.least_of_objective(plan)
    if bound != bound:
        return ""
    if left := reasons.saving(best):
        most = f"{dollars(left)}/h ({share(left / best.cost_usd_per_hour)})"
        return f"{full}. A better plan saves at most {most}."
    proven = f"Proven{prose.assumed(best)}: no cheaper fleet can do this."
    return proven if prose.proven(best) else f"No cheaper fleet can do this{with_speeds}."


COLUMNS_SAID = "GPUs: how many the model runs on. Batch/most: requests of a batch, on average and at most."


def models(best: Recommendation, assumed: Sequence[Statement] = ()) -> list[Block]:
    """A row for each model; what is alike of all is said below."""
    rows = Rows(best.models)
    columns = [
        rows.words("model", lambda m: f"{m.name} {prose.tilde(m)}".strip()),
        rows.figures("GPUs", lambda m: str(len(m.gpus))),
        rows.figures("batch/most", batch, "mean_batch_size"),
        rows.words("mode", "mode", once="{}"),
        *ways_of_running(rows),
        rows.figures("p99 / SLO", p99),
        rows.figures("on time / SLO", on_time),
        rows.shown("asked", "offered_rps", per_second),
    ]
    if any(m.slo_met is not True for m in best.models):
        columns.append(rows.words("SLO", lambda m: SLO_WORDS[m.slo_met]))
    if any(m.verdict != "stable" for m in best.models):
        columns.append(rows.words("queues", "verdict"))
    missed = frozenset(i for i, m in enumerate(best.models) if m.slo_met is False)
    different, alike = Table(columns, missed).narrowed()
    binds = limits(best) if best.models else ""
    inputs = reasons.assumption_lines([one for one in assumed if one.code is Code.USUAL_TOKENS])
    drawn_p99 = prose.not_exceeded(prose.draws_of_p99(best))
    notes = [
        COLUMNS_SAID if best.models else "",
        alike,
        *notes_of(best.models),
        *tf32_off(assumed),
        *inputs,
        binds,
        " ".join(filter(None, (f"{TILDE}." if best.predicted else "", drawn_p99))),
    ]
    return [Table(different, missed), *(Text(note, indent=2) for note in notes)]


def notes_of(models: Sequence[ModelAnswer]) -> tuple[str, ...]:
    """What shares on time, SLOs and p99 beside them do not show; empty ones where there is nothing of it."""
    short = [f"{m.name} {percent(kept)} %" for m in models if not m.slo_met and (kept := drawn(m)) is not None]
    draws_kept = f"Replications that meet the SLO: {names(short)}." if short else ""
    return mean_of_draws(models), draws_kept, prose.given_up(models)


def mean_of_draws(models: Sequence[ModelAnswer]) -> str:
    """Why a share on time may lie below an SLO that is met; empty where none does."""
    below = [m.name for m in models if m.slo_met and m.slo_attainment.mean < m.slo_attainment_target]
    if not below:
        return ""
    return f"On time: the mean of all replications, with the few that miss the SLO of {names(below)}."


def batch(model: ModelAnswer) -> str:
    """`1.8/5`: as batches were on average, and at most; of stages at different sizes those alone."""
    most = prose.batches(model)
    is_one = most.isdigit() and isfinite(model.mean_batch_size)
    return f"{model.mean_batch_size:.1f}/{most}" if is_one else most


def tf32_off(assumed: Sequence[Statement]) -> list[str]:
    """Where arithmetic in TF32 could be on, that it is not."""
    computes = [one for one in assumed if one.code is Code.COMPUTES_IN]
    return [reasons.sentence(assumption(one)) for one in computes if one.subjects[0] == "fp32" and one.subjects[1:]]


def limits(best: Recommendation) -> str:
    """`More load is limited by compute, from 1.18 times this load; for b by memory, from 1.30 (headroom kept).`

    The first are named too, unless they are most of the models.
    """
    by = grouped((m.bottleneck, m) for m in best.models)
    first, *others = sorted(by.values(), key=lambda those: (factor(those), -len(those)))
    named = next((those for those in (first, *others) if is_beyond(those)), None)
    are_most = all(len(first) >= len(those) for those in others)
    each = [
        ("" if those is first and are_most else f"for {names([m.name for m in those])} ")
        + "by "
        + gives_way(those, best.feasible, those is named or of_what(those) != of_what(named or first))
        for those in (first, *others)
    ]
    speeds = reasons.uncertain(best.models)
    kept = f"headroom kept, {speeds} at their slow end" if speeds else "headroom kept"
    return f"More load is limited {'; '.join(each)} ({kept})."


def gives_way(those: Sequence[ModelAnswer], feasible: bool, is_named: bool) -> str:
    """`the latency SLO, from 3.40 times this load`: of models short of the same; only the first factor says of what,
    and others that are of something else."""
    times = f" {of_what(those)}" if is_named and is_beyond(those) else ""
    return f"{GIVES_WAY[those[0].bottleneck]}{at_factor(those, feasible)}{times}"


def of_what(those: Sequence[ModelAnswer]) -> str:
    """What may grow by a factor: `times this load`, of what streams of video hold `times as many streams`."""
    return times_what(min(those, key=lambda model: model.demand_factor_max))


def at_factor(those: Sequence[ModelAnswer], feasible: bool) -> str:
    """`, from 3.40`, or that it is reached, which is no fault of a feasible plan; empty where it is not known, and no
    SLO is missed."""
    if is_beyond(those):
        return f", from {factor(those):.2f}"
    if not isfinite(factor(those)):
        return "" if feasible or all(m.slo_met for m in those) else ", already at this load"
    worst = " in the worst case" if those[0].bottleneck is Bottleneck.LATENCY else ""
    return f", {'with no room left' if feasible else 'already at this load'}{worst}"


def is_beyond(those: Sequence[ModelAnswer]) -> bool:
    """Whether it takes more than this load."""
    return isfinite(factor(those)) and round(factor(those), 2) > 1


def factor(those: Sequence[ModelAnswer]) -> float:
    """Times the load at which the first of them gives way; infinite where none is known."""
    return min((m.demand_factor_max for m in those if isfinite(m.demand_factor_max)), default=inf)


def kinds(plan: Plan) -> list[Block]:
    """The cheapest fleet of each kind of GPU, and the kinds without one."""
    columns = kind_columns(plan)
    table = Table([column for column in columns if column.title not in {"busy", "power", "what", *RESERVED}])
    reserved = "Reserved prices: -v." if any(column.title in RESERVED for column in columns) else ""
    return [
        table,
        missing_kinds(plan),
        *(Text(line, indent=2) for line in [*kind_notes(plan, [PriceKind.SPOT]), reserved]),
    ]


def p99(model: ModelAnswer) -> str:
    """`81.2 / 100 ms`."""
    alike = (model.p99_shown_s >= 1) == (model.slo_s >= 1)
    return f"{seconds(model.p99_shown_s, unit=not alike)} / {seconds(model.slo_s)}"


def on_time(model: ModelAnswer) -> str:
    """`99.31 / 99 %`."""
    return f"{percent(model.slo_attainment.mean)} / {exact(model.slo_attainment_target)}"


def other_ways(plan: Plan) -> list[str]:
    """How models that take turns in memory are compared with merged ones, and with one more GPU."""
    answer = plan.recommendation
    takes_turns = any(m.mode == "swapped" for m in answer.models) and not any(m.stages for m in answer.models)
    if not takes_turns or plan.merging:
        return []
    return ["Or merged, or with one more GPU: `--set merging=auto` compares what each costs."]


def next_steps(plan: Plan) -> list[str]:
    """How to get further where the search was stopped; the measurement that is worth most, unless a feasible plan gains
    nothing by it, a fleet that is much cheaper but less sure, a cheaper precision, and other ways than swapping."""
    stopped = [one for one in plan.warnings if one.what.code in (Code.INTERRUPTED, Code.INTERRUPTED_BEFORE)]
    feasible = plan.recommendation.feasible
    worthwhile = [one for one in plan.measure_next if not (feasible and reasons.saves_nothing(one))]
    steps = [reasons.sentence(begin(warning(one)[1])) for one in stopped]
    steps += [f"Measure {line}" for line in reasons.measure_next(plan, worthwhile)[:1]]
    steps += reasons.less_sure_line(plan)
    below_usd = inf if prose.lacks_spares(plan) else plan.recommendation.cost_usd_per_hour
    cheaper = [one for one in plan.precisions if one.cost_usd_per_hour.value < below_usd]
    for outlook in cheaper[:1]:
        line = reasons.precision_line(plan, replace(outlook, accuracy=()))
        steps.append(f"Or at {line} Estimated, not replayed{reasons.tried_with(outlook)}. Accuracy: -v.")
    return [*steps, *other_ways(plan)]
