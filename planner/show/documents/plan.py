"""Plans as documents: the answer first, then what it costs, does, depends on and rests on."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import isfinite

from planner.catalog.sold import OWN
from planner.model.candidate import Candidate
from planner.model.choices import PriceKind
from planner.model.plan import (
    Drawn,
    Estimate,
    Instances,
    KindLeftOut,
    ModelAnswer,
    OfOneKind,
    Plan,
    Prediction,
    Recommendation,
    Rejection,
    Searched,
    nearest,
    overshoot,
)
from planner.model.statement import Code
from planner.show.charts import plan as charts
from planner.show.charts.timeline import timeline
from planner.show.document import (
    PAGE,
    TEXT,
    Block,
    Cell,
    CodeBlock,
    Column,
    Document,
    DrawnCharts,
    FactList,
    Items,
    Rows,
    Section,
    Stat,
    Stats,
    Table,
    Text,
    Tone,
)
from planner.show.documents import pipelines, replay
from planner.show.documents.uncertain import DOUBTS_SHOWN, doubts
from planner.show.text import plan as prose
from planner.show.text import reasons
from planner.show.text.explained.plan import BINDING, bindings, sensitivity
from planner.show.text.merging import reasons as merging_reasons
from planner.show.text.merging import ways_section
from planner.units.reading import HOURS_PER_MONTH
from planner.units.writing import counted, dollars, gigabytes, names, seconds, share, signed_share
from planner.words.candidates import candidate_name, subject_name
from planner.words.statements import reason, rejection_reason, rejection_remedy
from simulator.grouping import grouped
from simulator.world.profile import Evidence

NO_GPU_NEEDED = "No GPU is needed."
NOT_PRICED = (
    "Not in it: disks, network traffic, load balancers, taxes, support, discounts by contract, and people's work. "
    f"Every machine is paid for all of {HOURS_PER_MONTH:g} hours a month."
)
LATENCY_NOTE = (
    "Finished requests {of}; the axis is logarithmic. Solid line: median; dashed: 99th percentile; red: the latency of "
    "the SLO. Percentiles are of these requests."
)
ALL_REPLICATIONS = "of all replications"
FIRST_LOOK = "of the first replications, mostly 160 (of the others it is only counted which meet every SLO)"
PRICE_TITLES = {
    PriceKind.SPOT: "spot $/h",
    PriceKind.RESERVED_1Y: "1 year $/h",
    PriceKind.RESERVED_3Y: "3 years $/h",
}
"""Columns of other kinds of price."""
PRICE_NAMES = {
    PriceKind.SPOT: "Spot prices",
    PriceKind.RESERVED_1Y: "Prices reserved for 1 year",
    PriceKind.RESERVED_3Y: "Prices reserved for 3 years",
}
KINDS_SHOWN = 6
AT = "recommendation."
"""Where the answer stands in the JSON."""
SPARES_PAID = "$/h is with spares; GPUs are without."
FEW_NOTE = "`+`: by the first replications alone, not confirmed; to be as sure as the answer, it may take more GPUs."
PRECISIONS_NOTE = "Precisions differ between kinds: `precision: fp32` for each model compares them alike."
BOTH_NOTE = "`*`: no other is both cheaper and faster."


def document(plan: Plan) -> Document:
    """A plan."""
    best = plan.recommendation
    measurements = [Items(reasons.measure_next(plan, plan.measure_next))]
    found_none = "No fleet was found that meets every SLO: what was rejected, and why, is below."
    nothing = "" if plan.interrupted_before else found_none
    return Document(
        name=plan.scenario or "Plan",
        headline=prose.headline(plan),
        lead=lead(plan) if best.models else [Text(nothing, Tone.BAD, views=PAGE)],
        sections=[
            replay.where(best),
            Section("What it costs", cost(plan), id="cost", link="Cost", views=PAGE),
            Section("Measure this next", measurements, id="measure", views=PAGE),
            *replay.sections(
                best, plan.policies, AT, [Section(BINDING, [Items(bindings(best))], folded=True, views=PAGE)]
            ),
            *pipelines.sections(best, AT),
            Section("Each kind of GPU alone", by_gpu(plan), id="kinds", link="Kinds"),
            Section("How long requests take", [DrawnCharts(lambda: latency(plan))], id="latency", link="Latency"),
            Section("Second by second", [DrawnCharts(lambda: timeline(plan))], id="time"),
            ways_section(plan, merging_reasons(plan)),
            Section("Next best", others(plan), id="others"),
            rejected(plan),
            Section("What the answer depends on", depends(plan), id="depends"),
            Section("What it rests on", evidence(plan), id="evidence", link="Evidence"),
            Section("Measure this next", measurements, views=TEXT),
            Section("Scenario", scenario(plan), id="scenario", views=PAGE),
            Section("How it was made", [FactList(list(prose.provenance(plan)))], id="made", link="Made"),
        ],
        first_page=first_page(plan) if best.models else [],
    )


def first_page(plan: Plan) -> list[Section]:
    """Of a printed plan, after the answer: what runs where, what each kind of GPU costs, what is uncertain."""
    kinds = [column for column in kind_columns(plan) if column.title not in ("busy", "power", "what")]
    fleet = replay.where(plan.recommendation)
    return [
        Section(fleet.title, [block for block in fleet.blocks if isinstance(block, DrawnCharts)], views=PAGE),
        Section("Each kind of GPU alone", [Table(kinds)] if plan.by_gpu else [], views=PAGE),
        Section("What is uncertain", [Items(doubts(plan).texts[:DOUBTS_SHOWN])], views=PAGE),
    ]


def lead(plan: Plan) -> list[Block]:
    """How the SLOs stand, the first figures, and how sure they are."""
    best = plan.recommendation
    hourly = money(best.cost_usd_per_hour, f"{AT}cost_usd_per_hour", "/h", prose.tilde(best))
    monthly = money(best.cost_usd_per_month, f"{AT}cost_usd_per_month")
    first = [Stat("cost", hourly, prose.dated(plan)), Stat("a month", monthly, f"{HOURS_PER_MONTH:g} hours")]
    if (unit := best.unit_costs) and isfinite(unit.per_million_requests):
        right = f"{dollars(unit.per_million_right)} where answered rightly" if isfinite(unit.per_million_right) else ""
        requests = money(unit.per_million_requests, f"{AT}unit_costs.per_million_requests")
        first.append(Stat("a million requests", requests, right))
    numbers = Stats([*first, *replay.stats(best, AT)])
    none_needed = [Text(NO_GPU_NEEDED)] if without_gpu(plan) else []
    return [
        replay.verdict(best),
        numbers,
        *none_needed,
        *map(Text, prose.certainty(best, plan)),
    ]


def without_gpu(plan: Plan) -> bool:
    """Whether processors do it all."""
    processors = {name for one in plan.assumptions if one.code is Code.PROCESSOR for name in one.subjects}
    return {gpu.kind for gpu in plan.recommendation.gpus} <= processors


def money(amount: float, key: str = "", unit: str = "", mark: str = "") -> Cell:
    """Dollars."""
    return Cell(f"{mark}{dollars(amount)}{unit}", amount, key)


def cost(plan: Plan) -> list[Block]:
    """The bill, and beside it other kinds of GPU, and what speed costs."""
    others = [DrawnCharts(lambda: charts.by_gpu(plan)), DrawnCharts(lambda: charts.pareto(plan))]
    return [*bill(plan.recommendation), *others]


def bill(best: Recommendation) -> list[Block]:
    """Machines that are rented, at which price and of when."""
    if not best.instances:
        return []
    rows = Rows.at(f"{AT}instances", best.instances)

    hourly = money(best.cost_usd_per_hour, f"{AT}cost_usd_per_hour")
    monthly = money(best.cost_usd_per_month, f"{AT}cost_usd_per_month")
    count = Cell(str(sum(one.count for one in best.instances)))
    columns = [
        Column("instance", [one.instance for one in best.instances], total="all"),
        rows.words("where", lambda one: " ".join(filter(None, (one.provider, one.region))) or "your own"),
        rows.figures("GPUs in one", lambda one: f"{one.gpu_count} x {one.gpu}", "gpu_count"),
        rows.shown("machines", "count", total=count),
        *spares(best),
        rows.shown("$/h each", "usd_per_hour", dollars),
        rows.words("price as of", lambda one: one.price_as_of or "-"),
        rows.worked("$/h", lambda one: one.paid * one.usd_per_hour, dollars, total=hourly),
        rows.figures("hours", lambda _: f"{HOURS_PER_MONTH:g}", value=lambda _: HOURS_PER_MONTH),
        rows.worked("$/month", lambda one: one.paid * one.usd_per_hour * HOURS_PER_MONTH, dollars, total=monthly),
    ]
    return [Table(columns, stacked=True), Text(NOT_PRICED, Tone.NOTE)]


def spares(best: Recommendation) -> Iterator[Column]:
    """Machines that stand ready, where there are any."""
    if any(one.spares for one in best.instances):
        yield Rows.at(f"{AT}instances", best.instances).shown("spares", "spares")


def latency(plan: Plan) -> Iterator[Block]:
    """A histogram for each model."""
    if plan.latency:
        seen = plan.recommendation.replayed
        of = FIRST_LOOK if seen and Drawn.SPEEDS in seen.drawn else ALL_REPLICATIONS
        yield Text(LATENCY_NOTE.format(of=of), Tone.NOTE)
        yield from charts.latency(plan)


def by_gpu(plan: Plan) -> list[Block]:
    """The cheapest fleet of each kind of GPU: at which prices, how busy, how sure, on what evidence."""
    tables = [Table(kind_columns(plan), stacked=True), missing_kinds(plan)]
    return [*tables, *(Text(line) for line in kind_notes(plan))]


def missing_kinds(plan: Plan) -> Table:
    """A row for each kind of GPU that could carry the work, where no fleet meets every SLO."""
    rows = Rows(reasons.kinds_that_miss(plan))

    def tried(one: KindLeftOut) -> str:
        return ", ".join(map(str, one.gpus_tried)) or "none"

    columns = [
        rows.words("GPU", "gpu"),
        rows.shown("GPUs at least", "gpus_at_least"),
        rows.shown("$/h at least", "usd_per_hour_at_least", dollars),
        rows.words("GPUs tried", tried),
        *differing(rows, ("precision",)),
        rows.words("why not", lambda one: reason(one.why), wide=True),
    ]
    return Table(columns, shown=KINDS_SHOWN, stacked=True)


def kind_notes(plan: Plan, prices: Sequence[PriceKind] = tuple(PRICE_TITLES)) -> list[str]:
    """What `+` means where it stands in the table, whether precisions differ, and the kinds without a row."""
    spared = bool(plan.policies.survive and (plan.by_gpu or plan.by_gpu_left_out))
    tables = plan.by_gpu, reasons.kinds_that_miss(plan)
    mixed = any(len({one.precision for one in table}) > 1 for table in tables)
    notes = {
        FEW_NOTE: any(prose.or_more(one, plan.recommendation) for one in plan.by_gpu),
        PRECISIONS_NOTE: mixed,
        SPARES_PAID: spared,
    }
    told = [note for note, holds in notes.items() if holds]
    return [
        *told,
        *weaker_memory(plan),
        *price_dates(plan, prices),
        *on_demand_instead(plan),
        *rented_instead(plan),
        *reasons.kinds_left_out(plan),
    ]


def on_demand_instead(plan: Plan) -> Iterator[str]:
    """Beside machines at another kind of price, what the cheapest fleet of one kind of GPU costs on demand."""
    paid = {one.price_kind for one in plan.recommendation.instances} - {None, PriceKind.ON_DEMAND}
    priced = [(usd, one) for one in plan.by_gpu if (usd := price_of(PriceKind.ON_DEMAND.value, one)) is not None]
    if not paid or not priced:
        return
    usd, one = min(priced, key=lambda pair: pair[0])
    about = "about " if prose.or_more(one, plan.recommendation) else ""
    less = ", which is less than this plan" if usd < plan.recommendation.cost_usd_per_hour else ""
    name = f"{candidate_name(one.candidate)}{reasons.and_spares(plan, one.candidate)}"
    yield f"On demand: {name} costs {about}{dollars(usd)}/h{less}."


def rented_instead(plan: Plan) -> list[str]:
    """Beside machines of one's own, the cheapest fleet that was found without any."""
    if all_rented(plan.recommendation.candidate):
        return []
    each: list[Recommendation | OfOneKind] = [*plan.alternatives, *plan.by_gpu]
    found = [one for one in each if all_rented(one.candidate)]
    if not found:
        return []
    best = min(found, key=lambda one: one.cost_usd_per_hour)
    about = "about " if prose.or_more(best, plan.recommendation) else ""
    price = f"{about}{dollars(best.cost_usd_per_hour)}/h"
    name = f"{candidate_name(best.candidate)}{reasons.and_spares(plan, best.candidate)}"
    return [f"Without your own machines: {name}, {price}."]


