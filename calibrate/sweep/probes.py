"""Probes: what a device can do without any model: copies, arithmetic, launches, loading, context, idle power.

A probe takes a device and the seconds it should keep to (no figure is left out for want of time, so a very short time
is exceeded), and returns single values, raw samples and details. What they mean stands in each probe's docstring.
`calibrate.sweep.agenda` lists them. Needs torch.
"""

import io
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from itertools import permutations
from statistics import median
from typing import Any

import numpy as np
import torch

from calibrate.devices.host import host
from calibrate.devices.knees import knees
from calibrate.devices.memory_log import tree_rss_bytes
from calibrate.devices.nvml import Nvml, of_cuda
from calibrate.devices.regime import in_regime
from calibrate.devices.timer import CpuTimer, CudaTimer, Repeats, StopRule, repeat
from calibrate.io.points import COPIED_BYTES, WORKERS_MAX, Figures, Settings
from calibrate.library.fit import fit_load
from simulator.machine_code import cores

SIZES_AT_LEAST = 5
REPEATS_MIN = 5
REPEATS_MAX = 100
PICTURES_A_BATCH = 16

Work = Callable[[], object]


def run(name: str, device: str, seconds: float) -> Figures:
    """The probe `name` on `device`, e.g. `cuda:0`, in about `seconds`."""
    on = torch.device(device)
    if on.type == "cpu" or name in AT_REST:  # to choose a GPU is to make a context on it
        return PROBES[name](on, seconds)
    with torch.cuda.device(on):
        _wake(on)
        result = PROBES[name](on, seconds)
        torch.cuda.empty_cache()
    return result


# Copies


def copy(device: torch.device, seconds: float) -> Figures:
    """Copies between host and device by size, each until it has arrived (wall clock, s).

    Values, for each of `to_device_pinned`, `to_device_pageable`, `from_device_pinned`, `from_device_pageable` (on the
    CPU: `host`, memory to memory): `<way>_t0_s` and `<way>_bytes_per_s` of the line fitted through the medians.
    """
    values: dict[str, float] = {}
    samples: dict[str, list[float]] = {}
    for way, times in _copy_times(device, seconds).items():
        fit = fit_load((size, median(taken)) for size, taken in times.items())
        values[f"{way}_t0_s"] = fit.load.t0_s
        values[f"{way}_bytes_per_s"] = fit.load.bytes_per_s
        samples |= {f"{way}_{size}_s": taken for size, taken in times.items()}
    return Figures(values, samples, {})


def _copy_times(device: torch.device, seconds: float) -> dict[str, dict[int, list[float]]]:
    """Times (s) by way and bytes."""
    end = time.perf_counter() + seconds
    times: dict[str, dict[int, list[float]]] = {}
    for index, size in enumerate(COPIED_BYTES):
        # Small copies leave most of their share of the time to the large ones.
        share_s = (end - time.perf_counter()) / (len(COPIED_BYTES) - index)
        if share_s <= 0 and index >= SIZES_AT_LEAST:
            break
        ways = _ways(device, size)
        for way, work in ways.items():
            times.setdefault(way, {})[size] = _wall_s(work, device, max(share_s, 0.0) / len(ways) / 2)
    return times


def _ways(device: torch.device, size_bytes: int) -> dict[str, Work]:
    pageable = _random_bytes(size_bytes)
    if device.type == "cpu":
        target = torch.empty_like(pageable)
        return {"host": lambda: target.copy_(pageable)}
    there = pageable.to(device)
    pinned, pageable_back = pageable.pin_memory(), torch.empty_like(pageable)
    pinned_back = torch.empty_like(pageable, pin_memory=True)
    return {
        "to_device_pinned": lambda: there.copy_(pinned, non_blocking=True),
        "to_device_pageable": lambda: there.copy_(pageable),
        "from_device_pinned": lambda: pinned_back.copy_(there, non_blocking=True),
        "from_device_pageable": lambda: pageable_back.copy_(there),
    }


