"""Exchanges: what two GPUs may give each other so that the more strained one is relieved, as machine code runs it.

`planner.placing.packing` does the same on names. Here a GPU is a row of numbers, what is known of pairs of GPUs stays
known while nothing changes on either, and what cannot be better than the best so far is not reckoned to the end.
"""

from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.placing import rounds
from planner.placing.rounds import HARD, Cycle, Models, score_of

SOURCES = Path(__file__).with_name("compiled.py"), Path(__file__), Path(rounds.__file__)
"""Of what is compiled, first what Python calls."""
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

STRAINED_MAX = 3
"""How many of the most strained GPUs are looked at before giving up: the first may be stuck where the next is not,
and each costs as many trials again."""
MOVED_PARTS = (0.5, 0.25, 0.1)
"""Parts of a model's share on one GPU that may move to another."""
WAYS = 1 + len(MOVED_PARTS)
"""In which one model may move."""
SHARE_MIN = 0.05
"""Smallest share of a model that is worth a copy of its weights."""
CALM = 0.6**4
"""Score of a GPU that need not be relieved: at a strain of 0.6 even a longer round keeps the SLOs."""
WORTH = 1e-3
"""Least gain of an exchange over the score of the GPU that it relieves."""
ROUNDING = 1e-6
"""By which a GPU's score may seem to fall as one more model comes onto it: it never does."""
UNKNOWN, WITHOUT, LESS = 0, 1, 2
"""What is known of a GPU: nothing, its scores without each model, and those with less of each as well."""


class Names(NamedTuple):
    """Which models are the same."""

    rank: Ints
    """By number: the place of its name in the order of names."""
    twin: Ints
    """By number and kind of GPU: the same model's number there; -1 where it does not fit."""


class Fill(NamedTuple):
    """Room for what may stand on one GPU."""

    model: Ints
    share: Floats


class Room(NamedTuple):
    """To reckon in."""

    turns: Cycle
    rest: Fill
    left: Fill
    right: Fill


class Gpus(NamedTuple):
    """GPUs and what stands on them, a row for each."""

    kind: Ints
    size: Ints
    """Models there."""
    model: Ints
    """In the order of their names."""
    share: Floats
    score: Floats
    less: Floats
    """By GPU, model there and way to move: the score that is left."""
    known: Ints
    """Of `less`."""
    gain: Floats
    """By GPU and partner: what the best exchange does to the sum of both scores, below zero if good; where no way is
    known, none does better than this."""
    way: Ints
    """The best exchange, by number; -1: none is known."""


def improve(models: Models, names: Names, gpus: Gpus, room: Room) -> int:
    """Exchange while that lowers the sum of scores; how many partners of strained GPUs were looked at."""
    looked_at, goes_on = 0, True
    while goes_on:
        goes_on = False
        worst = -1
        for _ in range(STRAINED_MAX):
            worst = _next_strained(gpus, worst)
            if worst < 0 or gpus.score[worst] < CALM:
                break
            looked_at += len(gpus.score) - 1
            partner = _best_partner(models, names, gpus, room, worst)
            if partner >= 0:
                _exchange(models, names, gpus, room, worst, partner)
                goes_on = True
                break
    return looked_at


def lay(models: Models, names: Names, gpus: Gpus, room: Room, kind: Ints, model: Ints, share: Floats) -> None:
    """Put each part of a model in turn onto the GPU of its kind that it leaves least strained."""
    for part in range(len(model)):
        least, best = inf, -1
        for g in range(len(gpus.kind)):
            if gpus.kind[g] != kind[part]:
                continue
            size = _onto(names, gpus, g, model[part], share[part], room)
            found = score_of(models, room.turns, room.right.model, room.right.share, size)
            if best < 0 or found < least:
                least, best = found, g
        size = _onto(names, gpus, best, model[part], share[part], room)
        _fill(gpus, best, room.right, size)


def set_scores(models: Models, gpus: Gpus, room: Room, changed: Sequence[int] | Ints) -> None:
    """Score these GPUs anew and forget what was known of them."""
    for g in changed:
        gpus.score[g] = score_of(models, room.turns, gpus.model[g], gpus.share[g], gpus.size[g])
        _forget(gpus, g)


def score_each(
    models: Models, turns: Cycle, begin: Sequence[int] | Ints, model: Ints, share: Floats, scores: Floats
) -> None:
    """The score of each GPU, with the models from its `begin` to the next."""
    for row in range(len(scores)):
        first, end = begin[row], begin[row + 1]
        scores[row] = score_of(models, turns, model[first:end], share[first:end], end - first)


def _forget(gpus: Gpus, g: int) -> None:
    gpus.known[g] = UNKNOWN
    gpus.gain[g, :] = gpus.gain[:, g] = -inf
    gpus.way[g, :] = gpus.way[:, g] = -1


