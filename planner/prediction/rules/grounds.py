"""Grounds: profiles, kinds of GPU and layers, on which predictions rest; and what a model keeps and loads by them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from math import inf, log

from calibrate.layers.work import Facts, FactsError
from calibrate.library.held import held_numbers
from calibrate.library.lookup import Library
from calibrate.library.reading import PRECISIONS
from calibrate.published import names
from planner.model.plan import Estimate
from planner.prediction.rules.bands import around
from planner.prediction.rules.pairs import Footprint
from simulator.world.curves import LoadTime
from simulator.world.hardware import GPU
from simulator.world.model import Layer
from simulator.world.precision import value_share, weight_share
from simulator.world.profile import Evidence, Profile

WORKSPACE_SPREAD = 0.15
"""Of workspace on another GPU: libraries choose other kernels, which need other room."""
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

    def footprint(self, model: str, gpu: GPU, precision: str) -> Footprint:
        """One rule for every pair: a profile whose memory somebody saw, in numbers of this precision; else its layers.

        Weights are those of one profile whatever the precision, so that two differ by the size of numbers; workspace is
        of a profile at the precision where one was measured.
        """
        facts = self.facts(model)
        source = self._memory_source(model, gpu, precision, facts)
        workspace = partial(workspace_of, source, facts, precision)
        context_bytes = self._context_bytes(gpu)
        if source is None:
            load = LoadTime(0.0, self._load_rate(gpu, LINK_SHARE))
            held = _counted(model, precision) if facts is None else (facts.weight_bytes, workspace)
            whole = Layer(model, round(weight_share(precision) * held[0]))
            return Footprint((whole,), held[1], load, context_bytes)
        source = self._memory_source(model, gpu, PRECISIONS[0], facts) or source
        scale = weight_share(precision) / weight_share(source.precision)
        layers = tuple(Layer(layer.key, round(scale * layer.weight_bytes)) for layer in source.layers)
        if source.gpu == gpu.name:
            return Footprint(layers, workspace, source.load, context_bytes)
        link_share = min(1.0, source.load.bytes_per_s / self.gpus[source.gpu].pcie_bytes_per_s)
        load = LoadTime(source.load.t0_s, self._load_rate(gpu, link_share))
        return Footprint(layers, workspace, load, context_bytes)

    def _memory_source(self, model: str, gpu: GPU, precision: str, facts: Facts | None) -> Profile | None:
        """The profile whose memory is most like the pair's; None where the layers say more."""
        known = self.library.for_model(model)
        observed = [p for p in known if p.memory_evidence.rank <= Evidence.FITTED.rank]
        usable = observed or ([] if facts else known)
        same = [p for p in usable if p.precision == precision] or usable

        def strangeness(p: Profile) -> tuple[int, bool, int, float, str]:
            bandwidths = self.gpus[p.gpu].memory_bytes_per_s / gpu.memory_bytes_per_s if p.gpu in self.gpus else inf
            rank = PRECISIONS.index(p.precision), p.gpu != gpu.name, p.memory_evidence.rank
            return *rank, abs(log(bandwidths)), p.gpu

        return min(same, key=strangeness, default=None)

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


def _counted(model: str, precision: str) -> tuple[float, Callable[[float], Estimate]]:
    """Bytes of weights at 4 bytes a number and those that a batch needs, of an architecture known by its counts."""
    architecture, size = names.identity(model)
    counted = names.facts_of(architecture, size)
    assert counted is not None  # which the time came from
    each = 4 * value_share(precision) * (held_numbers(architecture, size) or 0.0)
    return 4 * (counted.params or 0.0), lambda batch: around(each * batch, 2 * WORKSPACE_SPREAD)


def workspace_of(source: Profile | None, layers: Facts | None, precision: str, batch: float) -> Estimate:
    """Bytes that a batch needs besides weights, from a profile on any GPU at any precision, or from layers.

    Past the largest measured batch it grows with the activations of the layers, and no faster than the profile did:
    230 and 720 MB at batch 1 and 4, which libraries took at once, are no 10 GB at batch 64.
    """
    each = inf if layers is None else value_share(precision) * layers.peak_activation_bytes_per_sample
    if source is None:
        return around(each * batch, 2 * WORKSPACE_SPREAD)
    scale = value_share(precision) / value_share(source.precision)
    last = source.workspace.x[-1]
    if batch <= last:
        return around(scale * source.workspace(batch), WORKSPACE_SPREAD)
    grown = scale * source.workspace(last) + each * (batch - last)
    return around(min(scale * source.workspace(batch), grown), 2 * WORKSPACE_SPREAD)
