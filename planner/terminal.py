"""Reports: a plan or a simulation as a table, CSV, Markdown or JSON. Reads only `planner.plans`."""

import csv
import io
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date

from planner.catalog import STALE_DAYS, stale
from planner.layout import (
    Column,
    Format,
    Screen,
    counted,
    dollars,
    fit,
    gigabytes,
    markdown,
    names,
    per_second,
    percent,
    promise,
    ranges,
    seconds,
    share,
    span,
    span_usd,
    table,
)
from planner.merging.report import ways_markdown, ways_section
from planner.plans import (
    Bottleneck,
    Caution,
    Estimate,
    GpuAnswer,
    Instances,
    ModelAnswer,
    Plan,
    Policies,
    PrecisionOutlook,
    Prediction,
    Recommendation,
    Rejection,
    Replayed,
)
from planner.scenario import AccuracyRule
from planner.store import to_json
from simulator.profile import Evidence

FORETOLD = "Foretold, with 80 % bands"
GPUS_SHOWN = 16
OTHERS_SHOWN = 5
FLEET = frozenset(Bottleneck) - {Bottleneck.COST, Bottleneck.PRICE, Bottleneck.PROFILE, Bottleneck.RETIRED}
"""What can stop a fleet that was tried; the rest stops an offer before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """A deployment one named oneself, replayed."""

    scenario: str
    scenario_sha256: str
    seed: int
    feasible: bool
    requests: int
    """Replayed, all replications together."""
    wall_s: float
    """Time the replay took."""
    cost_usd_per_hour: float | None
    """None where the GPUs have no price."""
    demand_factor_max: float
    """Times the demand up to which every queue drains, batches as large as are allowed and weights loaded."""
    replications: int
    replayed: Replayed
    policies: Policies
    models: tuple[ModelAnswer, ...]
    gpus: tuple[GpuAnswer, ...]
    assumptions: tuple[str, ...] = ()
    warnings: tuple[Caution, ...] = ()
    schema: str = field(default="planner.simulation/v1")


def fleet(instances: Sequence[Instances]) -> str:
    """`3 x NC6s_v3 (V100, azure eastus) + 1 x p3.8xlarge (4 x V100, aws us-east-1)`."""
    return " + ".join(
        f"{i.count} x {i.instance} ({'' if i.gpu_count == 1 else f'{i.gpu_count} x '}{i.gpu}"
        f"{', ' + ' '.join(part for part in (i.provider, i.region) if part) if i.provider or i.region else ''})"
        for i in instances
    )


def price(answer: Recommendation) -> str:
    """`$9.18/h, $6,701/month`."""
    return f"{dollars(answer.cost_usd_per_hour)}/h, {dollars(answer.cost_usd_per_month)}/month"


def stale_prices(plan: Plan) -> bool:
    """Whether the oldest price was more than 90 days old when the plan was made."""
    return stale(plan.prices_as_of, date.fromisoformat(plan.created_at[:10]))


def headline(plan: Plan) -> str:
    """The answer in one line."""
    answer = plan.recommendation
    if not answer.models:
        return f"No feasible plan: {counted(len(plan.rejections), 'candidate')} refused."
    dated = f"prices of {plan.prices_as_of}" if plan.prices_as_of else "your own prices"
    told = "Foretold, not measured: " if answer.foretold else ""
    line = f"{told}{fleet(answer.instances) or answer.label}: {price(answer)} ({dated})"
    return line if answer.feasible else f"No feasible plan. The closest: {line}"


def budget_left(model: ModelAnswer) -> float:
    """Share of the allowed misses surely left: promised 99 %, at least 99.6 % came: 0.6. Negative: too many.

    On the mean, where cameras draw phases: then the share of draws says how sure that is.
    """
    seen, target = model.slo_attainment, model.slo_attainment_target
    left = (seen.low if model.draws_kept is None else seen.mean) - target
    allowed = 1 - target
    if not math.isfinite(left):
        return -math.inf
    return left / allowed if allowed > 0 else left


def latency_left(model: ModelAnswer) -> float:
    """Share of the latency promise that the 99th percentile leaves: 100 ms promised, at most 97 ms: 0.03."""
    return 1 - model.p99.high / model.slo_s if math.isfinite(model.p99.high) else -math.inf


def tightest(models: Sequence[ModelAnswer]) -> ModelAnswer:
    """The model with the least room: first in draws of the phases that keep its SLO, then in misses and latency."""

    def room(model: ModelAnswer) -> tuple[float, float, float]:
        kept = model.draws_kept.mean if model.draws_kept else 1.0
        return kept, budget_left(model), latency_left(model)

    return min(models, key=room)


def on_time(model: ModelAnswer) -> str:
    """`99.31 [99.20, 99.43]`, percent with its 95 % interval."""
    a = model.slo_attainment
    return f"{percent(a.mean)} [{percent(a.low)}, {percent(a.high, up=True)}]"


def draws_kept(model: ModelAnswer) -> str:
    """`98.12 %` of the draws of the cameras' phases."""
    return f"{percent(model.draws_kept.mean)} %" if model.draws_kept else "-"


