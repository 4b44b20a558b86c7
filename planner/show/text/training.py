"""Training plans in words: the answer first, what an option holds, what one must know to judge the figures."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

from planner.model.ranges import Range, is_within
from planner.questions.training.answer.choosing import (
    Nearest,
    budget_likelihood,
    dearest_usd,
    enough_limits,
    nearest_to,
)
from planner.questions.training.answer.feeding import pictures_per_s
from planner.questions.training.answer.option import TrainingOption, TrainingPlan
from planner.questions.training.answer.remarks import BITS_OF_GBYTE
from planner.questions.training.closed_forms import SECONDS_PER_DAY, SECONDS_PER_YEAR
from planner.questions.training.memory import Fits
from planner.questions.training.speed import AS_STATED, MEASURED_BAND, PAST_BAND, Limit, SpeedRule
from planner.questions.training.step import RunInterruptions
from planner.show.text.reasons import sentence
from planner.units.writing import begin, counted, dollars, gigabytes, names, share
from planner.words.statements import warning
from simulator.grouping import grouped
from simulator.world.profile import Evidence

MINUTE_S, HOUR_S = 60.0, 3600.0
TICKS_S = (
    *(n * unit for unit in (1.0, MINUTE_S) for n in (1, 2, 5, 10, 20, 30)),
    *(n * HOUR_S for n in (1, 2, 4, 8, 16)),
    *(n * SECONDS_PER_DAY for n in (1, 2, 5, 10, 20, 50, 100, 200)),
    *(n * SECONDS_PER_YEAR for n in (1, 2, 5, 10, 20, 50, 100, 200, 500)),
)
"""Round lengths of time, for the axis of a chart."""
FEW = 4
"""Options whose memory is listed one by one."""
SIZES = (("years", SECONDS_PER_YEAR, 1), ("days", SECONDS_PER_DAY, 2), ("h", HOUR_S, 2), ("min", MINUTE_S, 2))
"""Units of time, each with its seconds and how many of it a time must have to be written in it."""


def length(time_s: float) -> str:
    """`4.8 min`, `12.1 h`, `33.9 days`, `355 years`."""
    if not math.isfinite(time_s):
        return "never"
    fitting = (size for size in SIZES if time_s >= size[2] * size[1])
    unit, size_s, _ = next(fitting, ("s", 1.0, 0))
    value = time_s / size_s
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def step(step_s: float) -> str:
    """`56.8 ms`, `4.21 s`, `2.3 h`."""
    if step_s < 1:
        return f"{step_s * 1e3:.3g} ms"
    return f"{step_s:.3g} s" if step_s < 120 else length(step_s)


def between(band: Range, show: Callable[[float], str] = length) -> str:
    """`12 h (9.1 to 17)`: the middle, and the ends where they differ."""
    apart = ends(band, show)
    return f"{show(band.mid)} ({apart})" if apart else show(band.mid)


def ends(band: Range, show: Callable[[float], str] = length) -> str:
    """`9.1 h to 17 h`; nothing where they do not differ."""
    return "" if band.low == band.high else f"{show(band.low)} to {show(band.high)}"


def usd(amount: float) -> str:
    """`$9.18`, `$48,470`, `$4.67 M`."""
    if not math.isfinite(amount):
        return "no end"
    return f"${amount / 1e6:,.2f} M" if amount >= 1e6 else dollars(amount)


def who(o: TrainingOption) -> str:
    """`4 x p3.16xlarge (32 V100), spot of aws`."""
    return f"{o.name}, {o.priced}"


def headline(plan: TrainingPlan) -> str:
    """How many options there are, and the limits."""
    limits = []
    if plan.deadline_s:
        limits.append(length(plan.deadline_s))
    if plan.budget_usd:
        limits.append(usd(plan.budget_usd))
    within = f"; limits: {', '.join(limits)}" if limits else ""
    return f"{plan.name}: {counted(len(plan.options), 'option')}{within}."


def answers(plan: TrainingPlan) -> list[str]:
    """The cheapest and the fastest."""
    if plan.cheapest is None or plan.fastest is None:
        fitting = [o for o in plan.options if o.may_fit]
        if not fitting:
            return [nothing_fits(plan), *changes_that_fit(plan)]
        if not any(math.isfinite(o.time_s.low) for o in fitting):
            return ["No option ends: machines fail before a checkpoint is written."]
        return ["No option surely keeps these limits.", *nearest_to_limits(plan), *remedies(plan)]
    others = [*rivals(plan), *other_answers(plan), *if_fed(plan)]
    cheapest, fastest = (f"{in_short(one)}{old_price(plan, one)}" for one in (plan.cheapest, plan.fastest))
    if plan.cheapest == plan.fastest:
        return [f"Cheapest and fastest: {cheapest}.", *others]
    return [f"Cheapest: {cheapest}.", f"Fastest:  {fastest}.", *others]


def old_price(plan: TrainingPlan, o: TrainingOption) -> str:
    """`; its price is 695 days old`, where that is older than its provider's usually become."""
    days = [one.what.figures["days"] for one in plan.stale_prices if one.what.subjects[-1] == o.price_as_of]
    return f"; its price is {counted(round(days[0]), 'day')} old" if days and o.price_as_of else ""


