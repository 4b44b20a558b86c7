"""The answer about a long horizon for people: the cheapest way first, then all side by side."""

from collections.abc import Sequence
from dataclasses import asdict

from planner.horizons.answer import Band, DayCheck, Horizon, Mode, Part, Strategy, Way
from planner.horizons.sections import Keep
from planner.layout import Column, Format, Screen, counted, dollars, markdown, per_second, percent, promise, span, table
from planner.store import to_json

SECONDS_PER_HOUR = 3600


def render(found: Horizon, form: Format, screen: Screen) -> str:
    """The answer as a table, as JSON or as Markdown."""
    match form:
        case Format.JSON:
            return to_json(asdict(found))
        case Format.MD:
            return "\n".join(markdown_lines(found)) + "\n"
    return "\n".join(lines(found, screen)) + "\n"


def lines(found: Horizon, screen: Screen) -> list[str]:
    """The answer for a terminal."""
    title, *rest = headline(found)
    missed = frozenset(i for i, s in enumerate(found.strategies) if not s.met)
    return [
        *screen.wrap(screen.bold(title)),
        *(line for text in rest for line in screen.wrap(text)),
        "",
        *table(columns(found), screen, bad=missed),
        "",
        *(line for s in found.strategies for line in screen.wrap(told(s, found), 2, 2)),
        *section("Models", models(found), screen),
        *section("Checked frame by frame", checked(found.check), screen),
        *section("Not compared", found.not_compared, screen),
        *section("Taken for granted", [*prices(found), *found.assumptions], screen),
        *section("Mind", found.warnings, screen),
    ]


def markdown_lines(found: Horizon) -> list[str]:
    """The answer for an issue or a page."""
    title, *rest = headline(found)
    parts = {
        "Models": models(found),
        "Checked frame by frame": checked(found.check),
        "Not compared": found.not_compared,
        "Taken for granted": [*prices(found), *found.assumptions],
        "Mind": found.warnings,
    }
    said = [
        f"# {title}",
        "",
        *rest,
        "",
        *markdown(columns(found)),
        "",
        *(f"- {told(s, found)}" for s in found.strategies),
    ]
    for name, texts in parts.items():
        said += ["", f"## {name}", "", *(f"- {text}" for text in texts)] if texts else []
    return said


def section(title: str, texts: Sequence[str], screen: Screen) -> list[str]:
    """A heading and its lines; nothing where there are none."""
    if not texts:
        return []
    return ["", screen.bold(title), *(line for text in texts for line in screen.wrap(f"- {text}", 2, 2))]


def headline(found: Horizon) -> list[str]:
    """What is asked, and the answer."""
    mean_rps = found.requests / (found.days * 24 * SECONDS_PER_HOUR)
    load = f"{per_second(mean_rps)} on average, {per_second(mean_rps * found.peak_factor)} in the busiest minute"
    title = f"{found.scenario}: {found.requests:,.0f} requests in {counted(found.days, 'day')}, {load}."
    if not found.best:
        nearest = max(found.strategies, key=shortest)
        return [title, f"No way keeps every promise. Nearest: {nearest.way}, {percent(on_time(nearest))} % in time."]
    best = next(s for s in found.strategies if s.way == found.best)
    fixed = next((s for s in found.strategies if s.way is Way.FIXED and s.met), best)
    saved = 1 - best.cost_usd / fixed.cost_usd
    less = f", {saved:.0%} less than {Way.FIXED}" if saved >= 0.005 else ""
    month = f"{dollars(best.cost_usd_per_month)} a month"
    said = f"Cheapest that keeps every promise: {best.label}: {usd(best)}, {month}{less}."
    owed = sum(part.commitment_usd for part in best.parts)
    return [
        title,
        said,
        *([f"It commits you to {dollars(owed)} over the whole term, whatever is used."] if owed else []),
        f"No way on offer can cost less than {dollars(found.bound_usd)}: the work on the cheapest machine, never idle.",
    ]


def shortest(s: Strategy) -> float:
    """By how much the worst promise is kept, below zero where missed."""
    return min(p.slo_attainment - p.slo_attainment_target for p in s.promises)


def on_time(s: Strategy) -> float:
    """Share in time of the model that has least over its promise."""
    return min(s.promises, key=lambda p: p.slo_attainment - p.slo_attainment_target).slo_attainment


