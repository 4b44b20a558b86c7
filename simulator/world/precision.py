"""Precision: how many bytes a number takes, as a weight in memory and as a value that is computed with."""

from collections.abc import Mapping

WEIGHT_BYTES: Mapping[str, int] = {
    "fp32": 4,
    "tf32": 4,
    "torch": 4,
    "amp": 4,
    "amp-bf16": 4,
    "fp16": 2,
    "bf16": 2,
    "int8": 1,
}
"""Of a weight as the model keeps it, in order of preference: what changes no result comes first. `amp` (in
fp16), `amp-bf16` and `tf32` keep 4-byte weights and convert while they compute. `torch` is PyTorch as it comes:
convolutions in tf32 where the GPU has it, matrix products in fp32."""
VALUE_BYTES: Mapping[str, int] = {
    "fp32": 4,
    "tf32": 4,
    "torch": 4,
    "amp": 2,
    "amp-bf16": 2,
    "fp16": 2,
    "bf16": 2,
    "int8": 1,
}
"""Of an activation. The 2-byte copies of weights that `amp` makes are not counted."""
OTHER_WORDS: Mapping[str, str] = {
    "half": "fp16",
    "float16": "fp16",
    "single": "fp32",
    "float": "fp32",
    "float32": "fp32",
    "bfloat16": "bf16",
    "mixed": "amp",
    "autocast": "amp",
}
"""What frameworks call them."""
PUBLISHED_ONLY: Mapping[str, str] = {"fp8": "int8"}
"""Precisions of which published times alone are known, by one whose numbers are as large."""
FACT_BYTES = 4
"""Of every number in the layer facts."""


def weight_share(precision: str) -> float:
    """Weights over the 4-byte weights of the layer facts. 109.5 M parameters: 438 MB at fp32, at fp16 0.5 of that."""
    return WEIGHT_BYTES[precision] / FACT_BYTES


def value_share(precision: str) -> float:
    """Activations over the 4-byte activations of the layer facts; with amp 0.5."""
    return VALUE_BYTES[precision] / FACT_BYTES
