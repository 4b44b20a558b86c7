"""Answers about a long horizon as documents: the cheapest way first, then all side by side."""

from pathlib import Path

from planner.questions.horizons.answer import Horizon
from planner.show.charts.horizons import by_hour
from planner.show.charts.kit import png
from planner.show.charts.kit.blocks import charts_of
from planner.show.document import (
    PAGE,
    Cell,
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
from planner.show.text import horizons as prose
from planner.units.writing import counted, dollars, per_second, percent


def document(horizon: Horizon) -> Document:
    """Ways to keep machines, side by side."""
    missed = frozenset(i for i, s in enumerate(horizon.strategies) if not s.met)
    ways = [prose.in_short(s, horizon) for s in horizon.strategies]
    rows = Rows.at("strategies", horizon.strategies)
    ranged = any(s.cost_usd_range.low != s.cost_usd_range.high for s in horizon.strategies)
    spans = [rows.figures("from - to", lambda s: prose.span_of(s.cost_usd_range), value=lambda s: s.cost_usd_range.low)]
    columns = [
        rows.words("way", lambda s: f"{s.way} *" if s.way == horizon.best else s.way),
        rows.shown("cost", "cost_usd", dollars),
        *(spans if ranged else []),
        rows.shown("a month", "cost_usd_per_month", dollars),
        rows.shown("a million", "usd_per_million_requests", dollars),
        rows.worked("on time %", prose.on_time, percent),
        rows.worked("worst hour %", lambda s: min(p.worst_hour for p in s.slos), percent),
        rows.worked("minute %", lambda s: min(p.worst_minute for p in s.slos), percent),
        rows.words("met", prose.met),
        rows.figures("GPU-hours", lambda s: f"{s.gpu_hours:,.0f}", "gpu_hours"),
        rows.figures("wasted", lambda s: f"{s.wasted_gpu_hours:,.0f}", "wasted_gpu_hours"),
        rows.figures("short", lambda s: f"{s.short_gpu_hours:,.1f}", "short_gpu_hours"),
        rows.figures("most GPUs", lambda s: f"{s.gpus_max:,}", "gpus_max"),
    ]
    return Document(
        name=horizon.scenario,
        headline=prose.headline(horizon),
        lead=[*map(Text, prose.answers(horizon)), stats(horizon)],
        sections=[
            Section("Ways", [Table(columns, missed, stacked=True)], id="ways", titled=PAGE),
            Section("Each way", [Items(ways, bullets=False)], id="each", titled=PAGE),
            Section("GPUs by the hour", [DrawnCharts(lambda: by_hour(horizon))], id="hours"),
            Section("Models", [Items(prose.models(horizon))], id="models"),
            Section("Checked frame by frame", [Items(prose.checked(horizon.check))], id="checked"),
            Section("Not compared", [Items(horizon.not_compared)], id="left-out"),
            Section(
                "Assumptions",
                [Items([*prose.prices(horizon), *prose.sentences(horizon.assumptions)])],
                id="assumptions",
            ),
            Section("Warnings", [Items(prose.sentences(horizon.warnings))], id="warnings", tone=Tone.WARN),
        ],
    )


def draw(horizon: Horizon, path: Path) -> None:
    """Load and GPUs by the hour as a picture; InputError where it cannot be drawn or written."""
    png.draw(path, [list(charts_of(by_hour(horizon)))], horizon.scenario, wide_in=10)


def stats(horizon: Horizon) -> Stats:
    """Cost of the best way, and the load."""
    peak_rps = horizon.requests / (horizon.days * 24 * 3600) * horizon.peak_factor
    load = Stat("busiest minute", Cell(per_second(peak_rps), peak_rps), f"of {counted(horizon.days, 'day')}")
    best = [s for s in horizon.strategies if s.way == horizon.best]
    return Stats(
        [
            *(Stat("cost", Cell(dollars(s.cost_usd), s.cost_usd), s.way) for s in best),
            *(Stat("a month", Cell(dollars(s.cost_usd_per_month), s.cost_usd_per_month)) for s in best),
            Stat("at least", Cell(dollars(horizon.bound_usd), horizon.bound_usd, "bound_usd"), "whatever the way"),
            load,
        ]
    )
