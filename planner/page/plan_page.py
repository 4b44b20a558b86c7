"""What a page says of a plan, section by section. Reads nothing but the plan."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite, isnan

from planner.layout import (
    counted,
    dollars,
    gigabytes,
    names,
    per_second,
    percent,
    promise,
    ranges,
    seconds,
    share,
    span_usd,
)
from planner.merging.report import reasons as merging_reasons
from planner.page.cells import Bar, Bars, Cell, Figure, Row, Stat, Table, heads, words
from planner.page.charts import STRIP, Scale, Spot, histogram, line, plot_area, rect, scatter, strip
from planner.page.strips import Strips, strips
from planner.plans import (
    Estimate,
    GpuAnswer,
    ModelAnswer,
    Plan,
    Recommendation,
    Rejection,
    WayOfServing,
)
from planner.reasons import binding, sensitivity
from planner.terminal import (
    TILDE,
    basis,
    bound_line,
    budget_left,
    caution_texts,
    cautions,
    draws_line,
    granted,
    headline,
    latency_left,
    marked,
    nearest,
    on_time,
    outlooks_title,
    overshoot,
    p99,
    refusals,
    refusals_title,
    replayed_line,
    rules_line,
    saving,
    sentence,
    slo_line,
    sure_line,
    tightest,
)
from planner.units import HOURS_PER_MONTH

NOT_PRICED = (
    "Not in it: disks, network traffic, load balancers, taxes, support, discounts by contract, and people's work. "
    f"Every machine is paid for all of {HOURS_PER_MONTH:g} hours a month."
)
BAR = 14
"""Height of a bar in its strip."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPage:
    """Everything that the template shows."""

    title: str
    headline: str
    tone: str
    verdict: str
    stats: tuple[Stat, ...]
    facts: tuple[str, ...]
    merging: tuple[str, ...]
    ways: Table | None
    cost: Table | None
    cost_note: str
    models: Table | None
    room: Bars | None
    binding: tuple[str, ...]
    latency: tuple[Figure, ...]
    gpus: Table | None
    strips: Strips | None
    pareto: Figure | None
    others: Table | None
    refusals_title: str
    refusals: tuple[str, ...]
    rejections: Table | None
    sensitivity: tuple[str, ...]
    outlooks: Bars | None
    measure: tuple[tuple[str, str], ...]
    evidence: Table | None
    foretold: Table | None
    cautions: tuple[str, ...]
    assumptions: tuple[str, ...]
    rules: str
    scenario: str
    overrides: tuple[str, ...]
    scenario_note: str
    provenance: tuple[tuple[str, str], ...]


def plan_page(plan: Plan) -> PlanPage:
    """The page of a plan."""
    best = plan.recommendation
    tried = bool(best.models)
    return PlanPage(
        title=plan.scenario or "Plan",
        headline=headline(plan),
        tone="good" if best.feasible else "bad",
        verdict=slo_line(best) if tried else "",
        stats=stats(plan) if tried else (),
        facts=facts(plan) if tried else (),
        merging=tuple(merging_reasons(plan)),
        ways=ways(plan) if plan.merging else None,
        cost=cost(best) if best.instances else None,
        cost_note=NOT_PRICED,
        models=models(best) if tried else None,
        room=room(best) if tried else None,
        binding=tuple(f"{m.name}: {binding(m, best)}" for m in sorted(best.models, key=budget_left)),
        latency=latency(plan),
        gpus=gpus(best) if best.gpus else None,
        strips=strips(plan),
        pareto=pareto(plan) if plan.alternatives else None,
        others=others(plan) if plan.alternatives else None,
        refusals_title=refusals_title(plan),
        refusals=tuple(refusals(plan)),
        rejections=rejections(plan) if plan.rejections else None,
        sensitivity=tuple(sensitivity(plan, best)) if best.feasible else (),
        outlooks=outlooks(plan) if plan.outlooks else None,
        measure=tuple((f"{m.model} on {m.gpu}: {sentence(m.reason)}", m.command) for m in plan.measure_next),
        evidence=evidence(plan) if tried else None,
        foretold=foretold(plan) if plan.predictions else None,
        cautions=tuple(caution_texts(cautions(plan))),
        assumptions=tuple(granted(plan.assumptions)),
        rules=rules_line(plan.policies, best.models),
        scenario=plan.scenario_text,
        overrides=plan.scenario_overrides,
        scenario_note=scenario_note(plan),
        provenance=provenance(plan),
    )


