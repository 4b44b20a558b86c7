"""Training for real on this machine's processor: what calibration predicts is what a short epoch takes."""

import time
from dataclasses import replace
from typing import Any

import pytest
from support.paths import SCENARIOS
from support.spike import spike

from planner.io.load import ScenarioError
from planner.questions.training import check as checking
from planner.questions.training.check import Check, check
from planner.questions.training.reading import load_training
from planner.show.documents.training import check_text as render
from planner.units.writing import Format, Screen
from simulator.errors import InputError

pytestmark = pytest.mark.usefixtures("forked")

LENET = SCENARIOS / "training" / "lenet.yaml"
WITHIN = 0.15
TRIES = 5
"""Other processes share the machine and its caches, and memory falls out well or badly: both only ever add time."""


def tried(batch: int, samples: int, budget_s: float, *overrides: str) -> tuple[Check, float]:
    """The last of some tries, and the error of the quickest prediction against the quickest epoch of all, which ends
    them once it is within the limit. In time of the processor: what other processes took is no part of it."""
    error = predicted_s = measured_s = float("inf")
    for _ in range(TRIES):
        found = check(load_training(LENET, overrides), "cpu", batch, samples, budget_s, threads=1)
        predicted_s = min(predicted_s, found.busy_predicted_epoch_s or 0.0)
        measured_s = min(measured_s, found.busy_measured_epoch_s or 0.0)
        error = abs(predicted_s / measured_s - 1)
        if error <= WITHIN:
            break
    assert found.busy_error is not None
    return found, error


def test_lenet_trains_as_long_as_predicted() -> None:
    found, error = tried(64, 64 * 20, 0.2, "data.loader=null")
    assert error <= WITHIN
    assert (found.steps, found.workers, found.start_s) == (20, 0, 0.0)
    assert found.predicted_epoch_s == pytest.approx(20 * (found.predicted_step_s + found.load_s))
    assert found.whole_s.low <= 120_000 / 1280 * found.measured_epoch_s <= found.whole_s.high * (1 + 1e-9)
    text = render(found, Format.TABLE, Screen())
    assert "20 steps, data included" in text
    assert "The whole training on this device" in text


def test_a_loader_with_workers_makes_the_batches_meanwhile() -> None:
    found = check(load_training(LENET), "cpu", 16, 16 * 30, 0.2, threads=1)
    assert (found.steps, found.workers) == (30, 1)
    assert found.start_s > found.load_s > 0  # a process must begin first
    longer_s = max(found.predicted_step_s, found.load_s)
    assert found.predicted_epoch_s == pytest.approx(found.start_s + found.predicted_step_s + 29 * longer_s)
    assert found.threads == 1
    assert "1 worker" in render(found, Format.TABLE, Screen())


def test_load_by_others_is_told_where_threads_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "busy_share", lambda: 0.9)
    both = check(load_training(LENET, ["data.loader=null"]), "cpu", 2, 4, 0.01, threads=2)
    assert (both.threads, both.load_share) == (2, 0.9)
    for found, warned in ((both, True), (replace(both, threads=1), False), (replace(both, load_share=0.4), False)):
        text = " ".join(render(found, Format.TABLE, Screen()).split())
        said = f"Other work took {found.load_share:.0%} of the cores" in text, "OMP_NUM_THREADS=1" in text
        assert said == (warned, warned)


@pytest.mark.usefixtures("torchvision_in_workers")
def test_resnet18_trains_as_long_as_predicted() -> None:
    found, error = tried(8, 128, 0.5, "model={zoo: resnet18, pixels: 32}")
    assert error <= WITHIN
    assert found.model == "resnet18"


@pytest.mark.parametrize(
    ("override", "device", "said"),
    [
        ("model={transformer: {layers: 1, hidden: 8, heads: 1, sequence: 8}}", "cpu", "a shape cannot be run"),
        ("train.optimizer=adagrad", "cpu", "adagrad cannot be run. Write sgd, momentum or adam."),
        ("train.precision=tf32", "cpu", "precision: tf32"),
        ("model.channels=3", "cpu", "models are run with all their channels"),
        ("name=x", "tpu", "--device: tpu is not a device. Write cpu or e.g. cuda:0."),
    ],
)
def test_what_cannot_be_measured_is_told_in_one_line(override: str, device: str, said: str) -> None:
    with pytest.raises((ScenarioError, InputError)) as raised:
        check(load_training(LENET, [override]), device)
    (line,) = str(raised.value).splitlines()
    assert said in line


WIDTHS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 6144)
"""The notebook's, and narrower ones: this processor has no slow loader that would hide what narrow layers take."""
BATCH = 64


def test_an_epoch_is_flat_then_rises_with_the_width_of_a_layer() -> None:
    """Lane's curve on this processor, in its own time, which other processes take none of."""
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        times_s = [epoch_s(torch, width) for width in WIDTHS]
    finally:
        torch.set_num_threads(threads)
    knee = spike(WIDTHS, times_s)
    assert knee is not None
    assert 32 < knee < 2048
    assert max(times_s[:3]) < 2 * min(times_s[:3])
    assert times_s[-1] > 5 * times_s[0]


def epoch_s(torch: Any, width: int) -> float:
    """60,000 pictures of 28 x 28 through one hidden layer, at the pace of the quickest of ten steps."""
    nn = torch.nn
    net = nn.Sequential(nn.Linear(784, width), nn.ReLU(), nn.Linear(width, 10))
    step = torch.optim.SGD(net.parameters(), lr=0.01)
    pictures = list(torch.randint(256, (BATCH, 784), dtype=torch.uint8))
    best_s = float("inf")
    for _ in range(10):
        start_s = time.process_time()
        inputs = torch.stack([(picture.float() / 255 - 0.13) / 0.31 for picture in pictures])
        net(inputs).square().mean().backward()
        step.step()
        step.zero_grad()
        best_s = min(best_s, time.process_time() - start_s)
    return best_s * 60_000 / BATCH
