"""Memory of a training step by kind: weights, gradients, optimizer, activations, context - and what splitting saves."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum

from calibrate.layer_facts import Facts
from planner.training.closed_forms import Range
from simulator.precision import WEIGHT_BYTES, value_share

PRECISIONS = ("fp32", "tf32", "amp", "bf16", "fp16")
"""That models are trained in."""
CAST_BYTES: Mapping[str, int] = {"amp": 2}
"""Copies of weights that `amp` computes with."""
STATE_BYTES: Mapping[str, int] = {"sgd": 0, "momentum": 4, "adam": 8, "adamw": 8, "adam8bit": 2, "adagrad": 4}
"""What an optimizer keeps of each parameter: a 4-byte momentum, Adam's two, its 8-bit form's two bytes."""
MASTER_BYTES = 4
"""A 4-byte copy of each parameter that the optimizer updates where the model keeps 2-byte ones. ZeRO (2020), 3.1."""
ALLOCATOR = Range(low=1.0, mid=1.05, high=1.2)
"""Reserved over allocated: blocks that cannot be filled. PyTorch's allocator holds 5 % more on steady shapes."""
AMP_KEEPS = Range(low=1.0, mid=1.2, high=2.0)
"""Activations with amp over half of those in 4 bytes: norms and softmax stay in 4, and casts are kept too. Nine of ten
networks of the zoo that timm trained on an RTX 3090 until memory ended lie between."""
OPTIMIZERS = tuple(STATE_BYTES)
CONTEXT_BYTES = 800_000_000
"""What one framework process holds on a GPU before any model is there, where a scenario does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """How a model is divided: tensor and pipeline parallel, ZeRO stage over the data parallel GPUs."""

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    zero: int = 0
    sequence_parallel: bool = False

    @property
    def gpus(self) -> int:
        """All in all."""
        return self.data * self.tensor * self.pipeline

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
    each = params / split.parts
    size = WEIGHT_BYTES[precision]
    master = MASTER_BYTES if size < MASTER_BYTES else 0
    shares = [split.data if split.zero >= stage else 1 for stage in (3, 2, 1)]
    return States(
        weights=each * (size + CAST_BYTES.get(precision, 0)) / shares[0] + buffer_bytes,
        gradients=each * size / shares[1],
        optimizer=each * (STATE_BYTES[optimizer] + master) / shares[2],
    )


# Activations


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformer:
    """A transformer's shape."""

    layers: int
    hidden: int
    heads: int
    sequence: int
    vocabulary: int = 0

    @property
    def params(self) -> float:
        """Of a GPT: 12 L h^2 (1 + 13/12h) + (V + s) h. 96 x 12,288 and 51,200 words: 175e9, arXiv 2104.04473."""
        h = self.hidden
        return 12 * self.layers * h * h * (1 + 13 / (12 * h)) + (self.vocabulary + self.sequence) * h

    def activation_bytes(self, micro_batch: float, split: Split = Split(), recompute: str = "none") -> float:
        """Kept for the backward pass by the first stage of a pipeline, 2-byte numbers: arXiv 2205.05198, table 2.

        s b h L (10 + 24/t + 5 a s / h t) bytes, with sequence parallelism s b h L (34 + 5 a s / h) / t; selective
        recomputation drops 5 a s / h, full recomputation leaves 2 s b h L. The first stage holds as many micro-batches
        as there are stages, so that its share is that of all L layers. 48 layers of 6,144, 64 heads, 2,048 tokens,
        4 samples, t = 8: 59.25 GiB; sequence parallel and selective: 9.56 GiB.
        """
        s, h, a, t = self.sequence, self.hidden, self.heads, split.tensor
        each = s * micro_batch * h * self.layers
        if recompute == "full":
            return 2 * each / (t if split.sequence_parallel else 1)
        attention = 0.0 if recompute == "selective" else 5 * a * s / h
        if split.sequence_parallel:
            return each * (34 + attention) / t
        return each * (10 + (24 + attention) / t)


def vision_activation_bytes(facts: Facts, precision: str, recompute: str = "none") -> Range:
    """Kept of one sample between the passes: at least what layers put out, at most all that kernels wrote.

    Layers that change their input in place keep nothing of their own, so the truth lies between: at the geometric mean.
    With recomputation in sqrt(n) segments about 2 sqrt(n) of n layers' outputs remain (Chen et al. 2016).
    """
    share = value_share(precision)
    low = facts.activation_bytes_per_sample * share
    high = max(facts.made_bytes_per_sample * share, low)
    if recompute == "full":
        kept = min(1.0, 2 / math.sqrt(max(1, sum(layer.kernels > 0 for layer in facts.layers))))
        low, high = low * kept, high * kept
    elif recompute == "selective":
        low = low / 2
    found = Range(low=low, mid=math.sqrt(low * high), high=high)
    return found * AMP_KEEPS if precision == "amp" else found


# All of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes on one GPU by kind; those that are foretold at the middle, the ends in `total`."""

    weights: float
    gradients: float
    optimizer: float
    activations: Range
    context: float
    allocator: Range
    """What the caching allocator holds and cannot use."""

    @property
    def total(self) -> Range:
        """The sum."""
        fixed = self.weights + self.gradients + self.optimizer + self.context
        return self.activations + self.allocator + fixed

    def kinds(self) -> dict[str, float]:
        """By name, each at its middle."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value.mid if isinstance(value, Range) else value for name, value in found.items()}


def memory(fixed: States, activations: Range, context_bytes: float) -> Memory:
    """A step's peak: everything at once, plus what the allocator wastes."""
    held = activations + fixed.total
    waste = Range(
        low=held.low * (ALLOCATOR.low - 1), mid=held.mid * (ALLOCATOR.mid - 1), high=held.high * (ALLOCATOR.high - 1)
    )
    return Memory(
        weights=fixed.weights,
        gradients=fixed.gradients,
        optimizer=fixed.optimizer,
        activations=activations,
        context=context_bytes,
        allocator=waste,
    )


class Fits(StrEnum):
    """Whether what is needed fits in what is there, given how well the need is known."""

    YES = "yes"
    LIKELY = "likely"
    """At the middle of the band, not at its upper end."""
    UNLIKELY = "unlikely"
    """At the lower end alone."""
    NO = "no"

    @classmethod
    def of(cls, needed: Range, limit_bytes: float) -> "Fits":
        """1.5, 2.1 and 3.7 GB in 3 GB: likely."""
        ends = ((needed.high, cls.YES), (needed.mid, cls.LIKELY), (needed.low, cls.UNLIKELY))
        return next((word for end, word in ends if end <= limit_bytes), cls.NO)


def largest_batch(fixed: States, per_sample: Range, context_bytes: float, memory_bytes: float) -> int:
    """Most samples on one GPU at the middle of the band, 0 where none fits.

    24 GB with 0.8 GB of context and 0.4 GB of states, 90 MB a sample: 241.
    """
    room = (memory_bytes - context_bytes) / ALLOCATOR.mid - fixed.total
    return max(0, math.floor(room / per_sample.mid)) if per_sample.mid else 0


def gpus_needed(params: float, precision: str, optimizer: str, memory_bytes: float, context_bytes: float) -> int:
    """Fewest GPUs among which the states of a model can be divided at all, activations left aside.

    175e9 parameters, Adam with 2-byte weights, 80 GB: 36.
    """
    whole = states(params, precision, optimizer).total * ALLOCATOR.low
    return math.ceil(whole / (memory_bytes - context_bytes))
