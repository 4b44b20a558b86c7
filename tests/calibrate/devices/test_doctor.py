"""The doctor on this machine as it is, on machines that lack something, and on recorded states of GPUs."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.paths import ROOT

from calibrate.devices.doctor import (
    Finding,
    Health,
    _clocks,
    _others,
    diagnose,
    exit_code,
    judge_driver,
    judge_kernels,
    render,
)
from calibrate.devices.nvml import Nvml
from simulator.machine_code import cores


def by_name(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings}


def test_this_machine_can_be_measured(tmp_path: Path) -> None:
    findings = diagnose("cpu", tmp_path / "not" / "there" / "yet")
    found = by_name(findings)
    assert exit_code(findings) == 0
    assert found["device"].health is Health.OK
    assert found["torch"].health is Health.OK
    assert found["out"].health is not Health.FAIL
    assert not (tmp_path / "not").exists()


def test_all_that_is_not_well_says_what_to_do(tmp_path: Path) -> None:
    for device in ("cpu", "cuda:99", "tpu"):
        for finding in diagnose(device, tmp_path):
            assert finding.health is Health.OK or finding.remedy, finding
            assert "\n" not in finding.text + finding.remedy


@pytest.mark.parametrize("device", ["cuda:99", "tpu"])
def test_a_device_that_is_not_there_fails(device: str, tmp_path: Path) -> None:
    findings = diagnose(device, tmp_path)
    assert by_name(findings)["device"].health is Health.FAIL
    assert exit_code(findings) == 2


def test_a_torch_for_gpus_of_amd_is_refused_by_that_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(torch.version, "hip", "6.4.1")
    found = by_name(diagnose("cuda:0", tmp_path))
    for name in ("torch", "device"):
        assert found[name].health is Health.FAIL
        assert "ROCm 6.4.1" in found[name].text
    assert "AMD" in found["torch"].remedy
    assert by_name(diagnose("cpu", tmp_path))["torch"].health is Health.OK


@pytest.mark.parametrize(
    ("lacking", "health", "code"),
    [({"torch"}, Health.FAIL, 2), ({"torchvision", "transformers", "matplotlib"}, Health.WARN, 0)],
)
def test_on_a_machine_that_lacks_packages(lacking: set[str], health: Health, code: int, tmp_path: Path) -> None:
    ask = (
        "import sys; from calibrate.devices.doctor import *;"
        "findings = diagnose('cpu', Path()); print(render(findings));"
        "sys.exit(exit_code(findings))"
    )
    packages = {"PYTHONPATH": os.pathsep.join([site_without(lacking, tmp_path), str(ROOT)])}
    command = [sys.executable, "-S", "-c", ask]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | packages)
    assert ran.returncode == code, ran.stderr
    for name in lacking:
        (line,) = [line for line in ran.stdout.splitlines() if line.split()[1] == name]
        assert line.startswith(health)
        assert line.endswith(f"is not installed. pip install {name}" if code else f". pip install {name}")


def site_without(lacking: set[str], place: Path) -> str:
    """A directory of all installed packages but some."""
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if entry.name.partition("-")[0] not in lacking:
            (place / entry.name).symlink_to(entry)
    return str(place)


@pytest.mark.parametrize(("device", "load", "said"), [("cpu", 1.0, True), ("cpu", 0.1, False), ("cuda:0", 1.0, False)])
def test_a_busy_processor_is_better_measured_with_one_thread(
    device: str, load: float, said: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load * cores(), 0.0, 0.0))
    (found,) = [one for one in diagnose(device, tmp_path) if one.name == "cores"]
    assert ("OMP_NUM_THREADS=1" in found.remedy) is said


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    # /proc cannot be written even by root.
    assert by_name(diagnose("cpu", Path("/proc/profiles")))["out"].health is Health.FAIL
    file = tmp_path / "file"
    file.touch()
    finding = by_name(diagnose("cpu", file))["out"]
    assert (finding.health, finding.text) == (Health.FAIL, f"{file} is not a directory")


def test_lines_and_exit_code() -> None:
    findings = [Finding("torch", Health.OK, "2.13.0"), Finding("memory", Health.WARN, "little free", "Wait")]
    assert render(findings) == "ok   torch        2.13.0\nwarn memory       little free. Wait"
    assert exit_code(findings) == 0
    assert exit_code([*findings, Finding("out", Health.FAIL, "full", "Free some")]) == 2


@pytest.mark.parametrize(
    ("highest", "built", "health"),
    [
        ((13, 0), "13.0", Health.OK),
        ((13, 0), "12.8", Health.OK),
        ((12, 2), "12.8", Health.WARN),  # minor releases run each other's code, new kernels apart
        ((12, 8), "13.0", Health.FAIL),
        ((11, 4), "12.1", Health.FAIL),
    ],
)
def test_a_driver_runs_no_cuda_newer_than_its_own(highest: tuple[int, int], built: str, health: Health) -> None:
    assert judge_driver("1.2", highest, built).health is health


@pytest.mark.parametrize(
    ("capability", "built", "health"),
    [
        ((8, 9), ["sm_75", "sm_80", "sm_86", "sm_90"], Health.OK),
        ((9, 0), ["sm_80", "sm_90a"], Health.OK),
        ((12, 0), ["sm_90", "compute_90"], Health.OK),  # older PTX is translated
        ((10, 0), ["sm_80", "sm_90"], Health.FAIL),
        ((3, 7), ["sm_50", "sm_60", "compute_60"], Health.FAIL),
        ((8, 0), ["sm_86"], Health.FAIL),
    ],
)
def test_kernels_run_on_their_generation(capability: tuple[int, int], built: list[str], health: Health) -> None:
    assert judge_kernels(capability, built).health is health


class NVMLError(Exception):
    """As NVML raises where a GPU does not tell something."""


def recorded(throttle_bits: int, pids: list[int]) -> Nvml:
    """A GPU as NVML told it once."""
    library = SimpleNamespace(
        NVMLError=NVMLError,
        NVML_CLOCK_SM=1,
        NVML_TEMPERATURE_GPU=0,
        nvmlDeviceGetClockInfo=lambda handle, kind: 1200,
        nvmlDeviceGetMaxClockInfo=lambda handle, kind: 1980,
        nvmlDeviceGetTemperature=lambda handle, sensor: 61,
        nvmlDeviceGetEnforcedPowerLimit=lambda handle: 700_000,
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda handle: throttle_bits,
        nvmlDeviceGetComputeRunningProcesses=lambda handle: [SimpleNamespace(pid=pid) for pid in pids],
    )
    return Nvml(library, "GPU")


@pytest.mark.parametrize(
    ("bits", "health"), [(0x0, Health.OK), (0x1, Health.OK), (0x4, Health.OK), (0x40, Health.WARN), (0x2, Health.WARN)]
)
def test_clocks_lowered_for_heat_or_by_hand_are_told(bits: int, health: Health) -> None:
    finding = _clocks(recorded(bits, []))
    assert finding.health is health
    assert finding.text.startswith("1200 MHz, 1980 MHz at most, 61 degrees C, 700 W at most")


def test_a_slice_that_tells_no_clocks_is_well() -> None:
    assert (_clocks(Nvml()).health, _clocks(Nvml()).text) == (Health.OK, "not told")


def test_others_on_the_gpu_are_told() -> None:
    assert _others(recorded(0, [7])).health is Health.OK  # in a container, that is this process by the host's number
    assert _others(recorded(0, [7, 8])).text == "1 others on the GPU"
    assert _others(Nvml()).health is Health.WARN
