"""Measuring a GPU in imitation (`support.cuda`): what each figure means, and that no line for CUDA fails."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, Self

import pytest
import torch
from support import cuda
from support.forks import forking
from torch import nn

from calibrate.assembling.measured import Measured
from calibrate.assembling.profile import profile_json
from calibrate.devices import provenance
from calibrate.devices.device import FIRST_OPENING, Cuda, find_device
from calibrate.devices.doctor import Health, diagnose
from calibrate.devices.timer import StopRule
from calibrate.devices.watch import Watch
from calibrate.io.points import Figures, Point, PointOutcome, Settings, Status, What
from calibrate.layers import tracing
from calibrate.library.hosts import beside_host
from calibrate.library.lookup import find_profiles
from calibrate.serving.after_load import swap_times
from calibrate.sweep import assemble, probes
from calibrate.sweep.journal import Header, read_journal
from calibrate.sweep.measure import MeasuredModel, measure, on_device
from calibrate.sweep.short_training import ShortTraining, train
from calibrate.zoo.built import Built, Hooks, ZooTask
from calibrate.zoo.networks import Opaque
from calibrate.zoo.zoo import build
from planner.catalog.catalog import load_catalog
from simulator.world.profile import Profile

KERNEL_S = 1e-3
"""Far above what the host takes to queue one: time on the GPU is kernels times this."""
QUICK = StopRule(seconds=0.05, at_least=6, at_most=12, warm_up_s=0.0)


@pytest.fixture(autouse=True)
def short_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calibrate.sweep.rates.ROW_S", 0.3)
    monkeypatch.setattr("calibrate.devices.watch.EVERY_S", 0.01)


@pytest.fixture
def gpu() -> Iterator[cuda.Gpu]:
    with cuda.imitated(kernel_s=KERNEL_S) as state:
        yield state


def opened() -> Cuda:
    FIRST_OPENING.clear()
    device = find_device("cuda:0")
    assert isinstance(device, Cuda)
    device.open()
    return device


class Chain(nn.Module):
    """So many small kernels, each after the other; notes how it is run."""

    seen: list[Any] = []  # noqa: RUF012 # of all, for some are copied

    def __init__(self, kernels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.kernels = kernels

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        backends: Any = torch.backends
        self.seen.append((backends.cuda.matmul.allow_tf32, backends.cudnn.allow_tf32, str(self.weight.dtype)))
        for _ in range(self.kernels):
            x = x * self.weight
        return x


def chain(kernels: int) -> Built:
    Chain.seen.clear()
    return Built("chain", Chain(kernels).eval(), (4,), ZooTask.OTHER)


def latency(built: Built, device: Cuda, **settings: Any) -> Figures:
    return measure(
        built, device, Point(what=What.LATENCY, model="chain", batch=2, settings=Settings(**settings)), QUICK
    )


# Two figures a batch


def test_time_on_the_device_is_kernels_and_not_the_host(gpu: cuda.Gpu) -> None:
    values, samples, _ = latency(chain(4), opened())
    assert values["busy_s"] == pytest.approx(4 * KERNEL_S, rel=0.02)
    assert values["sustained_s"] >= 4 * KERNEL_S
    assert values["host_s"] < median(samples["wall_s"])
    assert min(samples["wall_s"]) >= 4 * KERNEL_S


def test_a_row_of_short_kernels_is_bound_by_the_host() -> None:
    with cuda.imitated(kernel_s=1e-7):
        values, _, _ = latency(chain(50), opened())
    assert values["busy_s"] == pytest.approx(50e-7, rel=0.02)
    assert values["host_s"] > 5 * values["busy_s"]
    assert values["sustained_s"] > 5 * values["busy_s"]


def test_the_device_is_known_apart_only_where_the_host_does_not_wait_for_it(gpu: cuda.Gpu) -> None:
    class Waiting(Chain):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * float(x.sum().item() > -1)

    values, samples, _ = latency(Built("chain", Waiting(2).eval(), (4,), ZooTask.OTHER), opened())
    assert "busy_s" not in values.keys() | samples.keys()
    assert values["host_s"] >= 3 * KERNEL_S


def test_a_cold_cache_costs_what_it_costs() -> None:
    with cuda.imitated(kernel_s=KERNEL_S, cold_s=0.02):
        values, samples, _ = latency(chain(2), opened())
    assert min(samples["cold_s"]) >= 0.02 + 2 * KERNEL_S
    assert values["busy_s"] == pytest.approx(2 * KERNEL_S, rel=0.02), "the others are warm"


@pytest.mark.parametrize("crowding", [0.0, 60.0])
def test_a_batch_and_a_load_beside_it_overlap_as_far_as_they_do(crowding: float) -> None:
    """One tensor to load takes a kernel's time on an engine of its own, or more where both hinder each other."""
    kernels = 20
    with cuda.imitated(kernel_s=KERNEL_S, crowding=crowding):
        values, samples, _ = latency(chain(kernels), opened())
    assert min(samples["beside_load_s"]) >= max(kernels, 1 + crowding) * KERNEL_S
    assert (values["beside_load_s"] > 2 * median(samples["wall_s"])) == bool(crowding)