def stats(plan: Plan) -> tuple[Stat, ...]:
    """What one wants to know first."""
    best, at = plan.recommendation, "recommendation"
    tight, slow = tightest(best.models), min(best.models, key=latency_left)
    i, j = best.models.index(tight), best.models.index(slow)
    asked = sum(m.offered_rps for m in best.models)
    met = "good" if tight.slo_met else "bad"
    dated = f"prices of {plan.prices_as_of}" if plan.prices_as_of else "your own prices"
    return (
        Stat("cost", money(best.cost_usd_per_hour, f"{at}.cost_usd_per_hour", "/h", best.foretold), dated),
        Stat("a month", money(best.cost_usd_per_month, f"{at}.cost_usd_per_month", ""), f"{HOURS_PER_MONTH:g} hours"),
        *per_million(best),
        Stat(
            "GPUs",
            Cell(str(best.gpu_count), best.gpu_count, f"{at}.gpu_count"),
            names(list(dict.fromkeys(gpu.kind for gpu in best.gpus))),
        ),
        least(tight, f"{at}.models.{i}", met),
        Stat(
            "slowest p99",
            Cell(marked(seconds(slow.p99_s), slow.foretold), slow.p99_s, f"{at}.models.{j}.p99_s"),
            f"{slow.name}, of {seconds(slow.slo_s)}",
            "good" if slow.p99_s <= slow.slo_s else "bad",
        ),
        Stat("demand", Cell(per_second(asked), asked), counted(len(best.models), "model")),
    )


def least(tight: ModelAnswer, at: str, tone: str) -> Stat:
    """What the tightest model surely gets: of draws of the cameras' phases, else of requests."""
    promised = f"{promise(tight.slo_attainment_target)} promised"
    if drawn := tight.draws_kept:
        cell = Cell(f"{percent(drawn.mean)} %", drawn.mean, f"{at}.draws_kept.mean")
        return Stat("fewest draws kept", cell, f"{tight.name}, {promised}", tone)
    low = tight.slo_attainment.low
    cell = Cell(f"{percent(low)} %", low, f"{at}.slo_attainment.low")
    return Stat("lowest share on time", cell, f"{tight.name}, bad end; {promised}", tone)


def money(amount: float, key: str, unit: str, foretold: bool = False) -> Cell:
    """Dollars."""
    return Cell(marked(f"{dollars(amount)}{unit}", foretold), amount, key)


def facts(plan: Plan) -> tuple[str, ...]:
    """How sure the answer is, and how much better another could be."""
    best = plan.recommendation
    told = [TILDE] if best.foretold else []
    bound = [bound_line(best, plan.rejections, plan.policies.headroom)] if best.feasible else []
    return (*bound, *draws_line(best), *replayed_line(best), sure_line(best.replications, best.requests), *told)


def cost(best: Recommendation) -> Table:
    """What is rented, for how long, at which price and of when."""
    rows = []
    for i, one in enumerate(best.instances):
        at = f"recommendation.instances.{i}"
        each, sum_usd = one.usd_per_hour, one.count * one.usd_per_hour
        rows.append(
            Row(
                (
                    Cell(one.instance),
                    Cell(" ".join(filter(None, (one.provider, one.region))) or "your own"),
                    Cell(f"{one.gpu_count} x {one.gpu}", one.gpu_count, f"{at}.gpu_count"),
                    Cell(str(one.count), one.count, f"{at}.count"),
                    money(each, f"{at}.usd_per_hour", ""),
                    Cell(one.price_as_of or "-"),
                    money(sum_usd, "", ""),
                    Cell(f"{HOURS_PER_MONTH:g}", HOURS_PER_MONTH),
                    money(sum_usd * HOURS_PER_MONTH, "", ""),
                )
            )
        )
    total = (
        *words("all", "", ""),
        Cell(str(sum(one.count for one in best.instances))),
        *words("", ""),
        money(best.cost_usd_per_hour, "recommendation.cost_usd_per_hour", ""),
        Cell(""),
        money(best.cost_usd_per_month, "recommendation.cost_usd_per_month", ""),
    )
    figures = ("GPUs in one", "machines", "$/h each", "$/h", "hours", "$/month")
    titles = ("instance", "where", "GPUs in one", "machines", "$/h each", "price as of", "$/h", "hours", "$/month")
    return Table("Cost", heads(*titles, right=figures), (*rows, Row(total, total=True)), cards=True)


