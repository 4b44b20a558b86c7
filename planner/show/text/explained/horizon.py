"""Why one way to keep machines is the cheapest: what each other way pays or misses, and what the load asks."""

from collections import Counter
from collections.abc import Iterator

from planner.questions.horizons.answer import Horizon, Strategy
from planner.show.document import Document, explanation
from planner.show.text.horizons import answers, beyond, checked, headline, kept_over, prices, sentences, usd
from planner.units.writing import counted, dollars, exact, percent, share

MINUTES_PER_HOUR = 60


def document(horizon: Horizon) -> Document:
    """The explanation, from the best way over the others to what is assumed."""
    ranked = sorted(horizon.strategies, key=lambda s: (s.way != horizon.best, not s.met, s.cost_usd))
    parts = {
        "Why this way, and not the others": [f"{s.way}, {s.label}: {verdict(s, horizon)}." for s in ranked],
        "What the load asks": list(asked(horizon)),
        "What the bound leaves": list(over_bound(horizon)),
        "Checked frame by frame": checked(horizon.check),
        "Not compared": list(horizon.not_compared),
        "Assumptions": [*prices(horizon), *sentences(horizon.assumptions)],
        "Warnings": sentences(horizon.warnings),
    }
    return explanation(horizon.scenario, headline(horizon), parts, answers(horizon))


def verdict(s: Strategy, horizon: Horizon) -> str:
    """`$151, 23 % more; 142 of 288 paid GPU-hours are not needed`, or by how much an SLO is missed."""
    paid = f"{usd(s)}{dearer(s, horizon)}"
    if s.met:
        return f"{paid}; {s.wasted_gpu_hours:,.0f} of {s.gpu_hours:,.0f} paid GPU-hours are not needed at their moment"
    if s.reason and all(one.met_share >= horizon.keep_share for one in s.slos):
        return f"{paid}, but {s.reason}"
    worst = min(s.slos, key=beyond)
    got = f"{percent(worst.slo_attainment)} % on time, SLO {exact(worst.slo_attainment_target)}"
    kept = f"met in {share(worst.met_share)} of what is asked, {kept_over(horizon)}"
    short = f"; {s.short_gpu_hours:,.1f} GPU-hours short" if s.short_gpu_hours else ""
    reason = f"; {s.reason}" if s.reason else ""
    return f"{paid}, but {worst.model} is late: {got}, {kept}{short}{reason}"


def dearer(s: Strategy, horizon: Horizon) -> str:
    """`, 23 % more` than the best way."""
    best = next((one for one in horizon.strategies if one.way == horizon.best), s)
    if s is best or best.cost_usd <= 0:
        return ""
    more = s.cost_usd / best.cost_usd - 1
    return f", {share(abs(more))} {'more' if more >= 0 else 'less'}"


def asked(horizon: Horizon) -> Iterator[str]:
    """Hours by the number of GPUs that the load needs."""
    yield f"The busiest minute has {horizon.peak_factor:.2f} times the mean."
    minutes: Counter[int] = Counter()
    for level in horizon.levels:
        minutes[level.gpus_needed] += level.minutes
    for gpus, of_it in sorted(minutes.items()):
        hours = of_it / MINUTES_PER_HOUR
        part = share(of_it / minutes.total())
        yield f"{counted(gpus, 'GPU')} in {horizon.instance} for {hours:,.1f} h, {part} of the time."


def over_bound(horizon: Horizon) -> Iterator[str]:
    """The part of the best way's cost that no way can avoid."""
    for s in horizon.strategies:
        if s.way == horizon.best and s.cost_usd > 0:
            part = f"{dollars(horizon.bound_usd)} of {dollars(s.cost_usd)}, {share(horizon.bound_usd / s.cost_usd)}"
            yield f"{part}, is the work itself; the rest is machines that wait or cost more."
