"""Why a training takes its time and costs its money: steps, limits, memory, and what was left out."""

from collections.abc import Callable, Iterator, Sequence

from planner.questions.training.answer.choosing import dearest_usd, is_allowed
from planner.questions.training.answer.option import TrainingOption, TrainingPlan
from planner.questions.training.speed import Limit
from planner.show.document import Document, explanation
from planner.show.text.reasons import warning_texts
from planner.show.text.training import (
    answers,
    between,
    each_once,
    headline,
    interruption_lines,
    least_short_of_memory,
    length,
    memory_band,
    memory_line,
    nearest,
    over,
    speed_lines,
    starved_lines,
    step,
    usd,
    who,
)
from planner.units.writing import counted, gigabytes
from planner.words.statements import rejection_line

REST_SEEN = 0.005
"""Share of the whole time below which what comes besides steps is not worth a word."""
REJECTIONS_SHOWN = 5
SHORTER = {
    Limit.ARITHMETIC: "the GPUs compute all the time; faster ones, more of them or a lower precision make it shorter",
    Limit.BANDWIDTH: "the GPUs wait for their own memory; more bandwidth makes it shorter, more TFLOP/s do not",
    Limit.MEMORY: "what a pass holds does not fit; smaller passes, recomputing or dividing the model make it fit",
    Limit.LOADER: "samples come too slowly; more workers or a faster loader make it shorter, faster GPUs do not",
    Limit.STORAGE: "storage reads too slowly; a faster one, more machines or smaller samples make it shorter",
    Limit.NETWORK: "gradients take longer than computing; faster links or larger batches make it shorter",
    Limit.OVERHEAD: "starting work takes longer than doing it; larger batches make it shorter, more GPUs hardly",
}
"""What makes a training shorter, by what limits it."""


def document(plan: TrainingPlan) -> Document:
    """The explanation, from the arithmetic of the time to what was left out."""
    chosen = explained(plan)
    parts = {
        "How the time comes about": [*(f"{who(o)}: {arithmetic(o)}." for o in chosen), *interruption_lines(chosen)],
        "What speed costs": list(speed_cost(plan)),
        "What limits the options": list(limits(plan)),
        "What the memory holds": [memory_line(o) for o in chosen],
        "How sure that is": [*(f"{who(o)}: {band(o)}." for o in chosen), *speed_lines(chosen)],
        "Why not others": list(left_out(plan)),
        "Warnings": [*plan.unused, *plan.assumptions, *plan.feeding, *plan.warnings, *warning_texts(plan.stale_prices)],
    }
    return explanation(plan.name, headline(plan), parts, answers(plan))


def explained(plan: TrainingPlan) -> list[TrainingOption]:
    """Options that the answer names: the cheapest and the fastest, else the nearest to its limits or to fit."""
    chosen = [o for o in (plan.cheapest, plan.fastest) if o is not None] or nearest(plan).values()
    return each_once(chosen) or [least_short_of_memory(plan)]


def arithmetic(o: TrainingOption) -> str:
    """`112,590 steps of 183 ms are 5.72 h; with evaluation 5 min, start and stalls 52 min it is 6.66 h`."""
    steps_s = o.steps * o.step_s
    steps = f"{o.steps:,.0f} steps of {step(o.step_s)} are {length(steps_s)}"
    if abs(o.time_s.mid - steps_s) < REST_SEEN * o.time_s.mid:
        return steps
    rest = [f"{part} {length(time_s)}" for part, time_s in o.time_parts_s.items() if part != "steps" and time_s]
    return f"{steps}; with {', '.join(rest) or 'all that is not steps'} it is {length(o.time_s.mid)}"


def speed_cost(plan: TrainingPlan) -> Iterator[str]:
    """How much faster the fastest is, and how much dearer."""
    slow, fast = plan.cheapest, plan.fastest
    if slow is None or fast is None or slow == fast:
        return
    faster, dearer = slow.time_s.mid / fast.time_s.mid, fast.paid_usd / slow.paid_usd
    many = f"{counted(fast.gpu_count, 'GPU')} instead of {slow.gpu_count}"
    yield f"The fastest is {faster:.3g} times as fast as the cheapest and costs {dearer:.3g} times as much, on {many}."
    sooner = [o for o in plan.options if o.fits and is_allowed(o) and o.time_s.mid < fast.time_s.mid]
    if sooner:
        first = min(sooner, key=lambda o: o.time_s.mid)
        yield (
            f"{counted(len(sooner), 'dearer option')} cannot be told apart from it in time:"
            f" {who(first)}, {length(first.time_s.mid)} for {usd(first.cost_usd.mid)}."
        )


def limits(plan: TrainingPlan) -> Iterator[str]:
    """Each limit, the number of options that it holds, and what would make them shorter."""
    held = [o.bottleneck for o in plan.options]
    for limit in sorted(set(held), key=held.count, reverse=True):
        yield f"{limit}, {counted(held.count(limit), 'option')}: {SHORTER[limit]}."
    yield from starved_lines(plan)


def band(o: TrainingOption) -> str:
    """`7.08 h (6.15 h to 13.8 h), $17.69 ($15.38 to $34.52), evidence predicted`."""
    return f"{between(o.time_s)}, {between(o.cost_usd, usd)}, evidence {o.evidence}"


def first_of(options: Sequence[TrainingOption], breaks: str, says: Callable[[TrainingOption], str]) -> Iterator[str]:
    """How many options break a limit, and what the first of them, the nearest to it, asks of it."""
    if options:
        yield f"{counted(len(options), 'option')} {breaks}; nearest: {who(options[0])}, {says(options[0])}."


def past_limits(plan: TrainingPlan, fitting: Sequence[TrainingOption]) -> Iterator[str]:
    """Options that break the deadline or the budget."""
    if deadline_s := plan.deadline_s:
        by_time = sorted(fitting, key=lambda o: o.time_s.high)
        late = [o for o in by_time if not o.within_deadline]
        yield from first_of(late, "may end too late", lambda o: f"up to {over(o.time_s.high, deadline_s, length)}")
    if budget_usd := plan.budget_usd:
        by_cost = sorted(fitting, key=dearest_usd)
        dear = [o for o in by_cost if not o.within_budget]
        yield from first_of(dear, "may cost too much", lambda o: f"up to {over(dearest_usd(o), budget_usd, usd)}")


def left_out(plan: TrainingPlan) -> Iterator[str]:
    """Options that do not fit or break a limit, each with the nearest, and machines that are not on offer."""
    by_memory = sorted(plan.options, key=lambda o: o.memory_bytes / o.memory_limit_bytes)
    yield from first_of(
        [o for o in by_memory if not o.may_fit],
        "without room in memory at the middle of what they may need (`fits: false`)",
        lambda o: f"{over(o.memory_bytes, o.memory_limit_bytes, gigabytes)} on each GPU",
    )
    yield from first_of(
        [o for o in by_memory if o.may_fit and not o.fits],
        "with room at the middle and not at the upper end (`fits: false` too)",
        lambda o: f"{memory_band(o)} on each GPU",
    )
    yield from past_limits(plan, [o for o in plan.options if o.may_fit])
    yield from map(rejection_line, plan.rejections[:REJECTIONS_SHOWN])
    if (more := len(plan.rejections) - REJECTIONS_SHOWN) > 0:
        yield f"... and {counted(more, 'more machine')} in the JSON."
