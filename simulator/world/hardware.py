"""Hardware: what a kind of GPU can do, and the machine it sits in. Data only."""

import re
from dataclasses import dataclass

CONTEXT_BYTES = 800_000_000
"""What one framework process holds besides weights and workspace, where nobody measured it: GEMEL (NSDI'23)."""


SPELLED = re.compile(r"[A-Za-z]{1,4}(?=\d)|[A-Z]{1,4}(?![A-Za-z])")
"""What a name begins with that is read letter by letter, as in `L4` and `RTX-4090`; `Jetson` is read as a word."""


def with_article(name: str) -> str:
    """The name of a GPU or an instance after its article.

    >>> [with_article(name) for name in ("T4", "A10G", "L4", "V100", "RTX-4090", "Jetson-Nano", "g5.xlarge", "8xT4")]
    ['a T4', 'an A10G', 'an L4', 'a V100', 'an RTX-4090', 'a Jetson-Nano', 'a g5.xlarge', 'an 8xT4']
    """
    as_vowels = "AEFHILMNORSX8" if SPELLED.match(name) else "AEIOU8"
    return f"{'an' if name[:1].upper() in as_vowels else 'a'} {name}"


def device_option(kind: str) -> str:
    """`--device` of what is measured on a kind: `cpu` of a processor, measured here or in the catalog."""
    return "cpu" if kind.lower().startswith("cpu-") else "cuda:0"


@dataclass(frozen=True, slots=True, kw_only=True)
class GPU:
    """A kind of GPU, not one device: dense peak rates and sizes, each as the vendor states it."""

    name: str
    chip: str = ""
    """That of other kinds too: `A100` of the A100-80GB-PCIe; empty: its own."""
    mig_profile: str = ""
    """Of a slice: `1g.10gb`; empty: a whole GPU."""
    memory_bytes: int
    """Device memory."""
    memory_bytes_per_s: float
    """Peak bandwidth of the device memory."""
    fp32_flops: float
    """Peak single-precision rate on vector units, FLOP/s."""
    tensor_fp16_flops: float | None = None
    """Peak dense half-precision rate on matrix units, FLOP/s."""
    tensor_tf32_flops: float | None = None
    """The same at TF32; None: not known."""
    tensor_int8_flops: float | None = None
    """The same of 8-bit integers, operations a second; None: not known."""
    tensor_fp8_flops: float | None = None
    """The same of 8-bit floating point, which no scenario asks for; None: not known, or it has none."""
    l2_bytes: float | None = None
    """Cache that all share; None: not known."""
    sm_count: int | None = None
    """Multiprocessors; None: not known."""
    decoders: int | None = None
    """Engines that decode video; None: not known."""
    encoders: int | None = None
    """Engines that encode it; None: not known."""
    encode_sessions: int | None = None
    """Most streams that the driver encodes at once in a machine; None: as many as fit."""
    cores: int | None = None
    """Of a processor: the cores that one process has, with a thread on each; None: a GPU."""
    assumed: tuple[str, ...] = ()
    """Figures that were recalled, not looked up, by their names in the catalog."""
    tdp_w: float
    """Power limit; see `simulator.world.power` for what is drawn while a batch runs."""
    idle_w: float
    """Power while nothing runs."""
    pcie_bytes_per_s: float
    """Host link, one direction."""
    nvlink_bytes_per_s: float | None = None
    """Link between GPUs of one host, one direction; None: they talk over PCIe."""
    compute_capability: str = ""
    source: str = ""

    def peak_flops(self, precision: str) -> float:
        """Highest rate (FLOP/s) any kernel can reach at `precision`: `fp32`, or a reduced one on matrix units."""
        matrix_flops = self.tensor_fp16_flops or self.fp32_flops
        match precision:
            case "fp32":
                return self.fp32_flops
            case "tf32" | "torch":
                return self.tensor_tf32_flops or (matrix_flops / 2 if self.has_tf32 else self.fp32_flops)
            case "int8":
                return self.tensor_int8_flops or matrix_flops
        return matrix_flops

    @property
    def capability(self) -> tuple[int, ...]:
        """NVIDIA's compute capability as numbers: (8, 6); (0,) of others, and where nobody says."""
        numbers = self.compute_capability.split(".")
        return tuple(map(int, numbers)) if all(number.isdigit() for number in numbers) else (0,)

    @property
    def is_processor(self) -> bool:
        """Whether it is no GPU, as the catalog has it or by the name of what was measured."""
        return self.cores is not None or device_option(self.name) == "cpu"

    @property
    def has_tf32(self) -> bool:
        """Whether matrix units compute in TF32, as NVIDIA's do from Ampere on, at half of the rate of fp16."""
        return bool(self.tensor_fp16_flops) and self.capability >= (8, 0)

    @property
    def link_bytes_per_s(self) -> float:
        """Bandwidth between two GPUs of one host: NVLink where there is one, else PCIe."""
        return self.nvlink_bytes_per_s or self.pcie_bytes_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A machine: its GPUs share one PCIe root and the memory that holds weights not on a GPU."""

    id: str
    pcie_root_bytes_per_s: float
    """Shared by all loads of this host, one direction."""
    memory_bytes: int | None = None
    """Host memory for weights; None: not known, taken as enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One GPU of some kind in a host, with the memory a deployment may use."""

    id: str
    gpu: GPU
    host: str
    memory_bytes: int
    """At most what the kind has; less on a shared or partitioned GPU."""
    context_bytes: int = CONTEXT_BYTES
    """What one framework process holds besides weights and workspace."""
