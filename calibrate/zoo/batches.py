"""Batches: whether what goes into a model, or what comes out of it, follows the batch size that was asked for.

Anything may go in and out of a model of a user's own; what cannot be looked into is taken to follow.
"""

from collections.abc import Iterator, Mapping
from typing import Any

OPAQUE = object()
"""In the place of what cannot be looked into."""
DEEP = 8
"""Levels that are looked into: objects may hold themselves."""


def follows(one: Any, some: Any, batch: int) -> bool:
    """Whether `some` of a batch can be told from what a batch of one sample is, or has that size itself.

    Masks and settings may be the same for all batches; it is enough if anything follows. What holds an engine of one
    fixed batch is of that size whatever is asked for.
    """
    sizes = sizes_of(some)
    return _is_opaque(sizes) or sizes_of(one) != sizes or batch in leading(some)


def sizes_of(nested: Any, deep: int = DEEP) -> Any:
    """Shapes of all arrays, lengths of texts and single values in sequences, mappings and objects."""
    match nested:
        case None | bool() | int() | float():
            return nested
        case str() | bytes():
            return len(nested)
        case _ if hasattr(nested, "shape"):
            return tuple(nested.shape)
        case _ if deep == 0:
            return OPAQUE
        case Mapping():
            return {key: sizes_of(value, deep - 1) for key, value in nested.items()}
        case list() | tuple():
            return [sizes_of(part, deep - 1) for part in nested]
    return {key: sizes_of(value, deep - 1) for key, value in vars(nested).items()} if _is_plain(nested) else OPAQUE


def leading(nested: Any, deep: int = DEEP) -> set[int]:
    """First sizes of all arrays, lengths of lists, and whole numbers: where a batch size stands."""
    match nested:
        case bool():
            return set()
        case int():
            return {nested}
        case _ if hasattr(nested, "shape"):
            return set(tuple(nested.shape)[:1])
        case _ if deep == 0:
            return set()
        case list():
            return {len(nested)}.union(*(leading(part, deep - 1) for part in nested))
    return set[int]().union(*(leading(part, deep - 1) for part in _parts(nested)))


def _parts(nested: Any) -> Iterator[Any]:
    match nested:
        case Mapping():
            yield from nested.values()
        case tuple():
            yield from nested
        case _ if _is_plain(nested):
            yield from vars(nested).values()


def _is_plain(nested: Any) -> bool:
    """Whether all that an object holds can be seen: one with a class of C or with slots hides it."""
    return bool(getattr(nested, "__dict__", None)) and not callable(nested)


def _is_opaque(sizes: Any) -> bool:
    """Whether no array is in it, or something that cannot be looked into."""
    leaves = list(_leaves(sizes))
    return any(leaf is OPAQUE for leaf in leaves) or not any(isinstance(leaf, tuple) for leaf in leaves)


def _leaves(sizes: Any) -> Iterator[Any]:
    match sizes:
        case dict():
            yield from (leaf for part in sizes.values() for leaf in _leaves(part))
        case list():
            yield from (leaf for part in sizes for leaf in _leaves(part))
        case _:
            yield sizes
