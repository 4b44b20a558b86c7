"""Training plans as documents: the answer first, then the options as a table and a picture."""

from collections.abc import Sequence
from pathlib import Path

from calibrate.io.process import ONE_THREAD
from planner.questions.training.answer.option import TrainingOption, TrainingPlan
from planner.questions.training.check import Check
from planner.questions.training.memory import Fits
from planner.questions.training.plan import kilowatt_hours
from planner.show.charts.kit import png
from planner.show.charts.training import MARKS, cost_by_time, graphs, picture
from planner.show.document import (
    MORE_WITH_V,
    PAGE,
    TERMINAL,
    Cell,
    CodeBlock,
    Column,
    Document,
    DrawnCharts,
    Items,
    Rows,
    Section,
    Stat,
    Stats,
    Table,
    Text,
    Tone,
)
from planner.show.documents.uncertain import DOUBTS_SHOWN
from planner.show.forms import written
from planner.show.text import training as prose
from planner.show.text.reasons import warning_texts
from planner.units.writing import Format, Screen, counted, seconds, signed_share

SHOWN = 24
"""Options in a table; `--format json` has all."""
FEW = 5
"""Options in brief."""


def document(plan: TrainingPlan) -> Document:
    """A training plan."""
    shown = chosen(plan)
    options = Table(columns(plan, shown), unfit(shown), stacked=True)
    rest = Text(others(plan, shown, "--format json"), indent=2)
    warnings = (*plan.unused, *plan.assumptions, *plan.feeding, *plan.warnings, *warning_texts(plan.stale_prices))
    notes = [Text(note) for note in (*warnings, *prose.remarks(plan, shown))]
    drawn = picture(shown)
    title = "Cost by time, both logarithmic; *: no other is both faster and cheaper:" if drawn else ""
    return Document(
        name=plan.name,
        headline=prose.headline(plan),
        lead=[*answers(plan), stats(plan)],
        sections=[
            Section("Options", [options, rest], id="options", titled=PAGE),
            Section("", [Text(title, views=TERMINAL), CodeBlock("\n".join(drawn), views=TERMINAL)]),
            Section("Cost by time", [DrawnCharts(lambda: cost_by_time(plan, shown))], id="chart"),
            Section("What the figures rest on", notes, id="evidence", titled=PAGE),
        ],
    )


def brief(plan: TrainingPlan) -> Document:
    """What its reader needs first: the answer, what nothing beats, each kind of GPU, what to know of the figures."""
    shown = in_brief(plan)
    rows = Rows(shown)
    limits = [rows.words("at worst", prose.at_worst, once="limits at the high end: {}")]
    brief_columns = [
        Column("", ["*" if o.pareto else "" for o in shown]),
        rows.words("machines", lambda o: f"{o.machines} x {o.instance}"),
        rows.words("GPUs", lambda o: f"{o.gpu_count} {o.gpu}"),
        rows.words("price", "priced"),
        rows.figures("time", lambda o: prose.length(o.time_s.mid)),
        rows.figures("high end", lambda o: prose.length(o.time_s.high)),
        rows.figures("cost", lambda o: prose.usd(o.cost_usd.mid)),
        rows.figures("high end", lambda o: prose.usd(o.cost_usd.high)),
        *(limits if plan.deadline_s or plan.budget_usd else []),
        rows.words("fits", lambda o: Fits.of(o.memory_range_bytes, o.memory_limit_bytes), once="fits in memory: {}"),
        rows.words("limited by", "bottleneck", once="limited by {}"),
        rows.words("evidence", "evidence", once="{}"),
    ]
    different, alike = Table(brief_columns, unfit(shown)).narrowed()
    uncertain = Items(prose.doubts(plan), shown=DOUBTS_SHOWN, rest=MORE_WITH_V)
    return Document(
        name=plan.name,
        headline=prose.headline(plan),
        lead=answers(plan),
        sections=[
            Section(
                "Some options; *: no other is both faster and cheaper",
                [
                    Table(different, unfit(shown)),
                    Text(alike, indent=2),
                    Text(others(plan, shown, "-v, or all with --format json"), indent=2),
                ]
                if len(shown) > 1
                else [],
            ),
            Section("What is uncertain", [uncertain], tone=Tone.WARN),
        ],
    )