def rivals(plan: TrainingPlan) -> Iterator[str]:
    """Kinds of GPU that may be as good as those recommended, and the measurement that decides."""
    found = (("cheaper", plan.cheapest, plan.cheapest_rival), ("faster", plan.fastest, plan.fastest_rival))
    for better, best, rival in found:
        if best and rival:
            shown = f"{who(rival)}: {between(rival.time_s)}, {between(rival.cost_usd, usd)}"
            decided_by = f"`planner calibrate --mode training --models MODEL` on one {best.gpu} and one {rival.gpu}"
            yield f"Perhaps {better}: {shown}. To decide, run {decided_by}."


def other_answers(plan: TrainingPlan) -> Iterator[str]:
    """The cheapest at a fresh price; what would be better and may run out of memory, and what settles that."""
    if fresh := plan.cheapest_at_fresh_price:
        yield f"Cheapest at a current price: {who(fresh)}: {length(fresh.time_s.mid)}, {usd(fresh.cost_usd.mid)}."
    cheaper, faster = plan.cheaper_if_it_fits, plan.faster_if_it_fits
    if cheaper and cheaper == faster:
        yield f"Cheaper and faster if it fits: {unsure(cheaper)}"
        return
    if cheaper:
        yield f"Cheaper if it fits: {unsure(cheaper)}"
    if faster:
        yield f"Faster if it fits: {unsure(faster)}"


def if_fed(plan: TrainingPlan) -> Iterator[str]:
    """What would be better and likely waits for pictures: vCPUs of which nobody knows are not doubted."""
    cheaper, faster = plan.cheaper_if_fed, plan.faster_if_fed
    better = {"Cheaper and faster": cheaper} if cheaper == faster else {"Cheaper": cheaper, "Faster": faster}
    for what, o in better.items():
        if o:
            figures = f"{length(o.time_s.mid)}, {usd(o.cost_usd.mid)}"
            need = f"{o.host_cores} vCPUs must make {pictures_per_s(o):,.0f} pictures a second ready"
            yield f"{what} if its processors keep up: {who(o)}: {figures}; {need}."


def unsure(o: TrainingOption) -> str:
    """An option that may run out of memory, and what to do about that."""
    return f"{who(o)}: {length(o.time_s.mid)}, {usd(o.cost_usd.mid)}, {at_most_held(o)}; {settled(o)}."


def at_most_held(o: TrainingOption) -> str:
    """`up to 25.43 GB of 24.00 GB`."""
    return f"up to {gigabytes(o.memory_range_bytes.high)} of {gigabytes(o.memory_limit_bytes)}"


def settled(o: TrainingOption) -> str:
    """What makes an option fit that may run out of memory, or tells whether it does."""
    if o.accumulation_enough:
        return f"`train.accumulation: {o.accumulation_enough}` surely fits"
    return "to decide, run `planner calibrate --mode training --models MODEL`"


def memory_band(o: TrainingOption) -> str:
    """`5.19 GB to 19.68 GB of 48.00 GB`."""
    band = ends(o.memory_range_bytes, gigabytes) or gigabytes(o.memory_bytes)
    return f"{band} of {gigabytes(o.memory_limit_bytes)}"


def in_short(o: TrainingOption) -> str:
    """An option in one line."""
    doubt = ""
    if Fits.of(o.memory_range_bytes, o.memory_limit_bytes) is Fits.LIKELY:
        doubt = f"; may run out of memory, {at_most_held(o)}: {settled(o)}"
    in_time = "" if o.deadline_probability is None else f", {chance_in_time(o)} likely in time"
    figures = f"{between(o.time_s)}{in_time}, {between(o.cost_usd, usd)}{commitment(o)}"
    in_passes = f", in {o.accumulation_chosen} passes a step (`train.accumulation`)" if o.accumulation_chosen else ""
    each = "1 GPU, which" if o.gpu_count == 1 else f"each of {o.gpu_count:,} GPUs, which"
    whole_model = f", the model whole on {each} `parallel` does not divide" if o.undivided else ""
    return f"{who(o)}: {figures}, limited by {o.bottleneck}{in_passes}{whole_model}{doubt}"


