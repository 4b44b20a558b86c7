"""Devices: what measuring asks of a GPU or a CPU - wait until it is done, count its memory, copy, limit, let go."""

import gc
import os
import platform
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from calibrate.devices.nvml import Nvml, of_cuda
from calibrate.devices.timer import CpuTimer, CudaTimer, Timer

CPU_MEMORY_ERRORS = ("can't allocate memory", "not enough memory", "std::bad_alloc", "bad allocation")
CPU_PRIMITIVE_ERROR = "could not create a "
"""oneDNN says no more than this when memory ends; without a limit it can mean an operation it does not have."""
CUDA_MEMORY_ERRORS = (
    "CUDA out of memory",
    "CUDA error: out of memory",
    "CUDA driver error: out of memory",
    "NVML_SUCCESS == r INTERNAL ASSERT FAILED",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
)
CUDA_HANDLE_ERRORS = ("CUBLAS_STATUS_NOT_INITIALIZED", "CUDNN_STATUS_NOT_INITIALIZED", "CUDNN_STATUS_INTERNAL_ERROR")
"""Errors of libraries that find no memory for themselves; count as such only where little is free."""
CUDA_ENGINE_ERRORS = (
    "unable to find an engine to execute this computation",
    "Unable to find a valid cuDNN algorithm to run convolution",
)
"""cuDNN found no algorithm: none exists for such tensors, or none whose workspace fits beside them."""
SHARED_COUNT = "CUDA, all processes"
"""How memory is read where this process cannot be told from others."""
LITTLE_BYTES = 256 << 20
LARGEST_L2_BYTES = 128 << 20
CROWDED = 0.5
"""Share of the allowed memory above which cuDNN is taken to have lacked room for a workspace. Workspaces are about as
large as the tensors they serve, so a GPU that was never half full had room for one."""


FIRST_OPENING: dict[int, tuple[int | None, int | None]] = {}
"""By GPU: bytes in use before this process had a context there, and bytes that its context then held. A context lasts
as long as the process, so that later openings find it, with kernels loaded since."""


class DeviceError(ValueError):
    """A device that is not there or a limit it cannot keep; one line that says what is there and what to do."""

    def __init__(self, what: str, remedy: str, option: str = "--device") -> None:
        super().__init__(f"{option}: {what}. {remedy}")
        self.what = what
        self.remedy = remedy


class OutOfMemoryError(RuntimeError):
    """The device's memory, or the limit set for it, did not suffice."""


@dataclass(frozen=True, slots=True)
class Peaks:
    """Most memory held while something ran."""

    allocated_bytes: int
    """By tensors, as torch's allocator counts them."""
    reserved_bytes: int | None
    """Held by the allocator, freed blocks included; None where it keeps none (CPU)."""
    device_bytes: int | None
    """Held by the process as the system sees it."""
    method: str
    """How `device_bytes` was read."""


