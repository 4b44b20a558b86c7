"""Charts of a plan or a simulation: what runs where, room up to each SLO, latency, costs, outlooks."""

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite

from planner.model.plan import GpuAnswer, ModelAnswer, OfOneKind, Outlook, Plan, Recommendation
from planner.model.simulation import Simulation
from planner.model.timeline import LatencyHistogram
from planner.show.charts.kit.axes import ChartAxis, axis_around, axis_to, labelled, log_steps
from planner.show.charts.kit.blocks import (
    Bar,
    Bars,
    Box,
    Dot,
    FigureGrid,
    GpuGroup,
    GpuGroups,
    Graph,
    Line,
    Look,
    Mark,
    Point,
    Rule,
    colour,
    stairs,
    upright,
)
from planner.show.text.plan import latency_left, or_more, tilde
from planner.units.writing import counted, dollars, gigabytes, ranges, seconds, share, span_usd
from planner.words.candidates import candidate_name
from simulator.grouping import grouped

WIDE, THIN = (0.15, 0.85), (0.43, 0.57)
"""Lower and upper edge of a bar in its row."""
OF_DRAWS = "Not exceeded in as many replications as must meet every SLO."
OF_REPLICATIONS = "The short line is the 95 % interval over replications."
SLO_TICKS = (0, 0.25, 0.5, 0.75, 1.0, 2.0, 3.0)
"""Of an SLO: the axis ends at three times of it, so that one very late model does not hide the others."""
LEAST_SEEN = 1 / 132
"""Of the highest bar: what is there can be seen."""
WAITS_SEEN = 0.005
"""Share of time below which waiting for weights rounds to nothing."""


def fleet(answer: Recommendation | Simulation) -> Iterator[GpuGroups]:
    """What runs where: GPUs of one kind that hold the same models are drawn once."""
    held = [name for gpu in answer.gpus for name in gpu.models]
    colours = {name: colour(i) for i, name in enumerate(dict.fromkeys([*(m.name for m in answer.models), *held]))}
    alike = grouped(((gpu.kind, gpu.models), i) for i, gpu in enumerate(answer.gpus))
    yield GpuGroups([group([answer.gpus[i] for i in places], places, colours) for places in alike.values()])


def group(gpus: Sequence[GpuAnswer], places: Sequence[int], colours: Mapping[str, str]) -> GpuGroup:
    """GPUs that are alike; their meters show the busiest and the fullest."""
    kind, models = gpus[0].kind, gpus[0].models
    title = kind if len(gpus) == 1 else f"{len(gpus)} x {kind}"
    chips = [(colours[name], name) for name in models]
    return GpuGroup(title, f"# {ranges([place + 1 for place in places])}", chips, [busy(gpus), fullness(gpus)])


def busy(gpus: Sequence[GpuAnswer]) -> Bar:
    """The share of time that batches run, and after it the share that GPUs wait for weights."""
    most = max(gpus, key=lambda gpu: gpu.utilization + gpu.load_share)
    runs, waits = most.utilization, most.load_share
    marks = [Box(0, runs, 0, 1, "fill", f"batches run {share(runs)} of the time")]
    text = tilde(most) + span([gpu.utilization for gpu in gpus])
    if waits >= WAITS_SEEN:
        marks.append(Box(runs, runs + waits, 0, 1, "band", f"waits for weights {share(waits)} of the time"))
        text += f", loading {share(waits)}"
    return Bar("busy", marks, text)


def fullness(gpus: Sequence[GpuAnswer]) -> Bar:
    """The share of memory that is taken at most."""
    most = max(gpus, key=lambda gpu: gpu.peak_memory_bytes / gpu.memory_bytes)
    used = f"{most.peak_memory_bytes / 1e9:.2f} of {gigabytes(most.memory_bytes)}"
    part = most.peak_memory_bytes / most.memory_bytes
    return Bar("memory", [Box(0, part, 0, 1, "fill", f"{share(part)} at most")], f"{tilde(most)}{used}")


def span(shares: Sequence[float]) -> str:
    """`61 %`, or `58 % to 63 %`."""
    ends = dict.fromkeys([share(min(shares)), share(max(shares))])
    return " to ".join(ends)


def round_dollars(amount: float) -> str:
    """`$20`, on an axis."""
    return f"${amount:g}"