def chance_in_time(o: TrainingOption) -> str:
    """The probability that the deadline holds; `-` without one."""
    return "-" if o.deadline_probability is None else chance(o.time_s, o.deadline_probability)


def chance(band: Range, probability: float) -> str:
    """`94 %`; `over 99 %` and `under 1 %` of what has a band, for it is never certain."""
    if band.low < band.high:
        if probability > 0.99:
            return "over 99 %"
        if probability < 0.01:
            return "under 1 %"
    return f"{100 * probability:.0f} %"


def divided(o: TrainingOption) -> str:
    """`data 8, ZeRO-3, 32 passes`: how GPUs share the work, and chosen passes of a step."""
    return f"{o.parallel}, {o.accumulation_chosen} passes" if o.accumulation_chosen else o.parallel


def commitment(o: TrainingOption) -> str:
    """` of $4.48 M that are paid in any case (0.0012 % used)`; nothing where machines are paid by the hour."""
    if o.commitment_used is None:
        return ""
    return f" of {usd(o.commitment_usd)} that are paid in any case ({100 * o.commitment_used:.2g} % used)"


def nearest_to_limits(plan: TrainingPlan) -> Iterator[str]:
    """Those options in words, each with the limits that it breaks."""
    found = nearest(plan)
    for o in each_once(found.values()):
        kinds = " and ".join(kind for kind, one in found.items() if one is o)
        parts = "; ".join((in_short(o), *breaking(plan, o)))
        yield f"{kinds.capitalize()}: {parts}."


def nearest(plan: TrainingPlan) -> dict[Nearest, TrainingOption]:
    """Options that the answer names where none keeps the limits."""
    return nearest_to(plan.options, plan.deadline_s, plan.budget_usd)


def each_once(options: Iterable[TrainingOption]) -> list[TrainingOption]:
    """The options in their order, without those that came before."""
    found: list[TrainingOption] = []
    found.extend(o for o in options if o not in found)
    return found


def breaking(plan: TrainingPlan, o: TrainingOption) -> Iterator[str]:
    """`late even at the middle`, `up to $31.38 of $20.00 at worst, 60 % likely in budget`."""
    if not math.isfinite(o.time_s.high):
        yield "may never end"
        return
    at_middle, at_worst, in_budget = [], [], ""
    if not is_within(o.time_s.mid, plan.deadline_s):
        at_middle.append("late")
    elif plan.deadline_s and not o.within_deadline:
        at_worst.append(over(o.time_s.high, plan.deadline_s, length))
    if not is_within(o.paid_usd, plan.budget_usd):
        at_middle.append("too dear")
    elif plan.budget_usd and not o.within_budget:
        at_worst.append(over(dearest_usd(o), plan.budget_usd, usd))
        in_budget = f", {chance(o.cost_usd, budget_likelihood(o, plan.budget_usd))} likely in budget"
    if at_middle:
        yield f"{' and '.join(at_middle)} even at the middle"
    if at_worst:
        yield f"up to {' and '.join(at_worst)} at worst{in_budget}"


def over(value: float, limit: float, show: Callable[[float], str]) -> str:
    """`12.3 h of 12 h`; `90 s over 12 h` where both are written alike."""
    if show(value) == show(limit):
        return f"{show(value - limit)} over {show(limit)}"
    return f"{show(value)} of {show(limit)}"


def remedies(plan: TrainingPlan) -> Iterator[str]:
    """Limits with which there is an answer, as a scenario has them."""
    for enough in enough_limits(plan.options, plan.deadline_s, plan.budget_usd):
        o = enough.option
        limits = []
        if enough.raises_deadline:
            limits.append(f"`deadline: {length_enough(o.time_s.high)}`")
        if enough.raises_budget:
            limits.append(f"`budget: ${up(dearest_usd(o)):.15g}`")
        takes = f"takes up to {length(o.time_s.high)} and {usd(dearest_usd(o))}"
        yield f"Remedy: {' and '.join(limits)}; {who(o)} {takes}."


def length_enough(time_s: float) -> str:
    """`79.3 min` is within `80 min`, `355 years` within `130000 days`: as a scenario has it."""
    fitting = (size for size in SIZES[1:] if time_s >= size[2] * size[1])
    unit, size_s, _ = next(fitting, ("s", 1.0, 0))
    return f"{up(time_s / size_s):.15g} {unit}"