def answers(plan: TrainingPlan) -> list[Text]:
    """The cheapest and the fastest; why there is none in red."""
    first, *others = prose.answers(plan)
    tone = Tone.STRONG if plan.cheapest and plan.fastest else Tone.BAD
    return [Text(first, tone), *(Text(line, Tone.STRONG) for line in others)]


def in_brief(plan: TrainingPlan) -> list[TrainingOption]:
    """The answers, what nothing beats, evenly from cheap to fast, then the best of each kind of GPU not among these."""
    ranked = sorted(
        plan.options, key=lambda o: (not o.fits, not (o.within_deadline and o.within_budget), o.cost_usd.mid)
    )
    best = [o for o in (plan.cheapest, plan.fastest) if o] or [*prose.nearest(plan).values()]
    shown = [o for o in ranked if o in best]
    shown += spread([o for o in ranked if o.pareto and o not in shown], FEW // 2 - len(shown))
    for o in ranked:
        if len(shown) < FEW and o.gpu not in {one.gpu for one in shown}:
            shown.append(o)
    return sorted(shown, key=lambda o: (not o.fits, o.cost_usd.mid))


def named(plan: TrainingPlan) -> list[TrainingOption]:
    """Options that the answer names."""
    unsure = (plan.cheaper_if_it_fits, plan.faster_if_it_fits, plan.cheaper_if_fed, plan.faster_if_fed)
    best = [o for o in (plan.cheapest, plan.fastest, plan.cheapest_at_fresh_price, *unsure) if o]
    return best or [*prose.nearest(plan).values()]


def spread(options: Sequence[TrainingOption], count: int) -> list[TrainingOption]:
    """At most so many of them, evenly."""
    kept = min(count, len(options))
    return [options[(2 * i + 1) * len(options) // (2 * kept)] for i in range(kept)]


def unfit(shown: Sequence[TrainingOption]) -> frozenset[int]:
    """Rows of options that do not fit in memory."""
    return frozenset(i for i, o in enumerate(shown) if not o.may_fit)


def others(plan: TrainingPlan, shown: Sequence[TrainingOption], where: str) -> str:
    """How many options are not shown, and where they are."""
    more = len(plan.options) - len(shown)
    return f"and {counted(more, 'more option')}: {where}" if more else ""


def draw(plan: TrainingPlan, path: Path) -> None:
    """The options as a picture, with the letters of the table; InputError where it cannot be drawn or written."""
    png.draw(path, [graphs(plan, plan.options, chosen(plan))], plan.name, wide_in=10)


def stats(plan: TrainingPlan) -> Stats:
    """Time and cost of the cheapest and of the fastest."""
    best = {"cheapest": plan.cheapest, "fastest": plan.fastest}
    return Stats([stat for name, o in best.items() if o for stat in pair(name, o)])


def pair(name: str, o: TrainingOption) -> list[Stat]:
    """Its time and its cost."""
    time = Cell(prose.length(o.time_s.mid), o.time_s.mid, f"{name}.time_s.mid")
    cost = Cell(prose.usd(o.cost_usd.mid), o.cost_usd.mid, f"{name}.cost_usd.mid")
    return [
        Stat(f"{name}: time", time, prose.ends(o.time_s)),
        Stat(f"{name}: cost", cost, prose.who(o)),
    ]


def chosen(plan: TrainingPlan) -> list[TrainingOption]:
    """Options for the table: those that the answer names or nothing beats, then the cheapest others that fit."""
    ranked = sorted(plan.options, key=lambda o: (o not in named(plan), not o.pareto, not o.fits, o.cost_usd.mid))
    return sorted(ranked[:SHOWN], key=lambda o: (not o.fits, o.cost_usd.mid))


def columns(plan: TrainingPlan, shown: Sequence[TrainingOption]) -> list[Column]:
    """One row an option."""
    rows = Rows(shown, [f"options.{plan.options.index(o)}" for o in shown])
    marks = [f"{mark}{'*' if o.pareto else ' '}" for mark, o in zip(MARKS, shown, strict=False)]
    chosen_columns = [
        Column("", marks),
        rows.words("machines", lambda o: f"{o.machines} x {o.instance}"),
        rows.figures("GPUs", lambda o: f"{o.gpu_count} {o.gpu}", "gpu_count"),
    ]
    if any(map(prose.is_divided, shown)):
        chosen_columns.append(rows.words("divided", prose.divided))
    chosen_columns += [
        rows.words("price", "priced"),
        rows.figures("batch", lambda o: f"{o.global_batch:,}", "global_batch"),
        rows.worked("GB a GPU", lambda o: o.memory_bytes, lambda size: f"{size / 1e9:.1f}"),
        rows.words("fits", lambda o: Fits.of(o.memory_range_bytes, o.memory_limit_bytes), once="fits in memory: {}"),
        rows.shown("step", "step_s", prose.step),
        rows.figures("time", lambda o: prose.between(o.time_s), "time_s.mid"),
        rows.figures("cost", lambda o: prose.between(o.cost_usd, prose.usd), "cost_usd.mid"),
    ]
    if any(o.commitment_usd for o in shown):
        chosen_columns.append(rows.figures("paid in any case", prose.committed, value=lambda o: o.commitment_usd))
    energy = rows.figures("kWh", lambda o: f"{kilowatt_hours(o.energy_j):,.4g}", value=lambda o: o.energy_j)
    chosen_columns.append(energy)
    if shown[0].co2_kg is not None:
        chosen_columns.append(rows.figures("kg CO2", lambda o: f"{o.co2_kg or 0:,.3g}", "co2_kg"))
    if plan.deadline_s:
        chosen_columns.append(rows.figures("in time", prose.chance_in_time, value=lambda o: o.deadline_probability))
    if not all(o.within_budget for o in shown):
        chosen_columns.append(rows.words("at worst", prose.at_worst))
    chosen_columns += [
        rows.words("limited by", "bottleneck", once="limited by {}"),
        rows.words("evidence", "evidence", once="{}"),
    ]
    return chosen_columns


def check_text(check: Check, form: Format, screen: Screen) -> str:
    """A short training here, as a table or as JSON."""
    return written(check, check_document, form, screen)


def check_document(check: Check) -> Document:
    """Predicted beside measured."""
    predicted = (check.predicted_step_s, check.predicted_epoch_s)
    measured = (check.measured_step_s, check.measured_epoch_s)
    pairs = Rows(list(zip(predicted, measured, strict=True)))
    table = Table(
        [
            Column("", ["one step", f"{check.steps} steps, data included"]),
            pairs.figures("predicted", lambda pair: seconds(pair[0])),
            pairs.figures("measured", lambda pair: seconds(pair[1])),
            pairs.figures("error", lambda pair: signed_share(pair[0] / pair[1] - 1)),
        ]
    )
    return Document(
        name=check.model,
        headline=f"{check.model} trained on {check.device}, batches of {check.batch}:",
        lead=[table, *(Text(line) for line in check_lines(check))],
    )


def check_lines(check: Check) -> list[str]:
    """Disturbance, loader, and the whole training at that speed."""
    lines = []
    if check.is_disturbed and check.load_share is not None:
        lines.append(f"Other work took {check.load_share:.0%} of the cores in the minute before. {ONE_THREAD}.")
    if check.busy_error is not None:
        lines.append(f"In time of the processor, which other processes take none of: {signed_share(check.busy_error)}.")
    if check.workers:
        workers = f"{counted(check.workers, 'worker')} made a batch each {seconds(check.load_s)} by themselves"
        began = f"and to begin took {seconds(check.start_s)}"
        lines.append(f"{workers}, {began}. They put samples together that are in memory: no decoding.")
    if check.whole_s.mid:
        lines.append(f"The whole training on this device: {prose.between(check.whole_s)}.")
    return lines
