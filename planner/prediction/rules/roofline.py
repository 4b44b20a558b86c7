"""Roofline: how long each layer of a model takes at least on a GPU, and what holds it.

Ceilings are the vendor's peaks, or what the device's own probes reached where there are any.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from calibrate.layers.work import Facts, LayerWork
from calibrate.library.lookup import DEVICE_FILE, SHIPPED, Probes, read_evidence, read_kind, read_probes
from simulator.errors import InputError
from simulator.world.hardware import GPU, with_article
from simulator.world.precision import VALUE_BYTES, value_share
from simulator.world.profile import Evidence

LAUNCH_S = 10e-6
"""What issuing one operator takes where no probe ran: PyTorch without graphs takes 5 to 20 us, mostly on the CPU."""

PROBED = {"flops_per_s": "rate", "bytes_per_s": "bandwidth", "launch_s": "launch time"}
"""Ceilings, and what they are called."""


class Bound(StrEnum):
    """What holds a layer, or a whole run."""

    ARITHMETIC = "arithmetic"
    """The device computes as fast as it can."""
    BANDWIDTH = "bandwidth"
    """Its memory is read and written as fast as it can be."""
    OVERHEAD = "overhead"
    """Operators are too small to fill the time that issuing them takes."""
    NONE = "none"
    """It does nothing: a view."""


class PrecisionError(InputError):
    """A precision that a GPU does not compute in; the text is one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceilings:
    """What a device can do at most at one precision."""

    flops_per_s: float
    bytes_per_s: float
    launch_s: float
    """For issuing one operator."""
    evidence: Evidence
    source: str
    products_flops_per_s: float | None = None
    """Of matrix products, where these have another rate: PyTorch as it comes computes them in fp32 from Ampere on."""

    def rate(self, layer: LayerWork) -> float:
        """Operations a second that a layer can reach."""
        if self.products_flops_per_s and not layer.convolves:
            return self.products_flops_per_s
        return self.flops_per_s

    def scaled(self, reached: float) -> "Ceilings":
        """The same where kernels reach a share of the rates."""
        return replace(
            self,
            flops_per_s=reached * self.flops_per_s,
            products_flops_per_s=self.products_flops_per_s and reached * self.products_flops_per_s,
            bytes_per_s=reached * self.bytes_per_s,
        )

    @property
    def balance(self) -> float:
        """Operations a byte from which arithmetic dominates. 19.5 TFLOP/s and 1.5 TB/s: 13."""
        return self.flops_per_s / self.bytes_per_s

    def operations_per_value(self, value_bytes: int = 4) -> float:
        """Operations from which arithmetic dominates where a number is read and written once: balance x 2 x size.

        At 19.5 TFLOP/s and 1.5 TB/s a 4-byte float needs 13 x 2 x 4 = 104.
        """
        return self.balance * 2 * value_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerTime:
    """One layer of a batch on a device."""

    layer: LayerWork
    flops: float
    """Of the batch."""
    bytes: float
    """Moved by the batch."""
    arithmetic_s: float
    bandwidth_s: float
    overhead_s: float

    @property
    def time_s(self) -> float:
        """The longest of the three: they overlap."""
        return max(self.arithmetic_s, self.bandwidth_s, self.overhead_s)

    @property
    def intensity(self) -> float:
        """Operations a byte moved; 0 where nothing is moved."""
        return self.flops / self.bytes if self.bytes else 0.0

    @property
    def bound(self) -> Bound:
        """What takes longest."""
        return _longest({b: getattr(self, f"{b}_s") for b in (Bound.ARITHMETIC, Bound.BANDWIDTH, Bound.OVERHEAD)})


@dataclass(frozen=True, kw_only=True)
class Roofline:
    """A batch on a device, layer by layer."""

    layers: tuple[LayerTime, ...]
    ceilings: Ceilings
    batch: int
    precision: str

    @cached_property
    def total_s(self) -> float:
        """Layers run one after another: their times add up."""
        return sum(layer.time_s for layer in self.layers)

    @cached_property
    def flops(self) -> float:
        """Operations of the batch."""
        return sum(layer.flops for layer in self.layers)

    @cached_property
    def bytes(self) -> float:
        """Bytes moved by the batch."""
        return sum(layer.bytes for layer in self.layers)

    @cached_property
    def shares(self) -> Mapping[Bound, float]:
        """Share of the time in layers of each bound."""
        held = dict.fromkeys(Bound, 0.0)
        for layer in self.layers:
            held[layer.bound] += layer.time_s
        return {bound: time_s / self.total_s for bound, time_s in held.items() if time_s}

    @property
    def bound(self) -> Bound:
        """What holds most of the time."""
        return _longest(self.shares)


def latency_s(
    facts: Facts, gpu: GPU, batch: int, precision: str = "fp32", directories: Sequence[Path] = ()
) -> Roofline:
    """Each layer's time and the total (`.total_s`) of a batch of `facts` on `gpu`, under its `ceilings`."""
    return under(facts, ceilings(gpu, precision, directories), batch, precision)