def models(best: Recommendation) -> Table:
    """What each model gets and gives."""
    numbers = {gpu.id: i for i, gpu in enumerate(best.gpus, 1)}

    def row(i: int, m: ModelAnswer) -> Row:
        def of(name: str, show: Callable[[float], str], value: float) -> Cell:
            return Cell(marked(show(value), m.foretold), value, f"recommendation.models.{i}.{name}")

        limited = m.bottleneck if m.verdict == "stable" else m.verdict
        return Row(
            (
                Cell(m.name),
                of("batch_size", str, m.batch_size),
                Cell(ranges([numbers[g] for g in m.gpus])),
                Cell(m.mode),
                of("p50_s", seconds, m.p50_s),
                Cell(marked(p99(m), m.foretold), m.p99_s, f"recommendation.models.{i}.p99_s"),
                Cell(
                    marked(on_time(m), m.foretold),
                    m.slo_attainment.mean,
                    f"recommendation.models.{i}.slo_attainment.mean",
                ),
                of("slo_attainment_target", promise, m.slo_attainment_target),
                of("throughput_rps", per_second, m.throughput_rps),
                of("mean_batch_size", lambda n: f"{n:.2f}", m.mean_batch_size),
                of("dropped_fraction", lambda part: f"{percent(part, up=True)} %", m.dropped_fraction),
                of("joules_per_inference", lambda j: f"{j:.2f} J", m.joules_per_inference),
                Cell(str(limited)),
                Cell(str(m.evidence)),
            ),
            bad=m.slo_met is False,
        )

    titles = (
        "model",
        "batch",
        "GPUs",
        "mode",
        "median",
        "p99 / SLO",
        "% on time",
        "promised",
        "rate",
        "mean batch",
        "dropped",
        "energy each",
        "limited by",
        "evidence",
    )
    figures = [t for t in titles if t not in ("model", "GPUs", "mode", "limited by", "evidence")]
    rows = tuple(row(i, m) for i, m in enumerate(best.models))
    return Table("Models", heads(*titles, right=figures), rows, cards=True)


def room(best: Recommendation) -> Bars:
    """How much of its promised latency each model takes, the tightest first."""
    worst = max((m.p99.high / m.slo_s for m in best.models if isfinite(m.p99.high)), default=1.0)
    across = Scale(0, max(1.15, min(3.0, worst * 1.05)), 0, STRIP)

    def bar(m: ModelAnswer) -> Bar:
        part, late = m.p99_s / m.slo_s, m.p99_s > m.slo_s
        parts = []
        if isfinite(part):
            parts.append(rect(0, 2, across(part), BAR - 4, "late" if late else "fill"))
        if isfinite(m.p99.high):
            parts.append(line(across(m.p99.low / m.slo_s), BAR / 2, across(m.p99.high / m.slo_s), BAR / 2, "whisker"))
        parts.append(line(across(1), 0, across(1), BAR, "limit"))
        text = f"{marked(seconds(m.p99_s), m.foretold)} of {seconds(m.slo_s)}"
        return Bar(m.name, strip(parts, BAR, f"p99 of {m.name}: {text}"), text, late)

    unit = Scale(0, across.high, 0, 1)
    ticks = unit.ticks((x, f"{x * 100:g} %") for x in (0, 0.25, 0.5, 0.75, 1.0, 2.0, 3.0) if x <= across.high)
    ordered = sorted(best.models, key=latency_left)
    title = "99th percentile as a share of the latency promised"
    return Bars(title, tuple(map(bar, ordered)), ticks, "The short line is the 95 % interval over replications.")


def latency(plan: Plan) -> tuple[Figure, ...]:
    """A histogram for each model."""
    by_name = {m.name: m for m in plan.recommendation.models}
    found = []
    for one in plan.latency:
        model = by_name.get(one.model)
        if model and sum(one.counts):
            beyond = sum(n for left_s, n in zip(one.edges_s[:-1], one.counts, strict=True) if left_s >= one.slo_s)
            told = f"p50 {seconds(model.p50_s)}, p99 {seconds(model.p99_s)}; {counted(sum(one.counts), 'request')}"
            late = f", {beyond:,} later than promised" if beyond else ""
            found.append(Figure(histogram(one, model.p50_s, model.p99_s), one.model, told + late))
    return tuple(found)