def room(models: Sequence[ModelAnswer]) -> Iterator[Bars]:
    """How much of its SLO each model's latency takes, the tightest first."""
    worst = max((m.p99_high_s / m.slo_s for m in models if isfinite(m.p99_high_s)), default=1.0)
    high = max(1.15, min(SLO_TICKS[-1], worst * 1.05))
    ticks = labelled([at for at in SLO_TICKS if at <= high], share)
    rows = [room_bar(m) for m in sorted(models, key=latency_left)]
    title = "99th percentile as a share of the latency of the SLO"
    in_draws = any(m.p99_in_draws_s is not None for m in models)
    yield Bars(title, rows, ChartAxis(0, high, ticks), OF_DRAWS if in_draws else OF_REPLICATIONS)


def room_bar(m: ModelAnswer) -> Bar:
    """One model."""
    late = m.p99_shown_s > m.slo_s
    marks: list[Mark] = []
    if isfinite(m.p99_shown_s):
        marks.append(Box(0, m.p99_shown_s / m.slo_s, *WIDE, "late" if late else "fill"))
    if m.p99_in_draws_s is None and isfinite(m.p99.high):
        marks.append(Line([(m.p99.low / m.slo_s, 0.5), (m.p99.high / m.slo_s, 0.5)], look=Look.THICK))
    text = f"{tilde(m)}{seconds(m.p99_shown_s)} of {seconds(m.slo_s)}"
    return Bar(m.name, [*marks, upright(1)], text, late)


def latency(plan: Plan) -> Iterator[FigureGrid]:
    """A histogram for each model."""
    asked = {model.name for model in plan.recommendation.models}
    yield FigureGrid([histogram(one) for one in plan.latency if one.model in asked and any(one.counts)])


def histogram(one: LatencyHistogram) -> Graph:
    """How long one model's requests took: bars on a logarithmic axis, the SLO as a line."""
    low_s, high_s = one.edges_s[0] / 1.1, max(one.edges_s[-1], one.slo_s) * 1.1
    most = max(one.counts)
    bars = list(zip(one.edges_s[:-1], one.edges_s[1:], one.counts, strict=True))
    marks: list[Mark] = [
        Box(
            left_s,
            right_s,
            0,
            max(count, most * LEAST_SEEN),
            "late" if left_s >= one.slo_s else "fill",
            f"{seconds(left_s)} to {seconds(right_s)}: {count:,} requests",
        )
        for left_s, right_s, count in bars
        if count
    ]
    p50_s, p99_s = quantile_s(one, 0.5), quantile_s(one, 0.99)
    marks += [Rule(p50_s, "fg"), Rule(p99_s, "fg", dashed=True)]
    beyond = sum(count for left_s, _, count in bars if left_s >= one.slo_s)
    late = f", {beyond:,} later than the SLO" if beyond else ""
    percentiles = f"p50 {seconds(p50_s)}, p99 {seconds(p99_s)}"
    return Graph(
        one.model,
        ChartAxis(low_s, high_s, labelled(log_steps(low_s, high_s), seconds_tick), log=True),
        ChartAxis(0, most),
        [*marks, Rule(one.slo_s, name="SLO")],
        f"{percentiles}; {counted(sum(one.counts), 'request')}{late}",
        f"Latency of {one.model}: {percentiles}, SLO {seconds(one.slo_s)}",
    )


def quantile_s(one: LatencyHistogram, part: float) -> float:
    """Latency that this part of the requests in a histogram does not pass, evenly spread in the bar it falls into."""
    rank = part * sum(one.counts)
    for left_s, right_s, count in zip(one.edges_s[:-1], one.edges_s[1:], one.counts, strict=True):
        if count and rank <= count:
            return left_s + (right_s - left_s) * rank / count
        rank -= count
    return one.edges_s[-1]


def seconds_tick(at_s: float) -> str:
    """`5 ms`, `0.2 ms`, `2 s`."""
    return f"{at_s:g} s" if at_s >= 1 else f"{at_s * 1e3:.3g} ms"


def share_tick(fraction: float) -> str:
    """`40 %`, `3.55 %`."""
    return f"{100 * fraction:.6g} %"


def worst_p99(answer: Recommendation) -> float:
    """Latency of its slowest model over the latency of its SLO."""
    return max(m.p99_shown_s / m.slo_s for m in answer.models)


def letter(number: int) -> str:
    """`A` of the answer, `B` of the first alternative."""
    return chr(ord("A") + number)


