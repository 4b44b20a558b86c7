"""Sharing: which layers of several models are alike, which of them to store once, and what that leaves to hold."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from heapq import heappop, heappush
from typing import Any

from simulator.errors import InputError
from simulator.world.model import Layer, LayerFacts
from simulator.world.signature import Signature, read_signature

NORMS = ("BatchNorm", "LayerNorm", "GroupNorm", "InstanceNorm", "SyncBatchNorm", "FrozenBatchNorm", "RMSNorm")
"""Layers that are never shared: their statistics are those of one task's inputs, and they weigh next to nothing."""
LEAST_SHARE = 0.001
"""Share of all weights below which a group is not worth a training: a thousand such groups would save it all."""


class LayerRule(StrEnum):
    """Which layers may be shared."""

    LAYERS = "layers"
    """Equal layers, wherever they are (GEMEL, NSDI'23)."""
    STEM = "stem"
    """Only a run of equal layers from the input on (Mainstream, ATC'18)."""


ROUNDED = 0.01
"""Share by which a published size of weights may differ from that of the layers: 98 MB are 97.5 to 98.5."""


class SharingError(InputError):
    """Models that cannot be compared; the text is one line with the remedy."""


@dataclass(frozen=True, slots=True)
class Group:
    """Equal layers of several models, which may be stored once."""

    signature: Signature
    copy: int
    """The k-th layer of this signature in each of the models, from 0."""
    layer_bytes: int
    models: tuple[str, ...]

    @property
    def saved_bytes(self) -> int:
        """All copies but one: three models and 4 MB save 8 MB."""
        return (len(self.models) - 1) * self.layer_bytes


def group_document(group: Group) -> dict[str, Any]:
    """A group as files have it."""
    return {
        "signature": str(group.signature),
        "copy": group.copy,
        "layer_bytes": group.layer_bytes,
        "models": list(group.models),
    }


def read_group(raw: Mapping[str, Any]) -> Group:
    """The group that `group_document` wrote; KeyError, TypeError or ValueError where it is none."""
    signature = read_signature(str(raw["signature"]))
    return Group(signature, int(raw["copy"]), int(raw["layer_bytes"]), tuple(map(str, raw["models"])))


Sharing = tuple[Group, ...]
"""What is stored once; no two groups hold the same layer of a model."""
Models = Mapping[str, Sequence[LayerFacts]]
"""Layers in execution order, by model."""


def shareable(layer: LayerFacts) -> bool:
    """Whether a layer may be shared: it has weights and is no norm."""
    return layer.weight_bytes > 0 and not layer.type.startswith(NORMS)


def weighty(models: Models) -> dict[str, list[LayerFacts]]:
    """The layers that count, by model; SharingError where models cannot be compared."""
    found = {model: [layer for layer in layers if shareable(layer)] for model, layers in models.items()}
    for model, layers in found.items():
        if not layers:
            raise SharingError(f"{model}: has no layers with weights, so nothing can be shared. Leave it out.")
    _refuse_mixed_types(found)
    return found


def _refuse_mixed_types(found: Mapping[str, Sequence[LayerFacts]]) -> None:
    types = {
        model: frozenset(weight.number_type for layer in layers for weight in layer.signature.matrices)
        for model, layers in found.items()
    }
    first, kinds = next(iter(types.items()), ("", frozenset[str]()))
    for model, others in types.items():
        if others and kinds and others != kinds:
            raise SharingError(
                f"{model}: its weights are {' and '.join(sorted(others))}, those of {first} "
                f"{' and '.join(sorted(kinds))}; only equal types can be shared. Convert one, or leave it out."
            )


def groups(models: Models, rule: LayerRule = LayerRule.LAYERS) -> Sharing:
    """All that could be shared, each group as large as can be: by bytes saved, or for stems from the input on."""
    listed = weighty(models)
    if rule is LayerRule.STEM:
        return tuple(_stems(listed))
    by_signature: dict[Signature, dict[str, int]] = defaultdict(dict)
    sizes: dict[Signature, int] = {}
    for model, layers in listed.items():
        for layer in layers:
            by_signature[layer.signature][model] = by_signature[layer.signature].get(model, 0) + 1
            sizes[layer.signature] = layer.weight_bytes
    found = [
        Group(signature, copy, sizes[signature], holders)
        for signature, counts in by_signature.items()
        for copy in range(max(counts.values()))
        if len(holders := tuple(m for m, n in counts.items() if n > copy)) > 1
    ]
    return tuple(sorted(found, key=lambda g: (-g.saved_bytes, str(g.signature), g.copy)))


