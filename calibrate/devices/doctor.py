"""Doctor: is everything there to measure a device, and what to do where it is not. Needs neither torch nor a GPU."""

import importlib
import importlib.util
import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType

from calibrate.devices.device import Cuda, DeviceError, find_device
from calibrate.devices.nvml import OVERHEATED, Nvml
from calibrate.devices.provenance import MIG, kind_of, kind_of_cpu
from calibrate.io.process import BUSY_SHARE, ONE_THREAD, busy_share
from simulator.machine_code import cores

DISK_BYTES = 2_000_000_000
"""Loading from disk is measured on a copy of the weights: 0.6 GB for the largest model of the zoo."""
HELD_SHARE = 0.03
"""Share of a GPU's memory that the driver itself holds while no process uses the GPU."""
DISTORTING = {
    "CUDA_LAUNCH_BLOCKING": "the host waits for every kernel, so all times are wrong",
    "NVIDIA_TF32_OVERRIDE": "no regime is what its name says",
}
"""Variables of the environment, and what they do to figures."""


class Health(StrEnum):
    """The meaning of a finding."""

    OK = "ok"
    WARN = "warn"
    """Measuring works, but something is left out or disturbed."""
    FAIL = "fail"
    """Measuring does not work."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at."""

    name: str
    health: Health
    text: str
    remedy: str = ""
    """Empty where all is well."""


def diagnose(device: str, out: Path) -> list[Finding]:
    """All that measuring `device` into `out` needs, in the order in which to put it right."""
    return [finding for check in CHECKS for finding in _safely(check, device, out)]


def render(findings: Sequence[Finding]) -> str:
    """A line for each: `ok   torch        2.13.0, for CUDA 13.0`."""
    lines = []
    for finding in findings:
        remedy = f". {finding.remedy}" if finding.remedy else ""
        lines.append(f"{finding.health:<4} {finding.name:<12} {finding.text}{remedy}")
    return "\n".join(lines)


def exit_code(findings: Sequence[Finding]) -> int:
    """0 where the device can be measured, warnings or not; 2 where something failed."""
    return 2 if any(finding.health is Health.FAIL for finding in findings) else 0


def _safely(check: Callable[[str, Path], Iterator[Finding]], device: str, out: Path) -> list[Finding]:
    """A broken installation may raise anything; what was found before it did is kept."""
    found: list[Finding] = []
    try:
        for finding in check(device, out):
            found.append(finding)
    except Exception as error:
        name = check.__name__.lstrip("_")
        found.append(Finding(name, Health.FAIL, f"cannot be looked at ({_in_a_line(error)})", "Repair what it names"))
    return found


# Software


def _python(device: str, out: Path) -> Iterator[Finding]:
    yield Finding("python", Health.OK, f"{platform.python_version()} on {platform.platform(terse=True)}")


def _torch(device: str, out: Path) -> Iterator[Finding]:
    torch = _import("torch")
    if isinstance(torch, str):
        yield Finding("torch", Health.FAIL, torch, "pip install torch")
        return
    built, rocm = torch.version.cuda, getattr(torch.version, "hip", None)
    platform_name = f"CUDA {built}" if built else f"ROCm {rocm} (GPUs of AMD)" if rocm else "CPUs only"
    text = f"{torch.__version__}, for {platform_name}"
    if device.startswith("cuda") and built is None:
        remedy = "GPUs of AMD are not measured: measure --device cpu, or a GPU of NVIDIA with torch for CUDA"
        missing = "Install a torch that is built for CUDA, or measure --device cpu"
        yield Finding("torch", Health.FAIL, text, remedy if rocm else missing)
    else:
        yield Finding("torch", Health.OK, text)


def _packages(device: str, out: Path) -> Iterator[Finding]:
    """Those that measuring does without, and what is lost."""
    lost = {
        "torchvision": ("its models cannot be measured", "torchvision"),
        "transformers": ("BERT cannot be measured", "transformers"),
        "PIL": ("data loading is measured without decoding pictures", "pillow"),
        "matplotlib": ("nothing is drawn", "matplotlib"),
    }
    for name, (loss, package) in lost.items():
        module = _import(name)
        if not isinstance(module, str):
            yield Finding(package, Health.OK, _version(package))
        elif importlib.util.find_spec(name):
            remedy = f"Install the release of {package} that belongs to the torch that is here"
            yield Finding(package, Health.WARN, f"{module}: {loss}", remedy)
        else:
            yield Finding(package, Health.WARN, f"is not installed: {loss}", f"pip install {package}")