def p99(model: ModelAnswer) -> str:
    """`81.2 ± 0.4 / 100 ms`."""
    got, allowed = seconds(model.p99_s, (model.p99.high - model.p99.low) / 2), seconds(model.slo_s)
    unit = allowed[allowed.rindex(" ") :]
    return f"{got.removesuffix(unit)} / {allowed}"


def slo_line(answer: "Recommendation | Simulation") -> str:
    """Whether the promises hold, and for the tightest model by how much."""
    models, replayed = answer.models, answer.replayed
    missed = [m for m in models if m.slo_met is False]
    open_ = [m for m in models if m.slo_met is None]
    tight = tightest(missed or open_ or models)
    whom = f"{tight.name} with {on_time(tight)} % on time, {promise(tight.slo_attainment_target)} promised"
    if tight.verdict != "stable":
        whom += f"; it is {tight.verdict}"
    elif replayed and (kept := tight.draws_kept):
        whom += f", kept in {percent(kept.mean)} % of the draws of the cameras' phases"
    if missed:
        return f"SLO MISSED: {len(missed)} of {counted(len(models), 'model')}. Worst: {whom}."
    if open_:
        return f"SLO UNDECIDED: {len(open_)} of {counted(len(models), 'model')}. Tightest: {whom}."
    if replayed and too_few_draws(replayed):
        return f"SLO UNDECIDED: each is kept in enough draws of the cameras' phases, not all of them. Tightest: {whom}."
    if not answer.feasible:
        return f"SLO NOT SURE: replays keep it, but the load leaves no headroom. Tightest: {whom}."
    return f"SLO met: {len(models)} of {counted(len(models), 'model')}. Tightest: {whom}."


def too_few_draws(replayed: Replayed) -> bool:
    """Whether the draws that keep every SLO surely are not as many as are asked."""
    together, asked = replayed.draws_kept, replayed.draws_asked
    return together is not None and asked is not None and replayed.draws_mixed == 1 and together.low < asked


def draws_line(answer: Recommendation | Simulation) -> list[str]:
    """In how many draws of the phases every promise is kept, where cameras draw phases."""
    seen = answer.replayed
    if seen is None or seen.draws_kept is None or seen.draws_asked is None:
        return []
    if seen.draws_mixed > 1:
        return [f"Cameras: clocks drift, so each promise counts over {seen.draws_mixed:,} draws of their phases."]
    kept = seen.draws_kept
    count = round(kept.mean * answer.replications) if math.isfinite(kept.mean) else 0
    return [
        f"Cameras: a site keeps the phases it gets. Of {counted(answer.replications, 'draw')} of them {count} keep "
        f"every promise, so at least {percent(kept.low)} % of sites do; {promise(seen.draws_asked)} are asked."
    ]


def replayed_line(answer: Recommendation | Simulation) -> list[str]:
    """How long was replayed, and why that suffices."""
    seen = answer.replayed
    if seen is None:
        return []
    what = "draw" if seen.draws_asked is not None else "replication"
    line = f"Replayed: {counted(answer.replications, what)} of {span(seen.horizon_s)}"
    if seen.repeat_s:
        line += f"; all cameras come round every {span(seen.repeat_s)}"
    elif seen.settling_s:
        line += f"; queues forget a burst within {seconds(seen.settling_s)}"
    bears = answer.demand_factor_max
    if math.isfinite(bears):
        line += f". No queue grows for good at up to {bears:.2f} times the demand"
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
        rules += ["pinned" if p.pinned else "not pinned"]
    rules += [f"scheduling {p.scheduling}", f"routing {p.routing}"]
    rules += ["padded batches"] if p.padded else []
    rules += [f"headroom {promise(p.headroom)}", f"horizon {span(p.horizon_s)}", f"warm-up {span(p.warmup_s)}"]
    rules += [failures(p)]
    return f"Rules: {', '.join(rules)}."