def _stems(listed: Mapping[str, list[LayerFacts]]) -> Iterator[Group]:
    """Runs of equal layers from the input on; where models part, each branch goes on with those still alike."""
    alike = [(tuple(listed), 0)]
    while alike:
        models, depth = alike.pop()
        branches: dict[Signature, list[str]] = defaultdict(list)
        for model in models:
            if depth < len(listed[model]):
                branches[listed[model][depth].signature].append(model)
        for signature, members in branches.items():
            if len(members) > 1:
                run = listed[members[0]]
                copy = sum(layer.signature == signature for layer in run[:depth])
                yield Group(signature, copy, run[depth].weight_bytes, tuple(members))
                alike.append((tuple(members), depth + 1))


def common_stem(models: Models) -> Sharing:
    """The longest run of equal layers from the input on that **all** the models have: Mainstream's one stem."""
    everyone = len(models)
    stems = groups(models, LayerRule.STEM)
    return tuple(group for group in stems if len(group.models) == everyone) if everyone > 1 else ()


def saved_bytes(sharing: Sharing) -> int:
    """What need not be held, or loaded, besides."""
    return sum(group.saved_bytes for group in sharing)


def shared_bytes(sharing: Sharing) -> dict[str, int]:
    """Bytes of each model that it shares with some other."""
    found: dict[str, int] = defaultdict(int)
    for group in sharing:
        for model in group.models:
            found[model] += group.layer_bytes
    return dict(found)


def merged_layers(model: str, weight_bytes: int, sharing: Sharing, width: float = 1.0) -> tuple[Layer, ...]:
    """A model of so many bytes as layers of the simulator: what it shares, and what is its own.

    Layers that the same models share come and go together, so that they are one. `width`: bytes of a weight over those
    that the groups have, 0.5 for 16 bits; other widths are other layers. SharingError where it shares more than it has.
    """
    atoms: dict[tuple[str, ...], list[Group]] = defaultdict(list)
    for group in sharing:
        if model in group.models:
            atoms[group.models].append(group)
    wide = "" if width == 1 else f" in {width:g} of the bytes"
    shared = tuple(
        Layer(f"shared by {', '.join(models)}{wide}", round(width * sum(g.layer_bytes for g in held)))
        for models, held in atoms.items()
    )
    own_bytes = weight_bytes - sum(layer.weight_bytes for layer in shared)
    if own_bytes < -ROUNDED * weight_bytes:
        raise SharingError(
            f"models[{model}].layers: {(weight_bytes - own_bytes) / 1e6:.1f} MB of them are shared, but its profile "
            f"has {weight_bytes / 1e6:.1f} MB of weights. Name the layers of the model that was measured."
        )
    return (*shared, Layer(f"{model} alone", own_bytes)) if own_bytes > 0 else shared


def turn_order(layers: Mapping[str, Sequence[Layer]]) -> list[str]:
    """Models in an order in which neighbours share most bytes, so that one round loads least.

    From the first one on, always the one that shares most with the last; ties keep the order given. Models that share
    nothing keep their order.
    """
    held = {model: {layer.key: layer.weight_bytes for layer in listed} for model, listed in layers.items()}
    left = list(held)
    if len(set().union(*held.values())) == sum(map(len, held.values())):
        return left
    order = left[:1]
    left = left[1:]
    while left:
        last = held[order[-1]]
        best = max(left, key=lambda model: (sum(last[k] for k in held[model].keys() & last.keys()), -left.index(model)))
        order.append(best)
        left.remove(best)
    return order


# What to share: the incremental search

Judge = Callable[[Sharing], Mapping[str, float]]
"""Accuracy of each model that shares something, over its accuracy alone: by training, a table or a rule."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One sharing that was tried."""

    group: Group
    """What it had more than what stood before; for stems the deepest layer."""
    accepted: bool
    accuracy: Mapping[str, float]
    """Over that of the models alone."""
    saved_bytes: int
    """Of what stands after it: partial successes count at once."""
    trained: tuple[str, ...]
    """Models that had to be trained together."""