def gpus(best: Recommendation) -> Table:
    """What each card does."""

    def row(i: int, g: GpuAnswer) -> Row:
        def of(name: str, text: str, value: float) -> Cell:
            return Cell(marked(text, g.foretold), value, f"recommendation.gpus.{i}.{name}")

        memory = f"{g.peak_memory_bytes / 1e9:.2f} of {gigabytes(g.memory_bytes)}"
        return Row(
            (
                Cell(str(i + 1), i + 1),
                Cell(g.id),
                Cell(g.kind),
                of("offered_load", share(g.offered_load), g.offered_load),
                of("utilization", share(g.utilization), g.utilization),
                of("load_share", share(g.load_share, 1), g.load_share),
                of("swaps_per_s", per_second(g.swaps_per_s), g.swaps_per_s),
                of("peak_memory_bytes", memory, g.peak_memory_bytes),
                of("mean_power_w", f"{g.mean_power_w:.0f} W", g.mean_power_w),
                Cell(names(g.models, 4)),
            )
        )

    figures = ("#", "load", "busy", "loading", "swaps", "memory", "power")
    titles = ("#", "GPU", "kind", "load", "busy", "loading", "swaps", "memory", "power", "models")
    return Table(
        "GPUs", heads(*titles, right=figures, wide=("models",)), tuple(row(i, g) for i, g in enumerate(best.gpus))
    )


def worst_p99(answer: Recommendation) -> float:
    """Of its slowest model, over the latency promised."""
    return max(m.p99_s / m.slo_s for m in answer.models)


def known(plan: Plan) -> list[tuple[str, Recommendation]]:
    """The answer and the others, each with a letter."""
    answers = [plan.recommendation, *plan.alternatives]
    return [(chr(ord("A") + i), a) for i, a in enumerate(answers) if a.models and not isnan(worst_p99(a))]


def pareto(plan: Plan) -> Figure:
    """Cost against the slowest model's latency."""
    shown = known(plan)
    spots = [
        Spot(
            a.cost_usd_per_hour,
            worst_p99(a),
            letter,
            f"{letter}: {a.label}, {dollars(a.cost_usd_per_hour)}/h, p99 {share(worst_p99(a))} of the SLO",
            "best" if letter == "A" else "on" if a.label in plan.pareto else "off",
        )
        for letter, a in shown
    ]
    costs, lates = [s.x for s in spots], [s.y for s in spots]
    across, up = plot_area((min(costs), max(costs)), (min(lates), max(lates)), share)
    front = sorted((a.cost_usd_per_hour, worst_p99(a)) for _, a in shown if a.label in plan.pareto)
    texts = [(x, f"${x:g}") for x in across.steps(4)], [(y, share(y)) for y in up.steps(4)]
    svg = scatter(
        spots, "dollars an hour", "slowest p99 of its SLO", texts, (across, up), front, 1.0 if up.high >= 1 else None
    )
    return Figure(svg, "What one pays for speed", "A is the answer. The line joins those that no other beats in both.")


def others(plan: Plan) -> Table:
    """The answer and the next best."""
    best = plan.recommendation

    def row(letter: str, a: Recommendation) -> Row:
        at = "recommendation" if letter == "A" else f"alternatives.{ord(letter) - ord('B')}"
        slow = max(a.models, key=lambda m: m.p99_s / m.slo_s)
        more = a.cost_usd_per_hour / best.cost_usd_per_hour - 1 if best.cost_usd_per_hour > 0 else 0.0
        return Row(
            (
                Cell(letter),
                Cell(a.label),
                money(a.cost_usd_per_hour, f"{at}.cost_usd_per_hour", "/h", a.foretold),
                Cell(f"{more * 100:+.0f} %" if letter != "A" else "-", more),
                Cell(str(a.gpu_count), a.gpu_count, f"{at}.gpu_count"),
                Cell(f"{slow.name} {seconds(slow.p99_s)} of {seconds(slow.slo_s)}", slow.p99_s / slow.slo_s),
                Cell(f"{a.energy_w:.0f} W", a.energy_w, f"{at}.energy_w"),
                Cell("yes" if a.label in plan.pareto else "no"),
            )
        )

    titles = ("", "fleet", "cost", "more", "GPUs", "slowest p99", "power", "unbeaten")
    figures = ("cost", "more", "GPUs", "slowest p99", "power")
    return Table(
        "Ways that keep every promise",
        heads(*titles, right=figures, wide=("fleet",)),
        tuple(row(*one) for one in known(plan)),
    )


