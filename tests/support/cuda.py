"""An NVIDIA GPU in imitation, on a torch without CUDA: every line of ours that is for CUDA runs, on the processor.

Tensors lie in main memory and are noted as the GPU's. The GPU has a clock of its own: kernels queue behind each other,
each takes `kernel_s`, and who synchronises waits. Memory is counted from the tensors that are alive. `pynvml` beside
(`cuda_site`) answers for the same GPU, in all processes. What it tells of torch: names, arguments, what waits for what.
"""

import functools
import importlib.abc
import importlib.util
import json
import os
import sys
import threading
import time
import weakref
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import SimpleNamespace

SITE = Path(__file__).parent / "cuda_site"
"""Holds `pynvml`, and a `sitecustomize` that calls `activate_on_import`."""
KNOBS = "IMITATED_GPU"
"""Environment variable that hands the knobs to processes that are started."""
UUID = "3f2c6d10-0000-4000-8000-0123456789ab"
BUS = "00000000:1a:00.0"
BLOCK = 2 << 20
"""What the allocator asks the driver for at a time."""
BUSY_W, IDLE_W = 400.0, 70.0
GAP_S = 0.25
"""Power is told as a mean over up to a second: for so long after a kernel no rest is seen, however late the next is."""


@dataclass
class Knobs:
    """How the GPU is."""

    name: str = "NVIDIA H100 80GB HBM3"
    capability: tuple = (9, 0)
    memory_bytes: int = 85_000_000_000
    l2_bytes: int = 50 << 20
    kernel_s: float = 0.0
    """Time of each kernel on the GPU."""
    cold_s: float = 0.0
    """More for the first kernel after a write of more than the L2 cache holds."""
    crowding: float = 0.0
    """Share by which a copy beside kernels takes longer."""
    context_bytes: int = 500 << 20
    kernels_bytes: int = 200 << 20
    """Held once a kernel has run: libraries load theirs then."""
    reads: tuple = ("energy", "power", "processes")
    """What NVML tells."""
    capped_after_s: float = 1e9
    """Seconds of kernels after which power is capped, and kernels take a quarter longer."""
    hidden_uuid: bool = False
    """As torch before 2.5, which does not tell it."""
    folder: str = ""
    """Where processes note what they hold, so that each knows of all."""


