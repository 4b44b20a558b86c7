"""An answer about a long horizon in words: the cheapest way first, then what each way does."""

from collections.abc import Sequence

from planner.model.calendar import Keep
from planner.model.choices import HorizonWay
from planner.model.ranges import Range
from planner.questions.horizons.answer import DayCheck, Horizon, Mode, ModelSlo, Strategy, StrategyPart
from planner.show.text.reasons import sentence
from planner.units.writing import counted, dollars, exact, per_second, percent, share, signed_share, span
from simulator.world.hardware import with_article
from simulator.world.profile import NOT_MEASURED

SECONDS_PER_HOUR = 3600


def headline(horizon: Horizon) -> str:
    """The load, and the ground of speeds that the user did not measure."""
    mean_rps = horizon.requests / (horizon.days * 24 * SECONDS_PER_HOUR)
    load = f"{per_second(mean_rps)} on average, {per_second(mean_rps * horizon.peak_factor)} in the busiest minute"
    ground = f" Speeds are {horizon.speed_evidence}, not measured." if horizon.speed_evidence in NOT_MEASURED else ""
    return f"{horizon.scenario}: {horizon.requests:,.0f} requests in {counted(horizon.days, 'day')}, {load}.{ground}"


def answers(horizon: Horizon) -> list[str]:
    """The cheapest way, what it commits to, and what no way can cost less than."""
    if not horizon.best:
        return [none_meets(horizon.strategies)]
    best = next(s for s in horizon.strategies if s.way == horizon.best)
    fixed = next((s for s in horizon.strategies if s.way is HorizonWay.FIXED and s.met), best)
    saved = 1 - best.cost_usd / fixed.cost_usd if fixed.cost_usd else 0.0
    less = f", {share(saved)} less than {HorizonWay.FIXED}" if saved >= 0.005 else ""
    month = f"{dollars(best.cost_usd_per_month)} a month"
    cheapest = f"Cheapest that meets every SLO: {best.label}: {usd(best)}, {month}{less}."
    lines = [cheapest]
    if owed := sum(part.commitment_usd for part in best.parts):
        lines.append(f"It commits you to {dollars(owed)} over the whole term, whatever is used.")
    bound = f"{dollars(horizon.bound_usd)}: the work on the cheapest machine, never idle"
    slow = ", with uncertain speeds at their slow ends" if horizon.speed_confidence else ""
    return [*lines, *in_draws(best, horizon), f"No way on offer can cost less than {bound}{slow}."]


def none_meets(strategies: Sequence[Strategy]) -> str:
    """No way does, and how near the nearest comes of those that cost no more than is allowed."""
    within = [s for s in strategies if not s.over_max_cost]
    where = "" if len(within) == len(strategies) else " within `buy.max_cost`"
    none = f"No way{where} meets every SLO"
    if not within:
        return f"{none}."
    nearest = max(within, key=shortest)
    reason = f"; {nearest.reason}" if nearest.reason else ""
    return f"{none}. Nearest: {nearest.way}, {percent(on_time(nearest))} % on time{reason}."


def met(s: Strategy) -> str:
    """Whether a way is one to take, or costs too much."""
    if s.over_max_cost:
        return "over max_cost"
    return "yes" if s.met else "no"


def in_draws(best: Strategy, horizon: Horizon) -> list[str]:
    """How sure it is where speeds are predicted or published."""
    if not horizon.speed_confidence or best.draws_kept is None:
        return []
    held = f"In its busiest minute every SLO is met in {share(best.draws_kept)} of {best.draws} draws of these speeds"
    return [f"Not all speeds are measured. {held}; {exact(horizon.speed_confidence)} was asked for."]


def beyond(one: ModelSlo) -> float:
    """By how much an SLO is met, below zero where missed."""
    return one.slo_attainment - one.slo_attainment_target


def shortest(s: Strategy) -> float:
    """By how much the worst SLO is met."""
    return min(map(beyond, s.slos))


def on_time(s: Strategy) -> float:
    """Share in time of the model that has least over its SLO."""
    return min(s.slos, key=beyond).slo_attainment


