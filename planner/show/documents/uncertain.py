"""What weakens a plan most, in a few lines."""

from collections.abc import Sequence
from dataclasses import replace

from planner.model.plan import Plan, PlanWarning
from planner.model.statement import Code
from planner.show.document import MORE_WITH_V, Items
from planner.show.text import reasons
from planner.words.statements import warning
from simulator.grouping import grouped

DOUBTS_SHOWN = 3
LEFT_OUT = (Code.HOST_WORK, Code.NETWORK)
"""Work that is not in an answer."""


def doubts(plan: Plan) -> Items:
    """What weakens the answer most, without the remedies: work left out is always seen, notes on figures come last."""
    ordered = sorted(one_a_date(reasons.warnings_of(plan)), key=lambda one: one.what.code is Code.DOUBT)
    left_out = next((i for i, one in enumerate(ordered) if one.what.code in LEFT_OUT), 0)
    if left_out >= DOUBTS_SHOWN:
        ordered.insert(DOUBTS_SHOWN - 1, ordered.pop(left_out))
    texts = [reasons.sentence(warning(one)[0]) for one in ordered]
    return Items(texts, shown=DOUBTS_SHOWN, rest=MORE_WITH_V)


def one_a_date(warnings: Sequence[PlanWarning]) -> list[PlanWarning]:
    """Prices of one date take one warning, before all others."""
    old = [one for one in warnings if one.what.code is Code.STALE_PRICE]
    dated = grouped(((one.what.subjects[-1], one.what.figures.get("usual")), one) for one in old)
    prices = [
        replace(those[0], what=replace(those[0].what, subjects=(*(one.what.subjects[0] for one in those), date)))
        for (date, _), those in dated.items()
    ]
    return [*prices, *(one for one in warnings if one.what.code is not Code.STALE_PRICE)]