def all_rented(candidate: Candidate) -> bool:
    """No machine of one's own in it."""
    return all(one.provider != OWN for one in candidate.machines)


def kind_columns(plan: Plan) -> list[Column]:
    """A row for each kind of GPU."""
    rows = Rows.at("by_gpu", plan.by_gpu)

    def sign(one: OfOneKind) -> str:
        return prose.or_more(one, plan.recommendation)

    return [
        rows.words("GPU", "gpu"),
        rows.words("from", sellers, once="from {}"),
        rows.figures("GPUs", lambda one: f"{one.gpu_count}{sign(one)}", "gpu_count"),
        rows.figures("$/h", lambda one: f"{dollars(one.cost_usd_per_hour)}{sign(one)}", "cost_usd_per_hour"),
        rows.worked("$/month", lambda one: one.cost_usd_per_hour * HOURS_PER_MONTH, dollars),
        *other_prices(rows),
        *dates(rows),
        rows.shown("busy", "utilization", share),
        rows.figures("power", lambda one: f"{one.power_w:.0f} W", "power_w"),
        rows.figures("SLOs hold in", held, value=lambda one: one.slo_held.mean if one.slo_held else None),
        rows.words("evidence", evidence_of_kind, once="evidence {}"),
        *differing(rows),
        Column("what", [candidate_name(one.candidate) for one in plan.by_gpu], page_only=True),
    ]


