"""Measuring on the real CPU: figures exist, memory adds up by kind, memory that ends is recognised."""

import json
import subprocess
import sys
import time
from dataclasses import replace
from math import inf
from typing import Any

import pytest
import torch
from support.timers import BusyTimer, ReplayTimer
from torch import nn

from calibrate.devices.device import Cpu, DeviceError, find_device, peak_bytes, process_bytes
from calibrate.devices.timer import StopRule, sample
from calibrate.io.points import Figures, Point, Settings, What
from calibrate.sweep.loads import _cache_bytes, cooler
from calibrate.sweep.measure import measure
from calibrate.zoo.built import Built, ZooTask
from calibrate.zoo.zoo import build

LENET_BYTES = 4 * (156 + 2_416 + 30_840 + 7_260 + 610)
"""Weights and biases of its layers."""
QUICK = StopRule(seconds=0.05, at_least=6, at_most=20, warm_up_s=0.0)


@pytest.fixture(scope="module")
def cpu() -> Cpu:
    torch.set_num_threads(1)
    device = find_device("cpu")
    assert isinstance(device, Cpu)
    device.open()
    return device


@pytest.fixture(scope="module")
def lenet() -> Built:
    return build("lenet")


def weight_bytes(built: Built) -> int:
    return sum(parameter.numel() * 4 for parameter in built.module.parameters())


def figures(built: Built, device: Cpu, what: What, **more: Any) -> Figures:
    return measure(built, device, Point(what=what, model=built.name, **more), QUICK)


def own(module: nn.Module, *shape: int) -> Built:
    return Built("own", module.eval(), shape, ZooTask.OTHER)


# Devices


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("gpu", "--device: 'gpu' is not known. Write cpu, or cuda:0 for the first GPU"),
        ("cpu:1", "--device: 'cpu:1' is not known. Write cpu, or cuda:0 for the first GPU"),
        ("", "--device: '' is not known. Write cpu, or cuda:0 for the first GPU"),
        ("cuda:999", "--device: cuda:999 is not there, "),
    ],
)
def test_a_device_that_is_not_there_is_refused_in_one_line(name: str, says: str) -> None:
    with pytest.raises(DeviceError) as error:
        find_device(name)
    assert str(error.value).startswith(says)
    assert "\n" not in str(error.value)


def test_the_cpu_is_known_by_name_and_memory(cpu: Cpu) -> None:
    assert cpu.name
    assert cpu.context_bytes is not None
    assert 50e6 < cpu.context_bytes < cpu.memory_bytes()
    assert not cpu.nvml.there


def test_a_limit_below_what_torch_holds_is_refused(cpu: Cpu) -> None:
    with pytest.raises(DeviceError, match="1 MB is less than the"):
        cpu.open(limit_bytes=1_000_000)


def test_allocations_are_counted_to_the_byte(cpu: Cpu) -> None:
    def work() -> None:
        a = torch.empty(1000)
        b = a.clone()
        del a
        torch.empty_like(b)

    assert cpu.peaks(work).allocated_bytes == 8000
    assert cpu.peaks(work, resident_bytes=500).allocated_bytes == 8500


def test_the_process_is_seen_to_grow_and_to_shrink(cpu: Cpu) -> None:
    def held(size: int) -> int:
        return cpu.peaks(lambda: torch.ones(size, dtype=torch.uint8)).device_bytes or 0

    small, large, small_again = held(1), held(200_000_000), held(1)
    assert large - small == pytest.approx(200e6, rel=0.05)
    assert small_again < large - 150e6


def test_the_highest_running_sum() -> None:
    assert peak_bytes([]) == 0
    assert peak_bytes([-5]) == 0
    assert peak_bytes([100, 50, -100, 20]) == 150


# Kinds of points


def test_loading(lenet: Built, cpu: Cpu) -> None:
    values, samples, details = figures(lenet, cpu, What.LOAD)
    assert values["weight_bytes"] == weight_bytes(lenet) == LENET_BYTES
    assert values["load_peak_bytes"] == values["weight_bytes"]
    assert "pinned_s" not in samples, "memory is pinned for a GPU only"
    assert all(min(samples[key]) > 0 for key in ("pageable_s", "unload_s", "disk_s"))
    assert details["sizes"][-1]["bytes"] == LENET_BYTES
    assert "share_from_storage" in details["disk"]


