"""Charts of a plan or a simulation: room up to each SLO, latency histograms, cost against latency, outlooks."""

from collections.abc import Iterator, Sequence
from math import isfinite, isnan, nan

from planner.model.plan import Estimate, LatencyHistogram, ModelAnswer, OfOneKind, Plan, Recommendation
from planner.show.charts.blocks import Bar, Bars, Figure, FigureGrid
from planner.show.charts.kit import STRIP, Scale, Spot, histogram, line, plot_area, rect, scatter, strip
from planner.show.text.plan import latency_left, tilde
from planner.show.text.reasons import outlooks_title
from planner.units.writing import counted, dollars, seconds, share, span_usd
from planner.words.candidates import candidate_name

BAR = 14
"""Height of a bar in its strip."""
SLO_TICKS = (0, 0.25, 0.5, 0.75, 1.0, 2.0, 3.0)
"""Of an SLO: the axis ends at three times of it, so that one very late model does not hide the others."""


def room(models: Sequence[ModelAnswer]) -> Iterator[Bars]:
    """How much of its SLO each model's latency takes, the tightest first."""
    worst = max((m.p99.high / m.slo_s for m in models if isfinite(m.p99.high)), default=1.0)
    high = max(1.15, min(SLO_TICKS[-1], worst * 1.05))
    unit = Scale(0, high, 0, 1)
    ticks = unit.ticks((x, f"{x * 100:g} %") for x in SLO_TICKS if x <= high)
    rows = [room_bar(m, Scale(0, high, 0, STRIP)) for m in sorted(models, key=latency_left)]
    title = "99th percentile as a share of the latency of the SLO"
    yield Bars(title, rows, ticks, "The short line is the 95 % interval over replications.")


def room_bar(m: ModelAnswer, across: Scale) -> Bar:
    """One model."""
    late, parts = m.p99_s > m.slo_s, []
    if isfinite(m.p99_s):
        parts.append(rect(0, 2, across(m.p99_s / m.slo_s), BAR - 4, "late" if late else "fill"))
    if isfinite(m.p99.high):
        parts.append(line(across(m.p99.low / m.slo_s), BAR / 2, across(m.p99.high / m.slo_s), BAR / 2, "whisker"))
    parts.append(line(across(1), 0, across(1), BAR, "limit"))
    text = f"{tilde(m)}{seconds(m.p99_s)} of {seconds(m.slo_s)}"
    return Bar(m.name, strip(parts, BAR, f"p99 of {m.name}: {text}"), text, late)


def latency(plan: Plan) -> Iterator[FigureGrid]:
    """A histogram for each model."""
    by_name = {m.name: m for m in plan.recommendation.models}
    seen = [one for one in plan.latency if one.model in by_name and any(one.counts)]
    yield FigureGrid([latency_figure(one, by_name[one.model]) for one in seen])


def latency_figure(one: LatencyHistogram, model: ModelAnswer) -> Figure:
    """One model's histogram."""
    count = sum(one.counts)
    beyond = sum(n for left_s, n in zip(one.edges_s[:-1], one.counts, strict=True) if left_s >= one.slo_s)
    late = f", {beyond:,} later than the SLO" if beyond else ""
    note = f"p50 {seconds(model.p50_s)}, p99 {seconds(model.p99_s)}; {counted(count, 'request')}{late}"
    return Figure(histogram(one, model.p50_s, model.p99_s), one.model, note)


def worst_p99(answer: Recommendation) -> float:
    """Latency of its slowest model over the latency of its SLO."""
    return max(m.p99_s / m.slo_s for m in answer.models)


def letter(number: int) -> str:
    """`A` of the answer, `B` of the first alternative."""
    return chr(ord("A") + number)