def evidence_of_kind(one: OfOneKind) -> str:
    """Where its speeds come from; of plans that do not say, the weakest evidence."""
    return "predicted" if one.predicted else str(one.speed_evidence or one.evidence)


def weaker_memory(plan: Plan) -> Iterator[str]:
    """The kinds of GPU on which memory, or the loading of weights, rests on less than speeds do."""
    weak = [one for one in plan.by_gpu if one.evidence in (Evidence.PREDICTED, Evidence.ASSUMED)]
    others = [one for one in weak if evidence_of_kind(one) not in (str(one.evidence), "predicted")]
    for ground, gpus in grouped((one.evidence, one.gpu) for one in others).items():
        yield f"Evidence is that of speeds; memory or weight loading is {ground} on {names(gpus)}."


def sellers(one: OfOneKind) -> str:
    """`aws, azure`: who sells its machines; `own`."""
    return ", ".join(dict.fromkeys(machine.provider for machine in one.candidate.machines))


def dates(rows: Rows[OfOneKind]) -> Iterator[Column]:
    """Of when prices are, but of machines of one's own."""
    if any(one.prices_as_of for one in rows.items):
        yield rows.words("prices of", lambda one: one.prices_as_of or "-", once="prices of {}")


def other_prices(rows: Rows[OfOneKind]) -> Iterator[Column]:
    """Each other kind of price at which some fleet costs another sum."""
    for kind in shown_prices(rows.items):
        get = partial(price_of, kind.value)
        yield rows.worked(PRICE_TITLES[kind], get, dollars, f"usd_per_hour_by_price.{kind.value}")


