"""Models as the layers they are made of; two models that name the same layer key share its bytes."""

from dataclasses import dataclass

from simulator.world.signature import Signature


@dataclass(frozen=True, slots=True)
class Layer:
    """Weights that are loaded and evicted as a unit."""

    key: str
    """Identity: layers with equal keys are the same bytes in memory."""
    weight_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFacts:
    """One layer of a real model, as one traced pass of one sample shows it."""

    name: str
    """Path within its model, unique there: `layer1.0.conv1`."""
    type: str
    """Class of the module: `Conv2d`."""
    signature: Signature
    """Kind, geometry and weights: layers with equal signatures could be shared by merging."""
    params: int
    weight_bytes: int
    """Parameters and buffers: both are loaded."""
    flops: int
    """Of one sample; a multiply-add is 2."""
    input_bytes: int
    """Of one sample."""
    output_bytes: int
    """Of one sample."""
