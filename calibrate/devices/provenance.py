"""Provenance: on what figures were measured, what must agree before they stand together, and which kind of GPU it was.

Torch and NVML are asked only when a device's provenance is read.
"""

import os
import platform
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from calibrate.devices.device import Cpu, Cuda, Device
from calibrate.devices.nvml import of_cuda
from calibrate.io.tables import table
from simulator.machine_code import cores

GB = 1_000_000_000
KINDS: Mapping[str, tuple[str, float]] = {
    row["name"]: (row["kind"], float(row["memory_gb"])) for row in table(Path(__file__).parent / "data" / "kinds.csv")
}
"""Catalog kind and memory (GB) by the name a GPU gives itself, without its maker and series. A GPU that is not there,
such as one of the same chip on PCIe where the catalog has the SXM board, has other rates: it becomes its own kind."""
MAKERS = re.compile(r"^(NVIDIA|Tesla|GeForce|Quadro|AMD)\s+", re.IGNORECASE)
NOT_A_MODEL = re.compile(r"\((R|TM)\)|\b(CPU|Processor)\b", re.IGNORECASE)
MIG = re.compile(r"^(?P<GPU>.*?)\s+MIG\s+(?P<slice>\S+)$")
VARIABLES = (
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF",
    "NVIDIA_TF32_OVERRIDE",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
)
"""Of the environment: each changes what is measured on a GPU."""
OWN_PROCESS = "a process for each model"
MUST_AGREE = (
    "gpu",
    "gpu_name",
    "gpu_uuid_sha256",
    "power_limit_w",
    "clock_limit_mhz",
    "process_isolation",
    "driver",
    "torch",
    "cuda",
    "cudnn",
    "python",
    "host_cpu",
    "host_cores",
    "torch_threads",
    "precision",
    "channels_last",
    "cudnn_benchmark",
    "compile",
    "resolution",
    "input_shape",
    "ecc",
    "pytorch_cuda_alloc_conf",
    "pytorch_alloc_conf",
    "nvidia_tf32_override",
    "cuda_launch_blocking",
    "cuda_module_loading",
)
"""Keys that move a measured time or size. The rest tells a reader more: system, clocks and temperature then, date."""
MAY_DIFFER = ("gpu_uuid_sha256", "driver", "python", "host_cpu", "host_cores", "torch_threads")
"""Those of `MUST_AGREE` that may differ between sessions which are joined, where their figures agree."""


def differing(a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[str, Any, Any] | None:
    """The first key of `MUST_AGREE` that differs, with both values; None where the figures may stand together.

    >>> differing({"gpu": "T4", "driver": "570.1"}, {"gpu": "T4", "driver": "580.2"})
    ('driver', '570.1', '580.2')
    """
    for key in MUST_AGREE:
        if a.get(key) != b.get(key):
            return key, a.get(key), b.get(key)
    return None


def kind_of(name: str, memory_bytes: int) -> str:
    """The catalog's kind of a GPU by the name and memory it reports, else a name made from its own.

    A slice of a partitioned GPU (MIG) is a kind of its own: it has part of the GPU's memory and arithmetic.

    >>> kind_of("Tesla T4", 15_843_721_216)
    'T4'
    >>> kind_of("NVIDIA A100 80GB PCIe", 85_094_825_984)
    'a100-80gb-pcie'
    >>> kind_of("NVIDIA H100 80GB HBM3 MIG 1g.10gb", 10_468_982_784)
    'H100-MIG-1g.10gb'
    """
    if partition := MIG.match(name):
        bare = _bare(partition["GPU"])
        kind, _ = KINDS.get(bare, (_slug(bare), 0))
        part = _slug(partition["slice"])[:10].rstrip("-.")
        return f"{kind}-MIG-{part}"
    bare = _bare(name)
    kind, memory_gb = KINDS.get(bare, ("", 0))
    # GPUs report up to 8 % more than the round figure (GiB sold as GB), or less where the driver keeps some.
    if kind and 0.92 < memory_bytes / (memory_gb * GB) < 1.1:
        return kind
    return _slug(bare)


def kind_of_cpu(model: str) -> str:
    """A name for a processor as a device: `cpu-` and its model.

    >>> kind_of_cpu("Intel(R) Xeon(R) Platinum 8480+ CPU @ 2.00GHz")
    'cpu-intel-xeon-platinum-8480-2.00ghz'
    """
    return f"cpu-{_slug(NOT_A_MODEL.sub(' ', model))}"


def _bare(name: str) -> str:
    short = name.strip()
    while (shorter := MAKERS.sub("", short)) != short:
        short = shorter
    return short


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")[:48].rstrip("-.") or "unknown"


# Reading


def read(device: Device) -> dict[str, Any]:
    """All that is known of `device`, open or not, and of what drives it now; JSON values, units in the keys.

    Imports torch.
    """
    import torch

    return {
        **(_of_cpu(device) if isinstance(device, Cpu) else _of_gpu(device)),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),  # type: ignore[no-untyped-call]  # None where torch is built without
        "torch_threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "os": platform.platform(),
        "host_cpu": Cpu().name,
        "host_cores": cores(),
        "host_threads": os.cpu_count(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _of_cpu(cpu: Cpu) -> dict[str, Any]:
    """No clocks, power or driver: a processor does not tell them to everybody."""
    return {
        "gpu": kind_of_cpu(cpu.name),
        "gpu_name": cpu.name,
        "memory_bytes": cpu.memory_bytes(),
        "process_isolation": OWN_PROCESS,
    }


def _of_gpu(device: Cuda) -> dict[str, Any]:
    import torch

    properties = torch.cuda.get_device_properties(device.index)
    nvml = of_cuda(properties)
    return {
        "gpu": kind_of(properties.name, properties.total_memory),
        "gpu_name": properties.name,
        "gpu_uuid_sha256": nvml.uuid_hash(),
        "memory_bytes": properties.total_memory,
        "compute_capability": f"{properties.major}.{properties.minor}",
        "multiprocessors": properties.multi_processor_count,
        "driver": nvml.driver(),
        "power_limit_w": nvml.power_limit_w(),
        "clock_limit_mhz": nvml.clock_max_mhz(),
        "clock_mhz": nvml.clock_mhz(),
        "memory_clock_mhz": nvml.memory_clock_mhz(),
        "temperature_c": nvml.temperature_c(),
        "process_isolation": _isolation(properties.name),
        "ecc": nvml.ecc(),
        "persistence": nvml.persistence(),
        "pcie_link": nvml.pcie_link(),
        **{name.lower(): os.environ.get(name) for name in VARIABLES},
    }


def _isolation(name: str) -> str:
    """Who else may compute on the GPU while a model is measured."""
    if MIG.match(name):
        return f"{OWN_PROCESS}, on a slice of the GPU (MIG)"
    return f"{OWN_PROCESS}, under MPS" if "CUDA_MPS_PIPE_DIRECTORY" in os.environ else OWN_PROCESS