def failures(policies: Policies) -> str:
    """`no failures`, or how often a machine fails and for how long."""
    if (often := policies.failures) is None:
        return "no failures"
    return f"failures every {span(often.mean_time_between_s)} for {span(often.recovery_s)}"


def saving(answer: Recommendation) -> float:
    """Dollars an hour above the lower bound; zero where only rounding is between them."""
    above = answer.cost_usd_per_hour - answer.lower_bound_usd_per_hour
    return above if above > 1e-6 * answer.cost_usd_per_hour else 0.0


def bound_line(answer: Recommendation, rejections: Sequence[Rejection], headroom: float) -> str:
    """What could still be saved at most, and for which plans that is proven."""
    bound = answer.lower_bound_usd_per_hour
    if math.isnan(bound):
        return "What nothing can beat is not known at these prices: only fleets that were replayed were compared."
    known = " on GPUs that have profiles" if any(no.bottleneck is Bottleneck.PROFILE for no in rejections) else ""
    known = " at the bad end of what is predicted" if answer.foretold else known
    rules = f"with {promise(headroom)} headroom, in batches that profiles have, one at a time on a GPU"
    free = answer.lower_bound_full_usd_per_hour
    less = f" Without headroom the bound is {dollars(free)}/h." if free < bound * (1 - 1e-6) else ""
    if not saving(answer):
        proven = "Cheapest" if answer.foretold else "Proven cheapest"
        assumed = not answer.foretold and any(model.evidence is Evidence.ASSUMED for model in answer.models)
        by = " by figures that are partly assumed" if assumed else ""
        return f"{proven}{known}{by}, {rules}: no placement under {dollars(bound)}/h can carry this.{less}"
    most = f"{dollars(saving(answer))}/h ({share(saving(answer) / answer.cost_usd_per_hour, 1)})"
    return (
        f"Cheapest found{known}, {rules}. Nothing under {dollars(bound)}/h can carry this; what lies between was not "
        f"all searched, so at most {most} may still be saved.{less}"
    )


TILDE = "~: foretold, nobody measured that model on that GPU; made at the bad end of its 80 % band."


def certainty(answer: Recommendation, plan: Plan) -> list[str]:
    """How much better another could be, how sure the answer is, and under which rules."""
    sure = [
        *draws_line(answer),
        *([TILDE] if answer.foretold else []),
        *replayed_line(answer),
        sure_line(answer.replications, answer.requests),
        rules_line(plan.policies, answer.models),
    ]
    bound = [bound_line(answer, plan.rejections, plan.policies.headroom)] if answer.feasible else []
    return [*costs_line(answer), *bound, *sure]


def costs_line(answer: Recommendation) -> list[str]:
    """What a request and a camera's stream cost; and a right answer, where some are wrong."""
    unit = answer.unit_costs
    if unit is None or not math.isfinite(unit.per_million_requests):
        return []
    parts = [f"{dollars(unit.per_million_requests)} for a million requests"]
    if unit.per_million_right > 1.001 * unit.per_million_requests:
        parts.append(f"{dollars(unit.per_million_right)} for a million right answers")
    if unit.per_stream_month is not None:
        parts.append(f"{dollars(unit.per_stream_month)} a month for a camera's stream")
    return [f"That is {', '.join(parts)}."]


def told_apart(models: Sequence[ModelAnswer], policies: Policies) -> bool:
    """Whether accuracy says more than the share on time; it does not where frames in time are right, others wrong."""
    return any(percent(m.accuracy.under(policies)) != percent(m.slo_attainment.mean) for m in models)


