"""Working set against memory levels: the batch at which a layer's data no longer fits a cache, or the memory."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from calibrate.layers.work import Facts, LayerWork
from simulator.world.hardware import GPU
from simulator.world.precision import value_share, weight_share

CATALOG = Path(__file__).parent / "caches.yaml"
CPU = Path("/sys/devices/system/cpu/cpu0/cache")
MEMINFO = Path("/proc/meminfo")
MEMORY = "memory"
"""Name of the level after all caches."""
UNITS = {"K": 2**10, "M": 2**20}
"""Bytes of the units in which Linux states caches."""
JUMP = 1.1
"""Time a sample against the least of smaller batches from which a measured curve has a knee: noise stays below."""


@dataclass(frozen=True, slots=True)
class MemoryLevel:
    """A cache or a memory."""

    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Knee:
    """The batch at which a level ends for a model."""

    level: MemoryLevel
    batch: int
    """The first at which the largest layer's working set no longer fits; 1 where it never did."""
    layer: str
    """The layer that leaves first; empty for the memory itself, which holds all weights and the activations in use."""
    share: float
    """Share of the layers that have left at that batch."""


def working_set_bytes(layer: LayerWork, batch: int, precision: str = "fp32") -> float:
    """Inputs and outputs of a batch, and the weights. 100 B in, 50 B out, 1 kB of weights: at batch 4 it is 1.6 kB."""
    activations = batch * layer.inputs_outputs_bytes
    return weight_share(precision) * layer.weight_bytes + value_share(precision) * activations


def knees(facts: Facts, levels: Sequence[MemoryLevel], precision: str = "fp32") -> tuple[Knee, ...]:
    """For each level the batch from which time a sample is expected to rise, or from which nothing runs."""
    working = [layer for layer in facts.layers if layer.kernels]
    if not working:
        return ()
    return tuple(
        _knee_of_memory(facts, level, precision) if level.name == MEMORY else _knee_of_cache(working, level, precision)
        for level in levels
    )


def _knee_of_memory(facts: Facts, memory: MemoryLevel, precision: str) -> Knee:
    weights = weight_share(precision) * facts.weight_bytes
    activations = value_share(precision) * facts.peak_activation_bytes_per_sample
    batch = first_outside(weights, activations, memory)
    return Knee(level=memory, batch=batch, layer="", share=1.0)


def _knee_of_cache(layers: Sequence[LayerWork], level: MemoryLevel, precision: str) -> Knee:
    firsts = {layer.name: _leaves(layer, level, precision) for layer in layers}
    name = min(firsts, key=firsts.__getitem__)
    outside = sum(first <= firsts[name] for first in firsts.values())
    return Knee(level=level, batch=firsts[name], layer=name, share=outside / len(firsts))


def _leaves(layer: LayerWork, level: MemoryLevel, precision: str) -> int:
    weights_bytes = working_set_bytes(layer, 0, precision)
    return first_outside(weights_bytes, working_set_bytes(layer, 1, precision) - weights_bytes, level)


def first_outside(fixed_bytes: float, sample_bytes: float, level: MemoryLevel) -> int:
    """The least batch n with fixed + n x sample above the level. 1 MB and 2 MB in 6 MB: 3 (7 MB)."""
    free = level.size_bytes - fixed_bytes
    return 1 if free < sample_bytes else int(free // sample_bytes) + 1


def knee_of(times_s: Mapping[int, float]) -> int | None:
    """The first batch whose time a sample is above `JUMP` times the least before it; None where there is none.

    >>> knee_of({1: 1.0, 2: 1.6, 4: 3.2, 8: 9.6})
    8
    """
    least = float("inf")
    for batch, time_s in sorted(times_s.items()):
        if time_s / batch > JUMP * least:
            return batch
        least = min(least, time_s / batch)
    return None


# Levels


def gpu_levels(gpu: GPU) -> tuple[MemoryLevel, ...]:
    """The last cache of a kind of GPU where the catalog knows it, and its memory."""
    entries = yaml.safe_load(CATALOG.read_text(encoding="utf-8"))["l2_mb"]
    cache = (MemoryLevel("L2", int(entries[gpu.name] * 1e6)),) if gpu.name in entries else ()
    return (*cache, MemoryLevel(MEMORY, gpu.memory_bytes))


def cpu_levels(caches: Path = CPU, memory: Path = MEMINFO) -> tuple[MemoryLevel, ...]:
    """Data caches of this machine's first core, and its memory, by Linux; empty elsewhere."""
    levels = sorted(_caches(caches), key=lambda level: level.size_bytes)
    total = re.search(r"MemTotal:\s+(\d+) kB", memory.read_text()) if memory.exists() else None
    if total:
        levels.append(MemoryLevel(MEMORY, 1024 * int(total[1])))
    return tuple(levels)


def _caches(folder: Path) -> Iterator[MemoryLevel]:
    for index in folder.glob("index*"):
        kind, level, size = ((index / name).read_text().strip() for name in ("type", "level", "size"))
        if kind != "Instruction" and (number := re.fullmatch(r"(\d+)([KM])", size)):
            yield MemoryLevel(f"L{level}", int(number[1]) * UNITS[number[2]])