def shown_prices(fleets: Sequence[OfOneKind]) -> list[PriceKind]:
    """Other kinds of price at which some of these fleets cost another sum."""
    return [
        kind for kind in PRICE_TITLES if any(price_of(kind, one) not in (None, one.cost_usd_per_hour) for one in fleets)
    ]


def price_dates(plan: Plan, prices: Sequence[PriceKind]) -> Iterator[str]:
    """`Spot prices of H100 are from 2025-01-01.`: dates of other kinds of price, where they differ."""
    for kind in (one for one in shown_prices(plan.by_gpu) if one in prices):
        dated = ((one.prices_as_of_by_price.get(kind, one.prices_as_of), one) for one in plan.by_gpu)
        others = grouped((as_of, one.gpu) for as_of, one in dated if as_of != one.prices_as_of)
        for as_of, gpus in others.items():
            yield f"{PRICE_NAMES[kind]} of {names(gpus)} are from {as_of}."


def price_of(kind: str, one: OfOneKind) -> float | None:
    """Dollars an hour of its fleet at a kind of price; None where it is not sold so."""
    return one.usd_per_hour_by_price.get(kind)


def differing(
    rows: Rows[OfOneKind] | Rows[KindLeftOut], keys: Sequence[str] = ("precision", "runtime")
) -> Iterator[Column]:
    """Precision and runtime, where they differ."""
    for key in keys:
        if len({getattr(one, key) for one in rows.items}) > 1:
            yield rows.words(key, key)