def _import(name: str) -> ModuleType | str:
    """The module, or why it does not come: a torchvision built for another torch raises RuntimeError."""
    try:
        return importlib.import_module(name)
    except (ImportError, RuntimeError, OSError) as error:
        absent = isinstance(error, ModuleNotFoundError) and error.name == name
        return "is not installed" if absent else f"does not start ({_in_a_line(error)})"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "is there"


# The device


def _device(device: str, out: Path) -> Iterator[Finding]:
    """The device itself; for a GPU the driver and all that NVML tells."""
    try:
        found = find_device(device)
    except DeviceError as error:
        yield Finding("device", Health.FAIL, error.what, error.remedy)
        if device.startswith("cuda"):
            yield _driver_alone()
        return
    if isinstance(found, Cuda):
        yield from _gpu(found)
    else:
        kind = kind_of_cpu(found.name)
        yield Finding("device", Health.OK, f"{found.name}, {found.memory_bytes() / 1e9:.1f} GB, called {kind}")


def _driver_alone() -> Finding:
    """Tells a missing driver from a hidden GPU, where torch finds none."""
    try:
        import pynvml

        pynvml.nvmlInit()
        text = f"{pynvml.nvmlSystemGetDriverVersion()}, shows {pynvml.nvmlDeviceGetCount()} GPU(s)"
    except ImportError:
        remedy = "pip install nvidia-ml-py, or run nvidia-smi"
        return Finding("driver", Health.WARN, "is not known: nvidia-ml-py is not installed", remedy)
    except pynvml.NVMLError as error:
        remedy = "Install NVIDIA's driver, or start the container with its GPUs"
        return Finding("driver", Health.FAIL, f"does not answer ({error})", remedy)
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    if hidden is None:
        return Finding("driver", Health.OK, text)
    return Finding("driver", Health.WARN, f"{text}; CUDA_VISIBLE_DEVICES is {hidden!r}", "Unset it, or name another")


def _gpu(gpu: Cuda) -> Iterator[Finding]:
    import torch

    gpu.open()
    nvml, memory_bytes = gpu.nvml, gpu.memory_bytes()
    kind = kind_of(gpu.name, memory_bytes)
    yield Finding("device", Health.OK, f"{gpu.name}, {memory_bytes / 1e9:.1f} GB, called {kind}")
    yield judge_kernels(torch.cuda.get_device_capability(gpu.index), torch.cuda.get_arch_list())
    yield from _environment()
    if not nvml.there:
        loss = "no power, clocks or other processes are known"
        yield Finding("nvml", Health.WARN, f"{nvml.why_not}: {loss}", nvml.remedy)
        return
    yield _driver(nvml)
    yield _free_memory(gpu)
    yield _others(nvml)
    yield _clocks(nvml)
    yield _partition(gpu, kind)


