"""Memory of a training step by kind: weights, gradients, optimizer, activations, context - and what splitting saves."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum

from calibrate.layers.work import Facts
from planner.model.ranges import Range, ranged
from simulator.world.precision import WEIGHT_BYTES, value_share

CAST_BYTES: Mapping[str, int] = {"amp": 2, "amp-bf16": 2}
"""Bytes of the copies of weights that autocast computes with."""
STATE_BYTES: Mapping[str, int] = {"sgd": 0, "momentum": 4, "adam": 8, "adamw": 8, "adam8bit": 2, "adagrad": 4}
"""Bytes that an optimizer keeps of each parameter: a 4-byte momentum, Adam's two, its 8-bit form's two bytes."""
MASTER_BYTES = 4
"""A 4-byte copy of each parameter that the optimizer updates where the model keeps 2-byte ones. ZeRO (2020), 3.1."""
ALLOCATOR = ranged(1.0, 1.05, 1.2)
"""Reserved over allocated: blocks that cannot be filled. PyTorch's allocator holds 5 % more on steady shapes."""
AMP_KEEPS = ranged(1.0, 1.2, 2.0)
"""Activations with amp over half of those in 4 bytes: norms and softmax stay in 4, and casts are kept too. Nine of ten
networks of the zoo that timm trained on an RTX 3090 until memory ended lie between."""
OPTIMIZERS = tuple(STATE_BYTES)
CONTEXT_BYTES = 800_000_000
"""Memory that one framework process holds on a GPU before any model is there, where a scenario does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The division of a model: tensor and pipeline parallel, ZeRO stage over the data parallel GPUs."""

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    zero: int = 0
    sequence_parallel: bool = False

    @property
    def parts(self) -> int:
        """GPUs over which one copy of the model is spread."""
        return self.tensor * self.pipeline


@dataclass(frozen=True, slots=True, kw_only=True)
class States:
    """Bytes on each GPU that do not grow with the batch."""

    weights: float
    gradients: float
    optimizer: float

    @property
    def total(self) -> float:
        """Their sum."""
        return self.weights + self.gradients + self.optimizer


def states(params: float, precision: str, optimizer: str, split: Split = Split(), buffer_bytes: float = 0.0) -> States:
    """Weights, gradients and optimizer states on each GPU; ZeRO divides the last from stage 1, gradients from 2,
    weights from 3 (Rajbhandari et al. 2020).

    ResNet-50 with Adam in fp32: 4 x 102 MB = 409 MB. 7.5B parameters, fp16 Adam: 120 GB; over 64 GPUs with ZeRO-3:
    1.9 GB.
    """
    own_params = params / split.parts
    weight_bytes = WEIGHT_BYTES[precision]
    master_bytes = MASTER_BYTES if weight_bytes < MASTER_BYTES else 0
    weights = own_params * (weight_bytes + CAST_BYTES.get(precision, 0))
    gradients = own_params * weight_bytes
    optimizer_states = own_params * (STATE_BYTES[optimizer] + master_bytes)
    return States(
        weights=weights / _sharers(split, stage=3) + buffer_bytes,
        gradients=gradients / _sharers(split, stage=2),
        optimizer=optimizer_states / _sharers(split, stage=1),
    )


def _sharers(split: Split, stage: int) -> int:
    """GPUs that divide among them what ZeRO divides from a stage on."""
    return split.data if split.zero >= stage else 1


# Activations


def vision_activation_bytes(facts: Facts, precision: str, recompute: str = "none") -> Range:
    """Bytes of one sample kept between the passes: at least the outputs of layers, at most all that kernels wrote.

    Layers that change their input in place keep nothing of their own, so the truth lies between: at the geometric mean.
    With recomputation in sqrt(n) segments about 2 sqrt(n) of n layers' outputs remain (Chen et al. 2016).
    """
    share = value_share(precision)
    low = facts.activation_bytes_per_sample * share
    high = max(facts.made_bytes_per_sample * share, low)
    if recompute == "full":
        layers = sum(layer.kernels > 0 for layer in facts.layers)
        kept = min(1.0, 2 / math.sqrt(max(1, layers)))
        low, high = low * kept, high * kept
    elif recompute == "selective":
        low = low / 2
    mid = math.sqrt(low * high)
    if precision not in CAST_BYTES:
        return ranged(low, mid, high)
    # What amp keeps was judged beside the middle: what lies around that is in its spread already.
    return ranged(low * AMP_KEEPS.low, mid * AMP_KEEPS.mid, mid * AMP_KEEPS.high)


# All of it


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingMemory:
    """Bytes on one GPU, by kind."""

    weights: float
    gradients: float
    optimizer: float
    activations: Range
    context: float
    allocator: Range
    """Memory that the caching allocator holds and cannot use."""

    @property
    def total(self) -> Range:
        """The sum."""
        fixed = self.weights + self.gradients + self.optimizer + self.context
        return self.activations + self.allocator + fixed

    def kinds(self) -> dict[str, float]:
        """Bytes by the name of their kind, each at its middle."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value.mid if isinstance(value, Range) else value for name, value in values.items()}


def memory(fixed: States, activations: Range, context_bytes: float, allocator: Range = ALLOCATOR) -> TrainingMemory:
    """A step's peak: everything at once, plus what the allocator wastes."""
    held = activations + fixed.total
    wasted_share = allocator.each(lambda reserved: reserved - 1)
    return TrainingMemory(
        **asdict(fixed),
        activations=activations,
        context=context_bytes,
        allocator=held * wasted_share,
    )


class Fits(StrEnum):
    """How surely the memory that is needed fits in the memory that is there."""

    YES = "yes"
    LIKELY = "likely"
    """At the middle of the band, not at its upper end."""
    UNLIKELY = "unlikely"
    """At the lower end alone."""
    NO = "no"

    @classmethod
    def of(cls, needed: Range, limit_bytes: float) -> "Fits":
        """1.5, 2.1 and 3.7 GB in 3 GB: likely."""
        if needed.high <= limit_bytes:
            return cls.YES
        if needed.mid <= limit_bytes:
            return cls.LIKELY
        return cls.UNLIKELY if needed.low <= limit_bytes else cls.NO


def largest_batch(
    fixed: States, sample_bytes: float, context_bytes: float, memory_bytes: float, reserved: float
) -> int:
    """Most samples on one GPU whose allocator reserves so many times what is allocated, 0 where none fits.

    24 GB with 0.8 GB of context and 0.4 GB of states, 90 MB a sample, 1.05 reserved: 241.
    """
    if not sample_bytes:
        return 0
    room = (memory_bytes - context_bytes) / reserved - fixed.total
    return max(0, math.floor(room / sample_bytes))


def gpus_needed(params: float, precision: str, optimizer: str, memory_bytes: float, context_bytes: float) -> int | None:
    """Fewest GPUs among which the states of a model can be divided at all, activations left aside; None where the
    context alone takes all of a GPU.

    175e9 parameters, Adam with 2-byte weights, 80 GB: 36.
    """
    if context_bytes >= memory_bytes:
        return None
    whole = states(params, precision, optimizer).total * ALLOCATOR.low
    return math.ceil(whole / (memory_bytes - context_bytes))