def pareto(plan: Plan) -> Iterator[FigureGrid]:
    """Cost against the slowest model's latency; nothing without an answer to compare."""
    if not plan.alternatives:
        return
    answers = [plan.recommendation, *plan.alternatives]
    dots = [spot(i, a, plan) for i, a in enumerate(answers) if a.models and isfinite(worst_p99(a))]
    unbeaten = sorted((dot.x, dot.y) for dot in dots if dot.label in map(letter, plan.pareto))
    x = axis_around([dot.x for dot in dots], round_dollars, title="dollars an hour")
    y = axis_around([dot.y for dot in dots], share_tick, title="slowest p99 of its SLO")
    marks: list[Mark] = [Rule(1, level=True), Line(front(unbeaten), "fill", Look.DASHED), *dots]
    note = "A is the answer, the others are listed as the next best. The line joins those that no other beats in both."
    yield FigureGrid([Graph("What one pays for speed", x, y, marks, note)])


def front(points: Sequence[Point]) -> list[Point]:
    """The corner line through points in order."""
    costs, lates = [cost for cost, _ in points], [late for _, late in points]
    return stairs(costs, lates, max(costs, default=0))


def spot(number: int, answer: Recommendation, plan: Plan) -> Dot:
    """One answer."""
    late, name = worst_p99(answer), letter(number)
    about = f"{candidate_name(answer.candidate)}, {dollars(answer.cost_usd_per_hour)}/h"
    title = f"{name}: {about}, p99 {share(late)} of the SLO"
    other = "on" if number in plan.pareto else "off"
    return Dot(answer.cost_usd_per_hour, late, other if number else "best", name, title)


def by_gpu(plan: Plan) -> Iterator[Bars]:
    """Dollars an hour of the cheapest fleet of each kind of GPU, beside the answer."""
    if len(plan.by_gpu) < 2:
        return
    now = plan.recommendation.cost_usd_per_hour
    most = max(*(one.cost_usd_per_hour for one in plan.by_gpu), now) * 1.05
    thin = "; the thin bar is the lowest price of the same machines, spot or reserved"
    lowest = thin if any(lowest_usd(one) < one.cost_usd_per_hour for one in plan.by_gpu) else ""
    note = f"Dollars an hour{lowest}. The red line is this answer, {dollars(now)}/h."
    rows = [kind_bar(one, plan.recommendation) for one in plan.by_gpu]
    yield Bars("The cheapest fleet of each kind of GPU alone", rows, axis_to(most, round_dollars), note)


def kind_bar(one: OfOneKind, best: Recommendation) -> Bar:
    """One kind of GPU, beside the answer."""
    bars = [Box(0, one.cost_usd_per_hour, *WIDE, "band")]
    if lowest_usd(one) < one.cost_usd_per_hour:
        bars.append(Box(0, lowest_usd(one), *THIN, "fill"))
    more = or_more(one, best)
    text = f"{tilde(one)}{dollars(one.cost_usd_per_hour)}{more}/h for {one.gpu_count}{more}"
    return Bar(one.gpu, [*bars, upright(best.cost_usd_per_hour)], text)


def lowest_usd(one: OfOneKind) -> float:
    """Dollars an hour of its machines at the lowest kind of price."""
    return min(one.usd_per_hour_by_price.values(), default=one.cost_usd_per_hour)


def outlooks(plan: Plan) -> Iterator[Bars]:
    """Cost of fleets without profiles, beside what this one does."""
    if not plan.outlooks:
        return
    best = plan.recommendation
    now = [best.cost_usd_per_hour] if best.models and isfinite(best.cost_usd_per_hour) else []
    most = max(filter(isfinite, [*now, *ends(plan)]), default=1.0) * 1.05
    line_is = "".join(f" The red line is this answer, {dollars(usd)}/h." for usd in now)
    note = f"The middle and the 80 % band.{line_is}"
    rows = [outlook_bar(one, [upright(usd) for usd in now], most) for one in plan.outlooks]
    yield Bars("Dollars an hour", rows, axis_to(most, round_dollars), note)


def ends(plan: Plan) -> Iterator[float]:
    """Both ends of what each fleet may cost."""
    for one in plan.outlooks:
        yield from (one.cost_usd_per_hour.low, one.cost_usd_per_hour.high)


def outlook_bar(outlook: Outlook, now: Sequence[Line], most: float) -> Bar:
    """One fleet."""
    cost = outlook.cost_usd_per_hour
    marks: list[Mark] = [Box(cost.low, min(cost.high, most), *WIDE, "band")]
    if isfinite(cost.value):
        marks.append(upright(cost.value, colour="fill", look=Look.THICK))
    text = f"{dollars(cost.value)}/h, {span_usd(cost.low, cost.high)}"
    return Bar(candidate_name(outlook.candidate), [*marks, *now], text)
