"""Moving: rectangles that drive along lanes, a detector that finds them and a classifier that names their colours.

Both are convolutions and are right by construction: their first channels carry what they look for, the others compute
as those of any network. So what a detector answers for real can be counted. Needs torch.
"""

from typing import Any

import torch
from torch import nn

SIDE = 640
"""Pixels of the detector's input."""
CELL = 8
"""Pixels of one place of the detector's answer."""
LANES = 9
"""Most objects in a picture: one in each lane."""
LANE_CELLS, OBJECT_CELLS = 5, 3
"""Height of a lane and of an object in it."""
BACKGROUND = 40
COLOURS = ((230, 230, 60), (60, 230, 230), (230, 60, 230), (230, 230, 230))
BRIGHT = 0.56
"""Mean of the colours from which a cell belongs to an object: above the grey beside a letterbox, below all objects."""
FEATURES = (16, 32, 64)


def lane_top(lane: int, width: int, height: int) -> int:
    """Uppermost pixel of the objects in a lane of a frame: where a cell begins once it is letterboxed."""
    above = (SIDE - height * SIDE // max(width, height)) // 2
    first_cell = -(-above // CELL)
    return ((first_cell + LANE_CELLS * lane) * CELL - above) * max(width, height) // SIDE


def object_height(width: int, height: int) -> int:
    """Pixels of a frame that an object is high."""
    return OBJECT_CELLS * CELL * max(width, height) // SIDE


def halving(channels: int, features: int, carried: torch.Tensor) -> nn.Conv2d:
    """A convolution that halves a picture; its first channels are means of 2x2 pixels, weighted by `carried`."""
    convolution = nn.Conv2d(channels, features, 3, stride=2, padding=1)
    with torch.no_grad():
        first = convolution.weight[: len(carried)]
        first.zero_()
        first[:, :, 1:, 1:] = carried[:, :, None, None] / 4
        assert convolution.bias is not None
        convolution.bias[: len(carried)] = 0
    return convolution


def halvings(carried: torch.Tensor, *features: int) -> nn.Sequential:
    """Several in a row, which carry the same to the end."""
    layers: list[nn.Module] = []
    channels, kept = 3, len(carried)
    for count in features:
        layers += [halving(channels, count, carried), nn.ReLU()]
        channels, carried = count, torch.eye(kept, count)
    return nn.Sequential(*layers)


class Detector(nn.Module):
    """Boxes in pixels of its input - left, top, right, bottom - and a score of 1, in rows from the top; 0 for none."""

    def __init__(self) -> None:
        super().__init__()
        self.cells = halvings(torch.full((1, 3), 1 / 3), *FEATURES)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        inside = (self.cells(pictures)[:, 0] > BRIGHT).float()
        around = nn.functional.pad(inside, (1, 1, 1, 1))
        first = inside * (1 - around[:, 1:-1, :-2]) * (1 - around[:, :-2, 1:-1])
        last = inside * (1 - around[:, 1:-1, 2:]) * (1 - around[:, 2:, 1:-1])
        (top, left), found = corners(first)
        (bottom, right), _ = corners(last)
        boxes = torch.stack([left, top, right + 1, bottom + 1], dim=2) * CELL
        return torch.cat([boxes * found[..., None], found[..., None]], dim=2)


def corners(marks: torch.Tensor) -> tuple[tuple[torch.Tensor, torch.Tensor], torch.Tensor]:
    """Rows and columns of the first marks in each picture, in order, and which of them there are."""
    columns = marks.shape[2]
    flat = marks.flatten(1)
    order = torch.arange(flat.shape[1], 0, -1, device=marks.device)
    found, places = torch.topk(flat * order, LANES)
    return (places // columns, places % columns), (found > 0).float()


class Classifier(nn.Module):
    """Scores of the colours of what fills a picture."""

    def __init__(self) -> None:
        super().__init__()
        self.cells = halvings(torch.eye(3), *FEATURES, 128)
        self.head = nn.Linear(3, len(COLOURS))
        colours = torch.tensor(COLOURS) / 255
        with torch.no_grad():
            self.head.weight.copy_(colours)
            self.head.bias.copy_(-colours.square().sum(1) / 2)  # the nearest colour has the highest score

    def forward(self, pictures: torch.Tensor) -> Any:
        return self.head(self.cells(pictures)[:, :3].mean((2, 3)))


def detector() -> nn.Module:
    """For pictures of 3x640x640, letterboxed."""
    return Detector()


def classifier() -> nn.Module:
    """For crops of 3x224x224."""
    return Classifier()