def held(one: OfOneKind) -> str:
    """`99 % of 160`: the share of replications that meet every SLO; `only 92 % of 12` where fewer than asked."""
    if one.slo_held is None:
        return "not confirmed" if one.searched is Searched.SCREENED else "-"
    of = f" of {one.replications:,}" if one.replications else ""
    return f"{'only ' if one.undecided else ''}{share(one.slo_held.mean)}{of}"


def others(plan: Plan) -> list[Block]:
    """The next best answers. `*`: no other is both cheaper and faster."""
    if not plan.alternatives:
        return []
    best, rows = plan.recommendation, Rows.at("alternatives", plan.alternatives, prose.tilde)
    unmarked = Rows.at("alternatives", plan.alternatives)
    letters = [charts.letter(i) for i in range(1, len(plan.alternatives) + 1)]

    def sign(other: Recommendation) -> str:
        return prose.or_more(other, best)

    def more(other: Recommendation) -> float | None:
        if not best.feasible or best.cost_usd_per_hour <= 0:
            return None
        return other.cost_usd_per_hour / best.cost_usd_per_hour - 1

    def more_text(other: Recommendation) -> str:
        part = more(other)
        return "" if part is None else signed_share(part, 0)

    columns = [
        Column("", letters, page_only=True),
        rows.figures("cost", lambda o: f"{dollars(o.cost_usd_per_hour)}{sign(o)}/h", "cost_usd_per_hour"),
        unmarked.figures("more", more_text, value=more),
        unmarked.figures("GPUs", lambda o: f"{o.gpu_count}{sign(o)}", "gpu_count"),
        Column("*", ["*" if place in plan.pareto else "" for place in range(1, len(plan.alternatives) + 1)]),
        rows.words("what", lambda o: candidate_name(o.candidate), wide=True),
        Column("slowest p99", [slowest(o) for o in plan.alternatives]),
        rows.figures("power", lambda o: f"{o.power_w:.0f} W", "power_w", page_only=True),
    ]
    note = FEW_NOTE if any(map(sign, plan.alternatives)) else ""
    marked = BOTH_NOTE if any(plan.pareto) else ""
    return [Table(columns, shown=reasons.OTHERS_SHOWN, stacked=True), Text(marked, Tone.NOTE), Text(note, Tone.NOTE)]


def slowest(answer: Recommendation) -> Cell:
    """The model that takes most of its SLO."""
    model = max(answer.models, key=lambda m: m.p99_shown_s / m.slo_s)
    text = f"{prose.tilde(model)}{model.name} {seconds(model.p99_shown_s)} of {seconds(model.slo_s)}"
    return Cell(text, model.p99_shown_s / model.slo_s)


def rejected(plan: Plan) -> Section:
    """Why nothing cheaper works, and every candidate that was rejected."""
    near = nearest(plan)
    ordered = [*near, *sorted((no for no in plan.rejections if no not in near), key=overshoot)]
    rows = Rows(ordered, [f"rejections.{plan.rejections.index(no)}" for no in ordered])

    def cost_cell(no: Rejection) -> Cell:
        usd = no.cost_usd_per_hour
        return (
            Cell("-") if usd is None else money(usd, f"rejections.{plan.rejections.index(no)}.cost_usd_per_hour", "/h")
        )

    def beside_limit(no: Rejection) -> str:
        return f"{prose.in_unit(no.observed, no.unit)} / {prose.in_unit(no.limit, no.unit)}" if no.unit else "-"

    columns = [
        rows.words("candidate", lambda no: subject_name(no.subject)),
        Column("cost", [cost_cell(no) for no in ordered], right=True),
        rows.words("stopped by", "bottleneck"),
        rows.figures("had / limit", beside_limit, value=overshoot),
        rows.words("why", lambda no: reasons.sentence(rejection_reason(no)), wide=True),
        rows.words("what may help", lambda no: reasons.sentence(rejection_remedy(no)), wide=True),
    ]
    title = f"All that were rejected{', without spares' if plan.policies.survive else ''}: {len(ordered)}"
    all_rejections = Section(title, [Table(columns, stacked=True)], folded=True, views=PAGE)
    blocks = [Items(reasons.refusals(plan)), all_rejections]
    return Section(reasons.refusals_title(plan), blocks, id="refused", link="Rejected")