@dataclass
class Gpu:
    """The state of it in this process."""

    knobs: Knobs = field(default_factory=lambda: Knobs(**json.loads(os.environ.get(KNOBS, "{}"))))
    free_at: float = 0.0
    copied_at: float = 0.0
    """When the last copy of a stream of its own is done: another engine than that of kernels."""
    beside: bool = False
    """Whether such a stream is the current one."""
    worked_s: float = 0.0
    powered_s: float = 0.0
    """Seconds of kernels, and of gaps between them too short to be seen."""
    waited: bool = True
    """Whether the host waited since the last kernel."""
    running: int = 0
    cold: bool = False
    capturing: object = None
    is_open: bool = False
    kernels: int = 0
    syncs: list = field(default_factory=list)
    """What the host waited for, other than `synchronize`: copies from pageable memory, and reading numbers."""
    sizes: dict = field(default_factory=dict)
    """Bytes of storages that are alive, by address of the storage."""
    peak: int = 0
    reserved: int = 0
    peak_reserved: int = 0
    share: float = 1.0
    autocasts: list = field(default_factory=list)
    said: tuple = ()
    """Process and bytes that other processes were told last."""

    @property
    def allocated(self):
        return sum(self.sizes.values())

    @property
    def is_busy(self):
        """A host that is late with the next kernel leaves no rest; one that waited until all was done does."""
        gap_s = 0.0 if self.waited else GAP_S
        return self.running > 0 or time.perf_counter() < self.free_at + gap_s

    @property
    def is_capped(self):
        return self.worked_s > self.knobs.capped_after_s

    @property
    def power_w(self):
        return BUSY_W if time.perf_counter() < self.free_at + GAP_S else IDLE_W

    @property
    def energy_j(self):
        """Since the clock began: what is queued is not drawn yet."""
        now_s = time.perf_counter()
        powered_s = self.powered_s + min(GAP_S, now_s - self.free_at)
        return BUSY_W * powered_s + IDLE_W * (now_s - powered_s)

    def kernel(self):
        self.kernels += 1
        if self.capturing is not None:
            self.capturing.kernels += 1
            return
        self.queue(1)

    def queue(self, count, seconds=None):
        each = self.knobs.kernel_s * (1.25 if self.is_capped else 1.0)
        took = count * each if seconds is None else seconds
        if self.cold and seconds is None:
            took += self.knobs.cold_s
            self.cold = False
        now_s = time.perf_counter()
        self.waited = False
        self.worked_s += took
        self.powered_s += took + min(GAP_S, max(0.0, now_s - self.free_at))
        self.free_at = max(self.free_at, now_s) + took

    def copy(self):
        """A copy between host and GPU."""
        if not self.beside:
            self.queue(1)
            return
        self.copied_at = max(self.copied_at, time.perf_counter()) + self.knobs.kernel_s * (1 + self.knobs.crowding)

    def wait(self):
        if self.capturing is not None:
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing")
        while (left := max(self.free_at, self.copied_at) - time.perf_counter()) > 0:
            time.sleep(left)
        self.waited = True

    def hold(self, storage):
        """Note a storage as the GPU's."""
        key = storage._cdata
        size = storage.nbytes()
        if key in self.sizes:
            return
        self.note()
        if self.allocated + size > self.share * self.knobs.memory_bytes - self.knobs.context_bytes:
            import torch

            raise torch.cuda.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {size / 2**20:.2f} MiB")
        self.sizes[key] = size
        weakref.finalize(storage, self.sizes.pop, key, None)
        self.peak = max(self.peak, self.allocated)
        self.reserve(max(self.reserved, -(-self.allocated // BLOCK) * BLOCK))

    def reserve(self, size):
        self.reserved = size
        self.peak_reserved = max(self.peak_reserved, size)
        self.note()

    def note(self):
        """Tell other processes what this one holds."""
        self.is_open = True
        said = (os.getpid(), self.held)
        if self.knobs.folder and said != self.said:  # writing it anew with each tensor takes longer than the work
            Path(self.knobs.folder, str(said[0])).write_text(str(said[1]))
            self.said = said

    @property
    def held(self):
        """Bytes that this process holds as the driver sees it."""
        if not self.is_open:
            return 0
        return self.knobs.context_bytes + (self.knobs.kernels_bytes if self.kernels > 1 else 0) + self.reserved

    def others(self):
        """Bytes by process, without this one."""
        found = {}
        for path in Path(self.knobs.folder).iterdir() if self.knobs.folder else ():
            if path.name != str(os.getpid()) and Path("/proc", path.name).exists():
                found[int(path.name)] = int(path.read_text() or 0)
        return found

    @property
    def used(self):
        return self.held + sum(self.others().values())


GPU = Gpu()


def environment(**knobs):
    """Variables for a process that shall have the GPU too."""
    paths = [str(SITE), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {KNOBS: json.dumps(asdict(Knobs(**knobs))), "PYTHONPATH": os.pathsep.join(paths)}


def activate_on_import():
    """Once torch is imported, it has the GPU."""
    if "torch" in sys.modules:
        sys.modules.pop("pynvml", None)  # which torch imported: the one of this GPU is found first now
        activate()
    else:
        sys.meta_path.insert(0, _Watch())


class _Watch(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            activate()

        spec.loader.exec_module = exec_module
        return spec


def activate():
    """Give torch the GPU, for as long as the process lives."""
    _activated(_Patches())


@contextmanager
def imitated(**knobs):
    """Give torch the GPU for a while; yields its state."""
    patches = _Patches()
    before = dict(GPU.__dict__)
    module = sys.modules.get("pynvml")
    GPU.__dict__.update(Gpu(Knobs(**knobs)).__dict__)
    spec = importlib.util.spec_from_file_location("pynvml", SITE / "pynvml.py")
    stub = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(stub)
    sys.modules["pynvml"] = stub
    leave = _activated(patches)
    try:
        yield GPU
    finally:
        leave()
        patches.undo()
        GPU.__dict__.update(before)
        sys.modules.pop("pynvml")
        if module is not None:
            sys.modules["pynvml"] = module


class _Patches:
    def __init__(self):
        self.before = []

    def set(self, owner, **values):
        for name, value in values.items():
            self.before.append((owner, name, getattr(owner, name, None)))
            setattr(owner, name, value)

    def undo(self):
        for owner, name, value in reversed(self.before):
            setattr(owner, name, value)


def _activated(patches):
    """Patch torch; returns what ends the modes of this thread."""
    import torch
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    device_of, is_cuda = torch.Tensor.device.__get__, torch.Tensor.is_cuda.__get__

    def ours(tensor):
        return tensor.untyped_storage()._cdata in GPU.sizes

    def leaves(nested):
        return [leaf for leaf in torch.utils._pytree.tree_leaves(nested) if isinstance(leaf, torch.Tensor)]

    def held(nested):
        for tensor in leaves(nested):
            GPU.hold(tensor.untyped_storage())
        return nested

    def is_gpu(device):
        if isinstance(device, int) and not isinstance(device, bool):
            return True
        return isinstance(device, str | torch.device) and str(device).startswith("cuda")

    class Kernels(TorchDispatchMode):
        """Operators on the GPU's tensors are kernels; their results lie there too."""

        @classmethod
        def _should_skip_dynamo(cls):
            return False  # or torch would import its compiler at the first tensor

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            known = any(map(ours, leaves((args, kwargs))))
            if not known:
                return func(*args, **(kwargs or {}))
            GPU.running += 1
            try:
                found = func(*args, **(kwargs or {}))
            finally:
                GPU.running -= 1
            if func is torch.ops.aten.copy_.default and not ours(args[1]):
                GPU.copy()
                if not kwargs or not kwargs.get("non_blocking"):
                    GPU.syncs.append("copy")
                return found
            held(found)
            views = {tensor.untyped_storage()._cdata for tensor in leaves(args)}
            fresh = [tensor for tensor in leaves(found) if tensor.untyped_storage()._cdata not in views]
            if fresh or func._schema.is_mutable:
                GPU.kernel()
                written = args[0] if args and isinstance(args[0], torch.Tensor) else None
                if func is torch.ops.aten.zero_.default and written.nbytes > GPU.knobs.l2_bytes:
                    GPU.cold = True
            return found

    class Devices(TorchFunctionMode):
        """`cuda:0` wherever a device is named is main memory, noted as the GPU's."""

        def __torch_function__(self, func, types, args=(), kwargs=None):
            kwargs = dict(kwargs or {})
            name = getattr(func, "__name__", "")
            if func == device_of:
                return torch.device("cuda", 0) if ours(args[0]) else func(*args)
            if func == is_cuda:
                return ours(args[0])
            if func in (torch.Tensor.item, torch.Tensor.tolist) and ours(args[0]):
                GPU.syncs.append(name)
                GPU.wait()
                return func(*args)
            if func is torch.Tensor.pin_memory:
                return args[0].clone()
            if func is torch.Tensor.is_pinned:
                return False
            kwargs.pop("pin_memory", None)
            if func in (torch.Tensor.to, torch.Tensor.cuda, torch.Tensor.cpu):
                return self.moved(func, args, kwargs)
            if is_gpu(kwargs.get("device")):
                kwargs["device"] = "cpu"
                if name == "tensor":
                    GPU.syncs.append("tensor")
                return held(func(*args, **kwargs))
            if is_gpu(kwargs.get("map_location")):
                kwargs["map_location"] = "cpu"
            return func(*args, **kwargs)

        def moved(self, func, args, kwargs):
            tensor, *rest = args
            named = [arg for arg in (*rest, *kwargs.values()) if isinstance(arg, str | torch.device)]
            there = func is torch.Tensor.cuda or any(map(is_gpu, named))
            away = func is torch.Tensor.cpu or any(str(device) == "cpu" for device in named)
            if there or away:
                rest = ["cpu" if isinstance(arg, str | torch.device) else arg for arg in rest]
                kwargs = {k: "cpu" if isinstance(v, str | torch.device) else v for k, v in kwargs.items()}
            if not (there or away) or there == ours(tensor):
                return torch.Tensor.to(tensor, *(rest or ([] if kwargs else ["cpu"])), **kwargs)
            if not kwargs.get("non_blocking"):
                GPU.syncs.append("copy")
                GPU.wait()
            found = torch.Tensor.to(tensor, *(rest or ["cpu"]), **kwargs)
            if found.untyped_storage()._cdata == tensor.untyped_storage()._cdata:
                with torch._C.DisableTorchFunction():
                    found = found.detach().clone().requires_grad_(tensor.requires_grad and tensor.is_leaf)
            if there:
                GPU.queue(1)
                held(found)
            else:
                GPU.sizes.pop(found.untyped_storage()._cdata, None)
            return found

    def entered():
        modes = (Kernels(), Devices())
        for mode in modes:
            mode.__enter__()
        return modes

    def left(modes):
        for mode in reversed(modes):
            mode.__exit__(None, None, None)

    run = threading.Thread.run

    @functools.wraps(run)
    def run_with_gpu(self):
        modes = entered()
        try:
            run(self)
        finally:
            left(modes)

    class Event:
        def __init__(self, enable_timing=False, **_):
            self.at = 0.0

        def record(self, stream=None):
            self.at = max(time.perf_counter(), GPU.free_at)

        def elapsed_time(self, end):
            return (end.at - self.at) * 1e3

        def synchronize(self):
            GPU.wait()

        def query(self):
            return time.perf_counter() >= self.at

    class Stream:
        def __init__(self, device=None, **_):
            self.device = device

        def synchronize(self):
            GPU.wait()

        def wait_stream(self, other):
            pass

        def wait_event(self, event):
            pass

        def record_event(self, event=None):
            event = event or Event()
            event.record(self)
            return event

    class Graph:
        kernels = 0

        def replay(self):
            GPU.queue(self.kernels)

        def reset(self):
            self.kernels = 0

        def pool(self):
            return 0, 0

    @contextmanager
    def capture(graph, *_, **__):
        GPU.wait()
        GPU.capturing = graph
        try:
            yield
        finally:
            GPU.capturing = None

    @contextmanager
    def nothing(*_, **__):
        yield

    @contextmanager
    def on_stream(chosen):
        before, GPU.beside = GPU.beside, chosen is not None and chosen is not stream
        try:
            yield
        finally:
            GPU.beside = before

    def properties(*_):
        uuid = {} if GPU.knobs.hidden_uuid else {"uuid": UUID}
        return SimpleNamespace(
            name=GPU.knobs.name,
            total_memory=GPU.knobs.memory_bytes,
            major=GPU.knobs.capability[0],
            minor=GPU.knobs.capability[1],
            multi_processor_count=132,
            L2_cache_size=GPU.knobs.l2_bytes,
            pci_domain_id=0,
            pci_bus_id=0x1A,
            pci_device_id=0,
            **uuid,
        )

    def waited(*_):
        GPU.wait()

    def reset_peak(*_):
        GPU.peak, GPU.peak_reserved = GPU.allocated, GPU.reserved

    def emptied():
        GPU.reserve(-(-GPU.allocated // BLOCK) * BLOCK)

    def limited(share, *_):
        GPU.share = share

    def slept(cycles):
        GPU.queue(0, cycles / 1.98e9)

    autocast, generator, load = torch.autocast, torch.Generator, torch.load

    class Generator(generator):
        def __new__(cls, device="cpu"):
            return super().__new__(cls, "cpu")

    class Autocast(autocast):
        def __init__(self, device_type, dtype=None, **more):
            if device_type == "cuda":
                device_type, dtype = "cpu", dtype or torch.float16
                GPU.autocasts.append(dtype)
            super().__init__(device_type, dtype=dtype, **more)

    def loaded(file, map_location=None, **more):
        gpu = is_gpu(map_location)
        found = load(file, "cpu" if gpu else map_location, **more)
        return held(found) if gpu else found

    patches.set(threading.Thread, run=run_with_gpu)
    patches.set(torch, autocast=Autocast, Generator=Generator, load=loaded)
    patches.set(torch.version, cuda="13.0")
    stream = Stream()
    patches.set(
        torch.cuda,
        is_available=lambda: True,
        device_count=lambda: 1,
        current_device=lambda: 0,
        set_device=lambda *_: GPU.note(),
        synchronize=waited,
        empty_cache=emptied,
        memory_allocated=lambda *_: GPU.allocated,
        max_memory_allocated=lambda *_: GPU.peak,
        memory_reserved=lambda *_: GPU.reserved,
        max_memory_reserved=lambda *_: GPU.peak_reserved,
        reset_peak_memory_stats=reset_peak,
        mem_get_info=lambda *_: (GPU.knobs.memory_bytes - GPU.used, GPU.knobs.memory_bytes),
        get_device_properties=properties,
        get_device_capability=lambda *_: tuple(GPU.knobs.capability),
        get_device_name=lambda *_: GPU.knobs.name,
        get_arch_list=lambda: ["sm_80", "sm_90"],
        set_per_process_memory_fraction=limited,
        can_device_access_peer=lambda *_: False,
        current_stream=lambda *_: stream,
        Stream=Stream,
        Event=Event,
        stream=on_stream,
        device=nothing,
        CUDAGraph=Graph,
        graph=capture,
        _sleep=slept,
    )
    patches.set(
        torch.accelerator,
        is_available=lambda: True,
        current_accelerator=lambda *_, **__: torch.device("cuda"),
        current_device_index=lambda: 0,
        set_device_index=lambda *_: None,
    )
    modes = entered()
    return lambda: left(modes)
