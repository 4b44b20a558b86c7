"""Packed: all models on the GPUs of a fleet, or what stands in the way."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import exp, inf

from planner.model.plan import Bottleneck
from planner.placing.cutting import CutReplica, FleetGpu
from planner.placing.duty import Portion, Shortage, batch_cap, context_bytes, offered_load, parts_of, weight_bytes
from planner.placing.packing.contents import Content, added

SHARE_SAME = 1e-9
"""Shares that differ by less are the same, but for rounding."""


@dataclass(frozen=True, slots=True)
class Placed:
    """One replica: a part of a model on one GPU, or on several as pipeline stages."""

    portion: Portion
    devices: tuple[FleetGpu, ...]
    batch_size_max: int
    batch_size_fit: int
    """Largest that memory allows beside its neighbours."""
    worst_s: float
    """Its worst latency by the duty cycle."""
    swapped: bool
    short: Callable[[], Shortage] = field(compare=False)
    """Works out what its GPU is short of first when load grows: that takes long, and few are asked."""


@dataclass(frozen=True, slots=True)
class Packing:
    """All models on the GPUs of a fleet."""

    placed: tuple[Placed, ...]
    strain: float
    """The highest of any GPU; see `Duty.strain`."""
    worst: str
    """The model that sets it."""
    work: float
    """Share of its time that the busiest GPU works in batches as large as are allowed there; above 1 - headroom the
    plan is rejected."""
    busiest: str
    """The model with most work on that GPU."""
    held_back: bool = False
    """Whether memory keeps a batch on some GPU below what its SLO allows."""

    def contents(self, devices: Sequence[FleetGpu]) -> list[Content]:
        """The whole models on each GPU, as `Packer.place` takes them."""
        here: dict[str, Content] = dict.fromkeys((device.id for device in devices), ())
        for p in self.placed:
            if len(p.devices) == 1:
                here[p.devices[0].id] = added(here[p.devices[0].id], p.portion.sized.model, p.portion.share)
        return list(here.values())

    @property
    def doubted(self) -> bool:
        """Whether some speed on it has a band, for the user did not measure it."""
        return any(p.portion.sized.profile.doubt for p in self.placed)

    @property
    def work_at_middle(self) -> float:
        """The same work were all uncertain speeds at the middle of their bands; what is planned with is at the slow
        end."""
        work, _ = busiest_device(self.placed, at_middle)
        return work

    @property
    def spans(self) -> tuple[CutReplica, ...]:
        """The replicas that are cut over several GPUs."""
        return tuple(CutReplica(p.portion.sized, p.portion.share, p.devices) for p in self.placed if len(p.devices) > 1)

    def with_batches(self, sizes: Sequence[int]) -> "Packing":
        """The same placement with other largest batches."""
        placed = tuple(replace(p, batch_size_max=n) for p, n in zip(self.placed, sizes, strict=True))
        work, busiest = busiest_device(placed)
        return replace(self, placed=placed, work=work, busiest=busiest)

    def with_batches_of(self, model: str, sizes: Sequence[int]) -> "Packing":
        """The same placement with other largest batches of one model."""
        mine = (p.portion.sized.model == model for p in self.placed)
        chosen = [n if own else p.batch_size_max for p, n, own in zip(self.placed, sizes, mine, strict=True)]
        return self.with_batches(chosen)

    def replays_like(self, other: "Packing") -> bool:
        """Whether a replay could not tell the two apart: shares may differ by rounding."""
        return len(self.placed) == len(other.placed) and all(
            a.portion.sized is b.portion.sized
            and abs(a.portion.share - b.portion.share) < SHARE_SAME
            and (a.devices, a.batch_size_max) == (b.devices, b.batch_size_max)
            for a, b in zip(self.placed, other.placed, strict=True)
        )


def as_planned(_: Placed) -> float:
    """Times as they are planned with."""
    return 1.0


def at_middle(placed: Placed) -> float:
    """Its time at the middle of its prediction's band, over that which is planned with. 1 standard deviation of 0.7
    above the middle: 0.5."""
    doubt = placed.portion.sized.profile.doubt
    return exp(-doubt.quantile * doubt.error_sd(placed.batch_size_max)) if doubt else 1.0


def busiest_device(placed: Sequence[Placed], time_ratio: Callable[[Placed], float] = as_planned) -> tuple[float, str]:
    """Offered load of the busiest GPU, every batch as large as is allowed there, and the model with most of it."""
    each = ((sum(load for load, _ in here), max(here)[1]) for here in device_loads(placed, time_ratio))
    return max(each, default=(0.0, ""))


def device_loads(
    placed: Sequence[Placed], time_ratio: Callable[[Placed], float] = as_planned
) -> list[list[tuple[float, str]]]:
    """Of each GPU that holds any, the offered load of each model."""
    loads: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for p in placed:
        for device, portion in zip(p.devices, portions_of(p), strict=True):
            load = offered_load([portion], [p.batch_size_max]) * time_ratio(p)
            loads[device.id].append((load, portion.sized.model))
    return list(loads.values())


def models_bytes(placed: Sequence[Placed], device: FleetGpu) -> float:
    """GPU memory that the models on a GPU take with their context, streams of video aside: all weights and the largest
    batch, or those of the largest model where they take turns; 0 where there are none."""
    here = [(portions_of(p)[p.devices.index(device)], p) for p in placed if device in p.devices]
    if not here:
        return 0
    portions = [portion for portion, _ in here]
    batches = [portion.sized.profile.workspace(p.batch_size_max) for portion, p in here]
    alone = max(portion.weight_bytes + batch for portion, batch in zip(portions, batches, strict=True))
    turns = any(p.swapped for _, p in here)
    return _context_alone_bytes(portions) + (alone if turns else weight_bytes(portions) + max(batches))


def _context_alone_bytes(portions: Sequence[Portion]) -> int:
    """Context of the process of these models, without what streams of video hold."""
    return max(p.sized.context_bytes - p.sized.streams_bytes for p in portions)


def load_within(placed: Sequence[Placed], device: FleetGpu, room_bytes: float) -> float:
    """Offered load of a GPU in the largest batches that are allowed and that `room_bytes` hold with context and
    weights; infinite where they hold not even one request."""
    here = [(portions_of(p)[p.devices.index(device)], p) for p in placed if device in p.devices]
    portions = [portion for portion, _ in here]
    together = weight_bytes(portions)
    batches: list[int] = []
    for portion, p in here:
        weights = portion.weight_bytes if p.swapped else together
        most = batch_cap(portion, room_bytes - _context_alone_bytes(portions) - weights)
        batches.append(min(most, p.batch_size_max))
    return offered_load(portions, batches) if all(batches) else inf


def workspace_room_bytes(placed: Placed, among: Sequence[Placed]) -> float:
    """GPU memory left for a batch of a replica on its fullest GPU: beside the context and all weights that stay there,
    or its own weights where models take turns."""

    def left_bytes(device: FleetGpu) -> float:
        beside = [portions_of(p)[p.devices.index(device)] for p in among if p is not placed and device in p.devices]
        own = portions_of(placed)[placed.devices.index(device)]
        held = [own] if placed.swapped else [own, *beside]
        return device.kind.memory_bytes - context_bytes([own, *beside]) - weight_bytes(held)

    return min(map(left_bytes, placed.devices))


def portions_of(placed: Placed) -> list[Portion]:
    """What each of its GPUs has of a replica."""
    whole, count = placed.portion, len(placed.devices)
    if count == 1:
        return [whole]
    return [replace(whole, part=part) for part in parts_of(whole.sized, count)]


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why no packing can exist on this fleet, or none was found."""

    bottleneck: Bottleneck
    observed: float
    """Bytes on a GPU or host, or number of GPUs."""
    limit: float
    model: str


def joined(span: CutReplica, stages: Sequence[Placed]) -> Placed:
    """A replica cut over several GPUs: its batches are those that every stage bears."""
    worst = max(stages, key=lambda stage: stage.worst_s)
    return Placed(
        Portion(span.sized, span.share),
        span.devices,
        min(stage.batch_size_max for stage in stages),
        min(stage.batch_size_fit for stage in stages),
        sum(stage.worst_s for stage in stages),
        any(stage.swapped for stage in stages),
        worst.short,
    )
