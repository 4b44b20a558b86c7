"""Holding: the most numbers that networks hold at once for one picture, for memory that nobody published.

`python -m benchmarks.making.holding` writes `calibrate/published/data/held.csv`. It needs timm and computes nothing:
tensors on torch's meta device have sizes and no values.
"""

import csv
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from unittest.mock import patch

import timm
import torch
from torch import Tensor, nn

from calibrate.layers.kernels import Kernels
from calibrate.published import names

HELD = names.DATA / "held.csv"
COLUMNS = ("architecture", "input", "held_millions")
VALUE_BYTES = 4


def rows() -> Iterator[tuple[str, str, str]]:
    """An architecture, its input, and millions of numbers, for all of timm's networks that are known by name."""
    found: set[tuple[str, str]] = set()
    for name in timm.list_models():
        architecture, size = names.identity(name)
        if (architecture, size) in found or architecture not in names.architectures():
            continue
        try:
            shape, held = traced(name)
        except Exception as error:  # whatever a network's own code raises without values
            print(f"{name}: {type(error).__name__}: {error}"[:120], file=sys.stderr)
            continue
        found.add((architecture, size))
        yield architecture, str(shape[-1]), f"{held / 1e6:.4g}"


def traced(name: str) -> tuple[tuple[int, ...], int]:
    """The shape of a network's usual picture, and the numbers held for it."""
    with torch.device("meta"):
        model = timm.create_model(name).eval()
        shape = tuple(model.pretrained_cfg["input_size"])
        picture = torch.zeros(1, *shape)
    return shape, held(model, picture)


def held(model: nn.Module, given: Tensor) -> int:
    """The most numbers besides weights that lie in memory at once."""
    kernels = Kernels([*model.parameters(), *model.buffers()], [])
    kernels.hold(given)
    with torch.no_grad(), kernels, patch("torch.nn.functional.scaled_dot_product_attention", _attention):
        model(given)
    return int(kernels.peak_bytes) // VALUE_BYTES


def _attention(query: Tensor, _key: Tensor, value: Tensor, *_: object, **__: object) -> Tensor:
    """As fused kernels hold it: no matrix of all pairs of tokens."""
    return query.new_empty(*query.shape[:-1], value.shape[-1])


if __name__ == "__main__":
    ArgumentParser(description=__doc__).parse_args()
    with HELD.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(sorted(rows()))
