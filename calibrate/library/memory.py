"""Memory: what a process holds at the peak of a batch, besides weights and its context, where nobody measured that."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from math import inf, log
from typing import NamedTuple

from calibrate.library.reading import PRECISIONS
from calibrate.published.names import Architecture
from simulator.world.hardware import GPU
from simulator.world.precision import VALUE_BYTES, value_share
from simulator.world.profile import Evidence, Profile

LIBRARIES_BYTES = 84e6
"""What libraries and the allocator take at any batch: cuBLAS keeps 34 MB on an H200 (8 MB before Hopper), and the
allocator takes its blocks whole. The most that ten networks took of an H200 at batch 1."""
LIBRARIES_GROWTH = 2.0
"""Times the tensors of a batch that are held with room for convolutions' workspace and the allocator's slack: of 46
batches of ten profiles of an H200 in PyTorch all but three need no more, most of large ones 1.2 to 1.9 times. VGG16 at
fp32 takes 2 GB from batch 16 on, where cuDNN has them; where it has not, it chooses another algorithm."""
CARRIED = 1.3
"""Times what was measured on another GPU or in another precision: libraries choose other kernels there. ResNet-50 on an
H200 takes up to 1.26 times what its other precisions say."""
PAST = 1.5
"""The same past the largest measured batch."""
SAME_WORK = 0.1
"""Operations counted by two tools differ by less (natural logarithm), those at two usual inputs by more."""


class Room(NamedTuple):
    """Bytes of a batch besides weights."""

    allocated: float
    """The most that tensors take at once."""
    reserved: float
    """What a plan keeps free for it: with libraries' own workspace and the allocator's slack, never too little."""


RoomOfBatch = Callable[[float], Room]


def room_of(source: Profile | None, held_numbers: float | None, precision: str) -> RoomOfBatch:
    """By batch: from a profile whose memory somebody saw, else from the numbers that layers hold for a sample."""
    each = inf if held_numbers is None else VALUE_BYTES[precision] * held_numbers
    return partial(_by_layers, each) if source is None else partial(_carried, source, each, precision)


def room_in(profile: Profile, held_numbers: float | None, batch: float) -> Room:
    """Of a profile; what layers hold is allocated where nobody measured how much of its memory was."""
    if not profile.workspace.covers(batch):
        return room_of(profile, held_numbers, profile.precision)(batch)
    reserved = profile.workspace(batch)
    if profile.slack is not None:
        return Room(reserved - profile.slack(batch), reserved)
    if held_numbers is None or profile.memory_evidence.rank <= Evidence.ELSEWHERE.rank:
        return Room(reserved, reserved)
    return Room(min(VALUE_BYTES[profile.precision] * held_numbers * batch, reserved), reserved)


def _by_layers(each: float, batch: float) -> Room:
    """ResNet-50 at fp32, 32 pictures of 11 MB: 353 MB of tensors, 790 MB with libraries and the allocator."""
    return Room(each * batch, LIBRARIES_BYTES + LIBRARIES_GROWTH * each * batch)


def _carried(source: Profile, each: float, precision: str, batch: float) -> Room:
    """Past the largest measured batch it grows as the tensors do, and no faster than the profile did.

    230 and 720 MB at batch 1 and 4, which libraries took at once, are no 10 GB at batch 64.
    """
    scale = value_share(precision) / value_share(source.precision)
    last = source.workspace.x[-1]
    within = _scaled(source.workspace(batch), scale)
    if batch <= last:
        return Room(min(each * batch, within), CARRIED * within)
    at_last = _scaled(source.workspace(last), scale)
    grown = min(within, at_last + LIBRARIES_GROWTH * each * (batch - last))
    return Room(min(each * batch, grown), max(CARRIED * at_last, min(PAST * grown, CARRIED * within)))


def _scaled(workspace_bytes: float, scale: float) -> float:
    """What grows with the batch has the size of its numbers; what libraries keep has not."""
    kept = min(workspace_bytes, LIBRARIES_BYTES)
    return kept + scale * (workspace_bytes - kept)


def room_of_counts(
    counts: Architecture, gpu: GPU, precision: str, known: Iterable[Profile], gpus: Mapping[str, GPU]
) -> RoomOfBatch:
    """The same of a network by its counts: from profiles of it whose memory somebody saw, else from its layers."""
    flops = 2 * counts.macs if counts.macs else None
    return room_of(memory_source(known, gpu, precision, flops, gpus), counts.held, precision)


def memory_source(
    known: Iterable[Profile], gpu: GPU, precision: str, flops: float | None, gpus: Mapping[str, GPU]
) -> Profile | None:
    """The profile whose memory, which somebody saw, is most like a pair's; None where nobody saw any.

    What others published of another GPU is left aside: five networks of a V100 are published to hold 1.6 to 16 times
    what an H200 was measured to reserve at batch 4; layers say 1.7 to 2.3 times.
    """
    observed = [
        p
        for p in known
        if p.memory_evidence.rank <= Evidence.FITTED.rank
        and (p.gpu == gpu.name or p.memory_evidence is not Evidence.PUBLISHED)
    ]
    return nearest([p for p in observed if same_work(flops, p.flops_per_sample)], gpu, precision, gpus)


def nearest(known: Iterable[Profile], gpu: GPU, precision: str, gpus: Mapping[str, GPU]) -> Profile | None:
    """The one at the precision, on the GPU, of the strongest evidence, on the likest GPU; None of none."""
    usable = list(known)
    same = [p for p in usable if p.precision == precision] or usable

    def strangeness(p: Profile) -> tuple[int, bool, int, float, str]:
        bandwidths = gpus[p.gpu].memory_bytes_per_s / gpu.memory_bytes_per_s if p.gpu in gpus else inf
        rank = PRECISIONS.index(p.precision), p.gpu != gpu.name, p.memory_evidence.rank
        return *rank, abs(log(bandwidths)), p.gpu

    return min(same, key=strangeness, default=None)


def same_work(one: float | None, other: float | None) -> bool:
    """Whether both take as many operations, as they do at one input; whatever is not known may be the same."""
    return not (one and other) or abs(log(one / other)) < SAME_WORK