def depends(plan: Plan) -> list[Block]:
    """How far load, price and SLO may move, and fleets that might be cheaper."""
    best = plan.recommendation
    moves = sensitivity(plan, best) if best.feasible else []
    might = [Items(reasons.outlooks(plan), views=TEXT), DrawnCharts(lambda: charts.outlooks(plan))]
    return [
        Items(moves, views=PAGE),
        Section(reasons.outlooks_title(plan), might),
        Section(reasons.PRECISIONS, [Items(reasons.precisions(plan))]),
    ]


def evidence(plan: Plan) -> list[Block]:
    """Predictions, warnings and assumptions."""
    assumptions = reasons.assumption_lines(plan.assumptions)
    most = Items(assumptions, shown=reasons.OTHERS_SHOWN, rest="... and {} more in `planner explain`.")
    predictions = [
        Items(reasons.predicted(plan), views=TEXT),
        Table(prediction_columns(plan), stacked=True, views=PAGE),
    ]
    return [
        Section(reasons.PREDICTED, predictions),
        Section("Warnings", [Items(reasons.warning_texts(reasons.warnings_of(plan)))], tone=Tone.WARN),
        Section("Where the figures come from", [sources(plan)], views=PAGE),
        Section("Assumptions", [most]),
    ]


def prediction_columns(plan: Plan) -> list[Column]:
    """Figures that stand in for profiles."""
    rows: Rows[Prediction] = Rows(plan.predictions)

    def band(title: str, get: Callable[[Prediction], Estimate], show: Callable[[float], str]) -> Column:
        def text(p: Prediction) -> str:
            return f"{show(get(p).value)} ({show(get(p).low)} to {show(get(p).high)})"

        return rows.figures(title, text, value=lambda p: get(p).value)

    return [
        rows.words("model", "model"),
        rows.words("GPU", "gpu"),
        rows.shown("batch", "batch_size"),
        band("time", lambda p: p.latency_s, seconds),
        rows.shown("memory", "memory_bytes", gigabytes),
        rows.shown("reserved", "reserved_bytes", gigabytes),
        band("load", lambda p: p.load_s, seconds),
        rows.words("by", reasons.basis, wide=True),
    ]


def sources(plan: Plan) -> Table:
    """Where every kind of figure comes from."""
    best = plan.recommendation
    lines = [(f"{m.name}: times, memory, loads", prose.ground(m), origin(m), kinds(m, best)) for m in best.models]
    lines += [price_source(i) for i in best.instances]
    if best.models:
        runs = counted(best.replications, "replication")
        lines.append(("latency, share on time, load, memory used, power", "simulated", runs, "95 % intervals"))
        lines.append(("SLOs, demand, rules", "given", "the scenario", ""))
    titles = ("figure", "evidence", "source", "of")
    return Table([Column(title, [line[i] for line in lines]) for i, title in enumerate(titles)], stacked=True)


def origin(m: ModelAnswer) -> str:
    """`profile`, or `predicted`."""
    return "predicted" if m.predicted else "profile"


def kinds(model: ModelAnswer, best: Recommendation) -> str:
    """Kinds of GPU that a model runs on."""
    return ", ".join(dict.fromkeys(gpu.kind for gpu in best.gpus if gpu.id in model.gpus))


def price_source(one: Instances) -> tuple[str, str, str, str]:
    """Where a price comes from."""
    if one.price_as_of:
        return f"price of {one.instance}", "published", one.price_as_of, one.gpu
    return f"price of {one.instance}", "given", "the scenario", one.gpu


def scenario(plan: Plan) -> list[Block]:
    """The text that was planned, and what the command line changed."""
    changes = [f"--set {override}" for override in plan.scenario_overrides]
    return [
        Text(prose.scenario_note(plan), Tone.BAD),
        Text("Changed on the command line:" if changes else ""),
        CodeBlock("\n".join(changes)),
        CodeBlock(plan.scenario_text),
    ]