def judge_kernels(capability: tuple[int, int], built: Sequence[str]) -> Finding:
    """A torch `built` for these architectures has kernels for a GPU where one is of the same generation and at most
    its minor number, or older code (PTX, `compute_`) that the driver translates.

    >>> judge_kernels((8, 9), ["sm_80", "sm_90"]).health.value, judge_kernels((3, 7), ["sm_50", "sm_60"]).health.value
    ('ok', 'fail')
    """
    number = 10 * capability[0] + capability[1]
    split = [architecture.partition("_") for architecture in built]
    numbers = [(kind, int(digits.rstrip("af"))) for kind, _, digits in split]
    fits = any(n <= number and (kind == "compute" or n // 10 == capability[0]) for kind, n in numbers)
    text = f"compute capability {capability[0]}.{capability[1]}, torch is built for {' '.join(built)}"
    if fits:
        return Finding("kernels", Health.OK, text)
    return Finding("kernels", Health.FAIL, text, "Install a release of torch that is built for it")


def _environment() -> Iterator[Finding]:
    """Variables that change what everything takes."""
    for name, effect in DISTORTING.items():
        if (value := os.environ.get(name, "0")) not in ("", "0"):
            yield Finding("environment", Health.WARN, f"{name} is {value}: {effect}", f"Unset {name}")


def _driver(nvml: Nvml) -> Finding:
    """A driver runs CUDA up to its own release; a newer minor release of the same major mostly runs."""
    import torch

    highest: int = nvml.library.nvmlSystemGetCudaDriverVersion()
    return judge_driver(nvml.driver() or "unknown", (highest // 1000, highest % 1000 // 10), str(torch.version.cuda))


def judge_driver(driver: str, highest: tuple[int, int], built: str) -> Finding:
    """A driver that runs CUDA up to `highest` under a torch `built` for one.

    >>> print(render([judge_driver("535.104.05", (12, 2), "13.0")]))
    fail driver       535.104.05 runs CUDA up to 12.2, torch is built for 13.0. Update it, or install torch for CUDA 12
    """
    major, minor = (int(part) for part in built.split(".")[:2])
    text = f"{driver} runs CUDA up to {highest[0]}.{highest[1]}, torch is built for {built}"
    remedy = f"Update it, or install torch for CUDA {highest[0]}"
    if major > highest[0]:
        return Finding("driver", Health.FAIL, text, remedy)
    if (major, minor) > highest:
        return Finding("driver", Health.WARN, text, f"{remedy}.{highest[1]} if kernels fail")
    return Finding("driver", Health.OK, text)


def _free_memory(gpu: Cuda) -> Finding:
    import torch

    free, total = torch.cuda.mem_get_info(gpu.index)
    held = total - free - (gpu.context_bytes or 0)
    text = f"{free / 1e9:.1f} of {total / 1e9:.1f} GB free"
    if held <= HELD_SHARE * total + 500e6:
        return Finding("memory", Health.OK, text)
    return Finding("memory", Health.WARN, text, "End what holds the rest: large batches would not fit")


def _others(nvml: Nvml) -> Finding:
    count = nvml.other_processes()
    if count is None:
        return Finding("processes", Health.WARN, "others on the GPU cannot be seen", "Make sure there are none")
    if count:
        return Finding("processes", Health.WARN, f"{count} others on the GPU", "End them: they disturb every figure")
    return Finding("processes", Health.OK, "no others on the GPU")


def _clocks(nvml: Nvml) -> Finding:
    reasons = nvml.slow_reasons() or ()
    readings = {
        "MHz": nvml.clock_mhz(),
        "MHz at most": nvml.clock_max_mhz(),
        "degrees C": nvml.temperature_c(),
        "W at most": nvml.power_limit_w(),
    }
    text = ", ".join(f"{value:g} {unit}" for unit, value in readings.items() if value is not None) or "not told"
    if bad := [reason for reason in reasons if reason in OVERHEATED]:
        return Finding("clocks", Health.WARN, f"{text}; lowered: {', '.join(bad)}", "Cool the GPU or mend its supply")
    if "application_clocks" in reasons:
        return Finding("clocks", Health.WARN, f"{text}; set lower by hand", "nvidia-smi --reset-applications-clocks")
    return Finding("clocks", Health.OK, text)


def _partition(gpu: Cuda, kind: str) -> Finding:
    if MIG.match(gpu.name):
        return Finding("partition", Health.WARN, "a slice of a GPU (MIG)", f"Its figures hold for {kind} alone")
    return Finding("partition", Health.OK, "the whole GPU")


# The machine


def _host(device: str, out: Path) -> Iterator[Finding]:
    load = busy_share()
    text = f"{cores()} cores, load {load:.0%} in the last minute"
    busy = load > BUSY_SHARE
    remedy = "Wait until others are done: times will spread" if busy else ""
    if busy and device == "cpu":
        remedy += f". {ONE_THREAD}"
    yield Finding("cores", Health.WARN if busy else Health.OK, text, remedy)


def _out(device: str, out: Path) -> Iterator[Finding]:
    """Files can be written where they shall go: in `out`, or in its first parent that is there."""
    place = next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())
    if not place.is_dir():
        yield Finding("out", Health.FAIL, f"{place} is not a directory", "Name one with --out")
        return
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        yield Finding("out", Health.FAIL, f"{place} cannot be written ({error.strerror})", "Name another with --out")
        return
    free = shutil.disk_usage(place).free
    enough = free >= DISK_BYTES
    remedy = "" if enough else f"Free up to {DISK_BYTES / 1e9:.0f} GB"
    yield Finding("out", Health.OK if enough else Health.WARN, f"{out}: {free / 1e9:.1f} GB free", remedy)


def _in_a_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


CHECKS = (_python, _torch, _packages, _device, _host, _out)