def device_copy(device: torch.device, seconds: float) -> Figures:
    """Copies within the device's memory, of a size no cache holds. Value: `bytes_per_s`, reads and writes counted."""
    size, rounds = (1 << 30, 8) if device.type == "cuda" else (1 << 28, 1)
    if device.type == "cuda":
        size = min(size, torch.cuda.mem_get_info(device)[0] // 4 // 4096 * 4096)
    source = _random_bytes(size, device)
    target = torch.empty_like(source)

    def work() -> None:
        for _ in range(rounds):
            target.copy_(source)

    taken = [s / rounds for s in _device_s(work, device, seconds)]
    return Figures({"bytes_per_s": 2 * size / median(taken)}, {"copy_s": taken}, {})


def links(device: torch.device, seconds: float) -> Figures:
    """Copies between every two GPUs. Values: `gpu<i>_to_gpu<j>_bytes_per_s`."""
    pairs = list(permutations(range(torch.cuda.device_count()), 2))
    if not pairs:
        return Figures({}, {}, {"left_out": "there is one GPU only"})
    size = COPIED_BYTES[-1]
    values, samples = {}, {}
    for i, j in pairs:
        source = _random_bytes(size, torch.device("cuda", i))
        target = torch.empty_like(source, device=torch.device("cuda", j))
        way = f"gpu{i}_to_gpu{j}"
        copying = partial(target.copy_, source, non_blocking=True)
        samples[f"{way}_s"] = _wall_s(copying, source.device, seconds / len(pairs))
        values[f"{way}_bytes_per_s"] = size / median(samples[f"{way}_s"])
    return Figures(values, samples, {})


# Arithmetic and launches


def matmul(device: torch.device, seconds: float) -> Figures:
    """Products of square matrices. Values: `<precision>_flops`, the best rate of all sizes (a multiply-add is 2)."""
    precisions = _precisions(device)
    sizes = (1024, 2048, 4096, 8192) if device.type == "cuda" else (256, 512, 1024)
    values, samples = dict[str, float](), dict[str, list[float]]()
    for precision in precisions:
        share_s = seconds / len(precisions)
        for n in sizes:
            taken = _product_s(device, precision, n, share_s / len(sizes))
            samples[f"{precision}_{n}_s"] = taken
            values[f"{precision}_flops"] = max(2 * n**3 / median(taken), values.get(f"{precision}_flops", 0))
            if 8 * REPEATS_MIN * median(taken) > share_s:
                break  # the next size takes eight times as long
    return Figures(values, samples, {})


def _precisions(device: torch.device) -> tuple[str, ...]:
    """Those the device computes itself; tf32 and bf16 came with compute capability 8.0."""
    if device.type == "cpu":
        return ("fp32", "bf16", "fp16")
    return ("fp32", "tf32", "bf16", "fp16") if torch.cuda.get_device_capability(device) >= (8, 0) else ("fp32", "fp16")


def _product_s(device: torch.device, precision: str, n: int, seconds: float) -> list[float]:
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision, torch.float32)
    a, b = (torch.randn(n, n, device=device).to(dtype) for _ in range(2))
    out = torch.empty_like(a)
    with in_regime(Settings(precision="tf32" if precision == "tf32" else "fp32")):
        return _device_s(lambda: torch.mm(a, b, out=out), device, seconds)


def launch(device: torch.device, seconds: float) -> Figures:
    """The smallest operation there is: adding to one number (wall clock, s).

    Values: `queued_s`, each of 500 operations issued one after another (on a GPU fewer than its queue holds, so the
    larger of issuing and running one kernel); `synchronised_s`, one operation until the device is done.
    """
    number = torch.rand(1, device=device)
    count = 500

    def many() -> None:
        for _ in range(count):
            number.add_(1.0)

    queued = [s / count for s in _wall_s(many, device, seconds / 2)]
    single = _wall_s(lambda: number.add_(1.0), device, seconds / 2)
    values = {"queued_s": median(queued), "synchronised_s": median(single)}
    return Figures(values, {"queued_s": queued, "synchronised_s": single}, {})


# Loading data


class EndlessPictures:
    """Endless work of a data loader: a JPEG of 500x375 pixels is decoded, cropped, resized to 224 and normalised.

    Without pillow: a random crop of a tensor, resized and normalised.
    """

    def __init__(self) -> None:
        self.jpeg = _jpeg() if find_spec("PIL") else None
        self.raw = np.random.default_rng(1).integers(0, 256, (3, 375, 500), dtype=np.uint8)

    def __len__(self) -> int:
        return 1 << 40

    def __getitem__(self, index: int) -> torch.Tensor:
        left, top = index % 100, index % 50
        if self.jpeg is None:
            cropped = torch.from_numpy(self.raw[:, top : top + 300, left : left + 300]).float()[None]
            return torch.nn.functional.interpolate(cropped, 224, mode="bilinear")[0] / 255 - 0.5
        from PIL import Image

        with Image.open(io.BytesIO(self.jpeg)) as picture:
            cut = picture.resize((224, 224), Image.Resampling.BILINEAR, (left, top, left + 300, top + 300))
        return torch.from_numpy(np.asarray(cut).copy()).permute(2, 0, 1).float() / 255 - 0.5