def test_caches_hold_something_else_before_each_load(cpu: Cpu) -> None:
    cooled = []
    rule = StopRule(at_least=6, at_most=6)
    sample(ReplayTimer([0.001] * 6), bool, rule, before_each=lambda: cooled.append(1))
    assert len(cooled) == 6
    touched = cooler(cpu)()
    assert isinstance(touched, torch.Tensor)
    assert touched.nbytes >= 2 * _cache_bytes() >= 2 << 20


def test_memory_of_a_batch_grows_with_it(lenet: Built, cpu: Cpu) -> None:
    held = [figures(lenet, cpu, What.MEMORY, batch=batch).values for batch in (1, 2, 64)]
    assert [values["weights_bytes"] for values in held] == [LENET_BYTES] * 3
    # Least: the input and conv1's output, 6 pictures of 24 x 24.
    for batch, values in zip((1, 2, 64), held, strict=True):
        assert values["allocated_bytes"] >= LENET_BYTES + batch * 4 * (28 * 28 + 6 * 24 * 24)
        assert values["device_bytes"] > values["allocated_bytes"]
    assert held[0]["allocated_bytes"] < held[1]["allocated_bytes"] < held[2]["allocated_bytes"]


@pytest.mark.parametrize(("optimizer", "times"), [("sgd", 1), ("adam", 2)])
def test_memory_of_a_training_step_adds_up_by_kind(lenet: Built, cpu: Cpu, optimizer: str, times: int) -> None:
    values = figures(lenet, cpu, What.MEMORY, batch=32, optimizer=optimizer).values
    assert values["weights_bytes"] == values["gradients_bytes"] == LENET_BYTES
    # Adam also counts its steps: one number for each of the 10 tensors.
    assert values["optimizer_bytes"] == times * LENET_BYTES + (40 if optimizer == "adam" else 0)
    assert values["activations_bytes"] >= 32 * 4 * (28 * 28 + 6 * 24 * 24)
    kinds = ("weights_bytes", "gradients_bytes", "optimizer_bytes", "activations_bytes")
    assert sum(values[kind] for kind in kinds) <= values["allocated_bytes"]


def test_latency(lenet: Built, cpu: Cpu) -> None:
    began_s = time.perf_counter()
    point = Point(what=What.LATENCY, model="lenet", batch=4)
    unhurried = replace(QUICK, seconds=60.0, warm_up_change=inf)  # however long others keep the processor
    values, samples, details = measure(lenet, cpu, point, unhurried)
    assert samples.keys() == {"wall_s"}, "a processor is its own host, and runs follow each other"
    assert not values, "nothing is known of energy and clocks"
    assert 6 <= len(samples["wall_s"]) <= 20
    assert min(samples["wall_s"]) > 0
    assert sum(samples["wall_s"]) < time.perf_counter() - began_s
    assert details["regime"]["products"] == details["regime"]["convolutions"] == "ieee"


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_training_step_and_its_parts(lenet: Built, cpu: Cpu, optimizer: str) -> None:
    before = [parameter.clone() for parameter in lenet.module.parameters()]
    point = Point(what=What.TRAINING, model="lenet", batch=8, optimizer=optimizer)
    rule = StopRule(seconds=0.5, at_most=50, warm_up_s=0.0)
    samples = measure(lenet, cpu, point, rule, BusyTimer()).samples
    parts = [min(samples[part]) for part in ("forward_s", "backward_s", "optimizer_s")]
    assert all(part > 0 for part in parts)
    # The same work timed twice.
    assert 0.4 < sum(parts) / min(samples["step_s"]) < 2.5
    assert all(map(torch.equal, before, lenet.module.parameters())), "the weights are as they were"
    assert not lenet.module.training
    assert all(parameter.grad is None for parameter in lenet.module.parameters())


def test_a_recording_stands_in_for_the_device(lenet: Built, cpu: Cpu) -> None:
    recorded = [0.004, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001, *[0.001 * i for i in range(1, 7)], *[0.003] * 99]
    point = Point(what=What.LATENCY, model="lenet", batch=4)
    rule = StopRule(seconds=9.0, at_least=6, at_most=6, warm_up_s=0.0)
    samples = measure(lenet, cpu, point, rule, ReplayTimer(recorded)).samples
    assert samples["wall_s"] == [0.001 * i for i in range(1, 7)]


# Settings


SEEN: dict[str, Any] = {}