@dataclass(slots=True)
class Cpu:
    """The processor and main memory of this machine."""

    kind: str = "cpu"
    label: str = "cpu"
    """As torch names it."""
    nvml: Nvml = field(default_factory=lambda: Nvml(why_not="a CPU has no NVML"))
    context_bytes: int | None = None
    """Held by a process before any model: Python and torch. Known once open."""
    limit_bytes: int | None = None
    _profiler_bytes: int = 0
    """Held by torch's profiler, which running a model does not need."""

    @property
    def name(self) -> str:
        """E.g. `AMD EPYC 7B13`."""
        try:
            found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        except OSError:
            found = None
        return found[1].strip() if found else platform.processor() or platform.machine()

    def open(self, limit_bytes: int | None = None) -> None:
        """Starts torch's threads, then lets the process's memory grow to `limit_bytes` at most.

        Call it before a model is built: `context_bytes` is read here.
        """
        # Must be there before torch loads its profiler, which else writes a line for each start and stop to stderr.
        os.environ.setdefault("KINETO_LOG_LEVEL", "99")
        import torch

        torch.ones(1 << 20).sum()  # OpenMP ends the process if it cannot start its threads, so start them unlimited
        self.context_bytes = process_bytes("VmRSS")
        _allocated_peak_bytes(lambda: None)
        self._profiler_bytes = (process_bytes("VmRSS") or 0) - (self.context_bytes or 0)
        _settle()
        if limit_bytes is not None:
            self._limit(limit_bytes)

    def synchronise(self) -> None:
        """Nothing to wait for: an operation is done when its call returns."""

    def release(self) -> None:
        """Nothing to give back: memory is freed with its tensor."""

    def empty_caches(self) -> None:
        """Frees what only cycles hold."""
        gc.collect()

    def allocated_bytes(self) -> int | None:
        """None: torch keeps no account of main memory."""
        return None

    def timer(self) -> Timer:
        """Wall clock alone."""
        return CpuTimer()

    def memory_bytes(self) -> int:
        """Memory of the machine, or the limit if one is set."""
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return min(total, self.limit_bytes or total)

    def room_bytes(self) -> int | None:
        """Bytes that the process may still take of its limit; None where it has none."""
        return None if self.limit_bytes is None else max(0, self.limit_bytes - (process_bytes("VmRSS") or 0))

    def peaks(self, work: Callable[[], object], resident_bytes: int = 0) -> Peaks:
        """Most memory held during `work`, run twice: once for the process, once for the allocator's own account.

        `resident_bytes` is what tensors hold before; on top comes what torch's profiler sees allocated and freed, to
        the byte and temporaries within operations included. The process: `VmHWM`, set back before.
        """
        self.empty_caches()
        reset = _reset_high_water_mark()
        work()
        held = process_bytes("VmHWM")
        held = held and held - self._profiler_bytes
        method = "resident set, highest (VmHWM)" + ("" if reset else " since the process began")
        return Peaks(resident_bytes + _allocated_peak_bytes(work), None, held, method)

    def pin(self, tensors: Sequence[Any]) -> list[Any] | None:
        """None: memory is pinned for a GPU only."""
        return None

    def is_out_of_memory(self, error: BaseException) -> bool:
        """True where `error` says that memory ended."""
        limited = self.limit_bytes is not None and CPU_PRIMITIVE_ERROR in str(error)
        return isinstance(error, MemoryError) or limited or any(text in str(error) for text in CPU_MEMORY_ERRORS)

    def refuse(self, precision: str) -> str:
        """Why it does not compute in `precision`; empty if it does."""
        return "tf32 is a format of NVIDIA GPUs. Choose fp32 or bf16" if precision == "tf32" else ""

    def _limit(self, limit_bytes: int) -> None:
        """Bounds the address space, which already holds more than is used, so that use can grow up to the limit."""
        used, space = process_bytes("VmRSS"), process_bytes("VmSize")
        if used is None or space is None:
            raise DeviceError("cannot be kept here, only on Linux", "Leave it out", "--memory")
        if limit_bytes <= used:
            raise DeviceError(
                f"{limit_bytes / 1e6:.0f} MB is less than the {used / 1e6:.0f} MB that torch holds without a model",
                "Allow more",
                "--memory",
            )
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        wanted = space + limit_bytes - used
        resource.setrlimit(resource.RLIMIT_AS, (wanted if hard < 0 else min(wanted, hard), hard))
        self.limit_bytes = limit_bytes


