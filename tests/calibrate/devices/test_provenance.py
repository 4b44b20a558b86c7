"""Kinds of GPU by the names GPUs give themselves; what must agree before figures stand together."""

import json
import subprocess
import sys
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrate.devices.device import find_device
from calibrate.devices.provenance import KINDS, MUST_AGREE, VARIABLES, differing, kind_of, kind_of_cpu, read
from calibrate.io.points import Settings
from calibrate.io.reader import NAME
from planner.catalog.catalog import load_catalog

MIB = 2**20
GPUS = [
    # As nvidia-smi names them, with the memory it shows (MiB).
    ("Tesla K80", 11441, "K80"),
    ("Tesla P100-PCIE-16GB", 16280, "P100"),
    ("Tesla V100-SXM2-16GB", 16160, "V100"),
    ("Tesla T4", 15360, "T4"),
    ("NVIDIA A10G", 23028, "A10G"),
    ("NVIDIA L4", 23034, "L4"),
    ("NVIDIA L40S", 46068, "L40S"),
    ("A100-SXM4-40GB", 40536, "A100-40GB"),
    ("NVIDIA A100-SXM4-40GB", 40960, "A100-40GB"),
    ("NVIDIA A100-SXM4-80GB", 81920, "A100-80GB"),
    ("NVIDIA H100 PCIe", 81559, "H100-PCIe"),
    ("NVIDIA H100 80GB HBM3", 81559, "H100"),
    ("NVIDIA H200", 143771, "H200"),
    ("NVIDIA B200", 183359, "B200"),
    ("NVIDIA GeForce RTX 3090", 24576, "RTX3090"),
    ("NVIDIA GeForce RTX 4090", 24564, "RTX4090"),
    ("GeForce GTX 580", 3072, "GTX580"),
    ("Tesla V100-SXM2-32GB", 32510, "V100-32GB"),
    ("NVIDIA RTX A6000", 49140, "RTX-A6000"),
    ("Quadro RTX 6000", 24220, "Quadro-RTX-6000"),
    ("NVIDIA RTX 6000 Ada Generation", 49140, "RTX-6000-Ada"),
    ("NVIDIA A100 80GB PCIe", 81920, "A100-80GB-PCIe"),
    ("NVIDIA A10", 23028, "A10"),
    ("NVIDIA L40", 46068, "L40"),
    ("NVIDIA H100 NVL", 95830, "H100-NVL-94GB"),
    # A slice is the catalog's, which knows its share.
    ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", 4864, "A100-40GB-MIG-1g.5gb"),
    ("NVIDIA H200 MIG 1g.18gb+me", 16384, "H200-MIG-1g.18gb-me"),
]
OTHERS = [
    # GPUs of the same chips with other rates or memory: none of them is the catalog's kind.
    ("Tesla V100-PCIE-16GB", 16160, "v100-pcie-16gb"),
    ("NVIDIA RTX A2000 12GB", 12282, "rtx-a2000-12gb"),
    ("NVIDIA A10M", 23028, "a10m"),
    ("NVIDIA GH200 480GB", 97871, "gh200-480gb"),
    ("NVIDIA GeForce RTX 3090 Ti", 24564, "rtx-3090-ti"),
    ("GeForce GTX 580", 1536, "gtx-580"),
]


@pytest.mark.parametrize(("name", "memory_mib", "kind"), GPUS + OTHERS)
def test_kind_by_name(name: str, memory_mib: int, kind: str) -> None:
    assert kind_of(name, memory_mib * MIB) == kind


def test_kinds_are_those_of_the_catalog_with_its_memory() -> None:
    catalog = {name: gpu.memory_bytes / 1e9 for name, gpu in load_catalog().gpus.items()}
    assert dict(KINDS.values()).items() <= catalog.items()


def test_what_is_no_kind_of_the_catalog_never_gets_the_name_of_one() -> None:
    assert not {kind for _, _, kind in OTHERS} & load_catalog().gpus.keys()


@given(st.text(), st.integers(1, 10**12))
def test_every_kind_is_a_name_a_profile_may_have(name: str, memory_bytes: int) -> None:
    for kind in (kind_of(name, memory_bytes), kind_of(f"{name} MIG {name}", memory_bytes), kind_of_cpu(name)):
        assert NAME.fullmatch(kind)


def test_processors() -> None:
    assert kind_of_cpu("AMD EPYC 7R13 Processor") == "cpu-amd-epyc-7r13"
    assert kind_of_cpu("Intel(R) Xeon(R) CPU E5-2686 v4 @ 2.30GHz") == "cpu-intel-xeon-e5-2686-v4-2.30ghz"


def test_two_readings_of_one_device_agree_and_are_json() -> None:
    cpu = find_device("cpu")
    first, second = (read(cpu) | asdict(Settings()) for _ in range(2))
    assert differing(first, second) is None
    assert json.loads(json.dumps(first)) == first
    elsewhere = {"gpu_uuid_sha256", "power_limit_w", "clock_limit_mhz", "driver", "input_shape", "ecc"}
    elsewhere |= {name.lower() for name in VARIABLES}
    assert set(MUST_AGREE) - first.keys() == elsewhere
    assert first["gpu"].startswith("cpu-")


@pytest.mark.parametrize("key", MUST_AGREE)
def test_the_key_that_differs_is_named(key: str) -> None:
    known = dict.fromkeys(MUST_AGREE, "same")
    assert differing(known, known | {key: "other"}) == (key, "same", "other")
    assert differing(known | {key: "other"}, known) == (key, "other", "same")
    unknown = {k: v for k, v in known.items() if k != key}
    assert differing(known, unknown) == (key, "same", None)


def test_settings_differ_and_the_day_does_not() -> None:
    known = read(find_device("cpu")) | asdict(Settings())
    later = known | {"date": "2000-01-01T00:00:00+00:00", "temperature_c": 80, "clock_mhz": 100, "os": "another"}
    assert differing(known, later) is None
    assert differing(known, known | {"precision": "bf16"}) == ("precision", "fp32", "bf16")


def test_importing_does_not_import_torch() -> None:
    code = "import calibrate.devices.provenance, calibrate.devices.memory_log, calibrate.devices.doctor"
    code += "; import sys"
    code += "; sys.exit(bool({'torch', 'pynvml', 'matplotlib'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
