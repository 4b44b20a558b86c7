"""Layered: the time of a model from its layers, under a layer model of the GPU or under its data sheet's roofline."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from calibrate.layers.work import Facts
from planner.model.plan import Estimate, PredictionRule
from planner.prediction.rules.bands import around, at_least, per_batch, wider
from planner.prediction.rules.carrying import REACHED
from planner.prediction.rules.floors import computed_share
from planner.prediction.rules.grounds import Grounds
from planner.prediction.rules.pairs import PredictedPair
from planner.prediction.rules.roofline import PrecisionError, ceilings, under
from planner.prediction.rules.transfer import ROOFLINE_SPREAD, LayerModel, SampleWork, layer_model
from simulator.world.curves import Curve
from simulator.world.hardware import GPU
from simulator.world.precision import value_share
from simulator.world.profile import Evidence, Profile

LAUNCH_S = 2e-5
"""For the host to launch a kernel from Python: 6 to 65 microseconds in public series, the geometric mean."""
BATCHES = (1, 2, 4, 8, 16, 32)
"""Predicted where no series of another GPU gives them."""
MODELS_MIN = 4
"""Models with known layers measured on a GPU, below which a layer model of it says nothing."""


@dataclass(frozen=True)
class Layered:
    """What layers say of a model on a GPU."""

    grounds: Grounds

    def by_model(self, model: str, gpu: GPU, precision: str, sources: list[Profile]) -> Iterator[PredictedPair]:
        precision = sources[0].precision if sources else precision
        fitted = self._layer_model(gpu.name, precision)
        layers = self.grounds.facts(model) if fitted else None
        if fitted is None or layers is None:
            return

        def time_s(batch: float) -> Estimate:
            return per_batch(fitted(work_of(layers, batch, precision)), batch)

        yield self._from_facts(layers, model, gpu, precision, PredictionRule.LAYER_MODEL, time_s, fitted.probes)

    def _layer_model(self, gpu: str, precision: str) -> LayerModel | None:
        measured = [
            p for (_, name, kind), p in self.grounds.library.profiles.items() if (name, kind) == (gpu, precision)
        ]
        if len(measured) < MODELS_MIN:
            return None
        rows = [
            (p.model, work_of(layers, x, precision), y / x)
            for p in measured
            if (layers := self.grounds.facts(p.model)) is not None
            for x, y in _points(p.latency)
        ]
        if len({name for name, _, _ in rows}) < MODELS_MIN:
            return None
        names, works, times_s = zip(*rows, strict=True)
        return layer_model(names, works, times_s)

    def by_roofline(self, model: str, gpu: GPU, precision: str) -> Iterator[PredictedPair]:
        layers = self.grounds.facts(model)
        if layers is None:
            return

        def time_s(batch: float) -> Estimate:
            return around(roofline_s(layers, gpu, precision, batch), ROOFLINE_SPREAD)

        try:
            yield self._from_facts(layers, model, gpu, precision, PredictionRule.ROOFLINE, time_s, ())
        except PrecisionError:
            return

    def _from_facts(
        self,
        layers: Facts,
        model: str,
        gpu: GPU,
        precision: str,
        rule: PredictionRule,
        time_s: Callable[[float], Estimate],
        probes: tuple[str, ...],
    ) -> PredictedPair:
        least_s = computed_share(layers, gpu, precision) * layers.flops / gpu.peak_flops(precision)
        times = {float(b): at_least(time_s(b), least_s * b) for b in BATCHES}
        return PredictedPair(
            model=model,
            gpu=gpu,
            precision=precision,
            rule=rule,
            source="",
            probes=probes,
            evidence=Evidence.PREDICTED if rule is PredictionRule.LAYER_MODEL else Evidence.ASSUMED,
            latency_s=times,
            footprint=self.grounds.footprint(model, gpu, precision),
            known=None,
            flops=layers.flops,
            least_s=least_s,
            past=lambda batch: at_least(wider(time_s(batch), batch / BATCHES[-1]), least_s * batch),
        )


def work_of(layers: Facts, batch: float, precision: str) -> SampleWork:
    """What one sample of a batch asks of a device."""
    width = value_share(precision)
    moved = sum(layer.moved_bytes for layer in layers.layers)
    return SampleWork(layers.flops, width * moved, width * layers.weight_bytes / batch, layers.kernels / batch)


def roofline_s(layers: Facts, gpu: GPU, precision: str, batch: float) -> float:
    """Each layer at the slowest of its arithmetic, its bytes and its launches, as kernels of models reach them."""
    limits = ceilings(gpu, precision)
    if limits.evidence is Evidence.ASSUMED:
        limits = replace(limits.scaled(REACHED), launch_s=LAUNCH_S)
    return under(layers, limits, int(batch), precision).total_s


def _points(curve: Curve) -> list[tuple[float, float]]:
    return list(zip(curve.x, curve.y, strict=True))