def _next_strained(gpus: Gpus, last: int) -> int:
    """The most strained GPU after the `last` one; of equals the first."""
    found = -1
    for g in range(len(gpus.score)):
        comes = last < 0 or gpus.score[g] < gpus.score[last] or (gpus.score[g] == gpus.score[last] and g > last)
        if comes and (found < 0 or gpus.score[g] > gpus.score[found]):
            found = g
    return found


def _best_partner(models: Models, names: Names, gpus: Gpus, room: Room, worst: int) -> int:
    """The GPU that relieves the most strained one best, -1 where none does."""
    least, partner = -WORTH * gpus.score[worst], -1
    _know(models, gpus, room, worst, LESS)
    for b in range(len(gpus.score)):
        if b == worst or gpus.gain[worst, b] >= least:
            continue
        if gpus.way[worst, b] < 0:
            _know(models, gpus, room, b, WITHOUT)
            _compare(models, names, gpus, room, worst, b, least)
        if gpus.way[worst, b] >= 0 and gpus.gain[worst, b] < least:
            least, partner = gpus.gain[worst, b], b
    return partner


def _know(models: Models, gpus: Gpus, room: Room, g: int, wanted: int) -> None:
    """The scores of a GPU without each of its models; with less of each too where that is wanted."""
    if gpus.known[g] >= wanted:
        return
    here, share = gpus.model[g], gpus.share[g]
    for i in range(gpus.size[g]):
        size = _without(gpus, g, i, room.rest)
        gpus.less[g, i, 0] = score_of(models, room.turns, room.rest.model, room.rest.share, size)
        if wanted == LESS:
            _put(here, share, gpus.size[g], room.left)
            for p in range(len(MOVED_PARTS)):
                room.left.share[i] = share[i] * (1 - MOVED_PARTS[p])
                gpus.less[g, i, 1 + p] = score_of(models, room.turns, room.left.model, room.left.share, gpus.size[g])
    gpus.known[g] = wanted


def _compare(models: Models, names: Names, gpus: Gpus, room: Room, a: int, b: int, least: float) -> None:
    """Find the best exchange of two GPUs that gains more than `least`."""
    found = -1
    for i in range(gpus.size[a]):
        if names.twin[gpus.model[a, i], gpus.kind[b]] < 0:
            continue
        there = _place_of(names, gpus, b, gpus.model[a, i])
        right = at_least(gpus.score[b] if there < 0 else gpus.less[b, there, 0])
        for way in range(WAYS):
            gain = _moved(models, names, gpus, room, a, b, i, way, right, least)
            if gain < least:
                least, found = gain, _number(gpus, i, way)
        for j in range(gpus.size[b]):
            if _may_swap(names, gpus, a, b, i, j):
                gain = _swapped(models, names, gpus, room, a, b, i, j, there, least)
                if gain < least:
                    least, found = gain, _number(gpus, i, WAYS + j)
    gpus.gain[a, b], gpus.way[a, b] = least, found


def _moved(
    models: Models, names: Names, gpus: Gpus, room: Room, a: int, b: int, i: int, way: int, right: float, least: float
) -> float:
    """What model `i` going from `a` to `b` adds to their scores; infinite where that is seen to be no less than
    `least`. `right`: what `b` has then at least."""
    now, then, left = gpus.score[a], gpus.score[b], gpus.less[a, i, way]
    if not _is_worth_a_copy(gpus.share[a, i], way) or left + right - now - then >= least:
        return inf
    return left + _right_score(models, names, gpus, room, a, b, i, way) - now - then


def _swapped(
    models: Models, names: Names, gpus: Gpus, room: Room, a: int, b: int, i: int, j: int, there: int, least: float
) -> float:
    """The same where `a` gives its model `i` for model `j` of `b`. `there`: where `b` has model `i` too, or -1."""
    now, then = gpus.score[a], gpus.score[b]
    right = at_least(gpus.less[b, j, 0]) if there < 0 else 0.0
    left = at_least(gpus.less[a, i, 0]) if _place_of(names, gpus, a, gpus.model[b, j]) < 0 else 0.0
    if left + right - now - then >= least:
        return inf
    left = _left_score(models, names, gpus, room, a, b, i, WAYS + j)
    if left + right - now - then >= least:
        return inf
    return left + _right_score(models, names, gpus, room, a, b, i, WAYS + j) - now - then


def _number(gpus: Gpus, i: int, way: int) -> int:
    """Of an exchange: model `i` goes in one of the `WAYS`, or for the other GPU's model of the number above these."""
    return i * (WAYS + gpus.model.shape[1]) + way


def _place_of(names: Names, gpus: Gpus, g: int, model: int) -> int:
    """Where a model stands on a GPU; -1 where it does not."""
    for i in range(gpus.size[g]):
        if names.rank[gpus.model[g, i]] == names.rank[model]:
            return i
    return -1