def test_clocks_watts_and_reasons_are_those_of_the_work(gpu: cuda.Gpu) -> None:
    """Read when all was done, they would be those of a GPU at rest: 345 MHz, 70 W, `idle`."""
    values, _, details = latency(chain(4), opened())
    assert values["clock_start_mhz"] == values["clock_end_mhz"] == 1980
    assert values["power_w"] == pytest.approx(cuda.BUSY_W, rel=0.02)
    assert values["energy_j"] == pytest.approx(values["power_w"] * values["sustained_s"])
    assert details["slow_reasons"] == {}


@pytest.mark.parametrize("reads", [("power",), ()])
def test_power_without_an_energy_counter(reads: tuple[str, ...]) -> None:
    with cuda.imitated(kernel_s=KERNEL_S, reads=reads):
        values, _, _ = latency(chain(4), opened())
    assert values.get("power_w") == (pytest.approx(cuda.BUSY_W, rel=0.02) if reads else None)


def test_a_soak_meets_the_power_limit_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    clock.drive(monkeypatch)
    monkeypatch.setattr("calibrate.sweep.rates.Watch", lambda nvml: WatchByClock(nvml, clock=clock))
    with cuda.imitated(kernel_s=KERNEL_S, capped_after_s=0.6):
        point = Point(what=What.SOAK, model="chain", batch=2)
        values, samples, details = measure(chain(4), opened(), point, StopRule(seconds=1.5, warm_up_s=0.0))
    assert len(samples["sustained_s"]) >= 4
    assert values["first_s"] >= 4 * KERNEL_S
    assert samples["sustained_s"][-1] >= 5 * KERNEL_S, "kernels take a quarter longer"
    assert details["slow_reasons"]["sw_power_cap"] > 0.9
    assert values["clock_start_mhz"] > values["clock_end_mhz"]


class Clock:
    """A clock that a busy machine does not hurry: each look takes the main thread so long, and sleep what it asks."""

    def __init__(self, look_s: float = 1e-5) -> None:
        self.now_s = 0.0
        self.look_s = look_s
        self.really_sleep = time.sleep
        self.halfway: list[Callable[[], None]] = []
        """Called in the middle of each sleep of the main thread."""

    def drive(self, patch: pytest.MonkeyPatch) -> None:
        """All that asks for the time, or sleeps, goes by it."""
        patch.setattr(time, "perf_counter", self.perf_counter)
        patch.setattr(time, "sleep", self.sleep)

    def perf_counter(self) -> float:
        if threading.current_thread() is threading.main_thread():
            self.now_s += self.look_s
        return self.now_s

    def sleep(self, seconds: float) -> None:
        if threading.current_thread() is not threading.main_thread():
            self.really_sleep(seconds)
            return
        self.now_s += seconds / 2
        for call in self.halfway:
            call()
        self.now_s += seconds / 2


@dataclass
class WatchByClock(Watch):
    """Reads whenever the host waits for the GPU: a thread of its own may come late on a busy machine."""

    clock: Clock = field(default_factory=Clock)

    def __enter__(self) -> Self:
        self.clock.halfway.append(self.look)
        return self

    def __exit__(self, *_: object) -> None:
        self.clock.halfway.remove(self.look)

    def look(self) -> None:
        self.readings.append(self._reading())


