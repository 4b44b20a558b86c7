"""Inputs: sizes of what a network reads, in order, so that a larger one takes no less time or memory.

What is said at the usual size stays as it is. From there upwards nothing falls, from there downwards nothing rises.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, replace
from functools import cache
from itertools import count
from math import exp, isqrt, log
from typing import NamedTuple

from calibrate.layers.facts import OWN_NAMES, facts, known
from calibrate.layers.work import Facts
from calibrate.library.held import counted
from calibrate.library.memory import Room
from calibrate.published import names
from calibrate.published.points import points
from planner.model.plan import Estimate
from planner.prediction.effects import PredictedCase, at_size
from planner.prediction.rules.floors import resized

Told = Callable[[str], Estimate]
"""The time at an input, as it is said of that alone."""


class Knot(NamedTuple):
    """An input at which times are asked for."""

    extent: float
    """Pixels or tokens."""
    size: str
    is_seen: bool
    """Whether somebody published times at it: others lie between those of such inputs."""


@cache
def usual_input(architecture: str) -> str:
    """That of the zoo's network, else of published tables; empty where neither has one that can be compared."""
    zoos = OWN_NAMES.get(architecture, architecture)
    own = counted(facts(zoos), architecture).input if zoos in known() else ""
    size = own or names.usual_input(architecture)
    return size if names.extent(size) else ""


def is_usual(architecture: str, size: str) -> bool:
    """Whether nothing is known of another size with which this one could be in order."""
    usual = usual_input(architecture)
    return not usual or size == usual or not names.extent(size) or is_sequence(usual) != is_sequence(size)


def is_sequence(size: str) -> bool:
    """Whether an input is so many tokens."""
    return names.tokens(size) is not None


def at_input(case: PredictedCase, size: str, layers: Facts | None) -> PredictedCase:
    """The case at another input, with its own counts where it has them."""
    if layers is not None and case.products_share is not None:
        case = replace(case, products_share=layers.products_share)
    counts = case.counted
    if counts is None or names.is_counted(case.architecture, size):
        return replace(case, input=size, counted=None)
    if layers is not None:
        return replace(case, input=size, counted=counted(layers, case.architecture))
    held = counts.held and counts.held * names.grown(counts.input, size)
    return replace(case, input=size, counted=replace(at_size(counts, size), input=size, held=held))


def layers_at(layers: Facts | None, size: str) -> Facts | None:
    """A model's layers at an input; None where they are not known there."""
    return None if layers is None else resized(layers, names.architecture(layers.model), size)


def in_order_of_size(architecture: str, size: str, told: Told) -> Estimate:
    """The time at an input that is not the usual one: between those of the inputs next to it, each made in order."""
    asked, usual = names.extent(size), usual_input(architecture)
    above = asked > names.extent(usual)
    keep, limit = (max, min) if above else (min, max)
    seen = _seen(architecture, usual, above)
    before, level = Knot(names.extent(usual), usual, True), told(usual)
    for knot in _knots(usual, seen, above):
        if knot.is_seen:
            next_level = _each(keep, level, told(knot.size))
        else:
            beyond = next((one for one in seen if (one.extent > knot.extent) == above), None)
            own = told(knot.size)
            own = _each(limit, own, _each(keep, level, told(beyond.size))) if beyond else own
            next_level = _each(keep, level, own)
        if knot.extent == asked or (knot.extent > asked) == above:
            share = log(asked / before.extent) / log(knot.extent / before.extent)
            return _between(level, next_level, share)
        before, level = knot, next_level
    return level


@cache
def _seen(architecture: str, usual: str, above: bool) -> tuple[Knot, ...]:
    """Inputs on one side of the usual one at which somebody published times, the nearest first."""
    sizes = {point.input for point in points(architecture) if is_sequence(point.input) == is_sequence(usual)}
    by_extent = {names.extent(size): size for size in sorted(sizes) if names.extent(size)}
    start = names.extent(usual)
    chosen = [extent for extent in by_extent if extent != start and (extent > start) == above]
    return tuple(Knot(extent, by_extent[extent], True) for extent in sorted(chosen, reverse=not above))


def _knots(usual: str, seen: tuple[Knot, ...], above: bool) -> Iterator[Knot]:
    """Inputs from the usual one on: twice and twice as much again, or half, and those seen."""
    start, left = names.extent(usual), list(seen)
    taken = {start, *(knot.extent for knot in seen)}
    for power in count(1):
        size = _of_extent(start * 2.0 ** (power if above else -power), is_sequence(usual))
        extent = names.extent(size)
        while left and (left[0].extent < extent) == above:
            yield left.pop(0)
        if extent not in taken:
            taken.add(extent)
            yield Knot(extent, size, False)
        elif extent == 1.0 and not above:
            return


def _of_extent(extent: float, tokens: bool) -> str:
    """The input of so many tokens, or the square of so many pixels."""
    return f"seq{max(1, round(extent))}" if tokens else str(max(1, isqrt(round(extent))))


def _each(choose: Callable[[float, float], float], one: Estimate, other: Estimate) -> Estimate:
    """Value by value, end by end."""
    value, low, high = map(choose, astuple(one), astuple(other))
    return Estimate(value=value, low=low, high=high)


def _between(near: Estimate, far: Estimate, share: float) -> Estimate:
    """On a straight line of logarithms."""

    def on_line(one: float, other: float) -> float:
        return min(max(exp(log(one) + share * log(other / one)), min(one, other)), max(one, other))

    value, low, high = map(on_line, astuple(near), astuple(far))
    return Estimate(value=value, low=low, high=high)


def room_in_order(size: str, usual: str, rooms: Sequence[Room]) -> Room:
    """Memory at an input, of what it and the usual one are said to take: the most above that one, the least below."""
    keep = max if names.extent(size) > names.extent(usual) else min
    return Room(keep(room.allocated for room in rooms), keep(room.reserved for room in rooms))
