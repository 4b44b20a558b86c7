"""NVML of the GPU in imitation: the functions that are asked for, under their own names."""

import os
from types import SimpleNamespace

from support.cuda import BUS, GPU, UUID

NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU, NVML_FEATURE_ENABLED = 1, 2, 0, 1
BUSY_MHZ, CAPPED_MHZ, IDLE_MHZ = 1980, 1500, 345


class NVMLError(Exception):
    """As the library's own."""


def nvmlInit():
    pass


def nvmlSystemGetDriverVersion():
    return "580.65.06"


def nvmlSystemGetCudaDriverVersion():
    return 13000


def nvmlDeviceGetHandleByUUID(uuid):
    if uuid != f"GPU-{UUID}":
        raise NVMLError("Not Found")
    return 1


def nvmlDeviceGetHandleByPciBusId(bus):
    if bus.lower() != BUS:
        raise NVMLError("Not Found")
    return 1


def nvmlDeviceGetUUID(_):
    return f"GPU-{UUID}"


def nvmlDeviceGetMemoryInfo(_):
    return SimpleNamespace(used=GPU.used, total=GPU.knobs.memory_bytes)


def nvmlDeviceGetComputeRunningProcesses(_):
    if "processes" not in GPU.knobs.reads:
        raise NVMLError("Not Supported")
    own = {os.getpid(): GPU.held} if GPU.is_open else {}
    return [SimpleNamespace(pid=pid, usedGpuMemory=held) for pid, held in (own | GPU.others()).items()]


def nvmlDeviceGetTotalEnergyConsumption(_):
    if "energy" not in GPU.knobs.reads:
        raise NVMLError("Not Supported")
    return int(1000 * GPU.energy_j)


def nvmlDeviceGetPowerUsage(_):
    if "power" not in GPU.knobs.reads:
        raise NVMLError("Not Supported")
    return int(1000 * GPU.power_w)


def nvmlDeviceGetEnforcedPowerLimit(_):
    return 700_000


def nvmlDeviceGetClockInfo(_, which):
    if which == NVML_CLOCK_MEM:
        return 2619
    if not GPU.is_busy:
        return IDLE_MHZ
    return CAPPED_MHZ if GPU.is_capped else BUSY_MHZ


def nvmlDeviceGetMaxClockInfo(_, which):
    return BUSY_MHZ


def nvmlDeviceGetTemperature(_, which):
    return 61 if GPU.is_busy else 34


def nvmlDeviceGetCurrentClocksThrottleReasons(_):
    if not GPU.is_busy:
        return 0x1
    return 0x4 if GPU.is_capped else 0


def nvmlDeviceGetEccMode(_):
    return [1, 1]


def nvmlDeviceGetPersistenceMode(_):
    return 1


def nvmlDeviceGetCurrPcieLinkGeneration(_):
    return 5


def nvmlDeviceGetCurrPcieLinkWidth(_):
    return 16
