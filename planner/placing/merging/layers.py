"""Layers of the models that may share some, by the names that people give them."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from calibrate.layers.facts import facts
from calibrate.layers.work import FactsError
from calibrate.library.lookup import Library
from simulator.errors import InputError
from simulator.world.model import LayerFacts
from simulator.world.signature import read_signature

COPIES_MAX = 1000


class MergeError(InputError):
    """Something that cannot be merged or read, in one line with the remedy."""


def layers_of(name: str, library: Library | None = None, shape: tuple[int, ...] | None = None) -> Sequence[LayerFacts]:
    """Layers of a model that was measured, or of any by its name; MergeError where nobody knows them.

    Those of packages, files and a user's own **run their code**, in a process with torch.
    """
    for profile in library.for_model(name) if library else ():
        assert library is not None
        if listed := library.measured(profile).get("layers"):
            return _measured(name, listed)
    try:
        return _facts(name, shape)
    except FactsError as error:
        more = "" if ":" in name else " Or measure it with `planner calibrate` and name the folder with --profiles."
        raise MergeError(f"{error}{more}") from None


@cache
def _facts(name: str, shape: tuple[int, ...] | None) -> tuple[LayerFacts, ...]:
    return facts(name, shape).layers


def _measured(name: str, listed: Any) -> tuple[LayerFacts, ...]:
    """Layers as a profile's file has them; a layer of which only the weights are known reads and writes nothing."""
    try:
        return tuple(
            LayerFacts(
                name=str(row["name"]),
                type=str(row["type"]),
                signature=read_signature(str(row["signature"])),
                params=int(row["params"]),
                weight_bytes=int(row["weight_bytes"]),
                flops=int(row.get("flops", 0)),
                input_bytes=int(row.get("input_bytes", 0)),
                output_bytes=int(row.get("output_bytes", 0)),
            )
            for row in listed
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise MergeError(f"{name}: the layers in its profile cannot be read. Measure it again.") from None


def named(words: Sequence[str], look: Callable[[str], Sequence[LayerFacts]]) -> dict[str, Sequence[LayerFacts]]:
    """Models by name: `resnet50*4` is four of them, `resnet50-1` to `resnet50-4`, and so is a name given four times."""
    counts: Counter[str] = Counter()
    for word in words:
        name, star, times = word.partition("*")
        if star and not (times.isdecimal() and 1 <= int(times) <= COPIES_MAX):
            raise MergeError(f"{word}: must be a name or `name*N`, N from 1 to {COPIES_MAX}. Write e.g. resnet50*4.")
        counts[name] += int(times) if star else 1
    return {name if n == 1 else f"{name}-{i}": look(name) for name, n in counts.items() for i in range(1, n + 1)}