@dataclass(slots=True)
class Cuda:
    """One NVIDIA GPU."""

    index: int
    """Among those CUDA shows to this process."""
    kind: str = "cuda"
    nvml: Nvml = field(default_factory=Nvml)
    context_bytes: int | None = None
    """Held by a process before any model: CUDA's context. Known once open, if at all."""
    limit_bytes: int | None = None
    _used_before: int | None = None
    """Bytes in use on the GPU before this process had a context."""

    @property
    def label(self) -> str:
        """As torch names it."""
        return f"cuda:{self.index}"

    @property
    def name(self) -> str:
        """E.g. `NVIDIA H200`."""
        return str(self._properties().name)

    def open(self, limit_bytes: int | None = None) -> None:
        """Makes the context, reads what it holds, then bounds the allocator to `limit_bytes`.

        Call it before torch uses the GPU: without process numbers from NVML the context is what use grew by.
        """
        import torch

        self.nvml = of_cuda(self._properties())
        first = self.index not in FIRST_OPENING
        if first:  # at once: where what follows fails, its context is there at the next opening all the same
            FIRST_OPENING[self.index] = self.nvml.memory_used_bytes(), None
        self._used_before = FIRST_OPENING[self.index][0]
        _cuda().set_device(self.index)
        torch.zeros(1, device=self.label)
        self.synchronise()
        _settle()
        if first:
            known = self._used_before is not None
            context_bytes = self.held()[0] - _cuda().memory_reserved(self.index) if known else None
            FIRST_OPENING[self.index] = self._used_before, context_bytes
        self.context_bytes = FIRST_OPENING[self.index][1]
        if limit_bytes is not None:
            self._limit(limit_bytes)

    def synchronise(self) -> None:
        """Waits until all streams are done. Errors of kernels started before are raised here."""
        _cuda().synchronize(self.index)

    def release(self) -> None:
        """Gives freed blocks back to the driver."""
        _cuda().empty_cache()

    def empty_caches(self) -> None:
        """Frees what only cycles hold, then gives all freed blocks back."""
        gc.collect()
        self.release()

    def allocated_bytes(self) -> int | None:
        """Held by tensors now."""
        return int(_cuda().memory_allocated(self.index))

    def timer(self) -> Timer:
        """Wall clock and CUDA events."""
        return CudaTimer(self.index)

    def memory_bytes(self) -> int:
        """Memory of the GPU as CUDA sees it."""
        return int(self._properties().total_memory)

    def l2_bytes(self) -> int:
        """Size of its L2 cache; of the largest there is where torch does not tell it (before 2.1)."""
        return int(getattr(self._properties(), "L2_cache_size", LARGEST_L2_BYTES))

    def held(self) -> tuple[int, str]:
        """Bytes this process holds on the GPU now, and how that was read."""
        if (own := self.nvml.process_bytes()) is not None:
            return own, "NVML, this process"
        used = self.nvml.memory_used_bytes()
        if used is not None and self._used_before is not None:
            return used - self._used_before, "NVML, grown since before this process"
        free, total = _cuda().mem_get_info(self.index)
        return total - free, SHARED_COUNT

    def peaks(self, work: Callable[[], object], resident_bytes: int = 0) -> Peaks:
        """Most memory held during `work`, run once. The allocator counts what is resident itself.

        The process is read after the work: the allocator keeps its blocks, so it still holds the most it had.
        """
        self.empty_caches()
        _cuda().reset_peak_memory_stats(self.index)
        work()
        self.synchronise()
        held, method = self.held()
        allocated = _cuda().max_memory_allocated(self.index)
        return Peaks(allocated, _cuda().max_memory_reserved(self.index), held, method)

    def pin(self, tensors: Sequence[Any]) -> list[Any] | None:
        """Copies in pinned memory, from which the GPU fetches without the CPU; None if the host gives none."""
        try:
            return [tensor.pin_memory() for tensor in tensors]
        except RuntimeError:
            return None

    def is_out_of_memory(self, error: BaseException) -> bool:
        """True where `error` says that memory ended."""
        if isinstance(error, MemoryError | _cuda().OutOfMemoryError):
            return True
        text = str(error)
        if any(sign in text for sign in (*CUDA_MEMORY_ERRORS, *CPU_MEMORY_ERRORS)):
            return True
        if any(sign.lower() in text.lower() for sign in CUDA_ENGINE_ERRORS):
            return self._was_crowded()
        return any(sign in text for sign in CUDA_HANDLE_ERRORS) and self._free_bytes() < LITTLE_BYTES

    def refuse(self, precision: str) -> str:
        """Why it does not compute in `precision`; empty if it does."""
        major, minor = _cuda().get_device_capability(self.index)
        if precision in ("tf32", "bf16", "amp-bf16") and major < 8:
            return f"{precision} needs compute capability 8.0, {self.name} has {major}.{minor}. Choose fp32 or fp16"
        return ""

    def _limit(self, limit_bytes: int) -> None:
        total = self.memory_bytes()
        if not 0 < limit_bytes <= total:
            raise DeviceError(
                f"must be above 0 and at most the {total / 1e9:.1f} GB of {self.label}, got {limit_bytes / 1e9:.1f} GB",
                "Allow what it has",
                "--memory",
            )
        _cuda().set_per_process_memory_fraction(limit_bytes / total, self.index)
        self.limit_bytes = limit_bytes

    def _was_crowded(self) -> bool:
        """True where the allocator's peak, beside what others hold, took most of what is allowed."""
        try:
            free, total = _cuda().mem_get_info(self.index)
            others = total - free - _cuda().memory_reserved(self.index)
            peak = _cuda().max_memory_reserved(self.index)
        except RuntimeError:  # the context is broken by an earlier error: then memory is not what was missing
            return False
        return bool(peak > CROWDED * (min(total, self.limit_bytes or total) - others))

    def _free_bytes(self) -> int:
        try:
            return int(_cuda().mem_get_info(self.index)[0])
        except RuntimeError:  # the context is broken by an earlier error: then memory is not what was missing
            return LITTLE_BYTES

    def _properties(self) -> Any:
        return _cuda().get_device_properties(self.index)


