"""Training told against public tables: timm's throughputs and batches on an RTX 3090, Zeus' epochs to a target.

Skipped where the tables are not at hand.
"""

import csv
import re
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest
from support import commands
from support.paths import PUBLIC

from calibrate.layers.facts import facts
from planner.catalog.catalog import load_catalog
from planner.prediction.trainings import published_steps
from planner.questions.training.closed_forms import END_TO_END, STEP_OVER_INFERENCE, epoch_law, step_from_inference
from planner.questions.training.memory import ALLOCATOR, largest_batch, memory, states, vision_activation_bytes

TIMM, ZEUS = PUBLIC / "timm", PUBLIC / "zeus"
MEMORY_BYTES, CONTEXT_BYTES = 24e9, 0.9e9
"""Of an RTX 3090."""
MOST = 512
"""Batch at which timm's runs begin; a smaller one was cut by memory."""
DEPTHWISE_INTENSITY = 10.0
"""Activations for 1,000 multiply-adds from which a network is held by bandwidth: 2.7 for a ResNet-50, 16 for an
EfficientNet-B0."""

timm = pytest.mark.skipif(not TIMM.is_dir(), reason="timm's tables are not here")
zeus = pytest.mark.skipif(not ZEUS.is_dir(), reason="Zeus' tables are not here")