def under(facts: Facts, limits: Ceilings, batch: int, precision: str = "fp32") -> Roofline:
    """No run is faster: a layer takes the longest of operations / rate, bytes / bandwidth and operators x launch time.

    1 GFLOP, 10 MB and 2 operators at 10 TFLOP/s, 1 TB/s and 5 us: 100 us, 10 us and 10 us, so 100 us.
    """
    size = value_share(precision)
    layers = tuple(_layer(layer, limits, batch, size) for layer in facts.layers)
    return Roofline(layers=layers, ceilings=limits, batch=batch, precision=precision)


def _layer(layer: LayerWork, limits: Ceilings, batch: int, size: float) -> LayerTime:
    flops, moved = batch * layer.flops, size * layer.bytes_of(batch)
    return LayerTime(
        layer=layer,
        flops=flops,
        bytes=moved,
        arithmetic_s=flops / limits.rate(layer),
        bandwidth_s=moved / limits.bytes_per_s,
        overhead_s=layer.kernels * limits.launch_s,
    )


def _longest(times: Mapping[Bound, float]) -> Bound:
    bound = max(times, key=times.__getitem__, default=Bound.NONE)
    return bound if times.get(bound) else Bound.NONE


# Ceilings

UNLIMITED = Ceilings(
    flops_per_s=math.inf, bytes_per_s=math.inf, launch_s=0.0, evidence=Evidence.ASSUMED, source="no device"
)
"""Of no device: operations and bytes are counted, and no time is."""


def vendor_ceilings(gpu: GPU, precision: str) -> Ceilings:
    """The vendor's peaks; the launch time is assumed."""
    return Ceilings(
        flops_per_s=peak_flops(gpu, precision),
        products_flops_per_s=gpu.fp32_flops if has_two_rates(gpu, precision) else None,
        bytes_per_s=gpu.memory_bytes_per_s,
        launch_s=LAUNCH_S,
        evidence=Evidence.ASSUMED,
        source=f"the vendor's peaks of the {gpu.name}; {LAUNCH_S * 1e6:.0f} us to issue an operator assumed",
    )


TENSOR_RATES = {
    "tf32": (0.5, (8, 0)),
    "bf16": (1.0, (8, 0)),
    "amp-bf16": (1.0, (8, 0)),
    "int8": (2.0, (7, 5)),
    "fp8": (2.0, (8, 9)),
}
"""Rates of NVIDIA's matrix units over that of fp16, and the compute capability from which they have them."""
PROCESSOR_PRECISIONS = ("fp32", "torch", "int8")
"""Half precision saves a processor little, and nobody publishes it."""
AMD_BF16 = ("gfx908", "gfx90a", "gfx94", "gfx95", "gfx11", "gfx12")
"""How AMD names the chips whose matrix units take bf16, at the rate of fp16: CDNA 1 to 4, RDNA 3 and 4."""


def peak_flops(gpu: GPU, precision: str) -> float:
    """Highest rate at a precision; PrecisionError where the GPU has none, or none that is known.

    The rate that the catalog states, else one by ratio, for vendors' tables agree on these: tf32 runs at half of fp16's
    rate on matrix units (from compute capability 8.0, as bf16 does at the same rate), int8 at twice that rate (from
    7.5). A T4: 65 TFLOP/s fp16, 130 TOP/s int8.
    """
    if precision not in VALUE_BYTES and precision not in TENSOR_RATES:
        raise PrecisionError(f"precision {precision}: is not known. Write one of {', '.join(VALUE_BYTES)}.")
    if gpu.cores:
        return _of_processor(gpu, precision)
    asked = computed_in(gpu, precision) if precision == "torch" else precision
    rate = _of_gpu(gpu, asked)
    if rate is None:
        raise PrecisionError(f"{gpu.name}: {why_not(gpu, asked)}. Name another --precision, e.g. fp32.")
    return rate


def _of_gpu(gpu: GPU, precision: str) -> float | None:
    tensor = gpu.tensor_fp16_flops
    if precision == "fp32" or (precision not in TENSOR_RATES and not tensor):
        return gpu.fp32_flops
    stated = {"tf32": gpu.tensor_tf32_flops, "int8": gpu.tensor_int8_flops, "fp8": gpu.tensor_fp8_flops}
    if rate := stated.get(precision):
        return rate
    share, since = TENSOR_RATES.get(precision, (1.0, (0,)))
    if not tensor or not (gpu.capability >= since or _is_amd_bf16(gpu, precision)):
        return None
    return share * tensor


def _is_amd_bf16(gpu: GPU, precision: str) -> bool:
    return precision in ("bf16", "amp-bf16") and gpu.compute_capability.startswith(AMD_BF16)


