"""Candidates: what may be bought and how models share its memory, by name and number."""

from dataclasses import dataclass
from enum import StrEnum

from planner.model.parts.merging import Merging


class Memory(StrEnum):
    """How models share the memory of their GPUs."""

    RESIDENT = "resident"
    """All stay."""
    SWAPPED = "swapped"
    """They take turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineType:
    """A type of machine on offer, before anyone asks how many."""

    provider: str
    region: str
    instance: str
    gpu: str
    gpu_count: int
    """GPUs in one machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines(MachineType):
    """So many machines of one type."""

    count: int
    ambiguous: bool = False
    """Whether the type is on offer at several places, so that its name alone does not tell which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A fleet, and how models share its memory."""

    machines: tuple[Machines, ...]
    memory: Memory | None = None
    """None where nothing was placed."""
    merging: Merging = Merging.NONE

    @property
    def gpu_count(self) -> int:
        """GPUs of all machines."""
        return sum(one.count * one.gpu_count for one in self.machines)


@dataclass(frozen=True, slots=True, kw_only=True)
class OnGpu:
    """Models on a kind of GPU; the kind itself where no model is named."""

    gpu: str
    models: tuple[str, ...] = ()
