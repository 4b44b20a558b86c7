"""Contents: the whole models on one GPU and the share of each, and how they change."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from planner.placing.packing.exchanges import MOVED_PARTS, SHARE_MIN
from planner.placing.sizing import Kind

Content = tuple[tuple[str, float], ...]
"""Models on one GPU and the share of each, sorted; stages of models that are cut over several GPUs are not in it."""


class Change(NamedTuple):
    """What two GPUs hold after an exchange."""

    gain: float
    """Of the sum of both scores; below zero: less strained than before."""
    here: Content
    there: Content


class Slot(NamedTuple):
    """GPUs that are the same to packing: of one kind, with the same stages on them."""

    kind: Kind
    pinned: int = 0
    """Number of the set of stages that stay there; 0: none."""


def added(content: Content, model: str, share: float) -> Content:
    """`content` with so much more of a model."""
    for place, (other, part) in enumerate(content):
        if other == model:
            return (*content[:place], (model, part + share), *content[place + 1 :])
        if other > model:
            return (*content[:place], (model, share), *content[place:])
    return (*content, (model, share))


def without(content: Content, model: str) -> Content:
    """`content` less a model."""
    return tuple(part for part in content if part[0] != model)


def moves(here: Content, there: Content, model: str, share: float) -> Iterator[tuple[Content, Content]]:
    """Contents of two GPUs after a model, or a part of it, has moved from the first."""
    rest = without(here, model)
    yield rest, added(there, model, share)
    for part in MOVED_PARTS:
        if share * part >= SHARE_MIN:
            yield added(rest, model, share * (1 - part)), added(there, model, share * part)


def neighbours(here: Content, there: Content) -> Iterable[tuple[Content, Content]]:
    """Contents of two GPUs after a model, or a part of one, has moved from the first, or two have changed places."""
    for model, share in here:
        yield from moves(here, there, model, share)
        rest = without(here, model)
        for other, part in there:
            if other != model:
                yield added(rest, other, part), added(without(there, other), model, share)
