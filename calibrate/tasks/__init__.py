"""Tasks: models with the data and the metric they are trained and judged by. A spec names them as `module:factory`."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor, nn

Batches = Iterable[Any]
"""Batches, anew at each pass; what a `torch.utils.data.DataLoader` is. For the loss and metric given here, a batch is
`(inputs, classes)`."""


def cross_entropy(model: "nn.Module", batch: Any) -> "Tensor":
    """Loss of one batch of a classifier."""
    from torch.nn import functional

    inputs, classes = batch
    return functional.cross_entropy(model(inputs), classes)


def share_right(model: "nn.Module", batches: Batches) -> float:
    """Share of inputs that a classifier gets right, from 0 to 1."""
    right = total = 0
    for inputs, classes in batches:
        right += int((model(inputs).argmax(1) == classes).sum())
        total += len(classes)
    return right / total


@dataclass(frozen=True, slots=True)
class Task:
    """A model with its data, which a factory returns. Random numbers should be torch's, seeded before each epoch."""

    model: "nn.Module"
    train: Batches
    validation: Batches
    loss: Callable[["nn.Module", Any], "Tensor"] = cross_entropy
    """Loss of one batch, which is on the model's device."""
    metric: Callable[["nn.Module", Batches], float] = share_right
    """Metric of the model on validation data; at least 0, and higher is better."""