class Noting(nn.Module):
    """Notes how it is run."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.conv(pictures)
        SEEN.update(
            {
                "weights": str(self.conv.weight.dtype),
                "input": str(pictures.dtype),
                "output": str(out.dtype),
                "channels_last": pictures.is_contiguous(memory_format=torch.channels_last),
                "inference": torch.is_inference_mode_enabled(),
                "tf32": torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32,
                "benchmark": torch.backends.cudnn.benchmark,
                "shape": tuple(pictures.shape),
            }
        )
        return out


FP32 = {"weights": "torch.float32", "input": "torch.float32", "output": "torch.float32"}
BF16 = {"weights": "torch.bfloat16", "input": "torch.bfloat16", "output": "torch.bfloat16"}
FP16 = {"weights": "torch.float16", "input": "torch.float16", "output": "torch.float16"}


@pytest.mark.parametrize(
    ("settings", "seen"),
    [
        (Settings(), FP32 | {"channels_last": False, "tf32": False, "benchmark": False, "inference": True}),
        (Settings(precision="bf16"), BF16),
        (Settings(precision="fp16"), FP16),
        (Settings(precision="amp"), FP32 | {"output": "torch.bfloat16"}),
        (Settings(precision="amp-bf16"), FP32 | {"output": "torch.bfloat16"}),
        (Settings(precision="torch"), FP32 | {"tf32": True}),
        (Settings(channels_last=True), FP32 | {"channels_last": True}),
        (Settings(cudnn_benchmark=True), {"benchmark": True}),
        (Settings(resolution=12), {"shape": (2, 3, 12, 12)}),
    ],
)
def test_settings_are_applied_and_taken_back(cpu: Cpu, settings: Settings, seen: dict[str, Any]) -> None:
    module = Noting()
    switches = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32, torch.backends.cudnn.benchmark
    figures(own(module, 3, 8, 8), cpu, What.MEMORY, batch=2, settings=settings)
    assert {key: SEEN[key] for key in seen} == seen
    assert module.conv.weight.dtype == torch.float32
    assert module.conv.weight.is_contiguous()
    after = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32, torch.backends.cudnn.benchmark
    assert after == switches


NEWER_SWITCHES = """
import os

import torch


def check(part, name, written):
    setattr(part, name, written)
    from calibrate.devices.regime import in_regime
    from calibrate.io.points import Settings

    for precision in ("fp32", "tf32"):
        with in_regime(Settings(precision=precision)):
            allowed = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
            assert allowed == (precision == "tf32",) * 2, allowed
            assert (torch.get_float32_matmul_precision() == "highest") == (precision == "fp32")
    assert getattr(part, name) == written


for part in (torch.backends, torch.backends.cudnn.conv, torch.backends.cuda.matmul):
    for written in ("tf32", "ieee"):
        child = os.fork()
        if not child:
            check(part, "fp32_precision", written)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0, (part, written)
"""


@pytest.mark.usefixtures("forked")
def test_a_model_that_sets_the_newer_switches_is_measured() -> None:
    """torch refuses to read the older switches beside the newer ones; each case in a process of its own."""
    done = subprocess.run([sys.executable, "-c", NEWER_SWITCHES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_half_precision_halves_the_weights(lenet: Built, cpu: Cpu) -> None:
    values = figures(lenet, cpu, What.LOAD, settings=Settings(precision="bf16")).values
    assert values["weight_bytes"] == weight_bytes(lenet) / 2


def test_a_precision_the_device_lacks_is_refused(lenet: Built, cpu: Cpu) -> None:
    with pytest.raises(ValueError, match="lenet: precision: tf32 is a format of NVIDIA GPUs"):
        figures(lenet, cpu, What.LATENCY, batch=1, settings=Settings(precision="tf32"))


def test_parameters_that_need_no_gradient_have_none(cpu: Cpu) -> None:
    module = nn.Sequential(nn.Linear(10, 10, bias=False), nn.Linear(10, 10, bias=False))
    module[0].requires_grad_(False)
    values = figures(own(module, 10), cpu, What.MEMORY, batch=2, optimizer="sgd").values
    assert (values["weights_bytes"], values["gradients_bytes"], values["optimizer_bytes"]) == (800, 400, 400)


# What goes wrong


class Dividing(nn.Module):
    """Gives NaN in every other place."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight * torch.tensor([1.0, float("nan"), 1.0, float("nan")])


