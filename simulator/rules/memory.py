"""What is resident on a GPU, layer by layer; what must be loaded and what must give way. No clock in here."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from simulator.world.deployment import Eviction
from simulator.world.model import Layer


@dataclass(slots=True)
class Residency:
    """The memory of one GPU: context + union of resident layers + workspace of what runs, never above the limit."""

    limit_bytes: int
    context_bytes: int
    resident: dict[str, int] = field(default_factory=dict)
    """Bytes by layer key, least recently used first."""
    weight_bytes: int = 0
    """Sum of `resident`, kept up to date."""
    workspace_bytes: int = 0
    """Of the batch that runs now."""

    @property
    def used_bytes(self) -> int:
        """All that is taken now."""
        return self.context_bytes + self.weight_bytes + self.workspace_bytes

    def fits(self, coming_bytes: int, workspace_bytes: int) -> bool:
        """Whether so much more, with that workspace, has room beside all that is here."""
        return self.context_bytes + self.weight_bytes + coming_bytes + workspace_bytes <= self.limit_bytes

    def missing(self, layers: Iterable[Layer]) -> list[Layer]:
        """Those of `layers` that are not here."""
        return [layer for layer in layers if layer.key not in self.resident]

    def touch(self, layers: Iterable[Layer]) -> None:
        """Mark `layers` as used most recently."""
        for layer in layers:
            self.resident[layer.key] = self.resident.pop(layer.key)

    def add(self, layers: Iterable[Layer]) -> None:
        """Make room-checked `layers` resident."""
        for layer in layers:
            self.resident[layer.key] = layer.weight_bytes
            self.weight_bytes += layer.weight_bytes

    def evict(self, keys: Iterable[str]) -> None:
        """Free layers at once."""
        for key in keys:
            self.weight_bytes -= self.resident.pop(key)

    def victims(
        self, coming_bytes: int, workspace_bytes: int, keep: frozenset[str], order: Sequence[str]
    ) -> list[str] | None:
        """Fewest layers in `order` that must go so that `coming_bytes` and `workspace_bytes` fit; None: it cannot be.

        Limit 10, context 1, resident a=4 and b=3: 3 more bytes and a workspace of 1 need 2 freed, so one layer goes.
        """
        excess = self.context_bytes + self.weight_bytes + coming_bytes + workspace_bytes - self.limit_bytes
        chosen: list[str] = []
        for key in order:
            if excess <= 0:
                break
            if key not in keep:
                chosen.append(key)
                excess -= self.resident[key]
        return chosen if excess <= 0 else None


def eviction_order(
    resident: Sequence[str],
    policy: Eviction,
    next_use: Callable[[str], tuple[float, int]],
    worth: Callable[[str], float],
) -> list[str]:
    """Layer keys in the order in which they should go. `resident` comes least recently used first.

    `next_use(key)`: when the layer is needed next, and after how many turns. `worth(key)`: seconds of loading that
    keeping it has saved, per byte.
    """
    match policy:
        case Eviction.LRU:
            return list(resident)
        case Eviction.MRU:
            return list(reversed(resident))
        case Eviction.LOOKAHEAD:
            return sorted(resident, key=next_use, reverse=True)
        case Eviction.COST:
            return sorted(resident, key=worth)