def columns(found: Horizon) -> list[Column]:
    """One row a way."""
    ways = found.strategies
    ranged = any(s.cost_usd_range.low != s.cost_usd_range.high for s in ways)

    def figures(title: str, cells: Sequence[str]) -> Column:
        return Column(title, cells, right=True)

    return [
        Column("way", [f"{s.way}{' *' if s.way == found.best else ''}" for s in ways]),
        figures("cost", [dollars(s.cost_usd) for s in ways]),
        *([figures("from - to", [span_of(s.cost_usd_range) for s in ways])] if ranged else []),
        figures("a month", [dollars(s.cost_usd_per_month) for s in ways]),
        figures("a million", [dollars(s.usd_per_million_requests) for s in ways]),
        figures("in time %", [percent(on_time(s)) for s in ways]),
        figures("worst hour %", [percent(min(p.worst_hour for p in s.promises)) for s in ways]),
        figures("minute %", [percent(min(p.worst_minute for p in s.promises)) for s in ways]),
        Column("kept", ["yes" if s.met else "no" for s in ways]),
        figures("GPU-hours", [f"{s.gpu_hours:,.0f}" for s in ways]),
        figures("wasted", [f"{s.wasted_gpu_hours:,.0f}" for s in ways]),
        figures("short", [f"{s.short_gpu_hours:,.1f}" for s in ways]),
        figures("most GPUs", [f"{s.gpus_max:,}" for s in ways]),
    ]


def span_of(band: Band) -> str:
    """`$139 - $162`; nothing where the figure is certain."""
    return "" if band.low == band.high else f"{dollars(band.low)} - {dollars(band.high)}"


def usd(s: Strategy) -> str:
    """`$151 ($139 at the middle of the spot price)`."""
    middle = s.cost_usd_range.mid
    beside = f" ({dollars(middle)} at the middle of the spot price)" if middle < 0.995 * s.cost_usd else ""
    return f"{dollars(s.cost_usd)}{beside}"


def told(s: Strategy, found: Horizon) -> str:
    """What a way does, in a line."""
    parts = [f"{s.way}: {s.label}"]
    if s.orders:
        each_day = round(s.orders / found.days)
        parts.append(f"{counted(each_day, 'machine')} booted a day")
    if s.interruptions:
        parts.append(f"{s.interruptions / found.days:,.1f} are taken")
    return ", ".join(parts)


def models(found: Horizon) -> list[str]:
    """Each model under each way, where there are several."""
    first = found.strategies[0].promises
    over = kept_over(found)
    if len(first) == 1:
        return [f"{first[0].model}: {promise(first[0].slo_attainment_target)} of requests in time are promised, {over}"]
    return [
        f"{p.model}: {promise(p.slo_attainment_target)} promised, {over}; "
        + ", ".join(f"{s.way} {percent(s.promises[i].slo_attainment)}" for s in found.strategies)
        for i, p in enumerate(first)
    ]


def kept_over(found: Horizon) -> str:
    """`in every hour`, `in 99 % of the days`, `over the whole`: what counts as kept."""
    if found.keep is Keep.WHOLE:
        return "over the whole"
    return f"in every {found.keep}" if found.keep_share >= 1 else f"in {promise(found.keep_share)} of the {found.keep}s"


def checked(check: DayCheck | None) -> list[str]:
    """One day replayed, beside what the levels said."""
    if check is None:
        return []
    off = (check.slo_attainment_levels - check.slo_attainment) * 100
    busy_off = check.busy_gpu_hours_levels / check.busy_gpu_hours - 1 if check.busy_gpu_hours else 0.0
    return [
        f"day {check.day} of {check.way}: {check.requests:,} requests in {check.wall_s:,.0f} s",
        f"in time: {check.slo_attainment * 100:.3f} % replayed, {check.slo_attainment_levels * 100:.3f} % by levels: "
        f"{off:+.3f} points",
        f"GPU-hours in which a batch ran: {check.busy_gpu_hours:,.1f} replayed, {check.busy_gpu_hours_levels:,.1f} by "
        f"levels: {busy_off:+.2%}",
    ]


def prices(found: Horizon) -> list[str]:
    """What each kind of machine costs, and when it answers."""
    parts = {(p.instance, p.price_kind): p for s in found.strategies for p in s.parts}
    starts = {p.instance: p.start_s for s in found.strategies for p in s.parts if p.mode is not Mode.CONSTANT}
    return [
        *(price(p) for p in parts.values()),
        *(f"a {name} answers {span(float(f'{start_s:.3g}'))} after it is ordered" for name, start_s in starts.items()),
    ]


def price(p: Part) -> str:
    """`g4dn.xlarge (1 x T4), on-demand: $0.526/h (2026-07-10)`."""
    band = p.usd_per_hour_range
    spot = f", from {dollars(band.low)} to {dollars(band.high)}" if band.low < band.high else ""
    seen = f" ({p.price_as_of})" if p.price_as_of else ""
    machine = f"{p.instance} ({p.gpus_per_machine} x {p.gpu})"
    return f"{machine}, {p.price_kind}: {dollars(p.usd_per_hour)}/h{spot}{seen}"
