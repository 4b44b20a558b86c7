"""Which option of a training is the best: by what is really paid, by time, and which others cannot be told apart."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum

from planner.catalog.sold import stale, usual_days
from planner.model.ranges import is_within
from planner.questions.training.answer.option import TrainingOption

ALIKE = 0.05
"""Share by which the middles of two times may differ that nobody can tell apart: even measured steps are taken within
10 %, half of those that are predicted err by more than 8 %."""


def is_stale(option: TrainingOption, today: date | None) -> bool:
    """Its price is older than its provider's usually become."""
    return today is not None and stale(option.price_as_of, today, usual_days(option.provider))


def at_fresh_price(options: Sequence[TrainingOption], today: date | None) -> TrainingOption | None:
    """The cheapest option whose price is not stale, where the cheapest of all has one that is."""
    cheapest = cheapest_of(options)
    if cheapest is None or not is_stale(cheapest, today):
        return None
    return cheapest_of([option for option in options if not is_stale(option, today)])


# Which option is best


def by_cost(option: TrainingOption) -> tuple[float, float]:
    """The order of options."""
    return option.cost_usd.mid, option.time_s.mid


def marked(options: Iterator[TrainingOption]) -> tuple[TrainingOption, ...]:
    """Options, cheapest first, each with its mark where none is both faster and cheaper."""
    ranked = sorted(options, key=by_cost)
    room = surest(ranked)
    front = unbeaten([(option.time_s.mid, option.paid_usd) for option in room])
    best = {id(option) for option in room if (option.time_s.mid, option.paid_usd) in front}
    return tuple(replace(option, pareto=id(option) in best) for option in ranked)


def unbeaten(figures: Iterable[tuple[float, float]]) -> set[tuple[float, float]]:
    """Times and prices than which no other is faster and costs no more, or costs less and is no slower.

    (1 h, $9), (2 h, $5) and (3 h, $5): the first two.
    """
    found: list[tuple[float, float]] = []
    for time_s, usd in sorted(figures):
        if not found or usd < found[-1][1]:
            found.append((time_s, usd))
    return set(found)


def surest(options: Sequence[TrainingOption]) -> Sequence[TrainingOption]:
    """Those that surely fit in memory; where none does, those that may."""
    return [option for option in options if option.fits] or [option for option in options if option.may_fit]


def cheapest_of(options: Sequence[TrainingOption]) -> TrainingOption | None:
    """By what is really paid."""
    return min(options, key=lambda option: (option.paid_usd, *by_cost(option)), default=None)


def fastest_of(options: Sequence[TrainingOption]) -> TrainingOption | None:
    """The cheapest of those whose times cannot be told apart from the shortest.

    $17.92 for 1,536 s and $2.96 for 1,537 s, both predicted: the second.
    """
    quickest = min(options, key=lambda option: (option.time_s.mid, *by_cost(option)), default=None)
    return quickest and cheapest_of([option for option in options if is_as_fast(option, quickest)])


def is_as_fast(option: TrainingOption, quickest: TrainingOption) -> bool:
    """Its time cannot be told apart from the shortest one: the bands meet, and the middles differ little."""
    little = option.time_s.mid <= (1 + ALIKE) * quickest.time_s.mid or option is quickest
    return little and option.time_s.low <= quickest.time_s.high


def rival_of(
    best: TrainingOption, options: Sequence[TrainingOption], figure: Callable[[TrainingOption], float]
) -> TrainingOption | None:
    """The best of other kinds of GPU, where the order of both is another in more than a tenth of cases.

    Steps err independently, runs over their steps alike. 10 h and 12 h with steps known within 1.2 times cannot be told
    apart, 10 h and 15 h can.
    """
    rival = min((option for option in options if option.gpu != best.gpu), key=figure, default=None)
    if rival is None or not (rival.step_range_s and best.step_range_s) or not math.isfinite(figure(rival)):
        return None
    slower, faster = best.step_range_s, rival.step_range_s
    doubt = math.hypot(math.log(slower.high / slower.mid), math.log(faster.mid / faster.low))
    return rival if math.log(figure(rival) / figure(best)) < doubt else None