def model_columns(models: Sequence[ModelAnswer], gpus: Sequence[GpuAnswer], policies: Policies) -> list[Column]:
    """What each model gets and gives; its GPUs by their numbers in the table of GPUs."""
    numbers = {gpu.id: i for i, gpu in enumerate(gpus, 1)}
    apart = told_apart(models, policies)

    def column(title: str, cell: Callable[[ModelAnswer], str], right: bool = False) -> Column:
        return Column(title, [cell(m) for m in models], right)

    def figure(title: str, cell: Callable[[ModelAnswer], str]) -> Column:
        return Column(title, [marked(cell(m), m.foretold) for m in models], right=True)

    return [
        column("model", lambda m: m.name),
        figure("batch", lambda m: str(m.batch_size)),
        column("GPUs", lambda m: ranges([numbers[g] for g in m.gpus])),
        column("mode", lambda m: m.mode),
        *([column("precision", lambda m: m.precision)] if any(m.precision for m in models) else []),
        figure("p99 / SLO", p99),
        figure("on time / SLO", lambda m: f"{on_time(m)} / {promise(m.slo_attainment_target)}"),
        *([figure("draws kept", draws_kept)] if any(m.draws_kept for m in models) else []),
        *([figure("accuracy", lambda m: f"{percent(m.accuracy.under(policies))} %")] if apart else []),
        figure("rate", lambda m: per_second(m.throughput_rps)),
        column("limited by", lambda m: m.bottleneck if m.verdict == "stable" else m.verdict),
        column("evidence", lambda m: str(m.evidence)),
    ]


def gpu_columns(gpus: Sequence[GpuAnswer]) -> list[Column]:
    """What each card does."""

    def column(title: str, cell: Callable[[GpuAnswer], str]) -> Column:
        return Column(title, [cell(g) for g in gpus])

    def figure(title: str, cell: Callable[[GpuAnswer], str]) -> Column:
        return Column(title, [marked(cell(g), g.foretold) for g in gpus], right=True)

    return [
        Column("#", [str(i) for i in range(1, len(gpus) + 1)], right=True),
        column("GPU", lambda g: g.id),
        column("kind", lambda g: g.kind),
        figure("load", lambda g: share(g.offered_load)),
        figure("busy", lambda g: share(g.utilization)),
        figure("loading", lambda g: share(g.load_share, 1)),
        figure("swaps", lambda g: per_second(g.swaps_per_s)),
        figure("memory", lambda g: f"{g.peak_memory_bytes / 1e9:.2f} of {gigabytes(g.memory_bytes)}"),
        figure("power", lambda g: f"{g.mean_power_w:.0f} W"),
        column("models", lambda g: names(g.models)),
    ]


def marked(text: str, foretold: bool) -> str:
    """`~` before a figure that rests on a prediction."""
    return f"~{text}" if foretold else text


def other_columns(plan: Plan) -> list[Column]:
    """The next best answers. `*`: no other is both cheaper and faster."""
    shown, best = plan.alternatives[:OTHERS_SHOWN], plan.recommendation

    def more(other: Recommendation) -> str:
        if not best.feasible or best.cost_usd_per_hour <= 0:
            return ""
        return f"{(other.cost_usd_per_hour / best.cost_usd_per_hour - 1) * 100:+.0f} %"

    def tight(other: Recommendation) -> str:
        model = max(other.models, key=lambda m: m.p99_s / m.slo_s)
        return marked(f"{model.name} {seconds(model.p99_s)} of {seconds(model.slo_s)}", model.foretold)

    return [
        Column("cost", [marked(f"{dollars(o.cost_usd_per_hour)}/h", o.foretold) for o in shown], right=True),
        Column("more", [more(o) for o in shown], right=True),
        Column("GPUs", [str(o.gpu_count) for o in shown], right=True),
        Column("*", ["*" if o.label in plan.pareto else "" for o in shown]),
        Column("what", [o.label for o in shown]),
        Column("slowest p99", [tight(o) for o in shown]),
    ]


def overshoot(no: Rejection) -> float:
    """How far beyond its limit a candidate was, as a share of the limit: 81 ms where 50 ms are allowed: 0.62."""
    return abs(no.observed - no.limit) / no.limit if no.limit else math.inf


def cheaper(plan: Plan, no: Rejection) -> bool:
    """Whether a refused candidate would have been the better buy; any would, where nothing is feasible."""
    best = plan.recommendation
    return not best.feasible or (no.cost_usd_per_hour or 0) < best.cost_usd_per_hour


def nearest(plan: Plan) -> list[Rejection]:
    """Refused fleets that would have been the better buy, the nearest miss first."""
    return sorted((no for no in plan.rejections if is_fleet(no) and cheaper(plan, no)), key=overshoot)


