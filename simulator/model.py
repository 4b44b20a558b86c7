"""Models as the layers they are made of; two models that name the same layer key share its bytes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Layer:
    """Weights that are loaded and evicted as a unit."""

    key: str
    """Identity: layers with equal keys are the same bytes in memory."""
    weight_bytes: int
