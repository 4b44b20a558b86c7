"""Reports on merging: what could be shared, which way of serving wins and why, and where the ways break even."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import pairwise
from math import isinf, isnan
from typing import TYPE_CHECKING, Any

from planner.model.parts.merging import Merging
from planner.model.plan import Plan, WayOfServing
from planner.model.statement import Code
from planner.placing.merging.analysis import ANALYSIS_SCHEMA, Analysis, HeavyHitters
from planner.show.document import PAGE, Column, Document, Items, Rows, Section, Table, Text
from planner.units.writing import begin, counted, dollars, gigabytes, names, percent, share
from planner.words.candidates import machines_name, way_name
from planner.words.statements import assumption
from simulator.grouping import grouped
from simulator.world.profile import NOT_MEASURED
from simulator.world.sharing import group_document
from simulator.world.signature import Signature

if TYPE_CHECKING:  # what plans are shown with needs no search
    from planner.questions.merging.breakeven import Breakeven, BreakevenCell, BreakevenRow

GROUPS_SHOWN = 12
SAME_SHARE = 0.001
"""Of all frames: no difference worth a word."""
TITLE = "Each on its own, merged, or one more GPU"


# Analysis


def analysis_json(analysis: Analysis) -> dict[str, Any]:
    """The analysis as JSON, with `saved_bytes` of each group."""
    data = asdict(analysis)
    data["groups"] = [group_document(group) | {"saved_bytes": group.saved_bytes} for group in analysis.groups]
    return {"schema": ANALYSIS_SCHEMA, **data}


def megabytes(size_bytes: float) -> str:
    """`102.01 MB`."""
    return f"{size_bytes / 1e6:,.2f} MB"


def analysis_headline(analysis: Analysis) -> str:
    """Weights that could be shared, in one line."""
    if len(analysis.models) == 1:
        name = analysis.models[0]
        return (
            f"{name}: {megabytes(analysis.total_bytes)} of weights. Name others, or `{name}*2`, to see what they share."
        )
    if not analysis.groups:
        total = megabytes(analysis.total_bytes)
        return (
            f"{counted(len(analysis.models), 'model')}, {total} of weights: no two layers are equal, nothing is shared."
        )
    shared, whole = megabytes(analysis.shareable_bytes), megabytes(analysis.total_bytes)
    part = f"{shared} of {whole} ({of(analysis.shareable_bytes, analysis)})"
    return f"{counted(len(analysis.models), 'model')}: {part} need not be held where equal layers are stored once."


def of(size_bytes: int, analysis: Analysis) -> str:
    """`54 %` of the total."""
    return share(size_bytes / analysis.total_bytes)


def rule_columns(analysis: Analysis) -> list[Column]:
    """Memory that each rule saves."""
    rules = Rows(
        [
            ("all equal layers", analysis.shareable_bytes),
            ("stems, each with those that begin alike", analysis.branching_stem_bytes),
            ("one stem of all", analysis.stem_bytes),
        ]
    )
    return [
        rules.words("what is shared", lambda rule: rule[0]),
        rules.figures("saves", lambda rule: megabytes(rule[1])),
        rules.figures("of all", lambda rule: of(rule[1], analysis)),
        rules.figures("left", lambda rule: megabytes(analysis.total_bytes - rule[1])),
    ]


def model_columns(analysis: Analysis) -> list[Column]:
    """How much of each model is in its largest layers, and in layers that others have too."""
    rows = Rows(analysis.heavy_hitters)
    return [
        rows.words("model", "model"),
        rows.figures("memory", lambda x: megabytes(x.bytes)),
        rows.figures("layers", lambda x: str(x.layers)),
        rows.figures("others have", lambda x: share(analysis.shared_by.get(x.model, 0) / x.bytes)),
        rows.words("largest layer", lambda x: f"{x.largest} {share(x.largest_share)}"),
        rows.figures("largest tenth", lambda x: f"{x.top_layers} hold {share(x.top_share)}"),
        rows.words("heavy hitters", "strength"),
        rows.words("power law", law),
    ]


def law(x: HeavyHitters) -> str:
    """`rank ^ -1.9 (R2 0.93)`, or `-` where there are too few layers."""
    return f"rank ^ -{x.power_law.exponent:.1f} (R2 {x.power_law.r2:.2f})" if x.power_law else "-"


def group_columns(analysis: Analysis) -> list[Column]:
    """Groups of equal layers."""
    rows = Rows(analysis.groups)
    layers = told_apart({g.signature for g in analysis.groups})
    return [
        rows.figures("saves", lambda g: megabytes(g.saved_bytes)),
        rows.words("layer", lambda g: layers[g.signature]),
        rows.figures("copy", lambda g: str(g.copy + 1)),
        rows.words("of", lambda g: names(g.models)),
    ]


def told_apart(signatures: Iterable[Signature]) -> dict[Signature, str]:
    """`Conv2d 512x512x3x3 stride=2x2`: in short, and where that is the same of several, by what they differ in."""
    alike = grouped((one.short, one) for one in signatures)
    common = {short: set.intersection(*(set(_facts(one)) for one in those)) for short, those in alike.items()}
    return {
        one: " ".join([short, *(fact for fact in _facts(one) if fact not in common[short])])
        for short, those in alike.items()
        for one in those
    }


def _facts(signature: Signature) -> list[str]:
    """`stride=2x2`, `bias=512`: geometry and weights."""
    return [*(f"{name}={value}" for name, value in signature.geometry), *map(str, signature.weights)]


def analysis_document(analysis: Analysis) -> Document:
    """The analysis for people."""
    weak = [x.model for x in analysis.heavy_hitters if x.strength == "weak"]
    spread = f"In {names(weak)} no few layers hold most of the memory: to save much, many have to be shared."
    norms = f"Norm layers ({megabytes(analysis.norm_bytes)} besides) are never shared."
    groups = Table(group_columns(analysis), shown=GROUPS_SHOWN)
    return Document(
        name="",
        headline=analysis_headline(analysis),
        sections=[
            Section("", [Table(rule_columns(analysis))] if analysis.groups else []),
            Section("Models", [Table(model_columns(analysis))]),
            Section("Groups of equal layers that save most", [groups]),
            Section("", [Text(spread if weak else ""), Text(norms)]),
        ],
    )


# The ways of serving in a plan


def way_columns(ways: Sequence[WayOfServing]) -> list[Column]:
    """One line for each way that was weighed."""
    rows = Rows.at("merging", ways)
    return [
        rows.words("  way", lambda w: f"{'*' if w.chosen else ' '} {way_name(w)}"),
        rows.words("on", lambda w: machines_name(w.candidate.machines)),
        rows.shown("weights", "weights_bytes", gigabytes),
        rows.shown("saved", "saved_bytes", gigabytes, page_only=True),
        rows.shown("memory", "peak_memory_bytes", gigabytes),
        rows.figures("processed", lambda w: f"{percent(w.processed_fraction)} %", "processed_fraction"),
        rows.figures("accuracy", lambda w: share(w.merged_accuracy, 1), "merged_accuracy"),
        rows.figures("right", lambda w: f"{percent(w.right_fraction)} %", "right_fraction"),
        rows.figures("GPUs", lambda w: f"{dollars(w.cost_usd_per_hour)}/h", "cost_usd_per_hour"),
        rows.figures("training", training),
        rows.figures("in all", lambda w: f"{dollars(w.total_usd_per_month)}/month", "total_usd_per_month"),
        rows.shown("a million right", "usd_per_million_right", dollars),
        rows.words("SLOs", lambda w: "met" if w.feasible else "missed"),
    ]


def training(way: WayOfServing) -> str:
    """`$29.68 + $1.02/month`."""
    if way.evidence is None:
        return "-"
    if isnan(way.training_usd):
        return "not said"
    again = f" + {dollars(way.retraining_usd_per_month)}/month" if way.retraining_usd_per_month else ""
    return f"{dollars(way.training_usd)}{again}"


def ways_section(plan: Plan, why: Sequence[str]) -> Section:
    """The ways of a plan beside each other, and why one was chosen; empty where the scenario merges nothing."""
    about = (
        "Processed and accuracy: of the model that has least, accuracy over that alone. Right: of all frames, answered "
        "on time and rightly. *: chosen."
    )
    missed = frozenset(i for i, way in enumerate(plan.merging) if not way.feasible)
    table = Table(way_columns(plan.merging), missed, stacked=True)
    blocks = [Items(why, views=PAGE), table, Text(about, indent=2)] if plan.merging else []
    return Section(TITLE, blocks, id="merging", link="Swap, merge or buy")


def reasons(plan: Plan) -> list[str]:
    """Why the plan merges, or why it does not."""
    chosen = next((way for way in plan.merging if way.chosen), None)
    if chosen is None:
        return [missed(way) for way in plan.merging]
    rivals = [way for way in plan.merging if way is not chosen]
    kept = sum(way.feasible for way in plan.merging)
    why = f"the cheapest of {counted(kept, 'way')} that meet every SLO" if kept > 1 else "no other meets its SLOs"
    price = f"{dollars(chosen.total_usd_per_month)} a month{paid_for(chosen)}"
    head = f"Chosen: {place(chosen)}, {price}: {why}."
    return [head, *no_way(plan), *(against(way, chosen) for way in rivals), *growth(chosen)]


def no_way(plan: Plan) -> list[str]:
    """Why merging is none of the ways that were weighed; nothing where it is one."""
    if any(way.merging is not Merging.NONE for way in plan.merging):
        return []
    texts = [assumption(one) for one in plan.assumptions if one.code is Code.OF_MERGING]
    return [f"{begin(text)}." for text in texts]


def place(way: WayOfServing) -> str:
    """`merged layers, resident, on 1 x box`."""
    return f"{way_name(way)}, on {machines_name(way.candidate.machines)}"


def paid_for(way: WayOfServing) -> str:
    """Costs in the total besides machines."""
    if way.evidence is None:
        return ""
    return ", training not counted" if isnan(way.training_usd) else ", training counted"


def against(way: WayOfServing, chosen: WayOfServing) -> str:
    """Why another way was not taken."""
    if not way.feasible:
        return missed(way) + righter(way, chosen)
    more = way.total_usd_per_month - chosen.total_usd_per_month
    if more > 0.005:
        return f"{place(way)}: meets every SLO too, for {dollars(more)} a month more."
    return f"{place(way)}: meets every SLO at the same price, but the models have to be trained together first."


def missed(way: WayOfServing) -> str:
    """Which way misses, and how far."""
    seen = f"{percent(way.processed_fraction)} % of the frames of the model that has least are processed"
    held = f"{gigabytes(way.weights_bytes)} of weights"
    return f"{place(way)}: misses an SLO; {seen}, with {held}."


def righter(way: WayOfServing, chosen: WayOfServing) -> str:
    """That a way which is refused gives more right answers, where it does."""
    if not way.right_fraction > chosen.right_fraction + SAME_SHARE:
        return ""
    less = chosen.total_usd_per_month - way.total_usd_per_month
    price = f", for {dollars(less)} a month less" if less > 0.005 else ""
    return (
        f" Over all models it gives more right answers, {percent(way.right_fraction)} % of the frames against "
        f"{percent(chosen.right_fraction)} %{price}: weigh the SLO against that."
    )


def growth(way: WayOfServing) -> list[str]:
    """When the saving was live."""
    if not way.live or isnan(way.live[-1].after_s):
        return []
    half = next(x for x in way.live if x.saved_bytes >= way.saved_bytes / 2)
    return [
        f"Partial successes count at once: half of the {gigabytes(way.saved_bytes)} is saved after "
        f"{hours(half.after_s)} of training, all after {hours(way.live[-1].after_s)}."
    ]


def hours(value_s: float) -> str:
    """`1.5 h`."""
    return f"{value_s / 3600:.1f} h"


# Break-even


def breakeven_document(breakeven: Breakeven) -> Document:
    """Both tables, and in a line each where the winner changes."""
    training = (
        "written off" if breakeven.training_known else "not counted: `sharing.retraining` would say what it takes"
    )
    return Document(
        name=breakeven.scenario,
        headline=f"{breakeven.scenario}: dollars a month for each way of serving, training {training}.",
        sections=[
            *(
                Section(title, [Table(row_columns(axis, rows)), Items(turns(axis, rows), bullets=False)])
                for title, axis, rows in axes(breakeven)
            ),
            Section("", [Text(" ".join(sureness(breakeven)))]),
        ],
    )


def sureness(breakeven: Breakeven) -> Iterator[str]:
    """How sure the figures are."""
    yield "Each by short replays of its cheapest fleets that meet every SLO on the mean; `planner plan` makes sure."
    cells = [cell for _, _, rows in axes(breakeven) for row in rows for cell in row.cells]
    if any(isinf(cell.usd_per_month) and cell.measured for cell in cells):
        yield "-: no fleet tried that `buy` allows does."
    for ground in NOT_MEASURED:
        those = [cell for cell in cells if cell.speed_evidence is ground]
        slow = f": at the slow end of what is {ground}" if any(cell.uncertain for cell in those) else ""
        if those:
            yield f"{ground.capitalize()}, not measured{slow}."


def axes(breakeven: Breakeven) -> list[tuple[str, str, Sequence[BreakevenRow]]]:
    """Title, name of the axis, and rows."""
    both = [
        ("Against load", "load", breakeven.by_load),
        ("Against the number of models", "models", breakeven.by_models),
    ]
    return [axis for axis in both if axis[2]]


def row_columns(axis: str, rows: Sequence[BreakevenRow]) -> list[Column]:
    """One line for each load, or number of models."""
    return [
        Column(axis, [at(axis, row) for row in rows], right=True),
        *(
            Column(cell.way, [price_of(row.cells[i]) for row in rows], right=True)
            for i, cell in enumerate(rows[0].cells)
        ),
        Column("wins", [winner(row) for row in rows]),
    ]


def at(axis: str, row: BreakevenRow) -> str:
    """`1.5 x`, or `12`."""
    return f"{row.at:g} x" if axis == "load" else f"{row.at:g}"


def price_of(cell: BreakevenCell) -> str:
    """`$328.50, 1 GPU`."""
    if isinf(cell.usd_per_month):
        return "-" if cell.measured else "not measured"
    return f"{dollars(cell.usd_per_month)}, {counted(cell.gpu_count, 'GPU')}"


def winner(row: BreakevenRow) -> str:
    """The cheapest way; `none` where no way serves, `not measured` where nobody can tell."""
    return row.wins or ("none" if any(cell.measured for cell in row.cells) else "not measured")


def turns(axis: str, rows: Sequence[BreakevenRow]) -> list[str]:
    """Where the winner changes."""
    what = "load" if axis == "load" else "models"
    return [
        f"Between {at(axis, a)} and {at(axis, b)} ({what}): from {winner(a)} to {winner(b)}."
        for a, b in pairwise(rows)
        if a.wins != b.wins
    ]


def breakeven_json(breakeven: Breakeven) -> dict[str, Any]:
    """As JSON, with the winner of each row; `null` where no fleet serves."""
    data = asdict(breakeven)
    for key in ("by_load", "by_models"):
        data[key] = [asdict(row) | {"wins": row.wins} for row in getattr(breakeven, key)]
    return data
