"""Training plans for people: the answer first, the options as a table, who is faster and cheaper as a picture."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict

from planner.layout import Column, Format, Screen, counted, dollars, gigabytes, markdown, names, table
from planner.store import to_json
from planner.training.closed_forms import SECONDS_PER_DAY, SECONDS_PER_YEAR, Range
from planner.training.memory import Fits
from planner.training.plan import Option, TrainingPlan, kilowatt_hours
from planner.training.speed import Limit

SHOWN = 24
"""Options in a table; `--format json` has all."""
FEW = 4
"""Options of which the memory is told one by one."""
MARKS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
HEIGHT, WIDTH = 12, 60
"""Of the picture, in characters."""


def length(time_s: float) -> str:
    """`4.8 min`, `12.1 h`, `33.9 days`, `355 years`."""
    if not math.isfinite(time_s):
        return "never"
    sizes = (("years", SECONDS_PER_YEAR), ("days", SECONDS_PER_DAY), ("h", 3600.0), ("min", 60.0))
    unit, size_s = next(((u, x) for u, x in sizes if time_s >= (1 if u == "years" else 2) * x), ("s", 1.0))
    value = time_s / size_s
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def between(found: Range, show: Callable[[float], str] = length) -> str:
    """`12 h (9.1 to 17)`: the middle, and the ends where they differ."""
    middle = show(found.mid)
    if found.low == found.high:
        return middle
    return f"{middle} ({show(found.low)} to {show(found.high)})"


def usd(amount: float) -> str:
    """`$9.18`, `$48,470`, `$4.67 M`."""
    if not math.isfinite(amount):
        return "no end"
    return f"${amount / 1e6:,.2f} M" if amount >= 1e6 else dollars(amount)


def who(o: Option) -> str:
    """`4 x p3.16xlarge (32 V100), spot`."""
    return f"{o.machines} x {o.instance} ({o.gpu_count} {o.gpu}), {o.price_kind}"


def headline(plan: TrainingPlan) -> list[str]:
    """The answer in the first lines."""
    limits = [
        f"{length(plan.deadline_s)} at most" if plan.deadline_s else "",
        f"{usd(plan.budget_usd)} at most" if plan.budget_usd else "",
    ]
    asked = " and ".join(filter(None, limits))
    title = f"{plan.name}: {counted(len(plan.options), 'way')} to train it{f', {asked}' if asked else ''}."
    if plan.cheapest is None or plan.fastest is None:
        return [title, *no_way(plan)]
    if plan.cheapest == plan.fastest:
        return [title, f"Cheapest and fastest: {told(plan.cheapest)}."]
    return [title, f"Cheapest: {told(plan.cheapest)}.", f"Fastest:  {told(plan.fastest)}."]


def told(o: Option) -> str:
    """An option in one line."""
    return f"{who(o)}: {between(o.time_s)}, {between(o.cost_usd, usd)}{commitment(o)}, held by {o.bottleneck}"


def commitment(o: Option) -> str:
    """` of $4.48 M that are paid in any case (0.0012 % used)`; nothing where machines are paid by the hour."""
    if o.commitment_used is None:
        return ""
    return f" of {usd(o.commitment_usd)} that are paid in any case ({100 * o.commitment_used:.2g} % used)"


def no_way(plan: TrainingPlan) -> list[str]:
    """Why nothing is recommended, and the nearest there is."""
    fitting = [o for o in plan.options if o.fits]
    if not fitting:
        least = min(plan.options, key=lambda o: o.memory_bytes / o.memory_limit_bytes)
        need = f"{gigabytes(least.memory_bytes)} of {gigabytes(least.memory_limit_bytes)}"
        hint = "Divide it (`parallel`), or take a smaller batch" if not least.largest_batch else (
            f"Take at most {least.largest_batch} samples a pass, with `train.accumulation` for the rest")  # fmt: skip
        return [f"None fits in memory. Nearest: {who(least)}, {need} on each GPU. {hint}."]
    if not any(math.isfinite(o.time_s.low) for o in fitting):
        return ["None comes to an end: machines fail before a checkpoint is written."]
    quick, cheap = (min(fitting, key=lambda o: getattr(o, key).high) for key in ("time_s", "cost_usd"))
    return [
        "None keeps the limits even at the bad end of what is foretold.",
        f"Quickest: {told(quick)}.",
        f"Cheapest: {told(cheap)}.",
    ]


def chosen(plan: TrainingPlan) -> list[Option]:
    """Options for the table: those that nothing beats, then the cheapest others that fit, then what does not."""
    ranked = sorted(plan.options, key=lambda o: (not o.pareto, not o.fits, o.cost_usd.mid))
    return sorted(ranked[:SHOWN], key=lambda o: (not o.fits, o.cost_usd.mid))


def columns(shown: Sequence[Option]) -> list[Column]:
    """One row an option."""
    marks = [MARKS[i] if i < len(MARKS) else " " for i in range(len(shown))]

    def column(title: str, cells: Sequence[str], right: bool = True) -> Column:
        return Column(title, cells, right)

    return [
        column("", [f"{m}{'*' if o.pareto else ' '}" for m, o in zip(marks, shown, strict=True)], False),
        column("machines", [f"{o.machines} x {o.instance}" for o in shown], False),
        column("GPUs", [f"{o.gpu_count} {o.gpu}" for o in shown]),
        *([column("divided", [o.parallel for o in shown], False)] if any(map(is_divided, shown)) else []),
        column("price", [o.price_kind for o in shown], False),
        column("batch", [f"{o.global_batch:,}" for o in shown]),
        column("GB a GPU", [f"{o.memory_bytes / 1e9:.1f}" for o in shown]),
        column("fits", [Fits.of(o.memory_range_bytes, o.memory_limit_bytes) for o in shown], False),
        column("step", [step(o.step_s) for o in shown]),
        column("time", [between(o.time_s) for o in shown]),
        column("cost", [between(o.cost_usd, usd) for o in shown]),
        *([column("paid in any case", [committed(o) for o in shown])] if any(o.commitment_usd for o in shown) else []),
        column("kWh", [f"{kilowatt_hours(o.energy_j):,.4g}" for o in shown]),
        *([column("kg CO2", [f"{o.co2_kg or 0:,.3g}" for o in shown])] if shown[0].co2_kg is not None else []),
        *([] if all(map(keeps_limits, shown)) else [column("at worst", [at_worst(o) for o in shown], False)]),
        column("held by", [str(o.bottleneck) for o in shown], False),
        column("evidence", [str(o.evidence) for o in shown], False),
    ]


def keeps_limits(o: Option) -> bool:
    """Whether deadline and budget are kept at the bad ends of its band."""
    return o.within_deadline and o.within_budget


def at_worst(o: Option) -> str:
    """`kept`, `late`, `too dear` or `late, too dear`: at the bad ends of its band."""
    broken = [word for word, kept in (("late", o.within_deadline), ("too dear", o.within_budget)) if not kept]
    return ", ".join(broken) or "kept"


def committed(o: Option) -> str:
    """`$4.48 M`; nothing where machines are paid by the hour."""
    return usd(o.commitment_usd) if o.commitment_usd else ""


def is_divided(o: Option) -> bool:
    """Whether its GPUs share the work otherwise than as plain copies of the model."""
    return o.parallel not in ("one GPU", f"data {o.gpu_count}")


def step(step_s: float) -> str:
    """`56.8 ms`, `4.21 s`, `2.3 h`."""
    return f"{step_s * 1e3:.3g} ms" if step_s < 1 else f"{step_s:.3g} s" if step_s < 120 else length(step_s)


def picture(shown: Sequence[Option]) -> list[str]:
    """Options that fit by cost and time, both logarithmic; what nothing beats lies at the lower left."""
    points = [(o.time_s.mid, o.cost_usd.mid, MARKS[i]) for i, o in enumerate(shown[: len(MARKS)]) if o.fits]
    points = [p for p in points if all(map(math.isfinite, p[:2]))]
    if len(points) < 2:
        return []
    xs, ys = ([math.log(float(p[i])) for p in points] for i in (0, 1))
    grid = [[" "] * (WIDTH + 1) for _ in range(HEIGHT + 1)]
    for x, y, (_, _, mark) in zip(xs, ys, points, strict=True):
        row = round((max(ys) - y) / ((max(ys) - min(ys)) or 1) * HEIGHT)
        col = round((x - min(xs)) / ((max(xs) - min(xs)) or 1) * WIDTH)
        grid[row][col] = mark if grid[row][col] == " " else "+"
    top, bottom = usd(max(p[1] for p in points)), usd(min(p[1] for p in points))
    margin = max(len(top), len(bottom))
    labels = [top, *[""] * (HEIGHT - 1), bottom]
    left, right = (length(pick(p[0] for p in points)) for pick in (min, max))
    return [
        *(f"  {label:>{margin}} |{''.join(row).rstrip()}" for label, row in zip(labels, grid, strict=True)),
        f"  {'':>{margin}} +{'-' * WIDTH}",
        f"  {'':>{margin}}  {left}{right:>{WIDTH - len(left)}}",
    ]


def remarks(plan: TrainingPlan, shown: Sequence[Option]) -> list[str]:
    """What a reader must know to judge the figures."""
    told_of = shown if len(shown) <= FEW else [plan.cheapest or plan.fastest or shown[0]]
    lines = [memory_line(o) for o in told_of]
    lines += [f"{source}: {names(kinds)}." for source, kinds in sources(shown).items()]
    if starved := [x for x in shown if x.bottleneck is Limit.LOADER]:
        need = max(x.workers_enough or 0 for x in starved)
        enough = f"; {need} workers a GPU end that everywhere" if need else ""
        lines.append(f"{counted(len(starved), 'option')} held by the loader{enough}.")
    if huge := [x for x in shown if not x.fits and not x.largest_batch]:
        least = min(x.gpus_needed for x in huge)
        lines.append(f"Where not even one sample fits, the states alone need {counted(least, 'GPU')} or more.")
    if late := max((x.staleness for x in shown), default=0):
        lines.append(f"Asynchronous: gradients come up to {counted(late, 'update')} late.")
    if plan.prices_as_of:
        lines.append(f"The oldest price is of {plan.prices_as_of}.")
    if plan.rejections:
        lines.append(
            f"Left out: {counted(len(plan.rejections), 'machine')} not sold at such a price; --format json says which."
        )
    lines.append(
        "Energy is that of the GPUs at their measured power; where nobody measured it, three quarters of the way"
        " from idle to the power limit."
    )
    return lines


def memory_line(o: Option) -> str:
    """What is held on each GPU of an option, and how many samples would be."""
    kinds = ", ".join(f"{name} {gigabytes(size)}" for name, size in o.memory.items())
    spread = f"{gigabytes(o.memory_range_bytes.low)} to {gigabytes(o.memory_range_bytes.high)}"
    fits = f"at most {counted(o.largest_batch, 'sample')} a pass" if o.largest_batch else "no sample fits"
    return f"Memory of {who(o)}: {kinds}; in all {spread} of {gigabytes(o.memory_limit_bytes)}, {fits}."


def sources(shown: Sequence[Option]) -> dict[str, list[str]]:
    """Kinds of GPU by where their speed comes from."""
    found: dict[str, list[str]] = {}
    for o in shown:
        kinds = found.setdefault(o.source[0].upper() + o.source[1:], [])
        if o.gpu not in kinds:
            kinds.append(o.gpu)
    return found


def training_table(plan: TrainingPlan, screen: Screen) -> str:
    """The whole answer."""
    shown = chosen(plan)
    more = len(plan.options) - len(shown)
    lines = [screen.bold(line) for line in headline(plan)]
    lines += ["", *table(columns(shown), screen, bad=frozenset(i for i, o in enumerate(shown) if not o.fits))]
    lines += [f"  and {counted(more, 'more option')}: --format json"] if more else []
    if drawn := picture(shown):
        lines += ["", "Cost by time, both logarithmic; * marks what nothing beats in both:", *drawn]
    notes = [*plan.warnings, *remarks(plan, shown)]
    return "\n".join([*lines, "", *(part for text in notes for part in screen.wrap(text, 0, 2))]) + "\n"


def training_markdown(plan: TrainingPlan) -> str:
    """The same for an issue."""
    shown = chosen(plan)
    notes = [f"- {text}" for text in (*plan.warnings, *remarks(plan, shown))]
    return "\n".join([*headline(plan), "", *markdown(columns(shown)), "", *notes]) + "\n"


def render(plan: TrainingPlan, form: Format, screen: Screen) -> str:
    """A training plan in one of `FORMATS`."""
    if form is Format.JSON:
        return to_json(asdict(plan))
    return training_markdown(plan) if form is Format.MD else training_table(plan, screen)