def span_of(band: Range) -> str:
    """`$139 - $162`; nothing where the figure is certain."""
    return "" if band.low == band.high else f"{dollars(band.low)} - {dollars(band.high)}"


def usd(s: Strategy) -> str:
    """`$151 ($139 at the middle of the spot price)`."""
    middle = s.cost_usd_range.mid
    beside = f" ({dollars(middle)} at the middle of the spot price)" if middle < 0.995 * s.cost_usd else ""
    return f"{dollars(s.cost_usd)}{beside}"


def in_short(s: Strategy, horizon: Horizon) -> str:
    """A way in a line."""
    parts = [f"{s.way}: {s.label}"]
    if s.orders:
        each_day = round(s.orders / horizon.days)
        parts.append(f"{counted(each_day, 'machine')} booted a day")
    if s.interruptions:
        parts.append(f"{s.interruptions / horizon.days:,.1f} are taken")
    reason = f". It misses: {s.reason}" if s.reason else ""
    return ", ".join(parts) + reason


def models(horizon: Horizon) -> list[str]:
    """Each model under each way, where there are several."""
    first = horizon.strategies[0].slos
    over = kept_over(horizon)
    if len(first) == 1:
        return [f"{first[0].model}: {exact(first[0].slo_attainment_target)} of requests must be on time, {over}"]
    return [model_line(i, one, over, horizon) for i, one in enumerate(first)]


def model_line(number: int, one: ModelSlo, over: str, horizon: Horizon) -> str:
    """One model under each way."""
    shares = [f"{s.way} {percent(s.slos[number].slo_attainment)}" for s in horizon.strategies]
    return f"{one.model}: SLO {exact(one.slo_attainment_target)}, {over}; {', '.join(shares)}"


def kept_over(horizon: Horizon) -> str:
    """`in every hour`, `in 99 % of the days`, `over the whole`: what counts as kept."""
    if horizon.keep is Keep.WHOLE:
        return "over the whole"
    if horizon.keep_share >= 1:
        return f"in every {horizon.keep}"
    return f"in {exact(horizon.keep_share)} of the {horizon.keep}s"


def checked(check: DayCheck | None) -> list[str]:
    """One day replayed, beside what the levels say of it."""
    if check is None:
        return []
    off = (check.slo_attainment_levels - check.slo_attainment) * 100
    busy_off = check.busy_gpu_hours_levels / check.busy_gpu_hours - 1 if check.busy_gpu_hours else 0.0
    return [
        f"day {check.day} of {check.way}: {check.requests:,} requests in {check.wall_s:,.0f} s",
        f"on time: {check.slo_attainment * 100:.3f} % replayed, {check.slo_attainment_levels * 100:.3f} % by levels: "
        f"{off:+.3f} points",
        f"GPU-hours in which a batch ran: {check.busy_gpu_hours:,.1f} replayed, {check.busy_gpu_hours_levels:,.1f} by "
        f"levels: {signed_share(busy_off, 2)}",
    ]


def prices(horizon: Horizon) -> list[str]:
    """The price of each kind of machine, and when it answers."""
    all_parts = [part for s in horizon.strategies for part in s.parts]
    parts = {(p.instance, p.price_kind): p for p in all_parts}
    starts = {p.instance: p.start_s for p in all_parts if p.mode is not Mode.CONSTANT}
    return [
        *(price(p) for p in parts.values()),
        *(
            f"{with_article(name)} answers {span(float(f'{start_s:.3g}'))} after it is ordered"
            for name, start_s in starts.items()
        ),
    ]


def price(p: StrategyPart) -> str:
    """`g4dn.xlarge (1 x T4), on-demand: $0.526/h (2026-07-10)`."""
    band = p.usd_per_hour_range
    spot = f", from {dollars(band.low)} to {dollars(band.high)}" if band.low < band.high else ""
    seen = f" ({p.price_as_of})" if p.price_as_of else ""
    machine = f"{p.instance} ({p.gpus_per_machine} x {p.gpu})"
    return f"{machine}, {p.price_kind}: {dollars(p.usd_per_hour)}/h{spot}{seen}"


def sentences(lines: Sequence[str]) -> list[str]:
    """Assumptions or warnings with their full stops."""
    return [sentence(line) for line in lines]