def up(value: float) -> float:
    """The next number of two digits: 29.56 is 30, 118.7 is 120."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return math.ceil(value / unit) * unit


def nothing_fits(plan: TrainingPlan) -> str:
    """The option that needs least memory beyond what its GPUs have."""
    least = least_short_of_memory(plan)
    need = f"{gigabytes(least.memory_bytes)} of {gigabytes(least.memory_limit_bytes)}"
    hint = ""
    if least.largest_batch:
        most = counted(least.largest_batch, "sample")
        hint = f" Take at most {most} a pass, with `train.accumulation` for the rest."
    elif least.gpus_needed is None:
        hint = " `context` alone takes all of it: write less."
    return f"None fits in memory. Nearest: {who(least)}, {need} on each GPU.{hint}"


def changes_that_fit(plan: TrainingPlan) -> Iterator[str]:
    """Changes with which something was seen to fit, the cheapest first; those that were tried where none does."""
    helpful = [one for one in plan.tried if one.option]
    for one in helpful:
        if o := one.option:
            limits = "".join(f", {word}" for word in broken_at_worst(o))
            doubt = "" if o.fits else f"; may run out of memory, {at_most_held(o)}"
            figures = f"{between(o.time_s)}, {between(o.cost_usd, usd)}{limits}{doubt}"
            yield f"Remedy: `{one.key}: {one.values[0]}`; {who(o)}: {figures}."
    if plan.tried and not helpful:
        keys = "; ".join(f"`{one.key}` {names(one.values)}" for one in plan.tried)
        tried = f"In passes as large as now nothing fits with one of these alone: {keys}."
        yield f"{tried} Take more memory (`buy`), or several of them."


def least_short_of_memory(plan: TrainingPlan) -> TrainingOption:
    """The option that needs least memory for what its GPUs have."""
    return min(plan.options, key=lambda o: o.memory_bytes / o.memory_limit_bytes)


def at_worst(o: TrainingOption) -> str:
    """`kept`, `late`, `too dear` or `late, too dear`: at the bad ends of its band."""
    return ", ".join(broken_at_worst(o)) or "kept"


def broken_at_worst(o: TrainingOption) -> list[str]:
    """Words for the limits that it breaks at the bad ends of its band."""
    return [word for word, kept in (("late", o.within_deadline), ("too dear", o.within_budget)) if not kept]


def committed(o: TrainingOption) -> str:
    """`$4.48 M`; nothing where machines are paid by the hour."""
    return usd(o.commitment_usd) if o.commitment_usd else ""


def is_divided(o: TrainingOption) -> bool:
    """True where its GPUs share the work otherwise than as plain copies of the model."""
    return divided(o) not in ("one GPU", f"data {o.gpu_count}")


def remarks(plan: TrainingPlan, shown: Sequence[TrainingOption]) -> list[str]:
    """How to judge the figures."""
    named = [one for one in (plan.cheapest, plan.fastest, *nearest(plan).values()) if one]
    detailed = shown if len(shown) <= FEW else named[:1]
    lines = [memory_line(o) for o in detailed]
    lines += speed_lines(shown)
    lines += [
        *dict.fromkeys(network_line(o, o.network_bytes_per_s) for o in detailed if o.network_bytes_per_s),
        *interruption_lines(detailed),
        *starved_lines(plan),
    ]
    if needed := [o.gpus_needed for o in shown if o.gpus_needed and not o.may_fit and not o.largest_batch]:
        least = counted(min(needed), "GPU")
        lines.append(f"Where not even one sample surely fits, the states alone need {least} or more.")
    if late := max((x.staleness for x in shown), default=0):
        lines.append(f"Asynchronous: gradients arrive up to {counted(late, 'update')} late.")
    if plan.prices_as_of:
        lines.append(f"The oldest price is from {plan.prices_as_of}.")
    if plan.rejections:
        count = counted(len(plan.rejections), "machine")
        lines.append(f"Left out: {count} not sold at such a price; --format json says which.")
    lines.append(
        "Energy is that of the GPUs at their measured power; where nobody measured it, three quarters of the way"
        " from idle to the power limit."
    )
    return lines


def doubts(plan: TrainingPlan) -> list[str]:
    """What weakens the figures most."""
    held = [o.bottleneck for o in (plan.cheapest, plan.fastest) if o]
    lines = [*plan.unused, *plan.assumptions, *(sentence(warning(one)[0]) for one in plan.stale_prices)]
    lines += [*weak_lines(plan), *plan.feeding]
    if any(o.time_s.low < o.time_s.high for o in plan.options):
        lines.append("A band holds about 80 % of cases: a tenth lie below it, a tenth above.")
    lines += [*starved_lines(plan, held), *plan.warnings]
    best = {"cheapest": plan.cheapest, "fastest": plan.fastest}
    old = {one.what.subjects[-1] for one in plan.stale_prices}
    dated = [f"{o.price_as_of} ({name})" for name, o in best.items() if o and o.price_as_of not in {"", *old}]
    if dated:
        lines.append(f"Prices of {', '.join(dated)}.")
    return lines


def weak_lines(plan: TrainingPlan) -> Iterator[str]:
    """GPUs on which nobody measured it, and those of which the scenario states a speed."""
    weak = [o for o in plan.options if o.evidence.rank > Evidence.FITTED.rank]
    measured = {o.gpu for o in plan.options if o.rule is SpeedRule.TRAINING_STEPS}
    if kinds := sorted({o.gpu for o in weak if o.rule not in AS_STATED} - measured):
        yield f"Nobody measured this training on {names(kinds)}: the bands show how far such predictions err."
    if kinds := sorted({o.gpu for o in weak if o.rule in AS_STATED}):
        yield (
            f"The speed of {names(kinds)} is what the scenario states. Its assumed error is {share(MEASURED_BAND)},"
            f" {share(PAST_BAND)} at other numbers of GPUs, or where it is a rate of operations."
        )


def starved_lines(plan: TrainingPlan, by: Sequence[Limit] = (Limit.LOADER, Limit.STORAGE)) -> list[str]:
    """How many of all options wait for samples, limited by one of these: for how many workers, or for storage."""
    lines = []
    options = counted(len(plan.options), "option")
    held = [o for o in plan.options if o.bottleneck in by]
    if starved := [o for o in held if o.bottleneck is Limit.LOADER]:
        need = max(o.workers_enough or 0 for o in starved)
        lines.append(f"{len(starved)} of {options} limited by the loader; {need} workers a GPU are enough everywhere.")
    if late := sum(o.bottleneck is Limit.STORAGE for o in held):
        lines.append(f"{late} of {options} limited by storage (`data.storage`); more workers do not help.")
    return lines


def network_line(o: TrainingOption, link: Range) -> str:
    """`Network of g6e.xlarge: 2.5 Gb/s (1.25 to 20), as listed`."""
    basis = "assumed" if o.network_assumed else "as listed" if ends(link) else "as the scenario states"
    return f"Network of {o.instance}: {between(link * BITS_OF_GBYTE, gigabits)}, {basis}."


def gigabits(rate: float) -> str:
    """`2.5 Gb/s`."""
    return f"{rate:g} Gb/s"


def interruption_lines(shown: Sequence[TrainingOption]) -> list[str]:
    """How often runs are interrupted and write a checkpoint; one line for options that are alike in that."""
    found = {o.interruptions: o for o in reversed(shown) if o.interruptions}
    return [interruption_line(o, cause) for cause, o in reversed(found.items())]


def interruption_line(o: TrainingOption, cause: RunInterruptions) -> str:
    """`... interrupted every 24 h (60 s to write, 5 min to restart); a checkpoint every 53 min costs least.`"""
    assumed = ""
    if cause.assumed:
        apart = f"{ends(cause.between_range_s)}, " if cause.between_range_s else ""
        assumed = f"{apart}assumed; write `interruptions.spot_mean_time_between`; "
    price = f"{length(cause.write_s)} to write, {length(cause.restart_s)} to restart"
    every = f"{who(o)}: interrupted every {length(cause.between_s)} ({assumed}{price})"
    if cause.checkpoint_s is None:
        return f"{every}; too short a run for checkpoints to be worth their time."
    return f"{every}; a checkpoint every {length(cause.checkpoint_s)} costs least."


def memory_line(o: TrainingOption) -> str:
    """The memory on each GPU of an option by kind, and how many samples would fit."""
    kinds = ", ".join(f"{name} {gigabytes(size)}" for name, size in o.memory.items())
    most = f"at most {counted(o.largest_batch, 'sample')} a pass" if o.largest_batch else "not one sample"
    return f"Memory of {who(o)}: {kinds}; in all {memory_band(o)}; {most} surely fits."


def speed_lines(shown: Sequence[TrainingOption]) -> list[str]:
    """Where speeds come from: a line for kinds of GPU that rest on the same."""
    bases = grouped(((o.source, o.sources), o.gpu) for o in shown)
    return [speed_line(*basis, list(dict.fromkeys(kinds))) for basis, kinds in bases.items()]


def speed_line(source: str, sources: Sequence[str], kinds: Sequence[str]) -> str:
    """Where the speed of some kinds of GPU comes from: `Training steps measured on it: V100. Sources: ...`"""
    line = f"{begin(source)}: {names(kinds)}."
    return f"{line} Sources: {'; '.join(sources)}." if sources else line
