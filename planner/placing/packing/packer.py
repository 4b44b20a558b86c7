"""Packer: models assigned to the GPUs of a fleet, and what keeps them from it."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from math import ceil, inf

from planner.model.plan import Bottleneck
from planner.placing.cutting import CutReplica, FleetGpu, needed_spans
from planner.placing.duty import (
    Duty,
    Portion,
    Rules,
    caps_with_slack,
    context_bytes,
    duty_cycle,
    gives_way,
    held_back,
    held_bytes,
    least_load,
    weight_bytes,
)
from planner.placing.packing.contents import Content
from planner.placing.packing.fills import Fills
from planner.placing.packing.improving import Improving
from planner.placing.packing.packed import Misfit, Packing, Placed, busiest_device, joined
from planner.placing.packing.starts import Starts
from planner.placing.sizing import Kind, SizedModels
from simulator.world.profile import WeightSource

APART = 8.0
"""How many times its work a model counts that gets GPUs of its own; they are busy to about an eighth of the others."""


class Packer:
    """Assigns models to single GPUs: a start, then moves and swaps away from the most strained GPU."""

    def __init__(
        self,
        models: Sequence[str],
        sized: SizedModels,
        rules: Rules,
        seed: int = 0,
        even: bool = False,
        apart: Collection[str] = (),
        spans: Sequence[CutReplica] | None = None,
    ) -> None:
        self.models = models
        self.sized = sized
        self.rules = rules
        self.seed = seed
        self.even = even
        """Keep all GPUs equally busy, with as many replicas as that takes, rather than as few as the work needs."""
        self.apart = apart
        """Models that share no GPU with others; a Misfit where no GPUs can be spared for them."""
        self.spans = spans
        """Replicas that are cut over several GPUs; where not given, of the models that no single GPU holds."""
        self.work: Mapping[tuple[str, Kind], float] = {}
        """GPUs that all requests of a model keep busy on each kind, by which `even` goes; else the least."""
        self.fills = Fills(models, sized, rules)

    def pack(self, devices: Sequence[FleetGpu]) -> Packing | Misfit:
        """The least strained packing that was found, or what stands in the way."""
        spans: Sequence[CutReplica] | str | None = self.spans
        if spans is None:
            spans = needed_spans(self.models, self.sized, devices, self.rules.headroom)
        if isinstance(spans, str):
            return Misfit(Bottleneck.GPU_COUNT, len(devices), len(devices) + 1, spans)
        cut = {span.sized.model for span in spans}
        whole = [m for m in self.models if m not in cut]
        packer = self if len(whole) == len(self.models) else self._for(whole)
        packer.fills.pin(spans)
        return packer.pack_whole(devices, spans)

    def _for(self, models: Sequence[str]) -> "Packer":
        return Packer(models, self.sized, self.rules, self.seed, self.even, self.apart)

    def pack_whole(self, devices: Sequence[FleetGpu], spans: Sequence[CutReplica] = ()) -> Packing | Misfit:
        """Pack models that need one GPU each, besides stages that stay where they are."""
        filled: list[Content] | None = [()] * len(devices)
        if self.models:
            filled = self.fill(devices)
        return self._no_kind(devices) if filled is None else self.place(devices, filled, spans)

    def place(
        self, devices: Sequence[FleetGpu], contents: Sequence[Content], spans: Sequence[CutReplica] = ()
    ) -> Packing | Misfit:
        """The packing with these contents on the GPUs, besides stages that stay where they are."""
        placed: list[Placed] = []
        stages: dict[tuple[str, str], Placed] = {}
        most, worst, short_of_memory = 0.0, "", False
        for content, device in zip(contents, devices, strict=True):
            portions = self.fills.portions(content, self.fills.slot(device))
            if not portions:
                continue
            on_device = self._on_device(portions, device)
            if isinstance(on_device, Misfit):
                return on_device
            here, duty = on_device
            most, worst = max((most, worst), (duty.strain, duty.worst))
            short_of_memory |= held_back(portions, duty.fits)
            placed += [one for one in here if one.portion.part is None]
            stages |= {(one.portion.sized.model, device.id): one for one in here if one.portion.part}
        placed += [joined(span, [stages[span.sized.model, device.id] for device in span.devices]) for span in spans]
        work, busiest = busiest_device(placed)
        packing = Packing(tuple(placed), most, worst, work, busiest, short_of_memory)
        return self._too_much_for_hosts(placed) or packing

    def _on_device(self, portions: Sequence[Portion], device: FleetGpu) -> tuple[list[Placed], Duty] | Misfit:
        """What is on one GPU, and its duty cycle."""
        duty = duty_cycle(portions, device.kind, self.rules)
        if duty is None:
            return self._no_memory(portions, device)
        short = partial(gives_way, portions, device.kind, self.rules)
        caps = caps_with_slack(portions, duty, self.rules)
        swapped = duty.swapped and not self._fit_together(portions, caps, device)
        parts = zip(portions, caps, duty.fits, duty.worst_s, strict=True)
        return [Placed(p, (device,), cap, fit, worst_s, swapped, short) for p, cap, fit, worst_s in parts], duty

    def busy_at_least(self, devices: Sequence[FleetGpu]) -> float:
        """Part of its time that the busiest of these GPUs is busy at least, wherever models stand."""
        loads = {cell: least_load(Portion(sized, 1.0)) for cell, sized in self.sized.items() if sized.batches[0]}
        return Starts(self.fills, loads).busy_at_least(devices)

    def fill(self, devices: Sequence[FleetGpu]) -> list[Content] | None:
        """What each GPU holds; None where some model fits none."""
        if self.apart:
            return self._fill_apart(devices)
        starts = Starts(self.fills, self.work)
        spread = starts.wrapped(devices)
        if spread is None or self.even:
            return spread
        found = [starts.by_program(devices), starts.by_kinds(devices), spread]
        if starts.sharers:
            found.append(starts.wrapped(devices, starts.sharers))
        return Improving(self.fills, self.seed).best_of(devices, [start for start in found if start is not None])

    def relieved(self, devices: Sequence[FleetGpu]) -> Packing | Misfit | None:
        """Packed as if no part of a GPU were kept free, and each too busy one relieved of just what must go; None where
        no model is cut for what is kept free, or there is one GPU."""
        starts = Starts(self.fills, self.work)
        is_asked = len(devices) > 1 and starts.cut_for_headroom({device.kind for device in devices})
        contents = starts.relieved(devices) if is_asked else None
        return None if contents is None else self.place(devices, contents)

    def _fill_apart(self, devices: Sequence[FleetGpu]) -> list[Content] | None:
        """Some models evenly on the GPUs that serve them fastest, the others on the rest."""
        mine = [m for m in self.models if m in self.apart]
        theirs = [m for m in self.models if m not in self.apart]
        count = self._gpus_apart(mine, theirs, devices)
        if not count:
            return None
        fastest_first = sorted(range(len(devices)), key=lambda j: self._least_work_of(mine, [devices[j]]))
        contents: list[Content] = [()] * len(devices)
        for models, places in ((mine, fastest_first[:count]), (theirs, fastest_first[count:])):
            packer = Packer(models, self.sized, self.rules, self.seed, even=models is mine)
            filled = packer.fill([devices[j] for j in places])
            if filled is None:
                return None
            for j, content in zip(places, filled, strict=True):
                contents[j] = content
        return contents

    def _gpus_apart(self, mine: Sequence[str], theirs: Sequence[str], devices: Sequence[FleetGpu]) -> int:
        """How many GPUs some models get of their own; 0 where the others can spare none."""
        work = self._least_work_of(mine, devices)
        others_work = self._least_work_of(theirs, devices)
        spare = len(devices) - ceil(others_work / (1 - self.rules.headroom))
        if not mine or not theirs or spare < 1:
            return 0
        wanted = round(len(devices) * APART * work / (APART * work + others_work))
        return min(max(1, wanted), spare)

    def _least_work_of(self, models: Sequence[str], devices: Sequence[FleetGpu]) -> float:
        return sum(self._least_work(model, devices) for model in models)

    def _least_work(self, model: str, devices: Sequence[FleetGpu]) -> float:
        """GPUs that are busy with a model at least, on the fastest of these; infinite where none holds it."""
        kinds = {device.kind for device in devices if self.fills.fits(model, device.kind)}
        return min((self.sized[model, kind].least_work for kind in kinds), default=inf)

    def _fit_together(self, portions: Sequence[Portion], caps: Sequence[int], device: FleetGpu) -> bool:
        workspace = max(p.sized.profile.workspace(cap) for p, cap in zip(portions, caps, strict=True))
        return context_bytes(portions) + weight_bytes(portions) + workspace <= device.kind.memory_bytes

    def _no_memory(self, portions: Sequence[Portion], device: FleetGpu) -> Misfit:
        largest = max(portions, key=lambda p: p.sized.profile.weight_bytes)
        held = held_bytes(portions, self.rules)
        return Misfit(Bottleneck.MEMORY, held, device.kind.memory_bytes, largest.sized.model)

    def _too_much_for_hosts(self, placed: Sequence[Placed]) -> Misfit | None:
        """A host keeps a copy of every weight it serves, unless they come from disk."""
        if self.rules.source is WeightSource.DISK:
            return None
        by_host: dict[str, list[Placed]] = defaultdict(list)
        for p in placed:
            by_host[p.devices[0].host].append(p)
        for here in by_host.values():
            held, limit = weight_bytes(p.portion for p in here), here[0].devices[0].host_memory_bytes
            if limit is not None and held > limit:
                return Misfit(Bottleneck.HOST_MEMORY, held, limit, here[0].portion.sized.model)
        return None

    def _no_kind(self, devices: Sequence[FleetGpu]) -> Misfit:
        kinds = {device.kind for device in devices}
        model = next((m for m in self.models if not any(self.fills.fits(m, k) for k in kinds)), self.models[0])
        return Misfit(Bottleneck.GPU_COUNT, len(devices), len(devices) + 1, model)
