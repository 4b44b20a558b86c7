"""Batches: an input of one row, whatever is asked for, is told from one that follows the batch, in every form."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from calibrate.zoo.batches import follows

MASK = torch.ones(1, 1, 8, 8)


@dataclass
class Graphs:
    """Inputs as an object of a class of its own."""

    nodes: torch.Tensor
    of_graph: torch.Tensor


class Hidden:
    """What cannot be looked into."""

    __slots__ = ("rows",)


HONEST = {
    "a tensor": lambda n: torch.zeros(n, 3),
    "an array": lambda n: np.zeros((n, 3)),
    "a mask that is the same for all": lambda n: {"x": torch.zeros(n, 3), "mask": MASK, "causal": True},
    "arguments by place": lambda n: (torch.zeros(n, 3), 0.5, None),
    "sequences first": lambda n: (torch.zeros(7, n, 3), MASK),
    "pictures in a list": lambda n: [torch.zeros(3, 8, 8) for _ in range(n)],
    "pictures in a mapping of a list": lambda n: ({"images": [torch.zeros(3, 8, 8)] * n},),
    "texts": lambda n: ["words"] * n,
    "a size beside a buffer": lambda n: {"buffer": torch.zeros(64, 3), "rows": n},
    "tiles of a picture": lambda n: torch.zeros(4 * n, 3),
    "an object": lambda n: Graphs(torch.zeros(5 * n, 3), torch.zeros(5 * n)),
    "a plain object": lambda n: SimpleNamespace(x=torch.zeros(n, 3)),
    "an engine of one size": lambda n: torch.zeros(8, 3),
    "what cannot be looked into": lambda n: Hidden(),
    "what hides beside a tensor": lambda n: (MASK, Hidden()),
    "nothing": lambda n: None,
}
IGNORING = {
    "one row": lambda n: torch.zeros(1, 3),
    "one row by name": lambda n: {"x": torch.zeros(1, 3), "mask": MASK, "causal": True},
    "one row by place": lambda n: (torch.zeros(1, 3), torch.zeros(1, 3)),
    "one picture": lambda n: [torch.zeros(3, 16, 16)],
    "one object": lambda n: Graphs(torch.zeros(5, 3), torch.zeros(5)),
}


@pytest.mark.parametrize("name", HONEST)
def test_what_follows_the_batch_is_never_refused(name):
    assert follows(HONEST[name](1), HONEST[name](8), 8)


@pytest.mark.parametrize("batch", [2, 4, 64])
@pytest.mark.parametrize("name", IGNORING)
def test_what_ignores_the_batch_is_seen(name, batch):
    assert not follows(IGNORING[name](1), IGNORING[name](batch), batch)
