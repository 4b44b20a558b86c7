"""Analysis: what a set of models could share, and how much of each is in its heaviest layers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from planner.placing.merging.layers import MergeError
from simulator.world.model import LayerFacts
from simulator.world.sharing import (
    LayerRule,
    Models,
    Sharing,
    SharingError,
    common_stem,
    groups,
    saved_bytes,
    shareable,
    shared_bytes,
    weighty,
)

ANALYSIS_SCHEMA = "planner.merge/v1"
TOP_TENTH = 0.1
STRONG = 0.5
"""Share of a model's memory in the largest tenth of its layers from which a few groups save most of it."""
FIT_MIN = 4
"""Layers below which a line through them says nothing."""


@dataclass(frozen=True, slots=True)
class PowerLaw:
    """Memory of layers by rank, the largest first: `scale_bytes / rank ** exponent`."""

    scale_bytes: float
    exponent: float
    """0: all layers alike; 2: the second largest is a quarter of the largest."""
    r2: float
    """Share of the variance of the logarithms that the line explains: 1 is a power law to the dot."""

    def __call__(self, rank: float) -> float:
        """Bytes of the layer of that rank. 400 MB, exponent 2: 400, 100, 44 MB."""
        return float(self.scale_bytes / rank**self.exponent)


def power_law(sizes: Sequence[int]) -> PowerLaw | None:
    """A straight line through the logarithms of size and rank, by least squares; `sizes` above 0, the largest
    first. None where there are too few."""
    if len(sizes) < FIT_MIN:
        return None
    rank, size = np.log(np.arange(1, len(sizes) + 1)), np.log(np.array(sizes, dtype=float))
    if sizes[0] == sizes[-1]:
        return PowerLaw(float(sizes[0]), 0.0, 1.0)
    slope, start = np.polyfit(rank, size, 1)
    spread = float(((size - size.mean()) ** 2).sum())
    left = float(((size - start - slope * rank) ** 2).sum())
    return PowerLaw(float(np.exp(start)), float(-slope), 1 - left / spread)


@dataclass(frozen=True, slots=True)
class HeavyHitters:
    """How much of one model's memory its largest layers hold. Where few hold most, a few groups save most."""

    model: str
    bytes: int
    """Of the layers that may be shared: all but norms."""
    layers: int
    largest: str
    """Path of the largest layer."""
    largest_share: float
    top_layers: int
    """The largest tenth of the layers, one at least."""
    top_share: float
    strength: str
    """`strong` where the largest tenth holds half of the memory, else `weak`."""
    layer_bytes: tuple[int, ...] = ()
    """Of each layer, the largest first."""
    power_law: PowerLaw | None = None
    """Fitted to those; None where there are too few to fit anything."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """What a set of models could share."""

    models: tuple[str, ...]
    total_bytes: int
    """Of all layers with weights but norms, each model on its own."""
    norm_bytes: int
    """Of norm layers, which are never shared; not part of the total."""
    shareable_bytes: int
    """What need not be held where all equal layers are shared."""
    stem_bytes: int
    """The same where only the longest run from the input on is shared that all of the models have."""
    branching_stem_bytes: int
    """The same where each model shares its run with those that begin like it."""
    groups: Sharing
    """Most bytes saved first."""
    heavy_hitters: tuple[HeavyHitters, ...]
    shared_by: Mapping[str, int] = field(default_factory=dict)
    """Bytes of each model that some other has too."""


def analyze(models: Models) -> Analysis:
    """What the models could share, under both rules; MergeError where they cannot be compared."""
    try:
        found, listed = groups(models), weighty(models)
        stem, branching = common_stem(models), groups(models, LayerRule.STEM)
    except SharingError as error:
        raise MergeError(str(error)) from None
    norms = sum(x.weight_bytes for layers in models.values() for x in layers if not shareable(x))
    return Analysis(
        models=tuple(models),
        total_bytes=sum(layer.weight_bytes for layers in listed.values() for layer in layers),
        norm_bytes=norms,
        shareable_bytes=saved_bytes(found),
        stem_bytes=saved_bytes(stem),
        branching_stem_bytes=saved_bytes(branching),
        groups=found,
        heavy_hitters=tuple(heavy_hitters(model, layers) for model, layers in listed.items()),
        shared_by=shared_bytes(found),
    )


def heavy_hitters(model: str, layers: Sequence[LayerFacts]) -> HeavyHitters:
    """The largest layers of one model. VGG-16: 2 of 16 layers hold 86 % of it; ResNet-152: 16 of 156 hold 33 %."""
    ordered = sorted(layers, key=lambda layer: -layer.weight_bytes)
    total = sum(layer.weight_bytes for layer in layers)
    top = max(1, round(TOP_TENTH * len(layers)))
    share = sum(layer.weight_bytes for layer in ordered[:top]) / total
    return HeavyHitters(
        model=model,
        bytes=total,
        layers=len(layers),
        largest=ordered[0].name,
        largest_share=ordered[0].weight_bytes / total,
        top_layers=top,
        top_share=share,
        strength="strong" if share >= STRONG else "weak",
        layer_bytes=tuple(layer.weight_bytes for layer in ordered),
        power_law=power_law([layer.weight_bytes for layer in ordered]),
    )