def loader(device: torch.device, seconds: float) -> Figures:
    """Pictures a second through a `DataLoader` by number of workers: 0, 1, 2, 4 ... up to the cores.

    Values: `workers_<n>_samples_per_s`. Samples: `workers_<n>_batch_s`, the time between two batches of 16 pictures.
    """
    most = min(cores(), WORKERS_MAX)
    counts = sorted({0, most, *(2**i for i in range(most.bit_length()))})
    pictures = EndlessPictures()
    values, samples = {}, {}
    details = {"work": "tensor crop and resize" if pictures.jpeg is None else "JPEG decode and resize"}
    for workers in counts:
        try:
            taken = _batch_s(pictures, workers, seconds / len(counts))
        except RuntimeError as error:  # a small /dev/shm kills workers
            details["left_out"] = f"{workers} workers could not be had ({str(error).splitlines()[0]})"
            break
        samples[f"workers_{workers}_batch_s"] = taken
        values[f"workers_{workers}_samples_per_s"] = PICTURES_A_BATCH * len(taken) / sum(taken)
    return Figures(values, samples, details)


def _batch_s(pictures: EndlessPictures, workers: int, seconds: float) -> list[float]:
    """Times between batches (s), once every worker has delivered."""
    from torch.utils.data import DataLoader

    data: Any = pictures  # has all that a map-style dataset needs; to be one it would have to import torch
    with warnings.catch_warnings():
        # Python warns of fork beside threads; workers never touch what threads hold.
        warnings.filterwarnings("ignore", ".*fork.*", DeprecationWarning)
        batches = iter(DataLoader(data, PICTURES_A_BATCH, num_workers=workers, timeout=60 if workers else 0))
        for _ in range(workers + 1):
            next(batches)
    taken: list[float] = []
    start = before = time.perf_counter()
    while before - start < seconds or len(taken) < REPEATS_MIN:
        next(batches)
        now = time.perf_counter()
        taken.append(now - before)
        before = now
    return taken


def _jpeg() -> bytes:
    """A picture with the usual mix of smooth and rough parts: noise alone decodes far slower than any photo."""
    from PIL import Image

    random = np.random.default_rng(1)
    coarse = Image.fromarray(random.integers(0, 256, (12, 16, 3), dtype=np.uint8))
    smooth = np.asarray(coarse.resize((500, 375), Image.Resampling.BICUBIC), dtype=float)
    rough = np.clip(smooth + random.normal(0, 12, smooth.shape), 0, 255).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(rough).save(file, "JPEG", quality=90)
    return file.getvalue()


# Context and idle power

EMPTY_PROCESS = """
import sys, torch
torch.rand(1, device=sys.argv[1])
if sys.argv[1] != "cpu":
    torch.cuda.synchronize(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
"""


def context(device: torch.device, seconds: float) -> Figures:
    """Memory of a process before there is any model: the rise as one starts that only makes one number.

    Values on a GPU: `lazy_bytes` and `eager_bytes` (kernels loaded when first used, or all at once), of the whole
    device's memory (NVML), so nothing else may start or end meanwhile. On the CPU: `rss_bytes` of the process.
    """
    if device.type == "cpu":
        held = [_held_bytes(device, "")]
        return Figures({"rss_bytes": median(held)}, {"rss_bytes": held}, {})
    start, samples = time.perf_counter(), dict[str, list[float]]()
    while not samples or time.perf_counter() - start < seconds:
        for mode in ("LAZY", "EAGER"):
            samples.setdefault(f"{mode.lower()}_bytes", []).append(_held_bytes(device, mode))
    return Figures({key: median(held) for key, held in samples.items()}, samples, {})