def in_unit(value: float, unit: str) -> str:
    """What a candidate had, as people read it."""
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


def rejections(plan: Plan) -> Table:
    """Every candidate that was refused, those that would have been the better buy first."""
    near = nearest(plan)
    ordered = [*near, *sorted((no for no in plan.rejections if no not in near), key=overshoot)]

    def row(no: Rejection) -> Row:
        at = f"rejections.{plan.rejections.index(no)}"
        cost = no.cost_usd_per_hour
        met = f"{in_unit(no.observed, no.unit)} / {in_unit(no.limit, no.unit)}" if no.unit else "-"
        return Row(
            (
                Cell(no.candidate),
                Cell("-") if cost is None else money(cost, f"{at}.cost_usd_per_hour", "/h"),
                Cell(str(no.bottleneck)),
                Cell(met, overshoot(no)),
                Cell(sentence(no.reason)),
                Cell(sentence(no.way_out)),
            )
        )

    titles = ("candidate", "cost", "stopped by", "had / limit", "why", "way out")
    return Table(
        "Refused",
        heads(*titles, right=("cost", "had / limit"), wide=("why", "way out")),
        tuple(map(row, ordered)),
        cards=True,
    )


def outlooks(plan: Plan) -> Bars:
    """What fleets without profiles might cost, beside what this one does."""
    now = plan.recommendation.cost_usd_per_hour if plan.recommendation.models else float("nan")
    ends = [x for o in plan.outlooks for x in (o.cost_usd_per_hour.low, o.cost_usd_per_hour.high, now) if isfinite(x)]
    across = Scale(0, max(ends, default=1.0) * 1.05, 0, STRIP)

    def bar(label: str, cost: Estimate) -> Bar:
        high = cost.high if isfinite(cost.high) else across.high
        parts = [rect(across(cost.low), 3, across(high) - across(cost.low), BAR - 6, "band")]
        if isfinite(cost.value):
            parts.append(rect(across(cost.value) - 2, 0, 4, BAR, "fill"))
        if isfinite(now):
            parts.append(line(across(now), 0, across(now), BAR, "limit"))
        return Bar(label, strip(parts, BAR, label), f"{dollars(cost.value)}/h, {span_usd(cost.low, cost.high)}")

    unit = Scale(0, across.high, 0, 1)
    ticks = unit.ticks((x, f"${x:g}") for x in unit.steps(4))
    rows = tuple(bar(o.label, o.cost_usd_per_hour) for o in plan.outlooks)
    line_is = f" The red line is this answer, {dollars(now)}/h." if isfinite(now) else ""
    return Bars(outlooks_title(plan), rows, ticks, f"Dollars an hour: the middle and the 80 % band.{line_is}")


def evidence(plan: Plan) -> Table:
    """Where every kind of figure comes from."""
    best = plan.recommendation
    rows = [
        Row(
            words(
                f"{m.name}: times, memory, loads",
                str(m.evidence),
                "foretold" if m.foretold else "profile",
                ", ".join(kinds(m, best)),
            )
        )
        for m in best.models
    ]
    rows += [
        Row(
            words(
                f"price of {i.instance}",
                "published" if i.price_as_of else "given",
                i.price_as_of or "the scenario",
                i.gpu,
            )
        )
        for i in best.instances
    ]
    runs = counted(best.replications, "replication")
    rows.append(Row(words("latency, share on time, load, memory used, power", "simulated", runs, "95 % intervals")))
    rows.append(Row(words("promises, demand, rules", "given", "the scenario", "")))
    return Table("Where the figures come from", heads("figure", "evidence", "source", "of"), tuple(rows), cards=True)


