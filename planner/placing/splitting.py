"""Splitting: the SLO of a pipeline as budgets of its stages, so that its work costs least (Nexus, SOSP'19).

Nexus finds budgets of a tree by a dynamic program over steps of time. Here they come of an integer program over the
batches themselves, which needs no steps and holds for joins too, where branches wait for one another.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from types import MappingProxyType

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

SHORTER_S = 1e-9
"""Cost of a second on the way through a pipeline: of splits that cost the same, the quickest."""


@dataclass(frozen=True, slots=True, order=True)
class Choice:
    """One way to do the work of a stage: a batch size on a kind of GPU."""

    time_s: float
    """From an item's arrival until its batch is done, at most."""
    cost: float
    """Of all the stage's work, a second: in dollars, or in GPUs."""


NONE: Mapping[str, float] = MappingProxyType({})
Before = Mapping[str, Sequence[str]]
"""Stages that come right before each stage; none: frames enter there."""


def least_cost(
    before: Before, choices: Mapping[str, Sequence[Choice]], slo_s: float, ends_s: Mapping[str, float] = NONE
) -> dict[str, Choice] | None:
    """A choice for each stage, so that no way through the pipeline takes longer than its SLO, at least cost in all;
    None where even the quickest choices take longer. `ends_s`: stages that have an SLO of their own, from the start.

    Two stages one after the other, each in 10 ms at a cost of 3 or 20 ms at 2: with 30 ms one of them is quick, 5.
    """
    ways = [(stage, choice) for stage, each in choices.items() for choice in worth_it(each)]
    found = milp(
        np.array([choice.cost for _, choice in ways] + [SHORTER_S] * len(before)),
        constraints=_constraint(list(_conditions(before, ways)), len(ways) + len(before)),
        integrality=np.array([1] * len(ways) + [0] * len(before)),
        bounds=Bounds(0, [1] * len(ways) + [min(slo_s, ends_s.get(stage, slo_s)) for stage in before]),
    )
    if found.x is None:
        return None
    return {stage: choice for (stage, choice), taken in zip(ways, found.x, strict=False) if taken > 0.5}


def _constraint(conditions: Sequence[tuple[dict[int, float], float, float]], columns: int) -> LinearConstraint:
    """The same conditions as the program takes them: a row each."""
    cells, low, high = zip(*conditions, strict=True)
    matrix = np.zeros((len(conditions), columns))
    for row, factors in zip(matrix, cells, strict=True):
        row[list(factors)] = list(factors.values())
    return LinearConstraint(matrix, low, high)


def _conditions(before: Before, ways: Sequence[tuple[str, Choice]]) -> Iterator[tuple[dict[int, float], float, float]]:
    """Factors of ways and of stages' ends, and between what their sum must be: each stage takes one of its ways, and
    ends so much later than those right before it."""
    end = {stage: len(ways) + i for i, stage in enumerate(before)}
    for stage, each in before.items():
        mine = {i: choice for i, (name, choice) in enumerate(ways) if name == stage}
        yield dict.fromkeys(mine, 1.0), 1, 1
        took = {end[stage]: 1.0} | {i: -choice.time_s for i, choice in mine.items()}
        for begun in [{end[earlier]: -1.0} for earlier in each] or [{}]:
            yield took | begun, 0, inf


def worth_it(choices: Sequence[Choice]) -> list[Choice]:
    """The choices that no other beats in both time and cost."""
    kept: list[Choice] = []
    for choice in sorted(choices):
        if not kept or choice.cost < kept[-1].cost:
            kept.append(choice)
    return kept


def budgets_s(
    before: Before, times_s: Mapping[str, float], slo_s: float, ends_s: Mapping[str, float] = NONE
) -> dict[str, float]:
    """Each stage's part of the SLO: its time on the longest way that leads through it.

    Stages of 10 and 20 ms and an SLO of 60 ms: 20 and 40 ms. No way through the pipeline has more than the SLO, for no
    stage on it has a larger part than on this way. `ends_s`: stages that have an SLO of their own, from the start; with
    15 ms for the first of these, it has 15 ms.
    """
    until_s = longest_s(before, times_s)
    following = {stage: [other for other, earlier in before.items() if stage in earlier] for stage in before}
    onward_s = longest_s(following, times_s)
    shares = {stage: slo_s / (until_s[stage] + onward_s[stage] - took) for stage, took in times_s.items()}
    for end, end_s in ends_s.items():
        for stage, toward_s in longest_to(before, times_s, end).items():
            shares[stage] = min(shares[stage], end_s / (until_s[stage] + toward_s - times_s[stage]))
    return {stage: shares[stage] * took for stage, took in times_s.items()}


def most_s(
    before: Before, times_s: Mapping[str, float], slo_s: float, ends_s: Mapping[str, float] = NONE
) -> dict[str, float]:
    """The most that each stage may take where all others take their times.

    Stages of 10 and 20 ms and an SLO of 60 ms: 40 and 50 ms. `ends_s` as of `budgets_s`.
    """
    until_s = longest_s(before, times_s)
    following = {stage: [other for other, earlier in before.items() if stage in earlier] for stage in before}
    onward_s = longest_s(following, times_s)
    most = {stage: slo_s - until_s[stage] - onward_s[stage] + 2 * took for stage, took in times_s.items()}
    for end, end_s in ends_s.items():
        for stage, toward_s in longest_to(before, times_s, end).items():
            most[stage] = min(most[stage], end_s - until_s[stage] - toward_s + 2 * times_s[stage])
    return most


def longest_to(before: Before, times_s: Mapping[str, float], end: str) -> dict[str, float]:
    """The longest time from the beginning of a stage to the end of `end`, by all stages that lead there."""
    known = {end: times_s[end]}
    left = [end]
    while left:
        stage = left.pop()
        for earlier in before[stage]:
            toward_s = known[stage] + times_s[earlier]
            if toward_s > known.get(earlier, 0.0):
                known[earlier] = toward_s
                left.append(earlier)
    return known


def longest_s(before: Before, times_s: Mapping[str, float]) -> dict[str, float]:
    """The longest time from the first stage to the end of each."""
    known: dict[str, float] = {}

    def until(stage: str) -> float:
        if stage not in known:
            known[stage] = times_s[stage] + max(map(until, before[stage]), default=0.0)
        return known[stage]

    return {stage: until(stage) for stage in before}
