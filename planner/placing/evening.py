"""Evening: a packing whose GPUs are equally busy in the batches they really run, as nearly as a few rounds find it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from planner.placing.cutting import FleetGpu
from planner.placing.duty import offered_load
from planner.placing.packing import Misfit, Packer, Packing, portions_of
from planner.placing.sizing import Kind

ROUNDS = 4
"""How often shares are set anew by the batches that the last ones allow."""


def evenly(packer: Packer, devices: Sequence[FleetGpu]) -> Packing | Misfit:
    """All GPUs equally busy in the batches that are allowed on them, as nearly as a few rounds find it."""
    best = packer.pack(devices)
    last = best
    for _ in range(ROUNDS):
        if isinstance(last, Misfit):
            break
        packer.work = _work_of(last)
        last = packer.pack(devices)
        if isinstance(last, Packing) and (isinstance(best, Misfit) or last.work < best.work):
            best = last
    return best


def _work_of(packing: Packing) -> Mapping[tuple[str, Kind], float]:
    """GPUs that all requests of a model would keep busy on each kind, in the batches that are allowed there."""
    busy: dict[tuple[str, Kind], float] = defaultdict(float)
    share: dict[tuple[str, Kind], float] = defaultdict(float)
    for p in packing.placed:
        cell = p.portion.sized.model, p.devices[0].kind
        busy[cell] += sum(offered_load([portion], [p.batch_size_max]) for portion in portions_of(p))
        share[cell] += p.portion.share
    return {cell: busy[cell] / share[cell] for cell in busy}
