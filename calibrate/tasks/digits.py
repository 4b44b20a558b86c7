"""Three tasks on pictures of handwritten digits: which digit, is it odd, is it larger than four.

1,797 real pictures of 8 x 8 pixels that come with scikit-learn (Alpaydin and Kaynak 1998). Each task has a network of
its own depth. All have the same first convolution, and nearly all their memory in one equal layer further back.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn

from calibrate.tasks import Task

BATCH = 64
Label = Callable[[Tensor], Tensor]
"""From digits to classes."""


@dataclass(frozen=True, slots=True)
class DigitBatches:
    """Pictures and their classes, in batches; in a new random order at each pass where that is wanted."""

    pictures: Tensor
    classes: Tensor
    shuffled: bool

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        count = len(self.classes)
        order = torch.randperm(count) if self.shuffled else torch.arange(count)
        for chosen in torch.split(order, BATCH):
            yield self.pictures[chosen], self.classes[chosen]


@cache
def pictures() -> tuple[Tensor, Tensor]:
    """All pictures, with values from 0 to 1, and the digit on each."""
    from sklearn.datasets import load_digits

    found = load_digits()
    return torch.tensor(found.images / 16, dtype=torch.float32).unsqueeze(1), torch.tensor(found.target)


def which_digit() -> Task:
    """Which of ten digits it is, by two convolutions."""
    return task(network([(8, 16)], outputs=10), lambda digit: digit)


def parity() -> Task:
    """Is the digit odd, by three convolutions."""
    return task(network([(8, 8), (8, 16)], outputs=2), lambda digit: digit % 2)


def larger_than_four() -> Task:
    """Is the digit larger than four, by four convolutions."""
    return task(network([(8, 12), (12, 12), (12, 16)], outputs=2), lambda digit: (digit > 4).long())


def task(model: nn.Module, label: Label) -> Task:
    """A task on the digits; every fourth picture judges, the others train."""
    images, digits = pictures()
    judging = torch.arange(len(digits)) % 4 == 0
    classes = label(digits)
    return Task(
        model,
        DigitBatches(images[~judging], classes[~judging], shuffled=True),
        DigitBatches(images[judging], classes[judging], shuffled=False),
    )


def network(convolutions: list[tuple[int, int]], outputs: int) -> nn.Sequential:
    """Convolutions of 3 x 3, each with a norm; then one layer of 128 that holds most of the weights, and the head."""
    layers: list[nn.Module] = []
    for inside, out in [(1, 8), *convolutions]:
        layers += [nn.Conv2d(inside, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU()]
    layers.insert(3, nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(16 * 4 * 4, 128), nn.ReLU(), nn.Linear(128, outputs))