def is_fleet(no: Rejection) -> bool:
    """Whether a fleet was refused (`2 x T4 ...`, or a model on any), not an offer that another is better than."""
    too_dear = no.bottleneck is Bottleneck.COST and re.match(r"\d+ x ", no.candidate) is not None
    return too_dear or no.bottleneck in FLEET


def refusal(no: Rejection) -> str:
    """One refused candidate in words, with the way out."""
    cost = f" at {dollars(no.cost_usd_per_hour)}/h" if no.cost_usd_per_hour is not None else ""
    return f"{no.candidate}{cost}: {sentence(no.reason)} Way out: {sentence(no.way_out)}"


def obstacles(plan: Plan) -> list[str]:
    """What was never tried, for want of a profile, a price or a seller: one line for each kind of obstacle."""
    alike: dict[str, list[str]] = {}
    for no in plan.rejections:
        if no.bottleneck is Bottleneck.PROFILE:
            gpu = no.candidate.rpartition(" on ")[2]
            alike.setdefault(no.reason.replace(f" on {gpu}", "", 1), []).append(gpu)
    remedy = "Way out: measure, or name a folder with --profiles."
    lines = [f"Not tried on {names(gpus, 12)}: {sentence(reason)} {remedy}" for reason, gpus in alike.items()]
    for kind, why in ((Bottleneck.RETIRED, "no longer sold"), (Bottleneck.PRICE, "no such price")):
        those = [no for no in plan.rejections if no.bottleneck is kind and cheaper(plan, no)]
        if those:
            lines.append(f"{names([no.candidate for no in those], 3)}: {why}. Way out: {sentence(those[0].way_out)}")
    return lines


def refusals(plan: Plan, after: int = 0) -> list[str]:
    """Why nothing cheaper works: refused fleets, nearest first but for some, then what was never tried."""
    no, best = nearest(plan), plan.recommendation
    lines = [refusal(one) for one in no[after : after + OTHERS_SHOWN]]
    if len(no) > after + OTHERS_SHOWN:
        lines.append(f"{len(no) - after - OTHERS_SHOWN} more fleets were refused; the JSON has them all.")
    if not no and best.feasible and not saving(best) and math.isfinite(best.lower_bound_usd_per_hour):
        lines.append(
            f"Nothing under {dollars(best.lower_bound_usd_per_hour)}/h can carry the work with "
            f"{promise(plan.policies.headroom)} headroom, whatever the placement."
        )
    return [*lines, *obstacles(plan)]


def sentence(text: str) -> str:
    """`text` with its full stop."""
    text = text.strip()
    return text if not text or text[-1] in ".!?" else f"{text}."


def foretold(plan: Plan) -> list[str]:
    """What the plan rests on in place of profiles, one line for each pair."""

    def within(one: Estimate, show: Callable[[float], str]) -> str:
        return f"{show(one.value)} ({show(one.low)} to {show(one.high)})"

    return [
        f"{p.model} on {p.gpu}: a batch of {p.batch_size} in {within(p.latency_s, seconds)},"
        f" {within(p.memory_bytes, gigabytes)}, loaded in {within(p.load_s, seconds)}; {basis(p)},"
        f" evidence {p.evidence}."
        for p in plan.predictions
    ]


def basis(p: Prediction) -> str:
    """`measured ratio from V100 with nvidia_resnet50`."""
    rule = p.rule.replace("-", " ")
    return f"{rule}{f' from {p.source}' if p.source else ''}{f' with {names(p.probes, 6)}' if p.probes else ''}"


def outlooks_title(plan: Plan) -> str:
    """Heading of GPUs without profiles."""
    might = "be cheaper" if plan.recommendation.feasible else "do it"
    return f"Might {might}, were it measured (foretold, not replayed)"


def outlooks(plan: Plan) -> list[str]:
    """GPUs without profiles that might be cheaper."""
    costs = [(o.label, o.cost_usd_per_hour) for o in plan.outlooks]
    return [f"{label}: {dollars(cost.value)}/h, {span_usd(cost.low, cost.high)}." for label, cost in costs]


PRECISIONS = "At another precision, in batches as large as now (not replayed; its accuracy is not known here)"