Device = Cpu | Cuda


def find_device(text: str) -> Device:
    """The device called `cpu`, `cuda` or `cuda:1`, not yet open; `DeviceError` if it is not there."""
    match = re.fullmatch(r"cpu|cuda(?::(\d{1,4}))?", text)
    if match is None:
        raise DeviceError(f"{text!r} is not known", "Write cpu, or cuda:0 for the first GPU")
    try:
        import torch
    except ImportError:
        raise DeviceError("torch is not installed, measuring needs it", "pip install torch") from None
    if text == "cpu":
        return Cpu()
    if rocm := getattr(torch.version, "hip", None):
        built = f"torch {torch.__version__} is built for ROCm {rocm}, and GPUs of AMD are not measured"
        raise DeviceError(f"{text}: {built}", "Write cpu, or measure a GPU of NVIDIA")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    index = int(match[1] or 0)
    return Cuda(index) if index < count else _refuse_index(index, count, torch)


def process_bytes(key: str) -> int | None:
    """A figure of this process that Linux keeps, e.g. `VmRSS`, `VmHWM`, `VmSize`; None elsewhere."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return None
    found = re.search(rf"^{key}:\s+(\d+) kB", status, re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def _cuda() -> Any:
    """torch's part for CUDA, imported where it is first needed."""
    import torch

    return torch.cuda


def _settle() -> None:
    """Take what is loaded by now out of the search for cycles, which would take 0.2 s each time, runs included."""
    gc.collect()
    gc.freeze()


def _refuse_index(index: int, count: int, torch: Any) -> NoReturn:
    if count:
        shown = "cuda:0" if count == 1 else f"one of cuda:0 to cuda:{count - 1}"
        raise DeviceError(f"cuda:{index} is not there, CUDA finds {count} GPU(s)", f"Write {shown}")
    if torch.version.cuda is None:
        why, remedy = f"torch {torch.__version__} is built without CUDA", "Install torch for CUDA"
    else:
        why, remedy = "CUDA finds no GPU", "See what planner doctor says"
    raise DeviceError(f"cuda:{index} is not there, {why}", f"{remedy}, or write cpu")


def _reset_high_water_mark() -> bool:
    """Sets `VmHWM` to what is held now (proc(5), clear_refs, value 5)."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def _allocated_peak_bytes(work: Callable[[], object]) -> int:
    """Most bytes that torch's CPU allocator gave out during `work` and had not got back."""
    # Not `torch.profiler`, which is this one inside: it imports torch's compiler, 1.5 s in each process.
    from torch.autograd.profiler import profile

    with profile(use_kineto=True, profile_memory=True) as recorded:
        work()
    events = [event for event in recorded.kineto_results.events() if event.name() == "[memory]"]
    return peak_bytes([event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())])


def peak_bytes(changes: Sequence[int]) -> int:
    """Highest running sum, at least 0. 100, 50, -100, 20: 150."""
    held = peak = 0
    for change in changes:
        held += change
        peak = max(peak, held)
    return peak