@dataclass(frozen=True, slots=True)
class Merged:
    """What the search found worth sharing, and how it came there."""

    sharing: Sharing
    accuracy: Mapping[str, float] = field(default_factory=dict)
    """Of each model that shares something, over its accuracy alone."""
    attempts: tuple[Attempt, ...] = ()

    @property
    def saved_bytes(self) -> int:
        """What need not be held."""
        return saved_bytes(self.sharing)


NOTHING_SHARED = Merged(())
"""Each model on its own."""


def search(
    candidates: Sharing,
    judge: Judge,
    targets: Mapping[str, float],
    *,
    least_bytes: int = 1,
    attempts_max: int | None = None,
) -> Merged:
    """What to share, group by group, most bytes saved first, so that each model keeps its target (GEMEL, NSDI'23).

    A group that some model does not bear is halved: the half of its models with most accuracy to spare is tried again
    when its turn comes, that is unless a whole next group saves more. A saving is always (models - 1) x bytes, of whole
    and halved groups alike, so that order and end compare like with like. The end: nothing left saves `least_bytes`.
    """
    waiting: list[tuple[int, int, Group]] = []
    for number, group in enumerate(candidates):
        heappush(waiting, (-group.saved_bytes, number, group))
    found = Merged(())
    number = len(waiting)
    while waiting and (attempts_max is None or len(found.attempts) < attempts_max):
        _, _, group = heappop(waiting)
        if group.saved_bytes < least_bytes:
            break
        found, accepted = attempt(found, (*found.sharing, group), group, judge, targets)
        half = None if accepted else halved(group, found.attempts[-1].accuracy, targets)
        if half:
            heappush(waiting, (-half.saved_bytes, number, half))
            number += 1
    return found


def search_stem(candidates: Sharing, judge: Judge, targets: Mapping[str, float]) -> Merged:
    """How far from the input on models may share so that each keeps its target, by halving.

    First the run that most models have in common, then, where all of it is borne, those of the branches.
    """
    found = Merged(())
    whole: list[tuple[str, ...]] = []
    for models, run in runs(candidates).items():
        before = [other for other in runs(candidates) if other != models and set(models) < set(other)]
        if not all(other in whole for other in before):
            continue
        stood, low, high = found.sharing, 0, len(run)
        length = high
        while low < high:
            found, accepted = attempt(found, (*stood, *run[:length]), run[length - 1], judge, targets)
            low, high = (length, high) if accepted else (low, length - 1)
            length = (low + high + 1) // 2
        whole += [models] if low == len(run) else []
    return found


def runs(stems: Sharing) -> dict[tuple[str, ...], list[Group]]:
    """Stems by the models that share them, those of most models first, each from the input on."""
    found: dict[tuple[str, ...], list[Group]] = defaultdict(list)
    for group in stems:
        found[group.models].append(group)
    return dict(sorted(found.items(), key=lambda item: -len(item[0])))


def attempt(
    found: Merged, wanted: Sharing, group: Group, judge: Judge, targets: Mapping[str, float]
) -> tuple[Merged, bool]:
    """`found` after one more try, and whether it was accepted; SharingError where an accuracy is no number."""
    accuracy = dict(judge(wanted))
    for model, value in accuracy.items():
        if not 0 <= value < float("inf"):
            raise SharingError(f"{model}: its accuracy came out as {value}; it must be a number. Look at its metric.")
    members = {model for g in wanted for model in g.models}
    accepted = all(accuracy.get(model, 0.0) >= targets.get(model, 0.0) for model in members)
    kept = Merged(wanted, accuracy, found.attempts) if accepted else found
    tried = Attempt(group, accepted, accuracy, kept.saved_bytes, bound_together(wanted, group.models))
    return replace(kept, attempts=(*found.attempts, tried)), accepted


def halved(group: Group, accuracy: Mapping[str, float], targets: Mapping[str, float]) -> Group | None:
    """The half of the models with most accuracy to spare; None where that is less than two."""
    spare = sorted(group.models, key=lambda m: targets.get(m, 0.0) - accuracy.get(m, 0.0))
    kept = set(spare[: (len(spare) + 1) // 2])
    left = tuple(model for model in group.models if model in kept)
    return replace(group, models=left) if 1 < len(left) < len(group.models) else None


def bound_together(sharing: Sharing, models: Sequence[str]) -> tuple[str, ...]:
    """All models that share layers with `models`, directly or through others: they are trained together."""
    reached = set(models)
    while more := {m for g in sharing if reached & set(g.models) for m in g.models} - reached:
        reached |= more
    return tuple(sorted(reached))