def precisions(plan: Plan) -> list[str]:
    """What fp16 and int8 would cost: `fp16: 4 x g4dn.xlarge (T4) for $2.10/h, $1.60 to $2.63, against ...`"""
    return [precision_line(plan.recommendation, outlook) for outlook in plan.precisions]


def precision_line(best: Recommendation, outlook: PrecisionOutlook) -> str:
    """One of them."""
    cost = outlook.cost_usd_per_hour
    now = " and ".join(outlook.instead_of) or "what is measured"
    against = f", against {dollars(best.cost_usd_per_hour)}/h at {now}" if best.feasible else ""
    wants = ", of models that are quantized" if outlook.precision == "int8" else ""
    spread = "" if cost.low == cost.high else f", {span_usd(cost.low, cost.high)}"
    return f"{outlook.precision}{wants}: {outlook.label} for {dollars(cost.value)}/h{spread}{against}."


def measure_next(plan: Plan) -> list[str]:
    """The one measurement that would narrow the answer most."""
    return [f"{m.model} on {m.gpu}: {sentence(m.reason)} There: {m.command}" for m in plan.measure_next]


def cautions(plan: Plan) -> tuple[Caution, ...]:
    """What weakens the answer; stale prices among it, if nothing says so yet."""
    if not stale_prices(plan) or any("price" in caution.what.lower() for caution in plan.warnings):
        return plan.warnings
    what = f"Prices are of {plan.prices_as_of}, more than {STALE_DAYS} days old."
    return (*plan.warnings, Caution(what=what, remedy="Give newer ones with --catalog DIR."))


def more_line(count: int, shown: int, where: str) -> list[str]:
    """What a table leaves out."""
    return [f"  ... and {count - shown} more in {where}."] if count > shown else []


ALIKE = {"mode": "{}", "precision": "at {}", "evidence": "evidence {}"}
"""Columns that are said once, below the table, where all models have the same."""


def told_once(columns: list[Column], width: int) -> tuple[list[Column], list[str]]:
    """A table without the columns `ALIKE` where it is too wide and all models have the same; and the line for them."""
    alike = [c for c in columns if c.title in ALIKE and len(c.cells) > 1 and len(set(c.cells)) == 1]
    if len(fit(columns, width)) == 1 or not alike:
        return columns, []
    said = [ALIKE[c.title].format(c.cells[0]) for c in alike]
    return [c for c in columns if c not in alike], [f"  All: {'; '.join(said)}."]


def replay_tables(answer: Recommendation | Simulation, policies: Policies, screen: Screen) -> list[str]:
    """Table of models, table of GPUs."""
    models, gpus = answer.models, answer.gpus
    bad = frozenset(i for i, m in enumerate(models) if m.slo_met is False)
    columns, shared = told_once(model_columns(models, gpus, policies), screen.width - 2)
    return [
        *("", screen.bold("Models")),
        *table(columns, screen, bad=bad),
        *shared,
        *("", screen.bold("GPUs")),
        *table(gpu_columns(gpus[:GPUS_SHOWN]), screen),
        *more_line(len(gpus), GPUS_SHOWN, "the JSON"),
    ]


def notes(title: str, texts: Sequence[str], screen: Screen) -> list[str]:
    """A titled list of sentences; nothing where there are none."""
    if not texts:
        return []
    return ["", screen.bold(title), *(line for text in texts for line in screen.wrap(f"- {text}", 2, 2))]


def caution_texts(warnings: Sequence[Caution]) -> list[str]:
    """Each with its remedy."""
    return [f"{sentence(c.what)} Remedy: {sentence(c.remedy)}" for c in warnings]


def granted(assumptions: Sequence[str]) -> list[str]:
    """Assumptions, said once where they hold for several models; those that hold for most come first."""
    whose: dict[str, list[str]] = {}
    for assumption in assumptions:
        head, _, text = assumption.partition(": ")
        whom = head.split(", ") if all(re.fullmatch(r"\S+ on \S+", name) for name in head.split(", ")) else []
        whose.setdefault(text if whom else assumption, []).extend(whom)
    ordered = sorted(whose.items(), key=lambda item: -len(item[1]))
    return [f"{names(whom, 3)}: {sentence(text)}" if whom else sentence(text) for text, whom in ordered]


