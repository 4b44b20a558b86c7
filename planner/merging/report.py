"""Reports on merging: what could be shared, which way of serving wins and why, and where the ways break even."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise
from math import isinf, isnan
from typing import TYPE_CHECKING, Any

from planner.layout import Column, Screen, counted, dollars, gigabytes, markdown, names, percent, share, table
from planner.merging.analysis import ANALYSIS_SCHEMA, Analysis, HeavyHitters
from planner.plans import Plan, WayOfServing

if TYPE_CHECKING:  # what plans are shown with needs no search
    from planner.merging.breakeven import Breakeven, Cell, Row

GROUPS_SHOWN = 12
SAME_SHARE = 0.001
"""Of all frames: no difference worth a word."""
TITLE = "Each on its own, merged, or one more GPU"


# Analysis


def analysis_json(found: Analysis) -> dict[str, Any]:
    """The analysis as JSON, with `saved_bytes` of each group."""
    data = asdict(found)
    data["groups"] = [asdict(group) | {"saved_bytes": group.saved_bytes} for group in found.groups]
    return {"schema": ANALYSIS_SCHEMA, **data}


def mebibytes(size_bytes: float) -> str:
    """`97.29 MiB`."""
    return f"{size_bytes / 2**20:,.2f} MiB"


def analysis_headline(found: Analysis) -> str:
    """What could be shared, in one line."""
    if len(found.models) == 1:
        name = found.models[0]
        return f"{name}: {mebibytes(found.total_bytes)} of weights. Name others, or `{name}*2`, to see what they share."
    if not found.groups:
        total = mebibytes(found.total_bytes)
        return f"{counted(len(found.models), 'model')}, {total} of weights: no two layers are equal, nothing is shared."
    part = f"{mebibytes(found.shareable_bytes)} of {mebibytes(found.total_bytes)} ({of(found.shareable_bytes, found)})"
    return f"{counted(len(found.models), 'model')}: {part} need not be held where equal layers are stored once."


def of(size_bytes: int, found: Analysis) -> str:
    """`54 %` of the total."""
    return share(size_bytes / found.total_bytes)


def rule_columns(found: Analysis) -> list[Column]:
    """What each rule saves."""
    rules = {
        "all equal layers": found.shareable_bytes,
        "stems, each with those that begin alike": found.branching_stem_bytes,
        "one stem of all": found.stem_bytes,
    }
    left = [found.total_bytes - saved for saved in rules.values()]
    return [
        Column("what is shared", list(rules)),
        Column("saves", [mebibytes(saved) for saved in rules.values()], right=True),
        Column("of all", [of(saved, found) for saved in rules.values()], right=True),
        Column("left", [mebibytes(size) for size in left], right=True),
    ]


def model_columns(found: Analysis) -> list[Column]:
    """How much of each model is in its largest layers, and in layers that others have too."""
    h = found.heavy_hitters
    return [
        Column("model", [x.model for x in h]),
        Column("memory", [mebibytes(x.bytes) for x in h], right=True),
        Column("layers", [str(x.layers) for x in h], right=True),
        Column("others have", [share(found.shared_by.get(x.model, 0) / x.bytes) for x in h], right=True),
        Column("largest layer", [f"{x.largest} {share(x.largest_share)}" for x in h]),
        Column("largest tenth", [f"{x.top_layers} hold {share(x.top_share)}" for x in h], right=True),
        Column("heavy hitters", [x.strength for x in h]),
        Column("power law", [law(x) for x in h]),
    ]


def law(x: HeavyHitters) -> str:
    """`rank ^ -1.9 (R2 0.93)`, or `-` where there are too few layers."""
    return f"rank ^ -{x.power_law.exponent:.1f} (R2 {x.power_law.r2:.2f})" if x.power_law else "-"


def group_columns(found: Analysis) -> list[Column]:
    """The groups that save most."""
    shown = found.groups[:GROUPS_SHOWN]
    return [
        Column("saves", [mebibytes(g.saved_bytes) for g in shown], right=True),
        Column("layer", [shape(g.signature) for g in shown]),
        Column("copy", [str(g.copy + 1) for g in shown], right=True),
        Column("of", [names(g.models) for g in shown]),
    ]


def shape(signature: str) -> str:
    """`Conv2d 512x512x3x3` of a whole signature."""
    kind, *parts = signature.split()
    weight = next((p.partition("=")[2] for p in parts if p.partition("=")[0].endswith("weight")), "")
    return f"{kind} {weight}".strip()


def analysis_table(found: Analysis, screen: Screen) -> str:
    """The analysis for people."""
    more = len(found.groups) - GROUPS_SHOWN
    lines = [
        *(screen.bold(line) for line in screen.wrap(analysis_headline(found), hang=2)),
        *(("", *table(rule_columns(found), screen)) if found.groups else ()),
        *("", screen.bold("Models"), *table(model_columns(found), screen)),
    ]
    if found.groups:
        lines += ["", screen.bold("Groups of equal layers that save most"), *table(group_columns(found), screen)]
    lines += [f"  ... and {more} more in the JSON."] if more > 0 else []
    weak = [x.model for x in found.heavy_hitters if x.strength == "weak"]
    if weak:
        text = f"In {names(weak)} no few layers hold most of the memory: to save much, many have to be shared."
        lines += ["", *screen.wrap(text, hang=2)]
    norms = f"Norm layers ({mebibytes(found.norm_bytes)} besides) are never shared."
    return "\n".join([*lines, *screen.wrap(norms, hang=2)]) + "\n"


# The ways of serving in a plan


def way_columns(ways: Sequence[WayOfServing]) -> list[Column]:
    """One line for each way that was weighed."""
    return [
        Column("  way", [f"{'*' if w.chosen else ' '} {w.what}" for w in ways]),
        Column("on", [w.fleet for w in ways]),
        Column("weights", [gigabytes(w.weights_bytes) for w in ways], right=True),
        Column("memory", [gigabytes(w.peak_memory_bytes) for w in ways], right=True),
        Column("processed", [f"{percent(w.processed_fraction)} %" for w in ways], right=True),
        Column("accuracy", [share(w.merged_accuracy, 1) for w in ways], right=True),
        Column("right", [f"{percent(w.right_fraction)} %" for w in ways], right=True),
        Column("GPUs", [f"{dollars(w.cost_usd_per_hour)}/h" for w in ways], right=True),
        Column("training", [training(w) for w in ways], right=True),
        Column("in all", [f"{dollars(w.total_usd_per_month)}/month" for w in ways], right=True),
        Column("a million right", [dollars(w.usd_per_million_right) for w in ways], right=True),
        Column("promises", ["kept" if w.feasible else "missed" for w in ways]),
    ]


def training(way: WayOfServing) -> str:
    """`$29.68 + $1.02/month`."""
    if way.evidence is None:
        return "-"
    if isnan(way.training_usd):
        return "not said"
    again = f" + {dollars(way.retraining_usd_per_month)}/month" if way.retraining_usd_per_month else ""
    return f"{dollars(way.training_usd)}{again}"


def ways_section(plan: Plan, screen: Screen) -> list[str]:
    """The table of a plan; nothing where the scenario merges nothing."""
    if not plan.merging:
        return []
    about = (
        "Processed and accuracy: of the model that has least, accuracy over that alone. Right: of all frames, answered "
        "in time and rightly. *: chosen."
    )
    return ["", screen.bold(TITLE), *table(way_columns(plan.merging), screen), *screen.wrap(about, 2, 2)]


def ways_markdown(plan: Plan) -> list[str]:
    """The same in Markdown."""
    return ["", f"#### {TITLE}", "", *markdown(way_columns(plan.merging))] if plan.merging else []


def reasons(plan: Plan) -> list[str]:
    """Why the plan merges, or why it does not."""
    chosen = next((way for way in plan.merging if way.chosen), None)
    if chosen is None:
        return [missed(way) for way in plan.merging]
    rivals = [way for way in plan.merging if way is not chosen]
    kept = sum(way.feasible for way in plan.merging)
    why = (
        f"the cheapest of {counted(kept, 'way')} that keep every promise" if kept > 1 else "no other keeps its promises"
    )
    price = f"{dollars(chosen.total_usd_per_month)} a month{paid_for(chosen)}"
    head = f"Chosen: {place(chosen)}, {price}: {why}."
    return [head, *(against(way, chosen) for way in rivals), *growth(chosen)]


def place(way: WayOfServing) -> str:
    """`merged layers, resident, on 1 x box`."""
    return f"{way.what}, on {way.fleet}"


def paid_for(way: WayOfServing) -> str:
    """What the total has in it besides machines."""
    if way.evidence is None:
        return ""
    return ", training not counted" if isnan(way.training_usd) else ", training counted"


def against(way: WayOfServing, chosen: WayOfServing) -> str:
    """Why another way was not taken."""
    if not way.feasible:
        return missed(way) + righter(way, chosen)
    more = way.total_usd_per_month - chosen.total_usd_per_month
    if more > 0.005:
        return f"{place(way)}: keeps every promise too, for {dollars(more)} a month more."
    return f"{place(way)}: keeps every promise at the same price, but the models have to be trained together first."


def missed(way: WayOfServing) -> str:
    """Which way misses, and how far."""
    seen = f"{percent(way.processed_fraction)} % of the frames of the model that has least are processed"
    held = f"{gigabytes(way.weights_bytes)} of weights"
    return f"{place(way)}: misses a promise; {seen}, with {held}."


def righter(way: WayOfServing, chosen: WayOfServing) -> str:
    """That a way which is refused gives more right answers, where it does."""
    if not way.right_fraction > chosen.right_fraction + SAME_SHARE:
        return ""
    less = chosen.total_usd_per_month - way.total_usd_per_month
    price = f", for {dollars(less)} a month less" if less > 0.005 else ""
    return (
        f" Over all models it gives more right answers, {percent(way.right_fraction)} % of the frames against "
        f"{percent(chosen.right_fraction)} %{price}: weigh the promise against that."
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


def breakeven_table(found: Breakeven, screen: Screen) -> str:
    """Both tables, and in a line each where the winner changes."""
    training = "written off" if found.training_known else "not counted: `sharing.retraining` would say what it takes"
    lines = [*screen.wrap(f"{found.scenario}: dollars a month for each way of serving, training {training}.", hang=2)]
    for title, axis, rows in axes(found):
        lines += ["", screen.bold(title), *table(row_columns(axis, rows), screen)]
        lines += [line for text in turns(axis, rows) for line in screen.wrap(text, 2, 2)]
    sure = (
        "Each by short replays of its cheapest fleets that keep every promise on the mean; `planner plan` makes sure."
    )
    cells = [cell for _, _, rows in axes(found) for row in rows for cell in row.cells]
    if any(isinf(cell.usd_per_month) and cell.measured for cell in cells):
        sure += " -: no fleet tried that `buy` allows does."
    if any(cell.foretold for cell in cells):
        sure += " Foretold, not measured: at the bad end of what is predicted."
    return "\n".join([*lines, "", *screen.wrap(sure, hang=2)]) + "\n"


def axes(found: Breakeven) -> list[tuple[str, str, Sequence[Row]]]:
    """Title, name of the axis, and rows."""
    both = [("Against load", "load", found.by_load), ("Against the number of models", "models", found.by_models)]
    return [axis for axis in both if axis[2]]


def row_columns(axis: str, rows: Sequence[Row]) -> list[Column]:
    """One line for each load, or number of models."""
    return [
        Column(axis, [at(axis, row) for row in rows], right=True),
        *(
            Column(cell.way, [price_of(row.cells[i]) for row in rows], right=True)
            for i, cell in enumerate(rows[0].cells)
        ),
        Column("wins", [winner(row) for row in rows]),
    ]


def at(axis: str, row: Row) -> str:
    """`1.5 x`, or `12`."""
    return f"{row.at:g} x" if axis == "load" else f"{row.at:g}"


def price_of(cell: Cell) -> str:
    """`$328.50, 1 GPU`."""
    if isinf(cell.usd_per_month):
        return "-" if cell.measured else "not measured"
    return f"{dollars(cell.usd_per_month)}, {counted(cell.gpu_count, 'GPU')}"


def winner(row: Row) -> str:
    """The cheapest way; `none` where no way serves, `not measured` where nobody can tell."""
    return row.wins or ("none" if any(cell.measured for cell in row.cells) else "not measured")


def turns(axis: str, rows: Sequence[Row]) -> list[str]:
    """Where the winner changes."""
    what = "load" if axis == "load" else "models"
    return [
        f"Between {at(axis, a)} and {at(axis, b)} ({what}): from {winner(a)} to {winner(b)}."
        for a, b in pairwise(rows)
        if a.wins != b.wins
    ]


def breakeven_json(found: Breakeven) -> dict[str, Any]:
    """As JSON, with the winner of each row; `null` where no fleet serves."""
    data = asdict(found)
    for key in ("by_load", "by_models"):
        data[key] = [asdict(row) | {"wins": row.wins} for row in getattr(found, key)]
    return data