def test_a_plan_rests_on_a_gpu_that_never_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A profile measured while the GPU is cool says what a queue that never ends is served in once it is not."""
    Clock().drive(monkeypatch)
    batch, kernels, kernel_s = 2, 4, 3e-3
    settings = Settings()
    built = chain(kernels)
    with cuda.imitated(kernel_s=kernel_s, capped_after_s=2.0) as gpu:
        device = opened()
        outcomes = []
        for what in (What.MEMORY, What.LATENCY, What.SOAK):
            point = Point(what=what, model="chain", batch=batch, settings=settings)
            values, samples, details = measure(
                built, device, point, replace(QUICK, seconds=2.0 if what is What.SOAK else QUICK.seconds)
            )
            outcomes.append(
                PointOutcome(point=point, status=Status.OK, values=values, samples=samples, details=details)
            )
        assert gpu.is_capped
        with on_device(built, device, settings) as model:
            run = model.runner(model.inputs(batch))
            served = [device.timer().time(run).wall_s for _ in range(20)]
    provenance = {"gpu": "H100", "date": "2026-11-25T00:00:00+00:00"}
    raw = profile_json(Measured("chain", settings, provenance, {one.point.key: one for one in outcomes}, {}))
    assert raw is not None
    alone_s = median(outcomes[1].samples["wall_s"])
    assert alone_s < 1.25 * kernels * kernel_s <= raw["latency_s"][str(batch)]
    assert raw["latency_s"][str(batch)] == pytest.approx(median(served), rel=0.1)
    assert raw["assumptions"], "it says so"


def beside_clock(look_s: float, kernel_s: float, place: Path) -> Profile:
    """The profile of a model of forty kernels, measured beside a host that takes `look_s` for everything it does."""
    with pytest.MonkeyPatch.context() as patch, cuda.imitated(kernel_s=kernel_s):
        Clock(look_s).drive(patch)
        patch.setattr("calibrate.sweep.rates.ROW_S", 0.05)
        device, built, outcomes = opened(), chain(40), []
        for what in (What.MEMORY, What.LATENCY):
            point = Point(what=what, model="chain", batch=2)
            figures = measure(built, device, point, QUICK)
            outcomes.append(PointOutcome(point=point, status=Status.OK, **figures._asdict()))
    provenance = {"gpu": "H100", "memory_bytes": 85_000_000_000, "date": "2026-11-25T00:00:00+00:00"}
    assemble.write(outcomes, Header(provenance=provenance, seed=1), place)
    (found,) = find_profiles([place], load_catalog().gpus).for_model("chain")
    return found


@pytest.mark.parametrize("kernel_s", [5e-6, 1e-4, 1e-3])
def test_a_profile_moves_to_a_host_of_half_the_speed(kernel_s: float, tmp_path: Path) -> None:
    """Bound by the host, by one or the other, by kernels: what is carried over is what is measured there."""
    usual, slow = (beside_clock(look_s, kernel_s, tmp_path / f"{look_s}") for look_s in (1e-5, 2e-5))
    assert beside_host(usual, 0.5).latency(2) == pytest.approx(slow.latency(2), rel=0.1)
    bound = usual.host_s(2) > usual.busy_s(2)
    assert (slow.latency(2) > 1.5 * usual.latency(2)) >= bound


# Regimes


REGIMES = [
    ("torch", (False, True, "torch.float32")),
    ("fp32", (False, False, "torch.float32")),
    ("tf32", (True, True, "torch.float32")),
    ("amp", (False, False, "torch.float32")),
    ("amp-bf16", (False, False, "torch.float32")),
    ("bf16", (False, False, "torch.bfloat16")),
    ("fp16", (False, False, "torch.float16")),
]


@pytest.mark.parametrize(("precision", "seen"), REGIMES)
def test_every_point_says_its_regime(gpu: cuda.Gpu, precision: str, seen: tuple[bool, bool, str]) -> None:
    built = chain(1)
    regime = latency(built, opened(), precision=precision).details["regime"]
    assert set(Chain.seen) == {seen}
    assert (regime["products"] == "tf32", regime["convolutions"] == "tf32") == seen[:2]
    assert (regime["name"], regime["runtime"]) == (precision, "pytorch")
    casts = {"amp": torch.float16, "amp-bf16": torch.bfloat16}
    assert set(gpu.autocasts) == {casts[precision]} if precision in casts else not gpu.autocasts
    assert built.module.weight.dtype == torch.float32


def test_a_graph_leaves_the_host_little_to_do() -> None:
    with cuda.imitated(kernel_s=1e-6) as gpu:
        device = opened()
        eager, graph = (latency(chain(100), device, cuda_graph=on) for on in (False, True))
        assert graph.details["regime"]["runtime"] == "cuda-graphs"
        assert graph.values["busy_s"] == pytest.approx(eager.values["busy_s"], rel=0.02)
        assert graph.values["host_s"] < eager.values["host_s"] / 10
        assert gpu.capturing is None
        held = measure(chain(1), device, Point(what=What.MEMORY, batch=8, settings=Settings(cuda_graph=True)), QUICK)
    assert held.values["allocated_bytes"] >= 2 * 8 * 4 * 4


def short(monkeypatch: pytest.MonkeyPatch, built: Built, **changed: Any) -> ShortTraining:
    monkeypatch.setattr("calibrate.sweep.short_training.build", lambda *_: built)
    usual = ShortTraining(
        model="chain",
        device="cuda:0",
        batch=4,
        samples=8,
        optimizer="sgd",
        precision="fp32",
        resolution=None,
        input_shape=None,
        seconds=0.05,
        threads=None,
    )
    return replace(usual, **changed)


@pytest.mark.parametrize(("precision", "seen"), REGIMES)
def test_the_steps_of_train_measure_are_those_of_calibration(
    gpu: cuda.Gpu, monkeypatch: pytest.MonkeyPatch, precision: str, seen: tuple[bool, bool, str]
) -> None:
    """One arithmetic for the steps that are measured and the epoch that is trained; the copy a term of its own."""
    trained = train(short(monkeypatch, chain(1), precision=precision))
    assert set(Chain.seen) == {seen}
    assert trained.copy_s > 0
    assert trained.predicted_s >= trained.steps * (trained.step_s + trained.copy_s)
    casts = {"amp": torch.float16, "amp-bf16": torch.bfloat16}
    assert set(gpu.autocasts) == ({casts[precision]} if precision in casts else set())


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        assert left.dtype == self.weight.dtype
        return left * self.weight + right[:, None]


@pytest.mark.parametrize(("form", "workers"), [(tuple, 1), (dict, 0)])
def test_train_measure_feeds_whatever_a_factory_gives(
    gpu: cuda.Gpu, monkeypatch: pytest.MonkeyPatch, form: type, workers: int
) -> None:
    """Several inputs by place or by name, whole numbers among them, one loss of its own; all on the device."""
    fed = []

    def make_input(batch: int, device: str) -> Any:
        parts = {"left": torch.rand(batch, 4, device=device), "right": torch.arange(batch, device=device)}
        return parts if form is dict else tuple(parts.values())

    def loss(module: Any, inputs: Any) -> torch.Tensor:
        parts = inputs if isinstance(inputs, dict) else dict(zip(("left", "right"), inputs, strict=True))
        fed.append({name: (part.device.type, len(part)) for name, part in parts.items()})
        return module(**parts).square().mean()

    built = Built("two", TwoInputs(), (), ZooTask.OTHER, hooks=Hooks(make_input=make_input, loss=loss))
    trained = train(short(monkeypatch, built, precision="bf16", workers=workers))
    assert trained.steps == 2
    assert fed
    assert all(one == {"left": ("cuda", 4), "right": ("cuda", 4)} for one in fed)


def test_what_cannot_be_trained_is_refused(gpu: cuda.Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    built = Built("engine", Opaque(lambda x: x), (4,), ZooTask.OTHER)
    with pytest.raises(ValueError, match="is not trained"):
        train(short(monkeypatch, built))


def test_probes_and_traced_times_have_the_arithmetic_of_calibration(
    gpu: cuda.Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = chain(1)
    monkeypatch.setattr(tracing, "SECONDS_A_BATCH", 0.05)
    tracing.times(built, "cuda:0", [1])
    assert {seen[:2] for seen in Chain.seen} == {(False, False)}
    products = []
    mm = torch.mm

    def noted(*args: Any, **kwargs: Any) -> Any:
        backends: Any = torch.backends
        products.append((args[0].dtype, backends.cuda.matmul.allow_tf32))
        return mm(*args, **kwargs)

    monkeypatch.setattr(torch, "mm", noted)
    for precision in ("fp32", "tf32"):
        probes._product_s(torch.device("cuda:0"), precision, 8, 0.01)
    assert set(products) == {(torch.float32, False), (torch.float32, True)}


# What a step does, and what is held


def test_the_boxes_of_a_detector_are_made_where_the_pictures_are(gpu: cuda.Gpu) -> None:
    class Detector(nn.Module):
        def forward(self, pictures: Any, targets: Any) -> dict[str, torch.Tensor]:
            return {"loss": sum(target["boxes"].sum() for target in targets)}

    built = Built("detector", Detector(), (3, 8, 8), ZooTask.DETECTION)
    pictures = built.make_input(3, "cuda:0", Settings())
    gpu.syncs.clear()
    built.loss(built.module, pictures)
    assert gpu.syncs == [], "each copy is a wait"


@pytest.mark.parametrize("shares", [True, False])
def test_memory_is_of_tensors_of_the_allocator_and_of_the_context(shares: bool) -> None:
    with cuda.imitated(reads=("processes",) if shares else ()) as gpu:
        device = opened()
        assert device.context_bytes == gpu.knobs.context_bytes
        values = measure(chain(2), device, Point(what=What.MEMORY, model="chain", batch=100_000), QUICK).values
        assert values["weights_bytes"] == 16
        assert values["allocated_bytes"] >= 16 + 3 * 16 * 100_000
        assert values["reserved_bytes"] >= values["allocated_bytes"]
        besides = values["device_bytes"] - values["reserved_bytes"]
        assert besides == gpu.knobs.context_bytes + gpu.knobs.kernels_bytes, "after use, not before"
        assert gpu.allocated == 0, "nothing is left"


def test_memory_ends_and_what_was_held_is_given_back() -> None:
    with cuda.imitated(memory_bytes=600 << 20) as gpu:
        device = opened()
        point = Point(what=What.LATENCY, model="chain", batch=4_000_000)
        with pytest.raises(RuntimeError, match="chain/latency/4000000/fp32: out of memory: CUDA out of memory"):
            measure(chain(2), device, point, QUICK)
        assert gpu.allocated == 0


def test_half_precision_makes_no_copy_where_the_weights_are_so_already(
    gpu: cuda.Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("copied")

    monkeypatch.setattr("copy.deepcopy", refuse)
    built, device = chain(1), opened()
    built.module.to("cuda:0", torch.float16)
    values = measure(built, device, Point(what=What.MEMORY, batch=1, settings=Settings(precision="fp16")), QUICK).values
    assert values["weights_bytes"] == 8
    assert built.module.weight.device.type == "cuda", "it stays there"


def test_it_is_compiled_once_for_memory_and_time_of_a_batch(gpu: cuda.Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []

    class Compiled(nn.Module):
        """Compiles anew for each size of batch, as torch does where sizes are fixed."""

        def __init__(self, module: Any) -> None:
            super().__init__()
            self.module = module
            self.sizes: set[Any] = set()

        def forward(self, x: torch.Tensor) -> Any:
            if x.shape not in self.sizes:
                compiled.append(len(x))
            self.sizes.add(x.shape)
            return self.module(x)

    monkeypatch.setattr(torch.compiler, "reset", lambda: None)
    monkeypatch.setattr(torch, "compile", lambda module, **_: Compiled(module))
    built, device = chain(1), opened()
    for what in (What.MEMORY, What.LATENCY):
        for batch in (1, 2):
            found = measure(built, device, Point(what=what, batch=batch, settings=Settings(compile=True)), QUICK)
            assert found.details["regime"]["runtime"] == "torch-compile"
    assert compiled == [1, 2]


# The device


@pytest.mark.parametrize("hidden_uuid", [False, True])
def test_provenance_and_probes_know_the_gpu_whatever_torch_tells(hidden_uuid: bool) -> None:
    with cuda.imitated(hidden_uuid=hidden_uuid):
        known = provenance.read(find_device("cuda:0"))
        assert probes._nvml(torch.device("cuda:0")).there
    assert (known["gpu"], known["driver"], known["power_limit_w"]) == ("H100", "580.65.06", 700.0)
    assert (known["ecc"], known["persistence"], known["pcie_link"]) == (True, True, "5.0 x16")


ENVIRONMENT = (
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF",
    "NVIDIA_TF32_OVERRIDE",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
)


@pytest.mark.parametrize("name", ENVIRONMENT)
def test_provenance_knows_what_the_environment_changes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with cuda.imitated():
        device = find_device("cuda:0")
        usual = provenance.read(device)
        monkeypatch.setenv(name, "1")
        assert provenance.differing(usual, provenance.read(device)) == (name.lower(), None, "1")


@pytest.mark.parametrize("name", ["CUDA_LAUNCH_BLOCKING", "NVIDIA_TF32_OVERRIDE"])
def test_doctor_looks_at_a_gpu_and_at_what_would_distort_all_figures(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    FIRST_OPENING.clear()
    with cuda.imitated():
        well = {finding.name: finding.health for finding in diagnose("cuda:0", tmp_path)}
        monkeypatch.setenv(name, "1")
        warned = [finding for finding in diagnose("cuda:0", tmp_path) if finding.name == "environment"]
    for looked_at in ("device", "kernels", "driver", "memory", "processes", "clocks", "partition"):
        assert well[looked_at] is Health.OK
    assert "environment" not in well
    assert [finding.health for finding in warned] == [Health.WARN]


@pytest.mark.parametrize("name", [name for name in probes.PROBES if name not in ("context", "loader")])
def test_probes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "COPIED_BYTES", (4096, 16384, 65536, 262144, 1 << 20))
    monkeypatch.setattr("calibrate.devices.knees.LARGEST_BYTES", {"cuda": 1 << 18})
    monkeypatch.setattr("calibrate.devices.knees.TOUCHED_BYTES", {"cuda": 1 << 18})
    monkeypatch.setattr("calibrate.devices.host.CLIP_FRAMES", 3)
    product_s = probes._product_s
    monkeypatch.setattr(probes, "_product_s", lambda device, precision, n, s: product_s(device, precision, n // 16, s))
    with cuda.imitated(memory_bytes=1 << 30, kernel_s=1e-5):
        values, _, details = probes.run(name, "cuda:0", 0.05)
    expected = {"copy": 8, "matmul": 4, "launch": 2, "knees": 2, "device_copy": 1, "links": 0, "idle": 2}
    expected["host"] = 10 if find_spec("av") else 8
    assert len(values) == expected[name], details


def test_what_swapping_costs_is_measured_on_a_gpu(gpu: cuda.Gpu) -> None:
    found = swap_times(["lenet"], opened(), Settings(), [1], rounds=2)["lenet"]
    assert len(found.after_s[1]) == 2
    assert min(found.resident_s[1]) >= 8 * KERNEL_S
    assert found.batch_ratio >= 1
    assert len(found.usual_load_s) >= 2


# Whole sweeps, in processes of their own


def swept(place: Path, *arguments: str, **knobs: Any) -> tuple[int, str]:
    """Exit code and messages of a calibration of the GPU."""
    held = place / "held"
    held.mkdir(exist_ok=True)
    env = os.environ | cuda.environment(folder=str(held), **knobs) | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "calibrate", "--device", "cuda:0", "--seconds", "0.05", *arguments]
    with forking():
        done = subprocess.run(command, cwd=place, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stderr


def test_a_sweep_of_a_gpu(tmp_path: Path) -> None:
    code, said = swept(
        tmp_path,
        *("--models", "lenet", "--batches", "4", "--mode", "inference,training", "--optimizers", "sgd"),
        *("--precision", "torch", "--soak", "0.1", "--memory-log", "memory.csv"),
    )
    assert code == 0, said
    _, outcomes = read_journal(tmp_path / "profiles/H100/journal.jsonl")
    assert {outcome.status for outcome in outcomes} == {"ok"}, said
    assert [outcome.point.what for outcome in outcomes][:3] == ["layers", "load", "memory"]
    assert {outcome.point.what for outcome in outcomes} == {*What} - {What.PROBE}
    raw = json.loads((tmp_path / "profiles/H100/lenet.torch.json").read_text())
    assert (raw["precision"], raw["gpu"]) == ("torch", "H100")
    assert raw["context_bytes"] >= 500 << 20
    assert (tmp_path / "memory.csv").read_text().count("\n") > 2


GPU_ALONE = """
import torch