def summary(answer: Recommendation | Simulation, lines: Sequence[str], screen: Screen) -> list[str]:
    """Below the headline: the promises, then what else is known."""
    said = screen.wrap(slo_line(answer), hang=2)
    slo = [screen.good(line) if answer.feasible else screen.bad(line) for line in said]
    return [*slo, *(wrapped for line in lines for wrapped in screen.wrap(line, hang=2))]


def refusals_title(plan: Plan) -> str:
    """Heading of what was refused."""
    best = plan.recommendation
    return "Why nothing cheaper works" if best.feasible else "What was refused, and why"


def plan_table(plan: Plan, screen: Screen) -> str:
    """The answer first, then what it rests on."""
    lines = [screen.bold(line) for line in screen.wrap(headline(plan), hang=2)]
    if (answer := plan.recommendation).models:
        lines += summary(answer, certainty(answer, plan), screen)
        lines += replay_tables(answer, plan.policies, screen)
    lines += ways_section(plan, screen)
    if plan.alternatives:
        lines += ["", screen.bold("Next best"), *table(other_columns(plan), screen)]
        lines += more_line(len(plan.alternatives), OTHERS_SHOWN, "the JSON")
    lines += notes(refusals_title(plan), refusals(plan), screen)
    lines += notes(outlooks_title(plan), outlooks(plan), screen)
    lines += notes(PRECISIONS, precisions(plan), screen)
    lines += notes(FORETOLD, foretold(plan), screen)
    lines += [screen.warn(line) for line in notes("Cautions", caution_texts(cautions(plan)), Screen(screen.width))]
    taken = granted(plan.assumptions)
    lines += notes("Taken for granted", taken[:OTHERS_SHOWN], screen)
    lines += more_line(len(taken), OTHERS_SHOWN, "`planner explain`")
    lines += notes("Measure this next", measure_next(plan), screen)
    return "\n".join(lines) + "\n"


def simulation_headline(run: Simulation) -> str:
    """What was replayed, in one line."""
    kinds = [gpu.kind for gpu in run.gpus]
    cards = " + ".join(f"{kinds.count(kind)} x {kind}" for kind in dict.fromkeys(kinds))
    cost = "" if run.cost_usd_per_hour is None else f" at {dollars(run.cost_usd_per_hour)}/h"
    speed = run.requests / run.wall_s if run.wall_s > 0 else 0
    told = "Foretold, not measured: " if any(model.foretold for model in run.models) else ""
    return f"{told}{cards}{cost}: {counted(run.requests, 'request')} replayed in {run.wall_s:.2f} s ({speed:,.0f}/s)"


def sure_of(run: Simulation) -> list[str]:
    """How sure a replay is, and under which rules."""
    told = [TILDE] if any(model.foretold for model in run.models) else []
    sure = [sure_line(run.replications, 0), rules_line(run.policies, run.models)]
    return [*draws_line(run), *told, *replayed_line(run), *sure]


def simulation_table(run: Simulation, screen: Screen) -> str:
    """The same tables for a deployment one named oneself."""
    lines = [screen.bold(line) for line in screen.wrap(simulation_headline(run), hang=2)]
    lines += summary(run, sure_of(run), screen)
    lines += replay_tables(run, run.policies, screen)
    lines += [screen.warn(line) for line in notes("Cautions", caution_texts(run.warnings), Screen(screen.width))]
    lines += notes("Taken for granted", granted(run.assumptions), screen)
    return "\n".join(lines) + "\n"


def bullets(title: str, texts: Sequence[str]) -> list[str]:
    """A titled Markdown list; nothing where there are none."""
    return ["", f"#### {title}", "", *(f"- {text}" for text in texts)] if texts else []


def replay_markdown(answer: Recommendation | Simulation, policies: Policies) -> list[str]:
    """Both tables in Markdown."""
    return [
        *("", "#### Models", "", *markdown(model_columns(answer.models, answer.gpus, policies))),
        *("", "#### GPUs", "", *markdown(gpu_columns(answer.gpus))),
    ]