def kinds(model: ModelAnswer, best: Recommendation) -> list[str]:
    """Kinds of GPU that a model runs on."""
    return list(dict.fromkeys(gpu.kind for gpu in best.gpus if gpu.id in model.gpus))


def foretold(plan: Plan) -> Table:
    """What stands in for profiles."""

    def within(one: Estimate, show: Callable[[float], str]) -> Cell:
        return Cell(f"{show(one.value)} ({show(one.low)} to {show(one.high)})", one.value)

    rows = tuple(
        Row(
            (
                Cell(p.model),
                Cell(p.gpu),
                Cell(str(p.batch_size), p.batch_size),
                within(p.latency_s, seconds),
                within(p.memory_bytes, gigabytes),
                within(p.load_s, seconds),
                Cell(basis(p)),
            )
        )
        for p in plan.predictions
    )
    titles = ("model", "GPU", "batch", "time", "memory", "load", "by")
    return Table(
        "Foretold, with 80 % bands", heads(*titles, right=("batch", "time", "memory", "load"), wide=("by",)), rows
    )


def per_million(best: Recommendation) -> tuple[Stat, ...]:
    """What a million requests cost, and a million right answers beside it."""
    unit, at = best.unit_costs, "recommendation.unit_costs.per_million_requests"
    if unit is None or not isfinite(unit.per_million_requests):
        return ()
    note = f"{dollars(unit.per_million_right)} where answered rightly" if isfinite(unit.per_million_right) else ""
    return (Stat("a million requests", money(unit.per_million_requests, at, ""), note),)


def ways(plan: Plan) -> Table:
    """Each on its own, merged, or one more GPU."""

    def row(i: int, way: WayOfServing) -> Row:
        at = f"merging.{i}"
        return Row(
            (
                Cell(f"{way.what}{' (chosen)' if way.chosen else ''}"),
                Cell(way.fleet),
                Cell("yes" if way.feasible else "no"),
                Cell(gigabytes(way.weights_bytes), way.weights_bytes, f"{at}.weights_bytes"),
                Cell(gigabytes(way.saved_bytes), way.saved_bytes, f"{at}.saved_bytes"),
                Cell(f"{percent(way.processed_fraction)} %", way.processed_fraction, f"{at}.processed_fraction"),
                Cell(f"{percent(way.right_fraction)} %", way.right_fraction, f"{at}.right_fraction"),
                money(way.cost_usd_per_hour, f"{at}.cost_usd_per_hour", "/h"),
                *(
                    money(usd, f"{at}.{key}", "") if isfinite(usd) else Cell("-")
                    for key, usd in (
                        ("total_usd_per_month", way.total_usd_per_month),
                        ("usd_per_million_right", way.usd_per_million_right),
                    )
                ),
            ),
            bad=not way.feasible,
        )

    figures = ("weights", "saved", "least processed", "right", "cost", "a month with training", "a million right")
    titles = ("way", "fleet", "promises kept", *figures)
    return Table(
        "Each on its own, merged, or one more GPU",
        heads(*titles, right=figures),
        tuple(row(i, w) for i, w in enumerate(plan.merging)),
    )


def scenario_note(plan: Plan) -> str:
    """Whether the text is the one that was planned."""
    if not plan.scenario_text:
        return "The plan does not hold its scenario: it was made by an older version."
    text = "\n--set ".join([plan.scenario_text, *plan.scenario_overrides])
    same = hashlib.sha256(text.encode()).hexdigest() == plan.scenario_sha256
    return "" if same else "This text does not have the SHA-256 of the scenario that was planned: it was changed since."


def provenance(plan: Plan) -> tuple[tuple[str, str], ...]:
    """What made the answer."""
    best = plan.recommendation
    below = f", {dollars(saving(best))}/h below the answer" if saving(best) else ", the answer itself"
    bound = f"{dollars(best.lower_bound_usd_per_hour)}/h{below}"
    return (
        ("made", plan.created_at),
        *((name, version) for name, version in plan.versions.items()),
        ("seed", str(plan.seed)),
        ("scenario SHA-256", plan.scenario_sha256),
        ("schema", plan.schema),
        *([("lower bound on cost", bound)] if best.models and not isnan(best.lower_bound_usd_per_hour) else []),
        *([("oldest price", plan.prices_as_of)] if plan.prices_as_of else []),
    )
