"""Simulations as documents: the same tables as of a plan, for a deployment one named oneself."""

from planner.model.simulation import Simulation
from planner.show.document import MORE_WITH_V, Cell, Document, Items, Section, Stat, Stats, Text, Tone
from planner.show.documents import pipelines, replay
from planner.show.text.plan import OUTAGES, idle_line, outages_line, simulation_headline, sure_of
from planner.show.text.reasons import assumption_lines, warning_texts
from planner.units.writing import dollars

ASSUMPTIONS_SHOWN = 3


def brief(run: Simulation) -> Document:
    """A simulation with its first assumptions alone."""
    return document(run, ASSUMPTIONS_SHOWN)


def document(run: Simulation, assumptions_shown: int | None = None) -> Document:
    """A simulation."""
    assumptions = assumption_lines(run.assumptions)
    warnings = [one for one in run.warnings if one.what.code not in OUTAGES]
    cost = run.cost_usd_per_hour
    price = [] if cost is None else [Stat("cost", Cell(f"{dollars(cost)}/h", cost, "cost_usd_per_hour"))]
    return Document(
        name=run.scenario or "Simulation",
        headline=simulation_headline(run),
        lead=[
            replay.verdict(run),
            Text(outages_line(run), Tone.WARN),
            Text(idle_line(run), Tone.WARN),
            Stats([*price, *replay.stats(run, "")]),
            *map(Text, sure_of(run)),
        ],
        sections=[
            replay.where(run),
            *replay.sections(run, run.policies, "", short=assumptions_shown is not None),
            *pipelines.sections(run, ""),
            Section("Warnings", [Items(warning_texts(warnings))], id="warnings", tone=Tone.WARN),
            Section("Assumptions", [Items(assumptions, shown=assumptions_shown, rest=MORE_WITH_V)], id="assumptions"),
        ],
    )
