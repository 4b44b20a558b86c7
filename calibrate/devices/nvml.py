"""NVIDIA's management library: memory, energy, power and clocks of one GPU. None where it cannot read them."""

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

T = TypeVar("T")

OVERHEATED = ("hw_slowdown", "hw_thermal", "hw_power_brake", "sw_thermal")
"""Reasons for lower clocks that a run in good order does not have."""
REASONS = {
    0x1: "idle",
    0x2: "application_clocks",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "hw_power_brake",
    0x100: "display_clocks",
}
"""Bits of `nvmlClocksEventReasons` (NVML API reference, "NvmlClocksEventReasons")."""


@dataclass(frozen=True, slots=True)
class Nvml:
    """One GPU as NVML sees it. Every reading is None where the library, the GPU or the field is not there."""

    library: Any = None
    """The module `pynvml`, initialised; None without NVML."""
    handle: Any = None
    why_not: str = ""
    """In one line, why there are no readings; empty where there are."""
    remedy: str = ""
    """What gives readings."""

    @property
    def there(self) -> bool:
        """True where the GPU was found."""
        return self.handle is not None

    def uuid_hash(self) -> str | None:
        """Tells one GPU from another without giving its serial identity away: 16 hexadecimal digits of SHA-256."""
        uuid = self._read(lambda: _decoded(self.library.nvmlDeviceGetUUID(self.handle)))
        return uuid and hashlib.sha256(uuid.encode()).hexdigest()[:16]

    def driver(self) -> str | None:
        """Version of the driver, e.g. `570.86.15`."""
        return self._read(lambda: _decoded(self.library.nvmlSystemGetDriverVersion()))

    def memory_used_bytes(self) -> int | None:
        """Memory that all processes and the driver hold now."""
        return self._read(lambda: int(self.library.nvmlDeviceGetMemoryInfo(self.handle).used))

    def process_bytes(self) -> int | None:
        """Memory that this process holds; None in containers that hide the host's process numbers."""
        held = [p.usedGpuMemory for p in self._processes() or () if p.pid == os.getpid() and p.usedGpuMemory]
        return int(held[0]) if held else None

    def other_processes(self) -> int | None:
        """Processes that compute on the GPU besides this one, which is one of them."""
        processes = self._processes()
        if processes is None:
            return None
        # In a container the numbers are the host's, and one of them is ours too.
        return max(len({p.pid for p in processes}) - 1, 0)

    def energy_mj(self) -> int | None:
        """Millijoules since the driver was loaded. Volta and later; not on a MIG slice."""
        return self._number("nvmlDeviceGetTotalEnergyConsumption")

    def power_w(self) -> float | None:
        """Watts drawn now (a mean over up to a second, by kind of GPU)."""
        return _thousandth(self._number("nvmlDeviceGetPowerUsage"))

    def power_limit_w(self) -> float | None:
        """Watts at which the clocks are lowered."""
        return _thousandth(self._number("nvmlDeviceGetEnforcedPowerLimit"))

    def clock_mhz(self) -> int | None:
        """Clock of the multiprocessors now."""
        return self._read(lambda: self.library.nvmlDeviceGetClockInfo(self.handle, self.library.NVML_CLOCK_SM))

    def memory_clock_mhz(self) -> int | None:
        """Clock of the memory now."""
        return self._read(lambda: self.library.nvmlDeviceGetClockInfo(self.handle, self.library.NVML_CLOCK_MEM))

    def clock_max_mhz(self) -> int | None:
        """Highest clock of the multiprocessors."""
        return self._read(lambda: self.library.nvmlDeviceGetMaxClockInfo(self.handle, self.library.NVML_CLOCK_SM))

    def temperature_c(self) -> int | None:
        """Temperature of the chip in degrees Celsius."""
        return self._read(lambda: self.library.nvmlDeviceGetTemperature(self.handle, self.library.NVML_TEMPERATURE_GPU))

    def slow_reasons(self) -> tuple[str, ...] | None:
        """Why the clocks are lower than they could be."""
        bits = self._number("nvmlDeviceGetCurrentClocksThrottleReasons")
        return None if bits is None else reasons(bits)

    def ecc(self) -> bool | None:
        """True where errors in memory are corrected, which takes some of its bandwidth."""
        return self._read(lambda: self.library.nvmlDeviceGetEccMode(self.handle)[0] == 1)

    def persistence(self) -> bool | None:
        """True where the driver stays loaded while nobody uses the GPU."""
        return self._read(lambda: self.library.nvmlDeviceGetPersistenceMode(self.handle) == 1)

    def pcie_link(self) -> str | None:
        """Generation and lanes of the link to the host now, e.g. `5.0 x16`; a GPU at rest may tell less."""
        generation, lanes = map(self._number, ("nvmlDeviceGetCurrPcieLinkGeneration", "nvmlDeviceGetCurrPcieLinkWidth"))
        return None if generation is None or lanes is None else f"{generation}.0 x{lanes}"

    def _processes(self) -> Sequence[Any] | None:
        return self._read(lambda: list(self.library.nvmlDeviceGetComputeRunningProcesses(self.handle)))

    def _number(self, function: str) -> int | None:
        return self._read(lambda: int(getattr(self.library, function)(self.handle)))

    def _read(self, field: Callable[[], T]) -> T | None:
        if not self.there:
            return None
        try:
            return field()
        except (self.library.NVMLError, AttributeError):
            return None  # not on this GPU, not permitted here, or not in this release of the binding