@pytest.mark.parametrize(
    ("what", "optimizer", "says"),
    [
        (What.LATENCY, "", "own/latency/3/fp32: output: 6 of 12 values are not a number"),
        (What.MEMORY, "", "own/memory/3/fp32: output: 6 of 12 values are not a number"),
        (What.MEMORY, "sgd", "own/memory/sgd/3/fp32: loss: 1 of 1 values are not a number"),
        (What.TRAINING, "adam", "own/training/adam/3/fp32: loss: 1 of 1 values are not a number"),
    ],
)
def test_output_that_is_not_a_number_is_refused(cpu: Cpu, what: What, optimizer: str, says: str) -> None:
    with pytest.raises(ValueError, match="^" + says) as error:
        figures(own(Dividing(), 4), cpu, what, batch=3, optimizer=optimizer)
    assert "\n" not in str(error.value)


def test_what_the_models_code_raises_comes_through_and_leaves_nothing(cpu: Cpu) -> None:
    built = own(nn.Sequential(nn.Linear(4, 4), nn.Linear(5, 5)), 4)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        figures(built, cpu, What.TRAINING, batch=2, optimizer="sgd")
    assert not built.module.training


def test_a_disk_that_is_full_costs_only_the_time_from_disk(
    lenet: Built, cpu: Cpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/proc/nowhere")
    _, samples, details = figures(lenet, cpu, What.LOAD)
    assert "disk_s" not in samples
    assert details["disk"]["left_out"].startswith("weights could not be written to /proc/nowhere (No such file")
    assert samples["pageable_s"]


LADDER = """
import json, torch
from torch import nn
from calibrate.devices.device import OutOfMemoryError, find_device, process_bytes
from calibrate.sweep.measure import measure
from calibrate.devices.nvml import Nvml
from calibrate.io.points import Point, What
from calibrate.devices.timer import StopRule
from calibrate.zoo.zoo import Built, ZooTask
torch.set_num_threads(1)
cpu = find_device("cpu")
cpu.open(limit_bytes=process_bytes("VmRSS") + 400_000_000)
module = nn.Sequential(nn.Conv2d(3, 16, 1), nn.ReLU(), nn.MaxPool2d(1)).eval()
built = Built("ladder", module, (3, 160, 160), ZooTask.OTHER)
for what, optimizer in ((What.MEMORY, "sgd"), (What.LATENCY, "")):
    for batch in (4096, 64, 2):
        try:
            point = Point(what=what, model="ladder", optimizer=optimizer, batch=batch)
            measure(built, cpu, point, StopRule(seconds=0.1))
            print(json.dumps([what, optimizer, batch, ""]))
        except OutOfMemoryError as error:
            print(json.dumps([what, optimizer, batch, str(error)]))
"""


@pytest.mark.skipif(process_bytes("VmRSS") is None, reason="memory can be limited on Linux only")
@pytest.mark.usefixtures("forked")
def test_memory_that_ends_is_recognised_and_smaller_batches_still_fit() -> None:
    ran = subprocess.run([sys.executable, "-c", LADDER], capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
    for line in ran.stdout.splitlines():
        what, optimizer, batch, message = json.loads(line)
        assert bool(message) == (batch >= 64), line
        key = f"ladder/{what}/{optimizer + '/' if optimizer else ''}{batch}/fp32"
        assert not message or message.startswith(f"{key}: out of memory: ")
    assert len(ran.stdout.splitlines()) == 6


LARGE_CACHE = """
import json
import calibrate.sweep.loads
import calibrate.sweep.measure
from calibrate.devices.device import find_device, process_bytes
from calibrate.io.points import Point, What
from calibrate.devices.timer import StopRule
from calibrate.zoo.zoo import build

calibrate.sweep.loads._cache_bytes = lambda: 120 << 20
device = find_device("cpu")
device.open(process_bytes("VmRSS") + 200_000_000)
found = calibrate.sweep.measure.measure(
    build("lenet"), device, Point(what=What.LOAD, model="lenet"),
    StopRule(seconds=0.05, at_least=3, at_most=5, warm_up_s=0.0),
)
print(json.dumps(found.details | {"samples": len(found.samples["pageable_s"])}))
"""


@pytest.mark.usefixtures("forked")
def test_loads_are_measured_within_the_limit_where_the_cache_is_nearly_as_large() -> None:
    """120 MB of L3 where 200 MB are left: less is touched than twice the cache, and it is said."""
    ran = subprocess.run([sys.executable, "-c", LARGE_CACHE], capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["samples"]
    assert 0 < found["cooled_bytes"] < found["cache_bytes"] == 120 << 20
