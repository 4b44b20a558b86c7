"""Thresholds by halving: which value to try next, given what held so far. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import floor, sqrt

from planner.model.ranges import compared
from planner.questions.studies.engine import Outcome
from planner.questions.studies.figures import middle
from planner.questions.studies.scenario import FEASIBLE, Condition, Find, Search

SIGNS: Mapping[str, str] = {">=": "low", ">": "low", "<=": "high", "<": "high"}
"""The end of an interval that each comparison must hold for. NaN is on no side of a limit."""


@dataclass(frozen=True, slots=True)
class Bracket:
    """Where a threshold lies, as far as is known."""

    good: float | None
    """The value nearest to the threshold with which all held; None: none did."""
    bad: float | None
    """The nearest beyond it with which not all held; None: all tried held."""


def bracket(search: Search, held: Mapping[float, bool]) -> Bracket:
    """The narrowest bracket: of the good values the furthest before which none failed."""
    largest = search.find is Find.LARGEST
    tried = sorted(held, reverse=not largest)
    bad = next((value for value in tried if not held[value]), None)
    good = [value for value in tried if held[value] and (bad is None or (value < bad) == largest)]
    return Bracket(good[-1] if good else None, bad)


def next_values(search: Search, held: Mapping[float, bool]) -> tuple[float, ...]:
    """Values to try next; none where the bracket is narrow enough or no end holds.

    Both ends first; then the geometric middle, so that each step halves the ratio of the ends: 0.1 to 10 within 5 %
    takes 2 + 7 values, for 100^(1/2^7) = 1.037.
    """
    ends = tuple(value for value in (search.low, search.high) if value not in held)
    if ends:
        return ends
    found = bracket(search, held)
    if found.good is None or found.bad is None:
        return ()
    low, high = sorted((found.good, found.bad))
    if high <= low * (1 + search.tolerance) or (search.whole and high - low <= 1):
        return ()
    middle_value = sqrt(low * high)
    if search.whole:
        return (float(min(max(floor(middle_value), low + 1), high - 1)),)
    return (float(f"{middle_value:.6g}"),)


def holds(search: Search, outcome: Outcome) -> bool:
    """True where all conditions hold at a point; at a failed one none does."""
    return not outcome["failed"] and all(one_holds(condition, outcome) for condition in search.conditions)


def one_holds(condition: Condition, outcome: Outcome) -> bool:
    """True where the bad end of a figure's interval keeps to its limit; an unknown one does not."""
    if condition.name == FEASIBLE:
        return bool(outcome["feasible"])
    bad_end = SIGNS[condition.sign]
    figure = outcome["values"].get(condition.name)
    value = middle(figure[bad_end] if isinstance(figure, dict) else figure)
    return compared(value, condition.sign, condition.limit)
