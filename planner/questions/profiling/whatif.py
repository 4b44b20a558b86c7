"""Changes of a model: its operations, bytes and time by the roofline after each, and what that assumes."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from calibrate.layers.work import Facts, FactsError, LayerWork
from planner.prediction.rules.roofline import Bound, Ceilings, PrecisionError, Roofline, under
from planner.questions.training.closed_forms import FORWARD_SHARE
from planner.questions.training.memory import TrainingMemory, memory, states, vision_activation_bytes

ELEMENTWISE = frozenset(
    {
        "BatchNorm2d",
        "FrozenBatchNorm2d",
        "GELU",
        "GELUActivation",
        "Hardsigmoid",
        "Hardswish",
        "LeakyReLU",
        "ReLU",
        "ReLU6",
        "SiLU",
        "Sigmoid",
        "Tanh",
    }
)
"""Layers whose every output needs one input at the same place: the kernel before them can do it as it writes."""
PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "int8")
COLOURS = 3
OVERHEAD_MOST = 0.25
"""Share of time in layers bound by overhead from which time no longer follows the data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerWhatIf:
    """One change, and the model's costs after it."""

    name: str
    flops: float
    """Operations of the batch."""
    bytes: float
    """Bytes moved by the batch."""
    time_s: float | None
    """By the roofline; None without a GPU."""
    assumes: str
    is_change: bool = True
    """False for the model as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unanswered:
    """A change that this model or this GPU does not allow."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpointing:
    """Training with some activations kept and the others computed again."""

    segments: int
    kept_bytes: int
    """Bytes of a batch where all activations are kept."""
    checkpointed_bytes: int
    """Bytes of checkpoints, and of the activations of one segment."""
    more_operations: float
    """Share of a training step that one more forward pass adds."""
    assumes: str


@dataclass(frozen=True, slots=True)
class ChangedModel:
    """A model before its changes, and the ceilings of the device if there is one."""

    facts: Facts
    ceilings: Callable[[str], Ceilings]
    """Ceilings of a precision; PrecisionError where the device has none. `roofline.UNLIMITED` for no device."""
    batch: int
    precision: str

    def roofline(self, facts: Facts | None = None, ceilings: Ceilings | None = None) -> Roofline:
        """The roofline of the model, or of a changed one."""
        return under(facts or self.facts, ceilings or self.ceilings(self.precision), self.batch, self.precision)


def what_ifs(own: ChangedModel) -> tuple[LayerWhatIf | Unanswered, ...]:
    """All changes, `as it is` first."""
    at_once = replace(own.ceilings(own.precision), launch_s=0.0)
    return (
        replace(_answer(own, "as it is", own.facts, f"{own.precision}, operators one by one"), is_change=False),
        *_precisions(own),
        *_resolutions(own),
        _grayscale(own),
        _answer(own, "element-wise layers fused", fused(own.facts), FUSED),
        _answer(own, "launch overhead removed", own.facts, LAUNCHED_AT_ONCE, at_once),
        _answer(own, "half of the weights 0", sparse(own.facts), HALVED),
    )


def _answer(own: ChangedModel, name: str, facts: Facts, assumes: str, ceilings: Ceilings | None = None) -> LayerWhatIf:
    roof = own.roofline(facts, ceilings)
    return LayerWhatIf(name=name, flops=roof.flops, bytes=roof.bytes, time_s=roof.total_s or None, assumes=assumes)


def _precisions(own: ChangedModel) -> Iterator[LayerWhatIf | Unanswered]:
    for precision in PRECISIONS:
        if precision == own.precision:
            continue
        try:
            limits = own.ceilings(precision)
        except PrecisionError as error:
            yield Unanswered(name=precision, reason=str(error))
            continue
        assumes = "every layer runs at this precision; accuracy is not looked at"
        yield _answer(replace(own, precision=precision), precision, own.facts, assumes, limits)