def _is_worth_a_copy(share: float, way: int) -> bool:
    return way == 0 or share * MOVED_PARTS[way - 1] >= SHARE_MIN


def _may_swap(names: Names, gpus: Gpus, a: int, b: int, i: int, j: int) -> bool:
    mine, other = gpus.model[a, i], gpus.model[b, j]
    return names.rank[mine] != names.rank[other] and names.twin[other, gpus.kind[a]] >= 0


def at_least(score: float) -> float:
    """What a GPU with this score has at least with one more model on it: what is hard stays hard, for another limit.

    With more of a model that it holds it may have less: that model is then less rare than others.
    """
    return score * (1 - ROUNDING) if score < 0.1 * HARD else 0.1 * HARD


def _left_score(models: Models, names: Names, gpus: Gpus, room: Room, a: int, b: int, i: int, way: int) -> float:
    size = _left(names, gpus, room, a, b, i, way)
    return score_of(models, room.turns, room.left.model, room.left.share, size)


def _right_score(models: Models, names: Names, gpus: Gpus, room: Room, a: int, b: int, i: int, way: int) -> float:
    size = _right(names, gpus, room, a, b, i, way)
    return score_of(models, room.turns, room.right.model, room.right.share, size)


def _left(names: Names, gpus: Gpus, room: Room, a: int, b: int, i: int, way: int) -> int:
    """What `a` holds after it has given its model `i` in one of the ways; how many models that are."""
    size = _without(gpus, a, i, room.rest)
    if way == 0:
        _put(room.rest.model, room.rest.share, size, room.left)
        return size
    if way < WAYS:
        share = gpus.share[a, i] * (1 - MOVED_PARTS[way - 1])
        return _with(names, room.rest, size, gpus.model[a, i], share, room.left)
    j = way - WAYS
    return _with(names, room.rest, size, names.twin[gpus.model[b, j], gpus.kind[a]], gpus.share[b, j], room.left)


def _right(names: Names, gpus: Gpus, room: Room, a: int, b: int, i: int, way: int) -> int:
    """The same of `b`, which gets it."""
    size, moved = gpus.size[b], gpus.share[a, i]
    if way >= WAYS:
        size = _without(gpus, b, way - WAYS, room.rest)
    else:
        _put(gpus.model[b], gpus.share[b], size, room.rest)
        if way > 0:
            moved = gpus.share[a, i] * MOVED_PARTS[way - 1]
    return _with(names, room.rest, size, names.twin[gpus.model[a, i], gpus.kind[b]], moved, room.right)


def _exchange(models: Models, names: Names, gpus: Gpus, room: Room, a: int, b: int) -> None:
    """Do what was found best."""
    number = gpus.way[a, b]
    i, way = number // (WAYS + gpus.model.shape[1]), number % (WAYS + gpus.model.shape[1])
    left, right = _left(names, gpus, room, a, b, i, way), _right(names, gpus, room, a, b, i, way)
    _fill(gpus, a, room.left, left)
    _fill(gpus, b, room.right, right)
    set_scores(models, gpus, room, (a, b))


def _fill(gpus: Gpus, g: int, fill: Fill, size: int) -> None:
    gpus.size[g] = size
    for i in range(size):
        gpus.model[g, i], gpus.share[g, i] = fill.model[i], fill.share[i]


def _onto(names: Names, gpus: Gpus, g: int, model: int, share: float, room: Room) -> int:
    """What a GPU holds with so much more of a model; how many models that are."""
    _put(gpus.model[g], gpus.share[g], gpus.size[g], room.rest)
    return _with(names, room.rest, gpus.size[g], model, share, room.right)


def _put(model: Ints, share: Floats, size: int, into: Fill) -> None:
    for i in range(size):
        into.model[i], into.share[i] = model[i], share[i]


def _without(gpus: Gpus, g: int, but: int, into: Fill) -> int:
    """All models of a GPU but one; how many there are."""
    size = 0
    for i in range(gpus.size[g]):
        if i != but:
            into.model[size], into.share[size] = gpus.model[g, i], gpus.share[g, i]
            size += 1
    return size


def _with(names: Names, fill: Fill, size: int, model: int, share: float, into: Fill) -> int:
    """So much more of a model, in the order of their names; how many there are."""
    place = 0
    while place < size and names.rank[fill.model[place]] < names.rank[model]:
        into.model[place], into.share[place] = fill.model[place], fill.share[place]
        place += 1
    into.model[place], into.share[place] = model, share
    rest = place
    if place < size and fill.model[place] == model:
        into.share[place] = fill.share[place] + share
        rest += 1
    for i in range(rest, size):
        into.model[place + 1 + i - rest], into.share[place + 1 + i - rest] = fill.model[i], fill.share[i]
    return place + 1 + size - rest