def find(uuid: str, pci_bus_id: str = "") -> Nvml:
    """The GPU with this UUID (with or without `GPU-` or `MIG-`), else at this PCI address.

    Never by index: `CUDA_VISIBLE_DEVICES` numbers GPUs anew, NVML does not.
    """
    try:
        import pynvml
    except ImportError:
        return Nvml(why_not="NVML cannot be read: nvidia-ml-py is not installed", remedy="pip install nvidia-ml-py")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        remedy = "Install NVIDIA's driver, or expose NVML to the container"
        return Nvml(why_not=f"NVML cannot be read: {error}", remedy=remedy)
    return _handle(pynvml, uuid, pci_bus_id)


def of_cuda(properties: Any) -> Nvml:
    """The GPU that torch describes so: by UUID (torch 2.5 and later), else by PCI address."""
    return find(*names_of(properties))


def names_of(properties: Any) -> tuple[str, str]:
    """UUID and PCI address, each empty where torch does not tell it."""
    places: list[Any] = [getattr(properties, part, None) for part in ("pci_domain_id", "pci_bus_id", "pci_device_id")]
    bus = "{:08x}:{:02x}:{:02x}.0".format(*places) if all(isinstance(part, int) for part in places) else ""
    return str(getattr(properties, "uuid", "")), bus


def _handle(library: Any, uuid: str, pci_bus_id: str) -> Nvml:
    names = (uuid,) if uuid.startswith(("GPU-", "MIG-")) else (f"GPU-{uuid}", f"MIG-{uuid}")
    ways = [(library.nvmlDeviceGetHandleByUUID, name) for name in names if uuid]
    ways += [(library.nvmlDeviceGetHandleByPciBusId, pci_bus_id)] * bool(pci_bus_id)
    for find_by, name in ways:
        try:
            # The binding turns text into bytes itself.
            return Nvml(library, find_by(name))
        except library.NVMLError:
            continue
    remedy = "Expose it to the container, or set no MIG slice"
    return Nvml(why_not="NVML does not know the GPU that CUDA uses", remedy=remedy)


def others(pids: Sequence[int]) -> int:
    """Processes besides this one. [7, 9]: 1. In a container the numbers are the host's, and one of them is ours too."""
    return max(len(set(pids)) - 1, 0)


def reasons(bits: int) -> tuple[str, ...]:
    """Names of the bits. 0x24: software power cap and software thermal slowdown."""
    return tuple(name for bit, name in REASONS.items() if bits & bit)


def counter_power_w(readings: Sequence[tuple[float, int]]) -> float | None:
    """Watts from a counter, read as (seconds, millijoules) in order; None if it moved only once.

    The counter moves in steps, some 20 to 100 ms apart: only from one step to another is it known what was drawn.
    Steps to 1000 mJ after 0.1 s and 5000 mJ after 0.5 s: 4 J in 0.4 s, 10 W.
    """
    steps = [after for before, after in pairwise(readings) if after[1] != before[1]]
    if len(steps) < 2:
        return None
    (first_s, start_mj), (last_s, end_mj) = steps[0], steps[-1]
    return (end_mj - start_mj) / 1e3 / (last_s - first_s)


def mean_power_w(readings: Sequence[tuple[float, float]]) -> float | None:
    """Watts over time from (seconds, watts), each holding until the next. (0, 100), (1, 300), (3, 0): 233.3 W."""
    if not readings:
        return None
    spans = [(later[0] - now[0], now[1]) for now, later in pairwise(readings)]
    lasted_s = sum(span_s for span_s, _ in spans)
    return sum(span_s * power_w for span_s, power_w in spans) / lasted_s if lasted_s else readings[0][1]


def _thousandth(number: int | None) -> float | None:
    return None if number is None else number / 1e3


def _decoded(text: str | bytes) -> str:
    # Releases before 11.5 of the binding give bytes.
    return text.decode() if isinstance(text, bytes) else text