def _resolutions(own: ChangedModel) -> Iterator[LayerWhatIf | Unanswered]:
    side = own.facts.input_shape[-1]
    for pixels in (side // 2, side * 2):
        name = f"{pixels} x {pixels} pixels"
        try:
            changed = own.facts.at(pixels)
        except FactsError as error:
            yield Unanswered(name="another resolution", reason=str(error))
            return
        yield _answer(own, name, changed, _scaling(own.roofline(changed)))


def _scaling(roof: Roofline) -> str:
    share = roof.shares.get(Bound.OVERHEAD, 0.0)
    if share < OVERHEAD_MOST:
        return "the same layers on more or fewer pixels"
    return f"overhead holds {100 * share:.0f} % of the time, so time does not follow the pixels"


def _grayscale(own: ChangedModel) -> LayerWhatIf | Unanswered:
    changed = grayscale(own.facts)
    if changed is None:
        reason = f"{own.facts.model}: its first convolution does not read {COLOURS} channels"
        return Unanswered(name="grayscale", reason=reason)
    return _answer(own, "grayscale", changed, "one channel instead of three: only the first convolution shrinks")


def grayscale(facts: Facts) -> Facts | None:
    """The model for pictures of one channel; None where its first convolution does not read three."""
    first = facts.first
    if first is None or not any(weight.shape[1:2] == (COLOURS,) for weight in first.signature.matrices):
        return None
    return facts.with_channels(1) if facts.input_shape[0] == COLOURS else None


FUSED = "each such layer runs inside the kernel before it; additions of residuals, which read a second input, stay"
LAUNCHED_AT_ONCE = "CUDA graphs or a compiler issue all operators at once; kernels themselves stay as they are"
HALVED = "an upper bound: 2 of 4 weights are 0, and products with weights take half the operations and half the bytes"


def fused(facts: Facts) -> Facts:
    """The model with element-wise layers done by the kernel before them: they move nothing and launch nothing."""
    layers = [_idle(layer) if layer.type in ELEMENTWISE else layer for layer in facts.layers]
    return replace(facts, layers=tuple(layers))


def _idle(layer: LayerWork) -> LayerWork:
    return replace(layer, kernels=0, moved_bytes=0, made_bytes=0, weights_read_bytes=0)


def sparse(facts: Facts) -> Facts:
    """Products with weights at half the operations, and those weights at half the bytes."""
    return replace(facts, layers=tuple(map(_halved, facts.layers)))


def _halved(layer: LayerWork) -> LayerWork:
    of_weights = 2 * sum(product.macs for product in layer.products if not product.batched)
    if not of_weights:
        return layer
    return replace(layer, flops=layer.flops - of_weights // 2, weights_read_bytes=layer.weights_read_bytes // 2)


# Training


def checkpointing(facts: Facts, batch: int) -> Checkpointing:
    """The number of equal segments that keeps least: k checkpoints and the activations of the largest segment.

    For n equal layers that is about sqrt(n) segments (Chen et al. 2016): 100 layers keep 20 instead of 100.
    """
    made = [layer.made_bytes for layer in facts.layers if layer.made_bytes]
    if not made:
        return Checkpointing(segments=1, kept_bytes=0, checkpointed_bytes=0, more_operations=0.0, assumes="")
    kept = {segments: _kept(made, segments) for segments in range(1, len(made) + 1)}
    segments = min(kept, key=kept.__getitem__)
    return Checkpointing(
        segments=segments,
        kept_bytes=batch * sum(made),
        checkpointed_bytes=batch * kept[segments],
        more_operations=FORWARD_SHARE if segments > 1 else 0.0,
        assumes="layers run in a chain, and all that their kernels write is kept for the backward pass",
    )


def _kept(made: list[int], segments: int) -> int:
    """Bytes of the checkpoint before each segment, and of all layers of the largest segment."""
    length = math.ceil(len(made) / segments)
    parts = [made[i : i + length] for i in range(0, len(made), length)]
    checkpoints = sum(part[-1] for part in parts[:-1])
    return checkpoints + max(map(sum, parts))


def training_memory(facts: Facts, batch: int) -> TrainingMemory:
    """Memory of a step with SGD and momentum in 4-byte floats, as `planner train` has it, without the context.

    AlexNet of 2012 at batch 128: 244 MB thrice, 1.2 GB of activations (0.64 to 2.24 GB).
    """
    fixed = states(facts.params, "fp32", "momentum", buffer_bytes=facts.weight_bytes - 4 * facts.params)
    return memory(fixed, vision_activation_bytes(facts, "fp32") * batch, context_bytes=0.0)