def pareto(plan: Plan) -> Iterator[FigureGrid]:
    """Cost against the slowest model's latency."""
    answers = [plan.recommendation, *plan.alternatives]
    lettered = [(letter(i), a) for i, a in enumerate(answers) if a.models and not isnan(worst_p99(a))]
    spots = [spot(name, a, plan) for name, a in lettered]
    costs, lates = [s.x for s in spots], [s.y for s in spots]
    across, up = plot_area((min(costs), max(costs)), (min(lates), max(lates)), share)
    unbeaten = {letter(place) for place in plan.pareto}
    front = sorted((a.cost_usd_per_hour, worst_p99(a)) for name, a in lettered if name in unbeaten)
    texts = [(x, f"${x:g}") for x in across.steps(4)], [(y, share(y)) for y in up.steps(4)]
    limit = 1.0 if up.high >= 1 else None
    chart = scatter(spots, "dollars an hour", "slowest p99 of its SLO", texts, (across, up), front, limit)
    note = "A is the answer. The line joins those that no other beats in both."
    yield FigureGrid([Figure(chart, "What one pays for speed", note)])


def spot(name: str, answer: Recommendation, plan: Plan) -> Spot:
    """One answer."""
    style = "on" if name in map(letter, plan.pareto) else "off"
    late = worst_p99(answer)
    about = f"{candidate_name(answer.candidate)}, {dollars(answer.cost_usd_per_hour)}/h"
    title = f"{name}: {about}, p99 {share(late)} of the SLO"
    return Spot(answer.cost_usd_per_hour, late, name, title, "best" if name == letter(0) else style)


def by_gpu(plan: Plan) -> Iterator[Bars]:
    """Dollars an hour of the cheapest fleet of each kind of GPU, beside the answer."""
    if len(plan.by_gpu) < 2:
        return
    now = plan.recommendation.cost_usd_per_hour
    most = max(*(one.cost_usd_per_hour for one in plan.by_gpu), now) * 1.05
    unit, across = Scale(0, most, 0, 1), Scale(0, most, 0, STRIP)
    rows = [kind_bar(one, now, across) for one in plan.by_gpu]
    ticks = unit.ticks((x, f"${x:g}") for x in unit.steps(4))
    lowest = "the thin bar is the lowest price of the same machines, spot or reserved"
    note = f"Dollars an hour; {lowest}. The red line is this answer, {dollars(now)}/h."
    yield Bars("The cheapest fleet of each kind of GPU alone", rows, ticks, note)


def kind_bar(one: OfOneKind, now: float, across: Scale) -> Bar:
    """One kind of GPU."""
    lowest = min(one.usd_per_hour_by_price.values(), default=one.cost_usd_per_hour)
    parts = [
        rect(0, 3, across(one.cost_usd_per_hour), BAR - 6, "band"),
        rect(0, BAR / 2 - 1, across(lowest), 2, "fill"),
        line(across(now), 0, across(now), BAR, "limit"),
    ]
    text = f"{tilde(one)}{dollars(one.cost_usd_per_hour)}/h for {one.gpu_count}"
    return Bar(one.gpu, strip(parts, BAR, f"{one.gpu}: {text}"), text)


def outlooks(plan: Plan) -> Iterator[Bars]:
    """Cost of fleets without profiles, beside what this one does."""
    if not plan.outlooks:
        return
    now = plan.recommendation.cost_usd_per_hour if plan.recommendation.models else nan
    ends = [x for o in plan.outlooks for x in (o.cost_usd_per_hour.low, o.cost_usd_per_hour.high, now) if isfinite(x)]
    most = max(ends, default=1.0) * 1.05
    unit = Scale(0, most, 0, 1)
    ticks = unit.ticks((x, f"${x:g}") for x in unit.steps(4))
    rows = [
        outlook_bar(candidate_name(o.candidate), o.cost_usd_per_hour, now, Scale(0, most, 0, STRIP))
        for o in plan.outlooks
    ]
    line_is = f" The red line is this answer, {dollars(now)}/h." if isfinite(now) else ""
    yield Bars(outlooks_title(plan), rows, ticks, f"Dollars an hour: the middle and the 80 % band.{line_is}")


def outlook_bar(label: str, cost: Estimate, now: float, across: Scale) -> Bar:
    """One fleet."""
    high = cost.high if isfinite(cost.high) else across.high
    parts = [rect(across(cost.low), 3, across(high) - across(cost.low), BAR - 6, "band")]
    if isfinite(cost.value):
        parts.append(rect(across(cost.value) - 2, 0, 4, BAR, "fill"))
    if isfinite(now):
        parts.append(line(across(now), 0, across(now), BAR, "limit"))
    return Bar(label, strip(parts, BAR, label), f"{dollars(cost.value)}/h, {span_usd(cost.low, cost.high)}")
