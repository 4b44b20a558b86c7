"""Loads: times of bringing a model's weights to a device, from memory and from disk. Needs torch."""

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from calibrate.devices.device import Cpu, Device
from calibrate.devices.timer import StopRule, Timer, sample, warm_up

PREFIXES = (0.125, 0.25, 0.5, 1.0)
"""Shares of a model's tensors that are loaded, to tell the time per tensor from the time per byte."""
FEW = 5
"""Repeats of what is one of many figures."""
COOLING = 2
"""Times the largest cache: so much is touched to empty it."""
USUAL_CACHE_BYTES = 32 << 20


def load_peak_bytes(weights: Sequence[torch.Tensor], device: Device) -> int:
    """Most memory while weights are brought in."""
    device.empty_caches()
    before = device.allocated_bytes() or 0
    return device.peaks(lambda: _fetched(weights, device)).allocated_bytes - before


def _fetched(weights: Sequence[torch.Tensor], device: Device) -> list[torch.Tensor]:
    return [weight.to(device.label, copy=True) for weight in weights]


def copying(source: Sequence[torch.Tensor], device: Device) -> Callable[[], None]:
    """Copies weights to memory at hand on a device."""
    targets = [torch.empty_like(tensor, device=device.label) for tensor in source]

    def run() -> None:
        for target, tensor in zip(targets, source, strict=True):
            target.copy_(tensor, non_blocking=True)

    return run


@dataclass(frozen=True, slots=True)
class Cooler:
    """Drives what was copied last out of a processor's caches: weights that are loaded again were away for a while.

    A GPU's copies come from main memory by themselves.
    """

    others: torch.Tensor | None
    """Touched instead."""
    cache_bytes: int

    def __call__(self) -> torch.Tensor | None:
        return None if self.others is None else self.others.add_(1)

    @property
    def details(self) -> dict[str, Any]:
        """The amount that was touched, where that leaves something in the caches."""
        touched = self.others.nbytes if self.others is not None else 0
        return {"cooled_bytes": touched, "cache_bytes": self.cache_bytes} if touched < self.cache_bytes else {}


def cooler(device: Device) -> Cooler:
    """Touches the largest cache some times over; where memory is limited, no more than half of what is left."""
    if not isinstance(device, Cpu):
        return Cooler(None, 0)
    cache, room = _cache_bytes(), device.room_bytes()
    wanted = COOLING * cache if room is None else min(COOLING * cache, room // 2)
    return Cooler(torch.zeros(wanted, dtype=torch.uint8), cache)


def _cache_bytes() -> int:
    """Size of the first processor's largest cache; `USUAL_CACHE_BYTES` where the system does not state it."""
    sizes = [path.read_text().strip() for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    return max((int(size[:-1]) << 10 for size in sizes if size.endswith("K")), default=USUAL_CACHE_BYTES)


@dataclass(frozen=True, slots=True)
class Loads:
    """Takes the times of bringing weights to a device."""

    device: Device
    rule: StopRule
    timer: Timer
    cool: Cooler

    def copies(self, source: Sequence[torch.Tensor]) -> list[float]:
        """Times of copying `source` over tensors that are there: as after an eviction, when memory is at hand."""
        run = copying(source, self.device)
        warm_up(self.timer, run, self.rule)
        return list(sample(self.timer, run, self.rule, self.cool).wall_s)

    def by_size(self, sources: Mapping[str, Sequence[torch.Tensor]]) -> list[dict[str, Any]]:
        """Times by bytes, from the first tensors of the model to all."""
        weights = sources["pageable_s"]
        listed = []
        for count in sorted({max(1, round(share * len(weights))) for share in PREFIXES}):
            times = {kind: self._a_few(copying(held[:count], self.device)) for kind, held in sources.items()}
            listed.append({"bytes": size_bytes(weights[:count]), **times})
        return listed

    def unloads(self, weights: Sequence[torch.Tensor]) -> tuple[list[float], list[float]]:
        """Times of giving memory back to the device, and of bringing weights in when it has to be allocated first."""
        held: list[torch.Tensor] = []
        unload_s, load_s = [], []

        def bring() -> None:
            held.extend(_fetched(weights, self.device))

        def drop() -> None:
            held.clear()
            self.device.release()

        self.device.empty_caches()
        for _ in rounds(2 * FEW, self.rule, self.timer):
            load_s.append(self.timer.time(bring).wall_s)
            unload_s.append(self.timer.time(drop).wall_s)
        return unload_s, load_s

    def from_disk(self, module: Any) -> tuple[list[float], dict[str, Any]]:
        """Times of `torch.load` onto the device from a file that is not in the page cache, and how sure that is."""
        weights = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        try:
            with tempfile.TemporaryDirectory(prefix="calibrate-") as folder:
                path = Path(folder) / "weights.pt"
                with path.open("wb") as file:
                    torch.save({name: tensor.detach() for name, tensor in weights.items()}, file)
                    file.flush()
                    os.fsync(file.fileno())
                return self._read_cold(path)
        except OSError as error:
            return [], {"left_out": f"weights could not be written to {tempfile.gettempdir()} ({error.strerror})"}

    def _a_few(self, run: Callable[[], object]) -> list[float]:
        """Times of up to `FEW` runs after one that does not count."""
        self.timer.time(run)
        times_s = []
        for _ in rounds(FEW, self.rule, self.timer):
            self.cool()
            times_s.append(self.timer.time(run).wall_s)
        return times_s

    def _read_cold(self, path: Path) -> tuple[list[float], dict[str, Any]]:
        size = path.stat().st_size
        held: list[Any] = []
        times_s, shares = [], []

        def read() -> None:
            held.append(torch.load(path, self.device.label, weights_only=True))

        for _ in rounds(FEW, self.rule, self.timer):
            dropped = _drop_from_cache(path)
            before = _read_from_storage_bytes()
            times_s.append(self.timer.time(read).wall_s)
            held.clear()
            after = _read_from_storage_bytes()
            if dropped and before is not None and after is not None:
                shares.append((after - before) / size)
        return times_s, {"share_from_storage": min(shares, default=None)}


def _drop_from_cache(path: Path) -> bool:
    """Asks the system to forget the file's pages; it need not, and a file system in memory cannot."""
    if not hasattr(os, "posix_fadvise"):
        return False
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
    return True


def _read_from_storage_bytes() -> int | None:
    """Bytes this process has caused to be fetched from storage (proc(5), io); None where they are not counted."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith("read_bytes:")), None)


def rounds(count: int, rule: StopRule, timer: Timer) -> Iterator[int]:
    """Counts up to `count`, fewer where half the time of the rule is used up, at least one."""
    start_s = timer.now_s()
    for i in range(count):
        if i and timer.now_s() - start_s > rule.seconds / 2:
            return
        yield i


def size_bytes(tensors: Sequence[torch.Tensor]) -> int:
    """Bytes of their numbers."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
