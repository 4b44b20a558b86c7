"""Grounds: profiles, kinds of GPU and layers, on which predictions rest; and what a model keeps and loads by them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from calibrate.layers.work import Facts, FactsError
from calibrate.library.held import counted, held_numbers, own_layers
from calibrate.library.lookup import Library
from calibrate.library.memory import Room, memory_source, nearest, room_in, room_of
from calibrate.library.reading import PRECISIONS
from calibrate.published import names
from planner.prediction.effects import at_size
from planner.prediction.rules.inputs import is_usual, room_in_order, usual_input
from planner.prediction.rules.pairs import Footprint
from simulator.world.curves import LoadTime
from simulator.world.hardware import GPU
from simulator.world.model import Layer
from simulator.world.precision import FACT_BYTES, weight_share
from simulator.world.profile import Evidence, Profile

LINK_SHARE = 0.77
"""The share of its link that a copy reaches, where no profile tells: the V100 of the Clockwork zoo reaches 12.29 of
16 GB/s."""


@dataclass(frozen=True)
class Grounds:
    """What predictions rest on."""

    library: Library
    gpus: Mapping[str, GPU]
    facts_of: Callable[[str], Facts]

    def facts(self, model: str) -> Facts | None:
        """The model's layers, looked for once; None where they are not known."""
        if model not in self._by_model:
            self._by_model[model] = self._found_facts(model)
        return self._by_model[model]

    def _found_facts(self, model: str) -> Facts | None:
        for name in dict.fromkeys((model, names.architecture(model))):
            try:
                return self.facts_of(name)
            except FactsError:
                continue
        return None

    @cached_property
    def _by_model(self) -> dict[str, Facts | None]:
        return {}

    def footprint(self, model: str, gpu: GPU, precision: str, counts: names.Architecture | None = None) -> Footprint:
        """One rule for every pair: a profile whose memory somebody saw, in numbers of this precision; else its layers.

        Weights are those of one profile whatever the precision, so that two differ by the size of numbers; workspace is
        of a profile at the precision where one was measured. `counts` are of another input, or of a named table.
        """
        known = counts or self._counts(model)
        if not is_usual(known.name, known.input):
            return self._in_order(model, gpu, precision, known)
        flops = 2 * known.macs if known.macs else None
        source = self._memory_source(model, gpu, precision, flops, known.held)
        workspace = room_of(source, known.held, precision)
        context_bytes = self._context_bytes(gpu)
        if source is None:
            load = LoadTime(0.0, self._load_rate(gpu, LINK_SHARE))
            whole = Layer(model, round(weight_share(precision) * FACT_BYTES * (known.params or 0.0)))
            return Footprint((whole,), workspace, load, context_bytes)
        source = self._memory_source(model, gpu, PRECISIONS[0], flops, known.held) or source
        scale = weight_share(precision) / weight_share(source.precision)
        layers = tuple(Layer(layer.key, round(scale * layer.weight_bytes)) for layer in source.layers)
        if source.gpu == gpu.name:
            return Footprint(layers, workspace, source.load, context_bytes)
        link_share = min(1.0, source.load.bytes_per_s / self.gpus[source.gpu].pcie_bytes_per_s)
        load = LoadTime(source.load.t0_s, self._load_rate(gpu, link_share))
        return Footprint(layers, workspace, load, context_bytes)

    def _in_order(self, model: str, gpu: GPU, precision: str, known: names.Architecture) -> Footprint:
        """At another input than the usual one: the same weights, and memory in order with its, a profile's among it."""
        size = usual_input(known.name)
        held = known.held and known.held * names.grown(known.input, size)
        usual = replace(at_size(known, size), input=size, held=held, params=known.params)
        footprint = self.footprint(model, gpu, precision, usual)
        profile = self.library.get(model, gpu.name, precision)
        own = footprint.workspace if known.held is None else room_of(None, known.held, precision)

        def workspace(batch: float) -> Room:
            measured = [room_in(profile, held, batch)] if profile else []
            return room_in_order(known.input, size, [own(batch), footprint.workspace(batch), *measured])

        return replace(footprint, workspace=workspace, layers=profile.layers if profile else footprint.layers)

    def held_numbers(self, model: str) -> float | None:
        """What its layers hold at once for a sample; None where they are not known."""
        return self._counts(model).held

    def _counts(self, model: str) -> names.Architecture:
        """Of its layers, else of published tables; of nothing where neither has it."""
        layers = self.facts(model)
        architecture, size = names.identity(model)
        if layers is not None:
            return replace(counted(layers, architecture), params=layers.weight_bytes / FACT_BYTES)
        known, own = names.facts_of(architecture, size) or _nothing_of(architecture, size), own_layers(architecture)
        params = own.weight_bytes / FACT_BYTES if own else known.params
        return replace(known, held=held_numbers(architecture, size), params=params)

    def _memory_source(
        self, model: str, gpu: GPU, precision: str, flops: float | None, held: float | None
    ) -> Profile | None:
        """The profile whose memory is most like the pair's; without layers also one that only assumes it."""
        known = self.library.for_model(model)
        observed = memory_source(known, gpu, precision, flops, self.gpus)
        return observed or (nearest(known, gpu, precision, self.gpus) if held is None else None)

    def _context_bytes(self, gpu: GPU) -> int | None:
        """The most that a process held on the GPU beside any model that was measured there."""
        held = (p.context_bytes for (_, name, _), p in self.library.profiles.items() if name == gpu.name)
        return max((size for size in held if size is not None), default=None)

    def _load_rate(self, gpu: GPU, link_share: float) -> float:
        """Median of what profiles on the GPU load at: bandwidth is the device's; without any, a share of its link."""
        rates = sorted(
            p.load.bytes_per_s
            for (_, name, _), p in self.library.profiles.items()
            if name == gpu.name and p.load_evidence.rank <= Evidence.FITTED.rank
        )
        return rates[len(rates) // 2] if rates else link_share * gpu.pcie_bytes_per_s


def _nothing_of(architecture: str, size: str) -> names.Architecture:
    return names.Architecture(name=architecture, input=size, params=None, macs=None, activations=None)