class Flash(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(8, 8))

    def forward(self, x):
        if x.device.type != "cuda" or x.dtype != torch.float16:
            raise RuntimeError("needs fp16 on a GPU")
        return x @ self.weight
"""


def test_a_model_for_gpus_alone_is_never_run_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(GPU_ALONE)
    asked = ("--model", "mine:Flash", "--input", "8", "--batches", "1", "--mode", "inference", "--precision", "fp16")
    code, said = swept(tmp_path, *asked)
    assert code == 0, said
    assert (tmp_path / "profiles/H100/mine.Flash.8.fp16.json").exists()


def test_opened_twice_the_context_is_that_of_the_first(gpu: cuda.Gpu) -> None:
    first = opened()
    measure(chain(2), first, Point(what=What.MEMORY, batch=1), QUICK)  # libraries load their kernels
    again = find_device("cuda:0")
    again.open()
    assert again.context_bytes == first.context_bytes
    model = MeasuredModel(chain(1), chain(1).module.to("cuda:0"), first, Settings())
    assert model.inputs(3).device.type == "cuda"


def test_the_zoo_is_made_on_the_gpu(gpu: cuda.Gpu) -> None:
    opened()
    built = build("lenet", place="cuda:0")
    assert {parameter.device.type for parameter in built.module.parameters()} == {"cuda"}
    assert gpu.syncs == [], "made there, not copied"
