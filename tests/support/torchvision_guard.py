"""Lets torchvision be imported where its compiled operators do not fit the torch at hand (a CPU torch, say).

`activate()` costs nothing until torchvision is imported. Then it declares the missing operators, with box suppression
in plain PyTorch, so that detectors run. Processes that tests start get it through `search_path()`.
"""

import importlib.abc
import importlib.util
import os
import sys
from pathlib import Path

SITE = Path(__file__).parent / "site"
"""Holds a `sitecustomize` that calls `activate`."""


def search_path() -> str:
    """PYTHONPATH for a process that may import torchvision."""
    return os.pathsep.join([str(SITE), *filter(None, [os.environ.get("PYTHONPATH")])])


def activate() -> None:
    """Watch for torchvision's import."""
    if not any(isinstance(finder, _Watch) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Watch())


def stands_in():
    """True where torchvision's own operators are missing."""
    import torchvision.extension

    return not torchvision.extension._has_ops()


class _Watch(importlib.abc.MetaPathFinder):
    """Wraps the loading of `torchvision.extension`, which looks for the operators before anything needs them."""

    def find_spec(self, name, path=None, target=None):
        if name != "torchvision.extension":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            if not module._has_ops():
                _declare(module)

        spec.loader.exec_module = exec_module
        return spec


def _declare(extension) -> None:
    import torch

    library = torch.library.Library("torchvision", "FRAGMENT")
    library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    library.impl("nms", suppress, "CPU")
    extension.library = library  # an operator lives as long as what declared it
    # roi_align took its own `_has_ops` by then and falls back to PyTorch; this one only guards nms.
    extension._assert_has_ops = lambda: None


def suppress(boxes, scores, iou_threshold):
    """Indices of boxes, best first, that overlap no better one by more than the threshold."""
    import torch

    order = scores.argsort(descending=True)
    overlap = (_overlaps(boxes[order]) > iou_threshold).numpy()
    alive = torch.ones(len(order), dtype=torch.bool)
    for index, row in enumerate(overlap):
        if alive[index]:
            alive.numpy()[index + 1 :] &= ~row[index + 1 :]
    return order[alive]


def _overlaps(boxes):
    """Intersection over union of each pair."""
    import torch

    corner, opposite = torch.maximum(boxes[:, None, :2], boxes[:, :2]), torch.minimum(boxes[:, None, 2:], boxes[:, 2:])
    shared = (opposite - corner).clamp(min=0).prod(dim=2)
    area = (boxes[:, 2:] - boxes[:, :2]).prod(dim=1)
    return shared / (area[:, None] + area - shared)
