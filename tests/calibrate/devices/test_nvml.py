"""NVML: nothing is known where it is not there; recorded answers enter where the library does."""

import inspect
import os
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrate.devices.nvml import REASONS, Nvml, counter_power_w, find, mean_power_w, others, reasons

READINGS = [
    name
    for name, member in inspect.getmembers(Nvml, inspect.isfunction)
    if not name.startswith("_") and name != "other_processes"
]


class Recording:
    """What a library said of one GPU, by function; it knows no other function and refuses those recorded as `None`."""

    class NVMLError(Exception):
        """As the library's own."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    def __init__(self, **said: Any) -> None:
        self.said = said

    def __getattr__(self, function: str) -> Any:
        if function not in self.said:
            raise AttributeError(function)

        def answer(*_: Any) -> Any:
            if self.said[function] is None:
                raise Recording.NVMLError("Not Supported")
            return self.said[function]

        return answer


def test_without_nvml_nothing_is_known() -> None:
    assert len(READINGS) > 10
    nothing = Nvml(why_not="no library")
    assert not nothing.there
    assert [name for name in READINGS if getattr(nothing, name)() is not None] == []
    assert nothing.other_processes() is None


def test_a_gpu_that_is_not_there_is_said_in_one_line() -> None:
    nvml = find("00000000-0000-0000-0000-000000000000", "0000:7f:1f.0")
    assert not nvml.there
    assert nvml.power_w() is None
    assert nvml.why_not.startswith("NVML ")
    assert "\n" not in nvml.why_not


def test_what_a_gpu_tells_is_in_si_units() -> None:
    nvml = Nvml(
        Recording(
            nvmlSystemGetDriverVersion="570.86.15",
            nvmlDeviceGetUUID="GPU-6f1c",
            nvmlDeviceGetPowerUsage=123_456,
            nvmlDeviceGetEnforcedPowerLimit=700_000,
            nvmlDeviceGetMemoryInfo=SimpleNamespace(total=141 << 30, used=3 << 30),
            nvmlDeviceGetClockInfo=1980,
            nvmlDeviceGetCurrentClocksThrottleReasons=0x24,
        ),
        handle=1,
    )
    assert nvml.driver() == "570.86.15"
    assert (nvml.power_w(), nvml.power_limit_w()) == (123.456, 700.0)
    assert nvml.memory_used_bytes() == 3 << 30
    assert nvml.clock_mhz() == 1980
    assert nvml.slow_reasons() == ("sw_power_cap", "sw_thermal")
    assert nvml.uuid_hash() not in (None, "GPU-6f1c")
    assert nvml.temperature_c() is None, "not in this release of the binding"


def test_reasons_have_the_bits_that_nvidias_binding_gives_them() -> None:
    theirs = vars(pytest.importorskip("pynvml"))
    for name, words in {
        "idle": "GpuIdle",
        "application_clocks": "ApplicationsClocksSetting",
        "sw_power_cap": "SwPowerCap",
        "hw_slowdown": "HwSlowdown",
        "sync_boost": "SyncBoost",
        "sw_thermal": "SwThermalSlowdown",
        "hw_thermal": "HwThermalSlowdown",
        "hw_power_brake": "HwPowerBrakeSlowdown",
        "display_clocks": "DisplayClockSetting",
    }.items():
        assert reasons(theirs[f"nvmlClocksEventReason{words}"]) == (name,)
    assert reasons(theirs["nvmlClocksEventReasonAll"]) == tuple(REASONS.values())


def test_every_function_that_is_asked_is_one_of_nvidias_binding() -> None:
    theirs = pytest.importorskip("pynvml")
    asked = []

    class Asked:
        NVMLError = theirs.NVMLError

        def __getattr__(self, name: str) -> Any:
            asked.append(name)
            if name.isupper():
                return getattr(theirs, name)
            raise self.NVMLError(theirs.NVML_ERROR_NOT_SUPPORTED)

    for name in [*READINGS, "other_processes"]:
        getattr(Nvml(Asked(), handle=1), name)()
    assert len(set(asked)) > 10
    assert [name for name in asked if not hasattr(theirs, name)] == []


def test_a_field_the_gpu_lacks_is_none() -> None:
    nvml = Nvml(
        Recording(nvmlDeviceGetTotalEnergyConsumption=None, nvmlDeviceGetComputeRunningProcesses=None), handle=1
    )
    assert nvml.energy_mj() is None
    assert nvml.process_bytes() is None
    assert nvml.other_processes() is None


def test_this_process_and_others() -> None:
    mine = SimpleNamespace(pid=os.getpid(), usedGpuMemory=500 << 20)
    other = SimpleNamespace(pid=1, usedGpuMemory=None)
    nvml = Nvml(Recording(nvmlDeviceGetComputeRunningProcesses=[other, mine]), handle=1)
    assert nvml.process_bytes() == 500 << 20
    assert nvml.other_processes() == 1
    hidden = Nvml(Recording(nvmlDeviceGetComputeRunningProcesses=[other]), handle=1)
    assert hidden.process_bytes() is None


def test_in_a_container_one_of_the_processes_is_this_one() -> None:
    assert others([70, 90]) == 1
    assert others([70]) == 0
    assert others([]) == 0


def test_reasons_by_bit() -> None:
    assert reasons(0) == ()
    assert reasons(0x1 | 0x40) == ("idle", "hw_thermal")
    assert reasons(1 << 40) == (), "one that came later"


def test_power_from_step_to_step_of_the_counter() -> None:
    # Read every 4 ms; 300 W. The counter moves every 10 ms or so.
    recorded = [(0.0, 100), (0.004, 1000), (0.008, 1000), (0.012, 4000), (0.016, 4000), (0.02, 4000), (0.024, 7000)]
    assert counter_power_w(recorded) == pytest.approx(6.0 / 0.02)


def test_a_counter_that_stands_tells_nothing() -> None:
    assert counter_power_w([]) is None
    assert counter_power_w([(0, 100), (5, 100), (10, 100)]) is None
    assert counter_power_w([(0, 100), (5, 100), (10, 900)]) is None, "one step: begun before the first reading"


@given(st.floats(50, 700), st.floats(0.01, 0.05), st.floats(0.02, 0.1))
def test_constant_power_whatever_the_counters_step(drawn_w: float, every_s: float, step_s: float) -> None:
    at_s = [i * every_s for i in range(int(1 / every_s) + 2)]
    recorded = [(now_s, int(drawn_w * (now_s // step_s) * step_s * 1e3)) for now_s in at_s]
    # Each end is known to one reading in about a second, less a step at either end.
    assert counter_power_w(recorded) == pytest.approx(drawn_w, rel=2 * every_s / (1 - 2 * step_s - 2 * every_s) + 0.01)


def test_sampled_power_is_weighted_by_time() -> None:
    assert mean_power_w([(0, 100), (1, 300), (3, 0)]) == pytest.approx(700 / 3)
    assert mean_power_w([(5, 80)]) == 80
    assert mean_power_w([]) is None
