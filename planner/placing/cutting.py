"""Cutting: which models are cut into pipeline stages, and over which GPUs of one machine."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, product

from planner.placing.duty import parts_of
from planner.placing.sizing import Kind, Sized, SizedModels

PLANS_MAX = 8
"""Ways to cut that are tried on one fleet: with more models than that, those that must be cut come first."""


@dataclass(frozen=True, slots=True)
class FleetGpu:
    """One GPU of a fleet."""

    id: str
    host: str
    kind: Kind
    host_memory_bytes: int | None = None
    cores: int = 0
    """Of the processor of its machine."""
    machines: int = 0
    """Place of its machine's type among those that are bought."""
    slot: int = 0
    """Its place in its machine."""


@dataclass(frozen=True, slots=True)
class CutReplica:
    """A replica of a model that is cut over several GPUs of one machine."""

    sized: Sized
    share: float
    """Of the model's requests."""
    devices: tuple[FleetGpu, ...]


Machine = tuple[FleetGpu, ...]
"""The GPUs of one host."""


def machines_of(devices: Sequence[FleetGpu]) -> list[Machine]:
    """GPUs by host, which stand next to each other."""
    return [tuple(group) for _, group in groupby(devices, key=lambda device: device.host)]


def needed_spans(
    models: Sequence[str], sized: SizedModels, devices: Sequence[FleetGpu], headroom: float
) -> tuple[CutReplica, ...] | str:
    """Replicas of the models that no single GPU holds, each over as few GPUs as hold it; the first model for which
    there are not enough GPUs, by name."""
    must = too_large(models, sized, {device.kind for device in devices})
    return _Cutter(sized, devices, headroom).cut(must, widest=False, everywhere=False)


def ways_to_cut(
    models: Sequence[str], sized: SizedModels, devices: Sequence[FleetGpu], headroom: float
) -> Iterator[tuple[CutReplica, ...]]:
    """Different ways to cut models over the GPUs of their machines, the simplest first.

    Those too large for one GPU, over as few GPUs as hold them, over all of a machine, and on every machine; then all
    models over all GPUs of a machine, so that each may use what the others leave free (AlpaServe, OSDI'23); then one
    model at a time.
    """
    seen: list[tuple[CutReplica, ...]] = []
    must = too_large(models, sized, {device.kind for device in devices})
    for way in _ways(models, must, devices):
        spans = _Cutter(sized, devices, headroom).cut(way.models, widest=way.widest, everywhere=way.everywhere)
        if not isinstance(spans, str) and spans not in seen:
            seen.append(spans)
            yield spans
        if len(seen) == PLANS_MAX:
            return


@dataclass(frozen=True, slots=True)
class _Way:
    """Which models are cut, and how widely."""

    models: list[str]
    widest: bool
    """Over all GPUs of a machine, rather than as few as hold a model."""
    everywhere: bool
    """On every machine, rather than on as few as the work needs."""


def _ways(models: Sequence[str], must: list[str], devices: Sequence[FleetGpu]) -> Iterator[_Way]:
    for everywhere, widest in product((False, True), repeat=2):
        yield _Way(must, widest, everywhere)
    if all(len(machine) == 1 for machine in machines_of(devices)):
        return
    yield _Way(list(models), widest=True, everywhere=True)
    for model in models:
        if model not in must:
            yield _Way([*must, model], widest=True, everywhere=True)


def too_large(models: Iterable[str], sized: SizedModels, kinds: Collection[Kind]) -> list[str]:
    """Models that no single GPU of these kinds holds."""
    return [m for m in models if not any((m, k) in sized and sized[m, k].batches[0] for k in kinds)]


class _Cutter:
    """Gives models GPUs, those with least work on them first."""

    def __init__(self, sized: SizedModels, devices: Sequence[FleetGpu], headroom: float) -> None:
        self.sized = sized
        self.machines = machines_of(devices)
        self.headroom = headroom
        self.work: dict[str, float] = defaultdict(float)
        """By GPU: share of its time that the stages on it take."""

    def cut(self, models: Sequence[str], *, widest: bool, everywhere: bool) -> tuple[CutReplica, ...] | str:
        """Each model over as few GPUs as hold it, or all of a machine; on as few machines as its work needs, or on all
        that hold it."""
        spans: list[CutReplica] = []
        for model in models:
            able = [m for m in self.machines if self._stages(model, m, widest)]
            if not able:
                return model
            chosen = self._chosen(model, able, widest, everywhere)
            speeds = [len(devices) / sized.design_work for sized, devices in chosen]
            for (sized, devices), speed in zip(chosen, speeds, strict=True):
                share = speed / sum(speeds)
                spans.append(CutReplica(sized, share, devices))
                self._note(spans[-1])
        return tuple(spans)

    def _stages(self, model: str, machine: Machine, widest: bool) -> int:
        """GPUs of a machine that a replica spans; 0 where it cannot be cut over them."""
        sized = self.sized.get((model, machine[0].kind))
        if sized is None:
            return 0
        fewest = next((k for k, most in enumerate(sized.batches, start=1) if k > 1 and most), 0)
        if not fewest or fewest > len(machine):
            return 0
        return len(machine) if widest else fewest

    def _chosen(
        self, model: str, able: Sequence[Machine], widest: bool, everywhere: bool
    ) -> list[tuple[Sized, tuple[FleetGpu, ...]]]:
        """GPUs of each replica, no GPU twice: as many as the model's work needs, or as there are."""
        groups = [group for machine in able for group in self._groups(machine, self._stages(model, machine, widest))]
        chosen: list[tuple[Sized, tuple[FleetGpu, ...]]] = []
        carried = 0.0
        for devices in sorted(groups, key=lambda group: sum(self.work[c.id] for c in group) / len(group)):
            if carried >= 1 - 1e-9 and not everywhere:
                break
            sized = self.sized[model, devices[0].kind]
            chosen.append((sized, devices))
            carried += (1 - self.headroom) * len(devices) / sized.design_work
        return chosen

    def _groups(self, machine: Machine, count: int) -> list[tuple[FleetGpu, ...]]:
        """GPUs of a machine in groups of `count`, those with least work together."""
        calm = sorted(machine, key=lambda device: self.work[device.id])
        groups = [calm[i : i + count] for i in range(0, len(calm) - count + 1, count)]
        return [tuple(device for device in machine if device in group) for group in groups]

    def _note(self, span: CutReplica) -> None:
        parts = parts_of(span.sized, len(span.devices))
        total = span.sized.profile.weight_bytes
        for device, part in zip(span.devices, parts, strict=True):
            self.work[device.id] += span.share * span.sized.design_work * part.weight_bytes / total