def why_not(gpu: GPU, precision: str) -> str:
    """Why a GPU has no rate at a precision: a kind that is known to lack it, or one of which nobody says.

    A V100 has no bf16. Of a GPU without a compute capability nothing follows, nor of one without a rate of fp16.
    """
    lacking = lacks_on_processor(gpu, precision) or lacks(gpu, precision)
    return f"computes nothing in {precision}" if lacking else f"its rate in {precision} is not known"


def lacks_on_processor(gpu: GPU, precision: str) -> bool:
    """Whether it is a processor, and a precision is none that these are planned at."""
    return gpu.is_processor and precision not in PROCESSOR_PRECISIONS


def lacks(gpu: GPU, precision: str) -> bool:
    """Whether a GPU's compute capability says that it has no such arithmetic."""
    _, since = TENSOR_RATES.get(precision, (1.0, (0,)))
    return (0,) < gpu.capability < since


def rate_held_to(gpu: GPU, precision: str) -> tuple[float, str]:
    """The highest rate that a speed stated at a precision can have had, and at which: fp16 where the GPU lacks it.

    125 TFLOP/s at fp16 of a V100, whatever is said of bf16.
    """
    computed = "fp16" if lacks(gpu, precision) else precision
    return peak_flops(gpu, computed), computed


def _of_processor(gpu: GPU, precision: str) -> float:
    """The rate at one of `PROCESSOR_PRECISIONS`."""
    rates = {"fp32": gpu.fp32_flops, "torch": gpu.fp32_flops, "int8": gpu.tensor_int8_flops}
    if rate := rates.get(precision):
        return rate
    raise PrecisionError(f"{gpu.name}: is a processor, planned at fp32 and int8 only. Name another --precision.")


def computed_in(gpu: GPU, precision: str) -> str:
    """The precision whose arithmetic counts: all are themselves but `torch`.

    PyTorch as it comes computes convolutions in tf32 from Ampere on, and matrix products in fp32: this is of the first.

    PrecisionError where the GPU has no such arithmetic.
    """
    if precision == "torch":
        return "tf32" if gpu.has_tf32 else "fp32"
    peak_flops(gpu, precision)
    return precision


def has_two_rates(gpu: GPU, precision: str) -> bool:
    """Whether convolutions and matrix products run at different precisions."""
    return precision == "torch" and gpu.has_tf32


def ceilings(gpu: GPU, precision: str, directories: Sequence[Path] = ()) -> Ceilings:
    """Measured ceilings where a device file in `directories`, or among the shipped, has them; else the vendor's.

    What one probe did not measure keeps the vendor's figure, and the source says which those are.
    """
    for device in chain(*map(_devices, directories), _shipped_devices()):
        if device.gpu == gpu.name and (found := probed(device.probes, precision)):
            return _combined(gpu, precision, found, device)
    return vendor_ceilings(gpu, precision)


class _ProbedDevice(NamedTuple):
    path: Path
    gpu: str
    probes: Probes
    evidence: Evidence

    @property
    def source(self) -> str:
        """The file, unless it is shipped."""
        return (
            f"shipped, of {with_article(self.gpu)}" if self.path.resolve().is_relative_to(SHIPPED) else str(self.path)
        )


@cache
def _shipped_devices() -> tuple[_ProbedDevice, ...]:
    """They stay as they are, and a training asks for them hundreds of times."""
    return tuple(_devices(SHIPPED))


def _devices(directory: Path) -> Iterator[_ProbedDevice]:
    for path in sorted(directory.rglob(DEVICE_FILE)):
        kind = read_kind(path)
        name = kind.name if kind else path.parent.name
        yield _ProbedDevice(path, name, read_probes(path), read_evidence(path))


def probed(values: Probes, precision: str) -> dict[str, float]:
    """Ceilings that the probes in a device file reached, by name; without those that did not run."""
    name = {"amp": "fp16", "amp-bf16": "bf16", "torch": "tf32"}.get(precision, precision)
    wanted = {
        "products_flops_per_s": values.get("matmul", {}).get("fp32_flops") if precision == "torch" else None,
        "flops_per_s": values.get("matmul", {}).get(f"{name}_flops"),
        "bytes_per_s": values.get("device_copy", {}).get("bytes_per_s"),
        "launch_s": values.get("launch", {}).get("queued_s"),
    }
    return {key: value for key, value in wanted.items() if value}


def _combined(gpu: GPU, precision: str, found: Mapping[str, float], device: _ProbedDevice) -> Ceilings:
    missing = [name for key, name in PROBED.items() if key not in found]
    products = found.get("products_flops_per_s") or gpu.fp32_flops
    return Ceilings(
        flops_per_s=found.get("flops_per_s") or peak_flops(gpu, precision),
        products_flops_per_s=products if has_two_rates(gpu, precision) else None,
        bytes_per_s=found.get("bytes_per_s") or gpu.memory_bytes_per_s,
        launch_s=found.get("launch_s") or LAUNCH_S,
        evidence=Evidence.ASSUMED if missing else device.evidence,
        source=device.source + (f"; not measured: {', '.join(missing)}" if missing else ""),
    )