def unsure_of(chosen: TrainingOption | None, of_all: TrainingOption | None) -> TrainingOption | None:
    """The best of all that may fit, where it is another than what was chosen of those that surely do."""
    other = other_than(chosen, of_all)
    return None if other is None or other.fits else other


def other_than(chosen: TrainingOption | None, of_all: TrainingOption | None) -> TrainingOption | None:
    """The best of all, where that is another than what was chosen of some."""
    return None if of_all is chosen else of_all


def is_allowed(option: TrainingOption) -> bool:
    """The option may fit, ends, and meets deadline and budget at its bad ends."""
    return option.may_fit and option.within_deadline and option.within_budget and math.isfinite(option.time_s.high)


# Where none is allowed


AT_MIDDLE = 0.5
"""Probability of a limit that is kept at the middle of a band or above it."""


class Nearest(StrEnum):
    """Why an option is named though it breaks a limit."""

    TO_LIMITS = "nearest"
    FASTEST = "fastest"
    AS_FAST = "about as fast"
    CHEAPEST = "cheapest"


def nearest_to(
    options: Sequence[TrainingOption], deadline_s: float | None, budget_usd: float | None
) -> dict[Nearest, TrainingOption]:
    """The nearest to both limits, and the fastest and the cheapest by the rules of an answer.

    Nearest is the likeliest of those that keep both at the middle; of the equally likely, and where none does, what
    breaks them by least at worst: a wide band is no merit.
    """
    room = surest(options)
    quick, cheap = fastest_of(room), cheapest_of(room)
    if quick is None or cheap is None:
        return {}

    def distance(option: TrainingOption) -> tuple[float, float]:
        in_time = 1.0 if deadline_s is None else option.time_s.chance_within(deadline_s)
        in_budget = 1.0 if budget_usd is None else budget_likelihood(option, budget_usd)
        chance = min(in_time, in_budget)
        return -round(chance, 2) if chance >= AT_MIDDLE else 0.0, excess(option, deadline_s, budget_usd)

    nearest = min(room, key=distance)
    speed = Nearest.AS_FAST if nearest.time_s.mid < quick.time_s.mid else Nearest.FASTEST
    return {Nearest.TO_LIMITS: nearest, speed: quick, Nearest.CHEAPEST: cheap}


def budget_likelihood(option: TrainingOption, budget_usd: float) -> float:
    """Probability that it keeps the budget; 0 where its commitment alone is more."""
    return option.cost_usd.chance_within(budget_usd) if is_within(option.commitment_usd, budget_usd) else 0.0


def excess(option: TrainingOption, deadline_s: float | None, budget_usd: float | None) -> float:
    """How many times it breaks its limits at worst: 36 h of 24 h and $30 of $20 are 1.5 x 1.5."""
    late = option.time_s.high / (deadline_s or math.inf)
    dear = dearest_usd(option) / (budget_usd or math.inf)
    return max(1.0, late) * max(1.0, dear)


def dearest_usd(option: TrainingOption) -> float:
    """The cost at worst, its commitment counted whole."""
    return max(option.cost_usd.high, option.commitment_usd)


@dataclass(frozen=True, slots=True)
class EnoughLimits:
    """Limits that an option surely keeps."""

    option: TrainingOption
    raises_deadline: bool
    raises_budget: bool


def enough_limits(
    options: Sequence[TrainingOption], deadline_s: float | None, budget_usd: float | None
) -> list[EnoughLimits]:
    """The least budget, and the least deadline, with which one option is allowed; both where one alone is none.

    None where no option surely ends.
    """
    room = [option for option in surest(options) if math.isfinite(option.time_s.high)]
    in_time = min((option for option in room if option.within_deadline), key=dearest_usd, default=None)
    in_budget = min((option for option in room if option.within_budget), key=lambda o: o.time_s.high, default=None)
    found = [EnoughLimits(in_time, raises_deadline=False, raises_budget=True)] if in_time else []
    if in_budget:
        found.append(EnoughLimits(in_budget, raises_deadline=True, raises_budget=False))
    if found or not room:
        return found
    least = min(room, key=lambda o: excess(o, deadline_s, budget_usd))
    return [EnoughLimits(least, raises_deadline=True, raises_budget=True)]