def _held_bytes(device: torch.device, mode: str) -> float:
    """Memory that a process of its own takes to exist, in bytes."""
    before = _used_bytes(device, None)
    child = subprocess.Popen(
        [sys.executable, "-c", EMPTY_PROCESS, str(device)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | ({"CUDA_MODULE_LOADING": mode} if mode else {}),
    )
    with child:
        assert child.stdout
        assert child.stderr
        try:
            if child.stdout.readline() != "ready\n":
                raise RuntimeError(f"context: the process did not start: {child.stderr.read().strip()[-200:]}")
            return float(_used_bytes(device, child.pid) - before)
        finally:
            child.kill()


def _used_bytes(device: torch.device, pid: int | None) -> int:
    """Memory held on the device; on the CPU that of process `pid` (None: of none)."""
    if device.type == "cpu":
        return 0 if pid is None else tree_rss_bytes(pid)
    used = _nvml(device).memory_used_bytes()
    if used is None:
        raise RuntimeError("context: the device's memory cannot be read. Install nvidia-ml-py")
    return used


def idle(device: torch.device, seconds: float) -> Figures:
    """Power (W) while nothing runs, as NVML tells it every 50 ms.

    Values: `power_w`, while this process holds a context; `bare_power_w`, before that, if it had put
    nothing on the device when the probe began.
    """
    nvml, samples = _nvml(device), dict[str, list[float]]()
    if not torch.cuda.memory_reserved(device):
        samples["bare_power_w"] = _power_w(nvml, max(1.0, seconds / 2))
    torch.rand(1, device=device)
    _synchronise(device)
    # The clocks fall some time after the last kernel, and the power told is a mean over up to a second.
    time.sleep(2.0)
    samples["power_w"] = _power_w(nvml, max(1.0, seconds / 2))
    read = {key: taken for key, taken in samples.items() if taken}
    details = {} if read else {"left_out": nvml.why_not or "this GPU does not tell its power"}
    return Figures({key: median(taken) for key, taken in read.items()}, read, details)


def _power_w(nvml: Nvml, seconds: float) -> list[float]:
    end, read = time.perf_counter() + seconds, list[float]()
    while len(read) < REPEATS_MIN or time.perf_counter() < end:
        if (power_w := nvml.power_w()) is None:
            return []
        read.append(power_w)
        time.sleep(0.05)
    return read


def _nvml(device: torch.device) -> Nvml:
    """Does not wake the device: asking its properties makes no context."""
    return of_cuda(torch.cuda.get_device_properties(device))


# Taking times


def _wall_s(work: Work, device: torch.device, seconds: float) -> list[float]:
    """Wall clock (s) of `work` until the device is done."""
    return list(_repeats(work, device, seconds).wall_s)


def _device_s(work: Work, device: torch.device, seconds: float) -> list[float]:
    """As `_wall_s`, but on a GPU between two marks on the device itself: without the way there and back."""
    repeats = _repeats(work, device, seconds)
    return list(repeats.device_s or repeats.wall_s)


def _repeats(work: Work, device: torch.device, seconds: float) -> Repeats:
    timer = CudaTimer(device.index or 0) if device.type == "cuda" else CpuTimer()
    warm_up_s = min(0.2, seconds / 4)
    return repeat(timer, work, StopRule(seconds=seconds, at_most=REPEATS_MAX, warm_up_s=warm_up_s, warm_up_runs=1))


def _wake(device: torch.device) -> None:
    """Keeps a GPU busy until its clocks are up: at rest both they and the PCIe link are slowed down."""
    a = torch.randn(2048, 2048, device=device)
    end = time.perf_counter() + 0.3
    while time.perf_counter() < end:
        torch.mm(a, a)
        _synchronise(device)


def _synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _random_bytes(size_bytes: int, device: torch.device | str = "cpu") -> torch.Tensor:
    """Random, because links and memories may treat zeros specially."""
    return torch.empty(size_bytes // 8, dtype=torch.int64, device=device).random_()


PROBES: Mapping[str, Callable[[torch.device, float], Figures]] = {
    "idle": idle,
    "context": context,
    "copy": copy,
    "device_copy": device_copy,
    "matmul": matmul,
    "launch": launch,
    "knees": knees,
    "loader": loader,
    "host": host,
    "links": links,
}
AT_REST = ("idle", "context")
"""Probes of a GPU as it is found; for all others its clocks and its link to the host are brought up first."""
