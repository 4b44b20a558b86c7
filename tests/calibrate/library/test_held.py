"""Memory: weights and what layers hold at once, against allocations traced while real models run."""

import weakref

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from calibrate.io.points import Settings
from calibrate.library.held import TRACED_ERROR, held_evidence, held_numbers
from calibrate.zoo.built import tensors
from calibrate.zoo.zoo import build
from planner.catalog.catalog import load_catalog
from planner.prediction.learnt import learnt
from planner.prediction.queries import QueryKnowledge
from simulator.world.profile import Evidence

ANSWERS = QueryKnowledge(learnt(), load_catalog().gpus)
MODELS = (
    "resnet18",
    "resnet50",
    "resnet152",
    "vgg16",
    "inceptionv3",
    "mobilenet_v3_large",
    "efficientnet_b0",
    "convnext_tiny",
    "vit_b_16",
    "alexnet",
)


class Allocations(TorchDispatchMode):
    """Bytes of all storages that operators made and that something still uses, and the most there ever were."""

    def __init__(self, given: list[torch.Tensor]) -> None:
        super().__init__()
        self.seen: set[int] = set()
        self.live = self.peak = 0
        self.add(given)

    def add(self, made: list[torch.Tensor]) -> None:
        for tensor in made:
            storage = tensor.untyped_storage()
            if storage._cdata not in self.seen:
                self.seen.add(storage._cdata)
                self.live += storage.nbytes()
                weakref.finalize(storage, self.free, storage._cdata, storage.nbytes())
        self.peak = max(self.peak, self.live)

    def free(self, key: int, size: int) -> None:
        self.seen.discard(key)
        self.live -= size

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        self.add([leaf for leaf in tree_leaves(made) if isinstance(leaf, torch.Tensor)])
        return made


def traced_bytes(name: str, batches: tuple[int, ...]) -> list[int]:
    """Weights and the most that was allocated besides, for each batch, as tensors without values tell it."""
    with torch.device("meta"):
        built = build(name)
    module = built.module
    weights = [*module.parameters(), *module.buffers()]
    found = []
    for batch in batches:
        given = built.make_input(batch, "meta", Settings())
        with torch.no_grad(), Allocations([*weights, *tensors(given)]) as watched:
            built.forward(module, given)
        found.append(watched.peak)
    return found


@pytest.mark.parametrize("name", MODELS)
def test_predicted_memory_is_that_of_traced_allocations(name):
    batches = (1, 8, 64)
    told = [ANSWERS.answer({"gpu": "T4", "model": name, "batch": str(batch)}).memory_bytes for batch in batches]
    assert told == pytest.approx(traced_bytes(name, batches), rel=TRACED_ERROR)


def test_a_larger_input_holds_more():
    at_224, at_448 = (held_numbers("resnet50", size) for size in ("224", "448"))
    assert at_224 is not None
    assert at_448 == 4 * at_224
    short, long = (held_numbers("bert_base", size) for size in ("seq128", "seq384"))
    assert short is not None
    assert 3 * short < long < 9 * short  # attention grows by the square, all else with the length
    assert held_numbers("nobody_knows", "224") is None


@pytest.mark.parametrize(
    ("name", "evidence"),
    [
        ("resnet50", Evidence.PREDICTED),  # a table of traced networks
        ("yolov3", Evidence.PREDICTED),  # layers of the zoo
        ("yolo11s", Evidence.PREDICTED),  # layers of a package
        ("yolov5s", Evidence.ASSUMED),  # that package's has a quarter more parameters than the published one
        ("cait_m36", Evidence.ASSUMED),  # counts alone
    ],
)
def test_memory_is_predicted_where_layers_are_known(name, evidence):
    assert held_evidence(name) is evidence