def rows(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


@dataclass(frozen=True)
class Network:
    """A network as timm lists it."""

    name: str
    depthwise: bool
    pixels: int


def half_octave_up(batch: int) -> int:
    """The next batch of timm's ladder: 384 after 256, 512 after 384, 2 after 1."""
    return batch + max(1, (1 << (batch.bit_length() - 1)) // 2)


def hits(batches: Iterable[int], predictions: Iterable[float]) -> float:
    """Share of networks whose predicted largest batch lies between the one that fitted and the next."""
    pairs = zip(batches, predictions, strict=True)
    return statistics.mean(batch <= prediction < half_octave_up(batch) for batch, prediction in pairs)


@pytest.fixture(scope="module")
def trained() -> list[tuple[Network, float, int]]:
    """Networks in both tables at the same resolution: inference over training throughput, and training's batch."""
    told: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows(TIMM / "benchmark-infer-amp-nchw-pt240-cu124-rtx3090.csv"):
        told.setdefault((row["model"].split(".")[0], row["infer_img_size"]), row)
    found = []
    for row in rows(TIMM / "benchmark-train-amp-nchw-pt112-cu113-rtx3090.csv"):
        size = row["train_img_size"]
        other = told.get((row["model"], size))
        if other is None or float(other["infer_gmacs"]) < 0.02:
            continue
        network = Network(
            name=row["model"],
            depthwise=float(other["infer_macts"]) >= DEPTHWISE_INTENSITY * float(other["infer_gmacs"]),
            pixels=int(size),
        )
        ratio = float(other["infer_samples_per_sec"]) / float(row["train_samples_per_sec"])
        found.append((network, ratio, int(row["train_batch_size"])))
    return found


ZOO = {"convnext_tiny": "convnext_tiny", "efficientnet_b0": "efficientnet_b0", "inceptionv3": "inception_v3",
       "resnet101": "resnet101", "resnet152": "resnet152", "vgg16": "vgg16", "vgg19": "vgg19",
       "vit_b_16": "vit_base_patch16_224"}  # fmt: skip
"""Of the zoo, those that timm trained at a batch that memory had cut, by both names."""


@timm
def test_largest_batch_by_layers_as_planner_train_tells_it(trained: list[tuple[Network, float, int]]) -> None:
    known = {n.name: (n.pixels, batch) for n, _, batch in trained if batch < MOST}
    told, batches = [], []
    for zoo, name in ZOO.items():
        pixels, batch = known[name]
        layers = facts(zoo).at(pixels)
        fixed = states(layers.params, "amp", "momentum")
        kept = vision_activation_bytes(layers, "amp").mid
        told.append(largest_batch(fixed, kept, CONTEXT_BYTES, MEMORY_BYTES, ALLOCATOR.mid))
        batches.append(batch)
    assert hits(batches, told) >= 0.70


@timm
def test_one_factor_for_steps_from_inference_as_planner_train_uses_it(
    trained: list[tuple[Network, float, int]],
) -> None:
    errors = [abs(step_from_inference(1.0, n.depthwise).mid / ratio - 1) for n, ratio, _ in trained]
    assert statistics.median(errors) <= 0.12


@timm
def test_the_band_of_steps_from_inference_holds_most_networks(trained: list[tuple[Network, float, int]]) -> None:
    # Inference of another torch, two years younger and faster: the band of one torch for both lies below.
    low, mid, high = statistics.quantiles([ratio for _, ratio, _ in trained], n=10)[::4]
    assert STEP_OVER_INFERENCE.low <= low < mid < high <= 1.1 * STEP_OVER_INFERENCE.high


@timm
def test_depthwise_networks_take_longer_steps(trained: list[tuple[Network, float, int]]) -> None:
    depthwise, others = ([ratio for n, ratio, _ in trained if n.depthwise is flag] for flag in (True, False))
    assert statistics.median(depthwise) > 1.15 * statistics.median(others)


def epochs(dataset: str, target: float) -> dict[int, list[float]]:
    """Epochs to the target, by batch, a figure for each seed that reached it."""
    found: dict[int, list[float]] = {}
    for row in rows(ZEUS / "summary_train.csv"):
        reached = re.fullmatch(r"[\d.]+", row["target_epoch"])
        if row["dataset"] == dataset and float(row["target_metric"]) == target and reached:
            found.setdefault(int(row["batch_size"]), []).append(float(row["target_epoch"]))
    return found


@zeus
@pytest.mark.parametrize(
    ("dataset", "target", "least"), [("cifar100", 0.35, 16), ("cifar100", 0.5, 32), ("librispeech", 50.0, 16)]
)
def test_epochs_grow_with_the_batch_as_the_law_says(dataset: str, target: float, least: int) -> None:
    """Every batch between the smallest and the largest is predicted by all others."""
    known = {batch: found for batch, found in epochs(dataset, target).items() if batch >= least and len(found) > 1}
    errors = []
    for out in sorted(known)[1:-1]:
        law = epoch_law([(batch, e) for batch, found in known.items() if batch != out for e in found])
        errors.append(abs(law(out) / statistics.mean(known[out]) - 1))
    assert statistics.median(errors) < 0.15
    assert max(errors) < 0.40


@zeus
def test_seeds_differ_by_a_tenth() -> None:
    known = {batch: found for batch, found in epochs("cifar100", 0.65).items() if 16 <= batch <= 128}
    law = epoch_law([(batch, e) for batch, found in known.items() for e in found])
    assert 0.08 < law.spread < 0.20
    inside = [law.range(b).low <= e <= law.range(b).high for b, found in known.items() for e in found]
    assert statistics.mean(inside) > 0.6


def test_the_ladder_has_two_steps_to_each_doubling() -> None:
    assert [half_octave_up(b) for b in (1, 2, 3, 4, 6, 8, 64, 96, 256, 384)] == [2, 3, 4, 6, 8, 12, 96, 128, 384, 512]
    assert hits([64, 64, 64], [63.9, 64, 95.9]) == pytest.approx(2 / 3)


def test_utilization_of_long_runs_spans_less_than_five_times() -> None:
    assert END_TO_END.high / END_TO_END.low < 5


def test_batches_that_others_trained_fit_in_what_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """BERT at batches that were chosen to fill the GPU: all fit at the low end, nine in ten at the middle."""
    monkeypatch.setattr("subprocess.run", commands.tracing)
    kinds = load_catalog().gpus
    filled = [step for step in published_steps() if "bert" in step.model]
    needed = [
        memory(
            states(layers.params, step.precision, "adam"),
            vision_activation_bytes(layers, step.precision) * step.batch,
            CONTEXT_BYTES,
        ).total
        for step in filled
        for layers in [facts(step.model, (int(step.input),))]
    ]
    limits = [kinds[step.gpu].memory_bytes for step in filled]
    assert all(need.low <= limit for need, limit in zip(needed, limits, strict=True))
    assert statistics.mean(need.mid <= limit for need, limit in zip(needed, limits, strict=True)) >= 0.9