def plan_markdown(plan: Plan) -> str:
    """A report to paste into an issue."""
    lines = [f"### {plan.scenario or 'Plan'}", "", f"**{headline(plan)}**"]
    if (answer := plan.recommendation).models:
        facts = [slo_line(answer), *certainty(answer, plan)]
        lines += ["", *(f"- {fact}" for fact in facts)]
        lines += replay_markdown(answer, plan.policies)
    lines += ways_markdown(plan)
    if plan.alternatives:
        lines += ["", "#### Next best", "", *markdown(other_columns(plan))]
    lines += bullets(refusals_title(plan), refusals(plan))
    lines += bullets(outlooks_title(plan), outlooks(plan))
    lines += bullets(PRECISIONS, precisions(plan))
    lines += bullets(FORETOLD, foretold(plan))
    lines += bullets("Cautions", caution_texts(cautions(plan)))
    lines += bullets("Taken for granted", granted(plan.assumptions))
    lines += bullets("Measure this next", measure_next(plan))
    made = ", ".join(f"{name} {version}" for name, version in plan.versions.items())
    lines += ["", f"Made {plan.created_at} with {made}; seed {plan.seed}; scenario sha256 `{plan.scenario_sha256}`."]
    return "\n".join(lines) + "\n"


def simulation_markdown(run: Simulation) -> str:
    """A report to paste into an issue."""
    lines = [f"### {run.scenario or 'Simulation'}", "", f"**{simulation_headline(run)}**", ""]
    facts = [slo_line(run), *sure_of(run)]
    lines += [*(f"- {fact}" for fact in facts), *replay_markdown(run, run.policies)]
    lines += bullets("Cautions", caution_texts(run.warnings))
    lines += bullets("Taken for granted", granted(run.assumptions))
    return "\n".join(lines) + "\n"


def to_csv(models: Sequence[ModelAnswer]) -> str:
    """One row for each model, in seconds and requests per second; several GPUs are parted by blanks."""
    out = io.StringIO()
    writer = csv.DictWriter(out, CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(csv_row(model) for model in models)
    return out.getvalue()


CSV_COLUMNS = [
    *("name", "batch_size", "max_queue_delay_s", "gpus", "mode", "slo_s", "slo_attainment_target"),
    *("slo_attainment", "slo_attainment_low", "slo_attainment_high", "slo_met"),
    *("draws_kept", "draws_kept_low", "draws_kept_high"),
    *("mean_s", "p50_s", "p90_s", "p95_s", "p99_s", "p99_low_s", "p99_high_s"),
    *("throughput_rps", "offered_rps", "goodput_rps"),
    *("dropped_fraction", "processed_fraction", "mean_batch_size", "joules_per_inference"),
    *("accuracy_lost_is_wrong", "accuracy_reuse_last"),
    *("verdict", "bottleneck", "evidence", "foretold", "precision"),
]


def csv_row(model: ModelAnswer) -> dict[str, object]:
    """A model's fields, its intervals spread over columns."""
    punctual = model.slo_attainment
    told = str(model.foretold).lower()
    met = "" if model.slo_met is None else str(model.slo_met).lower()
    row = {key: value for key, value in asdict(model).items() if key not in ("p99", "accuracy", "replicas")}
    row |= {"gpus": " ".join(model.gpus), "slo_met": met, "foretold": told}
    row |= {"slo_attainment": punctual.mean}
    row |= {"slo_attainment_low": punctual.low, "slo_attainment_high": punctual.high}
    drawn = model.draws_kept
    row |= {"draws_kept": drawn.mean if drawn else ""}
    row |= {"draws_kept_low": drawn.low if drawn else "", "draws_kept_high": drawn.high if drawn else ""}
    row |= {"p99_low_s": model.p99.low, "p99_high_s": model.p99.high}
    row |= {f"accuracy_{rule}": value for rule, value in asdict(model.accuracy).items()}
    return {key: f"{value:.9g}" if isinstance(value, float) else value for key, value in row.items()}


def render(answer: Plan | Simulation, form: Format, screen: Screen) -> str:
    """An answer in one of the formats."""
    match form, answer:
        case Format.JSON, _:
            return to_json(answer)
        case Format.CSV, Plan(recommendation=best):
            return to_csv(best.models)
        case Format.CSV, Simulation(models=models):
            return to_csv(models)
        case Format.MD, Plan():
            return plan_markdown(answer)
        case Format.MD, Simulation():
            return simulation_markdown(answer)
        case Format.TABLE, Plan():
            return plan_table(answer, screen)
        case _, Simulation():
            return simulation_table(answer, screen)
    raise AssertionError(form)
